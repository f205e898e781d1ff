//! What `cost what-if` says in words: what each setting carries, how long its requests take, and how both held against runs.

use bench::quiet;
use bench::state;
use bench::verify::{self, Unrun, Verdict};
use cost::whatif::{Figure, Prediction, Setting};

use super::super::seconds;
use crate::answer::table;

pub(super) fn predicted(prediction: &Prediction, hash: &str) -> String {
    let rows = &prediction.rows;
    let carried = rows.iter().map(|row| {
        vec![
            row.clients.to_string(),
            figure(&row.throughput, a_second),
            figure(&row.saturation, a_second),
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
        text.push_str(&format!("not measured, and taken to be nothing: {}\n", names.join(", ")));
    }
    text
}

pub(super) fn held(verdict: &Verdict) -> String {
    let (rows, all) = (&verdict.rows, verdict.rows.len() + verdict.unrun.len());
    let carried = rows.iter().map(|row| {
        let error = if row.measurable { format!("{:+.2} %", row.error * 100.0) } else { "not measurable".into() };
        vec![
            row.clients.to_string(),
            a_second(row.predicted),
            a_second(row.measured) + &half(row.half_width),
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
        "\n{} of {all} rows count; worst error {}, median {}, bias {}; goal (worst {:.0} %, median {:.0} %) {}\n",
        verdict.measurable,
        percent(verdict.worst),
        percent(verdict.median),
        percent(verdict.bias),
        verify::WORST * 100.0,
        verify::MEDIAN * 100.0,
        if verdict.met { "met" } else { "missed" }
    ));
    for Unrun { setting, clients } in &verdict.unrun {
        text.push_str(&format!(
            "{}, {clients} clients: no run that counts, renewals alone take a processor\n",
            setting.name()
        ));
    }
    let unknown = state::unknown((verdict.measurable, all), verdict.rounds, verdict.wandered);
    let met = state::met(&verdict.states, &verdict.distances);
    let quiet = verdict.quiet.map(quiet::said);
    for why in [unknown, state::said(&verdict.apart), met, quiet].into_iter().flatten() {
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
/// Requests a second: whole ones, and three digits of fewer than a hundred.
fn a_second(rate: f64) -> String {
    let digits = if rate > 0.0 && rate < 99.5 { (2.0 - rate.log10().floor()).clamp(1.0, 12.0) } else { 0.0 };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 12")]
    let digits = digits as usize;
    format!("{rate:.digits$}/s")
}

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

#[cfg(test)]
mod tests {
    use super::a_second;

    #[test]
    fn few_requests_a_second_have_digits() {
        let of = [0.0, 1e-15, 0.00446, 4.46, 9.996, 44.6, 99.6, 446.4, 65_849.2];
        let said = ["0/s", "0.000000000000/s", "0.00446/s", "4.46/s", "10.00/s", "44.6/s", "100/s", "446/s", "65849/s"];
        assert_eq!(of.map(a_second), said);
    }
}
