//! Vanishing markings: where their immediate transitions lead, with which probability, firing what on the way.

use hashbrown::HashMap;

use super::compiled::Compiled;
use super::markings::Markings;
use super::packed::{Cramped, Enabled, Packed};
use super::proof::{self, Step};
use super::visits::{self, Failure};
use crate::Budget;
use crate::{Class, Refusal};

/// So many firings in a row without a choice are walked before the markings are looked at as a graph.
const WALK: usize = 32;
/// Outcomes that are kept, in entries of 16 bytes.
const KEPT: usize = 1 << 20;
/// Markings of one graph that are compared with later ones, in search of a place that gathers tokens, besides four for each marking.
const COMPARED: usize = 1_000_000;
/// Of one graph, so many markings are explored between two looks at the clock.
const LOOKED: usize = 64;

/// Where a marking leads: tangible markings with probabilities that add up to 1, and how often each counted immediate fires on the way.
#[derive(Debug, Default, Clone)]
pub(crate) struct Outcome {
    pub(crate) targets: Vec<(u32, f64)>,
    pub(crate) fired: Vec<f64>,
}

impl Outcome {
    fn clear(&mut self, counted: usize) {
        self.targets.clear();
        self.fired.clear();
        self.fired.resize(counted, 0.0);
    }
}

pub(super) fn full() -> Refusal {
    Refusal::new(Class::TooLarge, "markings", "more markings than this program can number")
}

pub(crate) fn overflow() -> Refusal {
    Refusal::new(Class::TooLarge, "tokens", "a place would hold more tokens than a 64-bit number can say")
}

/// A way by `transition` that is there, and whose rate or probability would be 0.
pub(super) fn too_far_apart(transition: &str) -> Refusal {
    let why = "rates and weights are too far apart, or too many firings follow each other: it leads somewhere with a probability, or at a rate, that is \
               less than a number can say";
    Refusal::new(Class::Unsupported, transition, why)
}

/// Why there is no outcome.
pub(super) enum Stuck {
    /// It cannot be resolved: why, and the immediates fired up to there, by their indices in the net.
    For(Refusal, Vec<usize>),
    /// Markings are packed in another way now: it must be begun again.
    Repacked,
}

impl From<Refusal> for Stuck {
    fn from(refusal: Refusal) -> Self {
        Self::For(refusal, Vec::new())
    }
}

/// The net, as it is and on packed markings, and whether a place of it has no proven bound.
#[derive(Clone, Copy)]
pub(super) struct On<'a> {
    pub(super) net: &'a Compiled,
    pub(super) packed: &'a Packed,
    pub(super) open: bool,
}

impl On<'_> {
    /// Fires an immediate on `words`, where `before` is enabled, and says what is then.
    fn fire(
        self,
        transition: usize,
        words: &mut [u64],
        before: Enabled,
        markings: &mut Markings,
    ) -> Result<Enabled, Stuck> {
        match self.packed.fire(transition, words, before) {
            Ok(enabled) if !markings.exchanges() => Ok(enabled),
            Ok(_) => {
                markings.settle(words);
                Ok(self.packed.enabled(words))
            }
            Err(Cramped) => {
                let mut marking = vec![0; self.net.places];
                markings.layout().unpack(words, &mut marking);
                self.net.fires[transition].fire(&mut marking).ok_or_else(overflow)?;
                markings.make_room(&marking)?;
                Err(Stuck::Repacked)
            }
        }
    }
}

/// Resolves vanishing markings, and remembers what came out.
#[derive(Debug)]
pub(crate) struct Resolver {
    /// Indices in the net of the immediates whose firings are counted.
    counted: Vec<usize>,
    /// By vanishing marking: where its outcome starts in `arena` and how long it is.
    kept: HashMap<u32, (usize, usize)>,
    arena: Vec<(u32, f64)>,
    ready: Vec<(usize, f64)>,
    words: Vec<u64>,
}

impl Resolver {
    pub(crate) fn new(counted: Vec<usize>) -> Self {
        Self { counted, kept: HashMap::new(), arena: Vec::new(), ready: Vec::new(), words: Vec::new() }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.kept.allocation_size() + self.arena.capacity() * 16
    }

