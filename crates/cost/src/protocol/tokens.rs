//! How a client comes to its access token, and how a server believes it: P0's protocol with its two improvements (the session to the
//! authority is kept open, the token is not encrypted once more), and the ways in which Trapkey's authority is asked.

use serde::Serialize;

use super::opcua::{self, Channel, User, record};
use super::tls::Tls;
use super::{Party, Per, Phase, beside, certificates, digest, tcp, tcp_closed, using, with_session_key};
use crate::algorithm::{Hash, Key};
use crate::choose::Mode;
use crate::mechanism::{self, Basic, Part, Role, certificate_bytes, priced, private};

/// How the authority is asked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flow {
    /// RequestAccessToken, one call over OPC UA: P0's way, deprecated since.
    RequestAccessToken(Channel),
    /// StartRequestToken and FinishRequestToken, two calls over OPC UA.
    StartFinish(Channel),
    /// OAuth2 over HTTPS.
    OAuth2(Tls),
}

impl Flow {
    /// As settings write it.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::RequestAccessToken(_) => "request-access-token",
            Self::StartFinish(_) => "start-finish",
            Self::OAuth2(_) => "oauth2",
        }
    }
}

/// Who asks for a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Asker {
    /// The application itself, known by its certificate.
    Application,
    /// A person, whose password of so many bytes opened the session to the authority; over HTTPS it goes with the question.
    Session(u64),
    /// A person, whose password of so many bytes goes into FinishRequestToken, encrypted once more.
    Explicit(u64),
}

/// Access tokens and how they are come by.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tokens {
    /// How the authority is asked.
    pub flow: Flow,
    /// Who asks.
    pub asker: Asker,
    /// Bytes of a token.
    pub bytes: u64,
    /// The key that signs it: the authority's.
    pub signature: Key,
    /// Whether it is encrypted for the server's key before it goes into the encrypted channel (P0 calls it the second encryption).
    pub encrypted: bool,
    /// Whether the session to the authority is kept open from one token to the next. Over HTTPS each token has a connection of its own,
    /// as with Trapkey's client; kept is what resumes the one before.
    pub kept: bool,
    /// Of a way over HTTPS that is kept: the probability that a token is the first in the life of a client, whose connection has nothing to
    /// resume; 0 to 1.
    pub first: f64,
    /// Whether tokens after the first are asked for with a refresh token; see [`Tokens::misfit`].
    pub refresh_token: bool,
    /// Over HTTPS: signatures on the chain of the client's certificate, each of which the authority checks with every request when it asks
    /// whether one of the chain was revoked; 1 where the certificate is self-signed, one more for each authority above it.
    pub certificates: u32,
}

/// Client and authority.
const ENDS: (Party, Party) = (Party::Client, Party::Authority);
/// Bytes of a question over HTTPS, of what a person's name and kind of grant add to it beside the password, and of what stands around
/// the token in the answer.
const QUESTION: u64 = 266;
const PERSON: u64 = 130;
const AROUND: u64 = 212;
/// Bytes of a refresh token: the name of its line and 32 random ones, as text.
const REFRESH: u64 = 66;
/// Its name and its end in an answer over HTTPS; what an exchange (RFC 8693) says besides of what it gave.
const GIVEN: u64 = 45;
const EXCHANGED: u64 = 74;
/// Bodies of a call and of its answer, without what is passed.
const CALL: (u64, u64) = (96, 52);
/// Bytes of the name of a server, as calls pass it.
const RESOURCE: u64 = 5 + 20;
/// What is passed beside that, secrets and tokens: a RequestorData and a policy's name that are empty; where the session says who asks,
/// an empty identity, and the number of the request, roles and a signature of none.
const START: u64 = 2 * 5;
const FINISH: u64 = 17 + 5 + 4 + 18;
/// A name beside its password, its policy and its frame.
const IDENTITY: u64 = 35;
/// An RsaEncryptedSecret beside its policy's URI, keys, content and code (OPC 10000-4 section 7.40.2.3): type, length, thumbprint, time.
const SEALED: u64 = 5 + 4 + 4 + 24 + 8 + 2;
/// Bytes of a block of what encrypts its content, and of its code.
const BLOCK: u64 = 16;
const CODE: u64 = 32;
/// What a service tells of itself beside a certificate.
const DESCRIBED: u64 = 1_461;
/// What comes back of five methods that were looked for, and of each that was found.
const LOOKED: u64 = 76;
const FOUND: u64 = 13;
/// What comes back beside the token: number of the request and data of the service; a refresh token, and when both end.
const STARTED: u64 = 5 + 17;
const FINISHED: u64 = 2 * 5 + 2 * 9 + REFRESH;

