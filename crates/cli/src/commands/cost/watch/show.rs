//! What a watch says to people: what moved, by how much, since when, and where to look.

use cost::twin::reading::Place;
use cost::twin::{Estimate, Event, Outlook, Report, Seen, Side, State, Suspect, Way};

use crate::answer::table;

/// The longest sentence of somebody else's that is shown.
const MAX_SENTENCE: usize = 300;
/// Stages that an event names.
const NAMED: usize = 4;

/// An event in a sentence; `at` writes a moment so many seconds ago.
pub(super) fn event(event: &Event, at: impl Fn(f64) -> String) -> String {
    match event {
        Event::Learned { stage, took } => format!("{stage}: learned, {}", estimate(took)),
        Event::Alarm { stage, side, since, before, now, factor, within } => {
            let (since, word) = (at(*since), word(*side));
            let (now, before) = (estimate(now), estimate(before));
            let next = next(stage, *side, within.as_deref()).map_or_else(String::new, |next| format!("; {next}"));
            format!("ALARM {stage} is {word} since {since}: {now} instead of {before} (x {factor:.2}){next}")
        }
        Event::Cleared { stage, lasted, .. } => format!("{stage} is back in its band after {}", time(*lasted)),
        Event::Restarted => "was started anew: what it had counted is gone, the references stay".to_owned(),
        Event::Swapped { programs } => {
            format!("{programs} programs answer here in turn: watch each at an address of its own")
        }
        Event::Lacks { stages } => {
            format!(
                "was not started anew, and its figures lack what they had: {}; a listener does not answer or has another name, or a family is \
                 gone",
                some_of(stages)
            )
        }
        Event::Contradicts { why } => {
            format!(
                "was not started anew, and its figures contradict those before: {}; nothing is taken of that",
                plain(why)
            )
        }
        Event::Gone { why } => format!("figures are out of reach: {}", plain(why)),
        Event::Back { after } => format!("figures are back after {}", time(*after)),
    }
}

/// The same below a page, which says the rest.
pub(super) fn briefly(event: &Event) -> String {
    match event {
        Event::Alarm { stage, side, before, now, .. } => {
            format!("ALARM {stage} is {}: {} instead of {}", word(*side), seconds(now.mean), seconds(before.mean))
        }
        other => self::event(other, |_| String::new()),
    }
}

/// The first names of a list.
fn some_of(names: &[String]) -> String {
    let first: Vec<String> = names.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(NAMED);
    if more == 0 { first.join(", ") } else { format!("{} and {more} more", first.join(", ")) }
}

pub(super) const fn word(side: Side) -> &'static str {
    match side {
        Side::Slower => "slower",
        Side::Faster => "faster",
    }
}

/// What to do about it.
fn next(stage: &str, side: Side, within: Option<&str>) -> Option<String> {
    let what = Place::of(stage)?.what;
    Some(match (side, within) {
        (Side::Slower, Some(inner)) => format!("it waits for `{inner}`, which moved as well: begin there"),
        (Side::Slower, None) => format!("look at {}", what.look_at()),
        (Side::Faster, _) => "if what changed is meant to stay, learn anew: begin without `--calibration`".to_owned(),
    })
}

/// A sentence without what moves the cursor of a terminal, and not longer than a page is wide a few times.
pub(super) fn plain(text: &str) -> String {
    let mut plain: String = text.chars().take(MAX_SENTENCE).map(|it| if it.is_control() { '?' } else { it }).collect();
    if text.chars().nth(MAX_SENTENCE).is_some() {
        plain.push_str(" ..");
    }
    plain
}

