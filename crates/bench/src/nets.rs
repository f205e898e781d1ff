//! `bench net`: one net from the bytes of its file to its values, in a process of its own, as the peer does it.

use std::hint::black_box;
use std::path::Path;

use gspn::ask::{self, Value};
use gspn::simulate::{Plan, simulate};
use gspn::{Budget, Limits, explore, json};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::clock::Stopwatch;
use crate::record::median;
use crate::{Failed, files, process};

/// The most that the nets of a measure need.
pub(crate) const LIMITS: Limits = Limits { markings: 100_000_000, bytes: 8 << 30 };

/// How often a net is solved again, and the seconds that it may take for that.
const AGAIN: usize = 25;
const SHORT: f64 = 0.02;

/// What a process says of a net.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// Tangible markings.
    pub tangible: u64,
    /// The peer gave up; the time is that after which it did, and nothing else is known.
    #[serde(default)]
    pub capped: bool,
    /// Which of the peer's solvers was the fastest.
    #[serde(default)]
    pub solver: String,
    /// Those that were stopped: at the cap, or because another had been faster already.
    #[serde(default)]
    pub stopped: Vec<String>,
    /// Those whose solution did not come near enough.
    #[serde(default)]
    pub missed: Vec<String>,
    /// Edges of the chain; 0 where nobody counts them.
    #[serde(default)]
    pub edges: u64,
    /// From the bytes of the file to the chain.
    pub generate_seconds: f64,
    /// From the bytes of the file to all values; the same where only the chain was wanted.
    #[serde(default)]
    pub seconds: f64,
    /// The same once more, in a process that has its memory and its code at hand: the median of 25 times. Of small nets only.
    #[serde(default)]
    pub again_seconds: Option<f64>,
    /// Most memory in use minus what was in use before the file was looked at.
    pub memory_bytes: Option<u64>,
    /// The values, where they are numbers.
    #[serde(default)]
    pub values: Vec<f64>,
}

/// Generates the chain of the net in `file`, or answers all that is asked of it (`what`: `generate`, `solve`), and prints [`Told`].
///
/// # Errors
/// The file holds no net, or one that is refused.
pub fn run(what: &str, file: &Path) -> Result<(), Failed> {
    let bytes = files::read(file)?;
    process::forget_peak()?;
    let before = process::peak_rss(std::process::id())?;
    let mut go_on = |_| true;
    let mut budget = Budget::new(LIMITS, &mut go_on);
    let refused = |refusal: gspn::Refusal| Failed::from(format!("{}: {}", refusal.name, refusal.why));
    let watch = Stopwatch::start();
    let document = json::read(&bytes).map_err(refused)?;
    let told = match what {
        "generate" => {
            let space = explore::explore(&document.net, 1, &[], &[], &mut budget).map_err(refused)?;
            let seconds = watch.seconds();
            let (tangible, edges) = (space.tangible() as u64, space.chain().edges() as u64);
            Told { tangible, edges, generate_seconds: seconds, seconds, ..Told::default() }
        }
        "solve" => {
            let answer = ask::answer(&document.net, &document.asks, &mut budget).map_err(refused)?;
            let seconds = watch.seconds();
            let number = |ask: &ask::Ask| match answer.values.get(&ask.id) {
                Some(Value::Number(value)) => Ok(*value),
                Some(Value::Count(count)) => Ok(*count as f64),
                None => Err(Failed::from(format!("`{}` is not answered", ask.id))),
            };
            let values = document.asks.iter().map(number).collect::<Result<Vec<_>, _>>()?;
            let again_seconds = if seconds < SHORT { again(&bytes)? } else { None };
            Told { seconds, values, again_seconds, ..Told::default() }
        }
        _ => return Err("bench net: generate or solve".into()),
    };
    let memory_bytes = Some(process::peak_rss(std::process::id())?.saturating_sub(before));
    println!("{}", serde_json::to_string(&Told { memory_bytes, ..told })?);
    Ok(())
}

