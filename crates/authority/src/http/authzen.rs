//! OpenID AuthZEN Authorization API 1.0: `POST /access/v1/evaluation` and `/access/v1/evaluations`, for enforcement points
//! that ask instead of reading tokens. The asker's certificate must have an evaluator's or administrator's role.
//!
//! `subject`: type `person` or `user` (id: the person) or `application` (id: its uri); `properties.application` is the
//! application a person asks through. `action.name`: as in policies. `resource`: type `scope` or `method`, id
//! `server/scope` as in policies. `context.break_glass_reason`: breaks the glass. A denial carries `context.reason`, a
//! stable word, and `context.reason_admin.en`, one sentence: the rule that forbids it, or what is missing. An
//! `X-Request-ID` comes back with the answer.

use access_model::{AccessRequest, Action, Actor, AuditKind, Decision, Effect, Outcome, Reason};
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use pdp::{Snapshot, answer, explain};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Peer, mistake, problem, proven_with_role};
use crate::core::{Authority, unavailable};
use crate::denial;

/// What a request is called by whoever asks.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The most questions of one request.
const MAX_EVALUATIONS: usize = 1_000;
/// A request with more of them is not told why each was denied.
const MAX_EXPLAINED: usize = 16;

#[derive(Clone, Deserialize)]
struct Question {
    subject: Option<Entity>,
    action: Option<Named>,
    resource: Option<Entity>,
    context: Option<Value>,
}

#[derive(Clone, Deserialize)]
struct Entity {
    #[serde(rename = "type")]
    kind: String,
    id: String,
    #[serde(default)]
    properties: Value,
}

#[derive(Clone, Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Many {
    #[serde(flatten)]
    default: Question,
    #[serde(default)]
    evaluations: Vec<Question>,
    #[serde(default)]
    options: Options,
}

