//! What an outside scorer found wrong: clocks that keep their step, times that are there at once, runs that are too short.

use gspn::ask::{Answer, Value, answer};
use gspn::simulate::{Estimates, Plan, simulate};
use gspn::{Budget, Limits, Refusal, json};
use serde_json::{Value as Json, json};

fn timed(name: &str, rate: f64, inputs: Json, outputs: Json) -> Json {
    json!({"name": name, "kind": "timed", "rate": rate, "in": inputs, "out": outputs})
}

fn solved(net: &Json) -> Answer {
    let document = json::read(net.to_string().as_bytes()).unwrap();
    let mut go_on = |_| true;
    answer(&document.net, &document.asks, &mut Budget::new(Limits::default(), &mut go_on)).unwrap()
}

fn simulated(net: &Json, firings: u64) -> Result<Estimates, Refusal> {
    let document = json::read(net.to_string().as_bytes()).unwrap();
    let mut go_on = |_| true;
    let plan = Plan { seed: 1, relative: 0.05, firings };
    simulate(&document.net, &document.asks, plan, &mut Budget::new(Limits::default(), &mut go_on))
}

fn number(answer: &Answer, id: &str) -> f64 {
    match answer.values.get(id) {
        Some(Value::Number(value)) => *value,
        other => panic!("{id}: {other:?} {:?}", answer.unanswered.get(id)),
    }
}

/// A part is looked at once in a time unit, and repaired if it has failed: with probability 1 - exp(-0.1 (t mod 1)) it is down.
#[test]
fn a_clock_keeps_its_step_for_a_thousand_rounds() {
    let asks: Vec<Json> = [5.5, 100.5, 200.1, 200.9, 1000.9]
        .map(|at| json!({"id": format!("{at}"), "kind": "prob", "where": [["down", ">=", 1]], "at": at}))
        .into();
    let net = json!({"net": {
        "places": [{"name": "c", "tokens": 1}, {"name": "i"}, {"name": "up", "tokens": 1}, {"name": "down"}],
        "transitions": [
            {"name": "D", "kind": "deterministic", "delay": 1.0, "in": {"c": 1}, "out": {"c": 1, "i": 1}},
            {"name": "fix", "kind": "immediate", "priority": 2, "in": {"i": 1, "down": 1}, "out": {"up": 1}},
            {"name": "ok", "kind": "immediate", "in": {"i": 1}, "out": {}},
            timed("fail", 0.1, json!({"up": 1}), json!({"down": 1})),
        ]}, "ask": asks});
    let found = solved(&net);
    for at in [5.5_f64, 100.5, 200.1, 200.9, 1000.9] {
        let wanted = 1.0 - (-0.1 * at.fract()).exp();
        assert!((number(&found, &format!("{at}")) / wanted - 1.0).abs() < 1e-9, "{at}: {found:?}");
    }
}

/// Where no clock runs any more, late times are answered.
#[test]
fn a_clock_that_has_ended_is_no_reason_to_be_silent() {
    let net = json!({"net": {
        "places": [{"name": "a", "tokens": 1}, {"name": "b"}, {"name": "c"}],
        "transitions": [
            {"name": "D", "kind": "deterministic", "delay": 1.0, "in": {"a": 1}, "out": {"b": 1}},
            timed("e", 0.01, json!({"b": 1}), json!({"c": 1})),
        ]}, "ask": [{"id": "x", "kind": "prob", "where": [["c", "==", 1]], "at": 100.0}]});
    let found = solved(&net);
    let wanted = 1.0 - (-0.99_f64).exp();
    assert!((number(&found, "x") / wanted - 1.0).abs() < 1e-3, "{found:?}");
}

#[test]
fn what_holds_at_once_with_just_the_probability_takes_no_time() {
    let immediate = |name: &str, to: &str| json!({"name": name, "kind": "immediate", "in": {"x": 1}, "out": {to: 1}});
    let net = json!({"net": {
        "places": [{"name": "x", "tokens": 1}, {"name": "a"}, {"name": "c"}],
        "transitions": [immediate("i", "a"), immediate("j", "c")]},
        "ask": [{"id": "q", "kind": "passage_quantile", "where": [["a", "==", 1]], "p": 0.5},
                {"id": "later", "kind": "passage_quantile", "where": [["a", "==", 1]], "p": 0.51}]});
    let found = solved(&net);
    assert!(number(&found, "q") == 0.0 && found.unanswered.contains_key("later"), "{found:?}");
}

#[test]
fn a_start_without_end_is_refused_though_nothing_changes() {
    let net = json!({"net": {
        "places": [{"name": "x", "tokens": 1}],
        "transitions": [{"name": "t", "kind": "immediate", "in": {"x": 1}, "out": {"x": 1}}]},
        "ask": [{"id": "m", "kind": "mean_tokens", "place": "x"}]});
    assert_eq!(simulated(&net, 1_000_000).unwrap_err().name, "t");
}

/// One run in ten thousand ends elsewhere.
#[test]
fn an_end_that_no_run_came_to_is_in_the_interval() {
    let net = json!({"net": {
        "places": [{"name": "x", "tokens": 1}, {"name": "y"}, {"name": "z"}],
        "transitions": [
            timed("e", 1.0, json!({"x": 1}), json!({"y": 1})),
            timed("f", 1e-4, json!({"x": 1}), json!({"z": 1})),
        ]}, "ask": [{"id": "y", "kind": "mean_tokens", "place": "y"},
                    {"id": "z", "kind": "prob", "where": [["z", "==", 1]]}]});
    let found = simulated(&net, 10_000_000).unwrap();
    let (y, z) = (found.estimates["y"], found.estimates["z"]);
    let (share, rest) = (1e-4 / 1.0001, 1.0 / 1.0001);
    assert!(y.low < rest && rest < y.high && z.low <= share && share < z.high, "{y:?} {z:?}");
    assert!(!z.reached && y.half_width > 0.0);
}

/// A queue at 99 % of its rate comes round only after tens of thousands of customers, and runs from the start are too short for it.
#[test]
fn a_queue_that_comes_round_slowly_is_not_told_from_its_start() {
    let queue = |rate: f64| {
        json!({"net": {
            "places": [{"name": "x"}, {"name": "r", "tokens": 1000}],
            "transitions": [timed("e", rate, json!({"r": 1}), json!({"x": 1})), timed("f", 1.0, json!({"x": 1}), json!({"r": 1}))]},
            "ask": [{"id": "x", "kind": "mean_tokens", "place": "x"}, {"id": "X", "kind": "throughput", "transition": "f"}]})
    };
    for (rate, tokens) in [(0.98, 49.0), (0.99, 98.956_8)] {
        let found = simulated(&queue(rate), 60_000_000).unwrap();
        for (id, wanted) in [("x", tokens), ("X", rate)] {
            let it = found.estimates[id];
            // One in twenty may miss, and hardly.
            assert!(!it.reached || (it.mean - wanted).abs() < 1.5 * it.half_width, "{rate} {id}: {it:?}, not {wanted}");
        }
    }
}
