//! Firing on packed markings: a test is a mask and a comparison, a firing an addition to each word that changes.

use super::compiled::{Compiled, Fire, Immediate, Timed};
use super::layout::{Field, Layout, Words};
use crate::net::{Rate, Servers};

/// Immediates that each other one is compared with, in search of one that needs the same.
const COMPARED: usize = 16;

/// Words of a marking from which on not every transition is looked at in each.
const WIDE: usize = 8;

/// The tokens of a place held against a number, both where they stand in their word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Test {
    word: usize,
    mask: u64,
    count: u64,
}

impl Test {
    /// `None` when no entry that fits reaches `count`.
    fn new(field: Field, count: u64) -> Option<Self> {
        (count <= field.most).then(|| Self { word: field.word, mask: field.mask(), count: count << field.shift })
    }

    #[inline(always)]
    fn reached(self, words: &(impl Words + ?Sized)) -> bool {
        words.word(self.word) & self.mask >= self.count
    }
}

/// Reached by every marking, and by none.
const ALWAYS: Test = Test { word: 0, mask: 0, count: 0 };
const NEVER: Test = Test { word: 0, mask: 0, count: 1 };

/// What a transition needs so that it may fire. Most have one input: it stands where it is looked at first.
#[derive(Debug, PartialEq, Eq)]
struct Gate {
    first: Test,
    more: Vec<Test>,
    inhibitors: Vec<Test>,
}

impl Gate {
    fn new(fire: &Fire, layout: &Layout) -> Self {
        let mut inputs = fire.inputs.iter().map(|arc| Test::new(layout.field(arc.place), arc.count).unwrap_or(NEVER));
        let first = inputs.next().unwrap_or(ALWAYS);
        let more = inputs.collect();
        let inhibitors = fire.inhibitors.iter().filter_map(|arc| Test::new(layout.field(arc.place), arc.count));
        Self { first, more, inhibitors: inhibitors.collect() }
    }

    #[inline(always)]
    fn open(&self, words: &(impl Words + ?Sized)) -> bool {
        self.first.reached(words) && self.rest_open(words)
    }

    /// Whether all is there but what the first test asks for.
    #[inline(always)]
    fn rest_open(&self, words: &(impl Words + ?Sized)) -> bool {
        self.more.iter().all(|test| test.reached(words)) && !self.inhibitors.iter().any(|test| test.reached(words))
    }
}

/// A transition.
#[derive(Debug, Default)]
struct Move {
    /// What is added to words, without a carry between entries. Most markings are one word: it stands where it is looked at first.
    first: (usize, u64),
    more: Vec<(usize, u64)>,
    /// Entries that would be too large after the firing.
    cramped: Vec<Test>,
    /// The bits of [`Enabled`] for what its firing may enable or, if it is an immediate itself, disable.
    looks: Vec<u32>,
    /// All others: of those its firing says nothing new.
    keeps: u64,
}

/// The rate of a timed transition.
#[derive(Debug)]
struct Speed {
    transition: usize,
    gate: Gate,
    rate: Rate,
    /// Where the tokens stand that the rate depends on.
    by: Option<Field>,
    /// How many may work at once, all together the largest number.
    servers: u64,
    /// Tokens of the inputs and how many one firing takes, where more than one server may work.
    inputs: Vec<(Field, u64)>,
}

/// A firing would put more tokens into a place than fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cramped;

/// Which immediates are enabled in a marking: a bit for so many [`AtOnce`] in a row as are needed for all to have one, set when one of
/// them is enabled.
pub(super) type Enabled = u64;

/// The net on packed markings.
#[derive(Debug)]
pub(super) struct Packed {
    moves: Vec<Move>,
    timed: Vec<Speed>,
    /// Where markings are many words, for each of them the positions of the timed transitions that need something of it first, and at the
    /// end of those that need nothing: most words of a marking may be empty.
    near: Vec<Vec<usize>>,
    /// The most urgent first.
    immediates: Vec<AtOnce>,
    /// How many of them share a bit of [`Enabled`].
    each: usize,
    /// By transition, those that fire before the others: nothing where all orders are followed.
    first: Vec<bool>,
}

