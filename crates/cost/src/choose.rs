//! All settings of a model against what is wanted: ranked, the rest with what they fail, and the front on which nothing is better in all.
//!
//! A setting picks one way for each annotation and a number of machines for each node. Each is woven and solved; where requests are served one
//! at a time by a proven reduction (`queue`), else by the whole net. A request that does several things at once is never one of those: its
//! means are those of the whole net, its percentiles those of a run. No answer is kept from one run to the next.

mod adjoint;
mod alone;
mod available;
mod bottleneck;
mod complex;
mod effort;
mod ends;
mod fails;
mod figures;
mod follow;
mod front;
mod invert;
mod labels;
#[cfg(test)]
mod overloaded;
mod passage;
mod picture;
mod queue;
mod runs;
mod security;
mod service;
mod simulated;
mod table;
mod tagged;
mod times;
mod trial;
mod turns;
mod unit;
mod verify;
mod walk;

use std::collections::BTreeMap;

use gspn::Budget;
use serde::Serialize;

use crate::model::{Model, Workload};
use crate::{Class, Fault, net};

pub use available::Down;
pub use bottleneck::Bottleneck;
pub use effort::Effort;
pub use ends::Ends;
pub use fails::Failure;
use figures::Solved;
pub use follow::{Estimate, Followed, follow};
pub use picture::svg;
pub(crate) use security::first;
pub use security::{Minimum, Mode};
pub use simulated::SEED;
pub use table::{csv, text};
pub use trial::{Seen, Trial, trial};
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
    /// Arrivals a second of an open workload, which must not be more than can be carried; of a closed one the requests a second that
    /// must come to their end.
    pub rate: Option<f64>,
    /// Share of its cores that any node may be busy.
    pub cpu: Option<f64>,
    /// Share of requests that may be turned away.
    pub loss: Option<f64>,
    /// Joules that a request may take.
    pub energy: Option<f64>,
    /// Money that an hour may cost.
    pub money: Option<f64>,
    /// Share of time in which enough machines of each node must be up.
    pub availability: Option<f64>,
    /// Whether what is wanted of times, rate and load must hold, too, while one machine of any node that may fail is down.
    pub one_down: bool,
    /// The least security.
    pub minimum: Minimum,
}

/// What a setting does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// For each annotation the way that is taken.
    pub ways: Vec<usize>,
    /// For each node how many machines it has.
    pub machines: Vec<u32>,
    /// The same in words.
    pub setting: Vec<String>,
    /// Requests a second that come to their end.
    pub throughput: f64,
    /// Requests a second that can come to their end at most: where threads, room or clients are limited, as many as do while all of them are at
    /// work at all times.
    pub saturation: f64,
    /// The same with those that are aborted: so many may come.
    pub carried: f64,
    /// What a wanted rate is held against: what can be carried of an open workload, what comes to its end of a closed one.
    #[serde(skip)]
    pub rate: f64,
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
    /// Core seconds of a request, all nodes together: what settings are ranked by where none has a price in money.
    pub cores: f64,
    /// Joules of a request, if the model says what power or operations take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<f64>,
    /// Money an hour, if the model says what machines or energy cost: what settings are ranked by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money: Option<f64>,
    /// Share of time in which enough machines of each node are up, if any can fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability: Option<f64>,
    /// What is left while one machine of a node is down.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub down: Vec<Down>,
    /// Share of requests that are turned away.
    pub loss: f64,
    /// Half of the 95 % interval of each figure, by its name, because prices are as sure as they say; empty if none says so.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub plus_minus: BTreeMap<&'static str, f64>,
    /// Both ends of that interval, solved for, of figures that are far from straight there or lie near to what is wanted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ends: BTreeMap<&'static str, Ends>,
    /// The strength in bits of the weakest annotation that is done, if one is.
    pub strength: Option<u32>,
    /// What saturates first, in a sentence.
    pub bottleneck: String,
    /// The same in numbers.
    pub limit: Option<Bottleneck>,
    /// Constraints that it fails; none if it can be chosen.
    pub fails: Vec<Failure>,
    /// Constraints that it meets, but fails at the far end of an interval.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsure: Vec<String>,
    /// Requests that were simulated, where its net is too large to be solved, or percentiles are asked for of requests that do several things
    /// at once; its figures have intervals then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated: Option<usize>,
    /// Why it has no figures (they are no numbers, `null` in JSON), if the solver has no answer within its limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsolved: Option<String>,
    /// Whether it is on the front.
    pub on_front: bool,
    /// The index of a setting that is at least as good in everything and better in something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beaten_by: Option<usize>,
}

