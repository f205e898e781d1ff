//! Beginning a ledger, and taking one up again after any kind of end.
//!
//! Bytes behind the last whole record are cut off and noted. Where a checkpoint had vouched for more records than are
//! there, the bytes are kept in a file beside the segment, the loss is noted, and `verify` reports it for good; the
//! ledger goes on, because a plant without an audit is worse than one with a reported hole.

use std::io;
use std::path::Path;

use aws_lc_rs::digest;

use super::body::{LedgerId, Recovered, Start};
use super::folder::{self, Head, HeadFile, LOCK, SegmentFile};
use super::frame::{self, Chain, FrameKind};
use super::key::CheckpointKey;
use super::rekey::in_force;
use super::scan::{Scan, scan};
use super::stub::STUB;
use super::writer::{Segment, Writer, new_segment};
use super::{KeyError, LedgerConfig, LedgerError};
use crate::{clock, files};

/// Whether a program writes the ledger in `folder` now.
///
/// # Errors
/// Its lock cannot be looked at.
pub fn in_use(folder: &Path) -> io::Result<bool> {
    let lock = folder.join(LOCK);
    Ok(files::exists(&lock) && files::lock(&lock)?.is_none())
}

/// Takes the lock and makes a writer that stands behind the last sound record.
pub(super) fn open(path: &Path, config: LedgerConfig, key: CheckpointKey) -> Result<Writer, LedgerError> {
    let io = |source| LedgerError::Io { path: path.to_owned(), source };
    files::make_folder(path).map_err(io)?;
    let lock = files::lock(&path.join(LOCK)).map_err(io)?;
    let lock = lock.ok_or_else(|| LedgerError::InUse { path: path.to_owned() })?;
    remove_unfinished(path).map_err(io)?;
    let head = folder::read_head(path).map_err(io)?;
    let segments = folder::segments(path).map_err(io)?;
    if segments.is_empty()
        && let HeadFile::Missing = head
        && !files::exists(&path.join(STUB))
    {
        return begin(path, config, key, lock);
    }
    let Some((file, scan)) = last_sound(segments, &head).map_err(io)? else {
        let sequence = if let HeadFile::There(head) = &head { head.checkpoint.covers.sequence } else { 0 };
        return Err(LedgerError::Gone { path: path.to_owned(), sequence });
    };
    if scan.start.key != key.public() {
        let (theirs, ours) = (scan.start.key, key.public());
        return Err(LedgerError::OtherKey { path: path.to_owned(), theirs, ours });
    }
    resume(path, config, key, lock, &head, &file, scan).map_err(io)
}

/// The first segment of a new ledger, with its first checkpoint.
fn begin(path: &Path, config: LedgerConfig, key: CheckpointKey, lock: std::fs::File) -> Result<Writer, LedgerError> {
    let io = |source| LedgerError::Io { path: path.to_owned(), source };
    let mut ledger: LedgerId = [0; 16];
    aws_lc_rs::rand::fill(&mut ledger).map_err(|_| KeyError::Crypto)?;
    let start = Start { ledger, key: key.public(), at: clock::unix() };
    let mut frames = Vec::new();
    frame::push(&mut frames, FrameKind::Start, |out| start.put(out));
    let (chain, segment) = new_segment(path, Chain::GENESIS, frames).map_err(io)?;
    let mut writer = writer(path, config, key, lock, start, chain, segment);
    writer.checkpoint().map_err(io)?;
    Ok(writer)
}

/// Files that were never renamed to what they should become.
fn remove_unfinished(path: &Path) -> io::Result<()> {
    for name in files::names(path)? {
        if name.ends_with(".new") {
            files::remove(&path.join(name))?;
        }
    }
    Ok(())
}

/// The newest segment whose first record is sound. Newer ones are put aside, not removed.
fn last_sound(mut segments: Vec<SegmentFile>, head: &HeadFile) -> io::Result<Option<(SegmentFile, Scan)>> {
    let expected = if let HeadFile::There(head) = head { Some(head.checkpoint.covers) } else { None };
    while let Some(file) = segments.pop() {
        if let Some(found) = scan(&file, expected)? {
            return Ok(Some((file, found)));
        }
        files::rename(&file.path, &files::beside(&file.path, "damaged"))?;
    }
    Ok(None)
}

fn resume(
    path: &Path,
    config: LedgerConfig,
    key: CheckpointKey,
    lock: std::fs::File,
    head: &HeadFile,
    file: &SegmentFile,
    scan: Scan,
) -> io::Result<Writer> {
    let vouched = vouched(head, &scan);
    let headless = vouched.is_none() && scan.chain.sequence > 2;
    let missing = vouched.map_or(0, |head| head.checkpoint.covers.sequence.saturating_sub(scan.chain.sequence));
    let lost = if scan.contradicts { missing.max(1) } else { missing };
    let content = files::open_write(&file.path)?;
    let torn = cut_off(&file.path, &content, scan.good, lost > 0)?;
    let segment =
        Segment { first: file.first, path: file.path.clone(), file: content, good: scan.good, sealed: scan.sealed };
    let mut writer = writer(path, config, key, lock, scan.start, scan.chain, segment);
    if !torn.is_empty() || lost > 0 || headless {
        let mut digest = [0; 32];
        digest.copy_from_slice(digest::digest(&digest::SHA256, &torn).as_ref());
        let note = Recovered { at: clock::unix(), torn: torn.len() as u64, digest, lost, headless };
        tracing::warn!(folder = %path.display(), torn = note.torn, lost, headless, "the audit ledger was recovered");
        frame::push(&mut writer.pending, FrameKind::Recovered, |out| note.put(out));
    }
    Ok(writer)
}

/// The head file, if it belongs to this ledger.
fn vouched<'a>(head: &'a HeadFile, scan: &Scan) -> Option<&'a Head> {
    match head {
        HeadFile::There(head) if head.ledger == scan.start.ledger => {
            let key = in_force(&scan.keys, head.checkpoint.covers.sequence)?;
            head.is_signed_by(key).then_some(head)
        }
        _ => None,
    }
}

/// Cuts the file at `good`; what was behind it is returned and, as evidence of a loss, kept in a file beside it.
fn cut_off(path: &Path, content: &std::fs::File, good: u64, keep: bool) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let length = files::length(path)?;
    let mut torn = vec![0; usize::try_from(length.saturating_sub(good)).unwrap_or(usize::MAX)];
    content.read_exact_at(&mut torn, good)?;
    if !torn.is_empty() {
        if keep {
            files::replace(&files::beside(path, &format!("damaged-at-{good}")), &torn, true)?;
        }
        content.set_len(good)?;
        content.sync_all()?;
    }
    Ok(torn)
}

fn writer(
    path: &Path,
    config: LedgerConfig,
    key: CheckpointKey,
    lock: std::fs::File,
    start: Start,
    chain: Chain,
    segment: Segment,
) -> Writer {
    Writer {
        folder: path.to_owned(),
        config,
        key,
        start,
        chain,
        segment,
        pending: Vec::new(),
        kept: 0,
        open_records: 0,
        checkpoint_due: None,
        failure: None,
        _lock: lock,
    }
}
