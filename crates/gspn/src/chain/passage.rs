//! The time until a chain first enters some states.

use super::long_run::is_bottom;
use super::solve::{Component, sum};
use super::transient::{At, Mean, Tail};
use super::{Chain, transient};
use crate::Budget;
use crate::components;
use crate::{Class, Refusal};

/// How a set of states is reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reached {
    /// The probability that it ever is.
    pub probability: f64,
    /// Mean time until it is; meant only if that is certain.
    pub mean: f64,
    /// Whether every way leads there.
    pub certain: bool,
}

/// The first entry into the states that `goal` names.
///
/// # Errors
/// When the equations cannot be solved within the budget.
pub fn passage(
    chain: &Chain,
    initial: &[(u32, f64)],
    goal: &[bool],
    budget: &mut Budget<'_>,
) -> Result<Reached, Refusal> {
    stays(chain, initial, goal, budget).map(|(reached, _)| reached)
}

/// The first entry into the states that `goal` names, and the mean of the square of its time: as a time that is looked at somewhere on the way
/// is as likely in a state as it stays there, twice the mean times the mean of what is left from there.
///
/// # Errors
/// When the equations cannot be solved within the budget.
pub(crate) fn moments(
    chain: &Chain,
    initial: &[(u32, f64)],
    goal: &[bool],
    budget: &mut Budget<'_>,
) -> Result<(Reached, f64), Refusal> {
    let (reached, times) = stays(chain, initial, goal, budget)?;
    if !reached.certain || reached.mean == 0.0 {
        return Ok((reached, 0.0));
    }
    let from: Vec<(u32, f64)> = times.into_iter().map(|(state, time)| (state, time / reached.mean)).collect();
    let (left, _) = stays(chain, &from, goal, budget)?;
    Ok((reached, 2.0 * reached.mean * left.mean))
}

/// The first entry, and how long each state is stayed in until then.
fn stays(
    chain: &Chain,
    initial: &[(u32, f64)],
    goal: &[bool],
    budget: &mut Budget<'_>,
) -> Result<(Reached, Vec<(u32, f64)>), Refusal> {
    let budget = &mut beside_ending(chain, budget)?;
    let chain = chain.ending(goal);
    let components = components::of(&chain);
    let incoming = chain.incoming();
    let mut flow = vec![0.0; chain.len()];
    for (state, probability) in initial {
        flow[*state as usize] += probability;
    }
    // Whether a state can be reached at all: a probability may be less than a number can say.
    let mut possible: Vec<bool> = flow.iter().map(|flow| *flow > 0.0).collect();
    let (mut times, mut arrived, mut elsewhere, mut lost) = (Vec::new(), Vec::new(), Vec::new(), false);
    for component in (0..components.len()).rev() {
        let part = Component { chain: &chain, incoming: &incoming, nodes: components.nodes(component) };
        let inflow: Vec<f64> = part.nodes.iter().map(|node| flow[*node as usize]).collect();
        if !part.nodes.iter().any(|node| possible[*node as usize]) {
            continue;
        }
        if is_bottom(&chain, &components, component) {
            if part.nodes.iter().all(|node| goal[*node as usize]) {
                arrived.extend(inflow)
            } else {
                elsewhere.extend(inflow);
                lost = true
            }
            continue;
        }
        for node in part.nodes {
            chain.row(*node as usize).for_each(|(to, _)| possible[to] = true);
        }
        if inflow.iter().all(|inflow| *inflow == 0.0) {
            continue;
        }
        for (node, time) in part.nodes.iter().zip(part.occupancy(inflow, budget)?) {
            times.push((*node, time));
            for (to, rate) in chain.row(*node as usize) {
                if components.of[to] as usize != component {
                    flow[to] += time * rate;
                }
            }
        }
    }
    // On ways that are less likely than a number can say it is lost, with the time that it would take.
    let probability = sum(arrived);
    let (all, begun) = (probability + sum(elsewhere), sum(initial.iter().map(|(_, probability)| *probability)));
    if (all - begun).abs() > KEPT * begun || all.is_nan() {
        let why = if all.is_nan() {
            "the time until it is reached is more than a number can say".to_owned()
        } else {
            format!(
                "only {all:e} of the start arrives, and not {begun:e}: the time until it is reached is more than a number can say, or \
                 ways there are less likely than that"
            )
        };
        return Err(Refusal::new(Class::Unsupported, "", why));
    }
    let mean = sum(times.iter().map(|(_, time)| *time));
    Ok((Reached { probability, mean, certain: !lost }, times))
}

