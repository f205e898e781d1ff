//! The figures of one setting, and how far they may be off because prices are.
//!
//! *Intervals.* A price may say how sure it is: half of its 95 % interval, `e`. Each figure is followed as one price after the other grows a
//! little, all else equal; the half of its own interval is the root of the summed squares of (slope times `e`), as errors of different prices
//! have nothing to do with each other. The slope of a percentile `t` is that of the distribution there over its density: `-(dF/dp)/f(t)`. Where
//! figures bend, both ends are found by solving (`ends`). What was
//! simulated is as sure as its run, too, and what a price does is seen from a run in which it is dearer by all of `e`, without what two
//! runs of the same are apart.

use std::collections::BTreeMap;

use gspn::Budget;

use super::bottleneck::Carried;
use super::ends::{self, Ends, Slopes};
use super::service::{self, Service};
use super::simulated::{self, Simulated};
use super::times::{self, Flow, Task, Times};
use super::{Wanted, above, bottleneck, queue};
use crate::model::{Model, Workload};
use crate::net::{self, Form, Sketch, Stage};
use crate::{Class, Fault, weave};

/// How much a price grows to see what follows, relative.
const STEP: f64 = 1e-4;
/// Prices from which on it takes less to say of all at once what they do to a percentile.
const SEVERAL: usize = 3;

/// Numbers that need no distribution.
#[derive(Debug, Clone)]
pub(super) struct Plain {
    /// Requests a second that come to their end.
    pub(super) throughput: f64,
    /// Requests a second that leave, aborted ones included.
    pub(super) rate: f64,
    /// Requests a second that can be carried, aborted ones included.
    pub(super) carried: f64,
    /// Those of them that come to their end.
    pub(super) saturation: f64,
    /// Whether more come than can be carried.
    pub(super) saturated: bool,
    /// Mean time.
    pub(super) mean: f64,
    /// The part of it after a thread was there.
    pub(super) served: f64,
    /// Of each node the share of busy cores.
    pub(super) busy: Vec<f64>,
    /// Core seconds of a request.
    pub(super) cores: f64,
    /// Joules of a request.
    pub(super) energy: Option<f64>,
    /// Money an hour.
    pub(super) money: Option<f64>,
    /// Share of requests that are turned away.
    pub(super) loss: f64,
}

/// One setting, solved.
pub(super) struct Solved {
    pub(super) service: Service,
    pub(super) one: bool,
    pub(super) plain: Plain,
    /// p50, p95, p99.
    pub(super) times: [Option<f64>; 3],
    pub(super) carried: Carried,
    distribution: Times,
}

impl Solved {
    /// Requests that were simulated, if any were.
    pub(super) fn simulated(&self) -> Option<usize> {
        match &self.distribution {
            Times::Simulated(seen) => Some(seen.requests),
            _ => None,
        }
    }
}

/// The percentiles.
pub(super) const LEVELS: [(&str, f64); 3] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)];

/// Solves a model in which one way of each annotation is left, and one count of machines.
pub(super) fn solve(model: &Model, wanted: &Wanted, budget: &mut Budget<'_>) -> Result<Solved, Fault> {
    let (service, alone) = service::service(model, budget)?;
    let one = is_one(model, &service, &alone);
    let asked = [wanted.p50, wanted.p95, wanted.p99].map(|it| it.is_some());
    let percentiles = asked.contains(&true);
    // The front is drawn over the last, where it costs little.
    let asked = [asked[0], asked[1], one || percentiles];
    let levels = levels(asked);
    let (flow, distribution) = times::solve(Task { model, one, levels: &levels }, &service, budget)?;
    let carried = bottleneck::carried(model, &service, one, budget)?;
    let plain = plain(model, &service, carried.rate.value, flow);
    let mut times = [None; 3];
    for ((time, (_, level)), asked) in times.iter_mut().zip(LEVELS).zip(asked) {
        if asked && !plain.saturated {
            let guess = flow.mean.max(service.mean()) * 2.0;
            *time = Some(distribution.quantile(&service, level, guess, budget)?);
        }
    }
    Ok(Solved { service, one, plain, times, carried, distribution })
}

/// Whether one request is served at a time, in the order of coming. Whoever takes no time is no turn of the queue, and who does several
/// things at once is in no one phase.
pub(super) fn is_one(model: &Model, service: &Service, alone: &Sketch) -> bool {
    queue::one_at_a_time(model, alone) && service.always_takes_time() && !model.is_parallel()
}

