//! Today's protocols, composed of the basic mechanisms: OPC UA channels and sessions, the flows by which a client of Trapkey comes to
//! its access token, TLS 1.3.
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

pub mod opcua;
pub mod tls;
pub mod tokens;

use std::fmt::Write;

use serde::Serialize;

use crate::algorithm::{Hash, Key};
use crate::choose::Mode;
use crate::mechanism::{self, Basic, Part, Role, Work, priced};
use crate::quantity::digits;

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
        }
    }

    /// What is done once in the life of a client.
    #[must_use]
    pub fn once(&self) -> Vec<Phase> {
        match self {
            Self::OpcUa(it) => it.once(),
            Self::Tls(_) => Vec::new(),
        }
    }

    /// What is done whenever a client connects.
    #[must_use]
    pub fn connect(&self) -> Vec<Phase> {
        match self {
            Self::OpcUa(it) => it.connect(),
            Self::Tls(it) => vec![it.connect(ENDS)],
        }
    }

    /// What is done whenever keys are renewed.
    #[must_use]
    pub fn renew(&self) -> Vec<Phase> {
        match self {
            Self::OpcUa(it) => it.renew(),
            Self::Tls(it) => vec![it.renew(ENDS)],
        }
    }

    /// What is done whenever an access token is renewed.
    #[must_use]
    pub fn refresh(&self) -> Vec<Phase> {
        match self {
            Self::OpcUa(it) => it.refresh(),
            Self::Tls(_) => Vec::new(),
        }
    }

    /// What the sender of a message of `bytes` does before it sends, and the receiver after.
    #[must_use]
    pub fn around(&self, from: Role, bytes: u64) -> (Vec<Part>, Vec<Part>) {
        match self {
            Self::OpcUa(it) => it.around(from, bytes),
            Self::Tls(it) => it.around(from, bytes),
        }
    }

    /// Bytes on the wire of a message of `bytes`.
    #[must_use]
    pub fn wire(&self, bytes: u64) -> u64 {
        match self {
            Self::OpcUa(it) => it.channel.wire(bytes),
            Self::Tls(it) => it.wire(bytes),
        }
    }

    /// How messages are protected.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match self {
            Self::OpcUa(it) => it.channel.mode,
            Self::Tls(_) => Mode::SignAndEncrypt,
        }
    }

    /// Symmetric strength in bits of the weakest part; 0 where nothing is protected.
    #[must_use]
    pub fn strength(&self) -> u32 {
        let keys = self.keys().into_iter().map(Key::strength).min();
        let cipher = match self {
            Self::OpcUa(it) => it.channel.strength(),
            Self::Tls(it) => it.strength(),
        };
        keys.map_or(cipher, |keys| keys.min(cipher))
    }

    /// Long-lived keys that it rests on.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        match self {
            Self::OpcUa(it) => it.keys(),
            Self::Tls(it) => [it.key].into_iter().chain(it.client).collect(),
        }
    }
}

/// One step of a protocol.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The phase that it belongs to.
    pub phase: &'static str,
    /// The clause that asks for it.
    pub source: &'static str,
    /// How often the phase is done.
    pub per: Per,
    /// Who does it; of a message who sends it.
    pub by: Party,
    /// Its name.
    pub name: &'static str,
    /// The basic mechanism that it is a step of; none for what belongs to the protocol itself.
    pub mechanism: Option<Basic>,
    /// The operation in a price list; `message` for a message.
    pub operation: String,
    /// Bytes that are worked on, or sent.
    pub bytes: u64,
    /// How many times in one run of the phase.
    pub times: u64,
    /// Whether a price list must have the operation.
    pub needed: bool,
    /// Whether it uses a long-lived private key.
    pub private: bool,
    /// To whom, of a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Party>,
    /// How probable it is, 0 to 1: the other ways of a choice are taken otherwise.
    pub probability: f64,
}

