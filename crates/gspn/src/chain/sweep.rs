//! Gauss-Seidel sweeps over a component, in the order in which its states were found.
//!
//! A sweep that changes little says nothing by itself: where two groups of states hardly know of each other, it changes
//! little for ever. So the sweeps end only when the changes, state by state and relative, have fallen steadily to rounding; and
//! they go from two starts side by side, because groups that know of each other less than rounding each keep what their start gave them.

use super::level::{NOTHING, together};
use super::solve::{Component, normalize, sum};
use crate::components::{self, Graph};
use crate::{Budget, Progress, Refusal};

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
/// A change at which sweeps that settle no more stand still, and what solutions from two starts may be apart, state by state.
const STUCK: f64 = 1e-5;
const AGREE: f64 = 1e-9;
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
///
/// # Errors
/// When that takes more memory than the budget allows.
pub(super) fn decoupled(component: &Component<'_>, budget: &Budget<'_>) -> Result<bool, Refusal> {
    // Groups: what is strongly connected by edges that are not rare for the state they leave.
    struct Strong {
        starts: Vec<u32>,
        targets: Vec<u32>,
    }
    impl Graph for Strong {
        fn nodes(&self) -> usize {
            self.starts.len() - 1
        }
        fn successor(&self, node: usize, index: usize) -> Option<usize> {
            let at = self.starts[node] as usize + index;
            (at < self.starts[node + 1] as usize).then(|| self.targets[at] as usize)
        }
    }
    let inside = |node: u32| {
        let exit = component.chain.exit(node as usize);
        let edges = component.chain.row(node as usize);
        edges.filter_map(move |(to, rate)| Some((component.local(to)?, rate >= exit * COUPLED)))
    };
    if !component.nodes.iter().any(|node| inside(*node).any(|(_, strong)| !strong)) {
        return Ok(false);
    }
    budget.bytes(component.bytes() + 4 * component.chain.edges() as u64)?;
    let edges = component.nodes.iter().map(|node| component.chain.targets(*node as usize).len()).sum();
    let mut strong = Strong { starts: vec![0], targets: Vec::with_capacity(edges) };
    #[expect(clippy::cast_possible_truncation, reason = "states and edges have numbers of 32 bits")]
    for node in component.nodes {
        strong.targets.extend(inside(*node).filter(|(_, strong)| *strong).map(|(to, _)| to as u32));
        strong.starts.push(strong.targets.len() as u32);
    }
    let components = components::of(&strong);
    Ok((0..components.len()).filter(|group| components.nodes(*group).len() > 1).count() > 1)
}

/// What sweeps came to.
pub(super) enum Outcome {
    /// Both starts led to this.
    Settled(Vec<f64>),
    /// They would take long.
    Slow,
    /// They stand still, or nearly, before the two starts led to the same.
    Stuck,
}

/// The stationary distribution.
pub(super) fn stationary(component: &Component<'_>, budget: &mut Budget<'_>) -> Result<Outcome, Refusal> {
    let count = component.nodes.len();
    budget.bytes(component.bytes())?;
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^32")]
    let mut pairs: Vec<[f64; 2]> = (0..count).map(|state| [1.0 / count as f64, 1.0 / (state + 1) as f64]).collect();
    let mut course = Course::new(component);
    loop {
        let change = pass(component, None, NOTHING, &mut pairs);
        if course.sweeps % 8 == 7 {
            unite(&mut pairs);
        }
        match course.note(change, budget)? {
            Say::On => {}
            Say::Settled => break,
            Say::Hopeless if change < STUCK => return Ok(Outcome::Stuck),
            Say::Hopeless => return Ok(Outcome::Slow),
        }
    }
    unite(&mut pairs);
    if pairs.iter().any(|[one, other]| (one - other).abs() > AGREE * one.max(NOTHING)) {
        return Ok(Outcome::Stuck);
    }
    let mut weights = pairs.into_iter().map(|[one, _]| one).collect::<Vec<f64>>();
    normalize(&mut weights);
    if weights.iter().any(|weight| *weight <= NOTHING) {
        let level = component.level();
        if !together(&level.starts, &level.sources, &weights, [NOTHING; 2]) {
            return Ok(Outcome::Stuck);
        }
    }
    Ok(Outcome::Settled(weights))
}

/// Divides each of two solutions by its sum.
fn unite(pairs: &mut [[f64; 2]]) {
    let [one, other] = [0, 1].map(|lane| sum(pairs.iter().map(|pair| pair[lane])));
    pairs.iter_mut().for_each(|pair| *pair = [pair[0] / one, pair[1] / other]);
}

/// Time spent in each state; `None` when the sweeps do not settle.
pub(super) fn occupancy(
    component: &Component<'_>,
    inflow: &[f64],
    budget: &mut Budget<'_>,
) -> Result<Option<Vec<f64>>, Refusal> {
    let mut time = vec![[0.0]; component.nodes.len()];
    let mut course = Course::new(component);
    loop {
        let change = pass(component, Some(inflow), 0.0, &mut time);
        match course.note(change, budget)? {
            Say::On => {}
            Say::Settled => return Ok(Some(time.into_iter().map(|[time]| time).collect())),
            Say::Hopeless => return Ok(None),
        }
    }
}

/// One sweep over solutions side by side; the largest change of a state in one of them, relative to it, or to `least`.
fn pass<const LANES: usize>(
    component: &Component<'_>,
    inflow: Option<&[f64]>,
    least: f64,
    values: &mut [[f64; LANES]],
) -> f64 {
    let whole = component.nodes.len() == component.chain.len();
    let mut largest = 0.0_f64;
    for (local, node) in component.nodes.iter().enumerate() {
        let column = component.incoming.column(*node as usize);
        let mut new = [inflow.map_or(0.0, |inflow| inflow[local]); LANES];
        let mut add = |from: usize, rate: f64| {
            new.iter_mut().zip(&values[from]).for_each(|(sum, value)| *sum += value * rate);
        };
        if whole {
            column.for_each(|(from, rate)| add(from, rate));
        } else {
            column.for_each(|(from, rate)| {
                if let Some(from) = component.local(from) {
                    add(from, rate);
                }
            });
        }
        let exit = component.chain.exit(*node as usize);
        for (new, old) in new.iter_mut().zip(&mut values[local]) {
            *new /= exit;
            let change = (*new - *old).abs();
            let size = new.max(least);
            if change > largest * size {
                largest = if size > 0.0 { change / size } else { 1.0 };
            }
            *old = *new;
        }
    }
    largest
}
