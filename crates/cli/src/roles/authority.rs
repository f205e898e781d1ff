//! The authority as an OPC UA server: its AuthorizationServices object behind our own kernel, beside its HTTPS side.

use std::net::TcpListener;
use std::sync::Arc;

use access_model::{Now, Refusal, Rights, ScopeIndex, ScopeMap};
use arc_swap::ArcSwap;
use authority::{Authority, OpcUaKeys};
use gates::opcua::server::{ServerHandle, Shell};
use gates::opcua::wiring::{Application, AuditSink, Credentials, Local, wrong_credentials};
use gates::pki::PkiStore;
use gates::pool::Pool;
use opcua_types::{ByteString, DataValue, MessageSecurityMode, Variant};
use pep::{Gate, GateConfig, LocalGrant, LocalScopes, Who};
use tokio::sync::watch;
use ua_proto::channel::ChannelConfig;
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::pki::{OwnIdentity, SharedTrust};
use ua_proto::server::{Answer, Identities, Input, Invocation, Server, ServerConfig, ServerLimits};
use ua_proto::space::{AuthorizationNodes, NodeRef, ServerFacts, Space, SpaceConfig, gds};

/// Why the authority's OPC UA side cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unstarted {
    /// A node cannot be added.
    #[error(transparent)]
    Space(#[from] ua_proto::space::SpaceError),
    /// The gate cannot be set up.
    #[error(transparent)]
    Gate(#[from] pep::InvalidGate),
    /// The scope map cannot be made.
    #[error(transparent)]
    Scope(#[from] access_model::InvalidScopeMap),
    /// The socket or the thread.
    #[error("the authority's OPC UA side cannot be started: {0}")]
    System(#[from] std::io::Error),
}

/// What the OPC UA side is started with.
pub(crate) struct Setup {
    /// The authority.
    pub(crate) authority: Authority,
    /// What OPC UA clients see; [`standard`] makes the usual.
    pub(crate) config: ServerConfig,
    /// Its certificate and key.
    pub(crate) identity: Arc<ArcSwap<OwnIdentity>>,
    /// Whom it trusts.
    pub(crate) trust: SharedTrust,
    /// Where it listens.
    pub(crate) listener: TcpListener,
    /// The way to the ledger.
    pub(crate) audit: AuditSink,
    /// Runs private-key operations.
    pub(crate) pool: Pool,
    /// Where rejected certificates are kept.
    pub(crate) pki: Option<PkiStore>,
}

/// The running OPC UA side.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    /// The server.
    pub(crate) handle: ServerHandle,
    /// Its address.
    pub(crate) url: String,
    /// The service object, as IssuerEndpointUrl names it: `nsu=...;i=...`.
    pub(crate) service: String,
}

/// Starts it. Calls come only over encrypted channels; the application is proven by its certificate, the person by
/// password or user certificate, or there is none and the application asks for itself.
pub(crate) fn start(setup: Setup, now: Now) -> Result<Running, Unstarted> {
    let url = setup.config.endpoint_urls.first().cloned().unwrap_or_default();
    let application_uri = setup.config.application_uri.clone();
    let scope = ScopeIndex(1);
    let mut space = Space::new(SpaceConfig { application_uri: application_uri.clone(), namespaces: Vec::new() })?;
    let keys = OpcUaKeys { identity: Arc::clone(&setup.identity), users: None };
    setup.authority.serve_opcua(keys);
    setup.authority.heed_revocations(Arc::clone(&setup.trust));
    let rotations = setup.authority.rotations();
    let nodes = gds::add(&mut space, &setup.authority.opcua_service("Trapkey", scope))?;
    space.set_server_facts(ServerFacts {
        product: "Trapkey authority".into(),
        started: now.unix,
        ..ServerFacts::default()
    });
    let id = space.id(nodes.service);
    let namespace = space.namespaces().get(usize::from(id.namespace)).cloned().unwrap_or_default();
    let service = format!("nsu={namespace};{}", id.identifier);
    let server = Server::new(
        setup.config,
        space,
        Gate::new(gate(&application_uri)?, now)?,
        Box::new(token::SystemEntropy::default()),
    );
    let authority = setup.authority.clone();
    let pki = setup.pki;
    let application = Box::new(move || Box::new(Behind { authority, nodes, pki }) as Box<dyn Application>);
    let handle = gates::opcua::server::start(
        setup.listener,
        server,
        Shell { pool: setup.pool, audit: setup.audit, application },
    )?;
    tokio::spawn(show_certificate(setup.authority, rotations, handle.clone(), nodes.service_certificate));
    Ok(Running { handle, url, service })
}

/// Keeps the property ServiceCertificate what GetServiceDescription says, whichever key signs.
async fn show_certificate(
    authority: Authority,
    mut rotations: watch::Receiver<()>,
    server: ServerHandle,
    node: NodeRef,
) {
    while rotations.changed().await.is_ok() {
        let certificate = ByteString::from(authority.service_certificate());
        let value = DataValue::value_only(Variant::ByteString(certificate));
        let told = server.with(move |server, now| server.handle_input(Input::SetValue { node, value }, now)).await;
        if told.is_err() {
            return;
        }
    }
}

fn gate(application_uri: &str) -> Result<GateConfig, Unstarted> {
    let mut gate = GateConfig::new(application_uri, ScopeMap::new(["authorization"])?);
    let grant = |who| LocalGrant {
        who,
        require_encryption: true,
        roles: Vec::new(),
        rights: vec![(Rights::BROWSE | Rights::READ | Rights::CALL, LocalScopes::All)],
    };
    gate.local = vec![grant(Who::Anonymous), grant(Who::Authenticated)];
    Ok(gate)
}

/// The policies of RSA over channels that encrypt; persons by password, or nobody.
pub(crate) fn standard(
    application_uri: &str,
    identity: &Arc<ArcSwap<OwnIdentity>>,
    trust: &SharedTrust,
    url: String,
) -> ServerConfig {
    let encrypted =
        [SecurityPolicyId::Basic256Sha256, SecurityPolicyId::Aes128Sha256RsaOaep, SecurityPolicyId::Aes256Sha256RsaPss]
            .map(|policy| (policy, MessageSecurityMode::SignAndEncrypt))
            .to_vec();
    let channel = ChannelConfig::new(Arc::clone(identity), Arc::clone(trust), encrypted.clone());
    ServerConfig {
        application_uri: application_uri.to_owned(),
        product_uri: "urn:trapkey".into(),
        application_name: "Trapkey authority".into(),
        endpoint_urls: vec![url],
        channel: Arc::new(channel),
        endpoints: encrypted,
        identities: Identities { anonymous: true, user_name: true, ..Identities::default() },
        limits: ServerLimits::default(),
        audit: ua_proto::server::AuditConfig::default(),
        write_ranges: Vec::new(),
    }
}

/// The service's methods and users.
struct Behind {
    authority: Authority,
    nodes: AuthorizationNodes,
    pki: Option<PkiStore>,
}

impl Application for Behind {
    fn invoke(&self, call: Invocation) -> Local<Answer> {
        let (authority, nodes) = (self.authority.clone(), self.nodes);
        Box::pin(async move { authority.answer(&nodes, call).await })
    }

    fn authenticate(&self, credentials: Credentials) -> Local<Result<(), Refusal>> {
        let authority = self.authority.clone();
        Box::pin(async move {
            let Ok(password) = std::str::from_utf8(&credentials.password) else {
                return Err(wrong_credentials());
            };
            authority.person_by_password(&credentials.name, password, &credentials.address).await.map(drop)
        })
    }

    fn rejected(&self, certificate: &[u8]) {
        if let Some(pki) = &self.pki {
            pki.reject_der(certificate);
        }
    }
}
