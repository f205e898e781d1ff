//! The report as people read it: in a terminal, as a page, as a picture.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::{Cell, GOALS, Report, Row};
use crate::gd::organisation::Outcome;
use crate::{quiet, state};

/// The report for a terminal.
#[must_use]
pub fn text(it: &Report) -> String {
    let mut text = String::from("GD generation on this machine: predicted from single steps, then measured\n\n");
    for (title, unit, scale, cell) in tables() {
        let _ = writeln!(text, "{title}, {unit}");
        let _ = writeln!(text, "  {:<26}  predicted   measured   +- %  error %", "row");
        for row in &it.rows {
            let cell = cell(row);
            let verdict = if cell.measurable { "" } else { "  not measurable" };
            let half = half(cell, 1);
            let _ = writeln!(
                text,
                "  {:<26}  {:>9.3}  {:>9.3}  {half:>5}  {:>+7.2}{verdict}",
                row.name,
                cell.predicted * scale,
                cell.measured * scale,
                cell.error
            );
        }
        text.push('\n');
    }
    for line in conclusions(it) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Half of an interval to so many digits; nothing is known of fewer than three runs.
fn half(cell: &Cell, digits: usize) -> String {
    if cell.half_width.is_finite() { format!("{:.digits$}", cell.half_width) } else { "none".to_owned() }
}

type Table = (&'static str, &'static str, f64, fn(&Row) -> &Cell);

fn tables() -> [Table; 3] {
    [
        ("Throughput", "tags a second", 1.0, |row| &row.throughput),
        ("Processor time of a tag", "microseconds", 1e6, |row| &row.processor),
        ("95th percentile of the time from tag to tag of a client", "milliseconds", 1e3, |row| &row.p95),
    ]
}

/// What may be concluded, a line each.
#[must_use]
pub fn conclusions(it: &Report) -> Vec<String> {
    let mut lines: Vec<String> = it.series.unmeasured.iter().map(|why| format!("not measured: {why}")).collect();
    for (name, verdict, goal) in [
        ("tags a second", &it.throughput, "worst <= 2 %, median <= 1 %"),
        ("processor time", &it.processor, "worst <= 2 %, median <= 1 %"),
        ("95th percentile", &it.p95, "worst <= 10 %"),
    ] {
        let number = |value: Option<f64>| value.map_or_else(|| "none".to_owned(), |value| format!("{value:.2} %"));
        lines.push(format!(
            "{name}: worst error {}, median {}, bias {}; {} rows measurable, {} not (at most one in five may be); goal {goal}: {}",
            number(verdict.worst),
            number(verdict.median),
            number(verdict.bias),
            verdict.measurable,
            verdict.not_measurable,
            if verdict.met { "met" } else { "missed" }
        ));
    }
    let rounds = it.series.singles.iter().map(|single| single.round).collect::<BTreeSet<_>>().len();
    lines.extend(state::unknown((it.throughput.measurable, it.rows.len()), rounds, it.wandered));
    lines.extend(state::said(&it.apart));
    lines.extend(state::met(&it.states, &it.series.distances));
    lines.extend(counting(it));
    lines.push(format!(
        "{} parameters, each a step timed by itself: {}; none is fitted",
        it.parameter_count,
        it.parameters.join(", ")
    ));
    let series = &it.series;
    let count = |letter: char| series.register.iter().filter(|entry| entry.id.starts_with(letter)).count();
    lines.push(format!(
        "register: {} predictions, {} runs; without an end: {}",
        count('p'),
        count('r'),
        if it.abandoned.is_empty() { "none".to_owned() } else { it.abandoned.join(", ") }
    ));
    lines.push(format!(
        "{}, {:.0} s in all; the host took {:.1} % of the processors meanwhile",
        series.machine,
        series.seconds,
        series.stolen * 100.0
    ));
    lines
}

/// Of how much of the runs figures are.
fn counting(it: &Report) -> Option<String> {
    if let Some(why) = &it.series.unlooked {
        return Some(quiet::unlooked(why));
    }
    let of =
        |seconds: fn(&Outcome) -> f64| it.series.singles.iter().map(|single| seconds(&single.outcome)).sum::<f64>();
    let (counting, all) = (of(|outcome| outcome.counting().seconds), of(|outcome| outcome.all.seconds));
    (all > 0.0).then(|| quiet::said(counting / all))
}

/// The report as one page that loads nothing.
#[must_use]
pub fn html(it: &Report) -> String {
    let mut page = String::from(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>GD generation, predicted and measured</title>\n\
         <style>body{font-family:sans-serif;max-width:70em;margin:2em auto}table{border-collapse:collapse;margin:1em 0}\
         td,th{border:1px solid #ccc;padding:.2em .6em;text-align:right}td:first-child{text-align:left}\
         .no{color:#888}</style></head><body>\n<h1>GD generation on this machine</h1>\n<ul>\n",
    );
    for line in conclusions(it) {
        let _ = writeln!(page, "<li>{}", escaped(&line));
    }
    let _ = writeln!(page, "</ul>\n{}", svg(it));
    for (title, unit, scale, cell) in tables() {
        let _ = writeln!(page, "<h2>{title}, {unit}</h2>\n<table>");
        page.push_str(
            "<tr><th>row<th>predicted<th>measured<th>+- %<th>error %<th>runs<th>first prediction<th>last run</tr>\n",
        );
        for row in &it.rows {
            let (cell, none) = (cell(row), String::new());
            let class = if cell.measurable { "" } else { " class=\"no\"" };
            let _ = writeln!(
                page,
                "<tr{class}><td>{}<td>{:.3}<td>{:.3}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
                escaped(&row.name),
                cell.predicted * scale,
                cell.measured * scale,
                half(cell, 2),
                if cell.measurable { format!("{:+.2}", cell.error) } else { "not measurable".to_owned() },
                row.runs,
                row.predictions.first().unwrap_or(&none),
                row.run_ids.last().unwrap_or(&none)
            );
        }
        page.push_str("</table>\n");
    }
    page.push_str("<h2>Register</h2>\n<table><tr><th>id<th>of<th>state<th>records<th>SHA-256</tr>\n");
    for entry in &it.series.register {
        let records: Vec<String> = entry.records.iter().map(u64::to_string).collect();
        let (id, of, state) = (escaped(&entry.id), escaped(&entry.of), escaped(&entry.state));
        let _ = writeln!(page, "<tr><td>{id}<td>{of}<td>{state}<td>{}<td>{}</tr>", records.join(" "), entry.hash);
    }
    page.push_str("</table></body></html>\n");
    page
}

/// Errors of all rows with the interval of their measurement, beside the goal.
#[must_use]
pub fn svg(it: &Report) -> String {
    const STEP: f64 = 16.0;
    let height = STEP * it.rows.len() as f64 + 50.0;
    // 10 % to each side; what is further off stands at the edge.
    let x = |error: f64| 460.0 + error.clamp(-10.0, 10.0) * 24.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <text x=\"10\" y=\"14\">Error of predicted tags a second, % of the measured; grey: not measurable; band: goal</text>\n"
    );
    let bottom = height - 24.0;
    let _ = writeln!(
        svg,
        "<rect x=\"{}\" y=\"24\" width=\"{}\" height=\"{}\" fill=\"#e4f2e4\"/>",
        x(-GOALS.0),
        x(GOALS.0) - x(-GOALS.0),
        bottom - 24.0
    );
    for error in [-10.0, -5.0, -2.0, 0.0, 2.0, 5.0, 10.0] {
        let at = x(error);
        let _ = writeln!(svg, "<line x1=\"{at}\" x2=\"{at}\" y1=\"24\" y2=\"{bottom}\" stroke=\"#ccc\"/>");
        let _ = writeln!(svg, "<text x=\"{at}\" y=\"{}\" text-anchor=\"middle\">{error}</text>", bottom + 14.0);
    }
    for (index, row) in it.rows.iter().enumerate() {
        let (y, cell) = (36.0 + STEP * index as f64, &row.throughput);
        let colour = if cell.measurable { "#1f5fa8" } else { "#999" };
        let (left, right) = (x(cell.error - cell.half_width), x(cell.error + cell.half_width));
        let _ = writeln!(svg, "<text x=\"10\" y=\"{}\">{}</text>", y + 4.0, escaped(&row.name));
        let _ = writeln!(svg, "<line x1=\"{left}\" x2=\"{right}\" y1=\"{y}\" y2=\"{y}\" stroke=\"{colour}\"/>");
        let _ = writeln!(svg, "<circle cx=\"{}\" cy=\"{y}\" r=\"3.5\" fill=\"{colour}\"/>", x(cell.error));
    }
    svg.push_str("</svg>\n");
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
