//! The search: state after state in the order found, each with its row of the chain.

use std::ops::Range;

use super::batch::{Batch, Halt};
use super::compiled::Compiled;
use super::markings::Markings;
use super::packed::Packed;
use super::rows::Rows;
use super::tuples::Tuples;
use super::vanish::{On, Outcome, Resolver, Stuck, full, merge, overflow};
use super::{Space, Watched};
use crate::lump::Symmetry;
use crate::net::Tokens;
use crate::{Budget, Class, Progress, Refusal};

/// States that are expanded side by side, and bytes that the markings may take which they lead to, unless those of one take more.
const TOGETHER: u32 = 128;
const BESIDE: usize = 16 << 20;
/// States that there is room for at first.
const FIRST: usize = 1 << 10;
/// States that are expanded between two looks at the clock, in a small net.
const LOOKED: u32 = 1024;
/// States after which growth that lies deep is looked for, in a net some of whose places have no bound, and by how many times that number
/// grows until it is looked for again.
const HUNT: u32 = 20_000;
const AGAIN: u32 = 8;
/// Places up to which each has as many bits as its bound needs.
const MANY: usize = 2_000;
/// Of a state at time 0.
pub(super) const NO_PARENT: u32 = u32::MAX;

pub(super) struct Explorer {
    pub(super) net: Compiled,
    pub(super) markings: Markings,
    pub(super) states: Option<Tuples>,
    /// The state from which each was found first.
    pub(super) parents: Vec<u32>,
    /// States that were compared with later ones so far.
    pub(super) compared: u64,
    /// What each place can never exceed, where that is proven, and whether it is not for some place.
    most: Vec<Option<Tokens>>,
    open: bool,
    packed: Packed,
    resolver: Resolver,
    /// Indices of the immediates whose firings are counted, each with them by state.
    fired: Vec<(usize, Vec<f64>)>,
    initial: Vec<(u32, f64)>,
    rows: Rows,
    watched: Vec<Watching>,
    /// Whether immediates that have nothing to do with each other fire in one order alone.
    one_order: bool,
    /// Nothing is solved afterwards.
    counts: bool,
    /// Whether what fixed times lead to is not in `rows`, but with those that are watched alone.
    apart: bool,
}

/// A timed transition whose edges are kept by themselves.
struct Watching {
    transition: usize,
    rows: Rows,
    row: Vec<(u32, f64)>,
    fired: Vec<(usize, Vec<f64>)>,
}

/// What is used again for each state.
#[derive(Default)]
pub(super) struct Scratch {
    marking: Vec<u64>,
    pub(super) next: Vec<u64>,
    pub(super) state: Vec<u64>,
    outcome: Outcome,
    pub(super) row: Vec<(u32, f64)>,
    batch: Batch,
    fired: Vec<(usize, usize, f64)>,
}

