//! Certificate directories: what is trusted, what was rejected, and this application's own identity.
//!
//! The layout is the one OPC UA products share, so that an engineer can move a file from one folder to another:
//!
//! ```text
//! own/certs/own.der        own/private/own.pem (0600)
//! own/certs/own-p256.der   own/private/own-p256.pem (0600), if there is one; likewise own-ed25519
//! own/certs/own-previous.der and own/private/own-previous.pem (0600): what was renewed last, of each kind
//! trusted/certs/*.der      trusted/crl/*.crl
//! issuers/certs/*.der      issuers/crl/*.crl
//! rejected/certs/*.der     the newest 100 that were refused
//! ```
//!
//! Files are DER or PEM. A file that cannot be read or parsed makes [`PkiStore::load`] fail and names it: a trust list
//! is never half-applied.

mod files;
pub mod make;
mod rejected;
mod watch;

use std::path::{Path, PathBuf};

use ua_proto::crypto::{InvalidKey, PrivateKey};
use ua_proto::pki::{Certificate, Crl, InvalidCertificate, InvalidCrl, OwnIdentity, TrustList, TrustSettings};

pub use files::write_private;
pub use rejected::MAX_REJECTED;
pub use watch::watch;

/// Why a certificate directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file or folder cannot be read or written.
    #[error("cannot use `{}`: {source}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is no certificate.
    #[error("`{}` holds no certificate: {source}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: InvalidCertificate,
    },
    /// A file is no revocation list.
    #[error("`{}` holds no revocation list: {source}", path.display())]
    Crl {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: InvalidCrl,
    },
    /// The private key is unusable or another certificate's.
    #[error("`{}` is not this certificate's key: {source}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: InvalidKey,
    },
    /// Others may read the private key.
    #[error("`{}` can be read by others; run `chmod 600` on it", path.display())]
    KeyExposed {
        /// The file.
        path: PathBuf,
    },
}

/// One application's certificate directory.
#[derive(Clone, Debug)]
pub struct PkiStore {
    root: PathBuf,
    settings: TrustSettings,
}

impl PkiStore {
    /// The directory at `root`; missing folders are made by [`PkiStore::create`], not here.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>, settings: TrustSettings) -> Self {
        Self { root: root.into(), settings }
    }

    /// Where it is.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes the folders that are missing.
    ///
    /// # Errors
    /// A folder cannot be made.
    pub fn create(&self) -> Result<(), PkiError> {
        for folder in ["own/certs", "own/private", "trusted/certs", "trusted/crl", "issuers/certs", "issuers/crl"] {
            files::make_folder(&self.root.join(folder))?;
        }
        files::make_folder(&self.root.join("rejected/certs"))
    }

    /// Reads everything that is trusted, whole or not at all.
    ///
    /// # Errors
    /// The first file that cannot be read or parsed.
    pub fn load(&self) -> Result<TrustList, PkiError> {
        let mut list = TrustList { settings: self.settings, ..TrustList::default() };
        list.trusted = self.certificates("trusted/certs")?;
        list.issuers = self.certificates("issuers/certs")?;
        for folder in ["trusted/crl", "issuers/crl"] {
            for path in files::sorted(&self.root.join(folder))? {
                let der = files::der(&path, "X509 CRL")?;
                list.crls.push(Crl::from_der(&der).map_err(|source| PkiError::Crl { path, source })?);
            }
        }
        Ok(list)
    }

    /// This application's certificate and key from `own/`, and beside it those with keys of elliptic curves, where there
    /// are any: each serves the security policies that take its key. With each comes the one before, if it is kept: peers
    /// that still hold that certificate find its owner, until it ends ([`OwnIdentity::without_ended`]).
    ///
    /// # Errors
    /// A file is missing, unusable, or the key is readable by others.
    pub fn identity(&self) -> Result<OwnIdentity, PkiError> {
        let own = |name: &str| {
            let certificate = self.root.join(format!("own/certs/{name}.der"));
            (certificate, self.root.join(format!("own/private/{name}.pem")))
        };
        let read = |name: &str| {
            let (certificate, key) = own(name);
            let present = identity(&certificate, &key)?;
            let (certificate, key) = own(&format!("{name}-previous"));
            if !certificate.exists() {
                return Ok(present);
            }
            Ok(present.succeeding(&identity(&certificate, &key)?))
        };
        let mut all = read("own")?;
        for name in ["own-p256", "own-ed25519"] {
            if own(name).0.exists() {
                all = all.beside(read(name)?);
            }
        }
        Ok(all)
    }

    fn certificates(&self, folder: &str) -> Result<Vec<std::sync::Arc<Certificate>>, PkiError> {
        let paths = files::sorted(&self.root.join(folder))?;
        paths.iter().map(|path| certificate(path).map(std::sync::Arc::new)).collect()
    }
}

/// Reads a certificate file, DER or PEM; a chain has the leaf first.
///
/// # Errors
/// The file cannot be read or holds no certificate.
pub fn certificate(path: &Path) -> Result<Certificate, PkiError> {
    let bytes = files::read(path)?;
    let parsed =
        if bytes.starts_with(b"-----") { Certificate::from_pem(&bytes) } else { Certificate::from_der(&bytes) };
    parsed.map_err(|source| PkiError::Certificate { path: path.to_owned(), source })
}

/// Reads a certificate and the private key that belongs to it.
///
/// # Errors
/// As [`PkiStore::identity`].
pub fn identity(certificate_path: &Path, key_path: &Path) -> Result<OwnIdentity, PkiError> {
    let certificate = certificate(certificate_path)?;
    files::refuse_exposed(key_path)?;
    let bytes = zeroize::Zeroizing::new(files::read(key_path)?);
    let unusable = |source| PkiError::Key { path: key_path.to_owned(), source };
    let key = if bytes.starts_with(b"-----") { PrivateKey::from_pem(&bytes) } else { PrivateKey::from_der(&bytes) };
    OwnIdentity::new(certificate, key.map_err(unusable)?).map_err(unusable)
}
