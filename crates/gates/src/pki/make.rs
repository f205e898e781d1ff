//! Makes application instance certificates (OPC 10000-6 §6.2.2): self-signed, RSA or on an elliptic curve, with the
//! ApplicationUri in the subject alternative name.

use std::net::IpAddr;

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256, RsaKeySize, SanType,
};
use rustls_pki_types::PrivatePkcs8KeyDer;
use zeroize::Zeroizing;

use access_model::UnixTime;

/// What goes into a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// Common name.
    pub name: String,
    /// The ApplicationUri.
    pub uri: String,
    /// Host names and addresses under which a server is reached.
    pub hosts: Vec<String>,
    /// Days until it ends.
    pub days: u16,
    /// Length of the RSA key: 2048, 3072 or 4096.
    pub key_bits: u16,
}

impl Application {
    /// A certificate of one year with a 2048-bit key for this computer alone.
    #[must_use]
    pub fn local(name: &str, uri: &str) -> Self {
        let hosts = ["localhost", "127.0.0.1"].map(str::to_owned).to_vec();
        Self { name: name.into(), uri: uri.into(), hosts, days: 365, key_bits: 2048 }
    }
}

/// A new certificate with its private key.
pub struct Made {
    /// The certificate.
    pub der: Vec<u8>,
    /// The private key, PKCS#8 in PEM.
    pub key_pem: Zeroizing<String>,
    /// The private key, PKCS#8 in DER.
    pub key_der: Zeroizing<Vec<u8>>,
}

/// Why no certificate was made.
#[derive(Debug, thiserror::Error)]
pub enum Unmade {
    /// The length of the key.
    #[error("{0} is no key length; write 2048, 3072 or 4096")]
    KeyLength(u16),
    /// The certificate library refused.
    #[error("the certificate cannot be made: {0}")]
    Library(#[from] rcgen::Error),
}

/// Makes a self-signed certificate, valid from an hour before `now` so that clocks need not agree to the second.
///
/// # Errors
/// The key length is unknown or a name does not fit a certificate.
pub fn self_signed(application: &Application, now: UnixTime) -> Result<Made, Unmade> {
    let size = match application.key_bits {
        2048 => RsaKeySize::_2048,
        3072 => RsaKeySize::_3072,
        4096 => RsaKeySize::_4096,
        other => return Err(Unmade::KeyLength(other)),
    };
    let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, size)?;
    let certificate = parameters(application, now)?.self_signed(&key)?;
    let key_der = Zeroizing::new(key.serialize_der());
    Ok(Made { der: certificate.der().to_vec(), key_pem: Zeroizing::new(key.serialize_pem()), key_der })
}

/// The curve of a certificate's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// NIST P-256, for ECC_nistP256.
    P256,
    /// Ed25519, for ECC_curve25519.
    Ed25519,
}

/// As [`self_signed`], with a key on `curve`; `application.key_bits` says nothing here.
///
/// # Errors
/// A name does not fit a certificate.
pub fn self_signed_on(curve: Curve, application: &Application, now: UnixTime) -> Result<Made, Unmade> {
    let key = KeyPair::generate_for(match curve {
        Curve::P256 => &PKCS_ECDSA_P256_SHA256,
        Curve::Ed25519 => &PKCS_ED25519,
    })?;
    let mut parameters = parameters(application, now)?;
    // Such a key signs and never encrypts.
    parameters.key_usages =
        vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::ContentCommitment, KeyUsagePurpose::KeyCertSign];
    let certificate = parameters.self_signed(&key)?;
    let key_der = Zeroizing::new(key.serialize_der());
    Ok(Made { der: certificate.der().to_vec(), key_pem: Zeroizing::new(key.serialize_pem()), key_der })
}

/// Makes a successor with the same key: for a renewal of the certificate alone.
///
/// # Errors
/// The key is not RSA in PKCS#8, or a name does not fit a certificate.
pub fn renewed(application: &Application, key_pkcs8: &[u8], now: UnixTime) -> Result<Vec<u8>, Unmade> {
    let key = KeyPair::from_pkcs8_der_and_sign_algo(&PrivatePkcs8KeyDer::from(key_pkcs8.to_vec()), &PKCS_RSA_SHA256)?;
    Ok(parameters(application, now)?.self_signed(&key)?.der().to_vec())
}

