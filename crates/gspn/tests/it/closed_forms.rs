//! Nets whose answers are known in closed form, to nine digits.

use gspn::ask::{self, Answer, Value};

use gspn::{Budget, Class, Limits, Refusal, json};
use serde_json::json;

fn solve(document: &serde_json::Value) -> Result<Answer, Refusal> {
    let document = json::read(document.to_string().as_bytes())?;
    let limits = Limits { markings: document.limit.unwrap_or(Limits::default().markings), ..Limits::default() };
    let mut go_on = |_| true;
    ask::answer(&document.net, &document.asks, &mut Budget::new(limits, &mut go_on))
}

fn number(answer: &Answer, id: &str) -> f64 {
    match answer.values.get(id) {
        Some(Value::Number(value)) => *value,
        Some(Value::Count(value)) => *value as f64,
        None => panic!("`{id}` has no value: {:?}", answer.unanswered.get(id)),
    }
}

#[track_caller]
fn close(answer: &Answer, id: &str, wanted: f64) {
    let value = number(answer, id);
    assert!((value - wanted).abs() <= 1e-9 * wanted.abs().max(1e-300), "`{id}` is {value}, and {wanted} is wanted");
}

/// M/M/1/K, K = 5.
#[test]
fn a_queue_with_room_for_five() {
    let answer = solve(&json!({"net": {
    "places": [{"name": "queue"}, {"name": "room", "tokens": 5}],
    "transitions": [
        {"name": "arrive", "kind": "timed", "rate": 2.0, "in": {"room": 1}, "out": {"queue": 1}},
        {"name": "serve", "kind": "timed", "rate": 3.0, "in": {"queue": 1}, "out": {"room": 1}},
    ]},
    "ask": [
        {"id": "states", "kind": "tangible"},
        {"id": "mean", "kind": "mean_tokens", "place": "queue"},
        {"id": "full", "kind": "prob", "where": [["room", "==", 0]]},
        {"id": "out", "kind": "throughput", "transition": "serve"},
        {"id": "deadlocks", "kind": "deadlocks"},
        {"id": "classes", "kind": "bsccs"},
        {"id": "bound", "kind": "bound", "place": "queue"},
        {"id": "first_full", "kind": "passage_mean", "where": [["queue", ">=", 2]]},
        {"id": "soon", "kind": "mean_tokens", "place": "queue", "at": 0.0},
    ]}))
    .unwrap();
    let rho: f64 = 2.0 / 3.0;
    let sum: f64 = (0..6).map(|n| rho.powi(n)).sum();
    let mean: f64 = (0..6).map(|n| f64::from(n) * rho.powi(n)).sum::<f64>() / sum;
    close(&answer, "states", 6.0);
    close(&answer, "mean", mean);
    close(&answer, "full", rho.powi(5) / sum);
    close(&answer, "out", 2.0 * (1.0 - rho.powi(5) / sum));
    close(&answer, "deadlocks", 0.0);
    close(&answer, "classes", 1.0);
    close(&answer, "bound", 5.0);
    // T0 = 1/2 + T1; T1 = 1/5 + 3/5 T0.
    close(&answer, "first_full", 1.75);
    close(&answer, "soon", 0.0);
}

