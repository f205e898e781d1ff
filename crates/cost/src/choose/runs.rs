//! How far figures of a setting may be off that was simulated: as its runs say, and because prices are.
//!
//! *What a price does* is seen from two runs of the same requests, in which it is as far above what it says as it is below in the other. What
//! chance does to one it does to the other, too, and what it does not is seen in how far apart neighbouring batches of both are: so much is
//! left out of the square of a difference. The runs of a price grow until that is little beside the interval.

use std::collections::BTreeMap;

use gspn::Budget;

use super::Wanted;
use super::ends::{self, Asked, Slopes};
use super::figures::{LEVELS, Off, Plain, Solved, Unsure, dearer, plain, roots, unsure};
use super::service::Service;
use super::simulated::{self, Change, FOR_MOST, FOR_SLOPES, Simulated};
use super::times::Flow;
use crate::model::{Model, Node, Workload};
use crate::net::{self, Form, Laid, Stage};
use crate::{Fault, weave};

/// One standard deviation of half of an interval, as a part of it, at which the runs are long enough that say what prices do.
const CLOSE: f64 = 0.05;
/// Figures whose directions have this cosine have the runs of their ends in common: what is between them may be chance.
const SAME: f64 = 0.98;

/// How far the figures of a setting may be off.
pub(super) fn intervals(
    model: &Model,
    solved: &Solved,
    seen: &Simulated,
    wanted: &Wanted,
    budget: &mut Budget<'_>,
) -> Result<Off, Fault> {
    let own = of_runs(model, solved, seen);
    let prices = unsure(solved, budget)?;
    let (laid, is_counted) = (net::lay_as(&weave(model), Form::Shared)?, seen.is_counted());
    let runs = Runs { model, solved, laid, is_counted };
    let begun = |price: &Unsure| simulated::enough(FOR_MOST, price.weight);
    let felt = prices.iter().map(|price| Felt::new(&runs, price, begun(price), budget)).collect::<Result<_, Fault>>();
    let mut all = All { own, felt: felt? };
    loop {
        let short = all.too_short();
        if short.is_empty() {
            break;
        }
        for (place, requests) in short {
            all.felt[place] = Felt::new(&runs, &prices[place], requests, budget)?;
        }
    }
    let names = all.own.keys().chain(all.felt.iter().flat_map(|it| it.changes.keys()));
    let squares = names.map(|name| (*name, all.square(name))).filter(|(_, square)| *square > 0.0);
    let plus_minus = roots(squares.collect());
    let mut changes: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for (place, it) in all.felt.iter().enumerate() {
        for (name, change) in &it.changes {
            changes.entry(name).or_insert_with(|| vec![0.0; prices.len()])[place] = change.surely();
        }
    }
    let requests = all.felt.iter().map(|it| it.requests).fold(FOR_MOST, usize::max);
    let mut base = None;
    let slopes = Slopes { prices: &prices, changes, plus_minus: &plus_minus, own: &all.own, same: SAME };
    let ends = ends::ends(model, solved, &slopes, wanted, &mut |factors, asked| {
        let now = match base.take() {
            Some(base) => base,
            None => runs.at(&[], requests, budget)?,
        };
        let then = runs.at(factors, requests, budget)?;
        let of = |it: &Asked| {
            let is_there = !(then.plain.saturated && is_time(it.name));
            is_there.then(|| Some(it.value + runs.change(&now, &then, it.name)?.by)).flatten()
        };
        let values = asked.iter().map(of).collect();
        base = Some(now);
        Ok(values)
    })?;
    Ok(Off { plus_minus, ends })
}

/// Half of the interval of each figure that the runs of a setting make.
fn of_runs(model: &Model, solved: &Solved, seen: &Simulated) -> BTreeMap<&'static str, f64> {
    let (flow, half) = seen.flow();
    // Who is turned away is none of those that come in.
    let half = match model.workload {
        Workload::Open { .. } => Flow { rate: -half.rate, ..half },
        Workload::Closed { .. } => half,
    };
    let (carried, busiest) = (solved.carried.rate, solved.plain.busiest());
    let off = Plain {
        saturated: solved.plain.saturated,
        ..plain(model, &solved.service, carried.value + carried.half, flow.plus(half))
    };
    let named = solved.plain.named(busiest).into_iter().zip(off.named(busiest));
    let plain = named.filter_map(|((name, now), (_, then))| Some((name, (then? - now?).abs())));
    let times = LEVELS.into_iter().zip(solved.times);
    let times = times.filter_map(|((name, level), time)| time.map(|_| (name, seen.quantile(level).half)));
    plain.chain(times).collect()
}

fn is_time(name: &str) -> bool {
    name == "mean" || LEVELS.iter().any(|(level, _)| *level == name)
}

/// What runs say of a setting, and what its prices do.
struct All {
    own: BTreeMap<&'static str, f64>,
    felt: Vec<Felt>,
}

impl All {
    /// The square of half of the interval of a figure.
    fn square(&self, name: &str) -> f64 {
        let own = self.own.get(name).copied().unwrap_or(0.0);
        let changes = self.felt.iter().filter_map(|it| it.changes.get(name));
        own * own + changes.map(|it| it.by * it.by - it.chance).sum::<f64>().max(0.0)
    }

