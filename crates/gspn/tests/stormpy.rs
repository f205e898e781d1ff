//! The engine beside stormpy, on the JANI that we write: as many states, and the same long-run probabilities.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use gspn::ask::{self, Value};
use gspn::formats::{Format, write};
use gspn::{Budget, Limits, json};
use serde_json::json;

/// The starter of the program; none, with a line that says so, when it is not installed.
fn program() -> Option<PathBuf> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers");
    let peers = std::env::var_os("TRAPKEY_PEERS_DIR").map_or(default, PathBuf::from);
    let path = peers.join("bin/stormpy-steady");
    if path.exists() {
        return Some(path);
    }
    println!("SKIPPED stormpy: {} is not there; `make peers` installs it", path.display());
    assert!(std::env::var("TRAPKEY_PEERS").as_deref() != Ok("required"), "a required peer is missing: stormpy");
    None
}

/// Both answer how many tangible and vanishing markings `net` has, and how likely it is that `places` hold at least so many.
fn compare(name: &str, net: &serde_json::Value, places: &[(&str, u64)]) {
    let Some(program) = program() else { return };
    let mut asks = vec![json!({"id": "tangible", "kind": "tangible"}), json!({"id": "vanishing", "kind": "vanishing"})];
    asks.extend(places.iter().enumerate().map(
        |(index, (place, least))| json!({"id": format!("p{index}"), "kind": "prob", "where": [[place, ">=", least]]}),
    ));
    let document = json::read(json!({"net": net, "ask": asks}).to_string().as_bytes()).unwrap();
    let mut go_on = |_| true;
    let ours = ask::answer(&document.net, &document.asks, &mut Budget::new(Limits::default(), &mut go_on)).unwrap();

    let model = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("stormpy-{name}.jani"));
    std::fs::write(&model, write(&document.net, Format::Jani).unwrap()).unwrap();
    let mut command = Command::new(program);
    command.arg(&model);
    for (place, least) in places {
        command.arg("--where").arg(format!("{place} >= {least}"));
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let theirs: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();

    for count in ["tangible", "vanishing"] {
        assert_eq!(ours.values[count], Value::Count(theirs[count].as_u64().unwrap()), "{name}: {count}");
    }
    let solved = theirs["solved"].as_array().unwrap();
    assert!(solved.len() >= 3, "{name}: {theirs}");
    let mut differences = String::new();
    for answer in solved {
        for (index, place) in places.iter().enumerate() {
            let Value::Number(own) = ours.values[&format!("p{index}")] else { panic!("{:?}", ours.values) };
            let other = answer["values"][index].as_f64().unwrap();
            if (own - other).abs() > 1e-8 {
                writeln!(differences, "{} of {place:?}: {own} here, {other} there", answer["solver"]).unwrap();
            }
        }
    }
    assert!(differences.is_empty(), "{name}:\n{differences}");
}

#[test]
fn a_queue() {
    let net = json!({
    "places": [{"name": "queue"}, {"name": "room", "tokens": 20}],
    "transitions": [
        {"name": "arrive", "kind": "timed", "rate": 2.0, "in": {"room": 1}, "out": {"queue": 1}},
        {"name": "serve", "kind": "timed", "rate": 0.9, "servers": 3, "in": {"queue": 1}, "out": {"room": 1}},
    ]});
    compare("queue", &net, &[("queue", 1), ("queue", 3), ("queue", 20)]);
}

/// Weights among immediates, a priority above them, and as many repairs at once as there are broken.
#[test]
fn immediates_with_weights_and_priorities() {
    let net = json!({
    "places": [{"name": "idle", "tokens": 6}, {"name": "choose"}, {"name": "good"}, {"name": "bad"}],
    "transitions": [
        {"name": "come", "kind": "timed", "rate": 2.0, "in": {"idle": 1}, "out": {"choose": 1}},
        {"name": "well", "kind": "immediate", "weight": 3, "in": {"choose": 1}, "out": {"good": 1}},
        {"name": "ill", "kind": "immediate", "weight": 1, "in": {"choose": 1}, "out": {"bad": 1}},
        {"name": "pair", "kind": "immediate", "priority": 2, "in": {"choose": 1, "bad": 3}, "out": {"good": 2, "idle": 2}},
        {"name": "serve", "kind": "timed", "rate": 3.0, "in": {"good": 1}, "out": {"idle": 1}},
        {"name": "repair", "kind": "timed", "rate": 0.7, "servers": "inf", "in": {"bad": 1}, "out": {"idle": 1}},
    ]});
    compare("immediates", &net, &[("good", 1), ("good", 4), ("bad", 1), ("bad", 3)]);
}

/// Several tokens along an arc, an inhibitor, and two stages that share a machine.
#[test]
fn batches_an_inhibitor_and_a_shared_machine() {
    let net = json!({
    "places": [{"name": "raw", "tokens": 8}, {"name": "half"}, {"name": "done"}, {"name": "machine", "tokens": 2},
               {"name": "first"}, {"name": "second"}],
    "transitions": [
        {"name": "take", "kind": "immediate", "weight": 2, "in": {"half": 1, "machine": 1}, "out": {"second": 1}},
        {"name": "load", "kind": "timed", "rate": 5.0, "in": {"raw": 2, "machine": 1}, "out": {"first": 1}, "inhibit": {"half": 3}},
        {"name": "cut", "kind": "timed", "rate": 1.5, "servers": "inf", "in": {"first": 1}, "out": {"half": 2, "machine": 1}},
        {"name": "drill", "kind": "timed", "rate": 0.8, "servers": "inf", "in": {"second": 1}, "out": {"done": 1, "machine": 1}},
        {"name": "ship", "kind": "timed", "rate": 0.6, "servers": 2, "in": {"done": 2}, "out": {"raw": 2}},
    ]});
    compare("batches", &net, &[("raw", 2), ("first", 1), ("second", 2), ("done", 2), ("done", 7)]);
}
