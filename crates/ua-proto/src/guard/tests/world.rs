//! Clients, the guard, the server behind it, and the bytes between them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use access_model::{AuditRecord, Epoch, Mode, Mono, Now, Rights, ScopeIndex, ScopeMap, UnixTime};
use arc_swap::ArcSwap;
use opcua_types::*;
use pep::{Contact, FailMode, Gate, GateConfig, LocalGrant, LocalScopes, Who};
use token::control::{Update, seal};
use token::{Algorithm, Claims, RightsClaim, Signer, SystemEntropy, map_digest};

use crate::channel::ChannelConfig;
use crate::client::{
    CallId, ClientApplication, ClientEvent, ClientSession, ClientSessionConfig, Credential, EndpointChoice, RawRequest,
    Request, Response,
};
use crate::crypto::{PrivateKey, SecurityPolicyId};
use crate::guard::desk::encoded;
use crate::guard::*;
use crate::pki::{Certificate, OwnIdentity, SharedTrust, TrustList};
use crate::server::front::{Handed, Service};
use crate::server::{
    Answer, AuditConfig, AuditId, Audited, ConnId, Identities, Invocation, InvokeId, IssuedTokens, IssuerEndpoint,
    ServerLimits, TokenForm,
};
use crate::space::{AccessLevel, NewMethod, NewVariable, ns0};
use crate::testing::{application, key};

pub(super) const PLANT: &str = "urn:test:plant";
pub(super) const GUARD: &str = "urn:test:guard";
const URL: &str = "opc.tcp://plant.example:4840";
pub(super) const SCOPES: [&str; 3] = ["reactor", "mixer", "vault"];
type Security = (SecurityPolicyId, MessageSecurityMode);
const BARE: Security = (SecurityPolicyId::None, MessageSecurityMode::None);
pub(super) const SIGN: Security = (SecurityPolicyId::Basic256Sha256, MessageSecurityMode::Sign);
pub(super) const ENCRYPT: Security = (SecurityPolicyId::Basic256Sha256, MessageSecurityMode::SignAndEncrypt);

static OWN: LazyLock<Arc<OwnIdentity>> = LazyLock::new(|| identity("guard", 1));
static CLIENT: LazyLock<Arc<OwnIdentity>> = LazyLock::new(|| identity("client", 2));
/// Two that give names to people.
pub(super) const ISSUERS: [&str; 2] = ["authority", "neighbour"];
static SIGNERS: LazyLock<[Signer; 2]> = LazyLock::new(|| ISSUERS.map(|_| Signer::generate(Algorithm::Es256).unwrap()));

fn identity(name: &str, slot: u8) -> Arc<OwnIdentity> {
    let key = key(2048, slot);
    let mut params = application(name);
    params.key_usages.push(rcgen::KeyUsagePurpose::KeyCertSign);
    let certificate = Certificate::from_der(params.self_signed(&*key).unwrap().der()).unwrap();
    Arc::new(OwnIdentity::new(certificate, PrivateKey::from_der(&key.serialize_der()).unwrap()).unwrap())
}

fn trust(trusted: &[&Arc<OwnIdentity>]) -> SharedTrust {
    let trusted = trusted.iter().map(|identity| Arc::clone(&identity.certificate)).collect();
    Arc::new(ArcSwap::from_pointee(TrustList { trusted, ..TrustList::default() }))
}

pub(super) fn id(name: &str) -> NodeId {
    NodeId::new(1, name)
}

