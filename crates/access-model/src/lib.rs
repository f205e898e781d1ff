//! The nouns of access control, shared by every other crate.
//!
//! Nothing here knows a wire format, a policy language, a socket or a clock. A value that crosses a wall between
//! two crates is one of these types.

mod audit;
mod decision;
mod interlock;
pub mod meter;
mod mode;
mod operation;
mod principal;
mod reason;
mod restriction;
mod rights;
mod scope;
mod time;
pub mod turn;

pub use audit::{Actor, AuditKind, AuditRecord, Outcome, Place};
pub use decision::{AccessRequest, Decision, Effect, Epoch, GrantSpec, Obligation, PolicyReason};
pub use interlock::{ArgumentBounds, Bounds, Interlock, TwoPersons};
pub use mode::Mode;
pub use operation::{Action, Operation};
pub use principal::{ApplicationUri, Principal, Thumbprint, nobody_at};
pub use reason::{Denial, Reason, Refusal};
pub use restriction::Restrictions;
pub use rights::Rights;
pub use scope::{InvalidScopeMap, MapDigest, ScopeIndex, ScopeMap};
pub use time::{Mono, Now, UnixTime};
