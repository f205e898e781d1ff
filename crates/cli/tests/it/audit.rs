//! `trapkey audit`, `backup` and `restore`: what is shown, what verifies, and what a changed or foreign ledger is told.

use access_model::{Actor, AuditKind, AuditRecord, Epoch, Outcome, Reason, UnixTime};
use store::{CheckpointKey, KeyKind, Ledger, LedgerConfig};

use super::Scene;

fn record(number: i64, outcome: Outcome) -> AuditRecord {
    AuditRecord {
        at: UnixTime::from_seconds(1_795_262_399 + number),
        kind: if number % 2 == 0 { AuditKind::Write } else { AuditKind::Call },
        actor: Actor { name: "olga".into(), ..Actor::default() },
        object: "mixer/setpoints".into(),
        outcome,
        detail: "to 7.5".into(),
        count: 1,
        epoch: Some(Epoch(3)),
        place: None,
    }
}

fn ledger(scene: &Scene) {
    let key = CheckpointKey::load_or_create(&scene.path("var/audit.pem"), KeyKind::Ed25519).unwrap();
    let ledger = Ledger::open(&scene.path("var/ledger"), LedgerConfig::default(), key).unwrap();
    for (number, outcome) in
        [Outcome::Allowed, Outcome::Denied(Reason::RightMissing), Outcome::Failed(0x8074_0000)].into_iter().enumerate()
    {
        ledger.append(record(number as i64, outcome)).wait_blocking().unwrap();
    }
}

#[test]
fn records_are_shown_selected_and_exported() {
    let scene = Scene::plant();
    ledger(&scene);
    insta::assert_snapshot!(scene.run(&["audit", "tail"]));
    insta::assert_snapshot!(scene.run(&["audit", "tail", "--kind", "write", "-n", "1"]));
    assert_eq!(scene.json(&["audit", "tail", "--outcome", "denied"])[0]["reason"], "right_missing");
    let exported = scene.run(&["audit", "export", "--since", "2026-11-21T12:00:00Z", "--format", "syslog"]);
    assert_eq!(exported.matches("<10").count(), 2, "{exported}");
    insta::assert_snapshot!(scene.run(&["audit", "export", "--to", "all.jsonl"]));
    assert_eq!(scene.read("all.jsonl").lines().count(), 3);
    insta::assert_snapshot!(scene.run(&["audit", "tail", "--since", "yesterday"]));
}

#[test]
fn a_sound_ledger_verifies_with_the_key_of_the_configuration_and_a_changed_one_does_not() {
    let scene = Scene::plant();
    ledger(&scene);
    let report = scene.json(&["audit", "verify"]);
    assert_eq!((&report["intact"], &report["key_pinned"], &report["records"]), (&true.into(), &true.into(), &3.into()));
    let mut segment = std::fs::read_dir(scene.path("var/ledger")).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.find(|path| path.extension().is_some_and(|end| end == "ledger")).unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    let place = bytes.windows(6).position(|part| part == b"to 7.5").unwrap();
    bytes[place + 3] = b'9';
    std::fs::write(&segment, bytes).unwrap();
    let said = scene.run(&["audit", "verify"]);
    assert!(said.starts_with("exit 1\n--- stdout\nBROKEN: segment-00000000000000000001.ledger at byte "), "{said}");
    assert!(said.contains("record 3: the hash does not chain to the record before"), "{said}");
    let report = scene.json(&["audit", "verify"]);
    assert_eq!((&report["intact"], &report["first_break"]["sequence"]), (&false.into(), &3.into()));
}

#[test]
fn a_ledger_of_another_key_or_none_is_told() {
    let scene = Scene::plant();
    insta::assert_snapshot!(scene.run(&["audit", "verify"]));
    ledger(&scene);
    let other = CheckpointKey::generate(KeyKind::Es256).unwrap().public().to_string();
    let said = scene.run(&["audit", "verify", "--key", &other]);
    assert!(said.starts_with("exit 1") && said.contains("belongs to another ledger or key"), "{said}");
    insta::assert_snapshot!(scene.run(&["audit", "verify", "--key", "ed25519:AAAA"]));
}

