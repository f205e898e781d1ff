//! What turns round for long beside what is fast, and times that are asked for: where two answers agree and both are wrong.

use gspn::ask::{Answer, Value};
use gspn::simulate::{Plan, simulate};
use gspn::{Budget, Class, Limits, json as nets};
use serde_json::{Value as Json, json};

use crate::asked::{close, solve};

fn timed(name: &str, rate: f64, from: &str, to: &str) -> Json {
    json!({"name": name, "kind": "timed", "rate": rate, "in": {from: 1}, "out": {to: 1}})
}

/// A net beside so many tokens that go there and back in no time.
fn flickering(net: &Json, tokens: u32, asks: &[Json]) -> Answer {
    let mut net = net.clone();
    net["places"].as_array_mut().unwrap().extend([json!({"name": "u", "tokens": tokens}), json!({"name": "v"})]);
    net["transitions"].as_array_mut().unwrap().extend([timed("uv", 1e7, "u", "v"), timed("vu", 1e7, "v", "u")]);
    solve(&json!({"net": net, "ask": asks}))
}

/// Where it is answered, it is right.
fn right_if_said(answer: &Answer, id: &str, wanted: f64) -> bool {
    let Some(Value::Number(value)) = answer.values.get(id) else {
        assert!(answer.unanswered.contains_key(id), "{id}: {answer:?}");
        return false;
    };
    assert!((value / wanted - 1.0).abs() <= 1e-7, "{id}: {value}, and {wanted} is right: {:?}", answer.method.get(id));
    true
}

/// Firings a second of a clock of so many phases, each of which lasts one over `rate`: Poisson's steps that end a round.
fn rounds(phases: u32, rate: f64, time: f64) -> f64 {
    let mean = rate * time;
    let last = (mean + 40.0 * mean.sqrt()) as u32 + 100;
    // From the mode outwards, so that nothing underflows.
    let mut weights = vec![0.0_f64; last as usize + 1];
    let mode = mean as usize;
    weights[mode] = 1.0;
    for step in mode + 1..weights.len() {
        weights[step] = weights[step - 1] * mean / step as f64;
    }
    for step in (0..mode).rev() {
        weights[step] = weights[step + 1] * (step + 1) as f64 / mean;
    }
    let all: f64 = weights.iter().sum();
    let ending = (0..=last).filter(|step| step % phases == phases - 1).map(|step| weights[step as usize]);
    rate * ending.sum::<f64>() / all
}

/// By a matrix (few states), by the transform (some hundreds) and by its spaces (many): a clock does not lose its step to what is fast.
#[test]
fn a_clock_keeps_its_step_beside_what_is_fast() {
    for (tokens, times) in [(1_u32, [3.0, 5.0, 8.0]), (15, [3.0, 5.0, 8.0])] {
        let net = json!({"places": [{"name": "p", "tokens": 1}], "transitions": [
            {"name": "e", "kind": "phase", "erlang": {"k": 20, "rate": 20.0}, "in": {"p": 1}, "out": {"p": 1}}]});
        let asks = times.map(|at| json!({"id": at.to_string(), "kind": "throughput", "transition": "e", "at": at}));
        let answer = flickering(&net, tokens, &asks);
        for at in times {
            assert!(right_if_said(&answer, &at.to_string(), rounds(20, 20.0, at)), "{tokens} {at}");
        }
    }
    let net = json!({"places": [{"name": "p", "tokens": 1}], "transitions": [
        {"name": "e", "kind": "phase", "erlang": {"k": 1000, "rate": 1000.0}, "in": {"p": 1}, "out": {"p": 1}}]});
    let asks =
        [200.0, 200.5].map(|at| json!({"id": at.to_string(), "kind": "throughput", "transition": "e", "at": at}));
    let answer = solve(&json!({"net": net, "ask": asks}));
    for at in [200.0, 200.5] {
        assert!(right_if_said(&answer, &at.to_string(), rounds(1_000, 1_000.0, at)), "{at}");
    }
}

#[test]
fn a_clock_keeps_its_step_beside_very_many_states() {
    let net = json!({"places": [{"name": "p", "tokens": 1}], "transitions": [
        {"name": "e", "kind": "phase", "erlang": {"k": 200, "rate": 200.0}, "in": {"p": 1}, "out": {"p": 1}}]});
    let answer = flickering(&net, 110, &[json!({"id": "x", "kind": "throughput", "transition": "e", "at": 20.5})]);
    right_if_said(&answer, "x", rounds(200, 200.0, 20.5));
}

