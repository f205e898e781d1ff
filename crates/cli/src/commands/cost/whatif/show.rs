//! What `cost what-if` says in words: what each setting carries, how long its requests take, and how both held against runs.

use bench::state;
use bench::verify::{self, Verdict};
use cost::whatif::{Figure, Prediction, Setting};

use super::super::seconds;
use crate::answer::table;

pub(super) fn predicted(prediction: &Prediction, hash: &str) -> String {
    let rows = &prediction.rows;
    let carried = rows.iter().map(|row| {
        vec![
            row.clients.to_string(),
            figure(&row.throughput, |value| format!("{value:.0}/s")),
            figure(&row.saturation, |value| format!("{value:.0}/s")),
            row.difference.map_or_else(String::new, |it| format!("{:+.1} %", it * 100.0)),
            figure(&row.server_busy, |share| format!("{:.0} %", share * 100.0)),
            format!("{} ({:.0} % of the {})", row.largest.0, row.largest.1 * 100.0, row.limited_by),
        ]
    });
    let taken = rows.iter().map(|row| {
        vec![
            row.clients.to_string(),
            figure(&row.response.p50, seconds),
            figure(&row.response.p95, seconds),
            figure(&row.response.p99, seconds),
            figure(&row.storm, seconds),
        ]
    });
    let settings = || rows.iter().map(|row| &row.setting);
    let head = ["clients", "requests", "server's limit", "change", "server", "largest part"];
    let mut text = String::new();
    if !rows.is_empty() {
        text.push_str(&by_setting(&head, settings(), carried.collect()));
        text.push('\n');
        text.push_str(&by_setting(&["clients", "p50", "p95", "p99", "all connect in"], settings(), taken.collect()));
        text.push('\n');
    }
    if !prediction.saturated.is_empty() {
        text.push_str("serves no request, as renewing keys and tokens takes more than there is:\n");
        for it in &prediction.saturated {
            let (name, share) = (it.setting.name(), it.renewing * 100.0);
            let line = format!("  {name}, {} clients: the {} would be {share:.0} % busy with it\n", it.clients, it.end);
            text.push_str(&line);
        }
        text.push('\n');
    }
    text.push_str(&format!(
        "predicted from {} measured steps, {} fitted; sha256 {hash}\n",
        prediction.measured, prediction.fitted
    ));
    if !prediction.unmeasured.is_empty() {
        let names: Vec<&str> = prediction.unmeasured.iter().map(String::as_str).collect();
        text.push_str(&format!("not measured, and left out of connecting and renewing: {}\n", names.join(", ")));
    }
    text
}

pub(super) fn held(verdict: &Verdict) -> String {
    let rows = &verdict.rows;
    let carried = rows.iter().map(|row| {
        let error = if row.measurable { format!("{:+.2} %", row.error * 100.0) } else { "not measurable".into() };
        vec![
            row.clients.to_string(),
            format!("{:.0}/s", row.predicted),
            format!("{:.0}/s{}", row.measured, half(row.half_width)),
            error,
            format!("{:+.2} ± {:.2} %", row.by_round.0 * 100.0, row.by_round.1 * 100.0),
            format!("{:+.1} %", row.moved * 100.0),
        ]
    });
    let taken = rows.iter().map(|row| vec![row.clients.to_string(), both(row.p95), both(row.cpu), both(row.storm)]);
    let settings = || rows.iter().map(|row| &row.setting);
    let head = ["clients", "predicted", "measured", "error", "by round", "moved"];
    let mut text = format!("\n{}\n", by_setting(&head, settings(), carried.collect()));
    let head = ["clients", "p95 predicted | measured", "cpu a request", "all connect in"];
    text.push_str(&by_setting(&head, settings(), taken.collect()));
    let percent = |value: Option<f64>| value.map_or_else(|| "none".into(), |it| format!("{:.2} %", it * 100.0));
    text.push_str(&format!(
        "\n{} of {} rows count; worst error {}, median {}, bias {}; goal (worst {:.0} %, median {:.0} %) {}\n",
        verdict.measurable,
        rows.len(),
        percent(verdict.worst),
        percent(verdict.median),
        percent(verdict.bias),
        verify::WORST * 100.0,
        verify::MEDIAN * 100.0,
        if verdict.met { "met" } else { "missed" }
    ));
    let unknown = state::unknown((verdict.measurable, rows.len()), verdict.rounds, verdict.wandered);
    let met = state::met(&verdict.states, &verdict.distances);
    for why in [unknown, state::said(&verdict.apart), met].into_iter().flatten() {
        text.push_str(&format!("{why}\n"));
    }
    if let Some(first) = verdict.abandoned.first() {
        text.push_str(&format!("runs begun again: {}, the first because {}\n", verdict.abandoned.len(), first.why));
    }
    text
}

/// A table in which the name of each setting, which may be longer than all else, has a line over its rows.
fn by_setting<'a>(head: &[&str], settings: impl Iterator<Item = &'a Setting>, rows: Vec<Vec<String>>) -> String {
    let table = table(head, &rows);
    let mut lines = table.lines();
    let mut text = format!("  {}\n", lines.next().unwrap_or_default());
    let mut last = None;
    for (setting, line) in settings.zip(lines) {
        let name = setting.name();
        if last.as_ref() != Some(&name) {
            text.push_str(&format!("{name}\n"));
            last = Some(name);
        }
        text.push_str(&format!("  {line}\n"));
    }
    text
}

/// Half of an interval; too few runs have none.
fn half(width: f64) -> String {
    let percent = width * 100.0;
    if percent.is_finite() { format!(" ± {percent:.1} %") } else { String::new() }
}

fn figure(figure: &Figure, shown: impl Fn(f64) -> String) -> String {
    format!("{} ± {} %", shown(figure.value), percent(figure.error))
}

/// Two digits that count are enough for what is unsure itself.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 10.0 { format!("{percent:.1}") } else { format!("{percent:.0}") }
}

/// Seconds as predicted and as measured, with the error.
fn both((predicted, measured): (f64, f64)) -> String {
    format!("{} | {} ({:+.0} %)", seconds(predicted), seconds(measured), (predicted / measured - 1.0) * 100.0)
}
