//! Gauss-Seidel sweeps over a component, in the order in which its states were found.
//!
//! A sweep that changes little says nothing by itself: where two groups of states hardly know of each other, it changes
//! little for ever. So the sweeps end only when the changes, state by state and relative, have fallen steadily to rounding.

use super::solve::{Component, normalize};
use crate::Refusal;
use crate::{Budget, Progress};

/// Relative change of each state at which the sweeps end.
const SETTLED: f64 = 1e-13;
/// The changes must fall at least this much a sweep over the last [`SPAN`].
const FALLS: f64 = 0.995;
const SPAN: usize = 10;
/// Sweeps after which it is asked how many are left, and how many may be.
const PATIENT: usize = 40;
const LONGEST: f64 = 400.0;
/// Edge operations after which they are given up.
const WORK: u64 = 60_000_000_000;
/// Rates that are further apart than this, between groups of states, are not left to sweeps.
const COUPLED: f64 = 1e-6;

/// Watches the changes.
struct Course {
    changes: Vec<f64>,
    sweeps: u64,
    work: u64,
    each: u64,
}

/// What the changes say.
#[derive(PartialEq)]
enum Say {
    On,
    Settled,
    Hopeless,
}

impl Course {
    fn new(component: &Component<'_>) -> Self {
        let edges: usize = component.nodes.iter().map(|node| component.chain.row(*node as usize).count()).sum();
        Self { changes: Vec::new(), sweeps: 0, work: 0, each: (edges + component.nodes.len()) as u64 }
    }

    fn note(&mut self, change: f64, budget: &mut Budget<'_>) -> Result<Say, Refusal> {
        self.changes.push(change);
        self.sweeps += 1;
        self.work += self.each;
        if self.sweeps.is_multiple_of(8) || self.each > 1_000_000 {
            budget.look(Progress::Solving { sweeps: self.sweeps, error: change })?;
        }
        if change == 0.0 {
            return Ok(Say::Settled);
        }
        let count = self.changes.len();
        let factor = if count > SPAN {
            #[expect(clippy::cast_precision_loss, reason = "ten")]
            let factor = (change / self.changes[count - 1 - SPAN]).powf(1.0 / SPAN as f64);
            factor
        } else {
            1.0
        };
        if change < SETTLED && factor < FALLS {
            return Ok(Say::Settled);
        }
        // How many sweeps are left, if they go on as they do.
        let left = (SETTLED / change).ln() / factor.ln();
        let slow = count > PATIENT && change >= SETTLED && !(0.0..=LONGEST).contains(&left);
        Ok(if self.work > WORK || slow || (change < SETTLED / 100.0 && count > SPAN) { Say::Hopeless } else { Say::On })
    }
}

/// Whether some state is left, on the whole, so seldom against its rates inside a group that sweeps would not show it.
pub(super) fn decoupled(component: &Component<'_>) -> bool {
    // Groups: what is strongly connected by edges that are not rare for the state they leave.
    struct Strong<'a, 'b>(&'a Component<'b>, Vec<Vec<u32>>);
    impl crate::components::Graph for Strong<'_, '_> {
        fn nodes(&self) -> usize {
            self.0.nodes.len()
        }
        fn successor(&self, node: usize, index: usize) -> Option<usize> {
            self.1[node].get(index).map(|to| *to as usize)
        }
    }
    let mut strong = vec![Vec::new(); component.nodes.len()];
    let mut rare = false;
    for (local, node) in component.nodes.iter().enumerate() {
        let exit = component.chain.exit(*node as usize);
        for (to, rate) in component.chain.row(*node as usize) {
            let Some(to) = component.local(to) else { continue };
            if rate >= exit * COUPLED {
                #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
                strong[local].push(to as u32);
            } else {
                rare = true;
            }
        }
    }
    rare && {
        let components = crate::components::of(&Strong(component, strong));
        (0..components.len()).filter(|group| components.nodes(*group).len() > 1).count() > 1
    }
}

/// The stationary distribution; `None` when the sweeps do not settle.
pub(super) fn stationary(component: &Component<'_>, budget: &mut Budget<'_>) -> Result<Option<Vec<f64>>, Refusal> {
    let count = component.nodes.len();
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^32")]
    let mut weights = vec![1.0 / count as f64; count];
    let mut course = Course::new(component);
    loop {
        let change = pass(component, None, &mut weights);
        if course.sweeps % 8 == 7 {
            normalize(&mut weights);
        }
        match course.note(change, budget)? {
            Say::On => {}
            Say::Settled => break,
            Say::Hopeless => return Ok(None),
        }
    }
    normalize(&mut weights);
    Ok(Some(weights))
}

/// Time spent in each state; `None` when the sweeps do not settle.
pub(super) fn occupancy(
    component: &Component<'_>,
    inflow: &[f64],
    budget: &mut Budget<'_>,
) -> Result<Option<Vec<f64>>, Refusal> {
    let mut time = vec![0.0; component.nodes.len()];
    let mut course = Course::new(component);
    loop {
        let change = pass(component, Some(inflow), &mut time);
        match course.note(change, budget)? {
            Say::On => {}
            Say::Settled => return Ok(Some(time)),
            Say::Hopeless => return Ok(None),
        }
    }
}

/// One sweep; the largest relative change of a state.
fn pass(component: &Component<'_>, inflow: Option<&[f64]>, values: &mut [f64]) -> f64 {
    let whole = component.nodes.len() == component.chain.len();
    let mut largest = 0.0_f64;
    for (local, node) in component.nodes.iter().enumerate() {
        let column = component.incoming.column(*node as usize);
        let arriving: f64 = if whole {
            column.map(|(from, rate)| values[from] * rate).sum()
        } else {
            column.filter_map(|(from, rate)| component.local(from).map(|from| values[from] * rate)).sum()
        };
        let new = (inflow.map_or(0.0, |inflow| inflow[local]) + arriving) / component.chain.exit(*node as usize);
        let change = (new - values[local]).abs();
        if change > largest * new {
            largest = if new > 0.0 { change / new } else { 1.0 };
        }
        values[local] = new;
    }
    largest
}
