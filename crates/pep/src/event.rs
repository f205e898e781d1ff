//! What a gate tells the machine around it.

use access_model::Mode;

use crate::GrantId;

/// What an update did to a grant's rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// Rights were lost, none gained.
    Narrowed,
    /// Rights were gained, none lost.
    Widened,
    /// Rights were lost and gained.
    Both,
    /// The rights are the same; the grant lives again.
    Renewed,
}

/// What is served while something is lost: the authority, for its grants, or the ledger, for all. The later the stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailState {
    /// Nothing is lost: the gate is in step with its authority, the ledger takes records.
    InStep,
    /// Everything is still served: from what was known last, without a record of its own.
    LastKnown,
    /// Only actions that change nothing are served.
    ReadOnly,
    /// Nothing is served; also before there was any contact.
    Closed,
}

/// One thing that happened to a grant or to the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateEvent {
    /// The grant's time is over: withdraw what runs under it.
    Expired(GrantId),
    /// The grant was revoked: withdraw what runs under it.
    Revoked(GrantId),
    /// The grant's rights changed, or it lives again: re-check what runs under it.
    Changed(GrantId, Change),
    /// The grace after expiry or revocation is over and the grant is gone: close its session.
    Ended(GrantId),
    /// A second person is to be asked: [`crate::Gate::poll_question`] says about what.
    Question,
    /// Updates are missing: fetch the full list from the authority.
    NeedFullList,
    /// The gate serves differently from now on: re-check what runs under grants of the authority.
    FailMode(FailState),
    /// The ledger takes records again, or takes none: what that leaves in the scopes where it leaves least. Re-check
    /// everything.
    Ledger(FailState),
    /// The gate has its lease from now on, or has it no more: re-check everything.
    Lease(bool),
    /// The gate enforces or observes from now on: re-check everything.
    Mode(Mode),
}
