//! Machines that fail and are repaired, each by itself: many states whose rates are far apart, and what is right in closed form.

use serde_json::{Value, json};

/// Of one that fails and is repaired at these rates: whether it is down at a time after it was up.
pub(crate) fn down((fail, repair): (f64, f64), time: f64) -> f64 {
    fail / (fail + repair) * -(-(fail + repair) * time).exp_m1()
}

/// Machines with the rates at which they fail and are repaired, and beside them the `others`.
pub(crate) fn beside(machines: &[(f64, f64)], others: &Value, asks: &[Value]) -> Value {
    let mut places = others["places"].as_array().unwrap().clone();
    let mut transitions = others["transitions"].as_array().unwrap().clone();
    for (at, (fail, repair)) in machines.iter().enumerate() {
        let (up, down) = (format!("up{at}"), format!("down{at}"));
        places.extend([json!({"name": up, "tokens": 1}), json!({"name": down})]);
        let timed = |name: &str, rate: f64, from: &str, to: &str| json!({"name": format!("{name}{at}"), "kind": "timed", "rate": rate, "in": {from: 1}, "out": {to: 1}});
        transitions.extend([timed("fail", *fail, &up, &down), timed("repair", *repair, &down, &up)]);
    }
    json!({"net": {"places": places, "transitions": transitions}, "ask": asks})
}
