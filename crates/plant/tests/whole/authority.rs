//! An authority that goes away and comes back, and a gate that must not believe what it knew before.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use authority::{Authority, AuthorityConfig, Flow, PolicySource, PolicyTexts, Refreshing, TokenRequest, system_clock};
use client::{CallError, Client, ClientApplication, ClientError, ClientOptions, Login};
use gates::control::Subscription;
use gates::https::{HttpsClient, Target, client_config};
use gates::opcua::wiring::wrong_credentials;
use opcua_types::{MessageSecurityMode, StatusCode};
use pep::{Contact, FailMode, GateConfig, GateEvent};
use plant::equipment::{Station, node_id};
use plant::station::Running;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use store::{ApplicationKind, CheckpointKey, Db, KeyKind, Ledger, LedgerConfig};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use ua_proto::channel::ChannelConfig;
use ua_proto::server::{Identities, IssuedTokens, IssuerEndpoint, ServerConfig, ServerLimits, TokenForm};
use zeroize::Zeroizing;

use crate::common::{PATIENCE, POLICY, Party, eventually, listen, sink, trust};

const AUTHORITY: &str = "urn:trapkey:demo:authority";
const MIXER: &str = "urn:trapkey:demo:mixer";
const DASHBOARD: &str = "urn:trapkey:demo:dashboard";
const SILENCE: Duration = Duration::from_millis(1_500);

struct World {
    folder: tempfile::TempDir,
    authority: Authority,
    https: SocketAddr,
    serving: JoinHandle<()>,
    _stop: watch::Sender<bool>,
    mixer: Running,
    ledger: Ledger,
    parties: [Party; 3],
}

fn texts() -> PolicyTexts {
    PolicyTexts {
        plant: include_str!("../../../../examples/batch-plant/plant.toml").into(),
        policies: include_str!("../../../../examples/batch-plant/policies.cedar").into(),
        workflow: Some(include_str!("../../../../examples/batch-plant/workflow.toml").into()),
    }
}

async fn serve(
    authority: &Authority,
    party: &Party,
    at: SocketAddr,
) -> (JoinHandle<()>, watch::Sender<bool>, SocketAddr) {
    let mut bound = tokio::net::TcpListener::bind(at).await;
    for _ in 0..2_400 {
        if bound.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
        bound = tokio::net::TcpListener::bind(at).await;
    }
    let listener = bound.unwrap();
    let address = listener.local_addr().unwrap();
    let chain = vec![CertificateDer::from(party.made.der.clone())];
    let key = PrivateKeyDer::try_from(party.made.key_der.to_vec()).unwrap();
    let tls = authority::server_config(chain, key).unwrap();
    let (stop, stopped) = watch::channel(false);
    (tokio::spawn(authority::serve(listener, tls, authority.clone(), stopped)), stop, address)
}

