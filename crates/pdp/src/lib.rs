//! The policy decision point: decide, grant, re-decide, explain, lint.
//!
//! A [`Snapshot`] is a plant, its policies and its workflow marking, parsed once. Everything here is a function of a
//! snapshot and a question: no clock, no file, no socket, no token format.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::todo
    )
)]

pub mod plant;
pub mod workflow;

mod alike;
mod cases;
mod decide;
mod explain;
mod fault;
mod grant;
mod kinds;
pub mod learn;
mod lint;
mod replay;
mod rules;
mod snapshot;
mod world;

pub use cases::{CaseResult, Cases, MAX_CASE_FILE};
pub use decide::{MAX_REASON, MIN_REASON, Unasked, answer, decide};
pub use explain::{Adjustment, Clause, Explanation, RuleView, explain};
pub use fault::{Fault, Faults, Origin};
pub use grant::{Change, Grant, LiveGrant, NoGrant, NoGrantOrMap, evaluations, grant, redecide};
pub use lint::{Finding, FindingKind, check};
pub use plant::Plant;
pub use replay::Access;
pub use rules::MAX_POLICY_FILE;
pub use snapshot::{Snapshot, Sources};
pub use workflow::{InvalidStep, Marking, Workflow};
pub use world::SCHEMA;
