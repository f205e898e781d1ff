//! The ledger in ordinary life: appending, rotation, followers, keys and exports. Damage is tried in `damage`.

use std::os::unix::fs::PermissionsExt;

use super::*;

#[tokio::test]
async fn what_is_appended_comes_back_in_order_and_verifies() {
    let (keys, folder) = (Keys::new(), tempfile::tempdir().unwrap());
    let ledger = Ledger::open(folder.path(), LedgerConfig::default(), keys.key()).unwrap();
    let mut last = 0;
    for number in 0..50 {
        let sequence = ledger.append(record(number)).await.unwrap();
        assert!(sequence > last);
        last = sequence;
    }
    assert_eq!(objects(folder.path()), expected(0..50));
    assert!(ledger.health().is_available());
    assert!(ledger.health().sequence >= last);
    ledger.close().await;
    assert_eq!(ledger.append(record(50)).await, Err(Unavailable::Closed));
    let report = verify(folder.path(), Some(&keys.key().public())).unwrap();
    assert!(report.is_intact(), "{report:?}");
    assert_eq!((report.records, report.segments), (50, 1));
    assert!(report.key_pinned && report.checkpoints >= 2 && report.unsigned == 0);
}

#[tokio::test]
async fn every_field_of_a_record_comes_back() {
    let (keys, folder) = (Keys::new(), tempfile::tempdir().unwrap());
    let ledger = Ledger::open(folder.path(), quiet(), keys.key()).unwrap();
    let mut one = record(1);
    one.actor.application = Some("urn:client".into());
    one.actor.address = Some(String::new());
    one.actor.session = None;
    one.outcome = Outcome::Failed(0x8001_0000);
    one.count = u64::MAX;
    one.epoch = None;
    ledger.append(&one).await.unwrap();
    let entry = tail(folder.path(), 1).unwrap().remove(0);
    assert_eq!(entry.at, one.at);
    assert_eq!((entry.kind.as_str(), entry.outcome, entry.status), ("write", "failed", Some(0x8001_0000)));
    assert_eq!((entry.reason, entry.session, entry.epoch), (None, None, None));
    assert_eq!((entry.application.as_deref(), entry.address.as_deref()), (Some("urn:client"), Some("")));
    assert_eq!((entry.actor, entry.object, entry.detail), (one.actor.name, one.object, one.detail));
    assert_eq!(entry.count, u64::MAX);
}

#[tokio::test]
async fn where_something_was_done_comes_back_with_roles_and_without() {
    let (keys, folder) = (Keys::new(), tempfile::tempdir().unwrap());
    let ledger = Ledger::open(folder.path(), quiet(), keys.key()).unwrap();
    let place = |roles: &str| {
        let (server, scope, steps) = ("urn:s".into(), "line".into(), "fill".into());
        Place { server, scope, action: access_model::Action::Write, steps, roles: roles.into() }
    };
    for roles in ["", "observer, setter"] {
        let one = AuditRecord { place: Some(Box::new(place(roles))), ..record(1) };
        ledger.append(&one).await.unwrap();
        let found = tail(folder.path(), 1).unwrap().remove(0).place.unwrap();
        assert_eq!((found.server.as_str(), found.scope.as_str(), found.steps.as_str()), ("urn:s", "line", "fill"));
        assert_eq!((found.action.as_str(), found.roles.as_str()), ("write", roles));
    }
}

#[tokio::test]
async fn endless_texts_are_cut_between_characters() {
    let (keys, folder) = (Keys::new(), tempfile::tempdir().unwrap());
    let ledger = Ledger::open(folder.path(), quiet(), keys.key()).unwrap();
    let mut one = record(1);
    one.actor.name = "ü".repeat(40_000);
    one.actor.name.insert(0, 'a');
    one.actor.application = Some("x".repeat(70_000));
    one.detail = "d".repeat(100_000);
    ledger.append(&one).await.unwrap();
    let entry = tail(folder.path(), 1).unwrap().remove(0);
    assert_eq!((entry.actor.len(), entry.detail.len()), (1_023, 1_024));
    assert!(one.actor.name.starts_with(&entry.actor));
}

