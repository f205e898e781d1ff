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
