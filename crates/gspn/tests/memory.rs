//! The limit of memory holds for the process, not only for what is counted.
#![cfg(target_os = "linux")]

#[path = "it/machines/mod.rs"]
mod machines;

use std::process::Command;

use gspn::ask::{self, Value};
use gspn::{Budget, Limits, json};
use machines::down;
use serde_json::{Value as Document, json};

/// Rates at which machines fail and are repaired: groups of their states lead to ever more others, and become hardly fewer.
const MACHINES: [(f64, f64); 16] = [
    (4e-5, 1e4),
    (1e3, 1e-3),
    (9e-1, 2e-1),
    (7e1, 3e3),
    (1e-5, 2e-6),
    (1e4, 2e-1),
    (1e3, 1e-6),
    (2e-1, 5e2),
    (6e-4, 2e5),
    (7e4, 2e-6),
    (2e-6, 3e0),
    (2e5, 4e-2),
    (4e-4, 1e-1),
    (2e-6, 5e-4),
    (2e-1, 9e-1),
    (6e-4, 6e-4),
];
/// What freed memory the allocator keeps, and huge pages of which a part alone is used, where the kernel gives them unasked.
const KEPT: u64 = 12 << 20;
/// Tells the process of a test which net it answers, and with how many bytes.
const NET: &str = "TRAPKEY_TEST_NET";
const BYTES: &str = "TRAPKEY_TEST_BYTES";

/// Queues one behind the other, each of which has room for so many; the second is served so much slower.
fn queues(count: usize, room: u64, slower: f64) -> Document {
    let places: Vec<Document> = (0..count).map(|at| json!({"name": format!("p{at}")})).collect();
    let serve = |at: usize| {
        let rate = if at == 2 { 1.2 / slower } else { 1.0 + 0.1 * at as f64 };
        let mut it = json!({"name": format!("t{at}"), "kind": "timed", "rate": rate});
        if at > 0 {
            it["in"] = json!({format!("p{}", at - 1): 1});
        }
        if at < count {
            it["out"] = json!({format!("p{at}"): 1});
            it["inhibit"] = json!({format!("p{at}"): room});
        }
        it
    };
    json!({"places": places, "transitions": (0..=count).map(serve).collect::<Vec<_>>()})
}

/// Nets by their names, with what is asked.
fn document(name: &str) -> Document {
    let mean = |at: Option<f64>| {
        let mut it = json!({"kind": "mean_tokens", "place": "p1"});
        if let Some(at) = at {
            it["at"] = json!(at);
        }
        it
    };
    let named = |asks: Vec<Document>| {
        let asks = asks.into_iter().zip(0..).map(|(mut ask, at)| {
            ask["id"] = json!(format!("a{at}"));
            ask
        });
        asks.collect::<Vec<_>>()
    };
    let full = json!([["p3", ">=", 5]]);
    let by_rate = |of: Document| ["t1", "t3"].map(|by| json!({"kind": "sensitivity", "of": of, "wrt": by}));
    let (net, asks) = match name {
        "quick" => (queues(5, 9, 1.0), vec![mean(None)]),
        // Nothing is solved: half of what a solution takes is enough.
        "counts" => {
            let asks = ["tangible", "deadlocks", "bsccs"].map(|kind| json!({"kind": kind}));
            (queues(5, 9, 1.0), asks.into_iter().chain([json!({"kind": "bound", "place": "p1"})]).collect())
        }
        "rare" => (queues(5, 9, 1e8), vec![mean(None)]),
        "times" => (queues(5, 9, 1.0), (1..12).map(|at| mean(Some(f64::from(at)))).collect()),
        "passage" => {
            let mean = json!({"kind": "passage_mean", "where": full});
            (queues(5, 9, 1.0), vec![mean, json!({"kind": "passage_quantile", "where": full, "p": 0.4})])
        }
        "derivatives" => (queues(4, 11, 1.0), by_rate(mean(None)).to_vec()),
        "derivatives at times" => {
            (queues(5, 9, 1.0), [1.0, 2.0].into_iter().flat_map(|at| by_rate(mean(Some(at)))).collect())
        }
        "passing" => {
            let mut net = queues(5, 9, 1.0);
            let places = net["places"].as_array_mut().unwrap();
            places.extend([json!({"name": "up", "tokens": 1}), json!({"name": "down"})]);
            net["transitions"][3]["in"]["up"] = json!(1);
            net["transitions"][3]["out"]["up"] = json!(1);
            let fails = json!({"name": "fails", "kind": "timed", "rate": 0.01, "in": {"up": 1}, "out": {"down": 1}});
            net["transitions"].as_array_mut().unwrap().push(fails);
            (net, vec![mean(None), json!({"kind": "mtta"})])
        }
        "machines" => {
            let asks = [json!({"id": "down", "kind": "mean_tokens", "place": "down3", "at": 1e5})];
            return machines::beside(&MACHINES, &json!({"places": [], "transitions": []}), &asks);
        }
        _ => panic!("{name}"),
    };
    json!({"net": net, "ask": named(asks)})
}

