//! Markings outgrow the words that they are packed in, and many immediates stand behind one firing: the answers stay right.

use gspn::ask::{self, Answer, Value};
use gspn::{Budget, Limits, json};
use serde_json::{Value as Json, json};

fn solve(document: &Json) -> Answer {
    let document = json::read(document.to_string().as_bytes()).unwrap();
    let mut go_on = |_| true;
    ask::answer(&document.net, &document.asks, &mut Budget::new(Limits::default(), &mut go_on)).unwrap()
}

fn count(answer: &Answer, id: &str) -> u64 {
    match answer.values[id] {
        Value::Count(count) => count,
        Value::Number(_) => panic!("`{id}` is no count"),
    }
}

#[track_caller]
fn close(answer: &Answer, id: &str, wanted: f64) {
    let Some(Value::Number(value)) = answer.values.get(id) else { panic!("{:?}", answer.unanswered.get(id)) };
    assert!((value - wanted).abs() <= 1e-9 * wanted, "`{id}` is {value}, and {wanted} is wanted");
}

/// Only an inhibitor bounds the queue, so that no sum of tokens says beforehand how many bits it takes.
#[test]
fn a_queue_grows_past_its_bits() {
    for (size, lot) in [(300_u64, 1_u64), (40, 5_000_000_000)] {
        let answer = solve(&json!({"net": {
        "places": [{"name": "queue"}],
        "transitions": [
            {"name": "arrive", "kind": "timed", "rate": 4.0, "out": {"queue": lot}, "inhibit": {"queue": size * lot}},
            {"name": "serve", "kind": "timed", "rate": 5.0, "in": {"queue": lot}},
        ]},
        "ask": [
            {"id": "states", "kind": "tangible"},
            {"id": "bound", "kind": "bound", "place": "queue"},
            {"id": "mean", "kind": "mean_tokens", "place": "queue"},
            {"id": "soon", "kind": "throughput", "transition": "serve", "at": 0.0},
            {"id": "slope", "kind": "sensitivity", "of": {"kind": "mean_tokens", "place": "queue"}, "wrt": "arrive"},
        ]}));
        let weights: Vec<f64> = (0..=size as i32).map(|n| 0.8_f64.powi(n)).collect();
        let sum: f64 = weights.iter().sum();
        let moment =
            |power: i32| weights.iter().enumerate().map(|(n, w)| (n as f64).powi(power) * w).sum::<f64>() / sum;
        assert_eq!(count(&answer, "states"), size + 1);
        assert_eq!(count(&answer, "bound"), size * lot);
        close(&answer, "mean", moment(1) * lot as f64);
        // d mean / d ln(rho) is the variance.
        close(&answer, "slope", (moment(2) - moment(1).powi(2)) / 4.0 * lot as f64);
    }
}

/// A gambler plays for a token a game until 1,000 of them are won or none is left: one loop of vanishing markings, in which the tokens outgrow
/// their bits, and of which the chance of each end is known. What is lost comes back.
#[test]
fn a_long_loop_of_vanishing_markings_outgrows_its_bits() {
    const ENOUGH: u64 = 1_000;
    let answer = solve(&json!({"net": {
    "places": [{"name": "purse"}, {"name": "idle", "tokens": 1}, {"name": "plays"}, {"name": "rich"}, {"name": "poor"}],
    "transitions": [
        {"name": "begin", "kind": "timed", "rate": 1.0, "in": {"idle": 1}, "out": {"plays": 1, "purse": 300}},
        {"name": "win", "kind": "immediate", "in": {"plays": 1, "purse": 1}, "inhibit": {"purse": ENOUGH},
            "out": {"plays": 1, "purse": 2}},
        {"name": "lose", "kind": "immediate", "in": {"plays": 1, "purse": 1}, "inhibit": {"purse": ENOUGH},
            "out": {"plays": 1}},
        {"name": "enough", "kind": "immediate", "in": {"plays": 1, "purse": ENOUGH}, "out": {"rich": 1}},
        {"name": "nothing", "kind": "immediate", "in": {"plays": 1}, "inhibit": {"purse": 1}, "out": {"poor": 1}},
        {"name": "spend", "kind": "timed", "rate": 2.0, "in": {"rich": 1}, "out": {"idle": 1}},
        {"name": "borrow", "kind": "timed", "rate": 5.0, "in": {"poor": 1}, "out": {"idle": 1}},
    ]},
    "ask": [
        {"id": "states", "kind": "tangible"},
        {"id": "vanishing", "kind": "vanishing"},
        {"id": "bound", "kind": "bound", "place": "purse"},
        {"id": "begins", "kind": "throughput", "transition": "begin"},
        {"id": "rich", "kind": "throughput", "transition": "enough"},
        {"id": "poor", "kind": "throughput", "transition": "nothing"},
        {"id": "wins", "kind": "throughput", "transition": "win"},
    ]}));
    assert_eq!(count(&answer, "states"), 3);
    assert_eq!(count(&answer, "vanishing"), ENOUGH + 1);
    assert_eq!(count(&answer, "bound"), ENOUGH);
    let (rich, poor) = (0.3, 0.7);
    let begins = 1.0 / (1.0 + rich / 2.0 + poor / 5.0);
    close(&answer, "begins", begins);
    close(&answer, "rich", begins * rich);
    close(&answer, "poor", begins * poor);
    // 300 times 700 games, and 0 won on the whole: half of them were.
    close(&answer, "wins", begins * 300.0 * 700.0 / 2.0);
}

