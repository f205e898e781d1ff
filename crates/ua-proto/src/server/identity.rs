//! What a client presents in ActivateSession, before anything of it is believed.

use std::sync::Arc;

use access_model::{Reason, Refusal};
use opcua_types::{
    AnonymousIdentityToken, ExtensionObject, IssuedIdentityToken, SignatureData, StatusCode, UserNameIdentityToken,
    UserTokenType, X509IdentityToken,
};
use zeroize::Zeroizing;

use super::config::{EndpointSecurity, Identities};
use super::endpoints::{TokenPolicy, find_policy};
use crate::crypto::SecurityPolicyId;
use crate::pki::Certificate;

/// Longest user name accepted, in bytes.
const MAX_NAME: usize = 256;

/// Something was turned away: what the peer hears, and what the audit hears.
#[derive(Debug)]
pub(crate) struct TurnedAway {
    pub(crate) status: StatusCode,
    pub(crate) refusal: Refusal,
}

impl TurnedAway {
    pub(crate) fn new(status: StatusCode, reason: Reason, detail: impl Into<String>) -> Self {
        Self { status, refusal: Refusal::new(reason, detail) }
    }

    /// A refusal of the gate. Malformed tokens are told from refused ones, and nothing more (facts section 3).
    pub(crate) fn by_gate(refusal: Refusal) -> Self {
        let status = match refusal.reason {
            Reason::TokenMalformed | Reason::TokenDuplicateClaim | Reason::TokenTooLarge => {
                StatusCode::BadIdentityTokenInvalid
            }
            Reason::TooBusy => StatusCode::BadTcpServerTooBusy,
            _ => StatusCode::BadIdentityTokenRejected,
        };
        Self { status, refusal }
    }
}

/// Bytes that are a secret, and how they are protected.
pub(crate) struct SealedSecret {
    pub(crate) bytes: Zeroizing<Vec<u8>>,
    pub(crate) algorithm: String,
}

/// An identity as it came.
pub(crate) enum Presented {
    Anonymous,
    UserName { name: String, password: SealedSecret },
    Certificate { certificate: Arc<Certificate>, signature: SignatureData },
    Token(SealedSecret),
}

impl Presented {
    /// Takes a UserIdentityToken apart and finds the policy it names at this endpoint.
    pub(crate) fn read(
        identities: &Identities,
        endpoint: EndpointSecurity,
        token: ExtensionObject,
        signature: SignatureData,
    ) -> Result<(Self, TokenPolicy), TurnedAway> {
        let policy = |kind, id: &str| {
            find_policy(identities, endpoint, kind, id).ok_or_else(|| {
                let text = format!("no policy `{}` for this kind of identity here", id.escape_debug());
                TurnedAway::new(unknown_policy(identities, endpoint, kind), Reason::IdentityNotAccepted, text)
            })
        };
        if token.is_null() {
            // No token at all is anonymous (OPC 10000-4 §5.7.3).
            return Ok((Self::Anonymous, policy(UserTokenType::Anonymous, "")?));
        }
        if let Some(anonymous) = token.inner_as::<AnonymousIdentityToken>() {
            return Ok((Self::Anonymous, policy(UserTokenType::Anonymous, anonymous.policy_id.as_ref())?));
        }
        if let Some(user) = token.inner_as::<UserNameIdentityToken>() {
            let policy = policy(UserTokenType::UserName, user.policy_id.as_ref())?;
            return Ok((Self::user_name(user)?, policy));
        }
        if let Some(user) = token.inner_as::<X509IdentityToken>() {
            let policy = policy(UserTokenType::Certificate, user.policy_id.as_ref())?;
            return Ok((Self::certificate(user, signature)?, policy));
        }
        if let Some(issued) = token.inner_as::<IssuedIdentityToken>() {
            let policy = policy(UserTokenType::IssuedToken, issued.policy_id.as_ref())?;
            return Ok((Self::Token(sealed(&issued.token_data, &issued.encryption_algorithm)), policy));
        }
        Err(malformed("the identity token is of no known kind"))
    }

    fn user_name(user: &UserNameIdentityToken) -> Result<Self, TurnedAway> {
        let name = user.user_name.as_ref();
        if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
            return Err(malformed("the user name is empty, too long or holds control characters"));
        }
        let password = sealed(&user.password, &user.encryption_algorithm);
        Ok(Self::UserName { name: name.to_owned(), password })
    }

    fn certificate(user: &X509IdentityToken, signature: SignatureData) -> Result<Self, TurnedAway> {
        let certificate = Certificate::from_der(user.certificate_data.as_ref())
            .map_err(|invalid| malformed(&format!("the user certificate cannot be read: {invalid}")))?;
        Ok(Self::Certificate { certificate: Arc::new(certificate), signature })
    }
}

fn sealed(bytes: &opcua_types::ByteString, algorithm: &opcua_types::UAString) -> SealedSecret {
    SealedSecret { bytes: Zeroizing::new(bytes.as_ref().to_vec()), algorithm: algorithm.as_ref().to_owned() }
}

fn malformed(detail: &str) -> TurnedAway {
    TurnedAway::new(StatusCode::BadIdentityTokenInvalid, Reason::TokenMalformed, detail)
}

/// A kind of identity that this endpoint never takes is rejected; a wrong policy id for one that it takes is invalid.
fn unknown_policy(identities: &Identities, endpoint: EndpointSecurity, kind: UserTokenType) -> StatusCode {
    let taken = super::endpoints::token_policies(identities, endpoint).iter().any(|policy| policy.kind == kind);
    if taken { StatusCode::BadIdentityTokenInvalid } else { StatusCode::BadIdentityTokenRejected }
}

/// Whether a secret goes without encryption of its own.
pub(crate) fn is_clear(policy: TokenPolicy) -> bool {
    policy.security == SecurityPolicyId::None
}
