//! Revoked tokens, numbered in the order of their revocation so that a gate can ask for what it missed.

use access_model::{Epoch, UnixTime};
use sqlx::sqlite::SqliteRow;

use super::{Db, DbError, rows};

/// What is to be revoked, by whom and why.
#[derive(Clone, Debug)]
pub struct NewRevocation {
    /// JWT `jti`.
    pub token: String,
    /// Who revoked it.
    pub by: String,
    /// Why, for the audit.
    pub reason: String,
    /// When.
    pub at: UnixTime,
    /// The policy snapshot in force.
    pub epoch: Epoch,
}

/// A revocation that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// Grows with each revocation and is never used twice.
    pub number: u64,
    /// JWT `jti`.
    pub token: String,
    /// The server the token is for.
    pub audience: String,
    /// When.
    pub at: UnixTime,
    /// Who revoked it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// The policy snapshot in force.
    pub epoch: Epoch,
    /// When the token itself ends; after that the revocation may be forgotten.
    pub expires: UnixTime,
}

/// How a revocation went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// The token is revoked from now on.
    New(Revocation),
    /// It was revoked before.
    Already,
    /// No such token was issued here.
    Unknown,
}

impl Revoked {
    /// The revocation, if it is a new one.
    #[must_use]
    pub fn revocation(self) -> Option<Revocation> {
        if let Self::New(revocation) = self { Some(revocation) } else { None }
    }
}

impl Db {
    /// Revokes an issued token.
    ///
    /// # Errors
    /// A statement failed; then nothing changes.
    pub async fn revoke(&self, new: &NewRevocation) -> Result<Revoked, DbError> {
        let doing = "revoke a token";
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(DbError::at(doing))?;
        let row = sqlx::query("SELECT audience, expires, revoked FROM tokens WHERE id = $1")
            .bind(&new.token)
            .fetch_optional(&mut *transaction)
            .await
            .map_err(DbError::at(doing))?;
        let Some(row) = row else { return Ok(Revoked::Unknown) };
        if rows::optional_time(&row, "revoked")?.is_some() {
            return Ok(Revoked::Already);
        }
        sqlx::query("UPDATE tokens SET revoked = $1 WHERE id = $2")
            .bind(new.at.as_micros())
            .bind(&new.token)
            .execute(&mut *transaction)
            .await
            .map_err(DbError::at(doing))?;
        let stored = sqlx::query(
            "INSERT INTO revocations (token, audience, at, by_whom, reason, epoch, expires) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING *",
        )
        .bind(&new.token)
        .bind(rows::text(&row, "audience")?)
        .bind(new.at.as_micros())
        .bind(&new.by)
        .bind(&new.reason)
        .bind(rows::to_sql(new.epoch.0))
        .bind(rows::number(&row, "expires")?)
        .fetch_one(&mut *transaction)
        .await
        .map_err(DbError::at(doing))?;
        transaction.commit().await.map_err(DbError::at(doing))?;
        Ok(Revoked::New(from_row(&stored)?))
    }

    /// Revocations with a number above `number`, in order.
    ///
    /// # Errors
    /// The statement failed or a row is unreadable.
    pub async fn revocations_since(&self, number: u64) -> Result<Vec<Revocation>, DbError> {
        let found = sqlx::query("SELECT * FROM revocations WHERE number > $1 ORDER BY number")
            .bind(rows::to_sql(number))
            .fetch_all(&self.pool)
            .await
            .map_err(DbError::at("list revocations"))?;
        found.iter().map(from_row).collect()
    }

    /// Revocations of tokens that have not ended by themselves at `now`, in order.
    ///
    /// # Errors
    /// The statement failed or a row is unreadable.
    pub async fn live_revocations(&self, now: UnixTime) -> Result<Vec<Revocation>, DbError> {
        let found = sqlx::query("SELECT * FROM revocations WHERE expires > $1 ORDER BY number")
            .bind(now.as_micros())
            .fetch_all(&self.pool)
            .await
            .map_err(DbError::at("list revocations"))?;
        found.iter().map(from_row).collect()
    }
}

fn from_row(row: &SqliteRow) -> Result<Revocation, DbError> {
    Ok(Revocation {
        number: rows::count(row, "number")?,
        token: rows::text(row, "token")?,
        audience: rows::text(row, "audience")?,
        at: rows::time(row, "at")?,
        by: rows::text(row, "by_whom")?,
        reason: rows::text(row, "reason")?,
        epoch: rows::epoch(row, "epoch")?,
        expires: rows::time(row, "expires")?,
    })
}
