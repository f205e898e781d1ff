//! The policy None: nothing is protected.

use super::symmetric::write_size;
use super::{
    ChannelKeys, ChunkCipher, CryptoFailure, KeyAgreement, KeyLayout, PrivateKey, PublicKey, Role, SecurityPolicy,
    SecurityPolicyId,
};
use crate::Entropy;

pub(super) static NONE: NoPolicy = NoPolicy;

pub(super) struct NoPolicy;

impl SecurityPolicy for NoPolicy {
    fn id(&self) -> SecurityPolicyId {
        SecurityPolicyId::None
    }

    fn signature_uri(&self) -> &'static str {
        ""
    }

    fn encryption_uri(&self) -> &'static str {
        ""
    }

    fn accepts_key(&self, _key: &PublicKey) -> bool {
        true
    }

    fn nonce_length(&self) -> usize {
        0
    }

    fn sign(&self, _key: &PrivateKey, _message: &[u8]) -> Result<Vec<u8>, CryptoFailure> {
        Err(CryptoFailure)
    }

    fn verify(&self, _key: &PublicKey, _message: &[u8], _signature: &[u8]) -> Result<(), CryptoFailure> {
        Err(CryptoFailure)
    }

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
        _sender: Option<&PrivateKey>,
        _receiver: Option<&PublicKey>,
    ) -> Result<(), CryptoFailure> {
        write_size(chunk, 0, 0)
    }

    fn open_open(
        &self,
        _chunk: &mut Vec<u8>,
        _protected_from: usize,
        _sender: Option<&PublicKey>,
        _receiver: Option<&PrivateKey>,
    ) -> Result<(), CryptoFailure> {
        Ok(())
    }

    fn agree(&self, _entropy: &mut dyn Entropy, _layout: KeyLayout) -> Box<dyn KeyAgreement> {
        Box::new(NoKeys)
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

struct NoKeys;

impl KeyAgreement for NoKeys {
    fn nonce(&self) -> &[u8] {
        &[]
    }

    fn keys(&self, _role: Role, _peer_nonce: &[u8], _encrypt: bool) -> Result<ChannelKeys, CryptoFailure> {
        Ok(ChannelKeys { send: Box::new(Clear), receive: Box::new(Clear) })
    }
}

struct Clear;

impl ChunkCipher for Clear {
    fn body_capacity(&self, chunk_size: usize) -> usize {
        chunk_size.saturating_sub(24)
    }

    fn seal(&self, out: &mut Vec<u8>, start: usize) -> Result<(), CryptoFailure> {
        write_size(out, start, 0)
    }

    fn open(&self, _header: &[u8], rest: &mut [u8], _last: u32) -> Result<usize, CryptoFailure> {
        if rest.len() < 8 { Err(CryptoFailure) } else { Ok(rest.len()) }
    }
}
