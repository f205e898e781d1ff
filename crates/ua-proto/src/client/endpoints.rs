//! Choosing an endpoint of a server, and making sure afterwards that nobody edited the list it was chosen from.

use std::collections::BTreeSet;

use opcua_types::{
    EndpointDescription, ExtensionObject, MessageSecurityMode, StatusCode, UserTokenPolicy, UserTokenType,
};

use super::issuer::TokenIssuer;
use crate::crypto::SecurityPolicyId;
use crate::wire::KeyHeader;

const TRANSPORT: &str = "http://opcfoundation.org/UA-Profile/Transport/uatcp-uasc-uabinary";
const JWT: &str = "http://opcfoundation.org/UA/UserToken#JWT";

/// Which endpoints and identities a client accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointWish {
    /// Acceptable policies, the preferred first.
    pub policies: Vec<SecurityPolicyId>,
    /// Acceptable modes, the preferred first.
    pub modes: Vec<MessageSecurityMode>,
    /// Kinds of identity the client can offer, the preferred first.
    pub identities: Vec<UserTokenType>,
    /// Whether a secret may be given to a server over a channel that nothing encrypts. Off, and not to be switched on.
    pub danger_clear_secrets: bool,
}

impl Default for EndpointWish {
    fn default() -> Self {
        use SecurityPolicyId as P;
        Self {
            // Those of elliptic curves last: more servers and authorities have those of RSA, and a token is bound to the
            // certificate that both were shown.
            policies: vec![
                P::Aes256Sha256RsaPss,
                P::Aes128Sha256RsaOaep,
                P::Basic256Sha256,
                P::EccNistP256,
                P::EccCurve25519,
            ],
            modes: vec![MessageSecurityMode::SignAndEncrypt],
            identities: vec![UserTokenType::IssuedToken, UserTokenType::Anonymous],
            danger_clear_secrets: false,
        }
    }
}

/// A chosen endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointChoice {
    /// The endpoint.
    pub endpoint: EndpointDescription,
    /// Its policy.
    pub policy: SecurityPolicyId,
    /// The way to log in there.
    pub token: UserTokenPolicy,
    /// What protects the secret or signature of the identity.
    pub token_security: SecurityPolicyId,
    /// Where an issued token is to be had, when `token` asks for one.
    pub issuer: Option<TokenIssuer>,
}

impl EndpointChoice {
    /// Whether the identity's secret is encrypted with an ephemeral key of the server.
    pub(super) fn wants_key(&self) -> bool {
        self.token_security.is_ecc()
            && matches!(self.token.token_type, UserTokenType::UserName | UserTokenType::IssuedToken)
    }

    /// The additional header that asks for that key.
    pub(super) fn key_header(&self) -> ExtensionObject {
        if self.wants_key() { KeyHeader::request(self.token_security.uri()) } else { ExtensionObject::null() }
    }
}

/// Why no endpoint could be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoEndpoint {
    /// The server has no endpoint for `opc.tcp`.
    #[error("the server has no endpoint for opc.tcp")]
    NoTransport,
    /// The server has no endpoint with an acceptable policy and mode.
    #[error("the server offers {offered}, of which nothing is acceptable here")]
    NoSecurity {
        /// What it has.
        offered: String,
    },
    /// The acceptable endpoints do not take any identity that the client has.
    #[error("the server takes {offered} as identity, the client has none of these")]
    NoIdentity {
        /// What it takes.
        offered: String,
    },
}

/// Chooses an endpoint and a way to log in: the preferred kind of identity counts first, then mode, then policy.
///
/// # Errors
/// When none fits; the error tells what there would have been.
pub fn choose_endpoint(endpoints: &[EndpointDescription], wish: &EndpointWish) -> Result<EndpointChoice, NoEndpoint> {
    let secure = acceptable(endpoints, wish)?;
    for identity in &wish.identities {
        for (endpoint, policy) in &secure {
            let policies = endpoint.user_identity_tokens.iter().flatten();
            let fitting = policies.filter(|token| token.token_type == *identity);
            if let Some(choice) = fitting.filter_map(|token| fit(endpoint, *policy, token, wish)).next() {
                return Ok(choice);
            }
        }
    }
    let offered = secure.iter().flat_map(|(endpoint, _)| endpoint.user_identity_tokens.iter().flatten());
    Err(NoEndpoint::NoIdentity { offered: join(offered.map(|token| format!("{:?}", token.token_type))) })
}

