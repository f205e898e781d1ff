//! The question that is asked for every item of every request.

use access_model::{Action, Denial, Mode, Now, Operation, Reason, Rights, ScopeIndex};

use crate::lives::{Slot, State};
use crate::{FailState, Gate, GrantId, Permit, Standing, Tally, Verdict};

/// The rights that a gate in its read-only fail mode still serves: those of actions that change nothing.
const CHANGES_NOTHING: Rights = {
    let (mut bits, mut at) = (0, 0);
    while at < Action::ALL.len() {
        #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which stops at a wrong index")]
        let action = Action::ALL[at];
        if !action.changes() {
            bits |= action.needed().bits();
        }
        at += 1;
    }
    match Rights::from_bits(bits) {
        Some(rights) => rights,
        None => Rights::NONE,
    }
};

/// What is left while something is lost, and what that is.
struct Left {
    rights: Rights,
    reason: Reason,
}

impl Gate {
    /// Whether this operation may pass now under this grant. No allocation, no lock, no signature: a few comparisons
    /// and two loads.
    #[inline]
    pub fn check(&self, grant: GrantId, operation: Operation, now: Now) -> Verdict {
        if self.meter.is_sample() && self.stopwatch.is_some() {
            return self.check_timed(grant, operation, now);
        }
        self.look_up(grant, operation, now)
    }

    /// The permit of a live grant that holds the right while nothing is lost, for who asks for every item of every request
    /// and has it inlined there. None says nothing: it is not counted, and [`Gate::check`] is to be asked.
    #[inline(always)]
    pub fn permit_at_once(&self, grant: GrantId, operation: Operation, now: Now) -> Option<Permit> {
        if self.meter.next_is_sample() || !self.plainly_holds(grant, operation, now) {
            return None;
        }
        self.meter.checks.add(1);
        Some(Permit::new(operation, grant))
    }

    #[cold]
    fn check_timed(&self, grant: GrantId, operation: Operation, now: Now) -> Verdict {
        let time = self.stopwatch.unwrap_or(|| access_model::Mono::ZERO);
        let begun = time();
        let verdict = self.look_up(grant, operation, now);
        self.meter.decisions.observe(time().since(begun));
        verdict
    }

    #[inline]
    fn look_up(&self, grant: GrantId, operation: Operation, now: Now) -> Verdict {
        if self.plainly_holds(grant, operation, now) {
            return Verdict::Permit(Permit::new(operation, grant));
        }
        match self.check_slowly(grant, operation, now) {
            Verdict::Deny(denial) => self.or_observed(denial, grant, operation, now),
            permit => permit,
        }
    }

    #[inline(always)]
    fn plainly_holds(&self, grant: GrantId, operation: Operation, now: Now) -> bool {
        self.slot(grant).is_some_and(|slot| {
            let held = slot.table.rights(operation.scope);
            slot.serves(now) && now.mono < self.served_until && held.contains(operation.action.needed())
        })
    }

    /// What somebody around the gate says no to, who has its permit already: the channel is too weak, a value is out of
    /// range. A gate that observes lets it pass all the same, and the permit says so.
    ///
    /// # Errors
    /// The denial, of a gate that enforces.
    pub fn in_spite_of(&self, permit: Permit, denial: Denial, now: Now) -> Result<Permit, Denial> {
        let (_, Tally { grant, against, .. }) = permit.parts();
        if against.is_some() || self.observes(grant, now) { Ok(permit.in_spite_of(denial.reason)) } else { Err(denial) }
    }

    /// Whether denials are only recorded. So they are for whoever is signed in; nobody else gets anything, for a gate that
    /// observes still asks who somebody is, and a grant that expired or was revoked is nobody's.
    #[must_use]
    pub fn observes(&self, grant: GrantId, now: Now) -> bool {
        self.mode() == Mode::Observe && self.holds_lease(now) && self.slot(grant).is_some_and(|slot| slot.serves(now))
    }

    /// Only here does a denial become a permit, and it stays written on it.
    #[cold]
    fn or_observed(&self, denial: Denial, grant: GrantId, operation: Operation, now: Now) -> Verdict {
        self.meter.denied();
        if self.observes(grant, now) {
            return Verdict::Permit(Permit::new(operation, grant).in_spite_of(denial.reason));
        }
        Verdict::Deny(denial)
    }

    /// What the grant may do on a scope at this moment: for UserAccessLevel, UserExecutable and their like. Everything
    /// while the gate observes.
    #[must_use]
    pub fn rights(&self, grant: GrantId, scope: ScopeIndex, now: Now) -> Rights {
        if self.observes(grant, now) { Rights::ALL } else { self.granted(grant, scope, now) }
    }

