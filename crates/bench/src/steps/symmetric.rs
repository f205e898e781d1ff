//! Shared keys, digests and the derivation of keys, over several sizes each.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::digest::{Algorithm, SHA256, SHA384, SHA512, digest};
use aws_lc_rs::hkdf::{self, HKDF_SHA256, HKDF_SHA384, KeyType, Salt};
use aws_lc_rs::hmac;
use ua_proto::crypto::{CbcHmac, p_sha256};

use super::{Bed, Entry, Once, used};
use crate::Failed;

/// Sizes of messages, whole blocks of AES.
const SIZES: [usize; 3] = [64, 1_024, 16_384];
/// Sizes of keys that are derived.
const DERIVED: [usize; 2] = [32, 160];

type Prepare = fn(usize) -> Result<Once, Failed>;

pub(super) fn entries() -> Vec<Entry> {
    let sized: [(&str, &str, &[usize], Prepare); 23] = [
        ("hash", "sha-256", &SIZES, |size| hash(&SHA256, size)),
        ("hash", "sha-384", &SIZES, |size| hash(&SHA384, size)),
        ("hash", "sha-512", &SIZES, |size| hash(&SHA512, size)),
        ("sign", "hmac-sha256", &SIZES, |size| mac(size, true)),
        ("verify", "hmac-sha256", &SIZES, |size| mac(size, false)),
        ("sign", "hmac-sha384", &SIZES, |size| longer_mac(size, true)),
        ("verify", "hmac-sha384", &SIZES, |size| longer_mac(size, false)),
        ("encrypt", "aes-128-cbc", &SIZES, |size| cbc(16, size, true)),
        ("decrypt", "aes-128-cbc", &SIZES, |size| cbc(16, size, false)),
        ("encrypt", "aes-256-cbc", &SIZES, |size| cbc(32, size, true)),
        ("decrypt", "aes-256-cbc", &SIZES, |size| cbc(32, size, false)),
        ("encrypt", "aes-128-gcm", &SIZES, |size| aead(&AES_128_GCM, size, true)),
        ("decrypt", "aes-128-gcm", &SIZES, |size| aead(&AES_128_GCM, size, false)),
        ("encrypt", "aes-256-gcm", &SIZES, |size| aead(&AES_256_GCM, size, true)),
        ("decrypt", "aes-256-gcm", &SIZES, |size| aead(&AES_256_GCM, size, false)),
        ("encrypt", "chacha20-poly1305", &SIZES, |size| aead(&CHACHA20_POLY1305, size, true)),
        ("decrypt", "chacha20-poly1305", &SIZES, |size| aead(&CHACHA20_POLY1305, size, false)),
        ("sign", "chacha20-poly1305", &SIZES, |size| tag(size, true)),
        ("verify", "chacha20-poly1305", &SIZES, |size| tag(size, false)),
        ("derive", "p-sha256", &DERIVED, derive),
        ("derive", "hkdf-sha256", &DERIVED, |size| expand(HKDF_SHA256, size)),
        ("derive", "hkdf-sha384", &DERIVED, |size| expand(HKDF_SHA384, size)),
        ("copy", "", &SIZES, copy),
    ];
    let entry = |(operation, algorithm, sizes, prepare): (&'static str, &'static str, &'static [usize], Prepare)| {
        sizes.iter().map(move |size| Entry::new(operation, algorithm, *size as u64, move |_: &Bed| prepare(*size)))
    };
    sized.into_iter().flat_map(entry).collect()
}

fn hash(algorithm: &'static Algorithm, size: usize) -> Result<Once, Failed> {
    let message = vec![7; size];
    Ok(Box::new(move || {
        used(digest(algorithm, std::hint::black_box(&message)));
        Ok(())
    }))
}

fn mac(size: usize, sign: bool) -> Result<Once, Failed> {
    let (keys, message) = (CbcHmac::sign_only(&[1; 32]), vec![7; size]);
    let signature = keys.sign(&[&message]);
    Ok(Box::new(move || {
        let message = std::hint::black_box(&message);
        if sign {
            used(keys.sign(&[message]));
            return Ok(());
        }
        Ok(keys.verify(&[message], &signature)?)
    }))
}

