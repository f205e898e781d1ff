//! The gate itself: its grants, and how they end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use access_model::{Epoch, Mode, Mono, Now, ScopeMap, UnixTime};
use token::{Issuer, VerifyingKey};

use crate::admit::Locals;
use crate::approval::Approvals;
use crate::clock::Latest;
use crate::contact::Standby;
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
    free: Vec<u32>,
    /// The next moment of each grant that has one: its end, or the end of its grace.
    due: BTreeSet<(Mono, GrantId)>,
    /// Live grants by the end that the wall clock shows.
    ends: BTreeSet<(UnixTime, GrantId)>,
    /// All grants by the end that their tokens state.
    minted_ends: BTreeSet<(UnixTime, GrantId)>,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    Live,
    Expired,
    Revoked,
}

/// What a check looks at, side by side.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) generation: u32,
    pub(crate) state: State,
    pub(crate) until: Mono,
    pub(crate) expires: UnixTime,
    pub(crate) table: Arc<Table>,
    pub(crate) record: Option<Box<Record>>,
}

/// The rest of a grant.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) facts: GrantFacts,
    /// Whether the authority's updates and fail mode touch it.
    pub(crate) authority: bool,
    /// Rights and end as the token states them, before any update.
    pub(crate) minted: Terms,
    /// Since when it is expired or revoked.
    pub(crate) over: Mono,
    /// Its entry in `due`.
    due: Mono,
}

/// Rights and their end.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) table: Arc<Table>,
    pub(crate) until: Mono,
    pub(crate) expires: UnixTime,
}

/// A grant that was examined and found good.
pub(crate) struct Examined {
    pub(crate) facts: GrantFacts,
    pub(crate) authority: bool,
    pub(crate) minted: Terms,
    pub(crate) now: Terms,
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

    /// From now on the time of some checks is taken by this monotonic clock.
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

    /// Ends a grant whose session is gone. Nothing is reported; a grant that is gone already stays so.
    pub fn release(&mut self, grant: GrantId) {
        self.remember_token(grant);
        self.forget(grant);
        self.observed.remove(&grant);
        let nothing = Arc::clone(&self.nothing);
        let Some(slot) = self.slot_mut(grant) else { return };
        (slot.state, slot.table, slot.record) = (State::Free, nothing, None);
        // A slot whose generations are used up is never used again.
        if let Some(next) = slot.generation.checked_add(1) {
            slot.generation = next;
            self.free.push(grant.index);
        }
    }

    /// Lets time do its work: expiry, the end of grace, loss of contact.
    pub fn handle_timeout(&mut self, now: Now) {
        self.clock.look(now);
        // A token that the wall clock has once shown to be over stays over when that clock is set back.
        while let Some(&(expires, id)) = self.minted_ends.first() {
            if expires > now.unix {
                break;
            }
            self.minted_ends.pop_first();
            if let Some(record) = self.slot_mut(id).and_then(|slot| slot.record.as_mut()) {
                record.minted.until = record.minted.until.min(now.mono);
            }
        }
        while let Some(&(expires, id)) = self.ends.first() {
            if expires > now.unix {
                break;
            }
            let since = self.slot(id).map_or(now.mono, |slot| slot.until.min(now.mono));
            self.expire(id, since);
        }
        while let Some(&(due, id)) = self.due.first() {
            if due > now.mono {
                break;
            }
            match self.slot(id).map(|slot| slot.state) {
                Some(State::Live) => self.expire(id, due),
                _ => {
                    self.release(id);
                    self.events.push_back(GateEvent::Ended(id));
                }
            }
        }
        self.note_fail_state(now);
    }

