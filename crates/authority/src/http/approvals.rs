//! `/control/v1/questions`, where gates ask for a second person, and `/approvals/v1`, where persons answer.
//!
//! | Request | Body or query | Answer |
//! |---|---|---|
//! | `POST /control/v1/questions` | `audience` in the query; `id`, `subject`, `client?`, `roles`, `within` in seconds, `change` | taken; with the certificate that is registered for that server |
//! | `GET /approvals/v1` | | the changes that wait for somebody like the asker |
//! | `POST /approvals/v1/{id}/approve` | | the change may be made, once |
//! | `POST /approvals/v1/{id}/decline` | | it is not asked any more |
//!
//! Who answers is a person: one whose own certificate the connection proves, or one who gives name and password (HTTP Basic)
//! through a registered application.

use std::time::Duration;

use access_model::{Reason, Refusal};
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::admin::{answer, failed};
use super::{Peer, Subscription, is_of, mistake, oauth, problem};
use crate::approvals::{AnswerError, Second, Waiting};
use crate::core::{Authority, unavailable};

pub(super) fn routes() -> Router<Authority> {
    Router::new().route("/", get(waiting)).route("/{id}/approve", post(approve)).route("/{id}/decline", post(decline))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    id: String,
    subject: String,
    client: Option<String>,
    roles: Vec<String>,
    within: u64,
    change: String,
}

pub(super) async fn question(
    State(authority): State<Authority>,
    Extension(peer): Extension<Peer>,
    Query(wanted): Query<Subscription>,
    body: Bytes,
) -> Response {
    if let Err(refusal) = is_of(&authority, &peer, &wanted.audience).await {
        return problem(&refusal);
    }
    let Ok(asked) = serde_json::from_slice::<Question>(&body) else {
        return mistake(StatusCode::BAD_REQUEST, "the question cannot be read");
    };
    let Question { id, subject, client, roles, within, change } = asked;
    let within = Duration::from_secs(within);
    let question = Waiting { id, audience: wanted.audience, subject, client, roles, within, change };
    match authority.ask_second(question).await {
        Ok(()) => answer(json!({ "asked": true })),
        Err(refusal) => problem(&refusal),
    }
}

/// The person at the other end.
async fn second(authority: &Authority, peer: &Peer, headers: &HeaderMap) -> Result<Second, Refusal> {
    let none = || Refusal::new(Reason::UnknownClient, "no client certificate was shown");
    let certificate = peer.certificate.ok_or_else(none)?;
    let user = authority.db().user_by_certificate(&certificate).await.map_err(unavailable)?;
    if let Some(user) = user.filter(|user| user.enabled) {
        return Ok(Second { person: user.name, application: None, address: peer.address.clone() });
    }
    let application = authority.client_by_certificate(certificate).await?.uri;
    let given = headers.get(header::AUTHORIZATION).and_then(|value| oauth::credentials(value.as_bytes()));
    let Some((name, password)) = given else {
        let detail = format!("`{application}` is an application; a person must say who it is by name and password");
        return Err(Refusal::new(Reason::UserCredentials, detail));
    };
    let person = match authority.person_by_password(&name, &password, &peer.address).await {
        Ok(person) => person,
        Err(refusal) => {
            authority.record_refusal(&name, Some(&peer.address), &refusal).await?;
            return Err(refusal);
        }
    };
    Ok(Second { person, application: Some(application), address: peer.address.clone() })
}

async fn waiting(State(authority): State<Authority>, Extension(peer): Extension<Peer>, headers: HeaderMap) -> Response {
    match second(&authority, &peer, &headers).await {
        Ok(second) => {
            let all: Vec<Value> = authority.waiting_for(&second).iter().map(described).collect();
            answer(json!({ "approvals": all }))
        }
        Err(refusal) => problem(&refusal),
    }
}

fn described(one: &Waiting) -> Value {
    json!({
        "id": one.id,
        "server": one.audience,
        "subject": one.subject,
        "client": one.client,
        "roles": one.roles,
        "within": one.within.as_secs(),
        "change": one.change,
    })
}

async fn approve(
    State(authority): State<Authority>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    answered(&authority, &peer, (&id, true), &headers).await
}

async fn decline(
    State(authority): State<Authority>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    answered(&authority, &peer, (&id, false), &headers).await
}

async fn answered(authority: &Authority, peer: &Peer, (id, yes): (&str, bool), headers: &HeaderMap) -> Response {
    let second = match second(authority, peer, headers).await {
        Ok(second) => second,
        Err(refusal) => return problem(&refusal),
    };
    match authority.answer_second(id, &second, yes).await {
        Ok(Some(one)) => {
            let mut body = described(&one);
            body["approved"] = yes.into();
            body["by"] = second.person.into();
            answer(body)
        }
        Ok(None) => mistake(StatusCode::NOT_FOUND, "no such change waits"),
        Err(AnswerError::Refused(refusal)) => problem(&refusal),
        Err(AnswerError::Authority(error)) => failed(&error),
    }
}
