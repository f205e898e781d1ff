//! A guard between the clients and the server, and the wire between guard and server: cut, unplugged, looked at.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use access_model::{Now, Rights, ScopeIndex};
use opcua_types::{EndpointDescription, Identifier, MessageSecurityMode, NodeId, UserTokenPolicy};
use pep::{Gate, GateConfig, LocalGrant, LocalScopes, Who};
use ua_proto::channel::ChannelConfig;
use ua_proto::client::{ClientApplication, ClientSessionConfig, Credential, EndpointChoice};
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::guard::{
    Guard, GuardConfig, Input as Both, LinkId, ScopeEntry, ScopeRule, ScopeRules, Sharing, Upstream,
};
use ua_proto::server::{
    AuditConfig, ConnId, EndpointSecurity, Identities, Input, Output, Server, ServerConfig, ServerLimits,
};
use ua_proto::space::{ServerFacts, Space};

use super::setup::{SCOPES, URL, VARIABLES, method_id, plant, scope_map, variable_id};
use crate::Counting;
use crate::keys::{CLIENT_A, SERVER, SERVER_URI, trusting};

/// The guard, and its side of the plant.
pub struct Guarded {
    /// The guard.
    pub guard: Guard,
    /// Whether connections to the plant can be made.
    pub plugged: bool,
    /// Bodies of the unprotected messages that reached the plant's socket, in order, from their type on.
    pub reached: Vec<Vec<u8>>,
    /// What the plant sends is kept back here.
    pub held: Option<VecDeque<(LinkId, Vec<u8>)>>,
    /// Links by the plant's name for them.
    wires: BTreeMap<ConnId, LinkId>,
    last: u64,
    security: EndpointSecurity,
}

/// How a guard reaches its upstream server here.
#[must_use]
pub fn upstream_session((policy, mode): EndpointSecurity) -> ClientSessionConfig {
    let endpoint = EndpointDescription {
        security_mode: mode,
        server_certificate: SERVER.certificate.der().to_vec().into(),
        ..EndpointDescription::default()
    };
    let token = UserTokenPolicy { policy_id: "anonymous".into(), ..UserTokenPolicy::default() };
    let choice = EndpointChoice { endpoint, policy, token, token_security: SecurityPolicyId::None, issuer: None };
    let application = ClientApplication {
        uri: CLIENT_A.certificate.application_uri().unwrap_or_default().to_owned(),
        product_uri: "urn:testkit:product".into(),
        name: "guard".into(),
    };
    let mut config = ClientSessionConfig::new(URL, choice, application);
    if policy != SecurityPolicyId::None {
        config.identity = Some(CLIENT_A.clone());
        config.trust = Some(trusting(&[&SERVER]));
    }
    config
}

/// The plant's scopes as rules, node by node.
#[must_use]
pub fn scope_rules() -> ScopeRules {
    let numeric = |id: NodeId| match id.identifier {
        Identifier::Numeric(number) => number,
        _ => 0,
    };
    let mut entries = Vec::new();
    for (scope, name) in (1..).zip(SCOPES) {
        let mut add = |identifier| {
            let rule = ScopeRule::Node(identifier);
            entries.push(ScopeEntry { scope: ScopeIndex(scope), namespace: SERVER_URI.into(), rule });
        };
        add(Identifier::String(name.into()));
        (0..VARIABLES).for_each(|which| add(Identifier::Numeric(numeric(variable_id(scope, which)))));
        (0..3).for_each(|offset| add(Identifier::Numeric(numeric(method_id(scope)) + offset)));
    }
    ScopeRules { entries }
}

/// The plant as a server that lets everybody do everything.
pub(super) fn open_plant(security: EndpointSecurity, facts: ServerFacts, now: Now) -> Server {
    let endpoints = vec![security];
    let identity = Arc::new(arc_swap::ArcSwap::new(SERVER.clone()));
    let config = ServerConfig {
        application_uri: SERVER_URI.into(),
        product_uri: "urn:testkit:product".into(),
        application_name: "plant".into(),
        endpoint_urls: vec![URL.into()],
        channel: Arc::new(ChannelConfig::new(identity, trusting(&[&CLIENT_A]), endpoints.clone())),
        endpoints,
        identities: Identities { anonymous: true, ..Identities::default() },
        limits: ServerLimits::default(),
        audit: AuditConfig { acknowledge: false, ..AuditConfig::default() },
        write_ranges: Vec::new(),
    };
    let all = LocalGrant {
        who: Who::Anonymous,
        require_encryption: false,
        roles: Vec::new(),
        rights: vec![(Rights::ALL, LocalScopes::All)],
    };
    let gate = GateConfig { local: vec![all], ..GateConfig::new(SERVER_URI, scope_map()) };
    let gate = Gate::new(gate, now).expect("a gate of one local grant");
    let mut space: Space = plant();
    space.set_server_facts(facts);
    Server::new(config, space, gate, Box::new(Counting(11)))
}

