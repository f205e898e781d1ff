//! The client machine against the server machine, in memory and under virtual time.

mod ecc;
mod foreign;
mod identities;
mod life;

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use access_model::{AuditKind, AuditRecord, Epoch, Mono, Now, Reason, Refusal, Rights, ScopeIndex, ScopeMap, UnixTime};
use arc_swap::ArcSwap;
use opcua_types::{
    AttributeId, EndpointDescription, MessageSecurityMode, NodeId, ReadRequest, ReadValueId, TimestampsToReturn,
    Variant,
};
use pep::{Gate, GateConfig, Identity, LocalGrant, LocalScopes, Who};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, RsaKeySize, SanType};
use token::{Algorithm, Claims, RightsClaim, Signer, SystemEntropy, map_digest};

use super::*;
use crate::Job;
use crate::channel::ChannelConfig;
use crate::crypto::{PrivateKey, SecurityPolicyId};
use crate::pki::{Certificate, OwnIdentity, SharedTrust, TrustList};
use crate::server::{
    AuditConfig, Audited, ConnId, EndpointSecurity, Identities, Input, IssuedTokens, IssuerEndpoint, Output, Server,
    ServerConfig, ServerLimits, TokenForm,
};
use crate::space::{AccessLevel, NewVariable, Space, SpaceConfig, ns0};

pub(super) const URL: &str = "opc.tcp://server:4840";
const SERVER_URI: &str = "urn:test:server";
pub(super) const POLICY: SecurityPolicyId = SecurityPolicyId::Aes256Sha256RsaPss;
pub(super) const ENCRYPT: EndpointSecurity = (POLICY, MessageSecurityMode::SignAndEncrypt);
pub(super) const SIGN: EndpointSecurity = (POLICY, MessageSecurityMode::Sign);
pub(super) const ECC: [EndpointSecurity; 4] = [
    (SecurityPolicyId::EccNistP256, MessageSecurityMode::SignAndEncrypt),
    (SecurityPolicyId::EccNistP256, MessageSecurityMode::Sign),
    (SecurityPolicyId::EccCurve25519, MessageSecurityMode::SignAndEncrypt),
    (SecurityPolicyId::EccCurve25519, MessageSecurityMode::Sign),
];
pub(super) const BARE: EndpointSecurity = (SecurityPolicyId::None, MessageSecurityMode::None);

pub(super) static SERVER: LazyLock<Arc<OwnIdentity>> = LazyLock::new(|| identity("server", SERVER_URI));
pub(super) static CLIENT: LazyLock<Arc<OwnIdentity>> = LazyLock::new(|| identity("client", "urn:test:client"));
pub(super) static USER: LazyLock<Arc<OwnIdentity>> = LazyLock::new(|| identity("user", "urn:test:user"));
pub(super) static ISSUER: LazyLock<Signer> = LazyLock::new(|| Signer::generate(Algorithm::Es256).unwrap());

/// An identity with a certificate of each kind.
fn identity(name: &str, uri: &str) -> Arc<OwnIdentity> {
    let rsa = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
    let ec = |algorithm| identity_with(name, uri, &KeyPair::generate_for(algorithm).unwrap());
    let (p256, ed25519) = (ec(&rcgen::PKCS_ECDSA_P256_SHA256), ec(&rcgen::PKCS_ED25519));
    Arc::new(identity_with(name, uri, &rsa).beside(p256).beside(ed25519))
}

/// The identity that an application or person uses under `policy`.
pub(super) fn of(identity: &Arc<OwnIdentity>, policy: SecurityPolicyId) -> Arc<OwnIdentity> {
    OwnIdentity::for_policy(identity, policy).unwrap()
}

fn identity_with(name: &str, uri: &str, key: &KeyPair) -> OwnIdentity {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::ContentCommitment,
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::DataEncipherment,
        KeyUsagePurpose::KeyCertSign,
    ];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = Certificate::from_der(params.self_signed(key).unwrap().der()).unwrap();
    OwnIdentity::new(certificate, PrivateKey::from_der(&key.serialize_der()).unwrap()).unwrap()
}

