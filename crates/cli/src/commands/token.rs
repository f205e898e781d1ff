//! `trapkey token`: tokens as they are, the journal's list of them, and what an authority does with them.

use std::path::PathBuf;

use access_model::UnixTime;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use store::{Db, DbConfig, IssuedToken, TokenFilter};
use token::{Claims, Expectation, Issuer, MAX_TOKEN_LEN};

use super::audit::list;
use super::{Common, admin, block_on};
use crate::answer::Answer;
use crate::failure::Failure;
use crate::files;

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List issued tokens, the newest first, from the journal in the configuration
    List(List),
    /// Let a running authority issue a token by hand (as an administrator)
    Issue(admin::Issue),
    /// Show what a token says, WITHOUT checking its signature
    Inspect(Inspect),
    /// Check a token as the server it is for would; exit code 1 and the reason when it is refused
    Verify(Verify),
    /// Revoke a token at a running authority: every server that listens ends it at once (as an administrator)
    Revoke(admin::Revoke),
    /// Let a running authority sign with its next key; the present one stays published (as an administrator)
    RotateKeys(admin::Order),
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only of this person or application
    #[arg(long, value_name = "NAME")]
    subject: Option<String>,
    /// Only for this server
    #[arg(long, value_name = "URI")]
    audience: Option<String>,
    /// Expired and revoked ones too
    #[arg(long)]
    all: bool,
    /// At most this many
    #[arg(long, default_value_t = 100, value_name = "COUNT")]
    limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// The file with the token, `-` for the standard input
    #[arg(default_value = "-")]
    token: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The file with the token, `-` for the standard input
    #[arg(default_value = "-")]
    token: PathBuf,
    /// The issuer's keys, as a JWKS file
    #[arg(long, value_name = "FILE")]
    keys: PathBuf,
    /// The issuer
    #[arg(long, value_name = "URL")]
    issuer: String,
    /// The server it must be for
    #[arg(long, value_name = "URI")]
    audience: String,
    /// Accept a token that is bound to no client certificate (of a foreign issuer)
    #[arg(long)]
    unbound: bool,
}

pub(crate) fn run(command: Command, common: &Common) -> Result<Answer, Failure> {
    match command {
        Command::List(args) => list_tokens(&args, common),
        Command::Issue(args) => admin::issue(&args, common),
        Command::Revoke(args) => admin::revoke(&args, common),
        Command::RotateKeys(args) => admin::rotate(&args, common),
        Command::Inspect(args) => inspect(&args),
        Command::Verify(args) => verify(&args),
    }
}

fn list_tokens(args: &List, common: &Common) -> Result<Answer, Failure> {
    let config = common.config.load()?;
    let path = config.store.database;
    if !files::exists(&path) {
        return Err(Failure::bad_input(format!("there is no database `{}`", path.display())));
    }
    let now = gates::clock::now().unix;
    let filter = TokenFilter {
        subject: args.subject.clone(),
        audience: args.audience.clone(),
        live_at: (!args.all).then_some(now),
        limit: Some(args.limit),
    };
    let config = DbConfig { path, sync: crate::config::durability(config.store.sync) };
    let found = block_on(async {
        let db = Db::open(&config).await.map_err(|error| Failure::from_error(&error))?;
        let found = db.tokens(&filter).await.map_err(|error| Failure::from_error(&error));
        db.close().await;
        found
    })?;
    let rows: Vec<Vec<String>> = found.iter().map(|token| row(token, now)).collect();
    let json: Vec<Value> = found.iter().map(token_json).collect();
    Ok(Answer::ok(list(&["id", "subject", "audience", "flow", "issued", "standing"], &rows), json.into()))
}

fn row(token: &IssuedToken, now: UnixTime) -> Vec<String> {
    let standing = match token.revoked {
        Some(at) => format!("revoked {}", seconds(at)),
        None if token.expires <= now => format!("expired {}", seconds(token.expires)),
        None => format!("until {}", seconds(token.expires)),
    };
    let (id, subject, audience) = (token.id.clone(), token.subject.clone(), token.audience.clone());
    vec![id, subject, audience, token.flow.clone(), seconds(token.issued), standing]
}

/// A time without its microseconds.
fn seconds(at: UnixTime) -> String {
    store::rfc3339(UnixTime::from_seconds(at.as_seconds())).replace(".000000", "")
}