/// The levels that are asked for.
fn levels(asked: [bool; 3]) -> Vec<f64> {
    LEVELS.iter().zip(asked).filter(|(_, asked)| *asked).map(|((_, level), _)| *level).collect()
}

/// The plain numbers of a service under a flow of requests, of which so many could be carried.
fn plain(model: &Model, service: &Service, carried: f64, flow: Flow) -> Plain {
    let node_cores: Vec<f64> = (0..model.nodes.len()).map(|node| service.cores(node)).collect();
    Plain {
        throughput: flow.rate * service.finished,
        rate: flow.rate,
        carried,
        saturation: carried * service.finished,
        saturated: matches!(model.workload, Workload::Open { rate, .. } if above(rate, carried)),
        mean: flow.mean,
        served: flow.served,
        busy: busy(model, service, flow.rate),
        cores: node_cores.iter().sum(),
        energy: energy(model, service, &node_cores, flow.rate),
        money: money(model, service, &node_cores, flow.rate),
        loss: flow.turned_away / (flow.turned_away + flow.rate),
    }
}

/// For each node its share of busy cores.
pub(super) fn busy(model: &Model, service: &Service, rate: f64) -> Vec<f64> {
    let nodes = model.nodes.iter().enumerate();
    // What nobody works on may have -0 of it to do.
    nodes.map(|(at, it)| (rate * service.cores(at) / f64::from(it.all_cores()) + 0.0).clamp(0.0, 1.0)).collect()
}

/// Joules of a request: of machines that are on, of busy cores, and what prices say.
fn energy(model: &Model, service: &Service, cores: &[f64], rate: f64) -> Option<f64> {
    let powered = model.nodes.iter().any(|node| node.machines.power.is_some());
    if !powered && !model.prices.values().flat_map(BTreeMap::values).any(|price| price.energy > 0.0) {
        return None;
    }
    let of = |(node, cores): (&crate::model::Node, &f64)| {
        let power = node.machines.power?;
        Some(f64::from(node.machines.count()) * power.idle / rate + cores * power.busy)
    };
    Some(service.energy() + model.nodes.iter().zip(cores).filter_map(of).sum::<f64>())
}

/// Money an hour: of machines, and of energy where that has a price.
fn money(model: &Model, service: &Service, cores: &[f64], rate: f64) -> Option<f64> {
    let machines = model.nodes.iter().filter_map(|node| Some(node.machines.money? * f64::from(node.machines.count())));
    let machines = machines.reduce(|one, other| one + other);
    // A watt for an hour is a millionth of a MWh.
    let power =
        model.energy.zip(energy(model, service, cores, rate)).map(|(price, joules)| price * joules * rate / 1e6);
    match (machines, power) {
        (None, None) => None,
        (machines, power) => Some(machines.unwrap_or(0.0) + power.unwrap_or(0.0)),
    }
}

impl Plain {
    /// The busiest node.
    pub(super) fn busiest(&self) -> usize {
        let busiest = self.busy.iter().enumerate().max_by(|one, other| one.1.total_cmp(other.1));
        busiest.map_or(0, |(node, _)| node)
    }

