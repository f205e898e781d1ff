//! Everything one principal may do at one server, and what a change does to grants that live.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use access_model::{Effect, GrantSpec, PolicyReason, Principal, Rights, ScopeIndex, UnixTime};
use cedar_policy::EntityUid;

use crate::decide::{Asking, Unasked, server};
use crate::snapshot::Snapshot;
use crate::world::decided_actions;

/// The rights of one principal at one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What a token carries.
    pub spec: GrantSpec,
    /// Steps whose end may take some of the rights: when one of them is left, the grant has to be decided again.
    pub depends_on: BTreeSet<String>,
    /// The rules that gave the rights, sorted.
    pub reasons: Vec<PolicyReason>,
}

/// Why there is no grant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoGrant {
    /// A name in the question means nothing.
    #[error(transparent)]
    Unasked(#[from] Unasked),
    /// No rule permits anything on any scope of the server.
    #[error("no policy permits `{principal}` anything on `{server}`")]
    Nothing {
        /// The principal's name.
        principal: String,
        /// The server's uri.
        server: String,
    },
}

/// Decides every action on every scope of a server. With `break_glass`, a reason, break-glass roles among
/// `principal.roles` are in effect and their time box bounds the whole grant.
///
/// # Errors
/// A name the plant does not know, a break-glass claim that cannot stand, or no right at all.
pub fn grant(
    snapshot: &Snapshot,
    principal: &Principal,
    server_uri: &str,
    at: UnixTime,
    break_glass: Option<&str>,
) -> Result<Grant, NoGrant> {
    let world = &snapshot.loaded.world;
    let place = server(world, server_uri)?;
    let about: Vec<EntityUid> = place.sorts().iter().map(|sort| sort.example.clone()).collect();
    let asking = Asking::new(snapshot, principal, break_glass, &about)?;
    let mut found = Found::default();
    for sort in place.sorts() {
        let rights = found.judge(&asking, &sort.example);
        if !rights.is_empty() {
            found.rights.entry(rights).or_default().extend(&sort.members);
        }
    }
    let Some(lifetime) = found.lifetime else {
        return Err(NoGrant::Nothing { principal: principal.name().to_owned(), server: server_uri.to_owned() });
    };
    let spec = GrantSpec {
        audience: server_uri.to_owned(),
        map: place.digest,
        rights: found.rights.into_iter().map(|(rights, scopes)| (rights, scopes.into_iter().collect())).collect(),
        not_after: at + asking.boxed(lifetime),
        epoch: snapshot.epoch,
    };
    Ok(Grant { spec, depends_on: found.depends_on, reasons: found.reasons.into_iter().collect() })
}

/// How many times a policy is evaluated for a [`grant`] at a server, at least; 0 of one that is not known.
#[must_use]
pub fn evaluations(snapshot: &Snapshot, server_uri: &str) -> usize {
    let sorts = server(&snapshot.loaded.world, server_uri).map_or(0, |place| place.sorts().len());
    sorts * decided_actions().count() * snapshot.policies()
}

#[derive(Default)]
struct Found {
    rights: BTreeMap<Rights, BTreeSet<ScopeIndex>>,
    lifetime: Option<Duration>,
    depends_on: BTreeSet<String>,
    reasons: BTreeSet<PolicyReason>,
}

impl Found {
    fn judge(&mut self, asking: &Asking<'_>, scope: &EntityUid) -> Rights {
        let mut rights = Rights::NONE;
        for action in decided_actions() {
            let verdict = asking.judge(action, scope);
            if verdict.effect == Effect::Permit {
                rights |= action.needed();
                self.lifetime = Some(self.lifetime.map_or(verdict.lifetime, |shortest| shortest.min(verdict.lifetime)));
                self.depends_on.extend(verdict.depends_on);
                self.reasons.extend(verdict.reasons);
            }
        }
        rights
    }
}

/// One scope of each sort, over all servers.
pub(crate) fn examples(snapshot: &Snapshot) -> Vec<EntityUid> {
    let world = &snapshot.loaded.world;
    let servers = world.plant.servers.keys().filter_map(|uri| world.servers.get(uri.as_str()));
    servers.flat_map(|place| place.sorts()).map(|sort| sort.example.clone()).collect()
}

/// A grant that lives at some gate.
#[derive(Clone, Copy, Debug)]
pub struct LiveGrant<'a> {
    /// Whose it is, with the roles it was asked with.
    pub principal: &'a Principal,
    /// The reason, when it is a break-glass grant.
    pub break_glass: Option<&'a str>,
    /// What it holds now.
    pub spec: &'a GrantSpec,
}

/// What a change of policy, plant or marking did to a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It holds what it held.
    Same,
    /// It is over.
    Revoked(NoGrantOrMap),
    /// It lost something, and may have gained something else.
    Narrowed(Grant),
    /// It only gained.
    Widened(Grant),
}

/// Why a grant is over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoGrantOrMap {
    /// It would not be granted any more.
    #[error(transparent)]
    NoGrant(#[from] NoGrant),
    /// The server's scopes changed, so that its positions mean something else.
    #[error("the scopes of `{0}` changed")]
    OtherMap(String),
}

/// Decides a live grant again. It never lives longer than it already did: only a new token extends.
#[must_use]
pub fn redecide(snapshot: &Snapshot, live: LiveGrant<'_>, at: UnixTime) -> Change {
    let mut new = match grant(snapshot, live.principal, &live.spec.audience, at, live.break_glass) {
        Ok(new) => new,
        Err(none) => return Change::Revoked(none.into()),
    };
    if new.spec.map != live.spec.map {
        return Change::Revoked(NoGrantOrMap::OtherMap(live.spec.audience.clone()));
    }
    new.spec.not_after = new.spec.not_after.min(live.spec.not_after);
    let (before, after) = (by_scope(live.spec), by_scope(&new.spec));
    let covers = |big: &BTreeMap<ScopeIndex, Rights>, small: &BTreeMap<ScopeIndex, Rights>| {
        small.iter().all(|(scope, rights)| big.get(scope).is_some_and(|held| held.contains(*rights)))
    };
    if !covers(&after, &before) || new.spec.not_after < live.spec.not_after {
        return Change::Narrowed(new);
    }
    if covers(&before, &after) { Change::Same } else { Change::Widened(new) }
}

fn by_scope(spec: &GrantSpec) -> BTreeMap<ScopeIndex, Rights> {
    let mut all: BTreeMap<ScopeIndex, Rights> = BTreeMap::new();
    for (rights, scopes) in &spec.rights {
        for scope in scopes {
            *all.entry(*scope).or_default() |= *rights;
        }
    }
    all
}
