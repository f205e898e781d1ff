//! Which transitions may fire, by the rules alone.

use gspn::net::{Kind, Transition};

pub(crate) fn enabled(it: &Transition, marking: &[u64]) -> bool {
    it.inputs.iter().all(|arc| marking[arc.place] >= arc.count)
        && it.inhibitors.iter().all(|arc| marking[arc.place] < arc.count)
}

/// Priorities of the transitions that are enabled; 0 where time passes first.
pub(crate) fn priority(it: &Transition) -> u32 {
    if let Kind::Immediate { priority, .. } = it.kind { priority } else { 0 }
}
