//! The reproduction for a terminal.

use std::fmt::Write;

use super::Reproduction;

/// The tables as text.
#[must_use]
pub fn text(it: &Reproduction) -> String {
    let mut text = String::new();
    for table in [2, 3] {
        let configuration = table - 1;
        let _ = writeln!(text, "Table {table}: GD generation, SC{configuration}, tags a second");
        let _ = writeln!(
            text,
            "  platform   key  printed     here    off %             measured  error of model %  of measurement %"
        );
        for row in it.rows.iter().filter(|row| row.table == table) {
            let origin = row.origin.name();
            let _ = writeln!(
                text,
                "  {:>8}  {:>4}  {:>7.2}  {:>7.4}  {:>+7.3}  {origin:<9}  {:>8.2}  {:>16.2}  {:>16.2}",
                row.platform,
                row.key,
                row.printed,
                row.value,
                row.off,
                row.measured,
                row.error_of_model,
                row.error_of_measurement
            );
        }
        text.push('\n');
    }
    let _ = writeln!(text, "Table 4: from SC1 to SC2, % of throughput lost");
    let _ = writeln!(text, "  platform   key  printed     here  unrounded  measured");
    for row in &it.degradations {
        let _ = writeln!(
            text,
            "  {:>8}  {:>4}  {:>7.2}  {:>7.3}  {:>9.3}  {:>8.2}",
            row.platform, row.key, row.printed, row.value, row.unrounded, row.printed_measured
        );
    }
    let _ = writeln!(text, "\nFitted, ms");
    for fit in &it.fitted {
        let sc1: Vec<String> = fit.sc1.iter().map(|(key, time)| format!("{key}: {time:.2}")).collect();
        let (low, high) = fit.interval;
        let _ = writeln!(
            text,
            "  platform {}: SC1 {}; SC2 adds {:.2} (from {low:.2} to {high:.2} all printed rows come out with SC1 within its rounding)",
            fit.platform,
            sc1.join(", "),
            fit.added
        );
    }
    let _ = writeln!(
        text,
        "\nThe measured columns in the same way (SC2 from measured SC1 and the row of 1024 bits), tags a second"
    );
    for row in &it.measured {
        let _ = writeln!(
            text,
            "  platform {}, {}: printed {:.2}, here {:.3}, off {:+.2} %",
            row.platform, row.key, row.printed, row.value, row.off
        );
    }
    let _ = writeln!(
        text,
        "\nFigure 7, platform 1, 1024 bits: rooms with which the most is first reached where the paper says"
    );
    for knee in &it.figure.knees {
        let (rooms, one) = (span(&knee.rooms), span(&knee.rooms_of_one_stage));
        let _ = writeln!(
            text,
            "  {}: {} at {} arrivals a second: {rooms} (were the scenario one exponential time: {one})",
            knee.configuration, knee.most, knee.arrivals
        );
    }
    let _ = writeln!(text, "\n{}", summary(it));
    text
}

fn span(rooms: &[u32]) -> String {
    match (rooms.first(), rooms.last()) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
        (Some(first), _) => first.to_string(),
        _ => "none from 1 to 60".to_owned(),
    }
}

/// What may be concluded, in three sentences.
pub(super) fn summary(it: &Reproduction) -> String {
    format!(
        "{} values are fitted and {} predicted; the worst is {:.2} % off its printed value, the worst degradation {:.3} points. \
         The paper's model promises {:+.2} % on average over its measurements. \
         Only sums can be identified: which step of SC1 or SC2 costs what, the paper does not say.",
        it.count.fitted, it.count.predicted, it.worst, it.worst_degradation, it.bias
    )
}
