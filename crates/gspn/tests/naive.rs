//! Random nets against a second solver that shares no idea with the first: every marking, vanishing ones included, in one dense
//! matrix, whose powers say what happens.

#![allow(clippy::needless_range_loop, reason = "matrices read as they are written on paper")]

mod made;

use std::collections::HashMap;

use gspn::ask::{self, Ask, Question, Value};
use gspn::net::{Kind, Net, Rate, Servers, Transition};
use gspn::{Budget, Class, Limits};
use proptest::prelude::*;

/// Markings of the reference, in the order found.
struct Naive {
    markings: Vec<Vec<u64>>,
    vanishing: Vec<bool>,
    /// Per marking: (transition, rate or weight, target).
    firings: Vec<Vec<(usize, f64, usize)>>,
}

fn enabled(transition: &Transition, marking: &[u64]) -> bool {
    transition.inputs.iter().all(|arc| marking[arc.place] >= arc.count)
        && transition.inhibitors.iter().all(|arc| marking[arc.place] < arc.count)
}

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
        Kind::Immediate { weight, .. } => *weight,
        _ => unreachable!("not made here"),
    }
}

impl Naive {
    fn of(net: &Net) -> Self {
        let first: Vec<u64> = net.places().iter().map(|place| place.tokens).collect();
        let mut known = HashMap::from([(first.clone(), 0)]);
        let mut found = Self { markings: vec![first], vanishing: Vec::new(), firings: Vec::new() };
        let mut next = 0;
        while next < found.markings.len() {
            let marking = found.markings[next].clone();
            let urgent = net.transitions().iter().filter(|it| enabled(it, &marking)).map(|it| match it.kind {
                Kind::Immediate { priority, .. } => priority,
                _ => 0,
            });
            let urgent = urgent.max().unwrap_or(0);
            let mut firings = Vec::new();
            for (index, it) in net.transitions().iter().enumerate() {
                let own = if let Kind::Immediate { priority, .. } = it.kind { priority } else { 0 };
                if own != urgent || !enabled(it, &marking) || strength(it, &marking) == 0.0 {
                    continue;
                }
                let mut to = marking.clone();
                it.inputs.iter().for_each(|arc| to[arc.place] -= arc.count);
                it.outputs.iter().for_each(|arc| to[arc.place] += arc.count);
                let new = found.markings.len();
                let target = *known.entry(to.clone()).or_insert(new);
                if target == new {
                    found.markings.push(to);
                }
                firings.push((index, strength(it, &marking), target));
            }
            found.vanishing.push(urgent > 0);
            found.firings.push(firings);
            next += 1;
        }
        found
    }

    /// Whether some vanishing markings are never left.
    fn trapped(&self) -> bool {
        let mut leaves: Vec<bool> = self.vanishing.iter().map(|vanishing| !vanishing).collect();
        for _ in 0..self.markings.len() {
            for marking in 0..self.markings.len() {
                leaves[marking] |= self.firings[marking].iter().any(|(_, _, to)| leaves[*to]);
            }
        }
        leaves.contains(&false)
    }

