//! What reaches the plant's socket, held against what the clients may do: invariants 1 and 2 where it matters.

use testkit::world::{asked_of, scope_of};

use super::*;

/// Which actions somebody may take on each scope.
pub type Allowed = BTreeSet<(u32, Action)>;

impl Life {
    pub(super) fn allowed(&self) -> Allowed {
        let clients = 0..self.clients.len();
        let all = [Action::Browse, Action::Read, Action::Write, Action::Call];
        let all = clients.flat_map(|client| (1..=3).flat_map(move |scope| all.map(|action| (client, scope, action))));
        all.filter(|(client, scope, action)| self.may(*client, *scope, *action))
            .map(|(_, scope, action)| (scope, action))
            .collect()
    }

    /// Everything that reached the plant is something that somebody may do now, or might a moment ago.
    pub(super) fn judge_wire(&mut self, before: &Allowed) {
        let Some(guarded) = &mut self.world.guarded else { return };
        let reached = std::mem::take(&mut guarded.reached);
        let after = self.allowed();
        for (node, action) in reached.iter().filter_map(|body| asked_of(body)).flatten() {
            let Some(scope) = scope_of(&node) else { continue };
            self.seen.reached += 1;
            let allowed = [before, &after].iter().any(|allowed| allowed.contains(&(scope, action)));
            assert!(allowed, "{action:?} of {node} reaches the plant, and nobody may");
        }
    }
}
