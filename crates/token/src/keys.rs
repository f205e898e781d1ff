//! Signing and verifying keys. A key has exactly one algorithm, whatever a token's header asks for.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize, PublicKeyComponents};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
    ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use x509_parser::prelude::{FromDer as _, SubjectPublicKeyInfo, X509Certificate};
use x509_parser::public_key::PublicKey as SpkiKey;
use zeroize::Zeroizing;

/// How a token is signed (RFC 7518 section 3.1, RFC 8037 section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// ECDSA on P-256 with SHA-256: the default, for its short signatures.
    #[default]
    Es256,
    /// RSASSA-PKCS1-v1_5 with SHA-256, for servers that know nothing else.
    Rs256,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 3] = [Self::Es256, Self::Rs256, Self::EdDsa];

    /// The `alg` value.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Rs256 => "RS256",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The algorithm with this `alg` value; `None` for `none`, symmetric and unknown ones.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// Why bytes are no usable key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// It cannot be parsed.
    #[error("the {0} cannot be parsed")]
    Malformed(&'static str),
    /// Of a kind or size that no supported algorithm uses.
    #[error("the key is neither EC P-256, RSA of 2048 to 8192 bits nor Ed25519")]
    Unsupported,
    /// Too many keys in a set.
    #[error("a key set holds more than {0} keys")]
    TooMany(usize),
    /// The cryptographic library failed.
    #[error("the key cannot be generated")]
    Generation,
}

enum Private {
    Ec(EcdsaKeyPair),
    Rsa(RsaKeyPair),
    Ed(Ed25519KeyPair),
}

/// A private key that signs tokens, with the id under which its public half is published.
pub struct Signer {
    private: Private,
    public: VerifyingKey,
    pkcs8: Zeroizing<Vec<u8>>,
}

