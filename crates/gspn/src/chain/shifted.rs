//! The equations `x shift = right + x Q` of a chain, for many right sides: where who comes in at `right` and leaves at the rate `shift`
//! wherever it is has been. Entries of `right` may be below 0.
//!
//! A method of residuals (GMRES) about a cycle over groups of states and groups of groups. Vectors count by one over the weight of
//! each state: the smaller a state is, the finer. The residual is looked at through the cycle: where rates are far apart, what is
//! missing at each state is rounding of what flows fast, and only what is missing of groups says how far it is off.

use std::borrow::Cow;

use super::Incoming;
use super::elimination::Eliminated;
use super::level::{Groups, Level};
use super::multilevel::cycle_over;
use super::solve::normalize;
use crate::{Budget, Progress, Refusal};

/// States that are solved directly, and edge operations that may take.
const DIRECT: usize = 120;
const WORK: u64 = 20_000_000;
/// Cycles at most, and the relative change of a state by one of them, after which weights are near enough for groups.
const ROUGH: usize = 24;
const NEAR: f64 = 1e-2;
const SEEN: f64 = 1e-20;
/// The part of those who may have begun anywhere in the weight of a state.
const LEAST: f64 = 1e-14;
/// Groups are worth it while there are this many less of them than states.
const FEWER: f64 = 0.9;
/// States of the last level, and what all levels but the first may have of its edges.
const GROUND: usize = 20_000;
const MORE: usize = 2;
/// Steps until it starts again from what was found, and how often it may.
const STEPS: usize = 60;
const STARTS: usize = 12;
/// What may be left, relatively, where it falls no more.
const ROUNDED: f64 = 1e-11;
/// Sweeps there and back where the last groups are too many to be solved.
const SWEEPS: usize = 3;

/// A level, its groups, and what part each state has in its group.
struct Floor<'a> {
    level: Level<'a>,
    groups: Groups,
    parts: Vec<f64>,
}

/// The equations for one shift.
pub(super) struct Shifted<'a> {
    floors: Vec<Floor<'a>>,
    ground: Level<'a>,
    /// Its states taken out, where that is not too much work.
    direct: Option<Eliminated<f64>>,
    /// Of the weight of each state.
    pub(super) roots: Vec<f64>,
    shift: f64,
    /// What it takes, with the chain.
    bytes: u64,
}

impl<'a> Shifted<'a> {
    /// `start`, nowhere below 0, is where most that is asked for comes in. `None` where groups of states lead to more and more others.
    ///
    /// # Errors
    /// When the budget is spent.
    pub(super) fn new(
        incoming: &'a Incoming,
        exits: &[f64],
        shift: f64,
        start: &[f64],
        budget: &mut Budget<'_>,
    ) -> Result<Option<Self>, Refusal> {
        let (count, edges) = (exits.len(), incoming.sources.len());
        let bytes = (edges * 64 + count * 300) as u64;
        budget.bytes(bytes)?;
        let level = || Level {
            starts: Cow::Borrowed(&incoming.starts),
            sources: Cow::Borrowed(&incoming.sources),
            rates: Cow::Borrowed(&incoming.rates),
            exits: exits.iter().map(|exit| exit + shift).collect(),
        };
        // Where hardly anybody comes, states are held against each other as if some had begun everywhere.
        #[expect(clippy::cast_precision_loss, reason = "fewer than 2^32")]
        let even = vec![1.0 / count as f64; count];
        if floors(level(), even.clone(), shift, budget)?.is_none() {
            return Ok(None);
        }
        let mut weights = rough(&level(), shift, &even, budget)?;
        let here = rough(&level(), shift, start, budget)?;
        let sound = here.iter().all(|weight| weight.is_finite());
        for (weight, here) in weights.iter_mut().zip(here).filter(|_| sound) {
            *weight = here + LEAST * *weight;
        }
        let roots = weights.iter().map(|weight| weight.sqrt()).collect();
        let Some((floors, level)) = floors(level(), weights, shift, budget)? else { return Ok(None) };
        let direct = level.eliminated(shift, WORK);
        Ok(Some(Self { floors, ground: level, direct, roots, shift, bytes }))
    }

