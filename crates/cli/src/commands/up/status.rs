//! What a running program knows of itself, in a file beside its ledger: for `trapkey doctor`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use access_model::UnixTime;
use gates::opcua::guard::GuardHandle;
use gates::opcua::server::ServerHandle;
use serde::{Deserialize, Serialize};

use super::turn::Turn;
use crate::files;

/// How often it is written.
const WRITE: Duration = Duration::from_secs(2);
/// A file that is older speaks of nobody who runs.
const FRESH: i64 = 15;

/// The state of the servers and guards of one program.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Status {
    /// When it was written, in seconds since 1970.
    pub(crate) at: i64,
    /// The servers, by their short names.
    pub(crate) servers: BTreeMap<String, ServerStatus>,
    /// The guards, by theirs.
    #[serde(default)]
    pub(crate) guards: BTreeMap<String, GuardStatus>,
    /// Whose turn it is among guards that others stand in for, by their short names.
    #[serde(default)]
    pub(crate) turns: BTreeMap<String, TurnStatus>,
}

/// The state of a guard.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct GuardStatus {
    /// What it does with denials at this moment: the word of an [`access_model::Mode`].
    pub(crate) mode: String,
}

/// The turn of a guard.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct TurnStatus {
    /// Whether it serves.
    pub(crate) active: bool,
    /// Since when, in seconds since 1970.
    pub(crate) since: i64,
    /// The number of its latest turn.
    pub(crate) term: u64,
    /// Whether the other guard answers.
    pub(crate) other: bool,
}

/// What is looked at.
pub(super) struct Running {
    pub(super) servers: Vec<(String, ServerHandle)>,
    pub(super) guards: Vec<(String, GuardHandle)>,
    pub(super) turns: Vec<(String, Turn)>,
}

/// The state of a server.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct ServerStatus {
    /// The digest of the scope map that tokens have to index.
    pub(crate) map: String,
    /// By how many seconds the wall clock was set back since the server started.
    pub(crate) clock_behind: u64,
}

/// Beside the ledger, which no two programs share.
fn place(ledger: &Path) -> PathBuf {
    let mut name = ledger.file_name().unwrap_or_default().to_owned();
    name.push(".status.json");
    ledger.with_file_name(name)
}

impl Status {
    /// What the program with this ledger said of itself, if it runs.
    pub(crate) fn of(ledger: &Path, now: UnixTime) -> Option<Self> {
        let bytes = files::bytes(&place(ledger)).ok()?;
        let status: Self = serde_json::from_slice(&bytes).ok()?;
        ((status.at - now.as_seconds()).abs() <= FRESH).then_some(status)
    }

    async fn look(running: &Running) -> Self {
        let mut status = Self { at: gates::clock::now().unix.as_seconds(), ..Self::default() };
        for (name, handle) in &running.servers {
            let looked = handle.with(|server, now| ServerStatus {
                map: format!("{:?}", token::map_digest(&server.gate().config().map)),
                clock_behind: server.gate().clock_behind(now).as_secs(),
            });
            if let Ok(server) = looked.await {
                status.servers.insert(name.clone(), server);
            }
        }
        for (name, handle) in &running.guards {
            if let Ok(mode) = handle.with(|guard, _| guard.front().gate().mode()).await {
                status.guards.insert(name.clone(), GuardStatus { mode: mode.name().to_owned() });
            }
        }
        for (name, turn) in running.turns.iter().filter(|(_, turn)| !turn.is_over()) {
            let stands = turn.standing();
            let turn = TurnStatus {
                active: stands.active,
                since: stands.since.as_seconds(),
                term: stands.term,
                other: stands.reached.0,
            };
            status.turns.insert(name.clone(), turn);
        }
        status
    }
}

/// Writes the file until all of these have stopped; then it is taken away.
pub(super) async fn keep(ledger: PathBuf, running: Running) {
    let path = place(&ledger);
    let mut said = false;
    loop {
        let status = Status::look(&running).await;
        let at = path.clone();
        if status.servers.is_empty() && status.guards.is_empty() {
            let _gone_already = tokio::task::spawn_blocking(move || files::remove(&at)).await;
            return;
        }
        let written =
            tokio::task::spawn_blocking(move || files::note(&at, &serde_json::to_vec(&status).unwrap_or_default()))
                .await;
        if let Ok(Err(error)) = written
            && !std::mem::replace(&mut said, true)
        {
            tracing::warn!(path = %path.display(), %error, "`trapkey doctor` cannot see how servers and guards are");
        }
        tokio::time::sleep(WRITE).await;
    }
}
