//! Certificates and trust: parsing, chains, revocation, purpose. A [`TrustList`] is a value; who keeps the directories and
//! reloads them is the shell's business.

mod certificate;
#[cfg(test)]
mod tests;
mod trust;
mod validate;

use std::sync::Arc;

use access_model::UnixTime;

use crate::crypto::{InvalidKey, PrivateKey, SecurityPolicyId};

pub use certificate::{Certificate, InvalidCertificate, MAX_CHAIN_BYTES, MAX_CHAIN_LENGTH};
pub use trust::{Crl, InvalidCrl, SharedTrust, TrustList, TrustSettings};
pub use validate::{Purpose, Rejection, check_application_uri, check_host, is_revoked, validate};

/// A certificate with its private key. Swapping it renews this side's identity; `previous` keeps the one before usable
/// for peers that still hold the old certificate.
#[derive(Clone, Debug)]
pub struct OwnIdentity {
    /// What peers see.
    pub certificate: Arc<Certificate>,
    /// What only jobs use.
    pub key: Arc<PrivateKey>,
    /// The identity before this one, still honoured for new channels during the overlap.
    pub previous: Option<Arc<OwnIdentity>>,
    /// The same application's identities with keys of other kinds: each serves the policies that take its key.
    pub others: Vec<Arc<OwnIdentity>>,
}

impl OwnIdentity {
    /// Joins a certificate and its key.
    ///
    /// # Errors
    /// When they do not belong together.
    pub fn new(certificate: Certificate, key: PrivateKey) -> Result<Self, InvalidKey> {
        if !key.belongs_to(certificate.key()) {
            return Err(InvalidKey::OtherCertificate);
        }
        Ok(Self { certificate: Arc::new(certificate), key: Arc::new(key), previous: None, others: Vec::new() })
    }

    /// This identity as the successor of `previous`, which forgets its own predecessor.
    #[must_use]
    pub fn succeeding(mut self, previous: &Self) -> Self {
        let mut previous = previous.clone();
        previous.previous = None;
        self.previous = Some(Arc::new(previous));
        self
    }

    /// This identity without its predecessor, when that has one whose certificate is over: the overlap ends with it. The
    /// same of those beside it.
    #[must_use]
    pub fn without_ended(&self, now: UnixTime) -> Option<Self> {
        let ended = self.previous.as_ref().is_some_and(|previous| previous.certificate.not_after() < now);
        let others: Vec<_> = self.others.iter().map(|other| other.without_ended(now).map(Arc::new)).collect();
        if !ended && others.iter().all(Option::is_none) {
            return None;
        }
        let others = self.others.iter().zip(others).map(|(was, is)| is.unwrap_or_else(|| Arc::clone(was))).collect();
        Some(Self { previous: self.previous.clone().filter(|_| !ended), others, ..self.clone() })
    }

    /// This identity with another of the same application beside it, whose key is of another kind.
    #[must_use]
    pub fn beside(mut self, other: Self) -> Self {
        self.others.push(Arc::new(other));
        self
    }

    /// The identity whose certificate has this SHA-1 thumbprint: this one, its predecessor, or one beside it.
    #[must_use]
    pub fn by_thumbprint(&self, sha1: &[u8]) -> Option<Self> {
        if self.certificate.thumbprint_sha1() == sha1 {
            return Some(self.clone());
        }
        let related = self.previous.iter().chain(&self.others);
        related.into_iter().find_map(|related| related.by_thumbprint(sha1))
    }

    /// The identity for channels of `policy`: `identity` or the first beside it whose key the policy takes. None takes any.
    #[must_use]
    pub fn for_policy(identity: &Arc<Self>, policy: SecurityPolicyId) -> Option<Arc<Self>> {
        let algorithms = policy.algorithms();
        let mut all = std::iter::once(identity).chain(&identity.others);
        all.find(|identity| algorithms.accepts_key(identity.certificate.key())).cloned()
    }

    /// The identity for which secrets are encrypted on channels that protect nothing: the one with an RSA key, if any.
    #[must_use]
    pub fn for_bare_channels(self: &Arc<Self>) -> Arc<Self> {
        Self::for_policy(self, SecurityPolicyId::Basic256Sha256).unwrap_or_else(|| Arc::clone(self))
    }
}
