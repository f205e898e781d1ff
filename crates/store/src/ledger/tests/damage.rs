//! What a kill, a fault or an attacker leaves, and what verification and the next start make of it.

use super::super::frame::{Chain, FrameKind, Look, MAGIC, look, split_mut};
use super::*;

/// A ledger of several segments, closed in order.
async fn closed(keys: &Keys, records: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = LedgerConfig { rotate_bytes: 1_200, ..quiet() };
    let ledger = Ledger::open(folder.path(), config, keys.key()).unwrap();
    for number in 0..records {
        ledger.append(record(number)).await.unwrap();
    }
    ledger.close().await;
    assert!(verify(folder.path(), None).unwrap().is_intact());
    folder
}

/// Where each frame of a segment begins, and where the last ends.
fn places(bytes: &[u8]) -> Vec<usize> {
    let mut places = vec![MAGIC.len()];
    while let Look::Whole(_, length) = look(&bytes[*places.last().unwrap()..]) {
        places.push(places.last().unwrap() + length);
    }
    places
}

#[tokio::test]
async fn cut_at_every_byte_of_its_end_nothing_acknowledged_before_the_cut_is_lost() {
    let (keys, folder) = (Keys::new(), tempfile::tempdir().unwrap());
    let ledger = Ledger::open(folder.path(), quiet(), keys.key()).unwrap();
    for number in 0..3 {
        ledger.append(record(number)).await.unwrap();
    }
    ledger.checkpoint().await.unwrap();
    let segment = segment_paths(folder.path()).remove(0);
    let length = || std::fs::metadata(&segment).unwrap().len();
    let signed = length();
    let mut ends = vec![signed];
    for number in 3..7 {
        ledger.append(record(number)).await.unwrap();
        ends.push(length());
    }
    let killed = snapshot(folder.path());
    for cut in signed..=*ends.last().unwrap() {
        let copy = snapshot(killed.path());
        let path = segment_paths(copy.path()).remove(0);
        std::fs::File::options().write(true).open(&path).unwrap().set_len(cut).unwrap();
        let whole = ends.iter().filter(|end| **end <= cut).count() as u64 - 1;
        let before = verify(copy.path(), None).unwrap();
        assert_eq!(before.first_break, None, "cut at {cut}");
        assert_eq!(before.is_intact(), ends.contains(&cut), "cut at {cut}");
        let again = Ledger::open(copy.path(), quiet(), keys.key()).unwrap();
        again.append(record(100)).await.unwrap();
        again.close().await;
        let mut left = expected(0..3 + whole);
        left.push(record(100).object);
        assert_eq!(objects(copy.path()), left, "cut at {cut}");
        let after = verify(copy.path(), Some(&keys.key().public())).unwrap();
        assert!(after.is_intact(), "cut at {cut}: {after:?}");
        assert_eq!(after.recoveries.len(), usize::from(!ends.contains(&cut)), "cut at {cut}");
    }
}

#[tokio::test]
async fn cut_before_the_last_checkpoint_is_a_loss_that_verification_reports_for_good() {
    let keys = Keys::new();
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(folder.path(), quiet(), keys.key()).unwrap();
    for number in 0..5 {
        ledger.append(record(number)).await.unwrap();
    }
    ledger.close().await;
    let bytes = std::fs::read(segment_paths(folder.path()).remove(0)).unwrap();
    let places = places(&bytes);
    // Frames: start, checkpoint, five records, checkpoint.
    assert_eq!(places.len(), 9);
    for cut in [places[3], places[3] + 1, places[4] - 1, places[6]] {
        let copy = snapshot(folder.path());
        std::fs::write(segment_paths(copy.path()).remove(0), &bytes[..cut]).unwrap();
        let before = verify(copy.path(), None).unwrap();
        assert!(!before.is_intact(), "cut at {cut}");
        Ledger::open(copy.path(), quiet(), keys.key()).unwrap().close().await;
        assert!(matches!(broken(copy.path()), BreakKind::Lost { .. }), "cut at {cut}");
    }
}

#[tokio::test]
async fn any_flipped_byte_is_found() {
    let keys = Keys::new();
    let folder = closed(&keys, 12).await;
    let mut files = segment_paths(folder.path());
    assert!(files.len() >= 2);
    files.push(folder.path().join(folder::HEAD));
    for path in files {
        let sound = std::fs::read(&path).unwrap();
        for place in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[place] ^= 1 << (place % 8);
            std::fs::write(&path, &bytes).unwrap();
            let report = verify(folder.path(), None).unwrap();
            assert!(!report.is_intact(), "byte {place} of {} goes unseen", path.display());
        }
        std::fs::write(&path, &sound).unwrap();
    }
    assert!(verify(folder.path(), None).unwrap().is_intact());
}

#[tokio::test]
async fn the_break_is_named_to_the_byte_and_record() {
    let keys = Keys::new();
    let folder = closed(&keys, 12).await;
    let path = segment_paths(folder.path()).remove(1);
    let mut bytes = std::fs::read(&path).unwrap();
    let place = places(&bytes)[3];
    let Look::Whole(frame, _) = look(&bytes[place..]) else { panic!("no frame") };
    let sequence = frame.sequence;
    bytes[place + 20] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let found = verify(folder.path(), None).unwrap().first_break.unwrap();
    assert_eq!((found.offset, found.sequence, found.kind), (place as u64, sequence, BreakKind::Hash));
    assert_eq!(Some(found.file.as_str()), path.file_name().and_then(|name| name.to_str()));
}

