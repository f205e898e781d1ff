//! `trapkey model`: nets in, numbers or reasons out.

use serde_json::{Value, json};

use super::Scene;

fn queue() -> Value {
    json!({"net": {
    "places": [{"name": "queue"}, {"name": "room", "tokens": 3}],
    "transitions": [
        {"name": "arrive", "kind": "timed", "rate": 1, "in": {"room": 1}, "out": {"queue": 1}},
        {"name": "serve", "kind": "timed", "rate": 1, "in": {"queue": 1}, "out": {"room": 1}},
    ]},
    "ask": [
        {"id": "mean", "kind": "mean_tokens", "place": "queue"},
        {"id": "states", "kind": "tangible"},
        {"id": "never", "kind": "passage_mean", "where": [["queue", ">", 9]]},
    ]})
}

/// What `model` says about `net`, and its exit code.
fn said(net: &Value, args: &[&str]) -> (String, Value) {
    let scene = Scene::empty();
    scene.write("net.json", &net.to_string());
    let net = scene.path("net.json");
    let mut all = vec!["model", "solve", net.to_str().unwrap(), "--output", "json"];
    all.extend(args);
    let text = scene.run(&all);
    let (exit, rest) = text.split_once('\n').unwrap();
    let json = rest.strip_prefix("--- stdout\n").unwrap().split("--- stderr").next().unwrap();
    (exit.to_owned(), serde_json::from_str(json).unwrap())
}

#[test]
fn a_net_is_answered_with_its_checks() {
    let (exit, answer) = said(&queue(), &[]);
    assert_eq!(exit, "exit 0");
    assert_eq!(answer["values"]["states"], 4);
    let mean = answer["values"]["mean"].as_f64().unwrap();
    assert!((mean - 1.5).abs() < 1e-9, "{mean}");
    assert_eq!(answer["unanswered"]["never"]["refused"], "unsupported");
    for check in ["residual", "flow_balance", "invariants"] {
        assert!(answer["checks"][check].as_f64().unwrap() < 1e-9, "{answer}");
    }
}

#[test]
fn what_cannot_be_answered_is_refused_by_class_and_name() {
    let mut net = queue();
    net["net"]["transitions"][1]["out"] = json!({"room": 2});
    let (exit, answer) = said(&net, &[]);
    assert_eq!((exit.as_str(), &answer["refused"], &answer["where"]), ("exit 3", &json!("unbounded"), &json!("room")));
    assert_eq!(answer["trace"], json!(["arrive", "serve"]));

    let (exit, answer) = said(&queue(), &["--markings", "3"]);
    assert_eq!(
        (exit.as_str(), &answer["refused"], &answer["where"]),
        ("exit 3", &json!("too-large"), &json!("markings"))
    );

    let mut net = queue();
    net["net"]["transitions"][0]["rate"] = json!(0);
    let (exit, answer) = said(&net, &[]);
    assert_eq!((exit.as_str(), &answer["refused"], &answer["where"]), ("exit 3", &json!("invalid"), &json!("arrive")));
}

#[test]
fn a_file_that_is_not_there_is_the_callers_fault() {
    let said = Scene::empty().run(&["model", "solve", "missing.json"]);
    assert!(said.starts_with("exit 2"), "{said}");
    assert!(said.contains("missing.json"), "{said}");
}
