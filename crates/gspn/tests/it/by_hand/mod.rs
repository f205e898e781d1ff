//! A second solver that shares no idea with the first: every marking, vanishing ones included, in one dense matrix, whose powers say
//! what happens. A clock of phase type is written out by hand: a node is a marking and the phase of each clock. A fixed time is a
//! phase that never ends by itself; what it does stands apart, see [`fixed`].

#![allow(clippy::needless_range_loop, reason = "matrices read as they are written on paper")]
// Each test uses a part of it.
#![allow(dead_code)]

pub(crate) mod fixed;
pub(crate) mod questions;

use std::collections::{HashMap, HashSet};

use gspn::net::{Kind, Net, Phase, Rate, Servers, Transition};

/// A marking, and of each clock the phase that it is in, from 1; 0 where it does not run.
type Node = (Vec<u64>, Vec<usize>);

/// A transition whose time is not exponential.
struct Clock {
    transition: usize,
    /// The probability of each phase at first.
    start: Vec<f64>,
    /// The rate of each phase, and the probability that the next follows.
    phases: Vec<(f64, f64)>,
    fixed: bool,
}

/// What a node does: a transition fires, or (without one) a clock goes on to its next phase.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Firing {
    pub(crate) transition: Option<usize>,
    /// Rate or weight.
    pub(crate) strength: f64,
    pub(crate) to: usize,
}

/// Nodes of the reference, in the order found.
pub(crate) struct Naive {
    pub(crate) markings: Vec<Vec<u64>>,
    pub(crate) vanishing: Vec<bool>,
    pub(crate) firings: Vec<Vec<Firing>>,
    /// What the end of the fixed time that runs in a node does: strengths are probabilities.
    pub(crate) expiry: Vec<Vec<Firing>>,
    /// The node at time 0, or several with their probabilities.
    pub(crate) initial: Vec<(usize, f64)>,
    /// Two fixed times run at once somewhere.
    pub(crate) two_fixed: bool,
}

fn enabled(transition: &Transition, marking: &[u64]) -> bool {
    transition.inputs.iter().all(|arc| marking[arc.place] >= arc.count)
        && transition.inhibitors.iter().all(|arc| marking[arc.place] < arc.count)
}

/// Rate or weight; 0 for clocks, whose phases have the rates.
fn strength(transition: &Transition, marking: &[u64]) -> f64 {
    let degree = transition.inputs.iter().map(|arc| marking[arc.place] / arc.count).min();
    match &transition.kind {
        Kind::Timed { rate: Rate::Constant(rate), servers: Servers::Infinite } => rate * degree.unwrap() as f64,
        Kind::Timed { rate: Rate::Constant(rate), servers: Servers::Finite(servers) } => {
            rate * degree.unwrap_or(u64::MAX).min(*servers) as f64
        }
        Kind::Timed { rate: Rate::ByTokens { place, rates }, servers } => {
            let rate = rates[(marking[*place] as usize).min(rates.len() - 1)];
            let servers = if let Servers::Finite(servers) = servers { *servers } else { u64::MAX };
            rate * degree.unwrap_or(u64::MAX).min(servers) as f64
        }
        Kind::Immediate { weight, by, .. } => by.map_or(*weight, |by| weight * marking[by] as f64),
        Kind::Phase(_) | Kind::Deterministic { .. } => 0.0,
    }
}

fn priority(transition: &Transition) -> u32 {
    if let Kind::Immediate { priority, .. } = transition.kind { priority } else { 0 }
}

fn urgent(net: &Net, marking: &[u64]) -> u32 {
    net.transitions().iter().filter(|it| enabled(it, marking)).map(priority).max().unwrap_or(0)
}

