//! Fixed times that end at the same instant: whichever comes first is drawn, in whatever order they stand.

use gspn::json;
use gspn::simulate::{Estimates, Plan, simulate};
use gspn::{Budget, Limits};
use serde_json::{Value, json};

fn fixed(name: &str, delay: f64, from: &Value, to: &str) -> Value {
    json!({"name": name, "kind": "deterministic", "delay": delay, "in": from, "out": {to: 1}})
}

fn estimates(places: &[(&str, u64)], transitions: &[Value], asks: &Value, relative: f64) -> Estimates {
    let places: Vec<Value> = places.iter().map(|(name, tokens)| json!({"name": name, "tokens": tokens})).collect();
    let document = json!({"net": {"places": places, "transitions": transitions}, "ask": asks});
    let document = json::read(document.to_string().as_bytes()).unwrap();
    let plan = Plan { relative, ..Plan::default() };
    let found = simulate(&document.net, &document.asks, plan, &mut Budget::new(Limits::default(), &mut |_| true));
    let found = found.unwrap();
    assert!(found.unanswered.is_empty(), "{found:?}");
    found
}

#[test]
fn each_that_ends_at_once_is_as_likely_the_first() {
    let places = [("a", 1), ("b", 0), ("c", 0), ("d", 1), ("e", 0)];
    let mut transitions = vec![
        fixed("t", 1.0, &json!({"a": 1, "d": 1}), "b"),
        fixed("u", 1.0, &json!({"d": 1}), "c"),
        fixed("v", 1.0, &json!({"d": 1}), "e"),
    ];
    let asks = json!([{"id": "b", "kind": "mean_tokens", "place": "b"}, {"id": "c", "kind": "mean_tokens", "place": "c"},
        {"id": "b at 1", "kind": "mean_tokens", "place": "b", "at": 1}, {"id": "e at 2", "kind": "prob", "where": [["e", "==", 1]], "at": 2}]);
    for _ in 0..3 {
        let found = estimates(&places, &transitions, &asks, 0.05);
        for (id, it) in &found.estimates {
            // Twice the interval: of twelve one may be beside it.
            assert!(it.reached && (it.mean - 1.0 / 3.0).abs() <= 2.0 * it.half_width, "{id}: {it:?}");
        }
        transitions.rotate_left(1);
    }
}

/// Ten times a tenth is less than one, as a sum.
#[test]
fn rounding_of_sums_decides_nothing() {
    let places: Vec<String> = (0..=9).map(|at| format!("s{at}")).collect();
    let mut all: Vec<(&str, u64)> = places.iter().map(|name| (name.as_str(), u64::from(name == "s0"))).collect();
    all.extend([("b", 0), ("c", 0), ("d", 1)]);
    let mut transitions: Vec<Value> =
        (0..9).map(|at| fixed(&format!("t{at}"), 0.1, &json!({&places[at]: 1}), &places[at + 1])).collect();
    transitions.push(fixed("last", 0.1, &json!({"s9": 1, "d": 1}), "b"));
    transitions.push(fixed("u", 1.0, &json!({"d": 1}), "c"));
    let asks = json!([{"id": "b", "kind": "mean_tokens", "place": "b", "at": 1.5}]);
    for _ in 0..2 {
        let it = estimates(&all, &transitions, &asks, 0.02).estimates["b"];
        assert!(it.reached && (it.mean - 0.5).abs() <= 2.0 * it.half_width, "{it:?}");
        transitions.reverse();
    }
}

/// What takes nothing from each other fires at the same instant, whichever is first, and nothing is left to chance.
#[test]
fn the_others_fire_at_the_same_instant() {
    let places = [("a", 1), ("b", 0), ("c", 0), ("d", 1)];
    let transitions = [fixed("t", 1.0, &json!({"a": 1}), "b"), fixed("u", 1.0, &json!({"d": 1}), "c")];
    let asks = json!([{"id": "both", "kind": "passage_mean", "where": [["b", "==", 1], ["c", "==", 1]]},
        {"id": "c", "kind": "mean_tokens", "place": "c", "at": 1}]);
    let found = estimates(&places, &transitions, &asks, 0.01);
    for it in found.estimates.values() {
        assert!(it.reached && (it.low, it.high) == (1.0, 1.0), "{it:?}");
    }
}
