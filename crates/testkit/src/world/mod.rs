//! One server, its clients, a guard between them where one is wanted, and everything that a shell does between them, in
//! memory and under the virtual clock.

mod ask;
mod asked;
mod guarded;
mod peer;
mod setup;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use access_model::{AuditRecord, Mono, Now, Reason, Refusal};
use opcua_types::{DataValue, NodeId};
use pep::{GateEvent, Identity};
use ua_proto::guard::{self, Input as Both, LinkId, Upstream};
use ua_proto::server::{AuditId, Audited, ConnId, Input, Invocation, InvokeId, Output, Server};
use ua_proto::space::ServerFacts;

use crate::Counting;
use crate::clock::Clock;
use guarded::open_plant;

pub use ask::request_head;
pub use asked::{Asked, asked_in, asked_of, scope_of};
pub use guarded::{Guarded, scope_rules, upstream_session};
pub use peer::{Peer, RawPeer, SessionPeer};
pub use setup::{AUTHORITY_NAME, SCOPES, Setup, URL, VARIABLES, method_id, scope_map, variable_id};

/// A server and its clients.
pub struct World {
    /// The server; behind a guard, if there is one.
    pub server: Server,
    /// The guard.
    pub guarded: Option<Box<Guarded>>,
    /// Time.
    pub clock: Clock,
    /// The clients, by connection.
    pub peers: BTreeMap<ConnId, Peer>,
    /// Every audit record, in order.
    pub records: Vec<AuditRecord>,
    /// Method calls that reached the application and wait for an answer.
    pub invoked: VecDeque<(InvokeId, Invocation)>,
    /// How many method calls reached the application.
    pub invocations: u64,
    /// Writes that reached the application.
    pub written: Vec<(NodeId, DataValue)>,
    /// What the gate said.
    pub gate_events: Vec<GateEvent>,
    /// What the ledger answers; `None` lets acknowledgements wait.
    pub ledger: Option<Audited>,
    waiting_audits: Vec<AuditId>,
    entropy: Counting,
    last_conn: u64,
}

impl World {
    fn new(server: Server, clock: Clock) -> Self {
        Self {
            server,
            guarded: None,
            clock,
            peers: BTreeMap::new(),
            records: Vec::new(),
            invoked: VecDeque::new(),
            invocations: 0,
            written: Vec::new(),
            gate_events: Vec::new(),
            ledger: Some(Audited::Kept),
            waiting_audits: Vec::new(),
            entropy: Counting(1),
            last_conn: 0,
        }
    }

    /// The present.
    #[must_use]
    pub const fn now(&self) -> Now {
        self.clock.now()
    }

    /// Connects a client; nothing moves before [`World::run`].
    pub fn connect(&mut self, peer: Peer) -> ConnId {
        self.last_conn += 1;
        let conn = ConnId(self.last_conn);
        let input = Input::Accepted { conn, peer: format!("192.0.2.{}:50000", conn.0 % 250) };
        self.tell(input);
        self.peers.insert(conn, peer);
        conn
    }

    /// Gives the server, or the guard, an input and carries everything that follows.
    pub fn input(&mut self, input: Input<'_>) {
        self.tell(input);
        self.run();
    }

    /// As [`World::input`], for the server also where a guard stands before it.
    pub fn plant_input(&mut self, input: Input<'_>) {
        self.server.handle_input(input, self.clock.now());
        self.run();
    }

    /// What the clients see: the server, or the guard's front.
    #[must_use]
    pub fn front(&self) -> &Server {
        self.guarded.as_ref().map_or(&self.server, |guarded| guarded.guard.front())
    }

    /// Cuts what is between guard and plant.
    pub fn cut_upstream(&mut self) {
        let now = self.clock.now();
        if let Some(guarded) = &mut self.guarded {
            guarded.cut(&mut self.server, now);
        }
        self.run();
    }

    /// Whether connections between guard and plant can be made.
    pub fn plug_upstream(&mut self, plugged: bool) {
        if let Some(guarded) = &mut self.guarded {
            guarded.plugged = plugged;
        }
    }

