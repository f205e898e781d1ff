//! What is left while something is lost: the authority or the ledger, zone by zone, or the gate's turn to serve at all.

use access_model::{Mono, Now, ScopeIndex, ScopeMap, UnixTime};

use crate::contact::Standby;
use crate::together::{Scopes, Together};
use crate::{FailState, Gate, GateConfig, GateEvent, Zone};

/// Why the ledger takes no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerTrouble {
    /// It cannot be written; records that nobody awaits are kept until it can.
    Failing,
    /// And there is no more room for them.
    Full,
}

/// How one zone of a gate stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneState {
    /// Its name.
    pub name: String,
    /// What is left of the authority's grants.
    pub authority: FailState,
    /// What is left of all grants while nothing can be recorded.
    pub ledger: FailState,
}

/// The zones of a gate.
#[derive(Debug)]
pub(crate) struct Zones {
    placed: Placed,
    reported: (FailState, FailState, bool),
    /// What was left in each, as it was reported.
    states: Vec<(FailState, FailState)>,
    /// Changes until then are known.
    advanced: Mono,
}

impl Zones {
    pub(crate) fn new(config: &GateConfig) -> Self {
        let reported = (FailState::InStep, FailState::InStep, !config.leased);
        Self { placed: place(&config.zones, &config.map), reported, states: Vec::new(), advanced: Mono::ZERO }
    }

    /// Modes of each zone with scopes here, and last none where scopes are in no zone.
    fn parts(&self) -> impl Iterator<Item = Together> {
        let placed = self.placed.zones.iter().map(|(_, modes)| *modes);
        placed.chain(self.placed.open.then_some(Together::default()))
    }
}

/// Zones with scopes in the present map.
#[derive(Debug)]
struct Placed {
    /// Their names, and what holds there.
    zones: Vec<(String, Together)>,
    /// Whether some scope is in none of them.
    open: bool,
    /// What holds in each zone, and nothing where scopes are in none; each once.
    distinct: Vec<Together>,
    scopes: Scopes,
}

fn place(zones: &[Zone], map: &ScopeMap) -> Placed {
    let (scopes, open, here) = Scopes::new(zones, map);
    let zones = zones.iter().zip(here).filter(|(_, here)| *here);
    let zones: Vec<_> = zones.map(|(zone, _)| (zone.name.clone(), Together::of(&zone.modes))).collect();
    let mut distinct: Vec<Together> = zones.iter().map(|(_, modes)| *modes).collect();
    distinct.extend(open.then_some(Together::default()));
    distinct.sort_unstable();
    distinct.dedup();
    Placed { zones, open, distinct, scopes }
}

/// Whether anything can be recorded.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    /// What is wrong, and since when anything is.
    trouble: Option<(LedgerTrouble, Mono)>,
}

impl Recording {
    fn left(&self, modes: Together, now: Mono) -> FailState {
        match self.trouble {
            None => FailState::InStep,
            Some((LedgerTrouble::Full, _)) => FailState::Closed,
            // In scopes of no zone only what awaits a record is refused, and not here.
            Some((LedgerTrouble::Failing, since)) => modes.after(since, now),
        }
    }

    fn served_until(&self, modes: Together) -> Mono {
        match self.trouble {
            None => Mono::NEVER,
            Some((LedgerTrouble::Full, _)) => Mono::ZERO,
            Some((LedgerTrouble::Failing, since)) => modes.whole_until(since),
        }
    }
}

fn strictest(states: impl Iterator<Item = FailState>) -> FailState {
    states.max().unwrap_or(FailState::InStep)
}

/// The gate's turn to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lease {
    /// It always serves.
    Always,
    /// It does not serve.
    Out,
    /// It serves until one of the two clocks has passed this.
    Held { until: Mono, expires: UnixTime },
}

impl Lease {
    pub(crate) const fn new(leased: bool) -> Self {
        if leased { Self::Out } else { Self::Always }
    }

    fn holds(self, now: Now) -> bool {
        match self {
            Self::Always => true,
            Self::Out => false,
            Self::Held { until, expires } => now.mono < until && now.unix < expires,
        }
    }

    /// Whether a wall clock that was set forward, as after a sleep of the whole machine, has ended it.
    pub(crate) fn is_over_by_wall_clock(self, now: Now) -> bool {
        matches!(self, Self::Held { expires, .. } if now.unix >= expires)
    }

    const fn until(self) -> Mono {
        match self {
            Self::Always => Mono::NEVER,
            Self::Out => Mono::ZERO,
            Self::Held { until, .. } => until,
        }
    }
}

impl Gate {
    /// Whether grants of the authority are served: in the scopes where the least is left.
    #[must_use]
    pub fn fail_state(&self, now: Now) -> FailState {
        strictest(self.zones.parts().map(|modes| self.authority_under(modes, now)))
    }

    /// Since when contact with the authority is lost; the start of the gate where there was none.
    #[must_use]
    pub fn lost_since(&self, now: Now) -> Option<Mono> {
        let (since, lost) = self.standby.as_ref()?.silence();
        (lost || now.mono >= since).then_some(since)
    }

    /// What is left of all grants while nothing can be recorded, in the scopes where the least is.
    #[must_use]
    pub fn ledger_state(&self, now: Now) -> FailState {
        strictest(self.zones.parts().map(|modes| self.recording.left(modes, now.mono)))
    }

    /// How each of its zones stands.
    #[must_use]
    pub fn zone_states(&self, now: Now) -> Vec<ZoneState> {
        let stands = |(name, modes): &(String, Together)| ZoneState {
            name: name.clone(),
            authority: self.authority_under(*modes, now),
            ledger: self.recording.left(*modes, now.mono),
        };
        self.zones.placed.zones.iter().map(stands).collect()
    }

