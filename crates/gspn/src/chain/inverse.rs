//! Where a chain is at a time, however often it is left until then: the inverse of its Laplace transform along a contour
//! (Talbot; Trefethen, Weideman and Schmelzer), an implicit method. Each point of the contour takes one system of equations.
//!
//! What is found is compared with what two steps of half the time lead to; where these differ, steps are halved. That does not see what
//! both pass over: what turns round, as a clock that keeps its step does, lies outside of the contour when a step is long, and is left out
//! of it. So a step is believed only if it does what many short ones do, these what still shorter ones do, and the shortest what
//! uniformization says ([`reach`]): what turns round is missed somewhere on this way, unless it has died away there.
//! Chains of many states go by [`super::rational`] instead, and what two shifts lead to is compared.

use std::sync::Arc;

use super::Chain;
use super::elimination::{Eliminated, Part};
use super::number::Complex;
use super::rational::{self, Space};
use super::solve::sum;
use super::transient::{self, Tail};
use super::worth_at;
use crate::{Budget, Progress, Refusal};

/// Points on the upper half of the contour: 1e-13 where rates do not make states follow each other in rings.
const POINTS: u32 = 12;
/// Edge operations that taking out all states may cost for one point, and states up to which it is tried.
const WORK: u64 = 100_000_000;
pub(super) const STATES: usize = 20_000;
/// Two shifts for one step.
const SHIFTS: [f64; 2] = [13.0, 19.0];
/// Steps up to which the time is parted: of many states, and of few, where one more is hardly any work.
const STEPS: u32 = 64;
const PARTS: u32 = 512;
/// How many times as long a step is as those that it is held against, at most, and what may be between them.
const LONGER: f64 = 64.0;
const ANCHORED: f64 = 1e-9;
/// By what the shortest are made shorter where they do not do what uniformization says.
const SHORTER: f64 = 8.0;
/// How far two results may be apart, relatively, up to [`MANY`] states and beyond; what is less than this is nothing.
const AGREE: f64 = 2e-8;
const AGREE_OF_MANY: f64 = 2e-7;
const MANY: usize = 100_000;
const NOTHING: f64 = 1e-280;

/// A chain with its states taken out for each point of the contour of one step.
pub(super) struct Step {
    points: Vec<(Complex, Eliminated<Complex>)>,
}

impl Step {
    /// A step of `time`. `None` where it would take too much work.
    ///
    /// # Errors
    /// When the budget is spent.
    pub(super) fn new(chain: &Chain, time: f64, budget: &mut Budget<'_>) -> Result<Option<Self>, Refusal> {
        if chain.len() > STATES {
            return Ok(None);
        }
        let mut points = Vec::new();
        let mut entries = 0;
        for (point, weight) in contour() {
            budget.look(Progress::Solving { sweeps: points.len() as u64, error: 1.0 })?;
            let at = Complex { re: point.re / time, im: point.im / time };
            let rows = (0..chain.len()).map(|state| {
                #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
                chain.row(state).map(|(to, rate)| (to as u32, Complex::from(rate))).collect()
            });
            let part = Part { rows: rows.collect(), leaves: vec![at; chain.len()] };
            let held = (entries * size_of::<(u32, Complex)>()) as u64;
            let found = Eliminated::watched(part, WORK, |bytes| {
                budget.bytes(held + bytes)?;
                budget.look(Progress::Solving { sweeps: points.len() as u64, error: 1.0 })
            });
            let Some(eliminated) = found? else { return Ok(None) };
            entries += eliminated.entries();
            budget.bytes((entries * size_of::<(u32, Complex)>()) as u64)?;
            points.push((weight * Complex::from(1.0 / time), eliminated));
        }
        Ok(Some(Self { points }))
    }

    /// The distribution a step after `now`.
    pub(super) fn forward(&self, now: &[f64]) -> Vec<f64> {
        self.all(now, Eliminated::occupancy)
    }

    /// What each state is worth a step before the states are worth `then`.
    pub(super) fn backward(&self, then: &[f64]) -> Vec<f64> {
        self.all(then, Eliminated::backward)
    }

