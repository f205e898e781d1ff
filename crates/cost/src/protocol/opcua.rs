//! OPC UA: opening and renewing a channel, session, messages. Operations and sizes are those of Trapkey's server and client; where they
//! do more than the standard asks for it is said.

mod channel;
mod session;

use serde::Serialize;

use super::tokens::Tokens;
use super::{ENDS, Per, Phase, message};
use crate::algorithm::{Cipher, Key, Scheme};
use crate::mechanism::{Part, Role, priced};

pub use channel::Channel;
use session::activation;
pub(super) use session::{closing, session};

/// A security policy (OPC 10000-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Policy {
    /// Nothing is protected.
    None,
    /// RSA with PKCS #1 v1.5 and OAEP with SHA-1, AES-256-CBC, HMAC-SHA256.
    Basic256Sha256,
    /// RSA with PKCS #1 v1.5 and OAEP with SHA-1, AES-128-CBC, HMAC-SHA256.
    #[serde(rename = "Aes128_Sha256_RsaOaep")]
    Aes128Sha256RsaOaep,
    /// RSA with PSS and OAEP with SHA-256, AES-256-CBC, HMAC-SHA256.
    #[serde(rename = "Aes256_Sha256_RsaPss")]
    Aes256Sha256RsaPss,
    /// ECDSA and ECDH on P-256, AES-128-CBC, HMAC-SHA256.
    #[serde(rename = "ECC_nistP256")]
    EccNistP256,
    /// Ed25519, X25519, ChaCha20-Poly1305.
    #[serde(rename = "ECC_curve25519")]
    EccCurve25519,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::None,
        Self::Basic256Sha256,
        Self::Aes128Sha256RsaOaep,
        Self::Aes256Sha256RsaPss,
        Self::EccNistP256,
        Self::EccCurve25519,
    ];

    /// The name in its URI, as configurations write it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Basic256Sha256 => "Basic256Sha256",
            Self::Aes128Sha256RsaOaep => "Aes128_Sha256_RsaOaep",
            Self::Aes256Sha256RsaPss => "Aes256_Sha256_RsaPss",
            Self::EccNistP256 => "ECC_nistP256",
            Self::EccCurve25519 => "ECC_curve25519",
        }
    }

    /// Whether certificates of this policy may have such a key.
    #[must_use]
    pub const fn takes(self, key: Key) -> bool {
        match self {
            Self::None => true,
            Self::EccNistP256 => matches!(key, Key::Ecdsa(256)),
            Self::EccCurve25519 => matches!(key, Key::Ed25519),
            _ => matches!(key, Key::Rsa(2048..=4096)),
        }
    }

    /// The key that its certificates have, where there is but one kind.
    #[must_use]
    pub const fn usual(self) -> Option<Key> {
        match self {
            Self::None => Some(Key::Rsa(2048)),
            Self::EccNistP256 => Some(Key::Ecdsa(256)),
            Self::EccCurve25519 => Some(Key::Ed25519),
            _ => None,
        }
    }

    /// The name of the exchange of ephemeral keys; none where nonces are the secret.
    const fn curve(self) -> Option<&'static str> {
        match self {
            Self::EccNistP256 => Some("ecdh-p256"),
            Self::EccCurve25519 => Some("x25519"),
            _ => None,
        }
    }

    /// Bytes of a nonce in an OPN: random, or a public key.
    const fn nonce(self) -> u64 {
        match self {
            Self::None => 0,
            Self::EccNistP256 => 64,
            _ => 32,
        }
    }

    /// Bytes of its URI.
    pub(super) const fn uri(self) -> u64 {
        43 + self.word().len() as u64
    }

    /// Bytes of the URIs of algorithms that stand beside a signature and beside an encrypted secret; with elliptic curves there are none.
    const fn algorithms(self) -> (u64, u64) {
        match self {
            Self::None | Self::EccNistP256 | Self::EccCurve25519 => (0, 0),
            Self::Basic256Sha256 | Self::Aes128Sha256RsaOaep => (49, 41),
            Self::Aes256Sha256RsaPss => (53, 54),
        }
    }

    /// How its keys sign: AsymmetricSignatureAlgorithm. Certificates are signed with PKCS #1 v1.5 all the same
    /// (CertificateSignatureAlgorithm).
    pub(super) const fn scheme(self, key: Key) -> Scheme {
        Scheme { key, pss: matches!(self, Self::Aes256Sha256RsaPss) }
    }

    /// What encrypts for a key of RSA: AsymmetricEncryptionAlgorithm.
    pub(super) const fn sealing(self, key: Key) -> Cipher {
        let padding = if matches!(self, Self::Aes256Sha256RsaPss) { 66 } else { 42 };
        Cipher::Asymmetric { key, padding }
    }

    /// What encrypts messages.
    pub(super) const fn cipher(self) -> &'static str {
        match self {
            Self::Aes128Sha256RsaOaep | Self::EccNistP256 => "aes-128-cbc",
            Self::EccCurve25519 => CHACHA,
            _ => "aes-256-cbc",
        }
    }

    /// Bytes of the encrypting key.
    const fn key_bytes(self) -> u64 {
        match self {
            Self::Aes128Sha256RsaOaep | Self::EccNistP256 => 16,
            _ => 32,
        }
    }
}

