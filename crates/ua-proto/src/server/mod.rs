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
//! Every item of every service that touches a node passes the gate in [`desk`]; nothing else in this module asks it.
//! Not here: events, history, node management, transfer of subscriptions, session-less calls. Their requests are
//! answered with Bad_ServiceUnsupported by the table in [`dispatch`].

mod activate;
mod admission;
mod audit;
mod browse_points;
mod codec;
mod config;
mod connection;
mod create;
mod desk;
mod dispatch;
mod endpoints;
mod grants;
mod identity;
mod jobs;
mod parked;
mod proof;
mod publish;
mod reader;
mod secrets;
mod services;
mod session;
mod timers;
mod updates;
mod values;
mod work;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use access_model::{AuditRecord, Mono, Now, Refusal, Thumbprint};
use opcua_types::{DataValue, MessageSecurityMode, NodeId, StatusCode, Variant};
use pep::{Gate, GateEvent, GrantRequest, Identity};
use zeroize::Zeroizing;

use crate::crypto::SecurityPolicyId;
use crate::space::{NodeRef, Space};
use crate::{Entropy, Job, JobId, JobOutcome};

pub use audit::{AuditId, Audited};
pub use config::{
    AuditConfig, AuditFailMode, EndpointSecurity, Identities, IssuedTokens, IssuerEndpoint, ServerConfig, ServerLimits,
    TokenForm,
};

use admission::Admission;
use audit::AuditLog;
use codec::Codec;
use connection::Connection;
use jobs::JobDesk;
use parked::ParkedRequests;
use session::Sessions;
use timers::Timers;

/// Names a connection; the shell chooses it and does not use it again while the connection lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// Names a login that the shell is asked to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoginId(pub u64);

/// Names a method call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InvokeId(pub u64);

/// Names a grant that the shell is asked to fetch from the authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

/// Something that happened outside.
#[derive(Debug)]
pub enum Input<'a> {
    /// A peer connected.
    Accepted {
        /// Its name from now on.
        conn: ConnId,
        /// Its network address, for the audit.
        peer: String,
    },
    /// Bytes from a peer.
    Bytes {
        /// Which.
        conn: ConnId,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Bytes went out to a peer.
    Drained {
        /// Which.
        conn: ConnId,
        /// How many bytes the shell took from [`Server::outgoing`] and could not hand to the peer yet.
        unsent: usize,
    },
    /// The peer is gone.
    Disconnected {
        /// Which.
        conn: ConnId,
    },
    /// A job is done.
    JobDone {
        /// Which.
        id: JobId,
        /// What [`Job::run`] gave.
        outcome: JobOutcome,
    },
    /// A method call came back.
    Answer {
        /// Which.
        id: InvokeId,
        /// With what.
        answer: Answer,
    },
    /// A login was checked.
    Authenticated {
        /// Which.
        id: LoginId,
        /// Who it is, or why not. Unknown users and wrong passwords must not differ in time or reason.
        result: Result<Identity, Refusal>,
    },
    /// A grant was fetched.
    Fetched {
        /// Which.
        id: AskId,
        /// The token, or why there is none.
        result: Result<Vec<u8>, Refusal>,
    },
    /// A record that asked for it was acknowledged.
    Audited {
        /// Which.
        id: AuditId,
        /// How it went.
        result: Audited,
    },
    /// A signed update from the authority.
    ControlUpdate(&'a [u8]),
    /// The authority was heard of.
    ContactFound,
    /// The authority is out of reach.
    ContactLost,
    /// The trust list was swapped: live channels are looked at again.
    TrustChanged,
    /// The server's own certificate was swapped.
    IdentityChanged,
    /// The application sets a value.
    SetValue {
        /// Of which variable.
        node: NodeRef,
        /// To what.
        value: DataValue,
    },
    /// The server ends: every connection is told and closed.
    Shutdown,
}

/// Something to do outside.
#[derive(Debug)]
pub enum Output {
    /// [`Server::outgoing`] holds bytes for this connection.
    Send {
        /// Which.
        conn: ConnId,
    },
    /// Write out what is left, then close the connection; it is forgotten here.
    Close {
        /// Which.
        conn: ConnId,
        /// The last bytes for it.
        rest: Vec<u8>,
    },
    /// Run this on the pool.
    Job(Job),
    /// Call a method of the application.
    Invoke {
        /// Names the call.
        id: InvokeId,
        /// The call.
        invocation: Box<Invocation>,
    },
    /// Check a user name and password; the work must be the same for unknown users.
    Authenticate {
        /// Names the login.
        id: LoginId,
        /// The user name.
        name: String,
        /// The password.
        password: Secret,
    },
    /// Keep a record.
    Audit {
        /// Acknowledge under this id.
        id: Option<AuditId>,
        /// The record.
        record: AuditRecord,
    },
    /// A client wrote a value; it is in the address space already.
    Written {
        /// Of which variable.
        node: NodeRef,
        /// The value as it came.
        value: DataValue,
    },
    /// Fetch a token for a client that has none.
    AskGrant {
        /// Names the request.
        id: AskId,
        /// The request.
        request: Box<GrantRequest>,
    },
    /// Something happened to a grant or the gate; sessions were taken care of already. On
    /// [`GateEvent::NeedFullList`] fetch the full list from the authority.
    Gate(GateEvent),
    /// A certificate was rejected: keep it where an operator finds it.
    Rejected {
        /// As the peer sent it.
        certificate: Vec<u8>,
    },
}

/// Bytes that are wiped after use and never printed.
#[derive(Clone)]
pub struct Secret(pub Zeroizing<Vec<u8>>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Who calls a method.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The session.
    pub session: NodeId,
    /// ClientUserId; none when anonymous.
    pub user: Option<String>,
    /// Role names of the session's grant.
    pub roles: Vec<String>,
    /// The ApplicationUri that the client's certificate proves.
    pub application: Option<String>,
    /// That certificate.
    pub certificate: Option<Thumbprint>,
    /// How the channel is protected.
    pub policy: SecurityPolicyId,
    /// How the channel is protected.
    pub mode: MessageSecurityMode,
    /// The peer's network address.
    pub address: String,
}

/// A method call on its way to the application.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// Who calls.
    pub caller: Caller,
    /// The object.
    pub object: NodeId,
    /// The method.
    pub method: NodeId,
    /// The method's node.
    pub method_node: NodeRef,
    /// The arguments; number and types fit the method's InputArguments, structures are still the bytes they came in.
    pub inputs: Vec<Variant>,
}

