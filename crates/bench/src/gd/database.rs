//! The store's one connection to its database: SQLite in a file, or PostgreSQL over its socket. A tag is stored when its transaction is
//! committed as both do it by default for what must not be lost: the log is handed to the medium before the answer.

use std::path::Path;

use rusqlite::{Connection, params};
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{ConnectOptions, PgConnection};

use super::Kind;
use crate::random::Random;
use crate::{Failed, files};

/// The user and the database of the PostgreSQL server that [`super::postgres`] starts.
pub(super) const USER: &str = "gd";

/// SQLite's file; what belongs to it begins with the same name.
const FILE: &str = "gd.db";

/// Tags that are stored before any other, of a client that nobody is, and their bytes: the database has been in use. As long as its log and
/// its caches grow, an insert into SQLite takes half as long again.
const USED: (u32, u32) = (2_400, 2_000);
/// As many more at most, one by one, so that checkpoints come after any number of tags. Of many that came at once a checkpoint has twice as
/// many pages.
const MORE: u32 = 1_800;
/// How a tag is stored in SQLite.
const INSERT: &str = "INSERT INTO gd (client, number, content) VALUES (?1, ?2, ?3)";

/// A connection.
#[derive(Debug)]
pub enum Database {
    /// SQLite, called by the thread that has it: `sqlx` has a thread of its own for each connection, and who of the two runs when is the
    /// kernel's affair.
    Sqlite(Connection),
    /// PostgreSQL, and the process that serves this connection.
    Postgres(PgConnection, u32),
}

impl Database {
    /// Opens the database with a table of tags that are nobody's. `folder` is where SQLite's file goes, or where PostgreSQL's socket is.
    ///
    /// # Errors
    /// It cannot be opened.
    pub async fn open(kind: Kind, folder: &Path) -> Result<Self, Failed> {
        match kind {
            Kind::Sqlite => {
                // One that has grown already has room for the next tags, and checkpoints take half as long.
                files::remove_all(folder, FILE)?;
                let connection = Connection::open(folder.join(FILE))?;
                connection.pragma_update(None, "journal_mode", "wal")?;
                connection.pragma_update(None, "synchronous", "off")?;
                let table = "CREATE TABLE gd (id INTEGER PRIMARY KEY, client INTEGER NOT NULL, number INTEGER NOT NULL, content BLOB NOT NULL)";
                connection.execute(table, [])?;
                // These fill the log, so that it begins anew.
                let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) INSERT INTO gd (client, number, content) SELECT -1, i, zeroblob(?2) FROM n WHERE i <= ?1";
                connection.execute(fill, params![USED.0, USED.1])?;
                let content = vec![0_u8; usize::try_from(USED.1)?];
                for number in 0..Random::new(u64::from(std::process::id())).below(MORE) {
                    connection.prepare_cached(INSERT)?.execute(params![-1, number, content])?;
                }
                // From now on nothing is lost.
                connection.pragma_update(None, "synchronous", "full")?;
                Ok(Self::Sqlite(connection))
            }
            Kind::Postgres => {
                let options = PgConnectOptions::new_without_pgpass()
                    .socket(folder)
                    .username(USER)
                    .database("postgres")
                    .ssl_mode(PgSslMode::Disable);
                let mut connection = options.connect().await?;
                sqlx::query("DROP TABLE IF EXISTS gd").execute(&mut connection).await?;
                let table = "CREATE TABLE gd (id BIGSERIAL PRIMARY KEY, client BIGINT NOT NULL, number BIGINT NOT NULL, content BYTEA NOT NULL)";
                sqlx::query(table).execute(&mut connection).await?;
                // Content stays in its row, as it is: encrypted data does not become smaller.
                sqlx::query("ALTER TABLE gd ALTER COLUMN content SET STORAGE EXTERNAL")
                    .execute(&mut connection)
                    .await?;
                sqlx::query("ALTER TABLE gd SET (toast_tuple_target = 8160)").execute(&mut connection).await?;
                sqlx::query("CHECKPOINT").execute(&mut connection).await?;
                let backend: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut connection).await?;
                Ok(Self::Postgres(connection, u32::try_from(backend)?))
            }
        }
    }

    /// Stores a tag; it is committed when this comes back.
    ///
    /// # Errors
    /// The database refuses.
    pub async fn put(&mut self, client: i64, number: i64, content: &[u8]) -> Result<(), Failed> {
        match self {
            Self::Sqlite(connection) => {
                connection.prepare_cached(INSERT)?.execute(params![client, number, content])?;
            }
            Self::Postgres(connection, _) => {
                let query = sqlx::query("INSERT INTO gd (client, number, content) VALUES ($1, $2, $3)");
                query.bind(client).bind(number).bind(content).execute(connection).await?;
            }
        }
        Ok(())
    }

    /// How many tags are stored.
    ///
    /// # Errors
    /// The database refuses.
    pub async fn count(&mut self) -> Result<i64, Failed> {
        let query = "SELECT count(*) FROM gd WHERE client >= 0";
        Ok(match self {
            Self::Sqlite(connection) => connection.query_one(query, [], |row| row.get(0))?,
            Self::Postgres(connection, _) => sqlx::query_scalar(query).fetch_one(connection).await?,
        })
    }

    /// The process that serves this connection, where it is another one.
    #[must_use]
    pub const fn backend(&self) -> Option<u32> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(_, process) => Some(*process),
        }
    }
}
