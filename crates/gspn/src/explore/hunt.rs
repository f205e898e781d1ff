//! A search for endless growth that lies deep: where exploring state by state would pass millions of markings first, this goes on from
//! the one that is nearest to firings which, together, leave more tokens than they take.
//!
//! How near is estimated as planners do (additive costs without deletions): a token that is missing costs the cheapest firing that brings
//! it, and what is missing for that firing. What is found is proven by [`proof`], as anywhere else.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hashbrown::HashSet;

use super::compiled::{Compiled, Fire};
use super::proof::{self, Step};
use crate::Refusal;
use crate::net::semiflows;

/// Ways to grow that are looked for, those of the fewest transitions.
const WAYS: usize = 8;
/// Rounds in which costs come down, at most.
const ROUNDS: usize = 32;
/// Entries of all markings that are kept.
const ENTRIES: usize = 1 << 22;
/// Markings on the way to one that are compared with it, so many in all for each that is found; how many of them take as long as asking
/// of one firing whether it can be done again; and how many are compared without a gap.
const COMPARED: usize = 32;
const LOOKS: usize = 8;
/// Markings on the way to one that are gone back over, so many in all for each that is found.
const WALKED: usize = 256;
const NEAR: usize = 32;
/// Markings between two looks at the clock.
const LOOKED: usize = 256;
/// What is no marking before another.
const NONE: u32 = u32::MAX;

/// Looks at up to `most` markings, and calls `look` now and then.
///
/// # Errors
/// [`crate::Class::Unbounded`] with the way there; what `look` says.
pub(super) fn hunt(net: &Compiled, most: usize, look: &mut dyn FnMut() -> Result<(), Refusal>) -> Result<(), Refusal> {
    // Whether one fixed time lets another end is not seen here.
    if net.clocks.iter().filter(|clock| clock.fixed).count() > 1 {
        return Ok(());
    }
    let changes: Vec<_> = net.fires.iter().map(changes).collect();
    let mut ways = semiflows::growths(&changes, net.places);
    ways.truncate(WAYS);
    let each = (most / ways.len().max(1)).min(ENTRIES / net.places.max(1));
    ways.iter().try_for_each(|way| Hunt::new(net, &changes, way).run(each, look))
}

/// What a firing changes, by place.
fn changes(fire: &Fire) -> Vec<(usize, i128)> {
    let arcs = fire.outputs.iter().map(|arc| (arc.place, i128::from(arc.count)));
    let mut changes: Vec<_> = arcs.chain(fire.inputs.iter().map(|arc| (arc.place, -i128::from(arc.count)))).collect();
    changes.sort_unstable_by_key(|(place, _)| *place);
    changes.dedup_by(|next, sum| {
        let same = next.0 == sum.0;
        if same {
            sum.1 += next.1;
        }
        same
    });
    changes.retain(|(_, change)| *change != 0);
    changes
}

/// A marking that was found.
struct Node {
    marking: Box<[u64]>,
    before: u32,
    transition: usize,
}

struct Hunt<'a> {
    net: &'a Compiled,
    /// What each transition changes, by place.
    changes: &'a [Vec<(usize, i128)>],
    /// The transitions that grow together.
    way: &'a [usize],
    nodes: Vec<Node>,
    seen: HashSet<Box<[u64]>>,
    /// The nearest first; of those that are as near, the one that was found last.
    next: BinaryHeap<(Reverse<u64>, u32)>,
    /// What one token more costs, by place.
    token: Vec<f64>,
    ready: Vec<usize>,
    compared: usize,
    walked: usize,
}

impl<'a> Hunt<'a> {
    fn new(net: &'a Compiled, changes: &'a [Vec<(usize, i128)>], way: &'a [usize]) -> Self {
        Self {
            net,
            changes,
            way,
            nodes: Vec::new(),
            seen: HashSet::new(),
            next: BinaryHeap::new(),
            token: vec![0.0; net.places],
            ready: Vec::new(),
            compared: 0,
            walked: 0,
        }
    }

    fn run(&mut self, most: usize, look: &mut dyn FnMut() -> Result<(), Refusal>) -> Result<(), Refusal> {
        let _ = self.found(self.net.initial.clone(), NONE, 0);
        let mut looked = 0;
        while let Some((_, at)) = self.next.pop() {
            if self.nodes.len() >= most {
                return Ok(());
            }
            if self.nodes.len() >= looked + LOOKED {
                looked = self.nodes.len();
                look()?;
            }
            let marking = self.nodes[at as usize].marking.clone();
            for transition in self.firing(&marking) {
                let mut to = marking.to_vec();
                if self.net.fires[transition].fire(&mut to).is_some()
                    && let Some(found) = self.found(to, at, transition)
                {
                    self.grown(found)?;
                }
            }
        }
        Ok(())
    }

