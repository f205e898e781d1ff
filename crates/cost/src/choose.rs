//! All settings of a model against what is wanted: ranked, the rest with what they fail, and the front on which nothing is better in all.
//!
//! A setting picks one way for each annotation. Each is woven and solved; where requests are served one at a time by a proven reduction
//! (`queue`), else by the whole net. No answer is kept from one run to the next.

mod effort;
mod front;
mod invert;
mod passage;
mod queue;
mod security;
mod service;
mod table;
mod verify;

use gspn::Budget;
use serde::Serialize;

use crate::model::{Model, Workload};
use crate::net::{self, What};
use crate::{Class, Fault, solve, weave};

pub use effort::Effort;
pub use front::svg;
pub use security::{Minimum, Mode};
pub use table::{csv, text};
pub use verify::{Verified, check, verify};

/// Settings that are looked at, at most.
const MAX_SETTINGS: usize = 1_000_000;

/// What is wanted. Times in seconds, shares 0 to 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Wanted {
    /// Half of the requests within this time.
    pub p50: Option<f64>,
    /// 95 % of the requests within this time.
    pub p95: Option<f64>,
    /// 99 % of the requests within this time.
    pub p99: Option<f64>,
    /// Mean time at most.
    pub mean: Option<f64>,
    /// Requests a second that must be carried; the arrivals of an open workload.
    pub rate: Option<f64>,
    /// Share of its cores that any node may be busy.
    pub cpu: Option<f64>,
    /// Share of requests that may be turned away.
    pub loss: Option<f64>,
    /// The least security.
    pub minimum: Minimum,
}

/// What a setting does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// For each annotation the way that is taken.
    pub ways: Vec<usize>,
    /// The same in words.
    pub setting: Vec<String>,
    /// Requests a second that come to their end.
    pub throughput: f64,
    /// Requests a second that can come to their end at most (an upper bound where more than one is served at a time).
    pub saturation: f64,
    /// Whether more is asked for than can be carried; then times grow until requests are turned away, and none is given.
    pub saturated: bool,
    /// Mean time.
    pub mean: Option<f64>,
    /// Half of the requests are faster.
    pub p50: Option<f64>,
    /// 95 % are faster.
    pub p95: Option<f64>,
    /// 99 % are faster.
    pub p99: Option<f64>,
    /// The busiest node and its share of busy cores.
    pub cpu: (String, f64),
    /// Core seconds of a request, all nodes together: what settings are ranked by.
    pub cores: f64,
    /// Share of requests that are turned away.
    pub loss: f64,
    /// The strength in bits of the weakest annotation that is done, if one is.
    pub strength: Option<u32>,
    /// What takes the most, in a sentence.
    pub bottleneck: String,
    /// Constraints that it fails; none if it can be chosen.
    pub fails: Vec<Failure>,
    /// Whether it is on the front.
    pub on_front: bool,
    /// The index of a setting that is at least as good in everything and better in something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beaten_by: Option<usize>,
}

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

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// All settings, in the order in which their lists are written.
    pub settings: Vec<Outcome>,
    /// Those that fail nothing, the best first: fewest core seconds, then the shortest time.
    pub ranked: Vec<usize>,
    /// Those that no other beats in security, time and core seconds together.
    pub front: Vec<usize>,
    /// Whether every setting was solved by the reduction.
    pub reduced: bool,
    /// What was wanted.
    pub wanted: Wanted,
}

/// Looks at all settings of a model.
///
/// # Errors
/// Faults of the model or its prices, too many settings, constraints that cannot be judged for it, and what the solver refuses.
pub fn choose(model: &Model, wanted: &Wanted, effort: &Effort<'_>) -> Result<Choice, Fault> {
    let model = &asked(model, wanted)?;
    security::check(&wanted.minimum, model)?;
    let counts: Vec<usize> = model.annotations.iter().map(|it| it.alternatives.len()).collect();
    let count = counts.iter().fold(1_usize, |all, count| all.saturating_mul(*count));
    if count > MAX_SETTINGS {
        let why = format!("the annotations make {count} settings: at most {MAX_SETTINGS}");
        return Err(Fault::new(Class::TooLarge, "secure", why));
    }
    let solved = effort.each(count, |number, budget| outcome(model, ways(number, &counts), wanted, budget))?;
    let reduced = solved.iter().all(|(_, reduced)| *reduced);
    let mut settings: Vec<Outcome> = solved.into_iter().map(|(outcome, _)| outcome).collect();
    let mut ranked: Vec<usize> = (0..count).filter(|index| settings[*index].fails.is_empty()).collect();
    let time = |it: &Outcome| it.p99.or(it.mean).unwrap_or(f64::INFINITY);
    ranked.sort_by(|one, other| {
        let (one, other) = (&settings[*one], &settings[*other]);
        one.cores.total_cmp(&other.cores).then(time(one).total_cmp(&time(other)))
    });
    let front = front::front(model, &mut settings);
    Ok(Choice { settings, ranked, front, reduced, wanted: wanted.clone() })
}

