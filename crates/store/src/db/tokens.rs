//! Tokens that were issued. The token itself is never stored, only what it says about itself.

use access_model::{Epoch, Thumbprint, UnixTime};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use super::{Db, DbError, rows};

/// One issued token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedToken {
    /// JWT `jti`.
    pub id: String,
    /// JWT `sub`.
    pub subject: String,
    /// ApplicationUri of the client it was issued to.
    pub application: Option<String>,
    /// ApplicationUri of the server it is for.
    pub audience: String,
    /// The client certificate it is bound to.
    pub confirmation: Option<Thumbprint>,
    /// How it was asked for: `client_credentials`, `exchange`, `refresh`, `request_access_token` ...
    pub flow: String,
    /// When it was issued.
    pub issued: UnixTime,
    /// JWT `nbf`.
    pub not_before: UnixTime,
    /// JWT `exp`.
    pub expires: UnixTime,
    /// The policy snapshot it was decided under.
    pub epoch: Epoch,
    /// When it was revoked, if it was.
    pub revoked: Option<UnixTime>,
}

/// Which tokens a list shows; everything that is `None` matches all.
#[derive(Clone, Debug, Default)]
pub struct TokenFilter {
    /// Only of this subject.
    pub subject: Option<String>,
    /// Only for this server.
    pub audience: Option<String>,
    /// Only those neither expired nor revoked at this time.
    pub live_at: Option<UnixTime>,
    /// At most this many, the newest first.
    pub limit: Option<u32>,
}

impl Db {
    /// Records an issued token.
    ///
    /// # Errors
    /// A token with this id exists, or the statement failed.
    pub async fn put_token(&self, token: &IssuedToken) -> Result<(), DbError> {
        let doing = "record an issued token";
        let mut connection = self.pool.acquire().await.map_err(DbError::at(doing))?;
        insert(&mut connection, token).await.map_err(DbError::at(doing))
    }

    /// The token with this id.
    ///
    /// # Errors
    /// The statement failed or the row is unreadable.
    pub async fn token(&self, id: &str) -> Result<Option<IssuedToken>, DbError> {
        let row = sqlx::query("SELECT * FROM tokens WHERE id = $1")
            .bind(id)
            .fetch_optional(&self.pool)
            .await
            .map_err(DbError::at("look up a token"))?;
        row.as_ref().map(from_row).transpose()
    }

    /// Tokens, the newest first.
    ///
    /// # Errors
    /// The statement failed or a row is unreadable.
    pub async fn tokens(&self, filter: &TokenFilter) -> Result<Vec<IssuedToken>, DbError> {
        let found = sqlx::query(
            "SELECT * FROM tokens WHERE ($1 IS NULL OR subject = $1) AND ($2 IS NULL OR audience = $2) \
             AND ($3 IS NULL OR (expires > $3 AND revoked IS NULL)) ORDER BY issued DESC, id LIMIT $4",
        )
        .bind(&filter.subject)
        .bind(&filter.audience)
        .bind(filter.live_at.map(UnixTime::as_micros))
        .bind(filter.limit.map_or(i64::MAX, i64::from))
        .fetch_all(&self.pool)
        .await
        .map_err(DbError::at("list tokens"))?;
        found.iter().map(from_row).collect()
    }
}

pub(super) async fn insert(connection: &mut SqliteConnection, token: &IssuedToken) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO tokens (id, subject, application, audience, confirmation, flow, issued, not_before, expires, \
         epoch, revoked) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
    )
    .bind(&token.id)
    .bind(&token.subject)
    .bind(&token.application)
    .bind(&token.audience)
    .bind(token.confirmation.map(|thumbprint| thumbprint.to_string()))
    .bind(&token.flow)
    .bind(token.issued.as_micros())
    .bind(token.not_before.as_micros())
    .bind(token.expires.as_micros())
    .bind(rows::to_sql(token.epoch.0))
    .bind(token.revoked.map(UnixTime::as_micros))
    .execute(connection)
    .await
    .map(drop)
}

fn from_row(row: &SqliteRow) -> Result<IssuedToken, DbError> {
    Ok(IssuedToken {
        id: rows::text(row, "id")?,
        subject: rows::text(row, "subject")?,
        application: rows::optional_text(row, "application")?,
        audience: rows::text(row, "audience")?,
        confirmation: rows::optional_thumbprint(row, "confirmation")?,
        flow: rows::text(row, "flow")?,
        issued: rows::time(row, "issued")?,
        not_before: rows::time(row, "not_before")?,
        expires: rows::time(row, "expires")?,
        epoch: rows::epoch(row, "epoch")?,
        revoked: rows::optional_time(row, "revoked")?,
    })
}