/// Inspections at whole time units: what is down is so since the last of them.
#[test]
fn a_fixed_time_keeps_its_step_beside_what_is_fast() {
    let net = json!({
        "places": [{"name": "c", "tokens": 1}, {"name": "i"}, {"name": "up", "tokens": 1}, {"name": "down"}],
        "transitions": [
            {"name": "D", "kind": "deterministic", "delay": 1.0, "in": {"c": 1}, "out": {"c": 1, "i": 1}},
            {"name": "fix", "kind": "immediate", "priority": 2, "in": {"i": 1, "down": 1}, "out": {"up": 1}},
            {"name": "ok", "kind": "immediate", "in": {"i": 1}, "out": {}},
            timed("fail", 0.1, "up", "down")]});
    let asks = [10.2_f64, 20.8]
        .map(|at| json!({"id": at.to_string(), "kind": "prob", "where": [["down", ">=", 1]], "at": at}));
    let answer = flickering(&net, 1, &asks);
    for at in [10.2_f64, 20.8] {
        if let Some(Value::Number(value)) = answer.values.get(&at.to_string()) {
            let wanted = 1.0 - (-0.1 * at.fract()).exp();
            let error = answer.error[&at.to_string()];
            assert!((value / wanted - 1.0).abs() <= error, "{at}: {value} +- {error}, and {wanted} is right");
        }
    }
}

fn ring(kill: bool) -> Json {
    let mut places: Vec<Json> =
        (0..20).map(|at| json!({"name": format!("p{at}"), "tokens": u8::from(at == 0)})).collect();
    let mut transitions: Vec<Json> =
        (0..20).map(|at| timed(&format!("c{at}"), 20.0, &format!("p{at}"), &format!("p{}", (at + 1) % 20))).collect();
    if kill {
        places.push(json!({"name": "g"}));
        transitions.push(timed("kill", 1.0, "p0", "g"));
    }
    json!({"places": places, "transitions": transitions})
}

#[test]
fn times_and_derivatives_know_of_rings() {
    let asks = [0.22, 0.24, 0.25]
        .map(|p| json!({"id": p.to_string(), "kind": "passage_quantile", "where": [["g", "==", 1]], "p": p}));
    let (slow, fast) = (solve(&json!({"net": ring(true), "ask": asks})), flickering(&ring(true), 15, &asks));
    for p in ["0.22", "0.24", "0.25"] {
        let Some(Value::Number(wanted)) = slow.values.get(p) else { panic!("{p}: {slow:?}") };
        right_if_said(&fast, p, *wanted);
    }
    let of = |at: f64| json!({"kind": "prob", "where": [["p0", "==", 1]], "at": at});
    let asks = [8.0, 10.0].map(|at| json!({"id": at.to_string(), "kind": "sensitivity", "of": of(at), "wrt": "c0"}));
    let (slow, fast) = (solve(&json!({"net": ring(false), "ask": asks})), flickering(&ring(false), 15, &asks));
    for at in ["8", "10"] {
        let Some(Value::Number(wanted)) = slow.values.get(at) else { panic!("{at}: {slow:?}") };
        right_if_said(&fast, at, *wanted);
    }
}

/// It is found at whole numbers only: where phases have lost that, the error says so.
#[test]
fn the_time_by_which_a_clock_has_found_something_is_within_its_error() {
    let net = json!({
        "places": [{"name": "c", "tokens": 1}, {"name": "i"}, {"name": "up", "tokens": 1}, {"name": "down"}, {"name": "found"}],
        "transitions": [
            {"name": "D", "kind": "deterministic", "delay": 1.0, "in": {"c": 1}, "out": {"c": 1, "i": 1}},
            {"name": "fix", "kind": "immediate", "priority": 2, "in": {"i": 1, "down": 1}, "out": {"found": 1}},
            {"name": "ok", "kind": "immediate", "in": {"i": 1}, "out": {}},
            timed("fail", 0.05, "up", "down")]});
    for rounds in [10.02_f64, 20.98, 99.02] {
        let p = 1.0 - (-0.05 * rounds).exp();
        let ask = json!({"id": "q", "kind": "passage_quantile", "where": [["found", "==", 1]], "p": p});
        let answer = solve(&json!({"net": net, "ask": [ask]}));
        if let Some(Value::Number(value)) = answer.values.get("q") {
            let (wanted, error) = (rounds.ceil(), answer.error["q"]);
            assert!((value / wanted - 1.0).abs() <= error, "{rounds}: {value} +- {error}");
        }
    }
}

