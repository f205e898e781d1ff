//! Copying a ledger as it stood at its last checkpoint, also while it is written.

use std::io::{self, Write};
use std::path::Path;

use super::folder::{self, HEAD, HeadFile};
use super::frame::{HASH, HEADER};
use super::scan::{Frames, Next};
use super::stub::{self, STUB, StubFile};
use crate::files;

/// Copies everything up to the record that the head file's checkpoint covers; the number of that record.
///
/// # Errors
/// `NotFound` when there is no ledger, `InvalidData` when it is damaged before that record, or what the file system
/// says.
pub(crate) fn copy_prefix(from: &Path, to: &Path) -> io::Result<u64> {
    let head = match folder::read_head(from)? {
        HeadFile::There(head) => head,
        HeadFile::Missing => return Err(io::Error::new(io::ErrorKind::NotFound, "there is no ledger")),
        HeadFile::Unreadable => return Err(io::Error::new(io::ErrorKind::InvalidData, "the head file is unreadable")),
    };
    let last = head.checkpoint.covers.sequence;
    let stub = stub::read(from)?;
    let gone = if let StubFile::There(stub) = &stub { stub.through.sequence } else { 0 };
    files::make_folder(to)?;
    for segment in folder::segments(from)?.iter().filter(|segment| segment.first > gone && segment.first <= last) {
        let end = end_of(segment, last)?;
        let mut copy = files::create_new(&to.join(&segment.name))?;
        let copied = io::copy(&mut io::Read::take(files::open(&segment.path)?, end), &mut copy)?;
        copy.flush()?;
        copy.sync_all()?;
        if copied != end {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} became shorter", segment.name)));
        }
    }
    if let StubFile::There(stub) = &stub {
        files::replace(&to.join(STUB), &stub.to_bytes(), true)?;
    }
    if stub::read(from)? != stub {
        return Err(io::Error::new(io::ErrorKind::Interrupted, "old segments were removed meanwhile, try again"));
    }
    files::replace(&to.join(HEAD), &head.to_bytes(), true)?;
    Ok(last)
}

/// Where the record with this number ends in the segment, or the segment's own end.
fn end_of(segment: &folder::SegmentFile, last: u64) -> io::Result<u64> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged", segment.name));
    let mut frames = Frames::open(&segment.path)?.ok_or_else(damaged)?;
    loop {
        match frames.next()? {
            Next::Frame(frame, offset) if frame.sequence == last => {
                return Ok(offset + (HEADER + frame.body.len() + HASH) as u64);
            }
            Next::Frame(..) => {}
            Next::End => return Ok(frames.offset()),
            Next::Incomplete | Next::Not(_) => return Err(damaged()),
        }
    }
}