#[tokio::test]
async fn segments_are_handed_over_and_a_restart_goes_on_in_the_last() {
    let (keys, folder) = (Keys::new(), tempfile::tempdir().unwrap());
    let config = LedgerConfig { rotate_bytes: 2_000, sync: Sync::Disk, ..quiet() };
    for start in [0, 40, 80] {
        let ledger = Ledger::open(folder.path(), config, keys.key()).unwrap();
        for number in start..start + 40 {
            ledger.append(record(number)).await.unwrap();
        }
        ledger.close().await;
    }
    assert_eq!(objects(folder.path()), expected(0..120));
    assert_eq!(tail(folder.path(), 31).unwrap().len(), 31);
    assert_eq!(tail(folder.path(), 31).unwrap()[0].object, record(89).object);
    let report = verify(folder.path(), None).unwrap();
    assert!(report.is_intact(), "{report:?}");
    assert!(report.segments > 5);
    assert_eq!(report.recoveries, []);
}

#[tokio::test]
async fn many_tasks_at_once_lose_nothing_and_share_no_number() {
    let (keys, folder) = (Keys::new(), tempfile::tempdir().unwrap());
    let ledger = Ledger::open(folder.path(), LedgerConfig { rotate_bytes: 20_000, ..quiet() }, keys.key()).unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..20 {
        let ledger = ledger.clone();
        tasks.spawn(async move {
            let mut numbers = Vec::new();
            for number in 0..50 {
                ledger.note(record(1_000_000)).unwrap();
                numbers.push((ledger.append(record(task * 50 + number)).await.unwrap(), task * 50 + number));
            }
            numbers
        });
    }
    let mut acknowledged: Vec<(u64, u64)> = tasks.join_all().await.into_iter().flatten().collect();
    acknowledged.sort_unstable();
    ledger.close().await;
    let entries = tail(folder.path(), usize::MAX).unwrap();
    assert_eq!(entries.len(), 2_000);
    for (sequence, number) in acknowledged {
        let at = entries.binary_search_by_key(&sequence, |entry| entry.sequence).unwrap();
        assert_eq!(entries[at].object, record(number).object);
    }
    assert!(verify(folder.path(), None).unwrap().is_intact());
}