fn clocks(net: &Net) -> Vec<Clock> {
    let clock = |(transition, it): (usize, &Transition)| {
        let (start, phases, fixed) = match &it.kind {
            Kind::Phase(Phase::Erlang { stages, rate }) => {
                let onward = |left: u32| if left > 1 { 1.0 } else { 0.0 };
                (vec![1.0], (1..=*stages).rev().map(|left| (*rate, onward(left))).collect(), false)
            }
            Kind::Phase(Phase::Hyper(branches)) => {
                (branches.iter().map(|it| it.0).collect(), branches.iter().map(|it| (it.1, 0.0)).collect(), false)
            }
            Kind::Phase(Phase::Coxian(phases)) => (vec![1.0], phases.clone(), false),
            Kind::Deterministic { .. } => (vec![1.0], vec![(0.0, 0.0)], true),
            Kind::Timed { .. } | Kind::Immediate { .. } => return None,
        };
        Some(Clock { transition, start, phases, fixed })
    };
    net.transitions().iter().enumerate().filter_map(clock).collect()
}

/// Where the clocks stand once `marking` is reached by firing `fired` where they stood at `before`: one that is enabled before and after
/// goes on, unless it is the one that fired. While immediates fire they wait.
fn land(net: &Net, clocks: &[Clock], before: &[usize], fired: Option<usize>, marking: Vec<u64>) -> Vec<(Node, f64)> {
    let mut ways = vec![(Vec::new(), 1.0)];
    let passing = urgent(net, &marking) > 0;
    for (clock, phase) in clocks.iter().zip(before) {
        let kept = if fired == Some(clock.transition) { 0 } else { *phase };
        let runs = enabled(&net.transitions()[clock.transition], &marking);
        if passing || !runs || kept > 0 {
            let phase = if passing || runs { kept } else { 0 };
            ways.iter_mut().for_each(|(phases, _)| phases.push(phase));
            continue;
        }
        let mut split = Vec::new();
        for (phase, part) in clock.start.iter().enumerate().filter(|(_, part)| **part > 0.0) {
            for (phases, share) in &ways {
                split.push(([phases.as_slice(), &[phase + 1]].concat(), share * part));
            }
        }
        ways = split;
    }
    ways.into_iter().map(|(phases, share)| ((marking.clone(), phases), share)).collect()
}

impl Naive {
    pub(crate) fn of(net: &Net) -> Self {
        let clocks = clocks(net);
        let mut nodes: Vec<Node> = Vec::new();
        let mut known: HashMap<Node, usize> = HashMap::new();
        let mut number = |nodes: &mut Vec<Node>, node: Node| {
            *known.entry(node).or_insert_with_key(|node| {
                nodes.push(node.clone());
                nodes.len() - 1
            })
        };
        let first = net.places().iter().map(|place| place.tokens).collect();
        let first = land(net, &clocks, &vec![0; clocks.len()], None, first);
        let initial = first.into_iter().map(|(node, part)| (number(&mut nodes, node), part)).collect();
        let (mut vanishing, mut all, mut expiry, mut two_fixed) = (Vec::new(), Vec::new(), Vec::new(), false);
        let mut next = 0;
        while next < nodes.len() {
            let (marking, phases) = nodes[next].clone();
            let urgent = urgent(net, &marking);
            let (mut firings, mut ends) = (Vec::new(), Vec::new());
            let mut fire = |nodes: &mut Vec<Node>, index: usize, strength: f64| -> Vec<Firing> {
                let (it, mut to) = (&net.transitions()[index], marking.clone());
                it.inputs.iter().for_each(|arc| to[arc.place] -= arc.count);
                it.outputs.iter().for_each(|arc| to[arc.place] += arc.count);
                let ways = land(net, &clocks, &phases, Some(index), to);
                let firing = |(node, part)| Firing {
                    transition: Some(index),
                    strength: strength * part,
                    to: number(nodes, node),
                };
                ways.into_iter().map(firing).collect()
            };
            for (index, it) in net.transitions().iter().enumerate() {
                let strength = strength(it, &marking);
                if priority(it) == urgent && enabled(it, &marking) && strength > 0.0 {
                    firings.extend(fire(&mut nodes, index, strength));
                }
            }
            let mut running = 0;
            for (clock, phase) in clocks.iter().zip(&phases).filter(|(_, phase)| urgent == 0 && **phase > 0) {
                let (rate, onward) = clock.phases[phase - 1];
                if clock.fixed {
                    running += 1;
                    ends = fire(&mut nodes, clock.transition, 1.0);
                } else if onward < 1.0 {
                    firings.extend(fire(&mut nodes, clock.transition, rate * (1.0 - onward)));
                }
            }
            for (position, (clock, phase)) in clocks.iter().zip(&phases).enumerate() {
                let Some((rate, onward)) = phase.checked_sub(1).map(|phase| clock.phases[phase]) else { continue };
                if urgent == 0 && onward > 0.0 {
                    let mut later = phases.clone();
                    later[position] += 1;
                    let to = number(&mut nodes, (marking.clone(), later));
                    firings.push(Firing { transition: None, strength: rate * onward, to });
                }
            }
            two_fixed |= running > 1;
            vanishing.push(urgent > 0);
            all.push(firings);
            expiry.push(ends);
            next += 1;
        }
        let markings = nodes.into_iter().map(|(marking, _)| marking).collect();
        Self { markings, vanishing, firings: all, expiry, initial, two_fixed }
    }

