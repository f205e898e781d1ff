//! A certificate, parsed once: everything that later code asks about it is a field.

use std::fmt;
use std::net::IpAddr;

use access_model::{Thumbprint, UnixTime};
use aws_lc_rs::digest;
use x509_parser::asn1_rs::BitString;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension, X509Extension};
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;

use crate::crypto::PublicKey;

/// The most bytes a certificate with its chain may have.
pub const MAX_CHAIN_BYTES: usize = 32 * 1024;
/// The most certificates in a chain.
pub const MAX_CHAIN_LENGTH: usize = 8;

/// The bytes are no certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCertificate {
    /// There is nothing.
    #[error("there is no certificate")]
    Empty,
    /// The DER or X.509 structure is broken.
    #[error("the bytes are no X.509 certificate")]
    Malformed,
    /// The chain has too many certificates or bytes.
    #[error("the certificate chain is too long")]
    TooLong,
    /// An extension appears twice, cannot be parsed, or is critical and unknown.
    #[error("the certificate has a broken, repeated or unknown critical extension")]
    Extension,
}

/// The names in a certificate's SubjectAltName.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) uris: Vec<String>,
    pub(crate) dns: Vec<String>,
    pub(crate) addresses: Vec<IpAddr>,
}

/// KeyUsage, ExtendedKeyUsage and BasicConstraints; `None` when the extension is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) key_usage: Option<u16>,
    pub(crate) server_auth: Option<bool>,
    pub(crate) client_auth: Option<bool>,
    pub(crate) authority: Option<bool>,
    pub(crate) path_len: Option<u32>,
}

/// A certificate and the chain that came with it.
pub struct Certificate {
    der: Vec<u8>,
    issuers: Vec<Certificate>,
    sha1: [u8; 20],
    sha256: Thumbprint,
    subject: String,
    subject_raw: Vec<u8>,
    issuer: String,
    issuer_raw: Vec<u8>,
    serial: Vec<u8>,
    not_before: UnixTime,
    not_after: UnixTime,
    key: PublicKey,
    names: Names,
    usage: Usage,
    signed: Vec<u8>,
    signature: Vec<u8>,
    signature_algorithm: String,
}

