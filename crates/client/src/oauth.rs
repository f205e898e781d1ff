//! Tokens over HTTPS: OAuth2 client credentials (RFC 6749 §4.4) for one resource (RFC 8707), the client proven by its TLS
//! certificate (RFC 8705) and, where the authority wants it, a secret.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gates::https::{HttpsClient, Target};
use serde::Deserialize;
use ua_proto::client::TokenIssuer;
use zeroize::Zeroizing;

use crate::error::TokenError;
use crate::tokens::{Fetched, now};

/// Where authorities describe themselves (RFC 8414, OpenID Connect Discovery).
const METADATA: [&str; 2] = ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"];

/// What is asked for, and as whom.
pub(crate) struct Asked<'a> {
    pub(crate) issuer: &'a TokenIssuer,
    pub(crate) resource: &'a str,
    pub(crate) client_id: &'a str,
    pub(crate) secret: Option<&'a str>,
}

#[derive(Deserialize)]
struct Metadata {
    token_endpoint: String,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    expires_in: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Refused {
    error: String,
    error_description: String,
}

/// Asks for a token.
pub(crate) async fn fetch(https: &HttpsClient, asked: &Asked<'_>) -> Result<Fetched, TokenError> {
    let target = endpoint(https, asked.issuer).await?;
    let body = form(asked);
    let basic = asked.secret.map(|secret| basic(asked.client_id, secret));
    let mut headers = vec![("content-type", "application/x-www-form-urlencoded"), ("accept", "application/json")];
    if let Some(basic) = &basic {
        headers.push(("authorization", basic));
    }
    let at = now();
    let (status, answer) = https.exchange(&target, "POST", "", &headers, body.into_bytes()).await?;
    if !status.is_success() {
        let refused: Refused = serde_json::from_slice(&answer).unwrap_or_default();
        let reason = [status.as_str(), &refused.error, &refused.error_description].join(" ");
        return Err(TokenError::Refused { resource: asked.resource.to_owned(), reason: reason.trim().to_owned() });
    }
    let granted: Granted = serde_json::from_slice(&answer).map_err(|_| TokenError::Malformed)?;
    let expires = granted.expires_in.map(|seconds| at.unix + Duration::from_secs(seconds));
    let token = Zeroizing::new(granted.access_token.into_bytes());
    Ok(Fetched::new(token, expires, at))
}

/// The token endpoint: as the server said, or as the authority says about itself.
async fn endpoint(https: &HttpsClient, issuer: &TokenIssuer) -> Result<Target, TokenError> {
    match issuer.token_endpoint.as_deref() {
        Some(url) if url.starts_with("https://") => Ok(Target::parse(url)?),
        Some(path) if !path.is_empty() => {
            let base = issuer.authority_url.trim_end_matches('/');
            Ok(Target::parse(&format!("{base}/{}", path.trim_start_matches('/')))?)
        }
        _ => {
            let base = Target::parse(&issuer.authority_url)?;
            for path in METADATA {
                let (status, answer) = https.exchange(&base, "GET", path, &[], Vec::new()).await?;
                if let (true, Ok(metadata)) = (status.is_success(), serde_json::from_slice::<Metadata>(&answer)) {
                    return Ok(Target::parse(&metadata.token_endpoint)?);
                }
            }
            Err(TokenError::NoMethod(issuer.authority_url.clone()))
        }
    }
}

fn form(asked: &Asked<'_>) -> String {
    let scopes = asked.issuer.scopes.join(" ");
    let mut fields =
        vec![("grant_type", "client_credentials"), ("resource", asked.resource), ("audience", asked.resource)];
    if asked.secret.is_none() {
        fields.push(("client_id", asked.client_id));
    }
    if !scopes.is_empty() {
        fields.push(("scope", &scopes));
    }
    let encode = |(name, value): &(&str, &str)| format!("{name}={}", percent(value));
    fields.iter().map(encode).collect::<Vec<_>>().join("&")
}

fn basic(client_id: &str, secret: &str) -> Zeroizing<String> {
    let pair = Zeroizing::new(format!("{}:{}", percent(client_id), percent(secret)));
    Zeroizing::new(format!("Basic {}", STANDARD.encode(pair.as_bytes())))
}

/// Percent-encoding of everything but unreserved characters.
fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use ua_proto::client::AuthorityProfile;

    #[test]
    fn the_form_names_grant_resource_and_client() {
        let issuer = TokenIssuer {
            resource_id: String::new(),
            authority_url: "https://as".into(),
            profile: AuthorityProfile::OAuth2,
            token_endpoint: None,
            authorization_endpoint: None,
            request_types: Vec::new(),
            scopes: vec!["a".into(), "b".into()],
        };
        let asked = Asked { issuer: &issuer, resource: "urn:plant:mixer", client_id: "urn:me", secret: None };
        assert_eq!(
            form(&asked),
            "grant_type=client_credentials&resource=urn%3Aplant%3Amixer&audience=urn%3Aplant%3Amixer&client_id=urn%3Ame&scope=a%20b"
        );
        assert_eq!(&*basic("urn:me", "p w"), &format!("Basic {}", STANDARD.encode("urn%3Ame:p%20w")));
    }
}
