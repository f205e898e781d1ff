//! The chain of regenerations: seen only where nothing of the past counts, a net with fixed times is a Markov chain.
//!
//! A fixed time and all that happens while it runs is one step from the state in which it begins. Its mean length makes the step a rate,
//! so that what the chain does in the long run, and until something happens, is what the net does.

use super::course::Course;
use super::system::System;
use crate::chain::{self, Chain, Reached};
use crate::{Budget, Refusal};

/// Edges that the chain may have.
const EDGES: usize = 10_000_000;

pub(super) struct Embedded {
    chain: Chain,
    initial: Vec<(u32, f64)>,
    /// The state of each of its states.
    states: Vec<u32>,
}

/// The long run of a net with fixed times.
pub(super) struct LongRun {
    /// Share of time spent in each state. Adds up to 1.
    pub(super) distribution: Vec<f64>,
    /// How often per time unit a fixed time ends in each state.
    pub(super) ends: Vec<f64>,
    /// Closed classes of regenerations.
    pub(super) bottoms: usize,
}

impl Embedded {
    /// `None` where it would have too many edges, or rates are more than numbers can say.
    pub(super) fn new(
        system: &System<'_>,
        regenerations: &[bool],
        courses: &[Course],
        budget: &Budget<'_>,
    ) -> Option<Self> {
        #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
        let states: Vec<u32> =
            (0..system.runs.len()).filter(|state| regenerations[*state]).map(|state| state as u32).collect();
        let mut of = vec![u32::MAX; system.runs.len()];
        (0..).zip(&states).for_each(|(index, state)| of[*state as usize] = index);
        let (mut rows, mut columns, mut rates) = (vec![0], Vec::new(), Vec::new());
        let mut sums = vec![0.0; system.runs.len()];
        let mut touched: Vec<usize> = Vec::new();
        for state in states.iter().map(|state| *state as usize) {
            let mut add = |to: usize, part: f64| {
                if sums[to] == 0.0 {
                    touched.push(to);
                }
                sums[to] += part;
            };
            let course = &courses[state];
            let time = match system.clock(state) {
                None => {
                    system.chain.row(state).for_each(|(to, rate)| add(to, rate));
                    1.0
                }
                Some(clock) => {
                    for (during, spent) in &course.spent {
                        let during = *during as usize;
                        let stops = system.chain.row(during).filter(|(to, _)| system.runs[*to] != system.runs[during]);
                        stops.for_each(|(to, rate)| add(to, spent * rate));
                    }
                    for (end, share) in &course.ends {
                        clock.leads(*end as usize).for_each(|(to, part)| add(to, share * part));
                    }
                    course.time
                }
            };
            touched.sort_unstable();
            for to in touched.drain(..) {
                let rate = std::mem::take(&mut sums[to]) / time;
                if !rate.is_finite() {
                    return None;
                }
                if to != state && rate > 0.0 {
                    columns.push(of[to]);
                    rates.push(rate);
                }
            }
            if columns.len() > EDGES || budget.bytes(columns.len() as u64 * 24).is_err() {
                return None;
            }
            #[expect(clippy::cast_possible_truncation, reason = "compared with `EDGES` just above")]
            rows.push(columns.len() as u32);
        }
        let initial = system.initial.iter().map(|(state, share)| (of[*state as usize], *share)).collect();
        Some(Self { chain: Chain::from_rows(rows, columns, rates), initial, states })
    }

    /// Multiplications that its equations take, about.
    #[expect(clippy::cast_precision_loss, reason = "an estimate of work")]
    pub(super) fn work(&self) -> f64 {
        self.chain.edges() as f64 * self.chain.len().min(600) as f64
    }

    /// What it does in the long run.
    ///
    /// # Errors
    /// As those of [`chain::long_run`].
    pub(super) fn long_run(
        &self,
        system: &System<'_>,
        courses: &[Course],
        budget: &mut Budget<'_>,
    ) -> Result<LongRun, Refusal> {
        let found = chain::long_run(&self.chain, &self.initial, budget)?;
        let mut distribution = vec![0.0; system.runs.len()];
        let mut ends = vec![0.0; system.runs.len()];
        for (state, share) in self.states.iter().zip(&found.distribution) {
            let state = *state as usize;
            if system.runs[state].is_none() {
                distribution[state] += share;
                continue;
            }
            let begins = share / courses[state].time;
            courses[state].spent.iter().for_each(|(during, spent)| distribution[*during as usize] += begins * spent);
            courses[state].ends.iter().for_each(|(end, part)| ends[*end as usize] += begins * part);
        }
        Ok(LongRun { distribution, ends, bottoms: found.bottoms })
    }

    /// How the states that `goal` names are reached, in which the system ends.
    ///
    /// # Errors
    /// As those of [`chain::passage`].
    pub(super) fn passage(&self, goal: &[bool], budget: &mut Budget<'_>) -> Result<Reached, Refusal> {
        let goal: Vec<bool> = self.states.iter().map(|state| goal[*state as usize]).collect();
        chain::passage(&self.chain, &self.initial, &goal, budget)
    }
}
