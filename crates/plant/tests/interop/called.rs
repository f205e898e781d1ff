//! Reverse connect, both ways: their servers call our client and our guard, our server calls their clients. asyncua and
//! Milo know no reverse connect.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use access_model::Rights;
use client::{Callers, Client, Expected, WatchOptions, Way};
use opcua_types::{StatusCode, Variant};
use ua_proto::wire::{ErrorMessage, MESSAGE_HEADER, ReverseHello};

use crate::guarded::{connected, guard_over, next, node, overflowed};
use crate::our_client::encrypted;
use crate::our_server::serve;
use crate::peers::{PATIENCE, Serving, Stack, run_steps};

const STEPS: [&str; 6] = ["connect", "browse", "read", "write", "call", "subscribe"];

fn bound() -> (TcpListener, String) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
    let url = format!("opc.tcp://{}", listener.local_addr().expect("a bound socket has an address"));
    (listener, url)
}

/// A server that calls, and the way to it.
fn calling(stack: Stack) -> Option<(Serving, Way)> {
    let program = stack.program("server")?;
    let name = format!("{}-server", stack.name());
    let (listener, own) = bound();
    let server = Serving::start(&program, &name, &["trapkey"], &["--call", &own]);
    let way = expecting(listener, &format!("urn:trapkey:interop:{name}"), &server.url);
    Some((server, way))
}

fn expecting(listener: TcpListener, uri: &str, url: &str) -> Way {
    let expected = Expected { server_uri: uri.to_owned(), endpoint_url: url.to_owned() };
    Way::Called(Callers::listen(listener, vec![expected]).expect("it listens").of(0))
}

async fn our_client_is_called(stack: Stack) {
    let Some((mut server, way)) = calling(stack) else { return };
    let name = stack.name();
    let mut options = encrypted(&server, stack);
    options.way = way;
    options.reconnect.connect_timeout = PATIENCE;
    let client = Client::connect(options).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    let (ticks, setpoint) = (node(&client, "Line.Ticks").await, node(&client, "Line.Setpoint").await);
    let written = client.write(vec![(setpoint.clone(), Variant::Double(46.5))]).await.expect("the write is answered");
    assert_eq!(written, [StatusCode::Good], "{name}");
    let value = client.read(std::slice::from_ref(&setpoint)).await.expect("Setpoint can be read").remove(0);
    assert_eq!(value.value, Some(Variant::Double(46.5)), "{name}");
    let mut watch = client.watch(&[ticks], WatchOptions::default()).await.expect("Ticks can be watched");
    for _ in 0..5 {
        next(&mut watch, name).await;
    }
    server.start_again();
    while client.session_count() < 2 {
        next(&mut watch, name).await;
    }
    for _ in 0..5 {
        next(&mut watch, name).await;
    }
    client.close().await;
}

async fn our_guard_is_called(stack: Stack) {
    let Some((mut server, way)) = calling(stack) else { return };
    let name = stack.name();
    let (guarding, url) = guard_over(way, bound().0, &server, Rights::READ | Rights::BROWSE).await;
    let client = connected(&url, name).await;
    let (ticks, setpoint) = (node(&client, "Line.Ticks").await, node(&client, "Line.Setpoint").await);
    let written = client.write(vec![(setpoint, Variant::Double(1.0))]).await.expect("the write is answered");
    assert_eq!(written, [StatusCode::BadUserAccessDenied], "{name}");
    let mut watch = client.watch(&[ticks], WatchOptions::default()).await.expect("Ticks can be watched");
    for _ in 0..5 {
        next(&mut watch, name).await;
    }
    server.start_again();
    while !overflowed(&next(&mut watch, name).await) {}
    for _ in 0..5 {
        next(&mut watch, name).await;
    }
    client.close().await;
    guarding.stop().await;
}

#[tokio::test]
async fn open62541_servers_call_our_client() {
    our_client_is_called(Stack::Open62541).await;
}

#[tokio::test]
async fn node_opcua_servers_call_our_client() {
    our_client_is_called(Stack::NodeOpcua).await;
}

#[tokio::test]
async fn open62541_servers_call_our_guard() {
    our_guard_is_called(Stack::Open62541).await;
}

#[tokio::test]
async fn node_opcua_servers_call_our_guard() {
    our_guard_is_called(Stack::NodeOpcua).await;
}

fn their_client_is_called(stack: Stack, way: &[&str], steps: &[&str]) {
    let Some(program) = stack.program("client") else { return };
    let listen = testkit::ports::free().to_string();
    let server = serve(&["--call", &format!("opc.tcp://127.0.0.1:{listen}")]);
    let list = steps.join(",");
    let arguments = [way, &["--listen", &listen, "--steps", &list]].concat();
    let report = run_steps(&program, stack.name(), &server.url, "trapkey", &arguments, &mut |_| ());
    let taken: Vec<(&str, bool)> = report.iter().map(|step| (step.step.as_str(), step.ok)).collect();
    let all: Vec<(&str, bool)> = steps.iter().map(|step| (*step, true)).collect();
    assert_eq!(taken, all, "{}: {report:#?}", stack.name());
}

#[test]
fn our_server_calls_open62541_clients() {
    // Its listening socket takes no address that a closed connection still holds, so it does not listen there again.
    let way = ["--policy", "None", "--mode", "None", "--anonymous"];
    their_client_is_called(Stack::Open62541, &way, &STEPS);
}

#[test]
fn our_server_calls_node_opcua_clients() {
    let way = ["--policy", "Basic256Sha256", "--mode", "SignAndEncrypt", "--user", "operator:secret"];
    their_client_is_called(Stack::NodeOpcua, &way, &[STEPS.as_slice(), &["reconnect"]].concat());
}

/// What a stranger says leads nowhere: it is told so, and nothing is dialled because of it.
#[tokio::test]
async fn a_call_redirects_nobody() {
    let (decoy, elsewhere) = bound();
    decoy.set_nonblocking(true).expect("a socket can be asked without waiting");
    let (listener, own) = bound();
    let way = expecting(listener, "urn:plant:press", "opc.tcp://press:4840");
    let address = own.trim_start_matches("opc.tcp://").to_owned();
    for (uri, url) in [("urn:plant:press", elsewhere.as_str()), ("urn:plant:other", "opc.tcp://press:4840")] {
        let (address, hello) =
            (address.clone(), ReverseHello { server_uri: uri.to_owned(), endpoint_url: url.to_owned() });
        let said = tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(address).expect("somebody listens");
            stream.set_read_timeout(Some(PATIENCE)).expect("a socket has a timeout");
            let mut bytes = Vec::new();
            hello.put(&mut bytes);
            stream.write_all(&bytes).expect("it takes a message");
            let mut said = Vec::new();
            stream.read_to_end(&mut said).expect("it answers and closes");
            said
        });
        let said = said.await.expect("the thread ends");
        let error = ErrorMessage::parse(said.get(MESSAGE_HEADER..).unwrap_or_default()).expect("an error message");
        assert_eq!(error.status, StatusCode::BadTcpEndpointUrlInvalid, "{uri} at {url}");
    }
    assert!(decoy.accept().is_err(), "nobody was sent elsewhere");
    drop(way);
}
