//! The front: settings that no other beats in security, time, core seconds, energy, money and availability together.

use super::{Outcome, security};
use crate::model::Model;

/// Marks the settings, and says which are on the front.
pub(super) fn front(model: &Model, settings: &mut [Outcome]) -> Vec<usize> {
    let cheap = |one: &Outcome, other: &Outcome| {
        one.availability >= other.availability
            && one.costs().into_iter().zip(other.costs()).all(|(one, other)| one <= other)
    };
    let time = Outcome::time;
    let mut order: Vec<usize> = (0..settings.len()).filter(|index| !settings[*index].saturated).collect();
    order.sort_by(|one, other| {
        let (a, b) = (&settings[*one], &settings[*other]);
        let costs = a.costs().into_iter().zip(b.costs()).map(|(a, b)| a.total_cmp(&b));
        let costs = costs.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then);
        time(a).total_cmp(&time(b)).then(costs).then(one.cmp(other))
    });
    let mut front: Vec<usize> = Vec::new();
    for index in order {
        let own = &settings[index];
        // Whoever comes before is as fast; equals in everything stand side by side.
        let beats = |other: &&usize| {
            let other = &settings[**other];
            let as_secure = security::at_least(model, &other.ways, &own.ways);
            let more_secure = as_secure && !security::at_least(model, &own.ways, &other.ways);
            as_secure && cheap(other, own) && (more_secure || !cheap(own, other) || time(other) < time(own))
        };
        let beaten = front.iter().find(beats).copied();
        // An equal that comes later may be more secure than one before.
        if beaten.is_none() {
            front.push(index);
        }
        settings[index].beaten_by = beaten;
    }
    let beaten = |index: &usize| {
        let own = &settings[*index];
        front.iter().copied().find(|other| {
            let other = &settings[*other];
            time(other) <= time(own)
                && cheap(other, own)
                && security::at_least(model, &other.ways, &own.ways)
                && !security::at_least(model, &own.ways, &other.ways)
        })
    };
    let beaten: Vec<Option<usize>> = front.iter().map(beaten).collect();
    let mut kept = Vec::new();
    for (index, by) in front.into_iter().zip(beaten) {
        settings[index].beaten_by = by;
        settings[index].on_front = by.is_none();
        if by.is_none() {
            kept.push(index);
        }
    }
    kept
}