/// A choice of immediates that may go round before it ends.
#[test]
fn a_loop_of_immediates_ends_with_the_right_probabilities() {
    let answer = solve(&json!({"net": {
    "places": [{"name": "start", "tokens": 1}, {"name": "again"}, {"name": "left"}, {"name": "right"}],
    "transitions": [
        {"name": "retry", "kind": "immediate", "weight": 2, "in": {"start": 1}, "out": {"again": 1}},
        {"name": "go_left", "kind": "immediate", "weight": 1, "in": {"start": 1}, "out": {"left": 1}},
        {"name": "go_right", "kind": "immediate", "weight": 3, "in": {"start": 1}, "out": {"right": 1}},
        {"name": "back", "kind": "immediate", "priority": 4, "in": {"again": 1}, "out": {"start": 1}},
        {"name": "from_left", "kind": "timed", "rate": 1, "in": {"left": 1}, "out": {"start": 1}},
        {"name": "from_right", "kind": "timed", "rate": 2, "in": {"right": 1}, "out": {"start": 1}},
    ]},
    "ask": [
        {"id": "at_first", "kind": "initial_prob", "where": [["left", ">", 0]]},
        {"id": "vanished", "kind": "initial_prob", "where": [["again", ">", 0]]},
        {"id": "left", "kind": "prob", "where": [["left", "==", 1]]},
        {"id": "retries", "kind": "throughput", "transition": "retry"},
        {"id": "backs", "kind": "throughput", "transition": "back"},
        {"id": "vanishing", "kind": "vanishing"},
        {"id": "tangible", "kind": "tangible"},
    ]}))
    .unwrap();
    close(&answer, "at_first", 0.25);
    assert_eq!(json!(answer.values["vanished"]).to_string(), "0.0", "and not -0.0");
    // A round takes 1/4 * 1 + 3/4 * 1/2 and has 1/2 retries on average.
    let round = 0.25 + 0.375;
    close(&answer, "left", 0.25 / round);
    close(&answer, "retries", 0.5 / round);
    close(&answer, "backs", 0.5 / round);
    close(&answer, "vanishing", 2.0);
    close(&answer, "tangible", 2.0);
}

/// A choice that is hardly ever taken: its weight adds nothing to the sum of all.
#[test]
fn a_weight_of_next_to_nothing_takes_next_to_nothing() {
    let net = |rare: f64| {
        json!({"net": {
        "places": [{"name": "start", "tokens": 1}, {"name": "left"}, {"name": "right"}],
        "transitions": [
            {"name": "go_left", "kind": "immediate", "in": {"start": 1}, "out": {"left": 1}},
            {"name": "go_right", "kind": "immediate", "weight": rare, "in": {"start": 1}, "out": {"right": 1}},
            {"name": "from_left", "kind": "timed", "rate": 1, "in": {"left": 1}, "out": {"start": 1}},
            {"name": "from_right", "kind": "timed", "rate": 2, "in": {"right": 1}, "out": {"start": 1}},
        ]},
        "ask": [
            {"id": "left", "kind": "prob", "where": [["left", "==", 1]]},
            {"id": "right", "kind": "prob", "where": [["right", "==", 1]]},
            {"id": "taken", "kind": "throughput", "transition": "go_right"},
        ]})
    };
    for rare in [1e-3, 1e-15, 1e-17, 1e-100] {
        let answer = solve(&net(rare)).unwrap();
        // A round takes `rare` times 1/2 and 1 times 1.
        let round = 1.0 + rare / 2.0;
        close(&answer, "left", 1.0 / round);
        close(&answer, "right", rare / 2.0 / round);
        close(&answer, "taken", rare / round);
    }
}

/// Ways whose rate or probability no number can say are not left out in silence, and nobody calls them a trap.
#[test]
fn what_is_less_than_a_number_can_say_is_refused() {
    let net = |rate: f64, rare: f64, back: &str| {
        json!({"net": {
        "places": [{"name": "start", "tokens": 1}, {"name": "left"}, {"name": "right"}],
        "transitions": [
            {"name": "go_left", "kind": "immediate", "weight": 1e300, "in": {"start": 1}, "out": {"left": 1}},
            {"name": "go_right", "kind": "immediate", "weight": rare, "in": {"start": 1}, "out": {"right": 1}},
            {"name": "from_left", "kind": back, (if back == "timed" { "rate" } else { "weight" }): rate, "in": {"left": 1}, "out": {"start": 1}},
        ]},
        "ask": [{"id": "classes", "kind": "bsccs"}]})
    };
    for (rate, rare, back) in
        [(1e-10, 1e-20, "timed"), (1.0, 1e-30, "timed"), (1.0, 1e-20, "immediate"), (1.0, 1e-30, "immediate")]
    {
        let refusal = solve(&net(rate, rare, back)).unwrap_err();
        assert_eq!(refusal.class, Class::Unsupported, "{refusal:?}");
        assert!(refusal.why.contains("too far apart"), "{refusal:?}");
    }
}

