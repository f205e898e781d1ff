//! A small plant on the loopback: an authority and a resource server, both real, in this process.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use access_model::{Epoch, Refusal, Rights, ScopeIndex, ScopeMap, UnixTime};
use arc_swap::ArcSwap;
use client::{ClientApplication, ClientOptions, Login};
use gates::clock;
use gates::opcua::server::{ServerHandle, Shell, start};
use gates::opcua::wiring::{Application, AuditRequest, Credentials, Local, wrong_credentials};
use gates::pki::make::{self, Curve, self_signed, self_signed_on};
use gates::pool::Pool;
use opcua_types::{
    Argument, ByteString, DataValue, Guid, LocalizedText, MessageSecurityMode, NodeId, StatusCode, UAString, Variant,
};
use pep::{Contact, FailMode, Gate, GateConfig, LocalGrant, LocalScopes, Who};
use token::control::{Replacement, Revocation, Update};
use token::{Algorithm, Claims, Issuer, RightsClaim, Signer, SystemEntropy};
use tokio::sync::mpsc;
use ua_proto::channel::ChannelConfig;
use ua_proto::crypto::{PrivateKey, SecurityPolicyId};
use ua_proto::pki::{Certificate, OwnIdentity, SharedTrust, TrustList};
use ua_proto::server::{
    Answer, AuditConfig, Identities, Input, Invocation, IssuedTokens, IssuerEndpoint, Server, ServerConfig,
    ServerLimits, TokenForm,
};
use ua_proto::space::{
    AccessLevel, AuthorizationNodes, AuthorizationService, NewMethod, NewNode, NewVariable, NodeRef, ServerFacts,
    Space, SpaceConfig, date_time, gds, ns0,
};

pub(crate) const MIXER: &str = "urn:test:mixer";
pub(crate) const AUTHORITY: &str = "urn:test:authority";
pub(crate) const CLIENT: &str = "urn:test:client";
/// Long enough for a computer that many people share.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const POLICY: SecurityPolicyId = SecurityPolicyId::Basic256Sha256;

/// With a key as certificates of this policy have it.
fn identity(policy: SecurityPolicyId, name: &str, uri: &str) -> (Arc<OwnIdentity>, Vec<u8>) {
    let (application, now) = (make::Application::local(name, uri), clock::now().unix);
    let made = match policy {
        SecurityPolicyId::EccNistP256 => self_signed_on(Curve::P256, &application, now),
        SecurityPolicyId::EccCurve25519 => self_signed_on(Curve::Ed25519, &application, now),
        _ => self_signed(&application, now),
    };
    let made = made.unwrap();
    let certificate = Certificate::from_der(&made.der).unwrap();
    let own = OwnIdentity::new(certificate, PrivateKey::from_der(&made.key_der).unwrap()).unwrap();
    (Arc::new(own), made.key_der.to_vec())
}

pub(crate) fn trust(of: &[&Arc<OwnIdentity>]) -> SharedTrust {
    let trusted = of.iter().map(|identity| Arc::clone(&identity.certificate)).collect();
    Arc::new(ArcSwap::from_pointee(TrustList { trusted, ..TrustList::default() }))
}

/// What the tokens of the authority say; a test changes it while everything runs.
pub(crate) struct Policy {
    pub(crate) rights: Mutex<Rights>,
    /// Seconds.
    pub(crate) life: AtomicU64,
    pub(crate) issued: AtomicU32,
    /// Passwords that the authority was told.
    pub(crate) passwords: AtomicU32,
    pub(crate) refuse: Mutex<Option<StatusCode>>,
    pub(crate) audience: Mutex<String>,
    /// The id of the newest token.
    newest: Mutex<String>,
}

pub(crate) struct Plant {
    pub(crate) policy: Arc<Policy>,
    pub(crate) mixer: ServerHandle,
    pub(crate) authority: ServerHandle,
    addresses: (SocketAddr, SocketAddr),
    people: People,
    signer: Arc<Signer>,
}

#[derive(Clone)]
pub(crate) struct People {
    pub(crate) mixer: Arc<OwnIdentity>,
    pub(crate) authority: Arc<OwnIdentity>,
    pub(crate) client: Arc<OwnIdentity>,
    /// The client's key, PKCS#8.
    #[allow(dead_code, reason = "not every test file needs it")]
    pub(crate) client_key: Vec<u8>,
    /// The only one that they take.
    policy: SecurityPolicyId,
}

