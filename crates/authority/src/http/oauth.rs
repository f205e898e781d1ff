//! `POST /oauth2/token`: client credentials (RFC 6749 §4.4), token exchange for persons (RFC 8693), refresh bound to
//! the certificate (RFC 8705).
//!
//! | Parameter | Meaning |
//! |---|---|
//! | `grant_type` | one of the three |
//! | `audience` or `resource` | the server's ApplicationUri |
//! | `scope` | role names, space between; default: all the asker has |
//! | `client_id`, `client_secret` | when no TLS certificate proves the client; also as HTTP Basic |
//! | `subject_token`, `subject_token_type` | whom to act for: a JWT of a configured identity provider, or [`PASSWORD`] |
//! | `username` | with [`PASSWORD`]: whose password `subject_token` is |
//! | `break_glass_reason` | why, to use break-glass roles |
//! | `padding` | bytes of padding, where that is switched on |
//! | `refresh_token` | for `grant_type=refresh_token` |

use std::collections::BTreeMap;

use access_model::{Reason, Refusal};
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::Peer;
use crate::core::Authority;
use crate::identify::Client;
use crate::issue::{Flow, Issued, Refreshing, TokenRequest};

pub(super) const CLIENT_CREDENTIALS: &str = "client_credentials";
pub(super) const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
pub(super) const REFRESH_TOKEN: &str = "refresh_token";
/// `subject_token_type` of a user's password.
pub const PASSWORD: &str = "urn:trapkey:token-type:password";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
/// The most parameters, and the most roles in `scope`.
const MAX_PARAMETERS: usize = 64;

/// An error as RFC 6749 §5.2 words it.
enum OauthError {
    Request(&'static str),
    GrantType,
    Refused(Refusal),
}

impl From<Refusal> for OauthError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

pub(super) async fn token(
    State(authority): State<Authority>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let asked = match Asked::parse(&headers, &body) {
        Ok(asked) => asked,
        Err(error) => return error.into_response(),
    };
    match asked.answer(&authority, &peer).await {
        Ok(issued) => success(&authority, &asked, &issued),
        Err(error) => error.into_response(),
    }
}

struct Asked {
    parameters: BTreeMap<String, String>,
    basic: Option<(String, String)>,
}

impl Asked {
    fn parse(headers: &HeaderMap, body: &[u8]) -> Result<Self, OauthError> {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("application/x-www-form-urlencoded") {
            return Err(OauthError::Request("the body is a form"));
        }
        let mut parameters = BTreeMap::new();
        for (name, value) in form(body).ok_or(OauthError::Request("the form cannot be read"))? {
            if parameters.len() >= MAX_PARAMETERS {
                return Err(OauthError::Request("too many parameters"));
            }
            // Two values of one name: which of them counts is what an attacker would like to choose.
            if parameters.insert(name, value).is_some() {
                return Err(OauthError::Request("a parameter is given twice"));
            }
        }
        let basic = headers.get(header::AUTHORIZATION).map(|value| basic(value.as_bytes())).transpose()?;
        Ok(Self { parameters, basic })
    }