impl Outcome {
    /// Whether nobody knows if it could be chosen: it was not solved, and nothing that is known of it speaks against it.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.unsolved.is_some() && self.fails.len() <= 1
    }

    /// What settings are compared in: the 99th percentile, or the mean where not all have one; never done where it saturates.
    fn time(&self, p99: bool) -> f64 {
        if p99 { self.p99 } else { self.mean }.unwrap_or(f64::INFINITY)
    }

    /// The lower end of the interval of a figure.
    fn low(&self, name: &str, value: f64) -> f64 {
        ends::of(&self.plus_minus, &self.ends, name, value).map_or(value, |[low, _]| low)
    }

    /// The upper end, beyond all numbers where more comes than is carried.
    fn high(&self, name: &str, value: f64) -> f64 {
        ends::of(&self.plus_minus, &self.ends, name, value).map_or(value, |[_, high]| high)
    }

    /// With what a model does under its load.
    fn under_load(self, model: &Model, solved: &Solved) -> Self {
        let plain = &solved.plain;
        let busiest = plain.busiest();
        let busy = plain.busy.get(busiest).copied().unwrap_or(0.0);
        Self {
            throughput: plain.throughput,
            saturation: plain.saturation,
            carried: plain.carried,
            rate: match model.workload {
                Workload::Open { .. } => plain.carried,
                Workload::Closed { .. } => plain.throughput.min(plain.saturation),
            },
            saturated: plain.saturated,
            mean: (!plain.saturated).then_some(plain.mean),
            p50: solved.times[0],
            p95: solved.times[1],
            p99: solved.times[2],
            cpu: (model.nodes.get(busiest).map(|it| it.name.clone()).unwrap_or_default(), busy),
            loss: plain.loss,
            ..self
        }
    }

    /// What a request costs, in the order of importance: money, core seconds, energy.
    fn costs(&self) -> [f64; 3] {
        [self.money.unwrap_or(0.0), self.cores, self.energy.unwrap_or(0.0)]
    }
}

/// What settings are compared in, without the digits that only rounding makes: what is the same by its model is the same here.
#[derive(Debug, Clone, Copy)]
struct Compared {
    costs: [f64; 3],
    time: f64,
    up: f64,
}

impl Compared {
    /// Digits that count, of sums and of times: percentiles are found to seven.
    const DIGITS: [i32; 2] = [10, 6];

    fn new(it: &Outcome, p99: bool) -> Self {
        Self {
            costs: it.costs().map(|cost| digits(cost, Self::DIGITS[0])),
            time: digits(it.time(p99), Self::DIGITS[1]),
            up: 1.0 - digits(1.0 - it.availability.unwrap_or(0.0), Self::DIGITS[0]),
        }
    }

    /// The cheaper first.
    fn by_costs(&self, other: &Self) -> std::cmp::Ordering {
        let costs = self.costs.iter().zip(other.costs).map(|(one, other)| one.total_cmp(&other));
        costs.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    }
}

/// A number with so many digits.
fn digits(value: f64, many: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    #[expect(clippy::cast_possible_truncation, reason = "a power of ten")]
    let scale = 10_f64.powi(many - 1 - value.abs().log10().floor() as i32);
    if scale.is_finite() && scale > 0.0 { (value * scale).round() / scale } else { value }
}

/// What a client thinks that does not think, as a part of a request: so short that nothing changes, and less than rounding in [`above`].
const MOMENT: f64 = 1e-10;