/// The steps of phases, in order. Steps that only set parameters are left out; checks are not steps.
#[must_use]
pub fn lines(phases: &[Phase]) -> Vec<Line> {
    let mut lines = Vec::new();
    for phase in phases {
        flatten(phase, &phase.parts, None, 1.0, &mut lines);
    }
    lines
}

fn flatten(phase: &Phase, parts: &[Part], mechanism: Option<Basic>, probability: f64, lines: &mut Vec<Line>) {
    let Phase { name: of, source, per, .. } = *phase;
    for part in parts {
        match part {
            Part::Work { name, by, work } => {
                let by = phase.party(*by);
                let Work { operation: Some(operation), bytes, times, needed, private } = work.clone() else { continue };
                if !needed && operation == *name {
                    continue;
                }
                let line = Line {
                    phase: of,
                    source,
                    per,
                    by,
                    name,
                    mechanism,
                    operation,
                    bytes,
                    times,
                    needed,
                    private,
                    to: None,
                    probability,
                };
                lines.push(line);
            }
            Part::Message { name, from, bytes } => lines.push(Line {
                phase: of,
                source,
                per,
                by: phase.party(*from),
                name,
                mechanism,
                operation: "message".to_owned(),
                bytes: *bytes,
                times: 1,
                needed: false,
                private: false,
                to: Some(phase.party(from.other())),
                probability,
            }),
            Part::Either { probability: share, then, otherwise, .. } => {
                flatten(phase, then, mechanism, probability * share, lines);
                flatten(phase, otherwise, mechanism, probability * (1.0 - share), lines);
            }
            Part::Use { mechanism, parts } => flatten(phase, parts, Some(*mechanism), probability, lines),
            Part::Check { .. } => {}
        }
    }
}

/// The steps of phases as the rows of a Markdown table, without its head: phase, how often, who, what it does in order, clause. Messages
/// stand at who sends them; steps that need no price are left out.
#[must_use]
pub fn table(phases: &[Phase]) -> String {
    let mut text = String::new();
    for phase in phases {
        for by in [phase.ends.0, phase.ends.1] {
            let own = lines(std::slice::from_ref(phase)).into_iter().filter(|line| line.by == by);
            let words: Vec<String> =
                own.filter(|line| line.needed || line.to.is_some()).map(|line| word(&line)).collect();
            if !words.is_empty() {
                let (often, who) = (phase.per.word(), by.word());
                let _ =
                    writeln!(text, "| {} | {often} | {who} | {} | {} |", phase.name, words.join("; "), phase.source);
            }
        }
    }
    text
}

fn word(line: &Line) -> String {
    let probability =
        if line.probability < 1.0 { format!(" ({} of runs)", digits(line.probability)) } else { String::new() };
    if line.to.is_some() {
        return format!("sends {} ({} B){probability}", line.name, line.bytes);
    }
    let times = if line.times == 1 { String::new() } else { format!("{} × ", line.times) };
    let bytes = if line.bytes == 0 { String::new() } else { format!(" ({} B)", line.bytes) };
    format!("{times}`{}`{bytes}{probability}", line.operation)
}

/// A message, and what its ends do besides cryptography: an operation of its own, free where no price list has it.
pub(crate) fn message(name: &'static str, from: Role, bytes: u64) -> [Part; 3] {
    [
        free("send", from, "send message", bytes),
        Part::Message { name, from, bytes },
        free("receive", from.other(), "receive message", bytes),
    ]
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

/// `by` verifies so many signatures on the other end's chain of certificates, all of one kind of key.
pub(crate) fn certificates(by: Role, key: Key, signatures: u32) -> Part {
    let mut parts = Vec::new();
    for _ in 0..signatures {
        let bytes = mechanism::certificate_bytes(key) - mechanism::signature_bytes(key);
        parts.push(priced("execHashFunc", Role::Own, format!("hash {}", Hash::Sha256), bytes));
        parts.push(priced("verifyCertificate", Role::Own, format!("verify {key}"), 0));
    }
    using(Basic::SignatureVerification, by, parts)
}
