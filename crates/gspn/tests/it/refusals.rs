//! Nets that are refused behind many firings: in time, and with firings that lead there or none.

use gspn::{Budget, Class, Limits, Refusal, ask, json};
use serde_json::{Value, json};

fn refuse(document: &Value, markings: u64) -> Refusal {
    let document = json::read(document.to_string().as_bytes()).unwrap();
    let mut go_on = |_| true;
    let limits = Limits { markings, ..Limits::default() };
    ask::answer(&document.net, &document.asks, &mut Budget::new(limits, &mut go_on)).unwrap_err()
}

/// Two hundred thousand immediate firings, then time passes, and then immediates fire for ever.
fn trap_behind(tokens: u64) -> Value {
    json!({"net": {"places": [{"name": "left", "tokens": tokens}, {"name": "done"}, {"name": "off"}, {"name": "end"}],
        "transitions": [
            {"name": "move", "kind": "immediate", "in": {"left": 1}, "out": {"done": 1}},
            {"name": "wait", "kind": "timed", "rate": 1, "in": {"done": tokens}, "out": {"off": 1}},
            {"name": "turn", "kind": "immediate", "in": {"off": 1}, "out": {"end": 1}},
            {"name": "back", "kind": "immediate", "in": {"end": 1}, "out": {"off": 1}}]}})
}

#[test]
fn a_trace_leads_from_the_initial_marking_or_is_not_there() {
    const FAR: u64 = 200_000;
    let refusal = refuse(&trap_behind(FAR), 8_000_000);
    assert_eq!(refusal.class, Class::TimelessTrap, "{refusal}");
    let moves = refusal.trace.iter().take_while(|step| *step == "move").count();
    assert_eq!((moves as u64, refusal.trace[moves..].join(" ").as_str()), (FAR, "wait"));
    // Beyond what is searched there is no part of a trace either.
    let refusal = refuse(&trap_behind(1_100_000), 8_000_000);
    assert_eq!((refusal.class, refusal.trace.as_slice()), (Class::TimelessTrap, &[][..]), "{refusal}");
}

/// Tokens are moved all at once, three for two, then go back one by one. No way repeats itself, since each waits for a place to be empty, and
/// none is gone so many times more often; and between two states there are soon more immediate firings than any search for a way should follow again and again.
#[test]
fn a_way_that_is_not_found_costs_as_much_as_one_that_is() {
    let document = json!({"net": {
        "places": [{"name": "p", "tokens": 2}, {"name": "q"}, {"name": "up", "tokens": 1}, {"name": "down"}],
        "transitions": [
            {"name": "more", "kind": "immediate", "priority": 2, "in": {"up": 1, "p": 2}, "out": {"up": 1, "q": 3}},
            {"name": "turn", "kind": "immediate", "in": {"up": 1}, "out": {"down": 1}},
            {"name": "back", "kind": "timed", "rate": 1, "in": {"down": 1, "q": 1}, "out": {"down": 1, "p": 1}},
            {"name": "again", "kind": "timed", "rate": 1, "in": {"down": 1}, "out": {"up": 1}, "inhibit": {"q": 1}}]}});
    let refusal = refuse(&document, 3_000_000);
    assert_eq!((refusal.class, refusal.name.as_str()), (Class::TooLarge, "markings"), "{refusal}");
}

/// One token goes round over thousands of places; markings are wide then, and few of them are much work.
#[test]
fn the_clock_is_looked_at_in_wide_nets() {
    const WIDE: usize = 3_000;
    let places: Vec<Value> =
        (0..WIDE).map(|at| json!({"name": format!("p{at}"), "tokens": u8::from(at == 0)})).collect();
    let step = |at: usize| {
        let mut step = json!({"name": format!("t{at}"), "kind": "immediate",
            "in": {format!("p{at}"): 1}, "out": {format!("p{}", (at + 1) % WIDE): 1}});
        if at == 0 {
            (step["kind"], step["rate"]) = (json!("timed"), json!(1.0));
        }
        step
    };
    let net = json!({"places": places, "transitions": (0..WIDE).map(step).collect::<Vec<_>>()});
    let document = json!({"net": net, "ask": [{"id": "x", "kind": "throughput", "transition": "t9"}]}).to_string();
    let document = json::read(document.as_bytes()).unwrap();
    let mut looks = 0;
    let mut go_on = |_| {
        looks += 1;
        true
    };
    let found = ask::answer(&document.net, &document.asks, &mut Budget::new(Limits::default(), &mut go_on)).unwrap();
    assert_eq!(found.values["x"], ask::Value::Number(1.0));
    assert!(looks > WIDE / 100, "{looks}");
}