    fn count(&self, outcome: &mut Outcome, transition: usize, times: f64) {
        for (fired, counted) in outcome.fired.iter_mut().zip(&self.counted) {
            if *counted == transition {
                *fired += times;
            }
        }
    }

    fn recall(&self, id: u32) -> Option<&[(u32, f64)]> {
        let (start, length) = *self.kept.get(&id)?;
        self.arena.get(start..start + length)
    }

    fn keep(&mut self, id: u32, outcome: &Outcome) {
        let length = outcome.targets.len() + outcome.fired.len();
        if self.arena.len() + length > KEPT {
            self.kept.clear();
            self.arena.clear();
        }
        if length > KEPT {
            return;
        }
        self.kept.insert(id, (self.arena.len(), length));
        self.arena.extend(outcome.fired.iter().map(|times| (0, *times)));
        self.arena.extend_from_slice(&outcome.targets);
    }

    fn use_kept(&self, id: u32, outcome: &mut Outcome) -> bool {
        let Some(kept) = self.recall(id) else { return false };
        let (fired, targets) = kept.split_at(self.counted.len());
        for (sum, (_, times)) in outcome.fired.iter_mut().zip(fired) {
            *sum += times;
        }
        outcome.targets.extend_from_slice(targets);
        true
    }

    /// Resolves `marking`, which is vanishing, into `outcome`.
    pub(super) fn resolve(
        &mut self,
        on: On<'_>,
        marking: &[u64],
        markings: &mut Markings,
        budget: &mut Budget<'_>,
        outcome: &mut Outcome,
    ) -> Result<(), Stuck> {
        outcome.clear(self.counted.len());
        let version = markings.version();
        let root = markings.add_vanishing(marking, budget)?;
        if markings.version() != version {
            return Err(Stuck::Repacked);
        }
        if self.use_kept(root, outcome) {
            return Ok(());
        }
        let mut words = std::mem::take(&mut self.words);
        words.clear();
        words.extend_from_slice(markings.vanishing.kept.get(root));
        let mut enabled = on.packed.enabled(words.as_slice());
        let mut id = root;
        let mut fired = Vec::new();
        for _ in 0..WALK {
            on.packed.ready(words.as_slice(), enabled, &mut self.ready);
            let [(transition, _)] = *self.ready.as_slice() else { break };
            enabled = on.fire(transition, &mut words, enabled, markings)?;
            self.count(outcome, transition, 1.0);
            fired.push(transition);
            if enabled == 0 {
                outcome.targets.push((markings.insert_tangible(&words, budget)?, 1.0));
                self.words = words;
                self.keep(root, outcome);
                return Ok(());
            }
            id = markings.insert_vanishing(&words, budget)?;
            if self.use_kept(id, outcome) {
                self.words = words;
                self.keep(root, outcome);
                return Ok(());
            }
        }
        self.words = words;
        let graph = Graph::explore(self, on, id, markings, budget);
        match graph.and_then(|graph| graph.solve(self, on.net, markings, budget, outcome)) {
            Ok(()) => {}
            Err(Stuck::Repacked) => return Err(Stuck::Repacked),
            Err(Stuck::For(refusal, behind)) => {
                // The walk may have gone round many times: from where it began, the way is the shortest.
                if matches!(refusal.class, Class::TimelessTrap | Class::Unbounded) {
                    let graph = Graph::explore(self, on, root, markings, budget);
                    graph.and_then(|graph| graph.solve(self, on.net, markings, budget, outcome))?;
                }
                fired.extend(behind);
                return Err(Stuck::For(refusal, fired));
            }
        }
        self.keep(root, outcome);
        Ok(())
    }
}

fn look(markings: &Markings, budget: &mut Budget<'_>) -> Result<(), Refusal> {
    let (tangible, vanishing) = (markings.tangible.len() as u64, markings.vanishing.len() as u64);
    budget.look(crate::Progress::Exploring { tangible, done: 0, vanishing, edges: 0 })
}

/// Where a firing leads to.
#[derive(Debug, Clone, Copy)]
enum Target {
    /// A vanishing marking of this graph.
    Inside(u32),
    /// A tangible marking.
    Tangible(u32),
    /// A vanishing marking whose outcome is kept.
    Known(u32),
}

