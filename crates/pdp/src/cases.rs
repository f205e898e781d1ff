//! Test cases for policies: questions with the answers they must get. Format: `docs/reference/policy.md`.

use std::collections::BTreeSet;
use std::time::Duration;

use access_model::{AccessRequest, Action, Effect, UnixTime};
use serde::Deserialize;
use toml::Spanned;

use crate::decide::answer;
use crate::fault::{FaultList, Faults, Origin, nearest, place, suggest, toml_fault};
use crate::plant::{duration_text, parse_duration};
use crate::snapshot::Snapshot;

/// The largest case file that is read, in bytes.
pub const MAX_CASE_FILE: usize = 16 << 20;

/// The cases of one file, each with a question that names only what the plant has.
#[derive(Clone, Debug)]
pub struct Cases(Vec<Case>);

#[derive(Clone, Debug)]
struct Case {
    name: String,
    line: usize,
    request: AccessRequest,
    steps: Option<Vec<String>>,
    expect: Effect,
    policy: Option<String>,
    depends_on: Option<BTreeSet<String>>,
    lifetime: Option<Duration>,
}

/// How one case went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseResult {
    /// The case's name.
    pub name: String,
    /// Where it starts in its file.
    pub line: usize,
    /// What differs from what was expected; empty when the case holds.
    pub differs: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<Raw>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: Spanned<String>,
    person: Option<String>,
    application: Option<String>,
    action: Spanned<String>,
    server: Spanned<String>,
    scope: Spanned<String>,
    steps: Option<Vec<Spanned<String>>>,
    break_glass: Option<String>,
    expect: Spanned<String>,
    policy: Option<Spanned<String>>,
    depends_on: Option<Vec<String>>,
    lifetime: Option<Spanned<String>>,
}

impl Cases {
    /// Reads a case file against a snapshot.
    ///
    /// # Errors
    /// Every fault with its line: syntax, unknown keys, and names of actions, servers, scopes, steps or policies that
    /// there are not. Unknown persons and applications are allowed: strangers make good cases.
    pub fn parse(text: &str, snapshot: &Snapshot) -> Result<Self, Faults> {
        let mut faults = FaultList::new(Origin::Cases, text);
        if text.len() > MAX_CASE_FILE {
            faults.add(0..0, format!("the file has {} bytes, at most {MAX_CASE_FILE} are read", text.len()), None);
            return Err(faults.finish().err().unwrap_or(Faults(Vec::new())));
        }
        let file: File = toml::from_str(text).map_err(|error| toml_fault(Origin::Cases, text, &error))?;
        let cases = file.case.into_iter().filter_map(|raw| case(text, raw, snapshot, &mut faults)).collect();
        faults.finish()?;
        Ok(Self(cases))
    }

    /// Asks every question.
    #[must_use]
    pub fn run(&self, snapshot: &Snapshot) -> Vec<CaseResult> {
        self.0.iter().map(|case| case.run(snapshot)).collect()
    }
}

