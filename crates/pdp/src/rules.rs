//! The policies of a snapshot: parsed, named, checked against schema and plant.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use access_model::{Action, Effect};
use cedar_policy::{ActionConstraint, EntityUid, Policy, PolicyId, PolicySet, ValidationMode, Validator};
use miette::Diagnostic;
use serde_json::Value;

use crate::fault::{FaultList, Faults, Origin, nearest, place, suggest};
use crate::kinds::Kind;
use crate::plant::parse_duration;
use crate::world::{World, decided_actions, internal};

/// The largest policy file that is read, in bytes.
pub const MAX_POLICY_FILE: usize = 16 << 20;

/// What may stand in front of a policy as `@name("text")`.
const ANNOTATIONS: [&str; 3] = ["id", "lifetime", "description"];

/// All rules, in the order of the file, and for each action those that can apply to it.
pub(crate) struct Rules {
    pub list: Vec<Rule>,
    pub by_action: BTreeMap<Action, ActionRules>,
    /// Everything that some rule names.
    pub named: BTreeSet<EntityUid>,
    number: HashMap<PolicyId, usize>,
}

/// The rules that can apply to one action.
pub(crate) struct ActionRules {
    pub action: EntityUid,
    pub set: PolicySet,
    /// Without one nothing can be permitted.
    pub permits: bool,
    /// Some rule asks for the marking.
    pub asks_marking: bool,
}

/// One policy.
pub(crate) struct Rule {
    pub id: String,
    pub effect: Effect,
    pub policy: Policy,
    /// The policy as JSON (Cedar's EST).
    pub json: Value,
    pub line: usize,
    pub lifetime: Option<Duration>,
    /// It reads the marking.
    pub asks_marking: bool,
    /// It reads the steps of the scope.
    pub asks_scope_steps: bool,
    /// Steps, phases and everything else it names.
    pub names: Vec<EntityUid>,
}

impl Rules {
    pub(crate) fn load(text: &str, world: &World) -> Result<Self, Faults> {
        let mut faults = FaultList::new(Origin::Policies, text);
        if text.len() > MAX_POLICY_FILE {
            faults.add(0..0, format!("the file has {} bytes, at most {MAX_POLICY_FILE} are read", text.len()), None);
            return Err(faults.finish().err().unwrap_or(Faults(Vec::new())));
        }
        let parsed = PolicySet::from_str(text).map_err(|errors| {
            let mut faults = FaultList::new(Origin::Policies, text);
            errors.iter().for_each(|error| diagnose(&mut faults, error, text));
            faults.finish().err().unwrap_or(Faults(Vec::new()))
        })?;
        for template in parsed.templates() {
            let hint = Some("write the entity instead of `?principal` or `?resource`".to_owned());
            faults.add(0..0, format!("`{}` is a template", template.id()), hint);
        }
        let mut policies: Vec<(Range<usize>, &Policy)> =
            parsed.policies().map(|policy| (span(policy), policy)).collect();
        policies.sort_by_key(|(at, _)| at.start);
        let mut list = Vec::with_capacity(policies.len());
        for (number, (at, policy)) in policies.into_iter().enumerate() {
            list.push(rule(number, text, at, policy, world, &mut faults)?);
        }
        distinct(&list, text, &mut faults);
        faults.finish()?;
        let rules = Self::index(list, world)?;
        rules.validate(text, world)?;
        Ok(rules)
    }

    /// The rules that Cedar names in an answer, sorted by their place in the file.
    pub(crate) fn of<'a>(&'a self, ids: impl Iterator<Item = &'a PolicyId>) -> Vec<&'a Rule> {
        let mut numbers: Vec<usize> = ids.filter_map(|id| self.number.get(id).copied()).collect();
        numbers.sort_unstable();
        numbers.into_iter().filter_map(|number| self.list.get(number)).collect()
    }

    pub(crate) fn validator_warnings(&self, world: &World) -> Result<Vec<(String, String)>, Faults> {
        let result = Validator::new(world.schema.clone()).validate(&self.all()?, ValidationMode::Strict);
        let mut all: Vec<(String, String)> = result
            .validation_warnings()
            .map(|warning| (warning.policy_id().to_string(), warning.to_string()))
            .collect();
        all.sort();
        Ok(all)
    }

    fn all(&self) -> Result<PolicySet, Faults> {
        PolicySet::from_policies(self.list.iter().map(|rule| rule.policy.clone())).map_err(internal)
    }

    fn validate(&self, text: &str, world: &World) -> Result<(), Faults> {
        let mut faults = FaultList::new(Origin::Policies, text);
        let result = Validator::new(world.schema.clone()).validate(&self.all()?, ValidationMode::Strict);
        for error in result.validation_errors() {
            diagnose(&mut faults, error, text);
        }
        faults.finish()
    }

    fn index(list: Vec<Rule>, world: &World) -> Result<Self, Faults> {
        let mut by_action = BTreeMap::new();
        for action in decided_actions() {
            let uid = world.uid(Kind::Action, action.name());
            let fitting: Vec<&Rule> = list.iter().filter(|rule| fits(&rule.policy, &uid, world)).collect();
            let set = PolicySet::from_policies(fitting.iter().map(|rule| rule.policy.clone())).map_err(internal)?;
            let permits = fitting.iter().any(|rule| rule.effect == Effect::Permit);
            let asks_marking = fitting.iter().any(|rule| rule.asks_marking);
            by_action.insert(action, ActionRules { action: uid, set, permits, asks_marking });
        }
        let number = list.iter().enumerate().map(|(at, rule)| (rule.policy.id().clone(), at)).collect();
        let named = list.iter().flat_map(|rule| rule.names.iter().cloned()).collect();
        Ok(Self { list, by_action, named, number })
    }
}

