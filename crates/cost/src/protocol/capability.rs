//! Capabilities of devices that speak MQTT (Elsayed, Krintz, Wolski, *Just the FACTS*), in the form that Trapkey's design gives them: a chain of frames in which
//! each HMAC is the key of the next, whose last one never leaves the device. The device proves that it has it, once when it connects or
//! with each message, and messages are sealed with a key that comes of it.
//!
//! Left out: the brokers' own work, acknowledgements of MQTT, and who makes root frames and hands them to devices.

use serde::Serialize;

use super::{Party, Per, Phase, digest, free, message, times, using, with_session_key};
use crate::algorithm::{Hash, Key};
use crate::choose::Mode;
use crate::mechanism::{self, Basic, Part, Role, priced, private, signature_bytes};

/// Frames of a chain and caveats in it, at most; a chain of so many is below 512 bytes.
pub const MAX_FRAMES: u32 = 8;
/// Caveats beside those that a frame of usual size holds, at most.
pub const MAX_CAVEATS: u32 = 32;
/// Bytes of the first frame, of each further one, and of a caveat more.
const ROOT: u64 = 34;
const FRAME: u64 = 29;
const CAVEAT: u64 = 6;
/// What the code of a frame covers besides it: a label and a length. Its key is the code before.
const LABEL: u64 = 12;
/// Nonces, a counter of connections, a code, a public key of X25519.
const NONCE: u64 = 8;
const COUNTER: u64 = 4;
const CODE: u64 = 16;
const SHARE: u64 = 32;
/// An envelope: its kind, its counter, its tag.
const ENVELOPE: u64 = 1 + 4 + 16;
/// What a seal covers besides the message: sort of packet, topic, quality of service.
const ABOUT: u64 = 36;
/// A packet of MQTT 5 before its properties: CONNECT (section 3.1) with a name of 16 bytes, AUTH (3.15), CONNACK (3.2).
const CONNECT: u64 = 10 + 2 + 16;
const AUTH: u64 = 1;
const CONNACK: u64 = 2;
/// The property with the name of the method, and one with data beside them (section 2.2.2.2).
const METHOD: u64 = 3 + 11;
const DATA: u64 = 3;

const OWN: Role = Role::Own;
const PEER: Role = Role::Peer;

/// When a device shows its chain and proves that it is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// When it connects: both prove it to the other with nonces (AUTH of MQTT 5, section 4.12).
    Challenge,
    /// When it connects, in one message with a counter that only rises (MQTT 3.1.1 has no AUTH).
    Counter,
    /// With each message, as in FACTS: nothing is kept from one to the next, and nothing that goes to the device is protected.
    Stateless,
}

impl Path {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Challenge, Self::Counter, Self::Stateless];

    /// As settings write it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Challenge => "challenge",
            Self::Counter => "counter",
            Self::Stateless => "stateless",
        }
    }
}

/// A device with a capability, at a guard.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Capability {
    /// When it is shown.
    pub path: Path,
    /// Frames of the chain, 1 to [`MAX_FRAMES`].
    pub frames: u32,
    /// Caveats more than frames of usual size hold, up to [`MAX_CAVEATS`]; the guard judges each whenever the chain is shown.
    pub caveats: u32,
    /// Frames of a second chain that says who the device acts for, up to [`MAX_FRAMES`]; FACTS has one.
    pub identity: u32,
    /// Bytes of all frames as they are sent, where they are not in our form; FACTS adds some 530 to each message.
    pub sent: Option<u64>,
    /// What seals messages: `hmac-sha256`, which leaves them readable, `chacha20-poly1305` or `aes-128-gcm`.
    pub seal: &'static str,
    /// Whether the keys of a session come of ephemeral keys, too; not when nothing is kept.
    pub fresh_keys: bool,
    /// Probability that the guard still has the last code of a chain that is shown, 0 to 1.
    pub cached: f64,
    /// The key with which the device signs what it sends besides, as FACTS allows.
    pub signature: Option<Key>,
    /// Probability that a code and a signature turn out right, 0 to 1.
    pub valid: f64,
}

