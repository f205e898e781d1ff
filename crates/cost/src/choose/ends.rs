//! Both ends of the interval of a figure that bends: near saturation times grow faster and faster, and slopes say too little of the far end
//! and too much of the near one.
//!
//! *Where an end lies.* Errors of prices have nothing to do with each other, so their density is the same wherever the squares of (error over
//! half of the price's interval, `e`) have the same sum. Of all errors with the sum 1, those of one price at the border of its interval
//! among them, a figure changes most, as its slopes `g` say, where price `i` is off by `e_i (g_i e_i) / sqrt(sum (g_j e_j)^2)`: the
//! design point of first-order reliability (Hasofer and Lind, 1974). There slopes give half of the interval, and a figure that only grows
//! along that way has as many of 100 draws beyond what is found there. So the setting is solved once more at that point, and at the one opposite.
//!
//! What was simulated has them from two more runs for each such way (`runs`).

use std::collections::BTreeMap;

use super::Wanted;
use super::figures::{LEVELS, Solved, Unsure};
use crate::model::{Model, Workload};
use crate::{Class, Fault};

/// The lower and the upper end; none where more comes than is carried.
pub type Ends = [Option<f64>; 2];

/// Halves that are at most this part of their figure are as good as straight.
const STRAIGHT: f64 = 0.03;
/// So many halves from a figure what is wanted of it may lie within its interval.
const NEAR: f64 = 1.5;
/// What is left of a price at least.
const LEAST: f64 = 0.01;

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
    pub(super) prices: &'a [Unsure],
    /// For each figure what each of them does to it at the border of its interval.
    pub(super) changes: BTreeMap<&'static str, Vec<f64>>,
    /// Half of the interval of each figure, and the part of it that runs make.
    pub(super) plus_minus: &'a BTreeMap<&'static str, f64>,
    pub(super) own: &'a BTreeMap<&'static str, f64>,
    /// Points of figures whose directions have this cosine are one: an end is off by less than the rest of it, relative.
    pub(super) same: f64,
}

/// A figure that is asked for at other prices: its name, what it is, and what it may be there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) guess: f64,
}

/// The figures of a setting with factors on some of its prices; none where more comes than is carried.
pub(super) type Elsewhere<'e> = dyn FnMut(&[(&Unsure, f64)], &[Asked]) -> Result<Vec<Option<f64>>, Fault> + 'e;

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
    elsewhere: &mut Elsewhere<'_>,
) -> Result<BTreeMap<&'static str, Ends>, Fault> {
    let mut found = BTreeMap::new();
    if solved.plain.saturated {
        return Ok(found);
    }
    // Figures along the direction of the first of them.
    let mut groups: Vec<Vec<Figure<'_>>> = Vec::new();
    for (name, value) in matter(model, solved, slopes, wanted) {
        let own = slopes.own.get(name).copied().unwrap_or(0.0);
        let Some(changes) = slopes.changes.get(name).filter(|it| length(it) > 0.0) else {
            if own > 0.0 {
                found.insert(name, [Some((value - own).max(0.0)), Some(value + own)]);
            }
            continue;
        };
        let mut figure = Figure { name, value, changes, sign: 1.0 };
        let cosine = |group: &Vec<Figure<'_>>| {
            let dot: f64 = group[0].changes.iter().zip(changes).map(|(one, other)| one * other).sum();
            dot / length(group[0].changes) / length(changes)
        };
        match groups.iter_mut().find(|group| cosine(group).abs() >= slopes.same) {
            Some(group) => {
                figure.sign = cosine(group).signum();
                group.push(figure);
            }
            None => groups.push(vec![figure]),
        }
    }
    for group in groups {
        let below = at(slopes, &group, -1.0, elsewhere)?;
        let above = at(slopes, &group, 1.0, elsewhere)?;
        let Some((below, above)) = below.zip(above) else { continue };
        let own = |name: &str| slopes.own.get(name).copied().unwrap_or(0.0);
        for ((figure, below), above) in group.iter().zip(below).zip(above) {
            let Some((one, other)) = below.zip(above) else {
                let low = below.or(above).unwrap_or(figure.value).min(figure.value);
                found.insert(figure.name, [Some(low), None]);
                continue;
            };
            let far = |off: f64| off.max(0.0).hypot(own(figure.name));
            let low = (figure.value - far(figure.value - one.min(other))).max(0.0);
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
    slopes: &Slopes<'_>,
    group: &[Figure<'_>],
    way: f64,
    elsewhere: &mut Elsewhere<'_>,
) -> Result<Option<Vec<Option<f64>>>, Fault> {
    let direction = group[0].changes;
    let long = length(direction);
    let factors = slopes.prices.iter().zip(direction).filter(|(_, change)| **change != 0.0);
    let factors = factors.map(|(price, change)| (price, (1.0 + way * price.error * change / long).max(LEAST)));
    let factors: Vec<(&Unsure, f64)> = factors.collect();
    let asked = |figure: &Figure<'_>| {
        let guess = figure.value + figure.sign * way * length(figure.changes);
        Asked { name: figure.name, value: figure.value, guess: guess.max(figure.value * 0.5) }
    };
    match elsewhere(&factors, &group.iter().map(asked).collect::<Vec<_>>()) {
        Ok(values) => Ok(Some(values)),
        // What the solver cannot say out there leaves what slopes say.
        Err(fault) if fault.class == Class::Unanswered && fault.name != "time" => Ok(None),
        Err(fault) => Err(fault),
    }
}