pub(crate) fn listen() -> TcpListener {
    testkit::ports::listen()
}

/// The thread of the server before may still hold the address for a moment.
#[allow(dead_code, reason = "not every test file needs it")]
async fn listen_again(at: SocketAddr) -> TcpListener {
    for _ in 0..2_400 {
        match TcpListener::bind(at) {
            Ok(listener) => return listener,
            Err(_) => tokio::time::sleep(Duration::from_millis(25)).await,
        }
    }
    panic!("the address {at} does not become free")
}

impl People {
    pub(crate) async fn new() -> Self {
        Self::of(POLICY).await
    }

    pub(crate) async fn of(policy: SecurityPolicyId) -> Self {
        let people = tokio::task::spawn_blocking(move || {
            let (client, client_key) = identity(policy, "client", CLIENT);
            Self {
                mixer: identity(policy, "mixer", MIXER).0,
                authority: identity(policy, "authority", AUTHORITY).0,
                client,
                client_key,
                policy,
            }
        });
        people.await.unwrap()
    }

    pub(crate) fn options(&self, mixer: SocketAddr, login: Login) -> ClientOptions {
        let application = ClientApplication { uri: CLIENT.into(), product_uri: "urn:test".into(), name: "test".into() };
        let mut options = ClientOptions::new(format!("opc.tcp://{mixer}"), application);
        options.identity = Some(Arc::clone(&self.client));
        options.trust = Some(trust(&[&self.mixer, &self.authority]));
        options.policies = vec![self.policy];
        options.login = login;
        options.request_timeout = PATIENCE;
        options
    }
}

impl Plant {
    pub(crate) async fn start(rights: Rights, life: u64) -> Self {
        let people = People::new().await;
        let policy = Arc::new(Policy {
            rights: Mutex::new(rights),
            life: AtomicU64::new(life),
            issued: AtomicU32::new(0),
            passwords: AtomicU32::new(0),
            refuse: Mutex::new(None),
            audience: Mutex::new(MIXER.into()),
            newest: Mutex::default(),
        });
        let signer = Arc::new(Signer::generate(Algorithm::Es256).unwrap());
        let authority = start_authority(&people, &policy, &signer, listen());
        let at = authority.address();
        let mixer = start_mixer(&people, ours(&signer), at, listen(), Hears::Everything);
        let addresses = (authority.address(), mixer.address());
        let plant = Self { policy, mixer, authority, addresses, people, signer };
        plant.tell(1, |_| {}).await;
        plant
    }

    /// SHA-256 of the authority's certificate.
    #[allow(dead_code, reason = "not every test file needs it")]
    pub(crate) fn authority_thumbprint(&self) -> access_model::Thumbprint {
        self.people.authority.certificate.thumbprint()
    }

    /// A token as the authority would issue it.
    #[allow(dead_code, reason = "not every test file needs it")]
    pub(crate) fn token(&self) -> String {
        let (policy, signer) = (&self.policy, &self.signer);
        mint(policy, signer, self.people.client.certificate.thumbprint()).0
    }

    #[allow(dead_code, reason = "not every test file needs it")]
    pub(crate) async fn restart_authority(&mut self) {
        self.authority.stop().await;
        let listener = listen_again(self.addresses.0).await;
        self.authority = start_authority(&self.people, &self.policy, &self.signer, listener);
    }

    #[allow(dead_code, reason = "not every test file needs it")]
    pub(crate) async fn restart_mixer(&mut self) {
        self.mixer.stop().await;
        let listener = listen_again(self.addresses.1).await;
        self.mixer = start_mixer(&self.people, ours(&self.signer), self.addresses.0, listener, Hears::Everything);
        self.tell(1, |_| {}).await;
    }

    pub(crate) fn options(&self, login: Login) -> ClientOptions {
        self.people.options(self.addresses.1, login)
    }

    /// Tells the mixer that the newest token is revoked, or narrowed to these rights. Epochs grow from call to call, from 2 on.
    #[allow(dead_code, reason = "not every test file needs it")]
    pub(crate) async fn take_away(&self, epoch: u64, left: Option<Rights>) {
        let (id, expires) =
            (self.policy.newest.lock().unwrap().clone(), clock::now().unix + Duration::from_secs(7_200));
        let change = move |update: &mut Update| match left {
            None => update.revoked.push(Revocation { id, expires }),
            Some(rights) => {
                let rights = RightsClaim::new(token::map_digest(&map()), [(rights, vec![1_u32])]);
                update.replaced.push(Replacement { id, rights, not_after: expires, expires });
            }
        };
        self.tell(epoch, change).await;
    }

