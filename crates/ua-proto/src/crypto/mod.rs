//! Security policies: which algorithms protect a channel, a signature or a secret.
//!
//! Everything above this module sees [`SecurityPolicy`] only; RSA, elliptic curves and None are its implementations.

mod aead;
mod ecc;
mod ecc_secret;
mod ephemeral;
mod key;
mod none;
mod rsa;
mod secret;
mod symmetric;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_ecc;

use std::fmt;

use crate::Entropy;

pub(crate) use ecc::ephemeral_key;
pub(crate) use ecc_secret::{Sealing, open as open_ecc_secret, seal as seal_ecc_secret};
pub(crate) use ephemeral::EphemeralKey;
pub(crate) use key::KeyKind;
#[cfg(test)]
pub(crate) use key::tally;
pub use key::{InvalidKey, KeyUses, PrivateKey, PublicKey, pause_before_key_use};
pub use secret::{
    InvalidSecret, MAX_LEGACY_BLOCKS, RsaSecret, RsaSecretEnvelope, SecretForm, danger_decrypt_for_any_nonce,
    decrypt_legacy_secret, encrypt_legacy_secret, legacy_secret_blocks, open_rsa_secret, seal_rsa_secret,
};
pub use symmetric::{CbcHmac, p_sha256};

/// The security policies Trapkey speaks (facts section 6). The deprecated Basic128Rsa15 and Basic256 are not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecurityPolicyId {
    /// No protection.
    None,
    /// RSA-OAEP-SHA1, RSA-PKCS1-SHA256, AES-256-CBC, HMAC-SHA256.
    Basic256Sha256,
    /// RSA-OAEP-SHA1, RSA-PKCS1-SHA256, AES-128-CBC, HMAC-SHA256.
    Aes128Sha256RsaOaep,
    /// RSA-OAEP-SHA256, RSA-PSS-SHA256, AES-256-CBC, HMAC-SHA256.
    Aes256Sha256RsaPss,
    /// ECDSA and ECDH with P-256, HKDF-SHA256, AES-128-CBC, HMAC-SHA256.
    EccNistP256,
    /// Ed25519, X25519, HKDF-SHA256, ChaCha20-Poly1305.
    EccCurve25519,
}

impl SecurityPolicyId {
    /// Every policy.
    pub const ALL: [Self; 6] = [
        Self::None,
        Self::Basic256Sha256,
        Self::Aes128Sha256RsaOaep,
        Self::Aes256Sha256RsaPss,
        Self::EccNistP256,
        Self::EccCurve25519,
    ];

    /// Whether certificates of this policy hold keys of elliptic curves: nothing is encrypted for them, and secrets travel
    /// as EccEncryptedSecret.
    #[must_use]
    pub const fn is_ecc(self) -> bool {
        matches!(self, Self::EccNistP256 | Self::EccCurve25519)
    }

    /// The policy's URI.
    #[must_use]
    pub const fn uri(self) -> &'static str {
        match self {
            Self::None => "http://opcfoundation.org/UA/SecurityPolicy#None",
            Self::Basic256Sha256 => "http://opcfoundation.org/UA/SecurityPolicy#Basic256Sha256",
            Self::Aes128Sha256RsaOaep => "http://opcfoundation.org/UA/SecurityPolicy#Aes128_Sha256_RsaOaep",
            Self::Aes256Sha256RsaPss => "http://opcfoundation.org/UA/SecurityPolicy#Aes256_Sha256_RsaPss",
            Self::EccNistP256 => "http://opcfoundation.org/UA/SecurityPolicy#ECC_nistP256",
            Self::EccCurve25519 => "http://opcfoundation.org/UA/SecurityPolicy#ECC_curve25519",
        }
    }

    /// The policy with this URI.
    #[must_use]
    pub fn from_uri(uri: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.uri() == uri)
    }

    /// The part of the URI behind `#`, as configuration files write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.uri().split_once('#').map_or("", |(_, name)| name)
    }

    /// The policy with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// The algorithms.
    #[must_use]
    pub fn algorithms(self) -> &'static dyn SecurityPolicy {
        match self {
            Self::None => &none::NONE,
            Self::Basic256Sha256 => &rsa::BASIC256_SHA256,
            Self::Aes128Sha256RsaOaep => &rsa::AES128_SHA256_RSA_OAEP,
            Self::Aes256Sha256RsaPss => &rsa::AES256_SHA256_RSA_PSS,
            Self::EccNistP256 => &ecc::NIST_P256,
            Self::EccCurve25519 => &ecc::CURVE25519,
        }
    }
}

impl fmt::Display for SecurityPolicyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A cryptographic operation failed. It never says how: the answer to a peer must not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cryptographic operation failed")]
pub struct CryptoFailure;

/// The algorithms of one security policy.
pub trait SecurityPolicy: Send + Sync {
    /// Which policy this is.
    fn id(&self) -> SecurityPolicyId;

    /// The URI that goes into `SignatureData.algorithm`; empty when the policy signs nothing or has no name for it.
    fn signature_uri(&self) -> &'static str;

    /// The URI that goes into `encryptionAlgorithm` of a user token; empty when the policy encrypts nothing.
    fn encryption_uri(&self) -> &'static str;

    /// Whether a key of this kind and size may be used.
    fn accepts_key(&self, key: &PublicKey) -> bool;

    /// Length of channel nonces; with elliptic curves, of ephemeral public keys.
    fn nonce_length(&self) -> usize;

    /// Signs `message`. A private-key operation: inside a [`crate::Job`] only.
    ///
    /// # Errors
    /// When the key does not fit the policy.
    fn sign(&self, key: &PrivateKey, message: &[u8]) -> Result<Vec<u8>, CryptoFailure>;

