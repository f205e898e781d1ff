//! The store: decrypts what comes and puts it into its database, one message of each connection in turn.

use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use super::crypt::{self, Keys, Shared, Side};
use super::database::Database;
use super::wire::{Line, What};
use super::{Configuration, Scenario, accounts};
use crate::Failed;
use crate::clock::Whose;

/// What it is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Spec {
    /// What is run.
    pub scenario: Scenario,
    /// Where the keys are.
    pub keys: PathBuf,
    /// Where the database is.
    pub database: PathBuf,
}

/// What it says first.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Ready {
    /// Where it listens, on loopback.
    pub port: u16,
    /// The process that works for it, where there is one.
    #[serde(default)]
    pub backend: Option<u32>,
}

/// Its accounts.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Accounts {
    /// Processor seconds so far, those of the database's process for it included.
    pub seconds: f64,
    /// Tags in the database.
    pub tags: i64,
}

struct Connection {
    line: Line,
    shared: Option<Shared>,
    /// A key that is used as soon as this nonce comes back.
    next: Option<(Shared, [u8; 32])>,
    stored: i64,
}

/// Runs until the organisation leaves.
///
/// # Errors
/// Anything that is not as it should be.
pub fn run(spec: &Spec) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut database = runtime.block_on(Database::open(spec.scenario.database, &spec.database))?;
    let keys = match spec.scenario.configuration {
        Configuration::Sc2 => Some(Keys::read(&spec.keys, Side::Store, spec.scenario.key)?),
        _ => None,
    };
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let ready = Ready { port: listener.local_addr()?.port(), backend: database.backend() };
    println!("{}", serde_json::to_string(&ready)?);
    std::io::stdout().flush()?;
    let mut connections = Vec::new();
    for _ in 0..spec.scenario.clients {
        connections.push(Connection { line: Line::accept(&listener)?, shared: None, next: None, stored: 0 });
    }
    loop {
        for (client, connection) in connections.iter_mut().enumerate() {
            if !turn(&runtime, &mut database, keys.as_ref(), i64::try_from(client)?, connection)? {
                return Ok(());
            }
        }
    }
}

/// One message of one connection; false when there will be no more.
fn turn(
    runtime: &Runtime,
    database: &mut Database,
    keys: Option<&Keys>,
    client: i64,
    connection: &mut Connection,
) -> Result<bool, Failed> {
    let Connection { line, shared, next, stored } = connection;
    let Some((what, body)) = line.receive()? else { return Ok(false) };
    match what {
        What::Pass => return Ok(true),
        What::Tag => runtime.block_on(database.put(client, *stored, body))?,
        What::Sealed => {
            let tag = shared.as_ref().ok_or("nothing was agreed on")?.open(body)?;
            runtime.block_on(database.put(client, *stored, tag))?;
        }
        What::First => {
            let (nonce, sealed) = body.split_at_mut_checked(32).ok_or("a message without a nonce")?;
            let (key, expected) = next.take().ok_or("no exchange has begun")?;
            if *nonce != expected {
                return Err("the third message of an exchange is not the answer to the second".into());
            }
            let tag = shared.insert(key).open(sealed)?;
            runtime.block_on(database.put(client, *stored, tag))?;
        }
        What::Begin => {
            let (key, nonce, second) = crypt::answer(keys.ok_or("this store has no keys")?, body)?;
            *next = Some((key, nonce));
            line.send(What::Answer, &[&second])?;
            return Ok(true);
        }
        What::Accounts => {
            let of_backend = database.backend().map_or(Ok(0.0), accounts::of)?;
            let mut told = Accounts { seconds: Whose::Process.cpu() + of_backend, tags: 0 };
            // Counting takes time, so it is done at the end only, when the time was taken.
            if !body.is_empty() {
                told.tags = runtime.block_on(database.count())?;
            }
            line.send(What::Accounts, &[&serde_json::to_vec(&told)?])?;
            return Ok(true);
        }
        other @ (What::Answer | What::Stored) => return Err(format!("{other:?} came to the store").into()),
    }
    *stored += 1;
    line.send(What::Stored, &[])?;
    Ok(true)
}