    /// What has an interval, by name; times of a saturated setting mean nothing.
    pub(super) fn named(&self, busiest: usize) -> [(&'static str, Option<f64>); 9] {
        [
            ("throughput", Some(self.throughput)),
            ("saturation", Some(self.saturation)),
            ("carried", Some(self.carried)),
            ("mean", (!self.saturated).then_some(self.mean)),
            ("cpu", self.busy.get(busiest).copied()),
            ("cores", Some(self.cores)),
            ("energy", self.energy),
            ("money", self.money),
            ("loss", Some(self.loss)),
        ]
    }
}

/// How far the figures of a setting may be off.
#[derive(Debug, Default)]
pub(super) struct Off {
    /// Half of the 95 % interval of each figure, by its name; empty where no price says how sure it is.
    pub(super) plus_minus: BTreeMap<&'static str, f64>,
    /// Both ends of those that bend or lie near to what is wanted.
    pub(super) ends: BTreeMap<&'static str, Ends>,
}

/// A price that says how sure it is.
pub(super) struct Unsure {
    /// Its index in the service.
    pub(super) index: usize,
    /// Half of its 95 % interval, relative.
    pub(super) error: f64,
    /// How much more is carried for each part by which it grows, where that was simulated.
    carried: Option<f64>,
}

/// How far the figures of a setting may be off.
pub(super) fn intervals(
    model: &Model,
    solved: &Solved,
    wanted: &Wanted,
    budget: &mut Budget<'_>,
) -> Result<Off, Fault> {
    if let Times::Simulated(seen) = &solved.distribution {
        return simulated_intervals(model, solved, seen, budget);
    }
    let mut squares: BTreeMap<&'static str, f64> = BTreeMap::new();
    for name in ["carried", "saturation"] {
        if solved.carried.rate.half > 0.0 {
            squares.insert(name, solved.carried.rate.half.powi(2));
        }
    }
    let service = &solved.service;
    let mut prices = Vec::new();
    for (index, price) in service.prices.iter().enumerate().filter(|(_, price)| price.error > 0.0) {
        let carried = solved.carried.slope(|stage: &Stage| stage.paid == Some(index), price.error, budget)?;
        prices.push(Unsure { index, error: price.error, carried });
    }
    if prices.is_empty() {
        return Ok(Off { plus_minus: roots(squares), ends: BTreeMap::new() });
    }
    let mut density = [const { (0.0, 0.0, None) }; 3];
    for (density, time) in density.iter_mut().zip(solved.times) {
        let Some(time) = time else { continue };
        let likely = solved.distribution.likely(service, time, budget)?;
        let is_worth_it = prices.len() >= SEVERAL;
        let felt = if is_worth_it { solved.distribution.felt(service, time, likely, budget)? } else { None };
        *density = (likely.within, likely.density, felt);
    }
    let busiest = solved.plain.busiest();
    let levels = levels(solved.times.map(|time| time.is_some()));
    // For each figure what each price does to it at the border of its interval, as slopes say.
    let mut changes: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for (place, price) in prices.iter().enumerate() {
        let mut step = STEP;
        let mut grown = Repriced::new(model, solved, &[(price, 1.0 + step)], &levels, budget)?;
        // So near to what can be carried the slope is that of a price that falls.
        if grown.plain.saturated && !solved.plain.saturated {
            step = -STEP;
            grown = Repriced::new(model, solved, &[(price, 1.0 + step)], &levels, budget)?;
        }
        let mut add = |name, slope: f64| {
            let changes = changes.entry(name).or_insert_with(|| vec![0.0; prices.len()]);
            changes[place] = slope * price.error;
        };
        for ((name, now), (_, then)) in solved.plain.named(busiest).into_iter().zip(grown.plain.named(busiest)) {
            if let Some((now, then)) = now.zip(then) {
                add(name, (then - now) / step);
            }
        }
        for (((name, _), time), (at, density, felt)) in LEVELS.into_iter().zip(solved.times).zip(&density) {
            let Some(time) = time.filter(|_| *density > 0.0) else { continue };
            let slope = felt
                .as_ref()
                .and_then(|felt| solved.distribution.slope(felt, service, price.index, &grown.distribution, step));
            let slope = match slope {
                Some(slope) => slope,
                None => (grown.distribution.within(&grown.service, time, budget)? - at) / step,
            };
            add(name, -slope / density);
        }
    }
    for (name, changes) in &changes {
        *squares.entry(name).or_default() += changes.iter().map(|change| change * change).sum::<f64>();
    }
    let plus_minus = roots(squares);
    let ends = ends::ends(model, solved, &Slopes { prices, changes, plus_minus: &plus_minus }, wanted, budget)?;
    Ok(Off { plus_minus, ends })
}

/// A setting with factors on some of its prices.
pub(super) struct Repriced {
    service: Service,
    distribution: Times,
    pub(super) plain: Plain,
}

impl Repriced {
    /// The setting, solved once more; `levels` are the percentiles that are asked for.
    pub(super) fn new(
        model: &Model,
        solved: &Solved,
        factors: &[(&Unsure, f64)],
        levels: &[f64],
        budget: &mut Budget<'_>,
    ) -> Result<Self, Fault> {
        let mut service = solved.service.clone();
        let mut other = (!solved.one).then(|| model.clone());
        for (price, factor) in factors {
            service = service.scaled(price.index, *factor);
            if let Some(other) = &mut other {
                *other = dearer(other, &solved.service.prices[price.index], *factor)?;
            }
        }
        let model = other.as_ref().unwrap_or(model);
        let (flow, distribution) = times::solve(Task { model, one: solved.one, levels }, &service, budget)?;
        let simulated = factors.iter().map(|(price, factor)| Some(factor.powf(price.carried?)));
        let carried = match simulated.product::<Option<f64>>() {
            Some(more) => solved.carried.rate.value * more,
            None => bottleneck::carried(model, &service, solved.one, budget)?.rate.value,
        };
        let plain = plain(model, &service, carried, flow);
        Ok(Self { service, distribution, plain })
    }

