//! The guard without I/O: the same enforcement in front of an OPC UA server that cannot do it itself (DESIGN D3).
//!
//! The side of the clients is a [`Server`] as it stands: connections, channels, sessions, identities, grants, audit,
//! discovery and bounds are its own. What it has authorized and cannot answer without nodes comes here: each request is
//! walked item by item, each item is decided, the allowed ones go to the upstream server as the bytes they came in, and
//! results come back in the order of the request. Each session has a session of its own upstream, a
//! [`crate::client::ClientSession`].
//!
//! A shell drives it with five verbs, as it drives a server:
//!
//! ```text
//! loop {
//!     guard.handle_input(input, now) or guard.handle_timeout(now)
//!     while let Some(output) = guard.poll_output() { ... }
//!     wait for the next input or until guard.poll_timeout()
//! }
//! ```
//!
//! Inputs and outputs are of one of two sides: `Down` is what a server takes and asks for; [`Output::Dial`] asks for a
//! connection to the upstream server, whose life is told with [`Upstream`].
//!
//! Before anything is forwarded the guard reads the upstream NamespaceArray and browses the roots of its rules
//! (`survey`); a session whose NamespaceArray is another waits until that is done again. What no rule names is hidden.

mod attributes;
mod batch;
mod binding;
mod bounds;
mod browse;
mod call;
mod change;
mod config;
mod desk;
mod history;
mod history_events;
mod history_read;
mod io;
mod layout;
mod learn;
mod link;
mod links;
mod look;
mod nodes;
mod own;
mod pool;
mod read;
mod register;
mod requests;
mod scopes;
mod subs;
mod survey;
mod translate;
mod walk;
mod write;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use access_model::{Mono, Now};
use opcua_types::StatusCode;
use pep::Gate;

use crate::Entropy;
use crate::client::ClientSession;
use crate::server::front::SessionKey;
use crate::server::{self, AuditId, ConnId, Server, ServerConfig};
use crate::space::{ServerFacts, Space, SpaceConfig, SpaceError};

pub use config::{GuardConfig, GuardLimits, Sharing, UpstreamIdentity, WriteRange};
pub use io::{Input, LinkId, Output, Upstream};
pub use layout::Layout;
pub use scopes::{ScopeEntry, ScopeRule, ScopeRules};

use link::Link;
use links::Owner;
use survey::{Mapping, Survey};

/// How often one link is looked after at one time.
const MOST_AT_ONCE: u32 = 2;
/// When a link is looked after again that says even then that something is due.
const NEXT_TRY: Duration = Duration::from_millis(100);

/// The machine.
pub struct Guard {
    front: Server,
    config: GuardConfig,
    entropy: Box<dyn Entropy + Send>,
    mapping: Option<Arc<Mapping>>,
    survey: Option<Survey>,
    survey_pause: Duration,
    newly_mapped: bool,
    links: BTreeMap<Owner, Box<Link>>,
    wires: BTreeMap<LinkId, Owner>,
    last_wire: u64,
    alarms: BTreeSet<(Mono, Owner)>,
    armed: BTreeMap<Owner, Mono>,
    /// Records that a write or call waits for.
    records: BTreeMap<AuditId, (SessionKey, u64)>,
    /// Links with bytes that the shell was told of and has not looked at.
    sending: BTreeSet<LinkId>,
    /// Links that share a session upstream, or are shared, with something to do for one another.
    stirred: BTreeSet<Owner>,
    settling: bool,
    upstream_trouble: Option<StatusCode>,
    /// Bytes that links hold which are no session's.
    common: usize,
    outputs: VecDeque<Output>,
}

