//! Recorded accesses, decided again under a snapshot.

use access_model::{AccessRequest, Action, Effect, Principal, UnixTime};

use crate::decide::{Unasked, answer};
use crate::plant::Server;
use crate::snapshot::Snapshot;
use crate::workflow::InvalidStep;

/// Something that somebody did or tried, as a gate recorded it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// Who: a person, an application, or `anonymous`.
    pub who: String,
    /// Through which application, if its certificate proved one.
    pub application: Option<String>,
    /// At which server: its ApplicationUri.
    pub server: String,
    /// In which scope; empty for what no scope names.
    pub scope: String,
    /// What.
    pub action: Action,
    /// Where the workflow stood, sorted.
    pub steps: Vec<String>,
    /// The roles that the grant of that time named, sorted; none when the record does not say.
    pub roles: Vec<String>,
}

/// What every session may do to what is public, whatever policy says.
const PUBLIC: [Action; 3] = [Action::Browse, Action::Read, Action::ReceiveEvents];

impl Access {
    /// The name under which the plant file knows who it was: whoever does not say is `anonymous@` the server.
    #[must_use]
    pub fn person(&self, server: &Server) -> String {
        match self.who.as_str() {
            "" | "anonymous" => format!("anonymous@{}", server.name),
            name => name.to_owned(),
        }
    }

    /// Who asks, with the roles that the plant gives. Applications that the plant does not know count for nothing, as at
    /// the authority.
    #[must_use]
    pub fn principal(&self, snapshot: &Snapshot) -> Principal {
        let plant = snapshot.plant();
        let known = |uri: &&String| plant.applications.contains_key(*uri);
        if plant.applications.contains_key(&self.who) && !plant.persons.contains_key(&self.who) {
            return snapshot.principal(None, Some(&self.who), false);
        }
        let person = plant.servers.get(&self.server).map_or_else(|| self.who.clone(), |server| self.person(server));
        snapshot.principal(Some(&person), self.application.as_ref().filter(known).map(String::as_str), false)
    }

    /// Decides it again. Nobody and nothing that the plant does not know is permitted anything.
    ///
    /// # Errors
    /// A step that the workflow does not have.
    pub fn decide(&self, snapshot: &Snapshot, at: UnixTime) -> Result<Effect, InvalidStep> {
        if self.scope == "public" {
            return Ok(if PUBLIC.contains(&self.action) { Effect::Permit } else { Effect::Forbid });
        }
        let moved;
        let snapshot = if snapshot.workflow().steps().is_empty() || self.steps.is_empty() {
            snapshot
        } else {
            moved = snapshot.in_steps(self.steps.iter().map(String::as_str))?;
            &moved
        };
        let principal = self.principal(snapshot);
        Ok(self.answer(snapshot, &principal, at).unwrap_or(Effect::Forbid))
    }

    fn answer(&self, snapshot: &Snapshot, principal: &Principal, at: UnixTime) -> Result<Effect, Unasked> {
        let request = AccessRequest {
            principal: principal.clone(),
            action: self.action,
            server: self.server.clone(),
            scope: self.scope.clone(),
            at,
            break_glass: None,
        };
        Ok(answer(snapshot, &request)?.effect)
    }
}
