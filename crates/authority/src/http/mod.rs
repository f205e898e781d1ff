//! The HTTPS side: OAuth2, AuthZEN, administration, control stream. What is asked over which certificate is decided here;
//! everything else is the core's.

mod accounts;
mod admin;
mod approvals;
mod arrivals;
mod authzen;
mod body;
mod discovery;
mod guests;
mod oauth;
mod serve;
mod tls;

use std::time::Duration;

use access_model::turn::{Ballot, HolderId, Vote};
use access_model::{Actor, Reason, Refusal, Thumbprint};
use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::control::CONTENT_TYPE;
use crate::core::Authority;

pub(crate) use body::Budget;
pub use oauth::PASSWORD;
pub use serve::serve;
#[cfg(test)]
pub(crate) use serve::thumbprint as serve_thumbprint;
pub use tls::{InvalidTls, ShownCertificate, server_config, server_config_showing};

/// The largest body of a question: a subject token of 256 kB and its frame.
const MAX_BODY: usize = 320 * 1_024;

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The network address.
    pub address: String,
    /// The certificate whose private key the peer proved to hold in the TLS handshake. Nobody has said yet whose it is.
    pub certificate: Option<Thumbprint>,
}

/// Every address of the authority. Each connection adds its [`Peer`] as an extension.
pub fn router(authority: Authority) -> Router {
    let budget = authority.inner.bodies.clone();
    Router::new()
        .route("/.well-known/openid-configuration", get(discovery::metadata))
        .route("/.well-known/oauth-authorization-server", get(discovery::metadata))
        .route("/oauth2/jwks", get(discovery::jwks))
        .route("/oauth2/token", post(oauth::token))
        .route("/access/v1/evaluation", post(authzen::evaluation))
        .route("/access/v1/evaluations", post(authzen::evaluations))
        .route("/.well-known/authzen-configuration", get(authzen::metadata))
        .route("/control/v1/updates", get(updates))
        .route("/control/v1/map", get(map))
        .route("/guard/v1/grants", post(guests::grant))
        .route("/control/v1/turn", post(turn))
        .route("/control/v1/questions", post(approvals::question))
        .nest("/approvals/v1", approvals::routes())
        .nest("/admin/v1", admin::routes(authority.clone()))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(from_fn_with_state((authority.clone(), budget), body::bounded))
        .layer(from_fn_with_state(authority.clone(), in_time))
        .layer(from_fn(authzen::same_request_id))
        .with_state(authority)
}

/// A body that trickles in holds its connection for so long and no longer. Changes that have begun go on by themselves.
async fn in_time(State(authority): State<Authority>, request: Request, next: Next) -> Response {
    match tokio::time::timeout(authority.config().patience, next.run(request)).await {
        Ok(response) => response,
        Err(_) => (StatusCode::REQUEST_TIMEOUT, [(header::CONNECTION, "close")]).into_response(),
    }
}

#[derive(Deserialize)]
struct Subscription {
    audience: String,
}

async fn updates(
    State(authority): State<Authority>,
    Extension(peer): Extension<Peer>,
    Query(wanted): Query<Subscription>,
) -> Response {
    let refused = |refusal: &Refusal| {
        tracing::info!(address = peer.address, audience = wanted.audience, %refusal, "no control stream");
        problem(refusal)
    };
    let own = is_of(&authority, &peer, &wanted.audience).await;
    match own.and_then(|()| authority.updates(&wanted.audience)) {
        Ok(updates) => {
            let headers = [(header::CONTENT_TYPE, CONTENT_TYPE), (header::CACHE_CONTROL, "no-store")];
            (headers, axum::body::Body::new(updates)).into_response()
        }
        Err(refusal) => refused(&refusal),
    }
}

/// A gate hears about its own server only: the list names live tokens. A user may be called like a server, so only
/// applications are looked for.
async fn is_of(authority: &Authority, peer: &Peer, audience: &str) -> Result<(), Refusal> {
    let none = || Refusal::new(Reason::UnknownClient, "no client certificate was shown");
    let certificate = peer.certificate.ok_or_else(none)?;
    authority.client_by_uri(audience, certificate).await.map(drop)
}

/// What a guard asks about its turn: [`access_model::turn::Ballot`], or that it gives it back.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    holder: u64,
    term: u64,
    span_ms: u64,
    #[serde(default)]
    release: bool,
    /// Whom it found where the other should be.
    #[serde(default)]
    other: Option<u64>,
}

