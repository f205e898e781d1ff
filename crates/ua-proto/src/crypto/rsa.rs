//! The RSA policies: Basic256Sha256, Aes128_Sha256_RsaOaep and Aes256_Sha256_RsaPss.

use aws_lc_rs::rsa::{OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OaepAlgorithm};
use aws_lc_rs::signature::{
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RSA_PSS_2048_8192_SHA256, RSA_PSS_SHA256, RsaEncoding,
    VerificationAlgorithm,
};
use zeroize::{Zeroize, Zeroizing};

use super::symmetric::{SymmetricSizes, write_size};
use super::{
    CbcHmac, ChannelKeys, CryptoFailure, KeyAgreement, KeyLayout, PrivateKey, PublicKey, Role, SecurityPolicy,
    SecurityPolicyId,
};
use crate::Entropy;

const NONCE: usize = 32;

pub(super) struct RsaPolicy {
    id: SecurityPolicyId,
    signature_uri: &'static str,
    encryption_uri: &'static str,
    oaep: &'static OaepAlgorithm,
    /// Bytes that OAEP adds to a block: two hashes and two.
    oaep_overhead: usize,
    signing: &'static dyn RsaEncoding,
    verifying: &'static dyn VerificationAlgorithm,
    sizes: SymmetricSizes,
}

const RSA_SHA256_URI: &str = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256";
const OAEP_SHA1_URI: &str = "http://www.w3.org/2001/04/xmlenc#rsa-oaep";

pub(super) static BASIC256_SHA256: RsaPolicy = RsaPolicy {
    id: SecurityPolicyId::Basic256Sha256,
    signature_uri: RSA_SHA256_URI,
    encryption_uri: OAEP_SHA1_URI,
    oaep: &OAEP_SHA1_MGF1SHA1,
    oaep_overhead: 42,
    signing: &RSA_PKCS1_SHA256,
    verifying: &RSA_PKCS1_2048_8192_SHA256,
    sizes: SymmetricSizes { signing: 32, encrypting: 32 },
};

pub(super) static AES128_SHA256_RSA_OAEP: RsaPolicy = RsaPolicy {
    id: SecurityPolicyId::Aes128Sha256RsaOaep,
    signature_uri: RSA_SHA256_URI,
    encryption_uri: OAEP_SHA1_URI,
    oaep: &OAEP_SHA1_MGF1SHA1,
    oaep_overhead: 42,
    signing: &RSA_PKCS1_SHA256,
    verifying: &RSA_PKCS1_2048_8192_SHA256,
    sizes: SymmetricSizes { signing: 32, encrypting: 16 },
};

pub(super) static AES256_SHA256_RSA_PSS: RsaPolicy = RsaPolicy {
    id: SecurityPolicyId::Aes256Sha256RsaPss,
    signature_uri: "http://opcfoundation.org/UA/security/rsa-pss-sha2-256",
    encryption_uri: "http://opcfoundation.org/UA/security/rsa-oaep-sha2-256",
    oaep: &OAEP_SHA256_MGF1SHA256,
    oaep_overhead: 66,
    signing: &RSA_PSS_SHA256,
    verifying: &RSA_PSS_2048_8192_SHA256,
    sizes: SymmetricSizes { signing: 32, encrypting: 32 },
};

impl RsaPolicy {
    /// Bytes of plain text in one block of `key`.
    fn plain_block(&self, block: usize) -> Result<usize, CryptoFailure> {
        block.checked_sub(self.oaep_overhead).filter(|plain| *plain > 0).ok_or(CryptoFailure)
    }

