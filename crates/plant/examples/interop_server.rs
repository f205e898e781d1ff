//! A Trapkey resource server with the address space and command line that `interop/README.md` describes, so that the
//! client programs of other stacks run against it as they run against each other.
//!
//! ```text
//! interop_server --port PORT --cert CERT.der[,...] --key KEY.pem[,...] --trust CLIENT.der[,...] --user NAME:PASSWORD [--jwt FILE]
//!     [--call opc.tcp://127.0.0.1:PORT] [--discovery] [--history] [--ticks N]
//! ```
//!
//! It offers None, and in both modes each security policy for which it has a certificate; anonymous, user name, user certificates of the trusted
//! applications, and tokens that it issues to itself into FILE. Everybody receives its audit events. It ends when its standard input closes.

use std::error::Error;
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use access_model::{Epoch, Refusal, Rights, ScopeIndex, ScopeMap};
use arc_swap::ArcSwap;
use gates::clock;
use gates::opcua::server::Shell;
use gates::opcua::wiring::{Application, AuditRequest, Credentials, Local, wrong_credentials};
use gates::pki::{certificate, identity};
use gates::pool::Pool;
use opcua_types::{Argument, DataTypeId, DataValue, LocalizedText, MessageSecurityMode, NodeId, StatusCode, Variant};
use pep::{Gate, GateConfig, LocalGrant, LocalScopes, Who};
use token::{Algorithm, Claims, Issuer, RightsClaim, Signer};
use tokio::sync::mpsc;
use ua_proto::channel::ChannelConfig;
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::event::NewEvent;
use ua_proto::pki::{OwnIdentity, TrustList};
use ua_proto::server::{
    Answer, AuditConfig, Identities, Input, Invocation, IssuedTokens, IssuerEndpoint, Server, ServerConfig,
    ServerLimits, TokenForm,
};
use ua_proto::space::{AccessLevel, NewMethod, NewVariable, NodeRef, ServerFacts, Space, SpaceConfig, ns0};

const URI: &str = "urn:trapkey:interop:server";
const NAMESPACE: &str = "urn:trapkey:interop";
/// Whoever may receive its events receives the audit events; it has no nodes.
const AUDIT: &str = "audit";
/// How long nobody is hurried.
const PATIENCE: Duration = Duration::from_secs(120);

fn option(name: &str) -> Option<String> {
    let words: Vec<String> = std::env::args().collect();
    let at = words.iter().rposition(|word| word == name)?;
    words.get(at + 1).cloned()
}

fn needed(name: &str) -> Result<String, String> {
    option(name).ok_or_else(|| format!("{name} is missing"))
}

fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = needed("--port")?.parse()?;
    let own = identities(&needed("--cert")?, &needed("--key")?)?;
    let mut trust = TrustList::default();
    for path in needed("--trust")?.split(',') {
        trust.trusted.push(Arc::new(certificate(Path::new(path))?));
    }
    let (user, password) =
        needed("--user")?.split_once(':').map(|(u, p)| (u.to_owned(), p.to_owned())).ok_or("--user NAME:PASSWORD")?;
    let trust = Arc::new(ArcSwap::from_pointee(trust));
    let uri = own.certificate.application_uri().unwrap_or(URI).to_owned();
    let signer = Signer::generate(Algorithm::Es256)?;
    let (space, map, ticks) = space(&uri)?;
    if let Some(file) = option("--jwt") {
        write_token(Path::new(&file), &signer, &map, &uri)?;
    }
    let mut gate = GateConfig::new(&uri, map);
    gate.issuers = vec![Issuer { name: URI.into(), keys: vec![signer.public()], require_confirmation: false }];
    let grant = |who, rights| LocalGrant {
        who,
        require_encryption: false,
        roles: Vec::new(),
        rights: vec![(rights, LocalScopes::All)],
    };
    gate.local = vec![grant(Who::Anonymous, Rights::ALL), grant(Who::Authenticated, Rights::ALL)];
    let now = clock::now();
    let config = config(port, &uri, own, trust);
    let mut server = Server::new(config, space, Gate::new(gate, now)?, Box::new(token::SystemEntropy::default()));
    if std::env::args().any(|word| word == "--discovery") {
        server.serve_discovery();
    }
    // Every value has its source timestamp before the first client can come.
    server.handle_input(Input::SetValue { node: ticks, value: DataValue::value_only(0_u32) }, now);
    if std::env::args().any(|word| word == "--history") {
        keep_events(&mut server)?;
    }
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    let (audit, mut records) = mpsc::channel::<AuditRequest>(1_024);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let behind = Behind { user, password };
    let shell = Shell { pool: Pool::new(2, 2_048)?, audit, application: Box::new(move || Box::new(behind)) };
    let handle = gates::opcua::server::start(listener, server, shell)?;
    let first: u32 = option("--ticks").map_or(Ok(0), |number| number.parse())?;
    println!("{{\"step\": \"listening\", \"ok\": true}}");
    runtime.block_on(async move {
        if let Some(client) = option("--call") {
            let call = move |server: &mut Server, now| server.handle_input(Input::CallClients(vec![client]), now);
            let _stopped = handle.with(call).await;
        }
        tokio::spawn(async move {
            while let Some(request) = records.recv().await {
                eprintln!("{:?}", request.record);
                if let Some(ack) = request.ack {
                    let _gone = ack.send(Ok(()));
                }
            }
        });
        let (end, ended) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            end.send(())
        });
        let counting = async {
            for tick in first.. {
                tokio::time::sleep(Duration::from_millis(20)).await;
                let value = DataValue::value_only(tick);
                if handle
                    .with(move |server, now| server.handle_input(Input::SetValue { node: ticks, value }, now))
                    .await
                    .is_err()
                {
                    return;
                }
            }
        };
        tokio::select! { () = counting => {}, _ = ended => {} }
        handle.stop().await;
    });
    Ok(())
}

