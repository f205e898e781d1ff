//! One run of a net: its marking, its clocks, and what is summed up on the way.
//!
//! Each timed transition has a clock with the time at which it will fire, and random numbers of its own; a tree of minima over
//! the clocks says which comes first. When the rate of an exponential transition changes, what is left of its time is stretched.

use super::model::{Model, Part, Time};
use super::random::Stream;
use super::trap;
use crate::ask::Condition;
use crate::net::Phase;
use crate::{Class, Refusal};

/// Immediates that are looked at while no time passes, before a run is given up.
const TIMELESS: usize = 5_000_000;
/// Fixed times that end so close to each other, relatively, end at the same instant: sums of them are rounded. It is no more than this
/// part of the least fixed time, of which many may go by in a row.
const INSTANT: f64 = 1e-12;
const OF_LEAST: f64 = 1e-3;

/// Something whose mean over time is wanted.
#[derive(Debug, Clone)]
pub(super) enum Level {
    Tokens(usize),
    Holds(Condition),
}

impl Level {
    #[expect(clippy::cast_precision_loss, reason = "tokens beyond 2^53 are meant to 53 bits")]
    pub(super) fn now(&self, marking: &[u64]) -> f64 {
        match self {
            Self::Tokens(place) => marking[*place] as f64,
            Self::Holds(condition) => f64::from(u8::from(condition.holds(marking))),
        }
    }

    pub(super) fn places(&self) -> Vec<usize> {
        match self {
            Self::Tokens(place) => vec![*place],
            Self::Holds(condition) => condition.terms.iter().map(|(place, ..)| *place).collect(),
        }
    }
}

/// A level in a run: what it is now, since when, and its integral over time.
#[derive(Debug, Clone, Copy, Default)]
struct Signal {
    value: f64,
    since: f64,
    sum: f64,
    stale: bool,
}

/// Levels, and which of them each place has a say in.
#[derive(Debug)]
pub(super) struct Watch {
    levels: Vec<Level>,
    by_place: Vec<Box<[u32]>>,
}

impl Watch {
    pub(super) fn new(levels: Vec<Level>, places: usize) -> Self {
        let mut by_place = vec![Vec::new(); places];
        for (index, level) in levels.iter().enumerate() {
            let mut seen = level.places();
            seen.sort_unstable();
            seen.dedup();
            seen.into_iter().for_each(|place| by_place[place].push(u32::try_from(index).unwrap_or(u32::MAX)));
        }
        Self { levels, by_place: by_place.into_iter().map(Into::into).collect() }
    }

    pub(super) fn level(&self, index: usize) -> &Level {
        &self.levels[index]
    }
}

/// One run.
#[derive(Debug)]
pub(super) struct Machine<'a> {
    model: &'a Model,
    watch: &'a Watch,
    pub(super) marking: Vec<u64>,
    pub(super) now: f64,
    /// Of timed transitions.
    pub(super) firings: u64,
    /// Immediates that were looked at.
    pub(super) worked: u64,
    /// By index in the net, since the start.
    fired: Vec<u64>,
    signals: Vec<Signal>,
    stale: Vec<u32>,
    rates: Vec<f64>,
    streams: Vec<Stream>,
    choice: Stream,
    /// Whether it was drawn, in any run, which of several fixed times that ended at once came first, and that may matter.
    pub(super) drawn: bool,
    /// A tree of minima; the clocks are its leaves, from [`Machine::leaves`] on.
    clocks: Vec<f64>,
    leaves: usize,
    touched: Vec<u32>,
    is_touched: Vec<bool>,
    candidates: Vec<u32>,
}

impl<'a> Machine<'a> {
    /// Run `run` of a simulation with `seed`, at time 0, when the immediates have fired.
    pub(super) fn new(model: &'a Model, watch: &'a Watch, seed: u64, run: u64) -> Result<Self, Refusal> {
        let slots = model.timed.len();
        let leaves = slots.next_power_of_two();
        let mut machine = Self {
            model,
            watch,
            marking: model.initial.clone(),
            now: 0.0,
            firings: 0,
            worked: 0,
            fired: vec![0; model.parts.len()],
            signals: vec![Signal::default(); watch.levels.len()],
            stale: Vec::new(),
            rates: vec![0.0; slots],
            streams: model.streams.iter().map(|name| Stream::new(seed, run, *name)).collect(),
            choice: Stream::new(seed, run, 0),
            drawn: false,
            clocks: vec![f64::INFINITY; 2 * leaves],
            leaves,
            touched: Vec::new(),
            is_touched: vec![false; slots],
            candidates: Vec::new(),
        };
        machine.start()?;
        Ok(machine)
    }

