//! Markings that a net leaves for ever, sooner or later.
//!
//! What runs show of a net that hardly ever comes to its end looks like a long run, and nothing drifts. Where the net is small, its
//! markings say whether runs are where it stays.

use std::collections::HashSet;

use super::machine::Machine;
use crate::explore::{Space, explore};
use crate::net::Net;
use crate::{Budget, Class, Limits, Refusal, chain};

/// Markings that are looked at, as many as are explored while a few batches are simulated, and bytes that this takes.
pub(super) const LIMITS: Limits = Limits { markings: 20_000, bytes: 64 << 20 };

/// What the markings of a net say of its runs; nothing where it is too large, or cannot be explored.
#[derive(Debug, Default)]
pub(super) struct Passing {
    /// The tangible markings that are left for ever.
    left: HashSet<Box<[u64]>>,
    /// Whether all runs end in one closed class, so that they cannot have ended differently.
    pub(super) one: bool,
}

impl Passing {
    pub(super) fn of(net: &Net) -> Self {
        let mut go_on = |_| true;
        let space = explore(net, 1, &[], &[], &mut Budget::new(LIMITS, &mut go_on));
        space.map_or_else(|_| Self::default(), |space| Self::among(&space))
    }

    fn among(space: &Space) -> Self {
        let (stays, classes) = chain::closed(space.chain());
        let mut tokens = vec![0; space.places()];
        let mut markings = |wanted: bool| {
            let mut markings = HashSet::new();
            for (state, _) in (0..).zip(&stays).filter(|(_, stays)| **stays == wanted) {
                space.load(space.marking_of(state), &mut tokens);
                markings.insert(tokens.clone().into_boxed_slice());
            }
            markings
        };
        let mut passing = markings(false);
        if !passing.is_empty() {
            // With clocks the same marking may be both.
            let stays = markings(true);
            passing.retain(|marking| !stays.contains(marking));
        }
        Self { left: passing, one: classes == 1 }
    }

    /// How many of the runs are in one of them.
    pub(super) fn count<'a>(&self, runs: impl Iterator<Item = &'a Machine<'a>>) -> usize {
        if self.left.is_empty() {
            return 0;
        }
        runs.filter(|run| self.left.contains(run.marking.as_slice())).count()
    }
}

/// Why there is no long run of so many runs.
pub(super) fn refusal((passing, of): (usize, usize)) -> Refusal {
    let why = format!(
        "when the limit of firings or of time was reached, {passing} of {of} runs were in markings that the net leaves for ever: its long \
         run had not begun; allow more, or ask `solve`"
    );
    Refusal::new(Class::TooLarge, "", why)
}