/// Forty pairs that each leave at once, in 2^40 orders, one of them with a coin to toss: one order is enough where nobody asks for the
/// vanishing markings on the way.
#[test]
fn immediates_that_have_nothing_to_do_with_each_other_fire_in_one_order() {
    const PAIRS: usize = 40;
    let net = |pairs: usize| {
        let mut places = vec![json!({"name": "a", "tokens": 1}), json!({"name": "coin"}), json!({"name": "tails"})];
        let (mut go, mut back) = (json!({"coin": 1}), json!({}));
        let mut transitions = vec![
            json!({"name": "heads", "kind": "immediate", "weight": 3, "in": {"coin": 1}}),
            json!({"name": "tail", "kind": "immediate", "in": {"coin": 1}, "out": {"tails": 1}}),
            json!({"name": "clear", "kind": "timed", "rate": 4, "in": {"tails": 1}}),
        ];
        for pair in 0..pairs {
            let (from, to) = (format!("v{pair}"), format!("w{pair}"));
            places.extend([json!({"name": from}), json!({"name": to})]);
            transitions.push(json!({"name": format!("i{pair}"), "kind": "immediate", "weight": 1 + pair,
                "in": {&from: 1}, "out": {&to: 1}}));
            (go[from], back[to]) = (json!(2), json!(2));
        }
        transitions.push(
            json!({"name": "go", "kind": "timed", "rate": 1, "in": {"a": 1}, "inhibit": {"tails": 1}, "out": go}),
        );
        transitions.push(json!({"name": "back", "kind": "timed", "rate": 2, "in": back, "out": {"a": 1}}));
        json!({"places": places, "transitions": transitions})
    };
    let rates = json!([
        {"id": "states", "kind": "tangible"},
        {"id": "go", "kind": "throughput", "transition": "go"},
        {"id": "tail", "kind": "throughput", "transition": "tail"},
        {"id": "i1", "kind": "throughput", "transition": "i1"},
        {"id": "tails", "kind": "prob", "where": [["tails", "==", 1]]},
    ]);
    let (many, few) = (solve(&json!({"net": net(PAIRS), "ask": rates})), solve(&json!({"net": net(3), "ask": rates})));
    assert_eq!(count(&many, "states"), 4);
    let Value::Number(go) = few.values["go"] else { panic!("{few:?}") };
    for (id, wanted) in [("go", go), ("tail", go / 4.0), ("i1", 2.0 * go), ("tails", go / 16.0)] {
        close(&many, id, wanted);
        close(&few, id, wanted);
    }
    // Who asks for them is told all: each of three pairs has 2, 1 or 0 left, the coin was tossed or was not.
    let mut asks = rates;
    asks.as_array_mut().unwrap().push(json!({"id": "vanishing", "kind": "vanishing"}));
    let all = solve(&json!({"net": net(3), "ask": asks}));
    assert_eq!(count(&all, "vanishing"), 27 * 3 - 2);
    close(&all, "i1", 2.0 * go);
}

/// Eight coins are tossed at once: 8! orders, 3^8 markings, one distribution.
#[test]
fn many_immediates_at_once_have_one_outcome() {
    let mut places = vec![json!({"name": "go", "tokens": 1}), json!({"name": "heads"}), json!({"name": "tails"})];
    let (mut start, mut transitions) = (serde_json::Map::new(), Vec::new());
    for coin in 0..8 {
        let name = format!("coin{coin}");
        places.push(json!({"name": name}));
        start.insert(name.clone(), json!(1));
        for (side, weight) in [("heads", 1), ("tails", 3)] {
            transitions.push(json!({"name": format!("{side}{coin}"), "kind": "immediate", "weight": weight,
                "in": {&name: 1}, "out": {side: 1}}));
        }
    }
    transitions.push(json!({"name": "toss", "kind": "timed", "rate": 2.0, "in": {"go": 1}, "out": start}));
    for heads in 0..9 {
        let mut take = serde_json::Map::new();
        for (side, tokens) in [("heads", heads), ("tails", 8 - heads)] {
            if tokens > 0 {
                take.insert(side.into(), json!(tokens));
            }
        }
        transitions
            .push(json!({"name": format!("again{heads}"), "kind": "timed", "rate": 2.0, "in": take, "out": {"go": 1}}));
    }
    let answer = solve(&json!({"net": {"places": places, "transitions": transitions}, "ask": [
        {"id": "tangible", "kind": "tangible"},
        {"id": "vanishing", "kind": "vanishing"},
        {"id": "all", "kind": "prob", "where": [["heads", "==", 8]]},
        {"id": "fired", "kind": "throughput", "transition": "heads3"},
    ]}));
    assert_eq!(count(&answer, "tangible"), 10);
    // What is still in the air, and how many of the others show heads.
    let vanishing: u64 = (1..=8_u64).map(|air| binomial(8, air) * (9 - air)).sum();
    assert_eq!(count(&answer, "vanishing"), vanishing);
    close(&answer, "all", 0.25_f64.powi(8) / 2.0);
    close(&answer, "fired", 0.25);
}