/// The median time from the bytes to the values in a process that has done it before.
fn again(bytes: &[u8]) -> Result<Option<f64>, Failed> {
    let refused = |refusal: gspn::Refusal| Failed::from(format!("{}: {}", refusal.name, refusal.why));
    let mut times = Vec::with_capacity(AGAIN);
    for _ in 0..AGAIN {
        let mut go_on = |_| true;
        let mut budget = Budget::new(LIMITS, &mut go_on);
        let watch = Stopwatch::start();
        let document = json::read(bytes).map_err(refused)?;
        black_box(ask::answer(&document.net, &document.asks, &mut budget).map_err(refused)?);
        times.push(watch.seconds());
    }
    Ok(median(&times))
}

/// Nanoseconds of processor time of this process for one firing of a timed transition, when the net in `bytes` is simulated.
///
/// # Errors
/// As [`run`].
pub fn firing(bytes: &[u8], firings: u64) -> Result<f64, Failed> {
    let refused = |refusal: gspn::Refusal| Failed::from(format!("{}: {}", refusal.name, refusal.why));
    let document = json::read(bytes).map_err(refused)?;
    let mut go_on = |_| true;
    let plan = Plan { seed: 1, relative: 1e-9, firings };
    let watch = Stopwatch::start();
    let estimates =
        simulate(&document.net, &document.asks, plan, &mut Budget::new(LIMITS, &mut go_on)).map_err(refused)?;
    Ok(watch.seconds() * 1e9 / estimates.firings as f64)
}

/// Stations with one customer each and one server that walks from one to the next: `stations * 2^stations` tangible markings.
#[must_use]
pub fn polling(stations: u32) -> serde_json::Value {
    let (mut places, mut transitions) = (Vec::new(), Vec::new());
    for own in 0..stations {
        let next = (own + 1) % stations;
        let place = |kind: &str, tokens: u32| json!({"name": format!("{kind}{own}"), "tokens": tokens});
        places.extend([place("idle", 1), place("wait", 0), place("at", u32::from(own == 0)), place("serve", 0)]);
        let [idle, wait, at, serve] = ["idle", "wait", "at", "serve"].map(|kind| format!("{kind}{own}"));
        let on = format!("at{next}");
        transitions.extend([
            json!({"name": format!("arrive{own}"), "kind": "timed", "rate": 0.1 + 0.01 * f64::from(own), "in": {&idle: 1}, "out": {&wait: 1}}),
            json!({"name": format!("start{own}"), "kind": "immediate", "in": {&at: 1, &wait: 1}, "out": {&serve: 1}}),
            json!({"name": format!("finish{own}"), "kind": "timed", "rate": 1, "in": {&serve: 1}, "out": {&idle: 1, &on: 1}}),
            json!({"name": format!("walk{own}"), "kind": "timed", "rate": 10, "in": {&at: 1}, "out": {&on: 1}}),
        ]);
    }
    json!({"name": format!("polling{stations}"), "net": {"places": places, "transitions": transitions},
        "ask": [{"id": "p", "kind": "prob", "where": [["wait1", ">=", 1]]}]})
}

/// Customers that think, are sent to one of five queues at once, and come back.
#[must_use]
pub fn closed(customers: u32) -> serde_json::Value {
    let mut places = vec![json!({"name": "think", "tokens": customers}), json!({"name": "route"})];
    let mut transitions = vec![
        json!({"name": "submit", "kind": "timed", "rate": 0.5, "servers": "inf", "in": {"think": 1}, "out": {"route": 1}}),
    ];
    for queue in 0..5_u32 {
        let name = format!("q{queue}");
        places.push(json!({"name": &name}));
        let back = if queue == 0 { "route" } else { "think" };
        transitions.extend([
            json!({"name": format!("to{queue}"), "kind": "immediate", "weight": queue + 1, "in": {"route": 1}, "out": {&name: 1}}),
            json!({"name": format!("s{queue}"), "kind": "timed", "rate": 1.0 + 0.3 * f64::from(queue), "in": {&name: 1}, "out": {back: 1}}),
        ]);
    }
    json!({"name": format!("closed{customers}"), "net": {"places": places, "transitions": transitions},
        "ask": [{"id": "p", "kind": "prob", "where": [["q1", ">=", 1]]}]})
}