/// Each rate is a number, and what leaves the state is none: nothing may be said of how long it is there.
#[test]
fn rates_that_add_up_to_no_number_are_refused() {
    let refusal = solve(&json!({"net": {
    "places": [{"name": "p", "tokens": 1}, {"name": "q"}],
    "transitions": [
        {"name": "one", "kind": "timed", "rate": 1e308, "in": {"p": 1}, "out": {"q": 1}},
        {"name": "two", "kind": "timed", "rate": 1e308, "in": {"p": 1}, "out": {"q": 1}},
        {"name": "back", "kind": "timed", "rate": 1.0, "in": {"q": 1}, "out": {"p": 1}},
    ]}, "ask": [{"id": "x", "kind": "throughput", "transition": "one"}]}))
    .unwrap_err();
    assert_eq!(refusal.class, Class::TooLarge, "{refusal:?}");
}

/// The time by which an exponential time is over, almost surely: what is left of 1 has all of its digits, too.
#[test]
fn late_percentiles_have_their_digits() {
    for gap in [1e-6, 1e-12, 2.0_f64.powi(-50)] {
        let level = 1.0 - gap;
        let answer = solve(&json!({"net": {
        "places": [{"name": "p", "tokens": 1}, {"name": "q"}],
        "transitions": [{"name": "go", "kind": "timed", "rate": 3.0, "in": {"p": 1}, "out": {"q": 1}}]},
        "ask": [{"id": "late", "kind": "passage_quantile", "where": [["q", "==", 1]], "p": level}]}))
        .unwrap();
        let late = number(&answer, "late");
        let wanted = -(1.0 - level).ln() / 3.0;
        assert!((late - wanted).abs() <= 1e-7 * wanted, "{gap}: {late}, and {wanted} is wanted");
    }
}

/// An M/D/1/2 queue against its closed form.
#[test]
fn a_fixed_service_time_is_solved_without_phases() {
    let answer = solve(&json!({"net": {
        "places": [{"name": "queue"}, {"name": "room", "tokens": 2}],
        "transitions": [
            {"name": "arrive", "kind": "timed", "rate": 1.0, "in": {"room": 1}, "out": {"queue": 1}},
            {"name": "serve", "kind": "deterministic", "delay": 1.0, "in": {"queue": 1}, "out": {"room": 1}},
        ]},
        "ask": [{"id": "empty", "kind": "prob", "where": [["queue", "==", 0]]}, {"id": "n", "kind": "tangible"},
            {"id": "served", "kind": "throughput", "transition": "serve"},
            {"id": "slope", "kind": "sensitivity", "of": {"kind": "prob", "where": [["queue", "==", 0]]}, "wrt": "arrive"}]}))
    .unwrap();
    // Embedded at departures: from empty, wait 1, then serve 1; the next finds none with e^-1.
    let stay = (-1.0_f64).exp();
    let empty = stay / (stay + 1.0);
    let value = number(&answer, "empty");
    assert!((value / empty - 1.0).abs() <= answer.error["empty"].min(1e-9), "{value}, and {empty} is wanted");
    close(&answer, "served", 1.0 - empty);
    close(&answer, "n", 3.0);
    // With rate r it is e^-r / (e^-r + r), so that the derivative is -(1 + r) e^-r / (e^-r + r)^2.
    let slope = -2.0 * stay / (stay + 1.0).powi(2);
    assert!((number(&answer, "slope") / slope - 1.0).abs() <= answer.error["slope"].min(1e-7), "{answer:?}");
}

