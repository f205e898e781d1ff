//! What a verification says: counts, notes, the line of keys, and the first break.

use std::fmt;

use access_model::UnixTime;

use super::key::CheckpointPublicKey;
use super::rekey::KeySince;

/// What a verification found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Segments read.
    pub segments: u64,
    /// Audit records read.
    pub records: u64,
    /// Checkpoints whose signatures verified.
    pub checkpoints: u64,
    /// Number of the last sound record of any kind.
    pub sequence: u64,
    /// Records of any kind behind the last checkpoint: protected by the chain, not by a signature.
    pub unsigned: u64,
    /// The key that signs at its end.
    pub key: Option<CheckpointPublicKey>,
    /// Every key that signed it, in the order in which they took over; each was handed over by the one before.
    pub keys: Vec<KeySince>,
    /// Whether the caller named a key. It must be one of [`Report::keys`], or there is a break.
    pub key_pinned: bool,
    /// What was removed before the first segment, as a stub vouches for it.
    pub removed: Option<Removed>,
    /// What starts found, in order.
    pub recoveries: Vec<Recovery>,
    /// The first thing that is wrong.
    pub first_break: Option<Break>,
    /// How the last segment ends.
    pub end: End,
}

impl Report {
    /// Whether nothing is wrong and nothing is left over.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.first_break.is_none() && self.end == End::Whole
    }
}

/// Segments that were verified and then removed from the beginning of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// How many segments.
    pub segments: u64,
    /// How many audit records.
    pub records: u64,
    /// Number of the last record removed, of any kind.
    pub sequence: u64,
    /// When the last of them were removed.
    pub at: UnixTime,
}

/// How the last segment ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With a whole record.
    Whole,
    /// With something that is no whole record: a killed writer leaves this, and its next start notes it.
    Torn {
        /// The segment file.
        segment: String,
        /// Where the last whole record ends.
        offset: u64,
        /// Bytes behind it.
        bytes: u64,
    },
}

/// A note in the ledger about a start or a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The note's number.
    pub sequence: u64,
    /// When it was written.
    pub at: UnixTime,
    /// What it says.
    pub text: String,
}

/// Where and how a ledger is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// The file.
    pub file: String,
    /// The byte in the file at which the bad record begins.
    pub offset: u64,
    /// The number that the record there should have.
    pub sequence: u64,
    /// What is wrong.
    pub kind: BreakKind,
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}, record {}: {}", self.file, self.offset, self.sequence, self.kind)
    }
}

/// What is wrong at one place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BreakKind {
    /// There is no ledger.
    #[error("there is no segment")]
    NoSegment,
    /// The file that names the last checkpoint is not there.
    #[error("the head file is missing")]
    HeadMissing,
    /// The head file holds something else, or not in the way it is written.
    #[error("the head file is unreadable")]
    HeadUnreadable,
    /// The head file belongs to another ledger or is not signed by its key.
    #[error("the head file is not signed by this ledger's key")]
    HeadSignature,
    /// The end was cut off.
    #[error("the records up to {signed}, which a checkpoint had signed, are missing")]
    CutOff {
        /// The last record under the checkpoint.
        signed: u64,
    },
    /// The record differs from the one that a checkpoint signed.
    #[error("the record is not the one that the last checkpoint signed")]
    Replaced,
    /// A segment is missing.
    #[error("the segment that begins with record {expected} is missing, the next one there begins with {found}")]
    SegmentMissing {
        /// First record of the missing segment.
        expected: u64,
        /// First record of the segment found instead.
        found: u64,
    },
    /// The file does not begin as a segment.
    #[error("the file does not begin as a segment")]
    Header,
    /// A segment that others follow does not end with a seal.
    #[error("the segment ends without its seal")]
    Unsealed,
    /// What stands there is no record.
    #[error("no record: {0}")]
    NotARecord(&'static str),
    /// The file ends within a record.
    #[error("the file ends within a record")]
    Incomplete,
    /// A record is missing, doubled or in the wrong place.
    #[error("the record there has number {found}")]
    Sequence {
        /// Its number.
        found: u64,
    },
    /// The record, or one before it, was changed.
    #[error("the hash does not chain to the record before")]
    Hash,
    /// The record's content cannot be read.
    #[error("the content of the record is unreadable")]
    Content,
    /// A record that belongs at the beginning or the end of a segment stands elsewhere.
    #[error("a record of this kind does not belong there")]
    Misplaced,
    /// The hand-over does not name the end of the segment before.
    #[error("the hand-over does not name the end of the segment before")]
    Handover,
    /// The segment names another key or ledger.
    #[error("the segment belongs to another ledger or key")]
    OtherKey,
    /// A key was handed over by a record that does not cover the record before it, or that one of the two keys did not sign.
    #[error("the hand-over to another key does not verify")]
    Rekey,
    /// The stub holds something else, or not in the way it is written.
    #[error("the stub is unreadable")]
    StubUnreadable,
    /// The stub, which vouches for removed segments, is not signed by a key of this ledger.
    #[error("the stub is not signed by a key of this ledger")]
    StubSignature,
    /// A checkpoint does not cover the record before it, or its signature does not verify.
    #[error("the checkpoint does not verify")]
    Checkpoint,
    /// A start found that records under a checkpoint were gone.
    #[error("a start noted that {lost} signed records before it were gone")]
    Lost {
        /// How many.
        lost: u64,
    },
    /// A start found no usable head file, so an end may have been cut off before it.
    #[error("a start noted that the head file was missing, records before it may be gone")]
    Headless,
}