/// A line of four cells that pull (Ciardo and Tilgner, 1996), each with so many cards; the second and the third work side by side.
#[must_use]
pub fn kanban(cards: u32) -> serde_json::Value {
    let (mut places, mut transitions) = (Vec::new(), Vec::new());
    for cell in 1..=4 {
        let place = |kind: &str, tokens: u32| json!({"name": format!("{kind}{cell}"), "tokens": tokens});
        places.extend([place("card", cards), place("made", 0), place("again", 0), place("done", 0)]);
    }
    let mut timed = |name: String, rate: f64, from: &[String], to: &[String]| {
        let arcs =
            |places: &[String]| places.iter().map(|place| (place.clone(), json!(1))).collect::<serde_json::Map<_, _>>();
        transitions.push(json!({"name": name, "kind": "timed", "rate": rate, "in": arcs(from), "out": arcs(to)}));
    };
    let at = |kind: &str, cell: u32| format!("{kind}{cell}");
    for (cell, redo, good) in [(1, 0.36, 0.84), (2, 0.42, 0.98), (3, 0.39, 0.91), (4, 0.33, 0.77)] {
        timed(at("redo", cell), redo, &[at("made", cell)], &[at("again", cell)]);
        timed(at("good", cell), good, &[at("made", cell)], &[at("done", cell)]);
        timed(at("back", cell), 0.3, &[at("again", cell)], &[at("made", cell)]);
    }
    let (enter, leave) = (|cell| at("card", cell), |cell| at("done", cell));
    timed("enter".into(), 1.0, &[enter(1)], &[at("made", 1)]);
    timed("split".into(), 0.4, &[leave(1), enter(2), enter(3)], &[enter(1), at("made", 2), at("made", 3)]);
    timed("join".into(), 0.5, &[leave(2), leave(3), enter(4)], &[enter(2), enter(3), at("made", 4)]);
    timed("leave".into(), 0.9, &[leave(4)], &[enter(4)]);
    json!({"name": format!("kanban{cards}"), "net": {"places": places, "transitions": transitions},
        "ask": [{"id": "p", "kind": "prob", "where": [["done1", ">=", 1]]}]})
}