/// The application's certificates, one for each kind of key, with their keys in the same order.
fn identities(certificates: &str, keys: &str) -> Result<OwnIdentity, Box<dyn Error>> {
    let mut all = certificates.split(',').zip(keys.split(',')).map(|(cert, key)| identity(cert.as_ref(), key.as_ref()));
    let first = all.next().ok_or("--cert is empty")??;
    all.try_fold(first, |first, other| Ok(first.beside(other?)))
}

fn write_token(file: &Path, signer: &Signer, map: &ScopeMap, audience: &str) -> Result<(), Box<dyn Error>> {
    let now = clock::now().unix;
    let claims = Claims {
        issuer: URI.into(),
        subject: "interop".into(),
        audience: audience.into(),
        expires: now + Duration::from_secs(3_600),
        not_before: now,
        issued_at: now,
        id: token::new_id(&mut token::SystemEntropy::default()),
        client: None,
        confirmation: None,
        roles: Vec::new(),
        groups: Vec::new(),
        rights: Some(RightsClaim::new(token::map_digest(map), [(Rights::ALL, vec![1_u32, 2])])),
        epoch: Epoch(1),
        padding: 0,
    };
    Ok(gates::pki::write_private(file, token::mint(&claims, signer)?.as_bytes())?)
}

fn space(uri: &str) -> Result<(Space, ScopeMap, NodeRef), Box<dyn Error>> {
    let mut space = Space::new(SpaceConfig { application_uri: uri.into(), namespaces: vec![NAMESPACE.into()] })?;
    let map = ScopeMap::new(["line", AUDIT])?;
    let scope = ScopeIndex(1);
    let id = |name: &str| Some(NodeId::new(2, name.to_owned()));
    let line = space.add_object(ns0::OBJECTS, id("Line"), "Line", ns0::BASE_OBJECT_TYPE, scope)?;
    let ticks = space.add_variable(NewVariable::new(line, id("Line.Ticks"), "Ticks", 0_u32.into(), scope))?;
    let setpoint = NewVariable::new(line, id("Line.Setpoint"), "Setpoint", 1.0_f64.into(), scope);
    let setpoint = space.add_variable(setpoint.access(AccessLevel::READ_WRITE))?;
    space.historize(ticks, 5_000, false)?;
    space.historize(setpoint, 5_000, true)?;
    let mut add = NewMethod::new(line, id("Line.Add"), "Add", scope);
    add.inputs = vec![argument("a"), argument("b")];
    add.outputs = vec![argument("sum")];
    space.add_method(add)?;
    let many = space.add_folder(line, id("Line.Many"), "Many", scope)?;
    for number in 0..1_000_u32 {
        let name = format!("Value{number:04}");
        space.add_variable(NewVariable::new(
            many,
            Some(NodeId::new(2, 10_000 + number)),
            &name,
            number.into(),
            scope,
        ))?;
    }
    space.set_server_facts(ServerFacts { started: clock::now().unix, ..ServerFacts::default() });
    Ok((space, map, ticks))
}

