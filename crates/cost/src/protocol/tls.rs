//! TLS 1.3 (RFC 8446): the full handshake, the resumed one, and records.

use serde::Serialize;

use super::{Party, Per, Phase, digest, message, times, unawaited, using};
use crate::algorithm::{Cipher, Hash, Key, Scheme};
use crate::mechanism::{self, Basic, Part, Role, priced};

/// Plain bytes of a record at most (RFC 8446 section 5.1).
const RECORD: u64 = 1 << 14;
/// Bytes of a record beside its content: header, type of content, tag (section 5.2).
const AROUND: u64 = 5 + 1 + 16;
/// A ClientHello with its record: what a client of ours offers to a host whose name has nine letters, without its share of the key
/// exchange.
const CLIENT_HELLO: u64 = 212;
/// A ServerHello with its record (section 4.1.3), without its share and what stands in front of that; a ChangeCipherSpec, which both
/// ends send for middleboxes (appendix D.4).
const SERVER_HELLO: u64 = 5 + 4 + 2 + 32 + 33 + 2 + 1 + 2 + 6;
const SHARE: u64 = 8;
const CHANGE: u64 = 5 + 1;
/// A ticket: servers of ours keep the session and give its number, 32 bytes (section 4.6.1).
const TICKET: u64 = 32;
/// An alert (section 6).
const ALERT: u64 = 2;
/// What a pre-shared key adds to a ClientHello beside ticket and binder, and to a ServerHello (section 4.2.11).
const OFFERED: u64 = 4 + 2 + 2 + 4 + 2 + 1;
const PICKED: u64 = 4 + 2;
/// NewSessionTicket: lifetime, number to hide its age, nonce, ticket, no extension. Two are sent at once.
const NEW_TICKET: u64 = 4 + 4 + 4 + 1 + 32 + 2 + TICKET + 2;
const TICKETS: u64 = 2;
/// EncryptedExtensions without any.
const EXTENSIONS: u64 = 4 + 2;
/// A CertificateRequest with the signatures that are taken. Servers of ours always ask; who has no certificate sends an empty list.
const REQUEST: u64 = 42;
/// A Certificate without any, and what each adds beside itself (section 4.4.2).
const CHAIN: u64 = 4 + 1 + 3;
const LINK: u64 = 3 + 2;
/// A CertificateVerify without its signature (section 4.4.3).
const VERIFY: u64 = 4 + 2 + 2;
/// What a CertificateVerify signs beside the hash of the handshake: 64 spaces and a label (section 4.4.3).
const VERIFIED: u64 = 64 + 34;
/// Secrets, keys and vectors that come of the key schedule on each side (section 7.1): three extractions, eight secrets, two keys of
/// Finished messages, and key and vector of both directions twice.
const DERIVED: u64 = 21;
/// What a binder takes besides: its key, and that of its code.
const BINDER: u64 = 2;

const AES_256: &str = "aes-256-gcm";

/// A group of the key exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// X25519.
    X25519,
    /// NIST P-256.
    EcdhP256,
}

impl Group {
    /// Its name in price lists: `generate x25519`, `agree x25519`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::X25519 => "x25519",
            Self::EcdhP256 => "ecdh-p256",
        }
    }

    /// Bytes of a public key.
    const fn share(self) -> u64 {
        match self {
            Self::X25519 => 32,
            Self::EcdhP256 => 65,
        }
    }
}

/// How TLS is set up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Tls {
    /// The key of the server's certificate and of those above it.
    pub key: Key,
    /// The key of the client's certificate, if it shows one.
    pub client: Option<Key>,
    /// Certificates that an end sends, the signature of each of which is checked: 1 with one authority above. What is trusted already is neither
    /// sent nor checked (RFC 8446 section 4.4.2, RFC 5280 section 6.1).
    pub certificates: u32,
    /// The group of the key exchange.
    pub group: Group,
    /// What encrypts records: `aes-128-gcm`, `aes-256-gcm` or `chacha20-poly1305`.
    pub cipher: &'static str,
    /// Probability that a handshake resumes an earlier connection, 0 to 1.
    pub resumed: f64,
    /// Whether a resumed handshake exchanges keys again (`psk_dhe_ke`), or not (`psk_ke`).
    pub fresh_keys: bool,
    /// Whether the server takes any certificate of a client that has its key, for clients are known by those that are registered: it
    /// looks at no signature on them in a handshake.
    pub registered: bool,
}