/// What a method gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The status of the call.
    pub status: StatusCode,
    /// The status of each argument, when one was at fault.
    pub input_results: Vec<StatusCode>,
    /// The results.
    pub outputs: Vec<Variant>,
}

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
    sessions: Sessions,
    jobs: JobDesk,
    parked: ParkedRequests,
    audit: AuditLog,
    timers: Timers,
    watchers: BTreeMap<NodeRef, Vec<timers::SessionKey>>,
    last_subscription: u32,
    outputs: VecDeque<Output>,
}

impl Server {
    /// A server over an address space and a gate.
    #[must_use]
    pub fn new(config: ServerConfig, space: Space, gate: Gate, entropy: Box<dyn Entropy + Send>) -> Self {
        Self {
            codec: Codec::new(),
            jobs: JobDesk::new(config.limits.max_jobs, config.limits.max_waiting_jobs),
            audit: AuditLog::new(config.audit.clone()),
            config,
            space,
            gate,
            entropy,
            connections: BTreeMap::new(),
            channels: BTreeMap::new(),
            last_channel: 0,
            admission: Admission::default(),
            sessions: Sessions::default(),
            parked: ParkedRequests::default(),
            timers: Timers::default(),
            watchers: BTreeMap::new(),
            last_subscription: 0,
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input.
    pub fn handle_input(&mut self, input: Input<'_>, now: Now) {
        self.tend_gate(now);
        match input {
            Input::Accepted { conn, peer } => self.accepted(conn, peer, now),
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
            Input::TrustChanged => self.trust_changed(now),
            Input::IdentityChanged => {}
            Input::SetValue { node, value } => self.set_value(node, value, now),
            Input::Shutdown => self.shutdown(now),
        }
        self.gate_events(now);
        self.arm_audit();
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Now) {
        self.tend_gate(now);
        self.gate_events(now);
        while let Some(timer) = self.timers.pop(now.mono) {
            self.timed_out(timer, now);
        }
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

    /// How many connections and sessions there are.
    #[must_use]
    pub fn load(&self) -> (usize, usize) {
        (self.connections.len(), self.sessions.len())
    }
}