impl Capability {
    /// Three frames, nothing cached, sealed with ChaCha20-Poly1305, or with HMAC-SHA256 where each message shows the chain.
    #[must_use]
    pub const fn new(path: Path) -> Self {
        let seal = if matches!(path, Path::Stateless) { HMAC } else { "chacha20-poly1305" };
        Self {
            path,
            frames: 3,
            caveats: 0,
            identity: 0,
            sent: None,
            seal,
            fresh_keys: false,
            cached: 0.0,
            signature: None,
            valid: 1.0,
        }
    }

    /// Why its parts do not fit together, if they do not.
    #[must_use]
    pub fn misfit(&self) -> Option<&'static str> {
        if self.path != Path::Stateless {
            return None;
        }
        if self.seal != HMAC {
            return Some("`path` is `stateless`, which seals with `hmac-sha256` only: `seal` says otherwise");
        }
        self.fresh_keys.then_some("`path` is `stateless`, which keeps no keys: `fresh_keys` cannot be `true`")
    }

    /// The device narrows what it was given, once: a code for each frame after the first.
    #[must_use]
    pub fn once(&self, ends: (Party, Party)) -> Vec<Phase> {
        let parts: Vec<Part> = (1..self.frames).flat_map(|frame| self.code(frame)).collect();
        if parts.is_empty() {
            return Vec::new();
        }
        let parts = vec![using(Basic::SignatureGeneration, OWN, with_session_key(parts))];
        vec![Phase { name: "capability narrowed", source: "FACTS III", per: Per::Life, ends, parts }]
    }

    /// CONNECT until CONNACK.
    #[must_use]
    pub fn connect(&self, ends: (Party, Party)) -> Phase {
        let (source, parts) = match self.path {
            Path::Challenge => ("FACTS III; MQTT 5.0 4.12", self.challenge()),
            Path::Counter => ("FACTS III; MQTT 5.0 3.1.3", self.counter()),
            Path::Stateless => {
                let sent =
                    [message("CONNECT", OWN, packet(CONNECT + 1)), message("CONNACK", PEER, packet(CONNACK + 1))];
                ("MQTT 5.0 3.1", sent.concat())
            }
        };
        Phase { name: "capability shown", source, per: Per::Connection, ends, parts }
    }

    /// DISCONNECT, without a reason: nothing is wrong.
    #[must_use]
    pub fn disconnect(&self, ends: (Party, Party)) -> Phase {
        let parts = message("DISCONNECT", OWN, packet(0)).to_vec();
        Phase { name: "MQTT closed", source: "MQTT 5.0 3.14", per: Per::Connection, ends, parts }
    }

    /// New keys: the challenge again, within the connection; with a counter a new connection. Without a session there are none.
    #[must_use]
    pub fn renew(&self, ends: (Party, Party)) -> Vec<Phase> {
        let (source, parts) = match self.path {
            Path::Challenge => {
                let mut parts = vec![free("nonce", OWN, "random", NONCE)];
                parts.extend(self.ephemeral(OWN));
                parts.extend(message("AUTH", OWN, auth(NONCE + self.share())));
                parts.extend(self.answered());
                parts.extend(message("AUTH", PEER, auth(0)));
                ("MQTT 5.0 4.12.1", parts)
            }
            Path::Counter => ("MQTT 5.0 3.1.3", self.counter()),
            Path::Stateless => return Vec::new(),
        };
        vec![Phase { name: "session keys renewed", source, per: Per::Renewal, ends, parts }]
    }

    /// What the sender of a message does before it sends, and the receiver after. The guard looks at the rights of each message that it
    /// gets, and of each that it delivers.
    #[must_use]
    pub fn around(&self, from: Role, bytes: u64) -> (Vec<Part>, Vec<Part>) {
        let rights = || priced("checkRights", PEER, "check rights".to_owned(), 0);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        if from == PEER {
            before.push(rights());
            if self.path == Path::Stateless {
                return (before, after);
            }
        }
        if let (Some(key), Role::Own) = (self.signature, from) {
            before.push(using(Basic::SignatureGeneration, OWN, mechanism::signing(key, digest(key), bytes)));
        }
        let (seal, open) = self.sealed(from, bytes);
        before.push(seal);
        if self.path == Path::Stateless {
            after.extend(self.looked_at());
        }
        after.extend(open);
        if let (Some(key), Role::Own) = (self.signature, from) {
            let verifying = mechanism::verifying(key, digest(key), bytes, self.valid);
            after.push(using(Basic::SignatureVerification, PEER, verifying));
        }
        if from == OWN {
            after.push(rights());
        }
        (before, after)
    }

    /// Bytes on the wire of a message.
    #[must_use]
    pub fn wire(&self, from: Role, bytes: u64) -> u64 {
        let signature = self.signature.filter(|_| from == OWN).map_or(0, signature_bytes);
        bytes
            + signature
            + match (self.path, from) {
                (Path::Stateless, Role::Peer) => 0,
                (Path::Stateless, Role::Own) => self.shown() + ENVELOPE,
                _ => ENVELOPE,
            }
    }

    /// How messages are protected towards the side that is protected less.
    pub(super) fn mode(&self) -> Mode {
        match self.path {
            Path::Stateless => Mode::None,
            _ if self.seal == HMAC => Mode::Sign,
            _ => Mode::SignAndEncrypt,
        }
    }

    /// Symmetric strength: of tags and codes of 128 bits, and of X25519.
    pub(super) fn strength(&self) -> u32 {
        if self.path == Path::Stateless { 0 } else { 128 }
    }

    /// CONNECT with the chain, AUTH with the guard's proof, AUTH with the device's, CONNACK.
    fn challenge(&self) -> Vec<Part> {
        let mut parts = vec![free("nonce", OWN, "random", NONCE)];
        parts.extend(self.ephemeral(OWN));
        let data = METHOD + DATA + self.shown() + NONCE + self.share();
        parts.extend(message("CONNECT", OWN, packet(CONNECT + length(data) + data)));
        parts.extend(self.looked_at());
        parts.extend(self.answered());
        parts.push(record());
        parts.extend(message("CONNACK", PEER, packet(CONNACK + 1 + METHOD)));
        parts
    }

    /// From the nonce of the device to the keys of both.
    fn answered(&self) -> Vec<Part> {
        let mut parts = vec![free("nonce", PEER, "random", NONCE)];
        parts.extend(self.ephemeral(PEER));
        parts.extend([proof_key(PEER), proof(PEER, "sign")]);
        parts.extend(message("AUTH", PEER, auth(NONCE + CODE + self.share())));
        parts.extend([proof_key(OWN), proof(OWN, "verify")]);
        parts.push(self.checked());
        parts.push(proof(OWN, "sign"));
        parts.extend(self.keys(OWN, false));
        parts.extend(message("AUTH", OWN, auth(CODE)));
        parts.push(proof(PEER, "verify"));
        parts.push(self.checked());
        parts.extend(self.keys(PEER, false));
        parts
    }

    /// One message with chain, counter and proof, as user name and password in Base64; CONNACK.
    fn counter(&self) -> Vec<Part> {
        let text = |bytes: u64| (4 * bytes).div_ceil(3);
        let mut parts = vec![free("keepCounter", OWN, "keep counter", COUNTER), free("nonce", OWN, "random", NONCE)];
        parts.extend(self.ephemeral(OWN));
        parts.extend([proof_key(OWN), proof(OWN, "sign")]);
        let shown = 2 + text(self.shown()) + 2 + text(COUNTER + NONCE + CODE + self.share());
        parts.extend(message("CONNECT", OWN, packet(CONNECT + 1 + shown)));
        parts.extend(self.looked_at());
        parts.extend([proof_key(PEER), proof(PEER, "verify")]);
        parts.push(self.checked());
        parts.push(free("keepCounter", PEER, "keep counter", COUNTER));
        parts.extend(self.keys(PEER, true));
        parts.push(record());
        parts.extend(message("CONNACK", PEER, packet(CONNACK + 1)));
        parts.extend(self.keys(OWN, false));
        parts
    }

    /// The guard reads the frames, makes the codes of the chain again unless it has the last one, and judges the caveats.
    fn looked_at(&self) -> Vec<Part> {
        let mut chain = vec![priced("readCapability", PEER, "read capability".to_owned(), self.shown())];
        let chains = [self.frames, self.identity];
        let codes: Vec<Part> = chains.into_iter().flat_map(|frames| (0..frames).flat_map(|it| self.code(it))).collect();
        chain.push(using(Basic::SignatureVerification, PEER, codes));
        let mut parts = if self.cached > 0.0 {
            let guard = "last code is known";
            vec![Part::Either { guard, probability: self.cached, then: Vec::new(), otherwise: chain }]
        } else {
            chain
        };
        if self.caveats > 0 {
            parts.push(times(free("judgeCaveat", PEER, "judge caveat", 0), u64::from(self.caveats)));
        }
        parts
    }

    /// The code of a frame; that of the first uses the guard's own key.
    fn code(&self, frame: u32) -> Vec<Part> {
        let bytes = if frame == 0 { ROOT + CAVEAT * u64::from(self.caveats) } else { FRAME };
        let parts = mechanism::signing(Key::Hmac(256), Hash::Sha256, LABEL + bytes);
        if frame == 0 { parts } else { with_session_key(parts) }
    }

    /// Bytes of all frames.
    fn shown(&self) -> u64 {
        let chain = |frames: u32| if frames == 0 { 0 } else { ROOT + FRAME * u64::from(frames - 1) };
        self.sent.unwrap_or_else(|| chain(self.frames) + chain(self.identity) + CAVEAT * u64::from(self.caveats))
    }

    fn share(&self) -> u64 {
        if self.fresh_keys { SHARE } else { 0 }
    }

    fn ephemeral(&self, by: Role) -> Option<Part> {
        self.fresh_keys.then(|| priced("ephemeralKey", by, "generate x25519".to_owned(), 0))
    }

    /// The keys of both directions: one run of HMAC to extract, one for each. A guard that sent no new key uses its static one.
    fn keys(&self, by: Role, with_static: bool) -> Vec<Part> {
        let agree = if with_static { private } else { priced };
        let agree = self.fresh_keys.then(|| agree("agreeOnSecret", by, "agree x25519".to_owned(), 0));
        let derive = times(priced("deriveKeys", by, "derive hkdf-sha256".to_owned(), 3 * 32), 3);
        agree.into_iter().chain([derive]).collect()
    }

    fn checked(&self) -> Part {
        Part::Check { name: "proof right", passes: self.valid }
    }

    /// A message is sealed by `from`, and opened by the other.
    fn sealed(&self, from: Role, bytes: u64) -> (Part, Vec<Part>) {
        let to = from.other();
        if self.seal == HMAC {
            let covered = bytes + ABOUT + ENVELOPE - CODE;
            let sign = with_session_key(mechanism::signing(Key::Hmac(256), Hash::Sha256, covered));
            let verify = mechanism::verifying(Key::Hmac(256), Hash::Sha256, covered, self.valid);
            let open = using(Basic::SignatureVerification, to, verify);
            return (using(Basic::SignatureGeneration, from, sign), vec![open]);
        }
        let work = |name, verb: &str| vec![priced(name, OWN, format!("{verb} {}", self.seal), bytes + ABOUT)];
        let open = using(Basic::Decryption, to, work("decryptAlgorithm", "decrypt"));
        (using(Basic::Encryption, from, work("encryptAlgorithm", "encrypt")), vec![open, self.checked()])
    }
}