    /// Sends the mixer the full list.
    async fn tell(&self, epoch: u64, change: impl FnOnce(&mut Update)) {
        let mut update = Update {
            issuer: AUTHORITY.into(),
            audience: MIXER.into(),
            epoch: Epoch(epoch),
            previous: None,
            issued_at: clock::now().unix,
            revoked: Vec::new(),
            replaced: Vec::new(),
            approved: Vec::new(),
            mode: None,
        };
        change(&mut update);
        let sealed = token::control::seal(&update, &self.signer).unwrap();
        self.mixer.with(move |server, now| server.handle_input(Input::ControlUpdate(&sealed), now)).await.unwrap();
    }

    #[allow(dead_code, reason = "not every test file needs it")]
    pub(crate) async fn set(&self, name: &str, value: Variant) {
        let id = id(name);
        let set = move |server: &mut Server, now| {
            let node = server.space().find(&id).unwrap();
            let value = DataValue { value: Some(value), ..DataValue::null() };
            server.handle_input(Input::SetValue { node, value }, now);
        };
        self.mixer.with(set).await.unwrap();
    }
}

pub(crate) fn id(name: &str) -> NodeId {
    NodeId::new(1, name)
}

fn ours(signer: &Signer) -> Issuer {
    Issuer { name: AUTHORITY.into(), keys: vec![signer.public()], require_confirmation: true }
}

/// What the authority tells the mixer.
pub(crate) enum Hears {
    /// Nothing after a token.
    #[allow(dead_code, reason = "not every test file needs it")]
    Nothing,
    /// Revocations and narrowings, by [`Plant::take_away`].
    Everything,
}

pub(crate) fn start_mixer(
    people: &People,
    issuer: Issuer,
    authority: SocketAddr,
    listener: TcpListener,
    hears: Hears,
) -> ServerHandle {
    let mut space = Space::new(SpaceConfig { application_uri: MIXER.into(), namespaces: Vec::new() }).unwrap();
    for (name, access) in [("Speed", AccessLevel::READ_WRITE), ("Level", AccessLevel::READ)] {
        let new = NewVariable::new(ns0::OBJECTS, Some(id(name)), name, 1.0_f64.into(), ScopeIndex(1));
        space.add_variable(new.access(access)).unwrap();
    }
    space.set_server_facts(ServerFacts { started: clock::now().unix, ..ServerFacts::default() });
    let mut gate = GateConfig::new(MIXER, map());
    if let Hears::Everything = hears {
        let (issuer, timeout) = (issuer.name.clone(), Duration::from_secs(3_600));
        gate.contact = Some(Contact { issuer, timeout, fail_mode: FailMode::Closed });
    }
    gate.issuers = vec![issuer];
    let issuer = IssuerEndpoint {
        resource_id: MIXER.into(),
        authority_url: format!("opc.tcp://{authority}"),
        profile_uri: IssuerEndpoint::PROFILE_OPCUA.into(),
        token_endpoint: None,
        authorization_endpoint: None,
        request_types: Vec::new(),
        scopes: Vec::new(),
    };
    let identities = Identities {
        issued: Some(IssuedTokens { issuer, forms: TokenForm::ALL.to_vec() }),
        user_name: true,
        ..Identities::default()
    };
    let config = config(people, &people.mixer, MIXER, listener.local_addr().unwrap(), identities);
    let gate = Gate::new(gate, clock::now()).unwrap();
    let server = Server::new(config, space, gate, Box::new(SystemEntropy::new()));
    start(listener, server, shell(|| Box::new(Nothing))).unwrap()
}

fn start_authority(people: &People, policy: &Arc<Policy>, signer: &Arc<Signer>, listener: TcpListener) -> ServerHandle {
    let service = AuthorizationService {
        name: "tokens",
        uri: AUTHORITY,
        certificate: ByteString::null(),
        policies: Vec::new(),
        request_access_token: true,
        scope: ScopeIndex(1),
    };
    let client = people.client.certificate.thumbprint();
    let (policy, signer) = (Arc::clone(policy), Arc::clone(signer));
    let behind = move |nodes| Box::new(Authority { nodes, policy, signer, client }) as Box<dyn Application>;
    start_service(people, &service, listener, behind)
}

