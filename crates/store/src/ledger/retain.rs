//! Removing old segments from the beginning of a ledger, with or without a copy elsewhere, also while it is written.
//!
//! Order is what keeps it safe: the whole ledger is verified, the copies are written and verified as a ledger of their own, the
//! signed stub is put in place, and only then are files removed. Killed anywhere, nothing is lost, and the next call goes on.

use std::io;
use std::path::{Path, PathBuf};

use access_model::UnixTime;

use super::body::Checkpoint;
use super::folder::{self, HEAD, Head, SegmentFile};
use super::frame::{Chain, FrameKind};
use super::key::{CheckpointKey, CheckpointPublicKey, KeyError, SIGNATURE};
use super::rekey::Rekey;
use super::report::{Break, BreakKind};
use super::scan::{Frames, Next, Opening};
use super::stub::{self, STUB, Stub, StubFile};
use super::verify::{verify, with_rekeys};
use crate::{clock, files};

/// Taken by the one program that removes.
const LOCK: &str = "retain.lock";

/// Which segments may go. A segment that others do not follow always stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Only segments that were sealed before this time.
    pub sealed_before: Option<UnixTime>,
    /// As many of the newest segments stay at least.
    pub keep_segments: usize,
    /// A folder that gets a copy first.
    pub archive: Option<PathBuf>,
}

/// What went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retained {
    /// Names of the segment files removed, the oldest first.
    pub segments: Vec<String>,
    /// Audit records in them.
    pub records: u64,
    /// The last record that is gone, by this call or an earlier one; 0 for none.
    pub through: u64,
    /// Segments left.
    pub left: usize,
}