/// Votes on whose turn it is among guards with this ApplicationUri, which show the one certificate that is registered.
async fn turn(
    State(authority): State<Authority>,
    Extension(peer): Extension<Peer>,
    Query(wanted): Query<Subscription>,
    Json(asked): Json<Turn>,
) -> Response {
    if let Err(refusal) = is_of(&authority, &peer, &wanted.audience).await {
        return problem(&refusal);
    }
    let holder = HolderId(asked.holder);
    if asked.release {
        authority.release(&wanted.audience, (holder, asked.other.map(HolderId)), asked.term);
        return Json(json!({ "given": false, "term": asked.term })).into_response();
    }
    let ballot = Ballot { holder, term: asked.term, span: Duration::from_millis(asked.span_ms) };
    let by = Actor { name: wanted.audience.clone(), address: Some(peer.address.clone()), ..Actor::default() };
    match authority.vote(&by, &wanted.audience, (ballot, asked.other.map(HolderId))) {
        Vote::Given => Json(json!({ "given": true, "term": asked.term })).into_response(),
        Vote::Refused { to, term } => {
            Json(json!({ "given": false, "term": term, "to": to.map(|to| to.0) })).into_response()
        }
        Vote::Third => Json(json!({ "given": false, "term": asked.term, "third": true })).into_response(),
    }
}

/// The digest of the scope map that tokens for a server index, so that somebody can compare it with the server's; where
/// the workflow stands, for the records of a guard that observes; and what was ordered of that guard.
async fn map(
    State(authority): State<Authority>,
    Extension(peer): Extension<Peer>,
    Query(wanted): Query<Subscription>,
) -> Response {
    if let Err(refusal) = is_of(&authority, &peer, &wanted.audience).await {
        return problem(&refusal);
    }
    let snapshot = authority.snapshot();
    let map = snapshot.plant().servers.get(&wanted.audience).and_then(|server| server.scope_map().ok());
    match map {
        Some(map) => {
            let digest = format!("{:?}", token::map_digest(&map));
            let steps: Vec<&str> = snapshot.steps().iter().map(String::as_str).collect();
            let mode = authority.guard_mode(&wanted.audience).and_then(|(_, mode)| mode).map(access_model::Mode::name);
            let epoch = snapshot.epoch().0;
            Json(json!({"map": digest, "scopes": map.len(), "epoch": epoch, "steps": steps, "mode": mode}))
                .into_response()
        }
        None => problem(&Refusal::new(Reason::UnknownAudience, "no server has this uri")),
    }
}

/// The owner of the peer's certificate, and the roles it has.
async fn proven(authority: &Authority, peer: &Peer) -> Result<(String, Vec<String>), Refusal> {
    let none = || Refusal::new(Reason::UnknownClient, "no client certificate was shown");
    authority.roles_by_certificate(peer.certificate.ok_or_else(none)?).await
}

/// The same, when it has one of these roles.
async fn proven_with_role(authority: &Authority, peer: &Peer, wanted: &[&[String]]) -> Result<Actor, Refusal> {
    let (name, roles) = proven(authority, peer).await?;
    if wanted.iter().any(|roles_wanted| roles_wanted.iter().any(|role| roles.contains(role))) {
        return Ok(Actor { name, address: Some(peer.address.clone()), ..Actor::default() });
    }
    let needed: Vec<String> = wanted.iter().flat_map(|roles| roles.iter()).map(|role| format!("`{role}`")).collect();
    let has = if roles.is_empty() { "has no role".to_owned() } else { format!("has {}", roles.join(", ")) };
    let detail = format!("`{name}` {has}; this needs the role {}", needed.join(" or "));
    Err(Refusal::new(Reason::PolicyNoPermit, detail))
}

/// A refusal as HTTP says it: the reason's word. The detail is for those only who proved who they are and lack a role:
/// they may know which.
fn problem(refusal: &Refusal) -> Response {
    let status = match refusal.reason {
        Reason::UnknownClient | Reason::UserCredentials => StatusCode::UNAUTHORIZED,
        Reason::UnknownAudience => StatusCode::NOT_FOUND,
        Reason::TooBusy | Reason::AuditUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::FORBIDDEN,
    };
    let mut body = json!({ "error": refusal.reason.word() });
    if refusal.reason == Reason::PolicyNoPermit
        && let Value::Object(body) = &mut body
    {
        body.insert("error_description".into(), refusal.detail.as_str().into());
    }
    (status, [(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

/// A mistake of the asker, who may know what it was.
fn mistake(status: StatusCode, message: impl std::fmt::Display) -> Response {
    let body = Json(json!({ "error": "invalid_request", "error_description": message.to_string() }));
    (status, [(header::CACHE_CONTROL, "no-store")], body).into_response()
}
