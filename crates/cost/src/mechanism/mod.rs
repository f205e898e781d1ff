//! The library: security mechanisms as lists of steps, as P4 describes them (section 4.1, Figures 2 to 4).
//!
//! A mechanism knows roles instead of components and operations instead of times; what an operation costs is looked up when the net is
//! laid ([`crate::net`]). There each step becomes a transition, each `alt` or `opt` a choice of immediate transitions, each use of
//! another mechanism a part with one entry and one exit; a check that fails leads to the abort place.

mod basic;
mod x509;

use serde::Serialize;

pub use basic::{certificate, decryption, encryption, key_exchange, key_generation, signing, verifying};
pub use x509::certificate_bytes;
pub(crate) use x509::{algorithm, signature_bytes, signature_value, to_be_signed};

/// A basic mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basic {
    /// Figure 2a, done once.
    KeyGeneration,
    /// Figure 2b, done once.
    Certificate,
    /// Figure 3.
    Encryption,
    /// Described with Figure 4, not drawn.
    Decryption,
    /// Figure 4a.
    SignatureGeneration,
    /// Figure 4b.
    SignatureVerification,
    /// ISO/IEC 11770-3, inside Figure 3.
    KeyExchange,
    /// A protocol composed of the others.
    Protocol,
}

impl Basic {
    /// As it is printed.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::KeyGeneration => "key-generation",
            Self::Certificate => "certificate",
            Self::Encryption => "encryption",
            Self::Decryption => "decryption",
            Self::SignatureGeneration => "signature-generation",
            Self::SignatureVerification => "signature-verification",
            Self::KeyExchange => "key-exchange",
            Self::Protocol => "protocol",
        }
    }
}

/// Who does a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Who runs the mechanism.
    Own,
    /// Who is at the other end.
    Peer,
}

impl Role {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Own => Self::Peer,
            Self::Peer => Self::Own,
        }
    }
}

/// What one step of a mechanism costs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Work {
    /// The operation in the price list (`sign rsa-2048`); `None` for what costs nothing that anybody measures.
    pub operation: Option<String>,
    /// Bytes that are worked on.
    pub bytes: u64,
    /// How many times.
    pub times: u64,
    /// Whether a price list must have it. Steps that only set parameters cost nothing where it has not.
    pub needed: bool,
    /// Whether it uses a private key, and so runs where that key is.
    pub private: bool,
}

/// A step of a mechanism.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Somebody computes.
    Work {
        /// As the paper calls it.
        name: &'static str,
        /// Who.
        by: Role,
        /// What it costs.
        work: Work,
    },
    /// A message between the two.
    Message {
        /// As the paper calls it.
        name: &'static str,
        /// Who sends.
        from: Role,
        /// How large it is.
        bytes: u64,
    },
    /// A message behind which its sender goes on at once: it takes the line for its bytes, and nobody waits until it is there.
    Unawaited {
        /// As its standard calls it.
        name: &'static str,
        /// Who sends.
        from: Role,
        /// How large it is.
        bytes: u64,
    },
    /// `alt`: one of the two.
    Either {
        /// When the first is taken.
        guard: &'static str,
        /// How probable that is, 0 to 1.
        probability: f64,
        /// What is done then.
        then: Vec<Part>,
        /// What is done otherwise.
        otherwise: Vec<Part>,
    },
    /// `ref`: another mechanism.
    Use {
        /// Which.
        mechanism: Basic,
        /// Its steps.
        parts: Vec<Part>,
    },
    /// The request is aborted unless this turns out well.
    Check {
        /// What is looked at.
        name: &'static str,
        /// How probable it is that it turns out well, 0 to 1.
        passes: f64,
    },
}

/// A step that only sets a parameter: free where the price list says nothing of it.
pub(crate) fn set(name: &'static str, by: Role) -> Part {
    let work = Work { operation: Some(name.to_owned()), bytes: 0, times: 1, needed: false, private: false };
    Part::Work { name, by, work }
}

/// A step with a price.
pub(crate) fn priced(name: &'static str, by: Role, operation: String, bytes: u64) -> Part {
    Part::Work { name, by, work: Work { operation: Some(operation), bytes, times: 1, needed: true, private: false } }
}

/// A step with a price that uses a private key.
pub(crate) fn private(name: &'static str, by: Role, operation: String, bytes: u64) -> Part {
    Part::Work { name, by, work: Work { operation: Some(operation), bytes, times: 1, needed: true, private: true } }
}

/// The steps seen from the other side.
#[must_use]
pub fn swapped(parts: Vec<Part>) -> Vec<Part> {
    let swap = |part| match part {
        Part::Work { name, by, work } => Part::Work { name, by: by.other(), work },
        Part::Message { name, from, bytes } => Part::Message { name, from: from.other(), bytes },
        Part::Unawaited { name, from, bytes } => Part::Unawaited { name, from: from.other(), bytes },
        Part::Either { guard, probability, then, otherwise } => {
            Part::Either { guard, probability, then: swapped(then), otherwise: swapped(otherwise) }
        }
        Part::Use { mechanism, parts } => Part::Use { mechanism, parts: swapped(parts) },
        check @ Part::Check { .. } => check,
    };
    parts.into_iter().map(swap).collect()
}
