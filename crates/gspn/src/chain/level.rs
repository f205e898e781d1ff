//! One level of a hierarchy of chains: a chain by its incoming edges, sweeps over it, and the chain of groups of its states.

use std::borrow::Cow;

use super::elimination::{Eliminated, Part};
use crate::components::{self, Graph};

/// A pair is made of states of which one gets at least this part of the flow of its strongest neighbour.
const STRONG: f64 = 0.25;
/// Pairs are put together when one gets at least this part of its flow from the other.
const TOGETHER: f64 = 0.05;
/// States that go with a pair, the pair among them.
const CROWD: u32 = 8;
/// By what a group is at most taken farther than its new weight.
const FARTHER: f64 = 100.0;
const NONE: u32 = u32::MAX;
/// What may be rounding of the rate at which a state is left.
const ROUNDED: f64 = 1e-12;

/// A share below which a state counts as if it were this: where it is right to as much as this times what others are right to
/// relatively, all its digits are right as long as a number has them all (2e-308).
pub(super) const NOTHING: f64 = 1e-304;

/// A chain without an exit: for each state the states that lead to it and the rates, and the rate at which it is left.
#[derive(Debug)]
pub(super) struct Level<'a> {
    pub(super) starts: Cow<'a, [u32]>,
    pub(super) sources: Cow<'a, [u32]>,
    pub(super) rates: Cow<'a, [f64]>,
    pub(super) exits: Cow<'a, [f64]>,
}

/// Groups of the states of a level.
#[derive(Debug, Default)]
pub(super) struct Groups {
    of: Vec<u32>,
    /// States, group after group, and where each group starts.
    members: Vec<u32>,
    starts: Vec<u32>,
}

impl Groups {
    #[expect(clippy::cast_possible_truncation, reason = "fewer groups than states, and these have numbers of 32 bits")]
    fn new(of: Vec<u32>, count: usize) -> Self {
        let mut starts = vec![0_u32; count + 1];
        of.iter().for_each(|group| starts[*group as usize + 1] += 1);
        (0..count).for_each(|group| starts[group + 1] += starts[group]);
        let mut next = starts.clone();
        let mut members = vec![0_u32; of.len()];
        for (state, group) in of.iter().enumerate() {
            let at = &mut next[*group as usize];
            members[*at as usize] = state as u32;
            *at += 1;
        }
        Self { of, members, starts }
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn members(&self, group: usize) -> &[u32] {
        &self.members[self.starts[group] as usize..self.starts[group + 1] as usize]
    }

    /// What each group is of, where it is made of states that are of the same; nothing where they are of nothing.
    pub(super) fn sides(&self, sides: &[u32]) -> Vec<u32> {
        let groups = if sides.is_empty() { 0 } else { self.len() };
        (0..groups).map(|group| sides[self.members(group)[0] as usize]).collect()
    }

    /// The sum of the weights of each group.
    pub(super) fn sums(&self, weights: &[f64]) -> Vec<f64> {
        (0..self.len()).map(|group| self.members(group).iter().map(|state| weights[*state as usize]).sum()).collect()
    }

    /// Adds to each value its part of that of its group.
    pub(super) fn spread(&self, values: &mut [f64], parts: &[f64], of_groups: &[f64]) {
        for ((value, part), group) in values.iter_mut().zip(parts).zip(&self.of) {
            *value += part * of_groups[*group as usize];
        }
    }

    /// The part that each state has in the weight of its group.
    pub(super) fn parts(&self, weights: &[f64]) -> Vec<f64> {
        let sums = self.sums(weights);
        self.of.iter().zip(weights).map(|(group, weight)| weight / sums[*group as usize]).collect()
    }

    /// Gives each group the weight `now` that it had as `before`; where `twice`, by that much again, up to [`FARTHER`].
    pub(super) fn scale(&self, weights: &mut [f64], before: &[f64], now: &[f64], twice: bool) {
        let by = before.iter().zip(now).map(|(before, now)| {
            let by = if *before > 0.0 { now / before } else { 1.0 };
            if twice && before.min(*now) > NOTHING { by * by.clamp(1.0 / FARTHER, FARTHER) } else { by }
        });
        let by: Vec<f64> = by.collect();
        weights.iter_mut().zip(&self.of).for_each(|(weight, group)| *weight *= by[*group as usize]);
    }
}

impl Level<'_> {
    pub(super) fn len(&self) -> usize {
        self.exits.len()
    }