impl World {
    async fn start(fail_mode: FailMode) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = CheckpointKey::generate(KeyKind::Ed25519).unwrap();
        let ledger = Ledger::open(&folder.path().join("audit"), LedgerConfig::default(), key).unwrap();
        let parties = [AUTHORITY, MIXER, DASHBOARD].map(|uri| Party::new("party", uri));
        let [own, mixer, dashboard] = &parties;
        let db = Db::in_memory().await.unwrap();
        for (uri, party, kind) in
            [(MIXER, mixer, ApplicationKind::Server), (DASHBOARD, dashboard, ApplicationKind::Client)]
        {
            let application = store::Application {
                uri: uri.into(),
                name: uri.into(),
                kind,
                certificates: vec![party.identity.certificate.thumbprint()],
                secret_hash: None,
                enabled: true,
                created: gates::clock::now().unix,
            };
            db.put_application(&application).await.unwrap();
        }
        let config = AuthorityConfig {
            heartbeat: Duration::from_millis(300),
            ..AuthorityConfig::new("https://127.0.0.1/trapkey-test")
        };
        let authority =
            Authority::open(config, PolicySource::Texts(texts()), db, ledger.clone(), system_clock()).await.unwrap();
        let (serving, stop, https) = serve(&authority, own, ([127, 0, 0, 1], testkit::ports::free()).into()).await;
        let station = station(&authority, &parties, &ledger, https, fail_mode);
        Self { folder, authority, https, serving, _stop: stop, mixer: station, ledger, parties }
    }

    async fn stop_authority(&mut self) {
        self.serving.abort();
        let _aborted = (&mut self.serving).await;
    }

    async fn start_authority(&mut self) {
        let (serving, stop, _) = serve(&self.authority, &self.parties[0], self.https).await;
        (self.serving, self._stop) = (serving, stop);
    }

    /// A client with a token of its own, and the token's id.
    async fn client(&self) -> (Client, String) {
        let [_, mixer, dashboard] = &self.parties;
        let request = TokenRequest {
            flow: Flow::RequestToken,
            person: Some("quinn".into()),
            application: DASHBOARD.into(),
            confirmation: dashboard.identity.certificate.thumbprint(),
            audience: MIXER.into(),
            roles: None,
            break_glass: None,
            padding: 0,
            refresh: Refreshing::No,
            address: None,
        };
        let issued = self.authority.issue(&request).await.unwrap();
        let application =
            ClientApplication { uri: DASHBOARD.into(), product_uri: "urn:test".into(), name: "test".into() };
        let mut options = ClientOptions::new(format!("opc.tcp://{}", self.mixer.handle.address()), application);
        options.identity = Some(Arc::clone(&dashboard.identity));
        options.trust = Some(trust(&[&mixer.identity]));
        options.policies = vec![POLICY];
        options.login = Login::ThisToken(Zeroizing::new(issued.token.as_bytes().to_vec()));
        options.request_timeout = PATIENCE;
        options.session_timeout = PATIENCE * 10;
        (Client::connect(options).await.unwrap(), issued.id)
    }

    /// What the ledger says about the gate's contact, in order.
    fn contact(&self) -> Vec<(String, Option<String>)> {
        let entries = store::tail(&self.folder.path().join("audit"), usize::MAX).unwrap();
        let modes = entries.into_iter().filter(|entry| entry.kind == "fail_mode" && entry.object == "authority");
        modes.map(|entry| (entry.detail, entry.reason)).collect()
    }

    async fn end(self) {
        self.mixer.handle.stop().await;
        self.serving.abort();
        self.ledger.close().await;
    }
}

fn station(
    authority: &Authority,
    parties: &[Party; 3],
    ledger: &Ledger,
    https: SocketAddr,
    fail_mode: FailMode,
) -> Running {
    let [own, mixer, dashboard] = parties;
    let listener = listen();
    let endpoints = vec![(POLICY, MessageSecurityMode::SignAndEncrypt)];
    let identity = Arc::new(arc_swap::ArcSwap::new(Arc::clone(&mixer.identity)));
    let issuer = IssuerEndpoint {
        resource_id: MIXER.into(),
        authority_url: "opc.tcp://127.0.0.1:1".into(),
        profile_uri: IssuerEndpoint::PROFILE_OPCUA.into(),
        token_endpoint: None,
        authorization_endpoint: None,
        request_types: Vec::new(),
        scopes: Vec::new(),
    };
    let config = ServerConfig {
        application_uri: MIXER.into(),
        product_uri: "urn:test".into(),
        application_name: "mixer".into(),
        endpoint_urls: vec![format!("opc.tcp://{}", listener.local_addr().unwrap())],
        channel: Arc::new(ChannelConfig::new(identity, trust(&[&dashboard.identity]), endpoints.clone())),
        endpoints,
        identities: Identities {
            issued: Some(IssuedTokens { issuer, forms: vec![TokenForm::Clear] }),
            ..Identities::default()
        },
        limits: ServerLimits::default(),
        audit: ua_proto::server::AuditConfig::default(),
        write_ranges: Vec::new(),
    };
    let gate = |map| {
        let mut gate = GateConfig::new(MIXER, map);
        let issuer = authority.issuer();
        gate.contact = Some(Contact { issuer: issuer.name.clone(), timeout: SILENCE, fail_mode });
        gate.issuers = vec![issuer];
        gate
    };
    let snapshot = authority.snapshot();
    let (events, mut happened) = mpsc::unbounded_channel();
    let setup = plant::station::Setup {
        node_sets: &[],
        import: ua_proto::space::ImportOptions::default(),
        station: Station::Mixer,
        server: snapshot.plant().server(MIXER).unwrap().1,
        listener,
        config,
        gate: &gate,
        audit: sink(ledger.clone()),
        pool: gates::pool::Pool::new(2, 64).unwrap(),
        passwords: Arc::new(|_| Box::pin(async { Err(wrong_credentials()) })),
        line: Arc::default(),
        events,
        pki: None,
    };
    let running = plant::station::start(setup, gates::clock::now()).unwrap();
    let proof = (vec![mixer.made.der.clone()], mixer.made.key_der.to_vec());
    let tls = client_config([own.made.der.clone()], Some(proof)).unwrap();
    let subscription = Subscription {
        https: HttpsClient::new(tls, PATIENCE),
        authority: Target { host: "127.0.0.1".into(), port: https.port(), path: String::new() },
        audience: MIXER.into(),
        silence: SILENCE,
    };
    let gap = Arc::new(Notify::new());
    tokio::spawn(gates::control::follow(subscription, running.handle.clone(), Arc::clone(&gap)));
    tokio::spawn(async move {
        while let Some(event) = happened.recv().await {
            if event == GateEvent::NeedFullList {
                gap.notify_one();
            }
        }
    });
    running
}

