//! What a guard of these tests shows its clients: nothing but anonymous ones without security, or everything that a guard
//! takes, with whom it knows.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use access_model::{AuditRecord, Epoch, Refusal, Rights, ScopeMap};
use arc_swap::ArcSwap;
use client::Way;
use gates::clock;
use gates::opcua::guard::{GuardHandle, start_over};
use gates::opcua::server::Shell;
use gates::opcua::wiring::{Application, AuditRequest, Credentials, Local, wrong_credentials};
use gates::pool::Pool;
use opcua_types::{MessageSecurityMode, StatusCode};
use pep::{Gate, GateConfig, LocalGrant, LocalScopes, Who};
use token::{Algorithm, Claims, Issuer, RightsClaim, Signer, SystemEntropy};
use tokio::sync::mpsc;
use ua_proto::channel::ChannelConfig;
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::guard::{Guard, GuardConfig};
use ua_proto::pki::{SharedTrust, TrustList};
use ua_proto::server::{
    Answer, AuditConfig, Identities, Invocation, IssuedTokens, IssuerEndpoint, ServerConfig, ServerLimits, TokenForm,
};
use zeroize::Zeroizing;

use crate::our_client::identity;
use crate::peers::{PATIENCE, certificate};

const BARE: (SecurityPolicyId, MessageSecurityMode) = (SecurityPolicyId::None, MessageSecurityMode::None);
const ISSUER: &str = "urn:trapkey:interop:authority";
/// Who may have an application session at a guard that is secured.
const TRUSTED: [&str; 6] = ["asyncua", "node-opcua", "milo", "open62541", "trapkey", "user"];

/// Methods and values are the upstream server's; who signs in by name is `operator` with the password `secret`.
struct Users;

impl Application for Users {
    fn invoke(&self, _: Invocation) -> Local<Answer> {
        let answer = Answer { status: StatusCode::BadInternalError, input_results: Vec::new(), outputs: Vec::new() };
        Box::pin(async move { answer })
    }

    fn authenticate(&self, credentials: Credentials) -> Local<Result<(), Refusal>> {
        let right = credentials.name == "operator" && *credentials.password == *b"secret";
        Box::pin(async move { right.then_some(()).ok_or_else(wrong_credentials) })
    }
}

fn map() -> ScopeMap {
    ScopeMap::new(["line", "setpoint"]).expect("two names")
}

/// An authority whose tokens a guard takes.
pub(crate) struct Tokens {
    signer: Signer,
    audience: String,
}

impl Tokens {
    pub(crate) fn new() -> Self {
        let own = identity("trapkey");
        let audience = own.certificate.application_uri().expect("an application certificate names one").to_owned();
        Self { signer: Signer::generate(Algorithm::Es256).expect("a key"), audience }
    }

    /// A token that gives everything on the line and this on the setpoint.
    pub(crate) fn mint(&self, setpoint: Rights) -> Zeroizing<Vec<u8>> {
        let now = clock::now().unix;
        let claims = Claims {
            issuer: ISSUER.into(),
            subject: "interop".into(),
            audience: self.audience.clone(),
            expires: now + Duration::from_secs(3_600),
            not_before: now,
            issued_at: now,
            id: token::new_id(&mut SystemEntropy::default()),
            client: None,
            confirmation: None,
            roles: vec!["operator".into()],
            groups: Vec::new(),
            rights: Some(RightsClaim::new(token::map_digest(&map()), [(Rights::ALL, vec![1]), (setpoint, vec![2])])),
            epoch: Epoch(1),
            padding: 0,
        };
        Zeroizing::new(token::mint(&claims, &self.signer).expect("a token").as_bytes().to_vec())
    }
}

/// What a guard shows its clients, and what those may do.
pub(crate) struct Front {
    endpoints: Vec<(SecurityPolicyId, MessageSecurityMode)>,
    identities: Identities,
    trust: SharedTrust,
    issuers: Vec<Issuer>,
    known: Vec<Who>,
    setpoint: Rights,
}

impl Front {
    /// Anonymous clients without security have the role `operator`: they may do everything on the line and this on the
    /// setpoint.
    pub(crate) fn bare(setpoint: Rights) -> Self {
        Self {
            endpoints: vec![BARE],
            identities: Identities { anonymous: true, ..Identities::default() },
            trust: Arc::new(ArcSwap::from_pointee(TrustList::default())),
            issuers: Vec::new(),
            known: vec![Who::Anonymous],
            setpoint,
        }
    }