/// Whether something is more than what is wanted of it, by more than rounding.
fn above(got: f64, wanted: f64) -> bool {
    got > wanted * (1.0 + 1e-9)
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// All settings, in the order in which their lists are written.
    pub settings: Vec<Outcome>,
    /// Those that fail nothing, the best first: least money an hour, fewest core seconds, least energy, then the shortest time; of equals what is up more, then the more secure.
    pub ranked: Vec<usize>,
    /// The others, those that fail least first.
    pub rejected: Vec<usize>,
    /// For each constraint that is wanted, the setting that comes closest to it or meets it best, by its name.
    pub best: BTreeMap<&'static str, usize>,
    /// Those that no other beats in security, time, core seconds, energy and money together.
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
    choose_told(model, wanted, effort, &|_, _| ())
}

/// The same; `told` hears from any of the threads how many settings are done, and of how many.
///
/// # Errors
/// As [`choose`].
pub fn choose_told(
    model: &Model,
    wanted: &Wanted,
    effort: &Effort<'_>,
    told: &(dyn Fn(usize, usize) + Sync),
) -> Result<Choice, Fault> {
    let model = &asked(model, wanted)?;
    security::check(&wanted.minimum, model)?;
    fails::check(wanted, model)?;
    let mut counts: Vec<usize> = model.annotations.iter().map(|it| it.alternatives.len()).collect();
    counts.extend(model.nodes.iter().map(|it| it.machines.counts.len()));
    let count = counts.iter().fold(1_usize, |all, count| all.saturating_mul(*count));
    if count > MAX_SETTINGS {
        let count = if count == usize::MAX { "uncountable".to_owned() } else { count.to_string() };
        let why = format!("the annotations and machines make {count} settings: at most {MAX_SETTINGS}");
        return Err(Fault::new(Class::TooLarge, "secure", why));
    }
    // Of more machines more markings are made.
    let size = |number: usize| {
        let picked = ways(number, &counts).into_iter().skip(model.annotations.len());
        model.nodes.iter().zip(picked).map(|(node, way)| u64::from(node.machines.counts[way])).sum()
    };
    let solved = effort.each_alone(count, size, &|done| told(done, count), |number, budget| {
        // Where nothing takes time in one setting, something may in others.
        let timed = |fault| if fault == net::timeless() { Fault { class: Class::Unanswered, ..fault } } else { fault };
        outcome(model, &ways(number, &counts), wanted, budget).map_err(timed)
    })?;
    if solved.iter().all(Result::is_err) {
        let mut faults = solved.iter().filter_map(|it| it.as_ref().err());
        return Err(faults.find(|fault| fault.why != net::TIMELESS).cloned().unwrap_or_else(net::timeless));
    }
    let reduced = solved.iter().flatten().all(|(_, reduced)| *reduced);
    let settings = solved.into_iter().enumerate().map(|(number, solved)| match solved {
        Ok((outcome, _)) => outcome,
        Err(fault) => unsolved(model, &ways(number, &counts), wanted, &fault),
    });
    let mut settings: Vec<Outcome> = settings.collect();
    instead(model, &counts, &mut settings);
    let (mut ranked, mut rejected): (Vec<usize>, Vec<usize>) =
        (0..count).partition(|index| settings[*index].fails.is_empty());
    let order = security::Order::of(model);
    // Percentiles of some settings are not compared with means of others.
    let p99 = settings.iter().all(|it| it.saturated || it.p99.is_some() || it.unsolved.is_some());
    let compared: Vec<Compared> = settings.iter().map(|it| Compared::new(it, p99)).collect();
    ranked.sort_by(|one, other| {
        let (a, b) = (&compared[*one], &compared[*other]);
        // What is the same in all of this stands behind what is more secure.
        let covered = |index: &usize| order.covered(&settings[*index].ways);
        let first = a.by_costs(b).then(a.time.total_cmp(&b.time));
        first.then(b.up.total_cmp(&a.up)).then_with(|| covered(other).cmp(&covered(one)))
    });
    rejected.sort_by(|one, other| fails::nearer(&settings[*one], &settings[*other]));
    let best = fails::best(&settings, wanted);
    let mut go_on = |progress| (effort.go_on)(progress);
    let front = front::front(&order, &mut settings, &compared, &mut Budget::new(effort.limits, &mut go_on))?;
    Ok(Choice { settings, ranked, rejected, best, front, reduced, wanted: wanted.clone() })
}

