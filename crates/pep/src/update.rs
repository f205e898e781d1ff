//! What the authority says about grants after they were minted.

use std::collections::{BTreeMap, BTreeSet};

use access_model::{Mode, Now, Reason, Refusal};
use token::Verified;
use token::control::{self, Replacement, Update};

use crate::contact::{MAX_UPDATE_AGE, Place, Standby};
use crate::lives::State;
use crate::{Change, DangerWithout, Gate, GateEvent, GrantId};

impl Gate {
    /// Opens a sealed update and applies it ([`Gate::apply_update`]).
    ///
    /// # Errors
    /// It is not sealed by the authority for this gate, or cannot be applied; then nothing changes.
    pub fn on_update(&mut self, update: &[u8], now: Now) -> Result<(), Refusal> {
        let name = self.standby.as_ref().map(Standby::issuer);
        let authority = self.config.issuers.iter().find(|issuer| Some(issuer.name.as_str()) == name);
        let authority = authority.ok_or_else(|| Refusal::new(Reason::TokenIssuer, NO_AUTHORITY))?;
        let update = control::open(update, std::slice::from_ref(authority), &self.config.audience)?;
        self.apply_update(&update, now)
    }

    /// Applies an update. A full list replaces what the gate knew; a delta applies only to the epoch before it. When
    /// updates are missing in between, the gate asks for the full list and serves under its fail mode until it comes;
    /// revocations take effect all the same.
    ///
    /// # Errors
    /// An update of another issuer or for another gate, a full list older than what the gate knows, or one that was
    /// signed long ago; then nothing changes.
    pub fn apply_update(&mut self, update: &Verified<Update>, now: Now) -> Result<(), Refusal> {
        let standby = self.standby.as_mut().ok_or_else(|| Refusal::new(Reason::TokenIssuer, NO_AUTHORITY))?;
        if update.issuer != standby.issuer() {
            return Err(Refusal::new(Reason::TokenIssuer, "the update is of another issuer than the authority"));
        }
        if update.audience != self.config.audience {
            return Err(Refusal::new(Reason::TokenAudience, "the update is for another gate"));
        }
        let age = now.unix.since(update.issued_at);
        if age > MAX_UPDATE_AGE {
            return Err(Refusal::new(Reason::TokenExpired, format!("the update was signed {} s ago", age.as_secs())));
        }
        let place = standby.place(update);
        if place == Place::Old {
            let stale = Refusal::new(Reason::ProtocolMisbehavior, "the full list is older than what this gate knows");
            return if update.previous.is_none() { Err(stale) } else { Ok(()) };
        }
        let present = self.clock.look(now);
        standby.learn(update, place, present);
        if place != Place::Gap {
            self.approvals.answered(&update.approved, place == Place::Full, now);
        }
        if place == Place::Gap {
            self.events.push_back(GateEvent::NeedFullList);
        }
        if !(update.revoked.is_empty() && update.replaced.is_empty()) && place != Place::Full {
            self.meter.lag.observe(age);
        }
        self.revise(update, place, now);
        // The full list says all that holds; a delta says what is new. Of one that does not fit only what locks counts.
        match (place, update.mode) {
            (Place::Full, mode) | (Place::Next, mode @ Some(_)) | (Place::Gap, mode @ Some(Mode::Enforce)) => {
                self.order(mode, now);
            }
            _ => {}
        }
        self.note_fail_state(now);
        Ok(())
    }

    /// A sign of life from the authority that says nothing about epochs. After silence it is not enough: the gate may
    /// have missed something and asks for the full list.
    pub fn on_contact(&mut self, now: Now) {
        if self.standby.as_mut().is_some_and(|standby| standby.alive(now.mono)) {
            self.events.push_back(GateEvent::NeedFullList);
        }
        self.note_fail_state(now);
    }

    /// The stream to the authority broke.
    pub fn on_contact_lost(&mut self, now: Now) {
        if let Some(standby) = &mut self.standby {
            standby.lose(now.mono);
        }
        self.note_fail_state(now);
    }

    /// Brings the grants that are held in line with an update.
    fn revise(&mut self, update: &Update, place: Place, now: Now) {
        let revoked: BTreeSet<&str> = match self.config.danger_without {
            DangerWithout::Revocation => BTreeSet::new(),
            _ => update.revoked.iter().map(|entry| entry.id.as_str()).collect(),
        };
        let replaced: BTreeMap<&str, &Replacement> = match place {
            Place::Gap => BTreeMap::new(),
            _ => update.replaced.iter().map(|entry| (entry.id.as_str(), entry)).collect(),
        };
        // The full list is the whole truth: grants that it does not name stand as minted. A delta speaks only of
        // those it names.
        let held: Vec<(GrantId, String)> = match place {
            Place::Full => self.held(self.by_token.keys().map(String::as_str)),
            _ => self.held(revoked.iter().copied().chain(replaced.keys().copied())),
        };
        revoked.iter().for_each(|id| self.forget_questions_under(id));
        for (grant, id) in held {
            if revoked.contains(id.as_str()) {
                self.revoke(grant, now);
            } else {
                self.adopt(grant, replaced.get(id.as_str()).copied(), now);
            }
        }
    }

    fn held<'a>(&self, ids: impl Iterator<Item = &'a str>) -> Vec<(GrantId, String)> {
        let grants = ids.filter_map(|id| self.by_token.get(id).map(|grants| (id, grants)));
        grants.flat_map(|(id, grants)| grants.iter().map(move |grant| (*grant, id.to_owned()))).collect()
    }

    /// Puts a grant under the terms of a replacement, or back under its own.
    fn adopt(&mut self, grant: GrantId, replacement: Option<&Replacement>, now: Now) {
        let Some(record) = self.record(grant) else { return };
        let minted = record.minted.clone();
        let terms = match replacement {
            None => minted,
            Some(replacement) => match self.tables.for_claim(&replacement.rights) {
                Ok(table) => minted.narrowed(table, replacement.not_after, self.clock.look(now)),
                // Rights that cannot be understood are no rights.
                Err(_) => return self.revoke(grant, now),
            },
        };
        let Some(slot) = self.slot(grant) else { return };
        let (state, before) = (slot.state, slot.table.clone());
        let over = now.mono >= terms.until || now.unix >= terms.expires;
        if state == State::Revoked || (state == State::Expired && over) {
            return;
        }
        let change = before.change_to(&terms.table);
        self.set_terms(grant, terms);
        if over {
            // Ends now, under the terms that end it.
            self.handle_timeout(now);
        } else if state != State::Live || change != Change::Renewed {
            self.events.push_back(GateEvent::Changed(grant, change));
        }
    }
}

const NO_AUTHORITY: &str = "this gate listens to no authority";
