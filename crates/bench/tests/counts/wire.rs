//! Our client and our server, joined in memory under virtual time: what they send is kept, and keys count their uses.

use std::sync::Arc;
use std::time::Duration;

use access_model::{Mono, Now, Reason, Refusal, Rights, ScopeIndex, ScopeMap, UnixTime};
use arc_swap::ArcSwap;
use gates::pki::make::{Application, Curve, self_signed, self_signed_on};
use opcua_types::{ByteString, EndpointDescription, MessageSecurityMode, NodeId, UserTokenType, Variant};
use pep::{Gate, GateConfig, Identity, LocalGrant, LocalScopes, Who};
use token::{Algorithm, Claims, Issuer, Signer, SystemEntropy};
use ua_proto::channel::ChannelConfig;
use ua_proto::client::{
    ClientApplication, ClientEvent, ClientSession, ClientSessionConfig, Credential, Discovery, EndpointWish, Question,
    Request, Response, choose_endpoint,
};
use ua_proto::crypto::{KeyUses, PrivateKey, SecurityPolicyId};
use ua_proto::pki::{Certificate, OwnIdentity, SharedTrust, TrustList};
use ua_proto::server::{
    AuditConfig, Audited, ConnId, Identities, Input, IssuedTokens, IssuerEndpoint, Output, Server, ServerConfig,
    ServerLimits, TokenForm,
};
use ua_proto::space::{AccessLevel, NewVariable, Space, SpaceConfig, ns0};

use super::support::claims;

const URL: &str = "opc.tcp://server:4840";
const SERVER_URI: &str = "urn:test:server";
const CLIENT_URI: &str = "urn:test:client";
/// The shortest lifetime of a channel's keys that servers grant.
pub(crate) const LIFETIME: Duration = Duration::from_secs(60);
pub(crate) const PASSWORD: &str = "sixteen letters!";
/// A number, and a value that goes in several chunks: their numbers in namespace 2.
pub(crate) const SPEED: u32 = 2;
pub(crate) const LOG: u32 = 3;
/// Bytes of the latter.
const LONG: usize = 150_000;

/// The kind of key of a certificate.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Rsa(u16),
    On(Curve),
}

fn start() -> Now {
    Now { mono: Mono::from_nanos(1_000_000_000), unix: UnixTime::from_seconds(1_790_000_000) }
}

fn identity(kind: Kind, name: &str, uri: &str) -> Arc<OwnIdentity> {
    let application = Application::local(name, uri);
    let made = match kind {
        Kind::Rsa(key_bits) => self_signed(&Application { key_bits, ..application }, start().unix),
        Kind::On(curve) => self_signed_on(curve, &application, start().unix),
    };
    let made = made.unwrap();
    let certificate = Certificate::from_der(&made.der).unwrap();
    Arc::new(OwnIdentity::new(certificate, PrivateKey::from_der(&made.key_der).unwrap()).unwrap())
}

fn trust(of: &Arc<OwnIdentity>) -> SharedTrust {
    let trusted = vec![Arc::clone(&of.certificate)];
    Arc::new(ArcSwap::from_pointee(TrustList { trusted, ..TrustList::default() }))
}

fn map() -> ScopeMap {
    ScopeMap::new(["all"]).unwrap()
}

/// Certificates of all who take part, all with the same kind of key.
pub(crate) struct People {
    server: Arc<OwnIdentity>,
    client: Arc<OwnIdentity>,
    user: Arc<OwnIdentity>,
    issuer: Signer,
}

/// How often the keys of the client (and of its user) and of the server were used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uses {
    pub(crate) client: (u64, u64),
    pub(crate) server: (u64, u64),
}

