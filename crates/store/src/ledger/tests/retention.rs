//! Removing old segments: the chain still verifies, whoever removes without a stub is found, and a kill loses nothing.

use super::super::stub::STUB;
use super::*;

fn small() -> LedgerConfig {
    LedgerConfig { rotate_bytes: 1_200, ..quiet() }
}

async fn written(keys: &Keys, folder: &Path, numbers: std::ops::Range<u64>) {
    let ledger = Ledger::open(folder, small(), keys.key()).unwrap();
    for number in numbers {
        ledger.append(record(number)).await.unwrap();
    }
    ledger.close().await;
}

fn keep(keep_segments: usize, archive: Option<&Path>) -> Retention {
    Retention { sealed_before: None, keep_segments, archive: archive.map(Path::to_owned) }
}

fn intact(folder: &Path, key: &CheckpointPublicKey) -> Report {
    let report = verify(folder, Some(key)).unwrap();
    assert!(report.is_intact(), "{report:?}");
    report
}

#[tokio::test]
async fn what_is_removed_is_in_the_archive_and_both_verify_on_their_own() {
    let (keys, folder, archive) = (Keys::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = keys.key().public();
    written(&keys, folder.path(), 0..40).await;
    for (round, from) in [(0, 0), (1, 40), (2, 80)] {
        let before = segment_paths(folder.path()).len();
        let retained = retain(folder.path(), &keys.key(), &keep(2, Some(archive.path()))).unwrap();
        assert_eq!((retained.left, retained.segments.len()), (2, before - 2));
        let (left, kept) = (intact(folder.path(), &first), intact(archive.path(), &first));
        let removed = left.removed.unwrap();
        assert_eq!((left.records + removed.records, kept.records), (from + 40, removed.records));
        assert_eq!((removed.sequence, retained.through), (kept.sequence, kept.sequence));
        let both = [objects(archive.path()), objects(folder.path())].concat();
        assert_eq!(both, expected(0..from + 40));
        rotate_key(folder.path(), Sync::Os, &keys.0.path().join("ledger.pem"), KeyKind::Ed25519).unwrap();
        written(&keys, folder.path(), from + 40..from + 80).await;
        assert_eq!(intact(folder.path(), &first).keys.len(), round + 2);
    }
    // A second archive begins behind a stub; its signer took over only later.
    let second = tempfile::tempdir().unwrap();
    retain(folder.path(), &keys.key(), &keep(4, Some(second.path()))).unwrap();
    let report = intact(second.path(), &first);
    assert_eq!(report.removed.unwrap().records, intact(archive.path(), &first).records);
    assert_eq!([objects(archive.path()), objects(second.path()), objects(folder.path())].concat(), expected(0..160));
    assert!(matches!(
        retain(folder.path(), &keys.key(), &keep(1, Some(archive.path()))),
        Err(RetainError::Archive { .. })
    ));
}

#[tokio::test]
async fn only_old_segments_go_and_the_last_stays_always() {
    let (keys, folder) = (Keys::new(), tempfile::tempdir().unwrap());
    written(&keys, folder.path(), 0..30).await;
    let count = segment_paths(folder.path()).len();
    let none = Retention { sealed_before: Some(UnixTime::from_micros(0)), ..Retention::default() };
    let retained = retain(folder.path(), &keys.key(), &none).unwrap();
    assert_eq!((retained.segments.len(), retained.through, retained.left), (0, 0, count));
    assert!(!folder.path().join(STUB).exists());
    let all = Retention { sealed_before: Some(UnixTime::from_micros(i64::MAX)), ..Retention::default() };
    assert_eq!(retain(folder.path(), &keys.key(), &all).unwrap().left, 1);
    assert_eq!(retain(folder.path(), &keys.key(), &all).unwrap().segments.len(), 0);
    intact(folder.path(), &keys.key().public());
}

#[tokio::test]
async fn a_removal_without_its_stub_is_found() {
    let (keys, folder) = (Keys::new(), tempfile::tempdir().unwrap());
    written(&keys, folder.path(), 0..60).await;
    let whole = snapshot(folder.path());
    retain(folder.path(), &keys.key(), &keep(5, None)).unwrap();
    let old_stub = std::fs::read(folder.path().join(STUB)).unwrap();
    let shortened = snapshot(folder.path());
    // One segment more than the stub vouches for, wherever it was.
    for gone in 0..4 {
        let copy = snapshot(shortened.path());
        std::fs::remove_file(&segment_paths(copy.path())[gone]).unwrap();
        assert!(matches!(broken(copy.path()), BreakKind::SegmentMissing { .. }), "segment {gone}");
    }
    // The stub of an earlier removal, and none.
    retain(folder.path(), &keys.key(), &keep(2, None)).unwrap();
    std::fs::write(folder.path().join(STUB), &old_stub).unwrap();
    assert!(matches!(broken(folder.path()), BreakKind::SegmentMissing { .. }));
    std::fs::remove_file(folder.path().join(STUB)).unwrap();
    assert!(matches!(broken(folder.path()), BreakKind::SegmentMissing { .. }));
    // Everything but the stub.
    let copy = snapshot(shortened.path());
    for path in segment_paths(copy.path()) {
        std::fs::remove_file(path).unwrap();
    }
    assert!(!verify(copy.path(), None).unwrap().is_intact());
    std::fs::remove_file(copy.path().join(folder::HEAD)).unwrap();
    assert!(!verify(copy.path(), None).unwrap().is_intact());
    assert!(matches!(Ledger::open(copy.path(), quiet(), keys.key()), Err(LedgerError::Gone { .. })));
    // The stub of another ledger that is just as long.
    let (stranger, other) = (Keys::new(), tempfile::tempdir().unwrap());
    written(&stranger, other.path(), 0..60).await;
    retain(other.path(), &stranger.key(), &keep(5, None)).unwrap();
    let copy = snapshot(whole.path());
    std::fs::copy(other.path().join(STUB), copy.path().join(STUB)).unwrap();
    assert!(!verify(copy.path(), None).unwrap().is_intact());
}

#[tokio::test]
async fn any_flipped_or_missing_byte_of_the_stub_is_found() {
    let (keys, folder) = (Keys::new(), tempfile::tempdir().unwrap());
    written(&keys, folder.path(), 0..20).await;
    rotate_key(folder.path(), Sync::Os, &keys.0.path().join("ledger.pem"), KeyKind::Es256).unwrap();
    written(&keys, folder.path(), 20..40).await;
    retain(folder.path(), &keys.key(), &keep(1, None)).unwrap();
    let sound = std::fs::read(folder.path().join(STUB)).unwrap();
    for place in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[place] ^= 1 << (place % 8);
        std::fs::write(folder.path().join(STUB), &bytes).unwrap();
        assert!(!verify(folder.path(), None).unwrap().is_intact(), "byte {place} goes unseen");
        std::fs::write(folder.path().join(STUB), &sound[..place]).unwrap();
        assert!(!verify(folder.path(), None).unwrap().is_intact(), "cut at {place} goes unseen");
    }
    std::fs::write(folder.path().join(STUB), &sound).unwrap();
    assert_eq!(intact(folder.path(), &keys.key().public()).keys.len(), 2);
}

