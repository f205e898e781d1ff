//! Values that are small beside what they could be, next to 0 and late: right in their digits, or said not to be known.

use gspn::Class;
use gspn::ask::{Answer, Value};
use serde_json::json;

use crate::asked::{close, solve};

/// A token that goes on at rate 1 from place 0 to the last; what is asked about `time`.
fn ladder(steps: u32, time: f64, asks: &[serde_json::Value]) -> Answer {
    let places: Vec<_> = (0..=steps).map(|at| json!({"name": format!("p{at}"), "tokens": u8::from(at == 0)})).collect();
    let transitions: Vec<_> = (0..steps)
        .map(|at| {
            json!({"name": format!("t{at}"), "kind": "timed", "rate": 1,
            "in": {format!("p{at}"): 1}, "out": {format!("p{}", at + 1): 1}})
        })
        .collect();
    let last = json!([[format!("p{steps}"), "==", 1]]);
    let end = json!({"kind": "prob", "where": last, "at": time});
    let mut all = vec![
        json!({"id": "first", "kind": "prob", "where": [["p0", "==", 1]], "at": time}),
        json!({"id": "end", "kind": "prob", "where": last, "at": time}),
        json!({"id": "into", "kind": "throughput", "transition": format!("t{}", steps - 1), "at": time}),
        json!({"id": "slope", "kind": "sensitivity", "of": end, "wrt": "t0"}),
    ];
    all.extend(asks.iter().cloned());
    solve(&json!({"net": {"places": places, "transitions": transitions}, "ask": all}))
}

/// Poisson's probability of `count`.
fn poisson(mean: f64, count: u32) -> f64 {
    (1..=count).fold((-mean).exp(), |weight, step| weight * mean / f64::from(step))
}

/// Of at least `count`.
fn tail(mean: f64, count: u32) -> f64 {
    let below: f64 = (0..count).map(|count| poisson(mean, count)).sum();
    if below < 0.9 { 1.0 - below } else { (count..count + 400).map(|count| poisson(mean, count)).sum() }
}

#[test]
fn a_token_that_cannot_have_come_far_yet_or_is_hardly_still_there() {
    for (steps, time) in [
        (3_u32, 1e-3),
        (5, 1e-3),
        (8, 1e-3),
        (30, 1e-3),
        (60, 1e-3),
        (20, 0.5),
        (40, 2.0),
        (3, 100.0),
        (12, 100.0),
        (12, 230.0),
    ] {
        let answer = ladder(steps, time, &[]);
        close(&answer, "first", poisson(time, 0));
        close(&answer, "into", poisson(time, steps - 1));
        close(&answer, "end", tail(time, steps));
        // One more step of rate 1 is what a faster first step saves.
        let slope = poisson(time, steps);
        let Some(Value::Number(value)) = answer.values.get("slope") else { panic!("{:?}", answer.unanswered) };
        assert!(
            (value - slope).abs() <= 1e-7 * slope.max(tail(time, steps)),
            "{steps} {time}: {value:e} for {slope:e}"
        );
        if time < 1.0 {
            close(&answer, "slope", slope);
        }
    }
}

#[test]
fn what_no_number_can_say_is_said_to_be_less() {
    let answer = ladder(12, 2_000.0, &[]);
    assert_eq!(answer.values["first"], Value::Number(0.0));
    assert!(answer.method["first"].contains("at most") && answer.error["first"] == 1.0, "{answer:?}");
    close(&answer, "end", 1.0);
}

