//! Fail modes that hold together, and where they do: made once for a map and its zones, so that a check looks it up and goes through no
//! zone, however many a plant has.

use std::collections::BTreeMap;
use std::time::Duration;

use access_model::{Mono, ScopeIndex, ScopeMap};

use crate::{FailMode, FailState, Zone};

/// Some modes, of which the strictest holds at any time. That needs no list: a longest time is over with the shortest, and the other two
/// know no time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Together {
    closed: bool,
    read_only: bool,
    /// The shortest of the times for which what was known last is good.
    known: Option<Duration>,
}

impl Together {
    pub(crate) fn of(modes: &[FailMode]) -> Self {
        modes.iter().fold(Self::default(), |mut all, mode| {
            match *mode {
                FailMode::Closed => all.closed = true,
                FailMode::ReadOnly => all.read_only = true,
                FailMode::LastKnownGood(span) => all.known = Some(all.known.map_or(span, |known| known.min(span))),
            }
            all
        })
    }

    fn and(self, other: Self) -> Self {
        Self {
            closed: self.closed || other.closed,
            read_only: self.read_only || other.read_only,
            known: self.known.into_iter().chain(other.known).min(),
        }
    }

    /// Whether there is no mode.
    pub(crate) fn is_nothing(self) -> bool {
        self == Self::default()
    }

    /// What is left at `now` of what was lost at `since`; everything where there is no mode.
    pub(crate) fn after(self, since: Mono, now: Mono) -> FailState {
        if self.closed || self.known.is_some_and(|span| now >= since + span) {
            FailState::Closed
        } else if self.read_only {
            FailState::ReadOnly
        } else if self.known.is_some() {
            FailState::LastKnown
        } else {
            FailState::InStep
        }
    }

    /// Until when everything is left of what was lost at `since`.
    pub(crate) fn whole_until(self, since: Mono) -> Mono {
        if self.closed || self.read_only { since } else { self.ends(since).unwrap_or(Mono::NEVER) }
    }

    /// When last-known-good is over.
    pub(crate) fn ends(self, since: Mono) -> Option<Mono> {
        self.known.map(|span| since + span)
    }
}

/// What holds in each scope of a map.
#[derive(Debug)]
pub(crate) struct Scopes {
    /// Each that holds somewhere, once.
    sets: Vec<Together>,
    /// Its position there, per scope.
    codes: Box<[u32]>,
}

impl Scopes {
    /// With whether some scope is in no zone, and for each zone whether it has scopes in this map.
    pub(crate) fn new(zones: &[Zone], map: &ScopeMap) -> (Self, bool, Vec<bool>) {
        let known: BTreeMap<&str, ScopeIndex> = map.iter().map(|(scope, name)| (name, scope)).collect();
        // Nothing in them: a zone that has no mode still has its scopes.
        let mut held: Vec<Option<Together>> = vec![None; map.len()];
        let mut here = Vec::with_capacity(zones.len());
        for zone in zones {
            let (modes, mut some) = (Together::of(&zone.modes), false);
            let scopes = zone.scopes.iter().filter_map(|name| known.get(name.as_str()));
            for slot in scopes.filter_map(|scope| usize::try_from(scope.0).ok()) {
                if let Some(slot) = held.get_mut(slot) {
                    *slot = Some(slot.unwrap_or_default().and(modes));
                    some = true;
                }
            }
            here.push(some);
        }
        let open = held.iter().any(Option::is_none);
        let mut sets = Vec::new();
        let mut places = BTreeMap::new();
        let codes = held.into_iter().map(Option::unwrap_or_default).map(|set| {
            *places.entry(set).or_insert_with(|| {
                sets.push(set);
                u32::try_from(sets.len() - 1).unwrap_or(u32::MAX)
            })
        });
        let codes = codes.collect();
        (Self { sets, codes }, open, here)
    }

    /// What holds in a scope; nothing in one beyond the map.
    pub(crate) fn of(&self, scope: ScopeIndex) -> Together {
        let code = usize::try_from(scope.0).ok().and_then(|at| self.codes.get(at));
        let set = code.and_then(|code| self.sets.get(usize::try_from(*code).ok()?));
        set.copied().unwrap_or_default()
    }
}
