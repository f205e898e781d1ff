//! Kinds of keys that an application may have a certificate for, side by side.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256, RsaKeySize, SignatureAlgorithm};

use crate::files;

/// An elliptic curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Curve {
    /// NIST P-256, for the security policy ECC_nistP256.
    P256,
    /// Ed25519, for the security policy ECC_curve25519.
    Ed25519,
}

/// A kind of key: RSA, or one on a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// RSA, which every application has.
    Rsa,
    /// On a curve, beside it.
    On(Curve),
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Rsa, Self::On(Curve::P256), Self::On(Curve::Ed25519)];

    /// The name of its files in `own/`, as `gates::pki` reads them.
    const fn name(self) -> &'static str {
        match self {
            Self::Rsa => "own",
            Self::On(Curve::P256) => "own-p256",
            Self::On(Curve::Ed25519) => "own-ed25519",
        }
    }

    /// The certificate in an application's folder.
    pub(crate) fn certificate(self, root: &Path) -> PathBuf {
        root.join(format!("own/certs/{}.der", self.name()))
    }

    /// The private key there.
    pub(crate) fn key(self, root: &Path) -> PathBuf {
        root.join(format!("own/private/{}.pem", self.name()))
    }

    /// Where certificate and key go when they are renewed: whoever still holds the certificate finds its owner.
    pub(crate) fn previous(self, root: &Path) -> (PathBuf, PathBuf) {
        let beside = |path: PathBuf, end: &str| path.with_file_name(format!("{}-previous.{end}", self.name()));
        (beside(self.certificate(root), "der"), beside(self.key(root), "pem"))
    }

    /// The kinds that an application's folder has certificates of.
    pub(crate) fn there(root: &Path) -> Vec<Self> {
        Self::ALL.into_iter().filter(|kind| files::exists(&kind.certificate(root))).collect()
    }

    /// What signatures with such a key are made with.
    pub(super) const fn algorithm(self) -> &'static SignatureAlgorithm {
        match self {
            Self::Rsa => &PKCS_RSA_SHA256,
            Self::On(Curve::P256) => &PKCS_ECDSA_P256_SHA256,
            Self::On(Curve::Ed25519) => &PKCS_ED25519,
        }
    }

    pub(super) fn generate(self) -> Result<KeyPair, rcgen::Error> {
        match self {
            Self::Rsa => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
            Self::On(_) => KeyPair::generate_for(self.algorithm()),
        }
    }
}
