//! The calls to the authority: our client and our authority over real sockets, and between them a tap that keeps what it hands on.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use client::{AuthorityProfile, Client, ClientOptions, Login, TokenIssuer};
use cost::algorithm::Key;
use cost::choose::Mode;
use cost::protocol::opcua::Channel;
use cost::protocol::tls::Tls;
use cost::protocol::tokens::{Asker, Flow, Tokens};
use cost::protocol::{Party, Phase, lines};
use gates::https::Target;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use ua_proto::crypto::{KeyUses, SecurityPolicyId};
use ua_proto::space::{NodeRef, Space, SpaceConfig, gds};

use super::lengths::{compare, messages, near};
use super::support::{AUTHORITY, People, old_service};
use super::wire::chunks;
use super::world::{SECRET, World, password, service};
use super::{private, rows};

/// The key that signs tokens, and one that nothing here has.
const SIGNS: Key = Key::Ecdsa(256);
const TOKENS: Key = Key::Ed448;

/// What went over one connection: from the client, to the client.
type Ways = [Vec<u8>; 2];

/// Hands on what comes for somebody else.
struct Tap {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Ways>>>,
}

impl Tap {
    async fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(to).await.unwrap();
                let at = {
                    let mut all = kept.lock().unwrap();
                    all.push(Ways::default());
                    all.len() - 1
                };
                let ((up, answer), (down, ask)) = (near.into_split(), far.into_split());
                tokio::spawn(hand_on(up, ask, Arc::clone(&kept), (at, 0)));
                tokio::spawn(hand_on(down, answer, Arc::clone(&kept), (at, 1)));
            }
        });
        Self { address, seen }
    }

    /// What went over each connection since this was asked last.
    fn take(&self) -> Vec<Ways> {
        self.seen.lock().unwrap().iter_mut().map(std::mem::take).collect()
    }
}

/// Kept before it is handed on: who got an answer finds it here.
async fn hand_on(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    seen: Arc<Mutex<Vec<Ways>>>,
    (at, way): (usize, usize),
) {
    let mut bytes = vec![0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        seen.lock().unwrap()[at][way].extend_from_slice(&bytes[..count]);
        if to.write_all(&bytes[..count]).await.is_err() {
            break;
        }
    }
    let _gone = to.shutdown().await;
}

/// A node, as `trapkey up` tells clients that of its service.
fn told(space: &Space, service: NodeRef) -> String {
    let id = space.id(service);
    format!("nsu={};{}", space.namespaces()[usize::from(id.namespace)], id.identifier)
}

/// The nodes of the service that has StartRequestToken, and of that which has RequestAccessToken alone.
fn services(world: &World) -> [String; 2] {
    let mut space = Space::new(SpaceConfig { application_uri: AUTHORITY.into(), namespaces: Vec::new() }).unwrap();
    let nodes = gds::add(&mut space, &service(&world.authority)).unwrap();
    let (old, object, _) = old_service(true);
    [told(&space, nodes.service), told(&old, object)]
}

/// Bytes of a token that the authority gives for such a question.
async fn token_bytes(world: &World, question: &str) -> u64 {
    let (at, https) = &world.https;
    let target = Target::parse(&format!("https://{at}/oauth2/token")).unwrap();
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    let (status, answer) = https.exchange(&target, "POST", "", &headers, question.as_bytes().to_vec()).await.unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert!(status.is_success(), "{answer}");
    answer["access_token"].as_str().unwrap().len() as u64
}

/// Requests and answers over the newest connection that was used; those before it asked for endpoints.
fn calls(seen: &[Ways]) -> [Vec<(String, u64)>; 2] {
    let used = seen.iter().rev().find(|[up, _]| !up.is_empty()).expect("something was sent");
    [0, 1].map(|way| {
        let mut all = Vec::new();
        chunks(&used[way], &mut all);
        all.into_iter().filter(|(kind, _)| kind == "MSG").collect()
    })
}

