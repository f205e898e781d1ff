//! Constraints: which a setting fails, and by how much.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Outcome, Wanted, above, saturation, security, short, unit};
use crate::model::{Model, Workload};
use crate::{Class, Fault, net};

/// A constraint that a setting fails.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Failure {
    /// Its name as on the command line.
    pub constraint: String,
    /// What is wanted.
    pub wanted: f64,
    /// What comes out, if there is a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub got: Option<f64>,
    /// By how much, relative to what is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<f64>,
    /// The same as a sentence.
    pub why: String,
}

fn failure(constraint: &str, wanted: f64, got: Option<f64>, why: String) -> Failure {
    let by = got.map(|got| ((got - wanted).abs() / wanted).min(f64::MAX));
    Failure { constraint: constraint.to_owned(), wanted, got, by, why }
}

/// A constraint that this model says nothing of is refused.
pub(super) fn check(wanted: &Wanted, model: &Model) -> Result<(), Fault> {
    let fault = |name: &str, why: &str| Err(Fault::new(Class::Missing, name, why));
    let machines = || model.nodes.iter().map(|node| &node.machines);
    let energy = model.prices.values().flat_map(BTreeMap::values).any(|price| price.energy > 0.0);
    let powered = energy || machines().any(|it| it.power.is_some());
    if wanted.energy.is_some() && !powered {
        return fault(
            "energy",
            "the model says of no node what power it takes (`idle`, `busy`), and of no price its `energy`",
        );
    }
    if wanted.money.is_some() && machines().all(|it| it.money.is_none()) && !(powered && model.energy.is_some()) {
        return fault("money", "the model says of no node what it costs (`money`), nor what energy does (`[money]`)");
    }
    if wanted.availability.is_some() && machines().all(|it| it.failures.is_none()) {
        return fault("availability", "the model says of no node how often it fails (`fails`, `repair`)");
    }
    if wanted.loss.is_some() && matches!(model.workload, Workload::Closed { .. }) {
        return fault("loss", "the workload is closed: its clients wait, and none is turned away");
    }
    let may_lose = machines().any(|it| it.failures.is_some() || it.counts.iter().any(|count| *count > 1));
    if wanted.one_down && !may_lose {
        return fault(
            "one-down",
            "no node of the model can fail (`fails`, `repair`) or has several machines (`machines`)",
        );
    }
    Ok(())
}

/// By how many percent, where more than none of them are.
fn by(percent: f64) -> String {
    match percent {
        ..0.1 => "less than 0.1 %".to_owned(),
        ..1e6 => format!("{percent:.1} %"),
        _ => format!("{} %", short(percent)),
    }
}

/// The constraints that a setting fails.
pub(super) fn fails(it: &Outcome, wanted: &Wanted, model: &Model) -> Vec<Failure> {
    let mut fails = of_load(it, wanted, model);
    let mut most = |name: &str, wanted: Option<f64>, got: Option<f64>, told: fn(f64) -> String, of: &str| {
        let Some((wanted, got)) = wanted.zip(got).filter(|(wanted, got)| above(*got, *wanted)) else { return };
        let more = short((got / wanted - 1.0) * 100.0);
        let why = format!("{name} is {} {of}, {more} % above {} {of}", told(got), told(wanted));
        fails.push(failure(name, wanted, Some(got), why));
    };
    most("energy", wanted.energy, it.energy, unit::energy, "a request");
    most("money", wanted.money, it.money, short, "an hour");
    if let Some((wanted, got)) =
        wanted.availability.zip(it.availability).filter(|(wanted, got)| above(1.0 - got, 1.0 - wanted))
    {
        let why = format!("enough machines are up {} % of the time, and {} % are wanted", share(got), share(wanted));
        // Nines count: 99 % is ten times as far from always as 99.9 %.
        let by = ((1.0 - got) / (1.0 - wanted).max(1e-15) - 1.0).abs();
        fails.push(Failure { constraint: "availability".to_owned(), wanted, got: Some(got), by: Some(by), why });
    }
    if wanted.one_down {
        fails.extend(it.down.iter().flat_map(|down| down.fails.iter().cloned()));
    }
    fails.extend(of_security(&it.ways, wanted, model));
    fails
}

/// Those of security, of which it needs no figure.
pub(super) fn of_security(ways: &[usize], wanted: &Wanted, model: &Model) -> Vec<Failure> {
    let mut fails: Vec<Failure> = Vec::new();
    for (constraint, wanted, got, why) in security::below(&wanted.minimum, model, ways) {
        // What two levels demand is said once, and counts once.
        if fails.iter().all(|known| known.constraint != constraint || known.why != why) {
            fails.push(failure(constraint, wanted, got, why));
        }
    }
    fails
}

