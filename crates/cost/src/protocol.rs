//! Today's protocols, composed of the basic mechanisms: OPC UA channels and sessions, the flows by which a client of Trapkey comes to
//! its access token, TLS 1.3, capabilities of devices that speak MQTT, tunnels of WireGuard and `IPsec`.
//!
//! A protocol is data: a list of [`Phase`]s, each a small mechanism with one entry and one exit between two parties. [`lines`] gives the
//! same as a flat list, one line a step: who does what operation on how many bytes, how many times, and how often in the life of a
//! client. What operations cost is looked up elsewhere, as for every mechanism.
//!
//! ```
//! use cost::protocol::opcua::{Channel, OpcUa, Policy, User};
//! use cost::protocol::{Party, lines};
//! use cost::{algorithm::Key, choose::Mode};
//!
//! let channel = Channel::new(Policy::Basic256Sha256, Mode::SignAndEncrypt, Key::Rsa(2048)).unwrap();
//! let opcua = OpcUa { channel, user: User::Anonymous };
//! let server = lines(&opcua.connect()).into_iter().filter(|line| line.by == Party::Server);
//! let decrypted: u64 = server.filter(|line| line.operation == "decrypt rsa-2048").map(|line| line.times).sum();
//! assert_eq!(decrypted, 2, "the request to open a channel has two blocks");
//! ```

pub mod capability;
pub mod ipsec;
mod lines;
pub mod opcua;
mod packets;
pub mod tls;
pub mod tokens;
pub mod wireguard;

use serde::Serialize;

pub use lines::{Line, lines, table};

use crate::algorithm::{Hash, Key};
use crate::choose::Mode;
use crate::mechanism::{self, Basic, Part, Role, Work, priced};

/// Who takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Party {
    /// Who connects.
    Client,
    /// Who is connected to.
    Server,
    /// Who issues access tokens.
    Authority,
}

impl Party {
    /// As it is printed.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Authority => "authority",
        }
    }
}

/// How often something is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Per {
    /// Once in the life of a client.
    Life,
    /// Whenever it connects.
    Connection,
    /// Whenever the keys of its channel are renewed.
    Renewal,
    /// Whenever its access token is renewed.
    Token,
    /// With each request.
    Request,
}

impl Per {
    /// As it is printed.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Life => "life",
            Self::Connection => "connection",
            Self::Renewal => "renewal",
            Self::Token => "token",
            Self::Request => "request",
        }
    }
}

/// A part of a protocol: steps of two parties, done one after the other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Phase {
    /// What it is.
    pub name: &'static str,
    /// The clause that says so.
    pub source: &'static str,
    /// How often it is done.
    pub per: Per,
    /// Who is [`Role::Own`] and who [`Role::Peer`] in its steps.
    pub ends: (Party, Party),
    /// Its steps.
    pub parts: Vec<Part>,
}

impl Phase {
    /// The same, done more or less often.
    #[must_use]
    pub fn per(self, per: Per) -> Self {
        Self { per, ..self }
    }

    /// Who plays a role in it.
    #[must_use]
    pub const fn party(&self, role: Role) -> Party {
        match role {
            Role::Own => self.ends.0,
            Role::Peer => self.ends.1,
        }
    }
}

/// A protocol with its parameters.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// A channel and session of OPC UA.
    OpcUa(opcua::OpcUa),
    /// A connection of TLS 1.3.
    Tls(tls::Tls),
    /// A device with a capability, at a guard of MQTT.
    Capability(capability::Capability),
    /// A tunnel of WireGuard.
    WireGuard(wireguard::WireGuard),
    /// A tunnel of `IPsec`.
    Ipsec(ipsec::Ipsec),
}

/// Client and server.
pub(crate) const ENDS: (Party, Party) = (Party::Client, Party::Server);

