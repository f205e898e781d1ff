//! More than 20,000 states at points in time until which the fastest is left many millions of times.

use gspn::ask::Value;
use serde_json::json;

use crate::asked::{close, solve};
use crate::machines;

/// How often each machine fails and is repaired: rates from 1e-6 to 1e6.
const MACHINES: [(f64, f64); 15] = [
    (1e-6, 1e6),
    (3e-6, 2e-6),
    (1e-5, 4e-4),
    (2e-4, 3e2),
    (5e-4, 1e-3),
    (2e-3, 5e5),
    (1e-2, 3e-2),
    (3e-1, 1.0),
    (2.0, 7.0),
    (3e1, 5e1),
    (1e3, 2e3),
    (4e3, 1e-3),
    (1e5, 3e5),
    (8e5, 1e6),
    (1e6, 2e-6),
];

fn down(machine: usize, time: f64) -> f64 {
    machines::down(MACHINES[machine], time)
}

fn up(machine: usize, time: f64) -> f64 {
    let (fail, repair) = MACHINES[machine];
    (repair + fail * (-(fail + repair) * time).exp()) / (fail + repair)
}

#[test]
fn machines_that_know_nothing_of_each_other() {
    let none = json!({"places": [], "transitions": []});
    for time in [1e3, 1e6] {
        let mut asks = vec![json!({"id": "states", "kind": "tangible"})];
        for at in 0..MACHINES.len() {
            asks.push(
                json!({"id": format!("down{at}"), "kind": "mean_tokens", "place": format!("down{at}"), "at": time}),
            );
        }
        let several = [[1, 4, 7], [2, 8, 11], [0, 3, 9]];
        for (id, of) in several.iter().enumerate() {
            let terms: Vec<_> = of.iter().map(|at| json!([format!("down{at}"), "==", 1])).collect();
            asks.push(json!({"id": format!("all{id}"), "kind": "prob", "where": terms, "at": time}));
        }
        asks.push(json!({"id": "up14", "kind": "prob", "where": [["up14", "==", 1]], "at": time}));
        asks.push(json!({"id": "repairs", "kind": "throughput", "transition": "repair13", "at": time}));
        let answer = solve(&machines::beside(&MACHINES, &none, &asks));
        assert_eq!(answer.values["states"], Value::Count(32_768));
        (0..MACHINES.len()).for_each(|at| close(&answer, &format!("down{at}"), down(at, time)));
        for (id, of) in several.iter().enumerate() {
            close(&answer, &format!("all{id}"), of.iter().map(|at| down(*at, time)).product());
        }
        close(&answer, "up14", up(14, time));
        close(&answer, "repairs", MACHINES[13].1 * down(13, time));
        assert!(answer.method["down4"].contains("Krylov"), "{:?}", answer.method);
    }
}

/// A ring of phases keeps in step for long: time has to be parted.
#[test]
fn a_ring_beside_machines() {
    let (phases, rate, time) = (12_usize, 12.0, 2.0);
    let places: Vec<_> = (0..phases).map(|at| json!({"name": format!("p{at}"), "tokens": u8::from(at == 0)})).collect();
    let transitions: Vec<_> = (0..phases)
        .map(|at| {
            json!({"name": format!("t{at}"), "kind": "timed", "rate": rate,
            "in": {format!("p{at}"): 1}, "out": {format!("p{}", (at + 1) % phases): 1}})
        })
        .collect();
    let ring = json!({"places": places, "transitions": transitions});
    let mut asks: Vec<_> = [0, 5, 9]
        .map(|at| json!({"id": format!("p{at}"), "kind": "prob", "where": [[format!("p{at}"), "==", 1], ["down2", "==", 1]], "at": time}))
        .into();
    asks.push(json!({"id": "states", "kind": "tangible"}));
    let answer = solve(&machines::beside(&MACHINES[..11], &ring, &asks));
    assert_eq!(answer.values["states"], Value::Count(12 << 11));
    for at in [0_usize, 5, 9] {
        let mean: f64 = rate * time;
        let (mut weight, mut sum) = ((-mean).exp(), 0.0);
        for steps in 0..1_000 {
            if steps % phases == at {
                sum += weight;
            }
            weight *= mean / (steps + 1) as f64;
        }
        close(&answer, &format!("p{at}"), sum * down(2, time));
    }
}