/// Percent with as many nines as there are.
pub(super) fn share(share: f64) -> String {
    let digits = (-(1.0 - share).max(1e-12).log10()).ceil().max(1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 12")]
    let digits = digits as usize;
    format!("{:.digits$}", share * 100.0)
}

/// Constraints that it meets in the middle of its intervals and fails at the far end.
pub(super) fn unsure(it: &Outcome, wanted: &Wanted, model: &Model) -> Vec<String> {
    let mut unsure = unsure_of_load(it, wanted, model);
    let costs = [("energy", wanted.energy, it.energy), ("money", wanted.money, it.money)];
    let far = |name: &str, wanted: f64, got: f64| !above(got, wanted) && above(it.high(name, got), wanted);
    let costs = costs
        .into_iter()
        .filter(|(name, wanted, got)| wanted.zip(*got).is_some_and(|(wanted, got)| far(name, wanted, got)));
    unsure.extend(costs.map(|(name, ..)| name.to_owned()));
    if wanted.one_down {
        let of = |down: &super::Down| {
            let words = format!("with one machine of `{}` down", down.node);
            down.unsure.iter().map(|name| format!("{name} {words}")).collect::<Vec<_>>()
        };
        unsure.extend(it.down.iter().flat_map(of));
    }
    unsure
}

/// Those of times, rate and load.
pub(super) fn unsure_of_load(it: &Outcome, wanted: &Wanted, model: &Model) -> Vec<String> {
    let fewest = it.low("carried", it.carried);
    let may_saturate = matches!(model.workload, Workload::Open { rate, .. }
        if fewest < it.carried && !it.saturated && !above(fewest, rate));
    let is_time = |name: &str| matches!(name, "p50" | "p95" | "p99" | "mean");
    let most = [
        ("p50", wanted.p50, it.p50),
        ("p95", wanted.p95, it.p95),
        ("p99", wanted.p99, it.p99),
        ("mean", wanted.mean, it.mean),
        ("cpu", wanted.cpu, Some(it.cpu.1)),
        ("loss", wanted.loss, Some(it.loss)),
    ];
    let most = most.into_iter().filter(|(name, wanted, got)| {
        let far = |got: f64, wanted: f64| above(it.high(name, got), wanted) || may_saturate && is_time(name);
        wanted.zip(*got).is_some_and(|(wanted, got)| !above(got, wanted) && far(got, wanted))
    });
    let closed = matches!(model.workload, Workload::Closed { .. });
    let far = |rate: f64| {
        let less = |name: &str, got: f64| !above(rate, got) && above(rate, it.low(name, got));
        less("saturation", it.saturation) || less("throughput", it.throughput)
    };
    let may_fall_short = if closed { wanted.rate.is_some_and(far) } else { may_saturate };
    let rate = may_fall_short && it.fails.iter().all(|fail| fail.constraint != "rate");
    most.map(|(name, ..)| name.to_owned()).chain(rate.then(|| "rate".to_owned())).collect()
}

/// What was solved before what was not; fewer constraints failed, each counted once although it fails with a machine down, too; then the farthest of them less far; then fewer
/// failures with machines down, and more that is carried, for of a time that is not told nobody knows how far it is.
pub(super) fn nearer(one: &Outcome, other: &Outcome) -> Ordering {
    let failed = |it: &Outcome| it.fails.iter().map(|fail| fail.constraint.as_str()).collect::<BTreeSet<_>>().len();
    let worst = |it: &Outcome| it.fails.iter().map(|fail| fail.by.unwrap_or(f64::INFINITY)).fold(0.0, f64::max);
    let carried = |it: &Outcome| it.down.iter().map(|down| down.carried).fold(it.carried, f64::min);
    let solved = one.unsolved.is_some().cmp(&other.unsolved.is_some());
    let nearer = solved.then(failed(one).cmp(&failed(other))).then(worst(one).total_cmp(&worst(other)));
    nearer.then(one.fails.len().cmp(&other.fails.len())).then(carried(other).total_cmp(&carried(one)))
}

/// For each constraint that is a number, the setting that meets it best.
pub(super) fn best(settings: &[Outcome], wanted: &Wanted) -> BTreeMap<&'static str, usize> {
    type Figure = fn(&Outcome) -> Option<f64>;
    let figures: [(&'static str, bool, Figure); 10] = [
        ("p50", wanted.p50.is_some(), |it| it.p50),
        ("p95", wanted.p95.is_some(), |it| it.p95),
        ("p99", wanted.p99.is_some(), |it| it.p99),
        ("mean", wanted.mean.is_some(), |it| it.mean),
        ("rate", wanted.rate.is_some() || settings.iter().any(|it| it.saturated), |it| Some(-it.rate)),
        ("cpu", wanted.cpu.is_some(), |it| Some(it.cpu.1)),
        ("loss", wanted.loss.is_some(), |it| Some(it.loss)),
        ("energy", wanted.energy.is_some(), |it| it.energy),
        ("money", wanted.money.is_some(), |it| it.money),
        ("availability", wanted.availability.is_some(), |it| it.availability.map(|share| -share)),
    ];
    let best = |figure: Figure| {
        let solved = settings.iter().enumerate().filter(|(_, it)| it.unsolved.is_none());
        let numbers = solved.filter_map(|(index, it)| Some((index, figure(it)?)));
        numbers.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(index, _)| index)
    };
    let asked = figures.into_iter().filter(|(_, asked, _)| *asked);
    asked.filter_map(|(name, _, figure)| Some((name, best(figure)?))).collect()
}

