//! Closed networks of queues: their product form against exploration where both can, and closed forms where only one can.

use gspn::ask::{self, Answer, Ask, Compare, Condition, Question, Value};
use gspn::net::{Arc, Kind, Net, Place, Rate, Servers, Transition, build};
use gspn::{Budget, Class, Limits, Refusal, json};
use proptest::prelude::*;
use serde_json::json;

fn answer(net: &Net, asks: &[Ask], markings: u64) -> Result<Answer, Refusal> {
    let mut go_on = |_| true;
    ask::answer(net, asks, &mut Budget::new(Limits { markings, ..Limits::default() }, &mut go_on))
}

fn number(answer: &Answer, id: &str) -> f64 {
    match answer.values.get(id) {
        Some(Value::Number(value)) => *value,
        other => panic!("`{id}`: {other:?}, {:?}", answer.unanswered.get(id)),
    }
}

#[track_caller]
fn close(answer: &Answer, id: &str, wanted: f64, off: f64) {
    let value = number(answer, id);
    assert!((value - wanted).abs() <= off * wanted.abs(), "`{id}` is {value}, and {wanted} is wanted");
}

/// How a place serves: at once, or in a time.
fn kinds() -> impl Strategy<Value = Option<(Vec<u32>, Servers)>> {
    let servers = prop_oneof![
        3 => Just(Servers::Finite(1)), 1 => Just(Servers::Finite(2)), 1 => Just(Servers::Finite(9)), 1 => Just(Servers::Infinite)
    ];
    let rates = prop_oneof![2 => prop::collection::vec(1_u32..40, 1), 1 => prop::collection::vec(1_u32..40, 2..6)];
    prop_oneof![1 => Just(None), 3 => (rates, servers).prop_map(Some)]
}

