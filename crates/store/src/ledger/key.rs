//! Keys that sign checkpoints: Ed25519 or ES256 (ECDSA P-256 with SHA-256, fixed-length signatures).

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::files;

/// Length of a signature of either kind.
pub(super) const SIGNATURE: usize = 64;

/// The kind of a checkpoint key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyKind {
    /// Ed25519 (RFC 8032).
    #[default]
    Ed25519,
    /// ECDSA over P-256 with SHA-256.
    Es256,
}

impl KeyKind {
    const fn word(self) -> &'static str {
        match self {
            Self::Ed25519 => "ed25519",
            Self::Es256 => "es256",
        }
    }

    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Ed25519 => 1,
            Self::Es256 => 2,
        }
    }

    pub(super) const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Ed25519),
            2 => Some(Self::Es256),
            _ => None,
        }
    }
}

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error("cannot use the key file `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the file system said.
        #[source]
        source: std::io::Error,
    },
    /// Others may read the file.
    #[error("the key file `{}` has mode {mode:o}: others may read it, it must be 600", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The text holds no key of a known kind.
    #[error("{0} holds no Ed25519 or P-256 key")]
    Invalid(String),
    /// The library failed; in practice, no randomness.
    #[error("the key could not be made or used")]
    Crypto,
}

enum Pair {
    Ed25519(Ed25519KeyPair),
    Es256(EcdsaKeyPair),
}

/// The private key that signs checkpoints.
pub struct CheckpointKey {
    pair: Pair,
    pkcs8: zeroized::Bytes,
}

impl fmt::Debug for CheckpointKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CheckpointKey({})", self.public())
    }
}

impl CheckpointKey {
    /// A new key that exists in memory only.
    ///
    /// # Errors
    /// There is no randomness.
    pub fn generate(kind: KeyKind) -> Result<Self, KeyError> {
        let random = SystemRandom::new();
        let pkcs8 = match kind {
            KeyKind::Ed25519 => Ed25519KeyPair::generate_pkcs8(&random),
            KeyKind::Es256 => EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random),
        };
        let pkcs8 = pkcs8.map_err(|_| KeyError::Crypto)?;
        Self::from_pkcs8(pkcs8.as_ref()).ok_or(KeyError::Crypto)
    }

    /// The key in a PEM file of mode 0600; makes one of this kind, and its public half in `<path>.pub`, if there is
    /// no such file.
    ///
    /// # Errors
    /// The file cannot be used, holds no key, or others may read it.
    pub fn load_or_create(path: &Path, kind: KeyKind) -> Result<Self, KeyError> {
        let failed = |source| KeyError::File { path: path.to_owned(), source };
        if let Some(key) = Self::load_if_there(path)? {
            return Ok(key);
        }
        if let Some(folder) = path.parent() {
            files::make_folder(folder).map_err(failed)?;
        }
        let key = Self::generate(kind)?;
        let mut file = files::create_new(path).map_err(failed)?;
        file.write_all(key.to_pem().as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        files::replace(&files::beside(path, "pub"), format!("{}\n", key.public()).as_bytes(), true).map_err(failed)?;
        Ok(key)
    }

    /// The key in a PEM file of mode 0600.
    ///
    /// # Errors
    /// There is no such file, it cannot be used, holds no key, or others may read it.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let missing = || KeyError::File { path: path.to_owned(), source: std::io::ErrorKind::NotFound.into() };
        Self::load_if_there(path)?.ok_or_else(missing)
    }

    fn load_if_there(path: &Path) -> Result<Option<Self>, KeyError> {
        let failed = |source| KeyError::File { path: path.to_owned(), source };
        let Some(text) = files::read_if_there(path).map_err(failed)? else { return Ok(None) };
        let text = zeroized::Bytes(text);
        let mode = files::mode(path).map_err(failed)?;
        if mode & 0o077 != 0 {
            return Err(KeyError::Exposed { path: path.to_owned(), mode });
        }
        from_pem(&text.0).map(Some).ok_or_else(|| KeyError::Invalid(format!("`{}`", path.display())))
    }

    fn from_pkcs8(der: &[u8]) -> Option<Self> {
        let pair = match Ed25519KeyPair::from_pkcs8(der) {
            Ok(pair) => Pair::Ed25519(pair),
            Err(_) => Pair::Es256(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der).ok()?),
        };
        Some(Self { pair, pkcs8: zeroized::Bytes(der.to_vec()) })
    }

    fn to_pem(&self) -> String {
        let mut text = String::from("-----BEGIN PRIVATE KEY-----\n");
        let body = BASE64.encode(&self.pkcs8.0);
        for line in body.as_bytes().chunks(64) {
            text.push_str(&String::from_utf8_lossy(line));
            text.push('\n');
        }
        text.push_str("-----END PRIVATE KEY-----\n");
        text
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> CheckpointPublicKey {
        match &self.pair {
            Pair::Ed25519(pair) => {
                CheckpointPublicKey { kind: KeyKind::Ed25519, bytes: pair.public_key().as_ref().to_vec() }
            }
            Pair::Es256(pair) => {
                CheckpointPublicKey { kind: KeyKind::Es256, bytes: pair.public_key().as_ref().to_vec() }
            }
        }
    }

    pub(super) fn sign(&self, message: &[u8]) -> Result<[u8; SIGNATURE], KeyError> {
        let signature = match &self.pair {
            Pair::Ed25519(pair) => pair.sign(message),
            Pair::Es256(pair) => pair.sign(&SystemRandom::new(), message).map_err(|_| KeyError::Crypto)?,
        };
        signature.as_ref().try_into().map_err(|_| KeyError::Crypto)
    }
}

