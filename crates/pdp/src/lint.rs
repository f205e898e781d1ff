//! Looks at policies that load and says what is odd about them: rules that can never apply in this plant, permits
//! that a forbid always beats, one policy for each node where data would do, steps and transitions that never happen.

mod interlocks;

use std::collections::{BTreeMap, BTreeSet};

use access_model::{Action, Effect, Principal};
use cedar_policy::{Authorizer, EntityUid, PolicySet, PrincipalConstraint, ResourceConstraint};
use serde_json::Value;

use crate::decide::Asking;
use crate::fault::Faults;
use crate::grant::examples;
use crate::kinds::Kind;
use crate::rules::Rule;
use crate::snapshot::Snapshot;
use crate::world::internal;

/// So many rules that differ only in one name are a smell.
const SMELL: usize = 5;
/// So many questions are tried to find one that a rule applies to.
const MAX_QUESTIONS: usize = 200_000;
/// So many different markings are tried.
const MAX_STANDINGS: usize = 256;

/// Something odd.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Line of the policy, 0 when the finding is not about one.
    pub line: usize,
    /// What kind of oddity.
    pub kind: FindingKind,
    /// The policy, when the finding is about one.
    pub policy: Option<String>,
    /// What is odd: a sentence without capital or full stop.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Kinds of oddity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingKind {
    /// The schema says that it can never apply, or a name looks like another.
    Schema,
    /// Nothing in this plant can make it apply.
    Unreachable,
    /// Whenever it permits, another rule forbids.
    Shadowed,
    /// There were too many questions to try them all.
    NotExamined,
    /// Many policies that differ only in the node, or only in the person, they name.
    OnePolicyPerNode,
    /// The policy has no `@id`.
    Unnamed,
    /// A bound that never counts, or an approval that nobody can give.
    Interlock,
    /// A transition never fires, or the workflow can get stuck.
    Workflow,
}

impl FindingKind {
    /// The stable word for this kind.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Schema => "schema",
            Self::Unreachable => "unreachable",
            Self::Shadowed => "shadowed",
            Self::NotExamined => "not_examined",
            Self::OnePolicyPerNode => "one_policy_per_node",
            Self::Unnamed => "unnamed",
            Self::Interlock => "interlock",
            Self::Workflow => "workflow",
        }
    }
}

/// Everything odd about a snapshot, in the order of the file.
///
/// # Errors
/// Never for a snapshot that was loaded.
pub fn check(snapshot: &Snapshot) -> Result<Vec<Finding>, Faults> {
    let rules = &snapshot.loaded.rules;
    let mut findings = Vec::new();
    for (id, message) in rules.validator_warnings(&snapshot.loaded.world)? {
        let rule = rules.list.iter().find(|rule| rule.id == id);
        findings.push(finding(FindingKind::Schema, rule, message, None));
    }
    let questions = Questions::new(snapshot);
    for rule in &rules.list {
        findings.extend(unnamed(rule));
        findings.extend(questions.reach(rule)?);
    }
    findings.extend(smells(&rules.list));
    findings.extend(interlocks::check(&snapshot.loaded.world.plant));
    findings.extend(workflow(snapshot));
    findings.sort();
    Ok(findings)
}

fn finding(kind: FindingKind, rule: Option<&Rule>, message: String, hint: Option<&str>) -> Finding {
    Finding {
        line: rule.map_or(0, |rule| rule.line),
        kind,
        policy: rule.map(|rule| rule.id.clone()),
        message,
        hint: hint.map(str::to_owned),
    }
}

fn unnamed(rule: &Rule) -> Option<Finding> {
    let message = format!("the policy in line {} has no id, reasons will call it `{}`", rule.line, rule.id);
    let named = rule.policy.annotation("id").is_some();
    (!named).then(|| finding(FindingKind::Unnamed, Some(rule), message, Some("write `@id(\"…\")` in front of it")))
}

/// The questions of this plant, one of each sort.
struct Questions<'a> {
    snapshot: &'a Snapshot,
    /// Who asks, with a reason when break-glass roles are meant.
    askers: Vec<(Principal, Option<&'static str>)>,
    applications: Vec<String>,
    scopes: Vec<EntityUid>,
    standings: Vec<Snapshot>,
    all_standings: bool,
}