    pub(super) fn column(&self, state: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let span = self.starts[state] as usize..self.starts[state + 1] as usize;
        self.sources[span.clone()].iter().map(|from| *from as usize).zip(self.rates[span].iter().copied())
    }

    /// Sets each state in turn to what flows into it (Gauss, Seidel).
    pub(super) fn sweep(&self, weights: &mut [f64], backward: bool) {
        let count = self.len();
        for at in 0..count {
            let state = if backward { count - 1 - at } else { at };
            let arriving: f64 = self.column(state).map(|(from, rate)| weights[from] * rate).sum();
            if self.exits[state] > 0.0 {
                weights[state] = arriving / self.exits[state];
            }
        }
    }

    /// Sets each state in turn to what flows into it, and `right` besides.
    pub(super) fn relax(&self, values: &mut [f64], right: &[f64], backward: bool) {
        let count = self.len();
        for at in 0..count {
            let state = if backward { count - 1 - at } else { at };
            let arriving: f64 = self.column(state).map(|(from, rate)| values[from] * rate).sum();
            values[state] = (right[state] + arriving) / self.exits[state];
        }
    }

    /// What flows into each state, and `right` besides, less what flows out, and `shift` times its value. Each flow counts for both its
    /// ends as the same number, and sums keep what they round off: over a group of states, what flows within it is exactly nothing,
    /// however much that is against what leaves it.
    pub(super) fn missing(&self, values: &[f64], right: &[f64], shift: f64) -> Vec<f64> {
        let mut sums: Vec<[f64; 2]> =
            values.iter().zip(right).map(|(value, right)| added([*right, 0.0], -shift * value)).collect();
        for state in 0..self.len() {
            let mut sum = sums[state];
            for (from, rate) in self.column(state) {
                let flow = values[from] * rate;
                sum = added(sum, flow);
                sums[from] = added(sums[from], -flow);
            }
            sums[state] = sum;
        }
        sums.into_iter().map(|[sum, lost]| sum + lost).collect()
    }

    /// Its states taken out, if that takes at most `work` edge operations.
    pub(super) fn eliminated(&self, leaves: f64, work: u64) -> Option<Eliminated<f64>> {
        Eliminated::new(self.part(leaves), work)
    }

    /// Sets `weights` to its stationary distribution, by state reduction. States that nothing leaves keep what they have.
    pub(super) fn eliminate(&self, weights: &mut [f64]) {
        let mut part = self.part(0.0);
        let states: Vec<usize> = (0..self.len()).filter(|state| self.exits[*state] > 0.0).collect();
        if states.len() < self.len() {
            let mut at = vec![NONE; self.len()];
            states.iter().zip(0..).for_each(|(state, place)| at[*state] = place);
            let mut rows = vec![Vec::new(); states.len()];
            let mut leaves = vec![0.0; states.len()];
            for (place, state) in states.iter().enumerate() {
                let inside = part.rows[*state].iter().filter(|(to, _)| at[*to as usize] != NONE);
                rows[place].extend(inside.map(|(to, rate)| (at[*to as usize], *rate)));
                // To states that keep what they have; or it is rounding.
                let leaving = self.exits[*state] - rows[place].iter().map(|(_, rate)| rate).sum::<f64>();
                leaves[place] = if leaving > ROUNDED * self.exits[*state] { leaving } else { 0.0 };
            }
            part = Part { rows, leaves };
        }
        let found = Eliminated::new(part, u64::MAX).map(|eliminated| eliminated.stationary());
        if let Some(found) = found.filter(|found| found.iter().all(|weight| weight.is_finite())) {
            states.iter().zip(found).for_each(|(state, weight)| weights[*state] = weight);
        }
    }

    /// Its edges by where they start, with `leaves` besides from each state.
    fn part(&self, leaves: f64) -> Part<f64> {
        let mut part = Part { rows: vec![Vec::new(); self.len()], leaves: vec![leaves; self.len()] };
        for state in 0..self.len() {
            for (from, rate) in self.column(state) {
                #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
                part.rows[from].push((state as u32, rate));
            }
        }
        part
    }

    /// Groups of up to four states that have much to do with each other, by the flows under `weights`.
    ///
    /// Pairs are put together only where what flows between them is not little against what flows within: the weights within a
    /// group are left to sweeps. Where it is said what side each state is of, a group has those of one.
    pub(super) fn group(&self, weights: &[f64], mutual: bool, sides: &[u32]) -> Groups {
        let through: Vec<f64> = weights.iter().zip(self.exits.iter()).map(|(weight, exit)| weight * exit).collect();
        let pairs = self.pair(weights, &through, (0.0, mutual), sides);
        let (sums, through, sides) = (pairs.sums(weights), pairs.sums(&through), pairs.sides(sides));
        let again = self.coarse(&pairs, weights).pair(&sums, &through, (TOGETHER, mutual), &sides);
        let of = pairs.of.iter().map(|pair| again.of[*pair as usize]).collect();
        Groups::new(of, again.len())
    }

