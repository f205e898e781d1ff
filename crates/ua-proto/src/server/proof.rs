//! The cryptographic part of ActivateSession: the client's signature over the last server nonce, the user's signature,
//! and the secret inside the identity token. It needs the private key, so it runs as one job; what can be refused by
//! looking at lengths and names is refused before.

use std::sync::Arc;
use std::time::Duration;

use access_model::{Now, Reason, UnixTime};
use opcua_types::{SignatureData, StatusCode, UserTokenType};
use zeroize::Zeroizing;

use super::Secret;
use super::config::{DangerWithout, Identities};
use super::endpoints::TokenPolicy;
use super::ephemeral::{Asked, Given};
use super::identity::{Presented, SealedSecret, TurnedAway, is_clear};
use super::secrets::{Opener, check_size, form_of};
use super::session::{Binding, NONCE};
use crate::crypto::{EphemeralKey, SecurityPolicyId};
use crate::pki::{Certificate, OwnIdentity, Purpose, validate};

/// What the job gives: the secret, if the identity has one, and the ephemeral key that was asked for.
pub(crate) type Proven = Result<(Option<Secret>, Given), TurnedAway>;

/// A signature to be checked.
struct Signature {
    certificate: Arc<Certificate>,
    policy: SecurityPolicyId,
    value: SignatureData,
}

/// A secret to be opened.
enum Opening {
    None,
    Clear(Zeroizing<Vec<u8>>),
    Encrypted(SealedSecret, SecurityPolicyId),
}

/// The work of one activation.
pub(crate) struct Work {
    client: Option<Signature>,
    user: Option<Signature>,
    secret: Opening,
    own: Option<Arc<OwnIdentity>>,
    nonce: [u8; NONCE],
    now: UnixTime,
    signing_time: (Duration, Duration),
    max_legacy_blocks: usize,
    any_nonce: bool,
    ephemeral: Option<Arc<EphemeralKey>>,
    wanted: Asked,
}

/// What a session brings into an activation, and what the client asks for in return.
pub(crate) struct Keys {
    /// Our certificate and key as the channel uses them.
    pub(crate) own: Option<Arc<OwnIdentity>>,
    /// The last nonce the session was given.
    pub(crate) nonce: [u8; NONCE],
    /// The last ephemeral key it was given.
    pub(crate) ephemeral: Option<Arc<EphemeralKey>>,
    /// The next one.
    pub(crate) wanted: Asked,
}

impl Work {
    /// The work. Unfit secrets are refused here: no decryption was done yet.
    pub(crate) fn new(
        identities: &Identities,
        binding: &Binding,
        keys: Keys,
        client_signature: SignatureData,
        presented: &Presented,
        policy: TokenPolicy,
        now: Now,
    ) -> Result<Self, TurnedAway> {
        let signed = binding.peer.as_ref().filter(|_| identities.danger_without != DangerWithout::ClientSignature);
        let client = signed.map(|certificate| Signature {
            certificate: certificate.clone(),
            policy: binding.policy,
            value: client_signature,
        });
        let user = match presented {
            Presented::Certificate { certificate, signature } => {
                check_user_certificate(identities, certificate, policy, now)?;
                Some(Signature { certificate: certificate.clone(), policy: policy.security, value: signature.clone() })
            }
            _ => None,
        };
        let secret = match presented {
            Presented::UserName { password: sealed, .. } | Presented::Token(sealed) => {
                opening(identities, keys.own.as_deref(), sealed, policy)?
            }
            _ => Opening::None,
        };
        Ok(Self {
            client,
            user,
            secret,
            own: keys.own,
            nonce: keys.nonce,
            now: now.unix,
            signing_time: identities.signing_time,
            max_legacy_blocks: identities.max_legacy_blocks,
            any_nonce: identities.danger_without == DangerWithout::Nonce,
            ephemeral: keys.ephemeral,
            wanted: keys.wanted,
        })
    }

    /// Whether there is nothing to prove and nothing to sign: no job is needed.
    pub(crate) fn is_nothing(&self) -> bool {
        let bare = self.client.is_none() && self.user.is_none();
        bare && matches!(self.secret, Opening::None) && !matches!(self.wanted, Asked::Key(..))
    }