    /// Each marking's distribution over tangible ones once the immediates have fired, and how often each transition fires on the
    /// way: the step matrix of the immediates, multiplied with itself until nothing moves.
    fn settle(&self, transitions: usize) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
        let count = self.markings.len();
        let mut step = vec![vec![0.0; count]; count];
        let mut fired = vec![vec![0.0; transitions]; count];
        for from in 0..count {
            if !self.vanishing[from] {
                step[from][from] = 1.0;
                continue;
            }
            let sum: f64 = self.firings[from].iter().map(|(_, weight, _)| weight).sum();
            for (transition, weight, to) in &self.firings[from] {
                step[from][*to] += weight / sum;
                fired[from][*transition] += weight / sum;
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
}

fn product(left: &[Vec<f64>], right: &[Vec<f64>]) -> Vec<Vec<f64>> {
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

/// The value of each question by powers of the uniformized matrix.
fn naive(net: &Net, at: f64) -> Option<(Naive, HashMap<String, f64>)> {
    let found = Naive::of(net);
    if found.trapped() {
        return None;
    }
    let count = found.markings.len();
    let transitions = net.transitions().len();
    let (settled, on_the_way) = found.settle(transitions);
    let exit = |from: usize| found.firings[from].iter().map(|(_, rate, _)| rate).sum::<f64>();
    let tangible: Vec<usize> = (0..count).filter(|marking| !found.vanishing[*marking]).collect();
    let uniform = 1.25 * tangible.iter().map(|from| exit(*from)).fold(0.5, f64::max);
    let mut step = vec![vec![0.0; count]; count];
    for from in 0..count {
        step[from][from] = 1.0;
        if !found.vanishing[from] {
            step[from][from] -= exit(from) / uniform;
            for (_, rate, to) in &found.firings[from] {
                for (target, part) in settled[*to].iter().enumerate() {
                    step[from][target] += rate / uniform * part;
                }
            }
        }
    }
    let mut ever = step.clone();
    for _ in 0..50 {
        ever = product(&ever, &ever);
        for row in &mut ever {
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|entry| *entry /= sum);
        }
    }
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
    for _ in 0..halvings {
        exp = product(&exp, &exp);
        for row in &mut exp {
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|entry| *entry /= sum);
        }
    }
    let soon = product(&[settled[0].clone()], &exp).remove(0);
    let end = product(&[settled[0].clone()], &ever).remove(0);
    let mut values = HashMap::new();
    for (when, distribution) in [("", &end), ("@", &soon)] {
        for (place, _) in net.places().iter().enumerate() {
            let mean: f64 =
                distribution.iter().zip(&found.markings).map(|(share, marking)| share * marking[place] as f64).sum();
            values.insert(format!("mean{when} p{place}"), mean);
        }
        for transition in 0..transitions {
            let mut rate = 0.0;
            for from in &tangible {
                for (index, speed, to) in &found.firings[*from] {
                    let own = if *index == transition { 1.0 } else { 0.0 };
                    rate += distribution[*from] * speed * (own + on_the_way[*to][transition]);
                }
            }
            values.insert(format!("rate{when} t{transition}"), rate);
        }
    }
    Some((found, values))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn random_nets_have_one_answer(net in made::nets(made::Parts { tables: true, ..Default::default() })) {
        const AT: f64 = 0.7;
        let mut asks = vec![
            Ask { id: "tangible".into(), question: Question::Tangible },
            Ask { id: "vanishing".into(), question: Question::Vanishing },
        ];
        for (when, at) in [("", None), ("@", Some(AT))] {
            for place in 0..net.places().len() {
                asks.push(Ask { id: format!("mean{when} p{place}"), question: Question::MeanTokens { place, at } });
            }
            for transition in 0..net.transitions().len() {
                asks.push(Ask { id: format!("rate{when} t{transition}"), question: Question::Throughput { transition, at } });
            }
        }
        let mut go_on = |_| true;
        let answer = ask::answer(&net, &asks, &mut Budget::new(Limits::default(), &mut go_on));
        let Some((found, wanted)) = naive(&net, AT) else {
            prop_assert_eq!(answer.unwrap_err().class, Class::TimelessTrap);
            return Ok(());
        };
        let answer = answer.unwrap();
        let tangible = found.vanishing.iter().filter(|vanishing| !**vanishing).count();
        prop_assert_eq!(answer.values["tangible"], Value::Count(tangible as u64));
        prop_assert_eq!(answer.values["vanishing"], Value::Count((found.markings.len() - tangible) as u64));
        for (id, wanted) in wanted {
            let Some(Value::Number(value)) = answer.values.get(&id) else {
                return Err(TestCaseError::fail(format!("{id}: {:?}", answer.unanswered.get(&id))));
            };
            prop_assert!((value - wanted).abs() <= 1e-7 * wanted.abs().max(1e-3), "{} is {}, and {} is wanted", id, value, wanted);
        }
    }
}