impl Protocol {
    /// As models write it.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::OpcUa(_) => "opc-ua",
            Self::Tls(_) => "tls-1.3",
            Self::Capability(_) => "capability",
            Self::WireGuard(_) => "wireguard",
            Self::Ipsec(_) => "ipsec",
        }
    }

    /// What is done once in the life of a client.
    #[must_use]
    pub fn once(&self) -> Vec<Phase> {
        match self {
            Self::OpcUa(it) => it.once(),
            Self::Capability(it) => it.once(ENDS),
            Self::Tls(_) | Self::WireGuard(_) | Self::Ipsec(_) => Vec::new(),
        }
    }

    /// Its access tokens, if each has a connection that resumes the one before.
    pub(crate) fn resuming(&mut self) -> Option<&mut tokens::Tokens> {
        match self {
            Self::OpcUa(opcua::OpcUa { user: opcua::User::Token(tokens), .. }) if tokens.resumes() => Some(tokens),
            _ => None,
        }
    }

    /// What is done whenever a client connects.
    #[must_use]
    pub fn connect(&self) -> Vec<Phase> {
        match self {
            Self::OpcUa(it) => it.connect(),
            Self::Tls(it) => vec![tcp(ENDS), it.connect(ENDS)],
            Self::Capability(it) => vec![tcp(ENDS), it.connect(ENDS)],
            Self::WireGuard(it) => it.connect(ENDS),
            Self::Ipsec(it) => it.connect(ENDS),
        }
    }

    /// What is done whenever a client leaves; nobody waits for it. WireGuard has no message for it: its keys are forgotten when they are
    /// too old.
    #[must_use]
    pub fn disconnect(&self) -> Vec<Phase> {
        match self {
            Self::OpcUa(it) => it.disconnect(),
            Self::Tls(it) => vec![it.close(ENDS), tcp_closed(ENDS)],
            Self::Capability(it) => vec![it.disconnect(ENDS), tcp_closed(ENDS)],
            Self::WireGuard(_) => Vec::new(),
            Self::Ipsec(it) => vec![it.disconnect(ENDS)],
        }
    }

    /// What is done whenever keys are renewed.
    #[must_use]
    pub fn renew(&self) -> Vec<Phase> {
        match self {
            Self::OpcUa(it) => it.renew(),
            Self::Tls(it) => vec![it.renew(ENDS)],
            Self::Capability(it) => it.renew(ENDS),
            Self::WireGuard(it) => vec![it.renew(ENDS)],
            Self::Ipsec(it) => it.renew(ENDS),
        }
    }

    /// What is done whenever an access token is renewed.
    #[must_use]
    pub fn refresh(&self) -> Vec<Phase> {
        match self {
            Self::OpcUa(it) => it.refresh(),
            _ => Vec::new(),
        }
    }

    /// What the sender of a message of `bytes` does before it sends, and the receiver after.
    #[must_use]
    pub fn around(&self, from: Role, bytes: u64) -> (Vec<Part>, Vec<Part>) {
        match self {
            Self::OpcUa(it) => it.around(from, bytes),
            Self::Tls(it) => it.around(from, bytes),
            Self::Capability(it) => it.around(from, bytes),
            Self::WireGuard(it) => it.around(from, bytes),
            Self::Ipsec(it) => it.around(from, bytes),
        }
    }

    /// Bytes on the wire of a message of `bytes` that `from` sends.
    #[must_use]
    pub fn wire(&self, from: Role, bytes: u64) -> u64 {
        match self {
            Self::OpcUa(it) => it.channel.wire(bytes),
            Self::Tls(it) => it.wire(bytes),
            Self::Capability(it) => it.wire(from, bytes),
            Self::WireGuard(it) => it.wire(bytes),
            Self::Ipsec(it) => it.wire(bytes),
        }
    }

    /// How messages are protected, in the direction that is protected least.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match self {
            Self::OpcUa(it) => it.channel.mode,
            Self::Capability(it) => it.mode(),
            Self::Tls(_) | Self::WireGuard(_) | Self::Ipsec(_) => Mode::SignAndEncrypt,
        }
    }

    /// Symmetric strength in bits of the weakest part; 0 where nothing is protected.
    #[must_use]
    pub fn strength(&self) -> u32 {
        let keys = self.keys().into_iter().map(Key::strength).min();
        let cipher = match self {
            Self::OpcUa(it) => it.channel.strength(),
            Self::Tls(it) => it.strength(),
            Self::Capability(it) => it.strength(),
            Self::WireGuard(_) => wireguard::STRENGTH,
            Self::Ipsec(it) => it.strength(),
        };
        keys.map_or(cipher, |keys| keys.min(cipher))
    }

    /// Long-lived keys of signatures and of asymmetric encryption that it rests on.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        match self {
            Self::OpcUa(it) => it.keys(),
            Self::Tls(it) => [it.key].into_iter().chain(it.client).collect(),
            Self::Capability(it) => it.signature.into_iter().collect(),
            Self::WireGuard(_) => Vec::new(),
            Self::Ipsec(it) => it.keys(),
        }
    }
}

/// A message, and what its ends do besides cryptography: an operation of its own, free where no price list has it.
pub(crate) fn message(name: &'static str, from: Role, bytes: u64) -> [Part; 3] {
    [
        free("send", from, "send message", bytes),
        Part::Message { name, from, bytes },
        free("receive", from.other(), "receive message", bytes),
    ]
}

/// Whether that is such an operation of a message.
pub(crate) fn handles(work: &Work) -> bool {
    matches!(work.operation.as_deref(), Some("send message" | "receive message"))
}