/// Everything that is known of a program; `why` its figures cannot be had, if they cannot.
pub(super) fn page(name: &str, report: &Report, now: &str, why: &str, at: impl Fn(f64) -> String) -> String {
    let mut text = format!("{name} at {now}, {} looks\n{}\n", report.looks, state(report));
    if let Some(gone) = report.gone {
        text.push_str(&format!("OUT OF REACH since {} ({}): {}\n", at(gone), time(gone), plain(why)));
    }
    if let Some(programs) = report.programs {
        text.push_str(&format!("{programs} programs answer here in turn: watch each at an address of its own\n"));
    }
    for seen in &report.stages {
        text.push_str(&moved(seen, report, &at));
    }
    match report.suspect {
        Some(Suspect::Processor) => text.push_str(
            "\nmost of what computes is slower at once: look at the processor first\n\
             (another program, a lower clock, a smaller machine)\n",
        ),
        Some(Suspect::Keys) => text.push_str(
            "\nwhat uses the key of the server is slower, and other computing is not:\n\
             look at the length of that key, and at how many connect at once\n",
        ),
        None => {}
    }
    text.push('\n');
    let rows: Vec<Vec<String>> = report.stages.iter().map(row).collect();
    text.push_str(&table(&["stage", "state", "now", "band", "used"], &rows));
    let ways: Vec<Vec<String>> = report.outlook.iter().map(way).collect();
    if !ways.is_empty() {
        let head = ["clients", "p99", "one alone", "all sessions", "full at"];
        text.push_str(&format!("\n{}", table(&head, &ways)));
    }
    text
}

/// In one line.
fn state(report: &Report) -> String {
    let stages = report.stages.len();
    let count = |holds: &dyn Fn(&Seen) -> bool| report.stages.iter().filter(|seen| holds(seen)).count();
    let known = count(&|seen| seen.reference.is_some());
    let judged = count(&|seen| seen.state.is_judged());
    let uncertain = count(&|seen| seen.state.is_uncertain());
    let of_all = if judged < known {
        format!("; {judged} of {stages} are judged")
    } else if known < stages {
        format!("; {known} of {stages} have a reference")
    } else {
        String::new()
    };
    match count(&|seen| seen.alarm.is_some()) {
        0 if stages == 0 => "nothing was seen yet".to_owned(),
        0 if known == 0 => "learning: no stage has a reference yet".to_owned(),
        0 if judged == 0 => "nothing is judged: no stage with a reference was used eight times yet".to_owned(),
        0 if uncertain > 0 => format!("no stage is outside of its band for certain, {uncertain} may be{of_all}"),
        0 => format!("no stage is outside of its band{of_all}"),
        1 => format!("1 STAGE IS OUTSIDE OF ITS BAND{of_all}"),
        out => format!("{out} STAGES ARE OUTSIDE OF THEIR BANDS{of_all}"),
    }
}

/// A stage that moved: by how much, since when, what it is, what it does to clients, and what to do.
fn moved(seen: &Seen, report: &Report, at: &impl Fn(f64) -> String) -> String {
    let (Some(side), Some(since), Some(before), Some(now)) = (seen.alarm, seen.since, &seen.reference, &seen.now)
    else {
        return String::new();
    };
    let (stage, factor) = (&seen.stage, now.mean / before.mean);
    let times = if factor >= 1.0 {
        format!("{} times as long", figure(factor))
    } else {
        format!("{} times as fast", figure(1.0 / factor))
    };
    let mut text = format!(
        "\n{stage} is {} since {} ({})\n  {} instead of {}, {times}\n",
        word(side),
        at(since),
        time(since),
        seconds(now.mean),
        seconds(before.mean)
    );
    let Some(place) = Place::of(stage) else { return text };
    text.push_str(&format!("  ({})\n", place.what.span()));
    let listener = |it: &&Outlook| place.listener.is_empty() || it.listener == place.listener;
    for it in report.outlook.iter().filter(listener).filter(|it| it.way.meets(place.what)) {
        let p99 = pair(it.before.p99, it.now.map(|now| now.p99), seconds);
        text.push_str(&format!("  99 of 100 {}s at `{}` are faster than: {p99}\n", way_word(it.way), it.listener));
    }
    if let Some(next) = next(stage, side, seen.within.as_deref()) {
        text.push_str(&format!("  {next}\n"));
    }
    text
}

