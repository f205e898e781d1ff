//! Secrets inside user identity tokens (facts section 4): the legacy RSA form and RsaEncryptedSecret.
//!
//! Opening either is a private-key operation and belongs into a [`crate::Job`]; what can be refused without the key is a
//! function of its own, to be called first.

use access_model::UnixTime;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use zeroize::Zeroizing;

use super::{CbcHmac, CryptoFailure, PrivateKey, PublicKey, SecurityPolicy, SecurityPolicyId};
use crate::Entropy;
use crate::pki::Certificate;
use crate::wire::{Misbehavior, Reader, put_bytes, ticks};

/// The most RSA blocks in a legacy secret unless an experiment raises it: each costs the server a private-key operation.
pub const MAX_LEGACY_BLOCKS: usize = 32;
/// Bytes of signing key and vector, and of the signature, in every RSA policy.
const SIGNING_KEY: usize = 32;
const IV: usize = 16;
const SIGNATURE: usize = 32;
/// Longest secret and nonce that are read.
pub(super) const MAX_FIELD: usize = 512 * 1024;
/// Binary NodeId of RsaEncryptedSecret (ns=0;i=17545) and the mask for a body of bytes.
const HEADER: [u8; 5] = [0x01, 0x00, 0x89, 0x44, 0x01];
/// 100-nanosecond ticks from 1601 to 1970.
pub(super) const TICKS_TO_1970: i64 = 116_444_736_000_000_000;

/// A secret cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSecret {
    /// It does not decrypt, or its fields do not fit together.
    #[error("the secret does not decrypt or is malformed")]
    Malformed,
    /// It is longer than allowed.
    #[error("the secret has more blocks than allowed")]
    TooLong,
    /// The nonce in it is not the last one sent.
    #[error("the nonce in the secret is not the last one sent")]
    Nonce,
    /// It was made for another policy.
    #[error("the secret is protected with another security policy")]
    Policy,
    /// It was made for another certificate.
    #[error("the secret is for another certificate")]
    Certificate,
    /// It was made for another ephemeral key than the last one handed out.
    #[error("the secret is for another ephemeral key")]
    Receiver,
    /// Its signature does not verify.
    #[error("the signature of the secret does not verify")]
    Signature,
}

impl From<CryptoFailure> for InvalidSecret {
    fn from(_: CryptoFailure) -> Self {
        Self::Malformed
    }
}

impl From<Misbehavior> for InvalidSecret {
    fn from(_: Misbehavior) -> Self {
        Self::Malformed
    }
}

/// How a token's secret arrives, from its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretForm {
    /// RsaEncryptedSecret.
    Rsa,
    /// EccEncryptedSecret.
    Ecc,
    /// Anything else: the legacy form.
    Legacy,
}

impl SecretForm {
    /// Tells the form of `blob`.
    #[must_use]
    pub fn of(blob: &[u8]) -> Self {
        match blob {
            [0x01, 0x00, 0x89, 0x44, 0x01, ..] => Self::Rsa,
            [0x01, 0x00, 0x8a, 0x44, 0x01, ..] => Self::Ecc,
            _ => Self::Legacy,
        }
    }
}

/// How many RSA blocks of `block_len` bytes a legacy secret of `cipher_len` bytes has.
///
/// # Errors
/// When these are no whole blocks, none, or more than `most`. To be called before any decryption.
pub fn legacy_secret_blocks(cipher_len: usize, block_len: usize, most: usize) -> Result<usize, InvalidSecret> {
    if block_len == 0 || cipher_len == 0 || !cipher_len.is_multiple_of(block_len) {
        return Err(InvalidSecret::Malformed);
    }
    let blocks = cipher_len / block_len;
    if blocks > most { Err(InvalidSecret::TooLong) } else { Ok(blocks) }
}