#[derive(PartialEq, Eq)]
enum Reached {
    Never,
    Forbidden,
    Applies,
}

impl<'a> Questions<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let world = &snapshot.loaded.world;
        let named = &snapshot.loaded.rules.named;
        let mut sorts = BTreeSet::new();
        let mut askers = Vec::new();
        for name in world.plant.persons.keys() {
            let uid = world.uid(Kind::Person, name);
            let itself = Some(&uid).filter(|uid| named.contains(uid)).cloned();
            let Some(person) = world.plant.persons.get(name) else { continue };
            if sorts.insert((itself, &person.roles, &person.groups, &person.assigned, &person.company, &person.labels))
            {
                askers.push((snapshot.principal(Some(name), None, false), None));
                if world.persons.get(name).is_some_and(|asker| !asker.emergency.is_empty()) {
                    askers.push((snapshot.principal(Some(name), None, true), Some("policy check")));
                }
            }
        }
        let mut kinds = BTreeSet::new();
        let mut applications = Vec::new();
        for (uri, one) in &world.plant.applications {
            let itself = Some(uri).filter(|uri| named.contains(&world.uid(Kind::Application, uri)));
            if kinds.insert((itself, &one.roles, &one.assigned, &one.company, &one.labels)) {
                applications.push(uri.clone());
                askers.push((snapshot.principal(None, Some(uri), false), None));
            }
        }
        let reach = world.workflow.reach();
        let mut seen = BTreeSet::new();
        let fresh =
            reach.markings.iter().filter(|marking| seen.insert(world.workflow.marked(marking).collect::<Vec<_>>()));
        let mut standings: Vec<Snapshot> =
            fresh.map(|marking| snapshot.with_marking(marking.clone(), snapshot.epoch())).collect();
        let all_standings = standings.len() <= MAX_STANDINGS;
        standings.truncate(MAX_STANDINGS);
        Self { snapshot, askers, applications, scopes: examples(snapshot), standings, all_standings }
    }

    fn reach(&self, rule: &Rule) -> Result<Option<Finding>, Faults> {
        let mut budget = MAX_QUESTIONS;
        let reached = self.try_all(rule, &mut budget)?;
        Ok(match reached {
            Reached::Applies => None,
            _ if budget == 0 || !self.all_standings => {
                let message =
                    format!("policy `{}` applied to none of {MAX_QUESTIONS} questions; there are more", rule.id);
                Some(finding(FindingKind::NotExamined, Some(rule), message, None))
            }
            Reached::Forbidden => {
                let message = format!("whenever policy `{}` permits, another policy forbids", rule.id);
                Some(finding(
                    FindingKind::Shadowed,
                    Some(rule),
                    message,
                    Some("remove it, or narrow the one that forbids"),
                ))
            }
            Reached::Never => {
                let message = format!("nobody in this plant can do anything that policy `{}` speaks of", rule.id);
                let hint = "does somebody hold its role, does a scope carry its labels, is its step ever reached?";
                Some(finding(FindingKind::Unreachable, Some(rule), message, Some(hint)))
            }
        })
    }

    fn try_all(&self, rule: &Rule, budget: &mut usize) -> Result<Reached, Faults> {
        let alone = PolicySet::from_policies([rule.policy.clone()]).map_err(internal)?;
        let here = [self.snapshot.clone()];
        let standings = if rule.asks_marking { self.standings.as_slice() } else { here.as_slice() };
        let through = if reads(&rule.json, "application") { self.applications.as_slice() } else { &[] };
        let mut reached = Reached::Never;
        for standing in standings {
            for (principal, reason) in &self.askers {
                let uris = through.iter().filter(|_| principal.person.is_some()).map(Some);
                for uri in std::iter::once(None).chain(uris) {
                    let mut principal = principal.clone();
                    if let Some(uri) = uri {
                        principal.application = Some(access_model::ApplicationUri(uri.clone()));
                    }
                    let Ok(asking) = Asking::new(standing, &principal, *reason, &self.scopes) else { continue };
                    match self.try_scopes(rule, &alone, &asking, budget) {
                        Reached::Applies => return Ok(Reached::Applies),
                        Reached::Forbidden => reached = Reached::Forbidden,
                        Reached::Never => {}
                    }
                    if *budget == 0 {
                        return Ok(reached);
                    }
                }
            }
        }
        Ok(reached)
    }

    fn try_scopes(&self, rule: &Rule, alone: &PolicySet, asking: &Asking<'_>, budget: &mut usize) -> Reached {
        let rules = &self.snapshot.loaded.rules;
        let authorizer = Authorizer::new();
        let fitting: Vec<(&Action, &EntityUid)> = rules
            .by_action
            .iter()
            .filter(|(_, fitting)| fitting.set.policy(rule.policy.id()).is_some())
            .map(|(action, fitting)| (action, &fitting.action))
            .collect();
        let mut reached = Reached::Never;
        for scope in &self.scopes {
            for (action, uid) in &fitting {
                *budget = budget.saturating_sub(1);
                let Some(request) = asking.request(uid, scope) else { continue };
                let response = authorizer.is_authorized(&request, alone, asking.entities());
                if response.diagnostics().reason().next().is_none() {
                    continue;
                }
                if rule.effect == Effect::Forbid || asking.judge(**action, scope).effect == Effect::Permit {
                    return Reached::Applies;
                }
                reached = Reached::Forbidden;
            }
            if *budget == 0 {
                break;
            }
        }
        reached
    }
}

