//! `trapkey application`: registered applications, their client secrets, and whether they may ask at all.

use access_model::Thumbprint;
use authority::{AccountChange, new_client_secret};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use store::{Application, Db, DbConfig};

use super::accounts::{self, Done, Order};
use super::admin::{At, percent};
use super::audit::list;
use super::{Common, block_on};
use crate::answer::Answer;
use crate::failure::Failure;

/// What to do with applications.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List registered applications, from the journal in the configuration
    List,
    /// Give an application a new client secret in place of the one before, and print it this once (as an administrator)
    SetSecret(Named),
    /// Take an application's client secret away (as an administrator)
    RemoveSecret(Named),
    /// Give an application no more tokens, and revoke those for it at every server that listens (as an administrator)
    Disable(Named),
    /// Let an application that was disabled ask again (as an administrator)
    Enable(Named),
}

#[derive(Debug, Args)]
pub(crate) struct Named {
    #[command(flatten)]
    at: At,
    /// The ApplicationUri; also the OAuth2 `client_id`
    uri: String,
}

pub(crate) fn run(command: Command, common: &Common) -> Result<Answer, Failure> {
    match command {
        Command::List => list_applications(common),
        Command::SetSecret(named) => block_on(set_secret(&named, common)),
        Command::RemoveSecret(named) => block_on(remove_secret(&named, common)),
        Command::Disable(named) => block_on(disable(&named, common)),
        Command::Enable(named) => block_on(enable(&named, common)),
    }
}

fn order(method: &'static str, uri: &str, what: &str) -> Order {
    Order { method, path: format!("/applications/{}/{what}", percent(uri)), body: None }
}

async fn set_secret(named: &Named, common: &Common) -> Result<Answer, Failure> {
    let own = new_client_secret();
    let here = || {
        let hash = authority::hash_secret(&own).map_err(|error| Failure::from_error(&error))?;
        Ok(AccountChange::ClientSecret { uri: named.uri.clone(), hash: Some(hash), in_plant: false })
    };
    let secret = match accounts::carry_out(&named.at, common, order("PUT", &named.uri, "secret"), here).await? {
        Done::Here(_) => own.to_string(),
        Done::There(said) => {
            let secret = said["client_secret"].as_str().map(str::to_owned);
            secret.ok_or_else(|| Failure::unavailable("the authority told no secret"))?
        }
    };
    let json = json!({"client_id": named.uri, "client_secret": secret});
    Ok(Answer::ok(secret, json))
}

async fn remove_secret(named: &Named, common: &Common) -> Result<Answer, Failure> {
    let here = || Ok(AccountChange::ClientSecret { uri: named.uri.clone(), hash: None, in_plant: false });
    let done = accounts::carry_out(&named.at, common, order("DELETE", &named.uri, "secret"), here).await?;
    Ok(accounts::changed(&named.uri, "client secret removed", &done, json!({"secret": false})))
}

async fn disable(named: &Named, common: &Common) -> Result<Answer, Failure> {
    let here = || Ok(AccountChange::DisableApplication { uri: named.uri.clone(), in_plant: false });
    let done = accounts::carry_out(&named.at, common, order("POST", &named.uri, "disable"), here).await?;
    Ok(accounts::changed(&named.uri, "disabled", &done, json!({"enabled": false})))
}

async fn enable(named: &Named, common: &Common) -> Result<Answer, Failure> {
    let here = || Ok(AccountChange::EnableApplication { uri: named.uri.clone() });
    let done = accounts::carry_out(&named.at, common, order("POST", &named.uri, "enable"), here).await?;
    Ok(accounts::changed(&named.uri, "enabled", &done, json!({"enabled": true})))
}

fn list_applications(common: &Common) -> Result<Answer, Failure> {
    let config = common.config.load()?;
    let place = DbConfig { path: config.store.database.clone(), sync: crate::config::durability(config.store.sync) };
    let applications = block_on(async {
        let db = Db::open(&place).await.map_err(|error| Failure::from_error(&error))?;
        let applications = db.applications().await.map_err(|error| Failure::from_error(&error));
        db.close().await;
        applications
    })?;
    let row = |one: &Application| {
        let standing = if one.enabled { "enabled" } else { "disabled" };
        let secret = if one.secret_hash.is_some() { "yes" } else { "no" };
        let certificates = one.certificates.len().to_string();
        vec![one.uri.clone(), one.kind.word().to_owned(), standing.to_owned(), secret.to_owned(), certificates]
    };
    let rows: Vec<Vec<String>> = applications.iter().map(row).collect();
    let json: Vec<Value> = applications
        .iter()
        .map(|one| {
            json!({"uri": one.uri, "name": one.name, "kind": one.kind.word(), "enabled": one.enabled,
                "secret": one.secret_hash.is_some(),
                "certificates": one.certificates.iter().map(Thumbprint::to_string).collect::<Vec<_>>()})
        })
        .collect();
    Ok(Answer::ok(list(&["uri", "kind", "standing", "secret", "certificates"], &rows), json.into()))
}
