//! Our own authority, real: its HTTPS service, its methods behind an OPC UA server, a server that takes its tokens, a client that it
//! knows. Beside [`crate::support`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use access_model::{Refusal, Rights, ScopeIndex};
use arc_swap::ArcSwap;
use authority::{Authority, AuthorityConfig, OpcUaKeys, PolicySource, PolicyTexts, hash_secret, system_clock};
use client::{AuthorityProfile, ClientOptions, KnownAuthority, Login, TokenIssuer};
use gates::clock;
use gates::https::{HttpsClient, client_config};
use gates::opcua::server::ServerHandle;
use gates::opcua::wiring::{Application, Credentials, Local};
use gates::pki::make::{self, Made, self_signed};
use opcua_types::Variant;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use store::{ApplicationKind, CheckpointKey, Db, KeyKind, Ledger, LedgerConfig};
use token::{Algorithm, Claims, Issuer, Signer, mint};
use tokio::sync::watch;
use ua_proto::crypto::PrivateKey;
use ua_proto::pki::{Certificate, OwnIdentity};
use ua_proto::server::{Answer, Invocation};
use ua_proto::space::{AuthorizationNodes, AuthorizationService};

use crate::support::{
    AUTHORITY, CLIENT, Hears, MIXER, PATIENCE, People, claims, listen, old_service, start_mixer, start_service,
    start_space,
};

pub(crate) const SECRET: &str = "correct horse battery staple";
const PLANT: &str = r#"
[plant]
name = "test"
default_lifetime = "1h"
longest_lifetime = "1h"
[[site]]
name = "north"
[[zone]]
name = "line"
site = "north"
[[equipment]]
name = "mixer-1"
zone = "line"
[[role]]
name = "observer"
[[person]]
name = "olga"
roles = ["observer"]
[[application]]
uri = "urn:test:client"
roles = ["observer"]
[[server]]
name = "mixer"
uri = "urn:test:mixer"
equipment = "mixer-1"
[[server.scope]]
name = "all"
subtrees = ["/Objects"]
"#;
const POLICIES: &str = r#"
@id("observers-see")
permit (principal in Role::"observer", action in Action::"view", resource in Zone::"line");
"#;

pub(crate) struct World {
    pub(crate) authority: Authority,
    pub(crate) opcua: ServerHandle,
    pub(crate) mixer: ServerHandle,
    pub(crate) people: People,
    pub(crate) https: (SocketAddr, HttpsClient),
    /// Bytes of the newest token that the methods gave.
    pub(crate) token: Arc<AtomicU64>,
    /// Passwords that came over sessions.
    pub(crate) passwords: Arc<AtomicU32>,
    pub(crate) provider: Signer,
    pub(crate) olga: Arc<OwnIdentity>,
    pub(crate) folder: tempfile::TempDir,
    _stop: watch::Sender<bool>,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::of(People::new().await).await
    }

    pub(crate) async fn of(people: People) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let provider = Signer::generate(Algorithm::Es256).unwrap();
        let idp = Issuer { name: "https://idp".into(), keys: vec![provider.public()], require_confirmation: false };
        let key = CheckpointKey::generate(KeyKind::Ed25519).unwrap();
        let ledger = Ledger::open(&folder.path().join("audit"), LedgerConfig::default(), key).unwrap();
        let db = Db::in_memory().await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let config = AuthorityConfig {
            identity_issuers: vec![idp],
            request_access_token: true,
            ..AuthorityConfig::new(format!("https://{at}"))
        };
        let texts = PolicyTexts { plant: PLANT.into(), policies: POLICIES.into(), workflow: None };
        let authority = Authority::open(config, PolicySource::Texts(texts), db, ledger, system_clock()).await.unwrap();
        let olga = Arc::new(own(&made("olga", "urn:test:olga").await));
        register(&authority, &people, &olga).await;
        let (https, stop) = serve(&authority, &people, listener).await;
        let identity = Arc::new(ArcSwap::new(Arc::clone(&people.authority)));
        authority.serve_opcua(OpcUaKeys { identity, users: None });
        let (passwords, token) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU64::new(0)));
        let opcua = {
            let (authority, passwords, token) = (authority.clone(), Arc::clone(&passwords), Arc::clone(&token));
            let service = service(&authority);
            let behind = authority.clone();
            start_service(&people, &service, listen(), move |nodes| {
                Box::new(Behind { authority: behind, nodes, passwords, token }) as Box<dyn Application>
            })
        };
        let mixer = start_mixer(&people, authority.issuer(), opcua.address(), listen(), Hears::Nothing);
        Self {
            authority,
            opcua,
            mixer,
            people,
            https: (at, https),
            token,
            passwords,
            provider,
            olga,
            folder,
            _stop: stop,
        }
    }

    /// The same authority behind the nodes that there were before StartRequestToken.
    pub(crate) fn start_old(&self) -> ServerHandle {
        let (space, object, method) = old_service(true);
        let (authority, passwords, token) =
            (self.authority.clone(), Arc::clone(&self.passwords), Arc::clone(&self.token));
        // Nobody calls an object.
        let nodes = AuthorizationNodes {
            namespace: 0,
            folder: object,
            service: object,
            service_certificate: object,
            get_service_description: object,
            start_request_token: object,
            finish_request_token: object,
            refresh_token: object,
            request_access_token: method,
        };
        let behind = Behind { authority, nodes, passwords, token };
        start_space(&self.people, space, listen(), move || Box::new(behind) as Box<dyn Application>)
    }

    pub(crate) fn options(&self, login: Login) -> ClientOptions {
        let mut options = self.people.options(self.mixer.address(), Login::Token);
        options.authority.login = login;
        options.authority.known = vec![KnownAuthority::Application(AUTHORITY.into())];
        options
    }

    /// The authority as the options name it.
    pub(crate) fn issuer(&self, profile: AuthorityProfile, explicit: bool) -> TokenIssuer {
        let opcua = format!("opc.tcp://{}", self.opcua.address());
        TokenIssuer {
            resource_id: MIXER.into(),
            authority_url: if profile == AuthorityProfile::OpcUa { opcua } else { format!("https://{}", self.https.0) },
            profile,
            token_endpoint: None,
            authorization_endpoint: explicit.then(|| "i=1".to_owned()),
            request_types: Vec::new(),
            scopes: Vec::new(),
        }
    }

    pub(crate) fn https(&self, login: Login) -> ClientOptions {
        let mut options = self.options(login);
        options.issuer = Some(self.issuer(AuthorityProfile::OAuth2, false));
        options.authority.https = Some(self.https.1.clone());
        options
    }

    pub(crate) fn explicit(&self, login: Login) -> ClientOptions {
        let mut options = self.options(login);
        options.issuer = Some(self.issuer(AuthorityProfile::OpcUa, true));
        options
    }

    /// A token of the identity provider.
    pub(crate) fn vouched(&self) -> Login {
        let life = Duration::from_secs(600);
        let nobody = self.people.client.certificate.thumbprint();
        let claims = Claims {
            issuer: "https://idp".into(),
            subject: "olga".into(),
            audience: self.authority.config().issuer.clone(),
            client: None,
            confirmation: None,
            rights: None,
            ..claims(clock::now().unix, life, nobody, Rights::ALL)
        };
        Login::ThisToken(mint(&claims, &self.provider).unwrap().as_bytes().to_vec().into())
    }

    /// How the tokens so far were asked for, the newest first, and for whom.
    pub(crate) async fn flows(&self) -> Vec<(String, String)> {
        let all = self.authority.db().tokens(&store::TokenFilter::default()).await.unwrap();
        let mut all: Vec<_> = all.into_iter().map(|one| (one.issued, one.flow, one.subject)).collect();
        all.sort();
        all.into_iter().rev().map(|(_, flow, subject)| (flow, subject)).collect()
    }

    pub(crate) async fn lock_out_olga(&self) {
        let olga = self.authority.db().user("olga").await.unwrap().unwrap();
        self.authority.db().put_user(&store::User { password_hash: None, ..olga }).await.unwrap();
    }
}

