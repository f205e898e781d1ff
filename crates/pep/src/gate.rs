//! The gate itself: what it is made of, what it knows, and where its grants are found.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use access_model::{Epoch, Mode, Mono, Now, ScopeMap, UnixTime};
use token::{Issuer, VerifyingKey};

use crate::admit::Locals;
use crate::approval::Approvals;
use crate::clock::Latest;
use crate::contact::Standby;
use crate::lives::{Record, Slot, State};
use crate::meter::GateMeter;
use crate::table::{Table, Tables};
use crate::zones::{Lease, Recording, Zones};
use crate::{GateConfig, GateEvent, GrantFacts, GrantId, InvalidGate};

/// Grants, and the question whether an operation may pass under one.
///
/// Call [`Gate::handle_timeout`] before the checks of a new input: it is what makes an end final that only the wall
/// clock has shown.
#[derive(Debug)]
pub struct Gate {
    pub(crate) config: GateConfig,
    pub(crate) tables: Tables,
    pub(crate) locals: Locals,
    pub(crate) slots: Vec<Slot>,
    pub(crate) free: Vec<u32>,
    /// The next moment of each grant that has one: its end, or the end of its grace.
    pub(crate) due: BTreeSet<(Mono, GrantId)>,
    /// Live grants by the end that the wall clock shows.
    pub(crate) ends: BTreeSet<(UnixTime, GrantId)>,
    /// All grants by the end that their tokens state.
    pub(crate) minted_ends: BTreeSet<(UnixTime, GrantId)>,
    /// Grants of the authority by token id.
    pub(crate) by_token: BTreeMap<String, BTreeSet<GrantId>>,
    pub(crate) standby: Option<Standby>,
    /// What is served where while something is lost.
    pub(crate) zones: Zones,
    /// Whether anything can be recorded.
    pub(crate) recording: Recording,
    pub(crate) lease: Lease,
    /// Until then every grant is served in every scope; kept beside what it comes from for the check.
    pub(crate) served_until: Mono,
    pub(crate) events: VecDeque<GateEvent>,
    pub(crate) approvals: Approvals,
    /// What tokens are held against instead of a wall clock that may be set back.
    pub(crate) clock: Latest,
    pub(crate) meter: Arc<GateMeter>,
    /// Reads a monotonic clock, for the time that checks take.
    pub(crate) stopwatch: Option<fn() -> Mono>,
    /// The table of no rights, for slots without a grant.
    nothing: Arc<Table>,
    /// Whether denials hold.
    pub(crate) mode: Mode,
    /// Grants that stand only while the gate observes.
    pub(crate) observed: BTreeSet<GrantId>,
}

impl Gate {
    /// A gate without grants. One that expects contact with an authority serves none of its tokens before the first
    /// full list.
    ///
    /// # Errors
    /// A configuration that contradicts itself.
    pub fn new(config: GateConfig, now: Now) -> Result<Self, InvalidGate> {
        config.check()?;
        let locals = Locals::new(&config)?;
        let mut tables = Tables::new(token::map_digest(&config.map), config.map.len(), config.danger_without);
        let nothing = tables.for_local([]).map_err(|_| InvalidGate::NoAudience)?;
        let standby = config.contact.clone().map(|contact| Standby::new(contact, config.max_remembered, now));
        let mut gate = Self {
            served_until: Mono::ZERO,
            zones: Zones::new(&config),
            recording: Recording::default(),
            lease: Lease::new(config.leased),
            events: standby.iter().map(|_| GateEvent::NeedFullList).collect(),
            approvals: Approvals::default(),
            config,
            tables,
            locals,
            slots: Vec::new(),
            free: Vec::new(),
            due: BTreeSet::new(),
            ends: BTreeSet::new(),
            minted_ends: BTreeSet::new(),
            by_token: BTreeMap::new(),
            standby,
            clock: Latest::new(now),
            meter: Arc::default(),
            stopwatch: None,
            nothing,
            mode: Mode::Enforce,
            observed: BTreeSet::new(),
        };
        if gate.standby.is_none() {
            gate.order(None, now);
        }
        gate.begin_zones(now);
        gate.handle_timeout(now);
        Ok(gate)
    }

    /// What it counts: for those who watch.
    #[must_use]
    pub const fn meter(&self) -> &Arc<GateMeter> {
        &self.meter
    }

    /// From now on the time of some checks and of every token is taken by this monotonic clock.
    pub fn time_checks(&mut self, stopwatch: fn() -> Mono) {
        self.stopwatch = Some(stopwatch);
    }

    /// The configuration it was made with.
    #[must_use]
    pub const fn config(&self) -> &GateConfig {
        &self.config
    }