    /// How many different markings are tangible, or vanishing.
    pub(crate) fn count(&self, vanishing: bool) -> u64 {
        let nodes = self.markings.iter().zip(&self.vanishing).filter(|(_, is)| **is == vanishing);
        nodes.map(|(marking, _)| marking).collect::<HashSet<_>>().len() as u64
    }

    /// Whether some vanishing markings are never left.
    pub(crate) fn trapped(&self) -> bool {
        let mut leaves: Vec<bool> = self.vanishing.iter().map(|vanishing| !vanishing).collect();
        for _ in 0..self.markings.len() {
            for node in 0..self.markings.len() {
                leaves[node] |= self.firings[node].iter().any(|firing| leaves[firing.to]);
            }
        }
        leaves.contains(&false)
    }

    /// The rate at which a node is left, or the sum of its weights.
    pub(crate) fn exit(&self, node: usize) -> f64 {
        self.firings[node].iter().map(|firing| firing.strength).sum()
    }

    /// Each node's distribution over tangible ones once the immediates have fired, and how often each transition fires on the way:
    /// the step matrix of the immediates, multiplied with itself until nothing moves.
    pub(crate) fn settle(&self, transitions: usize) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
        let count = self.markings.len();
        let mut step = vec![vec![0.0; count]; count];
        let mut fired = vec![vec![0.0; transitions]; count];
        for from in 0..count {
            if !self.vanishing[from] {
                step[from][from] = 1.0;
                continue;
            }
            let sum = self.exit(from);
            for firing in &self.firings[from] {
                step[from][firing.to] += firing.strength / sum;
                if let Some(transition) = firing.transition {
                    fired[from][transition] += firing.strength / sum;
                }
            }
        }
        for _ in 0..40 {
            // Fired in twice as many steps: in the first half, and from where it led in the second.
            let later = product(&step, &fired);
            fired.iter_mut().flatten().zip(later.into_iter().flatten()).for_each(|(sum, later)| *sum += later);
            step = product(&step, &step);
        }
        (step, fired)
    }

    /// Where it starts, once the immediates have fired.
    pub(crate) fn starts(&self, settled: &[Vec<f64>]) -> Vec<f64> {
        let mut row = vec![0.0; self.markings.len()];
        for (node, part) in &self.initial {
            row.iter_mut().zip(&settled[*node]).for_each(|(sum, settled)| *sum += part * settled);
        }
        row
    }

    /// The mean number of tokens of each place.
    pub(crate) fn means(&self, distribution: &[f64]) -> Vec<f64> {
        let places = self.markings.first().map_or(0, Vec::len);
        let mean = |place: usize| {
            distribution.iter().zip(&self.markings).map(|(share, marking)| share * marking[place] as f64).sum()
        };
        (0..places).map(mean).collect()
    }
}

