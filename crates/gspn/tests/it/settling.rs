//! Chains that sweeps settle slowly or not at all: lines and narrow bands, and states that hardly anybody is ever in.

use gspn::ask::{self, Answer, Value};
use gspn::{Budget, Limits, Progress, json};
use serde_json::{Value as Json, json};

/// Sweeps after which it is first looked how they go; fewer are looks of others.
const ROUND: u64 = 6;

/// The answer, how often the clock was looked at while equations were solved, and the most sweeps that were said.
fn solved(document: &Json) -> (Answer, usize, u64) {
    let document = json::read(document.to_string().as_bytes()).unwrap();
    let (mut looks, mut most) = (0, 0);
    let mut go_on = |progress| {
        if let Progress::Solving { sweeps, .. } = progress {
            (looks, most) = (looks + 1, most.max(sweeps));
        }
        true
    };
    let answer = ask::answer(&document.net, &document.asks, &mut Budget::new(Limits::default(), &mut go_on)).unwrap();
    (answer, looks, most)
}

fn close(answer: &Answer, id: &str, wanted: f64) {
    let Some(Value::Number(value)) = answer.values.get(id) else { panic!("{id}: {:?}", answer.unanswered) };
    assert!((value / wanted - 1.0).abs() < 1e-9, "{id}: {value:e}, and {wanted:e} is right");
}

/// Tokens come and go one by one, looked at by an inhibitor that never stops them: no product form.
fn line(tokens: u64, up: f64, down: f64, asks: &Json) -> Json {
    json!({"net": {"places": [{"name": "q"}, {"name": "r", "tokens": tokens}, {"name": "c", "tokens": 1}],
        "transitions": [
            {"name": "up", "kind": "timed", "rate": up, "in": {"r": 1, "c": 1}, "out": {"q": 1, "c": 1}},
            {"name": "down", "kind": "timed", "rate": down, "in": {"q": 1}, "out": {"r": 1}, "inhibit": {"c": 2}}]},
        "ask": asks})
}

#[test]
fn a_line_takes_no_sweeps() {
    const LAST: u64 = 100_000;
    let asks = json!([{"id": "mean", "kind": "mean_tokens", "place": "q"}, {"id": "flow", "kind": "throughput", "transition": "up"}]);
    for (up, down) in [(1.0, 1.001), (1.001, 1.0), (1.0, 100.0), (3.0, 3.0)] {
        let (answer, _, sweeps) = solved(&line(LAST, up, down, &asks));
        // Shares are powers of the ratio, which is at most 1 from the nearer end.
        let ratio = f64::min(up / down, down / up);
        let (mut all, mut far, mut power) = (0.0, 0.0, 1.0);
        for at in 0..=LAST {
            (all, far) = (all + power, far + power * at as f64);
            power *= ratio;
        }
        let mean = far / all;
        let up_is_less = up <= down;
        close(&answer, "mean", if up_is_less { mean } else { LAST as f64 - mean });
        let full = ratio.powf(LAST as f64) / all;
        close(&answer, "flow", up * (1.0 - if up_is_less { full } else { 1.0 / all }));
        assert!(sweeps < ROUND, "{up} and {down}: {sweeps}");
    }
}

#[test]
fn the_end_of_a_line_is_reached_without_sweeps() {
    const LAST: u64 = 100_000;
    let asks = json!([{"id": "there", "kind": "passage_mean", "where": [["q", ">=", LAST]]}]);
    let last = LAST as f64;
    for (up, wanted) in [(1.0, last * (last + 1.0) / 2.0), (2.0, last - 1.0)] {
        let (answer, _, sweeps) = solved(&line(LAST, up, 1.0, &asks));
        close(&answer, "there", wanted);
        assert!(sweeps < ROUND, "{up}: {sweeps}");
    }
}

/// In the order in which they are found, the first and the last state of a round know each other.
#[test]
fn a_round_takes_no_sweeps() {
    const TOKENS: u64 = 20_000;
    let turn = |name: &str, from: &str, to: &str, tokens: u64| {
        json!({"name": name, "kind": "timed", "rate_by_tokens": {"place": from, "rates": [0, 1, 2]}, "in": {from: 1}, "out": {to: 1},
            "inhibit": {"never": tokens}})
    };
    let mut transitions = vec![turn("on", "a", "b", 1)];
    transitions.push(json!({"name": "back", "kind": "timed", "rate": 0.5, "in": {"b": TOKENS}, "out": {"a": TOKENS}}));
    let document = json!({"net": {"places": [{"name": "a", "tokens": TOKENS}, {"name": "b"}, {"name": "never"}], "transitions": transitions},
        "ask": [{"id": "full", "kind": "prob", "where": [["b", "==", TOKENS]]}]});
    let (answer, _, sweeps) = solved(&document);
    // Two time units at the end, one with the last token, half of one with each of the others.
    close(&answer, "full", 2.0 / (2.0 + 1.0 + 0.5 * (TOKENS - 1) as f64));
    assert!(sweeps < ROUND, "{sweeps}");
}