    fn all(&self, values: &[f64], solve: fn(&Eliminated<Complex>, Vec<Complex>) -> Vec<Complex>) -> Vec<f64> {
        let mut result = vec![0.0; values.len()];
        for (weight, eliminated) in &self.points {
            let found = solve(eliminated, values.iter().map(|value| Complex::from(*value)).collect());
            result.iter_mut().zip(found).for_each(|(sum, found)| *sum += (*weight * found).re);
        }
        result
    }

    /// Adds to `changes`, edge by edge of `chain`, what a change of its rate changes during a step from `now` in what the states are
    /// worth after it, which is `then`; and what rounding may be of that, where all states are worth much and nearly the same.
    pub(super) fn count(&self, chain: &Chain, now: &[f64], then: &[f64], changes: &mut [[f64; 2]]) {
        for (weight, eliminated) in &self.points {
            let held = eliminated.occupancy(now.iter().map(|value| Complex::from(*value)).collect());
            let worth = eliminated.backward(then.iter().map(|value| Complex::from(*value)).collect());
            for (from, held) in held.iter().enumerate() {
                let span = chain.rows[from] as usize..chain.rows[from + 1] as usize;
                let part = *weight * *held;
                for (to, [change, rounding]) in chain.columns[span.clone()].iter().zip(&mut changes[span]) {
                    let there = worth[*to as usize];
                    *change += (part * there.minus(worth[from])).re;
                    *rounding += part.size() * (there.size() + worth[from].size()) * f64::EPSILON;
                }
            }
        }
    }
}

/// The points of the contour for the time 1, and the weight of the transform at each; the lower half is the upper one mirrored.
pub(super) fn contour() -> impl Iterator<Item = (Complex, Complex)> {
    let count = f64::from(2 * POINTS);
    (0..POINTS).map(move |index| {
        let angle = f64::from(2 * index + 1) * std::f64::consts::PI / count;
        let inner = 0.6407 * angle;
        let cotangent = 1.0 / inner.tan();
        let point = Complex { re: count * (0.5017 * angle * cotangent - 0.6122), im: count * 0.2645 * angle };
        let along = Complex { re: 0.5017 * cotangent - 0.5017 * inner / inner.sin().powi(2), im: 0.2645 };
        // 2/count exp(point) d point / d angle / i.
        let weight = point.exp() * along * Complex { re: 0.0, im: -2.0 };
        (point, weight)
    })
}

/// Which way a step goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// From a distribution.
    Forward,
    /// From what the states are worth.
    Backward,
}

/// How long steps from `values` may be, up to `time`, and where many shorter ones lead in the longest. `None` where no step of a
/// [`PARTS`]th of the time does what uniformization says, or it would take too much work.
///
/// # Errors
/// When the budget is spent.
pub(super) fn reach(
    chain: &Chain,
    values: &[f64],
    time: f64,
    way: Way,
    budget: &mut Budget<'_>,
) -> Result<Option<(f64, Vec<f64>)>, Refusal> {
    let go = |step: &Step, values: &[f64]| match way {
        Way::Forward => step.forward(values),
        Way::Backward => step.backward(values),
    };
    let size: f64 = values.iter().map(|value| value.abs()).fold(0.0, f64::max);
    let apart = |one: &[f64], other: &[f64]| {
        let each = one.iter().zip(other).map(|(one, other)| (one - other).abs());
        let off = if way == Way::Forward { each.sum::<f64>() } else { each.fold(0.0, f64::max) };
        off <= ANCHORED * size
    };
    let mut short = transient::moment(chain).min(time);
    loop {
        let levels = ((time / short).ln() / LONGER.ln()).ceil().max(1.0);
        let ratio = (time / short).powf(1.0 / levels).ceil().max(2.0);
        let mut length = time / ratio.powf(levels);
        let exact = match way {
            Way::Forward => transient::forward(chain, values, length, Tail::Short, budget)?.shares,
            Way::Backward => worth_at::before(chain, values, length, budget)?,
        };
        let Some(mut step) = Step::new(chain, length, budget)? else { return Ok(None) };
        if !apart(&go(&step, values), &exact) {
            short /= SHORTER;
            if short * f64::from(PARTS) < time {
                return Ok(None);
            }
            continue;
        }
        let (mut known, mut longer) = (exact, ratio);
        while length < time * 0.99 && longer >= 2.0 {
            // Shorter ways go up again by themselves, and must not pass the time: what turns round may have died away behind it.
            longer = longer.min((time / length * 1.000_001).floor());
            let mut many = values.to_vec();
            let mut done = 0.0;
            while done < longer {
                budget.look(Progress::Solving { sweeps: 0, error: 1.0 })?;
                many = go(&step, &many);
                done += 1.0;
            }
            let Some(next) = Step::new(chain, length * longer, budget)? else { return Ok(None) };
            if apart(&go(&next, values), &many) {
                (step, length, known) = (next, length * longer, many);
            } else {
                longer = (longer / 4.0).floor();
            }
        }
        return Ok((length * f64::from(PARTS) >= time).then_some((length.min(time), known)));
    }
}

