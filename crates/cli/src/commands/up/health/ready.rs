//! `/readyz`: each part by name, and whether all of them are ready.

use access_model::UnixTime;
use pep::FailState;
use serde_json::{Value, json};

use super::Phase;
use super::look::{Part, View};

/// The word for how a gate stands with its authority.
pub(super) const fn word(state: FailState) -> &'static str {
    match state {
        FailState::InStep => "in_step",
        FailState::LastKnown => "last_known_good",
        FailState::ReadOnly => "read_only",
        FailState::Closed => "closed",
    }
}

/// Whether the program is ready, and the body that says so.
pub(super) fn report(view: &View) -> (bool, Value) {
    let mut parts = Vec::new();
    let trouble = view.ledger.trouble.as_ref().map(ToString::to_string);
    let about = json!({ "waiting": view.ledger.waiting, "crowded": view.ledger.is_crowded });
    parts.push(part("ledger", "ledger", trouble.is_none(), trouble, since(about, view.ledger.since)));
    if let Some(authority) = &view.authority {
        let (ready, cause) = (authority.trouble.is_none(), authority.trouble.clone());
        parts.push(part("policy", "authority", ready, cause, json!({ "epoch": authority.epoch.0 })));
    }
    view.parts.iter().for_each(|listener| of_listener(listener, &mut parts));
    for name in &view.missing {
        parts.push(part("listener", name, false, Some("it does not listen yet".to_owned()), json!({})));
    }
    let ready = view.phase == Phase::Running && parts.iter().all(|part| part["ready"] == true);
    (ready, json!({ "ready": ready, "state": view.phase.word(), "parts": parts }))
}

fn of_listener(listener: &Part, parts: &mut Vec<Value>) {
    let name = &listener.name;
    let about = json!({ "kind": listener.kind, "address": listener.address.to_string() });
    let Some(state) = &listener.state else {
        let cause = "its thread does not answer".to_owned();
        return parts.push(part("listener", name, false, Some(cause), about));
    };
    parts.push(part("listener", name, true, None, about));
    if let Some(link) = &state.link {
        let cause = (link.state != FailState::InStep).then(|| "contact with the authority is lost".to_owned());
        let about = json!({ "fail_state": word(link.state), "epoch": link.epoch.map(|epoch| epoch.0) });
        parts.push(part("authority_link", name, serves(link.state), cause, since(about, link.since)));
    }
    for zone in &state.zones {
        let left = zone.authority.max(zone.ledger);
        let cause = (left != FailState::InStep).then(|| "its authority or the audit ledger is lost".to_owned());
        let about = json!({ "zone": zone.name, "authority": word(zone.authority), "ledger": word(zone.ledger) });
        parts.push(part("zone", name, serves(left), cause, about));
    }
    if state.ledger != FailState::InStep {
        let cause = "nothing can be recorded".to_owned();
        parts.push(part("recording", name, serves(state.ledger), Some(cause), json!({ "left": word(state.ledger) })));
    }
    if let Some(turn) = &listener.turn {
        let (other, authority) = turn.reached;
        let about = json!({
            "role": if turn.active { "active" } else { "standby" },
            "since": store::rfc3339(turn.since).to_string(),
            "term": turn.term,
            "span_seconds": turn.span.as_secs_f64(),
            "other": other,
            "authority": authority,
            "third": turn.third,
            "yields": turn.yields,
        });
        let alone = (!other && !authority).then_some("neither the other guard nor the authority answers");
        let cause = turn.third.then_some("two others take turns, and this is a third").or(alone).map(str::to_owned);
        parts.push(part("turn", name, cause.is_none(), cause, about));
    }
    if let Some(trouble) = &listener.upstream {
        let (cause, began) = trouble.clone().unzip();
        parts.push(part("upstream", name, trouble.is_none(), cause, since(json!({}), began.flatten())));
    }
}

const fn serves(state: FailState) -> bool {
    matches!(state, FailState::InStep | FailState::LastKnown)
}

/// With the time at which it began.
fn since(mut about: Value, began: Option<UnixTime>) -> Value {
    if let (Some(about), Some(began)) = (about.as_object_mut(), began) {
        about.insert("since".to_owned(), store::rfc3339(began).to_string().into());
    }
    about
}

fn part(part: &str, name: &str, ready: bool, cause: Option<String>, more: Value) -> Value {
    let mut said = json!({ "part": part, "name": name, "ready": ready });
    if let Some(said) = said.as_object_mut() {
        said.extend(cause.map(|cause| ("cause".to_owned(), cause.into())));
        said.extend(more.as_object().cloned().unwrap_or_default());
    }
    said
}
