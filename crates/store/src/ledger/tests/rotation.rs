//! Handing the ledger from one signing key to the next: what pins, what a kill leaves, and what a forger cannot do.

use super::super::body::Checkpoint;
use super::super::frame::{Chain, FrameKind, HASH, HEADER, Look, MAGIC, look, push, split_mut};
use super::super::rekey::Rekey;
use super::*;

/// A ledger of several segments with a key file beside it.
struct Rotated {
    folder: tempfile::TempDir,
    keys: Keys,
}

impl Rotated {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), keys: Keys::new() }
    }

    fn key_file(&self) -> PathBuf {
        self.keys.0.path().join("ledger.pem")
    }

    async fn write(&self, numbers: std::ops::Range<u64>) {
        let config = LedgerConfig { rotate_bytes: 1_200, ..quiet() };
        let ledger = Ledger::open(self.folder.path(), config, self.keys.key()).unwrap();
        for number in numbers {
            ledger.append(record(number)).await.unwrap();
        }
        ledger.close().await;
    }

    fn rotate(&self, kind: KeyKind) -> KeyRotation {
        rotate_key(self.folder.path(), Sync::Os, &self.key_file(), kind).unwrap()
    }

    fn verify(&self, key: &CheckpointPublicKey) -> Report {
        verify(self.folder.path(), Some(key)).unwrap()
    }
}

/// The segment that holds the first hand-over of the key, its bytes, and where that record begins and ends.
fn handed_over(folder: &Path) -> (PathBuf, Vec<u8>, std::ops::Range<usize>) {
    for path in segment_paths(folder) {
        let bytes = std::fs::read(&path).unwrap();
        let mut place = MAGIC.len();
        while let Look::Whole(frame, length) = look(&bytes[place..]) {
            if frame.kind == FrameKind::Rekey {
                return (path, bytes, place..place + length);
            }
            place += length;
        }
    }
    panic!("no key was handed over");
}

#[tokio::test]
async fn verification_follows_the_line_and_any_key_in_it_can_be_pinned() {
    let ledger = Rotated::new();
    ledger.write(0..12).await;
    let first = ledger.rotate(KeyKind::Es256);
    ledger.write(12..24).await;
    let second = ledger.rotate(KeyKind::Ed25519);
    ledger.write(24..36).await;
    assert_eq!(first.to, second.from);
    assert_eq!(ledger.keys.key().public(), second.to);
    for key in [&first.from, &first.to, &second.to] {
        let report = ledger.verify(key);
        assert!(report.is_intact(), "{key}: {report:?}");
        assert_eq!((report.records, report.key), (36, Some(second.to.clone())));
        let line: Vec<_> = report.keys.iter().map(|since| since.key.clone()).collect();
        assert_eq!(line, [first.from.clone(), first.to.clone(), second.to.clone()]);
    }
    let stranger = CheckpointKey::generate(KeyKind::Ed25519).unwrap().public();
    assert_eq!(ledger.verify(&stranger).first_break.unwrap().kind, BreakKind::OtherKey);
    let public = std::fs::read_to_string(ledger.keys.0.path().join("ledger.pem.pub")).unwrap();
    assert_eq!(public.parse::<CheckpointPublicKey>().unwrap(), second.to);
    assert_eq!(objects(ledger.folder.path()), expected(0..36));
}

#[tokio::test]
async fn the_old_key_opens_the_ledger_no_more_and_nobody_rotates_it_while_it_is_written() {
    let rotated = Rotated::new();
    rotated.write(0..3).await;
    let old = rotated.keys.key();
    rotated.rotate(KeyKind::Ed25519);
    assert!(matches!(Ledger::open(rotated.folder.path(), quiet(), old), Err(LedgerError::OtherKey { .. })));
    let _open = Ledger::open(rotated.folder.path(), quiet(), rotated.keys.key()).unwrap();
    let refused = rotate_key(rotated.folder.path(), Sync::Os, &rotated.key_file(), KeyKind::Ed25519);
    assert!(matches!(refused, Err(LedgerError::InUse { .. })));
}

#[tokio::test]
async fn killed_between_any_two_steps_the_next_call_finishes() {
    let rotated = Rotated::new();
    rotated.write(0..3).await;
    let old = rotated.keys.key().public();
    let (key, next) = (rotated.key_file(), rotated.keys.0.path().join("ledger.pem.next"));
    // Killed behind the making of the next key: that one is taken.
    let waiting = CheckpointKey::load_or_create(&next, KeyKind::Es256).unwrap().public();
    let before = snapshot(rotated.keys.0.path());
    let rotation = rotated.rotate(KeyKind::Ed25519);
    assert_eq!((&rotation.from, &rotation.to), (&old, &waiting));
    let once = std::fs::read(segment_paths(rotated.folder.path()).remove(0)).unwrap();
    // Killed behind the hand-over: the files of before, the ledger of after.
    for name in ["ledger.pem", "ledger.pem.next"] {
        std::fs::copy(before.path().join(name), rotated.keys.0.path().join(name)).unwrap();
    }
    assert!(matches!(
        Ledger::open(rotated.folder.path(), quiet(), rotated.keys.key()),
        Err(LedgerError::OtherKey { .. })
    ));
    assert_eq!(rotated.rotate(KeyKind::Ed25519), rotation);
    assert_eq!(std::fs::read(segment_paths(rotated.folder.path()).remove(0)).unwrap(), once);
    assert_eq!(CheckpointKey::load(&key).unwrap().public(), waiting);
    assert!(!next.exists());
    rotated.write(3..5).await;
    assert!(rotated.verify(&old).is_intact());
}