/// Every derivative against the closed form of a two-state chain: up at rate a, down at rate b.
#[test]
fn derivatives_of_a_machine_that_fails() {
    let (fail, repair): (f64, f64) = (0.5, 3.0);
    let of = |question: serde_json::Value, by: &str| json!({"id": format!("{}:{by}", question["kind"].as_str().unwrap()), "kind": "sensitivity", "of": question, "wrt": by});
    let answer = solve(&json!({"net": {
        "places": [{"name": "up", "tokens": 1}, {"name": "down"}, {"name": "broken"}, {"name": "calls"}],
        "transitions": [
            {"name": "fail", "kind": "timed", "rate": fail, "in": {"up": 1}, "out": {"broken": 1}},
            {"name": "notice", "kind": "immediate", "in": {"broken": 1}, "out": {"down": 1}},
            {"name": "repair", "kind": "timed", "rate": repair, "in": {"down": 1}, "out": {"up": 1}},
        ]},
        "ask": [
            of(json!({"kind": "mean_tokens", "place": "up"}), "fail"),
            of(json!({"kind": "prob", "where": [["down", "==", 1]]}), "repair"),
            of(json!({"kind": "throughput", "transition": "notice"}), "fail"),
            of(json!({"kind": "passage_mean", "where": [["down", "==", 1]]}), "fail"),
            {"id": "repair:fail", "kind": "sensitivity", "of": {"kind": "throughput", "transition": "repair"}, "wrt": "fail"},
            {"id": "repair:repair", "kind": "sensitivity", "of": {"kind": "throughput", "transition": "repair"}, "wrt": "repair"},
        ]}))
    .unwrap();
    let both = (fail + repair).powi(2);
    close(&answer, "mean_tokens:fail", -repair / both);
    close(&answer, "prob:repair", -fail / both);
    close(&answer, "throughput:fail", repair * repair / both);
    close(&answer, "repair:fail", repair * repair / both);
    close(&answer, "repair:repair", fail * fail / both);
    close(&answer, "passage_mean:fail", -1.0 / (fail * fail));
}

/// A race into one of two ends: absorption, its derivative, and where it ends.
#[test]
fn absorption_into_two_ends() {
    let (left, right): (f64, f64) = (2.0, 3.0);
    let answer = solve(&json!({"net": {
    "places": [{"name": "start", "tokens": 1}, {"name": "left"}, {"name": "right"}],
    "transitions": [
        {"name": "go_left", "kind": "timed", "rate": left, "in": {"start": 1}, "out": {"left": 1}},
        {"name": "go_right", "kind": "timed", "rate": right, "in": {"start": 1}, "out": {"right": 1}},
    ]},
    "ask": [
        {"id": "mtta", "kind": "mtta"}, {"id": "bsccs", "kind": "bsccs"}, {"id": "deadlocks", "kind": "deadlocks"},
        {"id": "left", "kind": "prob", "where": [["left", "==", 1]]},
        {"id": "left_at", "kind": "prob", "where": [["left", "==", 1]], "at": 0.25},
        {"id": "median", "kind": "passage_quantile", "where": [["start", "==", 0]], "p": 0.5},
        {"id": "never", "kind": "passage_mean", "where": [["left", "==", 1]]},
        {"id": "dmtta", "kind": "sensitivity", "of": {"kind": "mtta"}, "wrt": "go_left"},
        {"id": "dleft", "kind": "sensitivity", "of": {"kind": "prob", "where": [["left", "==", 1]]}, "wrt": "go_left"},
    ]}))
    .unwrap();
    let sum = left + right;
    close(&answer, "mtta", 1.0 / sum);
    close(&answer, "bsccs", 2.0);
    close(&answer, "deadlocks", 2.0);
    close(&answer, "left", left / sum);
    close(&answer, "left_at", left / sum * (1.0 - (-sum * 0.25_f64).exp()));
    close(&answer, "median", 2.0_f64.ln() / sum);
    close(&answer, "dmtta", -1.0 / (sum * sum));
    close(&answer, "dleft", right / (sum * sum));
    assert!(answer.unanswered["never"].why.contains("0.4"), "{:?}", answer.unanswered);
}

