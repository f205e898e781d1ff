//! How a value at a time, and the time of a quantile, change with every rate at once.
//!
//! Uniformization makes the value a sum over steps; what each step's edges count for follows by going through the steps
//! backward. The distributions met forward are kept at every so many steps, and found again from there.

use super::adjoint::Worth;
use super::inverse::{STATES, Step, Way, count_of, reach};
use super::solve::sum;
use super::transient::{self, Poisson, Tail, poisson};
use super::{Chain, Incoming, passage};
use crate::{Budget, Class, Progress, Refusal};

/// How much the edges count for the mean of `rewards`, one for each state, at `time`.
///
/// # Errors
/// When it takes more work or memory than this program spends on it.
pub fn worth_at(
    chain: &Chain,
    initial: &[(u32, f64)],
    rewards: &[f64],
    time: f64,
    budget: &mut Budget<'_>,
) -> Result<Worth, Refusal> {
    let fastest = chain.exits.iter().copied().fold(0.0, f64::max) * 1.02;
    if fastest * time == 0.0 {
        return Ok(Worth::by_edge(chain.clone(), vec![0.0; chain.edges()]));
    }
    let mut start = vec![0.0; chain.len()];
    initial.iter().for_each(|(state, probability)| start[*state as usize] += probability);
    if chain.len() <= STATES
        && !transient::cheap(chain, time, 4.0)
        && let Some(worth) = by_transform(chain, initial, &start, rewards, time, budget)?
    {
        return Ok(worth);
    }
    transient::affordable(chain, fastest * time, 4.0)?;
    let most = rewards.iter().copied().fold(0.0, f64::max);
    for tail in [Tail::Short, Tail::Long] {
        let steps = Steps::new(chain, fastest, time, tail);
        let (mean, changes) = steps.changes(start.clone(), rewards, budget)?;
        if transient::known(mean, steps.lost(), most) {
            return Ok(Worth::by_edge(chain.clone(), changes));
        }
    }
    Err(of_nothing())
}

/// Why a derivative of a value that is as good as 0 is not known.
pub(crate) fn of_nothing() -> Refusal {
    Refusal::new(Class::Unsupported, "", "the value is as good as 0, and how it changes is not known")
}

/// [`worth_at`] by the transform, in steps that lose nothing, and in twice as many; `None` where there are none.
fn by_transform(
    chain: &Chain,
    initial: &[(u32, f64)],
    start: &[f64],
    rewards: &[f64],
    time: f64,
    budget: &mut Budget<'_>,
) -> Result<Option<Worth>, Refusal> {
    let mean = transient::at(chain, initial, time, budget)?.mean(chain, rewards, budget)?.value;
    let beside: Vec<f64> = rewards.iter().map(|reward| reward - mean).collect();
    // What turns round counts where both the start and the rewards have it.
    let Some((from_start, _)) = reach(chain, start, time, Way::Forward, budget)? else { return Ok(None) };
    let Some((from_end, _)) = reach(chain, &beside, time, Way::Backward, budget)? else { return Ok(None) };
    let steps = count_of(time, from_start.min(from_end)).max(2);
    let mut found = Vec::new();
    for steps in [steps, 2 * steps] {
        let Some(step) = Step::new(chain, time / f64::from(steps), budget)? else { return Ok(None) };
        // Two changes an edge that are kept, these and others at the end, when the chain is there once more.
        let count = chain.len() * 16 * steps as usize + chain.edges() * (32 + 24);
        budget.bytes(count as u64 + 2 * chain.bytes())?;
        // Where it is before each step, and what the states are worth after the last one, the one before, ..
        let (mut now, mut then) = (vec![start.to_vec()], vec![beside.clone()]);
        for done in 1..steps as usize {
            now.push(step.forward(&now[done - 1]));
            then.push(step.backward(&then[done - 1]));
        }
        let mut changes = vec![[0.0; 2]; chain.edges()];
        for (now, then) in now.iter().zip(then.iter().rev()) {
            budget.look(Progress::Solving { sweeps: u64::from(steps), error: 1.0 })?;
            step.count(chain, now, then, &mut changes);
        }
        found.push(changes);
    }
    let (Some(fine), Some(coarse)) = (found.pop(), found.pop()) else { return Ok(None) };
    let changes = |found: &[[f64; 2]]| found.iter().map(|[change, _]| *change).collect();
    let rounding = fine.iter().map(|[_, rounding]| *rounding).collect();
    Ok(Some(Worth::by_edge_and_other(chain.clone(), changes(&fine), changes(&coarse), rounding)))
}

/// What the states are worth `time` before they are worth `rewards`, by uniformization.
pub(super) fn before(chain: &Chain, rewards: &[f64], time: f64, budget: &mut Budget<'_>) -> Result<Vec<f64>, Refusal> {
    let fastest = chain.exits.iter().copied().fold(0.0, f64::max) * 1.02;
    if fastest * time == 0.0 {
        return Ok(rewards.to_vec());
    }
    let steps = Steps::new(chain, fastest, time, Tail::Short);
    let mut worth = vec![0.0; chain.len()];
    for step in (0..=steps.last()).rev() {
        if step % 64 == 0 {
            budget.look(Progress::Solving { sweeps: step as u64, error: 1.0 })?;
        }
        worth = steps.backward(&worth, rewards, steps.weight(step));
    }
    Ok(worth)
}

