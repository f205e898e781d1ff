//! The smallest change that would allow what was refused: tried out, not guessed. One change first, then two, then
//! three at once.

use std::collections::BTreeSet;
use std::fmt;

use access_model::{AccessRequest, Action, ApplicationUri, Effect};

use crate::decide::{Asking, Supposed};
use crate::snapshot::Snapshot;

/// So many questions are tried.
const MAX_TRIES: usize = 20_000;
/// So many answers are given.
const MAX_ANSWERS: usize = 5;
/// So many steps, roles or applications are tried of each.
const MAX_OPTIONS: usize = 64;

/// One thing that could be different.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Adjustment {
    /// The workflow stood in these steps.
    Steps(Vec<String>),
    /// The person asked through this application.
    Application(String),
    /// Break-glass were claimed, with a reason.
    BreakGlass,
    /// The person were assigned to the equipment.
    Assigned(String),
    /// The asker held this role.
    Role(String),
}

impl fmt::Display for Adjustment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps(steps) => write!(f, "the workflow stood in `{}`", steps.join("`, `")),
            Self::Application(uri) => write!(f, "it were asked through `{uri}`"),
            Self::BreakGlass => f.write_str("break-glass were claimed with a reason"),
            Self::Assigned(equipment) => write!(f, "the person were assigned to `{equipment}`"),
            Self::Role(role) => write!(f, "the asker held the role `{role}`"),
        }
    }
}

pub(super) fn smallest(snapshot: &Snapshot, request: &AccessRequest) -> Vec<Vec<Adjustment>> {
    let options = options(snapshot, request);
    let mut tries = MAX_TRIES;
    for size in 1..=3 {
        let mut found = Vec::new();
        combine(&options, size, &mut Vec::new(), &mut |set| {
            if found.len() >= MAX_ANSWERS || tries == 0 {
                return;
            }
            tries -= 1;
            if allows(snapshot, request, set) == Some(true) {
                found.push(set.to_vec());
            }
        });
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// Every set of `size` adjustments of different kinds, easier ones first.
fn combine(kinds: &[Vec<Adjustment>], size: usize, chosen: &mut Vec<Adjustment>, visit: &mut dyn FnMut(&[Adjustment])) {
    if chosen.len() == size {
        return visit(chosen);
    }
    let mut rest = kinds;
    while let Some((kind, others)) = rest.split_first() {
        for adjustment in kind {
            chosen.push(adjustment.clone());
            combine(others, size, chosen, visit);
            chosen.pop();
        }
        rest = others;
    }
}

fn options(snapshot: &Snapshot, request: &AccessRequest) -> Vec<Vec<Adjustment>> {
    let plant = snapshot.plant();
    let workflow = snapshot.workflow();
    let mut steps: Vec<Vec<String>> = Vec::new();
    for marking in workflow.reach().markings {
        let marked: Vec<String> = workflow.marked(&marking).map(str::to_owned).collect();
        if !steps.contains(&marked) && snapshot.steps().iter().ne(marked.iter().collect::<BTreeSet<_>>()) {
            steps.push(marked);
        }
        if steps.len() >= MAX_OPTIONS {
            break;
        }
    }
    let person = request.principal.person.as_ref();
    let here = request.principal.application.as_ref().map(|uri| uri.0.as_str());
    let other = plant.applications.keys().filter(|uri| person.is_some() && Some(uri.as_str()) != here);
    let equipment = snapshot
        .plant()
        .servers
        .get(&request.server)
        .and_then(|server| server.scopes.iter().find(|scope| scope.name == request.scope))
        .map(|scope| scope.equipment.clone())
        .filter(|one| person.and_then(|name| plant.persons.get(name)).is_some_and(|row| !row.assigned.contains(one)));
    let may_break_glass = person.and_then(|name| snapshot.loaded.world.persons.get(name));
    let may_break_glass =
        request.break_glass.is_none() && may_break_glass.is_some_and(|asker| !asker.emergency.is_empty());
    let held = &request.principal.roles;
    let lasting = plant.roles.iter().filter(|(role, row)| row.break_glass.is_none() && !held.contains(role));
    vec![
        steps.into_iter().map(Adjustment::Steps).collect(),
        other.take(MAX_OPTIONS).cloned().map(Adjustment::Application).collect(),
        may_break_glass.then_some(Adjustment::BreakGlass).into_iter().collect(),
        equipment.map(Adjustment::Assigned).into_iter().collect(),
        lasting.take(MAX_OPTIONS).map(|(role, _)| Adjustment::Role(role.clone())).collect(),
    ]
}

fn allows(snapshot: &Snapshot, request: &AccessRequest, set: &[Adjustment]) -> Option<bool> {
    let mut standing = None;
    let mut principal = request.principal.clone();
    let mut reason = request.break_glass.clone();
    let mut supposed = Supposed::default();
    for adjustment in set {
        match adjustment {
            Adjustment::Steps(steps) => standing = Some(snapshot.in_steps(steps.iter().map(String::as_str)).ok()?),
            Adjustment::Application(uri) => principal.application = Some(ApplicationUri(uri.clone())),
            Adjustment::BreakGlass => {
                reason = Some("what if the glass were broken".to_owned());
                principal.roles = snapshot.principal(principal.person.as_deref(), None, true).roles;
            }
            Adjustment::Assigned(equipment) => supposed.assigned = Some(equipment.clone()),
            Adjustment::Role(role) => {
                supposed.roles.push(role.clone());
                supposed.roles.extend(included(snapshot, role));
            }
        }
    }
    let standing = standing.as_ref().unwrap_or(snapshot);
    let place = standing.loaded.world.servers.get(request.server.as_str())?;
    let (scope, _) = place.scope(&request.scope)?;
    let about = std::slice::from_ref(scope);
    let asking = Asking::supposing(standing, &principal, reason.as_deref(), about, &supposed).ok()?;
    let permits = |action| asking.judge(action, scope).effect == Effect::Permit;
    Some(match request.action {
        Action::UpdateHistory => permits(Action::InsertHistory) && permits(Action::ModifyHistory),
        action => permits(action),
    })
}

/// The roles that a role includes, all the way down.
fn included(snapshot: &Snapshot, role: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut open = vec![role.to_owned()];
    while let Some(next) = open.pop() {
        let row = snapshot.plant().roles.get(&next);
        for inner in row.into_iter().flat_map(|row| &row.includes) {
            if !all.contains(inner) {
                all.push(inner.clone());
                open.push(inner.clone());
            }
        }
    }
    all
}
