//! Reading records without checking the chain: for screens and exports.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use super::entry::{self, Entry};
use super::folder::{SegmentFile, segments};
use super::frame::{FrameKind, HASH, HEADER, MAGIC};
use super::scan::{Frames, Next};

/// Why records cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file cannot be read.
    #[error("cannot read the ledger `{}`", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// What the file system said.
        #[source]
        source: io::Error,
    },
    /// There is damage; `verify` says more.
    #[error("{segment} is damaged at byte {offset}")]
    Damaged {
        /// The segment file.
        segment: String,
        /// Where the record that cannot be read begins.
        offset: u64,
    },
    /// What was read cannot be written out.
    #[error("cannot write the export")]
    Output(#[source] io::Error),
}

/// Gives each audit record of a segment to `each`. In the last segment an unfinished end is the end.
pub(super) fn for_each(
    segment: &SegmentFile,
    last: bool,
    each: &mut dyn FnMut(Entry) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let io = |source| ReadError::Io { path: segment.path.clone(), source };
    let damaged = |offset| ReadError::Damaged { segment: segment.name.clone(), offset };
    let mut frames = match Frames::open(&segment.path).map_err(io)? {
        Some(frames) => frames,
        None if last => return Ok(()),
        None => return Err(damaged(0)),
    };
    loop {
        match frames.next().map_err(io)? {
            Next::Frame(frame, offset) if frame.kind == FrameKind::Audit => {
                let entry = entry::read(&frame).ok_or_else(|| damaged(offset))?;
                each(entry)?;
            }
            Next::Frame(..) => {}
            Next::End => return Ok(()),
            Next::Incomplete | Next::Not(_) if last => return Ok(()),
            Next::Incomplete | Next::Not(_) => return Err(damaged(frames.offset())),
        }
    }
}

/// The last `count` audit records, the oldest first.
///
/// # Errors
/// A file cannot be read or is damaged.
pub fn tail(folder: &Path, count: usize) -> Result<Vec<Entry>, ReadError> {
    let mut found: VecDeque<Entry> = VecDeque::new();
    let files = segments(folder).map_err(|source| ReadError::Io { path: folder.to_owned(), source })?;
    for (age, segment) in files.iter().rev().enumerate() {
        let room = count - found.len();
        if room == 0 {
            break;
        }
        let mut kept: VecDeque<Entry> = VecDeque::new();
        for_each(segment, age == 0, &mut |entry| {
            if kept.len() == room {
                kept.pop_front();
            }
            kept.push_back(entry);
            Ok(())
        })?;
        kept.append(&mut found);
        found = kept;
    }
    Ok(found.into())
}

/// Follows a ledger while it grows.
#[derive(Debug)]
pub struct Follower {
    folder: PathBuf,
    segment: u64,
    offset: u64,
}

impl Follower {
    /// Follows from behind the last record that is there now.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn from_end(folder: &Path) -> Result<Self, ReadError> {
        let mut follower = Self { folder: folder.to_owned(), segment: 0, offset: 0 };
        let files = segments(folder).map_err(|source| follower.io(source))?;
        if let Some(last) = files.last() {
            (follower.segment, follower.offset) = (last.first, MAGIC.len() as u64);
        }
        follower.poll()?;
        Ok(follower)
    }

    /// Audit records that came since the last call.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn poll(&mut self) -> Result<Vec<Entry>, ReadError> {
        let mut found = Vec::new();
        let files = segments(&self.folder).map_err(|source| self.io(source))?;
        for segment in &files {
            if segment.first < self.segment {
                continue;
            }
            if segment.first > self.segment {
                (self.segment, self.offset) = (segment.first, MAGIC.len() as u64);
            }
            self.read(segment, &mut found).map_err(|source| self.io(source))?;
        }
        Ok(found)
    }

    fn read(&mut self, segment: &SegmentFile, found: &mut Vec<Entry>) -> io::Result<()> {
        let mut frames = Frames::at(&segment.path, self.offset)?;
        while let Next::Frame(frame, offset) = frames.next()? {
            if frame.kind == FrameKind::Audit {
                found.extend(entry::read(&frame));
            }
            self.offset = offset + (HEADER + frame.body.len() + HASH) as u64;
        }
        Ok(())
    }

    fn io(&self, source: io::Error) -> ReadError {
        ReadError::Io { path: self.folder.clone(), source }
    }
}
