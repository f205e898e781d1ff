//! Where a chain is at a time: uniformization; where it is left too often until then, the inverse of its transform, or powers of a
//! matrix.

use super::Chain;
use super::inverse::Found;
use super::solve::sum;
use crate::{Budget, Progress};
use crate::{Class, Refusal};

/// Products of vector and matrix that uniformization may take, in edge operations.
const WORK: f64 = 4e10;
/// The same where nothing else is tried before.
const CHEAP: f64 = 3e8;
/// States up to which a matrix is multiplied with itself instead.
const DENSE: usize = 600;
/// What may be missing of the Poisson weights.
const LOST: f64 = 1e-14;

/// Where a chain is at a time.
#[derive(Debug, Clone)]
pub struct At(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Exact(Vec<f64>),
    Inverse { found: Found, start: Vec<f64>, time: f64 },
}

/// The mean of rewards at a time, or a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Mean {
    /// What was asked for.
    pub value: f64,
    /// Where it is not found by adding up numbers above 0 only: how it is found, and how far it may be off, relatively.
    pub method: Option<(String, f64)>,
}

impl At {
    /// The mean of `rewards`, one for each state and none below 0.
    ///
    /// # Errors
    /// When no method settles within the budget.
    pub fn mean(&mut self, chain: &Chain, rewards: &[f64], budget: &mut Budget<'_>) -> Result<Mean, Refusal> {
        if let Kind::Inverse { found, start, time } = &mut self.0 {
            if let Some((value, off)) = found.mean(chain, rewards, budget)? {
                let method = format!("inverse Laplace transform along a contour, {} steps", found.steps);
                return Ok(Mean { value, method: Some((method, off)) });
            }
            self.0 = Kind::Exact(forward(chain, start, *time, budget)?);
        }
        let value = sum(self.likely().iter().zip(rewards).map(|(p, reward)| p * reward));
        Ok(Mean { value, method: None })
    }

    /// The distribution, right to ten digits or so of 1; its small entries may not be right in any of theirs.
    #[must_use]
    pub fn likely(&self) -> &[f64] {
        match &self.0 {
            Kind::Exact(distribution) => distribution,
            Kind::Inverse { found, .. } => &found.fine,
        }
    }

    /// Steps in which the inverse of the transform settled.
    pub(super) fn steps(&self) -> Option<u32> {
        match &self.0 {
            Kind::Exact(_) => None,
            Kind::Inverse { found, .. } => Some(found.steps),
        }
    }
}

/// Where `chain` is at `time`, at least 0, from `initial` (state, probability).
///
/// # Errors
/// When it takes more work than this program spends on it.
pub fn at(chain: &Chain, initial: &[(u32, f64)], time: f64, budget: &mut Budget<'_>) -> Result<At, Refusal> {
    let mut start = vec![0.0; chain.len()];
    initial.iter().for_each(|(state, probability)| start[*state as usize] += probability);
    if !cheap(chain, time, 1.0)
        && let Some(found) = Found::new(chain, &start, time, budget)?
    {
        return Ok(At(Kind::Inverse { found, start, time }));
    }
    Ok(At(Kind::Exact(forward(chain, &start, time, budget)?)))
}

/// The distribution at `time`, at least 0, from `initial` (state, probability).
///
/// # Errors
/// When it takes more work than this program spends on it.
pub fn transient(
    chain: &Chain,
    initial: &[(u32, f64)],
    time: f64,
    budget: &mut Budget<'_>,
) -> Result<Vec<f64>, Refusal> {
    let mut start = vec![0.0; chain.len()];
    for (state, probability) in initial {
        start[*state as usize] += probability;
    }
    forward(chain, &start, time, budget)
}

/// How often the fastest state would be left until `time`, and a little more.
fn events(chain: &Chain, time: f64) -> f64 {
    chain.exits.iter().copied().fold(0.0, f64::max) * 1.02 * time
}

/// Products of vector and matrix, in edge operations.
fn work(chain: &Chain, events: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "an estimate of work")]
    let each = (chain.edges() + chain.len()) as f64;
    (events + 12.0 * events.sqrt() + 40.0) * each
}

/// Whether uniformization until `time` is a matter of a moment, if each step takes `times` one product of vector and matrix.
pub(super) fn cheap(chain: &Chain, time: f64, times: f64) -> bool {
    work(chain, events(chain, time)) * times <= CHEAP
}

/// The distribution `time` after `start`, by sums of numbers above 0 only.
pub(super) fn forward(chain: &Chain, start: &[f64], time: f64, budget: &mut Budget<'_>) -> Result<Vec<f64>, Refusal> {
    let events = events(chain, time);
    if events == 0.0 {
        return Ok(start.to_vec());
    }
    #[expect(clippy::cast_precision_loss, reason = "an estimate of work")]
    let squares = (chain.len() as f64).powi(3) * (events.log2().max(0.0) + 2.0);
    if chain.len() <= DENSE && squares < work(chain, events) {
        return squared(chain, start, time, budget);
    }
    affordable(chain, events, 1.0)?;
    uniformized(chain, start, events / time, time, budget)
}

/// Whether `events` steps of uniformization, each of which takes `times` one product of vector and matrix, are not too many.
pub(super) fn affordable(chain: &Chain, events: f64, times: f64) -> Result<(), Refusal> {
    if work(chain, events) * times <= WORK {
        return Ok(());
    }
    let why = format!(
        "the fastest state would be left {events:.0} times by then: ask for an earlier time, or for the long run"
    );
    Err(Refusal::new(Class::TooLarge, "at", why))
}