impl Guard {
    /// A guard. `server` is what clients see; ranges for writes are those of `config`. `entropy` serves the front and
    /// `upstream_entropy` the sessions upstream.
    ///
    /// # Errors
    /// The ApplicationUri cannot name a namespace.
    pub fn new(
        server: ServerConfig,
        config: GuardConfig,
        gate: Gate,
        (entropy, upstream_entropy): (Box<dyn Entropy + Send>, Box<dyn Entropy + Send>),
        now: Now,
    ) -> Result<Self, SpaceError> {
        let rules = own::shown(config.rules, config.paired);
        let config = GuardConfig { rules, ..config };
        let mut space =
            Space::new(SpaceConfig { application_uri: server.application_uri.clone(), namespaces: Vec::new() })?;
        space.set_server_facts(ServerFacts::default());
        let (default, scopes) = &config.restrictions;
        space.set_restrictions(*default, scopes.iter().copied());
        let mut guard = Self {
            front: Server::new(server, space, gate, entropy).guarding(),
            config,
            entropy: upstream_entropy,
            mapping: None,
            survey: None,
            survey_pause: Duration::ZERO,
            newly_mapped: false,
            links: BTreeMap::new(),
            wires: BTreeMap::new(),
            last_wire: 0,
            alarms: BTreeSet::new(),
            armed: BTreeMap::new(),
            records: BTreeMap::new(),
            sending: BTreeSet::new(),
            stirred: BTreeSet::new(),
            settling: false,
            upstream_trouble: None,
            common: 0,
            outputs: VecDeque::new(),
        };
        guard.front.set_interlocks(guard.config.interlocks.clone());
        guard.start_survey(now);
        Ok(guard)
    }

    /// Takes one input.
    pub fn handle_input(&mut self, input: Input<'_>, now: Now) {
        match input {
            Input::Down(input) => {
                let audited = match &input {
                    server::Input::Audited { id, result } => Some((*id, *result)),
                    _ => None,
                };
                let ending = matches!(&input, server::Input::Drain { .. });
                self.front.handle_input(input, now);
                if let Some((id, result)) = audited {
                    self.audited(id, result, now);
                }
                if ending {
                    self.show_all(now);
                }
            }
            Input::Up { link, event } => {
                self.front.relieve(now);
                self.tend_front(now);
                self.upstream(link, event, now);
            }
        }
        self.take_over(now);
        self.front.ease();
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Now) {
        self.front.handle_timeout(now);
        self.take_over(now);
        let mut served: BTreeMap<Owner, u32> = BTreeMap::new();
        while let Some((at, owner)) = self.alarms.first().copied().filter(|(at, _)| *at <= now.mono) {
            let times = served.entry(owner).or_default();
            *times += 1;
            if *times > MOST_AT_ONCE {
                // It never gets done, and must not keep everybody else from what is theirs.
                self.arm(owner, Some(now.mono + NEXT_TRY));
                continue;
            }
            self.alarms.remove(&(at, owner));
            self.armed.remove(&owner);
            self.link_due(owner, now);
        }
        self.take_over(now);
    }