#[derive(Default, Deserialize)]
struct Options {
    #[serde(default)]
    evaluations_semantic: Semantic,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Semantic {
    #[default]
    ExecuteAll,
    DenyOnFirstDeny,
    PermitOnFirstPermit,
}

pub(super) async fn metadata(State(authority): State<Authority>) -> Response {
    let base = &authority.config().issuer;
    Json(json!({
        "policy_decision_point": base,
        "access_evaluation_endpoint": format!("{base}/access/v1/evaluation"),
        "access_evaluations_endpoint": format!("{base}/access/v1/evaluations"),
    }))
    .into_response()
}

pub(super) async fn evaluation(
    State(authority): State<Authority>,
    Extension(peer): Extension<Peer>,
    body: Bytes,
) -> Response {
    let by = match evaluator(&authority, &peer).await {
        Ok(by) => by,
        Err(refused) => return refused,
    };
    let question: Question = match serde_json::from_slice(&body) {
        Ok(question) => question,
        Err(error) => return mistake(StatusCode::BAD_REQUEST, error),
    };
    match decide(&authority, &authority.snapshot(), &question, &by, true).await {
        Ok((_, answer)) => no_store(answer),
        Err(response) => response,
    }
}

pub(super) async fn evaluations(
    State(authority): State<Authority>,
    Extension(peer): Extension<Peer>,
    body: Bytes,
) -> Response {
    let by = match evaluator(&authority, &peer).await {
        Ok(by) => by,
        Err(refused) => return refused,
    };
    let many: Many = match serde_json::from_slice(&body) {
        Ok(many) => many,
        Err(error) => return mistake(StatusCode::BAD_REQUEST, error),
    };
    if many.evaluations.len() > MAX_EVALUATIONS {
        return mistake(StatusCode::PAYLOAD_TOO_LARGE, format!("at most {MAX_EVALUATIONS} evaluations"));
    }
    // One snapshot for all: a change in between would mix two policies in one answer.
    let snapshot = authority.snapshot();
    if many.evaluations.is_empty() {
        return match decide(&authority, &snapshot, &many.default, &by, true).await {
            Ok((_, answer)) => no_store(answer),
            Err(response) => response,
        };
    }
    let mut answers = Vec::with_capacity(many.evaluations.len());
    let explained = many.evaluations.len() <= MAX_EXPLAINED;
    for question in many.evaluations {
        let (permitted, answer) = match decide(&authority, &snapshot, &question.or(&many.default), &by, explained).await
        {
            Ok(decided) => decided,
            Err(response) => return response,
        };
        answers.push(answer);
        let stop = match many.options.evaluations_semantic {
            Semantic::ExecuteAll => false,
            Semantic::DenyOnFirstDeny => !permitted,
            Semantic::PermitOnFirstPermit => permitted,
        };
        if stop {
            break;
        }
    }
    no_store(json!({ "evaluations": answers }))
}

/// "If the PEP specified a request identifier in the request, the PDP MUST include the same identifier in the response"
/// (Authorization API 1.0, Request Identification): in whatever is answered under `/access/`.
pub(super) async fn same_request_id(request: Request, next: Next) -> Response {
    let asked = request.uri().path().starts_with("/access/");
    let id = request.headers().get(REQUEST_ID).filter(|_| asked).cloned();
    let mut response = next.run(request).await;
    if let Some(id) = id {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

async fn evaluator(authority: &Authority, peer: &Peer) -> Result<Actor, Response> {
    let config = authority.config();
    let allowed = proven_with_role(authority, peer, &[&config.evaluator_roles, &config.admin_roles]).await;
    allowed.map_err(|refusal| problem(&refusal))
}

impl Question {
    fn or(self, default: &Self) -> Self {
        Self {
            subject: self.subject.or_else(|| default.subject.clone()),
            action: self.action.or_else(|| default.action.clone()),
            resource: self.resource.or_else(|| default.resource.clone()),
            context: self.context.or_else(|| default.context.clone()),
        }
    }
}

async fn decide(
    authority: &Authority,
    snapshot: &Snapshot,
    question: &Question,
    by: &Actor,
    explained: bool,
) -> Result<(bool, Value), Response> {
    let request =
        request(authority, snapshot, question).map_err(|message| mistake(StatusCode::BAD_REQUEST, message))?;
    let (decision, why) = match answer(snapshot, &request) {
        Ok(decision) => (decision, None),
        Err(unasked) => (pdp::decide(snapshot, &request), Some(unasked.to_string())),
    };
    let permitted = decision.effect == Effect::Permit;
    let outcome = if permitted { Outcome::Allowed } else { Outcome::Denied(reason(&decision)) };
    let object = format!("{}/{}", request.server, request.scope);
    let detail = format!("may {} {}?", request.principal.name(), request.action.name());
    let kept = authority.record(AuditKind::Decision, by, &object, outcome, &detail).await;
    kept.map_err(|error| problem(&unavailable(error)))?;
    let policies: Vec<&str> = decision.reasons.iter().map(|reason| reason.policy.as_str()).collect();
    let mut context = json!({ "policies": policies, "epoch": decision.epoch.0 });
    if let Value::Object(context) = &mut context {
        if permitted {
            context.insert("not_after".into(), decision.not_after.as_seconds().into());
            context.insert("depends_on".into(), json!(decision.depends_on));
        } else {
            context.insert("reason".into(), reason(&decision).word().into());
            if explained {
                let (snapshot, request) = (snapshot.clone(), request.clone());
                let work = move || denial::sentence(&explain(&snapshot, &request));
                let sentence = tokio::task::spawn_blocking(work).await.unwrap_or_default();
                context.insert("reason_admin".into(), json!({ "en": sentence }));
            }
        }
        if let Some(why) = why {
            context.insert("detail".into(), why.into());
        }
    }
    Ok((permitted, json!({ "decision": permitted, "context": context })))
}

fn reason(decision: &Decision) -> Reason {
    if decision.reasons.is_empty() { Reason::PolicyNoPermit } else { Reason::PolicyForbids }
}

fn request(authority: &Authority, snapshot: &Snapshot, question: &Question) -> Result<AccessRequest, String> {
    let subject = question.subject.as_ref().ok_or("`subject` is missing")?;
    let action = question.action.as_ref().ok_or("`action` is missing")?;
    let resource = question.resource.as_ref().ok_or("`resource` is missing")?;
    let known = Action::ALL.into_iter().find(|known| known.name() == action.name);
    let action = known.ok_or_else(|| format!("no action is called `{}`", action.name))?;
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let (person, application) = match subject.kind.as_str() {
        "person" | "user" => (Some(subject.id.as_str()), text(subject.properties.get("application"))),
        "application" => (None, Some(subject.id.clone())),
        other => return Err(format!("`{other}` is no subject type; there is `person` and `application`")),
    };
    if !matches!(resource.kind.as_str(), "scope" | "method") {
        return Err(format!("`{}` is no resource type; there is `scope` and `method`", resource.kind));
    }
    let (server, scope) = resource.id.split_once('/').ok_or("a resource id is `server/scope`")?;
    let uri = snapshot.plant().server(server).map_or(server, |(uri, _)| uri);
    let break_glass = text(question.context.as_ref().and_then(|context| context.get("break_glass_reason")));
    Ok(AccessRequest {
        principal: snapshot.principal(person, application.as_deref(), break_glass.is_some()),
        action,
        server: uri.to_owned(),
        scope: scope.to_owned(),
        at: authority.now().unix,
        break_glass,
    })
}

fn no_store(body: Value) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}
