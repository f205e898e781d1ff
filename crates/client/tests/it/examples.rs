//! Every program in `examples/` does what it says, against a server on the loopback. Cargo builds them before the tests.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use access_model::{Refusal, Rights, ScopeIndex, ScopeMap};
use arc_swap::ArcSwap;
use client::{Client, ClientApplication, ClientOptions, Login};
use gates::clock;
use gates::opcua::server::{ServerHandle, start};
use gates::opcua::wiring::{Application, Credentials, Local, wrong_credentials};
use gates::pki::make::{self, Made, self_signed};
use opcua_types::{Argument, DataTypeId, DataValue, LocalizedText, MessageSecurityMode, NodeId, StatusCode, Variant};
use pep::{Gate, GateConfig, LocalGrant, LocalScopes, Who};
use token::SystemEntropy;
use ua_proto::channel::ChannelConfig;
use ua_proto::crypto::{PrivateKey, SecurityPolicyId};
use ua_proto::pki::{Certificate, OwnIdentity};
use ua_proto::server::{AuditConfig, Identities, Input, Invocation, Server, ServerConfig, ServerLimits};
use ua_proto::space::{AccessLevel, NewMethod, NewVariable, NodeRef, ServerFacts, Space, SpaceConfig, ns0};

use crate::support;

const LINE: &str = "urn:test:line";
const TICKS: &str = "ns=2;s=Line.Ticks";
const SETPOINT: &str = "ns=2;s=Line.Setpoint";

fn made(name: &str, uri: &str) -> Made {
    self_signed(&make::Application::local(name, uri), clock::now().unix).unwrap()
}

fn own(made: &Made) -> Arc<OwnIdentity> {
    let certificate = Certificate::from_der(&made.der).unwrap();
    Arc::new(OwnIdentity::new(certificate, PrivateKey::from_der(&made.key_der).unwrap()).unwrap())
}

/// The nodes that the examples name in their first lines.
fn space() -> (Space, NodeRef) {
    let mut space =
        Space::new(SpaceConfig { application_uri: LINE.into(), namespaces: vec!["urn:line".into()] }).unwrap();
    let scope = ScopeIndex(1);
    let id = |name: &str| Some(NodeId::new(2, name.to_owned()));
    let line = space.add_object(ns0::OBJECTS, id("Line"), "Line", ns0::BASE_OBJECT_TYPE, scope).unwrap();
    let ticks = NewVariable::new(line, id("Line.Ticks"), "Ticks", 0_u32.into(), scope);
    let ticks = space.add_variable(ticks).unwrap();
    let setpoint = NewVariable::new(line, id("Line.Setpoint"), "Setpoint", 1.0_f64.into(), scope);
    space.add_variable(setpoint.access(AccessLevel::READ_WRITE)).unwrap();
    let argument = |name: &str| Argument {
        name: name.into(),
        data_type: DataTypeId::Double.into(),
        value_rank: -1,
        array_dimensions: Some(Vec::new()),
        description: LocalizedText::null(),
    };
    let add = NewMethod::new(line, id("Line.Add"), "Add", scope);
    let (inputs, outputs) = (vec![argument("a"), argument("b")], vec![argument("sum")]);
    space.add_method(NewMethod { inputs, outputs, ..add }).unwrap();
    space.set_server_facts(ServerFacts { started: clock::now().unix, ..ServerFacts::default() });
    (space, ticks)
}

struct Line {
    server: ServerHandle,
    folder: tempfile::TempDir,
}

impl Line {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (server, client) =
            tokio::task::spawn_blocking(|| (made("line", LINE), made("client", "urn:test:example"))).await.unwrap();
        for (name, bytes) in [("server.der", &*server.der), ("client.der", &*client.der)] {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        gates::pki::write_private(&folder.path().join("client.pem"), client.key_pem.as_bytes()).unwrap();
        let (server, client) = (own(&server), own(&client));
        let listener = support::listen();
        let (space, ticks) = space();
        let mut gate = GateConfig::new(LINE, ScopeMap::new(["line", "audit"]).unwrap());
        let all = |who| LocalGrant {
            who,
            require_encryption: false,
            roles: Vec::new(),
            rights: vec![(Rights::ALL, LocalScopes::All)],
        };
        gate.local = vec![all(Who::Anonymous), all(Who::Authenticated)];
        let endpoints = vec![
            (SecurityPolicyId::None, MessageSecurityMode::None),
            (SecurityPolicyId::Basic256Sha256, MessageSecurityMode::SignAndEncrypt),
        ];
        let channel = ChannelConfig::new(Arc::new(ArcSwap::new(server)), support::trust(&[&client]), endpoints.clone());
        let config = ServerConfig {
            application_uri: LINE.into(),
            product_uri: "urn:test".into(),
            application_name: "line".into(),
            endpoint_urls: vec![format!("opc.tcp://{}", listener.local_addr().unwrap())],
            channel: Arc::new(channel),
            endpoints,
            identities: Identities { anonymous: true, user_name: true, ..Identities::default() },
            limits: ServerLimits::default(),
            audit: AuditConfig { events: Some("audit".into()), ..AuditConfig::default() },
            write_ranges: Vec::new(),
        };
        let gate = Gate::new(gate, clock::now()).unwrap();
        let server = Server::new(config, space, gate, Box::new(SystemEntropy::new()));
        let server = start(listener, server, support::shell(|| Box::new(Adds))).unwrap();
        let line = Self { server, folder };
        line.tick(ticks);
        line
    }