impl Certificate {
    /// Parses one certificate or a chain, leaf first, as OPC UA carries it: DER after DER.
    ///
    /// # Errors
    /// When anything of it is no certificate.
    pub fn from_der(bytes: &[u8]) -> Result<Self, InvalidCertificate> {
        if bytes.len() > MAX_CHAIN_BYTES {
            return Err(InvalidCertificate::TooLong);
        }
        let mut all = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            if all.len() == MAX_CHAIN_LENGTH {
                return Err(InvalidCertificate::TooLong);
            }
            let (after, one) = parse_one(rest)?;
            all.push(one);
            rest = after;
        }
        Self::from_parts(all)
    }

    /// Reads all certificates of a PEM text as one chain, leaf first.
    ///
    /// # Errors
    /// When there is none or one is broken.
    pub fn from_pem(pem: &[u8]) -> Result<Self, InvalidCertificate> {
        let mut chain = Vec::new();
        for block in Pem::iter_from_buffer(pem) {
            let block = block.map_err(|_| InvalidCertificate::Malformed)?;
            if block.label == "CERTIFICATE" {
                chain.extend_from_slice(&block.contents);
            }
        }
        Self::from_der(&chain)
    }

    fn from_parts(all: Vec<Self>) -> Result<Self, InvalidCertificate> {
        let mut all = all.into_iter();
        let mut leaf = all.next().ok_or(InvalidCertificate::Empty)?;
        leaf.issuers = all.collect();
        Ok(leaf)
    }

    /// The leaf alone, DER.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The whole chain as it goes over the wire, leaf first.
    #[must_use]
    pub fn chain(&self) -> Vec<u8> {
        let mut out = self.der.clone();
        self.issuers.iter().for_each(|issuer| out.extend_from_slice(&issuer.der));
        out
    }

    /// The certificates that came behind the leaf.
    #[must_use]
    pub fn issuers(&self) -> &[Self] {
        &self.issuers
    }

    /// SHA-1 over the leaf: the thumbprint of OPC UA headers.
    #[must_use]
    pub fn thumbprint_sha1(&self) -> [u8; 20] {
        self.sha1
    }

    /// SHA-256 over the leaf.
    #[must_use]
    pub fn thumbprint(&self) -> Thumbprint {
        self.sha256
    }

    /// The ApplicationUri: the first URI among the subject's alternative names (OPC 10000-6 §6.2.2).
    #[must_use]
    pub fn application_uri(&self) -> Option<&str> {
        self.names.uris.first().map(String::as_str)
    }

    /// The subject as one line.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The issuer as one line.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The serial number, big endian.
    #[must_use]
    pub fn serial(&self) -> &[u8] {
        &self.serial
    }

    /// Size of the key in bits.
    #[must_use]
    pub fn key_bits(&self) -> usize {
        self.key.bits()
    }

    /// The public key.
    #[must_use]
    pub fn key(&self) -> &PublicKey {
        &self.key
    }

    /// First instant of validity.
    #[must_use]
    pub fn not_before(&self) -> UnixTime {
        self.not_before
    }

    /// Last instant of validity.
    #[must_use]
    pub fn not_after(&self) -> UnixTime {
        self.not_after
    }

    /// DNS names and addresses among the subject's alternative names.
    pub fn hosts(&self) -> impl Iterator<Item = String> + '_ {
        self.names.dns.iter().cloned().chain(self.names.addresses.iter().map(ToString::to_string))
    }

    /// Whether subject and issuer are the same name.
    #[must_use]
    pub fn is_self_issued(&self) -> bool {
        self.subject_raw == self.issuer_raw
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    pub(crate) fn subject_raw(&self) -> &[u8] {
        &self.subject_raw
    }

    pub(crate) fn issuer_raw(&self) -> &[u8] {
        &self.issuer_raw
    }

    /// The signed bytes, the algorithm's object identifier, and the signature.
    pub(crate) fn signature(&self) -> (&[u8], &str, &[u8]) {
        (&self.signed, &self.signature_algorithm, &self.signature)
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({}, {})", self.subject, self.sha256)
    }
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.der == other.der
    }
}

impl Eq for Certificate {}

fn parse_one(bytes: &[u8]) -> Result<(&[u8], Certificate), InvalidCertificate> {
    let (rest, parsed) = X509Certificate::from_der(bytes).map_err(|_| InvalidCertificate::Malformed)?;
    let tbs = &parsed.tbs_certificate;
    let one_form = has_one_form(parsed.as_raw(), tbs.as_ref(), &parsed.signature_value);
    if !one_form || parsed.signature_algorithm != tbs.signature {
        return Err(InvalidCertificate::Malformed);
    }
    let (names, usage) = read_extensions(&parsed)?;
    let der = parsed.as_raw().to_vec();
    let sha1 = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &der);
    let sha256 = digest::digest(&digest::SHA256, &der);
    let certificate = Certificate {
        issuers: Vec::new(),
        sha1: sha1.as_ref().try_into().map_err(|_| InvalidCertificate::Malformed)?,
        sha256: Thumbprint(sha256.as_ref().try_into().map_err(|_| InvalidCertificate::Malformed)?),
        subject: tbs.subject.to_string(),
        subject_raw: tbs.subject.as_raw().to_vec(),
        issuer: tbs.issuer.to_string(),
        issuer_raw: tbs.issuer.as_raw().to_vec(),
        serial: trim_serial(tbs.raw_serial()).to_vec(),
        not_before: UnixTime::from_seconds(tbs.validity.not_before.timestamp()),
        not_after: UnixTime::from_seconds(tbs.validity.not_after.timestamp()),
        key: PublicKey::from_spki(&tbs.subject_pki),
        names,
        usage,
        signed: tbs.as_ref().to_vec(),
        signature: parsed.signature_value.data.to_vec(),
        signature_algorithm: parsed.signature_algorithm.algorithm.to_id_string(),
        der,
    };
    Ok((rest, certificate))
}

