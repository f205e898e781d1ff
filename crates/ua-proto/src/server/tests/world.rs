//! One server, some clients, and everything between them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use access_model::{AuditRecord, Mode, Mono, Now, Reason, Refusal, Rights, ScopeIndex, ScopeMap, UnixTime};
use arc_swap::ArcSwap;
use opcua_types::{Argument, ByteString, DataValue, MessageSecurityMode, NodeId, StatusCode, Variant};
use pep::{Contact, Gate, GateConfig, GateEvent, GrantRequest, Identity, LocalGrant, LocalScopes, Who};
use token::SystemEntropy;

use super::keys::{CLIENT, ISSUER, OTHER, SERVER, SERVER_URI, USER, of, trust};
use crate::Job;
use crate::channel::{ChannelConfig, ChannelEvent, ClientChannel, ClientChannelConfig};
use crate::crypto::SecurityPolicyId;
use crate::pki::OwnIdentity;
use crate::server::*;
use crate::space::{AccessLevel, NewMethod, NewVariable, SpaceConfig, ns0};

pub(super) const URL: &str = "opc.tcp://server:4840";
pub(super) const POLICY: SecurityPolicyId = SecurityPolicyId::Basic256Sha256;
pub(super) const ENCRYPT: EndpointSecurity = (POLICY, MessageSecurityMode::SignAndEncrypt);
pub(super) const SIGN: EndpointSecurity = (POLICY, MessageSecurityMode::Sign);
pub(super) const BARE: EndpointSecurity = (SecurityPolicyId::None, MessageSecurityMode::None);

/// Scopes: readable and writable reactor, a mixer that may be seen but not read, and what nobody may know of.
pub(super) const SCOPES: [&str; 3] = ["reactor", "mixer", "vault"];

pub(super) fn id(name: &str) -> NodeId {
    NodeId::new(1, name)
}

/// One client connection.
pub(super) struct Peer {
    pub(super) channel: ClientChannel,
    pub(super) security: EndpointSecurity,
    pub(super) own: Option<Arc<OwnIdentity>>,
    pub(super) answers: BTreeMap<u32, Vec<u8>>,
    pub(super) closed: Option<StatusCode>,
    /// Bytes are not read from the server any more.
    pub(super) deaf: bool,
}

/// A session at the client.
#[derive(Clone, Debug)]
pub(super) struct Login {
    pub(super) token: NodeId,
    pub(super) nonce: ByteString,
}

pub(super) struct World {
    pub(super) server: Server,
    pub(super) now: Now,
    pub(super) peers: BTreeMap<ConnId, Peer>,
    pub(super) records: Vec<AuditRecord>,
    pub(super) invoked: VecDeque<(InvokeId, Invocation)>,
    pub(super) written: Vec<(NodeId, DataValue)>,
    pub(super) asked: Vec<(AskId, GrantRequest, Option<AskSecret>)>,
    pub(super) held_audits: Vec<AuditId>,
    pub(super) held_jobs: VecDeque<Job>,
    /// What the ledger says; None keeps acknowledgements back.
    pub(super) ledger: Option<Audited>,
    pub(super) hold_jobs: bool,
    pub(super) events: Vec<GateEvent>,
    pub(super) calls: Vec<(usize, String)>,
    next_conn: u64,
    pub(super) next_handle: u32,
    entropy: SystemEntropy,
}

/// What a test may change before the world starts.
pub(super) struct Setup {
    pub(super) identities: Identities,
    pub(super) endpoints: Vec<EndpointSecurity>,
    pub(super) limits: ServerLimits,
    pub(super) audit: AuditConfig,
    pub(super) local: Vec<LocalGrant>,
    pub(super) ask: bool,
    pub(super) contact: Option<Contact>,
    pub(super) observes: bool,
}