    /// RFC 6749 §3.1: an empty value is no value.
    fn get(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    async fn answer(&self, authority: &Authority, peer: &Peer) -> Result<Issued, OauthError> {
        let grant_type = self.get("grant_type").ok_or(OauthError::Request("`grant_type` is missing"))?;
        if ![CLIENT_CREDENTIALS, TOKEN_EXCHANGE, REFRESH_TOKEN].contains(&grant_type) {
            return Err(OauthError::GrantType);
        }
        let client = match self.client(authority, peer).await {
            Ok(client) => client,
            Err(OauthError::Refused(refusal)) => {
                let name = self.client_id().unwrap_or("unknown client");
                authority.record_refusal(name, Some(&peer.address), &refusal).await?;
                return Err(refusal.into());
            }
            Err(error) => return Err(error),
        };
        if grant_type == REFRESH_TOKEN {
            let secret = self.get("refresh_token").ok_or(OauthError::Request("`refresh_token` is missing"))?;
            return self.refresh(authority, peer, &client, secret).await;
        }
        let person = if grant_type == TOKEN_EXCHANGE { Some(self.person(authority, peer).await?) } else { None };
        let request = TokenRequest {
            flow: if person.is_some() { Flow::Exchange } else { Flow::ClientCredentials },
            // RFC 6749 §4.4.3: no refresh token for a client that can simply ask again.
            refresh: if person.is_some() { Refreshing::New } else { Refreshing::No },
            person,
            application: client.uri,
            confirmation: client.certificate,
            audience: self.audience()?.ok_or(OauthError::Request("`audience` is missing"))?,
            roles: self.roles()?,
            break_glass: self.get("break_glass_reason").map(str::to_owned),
            padding: self.padding()?,
            address: Some(peer.address.clone()),
        };
        Ok(authority.issue(&request).await?)
    }

    async fn refresh(
        &self,
        authority: &Authority,
        peer: &Peer,
        client: &Client,
        secret: &str,
    ) -> Result<Issued, OauthError> {
        let audience = self.audience()?;
        let address = Some(peer.address.clone());
        Ok(authority.refresh(secret, client.certificate, audience.as_deref(), address).await?)
    }

    fn client_id(&self) -> Option<&str> {
        self.basic.as_ref().map(|(id, _)| id.as_str()).or(self.get("client_id"))
    }

    async fn client(&self, authority: &Authority, peer: &Peer) -> Result<Client, OauthError> {
        let secret = match (&self.basic, self.get("client_secret")) {
            (Some(_), Some(_)) => return Err(OauthError::Request("the client authenticates twice")),
            (Some((id, secret)), None) => Some((id.as_str(), secret.as_str())),
            (None, Some(secret)) => Some((self.get("client_id").unwrap_or_default(), secret)),
            (None, None) => None,
        };
        if let Some((id, secret)) = secret {
            return Ok(authority.client_by_secret(id, secret, peer.certificate, &peer.address).await?);
        }
        let none = || Refusal::new(Reason::UnknownClient, "neither certificate nor secret");
        let certificate = peer.certificate.ok_or_else(none)?;
        Ok(match self.get("client_id") {
            Some(uri) => authority.client_by_uri(uri, certificate).await?,
            None => authority.client_by_certificate(certificate).await?,
        })
    }

    async fn person(&self, authority: &Authority, peer: &Peer) -> Result<String, OauthError> {
        if self.get("actor_token").is_some() {
            return Err(OauthError::Request("`actor_token` is not supported: the client is the actor"));
        }
        let subject = self.get("subject_token").ok_or(OauthError::Request("`subject_token` is missing"))?;
        let kind = self.get("subject_token_type").ok_or(OauthError::Request("`subject_token_type` is missing"))?;
        let (name, proven) = match kind {
            PASSWORD => {
                let name = self.get("username").ok_or(OauthError::Request("`username` is missing"))?;
                (name, authority.person_by_password(name, subject, &peer.address).await)
            }
            JWT | ACCESS_TOKEN | ID_TOKEN => ("identity provider", authority.person_by_token(subject.as_bytes())),
            _ => return Err(OauthError::Request("this `subject_token_type` is not supported")),
        };
        match proven {
            Ok(person) => Ok(person),
            Err(refusal) => {
                authority.record_refusal(name, Some(&peer.address), &refusal).await?;
                Err(refusal.into())
            }
        }
    }

    fn audience(&self) -> Result<Option<String>, OauthError> {
        match (self.get("audience"), self.get("resource")) {
            (Some(one), Some(other)) if one != other => Err(OauthError::Request("`audience` and `resource` differ")),
            (one, other) => Ok(one.or(other).map(str::to_owned)),
        }
    }

    fn roles(&self) -> Result<Option<Vec<String>>, OauthError> {
        let Some(scope) = self.get("scope") else { return Ok(None) };
        let roles: Vec<String> = scope.split(' ').filter(|role| !role.is_empty()).map(str::to_owned).collect();
        if roles.len() > MAX_PARAMETERS { Err(OauthError::Request("too many roles")) } else { Ok(Some(roles)) }
    }

    fn padding(&self) -> Result<usize, OauthError> {
        let parse = |text: &str| text.parse().map_err(|_| OauthError::Request("`padding` is a number of bytes"));
        self.get("padding").map_or(Ok(0), parse)
    }
}

/// The pairs of a form (WHATWG URL §5.1); `None` when it is no UTF-8.
fn form(body: &[u8]) -> Option<Vec<(String, String)>> {
    let pairs = body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    let decode = |pair: &[u8]| {
        let mut halves = pair.splitn(2, |byte| *byte == b'=');
        let name = unescape(halves.next().unwrap_or_default())?;
        Some((name, unescape(halves.next().unwrap_or_default())?))
    };
    pairs.map(decode).collect()
}

fn unescape(text: &[u8]) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digits = [*rest.next()?, *rest.next()?];
                let digits = std::str::from_utf8(&digits).ok()?;
                out.push(u8::from_str_radix(digits, 16).ok()?);
            }
            byte => out.push(*byte),
        }
    }
    String::from_utf8(out).ok()
}