fn from_pem(text: &[u8]) -> Option<CheckpointKey> {
    let text = std::str::from_utf8(text).ok()?;
    let (_, rest) = text.split_once("-----BEGIN PRIVATE KEY-----")?;
    let (body, _) = rest.split_once("-----END PRIVATE KEY-----")?;
    let body: String = body.split_whitespace().collect();
    let der = zeroized::Bytes(BASE64.decode(body).ok()?);
    CheckpointKey::from_pkcs8(&der.0)
}

/// The public half of a checkpoint key. Written and read as `ed25519:<base64>` or `es256:<base64>`.
#[derive(Clone, PartialEq, Eq)]
pub struct CheckpointPublicKey {
    pub(super) kind: KeyKind,
    pub(super) bytes: Vec<u8>,
}

impl CheckpointPublicKey {
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match self.kind {
            KeyKind::Ed25519 => UnparsedPublicKey::new(&ED25519, &self.bytes).verify(message, signature),
            KeyKind::Es256 => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.bytes).verify(message, signature),
        };
        verified.is_ok()
    }
}

impl fmt::Display for CheckpointPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.word(), BASE64.encode(&self.bytes))
    }
}

impl fmt::Debug for CheckpointPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for CheckpointPublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let invalid = || KeyError::Invalid(format!("`{}`", text.trim()));
        let (word, body) = text.trim().split_once(':').ok_or_else(invalid)?;
        let (kind, length) = match word {
            "ed25519" => (KeyKind::Ed25519, 32),
            "es256" => (KeyKind::Es256, 65),
            _ => return Err(invalid()),
        };
        let bytes = BASE64.decode(body).map_err(|_| invalid())?;
        if bytes.len() == length { Ok(Self { kind, bytes }) } else { Err(invalid()) }
    }
}

mod zeroized {
    /// Key bytes that are overwritten when they go.
    pub(super) struct Bytes(pub(super) Vec<u8>);

    impl Drop for Bytes {
        fn drop(&mut self) {
            zeroize::Zeroize::zeroize(&mut self.0);
        }
    }
}