impl Tls {
    /// X25519, AES-128-GCM, one certification authority, keys exchanged anew when a connection is resumed.
    #[must_use]
    pub const fn new(key: Key) -> Self {
        Self {
            key,
            client: None,
            certificates: 1,
            group: Group::X25519,
            cipher: "aes-128-gcm",
            resumed: 0.0,
            fresh_keys: true,
            registered: false,
        }
    }

    /// What ends of ours agree on where nobody says otherwise: X25519 and AES-256-GCM. Our authority knows clients by their registration.
    #[must_use]
    pub const fn ours(key: Key) -> Self {
        Self { cipher: AES_256, registered: true, ..Self::new(key) }
    }

    /// The handshake of a client that connects: full, or resumed with its probability.
    #[must_use]
    pub fn connect(&self, ends: (Party, Party)) -> Phase {
        let (name, parts) = match self.resumed {
            never if never <= 0.0 => ("TLS handshake", self.full()),
            always if always >= 1.0 => ("TLS handshake resumed", self.resumed()),
            probability => {
                let (then, otherwise) = (self.resumed(), self.full());
                let either = Part::Either { guard: "connection is resumed", probability, then, otherwise };
                ("TLS handshake", vec![either])
            }
        };
        let source = "RFC 8446 section 2";
        Phase { name, source, per: Per::Connection, ends, parts }
    }

    /// Keys of both directions are renewed (RFC 8446 section 4.6.3).
    #[must_use]
    pub fn renew(&self, ends: (Party, Party)) -> Phase {
        let mut parts = Vec::new();
        for from in [Role::Own, Role::Peer] {
            parts.extend(self.data("KeyUpdate", from, 5));
            // The next secret, its key and its vector, on both sides.
            for by in [Role::Own, Role::Peer] {
                parts.push(self.derive(by, 3));
            }
        }
        Phase { name: "TLS keys updated", source: "RFC 8446 section 4.6.3", per: Per::Renewal, ends, parts }
    }

    /// Each end says that it will send nothing more (RFC 8446 section 6.1).
    #[must_use]
    pub fn close(&self, ends: (Party, Party)) -> Phase {
        let parts = [Role::Own, Role::Peer].map(|from| self.data("close_notify", from, ALERT)).concat();
        Phase { name: "TLS closed", source: "RFC 8446 section 6.1", per: Per::Connection, ends, parts }
    }

    /// What the sender of a message does before it sends, and the receiver after.
    #[must_use]
    pub fn around(&self, from: Role, bytes: u64) -> (Vec<Part>, Vec<Part>) {
        let records = bytes.div_ceil(RECORD).max(1);
        let work = |name, verb: &str| {
            times(priced(name, Role::Own, format!("{verb} {}", self.cipher), bytes + records), records)
        };
        let before = using(Basic::Encryption, from, vec![work("encryptAlgorithm", "encrypt")]);
        let after = using(Basic::Decryption, from.other(), vec![work("decryptAlgorithm", "decrypt")]);
        (vec![before], vec![after])
    }

    /// Bytes on the wire of a message.
    #[must_use]
    pub const fn wire(&self, bytes: u64) -> u64 {
        let records = bytes.div_ceil(RECORD);
        bytes + AROUND * if records == 0 { 1 } else { records }
    }

    /// Symmetric strength of the cipher and the group.
    pub(super) fn strength(&self) -> u32 {
        let cipher = Cipher::read(self.cipher).map_or(0, |cipher| cipher.strength());
        // Both groups have 128 bits (NIST SP 800-57 part 1, table 2).
        cipher.min(128)
    }

