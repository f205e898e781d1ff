//! Whether groups of states that hardly know of each other have the weights that they must have.
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
/// How often all flows are looked at at most.
const LOOKS: usize = 100;

/// Groups that grow together, each named by one of its states.
struct Groups {
    of: Vec<u32>,
    /// The largest flow within each.
    most: Vec<f64>,
}

impl Groups {
    fn find(&mut self, state: u32) -> u32 {
        let mut at = state;
        while self.of[at as usize] != at {
            let above = self.of[self.of[at as usize] as usize];
            self.of[at as usize] = above;
            at = above;
        }
        at
    }
}

/// Whether as much flows into each group of states that hardly knows of others as out of it, under `weights`; states of at most `least` do not
/// count. Where such groups are very many, nobody knows.
pub(super) fn balanced(
    level: &Level<'_>,
    weights: &[f64],
    least: f64,
    budget: &mut Budget<'_>,
) -> Result<bool, Refusal> {
    let far = Progress::Solving { sweeps: 0, error: APART };
    budget.look(far)?;
    let mut flows = level.flows(weights, least);
    flows.sort_unstable_by(|one, other| other.0.total_cmp(&one.0));
    #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
    let of = (0..weights.len() as u32).collect();
    let mut groups = Groups { of, most: vec![0.0; weights.len()] };
    let mut looks = 0;
    // Groups grow together along the largest flows first: those that are left then lie in front of each other's borders.
    for at in 0..flows.len() {
        let (flow, from, to) = flows[at];
        let (one, other) = (groups.find(from), groups.find(to));
        if one == other {
            continue;
        }
        if flow < FAINT * groups.most[one as usize].min(groups.most[other as usize]) {
            looks += 1;
            budget.look(far)?;
            let (mut into, mut out) = (0.0, 0.0);
            for (flow, from, to) in &flows[at..] {
                match (groups.find(*from) == one, groups.find(*to) == one) {
                    (true, false) => out += flow,
                    (false, true) => into += flow,
                    _ => {}
                }
            }
            if looks > LOOKS || (out - into).abs() > APART * out.max(into) {
                return Ok(false);
            }
        }
        groups.most[one as usize] = groups.most[one as usize].max(groups.most[other as usize]).max(flow);
        groups.of[other as usize] = one;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn holds(level: &Level<'_>, weights: &[f64]) -> bool {
        balanced(level, weights, 0.0, &mut Budget::new(Limits::default(), &mut |_| true)).unwrap()
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
        assert!(balanced(&level, &weights, 0.0, &mut Budget::new(Limits::default(), &mut stop)).is_err());
        // One hill without a well behind it is none.
        let (level, weights) = line(&[(1.0, 8.0); 40]);
        assert!(holds(&level, &weights));
    }
}
