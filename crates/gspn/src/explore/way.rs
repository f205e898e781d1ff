//! How a marking is reached: the firings that led there, found again from the states on the way.

use hashbrown::HashSet;

use super::explorer::{Explorer, NO_PARENT};
use super::proof::{self, Step};
use crate::Refusal;

/// Vanishing markings that are looked at between two states on the way.
const SEARCHED: usize = 100_000;

/// States before one that are compared with it, in search of a place that gathers tokens: so many in all to begin with, and so many more
/// for each state that was explored. A net with long ways must not spend its time on looking back.
const COMPARED: u64 = 4_000_000;
const EACH: u64 = 4;
impl Explorer {
    /// # Errors
    /// When the way to `state` can be gone again and again with ever more tokens.
    pub(super) fn bounded(&mut self, state: u32, marking: &[u64]) -> Result<(), Refusal> {
        if self.compared > COMPARED + EACH * u64::from(state) {
            return Ok(());
        }
        let mut earlier = vec![0; self.net.places];
        let allowed = COMPARED + EACH * u64::from(state);
        let mut at = state;
        while let Some(parent) = self.parents.get(at as usize).copied().filter(|parent| *parent != NO_PARENT) {
            if self.compared > 2 * allowed {
                break;
            }
            at = parent;
            self.compared += 1;
            self.markings.load_tangible(self.marking_of(at), &mut earlier);
            let Some(growth) = proof::grows(&earlier, marking) else { continue };
            let Some(steps) = self.steps(at, state) else { continue };
            // Finding the firings again is as much work as comparing many states.
            self.compared += 64 * steps.len() as u64;
            let steps: Vec<&Step> = steps.iter().collect();
            if proof::repeats(&self.net, &steps, &growth) {
                let mut way = self.way_to(at);
                way.extend(steps.iter().map(|step| step.transition));
                let trace = way.into_iter().map(|step| self.net.transition(step).to_owned()).collect();
                return Err(proof::refusal(&self.net, &growth, &steps).along(trace));
            }
        }
        Ok(())
    }

    /// Transitions that lead from the initial marking to `state`.
    pub(super) fn way_to(&self, state: u32) -> Vec<usize> {
        let mut first = state;
        while let Some(parent) = self.parents.get(first as usize).copied().filter(|parent| *parent != NO_PARENT) {
            first = parent;
        }
        let mut goal = vec![0; self.net.places];
        self.markings.load_tangible(self.marking_of(first), &mut goal);
        let start = self.net.initial.clone();
        let mut way = Vec::new();
        if start != goal {
            way = self.through(start, Vec::new(), &goal).unwrap_or_default();
        }
        way.extend(self.steps(first, state).unwrap_or_default());
        way.into_iter().map(|step| step.transition).collect()
    }

    /// The firings from `from` to `to`, where `from` is among those that `to` was found from.
    pub(super) fn steps(&self, from: u32, to: u32) -> Option<Vec<Step>> {
        let mut states = vec![to];
        let mut at = to;
        while at != from {
            at = *self.parents.get(at as usize)?;
            states.push(at);
        }
        states.reverse();
        let mut steps = Vec::new();
        for pair in states.windows(2) {
            let (before, after) = (self.marking_of(pair[0]), self.marking_of(pair[1]));
            if before != after || self.states.is_none() {
                steps.extend(self.hop(before, after)?);
            }
        }
        Some(steps)
    }

    fn hop(&self, before: u32, after: u32) -> Option<Vec<Step>> {
        let mut start = vec![0; self.net.places];
        let mut goal = start.clone();
        self.markings.load_tangible(before, &mut start);
        self.markings.load_tangible(after, &mut goal);
        let timed =
            self.net.timed.iter().filter(|timed| self.net.rate(timed, &start) > 0.0).map(|timed| timed.transition);
        let clocks = self.net.clocks.iter().map(|clock| clock.transition);
        let clocks = clocks.filter(|transition| self.net.fires[*transition].enabled(&start));
        timed.chain(clocks).find_map(|transition| {
            let mut next = start.clone();
            self.net.fires[transition].fire(&mut next)?;
            self.through(next, vec![Step { marking: start.clone(), transition }], &goal)
        })
    }

    /// The immediates from `start` to `goal`, behind `steps`.
    fn through(&self, start: Vec<u64>, steps: Vec<Step>, goal: &[u64]) -> Option<Vec<Step>> {
        let mut seen: HashSet<Vec<u64>> = HashSet::new();
        seen.insert(start.clone());
        let mut nodes = vec![(start, usize::MAX, usize::MAX)];
        let mut ready = Vec::new();
        let mut next = 0;
        while next < nodes.len() && nodes.len() < SEARCHED {
            let at = nodes[next].0.clone();
            if at == goal {
                return Some(back(&nodes, next, steps));
            }
            self.net.ready(&at, &mut ready);
            for position in &ready {
                let transition = self.net.immediates[*position].transition;
                let mut to = at.clone();
                self.net.fires[transition].fire(&mut to)?;
                if seen.insert(to.clone()) {
                    nodes.push((to, next, transition));
                }
            }
            next += 1;
        }
        None
    }
}

fn back(nodes: &[(Vec<u64>, usize, usize)], last: usize, mut steps: Vec<Step>) -> Vec<Step> {
    let mut way = Vec::new();
    let mut at = last;
    while nodes[at].1 != usize::MAX {
        let (_, before, transition) = nodes[at];
        way.push(Step { marking: nodes[before].0.clone(), transition });
        at = before;
    }
    steps.extend(way.into_iter().rev());
    steps
}
