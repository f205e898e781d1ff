//! Chains with rates far apart whose stationary distribution is known, because it was there first.

use super::solve::Component;
use super::{Chain, long_run, multilevel, quick};
use crate::{Budget, Limits};

/// A linear congruential generator: numbers between 0 and 1.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Between ten to `low` and ten to `high`.
    fn power(&mut self, low: f64, high: f64) -> f64 {
        10.0_f64.powf(low + (high - low) * self.next())
    }
}

/// A square of `side * side` states in blocks of ten by ten, and their weights. Flows within a block lie between 1e-6 and 1e6, those
/// between blocks are `coupling` times that; a flow goes there and back, or round a square of four states.
pub(super) fn square(side: usize, coupling: f64, seed: u64) -> (Chain, Vec<f64>) {
    let mut random = Random(seed);
    let count = side * side;
    let mut weights: Vec<f64> = (0..count).map(|_| random.power(-6.0, 0.0)).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= sum);
    let block = |state: usize| (state / side / 10, state % side / 10);
    let mut edges: Vec<(usize, usize, f64)> = Vec::new();
    for state in 0..count {
        let (right, below) = (state + 1, state + side);
        let here = state % side + 1 < side;
        for other in [here.then_some(right), (below < count).then_some(below)].into_iter().flatten() {
            let flow = random.power(-6.0, 6.0) * if block(state) == block(other) { 1.0 } else { coupling };
            edges.push((state, other, flow));
            edges.push((other, state, flow));
        }
        if here && below < count {
            let round = [state, right, below + 1, below];
            let apart = round.iter().any(|other| block(*other) != block(state));
            let flow = random.power(-6.0, 0.0) * if apart { coupling } else { 1.0 };
            edges.extend((0..4).map(|at| (round[at], round[(at + 1) % 4], flow)));
        }
    }
    edges.sort_by_key(|(from, to, _)| (*from, *to));
    let (mut rows, mut columns, mut rates) = (vec![0_u32; count + 1], Vec::new(), Vec::new());
    for (from, to, flow) in edges {
        rows[from + 1] += 1;
        columns.push(to as u32);
        rates.push(flow / weights[from]);
    }
    (0..count).for_each(|state| rows[state + 1] += rows[state]);
    (Chain::from_rows(rows, columns, rates), weights)
}

/// The largest relative error of a state when groups of states are solved.
fn by_groups(side: usize, coupling: f64, seed: u64) -> Option<f64> {
    let (chain, wanted) = square(side, coupling, seed);
    let incoming = chain.incoming();
    let nodes: Vec<u32> = (0..chain.len() as u32).collect();
    let component = Component { chain: &chain, incoming: &incoming, nodes: &nodes };
    let level = component.level();
    let mut go_on = |_| true;
    let found = multilevel::stationary(&level, true, &mut Budget::new(Limits::default(), &mut go_on)).unwrap()?;
    Some(apart(&found, &wanted))
}

fn apart(found: &[f64], wanted: &[f64]) -> f64 {
    found.iter().zip(wanted).map(|(found, wanted)| (found - wanted).abs() / wanted).fold(0.0, f64::max)
}

/// The largest relative error of a state.
fn error(side: usize, coupling: f64, seed: u64) -> f64 {
    let (chain, wanted) = square(side, coupling, seed);
    let mut go_on = |_| true;
    let found = long_run(&chain, &[(0, 1.0)], &mut Budget::new(Limits::default(), &mut go_on)).unwrap();
    apart(&found.distribution, &wanted)
}

#[test]
fn small_chains_have_nine_digits_in_each_state() {
    for (seed, coupling) in [(1, 1.0), (2, 1e-9), (3, 1e-12)] {
        let error = error(24, coupling, seed);
        assert!(error < 1e-9, "coupling {coupling}: {error:e}");
    }
}

#[test]
fn groups_of_states_settle_whatever_the_coupling() {
    for (seed, coupling) in [(1, 1.0), (2, 1e-3), (3, 1e-6), (4, 1e-9), (5, 1e-12)] {
        let error = by_groups(60, coupling, seed);
        assert!(error.is_some_and(|error| error < 1e-9), "coupling {coupling}: {error:?}");
    }
}

#[test]
fn large_chains_have_seven_digits_in_each_state() {
    for (seed, coupling) in [(4, 1.0), (5, 1e-3), (6, 1e-6), (7, 1e-9), (8, 1e-12)] {
        let error = error(90, coupling, seed);
        assert!(error < 1e-7, "coupling {coupling}: {error:e}");
    }
}

#[test]
#[ignore = "takes a minute"]
fn the_largest_stiff_chains_have_seven_digits_in_each_state() {
    for (seed, coupling) in [(9, 1.0), (10, 1e-9)] {
        let error = error(316, coupling, seed);
        assert!(error < 1e-7, "coupling {coupling}: {error:e}");
    }
}

