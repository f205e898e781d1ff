//! Ephemeral keys (OPC 10000-6 §6.8.1): one exchange on a curve, and the key material derived from it.

use std::sync::OnceLock;

use aws_lc_rs::agreement::{self, ECDH_P256, PrivateKey as AgreementKey, UnparsedPublicKey, X25519};
use aws_lc_rs::digest;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use zeroize::Zeroizing;

use super::CryptoFailure;
use crate::Entropy;

/// Bytes of a private key and of the shared secret on both curves.
const SCALAR: usize = 32;
/// How often another private key is made from one that is none: on P-256 one in four thousand millions is.
const TRIES: usize = 8;

/// The curve of an ephemeral key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Curve {
    /// NIST P-256; public keys are x and y, big endian.
    P256,
    /// Curve25519; public keys as in RFC 7748.
    X25519,
}

impl Curve {
    /// Bytes of a public key.
    pub(crate) const fn public_len(self) -> usize {
        match self {
            Self::P256 => 64,
            Self::X25519 => 32,
        }
    }
}

/// A private key that serves one exchange. Its public key is computed when it is asked for, so that it may be made where
/// nothing slow is allowed.
pub(crate) struct EphemeralKey {
    curve: Curve,
    seed: Zeroizing<[u8; SCALAR]>,
    made: OnceLock<Option<(AgreementKey, Vec<u8>)>>,
}

impl EphemeralKey {
    pub(crate) fn new(curve: Curve, entropy: &mut dyn Entropy) -> Self {
        let mut seed = Zeroizing::new([0u8; SCALAR]);
        entropy.fill(&mut *seed);
        Self { curve, seed, made: OnceLock::new() }
    }

    fn pair(&self) -> Option<&(AgreementKey, Vec<u8>)> {
        self.made.get_or_init(|| make(self.curve, &self.seed)).as_ref()
    }

    /// The public key as it travels; empty when none could be made.
    pub(crate) fn public(&self) -> &[u8] {
        self.pair().map_or(&[], |(_, public)| public)
    }

    /// Derives `out` from the exchange with `peer`: HKDF-SHA256 over the shared secret, with `salt` as salt and info.
    ///
    /// # Errors
    /// When the peer's key is no point of the curve, or one that gives the same secret to everybody.
    pub(crate) fn derive(&self, peer: &[u8], salt: &[u8], out: &mut [u8]) -> Result<(), CryptoFailure> {
        let (own, _) = self.pair().ok_or(CryptoFailure)?;
        if peer.len() != self.curve.public_len() {
            return Err(CryptoFailure);
        }
        match self.curve {
            Curve::P256 => {
                let point = [&[0x04], peer].concat();
                let peer = UnparsedPublicKey::new(&ECDH_P256, point);
                agreement::agree(own, peer, CryptoFailure, |secret| expand(secret, salt, out))
            }
            Curve::X25519 => {
                let peer = UnparsedPublicKey::new(&X25519, peer);
                agreement::agree(own, peer, CryptoFailure, |secret| expand(secret, salt, out))
            }
        }
    }
}

/// The key made from `seed`; when that is no private key of the curve, from the hash of it.
fn make(curve: Curve, seed: &[u8; SCALAR]) -> Option<(AgreementKey, Vec<u8>)> {
    let mut scalar = Zeroizing::new(*seed);
    for _ in 0..TRIES {
        let made = match curve {
            Curve::P256 => AgreementKey::from_private_key(&ECDH_P256, &*scalar),
            Curve::X25519 => AgreementKey::from_private_key(&X25519, &*scalar),
        };
        if let Ok(key) = made {
            let public = key.compute_public_key().ok()?;
            let public = match (curve, public.as_ref()) {
                (Curve::P256, [0x04, point @ ..]) => point.to_vec(),
                (Curve::X25519, public) => public.to_vec(),
                (Curve::P256, _) => return None,
            };
            return Some((key, public));
        }
        let next = digest::digest(&digest::SHA256, &*scalar);
        scalar.iter_mut().zip(next.as_ref()).for_each(|(to, from)| *to = *from);
    }
    None
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-SHA256 (RFC 5869) with `salt` as salt and info. A secret of nothing but zeros is refused: the peer sent a point of
/// small order, and anybody could compute the keys.
fn expand(secret: &[u8], salt: &[u8], out: &mut [u8]) -> Result<(), CryptoFailure> {
    if secret.iter().fold(0, |seen, byte| seen | byte) == 0 {
        return Err(CryptoFailure);
    }
    hkdf(secret, salt, salt, out)
}

/// HKDF-SHA256 (RFC 5869).
pub(super) fn hkdf(secret: &[u8], salt: &[u8], info: &[u8], out: &mut [u8]) -> Result<(), CryptoFailure> {
    let info = [info];
    let prk = Salt::new(HKDF_SHA256, salt).extract(secret);
    let okm = prk.expand(&info, Length(out.len())).map_err(|_| CryptoFailure)?;
    okm.fill(out).map_err(|_| CryptoFailure)
}

/// A salt of OPC 10000-6 §6.8.1: the length of the key material, a label, and two public keys.
pub(crate) fn salt(length: usize, label: &[u8], first: &[u8], second: &[u8]) -> Result<Vec<u8>, CryptoFailure> {
    let length = u16::try_from(length).map_err(|_| CryptoFailure)?.to_le_bytes();
    Ok([&length, label, first, second].concat())
}
