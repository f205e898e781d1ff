//! EccEncryptedSecret (OPC 10000-4 §7.40.2.5, OPC 10000-6 §6.8.3; facts section 4.4): a secret encrypted with the exchange
//! of two ephemeral keys and signed by its sender.

use access_model::UnixTime;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use zeroize::Zeroizing;

use super::aead::{self, ChaCha};
use super::ecc::{EccPolicy, SIGNATURE, Symmetric};
use super::ephemeral::salt;
use super::secret::{MAX_FIELD, TICKS_TO_1970};
use super::{
    CbcHmac, CryptoFailure, EphemeralKey, InvalidSecret, PrivateKey, PublicKey, SecurityPolicy, SecurityPolicyId,
};
use crate::Entropy;
use crate::pki::MAX_CHAIN_BYTES;
use crate::wire::{Reader, put_bytes, ticks};

/// Binary NodeId of EccEncryptedSecret (ns=0;i=17546) and the mask for a body of bytes.
const HEADER: [u8; 5] = [0x01, 0x00, 0x8a, 0x44, 0x01];
const LABEL: &[u8] = b"opcua-secret";
const BLOCK: usize = 16;
/// Longest public key of any curve.
const MAX_PUBLIC: usize = 256;

/// The clear fields of an EccEncryptedSecret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EccSecretEnvelope<'a> {
    /// The policy's URI.
    policy_uri: &'a str,
    /// The sender's certificate chain; empty when it is the one of the session.
    certificate: &'a [u8],
    /// When it was made.
    signing_time: UnixTime,
    sender: &'a [u8],
    receiver: &'a [u8],
    header: &'a [u8],
    payload: &'a [u8],
    signed: &'a [u8],
    signature: &'a [u8],
}

impl<'a> EccSecretEnvelope<'a> {
    /// Reads the clear fields.
    ///
    /// # Errors
    /// When it is malformed.
    fn parse(blob: &'a [u8]) -> Result<Self, InvalidSecret> {
        let mut reader = Reader::new(blob);
        if reader.take(HEADER.len())? != HEADER.as_slice() || reader.u32()? as usize != reader.rest().len() {
            return Err(InvalidSecret::Malformed);
        }
        let policy_uri = reader.string(255)?;
        let certificate = reader.bytes(MAX_CHAIN_BYTES)?.unwrap_or_default();
        let time = reader.take(8)?.first_chunk::<8>().copied().ok_or(InvalidSecret::Malformed)?;
        let micros = i64::from_le_bytes(time).saturating_sub(TICKS_TO_1970) / 10;
        let key_len = reader.take(2)?.first_chunk::<2>().copied().ok_or(InvalidSecret::Malformed)?;
        let before = reader.rest().len();
        let sender = reader.bytes(MAX_PUBLIC)?.unwrap_or_default();
        let receiver = reader.bytes(MAX_PUBLIC)?.unwrap_or_default();
        if before - reader.rest().len() != usize::from(u16::from_le_bytes(key_len)) {
            return Err(InvalidSecret::Malformed);
        }
        let malformed = InvalidSecret::Malformed;
        let header = blob.get(..blob.len() - reader.rest().len()).ok_or(malformed)?;
        let payload_len = reader.rest().len().checked_sub(SIGNATURE).ok_or(malformed)?;
        let (payload, signature) = reader.rest().split_at_checked(payload_len).ok_or(malformed)?;
        let signed = blob.get(..blob.len() - SIGNATURE).ok_or(malformed)?;
        let signing_time = UnixTime::from_micros(micros);
        Ok(Self { policy_uri, certificate, signing_time, sender, receiver, header, payload, signed, signature })
    }
}

/// What was in an EccEncryptedSecret.
#[derive(Debug)]
pub(crate) struct EccSecret {
    /// The password or token.
    pub(crate) secret: Zeroizing<Vec<u8>>,
    /// The nonce; in ActivateSession it must be the last one sent.
    pub(crate) nonce: Vec<u8>,
    /// When it was made.
    pub(crate) signing_time: UnixTime,
}