/// Immediate transitions of one priority that need the same.
#[derive(Debug)]
struct AtOnce {
    gate: Gate,
    priority: u32,
    /// Each with its weight,
    transitions: Vec<(usize, f64)>,
    /// and the place whose tokens that is multiplied with; nothing where none has one.
    by: Vec<Option<Field>>,
}

impl AtOnce {
    fn add(&mut self, it: &Immediate, layout: &Layout) {
        self.transitions.push((it.transition, it.weight));
        if it.by.is_some() || !self.by.is_empty() {
            self.by.resize(self.transitions.len() - 1, None);
            self.by.push(it.by.map(|place| layout.field(place)));
        }
    }

    /// Multiplies the last weights of `ready`, which are those of this.
    #[expect(clippy::cast_precision_loss, reason = "tokens beyond 2^53 are meant to 53 bits")]
    fn scale(&self, words: &(impl Words + ?Sized), ready: &mut [(usize, f64)]) {
        let own = ready.len() - self.transitions.len();
        for ((_, weight), by) in ready[own..].iter_mut().zip(&self.by) {
            *weight *= by.map_or(1.0, |field| field.get(words) as f64);
        }
    }
}

impl Packed {
    /// `most` holds what each place can never exceed, where that is proven.
    pub(super) fn new(net: &Compiled, layout: &Layout, most: &[Option<u64>]) -> Self {
        let (mut immediates, mut of): (Vec<AtOnce>, Vec<usize>) = (Vec::new(), Vec::new());
        for it in &net.immediates {
            let gate = Gate::new(&net.fires[it.transition], layout);
            // Only among the last ones: a net of thousands must not be compared pair by pair.
            let same = immediates.iter().rev().take(COMPARED);
            let same = same.take_while(|other| other.priority == it.priority).position(|other| other.gate == gate);
            let at = same.map_or(immediates.len(), |back| immediates.len() - 1 - back);
            if at == immediates.len() {
                immediates.push(AtOnce { gate, priority: it.priority, transitions: Vec::new(), by: Vec::new() });
            }
            immediates[at].add(it, layout);
            of.push(at);
        }
        let each = immediates.len().div_ceil(Enabled::BITS as usize).max(1);
        let mut delta = vec![0_u64; layout.words()];
        let moves = net.fires.iter().map(|fire| {
            #[expect(clippy::cast_possible_truncation, reason = "at most 64 bits")]
            let mut looks: Vec<u32> = match &fire.touches {
                Some(touches) => touches.iter().map(|position| (of[*position as usize] / each) as u32).collect(),
                None => (0..immediates.len().div_ceil(each) as u32).collect(),
            };
            looks.sort_unstable();
            looks.dedup();
            let keeps = !looks.iter().fold(0, |bits, bit| bits | 1 << bit);
            let mut it = Move { looks, keeps, ..Move::default() };
            delta.fill(0);
            for arc in &fire.inputs {
                let field = layout.field(arc.place);
                delta[field.word] = delta[field.word].wrapping_sub(arc.count.wrapping_mul(1 << field.shift));
            }
            for arc in &fire.outputs {
                let field = layout.field(arc.place);
                delta[field.word] = delta[field.word].wrapping_add(arc.count.wrapping_mul(1 << field.shift));
                let taken = fire.inputs.iter().find(|input| input.place == arc.place).map_or(0, |input| input.count);
                let proven = most[arc.place].is_some_and(|most| most <= field.most);
                if arc.count > taken && !proven {
                    let more = arc.count - taken;
                    it.cramped.push(if more > field.most {
                        Test { word: field.word, mask: 0, count: 0 }
                    } else {
                        Test { word: field.word, mask: field.mask(), count: (field.most - more + 1) << field.shift }
                    });
                }
            }
            let mut changed = delta.iter().copied().enumerate().filter(|(_, delta)| *delta != 0);
            it.first = changed.next().unwrap_or_default();
            it.more = changed.collect();
            it
        });
        let moves = moves.collect();
        let timed: Vec<Speed> = net.timed.iter().map(|timed| Speed::new(timed, net, layout)).collect();
        let mut near = Vec::new();
        if layout.words() >= WIDE {
            near.resize(layout.words() + 1, Vec::new());
            for (position, Speed { gate: Gate { first, .. }, .. }) in timed.iter().enumerate() {
                near[if first.mask == 0 { layout.words() } else { first.word }].push(position);
            }
        }
        Self { moves, timed, near, immediates, each, first: Vec::new() }
    }

