//! The folder of a ledger: segment files, the head file that names the last checkpoint, and the lock.

use std::io;
use std::path::{Path, PathBuf};

use access_model::UnixTime;
use serde::{Deserialize, Serialize};

use super::body::{Checkpoint, LedgerId, signed_message};
use super::frame::Chain;
use super::key::CheckpointPublicKey;
use super::stub::STUB;
use crate::{files, hex};

/// Taken by the one program that writes.
pub(crate) const LOCK: &str = "lock";
/// Names the last checkpoint, so that a cut-off end is seen.
pub(super) const HEAD: &str = "head.json";

const PREFIX: &str = "segment-";
const SUFFIX: &str = ".ledger";

/// The name of the segment whose first record has this number.
pub(super) fn segment_name(first: u64) -> String {
    format!("{PREFIX}{first:020}{SUFFIX}")
}

/// Whether a ledger's folder holds a file of this name that a copy of it needs.
pub(crate) fn is_ledger_file(name: &str) -> bool {
    name == HEAD || name == STUB || first_of(name).is_some()
}

/// The number in a segment's name.
fn first_of(name: &str) -> Option<u64> {
    let first = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse().ok()?;
    (segment_name(first) == name).then_some(first)
}

/// A segment file and the number of its first record, as its name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentFile {
    pub(super) first: u64,
    pub(super) name: String,
    pub(super) path: PathBuf,
}

/// The segment files, the oldest first.
pub(super) fn segments(folder: &Path) -> io::Result<Vec<SegmentFile>> {
    let mut found = Vec::new();
    for name in files::names(folder)? {
        if let Some(first) = first_of(&name) {
            found.push(SegmentFile { first, path: folder.join(&name), name });
        }
    }
    Ok(found)
}

/// The last checkpoint, as the head file names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) ledger: LedgerId,
    pub(super) checkpoint: Checkpoint,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    ledger: String,
    sequence: u64,
    hash: String,
    at: i64,
    signature: String,
}

impl Head {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let written = Written {
            ledger: hex::hex(&self.ledger),
            sequence: self.checkpoint.covers.sequence,
            hash: hex::hex(&self.checkpoint.covers.hash),
            at: self.checkpoint.at.as_micros(),
            signature: hex::hex(&self.checkpoint.signature),
        };
        let mut text = serde_json::to_vec(&written).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// Only the exact bytes that [`Head::to_bytes`] writes, so that no changed byte goes unseen.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let written: Written = serde_json::from_slice(bytes).ok()?;
        let covers = Chain { sequence: written.sequence, hash: hex::unhex(&written.hash)? };
        let (at, signature) = (UnixTime::from_micros(written.at), hex::unhex(&written.signature)?);
        let head = Self { ledger: hex::unhex(&written.ledger)?, checkpoint: Checkpoint { covers, at, signature } };
        (head.to_bytes() == bytes).then_some(head)
    }

    pub(super) fn is_signed_by(&self, key: &CheckpointPublicKey) -> bool {
        let Checkpoint { covers, at, signature } = &self.checkpoint;
        key.verifies(&signed_message(&self.ledger, covers, *at), signature)
    }
}

/// What the head file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HeadFile {
    There(Head),
    Missing,
    Unreadable,
}

pub(super) fn read_head(folder: &Path) -> io::Result<HeadFile> {
    Ok(match files::read_if_there(&folder.join(HEAD))? {
        None => HeadFile::Missing,
        Some(bytes) => Head::from_bytes(&bytes).map_or(HeadFile::Unreadable, HeadFile::There),
    })
}