/// Whether a policy reads this attribute of anything.
fn reads(json: &Value, attribute: &str) -> bool {
    match json {
        Value::Object(map) => {
            map.get("attr").and_then(Value::as_str) == Some(attribute)
                || map.values().any(|inner| reads(inner, attribute))
        }
        Value::Array(list) => list.iter().any(|inner| reads(inner, attribute)),
        _ => false,
    }
}

fn smells(rules: &[Rule]) -> Vec<Finding> {
    let mut by_node: BTreeMap<String, Vec<(&Rule, String)>> = BTreeMap::new();
    let mut by_person: BTreeMap<String, Vec<(&Rule, String)>> = BTreeMap::new();
    let mut findings = Vec::new();
    for rule in rules {
        let (principal, resource) = (rule.policy.principal_constraint(), rule.policy.resource_constraint());
        let rest = format!("{:?} {:?}", rule.effect, rule.policy.action_constraint());
        if let ResourceConstraint::Eq(uid) = &resource {
            by_node.entry(format!("{rest} {principal:?}")).or_default().push((rule, uid.to_string()));
        }
        if let PrincipalConstraint::Eq(uid) = &principal {
            by_person.entry(format!("{rest} {resource:?}")).or_default().push((rule, uid.to_string()));
        }
        let nodes = rule.names.iter().filter(|uid| matches!(Kind::of(uid), Some(Kind::Scope | Kind::Method))).count();
        if nodes >= SMELL {
            let message = format!("policy `{}` names {nodes} scopes", rule.id);
            let hint = "give these scopes a common label, equipment or zone and ask for that";
            findings.push(finding(FindingKind::OnePolicyPerNode, Some(rule), message, Some(hint)));
        }
    }
    let total = rules.len();
    for (groups, what, hint) in [
        (by_node, "scope", "give these scopes a label and write one policy that asks for it"),
        (by_person, "person", "give these persons a role and write one policy for it"),
    ] {
        for group in groups.into_values().filter(|group| group.len() >= SMELL) {
            let names: Vec<&str> = group.iter().take(3).map(|(_, name)| name.as_str()).collect();
            let message = format!(
                "{} of {total} policies differ only in the {what} they name ({}, …)",
                group.len(),
                names.join(", ")
            );
            let first = group.first().map(|(rule, _)| *rule);
            findings.push(finding(FindingKind::OnePolicyPerNode, first, message, Some(hint)));
        }
    }
    findings
}

fn workflow(snapshot: &Snapshot) -> Vec<Finding> {
    let workflow = snapshot.workflow();
    let reach = workflow.reach();
    let dead = reach
        .dead
        .iter()
        .map(|name| finding(FindingKind::Workflow, None, format!("transition `{name}` never fires"), None));
    let stuck = reach.stuck.iter().filter(|_| workflow.transitions().next().is_some()).map(|marking| {
        let steps: Vec<&str> = workflow.marked(marking).collect();
        let message = format!("the workflow can get stuck in `{}`", steps.join("`, `"));
        finding(FindingKind::Workflow, None, message, Some("add a transition that leads out"))
    });
    dead.chain(stuck).collect()
}
