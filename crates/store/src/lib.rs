//! What must survive a restart: the journal of the authority in SQL ([`Db`]) and the audit ledger ([`Ledger`]).
//!
//! Nothing here knows a policy, a token format or a network. Password hashes, markings and secrets' hashes are opaque
//! strings. The ledger is a folder of hash-chained segment files and can be read, verified and exported without the
//! program that writes it.

mod backup;
mod clock;
mod db;
mod files;
mod hex;
mod ledger;

pub use backup::{BackupError, BackupReport, RestoreReport, RestoreTarget, backup, restore};
pub use db::{
    Application, ApplicationKind, Db, DbConfig, DbError, Grant, Issue, IssuedToken, NewRevocation, Overtaken,
    RefreshToken, Revocation, Revoked, TokenFilter, User, WorkflowState,
};
pub use ledger::{
    Ack, Break, BreakKind, CheckpointKey, CheckpointPublicKey, End, Entry, EntryPlace, ExportFormat, Follower, Health,
    KeyError, KeyKind, KeyRotation, KeySince, Ledger, LedgerConfig, LedgerError, ReadError, Recovery, Removed, Report,
    RetainError, Retained, Retention, Selection, Syslog, Unavailable, each, export, ledger_in_use, retain, rotate_key,
    tail, verify,
};

/// A time as people and log servers read it: RFC 3339 in UTC with microseconds.
#[must_use]
pub fn rfc3339(at: access_model::UnixTime) -> String {
    ledger::rfc3339::format(at)
}

/// When a write counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// When the operating system has it: survives a killed program, not a power cut.
    #[default]
    Os,
    /// When the disk has it: survives a power cut.
    Disk,
}