const CHACHA: &str = "chacha20-poly1305";
/// A client's or session's nonce.
const NONCE: u64 = 32;

/// Who a session is for.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum User {
    /// Nobody in particular.
    Anonymous,
    /// A name with a password of so many bytes, encrypted for the server's key: without a policy by Basic256Sha256.
    Password(u64),
    /// A certificate with such a key.
    Certificate(Key),
    /// An access token.
    Token(Box<Tokens>),
}

/// A setting of an OPC UA server, as its clients meet it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpcUa {
    /// The channel.
    pub channel: Channel,
    /// Who the sessions are for.
    pub user: User,
}

impl OpcUa {
    /// Once in the life of a client: the session to the authority, if it is kept.
    #[must_use]
    pub fn once(&self) -> Vec<Phase> {
        match &self.user {
            User::Token(tokens) => tokens.once().into_iter().map(|it| it.per(Per::Life)).collect(),
            _ => Vec::new(),
        }
    }

    /// Whenever a client connects: discovery, transport, channel, its token, CreateSession, ActivateSession.
    #[must_use]
    pub fn connect(&self) -> Vec<Phase> {
        let mut phases = self.channel.open(ENDS);
        phases.extend(self.fetch_by(Tokens::fetch).into_iter().map(|phase| phase.per(Per::Connection)));
        phases.extend(session(&self.channel, &self.user, ENDS));
        phases
    }

    /// Whenever a client leaves: CloseSession, CloseSecureChannel, the end of the connection.
    #[must_use]
    pub fn disconnect(&self) -> Vec<Phase> {
        closing(&self.channel, ENDS)
    }

    /// Whenever the channel's lifetime is three quarters over; that of a channel to the authority that is kept is as long.
    #[must_use]
    pub fn renew(&self) -> Vec<Phase> {
        let mut phases = self.channel.renew(ENDS);
        if let User::Token(tokens) = &self.user {
            phases.extend(tokens.renew());
        }
        phases
    }

    /// Whenever a token's life is four fifths over: a new one, and ActivateSession again.
    #[must_use]
    pub fn refresh(&self) -> Vec<Phase> {
        let mut phases = self.fetch_by(Tokens::fetch_again);
        if !phases.is_empty() {
            phases.push(Phase { name: "session refreshed", ..activation(&self.channel, &self.user, ENDS) });
        }
        phases.into_iter().map(|phase| phase.per(Per::Token)).collect()
    }

    /// A request and its answer, of so many bytes in their bodies. `changes` says whether it is recorded by itself, as writes and calls
    /// are.
    #[must_use]
    pub fn request(&self, bytes: u64, answer: u64, changes: bool) -> Vec<Phase> {
        let (mut parts, after) = self.around(Role::Own, bytes);
        parts.extend(message("request", Role::Own, self.channel.wire(bytes)));
        parts.extend(after);
        if changes && self.channel.audited {
            parts.push(record(Role::Peer));
        }
        parts.extend(self.channel.message("answer", Role::Peer, answer));
        let (name, source) = ("request", "OPC 10000-6 6.7.2");
        vec![Phase { name, source, per: Per::Request, ends: ENDS, parts }]
    }

    /// What the sender of a message does before it sends, and the receiver after; the server looks at the rights of each request.
    pub(super) fn around(&self, from: Role, bytes: u64) -> (Vec<Part>, Vec<Part>) {
        let (before, mut after) = self.channel.around(from, bytes);
        if from == Role::Own && matches!(self.user, User::Token(_)) {
            after.push(priced("checkRights", Role::Peer, "check rights".to_owned(), 0));
        }
        (before, after)
    }

    /// Long-lived keys: of the certificates, of the user, of tokens and of the way to the authority.
    pub(super) fn keys(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        // Without a policy it encrypts passwords all the same.
        if self.channel.policy != Policy::None || matches!(self.user, User::Password(_)) {
            keys.push(self.channel.key);
        }
        match &self.user {
            User::Anonymous | User::Password(_) => {}
            User::Certificate(key) => keys.push(*key),
            User::Token(tokens) => keys.extend(tokens.keys()),
        }
        keys
    }

    fn fetch_by(&self, fetch: fn(&Tokens) -> Vec<Phase>) -> Vec<Phase> {
        let User::Token(tokens) = &self.user else { return Vec::new() };
        let connect = if tokens.kept { tokens.connect_again() } else { tokens.connect() };
        let disconnect = if tokens.stays() { Vec::new() } else { tokens.disconnect() };
        connect.into_iter().chain(fetch(tokens)).chain(disconnect).collect()
    }
}

/// An audit record is written.
pub(super) fn record(by: Role) -> Part {
    priced("writeRecord", by, "append audit".to_owned(), 0)
}