/// Why there is no answer, and what to do.
pub(super) fn unsolved(fault: &Fault) -> String {
    let less = "fewer clients, threads or percentiles, or less `room`, take less";
    match fault.name.as_str() {
        "time" => format!("not solved when the time was over: `--time TIME` allows more; {less}"),
        "markings" => format!("not solved: its net has more markings than `--markings COUNT` allows; {less}"),
        "simulation" => format!("not solved: {}; {less}", fault.why),
        "memory" => format!("not solved: it takes more memory than is allowed; {less}"),
        _ if fault.why == net::TIMELESS => format!("not solved: {}", fault.why),
        _ => format!("not solved: {fault}"),
    }
}

/// The constraints of times, rate and load that a setting fails.
pub(super) fn of_load(it: &Outcome, wanted: &Wanted, model: &Model) -> Vec<Failure> {
    let mut fails = Vec::new();
    let mut push = |constraint, wanted, got, why| fails.push(failure(constraint, wanted, got, why));
    let most = || saturation(it.carried, it.saturation, "");
    match (model.workload, wanted.rate) {
        // Of an open workload less is carried where requests are turned away or aborted: that is `loss`, or asked for. But as many as come must
        // be carried, whatever else is wanted.
        (Workload::Open { rate, .. }, asked) if it.saturated => {
            let words = if asked.is_some() { "are asked for" } else { "come" };
            let why = format!("this saturates at {}, and {}/s {words}", most(), short(rate));
            push("rate", rate, Some(it.rate), why);
        }
        (Workload::Closed { .. }, Some(rate)) if above(rate, it.saturation) => {
            let got = short(it.throughput);
            let why =
                format!("this saturates at {}, these clients get {got}/s, and {}/s are asked for", most(), short(rate));
            push("rate", rate, Some(it.rate), why);
        }
        (Workload::Closed { .. }, Some(rate)) if above(rate, it.throughput) => {
            let why = format!("these clients get {}/s, and {}/s are asked for", short(it.throughput), short(rate));
            push("rate", rate, Some(it.throughput), why);
        }
        _ => {}
    }
    for (name, wanted, got) in [
        ("p50", wanted.p50, it.p50),
        ("p95", wanted.p95, it.p95),
        ("p99", wanted.p99, it.p99),
        ("mean", wanted.mean, it.mean),
    ] {
        let Some(wanted) = wanted else { continue };
        match got {
            Some(got) if !above(got, wanted) => {}
            Some(got) => {
                let more = (got / wanted - 1.0) * 100.0;
                let why = format!("{name} is {}, {} above {}", unit::time(got), by(more), unit::time(wanted));
                push(name, wanted, Some(got), why);
            }
            None => push(name, wanted, None, format!("{name} is not told: this saturates at {}/s", short(it.carried))),
        }
    }
    if let Some(cpu) = wanted.cpu.filter(|cpu| above(it.cpu.1, *cpu)) {
        let why =
            format!("`{}` is {} % busy, and {} % are allowed", it.cpu.0, short(it.cpu.1 * 100.0), short(cpu * 100.0));
        push("cpu", cpu, Some(it.cpu.1), why);
    }
    if let Some(loss) = wanted.loss.filter(|loss| above(it.loss, *loss)) {
        let why = format!("{} % are turned away, and {} % may be", short(it.loss * 100.0), short(loss * 100.0));
        push("loss", loss, Some(it.loss), why);
    }
    fails
}