/// The budget beside a chain of which [`Chain::ending`] makes another, which may have its rates edge by edge, and vectors of both.
///
/// # Errors
/// When both are more than the limit.
pub(super) fn beside_ending<'a>(chain: &Chain, budget: &'a mut Budget<'_>) -> Result<Budget<'a>, Refusal> {
    let besides = chain.bytes() + VECTORS * chain.len() as u64;
    let budget = budget.beside(besides);
    budget.bytes((chain.edges() * 12 + chain.len() * 12) as u64 + chain.bytes_turned())?;
    Ok(budget)
}

/// Bytes a state of components, flows and times.
const VECTORS: u64 = 40;
/// What may be missing of the probability that arrives somewhere, relatively.
const KEPT: f64 = 1e-8;

/// Whether the states that `goal` names hold a probability `level` from the start.
pub(crate) fn there(initial: &[(u32, f64)], goal: &[bool], level: f64) -> bool {
    let at_once = sum(initial.iter().filter(|(state, _)| goal[*state as usize]).map(|(_, share)| *share));
    // Whatever comes later; shares of immediates are rounded. Near 1 it is what is left that counts.
    let left = sum(initial.iter().filter(|(state, _)| !goal[*state as usize]).map(|(_, share)| *share));
    if level > 0.5 {
        left <= (1.0 - level) * (1.0 + 1e-12) + 2.0 * f64::EPSILON
    } else {
        at_once >= level * (1.0 - 1e-12)
    }
}

/// The time by which the states that `goal` names have been entered with probability `level`, between 0 and 1.
///
/// # Errors
/// When they are entered with less than this probability ever, or it takes more work than the budget allows to say when.
pub fn quantile(
    chain: &Chain,
    initial: &[(u32, f64)],
    goal: &[bool],
    level: f64,
    budget: &mut Budget<'_>,
) -> Result<Mean, Refusal> {
    if there(initial, goal, level) {
        return Ok(Mean { value: 0.0, method: None });
    }
    let reached = passage(chain, initial, goal, budget)?;
    if reached.probability <= level && !reached.certain {
        let why = format!("it is ever reached with probability {} only", reached.probability);
        return Err(Refusal::new(Class::Unsupported, "p", why));
    }
    let budget = &mut beside_ending(chain, budget)?;
    let chain = chain.ending(goal);
    let mut now = vec![0.0; chain.len()];
    for (state, probability) in initial {
        now[*state as usize] += probability;
    }
    let inside = |distribution: &[f64]| sum(distribution.iter().zip(goal).filter(|(_, goal)| **goal).map(|(p, _)| *p));
    let small = level.min(1.0 - level);
    if small < LEAST {
        let why = format!("a probability below {LEAST:e} is too small for a time by which it is there");
        return Err(Refusal::new(Class::Unsupported, "p", why));
    }
    let tail = if small < SMALL { Tail::Long } else { Tail::Short };
    // How much is missing, by whichever is the smaller one: near 1 what is inside has no digits for what is left.
    let later = level > 0.5 && reached.certain;
    let outside = |now: &[f64]| sum(now.iter().zip(goal).filter(|(_, goal)| !**goal).map(|(p, _)| *p));
    let missing = |now: &[f64]| if later { outside(now) - (1.0 - level) } else { level - inside(now) };
    if missing(&now) <= 0.0 {
        return Ok(Mean { value: 0.0, method: None });
    }
    if !transient::cheap(&chain, reached.mean, 8.0)
        && let Some(time) = stiff_quantile(&chain, initial, goal, level, &reached, budget)?
    {
        return Ok(time);
    }
    // Bracket: go on in steps that double until the level is passed, keeping the last distribution before it.
    let fastest = chain.exits.iter().copied().fold(0.0, f64::max);
    let mut step = if reached.certain { reached.mean / 8.0 } else { 1.0 / fastest };
    let mut time = 0.0;
    loop {
        let next = transient::forward(&chain, &now, step, tail, budget)?.shares;
        if missing(&next) <= 0.0 {
            break;
        }
        now = next;
        time += step;
        step *= 2.0;
    }
    // Halve, each time from the last distribution before the level, until the density hardly changes any more: at the very start
    // that is soon.
    let mut grows = density(&chain, &now, goal);
    for _ in 0..HALVINGS {
        step /= 2.0;
        if step < time * 1e-10 || step == 0.0 {
            break;
        }
        let next = transient::forward(&chain, &now, step, tail, budget)?.shares;
        if missing(&next) > 0.0 {
            now = next;
            time += step;
            grows = density(&chain, &now, goal);
        }
    }
    // The rest by the density at this point.
    let rest = if grows > 0.0 { (missing(&now) / grows).clamp(0.0, 2.0 * step) } else { step };
    let value = time + rest;
    let rounding = ROUNDED * if later { 1.0 - level } else { level };
    if grows > 0.0 && rounding > RIGHT * grows * value {
        let why = format!(
            "the probability {level} is so near to one that is reached before, or is reached so slowly, that its time is not known to seven digits"
        );
        return Err(Refusal::new(Class::Unsupported, "p", why));
    }
    Ok(Mean { value, method: None })
}