/// What jumps at a fixed time is right beside the jump, and refused with both values in it.
#[test]
fn what_happens_beside_a_fixed_time_is_right() {
    let net = |asks: serde_json::Value| {
        json!({"net": {
        "places": [{"name": "a", "tokens": 1}, {"name": "b"}],
        "transitions": [
            {"name": "fixed", "kind": "deterministic", "delay": 1, "in": {"a": 1}, "out": {"b": 1}},
            {"name": "back", "kind": "timed", "rate": 1, "in": {"b": 1}, "out": {"a": 1}},
        ]}, "ask": asks})
    };
    // It ends at 1; back after an exponential time, and again 1.
    let exact = |time: f64| match time {
        _ if time < 1.0 => 0.0,
        _ if time < 2.0 => (1.0 - time).exp(),
        _ => (1.0 - time).exp() + (time - 2.0) * (2.0 - time).exp(),
    };
    let times = [0.3, 0.9, 0.98, 0.999, 0.9997, 1.0003, 1.001, 1.02, 1.1, 1.5, 1.9, 2.0, 2.1, 2.25, 2.5, 2.9];
    let ask = |time: f64| json!({"id": time.to_string(), "kind": "prob", "at": time, "where": [["b", "==", 1]]});
    let mut asks: Vec<_> = times.iter().map(|time| ask(*time)).collect();
    asks.extend([ask(1.0), json!({"id": "burst", "kind": "throughput", "at": 1.0, "transition": "fixed"})]);
    asks.extend(times.map(|at| json!({"id": format!("t{at}"), "kind": "throughput", "at": at, "transition": "fixed"})));
    // At 2 ends what began at 1, before which none had.
    asks.retain(|ask| ask["id"] != "t2");
    let answer = solve(&net(asks.into())).unwrap();
    for time in times {
        close(&answer, &time.to_string(), exact(time));
        // What ends at a time began one before, by the way back.
        if time != 2.0 {
            close(&answer, &format!("t{time}"), if time < 1.0 { 0.0 } else { exact(time - 1.0) });
        }
    }
    let why = &answer.unanswered["1"].why;
    assert!(why.contains("from 0.000000000 to 1.000000000"), "{why}");
    assert!(answer.unanswered["burst"].why.contains("fires right at this time"), "{answer:?}");
    let levels = [0.1, 0.3, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9];
    let asks = levels
        .iter()
        .map(|p| json!({"id": p.to_string(), "kind": "passage_quantile", "p": p, "where": [["b", "==", 1]]}));
    let answer = solve(&net(asks.collect())).unwrap();
    for level in levels {
        close(&answer, &level.to_string(), 1.0);
    }
}

/// A chain of groups that hardly know of each other: rates from 1e-9 to 1e6, product form.
#[test]
fn rates_far_apart_lose_no_digit() {
    let rungs = 40;
    let mut transitions = Vec::new();
    let rate = |rung: usize, up: bool| -> f64 {
        match (rung % 4, up) {
            (3, true) => 1e-9,
            (3, false) => 3e-9,
            (_, true) => 1e6,
            (_, false) => 2e-6 * 1e12,
        }
    };
    let places: Vec<_> =
        (0..=rungs).map(|rung| json!({"name": format!("p{rung}"), "tokens": u8::from(rung == 0)})).collect();
    for rung in 0..rungs {
        let (here, there) = (format!("p{rung}"), format!("p{}", rung + 1));
        transitions.push(json!({"name": format!("up{rung}"), "kind": "timed", "rate": rate(rung, true), "in": {&here: 1}, "out": {&there: 1}}));
        transitions.push(json!({"name": format!("down{rung}"), "kind": "timed", "rate": rate(rung, false), "in": {&there: 1}, "out": {&here: 1}}));
    }
    let asks: Vec<_> = (0..=rungs)
        .map(|rung| json!({"id": format!("p{rung}"), "kind": "prob", "where": [[format!("p{rung}"), "==", 1]]}))
        .collect();
    let answer = solve(&json!({"net": {"places": places, "transitions": transitions}, "ask": asks})).unwrap();
    let mut weights = vec![1.0];
    for rung in 0..rungs {
        weights.push(weights[rung] * rate(rung, true) / rate(rung, false));
    }
    let sum: f64 = weights.iter().sum();
    for (rung, weight) in weights.iter().enumerate() {
        close(&answer, &format!("p{rung}"), weight / sum);
    }
}

#[track_caller]
fn refused(document: &serde_json::Value, class: Class) -> Refusal {
    let refusal = solve(document).unwrap_err();
    assert_eq!(refusal.class, class, "{refusal:?}");
    refusal
}