/// HTTP Basic; id and secret are form-encoded inside (RFC 6749 §2.3.1).
fn basic(value: &[u8]) -> Result<(String, String), OauthError> {
    let bad = || OauthError::Request("the Authorization header is no HTTP Basic");
    let text = std::str::from_utf8(value).ok().and_then(|text| text.strip_prefix("Basic ")).ok_or_else(bad)?;
    let decoded = STANDARD.decode(text.trim()).map_err(|_| bad())?;
    let mut halves = decoded.splitn(2, |byte| *byte == b':');
    let (id, secret) = (halves.next().unwrap_or_default(), halves.next().ok_or_else(bad)?);
    Ok((unescape(id).ok_or_else(bad)?, unescape(secret).ok_or_else(bad)?))
}

/// Name and password of HTTP Basic.
pub(super) fn credentials(value: &[u8]) -> Option<(String, String)> {
    basic(value).ok()
}

fn success(authority: &Authority, asked: &Asked, issued: &Issued) -> Response {
    let mut body = Map::new();
    body.insert("access_token".into(), issued.token.as_str().into());
    body.insert("token_type".into(), "Bearer".into());
    let seconds = issued.expires.since(authority.now().unix).as_secs();
    body.insert("expires_in".into(), seconds.into());
    body.insert("scope".into(), issued.roles.join(" ").into());
    if asked.get("grant_type") == Some(TOKEN_EXCHANGE) {
        body.insert("issued_token_type".into(), ACCESS_TOKEN.into());
    }
    if let Some((secret, until)) = &issued.refresh {
        body.insert("refresh_token".into(), secret.as_str().into());
        body.insert("refresh_expires_in".into(), until.since(authority.now().unix).as_secs().into());
    }
    if !issued.depends_on.is_empty() {
        body.insert("depends_on".into(), json!(issued.depends_on));
    }
    (StatusCode::OK, [(header::CACHE_CONTROL, "no-store")], Json(Value::Object(body))).into_response()
}

impl IntoResponse for OauthError {
    fn into_response(self) -> Response {
        let (status, error, description) = match &self {
            Self::Request(message) => (StatusCode::BAD_REQUEST, "invalid_request", *message),
            Self::GrantType => (StatusCode::BAD_REQUEST, "unsupported_grant_type", "no such grant type"),
            // Client and person are known by now: they may hear which rule it was, or what is missing.
            Self::Refused(Refusal { reason: Reason::PolicyNoPermit | Reason::PolicyForbids, detail }) => {
                (StatusCode::FORBIDDEN, "access_denied", detail.as_str())
            }
            Self::Refused(refusal) => refused(refusal.reason),
        };
        let body = Json(json!({ "error": error, "error_description": description }));
        (status, [(header::CACHE_CONTROL, "no-store")], body).into_response()
    }
}

/// One wording for each group of reasons but policy's own; the detail is in the audit.
fn refused(reason: Reason) -> (StatusCode, &'static str, &'static str) {
    match reason {
        Reason::UnknownClient => (StatusCode::UNAUTHORIZED, "invalid_client", "the client could not be authenticated"),
        Reason::TokenUnbound => (StatusCode::BAD_REQUEST, "invalid_client", "no certificate to bind a token to"),
        Reason::UnknownAudience => (StatusCode::BAD_REQUEST, "invalid_target", "no such server"),
        Reason::TooBusy => (StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable", "try again"),
        Reason::AuditUnavailable => {
            (StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable", "nothing can be recorded")
        }
        Reason::TokenTooLarge => (StatusCode::BAD_REQUEST, "invalid_request", "the token would be too long"),
        _ => (StatusCode::BAD_REQUEST, "invalid_grant", "the user or the token was not accepted"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_read_as_browsers_write_them() {
        let parsed = form(b"a=1&b=x%20y+z&c&d=%C3%A4&&e==").unwrap();
        let want = [("a", "1"), ("b", "x y z"), ("c", ""), ("d", "ä"), ("e", "=")];
        assert_eq!(parsed, want.map(|(name, value)| (name.to_owned(), value.to_owned())));
        for bad in [&b"a=%"[..], b"a=%4", b"a=%zz", b"a=%ff", b"%=1"] {
            assert_eq!(form(bad), None, "{}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn basic_holds_form_encoded_halves() {
        let header = format!("Basic {}", STANDARD.encode("urn%3Aa:s%3Ae"));
        assert_eq!(basic(header.as_bytes()).ok(), Some(("urn:a".into(), "s:e".into())));
        for bad in ["Bearer x", "Basic ***", "Basic YQ=="] {
            assert!(basic(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
