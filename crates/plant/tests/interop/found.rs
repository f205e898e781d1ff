//! Registering with discovery servers: ours with theirs, theirs with ours. node-opcua's discovery server is a package of its
//! own, and Milo's server keeps no registrations.

use std::sync::Arc;
use std::time::Duration;

use gates::opcua::client::{DiscoveryServer, Registration, register};

use crate::our_client::identity;
use crate::our_server::example;
use crate::peers::{PATIENCE, Serving, Stack};

const OWN: &str = "urn:trapkey:interop:trapkey";

async fn listed(url: &str) -> Vec<String> {
    let servers = client::servers(url, PATIENCE).await.expect("it answers FindServers");
    servers.into_iter().map(|server| server.application_uri.as_ref().to_owned()).collect()
}

fn own_registration() -> Registration {
    Registration {
        application_uri: OWN.to_owned(),
        product_uri: "urn:trapkey".to_owned(),
        name: "trapkey".to_owned(),
        urls: vec!["opc.tcp://127.0.0.1:4999".to_owned()],
        capabilities: vec!["DA".to_owned()],
    }
}

/// A server registers; `leaves` when the discovery server takes it off again.
async fn we_register(stack: Stack, leaves: bool) {
    we_register_with(stack, if leaves { &["--discovery"] } else { &[] }, leaves).await;
}

async fn we_register_with(stack: Stack, options: &[&str], leaves: bool) {
    let Some(program) = stack.program("server") else { return };
    let name = format!("{}-server", stack.name());
    let server = Serving::start(&program, &name, &["trapkey"], options);
    let trust = crate::our_client::options(&server, &name, identity("trapkey")).trust.expect("it trusts the server");
    let at = DiscoveryServer { url: server.url.clone(), identity: Arc::new(identity("trapkey")), trust };
    assert!(!listed(&server.url).await.iter().any(|uri| uri == OWN), "{name}");
    for _ in 0..2 {
        register(&at, &own_registration(), true, PATIENCE).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    assert_eq!(listed(&server.url).await.iter().filter(|uri| *uri == OWN).count(), 1, "{name}");
    register(&at, &own_registration(), false, PATIENCE).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(listed(&server.url).await.iter().any(|uri| uri == OWN), !leaves, "{name}");
}

#[tokio::test]
async fn we_register_with_an_open62541_discovery_server() {
    we_register(Stack::Open62541, true).await;
}

#[tokio::test]
async fn we_register_with_an_asyncua_server() {
    we_register(Stack::Asyncua, false).await;
}

/// A discovery server from before RegisterServer2 is told with RegisterServer, whatever it says to the other one: asyncua's
/// says to what it does not know that nobody is logged in.
#[tokio::test]
async fn we_register_with_servers_that_know_only_register_server() {
    for answer in ["BadServiceUnsupported", "BadUserAccessDenied"] {
        we_register_with(Stack::Asyncua, &["--register-only", answer], false).await;
    }
}

#[tokio::test]
async fn an_open62541_server_registers_with_us() {
    let Some(program) = Stack::Open62541.program("server") else { return };
    let discovery = Serving::start(&example(), "trapkey", &["open62541-server"], &["--discovery"]);
    let _server = Serving::start(&program, "open62541-server", &["trapkey"], &["--register", &discovery.url]);
    let mut seen = Vec::new();
    for _ in 0..600 {
        seen = listed(&discovery.url).await;
        if seen.len() == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(seen, [OWN, "urn:trapkey:interop:open62541-server"]);
}
