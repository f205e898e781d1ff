//! What a chain does in the long run, from where it starts.

use super::band::Band;
use super::solve::{Component, sum};
use super::{Chain, Incoming, multilevel, quick};
use crate::Budget;
use crate::components::{self, Components};
use crate::{Class, Refusal};

/// What flows and the sum of probabilities may be off, relatively.
const BALANCE: f64 = 1e-9;
/// Bytes a state of components, flows, and what is found.
const VECTORS: u64 = 40;
/// Orders of magnitude between rates that are a reason for a solution to be off.
const APART: f64 = 30.0;

/// The long run of a chain.
#[derive(Debug)]
pub struct LongRun {
    /// Share of time spent in each state, in the end. Adds up to 1.
    pub distribution: Vec<f64>,
    /// Closed classes of states, single ones included, that can be reached.
    pub bottoms: usize,
    /// Mean time spent in each state before such a class is entered.
    pub spent: Vec<f64>,
    /// Mean time until such a class is entered.
    pub time_to_bottom: f64,
    /// The largest `|sum of flows in - flow out|` of a state over the largest flow out, in the closed classes.
    pub residual: f64,
    /// Shares below this are right to this times what others are right to relatively, and no better; 0 where all are right relatively.
    pub(crate) least: f64,
}

/// Follows `initial` (state, probability) into the closed classes.
///
/// # Errors
/// When the equations cannot be solved within the budget, or do not pass their checks.
pub fn long_run(chain: &Chain, initial: &[(u32, f64)], budget: &mut Budget<'_>) -> Result<LongRun, Refusal> {
    run(chain, initial, true, budget)
}

/// The same, where rare states may be less well known: see [`LongRun::least`].
pub(crate) fn common(chain: &Chain, initial: &[(u32, f64)], budget: &mut Budget<'_>) -> Result<LongRun, Refusal> {
    run(chain, initial, false, budget)
}

/// Goes on until rare states are known as well as others.
pub(crate) fn settled(
    chain: &Chain,
    initial: &[(u32, f64)],
    found: &LongRun,
    budget: &mut Budget<'_>,
) -> Result<LongRun, Refusal> {
    let incoming = chain.incoming();
    let nodes: Vec<u32> = (0..).take(chain.len()).collect();
    let level = Component { chain, incoming: &incoming, nodes: &nodes }.level();
    match multilevel::settled(&level, found.distribution.clone(), budget)? {
        Some(distribution) => of_whole(chain, initial, (distribution, 0.0)),
        None => long_run(chain, initial, budget),
    }
}

fn run(chain: &Chain, initial: &[(u32, f64)], whole: bool, budget: &mut Budget<'_>) -> Result<LongRun, Refusal> {
    budget.bytes(chain.bytes() + chain.bytes_turned())?;
    let incoming = chain.incoming();
    // Most chains come back to where they start: that is seen sooner than which components others have.
    let onward = || each_from_before(chain, &incoming) || all_reached(chain.len(), |state| chain.targets(state));
    let one = onward() && all_reached(chain.len(), |state| incoming.column(state).map(|(from, _)| from));
    if one && !chain.is_empty() {
        return of_whole(chain, initial, stationary(chain, incoming, whole, budget)?);
    }
    let budget = &mut budget.beside(VECTORS * chain.len() as u64);
    budget.bytes(chain.bytes() + chain.bytes_turned())?;
    let components = components::of(chain);
    let mut flow = vec![0.0; chain.len()];
    for (state, probability) in initial {
        flow[*state as usize] += probability;
    }
    let mut found = LongRun {
        distribution: vec![0.0; chain.len()],
        bottoms: 0,
        spent: vec![0.0; chain.len()],
        time_to_bottom: 0.0,
        residual: 0.0,
        least: 0.0,
    };
    for component in (0..components.len()).rev() {
        let part = Component { chain, incoming: &incoming, nodes: components.nodes(component) };
        let inflow: Vec<f64> = part.nodes.iter().map(|node| flow[*node as usize]).collect();
        if is_bottom(chain, &components, component) {
            found.bottoms += 1;
            let weight = sum(inflow);
            if weight == 0.0 {
                continue;
            }
            let weights = part.stationary(budget)?;
            for (node, share) in part.nodes.iter().zip(weights) {
                found.distribution[*node as usize] = weight * share;
            }
        } else {
            if inflow.iter().all(|inflow| *inflow == 0.0) {
                continue;
            }
            let spent = part.occupancy(inflow, budget)?;
            for (node, time) in part.nodes.iter().zip(spent) {
                found.spent[*node as usize] = time;
                for (to, rate) in chain.row(*node as usize) {
                    if components.of[to] as usize != component {
                        flow[to] += time * rate;
                    }
                }
            }
        }
    }
    found.time_to_bottom = sum(found.spent.iter().copied());
    check(chain, |from, to| components.of[from] == components.of[to], &mut found)?;
    Ok(found)
}