/// The plant: what a resource server would have, with the scope of each node, or without scopes as a plain server.
pub(super) fn space(scoped: bool) -> Space {
    let mut space = Space::new(SpaceConfig { application_uri: PLANT.into(), namespaces: Vec::new() }).unwrap();
    let [reactor, mixer, vault] = [1, 2, 3].map(|scope| ScopeIndex(if scoped { scope } else { 1 }));
    let objects = ns0::find_numeric(85).unwrap();
    let unit = space.add_folder(objects, Some(id("Unit")), "Unit", reactor).unwrap();
    let mut variable = |name: &str, value: Variant, access, scope| {
        space.add_variable(NewVariable::new(unit, Some(id(name)), name, value, scope).access(access)).unwrap();
    };
    variable("Setpoint", Variant::from(20.0_f64), AccessLevel::READ_WRITE, reactor);
    variable("Pressure", Variant::from(1.5_f64), AccessLevel::READ, reactor);
    variable("Samples", Variant::from(vec![1_i32, 2, 3]), AccessLevel::READ_WRITE, reactor);
    variable("Note", Variant::from("note"), AccessLevel::READ_WRITE, reactor);
    variable("Speed", Variant::from(7_i32), AccessLevel::READ_WRITE, mixer);
    variable("Secret", Variant::from("recipe"), AccessLevel::READ_WRITE, vault);
    let vault_folder = space.add_folder(unit, Some(id("Vault")), "Vault", vault).unwrap();
    let inner = NewVariable::new(vault_folder, Some(id("Inner")), "Inner", Variant::from(1_i32), reactor);
    space.add_variable(inner).unwrap();
    for (name, scope) in [("Reset", reactor), ("Stir", mixer), ("Open", vault)] {
        let ids = [Some(id(&format!("{name}.In"))), Some(id(&format!("{name}.Out")))];
        space
            .add_method(NewMethod {
                id: Some(id(name)),
                argument_ids: ids,
                parent: unit,
                name,
                name_namespace: None,
                inputs: vec![Argument {
                    name: "level".into(),
                    data_type: NodeId::new(0, 11_u32),
                    value_rank: -1,
                    ..Argument::default()
                }],
                outputs: Vec::new(),
                scope,
            })
            .unwrap();
    }
    space.set_server_facts(ServerFacts::default());
    space
}

/// The same scopes as rules.
pub(super) fn rules() -> ScopeRules {
    let entry = |scope, rule| ScopeEntry { scope: ScopeIndex(scope), namespace: PLANT.into(), rule };
    let node = |scope, name: &str| entry(scope, ScopeRule::Node(Identifier::String(name.into())));
    ScopeRules {
        entries: vec![
            entry(1, ScopeRule::Subtree(Identifier::String("Unit".into()))),
            node(2, "Speed"),
            entry(2, ScopeRule::Prefix("Stir".into())),
            node(2, "Stir"),
            node(2, "Stir.In"),
            node(2, "Stir.Out"),
            node(3, "Secret"),
            node(3, "Vault"),
            node(3, "Open"),
            node(3, "Open.In"),
            node(3, "Open.Out"),
        ],
    }
}

/// Everything on the reactor, see the mixer, not know of the vault.
pub(super) fn usual() -> Vec<(Rights, &'static str)> {
    let all = Rights::BROWSE | Rights::READ | Rights::WRITE | Rights::CALL;
    vec![(all, "reactor"), (Rights::BROWSE, "mixer")]
}

fn gate(audience: &str, anonymous: Vec<(Rights, LocalScopes)>, now: Now) -> Gate {
    gate_in(Mode::Enforce, None, audience, anonymous, now)
}

fn gate_in(
    mode: Mode,
    contact: Option<Contact>,
    audience: &str,
    anonymous: Vec<(Rights, LocalScopes)>,
    now: Now,
) -> Gate {
    let mut gate = GateConfig::new(audience, ScopeMap::new(SCOPES).unwrap());
    let issuer = |(name, signer): (&str, &Signer)| token::Issuer {
        name: name.into(),
        keys: vec![signer.public()],
        require_confirmation: true,
    };
    gate.issuers = ISSUERS.into_iter().zip(&*SIGNERS).map(issuer).collect();
    gate.local =
        vec![LocalGrant { who: Who::Anonymous, require_encryption: false, roles: Vec::new(), rights: anonymous }];
    gate.expiry_grace = Duration::from_secs(60);
    (gate.mode, gate.switchable, gate.contact) = (mode, true, contact);
    Gate::new(gate, now).unwrap()
}

fn named(rights: Vec<(Rights, &str)>) -> Vec<(Rights, LocalScopes)> {
    rights.into_iter().map(|(held, scope)| (held, LocalScopes::Named(vec![scope.to_owned()]))).collect()
}