const HMAC: &str = "hmac-sha256";

/// The key of proofs comes of the chain's last code.
fn proof_key(by: Role) -> Part {
    using(Basic::SignatureGeneration, by, mechanism::signing(Key::Hmac(256), Hash::Sha256, LABEL))
}

/// A code over both nonces or the counter, made or looked at.
fn proof(by: Role, verb: &str) -> Part {
    let mechanism = if verb == "sign" { Basic::SignatureGeneration } else { Basic::SignatureVerification };
    let hash = priced("generateDigest", OWN, format!("hash {}", Hash::Sha256), LABEL + 2 * NONCE + COUNTER);
    using(mechanism, by, vec![hash, priced("encryptAlgorithm", OWN, format!("{verb} {HMAC}"), 0)])
}

/// The guard writes an audit record of the activation.
fn record() -> Part {
    priced("writeRecord", PEER, "append audit".to_owned(), 0)
}

/// AUTH with the method and so many bytes of data.
fn auth(bytes: u64) -> u64 {
    let properties = METHOD + if bytes > 0 { DATA + bytes } else { 0 };
    packet(AUTH + length(properties) + properties)
}

/// A packet of MQTT: its sort, the length of what remains, and that.
fn packet(remains: u64) -> u64 {
    1 + length(remains) + remains
}

/// Bytes of a length (section 1.5.5).
const fn length(bytes: u64) -> u64 {
    match bytes {
        0..128 => 1,
        128..16_384 => 2,
        _ => 3,
    }
}
