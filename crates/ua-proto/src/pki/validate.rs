//! Whether a certificate may be used (OPC 10000-4 §6.1.3): structure, chain, signatures, trust, time, names, usage,
//! revocation, in this order; the first fault decides.

use std::net::IpAddr;

use access_model::{Reason, UnixTime};
use aws_lc_rs::signature::{self, VerificationAlgorithm};
use opcua_types::StatusCode;

use super::certificate::{Certificate, MAX_CHAIN_LENGTH};
use super::trust::{Crl, TrustList};
use crate::crypto::KeyKind;

/// The most signatures that are checked while one chain is built: a list full of equal names must not cost the server.
const MAX_CANDIDATES: usize = 16;

const DIGITAL_SIGNATURE: u16 = 1;
const KEY_ENCIPHERMENT: u16 = 1 << 2;
const DATA_ENCIPHERMENT: u16 = 1 << 3;
const KEY_CERT_SIGN: u16 = 1 << 5;
const CRL_SIGN: u16 = 1 << 6;

/// What the certificate is presented for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// An application that connects to us. Its ApplicationUri is checked when it is known (CreateSession).
    Client {
        /// The ApplicationUri it claims.
        application_uri: Option<&'a str>,
    },
    /// A server that we connect to.
    Server {
        /// The ApplicationUri that its description claims.
        application_uri: Option<&'a str>,
        /// The host that we dialled.
        host: Option<&'a str>,
    },
    /// A person that proves its identity with a certificate.
    User,
}

/// Why a certificate was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {detail}")]
pub struct Rejection {
    /// The stable reason.
    pub reason: Reason,
    /// The OPC UA code, for the log and for callers that may tell.
    pub status: StatusCode,
    /// One sentence for the operator.
    pub detail: String,
}

impl Rejection {
    /// A rejection.
    pub fn new(reason: Reason, status: StatusCode, detail: impl Into<String>) -> Self {
        Self { reason, status, detail: detail.into() }
    }
}

/// Validates `certificate` for `purpose` at the time `now`.
///
/// # Errors
/// The first fault found.
pub fn validate(
    certificate: &Certificate,
    trust: &TrustList,
    purpose: Purpose<'_>,
    now: UnixTime,
) -> Result<(), Rejection> {
    check_key(certificate, trust, purpose)?;
    let chain = if trust.settings.danger_trust_everybody {
        vec![certificate]
    } else {
        let chain = build_chain(certificate, trust)?;
        check_trust(&chain, trust)?;
        chain
    };
    check_time(&chain, now)?;
    check_names(certificate, purpose)?;
    check_usage(&chain, purpose)?;
    if !trust.settings.danger_trust_everybody {
        check_revocation(&chain, trust, now)?;
    }
    Ok(())
}

/// Checks that the certificate names this ApplicationUri.
///
/// # Errors
/// When it names another one, or none.
pub fn check_application_uri(certificate: &Certificate, uri: &str) -> Result<(), Rejection> {
    // The first URI is the ApplicationUri; a second one must not let one application pass as another.
    if certificate.application_uri() == Some(uri) {
        return Ok(());
    }
    let named = certificate.application_uri().unwrap_or("none");
    Err(Rejection::new(
        Reason::CertificateUri,
        StatusCode::BadCertificateUriInvalid,
        format!("the certificate names the ApplicationUri `{named}`, not `{uri}`"),
    ))
}

/// Checks that the certificate names this host: a DNS name or an address.
///
/// # Errors
/// When it does not.
pub fn check_host(certificate: &Certificate, host: &str) -> Result<(), Rejection> {
    let names = certificate.names();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let named = match bare.parse::<IpAddr>() {
        Ok(address) => names.addresses.contains(&address) || names.dns.iter().any(|name| name == bare),
        Err(_) => names.dns.iter().any(|name| name.eq_ignore_ascii_case(bare)),
    };
    if named {
        return Ok(());
    }
    let detail = format!("the certificate does not name the host `{host}`");
    Err(Rejection::new(Reason::CertificateHost, StatusCode::BadCertificateHostNameInvalid, detail))
}

fn check_key(certificate: &Certificate, trust: &TrustList, purpose: Purpose<'_>) -> Result<(), Rejection> {
    let key = certificate.key();
    let fits = match key.kind() {
        KeyKind::Rsa => (trust.settings.min_key_bits..=trust.settings.max_key_bits).contains(&key.bits()),
        KeyKind::EcP256 | KeyKind::Ed25519 => true,
        // No policy here takes such a key for an application.
        KeyKind::EcP384 => purpose == Purpose::User,
        KeyKind::Other => false,
    };
    if fits {
        return Ok(());
    }
    let detail = format!("the key ({:?}) is not accepted", key);
    Err(Rejection::new(Reason::CertificateKey, StatusCode::BadCertificatePolicyCheckFailed, detail))
}

