//! Certificates, entropy and a wire between two channels, for the tests of this crate.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

use access_model::{Mono, Now, UnixTime};
use arc_swap::ArcSwap;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_RSA_SHA256, RevokedCertParams, RsaKeySize, SanType,
    SerialNumber, date_time_ymd,
};

use crate::Entropy;
use crate::crypto::PrivateKey;
use crate::pki::{Certificate, Crl, OwnIdentity, TrustList};

/// Noon of 2026-06-01, when all test certificates are valid.
pub(crate) fn noon() -> Now {
    Now { mono: Mono::from_nanos(1_000_000_000), unix: UnixTime::from_seconds(1_780_315_200) }
}

/// The key `slot` of this size; making one is slow, so each is made once for all tests.
pub(crate) fn key(bits: usize, slot: u8) -> Arc<KeyPair> {
    type Keys = BTreeMap<(usize, u8), Arc<KeyPair>>;
    static KEYS: LazyLock<Mutex<Keys>> = LazyLock::new(Mutex::default);
    let mut keys = KEYS.lock().unwrap();
    let made = keys.entry((bits, slot)).or_insert_with(|| {
        let size = match bits {
            3072 => RsaKeySize::_3072,
            4096 => RsaKeySize::_4096,
            _ => RsaKeySize::_2048,
        };
        Arc::new(KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, size).unwrap())
    });
    made.clone()
}

/// The parameters of a faultless application certificate; a test then breaks one thing.
pub(crate) fn application(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(2026, 1, 1);
    params.not_after = date_time_ymd(2027, 1, 1);
    params.subject_alt_names = vec![
        SanType::URI(format!("urn:test:{name}").try_into().unwrap()),
        SanType::DnsName("plant.example".try_into().unwrap()),
        SanType::IpAddress([127, 0, 0, 1].into()),
    ];
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::ContentCommitment,
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::DataEncipherment,
    ];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params
}

/// The parameters of a faultless authority.
pub(crate) fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(2026, 1, 1);
    params.not_after = date_time_ymd(2027, 1, 1);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

pub(crate) fn self_signed(params: &CertificateParams, key: &KeyPair) -> Certificate {
    Certificate::from_der(params.self_signed(key).unwrap().der()).unwrap()
}

pub(crate) fn signed_by(
    params: &CertificateParams,
    key: &KeyPair,
    issuer: &CertificateParams,
    issuer_key: &KeyPair,
) -> Certificate {
    let issuer = Issuer::from_params(issuer, issuer_key);
    Certificate::from_der(params.signed_by(key, &issuer).unwrap().der()).unwrap()
}

/// A revocation list of `issuer`, valid in June 2026 unless `stale`.
pub(crate) fn crl(issuer: &CertificateParams, issuer_key: &KeyPair, revoked: &[&[u8]], stale: bool) -> Crl {
    let revoked_certs = revoked.iter().map(|serial| RevokedCertParams {
        serial_number: SerialNumber::from_slice(serial),
        revocation_time: date_time_ymd(2026, 2, 1),
        reason_code: None,
        invalidity_date: None,
    });
    let params = CertificateRevocationListParams {
        this_update: date_time_ymd(2026, 2, 1),
        next_update: if stale { date_time_ymd(2026, 3, 1) } else { date_time_ymd(2026, 12, 1) },
        crl_number: SerialNumber::from(1u64),
        issuing_distribution_point: None,
        revoked_certs: revoked_certs.collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let issuer = Issuer::from_params(issuer, issuer_key);
    Crl::from_der(params.signed_by(&issuer).unwrap().der()).unwrap()
}

/// A self-signed application with a key of this size.
pub(crate) fn identity(name: &str, bits: usize, slot: u8) -> OwnIdentity {
    let key = key(bits, slot);
    let certificate = self_signed(&application(name), &key);
    OwnIdentity::new(certificate, PrivateKey::from_der(key.serialized_der()).unwrap()).unwrap()
}

/// The curves of certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ec {
    P256,
    Ed25519,
}

/// A self-signed application with a key on this curve, each made once. It signs and does not encrypt.
pub(crate) fn ec_identity(name: &str, curve: Ec, slot: u8) -> OwnIdentity {
    type Keys = BTreeMap<(Ec, u8), Arc<KeyPair>>;
    static KEYS: LazyLock<Mutex<Keys>> = LazyLock::new(Mutex::default);
    let mut keys = KEYS.lock().unwrap();
    let made = keys.entry((curve, slot)).or_insert_with(|| {
        let algorithm = if curve == Ec::P256 { &rcgen::PKCS_ECDSA_P256_SHA256 } else { &rcgen::PKCS_ED25519 };
        Arc::new(KeyPair::generate_for(algorithm).unwrap())
    });
    let mut params = application(name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::ContentCommitment];
    let certificate = self_signed(&params, made);
    OwnIdentity::new(certificate, PrivateKey::from_der(made.serialized_der()).unwrap()).unwrap()
}

/// An application with a certificate of each kind.
pub(crate) fn versatile(name: &str, bits: usize, slot: u8) -> OwnIdentity {
    identity(name, bits, slot).beside(ec_identity(name, Ec::P256, slot)).beside(ec_identity(name, Ec::Ed25519, slot))
}

/// A trust list of these applications, with all their certificates.
pub(crate) fn trusting(identities: &[&OwnIdentity]) -> Arc<ArcSwap<TrustList>> {
    let all = |identity: &&OwnIdentity| {
        let others: Vec<_> = identity.others.iter().map(|other| other.certificate.clone()).collect();
        std::iter::once(identity.certificate.clone()).chain(others)
    };
    let trusted = identities.iter().flat_map(all).collect();
    Arc::new(ArcSwap::from_pointee(TrustList { trusted, ..TrustList::default() }))
}

/// Numbers that look random and are the same in every run.
pub(crate) struct Counting(pub(crate) u64);

impl Entropy for Counting {
    fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (self.0 >> 56) as u8;
        }
    }
}
