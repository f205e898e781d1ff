//! Streaming through the frames of one segment file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::body::{Checkpoint, Handover, Start};
use super::folder::SegmentFile;
use super::frame::{Chain, Frame, FrameKind, HASH, Look, MAGIC, look};
use super::rekey::{KeySince, Rekey};
use crate::files;

/// How much is read at once.
const CHUNK: usize = 256 * 1024;

/// A segment file, read frame by frame.
pub(super) struct Frames {
    file: File,
    buffer: Vec<u8>,
    /// What of the buffer is filled and not yet given out.
    start: usize,
    end: usize,
    /// Place in the file of `start`.
    offset: u64,
    ended: bool,
}

/// The next thing in a segment file.
pub(super) enum Next<'a> {
    /// A whole frame, and where it begins. Its chaining is not checked here.
    Frame(Frame<'a>, u64),
    /// The file ends here, between two frames.
    End,
    /// The file ends within a frame.
    Incomplete,
    /// No frame, and why.
    Not(&'static str),
}

impl Frames {
    /// Opens a segment file; `None` when it does not begin as one.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        let mut frames = Self::at(path, 0)?;
        frames.fill(MAGIC.len())?;
        if frames.buffer.get(..frames.end).is_none_or(|bytes| !bytes.starts_with(MAGIC)) {
            return Ok(None);
        }
        frames.start = MAGIC.len();
        frames.offset = MAGIC.len() as u64;
        Ok(Some(frames))
    }

    /// Continues at a place where a frame begins.
    pub(super) fn at(path: &Path, offset: u64) -> io::Result<Self> {
        let mut file = files::open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Self { file, buffer: vec![0; CHUNK], start: 0, end: 0, offset, ended: false })
    }

    /// Where the next frame begins.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn next(&mut self) -> io::Result<Next<'_>> {
        while let Look::Needs(needed) = look(self.buffer.get(self.start..self.end).unwrap_or_default())
            && !self.ended
        {
            self.fill(needed)?;
        }
        let bytes = self.buffer.get(self.start..self.end).unwrap_or_default();
        Ok(match look(bytes) {
            Look::Whole(frame, length) => {
                let offset = self.offset;
                self.start += length;
                self.offset += length as u64;
                Next::Frame(frame, offset)
            }
            Look::Needs(_) if bytes.is_empty() => Next::End,
            Look::Needs(_) => Next::Incomplete,
            Look::Not(why) => Next::Not(why),
        })
    }

    /// Reads until `needed` bytes are there or the file ends.
    fn fill(&mut self, needed: usize) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < needed && !self.ended {
            let free = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.file.read(free) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Which segment this is, from its first record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    First(Start),
    Later(Handover),
}

impl Opening {
    pub(super) fn read(frame: &Frame<'_>) -> Option<Self> {
        match frame.kind {
            FrameKind::Start => Start::read(frame.body).map(Self::First),
            FrameKind::Handover => Handover::read(frame.body).map(Self::Later),
            _ => None,
        }
    }

    pub(super) fn start(&self) -> &Start {
        match self {
            Self::First(start) => start,
            Self::Later(handover) => &handover.start,
        }
    }

    /// Where the chain stood before this segment.
    pub(super) fn before(&self) -> Chain {
        match self {
            Self::First(_) => Chain::GENESIS,
            Self::Later(handover) => handover.last,
        }
    }
}

/// The state of one segment taken for itself: how far it is whole.
pub(super) struct Scan {
    /// Names the ledger and the key in force at its end.
    pub(super) start: Start,
    /// The key in force at its beginning, and each that took over in it.
    pub(super) keys: Vec<KeySince>,
    pub(super) chain: Chain,
    /// Bytes up to the end of the last frame that follows the one before.
    pub(super) good: u64,
    /// Its seal, if it has one.
    pub(super) sealed: Option<Checkpoint>,
    /// Whether the record with the number of `expected` has another hash.
    pub(super) contradicts: bool,
}

/// Reads a whole segment; `None` when not even its first record is sound. `expected` is a place of the chain that a
/// checkpoint vouches for.
pub(super) fn scan(segment: &SegmentFile, expected: Option<Chain>) -> io::Result<Option<Scan>> {
    let Some(mut frames) = Frames::open(&segment.path)? else { return Ok(None) };
    let Next::Frame(first, _) = frames.next()? else { return Ok(None) };
    let Some(opening) = Opening::read(&first) else { return Ok(None) };
    let Ok(chain) = opening.before().follow(&first) else { return Ok(None) };
    let start = opening.start().clone();
    let keys = vec![KeySince { sequence: chain.sequence, at: start.at, key: start.key.clone() }];
    let mut scan = Scan { start, keys, chain, good: frames.offset(), sealed: None, contradicts: false };
    scan.compare(expected);
    while scan.sealed.is_none() {
        let Next::Frame(frame, offset) = frames.next()? else { break };
        let Ok(chain) = scan.chain.follow(&frame) else { break };
        match frame.kind {
            FrameKind::Seal => scan.sealed = Checkpoint::read(frame.body),
            FrameKind::Rekey if !scan.rekey(&frame) => break,
            _ => {}
        }
        scan.good = offset + (super::frame::HEADER + frame.body.len() + HASH) as u64;
        scan.chain = chain;
        scan.compare(expected);
    }
    Ok(Some(scan))
}

impl Scan {
    /// Follows to the next key; a hand-over that its keys did not sign is no record of this ledger.
    fn rekey(&mut self, frame: &Frame<'_>) -> bool {
        let Some(rekey) = Rekey::read(frame.body) else { return false };
        if rekey.covers != self.chain || !rekey.is_signed_by(&self.start.ledger, &self.start.key) {
            return false;
        }
        self.start.key = rekey.key.clone();
        self.keys.push(KeySince { sequence: frame.sequence, at: rekey.at, key: rekey.key });
        true
    }

    fn compare(&mut self, expected: Option<Chain>) {
        if let Some(expected) = expected
            && expected.sequence == self.chain.sequence
        {
            self.contradicts = expected.hash != self.chain.hash;
        }
    }
}
