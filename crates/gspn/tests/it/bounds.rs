//! Bounds of means and throughputs: what is known to be tight, and that exact values never leave them.

use gspn::ask::{self, Ask, Question, Value};
use gspn::bounds::{Bounds, bounds};
use gspn::net::{Arc, Kind, Net, Place, Rate, Servers, Transition, build};
use gspn::{Budget, Class, Limits, Refusal, json};
use proptest::prelude::*;
use serde_json::json;

fn bounded(net: &Net, asks: &[Ask]) -> Result<Bounds, Refusal> {
    bounds(net, asks, &mut Budget::new(Limits::default(), &mut |_| true))
}

fn of(document: &serde_json::Value) -> Result<Bounds, Refusal> {
    let document = json::read(document.to_string().as_bytes()).unwrap();
    bounded(&document.net, &document.asks)
}

#[track_caller]
fn close(value: f64, wanted: f64) {
    assert!((value - wanted).abs() <= 1e-5 * wanted.abs() + 1e-8, "{value}, and {wanted} is wanted");
}

/// A fork into two branches that meet again: no faster than each circle allows alone.
#[test]
fn each_circle_bounds_a_fork() {
    let found = of(&json!({"net": {
    "places": [{"name": "ready", "tokens": 2}, {"name": "a"}, {"name": "b"}, {"name": "a done"}, {"name": "b done"}],
    "transitions": [
        {"name": "fork", "kind": "timed", "servers": "inf", "rate": 1.0, "in": {"ready": 1}, "out": {"a": 1, "b": 1}},
        {"name": "at a", "kind": "timed", "servers": "inf", "rate": 0.5, "in": {"a": 1}, "out": {"a done": 1}},
        {"name": "at b", "kind": "timed", "rate": 0.25, "in": {"b": 1}, "out": {"b done": 1}},
        {"name": "join", "kind": "immediate", "in": {"a done": 1, "b done": 1}, "out": {"ready": 1}},
    ]}, "ask": [
        {"id": "joins", "kind": "throughput", "transition": "join"},
        {"id": "ready", "kind": "mean_tokens", "place": "ready"},
        {"id": "markings", "kind": "tangible"},
    ]}))
    .unwrap();
    // By `a`: 2 tokens in 1 + 2; by the one server of `b`: 1 in 4.
    close(found.bounds["joins"].high, 0.25);
    close(found.bounds["ready"].high, 0.25);
    assert_eq!(found.bounds["joins"].by[1], "linear program");
    assert_eq!(found.unanswered["markings"].class, Class::Unsupported);
}

/// Four customers, a time to think, two servers: the formulas of balanced jobs.
#[test]
fn balanced_jobs_bound_a_closed_network() {
    let found = of(&json!({"net": {
    "places": [{"name": "thinking", "tokens": 4}, {"name": "a"}, {"name": "b"}],
    "transitions": [
        {"name": "ask", "kind": "timed", "servers": "inf", "rate": 0.1, "in": {"thinking": 1}, "out": {"a": 1}},
        {"name": "at a", "kind": "timed", "rate": 0.5, "in": {"a": 1}, "out": {"b": 1}},
        {"name": "at b", "kind": "timed", "rate": 1.0, "in": {"b": 1}, "out": {"thinking": 1}},
    ]}, "ask": [{"id": "asks", "kind": "throughput", "transition": "ask"}]}))
    .unwrap();
    let (think, all, worst, even) = (10.0, 3.0, 2.0, 1.5);
    let bound = &found.bounds["asks"];
    close(bound.low, 4.0 / (all + think + 3.0 * worst / (1.0 + think / (4.0 * all))));
    close(bound.high, 4.0 / (all + think + 3.0 * even / (1.0 + think / all)));
    assert_eq!(bound.by, ["balanced jobs"; 2]);
}

#[test]
fn what_gathers_tokens_has_no_bounds() {
    let refused = of(&json!({"net": {
    "places": [{"name": "queue"}],
    "transitions": [
        {"name": "come", "kind": "timed", "rate": 1.0, "out": {"queue": 1}},
        {"name": "go", "kind": "timed", "rate": 2.0, "in": {"queue": 1}},
    ]}, "ask": [{"id": "q", "kind": "mean_tokens", "place": "queue"}]}))
    .unwrap_err();
    assert_eq!((refused.class, refused.name.as_str()), (Class::Unbounded, "queue"));
    assert_eq!(refused.trace, ["come"]);
    // The inhibitor ends what the arcs do not: nothing is proven, and nothing bounds it.
    let refused = of(&json!({"net": {
    "places": [{"name": "queue"}],
    "transitions": [
        {"name": "come", "kind": "timed", "rate": 1.0, "out": {"queue": 1}, "inhibit": {"queue": 9}},
        {"name": "go", "kind": "timed", "rate": 2.0, "in": {"queue": 1}},
    ]}, "ask": [{"id": "q", "kind": "mean_tokens", "place": "queue"}]}))
    .unwrap_err();
    assert_eq!((refused.class, refused.name.as_str()), (Class::Unsupported, "queue"));
}

/// Immediates without end, at once or later: there is no long run that anything could bound.
#[test]
fn where_time_stops_nothing_is_bounded() {
    for first in [json!({"kind": "immediate"}), json!({"kind": "timed", "rate": 1})] {
        let mut net = json!({"net": {
        "places": [{"name": "a", "tokens": 1}, {"name": "b"}, {"name": "c"}],
        "transitions": [
            first,
            {"name": "x", "kind": "immediate", "in": {"b": 1}, "out": {"c": 1}},
            {"name": "y", "kind": "immediate", "in": {"c": 1}, "out": {"b": 1}},
        ]}, "ask": [{"id": "c", "kind": "mean_tokens", "place": "c"}]});
        net["net"]["transitions"][0]["name"] = json!("go");
        net["net"]["transitions"][0]["in"] = json!({"a": 1});
        net["net"]["transitions"][0]["out"] = json!({"b": 1});
        let refused = of(&net).unwrap_err();
        assert_eq!(refused.class, Class::TimelessTrap, "{refused}");
        assert!(refused.name == "x" || refused.name == "y", "{refused}");
    }
}