/// A chain by its `steps`: `(from, to, rate)`.
fn walk(count: usize, mut steps: Vec<(usize, usize, f64)>) -> Chain {
    steps.sort_by_key(|(from, to, _)| (*from, *to));
    let mut rows = vec![0_u32; count + 1];
    steps.iter().for_each(|(from, _, _)| rows[from + 1] += 1);
    (0..count).for_each(|state| rows[state + 1] += rows[state]);
    let columns = steps.iter().map(|(_, to, _)| *to as u32).collect();
    Chain::from_rows(rows, columns, steps.iter().map(|(_, _, rate)| *rate).collect::<Vec<_>>())
}

#[test]
fn quick_sweeps_settle_where_rates_are_close() {
    let side = 8;
    let mut steps = Vec::new();
    for state in 0..side * side {
        if state % side + 1 < side {
            steps.extend([(state, state + 1, 1.0), (state + 1, state, 3.0)]);
        }
        if state / side + 1 < side {
            steps.extend([(state, state + side, 1.0), (state + side, state, 2.5)]);
        }
    }
    let chain = walk(side * side, steps);
    let mut go_on = |_| true;
    let mut budget = Budget::new(Limits::default(), &mut go_on);
    let mut wanted: Vec<f64> = (0..side * side)
        .map(|state| 3.0_f64.powi(-((state % side) as i32)) * 2.5_f64.powi(-((state / side) as i32)))
        .collect();
    super::solve::normalize(&mut wanted);
    let incoming = chain.incoming();
    let nodes: Vec<u32> = (0..chain.len() as u32).collect();
    let component = Component { chain: &chain, incoming: &incoming, nodes: &nodes };
    let found = quick::stationary(&component, &mut budget).unwrap().expect("a solution");
    assert!(apart(&found, &wanted) < 1e-10, "{:e}", apart(&found, &wanted));

    // The same square, left for good from its first state at rate 3: who comes in there spends what detailed balance says.
    let mut steps: Vec<(usize, usize, f64)> =
        (0..side * side).flat_map(|from| chain.row(from).map(move |(to, rate)| (from, to, rate))).collect();
    steps.push((0, side * side, 3.0));
    let chain = walk(side * side + 1, steps);
    let incoming = chain.incoming();
    let component = Component { chain: &chain, incoming: &incoming, nodes: &nodes };
    let mut inflow = vec![0.0; side * side];
    inflow[0] = 1.0;
    let found = quick::occupancy(&component, &inflow, &mut budget).unwrap().expect("a solution");
    let first = wanted[0] * 3.0;
    wanted.iter_mut().for_each(|weight| *weight /= first);
    assert!(apart(&found, &wanted) < 1e-10, "{:e}", apart(&found, &wanted));
}

#[test]
fn wells_that_no_rare_edge_parts_are_told_apart() {
    // From the middle of the line both ways down: between its ends 2^-100 of what flows, and no rate below a third of an exit.
    for (count, left) in [(200, 2.0), (201, 2.0), (300, 1.9)] {
        let down = |state: usize| if state < count / 2 { (1.0, left) } else { (2.0, 1.0) };
        let steps = (0..count).flat_map(|state| {
            let (right, left) = down(state);
            [(state, state + 1, right), (state, state.wrapping_sub(1), left)]
        });
        let chain = walk(count, steps.filter(|(_, to, _)| *to < count).collect());
        let rate = |from: usize, to: usize| chain.row(from).find(|(at, _)| *at == to).map_or(0.0, |(_, rate)| rate);
        let mut wanted = vec![1.0; count];
        (1..count).for_each(|at| wanted[at] = wanted[at - 1] * rate(at - 1, at) / rate(at, at - 1));
        super::solve::normalize(&mut wanted);
        let mut go_on = |_| true;
        let found = long_run(&chain, &[(0, 1.0)], &mut Budget::new(Limits::default(), &mut go_on)).unwrap();
        assert!(apart(&found.distribution, &wanted) < 1e-9, "{count}: {:e}", apart(&found.distribution, &wanted));
    }
}

#[test]
fn crowds_that_hardly_meet_are_not_left_to_their_starts() {
    // Two crowds, in which each state leads to each, and seven states over a hill between them: no edge is rare, the way over is.
    let (crowd, hill) = (30, 7);
    let count = 2 * crowd + hill;
    let mut steps = Vec::new();
    for first in [0, crowd + hill] {
        let all = || first..first + crowd;
        steps.extend(all().flat_map(|from| all().filter(move |to| from != *to).map(move |to| (from, to, 1.0))));
    }
    steps.extend([(crowd - 1, crowd, 0.01), (crowd + hill, crowd + hill - 1, 0.03)]);
    for at in 0..hill {
        let (left, right) = if at < hill / 2 { (1.0, 2e-4) } else { (2e-4, 1.0) };
        let left = if at == hill / 2 { 1.0 } else { left };
        steps.extend([(crowd + at, crowd + at - 1, left), (crowd + at, crowd + at + 1, right)]);
    }
    let chain = walk(count, steps);
    let mut go_on = |_| true;
    let found = long_run(&chain, &[(0, 1.0)], &mut Budget::new(Limits::default(), &mut go_on)).unwrap();
    let ratio = found.distribution[0] / found.distribution[count - 1];
    assert!((ratio - 3.0).abs() < 1e-9, "{ratio}");
}

