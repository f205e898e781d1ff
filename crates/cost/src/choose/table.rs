//! The answer in words and as CSV.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::simulated::REQUESTS;
use super::unit::{self, Unit};
use super::{Choice, Down, Ends, Outcome, saturation, short};

/// Settings that are named in the text, of those that can be chosen and of those that cannot.
const NAMED: usize = 10;
/// Of the longest run.
const MOST_REQUESTS: usize = REQUESTS[1];
/// Share of requests turned away from which on it is said.
const SHOWN_LOSS: f64 = 1e-4;
/// Share of a figure up to which half of its interval is not worth a word: four digits are said.
const FINE: f64 = 1e-5;
/// Sides of an interval that differ from its half by no more of it are said as one.
const EVEN: f64 = 0.1;

/// The answer for a terminal.
#[must_use]
pub fn text(choice: &Choice) -> String {
    /// Why any are simulated.
    const WHY: &str =
        "for their nets are too large, or percentiles are asked for of requests that do several things at once";

    let mut text = String::new();
    let (all, feasible) = (choice.settings.len(), choice.ranked.len());
    let unsolved: Vec<usize> =
        choice.rejected.iter().copied().filter(|index| choice.settings[*index].unsolved.is_some()).collect();
    let unknown = choice.settings.iter().filter(|it| it.is_unknown()).count();
    let missing = match (unsolved.len(), unknown) {
        (0, _) => String::new(),
        (many, 0) => format!(", {many} not solved (which are less secure than is asked for)"),
        (many, _) if feasible == 0 => format!(", {many} not solved"),
        (many, of) if many == of => format!(", {many} not solved (each of which may come before the first choice)"),
        (many, of) => format!(", {many} not solved ({of} of which may come before the first choice)"),
    };
    let _ = writeln!(text, "{all} settings, {feasible} can be chosen, {} on the front{missing}", choice.front.len());
    let simulated = choice.settings.iter().filter(|it| it.simulated.is_some()).count();
    let way = match simulated {
        _ if choice.reduced => "by the reduction to a queue".to_owned(),
        0 => "by their nets".to_owned(),
        count if count == all => format!("by simulation, {WHY}"),
        count => format!("by their nets, {count} by simulation, {WHY}"),
    };
    let money = if choice.settings.iter().any(|it| it.money.is_some()) { "money an hour, then " } else { "" };
    let energy = if choice.settings.iter().any(|it| it.energy.is_some()) { "then energy, " } else { "" };
    let _ = writeln!(text, "solved {way}; ranked by {money}core seconds of a request, {energy}then time");
    if choice.settings.iter().any(|it| !it.plus_minus.is_empty()) {
        let of = if simulated > 0 { "the prices and of simulation" } else { "the prices" };
        let _ = writeln!(text, "\u{b1}: half of the 95 % interval that comes of {of}");
    }
    if choice.settings.iter().any(|it| !it.ends.is_empty() || it.down.iter().any(|it| !it.ends.is_empty())) {
        text.push_str("(from .. to ..): its ends, where they are not as far to both sides\n");
    }
    text.push('\n');
    for (place, index) in choice.ranked.iter().take(NAMED).enumerate() {
        let it = &choice.settings[*index];
        let title = match place {
            0 => "first choice".to_owned(),
            1 => "runner-up".to_owned(),
            _ => format!("{}.", place + 1),
        };
        let _ = writeln!(text, "{title}: {}", it.setting.join("; "));
        let _ = writeln!(text, "    {}", numbers(it));
        if !it.unsure.is_empty() {
            let _ = writeln!(text, "    within its intervals it may fail {}", it.unsure.join(" and "));
        }
        if place < 2 {
            let _ = writeln!(text, "    {}", it.bottleneck);
            for down in &it.down {
                let _ = writeln!(text, "    {}", lost(down));
            }
        }
    }
    if feasible > NAMED {
        let _ = writeln!(text, "and {} more", feasible - NAMED);
    }
    if choice.rejected.is_empty() {
        return text;
    }
    if feasible == 0 {
        nobody(choice, &mut text);
    }
    // Those that were not solved are the last.
    let rejected = &choice.rejected[..choice.rejected.len() - unsolved.len()];
    if !rejected.is_empty() {
        let _ = writeln!(text, "\nrejected, the nearest first:");
    }
    for index in rejected.iter().take(NAMED) {
        let it = &choice.settings[*index];
        let _ = writeln!(text, "{}", it.setting.join("; "));
        for fail in &it.fails {
            let _ = writeln!(text, "    {}", fail.why);
        }
    }
    if rejected.len() > NAMED {
        let _ = writeln!(text, "and {} more (all of them with --output json or --csv)", rejected.len() - NAMED);
    }
    if let Some(why) = unsolved.first().and_then(|index| choice.settings[*index].unsolved.as_ref()) {
        let _ = writeln!(text, "\nnot solved, so nobody knows how fast they are:");
        for index in unsolved.iter().take(NAMED) {
            let it = &choice.settings[*index];
            let _ = writeln!(text, "{}", it.setting.join("; "));
            if it.unsolved.as_ref() != Some(why) || unsolved.first() == Some(index) {
                let _ = writeln!(text, "    {}", it.unsolved.as_deref().unwrap_or_default());
            }
            for fail in it.fails.iter().skip(1) {
                let _ = writeln!(text, "    {}", fail.why);
            }
        }
        if unsolved.len() > NAMED {
            let _ = writeln!(text, "and {} more (all of them with --output json or --csv)", unsolved.len() - NAMED);
        }
    }
    text
}