    /// When [`Gate::handle_timeout`] must be called next; `None` when time alone changes nothing.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        let due = self.due.first().map(|(due, _)| *due);
        due.into_iter().chain(self.zones_change()).min()
    }

    /// Whether [`Gate::handle_timeout`] would change anything now. Asks both clocks: a wall clock that was set forward ends
    /// grants before the time that [`Gate::poll_timeout`] tells.
    #[inline]
    #[must_use]
    pub fn is_due(&self, now: Now) -> bool {
        self.due.first().is_some_and(|(due, _)| *due <= now.mono)
            || self.minted_ends.first().is_some_and(|(end, _)| *end <= now.unix)
            || self.ends.first().is_some_and(|(end, _)| *end <= now.unix)
            || self.clock.is_ahead(now)
            || self.lease.is_over_by_wall_clock(now)
            || self.zones_change().is_some_and(|change| change <= now.mono)
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

    fn slot_mut(&mut self, grant: GrantId) -> Option<&mut Slot> {
        let slot = usize::try_from(grant.index).ok().and_then(|at| self.slots.get_mut(at))?;
        (slot.generation == grant.generation && slot.state != State::Free).then_some(slot)
    }

    /// Whether one more grant fits; asked before anything expensive.
    pub(crate) fn has_room(&self) -> bool {
        self.len() < self.config.max_grants && (!self.free.is_empty() || u32::try_from(self.slots.len()).is_ok())
    }

    /// Puts a grant into a free slot.
    pub(crate) fn insert(&mut self, examined: Examined) -> GrantId {
        let index = self.free.pop().unwrap_or_else(|| {
            let nothing = Arc::clone(&self.nothing);
            let (until, expires) = (Mono::ZERO, UnixTime::default());
            self.slots.push(Slot { generation: 0, state: State::Free, until, expires, table: nothing, record: None });
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        let id = GrantId { index, generation: self.slots.get(at).map_or(0, |slot| slot.generation) };
        if let Some(slot) = self.slots.get_mut(at) {
            slot.state = State::Expired;
        }
        self.replace(id, examined);
        id
    }

    /// Gives a grant a new content, all at once.
    pub(crate) fn replace(&mut self, id: GrantId, examined: Examined) {
        self.forget(id);
        if examined.minted.expires != FOREVER {
            self.minted_ends.insert((examined.minted.expires, id));
        }
        if let (true, Some(name)) = (examined.authority, &examined.facts.id) {
            self.by_token.entry(name.clone()).or_default().insert(id);
        }
        let Examined { facts, authority, minted, now } = examined;
        let Some(slot) = self.slot_mut(id) else { return };
        let record = Record { facts, authority, minted, over: Mono::NEVER, due: Mono::NEVER };
        slot.record = Some(Box::new(record));
        self.set_terms(id, now);
    }

    /// Makes a grant live under these terms.
    pub(crate) fn set_terms(&mut self, id: GrantId, terms: Terms) {
        self.forget_schedule(id);
        let Terms { table, until, expires } = terms;
        let Some(slot) = self.slot_mut(id) else { return };
        (slot.state, slot.until, slot.expires, slot.table) = (State::Live, until, expires, table);
        self.schedule(id, until);
        if expires != FOREVER {
            self.ends.insert((expires, id));
        }
    }

    fn expire(&mut self, id: GrantId, since: Mono) {
        if self.observed.contains(&id) {
            // No token can make it live again.
            self.release(id);
            return self.events.push_back(GateEvent::Ended(id));
        }
        if self.finish(id, State::Expired, since) {
            self.events.push_back(GateEvent::Expired(id));
        }
    }

    pub(crate) fn revoke(&mut self, id: GrantId, now: Now) {
        // A grant that is over already does not get another grace.
        let since = match self.slot(id) {
            Some(slot) if slot.state == State::Expired => slot.record.as_ref().map_or(now.mono, |record| record.over),
            Some(slot) if slot.state == State::Live => now.mono,
            _ => return,
        };
        if self.finish(id, State::Revoked, since) {
            self.forget_questions(id);
            self.events.push_back(GateEvent::Revoked(id));
        }
    }

    /// Makes a grant end now and wait out its grace; gives whether there is one.
    fn finish(&mut self, id: GrantId, state: State, since: Mono) -> bool {
        self.forget_schedule(id);
        let grace = self.config.expiry_grace;
        let Some(slot) = self.slot_mut(id) else { return false };
        slot.state = state;
        if let Some(record) = &mut slot.record {
            record.over = since;
        }
        self.schedule(id, since + grace);
        true
    }

    fn schedule(&mut self, id: GrantId, at: Mono) {
        if let Some(record) = self.slot_mut(id).and_then(|slot| slot.record.as_mut()) {
            record.due = at;
            if at != Mono::NEVER {
                self.due.insert((at, id));
            }
        }
    }

    fn forget_schedule(&mut self, id: GrantId) {
        let Some(slot) = self.slot(id) else { return };
        let (expires, due) = (slot.expires, slot.record.as_ref().map(|record| record.due));
        self.ends.remove(&(expires, id));
        if let Some(due) = due {
            self.due.remove(&(due, id));
        }
    }

    /// Takes a grant out of every index.
    fn forget(&mut self, id: GrantId) {
        self.forget_schedule(id);
        let Some(record) = self.slot_mut(id).and_then(|slot| slot.record.as_mut()) else { return };
        let (expires, token) = (record.minted.expires, record.facts.id.clone());
        self.minted_ends.remove(&(expires, id));
        let Some(token) = token else { return };
        if let Some(grants) = self.by_token.get_mut(&token) {
            grants.remove(&id);
            if grants.is_empty() {
                self.by_token.remove(&token);
            }
        }
    }
}

/// The end of a grant that has none.
pub(crate) const FOREVER: UnixTime = UnixTime::from_micros(i64::MAX);
