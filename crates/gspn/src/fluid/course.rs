//! The course of flows over time: an L-stable Rosenbrock method of order two, with a third order that says how far it is off
//! (Shampine and Reichelt), so that rates may be far apart.

use super::flow::Flow;
use crate::{Budget, Class, Progress, Refusal};

/// What one step may be off in each place, of its tokens and of all tokens; how many times less in finer steps, and by how many times less the
/// course is off then: it is of order two, and steps of order three.
const OFF: (f64, f64) = (1e-7, 1e-12);
const FINER: f64 = 8.0;
pub(super) const LESS: f64 = 4.0;
/// Steps, tried ones included.
const STEPS: usize = 200_000;

/// The marking at each of `times`, which rise from 0; and where it is not known any more from one on, why.
///
/// # Errors
/// When the budget is spent.
pub(super) fn course(
    flow: &Flow,
    times: &[f64],
    finer: bool,
    budget: &mut Budget<'_>,
) -> Result<(Vec<Vec<f64>>, Option<Refusal>), Refusal> {
    let all: f64 = flow.start.iter().sum::<f64>().max(1.0);
    let part = if finer { 1.0 / FINER } else { 1.0 };
    let mut marking = flow.start.clone();
    let (mut now, mut found) = (0.0, Vec::new());
    let mut step = first(flow, &marking, times);
    let mut steps = 0;
    for time in times {
        while now < *time {
            steps += 1;
            if steps % 64 == 0 {
                budget.look(Progress::Solving { sweeps: steps as u64, error: 0.0 })?;
            }
            if steps > STEPS {
                let why = format!("the flows take more than {STEPS} steps up to then: ask for an earlier time");
                return Ok((found, Some(Refusal::new(Class::TooLarge, "", why))));
            }
            let rest = *time - now;
            let length = step.min(rest);
            let limit = |tokens: f64| part * (OFF.1 * all + OFF.0 * tokens.abs());
            let (next, ratio) = advance(flow, &marking, length, limit).unwrap_or((Vec::new(), f64::INFINITY));
            let factor = if ratio > 0.0 { 0.8 * ratio.powf(-1.0 / 3.0) } else { 5.0 };
            if ratio <= 1.0 {
                now = if length >= rest { *time } else { now + length };
                marking = next;
                let longer = length * factor.clamp(0.2, 5.0);
                step = if length < step { step.max(longer) } else { longer };
            } else {
                step = length * if factor.is_finite() { factor.clamp(0.1, 0.5) } else { 0.1 };
                if step <= f64::EPSILON * now || step == 0.0 {
                    let why = format!("the flows change faster than time can be cut at {now:.3e}");
                    return Ok((found, Some(Refusal::new(Class::Unsupported, "", why))));
                }
            }
        }
        found.push(marking.clone());
    }
    Ok((found, None))
}

/// A first step in which little changes.
fn first(flow: &Flow, marking: &[f64], times: &[f64]) -> f64 {
    let most = |values: &[f64]| values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    let speed = most(&flow.change(marking));
    let last = times.last().copied().unwrap_or(0.0);
    if speed > 0.0 { (1e-4 * most(marking) / speed).min(last) } else { last }
}

/// The marking after one step, and how far it may be off, as a part of the `limit` for so many tokens in a place: the most of all places.
fn advance(flow: &Flow, marking: &[f64], length: f64, limit: impl Fn(f64) -> f64) -> Option<(Vec<f64>, f64)> {
    let root = 2.0_f64.sqrt();
    let (part, third) = (1.0 / (2.0 + root), 6.0 + root);
    let mut matrix = flow.slopes(marking);
    for (row, entries) in matrix.iter_mut().enumerate() {
        entries.iter_mut().for_each(|entry| *entry *= -length * part);
        entries[row] += 1.0;
    }
    let solve = Factors::of(matrix)?;
    let add = |base: &[f64], by: f64, other: &[f64]| -> Vec<f64> {
        base.iter().zip(other).map(|(base, other)| base + by * other).collect()
    };
    let at_start = flow.change(marking);
    let one = solve.solve(at_start.clone());
    let at_half = flow.change(&add(marking, 0.5 * length, &one));
    let two = add(&solve.solve(add(&at_half, -1.0, &one)), 1.0, &one);
    let next = add(marking, length, &two);
    let at_end = flow.change(&next);
    let right = add(&add(&at_end, -third, &add(&two, -1.0, &at_half)), -2.0, &add(&one, -1.0, &at_start));
    let three = solve.solve(right);
    let error = |at: usize| (length / 6.0 * (one[at] - 2.0 * two[at] + three[at])).abs();
    let error = (0..next.len()).map(|at| error(at) / limit(f64::max(marking[at].abs(), next[at].abs())));
    let error = error.fold(0.0, f64::max);
    next.iter().all(|tokens| tokens.is_finite()).then_some((next, error))
}

/// A matrix, taken apart by elimination with the largest pivot of each column.
struct Factors {
    rows: Vec<Vec<f64>>,
    order: Vec<usize>,
}

impl Factors {
    fn of(mut rows: Vec<Vec<f64>>) -> Option<Self> {
        let count = rows.len();
        let mut order: Vec<usize> = (0..count).collect();
        for column in 0..count {
            let pivot =
                (column..count).max_by(|one, other| rows[*one][column].abs().total_cmp(&rows[*other][column].abs()))?;
            rows.swap(column, pivot);
            order.swap(column, pivot);
            let (above, below) = rows.split_at_mut(column + 1);
            let pivot = &above[column];
            if pivot[column] == 0.0 || !pivot[column].is_finite() {
                return None;
            }
            for row in below.iter_mut().filter(|row| row[column] != 0.0) {
                let factor = row[column] / pivot[column];
                row[column] = factor;
                row[column + 1..]
                    .iter_mut()
                    .zip(&pivot[column + 1..])
                    .for_each(|(entry, other)| *entry -= factor * other);
            }
        }
        Some(Self { rows, order })
    }

    fn solve(&self, right: Vec<f64>) -> Vec<f64> {
        let mut solution: Vec<f64> = self.order.iter().map(|row| right[*row]).collect();
        for row in 0..solution.len() {
            let known: f64 = self.rows[row][..row].iter().zip(&solution).map(|(entry, value)| entry * value).sum();
            solution[row] -= known;
        }
        for row in (0..solution.len()).rev() {
            let known: f64 =
                self.rows[row][row + 1..].iter().zip(&solution[row + 1..]).map(|(entry, value)| entry * value).sum();
            solution[row] = (solution[row] - known) / self.rows[row][row];
        }
        solution
    }
}