/// Poisson weights for the mean `events`: the first index and the weights from there, which add up to 1.
pub(super) fn poisson(events: f64) -> (usize, Vec<f64>) {
    // From the mode outwards, so that nothing underflows before it is small; then normalized.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded by the caller")]
    let mode = events.floor() as usize;
    let mut right = vec![1.0];
    let (mut weight, mut index) = (1.0, mode);
    while weight > LOST * 1e-6 {
        index += 1;
        #[expect(clippy::cast_precision_loss, reason = "bounded by the caller")]
        let next = weight * events / index as f64;
        weight = next;
        right.push(weight);
    }
    let mut left = Vec::new();
    let (mut weight, mut index) = (1.0, mode);
    while index > 0 && weight > LOST * 1e-6 {
        #[expect(clippy::cast_precision_loss, reason = "bounded by the caller")]
        let next = weight * index as f64 / events;
        weight = next;
        index -= 1;
        left.push(weight);
    }
    let mut weights: Vec<f64> = left.into_iter().rev().chain(right).collect();
    super::solve::normalize(&mut weights);
    (index, weights)
}

fn uniformized(
    chain: &Chain,
    start: &[f64],
    uniform: f64,
    time: f64,
    budget: &mut Budget<'_>,
) -> Result<Vec<f64>, Refusal> {
    let (first, weights) = poisson(uniform * time);
    let incoming = chain.incoming();
    let mut now = start.to_vec();
    let mut next = vec![0.0; now.len()];
    let mut result = vec![0.0; now.len()];
    let last = first + weights.len() - 1;
    for step in 0..=last {
        if step % 64 == 0 {
            #[expect(clippy::cast_precision_loss, reason = "for a person")]
            budget.look(Progress::Solving { sweeps: step as u64, error: 1.0 - step as f64 / last as f64 })?;
        }
        if step >= first {
            let weight = weights[step - first];
            for (result, now) in result.iter_mut().zip(&now) {
                *result += weight * now;
            }
        }
        if step == last {
            break;
        }
        let mut change = 0.0_f64;
        for (state, next) in next.iter_mut().enumerate() {
            let arriving: f64 = incoming.column(state).map(|(from, rate)| now[from] * (rate / uniform)).sum();
            *next = now[state] * (1.0 - chain.exit(state) / uniform) + arriving;
            change = change.max((*next - now[state]).abs());
        }
        std::mem::swap(&mut now, &mut next);
        if change == 0.0 {
            // It has come to rest: every later step is this one.
            let done: f64 = if step >= first { weights[..=step - first].iter().sum() } else { 0.0 };
            for (result, now) in result.iter_mut().zip(&now) {
                *result += (1.0 - done) * now;
            }
            break;
        }
    }
    checked(result)
}

/// `exp(Q time)` by halving the time until few events happen, and squaring back. All entries stay above 0: nothing cancels.
fn squared(chain: &Chain, start: &[f64], time: f64, budget: &mut Budget<'_>) -> Result<Vec<f64>, Refusal> {
    let count = chain.len();
    let fastest = chain.exits.iter().copied().fold(0.0, f64::max) * 1.02;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a logarithm, at least 0")]
    let halvings = (fastest * time).log2().ceil().max(0.0) as u32;
    let short = time / f64::from(halvings).exp2();
    let (first, weights) = poisson(fastest * short);
    let mut step = vec![0.0; count * count];
    for from in 0..count {
        step[from * count + from] = 1.0 - chain.exit(from) / fastest;
        for (to, rate) in chain.row(from) {
            step[from * count + to] += rate / fastest;
        }
    }
    let mut power = vec![0.0; count * count];
    (0..count).for_each(|state| power[state * count + state] = 1.0);
    let mut matrix = vec![0.0; count * count];
    for index in 0..first + weights.len() {
        if index >= first {
            let weight = weights[index - first];
            matrix.iter_mut().zip(&power).for_each(|(sum, entry)| *sum += weight * entry);
        }
        power = product(&power, &step, count);
    }
    for done in 0..halvings {
        budget
            .look(Progress::Solving { sweeps: u64::from(done), error: 1.0 - f64::from(done) / f64::from(halvings) })?;
        matrix = product(&matrix, &matrix, count);
        // Rounding would be doubled with each square: every row is a distribution.
        for row in matrix.chunks_mut(count) {
            super::solve::normalize(row);
        }
    }
    let mut result = vec![0.0; count];
    for (from, probability) in start.iter().enumerate().filter(|(_, probability)| **probability > 0.0) {
        result
            .iter_mut()
            .zip(&matrix[from * count..(from + 1) * count])
            .for_each(|(sum, entry)| *sum += probability * entry);
    }
    checked(result)
}

fn product(left: &[f64], right: &[f64], count: usize) -> Vec<f64> {
    let mut product = vec![0.0; count * count];
    for (row, out) in left.chunks(count).zip(product.chunks_mut(count)) {
        for (entry, other) in row.iter().zip(right.chunks(count)) {
            if *entry != 0.0 {
                out.iter_mut().zip(other).for_each(|(sum, value)| *sum += entry * value);
            }
        }
    }
    product
}

fn checked(distribution: Vec<f64>) -> Result<Vec<f64>, Refusal> {
    let total = sum(distribution.iter().copied());
    if (total - 1.0).abs() < 1e-9 {
        return Ok(distribution);
    }
    let why = format!("the solution at a time does not pass its check: its probabilities add up to {total}");
    Err(Refusal::new(Class::Unsupported, "at", why))
}