/// An OPC UA server with an authorization service, and what answers its methods.
pub(crate) fn start_service(
    people: &People,
    service: &AuthorizationService<'_>,
    listener: TcpListener,
    behind: impl FnOnce(AuthorizationNodes) -> Box<dyn Application> + Send + 'static,
) -> ServerHandle {
    let mut space = Space::new(SpaceConfig { application_uri: AUTHORITY.into(), namespaces: Vec::new() }).unwrap();
    let nodes = gds::add(&mut space, service).unwrap();
    start_space(people, space, listener, move || behind(nodes))
}

/// An OPC UA server of the authority's with this space, open to all who encrypt.
pub(crate) fn start_space(
    people: &People,
    mut space: Space,
    listener: TcpListener,
    behind: impl FnOnce() -> Box<dyn Application> + Send + 'static,
) -> ServerHandle {
    space.set_server_facts(ServerFacts { started: clock::now().unix, ..ServerFacts::default() });
    let mut gate = GateConfig::new(AUTHORITY, map());
    gate.local = vec![LocalGrant {
        who: Who::Anonymous,
        require_encryption: true,
        roles: Vec::new(),
        rights: vec![(Rights::BROWSE | Rights::READ | Rights::CALL, LocalScopes::All)],
    }];
    gate.local.push(LocalGrant { who: Who::Authenticated, ..gate.local[0].clone() });
    let identities = Identities { anonymous: true, user_name: true, ..Identities::default() };
    let config = config(people, &people.authority, AUTHORITY, listener.local_addr().unwrap(), identities);
    let gate = Gate::new(gate, clock::now()).unwrap();
    let server = Server::new(config, space, gate, Box::new(SystemEntropy::new()));
    start(listener, server, shell(behind)).unwrap()
}

/// What an old authority has: the folder of services where the standard has it, one service in it, and its one method
/// (OPC 10000-12 v1.05 §9.6.5) if it has that. Given back are the service and its method.
#[allow(dead_code, reason = "not every test file needs it")]
pub(crate) fn old_service(method: bool) -> (Space, NodeRef, Option<NodeRef>) {
    let mut space = Space::new(SpaceConfig { application_uri: AUTHORITY.into(), namespaces: Vec::new() }).unwrap();
    let gds = space.add_namespace(gds::GDS_NAMESPACE).unwrap();
    let scope = ScopeIndex(1);
    let below = |space: &mut Space, parent, id, name| {
        let object = NewNode::object(parent, id, name, scope);
        space.add_node(NewNode { reference: ns0::ORGANIZES, ..object }).unwrap()
    };
    let folder = below(&mut space, ns0::OBJECTS, Some(NodeId::new(gds, 959_u32)), "AuthorizationServices");
    let service = below(&mut space, folder, None, "tokens");
    let method = method.then(|| {
        let method = NewMethod {
            name_namespace: Some(gds),
            inputs: vec![argument("IdentityToken", 316), argument("ResourceId", 12)],
            outputs: vec![argument("AccessToken", 12)],
            ..NewMethod::new(service, None, "RequestAccessToken", scope)
        };
        space.add_method(method).unwrap()
    });
    (space, service, method)
}

fn argument(name: &str, data_type: u32) -> Argument {
    Argument {
        name: name.into(),
        data_type: NodeId::new(0, data_type),
        value_rank: -1,
        array_dimensions: Some(Vec::new()),
        description: LocalizedText::null(),
    }
}

fn map() -> ScopeMap {
    ScopeMap::new(["all"]).unwrap()
}

fn config(
    people: &People,
    own: &Arc<OwnIdentity>,
    uri: &str,
    address: SocketAddr,
    identities: Identities,
) -> ServerConfig {
    let endpoints = vec![(people.policy, MessageSecurityMode::SignAndEncrypt)];
    let own = Arc::new(ArcSwap::new(Arc::clone(own)));
    ServerConfig {
        application_uri: uri.into(),
        product_uri: "urn:test".into(),
        application_name: uri.into(),
        endpoint_urls: vec![format!("opc.tcp://{address}")],
        channel: Arc::new(ChannelConfig::new(own, trust(&[&people.client]), endpoints.clone())),
        endpoints,
        identities,
        limits: ServerLimits::default(),
        audit: AuditConfig::default(),
        write_ranges: Vec::new(),
    }
}