    /// The steps of the full handshake, the client first (RFC 8446 section 2).
    #[must_use]
    pub fn full(&self) -> Vec<Part> {
        let (own, peer) = (Role::Own, Role::Peer);
        let (hello, share) = (CLIENT_HELLO + self.group.share(), SHARE + self.group.share());
        let mut parts = vec![self.share(own)];
        parts.extend(message("ClientHello", own, hello));
        parts.extend([self.share(peer), self.agree(peer), self.derive(peer, DERIVED)]);
        let flight = EXTENSIONS + REQUEST + self.chain(self.key) + Self::verify_bytes(self.key) + self.finished_bytes();
        parts.push(self.proves(peer, self.key));
        parts.push(self.finish(peer));
        parts.extend(self.record(
            "ServerHello .. Finished",
            peer,
            flight,
            SERVER_HELLO + share + CHANGE,
            &[self.agree(own), self.derive(own, DERIVED)],
        ));
        parts.push(super::certificates(own, self.key, self.certificates));
        parts.push(self.believes(own, self.key));
        parts.push(self.finished(own));
        let mut last = CHAIN + self.finished_bytes();
        if let Some(key) = self.client {
            parts.push(self.proves(own, key));
            last = self.chain(key) + Self::verify_bytes(key) + self.finished_bytes();
        }
        parts.push(self.finish(own));
        parts.extend(unawaited(self.record("Finished", own, last, CHANGE, &[])));
        if let Some(key) = self.client {
            if !self.registered {
                parts.push(super::certificates(peer, key, self.certificates));
            }
            parts.push(self.believes(peer, key));
        }
        parts.push(self.finished(peer));
        let all = hello + SERVER_HELLO + share - 2 * 5 + flight + last;
        parts.extend([self.transcript(own, all), self.transcript(peer, all)]);
        parts.extend(self.ticket());
        parts
    }

    /// The steps of a handshake that resumes an earlier connection by its ticket (RFC 8446 section 2.2).
    #[must_use]
    pub fn resumed(&self) -> Vec<Part> {
        let (own, peer) = (Role::Own, Role::Peer);
        let fresh = |by: Role| if self.fresh_keys { vec![self.share(by)] } else { Vec::new() };
        let agree = |by: Role| if self.fresh_keys { vec![self.agree(by)] } else { Vec::new() };
        let share = |beside: u64| if self.fresh_keys { beside + self.group.share() } else { 0 };
        let hello = CLIENT_HELLO + share(0) + OFFERED + TICKET + self.hash_bytes();
        let answer = SERVER_HELLO + PICKED + share(SHARE);
        let mut parts = fresh(own);
        // The binder shows that the client has the key of the ticket; it has a key of its own, as Finished messages have (section 4.2.11.2).
        parts.extend([self.derive(own, BINDER), self.finish(own)]);
        parts.extend(message("ClientHello", own, hello));
        parts.extend([self.derive(peer, BINDER), self.finished(peer)]);
        parts.extend(fresh(peer));
        parts.extend(agree(peer));
        parts.extend([self.derive(peer, DERIVED), self.finish(peer)]);
        let flight = EXTENSIONS + self.finished_bytes();
        let derive: Vec<Part> = agree(own).into_iter().chain([self.derive(own, DERIVED)]).collect();
        parts.extend(self.record("ServerHello .. Finished", peer, flight, answer + CHANGE, &derive));
        parts.push(self.finished(own));
        parts.push(self.finish(own));
        let last = self.finished_bytes();
        parts.extend(unawaited(self.record("Finished", own, last, CHANGE, &[])));
        parts.push(self.finished(peer));
        let all = hello + answer - 2 * 5 + flight + last;
        parts.extend([self.transcript(own, all), self.transcript(peer, all)]);
        parts.extend(self.ticket());
        parts
    }

    /// `bytes` go from `from` to the other end in records.
    #[must_use]
    pub fn data(&self, name: &'static str, from: Role, bytes: u64) -> Vec<Part> {
        self.record(name, from, bytes, 0, &[])
    }

