//! Points in time until which the fastest state is left millions of times and more.

use gspn::ask::{Answer, Value};
use serde_json::{Value as Json, json};

use crate::asked::{close, solve};

/// The same net beside a queue that has nothing to do with it: a few states are answered by powers of a matrix, and only more of them by
/// the inverse of their transform.
fn beside_a_queue(net: &mut Json, of: u32) {
    let timed = |name: &str, from: &str, to: &str| json!({"name": name, "kind": "timed", "rate": 0.3, "in": {from: 1}, "out": {to: 1}});
    net["places"].as_array_mut().unwrap().extend([json!({"name": "here", "tokens": of}), json!({"name": "there"})]);
    net["transitions"].as_array_mut().unwrap().extend([timed("go", "here", "there"), timed("come", "there", "here")]);
}

/// Machines that fail and are repaired each by itself.
fn machines(count: u32, fail: f64, repair: f64, asks: &[Json]) -> Answer {
    let mut net = json!({
    "places": [{"name": "up", "tokens": count}, {"name": "down"}],
    "transitions": [
        {"name": "fail", "kind": "timed", "rate": fail, "servers": "inf", "in": {"up": 1}, "out": {"down": 1}},
        {"name": "repair", "kind": "timed", "rate": repair, "servers": "inf", "in": {"down": 1}, "out": {"up": 1}},
    ]});
    if count == 1 {
        beside_a_queue(&mut net, 120);
    }
    solve(&json!({"net": net, "ask": asks}))
}

#[test]
fn a_machine_at_any_time() {
    let mut inverse = 0;
    for (fail, repair) in [(1e-6, 1e6), (1e6, 1e-6), (1e6, 3e6), (2e-6, 1e-6), (1e-3, 1e6)] {
        for time in [1e-3, 1.0, 1e3, 1e6, 1e9] {
            let of = |question: serde_json::Value, by: &str| json!({"id": by, "kind": "sensitivity", "of": question, "wrt": by});
            let down = json!({"kind": "prob", "where": [["down", "==", 1]], "at": time});
            let mut asks = vec![
                json!({"id": "up", "kind": "prob", "where": [["up", "==", 1]], "at": time}),
                json!({"id": "fails", "kind": "throughput", "transition": "fail", "at": time}),
                of(down.clone(), "fail"),
                of(down, "repair"),
            ];
            asks.push(json!({"id": "down", "kind": "mean_tokens", "place": "down", "at": time}));
            let answer = machines(1, fail, repair, &asks);
            let all: f64 = fail + repair;
            let gone = -(-all * time).exp_m1();
            let down = fail / all * gone;
            close(&answer, "down", down);
            // What is left up of little is a sum: 1 less `down` would lose it.
            let up = repair / all + fail / all * (-all * time).exp();
            close(&answer, "up", up);
            close(&answer, "fails", fail * up);
            let grows = fail / all * time * (-all * time).exp();
            let slopes = [
                ("fail", repair / all.powi(2) * gone + grows, fail),
                ("repair", -fail / all.powi(2) * gone + grows, repair),
            ];
            for (id, wanted, rate) in slopes {
                let Some(Value::Number(value)) = answer.values.get(id) else {
                    panic!("{fail} {repair} {time} {id}: {:?}", answer.unanswered.get(id))
                };
                let size = wanted.abs().max(down / rate);
                assert!(
                    (value - wanted).abs() <= 1e-7 * size,
                    "{fail} {repair} {time} {id}: {value}, and {wanted} is wanted"
                );
            }
            inverse += usize::from(answer.method.contains_key("down"));
        }
    }
    assert!(inverse >= 8, "{inverse}");
}

#[test]
fn many_machines_have_binomial_distributions() {
    let (count, fail, repair, time) = (1_200_u32, 2e-3, 1e3, 1e4);
    let ask = |down: u32| json!({"id": down.to_string(), "kind": "prob", "where": [["down", "==", down]], "at": time});
    let answer = machines(count, fail, repair, &[ask(0), ask(1), ask(4), ask(12)]);
    let p: f64 = fail / (fail + repair);
    for down in [0_u32, 1, 4, 12] {
        let ways: f64 = (0..down).map(|k| f64::from(count - k) / f64::from(k + 1)).product();
        close(&answer, &down.to_string(), ways * p.powi(down as i32) * (1.0 - p).powi((count - down) as i32));
    }
    assert!(answer.method["12"].contains("Laplace"));
}

/// A ring of phases keeps in step for long; beside it something flickers fast.
#[test]
fn a_ring_beside_what_is_fast() {
    let (phases, rate) = (40_usize, 40.0);
    let mut places: Vec<_> =
        (0..phases).map(|at| json!({"name": format!("p{at}"), "tokens": u8::from(at == 0)})).collect();
    let mut transitions: Vec<_> = (0..phases)
        .map(|at| {
            json!({"name": format!("t{at}"), "kind": "timed", "rate": rate,
            "in": {format!("p{at}"): 1}, "out": {format!("p{}", (at + 1) % phases): 1}})
        })
        .collect();
    places.extend([json!({"name": "on", "tokens": 1}), json!({"name": "off"})]);
    transitions.push(json!({"name": "out", "kind": "timed", "rate": 1e7, "in": {"on": 1}, "out": {"off": 1}}));
    transitions.push(json!({"name": "back", "kind": "timed", "rate": 3e7, "in": {"off": 1}, "out": {"on": 1}}));
    let time = 3.0;
    let asks: Vec<_> = [0, 5, 20]
        .map(|at| json!({"id": format!("p{at}"), "kind": "prob", "where": [[format!("p{at}"), "==", 1], ["off", "==", 1]], "at": time}))
        .into();
    let mut net = json!({"places": places, "transitions": transitions});
    beside_a_queue(&mut net, 3);
    let answer = solve(&json!({"net": net, "ask": asks}));
    for at in [0_usize, 5, 20] {
        // Steps by then are Poisson's.
        let mean: f64 = rate * time;
        let mut weight = (-mean).exp();
        let mut sum = 0.0;
        for steps in 0..1_000 {
            if steps % phases == at {
                sum += weight;
            }
            weight *= mean / (steps + 1) as f64;
        }
        close(&answer, &format!("p{at}"), sum / 4.0);
    }
    assert!(answer.method["p5"].contains("Laplace"));
}

