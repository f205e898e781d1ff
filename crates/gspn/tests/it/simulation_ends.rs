//! What runs have not seen: ends that none of them came to, fixed times that still run, ways round that are longer than they are.

use gspn::simulate::{Estimates, Plan, simulate};
use gspn::{Budget, Class, Limits, json};
use serde_json::{Value, json};

fn timed(name: &str, rate: f64, from: Value, to: Value) -> Value {
    json!({"name": name, "kind": "timed", "rate": rate, "in": from, "out": to})
}

fn fixed(name: &str, delay: f64, from: Value, to: Value) -> Value {
    json!({"name": name, "kind": "deterministic", "delay": delay, "in": from, "out": to})
}

fn found(net: &Value, asks: &Value, plan: Plan) -> Estimates {
    let document = json::read(json!({"net": net, "ask": asks}).to_string().as_bytes()).unwrap();
    simulate(&document.net, &document.asks, plan, &mut Budget::new(Limits::default(), &mut |_| true)).unwrap()
}

/// A time that no number says is not the end of everything: long runs were said to be 0.
#[test]
fn a_time_beyond_all_numbers_is_refused() {
    let coxian =
        json!({"name": "t", "kind": "phase", "coxian": [[1e-310, 0.5], [1e-310]], "in": {"a": 1}, "out": {"b": 1}});
    for slow in [timed("t", 5e-324, json!({"a": 1}), json!({"b": 1})), coxian] {
        let net = json!({"places": [{"name": "a", "tokens": 1}, {"name": "b"}],
            "transitions": [slow, timed("u", 1e308, json!({"b": 1}), json!({"a": 1}))]});
        let ask = json!([{"id": "x", "kind": "throughput", "transition": "t"}]);
        let document = json::read(json!({"net": net, "ask": ask}).to_string().as_bytes()).unwrap();
        let refusal = simulate(
            &document.net,
            &document.asks,
            Plan::default(),
            &mut Budget::new(Limits::default(), &mut |_| true),
        );
        let refusal = refusal.unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::TooLarge, "t"), "{refusal}");
    }
}

/// One of two ends is drawn at the start; one of them holds a hundred times as much.
fn two_ends(weight: f64, more: &[(&str, u64)], others: Vec<Value>) -> Value {
    let mut places =
        vec![json!({"name": "s", "tokens": 1}), json!({"name": "a"}), json!({"name": "a2"}), json!({"name": "b"})];
    places.extend(more.iter().map(|(name, tokens)| json!({"name": name, "tokens": tokens})));
    let mut transitions = vec![
        json!({"name": "to a", "kind": "immediate", "weight": 100.0 - weight, "in": {"s": 1}, "out": {"a": 1}}),
        json!({"name": "to b", "kind": "immediate", "weight": weight, "in": {"s": 1}, "out": {"b": 100}}),
        timed("up", 1.0, json!({"a": 1}), json!({"a2": 1, "b": 1})),
        timed("down", 1.0, json!({"a2": 1, "b": 1}), json!({"a": 1})),
    ];
    transitions.extend(others);
    json!({"places": places, "transitions": transitions})
}

#[test]
fn an_end_that_few_runs_come_to_is_waited_for() {
    let asks = json!([{"id": "b", "kind": "mean_tokens", "place": "b"}]);
    let clocks =
        || vec![fixed("d1", 1.0, json!({"c": 1}), json!({"c": 1})), fixed("d2", 1.5, json!({"c": 1}), json!({"c": 1}))];
    let names: Vec<String> = (0..15).flat_map(|at| [format!("on{at}"), format!("off{at}")]).collect();
    let switches: Vec<Value> = (0..15)
        .flat_map(|at| {
            let (on, off) = (format!("on{at}"), format!("off{at}"));
            [
                timed(&format!("t{at}"), 1.0, json!({ &on: 1 }), json!({ &off: 1 })),
                timed(&format!("u{at}"), 1.0, json!({ &off: 1 }), json!({ &on: 1 })),
            ]
        })
        .collect();
    let wide: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), u64::from(name.starts_with("on")))).collect();
    for (row, net) in
        [("clocks", two_ends(5.0, &[("c", 1)], clocks())), ("many markings", two_ends(5.0, &wide, switches))]
    {
        for seed in [1, 4, 6] {
            let it = found(&net, &asks, Plan { firings: 8_000_000, seed, ..Plan::default() });
            let it = it.estimates.get("b").unwrap_or_else(|| panic!("{row}, {seed}: {:?}", it.unanswered));
            // 0.95 × 0.5 + 0.05 × 100.
            assert!(
                !it.reached && (it.mean - 5.475).abs() < 2.0 * it.half_width && it.half_width < 3.0,
                "{row}, {seed}: {it:?}"
            );
        }
        let few = found(&net, &asks, Plan { firings: 100_000, ..Plan::default() });
        assert_eq!(few.unanswered["b"].class, Class::TooLarge, "{row}: {:?}", few.estimates);
    }
}

