//! What somebody is told whom policy denies something: the rule that forbids it, or what would have to be different. Only for
//! those who proved who they are.

use access_model::{AccessRequest, Action, Effect, Principal, UnixTime};
use pdp::{Explanation, Snapshot, explain};

/// Scopes of a server that are looked at for what would give a token.
const SCOPES: usize = 4;
/// What a token is usually wanted for.
const ACTIONS: [Action; 3] = [Action::Read, Action::Write, Action::Call];

/// One sentence about a denial.
pub(crate) fn sentence(explanation: &Explanation) -> String {
    let answer = match (&explanation.unasked, explanation.decision.reasons.first()) {
        (Some(unasked), _) => unasked.to_string(),
        (None, None) => "no policy permits it".to_owned(),
        (None, Some(reason)) => format!("the policy `{}` forbids it", reason.policy),
    };
    match what_else(explanation) {
        Some(more) => format!("{answer}; {more}"),
        None => answer,
    }
}

/// The smallest change that would allow it; else what the closest rule misses.
fn what_else(explanation: &Explanation) -> Option<String> {
    if let Some(set) = explanation.changes.first() {
        let all: Vec<String> = set.iter().map(ToString::to_string).collect();
        return Some(format!("it would be allowed if {}", all.join(" and ")));
    }
    let closest = explanation.rules.iter().find(|rule| rule.effect == Effect::Permit && !rule.applies())?;
    let missing = closest.clauses.iter().find(|clause| clause.holds != Some(true))?;
    Some(format!("the closest rule is `{}` (line {}), which misses `{}`", closest.policy, closest.line, missing.text))
}

/// What a principal who is granted nothing at all on a server would need for the least.
pub(crate) fn nothing(
    snapshot: &Snapshot,
    principal: &Principal,
    server: &str,
    at: UnixTime,
    break_glass: Option<&str>,
) -> Option<String> {
    let scopes = snapshot.plant().servers.get(server)?.scopes.iter().take(SCOPES);
    let requests = scopes.flat_map(|scope| {
        ACTIONS.map(|action| AccessRequest {
            principal: principal.clone(),
            action,
            server: server.to_owned(),
            scope: scope.name.clone(),
            at,
            break_glass: break_glass.map(str::to_owned),
        })
    });
    let explained = requests.map(|request| explain(snapshot, &request));
    // No change found at all counts as the longest way.
    let way = |one: &Explanation| one.changes.first().map_or(usize::MAX, Vec::len);
    explained.min_by_key(way).and_then(|one| what_else(&one))
}
