//! The channel: discovery, transport, opening, renewing, messages.

use serde::Serialize;

use super::{CHACHA, NONCE, Policy, record};
use crate::algorithm::{Cipher, Hash, Key};
use crate::choose::Mode;
use crate::mechanism::{self, Basic, Part, Role, certificate_bytes, priced, private, signature_bytes};
use crate::protocol::{
    Party, Per, Phase, certificates, digest, free, message, tcp, tcp_closed, times, unawaited, using, with_session_key,
};

/// Header of a chunk of a message, and the part of it that is encrypted with the body (OPC 10000-6 section 6.7.2).
const CLEAR: u64 = 16;
const SEQUENCE: u64 = 8;
const MAC: u64 = 32;
const TAG: u64 = 16;
const BLOCK: u64 = 16;
/// Bytes of a chunk that Trapkey's ends agree on where nothing else is configured.
const CHUNK: u64 = 65_536;
/// Bodies of an OpenSecureChannelRequest and its response, without their nonces.
const OPEN: (u64, u64) = (53, 56);
/// Body of a CloseSecureChannelRequest: what it is, and a header without a session.
const CLOSE: u64 = 4 + 29;
/// An endpoint in an answer, without its certificate and its policy's URI, that takes every kind of user; what it adds where the channel
/// encrypts, for tokens may go as they are, too. The URI stands there with each kind of user and by itself.
const ENDPOINT: (u64, u64) = (373, 293);
const URIS: u64 = 7;
/// One without a policy, where tokens are not taken and Basic256Sha256 protects passwords and signatures of users.
const BARE: u64 = 449;

/// A channel between a client and a server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Channel {
    /// Its policy.
    pub policy: Policy,
    /// Its mode; [`Mode::None`] with [`Policy::None`] and with no other.
    pub mode: Mode,
    /// The keys of the certificates of both ends; of no use without a policy.
    pub key: Key,
    /// Signatures that are checked on a certificate: 1 where it is self-signed, one more for each authority above it.
    pub certificates: u32,
    /// Whether the client asks the server for its endpoints before it connects, over a channel of its own.
    pub discovery: bool,
    /// Endpoints that the server offers: they are told again when a session is made.
    pub endpoints: u32,
    /// Whether the server writes an audit record of each channel and session, as Trapkey does.
    pub audited: bool,
    /// Probability that a signature of an end, or the code of a message, turns out right, 0 to 1. Certificates always
    /// do, and so do tags of authenticated ciphers.
    pub valid: f64,
}

/// Chunks of a message, and bytes of all of them that are encrypted, signed and sent.
struct Sizes {
    chunks: u64,
    encrypted: u64,
    signed: u64,
    sent: u64,
}

impl Channel {
    /// A channel with self-signed certificates, discovery, three endpoints and audit records. None where the policy does not take the
    /// key, or the mode does not fit the policy.
    #[must_use]
    pub fn new(policy: Policy, mode: Mode, key: Key) -> Option<Self> {
        let fits = (policy == Policy::None) == (mode == Mode::None) && policy.takes(key);
        fits.then_some(Self {
            policy,
            mode,
            key,
            certificates: 1,
            discovery: true,
            endpoints: 3,
            audited: true,
            valid: 1.0,
        })
    }

    /// What each client does that connects: discovery, transport, channel.
    #[must_use]
    pub fn open(&self, ends: (Party, Party)) -> Vec<Phase> {
        let phase = |name, source, parts| Phase { name, source, per: Per::Connection, ends, parts };
        let mut phases = Vec::new();
        if self.discovery {
            // A connection of its own.
            phases.push(tcp(ends));
            phases.push(phase("discovery", "OPC 10000-4 5.5.4", self.discover()));
            phases.push(tcp_closed(ends));
        }
        phases.push(tcp(ends));
        let hello = [message("Hello", Role::Own, 72), message("Acknowledge", Role::Peer, 28)];
        phases.push(phase("transport", "OPC 10000-6 7.1.2", hello.concat()));
        let mut parts = Vec::new();
        if self.policy != Policy::None {
            parts.push(certificates(Role::Own, self.key, self.certificates));
        }
        parts.extend(self.opening());
        if self.audited {
            parts.push(record(Role::Peer));
        }
        phases.push(phase("channel opened", "OPC 10000-6 6.7.4", parts));
        phases
    }