    /// The solution for `right`, both over the roots of the weights, to the part `close` of its size; `None` where it does not settle.
    ///
    /// # Errors
    /// When the budget is spent.
    pub(super) fn solve(
        &self,
        right: &[f64],
        close: f64,
        budget: &mut Budget<'_>,
    ) -> Result<Option<Vec<f64>>, Refusal> {
        let right: Vec<f64> = right.iter().zip(&self.roots).map(|(value, root)| value * root).collect();
        let mut found = vec![0.0; right.len()];
        let mut last = f64::INFINITY;
        for _ in 0..STARTS {
            let missing = self.top().missing(&found, &right, self.shift);
            let mut first = self.over(self.cycle(0, &missing));
            let off = norm(&first);
            let size = norm(&self.over(found.clone()));
            if off <= close * size || off == 0.0 {
                return Ok(Some(self.over(found)));
            }
            // What no longer falls is not right, or rounding.
            if !off.is_finite() || off > 0.9 * last {
                return Ok((off <= ROUNDED * size).then(|| self.over(found)));
            }
            last = off;
            first.iter_mut().for_each(|value| *value /= off);
            let goal = if size > 0.0 { 0.3 * close * size / off } else { 0.3 * close };
            let more = self.span(first, goal.max(1e-10), budget)?;
            for ((found, more), root) in found.iter_mut().zip(more).zip(&self.roots) {
                *found += off * more * root;
            }
        }
        Ok(None)
    }

    /// What is nearest to the solution for `first`, of length 1, in the space that cycles make of it, until the part `goal` is left.
    fn span(&self, first: Vec<f64>, goal: f64, budget: &mut Budget<'_>) -> Result<Vec<f64>, Refusal> {
        let none = vec![0.0; first.len()];
        let mut basis = vec![first];
        // Columns of the upper triangle, the turns that made it, and what is left of the right side.
        let (mut columns, mut turns, mut left) = (Vec::<Vec<f64>>::new(), Vec::<(f64, f64)>::new(), vec![1.0_f64]);
        for step in 0..STEPS {
            budget.bytes(self.bytes + (8 * none.len() * basis.len()) as u64)?;
            budget.look(Progress::Solving { sweeps: step as u64, error: left[step].abs() })?;
            let values: Vec<f64> = basis[step].iter().zip(&self.roots).map(|(value, root)| value * root).collect();
            // What flows out less what flows in, and the shift: what is missing of nothing, turned round.
            let mut missing = self.top().missing(&values, &none, self.shift);
            missing.iter_mut().for_each(|value| *value = -*value);
            let mut next = self.over(self.cycle(0, &missing));
            let mut column = orthogonal(&mut next, &basis);
            let length = norm(&next);
            for (at, (cosine, sine)) in turns.iter().enumerate() {
                let (one, other) = (column[at], column[at + 1]);
                column[at] = cosine * one + sine * other;
                column[at + 1] = cosine * other - sine * one;
            }
            let size = column[step].hypot(length);
            if size == 0.0 || !size.is_finite() {
                left.truncate(step);
                break;
            }
            let (cosine, sine) = (column[step] / size, length / size);
            column[step] = size;
            turns.push((cosine, sine));
            columns.push(column);
            left.push(-sine * left[step]);
            left[step] *= cosine;
            if left[step + 1].abs() <= goal || length <= f64::EPSILON {
                break;
            }
            next.iter_mut().for_each(|value| *value /= length);
            basis.push(next);
        }
        let count = columns.len();
        let mut parts = left;
        parts.truncate(count);
        for row in (0..count).rev() {
            let known: f64 = (row + 1..count).map(|at| columns[at][row] * parts[at]).sum();
            parts[row] = (parts[row] - known) / columns[row][row];
        }
        Ok(combined(&basis, &parts))
    }

    fn top(&self) -> &Level<'a> {
        self.floors.first().map_or(&self.ground, |floor| &floor.level)
    }

    fn over(&self, mut values: Vec<f64>) -> Vec<f64> {
        values.iter_mut().zip(&self.roots).for_each(|(value, root)| *value /= root);
        values
    }

    /// About the solution for `right` on the level `depth`: always the same parts of it, so that it may stand before the equations.
    fn cycle(&self, depth: usize, right: &[f64]) -> Vec<f64> {
        let Some(floor) = self.floors.get(depth) else {
            if let Some(direct) = &self.direct {
                return direct.occupancy(right.to_vec());
            }
            let mut values = vec![0.0; right.len()];
            (0..SWEEPS)
                .for_each(|_| [false, true].iter().for_each(|back| self.ground.relax(&mut values, right, *back)));
            return values;
        };
        let mut values = vec![0.0; right.len()];
        [false, true].iter().for_each(|back| floor.level.relax(&mut values, right, *back));
        let below = floor.groups.sums(&floor.level.missing(&values, right, self.shift));
        let mut of_groups = self.cycle(depth + 1, &below);
        if let Some(next) = self.floors.get(depth + 1)
            && 2 * next.level.len() < floor.level.len()
        {
            let missing = next.level.missing(&of_groups, &below, self.shift);
            let more = self.cycle(depth + 1, &missing);
            of_groups.iter_mut().zip(more).for_each(|(value, more)| *value += more);
        }
        floor.groups.spread(&mut values, &floor.parts, &of_groups);
        [false, true].iter().for_each(|back| floor.level.relax(&mut values, right, *back));
        values
    }
}

