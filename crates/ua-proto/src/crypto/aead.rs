//! ChaCha20-Poly1305 for messages (OPC 10000-6 §6.7.2.5, §6.8.1): each chunk has a nonce of its own, made from its
//! security token and the number of the chunk before it.

use std::sync::{Arc, OnceLock};

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroizing;

use super::symmetric::{CLEAR, SEQUENCE, write_size};
use super::{ChunkCipher, CryptoFailure, KeyLayout};

/// Bytes of a key, of a nonce and of a tag.
pub(super) const KEY: usize = 32;
pub(super) const NONCE: usize = 12;
pub(super) const TAG: usize = 16;

/// One direction of one security token, or the payload of a secret.
pub(super) struct ChaCha {
    key: LessSafeKey,
    iv: Zeroizing<[u8; NONCE]>,
    encrypt: bool,
}

impl ChaCha {
    pub(super) fn new(key: &[u8], iv: &[u8], encrypt: bool) -> Result<Self, CryptoFailure> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, key).map_err(|_| CryptoFailure)?;
        let iv = Zeroizing::new(iv.try_into().map_err(|_| CryptoFailure)?);
        Ok(Self { key: LessSafeKey::new(key), iv, encrypt })
    }

    /// The nonce of the chunk after number `last` under token `token`. No two chunks of one direction share both.
    fn nonce(&self, token: u32, last: u32) -> Nonce {
        let mut nonce = *self.iv;
        let mask = token.to_le_bytes().into_iter().chain(last.to_le_bytes());
        nonce.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
        Nonce::assume_unique_for_key(nonce)
    }

    /// Encrypts `plain` in place for a secret, whose key serves once; gives the tag.
    pub(super) fn seal_once(&self, aad: &[u8], plain: &mut [u8]) -> Result<Vec<u8>, CryptoFailure> {
        let tag = self.key.seal_in_place_separate_tag(self.nonce(0, 0), Aad::from(aad), plain);
        tag.map(|tag| tag.as_ref().to_vec()).map_err(|_| CryptoFailure)
    }

    /// Decrypts a secret with its tag in place; gives the length of what was in it.
    pub(super) fn open_once(&self, aad: &[u8], sealed: &mut [u8]) -> Result<usize, CryptoFailure> {
        let plain = self.key.open_in_place(self.nonce(0, 0), Aad::from(aad), sealed);
        plain.map(|plain| plain.len()).map_err(|_| CryptoFailure)
    }
}

/// The token id in the unprotected part of a chunk.
fn token_of(header: &[u8]) -> Result<u32, CryptoFailure> {
    let id = header.get(12..CLEAR).and_then(<[u8]>::first_chunk::<4>).ok_or(CryptoFailure)?;
    Ok(u32::from_le_bytes(*id))
}

impl ChunkCipher for ChaCha {
    fn body_capacity(&self, chunk_size: usize) -> usize {
        chunk_size.saturating_sub(CLEAR + SEQUENCE + TAG)
    }

    fn seal(&self, out: &mut Vec<u8>, start: usize) -> Result<(), CryptoFailure> {
        write_size(out, start, TAG)?;
        let chunk = out.get_mut(start..).ok_or(CryptoFailure)?;
        let (header, content) = chunk.split_at_mut_checked(CLEAR).ok_or(CryptoFailure)?;
        let number = content.first_chunk::<4>().map(|number| u32::from_le_bytes(*number)).ok_or(CryptoFailure)?;
        let nonce = self.nonce(token_of(header)?, number.wrapping_sub(1));
        let tag = if self.encrypt {
            self.key.seal_in_place_separate_tag(nonce, Aad::from(&*header), content)
        } else {
            self.key.seal_in_place_separate_tag(nonce, Aad::from(&*chunk), &mut [])
        };
        out.extend_from_slice(tag.map_err(|_| CryptoFailure)?.as_ref());
        Ok(())
    }

    fn open(&self, header: &[u8], rest: &mut [u8], last: u32) -> Result<usize, CryptoFailure> {
        let end = rest.len().checked_sub(TAG).filter(|end| *end >= SEQUENCE).ok_or(CryptoFailure)?;
        let nonce = self.nonce(token_of(header)?, last);
        if self.encrypt {
            self.key.open_in_place(nonce, Aad::from(header), rest).map_err(|_| CryptoFailure)?;
        } else {
            let (content, tag) = rest.split_at_checked(end).ok_or(CryptoFailure)?;
            let signed = [header, content].concat();
            let mut tag = tag.to_vec();
            self.key.open_in_place(nonce, Aad::from(&signed), &mut tag).map_err(|_| CryptoFailure)?;
        }
        Ok(end)
    }
}

/// What a server knows of the layout its client derives keys with: nothing until the client's first chunk.
type Seen = Arc<OnceLock<KeyLayout>>;

/// A direction of a server's security token in both layouts.
pub(super) struct EitherLayout {
    profile: ChaCha,
    with_signing_key: ChaCha,
    seen: Seen,
}

impl EitherLayout {
    /// The two directions of one token.
    pub(super) fn pair(send: [ChaCha; 2], receive: [ChaCha; 2]) -> (Self, Self) {
        let seen = Seen::default();
        let join = |[profile, with_signing_key]: [ChaCha; 2]| Self { profile, with_signing_key, seen: seen.clone() };
        (join(send), join(receive))
    }

    fn chosen(&self) -> &ChaCha {
        match self.seen.get() {
            Some(KeyLayout::WithSigningKey) => &self.with_signing_key,
            Some(KeyLayout::Profile) | None => &self.profile,
        }
    }
}

impl ChunkCipher for EitherLayout {
    fn body_capacity(&self, chunk_size: usize) -> usize {
        self.profile.body_capacity(chunk_size)
    }

    fn seal(&self, out: &mut Vec<u8>, start: usize) -> Result<(), CryptoFailure> {
        self.chosen().seal(out, start)
    }

    fn open(&self, header: &[u8], rest: &mut [u8], last: u32) -> Result<usize, CryptoFailure> {
        if self.seen.get().is_some() {
            return self.chosen().open(header, rest, last);
        }
        // A chunk that does not open may be garbled in the attempt.
        let mut copy = Zeroizing::new(rest.to_vec());
        if let Ok(end) = self.profile.open(header, rest, last) {
            let _first = self.seen.set(KeyLayout::Profile);
            return Ok(end);
        }
        let end = self.with_signing_key.open(header, &mut copy, last)?;
        rest.copy_from_slice(&copy);
        let _first = self.seen.set(KeyLayout::WithSigningKey);
        Ok(end)
    }
}