fn compare_calls(rule: &str, phases: &[Phase], real: &[Vec<(String, u64)>; 2], skip: usize, far: &mut Vec<String>) {
    let model = lines(phases);
    for (by, sent) in [Party::Client, Party::Authority].into_iter().zip(real) {
        let model = messages(&model, by);
        assert_eq!(model.len(), sent.len() - skip, "{rule}: {model:?} {sent:?}");
        compare(rule, &model, &sent[skip..], far);
    }
}

/// Every policy once, its RSA keys the shortest: they take their time to make.
fn policies() -> Vec<(SecurityPolicyId, Channel)> {
    let mut all: Vec<(SecurityPolicyId, Channel)> = Vec::new();
    for row in rows() {
        let key = if let Key::Rsa(_) = row.key { Key::Rsa(2048) } else { row.key };
        // Calls to the authority are encrypted: without a policy there are none.
        let channel = Channel::new(row.policy, Mode::SignAndEncrypt, key);
        all.extend(
            channel.filter(|_| all.iter().all(|(real, _)| *real != row.real)).map(|channel| (row.real, channel)),
        );
    }
    all
}

/// A first token and the next, for everybody who may ask, over every policy.
#[tokio::test]
async fn calls_over_opc_ua_are_about_as_long_as_the_model_says() {
    let mut all = JoinSet::new();
    for (policy, channel) in policies() {
        all.spawn(calls_with(policy, channel));
    }
    let far = all.join_all().await.concat();
    assert!(far.is_empty(), "{} messages:\n{}", far.len(), far.join("\n"));
}

/// What is too long or too short; how often the authority uses its key is held exactly.
async fn calls_with(policy: SecurityPolicyId, channel: Channel) -> Vec<String> {
    let world = World::of(People::of(policy).await).await;
    let old = world.start_old();
    let taps = [Tap::start(world.opcua.address()).await, Tap::start(old.address()).await];
    let services = services(&world);
    let typed = SECRET.len() as u64;
    let two: fn(Channel) -> Flow = Flow::StartFinish;
    let one: fn(Channel) -> Flow = Flow::RequestAccessToken;
    let mut far = Vec::new();
    for (rule, flow, login, asker) in [
        ("an application", two, Login::Anonymous, Asker::Application),
        ("a session with a password", two, password(), Asker::Session(typed)),
        ("a password in the method", two, password(), Asker::Explicit(typed)),
        ("an application, one call", one, Login::Anonymous, Asker::Application),
        ("a session with a password, one call", one, password(), Asker::Session(typed)),
    ] {
        let rule = format!("{} {rule}", channel.policy.word());
        let explicit = matches!(asker, Asker::Explicit(_));
        let flow = flow(channel);
        let at = usize::from(matches!(flow, Flow::RequestAccessToken(_)));
        let mut options: ClientOptions = world.options(login);
        options.issuer = Some(TokenIssuer {
            authority_url: format!("opc.tcp://{}", taps[at].address),
            token_endpoint: Some(services[at].clone()),
            ..world.issuer(AuthorityProfile::OpcUa, explicit)
        });
        taps[at].take();
        let before = world.people.authority.key.uses();
        let client = Client::connect(options).await.unwrap();
        let asked = calls(&taps[at].take());
        let bytes = world.token.load(std::sync::atomic::Ordering::Relaxed);
        let tokens = Tokens { asker, bytes, signature: SIGNS, refresh_token: explicit, ..Tokens::new(flow) };
        let opened = uses(&world, before);
        let other = Tokens { signature: TOKENS, ..tokens.clone() };
        assert_eq!(opened, at_authority(&[other.connect(), other.fetch()].concat()), "{rule}");
        let found = tokens.connect().into_iter().filter(|phase| phase.name == "service found");
        let phases: Vec<Phase> = found.chain(tokens.fetch()).collect();
        // CreateSession and ActivateSession stand in front.
        compare_calls(&rule, &phases, &asked, 2, &mut far);
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let before = world.people.authority.key.uses();
        client.renew().await.unwrap();
        let rule = format!("{rule}, again");
        assert_eq!(uses(&world, before), at_authority(&other.fetch_again()), "{rule}");
        compare_calls(&rule, &tokens.fetch_again(), &calls(&taps[at].take()), 0, &mut far);
        client.close().await;
    }
    far
}