/// The model under the load that is asked for.
fn asked(model: &Model, wanted: &Wanted) -> Result<Model, Fault> {
    let mut model = model.clone();
    if let (Some(asked), Workload::Open { rate, .. }) = (wanted.rate, &mut model.workload) {
        *rate = asked;
    }
    if model.annotations.is_empty() {
        return Err(Fault::new(Class::MissingAnnotation, "secure", "there is no annotation: nothing to choose"));
    }
    Ok(model)
}

/// The way of each annotation in the setting of a number: the last annotation changes fastest.
fn ways(mut number: usize, counts: &[usize]) -> Vec<usize> {
    let mut ways: Vec<usize> = counts
        .iter()
        .rev()
        .map(|count| {
            let way = number % count;
            number /= count;
            way
        })
        .collect();
    ways.reverse();
    ways
}

/// One setting, and whether it was solved by the reduction.
fn outcome(
    model: &Model,
    ways: Vec<usize>,
    wanted: &Wanted,
    budget: &mut Budget<'_>,
) -> Result<(Outcome, bool), Fault> {
    let chosen = model.chosen(&ways);
    let (service, alone) = service::service(&chosen, budget)?;
    let one = queue::one_at_a_time(&chosen, &alone);
    let percentiles = wanted.p50.or(wanted.p95).or(wanted.p99).is_some();
    if percentiles && !one {
        let why = "several requests are served at a time, and percentiles are known here only for one: say `threads = 1`, or ask for `--mean`";
        return Err(Fault::new(Class::Invalid, "percentiles", why));
    }
    let cores = |node: usize| service.cores(node);
    let all_cores: f64 = (0..chosen.nodes.len()).map(cores).sum();
    let limits = chosen.nodes.iter().enumerate().map(|(node, it)| f64::from(it.cores) / cores(node));
    let threads = chosen.workload.threads().map(|threads| f64::from(threads) / service.mean());
    let carried = limits.chain(threads).chain(one.then(|| 1.0 / service.mean())).fold(f64::INFINITY, f64::min);
    let saturation = carried * service.finished;
    let saturated = matches!(chosen.workload, Workload::Open { rate, .. } if rate >= carried);
    let (rate, mean, turned_away, times) = if one {
        let queue = service.queue(chosen.workload);
        let entered = queue.entered();
        let quantile =
            |wanted: bool, level| (wanted && !saturated).then(|| queue.quantile(&service, &entered, level)).transpose();
        let times = [
            quantile(wanted.p50.is_some(), 0.5)?,
            quantile(wanted.p95.is_some(), 0.95)?,
            // The front is drawn over it.
            quantile(true, 0.99)?,
        ];
        (queue.rate, queue.response(), queue.turned_away, times)
    } else {
        let solution = solve::of(&chosen, &net::lay(&weave(&chosen))?, budget)?;
        (solution.throughput + solution.aborted, solution.response, solution.turned_away, [None; 3])
    };
    let busy = chosen
        .nodes
        .iter()
        .enumerate()
        .map(|(node, it)| (it.name.clone(), (rate * cores(node) / f64::from(it.cores)).clamp(0.0, 1.0)));
    let cpu = busy.max_by(|one, other| one.1.total_cmp(&other.1)).unwrap_or_default();
    let mut outcome = Outcome {
        setting: security::words(model, &ways),
        strength: security::strength(model, &ways),
        ways,
        throughput: rate * service.finished,
        saturation,
        saturated,
        mean: (!saturated).then_some(mean),
        p50: times[0],
        p95: times[1],
        p99: times[2],
        cpu,
        cores: all_cores,
        loss: turned_away / (turned_away + rate),
        bottleneck: bottleneck(&chosen, &service, one),
        fails: Vec::new(),
        on_front: false,
        beaten_by: None,
    };
    outcome.fails = table::fails(&outcome, wanted, model);
    Ok((outcome, one))
}

/// What takes the most time of a request, and what less of it would bring.
fn bottleneck(model: &Model, service: &service::Service, one: bool) -> String {
    let Some((what, seconds)) = service.largest() else { return String::new() };
    let name = match &what {
        What::Step(name) | What::Waiting(name) => format!("`{name}`"),
        What::Security(annotation, mechanism) => {
            let annotation = &model.annotations[*annotation];
            format!("{} ({} on {})", mechanism.word(), annotation.property.word(), model.target(annotation))
        }
    };
    let mean = service.mean();
    let share = seconds / mean * 100.0;
    let gain = if one {
        let (now, half) = (service.finished / mean, service.finished / (mean - 0.5 * seconds));
        format!("; at half its time {} instead of {} requests a second could be carried", short(half), short(now))
    } else {
        String::new()
    };
    format!("{share:.0} % of a request's own time is {name}{gain}")
}

fn short(value: f64) -> String {
    crate::quantity::digits(value)
}
