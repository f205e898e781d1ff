//! The answer in words and as CSV.

use std::fmt::Write;

use super::{Choice, Failure, Outcome, Wanted, security, short};
use crate::model::{Model, Workload};

/// Settings that are named in the text, of those that can be chosen and of those that cannot.
const NAMED: usize = 10;

/// The constraints that a setting fails.
pub(super) fn fails(it: &Outcome, wanted: &Wanted, model: &Model) -> Vec<Failure> {
    let mut fails = Vec::new();
    let mut push = |constraint: &str, wanted: f64, got: Option<f64>, why: String| {
        let by = got.map(|got| (got - wanted).abs() / wanted);
        fails.push(Failure { constraint: constraint.to_owned(), wanted, got, by, why });
    };
    if let Some(rate) = wanted.rate {
        // Of an open workload less is carried where requests are turned away or aborted: that is `loss`, or asked for.
        let closed = matches!(model.workload, Workload::Closed { .. });
        if it.saturated || closed && it.saturation < rate {
            let why = format!("this saturates at {}/s, and {}/s are asked for", short(it.saturation), short(rate));
            push("rate", rate, Some(it.saturation), why);
        } else if closed && it.throughput < rate {
            let why = format!("these clients get {}/s, and {}/s are asked for", short(it.throughput), short(rate));
            push("rate", rate, Some(it.throughput), why);
        }
    }
    for (name, wanted, got) in [
        ("p50", wanted.p50, it.p50),
        ("p95", wanted.p95, it.p95),
        ("p99", wanted.p99, it.p99),
        ("mean", wanted.mean, it.mean),
    ] {
        let Some(wanted) = wanted else { continue };
        match got {
            Some(got) if got <= wanted => {}
            Some(got) => {
                let more = (got / wanted - 1.0) * 100.0;
                let why = format!("{name} is {} ms, {more:.1} % above {} ms", short(got * 1e3), short(wanted * 1e3));
                push(name, wanted, Some(got), why);
            }
            None => {
                push(name, wanted, None, format!("{name} has no bound: this saturates at {}/s", short(it.saturation)))
            }
        }
    }
    if let Some(cpu) = wanted.cpu.filter(|cpu| it.cpu.1 > *cpu) {
        let why =
            format!("`{}` is {} % busy, and {} % are allowed", it.cpu.0, short(it.cpu.1 * 100.0), short(cpu * 100.0));
        push("cpu", cpu, Some(it.cpu.1), why);
    }
    if let Some(loss) = wanted.loss.filter(|loss| it.loss > *loss) {
        let why = format!("{} % are turned away, and {} % may be", short(it.loss * 100.0), short(loss * 100.0));
        push("loss", loss, Some(it.loss), why);
    }
    for (constraint, wanted, got, why) in security::below(&wanted.minimum, model, &it.ways) {
        push(constraint, wanted, got, why);
    }
    fails
}

/// The answer for a terminal.
#[must_use]
pub fn text(choice: &Choice) -> String {
    let mut text = String::new();
    let (all, feasible) = (choice.settings.len(), choice.ranked.len());
    let _ = writeln!(text, "{all} settings, {feasible} can be chosen, {} on the front", choice.front.len());
    let way = if choice.reduced { "by the reduction to a queue" } else { "by their nets" };
    let _ = writeln!(text, "solved {way}; ranked by core seconds of a request, then time\n");
    for (place, index) in choice.ranked.iter().take(NAMED).enumerate() {
        let it = &choice.settings[*index];
        let title = match place {
            0 => "first choice".to_owned(),
            1 => "runner-up".to_owned(),
            _ => format!("{}.", place + 1),
        };
        let _ = writeln!(text, "{title}: {}", it.setting.join("; "));
        let _ = writeln!(text, "    {}", numbers(it));
        if place < 2 {
            let _ = writeln!(text, "    {}", it.bottleneck);
        }
    }
    if feasible > NAMED {
        let _ = writeln!(text, "and {} more", feasible - NAMED);
    }
    let failing: Vec<&Outcome> = choice.settings.iter().filter(|it| !it.fails.is_empty()).collect();
    if failing.is_empty() {
        return text;
    }
    if feasible == 0 {
        let _ = writeln!(text, "no setting meets all constraints");
    }
    let _ = writeln!(text, "\nrejected, the nearest first:");
    let worst = |it: &Outcome| it.fails.iter().map(|fail| fail.by.unwrap_or(f64::INFINITY)).fold(0.0, f64::max);
    let mut nearest = failing.clone();
    nearest.sort_by(|one, other| one.fails.len().cmp(&other.fails.len()).then(worst(one).total_cmp(&worst(other))));
    for it in nearest.iter().take(NAMED) {
        let _ = writeln!(text, "{}", it.setting.join("; "));
        for fail in &it.fails {
            let _ = writeln!(text, "    {}", fail.why);
        }
    }
    if failing.len() > NAMED {
        let _ = writeln!(text, "and {} more (all of them with --output json or --csv)", failing.len() - NAMED);
    }
    text
}

fn numbers(it: &Outcome) -> String {
    let mut words = Vec::new();
    for (name, value) in [("mean", it.mean), ("p50", it.p50), ("p95", it.p95), ("p99", it.p99)] {
        words.extend(value.map(|value| format!("{name} {} ms", short(value * 1e3))));
    }
    words.push(format!("{} ms of cores a request", short(it.cores * 1e3)));
    words.push(format!("`{}` {} % busy", it.cpu.0, short(it.cpu.1 * 100.0)));
    words.push(format!("saturates at {}/s", short(it.saturation)));
    words.extend(it.strength.map(|bits| format!("{bits} bits")));
    words.join(", ")
}

/// All settings, one a line.
#[must_use]
pub fn csv(choice: &Choice) -> String {
    let mut csv = String::from(
        "setting,chosen_rank,on_front,beaten_by,strength_bits,throughput,saturation,mean_s,p50_s,p95_s,p99_s,core_s,busiest,busy,loss,fails\n",
    );
    let mut ranks = vec![String::new(); choice.settings.len()];
    for (rank, index) in choice.ranked.iter().enumerate() {
        ranks[*index] = (rank + 1).to_string();
    }
    for (it, rank) in choice.settings.iter().zip(ranks) {
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let fails: Vec<&str> = it.fails.iter().map(|fail| fail.why.as_str()).collect();
        let beaten = it.beaten_by.map_or_else(String::new, |index| index.to_string());
        let strength = it.strength.map_or_else(String::new, |bits| bits.to_string());
        let _ = writeln!(
            csv,
            "{},{rank},{},{beaten},{strength},{},{},{},{},{},{},{},{},{},{},{}",
            quoted(&it.setting.join("; ")),
            it.on_front,
            it.throughput,
            it.saturation,
            number(it.mean),
            number(it.p50),
            number(it.p95),
            number(it.p99),
            it.cores,
            quoted(&it.cpu.0),
            it.cpu.1,
            it.loss,
            quoted(&fails.join("; ")),
        );
    }
    csv
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}