    /// Checks a signature over `message`.
    ///
    /// # Errors
    /// When it does not verify.
    fn verify(&self, key: &PublicKey, message: &[u8], signature: &[u8]) -> Result<(), CryptoFailure>;

    /// Encrypts any number of bytes in as many blocks as they need.
    ///
    /// # Errors
    /// When the key does not fit the policy.
    fn encrypt(&self, key: &PublicKey, plain: &[u8]) -> Result<Vec<u8>, CryptoFailure>;

    /// Decrypts whole blocks. A private-key operation for each block: inside a [`crate::Job`] only, after the caller
    /// bounded the number of blocks.
    ///
    /// # Errors
    /// When a block does not decrypt or the length is no multiple of the block.
    fn decrypt(&self, key: &PrivateKey, cipher: &[u8]) -> Result<Vec<u8>, CryptoFailure>;

    /// Protects an OPN chunk in place: pads, writes the size into the chunk header, signs with the sender's key and
    /// encrypts for the receiver everything from `protected_from` (the sequence header) on. A private-key operation.
    ///
    /// # Errors
    /// When a key does not fit the policy.
    fn seal_open(
        &self,
        chunk: &mut Vec<u8>,
        protected_from: usize,
        sender: Option<&PrivateKey>,
        receiver: Option<&PublicKey>,
    ) -> Result<(), CryptoFailure>;

    /// Opens an OPN chunk in place and cuts off padding and signature. A private-key operation. It verifies even what did
    /// not decrypt, so that time does not tell the two failures apart; a caller that does not accept the sender gives
    /// another key and drops the result.
    ///
    /// # Errors
    /// When anything does not decrypt or verify.
    fn open_open(
        &self,
        chunk: &mut Vec<u8>,
        protected_from: usize,
        sender: Option<&PublicKey>,
        receiver: Option<&PrivateKey>,
    ) -> Result<(), CryptoFailure>;

    /// Starts a key agreement: makes this side's channel nonce. `layout` is what a client asks its server to use.
    fn agree(&self, entropy: &mut dyn Entropy, layout: KeyLayout) -> Box<dyn KeyAgreement>;

    /// The number of the first chunk that this side sends.
    fn first_sequence(&self) -> u32;

    /// The next sequence number after `last` when this side sends.
    fn next_sequence(&self, last: u32) -> u32;

    /// Whether `next` may follow `last`.
    fn sequence_follows(&self, last: u32, next: u32) -> bool;
}

/// How long the derived key material of ECC_curve25519 is. Implementations differ, and the two cannot talk to each other;
/// the other policies have one layout. A server takes both: the first chunk under a security token tells which it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyLayout {
    /// As the profile says: no signing key, one key for encryption and for tags (DerivedSignatureKeyLength is 0).
    #[default]
    Profile,
    /// A signing key of 32 bytes in front, which makes the tags in mode Sign: open62541, and the .NET stack before 2.0.
    WithSigningKey,
}

/// One side's half of the agreement on a security token's keys.
pub trait KeyAgreement: Send {
    /// The nonce (or ephemeral key) that goes to the peer.
    fn nonce(&self) -> &[u8];

    /// The keys of both directions, from this side's secret and the peer's nonce.
    ///
    /// # Errors
    /// When the peer's nonce has a wrong length or value.
    fn keys(&self, role: Role, peer_nonce: &[u8], encrypt: bool) -> Result<ChannelKeys, CryptoFailure>;
}

/// Which end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The end that asked for the channel.
    Client,
    /// The end that granted it.
    Server,
}

/// The two directions of one security token.
pub struct ChannelKeys {
    /// Protects what this side sends.
    pub send: Box<dyn ChunkCipher>,
    /// Opens what this side receives.
    pub receive: Box<dyn ChunkCipher>,
}

/// Protects the chunks of one direction under one security token. Key schedules live as long as the value.
pub trait ChunkCipher: Send + Sync {
    /// The most bytes of body that fit into a chunk of `chunk_size` bytes in all, 24 of which are the headers.
    fn body_capacity(&self, chunk_size: usize) -> usize;

    /// Protects the chunk that starts at `start` of `out` and reaches to its end: pads, writes the size into the chunk
    /// header, signs, and encrypts everything from `start` + 16 (the sequence header) on.
    ///
    /// # Errors
    /// Never with a chunk that has its headers.
    fn seal(&self, out: &mut Vec<u8>, start: usize) -> Result<(), CryptoFailure>;

    /// Opens a chunk whose unprotected 16 bytes are `header` and whose rest is `rest`, in place. `last` is the number of the
    /// chunk before it in this direction. Returns how many bytes of `rest` are the sequence header and body.
    ///
    /// # Errors
    /// When the chunk does not verify.
    fn open(&self, header: &[u8], rest: &mut [u8], last: u32) -> Result<usize, CryptoFailure>;
}

/// Above this a sequence number of a legacy policy wraps (OPC 10000-6 §6.7.2.4).
const LEGACY_WRAP: u32 = u32::MAX - 1024;

/// The sequence number that this side sends after `last`, under None and the RSA policies.
fn legacy_next(last: u32) -> u32 {
    if last > LEGACY_WRAP { 1 } else { last + 1 }
}

/// Whether `next` may come after `last`, under None and the RSA policies: one more, or a wrap to below 1,024.
fn legacy_follows(last: u32, next: u32) -> bool {
    last.checked_add(1) == Some(next) || (last > LEGACY_WRAP && next < 1024)
}
