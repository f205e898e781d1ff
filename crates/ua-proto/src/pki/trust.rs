//! What is trusted: certificates, issuers, revocation lists, and how strict to be.

use std::fmt;
use std::sync::Arc;

use access_model::UnixTime;
use arc_swap::ArcSwap;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use super::Certificate;
use super::certificate::{has_one_form, trim_serial};

/// A trust list that is swapped as a whole when files change.
pub type SharedTrust = Arc<ArcSwap<TrustList>>;

/// How strict validation is. The default is what the issue of a certificate promises: everything is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustSettings {
    /// Accept certificates whose issuer has no CRL, or an outdated one.
    pub danger_allow_unknown_revocation: bool,
    /// Accept every certificate that parses, whoever issued it. For the first steps of a test installation only.
    pub danger_trust_everybody: bool,
    /// Shortest RSA key that is accepted, in bits.
    pub min_key_bits: usize,
    /// Longest RSA key that is accepted, in bits.
    pub max_key_bits: usize,
}

impl Default for TrustSettings {
    fn default() -> Self {
        Self {
            danger_allow_unknown_revocation: false,
            danger_trust_everybody: false,
            min_key_bits: 2048,
            max_key_bits: 4096,
        }
    }
}

/// The bytes are no certificate revocation list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are no certificate revocation list")]
pub struct InvalidCrl;

/// A certificate revocation list.
pub struct Crl {
    pub(crate) issuer_raw: Vec<u8>,
    pub(crate) this_update: UnixTime,
    pub(crate) next_update: Option<UnixTime>,
    /// Sorted serial numbers without leading zeros.
    pub(crate) revoked: Vec<Vec<u8>>,
    pub(crate) signed: Vec<u8>,
    pub(crate) signature: Vec<u8>,
    pub(crate) signature_algorithm: String,
    issuer: String,
}

impl Crl {
    /// Parses a DER list.
    ///
    /// # Errors
    /// When it is none, is not in the one form of DER, or has a critical extension: such a list speaks of only some
    /// certificates (RFC 5280 §5.2).
    pub fn from_der(der: &[u8]) -> Result<Self, InvalidCrl> {
        let (rest, parsed) = CertificateRevocationList::from_der(der).map_err(|_| InvalidCrl)?;
        let tbs = &parsed.tbs_cert_list;
        let partial = tbs.extensions().iter().any(|extension| extension.critical)
            || tbs.revoked_certificates.iter().any(|entry| entry.extensions().iter().any(|e| e.critical));
        let one_form = has_one_form(der, tbs.as_ref(), &parsed.signature_value);
        if !rest.is_empty() || partial || !one_form || parsed.signature_algorithm != tbs.signature {
            return Err(InvalidCrl);
        }
        let mut revoked: Vec<Vec<u8>> =
            tbs.revoked_certificates.iter().map(|entry| trim_serial(entry.raw_serial()).to_vec()).collect();
        revoked.sort_unstable();
        Ok(Self {
            issuer_raw: tbs.issuer.as_raw().to_vec(),
            this_update: UnixTime::from_seconds(tbs.this_update.timestamp()),
            next_update: tbs.next_update.map(|at| UnixTime::from_seconds(at.timestamp())),
            revoked,
            signed: tbs.as_ref().to_vec(),
            signature: parsed.signature_value.data.to_vec(),
            signature_algorithm: parsed.signature_algorithm.algorithm.to_id_string(),
            issuer: tbs.issuer.to_string(),
        })
    }

    /// Whether this serial number is on the list.
    #[must_use]
    pub fn revokes(&self, serial: &[u8]) -> bool {
        self.revoked.binary_search_by(|entry| entry.as_slice().cmp(trim_serial(serial))).is_ok()
    }
}

impl fmt::Debug for Crl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Crl({}, {} revoked)", self.issuer, self.revoked.len())
    }
}

/// Which certificates are trusted.
#[derive(Debug, Default)]
pub struct TrustList {
    /// Trusted certificates: single applications, or authorities all of whose certificates are trusted.
    pub trusted: Vec<Arc<Certificate>>,
    /// Authorities that complete a chain but are not trusted themselves.
    pub issuers: Vec<Arc<Certificate>>,
    /// Revocation lists of trusted authorities and issuers.
    pub crls: Vec<Crl>,
    /// How strict to be.
    pub settings: TrustSettings,
}
