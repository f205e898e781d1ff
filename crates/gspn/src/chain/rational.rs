//! Where a chain of many states is at a time, however often it is left until then: the best guess in the space that
//! `(1 - Q/shift)^-1` makes of the start (shift and invert: van den Eshof and Hochbruck), an implicit method.
//!
//! One shift, a real number above 0, serves every point of time and every rate: each system of equations is that of somebody who leaves
//! at the rate of the shift wherever he is. How many of them are needed grows neither with the rates nor with the time, but where
//! states follow each other in rings, time has to be parted. One guess says little of how far it is off: who calls compares
//! guesses of different shifts.

use super::inverse::contour;
use super::number::Complex;
use super::shifted::{Shifted, combined, norm, orthogonal};
use super::{Chain, Incoming};
use crate::{Budget, Progress, Refusal};

/// Systems of equations until the time has to be parted.
const MOST: usize = 48;
/// Changes by the last two systems at the end, and what the equations are solved to as long as all counts.
const CLOSE: f64 = 1e-11;
const EXACT: f64 = 1e-14;
const LOOSE: f64 = 1e-5;
/// The parts that the time is in while the small matrix is looked at: from two to the first power to two to the second.
const PARTS: (u32, u32) = (2, 8);
const SAME: f64 = 1e-11;
/// The parts that it is held against are two to the power of this, and what may be between them.
const FINE: u32 = 11;
const ANCHORED: f64 = 2e-9;

/// Steps of the same length.
pub(super) struct Steps<'a> {
    chain: &'a Chain,
    incoming: Incoming,
    time: f64,
    /// What leaves in the length of a step, if it may.
    shifts: f64,
}

impl<'a> Steps<'a> {
    pub(super) fn new(chain: &'a Chain, time: f64, shifts: f64) -> Self {
        Self { chain, incoming: chain.incoming(), time, shifts }
    }

    /// The space of a step from `now`; `None` where it does not settle.
    ///
    /// # Errors
    /// When the budget is spent.
    pub(super) fn space(&self, now: &[f64], budget: &mut Budget<'_>) -> Result<Option<Space>, Refusal> {
        let shift = self.shifts / self.time;
        // Rounding may have left a little below 0.
        let start: Vec<f64> = now.iter().map(|value| value.max(0.0)).collect();
        let (incoming, exits) = (&self.incoming, &self.chain.exits);
        let Some(solver) = Shifted::new(incoming, exits, shift, &start, budget)? else { return Ok(None) };
        let over: Vec<f64> = now.iter().zip(&solver.roots).map(|(value, root)| value * shift / root).collect();
        let Some(mut first) = solver.solve(&over, EXACT, budget)? else { return Ok(None) };
        let size = norm(&first);
        first.iter_mut().for_each(|value| *value /= size);
        let mut basis = vec![first];
        let mut columns: Vec<Vec<f64>> = Vec::new();
        let (mut before, mut settled, mut close): (Vec<f64>, u32, f64) = (Vec::new(), 0, EXACT);
        let mut closes = Vec::new();
        while columns.len() < MOST {
            let step = columns.len();
            let right: Vec<f64> = basis[step].iter().map(|value| value * shift).collect();
            let mut beside = budget.beside((8 * right.len() * (basis.len() + 2)) as u64);
            let Some(mut next) = solver.solve(&right, close, &mut beside)? else { return Ok(None) };
            let mut column = orthogonal(&mut next, &basis);
            let length = norm(&next);
            column.push(length);
            columns.push(column);
            closes.push(close);
            let ended = length <= EXACT;
            if step >= 3 || ended {
                let Some(parts) = at_end(&columns, self.shifts) else { return Ok(None) };
                let apart = before.iter().chain(std::iter::repeat(&0.0)).zip(&parts).map(|(one, other)| one - other);
                let off = norm(&apart.collect::<Vec<f64>>()) / norm(&parts);
                budget.look(Progress::Solving { sweeps: step as u64, error: off })?;
                settled = if off <= CLOSE { settled + 1 } else { 0 };
                if ended || settled >= 2 {
                    if !anchored(&columns, self.shifts, &parts) {
                        return Ok(None);
                    }
                    let Self { time, shifts, .. } = *self;
                    let roots = solver.roots;
                    return Ok(Some(Space { basis, columns, closes, parts, size, roots, time, shifts }));
                }
                // What is left to say is little: it needs no more digits than that.
                let part = parts[step].abs() / norm(&parts);
                close = if part > 0.0 { (0.01 * CLOSE / part).clamp(EXACT, LOOSE) } else { EXACT };
                before = parts;
            }
            next.iter_mut().for_each(|value| *value /= length);
            basis.push(next);
        }
        Ok(None)
    }
}

