//! `/admin/v1/users` and `/admin/v1/applications`: changes of accounts.
//!
//! | Request | Body | Answer |
//! |---|---|---|
//! | `PUT /users/{name}/password` | `password` | set; the account is made if there is none |
//! | `POST /users/{name}/certificates` | `thumbprint` | added |
//! | `POST /users/{name}/disable`, `DELETE /users/{name}` | | how many tokens ended, once every listening gate was told |
//! | `PUT /applications/{uri}/secret` | | a new client secret, told this once |
//! | `DELETE /applications/{uri}/secret` | | removed |
//! | `POST /applications/{uri}/disable` | | how many tokens ended, once every listening gate was told |
//! | `POST /applications/{uri}/enable` | | it may ask again |

use access_model::{Actor, Reason, Thumbprint};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{delete, post, put};
use axum::{Extension, Json, Router};
use serde::Deserialize;
use serde_json::json;
use zeroize::Zeroizing;

use super::admin::{answer, failed};
use super::{Peer, mistake, problem};
use crate::accounts::{AccountChange, AccountError, SHORTEST_PASSWORD, new_client_secret};
use crate::core::{Authority, unavailable};
use crate::turns::Asker;

pub(super) fn routes() -> Router<Authority> {
    Router::new()
        .route("/users/{name}/password", put(password))
        .route("/users/{name}/certificates", post(certify))
        .route("/users/{name}/disable", post(disable))
        .route("/users/{name}", delete(remove))
        .route("/applications/{uri}/secret", put(secret).delete(no_secret))
        .route("/applications/{uri}/disable", post(disable_application))
        .route("/applications/{uri}/enable", post(enable_application))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewPassword {
    password: String,
}

async fn password(
    State(authority): State<Authority>,
    Extension(peer): Extension<Peer>,
    Extension(by): Extension<Actor>,
    Path(name): Path<String>,
    Json(new): Json<NewPassword>,
) -> Response {
    let password = Zeroizing::new(new.password);
    if password.chars().count() < SHORTEST_PASSWORD {
        let short = format!("a password has at least {SHORTEST_PASSWORD} characters");
        return mistake(StatusCode::BAD_REQUEST, short);
    }
    match hashed(&authority, &peer, &by, password).await {
        Ok(hash) => change(&authority, AccountChange::Password { name, hash }, &by).await,
        Err(response) => response,
    }
}

/// Hashing is work that all who prove themselves share.
async fn hashed(authority: &Authority, peer: &Peer, by: &Actor, secret: Zeroizing<String>) -> Result<String, Response> {
    let asker = Asker::new(&peer.address, &by.name);
    let hashed = authority.inner.passwords.hash(secret, &asker, authority.now().mono).await;
    hashed.map_err(|refusal| match refusal.reason {
        Reason::TooBusy => problem(&refusal),
        _ => mistake(StatusCode::BAD_REQUEST, refusal.detail),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewCertificate {
    thumbprint: String,
}

async fn certify(
    State(authority): State<Authority>,
    Extension(by): Extension<Actor>,
    Path(name): Path<String>,
    Json(new): Json<NewCertificate>,
) -> Response {
    match thumbprint(&new.thumbprint) {
        Some(thumbprint) => change(&authority, AccountChange::Certificate { name, thumbprint }, &by).await,
        None => mistake(StatusCode::BAD_REQUEST, "a thumbprint is SHA-256 in 64 hexadecimal digits"),
    }
}

fn thumbprint(text: &str) -> Option<Thumbprint> {
    let digits = text.as_bytes().chunks_exact(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| !pair.starts_with('+'))?;
        u8::from_str_radix(pair, 16).ok()
    });
    let bytes: [u8; 32] = digits.collect::<Option<Vec<u8>>>()?.try_into().ok()?;
    (text.len() == 64).then_some(Thumbprint(bytes))
}

async fn disable(
    State(authority): State<Authority>,
    Extension(by): Extension<Actor>,
    Path(name): Path<String>,
) -> Response {
    change(&authority, AccountChange::Disable { name }, &by).await
}

async fn remove(
    State(authority): State<Authority>,
    Extension(by): Extension<Actor>,
    Path(name): Path<String>,
) -> Response {
    change(&authority, AccountChange::Remove { name }, &by).await
}

async fn secret(
    State(authority): State<Authority>,
    Extension(peer): Extension<Peer>,
    Extension(by): Extension<Actor>,
    Path(uri): Path<String>,
) -> Response {
    let secret = new_client_secret();
    let hash = match hashed(&authority, &peer, &by, secret.clone()).await {
        Ok(hash) => Some(hash),
        Err(response) => return response,
    };
    let in_plant = in_plant(&authority, &uri);
    let new = AccountChange::ClientSecret { uri: uri.clone(), hash, in_plant };
    match authority.change_account(new, &by).await {
        Ok(_) => answer(json!({ "client_id": uri, "client_secret": secret.as_str() })),
        Err(error) => unchanged(error),
    }
}

async fn no_secret(
    State(authority): State<Authority>,
    Extension(by): Extension<Actor>,
    Path(uri): Path<String>,
) -> Response {
    change(&authority, AccountChange::ClientSecret { uri, hash: None, in_plant: false }, &by).await
}

async fn disable_application(
    State(authority): State<Authority>,
    Extension(by): Extension<Actor>,
    Path(uri): Path<String>,
) -> Response {
    let in_plant = in_plant(&authority, &uri);
    change(&authority, AccountChange::DisableApplication { uri, in_plant }, &by).await
}

async fn enable_application(
    State(authority): State<Authority>,
    Extension(by): Extension<Actor>,
    Path(uri): Path<String>,
) -> Response {
    change(&authority, AccountChange::EnableApplication { uri }, &by).await
}

fn in_plant(authority: &Authority, uri: &str) -> bool {
    authority.snapshot().plant().applications.contains_key(uri)
}

async fn change(authority: &Authority, change: AccountChange, by: &Actor) -> Response {
    match authority.change_account(change, by).await {
        Ok(revoked) => answer(json!({ "changed": true, "revoked": revoked })),
        Err(error) => unchanged(error),
    }
}

fn unchanged(error: AccountError) -> Response {
    match error {
        AccountError::Unknown(_) => mistake(StatusCode::NOT_FOUND, error),
        AccountError::Reserved(_) => mistake(StatusCode::BAD_REQUEST, error),
        AccountError::Taken(_) => mistake(StatusCode::CONFLICT, error),
        AccountError::Audit(_) => problem(&unavailable(error)),
        AccountError::Store(error) => failed(&error.into()),
        AccountError::Authority(error) => failed(&error),
    }
}
