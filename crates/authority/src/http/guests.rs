//! `POST /guard/v1/grants`: a guard asks for a token on behalf of a client that cannot carry one.
//!
//! | Key | Meaning |
//! |---|---|
//! | `audience` | the guard's own ApplicationUri; the TLS certificate must be registered for it |
//! | `by` | `{"user_name": {"name", "password"}}`, `{"x509": SHA-256 of the user's certificate}`, `"anonymous"` or `{"renewal": secret}` |
//! | `client` | SHA-256 of the certificate of the client's channel; absent over one without security |
//! | `address` | the client's network address |
//!
//! The answer: `access_token`, `expires_in`, `renewal` (works once) and `bound_to`, the certificate it is bound to.

use access_model::{Reason, Refusal, Thumbprint};
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Deserializer};
use serde_json::json;
use zeroize::Zeroizing;

use super::{Peer, mistake, problem};
use crate::core::Authority;
use crate::guests::{Guest, GuestRequest};

/// The longest network address that is taken down.
const MAX_ADDRESS: usize = 256;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    audience: String,
    by: By,
    client: Option<String>,
    address: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum By {
    UserName { name: String, password: Hushed },
    X509(String),
    Anonymous,
    Renewal(Hushed),
}

/// A text that leaves nothing behind.
struct Hushed(Zeroizing<String>);

impl<'de> Deserialize<'de> for Hushed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Zeroizing::new(text)))
    }
}

pub(super) async fn grant(
    State(authority): State<Authority>,
    Extension(peer): Extension<Peer>,
    body: Bytes,
) -> Response {
    let Some(guard) = peer.certificate else {
        return problem(&Refusal::new(Reason::UnknownClient, "no client certificate was shown"));
    };
    let asked: Asked = match serde_json::from_slice(&body) {
        Ok(asked) => asked,
        // The error of the parser may repeat what was sent.
        Err(_) => return mistake(StatusCode::BAD_REQUEST, "the question cannot be read"),
    };
    let Some(request) = question(asked, guard) else {
        return mistake(StatusCode::BAD_REQUEST, "a certificate is named by 64 hexadecimal digits");
    };
    match authority.issue_to_guest(&request).await {
        Ok(issued) => {
            let seconds = issued.expires.since(authority.now().unix).as_secs();
            let body = json!({
                "access_token": issued.token.as_str(),
                "expires_in": seconds,
                "renewal": issued.refresh.as_ref().map(|(secret, _)| secret),
                "bound_to": request.client.unwrap_or(guard).to_string(),
            });
            (StatusCode::OK, [(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
        }
        Err(refusal) => problem(&refusal),
    }
}

fn question(asked: Asked, guard: Thumbprint) -> Option<GuestRequest> {
    let client = match &asked.client {
        Some(text) => Some(thumbprint(text)?),
        None => None,
    };
    let guest = match asked.by {
        By::UserName { name, password } => Guest::UserName { name, password: password.0 },
        By::X509(text) => Guest::Certificate(thumbprint(&text)?),
        By::Anonymous => Guest::Anonymous,
        By::Renewal(secret) => Guest::Renewal(secret.0),
    };
    let address = asked.address.filter(|text| !text.is_empty() && text.len() <= MAX_ADDRESS);
    Some(GuestRequest { audience: asked.audience, guard, client, address, guest })
}

fn thumbprint(text: &str) -> Option<Thumbprint> {
    pdp::plant::parse_thumbprint(text).ok()
}
