//! Nets of many states whose answers are known: closed networks, by convolution (Buzen).

use gspn::ask::{self, Answer, Value};
use gspn::{Budget, Limits, Progress, json};
use serde_json::json;

/// Customers go from station 0, which has a server for each, to one of the others and back. `rates` are those of one server.
fn solve(customers: usize, rates: &[f64], weights: &[f64]) -> Answer {
    let mut places = vec![json!({"name": "q0", "tokens": customers}), json!({"name": "route"})];
    let mut transitions = vec![
        json!({"name": "s0", "kind": "timed", "servers": "inf", "rate": rates[0], "in": {"q0": 1}, "out": {"route": 1}}),
    ];
    for (station, rate) in rates.iter().enumerate().skip(1) {
        let queue = format!("q{station}");
        places.push(json!({"name": queue}));
        transitions.push(json!({"name": format!("to{station}"), "kind": "immediate", "weight": weights[station - 1],
            "in": {"route": 1}, "out": {&queue: 1}}));
        transitions.push(json!({"name": format!("s{station}"), "kind": "timed", "rate": rate,
            "in": {queue: 1}, "out": {"q0": 1}}));
    }
    let rate = json!({"kind": "throughput", "transition": "s0"});
    let document = json!({"net": {"places": places, "transitions": transitions}, "ask": [
        {"id": "states", "kind": "tangible"},
        {"id": "rate", "kind": "throughput", "transition": "s0"},
        {"id": "mean", "kind": "mean_tokens", "place": "q1"},
        {"id": "empty", "kind": "prob", "where": [["q0", "==", 0]]},
        {"id": "all", "kind": "prob", "where": [["q0", "==", customers]]},
        {"id": "slope0", "kind": "sensitivity", "of": rate, "wrt": "s0"},
        {"id": "slope1", "kind": "sensitivity", "of": rate, "wrt": "s1"},
    ]});
    let document = json::read(document.to_string().as_bytes()).unwrap();
    let mut go_on = |_| true;
    ask::answer(&document.net, &document.asks, &mut Budget::new(Limits::default(), &mut go_on)).unwrap()
}

/// Sums over all ways to spread the customers of the products of the stations' weights, by customers; without the stations in `left_out`.
fn sums(customers: usize, rates: &[f64], weights: &[f64], left_out: &[usize]) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    let mut sums = vec![0.0; customers + 1];
    sums[0] = 1.0;
    for station in (0..rates.len()).filter(|station| !left_out.contains(station)) {
        let demand = if station == 0 { 1.0 } else { weights[station - 1] / total } / rates[station];
        let mut next = vec![0.0; customers + 1];
        let mut weight = 1.0;
        for here in 0..=customers {
            (here..=customers).for_each(|all| next[all] += weight * sums[all - here]);
            weight *= demand / if station == 0 { (here + 1) as f64 } else { 1.0 };
        }
        sums = next;
    }
    sums
}

#[track_caller]
fn close(answer: &Answer, id: &str, wanted: f64, digits: i32) {
    let Some(Value::Number(value)) = answer.values.get(id) else { panic!("`{id}`: {:?}", answer.unanswered.get(id)) };
    let error = (value - wanted).abs() / wanted.abs();
    assert!(error <= 10.0_f64.powi(-digits), "`{id}` is {value}, and {wanted} is wanted: {error:e}");
}