/// Three events of Line and Setpoint each, in turns, which Line keeps.
fn keep_events(server: &mut Server) -> Result<(), Box<dyn Error>> {
    let names = ["Line", "Setpoint"];
    let nodes = ["Line", "Line.Setpoint"].map(|name| server.space().find(&NodeId::new(2, name.to_owned())));
    let [Some(line), Some(setpoint)] = nodes else { return Err("the line is not there".into()) };
    server.space_mut().add_reference(line, ns0::HAS_EVENT_SOURCE, setpoint)?;
    server.space_mut().historize_events(line, 1_000, true)?;
    for number in 0..3 {
        for (name, source) in names.into_iter().zip([line, setpoint]) {
            let event = NewEvent {
                event_type: ns0::BASE_EVENT_TYPE,
                source,
                severity: 100,
                message: format!("{name} {number}"),
                fields: Vec::new(),
                values: Vec::new(),
            };
            server.handle_input(Input::Event(event), clock::now());
        }
    }
    Ok(())
}

fn argument(name: &str) -> Argument {
    Argument {
        name: name.into(),
        data_type: DataTypeId::Double.into(),
        value_rank: -1,
        array_dimensions: Some(Vec::new()),
        description: LocalizedText::null(),
    }
}

fn config(port: u16, uri: &str, own: OwnIdentity, trust: ua_proto::pki::SharedTrust) -> ServerConfig {
    use MessageSecurityMode::{None, Sign, SignAndEncrypt};
    let mut endpoints = vec![(SecurityPolicyId::None, None)];
    let own = Arc::new(own);
    let able = |policy: &SecurityPolicyId| {
        *policy != SecurityPolicyId::None && OwnIdentity::for_policy(&own, *policy).is_some()
    };
    for policy in SecurityPolicyId::ALL.into_iter().filter(able) {
        endpoints.extend([(policy, Sign), (policy, SignAndEncrypt)]);
    }
    let own = Arc::new(ArcSwap::new(own));
    let mut channel = ChannelConfig::new(own, Arc::clone(&trust), endpoints.clone());
    // Some of the clients need their time on a computer that many people share.
    (channel.hello_timeout, channel.open_timeout) = (PATIENCE, PATIENCE);
    let issuer = IssuerEndpoint {
        resource_id: uri.into(),
        authority_url: format!("opc.tcp://127.0.0.1:{port}"),
        profile_uri: IssuerEndpoint::PROFILE_OPCUA.into(),
        token_endpoint: Option::None,
        authorization_endpoint: Option::None,
        request_types: Vec::new(),
        scopes: Vec::new(),
    };
    let forms = TokenForm::ALL.to_vec();
    ServerConfig {
        application_uri: uri.into(),
        product_uri: "urn:trapkey".into(),
        application_name: "Trapkey interop".into(),
        endpoint_urls: vec![format!("opc.tcp://127.0.0.1:{port}")],
        channel: Arc::new(channel),
        endpoints,
        identities: Identities {
            anonymous: true,
            user_name: true,
            certificate: Some(trust),
            issued: Some(IssuedTokens { issuer, forms }),
            ..Identities::default()
        },
        limits: ServerLimits { half_open_time: PATIENCE, ..ServerLimits::default() },
        audit: AuditConfig { events: Some(AUDIT.into()), ..AuditConfig::default() },
        write_ranges: Vec::new(),
    }
}

struct Behind {
    user: String,
    password: String,
}

impl Application for Behind {
    fn invoke(&self, call: Invocation) -> Local<Answer> {
        let sum = match call.inputs.as_slice() {
            [Variant::Double(a), Variant::Double(b)] => Some(a + b),
            _ => None,
        };
        Box::pin(async move {
            match sum {
                Some(sum) => Answer { status: StatusCode::Good, input_results: Vec::new(), outputs: vec![sum.into()] },
                None => {
                    Answer { status: StatusCode::BadInvalidArgument, input_results: Vec::new(), outputs: Vec::new() }
                }
            }
        })
    }

    fn authenticate(&self, credentials: Credentials) -> Local<Result<(), Refusal>> {
        let right = credentials.name == self.user && *credentials.password == *self.password.as_bytes();
        Box::pin(async move { right.then_some(()).ok_or_else(wrong_credentials) })
    }
}