    /// The transitions that may fire.
    fn firing(&mut self, marking: &[u64]) -> Vec<usize> {
        self.net.ready(marking, &mut self.ready);
        if !self.ready.is_empty() {
            return self.ready.iter().map(|position| self.net.immediates[*position].transition).collect();
        }
        let timed = self.net.timed.iter().filter(|timed| self.net.rate(timed, marking) > 0.0);
        let clocks = self.net.clocks.iter().map(|clock| clock.transition);
        let clocks = clocks.filter(|transition| self.net.fires[*transition].enabled(marking));
        timed.map(|timed| timed.transition).chain(clocks).collect()
    }

    /// Its number, if it is new.
    fn found(&mut self, marking: Vec<u64>, before: u32, transition: usize) -> Option<u32> {
        let marking = marking.into_boxed_slice();
        let number = u32::try_from(self.nodes.len()).ok()?;
        if self.seen.contains(&marking) {
            return None;
        }
        // Where what is missing can never come, this way does not grow.
        let far = self.far(&marking)?;
        self.seen.insert(marking.clone());
        self.nodes.push(Node { marking, before, transition });
        self.next.push((Reverse(far.to_bits()), number));
        Some(number)
    }

    /// How far it is to where all transitions of the way could fire. Numbers from 0 are in the order of their bits.
    fn far(&mut self, marking: &[u64]) -> Option<f64> {
        let Self { net, changes, token, way, .. } = self;
        token.fill(f64::INFINITY);
        for _ in 0..ROUNDS {
            let mut settled = true;
            for (fire, changes) in net.fires.iter().zip(*changes) {
                let firing = 1.0 + missing(fire, marking, token);
                for (place, gain) in changes.iter().filter(|(_, change)| *change > 0 && firing.is_finite()) {
                    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
                    let each = firing / *gain as f64;
                    if each < token[*place] {
                        token[*place] = each;
                        settled = false;
                    }
                }
            }
            if settled {
                break;
            }
        }
        let far: f64 = way.iter().map(|transition| missing(&net.fires[*transition], marking, token)).sum();
        far.is_finite().then_some(far)
    }

    /// # Errors
    /// When the way from a marking before `at` can be gone again and again with ever more tokens.
    fn grown(&mut self, at: u32) -> Result<(), Refusal> {
        let later = self.nodes[at as usize].marking.clone();
        let mut way = vec![at];
        // Where something on the way must not find too many tokens.
        let mut stopped = vec![false; self.net.places];
        let (compared, walked) = (COMPARED * self.nodes.len(), WALKED * self.nodes.len());
        while let Some(&first) = way.last().filter(|_| self.compared < compared && self.walked < walked) {
            self.walked += 1;
            let Node { before, transition, .. } = self.nodes[first as usize];
            if before == NONE {
                break;
            }
            self.net.fires[transition].inhibitors.iter().for_each(|arc| stopped[arc.place] = true);
            // The last ones, the first one, and few between.
            let far = way.len();
            let is_compared = far <= NEAR || far.is_power_of_two() || self.nodes[before as usize].before == NONE;
            self.compared += usize::from(is_compared);
            let growth = is_compared.then(|| proof::grows(&self.nodes[before as usize].marking, &later)).flatten();
            let again = |growth: &Vec<bool>| !growth.iter().zip(&stopped).any(|(grows, stopped)| *grows && *stopped);
            if let Some(growth) = growth.filter(again) {
                self.compared += LOOKS * way.len();
                let steps: Vec<Step> = way.iter().rev().map(|node| self.step(*node)).collect();
                let steps: Vec<&Step> = steps.iter().collect();
                proof::bounded(self.net, &growth, &steps, &later).map_err(|refusal| refusal.along(self.trace(at)))?;
            }
            way.push(before);
        }
        Ok(())
    }

    fn step(&self, node: u32) -> Step {
        let Node { before, transition, .. } = &self.nodes[node as usize];
        Step { marking: self.nodes[*before as usize].marking.to_vec(), transition: *transition }
    }

    fn trace(&self, node: u32) -> Vec<String> {
        let back = |node: &u32| Some(self.nodes[*node as usize].before).filter(|before| *before != NONE);
        let mut trace: Vec<String> = std::iter::successors(Some(node), back)
            .map(|node| &self.nodes[node as usize])
            .filter(|node| node.before != NONE)
            .map(|node| self.net.transition(node.transition).to_owned())
            .collect();
        trace.reverse();
        trace
    }
}

/// What it costs to bring what a firing lacks, and to take away what stops it: at least one firing a token.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn missing(fire: &Fire, marking: &[u64], token: &[f64]) -> f64 {
    let lacking = |(place, count): (usize, u64)| {
        let lacking = count.saturating_sub(marking[place]);
        if lacking == 0 { 0.0 } else { lacking as f64 * token[place] }
    };
    let inputs: f64 = fire.inputs.iter().map(|arc| lacking((arc.place, arc.count))).sum();
    let stopped = |place: usize, count: u64| (marking[place] + 1).saturating_sub(count) as f64;
    inputs + fire.inhibitors.iter().map(|arc| stopped(arc.place, arc.count)).sum::<f64>()
}
