//! Refresh tokens, known by their hash only, each usable once.

use access_model::{Principal, Thumbprint, UnixTime};

use super::{Db, DbError, rows};

/// A refresh token that was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefreshToken {
    /// Hash of the secret; the secret itself is never stored.
    pub hash: String,
    /// For whom it gives a new token.
    pub principal: Principal,
    /// For which server.
    pub audience: String,
    /// The client certificate that has to ask.
    pub confirmation: Option<Thumbprint>,
    /// Shared by a token and everything refreshed from it, so that a stolen line can be cut as a whole.
    pub family: String,
    /// When it ends.
    pub expires: UnixTime,
}

impl Db {
    /// Stores a refresh token.
    ///
    /// # Errors
    /// The hash is known already, or the statement failed.
    pub async fn put_refresh(&self, refresh: &RefreshToken) -> Result<(), DbError> {
        sqlx::query(
            "INSERT INTO refresh_tokens (hash, principal, audience, confirmation, family, expires) \
             VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(&refresh.hash)
        .bind(rows::principal_to_text(&refresh.principal))
        .bind(&refresh.audience)
        .bind(refresh.confirmation.map(|thumbprint| thumbprint.to_string()))
        .bind(&refresh.family)
        .bind(refresh.expires.as_micros())
        .execute(&self.pool)
        .await
        .map_err(DbError::at("store a refresh token"))?;
        Ok(())
    }

    /// Takes a refresh token out: of two who ask at once, one gets it. An expired one is gone too, but not given.
    ///
    /// # Errors
    /// The statement failed or the row is unreadable.
    pub async fn take_refresh(&self, hash: &str, now: UnixTime) -> Result<Option<RefreshToken>, DbError> {
        let row = sqlx::query("DELETE FROM refresh_tokens WHERE hash = $1 RETURNING *")
            .bind(hash)
            .fetch_optional(&self.pool)
            .await
            .map_err(DbError::at("take a refresh token"))?;
        let Some(row) = row else { return Ok(None) };
        let refresh = RefreshToken {
            hash: rows::text(&row, "hash")?,
            principal: rows::principal_from_text(&rows::text(&row, "principal")?, "refresh token")?,
            audience: rows::text(&row, "audience")?,
            confirmation: rows::optional_thumbprint(&row, "confirmation")?,
            family: rows::text(&row, "family")?,
            expires: rows::time(&row, "expires")?,
        };
        Ok((refresh.expires > now).then_some(refresh))
    }

    /// Removes every refresh token of a family that belongs to this certificate; how many there were.
    ///
    /// # Errors
    /// The statement failed.
    pub async fn remove_refresh_family_of(&self, family: &str, confirmation: &Thumbprint) -> Result<u64, DbError> {
        let done = sqlx::query("DELETE FROM refresh_tokens WHERE family = $1 AND confirmation = $2")
            .bind(family)
            .bind(confirmation.to_string())
            .execute(&self.pool)
            .await
            .map_err(DbError::at("remove refresh tokens"))?;
        Ok(done.rows_affected())
    }

    /// Removes every refresh token of a family; how many there were.
    ///
    /// # Errors
    /// The statement failed.
    pub async fn remove_refresh_family(&self, family: &str) -> Result<u64, DbError> {
        let done = sqlx::query("DELETE FROM refresh_tokens WHERE family = $1")
            .bind(family)
            .execute(&self.pool)
            .await
            .map_err(DbError::at("remove refresh tokens"))?;
        Ok(done.rows_affected())
    }
}