fn case(text: &str, raw: Raw, snapshot: &Snapshot, faults: &mut FaultList<'_>) -> Option<Case> {
    let word = raw.action.get_ref();
    let action = Action::ALL.into_iter().find(|action| action.name() == word);
    if action.is_none() {
        let hint = nearest(word, Action::ALL.map(Action::name)).map(|near| format!("did you mean `{near}`?"));
        faults.add(raw.action.span(), format!("no action is called `{word}`"), hint);
    }
    let server = snapshot.plant().server(raw.server.get_ref());
    if server.is_none() {
        let names: Vec<&str> = snapshot.plant().servers.values().map(|server| server.name.as_str()).collect();
        let hint = suggest(raw.server.get_ref(), names.iter().copied());
        faults.add(raw.server.span(), format!("no server is called `{}`", raw.server.get_ref()), hint);
    }
    let (uri, server) = server?;
    if !server.scopes.iter().any(|scope| scope.name == *raw.scope.get_ref()) {
        let hint = suggest(raw.scope.get_ref(), server.scopes.iter().map(|scope| scope.name.as_str()));
        faults.add(raw.scope.span(), format!("server `{}` has no scope `{}`", server.name, raw.scope.get_ref()), hint);
    }
    let workflow = snapshot.workflow();
    for step in raw.steps.iter().flatten().filter(|step| !workflow.has_step(step.get_ref())) {
        let hint = suggest(step.get_ref(), workflow.steps().iter().map(|step| step.name.as_str()));
        faults.add(step.span(), format!("no step is called `{}`", step.get_ref()), hint);
    }
    let expect = match raw.expect.get_ref().as_str() {
        "permit" => Effect::Permit,
        "forbid" => Effect::Forbid,
        other => {
            faults.add(raw.expect.span(), format!("`{other}` is no effect"), Some("write `permit` or `forbid`".into()));
            return None;
        }
    };
    let rules = &snapshot.loaded.rules.list;
    if let Some(policy) = raw.policy.as_ref().filter(|id| !rules.iter().any(|rule| rule.id == *id.get_ref())) {
        let hint = suggest(policy.get_ref(), rules.iter().map(|rule| rule.id.as_str()));
        faults.add(policy.span(), format!("no policy has the id `{}`", policy.get_ref()), hint);
    }
    let lifetime = raw
        .lifetime
        .as_ref()
        .and_then(|text| parse_duration(text.get_ref()).map_err(|bad| faults.add(text.span(), bad.0, None)).ok());
    let principal = snapshot.principal(raw.person.as_deref(), raw.application.as_deref(), raw.break_glass.is_some());
    let (line, _) = place(text, raw.name.span().start);
    Some(Case {
        line,
        name: raw.name.into_inner(),
        request: AccessRequest {
            principal,
            action: action?,
            server: uri.to_owned(),
            scope: raw.scope.into_inner(),
            at: UnixTime::from_seconds(0),
            break_glass: raw.break_glass,
        },
        steps: raw.steps.map(|steps| steps.into_iter().map(Spanned::into_inner).collect()),
        expect,
        policy: raw.policy.map(Spanned::into_inner),
        depends_on: raw.depends_on.map(|steps| steps.into_iter().collect()),
        lifetime,
    })
}

impl Case {
    fn run(&self, snapshot: &Snapshot) -> CaseResult {
        let mut differs = Vec::new();
        let standing = self.steps.as_ref().map(|steps| snapshot.in_steps(steps.iter().map(String::as_str)));
        match standing.transpose() {
            Ok(moved) => self.compare(moved.as_ref().unwrap_or(snapshot), &mut differs),
            Err(invalid) => differs.push(invalid.to_string()),
        }
        CaseResult { name: self.name.clone(), line: self.line, differs }
    }

    fn compare(&self, snapshot: &Snapshot, differs: &mut Vec<String>) {
        let decision = match answer(snapshot, &self.request) {
            Ok(decision) => decision,
            Err(_) if self.expect == Effect::Forbid && self.policy.is_none() => return,
            Err(unasked) => return differs.push(format!("{unasked}, so it is forbidden")),
        };
        let by: Vec<&str> = decision.reasons.iter().map(|reason| reason.policy.as_str()).collect();
        if decision.effect != self.expect {
            let by = if by.is_empty() { "no policy".to_owned() } else { format!("`{}`", by.join("`, `")) };
            let (is, want) = (effect_word(decision.effect), effect_word(self.expect));
            return differs.push(format!("it is {is} by {by}, {want} was expected"));
        }
        if let Some(policy) = self.policy.as_ref().filter(|id| !by.contains(&id.as_str())) {
            differs.push(format!("decided by `{}`, not by `{policy}`", by.join("`, `")));
        }
        let depends_on: BTreeSet<String> = decision.depends_on.iter().cloned().collect();
        if let Some(want) = self.depends_on.as_ref().filter(|want| **want != depends_on) {
            differs.push(format!("depends on {depends_on:?}, not on {want:?}"));
        }
        let lifetime = decision.not_after.since(self.request.at);
        if let Some(want) = self.lifetime.filter(|want| *want != lifetime) {
            differs.push(format!("lives {}, not {}", duration_text(lifetime), duration_text(want)));
        }
    }
}

fn effect_word(effect: Effect) -> &'static str {
    match effect {
        Effect::Permit => "permitted",
        Effect::Forbid => "forbidden",
    }
}
