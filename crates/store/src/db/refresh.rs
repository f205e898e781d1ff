//! Refresh tokens, known by their hash only, each usable once. Everything refreshed from one token is a line, which ends
//! at a time that no refresh moves, and which can be cut.

use access_model::{Principal, Thumbprint, UnixTime};
use sqlx::SqliteConnection;

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
    /// When its line ends, however often it is refreshed.
    pub ends: UnixTime,
}

impl Db {
    /// Stores a refresh token that begins a line.
    ///
    /// # Errors
    /// The hash is known already, or a statement failed; then nothing changes.
    pub async fn put_refresh(&self, refresh: &RefreshToken) -> Result<(), DbError> {
        let doing = "store a refresh token";
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(DbError::at(doing))?;
        begin_line(&mut transaction, refresh).await.map_err(DbError::at(doing))?;
        insert(&mut transaction, refresh).await.map_err(DbError::at(doing))?;
        transaction.commit().await.map_err(DbError::at(doing))
    }

    /// For which server a refresh token is, that is there.
    ///
    /// # Errors
    /// A statement failed or the row is unreadable.
    pub async fn refresh_audience(&self, hash: &str) -> Result<Option<String>, DbError> {
        let row = sqlx::query("SELECT audience FROM refresh_tokens WHERE hash = $1")
            .bind(hash)
            .fetch_optional(&self.pool)
            .await
            .map_err(DbError::at("look for a refresh token"))?;
        row.map(|row| rows::text(&row, "audience")).transpose()
    }

    /// Takes a refresh token out: of two who ask at once, one gets it. An expired one, and one whose line is over or cut,
    /// is gone too, but not given.
    ///
    /// # Errors
    /// A statement failed or the row is unreadable.
    pub async fn take_refresh(&self, hash: &str, now: UnixTime) -> Result<Option<RefreshToken>, DbError> {
        self.take_refresh_for(hash, None, now).await
    }

    /// The same, if it is for this server; one for another stays.
    ///
    /// # Errors
    /// As [`Db::take_refresh`].
    pub async fn take_refresh_for(
        &self,
        hash: &str,
        audience: Option<&str>,
        now: UnixTime,
    ) -> Result<Option<RefreshToken>, DbError> {
        let doing = "take a refresh token";
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(DbError::at(doing))?;
        let row =
            sqlx::query("DELETE FROM refresh_tokens WHERE hash = $1 AND audience = COALESCE($2, audience) RETURNING *")
                .bind(hash)
                .bind(audience)
                .fetch_optional(&mut *transaction)
                .await
                .map_err(DbError::at(doing))?;
        let Some(row) = row else { return Ok(None) };
        let line = sqlx::query("SELECT ends FROM refresh_lines WHERE family = $1")
            .bind(rows::text(&row, "family")?)
            .fetch_optional(&mut *transaction)
            .await
            .map_err(DbError::at(doing))?;
        transaction.commit().await.map_err(DbError::at(doing))?;
        let Some(line) = line else { return Ok(None) };
        let refresh = RefreshToken {
            hash: rows::text(&row, "hash")?,
            principal: rows::principal_from_text(&rows::text(&row, "principal")?, "refresh token")?,
            audience: rows::text(&row, "audience")?,
            confirmation: rows::optional_thumbprint(&row, "confirmation")?,
            family: rows::text(&row, "family")?,
            expires: rows::time(&row, "expires")?,
            ends: rows::time(&line, "ends")?,
        };
        Ok((refresh.expires.min(refresh.ends) > now).then_some(refresh))
    }

    /// Puts back what was taken and came to nothing: whoever asks again may show it again. Not if the line was cut meanwhile; whether it is back.
    ///
    /// # Errors
    /// A statement failed; then nothing changes.
    pub async fn put_refresh_back(&self, refresh: &RefreshToken) -> Result<bool, DbError> {
        let doing = "put a refresh token back";
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(DbError::at(doing))?;
        let line = sqlx::query("SELECT 1 FROM refresh_lines WHERE family = $1")
            .bind(&refresh.family)
            .fetch_optional(&mut *transaction)
            .await
            .map_err(DbError::at(doing))?;
        if line.is_none() {
            return Ok(false);
        }
        insert(&mut transaction, refresh).await.map_err(DbError::at(doing))?;
        transaction.commit().await.map_err(DbError::at(doing))?;
        Ok(true)
    }

