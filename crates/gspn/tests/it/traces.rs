//! A refusal's trace is fired again, one transition after the other: it leads to the marking that the refusal is about.

use gspn::net::{Kind, Net, Transition};
use gspn::{Budget, Class, Limits, Refusal, ask, json};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::firing::{enabled, priority};
use crate::made::{Parts, nets};

fn refusal(net: &Net) -> Option<Refusal> {
    let mut go_on = |_| true;
    let limits = Limits { markings: 20_000, ..Limits::default() };
    ask::answer(net, &[], &mut Budget::new(limits, &mut go_on)).err()
}

/// The marking behind the trace, each of whose firings may happen.
fn replayed(net: &Net, trace: &[String]) -> Vec<u64> {
    let mut marking: Vec<u64> = net.places().iter().map(|place| place.tokens).collect();
    for name in trace {
        let it = &net.transitions()[net.transition(name).unwrap()];
        assert!(enabled(it, &marking), "`{name}` of {trace:?} at {marking:?}");
        let urgent = net.transitions().iter().filter(|it| enabled(it, &marking)).map(priority).max();
        assert_eq!(Some(priority(it)), urgent, "`{name}` of {trace:?} comes later at {marking:?}");
        it.inputs.iter().for_each(|arc| marking[arc.place] -= arc.count);
        it.outputs.iter().for_each(|arc| marking[arc.place] += arc.count);
    }
    marking
}

/// Both fixed times run behind the trace, and no immediate is enabled there.
fn two_run(net: &Net, refusal: &Refusal) {
    let marking = replayed(net, &refusal.trace);
    let fixed = |it: &&Transition| matches!(it.kind, Kind::Deterministic { .. }) && enabled(it, &marking);
    let fixed: Vec<&str> = net.transitions().iter().filter(fixed).map(|it| it.name.as_str()).collect();
    let other = refusal.why.split('`').nth(1).unwrap();
    assert!(fixed.contains(&refusal.name.as_str()) && fixed.contains(&other), "{refusal:?}: {marking:?}");
    assert!(net.transitions().iter().all(|it| !enabled(it, &marking) || priority(it) == 0), "{refusal:?}: {marking:?}");
}

/// `a` holds a token, and two fixed times wait for `b` and `c`; the first of them puts one into `q`.
fn started_by(others: &[Value]) -> Net {
    let places = json!([{"name": "a", "tokens": 1}, {"name": "b"}, {"name": "c"}, {"name": "p"}, {"name": "q"}]);
    let mut transitions = vec![
        json!({"name": "d", "kind": "deterministic", "delay": 1, "in": {"b": 1}, "out": {"q": 1}}),
        json!({"name": "e", "kind": "deterministic", "delay": 1, "in": {"c": 1}}),
    ];
    transitions.extend_from_slice(others);
    let net = json!({"net": {"places": places, "transitions": transitions}});
    json::read(net.to_string().as_bytes()).unwrap().net
}

#[test]
fn two_fixed_times_run_behind_the_trace() {
    let step = |kind: &str, name: &str, from: &str, to: &[&str]| {
        let to: serde_json::Map<_, _> = to.iter().map(|place| ((*place).to_owned(), json!(1))).collect();
        json!({"name": name, "kind": kind, "in": {from: 1}, "out": to})
    };
    let timed = |name: &str, from: &str, to: &[&str]| {
        let mut it = step("timed", name, from, to);
        it["rate"] = json!(1.0);
        it
    };
    let at_once = |name: &str, from: &str, to: &[&str]| step("immediate", name, from, to);
    for (row, trace, others) in [
        ("one firing", "go", vec![timed("go", "a", &["b", "c"])]),
        ("the initial marking vanishes", "go", vec![at_once("go", "a", &["b", "c"])]),
        ("immediates follow", "go on", vec![timed("go", "a", &["p"]), at_once("on", "p", &["b", "c"])]),
        ("one runs already", "go then", vec![at_once("go", "a", &["b", "p"]), timed("then", "p", &["c"])]),
        ("one ran before", "go d on", vec![timed("go", "a", &["b"]), at_once("on", "q", &["b", "c"])]),
    ] {
        let net = started_by(&others);
        let refusal = refusal(&net).unwrap();
        assert_eq!((refusal.class, refusal.trace.join(" ").as_str()), (Class::Unsupported, trace), "{row}");
        two_run(&net, &refusal);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn every_trace_can_be_fired(net in nets(Parts { fixed: true, phases: true, tables: true, crowds: true, back: false })) {
        let Some(refusal) = refusal(&net) else { return Ok(()) };
        if refusal.why.contains("both take a fixed time") {
            two_run(&net, &refusal);
        } else {
            replayed(&net, &refusal.trace);
        }
    }
}
