//! A rule taken apart: its head and each of its conditions, evaluated one by one.

use std::fmt;

use cedar_policy::{
    ActionConstraint, Authorizer, Entities, Policy, PolicySet, PrincipalConstraint, Request, ResourceConstraint,
};
use serde_json::{Value, json};

use crate::rules::Rule;

/// One part of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// The part as Cedar writes it.
    pub text: String,
    /// Whether it held; `None` when it could not be evaluated.
    pub holds: Option<bool>,
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.holds {
            Some(true) => "holds  ",
            Some(false) => "MISSING",
            None => "FAILED ",
        };
        write!(f, "{mark} {}", self.text)
    }
}

pub(super) fn of(rule: &Rule, request: &Request, entities: &Entities) -> Vec<Clause> {
    let mut parts: Vec<(String, Value)> = Vec::new();
    for (name, text) in [
        ("principal", principal(&rule.policy.principal_constraint())),
        ("action", action(&rule.policy.action_constraint())),
        ("resource", resource(&rule.policy.resource_constraint())),
    ] {
        if let (Some(text), Some(head)) = (text, rule.json.get(name)) {
            let mut bare = bare();
            if let Some(slot) = bare.get_mut(name) {
                *slot = head.clone();
            }
            parts.push((text, bare));
        }
    }
    for condition in rule.json.get("conditions").and_then(Value::as_array).into_iter().flatten() {
        parts.extend(conditions(condition));
    }
    parts.into_iter().map(|(text, policy)| Clause { holds: holds(policy, request, entities), text }).collect()
}

/// A policy that permits everything.
fn bare() -> Value {
    json!({
        "effect": "permit",
        "principal": { "op": "All" },
        "action": { "op": "All" },
        "resource": { "op": "All" },
        "conditions": []
    })
}

/// `when { a && b }` needs a and b; `unless { a || b }` needs neither.
fn conditions(condition: &Value) -> Vec<(String, Value)> {
    let kind = condition.get("kind").and_then(Value::as_str).unwrap_or("when");
    let operator = if kind == "unless" { "||" } else { "&&" };
    let mut parts = Vec::new();
    let mut open: Vec<&Value> = condition.get("body").into_iter().collect();
    while let Some(expression) = open.pop() {
        let sides = expression.get(operator).map(|both| (both.get("left"), both.get("right")));
        if let Some((Some(left), Some(right))) = sides {
            open.extend([right, left]);
            continue;
        }
        let mut policy = bare();
        if let Some(slot) = policy.get_mut("conditions") {
            *slot = json!([{ "kind": kind, "body": expression }]);
        }
        let text = written(&policy).unwrap_or_else(|| expression.to_string());
        parts.push((text, policy));
    }
    parts
}

/// The condition of a policy that has only one, as Cedar writes it.
fn written(policy: &Value) -> Option<String> {
    let text = Policy::from_json(None, policy.clone()).ok()?.to_cedar()?;
    let (_, body) = text.split_once('{')?;
    let (body, _) = body.rsplit_once('}')?;
    Some(body.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn holds(policy: Value, request: &Request, entities: &Entities) -> Option<bool> {
    let set = PolicySet::from_policies([Policy::from_json(None, policy).ok()?]).ok()?;
    let response = Authorizer::new().is_authorized(request, &set, entities);
    if response.diagnostics().errors().next().is_some() {
        return None;
    }
    Some(response.decision() == cedar_policy::Decision::Allow)
}

fn principal(constraint: &PrincipalConstraint) -> Option<String> {
    match constraint {
        PrincipalConstraint::Any => None,
        PrincipalConstraint::In(uid) => Some(format!("principal in {uid}")),
        PrincipalConstraint::Eq(uid) => Some(format!("principal == {uid}")),
        PrincipalConstraint::Is(kind) => Some(format!("principal is {kind}")),
        PrincipalConstraint::IsIn(kind, uid) => Some(format!("principal is {kind} in {uid}")),
    }
}

fn action(constraint: &ActionConstraint) -> Option<String> {
    match constraint {
        ActionConstraint::Any => None,
        ActionConstraint::Eq(uid) => Some(format!("action == {uid}")),
        ActionConstraint::In(list) => {
            let names: Vec<String> = list.iter().map(ToString::to_string).collect();
            Some(format!("action in [{}]", names.join(", ")))
        }
    }
}

fn resource(constraint: &ResourceConstraint) -> Option<String> {
    match constraint {
        ResourceConstraint::Any => None,
        ResourceConstraint::In(uid) => Some(format!("resource in {uid}")),
        ResourceConstraint::Eq(uid) => Some(format!("resource == {uid}")),
        ResourceConstraint::Is(kind) => Some(format!("resource is {kind}")),
        ResourceConstraint::IsIn(kind, uid) => Some(format!("resource is {kind} in {uid}")),
    }
}