    /// The time in which a share `level` is done; near `guess`. None where it saturates.
    pub(super) fn quantile(&self, level: f64, guess: f64, budget: &mut Budget<'_>) -> Result<Option<f64>, Fault> {
        if self.plain.saturated {
            return Ok(None);
        }
        self.distribution.quantile(&self.service, level, guess, budget).map(Some)
    }
}

fn roots(mut squares: BTreeMap<&'static str, f64>) -> BTreeMap<&'static str, f64> {
    squares.values_mut().for_each(|square| *square = square.sqrt());
    squares
}

/// The same of what was simulated.
fn simulated_intervals(
    model: &Model,
    solved: &Solved,
    seen: &Simulated,
    budget: &mut Budget<'_>,
) -> Result<Off, Fault> {
    let mut squares: BTreeMap<&'static str, f64> = BTreeMap::new();
    let mut add = |name, off: f64| *squares.entry(name).or_default() += off * off;
    let (service, busiest, carried) = (&solved.service, solved.plain.busiest(), solved.carried.rate);
    let mut compare = |now: &Plain, then: Plain| {
        // A run has times at any load: whether it is too much is said of the setting itself.
        let then = Plain { saturated: now.saturated, ..then };
        for ((name, now), (_, then)) in now.named(busiest).into_iter().zip(then.named(busiest)) {
            if let Some((now, then)) = now.zip(then) {
                add(name, then - now);
            }
        }
    };
    let (flow, half) = seen.flow();
    compare(&solved.plain, plain(model, service, carried.value + carried.half, flow.plus(half)));
    let laid = net::lay_as(&weave(model), Form::Shared)?;
    let run = |of: &dyn Fn(&Stage) -> f64, budget: &mut Budget<'_>| {
        simulated::longer(&laid, model.workload, seen.requests, of, budget)
    };
    let unsure = service.prices.iter().enumerate().filter(|(_, price)| price.error > 0.0);
    let unsure: Vec<_> = unsure.collect();
    let mut of_times = [0.0; 3];
    let mut of_mean = 0.0;
    let mut followed = None;
    if !unsure.is_empty() {
        let base = run(&|_| 1.0, budget)?;
        let mut felt: Vec<Felt<'_>> = Vec::new();
        let now = plain(model, service, carried.value, base.flow().0);
        for (index, price) in unsure {
            let of_price = |stage: &Stage| stage.paid == Some(index);
            let dearer = service.scaled(index, 1.0 + price.error);
            let seen = run(&|it| if of_price(it) { 1.0 + price.error } else { 1.0 }, budget)?;
            let slope = solved.carried.slope(of_price, price.error, budget)?;
            felt.push(Felt { index, price, slope, change: (seen.mean().value - base.mean().value).max(0.0) });
            let carried = match slope {
                Some(slope) => carried.value * (1.0 + price.error).powf(slope),
                None => {
                    let model = self::dearer(model, price, 1.0 + price.error)?;
                    bottleneck::carried(&model, &dearer, solved.one, budget)?.rate.value
                }
            };
            let then = plain(model, &dearer, carried, seen.flow().0);
            compare(&now, Plain { mean: now.mean, ..then });
            of_mean += base.mean().apart(seen.mean());
            for (square, (_, level)) in of_times.iter_mut().zip(LEVELS) {
                *square += base.quantile(level).apart(seen.quantile(level));
            }
        }
        followed = Some((base, felt));
    }
    if !solved.plain.saturated {
        *squares.entry("mean").or_default() += of_mean;
    }
    for (((name, level), time), square) in LEVELS.into_iter().zip(solved.times).zip(of_times) {
        if time.is_some() {
            squares.insert(name, square + seen.quantile(level).half.powi(2));
        }
    }
    let plus_minus = roots(squares);
    let bends = |name: &str, value: f64| plus_minus.get(name).is_some_and(|half| *half > ends::STRAIGHT * value);
    let times = LEVELS.into_iter().zip(solved.times).filter_map(|((name, _), time)| Some((name, time?)));
    let bent: Vec<_> = times.chain([("mean", solved.plain.mean)]).filter(|(name, value)| bends(name, *value)).collect();
    let mut ends = BTreeMap::new();
    if let Some((base, felt)) = followed.filter(|_| !solved.plain.saturated && !bent.is_empty()) {
        ends = simulated_ends(model, solved, (seen, &base), &felt, &run, budget)?;
        ends.retain(|name, _| bent.iter().any(|(bent, _)| bent == name));
    }
    Ok(Off { plus_minus, ends })
}

/// A price of a setting that was simulated, and what it does at the border of its interval.
struct Felt<'a> {
    index: usize,
    price: &'a crate::net::Paid,
    /// How much more is carried for each part by which it grows, where that was simulated.
    slope: Option<f64>,
    /// Seconds of the mean.
    change: f64,
}