#[derive(Debug)]
struct Branch {
    probability: f64,
    transition: usize,
    target: Target,
}

/// The vanishing markings that can be reached from one without passing a tangible one.
#[derive(Debug)]
struct Graph {
    /// Numbers of the markings in the store, and what is enabled in each.
    nodes: Vec<u32>,
    enabled: Vec<Enabled>,
    /// The node before and the transition, for the way back; the root's is itself.
    before: Vec<(u32, usize)>,
    branches: Vec<Vec<Branch>>,
    /// Markings that were compared with later ones so far.
    compared: usize,
}

impl Graph {
    fn explore(
        resolver: &Resolver,
        on: On<'_>,
        root: u32,
        markings: &mut Markings,
        budget: &mut Budget<'_>,
    ) -> Result<Self, Stuck> {
        let mut from = markings.vanishing.kept.get(root).to_vec();
        let enabled = vec![on.packed.enabled(from.as_slice())];
        let mut graph = Self { nodes: vec![root], enabled, before: vec![(0, 0)], branches: Vec::new(), compared: 0 };
        let mut known: HashMap<u32, u32> = HashMap::from_iter([(root, 0)]);
        let mut to = from.clone();
        let mut marking = vec![0; on.net.places];
        let mut ready = Vec::new();
        let mut next = 0;
        while next < graph.nodes.len() {
            if next % LOOKED == LOOKED - 1 {
                look(markings, budget)?;
                budget.bytes((markings.vanishing.bytes() + graph.nodes.len() * 128) as u64)?;
            }
            if on.open {
                markings.load_vanishing(graph.nodes[next], &mut marking);
                graph.bounded(on.net, next, &marking, markings)?;
            }
            from.copy_from_slice(markings.vanishing.kept.get(graph.nodes[next]));
            on.packed.ready(from.as_slice(), graph.enabled[next], &mut ready);
            let largest = ready.iter().map(|(_, weight)| *weight).fold(0.0, f64::max);
            let sum: f64 = ready.iter().map(|(_, weight)| weight / largest).sum();
            let mut branches = Vec::with_capacity(ready.len());
            for (transition, weight) in &ready {
                to.copy_from_slice(&from);
                let enabled = on.fire(*transition, &mut to, graph.enabled[next], markings)?;
                let target = if enabled != 0 {
                    let id = markings.insert_vanishing(&to, budget)?;
                    if resolver.recall(id).is_some() {
                        Target::Known(id)
                    } else {
                        let new = graph.nodes.len();
                        let new = u32::try_from(new).map_err(|_| full())?;
                        let node = *known.entry(id).or_insert(new);
                        if node == new {
                            graph.nodes.push(id);
                            graph.enabled.push(enabled);
                            #[expect(clippy::cast_possible_truncation, reason = "below `new`, which fits")]
                            graph.before.push((next as u32, *transition));
                        }
                        Target::Inside(node)
                    }
                } else {
                    Target::Tangible(markings.insert_tangible(&to, budget)?)
                };
                let probability = weight / largest / sum;
                if probability == 0.0 {
                    return Err(too_far_apart(on.net.transition(*transition)).into());
                }
                branches.push(Branch { probability, transition: *transition, target });
            }
            graph.branches.push(branches);
            next += 1;
        }
        Ok(graph)
    }

    /// Transitions from the root to `node`.
    fn way(&self, mut node: usize) -> Vec<usize> {
        let mut way = Vec::new();
        while node != 0 {
            let (before, transition) = self.before[node];
            way.push(transition);
            node = before as usize;
        }
        way.reverse();
        way
    }

    /// # Errors
    /// When the way to `node` can be gone again and again with ever more tokens.
    fn bounded(&mut self, net: &Compiled, node: usize, marking: &[u64], markings: &Markings) -> Result<(), Stuck> {
        let allowed = COMPARED + 4 * node;
        if self.compared > allowed {
            return Ok(());
        }
        let wide = net.wide();
        let mut earlier = vec![0; net.places];
        let (mut at, mut back) = (node, 0);
        while at != 0 && self.compared <= 2 * allowed {
            self.compared += wide;
            back += 1;
            at = self.before[at].0 as usize;
            markings.load_vanishing(self.nodes[at], &mut earlier);
            if let Some(growth) = proof::grows(&earlier, marking) {
                self.compared += wide * back;
                let steps = self.steps(net, node, back, markings);
                let forward: Vec<&Step> = steps.iter().rev().collect();
                proof::bounded(net, &growth, &forward, marking)
                    .map_err(|refusal| Stuck::For(refusal, self.way(node)))?;
            }
        }
        Ok(())
    }

