//! Where a server wants its access tokens from: the JSON object in the IssuerEndpointUrl of a UserTokenPolicy
//! (OPC 10000-6 §6.5.2.2). Reads the names of the standard and those other stacks write (facts section 2).

use serde_json::{Map, Value};

const PROFILE_OPCUA: &str = "http://opcfoundation.org/UA/Authorization#OPCUA";
const PROFILE_OAUTH2: &str = "http://opcfoundation.org/UA/Authorization#OAuth2";
/// Far above any real object; it comes from an endpoint that nobody authenticated yet.
const MAX_LENGTH: usize = 16 * 1024;

/// How to talk to the authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorityProfile {
    /// It is an OPC UA server with the methods of OPC 10000-12 §9.
    OpcUa,
    /// OAuth2 over HTTPS.
    OAuth2,
    /// Something else.
    Other,
}

/// The authority of a server, and how the server is called there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenIssuer {
    /// The server's name at the authority; empty means its ApplicationUri.
    pub resource_id: String,
    /// Base URL of the authority.
    pub authority_url: String,
    /// How to talk to it.
    pub profile: AuthorityProfile,
    /// For OPC UA: the NodeId of the service object, namespace URI included. For OAuth2: a path or URL.
    pub token_endpoint: Option<String>,
    /// Where a user signs in; absent in the implicit flow.
    pub authorization_endpoint: Option<String>,
    /// Kinds of request the authority takes; empty when it does not say.
    pub request_types: Vec<String>,
    /// Scopes the server understands.
    pub scopes: Vec<String>,
}

/// The text is no such object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidIssuer {
    /// It is no JSON object, or far too long.
    #[error("the issuer endpoint of the token policy is no JSON object")]
    Malformed,
    /// It names no authority.
    #[error("the issuer endpoint of the token policy names no authority")]
    NoAuthority,
}

impl TokenIssuer {
    /// Reads the text of an IssuerEndpointUrl.
    ///
    /// # Errors
    /// When it is no JSON object or names no authority.
    pub fn parse(text: &str) -> Result<Self, InvalidIssuer> {
        if text.len() > MAX_LENGTH {
            return Err(InvalidIssuer::Malformed);
        }
        let Ok(Value::Object(object)) = serde_json::from_str(text) else { return Err(InvalidIssuer::Malformed) };
        let authority_url = text_of(&object, &["authorityUrl", "authorityUri", "issuer"]).unwrap_or_default();
        if authority_url.is_empty() {
            return Err(InvalidIssuer::NoAuthority);
        }
        let profile = text_of(&object, &["authorityProfileUri"]);
        Ok(Self {
            resource_id: text_of(&object, &["resourceId", "resource", "resourceUri", "audience"]).unwrap_or_default(),
            profile: profile_of(profile.as_deref(), &authority_url),
            authority_url,
            token_endpoint: text_of(&object, &["tokenEndpoint"]),
            authorization_endpoint: text_of(&object, &["authorizationEndpoint"]),
            request_types: list_of(&object, "requestTypes"),
            scopes: list_of(&object, "scopes"),
        })
    }
}

/// Versions of the standard differ in the default, so the URL decides when nothing is said.
fn profile_of(uri: Option<&str>, authority_url: &str) -> AuthorityProfile {
    match uri {
        Some(PROFILE_OPCUA) => AuthorityProfile::OpcUa,
        Some(PROFILE_OAUTH2) => AuthorityProfile::OAuth2,
        Some(uri) if !uri.is_empty() => AuthorityProfile::Other,
        _ if authority_url.starts_with("opc.tcp://") => AuthorityProfile::OpcUa,
        _ => AuthorityProfile::OAuth2,
    }
}

fn member<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    object.get(&format!("ua:{name}")).or_else(|| object.get(name))
}

fn text_of(object: &Map<String, Value>, names: &[&str]) -> Option<String> {
    let value = names.iter().find_map(|name| member(object, name).filter(|value| value.is_string()))?;
    value.as_str().map(str::to_owned)
}

fn list_of(object: &Map<String, Value>, name: &str) -> Vec<String> {
    let values = member(object, name).and_then(Value::as_array).into_iter().flatten();
    values.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_standard_and_of_other_stacks() {
        let standard = r#"{"ua:resourceId":"urn:mixer","ua:authorityUrl":"opc.tcp://as:4840","ua:authorityProfileUri":
            "http://opcfoundation.org/UA/Authorization#OPCUA","ua:tokenEndpoint":"nsu=http://opcfoundation.org/UA/GDS/;i=9",
            "ua:authorizationEndpoint":null,"ua:requestTypes":["client_credentials"]}"#;
        let parsed = TokenIssuer::parse(standard).unwrap();
        assert_eq!(parsed.resource_id, "urn:mixer");
        assert_eq!(parsed.profile, AuthorityProfile::OpcUa);
        assert_eq!(parsed.token_endpoint.as_deref(), Some("nsu=http://opcfoundation.org/UA/GDS/;i=9"));
        assert_eq!(parsed.authorization_endpoint, None);
        assert_eq!(parsed.request_types, ["client_credentials"]);

        for other in [
            r#"{"ua:resource":"urn:mixer","authorityUri":"https://as"}"#,
            r#"{"ua:resourceUri":"urn:mixer","ua:issuer":"https://as"}"#,
            r#"{"audience":"urn:mixer","ua:authorityUrl":"https://as"}"#,
        ] {
            let parsed = TokenIssuer::parse(other).unwrap();
            assert_eq!((parsed.resource_id.as_str(), parsed.authority_url.as_str()), ("urn:mixer", "https://as"));
            assert_eq!(parsed.profile, AuthorityProfile::OAuth2);
        }
    }

    #[test]
    fn what_is_no_issuer_is_refused() {
        for (text, expected) in [
            ("", InvalidIssuer::Malformed),
            ("https://as", InvalidIssuer::Malformed),
            ("[]", InvalidIssuer::Malformed),
            ("{}", InvalidIssuer::NoAuthority),
            (r#"{"ua:authorityUrl":7}"#, InvalidIssuer::NoAuthority),
        ] {
            assert_eq!(TokenIssuer::parse(text), Err(expected), "{text}");
        }
        assert_eq!(TokenIssuer::parse(&" ".repeat(20_000)), Err(InvalidIssuer::Malformed));
    }
}
