//! An authority that listens, and clients with certificates.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use access_model::{Actor, Mono, Now, ScopeIndex, Thumbprint, UnixTime};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use store::{Application, ApplicationKind, CheckpointKey, Db, DbConfig, KeyKind, Ledger, LedgerConfig, Sync, User};
use token::{Claims, Expectation, Verified, parse_jwks, verify};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::http::serve_thumbprint;
use crate::{Authority, AuthorityConfig, Clock, PolicySource, PolicyTexts, hash_secret, serve, server_config};

pub(super) const MIXER: &str = "urn:trapkey:demo:mixer";
pub(super) const REACTOR: &str = "urn:trapkey:demo:reactor";
pub(super) const HMI: &str = "urn:trapkey:demo:hmi";
pub(super) const CONTROLLER: &str = "urn:trapkey:demo:controller";
pub(super) const ADMIN: &str = "ada";
pub(super) const SECRET: &str = "correct horse battery staple";

pub(super) fn texts() -> PolicyTexts {
    let more = "\n[[role]]\nname = \"evaluator\"\n[[application]]\nuri = \"urn:pep\"\nroles = [\"evaluator\"]\n";
    PolicyTexts {
        plant: include_str!("../../../../examples/batch-plant/plant.toml").to_owned() + more,
        policies: include_str!("../../../../examples/batch-plant/policies.cedar").to_owned(),
        workflow: Some(include_str!("../../../../examples/batch-plant/workflow.toml").to_owned()),
    }
}

/// A self-signed certificate and its key.
#[derive(Clone)]
pub(super) struct Identity {
    pub chain: Vec<CertificateDer<'static>>,
    key: Vec<u8>,
    pub thumbprint: Thumbprint,
}

impl Identity {
    pub(super) fn new(uri: &str) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.subject_alt_names.push(rcgen::SanType::URI(uri.try_into().unwrap()));
        let der = params.self_signed(&key).unwrap().der().clone();
        Self { thumbprint: serve_thumbprint(&der), chain: vec![der], key: key.serialize_der() }
    }

    /// A certificate that `issuer` has signed, under this serial number.
    pub(super) fn issued(uri: &str, issuer: &rcgen::Issuer<'_, rcgen::KeyPair>, serial: u64) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.subject_alt_names.push(rcgen::SanType::URI(uri.try_into().unwrap()));
        params.serial_number = Some(serial.into());
        let der = params.signed_by(&key, issuer).unwrap().der().clone();
        Self { thumbprint: serve_thumbprint(&der), chain: vec![der], key: key.serialize_der() }
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()))
    }
}

pub(super) struct World {
    pub authority: Authority,
    pub ledger: Ledger,
    pub folder: tempfile::TempDir,
    pub seconds: Arc<AtomicI64>,
    port: u16,
    server: Identity,
    pub hmi: Identity,
    pub controller: Identity,
    pub admin: Identity,
    pub pep: Identity,
    pub mixer: Identity,
    pub stranger: Identity,
    _stop: watch::Sender<bool>,
}