#[test]
fn a_grid_with_a_short_side_takes_no_sweeps() {
    let asks = json!([{"id": "mean", "kind": "mean_tokens", "place": "q"}, {"id": "short", "kind": "mean_tokens", "place": "x"}]);
    let mut document = line(4_000, 1.0, 1.0, &asks);
    let net = document["net"].as_object_mut().unwrap();
    net["places"].as_array_mut().unwrap().extend([json!({"name": "x"}), json!({"name": "y", "tokens": 9})]);
    net["transitions"].as_array_mut().unwrap().extend([
        json!({"name": "to", "kind": "timed", "rate": 1, "in": {"y": 1, "c": 1}, "out": {"x": 1, "c": 1}}),
        json!({"name": "fro", "kind": "timed", "rate": 2, "in": {"x": 1, "c": 1}, "out": {"y": 1, "c": 1}}),
    ]);
    let (answer, _, sweeps) = solved(&document);
    close(&answer, "mean", 2_000.0);
    let shares: Vec<f64> = (0..10).map(|at| 0.5_f64.powi(at)).collect();
    let mean =
        shares.iter().zip(0..).map(|(share, at)| share * f64::from(at)).sum::<f64>() / shares.iter().sum::<f64>();
    close(&answer, "short", mean);
    assert!(sweeps < ROUND, "{sweeps}");
}

/// Four stations round which tokens go, with room for half of them but at the first; each is a hundred times slower than the one before. The
/// rarest of the 18,298 states have some 1e-330 of the time.
#[test]
fn states_less_likely_than_a_number_can_say_stop_nothing() {
    const TOKENS: u64 = 54;
    let place = |at: usize| json!({"name": format!("q{at}"), "tokens": if at == 0 { TOKENS } else { 0 }});
    let step = |at: usize| {
        let to = (at + 1) % 4;
        let room = if to == 0 { json!({}) } else { json!({format!("q{to}"): TOKENS / 2}) };
        json!({"name": format!("s{at}"), "kind": "timed", "rate": (1.0 + 0.1 * at as f64) * 0.01_f64.powi(at as i32), "servers": 1 + at % 3,
            "in": {format!("q{at}"): 1}, "out": {format!("q{to}"): 1}, "inhibit": room})
    };
    let document = json!({"net": {"places": (0..4).map(place).collect::<Vec<_>>(), "transitions": (0..4).map(step).collect::<Vec<_>>()},
        "ask": [
            {"id": "q0", "kind": "mean_tokens", "place": "q0"},
            {"id": "q1", "kind": "mean_tokens", "place": "q1"},
            {"id": "q3", "kind": "mean_tokens", "place": "q3"},
            {"id": "never", "kind": "prob", "where": [["q0", "==", TOKENS]]},
            {"id": "s3", "kind": "throughput", "transition": "s3"}]});
    let (answer, looks, _) = solved(&document);
    // By state reduction along the band: 3 s, and the same in all digits.
    close(&answer, "q0", 1.300_001_690_002_198e-6);
    close(&answer, "q1", 3.740_864_061_376_583e-3);
    close(&answer, "q3", 26.996_375_801_505_44);
    close(&answer, "s3", 1.3e-6);
    assert_eq!(answer.values.get("never"), Some(&Value::Number(0.0)));
    assert!(looks < 200, "{looks}");
}

/// How often somebody comes to the first station, and how quickly the server walks on.
const COME: f64 = 0.1;
const WALK: f64 = 600.0;

