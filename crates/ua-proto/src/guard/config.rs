//! What a guard is made of.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use access_model::{Interlock, Restrictions, ScopeIndex};
use opcua_types::Identifier;

use super::scopes::ScopeRules;
use crate::client::{ClientSessionConfig, Credential};

/// Who the guard is at the upstream server.
#[derive(Clone)]
pub struct UpstreamIdentity {
    /// Sessions whose grant has this role use it; `None` for all others. The first that fits is taken.
    pub role: Option<String>,
    /// How to reach the server, whom to trust there, and which endpoint and token policy to use: pinned, not discovered.
    pub session: Arc<ClientSessionConfig>,
    /// What proves the identity.
    pub credential: Credential,
}

/// Whether sessions share sessions upstream, one for each identity. Small controllers allow few.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Each has its own.
    #[default]
    Never,
    /// Those share for which the server has no room (Bad_TooManySessions). The shared one is opened first.
    WhenFull,
    /// All share.
    Always,
}

/// What may be written to one variable of the upstream server: each number, in arrays as well, from `low` to `high`.
/// What is no number is outside.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteRange {
    /// URI of the namespace that the identifier is of.
    pub namespace: String,
    /// The variable.
    pub node: Identifier,
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
}

/// Everything a [`super::Guard`] is told about what is behind it.
#[derive(Clone)]
pub struct GuardConfig {
    /// Identities at the upstream server. The one without a role also looks at the server at start.
    pub upstream: Vec<UpstreamIdentity>,
    /// Which node lies in which scope.
    pub rules: ScopeRules,
    /// What channels must be: for every scope but `public`, and for single scopes instead.
    pub restrictions: (Restrictions, Vec<(ScopeIndex, Restrictions)>),
    /// Ranges for numbers that are written, whoever writes.
    pub write_ranges: Vec<WriteRange>,
    /// Whether sessions share sessions upstream.
    pub pool: Sharing,
    /// What holds for values in each scope, besides the ranges of single nodes.
    pub interlocks: BTreeMap<ScopeIndex, Interlock>,
    /// Ask upstream for a node that never exists in place of a hidden one, so that the time of an answer tells nothing.
    pub hide_timing: bool,
    /// Another guard with the same ApplicationUri stands in for it; one of the two serves at a time.
    pub paired: bool,
    /// Bounds.
    pub limits: GuardLimits,
}

impl GuardConfig {
    /// A guard with one identity and the standard bounds.
    #[must_use]
    pub fn new(session: ClientSessionConfig, credential: Credential, rules: ScopeRules) -> Self {
        let default = UpstreamIdentity { role: None, session: Arc::new(session), credential };
        Self {
            upstream: vec![default],
            rules,
            restrictions: (Restrictions::NONE, Vec::new()),
            write_ranges: Vec::new(),
            pool: Sharing::Never,
            interlocks: BTreeMap::new(),
            hide_timing: true,
            paired: false,
            limits: GuardLimits::default(),
        }
    }

    pub(super) fn identity(&self, roles: &[String]) -> Option<&UpstreamIdentity> {
        self.upstream.get(self.place_of(roles)?)
    }

    /// Which identity, counted from 0.
    pub(super) fn place_of(&self, roles: &[String]) -> Option<usize> {
        self.upstream.iter().position(|identity| match &identity.role {
            Some(role) => roles.contains(role),
            None => true,
        })
    }
}

/// Bounds of the guard, besides those of the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardLimits {
    /// Most requests of one session that wait for the upstream server, Publish not counted.
    pub max_requests: usize,
    /// Longest time for a request.
    pub request_timeout: Duration,
    /// Longest time for a connection upstream.
    pub connect_timeout: Duration,
    /// Pause before the second attempt; doubles until `longest_pause`.
    pub shortest_pause: Duration,
    /// Longest pause.
    pub longest_pause: Duration,
    /// How long a session stays while its upstream session is gone.
    pub upstream_grace: Duration,
    /// Most nodes that the rules' subtrees may hold together.
    pub max_surveyed_nodes: usize,
    /// Most aliases of one session that differ from their node.
    pub max_aliases: usize,
    /// Most browse continuation points of one session.
    pub max_continuation_points: usize,
    /// Most references returned for one node at once.
    pub max_references: u32,
    /// Most elements of a browse path.
    pub max_path: usize,
    /// Most nodes a browse path may lead to at each step.
    pub max_targets: usize,
}

impl Default for GuardLimits {
    fn default() -> Self {
        Self {
            max_requests: 64,
            request_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            shortest_pause: Duration::from_millis(200),
            longest_pause: Duration::from_secs(30),
            upstream_grace: Duration::from_secs(120),
            max_surveyed_nodes: 200_000,
            max_aliases: 1_000,
            max_continuation_points: 16,
            max_references: 1_000,
            max_path: 64,
            max_targets: 256,
        }
    }
}