#[test]
fn a_place_that_gathers_tokens_is_named_with_the_way_there() {
    let refusal = refused(
        &json!({"net": {
        "places": [{"name": "start", "tokens": 1}, {"name": "on"}, {"name": "heap"}],
        "transitions": [
            {"name": "switch", "kind": "timed", "rate": 1, "in": {"start": 1}, "out": {"on": 1}},
            {"name": "produce", "kind": "timed", "rate": 1, "in": {"on": 1}, "out": {"on": 1, "heap": 1}},
            {"name": "consume", "kind": "timed", "rate": 5, "in": {"heap": 1}},
        ]}}),
        Class::Unbounded,
    );
    assert_eq!(refusal.name, "heap");
    assert_eq!(refusal.trace, ["switch", "produce"]);
}

#[test]
fn an_inhibitor_that_stops_the_growth_makes_it_bounded() {
    let answer = solve(&json!({"net": {
        "places": [{"name": "heap"}],
        "transitions": [
            {"name": "produce", "kind": "timed", "rate": 1, "out": {"heap": 1}, "inhibit": {"heap": 4}},
            {"name": "consume", "kind": "timed", "rate": 1, "in": {"heap": 1}},
        ]}, "ask": [{"id": "n", "kind": "tangible"}]}))
    .unwrap();
    close(&answer, "n", 5.0);
}

#[test]
fn an_immediate_that_takes_away_what_grows_makes_it_bounded() {
    let answer = solve(&json!({"net": {
        "places": [{"name": "heap"}],
        "transitions": [
            {"name": "produce", "kind": "timed", "rate": 1, "out": {"heap": 1}},
            {"name": "clear", "kind": "immediate", "in": {"heap": 3}},
        ]}, "ask": [{"id": "n", "kind": "tangible"}, {"id": "clear", "kind": "throughput", "transition": "clear"}]}))
    .unwrap();
    close(&answer, "n", 3.0);
    close(&answer, "clear", 1.0 / 3.0);
}

#[test]
fn immediates_without_end_are_a_trap_or_gather_tokens() {
    let refusal = refused(
        &json!({"net": {
        "places": [{"name": "idle", "tokens": 1}, {"name": "a"}, {"name": "b"}],
        "transitions": [
            {"name": "begin", "kind": "timed", "rate": 1, "in": {"idle": 1}, "out": {"a": 1}},
            {"name": "there", "kind": "immediate", "in": {"a": 1}, "out": {"b": 1}},
            {"name": "back", "kind": "immediate", "in": {"b": 1}, "out": {"a": 1}},
        ]}}),
        Class::TimelessTrap,
    );
    assert_eq!(refusal.trace, ["begin"]);
    assert!(refusal.why.contains("`back`") && refusal.why.contains("`there`"), "{refusal}");
    let refusal = refused(
        &json!({"net": {
            "places": [{"name": "a", "tokens": 1}, {"name": "heap"}],
            "transitions": [{"name": "more", "kind": "immediate", "in": {"a": 1}, "out": {"a": 1, "heap": 1}}]}}),
        Class::Unbounded,
    );
    assert_eq!((refusal.name.as_str(), refusal.trace), ("heap", vec!["more".to_owned()]));
}

/// A limit is one of markings: the phases of a clock are none.
#[test]
fn phases_do_not_count_as_markings() {
    let net = |limit: u64| {
        json!({"limit": limit, "net": {"places": [{"name": "a", "tokens": 1}, {"name": "b"}], "transitions": [
            {"name": "there", "kind": "phase", "erlang": {"k": 40, "rate": 20}, "in": {"a": 1}, "out": {"b": 1}},
            {"name": "back", "kind": "timed", "rate": 1, "in": {"b": 1}, "out": {"a": 1}}]},
            "ask": [{"id": "n", "kind": "tangible"}, {"id": "b", "kind": "mean_tokens", "place": "b"}]})
    };
    let answer = solve(&net(2)).unwrap();
    close(&answer, "n", 2.0);
    close(&answer, "b", 1.0 / 3.0);
    assert_eq!(refused(&net(1), Class::TooLarge).name, "markings");
}

