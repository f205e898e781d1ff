//! The search: state after state in the order found, each with its row of the chain.

use super::compiled::Compiled;
use super::proof::{self, Step};
use super::rows::Rows;
use super::store::Store;
use super::vanish::{Markings, Outcome, Resolver, merge, overflow};
use super::{Space, Watched};
use crate::{Budget, Class, Progress, Refusal};

/// States before one that are compared with it, in search of a place that gathers tokens: so many in all to begin with, and so many more
/// for each state that was explored. A net with long ways must not spend its time on looking back.
const COMPARED: u64 = 4_000_000;
const EACH: u64 = 4;
/// Of a state at time 0.
pub(super) const NO_PARENT: u32 = u32::MAX;

pub(super) struct Explorer {
    pub(super) net: Compiled,
    pub(super) markings: Markings,
    pub(super) states: Option<Store>,
    /// The state from which each was found first.
    pub(super) parents: Vec<u32>,
    /// States that were compared with later ones so far.
    compared: u64,
    resolver: Resolver,
    fired: Vec<(usize, Vec<f64>)>,
    initial: Vec<(u32, f64)>,
    rows: Rows,
    watched: Vec<Watching>,
}

/// A timed transition whose edges are kept by themselves.
struct Watching {
    transition: usize,
    rows: Rows,
    row: Vec<(u32, f64)>,
    fired: Vec<(usize, Vec<f64>)>,
}

/// What is used again for each state.
struct Scratch {
    marking: Vec<u64>,
    next: Vec<u64>,
    state: Vec<u64>,
    outcome: Outcome,
    row: Vec<(u32, f64)>,
}

impl Explorer {
    pub(super) fn new(net: Compiled, counted: &[usize], watched: &[usize]) -> Self {
        let immediate = |it: &usize| net.immediates.iter().any(|immediate| immediate.transition == *it);
        let counted: Vec<usize> = counted.iter().copied().filter(immediate).collect();
        let start = &net.initial;
        let expected: Vec<u64> = start.iter().map(|tokens| (*tokens).max(3)).collect();
        let markings =
            Markings { tangible: Store::new(&expected), vanishing: Store::new(&expected), highest: start.to_vec() };
        let clocks = net.clocks.iter().map(|clock| clock.phases.len() as u64);
        let states =
            (!net.clocks.is_empty()).then(|| Store::new(&std::iter::once(0xffff).chain(clocks).collect::<Vec<_>>()));
        let fired = counted.iter().map(|transition| (*transition, Vec::new())).collect();
        let watched = watched
            .iter()
            .map(|transition| {
                let fired = counted.iter().map(|transition| (*transition, Vec::new())).collect();
                Watching { transition: *transition, rows: Rows::default(), row: Vec::new(), fired }
            })
            .collect();
        let resolver = Resolver::new(counted);
        Self {
            net,
            markings,
            states,
            parents: Vec::new(),
            compared: 0,
            resolver,
            fired,
            initial: Vec::new(),
            rows: Rows::default(),
            watched,
        }
    }

    pub(super) fn run(mut self, budget: &mut Budget<'_>) -> Result<Space, Refusal> {
        let mut scratch = Scratch {
            marking: vec![0; self.net.places],
            next: vec![0; self.net.places],
            state: vec![0; 1 + self.net.clocks.len()],
            outcome: Outcome::default(),
            row: Vec::new(),
        };
        self.start(&mut scratch, budget)?;
        let mut state = 0_u32;
        while (state as usize) < self.count() {
            if state.is_multiple_of(1024) {
                self.look(state, budget)?;
            }
            self.expand(state, &mut scratch, budget)?;
            state += 1;
        }
        self.markings.tangible.close();
        self.markings.vanishing.close();
        if let Some(states) = &mut self.states {
            states.close();
        }
        let watched = self.watched.into_iter().map(|it| Watched {
            transition: it.transition,
            chain: it.rows.chain(),
            fired: it.fired,
        });
        let watched = watched.collect();
        Ok(Space {
            net: self.net,
            markings: self.markings,
            states: self.states,
            initial: self.initial,
            chain: self.rows.chain(),
            fired: self.fired,
            watched,
        })
    }

    fn count(&self) -> usize {
        self.states.as_ref().map_or(self.markings.tangible.len(), Store::len)
    }

    fn bytes(&self) -> u64 {
        let states = self.states.as_ref().map_or(0, Store::bytes);
        let stores = self.markings.tangible.bytes() + self.markings.vanishing.bytes() + states + self.resolver.bytes();
        let states = self.rows.ends.len();
        let watched: usize =
            self.watched.iter().map(|it| it.rows.columns.len() * 12 + states * (4 + 8 * it.fired.len())).sum();
        let vectors = self.parents.len() * 4 + states * (4 + 8 * self.fired.len()) + watched;
        // The chain is turned round before it is solved, and a solution takes a few numbers a state.
        (stores + vectors + self.rows.columns.len() * 24 + states * 32) as u64
    }