impl Default for Setup {
    fn default() -> Self {
        let issuer = IssuerEndpoint {
            resource_id: SERVER_URI.into(),
            authority_url: "https://authority".into(),
            profile_uri: IssuerEndpoint::PROFILE_OAUTH2.into(),
            token_endpoint: Some("/token".into()),
            authorization_endpoint: None,
            request_types: vec!["client_credentials".into()],
            scopes: Vec::new(),
        };
        Self {
            identities: Identities {
                anonymous: true,
                user_name: true,
                certificate: Some(trust(&[&USER])),
                issued: Some(IssuedTokens { issuer, forms: TokenForm::ALL.to_vec() }),
                ..Identities::default()
            },
            endpoints: vec![ENCRYPT, SIGN, BARE],
            limits: ServerLimits::default(),
            audit: AuditConfig::default(),
            local: vec![
                grant(Who::Anonymous, vec![(Rights::BROWSE, "reactor")]),
                grant(Who::User("alice".into()), alice()),
                grant(Who::User("bob".into()), vec![(Rights::BROWSE | Rights::READ, "mixer")]),
                grant(Who::Certificate(USER.certificate.thumbprint()), alice()),
            ],
            ask: false,
            contact: None,
            observes: false,
        }
    }
}

/// What alice may: everything on the reactor, see the mixer, not know of the vault.
pub(super) fn alice() -> Vec<(Rights, &'static str)> {
    let all = Rights::BROWSE | Rights::READ | Rights::WRITE | Rights::CALL;
    vec![(all, "reactor"), (Rights::BROWSE, "mixer")]
}

pub(super) fn grant(who: Who, rights: Vec<(Rights, &str)>) -> LocalGrant {
    let rights = rights.into_iter().map(|(held, scope)| (held, LocalScopes::Named(vec![scope.to_owned()])));
    LocalGrant { who, require_encryption: false, roles: vec!["Operator".into()], rights: rights.collect() }
}

impl Setup {
    pub(super) fn start(self) -> World {
        let now = Now { mono: Mono::from_nanos(1_000_000_000), unix: UnixTime::from_seconds(1_790_000_000) };
        let map = ScopeMap::new(SCOPES).unwrap();
        let key = ISSUER.public();
        let gate = GateConfig {
            issuers: vec![token::Issuer { name: "authority".into(), keys: vec![key], require_confirmation: true }],
            local: self.local,
            ask: self.ask,
            contact: self.contact,
            mode: if self.observes { Mode::Observe } else { Mode::Enforce },
            switchable: self.observes,
            expiry_grace: Duration::from_secs(60),
            ..GateConfig::new(SERVER_URI, map)
        };
        let identity = Arc::new(ArcSwap::new(SERVER.clone()));
        let mut channel = ChannelConfig::new(identity, trust(&[&CLIENT, &OTHER]), self.endpoints.clone());
        channel.limits.max_outgoing = self.limits.max_unsent;
        let config = ServerConfig {
            application_uri: SERVER_URI.into(),
            product_uri: "urn:test:product".into(),
            application_name: "test".into(),
            endpoint_urls: vec![URL.into()],
            channel: Arc::new(channel),
            endpoints: self.endpoints,
            identities: self.identities,
            limits: self.limits,
            audit: self.audit,
            write_ranges: Vec::new(),
        };
        let (mut space, ranged) = space();
        space.set_server_facts(crate::space::ServerFacts::default());
        let config = ServerConfig { write_ranges: vec![(ranged, 0.0, 100.0)], ..config };
        World {
            server: Server::new(config, space, Gate::new(gate, now).unwrap(), Box::new(SystemEntropy::new())),
            now,
            peers: BTreeMap::new(),
            records: Vec::new(),
            invoked: VecDeque::new(),
            written: Vec::new(),
            asked: Vec::new(),
            held_audits: Vec::new(),
            held_jobs: VecDeque::new(),
            ledger: Some(Audited::Kept),
            hold_jobs: false,
            events: Vec::new(),
            calls: Vec::new(),
            next_conn: 0,
            next_handle: 100,
            entropy: SystemEntropy::new(),
        }
    }
}

