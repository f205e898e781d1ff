//! Everybody's client, through a guard, at everybody's server: each step of `interop/README.md`, signing in without a token
//! by name or certificate; and ours, whose token is renewed while changes come.

use std::net::TcpListener;
use std::time::Duration;

use access_model::Rights;
use client::{Client, Login, WatchOptions, Way};
use gates::opcua::guard::GuardHandle;
use opcua_types::{DataValue, StatusCode, Variant};
use tokio::runtime::Builder;
use tokio::time::timeout;
use ua_proto::guard::GuardConfig;

use crate::front::{Front, Tokens};
use crate::guarded::{anonymous, next, node, overflowed};
use crate::identities::{behind, named};
use crate::our_client::identity;
use crate::peers::{PATIENCE, Serving, Stack, Step, certificate, run_steps};

/// Ticks of a server that was started anew never come to so many while a test runs.
const MANY: &str = "1000000";

pub(crate) const CLIENTS: [Stack; 4] = [Stack::Asyncua, Stack::NodeOpcua, Stack::Milo, Stack::Open62541];

/// A guard in front of a server; `None` is our own.
pub(crate) struct Guarded {
    pub(crate) server: Serving,
    stack: Option<Stack>,
    behind: GuardConfig,
    pub(crate) tokens: Tokens,
}

impl Guarded {
    pub(crate) async fn new(stack: Option<Stack>) -> Option<Self> {
        let (program, options) = match stack {
            Some(stack) => (stack.program("server")?, &["--history", "--many", "--ticks", MANY][..]),
            None => (Stack::Asyncua.program("server").map(|_| crate::our_server::example())?, &["--ticks", MANY][..]),
        };
        let name = stack.map_or("trapkey".to_owned(), |stack| format!("{}-server", stack.name()));
        let server = Serving::start(&program, &name, &["trapkey"], options);
        // Somebody there: an anonymous user's subscriptions go to no other session of an open62541 server.
        let behind = behind(&server, &name, named("secret")).await;
        Some(Self { server, stack, behind, tokens: Tokens::new() })
    }

    pub(crate) fn name(&self) -> &'static str {
        self.stack.map_or("trapkey", Stack::name)
    }

    pub(crate) fn start(&self, listener: TcpListener) -> (GuardHandle, String) {
        let (guarding, url, mut records) = Front::secured(&self.tokens).guard(Way::Dial, listener, self.behind.clone());
        tokio::spawn(async move { while records.recv().await.is_some() {} });
        (guarding, url)
    }

    /// What this client does at this server. Nobody but node-opcua transfers subscriptions unless it has to, asyncua's
    /// client links no items, and its server does neither.
    fn steps(&self, client: Stack) -> Vec<&'static str> {
        let mut steps = vec!["connect", "browse", "many", "read", "write", "past", "call", "subscribe"];
        let able = !matches!(self.stack, Some(Stack::Asyncua));
        if able && !matches!(client, Stack::Asyncua) {
            steps.push("trigger");
        }
        if able && matches!(client, Stack::NodeOpcua) {
            steps.push("transfer");
        }
        steps.push("reconnect");
        steps
    }
}

/// Behind a guard, each server on a thread of its own: most of it is waiting. Gives back what went wrong.
pub(crate) fn at_each_server<F: Future<Output = Vec<String>>>(
    what: impl Fn(Guarded, (GuardHandle, String)) -> F + Copy + Send + 'static,
) -> Vec<String> {
    let at = move |stack| {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let Some(guarded) = Guarded::new(stack).await else { return Vec::new() };
            let started = guarded.start(TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port"));
            what(guarded, started).await
        })
    };
    let servers = CLIENTS.map(Some).into_iter().chain([None]);
    let threads: Vec<_> = servers.map(|stack| std::thread::spawn(move || at(stack))).collect();
    threads.into_iter().flat_map(|thread| thread.join().expect("it ends in order")).collect()
}

/// How this client protects what it sends.
pub(crate) fn protection(client: Stack) -> Vec<String> {
    let policy = match client {
        Stack::Asyncua | Stack::Open62541 => "Basic256Sha256",
        Stack::NodeOpcua => "Aes128_Sha256_RsaOaep",
        Stack::Milo => "Aes256_Sha256_RsaPss",
    };
    ["--policy", policy, "--mode", "SignAndEncrypt"].map(str::to_owned).to_vec()
}

/// Half of the clients sign in by name, the others by certificate; or the other way round.
pub(crate) fn sign_in(client: Stack, round: bool) -> Vec<String> {
    let who = if matches!(client, Stack::Asyncua | Stack::Open62541) == round {
        ["--x509".to_owned(), format!("{},{}", certificate("user.der"), certificate("user.key.pem"))]
    } else {
        ["--user".to_owned(), "operator:secret".to_owned()]
    };
    protection(client).into_iter().chain(who).collect()
}

/// Runs a client on a thread of its own; `each` hears of its steps.
pub(crate) async fn run(
    client: Stack,
    url: &str,
    arguments: Vec<String>,
    steps: &[&str],
    mut each: impl FnMut(&Step) + Send + 'static,
) -> Option<Vec<Step>> {
    let (program, url, steps) = (client.program("client")?, url.to_owned(), steps.join(","));
    let running = tokio::task::spawn_blocking(move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(["--steps", &steps]).collect();
        run_steps(&program, client.name(), &url, "trapkey", &arguments, &mut each)
    });
    Some(running.await.expect("the client's thread ends in order"))
}

