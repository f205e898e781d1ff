//! Making keys, certificates and a revocation list.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use access_model::UnixTime;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
    PKCS_RSA_SHA256, RevocationReason, RevokedCertParams, RsaKeySize, SanType, SerialNumber,
};
use time::{Duration, OffsetDateTime};
use x509_parser::prelude::{CertificateRevocationList, FromDer as _};

use super::kind::Kind;
use crate::failure::Failure;
use crate::files;

/// The certification authority and its revocation list end after this.
const CA_DAYS: u16 = 3_650;
/// Certificates begin an hour ago, so that clocks need not agree to the second.
const BEFORE: Duration = Duration::HOUR;

/// A certificate with its private key.
pub(super) struct Made {
    pub(super) der: Vec<u8>,
    pub(super) pem: String,
    pub(super) key_pem: String,
}

/// A certification authority.
pub(super) struct Ca {
    folder: PathBuf,
    der: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
}

fn unmade(error: rcgen::Error) -> Failure {
    Failure::bad_input("the certificate cannot be made").because_of(Some(&error))
}

fn now() -> OffsetDateTime {
    let seconds = gates::clock::now().unix.as_seconds();
    OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// Names and validity that every certificate here has.
fn params(name: &str, days: i64) -> Result<CertificateParams, Failure> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.distinguished_name.push(DnType::OrganizationName, "Trapkey");
    params.not_before = now() - BEFORE;
    params.not_after = now() + Duration::days(days);
    params.use_authority_key_identifier_extension = true;
    let mut serial = [0; 16];
    aws_lc_rs::rand::fill(&mut serial).map_err(|_| Failure::unavailable("there is no randomness"))?;
    // A serial number is positive.
    serial[0] &= 0x7f;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    Ok(params)
}

fn names(uri: Option<&str>, hosts: &[String]) -> Result<Vec<SanType>, Failure> {
    let uri = uri.map(|uri| uri.to_owned().try_into().map(SanType::URI));
    let hosts = hosts.iter().map(|host| match host.parse::<IpAddr>() {
        Ok(address) => Ok(SanType::IpAddress(address)),
        Err(_) => host.clone().try_into().map(SanType::DnsName),
    });
    uri.into_iter().chain(hosts).collect::<Result<_, _>>().map_err(unmade)
}

impl Ca {
    /// Makes one in a folder that does not exist yet.
    pub(super) fn create(folder: &Path) -> Result<Self, Failure> {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_3072).map_err(unmade)?;
        let mut params = params("Trapkey plant CA", CA_DAYS.into())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key).map_err(unmade)?;
        files::make_folder(folder)?;
        files::create(&folder.join("ca-key.pem"), key.serialize_pem().as_bytes(), true)?;
        files::create(&folder.join("ca.der"), certificate.der(), false)?;
        files::create(&folder.join("ca.pem"), certificate.pem().as_bytes(), false)?;
        let ca = Self { folder: folder.to_owned(), der: certificate.der().to_vec(), issuer: Issuer::new(params, key) };
        // A list that revokes nothing: without one, every certificate would be of unknown standing.
        let first = Revocations { number: 1, ..Revocations::default() };
        files::create(&folder.join("ca.crl"), &ca.sign_revocations(&first, CA_DAYS)?, false)?;
        Ok(ca)
    }

    /// The one in this folder.
    pub(super) fn open(folder: &Path) -> Result<Self, Failure> {
        let pem = files::private_text(&folder.join("ca-key.pem"))?;
        let key = KeyPair::from_pem(&pem).map_err(unmade)?;
        let der = files::bytes(&folder.join("ca.der"))?;
        let issuer = Issuer::from_ca_cert_der(&der.clone().into(), key).map_err(unmade)?;
        Ok(Self { folder: folder.to_owned(), der, issuer })
    }

    pub(super) fn der(&self) -> &[u8] {
        &self.der
    }

    /// An application instance certificate (OPC 10000-6 §6.2.2): RSA-2048 or on a curve, the ApplicationUri and hosts in
    /// the subject alternative name.
    pub(super) fn application(
        &self,
        kind: Kind,
        name: &str,
        uri: &str,
        hosts: &[String],
        days: u16,
    ) -> Result<Made, Failure> {
        self.instance(kind, &kind.generate().map_err(unmade)?, name, uri, hosts, days)
    }

    /// The same for a key that is there already.
    pub(super) fn renewed(
        &self,
        kind: Kind,
        key_pem: &str,
        name: &str,
        uri: &str,
        hosts: &[String],
        days: u16,
    ) -> Result<Made, Failure> {
        let key = KeyPair::from_pem_and_sign_algo(key_pem, kind.algorithm()).map_err(unmade)?;
        self.instance(kind, &key, name, uri, hosts, days)
    }

    fn instance(
        &self,
        kind: Kind,
        key: &KeyPair,
        name: &str,
        uri: &str,
        hosts: &[String],
        days: u16,
    ) -> Result<Made, Failure> {
        let mut params = params(name, days.into())?;
        params.subject_alt_names = names(Some(uri), hosts)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::ContentCommitment];
        if kind == Kind::Rsa {
            // A key on a curve signs and never encrypts.
            params.key_usages.extend([KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::DataEncipherment]);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params, key)
    }

    /// A certificate for an HTTPS server: P-256, because its handshakes cost the server a tenth of RSA's.
    pub(super) fn tls(&self, hosts: &[String], days: u16) -> Result<Made, Failure> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(unmade)?;
        let mut params = params(hosts.first().map_or("localhost", String::as_str), days.into())?;
        params.subject_alt_names = names(None, hosts)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&params, &key)
    }

    fn sign(&self, params: &CertificateParams, key: &KeyPair) -> Result<Made, Failure> {
        let certificate = params.signed_by(key, &self.issuer).map_err(unmade)?;
        Ok(Made { der: certificate.der().to_vec(), pem: certificate.pem(), key_pem: key.serialize_pem() })
    }

    /// The revocation list as it was signed last.
    pub(super) fn crl(&self) -> Result<Vec<u8>, Failure> {
        files::bytes(&self.folder.join("ca.crl"))
    }

    /// What the list says.
    pub(super) fn revocations(&self) -> Result<Revocations, Failure> {
        Revocations::parse(&self.crl()?)
    }

    /// A new list; `days` from now it must be signed anew.
    pub(super) fn sign_revocations(&self, revocations: &Revocations, days: u16) -> Result<Vec<u8>, Failure> {
        let list = CertificateRevocationListParams {
            this_update: now() - BEFORE,
            next_update: now() + Duration::days(days.into()),
            crl_number: SerialNumber::from(revocations.number),
            issuing_distribution_point: None,
            revoked_certs: revocations.entries.iter().map(Entry::params).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).map(|crl| crl.der().to_vec()).map_err(unmade)
    }
}