pub(super) fn server_config(uri: &str, audit: AuditConfig) -> ServerConfig {
    let endpoints = vec![ENCRYPT, SIGN, BARE];
    let issuer = IssuerEndpoint {
        resource_id: uri.into(),
        authority_url: "https://authority".into(),
        profile_uri: IssuerEndpoint::PROFILE_OAUTH2.into(),
        token_endpoint: None,
        authorization_endpoint: None,
        request_types: Vec::new(),
        scopes: Vec::new(),
    };
    ServerConfig {
        application_uri: uri.into(),
        product_uri: "urn:test".into(),
        application_name: "test".into(),
        endpoint_urls: vec![URL.into()],
        channel: Arc::new(ChannelConfig::new(
            Arc::new(ArcSwap::new(OWN.clone())),
            trust(&[&CLIENT]),
            endpoints.clone(),
        )),
        endpoints,
        identities: Identities {
            anonymous: true,
            issued: Some(IssuedTokens { issuer, forms: vec![TokenForm::Clear] }),
            ..Identities::default()
        },
        limits: ServerLimits::default(),
        audit,
        write_ranges: Vec::new(),
    }
}

/// A resource server over the same plant, with the same rights: what the guard is measured by.
pub(super) fn resource_server(now: Now) -> Server {
    let config = server_config(PLANT, AuditConfig::default());
    Server::new(config, space(true), gate(PLANT, named(usual()), now), Box::new(SystemEntropy::new()))
}

fn plain_server(now: Now) -> Server {
    bounded_server(ServerLimits { max_sessions: 20, ..ServerLimits::default() }, now)
}

fn bounded_server(limits: ServerLimits, now: Now) -> Server {
    let config =
        ServerConfig { limits, ..server_config(PLANT, AuditConfig { acknowledge: false, ..Default::default() }) };
    let all = vec![(Rights::ALL, LocalScopes::All)];
    Server::new(config, space(false), gate(PLANT, all, now), Box::new(SystemEntropy::new())).handing_on(scripted)
}

pub(super) fn choice((policy, mode): Security, token: UserTokenPolicy) -> EndpointChoice {
    let endpoint = EndpointDescription {
        security_mode: mode,
        server_certificate: ByteString::from(OWN.certificate.der().to_vec()),
        ..EndpointDescription::default()
    };
    EndpointChoice { endpoint, policy, token, token_security: SecurityPolicyId::None, issuer: None }
}

pub(super) fn session_config(security: Security, token: &str) -> ClientSessionConfig {
    let token = UserTokenPolicy { policy_id: token.into(), ..UserTokenPolicy::default() };
    let application =
        ClientApplication { uri: "urn:test:client".into(), product_uri: "urn:test".into(), name: "test".into() };
    let mut config = ClientSessionConfig::new(URL, choice(security, token), application);
    if security.0 != SecurityPolicyId::None {
        config.identity = Some(CLIENT.clone());
        config.trust = Some(trust(&[&OWN]));
    }
    config.request_timeout = Duration::from_secs(100);
    config.keep_alive = Duration::from_secs(3_000);
    config.session_timeout = Duration::from_secs(10_000);
    config
}

/// From the body of a request to that of its answer, from the type id on.
pub(super) type Script = Box<dyn FnMut(Service, &[u8], u32) -> Result<Vec<u8>, StatusCode>>;

/// What the plant leaves to a script.
fn scripted(service: Service) -> bool {
    use Service as S;
    let unknown = [S::SetTriggering, S::TransferSubscriptions, S::HistoryRead, S::HistoryUpdate];
    let nodes = [S::AddNodes, S::AddReferences, S::DeleteNodes, S::DeleteReferences];
    unknown.contains(&service) || nodes.contains(&service)
}

/// A client with its session and what it was told.
pub(super) struct Peer {
    pub(super) session: ClientSession,
    pub(super) answers: BTreeMap<CallId, Result<Response, StatusCode>>,
    pub(super) events: Vec<String>,
}

pub(super) struct World {
    pub(super) guard: Guard,
    pub(super) plant: Server,
    pub(super) now: Now,
    pub(super) peers: BTreeMap<ConnId, Peer>,
    pub(super) records: Vec<AuditRecord>,
    /// Whether the ledger acknowledges; what it has not is kept.
    pub(super) ledger: Option<Audited>,
    pub(super) unacknowledged: Vec<AuditId>,
    /// Bodies of the messages that reached the plant, in order.
    pub(super) reached: Vec<Vec<u8>>,
    /// Links by the plant's name for them.
    pub(super) wires: BTreeMap<ConnId, LinkId>,
    /// The plant cannot be dialled.
    pub(super) unplugged: bool,
    /// What the plant sends is kept back.
    pub(super) hold: bool,
    pub(super) held: VecDeque<(LinkId, Vec<u8>)>,
    /// Answers the requests that the plant does not serve itself.
    pub(super) script: Option<Script>,
    pub(super) invoked: VecDeque<(InvokeId, Invocation)>,
    /// How often the guard asked for a connection.
    pub(super) dials: u32,
    conns: u64,
    entropy: SystemEntropy,
}

