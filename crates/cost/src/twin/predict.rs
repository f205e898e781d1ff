//! What the stages make of a client's work: nets of them, solved before and now.
//!
//! A client's way is its stages one after the other, each with the mean and the spread that was measured; the net of one client gives the
//! mean and 99 of 100, the net of all sessions with the listener's thread as a place that serves one at a time gives the rate that they
//! reach together without pausing. A stage below a thousandth of the way is added as it is: it would only make the net stiff.

use gspn::formats::{Format, read};
use gspn::{Budget, ask};
use serde::Serialize;
use serde_json::{Value, json};

use super::moving::Estimate;

/// Stages below this share of the whole are not steps of their own.
const SMALL: f64 = 1e-3;
/// Phases of an Erlang distribution at most.
const PHASES: f64 = 50.0;
/// Sessions that a net has at most.
const MAX_SESSIONS: u32 = 10_000;

/// Figures of a way. Seconds, and times a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// Mean time.
    pub mean: f64,
    /// 99 of 100 are faster.
    pub p99: f64,
    /// What one client reaches that does nothing else.
    pub alone: f64,
    /// What all sessions reach together, none of them pausing; where the processor time of the thread is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub together: Option<f64>,
}

/// A way of a client: mean and squared coefficient of variation of each stage, with how often it is met.
pub(super) fn figures(
    stages: &[(Estimate, f64)],
    thread: Option<f64>,
    sessions: u32,
    budget: &mut Budget<'_>,
) -> Option<Figures> {
    let stages: Vec<(f64, f64)> =
        stages.iter().map(|(it, times)| (it.mean * times, it.variation)).filter(|(mean, _)| *mean > 0.0).collect();
    let mean: f64 = stages.iter().map(|(mean, _)| mean).sum();
    if stages.is_empty() || !mean.is_finite() {
        return None;
    }
    let (steps, small): (Vec<_>, Vec<_>) = stages.iter().partition(|(it, _)| *it >= SMALL * mean);
    let small: f64 = small.iter().map(|(mean, _)| mean).sum();
    let p99 = small + mean * passage(&steps, mean, budget)?;
    let together = match thread {
        None => None,
        Some(thread) => Some(together(thread, mean, sessions, budget)?),
    };
    Some(Figures { mean, p99, alone: 1.0 / mean, together })
}

/// The time that 99 of 100 stay below, in units of `unit`.
fn passage(steps: &[(f64, f64)], unit: f64, budget: &mut Budget<'_>) -> Option<f64> {
    let places = (0..=steps.len()).map(|at| json!({ "name": format!("p{at}"), "tokens": u8::from(at == 0) }));
    let transitions = steps.iter().enumerate().map(|(at, (mean, variation))| {
        let mut transition = phases(mean / unit, *variation);
        transition["name"] = json!(format!("t{at}"));
        transition["in"] = json!({ (format!("p{at}")): 1 });
        transition["out"] = json!({ (format!("p{}", at + 1)): 1 });
        transition
    });
    let net = json!({ "places": places.collect::<Vec<_>>(), "transitions": transitions.collect::<Vec<_>>() });
    let end = format!("p{}", steps.len());
    let asked = json!({ "id": "it", "kind": "passage_quantile", "where": [[end, "==", 1]], "p": 0.99 });
    solved(&net, &asked, budget)
}