    fn look(&self, state: u32, budget: &mut Budget<'_>) -> Result<(), Refusal> {
        budget.bytes(self.bytes())?;
        budget.look(Progress::Exploring {
            tangible: self.markings.tangible.len() as u64,
            done: u64::from(state),
            vanishing: self.markings.vanishing.len() as u64,
            edges: self.rows.columns.len() as u64,
        })
    }

    fn start(&mut self, scratch: &mut Scratch, budget: &mut Budget<'_>) -> Result<(), Refusal> {
        scratch.next.copy_from_slice(&self.net.initial);
        self.settle(None, None, scratch, budget)?;
        let targets = std::mem::take(&mut scratch.outcome.targets);
        scratch.row.clear();
        for (marking, probability) in &targets {
            self.arrive(None, *marking, *probability, scratch, budget)?;
        }
        scratch.outcome.targets = targets;
        merge(&mut scratch.row);
        self.initial.clone_from(&scratch.row);
        Ok(())
    }

    /// From `scratch.next`, the marking that `transition` led to, into `scratch.outcome`.
    fn settle(
        &mut self,
        from: Option<u32>,
        transition: Option<usize>,
        scratch: &mut Scratch,
        budget: &mut Budget<'_>,
    ) -> Result<(), Refusal> {
        let vanishing = match transition {
            Some(transition) => self.net.woken(transition, &scratch.next),
            None => self.net.vanishing(&scratch.next),
        };
        if !vanishing {
            scratch.outcome.targets.clear();
            scratch.outcome.fired.clear();
            scratch.outcome.targets.push((self.markings.add_tangible(&scratch.next, budget)?, 1.0));
            return Ok(());
        }
        let Self { resolver, net, markings, .. } = self;
        resolver.resolve(net, &scratch.next, markings, budget, &mut scratch.outcome).map_err(|stuck| {
            let mut way = from.map(|from| self.way_to(from)).unwrap_or_default();
            way.extend(transition);
            way.extend(stuck.fired);
            stuck.refusal.along(way.into_iter().map(|step| self.net.transition(step).to_owned()).collect())
        })
    }

    /// Adds to `scratch.row` the states in which `marking` is reached, from the state in `scratch.state` by firing `fired`.
    fn arrive(
        &mut self,
        from: Option<(u32, usize)>,
        marking: u32,
        rate: f64,
        scratch: &mut Scratch,
        budget: &Budget<'_>,
    ) -> Result<(), Refusal> {
        let parent = from.map_or(NO_PARENT, |(state, _)| state);
        let Some(states) = &mut self.states else {
            if marking as usize == self.parents.len() {
                self.parents.push(parent);
            }
            scratch.row.push((marking, rate));
            return Ok(());
        };
        self.markings.tangible.load(marking, &mut scratch.next);
        let mut entries = vec![(vec![u64::from(marking)], rate)];
        let mut fixed = None;
        for (position, clock) in self.net.clocks.iter().enumerate() {
            let enabled = self.net.fires[clock.transition].enabled(&scratch.next);
            if enabled
                && clock.fixed
                && let Some(other) = fixed.replace(clock.transition)
            {
                let other = self.net.transition(other);
                let why = format!("is enabled at once with `{other}`, and both take a fixed time: at most one may");
                return Err(Refusal::new(Class::Unsupported, self.net.transition(clock.transition), why));
            }
            let before = if from.is_some() { scratch.state[1 + position] } else { 0 };
            let goes_on = before > 0 && from.is_none_or(|(_, fired)| fired != clock.transition);
            if !enabled || goes_on {
                let phase = if enabled { before } else { 0 };
                entries.iter_mut().for_each(|(entry, _)| entry.push(phase));
                continue;
            }
            let starts = clock.start.iter().enumerate().filter(|(_, part)| **part > 0.0);
            entries = starts
                .flat_map(|(phase, part)| {
                    entries.iter().map(move |(entry, rate)| {
                        let mut entry = entry.clone();
                        entry.push(phase as u64 + 1);
                        (entry, rate * part)
                    })
                })
                .collect();
        }
        for (entry, rate) in entries {
            let (id, new) = states.insert(&entry).map_err(|_| overflow())?;
            if new {
                self.parents.push(parent);
                budget.markings(states.len() as u64)?;
            }
            scratch.row.push((id, rate));
        }
        Ok(())
    }

    fn load(&self, state: u32, scratch: &mut Scratch) {
        let marking = match &self.states {
            None => state,
            Some(states) => {
                states.load(state, &mut scratch.state);
                #[expect(clippy::cast_possible_truncation, reason = "the number of a marking was put there")]
                let marking = scratch.state[0] as u32;
                marking
            }
        };
        self.markings.tangible.load(marking, &mut scratch.marking);
    }

