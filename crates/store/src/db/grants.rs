//! Live grants: what the authority decides again on each policy, plant or marking change.

use access_model::{GrantSpec, Principal, UnixTime};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use super::{Db, DbError, rows};

/// What one principal may do at one server under one token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The grant's own name.
    pub id: String,
    /// Who holds it.
    pub principal: Principal,
    /// What it allows, as last decided.
    pub spec: GrantSpec,
    /// The id of the token that carries it now.
    pub token: String,
    /// When it ends for good.
    pub expires: UnixTime,
    /// When it was last decided.
    pub changed: UnixTime,
}

impl Db {
    /// Stores a grant, or replaces the one with this name.
    ///
    /// # Errors
    /// The statement failed.
    pub async fn put_grant(&self, grant: &Grant) -> Result<(), DbError> {
        let doing = "store a grant";
        let mut connection = self.pool.acquire().await.map_err(DbError::at(doing))?;
        put(&mut connection, grant).await.map_err(DbError::at(doing))
    }

    /// The grant with this name.
    ///
    /// # Errors
    /// The statement failed or the row is unreadable.
    pub async fn grant(&self, id: &str) -> Result<Option<Grant>, DbError> {
        let row = sqlx::query("SELECT * FROM grants WHERE id = $1")
            .bind(id)
            .fetch_optional(&self.pool)
            .await
            .map_err(DbError::at("look up a grant"))?;
        row.as_ref().map(from_row).transpose()
    }

    /// Grants that have not ended at `now`, by name.
    ///
    /// # Errors
    /// The statement failed or a row is unreadable.
    pub async fn live_grants(&self, now: UnixTime) -> Result<Vec<Grant>, DbError> {
        let found = sqlx::query("SELECT * FROM grants WHERE expires > $1 ORDER BY id")
            .bind(now.as_micros())
            .fetch_all(&self.pool)
            .await
            .map_err(DbError::at("list live grants"))?;
        found.iter().map(from_row).collect()
    }

    /// Removes a grant; whether there was one.
    ///
    /// # Errors
    /// The statement failed.
    pub async fn remove_grant(&self, id: &str) -> Result<bool, DbError> {
        let done = sqlx::query("DELETE FROM grants WHERE id = $1")
            .bind(id)
            .execute(&self.pool)
            .await
            .map_err(DbError::at("remove a grant"))?;
        Ok(done.rows_affected() > 0)
    }
}

pub(super) async fn put(connection: &mut SqliteConnection, grant: &Grant) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO grants (id, token, audience, principal, spec, expires, changed) \
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO UPDATE SET token = excluded.token, \
         audience = excluded.audience, principal = excluded.principal, spec = excluded.spec, \
         expires = excluded.expires, changed = excluded.changed",
    )
    .bind(&grant.id)
    .bind(&grant.token)
    .bind(&grant.spec.audience)
    .bind(rows::principal_to_text(&grant.principal))
    .bind(rows::spec_to_text(&grant.spec))
    .bind(grant.expires.as_micros())
    .bind(grant.changed.as_micros())
    .execute(connection)
    .await
    .map(drop)
}

fn from_row(row: &SqliteRow) -> Result<Grant, DbError> {
    let id = rows::text(row, "id")?;
    Ok(Grant {
        principal: rows::principal_from_text(&rows::text(row, "principal")?, &id)?,
        spec: rows::spec_from_text(&rows::text(row, "spec")?, &id)?,
        token: rows::text(row, "token")?,
        expires: rows::time(row, "expires")?,
        changed: rows::time(row, "changed")?,
        id,
    })
}
