//! While a fixed time runs: where it goes from the state in which it began, by exponential times alone.

use super::system::System;
use crate::chain::poisson;
use crate::{Budget, Progress, Refusal};

/// Multiplications that all fixed times of a net may take, and numbers that may be kept of them.
const WORK: f64 = 4e9;
const KEPT: usize = 5_000_000;
/// Bytes of each of them, as a row of a matrix and in a list.
const BYTES: usize = 48;
/// States that are looked at in all.
const STATES: usize = 300_000;
/// States of one fixed time up to which a matrix is multiplied with itself.
const DENSE: usize = 600;
/// Starts that are followed side by side.
const TOGETHER: usize = 64;
/// Weights of steps less than this part of the largest are left out: what many steps, or very few, lead to counts, too.
const CUT: f64 = 1e-290;
/// What a start's probabilities may be off, relatively.
const OFF: f64 = 1e-6;

/// What happens from a start until the clock stops. States by their numbers in the system.
#[derive(Debug, Clone, Default)]
pub(super) struct Course {
    /// Mean time spent in each state while it runs, and all of it.
    pub(super) spent: Vec<(u32, f64)>,
    pub(super) time: f64,
    /// The probability that it ends in each state.
    pub(super) ends: Vec<(u32, f64)>,
}

/// Courses by the state in which they begin; those of other states are empty.
#[derive(Debug)]
pub(super) struct Courses {
    pub(super) all: Vec<Course>,
    /// What they may be off by products of matrices, relatively.
    pub(super) off: f64,
    /// Multiplications that they took, about.
    pub(super) work: f64,
}

/// The courses from the states that `starts` names. `None` where that takes too much, or rates are too far apart.
pub(super) fn courses(
    system: &System<'_>,
    starts: &[bool],
    budget: &mut Budget<'_>,
) -> Result<Option<Courses>, Refusal> {
    if system.runs.len() > STATES {
        return Ok(None);
    }
    let mut off = 0.0_f64;
    let mut all = vec![Course::default(); system.runs.len()];
    let mut work = 0.0;
    let mut kept = 0;
    for (clock, it) in system.clocks.iter().enumerate() {
        let part = Part::new(system, clock, it.delay);
        let mut begun: Vec<usize> = (0..part.states.len()).filter(|at| starts[part.states[*at] as usize]).collect();
        let halvings = part.halvings(begun.len());
        work += part.work(begun.len(), halvings);
        kept += begun.len() * part.states.len();
        // Each product may double what its factors are off.
        off = off.max(2.0_f64.powi(halvings) * f64::EPSILON);
        if work > WORK || kept > KEPT || off > OFF || budget.bytes((kept * BYTES) as u64).is_err() {
            return Ok(None);
        }
        if halvings > 0 {
            begun = (0..part.states.len()).collect();
        }
        let mut rows = Vec::with_capacity(begun.len());
        for some in begun.chunks(TOGETHER) {
            rows.extend(part.uniformized(some, halvings, budget)?);
        }
        let Some(rows) = part.doubled(rows, halvings, budget)? else { return Ok(None) };
        for (at, row) in begun.into_iter().zip(rows) {
            let state = part.states[at] as usize;
            if starts[state] {
                all[state] = part.course(&row);
            }
        }
    }
    Ok(Some(Courses { all, off, work }))
}

/// The states in which one clock runs.
struct Part {
    delay: f64,
    /// Their numbers in the system.
    states: Vec<u32>,
    /// Moves that let it run on, by position in `states`.
    edges: Vec<Vec<(u32, f64)>>,
    /// The rate at which each is left, and of it what stops the clock.
    exits: Vec<f64>,
    stops: Vec<f64>,
}

/// From one start, by position: the probability to be in a state at the end, and the time spent there.
struct Row {
    ends: Vec<f64>,
    spent: Vec<f64>,
}

impl Part {
    fn new(system: &System<'_>, clock: usize, delay: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
        let states: Vec<u32> =
            (0..system.runs.len()).filter(|state| system.runs[*state] == Some(clock)).map(|it| it as u32).collect();
        let mut at = vec![u32::MAX; system.runs.len()];
        (0..).zip(&states).for_each(|(position, state)| at[*state as usize] = position);
        let (mut edges, mut exits, mut stops) = (Vec::new(), Vec::new(), Vec::new());
        for state in &states {
            let row = || system.chain.row(*state as usize);
            edges.push(row().filter(|(to, _)| at[*to] != u32::MAX).map(|(to, rate)| (at[to], rate)).collect());
            stops.push(row().filter(|(to, _)| at[*to] == u32::MAX).map(|(_, rate)| rate).sum());
            exits.push(system.chain.exit(*state as usize));
        }
        Self { delay, states, edges, exits, stops }
    }

    /// The rate of steps at which no state is left more often than there is one.
    fn rate(&self) -> f64 {
        self.exits.iter().copied().fold(0.0, f64::max)
    }

    /// Multiplications from so many starts, the time halved so often.
    #[expect(clippy::cast_precision_loss, reason = "an estimate of work")]
    fn work(&self, starts: usize, halvings: i32) -> f64 {
        let (states, edges) = (self.states.len() as f64, self.edges.iter().map(Vec::len).sum::<usize>() as f64);
        let starts = if halvings > 0 { states } else { starts as f64 };
        let events = self.rate() * self.delay * 0.5_f64.powi(halvings);
        starts * (edges + 3.0 * states) * (events + 40.0 * events.sqrt() + 200.0)
            + 2.0 * f64::from(halvings) * states.powi(3)
    }