fn token_json(token: &IssuedToken) -> Value {
    json!({
        "id": token.id,
        "subject": token.subject,
        "application": token.application,
        "audience": token.audience,
        "confirmation": token.confirmation.map(|thumbprint| thumbprint.to_string()),
        "flow": token.flow,
        "issued": store::rfc3339(token.issued),
        "not_before": store::rfc3339(token.not_before),
        "expires": store::rfc3339(token.expires),
        "epoch": token.epoch.0,
        "revoked": token.revoked.map(store::rfc3339),
    })
}

/// A token file may end with a line end.
fn read(path: &std::path::Path) -> Result<Vec<u8>, Failure> {
    Ok(files::bytes(path)?.trim_ascii().to_vec())
}

fn inspect(args: &Inspect) -> Result<Answer, Failure> {
    let bytes = read(&args.token)?;
    let peeked = token::danger_peek_unverified(&bytes)
        .map_err(|refusal| Failure::bad_input("this is no token").because_of(Some(&refusal)))?;
    let payload: Value = serde_json::from_str(&peeked.payload).unwrap_or_default();
    let mut text = String::from("NOT VERIFIED: anybody can write this\n");
    text += &format!("  length     {} bytes\n  algorithm  {}\n", bytes.len(), peeked.algorithm);
    text += &format!("  key        {}\n", peeked.key_id.as_deref().unwrap_or("none"));
    match &peeked.claims {
        Some(claims) => text += &claims_text(claims),
        None => text += &format!("  payload    {payload:#}\n"),
    }
    let (length, algorithm, key) = (bytes.len(), peeked.algorithm, peeked.key_id);
    let json = json!({"verified": false, "length": length, "algorithm": algorithm, "key": key, "payload": payload});
    Ok(Answer::ok(text, json))
}

fn verify(args: &Verify) -> Result<Answer, Failure> {
    let keys = token::parse_jwks(&files::bytes(&args.keys)?).map_err(|error| {
        Failure::bad_input(format!("`{}` is no set of keys", args.keys.display())).because_of(Some(&error))
    })?;
    let issuer = Issuer { name: args.issuer.clone(), keys, require_confirmation: !args.unbound };
    let now = gates::clock::now().unix;
    let expected =
        Expectation { issuers: std::slice::from_ref(&issuer), audience: &args.audience, now, max_len: MAX_TOKEN_LEN };
    match token::verify(&read(&args.token)?, &expected) {
        Ok(claims) => {
            let text = format!(
                "the token is valid here and now; its server also compares certificate and scope map\n{}",
                claims_text(&claims)
            );
            Ok(Answer::ok(text, json!({"valid": true, "claims": claims_json(&claims)})))
        }
        Err(refusal) => {
            let json = json!({"valid": false, "reason": refusal.reason.word(), "detail": refusal.detail});
            Ok(Answer::verdict(false, format!("refused: {refusal}"), json))
        }
    }
}

fn claims_text(claims: &Claims) -> String {
    let confirmation = claims.confirmation.map_or_else(|| "no certificate".to_owned(), |print| print.to_string());
    let mut text = format!("  id         {}\n  issuer     {}\n", claims.id, claims.issuer);
    text += &format!("  subject    {}\n  audience   {}\n", claims.subject, claims.audience);
    text += &format!("  bound to   {confirmation}\n  roles      {}\n", claims.roles.join(", "));
    text += &format!("  valid      {} to {}\n", seconds(claims.not_before), seconds(claims.expires));
    text += &format!("  epoch      {}\n", claims.epoch.0);
    if let Some(rights) = &claims.rights {
        for (held, scopes) in &rights.entries {
            text += &format!("  {held} on {} scopes\n", scopes.len());
        }
    }
    text
}

fn claims_json(claims: &Claims) -> Value {
    let rights = claims.rights.as_ref().map(|rights| {
        let entries = rights.entries.iter();
        let entries = entries.map(|(held, scopes)| json!({"rights": held.to_string(), "scopes": scopes.len()}));
        json!({"map": format!("{:?}", rights.map), "entries": entries.collect::<Vec<_>>()})
    });
    json!({
        "id": claims.id, "issuer": claims.issuer, "subject": claims.subject, "audience": claims.audience,
        "client": claims.client, "confirmation": claims.confirmation.map(|print| print.to_string()),
        "roles": claims.roles, "groups": claims.groups, "epoch": claims.epoch.0,
        "not_before": store::rfc3339(claims.not_before), "expires": store::rfc3339(claims.expires), "rights": rights,
    })
}