/// Probabilities for which rare ways count, and those that are none.
const SMALL: f64 = 1e-9;
const LEAST: f64 = 1e-270;
/// How often a step is halved, and what rounding may do to a probability, relatively.
const HALVINGS: u32 = 1_100;
const ROUNDED: f64 = 1e-15;
/// How often a time is tried, and what it may be off, relatively, with and without what the probability may be off.
const TRIES: usize = 200;
const CLOSE: f64 = 1e-11;
const RIGHT: f64 = 1e-7;

/// [`quantile`] where uniformization takes long, from about when `reached` says; `None` where it is no quicker otherwise.
fn stiff_quantile(
    chain: &Chain,
    initial: &[(u32, f64)],
    goal: &[bool],
    level: f64,
    reached: &Reached,
    budget: &mut Budget<'_>,
) -> Result<Option<Mean>, Refusal> {
    // Whichever is the smaller one: the probability to be there, or not yet.
    let later = level > 0.5 && reached.certain;
    let rewards: Vec<f64> = goal.iter().map(|goal| if *goal != later { 1.0 } else { 0.0 }).collect();
    let wanted = if later { 1.0 - level } else { level };
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut time = reached.mean;
    let (mut last, mut length): (Option<At>, Option<f64>) = (None, None);
    for _ in 0..TRIES {
        let mut at = match last.take().and_then(|last| last.again(time)) {
            Some(at) => at,
            None => transient::at_beside(chain, initial, time, length, budget)?,
        };
        length = length.or(at.length());
        let mean = at.mean(chain, &rewards, budget)?;
        let density = density(chain, at.likely(), goal);
        // How far the probability is from the one that is wanted, and when it would be there at this pace.
        let missing = if later { mean.value - wanted } else { wanted - mean.value };
        if missing > 0.0 {
            low = time
        } else {
            high = time
        };
        let mut next = time + missing / density;
        let within = next > low && next < high && next < 8.0 * time && next > time / 8.0;
        if !within {
            next = if high.is_infinite() {
                8.0 * time
            } else if low == 0.0 {
                time / 8.0
            } else {
                (low * high).sqrt()
            };
        }
        if !next.is_normal() {
            return Ok(None);
        }
        if (next - time).abs() <= CLOSE * time || high - low <= CLOSE * low {
            let Some((method, off)) = mean.method else { return Ok(Some(Mean { value: next, method: None })) };
            // The entries that it was summed up from may be too small to be right.
            let exact = at.mean(chain, &entering(chain, goal), budget)?.value;
            if (density - exact).abs() > 0.1 * exact {
                return Ok(None);
            }
            let off = off * mean.value / (exact * next);
            return Ok((off <= RIGHT).then_some(Mean { value: next, method: Some((method, off)) }));
        }
        time = next;
        last = Some(at);
    }
    Ok(None)
}

/// The rate at which the states that `goal` names are entered from each of the others.
pub(super) fn entering(chain: &Chain, goal: &[bool]) -> Vec<f64> {
    let rate = |state: usize| sum(chain.row(state).filter(|(to, _)| goal[*to]).map(|(_, rate)| rate));
    (0..chain.len()).map(|state| if goal[state] { 0.0 } else { rate(state) }).collect()
}

/// The rate at which the states that `goal` names are entered while the others are as likely as `now` says.
fn density(chain: &Chain, now: &[f64], goal: &[bool]) -> f64 {
    let outside = now.iter().enumerate().filter(|(state, p)| !goal[*state] && **p > 0.0);
    sum(outside.flat_map(|(state, p)| chain.row(state).filter(|(to, _)| goal[*to]).map(move |(_, rate)| p * rate)))
}
