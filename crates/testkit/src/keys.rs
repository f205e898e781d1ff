//! Keys and certificates that are the same in every run. Everybody can read the private halves in this repository, so
//! they are good for nothing else.

use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwap;
use token::Signer;
use ua_proto::crypto::PrivateKey;
use ua_proto::pki::{Certificate, OwnIdentity, SharedTrust, TrustList};

/// The server's ApplicationUri.
pub const SERVER_URI: &str = "urn:testkit:server";

/// The server's application certificate.
pub static SERVER: LazyLock<Arc<OwnIdentity>> =
    LazyLock::new(|| identity(include_bytes!("../keys/server.cert.pem"), include_bytes!("../keys/server.key.pem")));
/// One client's application certificate.
pub static CLIENT_A: LazyLock<Arc<OwnIdentity>> =
    LazyLock::new(|| identity(include_bytes!("../keys/client-a.cert.pem"), include_bytes!("../keys/client-a.key.pem")));
/// Another client's.
pub static CLIENT_B: LazyLock<Arc<OwnIdentity>> =
    LazyLock::new(|| identity(include_bytes!("../keys/client-b.cert.pem"), include_bytes!("../keys/client-b.key.pem")));
/// A user's certificate.
pub static USER: LazyLock<Arc<OwnIdentity>> =
    LazyLock::new(|| identity(include_bytes!("../keys/user.cert.pem"), include_bytes!("../keys/user.key.pem")));
/// What the authority signs with.
pub static AUTHORITY: LazyLock<Signer> = LazyLock::new(|| {
    Signer::from_pkcs8_pem(include_str!("../keys/authority.key.pem")).expect("the key in this repository is whole")
});

fn identity(certificate: &[u8], key: &[u8]) -> Arc<OwnIdentity> {
    let certificate = Certificate::from_pem(certificate).expect("the certificate in this repository is whole");
    let key = PrivateKey::from_pem(key).expect("the key in this repository is whole");
    Arc::new(OwnIdentity::new(certificate, key).expect("the key belongs to the certificate"))
}

/// A trust list of these applications.
#[must_use]
pub fn trusting(identities: &[&Arc<OwnIdentity>]) -> SharedTrust {
    let trusted = identities.iter().map(|identity| identity.certificate.clone()).collect();
    Arc::new(ArcSwap::from_pointee(TrustList { trusted, ..TrustList::default() }))
}