fn row(seen: &Seen) -> Vec<String> {
    let or_nothing = |it: Option<String>| it.unwrap_or_else(|| "-".to_owned());
    let band = seen.band.map(|(low, high)| format!("{} .. {}", seconds(low), seconds(high)));
    let state = match seen.state {
        State::Learning => format!("learning, {:.0} %", seen.learned * 100.0),
        State::NotJudged => "not judged".to_owned(),
        State::Lacking => "not in the figures".to_owned(),
        State::InBand => "in its band".to_owned(),
        State::Above => "above, not certain".to_owned(),
        State::Below => "below, not certain".to_owned(),
        State::Slower => word(Side::Slower).to_uppercase(),
        State::Faster => word(Side::Faster).to_uppercase(),
    };
    vec![
        seen.stage.clone(),
        state,
        or_nothing(seen.now.as_ref().map(around)),
        or_nothing(band),
        or_nothing(seen.used.map(|used| format!("{} ago", time(used)))),
    ]
}

fn estimate(it: &Estimate) -> String {
    match it.interval {
        Some((low, high)) => format!("{} ({} .. {})", seconds(it.mean), seconds(low), seconds(high)),
        None => seconds(it.mean),
    }
}

/// With half of its interval as a share.
fn around(it: &Estimate) -> String {
    match it.interval {
        Some((low, high)) if it.mean > 0.0 => {
            format!("{} ± {:.0} %", seconds(it.mean), (high - low) / 2.0 / it.mean * 100.0)
        }
        _ => seconds(it.mean),
    }
}

/// Two digits that count.
fn figure(number: f64) -> String {
    if number < 10.0 { format!("{number:.1}") } else { format!("{number:.0}") }
}

/// A span as people say it.
fn time(span: f64) -> String {
    match span {
        it if it < 120.0 => format!("{it:.0} s"),
        it if it < 7_200.0 => format!("{:.0} min", it / 60.0),
        it if it < 172_800.0 => format!("{:.0} h", it / 3_600.0),
        it => format!("{:.0} days", it / 86_400.0),
    }
}

const fn way_word(way: Way) -> &'static str {
    match way {
        Way::Login => "login",
        Way::Request => "request",
        Way::Change => "change",
    }
}

fn way(it: &Outlook) -> Vec<String> {
    let together = it.before.together.zip(it.now.and_then(|now| now.together));
    let together = together.map(|(before, now)| format!("{} ({})", pair(before, Some(now), rate), it.sessions));
    vec![
        format!("{} {}", it.listener, way_word(it.way)),
        pair(it.before.p99, it.now.map(|now| now.p99), seconds),
        pair(it.before.alone, it.now.map(|now| now.alone), rate),
        together.unwrap_or_else(|| "-".to_owned()),
        it.limit.map_or_else(|| "-".to_owned(), |(before, now)| pair(before, Some(now), rate)),
    ]
}

/// A time with three digits that count.
fn seconds(seconds: f64) -> String {
    let (number, unit) = match seconds {
        it if it < 1e-6 => (it * 1e9, "ns"),
        it if it < 1e-3 => (it * 1e6, "us"),
        it if it < 1.0 => (it * 1e3, "ms"),
        it => (it, "s"),
    };
    format!("{} {unit}", digits(number))
}

fn rate(rate: f64) -> String {
    format!("{}/s", digits(rate))
}

/// Three digits that count, where there are not more before the point.
fn digits(number: f64) -> String {
    match number {
        it if it >= 100.0 => format!("{it:.0}"),
        it if it >= 10.0 => format!("{it:.1}"),
        it if it >= 1.0 => format!("{it:.2}"),
        it => format!("{it:.4}"),
    }
}

/// Before and now, where they differ by more than what stages always differ by, or where there is no now.
fn pair(before: f64, now: Option<f64>, words: fn(f64) -> String) -> String {
    match now {
        None => format!("{} -> none now", words(before)),
        Some(now) if (now / before).ln().abs() > 0.1 => format!("{} -> {}", words(before), words(now)),
        Some(now) => words(now),
    }
}
