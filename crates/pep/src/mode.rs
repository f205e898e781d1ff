//! Learn before you lock: a gate that observes lets everything pass for whoever is signed in, and writes on each permit
//! what enforcement would have said.

use std::time::Duration;

use access_model::{Mode, Now};

use crate::lives::{Examined, Terms};
use crate::{ChannelBinding, Gate, GateEvent, GrantFacts, GrantId, Identity};

/// How long somebody may stay to whom nothing is granted, before the authority is asked again who that is: an account that
/// was closed since, or a way to sign in that is not offered any more, is not noticed otherwise, for there is no token to
/// be taken back. As long as grants live that policies say nothing else of.
const OBSERVED: Duration = Duration::from_secs(3_600);

impl Gate {
    /// Whether denials hold. What the authority said last counts, else the configuration. A gate that may not be switched
    /// enforces whatever anybody says, and so does one that waits for the first word of its authority: it cannot know
    /// what was ordered while it was away.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// The authority has said how the gate serves, or (`None`) says nothing about it: then the configuration holds. Grants
    /// that stand only because the gate observes end with that.
    pub(crate) fn order(&mut self, ordered: Option<Mode>, now: Now) {
        let mode = if self.config.switchable { ordered.unwrap_or(self.config.mode) } else { Mode::Enforce };
        if std::mem::replace(&mut self.mode, mode) == mode {
            return;
        }
        if mode == Mode::Enforce {
            let only_observed = std::mem::take(&mut self.observed);
            only_observed.into_iter().for_each(|grant| self.revoke(grant, now));
        }
        self.events.push_back(GateEvent::Mode(mode));
    }

    /// A grant without any right for somebody of whom the authority says that policies grant them nothing; `name` is what
    /// they are recorded as. None unless the gate observes, or when there is no room.
    ///
    /// It lives for an hour and is gone then without a grace ([`GateEvent::Ended`]): whoever comes again signs in again, and
    /// the authority says anew who that is. A gate that asks nobody lets nobody in like this: it has only its own
    /// configuration to say who may sign in, and that says no.
    pub fn admit_observed(
        &mut self,
        identity: &Identity,
        name: &str,
        binding: &ChannelBinding,
        now: Now,
    ) -> Option<GrantId> {
        if self.mode() != Mode::Observe || !self.has_room() {
            return None;
        }
        let subject = if *identity == Identity::Anonymous { name.to_owned() } else { identity.name().to_owned() };
        let expires = now.unix + OBSERVED;
        let facts = GrantFacts {
            subject,
            issuer: None,
            client: binding.application.clone(),
            roles: Vec::new(),
            groups: Vec::new(),
            id: None,
            expires: Some(expires),
            epoch: None,
            confirmation: None,
        };
        let terms = Terms { table: self.nothing(), until: now.mono + OBSERVED, expires };
        let grant = self.insert(Examined { facts, authority: false, minted: terms.clone(), now: terms });
        self.observed.insert(grant);
        Some(grant)
    }
}