    /// What both ends do when the channel's keys are renewed.
    #[must_use]
    pub fn renew(&self, ends: (Party, Party)) -> Vec<Phase> {
        let (name, source) = ("channel renewed", "OPC 10000-4 5.6.2");
        vec![Phase { name, source, per: Per::Renewal, ends, parts: self.opening() }]
    }

    /// What ends a channel: the client says so and nobody answers. The server writes a record.
    #[must_use]
    pub fn close(&self, ends: (Party, Party)) -> Phase {
        let mut parts = self.message("CloseSecureChannel", Role::Own, CLOSE);
        if self.audited {
            parts.push(record(Role::Peer));
        }
        Phase { name: "channel closed", source: "OPC 10000-4 5.6.3", per: Per::Connection, ends, parts }
    }

    /// A message of `body` bytes, protected as the mode asks (OPC 10000-6 section 6.7.2).
    #[must_use]
    pub fn message(&self, name: &'static str, from: Role, body: u64) -> Vec<Part> {
        let (mut parts, after) = self.around(from, body);
        parts.extend(message(name, from, self.wire(body)));
        parts.extend(after);
        parts
    }

    /// What the sender of such a message does before it sends, and the receiver after.
    #[must_use]
    pub fn around(&self, from: Role, body: u64) -> (Vec<Part>, Vec<Part>) {
        let Sizes { chunks, encrypted, signed, .. } = self.sizes(body);
        let (own, aead) = (Role::Own, self.policy == Policy::EccCurve25519);
        let work = |name, operation: String, bytes| vec![times(priced(name, own, operation, bytes), chunks)];
        let each = |parts: Vec<Part>| parts.into_iter().map(|part| times(part, chunks)).collect::<Vec<_>>();
        let (signer, reader) = (from, from.other());
        let mut parts = Vec::new();
        let mut after = Vec::new();
        if self.mode >= Mode::Sign && aead && self.mode == Mode::Sign {
            // The tag of an authenticated cipher stands alone.
            let sign = work("encryptAlgorithm", format!("sign {CHACHA}"), signed);
            parts.push(using(Basic::SignatureGeneration, signer, sign));
            let verify = work("encryptAlgorithm", format!("verify {CHACHA}"), signed);
            after.push(using(Basic::SignatureVerification, reader, verify));
        } else if self.mode >= Mode::Sign && !aead {
            let key = Key::Hmac(256);
            let sign = with_session_key(mechanism::signing(key, Hash::Sha256, signed));
            parts.push(using(Basic::SignatureGeneration, signer, each(sign)));
            let verify = mechanism::verifying(key, Hash::Sha256, signed, self.valid);
            after.push(using(Basic::SignatureVerification, reader, each(verify)));
        }
        if self.mode == Mode::SignAndEncrypt {
            let cipher = self.policy.cipher();
            let encrypt = work("encryptAlgorithm", format!("encrypt {cipher}"), encrypted);
            parts.push(using(Basic::Encryption, signer, encrypt));
            let decrypt = work("decryptAlgorithm", format!("decrypt {cipher}"), encrypted);
            after.insert(0, using(Basic::Decryption, reader, decrypt));
        }
        (parts, after)
    }

    /// Symmetric strength in bits of what protects messages; 0 without a policy.
    pub(in crate::protocol) fn strength(&self) -> u32 {
        let signs = if self.policy == Policy::EccCurve25519 { 256 } else { 128 };
        match self.mode {
            Mode::None => 0,
            Mode::Sign => signs,
            Mode::SignAndEncrypt => Cipher::read(self.policy.cipher()).map_or(0, |cipher| cipher.strength().min(signs)),
        }
    }

    /// Bytes on the wire of a message of `body` bytes.
    #[must_use]
    pub fn wire(&self, body: u64) -> u64 {
        self.sizes(body).sent
    }