impl Signer {
    /// A new key. RSA keys get 2048 bits, and take a fraction of a second.
    ///
    /// # Errors
    /// The cryptographic library fails.
    pub fn generate(algorithm: Algorithm) -> Result<Self, InvalidKey> {
        let failed = |_| InvalidKey::Generation;
        let pkcs8 = match algorithm {
            Algorithm::Es256 => EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)
                .and_then(|key| key.to_pkcs8v1())
                .map_err(failed)?
                .as_ref()
                .to_vec(),
            Algorithm::Rs256 => {
                let der: Result<Pkcs8V1Der<'_>, _> =
                    RsaKeyPair::generate(KeySize::Rsa2048).and_then(|key| key.as_der());
                der.map_err(failed)?.as_ref().to_vec()
            }
            Algorithm::EdDsa => {
                Ed25519KeyPair::generate().and_then(|key| key.to_pkcs8v1()).map_err(failed)?.as_ref().to_vec()
            }
        };
        Self::from_pkcs8_der(&Zeroizing::new(pkcs8))
    }

    /// The key in a PKCS#8 `PrivateKeyInfo`; its algorithm follows from its kind.
    ///
    /// # Errors
    /// Not PKCS#8, or a key of another kind or size.
    pub fn from_pkcs8_der(der: &[u8]) -> Result<Self, InvalidKey> {
        let (private, spki) = if let Ok(key) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der) {
            let spki: Result<PublicKeyX509Der<'_>, _> = key.public_key().as_der();
            (Private::Ec(key), spki)
        } else if let Ok(key) = RsaKeyPair::from_pkcs8(der) {
            let spki: Result<PublicKeyX509Der<'_>, _> = key.public_key().as_der();
            (Private::Rsa(key), spki)
        } else if let Ok(key) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            let spki: Result<PublicKeyX509Der<'_>, _> = key.public_key().as_der();
            (Private::Ed(key), spki)
        } else {
            return Err(InvalidKey::Malformed("PKCS#8 private key"));
        };
        let spki = spki.map_err(|_| InvalidKey::Malformed("PKCS#8 private key"))?;
        let public = VerifyingKey::from_spki_der(spki.as_ref())?;
        Ok(Self { private, public, pkcs8: Zeroizing::new(der.to_vec()) })
    }

    /// The key in a PEM file with one `PRIVATE KEY` block.
    ///
    /// # Errors
    /// No such block, or as [`Signer::from_pkcs8_der`].
    pub fn from_pkcs8_pem(pem: &str) -> Result<Self, InvalidKey> {
        let malformed = InvalidKey::Malformed("PEM file");
        let (_, rest) = pem.split_once("-----BEGIN PRIVATE KEY-----").ok_or(malformed)?;
        let (body, _) = rest.split_once("-----END PRIVATE KEY-----").ok_or(malformed)?;
        let body: Zeroizing<String> = Zeroizing::new(body.split_ascii_whitespace().collect());
        let der = Zeroizing::new(STANDARD.decode(body.as_bytes()).map_err(|_| malformed)?);
        Self::from_pkcs8_der(&der)
    }

    /// The key as PKCS#8 DER: a secret.
    #[must_use]
    pub fn to_pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    /// The key as a PEM file: a secret.
    #[must_use]
    pub fn to_pkcs8_pem(&self) -> Zeroizing<String> {
        let body = Zeroizing::new(STANDARD.encode(&*self.pkcs8));
        let mut pem = Zeroizing::new(String::with_capacity(body.len() * 66 / 64 + 64));
        pem.push_str("-----BEGIN PRIVATE KEY-----\n");
        for (at, letter) in body.chars().enumerate() {
            if at > 0 && at % 64 == 0 {
                pem.push('\n');
            }
            pem.push(letter);
        }
        pem.push_str("\n-----END PRIVATE KEY-----\n");
        pem
    }

    /// The id of this key: [`VerifyingKey::kid`].
    #[must_use]
    pub fn kid(&self) -> &str {
        self.public.kid()
    }

    /// The only algorithm this key signs with.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.public.algorithm
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> VerifyingKey {
        self.public.clone()
    }

    /// A signature over `message`; `None` when the library refuses.
    pub(crate) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let rng = SystemRandom::new();
        match &self.private {
            Private::Ec(key) => key.sign(&rng, message).ok().map(|signature| signature.as_ref().to_vec()),
            Private::Ed(key) => key.try_sign(message).ok().map(|signature| signature.as_ref().to_vec()),
            Private::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &rng, message, &mut signature).ok()?;
                Some(signature)
            }
        }
    }
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Signer({} {})", self.algorithm().name(), self.kid())
    }
}

/// The public half as its numbers, as a JWK holds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    Ec { x: [u8; 32], y: [u8; 32] },
    Rsa { n: Vec<u8>, e: Vec<u8> },
    Ed { x: [u8; 32] },
}

/// A public key that verifies tokens, with its id and its one algorithm.
#[derive(Clone)]
pub struct VerifyingKey {
    kid: String,
    algorithm: Algorithm,
    numbers: Numbers,
    parsed: Arc<ParsedPublicKey>,
}

impl VerifyingKey {
    /// The key in the certificate of an authority (the ServiceCertificate of OPC 10000-12 §9.6.2). Whether that
    /// certificate is trusted and valid is the caller's question.
    ///
    /// # Errors
    /// No X.509 certificate, or a key of another kind or size.
    pub fn from_certificate_der(der: &[u8]) -> Result<Self, InvalidKey> {
        let (_, certificate) = X509Certificate::from_der(der).map_err(|_| InvalidKey::Malformed("certificate"))?;
        Self::from_spki(certificate.public_key())
    }

    /// The key in a DER `SubjectPublicKeyInfo`.
    ///
    /// # Errors
    /// No such structure, or a key of another kind or size.
    pub fn from_spki_der(der: &[u8]) -> Result<Self, InvalidKey> {
        let (rest, spki) = SubjectPublicKeyInfo::from_der(der).map_err(|_| InvalidKey::Malformed("public key"))?;
        if !rest.is_empty() {
            return Err(InvalidKey::Malformed("public key"));
        }
        Self::from_spki(&spki)
    }