#[test]
fn very_small_and_very_large_probabilities_have_their_times() {
    let quantile = |places: Json, transitions: Json, p: f64, wanted: f64| {
        let ask = json!({"id": "q", "kind": "passage_quantile", "where": [["g", "==", 1]], "p": p});
        close(&solve(&json!({"net": {"places": places, "transitions": transitions}, "ask": [ask]})), "q", wanted);
    };
    // At first the direct way is the wider one: 1e-12 t + t^2 / 2.
    let places = json!([{"name": "a", "tokens": 1}, {"name": "b"}, {"name": "g"}]);
    let ways = json!([timed("d", 1e-12, "a", "g"), timed("ab", 1.0, "a", "b"), timed("bg", 1.0, "b", "g")]);
    quantile(places, ways, 1e-22, (1e-24_f64 + 2e-22).sqrt() - 1e-12);
    // All but 1e-12 is there at once.
    let places = json!([{"name": "x", "tokens": 1}, {"name": "a"}, {"name": "g"}]);
    let immediate = |name: &str, weight: f64, to: &str| json!({"name": name, "kind": "immediate", "weight": weight, "in": {"x": 1}, "out": {to: 1}});
    let ways = json!([immediate("i", 1e12, "g"), immediate("j", 1.0, "a"), timed("ag", 1.0, "a", "g")]);
    let p = 0.999_999_999_999_9;
    quantile(places, ways, p, (1.0 / (1e12 + 1.0) / (1.0 - p)).ln());
}

/// A trap that is reached with a probability below all numbers is a trap.
#[test]
fn what_can_be_missed_has_no_mean_time() {
    let places = json!([{"name": "a", "tokens": 1}, {"name": "b"}, {"name": "g"}, {"name": "t"}]);
    let ways = json!([
        timed("ag", 1.0, "a", "g"),
        timed("ab", 1e-200, "a", "b"),
        timed("bg", 1.0, "b", "g"),
        timed("bt", 1e-200, "b", "t")
    ]);
    let ask = json!({"id": "m", "kind": "passage_mean", "where": [["g", "==", 1]]});
    let answer = solve(&json!({"net": {"places": places, "transitions": ways}, "ask": [ask]}));
    assert!(answer.unanswered.contains_key("m"), "{answer:?}");
}

/// One way in twenty takes ten thousand times as long as the others: the run in which the limit is met is one of these.
#[test]
fn a_run_that_the_limit_meets_is_not_left_out_in_silence() {
    let net = json!({"net": {
        "places": [{"name": "a", "tokens": 1}, {"name": "g"}, {"name": "t"}, {"name": "s"}],
        "transitions": [timed("ag", 0.95, "a", "g"), timed("at", 0.05, "a", "t"), timed("ts", 1e3, "t", "s"),
            timed("st", 1e3, "s", "t"), timed("sg", 1e-4, "s", "g")]},
        "ask": [{"id": "m", "kind": "passage_mean", "where": [["g", "==", 1]]}]});
    let document = nets::read(net.to_string().as_bytes()).unwrap();
    for seed in 1..6 {
        let mut go_on = |_| true;
        let plan = Plan { seed, relative: 0.05, firings: 1_000_000 };
        let found =
            simulate(&document.net, &document.asks, plan, &mut Budget::new(Limits::default(), &mut go_on)).unwrap();
        let said = found.estimates.get("m").is_none_or(|it| it.high > 1_000.0);
        assert!(said, "{seed}: {:?}", found.estimates);
        let refused = found.unanswered.get("m");
        assert!(refused.is_none_or(|it| it.class == Class::TooLarge), "{refused:?}");
    }
}

/// A ring of so many steps of one second beside tokens that go there and back in no time: in 600 to 20,000 states, what the contour cannot
/// follow is found in spaces, or left open.
#[test]
fn a_long_ring_at_late_times_beside_what_is_fast() {
    let mut answered = 0;
    for (steps, tokens) in [(30_u32, 21_u32), (8, 199), (45, 40), (12, 60)] {
        let places: Vec<Json> =
            (0..steps).map(|step| json!({"name": format!("r{step}"), "tokens": u32::from(step == 0)})).collect();
        let step =
            |step: u32| timed(&format!("t{step}"), 1.0, &format!("r{step}"), &format!("r{}", (step + 1) % steps));
        let net = json!({"places": places, "transitions": (0..steps).map(step).collect::<Vec<_>>()});
        let times = [3.0, 30.0, 300.0, 1e3, 1e5, 1e7];
        let asks = times.map(
            |at| json!({"id": at.to_string(), "kind": "throughput", "transition": format!("t{}", steps - 1), "at": at}),
        );
        for (ask, at) in asks.iter().zip(times) {
            let answer = flickering(&net, tokens, std::slice::from_ref(ask));
            let wanted = if at > 1e4 { 1.0 / f64::from(steps) } else { rounds(steps, 1.0, at) };
            if wanted > 1e-12 {
                answered += u32::from(right_if_said(&answer, &at.to_string(), wanted));
            }
        }
    }
    assert!(answered >= 16, "{answered} of 24");
}
