//! Keys of certificates. Private keys stay opaque: they sign and decrypt, and nothing prints or copies them out.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{
    KeyPair, OaepAlgorithm, OaepPrivateDecryptingKey, OaepPublicEncryptingKey, PrivateDecryptingKey,
    PublicEncryptingKey,
};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RsaEncoding, UnparsedPublicKey,
    VerificationAlgorithm,
};
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
    #[error("the bytes are no private key (RSA, P-256 or Ed25519) in PKCS#8, PKCS#1 or SEC1 form")]
    Malformed,
    /// The key is RSA, but too short or too long.
    #[error("the RSA key has {0} bits; 2048 to 4096 are accepted")]
    Size(usize),
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
    Ed25519,
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

    /// Size in bytes of an RSA block and signature; of no use with other kinds.
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
        #[cfg(test)]
        tally::add(|work| work.verifications += 1);
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
        _ if spki.algorithm.algorithm == oid_registry::OID_SIG_ED25519 => (KeyKind::Ed25519, 256),
        _ => (KeyKind::Other, 0),
    }
}

/// What is done before each use of a private key.
static PAUSE: OnceLock<fn()> = OnceLock::new();

/// Has `pause` called before each use of any private key, on the thread that uses it. The first that is told stays.
///
/// A job uses a key up to three times and more, a third of a millisecond each. Where it shares a processor with a thread that
/// serves, that is where it can let the other go first.
pub fn pause_before_key_use(pause: fn()) {
    // Whoever tells it twice tells the same.
    let _first = PAUSE.set(pause);
}

fn before_use() {
    if let Some(pause) = PAUSE.get() {
        pause();
    }
}

/// A private key: RSA of 2048 to 4096 bits, P-256, or Ed25519.
pub struct PrivateKey {
    pair: Pair,
    bits: usize,
    signatures: AtomicU64,
    decryptions: AtomicU64,
}

/// How often a private key was used since it was read, whether it came to anything or not. Failures that must not be told
/// apart have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyUses {
    /// Signatures.
    pub signatures: u64,
    /// Blocks to be decrypted.
    pub decryptions: u64,
}

enum Pair {
    Rsa { signing: KeyPair, decrypting: OaepPrivateDecryptingKey },
    EcP256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl PrivateKey {
    /// Reads a key in PKCS#8 form, an RSA key in PKCS#1 form, or a P-256 key in SEC1 form.
    ///
    /// # Errors
    /// When the bytes are no RSA key of 2048 to 4096 bits, P-256 key or Ed25519 key.
    pub fn from_der(der: &[u8]) -> Result<Self, InvalidKey> {
        if let Ok(signing) = KeyPair::from_pkcs8(der).or_else(|_| KeyPair::from_der(der)) {
            return Self::from_rsa(signing);
        }
        if let Ok(pair) = EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, der) {
            return Ok(Self::of(Pair::EcP256(pair), 256));
        }
        // Version 1 of PKCS#8 leaves the public key out, so nothing can be compared; certificates do that.
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map_err(|_| InvalidKey::Malformed)?;
        Ok(Self::of(Pair::Ed25519(pair), 256))
    }

    const fn of(pair: Pair, bits: usize) -> Self {
        Self { pair, bits, signatures: AtomicU64::new(0), decryptions: AtomicU64::new(0) }
    }

    fn from_rsa(signing: KeyPair) -> Result<Self, InvalidKey> {
        let bits = signing.public_modulus_len() * 8;
        if !(2048..=4096).contains(&bits) {
            return Err(InvalidKey::Size(bits));
        }
        let pkcs8 =
            AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'static>>::as_der(&signing).map_err(|_| InvalidKey::Malformed)?;
        let decrypting = PrivateDecryptingKey::from_pkcs8(pkcs8.as_ref()).map_err(|_| InvalidKey::Malformed)?;
        let decrypting = OaepPrivateDecryptingKey::new(decrypting).map_err(|_| InvalidKey::Malformed)?;
        Ok(Self::of(Pair::Rsa { signing, decrypting }, bits))
    }