    /// All chunks but the last one are full.
    fn sizes(&self, body: u64) -> Sizes {
        let room = self.room();
        let chunks = body.div_ceil(room).max(1);
        let (full, last) = (self.chunk(room), self.chunk(body - (chunks - 1) * room));
        let sum = |of: fn(&Sizes) -> u64| (chunks - 1) * of(&full) + of(&last);
        Sizes { chunks, encrypted: sum(|it| it.encrypted), signed: sum(|it| it.signed), sent: sum(|it| it.sent) }
    }

    /// Bytes of a body that one chunk holds.
    fn room(&self) -> u64 {
        match (self.mode, self.policy) {
            (Mode::None, _) => CHUNK - CLEAR - SEQUENCE,
            (_, Policy::EccCurve25519) => CHUNK - CLEAR - SEQUENCE - TAG,
            (Mode::Sign, _) => CHUNK - CLEAR - SEQUENCE - MAC,
            // The size of the padding takes a byte, and there may be none.
            (Mode::SignAndEncrypt, _) => (CHUNK - CLEAR) / BLOCK * BLOCK - SEQUENCE - 1 - MAC,
        }
    }

    /// A chunk with so many bytes of a body.
    fn chunk(&self, body: u64) -> Sizes {
        let plain = SEQUENCE + body;
        let (encrypted, signed, sent) = match (self.mode, self.policy) {
            (Mode::None, _) => (0, 0, CLEAR + plain),
            (Mode::Sign, Policy::EccCurve25519) => (0, CLEAR + plain, CLEAR + plain + TAG),
            (Mode::SignAndEncrypt, Policy::EccCurve25519) => (plain, 0, CLEAR + plain + TAG),
            (Mode::Sign, _) => (0, CLEAR + plain, CLEAR + plain + MAC),
            (Mode::SignAndEncrypt, _) => {
                let padded = (plain + 1 + MAC).next_multiple_of(BLOCK);
                (padded, CLEAR + padded - MAC, CLEAR + padded)
            }
        };
        Sizes { chunks: 1, encrypted, signed, sent }
    }

    /// Asks for the endpoints over a channel without protection.
    fn discover(&self) -> Vec<Part> {
        let bare = Self { policy: Policy::None, mode: Mode::None, ..*self };
        let mut parts = Vec::new();
        parts.extend(message("Hello", Role::Own, 72));
        parts.extend(message("Acknowledge", Role::Peer, 28));
        parts.extend(bare.opening());
        parts.extend(bare.message("GetEndpoints", Role::Own, 70));
        parts.extend(bare.message("endpoints", Role::Peer, self.told()));
        parts.extend(unawaited(bare.message("CloseSecureChannel", Role::Own, CLOSE)));
        parts
    }

    /// Bytes in which the server tells its endpoints.
    pub(super) fn told(&self) -> u64 {
        let around = match self.mode {
            Mode::None => BARE,
            Mode::Sign => ENDPOINT.0 + URIS * self.policy.uri(),
            Mode::SignAndEncrypt => ENDPOINT.0 + ENDPOINT.1 + URIS * self.policy.uri(),
        };
        60 + u64::from(self.endpoints) * (around + certificate_bytes(self.key))
    }

    /// The policy that protects secrets and signatures of users: where the channel has none, servers of ours ask for one of RSA.
    pub(super) const fn users(&self) -> Policy {
        if matches!(self.policy, Policy::None) { Policy::Basic256Sha256 } else { self.policy }
    }

    /// OpenSecureChannel: request and answer, both signed by who sends them and encrypted for who gets them.
    fn opening(&self) -> Vec<Part> {
        let (own, peer) = (Role::Own, Role::Peer);
        let mut parts = self.ephemeral(own);
        parts.extend(self.sealed("OpenSecureChannel", own, OPEN.0 + self.policy.nonce()));
        if self.policy != Policy::None {
            // The server looks at the certificate each time, the client when it connects.
            parts.push(certificates(peer, self.key, self.certificates));
        }
        parts.extend(self.ephemeral(peer));
        parts.extend(self.derivation(peer));
        parts.extend(self.sealed("OpenSecureChannel answer", peer, OPEN.1 + self.policy.nonce()));
        parts.extend(self.derivation(own));
        parts
    }

    /// Bytes of a chain of certificates, as an OPN shows it: without the last one, if there is another, for that is
    /// trusted anyway.
    pub(super) fn chain(&self) -> u64 {
        certificate_bytes(self.key) * u64::from(self.certificates.saturating_sub(1).max(1))
    }