    /// What the plant sends to the guard is kept back, or arrives.
    pub fn hold_upstream(&mut self, hold: bool) {
        let now = self.clock.now();
        match &mut self.guarded {
            Some(guarded) if hold => {
                guarded.held.get_or_insert_default();
            }
            Some(guarded) => guarded.release(now),
            None => {}
        }
        self.run();
    }

    /// The guard receives something from upstream.
    pub fn deliver_upstream(&mut self, link: LinkId, event: Upstream<'_>) {
        let now = self.clock.now();
        if let Some(guarded) = &mut self.guarded {
            guarded.guard.handle_input(Both::Up { link, event }, now);
        }
        self.run();
    }

    /// The plant behind the guard is killed and started anew, with values as at first and these facts.
    pub fn restart_upstream(&mut self, facts: ServerFacts) {
        let now = self.clock.now();
        if let Some(guarded) = &mut self.guarded {
            guarded.cut(&mut self.server, now);
            self.server = open_plant(guarded.security(), facts, now);
        }
        self.invoked.clear();
        self.run();
    }

    fn tell(&mut self, input: Input<'_>) {
        let now = self.clock.now();
        match &mut self.guarded {
            Some(guarded) => guarded.guard.handle_input(Both::Down(input), now),
            None => self.server.handle_input(input, now),
        }
    }

    fn outgoing(&mut self, conn: ConnId) -> Vec<u8> {
        let bytes = match &mut self.guarded {
            Some(guarded) => guarded.guard.outgoing(conn),
            None => self.server.outgoing(conn),
        };
        bytes.map(std::mem::take).unwrap_or_default()
    }

    fn poll_timeout(&self) -> Option<Mono> {
        let guard = self.guarded.as_ref().and_then(|guarded| guarded.guard.poll_timeout());
        self.server.poll_timeout().into_iter().chain(guard).min()
    }

    /// Cuts a connection.
    pub fn cut(&mut self, conn: ConnId) {
        if let Some(peer) = self.peers.get_mut(&conn) {
            peer.lost();
        }
        self.input(Input::Disconnected { conn });
    }

    /// Answers what waited for the ledger, as it answers now.
    pub fn release_audits(&mut self) {
        if let Some(result) = self.ledger {
            for id in std::mem::take(&mut self.waiting_audits) {
                self.tell(Input::Audited { id, result });
            }
        }
        self.run();
    }

    /// Lets time pass, deadline by deadline, for the server and every client.
    ///
    /// # Panics
    /// When a machine leaves a deadline that is due, or never comes to rest.
    pub fn pass(&mut self, time: Duration) {
        let end = self.clock.now().after(time).mono;
        for turn in 0.. {
            assert!(turn < 100_000, "the machines never rest");
            if !self.step(end) {
                return;
            }
        }
    }

    /// Goes to the next deadline of any machine, but not beyond `end`; gives whether there was one.
    pub fn step(&mut self, end: Mono) -> bool {
        let clients = self.peers.values().filter_map(Peer::poll_timeout);
        let next = self.poll_timeout().into_iter().chain(clients).min().filter(|at| *at <= end);
        self.clock.pass(next.unwrap_or(end).since(self.clock.now().mono));
        self.tick();
        next.is_some()
    }

    /// Lets every machine see the present time.
    ///
    /// # Panics
    /// When the server leaves a deadline that is due.
    pub fn tick(&mut self) {
        let now = self.clock.now();
        if let Some(guarded) = &mut self.guarded {
            guarded.guard.handle_timeout(now);
        }
        self.server.handle_timeout(now);
        let next = self.poll_timeout();
        assert!(next.is_none_or(|next| next > now.mono), "the server or the guard leaves a deadline that is due");
        for peer in self.peers.values_mut() {
            peer.handle_timeout(now, &mut self.entropy);
        }
        self.run();
    }

