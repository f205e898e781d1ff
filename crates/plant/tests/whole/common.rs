//! Certificates made once, and a server with a few nodes that each test sets up as it needs.

use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use access_model::{Refusal, Rights, ScopeIndex, ScopeMap};
use arc_swap::ArcSwap;
use client::{ClientApplication, ClientOptions, Login};
use gates::clock;
use gates::opcua::server::{ServerHandle, Shell, start};
use gates::opcua::wiring::{
    Application, AuditRequest, AuditSink, AuditUnavailable, Credentials, Local, wrong_credentials,
};
use gates::pki::make::{self, Made, self_signed};
use gates::pool::Pool;
use opcua_types::{ByteString, DataValue, MessageSecurityMode, NodeId, StatusCode, Variant};
use pep::{Gate, GateConfig, LocalGrant, LocalScopes, Who};
use store::Ledger;
use token::SystemEntropy;
use tokio::sync::mpsc;
use ua_proto::channel::{ChannelConfig, TransportLimits};
use ua_proto::crypto::{PrivateKey, SecurityPolicyId};
use ua_proto::pki::{Certificate, OwnIdentity, SharedTrust, TrustList};
use ua_proto::server::{Answer, AuditConfig, Identities, Input, Invocation, Server, ServerConfig, ServerLimits};
use ua_proto::space::{AccessLevel, NewMethod, NewVariable, ServerFacts, Space, SpaceConfig, ns0};

/// Long enough for a computer that many people share.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const SERVER: &str = "urn:test:server";
pub(crate) const CLIENT: &str = "urn:test:client";
pub(crate) const POLICY: SecurityPolicyId = SecurityPolicyId::Basic256Sha256;
/// Bytes of the value of `Big`.
pub(crate) const BIG: usize = 60_000;

/// An application with its certificate and key.
pub(crate) struct Party {
    pub(crate) made: Made,
    pub(crate) identity: Arc<OwnIdentity>,
}

impl Party {
    pub(crate) fn new(name: &str, uri: &str) -> Self {
        Self::of(self_signed(&make::Application::local(name, uri), clock::now().unix).unwrap())
    }

    pub(crate) fn of(made: Made) -> Self {
        let certificate = Certificate::from_der(&made.der).unwrap();
        let key = PrivateKey::from_der(&made.key_der).unwrap();
        Self { identity: Arc::new(OwnIdentity::new(certificate, key).unwrap()), made }
    }

    /// Writes certificate and key where a process of the server finds them.
    pub(crate) fn write(&self, folder: &Path, name: &str) {
        std::fs::write(folder.join(format!("{name}.der")), &self.made.der).unwrap();
        gates::pki::write_private(&folder.join(format!("{name}.pem")), self.made.key_pem.as_bytes()).unwrap();
    }
}

/// The server's certificate, made once.
pub(crate) fn server() -> &'static Party {
    static MADE: LazyLock<Party> = LazyLock::new(|| Party::new("server", SERVER));
    &MADE
}

/// The client's certificate, made once.
pub(crate) fn client() -> &'static Party {
    static MADE: LazyLock<Party> = LazyLock::new(|| Party::new("client", CLIENT));
    &MADE
}

pub(crate) fn trust(of: &[&Arc<OwnIdentity>]) -> SharedTrust {
    let trusted = of.iter().map(|identity| Arc::clone(&identity.certificate)).collect();
    Arc::new(ArcSwap::from_pointee(TrustList { trusted, ..TrustList::default() }))
}

pub(crate) fn id(name: &str) -> NodeId {
    NodeId::new(1, name)
}

/// Options of an honest client: encrypted, with name and password.
pub(crate) fn options(url: impl Into<String>) -> ClientOptions {
    let application = ClientApplication { uri: CLIENT.into(), product_uri: "urn:test".into(), name: "test".into() };
    let mut options = ClientOptions::new(url, application);
    options.identity = Some(Arc::clone(&client().identity));
    options.trust = Some(trust(&[&server().identity]));
    options.policies = vec![POLICY];
    options.login = Login::UserName { name: "operator".into(), password: zeroize::Zeroizing::new("secret".into()) };
    options.request_timeout = PATIENCE;
    options.session_timeout = PATIENCE * 10;
    options
}

/// What a server is started with.
pub(crate) struct Setup {
    pub(crate) identity: Arc<ArcSwap<OwnIdentity>>,
    pub(crate) trust: SharedTrust,
    pub(crate) transport: TransportLimits,
    pub(crate) limits: ServerLimits,
    pub(crate) audit: AuditSink,
}

impl Setup {
    /// A server that trusts the client and has the default bounds.
    pub(crate) fn new(audit: AuditSink) -> Self {
        Self {
            identity: Arc::new(ArcSwap::new(Arc::clone(&server().identity))),
            trust: trust(&[&client().identity]),
            transport: TransportLimits::default(),
            limits: ServerLimits { half_open_time: PATIENCE * 5, ..ServerLimits::default() },
            audit,
        }
    }