/// A server goes round to stations that are served at most once each time; no two are alike.
fn polling(stations: usize) -> Json {
    let mut places = vec![json!({"name": "a0", "tokens": 1})];
    let mut transitions = Vec::new();
    for at in 0..stations {
        let [a, e, w, s] = ["a", "e", "w", "s"].map(|place| format!("{place}{at}"));
        let next = format!("a{}", (at + 1) % stations);
        places.extend(if at > 0 { vec![json!({"name": a})] } else { Vec::new() });
        places.extend([json!({"name": e, "tokens": 1}), json!({"name": w}), json!({"name": s})]);
        transitions.extend([
            json!({"name": format!("come{at}"), "kind": "timed", "rate": COME + 0.01 * at as f64, "in": {&e: 1}, "out": {&w: 1}}),
            json!({"name": format!("take{at}"), "kind": "timed", "rate": WALK, "in": {&a: 1, &w: 1}, "out": {&s: 1}}),
            json!({"name": format!("pass{at}"), "kind": "timed", "rate": WALK, "in": {&a: 1}, "inhibit": {&w: 1}, "out": {&next: 1}}),
            json!({"name": format!("serve{at}"), "kind": "timed", "rate": 1.0, "in": {&s: 1}, "out": {&e: 1, &next: 1}}),
        ]);
    }
    json!({"net": {"places": places, "transitions": transitions}, "ask": [
        {"id": "come", "kind": "throughput", "transition": "come0"}, {"id": "serve", "kind": "throughput", "transition": "serve0"},
        {"id": "here", "kind": "mean_tokens", "place": "e0"}]})
}

/// Others would begin anew, and take many times as long.
#[test]
fn sweeps_that_have_nearly_settled_go_on() {
    let document = json::read(polling(11).to_string().as_bytes()).unwrap();
    let mut said = Vec::new();
    let mut go_on = |progress| {
        if let Progress::Solving { sweeps, .. } = progress {
            said.push(sweeps);
        }
        true
    };
    let answer = ask::answer(&document.net, &document.asks, &mut Budget::new(Limits::default(), &mut go_on)).unwrap();
    let Some(Value::Number(here)) = answer.values.get("here").copied() else { panic!("{:?}", answer.unanswered) };
    close(&answer, "come", COME * here);
    close(&answer, "serve", COME * here);
    let most = said.into_iter().max();
    assert!(most.is_some_and(|sweeps| sweeps > 400), "{most:?}");
}

/// From the middle of a line it drifts away from what is asked for: the time has more digits before the point than a number can have,
/// and the way there is less likely than it can say. It is refused, and not left out of the mean.
#[test]
fn a_time_that_no_number_can_say_is_refused() {
    let asks = json!([{"id": "until", "kind": "passage_mean", "where": [["q", "==", 0]]}]);
    let mut net = line(2_500, 2.0, 1.0, &asks);
    net["net"]["places"][0]["tokens"] = json!(1_250);
    net["net"]["places"][1]["tokens"] = json!(1_250);
    let (answer, ..) = solved(&net);
    let refusal = answer.unanswered.get("until").unwrap_or_else(|| panic!("{:?}", answer.values));
    assert!(refusal.why.contains("more than a number can say"), "{refusal}");
    // Toward the end it goes by the drift, one step a time unit.
    net["ask"][0]["where"] = json!([["q", "==", 2_500]]);
    let (answer, ..) = solved(&net);
    close(&answer, "until", 1_250.0);
}

/// In the one end nearly all are at the one side, in the other at the other: between them rates become less than a number can say.
#[test]
fn a_line_with_two_ends_is_answered_or_refused() {
    let to = |name: &str, from: &str, to: &str, rate: f64| json!({"name": name, "kind": "timed", "rate": rate, "in": {"s": 1, from: 1}, "out": {to: 1, from: 1}});
    for (up, more) in [(1.0, 1.0), (2.0, 0.0), (1.0, 0.0)] {
        let mut transitions = vec![
            json!({"name": "up", "kind": "timed", "rate": up, "in": {"y": 1}, "out": {"x": 1}}),
            json!({"name": "down", "kind": "timed", "rate": 1.0, "in": {"x": 1}, "out": {"y": 1}}),
            to("left", "x", "l", 1e-3),
            to("right", "y", "r", 1e-3),
        ];
        if more > 0.0 {
            transitions.push(
                json!({"name": "push", "kind": "timed", "rate": more, "in": {"y": 1, "r": 1}, "out": {"x": 1, "r": 1}}),
            );
        }
        let places = [("x", 1_000), ("y", 1_000), ("s", 1), ("l", 0), ("r", 0)]
            .map(|(name, tokens)| json!({"name": name, "tokens": tokens}));
        let (answer, ..) = solved(&json!({"net": {"places": places, "transitions": transitions},
            "ask": [{"id": "classes", "kind": "bsccs"}, {"id": "x", "kind": "mean_tokens", "place": "x"}]}));
        assert_eq!(answer.values.get("classes"), Some(&Value::Count(2)), "{:?}", answer.unanswered);
        assert!(answer.values.contains_key("x") != answer.unanswered.contains_key("x"));
    }
}
