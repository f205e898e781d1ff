//! Our client against their servers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use client::{Client, ClientApplication, ClientOptions, Login, Watch, WatchOptions};
use opcua_types::{MessageSecurityMode, NodeId, ObjectId, Variant};
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::pki::{OwnIdentity, TrustList};
use zeroize::Zeroizing;

use crate::peers::{PATIENCE, Serving, Stack, certificate};

const NAMESPACE: &str = "nsu=urn:trapkey:interop;s=";

/// One of our identities of interop/certs.sh.
pub(crate) fn identity(name: &str) -> OwnIdentity {
    let (certificate, key) = (certificate(&format!("{name}.der")), certificate(&format!("{name}.key.pem")));
    gates::pki::identity(Path::new(&certificate), Path::new(&key)).expect("a key of interop/certs.sh")
}

/// Options for a server that shows the certificate `shown`.
pub(crate) fn options(server: &Serving, shown: &str, own: OwnIdentity) -> ClientOptions {
    let application = ClientApplication {
        uri: "urn:trapkey:interop:trapkey".into(),
        product_uri: "urn:trapkey".into(),
        name: "interop".into(),
    };
    let mut options = ClientOptions::new(&server.url, application);
    let shown = gates::pki::certificate(Path::new(&certificate(&format!("{shown}.der"))));
    let mut trust = TrustList::default();
    trust.trusted.push(Arc::new(shown.expect("a certificate of interop/certs.sh")));
    options.identity = Some(Arc::new(own));
    options.trust = Some(Arc::new(ArcSwap::from_pointee(trust)));
    options.request_timeout = PATIENCE;
    options
}

fn ordinary(server: &Serving, stack: Stack) -> ClientOptions {
    options(server, &format!("{}-server", stack.name()), identity("trapkey"))
}

pub(crate) fn encrypted(server: &Serving, stack: Stack) -> ClientOptions {
    let mut options = ordinary(server, stack);
    options.policies = vec![SecurityPolicyId::Basic256Sha256];
    options.modes = vec![MessageSecurityMode::SignAndEncrypt];
    options.login = Login::UserName { name: "operator".into(), password: Zeroizing::new("secret".into()) };
    options
}

fn open(server: &Serving, stack: Stack) -> ClientOptions {
    let mut options = ordinary(server, stack);
    options.policies = vec![SecurityPolicyId::None];
    options.modes = vec![MessageSecurityMode::None];
    options.login = Login::Anonymous;
    options
}

async fn node(client: &Client, name: &str) -> NodeId {
    let id = client.node_id(&format!("{NAMESPACE}{name}")).await.expect("the namespaces can be read");
    id.expect("the server has the namespace")
}

/// Connect, browse, read, write, call, 60 changes; then all over again on a new connection.
pub(crate) async fn every_step(options: ClientOptions, rule: &str) {
    for round in ["the first time", "again"] {
        let client = Client::connect(options.clone()).await.unwrap_or_else(|error| panic!("{rule}, {round}: {error}"));
        let line = node(&client, "Line").await;
        let names = |of: Vec<opcua_types::ReferenceDescription>| -> Vec<String> {
            of.into_iter().map(|reference| reference.browse_name.name.as_ref().to_owned()).collect()
        };
        let top = names(client.browse(&ObjectId::ObjectsFolder.into()).await.expect("Objects can be browsed"));
        assert!(top.iter().any(|name| name == "Line"), "{rule}: {top:?}");
        let inside = names(client.browse(&line).await.expect("Line can be browsed"));
        for name in ["Ticks", "Setpoint", "Add"] {
            assert!(inside.iter().any(|found| found == name), "{rule}: {name} is not among {inside:?}");
        }

        let (ticks, setpoint) = (node(&client, "Line.Ticks").await, node(&client, "Line.Setpoint").await);
        let value = client.read(std::slice::from_ref(&ticks)).await.expect("Ticks can be read").remove(0);
        assert!(matches!(value.value, Some(Variant::UInt32(_))), "{rule}: {value:?}");
        let written =
            client.write(vec![(setpoint.clone(), Variant::Double(45.5))]).await.expect("Setpoint can be written");
        assert!(written.iter().all(|status| status.is_good()), "{rule}: {written:?}");
        let back = client.read(&[setpoint]).await.expect("Setpoint can be read").remove(0);
        assert_eq!(back.value, Some(Variant::Double(45.5)), "{rule}");

        let inputs = vec![Variant::Double(1.5), Variant::Double(2.25)];
        let sum = client.call(line, node(&client, "Line.Add").await, inputs).await.expect("Add can be called");
        assert_eq!(sum.output_arguments, Some(vec![Variant::Double(3.75)]), "{rule}: {sum:?}");

        let watch = WatchOptions {
            publishing_interval: Duration::from_millis(50),
            sampling_interval: Duration::from_millis(20),
            ..WatchOptions::default()
        };
        let mut watch = client.watch(&[ticks], watch).await.expect("Ticks can be watched");
        assert!(watch.results().iter().all(|status| status.is_good()), "{rule}: {:?}", watch.results());
        sixty_changes(&mut watch, rule).await;
        drop(watch);
        client.close().await;
    }
}