    /// Blocks of RSA, bytes that are signed, bytes that are sent of an OPN.
    fn open_sizes(&self, body: u64) -> (u64, u64, u64) {
        let chain = self.chain();
        let header = 12 + 4 + self.policy.uri() + 4 + 4;
        let signature = signature_bytes(self.key);
        match self.policy {
            Policy::None => (0, 0, header + SEQUENCE + body),
            Policy::EccNistP256 | Policy::EccCurve25519 => {
                let signed = header + chain + 20 + SEQUENCE + body;
                (0, signed, signed + signature)
            }
            _ => {
                let block = u64::from(self.key.bits() / 8);
                let padding = if block > 256 { 2 } else { 1 };
                let cipher = self.policy.sealing(self.key);
                let (room, blocks) = (cipher.room(), cipher.blocks(SEQUENCE + body + padding + signature));
                let before = header + chain + 20;
                (blocks, before + blocks * room - signature, before + blocks * block)
            }
        }
    }

    /// An OPN: signed, then encrypted block by block; with elliptic curves only signed.
    fn sealed(&self, name: &'static str, from: Role, body: u64) -> Vec<Part> {
        let (blocks, signed, sent) = self.open_sizes(body);
        if self.policy == Policy::None {
            return message(name, from, sent).to_vec();
        }
        let (key, own) = (self.key, Role::Own);
        let (scheme, cipher) = (self.policy.scheme(key), self.policy.sealing(key).step());
        let signing = mechanism::signing(scheme, digest(key), signed);
        let mut parts = vec![using(Basic::SignatureGeneration, from, signing)];
        if blocks > 0 {
            let encrypt = times(priced("encryptAlgorithm", own, format!("encrypt {cipher}"), 0), blocks);
            parts.push(using(Basic::Encryption, from, vec![encrypt]));
        }
        parts.extend(message(name, from, sent));
        if blocks > 0 {
            let decrypt = times(private("decryptAlgorithm", own, format!("decrypt {cipher}"), 0), blocks);
            parts.push(using(Basic::Decryption, from.other(), vec![decrypt]));
        }
        let verifying = mechanism::verifying(scheme, digest(key), signed, self.valid);
        parts.push(using(Basic::SignatureVerification, from.other(), verifying));
        parts
    }

    /// The nonce of an OPN: random, or an ephemeral key.
    fn ephemeral(&self, by: Role) -> Vec<Part> {
        match (self.policy, self.policy.curve()) {
            (Policy::None, _) => Vec::new(),
            (_, Some(curve)) => vec![priced("ephemeralKey", by, format!("generate {curve}"), 0)],
            (_, None) => vec![free("nonce", by, "random", NONCE)],
        }
    }

    /// The keys of both directions. Trapkey agrees on the secret for each direction, and its server derives the keys of
    /// `ECC_curve25519` in two layouts, for stacks differ: one has a signing key in front. With P-256 what only signs
    /// derives no more than the signing key (OPC 10000-6 section 6.8.1); with nonces all is derived.
    fn derivation(&self, by: Role) -> Vec<Part> {
        let signing = 32;
        match (self.policy, self.policy.curve()) {
            (Policy::None, _) => Vec::new(),
            (_, None) => {
                let bytes = 2 * (signing + self.policy.key_bytes() + 16);
                vec![priced("deriveKeys", by, "derive p-sha256".to_owned(), bytes)]
            }
            (policy, Some(curve)) => {
                let (layouts, bytes) = match (policy, by) {
                    (Policy::EccCurve25519, Role::Peer) => (2, 2 * (32 + 12) + signing),
                    (Policy::EccCurve25519, Role::Own) => (1, 32 + 12),
                    _ if self.mode == Mode::Sign => (1, signing),
                    _ => (1, signing + self.policy.key_bytes() + 16),
                };
                let agree = priced("agreeOnSecret", by, format!("agree {curve}"), 0);
                let derive = priced("deriveKeys", by, "derive hkdf-sha256".to_owned(), 2 * bytes);
                vec![times(agree, 2 * layouts), times(derive, 2 * layouts)]
            }
        }
    }
}