/// A run in which the times of stages are longer by factors.
type RunOf<'r> = dyn Fn(&dyn Fn(&Stage) -> f64, &mut Budget<'_>) -> Result<Simulated, Fault> + 'r;

/// Both ends of times that were simulated, as in [`ends`]: a run in which prices are off together, as far as is likely, each in its part of
/// what they do to the mean. It sees the requests of a run in which they are not (the second one), from which it is how far.
fn simulated_ends(
    model: &Model,
    solved: &Solved,
    (seen, base): (&Simulated, &Simulated),
    felt: &[Felt<'_>],
    run: &RunOf<'_>,
    budget: &mut Budget<'_>,
) -> Result<BTreeMap<&'static str, Ends>, Fault> {
    let long = felt.iter().map(|it| it.change * it.change).sum::<f64>().sqrt();
    let mut found = BTreeMap::new();
    if long <= 0.0 {
        return Ok(found);
    }
    let mut ends = Vec::new();
    for way in [-1.0, 1.0] {
        let factor = |it: &Felt<'_>| (1.0 + way * it.price.error * it.change / long).max(ends::LEAST);
        let of_stage = |stage: &Stage| {
            let paid = felt.iter().find(|it| stage.paid == Some(it.index));
            paid.map_or(1.0, factor)
        };
        let then = run(&of_stage, budget)?;
        let (mut service, mut other, mut more) = (solved.service.clone(), model.clone(), Some(1.0));
        for it in felt {
            service = service.scaled(it.index, factor(it));
            other = dearer(&other, it.price, factor(it))?;
            more = more.zip(it.slope).map(|(more, slope)| more * factor(it).powf(slope));
        }
        let carried = match more {
            Some(more) => solved.carried.rate.value * more,
            None => bottleneck::carried(&other, &service, solved.one, budget)?.rate.value,
        };
        let saturated = plain(&other, &service, carried, then.flow().0).saturated;
        ends.push((then, saturated));
    }
    let [(below, _), (above, saturated)] = ends.as_slice() else { return Ok(found) };
    let asked = LEVELS.into_iter().zip(solved.times).filter(|(_, time)| time.is_some());
    let asked = asked.map(|((name, level), _)| (name, Some(level)));
    for (name, level) in asked.chain([("mean", None)]) {
        let of = |run: &Simulated| level.map_or_else(|| run.mean(), |level| run.quantile(level));
        let own = of(seen);
        let far = |off: f64| off.max(0.0).hypot(own.half);
        let low = (own.value - far(of(base).value - of(below).value)).max(0.0);
        let high = own.value + far(of(above).value - of(base).value);
        found.insert(name, [Some(low), (!saturated).then_some(high)]);
    }
    Ok(found)
}

/// The model with a factor on one price.
fn dearer(model: &Model, paid: &crate::net::Paid, factor: f64) -> Result<Model, Fault> {
    let mut model = model.clone();
    let price = model.prices.get_mut(&paid.platform).and_then(|prices| prices.get_mut(&paid.operation));
    let Some(price) = price else {
        return Err(Fault::new(Class::NoPrice, paid.operation.clone(), "it has no price"));
    };
    price.each *= factor;
    price.per_byte *= factor;
    Ok(model)
}