/// Chooses an endpoint for services that need no session: who logs in there, and how, does not matter.
///
/// # Errors
/// When none fits; the error tells what there would have been.
pub fn choose_channel<'a>(
    endpoints: &'a [EndpointDescription],
    wish: &EndpointWish,
) -> Result<(&'a EndpointDescription, SecurityPolicyId), NoEndpoint> {
    acceptable(endpoints, wish)?.into_iter().next().ok_or(NoEndpoint::NoTransport)
}

/// The endpoints with an acceptable mode and policy, the preferred first.
fn acceptable<'a>(
    endpoints: &'a [EndpointDescription],
    wish: &EndpointWish,
) -> Result<Vec<(&'a EndpointDescription, SecurityPolicyId)>, NoEndpoint> {
    let reachable: Vec<&EndpointDescription> = endpoints.iter().filter(|one| is_binary_tcp(one)).collect();
    if reachable.is_empty() {
        return Err(NoEndpoint::NoTransport);
    }
    let mut secure: Vec<(usize, usize, &EndpointDescription, SecurityPolicyId)> = Vec::new();
    for endpoint in &reachable {
        let Some(policy) = SecurityPolicyId::from_uri(endpoint.security_policy_uri.as_ref()) else { continue };
        let mode = wish.modes.iter().position(|mode| *mode == endpoint.security_mode);
        let place = wish.policies.iter().position(|wanted| *wanted == policy);
        if let (Some(mode), Some(place)) = (mode, place) {
            secure.push((mode, place, endpoint, policy));
        }
    }
    secure.sort_by_key(|(mode, place, ..)| (*mode, *place));
    if secure.is_empty() {
        return Err(NoEndpoint::NoSecurity { offered: join(reachable.iter().map(|one| security_of(one))) });
    }
    Ok(secure.into_iter().map(|(_, _, endpoint, policy)| (endpoint, policy)).collect())
}

/// The choice of this token policy at this endpoint, unless it is one the client cannot or must not use.
fn fit(
    endpoint: &EndpointDescription,
    policy: SecurityPolicyId,
    token: &UserTokenPolicy,
    wish: &EndpointWish,
) -> Option<EndpointChoice> {
    let uri = token.security_policy_uri.as_ref();
    let token_security = if uri.is_empty() { policy } else { SecurityPolicyId::from_uri(uri)? };
    let secret = matches!(token.token_type, UserTokenType::UserName | UserTokenType::IssuedToken);
    // The key that seals a secret with elliptic curves is that of the channel's certificate (OPC 10000-4 §7.41).
    if token_security != SecurityPolicyId::None && token_security.is_ecc() != policy.is_ecc() {
        return None;
    }
    let encrypted = policy != SecurityPolicyId::None && endpoint.security_mode == MessageSecurityMode::SignAndEncrypt;
    if secret && token_security == SecurityPolicyId::None && !encrypted && !wish.danger_clear_secrets {
        return None;
    }
    let mut issuer = None;
    if token.token_type == UserTokenType::IssuedToken {
        if token.issued_token_type.as_ref() != JWT {
            return None;
        }
        // A server may leave the issuer out when clients are configured with it.
        issuer = TokenIssuer::parse(token.issuer_endpoint_url.as_ref()).ok();
    }
    Some(EndpointChoice { endpoint: endpoint.clone(), policy, token: token.clone(), token_security, issuer })
}

