//! A disk that is full: records are refused, not lost in silence, and taken again when there is room.
//!
//! The test runs itself as a child under a file-size limit, which makes the kernel cut a write short and then refuse,
//! as a full disk does; the parent lifts the limit while the child runs.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use access_model::{Actor, AuditKind, AuditRecord, Outcome, UnixTime};
use store::{CheckpointKey, KeyKind, Ledger, LedgerConfig, Unavailable, tail, verify};

const FOLDER: &str = "TRAPKEY_TEST_LEDGER";

fn record(object: &str) -> AuditRecord {
    AuditRecord {
        at: UnixTime::from_seconds(1),
        kind: AuditKind::Write,
        actor: Actor::default(),
        object: object.into(),
        outcome: Outcome::Allowed,
        detail: "d".repeat(700),
        count: 1,
        epoch: None,
        place: None,
    }
}

#[test]
#[ignore = "runs as the child of the test below"]
fn child() {
    let folder = std::env::var(FOLDER).unwrap();
    let key = CheckpointKey::generate(KeyKind::Ed25519).unwrap();
    let config = LedgerConfig { retry: Duration::from_millis(5), ..LedgerConfig::default() };
    let ledger = Ledger::open(Path::new(&folder), config, key).unwrap();
    let mut taken = 0;
    let refused = loop {
        match ledger.append(record("before")).wait_blocking() {
            Ok(_) => taken += 1,
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, Unavailable::Write(_)), "{refused}");
    assert!(!ledger.health().is_available());
    ledger.note(record("kept")).unwrap();
    println!("full {taken}");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    while ledger.append(record("after")).wait_blocking().is_err() {
        std::thread::yield_now();
    }
    assert!(ledger.health().is_available());
    assert!(ledger.health().refused > 0);
    drop(ledger);
    println!("done");
}

#[test]
fn a_full_disk_refuses_and_room_mends_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -S -f 40; exec \"$0\" child --exact --ignored --nocapture"])
        .arg(std::env::current_exe().unwrap())
        .env(FOLDER, folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut taken = None;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(count) = line.strip_prefix("full ") {
            taken = Some(count.parse::<usize>().unwrap());
            let pid = child.id().to_string();
            let lifted = Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited"]).status().unwrap();
            assert!(lifted.success());
            std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"\n").unwrap();
        }
    }
    assert!(child.wait().unwrap().success());
    let entries = tail(folder.path(), usize::MAX).unwrap();
    let count = |object: &str| entries.iter().filter(|entry| entry.object == object).count();
    assert_eq!(Some(count("before")), taken, "each acknowledged record, and no refused one, is there");
    assert_eq!((count("kept"), count("after")), (1, 1));
    let report = verify(folder.path(), None).unwrap();
    assert!(report.is_intact(), "{report:?}");
    let [gap] = &*report.recoveries else { panic!("{:?}", report.recoveries) };
    assert!(gap.text.starts_with("writing failed (File too large"), "{}", gap.text);
}
