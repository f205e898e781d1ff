//! Keys of certificates. Private keys stay opaque: they sign and decrypt, and nothing prints or copies them out.

use std::fmt;
use std::sync::OnceLock;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{
    KeyPair, OaepAlgorithm, OaepPrivateDecryptingKey, OaepPublicEncryptingKey, PrivateDecryptingKey,
    PublicEncryptingKey,
};
use aws_lc_rs::signature::{KeyPair as _, RsaEncoding, UnparsedPublicKey, VerificationAlgorithm};
use x509_parser::oid_registry;
use x509_parser::pem::Pem;
use x509_parser::public_key::PublicKey as ParsedPublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;
use zeroize::Zeroize;

use super::CryptoFailure;

/// A key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// The bytes are no key.
    #[error("the bytes are no private key in PKCS#8 or PKCS#1 form")]
    Malformed,
    /// The key is RSA, but too short or too long.
    #[error("the RSA key has {0} bits; 2048 to 4096 are accepted")]
    Size(usize),
    /// The key is of another kind than RSA.
    #[error("the key is not an RSA key")]
    Kind,
    /// The key belongs to another certificate.
    #[error("the private key does not belong to the certificate")]
    OtherCertificate,
}

/// What kind of key a certificate holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Rsa,
    EcP256,
    EcP384,
    Other,
}

/// The public key of a certificate.
pub struct PublicKey {
    /// SubjectPublicKeyInfo, DER.
    spki: Vec<u8>,
    /// The key itself as ECDSA verification wants it: the point.
    raw: Vec<u8>,
    kind: KeyKind,
    bits: usize,
    encrypting: OnceLock<Option<OaepPublicEncryptingKey>>,
}

impl PublicKey {
    pub(crate) fn from_spki(spki: &SubjectPublicKeyInfo<'_>) -> Self {
        let (kind, bits) = classify(spki);
        Self {
            spki: spki.raw.to_vec(),
            raw: spki.subject_public_key.data.to_vec(),
            kind,
            bits,
            encrypting: OnceLock::new(),
        }
    }

    /// Size in bits: the RSA modulus or the curve's field; 0 when the kind is unknown.
    #[must_use]
    pub fn bits(&self) -> usize {
        self.bits
    }

    /// Size in bytes of an RSA block and signature.
    #[must_use]
    pub fn block_len(&self) -> usize {
        self.bits.div_ceil(8)
    }

    /// Whether this is an RSA key.
    #[must_use]
    pub fn is_rsa(&self) -> bool {
        self.kind == KeyKind::Rsa
    }

    pub(crate) fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Checks a signature with `algorithm`, which must be one for this kind of key.
    pub(crate) fn verify(
        &self,
        algorithm: &'static dyn VerificationAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), CryptoFailure> {
        UnparsedPublicKey::new(algorithm, &self.raw).verify(message, signature).map_err(|_| CryptoFailure)
    }