/// `groups` crowds of `crowd` states, in which each leads to four others and back, in a row with hills of `hill` states between
/// them; from each state of a hill it is `steep` times as likely to go down as up. Numbered in turn, or crowd after crowd.
/// The chain, and its distribution by detailed balance.
fn hills(groups: usize, crowd: usize, (hill, steep): (usize, f64), in_turn: bool, seed: u64) -> (Chain, Vec<f64>) {
    let mut random = Random(seed);
    let mut pick = |below: usize| (random.next() * below as f64) as usize;
    let stride = crowd + hill;
    let count = groups * stride - hill;
    let mut flows: Vec<(usize, usize)> = Vec::new();
    let mut weights = vec![0.0; count];
    let mut level = 1.0;
    let (mut climbs, mut rates) = (Vec::new(), Vec::new());
    for group in 0..groups {
        let first = group * stride;
        weights[first..first + crowd].fill(level);
        for state in 0..crowd {
            // A ring, so that all are reached, and steps anywhere.
            flows.push((first + state, first + (state + 1) % crowd));
            flows.push((first + state, first + (state + 1 + pick(crowd - 2)) % crowd));
        }
        if group + 1 == groups {
            continue;
        }
        // Over the hill: the weights fall to its top, and rise to another level.
        let mut weight = level;
        for at in 0..=hill {
            let (from, to) = (first + crowd - 1 + at, first + crowd + at);
            let next =
                if at < hill.div_ceil(2) { weight / steep } else { weight * steep * (1.0 + 0.5 / (at + group) as f64) };
            climbs.push((from, to));
            rates.push(weight.min(next));
            weight = next;
            if to < first + stride {
                weights[to] = weight;
            }
        }
        level = weight;
    }
    let number = |state: usize| {
        let (group, offset) = (state / stride, state % stride);
        if !in_turn || offset >= crowd { state } else { offset * groups + group }
    };
    // In turn the crowds come first, then the hills.
    let mut order: Vec<usize> = (0..count).collect();
    if in_turn {
        order.sort_by_key(|state| if state % stride < crowd { (0, number(*state)) } else { (1, *state) });
    }
    let mut place = vec![0; count];
    order.iter().enumerate().for_each(|(at, state)| place[*state] = at);
    let mut steps: Vec<(usize, usize, f64)> = Vec::new();
    for ((from, to), flow) in flows.iter().map(|pair| (*pair, weights[pair.0])).chain(climbs.into_iter().zip(rates)) {
        steps.push((place[from], place[to], flow / weights[from]));
        steps.push((place[to], place[from], flow / weights[to]));
    }
    let mut wanted = vec![0.0; count];
    (0..count).for_each(|state| wanted[place[state]] = weights[state]);
    super::solve::normalize(&mut wanted);
    steps.sort_by_key(|(from, to, _)| (*from, *to));
    steps.dedup_by(|later, kept| {
        let same = (later.0, later.1) == (kept.0, kept.1);
        if same {
            kept.2 += later.2;
        }
        same
    });
    (walk(count, steps), wanted)
}

#[test]
fn large_crowds_that_hardly_meet_are_not_left_to_their_start() {
    // The way over the hill is taken from 1e-7 to 1e-18 of the time, and no edge is rare.
    let mut answered = 0;
    for (seed, (groups, steep)) in [(2, 2e2), (2, 2e3), (2, 2e4), (3, 5e3), (2, 8e4), (4, 2e4)].into_iter().enumerate()
    {
        for in_turn in [false, true] {
            let (chain, wanted) = hills(groups, 6_000 / groups, (7, steep), in_turn, seed as u64 + 3);
            let mut go_on = |_| true;
            match long_run(&chain, &[(0, 1.0)], &mut Budget::new(Limits::default(), &mut go_on)) {
                Ok(found) => {
                    let error = apart(&found.distribution, &wanted);
                    assert!(error < 1e-7, "{groups} crowds, {steep}, {in_turn}: {error:e}");
                    answered += 1;
                }
                Err(refusal) => assert_eq!(refusal.class, crate::Class::TooLarge, "{refusal:?}"),
            }
        }
    }
    assert!(answered >= 10, "{answered}");
}
