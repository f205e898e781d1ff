//! Protection of messages: AES-CBC and HMAC-SHA256, and the derivation of their keys.

use aws_lc_rs::cipher::{
    AES_128, AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, UnboundCipherKey,
};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use aws_lc_rs::iv::FixedLength;
use zeroize::{Zeroize, Zeroizing};

use super::{ChunkCipher, CryptoFailure};

/// Bytes of a chunk in front of the protected part: message header 8, channel id 4, token id 4.
pub(super) const CLEAR: usize = 16;
pub(super) const SEQUENCE: usize = 8;
const BLOCK: usize = 16;
const MAC: usize = 32;

/// Key, encryption and initialization vector lengths of one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SymmetricSizes {
    /// HMAC key.
    pub(crate) signing: usize,
    /// AES key, 16 or 32.
    pub(crate) encrypting: usize,
}

/// P_SHA256 of TLS 1.2 (RFC 5246 §5): fills `out`.
pub fn p_sha256(secret: &[u8], seed: &[u8], out: &mut [u8]) {
    let key = hmac::Key::new(HMAC_SHA256, secret);
    let mut a = hmac::sign(&key, seed);
    for part in out.chunks_mut(MAC) {
        let mut context = hmac::Context::with_key(&key);
        context.update(a.as_ref());
        context.update(seed);
        let block = context.sign();
        part.iter_mut().zip(block.as_ref()).for_each(|(to, from)| *to = *from);
        a = hmac::sign(&key, a.as_ref());
    }
}

/// AES-CBC keys and a fixed initialization vector.
struct Cbc {
    encrypting: EncryptingKey,
    decrypting: DecryptingKey,
    iv: Zeroizing<[u8; BLOCK]>,
}

/// HMAC-SHA256 with or without AES-CBC: one direction of one security token, or the payload of an EncryptedSecret.
pub struct CbcHmac {
    mac: hmac::Key,
    cbc: Option<Cbc>,
}

impl CbcHmac {
    /// Signs only.
    #[must_use]
    pub fn sign_only(signing_key: &[u8]) -> Self {
        Self { mac: hmac::Key::new(HMAC_SHA256, signing_key), cbc: None }
    }

    /// Signs and encrypts. The AES key has 16 or 32 bytes.
    ///
    /// # Errors
    /// When a key or the initialization vector has a wrong length.
    pub fn new(signing_key: &[u8], encrypting_key: &[u8], iv: &[u8]) -> Result<Self, CryptoFailure> {
        let algorithm = match encrypting_key.len() {
            16 => &AES_128,
            32 => &AES_256,
            _ => return Err(CryptoFailure),
        };
        let unbound = || UnboundCipherKey::new(algorithm, encrypting_key).map_err(|_| CryptoFailure);
        let cbc = Cbc {
            encrypting: EncryptingKey::cbc(unbound()?).map_err(|_| CryptoFailure)?,
            decrypting: DecryptingKey::cbc(unbound()?).map_err(|_| CryptoFailure)?,
            iv: Zeroizing::new(iv.try_into().map_err(|_| CryptoFailure)?),
        };
        Ok(Self { mac: hmac::Key::new(HMAC_SHA256, signing_key), cbc: Some(cbc) })
    }

    /// Derives one direction's keys (facts section 6): P_SHA256, split into signing key, encrypting key and vector.
    ///
    /// # Errors
    /// When a length is wrong.
    pub(crate) fn derive(
        secret: &[u8],
        seed: &[u8],
        sizes: SymmetricSizes,
        encrypt: bool,
    ) -> Result<Self, CryptoFailure> {
        let mut material = Zeroizing::new(vec![0u8; sizes.signing + sizes.encrypting + BLOCK]);
        p_sha256(secret, seed, &mut material);
        let (signing, rest) = material.split_at_checked(sizes.signing).ok_or(CryptoFailure)?;
        let (encrypting, iv) = rest.split_at_checked(sizes.encrypting).ok_or(CryptoFailure)?;
        if encrypt { Self::new(signing, encrypting, iv) } else { Ok(Self::sign_only(signing)) }
    }