    /// Reads the first private key of a PEM text.
    ///
    /// # Errors
    /// When there is none, or as [`PrivateKey::from_der`].
    pub fn from_pem(pem: &[u8]) -> Result<Self, InvalidKey> {
        for block in Pem::iter_from_buffer(pem) {
            let mut block = block.map_err(|_| InvalidKey::Malformed)?;
            if ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"].contains(&block.label.as_str()) {
                let key = Self::from_der(&block.contents);
                block.contents.zeroize();
                return key;
            }
            block.contents.zeroize();
        }
        Err(InvalidKey::Malformed)
    }

    /// Size of the modulus or of the curve's field in bits.
    #[must_use]
    pub fn bits(&self) -> usize {
        self.bits
    }

    /// Size of an RSA block and signature in bytes; of no use with other kinds.
    #[must_use]
    pub fn block_len(&self) -> usize {
        self.bits / 8
    }

    /// How often it was used.
    #[must_use]
    pub fn uses(&self) -> KeyUses {
        KeyUses {
            signatures: self.signatures.load(Ordering::Relaxed),
            decryptions: self.decryptions.load(Ordering::Relaxed),
        }
    }

    /// Whether `public` is the other half.
    #[must_use]
    pub fn belongs_to(&self, public: &PublicKey) -> bool {
        let (kind, own) = match &self.pair {
            Pair::Rsa { signing, .. } => (KeyKind::Rsa, signing.public_key().as_ref()),
            Pair::EcP256(pair) => (KeyKind::EcP256, pair.public_key().as_ref()),
            Pair::Ed25519(pair) => (KeyKind::Ed25519, pair.public_key().as_ref()),
        };
        public.kind == kind && public.raw == own
    }

    fn signed(&self) {
        before_use();
        self.signatures.fetch_add(1, Ordering::Relaxed);
        #[cfg(test)]
        tally::add(|work| work.signatures += 1);
    }

    /// Signs with an RSA key.
    pub(crate) fn sign_rsa(
        &self,
        encoding: &'static dyn RsaEncoding,
        message: &[u8],
    ) -> Result<Vec<u8>, CryptoFailure> {
        self.signed();
        let Pair::Rsa { signing, .. } = &self.pair else { return Err(CryptoFailure) };
        let mut signature = vec![0; signing.public_modulus_len()];
        signing.sign(encoding, &SystemRandom::new(), message, &mut signature).map_err(|_| CryptoFailure)?;
        Ok(signature)
    }

    /// Signs with a key of an elliptic curve of this kind: ECDSA with SHA-256 as r and s, or Ed25519. 64 bytes each.
    pub(crate) fn sign_ec(&self, kind: KeyKind, message: &[u8]) -> Result<Vec<u8>, CryptoFailure> {
        self.signed();
        match (&self.pair, kind) {
            (Pair::EcP256(pair), KeyKind::EcP256) => {
                let signature = pair.sign(&SystemRandom::new(), message).map_err(|_| CryptoFailure)?;
                Ok(signature.as_ref().to_vec())
            }
            (Pair::Ed25519(pair), KeyKind::Ed25519) => Ok(pair.sign(message).as_ref().to_vec()),
            _ => Err(CryptoFailure),
        }
    }

    /// Decrypts one block in place; returns the length of the plain text at the front of `block`.
    pub(crate) fn decrypt_block(
        &self,
        algorithm: &'static OaepAlgorithm,
        block: &mut [u8],
    ) -> Result<usize, CryptoFailure> {
        before_use();
        self.decryptions.fetch_add(1, Ordering::Relaxed);
        #[cfg(test)]
        tally::add(|work| work.decryptions += 1);
        let Pair::Rsa { decrypting, .. } = &self.pair else { return Err(CryptoFailure) };
        let mut plain = [0u8; 512];
        let room = plain.get_mut(..decrypting.min_output_size()).ok_or(CryptoFailure)?;
        let done = decrypting.decrypt(algorithm, block, room, None).map(|plain| plain.len()).map_err(|_| CryptoFailure);
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
        let kind = match self.pair {
            Pair::Rsa { .. } => KeyKind::Rsa,
            Pair::EcP256(_) => KeyKind::EcP256,
            Pair::Ed25519(_) => KeyKind::Ed25519,
        };
        write!(f, "PrivateKey({kind:?}, {} bits)", self.bits)
    }
}

/// What was done with keys on this thread: the certificate of a peer that is refused does not outlive its job, so its key
/// cannot be asked.
#[cfg(test)]
pub(crate) mod tally {
    use std::cell::Cell;

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Work {
        pub(crate) signatures: u64,
        pub(crate) decryptions: u64,
        pub(crate) verifications: u64,
    }

    thread_local! {
        static DONE: Cell<Work> = Cell::default();
    }

    pub(super) fn add(count: impl FnOnce(&mut Work)) {
        let mut done = DONE.get();
        count(&mut done);
        DONE.set(done);
    }

    /// What is done from here on, until it is asked for again.
    pub(crate) fn take() -> Work {
        DONE.take()
    }
}