async fn sixty_changes(watch: &mut Watch, rule: &str) {
    for seen in 0..60 {
        let change = watch.next().await.unwrap_or_else(|| panic!("{rule}: only {seen} changes"));
        assert!(matches!(change.value.value, Some(Variant::UInt32(_))), "{rule}: {change:?}");
    }
}

/// Policies and modes, each with who logs in: all that the stacks have beside ECC.
const SECURED: [(SecurityPolicyId, MessageSecurityMode, bool); 6] = [
    (SecurityPolicyId::Basic256Sha256, MessageSecurityMode::SignAndEncrypt, true),
    (SecurityPolicyId::Basic256Sha256, MessageSecurityMode::Sign, false),
    (SecurityPolicyId::Aes128Sha256RsaOaep, MessageSecurityMode::Sign, true),
    (SecurityPolicyId::Aes128Sha256RsaOaep, MessageSecurityMode::SignAndEncrypt, false),
    (SecurityPolicyId::Aes256Sha256RsaPss, MessageSecurityMode::SignAndEncrypt, true),
    (SecurityPolicyId::Aes256Sha256RsaPss, MessageSecurityMode::Sign, false),
];

fn secured(server: &Serving, stack: Stack, way: (SecurityPolicyId, MessageSecurityMode, bool)) -> ClientOptions {
    let (policy, mode, by_name) = way;
    let mut options = encrypted(server, stack);
    options.policies = vec![policy];
    options.modes = vec![mode];
    if !by_name {
        options.login = Login::Certificate(Arc::new(identity("user")));
    }
    options
}

async fn works_with(stack: Stack) {
    let Some(program) = stack.program("server") else { return };
    let name = format!("{}-server", stack.name());
    let server = Serving::start(&program, &name, &["trapkey", "user"], &[]);
    every_step(open(&server, stack), "None, anonymous").await;
    for way in SECURED {
        let who = if way.2 { "user name" } else { "user certificate" };
        every_step(secured(&server, stack, way), &format!("{} {:?}, {who}", way.0, way.1)).await;
    }

    let mut guess = encrypted(&server, stack);
    guess.login = Login::UserName { name: "operator".into(), password: Zeroizing::new("guess".into()) };
    assert!(Client::connect(guess).await.is_err(), "{name} takes a wrong password");
}

#[tokio::test]
async fn asyncua_servers_work() {
    works_with(Stack::Asyncua).await;
}

#[tokio::test]
async fn node_opcua_servers_work() {
    works_with(Stack::NodeOpcua).await;
}

#[tokio::test]
async fn milo_servers_work() {
    works_with(Stack::Milo).await;
}

#[tokio::test]
async fn open62541_servers_work() {
    works_with(Stack::Open62541).await;
}
