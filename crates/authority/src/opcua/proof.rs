//! What an identity is proven with: a secret that has to be opened, or a signature that has to be checked. Both need keys
//! and time, so they wait for their turn and run on other threads.
//!
//! What can be refused without a key is malformed and says so. Everything after that is one group: it is refused with one
//! code, after the same work, whether the secret did not open, the name is unknown or the password wrong.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use access_model::{Reason, Refusal, Thumbprint, UnixTime};
use arc_swap::ArcSwap;
use aws_lc_rs::digest::{SHA256, digest};
use opcua_types::StatusCode;
use ua_proto::crypto::{
    MAX_LEGACY_BLOCKS, RsaSecretEnvelope, SecretForm, SecurityPolicyId, decrypt_legacy_secret, legacy_secret_blocks,
    open_rsa_secret,
};
use ua_proto::pki::{Certificate, OwnIdentity, Purpose, SharedTrust, validate};
use zeroize::Zeroizing;

use super::identity::Sealed;
use super::pending::Challenge;
use super::policies::TokenPolicy;
use crate::core::{Authority, unavailable};
use crate::turns::Asker;

/// The most bytes of an EncryptedSecret: a token of 256 kB and its frame.
const MAX_ENCRYPTED_SECRET: usize = 300 * 1_024;
/// How far the SigningTime of an EncryptedSecret may lie in the past and in the future.
const SIGNING_TIME: (Duration, Duration) = (Duration::from_secs(3_600), Duration::from_secs(300));
/// EncryptedSecrets that are remembered so that they count once.
const REPLAYS: usize = 16_384;

/// Keys of the authority as an OPC UA server.
#[derive(Clone, Debug)]
pub struct OpcUaKeys {
    /// Certificate and key, as its channels use them. Secrets are encrypted for it.
    pub identity: Arc<ArcSwap<OwnIdentity>>,
    /// Who issues user certificates. `None`: that a certificate is registered for a user is enough, as long as it is
    /// in its time.
    pub users: Option<SharedTrust>,
}

/// EncryptedSecrets that were opened, until their time is over. Outside of ActivateSession there is no nonce of ours in
/// them (OPC 10000-4 §7.40.2.3).
#[derive(Debug, Default)]
pub(crate) struct Replays(BTreeMap<[u8; 32], UnixTime>);

impl Replays {
    /// Remembers a secret; `false` when it was there before, an error when there is no room.
    fn first(&mut self, blob: &[u8], now: UnixTime) -> Result<bool, StatusCode> {
        let mut key = [0; 32];
        for (to, from) in key.iter_mut().zip(digest(&SHA256, blob).as_ref()) {
            *to = *from;
        }
        if self.0.get(&key).is_some_and(|until| *until > now) {
            return Ok(false);
        }
        if self.0.len() >= REPLAYS {
            self.0.retain(|_, until| *until > now);
        }
        if self.0.len() >= REPLAYS {
            return Err(StatusCode::BadServerTooBusy);
        }
        self.0.insert(key, now + SIGNING_TIME.0 + SIGNING_TIME.1);
        Ok(true)
    }
}

/// A secret that was opened, or the reason why not: for the audit only.
pub(super) type Opened = Result<Zeroizing<Vec<u8>>, String>;

/// A secret that is worth a private-key operation.
struct Opening {
    sealed: Sealed,
    policy: SecurityPolicyId,
    own: OwnIdentity,
    now: UnixTime,
}

impl Opening {
    /// Refuses what cannot be right, without the key.
    fn new(sealed: Sealed, policy: SecurityPolicyId, own: &OwnIdentity, now: UnixTime) -> Option<Self> {
        let own = match SecretForm::of(&sealed.bytes) {
            SecretForm::Ecc => return None,
            SecretForm::Rsa => {
                if !sealed.algorithm.is_empty() || sealed.bytes.len() > MAX_ENCRYPTED_SECRET {
                    return None;
                }
                let envelope = RsaSecretEnvelope::parse(&sealed.bytes).ok()?;
                if envelope.policy_uri != policy.uri() {
                    return None;
                }
                own.by_thumbprint(envelope.certificate_sha1)?
            }
            SecretForm::Legacy => {
                if !sealed.algorithm.is_empty() && sealed.algorithm != policy.algorithms().encryption_uri() {
                    return None;
                }
                legacy_secret_blocks(sealed.bytes.len(), own.key.block_len(), MAX_LEGACY_BLOCKS).ok()?;
                own.clone()
            }
        };
        Some(Self { sealed, policy, own, now })
    }

    /// Opens it: a private-key operation for each block.
    fn open(&self) -> Opened {
        let (blob, own) = (&self.sealed.bytes, &self.own);
        if SecretForm::of(blob) == SecretForm::Legacy {
            // There is no server nonce between the methods of the service, so the legacy form holds none.
            let algorithms = self.policy.algorithms();
            return decrypt_legacy_secret(algorithms, &own.key, blob, &[], MAX_LEGACY_BLOCKS)
                .map_err(|invalid| invalid.to_string());
        }
        let opened = open_rsa_secret(self.policy, &own.key, &own.certificate, blob).map_err(|e| e.to_string())?;
        let (past, future) = SIGNING_TIME;
        if self.now.since(opened.signing_time) > past || opened.signing_time.since(self.now) > future {
            return Err("the secret was made too long ago or in the future".to_owned());
        }
        Ok(opened.secret)
    }
}