/// The chain from the leaf to a self-issued certificate, every signature checked.
fn build_chain<'a>(leaf: &'a Certificate, trust: &'a TrustList) -> Result<Vec<&'a Certificate>, Rejection> {
    let mut chain = vec![leaf];
    let mut tried = 0;
    let mut last = leaf;
    while !last.is_self_issued() {
        if chain.len() == MAX_CHAIN_LENGTH {
            return Err(incomplete("the chain is longer than allowed"));
        }
        last = find_issuer(last, leaf, trust, &mut tried)?;
        chain.push(last);
    }
    check_signature(last, last)?;
    Ok(chain)
}

fn find_issuer<'a>(
    child: &Certificate,
    leaf: &'a Certificate,
    trust: &'a TrustList,
    tried: &mut usize,
) -> Result<&'a Certificate, Rejection> {
    let stored = trust.trusted.iter().chain(&trust.issuers).map(AsRef::as_ref);
    let mut found = Err(incomplete(format!("no certificate of the issuer `{}` is known", child.issuer())));
    for candidate in stored.chain(leaf.issuers()).filter(|c| c.subject_raw() == child.issuer_raw()) {
        if *tried == MAX_CANDIDATES {
            return Err(incomplete("too many certificates carry the issuer's name"));
        }
        *tried += 1;
        match check_signature(child, candidate) {
            Ok(()) => return Ok(candidate),
            Err(fault) => found = Err(fault),
        }
    }
    found
}

fn incomplete(detail: impl Into<String>) -> Rejection {
    Rejection::new(Reason::CertificateUntrusted, StatusCode::BadCertificateChainIncomplete, detail)
}

fn check_signature(child: &Certificate, issuer: &Certificate) -> Result<(), Rejection> {
    let (signed, algorithm, signature) = child.signature();
    let Some(algorithm) = algorithm_for(algorithm, issuer.key().kind()) else {
        return Err(Rejection::new(
            Reason::CertificateKey,
            StatusCode::BadCertificatePolicyCheckFailed,
            format!("the signature algorithm of `{}` is not accepted", child.subject()),
        ));
    };
    issuer.key().verify(algorithm, signed, signature).map_err(|_| {
        let detail = format!("the signature on `{}` does not verify", child.subject());
        Rejection::new(Reason::CertificateInvalid, StatusCode::BadCertificateInvalid, detail)
    })
}

/// The algorithm behind an object identifier, if it is strong enough and fits the key. SHA-1 is not among them.
fn algorithm_for(oid: &str, kind: KeyKind) -> Option<&'static dyn VerificationAlgorithm> {
    match (oid, kind) {
        ("1.2.840.113549.1.1.11", KeyKind::Rsa) => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
        ("1.2.840.113549.1.1.12", KeyKind::Rsa) => Some(&signature::RSA_PKCS1_2048_8192_SHA384),
        ("1.2.840.113549.1.1.13", KeyKind::Rsa) => Some(&signature::RSA_PKCS1_2048_8192_SHA512),
        ("1.2.840.10045.4.3.2", KeyKind::EcP256) => Some(&signature::ECDSA_P256_SHA256_ASN1),
        ("1.2.840.10045.4.3.3", KeyKind::EcP256) => Some(&signature::ECDSA_P256_SHA384_ASN1),
        ("1.2.840.10045.4.3.2", KeyKind::EcP384) => Some(&signature::ECDSA_P384_SHA256_ASN1),
        ("1.2.840.10045.4.3.3", KeyKind::EcP384) => Some(&signature::ECDSA_P384_SHA384_ASN1),
        ("1.3.101.112", KeyKind::Ed25519) => Some(&signature::ED25519),
        _ => None,
    }
}

fn check_trust(chain: &[&Certificate], trust: &TrustList) -> Result<(), Rejection> {
    let trusted = chain.iter().any(|link| trust.trusted.iter().any(|known| known.der() == link.der()));
    if trusted {
        return Ok(());
    }
    let leaf = chain.first().map_or("", |leaf| leaf.subject());
    let detail = format!("neither `{leaf}` nor one of its issuers is trusted");
    Err(Rejection::new(Reason::CertificateUntrusted, StatusCode::BadCertificateUntrusted, detail))
}

fn check_time(chain: &[&Certificate], now: UnixTime) -> Result<(), Rejection> {
    for (depth, link) in chain.iter().enumerate() {
        if now < link.not_before() || now > link.not_after() {
            let status =
                pick(depth, StatusCode::BadCertificateTimeInvalid, StatusCode::BadCertificateIssuerTimeInvalid);
            let detail = format!("`{}` is outside its validity", link.subject());
            return Err(Rejection::new(Reason::CertificateTime, status, detail));
        }
    }
    Ok(())
}

/// The code for the leaf or the one for an issuer.
fn pick(depth: usize, leaf: StatusCode, issuer: StatusCode) -> StatusCode {
    if depth == 0 { leaf } else { issuer }
}