impl People {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            server: identity(kind, "server", SERVER_URI),
            client: identity(kind, "client", CLIENT_URI),
            user: identity(kind, "user", "urn:test:user"),
            issuer: Signer::generate(Algorithm::EdDsa).unwrap(),
        }
    }

    pub(crate) fn uses(&self) -> Uses {
        let sum =
            |keys: &[KeyUses]| (keys.iter().map(|it| it.signatures).sum(), keys.iter().map(|it| it.decryptions).sum());
        Uses { client: sum(&[self.client.key.uses(), self.user.key.uses()]), server: sum(&[self.server.key.uses()]) }
    }

    pub(crate) fn password() -> Credential {
        Credential::UserName { name: "alice".into(), password: PASSWORD.to_owned().into() }
    }

    pub(crate) fn certificate(&self) -> Credential {
        Credential::Certificate(Arc::clone(&self.user))
    }

    /// A token, with its length.
    pub(crate) fn token(&self) -> (Credential, u64) {
        let client = self.client.certificate.thumbprint();
        let claims = Claims {
            issuer: "authority".into(),
            audience: SERVER_URI.into(),
            client: None,
            roles: vec!["Operator".into()],
            ..claims(start().unix, Duration::from_secs(3_600), client, Rights::ALL)
        };
        let sealed = token::mint(&claims, &self.issuer).unwrap();
        let bytes = sealed.as_bytes().to_vec();
        let length = bytes.len() as u64;
        (Credential::Issued(bytes.into()), length)
    }

    /// Bytes of the certificates of server and client.
    pub(crate) fn certificates(&self) -> [usize; 2] {
        [&self.server, &self.client].map(|one| one.certificate.der().len())
    }

    fn server(&self, offered: Vec<(SecurityPolicyId, MessageSecurityMode)>) -> Server {
        let namespaces = vec!["urn:test:values".into()];
        let mut space = Space::new(SpaceConfig { application_uri: SERVER_URI.into(), namespaces }).unwrap();
        for (number, value) in [(SPEED, Variant::from(7.5_f64)), (LOG, ByteString::from(vec![7_u8; LONG]).into())] {
            let (id, name) = (NodeId::new(2, number), format!("value {number}"));
            let new = NewVariable::new(ns0::OBJECTS, Some(id), &name, value, ScopeIndex(1));
            space.add_variable(new.access(AccessLevel::READ_WRITE)).unwrap();
        }
        let all = |who| LocalGrant {
            who,
            require_encryption: false,
            roles: Vec::new(),
            rights: vec![(Rights::ALL, LocalScopes::All)],
        };
        let mut gate = GateConfig::new(SERVER_URI, map());
        gate.issuers =
            vec![Issuer { name: "authority".into(), keys: vec![self.issuer.public()], require_confirmation: true }];
        gate.local = vec![all(Who::Anonymous), all(Who::Authenticated)];
        let issuer = IssuerEndpoint {
            resource_id: SERVER_URI.into(),
            authority_url: "https://authority".into(),
            profile_uri: IssuerEndpoint::PROFILE_OAUTH2.into(),
            token_endpoint: Some("/token".into()),
            authorization_endpoint: None,
            request_types: Vec::new(),
            scopes: Vec::new(),
        };
        let own = Arc::new(ArcSwap::new(Arc::clone(&self.server)));
        let config = ServerConfig {
            application_uri: SERVER_URI.into(),
            product_uri: "urn:test".into(),
            application_name: "test".into(),
            endpoint_urls: vec![URL.into()],
            channel: Arc::new(ChannelConfig::new(own, trust(&self.client), offered.clone())),
            endpoints: offered,
            identities: Identities {
                anonymous: true,
                user_name: true,
                certificate: Some(trust(&self.user)),
                issued: Some(IssuedTokens { issuer, forms: TokenForm::ALL.to_vec() }),
                ..Identities::default()
            },
            limits: ServerLimits::default(),
            audit: AuditConfig::default(),
            write_ranges: Vec::new(),
        };
        Server::new(config, space, Gate::new(gate, start()).unwrap(), Box::new(SystemEntropy::new()))
    }
}

/// What went over one connection, each way: kinds and sizes of chunks.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub(crate) client: Vec<(String, u64)>,
    pub(crate) server: Vec<(String, u64)>,
}