fn space() -> (Space, NodeRef) {
    let mut space = Space::new(SpaceConfig { application_uri: SERVER_URI.into(), namespaces: Vec::new() }).unwrap();
    space.set_server_facts(crate::space::ServerFacts::default());
    let [reactor, mixer, vault] = [1, 2, 3].map(ScopeIndex);
    let objects = ns0::find_numeric(85).unwrap();
    let unit = space.add_folder(objects, Some(id("Unit")), "Unit", reactor).unwrap();
    let mut variable = |name: &str, value: Variant, access, scope| {
        space.add_variable(NewVariable::new(unit, Some(id(name)), name, value, scope).access(access)).unwrap()
    };
    let ranged = variable("Setpoint", Variant::from(20.0_f64), AccessLevel::READ_WRITE, reactor);
    variable("Pressure", Variant::from(1.5_f64), AccessLevel::READ, reactor);
    variable("Samples", Variant::from(vec![1_i32, 2, 3]), AccessLevel::READ_WRITE, reactor);
    variable("Note", Variant::from("note"), AccessLevel::READ_WRITE, reactor);
    variable("Speed", Variant::from(7_i32), AccessLevel::READ_WRITE, mixer);
    variable("Secret", Variant::from("recipe"), AccessLevel::READ_WRITE, vault);
    let input =
        Argument { name: "level".into(), data_type: NodeId::new(0, 11_u32), value_rank: -1, ..Argument::default() };
    let mut method = |name: &str, scope, inputs| {
        let ids = [Some(id(&format!("{name}.In"))), Some(id(&format!("{name}.Out")))];
        let method = NewMethod {
            id: Some(id(name)),
            argument_ids: ids,
            parent: unit,
            name,
            name_namespace: None,
            inputs,
            outputs: Vec::new(),
            scope,
        };
        space.add_method(method).unwrap();
    };
    method("Reset", reactor, vec![input]);
    method("Stir", mixer, Vec::new());
    method("Open", vault, Vec::new());
    (space, ranged)
}

impl World {
    pub(super) fn new() -> Self {
        Setup::default().start()
    }

    /// Opens a channel as the usual client.
    pub(super) fn connect(&mut self, security: EndpointSecurity) -> ConnId {
        self.connect_as(security, &CLIENT.clone())
    }

    pub(super) fn connect_as(&mut self, security: EndpointSecurity, own: &Arc<OwnIdentity>) -> ConnId {
        let conn = self.dial(security, own);
        self.run();
        conn
    }

    /// Starts a connection without letting anything move.
    pub(super) fn dial(&mut self, security: EndpointSecurity, own: &Arc<OwnIdentity>) -> ConnId {
        self.next_conn += 1;
        self.speak(ConnId(self.next_conn), security, own, false);
        ConnId(self.next_conn)
    }

    /// The client's end of a connection; `called` when the server has made it.
    pub(super) fn speak(
        &mut self,
        conn: ConnId,
        (policy, mode): EndpointSecurity,
        own: &Arc<OwnIdentity>,
        called: bool,
    ) {
        let mut config = ClientChannelConfig::unprotected(URL);
        let own = (policy != SecurityPolicyId::None).then(|| of(own, policy));
        if own.is_some() {
            config.policy = policy;
            config.mode = mode;
            config.identity = own.clone();
            config.server_certificate = Some(of(&SERVER, policy).certificate.clone());
            config.trust = Some(trust(&[&SERVER]));
        }
        let channel = ClientChannel::new(Arc::new(config), self.now).unwrap();
        if !called {
            self.server.handle_input(Input::Accepted { conn, peer: format!("10.0.0.{}", conn.0) }, self.now);
        }
        let security = (policy, mode);
        self.peers.insert(conn, Peer { channel, security, own, answers: BTreeMap::new(), closed: None, deaf: false });
    }

    pub(super) fn input(&mut self, input: Input<'_>) {
        self.server.handle_input(input, self.now);
        self.run();
    }

