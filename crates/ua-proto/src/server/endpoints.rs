//! Endpoint descriptions and the user token policies on them.

use std::sync::Arc;

use opcua_types::{
    ApplicationDescription, ApplicationType, ByteString, EndpointDescription, LocalizedText, MessageSecurityMode,
    UAString, UserTokenPolicy, UserTokenType,
};

use super::config::{EndpointSecurity, Identities, OnBare, ServerConfig, TokenForm};
use crate::crypto::SecurityPolicyId;
use crate::pki::{Certificate, OwnIdentity};

const TRANSPORT: &str = "http://opcfoundation.org/UA-Profile/Transport/uatcp-uasc-uabinary";
const JWT: &str = "http://opcfoundation.org/UA/UserToken#JWT";

/// Protects passwords and user signatures where the channel protects nothing.
const ON_BARE_CHANNELS: SecurityPolicyId = SecurityPolicyId::Basic256Sha256;

/// One way to prove an identity at one kind of endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenPolicy {
    pub(crate) kind: UserTokenType,
    /// What protects the secret or makes the signature: never "as the channel", always spelled out.
    pub(crate) security: SecurityPolicyId,
}

impl TokenPolicy {
    /// Unique over all policies of the server (OPC 10000-4 §7.41).
    pub(crate) fn id(self) -> String {
        match self.kind {
            UserTokenType::Anonymous => "anonymous".to_owned(),
            UserTokenType::UserName => format!("username_{}", self.security.name()),
            UserTokenType::Certificate => format!("certificate_{}", self.security.name()),
            UserTokenType::IssuedToken => format!("jwt_{}", self.security.name()),
        }
    }
}

/// The policies of an endpoint, in the order in which they are listed.
pub(crate) fn token_policies(identities: &Identities, (policy, mode): EndpointSecurity) -> Vec<TokenPolicy> {
    let bare = mode == MessageSecurityMode::None;
    let security = if bare { ON_BARE_CHANNELS } else { policy };
    let mut policies = Vec::new();
    // A bearer token must not cross a channel that proves no client certificate: the binding could not be checked.
    if let Some(issued) = identities.issued.as_ref().filter(|_| !bare) {
        let fitting = issued.forms.iter().filter(|form| form.fits(policy, mode));
        for security in fitting.map(|form| if *form == TokenForm::Clear { SecurityPolicyId::None } else { security }) {
            let listed = TokenPolicy { kind: UserTokenType::IssuedToken, security };
            if !policies.contains(&listed) {
                policies.push(listed);
            }
        }
    }
    let bare_but = |taken: &[OnBare]| !bare || taken.contains(&identities.on_bare);
    if identities.user_name && bare_but(&[OnBare::Any, OnBare::AnonymousAndUserName]) {
        policies.push(TokenPolicy { kind: UserTokenType::UserName, security });
    }
    if identities.certificate.is_some() && bare_but(&[OnBare::Any]) {
        policies.push(TokenPolicy { kind: UserTokenType::Certificate, security });
    }
    if identities.anonymous {
        policies.push(TokenPolicy { kind: UserTokenType::Anonymous, security: SecurityPolicyId::None });
    }
    policies
}

/// The policy that a token names, if this endpoint has it. An empty id means the only policy of that kind.
pub(crate) fn find_policy(
    identities: &Identities,
    endpoint: EndpointSecurity,
    kind: UserTokenType,
    id: &str,
) -> Option<TokenPolicy> {
    let mut fitting = token_policies(identities, endpoint).into_iter().filter(|policy| policy.kind == kind);
    if id.is_empty() {
        return fitting.next().filter(|_| fitting.next().is_none());
    }
    fitting.find(|policy| policy.id() == id)
}

/// This server as an application, to a client that is told this URL.
pub(crate) fn application(config: &ServerConfig, url: &str) -> ApplicationDescription {
    ApplicationDescription {
        application_uri: UAString::from(config.application_uri.as_str()),
        product_uri: UAString::from(config.product_uri.as_str()),
        application_name: LocalizedText::new("en", &config.application_name),
        application_type: ApplicationType::Server,
        gateway_server_uri: UAString::null(),
        discovery_profile_uri: UAString::null(),
        discovery_urls: Some(vec![UAString::from(url)]),
    }
}

/// Every endpoint, each with the certificate whose key its policy takes: `own`, as the caller's channel knows it, or the
/// one beside it. Where there is none, nobody could connect, so the endpoint is not listed. GetEndpoints and CreateSession
/// give the same list (OPC 10000-4 §5.5.1) under the URL that the client is told.
pub(crate) fn descriptions(config: &ServerConfig, own: &OwnIdentity, url: &str) -> Vec<EndpointDescription> {
    let server = application(config, url);
    let current = config.channel.identity.load_full();
    let mut all = Vec::new();
    for &(policy, mode) in &config.endpoints {
        let Some(certificate) = certificate_for(policy, own, &current) else { continue };
        all.push(EndpointDescription {
            endpoint_url: UAString::from(url),
            server: server.clone(),
            server_certificate: ByteString::from(certificate.der().to_vec()),
            security_mode: mode,
            security_policy_uri: UAString::from(policy.uri()),
            user_identity_tokens: Some(described_policies(config, (policy, mode))),
            transport_profile_uri: UAString::from(TRANSPORT),
            security_level: level(policy, mode),
        });
    }
    all
}

fn certificate_for(
    policy: SecurityPolicyId,
    own: &OwnIdentity,
    current: &Arc<OwnIdentity>,
) -> Option<Arc<Certificate>> {
    if policy == SecurityPolicyId::None {
        // It is what secrets are encrypted for.
        return Some(current.for_bare_channels().certificate.clone());
    }
    if policy.algorithms().accepts_key(own.certificate.key()) {
        return Some(own.certificate.clone());
    }
    OwnIdentity::for_policy(current, policy).map(|own| own.certificate.clone())
}