    /// Clients that sign in by name, certificate or nothing at all may do everything; tokens say what they say.
    pub(crate) fn secured(tokens: &Tokens) -> Self {
        let mode = MessageSecurityMode::SignAndEncrypt;
        let mut trust = TrustList::default();
        for name in TRUSTED {
            let file = certificate(&format!("{name}.der"));
            trust.trusted.push(Arc::new(gates::pki::certificate(Path::new(&file)).expect("one of interop/certs.sh")));
        }
        let trust = Arc::new(ArcSwap::from_pointee(trust));
        let issuer = IssuerEndpoint {
            resource_id: tokens.audience.clone(),
            authority_url: "opc.tcp://127.0.0.1:1".into(),
            profile_uri: IssuerEndpoint::PROFILE_OPCUA.into(),
            token_endpoint: None,
            authorization_endpoint: None,
            request_types: Vec::new(),
            scopes: Vec::new(),
        };
        Self {
            endpoints: vec![
                BARE,
                (SecurityPolicyId::Basic256Sha256, mode),
                (SecurityPolicyId::Aes128Sha256RsaOaep, mode),
                (SecurityPolicyId::Aes256Sha256RsaPss, mode),
            ],
            identities: Identities {
                anonymous: true,
                user_name: true,
                certificate: Some(Arc::clone(&trust)),
                issued: Some(IssuedTokens { issuer, forms: TokenForm::ALL.to_vec() }),
                ..Identities::default()
            },
            trust,
            issuers: vec![Issuer {
                name: ISSUER.into(),
                keys: vec![tokens.signer.public()],
                require_confirmation: false,
            }],
            known: vec![Who::Anonymous, Who::Authenticated],
            setpoint: Rights::ALL,
        }
    }

    /// Starts it; what it records comes out.
    pub(crate) fn guard(
        self,
        way: Way,
        listener: TcpListener,
        mut behind: GuardConfig,
    ) -> (GuardHandle, String, mpsc::UnboundedReceiver<AuditRecord>) {
        let url = format!("opc.tcp://{}", listener.local_addr().expect("a bound socket has an address"));
        let now = clock::now();
        (behind.limits.connect_timeout, behind.limits.request_timeout) = (PATIENCE, PATIENCE);
        let (config, gate) = self.configured(&url);
        let entropy: (Box<dyn ua_proto::Entropy + Send>, Box<dyn ua_proto::Entropy + Send>) =
            (Box::new(SystemEntropy::new()), Box::new(SystemEntropy::new()));
        let gate = Gate::new(gate, now).expect("a gate");
        let guard = Guard::new(config, behind, gate, entropy, now).expect("a guard");
        let (audit, heard) = recorded();
        let pool = Pool::new(2, 64).expect("a pool");
        let shell = Shell { pool, audit, application: Box::new(|| Box::new(Users)) };
        (start_over(way, listener, guard, shell).expect("a guard starts"), url, heard)
    }

    fn configured(self, url: &str) -> (ServerConfig, GateConfig) {
        let own = identity("trapkey");
        let uri = own.certificate.application_uri().expect("an application certificate names one").to_owned();
        let mut gate = GateConfig::new(&uri, map());
        gate.issuers = self.issuers;
        let grant = |who| LocalGrant {
            who,
            require_encryption: false,
            roles: vec!["operator".into()],
            rights: vec![
                (Rights::ALL, LocalScopes::Named(vec!["line".into()])),
                (self.setpoint, LocalScopes::Named(vec!["setpoint".into()])),
            ],
        };
        gate.local = self.known.into_iter().map(grant).collect();
        let own = Arc::new(ArcSwap::from_pointee(own));
        let mut channel = ChannelConfig::new(own, self.trust, self.endpoints.clone());
        // Some of the clients need their time on a computer that many people share.
        (channel.hello_timeout, channel.open_timeout) = (PATIENCE, PATIENCE);
        let config = ServerConfig {
            application_uri: uri,
            product_uri: "urn:trapkey".into(),
            application_name: "guard".into(),
            endpoint_urls: vec![url.to_owned()],
            channel: Arc::new(channel),
            endpoints: self.endpoints,
            identities: self.identities,
            limits: ServerLimits { half_open_time: PATIENCE, ..ServerLimits::default() },
            audit: AuditConfig::default(),
            write_ranges: Vec::new(),
        };
        (config, gate)
    }
}

/// Acknowledges every record, and passes it on.
fn recorded() -> (mpsc::Sender<AuditRequest>, mpsc::UnboundedReceiver<AuditRecord>) {
    let (audit, mut records) = mpsc::channel::<AuditRequest>(1_024);
    let (told, heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(request) = records.recv().await {
            let _nobody_listens = told.send(request.record);
            if let Some(ack) = request.ack {
                let _gone = ack.send(Ok(()));
            }
        }
    });
    (audit, heard)
}