#[test]
fn times_by_which_hardly_anything_has_happened() {
    for (steps, level) in [(1, 1e-12), (1, 1e-100), (2, 1e-60), (8, 1e-30), (8, 1e-12), (30, 1e-30), (3, 1e-200)] {
        let last = json!([[format!("p{steps}"), "==", 1]]);
        let asks = [
            json!({"id": "by", "kind": "passage_quantile", "where": last, "p": level}),
            json!({"id": "faster", "kind": "sensitivity", "wrt": "t0",
                "of": {"kind": "passage_quantile", "where": last, "p": level}}),
        ];
        let answer = ladder(steps, 1.0, &asks);
        let Some(Value::Number(time)) = answer.values.get("by") else {
            panic!("{steps} {level}: {:?}", answer.unanswered)
        };
        let off = tail(*time, steps) / level - 1.0;
        assert!(off.abs() < 1e-6, "{steps}, {level:e}: {time:e} is {off:e} off");
        // All of its ways take all rates alike.
        close(&answer, "faster", -poisson(*time, steps) / poisson(*time, steps - 1));
    }
    let asks = [json!({"id": "by", "kind": "passage_quantile", "where": [["p1", "==", 1]], "p": 1e-300})];
    assert_eq!(ladder(1, 1.0, &asks).unanswered["by"].class, Class::Unsupported);
}

/// Where a machine that fails and is repaired is, after ever longer times.
#[test]
fn slopes_at_late_times_are_right_or_left_open() {
    let mut answered = 0;
    for exponent in [2, 6, 9, 12, 15, 20, 25, 50, 100, 155, 200, 300, 308] {
        let time = 10.0_f64.powi(exponent);
        let of = json!({"kind": "prob", "where": [["down", "==", 1]], "at": time});
        let answer = solve(&json!({"net": {"places": [{"name": "up", "tokens": 1}, {"name": "down"}], "transitions": [
            {"name": "fail", "kind": "timed", "rate": 1, "in": {"up": 1}, "out": {"down": 1}},
            {"name": "repair", "kind": "timed", "rate": 2, "in": {"down": 1}, "out": {"up": 1}}]},
            "ask": [{"id": "slope", "kind": "sensitivity", "of": of, "wrt": "fail"}]}));
        if let Some(Value::Number(value)) = answer.values.get("slope") {
            assert!((value - 2.0 / 9.0).abs() < 1e-7, "1e{exponent}: {value}");
            answered += 1;
        }
    }
    assert!(answered >= 5, "{answered}");
}

/// A fixed time against a row of phases that nearly always ends first.
#[test]
fn a_fixed_time_that_hardly_ever_wins_is_not_said_to_never_win() {
    for (stages, rate) in [(10_u32, 50.0), (40, 60.0), (6, 20.0), (2, 20.0), (1, 12.0)] {
        let answer = solve(
            &json!({"net": {"places": [{"name": "s", "tokens": 1}, {"name": "fixed"}, {"name": "phases"}],
            "transitions": [
                {"name": "d", "kind": "deterministic", "delay": 1, "in": {"s": 1}, "out": {"fixed": 1}},
                {"name": "e", "kind": "phase", "erlang": {"k": stages, "rate": rate}, "in": {"s": 1}, "out": {"phases": 1}}]},
            "ask": [{"id": "prob", "kind": "prob", "where": [["fixed", "==", 1]]},
                {"id": "mean", "kind": "mean_tokens", "place": "fixed"}]}),
        );
        let wanted: f64 = (0..stages).map(|count| poisson(rate, count)).sum();
        for id in ["prob", "mean"] {
            if let Some(Value::Number(value)) = answer.values.get(id) {
                assert!((value - wanted).abs() <= 1e-2 * wanted, "{stages} of {rate}: {value:e}, {wanted:e} is wanted");
            }
        }
    }
}