fn trust(trusted: &[&Arc<OwnIdentity>]) -> SharedTrust {
    let all = trusted.iter().flat_map(|identity| identity.others.iter().chain([*identity]));
    let trusted = all.map(|identity| Arc::clone(&identity.certificate)).collect();
    Arc::new(ArcSwap::from_pointee(TrustList { trusted, ..TrustList::default() }))
}

pub(super) fn token(now: Now, life: Duration) -> Credential {
    token_for(now, life, POLICY)
}

/// A token bound to the certificate that the client uses under `policy`.
pub(super) fn token_for(now: Now, life: Duration, policy: SecurityPolicyId) -> Credential {
    let claims = Claims {
        issuer: "authority".into(),
        subject: "tester".into(),
        audience: SERVER_URI.into(),
        expires: now.unix + life,
        not_before: now.unix,
        issued_at: now.unix,
        id: token::new_id(&mut SystemEntropy::new()),
        client: None,
        confirmation: Some(of(&CLIENT, policy).certificate.thumbprint()),
        roles: Vec::new(),
        groups: Vec::new(),
        rights: Some(RightsClaim::new(map_digest(&map()), [(Rights::ALL, vec![1_u32])])),
        epoch: Epoch(1),
        padding: 0,
    };
    Credential::Issued(token::mint(&claims, &ISSUER).unwrap().as_bytes().to_vec().into())
}

pub(super) fn user(password: &str) -> Credential {
    Credential::UserName { name: "alice".into(), password: password.to_owned().into() }
}

fn map() -> ScopeMap {
    ScopeMap::new(["all"]).unwrap()
}

fn server(now: Now) -> Server {
    let mut space = Space::new(SpaceConfig { application_uri: SERVER_URI.into(), namespaces: Vec::new() }).unwrap();
    let speed = NewVariable::new(ns0::OBJECTS, Some(NodeId::new(1, "Speed")), "Speed", 7_i32.into(), ScopeIndex(1));
    space.add_variable(speed.access(AccessLevel::READ_WRITE)).unwrap();
    let mut gate = GateConfig::new(SERVER_URI, map());
    gate.issuers =
        vec![token::Issuer { name: "authority".into(), keys: vec![ISSUER.public()], require_confirmation: true }];
    gate.local = [Who::Anonymous, Who::Authenticated]
        .map(|who| LocalGrant {
            who,
            require_encryption: false,
            roles: Vec::new(),
            rights: vec![(Rights::ALL, LocalScopes::All)],
        })
        .to_vec();
    let issuer = IssuerEndpoint {
        resource_id: SERVER_URI.into(),
        authority_url: "https://authority".into(),
        profile_uri: IssuerEndpoint::PROFILE_OAUTH2.into(),
        token_endpoint: Some("/token".into()),
        authorization_endpoint: None,
        request_types: Vec::new(),
        scopes: Vec::new(),
    };
    let mut endpoints = vec![ENCRYPT, SIGN, BARE];
    endpoints.extend(ECC);
    let own = Arc::new(ArcSwap::new(SERVER.clone()));
    let config = ServerConfig {
        application_uri: SERVER_URI.into(),
        product_uri: "urn:test".into(),
        application_name: "test".into(),
        endpoint_urls: vec![URL.into()],
        channel: Arc::new(ChannelConfig::new(own, trust(&[&CLIENT]), endpoints.clone())),
        endpoints,
        identities: Identities {
            anonymous: true,
            user_name: true,
            certificate: Some(trust(&[&USER])),
            issued: Some(IssuedTokens { issuer, forms: TokenForm::ALL.to_vec() }),
            ..Identities::default()
        },
        limits: ServerLimits::default(),
        audit: AuditConfig::default(),
        write_ranges: Vec::new(),
    };
    Server::new(config, space, Gate::new(gate, now).unwrap(), Box::new(SystemEntropy::new()))
}