    /// Of immediates that have nothing to do with the others, one fires after the other in one order alone: where they lead and how often
    /// all fire stays the same, but fewer vanishing markings are seen.
    pub(super) fn in_one_order(&mut self, net: &Compiled) {
        if net.fires.iter().any(|fire| fire.free) {
            self.first = net.fires.iter().map(|fire| fire.free).collect();
        }
    }

    /// Fires `transition` on `words`, where `before` is enabled. Returns what is enabled then.
    #[inline(always)]
    pub(super) fn fire(
        &self,
        transition: usize,
        words: &mut (impl Words + ?Sized),
        before: Enabled,
    ) -> Result<Enabled, Cramped> {
        let it = &self.moves[transition];
        if it.cramped.iter().any(|test| test.reached(words)) {
            return Err(Cramped);
        }
        words.add(it.first.0, it.first.1);
        it.more.iter().for_each(|(word, delta)| words.add(*word, *delta));
        let mut enabled = before & it.keeps;
        for bit in &it.looks {
            let open = self.sharing(*bit).iter().any(|it| it.gate.open(words));
            enabled |= Enabled::from(open) << bit;
        }
        Ok(enabled)
    }

    /// What is enabled in `words`.
    pub(super) fn enabled(&self, words: &(impl Words + ?Sized)) -> Enabled {
        let some = self.immediates.chunks(self.each).zip(0..);
        some.fold(0, |bits, (some, bit)| bits | Enabled::from(some.iter().any(|it| it.gate.open(words))) << bit)
    }

    /// Those that share a bit.
    #[inline(always)]
    fn sharing(&self, bit: u32) -> &[AtOnce] {
        if self.each == 1 {
            return std::slice::from_ref(&self.immediates[bit as usize]);
        }
        let first = bit as usize * self.each;
        &self.immediates[first..self.immediates.len().min(first + self.each)]
    }

    /// Of the immediates in `enabled`, which is right for `words`, those that may fire (transition and weight): they are of the highest
    /// priority that any has.
    #[inline(always)]
    pub(super) fn ready(&self, words: &(impl Words + ?Sized), enabled: Enabled, ready: &mut Vec<(usize, f64)>) {
        self.urgent(words, enabled, ready);
        if !self.first.is_empty()
            && ready.len() > 1
            && let Some(first) = ready.iter().find(|(transition, _)| self.first[*transition]).copied()
        {
            ready.clear();
            ready.push(first);
        }
    }

    #[inline(always)]
    fn urgent(&self, words: &(impl Words + ?Sized), mut enabled: Enabled, ready: &mut Vec<(usize, f64)>) {
        ready.clear();
        let mut urgent = None;
        while enabled != 0 {
            for it in self.sharing(enabled.trailing_zeros()) {
                if urgent.is_some_and(|urgent| urgent != it.priority) {
                    return;
                }
                if self.each == 1 || it.gate.open(words) {
                    urgent = Some(it.priority);
                    // One or a few: copying them is not worth a call.
                    it.transitions.iter().for_each(|transition| ready.push(*transition));
                    if !it.by.is_empty() {
                        it.scale(words, ready);
                    }
                }
            }
            enabled &= enabled - 1;
        }
    }

