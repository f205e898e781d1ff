//! Both ends of the interval of a figure that bends: near saturation times grow faster and faster, and slopes say too little of the far end
//! and too much of the near one.
//!
//! *Where an end lies.* Errors of prices have nothing to do with each other, so their density is the same wherever the squares of (error over
//! half of the price's interval, `e`) have the same sum. Of all errors with the sum 1, those of one price at the border of its interval
//! among them, a figure changes most, as its slopes `g` say, where price `i` is off by `e_i (g_i e_i) / sqrt(sum (g_j e_j)^2)`: the
//! design point of first-order reliability (Hasofer and Lind, 1974). There slopes give half of the interval, and a figure that only grows
//! along that way has as many of 100 draws beyond what is found there. So the setting is solved once more at that point, and at the one opposite.
//!
//! What was simulated has the ends of its times from two more runs, in the direction of its mean (`figures`).

use std::collections::BTreeMap;

use gspn::Budget;

use super::Wanted;
use super::figures::{LEVELS, Repriced, Solved, Unsure};
use crate::model::{Model, Workload};
use crate::{Class, Fault};

/// The lower and the upper end; none where more comes than is carried.
pub type Ends = [Option<f64>; 2];

/// Halves that are at most this part of their figure are as good as straight.
pub(super) const STRAIGHT: f64 = 0.03;
/// So many halves from a figure what is wanted of it may lie within its interval.
const NEAR: f64 = 1.5;
/// Points of figures whose directions have this cosine are one: an end is off by less than the rest of it, relative.
const SAME: f64 = 0.999;
/// What is left of a price at least.
pub(super) const LEAST: f64 = 0.01;

/// Both ends of the interval of a figure, the upper one beyond all numbers where more comes than is carried; none if it has no interval.
pub(super) fn of(
    plus_minus: &BTreeMap<&'static str, f64>,
    ends: &BTreeMap<&'static str, Ends>,
    name: &str,
    value: f64,
) -> Option<[f64; 2]> {
    if let Some([low, high]) = ends.get(name) {
        return Some([low.unwrap_or(value), high.unwrap_or(f64::INFINITY)]);
    }
    let half = *plus_minus.get(name)?;
    Some([value - half, value + half])
}

/// What slopes say.
pub(super) struct Slopes<'a> {
    /// The prices that say how sure they are.
    pub(super) prices: Vec<Unsure>,
    /// For each figure what each of them does to it at the border of its interval.
    pub(super) changes: BTreeMap<&'static str, Vec<f64>>,
    /// Half of the interval of each figure.
    pub(super) plus_minus: &'a BTreeMap<&'static str, f64>,
}

/// A figure whose ends are looked for.
struct Figure<'a> {
    name: &'static str,
    value: f64,
    changes: &'a [f64],
    /// 1 where it grows along the direction, -1 where it falls.
    sign: f64,
}

/// Both ends of the figures that matter.
pub(super) fn ends(
    model: &Model,
    solved: &Solved,
    slopes: &Slopes<'_>,
    wanted: &Wanted,
    budget: &mut Budget<'_>,
) -> Result<BTreeMap<&'static str, Ends>, Fault> {
    let mut found = BTreeMap::new();
    if solved.plain.saturated {
        return Ok(found);
    }
    // Figures along the direction of the first of them.
    let mut groups: Vec<Vec<Figure<'_>>> = Vec::new();
    for (name, value) in matter(model, solved, slopes, wanted) {
        let Some(changes) = slopes.changes.get(name).filter(|it| length(it) > 0.0) else { continue };
        let mut figure = Figure { name, value, changes, sign: 1.0 };
        let cosine = |group: &Vec<Figure<'_>>| {
            let dot: f64 = group[0].changes.iter().zip(changes).map(|(one, other)| one * other).sum();
            dot / length(group[0].changes) / length(changes)
        };
        match groups.iter_mut().find(|group| cosine(group).abs() >= SAME) {
            Some(group) => {
                figure.sign = cosine(group).signum();
                group.push(figure);
            }
            None => groups.push(vec![figure]),
        }
    }
    for group in groups {
        let below = at(model, solved, slopes, &group, -1.0, budget)?;
        let above = at(model, solved, slopes, &group, 1.0, budget)?;
        let Some((below, above)) = below.zip(above) else { continue };
        // So far a run may be off that says what is carried.
        let run = |name: &str| if matches!(name, "carried" | "saturation") { solved.carried.rate.half } else { 0.0 };
        for ((figure, below), above) in group.iter().zip(below).zip(above) {
            let Some((one, other)) = below.zip(above) else {
                let low = below.or(above).unwrap_or(figure.value).min(figure.value);
                found.insert(figure.name, [Some(low), None]);
                continue;
            };
            let far = |off: f64| off.max(0.0).hypot(run(figure.name));
            let low = figure.value - far(figure.value - one.min(other));
            let high = figure.value + far(one.max(other) - figure.value);
            found.insert(figure.name, [Some(low), Some(high)]);
        }
    }
    Ok(found)
}