    /// Does the work. A private-key operation: inside a job only.
    pub(crate) fn run(self) -> Proven {
        if let Some(signature) = &self.client {
            self.check(signature).map_err(|text| {
                TurnedAway::new(StatusCode::BadApplicationSignatureInvalid, Reason::ClientSignature, text)
            })?;
        }
        if let Some(signature) = &self.user {
            self.check(signature)
                .map_err(|text| TurnedAway::new(StatusCode::BadUserSignatureInvalid, Reason::UserSignature, text))?;
        }
        let secret = match &self.secret {
            Opening::None => None,
            Opening::Clear(bytes) => Some(Secret(bytes.clone())),
            Opening::Encrypted(sealed, policy) => Some(Secret(self.open(sealed, *policy)?)),
        };
        let given = match &self.own {
            Some(own) => self.wanted.sign(own).map_err(|_| {
                let text = "the ephemeral key could not be signed";
                TurnedAway::new(StatusCode::BadInternalError, Reason::ChannelSecurity, text)
            })?,
            None => self.wanted.unsigned(),
        };
        Ok((secret, given))
    }

    /// Signed is our certificate and the last nonce that the session was given: an old signature is worth nothing, and
    /// one made for another server neither.
    fn check(&self, signature: &Signature) -> Result<(), &'static str> {
        let policy = signature.policy.algorithms();
        // The policies of elliptic curves have no name for it, and whatever is written there is ignored.
        if !policy.signature_uri().is_empty() && signature.value.algorithm.as_ref() != policy.signature_uri() {
            return Err("the signature names another algorithm than the policy's");
        }
        let own = self.own.as_ref().ok_or("the server has no certificate on this channel")?;
        let key = signature.certificate.key();
        if !policy.accepts_key(key) {
            return Err("the key does not fit the policy");
        }
        let verify = |certificate: &[u8]| {
            policy.verify(key, &[certificate, &self.nonce].concat(), signature.value.signature.as_ref()).is_ok()
        };
        // The leaf is what everybody signs; the whole chain is allowed too (OPC 10000-4 §5.7.3.2).
        if verify(own.certificate.der()) || (!own.certificate.issuers().is_empty() && verify(&own.certificate.chain()))
        {
            return Ok(());
        }
        Err("the signature over the server nonce does not verify")
    }

    fn open(&self, sealed: &SealedSecret, policy: SecurityPolicyId) -> Result<Zeroizing<Vec<u8>>, TurnedAway> {
        let own = self.own.as_ref().ok_or_else(|| unfit("the server has no certificate to decrypt for"))?;
        let opener = Opener {
            own,
            ephemeral: self.ephemeral.as_deref(),
            sender: self.client.as_ref().map(|client| &*client.certificate),
            nonce: &self.nonce,
            now: self.now,
            signing_time: self.signing_time,
            max_legacy_blocks: self.max_legacy_blocks,
            danger_any_nonce: self.any_nonce,
        };
        opener
            .open(sealed, policy)
            .map_err(|(reason, text)| TurnedAway::new(StatusCode::BadIdentityTokenInvalid, reason, text))
    }
}

fn opening(
    identities: &Identities,
    own: Option<&OwnIdentity>,
    sealed: &SealedSecret,
    policy: TokenPolicy,
) -> Result<Opening, TurnedAway> {
    if is_clear(policy) {
        if !sealed.algorithm.is_empty() {
            return Err(unfit("the policy takes secrets in clear, this one names an encryption"));
        }
        return Ok(Opening::Clear(sealed.bytes.clone()));
    }
    if let (UserTokenType::IssuedToken, Some(issued)) = (policy.kind, &identities.issued)
        && !issued.forms.contains(&form_of(sealed))
    {
        return Err(unfit("tokens are not taken in this form"));
    }
    let own = own.ok_or_else(|| unfit("the server has no certificate to decrypt for"))?;
    check_size(sealed, policy.security, own.certificate.key().block_len(), identities.max_legacy_blocks)
        .map_err(|text| TurnedAway::new(StatusCode::BadIdentityTokenInvalid, Reason::TokenSecret, text))?;
    let sealed = SealedSecret { bytes: sealed.bytes.clone(), algorithm: sealed.algorithm.clone() };
    Ok(Opening::Encrypted(sealed, policy.security))
}

fn unfit(text: &str) -> TurnedAway {
    TurnedAway::new(StatusCode::BadIdentityTokenInvalid, Reason::TokenSecret, text)
}

fn check_user_certificate(
    identities: &Identities,
    certificate: &Certificate,
    policy: TokenPolicy,
    now: Now,
) -> Result<(), TurnedAway> {
    let rejected = |reason, text: String| TurnedAway::new(StatusCode::BadIdentityTokenRejected, reason, text);
    let Some(trust) = &identities.certificate else {
        return Err(rejected(Reason::IdentityNotAccepted, "user certificates are not taken".to_owned()));
    };
    if !policy.security.algorithms().accepts_key(certificate.key()) {
        return Err(rejected(Reason::CertificateKey, "the user's key does not fit the policy".to_owned()));
    }
    validate(certificate, &trust.load(), Purpose::User, now.unix)
        .map_err(|rejection| rejected(rejection.reason, rejection.detail))
}
