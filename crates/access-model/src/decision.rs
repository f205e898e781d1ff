//! What the policy decision point is asked, and what it answers.

use crate::{Action, MapDigest, Principal, Rights, ScopeIndex, UnixTime};

/// Number of the policy snapshot under which something was decided. Grows by one with each policy, plant or
/// workflow-marking change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// Whether policy lets a request pass. Forbid wins over permit; no matching policy is forbid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// At least one policy permits and none forbids.
    Permit,
    /// A policy forbids, or none permits.
    Forbid,
}

/// One question to the policy decision point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRequest {
    /// Who asks.
    pub principal: Principal,
    /// What they want to do.
    pub action: Action,
    /// The server's name (its ApplicationUri).
    pub server: String,
    /// The scope's name in that server's map.
    pub scope: String,
    /// When it is asked.
    pub at: UnixTime,
    /// Why, when break-glass rights are claimed.
    pub break_glass: Option<String>,
}

/// A policy that took part in a decision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyReason {
    /// The policy's id, as written in its file.
    pub policy: String,
    /// What it contributed.
    pub effect: Effect,
}

/// A condition that the gate must keep while it lets an operation pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Obligation {
    /// A written value must lie in this closed range.
    Range {
        /// Lowest value allowed.
        low: f64,
        /// Highest value allowed.
        high: f64,
    },
    /// A written value may differ from the present one by so much at most.
    Step(f64),
    /// The value may be changed by so much within any second.
    Rate(f64),
    /// A second person with this role must approve.
    Approval(String),
}

/// The answer of the policy decision point.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Permit or forbid.
    pub effect: Effect,
    /// The policies that determined it; empty when none matched.
    pub reasons: Vec<PolicyReason>,
    /// What the gate must keep.
    pub obligations: Vec<Obligation>,
    /// The latest moment at which a grant from this decision may still be used.
    pub not_after: UnixTime,
    /// The snapshot it was decided under.
    pub epoch: Epoch,
    /// Steps of the workflow that a permit depends on, sorted: when one of them ends, the permit has to be decided
    /// again.
    pub depends_on: Vec<String>,
}

/// Everything one principal may do at one server, decided in one go: what a token carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantSpec {
    /// The server's ApplicationUri.
    pub audience: String,
    /// The map that the scope positions index.
    pub map: MapDigest,
    /// Rights and the scopes that have exactly these rights, sorted; scopes with no right are absent.
    pub rights: Vec<(Rights, Vec<ScopeIndex>)>,
    /// The latest moment at which the grant may be used.
    pub not_after: UnixTime,
    /// The snapshot it was decided under.
    pub epoch: Epoch,
}