impl Authority {
    /// Gives the authority the keys of its OPC UA side: from then on it takes encrypted secrets and user certificates.
    /// The first call counts.
    pub fn serve_opcua(&self, keys: OpcUaKeys) {
        let _ = self.inner.opcua.set(keys);
    }

    /// Opens a secret as the policy says. Malformed is an error; whatever fails with the key is part of the result.
    pub(super) async fn open_secret(
        &self,
        sealed: Sealed,
        policy: TokenPolicy,
        asker: &Asker,
    ) -> Result<Result<Opened, Refusal>, StatusCode> {
        let malformed = StatusCode::BadIdentityTokenInvalid;
        if policy.is_clear() {
            return if sealed.algorithm.is_empty() { Ok(Ok(Ok(sealed.bytes))) } else { Err(malformed) };
        }
        let own = self.inner.opcua.get().ok_or(malformed)?.identity.load_full();
        let now = self.now();
        let opening = Opening::new(sealed, policy.security, &own, now.unix).ok_or(malformed)?;
        let turn = match self.inner.proofs.take(asker, now.mono).await {
            Ok(turn) => turn,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let work = move || {
            let opened = opening.open();
            if opened.is_ok() {
                turn.succeeded(now.mono);
            }
            (opened, opening.sealed)
        };
        let done = tokio::task::spawn_blocking(work).await;
        let (opened, sealed) = done.map_err(|_| StatusCode::BadServerTooBusy)?;
        if opened.is_err() || SecretForm::of(&sealed.bytes) == SecretForm::Legacy {
            return Ok(Ok(opened));
        }
        let mut replays = self.inner.replays.lock().unwrap_or_else(PoisonError::into_inner);
        let first = replays.first(&sealed.bytes, now.unix)?;
        Ok(Ok(if first { opened } else { Err("the secret was shown before".to_owned()) }))
    }

    /// The person who owns this certificate and signed the challenge with its key.
    pub(super) async fn person_by_certificate(
        &self,
        der: &[u8],
        (algorithm, signature): (String, Vec<u8>),
        policy: SecurityPolicyId,
        challenge: Challenge,
        asker: &Asker,
    ) -> Result<Result<String, Refusal>, StatusCode> {
        let malformed = StatusCode::BadIdentityTokenInvalid;
        let certificate = Certificate::from_der(der).map_err(|_| malformed)?;
        let algorithms = policy.algorithms();
        if algorithm != algorithms.signature_uri() || !algorithms.accepts_key(certificate.key()) {
            return Err(malformed);
        }
        let now = self.now();
        let turn = match self.inner.proofs.take(asker, now.mono).await {
            Ok(turn) => turn,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let thumbprint = certificate.thumbprint();
        let valid = self.valid_for_user(&certificate, now.unix);
        let work = move || {
            let verify = |own: &[u8]| {
                algorithms.verify(certificate.key(), &[own, &challenge.value].concat(), &signature).is_ok()
            };
            // The legacy layout of OPC 10000-4 §6.1.8, as all policies here have it; the whole chain is allowed too.
            let own = &challenge.own.certificate;
            let signed = verify(own.der()) || (!own.issuers().is_empty() && verify(&own.chain()));
            if signed {
                turn.succeeded(now.mono);
            }
            signed
        };
        let signed = tokio::task::spawn_blocking(work).await.map_err(|_| StatusCode::BadServerTooBusy)?;
        // Looked up in any case: who is registered must not show in the time it takes.
        let owner = self.owner_of(thumbprint).await;
        let signed = if signed { Ok(()) } else { Err(Refusal::new(Reason::UserSignature, "the signature is wrong")) };
        Ok(signed.and(valid).and(owner))
    }

    fn valid_for_user(&self, certificate: &Certificate, now: UnixTime) -> Result<(), Refusal> {
        let users = self.inner.opcua.get().and_then(|keys| keys.users.as_ref());
        if let Some(trust) = users {
            let checked = validate(certificate, &trust.load(), Purpose::User, now);
            return checked.map_err(|rejection| Refusal::new(rejection.reason, rejection.detail));
        }
        if certificate.not_before() <= now && now <= certificate.not_after() {
            return Ok(());
        }
        Err(Refusal::new(Reason::CertificateTime, "the user certificate is not in its time"))
    }

    /// The person who has this certificate.
    pub(super) async fn owner_of(&self, thumbprint: Thumbprint) -> Result<String, Refusal> {
        let user = self.inner.db.user_by_certificate(&thumbprint).await.map_err(unavailable)?;
        let unknown = || Refusal::new(Reason::UserCredentials, format!("no user has the certificate {thumbprint}"));
        user.filter(|user| user.enabled).map(|user| user.name).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encrypted_secret_counts_once_and_is_forgotten_after_its_time() {
        let at = UnixTime::from_seconds;
        let mut replays = Replays::default();
        assert_eq!(replays.first(b"a", at(0)), Ok(true));
        assert_eq!(replays.first(b"a", at(3_899)), Ok(false));
        assert_eq!(replays.first(b"b", at(0)), Ok(true));
        for number in 2..REPLAYS {
            assert_eq!(replays.first(&number.to_le_bytes(), at(0)), Ok(true));
        }
        assert_eq!(replays.first(b"c", at(1)), Err(StatusCode::BadServerTooBusy), "bounded");
        assert_eq!(replays.first(b"c", at(3_900)), Ok(true), "the old ones make room");
        assert_eq!(replays.0.len(), 1);
    }
}