    /// Takes new keys, as issuers rotate theirs. Grants of an issuer that is gone are revoked.
    ///
    /// # Errors
    /// An issuer twice, or none that is the authority; then nothing changes.
    pub fn set_issuers(&mut self, issuers: Vec<Issuer>, now: Now) -> Result<(), InvalidGate> {
        let before = std::mem::replace(&mut self.config.issuers, issuers);
        if let Err(fault) = self.config.check() {
            self.config.issuers = before;
            return Err(fault);
        }
        let orphaned = |facts: &GrantFacts| facts.issuer.as_ref().is_some_and(|name| !self.config.knows(name));
        let orphans: Vec<GrantId> = self.ids().filter(|id| self.claims(*id).is_some_and(orphaned)).collect();
        orphans.into_iter().for_each(|id| self.revoke(id, now));
        Ok(())
    }

    /// Takes new keys of a foreign issuer. Grants that stand go on.
    ///
    /// # Errors
    /// There is no such foreign issuer; then nothing changes.
    pub fn set_foreign_keys(&mut self, issuer: &str, keys: Vec<VerifyingKey>) -> Result<(), InvalidGate> {
        let known = self.config.foreign.iter_mut().find(|foreign| foreign.issuer.name == issuer);
        let known = known.ok_or_else(|| InvalidGate::UnknownIssuer(issuer.to_owned()))?;
        known.issuer.keys = keys;
        Ok(())
    }

    /// Takes another map of scopes. Rights index the old one: every grant ends, and a new token that indexes the new map
    /// revives it. Gives whether the map is another at all.
    ///
    /// # Errors
    /// A local grant names a scope that the new map does not have; then nothing changes.
    pub fn set_map(&mut self, map: ScopeMap, now: Now) -> Result<bool, InvalidGate> {
        let digest = token::map_digest(&map);
        if digest == token::map_digest(&self.config.map) {
            return Ok(false);
        }
        let config = GateConfig { map, ..self.config.clone() };
        let locals = Locals::new(&config)?;
        let mut tables = Tables::new(digest, config.map.len(), config.danger_without);
        self.nothing = tables.for_local([]).map_err(|_| InvalidGate::NoAudience)?;
        (self.config, self.locals, self.tables) = (config, locals, tables);
        self.place_zones(now);
        // What indexes nothing indexes no old map either.
        for grant in self.observed.clone() {
            let nothing = self.nothing();
            if let Some(slot) = self.slot_mut(grant) {
                slot.table = nothing;
            }
        }
        let all: Vec<GrantId> = self.ids().filter(|id| !self.observed.contains(id)).collect();
        all.into_iter().for_each(|id| self.revoke(id, now));
        Ok(true)
    }

    /// How far the wall clock is behind the latest time it has shown: what it was set back by, or what it was wrongly
    /// ahead by before. Tokens are held against that latest time until the gate is made anew.
    #[must_use]
    pub fn clock_behind(&self, now: Now) -> std::time::Duration {
        self.clock.behind(now)
    }

    /// How many grants there are, those in their grace included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is no grant.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is known about a grant besides its rights; `None` once it is gone.
    #[must_use]
    pub fn claims(&self, grant: GrantId) -> Option<&GrantFacts> {
        self.record(grant).map(|record| &record.facts)
    }

    /// Every grant that is not gone yet, for operators: who is here, under which token.
    pub fn grants(&self) -> impl Iterator<Item = (GrantId, &GrantFacts)> {
        self.ids().filter_map(|id| Some((id, self.claims(id)?)))
    }

    /// What has happened, in order.
    pub fn poll_event(&mut self) -> Option<GateEvent> {
        self.events.pop_front()
    }

    /// Of the authority's last update that this gate applied; `None` before the first.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.standby.as_ref().and_then(Standby::epoch)
    }

    pub(crate) fn nothing(&self) -> Arc<Table> {
        Arc::clone(&self.nothing)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = GrantId> + '_ {
        let used = (0_u32..).zip(&self.slots).filter(|(_, slot)| slot.state != State::Free);
        used.map(|(index, slot)| GrantId { index, generation: slot.generation })
    }

    #[inline]
    pub(crate) fn slot(&self, grant: GrantId) -> Option<&Slot> {
        let slot = usize::try_from(grant.index).ok().and_then(|at| self.slots.get(at))?;
        (slot.generation == grant.generation && slot.state != State::Free).then_some(slot)
    }

    pub(crate) fn record(&self, grant: GrantId) -> Option<&Record> {
        self.slot(grant)?.record.as_deref()
    }

    pub(crate) fn slot_mut(&mut self, grant: GrantId) -> Option<&mut Slot> {
        let slot = usize::try_from(grant.index).ok().and_then(|at| self.slots.get_mut(at))?;
        (slot.generation == grant.generation && slot.state != State::Free).then_some(slot)
    }
}
