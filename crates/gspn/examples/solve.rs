//! Answers the questions of a net in a file, and says how long it took: `solve FILE [generate]`.

use std::time::Instant;

use gspn::{Budget, Limits, ask, explore, json};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().expect("a file");
    let only = arguments.next();
    let bytes = std::fs::read(file).expect("a file that can be read");
    let before = resident("VmRSS");
    let start = Instant::now();
    let document = json::read(&bytes).expect("a net");
    let mut go_on = |_| true;
    let mut budget = Budget::new(Limits { markings: 50_000_000, bytes: 8 << 30 }, &mut go_on);
    if only.is_some() {
        let space = explore::explore(&document.net, 1, &[], &[], &mut budget).expect("a space");
        let took = start.elapsed().as_secs_f64();
        let (states, edges) = (space.tangible(), space.chain().edges());
        let peak = resident("VmHWM") - before;
        println!(
            "{states} tangible {} vanishing {edges} edges {took:.4} s {:.3} M/s; {:.1} B/state, with 8/edge: {:.1}, with 24/edge: {:.1}",
            space.vanishing(),
            states as f64 / took / 1e6,
            peak / states as f64,
            (peak - 8.0 * edges as f64) / states as f64,
            (peak - 24.0 * edges as f64) / states as f64
        );
        return;
    }
    let answer = ask::answer(&document.net, &document.asks, &mut budget).expect("an answer");
    let took = start.elapsed().as_secs_f64();
    println!("{took:.6} s, peak {:.1} MB", (resident("VmHWM") - before) / 1e6);
    for (id, value) in &answer.values {
        println!("  {id} {value:?}");
    }
    for (id, why) in &answer.unanswered {
        println!("  {id} unanswered: {}", why.why);
    }
    println!("  {:?}", answer.checks);
}

/// Bytes of a line of `/proc/self/status`.
fn resident(line: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix(line)?.strip_prefix(':')).unwrap_or("0");
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) * 1024.0
}