impl World {
    pub(super) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(super) async fn with(change: impl FnOnce(&mut AuthorityConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = PolicySource::Texts(texts());
        Self::open(folder, source, change).await
    }

    pub(super) async fn open(
        folder: tempfile::TempDir,
        source: PolicySource,
        change: impl FnOnce(&mut AuthorityConfig),
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut config = AuthorityConfig::new(format!("https://localhost:{port}"));
        config.key_folder = Some(folder.path().join("keys"));
        change(&mut config);
        let db = database(&folder).await;
        let key = CheckpointKey::generate(KeyKind::Ed25519).unwrap();
        let ledger = Ledger::open(&folder.path().join("audit"), LedgerConfig::default(), key).unwrap();
        let seconds = Arc::new(AtomicI64::new(1_800_000_000));
        let authority = Authority::open(config, source, db, ledger.clone(), clock(&seconds)).await.unwrap();
        let [server, hmi, controller, admin, pep, mixer, stranger] =
            ["urn:authority", HMI, CONTROLLER, ADMIN, "urn:pep", MIXER, "urn:stranger"].map(Identity::new);
        let (stop, stopped) = watch::channel(false);
        let tls = server_config(server.chain.clone(), server.key()).unwrap();
        tokio::spawn(serve(listener, tls, authority.clone(), stopped));
        let world = Self {
            authority,
            ledger,
            folder,
            seconds,
            port,
            server,
            hmi,
            controller,
            admin,
            pep,
            mixer,
            stranger,
            _stop: stop,
        };
        world.register().await;
        world
    }

    async fn register(&self) {
        let db = self.authority.db();
        let secret = hash_secret(SECRET).unwrap();
        for (uri, identity, secret_hash) in [
            (HMI, &self.hmi, Some(secret.clone())),
            (CONTROLLER, &self.controller, None),
            ("urn:pep", &self.pep, None),
            (MIXER, &self.mixer, None),
        ] {
            let application = Application {
                uri: uri.into(),
                name: uri.into(),
                kind: ApplicationKind::Both,
                certificates: vec![identity.thumbprint],
                secret_hash,
                enabled: true,
                created: UnixTime::from_seconds(0),
            };
            db.put_application(&application).await.unwrap();
        }
        for (name, certificates) in [("olga", vec![]), ("sasha", vec![]), (ADMIN, vec![self.admin.thumbprint])] {
            db.put_user(&self.user(name, certificates, Some(secret.clone()))).await.unwrap();
        }
    }

    pub(super) fn user(&self, name: &str, certificates: Vec<Thumbprint>, password_hash: Option<String>) -> User {
        User {
            name: name.into(),
            password_hash,
            certificates,
            roles: vec![],
            groups: vec![],
            enabled: true,
            created: UnixTime::from_seconds(0),
        }
    }

    /// A person with this password, or none, who is let in or not.
    pub(super) async fn put(&self, name: &str, password: Option<&str>, enabled: bool) {
        let hash = password.map(|password| hash_secret(password).unwrap());
        let user = User { enabled, ..self.user(name, vec![], hash) };
        self.authority.db().put_user(&user).await.unwrap();
    }

    /// A connection, TLS ready.
    pub(super) async fn dial(&self, identity: Option<&Identity>) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.server.chain[0].clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = match identity {
            Some(identity) => builder.with_client_auth_cert(identity.chain.clone(), identity.key()).unwrap(),
            None => builder.with_no_client_auth(),
        };
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    pub(super) async fn send(&self, identity: Option<&Identity>, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let stream = self.dial(identity).await;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    }

    pub(super) async fn ask(
        &self,
        identity: Option<&Identity>,
        method: &str,
        path: &str,
        body: Body<'_>,
    ) -> (StatusCode, Value) {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = match body {
            Body::None => request.body(Full::default()),
            Body::Json(value) => request.header("content-type", "application/json").body(Full::from(value.to_string())),
            Body::Form(pairs) => {
                let escape = |text: &str| text.bytes().map(|b| format!("%{b:02x}")).collect::<String>();
                let text: Vec<String> = pairs.iter().map(|(k, v)| format!("{}={}", escape(k), escape(v))).collect();
                request.header("content-type", "application/x-www-form-urlencoded").body(Full::from(text.join("&")))
            }
        };
        let response = self.send(identity, request.unwrap()).await;
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    pub(super) async fn token(&self, identity: Option<&Identity>, form: &[(&str, &str)]) -> (StatusCode, Value) {
        self.ask(identity, "POST", "/oauth2/token", Body::Form(form)).await
    }

    /// Olga's token for the mixer, through the control room.
    pub(super) async fn olga(&self) -> (StatusCode, Value) {
        self.person("olga", SECRET, MIXER).await
    }

    pub(super) async fn person(&self, name: &str, secret: &str, audience: &str) -> (StatusCode, Value) {
        let form = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("subject_token_type", crate::PASSWORD),
            ("subject_token", secret),
            ("username", name),
            ("audience", audience),
        ];
        self.token(Some(&self.hmi), &form).await
    }

    /// Checks a token as a gate would, with the published keys.
    pub(super) async fn verify(
        &self,
        token: &Value,
        audience: &str,
    ) -> Result<Verified<Claims>, access_model::Refusal> {
        let (status, jwks) = self.ask(None, "GET", "/oauth2/jwks", Body::None).await;
        assert_eq!(status, StatusCode::OK);
        let keys = parse_jwks(jwks.to_string().as_bytes()).unwrap();
        let name = self.authority.config().issuer.clone();
        let issuers = [token::Issuer { name, keys, require_confirmation: true }];
        let now = self.authority.now().unix;
        let expected = Expectation { issuers: &issuers, audience, now, max_len: 1 << 18 };
        verify(token.as_str().unwrap().as_bytes(), &expected)
    }

    pub(super) fn position(&self, server: &str, scope: &str) -> ScopeIndex {
        self.authority.snapshot().plant().servers[server].scope_map().unwrap().position(scope).unwrap()
    }

    /// The audit so far.
    pub(super) async fn audit(&self) -> Vec<store::Entry> {
        self.ledger.checkpoint().await.unwrap();
        store::tail(&self.folder.path().join("audit"), 10_000).unwrap()
    }

    /// Whether the audit holds a record of this kind and outcome with this in its detail.
    pub(super) async fn audited(&self, kind: &str, outcome: &str, detail: &str) -> bool {
        let fits = |one: &store::Entry| one.kind == kind && one.outcome == outcome && one.detail.contains(detail);
        self.audit().await.iter().any(fits)
    }
}

pub(super) enum Body<'a> {
    None,
    Json(Value),
    Form(&'a [(&'a str, &'a str)]),
}

pub(super) fn clock(seconds: &Arc<AtomicI64>) -> Clock {
    let seconds = Arc::clone(seconds);
    Arc::new(move || {
        let seconds = seconds.load(Ordering::SeqCst);
        Now { mono: Mono::from_nanos(seconds.unsigned_abs() * 1_000_000_000), unix: UnixTime::from_seconds(seconds) }
    })
}

pub(super) async fn database(folder: &tempfile::TempDir) -> Db {
    Db::open(&DbConfig { path: folder.path().join("journal.db"), sync: Sync::Os }).await.unwrap()
}

pub(super) fn by() -> Actor {
    Actor { name: "test".into(), ..Actor::default() }
}