/// A server, a client, and the wire between them.
pub(super) struct Wire {
    pub(super) server: Server,
    pub(super) client: Option<ClientSession>,
    pub(super) now: Now,
    pub(super) events: VecDeque<ClientEvent>,
    /// Nothing of what the server sends arrives.
    pub(super) deaf: bool,
    /// What the server has recorded.
    pub(super) records: Vec<AuditRecord>,
    conn: ConnId,
    entropy: SystemEntropy,
}

impl Wire {
    pub(super) fn new() -> Self {
        let now = Now { mono: Mono::from_nanos(1_000_000_000), unix: UnixTime::from_seconds(1_790_000_000) };
        Self {
            server: server(now),
            client: None,
            now,
            events: VecDeque::new(),
            deaf: false,
            records: Vec::new(),
            conn: ConnId(0),
            entropy: SystemEntropy::new(),
        }
    }

    /// What the server tells everybody about its endpoints.
    pub(super) fn endpoints(&mut self) -> Vec<EndpointDescription> {
        let mut asking = Discovery::new(URL, Question::Endpoints, Duration::from_secs(5), self.now).unwrap();
        self.accept();
        loop {
            let bytes = std::mem::take(asking.outgoing());
            self.server.handle_input(Input::Bytes { conn: self.conn, bytes: &bytes }, self.now);
            let answer = self.serve();
            asking.receive(&answer, self.now, &mut self.entropy);
            match asking.take_result() {
                Some(Ok(Response::GetEndpoints(response))) => return response.endpoints.unwrap_or_default(),
                Some(other) => panic!("{other:?}"),
                None => assert!(!bytes.is_empty() || !answer.is_empty(), "nothing moves"),
            }
        }
    }

    pub(super) fn config(&mut self, security: EndpointSecurity, credential: &Credential) -> ClientSessionConfig {
        let endpoints = self.endpoints();
        let wish = EndpointWish {
            policies: vec![security.0],
            modes: vec![security.1],
            identities: vec![credential.kind()],
            danger_clear_secrets: false,
        };
        let choice = choose_endpoint(&endpoints, &wish).unwrap();
        let application =
            ClientApplication { uri: "urn:test:client".into(), product_uri: "urn:test".into(), name: "test".into() };
        let mut config = ClientSessionConfig::new(URL, choice, application);
        config.discovered = Some(Arc::new(endpoints));
        config.identity = Some(CLIENT.clone());
        config.trust = Some(trust(&[&SERVER]));
        config
    }

    pub(super) fn connect(&mut self, security: EndpointSecurity, credential: Credential) {
        let config = self.config(security, &credential);
        self.connect_with(config, credential);
    }

    pub(super) fn connect_with(&mut self, config: ClientSessionConfig, credential: Credential) {
        self.accept();
        self.client = Some(ClientSession::new(Arc::new(config), credential, self.now).unwrap());
        self.run();
    }

    pub(super) fn client(&mut self) -> &mut ClientSession {
        self.client.as_mut().unwrap()
    }

    fn accept(&mut self) {
        self.conn = ConnId(self.conn.0 + 1);
        self.server.handle_input(Input::Accepted { conn: self.conn, peer: "10.0.0.1".into() }, self.now);
    }

    /// The connection breaks and is made again.
    pub(super) fn reconnect(&mut self) {
        self.server.handle_input(Input::Disconnected { conn: self.conn }, self.now);
        self.client().connection_lost();
        self.run();
        self.accept();
        let now = self.now;
        self.client().reconnect(now).unwrap();
        self.run();
    }

    /// The server forgets everything, as after a restart.
    pub(super) fn restart(&mut self) {
        self.server = server(self.now);
        self.conn = ConnId(0);
    }