/// A ring of places, of which the first takes time, with shorter ways across and sometimes a place that is only left.
fn networks() -> impl Strategy<Value = Net> {
    let first = kinds().prop_filter("takes time", Option::is_some);
    let across = prop::collection::vec((0_usize..5, 0_usize..5, 1_u32..9), 0..5);
    let tokens = prop::collection::vec(0_u64..4, 6);
    (first, prop::collection::vec(kinds(), 1..5), across, tokens, any::<bool>()).prop_map(
        |(first, others, across, tokens, entry)| {
            let kinds: Vec<_> = std::iter::once(first).chain(others).collect();
            let count = kinds.len();
            let place = |index: usize| Place { name: format!("p{index}"), tokens: tokens[index] };
            let mut places: Vec<Place> = (0..count + usize::from(entry)).map(place).collect();
            places[0].tokens += 1;
            let mut transitions = Vec::new();
            let mut add = |from: usize, to: usize, weight: u32| {
                let kind = match &kinds[from % count] {
                    None => Kind::Immediate { weight: f64::from(weight), priority: 1, by: None },
                    Some((rates, servers)) if rates.len() > 1 => {
                        let rates = rates.iter().map(|rate| f64::from(*rate) / 8.0).collect();
                        Kind::Timed { rate: Rate::ByTokens { place: from, rates }, servers: *servers }
                    }
                    Some((rates, servers)) => {
                        let rate = Rate::Constant(f64::from(rates[0] * weight) / 8.0);
                        Kind::Timed { rate, servers: *servers }
                    }
                };
                let name = format!("t{}", transitions.len());
                let arc = |place| vec![Arc { place, count: 1 }];
                transitions.push(Transition {
                    name,
                    kind,
                    inputs: arc(from),
                    outputs: arc(to),
                    inhibitors: Vec::new(),
                });
            };
            for from in 0..count {
                add(from, (from + 1) % count, 1);
            }
            if entry {
                add(count, 0, 2);
            }
            for (from, to, weight) in across {
                // A table has one way out: two of them would not share alike.
                if kinds[from % count].as_ref().is_none_or(|(rates, _)| rates.len() == 1) {
                    add(from % count, to % count, weight);
                }
            }
            build("", places, transitions).unwrap()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_product_answers_as_exploring_does(net in networks(), counts in prop::collection::vec(0_u64..5, 3)) {
        let mut asks = Vec::new();
        let mut ask = |question| asks.push(Ask { id: format!("q{}", asks.len()), question });
        for transition in 0..net.transitions().len() {
            ask(Question::Throughput { transition, at: None });
        }
        for place in 0..net.places().len() {
            ask(Question::MeanTokens { place, at: None });
            let terms = vec![(place, Compare::GreaterOrEqual, counts[0]), (place, Compare::NotEqual, counts[1])];
            ask(Question::Probability { condition: Condition { terms: terms.clone() }, at: None });
            let more = [(0, Compare::Less, counts[2]), (net.places().len() - 1, Compare::NotEqual, counts[0])];
            let terms = terms.into_iter().chain(more).collect();
            ask(Question::Probability { condition: Condition { terms }, at: None });
        }
        // With no marking allowed nothing can be explored: only the product is left.
        let product = answer(&net, &asks, 0).unwrap();
        prop_assert!(product.unanswered.is_empty());
        for (id, question) in [("tangible", Question::Tangible), ("deadlocks", Question::Deadlocks), ("classes", Question::BottomComponents)] {
            asks.push(Ask { id: id.into(), question });
        }
        for place in 0..net.places().len() {
            asks.push(Ask { id: format!("bound {place}"), question: Question::Bound { place } });
        }
        let explored = answer(&net, &asks, Limits::default().markings).unwrap();
        let counted = answer(&net, &asks, 0).unwrap();
        prop_assert_eq!(counted.unanswered["tangible"].class, Class::TooLarge);
        for (id, value) in &counted.values {
            match (value, &explored.values[id]) {
                (Value::Number(one), Value::Number(other)) => {
                    prop_assert!((one - other).abs() <= 1e-9 * other.abs() + 1e-14, "{}: {} and {}", id, one, other);
                }
                (one, other) => prop_assert_eq!(one, other, "{}", id),
            }
        }
        prop_assert!(counted.values.len() > product.values.len());
    }
}

/// The same net in which some places have their servers as tokens: who waits, who is served, and who is free; and some transitions
/// borrow tokens that they give back.
fn held(net: &Net, servers: &[u64], lent: &[u64]) -> Net {
    let (mut places, mut transitions) = (net.places().to_vec(), net.transitions().to_vec());
    let arc = |place| Arc { place, count: 1 };
    for (queue, count) in servers.iter().enumerate().take(net.places().len()) {
        let served = |it: &Transition| it.inputs[0].place == queue && matches!(it.kind, Kind::Timed { .. });
        if *count == 0 || !transitions.iter().any(served) {
            continue;
        }
        let (busy, free) = (places.len(), places.len() + 1);
        // Some begin while they are served.
        let begun = places[queue].tokens.min(count / 2);
        places[queue].tokens -= begun;
        places.push(Place { name: format!("busy {queue}"), tokens: begun });
        places.push(Place { name: format!("free {queue}"), tokens: count - begun });
        for it in transitions.iter_mut().filter(|it| served(it)) {
            it.inputs = vec![arc(busy)];
            it.outputs.push(arc(free));
            if let Kind::Timed { rate: Rate::ByTokens { place, .. }, .. } = &mut it.kind {
                *place = busy;
            }
        }
        transitions.push(Transition {
            name: format!("take {queue}"),
            kind: Kind::Immediate { weight: 3.0, priority: 2, by: None },
            inputs: vec![arc(free), arc(queue)],
            outputs: vec![arc(busy)],
            inhibitors: Vec::new(),
        });
    }
    for (index, count) in lent.iter().enumerate().take(net.transitions().len()) {
        // Only where nothing else leaves the place: others would not share alike.
        let from = transitions[index].inputs[0].place;
        let alone = transitions.iter().filter(|it| it.inputs[0].place == from).count() == 1;
        if *count == 0 || !alone || !matches!(transitions[index].kind, Kind::Timed { .. }) {
            continue;
        }
        let place = places.len();
        places.push(Place { name: format!("lent {index}"), tokens: 2 * count + 1 });
        transitions[index].inputs.push(Arc { place, count: 2 });
        transitions[index].outputs.push(Arc { place, count: 2 });
    }
    build("", places, transitions).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn servers_that_are_tokens_are_those_of_a_station(
        plain in networks(),
        servers in prop::collection::vec(0_u64..4, 6),
        lent in prop::collection::vec(0_u64..3, 6),
        counts in prop::collection::vec(0_u64..4, 3),
    ) {
        let net = held(&plain, &servers, &lent);
        let mut asks = Vec::new();
        let mut ask = |question| asks.push(Ask { id: format!("q{}", asks.len()), question });
        let last = net.places().len() - 1;
        for transition in 0..net.transitions().len() {
            ask(Question::Throughput { transition, at: None });
        }
        for place in 0..net.places().len() {
            ask(Question::MeanTokens { place, at: None });
            let terms = vec![(place, Compare::GreaterOrEqual, counts[0]), (last, Compare::NotEqual, counts[1])];
            ask(Question::Probability { condition: Condition { terms: terms.clone() }, at: None });
            let more = [(last.saturating_sub(1), Compare::Less, counts[2]), (0, Compare::LessOrEqual, counts[0])];
            let terms = terms.into_iter().chain(more).collect();
            ask(Question::Probability { condition: Condition { terms }, at: None });
        }
        let product = answer(&net, &asks, 0).unwrap();
        prop_assert!(product.unanswered.is_empty(), "{:?}", product.unanswered);
        for (id, question) in [("tangible", Question::Tangible), ("deadlocks", Question::Deadlocks), ("classes", Question::BottomComponents)] {
            asks.push(Ask { id: id.into(), question });
        }
        for place in 0..net.places().len() {
            asks.push(Ask { id: format!("bound {place}"), question: Question::Bound { place } });
        }
        let explored = answer(&net, &asks, Limits::default().markings).unwrap();
        let counted = answer(&net, &asks, 0).unwrap();
        for (id, value) in &counted.values {
            match (value, &explored.values[id]) {
                (Value::Number(one), Value::Number(other)) => {
                    prop_assert!((one - other).abs() <= 1e-9 * other.abs() + 1e-14, "{}: {} and {}", id, one, other);
                }
                (one, other) => prop_assert_eq!(one, other, "{}", id),
            }
        }
    }
}

/// Two queues for the same servers: who is next is a matter of weights, whoever waits longer. That has no product form: what each queue would
/// hold if all customers were one class is not what it holds.
#[test]
fn queues_that_share_servers_are_explored() {
    let shared = |customers: u64, weight: f64| {
        document(&json!({"net": {
        "places": [{"name": "a", "tokens": customers}, {"name": "b", "tokens": customers}, {"name": "qa"}, {"name": "qb"},
            {"name": "sa"}, {"name": "sb"}, {"name": "free", "tokens": 1}],
        "transitions": [
            {"name": "ask a", "kind": "timed", "servers": "inf", "rate": 1.0, "in": {"a": 1}, "out": {"qa": 1}},
            {"name": "ask b", "kind": "timed", "servers": "inf", "rate": 0.2, "in": {"b": 1}, "out": {"qb": 1}},
            {"name": "take a", "kind": "immediate", "weight": weight, "in": {"qa": 1, "free": 1}, "out": {"sa": 1}},
            {"name": "take b", "kind": "immediate", "in": {"qb": 1, "free": 1}, "out": {"sb": 1}},
            {"name": "serve a", "kind": "timed", "rate": 2.0, "in": {"sa": 1}, "out": {"a": 1, "free": 1}},
            {"name": "serve b", "kind": "timed", "rate": 2.0, "in": {"sb": 1}, "out": {"b": 1, "free": 1}},
        ]}, "ask": [{"id": "rate", "kind": "throughput", "transition": "serve a"}]}))
    };
    let of = |weight: f64| {
        let net = shared(4, weight);
        number(&answer(&net.net, &net.asks, 8_000_000).unwrap(), "rate")
    };
    // The same places, times and servers: no sum over their products could tell these apart.
    assert!(of(5.0) - of(0.2) > 1e-2, "{} {}", of(5.0), of(0.2));
    let net = shared(5000, 1.0);
    assert_eq!(answer(&net.net, &net.asks, 1000).unwrap_err().class, Class::TooLarge);
}

/// Customers who think, join one of some queues for the same servers at once, and then think again, join one at once (when their server is
/// given to another), or go on to a last place before they think: in random order of service, which is `weight` times the tokens of each queue.
fn in_random_order(
    (customers, servers): (u64, u64),
    rates: &[f64],
    (joins, onward): (&[u32], &[u32]),
    weight: impl Fn(usize) -> f64,
) -> serde_json::Value {
    let mut places = vec![
        json!({"name": "think", "tokens": customers}),
        json!({"name": "door"}),
        json!({"name": "last"}),
        json!({"name": "free", "tokens": servers}),
    ];
    let mut transitions = vec![
        json!({"name": "come", "kind": "timed", "servers": "inf", "rate": 0.7, "in": {"think": 1}, "out": {"door": 1}}),
        json!({"name": "leave", "kind": "timed", "rate": 1.3, "in": {"last": 1}, "out": {"think": 1}}),
    ];
    let priority = 1 + u32::from(onward.contains(&1));
    for (at, (rate, (join, to))) in rates.iter().zip(joins.iter().zip(onward)).enumerate() {
        let (queue, busy) = (format!("q{at}"), format!("b{at}"));
        places.extend([json!({"name": queue}), json!({"name": busy})]);
        transitions.extend([
            json!({"name": format!("join{at}"), "kind": "immediate", "weight": join, "in": {"door": 1}, "out": {&queue: 1}}),
            json!({"name": format!("take{at}"), "kind": "immediate", "weight": weight(at), "priority": priority, "weight_by": queue, "in": {&queue: 1, "free": 1}, "out": {&busy: 1}}),
            json!({"name": format!("serve{at}"), "kind": "timed", "servers": "inf", "rate": 0.6 * rate, "in": {&busy: 1}, "out": {"think": 1, "free": 1}}),
        ]);
        let to = ["last", "door", "think"][*to as usize % 3];
        transitions.push(json!({"name": format!("on{at}"), "kind": "timed", "servers": "inf", "rate": 0.4 * rate, "in": {&busy: 1}, "out": {to: 1, "free": 1}}));
    }
    let means = places.iter().map(|it| json!({"id": it["name"], "kind": "mean_tokens", "place": it["name"]}));
    let flows = transitions.iter().map(|it| json!({"id": it["name"], "kind": "throughput", "transition": it["name"]}));
    let idle = [json!({"id": "idle", "kind": "prob", "where": [["free", "==", servers], ["last", ">", 0]]})];
    let asks: Vec<_> = means.chain(flows).chain(idle).collect();
    json!({"net": {"places": places, "transitions": transitions}, "ask": asks})
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn queues_that_share_servers_in_random_order_are_a_station(
        size in (1_u64..6, 1_u64..4),
        rate in 1_u32..9,
        ways in prop::collection::vec((1_u32..6, 0_u32..3), 2..4),
        weight in 1_u32..4,
    ) {
        let (joins, onward): (Vec<u32>, Vec<u32>) = ways.into_iter().unzip();
        let rates = vec![f64::from(rate) / 4.0; joins.len()];
        let net = document(&in_random_order(size, &rates, (&joins, &onward), |_| f64::from(weight) / 3.0));
        let product = answer(&net.net, &net.asks, 0).unwrap();
        prop_assert!(product.unanswered.is_empty(), "{:?}", product.unanswered);
        let queue = net.net.place("q0").unwrap();
        let mut asks = net.asks.clone();
        // What is not a sum over stations is explored, and so is all where there are few markings: nothing but counts is then known from the product.
        let condition = Condition { terms: vec![(queue, Compare::Greater, 0)] };
        asks.push(Ask { id: "someone waits".into(), question: Question::Probability { condition, at: None } });
        prop_assert!(answer(&net.net, &asks, 0).unwrap().unanswered.contains_key("someone waits"));
        let explored = answer(&net.net, &[asks, vec![Ask { id: "now".into(), question: Question::MeanTokens { place: queue, at: Some(0.0) } }]].concat(), 8_000_000).unwrap();
        for ask in &net.asks {
            let (one, other) = (number(&product, &ask.id), number(&explored, &ask.id));
            prop_assert!((one - other).abs() <= 1e-9 * other.abs() + 1e-13, "{}: {} and {}", ask.id, one, other);
        }
    }
}

/// With what is not alike for all who wait there is no product: other times, other weights, one clerk for all of a kind.
#[test]
fn random_order_of_what_is_not_alike_is_explored() {
    let net = |rates: &[f64], weight: fn(usize) -> f64| in_random_order((5000, 2), rates, (&[1, 2], &[0, 2]), weight);
    let found = |net: &serde_json::Value| {
        let net = document(net);
        answer(&net.net, &net.asks, 1000)
    };
    let alike = net(&[2.0, 2.0], |_| 1.0);
    assert!(number(&found(&alike).unwrap(), "serve0") > 0.1);
    let mut single = alike.clone();
    single["net"]["transitions"][4]["servers"] = json!(1);
    let mut weights_alone = alike.clone();
    weights_alone["net"]["transitions"][3].as_object_mut().unwrap().remove("weight_by");
    let mut looked_at = alike.clone();
    looked_at["net"]["transitions"][0]["inhibit"] = json!({"q1": 7});
    // Who comes back at once is among those that wait for its server, and others are not.
    let mut back = in_random_order((5000, 2), &[2.0, 2.0], (&[1, 2], &[0, 1]), |_| 1.0);
    assert!(number(&found(&back).unwrap(), "serve0") > 0.1);
    for at in [3, 7] {
        back["net"]["transitions"][at]["priority"] = json!(1);
    }
    let mut straight = alike.clone();
    straight["net"]["transitions"][9]["out"] = json!({"q0": 1, "free": 1});
    let mut urgent = alike.clone();
    urgent["net"]["transitions"][3]["priority"] = json!(2);
    let others = [
        net(&[2.0, 2.5], |_| 1.0),
        net(&[2.0, 2.0], |at| 1.0 + at as f64),
        single,
        weights_alone,
        looked_at,
        urgent,
        back,
        straight,
    ];
    for (at, other) in others.iter().enumerate() {
        assert_eq!(found(other).map_err(|refusal| refusal.class).unwrap_err(), Class::TooLarge, "{at}");
    }
}

/// What looks like servers and is not: somebody keeps one, brings another, or looks at who is free.
#[test]
fn servers_that_get_lost_are_explored() {
    let of = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut net = json!({"net": {
        "places": [{"name": "a", "tokens": 5000}, {"name": "q"}, {"name": "s"}, {"name": "free", "tokens": 3}],
        "transitions": [
            {"name": "ask", "kind": "timed", "servers": "inf", "rate": 1.0, "in": {"a": 1}, "out": {"q": 1}},
            {"name": "take", "kind": "immediate", "in": {"q": 1, "free": 1}, "out": {"s": 1}},
            {"name": "serve", "kind": "timed", "servers": "inf", "rate": 2000.0, "in": {"s": 1}, "out": {"a": 1, "free": 1}},
        ]}, "ask": [{"id": "rate", "kind": "throughput", "transition": "serve"}]});
        change(&mut net);
        let net = document(&net);
        answer(&net.net, &net.asks, 1000)
    };
    let found = of(&|_| {}).unwrap();
    assert!(number(&found, "rate") < 5000.0 && number(&found, "rate") > 3000.0, "{found:?}");
    let changes: [&dyn Fn(&mut serde_json::Value); 4] = [
        &|net| drop(net["net"]["transitions"][2]["out"].as_object_mut().unwrap().remove("free")),
        &|net| net["net"]["transitions"][0]["out"]["free"] = json!(1),
        &|net| net["net"]["transitions"][0]["inhibit"] = json!({"q": 4000}),
        &|net| net["net"]["transitions"][2]["out"]["free"] = json!(2),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let class = of(change).map(|found| found.values).map_err(|refusal| refusal.class);
        assert!(!matches!(&class, Ok(values) if values.contains_key("rate")), "{at}: {class:?}");
    }
}

fn document(document: &serde_json::Value) -> json::Document {
    json::read(document.to_string().as_bytes()).unwrap()
}

/// A million customers, each with a time to think, and one server that is almost busy all the time.
#[test]
fn a_million_customers_at_one_server() {
    const CUSTOMERS: u64 = 1_000_000;
    let (think, serve) = (1.0, 1.0e6);
    let net = document(&json!({"net": {
    "places": [{"name": "thinking", "tokens": CUSTOMERS}, {"name": "queue"}],
    "transitions": [
        {"name": "ask", "kind": "timed", "servers": "inf", "rate": think, "in": {"thinking": 1}, "out": {"queue": 1}},
        {"name": "serve", "kind": "timed", "rate": serve, "in": {"queue": 1}, "out": {"thinking": 1}},
    ]},
    "ask": [
        {"id": "rate", "kind": "throughput", "transition": "serve"},
        {"id": "queue", "kind": "mean_tokens", "place": "queue"},
        {"id": "thinking", "kind": "mean_tokens", "place": "thinking"},
        {"id": "idle", "kind": "prob", "where": [["queue", "==", 0]]},
        {"id": "long", "kind": "prob", "where": [["queue", ">", 1000], ["thinking", ">=", 7]]},
        {"id": "markings", "kind": "tangible"},
        {"id": "soon", "kind": "mean_tokens", "place": "queue", "at": 1.0},
    ]}));
    // There is one marking more than that.
    let found = answer(&net.net, &net.asks, CUSTOMERS).unwrap();
    assert_eq!(found.unanswered["markings"].class, Class::TooLarge);
    assert_eq!(found.unanswered["soon"].class, Class::TooLarge);
    // As a chain of births and deaths: with n at the server, the next comes with rate (N - n), one goes with the rate of the server.
    let mut weights = vec![1.0_f64];
    for here in 1..20_000_u64 {
        let last = weights[weights.len() - 1];
        weights.push(last * (CUSTOMERS - here + 1) as f64 * think / serve);
    }
    let sum: f64 = weights.iter().rev().sum();
    let mean: f64 = weights.iter().enumerate().rev().map(|(here, weight)| here as f64 * weight).sum::<f64>() / sum;
    close(&found, "idle", 1.0 / sum, 1e-9);
    close(&found, "queue", mean, 1e-9);
    close(&found, "thinking", CUSTOMERS as f64 - mean, 1e-9);
    close(&found, "rate", serve * (1.0 - 1.0 / sum), 1e-9);
    close(&found, "long", weights[1001..].iter().rev().sum::<f64>() / sum, 1e-9);
    assert!(found.checks.invariants < 1e-9, "{:?}", found.checks);
}

/// Two servers of equal speed share a million customers evenly; behind a third, of eight servers, there is hardly a queue.
#[test]
fn a_million_customers_in_a_ring() {
    const CUSTOMERS: u64 = 1_000_000;
    let net = document(&json!({"net": {
    "places": [{"name": "a", "tokens": CUSTOMERS}, {"name": "b"}, {"name": "c"}],
    "transitions": [
        {"name": "at a", "kind": "timed", "rate": 2.0, "in": {"a": 1}, "out": {"b": 1}},
        {"name": "at b", "kind": "timed", "rate": 2.0, "in": {"b": 1}, "out": {"c": 1}},
        {"name": "at c", "kind": "timed", "rate": 1.0, "servers": 8, "in": {"c": 1}, "out": {"a": 1}},
    ]},
    "ask": [
        {"id": "a", "kind": "mean_tokens", "place": "a"},
        {"id": "b", "kind": "mean_tokens", "place": "b"},
        {"id": "c", "kind": "mean_tokens", "place": "c"},
        {"id": "c is empty", "kind": "prob", "where": [["c", "==", 0]]},
        {"id": "rate", "kind": "throughput", "transition": "at c"},
        {"id": "most", "kind": "bound", "place": "b"},
    ]}));
    let found = answer(&net.net, &net.asks, 8_000_000).unwrap();
    assert!(found.unanswered.is_empty(), "{:?}", found.unanswered);
    // Left to itself, `c` is M/M/8 with a load of 2 / 8; with n there, N - n + 1 ways are left to spread the others.
    let mut weights = vec![1.0_f64];
    for here in 1..200 {
        weights.push(weights[here - 1] * 2.0 / (here as f64).min(8.0));
    }
    let ways = |power: i32| -> f64 {
        let terms = weights.iter().enumerate().rev();
        terms.map(|(here, weight)| weight * (here as f64).powi(power) * (CUSTOMERS as f64 - here as f64 + 1.0)).sum()
    };
    let c = ways(1) / ways(0);
    close(&found, "c", c, 1e-9);
    close(&found, "a", (CUSTOMERS as f64 - c) / 2.0, 1e-9);
    close(&found, "b", (CUSTOMERS as f64 - c) / 2.0, 1e-9);
    close(&found, "c is empty", (CUSTOMERS as f64 + 1.0) / ways(0), 1e-9);
    let fewer: f64 =
        weights.iter().enumerate().rev().map(|(here, weight)| weight * (CUSTOMERS as f64 - here as f64)).sum();
    close(&found, "rate", 2.0 * fewer / ways(0), 1e-9);
    assert_eq!(found.values["most"], Value::Count(CUSTOMERS));
}

/// Where a transition looks at a second place there is no product, and the limit of markings is the answer.
#[test]
fn a_net_with_a_shared_resource_is_still_too_large() {
    let net = document(&json!({"net": {
    "places": [{"name": "a", "tokens": 5000}, {"name": "b"}, {"name": "c"}, {"name": "free", "tokens": 3}],
    "transitions": [
        {"name": "ab", "kind": "timed", "rate": 2.0, "in": {"a": 1, "free": 1}, "out": {"b": 1}},
        {"name": "bc", "kind": "timed", "rate": 2.0, "in": {"b": 1}, "out": {"c": 1, "free": 1}},
        {"name": "ca", "kind": "timed", "rate": 2.0, "in": {"c": 1}, "out": {"a": 1}},
    ]}, "ask": [{"id": "c", "kind": "mean_tokens", "place": "c"}]}));
    assert_eq!(answer(&net.net, &net.asks, 1000).unwrap_err().class, Class::TooLarge);
}

/// The last token in `entry` never leaves: the table says 0 for one alone.
#[test]
fn tokens_that_stay_on_their_way_are_not_where_the_others_end() {
    let net = document(&json!({"net": {
    "places": [{"name": "entry", "tokens": 3}, {"name": "a", "tokens": 100}, {"name": "b"}, {"name": "c"}],
    "transitions": [
        {"name": "enter", "kind": "timed", "rate_by_tokens": {"place": "entry", "rates": [0, 0, 1]}, "in": {"entry": 1}, "out": {"a": 1}},
        {"name": "ab", "kind": "timed", "rate": 1.0, "in": {"a": 1}, "out": {"b": 1}},
        {"name": "bc", "kind": "timed", "rate": 1.0, "in": {"b": 1}, "out": {"c": 1}},
        {"name": "ca", "kind": "timed", "rate": 1.0, "in": {"c": 1}, "out": {"a": 1}},
    ]}, "ask": [
        {"id": "entry", "kind": "mean_tokens", "place": "entry"},
        {"id": "a", "kind": "mean_tokens", "place": "a"},
    ]}));
    let found = answer(&net.net, &net.asks, 8_000_000).unwrap();
    close(&found, "entry", 1.0, 1e-9);
    close(&found, "a", 34.0, 1e-9);
}

/// What a product says is not lost with the time that exploring takes for what else is asked.
#[test]
fn what_needs_no_exploring_is_answered_when_the_time_is_over() {
    let net = json!({"net": {
    "places": [{"name": "a", "tokens": 100_000}, {"name": "b"}],
    "transitions": [
        {"name": "go", "kind": "timed", "rate": 1, "in": {"a": 1}, "out": {"b": 1}},
        {"name": "back", "kind": "timed", "rate": 0.5, "in": {"b": 1}, "out": {"a": 1}},
    ]}, "ask": [
        {"id": "a", "kind": "mean_tokens", "place": "a"},
        {"id": "da", "kind": "sensitivity", "of": {"kind": "mean_tokens", "place": "a"}, "wrt": "go"},
    ]});
    let net = json::read(net.to_string().as_bytes()).unwrap();
    // The clock stands still until something is explored.
    let mut over = false;
    let mut go_on = |progress: gspn::Progress| {
        over |= matches!(progress, gspn::Progress::Exploring { done: 1.., .. });
        !over
    };
    let found = ask::answer(&net.net, &net.asks, &mut Budget::new(Limits::default(), &mut go_on)).unwrap();
    // One server each, half as fast: the rest of a geometric series.
    close(&found, "a", 1.0, 1e-9);
    assert_eq!(found.unanswered["da"].class, Class::TooLarge);
}