/// Whether each state is in a closed class, and how many of these there are, single states included.
pub(crate) fn closed(chain: &Chain) -> (Vec<bool>, usize) {
    let (classes, count) = classes(chain);
    (classes.iter().map(Option::is_some).collect(), count)
}

/// The closed class of each state that is in one, and how many of these there are.
pub(crate) fn classes(chain: &Chain) -> (Vec<Option<u32>>, usize) {
    let components = components::of(chain);
    let mut count = 0;
    let number = |component| {
        is_bottom(chain, &components, component).then(|| {
            count += 1;
            count - 1
        })
    };
    let bottoms: Vec<Option<u32>> = (0..components.len()).map(number).collect();
    (components.of.iter().map(|component| bottoms[*component as usize]).collect(), count as usize)
}

/// Closed classes of states, single ones included: what is known of the long run without solving anything.
pub fn bottoms(chain: &Chain) -> usize {
    closed(chain).1
}

/// The long run where each state is reached from each, and what it is with one time unit in all.
fn of_whole(chain: &Chain, initial: &[(u32, f64)], (shares, least): (Vec<f64>, f64)) -> Result<LongRun, Refusal> {
    let weight = sum(initial.iter().map(|(_, probability)| *probability));
    let distribution = shares.into_iter().map(|share| share * weight).collect();
    let spent = vec![0.0; chain.len()];
    let mut found = LongRun { distribution, bottoms: 1, spent, time_to_bottom: 0.0, residual: 0.0, least };
    check(chain, |_, _| true, &mut found)?;
    Ok(found)
}

/// The stationary distribution, and [`LongRun::least`], which is 0 where it is to be `whole`.
fn stationary(
    chain: &Chain,
    incoming: Incoming,
    whole: bool,
    budget: &mut Budget<'_>,
) -> Result<(Vec<f64>, f64), Refusal> {
    let mut incoming = incoming;
    if Band::suits(chain.len()) {
        let nodes: Vec<u32> = (0..).take(chain.len()).collect();
        let all = Component { chain, incoming: &incoming, nodes: &nodes };
        if let Some(band) = Band::first(&all, budget)
            && let Some(weights) = band.stationary(&all, budget)?
        {
            return Ok((weights, 0.0));
        }
    }
    if quick::suits(chain, budget) {
        if let Some(weights) = quick::of_all(chain, incoming, budget)? {
            return Ok((weights, 0.0));
        }
        // Only now are they needed once more.
        incoming = chain.incoming();
    }
    let nodes: Vec<u32> = (0..).take(chain.len()).collect();
    let all = Component { chain, incoming: &incoming, nodes: &nodes };
    if chain.len() == 1 { Ok((vec![1.0], 0.0)) } else { all.slowly_stationary(whole, budget) }
}

/// Whether each state but the first is reached from one before it, and so from the first: a walk need not be made then.
fn each_from_before(chain: &Chain, incoming: &Incoming) -> bool {
    (1..chain.len()).all(|state| incoming.column(state).next().is_some_and(|(from, _)| from < state))
}

/// Whether all states are reached from the first one by the edges that `next` gives.
fn all_reached<I: Iterator<Item = usize>>(states: usize, next: impl Fn(usize) -> I) -> bool {
    let mut reached = vec![false; states];
    let mut open = Vec::new();
    if let Some(first) = reached.first_mut() {
        *first = true;
        open.push(0_usize);
    }
    let mut count = 0;
    while let Some(state) = open.pop() {
        count += 1;
        for to in next(state) {
            if !std::mem::replace(&mut reached[to], true) {
                open.push(to);
            }
        }
    }
    count == states
}

