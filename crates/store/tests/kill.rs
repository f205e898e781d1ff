//! Killed at any instant, nothing acknowledged is lost and the chain verifies.
//!
//! The test runs itself again as a child that appends as fast as it can and prints what was acknowledged; the parent
//! kills it with SIGKILL after a random number of lines, and the next child goes on in the same folder.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use access_model::{Actor, AuditKind, AuditRecord, Outcome, UnixTime};
use store::{CheckpointKey, KeyKind, Ledger, LedgerConfig, tail, verify};

const FOLDER: &str = "TRAPKEY_TEST_LEDGER";
const KILLS: u64 = 25;

fn record(object: String) -> AuditRecord {
    AuditRecord {
        at: UnixTime::from_seconds(1),
        kind: AuditKind::Call,
        actor: Actor::default(),
        object,
        outcome: Outcome::Allowed,
        detail: String::new(),
        count: 1,
        epoch: None,
        place: None,
    }
}

fn open(folder: &Path) -> Ledger {
    let key = CheckpointKey::load_or_create(&folder.join("key.pem"), KeyKind::Ed25519).unwrap();
    let config = LedgerConfig {
        rotate_bytes: 30_000,
        checkpoint_records: 50,
        checkpoint_interval: Duration::from_millis(3),
        linger: Duration::ZERO,
        ..LedgerConfig::default()
    };
    Ledger::open(&folder.join("ledger"), config, key).unwrap()
}

/// The child: appends from several threads, prints number and object of each acknowledged record.
#[test]
#[ignore = "runs as the child of the test below"]
fn child() {
    let folder = std::env::var(FOLDER).unwrap();
    let ledger = open(Path::new(&folder));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let ledger = ledger.clone();
            scope.spawn(move || {
                for number in 0_u64.. {
                    let object = format!("{}-{thread}-{number}", std::process::id());
                    let sequence = ledger.append(record(object.clone())).wait_blocking().unwrap();
                    let line = format!("acknowledged {sequence} {object}\n");
                    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
}

/// Lets a child append, kills it after `lines` acknowledgements, and returns all that it got out.
fn run_and_kill(folder: &Path, lines: usize) -> Vec<(u64, String)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--ignored", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut acknowledged = Vec::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while output.read_line(&mut line).unwrap() > 0 {
        // A line cut by the kill has no end; the harness prints other lines.
        if let Some(("acknowledged", rest)) = line.strip_suffix('\n').and_then(|line| line.split_once(' ')) {
            let (sequence, object) = rest.split_once(' ').unwrap();
            acknowledged.push((sequence.parse().unwrap(), object.to_owned()));
            if acknowledged.len() == lines {
                child.kill().unwrap();
            }
        }
        line.clear();
    }
    child.wait().unwrap();
    acknowledged
}

#[test]
fn killed_at_any_instant_nothing_acknowledged_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let mut acknowledged = Vec::new();
    let mut random = 0x2545_F491_4F6C_DD1D_u64 ^ u64::from(std::process::id());
    for _ in 0..KILLS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let lines = (random >> 33) % 400 + 1;
        acknowledged.extend(run_and_kill(folder.path(), usize::try_from(lines).unwrap()));
        let report = verify(&ledger, None).unwrap();
        assert_eq!(report.first_break, None);
    }
    drop(open(folder.path()));
    let report = verify(&ledger, None).unwrap();
    assert!(report.is_intact(), "{report:?}");
    assert!(report.segments > 2, "{report:?}");
    let entries = tail(&ledger, usize::MAX).unwrap();
    for (sequence, object) in acknowledged {
        let found = entries.binary_search_by_key(&sequence, |entry| entry.sequence);
        assert_eq!(found.ok().map(|at| &entries[at].object), Some(&object), "record {sequence}");
    }
}