/// The distribution at a time, found in two ways.
#[derive(Debug, Clone)]
pub(super) struct Found {
    start: Vec<f64>,
    time: f64,
    /// Steps of `fine`. `coarse` took half as many; of a chain of many states it took as many with another shift.
    steps: u32,
    coarse: Vec<f64>,
    pub(super) fine: Vec<f64>,
    /// How long steps may be, of few states, where that is known.
    length: Option<f64>,
    /// Where many short steps lead, if the whole time is one step.
    many: Option<Vec<f64>>,
    /// By [`super::rational`]: of many states, and of fewer where steps would have to be short.
    by_shifts: bool,
    /// What one step was found in there: other times are known there, too.
    spaces: Option<Arc<[Space; 2]>>,
}

impl Found {
    /// `None` where it would take too much work. `length` is what is known of other times: how long steps may be from this start.
    ///
    /// # Errors
    /// When the budget is spent.
    pub(super) fn new(
        chain: &Chain,
        start: &[f64],
        time: f64,
        length: Option<f64>,
        budget: &mut Budget<'_>,
    ) -> Result<Option<Self>, Refusal> {
        let (coarse, fine, spaces) = (Vec::new(), Vec::new(), None);
        let by_shifts = chain.len() > STATES;
        let mut found =
            Self { start: start.to_vec(), time, steps: 0, coarse, fine, length, many: None, by_shifts, spaces };
        let found_it = found.finer(chain, budget)? || found.instead(chain, budget)?;
        Ok(found_it.then_some(found))
    }

    /// By the other method, unless it is used already; whether that leads anywhere.
    fn instead(&mut self, chain: &Chain, budget: &mut Budget<'_>) -> Result<bool, Refusal> {
        if self.by_shifts {
            return Ok(false);
        }
        (self.by_shifts, self.steps, self.length, self.many) = (true, 0, None, None);
        self.finer(chain, budget)
    }

    /// The same at another time, where that takes no systems of equations.
    pub(super) fn again(&self, time: f64) -> Option<Self> {
        let spaces = self.spaces.clone()?;
        let (coarse, fine) = (spaces[0].at(time)?, spaces[1].at(time)?);
        Some(Self {
            start: self.start.clone(),
            time,
            steps: 1,
            coarse,
            fine,
            length: None,
            many: None,
            by_shifts: true,
            spaces: Some(spaces),
        })
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        let spaces: u64 = self.spaces.iter().flat_map(|spaces| spaces.iter()).map(Space::bytes).sum();
        let many = self.many.as_ref().map_or(0, Vec::len);
        8 * (self.start.len() + self.coarse.len() + self.fine.len() + many) as u64 + spaces
    }

    /// Forgets what other times could be had from.
    pub(super) fn alone(self) -> Self {
        Self { spaces: None, ..self }
    }