    /// Decrypts the blocks in `bytes` in place, closing the gaps; returns the length of the plain text. Every block is
    /// tried even when one fails, so that the time depends on the length only.
    fn decrypt_in_place(&self, key: &PrivateKey, bytes: &mut [u8]) -> Result<usize, CryptoFailure> {
        let block = key.block_len();
        if bytes.is_empty() || !bytes.len().is_multiple_of(block) {
            return Err(CryptoFailure);
        }
        let mut filled = 0;
        let mut good = true;
        for start in (0..bytes.len()).step_by(block) {
            let part = bytes.get_mut(start..start + block).ok_or(CryptoFailure)?;
            match key.decrypt_block(self.oaep, part) {
                Ok(len) => {
                    bytes.copy_within(start..start + len, filled);
                    filled += len;
                }
                Err(CryptoFailure) => good = false,
            }
        }
        if good { Ok(filled) } else { Err(CryptoFailure) }
    }
}

impl SecurityPolicy for RsaPolicy {
    fn id(&self) -> SecurityPolicyId {
        self.id
    }

    fn signature_uri(&self) -> &'static str {
        self.signature_uri
    }

    fn encryption_uri(&self) -> &'static str {
        self.encryption_uri
    }

    fn accepts_key(&self, key: &PublicKey) -> bool {
        key.is_rsa() && (2048..=4096).contains(&key.bits())
    }

    fn nonce_length(&self) -> usize {
        NONCE
    }

    fn sign(&self, key: &PrivateKey, message: &[u8]) -> Result<Vec<u8>, CryptoFailure> {
        key.sign_rsa(self.signing, message)
    }

    fn verify(&self, key: &PublicKey, message: &[u8], signature: &[u8]) -> Result<(), CryptoFailure> {
        if !self.accepts_key(key) {
            return Err(CryptoFailure);
        }
        key.verify(self.verifying, message, signature)
    }

    fn encrypt(&self, key: &PublicKey, plain: &[u8]) -> Result<Vec<u8>, CryptoFailure> {
        if !self.accepts_key(key) {
            return Err(CryptoFailure);
        }
        let size = self.plain_block(key.block_len())?;
        let mut out = Vec::with_capacity(plain.len().div_ceil(size) * key.block_len());
        for part in plain.chunks(size) {
            key.encrypt_block(self.oaep, part, &mut out)?;
        }
        Ok(out)
    }

    fn decrypt(&self, key: &PrivateKey, cipher: &[u8]) -> Result<Vec<u8>, CryptoFailure> {
        let mut bytes = cipher.to_vec();
        match self.decrypt_in_place(key, &mut bytes) {
            Ok(len) => {
                bytes.truncate(len);
                Ok(bytes)
            }
            Err(failure) => {
                bytes.zeroize();
                Err(failure)
            }
        }
    }

    fn seal_open(
        &self,
        chunk: &mut Vec<u8>,
        protected_from: usize,
        sender: Option<&PrivateKey>,
        receiver: Option<&PublicKey>,
    ) -> Result<(), CryptoFailure> {
        let (sender, receiver) = sender.zip(receiver).ok_or(CryptoFailure)?;
        let (plain_block, block) = (self.plain_block(receiver.block_len())?, receiver.block_len());
        add_padding(chunk, protected_from, sender.block_len(), plain_block, block)?;
        let plain_len = chunk.len().saturating_sub(protected_from) + sender.block_len();
        let total = protected_from + plain_len / plain_block * block;
        // The size that is signed is the one on the wire, after encryption.
        let more = total.checked_sub(chunk.len()).ok_or(CryptoFailure)?;
        write_size(chunk, 0, more)?;
        let signature = self.sign(sender, chunk)?;
        chunk.extend_from_slice(&signature);
        let sealed = self.encrypt(receiver, chunk.get(protected_from..).ok_or(CryptoFailure)?)?;
        chunk.truncate(protected_from);
        chunk.extend_from_slice(&sealed);
        Ok(())
    }

    fn open_open(
        &self,
        chunk: &mut Vec<u8>,
        protected_from: usize,
        sender: Option<&PublicKey>,
        receiver: Option<&PrivateKey>,
    ) -> Result<(), CryptoFailure> {
        let (sender, receiver) = sender.zip(receiver).ok_or(CryptoFailure)?;
        let sealed = chunk.get_mut(protected_from..).ok_or(CryptoFailure)?;
        let plain = self.decrypt_in_place(receiver, sealed);
        // A chunk that did not decrypt is verified all the same: time does not tell the two failures apart.
        let len = plain.unwrap_or(sealed.len());
        chunk.truncate(protected_from + len);
        let signed = chunk.len().checked_sub(sender.block_len()).ok_or(CryptoFailure)?;
        let (message, signature) = chunk.split_at_checked(signed).ok_or(CryptoFailure)?;
        let verified = self.verify(sender, message, signature);
        plain.and(verified)?;
        let end = padding_start(message, protected_from, receiver.block_len())?;
        chunk.truncate(end);
        Ok(())
    }

    fn agree(&self, entropy: &mut dyn Entropy, _layout: KeyLayout) -> Box<dyn KeyAgreement> {
        let mut nonce = Zeroizing::new([0u8; NONCE]);
        entropy.fill(&mut *nonce);
        Box::new(NonceAgreement { nonce, sizes: self.sizes })
    }

    fn first_sequence(&self) -> u32 {
        1
    }

    fn next_sequence(&self, last: u32) -> u32 {
        super::legacy_next(last)
    }

    fn sequence_follows(&self, last: u32, next: u32) -> bool {
        super::legacy_follows(last, next)
    }
}