    /// Carries bytes, jobs, logins and records until nothing moves.
    ///
    /// # Panics
    /// When it never ends.
    pub fn run(&mut self) {
        for turn in 0.. {
            assert!(turn < 100_000, "bytes go round for ever");
            let mut moved = self.carry_outputs();
            for conn in self.peers.keys().copied().collect::<Vec<_>>() {
                moved |= self.carry_peer(conn);
            }
            if !moved {
                return;
            }
        }
    }

    fn carry_outputs(&mut self) -> bool {
        let mut moved = false;
        while let Some(output) = self.poll_output() {
            moved = true;
            self.carry(output);
        }
        moved
    }

    fn poll_output(&mut self) -> Option<Output> {
        let now = self.clock.now();
        let Self { server, guarded, .. } = self;
        let Some(guarded) = guarded else { return server.poll_output() };
        loop {
            match guarded.guard.poll_output() {
                Some(guard::Output::Down(output)) => return Some(output),
                Some(guard::Output::Dial { link, .. }) => guarded.dial(link, server, now),
                Some(guard::Output::UpstreamSend { link }) => guarded.send(link, server, now),
                Some(guard::Output::UpstreamClose { link }) => guarded.close(link, server, now),
                Some(guard::Output::UpstreamJob { link, job }) => {
                    let (id, outcome) = job.run();
                    guarded.guard.handle_input(Both::Up { link, event: Upstream::JobDone { id, outcome } }, now);
                }
                None => {
                    if let Some(output) = guarded.carry(server.poll_output()?, server, now) {
                        return Some(output);
                    }
                }
            }
        }
    }

    fn carry(&mut self, output: Output) {
        let now = self.clock.now();
        match output {
            Output::Send { conn } => {
                let bytes = self.outgoing(conn);
                if let Some(peer) = self.peers.get_mut(&conn) {
                    peer.receive(&bytes, now, &mut self.entropy);
                }
                self.tell(Input::Drained { conn, unsent: 0 });
            }
            Output::Close { conn, rest } => {
                if let Some(peer) = self.peers.get_mut(&conn) {
                    peer.receive(&rest, now, &mut self.entropy);
                    peer.lost();
                }
            }
            Output::Job(job) => {
                let (id, outcome) = job.run();
                self.tell(Input::JobDone { id, outcome });
            }
            Output::Invoke { id, invocation } => {
                self.invocations += 1;
                self.invoked.push_back((id, *invocation));
            }
            Output::Authenticate { id, name, password, .. } => {
                let right = password.0.as_slice() == format!("{name}-password").as_bytes();
                let wrong = || Refusal::new(Reason::UserCredentials, "unknown user or wrong password");
                let result = right.then_some(Identity::User { name }).ok_or_else(wrong);
                self.tell(Input::Authenticated { id, result });
            }
            Output::Audit { id, record } => {
                self.records.push(record);
                match (id, self.ledger) {
                    (Some(id), Some(result)) => self.tell(Input::Audited { id, result }),
                    (Some(id), None) => self.waiting_audits.push(id),
                    (None, _) => {}
                }
            }
            Output::Written { node, value } => self.written.push((self.server.space().id(node), value)),
            Output::AskGrant { id, .. } => {
                let result = Err(Refusal::new(Reason::UnknownClient, "nobody is known here"));
                self.tell(Input::Fetched { id, result });
            }
            Output::Gate(event) => self.gate_events.push(event),
            Output::Rejected { .. } | Output::CallClient { .. } => {}
        }
    }

    fn carry_peer(&mut self, conn: ConnId) -> bool {
        let now = self.clock.now();
        let Some(peer) = self.peers.get_mut(&conn) else { return false };
        let moved = peer.work(now, &mut self.entropy);
        let bytes = peer.take_outgoing();
        if peer.is_over() {
            self.peers.remove(&conn);
            self.tell(Input::Disconnected { conn });
            return true;
        }
        if bytes.is_empty() {
            return moved;
        }
        self.tell(Input::Bytes { conn, bytes: &bytes });
        true
    }
}
