//! Our client, through a guard, against servers that know nothing of it: ours and other people's.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use access_model::{AuditRecord, Rights, ScopeIndex};
use client::{Client, ClientApplication, ClientOptions, Login, Watch, WatchOptions, Way};
use gates::opcua::guard::GuardHandle;
use opcua_types::{DataValue, EndpointDescription, Identifier, MessageSecurityMode, NodeId, StatusCode, Variant};
use tokio::sync::mpsc;
use tokio::time::timeout;
use ua_proto::client::{ClientSessionConfig, Credential, EndpointWish, choose_endpoint};
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::guard::{GuardConfig, ScopeEntry, ScopeRule, ScopeRules};

use crate::front::Front;
use crate::peers::{PATIENCE, Serving, Stack};

const NAMESPACE: &str = "urn:trapkey:interop";

pub(crate) fn upstream(url: &str, endpoints: &[EndpointDescription]) -> ClientSessionConfig {
    let wish = EndpointWish {
        policies: vec![SecurityPolicyId::None],
        modes: vec![MessageSecurityMode::None],
        identities: vec![Credential::Anonymous.kind()],
        danger_clear_secrets: false,
    };
    let choice = choose_endpoint(endpoints, &wish).expect("the server takes anonymous clients without protection");
    let application = ClientApplication {
        uri: "urn:trapkey:interop:trapkey".into(),
        product_uri: "urn:trapkey".into(),
        name: "guard".into(),
    };
    ClientSessionConfig::new(url, choice, application)
}

/// The line in one scope, its setpoint in another, all else unknown.
pub(crate) fn rules() -> ScopeRules {
    let entry = |scope, rule| ScopeEntry { scope: ScopeIndex(scope), namespace: NAMESPACE.into(), rule };
    ScopeRules {
        entries: vec![
            entry(1, ScopeRule::Subtree(Identifier::String("Line".into()))),
            entry(2, ScopeRule::Node(Identifier::String("Line.Setpoint".into()))),
        ],
    }
    .with_public_types()
}