    /// Pairs of states of which one gets at least the part `least` of what goes `through` it from the other, and not much less than
    /// from others. What finds no free partner goes with the state that it gets most from, or stays alone.
    ///
    /// Where it is `mutual`, a state takes the partner for which the flow is much to both: where weights fall fast along one way and
    /// slowly along another, long groups along the first would lead elsewhere than their states.
    #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
    fn pair(&self, weights: &[f64], through: &[f64], (least, mutual): (f64, bool), sides: &[u32]) -> Groups {
        let mut of = vec![NONE; self.len()];
        let mut sizes: Vec<u32> = Vec::new();
        let through = |state: usize| through[state].max(f64::MIN_POSITIVE);
        for state in 0..self.len() {
            if of[state] != NONE {
                continue;
            }
            let own = through(state);
            let strength = |from: usize, flow: f64| flow / own + flow / through(from);
            let beside = |from: usize| sides.is_empty() || sides[from] == sides[state];
            let flows = || {
                self.column(state).filter(|(from, _)| beside(*from)).map(|(from, rate)| (from, weights[from] * rate))
            };
            let strongest = flows().fold(0.0_f64, |most, (from, flow)| most.max(strength(from, flow)));
            let (mut best, mut partner) = (0.0, None);
            let (mut most, mut host) = (STRONG, None);
            for (from, flow) in flows() {
                let enough = |strength: f64| strength > least && strength >= STRONG * strongest;
                let strength = strength(from, flow);
                let mark = if mutual { (flow / own).min(flow / through(from)) } else { strength };
                if of[from] == NONE && from != state && mark > best && enough(strength) {
                    best = mark;
                    partner = Some(from);
                } else if of[from] != NONE && flow > most * own && sizes[of[from] as usize] < CROWD {
                    most = flow / own;
                    host = Some(of[from]);
                }
            }
            if let (None, Some(host)) = (partner, host) {
                // It lives on a state that has a partner already, and goes with it.
                of[state] = host;
                sizes[host as usize] += 1;
                continue;
            }
            of[state] = sizes.len() as u32;
            sizes.push(1);
            if let Some(partner) = partner {
                of[partner] = of[state];
                sizes[of[state] as usize] = 2;
            }
        }
        Groups::new(of, sizes.len())
    }

