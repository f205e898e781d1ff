//! Who a guard is at servers of other people: a name with a password, or a certificate, by the role of the session.

use std::net::TcpListener;
use std::sync::Arc;

use access_model::{AuditKind, Outcome, Rights};
use client::{Client, ClientError, Way};
use opcua_types::{MessageSecurityMode, StatusCode, Variant};
use ua_proto::client::{ClientSessionConfig, Credential, EndpointWish, choose_endpoint};
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::guard::{GuardConfig, UpstreamIdentity};
use zeroize::Zeroizing;

use crate::guarded::{anonymous, guard_as, node, rules, upstream};
use crate::our_client::{identity, options};
use crate::peers::{PATIENCE, Serving, Stack};

pub(crate) fn named(password: &str) -> Credential {
    Credential::UserName { name: "operator".into(), password: Zeroizing::new(password.into()) }
}

fn certified(name: &str) -> Credential {
    Credential::Certificate(Arc::new(identity(name)))
}

/// What a service answered.
pub(crate) fn status(error: &ClientError) -> Option<StatusCode> {
    match error {
        ClientError::Call(error) => error.status(),
        _ => None,
    }
}

/// A guard that is nobody in particular, and this one for sessions with the role `operator`.
pub(crate) async fn behind(server: &Serving, name: &str, credential: Credential) -> GuardConfig {
    let endpoints = client::endpoints(&server.url, PATIENCE).await.expect("the server answers");
    let wish = EndpointWish {
        policies: vec![SecurityPolicyId::Basic256Sha256],
        modes: vec![MessageSecurityMode::SignAndEncrypt],
        identities: vec![credential.kind()],
        danger_clear_secrets: false,
    };
    let choice = choose_endpoint(&endpoints, &wish).expect("the server takes such users");
    let own = options(server, name, identity("trapkey"));
    let session = ClientSessionConfig {
        identity: own.identity,
        trust: own.trust,
        request_timeout: PATIENCE,
        ..ClientSessionConfig::new(&server.url, choice, own.application)
    };
    let mut config = GuardConfig::new(upstream(&server.url, &endpoints), Credential::Anonymous, rules());
    config.limits.connect_timeout = PATIENCE;
    let user = UpstreamIdentity { role: Some("operator".into()), session: Arc::new(session), credential };
    config.upstream.insert(0, user);
    config
}

/// Each identity that the server knows serves the role; one that it does not know is recorded with the server's status, and
/// the client hears that there is no upstream session.
async fn is_somebody(stack: Stack) {
    let Some(program) = stack.program("server") else { return };
    let name = format!("{}-server", stack.name());
    let server = Serving::start(&program, &name, &["trapkey", "user"], &[]);
    for (rule, credential, known) in [
        ("a name and its password", named("secret"), true),
        ("a wrong password", named("wrong"), false),
        ("a certificate that is trusted", certified("user"), true),
        ("a certificate that is not", certified("milo"), false),
    ] {
        let rule = format!("{name}, {rule}");
        let config = behind(&server, &name, credential).await;
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
        let (guarding, url, mut records) = guard_as(Way::Dial, listener, config, Rights::ALL);
        let client = Client::connect(anonymous(&url)).await;
        if known {
            let client = client.unwrap_or_else(|error| panic!("{rule}: {error}"));
            let setpoint = node(&client, "Line.Setpoint").await;
            let written = client.write(vec![(setpoint, Variant::Double(47.5))]).await.expect("it is answered");
            assert_eq!(written, [StatusCode::Good], "{rule}");
            client.close().await;
        } else {
            let status = match client {
                Err(error) => status(&error),
                Ok(client) => client.namespaces().await.err().as_ref().and_then(status),
            };
            assert_eq!(status, Some(StatusCode::BadServerNotConnected), "{rule}");
            let failed = async {
                loop {
                    let record = records.recv().await.expect("the guard runs");
                    if let (AuditKind::Contact, Outcome::Failed(status)) = (record.kind, record.outcome) {
                        return StatusCode::from(status);
                    }
                }
            };
            let told = tokio::time::timeout(PATIENCE, failed).await.unwrap_or_else(|_| panic!("{rule}: no record"));
            assert!(told.is_bad() && told != StatusCode::BadConnectionRejected, "{rule}: {told}");
        }
        guarding.stop().await;
    }
}

#[tokio::test]
async fn a_guard_is_somebody_at_asyncua_servers() {
    is_somebody(Stack::Asyncua).await;
}

#[tokio::test]
async fn a_guard_is_somebody_at_node_opcua_servers() {
    is_somebody(Stack::NodeOpcua).await;
}

#[tokio::test]
async fn a_guard_is_somebody_at_milo_servers() {
    is_somebody(Stack::Milo).await;
}

#[tokio::test]
async fn a_guard_is_somebody_at_open62541_servers() {
    is_somebody(Stack::Open62541).await;
}