#[tokio::test]
async fn cut_at_every_byte_of_the_hand_over_the_ledger_goes_on_with_the_key_it_then_has() {
    let rotated = Rotated::new();
    rotated.write(0..2).await;
    let (old, old_head) = (rotated.keys.key(), std::fs::read(rotated.folder.path().join(folder::HEAD)).unwrap());
    let old_file = snapshot(rotated.keys.0.path());
    rotated.rotate(KeyKind::Ed25519);
    let (_, bytes, place) = handed_over(rotated.folder.path());
    for (head_is_new, cut) in (place.start..=bytes.len()).flat_map(|cut| [(false, cut), (true, cut)]) {
        let copy = snapshot(rotated.folder.path());
        let path = segment_paths(copy.path()).remove(0);
        std::fs::write(&path, &bytes[..cut]).unwrap();
        if !head_is_new {
            std::fs::write(copy.path().join(folder::HEAD), &old_head).unwrap();
        }
        let before = verify(copy.path(), Some(&old.public())).unwrap();
        let lost = head_is_new && cut < place.end;
        assert_eq!(before.first_break.is_some(), lost, "cut at {cut}, {head_is_new}: {before:?}");
        let key = if cut < place.end {
            CheckpointKey::load(&old_file.path().join("ledger.pem")).unwrap()
        } else {
            rotated.keys.key()
        };
        let ledger = Ledger::open(copy.path(), quiet(), key).unwrap();
        ledger.append(record(9)).await.unwrap();
        ledger.close().await;
        let after = verify(copy.path(), Some(&old.public())).unwrap();
        assert_eq!(after.is_intact(), !lost, "cut at {cut}, {head_is_new}: {after:?}");
        assert_eq!(after.keys.len(), if cut < place.end { 1 } else { 2 }, "cut at {cut}");
    }
}

#[tokio::test]
async fn any_flipped_byte_of_the_hand_over_is_found_also_when_the_chain_is_made_up_anew() {
    let rotated = Rotated::new();
    rotated.write(0..2).await;
    rotated.rotate(KeyKind::Ed25519);
    let (path, sound, place) = handed_over(rotated.folder.path());
    for at in place.clone() {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&path, &bytes).unwrap();
        assert!(!verify(rotated.folder.path(), None).unwrap().is_intact(), "byte {at} goes unseen");
        if !(place.start + HEADER..place.end - HASH).contains(&at) {
            continue;
        }
        let mut chain = Chain::GENESIS;
        split_mut(&mut bytes[MAGIC.len()..], |frame| chain.link(frame));
        std::fs::write(&path, &bytes).unwrap();
        let kind = broken(rotated.folder.path());
        assert!(matches!(kind, BreakKind::Rekey | BreakKind::Content), "byte {at}: {kind:?}");
        let copy = snapshot(rotated.folder.path());
        let opened = Ledger::open(copy.path(), quiet(), rotated.keys.key());
        assert!(opened.is_err(), "byte {at}: a hand-over that is not signed gives the ledger to nobody");
    }
    std::fs::write(&path, &sound).unwrap();
    assert!(verify(rotated.folder.path(), None).unwrap().is_intact());
}

#[tokio::test]
async fn a_line_that_ends_with_a_foreign_key_is_made_by_nobody_but_that_key() {
    // A forger with a key of his own would hand over to the key that readers pin, and stop there.
    let forger = Rotated::new();
    forger.write(0..2).await;
    let pinned = CheckpointKey::generate(KeyKind::Ed25519).unwrap().public();
    let other = CheckpointKey::generate(KeyKind::Ed25519).unwrap();
    let path = segment_paths(forger.folder.path()).remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    let (mut chain, mut ledger, mut place) = (Chain::GENESIS, [0; 16], MAGIC.len());
    while let Look::Whole(frame, length) = look(&bytes[place..]) {
        chain = chain.follow(&frame).unwrap();
        if let Some(start) = body::Start::read(frame.body).filter(|_| frame.kind == FrameKind::Start) {
            ledger = start.ledger;
        }
        place += length;
    }
    let mut rekey = Rekey::sign(&ledger, chain, record(0).at, &forger.keys.key(), &other).unwrap();
    rekey.key = pinned.clone();
    let mut frames = Vec::new();
    push(&mut frames, FrameKind::Rekey, |out| rekey.put(out));
    split_mut(&mut frames, |frame| chain.link(frame));
    bytes.extend(frames);
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(forger.verify(&pinned).first_break.unwrap().kind, BreakKind::Rekey);
}

#[tokio::test]
async fn a_retired_key_signs_no_checkpoint_behind_its_hand_over() {
    let rotated = Rotated::new();
    rotated.write(0..2).await;
    let old = rotated.keys.key();
    rotated.rotate(KeyKind::Ed25519);
    let path = segment_paths(rotated.folder.path()).remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    let (mut chain, mut ledger, mut place) = (Chain::GENESIS, [0; 16], MAGIC.len());
    while let Look::Whole(frame, length) = look(&bytes[place..]) {
        chain = chain.follow(&frame).unwrap();
        if let Some(start) = body::Start::read(frame.body).filter(|_| frame.kind == FrameKind::Start) {
            ledger = start.ledger;
        }
        place += length;
    }
    let at = record(0).at;
    let signature = old.sign(&body::signed_message(&ledger, &chain, at)).unwrap();
    let forged = Checkpoint { covers: chain, at, signature };
    let mut frames = Vec::new();
    push(&mut frames, FrameKind::Checkpoint, |out| forged.put(out));
    split_mut(&mut frames, |frame| chain.link(frame));
    bytes.extend(frames);
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(broken(rotated.folder.path()), BreakKind::Checkpoint);
    let head = folder::Head { ledger, checkpoint: forged };
    std::fs::write(rotated.folder.path().join(folder::HEAD), head.to_bytes()).unwrap();
    assert!(!verify(rotated.folder.path(), None).unwrap().is_intact());
}