#[tokio::test]
async fn records_that_change_places_are_found_even_when_renumbered() {
    let keys = Keys::new();
    let folder = closed(&keys, 5).await;
    let path = segment_paths(folder.path()).remove(0);
    let bytes = std::fs::read(&path).unwrap();
    let at = places(&bytes);
    let mut swapped = bytes.clone();
    swapped.splice(at[2]..at[4], [&bytes[at[3]..at[4]], &bytes[at[2]..at[3]]].concat());
    std::fs::write(&path, &swapped).unwrap();
    assert_eq!(broken(folder.path()), BreakKind::Sequence { found: 4 });
    let middle = at[2] + (at[4] - at[3]);
    swapped[at[2] + 5..at[2] + 13].copy_from_slice(&3_u64.to_le_bytes());
    swapped[middle + 5..middle + 13].copy_from_slice(&4_u64.to_le_bytes());
    std::fs::write(&path, &swapped).unwrap();
    assert_eq!(broken(folder.path()), BreakKind::Hash);
}

#[tokio::test]
async fn a_removed_segment_is_found_wherever_it_was() {
    let keys = Keys::new();
    let folder = closed(&keys, 30).await;
    let count = segment_paths(folder.path()).len();
    assert!(count >= 4);
    for gone in 0..count {
        let copy = snapshot(folder.path());
        std::fs::remove_file(&segment_paths(copy.path())[gone]).unwrap();
        let kind = broken(copy.path());
        if gone + 1 < count {
            assert!(matches!(kind, BreakKind::SegmentMissing { .. }), "segment {gone}: {kind:?}");
        } else {
            assert!(matches!(kind, BreakKind::CutOff { .. }), "segment {gone}: {kind:?}");
        }
    }
    let copy = snapshot(folder.path());
    for path in segment_paths(copy.path()) {
        std::fs::remove_file(path).unwrap();
    }
    assert!(matches!(broken(copy.path()), BreakKind::CutOff { .. }));
    assert!(matches!(Ledger::open(copy.path(), quiet(), keys.key()), Err(LedgerError::Gone { .. })));
}

#[tokio::test]
async fn a_chain_made_up_anew_fails_at_the_next_checkpoint() {
    let keys = Keys::new();
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(folder.path(), quiet(), keys.key()).unwrap();
    for number in 0..4 {
        ledger.append(record(number)).await.unwrap();
    }
    ledger.close().await;
    let path = segment_paths(folder.path()).remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    let third = places(&bytes)[3];
    let valve = bytes[third..].windows(7).position(|part| part == b"valve-1").unwrap();
    bytes[third + valve + 6] = b'9';
    let mut chain = Chain::GENESIS;
    split_mut(&mut bytes[MAGIC.len()..], |frame| chain.link(frame));
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(objects(folder.path())[1], "ns=2;s=valve-9");
    // The head file vouches for the record before the last checkpoint.
    assert_eq!(broken(folder.path()), BreakKind::Replaced);
    std::fs::remove_file(folder.path().join(folder::HEAD)).unwrap();
    assert_eq!(broken(folder.path()), BreakKind::Checkpoint);
}

#[tokio::test]
async fn the_head_file_of_another_ledger_or_none_is_found_also_after_a_start() {
    let keys = Keys::new();
    let (one, other) = (closed(&keys, 5).await, closed(&keys, 9).await);
    std::fs::copy(other.path().join(folder::HEAD), one.path().join(folder::HEAD)).unwrap();
    assert_eq!(broken(one.path()), BreakKind::HeadSignature);
    std::fs::remove_file(one.path().join(folder::HEAD)).unwrap();
    assert_eq!(broken(one.path()), BreakKind::HeadMissing);
    Ledger::open(one.path(), quiet(), keys.key()).unwrap().close().await;
    assert_eq!(broken(one.path()), BreakKind::Headless);
    assert_eq!(broken(tempfile::tempdir().unwrap().path()), BreakKind::NoSegment);
}

#[tokio::test]
async fn killed_between_seal_and_next_segment_the_next_start_hands_over() {
    let (keys, folder) = (Keys::new(), tempfile::tempdir().unwrap());
    let ledger = Ledger::open(folder.path(), LedgerConfig { rotate_bytes: 700, ..quiet() }, keys.key()).unwrap();
    for number in 0..5 {
        ledger.append(record(number)).await.unwrap();
    }
    drop(ledger);
    // What the killed program would have left: the sealed segment, the head of before, and a part of the next.
    let copy = snapshot(folder.path());
    let segments = segment_paths(copy.path());
    let sealed = std::fs::read(&segments[0]).unwrap();
    let kept = tempfile::tempdir().unwrap();
    let name = segments[0].file_name().unwrap();
    std::fs::write(kept.path().join(name), &sealed).unwrap();
    std::fs::write(kept.path().join("segment-00000000000000000099.ledger.new"), b"part").unwrap();
    let (mut head, mut start, mut bytes) = (None, None, sealed.as_slice().split_at(MAGIC.len()).1);
    while let Look::Whole(frame, length) = look(bytes) {
        match frame.kind {
            FrameKind::Start => start = body::Start::read(frame.body),
            FrameKind::Checkpoint => head = body::Checkpoint::read(frame.body),
            _ => {}
        }
        bytes = &bytes[length..];
    }
    let head = folder::Head { ledger: start.unwrap().ledger, checkpoint: head.unwrap() };
    std::fs::write(kept.path().join(folder::HEAD), head.to_bytes()).unwrap();
    let before = objects(kept.path());
    let ledger = Ledger::open(kept.path(), quiet(), keys.key()).unwrap();
    ledger.append(record(100)).await.unwrap();
    ledger.close().await;
    let report = verify(kept.path(), None).unwrap();
    assert!(report.is_intact(), "{report:?}");
    assert_eq!((report.segments, report.recoveries.len()), (2, 0));
    assert_eq!(objects(kept.path()), [before, vec![record(100).object]].concat());
}
