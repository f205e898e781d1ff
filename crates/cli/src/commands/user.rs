//! `trapkey user`: accounts with passwords, in the journal of the configuration.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use store::{Db, DbConfig, User};
use zeroize::Zeroizing;

use super::audit::list;
use super::{Common, block_on};
use crate::answer::Answer;
use crate::failure::Failure;
use crate::files;

/// What to do with accounts. What a person may do is in plant and policies, not here.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make an account or set its password, read from the standard input
    Set(Named),
    /// Print the hash of a password, read from the standard input, for `[[server.user]]` in the configuration
    Hash,
    /// Let a person prove themselves with a certificate, too: to administer over HTTPS, for instance
    Certify(Certify),
    /// List accounts
    List,
    /// Switch an account off; its tokens live until they end or are revoked
    Disable(Named),
    /// Remove an account
    Remove(Named),
}

#[derive(Debug, Args)]
pub(crate) struct Named {
    /// The person's name, as in the plant file
    name: String,
}

#[derive(Debug, Args)]
pub(crate) struct Certify {
    /// The person's name, as in the plant file
    name: String,
    /// The certificate, DER or PEM
    certificate: PathBuf,
}

/// Shorter ones fall to guessing.
const SHORTEST_PASSWORD: usize = 8;

pub(crate) fn run(command: Command, common: &Common) -> Result<Answer, Failure> {
    if let Command::Hash = command {
        let hash = authority::hash_secret(&password()?).map_err(|error| Failure::from_error(&error))?;
        return Ok(Answer::ok(hash.clone(), json!({"hash": hash})));
    }
    let config = common.config.load()?;
    let place = DbConfig { path: config.store.database.clone(), sync: crate::config::durability(config.store.sync) };
    let password = match &command {
        Command::Set(_) => Some(password()?),
        _ => None,
    };
    block_on(async {
        let db = Db::open(&place).await.map_err(|error| Failure::from_error(&error))?;
        let done = match (command, password) {
            (Command::Set(named), Some(password)) => set(&db, named.name, &password).await,
            (Command::Certify(args), _) => certify(&db, &args).await,
            (Command::List | Command::Hash, _) => list_users(&db).await,
            (Command::Disable(named), _) => disable(&db, &named.name).await,
            (Command::Set(named) | Command::Remove(named), _) => remove(&db, &named.name).await,
        };
        db.close().await;
        done
    })
}

fn password() -> Result<Zeroizing<String>, Failure> {
    let bytes = Zeroizing::new(files::bytes("-".as_ref())?);
    let text = std::str::from_utf8(&bytes).map_err(|_| Failure::bad_input("the password is not UTF-8"))?;
    let text = Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned());
    if text.chars().count() < SHORTEST_PASSWORD {
        return Err(Failure::bad_input(format!("a password has at least {SHORTEST_PASSWORD} characters")));
    }
    Ok(text)
}

fn failed(error: &store::DbError) -> Failure {
    Failure::from_error(error)
}

async fn found(db: &Db, name: &str) -> Result<User, Failure> {
    let user = db.user(name).await.map_err(|error| failed(&error))?;
    user.ok_or_else(|| Failure::denied(format!("there is no account `{name}`")))
}

async fn set(db: &Db, name: String, password: &str) -> Result<Answer, Failure> {
    let hash = authority::hash_secret(password).map_err(|error| Failure::from_error(&error))?;
    let mut user = found_or_new(db, name).await?;
    user.password_hash = Some(hash);
    user.enabled = true;
    db.put_user(&user).await.map_err(|error| failed(&error))?;
    Ok(Answer::ok(format!("{}: password set", user.name), json!({"name": user.name})))
}

async fn found_or_new(db: &Db, name: String) -> Result<User, Failure> {
    let there = db.user(&name).await.map_err(|error| failed(&error))?;
    Ok(there.unwrap_or_else(|| User {
        name,
        password_hash: None,
        certificates: Vec::new(),
        roles: Vec::new(),
        groups: Vec::new(),
        enabled: true,
        created: gates::clock::now().unix,
    }))
}

async fn certify(db: &Db, args: &Certify) -> Result<Answer, Failure> {
    let certificate = gates::pki::certificate(&args.certificate);
    let certificate = certificate.map_err(|error| Failure::from_error(&error).into_bad_input())?;
    let mut user = found_or_new(db, args.name.clone()).await?;
    user.certificates.push(certificate.thumbprint());
    user.certificates.sort_unstable();
    user.certificates.dedup();
    db.put_user(&user).await.map_err(|error| failed(&error))?;
    let thumbprint = certificate.thumbprint().to_string();
    let json = json!({"name": user.name, "thumbprint": thumbprint});
    Ok(Answer::ok(format!("{}: certificate {thumbprint}", user.name), json))
}

async fn list_users(db: &Db) -> Result<Answer, Failure> {
    let users = db.users().await.map_err(|error| failed(&error))?;
    let row = |user: &User| {
        let standing = if user.enabled { "enabled" } else { "disabled" };
        let password = if user.password_hash.is_some() { "yes" } else { "no" };
        vec![user.name.clone(), standing.to_owned(), password.to_owned(), user.certificates.len().to_string()]
    };
    let rows: Vec<Vec<String>> = users.iter().map(row).collect();
    let json: Vec<Value> = users
        .iter()
        .map(|user| {
            json!({"name": user.name, "enabled": user.enabled, "password": user.password_hash.is_some(),
               "certificates": user.certificates.iter().map(ToString::to_string).collect::<Vec<_>>()})
        })
        .collect();
    Ok(Answer::ok(list(&["name", "standing", "password", "certificates"], &rows), json.into()))
}

async fn disable(db: &Db, name: &str) -> Result<Answer, Failure> {
    let user = User { enabled: false, ..found(db, name).await? };
    db.put_user(&user).await.map_err(|error| failed(&error))?;
    Ok(Answer::ok(format!("{name}: disabled"), json!({"name": name, "enabled": false})))
}

async fn remove(db: &Db, name: &str) -> Result<Answer, Failure> {
    found(db, name).await?;
    db.remove_user(name).await.map_err(|error| failed(&error))?;
    Ok(Answer::ok(format!("{name}: removed"), json!({"name": name, "removed": true})))
}