    /// The last steps to `node`, so many of them, the last first.
    fn steps(&self, net: &Compiled, node: usize, many: usize, markings: &Markings) -> Vec<Step> {
        let way = std::iter::successors(Some(node), |at| Some(self.before[*at].0 as usize)).take(many);
        way.map(|at| {
            let (before, transition) = self.before[at];
            let mut marking = vec![0; net.places];
            markings.load_vanishing(self.nodes[before as usize], &mut marking);
            Step { marking, transition }
        })
        .collect()
    }

    /// Adds up what leaves the graph, starting once at the root.
    fn solve(
        &self,
        resolver: &Resolver,
        net: &Compiled,
        markings: &Markings,
        budget: &mut Budget<'_>,
        outcome: &mut Outcome,
    ) -> Result<(), Stuck> {
        let inside = |node: usize| {
            self.branches[node].iter().filter_map(|branch| match branch.target {
                Target::Inside(to) => Some((to, branch.probability)),
                _ => None,
            })
        };
        let rows: Vec<Vec<(u32, f64)>> = (0..self.nodes.len()).map(|node| inside(node).collect()).collect();
        let leaves: Vec<f64> = self
            .branches
            .iter()
            .map(|branches| {
                branches
                    .iter()
                    .filter(|branch| !matches!(branch.target, Target::Inside(_)))
                    .map(|branch| branch.probability)
                    .sum()
            })
            .collect();
        let first = |node: usize| self.branches[node].first().map_or("", |branch| net.transition(branch.transition));
        let mut look = || look(markings, budget);
        let visits = visits::from_first(&rows, &leaves, &mut look).map_err(|failure| match failure {
            Failure::Trap(trap) => self.trapped(net, &trap),
            Failure::Slow(round) => {
                proof::slow(round.len(), first(round.iter().min().copied().unwrap_or(0) as usize)).into()
            }
            Failure::Ended(refusal) => refusal.into(),
        })?;
        if let Some(node) = visits.iter().position(|visits| !visits.is_finite()) {
            return Err(too_far_apart(first(node)).into());
        }
        let mut known = Outcome::default();
        for (branches, visits) in self.branches.iter().zip(&visits) {
            for branch in branches {
                let times = visits * branch.probability;
                resolver.count(outcome, branch.transition, times);
                match branch.target {
                    Target::Inside(_) => {}
                    Target::Tangible(id) => outcome.targets.push((id, times)),
                    Target::Known(id) => {
                        known.clear(resolver.counted.len());
                        resolver.use_kept(id, &mut known);
                        outcome.targets.extend(known.targets.iter().map(|(id, part)| (*id, part * times)));
                        for (sum, fired) in outcome.fired.iter_mut().zip(&known.fired) {
                            *sum += fired * times;
                        }
                    }
                }
            }
        }
        merge(&mut outcome.targets);
        Ok(())
    }

    fn trapped(&self, net: &Compiled, trap: &[u32]) -> Stuck {
        let mut names: Vec<usize> = Vec::new();
        for node in trap {
            names.extend(self.branches[*node as usize].iter().map(|branch| branch.transition));
        }
        names.sort_unstable();
        names.dedup();
        let first = trap.iter().min().copied().unwrap_or(0) as usize;
        let names: Vec<&str> = names.iter().map(|transition| net.transition(*transition)).collect();
        Stuck::For(proof::trap(&names), self.way(first))
    }
}

/// One entry a target.
pub(crate) fn merge(targets: &mut Vec<(u32, f64)>) {
    if targets.len() < 2 {
        return;
    }
    targets.sort_unstable_by_key(|(id, _)| *id);
    targets.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            kept.1 += later.1;
        }
        same
    });
}