    /// Cuts a line that belongs to this certificate, and is for no other server than this if one is named; how many
    /// refresh tokens it had.
    ///
    /// # Errors
    /// A statement failed; then nothing changes.
    pub async fn remove_refresh_family_of(
        &self,
        family: &str,
        confirmation: &Thumbprint,
        audience: Option<&str>,
    ) -> Result<u64, DbError> {
        let statements = [
            "DELETE FROM refresh_lines WHERE family = $1 AND confirmation = $2 \
             AND NOT EXISTS (SELECT 1 FROM refresh_tokens WHERE family = $1 AND audience <> $3)",
            "DELETE FROM refresh_tokens WHERE family = $1 AND confirmation = $2 AND audience = COALESCE($3, audience)",
        ];
        self.cut(statements, family, Some((confirmation, audience))).await
    }

    /// Cuts a line; how many refresh tokens it had.
    ///
    /// # Errors
    /// A statement failed; then nothing changes.
    pub async fn remove_refresh_family(&self, family: &str) -> Result<u64, DbError> {
        let statements =
            ["DELETE FROM refresh_lines WHERE family = $1", "DELETE FROM refresh_tokens WHERE family = $1"];
        self.cut(statements, family, None).await
    }

    async fn cut(
        &self,
        statements: [&'static str; 2],
        family: &str,
        of: Option<(&Thumbprint, Option<&str>)>,
    ) -> Result<u64, DbError> {
        let doing = "remove refresh tokens";
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(DbError::at(doing))?;
        let mut gone = 0;
        for statement in statements {
            let mut query = sqlx::query(statement).bind(family);
            if let Some((confirmation, audience)) = of {
                query = query.bind(confirmation.to_string()).bind(audience);
            }
            gone = query.execute(&mut *transaction).await.map_err(DbError::at(doing))?.rows_affected();
        }
        transaction.commit().await.map_err(DbError::at(doing))?;
        Ok(gone)
    }
}

pub(super) async fn begin_line(connection: &mut SqliteConnection, refresh: &RefreshToken) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO refresh_lines (family, person, application, confirmation, ends) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT DO NOTHING",
    )
    .bind(&refresh.family)
    .bind(&refresh.principal.person)
    .bind(refresh.principal.application.as_ref().map(|uri| uri.0.as_str()))
    .bind(refresh.confirmation.map(|thumbprint| thumbprint.to_string()))
    .bind(refresh.ends.as_micros())
    .execute(connection)
    .await
    .map(drop)
}

pub(super) async fn insert(connection: &mut SqliteConnection, refresh: &RefreshToken) -> Result<(), sqlx::Error> {
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
    .execute(connection)
    .await
    .map(drop)
}

/// Cuts every line of a person.
pub(super) async fn cut_person(connection: &mut SqliteConnection, person: &str) -> Result<(), sqlx::Error> {
    for statement in [
        "DELETE FROM refresh_tokens WHERE family IN (SELECT family FROM refresh_lines WHERE person = $1)",
        "DELETE FROM refresh_lines WHERE person = $1",
    ] {
        sqlx::query(statement).bind(person).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Cuts every line of an application.
pub(super) async fn cut_application(connection: &mut SqliteConnection, uri: &str) -> Result<(), sqlx::Error> {
    for statement in [
        "DELETE FROM refresh_tokens WHERE family IN (SELECT family FROM refresh_lines WHERE application = $1)",
        "DELETE FROM refresh_lines WHERE application = $1",
    ] {
        sqlx::query(statement).bind(uri).execute(&mut *connection).await?;
    }
    Ok(())
}