/// The code of TLS with AES-256-GCM.
fn longer_mac(size: usize, sign: bool) -> Result<Once, Failed> {
    let (key, message) = (hmac::Key::new(hmac::HMAC_SHA384, &[1; 48]), vec![7; size]);
    let signature = hmac::sign(&key, &message);
    Ok(Box::new(move || {
        let message = std::hint::black_box(&message);
        if sign {
            used(hmac::sign(&key, message));
            return Ok(());
        }
        hmac::verify(&key, message, signature.as_ref()).map_err(|_| Failed::from("the code is wrong"))
    }))
}

fn cbc(key: usize, size: usize, encrypt: bool) -> Result<Once, Failed> {
    let keys = CbcHmac::new(&[1; 32], &vec![2; key], &[3; 16])?;
    let mut message = vec![7; size];
    Ok(Box::new(move || {
        let message = std::hint::black_box(&mut message);
        if encrypt {
            keys.encrypt(message)?
        } else {
            keys.decrypt(message)?
        }
        Ok(())
    }))
}

/// Opening needs the sealed message each time, so that a copy of it is in the time.
fn aead(algorithm: &'static aws_lc_rs::aead::Algorithm, size: usize, seal: bool) -> Result<Once, Failed> {
    let failed = |_| Failed::from("the key cannot be used");
    let key = LessSafeKey::new(UnboundKey::new(algorithm, &vec![1; algorithm.key_len()]).map_err(failed)?);
    let nonce = || Nonce::assume_unique_for_key([2; 12]);
    let mut message = vec![7; size];
    if seal {
        return Ok(Box::new(move || {
            let tag = key.seal_in_place_separate_tag(nonce(), Aad::empty(), std::hint::black_box(&mut message));
            used(tag.map_err(failed)?);
            Ok(())
        }));
    }
    key.seal_in_place_append_tag(nonce(), Aad::empty(), &mut message).map_err(failed)?;
    let mut opened = message.clone();
    Ok(Box::new(move || {
        opened.copy_from_slice(&message);
        used(key.open_in_place(nonce(), Aad::empty(), std::hint::black_box(&mut opened)).map_err(failed)?);
        Ok(())
    }))
}

/// The tag alone over a message in the clear: what a channel of ECC_curve25519 has that only signs. Looking at it copies the message.
fn tag(size: usize, sign: bool) -> Result<Once, Failed> {
    let failed = |_| Failed::from("the key cannot be used");
    let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &[1; 32]).map_err(failed)?);
    let nonce = || Nonce::assume_unique_for_key([2; 12]);
    let message = vec![7_u8; size];
    let tag = key.seal_in_place_separate_tag(nonce(), Aad::from(&message), &mut []).map_err(failed)?;
    Ok(Box::new(move || {
        let message = std::hint::black_box(&message);
        if sign {
            used(key.seal_in_place_separate_tag(nonce(), Aad::from(message), &mut []).map_err(failed)?);
            return Ok(());
        }
        let (signed, mut tag) = (message.clone(), tag.as_ref().to_vec());
        used(key.open_in_place(nonce(), Aad::from(&signed), &mut tag).map_err(failed)?.len());
        Ok(())
    }))
}

fn derive(size: usize) -> Result<Once, Failed> {
    let mut out = vec![0; size];
    Ok(Box::new(move || {
        p_sha256(&[1; 32], &[2; 32], std::hint::black_box(&mut out));
        Ok(())
    }))
}

struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

/// One expansion of a secret that is there already.
fn expand(algorithm: hkdf::Algorithm, size: usize) -> Result<Once, Failed> {
    let secret = Salt::new(algorithm, &[1; 32]).extract(&[2; 32]);
    let mut out = vec![0; size];
    Ok(Box::new(move || {
        let failed = |_| Failed::from("nothing was derived");
        secret.expand(&[b"label"], Bytes(out.len())).map_err(failed)?.fill(&mut out).map_err(failed)?;
        used(out.first().copied());
        Ok(())
    }))
}

fn copy(size: usize) -> Result<Once, Failed> {
    let (from, mut to) = (vec![7_u8; size], vec![0; size]);
    Ok(Box::new(move || {
        to.copy_from_slice(std::hint::black_box(&from));
        used(to.first().copied());
        Ok(())
    }))
}