/// What a step was found in.
#[derive(Debug, Clone)]
pub(super) struct Space {
    basis: Vec<Vec<f64>>,
    columns: Vec<Vec<f64>>,
    /// What the systems were solved to.
    closes: Vec<f64>,
    /// Of the vectors of the basis in the distribution at the end of the step.
    parts: Vec<f64>,
    size: f64,
    roots: Vec<f64>,
    time: f64,
    shifts: f64,
}

impl Space {
    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        8 * (self.roots.len() * (self.basis.len() + 1)) as u64
    }

    /// The distribution at the end of the step.
    pub(super) fn end(&self) -> Vec<f64> {
        self.distribution(&self.parts)
    }

    /// The distribution at another time; `None` where the space does not know it as well as that at the end of the step.
    pub(super) fn at(&self, time: f64) -> Option<Vec<f64>> {
        let shifts = self.shifts * (time / self.time);
        let parts = at_end(&self.columns, shifts)?;
        let before = at_end(&self.columns[..self.columns.len() - 1], shifts)?;
        let apart = before.iter().chain(std::iter::repeat(&0.0)).zip(&parts).map(|(one, other)| one - other);
        let size = norm(&parts);
        let inexact: f64 = parts.iter().zip(&self.closes).map(|(part, close)| part.abs() * close).sum();
        let known = norm(&apart.collect::<Vec<f64>>()) <= CLOSE * size && inexact <= CLOSE * size;
        let known = known && anchored(&self.columns, shifts, &parts);
        known.then(|| self.distribution(&parts))
    }

    fn distribution(&self, parts: &[f64]) -> Vec<f64> {
        let mut found = combined(&self.basis, parts);
        found.iter_mut().zip(&self.roots).for_each(|(value, root)| *value *= self.size * root);
        found
    }
}

/// What the small matrix with these columns makes of the first unit vector, for a time in which `shifts` would leave: `exp(time
/// (1 - 1/matrix)) / matrix`, by the contour for parts of the time. `None` where no number of parts says the same as half of it.
fn at_end(columns: &[Vec<f64>], shifts: f64) -> Option<Vec<f64>> {
    let mut before: Option<Vec<f64>> = None;
    for halvings in PARTS.0..=PARTS.1 {
        let now = in_parts(columns, shifts, halvings)?;
        if let Some(before) = &before {
            let apart: Vec<f64> = now.iter().zip(before).map(|(one, other)| one - other).collect();
            if norm(&apart) <= SAME * norm(&now) {
                return Some(now);
            }
        }
        before = Some(now);
    }
    None
}