/// Opens a legacy secret and checks the nonce in it. A private-key operation for each block.
///
/// # Errors
/// When it has more than `most` blocks, does not decrypt, is malformed, or holds another nonce.
pub fn decrypt_legacy_secret(
    policy: &dyn SecurityPolicy,
    key: &PrivateKey,
    cipher: &[u8],
    nonce: &[u8],
    most: usize,
) -> Result<Zeroizing<Vec<u8>>, InvalidSecret> {
    let (secret, sent) = split_legacy_secret(policy, key, cipher, nonce.len(), most)?;
    verify_slices_are_equal(&sent, nonce).map_err(|_| InvalidSecret::Nonce)?;
    Ok(secret)
}

/// [`decrypt_legacy_secret`] that takes any nonce of the right length: only to see that somebody notices.
///
/// # Errors
/// As [`decrypt_legacy_secret`], but for the nonce.
pub fn danger_decrypt_for_any_nonce(
    policy: &dyn SecurityPolicy,
    key: &PrivateKey,
    cipher: &[u8],
    nonce_len: usize,
    most: usize,
) -> Result<Zeroizing<Vec<u8>>, InvalidSecret> {
    split_legacy_secret(policy, key, cipher, nonce_len, most).map(|(secret, _)| secret)
}

/// The secret and the nonce behind it.
fn split_legacy_secret(
    policy: &dyn SecurityPolicy,
    key: &PrivateKey,
    cipher: &[u8],
    nonce_len: usize,
    most: usize,
) -> Result<(Zeroizing<Vec<u8>>, Vec<u8>), InvalidSecret> {
    legacy_secret_blocks(cipher.len(), key.block_len(), most)?;
    let plain = Zeroizing::new(policy.decrypt(key, cipher)?);
    let mut reader = Reader::new(&plain);
    let length = reader.u32()? as usize;
    let content = reader.take(length)?;
    // Padding must be zero: anything else is a channel for bytes that nobody checks.
    if reader.rest().iter().any(|byte| *byte != 0) {
        return Err(InvalidSecret::Malformed);
    }
    let secret_len = content.len().checked_sub(nonce_len).ok_or(InvalidSecret::Malformed)?;
    let (secret, sent) = content.split_at_checked(secret_len).ok_or(InvalidSecret::Malformed)?;
    Ok((Zeroizing::new(secret.to_vec()), sent.to_vec()))
}

/// Makes a legacy secret for the server with this key.
///
/// # Errors
/// When the key does not fit the policy.
pub fn encrypt_legacy_secret(
    policy: &dyn SecurityPolicy,
    key: &PublicKey,
    secret: &[u8],
    nonce: &[u8],
) -> Result<Vec<u8>, CryptoFailure> {
    let length = u32::try_from(secret.len() + nonce.len()).map_err(|_| CryptoFailure)?;
    let mut plain = Zeroizing::new(Vec::with_capacity(4 + secret.len() + nonce.len()));
    plain.extend_from_slice(&length.to_le_bytes());
    plain.extend_from_slice(secret);
    plain.extend_from_slice(nonce);
    policy.encrypt(key, &plain)
}

/// The clear fields of an RsaEncryptedSecret, found without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RsaSecretEnvelope<'a> {
    /// The policy's URI.
    pub policy_uri: &'a str,
    /// SHA-1 of the receiver's certificate.
    pub certificate_sha1: &'a [u8],
    /// When it was made.
    pub signing_time: UnixTime,
    key_data: &'a [u8],
    payload: &'a [u8],
    signed: &'a [u8],
    signature: &'a [u8],
}