/// Whether nothing outside the signed part of a certificate or list could be written otherwise (X.690 §10): the shortest
/// headers, the algorithm as the signed part writes it, and a signature of whole bytes. So one signature has one thumbprint.
pub(super) fn has_one_form(der: &[u8], signed: &[u8], signature: &BitString<'_>) -> bool {
    let mut bits = vec![0];
    bits.extend_from_slice(&signature.data);
    let bits = element(0x03, &bits);
    let body = (2..=5).find_map(|header| der.get(header..).filter(|body| element(0x30, body) == der));
    let algorithm = body.and_then(|body| body.strip_prefix(signed)?.strip_suffix(bits.as_slice()));
    algorithm.is_some_and(|written| !written.is_empty() && signed.windows(written.len()).any(|inner| inner == written))
}

/// One DER element with a length of the shortest form.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let short = length.iter().position(|byte| *byte != 0).and_then(|from| length.get(from..)).unwrap_or(&[0]);
    let mut der = vec![tag];
    if content.len() > 0x7f {
        der.push(0x80 | u8::try_from(short.len()).unwrap_or(0x7f));
    }
    der.extend_from_slice(short);
    der.extend_from_slice(content);
    der
}

/// A serial number without its leading zeros, so that two encodings of one number are equal.
pub(crate) fn trim_serial(mut serial: &[u8]) -> &[u8] {
    while let [0, rest @ ..] = serial {
        serial = rest;
    }
    serial
}

fn read_extensions(parsed: &X509Certificate<'_>) -> Result<(Names, Usage), InvalidCertificate> {
    let mut names = Names::default();
    let mut usage = Usage::default();
    let mut seen = Vec::new();
    for extension in parsed.extensions() {
        if seen.contains(&&extension.oid) {
            return Err(InvalidCertificate::Extension);
        }
        seen.push(&extension.oid);
        match extension.parsed_extension() {
            ParsedExtension::SubjectAlternativeName(san) => read_names(&san.general_names, &mut names),
            ParsedExtension::KeyUsage(bits) => usage.key_usage = Some(bits.flags),
            ParsedExtension::ExtendedKeyUsage(extended) => {
                usage.server_auth = Some(extended.server_auth || extended.any);
                usage.client_auth = Some(extended.client_auth || extended.any);
            }
            ParsedExtension::BasicConstraints(constraints) => {
                usage.authority = Some(constraints.ca);
                usage.path_len = constraints.path_len_constraint;
            }
            // A comment in odd letters says nothing; a usage that cannot be read might have forbidden something.
            ParsedExtension::ParseError { .. } if is_comment(extension) => {}
            ParsedExtension::ParseError { .. } => return Err(InvalidCertificate::Extension),
            // Name and policy constraints are not evaluated, so a critical one must not be overlooked (RFC 5280 §4.2).
            ParsedExtension::AuthorityKeyIdentifier(_) | ParsedExtension::SubjectKeyIdentifier(_) => {}
            _ if extension.critical => return Err(InvalidCertificate::Extension),
            _ => {}
        }
    }
    Ok((names, usage))
}

/// Whether this is one of the old Netscape extensions, and not critical.
fn is_comment(extension: &X509Extension<'_>) -> bool {
    !extension.critical && extension.oid.to_id_string().starts_with("2.16.840.1.113730.")
}

fn read_names(general: &[GeneralName<'_>], names: &mut Names) {
    for name in general {
        match name {
            GeneralName::URI(uri) => names.uris.push((*uri).to_owned()),
            GeneralName::DNSName(host) => names.dns.push((*host).to_owned()),
            GeneralName::IPAddress(bytes) => names.addresses.extend(address(bytes)),
            _ => {}
        }
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(four));
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}