/// The figures whose ends may differ from what slopes say, or decide on a constraint.
fn matter(
    model: &Model,
    solved: &Solved,
    slopes: &Slopes<'_>,
    wanted: &Wanted,
) -> impl Iterator<Item = (&'static str, f64)> {
    let closed = matches!(model.workload, Workload::Closed { .. });
    let arrivals = match model.workload {
        Workload::Open { rate, .. } => Some(rate),
        Workload::Closed { .. } => None,
    };
    let of_clients = wanted.rate.filter(|_| closed);
    let less = NEAR * slopes.plus_minus.get("carried").copied().unwrap_or(0.0);
    // Where more may come than is carried, some are turned away, which slopes know nothing of.
    let is_tight = arrivals.is_some_and(|rate| less > 0.0 && solved.plain.carried - less <= rate);
    let named = solved.plain.named(solved.plain.busiest()).into_iter();
    let times = LEVELS.into_iter().zip(solved.times).map(|((name, _), time)| (name, time));
    let figures = named.chain(times).filter_map(|(name, value)| Some((name, value?)));
    let matters = move |name: &str, value: f64| {
        let (time, wanted) = match name {
            "mean" => (true, wanted.mean),
            "p50" => (true, wanted.p50),
            "p95" => (true, wanted.p95),
            "p99" => (true, wanted.p99),
            "cpu" => (false, wanted.cpu),
            "loss" => (wanted.loss.is_some(), wanted.loss),
            "energy" => (false, wanted.energy),
            "money" => (false, wanted.money),
            "carried" => (false, arrivals),
            "throughput" | "saturation" => (false, of_clients),
            _ => (false, None),
        };
        let half = slopes.plus_minus.get(name).copied().unwrap_or(0.0);
        let near = wanted.is_some_and(|wanted| (wanted - value).abs() <= NEAR * half);
        let turned_away = is_tight && matches!(name, "throughput" | "loss");
        half > 0.0 && (near || turned_away || time && half > STRAIGHT * value)
    };
    figures.filter(move |(name, value)| matters(name, *value))
}

fn length(changes: &[f64]) -> f64 {
    changes.iter().map(|change| change * change).sum::<f64>().sqrt()
}

/// The figures of a group where prices are off along its direction; none where they have no answer there.
fn at(
    model: &Model,
    solved: &Solved,
    slopes: &Slopes<'_>,
    group: &[Figure<'_>],
    way: f64,
    budget: &mut Budget<'_>,
) -> Result<Option<Vec<Option<f64>>>, Fault> {
    let direction = group[0].changes;
    let long = length(direction);
    let factors = slopes.prices.iter().zip(direction).filter(|(_, change)| **change != 0.0);
    let factors = factors.map(|(price, change)| (price, (1.0 + way * price.error * change / long).max(LEAST)));
    let factors: Vec<(&Unsure, f64)> = factors.collect();
    let level = |name: &str| LEVELS.into_iter().find(|(other, _)| *other == name).map(|(_, level)| level);
    let levels: Vec<f64> = group.iter().filter_map(|figure| level(figure.name)).collect();
    let mut find = || {
        let then = Repriced::new(model, solved, &factors, &levels, budget)?;
        let named = then.plain.named(solved.plain.busiest());
        let of = |figure: &Figure<'_>| {
            let Some(level) = level(figure.name) else {
                return Ok(named.iter().find(|(name, _)| *name == figure.name).and_then(|(_, value)| *value));
            };
            let guess = figure.value + figure.sign * way * length(figure.changes);
            then.quantile(level, guess.max(figure.value * 0.5), budget)
        };
        group.iter().map(of).collect::<Result<Vec<_>, Fault>>()
    };
    match find() {
        Ok(values) => Ok(Some(values)),
        // What the solver cannot say out there leaves what slopes say.
        Err(fault) if fault.class == Class::Unanswered && fault.name != "time" => Ok(None),
        Err(fault) => Err(fault),
    }
}