/// A revocation list.
#[derive(Debug)]
pub(super) struct Revocations {
    /// CRLNumber (RFC 5280 section 5.2.3): each list has the next.
    pub(super) number: u64,
    /// When the next list is due.
    pub(super) until: UnixTime,
    /// What is revoked.
    pub(super) entries: Vec<Entry>,
}

/// A revoked certificate.
#[derive(Debug)]
pub(super) struct Entry {
    serial: Vec<u8>,
    at: OffsetDateTime,
    reason: u8,
}

impl Default for Revocations {
    fn default() -> Self {
        Self { number: 0, until: UnixTime::from_seconds(0), entries: Vec::new() }
    }
}

impl Revocations {
    /// Reads a list (DER).
    pub(super) fn parse(der: &[u8]) -> Result<Self, Failure> {
        let unread = || Failure::bad_input("ca.crl is no revocation list that can be continued");
        let (_, list) = CertificateRevocationList::from_der(der).map_err(|_| unread())?;
        let number = list.crl_number().and_then(|number| number.to_u64_digits().first().copied()).unwrap_or(0);
        let until = list.next_update().map_or(0, |until| until.timestamp());
        let entries = list.iter_revoked_certificates().map(|revoked| Entry {
            serial: revoked.raw_serial().to_vec(),
            at: revoked.revocation_date.to_datetime(),
            reason: revoked.reason_code().map_or(0, |(_, code)| code.0),
        });
        Ok(Self { number, until: UnixTime::from_seconds(until), entries: entries.collect() })
    }

    /// Whether the certificate with this serial number is revoked.
    pub(super) fn holds(&self, serial: &[u8]) -> bool {
        self.entries.iter().any(|entry| plain(&entry.serial) == plain(serial))
    }
}

/// Without the zero in front that keeps a number positive.
fn plain(serial: &[u8]) -> &[u8] {
    let zeros = serial.iter().take_while(|byte| **byte == 0).count();
    serial.split_at(zeros).1
}

impl Entry {
    /// Revoked now, for a reason of RFC 5280 section 5.3.1.
    pub(super) fn now(serial: &[u8], reason: u8) -> Self {
        Self { serial: serial.to_vec(), at: now(), reason }
    }

    fn params(&self) -> RevokedCertParams {
        let reason = match self.reason {
            1 => Some(RevocationReason::KeyCompromise),
            2 => Some(RevocationReason::CaCompromise),
            3 => Some(RevocationReason::AffiliationChanged),
            4 => Some(RevocationReason::Superseded),
            5 => Some(RevocationReason::CessationOfOperation),
            6 => Some(RevocationReason::CertificateHold),
            9 => Some(RevocationReason::PrivilegeWithdrawn),
            10 => Some(RevocationReason::AaCompromise),
            // An absent reason is "unspecified", and the standard prefers it absent.
            _ => None,
        };
        RevokedCertParams {
            serial_number: SerialNumber::from_slice(plain(&self.serial)),
            revocation_time: self.at,
            reason_code: reason,
            invalidity_date: None,
        }
    }
}
