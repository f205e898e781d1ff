//! One question, one answer. Forbid wins; no rule is forbid; a rule that fails to evaluate is forbid.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use access_model::{AccessRequest, Action, Decision, Effect, Obligation, PolicyReason, Principal};
use cedar_policy::{AuthorizationError, Authorizer, Context, Entities, EntityUid, PolicyId, Request};

use crate::alike::{Asker, Place};
use crate::kinds::Kind;
use crate::rules::{ActionRules, Rule};
use crate::snapshot::Snapshot;
use crate::world::World;

/// Why a question has no answer but no: a name in it means nothing here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unasked {
    /// Neither a person nor an application.
    #[error("nobody asks")]
    Nobody,
    /// The person is not in the plant file.
    #[error("no person is called `{0}`")]
    UnknownPerson(String),
    /// The application is not in the plant file.
    #[error("no application has the uri `{0}`")]
    UnknownApplication(String),
    /// The server is not in the plant file.
    #[error("no server has the uri `{0}`")]
    UnknownServer(String),
    /// The server has no such scope.
    #[error("server `{0}` has no scope `{1}`")]
    UnknownScope(String, String),
    /// Break-glass was claimed without saying why.
    #[error("break-glass needs a reason of at least {MIN_REASON} characters")]
    NoReason,
    /// Break-glass was claimed by somebody who holds no break-glass role.
    #[error("`{0}` holds no break-glass role")]
    NoBreakGlassRole(String),
}

/// The shortest reason that break-glass takes.
pub const MIN_REASON: usize = 8;
/// The longest.
pub const MAX_REASON: usize = 512;

/// Answers one question.
///
/// A function of its arguments. `request.principal.roles` narrows: a role the plant does not give to the asker counts
/// for nothing, and one that is missing there is not used. Its groups are taken from the plant alone.
#[must_use]
pub fn decide(snapshot: &Snapshot, request: &AccessRequest) -> Decision {
    answer(snapshot, request).unwrap_or_else(|_| no(snapshot, request))
}

/// [`decide`], with the reason when a name in the question means nothing.
///
/// # Errors
/// A name in the request that the plant does not know, or a break-glass claim that cannot stand.
pub fn answer(snapshot: &Snapshot, request: &AccessRequest) -> Result<Decision, Unasked> {
    let world = &snapshot.loaded.world;
    let place = server(world, &request.server)?;
    let unknown = || Unasked::UnknownScope(request.server.clone(), request.scope.clone());
    let (scope, position) = place.scope(&request.scope).ok_or_else(unknown)?;
    let about = std::slice::from_ref(scope);
    let asking = Asking::new(snapshot, &request.principal, request.break_glass.as_deref(), about)?;
    let mut verdict = match request.action {
        Action::UpdateHistory => {
            let insert = asking.judge(Action::InsertHistory, scope);
            if insert.effect == Effect::Forbid {
                insert
            } else {
                insert.and(asking.judge(Action::ModifyHistory, scope))
            }
        }
        action => asking.judge(action, scope),
    };
    let mut obligations = Vec::new();
    if verdict.effect == Effect::Permit
        && request.action.changes()
        && let Some(interlock) = place.interlock(position)
    {
        if request.action == Action::Write {
            obligations.extend(interlock.bounds.range.map(|(low, high)| Obligation::Range { low, high }));
            obligations.extend(interlock.bounds.step.map(Obligation::Step));
            obligations.extend(interlock.bounds.rate.map(Obligation::Rate));
        }
        let second = interlock.two_persons.as_ref();
        obligations.extend(second.map(|second| Obligation::Approval(second.role.clone())));
    }
    verdict.reasons.dedup();
    Ok(Decision {
        effect: verdict.effect,
        reasons: verdict.reasons,
        obligations,
        not_after: request.at + asking.boxed(verdict.lifetime),
        epoch: snapshot.epoch,
        depends_on: verdict.depends_on.into_iter().collect(),
    })
}

fn no(snapshot: &Snapshot, request: &AccessRequest) -> Decision {
    Decision {
        effect: Effect::Forbid,
        reasons: Vec::new(),
        obligations: Vec::new(),
        not_after: request.at,
        epoch: snapshot.epoch,
        depends_on: Vec::new(),
    }
}

pub(crate) fn server<'a>(world: &'a World, uri: &str) -> Result<&'a Place, Unasked> {
    world.servers.get(uri).ok_or_else(|| Unasked::UnknownServer(uri.to_owned()))
}