    /// What the grant holds on a scope at this moment, whether the gate enforces it or not.
    #[must_use]
    pub fn granted(&self, grant: GrantId, scope: ScopeIndex, now: Now) -> Rights {
        let served = self.served(grant, Some(scope), now);
        served.map_or(Rights::NONE, |(slot, left)| slot.table.rights(scope) & left.rights)
    }

    /// The roles of a grant, each with what the session really may do on the scope: for UserRolePermissions. The
    /// decision is about the session and not about its roles, so every role shows the same; their union is the truth.
    /// A session without roles shows the role that OPC 10000-3 §4.9.1 assigns to everyone.
    #[must_use]
    pub fn role_permissions(&self, grant: GrantId, scope: ScopeIndex, now: Now) -> Vec<(&str, Rights)> {
        let Some(facts) = self.claims(grant) else { return Vec::new() };
        let rights = self.rights(grant, scope, now);
        if facts.roles.is_empty() {
            let everyone = if facts.subject == ANONYMOUS { "Anonymous" } else { "AuthenticatedUser" };
            return vec![(everyone, rights)];
        }
        facts.roles.iter().map(|role| (role.as_str(), rights)).collect()
    }

    /// How a grant stands, by these clocks.
    #[must_use]
    pub fn standing(&self, grant: GrantId, now: Now) -> Standing {
        let Some(slot) = self.slot(grant) else { return Standing::Gone };
        let over = slot.record.as_ref().map_or(now.mono, |record| record.over);
        match slot.state {
            State::Free => Standing::Gone,
            State::Expired => Standing::Expired { since: over },
            State::Revoked => Standing::Revoked { since: over },
            State::Live if !slot.serves(now) => Standing::Expired { since: slot.until.min(now.mono) },
            State::Live if now.mono < self.served_until => Standing::Live { until: slot.until },
            State::Live => match self.served(grant, None, now) {
                Err(reason) if !self.observes(grant, now) => Standing::Suspended { reason },
                _ => Standing::Live { until: slot.until },
            },
        }
    }

    /// The slot of a grant that is served, and the rights that are left where something is lost: in this scope, or in the
    /// one where most is.
    fn served(&self, grant: GrantId, scope: Option<ScopeIndex>, now: Now) -> Result<(&Slot, Left), Reason> {
        let slot = self.slot(grant).ok_or(Reason::NoGrant)?;
        if slot.state == State::Revoked {
            return Err(Reason::GrantRevoked);
        }
        if !slot.serves(now) {
            return Err(Reason::GrantExpired);
        }
        let authority = slot.record.as_ref().is_some_and(|record| record.authority);
        self.left(authority, scope, now).map(|left| (slot, left))
    }

    fn left(&self, authority: bool, scope: Option<ScopeIndex>, now: Now) -> Result<Left, Reason> {
        if !self.holds_lease(now) {
            return Err(Reason::StandingBy);
        }
        let state = if authority { self.authority_left(scope, now) } else { FailState::InStep };
        let recorded = self.ledger_left(scope, now);
        let (state, reason) =
            if recorded > state { (recorded, Reason::AuditUnavailable) } else { (state, Reason::AuthorityLost) };
        match state {
            FailState::InStep | FailState::LastKnown => Ok(Left { rights: Rights::ALL, reason }),
            FailState::ReadOnly => Ok(Left { rights: CHANGES_NOTHING, reason }),
            FailState::Closed => Err(reason),
        }
    }

    #[cold]
    fn check_slowly(&self, grant: GrantId, operation: Operation, now: Now) -> Verdict {
        let denied = |reason, held| {
            let Operation { action, scope, .. } = operation;
            Verdict::Deny(Denial { reason, action, scope, held })
        };
        match self.served(grant, Some(operation.scope), now) {
            Err(reason) => denied(reason, Rights::NONE),
            Ok((slot, left)) => match decide(slot.table.rights(operation.scope), grant, operation) {
                Verdict::Permit(_) if !left.rights.contains(operation.action.needed()) => {
                    denied(left.reason, slot.table.rights(operation.scope) & left.rights)
                }
                verdict => verdict,
            },
        }
    }
}

/// The name under which sessions without identity appear.
pub(crate) const ANONYMOUS: &str = "anonymous";

impl Slot {
    /// Whether the grant is live and neither clock has passed its end.
    #[inline]
    pub(crate) fn serves(&self, now: Now) -> bool {
        self.state == State::Live && now.mono < self.until && now.unix < self.expires
    }
}

fn decide(held: Rights, grant: GrantId, operation: Operation) -> Verdict {
    if held.contains(operation.action.needed()) {
        return Verdict::Permit(Permit::new(operation, grant));
    }
    let reason = if held.is_empty() { Reason::ScopeNotGranted } else { Reason::RightMissing };
    Verdict::Deny(Denial { reason, action: operation.action, scope: operation.scope, held })
}