/// Compares the list that discovery gave over an unprotected channel with the one from CreateSession (OPC 10000-4 §5.5.1,
/// §5.7.2): an attacker in between could have removed strong endpoints or identities from the first.
///
/// The server may print its URLs differently for different callers, so they are left out; everything that decides about
/// security is compared. Certificates are not: servers leave them out of the second list, as the standard recommends, and
/// the session's certificate is held against the channel's.
///
/// # Errors
/// Bad_SecurityChecksFailed when the lists differ.
pub fn compare_endpoints(
    discovered: &[EndpointDescription],
    in_session: &[EndpointDescription],
) -> Result<(), StatusCode> {
    let facts = |list: &[EndpointDescription]| -> BTreeSet<String> {
        list.iter().filter(|one| is_binary_tcp(one)).map(fingerprint).collect()
    };
    if facts(discovered) == facts(in_session) { Ok(()) } else { Err(StatusCode::BadSecurityChecksFailed) }
}

fn fingerprint(endpoint: &EndpointDescription) -> String {
    let token = |token: &UserTokenPolicy| {
        format!(
            "{:?} {:?} {:?} {:?} {:?}",
            token.policy_id,
            token.token_type,
            token.issued_token_type,
            token.issuer_endpoint_url,
            token.security_policy_uri
        )
    };
    let mut tokens: Vec<String> = endpoint.user_identity_tokens.iter().flatten().map(token).collect();
    tokens.sort_unstable();
    format!(
        "{:?} {:?} {:?} {} {:?}",
        endpoint.server.application_uri,
        endpoint.security_mode,
        endpoint.security_policy_uri,
        endpoint.security_level,
        tokens
    )
}

fn is_binary_tcp(endpoint: &EndpointDescription) -> bool {
    let profile = endpoint.transport_profile_uri.as_ref();
    (profile == TRANSPORT || profile.is_empty()) && endpoint.endpoint_url.as_ref().starts_with("opc.tcp:")
}

fn security_of(endpoint: &EndpointDescription) -> String {
    let policy = endpoint.security_policy_uri.as_ref();
    let name = policy.rsplit_once('#').map_or(policy, |(_, name)| name);
    format!("{name}/{:?}", endpoint.security_mode)
}

