//! The mechanisms of P4's library as the two programs use them: signature generation, encryption and decryption with a key that both sides
//! had part in (ISO/IEC 11770-3: `{S, K_S, n_S}` for R, `{R, K_R, n_S, n_R}` for S, `n_R` for R).

use std::path::{Path, PathBuf};

use aws_lc_rs::cipher::{
    AES_256, DecryptionContext, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::digest::{Digest, SHA256, digest};
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::rand::fill;
use aws_lc_rs::rsa::{
    KeySize, OAEP_SHA256_MGF1SHA256, OaepPrivateDecryptingKey, OaepPublicEncryptingKey, PrivateDecryptingKey,
};
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};

use crate::{Failed, files};

/// Bytes of a half key and of a nonce.
const HALF: usize = 32;
/// Bytes of an initialisation vector.
const IV: usize = 16;

/// The two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Generates and signs.
    Organisation,
    /// Keeps.
    Store,
}

impl Side {
    const fn word(self) -> &'static str {
        match self {
            Self::Organisation => "organisation",
            Self::Store => "store",
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Organisation => Self::Store,
            Self::Store => Self::Organisation,
        }
    }
}

fn file(folder: &Path, side: Side, bits: u32) -> PathBuf {
    folder.join(format!("{}-{bits}.pk8", side.word()))
}

/// Makes the key pairs of both sides, of these sizes. The folder must be nobody else's.
///
/// # Errors
/// A size that the library has not; the folder cannot be written.
pub fn make_keys(folder: &Path, sizes: &[u32]) -> Result<(), Failed> {
    for bits in sizes {
        let size = match bits {
            2048 => KeySize::Rsa2048,
            3072 => KeySize::Rsa3072,
            4096 => KeySize::Rsa4096,
            _ => return Err(format!("RSA with {bits} bits is not measured: 2048, 3072 or 4096").into()),
        };
        for side in [Side::Organisation, Side::Store] {
            let pair = PrivateDecryptingKey::generate(size).map_err(|_| "a key could not be made")?;
            let der = pair.as_der().map_err(|_| "a key could not be written")?;
            files::write(&file(folder, side, *bits), der.as_ref())?;
        }
    }
    Ok(())
}

/// What one side has: its own pair, and the other's public key (its certificate is known).
#[derive(Debug)]
pub struct Keys {
    pair: RsaKeyPair,
    private: OaepPrivateDecryptingKey,
    peer: OaepPublicEncryptingKey,
}

impl Keys {
    /// Reads them.
    ///
    /// # Errors
    /// They are not there.
    pub fn read(folder: &Path, side: Side, bits: u32) -> Result<Self, Failed> {
        let own = files::read(&file(folder, side, bits))?;
        let peer = files::read(&file(folder, side.other(), bits))?;
        let private = PrivateDecryptingKey::from_pkcs8(&own)?;
        let public = PrivateDecryptingKey::from_pkcs8(&peer)?.public_key();
        Ok(Self {
            pair: RsaKeyPair::from_pkcs8(&own)?,
            private: OaepPrivateDecryptingKey::new(private)?,
            peer: OaepPublicEncryptingKey::new(public)?,
        })
    }

    /// Signature generation: the digest, then the private key.
    ///
    /// # Errors
    /// The library fails.
    pub fn sign(&self, data: &[u8], signature: &mut Vec<u8>) -> Result<(), Failed> {
        self.sign_digest(&digest(&SHA256, data), signature)
    }

    /// The second step of it.
    ///
    /// # Errors
    /// The library fails.
    pub fn sign_digest(&self, digest: &Digest, signature: &mut Vec<u8>) -> Result<(), Failed> {
        signature.resize(self.pair.public_modulus_len(), 0);
        Ok(self.pair.sign_digest(&RSA_PKCS1_SHA256, digest, signature)?)
    }

    /// A message of the exchange, for the other side only.
    ///
    /// # Errors
    /// The library fails.
    pub fn wrap(&self, message: &[u8]) -> Result<Vec<u8>, Failed> {
        let mut sealed = vec![0; self.peer.ciphertext_size()];
        let length = self.peer.encrypt(&OAEP_SHA256_MGF1SHA256, message, &mut sealed, None)?.len();
        sealed.truncate(length);
        Ok(sealed)
    }

    /// Opens a message of the exchange.
    ///
    /// # Errors
    /// It is not for this side.
    pub fn unwrap(&self, sealed: &[u8]) -> Result<Vec<u8>, Failed> {
        let mut message = vec![0; self.private.min_output_size()];
        let length = self.private.decrypt(&OAEP_SHA256_MGF1SHA256, sealed, &mut message, None)?.len();
        message.truncate(length);
        Ok(message)
    }
}

/// A half of a key, and a nonce.
///
/// # Errors
/// The library fails.
pub fn half() -> Result<[u8; 2 * HALF], Failed> {
    let mut bytes = [0; 2 * HALF];
    fill(&mut bytes)?;
    Ok(bytes)
}