/// Two ways of work take turns, each for a fixed time; the long run is half of both.
fn turns(time: f64) -> Value {
    json!({"places": [{"name": "m", "tokens": 1}, {"name": "n"}, {"name": "a", "tokens": 1}, {"name": "b"}], "transitions": [
        fixed("there", time, json!({"m": 1}), json!({"n": 1})),
        fixed("back", time, json!({"n": 1}), json!({"m": 1})),
        timed("ab", 1.0, json!({"a": 1}), json!({"b": 1})),
        {"name": "soon", "kind": "deterministic", "delay": 1, "in": {"b": 1}, "out": {"a": 1}, "inhibit": {"n": 1}},
        timed("late", 0.1, json!({"b": 1, "n": 1}), json!({"a": 1, "n": 1})),
    ]})
}

#[test]
fn a_fixed_time_that_still_runs_hides_what_follows() {
    let asks = json!([{"id": "b", "kind": "mean_tokens", "place": "b"}]);
    let few = found(&turns(1e5), &asks, Plan { firings: 200_000, ..Plan::default() });
    let refusal = &few.unanswered["b"];
    assert!(refusal.class == Class::TooLarge && refusal.why.contains("`there` had been running for"), "{refusal}");
    // The half of 1/2, and of 10/11 but for the moments after each turn.
    let exact = (0.5 + 10.0 / 11.0) / 2.0;
    let mut held = 0;
    for seed in 1..=40 {
        let it = found(&turns(3e3), &asks, Plan { seed, ..Plan::default() }).estimates["b"];
        assert!(it.reached, "{seed}: {it:?}");
        held += u32::from(it.low <= exact + 3e-4 && it.high >= exact - 3e-4);
    }
    assert!(held >= 36, "{held} of 40");
}

/// Without chance all runs are one, and what fires so often in each of its parts may fire once more in the next.
#[test]
fn what_goes_round_without_chance_is_known_to_one_firing() {
    let net = json!({"places": [{"name": "a", "tokens": 1}, {"name": "b"}, {"name": "c", "tokens": 1}], "transitions": [
        fixed("t", 2.0, json!({"a": 1}), json!({"b": 1})),
        {"name": "u", "kind": "immediate", "in": {"b": 1}, "out": {"a": 1}},
        fixed("v", 0.75, json!({"c": 1}), json!({"c": 1})),
    ]});
    let asks = json!([{"id": "t", "kind": "throughput", "transition": "t"}, {"id": "u", "kind": "throughput", "transition": "u"}]);
    for firings in [300_000, 2_000_000] {
        let it = found(&net, &asks, Plan { firings, ..Plan::default() });
        for id in ["t", "u"] {
            let it = it.estimates.get(id).unwrap_or_else(|| panic!("{id}: {:?}", it.unanswered));
            assert!(it.low <= 0.5 && it.high >= 0.5 && it.half_width > 1e-9 && it.reached, "{firings} {id}: {it:?}");
        }
    }
    // A token that goes round is neither lost nor gathered.
    let round = json!({"places": [{"name": "a", "tokens": 1}, {"name": "b"}, {"name": "c"}], "transitions": [
        fixed("x", 1.0, json!({"a": 1}), json!({"b": 1})),
        fixed("y", 1.5, json!({"b": 1}), json!({"c": 1})),
        fixed("z", 0.75, json!({"c": 1}), json!({"a": 1})),
    ]});
    let asks = json!([{"id": "a", "kind": "mean_tokens", "place": "a"}]);
    for firings in [100_000, 3_000_000] {
        let it = found(&round, &asks, Plan { firings, relative: 1e-4, ..Plan::default() });
        let it = it.estimates.get("a").unwrap_or_else(|| panic!("{firings}: {:?}", it.unanswered));
        assert!((it.mean - 4.0 / 13.0).abs() <= it.half_width + 1e-3, "{firings}: {it:?}");
    }
}

#[test]
fn a_passage_that_a_fixed_time_may_end_has_no_mean() {
    let net = json!({"places": [{"name": "a", "tokens": 1}, {"name": "b"}, {"name": "c"}], "transitions": [
        timed("go", 1.0, json!({"a": 1}), json!({"b": 1})),
        fixed("die", 16.0, json!({"a": 1}), json!({"c": 1})),
    ]});
    let asks = json!([{"id": "p", "kind": "passage_mean", "where": [["b", "==", 1]]}]);
    let it = found(&net, &asks, Plan::default());
    let refusal = it.unanswered.get("p").unwrap_or_else(|| panic!("{:?}", it.estimates));
    assert!(refusal.class == Class::Unsupported && refusal.why.contains("ever reached with probability"), "{refusal}");
}