/// A connection of TCP: a round trip before anything can be sent. Headers count nowhere; what only acknowledges is left out.
pub(crate) fn tcp(ends: (Party, Party)) -> Phase {
    let parts = vec![
        Part::Message { name: "SYN", from: Role::Own, bytes: 0 },
        Part::Message { name: "SYN, ACK", from: Role::Peer, bytes: 0 },
    ];
    Phase { name: "TCP connection", source: "RFC 9293 section 3.5", per: Per::Connection, ends, parts }
}

/// Its end: each says that it will send nothing more, who connected first (OPC 10000-6 section 7.1.4, MQTT 5.0 section 3.14.4; of TLS
/// the one that closes first, our clients). Nobody waits for either.
pub(crate) fn tcp_closed(ends: (Party, Party)) -> Phase {
    let parts = vec![
        Part::Unawaited { name: "FIN", from: Role::Own, bytes: 0 },
        Part::Unawaited { name: "FIN, ACK", from: Role::Peer, bytes: 0 },
    ];
    Phase { name: "TCP closed", source: "RFC 9293 section 3.6", per: Per::Connection, ends, parts }
}

/// The same steps, and nobody waits for their messages. So nobody is stopped by what turns out wrong in one, either: keys and tokens that
/// were there still hold, and of what is closed nothing is needed any more.
pub(crate) fn unawaited(parts: Vec<Part>) -> Vec<Part> {
    let turn = |part| match part {
        Part::Message { name, from, bytes } => Some(Part::Unawaited { name, from, bytes }),
        Part::Either { guard, probability, then, otherwise } => {
            Some(Part::Either { guard, probability, then: unawaited(then), otherwise: unawaited(otherwise) })
        }
        Part::Use { mechanism, parts } => Some(Part::Use { mechanism, parts: unawaited(parts) }),
        Part::Check { .. } => None,
        other @ (Part::Work { .. } | Part::Unawaited { .. }) => Some(other),
    };
    parts.into_iter().filter_map(turn).collect()
}

/// Phases that go on beside what is there.
pub(crate) fn beside(phases: Vec<Phase>) -> Vec<Phase> {
    phases.into_iter().map(|phase| Phase { parts: unawaited(phase.parts), ..phase }).collect()
}

/// A step whose price may be missing.
pub(crate) fn free(name: &'static str, by: Role, operation: &str, bytes: u64) -> Part {
    let work = Work { operation: Some(operation.to_owned()), bytes, times: 1, needed: false, private: false };
    Part::Work { name, by, work }
}

/// A step that is done so many times.
pub(crate) fn times(part: Part, count: u64) -> Part {
    match part {
        Part::Work { name, by, work } => Part::Work { name, by, work: Work { times: work.times * count, ..work } },
        other => other,
    }
}

/// Steps that are done with a probability above 0.
pub(crate) fn either(guard: &'static str, probability: f64, then: Vec<Part>) -> Vec<Part> {
    if probability >= 1.0 {
        return then;
    }
    vec![Part::Either { guard, probability, then, otherwise: Vec::new() }]
}

/// The same steps with keys of a channel or session, which live with the program that uses them and not in an engine.
pub(crate) fn with_session_key(parts: Vec<Part>) -> Vec<Part> {
    let turn = |part| match part {
        Part::Work { name, by, work } => Part::Work { name, by, work: Work { private: false, ..work } },
        other => other,
    };
    parts.into_iter().map(turn).collect()
}

/// A basic mechanism, run by `by`.
pub(crate) fn using(mechanism: Basic, by: Role, parts: Vec<Part>) -> Part {
    let parts = if by == Role::Own { parts } else { mechanism::swapped(parts) };
    Part::Use { mechanism, parts }
}

/// What a signature with such a key hashes with: as long as the key is strong (RFC 5480 section 4, RFC 7518 section 3.4), what Edwards
/// curves have by themselves (RFC 8032), SHA-256 with RSA. Ed448 has another, which no setting of a protocol takes.
pub(crate) const fn digest(key: Key) -> Hash {
    match key {
        Key::Ed25519 | Key::Ecdsa(521) => Hash::Sha512,
        Key::Ecdsa(384) => Hash::Sha384,
        _ => Hash::Sha256,
    }
}

/// `by` verifies so many signatures on the other end's chain of certificates, all of one kind of key.
pub(crate) fn certificates(by: Role, key: Key, signatures: u32) -> Part {
    let mut parts = Vec::new();
    for _ in 0..signatures {
        let bytes = mechanism::to_be_signed(key, key);
        parts.push(priced("execHashFunc", Role::Own, format!("hash {}", digest(key)), bytes));
        parts.push(priced("verifyCertificate", Role::Own, format!("verify {key}"), 0));
    }
    using(Basic::SignatureVerification, by, parts)
}