#[test]
fn a_backup_goes_out_and_in() {
    let scene = Scene::plant();
    insta::assert_snapshot!(scene.run(&["backup", "b.tar"]));
    ledger(&scene);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = store::DbConfig { path: scene.path("var/trapkey.db"), sync: store::Sync::Os };
    runtime.block_on(async { store::Db::open(&config).await.unwrap().close().await });
    assert_eq!(scene.json(&["backup", "b.tar"])["files"], 3);
    insta::assert_snapshot!(scene.run(&["backup", "b.tar"]));
    insta::assert_snapshot!(scene.run(&["restore", "b.tar"]));
    let restored = scene.json(&["restore", "b.tar", "--replace"]);
    assert_eq!((&restored["records"], restored["put_aside"].as_array().unwrap().len()), (&3.into(), 2));
    assert_eq!(scene.json(&["audit", "verify"])["intact"], true);
    let mut bytes = std::fs::read(scene.path("b.tar")).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(scene.path("b.tar"), bytes).unwrap();
    let said = scene.run(&["restore", "b.tar", "--replace"]);
    assert!(said.starts_with("exit 2") && said.contains("nothing was changed"), "{said}");
}

#[test]
fn the_key_changes_hands_and_old_segments_go_into_an_archive() {
    let scene = Scene::plant();
    ledger(&scene);
    let first = std::fs::read_to_string(scene.path("var/audit.pem.pub")).unwrap();
    let rotated = scene.json(&["audit", "rotate-key", "--kind", "es256"]);
    assert_eq!((&rotated["from"], rotated["to"].as_str().unwrap().starts_with("es256:")), (&first.trim().into(), true));
    let key = || CheckpointKey::load(&scene.path("var/audit.pem")).unwrap();
    let small = LedgerConfig { rotate_bytes: 800, ..LedgerConfig::default() };
    let open = Ledger::open(&scene.path("var/ledger"), small, key()).unwrap();
    for number in 0..20 {
        open.append(record(number, Outcome::Allowed)).wait_blocking().unwrap();
    }
    let busy = scene.run(&["audit", "rotate-key"]);
    assert!(busy.starts_with("exit 3") && busy.contains("stop the program that writes it"), "{busy}");
    // Segments may go while it is written.
    let gone = scene.json(&["audit", "archive", "--to", "old", "--keep", "2"]);
    assert_eq!((&gone["left"], &gone["archive"]), (&2.into(), &"old".into()));
    drop(open);
    let report = scene.json(&["audit", "verify"]);
    assert_eq!(
        (&report["intact"], &report["key_pinned"], &report["removed"]["records"]),
        (&true.into(), &true.into(), &gone["records"])
    );
    assert_eq!(report["keys"].as_array().unwrap().len(), 2);
    assert_eq!(scene.json(&["audit", "verify", "--key", first.trim()])["intact"], true);
    let kept = scene.json(&["audit", "verify", "--ledger", "old", "--key", first.trim()]);
    assert_eq!((&kept["intact"], &kept["records"]), (&true.into(), &gone["records"]));
    let lines = |args: &[&str]| scene.json(args).as_array().unwrap().len();
    assert_eq!(lines(&["audit", "tail", "-n", "99", "--ledger", "old"]) + lines(&["audit", "tail", "-n", "99"]), 23);
    assert_eq!(scene.json(&["audit", "retain", "--older-than", "1d"])["removed"].as_array().unwrap().len(), 0);
    let shown = scene.run(&["audit", "retain", "--keep", "1"]);
    assert!(shown.starts_with("exit 0\n--- stdout\nremoved: ") && shown.contains("  left         1, "), "{shown}");
    assert!(scene.run(&["audit", "verify"]).contains("  handed over  record "));
    insta::assert_snapshot!(scene.run(&["audit", "retain"]));
    // A missing segment is found, and a ledger with a hole is not shortened further.
    std::fs::remove_file(scene.path("var/ledger/stub.json")).unwrap();
    assert!(scene.run(&["audit", "verify"]).contains("is missing, the next one there begins with"));
    let refused = scene.run(&["audit", "retain", "--keep", "1"]);
    assert!(refused.starts_with("exit 2") && refused.contains("nothing is removed from a ledger"), "{refused}");
}
