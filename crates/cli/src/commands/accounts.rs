//! Changes of accounts: asked of the authority that runs, as an administrator. While none answers they are made in its
//! journal and ledger, which nobody else holds then; what runs and cannot be asked is never gone behind.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use access_model::Actor;
use authority::{AccountChange, AccountError, Books};
use gates::https::Target;
use serde_json::{Value, json};
use store::{CheckpointKey, Db, DbConfig, KeyKind, Ledger, LedgerConfig, LedgerError};
use tokio::net::TcpStream;

use super::Common;
use super::admin::At;
use crate::config::{Config, OnFailure};
use crate::failure::Failure;

/// How long an authority may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(3);

/// One request to the administration.
pub(crate) struct Order {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: Option<Value>,
}

/// Who made the change.
pub(crate) enum Done {
    /// A running authority, which answered this.
    There(Value),
    /// We, in its books; so many tokens ended.
    Here(usize),
}

impl Done {
    /// How many tokens ended.
    pub(crate) fn revoked(&self) -> u64 {
        match self {
            Self::There(said) => said["revoked"].as_u64().unwrap_or(0),
            Self::Here(revoked) => *revoked as u64,
        }
    }
}

/// Carries a change out; `here` says what it is when nobody can be asked.
pub(crate) async fn carry_out(
    at: &At,
    common: &Common,
    order: Order,
    here: impl FnOnce() -> Result<AccountChange, Failure>,
) -> Result<Done, Failure> {
    let config = common.config.load();
    if at.names_one() || answers(config.as_ref().ok()).await {
        return at.ask(common, order.method, &order.path, order.body).await.map(Done::There);
    }
    in_the_books(&config?, here()?).await.map(Done::Here)
}

async fn answers(config: Option<&Config>) -> bool {
    let url = config.and_then(|config| config.client.authority.as_deref());
    let Some(target) = url.and_then(|url| Target::parse(url).ok()) else { return false };
    let connected = tokio::time::timeout(PATIENCE, TcpStream::connect((target.host.as_str(), target.port))).await;
    matches!(connected, Ok(Ok(_)))
}

async fn in_the_books(config: &Config, change: AccountChange) -> Result<usize, Failure> {
    if config.authority.is_none() {
        return Err(Failure::unavailable("no authority answers, and this configuration runs none")
            .help("name it with `--authority`, or go where its configuration is"));
    }
    let ledger = ledger(config)?;
    let place = DbConfig { path: config.store.database.clone(), sync: crate::config::durability(config.store.sync) };
    let db = Db::open(&place).await.map_err(|error| Failure::from_error(&error))?;
    let audit_required = config.audit.on_failure == OnFailure::Closed;
    let books = Books { db, ledger, audit_required, now: gates::clock::now().unix };
    let done = write(&books, &change).await;
    books.db.close().await;
    books.ledger.close().await;
    done.map_err(|error| match error {
        AccountError::Unknown(_) | AccountError::Taken(_) | AccountError::Reserved(_) => {
            Failure::denied(error.to_string())
        }
        other => Failure::from_error(&other),
    })
}

async fn write(books: &Books, change: &AccountChange) -> Result<usize, AccountError> {
    let by = local_actor().await;
    let changed = books.change(change, &by).await?;
    books.conclude(changed, &by).await
}

/// Whoever may write the books; the system says under which number.
async fn local_actor() -> Actor {
    let user = tokio::fs::metadata("/proc/self").await.map(|process| format!(" (user {})", process.uid()));
    Actor { name: format!("command line{}", user.unwrap_or_default()), ..Actor::default() }
}

/// The authority's own ledger. That nobody else writes it shows that the authority does not run.
fn ledger(config: &Config) -> Result<Ledger, Failure> {
    let key = CheckpointKey::load_or_create(&config.audit.key, KeyKind::Ed25519);
    let key = key.map_err(|error| Failure::from_error(&error))?;
    let settings = LedgerConfig { sync: crate::config::durability(config.audit.sync), ..LedgerConfig::default() };
    Ledger::open(&config.audit.ledger, settings, key).map_err(|error| match error {
        LedgerError::InUse { .. } => Failure::unavailable("the authority runs and does not answer at its address")
            .because_of(Some(&error))
            .help("name the address with `--authority` and an administrator's certificate with `--pki`"),
        other => Failure::from_error(&other),
    })
}

/// What is said about tokens that ended.
pub(crate) fn ended(revoked: u64) -> String {
    match revoked {
        0 => String::new(),
        1 => "; 1 token revoked".to_owned(),
        more => format!("; {more} tokens revoked"),
    }
}

/// The answer of a change without anything else to tell.
pub(crate) fn changed(name: &str, what: &str, done: &Done, more: Value) -> crate::answer::Answer {
    let mut json = json!({"name": name, "revoked": done.revoked()});
    if let (Value::Object(json), Value::Object(more)) = (&mut json, more) {
        json.extend(more);
    }
    crate::answer::Answer::ok(format!("{name}: {what}{}", ended(done.revoked())), json)
}