    fn from_spki(spki: &SubjectPublicKeyInfo<'_>) -> Result<Self, InvalidKey> {
        let malformed = InvalidKey::Malformed("public key");
        // id-Ed25519, RFC 8410 section 3.
        if spki.algorithm.algorithm.to_id_string() == "1.3.101.112" {
            let x = spki.subject_public_key.data.as_ref().try_into().map_err(|_| malformed)?;
            return Self::from_numbers(None, Numbers::Ed { x });
        }
        match spki.parsed().map_err(|_| malformed)? {
            SpkiKey::EC(point) => match point.data() {
                [4, both @ ..] if both.len() == 64 => {
                    let (x, y) = both.split_at(32);
                    let (x, y) = (x.try_into().map_err(|_| malformed)?, y.try_into().map_err(|_| malformed)?);
                    Self::from_numbers(None, Numbers::Ec { x, y })
                }
                _ => Err(InvalidKey::Unsupported),
            },
            SpkiKey::RSA(key) => Self::from_numbers(
                None,
                Numbers::Rsa { n: unsigned(key.modulus).to_vec(), e: unsigned(key.exponent).to_vec() },
            ),
            _ => Err(InvalidKey::Unsupported),
        }
    }

    /// A key from its numbers; without a `kid` it gets the short thumbprint.
    pub(crate) fn from_numbers(kid: Option<String>, numbers: Numbers) -> Result<Self, InvalidKey> {
        let unsupported = |_| InvalidKey::Unsupported;
        let (algorithm, parsed) = match &numbers {
            Numbers::Ec { x, y } => {
                let point = [&[4_u8][..], x, y].concat();
                (Algorithm::Es256, ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).map_err(unsupported)?)
            }
            Numbers::Rsa { n, e } => {
                // The library checks the size only when it verifies: a weak key would be published and then fail.
                if !(256..=1024).contains(&n.len()) || e.len() > 8 {
                    return Err(InvalidKey::Unsupported);
                }
                let key = PublicKeyComponents { n, e };
                (Algorithm::Rs256, key.to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256).map_err(unsupported)?)
            }
            Numbers::Ed { x } => (Algorithm::EdDsa, ParsedPublicKey::new(&ED25519, x).map_err(unsupported)?),
        };
        let kid = kid.unwrap_or_else(|| thumbprint(&numbers));
        Ok(Self { kid, algorithm, numbers, parsed: Arc::new(parsed) })
    }

    /// The id by which a token's header names this key: what its JWK says, or the first 12 bytes of the JWK thumbprint
    /// (RFC 7638) in base64url.
    #[must_use]
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The same key under another id.
    #[must_use]
    pub fn with_kid(self, kid: impl Into<String>) -> Self {
        Self { kid: kid.into(), ..self }
    }

    /// The only algorithm this key verifies.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(crate) const fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Whether `signature` over `message` was made with this key.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        self.parsed.verify_sig(message, signature).is_ok()
    }
}

impl PartialEq for VerifyingKey {
    fn eq(&self, other: &Self) -> bool {
        self.kid == other.kid && self.numbers == other.numbers
    }
}

impl Eq for VerifyingKey {}

impl std::fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VerifyingKey({} {})", self.algorithm.name(), self.kid)
    }
}

/// A DER integer without the zero that marks it as positive.
fn unsigned(integer: &[u8]) -> &[u8] {
    let zeros = integer.iter().take_while(|byte| **byte == 0).count();
    integer.get(zeros..).unwrap_or(&[])
}

/// The first 12 bytes of the JWK thumbprint: a short id, because every token carries it.
fn thumbprint(numbers: &Numbers) -> String {
    let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let members = match numbers {
        Numbers::Ec { x, y } => format!(r#"{{"crv":"P-256","kty":"EC","x":"{}","y":"{}"}}"#, text(x), text(y)),
        Numbers::Rsa { n, e } => format!(r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#, text(e), text(n)),
        Numbers::Ed { x } => format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, text(x)),
    };
    let whole = digest(&SHA256, members.as_bytes());
    text(whole.as_ref().get(..12).unwrap_or_default())
}