/// Starts a guard whose anonymous clients may do everything on the line and this on the setpoint.
pub(crate) async fn guard(server: &Serving, setpoint: Rights) -> (GuardHandle, String) {
    guard_at(TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port"), server, setpoint).await
}

async fn guard_at(listener: TcpListener, server: &Serving, setpoint: Rights) -> (GuardHandle, String) {
    guard_over(Way::Dial, listener, server, setpoint).await
}

/// The same in front of a server that is reached in this way.
pub(crate) async fn guard_over(
    way: Way,
    listener: TcpListener,
    server: &Serving,
    setpoint: Rights,
) -> (GuardHandle, String) {
    let endpoints = gates::opcua::client::endpoints_over(&way, &server.url, PATIENCE).await;
    let endpoints = endpoints.expect("the server answers");
    let behind = GuardConfig::new(upstream(&server.url, &endpoints), Credential::Anonymous, rules());
    let (guarding, url, mut records) = guard_as(way, listener, behind, setpoint);
    tokio::spawn(async move { while records.recv().await.is_some() {} });
    (guarding, url)
}

/// A guard that is set up so behind; its anonymous clients have the role `operator`. What it records comes out.
pub(crate) fn guard_as(
    way: Way,
    listener: TcpListener,
    behind: GuardConfig,
    setpoint: Rights,
) -> (GuardHandle, String, mpsc::UnboundedReceiver<AuditRecord>) {
    Front::bare(setpoint).guard(way, listener, behind)
}

pub(crate) fn anonymous(url: &str) -> ClientOptions {
    let application = ClientApplication {
        uri: "urn:trapkey:interop:trapkey".into(),
        product_uri: "urn:trapkey".into(),
        name: "interop".into(),
    };
    let mut options = ClientOptions::new(url, application);
    options.policies = vec![SecurityPolicyId::None];
    options.modes = vec![MessageSecurityMode::None];
    options.login = Login::Anonymous;
    options.request_timeout = PATIENCE;
    options
}

pub(crate) async fn node(client: &Client, name: &str) -> NodeId {
    let id = client.node_id(&format!("nsu={NAMESPACE};s={name}")).await.expect("the namespaces can be read");
    id.expect("the server has the namespace")
}

pub(crate) async fn connected(url: &str, rule: &str) -> Client {
    Client::connect(anonymous(url)).await.unwrap_or_else(|error| panic!("{rule}: {error}"))
}

async fn names(client: &Client, of: &NodeId) -> Vec<String> {
    let found = client.browse(of).await.expect("it can be browsed");
    found.into_iter().map(|reference| reference.browse_name.name.as_ref().to_owned()).collect()
}

/// Everything that is allowed works, everything that is not fails, on a server that would do all of it.
async fn is_guarded(server: Serving, rule: &str) {
    let (all, url) = guard(&server, Rights::ALL).await;
    let client = connected(&url, rule).await;
    let line = node(&client, "Line").await;
    let (ticks, setpoint) = (node(&client, "Line.Ticks").await, node(&client, "Line.Setpoint").await);
    let inside = names(&client, &line).await;
    for name in ["Ticks", "Setpoint", "Add"] {
        assert!(inside.iter().any(|found| found == name), "{rule}: {name} is not among {inside:?}");
    }
    if inside.iter().any(|name| name == "Many") {
        let many = names(&client, &node(&client, "Line.Many").await).await;
        assert!(many.len() >= 1_000, "{rule}: {} of a thousand", many.len());
    }
    let value = client.read(std::slice::from_ref(&ticks)).await.expect("Ticks can be read").remove(0);
    assert!(matches!(value.value, Some(Variant::UInt32(_))), "{rule}: {value:?}");
    let written = client.write(vec![(setpoint.clone(), Variant::Double(45.5))]).await.expect("the write is answered");
    assert!(written.iter().all(|status| status.is_good()), "{rule}: {written:?}");
    let add = node(&client, "Line.Add").await;
    let inputs = vec![Variant::Double(1.5), Variant::Double(2.25)];
    let sum = client.call(line.clone(), add, inputs).await.expect("Add can be called");
    assert_eq!(sum.output_arguments, Some(vec![Variant::Double(3.75)]), "{rule}: {sum:?}");
    client.close().await;
    all.stop().await;

    for (rights, read, write) in [
        (Rights::BROWSE | Rights::READ, StatusCode::Good, StatusCode::BadUserAccessDenied),
        (Rights::BROWSE, StatusCode::BadUserAccessDenied, StatusCode::BadUserAccessDenied),
        (Rights::NONE, StatusCode::BadNodeIdUnknown, StatusCode::BadNodeIdUnknown),
    ] {
        let (few, url) = guard(&server, rights).await;
        let client = connected(&url, rule).await;
        let values = client.read(&[ticks.clone(), setpoint.clone()]).await.expect("the read is answered");
        let statuses: Vec<StatusCode> = values.iter().map(opcua_types::DataValue::status).collect();
        assert_eq!(statuses, [StatusCode::Good, read], "{rule}, {rights}");
        let written = client.write(vec![(setpoint.clone(), Variant::Double(1.0))]).await.expect("an answer");
        assert_eq!(written, [write], "{rule}, {rights}");
        let seen = names(&client, &line).await.iter().any(|name| name == "Setpoint");
        assert_eq!(seen, rights.contains(Rights::BROWSE), "{rule}, {rights}");
        client.close().await;
        few.stop().await;
    }
    let (last, url) = guard(&server, Rights::ALL).await;
    let client = connected(&url, rule).await;
    let back = client.read(&[setpoint]).await.expect("Setpoint can be read").remove(0);
    assert_eq!(back.value, Some(Variant::Double(45.5)), "{rule}: nothing that was denied has reached the server");
    client.close().await;
    last.stop().await;
}

async fn guards(stack: Stack) {
    let Some(program) = stack.program("server") else { return };
    let name = format!("{}-server", stack.name());
    is_guarded(Serving::start(&program, &name, &["trapkey"], &[]), &name).await;
}

#[tokio::test]
async fn our_own_server_is_guarded() {
    if Stack::Asyncua.program("server").is_some() {
        is_guarded(crate::our_server::serve(&[]), "trapkey").await;
    }
}

#[tokio::test]
async fn asyncua_servers_are_guarded() {
    guards(Stack::Asyncua).await;
}

#[tokio::test]
async fn node_opcua_servers_are_guarded() {
    guards(Stack::NodeOpcua).await;
}

#[tokio::test]
async fn milo_servers_are_guarded() {
    guards(Stack::Milo).await;
}

#[tokio::test]
async fn open62541_servers_are_guarded() {
    guards(Stack::Open62541).await;
}

/// A client's subscription goes on after the server, and then the guard, was killed and started anew.
async fn goes_on(stack: Stack) {
    let Some(program) = stack.program("server") else { return };
    let name = format!("{}-server", stack.name());
    let mut server = Serving::start(&program, &name, &["trapkey"], &[]);
    let (guarding, url) = guard(&server, Rights::ALL).await;
    let client = connected(&url, &name).await;
    let ticks = node(&client, "Line.Ticks").await;
    let mut watch = client.watch(&[ticks], WatchOptions::default()).await.expect("Ticks can be watched");
    for _ in 0..5 {
        next(&mut watch, &name).await;
    }

    server.start_again();
    // The client's own connection has seen nothing of it: what was missed is told by the guard.
    while !overflowed(&next(&mut watch, &name).await) {}
    // It is told once; whatever a busy computer misses besides is told too, but not with each value.
    let mut whole = 0;
    for _ in 0..1_000 {
        whole = if overflowed(&next(&mut watch, &name).await) { 0 } else { whole + 1 };
        if whole == 5 {
            break;
        }
    }
    assert_eq!(whole, 5, "{name}: values are said to be missing for ever");

    let address = url.trim_start_matches("opc.tcp://").parse().expect("the guard is at an address");
    guarding.stop().await;
    while timeout(Duration::from_millis(500), watch.next()).await.is_ok() {}
    let listener = again(address).await;
    let (last, _) = guard_at(listener, &server, Rights::ALL).await;
    for _ in 0..5 {
        next(&mut watch, &name).await;
    }
    client.close().await;
    last.stop().await;
}

/// The next value that was read; while the way to the server is open it comes soon.
pub(crate) async fn next(watch: &mut Watch, rule: &str) -> DataValue {
    let change = timeout(Duration::from_secs(90), watch.next()).await;
    let value = change.unwrap_or_else(|_| panic!("{rule}: no changes any more")).expect("the client is open").value;
    assert!(matches!(value.value, Some(Variant::UInt32(_))), "{rule}: {value:?}");
    value
}

pub(crate) fn overflowed(value: &DataValue) -> bool {
    value.status().bits() & 0x0480 == 0x0480
}

/// The address of a server that has just ended.
pub(crate) async fn again(address: SocketAddr) -> TcpListener {
    for _ in 0..300 {
        match TcpListener::bind(address) {
            Ok(listener) => return listener,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    panic!("{address} stays taken");
}

#[tokio::test]
async fn behind_a_guard_changes_go_on_after_an_open62541_server_and_the_guard_were_killed() {
    goes_on(Stack::Open62541).await;
}

#[tokio::test]
async fn behind_a_guard_changes_go_on_after_an_asyncua_server_and_the_guard_were_killed() {
    goes_on(Stack::Asyncua).await;
}

#[tokio::test]
async fn behind_a_guard_changes_go_on_after_a_node_opcua_server_and_the_guard_were_killed() {
    goes_on(Stack::NodeOpcua).await;
}

#[tokio::test]
async fn behind_a_guard_changes_go_on_after_a_milo_server_and_the_guard_were_killed() {
    goes_on(Stack::Milo).await;
}