    /// Moves the clock, timer by timer.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now.after(time);
        while let Some(at) = self.server.poll_timeout().filter(|at| *at <= end.mono) {
            self.now = self.now.after(at.since(self.now.mono));
            self.server.handle_timeout(self.now);
            let next = self.server.poll_timeout();
            assert!(next.is_none_or(|next| next > self.now.mono), "a deadline in the past after a timeout");
            self.run();
        }
        self.now = self.now.after(end.mono.since(self.now.mono));
        self.server.handle_timeout(self.now);
        self.run();
    }

    /// Carries everything until nothing moves.
    pub(super) fn run(&mut self) {
        loop {
            let mut moved = self.outputs();
            for conn in self.peers.keys().copied().collect::<Vec<_>>() {
                moved |= self.client(conn);
            }
            if !moved {
                return;
            }
        }
    }

    fn outputs(&mut self) -> bool {
        let mut moved = false;
        while let Some(output) = self.server.poll_output() {
            moved = true;
            match output {
                Output::Send { conn } => self.deliver(conn),
                Output::Close { conn, rest } => {
                    if let Some(peer) = self.peers.get_mut(&conn) {
                        peer.channel.receive(&rest, self.now, &mut self.entropy);
                        self.client(conn);
                        if let Some(peer) = self.peers.get_mut(&conn) {
                            peer.closed.get_or_insert(StatusCode::Good);
                        }
                    }
                }
                Output::Job(job) if self.hold_jobs => self.held_jobs.push_back(job),
                Output::Job(job) => self.finish(job),
                Output::Invoke { id, invocation } => self.invoked.push_back((id, *invocation)),
                Output::Authenticate { id, name, password, .. } => {
                    let right = password.0.as_slice() == format!("{name}-password").as_bytes() && name != "mallory";
                    let result = if name == "hasty" {
                        Err(Refusal::new(Reason::TooBusy, "too many passwords are being checked"))
                    } else if right {
                        Ok(Identity::User { name })
                    } else {
                        Err(Refusal::new(Reason::UserCredentials, "unknown user or wrong password"))
                    };
                    self.server.handle_input(Input::Authenticated { id, result }, self.now);
                }
                Output::Audit { id, record } => {
                    self.records.push(record);
                    match (id, self.ledger) {
                        (Some(id), Some(result)) => self.server.handle_input(Input::Audited { id, result }, self.now),
                        (Some(id), None) => self.held_audits.push(id),
                        (None, _) => {}
                    }
                }
                Output::Written { node, value } => self.written.push((self.server.space().id(node), value)),
                Output::AskGrant { id, request, secret } => self.asked.push((id, *request, secret)),
                Output::Gate(event) => self.events.push(event),
                Output::CallClient { client, url } => self.calls.push((client, url)),
                Output::Rejected { .. } => {}
            }
        }
        moved
    }

    pub(super) fn finish(&mut self, job: Job) {
        let (id, outcome) = job.run();
        self.server.handle_input(Input::JobDone { id, outcome }, self.now);
    }

    /// The peer reads again.
    pub(super) fn hear(&mut self, conn: ConnId) {
        if let Some(peer) = self.peers.get_mut(&conn) {
            peer.deaf = false;
        }
        self.deliver(conn);
        self.run();
    }

    fn deliver(&mut self, conn: ConnId) {
        let Some(peer) = self.peers.get_mut(&conn) else { return };
        if peer.deaf {
            return;
        }
        let bytes = self.server.outgoing(conn).map(std::mem::take).unwrap_or_default();
        peer.channel.receive(&bytes, self.now, &mut self.entropy);
        self.server.handle_input(Input::Drained { conn, unsent: 0 }, self.now);
    }

    fn client(&mut self, conn: ConnId) -> bool {
        let Some(peer) = self.peers.get_mut(&conn) else { return false };
        let mut moved = false;
        while let Some(event) = peer.channel.poll_event() {
            moved = true;
            match event {
                ChannelEvent::Job(job) => {
                    let (id, outcome) = job.run();
                    peer.channel.job_done(id, outcome, self.now, &mut self.entropy);
                }
                ChannelEvent::Message { request_id, body } => {
                    assert!(peer.answers.insert(request_id, body).is_none(), "two answers to one request");
                }
                ChannelEvent::Closed { status } => peer.closed = Some(status),
                _ => {}
            }
        }
        if !self.server.wants_input(conn) {
            return moved;
        }
        let bytes = std::mem::take(peer.channel.outgoing());
        if !bytes.is_empty() && peer.closed.is_none() {
            moved = true;
            self.server.handle_input(Input::Bytes { conn, bytes: &bytes }, self.now);
        }
        moved
    }
}