    /// Starts it on its own thread, with a ticking variable.
    pub(crate) fn start(self, listener: TcpListener) -> ServerHandle {
        let gate = Gate::new(gate(), clock::now()).unwrap();
        let address = listener.local_addr().unwrap();
        let endpoints =
            vec![(POLICY, MessageSecurityMode::SignAndEncrypt), (SecurityPolicyId::None, MessageSecurityMode::None)];
        let mut channel = ChannelConfig::new(self.identity, self.trust, endpoints.clone());
        channel.limits = self.transport;
        // Nobody is to be cut off because the computer stands still.
        (channel.hello_timeout, channel.open_timeout) = (PATIENCE * 5, PATIENCE * 5);
        let config = ServerConfig {
            application_uri: SERVER.into(),
            product_uri: "urn:test".into(),
            application_name: "test".into(),
            endpoint_urls: vec![format!("opc.tcp://{address}")],
            channel: Arc::new(channel),
            endpoints,
            identities: Identities { anonymous: true, user_name: true, ..Identities::default() },
            limits: self.limits,
            audit: AuditConfig::default(),
            write_ranges: Vec::new(),
        };
        let server = Server::new(config, space(), gate, Box::new(SystemEntropy::new()));
        let application = Box::new(|| Box::new(Behind) as Box<dyn Application>);
        let shell = Shell { pool: Pool::new(2, 64).unwrap(), audit: self.audit, application };
        let handle = start(listener, server, shell).unwrap();
        tokio::spawn(tick(handle.clone()));
        handle
    }
}

fn gate() -> GateConfig {
    let mut gate = GateConfig::new(SERVER, ScopeMap::new(["all"]).unwrap());
    let grant = |who, rights| LocalGrant {
        who,
        require_encryption: false,
        roles: Vec::new(),
        rights: vec![(rights, LocalScopes::All)],
    };
    gate.local = vec![grant(Who::Anonymous, Rights::BROWSE | Rights::READ), grant(Who::Authenticated, Rights::ALL)];
    gate
}

fn space() -> Space {
    let mut space = Space::new(SpaceConfig { application_uri: SERVER.into(), namespaces: Vec::new() }).unwrap();
    let scope = ScopeIndex(1);
    let line = space.add_object(ns0::OBJECTS, Some(id("Line")), "Line", ns0::BASE_OBJECT_TYPE, scope).unwrap();
    let level = NewVariable::new(line, Some(id("Level")), "Level", 1.0_f64.into(), scope);
    space.add_variable(level.access(AccessLevel::READ_WRITE)).unwrap();
    space.add_variable(NewVariable::new(line, Some(id("Ticks")), "Ticks", 0_u32.into(), scope)).unwrap();
    let big = Variant::ByteString(ByteString::from(vec![7_u8; BIG]));
    space.add_variable(NewVariable::new(line, Some(id("Big")), "Big", big, scope)).unwrap();
    space.add_method(NewMethod::new(line, Some(id("Do")), "Do", scope)).unwrap();
    space.set_server_facts(ServerFacts { started: clock::now().unix, ..ServerFacts::default() });
    space
}

async fn tick(handle: ServerHandle) {
    for tick in 1_u32.. {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let set = move |server: &mut Server, now| {
            let node = server.space().find(&id("Ticks")).unwrap();
            server.handle_input(Input::SetValue { node, value: DataValue::value_only(tick) }, now);
        };
        if handle.with(set).await.is_err() {
            return;
        }
    }
}

struct Behind;

impl Application for Behind {
    fn invoke(&self, _: Invocation) -> Local<Answer> {
        Box::pin(async { Answer { status: StatusCode::Good, input_results: Vec::new(), outputs: Vec::new() } })
    }

    fn authenticate(&self, credentials: Credentials) -> Local<Result<(), Refusal>> {
        let right = credentials.name == "operator" && *credentials.password == *b"secret";
        Box::pin(async move { right.then_some(()).ok_or_else(wrong_credentials) })
    }
}

/// A ledger that keeps everything and remembers nothing.
pub(crate) fn forgetful() -> AuditSink {
    let (sink, mut records) = mpsc::channel::<AuditRequest>(8_192);
    tokio::spawn(async move {
        while let Some(request) = records.recv().await {
            if let Some(ack) = request.ack {
                let _gone = ack.send(Ok(()));
            }
        }
    });
    sink
}

/// The way to a real ledger, as the product has it.
pub(crate) fn sink(ledger: Ledger) -> AuditSink {
    let (sink, mut records) = mpsc::channel::<AuditRequest>(8_192);
    tokio::spawn(async move {
        while let Some(AuditRequest { record, ack }) = records.recv().await {
            let Some(ack) = ack else {
                let _unavailable = ledger.note(&record);
                continue;
            };
            let kept = ledger.append(&record);
            tokio::spawn(async move { ack.send(kept.await.map(drop).map_err(|_| AuditUnavailable)) });
        }
    });
    sink
}

pub(crate) fn listen() -> TcpListener {
    testkit::ports::listen()
}

/// Waits until `holds`.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "in vain waited for: {what}");
}
