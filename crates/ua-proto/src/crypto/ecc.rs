//! The policies of elliptic curves in their first form (OPC 10000-6 §6.8, OPC 10000-7): ECC_nistP256 and ECC_curve25519.
//! Certificates sign and nothing is encrypted for them; the nonces of an OPN are ephemeral public keys.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ED25519, VerificationAlgorithm};
use zeroize::Zeroizing;

use super::aead::{self, ChaCha, EitherLayout};
use super::ephemeral::{Curve, EphemeralKey, salt};
use super::symmetric::{SymmetricSizes, write_size};
use super::{
    CbcHmac, ChannelKeys, ChunkCipher, CryptoFailure, KeyAgreement, KeyKind, KeyLayout, PrivateKey, PublicKey, Role,
    SecurityPolicy, SecurityPolicyId,
};
use crate::Entropy;

/// Bytes of a signature under both policies.
pub(super) const SIGNATURE: usize = 64;
const SEQUENCE: usize = 8;
const IV: usize = 16;
const CLIENT: &[u8] = b"opcua-client";
const SERVER: &[u8] = b"opcua-server";

pub(super) struct EccPolicy {
    id: SecurityPolicyId,
    kind: KeyKind,
    curve: Curve,
    verifying: &'static dyn VerificationAlgorithm,
    symmetric: Symmetric,
}

#[derive(Clone, Copy)]
pub(super) enum Symmetric {
    CbcHmac(SymmetricSizes),
    ChaCha,
}

pub(super) static NIST_P256: EccPolicy = EccPolicy {
    id: SecurityPolicyId::EccNistP256,
    kind: KeyKind::EcP256,
    curve: Curve::P256,
    verifying: &ECDSA_P256_SHA256_FIXED,
    symmetric: Symmetric::CbcHmac(SymmetricSizes { signing: 32, encrypting: 16 }),
};

pub(super) static CURVE25519: EccPolicy = EccPolicy {
    id: SecurityPolicyId::EccCurve25519,
    kind: KeyKind::Ed25519,
    curve: Curve::X25519,
    verifying: &ED25519,
    symmetric: Symmetric::ChaCha,
};

impl EccPolicy {
    /// The policy behind `id`, if it is one of these.
    pub(super) fn of(id: SecurityPolicyId) -> Option<&'static Self> {
        match id {
            SecurityPolicyId::EccNistP256 => Some(&NIST_P256),
            SecurityPolicyId::EccCurve25519 => Some(&CURVE25519),
            _ => None,
        }
    }

    pub(super) fn symmetric(&self) -> Symmetric {
        self.symmetric
    }

    pub(super) fn curve(&self) -> Curve {
        self.curve
    }
}

impl SecurityPolicy for EccPolicy {
    fn id(&self) -> SecurityPolicyId {
        self.id
    }

    fn signature_uri(&self) -> &'static str {
        ""
    }

    fn encryption_uri(&self) -> &'static str {
        ""
    }

    fn accepts_key(&self, key: &PublicKey) -> bool {
        key.kind() == self.kind
    }

    fn nonce_length(&self) -> usize {
        self.curve.public_len()
    }

    fn sign(&self, key: &PrivateKey, message: &[u8]) -> Result<Vec<u8>, CryptoFailure> {
        key.sign_ec(self.kind, message)
    }

    fn verify(&self, key: &PublicKey, message: &[u8], signature: &[u8]) -> Result<(), CryptoFailure> {
        if !self.accepts_key(key) || signature.len() != SIGNATURE {
            return Err(CryptoFailure);
        }
        key.verify(self.verifying, message, signature)
    }

    /// These keys encrypt nothing.
    fn encrypt(&self, _key: &PublicKey, _plain: &[u8]) -> Result<Vec<u8>, CryptoFailure> {
        Err(CryptoFailure)
    }

    fn decrypt(&self, _key: &PrivateKey, _cipher: &[u8]) -> Result<Vec<u8>, CryptoFailure> {
        Err(CryptoFailure)
    }

    fn seal_open(
        &self,
        chunk: &mut Vec<u8>,
        _protected_from: usize,
        sender: Option<&PrivateKey>,
        _receiver: Option<&PublicKey>,
    ) -> Result<(), CryptoFailure> {
        write_size(chunk, 0, SIGNATURE)?;
        let signature = self.sign(sender.ok_or(CryptoFailure)?, chunk)?;
        chunk.extend_from_slice(&signature);
        Ok(())
    }

    fn open_open(
        &self,
        chunk: &mut Vec<u8>,
        protected_from: usize,
        sender: Option<&PublicKey>,
        _receiver: Option<&PrivateKey>,
    ) -> Result<(), CryptoFailure> {
        let signed = chunk.len().checked_sub(SIGNATURE).ok_or(CryptoFailure)?;
        let (message, signature) = chunk.split_at_checked(signed).ok_or(CryptoFailure)?;
        self.verify(sender.ok_or(CryptoFailure)?, message, signature)?;
        if signed < protected_from + SEQUENCE {
            return Err(CryptoFailure);
        }
        chunk.truncate(signed);
        Ok(())
    }

    fn agree(&self, entropy: &mut dyn Entropy, layout: KeyLayout) -> Box<dyn KeyAgreement> {
        Box::new(Exchange { own: EphemeralKey::new(self.curve, entropy), symmetric: self.symmetric, layout })
    }

    fn first_sequence(&self) -> u32 {
        0
    }

    fn next_sequence(&self, last: u32) -> u32 {
        last.wrapping_add(1)
    }

    fn sequence_follows(&self, last: u32, next: u32) -> bool {
        last.wrapping_add(1) == next
    }
}

