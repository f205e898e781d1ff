//! People who prove themselves to the authority with a password or a certificate.

use access_model::{Thumbprint, UnixTime};
use sqlx::sqlite::SqliteRow;
use sqlx::{Sqlite, Transaction};

use super::{Db, DbError, refresh, rows};

/// A person's account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name they log in with; JWT `sub`.
    pub name: String,
    /// Password hash in its own notation (argon2 PHC string); `None`: no password login.
    pub password_hash: Option<String>,
    /// User certificates, sorted. A certificate belongs to one user.
    pub certificates: Vec<Thumbprint>,
    /// Roles, sorted.
    pub roles: Vec<String>,
    /// Groups, sorted.
    pub groups: Vec<String>,
    /// Whether they may log in at all.
    pub enabled: bool,
    /// When the account was made.
    pub created: UnixTime,
}

impl Db {
    /// Makes an account, or replaces the one with this name. Another password, and an account that is closed, end the
    /// lines of refresh tokens.
    ///
    /// # Errors
    /// A certificate belongs to another user, or a statement failed; then nothing changes.
    pub async fn put_user(&self, user: &User) -> Result<(), DbError> {
        let doing = "store a user";
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(DbError::at(doing))?;
        let before = sqlx::query("SELECT password_hash FROM users WHERE name = $1")
            .bind(&user.name)
            .fetch_optional(&mut *transaction)
            .await
            .map_err(DbError::at(doing))?;
        let before = before.map(|row| rows::optional_text(&row, "password_hash")).transpose()?;
        let another = before.is_some_and(|before| before != user.password_hash);
        if another || !user.enabled {
            refresh::cut_person(&mut transaction, &user.name).await.map_err(DbError::at(doing))?;
        }
        sqlx::query(
            "INSERT INTO users (name, password_hash, enabled, created) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (name) DO UPDATE SET password_hash = excluded.password_hash, enabled = excluded.enabled",
        )
        .bind(&user.name)
        .bind(&user.password_hash)
        .bind(user.enabled)
        .bind(user.created.as_micros())
        .execute(&mut *transaction)
        .await
        .map_err(DbError::at(doing))?;
        replace_certificates(&mut transaction, user).await.map_err(DbError::at(doing))?;
        replace_memberships(&mut transaction, user).await.map_err(DbError::at(doing))?;
        transaction.commit().await.map_err(DbError::at(doing))
    }

    /// The user with this name.
    ///
    /// # Errors
    /// A statement failed or the row is unreadable.
    pub async fn user(&self, name: &str) -> Result<Option<User>, DbError> {
        let row = sqlx::query("SELECT name, password_hash, enabled, created FROM users WHERE name = $1")
            .bind(name)
            .fetch_optional(&self.pool)
            .await
            .map_err(DbError::at("look up a user"))?;
        match row {
            Some(row) => Ok(Some(self.whole_user(&row).await?)),
            None => Ok(None),
        }
    }

    /// The user who proves themselves with this certificate.
    ///
    /// # Errors
    /// A statement failed or the row is unreadable.
    pub async fn user_by_certificate(&self, certificate: &Thumbprint) -> Result<Option<User>, DbError> {
        let row = sqlx::query("SELECT person FROM user_certificates WHERE thumbprint = $1")
            .bind(certificate.to_string())
            .fetch_optional(&self.pool)
            .await
            .map_err(DbError::at("look up a user certificate"))?;
        match row {
            Some(row) => self.user(&rows::text(&row, "person")?).await,
            None => Ok(None),
        }
    }

    /// All users, by name.
    ///
    /// # Errors
    /// A statement failed or a row is unreadable.
    pub async fn users(&self) -> Result<Vec<User>, DbError> {
        let found = sqlx::query("SELECT name, password_hash, enabled, created FROM users ORDER BY name")
            .fetch_all(&self.pool)
            .await
            .map_err(DbError::at("list users"))?;
        let mut users = Vec::with_capacity(found.len());
        for row in &found {
            users.push(self.whole_user(row).await?);
        }
        Ok(users)
    }

    /// Removes a user and its lines of refresh tokens; whether there was one.
    ///
    /// # Errors
    /// The statement failed.
    pub async fn remove_user(&self, name: &str) -> Result<bool, DbError> {
        let doing = "remove a user";
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(DbError::at(doing))?;
        refresh::cut_person(&mut transaction, name).await.map_err(DbError::at(doing))?;
        let done = sqlx::query("DELETE FROM users WHERE name = $1")
            .bind(name)
            .execute(&mut *transaction)
            .await
            .map_err(DbError::at(doing))?;
        transaction.commit().await.map_err(DbError::at(doing))?;
        Ok(done.rows_affected() > 0)
    }

    async fn whole_user(&self, row: &SqliteRow) -> Result<User, DbError> {
        let name = rows::text(row, "name")?;
        let found = sqlx::query("SELECT thumbprint FROM user_certificates WHERE person = $1 ORDER BY thumbprint")
            .bind(&name)
            .fetch_all(&self.pool)
            .await
            .map_err(DbError::at("list a user's certificates"))?;
        let certificates = found.iter().map(|row| rows::thumbprint(&rows::text(row, "thumbprint")?));
        Ok(User {
            password_hash: rows::optional_text(row, "password_hash")?,
            certificates: certificates.collect::<Result<_, _>>()?,
            roles: self.memberships(&name, "role").await?,
            groups: self.memberships(&name, "group").await?,
            enabled: rows::flag(row, "enabled")?,
            created: rows::time(row, "created")?,
            name,
        })
    }

    async fn memberships(&self, person: &str, kind: &str) -> Result<Vec<String>, DbError> {
        let found = sqlx::query("SELECT name FROM memberships WHERE person = $1 AND kind = $2 ORDER BY name")
            .bind(person)
            .bind(kind)
            .fetch_all(&self.pool)
            .await
            .map_err(DbError::at("list a user's roles and groups"))?;
        found.iter().map(|row| rows::text(row, "name")).collect()
    }
}

async fn replace_certificates(transaction: &mut Transaction<'_, Sqlite>, user: &User) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM user_certificates WHERE person = $1").bind(&user.name).execute(&mut **transaction).await?;
    for thumbprint in &user.certificates {
        sqlx::query("INSERT INTO user_certificates (thumbprint, person) VALUES ($1, $2)")
            .bind(thumbprint.to_string())
            .bind(&user.name)
            .execute(&mut **transaction)
            .await?;
    }
    Ok(())
}

async fn replace_memberships(transaction: &mut Transaction<'_, Sqlite>, user: &User) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM memberships WHERE person = $1").bind(&user.name).execute(&mut **transaction).await?;
    let roles = user.roles.iter().map(|role| ("role", role));
    for (kind, name) in roles.chain(user.groups.iter().map(|group| ("group", group))) {
        sqlx::query("INSERT INTO memberships (person, kind, name) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING")
            .bind(&user.name)
            .bind(kind)
            .bind(name)
            .execute(&mut **transaction)
            .await?;
    }
    Ok(())
}