pub(crate) fn chunks(mut bytes: &[u8], into: &mut Vec<(String, u64)>) {
    while let Some((head, _)) = bytes.split_at_checked(8) {
        let size = u32::from_le_bytes(head[4..].try_into().unwrap());
        into.push((String::from_utf8_lossy(&head[..3]).into_owned(), u64::from(size)));
        bytes = &bytes[size as usize..];
    }
    assert!(bytes.is_empty(), "a part of a chunk was sent");
}

/// A server and its clients, one after the other.
pub(crate) struct Wire {
    server: Server,
    client: Option<ClientSession>,
    now: Now,
    conn: ConnId,
    entropy: SystemEntropy,
    pub(crate) sent: Sent,
    pub(crate) activated: u32,
    /// Records that the server wrote.
    pub(crate) recorded: u64,
    leaving: bool,
}

impl Wire {
    pub(crate) fn new(people: &People, offered: Vec<(SecurityPolicyId, MessageSecurityMode)>) -> Self {
        Self {
            server: people.server(offered),
            client: None,
            now: start(),
            conn: ConnId(0),
            entropy: SystemEntropy::new(),
            sent: Sent::default(),
            activated: 0,
            recorded: 0,
            leaving: false,
        }
    }

    fn accept(&mut self) {
        self.conn = ConnId(self.conn.0 + 1);
        self.sent = Sent::default();
        self.server.handle_input(Input::Accepted { conn: self.conn, peer: "10.0.0.1".into() }, self.now);
    }

    /// Asks for the endpoints over a connection of its own.
    pub(crate) fn discover(&mut self) -> Vec<EndpointDescription> {
        let mut asking = Discovery::new(URL, Question::Endpoints, Duration::from_secs(5), self.now).unwrap();
        self.accept();
        loop {
            let bytes = std::mem::take(asking.outgoing());
            chunks(&bytes, &mut self.sent.client);
            self.server.handle_input(Input::Bytes { conn: self.conn, bytes: &bytes }, self.now);
            let answer = self.serve();
            asking.receive(&answer, self.now, &mut self.entropy);
            match asking.take_result() {
                Some(Ok(Response::GetEndpoints(response))) => {
                    // It says that it leaves.
                    let bytes = std::mem::take(asking.outgoing());
                    chunks(&bytes, &mut self.sent.client);
                    self.server.handle_input(Input::Bytes { conn: self.conn, bytes: &bytes }, self.now);
                    self.serve();
                    return response.endpoints.unwrap_or_default();
                }
                Some(other) => panic!("{other:?}"),
                None => assert!(!bytes.is_empty() || !answer.is_empty(), "nothing moves"),
            }
        }
    }

    /// Connects and activates a session; `twice` picks a token's form that is encrypted once more.
    pub(crate) fn connect(
        &mut self,
        people: &People,
        (policy, mode): (SecurityPolicyId, MessageSecurityMode),
        credential: Credential,
        twice: bool,
    ) {
        let endpoints = self.discover();
        let wish = EndpointWish {
            policies: vec![policy],
            modes: vec![mode],
            identities: vec![credential.kind()],
            danger_clear_secrets: false,
        };
        let mut choice = choose_endpoint(&endpoints, &wish).unwrap();
        if twice {
            let offered = choice.endpoint.user_identity_tokens.clone().unwrap();
            let sealed = offered.into_iter().find(|token| {
                token.token_type == UserTokenType::IssuedToken && token.security_policy_uri.as_ref() == policy.uri()
            });
            (choice.token, choice.token_security) = (sealed.unwrap(), policy);
        }
        let application =
            ClientApplication { uri: CLIENT_URI.into(), product_uri: "urn:test".into(), name: "test".into() };
        let mut config = ClientSessionConfig::new(URL, choice, application);
        config.discovered = Some(Arc::new(endpoints));
        config.identity = Some(Arc::clone(&people.client));
        config.trust = Some(trust(&people.server));
        config.channel_lifetime = LIFETIME;
        self.accept();
        self.activated = 0;
        self.client = Some(ClientSession::new(Arc::new(config), credential, self.now).unwrap());
        self.run();
    }