    /// Calls `each` with every timed transition that is enabled, and its rate.
    #[inline(always)]
    pub(super) fn timed<E>(
        &self,
        words: &(impl Words + ?Sized),
        mut each: impl FnMut(usize, f64) -> Result<(), E>,
    ) -> Result<(), E> {
        for some in self.timed.chunks(u64::BITS as usize) {
            // A bit for each that has what it needs first: which have it is hardly to be foreseen, so nothing waits for one of them.
            let first = |bits, (at, speed): (usize, &Speed)| bits | u64::from(speed.gate.first.reached(words)) << at;
            let mut bits = some.iter().enumerate().fold(0_u64, first);
            while bits != 0 {
                let speed = &some[bits.trailing_zeros() as usize];
                bits &= bits - 1;
                let rate = if speed.gate.rest_open(words) { speed.rate(words) } else { 0.0 };
                if rate > 0.0 {
                    each(speed.transition, rate)?;
                }
            }
        }
        Ok(())
    }
}

impl Packed {
    /// Whether markings are many words.
    pub(super) fn wide(&self) -> bool {
        !self.near.is_empty()
    }

    /// [`Self::timed`] of a marking of many words, in the same order.
    pub(super) fn timed_near<E>(
        &self,
        words: &[u64],
        mut each: impl FnMut(usize, f64) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some((free, near)) = self.near.split_last() else { return Ok(()) };
        let near = near.iter().enumerate().filter(|(word, _)| words.word(*word) != 0);
        let some = near.flat_map(|(_, positions)| positions).chain(free).copied();
        let mut some: Vec<usize> = some.filter(|position| self.timed[*position].gate.first.reached(words)).collect();
        some.sort_unstable();
        for speed in some.into_iter().map(|position| &self.timed[position]) {
            let rate = if speed.gate.rest_open(words) { speed.rate(words) } else { 0.0 };
            if rate > 0.0 {
                each(speed.transition, rate)?;
            }
        }
        Ok(())
    }
}

impl Speed {
    fn new(timed: &Timed, net: &Compiled, layout: &Layout) -> Self {
        let by = match &timed.rate {
            Rate::Constant(_) => None,
            Rate::ByTokens { place, .. } => Some(layout.field(*place)),
        };
        let mut inputs = Vec::new();
        if timed.servers != Servers::Finite(1) {
            let arcs = &net.fires[timed.transition].inputs;
            inputs.extend(arcs.iter().map(|arc| (layout.field(arc.place), arc.count)));
        }
        let gate = Gate::new(&net.fires[timed.transition], layout);
        let servers = match timed.servers {
            Servers::Finite(servers) => servers,
            Servers::Infinite => u64::MAX,
        };
        Self { transition: timed.transition, gate, rate: timed.rate.clone(), by, servers, inputs }
    }

    /// Firings per time unit where it is enabled.
    #[expect(clippy::cast_precision_loss, reason = "a degree beyond 2^53 is meant to 53 bits")]
    #[inline(always)]
    fn rate(&self, words: &(impl Words + ?Sized)) -> f64 {
        let rate = match (&self.rate, self.by) {
            (Rate::Constant(rate), _) => *rate,
            (Rate::ByTokens { rates, .. }, by) => {
                let last = rates.len() - 1;
                let tokens = by.map_or(0, |field| field.get(words));
                rates[usize::try_from(tokens).unwrap_or(last).min(last)]
            }
        };
        if self.servers == 1 {
            return rate;
        }
        let degrees = self.inputs.iter().map(|(field, count)| {
            let tokens = field.get(words);
            if *count == 1 { tokens } else { tokens / count }
        });
        let degree = degrees.min().unwrap_or(u64::MAX);
        rate * degree.min(self.servers) as f64
    }
}