/// The model under the load that is asked for.
fn asked(model: &Model, wanted: &Wanted) -> Result<Model, Fault> {
    let mut model = model.clone();
    if let (Some(asked), Workload::Open { rate, .. }) = (wanted.rate, &mut model.workload) {
        *rate = asked;
    }
    if model.annotations.is_empty() && model.nodes.iter().all(|it| it.machines.counts.len() == 1) {
        return Err(Fault::new(Class::MissingAnnotation, "secure", "there is no annotation: nothing to choose"));
    }
    Ok(model)
}

/// The model in one setting.
fn set(model: &Model, ways: &[usize], machines: &[u32]) -> Model {
    let mut chosen = model.chosen(ways);
    for (node, count) in chosen.nodes.iter_mut().zip(machines) {
        node.machines.counts = vec![*count];
    }
    chosen
}

/// The way of each annotation, and of the machines of each node, in the setting of a number: the last changes fastest.
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

/// One setting without its figures.
fn named(model: &Model, ways: &[usize]) -> Outcome {
    let (ways, counts) = ways.split_at(model.annotations.len());
    let machines: Vec<u32> = model.nodes.iter().zip(counts).map(|(it, way)| it.machines.counts[*way]).collect();
    Outcome {
        setting: security::words(model, ways).into_iter().chain(machine_words(model, &machines)).collect(),
        strength: security::strength(model, ways),
        ways: ways.to_vec(),
        machines,
        throughput: f64::NAN,
        saturation: f64::NAN,
        carried: f64::NAN,
        rate: f64::NAN,
        saturated: false,
        mean: None,
        p50: None,
        p95: None,
        p99: None,
        cpu: (String::new(), f64::NAN),
        cores: f64::NAN,
        energy: None,
        money: None,
        availability: None,
        down: Vec::new(),
        loss: f64::NAN,
        plus_minus: BTreeMap::new(),
        ends: BTreeMap::new(),
        bottleneck: String::new(),
        limit: None,
        fails: Vec::new(),
        unsure: Vec::new(),
        simulated: None,
        unsolved: None,
        on_front: false,
        beaten_by: None,
    }
}

/// One setting that has no answer: it cannot be chosen, and what is known of it is how secure it is.
fn unsolved(model: &Model, ways: &[usize], wanted: &Wanted, fault: &Fault) -> Outcome {
    let (why, named) = (fails::unsolved(fault), named(model, ways));
    let failure = Failure { constraint: "unsolved".to_owned(), wanted: 1.0, got: None, by: None, why: why.clone() };
    let fails = [failure].into_iter().chain(fails::of_security(&named.ways, wanted, model)).collect();
    Outcome { fails, unsolved: Some(why), ..named }
}

/// One setting, and whether it was solved by the reduction.
fn outcome(model: &Model, ways: &[usize], wanted: &Wanted, budget: &mut Budget<'_>) -> Result<(Outcome, bool), Fault> {
    let named = named(model, ways);
    let chosen = set(model, &named.ways, &named.machines);
    let solved = figures::solve(&chosen, wanted, budget)?;
    let limit = bottleneck::of(&chosen, &solved, budget)?;
    let off = figures::intervals(&chosen, &solved, wanted, budget)?;
    let plain = &solved.plain;
    let outcome = Outcome {
        cores: plain.cores,
        energy: plain.energy,
        money: plain.money,
        availability: available::availability(&chosen, budget)?,
        plus_minus: off.plus_minus,
        ends: off.ends,
        limit,
        simulated: solved.simulated(),
        ..named
    };
    let mut outcome = outcome.under_load(&chosen, &solved);
    for (node, fewer) in available::one_down(&chosen, model) {
        outcome.down.push(down(&chosen, node, fewer, &outcome, wanted, budget)?);
    }
    outcome.fails = fails::fails(&outcome, wanted, model);
    outcome.unsure = fails::unsure(&outcome, wanted, model);
    Ok((outcome, solved.one))
}