    fn expand(&mut self, state: u32, scratch: &mut Scratch, budget: &mut Budget<'_>) -> Result<(), Refusal> {
        self.load(state, scratch);
        self.bounded(state, &scratch.marking)?;
        let mut row = std::mem::take(&mut scratch.row);
        row.clear();
        scratch.row = row;
        let watched = self.watched.iter_mut().flat_map(|watching| &mut watching.fired);
        for (_, fired) in self.fired.iter_mut().chain(watched) {
            fired.push(0.0);
        }
        for index in 0..self.net.timed.len() {
            let rate = self.net.rate(&self.net.timed[index], &scratch.marking);
            if rate > 0.0 {
                self.fire(state, self.net.timed[index].transition, rate, scratch, budget)?;
            }
        }
        for index in 0..self.net.clocks.len() {
            self.tick(state, index, scratch, budget)?;
        }
        merge(&mut scratch.row);
        self.rows.end(state, &scratch.row)?;
        for watching in &mut self.watched {
            merge(&mut watching.row);
            watching.rows.end(state, &watching.row)?;
            watching.row.clear();
        }
        Ok(())
    }

    fn fire(
        &mut self,
        state: u32,
        transition: usize,
        rate: f64,
        scratch: &mut Scratch,
        budget: &mut Budget<'_>,
    ) -> Result<(), Refusal> {
        if !rate.is_finite() {
            let why = "its rate times its servers is more than a number can say";
            return Err(Refusal::new(Class::TooLarge, self.net.transition(transition), why));
        }
        let Scratch { marking, next, .. } = scratch;
        next.copy_from_slice(marking);
        self.net.fires[transition].fire(next).ok_or_else(overflow)?;
        self.settle(Some(state), Some(transition), scratch, budget)?;
        let from = scratch.row.len();
        let targets = std::mem::take(&mut scratch.outcome.targets);
        for (marking, probability) in &targets {
            self.arrive(Some((state, transition)), *marking, rate * probability, scratch, budget)?;
        }
        let watching = self.watched.iter_mut().filter(|watching| watching.transition == transition);
        let mut sums = vec![&mut self.fired];
        for watching in watching {
            watching.row.extend_from_slice(&scratch.row[from..]);
            sums.push(&mut watching.fired);
        }
        for ((_, sums), times) in sums.into_iter().flat_map(|sums| sums.iter_mut().zip(&scratch.outcome.fired)) {
            if let Some(sum) = sums.last_mut() {
                *sum += rate * times;
            }
        }
        scratch.outcome.targets = targets;
        Ok(())
    }

    /// What the clock `index` does in `state`: its next phase, or its transition fires.
    fn tick(
        &mut self,
        state: u32,
        index: usize,
        scratch: &mut Scratch,
        budget: &mut Budget<'_>,
    ) -> Result<(), Refusal> {
        let clock = &self.net.clocks[index];
        let Some(phase) = usize::try_from(scratch.state[1 + index]).ok().filter(|phase| *phase > 0) else {
            return Ok(());
        };
        let (rate, onward) = clock.phases[phase - 1];
        let transition = clock.transition;
        if onward > 0.0
            && let Some(states) = &mut self.states
        {
            scratch.state[1 + index] += 1;
            let inserted = states.insert(&scratch.state);
            scratch.state[1 + index] -= 1;
            let (id, new) = inserted.map_err(|_| overflow())?;
            if new {
                self.parents.push(state);
                budget.markings(states.len() as u64)?;
            }
            scratch.row.push((id, rate * onward));
        }
        if onward < 1.0 {
            self.fire(state, transition, rate * (1.0 - onward), scratch, budget)?;
        }
        Ok(())
    }

    /// # Errors
    /// When the way to `state` can be gone again and again with ever more tokens.
    fn bounded(&mut self, state: u32, marking: &[u64]) -> Result<(), Refusal> {
        if self.compared > COMPARED + EACH * u64::from(state) {
            return Ok(());
        }
        let mut earlier = vec![0; self.net.places];
        let allowed = COMPARED + EACH * u64::from(state);
        let mut at = state;
        while let Some(parent) = self.parents.get(at as usize).copied().filter(|parent| *parent != NO_PARENT) {
            if self.compared > 2 * allowed {
                break;
            }
            at = parent;
            self.compared += 1;
            self.markings.tangible.load(self.marking_of(at), &mut earlier);
            let Some(growth) = proof::grows(&earlier, marking) else { continue };
            let Some(steps) = self.steps(at, state) else { continue };
            // Finding the firings again is as much work as comparing many states.
            self.compared += 64 * steps.len() as u64;
            let steps: Vec<&Step> = steps.iter().collect();
            if proof::repeats(&self.net, &steps, &growth) {
                let mut way = self.way_to(at);
                way.extend(steps.iter().map(|step| step.transition));
                let trace = way.into_iter().map(|step| self.net.transition(step).to_owned()).collect();
                return Err(proof::refusal(&self.net, &growth, &steps).along(trace));
            }
        }
        Ok(())
    }

    pub(super) fn marking_of(&self, state: u32) -> u32 {
        super::marking_of(self.states.as_ref(), state)
    }
}