/// Signatures and decryptions with the key of the authority's certificate since then.
fn uses(world: &World, before: KeyUses) -> (u64, u64) {
    let now = world.people.authority.key.uses();
    (now.signatures - before.signatures, now.decryptions - before.decryptions)
}

/// The same in the model, where tokens are signed with a key that no certificate has.
fn at_authority(phases: &[Phase]) -> (u64, u64) {
    let all = lines(phases).into_iter().filter(|line| line.operation != format!("sign {TOKENS}"));
    private(&all.collect::<Vec<_>>(), Party::Authority)
}

/// Bytes of the last record of TLS, with its header.
fn last_record(mut sent: &[u8]) -> Option<u64> {
    let mut last = None;
    while let [_, _, _, high, low, rest @ ..] = sent {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        last = Some(5 + length as u64);
        sent = &rest[length..];
    }
    last
}

/// Each token comes over a connection of its own, the later ones over resumed ones; all bytes of it are compared, each way.
#[tokio::test]
async fn tokens_over_https_are_about_as_long_as_the_model_says() {
    let world = World::new().await;
    let tap = Tap::start(world.https.0).await;
    let mut far = Vec::new();
    let typed = SECRET.len() as u64;
    let to = "resource=urn%3Atest%3Amixer&client_id=urn%3Atest%3Aclient";
    let (whole, exchange) =
        ("grant_type=client_credentials", "grant_type=urn:ietf:params:oauth:grant-type:token-exchange");
    let olga = format!(
        "{exchange}&subject_token_type=urn:trapkey:token-type:password&username=olga&subject_token={}",
        SECRET.replace(' ', "%20")
    );
    for (nth, (rule, login, asker, question)) in [
        ("an application", Login::Anonymous, Asker::Application, format!("{whole}&{to}")),
        ("a person", password(), Asker::Session(typed), format!("{olga}&{to}")),
    ]
    .into_iter()
    .enumerate()
    {
        let person = asker != Asker::Application;
        let mut options = world.https(login);
        options.issuer = Some(TokenIssuer {
            authority_url: format!("https://{}", tap.address),
            token_endpoint: Some("/oauth2/token".into()),
            ..world.issuer(AuthorityProfile::OAuth2, false)
        });
        tap.take();
        let client = Client::connect(options).await.unwrap();
        // Its connection is over then, and the token may be renewed.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let asked = tap.take();
        client.renew().await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let again = tap.take();
        client.close().await;
        let bytes = token_bytes(&world, &question).await;
        let own = Key::Rsa(2048);
        let full = Tls { client: Some(own), ..Tls::ours(own) };
        let tokens = |resumed| Tokens {
            asker,
            bytes,
            refresh_token: person,
            ..Tokens::new(Flow::OAuth2(Tls { resumed, ..full }))
        };
        // The sessions of TLS are those of the program, whoever asks.
        let first = tokens(if nth == 0 { 0.0 } else { 1.0 });
        let next = tokens(1.0);
        for (rule, phases, seen) in [
            (rule.to_owned(), [first.connect(), first.fetch(), first.disconnect()].concat(), asked),
            (format!("{rule}, again"), [next.connect(), next.fetch_again(), next.disconnect()].concat(), again),
        ] {
            let used: Vec<&Ways> = seen.iter().filter(|[up, _]| !up.is_empty()).collect();
            assert_eq!(used.len(), 1, "{rule}: a connection for each token");
            let model = lines(&phases);
            for (by, sent) in [Party::Client, Party::Authority].into_iter().zip(used[0]) {
                let model = messages(&model, by);
                // The last record of either end is its alert that it will send nothing more.
                assert_eq!(last_record(sent), model.last().map(|(_, bytes)| *bytes), "{rule}: {by:?}");
                let model: u64 = model.iter().map(|(_, bytes)| bytes).sum();
                if !near(model, sent.len() as u64) {
                    far.push(format!("{rule}: {} sends {model} B in the model, and {} B", by.word(), sent.len()));
                }
            }
        }
    }
    assert!(far.is_empty(), "{} connections:\n{}", far.len(), far.join("\n"));
}
