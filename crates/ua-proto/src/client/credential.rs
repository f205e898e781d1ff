//! Who the client says it is, and the ActivateSession request that proves it (OPC 10000-4 §5.7.3, §7.40).

use std::fmt;
use std::sync::Arc;

use opcua_types::{
    ActivateSessionRequest, AnonymousIdentityToken, ByteString, ExtensionObject, IssuedIdentityToken, RequestHeader,
    SignatureData, UAString, UserNameIdentityToken, UserTokenType, X509IdentityToken,
};
use zeroize::Zeroizing;

use super::endpoints::EndpointChoice;
use crate::crypto::{CryptoFailure, SecurityPolicyId, encrypt_legacy_secret};
use crate::pki::{Certificate, OwnIdentity};

/// An identity with its secret.
#[derive(Clone)]
pub enum Credential {
    /// Nobody in particular.
    Anonymous,
    /// A name and a password.
    UserName {
        /// The name.
        name: String,
        /// The password.
        password: Zeroizing<String>,
    },
    /// A user's certificate and key.
    Certificate(Arc<OwnIdentity>),
    /// An access token.
    Issued(Zeroizing<Vec<u8>>),
}

impl Credential {
    /// The kind of token that carries it.
    #[must_use]
    pub fn kind(&self) -> UserTokenType {
        match self {
            Self::Anonymous => UserTokenType::Anonymous,
            Self::UserName { .. } => UserTokenType::UserName,
            Self::Certificate(_) => UserTokenType::Certificate,
            Self::Issued(_) => UserTokenType::IssuedToken,
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => f.write_str("Anonymous"),
            Self::UserName { name, .. } => write!(f, "UserName({name})"),
            Self::Certificate(identity) => write!(f, "Certificate({})", identity.certificate.subject()),
            Self::Issued(_) => f.write_str("Issued"),
        }
    }
}

/// Everything a proof of identity is made of. Making it takes private keys and a secret for each block, so it runs in a
/// job.
pub(super) struct Proof {
    pub(super) credential: Credential,
    pub(super) choice: Arc<EndpointChoice>,
    /// Our certificate and key as the channel uses them.
    pub(super) own: Option<Arc<OwnIdentity>>,
    /// The server's certificate as the channel uses it; with policy None, that of the endpoint.
    pub(super) server: Option<Arc<Certificate>>,
    /// The last nonce of the server.
    pub(super) nonce: Vec<u8>,
}

impl Proof {
    /// Signs and encrypts.
    pub(super) fn make(self) -> Result<ActivateSessionRequest, CryptoFailure> {
        let client_signature = match &self.own {
            Some(own) => self.sign(self.choice.policy, own)?,
            None => no_signature(),
        };
        let user_token_signature = match &self.credential {
            Credential::Certificate(user) => self.sign(self.choice.token_security, user)?,
            _ => no_signature(),
        };
        Ok(ActivateSessionRequest {
            request_header: RequestHeader::default(),
            client_signature,
            client_software_certificates: None,
            locale_ids: None,
            user_identity_token: self.token()?,
            user_token_signature,
        })
    }

    /// The legacy layout: the server's leaf certificate and its last nonce.
    fn sign(&self, policy: SecurityPolicyId, identity: &OwnIdentity) -> Result<SignatureData, CryptoFailure> {
        if policy == SecurityPolicyId::None {
            return Ok(no_signature());
        }
        let server = self.server.as_ref().ok_or(CryptoFailure)?;
        let message = [server.der(), &self.nonce].concat();
        let algorithms = policy.algorithms();
        let signature = algorithms.sign(&identity.key, &message)?;
        Ok(SignatureData { algorithm: algorithms.signature_uri().into(), signature: signature.into() })
    }

    fn token(&self) -> Result<ExtensionObject, CryptoFailure> {
        let policy_id = self.choice.token.policy_id.clone();
        Ok(match &self.credential {
            Credential::Anonymous => ExtensionObject::from_message(AnonymousIdentityToken { policy_id }),
            Credential::UserName { name, password } => {
                let (password, encryption_algorithm) = self.conceal(password.as_bytes())?;
                let user_name = name.as_str().into();
                ExtensionObject::from_message(UserNameIdentityToken {
                    policy_id,
                    user_name,
                    password,
                    encryption_algorithm,
                })
            }
            Credential::Certificate(user) => {
                let certificate_data = user.certificate.der().to_vec().into();
                ExtensionObject::from_message(X509IdentityToken { policy_id, certificate_data })
            }
            Credential::Issued(token) => {
                let (token_data, encryption_algorithm) = self.conceal(token)?;
                ExtensionObject::from_message(IssuedIdentityToken { policy_id, token_data, encryption_algorithm })
            }
        })
    }

    /// A secret in the form the token policy asks for: as it is, or in the legacy RSA form with length and nonce.
    fn conceal(&self, secret: &[u8]) -> Result<(ByteString, UAString), CryptoFailure> {
        if self.choice.token_security == SecurityPolicyId::None {
            return Ok((secret.to_vec().into(), UAString::null()));
        }
        let server = self.server.as_ref().ok_or(CryptoFailure)?;
        let algorithms = self.choice.token_security.algorithms();
        let sealed = encrypt_legacy_secret(algorithms, server.key(), secret, &self.nonce)?;
        Ok((sealed.into(), algorithms.encryption_uri().into()))
    }
}

fn no_signature() -> SignatureData {
    SignatureData { algorithm: UAString::null(), signature: ByteString::null() }
}