    /// The prices whose runs are too short to say what they do to a time, and how many requests they need.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "requests"
    )]
    fn too_short(&self) -> Vec<(usize, usize)> {
        let mut needed = vec![0; self.felt.len()];
        for name in self.own.keys().filter(|name| is_time(name)) {
            // Runs of two prices see the same requests: chance may do the same to both.
            let off = |it: &Felt| it.changes.get(name).map_or(0.0, |it| it.by.abs() * it.chance.sqrt());
            let sum: f64 = self.felt.iter().map(off).sum();
            let longer = (sum / (CLOSE * self.square(name))).powi(2);
            for (needed, it) in needed.iter_mut().zip(&self.felt) {
                if longer > 1.0 && off(it) * self.felt.len() as f64 >= sum {
                    let requests = (it.requests as f64 * longer).min(FOR_SLOPES[1] as f64);
                    *needed = (*needed).max((requests as usize).next_power_of_two());
                }
            }
        }
        let longer = needed.into_iter().enumerate().filter(|(place, needed)| *needed > self.felt[*place].requests);
        longer.collect()
    }
}

/// What a price does to each figure at the border of its interval, as runs of so many requests say.
struct Felt {
    requests: usize,
    changes: BTreeMap<&'static str, Change>,
}

impl Felt {
    fn new(runs: &Runs<'_>, price: &Unsure, requests: usize, budget: &mut Budget<'_>) -> Result<Self, Fault> {
        let step = runs.step(price, budget)?;
        let low = runs.at(&[(price, 1.0 - step)], requests, budget)?;
        let high = runs.at(&[(price, 1.0 + step)], requests, budget)?;
        let names = runs
            .solved
            .plain
            .named(runs.solved.plain.busiest())
            .into_iter()
            .chain(LEVELS.map(|(name, _)| name).into_iter().zip(runs.solved.times));
        let names = names.filter_map(|(name, value)| value.map(|_| name));
        let border = price.error / (2.0 * step);
        let changes = names.filter_map(|name| Some((name, runs.change(&low, &high, name)?.times(border))));
        Ok(Self { requests, changes: changes.collect() })
    }
}

/// A price grows by at most so much, relative, of clients who wait for each other; and everywhere by so much at least.
const STEPS: [f64; 2] = [0.02, 0.1];
/// So much of what is left until something is full it may take: of what goes as one over that the slope comes out 4 % too high then.
const OF_REST: f64 = 0.2;

/// What makes a run of a setting at other prices.
struct Runs<'a> {
    model: &'a Model,
    solved: &'a Solved,
    laid: Laid,
    /// How the rate of clients is told.
    is_counted: bool,
}

/// One of those.
struct At {
    seen: Simulated,
    plain: Plain,
}

impl Runs<'_> {
    /// By how much a price grows to see what follows: as far as it may be off, or as figures are straight.
    fn step(&self, price: &Unsure, budget: &mut Budget<'_>) -> Result<f64, Fault> {
        let Self { model, solved, .. } = self;
        let least = STEPS[0].min(price.error);
        let of = |stage: &Stage| stage.paid == Some(price.index);
        let step = |least: f64| simulated::step(&self.laid, of, solved.service.mean(), least);
        let Workload::Open { rate, .. } = model.workload else {
            return Ok(step(price.error.min(STEPS[1])));
        };
        let step = step(price.error);
        let then = solved.service.scaled(price.index, 1.0 + step);
        let node = |(node, it): (usize, &Node)| {
            let busy = |service: &Service| rate * service.cores(node) / f64::from(it.all_cores());
            (busy(&then) - busy(&solved.service)) / (1.0 - busy(&solved.service))
        };
        let dearer = dearer(model, &solved.service.prices[price.index], 1.0 + step)?;
        let carried = solved.carried_at(&[(price, 1.0 + step)], &dearer, &then, budget)?;
        let carried = (solved.plain.carried - carried) / (solved.plain.carried - rate);
        let taken = model.nodes.iter().enumerate().map(node).fold(carried, f64::max);
        Ok(if taken > OF_REST { (step * OF_REST / taken).max(least) } else { step })
    }

    /// A run of so many requests, with factors on some prices.
    fn at(&self, factors: &[(&Unsure, f64)], requests: usize, budget: &mut Budget<'_>) -> Result<At, Fault> {
        let Self { model, solved, laid, is_counted } = self;
        let factor = |stage: &Stage| {
            let paid = factors.iter().find(|(price, _)| stage.paid == Some(price.index));
            paid.map_or(1.0, |(_, factor)| *factor)
        };
        let seen = simulated::longer(laid, model.workload, requests, factor, budget)?;
        let (mut service, mut other) = (solved.service.clone(), (*model).clone());
        for (price, factor) in factors {
            service = service.scaled(price.index, *factor);
            other = dearer(&other, &solved.service.prices[price.index], *factor)?;
        }
        let carried = solved.carried_at(factors, &other, &service, budget)?;
        let plain = plain(&other, &service, carried, seen.flow_as(*is_counted).0);
        Ok(At { seen, plain })
    }

    /// By how much a figure is more in one run than in another; none where it has none.
    fn change(&self, from: &At, to: &At, name: &str) -> Option<Change> {
        if let Some((_, level)) = LEVELS.into_iter().find(|(other, _)| *other == name) {
            return Some(from.seen.quantile_to(&to.seen, level));
        }
        if name == "mean" {
            return Some(from.seen.mean_to(&to.seen));
        }
        let of = |at: &At| at.plain.value(name, self.solved.plain.busiest());
        Some(Change { by: of(to)? - of(from)?, chance: 0.0 })
    }
}
