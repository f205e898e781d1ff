//! Learn before you lock: a gate that observes lets everything pass for whoever is signed in, and writes on each permit
//! what enforcement would have said.

use access_model::{Mode, Now};

use crate::gate::{Examined, FOREVER, Terms};
use crate::{ChannelBinding, Gate, GateEvent, GrantFacts, GrantId, Identity};

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

    /// A grant without any right for somebody who has proven who they are and whom nothing is granted; `name` is what they
    /// are recorded as. None unless the gate observes, or when there is no room.
    pub fn admit_observed(&mut self, identity: &Identity, name: &str, binding: &ChannelBinding) -> Option<GrantId> {
        if self.mode() != Mode::Observe || !self.has_room() {
            return None;
        }
        let subject = if *identity == Identity::Anonymous { name.to_owned() } else { identity.name().to_owned() };
        let facts = GrantFacts {
            subject,
            issuer: None,
            client: binding.application.clone(),
            roles: Vec::new(),
            groups: Vec::new(),
            id: None,
            expires: None,
            epoch: None,
            confirmation: None,
        };
        let terms = Terms { table: self.nothing(), until: access_model::Mono::NEVER, expires: FOREVER };
        let grant = self.insert(Examined { facts, authority: false, minted: terms.clone(), now: terms });
        self.observed.insert(grant);
        Some(grant)
    }
}