    /// When [`Guard::handle_timeout`] must be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        let links = self.alarms.first().map(|(at, _)| *at);
        [self.front.poll_timeout(), links].into_iter().flatten().min()
    }

    /// The next thing to do outside; records come first.
    pub fn poll_output(&mut self) -> Option<Output> {
        if let Some(output) = self.front.poll_output() {
            return Some(Output::Down(output));
        }
        let output = self.outputs.pop_front()?;
        if let Output::UpstreamSend { link } = &output {
            self.sending.remove(link);
        }
        Some(output)
    }

    /// Bytes for a client; the shell takes them from the front.
    pub fn outgoing(&mut self, conn: ConnId) -> Option<&mut Vec<u8>> {
        self.front.outgoing(conn)
    }

    /// Whether the shell should read from this client.
    #[must_use]
    pub fn wants_input(&self, conn: ConnId) -> bool {
        self.front.wants_input(conn)
    }

    /// As [`Server::holds_input`].
    #[must_use]
    pub fn holds_input(&self, conn: ConnId) -> bool {
        self.front.holds_input(conn)
    }

    /// Bytes for the upstream server; the shell takes them from the front.
    pub fn upstream_outgoing(&mut self, link: LinkId) -> Option<&mut Vec<u8>> {
        let owner = self.wires.get(&link)?;
        self.links.get_mut(owner)?.client.as_mut()?.outgoing()
    }

    /// Whether the shell should read from this connection to the upstream server.
    #[must_use]
    pub fn wants_upstream(&self, link: LinkId) -> bool {
        let owner = self.wires.get(&link);
        let client = owner.and_then(|owner| self.links.get(owner)).and_then(|link| link.client.as_ref());
        client.is_some_and(ClientSession::wants_input)
    }

    /// Whether requests of a session go over this connection to the upstream server.
    #[must_use]
    pub fn serves(&self, link: LinkId) -> bool {
        let link = self.wires.get(&link).and_then(|owner| self.links.get(owner));
        link.is_some_and(|link| link.stage == link::Stage::Ready || link.shared.is_some())
    }

    /// As [`Server::poll_question`].
    pub fn poll_question(&mut self) -> Option<pep::Question> {
        self.front.poll_question()
    }

    /// From now on other servers may register here to be found.
    pub fn serve_discovery(&mut self) {
        self.front.serve_discovery();
    }

    /// What clients see: the gate, the load. Inputs go through [`Guard::handle_input`].
    #[must_use]
    pub fn front(&self) -> &Server {
        &self.front
    }

    /// From now on the time of some checks is taken by this monotonic clock.
    pub fn time_checks(&mut self, stopwatch: fn() -> Mono) {
        self.front.time_checks(stopwatch);
    }

    /// How many subscriptions there are.
    #[must_use]
    pub fn subscriptions(&self) -> usize {
        self.links.values().map(|link| link.subs.len()).sum()
    }

    /// Why a connection to the upstream server ended or was not made; `None` once a session there was opened since, or
    /// somebody said that the server answers.
    #[must_use]
    pub fn upstream_trouble(&self) -> Option<StatusCode> {
        self.upstream_trouble
    }

    /// The upstream server was seen to answer.
    pub fn upstream_answers(&mut self) {
        self.upstream_trouble = None;
    }

    /// From now on clients may log in like this; who is logged in stays for as long as the grant does. How tokens come in
    /// does not change.
    pub fn offer(&mut self, identities: server::Identities) {
        self.front.offer(identities);
    }

    /// Whether the upstream server was looked at, so that requests can be forwarded.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        self.mapping.is_some()
    }

    /// Where the workflow stands, as far as somebody told: records of what is observed say it.
    pub fn set_steps(&mut self, steps: String, now: Now) {
        self.front.set_steps(steps, now);
    }

    /// How many connections to the upstream server there are or are being made.
    #[must_use]
    pub fn upstream_load(&self) -> usize {
        self.wires.len()
    }

    /// Grants that are over are ended before anything that was obtained under them comes in.
    fn tend_front(&mut self, now: Now) {
        if self.front.poll_timeout().is_some_and(|at| at <= now.mono) {
            self.front.handle_timeout(now);
            self.take_over(now);
        }
    }

    fn draw(&mut self) -> u32 {
        let mut number = [0; 4];
        self.entropy.fill(&mut number);
        u32::from_le_bytes(number)
    }

    fn take_over(&mut self, now: Now) {
        loop {
            while let Some(handed) = self.front.poll_handed() {
                self.handed(handed, now);
            }
            // What was recorded may be an event to be told.
            self.front.recorded_behind(now);
            if !self.front.has_handed() {
                return;
            }
        }
    }

    /// Sets the alarm of a link so that it rings when the link next has something to do, or before: whoever rings sets it
    /// anew. With each request and each answer the time is another, mostly a later one.
    fn arm_by(&mut self, owner: Owner, at: Option<Mono>) {
        let set = self.armed.get(&owner);
        if set.is_none_or(|set| at.is_some_and(|at| at < *set)) {
            self.arm(owner, at);
        }
    }

    /// Sets the alarm of a link to this time.
    fn arm(&mut self, owner: Owner, at: Option<Mono>) {
        if self.armed.get(&owner).copied() == at {
            return;
        }
        if let Some(before) = self.armed.remove(&owner) {
            self.alarms.remove(&(before, owner));
        }
        if let Some(at) = at.filter(|at| *at != Mono::NEVER) {
            self.armed.insert(owner, at);
            self.alarms.insert((at, owner));
        }
    }
}

/// What a client hears while there is no upstream session.
fn unreachable(trouble: Option<StatusCode>) -> StatusCode {
    match trouble {
        Some(StatusCode::BadTooManySessions) => StatusCode::BadTooManySessions,
        _ => StatusCode::BadServerNotConnected,
    }
}
