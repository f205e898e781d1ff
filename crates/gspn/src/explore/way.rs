//! How a marking is reached: the firings that led there, found again from the states on the way.

use hashbrown::HashSet;

use super::explorer::{Explorer, NO_PARENT};
use super::proof::{self, Step};
use crate::Refusal;

/// Vanishing markings that are looked at in search of one way to a marking; behind that a refusal has no trace.
const SEARCHED: u64 = 1_000_000;

/// Comparisons that take as long as looking at one vanishing marking, and as noting one firing.
const NODE: u64 = 8;
const FIRING: u64 = 64;

/// Comparisons that take as long as asking whether one firing of a way is done more often each time.
const LOOKS: u64 = 8;

/// States before one that are compared with it, in search of a place that gathers tokens: so many in all to begin with, and so many more
/// for each state that was explored. A net with long ways must not spend its time on looking back.
const COMPARED: u64 = 4_000_000;
const EACH: u64 = 4;

/// How many vanishing markings may still be looked at.
struct Search {
    left: u64,
}

impl Search {
    /// # Returns
    /// Nothing when there is none left.
    fn take(&mut self, count: u64) -> Option<()> {
        let left = self.left.checked_sub(count);
        self.left = left.unwrap_or(0);
        left.map(drop)
    }
}

impl Explorer {
    /// Whether states before this one may still be compared with it.
    pub(super) fn looks_back(&self, state: u32) -> bool {
        self.compared <= COMPARED + EACH * u64::from(state)
    }

    /// # Errors
    /// When the way to `state` can be gone again and again with ever more tokens.
    pub(super) fn bounded(&mut self, state: u32, marking: &[u64]) -> Result<(), Refusal> {
        let wide = self.net.wide() as u64;
        let mut earlier = vec![0; self.net.places];
        let allowed = COMPARED + EACH * u64::from(state);
        let mut at = state;
        while let Some(parent) = self.parents.get(at as usize).copied().filter(|parent| *parent != NO_PARENT) {
            let Some(left) = (2 * allowed).checked_sub(self.compared) else { break };
            at = parent;
            self.compared += wide;
            self.markings.load_tangible(self.marking_of(at), &mut earlier);
            let Some(growth) = proof::grows(&earlier, marking) else { continue };
            // Finding the firings again is as much work as comparing many states, and no less where they are not found.
            let most = left / (NODE * wide);
            let mut search = Search { left: most };
            let steps = self.steps(at, state, &mut search);
            self.compared += (most - search.left) * NODE * wide;
            let Some(steps) = steps else { continue };
            let steps: Vec<&Step> = steps.iter().collect();
            // Looking for what is done more often each time takes several looks at each firing.
            self.compared += LOOKS * wide * steps.len() as u64;
            proof::bounded(&self.net, &growth, &steps, marking).map_err(|refusal| {
                let way = self.way_to(at).map(|way| way.into_iter().chain(steps.iter().map(|step| step.transition)));
                let trace = way.into_iter().flatten().map(|step| self.net.transition(step).to_owned()).collect();
                refusal.along(trace)
            })?;
        }
        Ok(())
    }

    /// Transitions that lead from the initial marking to `state`; none where finding them takes too long.
    pub(super) fn way_to(&self, state: u32) -> Option<Vec<usize>> {
        let mut first = state;
        while let Some(parent) = self.parents.get(first as usize).copied().filter(|parent| *parent != NO_PARENT) {
            first = parent;
        }
        let mut goal = vec![0; self.net.places];
        self.markings.load_tangible(self.marking_of(first), &mut goal);
        let start = self.net.initial.clone();
        let mut search = Search { left: SEARCHED };
        let begun = if start == goal { Some(Vec::new()) } else { self.through(start, Vec::new(), &goal, &mut search) };
        let way = begun.and_then(|mut way| {
            way.extend(self.steps(first, state, &mut search)?);
            Some(way)
        });
        way.map(|way| way.into_iter().map(|step| step.transition).collect())
    }

    /// Transitions that lead from the initial marking to the tangible marking `goal`: it was found by a firing in a state, or at time 0.
    pub(super) fn way_into(&self, from: Option<(u32, usize)>, goal: &[u64]) -> Option<Vec<usize>> {
        let (mut way, mut start) = (Vec::new(), self.net.initial.clone());
        if let Some((state, transition)) = from {
            way = self.way_to(state)?;
            self.markings.load_tangible(self.marking_of(state), &mut start);
            self.net.fires[transition].fire(&mut start)?;
            way.push(transition);
        }
        let steps = self.through(start, Vec::new(), goal, &mut Search { left: SEARCHED })?;
        way.extend(steps.into_iter().map(|step| step.transition));
        Some(way)
    }

    /// The firings from `from` to `to`, where `from` is among those that `to` was found from.
    fn steps(&self, from: u32, to: u32, search: &mut Search) -> Option<Vec<Step>> {
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
                steps.extend(self.hop(before, after, search)?);
            }
        }
        Some(steps)
    }

    fn hop(&self, before: u32, after: u32, search: &mut Search) -> Option<Vec<Step>> {
        search.take(FIRING / NODE)?;
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
            self.through(next, vec![Step { marking: start.clone(), transition }], &goal, search)
        })
    }

    /// The immediates from `start` to `goal`, behind `steps`.
    fn through(&self, start: Vec<u64>, steps: Vec<Step>, goal: &[u64], search: &mut Search) -> Option<Vec<Step>> {
        let mut seen: HashSet<Vec<u64>> = HashSet::new();
        seen.insert(start.clone());
        let mut nodes = vec![(start, usize::MAX, usize::MAX)];
        let mut ready = Vec::new();
        let mut next = 0;
        while next < nodes.len() {
            search.take(1)?;
            let at = nodes[next].0.clone();
            if at == goal {
                return Some(back(&nodes, next, steps));
            }
            self.net.ready(&at, &mut ready);
            // All orders of those that have nothing to do with the others lead to the same tangible markings: one is gone.
            let free = |position: &&usize| self.net.fires[self.net.immediates[**position].transition].free;
            if let Some(first) = ready.iter().find(free).copied() {
                ready.clear();
                ready.push(first);
            }
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
