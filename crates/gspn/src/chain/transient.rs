//! Where a chain is at a time: uniformization; where it is left too often until then, the inverse of its transform, or powers of a
//! matrix.

use super::Chain;
use super::inverse::{Found, STATES};
use super::solve::sum;
use crate::{Budget, Progress};
use crate::{Class, Refusal};

/// Products of vector and matrix that uniformization may take, in edge operations.
const WORK: f64 = 4e10;
/// The same where nothing else is tried before.
const CHEAP: f64 = 3e8;
const CHEAP_OF_MANY: f64 = 4e9;
/// States up to which a matrix is multiplied with itself instead.
const DENSE: usize = 600;
/// How often a time is halved at most.
const HALVINGS: u32 = 800;
/// What may be missing of a value, relatively.
const MISSING: f64 = 1e-9;

/// Poisson weights less than this part of the largest are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// 1e-20: enough for values that are no smaller than 1e-10 of what they could be.
    Short,
    /// 1e-290: what many steps, or very few, lead to is there, too.
    Long,
}

impl Tail {
    pub(super) fn cut(self) -> f64 {
        match self {
            Self::Short => 1e-20,
            Self::Long => 1e-290,
        }
    }
}

/// A distribution, and what may be missing of each of its entries.
#[derive(Debug, Clone)]
pub(super) struct Shares {
    pub(super) shares: Vec<f64>,
    pub(super) lost: f64,
}

/// Whether a sum of which `lost` may be missing, times what it adds up (at most `most`), is known well enough.
pub(super) fn known(value: f64, lost: f64, most: f64) -> bool {
    lost * most <= MISSING * value
}