/// What is left while one machine of a node is down.
fn down(
    chosen: &Model,
    node: usize,
    fewer: Option<Model>,
    whole: &Outcome,
    wanted: &Wanted,
    budget: &mut Budget<'_>,
) -> Result<Down, Fault> {
    let (name, left) = (chosen.nodes[node].name.clone(), chosen.machines_left(node));
    let Some(fewer) = fewer else {
        let why = format!("with one machine of `{name}` down there is nothing that goes on");
        let fails =
            vec![Failure { constraint: "one-down".to_owned(), wanted: 1.0, got: Some(0.0), by: Some(1.0), why }];
        return Ok(Down { node: name, left, stops: true, fails, ..Down::default() });
    };
    let solved = figures::solve(&fewer, wanted, budget)
        .and_then(|solved| Ok((figures::intervals(&fewer, &solved, wanted, budget)?, solved)));
    let (off, solved) = match solved {
        Ok(both) => both,
        Err(fault) if fault.class == Class::Unanswered => {
            let why = format!("with one machine of `{name}` down: {}", fails::unsolved(&fault));
            let fails =
                vec![Failure { constraint: "one-down".to_owned(), wanted: 1.0, got: None, by: None, why: why.clone() }];
            let (carried, saturation) = (f64::NAN, f64::NAN);
            return Ok(Down { node: name, left, carried, saturation, fails, unsolved: Some(why), ..Down::default() });
        }
        Err(fault) => return Err(fault),
    };
    let mut then = Outcome { plus_minus: off.plus_minus, ends: off.ends, ..whole.clone() }.under_load(&fewer, &solved);
    then.fails = fails::of_load(&then, wanted, chosen);
    let unsure = fails::unsure_of_load(&then, wanted, chosen);
    let mut fails = then.fails;
    fails.iter_mut().for_each(|it| it.why = format!("with one machine of `{name}` down {}", it.why));
    Ok(Down {
        node: name,
        left,
        stops: false,
        carried: then.carried,
        saturation: then.saturation,
        p99: then.p99,
        mean: then.mean,
        plus_minus: then.plus_minus,
        ends: then.ends,
        fails,
        unsure,
        unsolved: None,
    })
}

/// How many machines there are, of nodes whose number can be chosen.
fn machine_words(model: &Model, machines: &[u32]) -> Vec<String> {
    let several = model.nodes.iter().zip(machines).filter(|(it, _)| it.machines.counts.len() > 1);
    several
        .map(|(it, count)| format!("node {}: {count} machines", it.name).replace(" 1 machines", " 1 machine"))
        .collect()
}

/// Names for each setting the one that carries most of those that differ only in what takes the most, and are protected as demanded.
fn instead(model: &Model, counts: &[usize], settings: &mut [Outcome]) {
    for index in 0..settings.len() {
        let Some(limit) = &settings[index].limit else { continue };
        let mut found = None;
        if let Some(annotation) = limit.annotation {
            let stride: usize = counts[annotation + 1..].iter().product();
            let first = index - settings[index].ways[annotation] * stride;
            let others = (0..counts[annotation]).map(|way| first + way * stride);
            let others = others.filter(|other| settings[*other].unsolved.is_none());
            let as_demanded =
                others.filter(|other| settings[*other].fails.iter().all(|fail| !fail.constraint.starts_with("min-")));
            let most = as_demanded.max_by(|one, other| settings[*one].carried.total_cmp(&settings[*other].carried));
            found = most
                .filter(|other| settings[*other].carried > settings[index].carried * 1.01)
                .map(|other| (annotation, other));
        }
        let words = found.map(|(annotation, other)| {
            (security::words(model, &settings[other].ways)[annotation].clone(), settings[other].carried)
        });
        let own = &mut settings[index];
        if let Some(limit) = &mut own.limit {
            limit.instead = found.map(|(_, other)| other);
            own.bottleneck = limit.sentence(own.carried, words);
        }
    }
}

/// The rate at which something saturates; of requests that checks abort it is said how many come to their end.
fn saturation(carried: f64, finished: f64, interval: &str) -> String {
    let aborts = carried > finished * (1.0 + 1e-9);
    let finished = aborts.then(|| format!(", of which {}/s come to their end", short(finished)));
    format!("{}{interval}/s{}", short(carried), finished.unwrap_or_default())
}

fn short(value: f64) -> String {
    crate::quantity::digits(value)
}
