//! The resource server without I/O: connections, sessions, identities, services, enforcement, audit.
//!
//! A shell owns sockets, clock, randomness, a pool for jobs, the ledger and the application. It feeds a [`Server`] with
//! [`Input`]s and carries out its [`Output`]s:
//!
//! ```text
//! loop {
//!     server.handle_input(input, now) or server.handle_timeout(now)
//!     while let Some(output) = server.poll_output() { ... }
//!     wait for the next input or until server.poll_timeout()
//! }
//! ```
//!
//! Every item of every service that touches a node passes the gate in `desk`; nothing else in this module asks it.
//! Not here: node management, Query, session-less calls. Their requests are answered with Bad_ServiceUnsupported by
//! the table in `dispatch`.

mod activate;
mod admission;
mod asking;
mod audit;
mod browse_points;
mod calling;
pub(crate) mod codec;
mod config;
mod connection;
mod create;
mod desk;
mod dispatch;
mod endpoints;
mod ephemeral;
mod events;
pub(crate) mod front;
mod grants;
mod history_points;
mod identity;
mod io;
mod jobs;
mod meters;
mod observed;
mod occasion;
mod parked;
mod pressure;
mod profiles;
mod proof;
mod publish;
mod reader;
mod registry;
mod secrets;
mod services;
mod session;
mod timers;
mod told;
mod transfer;
mod updates;
mod values;
mod work;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use access_model::{Interlock, Mono, Now, ScopeIndex, UnixTime};
use pep::Gate;

use crate::Entropy;
use crate::interlock::Interlocks;
use crate::space::{NodeRef, Space};

pub use audit::{AuditId, Audited};
pub use calling::MAX_CALLED;
pub use config::{
    AuditConfig, AuditFailMode, DangerWithout, EndpointSecurity, Identities, IssuedTokens, IssuerEndpoint, OnBare,
    ServerConfig, ServerLimits, TokenForm,
};

pub use meters::ServerMeters;

pub use io::{
    Answer, AskId, AskSecret, Caller, ConnId, FetchedGrant, Input, Invocation, InvokeId, LoginId, Output, Secret,
};

use admission::Admission;
use audit::AuditLog;
use codec::Codec;
use connection::Connection;
use events::EventDesk;
use jobs::JobDesk;
use parked::ParkedRequests;
use pressure::Pressure;
use session::Sessions;
use timers::Timers;

/// The machine.
pub struct Server {
    config: ServerConfig,
    codec: Codec,
    space: Space,
    gate: Gate,
    entropy: Box<dyn Entropy + Send>,
    connections: BTreeMap<ConnId, Connection>,
    channels: BTreeMap<u32, ConnId>,
    last_channel: u32,
    admission: Admission,
    pressure: Pressure,
    calling: calling::Calling,
    registry: registry::Registry,
    sessions: Sessions,
    jobs: JobDesk,
    parked: ParkedRequests,
    asking: BTreeMap<u64, asking::Asked>,
    audit: AuditLog,
    audit_armed: Option<Mono>,
    timers: Timers,
    watchers: BTreeMap<NodeRef, Vec<timers::SessionKey>>,
    last_subscription: u32,
    /// Where the workflow stands, as far as anybody said.
    steps: String,
    /// How the server behind a guard numbers its namespaces.
    namespaces_behind: Vec<String>,
    events: EventDesk,
    interlocks: Interlocks,
    outputs: VecDeque<Output>,
    /// When it was said last that the server ends soon.
    draining: Option<UnixTime>,
    /// What a guard in front of another server takes over; `None` in a resource server.
    handed: Option<VecDeque<front::Handed>>,
    /// Which services are handed on.
    hands_on: fn(dispatch::Service) -> bool,
}

impl Server {
    /// A server over an address space and a gate.
    #[must_use]
    pub fn new(config: ServerConfig, mut space: Space, mut gate: Gate, mut entropy: Box<dyn Entropy + Send>) -> Self {
        if let Some(facts) = space.server_facts_mut() {
            facts.limits = config.limits.published();
            facts.auditing = true;
            facts.profiles = profiles::of(&config);
            facts.locales = vec![profiles::LOCALE.to_owned()];
        }
        let events = EventDesk::new(&mut *entropy);
        let mut run = [0; 8];
        entropy.fill(&mut run);
        gate.set_run(run);
        let mut audit = AuditLog::new(config.audit.clone());
        audit.find_scope(&gate.config().map);
        Self {
            codec: codec::requests_within(&config.limits.operations),
            jobs: JobDesk::new(config.limits.max_jobs, config.limits.max_waiting_jobs),
            audit,
            pressure: Pressure::new(config.limits.max_held),
            config,
            space,
            gate,
            entropy,
            connections: BTreeMap::new(),
            channels: BTreeMap::new(),
            last_channel: 0,
            admission: Admission::default(),
            calling: calling::Calling::default(),
            registry: registry::Registry::default(),
            sessions: Sessions::default(),
            parked: ParkedRequests::default(),
            asking: BTreeMap::new(),
            audit_armed: None,
            timers: Timers::default(),
            watchers: BTreeMap::new(),
            last_subscription: 0,
            steps: String::new(),
            namespaces_behind: Vec::new(),
            events,
            interlocks: Interlocks::default(),
            outputs: VecDeque::new(),
            draining: None,
            handed: None,
            hands_on: |_| true,
        }
    }

