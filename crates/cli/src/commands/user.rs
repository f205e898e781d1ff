//! `trapkey user`: accounts with passwords, at the authority that runs, else in its journal.

use std::path::PathBuf;

use authority::{AccountChange, SHORTEST_PASSWORD};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use store::{Db, DbConfig, User};
use zeroize::Zeroizing;

use super::accounts::{self, Order};
use super::admin::{At, percent};
use super::audit::list;
use super::{Common, block_on};
use crate::answer::Answer;
use crate::failure::Failure;
use crate::files;

/// What to do with accounts. What a person may do is in plant and policies, not here. Changes are recorded; while no
/// authority runs they are made in its journal and ledger.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make an account or set its password, read from the standard input; tokens that live go on (as an administrator)
    Set(Named),
    /// Print the hash of a password, read from the standard input, for `[[server.user]]` in the configuration
    Hash,
    /// Let a person prove themselves with a certificate, too: to administer over HTTPS, for instance (as an administrator)
    Certify(Certify),
    /// List accounts, from the journal in the configuration
    List,
    /// Switch an account off and revoke its tokens at every server that listens (as an administrator)
    Disable(Named),
    /// Remove an account and revoke its tokens at every server that listens (as an administrator)
    Remove(Named),
}

#[derive(Debug, Args)]
pub(crate) struct Named {
    #[command(flatten)]
    at: At,
    /// The person's name, as in the plant file
    name: String,
}

#[derive(Debug, Args)]
pub(crate) struct Certify {
    #[command(flatten)]
    named: Named,
    /// The certificate, DER or PEM
    certificate: PathBuf,
}

pub(crate) fn run(command: Command, common: &Common) -> Result<Answer, Failure> {
    if let Command::Hash = command {
        let hash = authority::hash_secret(&password()?).map_err(|error| Failure::from_error(&error))?;
        return Ok(Answer::ok(hash.clone(), json!({"hash": hash})));
    }
    match &command {
        Command::Set(named) => {
            let password = password()?;
            block_on(set(named, common, &password))
        }
        Command::Certify(args) => block_on(certify(args, common)),
        Command::List | Command::Hash => block_on(list_users(common)),
        Command::Disable(named) => block_on(disable(named, common)),
        Command::Remove(named) => block_on(remove(named, common)),
    }
}

impl Named {
    fn order(&self, method: &'static str, rest: &str, body: Option<Value>) -> Order {
        Order { method, path: format!("/users/{}{rest}", percent(&self.name)), body }
    }
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

async fn set(named: &Named, common: &Common, password: &str) -> Result<Answer, Failure> {
    let (name, body) = (named.name.clone(), Some(json!({"password": password})));
    let here = || {
        let hash = authority::hash_secret(password).map_err(|error| Failure::from_error(&error))?;
        Ok(AccountChange::Password { name, hash })
    };
    let order = named.order("PUT", "/password", body);
    let done = accounts::carry_out(&named.at, common, order, here).await?;
    Ok(accounts::changed(&named.name, "password set", &done, json!({"enabled": true})))
}

async fn certify(args: &Certify, common: &Common) -> Result<Answer, Failure> {
    let certificate = gates::pki::certificate(&args.certificate);
    let thumbprint = certificate.map_err(|error| Failure::from_error(&error).into_bad_input())?.thumbprint();
    let name = args.named.name.clone();
    let order = args.named.order("POST", "/certificates", Some(json!({"thumbprint": thumbprint.to_string()})));
    let here = || Ok(AccountChange::Certificate { name, thumbprint });
    let done = accounts::carry_out(&args.named.at, common, order, here).await?;
    let json = json!({"thumbprint": thumbprint.to_string()});
    Ok(accounts::changed(&args.named.name, &format!("certificate {thumbprint}"), &done, json))
}

async fn disable(named: &Named, common: &Common) -> Result<Answer, Failure> {
    let here = || Ok(AccountChange::Disable { name: named.name.clone() });
    let done = accounts::carry_out(&named.at, common, named.order("POST", "/disable", None), here).await?;
    Ok(accounts::changed(&named.name, "disabled", &done, json!({"enabled": false})))
}

async fn remove(named: &Named, common: &Common) -> Result<Answer, Failure> {
    let here = || Ok(AccountChange::Remove { name: named.name.clone() });
    let done = accounts::carry_out(&named.at, common, named.order("DELETE", "", None), here).await?;
    Ok(accounts::changed(&named.name, "removed", &done, json!({"removed": true})))
}

async fn list_users(common: &Common) -> Result<Answer, Failure> {
    let config = common.config.load()?;
    let place = DbConfig { path: config.store.database.clone(), sync: crate::config::durability(config.store.sync) };
    let db = Db::open(&place).await.map_err(|error| Failure::from_error(&error))?;
    let users = db.users().await.map_err(|error| Failure::from_error(&error));
    db.close().await;
    let users = users?;
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