fn compare(customers: usize, rates: &[f64], weights: &[f64], digits: i32) {
    let answer = solve(customers, rates, weights);
    let all = sums(customers, rates, weights, &[]);
    let rate = |rates: &[f64]| {
        let sums = sums(customers, rates, weights, &[]);
        sums[customers - 1] / sums[customers]
    };
    assert!(matches!(answer.values["states"], Value::Count(count) if count > 5_000));
    close(&answer, "rate", rate(rates), digits);
    close(&answer, "empty", sums(customers, rates, weights, &[0])[customers] / all[customers], digits);
    let here = |customers: usize| (1..=customers).map(|n| 1.0 / (n as f64 * rates[0])).product::<f64>();
    close(&answer, "all", here(customers) / all[customers], digits);
    let demand = weights[0] / weights.iter().sum::<f64>() / rates[1];
    let mean: f64 = (1..=customers).map(|n| demand.powi(n as i32) * all[customers - n]).sum();
    close(&answer, "mean", mean / all[customers], digits);
    for (station, id) in [(0, "slope0"), (1, "slope1")] {
        // By a difference of the fourth order.
        let at = |step: f64| {
            let mut rates = rates.to_vec();
            rates[station] *= 1.0 + step;
            rate(&rates)
        };
        let step = 1e-3;
        let slope =
            (8.0 * (at(step) - at(-step)) - (at(2.0 * step) - at(-2.0 * step))) / (12.0 * step) / rates[station];
        close(&answer, id, slope, 6);
    }
}

#[test]
fn a_closed_network_of_many_states() {
    compare(14, &[0.5, 1.3, 1.6, 1.9, 2.2, 1.0], &[1.0, 2.0, 3.0, 4.0, 5.0], 9);
}

/// Rates from 1e-6 to 1e6.
#[test]
fn a_closed_network_with_rates_far_apart() {
    compare(12, &[1e-6, 2e-6, 1e-3, 1.0, 1e3, 1e6], &[1.0, 2.0, 3.0, 4.0, 5.0], 7);
}

/// One station is hardly ever visited, and takes its time.
#[test]
fn a_closed_network_with_a_part_that_hardly_takes_part() {
    compare(12, &[1e3, 1e-6, 1.6e3, 1.9e3, 2.2e3, 1.0e3], &[1e-9, 2.0, 3.0, 4.0, 5.0], 7);
}

const RATES: [f64; 4] = [1.0, 1.1, 1.2, 4.0];

/// How likely there are at least so many at places of a ring of four stations with one server each, which is more than two populations.
fn ring(customers: usize, asked: &[(&str, usize)], go_on: &mut dyn FnMut(Progress) -> bool) -> Answer {
    let places = (0..4).map(|at| json!({"name": format!("q{at}"), "tokens": if at == 0 { customers } else { 0 }}));
    let transitions = (0..4).map(|at| {
        let (from, to) = (format!("q{at}"), format!("q{}", (at + 1) % 4));
        // That many are never there; but nobody looks for a product form where something inhibits.
        let never = json!({"q3": customers + 1});
        json!({"name": format!("s{at}"), "kind": "timed", "rate": RATES[at], "in": {from: 1}, "out": {to: 1}, "inhibit": never})
    });
    let (places, transitions): (Vec<_>, Vec<_>) = (places.collect(), transitions.collect());
    let ask = |(place, least): &(&str, usize)| json!({"id": format!("{place} {least}"), "kind": "prob", "where": [[place, ">=", least]]});
    let asks: Vec<_> = asked.iter().map(ask).collect();
    let document = json!({"net": {"places": places, "transitions": transitions}, "ask": asks});
    let document = json::read(document.to_string().as_bytes()).unwrap();
    ask::answer(&document.net, &document.asks, &mut Budget::new(Limits::default(), go_on)).unwrap()
}

/// Four stations in a ring, with one server each: what hangs on states that are hardly ever taken has its digits, beside what does not.
#[test]
fn rare_states_have_their_digits_where_a_question_hangs_on_them() {
    let (customers, rates) = (86, RATES);
    let asked = [("q1", 10), ("q1", 80), ("q3", 20), ("q3", 40), ("q3", 60), ("q3", 86)];
    let answer = ring(customers, &asked, &mut |_| true);
    let shares: [f64; 4] = rates.map(|rate| 1.0 / rate);
    // Sums over all ways to spread so many customers.
    let mut sums = vec![0.0; customers + 1];
    sums[0] = 1.0;
    for share in shares {
        (1..=customers).for_each(|count| sums[count] += share * sums[count - 1]);
    }
    for (place, least) in asked {
        let at = if place == "q1" { 1 } else { 3 };
        let wanted = shares[at].powi(least as i32) * sums[customers - least] / sums[customers];
        let Some(Value::Number(found)) = answer.values.get(&format!("{place} {least}")) else { panic!("{answer:?}") };
        assert!((found - wanted).abs() < 1e-8 * wanted, "{place} {least}: {found:e} {wanted:e}");
    }
}

