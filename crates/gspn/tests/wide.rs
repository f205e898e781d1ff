//! Markings of thousands of places, each of which leads to thousands: the limit of memory holds while they are expanded, too.
#![cfg(target_os = "linux")]

use gspn::{Budget, Class, Limits, ask, json};

/// Places that are emptied, each by itself.
const PLACES: u64 = 6_000;
const BYTES: u64 = 400 << 20;
/// The process before it has a net, what a net of this size takes, and what freed memory is kept by the allocator.
const BESIDE: u64 = 150 << 20;

#[test]
fn what_one_marking_leads_to_is_counted() {
    let places: Vec<_> = (0..PLACES).map(|at| serde_json::json!({"name": format!("p{at}"), "tokens": 1})).collect();
    let transitions: Vec<_> = (0..PLACES)
        .map(|at| serde_json::json!({"name": format!("t{at}"), "kind": "timed", "rate": 1 + at, "in": {format!("p{at}"): 1}}))
        .collect();
    let asks = [serde_json::json!({"id": "states", "kind": "tangible"})];
    let document = serde_json::json!({"net": {"places": places, "transitions": transitions}, "ask": asks}).to_string();
    let document = json::read(document.as_bytes()).unwrap();
    let mut go_on = |_| true;
    let limits = Limits { bytes: BYTES, ..Limits::default() };
    let refused = match ask::answer(&document.net, &document.asks, &mut Budget::new(limits, &mut go_on)) {
        Err(refused) => refused,
        Ok(answer) => answer.unanswered.get("states").cloned().unwrap_or_else(|| panic!("{answer:?}")),
    };
    assert_eq!((refused.class, refused.name.as_str()), (Class::TooLarge, "memory"), "{refused:?}");
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak << 10 < BYTES + BESIDE, "{peak} kB, and {BYTES} bytes are allowed");
}