impl<'a> RsaSecretEnvelope<'a> {
    /// Reads the clear fields.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn parse(blob: &'a [u8]) -> Result<Self, InvalidSecret> {
        let mut reader = Reader::new(blob);
        if reader.take(HEADER.len())? != HEADER.as_slice() || reader.u32()? as usize != reader.rest().len() {
            return Err(InvalidSecret::Malformed);
        }
        let policy_uri = reader.string(255)?;
        let certificate_sha1 = reader.bytes(20)?.unwrap_or_default();
        let time = reader.take(8)?.first_chunk::<8>().copied().ok_or(InvalidSecret::Malformed)?;
        let micros = i64::from_le_bytes(time).saturating_sub(TICKS_TO_1970) / 10;
        let key_len = reader.take(2)?.first_chunk::<2>().copied().ok_or(InvalidSecret::Malformed)?;
        let key_data = reader.take(u16::from_le_bytes(key_len).into())?;
        let payload_len = reader.rest().len().checked_sub(SIGNATURE).ok_or(InvalidSecret::Malformed)?;
        let payload = reader.take(payload_len)?;
        let signed = blob.get(..blob.len() - SIGNATURE).ok_or(InvalidSecret::Malformed)?;
        Ok(Self {
            policy_uri,
            certificate_sha1,
            signing_time: UnixTime::from_micros(micros),
            key_data,
            payload,
            signed,
            signature: reader.rest(),
        })
    }
}

/// What was in an RsaEncryptedSecret.
#[derive(Debug)]
pub struct RsaSecret {
    /// The password or token.
    pub secret: Zeroizing<Vec<u8>>,
    /// The nonce; in ActivateSession it must be the last one sent.
    pub nonce: Vec<u8>,
    /// When it was made.
    pub signing_time: UnixTime,
}

/// Opens an RsaEncryptedSecret for `own` under `policy`. One private-key operation.
///
/// Keys are read both as raw bytes and as ByteStrings, and the padding size with one and with two bytes: the text and the
/// one known implementation differ, and the lengths tell them apart.
///
/// # Errors
/// When anything of it does not fit.
pub fn open_rsa_secret(
    policy: SecurityPolicyId,
    key: &PrivateKey,
    own: &Certificate,
    blob: &[u8],
) -> Result<RsaSecret, InvalidSecret> {
    let envelope = RsaSecretEnvelope::parse(blob)?;
    if SecurityPolicyId::from_uri(envelope.policy_uri) != Some(policy) || policy == SecurityPolicyId::None {
        return Err(InvalidSecret::Policy);
    }
    if envelope.certificate_sha1 != own.thumbprint_sha1() {
        return Err(InvalidSecret::Certificate);
    }
    legacy_secret_blocks(envelope.key_data.len(), key.block_len(), 1)?;
    let material = policy.algorithms().decrypt(key, envelope.key_data).map(Zeroizing::new);
    let opened = material.map_err(InvalidSecret::from).and_then(|material| split_keys(policy, &material));
    // What did not decrypt is verified all the same: time does not tell the two failures apart.
    let (keys, opened) = match opened {
        Ok(keys) => (keys, Ok(())),
        Err(invalid) => (no_keys(policy)?, Err(invalid)),
    };
    let verified = keys.verify(&[envelope.signed], envelope.signature).map_err(|_| InvalidSecret::Signature);
    opened.and(verified)?;
    let mut payload = Zeroizing::new(envelope.payload.to_vec());
    keys.decrypt(&mut payload)?;
    let mut reader = Reader::new(&payload);
    let nonce = reader.bytes(MAX_FIELD)?.unwrap_or_default();
    let secret = reader.bytes(MAX_FIELD)?.unwrap_or_default();
    check_padding(reader.rest())?;
    Ok(RsaSecret {
        secret: Zeroizing::new(secret.to_vec()),
        nonce: nonce.to_vec(),
        signing_time: envelope.signing_time,
    })
}

fn encrypting_key_len(policy: SecurityPolicyId) -> usize {
    if policy == SecurityPolicyId::Aes128Sha256RsaOaep { 16 } else { 32 }
}

