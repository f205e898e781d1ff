//! The parts of a net with fixed times: what happens while each of them runs, and where their ends lead.

use std::borrow::Cow;

use crate::chain::Chain;
use crate::components;
use crate::explore::{Space, Watched};
use crate::net::{Kind, Net};

/// What happens between regenerations. A state in which a fixed time runs is left by exponential times, which let it run on where
/// it is still enabled, or by its end.
pub(super) struct System<'a> {
    /// What happens beside the fixed times. States that are `ends` are never left.
    pub(super) chain: Cow<'a, Chain>,
    pub(super) clocks: Vec<Clock<'a>>,
    /// The clock that runs in each state, as a position in `clocks`.
    pub(super) runs: Vec<Option<usize>>,
    pub(super) initial: &'a [(u32, f64)],
}

/// A fixed time.
pub(super) struct Clock<'a> {
    pub(super) delay: f64,
    /// Its index in the net.
    pub(super) transition: usize,
    /// Where its end leads, by the state in which it comes; entries add up to 1.
    ends: &'a Watched,
}

impl Clock<'_> {
    /// Where its end in `state` leads, with what probability.
    pub(super) fn leads(&self, state: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.ends.chain.row(state)
    }

    /// How often its end in each state makes the counted immediate `transition` fire, on the average.
    pub(super) fn fired(&self, transition: usize) -> Option<&[f64]> {
        self.ends.fired(transition)
    }
}

impl<'a> System<'a> {
    /// The system of `net` as `space` was explored, fixed times apart.
    pub(super) fn new(net: &Net, space: &'a Space) -> Option<Self> {
        let mut clocks = Vec::new();
        // By the clocks of the space, of which those with phases are none here.
        let mut fixed = Vec::new();
        for transition in space.clocks() {
            let Kind::Deterministic { delay } = net.transitions()[transition].kind else {
                fixed.push(None);
                continue;
            };
            fixed.push(Some(clocks.len()));
            clocks.push(Clock { delay, transition, ends: space.watched(transition)? });
        }
        #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
        let running = |state: usize| {
            space.phases(state as u32).iter().zip(&fixed).find_map(|(phase, clock)| clock.filter(|_| *phase > 0))
        };
        let runs = (0..space.chain().len()).map(running).collect();
        Some(Self { chain: Cow::Borrowed(space.chain()), clocks, runs, initial: space.initial() })
    }

    /// The same, ending in the states that `goal` names.
    pub(super) fn ending(&self, goal: &[bool]) -> System<'a> {
        let clocks = self.clocks.iter().map(|clock| Clock { ..*clock }).collect();
        let runs = self.runs.iter().zip(goal).map(|(runs, goal)| runs.filter(|_| !goal)).collect();
        System { chain: Cow::Owned(self.chain.ending(goal)), clocks, runs, initial: self.initial }
    }

    /// The clock whose end `state` waits for.
    pub(super) fn clock(&self, state: usize) -> Option<&Clock<'a>> {
        self.runs[state].map(|clock| &self.clocks[clock])
    }

    /// Whether a move from one state to another begins a time of the clock that runs there.
    pub(super) fn begins(&self, from: usize, to: usize) -> bool {
        self.runs[to].is_some() && self.runs[to] != self.runs[from]
    }

    /// The states at whose entry nothing of the past counts: those without a clock, and those in which a clock may begin.
    pub(super) fn regenerations(&self) -> Vec<bool> {
        let mut found: Vec<bool> = self.runs.iter().map(Option::is_none).collect();
        self.initial.iter().for_each(|(state, _)| found[*state as usize] = true);
        for state in 0..self.runs.len() {
            for (to, _) in self.chain.row(state) {
                found[to] |= self.begins(state, to);
            }
            self.clock(state).into_iter().flat_map(|clock| clock.leads(state)).for_each(|(to, _)| found[to] = true);
        }
        found
    }

    /// Every move there is, whatever its rate.
    fn moves(&self) -> Chain {
        let (mut rows, mut columns) = (vec![0], Vec::new());
        for state in 0..self.runs.len() {
            let ends = self.clock(state).into_iter().flat_map(|clock| clock.leads(state));
            let others = self.chain.row(state).chain(ends).filter(|(to, _)| *to != state);
            #[expect(clippy::cast_possible_truncation, reason = "states and edges have numbers of 32 bits")]
            columns.extend(others.map(|(to, _)| to as u32));
            #[expect(clippy::cast_possible_truncation, reason = "states and edges have numbers of 32 bits")]
            rows.push(columns.len() as u32);
        }
        let rates = vec![1.0; columns.len()];
        Chain::from_rows(rows, columns, rates)
    }

    /// Which states lie in closed classes that can be reached, and how many such classes there are.
    pub(super) fn closed(&self) -> (Vec<bool>, usize) {
        let moves = self.moves();
        let mut reached = vec![false; moves.len()];
        let mut next: Vec<usize> = self.initial.iter().map(|(state, _)| *state as usize).collect();
        while let Some(state) = next.pop() {
            if !std::mem::replace(&mut reached[state], true) {
                next.extend(moves.row(state).map(|(to, _)| to));
            }
        }
        let components = components::of(&moves);
        let (mut closed, mut classes) = (vec![false; moves.len()], 0);
        for component in 0..components.len() {
            let nodes = components.nodes(component);
            let stays = |node: &u32| moves.row(*node as usize).all(|(to, _)| components.of[to] as usize == component);
            if reached[nodes[0] as usize] && nodes.iter().all(stays) {
                nodes.iter().for_each(|node| closed[*node as usize] = true);
                classes += 1;
            }
        }
        (closed, classes)
    }

    /// Tangible markings are states without phases: whether no move leads from the marking of a state to another.
    pub(super) fn deadlocks(&self, marking: impl Fn(usize) -> u32, markings: usize) -> u64 {
        let moves = self.moves();
        let mut left = vec![false; markings];
        for state in 0..moves.len() {
            let own = marking(state);
            if moves.row(state).any(|(to, _)| marking(to) != own) {
                left[own as usize] = true;
            }
        }
        left.iter().filter(|left| !**left).count() as u64
    }
}
