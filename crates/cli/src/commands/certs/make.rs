//! Making keys, certificates and a revocation list.

use std::net::IpAddr;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
    PKCS_RSA_SHA256, RsaKeySize, SanType, SerialNumber,
};
use time::{Duration, OffsetDateTime};

use crate::failure::Failure;
use crate::files;

/// The certification authority and its revocation list end after this.
const CA_DAYS: i64 = 3_650;
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
        let mut params = params("Trapkey plant CA", CA_DAYS)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key).map_err(unmade)?;
        files::make_folder(folder)?;
        files::create(&folder.join("ca-key.pem"), key.serialize_pem().as_bytes(), true)?;
        files::create(&folder.join("ca.der"), certificate.der(), false)?;
        files::create(&folder.join("ca.pem"), certificate.pem().as_bytes(), false)?;
        let ca = Self { der: certificate.der().to_vec(), issuer: Issuer::new(params, key) };
        files::create(&folder.join("ca.crl"), &ca.crl()?, false)?;
        Ok(ca)
    }

    /// The one in this folder.
    pub(super) fn open(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join("ca-key.pem");
        let pem = files::text(&path)?;
        if files::mode(&path).is_ok_and(|mode| mode & 0o077 != 0) {
            return Err(Failure::bad_input(format!("`{}` can be read by others", path.display()))
                .help(format!("run `chmod 600 {}`", path.display())));
        }
        let key = KeyPair::from_pem(&pem).map_err(unmade)?;
        let der = files::bytes(&folder.join("ca.der"))?;
        let issuer = Issuer::from_ca_cert_der(&der.clone().into(), key).map_err(unmade)?;
        Ok(Self { der, issuer })
    }

    pub(super) fn der(&self) -> &[u8] {
        &self.der
    }

    /// An application instance certificate (OPC 10000-6 §6.2.2): RSA-2048, the ApplicationUri and hosts in the subject
    /// alternative name.
    pub(super) fn application(&self, name: &str, uri: &str, hosts: &[String], days: u16) -> Result<Made, Failure> {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).map_err(unmade)?;
        let mut params = params(name, days.into())?;
        params.subject_alt_names = names(Some(uri), hosts)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::ContentCommitment,
            KeyUsagePurpose::KeyEncipherment,
            KeyUsagePurpose::DataEncipherment,
        ];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params, &key)
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

    /// A revocation list that revokes nothing: without one, every certificate would be of unknown standing.
    pub(super) fn crl(&self) -> Result<Vec<u8>, Failure> {
        let list = CertificateRevocationListParams {
            this_update: now() - BEFORE,
            next_update: now() + Duration::days(CA_DAYS),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: Vec::new(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).map(|crl| crl.der().to_vec()).map_err(unmade)
    }
}