    /// Encrypts one block and appends it to `out`.
    pub(crate) fn encrypt_block(
        &self,
        algorithm: &'static OaepAlgorithm,
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CryptoFailure> {
        let key = self.encrypting.get_or_init(|| {
            let key = PublicEncryptingKey::from_der(&self.spki).ok()?;
            OaepPublicEncryptingKey::new(key).ok()
        });
        let key = key.as_ref().ok_or(CryptoFailure)?;
        let start = out.len();
        out.resize(start + key.ciphertext_size(), 0);
        let block = out.get_mut(start..).ok_or(CryptoFailure)?;
        key.encrypt(algorithm, plain, block, None).map_err(|_| CryptoFailure)?;
        Ok(())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({:?}, {} bits)", self.kind, self.bits)
    }
}

fn classify(spki: &SubjectPublicKeyInfo<'_>) -> (KeyKind, usize) {
    match spki.parsed() {
        Ok(ParsedPublicKey::RSA(key)) => {
            let modulus = key.modulus.iter().skip_while(|byte| **byte == 0);
            let mut bits = 0usize;
            for (place, byte) in modulus.enumerate() {
                bits += if place == 0 { 8 - byte.leading_zeros() as usize } else { 8 };
            }
            (KeyKind::Rsa, bits)
        }
        Ok(ParsedPublicKey::EC(_)) => {
            let curve = spki.algorithm.parameters.as_ref().and_then(|any| any.as_oid().ok());
            match curve {
                Some(oid) if oid == oid_registry::OID_EC_P256 => (KeyKind::EcP256, 256),
                Some(oid) if oid == oid_registry::OID_NIST_EC_P384 => (KeyKind::EcP384, 384),
                _ => (KeyKind::Other, 0),
            }
        }
        _ => (KeyKind::Other, 0),
    }
}

/// An RSA private key of 2048 to 4096 bits.
pub struct PrivateKey {
    signing: KeyPair,
    decrypting: OaepPrivateDecryptingKey,
    bits: usize,
}

impl PrivateKey {
    /// Reads a key in PKCS#8 or PKCS#1 form.
    ///
    /// # Errors
    /// When the bytes are no RSA key of 2048 to 4096 bits.
    pub fn from_der(der: &[u8]) -> Result<Self, InvalidKey> {
        let signing =
            KeyPair::from_pkcs8(der).or_else(|_| KeyPair::from_der(der)).map_err(|_| InvalidKey::Malformed)?;
        let bits = signing.public_modulus_len() * 8;
        if !(2048..=4096).contains(&bits) {
            return Err(InvalidKey::Size(bits));
        }
        let pkcs8 =
            AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'static>>::as_der(&signing).map_err(|_| InvalidKey::Malformed)?;
        let decrypting = PrivateDecryptingKey::from_pkcs8(pkcs8.as_ref()).map_err(|_| InvalidKey::Malformed)?;
        let decrypting = OaepPrivateDecryptingKey::new(decrypting).map_err(|_| InvalidKey::Malformed)?;
        Ok(Self { signing, decrypting, bits })
    }

    /// Reads the first private key of a PEM text.
    ///
    /// # Errors
    /// When there is none, or it is no RSA key of 2048 to 4096 bits.
    pub fn from_pem(pem: &[u8]) -> Result<Self, InvalidKey> {
        for block in Pem::iter_from_buffer(pem) {
            let mut block = block.map_err(|_| InvalidKey::Malformed)?;
            if block.label == "PRIVATE KEY" || block.label == "RSA PRIVATE KEY" {
                let key = Self::from_der(&block.contents);
                block.contents.zeroize();
                return key;
            }
            block.contents.zeroize();
        }
        Err(InvalidKey::Malformed)
    }

    /// Size of the modulus in bits.
    #[must_use]
    pub fn bits(&self) -> usize {
        self.bits
    }

    /// Size of a block and of a signature in bytes.
    #[must_use]
    pub fn block_len(&self) -> usize {
        self.bits / 8
    }

    /// Whether `public` is the other half.
    #[must_use]
    pub fn belongs_to(&self, public: &PublicKey) -> bool {
        public.is_rsa() && public.raw == self.signing.public_key().as_ref()
    }

    pub(crate) fn sign(&self, encoding: &'static dyn RsaEncoding, message: &[u8]) -> Result<Vec<u8>, CryptoFailure> {
        let mut signature = vec![0; self.signing.public_modulus_len()];
        self.signing.sign(encoding, &SystemRandom::new(), message, &mut signature).map_err(|_| CryptoFailure)?;
        Ok(signature)
    }

    /// Decrypts one block in place; returns the length of the plain text at the front of `block`.
    pub(crate) fn decrypt_block(
        &self,
        algorithm: &'static OaepAlgorithm,
        block: &mut [u8],
    ) -> Result<usize, CryptoFailure> {
        let mut plain = [0u8; 512];
        let room = plain.get_mut(..self.decrypting.min_output_size()).ok_or(CryptoFailure)?;
        let done =
            self.decrypting.decrypt(algorithm, block, room, None).map(|plain| plain.len()).map_err(|_| CryptoFailure);
        let copied = done.and_then(|len| {
            let from = plain.get(..len).ok_or(CryptoFailure)?;
            block.get_mut(..len).ok_or(CryptoFailure)?.copy_from_slice(from);
            Ok(len)
        });
        plain.zeroize();
        copied
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({} bits)", self.bits)
    }
}