impl Guarded {
    /// Puts a guard with this front in front of a plant with this security.
    pub(super) fn new(
        front: ServerConfig,
        gate: Gate,
        (security, pool): (EndpointSecurity, Sharing),
        now: Now,
    ) -> Self {
        let mut session = upstream_session(security);
        session.session_timeout = Duration::from_secs(20);
        let mut config = GuardConfig::new(session, Credential::Anonymous, scope_rules());
        config.pool = pool;
        let entropy: (Box<dyn token::Entropy + Send>, Box<dyn token::Entropy + Send>) =
            (Box::new(Counting(7)), Box::new(Counting(23)));
        let guard = Guard::new(front, config, gate, entropy, now).expect("the ApplicationUri names a namespace");
        Self { guard, plugged: true, reached: Vec::new(), held: None, wires: BTreeMap::new(), last: 0, security }
    }

    /// How the guard speaks with the plant.
    #[must_use]
    pub const fn security(&self) -> EndpointSecurity {
        self.security
    }

    /// Cuts every connection to the plant; what was under way is lost.
    pub(super) fn cut(&mut self, plant: &mut Server, now: Now) {
        if let Some(held) = &mut self.held {
            held.clear();
        }
        for (conn, link) in std::mem::take(&mut self.wires) {
            plant.handle_input(Input::Disconnected { conn }, now);
            self.guard.handle_input(Both::Up { link, event: Upstream::Lost }, now);
        }
    }

    pub(super) fn dial(&mut self, link: LinkId, plant: &mut Server, now: Now) {
        let event = if self.plugged {
            self.last += 1;
            let conn = ConnId(self.last);
            self.wires.insert(conn, link);
            plant.handle_input(Input::Accepted { conn, peer: "198.51.100.1:50000".into() }, now);
            Upstream::Connected
        } else {
            Upstream::Lost
        };
        self.guard.handle_input(Both::Up { link, event }, now);
    }

    pub(super) fn send(&mut self, link: LinkId, plant: &mut Server, now: Now) {
        let bytes = self.guard.upstream_outgoing(link).map(std::mem::take).unwrap_or_default();
        if self.security.1 == MessageSecurityMode::None {
            self.note(&bytes);
        }
        if let Some(conn) = self.conn(link) {
            plant.handle_input(Input::Bytes { conn, bytes: &bytes }, now);
        }
    }

    pub(super) fn close(&mut self, link: LinkId, plant: &mut Server, now: Now) {
        if let Some(conn) = self.conn(link) {
            self.wires.remove(&conn);
            plant.handle_input(Input::Disconnected { conn }, now);
        }
    }

    /// What the plant does on its side of the wire; what is not about the wire is given back.
    pub(super) fn carry(&mut self, output: Output, plant: &mut Server, now: Now) -> Option<Output> {
        match output {
            Output::Send { conn } => {
                let bytes = plant.outgoing(conn).map(std::mem::take).unwrap_or_default();
                plant.handle_input(Input::Drained { conn, unsent: 0 }, now);
                let link = *self.wires.get(&conn)?;
                match &mut self.held {
                    Some(held) => held.push_back((link, bytes)),
                    None => self.guard.handle_input(Both::Up { link, event: Upstream::Bytes(&bytes) }, now),
                }
                None
            }
            Output::Close { conn, rest } => {
                if let Some(link) = self.wires.remove(&conn) {
                    self.guard.handle_input(Both::Up { link, event: Upstream::Bytes(&rest) }, now);
                    self.guard.handle_input(Both::Up { link, event: Upstream::Lost }, now);
                }
                None
            }
            Output::Job(job) => {
                let (id, outcome) = job.run();
                plant.handle_input(Input::JobDone { id, outcome }, now);
                None
            }
            Output::Audit { .. } | Output::Gate(_) => None,
            other => Some(other),
        }
    }

    /// What was held back arrives.
    pub(super) fn release(&mut self, now: Now) {
        for (link, bytes) in self.held.take().into_iter().flatten() {
            self.guard.handle_input(Both::Up { link, event: Upstream::Bytes(&bytes) }, now);
        }
    }

    /// Takes what was kept back; what is sent from now on is kept back as well.
    pub fn take_held(&mut self) -> Vec<(LinkId, Vec<u8>)> {
        self.held.get_or_insert_default().drain(..).collect()
    }

    fn conn(&self, link: LinkId) -> Option<ConnId> {
        self.wires.iter().find(|(_, known)| **known == link).map(|(conn, _)| *conn)
    }

    /// Remembers the bodies of whole messages: header, channel, token, sequence and request come before them.
    fn note(&mut self, mut bytes: &[u8]) {
        while let Some((head, _)) = bytes.split_at_checked(8) {
            let size = head.last_chunk::<4>().map_or(0, |size| u32::from_le_bytes(*size) as usize);
            let Some((message, rest)) = bytes.split_at_checked(size.max(8)) else { return };
            if message.starts_with(b"MSGF") {
                self.reached.push(message.get(24..).unwrap_or_default().to_vec());
            }
            bytes = rest;
        }
    }
}