pub(super) fn is_bottom(chain: &Chain, components: &Components, component: usize) -> bool {
    let nodes = components.nodes(component);
    components.len() == 1
        || nodes.iter().all(|node| chain.targets(*node as usize).all(|to| components.of[to] as usize == component))
}

/// Flows balance in each state, and the probabilities add up. `inside` says whether both ends of an edge are in one component.
fn check(chain: &Chain, inside: impl Fn(usize, usize) -> bool, found: &mut LongRun) -> Result<(), Refusal> {
    let (mut worst, mut largest) = (0.0_f64, 0.0_f64);
    // Less than that has no digits to rely on.
    found.distribution.iter_mut().filter(|share| **share < f64::MIN_POSITIVE).for_each(|share| *share = 0.0);
    let mut into = vec![0.0; chain.len()];
    for (from, share) in found.distribution.iter().enumerate() {
        chain.row(from).filter(|(to, _)| inside(from, *to)).for_each(|(to, rate)| into[to] += share * rate);
    }
    for (state, into) in into.into_iter().enumerate() {
        let out = found.distribution[state] * chain.exit(state);
        let off = (into - out).abs();
        // What is no number is no balance either.
        worst = if off.is_nan() { f64::INFINITY } else { worst.max(off) };
        largest = largest.max(out);
    }
    found.residual = if largest > 0.0 { worst / largest } else { 0.0 };
    let total = sum(found.distribution.iter().copied());
    let sound = found.residual <= BALANCE && (total - 1.0).abs() < BALANCE && found.time_to_bottom.is_finite();
    if !sound {
        let residual = found.residual;
        let cause = apart(chain);
        let why = if !residual.is_finite() || !total.is_finite() {
            format!("rates are too far apart: in the solution is a flow that a number cannot say; {cause}")
        } else if residual > BALANCE {
            format!(
                "the solution does not pass its checks: flows into and out of a state are {residual:.1e} of the largest flow apart, and \
                 {BALANCE:e} is let pass; {cause}"
            )
        } else if found.time_to_bottom.is_finite() {
            format!("the solution does not pass its checks: probabilities add up to {total}, and not to 1; {cause}")
        } else {
            format!("the time until a closed class is entered is more than a number can say; {cause}")
        };
        return Err(Refusal::new(Class::Unsupported, "", why));
    }
    Ok(())
}

/// What usually makes a solution of `chain` fail its checks, and what to do.
pub(crate) fn apart(chain: &Chain) -> String {
    let rates = || (0..chain.len()).flat_map(|state| chain.row(state)).map(|(_, rate)| rate);
    let (least, most) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    let orders = most.log10() - least.log10();
    if orders < APART {
        return "ask `simulate` for an estimate".to_owned();
    }
    format!(
        "its rates go from {least:e} to {most:e}, {orders:.0} orders of magnitude apart, and what is made of several of them is more or less than a number can say: \
         leave out what is too rare to matter, or make what is far faster than all else immediate"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which check, by how much, what is let pass, why, and what to do.
    #[test]
    fn a_check_that_fails_says_so() {
        let why = |rates: [f64; 2], distribution: [f64; 2]| {
            let chain = Chain::from_rows(vec![0, 1, 2], vec![1, 0], rates.to_vec());
            let (distribution, spent) = (distribution.to_vec(), vec![0.0; 2]);
            let mut found = LongRun { distribution, bottoms: 1, spent, time_to_bottom: 0.0, residual: 0.0, least: 0.0 };
            check(&chain, |_, _| true, &mut found).map_err(|refusal| refusal.why)
        };
        assert_eq!(why([1.0, 3.0], [0.75, 0.25]), Ok(()));
        let flows = why([1.0, 3.0], [1.0, 0.0]).unwrap_err();
        assert!(
            flows.contains("flows into and out of a state are 1.0e0 of the largest flow apart, and 1e-9 is let pass"),
            "{flows}"
        );
        assert!(flows.ends_with("ask `simulate` for an estimate"), "{flows}");
        let apart = why([1e-20, 1e40], [1.0, 0.0]).unwrap_err();
        assert!(
            apart.contains("go from 1e-20 to 1e40, 60 orders of magnitude apart") && apart.contains("leave out"),
            "{apart}"
        );
        let sum = why([1.0, 3.0], [0.375, 0.125]).unwrap_err();
        assert!(sum.contains("probabilities add up to 0.5"), "{sum}");
    }
}