/// A way of a million markings, and a place that holds half as much more again and again without a way that could be repeated as it is, or
/// with some firings so many times more often.
#[test]
fn long_ways_end_at_the_limit_and_not_in_looking_back() {
    let refusal = refused(
        &json!({"limit": 300_000, "net": {
            "places": [{"name": "left", "tokens": 5_000_000_000_u64}, {"name": "right"}],
            "transitions": [{"name": "move", "kind": "timed", "rate": 1, "in": {"left": 1}, "out": {"right": 1}}]}}),
        Class::TooLarge,
    );
    assert_eq!(refusal.name, "markings");
    let refusal = refused(
        &json!({"limit": 300_000, "net": {
        "places": [{"name": "a", "tokens": 1}, {"name": "b"}, {"name": "x", "tokens": 2}, {"name": "y"}],
        "transitions": [
            {"name": "more", "kind": "timed", "rate": 1, "in": {"a": 1, "x": 2}, "out": {"a": 1, "y": 3}},
            {"name": "there", "kind": "timed", "rate": 1, "in": {"a": 1}, "out": {"b": 1}, "inhibit": {"x": 2}},
            {"name": "copy", "kind": "timed", "rate": 1, "in": {"b": 1, "y": 1}, "out": {"b": 1, "x": 1}},
            {"name": "back", "kind": "timed", "rate": 1, "in": {"b": 1}, "out": {"a": 1}, "inhibit": {"y": 1}},
        ]}}),
        Class::TooLarge,
    );
    assert_eq!(refusal.name, "markings");
    let refusal = refused(
        &json!({"net": {
            "places": [{"name": "a", "tokens": 1}],
            "transitions": [{"name": "slow", "kind": "phase", "erlang": {"k": 4_000_000_000_u64, "rate": 1}, "in": {"a": 1}}]}}),
        Class::TooLarge,
    );
    assert_eq!(refusal.name, "slow");
}

/// That Poisson's count of events with this mean is at least `events`.
fn at_least(events: u32, mean: f64) -> f64 {
    if mean < 0.0 || events == 0 {
        return if mean < 0.0 { 0.0 } else { 1.0 };
    }
    let mut term = (-mean).exp();
    let mut below = term;
    for count in 1..events {
        term *= mean / f64::from(count);
        below += term;
    }
    1.0 - below
}

/// A machine that fails after a fixed time, again and again: its probability to work bends beside each round.
#[test]
fn beside_the_rounds_of_a_fixed_time_values_are_right_to_their_error() {
    for repair in [0.3, 1.0, 3.0, 8.0, 30.0, 200.0] {
        let exact = |time: f64| -> f64 {
            let rounds = (0..8_u32).map(|round| (round, time - f64::from(round)));
            rounds.map(|(round, since)| at_least(round, repair * since) - at_least(round, repair * (since - 1.0))).sum()
        };
        let times: Vec<f64> = (1..=150).map(|step| f64::from(step) * 0.04 - 0.004).collect();
        let asks = times.iter().map(|at| json!({"id": at.to_string(), "kind": "mean_tokens", "place": "up", "at": at}));
        let answer = solve(&json!({"net": {
            "places": [{"name": "up", "tokens": 1}, {"name": "down"}],
            "transitions": [
                {"name": "fails", "kind": "deterministic", "delay": 1, "in": {"up": 1}, "out": {"down": 1}},
                {"name": "repair", "kind": "timed", "rate": repair, "in": {"down": 1}, "out": {"up": 1}},
            ]}, "ask": asks.collect::<Vec<_>>()}))
        .unwrap();
        for time in times {
            let (found, exact) = (number(&answer, &time.to_string()), exact(time));
            let (off, error) = ((found / exact - 1.0).abs(), answer.error[&time.to_string()]);
            assert!(
                off <= error + 1e-13 / exact,
                "{repair}, {time}: {found}, and {exact} is right: {off:e}, not {error:e}"
            );
            assert!(error < 1e-6, "{repair}, {time}: {error:e}");
        }
    }
}