/// What to say where nobody meets all constraints: how far the nearest is, and what of each could be had.
fn nobody(choice: &Choice, text: &mut String) {
    let Some(nearest) = choice.rejected.first().map(|index| &choice.settings[*index]) else { return };
    let whys: Vec<&str> = nearest.fails.iter().map(|fail| fail.why.as_str()).collect();
    let of = if choice.settings.iter().any(Outcome::is_unknown) { " that was solved" } else { "" };
    let _ = writeln!(text, "no setting{of} meets all constraints");
    let _ = writeln!(text, "the nearest: {}: {}", nearest.setting.join("; "), whys.join("; "));
    let _ = writeln!(text, "    {}", numbers(nearest));
    let _ = writeln!(text, "    {}", nearest.bottleneck);
    for (name, index) in &choice.best {
        let it = &choice.settings[*index];
        let got = match *name {
            "p50" => it.p50.map(unit::time),
            "p95" => it.p95.map(unit::time),
            "p99" => it.p99.map(unit::time),
            "mean" => it.mean.map(unit::time),
            "rate" => Some(format!("{}/s", short(it.rate))),
            "cpu" => Some(format!("{} %", short(it.cpu.1 * 100.0))),
            "loss" => Some(format!("{} %", short(it.loss * 100.0))),
            "energy" => it.energy.map(|it| format!("{} a request", unit::energy(it))),
            "money" => it.money.map(|it| format!("{} an hour", short(it))),
            _ => it.availability.map(|it| format!("{} %", super::fails::share(it))),
        };
        let _ = writeln!(text, "the best {name} of all is {}: {}", got.unwrap_or_default(), it.setting.join("; "));
    }
}

/// What is left while a machine is down.
fn lost(down: &Down) -> String {
    if down.stops {
        return format!("with one machine of `{}` down nothing goes on", down.node);
    }
    if let Some(why) = &down.unsolved {
        return why.clone();
    }
    let off = Off { plus_minus: &down.plus_minus, ends: &down.ends };
    let time = match (down.p99, down.mean) {
        (Some(p99), _) => format!("p99 {}", off.time("p99", p99)),
        (None, Some(mean)) => format!("mean {}", off.time("mean", mean)),
        _ => "more is asked for than it carries".to_owned(),
    };
    let unsure = match down.unsure.as_slice() {
        [] => String::new(),
        names => format!(" (within its intervals it may fail {})", names.join(" and ")),
    };
    format!(
        "with one machine of `{}` down ({} left) it saturates at {}, {time}{unsure}",
        down.node,
        down.left,
        saturation(down.carried, down.saturation, &off.half("carried", down.carried, 1.0))
    )
}

