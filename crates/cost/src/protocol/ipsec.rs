//! `IPsec`: keys and peers by `IKEv2` (RFC 7296), packets by ESP in tunnel mode (RFC 4303). Both use the same cipher here, as is usual.
//!
//! Left out: EAP, MOBIKE, fragments of IKE's messages (RFC 7383), packets that are lost and sent again, liveness checks.

mod ike;

use serde::Serialize;

use super::packets::{IP, PACKET, Packets, UDP};
use super::{Party, Per, Phase, either, times, using, with_session_key};
use crate::algorithm::{Cipher, Hash, Key};
use crate::mechanism::{self, Basic, Part, Role, priced};

/// SPI and sequence number (RFC 4303 section 2), and the two bytes of the trailer that are always there.
const HEADER: u64 = 4 + 4;
const TRAILER: u64 = 2;
/// Bytes of a tag (RFC 4106, RFC 7634), and of a code by HMAC-SHA256 (RFC 4868).
const TAG: u64 = 16;

/// A group of the key exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Number 31 (RFC 8031).
    X25519,
    /// Number 19 (RFC 5903).
    EcdhP256,
    /// Number 20 (RFC 5903).
    EcdhP384,
    /// Number 14 (RFC 3526).
    #[serde(rename = "modp-2048")]
    Modp2048,
    /// Number 15 (RFC 3526).
    #[serde(rename = "modp-3072")]
    Modp3072,
}

impl Group {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::X25519, Self::EcdhP256, Self::EcdhP384, Self::Modp2048, Self::Modp3072];

    /// Its name in price lists: `generate modp-2048`, `agree modp-2048`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::X25519 => "x25519",
            Self::EcdhP256 => "ecdh-p256",
            Self::EcdhP384 => "ecdh-p384",
            Self::Modp2048 => "modp-2048",
            Self::Modp3072 => "modp-3072",
        }
    }

    /// Bytes of a public key in a KE payload.
    const fn share(self) -> u64 {
        match self {
            Self::X25519 => 32,
            Self::EcdhP256 => 64,
            Self::EcdhP384 => 96,
            Self::Modp2048 => 256,
            Self::Modp3072 => 384,
        }
    }

    /// Bytes of the secret.
    const fn secret(self) -> u64 {
        match self {
            Self::EcdhP256 => 32,
            Self::EcdhP384 => 48,
            other => other.share(),
        }
    }

    /// Symmetric strength (NIST SP 800-57 part 1, table 2).
    const fn strength(self) -> u32 {
        match self {
            Self::Modp2048 => 112,
            Self::EcdhP384 => 192,
            _ => 128,
        }
    }
}

/// The pseudo-random function (RFC 4868).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prf {
    /// HMAC with SHA-256.
    HmacSha256,
    /// HMAC with SHA-384.
    HmacSha384,
}

impl Prf {
    /// As settings and price lists write it: `derive prf-hmac-sha256`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::HmacSha256 => "hmac-sha256",
            Self::HmacSha384 => "hmac-sha384",
        }
    }

    /// Bytes that come out at once, which is also the length of its keys.
    const fn bytes(self) -> u64 {
        match self {
            Self::HmacSha256 => 32,
            Self::HmacSha384 => 48,
        }
    }
}

/// How the ends prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Auth {
    /// Signatures, and certificates that show whose they are (RFC 7427): the responder's key, the initiator's.
    Signature(Key, Key),
    /// A key that both were given before (RFC 7296 section 2.15). How hard it is to guess is not known here.
    Shared,
}

/// A tunnel of `IPsec`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ipsec {
    /// How the ends prove who they are.
    pub auth: Auth,
    /// Certificates that an end sends, the signature of each of which is checked: 1 with one authority above. What is trusted already is neither
    /// sent nor checked (RFC 7296 section 3.6, RFC 5280 section 6.1).
    pub certificates: u32,
    /// The group of the key exchange.
    pub group: Group,
    /// What keys are derived with.
    pub prf: Prf,
    /// What encrypts packets and IKE's own messages: `aes-128-gcm`, `aes-256-gcm`, `chacha20-poly1305`, or `aes-128-cbc`, `aes-256-cbc`
    /// with HMAC-SHA256.
    pub cipher: &'static str,
    /// Probability that the responder has too many half-open connections and asks for a cookie first, 0 to 1 (RFC 7296 section 2.6).
    pub cookie: f64,
    /// Whether keys of packets are renewed with a key exchange of their own (RFC 7296 section 1.3.1).
    pub fresh_keys: bool,
    /// Share of the renewals that also renew the keys of IKE, 0 to 1.
    pub ike_renewed: f64,
    /// Whether there is address translation on the way: packets go in UDP (RFC 3948).
    pub translated: bool,
    /// Bytes of a packet in the tunnel at most, its IP header included.
    pub packet: u32,
    /// Probability that the AUTH of an end, or the code of a message, turns out right, 0 to 1. Certificates always do,
    /// and so do tags of authenticated ciphers.
    pub valid: f64,
}

impl Ipsec {
    /// X25519, HMAC-SHA256, AES-128-GCM, one certification authority, renewals with keys of their own, one in four of IKE too (keys of
    /// packets that live an hour, and four), no translation, packets of 1,420 bytes.
    #[must_use]
    pub const fn new(auth: Auth) -> Self {
        Self {
            auth,
            certificates: 1,
            group: Group::X25519,
            prf: Prf::HmacSha256,
            cipher: "aes-128-gcm",
            cookie: 0.0,
            fresh_keys: true,
            ike_renewed: 0.25,
            translated: false,
            packet: PACKET,
            valid: 1.0,
        }
    }

