//! Markings that a net leaves for ever, sooner or later.
//!
//! What runs show of a net that hardly ever comes to its end looks like a long run, and nothing drifts. Where the net is small, its
//! markings say whether runs are where it stays.

use std::collections::{BTreeMap, BTreeSet};

use super::machine::Machine;
use crate::explore::{Space, explore};
use crate::net::{Kind, Net, Rate, Servers};
use crate::{Budget, Class, Limits, Refusal, chain};

/// Markings that are looked at, as many as are explored while a few batches are simulated, and bytes that this takes.
pub(super) const LIMITS: Limits = Limits { markings: 20_000, bytes: 64 << 20 };

/// Of a larger net so many firings of its runs are worth looking at one marking more, up to these.
const EACH: u64 = 20;
const LARGEST: Limits = Limits { markings: 500_000, bytes: 256 << 20 };

/// What the markings of a net say of its runs; nothing where it is too large, or cannot be explored.
#[derive(Debug)]
pub(super) struct Passing {
    /// The markings, and of each state the closed class that it is in.
    markings: Option<(Space, Vec<Option<u32>>)>,
    /// How many closed classes there are, 0 where that is not known.
    classes: usize,
    /// Whether each marking that was found is come to. It may not be where fixed times were explored as if any could end first.
    exact: bool,
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

    /// Whether all runs end in one closed class, so that they cannot have ended differently.
    pub(super) fn is_one(&self) -> bool {
        self.exact && self.classes == 1
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
        let refusal = match explored(net, limits) {
            Ok(space) => return Self::found(space, true, None),
            Err(refusal) => refusal,
        };
        if refusal.class == Class::TooLarge {
            return Self { markings: None, classes: 0, exact: false, beyond: Some(limits.markings) };
        }
        // What is refused for itself is so again, however many markings are allowed.
        match explored(&untimed(net), limits) {
            Ok(space) => Self::found(space, false, Some(u64::MAX)),
            Err(_) => Self { markings: None, classes: 0, exact: false, beyond: Some(u64::MAX) },
        }
    }

    fn found(space: Space, exact: bool, beyond: Option<u64>) -> Self {
        let (of, classes) = chain::classes(space.chain());
        let says = classes > 1 || of.iter().any(Option::is_none);
        Self { markings: says.then_some((space, of)), classes, exact, beyond }
    }

    /// How many of the runs are in markings that are left for ever.
    pub(super) fn count<'a>(&self, runs: impl Iterator<Item = &'a Machine<'a>>) -> usize {
        let Some((space, classes)) = self.markings.as_ref().filter(|_| self.exact) else { return 0 };
        // With clocks the same marking may be both; one that is not found is none of them.
        let mut of: BTreeMap<&[u64], (usize, bool)> = BTreeMap::new();
        for run in runs {
            of.entry(run.marking.as_slice()).or_insert((0, false)).0 += 1;
        }
        for wanted in [false, true] {
            each_marking(space, classes, |class, marking| {
                if let Some((_, left)) = of.get_mut(marking).filter(|_| class.is_some() == wanted) {
                    *left = !wanted;
                }
            });
        }
        of.values().filter(|(_, left)| *left).map(|(runs, _)| runs).sum()
    }

    /// How the runs end; nothing where the markings are not known.
    pub(super) fn ends<'a>(&self, runs: impl Iterator<Item = &'a Machine<'a>>) -> Option<Seen> {
        let Some((space, classes)) = self.markings.as_ref().filter(|_| self.classes > 1) else {
            return (self.classes == 1).then_some(Seen::default());
        };
        let markings: BTreeSet<&[u64]> = runs.map(|run| run.marking.as_slice()).collect();
        let mut seen = BTreeSet::new();
        each_marking(space, classes, |class, marking| {
            if let Some(class) = class.filter(|_| markings.contains(marking)) {
                seen.insert(class);
            }
        });
        Some(Seen { differently: seen.len() > 1, unseen: seen.len() < self.classes, sure: self.exact })
    }
}

/// How runs have ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    /// Not all of them in one closed class.
    pub(super) differently: bool,
    /// None in one that there is,
    pub(super) unseen: bool,
    /// or at least in one that there may be.
    pub(super) sure: bool,
}

fn explored(net: &Net, limits: Limits) -> Result<Space, Refusal> {
    explore(net, 1, &[], &[], &mut Budget::new(limits, &mut |_| true))
}

/// The net whose fixed times may each end first: it comes wherever the net does, and maybe further.
fn untimed(net: &Net) -> Net {
    let mut net = net.clone();
    for it in &mut net.transitions {
        if matches!(it.kind, Kind::Deterministic { .. }) {
            it.kind = Kind::Timed { rate: Rate::Constant(1.0), servers: Servers::Finite(1) };
        }
    }
    net
}

fn each_marking(space: &Space, classes: &[Option<u32>], mut look: impl FnMut(Option<u32>, &[u64])) {
    let mut tokens = vec![0; space.places()];
    for (state, class) in (0..).zip(classes) {
        space.load(space.marking_of(state), &mut tokens);
        look(*class, tokens.as_slice());
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

/// Why so many runs do not say how the net ends.
pub(super) fn unseen(runs: usize) -> Refusal {
    let why = format!(
        "the net may come to several ends that it does not leave again, and none of {runs} runs had come to one of them when the limit of \
         firings or of time was reached: allow more, or ask `solve`"
    );
    Refusal::new(Class::TooLarge, "", why)
}
