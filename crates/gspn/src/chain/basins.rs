//! Groups of states that hardly know of each other: what they have on the whole is seen from what flows between them alone.
//!
//! Two groups may have little to do with each other though no rate is small: where all ways from one to the other lead through states that are
//! hardly ever taken. What is wrong between them then changes each state from cycle to cycle by less than rounding, and no state's own
//! balance shows it. What flows over the border of such a group does: where it is drawn through the least flows, as much must flow in as out.

use super::level::Level;
use crate::{Budget, Progress, Refusal};

/// Groups hardly know of each other when no flow between them is more than this part of the largest flow within each.
const FAINT: f64 = 1e-8;
/// What flows over a border into a group and out of it may be apart, relatively.
const APART: f64 = 1e-7;
/// Groups that hardly know of each other, at most.
const MOST: usize = 100;

/// What the flows between groups that hardly know of each other say.
pub(super) enum Between {
    /// As much flows into each, and into those that know more of each other together, as out of it.
    Balanced,
    /// Their weights are not the right ones; the group of each state.
    Apart(Vec<u32>),
    /// They are too many to say.
    Many,
}

/// States that grow together, each set named by one of its states, and the largest flow within each.
struct Sets {
    of: Vec<u32>,
    most: Vec<f64>,
}

impl Sets {
    #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
    fn new(count: usize) -> Self {
        Self { of: (0..count as u32).collect(), most: vec![0.0; count] }
    }

    fn find(&mut self, state: u32) -> u32 {
        let mut at = state;
        while self.of[at as usize] != at {
            let above = self.of[self.of[at as usize] as usize];
            self.of[at as usize] = above;
            at = above;
        }
        at
    }

    /// Puts the sets of these two together, unless that flow is too little for them.
    fn join(&mut self, flow: f64, one: u32, other: u32) {
        let (one, other) = (self.find(one), self.find(other));
        let within = self.most[one as usize].min(self.most[other as usize]);
        if one != other && flow >= FAINT * within {
            self.most[one as usize] = self.most[one as usize].max(self.most[other as usize]).max(flow);
            self.of[other as usize] = one;
        }
    }
}

/// What flows between groups of states under `weights` says of them; states of at most `least` do not count.
pub(super) fn between(
    level: &Level<'_>,
    weights: &[f64],
    least: f64,
    budget: &mut Budget<'_>,
) -> Result<Between, Refusal> {
    let far = Progress::Solving { sweeps: 0, error: APART };
    budget.look(far)?;
    let mut flows = level.flows(weights, least);
    flows.sort_unstable_by(|one, other| other.0.total_cmp(&one.0));
    budget.look(far)?;
    // Sets grow together along the largest flows first: those that are left then lie in front of each other's borders.
    let mut sets = Sets::new(weights.len());
    flows.iter().for_each(|(flow, from, to)| sets.join(*flow, *from, *to));
    // Groups by number; one more for the states that do not count.
    let mut numbers = vec![u32::MAX; weights.len()];
    let mut count = 0;
    for (_, from, to) in &flows {
        for state in [*from, *to] {
            let number = &mut numbers[sets.find(state) as usize];
            if *number == u32::MAX {
                *number = count;
                count += 1;
            }
        }
    }
    if count < 2 {
        return Ok(Between::Balanced);
    }
    if count as usize > MOST {
        return Ok(Between::Many);
    }
    #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
    let of: Vec<u32> = (0..weights.len() as u32).map(|state| numbers[sets.find(state) as usize].min(count)).collect();
    let mut sums = vec![vec![0.0; count as usize]; count as usize];
    for (flow, from, to) in flows {
        sums[of[from as usize] as usize][of[to as usize] as usize] += flow;
    }
    Ok(if balanced(&sums) { Between::Balanced } else { Between::Apart(of) })
}

/// Whether groups balance between which so much flows: those that more flows between are put together first, and each of the two is held
/// against all others.
fn balanced(sums: &[Vec<f64>]) -> bool {
    let count = sums.len();
    let mut of: Vec<usize> = (0..count).collect();
    let mut pairs: Vec<(usize, usize)> =
        (0..count).flat_map(|one| (one + 1..count).map(move |other| (one, other))).collect();
    pairs.sort_by(|one, other| {
        let flow = |(one, other): &(usize, usize)| sums[*one][*other] + sums[*other][*one];
        flow(other).total_cmp(&flow(one))
    });
    for (one, other) in pairs {
        if of[one] == of[other] {
            continue;
        }
        for side in [of[one], of[other]] {
            let (mut into, mut out) = (0.0, 0.0);
            for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))) {
                match (of[from] == side, of[to] == side) {
                    (true, false) => out += sums[from][to],
                    (false, true) => into += sums[from][to],
                    _ => {}
                }
            }
            if (out - into).abs() > APART * out.max(into) {
                return false;
            }
        }
        let (kept, gone) = (of[one], of[other]);
        of.iter_mut().filter(|of| **of == gone).for_each(|of| *of = kept);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn holds(level: &Level<'_>, weights: &[f64]) -> bool {
        let between = between(level, weights, 0.0, &mut Budget::new(Limits::default(), &mut |_| true)).unwrap();
        matches!(between, Between::Balanced)
    }

    /// A walk on a line with these rates up and down between neighbours, and its distribution.
    fn line(rates: &[(f64, f64)]) -> (Level<'static>, Vec<f64>) {
        let count = rates.len() + 1;
        let (mut starts, mut sources, mut edges) = (vec![0_u32], Vec::new(), Vec::new());
        let (mut exits, mut weights) = (vec![0.0; count], vec![1.0]);
        for (up, down) in rates {
            weights.push(weights[weights.len() - 1] * up / down);
        }
        for state in 0..count {
            if state > 0 {
                sources.push(state as u32 - 1);
                edges.push(rates[state - 1].0);
                exits[state - 1] += rates[state - 1].0;
            }
            if let Some((_, down)) = rates.get(state) {
                sources.push(state as u32 + 1);
                edges.push(*down);
                exits[state + 1] += down;
            }
            starts.push(sources.len() as u32);
        }
        (Level { starts: starts.into(), sources: sources.into(), rates: edges.into(), exits: exits.into() }, weights)
    }

    /// Two wells with a hill between them on which states are taken once in 1e36 times: each side by itself may have any weight as far as its
    /// own states say.
    #[test]
    fn a_well_with_too_much_weight_is_seen_over_a_hill() {
        let mut rates = vec![(1.0, 8.0); 40];
        rates.extend([(8.0, 1.0); 42]);
        let (level, weights) = line(&rates);
        assert!(holds(&level, &weights));
        for factor in [1.0 + 1e-5, 3.0, 1e-3] {
            let mut more = weights.clone();
            more[41..].iter_mut().for_each(|weight| *weight *= factor);
            // On the hill there is as much as comes from both sides.
            for state in (0..100).flat_map(|_| 20..62) {
                let arriving: f64 = level.column(state).map(|(from, rate)| more[from] * rate).sum();
                more[state] = arriving / level.exits[state];
            }
            assert!(!holds(&level, &more), "{factor}");
        }
        let mut stop = |_| false;
        assert!(between(&level, &weights, 0.0, &mut Budget::new(Limits::default(), &mut stop)).is_err());
        // One hill without a well behind it is none.
        let (level, weights) = line(&[(1.0, 8.0); 40]);
        assert!(holds(&level, &weights));
    }
}
