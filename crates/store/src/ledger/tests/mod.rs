//! The ledger: its life, its damage and its queue.

mod damage;
mod life;
mod queue;
mod retention;
mod rotation;

use std::path::Path;
use std::time::Duration;

use access_model::{Actor, AuditKind, AuditRecord, Epoch, Outcome, Place, Reason, UnixTime};

use super::*;

/// Checkpoints only when asked for, so that tests know where they are.
fn quiet() -> LedgerConfig {
    let never = Duration::from_secs(3_600);
    LedgerConfig {
        checkpoint_interval: never,
        checkpoint_records: u64::MAX,
        linger: Duration::ZERO,
        ..LedgerConfig::default()
    }
}

/// The same key for all ledgers of a test, so that they can be opened again.
struct Keys(tempfile::TempDir);

impl Keys {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn key(&self) -> CheckpointKey {
        CheckpointKey::load_or_create(&self.0.path().join("ledger.pem"), KeyKind::Ed25519).unwrap()
    }
}

fn record(number: u64) -> AuditRecord {
    AuditRecord {
        at: UnixTime::from_micros(1_795_262_399_000_001),
        kind: AuditKind::Write,
        actor: Actor { name: "anna".into(), session: Some("s1".into()), ..Actor::default() },
        object: format!("ns=2;s=valve-{number}"),
        outcome: Outcome::Denied(Reason::RightMissing),
        detail: "needs write".into(),
        count: 1,
        epoch: Some(Epoch(7)),
        place: None,
    }
}

/// The objects in the ledger, in order.
fn objects(folder: &Path) -> Vec<String> {
    tail(folder, usize::MAX).unwrap().into_iter().map(|entry| entry.object).collect()
}

fn expected(numbers: std::ops::Range<u64>) -> Vec<String> {
    numbers.map(|number| record(number).object).collect()
}

/// A folder in memory where the system has one: thousands of copies need no disk to be told about each.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// The folder's files as they are now, copied: what a kill -9 at this moment leaves.
fn snapshot(folder: &Path) -> tempfile::TempDir {
    let copy = in_memory();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    copy
}

fn segment_paths(folder: &Path) -> Vec<PathBuf> {
    folder::segments(folder).unwrap().into_iter().map(|segment| segment.path).collect()
}

fn broken(folder: &Path) -> BreakKind {
    verify(folder, None).unwrap().first_break.expect("the ledger verifies").kind
}