/// Opens an EccEncryptedSecret that was made for `own` by whoever holds the key of `sender`, whose leaf certificate is
/// `sender_der`. The signature comes first: nothing is decrypted for a stranger.
///
/// # Errors
/// When anything of it does not fit.
pub(crate) fn open(
    policy: SecurityPolicyId,
    own: &EphemeralKey,
    sender: &PublicKey,
    sender_der: &[u8],
    blob: &[u8],
) -> Result<EccSecret, InvalidSecret> {
    let envelope = EccSecretEnvelope::parse(blob)?;
    let algorithms = EccPolicy::of(policy).ok_or(InvalidSecret::Policy)?;
    if SecurityPolicyId::from_uri(envelope.policy_uri) != Some(policy) {
        return Err(InvalidSecret::Policy);
    }
    if !envelope.certificate.is_empty() && !envelope.certificate.starts_with(sender_der) {
        return Err(InvalidSecret::Certificate);
    }
    algorithms.verify(sender, envelope.signed, envelope.signature).map_err(|_| InvalidSecret::Signature)?;
    verify_slices_are_equal(envelope.receiver, own.public()).map_err(|_| InvalidSecret::Receiver)?;
    let mut payload = Zeroizing::new(envelope.payload.to_vec());
    let keys = Keys::derive(algorithms, own, envelope.sender, [envelope.sender, envelope.receiver])?;
    let end = keys.open(envelope.header, &mut payload)?;
    let mut reader = Reader::new(payload.get(..end).ok_or(InvalidSecret::Malformed)?);
    let nonce = reader.bytes(MAX_FIELD)?.unwrap_or_default();
    let secret = reader.bytes(MAX_FIELD)?.unwrap_or_default();
    check_padding(reader.rest())?;
    let (secret, nonce) = (Zeroizing::new(secret.to_vec()), nonce.to_vec());
    Ok(EccSecret { secret, nonce, signing_time: envelope.signing_time })
}

/// What a secret is sealed with.
pub(crate) struct Sealing<'a> {
    pub(crate) policy: SecurityPolicyId,
    /// The sender's signing key and its certificate chain.
    pub(crate) sender: &'a PrivateKey,
    pub(crate) certificate: &'a [u8],
    /// The receiver's ephemeral public key, whose signature was checked.
    pub(crate) receiver: &'a [u8],
    pub(crate) at: UnixTime,
}

/// Makes an EccEncryptedSecret. A private-key operation.
///
/// # Errors
/// When a key does not fit the policy.
pub(crate) fn seal(
    sealing: &Sealing<'_>,
    secret: &[u8],
    nonce: &[u8],
    entropy: &mut dyn Entropy,
) -> Result<Vec<u8>, CryptoFailure> {
    let algorithms = EccPolicy::of(sealing.policy).ok_or(CryptoFailure)?;
    let own = EphemeralKey::new(algorithms.curve(), entropy);
    let keys = Keys::derive(algorithms, &own, sealing.receiver, [own.public(), sealing.receiver])?;
    let mut payload = Zeroizing::new(Vec::with_capacity(nonce.len() + secret.len() + 64));
    put_bytes(Some(nonce), &mut payload);
    put_bytes(Some(secret), &mut payload);
    let used = payload.len() + 2;
    let mut padding = used.next_multiple_of(BLOCK) - used;
    // A short secret must not show its length (OPC 10000-6 §6.8.3).
    if padding + secret.len() < BLOCK {
        padding += BLOCK;
    }
    let size = u16::try_from(padding).map_err(|_| CryptoFailure)?;
    // At most 31: always fits into the byte.
    payload.extend(std::iter::repeat_n(padding as u8, padding));
    payload.extend_from_slice(&size.to_le_bytes());

    let mut blob = HEADER.to_vec();
    blob.extend_from_slice(&[0; 4]);
    put_bytes(Some(sealing.policy.uri().as_bytes()), &mut blob);
    put_bytes(Some(sealing.certificate), &mut blob);
    blob.extend_from_slice(&ticks(sealing.at).ticks().to_le_bytes());
    let key_len = u16::try_from(own.public().len() + sealing.receiver.len() + 8).map_err(|_| CryptoFailure)?;
    blob.extend_from_slice(&key_len.to_le_bytes());
    put_bytes(Some(own.public()), &mut blob);
    put_bytes(Some(sealing.receiver), &mut blob);
    let total = blob.len() - HEADER.len() - 4 + payload.len() + keys.tag_len() + SIGNATURE;
    let length = u32::try_from(total).map_err(|_| CryptoFailure)?;
    blob.get_mut(HEADER.len()..HEADER.len() + 4).ok_or(CryptoFailure)?.copy_from_slice(&length.to_le_bytes());
    let tag = keys.seal(&blob, &mut payload)?;
    blob.extend_from_slice(&payload);
    blob.extend_from_slice(&tag);
    let signature = algorithms.sign(sealing.sender, &blob)?;
    blob.extend_from_slice(&signature);
    Ok(blob)
}

