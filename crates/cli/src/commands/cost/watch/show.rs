//! What a watch says to people.

use cost::twin::{Estimate, Event, Outlook, Report, Seen, Side, Way};

use super::super::seconds;
use crate::answer::table;

/// An event in a sentence; `at` writes a moment so many seconds ago.
pub(super) fn event(event: &Event, at: impl Fn(f64) -> String) -> String {
    match event {
        Event::Learned { stage, took } => format!("{stage}: learned, {}", estimate(took)),
        Event::Alarm { stage, side, since, before, now, factor } => {
            let (since, word) = (at(*since), word(*side));
            format!(
                "ALARM {stage} is {word} since {since}: {} instead of {} (x {factor:.2})",
                estimate(now),
                estimate(before)
            )
        }
        Event::Cleared { stage, lasted, .. } => format!("{stage} is back in its band after {}", seconds(*lasted)),
        Event::Restarted => "was started anew: what it had counted is gone".to_owned(),
        Event::Gone { why } => format!("figures are out of reach: {why}"),
        Event::Back { after } => format!("figures are back after {}", seconds(*after)),
    }
}

const fn word(side: Side) -> &'static str {
    match side {
        Side::Slower => "slower",
        Side::Faster => "faster",
    }
}

/// Everything that is known of a program.
pub(super) fn page(name: &str, report: &Report, now: &str, at: impl Fn(f64) -> String) -> String {
    let mut text = format!("{name} at {now}, {} looks\n", report.looks);
    if let Some(gone) = report.gone {
        text.push_str(&format!("out of reach since {}\n", at(gone)));
    }
    text.push('\n');
    let rows: Vec<Vec<String>> = report.stages.iter().map(|seen| row(seen, &at)).collect();
    text.push_str(&table(&["stage", "now", "reference", "band", "used", "state"], &rows));
    let ways: Vec<Vec<String>> = report.outlook.iter().map(way).collect();
    if !ways.is_empty() {
        let head = ["clients", "p99", "one alone", "all sessions", "full at"];
        text.push_str(&format!("\n{}", table(&head, &ways)));
    }
    text
}

fn row(seen: &Seen, at: &impl Fn(f64) -> String) -> Vec<String> {
    let or_nothing = |it: Option<String>| it.unwrap_or_else(|| "-".to_owned());
    let band = seen.band.map(|(low, high)| format!("{} .. {}", seconds(low), seconds(high)));
    let state = match (seen.alarm, seen.since) {
        (Some(side), Some(since)) => format!("ALARM: {} since {}", word(side), at(since)),
        _ if seen.reference.is_none() => format!("learning, {:.0} %", seen.learned * 100.0),
        _ => "in its band".to_owned(),
    };
    vec![
        seen.stage.clone(),
        or_nothing(seen.now.as_ref().map(estimate)),
        or_nothing(seen.reference.as_ref().map(estimate)),
        or_nothing(band),
        or_nothing(seen.used.map(|used| format!("{used:.0} s ago"))),
        state,
    ]
}

fn estimate(it: &Estimate) -> String {
    match it.interval {
        Some((low, high)) => format!("{} ({} .. {})", seconds(it.mean), seconds(low), seconds(high)),
        None => seconds(it.mean),
    }
}

fn way(it: &Outlook) -> Vec<String> {
    let what = match it.way {
        Way::Login => "login",
        Way::Request => "request",
        Way::Change => "change",
    };
    let rate = |before: f64, now: f64| pair(format!("{before:.4}/s"), format!("{now:.4}/s"));
    let together = it.before.together.zip(it.now.together).map(|(before, now)| {
        let sessions = it.sessions;
        format!("{} ({sessions})", rate(before, now))
    });
    vec![
        format!("{} {what}", it.listener),
        pair(seconds(it.before.p99), seconds(it.now.p99)),
        rate(it.before.alone, it.now.alone),
        together.unwrap_or_else(|| "-".to_owned()),
        it.limit.map_or_else(|| "-".to_owned(), |(before, now)| rate(before, now)),
    ]
}

/// Before and now, where they differ.
fn pair(before: String, now: String) -> String {
    if before == now { now } else { format!("{before} -> {now}") }
}