/// Why nothing was removed, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum RetainError {
    /// A file cannot be read, written or removed.
    #[error("cannot use `{}`", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// What the file system said.
        #[source]
        source: io::Error,
    },
    /// The ledger does not verify; what is wrong must be looked at before evidence goes.
    #[error("nothing is removed from a ledger that does not verify: {0}")]
    Broken(Break),
    /// The key given does not sign this ledger today.
    #[error("the ledger is signed with the key {theirs}, not with {ours}")]
    OtherKey {
        /// The key of the ledger.
        theirs: CheckpointPublicKey,
        /// The key given.
        ours: CheckpointPublicKey,
    },
    /// Another program is removing segments.
    #[error("another program is removing segments from this ledger")]
    InUse,
    /// A segment is not what it was when it was verified.
    #[error("{0} was changed meanwhile")]
    Changed(String),
    /// The archive cannot take these segments.
    #[error("the archive `{}` cannot take them: {why}", path.display())]
    Archive {
        /// The folder.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The stub cannot be signed.
    #[error("cannot sign the stub")]
    Key(#[from] KeyError),
}

impl RetainError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

/// Removes the oldest segments of the ledger in `folder`, as far as `retention` allows, and leaves a stub signed with `key`, which
/// must be the key that signs the ledger today. Works beside the program that writes.
///
/// # Errors
/// The ledger does not verify, the archive cannot take the copies, or files cannot be used.
pub fn retain(folder: &Path, key: &CheckpointKey, retention: &Retention) -> Result<Retained, RetainError> {
    let lock = files::lock(&folder.join(LOCK)).map_err(RetainError::io(folder))?;
    let _lock = lock.ok_or(RetainError::InUse)?;
    let stub = stub::read(folder).map_err(RetainError::io(folder))?;
    let (report, rekeys) = with_rekeys(folder, None, &stub).map_err(RetainError::io(folder))?;
    if let Some(place) = report.first_break {
        return Err(RetainError::Broken(place));
    }
    if let Some(theirs) = report.key.filter(|theirs| *theirs != key.public()) {
        return Err(RetainError::OtherKey { theirs, ours: key.public() });
    }
    let gone = if let StubFile::There(stub) = &stub { stub.through.sequence } else { 0 };
    let all = folder::segments(folder).map_err(RetainError::io(folder))?;
    let (left_over, live): (Vec<_>, Vec<_>) = all.into_iter().partition(|segment| segment.first <= gone);
    let (chosen, passed) = choose(&live, &stub, retention)?;
    if let Some(passed) = passed.filter(|_| !chosen.is_empty()) {
        if let Some(archive) = &retention.archive {
            copy(&chosen, archive, &stub, &passed)?;
        }
        let stub = passed.stub(rekeys, key.public()).signed(key)?;
        files::replace(&folder.join(STUB), &stub.to_bytes(), true).map_err(RetainError::io(folder))?;
    }
    for segment in left_over.iter().chain(&chosen) {
        files::remove(&segment.path).map_err(RetainError::io(&segment.path))?;
    }
    files::sync_folder_of(&folder.join(STUB)).map_err(RetainError::io(folder))?;
    let now = stub::read(folder).map_err(RetainError::io(folder))?;
    let removed = |file: &StubFile| if let StubFile::There(stub) = file { stub.removed().records } else { 0 };
    let through = if let StubFile::There(stub) = &now { stub.through.sequence } else { 0 };
    Ok(Retained {
        records: removed(&now) - removed(&stub),
        through,
        left: live.len() - chosen.len(),
        segments: left_over.into_iter().chain(chosen).map(|segment| segment.name).collect(),
    })
}

/// The segments that may go, and where the ledger stands behind them.
fn choose(
    live: &[SegmentFile],
    stub: &StubFile,
    retention: &Retention,
) -> Result<(Vec<SegmentFile>, Option<Passed>), RetainError> {
    let mut passed = if let StubFile::There(stub) = stub { Some(Passed::behind(stub)) } else { None };
    let mut chosen = Vec::new();
    for pair in live.windows(2) {
        let [segment, next] = pair else { break };
        if live.len() - chosen.len() <= retention.keep_segments.max(1) {
            break;
        }
        let further = Passed::over(passed.clone(), segment, next)?;
        if retention.sealed_before.is_some_and(|before| further.head.checkpoint.at >= before) {
            break;
        }
        passed = Some(further);
        chosen.push(segment.clone());
    }
    Ok((chosen, passed))
}

/// Everything that must be known of segments that are passed over.
#[derive(Clone)]
struct Passed {
    through: Chain,
    seal: [u8; SIGNATURE],
    segments: u64,
    records: u64,
    first_key: CheckpointPublicKey,
    first_at: UnixTime,
    /// A head file for a ledger that ends here: the seal is a checkpoint.
    head: Head,
}

impl Passed {
    fn behind(stub: &Stub) -> Self {
        let checkpoint = Checkpoint { covers: stub.through, at: stub.at, signature: stub.seal };
        Self {
            through: stub.through,
            seal: stub.seal,
            segments: stub.segments,
            records: stub.records,
            first_key: stub.first_key.clone(),
            first_at: stub.first_at,
            head: Head { ledger: stub.ledger, checkpoint },
        }
    }

    /// Reads one more segment, every record of which must still follow the one before.
    fn over(before: Option<Self>, segment: &SegmentFile, next: &SegmentFile) -> Result<Self, RetainError> {
        let changed = || RetainError::Changed(segment.name.clone());
        let read = |file: &SegmentFile| Frames::open(&file.path).map_err(RetainError::io(&file.path));
        let mut frames = read(segment)?.ok_or_else(changed)?;
        let mut chain = before.as_ref().map_or(Chain::GENESIS, |before| before.through);
        let (mut passed, mut seal) = (before, None);
        while let Next::Frame(frame, _) = frames.next().map_err(RetainError::io(&segment.path))? {
            chain = chain.follow(&frame).map_err(|_| changed())?;
            match frame.kind {
                FrameKind::Start => passed = Some(Self::beginning(&frame).ok_or_else(changed)?),
                FrameKind::Audit => passed.as_mut().ok_or_else(changed)?.records += 1,
                FrameKind::Seal => seal = Checkpoint::read(frame.body),
                _ => {}
            }
        }
        let (Some(mut passed), Some(seal)) = (passed, seal) else { return Err(changed()) };
        let mut after = read(next)?.ok_or_else(changed)?;
        let opening = match after.next().map_err(RetainError::io(&next.path))? {
            Next::Frame(frame, _) => Opening::read(&frame),
            _ => None,
        };
        if opening.map(|opening| opening.before()) != Some(chain) {
            return Err(changed());
        }
        (passed.through, passed.seal) = (chain, seal.signature);
        passed.head.checkpoint = seal;
        passed.segments += 1;
        Ok(passed)
    }

    fn beginning(frame: &super::frame::Frame<'_>) -> Option<Self> {
        let Opening::First(start) = Opening::read(frame)? else { return None };
        let seal = [0; SIGNATURE];
        let checkpoint = Checkpoint { covers: Chain::GENESIS, at: start.at, signature: seal };
        Some(Self {
            through: Chain::GENESIS,
            seal,
            segments: 0,
            records: 0,
            first_key: start.key,
            first_at: start.at,
            head: Head { ledger: start.ledger, checkpoint },
        })
    }

    fn stub(self, rekeys: Vec<Rekey>, signer: CheckpointPublicKey) -> Stub {
        Stub {
            ledger: self.head.ledger,
            through: self.through,
            seal: self.seal,
            segments: self.segments,
            records: self.records,
            at: clock::unix(),
            first_key: self.first_key,
            first_at: self.first_at,
            rekeys,
            signer,
            signature: [0; SIGNATURE],
        }
    }
}

/// Copies segments behind what the archive holds. An archive is a ledger of its own that ends with a seal.
fn copy(chosen: &[SegmentFile], archive: &Path, stub: &StubFile, passed: &Passed) -> Result<(), RetainError> {
    let io = || RetainError::io(archive);
    let refused = |why: String| RetainError::Archive { path: archive.to_owned(), why };
    files::make_folder(archive).map_err(io())?;
    if folder::segments(archive).map_err(io())?.is_empty() {
        if let StubFile::There(stub) = stub {
            files::replace(&archive.join(STUB), &stub.to_bytes(), true).map_err(io())?;
        }
    } else {
        let held = verify(archive, Some(&passed.first_key)).map_err(io())?;
        // A call that was killed before it wrote the first head file left this.
        if let Some(place) = held.first_break.filter(|place| place.kind != BreakKind::HeadMissing) {
            return Err(refused(format!("it does not verify: {place}")));
        }
        let first = chosen.first().map_or(0, |segment| segment.first);
        if held.sequence + 1 < first {
            return Err(refused(format!("it ends with record {}, these begin with {first}", held.sequence)));
        }
    }
    for segment in chosen {
        copy_segment(segment, archive).map_err(io())?;
    }
    files::replace(&archive.join(HEAD), &passed.head.to_bytes(), true).map_err(io())?;
    let copied = verify(archive, Some(&passed.first_key)).map_err(io())?;
    match &copied.first_break {
        Some(place) => Err(refused(format!("the copy does not verify: {place}"))),
        None if !copied.is_intact() || copied.sequence != passed.through.sequence => {
            Err(refused(format!("it ends with record {}, not {}", copied.sequence, passed.through.sequence)))
        }
        None => Ok(()),
    }
}

/// Appears under its name only when it is whole and on the disk.
fn copy_segment(segment: &SegmentFile, archive: &Path) -> io::Result<()> {
    let to = archive.join(&segment.name);
    let beside = files::beside(&to, "new");
    let mut copy = files::create(&beside)?;
    io::copy(&mut files::open(&segment.path)?, &mut copy)?;
    copy.sync_all()?;
    files::rename(&beside, &to)?;
    files::sync_folder_of(&to)
}
