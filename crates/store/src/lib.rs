//! What must survive a restart: the journal of the authority in SQL ([`Db`]) and the audit ledger.
//!
//! Nothing here knows a policy, a token format or a network. Password hashes, markings and secrets' hashes are opaque
//! strings.

mod db;
mod hex;

pub use db::{
    Application, ApplicationKind, Db, DbConfig, DbError, Grant, IssuedToken, NewRevocation, RefreshToken, Revocation,
    Revoked, TokenFilter, User, WorkflowState,
};

/// When a write counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// When the operating system has it: survives a killed program, not a power cut.
    #[default]
    Os,
    /// When the disk has it: survives a power cut.
    Disk,
}