/// Pads so that sequence header, body, padding and signature fill whole blocks (OPC 10000-6 §6.7.2.5).
fn add_padding(
    chunk: &mut Vec<u8>,
    protected_from: usize,
    signature: usize,
    plain_block: usize,
    block: usize,
) -> Result<(), CryptoFailure> {
    // Keys of more than 2048 bits need a second byte for the size of the padding.
    let size_bytes = if block > 256 { 2 } else { 1 };
    let used = chunk.len().checked_sub(protected_from).ok_or(CryptoFailure)? + size_bytes + signature;
    let padding = used.next_multiple_of(plain_block) - used;
    let [low, high] = u16::try_from(padding).map_err(|_| CryptoFailure)?.to_le_bytes();
    chunk.resize(chunk.len() + 1 + padding, low);
    if size_bytes == 2 {
        chunk.push(high);
    }
    Ok(())
}

/// Where the padding of an opened chunk begins.
fn padding_start(message: &[u8], protected_from: usize, block: usize) -> Result<usize, CryptoFailure> {
    let (content, high) = if block > 256 {
        message.split_last().map(|(high, rest)| (rest, *high)).ok_or(CryptoFailure)?
    } else {
        (message, 0)
    };
    let low = *content.last().ok_or(CryptoFailure)?;
    let size = usize::from(u16::from_le_bytes([low, high]));
    let end = content.len().checked_sub(size + 1).filter(|end| *end >= protected_from + 8).ok_or(CryptoFailure)?;
    let padding = content.get(end..).ok_or(CryptoFailure)?;
    if padding.iter().all(|byte| *byte == low) { Ok(end) } else { Err(CryptoFailure) }
}

/// Both sides' nonces are the secret: they travel encrypted.
struct NonceAgreement {
    nonce: Zeroizing<[u8; NONCE]>,
    sizes: SymmetricSizes,
}

impl KeyAgreement for NonceAgreement {
    fn nonce(&self) -> &[u8] {
        &*self.nonce
    }

    fn keys(&self, _role: Role, peer_nonce: &[u8], encrypt: bool) -> Result<ChannelKeys, CryptoFailure> {
        if peer_nonce.len() != NONCE {
            return Err(CryptoFailure);
        }
        // What a side sends is keyed with the other side's nonce as the secret and its own as the seed.
        let send = CbcHmac::derive(peer_nonce, &*self.nonce, self.sizes, encrypt)?;
        let receive = CbcHmac::derive(&*self.nonce, peer_nonce, self.sizes, encrypt)?;
        Ok(ChannelKeys { send: Box::new(send), receive: Box::new(receive) })
    }
}