/// What cannot have happened yet is 0, and the longest fixed time that can be written down has a mean.
#[test]
fn fixed_times_of_any_length() {
    let answer = solve(&json!({"net": {"places": [{"name": "a", "tokens": 1}, {"name": "b"}], "transitions": [
        {"name": "d", "kind": "deterministic", "delay": 1e308, "in": {"a": 1}, "out": {"b": 1}},
        {"name": "u", "kind": "timed", "rate": 2, "in": {"b": 1}, "out": {"a": 1}}]},
        "ask": [{"id": "there", "kind": "passage_mean", "where": [["b", ">", 0]]},
            {"id": "soon", "kind": "prob", "where": [["b", ">", 0]], "at": 5e307},
            {"id": "half", "kind": "passage_quantile", "where": [["b", ">", 0]], "p": 0.5}]}));
    assert!(
        answer.values.values().all(|value| !matches!(value, Value::Number(value) if !value.is_finite())),
        "{answer:?}"
    );
    close(&answer, "there", 1e308);
    assert!(answer.values.len() + answer.unanswered.len() == 3);
    if let Some(value) = answer.values.get("soon") {
        assert_eq!(*value, Value::Number(0.0));
    }
}

/// A token that leaves once in 1,538 time units, asked for after a million, beside a chain whose rates are ten powers apart from that: e^-650
/// is less than the inverse of a transform can tell, and 0 is not its value.
#[test]
fn less_than_a_transform_can_tell_is_said_to_be_so() {
    let steps = 120;
    let mut places: Vec<_> =
        (0..steps).map(|at| json!({"name": format!("f{at}"), "tokens": u8::from(at == 0)})).collect();
    places.extend([json!({"name": "here", "tokens": 1}), json!({"name": "gone"})]);
    let moves = |name: String, rate: f64, from: String, to: String| json!({"name": name, "kind": "timed", "rate": rate, "in": {from: 1}, "out": {to: 1}});
    let mut transitions = vec![moves("leave".into(), 6.5e-4, "here".into(), "gone".into())];
    for at in 1..steps {
        transitions.push(moves(format!("u{at}"), 1e6, format!("f{}", at - 1), format!("f{at}")));
        transitions.push(moves(format!("d{at}"), 2e6, format!("f{at}"), format!("f{}", at - 1)));
    }
    let asks = json!([{"id": "here", "kind": "prob", "where": [["here", "==", 1]], "at": 1e6},
        {"id": "earlier", "kind": "prob", "where": [["here", "==", 1]], "at": 1e5}]);
    let answer = solve(&json!({"net": {"places": places, "transitions": transitions}, "ask": asks}));
    match answer.values.get("here") {
        Some(Value::Number(0.0)) => {
            assert_eq!(answer.error["here"], 1.0, "{answer:?}");
            assert!(answer.method["here"].contains("at most, said as 0"), "{answer:?}");
        }
        Some(Value::Number(value)) => {
            assert!((value / (-650.0_f64).exp() - 1.0).abs() <= answer.error["here"].min(1e-6), "{answer:?}")
        }
        _ => assert!(answer.unanswered.contains_key("here")),
    }
    close(&answer, "earlier", (-65.0_f64).exp());
}

/// Between 1e-300 and 1e300 a long run has no digits, and when it begins is known all the same.
#[test]
fn a_time_until_a_class_is_entered_needs_no_long_run_inside() {
    let timed = |name: &str, rate: f64, from: &str, to: &str| json!({"name": name, "kind": "timed", "rate": rate, "in": {from: 1}, "out": {to: 1}});
    let answer = |start: &str, ring: &[serde_json::Value]| {
        let places = ["s", "a", "b", "c"].map(|name| json!({"name": name, "tokens": u8::from(name == start)}));
        let transitions = [&[timed("begin", 4.0, "s", "a")], ring].concat();
        solve(&json!({"net": {"places": places, "transitions": transitions},
            "ask": [{"id": "until", "kind": "mtta"}, {"id": "b", "kind": "mean_tokens", "place": "b"}]}))
    };
    let three = [timed("ab", 1e300, "a", "b"), timed("bc", 1e-300, "b", "c"), timed("ca", 1e300, "c", "a")];
    let two = [timed("there", 1e300, "a", "b"), timed("back", 1e-300, "b", "a")];
    for ring in [&three[..], &two] {
        for (start, until) in [("a", 0.0), ("b", 0.0), ("s", 0.25)] {
            let answer = answer(start, ring);
            close(&answer, "until", until);
            // Why, and what to do.
            let refusal = &answer.unanswered["b"];
            assert_eq!(refusal.class, Class::Unsupported);
            for said in ["from 1e-300 to 1e300", "600 orders of magnitude", "leave out"] {
                assert!(refusal.why.contains(said), "{start}: {said}: {refusal}");
            }
        }
    }
}