/// A key that both sides share.
#[derive(Debug)]
pub struct Shared {
    encrypting: PaddedBlockEncryptingKey,
    decrypting: PaddedBlockDecryptingKey,
}

impl Shared {
    /// Combines two halves, that of the organisation first.
    ///
    /// # Errors
    /// The library fails.
    pub fn of(one: &[u8], other: &[u8]) -> Result<Self, Failed> {
        let bytes = digest(&SHA256, &[one, other].concat());
        let key = || UnboundCipherKey::new(&AES_256, bytes.as_ref());
        Ok(Self {
            encrypting: PaddedBlockEncryptingKey::cbc_pkcs7(key()?)?,
            decrypting: PaddedBlockDecryptingKey::cbc_pkcs7(key()?)?,
        })
    }

    /// Encrypts `message` in place, and puts the initialisation vector at its end.
    ///
    /// # Errors
    /// The library fails.
    pub fn seal(&self, message: &mut Vec<u8>) -> Result<(), Failed> {
        let context = self.encrypting.encrypt(message)?;
        let iv: &[u8] = (&context).try_into()?;
        message.extend_from_slice(iv);
        Ok(())
    }

    /// Decrypts what [`Self::seal`] made.
    ///
    /// # Errors
    /// It is too short, or was made with another key.
    pub fn open<'a>(&self, sealed: &'a mut [u8]) -> Result<&'a mut [u8], Failed> {
        let split = sealed.len().checked_sub(IV).ok_or("a message without an initialisation vector")?;
        let (sealed, iv) = sealed.split_at_mut(split);
        let iv = <[u8; IV]>::try_from(&*iv)?;
        let context = DecryptionContext::Iv128(FixedLength::from(iv));
        Ok(self.decrypting.decrypt(sealed, context)?)
    }
}

/// The organisation's side of an exchange that has begun.
#[derive(Debug)]
pub struct Begun([u8; 2 * HALF]);

/// First message: `{K_S, n_S}` for the store.
///
/// # Errors
/// The library fails.
pub fn begin(keys: &Keys) -> Result<(Begun, Vec<u8>), Failed> {
    let own = half()?;
    Ok((Begun(own), keys.wrap(&own)?))
}

/// Second message, from the store: `{K_R, n_S, n_R}`. With it the store has the key, and the nonce that it must see again.
///
/// # Errors
/// The first message is not for it.
pub fn answer(keys: &Keys, first: &[u8]) -> Result<(Shared, [u8; HALF], Vec<u8>), Failed> {
    let theirs = keys.unwrap(first)?;
    let (their_half, their_nonce) =
        theirs.split_at_checked(HALF).ok_or("the first message of an exchange is too short")?;
    let own = half()?;
    let (own_half, own_nonce) = own.split_at(HALF);
    let message = [own_half, their_nonce, own_nonce].concat();
    Ok((Shared::of(their_half, own_half)?, own_nonce.try_into()?, keys.wrap(&message)?))
}

/// The organisation has the second message: its key, and the nonce for the third.
///
/// # Errors
/// The message is not for it, or not the answer to what it sent.
pub fn finish(keys: &Keys, begun: &Begun, second: &[u8]) -> Result<(Shared, [u8; HALF]), Failed> {
    let theirs = keys.unwrap(second)?;
    if theirs.len() != 3 * HALF || theirs.get(HALF..2 * HALF) != begun.0.get(HALF..) {
        return Err("the second message of an exchange is not the answer to the first".into());
    }
    let (own, nonce) = (begun.0.get(..HALF).unwrap_or(&[]), theirs.get(2 * HALF..).unwrap_or(&[]));
    Ok((Shared::of(own, theirs.get(..HALF).unwrap_or(&[]))?, nonce.try_into()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_end_with_one_key_and_another_answer_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        make_keys(folder.path(), &[2048]).unwrap();
        assert!(make_keys(folder.path(), &[1024]).is_err(), "1024 bits");
        let [organisation, store] =
            [Side::Organisation, Side::Store].map(|side| Keys::read(folder.path(), side, 2048).unwrap());
        let (begun, first) = begin(&organisation).unwrap();
        let (theirs, expected, second) = answer(&store, &first).unwrap();
        let (own, nonce) = finish(&organisation, &begun, &second).unwrap();
        assert_eq!(nonce, expected);
        let (other, _) = begin(&organisation).unwrap();
        assert!(finish(&organisation, &other, &second).is_err(), "an answer to another exchange");
        let mut message = b"a tag".to_vec();
        own.seal(&mut message).unwrap();
        assert_eq!(message.len(), 16 + IV);
        assert_eq!(theirs.open(&mut message).unwrap(), b"a tag");
        assert!(theirs.open(&mut [0; 3]).is_err());
        let mut signature = Vec::new();
        organisation.sign(b"a tag", &mut signature).unwrap();
        assert_eq!(signature.len(), 256);
    }
}