/// Intervals of figures, as words.
struct Off<'a> {
    plus_minus: &'a BTreeMap<&'static str, f64>,
    ends: &'a BTreeMap<&'static str, Ends>,
}

impl Off<'_> {
    /// A figure with its interval; `unit` stands behind the numbers.
    fn figure(&self, name: &str, value: f64, factor: f64, unit: &str) -> String {
        let Some([low, high]) = self.ends.get(name).filter(|ends| self.lopsided(name, value, **ends)) else {
            return format!("{}{}{unit}", short(value * factor), self.half(name, value, factor));
        };
        let low = short(low.unwrap_or(value) * factor);
        let ends = match high {
            Some(high) => format!("from {low} to {}{unit}", short(high * factor)),
            None => format!("from {low}{unit}; may saturate"),
        };
        format!("{}{unit} ({ends})", short(value * factor))
    }

    /// A time, in the unit in which it is read.
    fn time(&self, name: &str, seconds: f64) -> String {
        let Unit(factor, unit) = Unit::of_time(seconds);
        self.figure(name, seconds, factor, unit)
    }

    /// Half of the interval of a figure, where it is anything beside it.
    fn half(&self, name: &str, value: f64, factor: f64) -> String {
        match self.plus_minus.get(name) {
            Some(half) if *half > FINE * value.abs() => format!(" \u{b1} {}", rounded(half * factor)),
            _ => String::new(),
        }
    }

    /// Whether one side differs from what is said of both.
    fn lopsided(&self, name: &str, value: f64, [low, high]: Ends) -> bool {
        let half = self.plus_minus.get(name).copied().unwrap_or(0.0);
        let same = |side: f64| (side - half).abs() <= EVEN * half;
        !low.zip(high).is_some_and(|(low, high)| same(value - low) && same(high - value))
    }
}

fn numbers(it: &Outcome) -> String {
    let off = Off { plus_minus: &it.plus_minus, ends: &it.ends };
    let mut words = Vec::new();
    for (name, value) in [("mean", it.mean), ("p50", it.p50), ("p95", it.p95), ("p99", it.p99)] {
        words.extend(value.map(|value| format!("{name} {}", off.time(name, value))));
    }
    words.push(format!("{} of cores a request", off.time("cores", it.cores)));
    words.extend(it.energy.map(|joules| {
        let Unit(factor, unit) = Unit::of_energy(joules);
        format!("{} a request", off.figure("energy", joules, factor, unit))
    }));
    words.extend(it.money.map(|money| off.figure("money", money, 1.0, " money an hour")));
    words.push(format!("`{}` {}", it.cpu.0, off.figure("cpu", it.cpu.1, 100.0, " % busy")));
    words
        .push(format!("saturates at {}", saturation(it.carried, it.saturation, &off.half("carried", it.carried, 1.0))));
    words.extend(it.saturated.then(|| "which is less than comes".to_owned()));
    let aborted = 1.0 - it.saturation / it.carried;
    words.extend((aborted >= SHOWN_LOSS).then(|| format!("{} % aborted by checks", short(aborted * 100.0))));
    words.extend((it.loss >= SHOWN_LOSS).then(|| format!("{} % turned away", short(it.loss * 100.0))));
    words.extend(it.availability.map(|share| format!("enough machines up {:.6} % of the time", share * 100.0)));
    words.extend(it.strength.map(|bits| format!("{bits} bits")));
    let most = |requests| if requests >= MOST_REQUESTS { " (the most; the intervals are as they are)" } else { "" };
    words.extend(it.simulated.map(|requests| format!("{requests} requests simulated{}", most(requests))));
    words.join(", ")
}