    /// Whether it is the gate's turn to serve; it always is for one that needs no lease.
    #[must_use]
    pub fn holds_lease(&self, now: Now) -> bool {
        self.lease.holds(now)
    }

    /// The ledger takes no record, or takes them again.
    pub fn on_ledger(&mut self, trouble: Option<LedgerTrouble>, now: Now) {
        let since = self.recording.trouble.map_or(now.mono, |(_, since)| since);
        self.recording.trouble = trouble.map(|trouble| (trouble, since));
        self.note_fail_state(now);
    }

    /// Other zones from now on.
    pub fn set_zones(&mut self, zones: Vec<Zone>, now: Now) {
        self.config.zones = zones;
        self.place_zones(now);
    }

    /// The gate's turn lasts until one of the two clocks has passed `until`, or is over. Without effect on a gate that needs
    /// no lease.
    pub fn lease_until(&mut self, until: Option<Now>, now: Now) {
        if self.lease == Lease::Always {
            return;
        }
        self.lease = until.map_or(Lease::Out, |until| Lease::Held { until: until.mono, expires: until.unix });
        self.note_fail_state(now);
    }

    pub(crate) fn place_zones(&mut self, now: Now) {
        self.zones.placed = place(&self.config.zones, &self.config.map);
        self.note_fail_state(now);
    }

    /// What holds from the start is no news.
    pub(crate) fn begin_zones(&mut self, now: Now) {
        let before = self.events.len();
        self.note_fail_state(now);
        self.events.truncate(before);
    }

    /// What is left of the authority's grants in this scope, or in the scopes where the most is.
    pub(crate) fn authority_left(&self, scope: Option<ScopeIndex>, now: Now) -> FailState {
        self.left_in(scope, |modes| self.authority_under(modes, now))
    }

    /// What is left of all grants while nothing can be recorded.
    pub(crate) fn ledger_left(&self, scope: Option<ScopeIndex>, now: Now) -> FailState {
        self.left_in(scope, |modes| self.recording.left(modes, now.mono))
    }

    /// Asked for each item that is denied, and for each request while something is lost: no zone is gone through.
    fn left_in(&self, scope: Option<ScopeIndex>, left: impl Fn(Together) -> FailState) -> FailState {
        let placed = &self.zones.placed;
        match scope {
            Some(scope) => left(placed.scopes.of(scope)),
            None => placed.distinct.iter().map(|modes| left(*modes)).min().unwrap_or(FailState::InStep),
        }
    }

    /// Under these modes, or where there are none under the gate's own.
    fn authority_under(&self, modes: Together, now: Now) -> FailState {
        let Some(standby) = &self.standby else { return FailState::InStep };
        standby.state(standby.instead(modes), now.mono)
    }

    /// When time alone changes what is served next.
    pub(crate) fn zones_change(&self) -> Option<Mono> {
        let later = |at: &Mono| *at > self.zones.advanced && *at != Mono::NEVER;
        let mut next: Option<Mono> = Some(self.lease.until()).filter(later);
        let lost = self.standby.as_ref().map(Standby::silence);
        let ledger = self.recording.trouble.map(|(_, since)| since);
        if lost.is_none() && ledger.is_none() {
            return next;
        }
        if let Some((at, false)) = lost {
            next = next.into_iter().chain([at]).min();
        }
        for modes in self.zones.parts() {
            if let (Some(standby), Some((since, true))) = (&self.standby, lost) {
                next = next.into_iter().chain(standby.instead(modes).ends(since).filter(later)).min();
            }
            if let Some(since) = ledger {
                next = next.into_iter().chain(modes.ends(since).filter(later)).min();
            }
        }
        next
    }

    pub(crate) fn note_fail_state(&mut self, now: Now) {
        if let Some(standby) = &mut self.standby {
            standby.advance(now.mono);
        }
        if self.lease != Lease::Always && !self.lease.holds(now) {
            self.lease = Lease::Out;
        }
        self.zones.advanced = now.mono;
        self.served_until = self.served_by_all();
        let parts = self.zones.parts();
        let states: Vec<(FailState, FailState)> =
            parts.map(|modes| (self.authority_under(modes, now), self.recording.left(modes, now.mono))).collect();
        let holds = self.lease.holds(now);
        let (authority, ledger) =
            (strictest(states.iter().map(|state| state.0)), strictest(states.iter().map(|state| state.1)));
        let before = std::mem::replace(&mut self.zones.states, states);
        let reported = std::mem::replace(&mut self.zones.reported, (authority, ledger, holds));
        // Zones that come and go while nothing is lost are no news.
        let changed = |of: fn(&(FailState, FailState)) -> FailState| {
            let lost = before.iter().chain(&self.zones.states).any(|state| of(state) != FailState::InStep);
            lost && !before.iter().map(of).eq(self.zones.states.iter().map(of))
        };
        if reported.0 != authority || changed(|state| state.0) {
            self.events.push_back(GateEvent::FailMode(authority));
        }
        if reported.1 != ledger || changed(|state| state.1) {
            self.events.push_back(GateEvent::Ledger(ledger));
        }
        if reported.2 != holds {
            self.events.push_back(GateEvent::Lease(holds));
        }
    }

    fn served_by_all(&self) -> Mono {
        let served = self.zones.parts().map(|modes| {
            let authority =
                self.standby.as_ref().map_or(Mono::NEVER, |standby| standby.served_until(standby.instead(modes)));
            authority.min(self.recording.served_until(modes))
        });
        served.min().unwrap_or(Mono::NEVER).min(self.lease.until())
    }
}
