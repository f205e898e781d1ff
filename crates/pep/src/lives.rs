//! The lives of grants: they begin in a slot, end by time or by word, wait out their grace, and are gone.

use std::sync::Arc;

use access_model::{Mono, Now, UnixTime};

use crate::table::Table;
use crate::{Gate, GateEvent, GrantFacts, GrantId};

/// The end of a grant that has none.
pub(crate) const FOREVER: UnixTime = UnixTime::from_micros(i64::MAX);

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
    /// Ends a grant whose session is gone. Nothing is reported; a grant that is gone already stays so.
    pub fn release(&mut self, grant: GrantId) {
        self.remember_token(grant);
        self.forget(grant);
        self.observed.remove(&grant);
        let nothing = self.nothing();
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

    /// Whether one more grant fits; asked before anything expensive.
    pub(crate) fn has_room(&self) -> bool {
        self.len() < self.config.max_grants && (!self.free.is_empty() || u32::try_from(self.slots.len()).is_ok())
    }

    /// Puts a grant into a free slot.
    pub(crate) fn insert(&mut self, examined: Examined) -> GrantId {
        let index = self.free.pop().unwrap_or_else(|| {
            let nothing = self.nothing();
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