/// Two digits that count.
fn rounded(value: f64) -> String {
    let power = 10_f64.powf(1.0 - value.abs().log10().floor());
    short((value * power).round() / power)
}

/// All settings, one a line; behind each figure half of its 95 % interval, and both ends: `inf` where more comes than is carried there.
#[must_use]
pub fn csv(choice: &Choice) -> String {
    const FIGURES: [&str; 11] =
        ["throughput", "carried", "saturation", "mean", "p50", "p95", "p99", "cores", "cpu", "energy", "money"];
    const HEADS: [&str; 11] = [
        "throughput",
        "carried",
        "saturation",
        "mean_s",
        "p50_s",
        "p95_s",
        "p99_s",
        "core_s",
        "busy",
        "energy_j",
        "money_per_hour",
    ];
    let mut csv = String::from("number,setting,chosen_rank,on_front,beaten_by,beaten_by_setting,strength_bits");
    for head in HEADS {
        let _ = write!(csv, ",{head},{head}_plus_minus,{head}_low,{head}_high");
    }
    csv.push_str(",busiest,availability,loss,loss_plus_minus,loss_low,loss_high,bottleneck,fails,may_fail\n");
    let mut ranks = vec![String::new(); choice.settings.len()];
    for (rank, index) in choice.ranked.iter().enumerate() {
        ranks[*index] = (rank + 1).to_string();
    }
    // What was not solved has no figures.
    let number =
        |value: Option<f64>| value.filter(|it| !it.is_nan()).map_or_else(String::new, |value| value.to_string());
    for (index, (it, rank)) in choice.settings.iter().zip(ranks).enumerate() {
        let fails: Vec<&str> = it.fails.iter().map(|fail| fail.why.as_str()).collect();
        let beaten = it.beaten_by.map_or_else(String::new, |index| index.to_string());
        let beaten_by = it.beaten_by.map_or_else(String::new, |index| choice.settings[index].setting.join("; "));
        let strength = it.strength.map_or_else(String::new, |bits| bits.to_string());
        let setting = quoted(&it.setting.join("; "));
        let _ = write!(csv, "{index},{setting},{rank},{},{beaten},{},{strength}", it.on_front, quoted(&beaten_by));
        let rates = [it.throughput, it.carried, it.saturation].map(Some);
        let rest = [it.mean, it.p50, it.p95, it.p99, Some(it.cores), Some(it.cpu.1), it.energy, it.money];
        let put = |csv: &mut String, value: Option<f64>, name: &'static str| {
            let _ = write!(csv, ",{},{}", number(value), number(it.plus_minus.get(name).copied()));
            let ends = value.and_then(|value| super::ends::of(&it.plus_minus, &it.ends, name, value));
            let _ = write!(csv, ",{},{}", number(ends.map(|it| it[0])), number(ends.map(|it| it[1])));
        };
        for (value, name) in rates.into_iter().chain(rest).zip(FIGURES) {
            put(&mut csv, value, name);
        }
        let _ = write!(csv, ",{},{}", quoted(&it.cpu.0), number(it.availability));
        put(&mut csv, Some(it.loss), "loss");
        let _ = writeln!(
            csv,
            ",{},{},{}",
            quoted(&it.bottleneck),
            quoted(&fails.join("; ")),
            quoted(&it.unsure.join("; ")),
        );
    }
    csv
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_is_nothing_beside_its_figure_is_not_said() {
        let halves = BTreeMap::from([("mean", 2e-14), ("cores", 3e-6), ("energy", 0.0)]);
        let off = Off { plus_minus: &halves, ends: &BTreeMap::new() };
        assert_eq!(off.time("mean", 0.002), "2 ms");
        assert_eq!(off.time("cores", 0.002), "2 \u{b1} 0.003 ms");
        assert_eq!(off.time("cores", 50e-6), "50 \u{b1} 3 us");
        assert_eq!(off.half("energy", 0.0, 1.0), "");
    }
}