fn parameters(application: &Application, now: UnixTime) -> Result<CertificateParams, Unmade> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, &application.name);
    params.distinguished_name.push(DnType::OrganizationName, "Trapkey");
    params.subject_alt_names = vec![SanType::URI(application.uri.clone().try_into()?)];
    for host in &application.hosts {
        params.subject_alt_names.push(match host.parse::<IpAddr>() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(host.clone().try_into()?),
        });
    }
    params.is_ca = IsCa::ExplicitNoCa;
    // A self-signed certificate verifies itself, so its key also signs a certificate (OPC 10000-6 §6.2.2).
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::ContentCommitment,
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::DataEncipherment,
        KeyUsagePurpose::KeyCertSign,
    ];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let seconds = now.as_seconds();
    params.not_before = date(seconds - 3_600);
    params.not_after = date(seconds + i64::from(application.days) * 86_400);
    Ok(params)
}

/// A calendar day's start for a certificate's validity. The library takes dates, not seconds.
fn date(unix_seconds: i64) -> time::OffsetDateTime {
    time::OffsetDateTime::from_unix_timestamp(unix_seconds).unwrap_or(time::OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ua_proto::crypto::PrivateKey;
    use ua_proto::pki::{Certificate, OwnIdentity};

    #[test]
    fn a_certificate_names_its_application_and_fits_its_key() {
        let now = UnixTime::from_seconds(1_800_000_000);
        let made = self_signed(&Application::local("Mixer", "urn:test:mixer"), now).unwrap();
        let certificate = Certificate::from_der(&made.der).unwrap();
        assert_eq!(certificate.application_uri(), Some("urn:test:mixer"));
        assert_eq!(certificate.key_bits(), 2048);
        assert!(certificate.not_before() < now && certificate.not_after() > now);
        let hosts: Vec<String> = certificate.hosts().collect();
        assert_eq!(hosts, ["localhost", "127.0.0.1"]);
        let key = PrivateKey::from_pem(made.key_pem.as_bytes()).unwrap();
        OwnIdentity::new(certificate, key).unwrap();
        let successor = renewed(&Application::local("Mixer", "urn:test:mixer"), &made.key_der, now).unwrap();
        let key = PrivateKey::from_der(&made.key_der).unwrap();
        OwnIdentity::new(Certificate::from_der(&successor).unwrap(), key).unwrap();
    }

    #[test]
    fn an_application_has_a_certificate_for_each_kind_of_key() {
        use ua_proto::crypto::SecurityPolicyId;
        let now = UnixTime::from_seconds(1_800_000_000);
        let application = Application::local("Mixer", "urn:test:mixer");
        let own = |made: Made| {
            let key = PrivateKey::from_pem(made.key_pem.as_bytes()).unwrap();
            OwnIdentity::new(Certificate::from_der(&made.der).unwrap(), key).unwrap()
        };
        let [p256, ed25519] =
            [Curve::P256, Curve::Ed25519].map(|curve| own(self_signed_on(curve, &application, now).unwrap()));
        let all = std::sync::Arc::new(own(self_signed(&application, now).unwrap()).beside(p256).beside(ed25519));
        for policy in SecurityPolicyId::ALL {
            let fitting = OwnIdentity::for_policy(&all, policy).unwrap();
            assert_eq!(fitting.certificate.application_uri(), Some("urn:test:mixer"));
            assert!(policy.algorithms().accepts_key(fitting.certificate.key()), "{policy}");
        }
    }

    #[test]
    fn an_odd_key_length_is_refused() {
        let odd = Application { key_bits: 1024, ..Application::local("a", "urn:a") };
        assert!(matches!(self_signed(&odd, UnixTime::from_seconds(0)), Err(Unmade::KeyLength(1024))));
    }
}
