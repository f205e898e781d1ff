//! Whether immediates that fire again and again will ever end. Says nothing where that takes a look at very many markings.

use std::collections::BTreeSet;

use hashbrown::HashSet;

use super::model::{Model, Time};
use crate::Refusal;
use crate::explore::proof;

/// Entries of markings that are looked at, each a place or a transition.
const SEARCHED: usize = 20_000_000;

/// The refusal where from `marking` on time passes in none of the markings that can be reached.
pub(super) fn endless(model: &Model, marking: &[u64]) -> Option<Refusal> {
    let most = SEARCHED / (1 + model.parts.len() + model.initial.len());
    let mut seen: HashSet<Vec<u64>> = HashSet::from_iter([marking.to_vec()]);
    let mut left = vec![marking.to_vec()];
    let mut fired = BTreeSet::new();
    while let Some(at) = left.pop() {
        let ready = ready(model, &at);
        if ready.is_empty() || seen.len() > most {
            return None;
        }
        for transition in ready {
            fired.insert(transition);
            let mut next = at.clone();
            for change in &model.parts[transition].changes {
                let before = next[change.place];
                next[change.place] = before.wrapping_add(change.by);
                if change.grows && next[change.place] < before {
                    return None;
                }
            }
            if seen.insert(next.clone()) {
                left.push(next);
            }
        }
    }
    let names: Vec<&str> = fired.iter().map(|transition| model.names[*transition].as_str()).collect();
    Some(proof::trap(&names))
}

/// The immediates that are enabled, of the highest priority that any of them has.
pub(super) fn ready(model: &Model, marking: &[u64]) -> Vec<usize> {
    let (mut ready, mut highest) = (Vec::new(), 0);
    for (index, part) in model.parts.iter().enumerate() {
        let Time::Immediate { priority, .. } = part.time else { continue };
        if priority < highest || !part.enabled(marking) {
            continue;
        }
        if priority > highest {
            ready.clear();
            highest = priority;
        }
        ready.push(index);
    }
    ready
}