/// The keys of one secret.
enum Keys {
    Cbc(Box<CbcHmac>),
    ChaCha(ChaCha),
}

impl Keys {
    /// `public` are the keys of sender and receiver, as they go into the salt.
    fn derive(policy: &EccPolicy, own: &EphemeralKey, peer: &[u8], public: [&[u8]; 2]) -> Result<Self, CryptoFailure> {
        let (key_len, iv_len) = match policy.symmetric() {
            Symmetric::CbcHmac(sizes) => (sizes.encrypting, BLOCK),
            Symmetric::ChaCha => (aead::KEY, aead::NONCE),
        };
        let [sender, receiver] = public;
        let mut material = Zeroizing::new(vec![0; key_len + iv_len]);
        own.derive(peer, &salt(material.len(), LABEL, sender, receiver)?, &mut material)?;
        let (key, iv) = material.split_at_checked(key_len).ok_or(CryptoFailure)?;
        Ok(match policy.symmetric() {
            // The sender's signature stands in for a code of authentication; that key is never used.
            Symmetric::CbcHmac(_) => Self::Cbc(Box::new(CbcHmac::new(&[], key, iv)?)),
            Symmetric::ChaCha => Self::ChaCha(ChaCha::new(key, iv, true)?),
        })
    }

    fn tag_len(&self) -> usize {
        if matches!(self, Self::ChaCha(_)) { aead::TAG } else { 0 }
    }

    fn seal(&self, header: &[u8], plain: &mut [u8]) -> Result<Vec<u8>, CryptoFailure> {
        match self {
            Self::Cbc(keys) => keys.encrypt(plain).map(|()| Vec::new()),
            Self::ChaCha(keys) => keys.seal_once(header, plain),
        }
    }

    fn open(&self, header: &[u8], sealed: &mut [u8]) -> Result<usize, CryptoFailure> {
        match self {
            Self::Cbc(keys) => keys.decrypt(sealed).map(|()| sealed.len()),
            Self::ChaCha(keys) => keys.open_once(header, sealed),
        }
    }
}

/// The rest of the payload is padding and its size. It was signed, so a wrong one is the sender's fault and no oracle.
fn check_padding(rest: &[u8]) -> Result<(), InvalidSecret> {
    let (padding, size) = rest.split_last_chunk::<2>().ok_or(InvalidSecret::Malformed)?;
    let low = size.first().copied().unwrap_or_default();
    let right = usize::from(u16::from_le_bytes(*size)) == padding.len() && padding.len() <= 2 * BLOCK;
    if right && padding.iter().all(|byte| *byte == low) { Ok(()) } else { Err(InvalidSecret::Malformed) }
}