/// A principal that was found, with what is needed to judge any action on the scopes it asks about.
pub(crate) struct Asking<'a> {
    snapshot: &'a Snapshot,
    asker: &'a Asker,
    entities: Cow<'a, Entities>,
    /// With all registered roles, when fewer are in effect: giving up a role must not shake off its forbids.
    unnarrowed: Option<&'a Entities>,
    context: Context,
    authorizer: Authorizer,
    time_box: Option<Duration>,
}

/// What the rules say about one action on one scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub effect: Effect,
    pub reasons: Vec<PolicyReason>,
    pub lifetime: Duration,
    pub depends_on: BTreeSet<String>,
}

impl Verdict {
    fn forbid(reasons: Vec<PolicyReason>) -> Self {
        Self { effect: Effect::Forbid, reasons, lifetime: Duration::ZERO, depends_on: BTreeSet::new() }
    }

    /// Both must permit.
    fn and(mut self, other: Self) -> Self {
        if other.effect == Effect::Forbid {
            return other;
        }
        self.reasons.extend(other.reasons);
        self.reasons.sort();
        self.lifetime = self.lifetime.min(other.lifetime);
        self.depends_on.extend(other.depends_on);
        self
    }
}

/// What a question supposes about its asker beyond the plant file: for what-if questions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Supposed {
    pub roles: Vec<String>,
    pub assigned: Option<String>,
}

impl<'a> Asking<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        principal: &Principal,
        break_glass: Option<&str>,
        about: &[EntityUid],
    ) -> Result<Self, Unasked> {
        Self::supposing(snapshot, principal, break_glass, about, &Supposed::default())
    }

    pub(crate) fn supposing(
        snapshot: &'a Snapshot,
        principal: &Principal,
        break_glass: Option<&str>,
        about: &[EntityUid],
        supposed: &Supposed,
    ) -> Result<Self, Unasked> {
        let world = &snapshot.loaded.world;
        if break_glass.is_some_and(|reason| !(MIN_REASON..=MAX_REASON).contains(&reason.trim().chars().count())) {
            return Err(Unasked::NoReason);
        }
        let application = principal.application.as_ref().map(|uri| application(world, &uri.0)).transpose()?;
        let person = principal.person.as_ref().map(|name| person(world, name)).transpose()?;
        let asker = person.or(application).ok_or(Unasked::Nobody)?;
        let through = application.filter(|_| person.is_some());
        let (mut roles, time_box) = effective(asker, principal, break_glass)?;
        if *supposed != Supposed::default() {
            roles.get_or_insert_with(|| asker.roles.to_vec()).extend(supposed.roles.iter().cloned());
        }
        let gave_up = roles.as_ref().is_some_and(|held| asker.roles.iter().any(|role| !held.contains(role)));
        let unnarrowed = gave_up.then_some(&world.entities);
        let entities = roles.map_or(Cow::Borrowed(&world.entities), |roles| {
            let about = about.iter().chain(through.map(|one| &one.uid)).cloned();
            // No entities at all leaves the asker without roles and the scopes without a place: nothing is permitted
            // that asks for either.
            Cow::Owned(
                world
                    .narrowed(&asker.uid, &roles, supposed.assigned.as_deref(), about)
                    .unwrap_or_else(|_| Entities::empty()),
            )
        });
        let through = through.map(|one| (&one.uid, one.number));
        let context = snapshot.facts.context(world, through, break_glass.is_some());
        Ok(Self { snapshot, asker, entities, unnarrowed, context, authorizer: Authorizer::new(), time_box })
    }

    pub(crate) fn request(&self, action: &EntityUid, scope: &EntityUid) -> Option<Request> {
        Request::new(self.asker.uid.clone(), action.clone(), scope.clone(), self.context.clone(), None).ok()
    }

    pub(crate) fn entities(&self) -> &Entities {
        &self.entities
    }

    /// The lifetime, no longer than plant and time box allow.
    pub(crate) fn boxed(&self, lifetime: Duration) -> Duration {
        lifetime.min(self.snapshot.plant().longest_lifetime).min(self.time_box.unwrap_or(Duration::MAX))
    }

    pub(crate) fn judge(&self, action: Action, scope: &EntityUid) -> Verdict {
        let rules = &self.snapshot.loaded.rules;
        let Some(fitting) = rules.by_action.get(&action).filter(|fitting| fitting.permits) else {
            return Verdict::forbid(Vec::new());
        };
        let Some(request) = self.request(&fitting.action, scope) else {
            return Verdict::forbid(Vec::new());
        };
        let response = self.authorizer.is_authorized(&request, &fitting.set, &self.entities);
        let mut failed = response.diagnostics().errors().map(failing_rule).peekable();
        if failed.peek().is_some() {
            return Verdict::forbid(named(&rules.of(failed), Some(Effect::Forbid)));
        }
        let reasons = rules.of(response.diagnostics().reason());
        if response.decision() == cedar_policy::Decision::Deny {
            return Verdict::forbid(named(&reasons, None));
        }
        if let Some(all) = self.unnarrowed {
            let response = self.authorizer.is_authorized(&request, &fitting.set, all);
            let forbids: Vec<&Rule> = rules.of(response.diagnostics().reason());
            if forbids.iter().any(|rule| rule.effect == Effect::Forbid) {
                return Verdict::forbid(named(&forbids, None));
            }
        }
        Verdict {
            effect: Effect::Permit,
            lifetime: self.lifetime(&reasons),
            depends_on: self.depends_on(fitting, &reasons, scope),
            reasons: named(&reasons, None),
        }
    }

    /// The longest that any of the permitting rules gives: each of them suffices.
    fn lifetime(&self, permits: &[&Rule]) -> Duration {
        let default = self.snapshot.plant().default_lifetime;
        permits.iter().map(|rule| rule.lifetime.unwrap_or(default)).max().unwrap_or(Duration::ZERO)
    }

    /// The marked steps without which the permit may fall: none when some permitting rule does not read the marking.
    fn depends_on(&self, fitting: &ActionRules, permits: &[&Rule], scope: &EntityUid) -> BTreeSet<String> {
        if !fitting.asks_marking || permits.iter().any(|rule| !rule.asks_marking) {
            return BTreeSet::new();
        }
        let world = &self.snapshot.loaded.world;
        let marked = &self.snapshot.facts.steps;
        let mut named: BTreeSet<&str> = BTreeSet::new();
        for rule in permits {
            named.extend(steps_named(world, marked, &rule.names));
            if rule.asks_scope_steps {
                named.extend(steps_named(world, marked, world.steps_of(scope)));
            }
        }
        if named.is_empty() { marked.clone() } else { named.into_iter().map(str::to_owned).collect() }
    }
}