    fn url(&self) -> String {
        format!("opc.tcp://{}", self.server.address())
    }

    /// One more, every twenty milliseconds.
    fn tick(&self, ticks: NodeRef) {
        let server = self.server.clone();
        tokio::spawn(async move {
            for tick in 1_u32.. {
                tokio::time::sleep(Duration::from_millis(20)).await;
                let value = DataValue::value_only(tick);
                let set =
                    move |server: &mut Server, now| server.handle_input(Input::SetValue { node: ticks, value }, now);
                if server.with(set).await.is_err() {
                    return;
                }
            }
        });
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

struct Adds;

impl Application for Adds {
    fn invoke(&self, call: Invocation) -> Local<ua_proto::server::Answer> {
        let outputs = match call.inputs.as_slice() {
            [Variant::Double(a), Variant::Double(b)] => vec![Variant::from(a + b)],
            _ => Vec::new(),
        };
        let status = if outputs.is_empty() { StatusCode::BadInvalidArgument } else { StatusCode::Good };
        Box::pin(async move { ua_proto::server::Answer { status, input_results: Vec::new(), outputs } })
    }

    fn authenticate(&self, credentials: Credentials) -> Local<Result<(), Refusal>> {
        let right = credentials.name == "operator" && *credentials.password == *b"secret";
        Box::pin(async move { right.then_some(()).ok_or_else(wrong_credentials) })
    }
}

fn program(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(2).expect("tests lie in target/PROFILE/deps").join("examples").join(name)
}

/// Runs an example to its end, which must come: whether it succeeds, and what it says.
fn run_now(name: &str, args: &[String]) -> (bool, String) {
    let out = tempfile::NamedTempFile::new().unwrap();
    let said = || std::fs::read_to_string(out.path()).unwrap();
    let (stdout, stderr) = (out.as_file().try_clone().unwrap(), out.as_file().try_clone().unwrap());
    let mut child = Command::new(program(name))
        .args(args)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .spawn()
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return (status.success(), said());
        }
        if Instant::now() > end {
            let _ended_already = child.kill();
            let _status = child.wait();
            panic!("{name} does not end: {}", said());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

async fn run(name: &'static str, line: &Line, args: &[&str]) -> (bool, String) {
    let mut all = vec![line.url()];
    all.extend(args.iter().map(|&arg| arg.to_owned()));
    tokio::task::spawn_blocking(move || run_now(name, &all)).await.unwrap()
}

/// That it succeeds, and says this.
async fn says(name: &'static str, line: &Line, args: &[&str], wanted: &[&str]) -> String {
    let (good, said) = run(name, line, args).await;
    assert!(good, "{name} {args:?}: {said}");
    for wanted in wanted {
        assert!(said.contains(wanted), "{name} {args:?} does not say `{wanted}`: {said}");
    }
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_writing_calling_and_browsing_do_what_they_say() {
    let line = Line::start().await;
    says("read", &line, &[SETPOINT, "ns=2;s=Nothing", "--none"], &[SETPOINT, "BadNodeIdUnknown"]).await;
    let written = [SETPOINT, "42.5", "--none"];
    says("write", &line, &written, &["ns=2;s=Line.Setpoint = 42.5: Good", "ns=2;s=Line.Setpoint is 42.5"]).await;
    says("call", &line, &["ns=2;s=Line", "ns=2;s=Line.Add", "1.5", "2.25", "--none"], &["Good", "3.75"]).await;
    says("browse", &line, &["ns=2;s=Line", "--none"], &["Ticks", "Setpoint", "Add"]).await;
    // And over a channel that encrypts, as a person.
    let (cert, key, trust) = (line.file("client.der"), line.file("client.pem"), line.file("server.der"));
    let secure = ["--cert", &cert, "--key", &key, "--trust", &trust, "--user", "operator:secret"];
    says("read", &line, &[&[SETPOINT][..], &secure].concat(), &["42.5"]).await;
    for (rule, name, args) in [
        ("no such namespace", "read", &["nsu=urn:none;s=Nothing", "--none"][..]),
        ("no number", "write", &[SETPOINT, "--none"]),
        ("the wrong password", "read", &[SETPOINT, "--none", "--user", "operator:wrong"]),
        ("no security where it is not asked for", "read", &[SETPOINT]),
    ] {
        let (good, said) = run(name, &line, args).await;
        assert!(!good && said.contains("Error"), "{rule}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_changes_and_ten_events_arrive_and_the_programs_end() {
    let line = Line::start().await;
    let said = says("subscribe", &line, &[TICKS, "--none"], &[]).await;
    let values: Vec<u32> = said.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(values.len(), 60, "{said}");
    assert!(values.windows(2).all(|pair| pair[0] < pair[1]), "in order: {values:?}");

    // Somebody's writes are audited, and the audit's events are what there is to see.
    let application = ClientApplication { uri: "urn:test".into(), product_uri: "urn:test".into(), name: "t".into() };
    let mut options = ClientOptions::new(line.url(), application).danger_without_security();
    (options.login, options.request_timeout) = (Login::Anonymous, support::PATIENCE);
    let writer = Client::connect(options).await.unwrap();
    let writing = tokio::spawn(async move {
        for number in 0_u32.. {
            let node = NodeId::new(2, "Line.Setpoint");
            writer.write(vec![(node, f64::from(number).into())]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let said = says("events", &line, &["--none"], &["Severity: ", "EventType: "]).await;
    writing.abort();
    assert_eq!(said.lines().count(), 10, "{said}");
}
