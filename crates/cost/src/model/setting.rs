//! The parameters of mechanisms and protocols.

use serde::Serialize;

use crate::algorithm::{Cipher, Hash, Key};
use crate::protocol::Protocol;

/// The parameters of a mechanism.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// What encrypts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cipher: Option<Cipher>,
    /// What signs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<Key>,
    /// What is signed is a digest by this.
    pub hash: Hash,
    /// The key pairs of a key exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Key>,
    /// Probability that what was agreed before is used again: a shared key, a receiver's certificate, a proof of who a peer is.
    pub reuse: f64,
    /// Probability that the certificate of a peer is known when a key is agreed on.
    pub known: f64,
    /// Probability that a certificate that is looked at can be trusted; otherwise the request is aborted.
    pub trusted: f64,
    /// Probability that a signature turns out right; otherwise the request is aborted.
    pub valid: f64,
    /// Node on which private keys are used; of a channel those of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<usize>,
    /// How a key pair comes to its certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certified: Option<Certified>,
    /// The protocol of a channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreed: Option<Box<Agreed>>,
}

impl Setting {
    /// Nothing is done, nothing fails.
    pub(crate) const NOTHING: Self = Self {
        cipher: None,
        signature: None,
        hash: Hash::Sha256,
        exchange: None,
        reuse: 0.0,
        known: 1.0,
        trusted: 1.0,
        valid: 1.0,
        engine: None,
        certified: None,
        agreed: None,
    };
}

impl Setting {
    /// The connectors to those who issue tokens and certify keys.
    pub(crate) fn authorities(&self) -> impl Iterator<Item = usize> {
        let login = self.agreed.as_ref().and_then(|agreed| agreed.login);
        login.into_iter().chain(self.certified.map(|certified| certified.through))
    }
}

/// How a key pair comes to its certificate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Certified {
    /// Requests in the life of a key, at least 1: one of so many has to make it.
    pub life: f64,
    /// The connector to the certification authority, which is at its other end.
    pub through: usize,
    /// The authority's key; without it one of the same kind as what it certifies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Key>,
}

/// A protocol, and how often its parts are due.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agreed {
    /// The protocol.
    pub protocol: Protocol,
    /// Probability that a request comes when keys are to be renewed.
    pub renewed: f64,
    /// Probability that a request comes when the access token is to be renewed.
    pub refreshed: f64,
    /// Requests in the life of a client, if what is done once in it counts; at least 1.
    pub life: Option<f64>,
    /// The connector from the client to the authority.
    pub login: Option<usize>,
    /// The parameters as they were written.
    pub words: Vec<(&'static str, String)>,
}

impl std::fmt::Display for Agreed {
    /// The protocol and its parameters as they were written.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.protocol.word())?;
        self.words.iter().try_for_each(|(key, value)| write!(f, " {key}={value}"))
    }
}