/// The marked steps among `uids`, or in a phase among them.
fn steps_named<'s>(world: &World, marked: &'s BTreeSet<String>, uids: &[EntityUid]) -> Vec<&'s str> {
    let is = |uid: &EntityUid, kind: Kind, name: &str| Kind::of(uid) == Some(kind) && uid.id().unescaped() == name;
    let meant = |step: &&String| {
        uids.iter().any(|uid| {
            is(uid, Kind::Step, step) || world.phase_of(step).is_some_and(|phase| is(uid, Kind::Phase, phase))
        })
    };
    marked.iter().filter(meant).map(String::as_str).collect()
}

fn failing_rule(error: &AuthorizationError) -> &PolicyId {
    match error {
        AuthorizationError::PolicyEvaluationError(error) => error.policy_id(),
    }
}

fn named(rules: &[&Rule], effect: Option<Effect>) -> Vec<PolicyReason> {
    let reason = |rule: &&Rule| PolicyReason { policy: rule.id.clone(), effect: effect.unwrap_or(rule.effect) };
    rules.iter().map(reason).collect()
}

fn application<'a>(world: &'a World, uri: &str) -> Result<&'a Asker, Unasked> {
    world.applications.get(uri).ok_or_else(|| Unasked::UnknownApplication(uri.to_owned()))
}

fn person<'a>(world: &'a World, name: &str) -> Result<&'a Asker, Unasked> {
    world.persons.get(name).ok_or_else(|| Unasked::UnknownPerson(name.to_owned()))
}

type Effective = (Option<Vec<String>>, Option<Duration>);

/// The roles in effect when they differ from the registered ones, and the time box of break-glass roles among them.
fn effective(asker: &Asker, principal: &Principal, break_glass: Option<&str>) -> Result<Effective, Unasked> {
    if break_glass.is_none() && *principal.roles == *asker.roles {
        return Ok((None, None));
    }
    let claimed: BTreeSet<&String> = principal.roles.iter().collect();
    let mut roles: Vec<String> = asker.roles.iter().filter(|role| claimed.contains(role)).cloned().collect();
    let mut time_box = None;
    if break_glass.is_some() {
        for (role, limit) in asker.emergency.iter().filter(|(role, _)| claimed.contains(role)) {
            roles.push(role.clone());
            time_box = Some(time_box.map_or(*limit, |shortest: Duration| shortest.min(*limit)));
        }
        if time_box.is_none() {
            return Err(Unasked::NoBreakGlassRole(principal.name().to_owned()));
        }
        roles.sort_unstable();
    }
    Ok(if *roles == *asker.roles { (None, time_box) } else { (Some(roles), time_box) })
}