/// How much the edges count for the time `time` by which the states that `goal` names have been entered with some probability.
///
/// # Errors
/// When that probability does not grow then, or it takes more work than the budget allows.
pub fn worth_of_quantile(
    chain: &Chain,
    initial: &[(u32, f64)],
    goal: &[bool],
    time: f64,
    budget: &mut Budget<'_>,
) -> Result<Worth, Refusal> {
    let budget = &mut passage::beside_ending(chain, budget)?;
    let chain = chain.ending(goal);
    let rewards: Vec<f64> = goal.iter().map(|goal| if *goal { 1.0 } else { 0.0 }).collect();
    if time == 0.0 {
        return worth_at(&chain, initial, &rewards, time, budget);
    }
    // The probability stays where it is: what it would gain by the rates it loses by the time.
    let entering = passage::entering(&chain, goal);
    let density = transient::at(&chain, initial, time, budget)?.mean(&chain, &entering, budget)?.value;
    if density.is_nan() || density <= 0.0 {
        return Err(Refusal::new(Class::Unsupported, "p", "the probability does not grow at that time"));
    }
    Ok(worth_at(&chain, initial, &rewards, time, budget)?.times(-1.0 / density))
}

/// Steps of the chain that is left, in every state, at the same rate.
struct Steps<'a> {
    chain: &'a Chain,
    incoming: Incoming,
    uniform: f64,
    poisson: Poisson,
}

impl<'a> Steps<'a> {
    fn new(chain: &'a Chain, uniform: f64, time: f64, tail: Tail) -> Self {
        let poisson = poisson(uniform * time, tail.cut());
        Self { chain, incoming: chain.incoming(), uniform, poisson }
    }

    /// The last step that counts.
    fn last(&self) -> usize {
        self.poisson.first + self.poisson.weights.len() - 1
    }

    /// What the steps that are left out may change: each of their edges may be the one that is changed.
    fn lost(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let steps = 2.0 * (self.last() + 1) as f64;
        self.poisson.lost * steps
    }

    /// The probability of `step` steps.
    fn weight(&self, step: usize) -> f64 {
        step.checked_sub(self.poisson.first).and_then(|at| self.poisson.weights.get(at)).copied().unwrap_or(0.0)
    }

    fn forward(&self, now: &[f64]) -> Vec<f64> {
        let next = |state: usize| {
            let arriving: f64 = self.incoming.column(state).map(|(from, rate)| now[from] * (rate / self.uniform)).sum();
            now[state] * (1.0 - self.chain.exit(state) / self.uniform) + arriving
        };
        (0..now.len()).map(next).collect()
    }

    /// What the states are worth one step earlier, with `rewards` times `weight` besides.
    fn backward(&self, worth: &[f64], rewards: &[f64], weight: f64) -> Vec<f64> {
        let before = |state: usize| {
            let here = worth[state];
            let onward: f64 = self.chain.row(state).map(|(to, rate)| rate / self.uniform * (worth[to] - here)).sum();
            here + onward + weight * rewards[state]
        };
        (0..worth.len()).map(before).collect()
    }

    /// The mean of `rewards` at the end, and edge by edge how it changes with the rate.
    fn changes(&self, start: Vec<f64>, rewards: &[f64], budget: &mut Budget<'_>) -> Result<(f64, Vec<f64>), Refusal> {
        let count = self.chain.len();
        let last = self.last();
        let block = last.isqrt() + 1;
        let vectors = count * 8 * (last / block + block + 8) + self.chain.edges() * 8;
        budget.bytes(vectors as u64 + 2 * self.chain.bytes() + self.chain.bytes_turned())?;
        let mut look = |done: usize| {
            #[expect(clippy::cast_precision_loss, reason = "for a person")]
            budget.look(Progress::Solving { sweeps: done as u64, error: 1.0 - done as f64 / (2 * last + 1) as f64 })
        };
        let mut kept = vec![start];
        let mut now = kept[0].clone();
        let mut mean = sum(now.iter().zip(rewards).map(|(now, reward)| now * reward)) * self.weight(0);
        for step in 1..=last {
            now = self.forward(&now);
            mean += sum(now.iter().zip(rewards).map(|(now, reward)| now * reward)) * self.weight(step);
            if step.is_multiple_of(block) {
                kept.push(now.clone());
                look(step)?;
            }
        }
        // Only how far the states differ counts: around the mean, nothing large cancels.
        let beside: Vec<f64> = rewards.iter().map(|reward| reward - mean).collect();
        let mut changes = vec![0.0; self.chain.edges()];
        let mut worth = vec![0.0; count];
        for (index, start) in kept.into_iter().enumerate().rev() {
            let from = index * block;
            let mut block_of = vec![start];
            for step in from + 1..last.min(from + block) {
                block_of.push(self.forward(&block_of[step - from - 1]));
            }
            for (offset, now) in block_of.iter().enumerate().rev().filter(|(offset, _)| from + offset < last) {
                worth = self.backward(&worth, &beside, self.weight(from + offset + 1));
                self.count(now, &worth, &mut changes);
            }
            look(2 * last - from)?;
        }
        Ok((mean, changes))
    }

    fn count(&self, now: &[f64], worth: &[f64], changes: &mut [f64]) {
        for (from, held) in now.iter().enumerate().filter(|(_, held)| **held > 0.0) {
            let span = self.chain.rows[from] as usize..self.chain.rows[from + 1] as usize;
            let part = held / self.uniform;
            for (to, change) in self.chain.columns[span.clone()].iter().zip(&mut changes[span]) {
                *change += part * (worth[*to as usize] - worth[from]);
            }
        }
    }
}