/// Once everything is known a question more costs little, but there may be thousands of them: those that time was left for are answered.
#[test]
fn the_clock_is_looked_at_between_questions() {
    let document = json!({"net": {"places": [{"name": "a", "tokens": 1}, {"name": "b"}], "transitions": [
        {"name": "there", "kind": "timed", "rate": 1, "in": {"a": 1}, "out": {"b": 1}, "inhibit": {"b": 1}},
        {"name": "back", "kind": "timed", "rate": 3, "in": {"b": 1}, "out": {"a": 1}}]},
        "ask": [{"id": "one", "kind": "mean_tokens", "place": "a"}, {"id": "two", "kind": "mean_tokens", "place": "b"}]});
    let document = json::read(document.to_string().as_bytes()).unwrap();
    let mut go_on = |progress| !matches!(progress, gspn::Progress::Answering { done: 1.. });
    let found = ask::answer(&document.net, &document.asks, &mut Budget::new(Limits::default(), &mut go_on)).unwrap();
    assert_eq!(found.values.get("one"), Some(&ask::Value::Number(0.75)), "{found:?}");
    let refusal = &found.unanswered["two"];
    assert_eq!(refusal.class, Class::TooLarge);
    assert!(refusal.why.contains("before this was answered"), "{refusal}");
}

/// What exploration and one solution say is said first and stays, whatever takes the time after it, and however the questions are ordered.
#[test]
fn time_that_ends_takes_nothing_away_from_what_is_known() {
    let document = json!({"net": {"places": [{"name": "a", "tokens": 1}, {"name": "b"}], "transitions": [
        {"name": "there", "kind": "timed", "rate": 1, "in": {"a": 1}, "out": {"b": 1}, "inhibit": {"b": 1}},
        {"name": "back", "kind": "timed", "rate": 3, "in": {"b": 1}, "out": {"a": 1}}]},
        "ask": [{"id": "slope", "kind": "sensitivity", "of": {"kind": "mean_tokens", "place": "a"}, "wrt": "back"},
            {"id": "by", "kind": "passage_quantile", "where": [["b", "==", 1]], "p": 0.5},
            {"id": "soon", "kind": "mean_tokens", "place": "a", "at": 1},
            {"id": "classes", "kind": "bsccs"},
            {"id": "mean", "kind": "mean_tokens", "place": "a"},
            {"id": "states", "kind": "tangible"}]});
    let document = json::read(document.to_string().as_bytes()).unwrap();
    let ends: [(u64, &[&str]); 3] = [
        (0, &["classes", "states"]),
        (2, &["classes", "mean", "states"]),
        (5, &["by", "classes", "mean", "soon", "states"]),
    ];
    for (end, known) in ends {
        let mut over = false;
        let mut go_on = |progress| {
            over |= matches!(progress, gspn::Progress::Answering { done } if done >= end);
            !over
        };
        let budget = &mut Budget::new(Limits::default(), &mut go_on);
        let found = ask::answer(&document.net, &document.asks, budget).unwrap();
        assert_eq!(found.values.keys().collect::<Vec<_>>(), known, "{end}: {found:?}");
        assert!(found.unanswered.values().all(|refusal| refusal.class == Class::TooLarge), "{found:?}");
    }
}

/// The whole net is refused for what one of its transitions has too little or too much of: that one is named.
#[test]
fn rates_that_no_number_can_say_are_named() {
    let net = |rates: [f64; 2], weights: [f64; 2]| {
        let to = |place: &str| json!({(place): 1});
        json!({"net": {"places": [{"name": "a", "tokens": 1}, {"name": "b"}, {"name": "c"}], "transitions": [
            {"name": "slow", "kind": "timed", "rate": rates[0], "in": to("a"), "out": to("b")},
            {"name": "fast", "kind": "timed", "rate": rates[1], "in": to("a"), "out": to("c")},
            {"name": "here", "kind": "immediate", "weight": weights[0], "in": to("b"), "out": to("a")},
            {"name": "there", "kind": "immediate", "weight": weights[1], "in": to("b"), "out": to("c")},
            {"name": "back", "kind": "timed", "rate": 1.0, "in": to("c"), "out": to("a")}]}})
    };
    for (rates, weights, class, name) in [
        ([1e308, 1.7e308], [1.0, 1.0], Class::TooLarge, "fast"),
        ([1.0, 1.0], [1e-200, 1e200], Class::Unsupported, "slow"),
    ] {
        let refusal = refuse(&net(rates, weights), 1_000);
        assert_eq!((refusal.class, refusal.name.as_str()), (class, name), "{refusal}");
    }
    let mut short = net([1.0, 1.0], [1.0, 1.0]);
    short["net"]["transitions"][4] =
        json!({"name": "back", "kind": "deterministic", "delay": 5e-324, "in": {"c": 1}, "out": {"a": 1}});
    short["ask"] = json!([{"id": "a", "kind": "mean_tokens", "place": "a"}]);
    let refusal = refuse(&short, 1_000);
    assert_eq!((refusal.class, refusal.name.as_str()), (Class::TooLarge, "back"), "{refusal}");
}
