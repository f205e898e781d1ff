//! Secrets in identity tokens (facts section 4): which form it is, what is refused before any decryption, and when an
//! opened secret counts. The cryptography is `crypto`'s.

use std::time::Duration;

use access_model::{Reason, UnixTime};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use zeroize::Zeroizing;

use super::config::TokenForm;
use super::identity::SealedSecret;
use crate::crypto::{
    EphemeralKey, InvalidSecret, SecretForm, SecurityPolicyId, danger_decrypt_for_any_nonce, decrypt_legacy_secret,
    legacy_secret_blocks, open_ecc_secret, open_rsa_secret,
};
use crate::pki::{Certificate, OwnIdentity};

/// The most bytes of an EncryptedSecret: a token of 256 kB and its frame.
const MAX_ENCRYPTED_SECRET: usize = 300 * 1_024;

/// Refuses what is not worth a private-key operation. The legacy form costs one for each block.
pub(crate) fn check_size(
    sealed: &SealedSecret,
    policy: SecurityPolicyId,
    block: usize,
    max_blocks: usize,
) -> Result<(), String> {
    let length = sealed.bytes.len();
    let form = SecretForm::of(&sealed.bytes);
    if (form == SecretForm::Ecc) != policy.is_ecc() {
        return Err(format!("the secret is not in a form of the policy {policy}"));
    }
    match form {
        SecretForm::Rsa | SecretForm::Ecc if !sealed.algorithm.is_empty() => {
            Err("an EncryptedSecret names no algorithm".to_owned())
        }
        SecretForm::Rsa | SecretForm::Ecc if length > MAX_ENCRYPTED_SECRET => {
            Err(format!("an EncryptedSecret of {length} bytes"))
        }
        SecretForm::Rsa | SecretForm::Ecc => Ok(()),
        SecretForm::Legacy => legacy_secret_blocks(length, block, max_blocks)
            .map(drop)
            .map_err(|invalid| format!("{length} bytes in blocks of {block}, at most {max_blocks}: {invalid}")),
    }
}

/// The form of an encrypted token.
pub(crate) fn form_of(sealed: &SealedSecret) -> TokenForm {
    match SecretForm::of(&sealed.bytes) {
        SecretForm::Legacy => TokenForm::LegacyRsa,
        SecretForm::Rsa | SecretForm::Ecc => TokenForm::EncryptedSecret,
    }
}

/// What a secret is opened with, and what it is measured against.
pub(crate) struct Opener<'a> {
    pub(crate) own: &'a OwnIdentity,
    /// The last ephemeral key the session was given.
    pub(crate) ephemeral: Option<&'a EphemeralKey>,
    /// The client's certificate, which must have signed what was made with elliptic curves.
    pub(crate) sender: Option<&'a Certificate>,
    /// The last nonce the session was given.
    pub(crate) nonce: &'a [u8],
    pub(crate) now: UnixTime,
    /// How far the SigningTime may lie in the past and in the future.
    pub(crate) signing_time: (Duration, Duration),
    pub(crate) max_legacy_blocks: usize,
    /// A legacy secret that was made for another nonce counts too ([`super::DangerWithout::Nonce`]).
    pub(crate) danger_any_nonce: bool,
}

impl Opener<'_> {
    /// Opens a secret. A private-key operation for each block: inside a job only.
    pub(crate) fn open(
        &self,
        sealed: &SealedSecret,
        policy: SecurityPolicyId,
    ) -> Result<Zeroizing<Vec<u8>>, (Reason, String)> {
        match SecretForm::of(&sealed.bytes) {
            SecretForm::Legacy => self.open_legacy(sealed, policy),
            SecretForm::Rsa => {
                let (own, key) = (&self.own.certificate, &self.own.key);
                let opened = open_rsa_secret(policy, key, own, &sealed.bytes).map_err(refused)?;
                self.measure(opened.secret, &opened.nonce, opened.signing_time)
            }
            SecretForm::Ecc => {
                let (ephemeral, sender) =
                    self.ephemeral.zip(self.sender).ok_or_else(|| refused(InvalidSecret::Receiver))?;
                let opened = open_ecc_secret(policy, ephemeral, sender.key(), sender.der(), &sealed.bytes);
                let opened = opened.map_err(refused)?;
                self.measure(opened.secret, &opened.nonce, opened.signing_time)
            }
        }
    }

    fn open_legacy(
        &self,
        sealed: &SealedSecret,
        policy: SecurityPolicyId,
    ) -> Result<Zeroizing<Vec<u8>>, (Reason, String)> {
        let algorithms = policy.algorithms();
        // Some clients leave the algorithm empty (facts section 4.1).
        if !sealed.algorithm.is_empty() && sealed.algorithm != algorithms.encryption_uri() {
            return Err((Reason::TokenSecret, "the secret names another algorithm than the policy's".to_owned()));
        }
        let (key, nonce, most) = (&self.own.key, self.nonce, self.max_legacy_blocks);
        if self.danger_any_nonce {
            return danger_decrypt_for_any_nonce(algorithms, key, &sealed.bytes, nonce.len(), most).map_err(refused);
        }
        decrypt_legacy_secret(algorithms, key, &sealed.bytes, nonce, most).map_err(refused)
    }

    /// Whether an opened EncryptedSecret is for this activation.
    fn measure(
        &self,
        secret: Zeroizing<Vec<u8>>,
        nonce: &[u8],
        signed: UnixTime,
    ) -> Result<Zeroizing<Vec<u8>>, (Reason, String)> {
        if verify_slices_are_equal(nonce, self.nonce).is_err() {
            return Err(refused(InvalidSecret::Nonce));
        }
        let (past, future) = self.signing_time;
        if self.now.since(signed) > past || signed.since(self.now) > future {
            return Err((Reason::TokenSecret, "the secret was made too long ago or in the future".to_owned()));
        }
        Ok(secret)
    }
}

fn refused(invalid: InvalidSecret) -> (Reason, String) {
    let reason = if invalid == InvalidSecret::Nonce { Reason::NonceMismatch } else { Reason::TokenSecret };
    (reason, invalid.to_string())
}