fn assert_all(rule: &str, expected: &[&str], report: &[Step]) {
    let taken: Vec<(&str, bool)> = report.iter().map(|step| (step.step.as_str(), step.ok)).collect();
    let expected: Vec<(&str, bool)> = expected.iter().map(|step| (*step, true)).collect();
    assert_eq!(taken, expected, "{rule}: {report:#?}");
}

/// One after the other, for each reads back what it wrote.
async fn every_step(guarded: &Guarded, url: &str) {
    for client in CLIENTS {
        let steps = guarded.steps(client);
        let rule = format!("{} at {}", client.name(), guarded.name());
        if let Some(report) = run(client, url, sign_in(client, false), &steps, |_| ()).await {
            assert_all(&rule, &steps, &report);
        }
    }
}

/// Our client browses all of it, and its token is renewed twice between sixty changes: each comes, and comes once. A third
/// token with less in it takes away what it does not give, and nothing else.
async fn our_client(guarded: &Guarded, url: &str) {
    let rule = format!("ours at {}", guarded.name());
    let mut options = anonymous(url);
    let protected = crate::our_client::options(&guarded.server, "trapkey", identity("user"));
    (options.identity, options.trust) = (protected.identity, protected.trust);
    options.application.uri = "urn:trapkey:interop:user".into();
    options.policies = vec![ua_proto::crypto::SecurityPolicyId::Basic256Sha256];
    options.modes = vec![opcua_types::MessageSecurityMode::SignAndEncrypt];
    options.login = Login::ThisToken(guarded.tokens.mint(Rights::ALL));
    let client = Client::connect(options).await.unwrap_or_else(|error| panic!("{rule}: {error}"));
    let many = client.browse(&node(&client, "Line.Many").await).await.expect("it can be browsed");
    assert_eq!(many.iter().filter(|one| one.browse_name.name.as_ref().starts_with("Value")).count(), 1_000, "{rule}");

    let (ticks, setpoint) = (node(&client, "Line.Ticks").await, node(&client, "Line.Setpoint").await);
    let write = async |value: f64| {
        let written = client.write(vec![(setpoint.clone(), Variant::Double(value))]).await.expect("it is answered");
        written.into_iter().next().expect("one status")
    };
    assert_eq!(write(1_000.0).await, StatusCode::Good, "{rule}");
    let watched = [setpoint.clone()];
    let mut watch = client.watch(&watched, WatchOptions::default()).await.expect("Setpoint can be watched");
    let mut heard = async || -> DataValue {
        let change = timeout(PATIENCE, watch.next()).await.unwrap_or_else(|_| panic!("{rule}: a change is lost"));
        change.expect("the client is open").value
    };
    assert_eq!(heard().await.value, Some(Variant::Double(1_000.0)), "{rule}");
    let mut running = client.watch(&[ticks], WatchOptions::default()).await.expect("Ticks can be watched");
    for number in 0_u8..60 {
        if number == 20 || number == 40 {
            client.present(guarded.tokens.mint(Rights::ALL)).await.unwrap_or_else(|error| panic!("{rule}: {error}"));
        }
        assert_eq!(write(number.into()).await, StatusCode::Good, "{rule}");
        let value = heard().await;
        let (good, lost) = (value.status().is_good(), overflowed(&value));
        assert_eq!((good, lost, value.value), (true, false, Some(Variant::Double(number.into()))), "{rule}");
        // Those go on too. A busy computer may miss some; none is left to fill the room for them.
        next(&mut running, &rule).await;
        while timeout(Duration::ZERO, running.next()).await.is_ok_and(|change| change.is_some()) {}
    }
    client.present(guarded.tokens.mint(Rights::READ | Rights::BROWSE)).await.expect("a token with less");
    assert_eq!(write(1.0).await, StatusCode::BadUserAccessDenied, "{rule}");
    for _ in 0..10 {
        next(&mut running, &rule).await;
    }
    client.close().await;
}

async fn all_clients(stack: Option<Stack>) {
    let Some(guarded) = Guarded::new(stack).await else { return };
    let (guarding, url) = guarded.start(TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port"));
    our_client(&guarded, &url).await;
    every_step(&guarded, &url).await;
    guarding.stop().await;
}

#[tokio::test]
async fn all_clients_work_at_guarded_asyncua_servers() {
    all_clients(Some(Stack::Asyncua)).await;
}

#[tokio::test]
async fn all_clients_work_at_guarded_node_opcua_servers() {
    all_clients(Some(Stack::NodeOpcua)).await;
}

#[tokio::test]
async fn all_clients_work_at_guarded_milo_servers() {
    all_clients(Some(Stack::Milo)).await;
}

#[tokio::test]
async fn all_clients_work_at_guarded_open62541_servers() {
    all_clients(Some(Stack::Open62541)).await;
}

#[tokio::test]
async fn all_clients_work_at_our_guarded_server() {
    all_clients(None).await;
}