    /// What was sent since this was asked last.
    pub(crate) fn take_sent(&mut self) -> Sent {
        std::mem::take(&mut self.sent)
    }

    /// Sends a request; its answer is there when this returns, unless the server waits with it.
    pub(crate) fn request(&mut self, request: Request) {
        let now = self.now;
        self.client.as_mut().unwrap().request(request, None, now).unwrap();
        self.run();
    }

    /// Ends session and channel.
    pub(crate) fn close(&mut self) {
        let now = self.now;
        self.leaving = true;
        self.client.as_mut().unwrap().close(now, &mut self.entropy);
        self.run();
        self.leaving = false;
    }

    /// Activates the session again.
    pub(crate) fn reactivate(&mut self, credential: Credential) {
        let now = self.now;
        self.client.as_mut().unwrap().reactivate(credential, now);
        self.run();
    }

    /// Carries out what the server wants and returns what it sends.
    fn serve(&mut self) -> Vec<u8> {
        let mut sent = Vec::new();
        while let Some(output) = self.server.poll_output() {
            self.recorded += u64::from(matches!(output, Output::Audit { .. }));
            match output {
                Output::Send { conn } if conn == self.conn => {
                    sent.extend(std::mem::take(self.server.outgoing(conn).unwrap()));
                    self.server.handle_input(Input::Drained { conn, unsent: 0 }, self.now);
                }
                Output::Close { conn, rest } if conn == self.conn => sent.extend(rest),
                Output::Job(job) => {
                    let (id, outcome) = job.run();
                    self.server.handle_input(Input::JobDone { id, outcome }, self.now);
                }
                Output::Authenticate { id, name, password, .. } => {
                    let right = password.0.as_slice() == PASSWORD.as_bytes();
                    let wrong = || Refusal::new(Reason::UserCredentials, "wrong");
                    let result = right.then_some(Identity::User { name }).ok_or_else(wrong);
                    self.server.handle_input(Input::Authenticated { id, result }, self.now);
                }
                Output::Audit { id: Some(id), .. } => {
                    self.server.handle_input(Input::Audited { id, result: Audited::Kept }, self.now);
                }
                _ => {}
            }
        }
        chunks(&sent, &mut self.sent.server);
        sent
    }

    /// Moves bytes and runs jobs until nothing moves.
    fn run(&mut self) {
        loop {
            let mut moved = false;
            let answer = self.serve();
            let now = self.now;
            let client = self.client.as_mut().unwrap();
            if !answer.is_empty() {
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
                    ClientEvent::Activated(_) => self.activated += 1,
                    ClientEvent::Disconnected(_) if self.leaving => {}
                    ClientEvent::Refused(status) | ClientEvent::Disconnected(status) => panic!("{status}"),
                    _ => {}
                }
            }
            let bytes = client.outgoing().map(std::mem::take).unwrap_or_default();
            if !bytes.is_empty() {
                chunks(&bytes, &mut self.sent.client);
                self.server.handle_input(Input::Bytes { conn: self.conn, bytes: &bytes }, now);
                moved = true;
            }
            if !moved {
                return;
            }
        }
    }

    /// Moves the clock, deadline by deadline.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now.after(time);
        loop {
            let client = self.client.as_ref().and_then(ClientSession::poll_timeout);
            let next = client.into_iter().chain(self.server.poll_timeout()).min();
            let Some(at) = next.filter(|at| *at <= end.mono) else { return };
            self.now = self.now.after(at.since(self.now.mono));
            let now = self.now;
            self.server.handle_timeout(now);
            self.client.as_mut().unwrap().handle_timeout(now, &mut self.entropy);
            self.run();
        }
    }
}