    /// Begins anew as run `run`.
    pub(super) fn restart(&mut self, seed: u64, run: u64) -> Result<(), Refusal> {
        for (stream, name) in self.streams.iter_mut().zip(&self.model.streams) {
            *stream = Stream::new(seed, run, *name);
        }
        self.choice = Stream::new(seed, run, 0);
        self.marking.copy_from_slice(&self.model.initial);
        self.now = 0.0;
        self.rates.fill(0.0);
        self.clocks.fill(f64::INFINITY);
        self.fired.fill(0);
        self.start()
    }

    fn start(&mut self) -> Result<(), Refusal> {
        let parts = &self.model.parts;
        let immediate = |index: &usize| parts[*index].slot == u32::MAX && parts[*index].enabled(&self.marking);
        self.candidates =
            (0..parts.len()).filter(immediate).map(|index| u32::try_from(index).unwrap_or(u32::MAX)).collect();
        if !self.candidates.is_empty() {
            self.settle()?;
        }
        self.touched.clear();
        self.is_touched.fill(false);
        for slot in 0..self.model.timed.len() {
            self.update(slot)?;
        }
        self.stale.clear();
        for (signal, level) in self.signals.iter_mut().zip(&self.watch.levels) {
            *signal = Signal { value: level.now(&self.marking), ..Signal::default() };
        }
        Ok(())
    }

    /// When the next timed transition fires; infinite when none ever will.
    pub(super) fn next(&self) -> f64 {
        self.clocks[1]
    }

    /// Goes on to `until`, or until `most` transitions have fired. Whether it got there.
    pub(super) fn run(&mut self, until: f64, most: u64) -> Result<bool, Refusal> {
        let end = self.firings.saturating_add(most);
        while self.next() <= until {
            if self.firings >= end || self.worked >= most {
                return Ok(false);
            }
            self.step()?;
        }
        self.now = until;
        Ok(true)
    }

    /// Whether so much was done that it is time for a look at the clock.
    pub(super) fn is_due(&self, most: u64) -> bool {
        self.firings >= most || self.worked >= most
    }

    /// Fires the timed transition that comes first.
    pub(super) fn step(&mut self) -> Result<(), Refusal> {
        let first = self.clocks[1];
        let mut node = 1;
        while node < self.leaves {
            node *= 2;
            // Not `!=`: the other is larger, or they are alike and the first wins.
            if self.clocks[node] > first {
                node += 1;
            }
        }
        let mut slot = node - self.leaves;
        if let Some(least) = self.model.least
            && self.is_fixed(slot)
        {
            slot = self.one_of_those_at_once(slot, first, least);
        }
        self.now = first;
        self.firings += 1;
        self.rates[slot] = 0.0;
        let transition = self.model.timed[slot];
        self.fire(transition)?;
        let model = self.model;
        let part = &model.parts[transition as usize];
        if part.wakes.iter().any(|wake| model.parts[*wake as usize].enabled(&self.marking)) {
            self.touch(part);
            self.candidates.clear();
            self.candidates.extend_from_slice(&part.wakes);
            self.settle()?;
            let touched = std::mem::take(&mut self.touched);
            for slot in &touched {
                self.is_touched[*slot as usize] = false;
                self.update(*slot as usize)?;
            }
            self.touched = touched;
            self.touched.clear();
        } else {
            for slot in &part.dependants {
                self.update(*slot as usize)?;
            }
        }
        while let Some(index) = self.stale.pop() {
            let signal = &mut self.signals[index as usize];
            signal.stale = false;
            signal.value = self.watch.levels[index as usize].now(&self.marking);
        }
        Ok(())
    }

    fn is_fixed(&self, slot: usize) -> bool {
        self.model.timed.get(slot).is_some_and(|it| matches!(self.model.parts[*it as usize].time, Time::Fixed(_)))
    }