/// Where a chain is at a time.
#[derive(Debug, Clone)]
pub struct At(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Exact { found: Shares, start: Vec<f64>, time: f64 },
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

/// What is said of a value that is not known, but not above this: a bound to one digit, which is rounded up.
pub(crate) fn said_as_zero(most: f64) -> String {
    let near = format!("{most:.0e}");
    let (digit, power) = near.split_once('e').unwrap_or(("1", "0"));
    let up = match near.parse::<f64>() {
        Ok(bound) if bound < most => {
            let digit = digit.parse::<u32>().unwrap_or(1) + 1;
            let power = power.parse::<i32>().unwrap_or(0);
            if digit > 9 { format!("1e{}", power + 1) } else { format!("{digit}e{power}") }
        }
        _ => near,
    };
    format!("{up} at most, said as 0")
}

impl At {
    /// The mean of `rewards`, one for each state and none below 0.
    ///
    /// # Errors
    /// When no method settles within the budget.
    pub fn mean(&mut self, chain: &Chain, rewards: &[f64], budget: &mut Budget<'_>) -> Result<Mean, Refusal> {
        if let Kind::Inverse { found, start, time } = &mut self.0 {
            if let Some((value, off)) = found.mean(chain, rewards, budget)? {
                let method =
                    if value == 0.0 && off > 0.0 { "1e-280 at most, said as 0".to_owned() } else { found.method() };
                return Ok(Mean { value, method: Some((method, off)) });
            }
            let found = forward(chain, start, *time, Tail::Short, budget)?;
            self.0 = Kind::Exact { found, start: std::mem::take(start), time: *time };
        }
        let most = rewards.iter().copied().fold(0.0, f64::max);
        let mean = |shares: &[f64]| sum(shares.iter().zip(rewards).map(|(share, reward)| share * reward));
        let mut value = mean(self.likely());
        if let Kind::Exact { found, start, time } = &mut self.0
            && !known(value, found.lost, most)
        {
            *found = forward(chain, start, *time, Tail::Long, budget)?;
            value = mean(&found.shares);
            if !known(value, found.lost, most) {
                let method = said_as_zero(value + found.lost * most);
                return Ok(Mean { value: 0.0, method: Some((method, 1.0)) });
            }
        }
        Ok(Mean { value, method: None })
    }

    /// The distribution, right to ten digits or so of 1; its small entries may not be right in any of theirs.
    #[must_use]
    pub fn likely(&self) -> &[f64] {
        match &self.0 {
            Kind::Exact { found, .. } => &found.shares,
            Kind::Inverse { found, .. } => &found.fine,
        }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.0 {
            Kind::Exact { found, start, .. } => 8 * (found.shares.len() + start.len()) as u64,
            Kind::Inverse { found, start, .. } => 8 * start.len() as u64 + found.bytes(),
        }
    }

    /// How long steps of the inverse may be, where that is known.
    pub(super) fn length(&self) -> Option<f64> {
        match &self.0 {
            Kind::Exact { .. } => None,
            Kind::Inverse { found, .. } => found.length(),
        }
    }

    /// The same at another time, where that is at hand.
    pub(super) fn again(&self, time: f64) -> Option<Self> {
        let Kind::Inverse { found, start, .. } = &self.0 else { return None };
        Some(Self(Kind::Inverse { found: found.again(time)?, start: start.clone(), time }))
    }
}

/// Where `chain` is at `time`, at least 0, from `initial` (state, probability).
///
/// # Errors
/// When it takes more work than this program spends on it.
pub fn at(chain: &Chain, initial: &[(u32, f64)], time: f64, budget: &mut Budget<'_>) -> Result<At, Refusal> {
    Ok(match at_beside(chain, initial, time, None, budget)?.0 {
        Kind::Inverse { found, start, time } => At(Kind::Inverse { found: found.alone(), start, time }),
        exact @ Kind::Exact { .. } => At(exact),
    })
}

/// [`at`], knowing of another time from the same start how long steps may be.
pub(super) fn at_beside(
    chain: &Chain,
    initial: &[(u32, f64)],
    time: f64,
    length: Option<f64>,
    budget: &mut Budget<'_>,
) -> Result<At, Refusal> {
    let mut start = vec![0.0; chain.len()];
    initial.iter().for_each(|(state, probability)| start[*state as usize] += probability);
    if !cheap(chain, time, 1.0)
        && let Some(found) = Found::new(chain, &start, time, length, budget)?
    {
        return Ok(At(Kind::Inverse { found, start, time }));
    }
    let found = forward(chain, &start, time, Tail::Short, budget)?;
    Ok(At(Kind::Exact { found, start, time }))
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

/// Whether uniformization until `time` is a matter of a moment, if each step takes `times` one product of vector and matrix; or powers of a
/// matrix are, which must not be asked for more than once.
pub(super) fn cheap(chain: &Chain, time: f64, times: f64) -> bool {
    // Nothing else is quick for many states.
    let most = if chain.len() > STATES { CHEAP_OF_MANY } else { CHEAP };
    let events = events(chain, time);
    work(chain, events) * times <= most || times <= 1.0 && chain.len() <= DENSE && squares(chain, events) <= CHEAP
}

/// A time until which uniformization is a matter of a moment.
pub(super) fn moment(chain: &Chain) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "an estimate of work")]
    let most = CHEAP / (4.0 * (chain.edges() + chain.len()) as f64);
    most.max(100.0) / events(chain, 1.0)
}

/// Products of numbers that powers of a matrix take.
#[expect(clippy::cast_precision_loss, reason = "an estimate of work")]
fn squares(chain: &Chain, events: f64) -> f64 {
    (chain.len() as f64).powi(3) * (events.log2().max(0.0) + 2.0)
}

