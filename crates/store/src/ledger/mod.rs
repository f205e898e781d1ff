//! The audit ledger: append-only, hash-chained, signed now and then, in a folder of segment files.
//!
//! ```text
//! append ─▶ bounded queue ─▶ writer thread: number, hash, one write (and sync) per batch ─▶ acknowledgements
//!                                │
//!                segment-0…01.ledger   start · audit … checkpoint … audit · seal
//!                segment-0…97.ledger   handover (names the seal) · audit … checkpoint
//!                head.json             the last checkpoint: an end cut off behind it is seen
//!                stub.json             vouches for segments that were removed from the beginning
//! ```
//!
//! The hash chain shows any change, loss or re-ordering; the signed checkpoints keep somebody who can write files
//! from making up another chain. Records behind the last checkpoint (at most [`LedgerConfig::checkpoint_interval`]
//! old) are protected by the chain alone. Whoever holds the key and the files can forge; keep exports elsewhere.

mod backup;
mod body;
mod entry;
mod export;
mod folder;
mod frame;
mod handle;
mod key;
mod open;
mod queue;
mod read;
mod rekey;
mod report;
mod retain;
pub(crate) mod rfc3339;
mod rotate;
mod scan;
mod stub;
mod verify;
mod writer;

use std::path::PathBuf;
use std::time::Duration;

pub use entry::{Entry, EntryPlace};
pub use export::{ExportFormat, Selection, Syslog, each, export};
pub use handle::{Ack, Health, Ledger};
pub use key::{CheckpointKey, CheckpointPublicKey, KeyError, KeyKind};
pub use open::in_use as ledger_in_use;
pub use read::{Follower, ReadError, tail};
pub use rekey::KeySince;
pub use report::{Break, BreakKind, End, Recovery, Removed, Report};
pub use retain::{RetainError, Retained, Retention, retain};
pub use rotate::{KeyRotation, rotate_key};
pub use verify::verify;

pub(crate) use backup::copy_prefix;
pub(crate) use folder::{LOCK, is_ledger_file};

use crate::Sync;

/// How a ledger is kept.
#[derive(Clone, Copy, Debug)]
pub struct LedgerConfig {
    /// A segment that reaches this size is sealed, and the next begun.
    pub rotate_bytes: u64,
    /// When a record counts as written.
    pub sync: Sync,
    /// A checkpoint is signed after this many records at the latest.
    pub checkpoint_records: u64,
    /// A checkpoint is signed this long after a record at the latest.
    pub checkpoint_interval: Duration,
    /// How long an awaited record may wait for company, at most 10 ms.
    pub linger: Duration,
    /// The queue is full at this many records ...
    pub queue_records: usize,
    /// ... or this many bytes.
    pub queue_bytes: usize,
    /// How often writing is tried again while it fails.
    pub retry: Duration,
}

impl Default for LedgerConfig {
    fn default() -> Self {
        Self {
            rotate_bytes: 64 * 1024 * 1024,
            sync: Sync::Os,
            checkpoint_records: 4_096,
            checkpoint_interval: Duration::from_secs(1),
            linger: Duration::from_micros(250),
            queue_records: 65_536,
            queue_bytes: 16 * 1024 * 1024,
            retry: Duration::from_millis(200),
        }
    }
}

/// A record that nobody awaits is written this late at most (DESIGN D12: group commit ≤ 10 ms).
pub(crate) const GROUP_COMMIT: Duration = Duration::from_millis(10);

/// The ledger does not take the record; what depends on it must not be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// Records come faster than they can be written.
    #[error("the audit queue is full")]
    QueueFull,
    /// The last write failed.
    #[error("the audit ledger cannot be written: {0}")]
    Write(std::sync::Arc<str>),
    /// The ledger was closed.
    #[error("the audit ledger is closed")]
    Closed,
}

/// Why a ledger cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The file system refused.
    #[error("cannot use the ledger folder `{}`", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// What the file system said.
        #[source]
        source: std::io::Error,
    },
    /// Another program writes this ledger.
    #[error("the ledger `{}` is in use by another program", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The head file names records but there is no sound segment.
    #[error("the ledger `{}` holds no sound segment although its head file names record {sequence}", path.display())]
    Gone {
        /// The folder.
        path: PathBuf,
        /// The last record under a checkpoint.
        sequence: u64,
    },
    /// The ledger belongs to another key.
    #[error("the ledger `{}` is signed with the key {theirs}, not with {ours}", path.display())]
    OtherKey {
        /// The folder.
        path: PathBuf,
        /// The key named in the ledger.
        theirs: CheckpointPublicKey,
        /// The key given.
        ours: CheckpointPublicKey,
    },
    /// No randomness, or the key does not sign.
    #[error("cannot sign the ledger")]
    Key(#[from] KeyError),
}

#[cfg(test)]
mod tests;
