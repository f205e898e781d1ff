//! Applications that may ask for tokens or receive them.

use access_model::{Thumbprint, UnixTime};
use sqlx::sqlite::SqliteRow;

use super::{Db, DbError, refresh, rows};

/// What an application is to the authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplicationKind {
    /// Asks for tokens.
    Client,
    /// Accepts tokens: an audience.
    Server,
    /// Both.
    Both,
}

impl ApplicationKind {
    /// The word in the database and in exports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Both => "both",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        [Self::Client, Self::Server, Self::Both].into_iter().find(|kind| kind.word() == word)
    }
}

/// A registered application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// ApplicationUri; also the OAuth2 `client_id`.
    pub uri: String,
    /// What people call it.
    pub name: String,
    /// Client, server or both.
    pub kind: ApplicationKind,
    /// Certificates it proves itself with, sorted. A certificate belongs to one application.
    pub certificates: Vec<Thumbprint>,
    /// Hash of the client secret, if it may use one.
    pub secret_hash: Option<String>,
    /// Whether it may ask at all.
    pub enabled: bool,
    /// When it was registered.
    pub created: UnixTime,
}

impl Db {
    /// Registers an application, or replaces what is registered under its URI.
    ///
    /// # Errors
    /// A certificate belongs to another application, or a statement failed; then nothing changes.
    pub async fn put_application(&self, application: &Application) -> Result<(), DbError> {
        let doing = "register an application";
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(DbError::at(doing))?;
        if !application.enabled {
            refresh::cut_application(&mut transaction, &application.uri).await.map_err(DbError::at(doing))?;
        }
        sqlx::query(
            "INSERT INTO applications (uri, name, kind, secret_hash, enabled, created) VALUES ($1, $2, $3, $4, $5, $6) \
             ON CONFLICT (uri) DO UPDATE SET name = excluded.name, kind = excluded.kind, \
             secret_hash = excluded.secret_hash, enabled = excluded.enabled",
        )
        .bind(&application.uri)
        .bind(&application.name)
        .bind(application.kind.word())
        .bind(&application.secret_hash)
        .bind(application.enabled)
        .bind(application.created.as_micros())
        .execute(&mut *transaction)
        .await
        .map_err(DbError::at(doing))?;
        sqlx::query("DELETE FROM application_certificates WHERE application = $1")
            .bind(&application.uri)
            .execute(&mut *transaction)
            .await
            .map_err(DbError::at(doing))?;
        for thumbprint in &application.certificates {
            sqlx::query("INSERT INTO application_certificates (thumbprint, application) VALUES ($1, $2)")
                .bind(thumbprint.to_string())
                .bind(&application.uri)
                .execute(&mut *transaction)
                .await
                .map_err(DbError::at(doing))?;
        }
        transaction.commit().await.map_err(DbError::at(doing))
    }

    /// The application with this URI.
    ///
    /// # Errors
    /// A statement failed or the row is unreadable.
    pub async fn application(&self, uri: &str) -> Result<Option<Application>, DbError> {
        let row = sqlx::query("SELECT uri, name, kind, secret_hash, enabled, created FROM applications WHERE uri = $1")
            .bind(uri)
            .fetch_optional(&self.pool)
            .await
            .map_err(DbError::at("look up an application"))?;
        match row {
            Some(row) => Ok(Some(self.with_certificates(&row).await?)),
            None => Ok(None),
        }
    }

    /// The application that proves itself with this certificate.
    ///
    /// # Errors
    /// A statement failed or the row is unreadable.
    pub async fn application_by_certificate(&self, certificate: &Thumbprint) -> Result<Option<Application>, DbError> {
        let row = sqlx::query("SELECT application FROM application_certificates WHERE thumbprint = $1")
            .bind(certificate.to_string())
            .fetch_optional(&self.pool)
            .await
            .map_err(DbError::at("look up an application certificate"))?;
        match row {
            Some(row) => self.application(&rows::text(&row, "application")?).await,
            None => Ok(None),
        }
    }

    /// All applications, by URI.
    ///
    /// # Errors
    /// A statement failed or a row is unreadable.
    pub async fn applications(&self) -> Result<Vec<Application>, DbError> {
        let found = sqlx::query("SELECT uri, name, kind, secret_hash, enabled, created FROM applications ORDER BY uri")
            .fetch_all(&self.pool)
            .await
            .map_err(DbError::at("list applications"))?;
        let mut applications = Vec::with_capacity(found.len());
        for row in &found {
            applications.push(self.with_certificates(row).await?);
        }
        Ok(applications)
    }

    /// Removes an application and its lines of refresh tokens; whether there was one.
    ///
    /// # Errors
    /// The statement failed.
    pub async fn remove_application(&self, uri: &str) -> Result<bool, DbError> {
        let doing = "remove an application";
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(DbError::at(doing))?;
        refresh::cut_application(&mut transaction, uri).await.map_err(DbError::at(doing))?;
        let done = sqlx::query("DELETE FROM applications WHERE uri = $1")
            .bind(uri)
            .execute(&mut *transaction)
            .await
            .map_err(DbError::at(doing))?;
        transaction.commit().await.map_err(DbError::at(doing))?;
        Ok(done.rows_affected() > 0)
    }

    async fn with_certificates(&self, row: &SqliteRow) -> Result<Application, DbError> {
        let uri = rows::text(row, "uri")?;
        let found =
            sqlx::query("SELECT thumbprint FROM application_certificates WHERE application = $1 ORDER BY thumbprint")
                .bind(&uri)
                .fetch_all(&self.pool)
                .await
                .map_err(DbError::at("list an application's certificates"))?;
        let certificates = found.iter().map(|row| rows::thumbprint(&rows::text(row, "thumbprint")?));
        let kind = rows::text(row, "kind")?;
        Ok(Application {
            name: rows::text(row, "name")?,
            kind: ApplicationKind::from_word(&kind).ok_or_else(|| DbError::unreadable("kind", &uri))?,
            certificates: certificates.collect::<Result<_, _>>()?,
            secret_hash: rows::optional_text(row, "secret_hash")?,
            enabled: rows::flag(row, "enabled")?,
            created: rows::time(row, "created")?,
            uri,
        })
    }
}