pub(super) fn start() -> Now {
    Now { mono: Mono::from_nanos(1_000_000_000), unix: UnixTime::from_seconds(1_780_315_200) }
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(super) fn with(change: impl FnOnce(&mut GuardConfig)) -> Self {
        Self::made(change, AuditConfig::default())
    }

    pub(super) fn made(change: impl FnOnce(&mut GuardConfig), audit: AuditConfig) -> Self {
        Self::made_in(Mode::Enforce, change, audit)
    }

    pub(super) fn made_in(mode: Mode, change: impl FnOnce(&mut GuardConfig), audit: AuditConfig) -> Self {
        Self::fronted((mode, None), change, server_config(GUARD, audit))
    }

    /// A guard with these bounds towards its clients.
    pub(super) fn bounded(limits: ServerLimits) -> Self {
        Self::bounded_with(limits, |_| {})
    }

    pub(super) fn bounded_with(limits: ServerLimits, change: impl FnOnce(&mut GuardConfig)) -> Self {
        let server = ServerConfig { limits, ..server_config(GUARD, AuditConfig::default()) };
        Self::fronted((Mode::Enforce, None), change, server)
    }

    /// A guard that listens to an authority, which has ordered this mode.
    pub(super) fn listening(mode: Mode, change: impl FnOnce(&mut GuardConfig)) -> Self {
        let timeout = Duration::from_secs(100_000);
        let contact = Contact { issuer: ISSUERS[0].into(), timeout, fail_mode: FailMode::Closed };
        let server = server_config(GUARD, AuditConfig::default());
        let mut world = Self::fronted((mode, Some(contact)), change, server);
        world.update(1, |update| update.mode = Some(mode));
        world
    }

    /// The authority says something: at first everything, then what is new.
    pub(super) fn update(&mut self, epoch: u64, change: impl FnOnce(&mut Update)) {
        let mut update = Update {
            issuer: ISSUERS[0].into(),
            audience: GUARD.into(),
            epoch: Epoch(epoch),
            previous: (epoch > 1).then(|| Epoch(epoch - 1)),
            issued_at: self.now.unix,
            revoked: Vec::new(),
            replaced: Vec::new(),
            approved: Vec::new(),
            mode: None,
        };
        change(&mut update);
        let sealed = seal(&update, &SIGNERS[0]).unwrap();
        self.guard.handle_input(Input::Down(server::Input::ControlUpdate(&sealed)), self.now);
        self.run();
    }

    fn fronted(
        (mode, contact): (Mode, Option<Contact>),
        change: impl FnOnce(&mut GuardConfig),
        server: ServerConfig,
    ) -> Self {
        let now = start();
        let mut upstream = session_config(BARE, "anonymous");
        upstream.keep_alive = Duration::from_secs(5);
        upstream.request_timeout = Duration::from_secs(10);
        let mut config = GuardConfig::new(upstream, Credential::Anonymous, rules());
        change(&mut config);
        let entropy: (Box<dyn Entropy + Send>, Box<dyn Entropy + Send>) =
            (Box::new(SystemEntropy::new()), Box::new(SystemEntropy::new()));
        let guard =
            Guard::new(server, config, gate_in(mode, contact, GUARD, named(usual()), now), entropy, now).unwrap();
        let mut world = Self {
            guard,
            plant: plain_server(now),
            now,
            peers: BTreeMap::new(),
            records: Vec::new(),
            ledger: Some(Audited::Kept),
            unacknowledged: Vec::new(),
            reached: Vec::new(),
            wires: BTreeMap::new(),
            unplugged: false,
            hold: false,
            held: VecDeque::new(),
            script: None,
            invoked: VecDeque::new(),
            dials: 0,
            conns: 0,
            entropy: SystemEntropy::new(),
        };
        world.run();
        world
    }

    /// The plant starts anew with this space.
    pub(super) fn restart_plant(&mut self, space: Space) {
        let mut plant = plain_server(self.now);
        *plant.space_mut() = space;
        self.replace_plant(plant);
    }

    /// The plant has other bounds.
    pub(super) fn bound_plant(&mut self, limits: ServerLimits) {
        self.replace_plant(bounded_server(limits, self.now));
    }

    /// The plant leaves writes to the script too.
    pub(super) fn script_writes(&mut self) {
        let config = server_config(PLANT, AuditConfig { acknowledge: false, ..Default::default() });
        let all = vec![(Rights::ALL, LocalScopes::All)];
        let plant = Server::new(config, space(false), gate(PLANT, all, self.now), Box::new(SystemEntropy::new()));
        self.replace_plant(plant.handing_on(|service| service == Service::Write || scripted(service)));
    }

    fn replace_plant(&mut self, plant: Server) {
        self.plant = plant;
        for (_, link) in std::mem::take(&mut self.wires) {
            self.guard.handle_input(Input::Up { link, event: Upstream::Lost }, self.now);
        }
        self.run();
    }

    /// Cuts every connection between guard and plant; what was under way is lost.
    pub(super) fn cut_upstream(&mut self) {
        self.held.clear();
        for (conn, link) in std::mem::take(&mut self.wires) {
            self.plant.handle_input(server::Input::Disconnected { conn }, self.now);
            self.guard.handle_input(Input::Up { link, event: Upstream::Lost }, self.now);
        }
        self.run();
    }

    /// An anonymous client.
    pub(super) fn client(&mut self) -> ConnId {
        self.client_with(session_config(BARE, "anonymous"), Credential::Anonymous)
    }

    /// A client with a token of these rights.
    pub(super) fn client_by_token(&mut self, rights: Vec<(Rights, u32)>, life: Duration) -> ConnId {
        let token = self.token("alice", rights, life);
        self.client_with(session_config(ENCRYPT, "jwt_None"), token)
    }

    /// A client with a token of everything on the reactor and these roles.
    pub(super) fn client_by_roles(&mut self, roles: &[&str]) -> ConnId {
        let token = self.token_by_roles("alice", roles);
        self.client_with(session_config(ENCRYPT, "jwt_None"), token)
    }

    pub(super) fn token(&self, subject: &str, rights: Vec<(Rights, u32)>, life: Duration) -> Credential {
        self.token_of(subject, rights, life, Vec::new())
    }

    /// A token of everything on the reactor and these roles.
    pub(super) fn token_by_roles(&self, subject: &str, roles: &[&str]) -> Credential {
        let roles = roles.iter().map(|role| (*role).to_owned()).collect();
        self.token_of(subject, vec![(Rights::ALL, 1)], Duration::from_secs(600), roles)
    }

    /// The same of another issuer than the first.
    pub(super) fn token_by(&self, issuer: usize, subject: &str) -> Credential {
        self.token_made((issuer, subject), vec![(Rights::ALL, 1)], Duration::from_secs(600), Vec::new())
    }

    fn token_of(&self, subject: &str, rights: Vec<(Rights, u32)>, life: Duration, roles: Vec<String>) -> Credential {
        self.token_made((0, subject), rights, life, roles)
    }

    fn token_made(
        &self,
        (issuer, subject): (usize, &str),
        rights: Vec<(Rights, u32)>,
        life: Duration,
        roles: Vec<String>,
    ) -> Credential {
        let map = ScopeMap::new(SCOPES).unwrap();
        let rights = rights.into_iter().map(|(held, scope)| (held, vec![scope]));
        let claims = Claims {
            issuer: ISSUERS[issuer].into(),
            subject: subject.into(),
            audience: GUARD.into(),
            expires: self.now.unix + life,
            not_before: self.now.unix,
            issued_at: self.now.unix,
            id: token::new_id(&mut SystemEntropy::new()),
            client: None,
            confirmation: Some(CLIENT.certificate.thumbprint()),
            roles,
            groups: Vec::new(),
            rights: Some(RightsClaim::new(map_digest(&map), rights)),
            epoch: Epoch(1),
            padding: 0,
        };
        Credential::Issued(token::mint(&claims, &SIGNERS[issuer]).unwrap().as_bytes().to_vec().into())
    }

    pub(super) fn client_with(&mut self, config: ClientSessionConfig, credential: Credential) -> ConnId {
        self.conns += 1;
        let conn = ConnId(self.conns);
        let accepted = server::Input::Accepted { conn, peer: format!("10.0.0.{}", conn.0) };
        self.guard.handle_input(Input::Down(accepted), self.now);
        let session = ClientSession::new(Arc::new(config), credential, self.now).unwrap();
        self.peers.insert(conn, Peer { session, answers: BTreeMap::new(), events: Vec::new() });
        self.run();
        conn
    }

    pub(super) fn send(&mut self, conn: ConnId, request: impl Into<Request>) -> CallId {
        let now = self.now;
        let id = self.peers.get_mut(&conn).unwrap().session.request(request.into(), None, now).expect("it is sent");
        self.run();
        id
    }

    /// The client comes back over another connection, as this.
    pub(super) fn moved(&mut self, conn: ConnId, credential: Credential) -> ConnId {
        let now = self.now;
        let mut peer = self.peers.remove(&conn).unwrap();
        self.guard.handle_input(Input::Down(server::Input::Disconnected { conn }), now);
        peer.session.connection_lost();
        peer.session.reactivate(credential, now);
        peer.session.reconnect(now).unwrap();
        self.conns += 1;
        let conn = ConnId(self.conns);
        let accepted = server::Input::Accepted { conn, peer: format!("10.0.0.{}", conn.0) };
        self.guard.handle_input(Input::Down(accepted), now);
        self.peers.insert(conn, peer);
        self.run();
        conn
    }

    /// The session comes to another user, or goes on under a new token.
    pub(super) fn reactivate(&mut self, conn: ConnId, credential: Credential) {
        let now = self.now;
        self.peers.get_mut(&conn).unwrap().session.reactivate(credential, now);
        self.run();
    }

    /// Sends a request for which the client waits only so long.
    pub(super) fn send_for(&mut self, conn: ConnId, request: impl Into<Request>, time: Duration) -> CallId {
        let now = self.now;
        let session = &mut self.peers.get_mut(&conn).unwrap().session;
        let id = session.request(request.into(), Some(time), now).expect("it is sent");
        self.run();
        id
    }

    /// The client closes its session.
    pub(super) fn close(&mut self, conn: ConnId) {
        let now = self.now;
        self.peers.get_mut(&conn).unwrap().session.close(now, &mut self.entropy);
        self.run();
    }

    pub(super) fn answer(&mut self, conn: ConnId, call: CallId) -> Option<Result<Response, StatusCode>> {
        self.peers.get_mut(&conn).unwrap().answers.remove(&call)
    }

    pub(super) fn ask<R: TryFrom<Response, Error = StatusCode>>(
        &mut self,
        conn: ConnId,
        request: impl Into<Request>,
    ) -> Result<R, StatusCode> {
        let call = self.send(conn, request);
        self.answer(conn, call).expect("an answer").and_then(R::try_from)
    }

    /// Sends a body as it is and gives back that of the answer.
    pub(super) fn raw(
        &mut self,
        conn: ConnId,
        ids: (ObjectId, ObjectId),
        body: Vec<u8>,
    ) -> Result<Vec<u8>, StatusCode> {
        let call = self.send(conn, Request::Raw(RawRequest::new(ids.0, ids.1, body)));
        match self.answer(conn, call).expect("an answer")? {
            Response::Raw(body) => Ok(body),
            other => panic!("{other:?}"),
        }
    }

    /// The requests of one kind that reached the plant since the last look, without their headers.
    pub(super) fn at_plant(&mut self, kind: ObjectId) -> Vec<Vec<u8>> {
        let ctx = ContextOwned::default();
        let read = |body: Vec<u8>| {
            let mut stream = body.as_slice();
            let id = NodeId::decode(&mut stream, &ctx.context()).unwrap();
            RequestHeader::decode(&mut stream, &ctx.context()).unwrap();
            (id == kind).then(|| stream.to_vec())
        };
        std::mem::take(&mut self.reached).into_iter().filter_map(read).collect()
    }

    /// Moves the clock, timer by timer.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now.after(time);
        loop {
            let peers = self.peers.values().filter_map(|peer| peer.session.poll_timeout());
            let next = peers.chain(self.guard.poll_timeout()).chain(self.plant.poll_timeout()).min();
            let Some(at) = next.filter(|at| *at <= end.mono) else { break };
            self.now = self.now.after(at.since(self.now.mono));
            self.tick();
        }
        self.now = self.now.after(end.mono.since(self.now.mono));
        self.tick();
    }

    fn tick(&mut self) {
        let now = self.now;
        self.guard.handle_timeout(now);
        let next = self.guard.poll_timeout();
        assert!(next.is_none_or(|next| next > now.mono), "a deadline in the past after a timeout");
        self.plant.handle_timeout(now);
        for peer in self.peers.values_mut() {
            peer.session.handle_timeout(now, &mut self.entropy);
        }
        self.run();
    }

    /// Carries everything until nothing moves.
    pub(super) fn run(&mut self) {
        loop {
            let mut moved = self.guard_outputs();
            moved |= self.plant_outputs();
            moved |= self.clients();
            if !moved {
                return;
            }
        }
    }

    /// What the plant had to say while it was held back.
    pub(super) fn release(&mut self) {
        self.hold = false;
        for (link, bytes) in std::mem::take(&mut self.held) {
            self.guard.handle_input(Input::Up { link, event: Upstream::Bytes(&bytes) }, self.now);
        }
        self.run();
    }

    fn guard_outputs(&mut self) -> bool {
        let mut moved = false;
        let now = self.now;
        while let Some(output) = self.guard.poll_output() {
            moved = true;
            match output {
                Output::Down(server::Output::Send { conn }) => {
                    let bytes = self.guard.outgoing(conn).map(std::mem::take).unwrap_or_default();
                    if let Some(peer) = self.peers.get_mut(&conn) {
                        peer.session.receive(&bytes, now, &mut self.entropy);
                    }
                    self.guard.handle_input(Input::Down(server::Input::Drained { conn, unsent: 0 }), now);
                }
                Output::Down(server::Output::Close { conn, rest }) => {
                    if let Some(peer) = self.peers.get_mut(&conn) {
                        peer.session.receive(&rest, now, &mut self.entropy);
                        peer.session.connection_lost();
                    }
                }
                Output::Down(server::Output::Job(job)) => {
                    let (id, outcome) = job.run();
                    self.guard.handle_input(Input::Down(server::Input::JobDone { id, outcome }), now);
                }
                Output::Down(server::Output::Audit { id, record }) => {
                    self.records.push(record);
                    match (id, self.ledger) {
                        (Some(id), Some(result)) => {
                            self.guard.handle_input(Input::Down(server::Input::Audited { id, result }), now);
                        }
                        (Some(id), None) => self.unacknowledged.push(id),
                        (None, _) => {}
                    }
                }
                Output::Down(_) => {}
                Output::Dial { link, .. } if self.unplugged => {
                    self.dials += 1;
                    self.guard.handle_input(Input::Up { link, event: Upstream::Lost }, now);
                }
                Output::Dial { link, .. } => {
                    self.dials += 1;
                    self.conns += 1;
                    let conn = ConnId(self.conns);
                    self.wires.insert(conn, link);
                    self.plant.handle_input(server::Input::Accepted { conn, peer: "guard".into() }, now);
                    self.guard.handle_input(Input::Up { link, event: Upstream::Connected }, now);
                }
                Output::UpstreamSend { link } => {
                    let bytes = self.guard.upstream_outgoing(link).map(std::mem::take).unwrap_or_default();
                    self.note(&bytes);
                    if let Some(conn) = self.plants_name(link) {
                        self.plant.handle_input(server::Input::Bytes { conn, bytes: &bytes }, now);
                    }
                }
                Output::UpstreamClose { link } => {
                    if let Some(conn) = self.plants_name(link) {
                        self.wires.remove(&conn);
                        self.plant.handle_input(server::Input::Disconnected { conn }, now);
                    }
                }
                Output::UpstreamJob { link, job } => {
                    let (id, outcome) = job.run();
                    self.guard.handle_input(Input::Up { link, event: Upstream::JobDone { id, outcome } }, now);
                }
            }
        }
        moved
    }

    fn plants_name(&self, link: LinkId) -> Option<ConnId> {
        self.wires.iter().find(|(_, known)| **known == link).map(|(conn, _)| *conn)
    }

    /// Remembers the bodies of unprotected messages.
    fn note(&mut self, mut bytes: &[u8]) {
        while bytes.len() >= 8 {
            let size = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
            if &bytes[..4] == b"MSGF" {
                self.reached.push(bytes[24..size].to_vec());
            }
            bytes = &bytes[size..];
        }
    }

    fn plant_outputs(&mut self) -> bool {
        let mut moved = false;
        let now = self.now;
        while let Some(handed) = self.plant.poll_handed() {
            let Handed::Request { taken, .. } = handed else { continue };
            let answer = match &mut self.script {
                Some(script) => script(taken.service, &taken.body, taken.ticket.handle),
                None => Err(StatusCode::BadServiceUnsupported),
            };
            self.plant.answer(taken.ticket, 0, answer, now);
            moved = true;
        }
        while let Some(output) = self.plant.poll_output() {
            moved = true;
            match output {
                server::Output::Send { conn } => {
                    let bytes = self.plant.outgoing(conn).map(std::mem::take).unwrap_or_default();
                    self.plant.handle_input(server::Input::Drained { conn, unsent: 0 }, now);
                    let Some(link) = self.wires.get(&conn).copied() else { continue };
                    if self.hold {
                        self.held.push_back((link, bytes));
                    } else {
                        self.guard.handle_input(Input::Up { link, event: Upstream::Bytes(&bytes) }, now);
                    }
                }
                server::Output::Close { conn, rest } => {
                    if let Some(link) = self.wires.remove(&conn) {
                        self.guard.handle_input(Input::Up { link, event: Upstream::Bytes(&rest) }, now);
                        self.guard.handle_input(Input::Up { link, event: Upstream::Lost }, now);
                    }
                }
                server::Output::Job(job) => {
                    let (id, outcome) = job.run();
                    self.plant.handle_input(server::Input::JobDone { id, outcome }, now);
                }
                server::Output::Invoke { id, invocation } => self.invoked.push_back((id, *invocation)),
                _ => {}
            }
        }
        moved
    }

    /// The plant's method comes back.
    pub(super) fn returned(&mut self, outputs: Vec<Variant>) -> Invocation {
        let (id, invocation) = self.invoked.pop_front().expect("a call");
        let answer = Answer { status: StatusCode::Good, input_results: Vec::new(), outputs };
        self.plant.handle_input(server::Input::Answer { id, answer }, self.now);
        self.run();
        invocation
    }

    fn clients(&mut self) -> bool {
        let mut moved = false;
        let now = self.now;
        for (conn, peer) in &mut self.peers {
            while let Some(event) = peer.session.poll_event() {
                moved = true;
                match event {
                    ClientEvent::Job(job) => {
                        let (id, outcome) = job.run();
                        peer.session.job_done(id, outcome, now, &mut self.entropy);
                    }
                    ClientEvent::Answer(id, answer) => {
                        assert!(peer.answers.insert(id, answer).is_none(), "two answers to one request");
                    }
                    other => peer.events.push(format!("{other:?}")),
                }
            }
            let bytes = peer.session.outgoing().map(std::mem::take).unwrap_or_default();
            if !bytes.is_empty() && self.guard.wants_input(*conn) {
                moved = true;
                self.guard.handle_input(Input::Down(server::Input::Bytes { conn: *conn, bytes: &bytes }), now);
            }
        }
        moved
    }
}