impl Tokens {
    /// Tokens of 1,000 bytes signed with Ed25519 for an application, encrypted once, over a session that is kept.
    #[must_use]
    pub const fn new(flow: Flow) -> Self {
        let asker = Asker::Application;
        Self {
            flow,
            asker,
            bytes: 1_000,
            signature: Key::Ed25519,
            encrypted: false,
            kept: true,
            first: 0.0,
            refresh_token: false,
            certificates: 1,
        }
    }

    /// Why its parts do not fit together, if they do not.
    #[must_use]
    pub const fn misfit(&self) -> Option<&'static str> {
        match (self.refresh_token, &self.flow, self.asker) {
            (true, Flow::RequestAccessToken(_), _) => {
                Some("RequestAccessToken gives no refresh token: `token_refresh` cannot be `refresh-token`")
            }
            (true, Flow::OAuth2(_), Asker::Application) => {
                Some("an application gets no refresh token over OAuth2: `token_refresh` cannot be `refresh-token`")
            }
            _ => None,
        }
    }

    /// The way to the authority: a session and what is looked for in it, or a TLS connection.
    #[must_use]
    pub fn connect(&self) -> Vec<Phase> {
        match &self.flow {
            Flow::OAuth2(tls) => vec![tcp(ENDS), tls.connect(ENDS)],
            Flow::RequestAccessToken(channel) | Flow::StartFinish(channel) => {
                let user = match self.asker {
                    Asker::Session(bytes) => User::Password(bytes),
                    Asker::Application | Asker::Explicit(_) => User::Anonymous,
                };
                let mut phases = channel.open(ENDS);
                phases.extend(opcua::session(channel, &user, ENDS));
                phases.push(self.look(channel));
                phases
            }
        }
    }

    /// What is opened, and closed, once in the life of a client: a session that is kept. Over HTTPS nothing is.
    #[must_use]
    pub fn once(&self) -> Vec<Phase> {
        if self.stays() { self.connect().into_iter().chain(self.disconnect()).collect() } else { Vec::new() }
    }

    /// Whether the way to the authority stays open from one token to the next.
    pub(super) const fn stays(&self) -> bool {
        self.kept && !self.resumes()
    }

    /// The end of the way to the authority, for which nobody waits.
    #[must_use]
    pub fn disconnect(&self) -> Vec<Phase> {
        let phases = match &self.flow {
            Flow::OAuth2(tls) => vec![tls.close(ENDS), tcp_closed(ENDS)],
            Flow::RequestAccessToken(channel) | Flow::StartFinish(channel) => opcua::closing(channel, ENDS),
        };
        beside(phases)
    }

    /// Whether each token has a connection that resumes the one before.
    pub(crate) const fn resumes(&self) -> bool {
        self.kept && matches!(self.flow, Flow::OAuth2(_))
    }

    /// The way to the authority for a token, where it is kept: the session is there; over HTTPS one connection, which only the first time
    /// has nothing to resume.
    #[must_use]
    pub fn connect_again(&self) -> Vec<Phase> {
        match &self.flow {
            Flow::OAuth2(tls) => vec![tcp(ENDS), Tls { resumed: 1.0 - self.first, ..*tls }.connect(ENDS)],
            Flow::RequestAccessToken(_) | Flow::StartFinish(_) => Vec::new(),
        }
    }

    /// New keys of the channel to the authority, where one is kept.
    pub(super) fn renew(&self) -> Vec<Phase> {
        match &self.flow {
            Flow::RequestAccessToken(channel) | Flow::StartFinish(channel) if self.kept => channel.renew(ENDS),
            _ => Vec::new(),
        }
    }

    /// Long-lived keys: of the tokens, and of the way to the authority.
    pub(super) fn keys(&self) -> Vec<Key> {
        let (way, own) = match &self.flow {
            Flow::RequestAccessToken(channel) | Flow::StartFinish(channel) => (channel.key, None),
            Flow::OAuth2(tls) => (tls.key, tls.client),
        };
        [self.signature, way].into_iter().chain(own).collect()
    }

    /// The question and the token, over what [`Tokens::connect`] opened.
    #[must_use]
    pub fn fetch(&self) -> Vec<Phase> {
        let phase = |name, source, parts| Phase { name, source, per: Per::Token, ends: ENDS, parts };
        match &self.flow {
            Flow::RequestAccessToken(channel) => {
                // An empty identity asks for that of the session.
                let parts = self.call(channel, 4 + RESOURCE, self.asked(), 5 + self.bytes);
                vec![phase("RequestAccessToken", "OPC 10000-12 v1.05 9.6.5", parts)]
            }
            Flow::StartFinish(channel) => {
                let start = self.call(channel, RESOURCE + START, vec![self.known()], STARTED + self.data(channel));
                let (sealed, opened, bytes) = self.explicit(channel);
                let finish: Vec<Part> = opened.into_iter().chain(self.asked()).collect();
                let finish = self.call(channel, FINISH + bytes, finish, FINISHED + self.bytes);
                let finish = sealed.into_iter().chain(finish).collect();
                vec![
                    phase("StartRequestToken", "OPC 10000-12 9.6.6", start),
                    phase("FinishRequestToken", "OPC 10000-12 9.6.7", finish),
                ]
            }
            Flow::OAuth2(tls) => {
                let (asked, given) = match self.asker {
                    Asker::Application => (0, 0),
                    Asker::Session(bytes) | Asker::Explicit(bytes) => (PERSON + bytes, EXCHANGED + GIVEN + REFRESH),
                };
                let mut parts = tls.data("token request", Role::Own, QUESTION + asked);
                parts.extend(self.unrevoked(tls));
                if !matches!(self.asker, Asker::Application) {
                    parts.push(priced("checkPassword", Role::Peer, "check password".to_owned(), 0));
                }
                parts.extend(self.asked());
                parts.extend(tls.data("access token", Role::Peer, AROUND + self.bytes + given));
                vec![phase("token request", "RFC 6749 4.4", parts)]
            }
        }
    }

    /// A token after the first: asked for as the first was, or with the refresh token that came with the last one, which works
    /// once. The authority finds it by its hash, takes it, looks at the account and decides anew; no password is needed.
    #[must_use]
    pub fn fetch_again(&self) -> Vec<Phase> {
        if !self.refresh_token || self.misfit().is_some() {
            return self.fetch();
        }
        let peer = Role::Peer;
        let mut work = vec![
            priced("hashSecret", peer, format!("hash {}", Hash::Sha256), REFRESH),
            priced("takeToken", peer, "write journal".to_owned(), 0),
        ];
        work.extend(self.asked());
        let (name, source, parts) = match &self.flow {
            Flow::OAuth2(tls) => {
                let mut parts = tls.data("token request", Role::Own, QUESTION + REFRESH);
                parts.extend(self.unrevoked(tls));
                parts.extend(work);
                parts.extend(tls.data("access token", peer, AROUND + self.bytes + GIVEN + REFRESH));
                ("token request, refreshed", "RFC 6749 6", parts)
            }
            Flow::RequestAccessToken(channel) | Flow::StartFinish(channel) => {
                let parts = self.call(channel, RESOURCE + 5 + REFRESH, work, FINISHED + self.bytes);
                ("RefreshToken", "OPC 10000-12 9.6.8", parts)
            }
        };
        vec![Phase { name, source, per: Per::Token, ends: ENDS, parts }]
    }

    /// What `by` does to believe a token: signature, claims, and the rights that come of them.
    #[must_use]
    pub fn verified(&self, by: Role, valid: f64) -> Vec<Part> {
        let verifying = mechanism::verifying(self.signature, digest(self.signature), self.bytes, valid);
        vec![
            using(Basic::SignatureVerification, by, verifying),
            priced("readToken", by, "read token".to_owned(), self.bytes),
        ]
    }

    /// A call of a method: protected both ways.
    fn call(&self, channel: &Channel, bytes: u64, work: Vec<Part>, answer: u64) -> Vec<Part> {
        let mut parts = channel.message("call", Role::Own, CALL.0 + bytes);
        parts.extend(work);
        parts.extend(channel.message("answer", Role::Peer, CALL.1 + answer));
        parts
    }

    /// Over HTTPS the authority looks at the client's chain with each request and not in the handshake, for connections live long and lists
    /// of what is revoked change.
    fn unrevoked(&self, tls: &Tls) -> Option<Part> {
        tls.client.map(|key| certificates(Role::Peer, key, self.certificates))
    }

    /// The authority looks up who asks.
    fn known(&self) -> Part {
        priced("lookUpAccount", Role::Peer, "look up account".to_owned(), 0)
    }

    /// The authority decides, signs the token, keeps it in its journal, and writes an audit record.
    fn asked(&self) -> Vec<Part> {
        let peer = Role::Peer;
        vec![
            self.known(),
            priced("decide", peer, "decide".to_owned(), 0),
            using(
                Basic::SignatureGeneration,
                peer,
                mechanism::signing(self.signature, digest(self.signature), self.bytes),
            ),
            priced("writeJournal", peer, "write journal".to_owned(), 0),
            record(peer),
        ]
    }

    /// What StartRequestToken gives of the service: the certificate that a password is encrypted for.
    fn data(&self, channel: &Channel) -> u64 {
        match self.asker {
            Asker::Explicit(_) if seals(channel) => certificate_bytes(channel.key),
            _ => 0,
        }
    }

    /// A password in FinishRequestToken: an RsaEncryptedSecret for the authority's certificate (OPC 10000-4 section 7.40.2.4). With
    /// a certificate that only signs it goes in clear inside the channel.
    fn explicit(&self, channel: &Channel) -> (Vec<Part>, Vec<Part>, u64) {
        let Asker::Explicit(bytes) = self.asker else { return (Vec::new(), Vec::new(), 0) };
        let check = priced("checkPassword", Role::Peer, "check password".to_owned(), 0);
        let (key, own) = (channel.key, Role::Own);
        if !seals(channel) {
            return (Vec::new(), vec![check], IDENTITY + bytes);
        }
        // Nonce, password and how much was added to fill the last block.
        let plain = (4 + 32 + 4 + bytes + 2).next_multiple_of(BLOCK);
        let size = SEALED + channel.policy.uri() + u64::from(key.bits() / 8) + plain + CODE;
        let (cipher, step) = (channel.policy.cipher(), channel.policy.sealing(key).step());
        let seal = vec![
            priced("encryptAlgorithm", own, format!("encrypt {step}"), 0),
            priced("encryptAlgorithm", own, format!("encrypt {cipher}"), plain),
        ];
        let code = with_session_key(mechanism::signing(Key::Hmac(256), digest(key), size - CODE));
        let open = vec![
            private("decryptAlgorithm", own, format!("decrypt {step}"), 0),
            priced("decryptAlgorithm", own, format!("decrypt {cipher}"), plain),
        ];
        let looked = mechanism::verifying(Key::Hmac(256), digest(key), size - CODE, channel.valid);
        let sealed = vec![using(Basic::Encryption, own, seal), using(Basic::SignatureGeneration, own, code)];
        let opened = vec![
            using(Basic::SignatureVerification, Role::Peer, looked),
            using(Basic::Decryption, Role::Peer, open),
            check,
        ];
        (sealed, opened, IDENTITY + size)
    }

    /// After it connected, Trapkey's client reads the namespaces and looks for the methods of the service, whose node the server told.
    fn look(&self, channel: &Channel) -> Phase {
        let mut parts = Vec::new();
        // Five methods are looked for; an authority that has RequestAccessToken alone is asked by that.
        let found = if matches!(self.flow, Flow::RequestAccessToken(_)) { 1 } else { 4 };
        let mut asked = vec![("Read", 108, 128), ("TranslateBrowsePaths", 265, LOOKED + found * FOUND)];
        if matches!(self.asker, Asker::Explicit(_)) {
            // The certificate of the key that signs tokens, and how it takes identities (OPC 10000-12 section 9.6.4).
            asked.push(("GetServiceDescription", CALL.0, DESCRIBED + certificate_bytes(self.signature)));
        }
        for (name, bytes, answer) in asked {
            parts.extend(channel.message(name, Role::Own, bytes));
            parts.extend(channel.message("answer", Role::Peer, answer));
        }
        Phase { name: "service found", source: "OPC 10000-12 9.6.3", per: Per::Connection, ends: ENDS, parts }
    }
}

/// Whether a password is encrypted once more: for the authority's certificate, if that encrypts.
const fn seals(channel: &Channel) -> bool {
    matches!(channel.key, Key::Rsa(_)) && !matches!(channel.mode, Mode::None)
}