fn split_keys(policy: SecurityPolicyId, material: &[u8]) -> Result<CbcHmac, InvalidSecret> {
    let sizes = [SIGNING_KEY, encrypting_key_len(policy), IV];
    let raw = material.len() == sizes.iter().sum::<usize>();
    let mut reader = Reader::new(material);
    let mut parts: [&[u8]; 3] = [&[]; 3];
    for (part, size) in parts.iter_mut().zip(sizes) {
        *part = if raw { reader.take(size)? } else { reader.bytes(size)?.unwrap_or_default() };
        if part.len() != size {
            return Err(InvalidSecret::Malformed);
        }
    }
    let [signing, encrypting, iv] = parts;
    Ok(CbcHmac::new(signing, encrypting, iv)?)
}

/// Keys that stand in where there are none.
fn no_keys(policy: SecurityPolicyId) -> Result<CbcHmac, CryptoFailure> {
    CbcHmac::new(&[0; SIGNING_KEY], &vec![0; encrypting_key_len(policy)], &[0; IV])
}

fn check_padding(rest: &[u8]) -> Result<(), InvalidSecret> {
    let matches = |size_bytes: usize| {
        let Some(size) = rest.len().checked_sub(size_bytes) else { return false };
        let Some((padding, stated)) = rest.split_at_checked(size) else { return false };
        let wide = size.to_le_bytes();
        let Some(expected) = wide.get(..size_bytes) else { return false };
        stated == expected && padding.iter().all(|byte| Some(byte) == wide.first())
    };
    if rest.len() <= 256 && (matches(2) || matches(1)) { Ok(()) } else { Err(InvalidSecret::Malformed) }
}

/// Makes an RsaEncryptedSecret for the owner of `receiver`, as the text describes it.
///
/// # Errors
/// When the key does not fit the policy.
pub fn seal_rsa_secret(
    policy: SecurityPolicyId,
    receiver: &Certificate,
    secret: &[u8],
    nonce: &[u8],
    at: UnixTime,
    entropy: &mut dyn Entropy,
) -> Result<Vec<u8>, CryptoFailure> {
    let mut signing = Zeroizing::new([0u8; SIGNING_KEY]);
    let mut encrypting = Zeroizing::new(vec![0u8; encrypting_key_len(policy)]);
    let mut iv = [0u8; IV];
    entropy.fill(&mut *signing);
    entropy.fill(&mut encrypting);
    entropy.fill(&mut iv);
    let mut material = Zeroizing::new(Vec::with_capacity(128));
    [signing.as_slice(), &encrypting, &iv].iter().for_each(|part| put_bytes(Some(part), &mut material));
    let key_data = policy.algorithms().encrypt(receiver.key(), &material)?;
    let keys = CbcHmac::new(&*signing, &encrypting, &iv)?;

    let mut payload = Vec::with_capacity(nonce.len() + secret.len() + 32);
    put_bytes(Some(nonce), &mut payload);
    put_bytes(Some(secret), &mut payload);
    let padding = (payload.len() + 2).next_multiple_of(IV) - payload.len() - 2;
    payload.resize(payload.len() + padding, padding as u8);
    payload.extend_from_slice(&(padding as u16).to_le_bytes());
    keys.encrypt(&mut payload)?;

    let mut blob = HEADER.to_vec();
    blob.extend_from_slice(&[0; 4]);
    put_bytes(Some(policy.uri().as_bytes()), &mut blob);
    put_bytes(Some(&receiver.thumbprint_sha1()), &mut blob);
    blob.extend_from_slice(&ticks(at).ticks().to_le_bytes());
    blob.extend_from_slice(&u16::try_from(key_data.len()).map_err(|_| CryptoFailure)?.to_le_bytes());
    blob.extend_from_slice(&key_data);
    blob.extend_from_slice(&payload);
    let length = u32::try_from(blob.len() - HEADER.len() - 4 + SIGNATURE).map_err(|_| CryptoFailure)?;
    blob.get_mut(HEADER.len()..HEADER.len() + 4).ok_or(CryptoFailure)?.copy_from_slice(&length.to_le_bytes());
    let signature = keys.sign(&[&blob]);
    blob.extend_from_slice(&signature);
    Ok(blob)
}
