//! What the arcs alone say: invariants and conflicts of nets for which they are known.

use gspn::net::{Structure, structure};
use gspn::{Net, json};
use serde_json::{Value, json};

fn net(places: &[(&str, u64)], transitions: &[Value]) -> Net {
    let places: Vec<Value> = places.iter().map(|(name, tokens)| json!({"name": name, "tokens": tokens})).collect();
    let document = json!({"net": {"places": places, "transitions": transitions}});
    json::read(document.to_string().as_bytes()).unwrap().net
}

fn timed(name: &str, inputs: &Value, outputs: &Value) -> Value {
    json!({"name": name, "kind": "timed", "rate": 1, "in": inputs, "out": outputs})
}

fn at_once(name: &str, priority: u32, inputs: &Value, outputs: &Value) -> Value {
    json!({"name": name, "kind": "immediate", "priority": priority, "in": inputs, "out": outputs})
}

/// Each sum and each round as a line, `a + 2 b = 3`.
fn lines(net: &Net, found: &Structure) -> (Vec<String>, Vec<String>) {
    let term = |weight: u64, name: &str| if weight == 1 { name.to_owned() } else { format!("{weight} {name}") };
    let sum = |sum: &gspn::net::Sum| {
        let terms = sum.weights.iter().map(|(place, weight)| term(*weight, &net.places()[*place].name));
        format!("{} = {}", terms.collect::<Vec<_>>().join(" + "), sum.tokens)
    };
    let round = |round: &gspn::net::Weights| {
        let terms = round.iter().map(|(at, weight)| term(*weight, &net.transitions()[*at].name));
        terms.collect::<Vec<_>>().join(" + ")
    };
    (found.places.iter().map(sum).collect(), found.transitions.iter().map(round).collect())
}

#[test]
fn invariants_of_known_nets() {
    let (a, b, c) = (json!({"a": 1}), json!({"b": 1}), json!({"c": 1}));
    let ring = [timed("t", &a, &b), timed("u", &b, &c), timed("v", &c, &a)];
    let buffer = [
        timed("make", &json!({"ready": 1}), &json!({"made": 1})),
        timed("put", &json!({"made": 1, "free": 1}), &json!({"ready": 1, "full": 1})),
        timed("take", &json!({"full": 1, "idle": 1}), &json!({"free": 1, "busy": 1})),
        timed("use", &json!({"busy": 1}), &json!({"idle": 1})),
    ];
    let stores = [("ready", 1), ("made", 0), ("free", 5), ("full", 0), ("idle", 2), ("busy", 0)];
    for (row, places, transitions, sums, rounds) in [
        ("a closed ring", &[("a", 3), ("b", 0), ("c", 0)][..], &ring[..], vec!["a + b + c = 3"], vec!["t + u + v"]),
        (
            "producer and consumer",
            &stores[..],
            &buffer[..],
            vec!["ready + made = 1", "free + full = 5", "idle + busy = 2"],
            vec!["make + put + take + use"],
        ),
        (
            "weights",
            &[("a", 2), ("b", 3)],
            &[timed("t", &a, &json!({"b": 2})), timed("u", &json!({"b": 4}), &json!({"a": 2}))],
            vec!["2 a + b = 7"],
            vec!["2 t + u"],
        ),
        ("nothing leads back", &[("a", 4), ("b", 1)], &[timed("t", &a, &b)], vec!["a + b = 5"], vec![]),
        (
            "nothing is kept",
            &[("a", 0)],
            &[timed("come", &json!({}), &a), timed("go", &a, &json!({}))],
            vec![],
            vec!["come + go"],
        ),
        ("it changes nothing", &[("a", 1)], &[timed("look", &a, &a)], vec!["a = 1"], vec!["look"]),
        (
            "two ways round",
            &[("a", 1), ("b", 0)],
            &[timed("t", &a, &b), timed("u", &b, &a), timed("v", &b, &a)],
            vec!["a + b = 1"],
            vec!["t + u", "t + v"],
        ),
    ] {
        let net = net(places, transitions);
        let found = structure(&net);
        assert!(found.all_places && found.all_transitions && found.conflicts.is_empty(), "{row}: {found:?}");
        let wanted = |lines: Vec<&str>| lines.into_iter().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(lines(&net, &found), (wanted(sums), wanted(rounds)), "{row}");
    }
}

#[test]
fn conflicts_are_between_immediates_of_one_priority() {
    let places = [("a", 1), ("b", 0), ("c", 0), ("d", 0)];
    let (a, ab, bc, c, d) =
        (json!({"a": 1}), json!({"a": 1, "b": 1}), json!({"b": 1, "c": 1}), json!({"c": 1}), json!({"d": 1}));
    let none = json!({});
    let with = |mut it: Value, inhibit: &str| {
        it["inhibit"] = json!({inhibit: 1});
        it
    };
    for (row, transitions, sets) in [
        (
            "through a third",
            vec![at_once("x", 1, &ab, &none), at_once("y", 1, &c, &none), at_once("z", 1, &bc, &none)],
            vec![vec![0, 1, 2]],
        ),
        (
            "two sets",
            vec![
                at_once("x", 1, &a, &none),
                at_once("y", 1, &c, &d),
                at_once("z", 1, &c, &none),
                at_once("w", 1, &a, &d),
            ],
            vec![vec![0, 3], vec![1, 2]],
        ),
        ("another priority", vec![at_once("x", 1, &a, &none), at_once("y", 2, &a, &none)], vec![]),
        ("timed", vec![timed("x", &a, &none), timed("y", &a, &none)], vec![]),
        ("nothing in common", vec![at_once("x", 1, &a, &d), at_once("y", 1, &c, &d)], vec![]),
        ("one stops the other", vec![at_once("x", 1, &a, &d), with(at_once("y", 1, &c, &none), "d")], vec![vec![0, 1]]),
        ("both only look", vec![at_once("x", 1, &a, &a), at_once("y", 1, &ab, &a)], vec![]),
        ("one looks at what the other takes", vec![at_once("x", 1, &a, &a), at_once("y", 1, &a, &d)], vec![vec![0, 1]]),
        ("what is put back stops nobody", vec![at_once("x", 1, &a, &a), with(at_once("y", 1, &c, &none), "a")], vec![]),
        (
            "the same stops both",
            vec![with(at_once("x", 1, &a, &none), "d"), with(at_once("y", 1, &c, &none), "d")],
            vec![],
        ),
    ] {
        assert_eq!(structure(&net(&places, &transitions)).conflicts, sets, "{row}");
    }
}

/// A chain of forks has two to the power of its length of ways round.
#[test]
fn what_is_too_much_is_not_said_to_be_all() {
    const LONG: usize = 300;
    let place = |at: usize| json!({format!("p{}", at % LONG): 1});
    let both = |at: usize| ["x", "y"].map(|way| timed(&format!("{way}{at}"), &place(at), &place(at + 1)));
    let names: Vec<String> = (0..LONG).map(|at| format!("p{at}")).collect();
    let places: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let net = net(&places, &(0..LONG).flat_map(both).collect::<Vec<_>>());
    let found = structure(&net);
    assert!(found.all_places && !found.all_transitions, "{found:?}");
    assert_eq!((found.places.len(), found.places[0].tokens), (1, 300));
}