    /// How often the time is best halved, and matrices multiplied instead.
    fn halvings(&self, starts: usize) -> i32 {
        if self.states.len() > DENSE {
            return 0;
        }
        let work = |halvings: &i32| self.work(starts, *halvings);
        (0..200).min_by(|one, other| work(one).total_cmp(&work(other))).unwrap_or(0)
    }

    /// What a part of the delay does, from some starts.
    fn uniformized(&self, starts: &[usize], halvings: i32, budget: &mut Budget<'_>) -> Result<Vec<Row>, Refusal> {
        let (width, states) = (starts.len(), self.states.len());
        let time = self.delay * 0.5_f64.powi(halvings);
        let rate = self.rate();
        let mut now = vec![0.0; states * width];
        for (lane, start) in starts.iter().enumerate() {
            now[start * width + lane] = 1.0;
        }
        if rate == 0.0 {
            let row = |lane: usize| (0..states).map(|at| now[at * width + lane]).collect::<Vec<_>>();
            let spent = |lane| row(lane).into_iter().map(|share| share * time).collect();
            return Ok((0..width).map(|lane| Row { ends: row(lane), spent: spent(lane) }).collect());
        }
        let weights = poisson(rate * time, CUT);
        // The time between steps m and m + 1 before the end: the probability of more than m steps, over the rate.
        let mut later: Vec<f64> = weights
            .weights
            .iter()
            .rev()
            .scan(0.0, |sum, weight| {
                let more = *sum;
                *sum += weight;
                Some(more)
            })
            .collect();
        later.reverse();
        let (mut ends, mut spent) = (vec![0.0; states * width], vec![0.0; states * width]);
        let mut next = vec![0.0; states * width];
        let last = weights.first + weights.weights.len();
        let mut looked = 0.0;
        for step in 0..last {
            let weight = step.checked_sub(weights.first).map_or(0.0, |at| weights.weights[at]);
            let more = step.checked_sub(weights.first).map_or(1.0, |at| later[at]) / rate;
            for ((now, ends), spent) in now.iter().zip(&mut ends).zip(&mut spent) {
                *ends += weight * now;
                *spent += more * now;
            }
            for (at, (row, exit)) in now.chunks_exact(width).zip(&self.exits).enumerate() {
                let stays = 1.0 - exit / rate;
                next[at * width..][..width].iter_mut().zip(row).for_each(|(next, now)| *next += stays * now);
                for (to, moves) in &self.edges[at] {
                    let part = moves / rate;
                    let target = &mut next[*to as usize * width..][..width];
                    target.iter_mut().zip(row).for_each(|(next, now)| *next += part * now);
                }
            }
            std::mem::swap(&mut now, &mut next);
            next.fill(0.0);
            #[expect(clippy::cast_precision_loss, reason = "an estimate of work")]
            let done = (states * width * 4) as f64;
            looked += done;
            if looked > 1e6 {
                looked = 0.0;
                budget.look(Progress::Solving { sweeps: step as u64, error: 1.0 })?;
            }
        }
        let lane = |of: &[f64], lane: usize| (0..states).map(|at| of[at * width + lane]).collect();
        Ok((0..width).map(|at| Row { ends: lane(&ends, at), spent: lane(&spent, at) }).collect())
    }

    /// Twice the time by multiplying what half of it does, so often. `None` where probabilities do not add up to one.
    fn doubled(&self, mut rows: Vec<Row>, halvings: i32, budget: &mut Budget<'_>) -> Result<Option<Vec<Row>>, Refusal> {
        for _ in 0..halvings {
            let mut twice = Vec::with_capacity(rows.len());
            for row in &rows {
                let mut sum = Row { ends: vec![0.0; row.ends.len()], spent: row.spent.clone() };
                for (share, then) in row.ends.iter().zip(&rows).filter(|(share, _)| **share != 0.0) {
                    sum.ends.iter_mut().zip(&then.ends).for_each(|(sum, then)| *sum += share * then);
                    sum.spent.iter_mut().zip(&then.spent).for_each(|(sum, then)| *sum += share * then);
                }
                twice.push(sum);
                budget.look(Progress::Solving { sweeps: 0, error: 1.0 })?;
            }
            rows = twice;
            if !rows.iter_mut().all(|row| self.whole(row)) {
                return Ok(None);
            }
        }
        Ok(rows.iter_mut().all(|row| self.whole(row)).then_some(rows))
    }

    /// Makes the probabilities of a row, to end or to be stopped before, add up to one.
    fn whole(&self, row: &mut Row) -> bool {
        let stopped: f64 = row.spent.iter().zip(&self.stops).map(|(time, rate)| time * rate).sum();
        let all = row.ends.iter().sum::<f64>() + stopped;
        row.ends.iter_mut().chain(&mut row.spent).for_each(|it| *it /= all);
        (all - 1.0).abs() <= OFF
    }

    fn course(&self, row: &Row) -> Course {
        let list =
            |of: &[f64]| self.states.iter().copied().zip(of.iter().copied()).filter(|(_, it)| *it > 0.0).collect();
        Course { spent: list(&row.spent), time: row.spent.iter().sum(), ends: list(&row.ends) }
    }
}