#[tokio::test]
async fn killed_between_any_two_steps_nothing_is_lost_and_the_next_call_goes_on() {
    let (keys, folder) = (Keys::new(), tempfile::tempdir().unwrap());
    written(&keys, folder.path(), 0..40).await;
    let (whole, key) = (snapshot(folder.path()), keys.key().public());
    let (archive, done) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    retain(folder.path(), &keys.key(), &keep(2, Some(done.path()))).unwrap();
    let removed: Vec<_> = segment_paths(done.path());
    assert!(removed.len() >= 3);
    // Killed while it copied: some segments, a part of one more, no head file.
    for path in &removed[..2] {
        std::fs::copy(path, archive.path().join(path.file_name().unwrap())).unwrap();
    }
    let part = format!("{}.new", removed[2].file_name().unwrap().to_str().unwrap());
    std::fs::write(archive.path().join(part), b"part").unwrap();
    let again = snapshot(whole.path());
    retain(again.path(), &keys.key(), &keep(2, Some(archive.path()))).unwrap();
    assert_eq!(intact(archive.path(), &key).records, intact(done.path(), &key).records);
    // Killed behind the stub: some of the files are still there.
    for left in [&removed[..1], &removed[1..], &removed[..]] {
        let copy = snapshot(folder.path());
        for path in left {
            std::fs::copy(path, copy.path().join(path.file_name().unwrap())).unwrap();
        }
        intact(copy.path(), &key);
        let retained = retain(copy.path(), &keys.key(), &keep(2, None)).unwrap();
        assert_eq!((retained.segments.len(), retained.records, retained.left), (left.len(), 0, 2));
        assert_eq!(objects(copy.path()), objects(folder.path()));
        written(&keys, copy.path(), 40..50).await;
        intact(copy.path(), &key);
    }
}

#[tokio::test]
async fn nothing_goes_from_a_broken_ledger_with_a_wrong_key_or_into_a_wrong_archive() {
    let (keys, folder) = (Keys::new(), tempfile::tempdir().unwrap());
    written(&keys, folder.path(), 0..40).await;
    let before = segment_paths(folder.path());
    let other = CheckpointKey::generate(KeyKind::Ed25519).unwrap();
    assert!(matches!(retain(folder.path(), &other, &keep(1, None)), Err(RetainError::OtherKey { .. })));
    let (stranger, foreign) = (Keys::new(), tempfile::tempdir().unwrap());
    written(&stranger, foreign.path(), 0..3).await;
    let refused = retain(folder.path(), &keys.key(), &keep(1, Some(foreign.path())));
    assert!(matches!(refused, Err(RetainError::Archive { .. })), "{refused:?}");
    let last = before.last().unwrap();
    let mut bytes = std::fs::read(last).unwrap();
    bytes[60] ^= 1;
    std::fs::write(last, bytes).unwrap();
    assert!(matches!(retain(folder.path(), &keys.key(), &keep(1, None)), Err(RetainError::Broken(_))));
    assert_eq!(segment_paths(folder.path()), before);
}

#[tokio::test]
async fn segments_go_while_the_ledger_is_written_verified_and_copied() {
    let (keys, folder) = (Keys::new(), tempfile::tempdir().unwrap());
    let ledger = Ledger::open(folder.path(), small(), keys.key()).unwrap();
    let mut removed = 0;
    for round in 0..10 {
        for number in 0..20 {
            ledger.append(record(round * 20 + number)).await.unwrap();
        }
        removed += retain(folder.path(), &keys.key(), &keep(3, None)).unwrap().records;
    }
    ledger.checkpoint().await.unwrap();
    let copy = tempfile::tempdir().unwrap();
    copy_prefix(folder.path(), copy.path()).unwrap();
    ledger.close().await;
    let report = intact(folder.path(), &keys.key().public());
    assert_eq!((report.records + removed, report.removed.unwrap().records), (200, removed));
    let copied = verify(copy.path(), Some(&keys.key().public())).unwrap();
    assert_eq!((copied.first_break, copied.records), (None, report.records));
    assert!(folder::segments(copy.path()).unwrap().len() >= 3);
}