fn fits(policy: &Policy, action: &EntityUid, world: &World) -> bool {
    let covers = |named: &EntityUid| named == action || world.entities.is_ancestor_of(named, action);
    match policy.action_constraint() {
        ActionConstraint::Any => true,
        ActionConstraint::Eq(uid) => uid == *action,
        ActionConstraint::In(list) => list.iter().any(covers),
    }
}

fn span(policy: &Policy) -> Range<usize> {
    policy.as_ref().loc().map_or(0..0, |loc| loc.span.offset()..loc.span.offset() + loc.span.len())
}

fn rule(
    number: usize,
    text: &str,
    at: Range<usize>,
    policy: &Policy,
    world: &World,
    faults: &mut FaultList<'_>,
) -> Result<Rule, Faults> {
    let id = policy.annotation("id").map_or_else(|| format!("policy{number}"), str::to_owned);
    if id.is_empty() || id.len() > 256 || id.chars().any(char::is_control) {
        faults.add(at.clone(), "the id of a policy is empty, longer than 256 bytes or holds a control character", None);
    }
    let mut annotations: Vec<&str> = policy.annotations().map(|(name, _)| name).collect();
    annotations.sort_unstable();
    for name in annotations.into_iter().filter(|name| !ANNOTATIONS.contains(name)) {
        let hint = nearest(name, ANNOTATIONS).map(|near| format!("did you mean `@{near}`?"));
        let hint = hint.or(Some(format!("there is `@{}`", ANNOTATIONS.join("`, `@"))));
        faults.add(
            find(text, &at, &format!("@{name}")),
            format!("policy `{id}` has an unknown annotation `@{name}`"),
            hint,
        );
    }
    let lifetime = policy.annotation("lifetime").and_then(|written| {
        parse_duration(written).map_err(|bad| faults.add(find(text, &at, "@lifetime"), bad.0, None)).ok()
    });
    let json = policy.to_json().map_err(internal)?;
    let mut names = policy.entity_literals();
    names.sort_unstable();
    names.dedup();
    unknown_names(text, &at, &names, world, faults);
    let (line, _) = place(text, at.start);
    Ok(Rule {
        effect: if policy.effect() == cedar_policy::Effect::Permit { Effect::Permit } else { Effect::Forbid },
        policy: policy.new_id(PolicyId::new(&id)),
        id,
        lifetime,
        line,
        asks_marking: reads_marking(&json),
        asks_scope_steps: reads_scope_steps(&json),
        names,
        json,
    })
}

fn unknown_names(text: &str, at: &Range<usize>, names: &[EntityUid], world: &World, faults: &mut FaultList<'_>) {
    for uid in names {
        // An unknown action or type is the validator's to name.
        let Some(kind) = Kind::of(uid).filter(|kind| *kind != Kind::Action && !world.knows(uid)) else { continue };
        let word = uid.id().unescaped();
        let hint = suggest(word, world.ids(kind).iter().copied());
        faults.add(
            find(text, at, &uid.to_string()),
            format!("no {} is called `{word}`", kind.name().to_lowercase()),
            hint,
        );
    }
}

fn distinct(list: &[Rule], text: &str, faults: &mut FaultList<'_>) {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for rule in list {
        if let Some(first) = lines.insert(&rule.id, rule.line) {
            let start: usize = text.split_inclusive('\n').take(rule.line - 1).map(str::len).sum();
            let message = format!("policy `{}` has the id of the policy in line {first}", rule.id);
            faults.add(start..start, message, Some("give each policy its own `@id(\"…\")`".into()));
        }
    }
}

/// Where `needle` stands inside a policy, or the policy itself.
fn find(text: &str, at: &Range<usize>, needle: &str) -> Range<usize> {
    let found = text.get(at.clone()).and_then(|inside| inside.find(needle));
    found.map_or(at.clone(), |offset| at.start + offset..at.start + offset + needle.len())
}

fn diagnose(faults: &mut FaultList<'_>, error: &dyn Diagnostic, text: &str) {
    let label = error.labels().and_then(|mut labels| labels.next());
    let at = label.as_ref().map_or(0..0, |label| label.offset()..(label.offset() + label.len()).min(text.len()));
    let mut message = error.to_string();
    if let Some(more) = label.as_ref().and_then(|label| label.label()) {
        message = format!("{message}: {more}");
    }
    faults.add(at, message, error.help().map(|help| help.to_string()));
}

/// Whether a policy reads `context.steps` or `context.phases`. A use of the whole context counts.
fn reads_marking(json: &Value) -> bool {
    match json {
        Value::Object(map) => {
            if map.get("Var").and_then(Value::as_str) == Some("context") {
                return true;
            }
            for operator in [".", "has"] {
                let Some(access) = map.get(operator) else { continue };
                if access.pointer("/left/Var").and_then(Value::as_str) == Some("context") {
                    return matches!(access.get("attr").and_then(Value::as_str), Some("steps" | "phases"));
                }
            }
            map.values().any(reads_marking)
        }
        Value::Array(list) => list.iter().any(reads_marking),
        _ => false,
    }
}

/// Whether a policy reads the attribute `steps` of anything but the context.
fn reads_scope_steps(json: &Value) -> bool {
    match json {
        Value::Object(map) => {
            let here = map.get(".").is_some_and(|access| {
                access.get("attr").and_then(Value::as_str) == Some("steps")
                    && access.pointer("/left/Var").and_then(Value::as_str) != Some("context")
            });
            here || map.values().any(reads_scope_steps)
        }
        Value::Array(list) => list.iter().any(reads_scope_steps),
        _ => false,
    }
}