fn check_names(certificate: &Certificate, purpose: Purpose<'_>) -> Result<(), Rejection> {
    let (uri, host) = match purpose {
        Purpose::Client { application_uri } => (application_uri, None),
        Purpose::Server { application_uri, host } => (application_uri, host),
        Purpose::User => (None, None),
    };
    if let Some(host) = host {
        check_host(certificate, host)?;
    }
    uri.map_or(Ok(()), |uri| check_application_uri(certificate, uri))
}

fn check_usage(chain: &[&Certificate], purpose: Purpose<'_>) -> Result<(), Rejection> {
    for (depth, link) in chain.iter().enumerate() {
        let allowed = if depth == 0 { leaf_usage(link, purpose) } else { issuer_usage(link, depth) };
        if !allowed {
            let status =
                pick(depth, StatusCode::BadCertificateUseNotAllowed, StatusCode::BadCertificateIssuerUseNotAllowed);
            let detail = format!("`{}` may not be used for this purpose", link.subject());
            return Err(Rejection::new(Reason::CertificateUse, status, detail));
        }
    }
    Ok(())
}

/// Application certificates must say that they sign and, when the key can, encrypt (OPC 10000-6 §6.2.2); those of persons
/// sign, if they say.
fn leaf_usage(leaf: &Certificate, purpose: Purpose<'_>) -> bool {
    let usage = leaf.usage();
    let bits = usage.key_usage;
    let signs = |bits: u16| bits & DIGITAL_SIGNATURE != 0;
    let encrypts = |bits: u16| !leaf.key().is_rsa() || bits & (KEY_ENCIPHERMENT | DATA_ENCIPHERMENT) != 0;
    match purpose {
        Purpose::User => bits.is_none_or(signs),
        Purpose::Client { .. } => {
            bits.is_some_and(|bits| signs(bits) && encrypts(bits)) && usage.client_auth.unwrap_or(true)
        }
        Purpose::Server { .. } => {
            bits.is_some_and(|bits| signs(bits) && encrypts(bits)) && usage.server_auth.unwrap_or(true)
        }
    }
}

fn issuer_usage(issuer: &Certificate, depth: usize) -> bool {
    let usage = issuer.usage();
    let below = u32::try_from(depth.saturating_sub(1)).unwrap_or(u32::MAX);
    usage.authority == Some(true)
        && usage.key_usage.is_none_or(|bits| bits & KEY_CERT_SIGN != 0)
        && usage.path_len.is_none_or(|most| below <= most)
}

fn check_revocation(chain: &[&Certificate], trust: &TrustList, now: UnixTime) -> Result<(), Rejection> {
    let pairs = chain.iter().zip(chain.iter().skip(1));
    for (depth, (link, issuer)) in pairs.enumerate() {
        let mut current = false;
        for crl in lists_of(issuer, trust) {
            if crl.revokes(link.serial()) {
                let status = pick(depth, StatusCode::BadCertificateRevoked, StatusCode::BadCertificateIssuerRevoked);
                let detail = format!("`{}` is revoked by its issuer", link.subject());
                return Err(Rejection::new(Reason::CertificateRevoked, status, detail));
            }
            current |= crl.this_update <= now && crl.next_update.is_none_or(|until| now <= until);
        }
        if !current && !trust.settings.danger_allow_unknown_revocation {
            let status = pick(
                depth,
                StatusCode::BadCertificateRevocationUnknown,
                StatusCode::BadCertificateIssuerRevocationUnknown,
            );
            let detail = format!("there is no current revocation list of `{}`", issuer.subject());
            return Err(Rejection::new(Reason::CertificateRevocationUnknown, status, detail));
        }
    }
    Ok(())
}

/// Whether the certificate, or one above it, was taken back by its issuer, as far as `trust` knows. It asks nothing else: a
/// certificate that nobody trusts is not revoked. For places where a certificate counts by its registration alone.
#[must_use]
pub fn is_revoked(certificate: &Certificate, trust: &TrustList) -> bool {
    let mut tried = 0;
    let mut link = certificate;
    for _ in 0..MAX_CHAIN_LENGTH {
        let Ok(issuer) = find_issuer(link, certificate, trust, &mut tried) else { return false };
        if lists_of(issuer, trust).any(|crl| crl.revokes(link.serial())) {
            return true;
        }
        if link.is_self_issued() {
            return false;
        }
        link = issuer;
    }
    false
}

/// The lists that `issuer` really signed. An outdated one still revokes what it lists.
fn lists_of<'a>(issuer: &'a Certificate, trust: &'a TrustList) -> impl Iterator<Item = &'a Crl> {
    let may_sign = issuer.usage().key_usage.is_none_or(|bits| bits & CRL_SIGN != 0);
    trust.crls.iter().filter(move |crl| {
        may_sign
            && crl.issuer_raw == issuer.subject_raw()
            && algorithm_for(&crl.signature_algorithm, issuer.key().kind())
                .is_some_and(|algorithm| issuer.key().verify(algorithm, &crl.signed, &crl.signature).is_ok())
    })
}
