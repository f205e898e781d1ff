//! The front: settings that no other beats in security, time, core seconds, energy, money and availability together.

use gspn::{Budget, Progress};

use super::security::Order;
use super::{Compared, Outcome};
use crate::Fault;

/// Comparisons between two looks at the clock.
const LOOK: usize = 1 << 16;

/// Marks the settings, and says which are on the front.
///
/// # Errors
/// The budget is used up: many settings of which none beats another are compared with each other.
pub(super) fn front(
    security: &Order,
    settings: &mut [Outcome],
    compared: &[Compared],
    budget: &mut Budget<'_>,
) -> Result<Vec<usize>, Fault> {
    let mut comparisons = 0;
    let mut look = |more: usize| {
        comparisons += more + 1;
        if comparisons < LOOK {
            return Ok(());
        }
        comparisons = 0;
        budget.look(Progress::Solving { sweeps: 0, error: 0.0 })
    };
    let cheap = |one: usize, other: usize| {
        let (one, other) = (&compared[one], &compared[other]);
        one.up >= other.up && one.costs.iter().zip(other.costs).all(|(one, other)| *one <= other)
    };
    let time = |index: usize| compared[index].time;
    let mut order: Vec<usize> = (0..settings.len())
        .filter(|index| !settings[*index].saturated && settings[*index].unsolved.is_none())
        .collect();
    order.sort_by(|one, other| {
        let costs = compared[*one].by_costs(&compared[*other]);
        time(*one).total_cmp(&time(*other)).then(costs).then(one.cmp(other))
    });
    let mut front: Vec<usize> = Vec::new();
    for index in order {
        look(front.len())?;
        let own = &settings[index].ways;
        // Whoever comes before is as fast; equals in everything stand side by side.
        let beats = |other: &&usize| {
            let (other, others) = (**other, &settings[**other].ways);
            let as_secure = security.at_least(others, own);
            let more_secure = as_secure && !security.at_least(own, others);
            as_secure && cheap(other, index) && (more_secure || !cheap(index, other) || time(other) < time(index))
        };
        let beaten = front.iter().find(beats).copied();
        // An equal that comes later may be more secure than one before.
        if beaten.is_none() {
            front.push(index);
        }
        settings[index].beaten_by = beaten;
    }
    let beaten = |index: &usize| {
        let own = &settings[*index].ways;
        front.iter().copied().find(|other| {
            let others = &settings[*other].ways;
            time(*other) <= time(*index)
                && cheap(*other, *index)
                && security.at_least(others, own)
                && (!security.at_least(own, others) || compared[*other].up > compared[*index].up)
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