fn join(names: impl Iterator<Item = String>) -> String {
    let names: BTreeSet<String> = names.collect();
    if names.is_empty() { "nothing".to_owned() } else { names.into_iter().collect::<Vec<_>>().join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SecurityPolicyId as P;
    use opcua_types::UAString;

    fn token(kind: UserTokenType, security: &str) -> UserTokenPolicy {
        UserTokenPolicy {
            policy_id: UAString::from(format!("{kind:?}{security}")),
            token_type: kind,
            issued_token_type: if kind == UserTokenType::IssuedToken { JWT.into() } else { UAString::null() },
            issuer_endpoint_url: UAString::from(r#"{"ua:authorityUrl":"opc.tcp://as"}"#),
            security_policy_uri: security.into(),
        }
    }

    fn endpoint(policy: P, mode: MessageSecurityMode, tokens: Vec<UserTokenPolicy>) -> EndpointDescription {
        EndpointDescription {
            endpoint_url: "opc.tcp://server:4840".into(),
            security_mode: mode,
            security_policy_uri: policy.uri().into(),
            user_identity_tokens: Some(tokens),
            transport_profile_uri: TRANSPORT.into(),
            ..Default::default()
        }
    }

    const ENCRYPT: MessageSecurityMode = MessageSecurityMode::SignAndEncrypt;
    const SIGN: MessageSecurityMode = MessageSecurityMode::Sign;
    const BARE: MessageSecurityMode = MessageSecurityMode::None;

    #[test]
    fn the_strongest_wanted_endpoint_with_the_preferred_identity() {
        let all = [
            endpoint(P::None, BARE, vec![token(UserTokenType::Anonymous, "")]),
            endpoint(P::Basic256Sha256, ENCRYPT, vec![token(UserTokenType::IssuedToken, "")]),
            endpoint(P::Aes256Sha256RsaPss, SIGN, vec![token(UserTokenType::IssuedToken, "")]),
            endpoint(P::Aes256Sha256RsaPss, ENCRYPT, vec![token(UserTokenType::Anonymous, "")]),
        ];
        let choice = choose_endpoint(&all, &EndpointWish::default()).unwrap();
        assert_eq!((choice.policy, choice.endpoint.security_mode), (P::Basic256Sha256, ENCRYPT));
        assert_eq!(choice.token_security, P::Basic256Sha256, "an empty policy means that of the channel");
        assert_eq!(choice.issuer.unwrap().authority_url, "opc.tcp://as");
        let anonymous = EndpointWish { identities: vec![UserTokenType::Anonymous], ..EndpointWish::default() };
        assert_eq!(choose_endpoint(&all, &anonymous).unwrap().policy, P::Aes256Sha256RsaPss);
    }

    #[test]
    fn a_secret_never_goes_out_in_the_clear() {
        let none = P::None.uri();
        let wish = EndpointWish {
            policies: vec![P::None, P::Basic256Sha256],
            modes: vec![BARE, SIGN, ENCRYPT],
            identities: vec![UserTokenType::UserName],
            ..EndpointWish::default()
        };
        let cases = [
            (P::None, BARE, "", None),
            (P::None, BARE, P::Basic256Sha256.uri(), Some(P::Basic256Sha256)),
            (P::Basic256Sha256, SIGN, none, None),
            (P::Basic256Sha256, SIGN, "", Some(P::Basic256Sha256)),
            (P::Basic256Sha256, ENCRYPT, none, Some(P::None)),
        ];
        for (policy, mode, security, expected) in cases {
            let all = [endpoint(policy, mode, vec![token(UserTokenType::UserName, security)])];
            let choice = choose_endpoint(&all, &wish).ok().map(|choice| choice.token_security);
            assert_eq!(choice, expected, "{policy} {mode:?} {security}");
        }
    }

    #[test]
    fn the_error_tells_what_there_would_have_been() {
        let weak = [endpoint(P::None, BARE, vec![])];
        assert_eq!(
            choose_endpoint(&weak, &EndpointWish::default()),
            Err(NoEndpoint::NoSecurity { offered: "None/None".into() })
        );
        let named = [endpoint(P::Basic256Sha256, ENCRYPT, vec![token(UserTokenType::UserName, "")])];
        assert_eq!(
            choose_endpoint(&named, &EndpointWish::default()),
            Err(NoEndpoint::NoIdentity { offered: "UserName".into() })
        );
        assert_eq!(choose_endpoint(&[], &EndpointWish::default()), Err(NoEndpoint::NoTransport));
    }

    #[test]
    fn an_edited_list_is_noticed() {
        let whole = [
            endpoint(P::None, BARE, vec![token(UserTokenType::Anonymous, "")]),
            endpoint(P::Basic256Sha256, ENCRYPT, vec![token(UserTokenType::IssuedToken, "")]),
        ];
        assert_eq!(compare_endpoints(&whole, &whole), Ok(()));
        let mut moved = whole.clone();
        moved[0].endpoint_url = "opc.tcp://10.0.0.1:4840".into();
        assert_eq!(compare_endpoints(&whole, &moved), Ok(()));
        let mut told = whole.clone();
        told.iter_mut().for_each(|endpoint| endpoint.server_certificate = vec![0x30].into());
        assert_eq!(compare_endpoints(&told, &whole), Ok(()), "certificates are left out, as the standard recommends");
        let failed = Err(StatusCode::BadSecurityChecksFailed);
        assert_eq!(compare_endpoints(&whole[..1], &whole), failed, "an endpoint was removed");
        let mut weakened = whole.clone();
        weakened[1].user_identity_tokens = Some(vec![token(UserTokenType::IssuedToken, P::None.uri())]);
        assert_eq!(compare_endpoints(&weakened, &whole), failed, "a token policy was weakened");
    }
}
