//! The limit of memory holds for the process, not only for what is counted.
#![cfg(target_os = "linux")]

mod machines;

use gspn::ask::{self, Value};
use gspn::{Budget, Limits, json};
use machines::down;

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
const STATES: u64 = 1 << MACHINES.len();
/// The process before it has a net, markings while they are found, and what freed memory is kept by the allocator.
const BESIDE: u64 = 50 << 20;

#[test]
fn groups_that_lead_to_ever_more_others() {
    let asks = [serde_json::json!({"id": "down", "kind": "mean_tokens", "place": "down3", "at": 1e5})];
    let others = serde_json::json!({"places": [], "transitions": []});
    let document = machines::beside(&MACHINES, &others, &asks).to_string();
    let document = json::read(document.as_bytes()).unwrap();
    let bytes = STATES * (1_230 + 64 * MACHINES.len() as u64);
    let mut go_on = |_| true;
    let limits = Limits { bytes, ..Limits::default() };
    let answer = ask::answer(&document.net, &document.asks, &mut Budget::new(limits, &mut go_on)).unwrap();
    let Some(Value::Number(value)) = answer.values.get("down") else { panic!("{:?}", answer.unanswered) };
    assert!((value / down(MACHINES[3], 1e5) - 1.0).abs() < 1e-9, "{value:e}");
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak << 10 < bytes + BESIDE, "{peak} kB, and {bytes} bytes are allowed");
}
