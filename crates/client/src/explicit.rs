//! The explicit flow (OPC 10000-12 §9.4): credentials go into FinishRequestToken, protected as the service's own
//! UserTokenPolicy asks, over a session that needs none.

use access_model::UnixTime;
use opcua_types::{
    ByteString, ExtensionObject, IssuedIdentityToken, SignatureData, UAString, UserNameIdentityToken, UserTokenPolicy,
    UserTokenType, Variant, X509IdentityToken,
};
use token::{Entropy, SystemEntropy};
use ua_proto::crypto::{SecurityPolicyId, seal_rsa_secret};
use ua_proto::pki::Certificate;

use crate::error::TokenError;
use crate::options::Login;

/// Bytes of RequestorData and of the nonce in a secret.
const RANDOM: usize = 32;

/// A policy of the service that fits the login.
pub(crate) struct Explicit {
    login: Login,
    policy_id: UAString,
    security: SecurityPolicyId,
    /// The authority's certificate, as the session uses it.
    server: Certificate,
}

impl Explicit {
    /// Chooses among the policies of a service: one that protects the secret by itself, if there is one.
    pub(crate) fn choose(
        login: &Login,
        offered: &[UserTokenPolicy],
        acceptable: &[SecurityPolicyId],
        server: Certificate,
    ) -> Option<Self> {
        let kind = *login.kinds().first()?;
        let security = |one: &UserTokenPolicy| SecurityPolicyId::from_uri(one.security_policy_uri.as_ref());
        let place = |one: &UserTokenPolicy| match security(one)? {
            // In clear inside the encrypted channel; a signature needs a policy.
            SecurityPolicyId::None => (kind != UserTokenType::Certificate).then_some(acceptable.len()),
            // A secret is sealed for the certificate of the session, which may have a key that only signs.
            policy if kind != UserTokenType::Certificate && !policy.algorithms().accepts_key(server.key()) => None,
            policy => acceptable.iter().position(|accepted| *accepted == policy),
        };
        let fitting = offered.iter().filter(|one| one.token_type == kind);
        let (_, best) = fitting.filter_map(|one| place(one).map(|at| (at, one))).min_by_key(|(at, _)| *at)?;
        let policy_id = best.policy_id.clone();
        Some(Self { login: login.clone(), policy_id, security: security(best)?, server })
    }

    /// PolicyId.
    pub(crate) fn policy_id(&self) -> UAString {
        self.policy_id.clone()
    }

    /// RequestorData: random where a certificate signs.
    pub(crate) fn requestor_data(&self) -> ByteString {
        if matches!(self.login, Login::Certificate(_)) { random().to_vec().into() } else { ByteString::null() }
    }

    /// UserIdentityToken and UserTokenSignature for FinishRequestToken.
    pub(crate) fn identity(&self, service_data: &[u8], at: UnixTime) -> Result<(Variant, SignatureData), TokenError> {
        let policy_id = self.policy_id.clone();
        let mut signature = SignatureData { algorithm: UAString::null(), signature: ByteString::null() };
        let token = match &self.login {
            Login::UserName { name, password } => ExtensionObject::from_message(UserNameIdentityToken {
                policy_id,
                user_name: name.as_str().into(),
                password: self.conceal(password.as_bytes(), service_data, at)?,
                encryption_algorithm: UAString::null(),
            }),
            Login::ThisToken(token) => ExtensionObject::from_message(IssuedIdentityToken {
                policy_id,
                token_data: self.conceal(token, service_data, at)?,
                encryption_algorithm: UAString::null(),
            }),
            Login::Certificate(user) => {
                let algorithms = self.security.algorithms();
                let message = [self.server.der(), service_data].concat();
                let signed = algorithms.sign(&user.key, &message).map_err(|_| TokenError::Malformed)?;
                signature = SignatureData { algorithm: algorithms.signature_uri().into(), signature: signed.into() };
                let certificate_data = user.certificate.der().to_vec().into();
                ExtensionObject::from_message(X509IdentityToken { policy_id, certificate_data })
            }
            Login::Anonymous | Login::Automatic | Login::Token => ExtensionObject::null(),
        };
        Ok((Variant::ExtensionObject(token), signature))
    }

    /// The secret as the policy asks: in clear inside the channel, or as RsaEncryptedSecret for the certificate in
    /// ServiceData.
    fn conceal(&self, secret: &[u8], service_data: &[u8], at: UnixTime) -> Result<ByteString, TokenError> {
        if self.security == SecurityPolicyId::None {
            return Ok(secret.to_vec().into());
        }
        let receiver = Certificate::from_der(service_data).map_err(|_| TokenError::Malformed)?;
        let sealed = seal_rsa_secret(self.security, &receiver, secret, &random(), at, &mut SystemEntropy::new());
        sealed.map(ByteString::from).map_err(|_| TokenError::Malformed)
    }
}

fn random() -> [u8; RANDOM] {
    let mut random = [0; RANDOM];
    SystemEntropy::new().fill(&mut random);
    random
}