#[tokio::test]
async fn records_nobody_awaits_are_written_without_being_asked_for() {
    let (keys, folder) = (Keys::new(), tempfile::tempdir().unwrap());
    let ledger = Ledger::open(folder.path(), quiet(), keys.key()).unwrap();
    let mut follower = Follower::from_end(folder.path()).unwrap();
    ledger.note(record(1)).unwrap();
    let mut found = Vec::new();
    while found.is_empty() {
        found = follower.poll().unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(found[0].object, record(1).object);
}

#[tokio::test]
async fn a_follower_goes_on_across_rotations_and_sees_each_record_once() {
    let (keys, folder) = (Keys::new(), tempfile::tempdir().unwrap());
    let ledger = Ledger::open(folder.path(), LedgerConfig { rotate_bytes: 1_000, ..quiet() }, keys.key()).unwrap();
    ledger.append(record(1_000)).await.unwrap();
    let mut follower = Follower::from_end(folder.path()).unwrap();
    let mut seen = Vec::new();
    for number in 0..30 {
        ledger.append(record(number)).await.unwrap();
        if number % 7 == 0 {
            seen.extend(follower.poll().unwrap());
        }
    }
    seen.extend(follower.poll().unwrap());
    let seen: Vec<String> = seen.into_iter().map(|entry| entry.object).collect();
    assert_eq!(seen, expected(0..30));
}

#[tokio::test]
async fn one_writer_at_a_time_and_always_with_the_same_key() {
    let (keys, folder) = (Keys::new(), tempfile::tempdir().unwrap());
    let ledger = Ledger::open(folder.path(), quiet(), keys.key()).unwrap();
    assert!(matches!(Ledger::open(folder.path(), quiet(), keys.key()), Err(LedgerError::InUse { .. })));
    drop(ledger);
    let other = CheckpointKey::generate(KeyKind::Es256).unwrap();
    assert!(matches!(Ledger::open(folder.path(), quiet(), other), Err(LedgerError::OtherKey { .. })));
    Ledger::open(folder.path(), quiet(), keys.key()).unwrap();
}

#[tokio::test]
async fn es256_signs_too_and_a_pinned_key_must_be_the_ledgers() {
    let folder = tempfile::tempdir().unwrap();
    let key = CheckpointKey::generate(KeyKind::Es256).unwrap();
    let public: CheckpointPublicKey = key.public().to_string().parse().unwrap();
    let ledger = Ledger::open(folder.path(), quiet(), key).unwrap();
    let covered = ledger.append(record(1)).await.unwrap();
    assert_eq!(ledger.checkpoint().await.unwrap(), covered);
    drop(ledger);
    assert!(verify(folder.path(), Some(&public)).unwrap().is_intact());
    let other = CheckpointKey::generate(KeyKind::Es256).unwrap().public();
    let report = verify(folder.path(), Some(&other)).unwrap();
    assert_eq!(report.first_break.unwrap().kind, BreakKind::OtherKey);
}

#[test]
fn key_files_are_private_and_exposed_ones_are_refused() {
    let keys = Keys::new();
    let public = keys.key().public();
    let path = keys.0.path().join("ledger.pem");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(keys.0.path().join("ledger.pem.pub")).unwrap();
    assert_eq!(text.parse::<CheckpointPublicKey>().unwrap(), public);
    assert_eq!(keys.key().public(), public);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let refused = CheckpointKey::load_or_create(&path, KeyKind::Ed25519);
    assert!(matches!(refused, Err(KeyError::Exposed { mode: 0o640, .. })));
}

#[tokio::test]
async fn exports_select_and_escape() {
    let (keys, folder) = (Keys::new(), tempfile::tempdir().unwrap());
    let ledger = Ledger::open(folder.path(), quiet(), keys.key()).unwrap();
    ledger.append(record(1)).await.unwrap();
    let mut nasty = record(2);
    nasty.actor.name = "a\"]\\\nb".into();
    nasty.detail = "one\ntwo".into();
    nasty.kind = AuditKind::Call;
    ledger.append(&nasty).await.unwrap();
    let lines = |format: ExportFormat, selection: Selection| {
        let mut out = Vec::new();
        let count = export(folder.path(), &format, &selection, &mut out).unwrap();
        let lines: Vec<String> = String::from_utf8(out).unwrap().lines().map(str::to_owned).collect();
        assert_eq!(lines.len() as u64, count);
        lines
    };
    let call = Selection { kind: Some("call".into()), ..Selection::default() };
    let json = lines(ExportFormat::JsonLines, call.clone());
    let value: serde_json::Value = serde_json::from_str(&json[0]).unwrap();
    assert_eq!(value["actor"], "a\"]\\\nb");
    assert_eq!(value["at"], "2026-11-21T11:59:59.000001Z");
    assert_eq!(value["reason"], "right_missing");
    let syslog = lines(ExportFormat::Syslog(Syslog { host: "plant 1".into(), ..Syslog::default() }), call);
    let (head, _) = syslog[0].split_once(" hash=").unwrap();
    assert_eq!(
        head,
        "<108>1 2026-11-21T11:59:59.000001Z plant1 trapkey - call [trapkey@32473 seq=\"4\" outcome=\"denied\" \
         reason=\"right_missing\" actor=\"a\\\"\\]\\\\ b\" session=\"s1\" object=\"ns=2;s=valve-2\" count=\"1\" epoch=\"7\""
    );
    assert!(syslog[0].ends_with("\"] \u{feff}one two"));
    let late = Selection { from: Some(4), ..Selection::default() };
    assert_eq!(lines(ExportFormat::JsonLines, late).len(), 1);
    let none = Selection { until: Some(record(1).at), ..Selection::default() };
    assert_eq!(lines(ExportFormat::JsonLines, none).len(), 0);
    assert_eq!(lines(ExportFormat::JsonLines, Selection::default()).len(), 2);
}
