//! Tokens over HTTPS for one resource (RFC 8707), the client proven by its TLS certificate (RFC 8705) and, where the
//! authority wants it, a secret: OAuth2 client credentials (RFC 6749 §4.4), a person's password or token in exchange
//! (RFC 8693), and refresh tokens bound to the certificate.

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

/// How our own authority calls a password in an exchange; the standard has no word for it.
const PASSWORD: &str = "urn:trapkey:token-type:password";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";

/// What is asked for, and as whom.
pub(crate) struct Asked<'a> {
    pub(crate) issuer: &'a TokenIssuer,
    pub(crate) resource: &'a str,
    pub(crate) client_id: &'a str,
    pub(crate) secret: Option<&'a str>,
    /// What the token is asked for with.
    pub(crate) grant: Grant<'a>,
    /// The roles to ask for; empty: what the server names, else all.
    pub(crate) roles: &'a [String],
}

/// What a token is asked for with.
#[derive(Clone, Copy)]
pub(crate) enum Grant<'a> {
    /// The client is who asks.
    Client,
    /// A person with a password.
    Password { name: &'a str, password: &'a str },
    /// A person with a token of an identity provider.
    Subject(&'a str),
    /// A refresh token.
    Refresh(&'a str),
}

#[derive(Deserialize)]
struct Metadata {
    token_endpoint: String,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    expires_in: Option<u64>,
    refresh_token: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Refused {
    error: String,
    error_description: String,
}

impl Grant<'_> {
    const fn grant_type(self) -> &'static str {
        match self {
            Self::Client => "client_credentials",
            Self::Password { .. } | Self::Subject(_) => "urn:ietf:params:oauth:grant-type:token-exchange",
            Self::Refresh(_) => "refresh_token",
        }
    }
}

/// Asks for a token.
pub(crate) async fn fetch(https: &HttpsClient, asked: &Asked<'_>) -> Result<Fetched, TokenError> {
    let target = endpoint(https, asked.issuer).await?;
    let body = form(asked);
    let mut body = Zeroizing::new(body.into_bytes());
    let basic = asked.secret.map(|secret| basic(asked.client_id, secret));
    let mut headers = vec![("content-type", "application/x-www-form-urlencoded"), ("accept", "application/json")];
    if let Some(basic) = &basic {
        headers.push(("authorization", basic));
    }
    let at = now();
    let (status, answer) = https.exchange(&target, "POST", "", &headers, std::mem::take(&mut *body)).await?;
    if !status.is_success() {
        let refused: Refused = serde_json::from_slice(&answer).unwrap_or_default();
        let reason = [status.as_str(), &refused.error, &refused.error_description].join(" ");
        return Err(TokenError::Refused { resource: asked.resource.to_owned(), reason: reason.trim().to_owned() });
    }
    let granted: Granted = serde_json::from_slice(&answer).map_err(|_| TokenError::Malformed)?;
    let expires = granted.expires_in.map(|seconds| at.unix + Duration::from_secs(seconds));
    let token = Zeroizing::new(granted.access_token.into_bytes());
    let refresh = granted.refresh_token.filter(|secret| !secret.is_empty()).map(Zeroizing::new);
    Ok(Fetched { refresh, ..Fetched::new(token, expires, at) })
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
    let scopes = if asked.roles.is_empty() { asked.issuer.scopes.join(" ") } else { asked.roles.join(" ") };
    let mut fields = vec![("grant_type", asked.grant.grant_type())];
    fields.extend([("resource", asked.resource), ("audience", asked.resource)]);
    match asked.grant {
        Grant::Client => {}
        Grant::Password { name, password } => {
            fields.extend([("subject_token_type", PASSWORD), ("username", name), ("subject_token", password)]);
        }
        Grant::Subject(token) => fields.extend([("subject_token_type", JWT), ("subject_token", token)]),
        Grant::Refresh(secret) => fields.push(("refresh_token", secret)),
    }
    if asked.secret.is_none() {
        fields.push(("client_id", asked.client_id));
    }
    // A refresh goes on with the roles that it began with.
    if !scopes.is_empty() && !matches!(asked.grant, Grant::Refresh(_)) {
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
        let to = "resource=urn%3Aplant%3Amixer&audience=urn%3Aplant%3Amixer";
        let person = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange";
        let password = "subject_token_type=urn%3Atrapkey%3Atoken-type%3Apassword&username=olga&subject_token=p%20w";
        let jwt = "subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt&subject_token=a.b.c";
        for (grant, want) in [
            (Grant::Client, format!("grant_type=client_credentials&{to}&client_id=urn%3Ame&scope=a%20b")),
            (
                Grant::Password { name: "olga", password: "p w" },
                format!("{person}&{to}&{password}&client_id=urn%3Ame&scope=a%20b"),
            ),
            (Grant::Subject("a.b.c"), format!("{person}&{to}&{jwt}&client_id=urn%3Ame&scope=a%20b")),
            (Grant::Refresh("r.s"), format!("grant_type=refresh_token&{to}&refresh_token=r.s&client_id=urn%3Ame")),
        ] {
            let asked = Asked {
                issuer: &issuer,
                resource: "urn:plant:mixer",
                client_id: "urn:me",
                secret: None,
                grant,
                roles: &[],
            };
            assert_eq!(form(&asked), want);
        }
        assert_eq!(&*basic("urn:me", "p w"), &format!("Basic {}", STANDARD.encode("urn%3Ame:p%20w")));
    }
}