/// The service as it is without RequestAccessToken, which is offered only where somebody wants it.
pub(crate) fn service(authority: &Authority) -> AuthorizationService<'_> {
    AuthorizationService { request_access_token: false, ..authority.opcua_service("trapkey", ScopeIndex(1)) }
}

pub(crate) fn password() -> Login {
    Login::UserName { name: "olga".into(), password: SECRET.to_owned().into() }
}

async fn made(name: &'static str, uri: &'static str) -> Made {
    let make = move || self_signed(&make::Application::local(name, uri), clock::now().unix).unwrap();
    tokio::task::spawn_blocking(make).await.unwrap()
}

fn own(made: &Made) -> OwnIdentity {
    let certificate = Certificate::from_der(&made.der).unwrap();
    OwnIdentity::new(certificate, PrivateKey::from_der(&made.key_der).unwrap()).unwrap()
}

async fn register(authority: &Authority, people: &People, olga: &OwnIdentity) {
    let created = clock::now().unix;
    let application = store::Application {
        uri: CLIENT.into(),
        name: "test".into(),
        kind: ApplicationKind::Client,
        certificates: vec![people.client.certificate.thumbprint()],
        secret_hash: None,
        enabled: true,
        created,
    };
    authority.db().put_application(&application).await.unwrap();
    let user = store::User {
        name: "olga".into(),
        password_hash: Some(hash_secret(SECRET).unwrap()),
        certificates: vec![olga.certificate.thumbprint()],
        roles: vec![],
        groups: vec![],
        enabled: true,
        created,
    };
    authority.db().put_user(&user).await.unwrap();
}

/// The HTTPS side, and a client that shows the application's certificate there.
async fn serve(
    authority: &Authority,
    people: &People,
    listener: tokio::net::TcpListener,
) -> (HttpsClient, watch::Sender<bool>) {
    let shown = made("authority", AUTHORITY).await;
    let key = PrivateKeyDer::try_from(shown.key_der.to_vec()).unwrap();
    let tls = authority::server_config(vec![CertificateDer::from(shown.der.clone())], key).unwrap();
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(authority::serve(listener, tls, authority.clone(), stopped));
    let identity = (vec![people.client.certificate.der().to_vec()], people.client_key.clone());
    let config = client_config([shown.der], Some(identity)).unwrap();
    (HttpsClient::new(config, PATIENCE), stop)
}

struct Behind {
    authority: Authority,
    nodes: AuthorizationNodes,
    passwords: Arc<AtomicU32>,
    token: Arc<AtomicU64>,
}

impl Application for Behind {
    fn invoke(&self, call: Invocation) -> Local<Answer> {
        let (authority, nodes, token) = (self.authority.clone(), self.nodes, Arc::clone(&self.token));
        Box::pin(async move {
            let answer = authority.answer(&nodes, call).await;
            if let Some(Variant::String(given)) = answer.outputs.first() {
                token.store(given.as_ref().len() as u64, Ordering::Relaxed);
            }
            answer
        })
    }

    fn authenticate(&self, credentials: Credentials) -> Local<Result<(), Refusal>> {
        self.passwords.fetch_add(1, Ordering::Relaxed);
        let authority = self.authority.clone();
        Box::pin(async move {
            let password = std::str::from_utf8(&credentials.password).unwrap();
            authority.person_by_password(&credentials.name, password, &credentials.address).await.map(drop)
        })
    }
}
