//! The SQL journal. Hot state lives in the memory of its owner; this is what it is rebuilt from.
//!
//! One set of queries with numbered parameters, in the part of SQL that SQLite and PostgreSQL share.

mod applications;
mod grants;
mod issue;
mod modes;
mod refresh;
mod revocations;
mod rows;
mod tokens;
mod users;
mod workflow;

use std::path::PathBuf;
use std::time::Duration;

use access_model::{Epoch, UnixTime};
use sqlx::Row;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};

pub use applications::{Application, ApplicationKind};
pub use grants::Grant;
pub use issue::{Issue, Overtaken};
pub use refresh::RefreshToken;
pub use revocations::{NewRevocation, Revocation, Revoked};
pub use tokens::{IssuedToken, TokenFilter};
pub use users::User;
pub use workflow::WorkflowState;

use crate::{Sync, files};

/// Connections of one pool: SQLite has one writer at a time, the others read.
const CONNECTIONS: u32 = 4;
/// How long a writer waits for another writer before it gives up.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Where the journal lives and how hard it is pushed to disk.
#[derive(Clone, Debug)]
pub struct DbConfig {
    /// The SQLite file; made if it does not exist, together with its folder.
    pub path: PathBuf,
    /// When a commit counts as done.
    pub sync: Sync,
}

/// The journal. Clones share one pool.
#[derive(Clone, Debug)]
pub struct Db {
    pool: SqlitePool,
}

/// Why the journal could not be used.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// The file cannot be opened or made.
    #[error("cannot open the database `{}`", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the driver or the file system said.
        #[source]
        source: Box<dyn std::error::Error + Send + std::marker::Sync>,
    },
    /// The schema is newer than this program, or a migration failed.
    #[error("cannot bring the database schema up to date")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// A statement failed.
    #[error("cannot {doing}")]
    Statement {
        /// What was tried, as the rest of a sentence.
        doing: &'static str,
        /// What the driver said.
        #[source]
        source: sqlx::Error,
    },
    /// A stored value cannot be what this program wrote.
    #[error("the database holds an unreadable {what} for `{key}`")]
    Unreadable {
        /// Which value.
        what: &'static str,
        /// The row it stands in.
        key: String,
    },
    /// Somebody else changed the row in between.
    #[error("`{key}` was changed by somebody else: expected version {expected}, found {found}")]
    Conflict {
        /// The row.
        key: String,
        /// The version the caller had seen.
        expected: u64,
        /// The version that is stored.
        found: u64,
    },
}

impl DbError {
    fn at(doing: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self::Statement { doing, source }
    }

    fn unreadable(what: &'static str, key: impl Into<String>) -> Self {
        Self::Unreadable { what, key: key.into() }
    }
}

impl Db {
    /// Opens the journal, makes it if there is none, and brings its schema up to date.
    ///
    /// # Errors
    /// The file or its folder cannot be opened, or the schema cannot be brought up to date.
    pub async fn open(config: &DbConfig) -> Result<Self, DbError> {
        let open_error = |source| DbError::Open { path: config.path.clone(), source };
        if let Some(folder) = config.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            tokio::fs::create_dir_all(folder).await.map_err(|error| open_error(error.into()))?;
        }
        // Mode 0600 before SQLite would make it readable to others: it holds password hashes.
        files::open_write(&config.path).map_err(|error| open_error(error.into()))?;
        let options = SqliteConnectOptions::new()
            .filename(&config.path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(match config.sync {
                Sync::Os => SqliteSynchronous::Normal,
                Sync::Disk => SqliteSynchronous::Full,
            })
            .foreign_keys(true)
            .busy_timeout(BUSY_TIMEOUT);
        let pool = SqlitePoolOptions::new()
            .max_connections(CONNECTIONS)
            .connect_with(options)
            .await
            .map_err(|error| open_error(error.into()))?;
        Self::migrated(pool).await
    }

    /// A journal in memory that ends with its last clone.
    ///
    /// # Errors
    /// The schema cannot be made.
    pub async fn in_memory() -> Result<Self, DbError> {
        let options = SqliteConnectOptions::new().filename(":memory:").foreign_keys(true);
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_with(options)
            .await
            .map_err(DbError::at("open a database in memory"))?;
        Self::migrated(pool).await
    }

    async fn migrated(pool: SqlitePool) -> Result<Self, DbError> {
        sqlx::migrate!("./migrations").run(&pool).await?;
        Ok(Self { pool })
    }

    /// Ends all connections after what runs now.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// The number of the last policy snapshot.
    ///
    /// # Errors
    /// The statement failed.
    pub async fn epoch(&self) -> Result<Epoch, DbError> {
        let row = sqlx::query("SELECT value FROM counters WHERE name = 'epoch'")
            .fetch_one(&self.pool)
            .await
            .map_err(DbError::at("read the epoch"))?;
        rows::epoch(&row, "value")
    }

    /// Takes the number of the next policy snapshot. No two calls give the same, also across restarts.
    ///
    /// # Errors
    /// The statement failed.
    pub async fn next_epoch(&self) -> Result<Epoch, DbError> {
        let row = sqlx::query("UPDATE counters SET value = value + 1 WHERE name = 'epoch' RETURNING value")
            .fetch_one(&self.pool)
            .await
            .map_err(DbError::at("take the next epoch"))?;
        rows::epoch(&row, "value")
    }

    /// Forgets tokens, grants, refresh tokens and revocations that ended before `now`. Returns how many rows went.
    ///
    /// # Errors
    /// A statement failed; then nothing is forgotten.
    pub async fn purge(&self, now: UnixTime) -> Result<u64, DbError> {
        let doing = "forget what is over";
        let mut transaction = self.pool.begin().await.map_err(DbError::at(doing))?;
        let mut gone = 0;
        for statement in [
            "DELETE FROM grants WHERE expires < $1",
            "DELETE FROM refresh_tokens WHERE expires < $1",
            "DELETE FROM refresh_lines WHERE ends < $1",
            "DELETE FROM revocations WHERE expires < $1",
            "DELETE FROM tokens WHERE expires < $1",
        ] {
            let done = sqlx::query(statement).bind(now.as_micros()).execute(&mut *transaction).await;
            gone += done.map_err(DbError::at(doing))?.rows_affected();
        }
        transaction.commit().await.map_err(DbError::at(doing))?;
        Ok(gone)
    }

    /// Writes a consistent copy of the whole journal to `path`, which must not exist.
    pub(crate) async fn copy_to(&self, path: &str) -> Result<(), DbError> {
        sqlx::query("VACUUM INTO $1").bind(path).execute(&self.pool).await.map_err(DbError::at("copy the database"))?;
        Ok(())
    }

    /// What SQLite's own check says about the file; `None` when it is sound.
    pub(crate) async fn damage(&self) -> Result<Option<String>, DbError> {
        let doing = "check the database";
        let row = sqlx::query("PRAGMA integrity_check(1)").fetch_one(&self.pool).await.map_err(DbError::at(doing))?;
        let said: String = row.try_get(0).map_err(DbError::at(doing))?;
        Ok((said != "ok").then_some(said))
    }
}

#[cfg(test)]
mod tests;