/// A transition with this mean and squared coefficient of variation: exponential, Erlang with the nearest number of phases, or two
/// branches with equal shares of the mean.
fn phases(mean: f64, variation: f64) -> Value {
    if variation > 1.05 {
        let share = 0.5 * (1.0 + ((variation - 1.0) / (variation + 1.0)).sqrt());
        let branch = |share: f64| json!([share, 2.0 * share / mean]);
        return json!({ "kind": "phase", "hyper": [branch(share), branch(1.0 - share)] });
    }
    let count = (1.0 / variation).round().clamp(1.0, PHASES);
    if count < 2.0 {
        return json!({ "kind": "timed", "rate": 1.0 / mean });
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 50")]
    let k = count as u32;
    json!({ "kind": "phase", "erlang": { "k": k, "rate": count / mean } })
}

/// Sessions that ask again at once: each needs the thread for a while, and the rest of its time goes elsewhere.
fn together(thread: f64, mean: f64, sessions: u32, budget: &mut Budget<'_>) -> Option<f64> {
    let (thread, sessions) = (thread.max(mean * 1e-9), sessions.clamp(1, MAX_SESSIONS));
    let rest = (mean - thread).max(mean * 1e-9);
    let net = json!({
        "places": [{ "name": "asks", "tokens": sessions }, { "name": "waits" }],
        "transitions": [
            { "name": "served", "kind": "timed", "rate": mean / thread, "in": { "asks": 1 }, "out": { "waits": 1 } },
            { "name": "rest", "kind": "timed", "rate": mean / rest, "servers": "inf", "in": { "waits": 1 }, "out": { "asks": 1 } },
        ],
    });
    let asked = json!({ "id": "it", "kind": "throughput", "transition": "served" });
    Some(solved(&net, &asked, budget)? / mean)
}

fn solved(net: &Value, asked: &Value, budget: &mut Budget<'_>) -> Option<f64> {
    let text = json!({ "net": net, "ask": [asked] }).to_string();
    let document = read(text.as_bytes(), Format::Json, &[]).ok()?;
    let answer = ask::answer(&document.net, &document.asks, budget).ok()?;
    match answer.values.get("it")? {
        ask::Value::Number(number) => Some(*number).filter(|number| number.is_finite()),
        ask::Value::Count(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use gspn::Limits;

    use super::*;

    fn estimate(mean: f64, variation: f64) -> Estimate {
        Estimate { mean, interval: None, variation, uses: 1.0, batches: 1.0 }
    }

    fn of(stages: &[(f64, f64)], thread: Option<f64>, sessions: u32) -> Figures {
        let stages: Vec<_> = stages.iter().map(|(mean, variation)| (estimate(*mean, *variation), 1.0)).collect();
        let mut go_on = |_| true;
        figures(&stages, thread, sessions, &mut Budget::new(Limits::default(), &mut go_on)).unwrap()
    }

    #[test]
    fn figures_are_those_of_closed_forms() {
        let one = of(&[(0.002, 1.0)], None, 1);
        assert!((one.p99 - 0.002 * 100.0_f64.ln()).abs() < 1e-8, "{one:?}");
        assert!((one.alone - 500.0).abs() < 1e-9);
        // Two exponential steps are an Erlang distribution: its tail at t is (1 + t) exp(-t).
        let two = of(&[(0.01, 1.0), (0.01, 1.0)], None, 1);
        let tail = |t: f64| (1.0 + t) * (-t).exp();
        assert!((tail(two.p99 / 0.01) - 0.01).abs() < 1e-7, "{two:?}");
        assert!((of(&[(0.01, 0.5)], None, 1).p99 - two.p99 / 2.0).abs() < 1e-7);
        // A stage of a microsecond beside one of a second is added.
        let stiff = of(&[(1e-6, 1.0), (1.0, 1.0)], None, 1);
        assert!((stiff.p99 - (1e-6 + 100.0_f64.ln())).abs() < 1e-5, "{stiff:?}");
        let spread = of(&[(1.0, 9.0)], None, 1);
        assert!(spread.p99 > 2.0 * one.p99 / 0.002, "{spread:?}");
    }

    #[test]
    fn many_sessions_reach_what_the_thread_can_do() {
        // One in service and one elsewhere with equal means: two sessions keep the thread busy for 4/5 of the time.
        let two = of(&[(0.002, 1.0)], Some(0.001), 2).together.unwrap();
        assert!((two - 0.8 / 0.001).abs() < 1e-6, "{two}");
        let alone = of(&[(0.01, 1.0)], Some(0.001), 1);
        assert!((alone.together.unwrap() - alone.alone).abs() < 1e-6);
        assert!((of(&[(0.001, 1.0)], Some(0.001), 64).together.unwrap() - 1_000.0).abs() < 1e-3);
    }
}
