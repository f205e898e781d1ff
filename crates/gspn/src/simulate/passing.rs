//! Markings that a net leaves for ever, sooner or later.
//!
//! What runs show of a net that hardly ever comes to its end looks like a long run, and nothing drifts. Where the net is small, its
//! markings say whether runs are where it stays.

use std::collections::BTreeMap;

use super::machine::Machine;
use crate::explore::{Space, explore};
use crate::net::Net;
use crate::{Budget, Class, Limits, Refusal, chain};

/// Markings that are looked at, as many as are explored while a few batches are simulated, and bytes that this takes.
pub(super) const LIMITS: Limits = Limits { markings: 20_000, bytes: 64 << 20 };

/// Of a larger net so many firings of its runs are worth looking at one marking more, up to these.
const EACH: u64 = 20;
const LARGEST: Limits = Limits { markings: 500_000, bytes: 256 << 20 };

/// What the markings of a net say of its runs; nothing where it is too large, or cannot be explored.
#[derive(Debug)]
pub(super) struct Passing {
    /// The markings, and of each state whether it is one of those where the net stays; nothing where there are none that are left for ever.
    left: Option<(Space, Vec<bool>)>,
    /// Whether all runs end in one closed class, so that they cannot have ended differently.
    pub(super) one: bool,
    /// How many markings are not enough.
    beyond: Option<u64>,
}

impl Passing {
    pub(super) fn of(net: &Net) -> Self {
        Self::within(net, LIMITS)
    }

    /// Whether more markings than were looked at may say more.
    pub(super) fn is_open(&self) -> bool {
        self.beyond.is_some()
    }

    /// Looks at more markings, as many as so many `firings` are worth. Whether they are all.
    pub(super) fn further(&mut self, net: &Net, firings: u64) -> bool {
        let Some(beyond) = self.beyond else { return true };
        let markings = (firings / EACH).min(LARGEST.markings);
        if markings / 2 >= beyond {
            *self = Self::within(net, Limits { markings, ..LARGEST });
        }
        self.beyond.is_none()
    }

    fn within(net: &Net, limits: Limits) -> Self {
        let mut go_on = |_| true;
        match explore(net, 1, &[], &[], &mut Budget::new(limits, &mut go_on)) {
            Ok(space) => {
                let (stays, classes) = chain::closed(space.chain());
                let left = stays.iter().any(|stays| !stays).then_some((space, stays));
                Self { left, one: classes == 1, beyond: None }
            }
            // What is refused for itself is so again, however many markings are allowed.
            Err(refusal) => {
                let beyond = if refusal.class == Class::TooLarge { limits.markings } else { u64::MAX };
                Self { left: None, one: false, beyond: Some(beyond) }
            }
        }
    }

    /// How many of the runs are in markings that are left for ever.
    pub(super) fn count<'a>(&self, runs: impl Iterator<Item = &'a Machine<'a>>) -> usize {
        let Some((space, stays)) = &self.left else { return 0 };
        // With clocks the same marking may be both; one that is not found is none of them.
        let mut of: BTreeMap<&[u64], (usize, bool)> = BTreeMap::new();
        for run in runs {
            of.entry(run.marking.as_slice()).or_insert((0, false)).0 += 1;
        }
        let mut tokens = vec![0; space.places()];
        for wanted in [false, true] {
            for (state, _) in (0..).zip(stays).filter(|(_, stays)| **stays == wanted) {
                space.load(space.marking_of(state), &mut tokens);
                if let Some((_, left)) = of.get_mut(tokens.as_slice()) {
                    *left = !wanted;
                }
            }
        }
        of.values().filter(|(_, left)| *left).map(|(runs, _)| runs).sum()
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