    /// What holds for values that are written and for arguments of methods, by scope. What was changed lately counts on.
    pub fn set_interlocks(&mut self, rules: BTreeMap<ScopeIndex, Interlock>) {
        self.interlocks.set(rules);
    }

    /// The next question for the authority: see [`pep::GateEvent::Question`].
    pub fn poll_question(&mut self) -> Option<pep::Question> {
        self.gate.poll_question()
    }

    /// Takes one input.
    pub fn handle_input(&mut self, input: Input<'_>, now: Now) {
        self.relieve(now);
        self.begin_records(now);
        self.tend_gate(now);
        match input {
            Input::Accepted { conn, peer } => self.accepted(conn, peer, now),
            Input::CallClients(urls) => self.call_clients(urls, now),
            Input::Called { client, conn, peer } => self.called(client, conn, peer, now),
            Input::NotCalled { client } => self.not_called(client, now),
            Input::Bytes { conn, bytes } => self.received(conn, bytes, now),
            Input::Drained { conn, unsent } => self.drained(conn, unsent, now),
            Input::Disconnected { conn } => self.disconnected(conn, now),
            Input::JobDone { id, outcome } => self.job_done(id, outcome, now),
            Input::Answer { id, answer } => self.answered(id, answer, now),
            Input::Authenticated { id, result } => self.authenticated(id, result, now),
            Input::Fetched { id, result } => self.fetched(id, result, now),
            Input::Audited { id, result } => self.audited(id, result, now),
            Input::ControlUpdate(update) => self.control_update(update, now),
            Input::ContactFound => self.gate.on_contact(now),
            Input::ContactLost => self.gate.on_contact_lost(now),
            Input::Ledger(trouble) => self.ledger(trouble, now),
            Input::Zones(zones) => self.gate.set_zones(zones, now),
            Input::Lease(until) => self.gate.lease_until(until, now),
            Input::Issuers(issuers) => drop(self.gate.set_issuers(issuers, now)),
            Input::ForeignKeys { issuer, keys } => drop(self.gate.set_foreign_keys(&issuer, keys)),
            Input::TrustChanged => self.trust_changed(now),
            Input::IdentityChanged => {}
            Input::SetValue { node, value } => self.set_value(node, value, now),
            Input::Event(event) => self.application_event(event, now),
            Input::Drain { seconds } => self.drain(seconds, now),
            Input::TurnOut => self.turn_out(now),
            Input::Shutdown => self.shutdown(now),
        }
        self.ease();
        self.gate_events(now);
        self.tell_occasions(now);
        self.arm_audit();
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Now) {
        self.relieve(now);
        self.tend_gate(now);
        self.gate_events(now);
        while let Some(timer) = self.timers.pop(now.mono) {
            self.timed_out(timer, now);
        }
        self.tell_occasions(now);
        self.arm_audit();
    }

    /// When [`Server::handle_timeout`] must be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        [self.timers.first(), self.gate.poll_timeout()].into_iter().flatten().min()
    }

    /// The next thing to do outside. Records come first, so that a ledger knows of an event before its peer does.
    pub fn poll_output(&mut self) -> Option<Output> {
        if let Some((id, record)) = self.audit.poll() {
            return Some(Output::Audit { id, record });
        }
        let output = self.outputs.pop_front()?;
        if let Output::Send { conn } = &output
            && let Some(connection) = self.connections.get_mut(conn)
        {
            connection.send_queued = false;
        }
        Some(output)
    }

    /// Bytes for a connection; the shell takes them from the front.
    pub fn outgoing(&mut self, conn: ConnId) -> Option<&mut Vec<u8>> {
        self.connections.get_mut(&conn).map(|connection| connection.channel.outgoing())
    }

    /// Whether the shell should read from this connection.
    #[must_use]
    pub fn wants_input(&self, conn: ConnId) -> bool {
        self.connections.get(&conn).is_some_and(|connection| connection.wants_input(self.config.limits.max_unsent))
    }

    /// Whether a connection has input that was put off and could go on now: the shell then says [`Input::Drained`].
    #[must_use]
    pub fn holds_input(&self, conn: ConnId) -> bool {
        self.connections.get(&conn).is_some_and(|connection| connection.channel.holds_input())
    }

    /// Whether somebody has logged in on a connection.
    #[must_use]
    pub fn is_logged_in(&self, conn: ConnId) -> bool {
        self.connections.get(&conn).is_some_and(|connection| connection.active > 0)
    }

    /// The address space.
    #[must_use]
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The address space, for nodes and facts; values go in as [`Input::SetValue`].
    pub fn space_mut(&mut self) -> &mut Space {
        &mut self.space
    }

    /// The gate.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// What it counts: for those who watch.
    #[must_use]
    pub fn meters(&self) -> &Arc<ServerMeters> {
        self.audit.meters()
    }

    /// From now on the time of some checks is taken by this monotonic clock.
    pub fn time_checks(&mut self, stopwatch: fn() -> Mono) {
        self.gate.time_checks(stopwatch);
    }

    /// How many subscriptions there are.
    #[must_use]
    pub fn subscriptions(&self) -> usize {
        self.sessions.iter().map(|session| session.subscriptions.len()).sum()
    }

    /// How many connections and sessions there are.
    #[must_use]
    pub fn load(&self) -> (usize, usize) {
        (self.connections.len(), self.sessions.len())
    }
}