pub(crate) fn shell(application: impl FnOnce() -> Box<dyn Application> + Send + 'static) -> Shell {
    let (audit, mut records) = mpsc::channel::<AuditRequest>(1_024);
    tokio::spawn(async move {
        while let Some(request) = records.recv().await {
            if let Some(ack) = request.ack {
                let _gone = ack.send(Ok(()));
            }
        }
    });
    Shell { pool: Pool::new(2, 64).unwrap(), audit, application: Box::new(application) }
}

struct Nothing;

impl Application for Nothing {
    fn invoke(&self, _: Invocation) -> Local<Answer> {
        Box::pin(async { failed(StatusCode::BadNotImplemented) })
    }

    fn authenticate(&self, credentials: Credentials) -> Local<Result<(), Refusal>> {
        let right = credentials.name == "operator" && *credentials.password == *b"secret";
        Box::pin(async move { right.then_some(()).ok_or_else(wrong_credentials) })
    }
}

struct Authority {
    nodes: AuthorizationNodes,
    policy: Arc<Policy>,
    signer: Arc<Signer>,
    client: access_model::Thumbprint,
}

impl Application for Authority {
    fn invoke(&self, call: Invocation) -> Local<Answer> {
        let answer = self.answer(call.method_node);
        Box::pin(async move { answer })
    }

    fn authenticate(&self, credentials: Credentials) -> Local<Result<(), Refusal>> {
        self.policy.passwords.fetch_add(1, Ordering::Relaxed);
        let right = credentials.name == "operator" && *credentials.password == *b"secret";
        Box::pin(async move { right.then_some(()).ok_or_else(wrong_credentials) })
    }
}

impl Authority {
    fn answer(&self, method: NodeRef) -> Answer {
        if let Some(status) = *self.policy.refuse.lock().unwrap() {
            return failed(status);
        }
        let outputs = if method == self.nodes.start_request_token {
            vec![Variant::ByteString(ByteString::null()), Variant::Guid(Box::new(Guid::from_bytes([7; 16])))]
        } else if method == self.nodes.finish_request_token {
            let (token, expires) = self.mint();
            let until = || Variant::DateTime(Box::new(date_time(expires)));
            vec![token, until(), Variant::String(UAString::null()), until()]
        } else if Some(method) == self.nodes.request_access_token {
            vec![self.mint().0]
        } else {
            return failed(StatusCode::BadMethodInvalid);
        };
        Answer { status: StatusCode::Good, input_results: Vec::new(), outputs }
    }

    fn mint(&self) -> (Variant, UnixTime) {
        let (token, expires) = mint(&self.policy, &self.signer, self.client);
        (Variant::String(token.into()), expires)
    }
}

/// What a token of the authority for the mixer says; its id is its own.
pub(crate) fn claims(now: UnixTime, life: Duration, client: access_model::Thumbprint, rights: Rights) -> Claims {
    Claims {
        issuer: AUTHORITY.into(),
        subject: "tester".into(),
        audience: MIXER.into(),
        expires: now + life,
        not_before: now,
        issued_at: now,
        id: token::new_id(&mut SystemEntropy::new()),
        client: Some(CLIENT.into()),
        confirmation: Some(client),
        roles: Vec::new(),
        groups: Vec::new(),
        rights: Some(RightsClaim::new(token::map_digest(&map()), [(rights, vec![1_u32])])),
        epoch: Epoch(1),
        padding: 0,
    }
}

fn mint(policy: &Policy, signer: &Signer, client: access_model::Thumbprint) -> (String, UnixTime) {
    let now = clock::now().unix;
    let rights = *policy.rights.lock().unwrap();
    let life = Duration::from_secs(policy.life.load(Ordering::Relaxed));
    let claims = Claims { audience: policy.audience.lock().unwrap().clone(), ..claims(now, life, client, rights) };
    policy.newest.lock().unwrap().clone_from(&claims.id);
    let expires = claims.expires;
    policy.issued.fetch_add(1, Ordering::Relaxed);
    (token::mint(&claims, signer).unwrap().as_str().to_owned(), expires)
}

fn failed(status: StatusCode) -> Answer {
    Answer { status, input_results: Vec::new(), outputs: Vec::new() }
}
