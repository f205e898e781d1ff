//! Why a question was answered as it was: each rule with the conditions that held and those that did not, and the
//! smallest change that would allow what was asked.

mod change;
mod clauses;

use std::fmt;

use access_model::{AccessRequest, Action, Decision, Effect};

use crate::decide::{Asking, Unasked, answer, decide};
use crate::snapshot::Snapshot;

pub use change::Adjustment;
pub use clauses::Clause;

/// A decision with its grounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// What was asked, in one line.
    pub question: String,
    /// The answer.
    pub decision: Decision,
    /// Why nothing could be asked, when a name means nothing.
    pub unasked: Option<Unasked>,
    /// The rules that can apply to this action, those that decided first, then those that came closest.
    pub rules: Vec<RuleView>,
    /// The smallest sets of changes that would each allow it; empty when it is allowed or none was found.
    pub changes: Vec<Vec<Adjustment>>,
}

/// One rule and how far it applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleView {
    /// Its id.
    pub policy: String,
    /// Line in the policy file.
    pub line: usize,
    /// What it does when it applies.
    pub effect: Effect,
    /// Its text for people, from `@description`.
    pub description: Option<String>,
    /// Its parts, in order; it applies when all hold.
    pub clauses: Vec<Clause>,
}

impl RuleView {
    /// Whether every clause holds.
    #[must_use]
    pub fn applies(&self) -> bool {
        self.clauses.iter().all(|clause| clause.holds == Some(true))
    }

    fn missing(&self) -> usize {
        self.clauses.iter().filter(|clause| clause.holds != Some(true)).count()
    }
}

/// Explains the answer to a question.
#[must_use]
pub fn explain(snapshot: &Snapshot, request: &AccessRequest) -> Explanation {
    let (decision, unasked) = match answer(snapshot, request) {
        Ok(decision) => (decision, None),
        Err(unasked) => (decide(snapshot, request), Some(unasked)),
    };
    let mut rules = views(snapshot, request).unwrap_or_default();
    let decided = |view: &RuleView| decision.reasons.iter().any(|reason| reason.policy == view.policy);
    rules.sort_by_key(|view| (!decided(view), view.effect == Effect::Forbid, view.missing(), view.line));
    let changes = if decision.effect == Effect::Forbid && unasked.as_ref().is_none_or(curable) {
        change::smallest(snapshot, request)
    } else {
        Vec::new()
    };
    Explanation { question: question(request), decision, unasked, rules, changes }
}

/// A break-glass claim that fails is no reason to look no further.
fn curable(unasked: &Unasked) -> bool {
    matches!(unasked, Unasked::NoReason | Unasked::NoBreakGlassRole(_))
}

fn question(request: &AccessRequest) -> String {
    let through = request.principal.application.as_ref().filter(|_| request.principal.person.is_some());
    let through = through.map(|uri| format!(" through {}", uri.0)).unwrap_or_default();
    let name = request.principal.name();
    format!("may `{name}`{through} {} `{}` of {}?", request.action.name(), request.scope, request.server)
}

fn views(snapshot: &Snapshot, request: &AccessRequest) -> Option<Vec<RuleView>> {
    let loaded = &snapshot.loaded;
    let place = loaded.world.servers.get(request.server.as_str())?;
    let (scope, _) = place.scope(&request.scope)?;
    let asking =
        Asking::new(snapshot, &request.principal, request.break_glass.as_deref(), std::slice::from_ref(scope)).ok()?;
    // `update_history` is insert and modify; the rules for one of them tell the story.
    let action = if request.action == Action::UpdateHistory { Action::ModifyHistory } else { request.action };
    let fitting = loaded.rules.by_action.get(&action)?;
    let cedar = asking.request(&fitting.action, scope)?;
    let rules = loaded.rules.list.iter().filter(|rule| fitting.set.policy(rule.policy.id()).is_some());
    let view = |rule: &crate::rules::Rule| RuleView {
        policy: rule.id.clone(),
        line: rule.line,
        effect: rule.effect,
        description: rule.policy.annotation("description").map(str::to_owned),
        clauses: clauses::of(rule, &cedar, asking.entities()),
    };
    Some(rules.map(view).collect())
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.question)?;
        let by: Vec<&str> = self.decision.reasons.iter().map(|reason| reason.policy.as_str()).collect();
        match (&self.unasked, self.decision.effect, by.is_empty()) {
            (Some(unasked), _, _) => writeln!(f, "no: {unasked}")?,
            (None, Effect::Permit, _) => writeln!(f, "yes, by `{}`", by.join("`, `"))?,
            (None, Effect::Forbid, true) => writeln!(f, "no: no policy permits it")?,
            (None, Effect::Forbid, false) => writeln!(f, "no: `{}` forbids it", by.join("`, `"))?,
        }
        if !self.decision.depends_on.is_empty() {
            writeln!(f, "until the step `{}` ends", self.decision.depends_on.join("`, `"))?;
        }
        for view in &self.rules {
            let word = if view.effect == Effect::Permit { "permit" } else { "forbid" };
            writeln!(
                f,
                "\n{word} `{}` (line {}){}",
                view.policy,
                view.line,
                if view.applies() { " applies" } else { "" }
            )?;
            for clause in &view.clauses {
                writeln!(f, "  {clause}")?;
            }
        }
        if !self.changes.is_empty() {
            writeln!(f, "\nit would be allowed if")?;
        }
        for set in &self.changes {
            let all: Vec<String> = set.iter().map(ToString::to_string).collect();
            writeln!(f, "  - {}", all.join(", and "))?;
        }
        Ok(())
    }
}