/// More ways lead on from vanishing markings than have a bit: each is counted, and says what its places hold.
#[test]
fn many_ways_behind_firings() {
    let ways = 200;
    let (mut places, mut transitions) = (vec![json!({"name": "idle", "tokens": 1})], Vec::new());
    for way in 0..ways {
        let (lot, done) = (format!("lot{way}"), format!("done{way}"));
        places.extend([json!({"name": &lot}), json!({"name": &done})]);
        transitions.extend([
            json!({"name": format!("go{way}"), "kind": "timed", "rate": 1.0, "in": {"idle": 1}, "out": {&lot: 3}}),
            json!({"name": format!("at_once{way}"), "kind": "immediate", "in": {&lot: 3}, "out": {&done: 1}}),
            json!({"name": format!("back{way}"), "kind": "timed", "rate": 1.0, "in": {&done: 1}, "out": {"idle": 1}}),
        ]);
    }
    let answer = solve(&json!({"net": {"places": places, "transitions": transitions}, "ask": [
        {"id": "tangible", "kind": "tangible"},
        {"id": "vanishing", "kind": "vanishing"},
        {"id": "early", "kind": "bound", "place": "lot1"},
        {"id": "late", "kind": "bound", "place": "lot199"},
    ]}));
    assert_eq!(count(&answer, "tangible"), ways + 1);
    assert_eq!(count(&answer, "vanishing"), ways);
    assert_eq!((count(&answer, "early"), count(&answer, "late")), (3, 3));
}

/// Four coins are tossed at once, which is too much to be followed firing by firing, and the last of them alone, which is not.
#[test]
fn a_marking_behind_a_large_and_a_small_firing_counts_once() {
    let mut places = vec![json!({"name": "go", "tokens": 1}), json!({"name": "heads"}), json!({"name": "tails"})];
    let (mut start, mut transitions) = (serde_json::Map::new(), Vec::new());
    for coin in 0..4 {
        let name = format!("coin{coin}");
        places.push(json!({"name": name}));
        start.insert(name.clone(), json!(1));
        for side in ["heads", "tails"] {
            transitions.push(json!({"name": format!("{side}{coin}"), "kind": "immediate",
                "in": {&name: 1}, "out": {side: 1}}));
        }
    }
    let timed =
        |name: &str, from: Json, to: Json| json!({"name": name, "kind": "timed", "rate": 2.0, "in": from, "out": to});
    transitions.push(timed("toss", json!({"go": 1}), json!(start)));
    transitions.push(timed("last", json!({"go": 1}), json!({"heads": 3, "coin3": 1})));
    for (name, from) in [("none", json!({"tails": 4})), ("all", json!({"heads": 4}))] {
        transitions.push(timed(name, from, json!({"go": 1})));
    }
    for heads in 1..4 {
        let from = json!({"heads": heads, "tails": 4 - heads});
        transitions.push(timed(&format!("again{heads}"), from, json!({"go": 1})));
    }
    let document = json!({"net": {"places": places, "transitions": transitions}, "ask": [
        {"id": "tangible", "kind": "tangible"},
        {"id": "vanishing", "kind": "vanishing"},
    ]});
    let answer = solve(&document);
    let vanishing: u64 = (1..=4_u64).map(|air| binomial(4, air) * (5 - air)).sum();
    assert_eq!((count(&answer, "tangible"), count(&answer, "vanishing")), (6, vanishing));
    // The limit is one for markings, not for how they were found.
    let document = json::read(document.to_string().as_bytes()).unwrap();
    for (markings, fits) in [(6 + vanishing, true), (5 + vanishing, false)] {
        let mut go_on = |_| true;
        let mut budget = Budget::new(Limits { markings, ..Limits::default() }, &mut go_on);
        assert_eq!(ask::answer(&document.net, &document.asks, &mut budget).is_ok(), fits, "{markings}");
    }
}

fn binomial(n: u64, k: u64) -> u64 {
    (0..k).fold(1, |product, i| product * (n - i) / (i + 1))
}