    /// IKE_SA_INIT, where it is asked for a cookie twice, and IKE_AUTH.
    #[must_use]
    pub fn connect(&self, ends: (Party, Party)) -> Vec<Phase> {
        let phase = |name, source, parts| Phase { name, source, per: Per::Connection, ends, parts };
        let mut phases = Vec::new();
        if self.cookie > 0.0 {
            let guard = "responder has too many half-open connections";
            let parts = either(guard, self.cookie, self.asked_for_cookie());
            phases.push(phase("IKE cookie", "RFC 7296 section 2.6", parts));
        }
        phases.push(phase("IKE_SA_INIT", "RFC 7296 sections 1.2, 2.14", self.initial()));
        phases.push(phase("IKE_AUTH", "RFC 7296 sections 1.2, 2.15, 2.17", self.authentication()));
        phases
    }

    /// The initiator deletes the keys of IKE, and with them go those of packets.
    #[must_use]
    pub fn disconnect(&self, ends: (Party, Party)) -> Phase {
        let (name, source) = ("IKE closed", "RFC 7296 sections 1.4.1, 3.11");
        Phase { name, source, per: Per::Connection, ends, parts: self.deleted() }
    }

    /// The keys of packets are renewed, and now and then those of IKE; what was replaced is deleted.
    #[must_use]
    pub fn renew(&self, ends: (Party, Party)) -> Vec<Phase> {
        let phase = |name, source, parts| Phase { name, source, per: Per::Renewal, ends, parts };
        let mut phases = vec![phase("ESP rekeyed", "RFC 7296 sections 1.3.3, 2.8, 2.17", self.child())];
        if self.ike_renewed > 0.0 {
            let parts = either("keys of IKE are due", self.ike_renewed, self.renewed());
            phases.push(phase("IKE rekeyed", "RFC 7296 sections 1.3.2, 2.18", parts));
        }
        phases
    }

    /// What the sender of a message does before it sends, and the receiver after: ESP packet by packet.
    #[must_use]
    pub fn around(&self, from: Role, bytes: u64) -> (Vec<Part>, Vec<Part>) {
        let packets = Packets::of(bytes, self.packet);
        let plain = packets.sum(|packet| self.filled(packet));
        let coded = plain + packets.count() * (HEADER + self.vector());
        self.protected(from, plain, coded, packets.count())
    }

    /// Bytes on the wire of a message: what the tunnel adds are ESP's header, vector, filling and code, and the headers around them.
    #[must_use]
    pub fn wire(&self, bytes: u64) -> u64 {
        let around = IP + if self.translated { UDP } else { 0 } + HEADER + self.vector() + TAG;
        bytes + Packets::of(bytes, self.packet).sum(|packet| self.filled(packet) - packet + around)
    }

    /// Symmetric strength of cipher, code, key derivation and group.
    pub(super) fn strength(&self) -> u32 {
        let cipher = Cipher::read(self.cipher).map_or(0, |cipher| cipher.strength());
        let code = if self.authenticated() { cipher } else { Key::Hmac(256).strength() };
        let derived = match self.prf {
            Prf::HmacSha256 => 256,
            Prf::HmacSha384 => 384,
        };
        cipher.min(code).min(derived).min(self.group.strength())
    }

    /// The keys of both certificates.
    pub(super) fn keys(&self) -> Vec<Key> {
        match self.auth {
            Auth::Signature(responder, initiator) => vec![responder, initiator],
            Auth::Shared => Vec::new(),
        }
    }

    /// Encrypted by `from` and decrypted by the other: `plain` bytes in `count` pieces, of which a code covers `coded`.
    fn protected(&self, from: Role, plain: u64, coded: u64, count: u64) -> (Vec<Part>, Vec<Part>) {
        let work =
            |name, verb: &str| vec![times(priced(name, Role::Own, format!("{verb} {}", self.cipher), plain), count)];
        let to = from.other();
        let mut before = vec![using(Basic::Encryption, from, work("encryptAlgorithm", "encrypt"))];
        let mut after = vec![using(Basic::Decryption, to, work("decryptAlgorithm", "decrypt"))];
        if !self.authenticated() {
            // The code is made of what is encrypted, and looked at before anything is decrypted.
            let each = |parts: Vec<Part>| parts.into_iter().map(|part| times(part, count)).collect::<Vec<_>>();
            let sign = with_session_key(mechanism::signing(Key::Hmac(256), Hash::Sha256, coded));
            before.push(using(Basic::SignatureGeneration, from, each(sign)));
            let verify = mechanism::verifying(Key::Hmac(256), Hash::Sha256, coded, self.valid);
            after.insert(0, using(Basic::SignatureVerification, to, each(verify)));
        }
        (before, after)
    }

    /// A packet with its trailer, filled up.
    fn filled(&self, packet: u64) -> u64 {
        (packet + TRAILER).next_multiple_of(self.block())
    }

    fn authenticated(&self) -> bool {
        matches!(Cipher::read(self.cipher), Some(Cipher::Symmetric { authenticated: true, .. }))
    }

    /// What plain bytes are filled up to: blocks of the cipher, or words (RFC 4303 section 2.4).
    fn block(&self) -> u64 {
        if self.authenticated() { 4 } else { 16 }
    }

    /// Bytes of the initialisation vector (RFC 4106 section 3.1, RFC 7634 section 2, RFC 3602 section 3).
    fn vector(&self) -> u64 {
        if self.authenticated() { 8 } else { 16 }
    }

    /// Bytes of keys for one direction: of the cipher, with its salt (RFC 4106 section 8.1), and of the code.
    fn key_bytes(&self) -> u64 {
        let cipher = match Cipher::read(self.cipher) {
            Some(Cipher::Symmetric { bits, .. }) => u64::from(bits / 8),
            _ => 0,
        };
        cipher + if self.authenticated() { 4 } else { 32 }
    }
}
