//! The front: settings that no other beats in security, time and core seconds together.

use super::{Choice, Outcome, security};
use crate::draw::{Line, Plot};
use crate::model::Model;

/// Marks the settings, and says which are on the front.
pub(super) fn front(model: &Model, settings: &mut [Outcome]) -> Vec<usize> {
    let time = |it: &Outcome| it.p99.or(it.mean).unwrap_or(f64::INFINITY);
    let mut order: Vec<usize> = (0..settings.len()).filter(|index| !settings[*index].saturated).collect();
    order.sort_by(|one, other| {
        let (a, b) = (&settings[*one], &settings[*other]);
        time(a).total_cmp(&time(b)).then(a.cores.total_cmp(&b.cores)).then(one.cmp(other))
    });
    let mut front: Vec<usize> = Vec::new();
    for index in order {
        let own = &settings[index];
        // Whoever comes before is as fast; equals in everything stand side by side.
        let beats = |other: &&usize| {
            let other = &settings[**other];
            let as_secure = security::at_least(model, &other.ways, &own.ways);
            let more_secure = as_secure && !security::at_least(model, &own.ways, &other.ways);
            as_secure && other.cores <= own.cores && (more_secure || other.cores < own.cores || time(other) < time(own))
        };
        let beaten = front.iter().find(beats).copied();
        // An equal that comes later may be more secure than one before.
        if beaten.is_none() {
            front.push(index);
        }
        settings[index].beaten_by = beaten;
    }
    let kept: Vec<usize> = front
        .iter()
        .copied()
        .filter(|index| {
            let own = &settings[*index];
            !front.iter().any(|other| {
                let other = &settings[*other];
                time(other) <= time(own)
                    && other.cores <= own.cores
                    && security::at_least(model, &other.ways, &own.ways)
                    && !security::at_least(model, &own.ways, &other.ways)
            })
        })
        .collect();
    for index in &kept {
        settings[*index].on_front = true;
    }
    kept
}

/// Strength over time: settings that can be chosen, those that fail, and the front.
#[must_use]
pub fn svg(choice: &Choice) -> String {
    let mut plot =
        Plot::new("Settings: time against strength", "p99 (or mean), ms", "strength of the weakest part, bits");
    let point = |it: &Outcome| Some((it.p99.or(it.mean)? * 1e3, f64::from(it.strength.unwrap_or(0))));
    let mut front: Vec<(f64, f64)> = choice.front.iter().filter_map(|index| point(&choice.settings[*index])).collect();
    front.sort_by(|one, other| one.0.total_cmp(&other.0));
    plot.dots("can be chosen", choice.ranked.iter().filter_map(|index| point(&choice.settings[*index])).collect(), 2);
    let failing = choice.settings.iter().filter(|it| !it.fails.is_empty()).filter_map(point);
    plot.dots("fails a constraint", failing.collect(), 3);
    plot.dots("on the front", front.clone(), 1);
    if let Some((x, y)) = choice.ranked.first().and_then(|index| point(&choice.settings[*index])) {
        plot.mark(x, y, "first choice");
    }
    if let Some(p99) = choice.wanted.p99 {
        let top = front.iter().map(|point| point.1).fold(128.0, f64::max);
        plot.line(Line { name: "p99 wanted".to_owned(), points: vec![(p99 * 1e3, 0.0), (p99 * 1e3, top)], colour: 0 });
    }
    plot.svg()
}