pub(super) fn value_of(node_id: NodeId) -> ReadValueId {
    ReadValueId { node_id, attribute_id: AttributeId::Value as u32, ..ReadValueId::default() }
}

pub(super) fn read(nodes: &[&str]) -> ReadRequest {
    ReadRequest {
        timestamps_to_return: TimestampsToReturn::Neither,
        nodes_to_read: Some(nodes.iter().map(|name| value_of(id(name))).collect()),
        ..ReadRequest::default()
    }
}

pub(super) fn write(items: Vec<(&str, Variant)>) -> WriteRequest {
    let item = |(name, value): (&str, Variant)| WriteValue {
        node_id: id(name),
        attribute_id: AttributeId::Value as u32,
        value: DataValue::value_only(value),
        ..WriteValue::default()
    };
    WriteRequest { nodes_to_write: Some(items.into_iter().map(item).collect()), ..WriteRequest::default() }
}

pub(super) fn call(object: &str, method: &str) -> CallRequest {
    let one = CallMethodRequest {
        object_id: id(object),
        method_id: id(method),
        input_arguments: Some(vec![Variant::from(1.0_f64)]),
    };
    CallRequest { methods_to_call: Some(vec![one]), ..CallRequest::default() }
}

/// What an encoded array holds.
pub(super) fn field<T: BinaryDecodable>(body: &[u8]) -> Vec<T> {
    Option::<Vec<T>>::decode(&mut &*body, &ContextOwned::default().context()).unwrap().unwrap_or_default()
}

/// The body of a request of the types crate, without its header.
pub(super) fn body_of<T: BinaryEncodable>(request: &T) -> Vec<u8> {
    let header = encoded(&RequestHeader::default());
    encoded(request).split_off(header.len())
}
