//! WireGuard: the handshake Noise IKpsk2, the answer of a responder under load, packets. Clauses are those of Donenfeld, *WireGuard:
//! Next Generation Kernel Network Tunnel* (the white paper of 2020).
//!
//! Left out: waiting (an initiator that got a cookie tries again after 5 s), keep-alives, and what does not depend on a peer (the hash
//! of the protocol's name, the keys of both codes).

use serde::Serialize;

use super::packets::{IP, PACKET, Packets, UDP};
use super::{Party, Per, Phase, either, free, message, times, using};
use crate::mechanism::{Basic, Part, Role, priced, private};

/// Messages (section 5.4): initiation, response, cookie reply.
const INITIATION: u64 = 148;
const RESPONSE: u64 = 92;
const COOKIE_REPLY: u64 = 64;
/// Header and tag of a packet (section 5.4.6).
const AROUND: u64 = 16 + 16;
/// Packets are filled up to a multiple of so many bytes.
const BLOCK: u64 = 16;
/// A public key, a hash, the tag of the cipher, a timestamp, a code or cookie.
const KEY: u64 = 32;
const HASH: u64 = 32;
const TAG: u64 = 16;
const TIMESTAMP: u64 = 12;
const CODE: u64 = 16;

/// Symmetric strength in bits: of X25519 (NIST SP 800-57 part 1, table 2).
pub(super) const STRENGTH: u32 = 128;

/// A tunnel of WireGuard: everything is fixed but what its ends keep and how loaded they are. A pre-shared key costs nothing, for its
/// place is always mixed in (section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WireGuard {
    /// Probability that the responder is under load and asks for a cookie first, 0 to 1 (section 5.3).
    pub cookie: f64,
    /// Whether both ends keep the secret of their two static keys from one handshake to the next, as the kernel's does.
    pub kept: bool,
    /// Bytes of a packet in the tunnel at most, its IP header included.
    pub packet: u32,
}

impl Default for WireGuard {
    /// A responder at rest, ends that keep the secret of their static keys, packets of 1,420 bytes.
    fn default() -> Self {
        Self { cookie: 0.0, kept: true, packet: PACKET }
    }
}

impl WireGuard {
    /// The handshake; under load a cookie is asked for and the initiation sent once more.
    #[must_use]
    pub fn connect(&self, ends: (Party, Party)) -> Vec<Phase> {
        let phase = |name, source, parts| Phase { name, source, per: Per::Connection, ends, parts };
        let cookie = self.cookie();
        let cookie = (!cookie.is_empty()).then(|| phase("WireGuard cookie", "WireGuard 5.4.7", cookie));
        let handshake = phase("WireGuard handshake", "WireGuard 5.4.2, 5.4.3, 5.4.5", self.handshake());
        cookie.into_iter().chain([handshake]).collect()
    }

    /// New keys are a new handshake: 120 s after the last one, or after 2^60 packets (section 6.2). The responder
    /// cannot tell it from a first one, so that under load it asks for a cookie here, too; the one before is as old as
    /// the keys, and not good for longer (section 5.4.4).
    #[must_use]
    pub fn renew(&self, ends: (Party, Party)) -> Phase {
        let (name, source) = ("WireGuard rekeyed", "WireGuard 6.2");
        let parts = self.cookie().into_iter().chain(self.handshake()).collect();
        Phase { name, source, per: Per::Renewal, ends, parts }
    }

    /// What the sender of a message does before it sends, and the receiver after (section 5.4.6).
    #[must_use]
    pub fn around(&self, from: Role, bytes: u64) -> (Vec<Part>, Vec<Part>) {
        let packets = Packets::of(bytes, self.packet);
        let sealed = packets.sum(|packet| packet.next_multiple_of(BLOCK));
        let work = |name, verb: &str| {
            vec![times(priced(name, Role::Own, format!("{verb} {CIPHER}"), sealed), packets.count())]
        };
        let before = using(Basic::Encryption, from, work("encryptAlgorithm", "encrypt"));
        let after = using(Basic::Decryption, from.other(), work("decryptAlgorithm", "decrypt"));
        (vec![before], vec![after])
    }

    /// Bytes on the wire of a message: what the tunnel adds are its own headers and tags, UDP and IP around them, and filling.
    #[must_use]
    pub fn wire(&self, bytes: u64) -> u64 {
        let added = |packet: u64| packet.next_multiple_of(BLOCK) - packet + AROUND + UDP + IP;
        bytes + Packets::of(bytes, self.packet).sum(added)
    }

    /// What a responder under load adds to a handshake.
    fn cookie(&self) -> Vec<Part> {
        if self.cookie > 0.0 {
            either("responder is under load", self.cookie, self.asked_for_cookie())
        } else {
            Vec::new()
        }
    }

