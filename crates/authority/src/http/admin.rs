//! `/admin/v1`: tokens, workflow, files, keys; accounts are in the room beside. Mutual TLS; the certificate's owner must have an administrator's role.
//!
//! | Request | Body or query | Answer |
//! |---|---|---|
//! | `GET /tokens` | `subject`, `audience`, `live=true`, `limit` | tokens, newest first |
//! | `POST /tokens` | `application`, `audience`, `person?`, `roles?`, `break_glass_reason?`, `padding?` | a token, bound to the application's registered certificate |
//! | `GET /tokens/{id}` | | one token |
//! | `DELETE /tokens/{id}` | `reason` | revoked, once every listening gate was told |
//! | `GET /workflow` | | steps, enabled transitions, epoch |
//! | `POST /workflow/fire` | `transition` | what it changed |
//! | `POST /reload` | | what it changed; 422 with the faults when the files are broken |
//! | `POST /keys/rotate` | | |
//! | `GET /guards/{name}/mode` | | what was ordered of the guard of this server; null: it goes by its configuration |
//! | `POST /guards/{name}/mode` | `mode`: `enforce` or `observe` | what was ordered before; every listening guard was told |

use access_model::{Actor, Mode, Reason, Refusal, Thumbprint};
use axum::extract::{Path, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use store::{IssuedToken, TokenFilter};

use super::{Peer, accounts, mistake, problem, proven_with_role};
use crate::core::{Authority, Changed, unavailable};
use crate::error::AuthorityError;
use crate::issue::{Flow, Refreshing, TokenRequest};

/// The most tokens of one list.
const MAX_LIST: u32 = 10_000;

/// The routes; the check of certificate and role stands in front of all of them.
pub(super) fn routes(authority: Authority) -> Router<Authority> {
    Router::new()
        .route("/tokens", get(tokens).post(issue))
        .route("/tokens/{id}", get(token).delete(revoke))
        .route("/workflow", get(workflow))
        .route("/workflow/fire", post(fire))
        .route("/reload", post(reload))
        .route("/keys/rotate", post(rotate))
        .route("/guards/{name}/mode", get(guard_mode).post(switch_guard))
        .merge(accounts::routes())
        .layer(from_fn_with_state(authority, role_needed))
}

async fn role_needed(
    State(authority): State<Authority>,
    Extension(peer): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    match proven_with_role(&authority, &peer, &[&authority.config().admin_roles]).await {
        Ok(by) => {
            request.extensions_mut().insert(by);
            next.run(request).await
        }
        Err(refusal) => {
            tracing::info!(address = peer.address, path = request.uri().path(), %refusal, "administration refused");
            problem(&refusal)
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    subject: Option<String>,
    audience: Option<String>,
    #[serde(default)]
    live: bool,
    limit: Option<u32>,
}

async fn tokens(State(authority): State<Authority>, Query(listed): Query<Listed>) -> Response {
    let filter = TokenFilter {
        subject: listed.subject,
        audience: listed.audience,
        live_at: listed.live.then(|| authority.now().unix),
        limit: Some(listed.limit.unwrap_or(100).min(MAX_LIST)),
    };
    match authority.db().tokens(&filter).await {
        Ok(all) => answer(json!({ "tokens": all.iter().map(described).collect::<Vec<_>>() })),
        Err(error) => failed(&error.into()),
    }
}

async fn token(State(authority): State<Authority>, Path(id): Path<String>) -> Response {
    match authority.db().token(&id).await {
        Ok(Some(token)) => answer(described(&token)),
        Ok(None) => mistake(StatusCode::NOT_FOUND, "no such token"),
        Err(error) => failed(&error.into()),
    }
}

fn described(token: &IssuedToken) -> Value {
    json!({
        "id": token.id,
        "subject": token.subject,
        "application": token.application,
        "audience": token.audience,
        "confirmation": token.confirmation.map(|thumbprint| thumbprint.to_string()),
        "flow": token.flow,
        "issued": token.issued.as_seconds(),
        "expires": token.expires.as_seconds(),
        "epoch": token.epoch.0,
        "revoked": token.revoked.map(|at| at.as_seconds()),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    application: String,
    audience: String,
    person: Option<String>,
    roles: Option<Vec<String>>,
    break_glass_reason: Option<String>,
    #[serde(default)]
    padding: usize,
}

async fn issue(
    State(authority): State<Authority>,
    Extension(peer): Extension<Peer>,
    Extension(by): Extension<Actor>,
    Json(wanted): Json<Wanted>,
) -> Response {
    let confirmation = match registered(&authority, &wanted.application).await {
        Ok(confirmation) => confirmation,
        Err(refusal) => return problem(&refusal),
    };
    tracing::info!(by = by.name, application = wanted.application, audience = wanted.audience, "token by hand");
    let request = TokenRequest {
        flow: Flow::Administration,
        person: wanted.person,
        application: wanted.application,
        confirmation,
        audience: wanted.audience,
        roles: wanted.roles,
        break_glass: wanted.break_glass_reason,
        padding: wanted.padding,
        refresh: Refreshing::No,
        address: Some(peer.address),
    };
    match authority.issue(&request).await {
        Ok(issued) => answer(json!({
            "id": issued.id,
            "access_token": issued.token.as_str(),
            "expires": issued.expires.as_seconds(),
            "roles": issued.roles,
            "depends_on": issued.depends_on,
        })),
        Err(refusal) => {
            // An administrator may know why.
            let body = Json(json!({ "error": refusal.reason.word(), "error_description": refusal.detail }));
            (StatusCode::FORBIDDEN, [(header::CACHE_CONTROL, "no-store")], body).into_response()
        }
    }
}

/// The one certificate that is registered for an application.
async fn registered(authority: &Authority, uri: &str) -> Result<Thumbprint, Refusal> {
    let row = authority.db().application(uri).await.map_err(unavailable)?;
    let pinned = authority.snapshot().plant().applications.get(uri).and_then(|one| one.thumbprint);
    let mut all: Vec<Thumbprint> = row.into_iter().flat_map(|row| row.certificates).chain(pinned).collect();
    all.sort_unstable();
    all.dedup();
    match all.as_slice() {
        [one] => Ok(*one),
        _ => Err(Refusal::new(Reason::TokenUnbound, format!("`{uri}` has {} registered certificates", all.len()))),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Why {
    #[serde(default)]
    reason: String,
}

async fn revoke(
    State(authority): State<Authority>,
    Extension(by): Extension<Actor>,
    Path(id): Path<String>,
    Query(why): Query<Why>,
) -> Response {
    match authority.revoke(&id, &by, &why.reason).await {
        Ok(Some(now)) => answer(json!({ "id": id, "revoked": true, "already": !now })),
        Ok(None) => mistake(StatusCode::NOT_FOUND, "no such token"),
        Err(error) => failed(&error),
    }
}

async fn workflow(State(authority): State<Authority>) -> Response {
    let snapshot = authority.snapshot();
    let enabled: Vec<&str> = snapshot.workflow().enabled(snapshot.marking()).collect();
    answer(json!({
        "steps": snapshot.steps(),
        "marking": snapshot.workflow().to_map(snapshot.marking()),
        "enabled": enabled,
        "epoch": snapshot.epoch().0,
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fired {
    transition: String,
}

async fn fire(
    State(authority): State<Authority>,
    Extension(by): Extension<Actor>,
    Json(fired): Json<Fired>,
) -> Response {
    match authority.fire(&fired.transition, &by).await {
        Ok(changed) => done(&authority, changed),
        Err(error @ AuthorityError::Step(_)) => refused(StatusCode::CONFLICT, Reason::StepNotEnabled, &error),
        Err(error) => failed(&error),
    }
}

async fn reload(State(authority): State<Authority>, Extension(by): Extension<Actor>) -> Response {
    match authority.reload(&by).await {
        Ok(changed) => done(&authority, changed),
        Err(AuthorityError::Faults(faults)) => {
            let all: Vec<Value> = faults.0.iter().map(fault).collect();
            let body = Json(json!({ "error": Reason::PolicyBroken.word(), "faults": all }));
            (StatusCode::UNPROCESSABLE_ENTITY, body).into_response()
        }
        Err(error @ (AuthorityError::LostStep(_) | AuthorityError::File { .. })) => {
            refused(StatusCode::UNPROCESSABLE_ENTITY, Reason::PolicyBroken, &error)
        }
        Err(error) => failed(&error),
    }
}

/// What an administrator may know in full.
fn refused(status: StatusCode, reason: Reason, why: &AuthorityError) -> Response {
    let body = json!({ "error": reason.word(), "error_description": why.to_string() });
    (status, [(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

fn fault(fault: &pdp::Fault) -> Value {
    json!({
        "file": fault.origin.to_string(),
        "line": fault.line,
        "column": fault.column,
        "message": fault.message,
        "hint": fault.hint,
    })
}

async fn rotate(State(authority): State<Authority>, Extension(by): Extension<Actor>) -> Response {
    match authority.rotate_keys(&by).await {
        Ok(()) => answer(json!({ "rotated": true })),
        Err(error) => failed(&error),
    }
}

async fn guard_mode(State(authority): State<Authority>, Path(name): Path<String>) -> Response {
    match authority.guard_mode(&name) {
        Some((server, mode)) => answer(json!({ "server": server, "mode": mode.map(Mode::name) })),
        None => mistake(StatusCode::NOT_FOUND, "the plant has no such server"),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ordered {
    mode: String,
}

async fn switch_guard(
    State(authority): State<Authority>,
    Extension(by): Extension<Actor>,
    Path(name): Path<String>,
    Json(ordered): Json<Ordered>,
) -> Response {
    let Some(mode) = Mode::from_name(&ordered.mode) else {
        return mistake(StatusCode::BAD_REQUEST, "the mode is `enforce` or `observe`");
    };
    match authority.switch_guard(&name, mode, &by).await {
        Ok(Some(switched)) => answer(json!({
            "server": switched.server,
            "mode": mode.name(),
            "before": switched.before.map(Mode::name),
        })),
        Ok(None) => mistake(StatusCode::NOT_FOUND, "the plant has no such server"),
        Err(error) => failed(&error),
    }
}

fn done(authority: &Authority, changed: Changed) -> Response {
    answer(json!({
        "epoch": changed.epoch.0,
        "steps": authority.snapshot().steps(),
        "revoked": changed.revoked,
        "narrowed": changed.narrowed,
        "widened": changed.widened,
    }))
}

pub(super) fn answer(body: Value) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

pub(super) fn failed(error: &AuthorityError) -> Response {
    tracing::error!(%error, "an administrative request failed");
    let word = if matches!(error, AuthorityError::Audit(_)) { Reason::AuditUnavailable.word() } else { "unavailable" };
    (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "error": word }))).into_response()
}
