//! What is written when a token is issued: the token, its grant and the refresh token, all or nothing, and only if the
//! accounts and the line it comes from still stand. An account that was closed or a line that was cut while the token was
//! being made wins: there is one writer at a time.

use sqlx::SqliteConnection;

use super::{Db, DbError, Grant, IssuedToken, RefreshToken, grants, refresh, rows, tokens};

/// A token on its way into the journal.
#[derive(Clone, Copy, Debug)]
pub struct Issue<'a> {
    /// The token.
    pub token: &'a IssuedToken,
    /// What it grants.
    pub grant: &'a Grant,
    /// The refresh token beside it.
    pub refresh: Option<&'a RefreshToken>,
    /// Whether it goes on in a line that must still be there; else it begins one.
    pub goes_on: bool,
    /// The person's account, and whether there was one when the asking began.
    pub person: Option<(&'a str, bool)>,
    /// The application's account, and whether there was one when the asking began.
    pub application: (&'a str, bool),
}

/// What ended while the token was being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overtaken {
    /// The person's account was closed.
    Person,
    /// The application's account was closed.
    Application,
    /// The line of refresh tokens was cut, or is over.
    Line,
}

impl Db {
    /// Records an issued token.
    ///
    /// # Errors
    /// A token with this id exists, or a statement failed; then nothing changes. Inside: what overtook it; then nothing
    /// changes either.
    pub async fn issue(&self, issue: Issue<'_>) -> Result<Result<(), Overtaken>, DbError> {
        let doing = "record an issued token";
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(DbError::at(doing))?;
        if let Some(overtaken) = overtaken(&mut transaction, issue).await? {
            return Ok(Err(overtaken));
        }
        tokens::insert(&mut transaction, issue.token).await.map_err(DbError::at(doing))?;
        grants::put(&mut transaction, issue.grant).await.map_err(DbError::at(doing))?;
        if let Some(refresh) = issue.refresh {
            if !issue.goes_on {
                refresh::begin_line(&mut transaction, refresh).await.map_err(DbError::at(doing))?;
            }
            refresh::insert(&mut transaction, refresh).await.map_err(DbError::at(doing))?;
        }
        transaction.commit().await.map_err(DbError::at(doing))?;
        Ok(Ok(()))
    }
}

async fn overtaken(connection: &mut SqliteConnection, issue: Issue<'_>) -> Result<Option<Overtaken>, DbError> {
    const PERSON: &str = "SELECT enabled FROM users WHERE name = $1";
    const APPLICATION: &str = "SELECT enabled FROM applications WHERE uri = $1";
    if let Some((name, known)) = issue.person
        && !stands(connection, PERSON, name, known).await?
    {
        return Ok(Some(Overtaken::Person));
    }
    let (uri, known) = issue.application;
    if !stands(connection, APPLICATION, uri, known).await? {
        return Ok(Some(Overtaken::Application));
    }
    match issue.refresh {
        Some(refresh) if issue.goes_on => {
            let doing = "look up a line of refresh tokens";
            let row = sqlx::query("SELECT family FROM refresh_lines WHERE family = $1 AND ends > $2")
                .bind(&refresh.family)
                .bind(issue.token.issued.as_micros())
                .fetch_optional(connection)
                .await
                .map_err(DbError::at(doing))?;
            Ok(row.is_none().then_some(Overtaken::Line))
        }
        _ => Ok(None),
    }
}

/// An account that was there must be there still; one that is there must be open.
async fn stands(
    connection: &mut SqliteConnection,
    query: &'static str,
    name: &str,
    known: bool,
) -> Result<bool, DbError> {
    let row = sqlx::query(query).bind(name).fetch_optional(connection).await;
    match row.map_err(DbError::at("look up an account"))? {
        Some(row) => rows::flag(&row, "enabled"),
        None => Ok(!known),
    }
}