fn described_policies(config: &ServerConfig, endpoint: EndpointSecurity) -> Vec<UserTokenPolicy> {
    let describe = |policy: TokenPolicy| {
        let issued = config.identities.issued.as_ref().filter(|_| policy.kind == UserTokenType::IssuedToken);
        UserTokenPolicy {
            policy_id: UAString::from(policy.id()),
            token_type: policy.kind,
            issued_token_type: issued.map_or_else(UAString::null, |_| UAString::from(JWT)),
            issuer_endpoint_url: issued.map_or_else(UAString::null, |issued| UAString::from(issued.issuer.to_json())),
            security_policy_uri: match policy.kind {
                UserTokenType::Anonymous => UAString::null(),
                _ => UAString::from(policy.security.uri()),
            },
        }
    };
    token_policies(&config.identities, endpoint).into_iter().map(describe).collect()
}

fn level(policy: SecurityPolicyId, mode: MessageSecurityMode) -> u8 {
    let policy = match policy {
        SecurityPolicyId::None => return 0,
        SecurityPolicyId::Basic256Sha256 => 10,
        SecurityPolicyId::Aes128Sha256RsaOaep => 20,
        SecurityPolicyId::EccNistP256 => 25,
        SecurityPolicyId::EccCurve25519 => 26,
        SecurityPolicyId::Aes256Sha256RsaPss => 30,
    };
    if mode == MessageSecurityMode::SignAndEncrypt { policy + 100 } else { policy }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::config::{IssuedTokens, IssuerEndpoint};

    fn everything() -> Identities {
        let issuer = IssuerEndpoint {
            resource_id: String::new(),
            authority_url: String::new(),
            profile_uri: String::new(),
            token_endpoint: None,
            authorization_endpoint: None,
            request_types: Vec::new(),
            scopes: Vec::new(),
        };
        Identities {
            anonymous: true,
            user_name: true,
            issued: Some(IssuedTokens { issuer, forms: TokenForm::ALL.to_vec() }),
            ..Identities::default()
        }
    }

    #[test]
    fn issued_tokens_stand_only_on_protected_endpoints_and_clear_ones_only_on_encrypted() {
        let policy = SecurityPolicyId::Aes256Sha256RsaPss;
        let ids =
            |endpoint| token_policies(&everything(), endpoint).into_iter().map(TokenPolicy::id).collect::<Vec<_>>();
        let encrypt = ids((policy, MessageSecurityMode::SignAndEncrypt));
        assert_eq!(encrypt, ["jwt_None", "jwt_Aes256_Sha256_RsaPss", "username_Aes256_Sha256_RsaPss", "anonymous"]);
        let sign = ids((policy, MessageSecurityMode::Sign));
        assert_eq!(sign, ["jwt_Aes256_Sha256_RsaPss", "username_Aes256_Sha256_RsaPss", "anonymous"]);
        let bare = ids((SecurityPolicyId::None, MessageSecurityMode::None));
        assert_eq!(bare, ["username_Basic256Sha256", "anonymous"]);
    }

    #[test]
    fn each_form_of_a_token_is_offered_where_it_fits() {
        use MessageSecurityMode::{Sign, SignAndEncrypt};
        use SecurityPolicyId::{Aes256Sha256RsaPss as Rsa, EccNistP256 as Ecc};
        use TokenForm::{Clear, EncryptedSecret, LegacyRsa};
        for (forms, endpoint, expected) in [
            (vec![Clear], (Rsa, SignAndEncrypt), vec!["jwt_None"]),
            (vec![Clear], (Rsa, Sign), vec![]),
            (vec![LegacyRsa], (Rsa, Sign), vec!["jwt_Aes256_Sha256_RsaPss"]),
            (vec![LegacyRsa], (Ecc, SignAndEncrypt), vec![]),
            (vec![EncryptedSecret], (Ecc, Sign), vec!["jwt_ECC_nistP256"]),
            (
                vec![LegacyRsa, Clear, EncryptedSecret],
                (Rsa, SignAndEncrypt),
                vec!["jwt_Aes256_Sha256_RsaPss", "jwt_None"],
            ),
        ] {
            let mut identities = Identities { anonymous: false, user_name: false, ..everything() };
            identities.issued.as_mut().unwrap().forms = forms.clone();
            let ids: Vec<_> = token_policies(&identities, endpoint).into_iter().map(TokenPolicy::id).collect();
            assert_eq!(ids, expected, "{forms:?} {endpoint:?}");
        }
    }

    #[test]
    fn nothing_is_accepted_unless_configured() {
        let endpoint = (SecurityPolicyId::Basic256Sha256, MessageSecurityMode::SignAndEncrypt);
        assert_eq!(token_policies(&Identities::default(), endpoint), []);
    }

    #[test]
    fn a_policy_of_another_endpoint_is_unknown_here() {
        let sign = (SecurityPolicyId::Basic256Sha256, MessageSecurityMode::Sign);
        let all = everything();
        assert_eq!(find_policy(&all, sign, UserTokenType::IssuedToken, "jwt_None"), None);
        assert!(find_policy(&all, sign, UserTokenType::IssuedToken, "").is_some());
        let encrypt = (SecurityPolicyId::Basic256Sha256, MessageSecurityMode::SignAndEncrypt);
        assert_eq!(find_policy(&all, encrypt, UserTokenType::IssuedToken, ""), None, "two fit an empty id");
    }
}