/// What hangs on rare states is asked last, and time that ends meanwhile takes nothing from the others.
#[test]
fn what_hangs_on_rare_states_is_asked_last() {
    let mut open = true;
    let answer = ring(86, &[("q3", 86), ("q1", 10)], &mut |progress| {
        open &= !matches!(progress, Progress::Answering { done: 1 });
        open
    });
    assert!(answer.values.contains_key("q1 10") && answer.values.len() == 1, "{answer:?}");
    assert!(answer.unanswered["q3 86"].why.contains("before this was answered"), "{answer:?}");
}

/// Each of thousands of immediates that take from one place touches all others: what would be listed is their square.
#[test]
fn thousands_of_immediates_may_share_a_place() {
    let count = 6_000;
    let transitions: Vec<serde_json::Value> = (0..count)
        .map(|at| {
            let to = if at % 3 == 0 { "b" } else { "c" };
            serde_json::json!({"name": format!("t{at}"), "kind": "immediate", "in": {"a": 1}, "out": {to: 1}})
        })
        .chain([("from b", "b"), ("from c", "c")].map(|(name, from)| {
            serde_json::json!({"name": name, "kind": "timed", "rate": 1, "in": {from: 1}, "out": {"a": 1}})
        }))
        .collect();
    let net = serde_json::json!({"net": {"places": [{"name": "a", "tokens": 1}, {"name": "b"}, {"name": "c"}], "transitions": transitions},
        "ask": [{"id": "b", "kind": "mean_tokens", "place": "b"}]});
    let document = gspn::json::read(net.to_string().as_bytes()).unwrap();
    let limits = gspn::Limits { bytes: 64 << 20, ..gspn::Limits::default() };
    let answer =
        gspn::ask::answer(&document.net, &document.asks, &mut gspn::Budget::new(limits, &mut |_| true)).unwrap();
    let gspn::ask::Value::Number(b) = answer.values["b"] else { panic!("a number") };
    assert!((b - 1.0 / 3.0).abs() < 1e-12, "{b}");
    // A run would list them.
    let plan = gspn::simulate::Plan::default();
    let refusal =
        gspn::simulate::simulate(&document.net, &document.asks, plan, &mut gspn::Budget::new(limits, &mut |_| true))
            .unwrap_err();
    assert_eq!((refusal.class, refusal.name.as_str()), (gspn::Class::TooLarge, "memory"));
}

/// What is looked for at each marking on the way up does not go through a table to its end.
#[test]
fn a_table_of_many_entries_is_as_quick_as_a_short_one() {
    let count = 300_000;
    let rates: Vec<f64> = (0..=count).map(|entry| if entry < count { 1.0 } else { 0.0 }).collect();
    let net = json!({"net": {"places": [{"name": "q"}], "transitions": [
        {"name": "come", "kind": "timed", "out": {"q": 1}, "rate_by_tokens": {"place": "q", "rates": rates}},
        {"name": "leave", "kind": "timed", "rate": 1, "in": {"q": 1}},
    ]}, "ask": [{"id": "mean", "kind": "mean_tokens", "place": "q"}]});
    let document = json::read(net.to_string().as_bytes()).unwrap();
    let answer =
        ask::answer(&document.net, &document.asks, &mut Budget::new(Limits::default(), &mut |_| true)).unwrap();
    close(&answer, "mean", f64::from(count) / 2.0, 9);
}