/// The flexible manufacturing system of Ciardo and Trivedi (1993) with so many pallets of each kind. There all parts that are done are shipped
/// together, over arcs that carry as many as there are; here the first takes the others along at once.
#[must_use]
pub fn manufacturing(pallets: u32) -> serde_json::Value {
    let empty = [
        "P1wM1", "P1M1", "P1d", "P1s", "P1wP2", "P2wM2", "P2M2", "P2d", "P2s", "P2wP1", "P12", "P12wM3", "P12M3",
        "P12s", "P3M2", "P3s", "shipP1s", "shipP2s", "shipP12s", "shipP3s",
    ];
    let full = [("P1", pallets), ("P2", pallets), ("P3", pallets), ("M1", 3), ("M2", 1), ("M3", 2)];
    let places: Vec<_> = empty.iter().map(|name| (*name, 0)).chain(full).collect();
    let places: Vec<_> = places.iter().map(|(name, tokens)| json!({"name": name, "tokens": tokens})).collect();
    let timed = |name: &str, rate: f64, servers: &str, from: serde_json::Value, to: serde_json::Value| {
        let servers = if servers == "inf" { json!("inf") } else { json!(1) };
        json!({"name": name, "kind": "timed", "rate": rate, "servers": servers, "in": from, "out": to})
    };
    let at_once = |name: &str, weight: f64, from: serde_json::Value, to: serde_json::Value| json!({"name": name, "kind": "immediate", "weight": weight, "in": from, "out": to});
    let mut transitions = vec![
        timed("tP1", 1.0, "inf", json!({"P1": 1}), json!({"P1wM1": 1})),
        at_once("tM1", 1.0, json!({"P1wM1": 1, "M1": 1}), json!({"P1M1": 1})),
        timed("tP1M1", 0.25, "inf", json!({"P1M1": 1}), json!({"P1d": 1, "M1": 1})),
        at_once("tP1e", 0.8, json!({"P1d": 1}), json!({"P1s": 1})),
        at_once("tP1j", 0.2, json!({"P1d": 1}), json!({"P1wP2": 1})),
        timed("tP2", 1.0, "inf", json!({"P2": 1}), json!({"P2wM2": 1})),
        at_once("tM2", 1.0, json!({"P2wM2": 1, "M2": 1}), json!({"P2M2": 1})),
        timed("tP2M2", 1.0 / 6.0, "inf", json!({"P2M2": 1}), json!({"P2d": 1, "M2": 1})),
        at_once("tP2e", 0.6, json!({"P2d": 1}), json!({"P2s": 1})),
        at_once("tP2j", 0.4, json!({"P2d": 1}), json!({"P2wP1": 1})),
        at_once("tx", 1.0, json!({"P1wP2": 1, "P2wP1": 1}), json!({"P12": 1})),
        timed("tP12", 1.0, "inf", json!({"P12": 1}), json!({"P12wM3": 1})),
        at_once("tM3", 1.0, json!({"P12wM3": 1, "M3": 1}), json!({"P12M3": 1})),
        timed("tP12M3", 1.0, "inf", json!({"P12M3": 1}), json!({"P12s": 1, "M3": 1})),
        timed("tP3", 1.0, "inf", json!({"P3": 1}), json!({"P3M2": 1})),
        timed("tP3M2", 0.5, "inf", json!({"P3M2": 1}), json!({"P3s": 1})),
    ];
    for (done, parts) in [("P1s", &["P1"][..]), ("P2s", &["P2"]), ("P12s", &["P1", "P2"]), ("P3s", &["P3"])] {
        let ships = format!("ship{done}");
        let with = |more: &[&str]| {
            parts.iter().chain(more).map(|place| ((*place).to_owned(), json!(1))).collect::<serde_json::Map<_, _>>()
        };
        transitions.extend([
            timed(&format!("t{done}"), 1.0 / 60.0, "1", json!({done: 1}), json!(with(&[&ships]))),
            json!({"name": format!("along{done}"), "kind": "immediate", "priority": 2, "in": {&ships: 1, done: 1}, "out": with(&[&ships])}),
            json!({"name": format!("gone{done}"), "kind": "immediate", "priority": 1, "in": {&ships: 1}, "out": {}}),
        ]);
    }
    json!({"name": format!("fms{pallets}"), "net": {"places": places, "transitions": transitions},
        "ask": [{"id": "p", "kind": "prob", "where": [["P1", ">=", 1]]}]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nets_have_as_many_states_as_they_are_said_to_have() {
        let nets = [
            (polling(6), 384),
            (closed(7), 792),
            (manufacturing(1), 54),
            (manufacturing(2), 810),
            (manufacturing(3), 6_520),
            (kanban(1), 160),
            (kanban(2), 4_600),
        ];
        for (net, expected) in nets {
            let document = json::read(net.to_string().as_bytes()).unwrap();
            let mut go_on = |_| true;
            let mut budget = Budget::new(LIMITS, &mut go_on);
            let space = explore::explore(&document.net, 1, &[], &[], &mut budget).unwrap();
            assert_eq!(space.tangible(), expected, "{}", net["name"]);
        }
    }

    /// Lines as the peers print them: one of stormpy, one of Sirio, and one of Sirio when it gave up.
    #[test]
    fn what_peers_say_is_understood() {
        let stormpy = r#"{"tangible": 384, "vanishing": 192, "generate_seconds": 0.5, "memory_bytes": 1024}"#;
        let told: Told = serde_json::from_str(stormpy).unwrap();
        assert_eq!((told.tangible, told.memory_bytes, told.capped), (384, Some(1024), false));
        let told: Told = serde_json::from_str(r#"{"tangible": 58400, "generate_seconds": 105.683921}"#).unwrap();
        assert_eq!((told.tangible, told.memory_bytes, told.capped), (58_400, None, false));
        let capped = r#"{"capped": true, "tangible": 0, "generate_seconds": 120}"#;
        let told: Told = serde_json::from_str(capped).unwrap();
        assert_eq!((told.generate_seconds, told.capped), (120.0, true));
    }
}