/// The levels above the last one, and that; `None` where they have too many edges in all, or the last too many states.
#[expect(clippy::cast_precision_loss, reason = "fewer than 2^32")]
fn floors<'a>(
    mut level: Level<'a>,
    mut weights: Vec<f64>,
    shift: f64,
    budget: &mut Budget<'_>,
) -> Result<Option<(Vec<Floor<'a>>, Level<'a>)>, Refusal> {
    let most = MORE * (level.sources.len() + level.len());
    let (mut floors, mut all) = (Vec::new(), 0);
    while level.len() > DIRECT {
        budget.look(Progress::Solving { sweeps: 0, error: 1.0 })?;
        let groups = level.group(&weights, false, &[]);
        if groups.len() as f64 > FEWER * level.len() as f64 {
            break;
        }
        let mut coarse = level.coarse(&groups, &weights);
        coarse.exits.to_mut().iter_mut().for_each(|exit| *exit += shift);
        all += coarse.sources.len() + coarse.len();
        if all > most {
            return Ok(None);
        }
        let parts = groups.parts(&weights);
        weights = groups.sums(&weights);
        floors.push(Floor { level: std::mem::replace(&mut level, coarse), groups, parts });
    }
    Ok((level.len() <= GROUND).then_some((floors, level)))
}

/// About the solution for `start`, as the weights of a chain in which who leaves comes in again.
fn rough(level: &Level<'_>, shift: f64, start: &[f64], budget: &mut Budget<'_>) -> Result<Vec<f64>, Refusal> {
    let count = level.len();
    let (mut starts, mut sources, mut rates) = (vec![0_u32], Vec::new(), Vec::new());
    #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
    for (state, start) in start.iter().enumerate() {
        let span = level.starts[state] as usize..level.starts[state + 1] as usize;
        sources.extend_from_slice(&level.sources[span.clone()]);
        rates.extend_from_slice(&level.rates[span]);
        if *start > 0.0 {
            sources.push(count as u32);
            rates.push(start * shift);
        }
        starts.push(sources.len() as u32);
    }
    #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
    sources.extend(0..count as u32);
    rates.resize(sources.len(), shift);
    #[expect(clippy::cast_possible_truncation, reason = "fewer edges and states than 2^32")]
    starts.push(sources.len() as u32);
    let exits = level.exits.iter().copied().chain([shift * start.iter().sum::<f64>()]).collect();
    let again = Level { starts: starts.into(), sources: sources.into(), rates: rates.into(), exits };
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^32")]
    let mut weights = vec![1.0 / count as f64; count + 1];
    for cycle in 0..ROUGH {
        let before = weights.clone();
        let far = Progress::Solving { sweeps: cycle as u64, error: 1.0 };
        cycle_over(&again, &mut weights, &mut Vec::new(), (false, &[]), far, budget)?;
        normalize(&mut weights);
        let change = weights.iter().zip(&before).filter(|(now, _)| **now > SEEN);
        let change = change.fold(0.0_f64, |most, (now, before)| most.max((now - before).abs() / now));
        budget.look(Progress::Solving { sweeps: cycle as u64, error: change })?;
        if change < NEAR {
            break;
        }
    }
    weights.truncate(count);
    Ok(weights)
}

pub(super) fn norm(vector: &[f64]) -> f64 {
    dot(vector, vector).sqrt()
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// Takes from `vector` what it has of each of `basis`, twice, and says how much that was.
pub(super) fn orthogonal(vector: &mut [f64], basis: &[Vec<f64>]) -> Vec<f64> {
    let mut had = vec![0.0; basis.len()];
    for _ in 0..2 {
        for (had, basis) in had.iter_mut().zip(basis) {
            let part = dot(vector, basis);
            vector.iter_mut().zip(basis).for_each(|(value, basis)| *value -= part * basis);
            *had += part;
        }
    }
    had
}

/// The sum of `parts` of the vectors of `basis`.
pub(super) fn combined(basis: &[Vec<f64>], parts: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; basis.first().map_or(0, Vec::len)];
    for (part, vector) in parts.iter().zip(basis) {
        sum.iter_mut().zip(vector).for_each(|(sum, value)| *sum += part * value);
    }
    sum
}