/// What a read of a measurement comes to.
async fn read(client: &Client) -> StatusCode {
    match client.read(&[node_id("Mixer.Measurements.Level")]).await {
        Ok(values) => values[0].status(),
        Err(ClientError::Call(CallError::Service(status))) => status,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_authority_closes_its_gate_and_what_it_revoked_meanwhile_never_comes_back() {
    let mut world = World::start(FailMode::Closed).await;
    let (stays, _) = world.client().await;
    let (revoked, token) = world.client().await;
    for client in [&stays, &revoked] {
        eventually("the gate is in step", async || read(client).await.is_good()).await;
    }
    world.stop_authority().await;
    for client in [&stays, &revoked] {
        eventually("without its authority the gate serves nothing", async || {
            read(client).await == StatusCode::BadUserAccessDenied
        })
        .await;
    }
    let lost = ("Closed".to_owned(), Some("authority_lost".to_owned()));
    eventually("the ledger tells", async || world.contact().last() == Some(&lost)).await;

    let by = access_model::Actor::default();
    assert_eq!(world.authority.revoke(&token, &by, "left the company").await.unwrap(), Some(true));
    assert_eq!(read(&stays).await, StatusCode::BadUserAccessDenied, "nobody told the gate");
    world.start_authority().await;
    eventually("the gate serves again", async || {
        let (gone, back) = (read(&revoked).await, read(&stays).await);
        assert_eq!(gone, StatusCode::BadUserAccessDenied, "what was revoked meanwhile is never served");
        back.is_good()
    })
    .await;
    assert_eq!(read(&revoked).await, StatusCode::BadUserAccessDenied);
    let found = ("InStep".to_owned(), None);
    eventually("the ledger tells this too", async || world.contact().last() == Some(&found)).await;
    assert!(store::verify(&world.folder.path().join("audit"), None).unwrap().is_intact());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authority_that_hangs_without_a_word_is_lost_all_the_same() {
    let mut world = World::start(FailMode::LastKnownGood(Duration::from_secs(3))).await;
    let (client, _) = world.client().await;
    eventually("the gate is in step", async || read(&client).await.is_good()).await;
    world.stop_authority().await;
    // Somebody listens there and says nothing: connections succeed, no update ever comes.
    let silent = tokio::net::TcpListener::bind(world.https).await.unwrap();
    let lost = ("LastKnown".to_owned(), Some("authority_lost".to_owned()));
    eventually("the ledger tells", async || world.contact().contains(&lost)).await;
    eventually("what was known last counts for a while only", async || {
        read(&client).await == StatusCode::BadUserAccessDenied
    })
    .await;
    drop(silent);
    world.start_authority().await;
    eventually("the gate serves again", async || read(&client).await.is_good()).await;
    world.end().await;
}