    /// The chain of the groups while the states within each have their part of `weights`. Groups with less than a number can say may have
    /// flows that it cannot say either: what is then no longer reached from where most is and leads back there, is left to itself.
    pub(super) fn coarse(&self, groups: &Groups, weights: &[f64]) -> Level<'static> {
        let count = groups.len();
        let sums = groups.sums(weights);
        let (mut starts, mut sources, mut rates) = (vec![0_u32], Vec::new(), Vec::new());
        let mut exits = vec![0.0; count];
        let mut at = vec![NONE; count];
        for group in 0..count {
            let first = sources.len();
            for state in groups.members(group) {
                for (from, rate) in self.column(*state as usize) {
                    let source = groups.of[from];
                    let flow = weights[from] * rate;
                    if source as usize == group || flow == 0.0 {
                        continue;
                    }
                    let entry = at[source as usize];
                    if entry != NONE && entry as usize >= first {
                        rates[entry as usize] += flow;
                    } else {
                        #[expect(clippy::cast_possible_truncation, reason = "no more edges than before")]
                        let entry = sources.len() as u32;
                        at[source as usize] = entry;
                        sources.push(source);
                        rates.push(flow);
                    }
                }
            }
            for (source, rate) in sources[first..].iter().zip(&mut rates[first..]) {
                *rate /= sums[*source as usize];
                exits[*source as usize] += *rate;
            }
            #[expect(clippy::cast_possible_truncation, reason = "no more edges than before")]
            starts.push(sources.len() as u32);
        }
        let mut level =
            Level { starts: starts.into(), sources: sources.into(), rates: rates.into(), exits: exits.into() };
        if sums.iter().any(|sum| *sum < NOTHING) {
            level.keep_together(&sums);
        }
        level
    }

    /// The states that have more than `least`, are reached from where most is by way of such states, and lead back there.
    #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
    pub(super) fn likely(&self, weights: &[f64], least: f64) -> Vec<u32> {
        let components = components::of(&Likely(&self.starts, &self.sources, weights, least));
        let most = (0..self.len()).max_by(|one, other| weights[*one].total_cmp(&weights[*other]));
        let inside = |state: usize| most.is_some_and(|most| components.of[state] == components.of[most]);
        (0..self.len()).filter(|state| inside(*state)).map(|state| state as u32).collect()
    }

    /// What flows from state to state, of states that have more than `least`.
    #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
    pub(super) fn flows(&self, weights: &[f64], least: f64) -> Vec<(f64, u32, u32)> {
        let often = |state: usize| weights[state] > least;
        let into = |to: usize| self.column(to).map(move |(from, rate)| (from, to, weights[from] * rate));
        let flows = (0..self.len()).filter(|to| often(*to)).flat_map(into).filter(|(from, ..)| often(*from));
        flows.filter(|(.., flow)| *flow > 0.0).map(|(from, to, flow)| (flow, from as u32, to as u32)).collect()
    }

    /// These states without what leads to others.
    pub(super) fn inner(&self, states: &[u32]) -> Level<'static> {
        let mut at = vec![NONE; self.len()];
        states.iter().zip(0..).for_each(|(state, place)| at[*state as usize] = place);
        let (mut starts, mut sources, mut rates) = (vec![0_u32], Vec::new(), Vec::new());
        let mut exits = vec![0.0; states.len()];
        for state in states {
            for (from, rate) in self.column(*state as usize).filter(|(from, _)| at[*from] != NONE) {
                sources.push(at[from]);
                rates.push(rate);
                exits[at[from] as usize] += rate;
            }
            #[expect(clippy::cast_possible_truncation, reason = "no more edges than before")]
            starts.push(sources.len() as u32);
        }
        Level { starts: starts.into(), sources: sources.into(), rates: rates.into(), exits: exits.into() }
    }

    /// Leaves to themselves what does not belong to where most is: nothing leads there or from there, and they are not left.
    fn keep_together(&mut self, weights: &[f64]) {
        let components = components::of(&Likely(&self.starts, &self.sources, weights, 0.0));
        let most = (0..self.len()).max_by(|one, other| weights[*one].total_cmp(&weights[*other]));
        let inside = |state: usize| most.is_some_and(|most| components.of[state] == components.of[most]);
        let (mut starts, mut sources, mut rates) = (vec![0_u32], Vec::new(), Vec::new());
        for state in 0..self.len() {
            for (from, rate) in self.column(state).filter(|(from, _)| inside(*from) && inside(state)) {
                #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
                sources.push(from as u32);
                rates.push(rate);
            }
            #[expect(clippy::cast_possible_truncation, reason = "no more edges than before")]
            starts.push(sources.len() as u32);
        }
        let exits = (0..self.len()).map(|state| if inside(state) { self.exits[state] } else { 0.0 }).collect();
        *self = Level { starts: starts.into(), sources: sources.into(), rates: rates.into(), exits };
    }
}

/// Edges, turned round, from the states with weights above a least one.
struct Likely<'a>(&'a [u32], &'a [u32], &'a [f64], f64);

impl Graph for Likely<'_> {
    fn nodes(&self) -> usize {
        self.2.len()
    }

    fn successor(&self, node: usize, index: usize) -> Option<usize> {
        let Self(starts, sources, weights, least) = self;
        let at = starts[node] as usize + index;
        (weights[node] > *least && at < starts[node + 1] as usize).then(|| sources[at] as usize)
    }
}

/// Whether the states that have more than the second weight are reached from each other by way of such that have more than the first, which
/// is not more: then those that have less decide nothing. `starts` and `sources` say which states lead to each.
pub(super) fn together(starts: &[u32], sources: &[u32], weights: &[f64], [way, least]: [f64; 2]) -> bool {
    if weights.iter().all(|weight| *weight > way) {
        return true;
    }
    let components = components::of(&Likely(starts, sources, weights, way));
    let mut likely = weights.iter().zip(&components.of).filter(|(weight, _)| **weight > least).map(|(_, of)| of);
    let first = likely.next();
    likely.all(|of| Some(of) == first)
}

/// A sum and what it rounded off, with one more number.
fn added([sum, lost]: [f64; 2], more: f64) -> [f64; 2] {
    let next = sum + more;
    let took = next - sum;
    [next, lost + ((sum - (next - took)) + (more - took))]
}