/// Answers in a process of its own. Says how many questions have a value, and whether others have none for the memory alone.
#[test]
#[ignore = "run by the other tests in a process of its own"]
fn answers() {
    let Some(name) = std::env::var_os(NET) else { return };
    let bytes: u64 = std::env::var(BYTES).unwrap().parse().unwrap();
    let name = name.into_string().unwrap();
    let document = json::read(document(&name).to_string().as_bytes()).unwrap();
    let before = resident("VmRSS:");
    let mut go_on = |_| true;
    let budget = &mut Budget::new(Limits { bytes, ..Limits::default() }, &mut go_on);
    let known = match ask::answer(&document.net, &document.asks, budget) {
        Ok(answer) => {
            answer.unanswered.values().for_each(|refusal| assert!(refusal.why.contains("memory"), "{refusal:?}"));
            if let Some(Value::Number(value)) = answer.values.get("down") {
                assert!((value / down(MACHINES[3], 1e5) - 1.0).abs() < 1e-9, "{value:e}");
            }
            answer.values.len()
        }
        Err(refusal) => {
            assert_eq!(refusal.name, "memory", "{refusal:?}");
            0
        }
    };
    println!("\nknown {known} of {} with {}", document.asks.len(), resident("VmHWM:") - before);
}

fn resident(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let kib = status.lines().find_map(|it| it.strip_prefix(line)).unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() << 10
}

/// How many questions have a value, of how many, with how many bytes of memory.
fn run(name: &str, bytes: u64) -> [u64; 3] {
    let own = std::env::current_exe().unwrap();
    let mut child = Command::new(own);
    child.args(["--exact", "--ignored", "--nocapture", "answers"]).env(NET, name).env(BYTES, bytes.to_string());
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{name} with {bytes}: {text}{}", String::from_utf8_lossy(&output.stderr));
    let line = text.lines().find_map(|line| line.strip_prefix("known ")).unwrap();
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap()
}

/// With little memory nothing is known, with more the more, and with `enough` MiB all. None takes more than it may.
fn kept(name: &str, enough: u64) {
    let mut before = 0;
    for part in [0.3, 0.5, 0.7, 1.0] {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few MiB")]
        let bytes = (part * (enough << 20) as f64) as u64;
        let [known, of, took] = run(name, bytes);
        assert!(took <= bytes + KEPT, "{name}: {took} bytes, and {bytes} are allowed");
        assert!(known >= before, "{name}: {known} of {of} with {bytes}, and {before} with less");
        assert!(name != "times" || known == 0 || known == of, "{known} of {of} that take the same");
        assert!(part < 1.0 || known == of, "{name}: {known} of {of} with {bytes}");
        before = known;
    }
}

#[test]
fn counts() {
    kept("counts", 13);
}

#[test]
fn a_long_run() {
    kept("quick", 32);
}

#[test]
fn groups_of_states() {
    kept("rare", 64);
}

#[test]
fn many_times() {
    kept("times", 32);
}

#[test]
fn passages() {
    kept("passage", 48);
}

#[test]
fn derivatives() {
    kept("derivatives", 40);
}

#[test]
fn derivatives_at_times() {
    kept("derivatives at times", 64);
}

#[test]
fn classes_that_are_left() {
    kept("passing", 96);
}

#[test]
fn groups_that_lead_to_ever_more_others() {
    kept("machines", 150);
}