/// Tokens that go over from `a` to `b` with these rates by those that are there, and back at rate 1; so many are there at the beginning.
fn over(rates: &[f64], start: usize) -> Answer {
    let all = rates.len();
    solve(
        &json!({"net": {"places": [{"name": "a", "tokens": all - start}, {"name": "b", "tokens": start}], "transitions": [
        {"name": "up", "kind": "timed", "rate_by_tokens": {"place": "b", "rates": rates}, "in": {"a": 1}, "out": {"b": 1}},
        {"name": "down", "kind": "timed", "rate": 1, "in": {"b": 1}, "out": {"a": 1}}]},
        "ask": [{"id": "mean", "kind": "mean_tokens", "place": "b"},
            {"id": "all", "kind": "prob", "where": [["b", "==", all]]},
            {"id": "slope", "kind": "sensitivity", "wrt": "down", "of": {"kind": "mean_tokens", "place": "b"}}]}),
    )
}

/// Whatever the marking is that it starts from: a few markings, and thousands with as many on either side of the one that is hardly ever there.
#[test]
fn what_is_joined_by_a_marking_that_is_less_than_a_number_can_say() {
    for start in 0..=4 {
        let answer = over(&[1e-200, 1e-200, 1e200, 1e200], start);
        close(&answer, "mean", 2.0);
        close(&answer, "all", 0.5);
        assert!(answer.unanswered["slope"].why.contains("less than a number can say"), "{answer:?}");
        let answer = over(&[1e-160, 1e-160, 1e160, 1e150], start);
        close(&answer, "all", 1e-10 / (1.0 + 1e-10));
        close(&answer, "mean", 4e-10 / (1.0 + 1e-10));
    }
    // What is left of its flows does not balance.
    for start in 0..=3 {
        let answer = over(&[2.5e-300, 2.5e-150, 2.5e150], start);
        assert!(answer.unanswered["mean"].why.contains("more or less than a number can say"), "{answer:?}");
    }
    let rates: Vec<f64> = (0..2_400).map(|at| if at < 1_200 { 0.5 } else { 2.0 }).collect();
    for start in [0, 1_000, 2_400] {
        close(&over(&rates, start), "mean", 1_200.0);
    }
}

/// How the time until two tokens are gone changes with the faster of both: by ever less beside the time itself.
#[test]
fn a_derivative_that_is_little_beside_its_value_says_how_far_off_it_may_be() {
    let mut said = 0;
    for rate in [2.0_f64, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e12, 1e20] {
        let answer = solve(
            &json!({"net": {"places": [{"name": "a", "tokens": 1}, {"name": "b", "tokens": 1}], "transitions": [
            {"name": "f", "kind": "timed", "rate": rate, "in": {"a": 1}}, {"name": "s", "kind": "timed", "rate": 1, "in": {"b": 1}}]},
            "ask": [{"id": "slope", "kind": "sensitivity", "wrt": "f", "of": {"kind": "mtta"}}]}),
        );
        let Value::Number(slope) = answer.values["slope"] else { panic!("{answer:?}") };
        let wanted = -(2.0 * rate + 1.0) / (rate * (1.0 + rate)).powi(2);
        let off = (slope - wanted).abs() / wanted.abs();
        let error = answer.error.get("slope").copied().unwrap_or(1e-8);
        assert!(off <= error, "{rate:e}: {slope:e} for {wanted:e}, and {error:e} is said");
        said += usize::from(answer.method.contains_key("slope"));
    }
    assert!((3..10).contains(&said), "{said}");
}
