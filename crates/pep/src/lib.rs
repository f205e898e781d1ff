//! The policy enforcement point: grants and sessions.
//!
//! A [`Gate`] turns a presented token, or a proven identity, into a grant, compiles the grant's rights into a table,
//! and answers for every item of every request whether it may pass. Everything expensive happens when a token is
//! presented; a check is a few comparisons and two loads. Nothing here knows a policy language, a socket or a clock.
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

mod admit;
mod approval;
mod check;
mod clock;
mod config;
mod contact;
mod event;
mod gate;
mod grant;
mod lives;
mod meter;
mod mode;
mod permit;
mod present;
mod table;
mod together;
mod update;
mod zones;

pub use access_model::{Denial, Operation, Refusal};
pub use admit::{Admission, GrantRequest};
pub use approval::{Asking, Consent, Question};
pub use config::{
    Contact, DangerWithout, FailMode, ForeignIssuer, GateConfig, InvalidGate, LocalGrant, LocalScopes, Who, Zone,
};
pub use event::{Change, FailState, GateEvent};
pub use gate::Gate;
pub use grant::{ChannelBinding, GrantFacts, GrantId, Identity, Standing};
pub use meter::GateMeter;
pub use permit::{Permit, Tally, Verdict};
pub use zones::{LedgerTrouble, ZoneState};
