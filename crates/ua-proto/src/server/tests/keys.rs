//! Keys and certificates, made once.

use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwap;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, RsaKeySize, SanType};
use token::{Algorithm, Signer};

use crate::crypto::{PrivateKey, SecurityPolicyId};
use crate::pki::{Certificate, OwnIdentity, SharedTrust, TrustList};

pub(super) const SERVER_URI: &str = "urn:test:server";
/// What every certificate names.
pub(super) const HOST: &str = "plant.test";
pub(super) const CLIENT_URI: &str = "urn:test:client";
pub(super) const OTHER_URI: &str = "urn:test:other";

pub(super) static SERVER: LazyLock<Arc<OwnIdentity>> = LazyLock::new(|| identity("server", SERVER_URI));
pub(super) static CLIENT: LazyLock<Arc<OwnIdentity>> = LazyLock::new(|| identity("client", CLIENT_URI));
pub(super) static OTHER: LazyLock<Arc<OwnIdentity>> = LazyLock::new(|| identity("other", OTHER_URI));
pub(super) static USER: LazyLock<Arc<OwnIdentity>> = LazyLock::new(|| identity("user", "urn:test:user"));
/// Signs tokens.
pub(super) static ISSUER: LazyLock<Signer> = LazyLock::new(|| Signer::generate(Algorithm::Es256).unwrap());
/// Signs tokens that nobody accepts.
pub(super) static STRANGER: LazyLock<Signer> = LazyLock::new(|| Signer::generate(Algorithm::Es256).unwrap());

/// An identity with a certificate of each kind.
fn identity(name: &str, uri: &str) -> Arc<OwnIdentity> {
    let rsa = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
    let ec = |algorithm| identity_with(name, uri, &KeyPair::generate_for(algorithm).unwrap());
    let (p256, ed25519) = (ec(&rcgen::PKCS_ECDSA_P256_SHA256), ec(&rcgen::PKCS_ED25519));
    Arc::new(identity_with(name, uri, &rsa).beside(p256).beside(ed25519))
}

/// The identity that an application or person uses under `policy`.
pub(super) fn of(identity: &Arc<OwnIdentity>, policy: SecurityPolicyId) -> Arc<OwnIdentity> {
    OwnIdentity::for_policy(identity, policy).unwrap()
}

fn identity_with(name: &str, uri: &str, key: &KeyPair) -> OwnIdentity {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    let host = SanType::DnsName(HOST.try_into().unwrap());
    params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap()), host];
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::ContentCommitment,
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::DataEncipherment,
        KeyUsagePurpose::KeyCertSign,
    ];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = Certificate::from_der(params.self_signed(key).unwrap().der()).unwrap();
    OwnIdentity::new(certificate, PrivateKey::from_der(&key.serialize_der()).unwrap()).unwrap()
}

pub(super) fn trust(trusted: &[&Arc<OwnIdentity>]) -> SharedTrust {
    let all = trusted.iter().flat_map(|identity| identity.others.iter().chain([*identity]));
    let trusted = all.map(|identity| identity.certificate.clone()).collect();
    Arc::new(ArcSwap::from_pointee(TrustList { trusted, ..TrustList::default() }))
}