/// A key for one secret under `policy`; none when the policy's secrets are encrypted for a certificate.
pub(crate) fn ephemeral_key(policy: SecurityPolicyId, entropy: &mut dyn Entropy) -> Option<EphemeralKey> {
    EccPolicy::of(policy).map(|policy| EphemeralKey::new(policy.curve, entropy))
}

/// Both sides' nonces are public keys, and their exchange is the secret.
struct Exchange {
    own: EphemeralKey,
    symmetric: Symmetric,
    layout: KeyLayout,
}

/// The public keys of the side that sends and of the one that receives.
struct Direction<'a> {
    label: &'static [u8],
    from: &'a [u8],
    to: &'a [u8],
}

impl Exchange {
    /// The key material of one direction.
    fn material(
        &self,
        direction: &Direction<'_>,
        peer: &[u8],
        length: usize,
    ) -> Result<Zeroizing<Vec<u8>>, CryptoFailure> {
        let salt = salt(length, direction.label, direction.from, direction.to)?;
        let mut material = Zeroizing::new(vec![0; length]);
        self.own.derive(peer, &salt, &mut material)?;
        Ok(material)
    }

    fn cbc(
        &self,
        direction: &Direction<'_>,
        peer: &[u8],
        sizes: SymmetricSizes,
        encrypt: bool,
    ) -> Result<CbcHmac, CryptoFailure> {
        if !encrypt {
            // What is not used is not counted in the length that goes into the salt (OPC 10000-6 §6.8.1).
            return Ok(CbcHmac::sign_only(&self.material(direction, peer, sizes.signing)?));
        }
        let material = self.material(direction, peer, sizes.signing + sizes.encrypting + IV)?;
        let (signing, rest) = material.split_at_checked(sizes.signing).ok_or(CryptoFailure)?;
        let (encrypting, iv) = rest.split_at_checked(sizes.encrypting).ok_or(CryptoFailure)?;
        CbcHmac::new(signing, encrypting, iv)
    }

    fn chacha(
        &self,
        direction: &Direction<'_>,
        peer: &[u8],
        layout: KeyLayout,
        encrypt: bool,
    ) -> Result<ChaCha, CryptoFailure> {
        let signing = if layout == KeyLayout::WithSigningKey { aead::KEY } else { 0 };
        let material = self.material(direction, peer, signing + aead::KEY + aead::NONCE)?;
        let (keys, iv) = material.split_at_checked(signing + aead::KEY).ok_or(CryptoFailure)?;
        let key = if encrypt { keys.get(signing..) } else { keys.get(..aead::KEY) };
        ChaCha::new(key.ok_or(CryptoFailure)?, iv, encrypt)
    }

    fn both_layouts(
        &self,
        direction: &Direction<'_>,
        peer: &[u8],
        encrypt: bool,
    ) -> Result<[ChaCha; 2], CryptoFailure> {
        let profile = self.chacha(direction, peer, KeyLayout::Profile, encrypt)?;
        Ok([profile, self.chacha(direction, peer, KeyLayout::WithSigningKey, encrypt)?])
    }
}

impl KeyAgreement for Exchange {
    fn nonce(&self) -> &[u8] {
        self.own.public()
    }

    fn keys(&self, role: Role, peer_nonce: &[u8], encrypt: bool) -> Result<ChannelKeys, CryptoFailure> {
        let own = self.own.public();
        // A key that comes back is no peer's: both directions would have the same keys but for the label.
        if peer_nonce == own {
            return Err(CryptoFailure);
        }
        let (ours, theirs) = if role == Role::Client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        let sending = Direction { label: ours, from: own, to: peer_nonce };
        let receiving = Direction { label: theirs, from: peer_nonce, to: own };
        let boxed = |send: Box<dyn ChunkCipher>, receive: Box<dyn ChunkCipher>| ChannelKeys { send, receive };
        Ok(match (self.symmetric, role) {
            (Symmetric::CbcHmac(sizes), _) => boxed(
                Box::new(self.cbc(&sending, peer_nonce, sizes, encrypt)?),
                Box::new(self.cbc(&receiving, peer_nonce, sizes, encrypt)?),
            ),
            (Symmetric::ChaCha, Role::Client) => boxed(
                Box::new(self.chacha(&sending, peer_nonce, self.layout, encrypt)?),
                Box::new(self.chacha(&receiving, peer_nonce, self.layout, encrypt)?),
            ),
            (Symmetric::ChaCha, Role::Server) => {
                let send = self.both_layouts(&sending, peer_nonce, encrypt)?;
                let receive = self.both_layouts(&receiving, peer_nonce, encrypt)?;
                let (send, receive) = EitherLayout::pair(send, receive);
                boxed(Box::new(send), Box::new(receive))
            }
        })
    }
}