    /// Of the fixed times that end at the same instant as that of `slot`, which is the `first`, one of which each is as likely. The others keep
    /// their clocks, and are at once the next, where they are still enabled.
    fn one_of_those_at_once(&mut self, slot: usize, first: f64, least: f64) -> usize {
        let last = first + (INSTANT * first).min(OF_LEAST * least);
        let mut at_once = Vec::new();
        let mut node = self.leaves + slot;
        // Beside the way up stands all that is not on it.
        while node > 1 {
            if self.clocks[node ^ 1] <= last {
                self.until(node ^ 1, last, &mut at_once);
            }
            node /= 2;
        }
        if at_once.is_empty() {
            return slot;
        }
        at_once.push(slot);
        at_once.sort_unstable();
        let part = |slot: &usize| &self.model.parts[self.model.timed[*slot] as usize];
        let has_say = |slot: &usize| {
            let part = part(slot);
            let others = |other: &u32| *other as usize != *slot && at_once.contains(&(*other as usize));
            !part.wakes.is_empty() || part.dependants.iter().any(others)
        };
        self.drawn |= at_once.iter().any(has_say);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "the number of one of a few clocks"
        )]
        let drawn = (self.choice.uniform() * at_once.len() as f64) as usize;
        at_once.get(drawn).copied().unwrap_or(slot)
    }

    /// Of the fixed times that run, the transition of the one that has run for the longest, and for how long.
    pub(super) fn longest(&self) -> Option<(usize, f64)> {
        let runs = |(slot, transition): (usize, &u32)| {
            let Time::Fixed(delay) = self.model.parts[*transition as usize].time else { return None };
            let clock = self.clocks[self.leaves + slot];
            clock.is_finite().then_some((*transition as usize, delay - (clock - self.now)))
        };
        self.model.timed.iter().enumerate().filter_map(runs).max_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    /// The slots of fixed times below `node` of the tree that end by `last`.
    fn until(&self, node: usize, last: f64, found: &mut Vec<usize>) {
        if node >= self.leaves {
            let slot = node - self.leaves;
            if self.is_fixed(slot) {
                found.push(slot);
            }
            return;
        }
        for below in [2 * node, 2 * node + 1] {
            if self.clocks[below] <= last {
                self.until(below, last, found);
            }
        }
    }

    fn fire(&mut self, transition: u32) -> Result<(), Refusal> {
        self.fired[transition as usize] += 1;
        let watch = self.watch;
        for change in &self.model.parts[transition as usize].changes {
            let before = self.marking[change.place];
            let after = before.wrapping_add(change.by);
            if change.grows && after < before {
                let why = "a place would hold more tokens than a 64-bit number can say";
                return Err(Refusal::new(Class::TooLarge, "tokens", why));
            }
            self.marking[change.place] = after;
            for index in &watch.by_place[change.place] {
                let signal = &mut self.signals[*index as usize];
                if !signal.stale {
                    signal.stale = true;
                    signal.sum += signal.value * (self.now - signal.since);
                    signal.since = self.now;
                    self.stale.push(*index);
                }
            }
        }
        Ok(())
    }

    fn touch(&mut self, part: &Part) {
        for slot in &part.dependants {
            if !std::mem::replace(&mut self.is_touched[*slot as usize], true) {
                self.touched.push(*slot);
            }
        }
    }

    /// Fires immediates, the candidates and those that they wake, until none is enabled.
    fn settle(&mut self) -> Result<(), Refusal> {
        let model = self.model;
        let mut work = 0;
        while work < TIMELESS {
            work += 1 + self.candidates.len();
            let marking = &self.marking;
            self.candidates.retain(|index| model.parts[*index as usize].enabled(marking));
            self.candidates.sort_unstable();
            self.candidates.dedup();
            let Some(chosen) = self.choose() else {
                self.worked += work as u64;
                return Ok(());
            };
            self.fire(chosen)?;
            let part = &model.parts[chosen as usize];
            self.touch(part);
            self.candidates.extend_from_slice(&part.wakes);
        }
        if let Some(trap) = trap::endless(model, &self.marking) {
            return Err(trap);
        }
        let name = self.candidates.first().map_or("", |index| model.names[*index as usize].as_str());
        let why = "immediate transitions fire again and again and no time passes: `check` says whether they ever end";
        Err(Refusal::new(Class::TooLarge, name, why))
    }

    /// One of the candidates, all of which are enabled: by weight among those of the highest priority.
    fn choose(&mut self) -> Option<u32> {
        let share = |index: &u32| match self.model.parts[*index as usize].time {
            Time::Immediate { weight, priority, by: None } => (priority, weight),
            #[expect(clippy::cast_precision_loss, reason = "tokens beyond 2^53 are meant to 53 bits")]
            Time::Immediate { weight, priority, by: Some(by) } => (priority, weight * self.marking[by] as f64),
            _ => (0, 0.0),
        };
        if let [only] = self.candidates.as_slice() {
            return Some(*only);
        }
        let highest = self.candidates.iter().map(|index| share(index).0).max()?;
        let mut ready = self.candidates.iter().filter(|index| share(index).0 == highest);
        // Over the largest: weights may add up to more than a number can say.
        let largest = ready.clone().map(|index| share(index).1).fold(0.0, f64::max);
        let total: f64 = ready.clone().map(|index| share(index).1 / largest).sum();
        if ready.clone().nth(1).is_none() {
            return ready.next().copied();
        }
        let mut left = self.choice.uniform() * total;
        let last = ready.clone().next_back().copied();
        let chosen = ready.find(|index| {
            left -= share(index).1 / largest;
            left < 0.0
        });
        chosen.copied().or(last)
    }

    /// Sets the clock of `slot` for the marking as it is now.
    fn update(&mut self, slot: usize) -> Result<(), Refusal> {
        let part = &self.model.parts[self.model.timed[slot] as usize];
        let (before, rate) = (self.rates[slot], part.rate(&self.marking));
        if rate == before {
            // One that fired and is off now has its old time still.
            if rate == 0.0 {
                self.set(slot, f64::INFINITY);
            }
            return Ok(());
        }
        self.rates[slot] = rate;
        let clock = if rate == 0.0 {
            f64::INFINITY
        } else if !rate.is_finite() {
            let why = "its rate times its servers is more than a number can say";
            return Err(Refusal::new(Class::TooLarge, &self.model.names[self.model.timed[slot] as usize], why));
        } else if before == 0.0 {
            self.now + sample(&part.time, rate, &mut self.streams[slot])
        } else {
            self.now + (self.clocks[self.leaves + slot] - self.now) * (before / rate)
        };
        // An infinite clock is that of what never fires.
        if rate > 0.0 && !clock.is_finite() {
            let why = "the time after which it fires is more than a number can say";
            return Err(Refusal::new(Class::TooLarge, &self.model.names[self.model.timed[slot] as usize], why));
        }
        self.set(slot, clock);
        Ok(())
    }

    fn set(&mut self, slot: usize, clock: f64) {
        let mut node = self.leaves + slot;
        self.clocks[node] = clock;
        while node > 1 {
            let least = self.clocks[node & !1].min(self.clocks[node | 1]);
            node /= 2;
            if self.clocks[node] == least {
                return;
            }
            self.clocks[node] = least;
        }
    }

    /// The value of a level now.
    pub(super) fn level(&self, index: usize) -> f64 {
        self.signals[index].value
    }

    /// Firings per time unit of an exponential transition now.
    pub(super) fn rate(&self, transition: usize) -> f64 {
        self.model.parts[transition].rate(&self.marking)
    }

    /// The integral of a level since it was last taken.
    pub(super) fn take_level(&mut self, index: usize) -> f64 {
        let signal = &mut self.signals[index];
        let sum = signal.sum + signal.value * (self.now - signal.since);
        signal.sum = 0.0;
        signal.since = self.now;
        sum
    }

    /// The firings of each transition since the start.
    pub(super) fn fired(&self) -> &[u64] {
        &self.fired
    }
}

fn sample(time: &Time, rate: f64, stream: &mut Stream) -> f64 {
    match time {
        Time::Immediate { .. } => 0.0,
        Time::Exponential { .. } | Time::Table { .. } => stream.exponential() / rate,
        Time::Fixed(delay) => *delay,
        Time::Phase(Phase::Erlang { stages, rate }) => (0..*stages).map(|_| stream.exponential()).sum::<f64>() / rate,
        Time::Phase(Phase::Hyper(branches)) => {
            let mut left = stream.uniform();
            let branch = branches.iter().find(|(probability, _)| {
                left -= probability;
                left < 0.0
            });
            let rate = branch.or(branches.last()).map_or(1.0, |(_, rate)| *rate);
            stream.exponential() / rate
        }
        Time::Phase(Phase::Coxian(phases)) => {
            let mut sum = 0.0;
            for (rate, onward) in phases {
                sum += stream.exponential() / rate;
                if stream.uniform() >= *onward {
                    break;
                }
            }
            sum
        }
    }
}