/// The distribution `time` after `start`, by sums of numbers above 0 only.
pub(super) fn forward(
    chain: &Chain,
    start: &[f64],
    time: f64,
    tail: Tail,
    budget: &mut Budget<'_>,
) -> Result<Shares, Refusal> {
    let events = events(chain, time);
    if events == 0.0 {
        return Ok(Shares { shares: start.to_vec(), lost: 0.0 });
    }
    if chain.len() <= DENSE && squares(chain, events) < work(chain, events) {
        return squared(chain, start, time, tail, budget);
    }
    affordable(chain, events, 1.0)?;
    uniformized(chain, start, events / time, time, tail, budget)
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

/// Poisson's probabilities of numbers of steps, those from `first` on; they add up to 1.
#[derive(Debug)]
pub(crate) struct Poisson {
    pub(crate) first: usize,
    pub(crate) weights: Vec<f64>,
    /// What those that are left out add up to.
    pub(crate) lost: f64,
}

/// Those of the mean `events`, down to `cut` times the largest.
pub(crate) fn poisson(events: f64, cut: f64) -> Poisson {
    // From the mode outwards, so that nothing underflows before it is small; then normalized.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded by the caller")]
    let mode = events.floor() as usize;
    let (mut weights, mut lost) = (vec![1.0], 0.0);
    let mut first = mode;
    while first > 0 {
        #[expect(clippy::cast_precision_loss, reason = "bounded by the caller")]
        let falls = first as f64 / events;
        let next = weights[weights.len() - 1] * falls;
        if next < cut {
            // The further out, the faster they fall.
            lost += next / (1.0 - falls);
            break;
        }
        first -= 1;
        weights.push(next);
    }
    weights.reverse();
    let (mut weight, mut index) = (1.0, mode);
    loop {
        index += 1;
        #[expect(clippy::cast_precision_loss, reason = "bounded by the caller")]
        let falls = events / index as f64;
        weight *= falls;
        if weight < cut {
            lost += weight / (1.0 - falls);
            break;
        }
        weights.push(weight);
    }
    lost /= sum(weights.iter().copied());
    super::solve::normalize(&mut weights);
    Poisson { first, weights, lost }
}

fn uniformized(
    chain: &Chain,
    start: &[f64],
    uniform: f64,
    time: f64,
    tail: Tail,
    budget: &mut Budget<'_>,
) -> Result<Shares, Refusal> {
    budget.bytes(chain.bytes() + chain.bytes_turned() + 40 * chain.len() as u64)?;
    let Poisson { first, weights, lost } = poisson(uniform * time, tail.cut());
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
    checked(result, lost)
}

/// `exp(Q time)` by halving the time until few events happen, and squaring back. All entries stay above 0: nothing cancels.
fn squared(chain: &Chain, start: &[f64], time: f64, tail: Tail, budget: &mut Budget<'_>) -> Result<Shares, Refusal> {
    let count = chain.len();
    let fastest = chain.exits.iter().copied().fold(0.0, f64::max) * 1.02;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a logarithm, at least 0")]
    let halvings = (fastest * time).log2().ceil().max(0.0) as u32;
    if halvings > HALVINGS {
        return Err(Refusal::new(Class::TooLarge, "at", "the time is too long for the rates: ask for the long run"));
    }
    let parts = f64::from(halvings).exp2();
    let short = time / parts;
    // What is left out is left out of each part.
    let Poisson { first, weights, lost } = poisson(fastest * short, (tail.cut() / parts).max(1e-300));
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
        budget.look(Progress::Solving { sweeps: index as u64, error: 1.0 })?;
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
    checked(result, lost * parts)
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

fn checked(shares: Vec<f64>, lost: f64) -> Result<Shares, Refusal> {
    let total = sum(shares.iter().copied());
    if (total - 1.0).abs() < 1e-9 {
        return Ok(Shares { shares, lost });
    }
    let why = format!("the solution at a time does not pass its check: its probabilities add up to {total}");
    Err(Refusal::new(Class::Unsupported, "at", why))
}

#[cfg(test)]
mod tests {
    use super::said_as_zero;

    #[test]
    fn a_bound_is_rounded_up() {
        for (most, said) in
            [(9.3165e-289, "1e-288"), (2e-300, "2e-300"), (2.000_001e-300, "3e-300"), (4.7e-31, "5e-31"), (0.0, "0e0")]
        {
            assert_eq!(said_as_zero(most), format!("{said} at most, said as 0"));
        }
    }
}