    /// Encrypts whole blocks in place; does nothing when this signs only.
    ///
    /// # Errors
    /// When the length is no multiple of the block.
    pub fn encrypt(&self, plain: &mut [u8]) -> Result<(), CryptoFailure> {
        let Some(cbc) = &self.cbc else { return Ok(()) };
        let context = EncryptionContext::Iv128(FixedLength::from(&*cbc.iv));
        cbc.encrypting.less_safe_encrypt(plain, context).map(drop).map_err(|_| CryptoFailure)
    }

    /// Decrypts whole blocks in place; does nothing when this signs only.
    ///
    /// # Errors
    /// When the length is no multiple of the block.
    pub fn decrypt(&self, cipher: &mut [u8]) -> Result<(), CryptoFailure> {
        let Some(cbc) = &self.cbc else { return Ok(()) };
        let context = DecryptionContext::Iv128(FixedLength::from(&*cbc.iv));
        cbc.decrypting.decrypt(cipher, context).map(drop).map_err(|_| CryptoFailure)
    }

    /// The signature over `parts`, one after the other.
    #[must_use]
    pub fn sign(&self, parts: &[&[u8]]) -> [u8; MAC] {
        let mut context = hmac::Context::with_key(&self.mac);
        parts.iter().for_each(|part| context.update(part));
        let tag = context.sign();
        let mut out = [0u8; MAC];
        out.iter_mut().zip(tag.as_ref()).for_each(|(to, from)| *to = *from);
        out
    }

    /// Checks a signature over `parts`, in constant time.
    ///
    /// # Errors
    /// When it does not verify.
    pub fn verify(&self, parts: &[&[u8]], signature: &[u8]) -> Result<(), CryptoFailure> {
        let mut expected = self.sign(parts);
        let same = verify_slices_are_equal(&expected, signature).map_err(|_| CryptoFailure);
        expected.zeroize();
        same
    }
}

impl ChunkCipher for CbcHmac {
    fn body_capacity(&self, chunk_size: usize) -> usize {
        let room = chunk_size.saturating_sub(CLEAR);
        if self.cbc.is_some() {
            (room / BLOCK * BLOCK).saturating_sub(SEQUENCE + 1 + MAC)
        } else {
            room.saturating_sub(SEQUENCE + MAC)
        }
    }

    fn seal(&self, out: &mut Vec<u8>, start: usize) -> Result<(), CryptoFailure> {
        if self.cbc.is_some() {
            let used = out.len().saturating_sub(start + CLEAR) + 1 + MAC;
            let padding = used.next_multiple_of(BLOCK) - used;
            // Below 16: always fits into the byte. The size byte and the padding bytes have the same value.
            out.resize(out.len() + padding + 1, padding as u8);
        }
        write_size(out, start, MAC)?;
        let signature = self.sign(&[out.get(start..).ok_or(CryptoFailure)?]);
        out.extend_from_slice(&signature);
        self.encrypt(out.get_mut(start + CLEAR..).ok_or(CryptoFailure)?)
    }

    fn open(&self, header: &[u8], rest: &mut [u8], _last: u32) -> Result<usize, CryptoFailure> {
        self.decrypt(rest)?;
        let signed = rest.len().checked_sub(MAC).ok_or(CryptoFailure)?;
        let (content, signature) = rest.split_at_checked(signed).ok_or(CryptoFailure)?;
        self.verify(&[header, content], signature)?;
        let end = if self.cbc.is_some() { strip_padding(content)? } else { content.len() };
        if end < SEQUENCE { Err(CryptoFailure) } else { Ok(end) }
    }
}

/// Where the padding begins. It was signed, so a wrong one is the sender's fault and no oracle.
fn strip_padding(content: &[u8]) -> Result<usize, CryptoFailure> {
    let size = *content.last().ok_or(CryptoFailure)?;
    let end = content.len().checked_sub(usize::from(size) + 1).ok_or(CryptoFailure)?;
    let padding = content.get(end..).ok_or(CryptoFailure)?;
    if padding.iter().all(|byte| *byte == size) { Ok(end) } else { Err(CryptoFailure) }
}

/// Writes the size of the chunk at `start`, to which `more` bytes will be added, into its header.
pub(crate) fn write_size(out: &mut [u8], start: usize, more: usize) -> Result<(), CryptoFailure> {
    let size = u32::try_from(out.len().saturating_sub(start) + more).map_err(|_| CryptoFailure)?;
    let field = out.get_mut(start + 4..start + 8).ok_or(CryptoFailure)?;
    field.copy_from_slice(&size.to_le_bytes());
    Ok(())
}