    /// Encrypted bytes behind clear ones; `between` is done by the receiver before it can decrypt.
    fn record(&self, name: &'static str, from: Role, bytes: u64, clear: u64, between: &[Part]) -> Vec<Part> {
        let (mut parts, after) = self.around(from, bytes);
        parts.extend(message(name, from, self.wire(bytes) + clear));
        parts.extend_from_slice(between);
        parts.extend(after);
        parts
    }

    /// What a later connection is resumed with (section 4.6.1): a key for each ticket. Nobody waits for them.
    fn ticket(&self) -> Vec<Part> {
        let mut parts = vec![self.derive(Role::Peer, TICKETS)];
        parts.extend(unawaited(self.record("NewSessionTicket", Role::Peer, TICKETS * NEW_TICKET, 0, &[])));
        parts.push(self.derive(Role::Own, TICKETS));
        parts
    }

    fn share(&self, by: Role) -> Part {
        priced("keyShare", by, format!("generate {}", self.group.word()), 0)
    }

    fn agree(&self, by: Role) -> Part {
        priced("agreeOnSecret", by, format!("agree {}", self.group.word()), 0)
    }

    /// So many secrets, keys and vectors, each counted as long as a secret.
    fn derive(&self, by: Role, count: u64) -> Part {
        let operation = format!("derive hkdf-sha{}", 8 * self.hash_bytes());
        times(priced("deriveKeys", by, operation, self.hash_bytes() * count), count)
    }

    /// The CertificateVerify of `by`.
    fn proves(&self, by: Role, key: Key) -> Part {
        using(Basic::SignatureGeneration, by, mechanism::signing(proof(key), scheme(key), VERIFIED + self.hash_bytes()))
    }

    /// `by` looks at the CertificateVerify of the other.
    fn believes(&self, by: Role, key: Key) -> Part {
        let verifying = mechanism::verifying(proof(key), scheme(key), VERIFIED + self.hash_bytes(), 1.0);
        using(Basic::SignatureVerification, by, verifying)
    }

    fn chain(&self, key: Key) -> u64 {
        CHAIN + (LINK + mechanism::certificate_bytes(key)) * u64::from(self.certificates.max(1))
    }

    fn verify_bytes(key: Key) -> u64 {
        VERIFY + mechanism::signature_value(key)
    }

    /// What the suite of the cipher hashes with, and derives keys (appendix B.4).
    fn hash(&self) -> Hash {
        if self.cipher == AES_256 { Hash::Sha384 } else { Hash::Sha256 }
    }

    fn hash_bytes(&self) -> u64 {
        u64::from(self.hash().bytes())
    }

    fn finished_bytes(&self) -> u64 {
        4 + self.hash_bytes()
    }

    /// A code over the handshake so far, whose digest is at hand.
    fn finish(&self, by: Role) -> Part {
        using(Basic::SignatureGeneration, by, vec![self.code("sign")])
    }

    /// The other end's code is looked at.
    fn finished(&self, by: Role) -> Part {
        using(Basic::SignatureVerification, by, vec![self.code("verify")])
    }

    fn code(&self, verb: &str) -> Part {
        priced("encryptAlgorithm", Role::Own, format!("{verb} {}", Key::Hmac(self.hash().bytes() * 8)), 0)
    }

    fn transcript(&self, by: Role, bytes: u64) -> Part {
        priced("hashHandshake", by, format!("hash {}", self.hash()), bytes)
    }
}

/// How a CertificateVerify is signed: with RSA by PSS, for a handshake takes no other padding (section 4.2.3).
const fn proof(key: Key) -> Scheme {
    Scheme { key, pss: true }
}

/// What a CertificateVerify with such a key hashes with: with RSA the longest that both ends take, which is what ends of ours pick
/// (section 4.2.3).
const fn scheme(key: Key) -> Hash {
    match key {
        Key::Rsa(_) => Hash::Sha512,
        other => digest(other),
    }
}
