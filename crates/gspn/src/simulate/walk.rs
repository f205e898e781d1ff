//! Walks from where runs are to where the net never comes back from, for nets of too many markings to know which are left for ever.
//!
//! Each step fires one of the transitions that are enabled, all alike: what happens once in thousands of millions of firings is as likely
//! there as anything else. What a walk finds is proven by it, for in a closed class nothing leads out; that it finds nothing says nothing.

use super::machine::Machine;
use super::model::{Model, Time};
use super::passing::Seen;
use super::random::Stream;
use super::trap;
use crate::net::{Net, semiflows, structure};
use crate::{Class, Refusal};

/// Steps of the first walk from each run, and how often they become twice as many.
const STEPS: u32 = 64;
const DOUBLED: usize = 14;
/// Immediates that fire one after the other.
const AT_ONCE: usize = 1_000;
/// Transitions that are looked at for each firing of a simulation, and at most: that takes about a second.
const EACH: u64 = 8;
const MOST: u64 = 60_000_000;
/// Streams of random numbers that no run has.
const STREAM: u64 = u64::MAX - 1;

/// What a net of any size has that is left for ever.
#[derive(Debug)]
pub(super) struct Ends {
    /// Whether a transition fires only so often.
    once: Vec<bool>,
    /// Whether each that is enabled may fire next.
    race: bool,
}

/// What a walk came to: a transition by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Nothing fires any more, this fired last.
    Dead(usize),
    /// This may fire, and does so only so often.
    Once(usize),
}

impl Ends {
    pub(super) fn of(net: &Net, model: &Model) -> Self {
        // What fires for ever in a closed class of a net with bounds is a sum of firings that lead back.
        let mut once = vec![false; model.parts.len()];
        if semiflows::all_bounds(net).iter().all(Option::is_some) {
            let found = structure(net);
            if found.all_transitions {
                once.fill(true);
                found.transitions.iter().flatten().for_each(|(transition, _)| once[*transition] = false);
            }
        }
        Self { once, race: !model.parts.iter().any(|part| matches!(part.time, Time::Fixed(_))) }
    }

    /// How the runs end, as far as what fires only so often says: where it fired more often in some, they are elsewhere, and where one
    /// fired in none, others may be.
    pub(super) fn seen(&self, runs: &[&Machine<'_>]) -> Seen {
        let once = || self.once.iter().enumerate().filter(|(_, once)| **once).map(|(transition, _)| transition);
        let fired = |transition: usize| runs.iter().map(move |run| run.fired()[transition]);
        Seen {
            differently: once().any(|it| fired(it).min() != fired(it).max()),
            unseen: once().any(|it| fired(it).max() == Some(0)),
            sure: false,
        }
    }

    /// Walks from the markings of `runs`, as far as so many `firings` of them are worth.
    pub(super) fn search(&self, model: &Model, seed: u64, runs: &[&Machine<'_>], firings: u64) -> Option<End> {
        if !self.race || runs.is_empty() {
            return None;
        }
        let (mut stream, mut work) = (Stream::new(seed, STREAM, 0), 0);
        let mut marking = model.initial.clone();
        for (walk, run) in runs.iter().cycle().enumerate() {
            marking.copy_from_slice(&run.marking);
            for _ in 0..STEPS << (walk / runs.len()).min(DOUBLED) {
                work += model.parts.len() as u64;
                if work > firings.saturating_mul(EACH).min(MOST) {
                    return None;
                }
                let enabled = model.timed.iter().map(|index| *index as usize);
                let enabled: Vec<usize> = enabled.filter(|index| model.parts[*index].rate(&marking) > 0.0).collect();
                if let Some(once) = enabled.iter().find(|index| self.once[**index]) {
                    return Some(End::Once(*once));
                }
                let Some(chosen) = one_of(&enabled, &mut stream) else { break };
                if !fire(model, chosen, &mut marking) || !settle(model, &mut marking, &mut stream, &mut work) {
                    break;
                }
                if !model.timed.iter().any(|index| model.parts[*index as usize].rate(&marking) > 0.0) {
                    return Some(End::Dead(chosen));
                }
            }
        }
        None
    }
}

impl End {
    pub(super) fn refusal(self, model: &Model) -> Refusal {
        let what = match self {
            Self::Dead(last) => format!("firings lead to where nothing fires any more, `{}` last", model.names[last]),
            Self::Once(it) => format!("`{}` can fire, which no other firings make up for", model.names[it]),
        };
        let why = format!(
            "from where the runs were, {what}: what they show is left for ever, however late, and its long run had not begun when the \
             limit of firings or of time was reached; ask for a time (`at`, `passage_mean`)"
        );
        Refusal::new(Class::TooLarge, "", why)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a few")]
fn one_of(some: &[usize], stream: &mut Stream) -> Option<usize> {
    some.get((stream.uniform() * some.len() as f64) as usize).copied()
}

/// Fires; not where more tokens come to be than can be counted.
fn fire(model: &Model, transition: usize, marking: &mut [u64]) -> bool {
    model.parts[transition].changes.iter().all(|change| {
        let before = marking[change.place];
        marking[change.place] = before.wrapping_add(change.by);
        !change.grows || marking[change.place] >= before
    })
}

/// Fires immediates until none is enabled; not where there are too many.
fn settle(model: &Model, marking: &mut [u64], stream: &mut Stream, work: &mut u64) -> bool {
    for _ in 0..AT_ONCE {
        *work += model.parts.len() as u64;
        match one_of(&trap::ready(model, marking), stream) {
            None => return true,
            Some(chosen) if !fire(model, chosen, marking) => return false,
            Some(_) => {}
        }
    }
    false
}