/// Whether many short parts of the time lead to `found`, too: what turns round lies outside of the contour when a part is long, and is left
/// out of it, by a part of half the length as well. What turns round more often than one over a [`FINE`] of the time has died away by
/// then.
fn anchored(columns: &[Vec<f64>], shifts: f64, found: &[f64]) -> bool {
    let count = columns.len();
    let entry = |row: usize, column: usize| columns[column].get(row).copied().unwrap_or(0.0);
    let parts = f64::from(FINE).exp2();
    let Some(part) = part(columns, parts / shifts) else { return false };
    // One inverse less in each.
    let matrix: Vec<Vec<f64>> = (0..count).map(|row| (0..count).map(|column| entry(row, column)).collect()).collect();
    let mut step = times(&part, &matrix);
    for _ in 0..FINE {
        step = times(&step, &step);
    }
    let apart = step.iter().zip(&matrix).map(|(step, row)| {
        let wanted: f64 = row.iter().zip(found).map(|(one, other)| one * other).sum();
        step[0] - wanted
    });
    let off = norm(&apart.collect::<Vec<f64>>());
    off <= ANCHORED * norm(found)
}

fn times(left: &[Vec<f64>], right: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let row = |row: &Vec<f64>| {
        let mut sums = vec![0.0; right.len()];
        for (entry, other) in row.iter().zip(right) {
            sums.iter_mut().zip(other).for_each(|(sum, value)| *sum += entry * value);
        }
        sums
    };
    left.iter().map(row).collect()
}

fn in_parts(columns: &[Vec<f64>], shifts: f64, halvings: u32) -> Option<Vec<f64>> {
    let count = columns.len();
    let entry = |row: usize, column: usize| columns[column].get(row).copied().unwrap_or(0.0);
    let step = part(columns, f64::from(halvings).exp2() / shifts)?;
    // The first part starts from what is one inverse further than the start: no matrix is left over there.
    let mut now: Vec<f64> = step.iter().map(|row| row[0]).collect();
    for _ in 1..1_u32 << halvings {
        let turned: Vec<f64> =
            (0..count).map(|row| (0..count).map(|column| entry(row, column) * now[column]).sum()).collect();
        now = step.iter().map(|row| row.iter().zip(&turned).map(|(one, other)| one * other).sum()).collect();
    }
    now.iter().all(|value| value.is_finite()).then_some(now)
}

/// What is in [`at_end`] for a part of the time in which one over `each` would leave, as a matrix.
fn part(columns: &[Vec<f64>], each: f64) -> Option<Vec<Vec<f64>>> {
    let count = columns.len();
    let entry = |row: usize, column: usize| columns[column].get(row).copied().unwrap_or(0.0);
    let mut step = vec![vec![0.0; count]; count];
    for (point, weight) in contour() {
        let by = Complex { re: point.re * each - 1.0, im: point.im * each };
        let rows = (0..count).map(|row| {
            let one = |column: usize| if row == column { 1.0 } else { 0.0 };
            (0..count).map(|column| by * Complex::from(entry(row, column)) + Complex::from(one(column))).collect()
        });
        let inverse = inverse(rows.collect())?;
        for (sums, row) in step.iter_mut().zip(inverse) {
            sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += (weight * Complex::from(each) * value).re);
        }
    }
    Some(step)
}

/// By elimination with the largest pivots.
fn inverse(mut rows: Vec<Vec<Complex>>) -> Option<Vec<Vec<Complex>>> {
    let count = rows.len();
    for (at, row) in rows.iter_mut().enumerate() {
        row.resize(2 * count, Complex::default());
        row[count + at] = Complex::from(1.0);
    }
    for at in 0..count {
        let best = (at..count).max_by(|one, other| rows[*one][at].size().total_cmp(&rows[*other][at].size()))?;
        rows.swap(at, best);
        let pivot = rows[at][at];
        if pivot.size() == 0.0 || !pivot.size().is_finite() {
            return None;
        }
        rows[at][at..].iter_mut().for_each(|value| *value = *value / pivot);
        let own = rows[at].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(other, _)| *other != at) {
            let factor = row[at];
            if factor != Complex::default() {
                row[at..].iter_mut().zip(&own[at..]).for_each(|(value, own)| *value = value.minus(factor * *own));
            }
        }
    }
    Some(rows.into_iter().map(|mut row| row.split_off(count)).collect())
}