    /// Initiation and response, and the keys that come of them.
    fn handshake(&self) -> Vec<Part> {
        let (own, peer) = (Role::Own, Role::Peer);
        let mut parts = self.initiates();
        parts.extend(self.reads_initiation());
        // The response: two secrets with the new key of its sender, the pre-shared key, nothing encrypted.
        parts.push(ephemeral(peer));
        parts.extend([derive(peer, 2), mix(peer, KEY)]);
        parts.extend([agree(peer), derive(peer, 2), agree(peer), derive(peer, 2)]);
        parts.extend([derive(peer, 4), mix(peer, HASH), seal(peer, 0), mix(peer, TAG)]);
        parts.push(code(peer, "sign", RESPONSE - 2 * CODE));
        parts.extend(message("handshake response", peer, RESPONSE));
        parts.push(code(own, "verify", RESPONSE - 2 * CODE));
        parts.extend([derive(own, 2), mix(own, KEY)]);
        parts.extend([agree(own), derive(own, 2), with_static(own), derive(own, 2)]);
        parts.extend([derive(own, 4), mix(own, HASH), open(own, 0), mix(own, TAG)]);
        // Keys of both directions.
        parts.extend([derive(own, 3), derive(peer, 3)]);
        parts
    }

    /// An initiation is made and sent.
    fn initiates(&self) -> Vec<Part> {
        let own = Role::Own;
        let mut parts = vec![mix(own, KEY), ephemeral(own)];
        parts.extend([derive(own, 2), mix(own, KEY)]);
        // The new key and the responder's static one: who has the latter can read who asks.
        parts.extend([agree(own), derive(own, 3), seal(own, KEY), mix(own, KEY + TAG)]);
        parts.extend(self.both_static(own));
        parts.extend([derive(own, 3), seal(own, TIMESTAMP), mix(own, TIMESTAMP + TAG)]);
        parts.push(code(own, "sign", INITIATION - 2 * CODE));
        parts.extend(message("handshake initiation", own, INITIATION));
        parts
    }

    fn reads_initiation(&self) -> Vec<Part> {
        let peer = Role::Peer;
        let mut parts = vec![code(peer, "verify", INITIATION - 2 * CODE)];
        parts.extend([mix(peer, KEY), derive(peer, 2), mix(peer, KEY)]);
        parts.extend([with_static(peer), derive(peer, 3), open(peer, KEY), mix(peer, KEY + TAG)]);
        parts.extend(self.both_static(peer));
        parts.extend([derive(peer, 3), open(peer, TIMESTAMP), mix(peer, TIMESTAMP + TAG)]);
        parts
    }

    /// Under load only the first code is looked at, so an initiation was in vain. The one of the handshake that follows has a second
    /// code, which is made and looked at here: the cookie follows from the sender's address and is its key.
    fn asked_for_cookie(&self) -> Vec<Part> {
        let (own, peer) = (Role::Own, Role::Peer);
        let mut parts = self.initiates();
        parts.push(code(peer, "verify", INITIATION - 2 * CODE));
        parts.push(code(peer, "sign", 4 + 2));
        parts.push(free("nonce", peer, "random", 24));
        parts.push(using(
            Basic::Encryption,
            peer,
            vec![priced("encryptAlgorithm", own, "encrypt xchacha20-poly1305".to_owned(), CODE)],
        ));
        parts.extend(message("cookie reply", peer, COOKIE_REPLY));
        parts.push(using(
            Basic::Decryption,
            own,
            vec![priced("decryptAlgorithm", own, "decrypt xchacha20-poly1305".to_owned(), CODE)],
        ));
        parts.push(code(own, "sign", INITIATION - CODE));
        parts.extend([code(peer, "sign", 4 + 2), code(peer, "verify", INITIATION - CODE)]);
        parts
    }

    /// The secret of both static keys, where it is not kept.
    fn both_static(&self, by: Role) -> Option<Part> {
        (!self.kept).then(|| with_static(by))
    }
}

const CIPHER: &str = "chacha20-poly1305";

fn ephemeral(by: Role) -> Part {
    priced("ephemeralKey", by, "generate x25519".to_owned(), 0)
}

/// A secret of a new key.
fn agree(by: Role) -> Part {
    priced("agreeOnSecret", by, "agree x25519".to_owned(), 0)
}

/// A secret of the static key of `by`.
fn with_static(by: Role) -> Part {
    private("agreeOnSecret", by, "agree x25519".to_owned(), 0)
}

/// Runs of HMAC-BLAKE2s: one to extract, and one for each key that comes out.
fn derive(by: Role, runs: u64) -> Part {
    times(priced("deriveKeys", by, "derive hkdf-blake2s".to_owned(), HASH * runs), runs)
}

/// So many bytes are added to the hash of the handshake so far.
fn mix(by: Role, bytes: u64) -> Part {
    priced("hashHandshake", by, "hash blake2s".to_owned(), HASH + bytes)
}

fn seal(by: Role, bytes: u64) -> Part {
    let seal = priced("encryptAlgorithm", Role::Own, format!("encrypt {CIPHER}"), bytes);
    using(Basic::Encryption, by, vec![seal])
}

fn open(by: Role, bytes: u64) -> Part {
    let open = priced("decryptAlgorithm", Role::Own, format!("decrypt {CIPHER}"), bytes);
    using(Basic::Decryption, by, vec![open])
}

/// A keyed hash of 16 bytes over a message so far (section 5.4.4).
fn code(by: Role, verb: &str, bytes: u64) -> Part {
    let mechanism = if verb == "sign" { Basic::SignatureGeneration } else { Basic::SignatureVerification };
    using(mechanism, by, vec![priced("encryptAlgorithm", Role::Own, format!("{verb} blake2s-mac"), bytes)])
}
