//! The front: settings that no other beats in security, time, core seconds, energy, money and availability together.

use gspn::{Budget, Progress};

use super::Outcome;
use super::security::Order;
use crate::Fault;

/// Comparisons between two looks at the clock.
const LOOK: usize = 1 << 16;

/// Marks the settings, and says which are on the front; `p99` as [`Outcome::time`] takes it.
///
/// # Errors
/// The budget is used up: many settings of which none beats another are compared with each other.
pub(super) fn front(
    security: &Order,
    settings: &mut [Outcome],
    p99: bool,
    budget: &mut Budget<'_>,
) -> Result<Vec<usize>, Fault> {
    let mut compared = 0;
    let mut look = |more: usize| {
        compared += more + 1;
        if compared < LOOK {
            return Ok(());
        }
        compared = 0;
        budget.look(Progress::Solving { sweeps: 0, error: 0.0 })
    };
    let cheap = |one: &Outcome, other: &Outcome| {
        one.availability >= other.availability
            && one.costs().into_iter().zip(other.costs()).all(|(one, other)| one <= other)
    };
    let time = |it: &Outcome| it.time(p99);
    let mut order: Vec<usize> = (0..settings.len()).filter(|index| !settings[*index].saturated).collect();
    order.sort_by(|one, other| {
        let (a, b) = (&settings[*one], &settings[*other]);
        let costs = a.costs().into_iter().zip(b.costs()).map(|(a, b)| a.total_cmp(&b));
        let costs = costs.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then);
        time(a).total_cmp(&time(b)).then(costs).then(one.cmp(other))
    });
    let mut front: Vec<usize> = Vec::new();
    for index in order {
        look(front.len())?;
        let own = &settings[index];
        // Whoever comes before is as fast; equals in everything stand side by side.
        let beats = |other: &&usize| {
            let other = &settings[**other];
            let as_secure = security.at_least(&other.ways, &own.ways);
            let more_secure = as_secure && !security.at_least(&own.ways, &other.ways);
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
                && security.at_least(&other.ways, &own.ways)
                && (!security.at_least(&own.ways, &other.ways) || other.availability > own.availability)
        })
    };
    let beaten = front.iter().map(|index| look(front.len()).map(|()| beaten(index)));
    let beaten = beaten.collect::<Result<Vec<Option<usize>>, _>>()?;
    let mut kept = Vec::new();
    for (index, by) in front.into_iter().zip(beaten) {
        settings[index].beaten_by = by;
        settings[index].on_front = by.is_none();
        if by.is_none() {
            kept.push(index);
        }
    }
    Ok(kept)
}
