//! Who the client says it is, and the ActivateSession request that proves it (OPC 10000-4 §5.7.3, §7.40).

use std::fmt;
use std::sync::Arc;

use access_model::UnixTime;
use opcua_types::{
    ActivateSessionRequest, AnonymousIdentityToken, ByteString, ExtensionObject, IssuedIdentityToken, RequestHeader,
    SignatureData, UAString, UserNameIdentityToken, UserTokenType, X509IdentityToken,
};
use zeroize::Zeroizing;

use super::endpoints::EndpointChoice;
use crate::Entropy;
use crate::crypto::{CryptoFailure, Sealing, SecurityPolicyId, encrypt_legacy_secret, seal_ecc_secret};
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
    /// The last ephemeral key of the server, whose signature was checked.
    pub(super) server_key: Option<Vec<u8>>,
    /// Randomness for an ephemeral key of our own.
    pub(super) seed: Option<Seed>,
    /// When it is made.
    pub(super) at: UnixTime,
}

/// Randomness that was drawn before it was needed, for one key.
pub(super) struct Seed(Zeroizing<[u8; 32]>);

impl Seed {
    pub(super) fn draw(entropy: &mut dyn Entropy) -> Self {
        let mut seed = Zeroizing::new([0; 32]);
        entropy.fill(&mut *seed);
        Self(seed)
    }
}

impl Entropy for Seed {
    fn fill(&mut self, out: &mut [u8]) {
        out.iter_mut().zip(self.0.iter()).for_each(|(to, from)| *to = *from);
    }
}

impl Proof {
    /// Signs and encrypts.
    pub(super) fn make(mut self) -> Result<ActivateSessionRequest, CryptoFailure> {
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

    fn token(&mut self) -> Result<ExtensionObject, CryptoFailure> {
        let policy_id = self.choice.token.policy_id.clone();
        Ok(match self.credential.clone() {
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
                let (token_data, encryption_algorithm) = self.conceal(&token)?;
                ExtensionObject::from_message(IssuedIdentityToken { policy_id, token_data, encryption_algorithm })
            }
        })
    }

    /// A secret in the form the token policy asks for: as it is, in the legacy RSA form with length and nonce, or as
    /// EccEncryptedSecret.
    fn conceal(&mut self, secret: &[u8]) -> Result<(ByteString, UAString), CryptoFailure> {
        if self.choice.token_security == SecurityPolicyId::None {
            return Ok((secret.to_vec().into(), UAString::null()));
        }
        if self.choice.token_security.is_ecc() {
            let own = self.own.as_ref().ok_or(CryptoFailure)?;
            let sealing = Sealing {
                policy: self.choice.token_security,
                sender: &own.key,
                certificate: &own.certificate.chain(),
                receiver: self.server_key.as_deref().ok_or(CryptoFailure)?,
                at: self.at,
            };
            let seed = self.seed.as_mut().ok_or(CryptoFailure)?;
            return Ok((seal_ecc_secret(&sealing, secret, &self.nonce, seed)?.into(), UAString::null()));
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