    /// Both anew, in twice as many steps as before; whether there is such a number.
    fn finer(&mut self, chain: &Chain, budget: &mut Budget<'_>) -> Result<bool, Refusal> {
        if self.by_shifts {
            while self.steps < STEPS {
                self.steps = (2 * self.steps).max(1);
                if let [Some(coarse), Some(fine)] = self.shifted(chain, budget)? {
                    (self.coarse, self.fine) = (coarse, fine);
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        if self.steps >= 2 * PARTS {
            return Ok(false);
        }
        if self.steps == 0 {
            let first = if let Some(length) = self.length {
                count_of(self.time, length)
            } else {
                let found = reach(chain, &self.start, self.time, Way::Forward, budget)?;
                let Some((length, many)) = found else { return Ok(false) };
                self.length = Some(length);
                let first = count_of(self.time, length);
                self.many = (first == 1).then_some(many);
                first
            };
            if first > PARTS {
                return Ok(false);
            }
            let Some(coarse) = steps(chain, &self.start, self.time, first, budget)? else { return Ok(false) };
            (self.steps, self.fine) = (first, coarse);
        }
        self.steps *= 2;
        let Some(finer) = steps(chain, &self.start, self.time, self.steps, budget)? else { return Ok(false) };
        self.coarse = std::mem::replace(&mut self.fine, finer);
        Ok(true)
    }

    fn shifted(&mut self, chain: &Chain, budget: &mut Budget<'_>) -> Result<[Option<Vec<f64>>; 2], Refusal> {
        let (mut both, mut spaces) = ([None, None], Vec::new());
        for (found, shifts) in both.iter_mut().zip(SHIFTS) {
            let step = rational::Steps::new(chain, self.time / f64::from(self.steps), shifts);
            let mut now = self.start.clone();
            for _ in 0..self.steps {
                let mut budget = budget.beside(spaces.iter().map(Space::bytes).sum());
                let Some(space) = step.space(&now, &mut budget)? else { return Ok([None, None]) };
                now = space.end();
                if self.steps == 1 {
                    spaces.push(space);
                }
            }
            *found = Some(now);
        }
        self.spaces = <[Space; 2]>::try_from(spaces).ok().map(Arc::new);
        Ok(both)
    }

    /// How long steps may be from its start, where that is known.
    pub(super) fn length(&self) -> Option<f64> {
        self.length
    }

    /// How it was found.
    pub(super) fn method(&self) -> String {
        let steps = self.steps;
        if self.by_shifts {
            return format!("rational Krylov spaces of two shifts, {steps} steps");
        }
        format!("inverse Laplace transform along a contour, {steps} steps")
    }

    /// The mean of `rewards`, of which none is below 0, and how far it may be off, relatively. `None` when the two ways do not say
    /// the same in any number of steps.
    ///
    /// # Errors
    /// When the budget is spent.
    pub(super) fn mean(
        &mut self,
        chain: &Chain,
        rewards: &[f64],
        budget: &mut Budget<'_>,
    ) -> Result<Option<(f64, f64)>, Refusal> {
        let agree = if chain.len() > MANY { AGREE_OF_MANY } else { AGREE };
        loop {
            let mean = |distribution: &[f64]| sum(distribution.iter().zip(rewards).map(|(p, reward)| p * reward));
            let (coarse, fine) = (mean(&self.coarse), mean(&self.fine));
            if coarse.abs() < NOTHING && fine.abs() < NOTHING {
                // What cannot be is 0; what is too rare may be anything that is said as 0.
                let off = if coarse == 0.0 && fine == 0.0 { 0.0 } else { 1.0 };
                return Ok(Some((0.0, off)));
            }
            let off = ((fine - coarse) / fine).abs();
            let total = sum(self.fine.iter().copied());
            if off <= agree && fine > 0.0 && (total - 1.0).abs() <= agree {
                // What turned round may have died away to little, and be much of what is asked for.
                let by_many = self.many.as_ref().map_or(0.0, |many| ((fine - mean(many)) / fine).abs());
                if by_many <= agree {
                    return Ok(Some((fine, off.max(by_many))));
                }
            } else if self.finer(chain, budget)? {
                continue;
            }
            if !self.instead(chain, budget)? {
                return Ok(None);
            }
        }
    }
}

/// Steps of such a length, or less, in a time: a power of two.
pub(super) fn count_of(time: f64, length: f64) -> u32 {
    let mut count = 1;
    while time > length * 1.000_001 * f64::from(count) {
        count *= 2;
    }
    count
}

fn steps(
    chain: &Chain,
    start: &[f64],
    time: f64,
    steps: u32,
    budget: &mut Budget<'_>,
) -> Result<Option<Vec<f64>>, Refusal> {
    let Some(step) = Step::new(chain, time / f64::from(steps), budget)? else { return Ok(None) };
    Ok(Some((0..steps).fold(start.to_vec(), |now, _| step.forward(&now))))
}
