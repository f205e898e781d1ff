//! Servers of other people with room for few sessions, and more clients of a guard than that: they share a session at the
//! server once it is full, or those for whom there is none are told so. asyncua's server has no such bound.

use std::net::TcpListener;

use access_model::Rights;
use client::{Client, ClientError, WatchOptions, Way};
use opcua_types::{StatusCode, Variant};
use ua_proto::client::Credential;
use ua_proto::guard::{GuardConfig, Sharing};

use crate::guarded::{anonymous, guard_as, next, node, rules, upstream};
use crate::identities::status;
use crate::peers::{PATIENCE, Serving, Stack};

/// How many sessions the server has room for, and how many clients come.
const ROOM: &str = "3";
const CLIENTS: usize = 6;

/// Those that are served, and what the others hear.
async fn come(url: &str) -> (Vec<Client>, Vec<ClientError>) {
    let (mut served, mut refused) = (Vec::new(), Vec::new());
    for _ in 0..CLIENTS {
        match Client::connect(anonymous(url)).await {
            Err(error) => refused.push(error),
            Ok(client) => match client.namespaces().await {
                Err(error) => refused.push(error),
                Ok(_) => served.push(client),
            },
        }
    }
    (served, refused)
}

/// Each reads what it wrote, and hears of changes of its own subscription while the others do.
async fn all_work(clients: &[Client], rule: &str) {
    let mut watches = Vec::new();
    for (client, value) in clients.iter().zip([1.5, 2.5, 3.5, 4.5, 5.5, 6.5]) {
        let (ticks, setpoint) = (node(client, "Line.Ticks").await, node(client, "Line.Setpoint").await);
        let written = client.write(vec![(setpoint.clone(), Variant::Double(value))]).await.expect("it is answered");
        assert_eq!(written, [StatusCode::Good], "{rule}");
        let back = client.read(&[setpoint]).await.expect("it is answered").remove(0);
        assert_eq!(back.value, Some(Variant::Double(value)), "{rule}");
        watches.push(client.watch(&[ticks], WatchOptions::default()).await.expect("Ticks can be watched"));
    }
    for _ in 0..10 {
        for watch in &mut watches {
            next(watch, rule).await;
        }
    }
}

async fn is_full(stack: Stack) {
    let Some(program) = stack.program("server") else { return };
    let name = format!("{}-server", stack.name());
    for pool in [Sharing::Never, Sharing::WhenFull] {
        let rule = format!("{name}, {pool:?}");
        let server = Serving::start(&program, &name, &["trapkey"], &["--sessions", ROOM]);
        let endpoints = client::endpoints(&server.url, PATIENCE).await.expect("the server answers");
        let behind = GuardConfig::new(upstream(&server.url, &endpoints), Credential::Anonymous, rules());
        let behind = GuardConfig { pool, ..behind };
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
        let (guarding, url, _records) = guard_as(Way::Dial, listener, behind, Rights::ALL);
        let (served, refused) = come(&url).await;
        all_work(&served, &rule).await;
        if pool == Sharing::Never {
            let told: Vec<Option<StatusCode>> = refused.iter().map(status).collect();
            assert!(!told.is_empty() && !served.is_empty(), "{rule}: {} are served", served.len());
            assert!(told.iter().all(|told| *told == Some(StatusCode::BadTooManySessions)), "{rule}: {refused:?}");
        } else {
            assert_eq!(served.len(), CLIENTS, "{rule}: {refused:?}");
        }
        for client in served {
            client.close().await;
        }
        guarding.stop().await;
    }
}

#[tokio::test]
async fn sessions_share_when_an_open62541_server_is_full() {
    is_full(Stack::Open62541).await;
}

#[tokio::test]
async fn sessions_share_when_a_node_opcua_server_is_full() {
    is_full(Stack::NodeOpcua).await;
}

#[tokio::test]
async fn sessions_share_when_a_milo_server_is_full() {
    is_full(Stack::Milo).await;
}
