//! Proofs that a net has no end: a way that can be gone for ever.

use super::climb::climbs;
use super::compiled::{Compiled, Fire};
use crate::net::Arc;
use crate::{Class, Refusal};

/// One firing on a way: the marking it happened in, and the transition.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) marking: Vec<u64>,
    pub(crate) transition: usize,
}

/// The places that hold more in `later`, if none holds less and one does.
pub(crate) fn grows(earlier: &[u64], later: &[u64]) -> Option<Vec<bool>> {
    if earlier.iter().zip(later).any(|(earlier, later)| later < earlier) || earlier == later {
        return None;
    }
    Some(earlier.iter().zip(later).map(|(earlier, later)| later > earlier).collect())
}

/// Whether the way can be gone again however many tokens are added to the places that grow: no transition on it is stopped by
/// them, and no immediate that they might enable comes first.
fn repeats(net: &Compiled, steps: &[&Step], growth: &[bool]) -> bool {
    steps.iter().all(|step| {
        let fire = &net.fires[step.transition];
        if fire.inhibitors.iter().any(|arc| growth[arc.place]) {
            return false;
        }
        let timed = net.timed.iter().find(|timed| timed.transition == step.transition);
        if timed.is_some_and(|timed| !timed.lasts(&step.marking, growth)) {
            return false;
        }
        let own = net.immediates.iter().find(|immediate| immediate.transition == step.transition);
        net.immediates.iter().all(|other| {
            own.is_some_and(|own| other.priority <= own.priority)
                || stays_off(net, other.transition, &step.marking, growth)
        })
    })
}

/// Whether no number of tokens in the places that grow enables `transition`, which is not enabled in `marking` or not urgent there.
fn stays_off(net: &Compiled, transition: usize, marking: &[u64], growth: &[bool]) -> bool {
    let fire = &net.fires[transition];
    is_dead(fire)
        || fire.inputs.iter().any(|arc| !growth[arc.place] && marking[arc.place] < arc.count)
        || fire.inhibitors.iter().any(|arc| marking[arc.place] >= arc.count)
}

/// Whether what it needs of one place is as much as stops it.
pub(super) fn is_dead(fire: &Fire) -> bool {
    let stops = |needed: &Arc| fire.inhibitors.iter().any(|arc| arc.place == needed.place && arc.count <= needed.count);
    fire.inputs.iter().any(stops)
}

/// # Errors
/// When the way of `steps` from a marking to `later`, which holds more, can be gone again and again: with the place that gathers tokens,
/// and by which firings.
pub(crate) fn bounded(net: &Compiled, growth: &[bool], steps: &[&Step], later: &[u64]) -> Result<(), Refusal> {
    let more = if repeats(net, steps, growth) {
        ""
    } else if climbs(net, steps, later) {
        ", some of them more often each time"
    } else {
        return Ok(());
    };
    let place = growth.iter().zip(&net.names).find(|(grows, _)| **grows).map(|(_, name)| name.as_str());
    let firings: Vec<&str> = steps.iter().map(|step| net.transition(step.transition)).collect();
    let why = format!("gathers tokens without end by firing {} again and again{more}", list(&firings));
    Err(Refusal::new(Class::Unbounded, place.unwrap_or_default(), why))
}

/// Says which immediates fire for ever.
pub(crate) fn trap(names: &[&str]) -> Refusal {
    let first = names.first().copied().unwrap_or_default();
    let why = format!(
        "the immediate transitions {} fire for ever, and no time passes: let one of them lead out",
        list(names)
    );
    Refusal::new(Class::TimelessTrap, first, why)
}

/// Says that a loop of vanishing markings, on which `transition` fires, could not be solved.
pub(crate) fn slow(count: usize, transition: &str) -> Refusal {
    let why = format!("{count} vanishing markings form one loop that is hardly ever left, and its sums did not settle");
    Refusal::new(Class::Unsupported, transition, why)
}

fn list(names: &[&str]) -> String {
    const SHOWN: usize = 12;
    let mut text = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}