/// `exp(matrix time)` for a matrix with rates beside its diagonal: a series over a short time, squared.
fn exponential(rates: &[Vec<f64>], time: f64) -> Vec<Vec<f64>> {
    let count = rates.len();
    let exits: Vec<f64> = rates.iter().map(|row| row.iter().sum()).collect();
    let fastest = exits.iter().copied().fold(0.0, f64::max) * 1.1;
    let halvings = (fastest * time).log2().ceil().max(0.0) as i32 + 6;
    let short = fastest * time * 2.0_f64.powi(-halvings);
    let unit = |row: usize, column: usize| f64::from(u8::from(row == column));
    let step: Vec<Vec<f64>> = (0..count)
        .map(|row| {
            (0..count).map(|to| if row == to { 1.0 - exits[row] / fastest } else { rates[row][to] / fastest }).collect()
        })
        .collect();
    let product = |left: &[Vec<f64>], right: &[Vec<f64>]| -> Vec<Vec<f64>> {
        (0..count)
            .map(|row| (0..count).map(|to| (0..count).map(|at| left[row][at] * right[at][to]).sum()).collect())
            .collect()
    };
    let mut power: Vec<Vec<f64>> = (0..count).map(|row| (0..count).map(|to| unit(row, to)).collect()).collect();
    let mut result = vec![vec![0.0; count]; count];
    let mut weight = (-short).exp();
    for order in 0..12 {
        for (sum, entry) in result.iter_mut().flatten().zip(power.iter().flatten()) {
            *sum += weight * entry;
        }
        weight *= short / f64::from(order + 1);
        power = product(&power, &step);
    }
    for _ in 0..halvings {
        result = product(&result, &result);
        for row in &mut result {
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|entry| *entry /= sum);
        }
    }
    result
}

#[test]
fn walks_with_rates_far_apart_agree_with_a_matrix_squared() {
    let mut seed = 7_u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut inverse = 0;
    for _ in 0..12 {
        let count = 3 + (random() * 5.0) as usize;
        let mut rates = vec![vec![0.0; count]; count];
        let mut transitions = Vec::new();
        let mut lead = |from: usize, to: usize, rate: f64| {
            rates[from][to] += rate;
            transitions.push(json!({"name": format!("t{}", transitions.len()), "kind": "timed", "rate": rate,
                "in": {format!("p{from}"): 1}, "out": {format!("p{to}"): 1}}));
        };
        for from in 0..count - 1 {
            lead(from, from + 1, 10.0_f64.powf(12.0 * random() - 6.0));
            lead(from + 1, from, 10.0_f64.powf(12.0 * random() - 6.0));
        }
        lead((random() * (count - 1) as f64) as usize, count - 1, 10.0_f64.powf(12.0 * random() - 6.0));
        let time = 10.0_f64.powf(12.0 * random() - 3.0);
        let places: Vec<_> =
            (0..count).map(|at| json!({"name": format!("p{at}"), "tokens": u8::from(at == 0)})).collect();
        let last = format!("p{}", count - 1);
        let mut asks: Vec<_> = (0..count)
            .map(|at| json!({"id": format!("p{at}"), "kind": "prob", "where": [[format!("p{at}"), "==", 1]], "at": time}))
            .collect();
        asks.extend(
            [0.01, 0.5, 0.999].map(
                |p| json!({"id": format!("q{p}"), "kind": "passage_quantile", "where": [[last, "==", 1]], "p": p}),
            ),
        );
        let mut net = json!({"places": places, "transitions": transitions});
        beside_a_queue(&mut net, 75);
        let answer = solve(&json!({"net": net, "ask": asks}));
        let wanted = exponential(&rates, time);
        (0..count).for_each(|at| close(&answer, &format!("p{at}"), wanted[0][at]));
        // The last place is not left again.
        rates[count - 1].fill(0.0);
        for p in [0.01, 0.5, 0.999] {
            let Some(Value::Number(time)) = answer.values.get(&format!("q{p}")) else {
                panic!("{:?}", answer.unanswered)
            };
            let [early, late] = [1.0 - 1e-7, 1.0 + 1e-7].map(|off| exponential(&rates, time * off)[0][count - 1]);
            // Near a bend of the distribution the probability hardly moves.
            assert!(early <= p + 1e-12 && p <= late + 1e-12, "{p}: {early} {late} at {time}: {:?}", answer.method);
        }
        inverse += usize::from(answer.method.contains_key("p0"));
    }
    assert!(inverse >= 4, "{inverse}");
}