    /// Carries out what the server wants and returns what it sends.
    fn serve(&mut self) -> Vec<u8> {
        let mut sent = Vec::new();
        while let Some(output) = self.server.poll_output() {
            match output {
                Output::Send { conn } if conn == self.conn => {
                    let bytes = std::mem::take(self.server.outgoing(conn).unwrap());
                    sent.extend(bytes);
                    self.server.handle_input(Input::Drained { conn, unsent: 0 }, self.now);
                }
                Output::Close { conn, rest } if conn == self.conn => sent.extend(rest),
                Output::Job(job) => self.finish(job),
                Output::Authenticate { id, name, password, .. } => {
                    let result = if password.0.as_slice() == b"secret" {
                        Ok(Identity::User { name })
                    } else {
                        Err(Refusal::new(Reason::UserCredentials, "wrong"))
                    };
                    self.server.handle_input(Input::Authenticated { id, result }, self.now);
                }
                Output::Audit { id, record } => {
                    self.records.push(record);
                    if let Some(id) = id {
                        self.server.handle_input(Input::Audited { id, result: Audited::Kept }, self.now);
                    }
                }
                _ => {}
            }
        }
        sent
    }

    fn finish(&mut self, job: Job) {
        let (id, outcome) = job.run();
        self.server.handle_input(Input::JobDone { id, outcome }, self.now);
    }

    /// Moves bytes and runs jobs until nothing moves.
    pub(super) fn run(&mut self) {
        loop {
            let mut moved = false;
            let answer = self.serve();
            let (now, deaf) = (self.now, self.deaf);
            let Some(client) = &mut self.client else { return };
            if !answer.is_empty() && !deaf {
                client.receive(&answer, now, &mut self.entropy);
                moved = true;
            }
            while let Some(event) = client.poll_event() {
                moved = true;
                match event {
                    ClientEvent::Job(job) => {
                        let (id, outcome) = job.run();
                        client.job_done(id, outcome, now, &mut self.entropy);
                    }
                    other => self.events.push_back(other),
                }
            }
            let bytes = client.outgoing().map(std::mem::take).unwrap_or_default();
            if !bytes.is_empty() {
                self.server.handle_input(Input::Bytes { conn: self.conn, bytes: &bytes }, now);
                moved = true;
            }
            if !moved {
                return;
            }
        }
    }

    /// Moves the clock, deadline by deadline.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now.after(time);
        loop {
            let client = self.client.as_ref().and_then(ClientSession::poll_timeout);
            let Some(at) = client.into_iter().chain(self.server.poll_timeout()).min().filter(|at| *at <= end.mono)
            else {
                break;
            };
            self.now = self.now.after(at.since(self.now.mono));
            let now = self.now;
            self.server.handle_timeout(now);
            if let Some(client) = &mut self.client {
                client.handle_timeout(now, &mut self.entropy);
                assert!(client.poll_timeout().is_none_or(|next| next > now.mono), "a served deadline lies in the past");
            }
            self.run();
        }
        self.now = self.now.after(end.mono.since(self.now.mono));
    }

    /// What happened besides jobs, briefly.
    pub(super) fn happened(&mut self) -> Vec<String> {
        let brief = |event| match event {
            ClientEvent::Activated(kind) => format!("{kind:?}"),
            ClientEvent::Refused(status) => format!("refused {}", status),
            ClientEvent::Disconnected(status) => format!("disconnected {}", status),
            ClientEvent::Answer(_, Ok(Response::Read(response))) => {
                let value = response.results.unwrap_or_default().remove(0);
                match value.value {
                    Some(Variant::Int32(number)) => format!("read {number}"),
                    _ => format!("read {}", value.status()),
                }
            }
            ClientEvent::Answer(_, Err(status)) => format!("fault {}", status),
            other => format!("{other:?}"),
        };
        self.events.drain(..).map(brief).collect()
    }

    pub(super) fn read(&mut self) -> Result<CallId, RequestError> {
        let request = ReadRequest {
            request_header: Default::default(),
            max_age: 0.0,
            timestamps_to_return: TimestampsToReturn::Neither,
            nodes_to_read: Some(vec![ReadValueId {
                node_id: NodeId::new(1, "Speed"),
                attribute_id: AttributeId::Value as u32,
                ..ReadValueId::default()
            }]),
        };
        let now = self.now;
        self.client().request(request.into(), None, now)
    }
}