/// Nets in which each firing puts as many tokens as it takes.
fn nets() -> impl Strategy<Value = Net> {
    (2_usize..6).prop_flat_map(|places| {
        let tokens = prop::collection::vec(0_u64..4, places);
        let kind = prop_oneof![
            5 => (1_u32..40, prop_oneof![Just(Servers::Finite(1)), Just(Servers::Finite(2)), Just(Servers::Infinite)])
                .prop_map(|(rate, servers)| Kind::Timed { rate: Rate::Constant(f64::from(rate) / 8.0), servers }),
            1 => (0..places, prop::collection::vec(0_u32..20, 1..4)).prop_map(|(place, rates)| Kind::Timed {
                rate: Rate::ByTokens { place, rates: rates.into_iter().map(f64::from).collect() },
                servers: Servers::Finite(1),
            }),
            2 => (1_u32..10, 1_u32..3).prop_map(|(weight, priority)| Kind::Immediate { weight: f64::from(weight), priority, by: None }),
        ];
        let moved = prop::collection::vec((0..places, 0..places), 1..4);
        let inhibitors = prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec((0..places, 1_u64..4), 1)];
        let ring = prop::collection::vec((1_u32..40, any::<bool>()), places);
        let transitions = prop::collection::vec((kind, moved, inhibitors), 0..6);
        (tokens, ring, transitions).prop_map(|(tokens, ring, others)| {
            let count = tokens.len();
            let place = |(index, tokens): (usize, u64)| Place { name: format!("p{index}"), tokens };
            let places = tokens.into_iter().enumerate().map(place).collect();
            let arcs = |places: &mut dyn Iterator<Item = usize>| {
                let mut arcs: Vec<Arc> = Vec::new();
                for place in places {
                    match arcs.iter_mut().find(|arc| arc.place == place) {
                        Some(arc) => arc.count += 1,
                        None => arcs.push(Arc { place, count: 1 }),
                    }
                }
                arcs
            };
            // A ring of timed transitions, so that most of these nets live.
            let mut transitions: Vec<Transition> = Vec::new();
            for (from, (rate, each)) in ring.into_iter().enumerate() {
                let servers = if each { Servers::Infinite } else { Servers::Finite(1) };
                let kind = Kind::Timed { rate: Rate::Constant(f64::from(rate) / 8.0), servers };
                let (inputs, outputs) =
                    (vec![Arc { place: from, count: 1 }], vec![Arc { place: (from + 1) % count, count: 1 }]);
                transitions.push(Transition { name: format!("r{from}"), kind, inputs, outputs, inhibitors: Vec::new() });
            }
            for (index, (kind, moved, inhibitors)) in others.into_iter().enumerate() {
                let inputs = arcs(&mut moved.iter().map(|(from, _)| *from));
                let outputs = arcs(&mut moved.iter().map(|(_, to)| *to));
                let inhibitors = inhibitors.into_iter().map(|(place, count)| Arc { place, count }).collect();
                transitions.push(Transition { name: format!("t{index}"), kind, inputs, outputs, inhibitors });
            }
            build("", places, transitions).unwrap()
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn exact_values_lie_within_their_bounds(net in nets()) {
        let mut asks = Vec::new();
        for place in 0..net.places().len() {
            asks.push(Ask { id: format!("mean {place}"), question: Question::MeanTokens { place, at: None } });
        }
        for transition in 0..net.transitions().len() {
            asks.push(Ask { id: format!("rate {transition}"), question: Question::Throughput { transition, at: None } });
        }
        let Ok(exact) = ask::answer(&net, &asks, &mut Budget::new(Limits::default(), &mut |_| true)) else { return Ok(()) };
        let found = bounded(&net, &asks).unwrap();
        for (id, value) in &exact.values {
            let Value::Number(value) = value else { continue };
            match found.bounds.get(id) {
                Some(bound) => {
                    // The exact values themselves are right to nine digits.
                    let (low, high) = (bound.low * (1.0 - 1e-9), bound.high * (1.0 + 1e-9) + 1e-12);
                    prop_assert!(low <= *value && *value <= high, "{id}: {value} is not in {bound:?}");
                }
                // Immediates that go in a circle of their own may fire any number of times for all the arcs say.
                None => prop_assert!(id.starts_with("rate"), "{}: {:?}", id, found.unanswered.get(id)),
            }
        }
        if exact.unanswered.is_empty() {
            prop_assert!(found.bounds.len() >= net.places().len());
        }
    }
}

/// Who fires that much faster than others is named.
#[test]
fn rates_too_far_apart_are_refused_by_name() {
    let refused = of(&json!({"net": {"places": [{"name": "a", "tokens": 1}, {"name": "b"}], "transitions": [
        {"name": "slow", "kind": "timed", "rate": 0.5, "in": {"b": 1}, "out": {"a": 1}},
        {"name": "fast", "kind": "timed", "rate": 2e6, "in": {"a": 1}, "out": {"b": 1}}]},
        "ask": [{"id": "a", "kind": "mean_tokens", "place": "a"}]}))
    .unwrap_err();
    assert_eq!((refused.class, refused.name.as_str()), (Class::Unsupported, "fast"));
    assert!(refused.why.contains("2e6") && refused.why.contains("`slow` at 5e-1"), "{refused}");
}