pub(crate) fn product(left: &[Vec<f64>], right: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let width = right.first().map_or(0, Vec::len);
    left.iter()
        .map(|row| {
            let mut sum = vec![0.0; width];
            for (entry, other) in row.iter().zip(right).filter(|(entry, _)| **entry != 0.0) {
                sum.iter_mut().zip(other).for_each(|(sum, value)| *sum += entry * value);
            }
            sum
        })
        .collect()
}

/// A step matrix multiplied with itself `times` times; rows stay distributions.
fn doubled(mut step: Vec<Vec<f64>>, times: u32) -> Vec<Vec<f64>> {
    for _ in 0..times {
        step = product(&step, &step);
        for row in &mut step {
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|entry| *entry /= sum);
        }
    }
    step
}

/// A step matrix multiplied with itself until not one entry moves any more, in its own size: what is left once in 1e30 steps is left in
/// the end, and nothing is ever subtracted that would hide it. Nothing in it may go round in step. `None` where 1e60 steps are too few.
pub(crate) fn for_ever(mut step: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    let moves = |now: &f64, then: &f64| (now - then).abs() > 1e-11 * now.max(*then);
    for _ in 0..200 {
        let later = doubled(step.clone(), 1);
        let ends = !later.iter().flatten().zip(step.iter().flatten()).any(|(now, then)| moves(now, then));
        step = later;
        if ends {
            return Some(step);
        }
    }
    None
}

/// The value of each question by powers of the uniformized matrix: `mean p0`, `rate t0`, .. in the long run, `mean@ p0`, `rate@ t0`, ..
/// at a time. `None` where some vanishing markings are never left.
pub(crate) fn naive(net: &Net, at: f64) -> Option<(Naive, HashMap<String, f64>)> {
    let found = Naive::of(net);
    if found.trapped() {
        return None;
    }
    let count = found.markings.len();
    let transitions = net.transitions().len();
    let (settled, on_the_way) = found.settle(transitions);
    let tangible: Vec<usize> = (0..count).filter(|node| !found.vanishing[*node]).collect();
    let uniform = 1.25 * tangible.iter().map(|from| found.exit(*from)).fold(0.5, f64::max);
    let mut step = vec![vec![0.0; count]; count];
    for from in 0..count {
        step[from][from] = 1.0;
        if !found.vanishing[from] {
            step[from][from] -= found.exit(from) / uniform;
            for firing in &found.firings[from] {
                for (target, part) in settled[firing.to].iter().enumerate() {
                    step[from][target] += firing.strength / uniform * part;
                }
            }
        }
    }
    let ever = for_ever(step.clone()).expect("no rate is that small");
    // exp(Q at) by its series over a short time, squared back.
    let (halvings, scale) = (20, uniform * at / f64::from(1 << 20));
    let mut power = step.clone();
    let mut exp: Vec<Vec<f64>> =
        (0..count).map(|row| (0..count).map(|to| f64::from(u8::from(row == to)) * (-scale).exp()).collect()).collect();
    let mut weight = (-scale).exp();
    for order in 1..6 {
        weight *= scale / f64::from(order);
        exp.iter_mut().flatten().zip(power.iter().flatten()).for_each(|(sum, entry)| *sum += weight * entry);
        power = product(&power, &step);
    }
    let exp = doubled(exp, halvings);
    let start = [found.starts(&settled)];
    let (soon, end) = (product(&start, &exp).remove(0), product(&start, &ever).remove(0));
    let mut values = HashMap::new();
    for (when, distribution) in [("", &end), ("@", &soon)] {
        for (place, mean) in found.means(distribution).into_iter().enumerate() {
            values.insert(format!("mean{when} p{place}"), mean);
        }
        for transition in 0..transitions {
            let mut rate = 0.0;
            for from in &tangible {
                for firing in &found.firings[*from] {
                    let own = if firing.transition == Some(transition) { 1.0 } else { 0.0 };
                    rate += distribution[*from] * firing.strength * (own + on_the_way[firing.to][transition]);
                }
            }
            values.insert(format!("rate{when} t{transition}"), rate);
        }
    }
    Some((found, values))
}
