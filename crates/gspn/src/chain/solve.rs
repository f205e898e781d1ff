//! One component of a chain: its stationary distribution, or the time spent in it before it is left.

use super::elimination::{Eliminated, Part};
use super::{Chain, Incoming, sweep};
use crate::Budget;
use crate::{Class, Refusal};

/// States of a component that are taken out one by one in any case.
const SMALL: usize = 600;
/// Edge operations that taking out may cost where sweeps did not settle.
const WORK: u64 = 3_000_000_000;
/// The same where it is tried first, and the states up to which it is.
const FIRST: u64 = 20_000_000;
const MEDIUM: usize = 5_000;

/// A strongly connected component that is being solved.
pub(super) struct Component<'a> {
    pub(super) chain: &'a Chain,
    pub(super) incoming: &'a Incoming,
    pub(super) nodes: &'a [u32],
}

impl Component<'_> {
    /// Its stationary distribution; nothing leaves it.
    pub(super) fn stationary(&self, budget: &mut Budget<'_>) -> Result<Vec<f64>, Refusal> {
        if self.nodes.len() == 1 {
            return Ok(vec![1.0]);
        }
        if let Some(eliminated) = self.eliminate(self.first()) {
            return Ok(eliminated.stationary());
        }
        if let Some(weights) = sweep::stationary(self, budget)? {
            return Ok(weights);
        }
        self.eliminate(WORK).map(|eliminated| eliminated.stationary()).ok_or_else(|| self.stiff())
    }

    /// Time spent in each state before the component is left, or, where nothing leaves it and `inflow` adds up to 0, some
    /// solution of the same equations.
    pub(super) fn occupancy(&self, inflow: Vec<f64>, budget: &mut Budget<'_>) -> Result<Vec<f64>, Refusal> {
        if let ([node], [inflow]) = (self.nodes, inflow.as_slice()) {
            let exit = self.chain.exit(*node as usize);
            return Ok(vec![if exit > 0.0 { inflow / exit } else { 0.0 }]);
        }
        if let Some(eliminated) = self.eliminate(self.first()) {
            return Ok(eliminated.occupancy(inflow));
        }
        if let Some(time) = sweep::occupancy(self, &inflow, budget)? {
            return Ok(time);
        }
        self.eliminate(WORK).map(|eliminated| eliminated.occupancy(inflow)).ok_or_else(|| self.stiff())
    }

    fn first(&self) -> u64 {
        match self.nodes.len() {
            count if count <= SMALL => u64::MAX,
            count if count <= MEDIUM => FIRST,
            _ => 0,
        }
    }

    fn stiff(&self) -> Refusal {
        let why = format!(
            "the equations of {} states with rates this far apart settle too slowly, and are too many to be solved directly",
            self.nodes.len()
        );
        Refusal::new(Class::TooLarge, "", why)
    }

    pub(super) fn local(&self, state: usize) -> Option<usize> {
        #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
        let state = state as u32;
        if self.nodes.len() == self.chain.len() { Some(state as usize) } else { self.nodes.binary_search(&state).ok() }
    }

    fn eliminate(&self, work: u64) -> Option<Eliminated> {
        let edges: usize = self.nodes.iter().map(|node| self.chain.row(*node as usize).count()).sum();
        if (edges as u64) > work {
            return None;
        }
        let mut part = Part::default();
        for node in self.nodes {
            let mut leaves = 0.0;
            let mut row = Vec::new();
            for (to, rate) in self.chain.row(*node as usize) {
                #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
                match self.local(to) {
                    Some(to) => row.push((to as u32, rate)),
                    None => leaves += rate,
                }
            }
            part.rows.push(row);
            part.leaves.push(leaves);
        }
        Eliminated::new(part, work)
    }
}

/// Divides by the sum.
pub(super) fn normalize(weights: &mut [f64]) {
    let sum = sum(weights.iter().copied());
    if sum > 0.0 {
        weights.iter_mut().for_each(|weight| *weight /= sum);
    }
}

/// The sum, with what rounding lost (Neumaier).
pub(crate) fn sum(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0_f64, 0.0_f64);
    for value in values {
        let next = sum + value;
        lost += if sum.abs() >= value.abs() { (sum - next) + value } else { (value - next) + sum };
        sum = next;
    }
    sum + lost
}