impl Explorer {
    /// `most` holds what each place can never exceed, where that is proven.
    pub(super) fn new(
        net: Compiled,
        most: Vec<Option<Tokens>>,
        counted: &[usize],
        watched: &[usize],
        symmetry: Option<Symmetry>,
    ) -> Self {
        let immediate = |it: &usize| net.immediates.iter().any(|immediate| immediate.transition == *it);
        let counted: Vec<usize> = counted.iter().copied().filter(immediate).collect();
        // What all tokens together bound is much for each of thousands of places.
        let many = net.places > MANY;
        let expected = net.initial.iter().zip(&most).map(|(tokens, most)| {
            let likely = (*tokens).max(3);
            most.map_or(likely, |most| if many { most.min(likely) } else { most })
        });
        let markings = Markings::new(&expected.collect::<Vec<_>>(), net.fires.len(), symmetry);
        let packed = Packed::new(&net, markings.layout(), &most);
        let clocks = net.clocks.iter().map(|clock| clock.phases.len() as u64);
        let states =
            (!net.clocks.is_empty()).then(|| Tuples::new(&std::iter::once(0xffff).chain(clocks).collect::<Vec<_>>()));
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
            parents: Vec::with_capacity(FIRST),
            compared: 0,
            open: most.iter().any(Option::is_none),
            most,
            packed,
            resolver,
            fired,
            initial: Vec::new(),
            rows: Rows::default(),
            watched,
            apart: false,
            one_order: false,
            counts: false,
        }
    }

    /// Leaves out vanishing markings that differ in the order of firings alone.
    pub(super) fn in_one_order(mut self) -> Self {
        self.one_order = true;
        self.packed.in_one_order(&self.net);
        self
    }

    /// Nothing will be solved.
    pub(super) fn counting(self) -> Self {
        Self { counts: true, ..self }
    }

    /// Makes the net ready for markings as they are packed now.
    fn pack(&mut self) {
        self.packed = Packed::new(&self.net, self.markings.layout(), &self.most);
        if self.one_order {
            self.packed.in_one_order(&self.net);
        }
    }

    /// Keeps what each fixed time leads to by itself: all of them are watched.
    pub(super) fn apart(self) -> Self {
        Self { apart: true, ..self }
    }

    /// Whether `transition` takes a fixed time that is kept by itself.
    fn by_itself(&self, transition: usize) -> bool {
        self.apart && self.net.clocks.iter().any(|clock| clock.fixed && clock.transition == transition)
    }

    pub(super) fn run(mut self, budget: &mut Budget<'_>) -> Result<Space, Refusal> {
        let mut scratch = Scratch {
            marking: vec![0; self.net.places],
            next: vec![0; self.net.places],
            state: vec![0; 1 + self.net.clocks.len()],
            ..Scratch::default()
        };
        self.start(&mut scratch, budget)?;
        let (mut state, mut looked, mut hunt) = (0, 0, HUNT);
        loop {
            let count = self.count();
            if self.open && state >= hunt {
                let mut look = || self.look(state, budget);
                super::hunt::hunt(&self.net, state as usize / 16, &mut look)?;
                hunt = hunt.saturating_mul(AGAIN);
            }
            if state >= looked {
                self.look(state, budget)?;
                looked = state + u32::try_from(self.net.wide()).map_or(1, |wide| (LOOKED / wide).max(1));
            }
            if state == count {
                break;
            }
            let end = count.min(state + self.together());
            // What does not fit is packed in another way, and the batch begun again.
            while !self.expand(state, end, &mut scratch, budget)? {
                self.pack();
            }
            state = end;
        }
        self.markings.compare(&self.packed);
        self.markings.within(&self.packed, budget)?;
        self.markings.close();
        self.parents = Vec::new();
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

    #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
    fn count(&self) -> u32 {
        self.states.as_ref().map_or(self.markings.tangible.len(), Tuples::len) as u32
    }

    /// States that are expanded side by side.
    fn together(&self) -> u32 {
        let one = (self.net.fires.len() * self.markings.layout().words() * size_of::<u64>()).max(1);
        u32::try_from(BESIDE / one).unwrap_or(TOGETHER).clamp(1, TOGETHER)
    }

    fn bytes(&self) -> u64 {
        let states = self.states.as_ref().map_or(0, Tuples::bytes);
        let stores = self.markings.bytes() + states + self.resolver.bytes();
        let states = self.rows.len();
        let watched: usize = self.watched.iter().map(|it| it.rows.bytes() + states * (4 + 8 * it.fired.len())).sum();
        let vectors = self.parents.len() * 4 + states * (4 + 8 * self.fired.len()) + watched;
        // The chain is turned round before it is solved, and a solution takes a few numbers a state; so does it to find closed classes.
        let turned = if self.counts { 0 } else { self.rows.columns.len() * 12 };
        (stores + vectors + self.rows.bytes() + turned + states * 32) as u64
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
        if self.net.vanishing(&scratch.next) {
            self.resolve(None, scratch, budget)?;
        } else {
            scratch.outcome.targets.push((self.markings.add_tangible(&scratch.next, budget)?, 1.0));
        }
        if self.markings.version() > 0 {
            self.pack();
        }
        let targets = std::mem::take(&mut scratch.outcome.targets);
        scratch.row.clear();
        for (marking, probability) in &targets {
            self.arrive(None, *marking, *probability, scratch, budget)?;
        }
        self.adopt(NO_PARENT);
        merge(&mut scratch.row);
        self.initial.clone_from(&scratch.row);
        Ok(())
    }

    /// From `scratch.next`, a vanishing marking that a firing of a transition in a state led to, into `scratch.outcome`.
    fn resolve(
        &mut self,
        from: Option<(u32, usize)>,
        scratch: &mut Scratch,
        budget: &mut Budget<'_>,
    ) -> Result<(), Refusal> {
        loop {
            let Self { resolver, net, packed, open, markings, .. } = self;
            let on = On { net, packed, open: *open };
            match resolver.resolve(on, &scratch.next, markings, budget, &mut scratch.outcome) {
                Ok(()) => return Ok(()),
                Err(Stuck::Repacked) => self.pack(),
                Err(Stuck::For(refusal, fired)) => {
                    let way = from.map_or_else(|| Some(Vec::new()), |(state, _)| self.way_to(state));
                    let Some(mut way) = way else { return Err(refusal) };
                    way.extend(from.map(|(_, transition)| transition));
                    way.extend(fired);
                    let names = way.into_iter().map(|step| self.net.transition(step).to_owned());
                    return Err(refusal.along(names.collect()));
                }
            }
        }
    }

    /// Expands the states from `from` to `end`. `false` when markings are packed in another way now: it must be begun again.
    fn expand(&mut self, from: u32, end: u32, scratch: &mut Scratch, budget: &mut Budget<'_>) -> Result<bool, Refusal> {
        let version = self.markings.version();
        let mut batch = std::mem::take(&mut scratch.batch);
        batch.clear(self.markings.layout().words());
        let mut done = self.fire(from, end, scratch, &mut batch);
        if done.is_ok() {
            let counted: Vec<usize> = self.fired.iter().map(|(transition, _)| *transition).collect();
            done = batch.settle(&self.packed, &counted);
        }
        let widened = match done {
            Ok(()) => false,
            Err(Halt::Full) => return Err(full()),
            Err(Halt::Cramped(transition)) => {
                let mut marking = vec![0; self.net.places];
                self.markings.layout().unpack(batch.words(), &mut marking);
                self.net.fires[transition].fire(&mut marking).ok_or_else(overflow)?;
                self.markings.make_room(&marking)?;
                true
            }
        };
        if !widened {
            let Self { markings, parents, states, .. } = self;
            let known = states.is_some();
            batch
                .number(markings, |state| {
                    if !known {
                        parents.push(state)
                    }
                })
                .map_err(|_| full())?;
            batch.count(markings).map_err(|_| full())?;
            self.markings.within(&self.packed, budget)?;
            self.collect(scratch, &mut batch, budget)?;
            if self.markings.version() == version {
                let mut roots = 0..0;
                for state in from..end {
                    let own = batch.roots[roots.end..].iter().take_while(|root| root.state == state);
                    roots = roots.end..roots.end + own.count();
                    self.end(state, roots.clone(), scratch, &batch, budget)?;
                }
            }
        }
        scratch.batch = batch;
        Ok(self.markings.version() == version)
    }

    /// Fires what may fire in the states from `from` to `end`.
    fn fire(&mut self, from: u32, end: u32, scratch: &mut Scratch, batch: &mut Batch) -> Result<(), Halt> {
        for state in from..end {
            let (packed, words) = (&self.packed, self.markings.tangible.get(self.marking_of(state)));
            if let [word] = words {
                packed.timed(word, |transition, rate| batch.fire(packed, state, transition, rate, word))?;
            } else if packed.wide() {
                packed.timed_near(words, |transition, rate| batch.fire(packed, state, transition, rate, words))?;
            } else {
                packed.timed(words, |transition, rate| batch.fire(packed, state, transition, rate, words))?;
            }
            let Some(states) = &self.states else { continue };
            states.load(state, &mut scratch.state);
            for (clock, phase) in self.net.clocks.iter().zip(&scratch.state[1..]) {
                let phase = usize::try_from(*phase).ok().and_then(|phase| phase.checked_sub(1));
                if let Some((rate, onward)) = phase.and_then(|phase| clock.phases.get(phase))
                    && *onward < 1.0
                {
                    batch.fire(packed, state, clock.transition, rate * (1.0 - onward), words)?;
                }
            }
        }
        Ok(())
    }

    /// Resolves what was left to be resolved by itself.
    fn collect(&mut self, scratch: &mut Scratch, batch: &mut Batch, budget: &mut Budget<'_>) -> Result<(), Refusal> {
        let mut fired = std::mem::take(&mut scratch.fired);
        fired.clear();
        let counts = batch.fired.iter().filter(|fired| !batch.roots[fired.root as usize].alone);
        fired.extend(counts.map(|fired| (fired.root as usize, fired.counted, fired.times)));
        for index in 0..batch.roots.len() {
            let root = batch.roots[index];
            if !root.rate.is_finite() {
                let why = "its rate times its servers is more than a number can say";
                return Err(Refusal::new(Class::TooLarge, self.net.transition(root.transition()), why));
            }
            if root.alone {
                self.markings.load_tangible(self.marking_of(root.state), &mut scratch.next);
                self.net.fires[root.transition()].fire(&mut scratch.next).ok_or_else(overflow)?;
                let version = self.markings.version();
                self.resolve(Some((root.state, root.transition())), scratch, budget)?;
                self.adopt(root.state);
                if self.markings.version() != version {
                    return Ok(());
                }
                batch.replace(index, &scratch.outcome.targets);
                let counts = scratch.outcome.fired.iter().enumerate().filter(|(_, times)| **times > 0.0);
                fired.extend(counts.map(|(counted, times)| (index, counted, *times)));
            }
        }
        fired.sort_by_key(|(root, ..)| *root);
        scratch.fired = fired;
        Ok(())
    }

    /// Writes the row of `state`, which is the next.
    fn end(
        &mut self,
        state: u32,
        roots: Range<usize>,
        scratch: &mut Scratch,
        batch: &Batch,
        budget: &Budget<'_>,
    ) -> Result<(), Refusal> {
        if self.open && self.looks_back(state) {
            let mut marking = std::mem::take(&mut scratch.marking);
            self.markings.load_tangible(self.marking_of(state), &mut marking);
            let bounded = self.bounded(state, &marking);
            scratch.marking = marking;
            bounded?;
        }
        if let Some(states) = &self.states {
            states.load(state, &mut scratch.state);
        }
        scratch.row.clear();
        let watched = self.watched.iter_mut().flat_map(|watching| &mut watching.fired);
        for (_, fired) in self.fired.iter_mut().chain(watched) {
            fired.push(0.0);
        }
        // States are markings, and no transition's edges are kept by themselves.
        let plain = self.states.is_none() && self.watched.is_empty();
        for root in roots.clone() {
            let (targets, root) = (batch.targets(root), &batch.roots[root]);
            if plain {
                targets.for_each(|(marking, part)| scratch.row.push((marking, root.rate * part)));
                continue;
            }
            for (marking, part) in targets {
                let from = scratch.row.len();
                self.arrive(Some((state, root.transition())), marking, root.rate * part, scratch, budget)?;
                for watching in self.watched.iter_mut().filter(|watching| watching.transition == root.transition()) {
                    watching.row.extend_from_slice(&scratch.row[from..]);
                }
                if self.by_itself(root.transition()) {
                    scratch.row.truncate(from);
                }
            }
        }
        let first = scratch.fired.partition_point(|(root, ..)| *root < roots.start);
        for (root, counted, times) in &scratch.fired[first..] {
            if *root >= roots.end {
                break;
            }
            let root = &batch.roots[*root];
            let by_itself = self.by_itself(root.transition());
            let watching = self.watched.iter_mut().filter(|watching| watching.transition == root.transition());
            let watching = watching.map(|watching| &mut watching.fired);
            let all = (!by_itself).then_some(&mut self.fired);
            for sums in all.into_iter().chain(watching) {
                if let Some(sum) = sums[*counted].1.last_mut() {
                    *sum += root.rate * times;
                }
            }
        }
        self.tick(state, scratch, budget)?;
        self.rows.end(state, &mut scratch.row).map_err(|refusal| {
            let own = batch.roots[roots].iter();
            let named = match refusal.class {
                Class::TooLarge => own.max_by(|one, other| one.rate.total_cmp(&other.rate)),
                _ => own.min_by(|one, other| one.rate.total_cmp(&other.rate)),
            };
            named.map_or(refusal.clone(), |root| Refusal {
                name: self.net.transition(root.transition()).to_owned(),
                ..refusal
            })
        })?;
        // A fixed time that leads back to its state begins again.
        let left_out = if self.apart { u32::MAX } else { state };
        for watching in &mut self.watched {
            watching.rows.end(left_out, &mut watching.row)?;
            watching.row.clear();
        }
        Ok(())
    }

    pub(super) fn marking_of(&self, state: u32) -> u32 {
        super::marking_of(self.states.as_ref(), state)
    }
}
