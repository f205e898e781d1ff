//! The figures of one setting, and how far they may be off because prices are.
//!
//! *Intervals.* A price may say how sure it is: half of its 95 % interval, `e`. Each figure is followed as one price after the other grows a
//! little, all else equal; the half of its own interval is the root of the summed squares of (slope times `e`), as errors of different prices
//! have nothing to do with each other. The slope of a percentile `t` is that of the distribution there over its density: `-(dF/dp)/f(t)`. Where
//! figures bend, both ends are found by solving (`ends`). What was
//! simulated is as sure as its runs (`runs`).

use std::collections::BTreeMap;

use gspn::Budget;

use super::bottleneck::Carried;
use super::ends::{self, Asked, Ends, Slopes};
use super::service::{self, Service};
use super::times::{self, Flow, Task, Times};
use super::{Wanted, above, bottleneck, queue, runs};
use crate::model::{Model, Workload};
use crate::net::{Paid, Sketch, Stage};
use crate::{Class, Fault};

/// How much a price grows to see what follows, relative.
const STEP: f64 = 1e-4;
/// Prices from which on it takes less to say of all at once what they do to a percentile.
const SEVERAL: usize = 3;
/// Figures whose directions have this cosine have their ends at one point.
const SAME: f64 = 0.999;

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
    let told = [asked[0], asked[1], one || percentiles];
    let [asked, levels] = [asked, told].map(levels);
    let (flow, distribution) = times::solve(Task { model, one, levels: &levels, asked: &asked }, &service, budget)?;
    let carried = bottleneck::carried(model, &service, one, budget)?;
    let plain = plain(model, &service, carried.rate.value, flow);
    for (name, figure) in [("energy", plain.energy), ("money", plain.money)] {
        if figure.is_some_and(|it| !it.is_finite()) {
            let why = "all of it is more than a number can say: give less for a machine, or fewer machines";
            return Err(Fault::new(Class::Invalid, name, why));
        }
    }
    let mut times = [None; 3];
    for ((time, (_, level)), told) in times.iter_mut().zip(LEVELS).zip(told) {
        if told && !plain.saturated {
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

/// The levels of those that are meant.
fn levels(asked: [bool; 3]) -> Vec<f64> {
    LEVELS.iter().zip(asked).filter(|(_, asked)| *asked).map(|((_, level), _)| *level).collect()
}

/// The plain numbers of a service under a flow of requests, of which so many could be carried.
pub(super) fn plain(model: &Model, service: &Service, carried: f64, flow: Flow) -> Plain {
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

    /// One of those.
    pub(super) fn value(&self, name: &str, busiest: usize) -> Option<f64> {
        self.named(busiest).into_iter().find(|(other, _)| *other == name).and_then(|(_, value)| value)
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
    pub(super) carried: Option<f64>,
    /// What its error does to the time of a request, over what that of the price does that does most.
    pub(super) weight: f64,
}

/// The prices of a setting that say how sure they are.
pub(super) fn unsure(solved: &Solved, budget: &mut Budget<'_>) -> Result<Vec<Unsure>, Fault> {
    let service = &solved.service;
    let prices = service.prices.iter().enumerate().filter(|(_, price)| price.error > 0.0);
    let does = |(index, price): (usize, &Paid)| (index, price.error, price.error * service.paid_by(index));
    let prices: Vec<_> = prices.map(does).collect();
    let most = prices.iter().map(|(.., does)| *does).fold(0.0, f64::max);
    let unsure = |(index, error, does): (usize, f64, f64)| {
        let weight = if most > 0.0 { does / most } else { 0.0 };
        let of = |stage: &Stage| stage.paid == Some(index);
        Ok(Unsure { index, error, carried: solved.carried.slope(of, service.mean(), weight, budget)?, weight })
    };
    prices.into_iter().map(unsure).collect()
}

/// How far the figures of a setting may be off.
pub(super) fn intervals(
    model: &Model,
    solved: &Solved,
    wanted: &Wanted,
    budget: &mut Budget<'_>,
) -> Result<Off, Fault> {
    if let Times::Simulated(seen) = &solved.distribution {
        return runs::intervals(model, solved, seen, wanted, budget);
    }
    // So far a run may be off that says what is carried.
    let own: BTreeMap<&'static str, f64> =
        ["carried", "saturation"].map(|name| (name, solved.carried.rate.half)).into_iter().collect();
    let mut squares: BTreeMap<&'static str, f64> =
        own.iter().filter(|(_, half)| **half > 0.0).map(|(name, half)| (*name, half.powi(2))).collect();
    let service = &solved.service;
    let prices = unsure(solved, budget)?;
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
    let slopes = Slopes { prices: &prices, changes, plus_minus: &plus_minus, own: &own, same: SAME };
    let ends =
        ends::ends(model, solved, &slopes, wanted, &mut |factors, asked| again(model, solved, factors, asked, budget))?;
    Ok(Off { plus_minus, ends })
}

/// The figures of a setting that is solved once more with factors on some of its prices.
fn again(
    model: &Model,
    solved: &Solved,
    factors: &[(&Unsure, f64)],
    asked: &[Asked],
    budget: &mut Budget<'_>,
) -> Result<Vec<Option<f64>>, Fault> {
    let level = |name: &str| LEVELS.into_iter().find(|(other, _)| *other == name).map(|(_, level)| level);
    let levels: Vec<f64> = asked.iter().filter_map(|it| level(it.name)).collect();
    let then = Repriced::new(model, solved, factors, &levels, budget)?;
    let of = |it: &Asked| match level(it.name) {
        Some(level) => then.quantile(level, it.guess, budget),
        None => Ok(then.plain.value(it.name, solved.plain.busiest())),
    };
    asked.iter().map(of).collect()
}

impl Solved {
    /// How many can be carried of a model, and its service, with factors on some prices.
    pub(super) fn carried_at(
        &self,
        factors: &[(&Unsure, f64)],
        model: &Model,
        service: &Service,
        budget: &mut Budget<'_>,
    ) -> Result<f64, Fault> {
        let simulated = factors.iter().map(|(price, factor)| Some(factor.powf(price.carried?)));
        match simulated.product::<Option<f64>>() {
            Some(more) => Ok(self.carried.rate.value * more),
            None => Ok(bottleneck::carried(model, service, self.one, budget)?.rate.value),
        }
    }
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
        let (flow, distribution) =
            times::solve(Task { model, one: solved.one, levels, asked: levels }, &service, budget)?;
        let carried = solved.carried_at(factors, model, &service, budget)?;
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

pub(super) fn roots(mut squares: BTreeMap<&'static str, f64>) -> BTreeMap<&'static str, f64> {
    squares.values_mut().for_each(|square| *square = square.sqrt());
    squares
}

/// The model with a factor on one price.
pub(super) fn dearer(model: &Model, paid: &crate::net::Paid, factor: f64) -> Result<Model, Fault> {
    let mut model = model.clone();
    let price = model.prices.get_mut(&paid.platform).and_then(|prices| prices.get_mut(&paid.operation));
    let Some(price) = price else {
        return Err(Fault::new(Class::NoPrice, paid.operation.clone(), "it has no price"));
    };
    price.each *= factor;
    price.per_byte *= factor;
    Ok(model)
}
