//! A net made ready to be fired many times.
//!
//! A marking has an entry for each place. A transition whose time is not exponential has a clock, which goes through phases.

use std::ops::RangeInclusive;

use crate::net::{Arc, Kind, Net, Phase, Rate, Servers, Tokens};

/// Immediates that are listed, for all transitions together, and for one in any case: of a net in which thousands take from one place, each
/// touches all.
const LISTED: usize = 1 << 24;
const FEW: usize = 256;

/// What firing needs of a transition.
#[derive(Debug)]
pub(crate) struct Fire {
    pub(crate) inputs: Vec<Arc>,
    pub(crate) outputs: Vec<Arc>,
    pub(crate) inhibitors: Vec<Arc>,
    /// Positions in [`Compiled::immediates`] of those that its firing may enable or, if it is an immediate itself, disable; some twice. `None`
    /// for any of them.
    pub(super) touches: Option<Vec<u32>>,
    /// Whether it is an immediate that changes nothing for another one, and that no other one takes anything from or stops: it fires as
    /// often, and all others as they would, whichever of those that may fire is the first.
    pub(super) free: bool,
}

impl Fire {
    pub(crate) fn enabled(&self, marking: &[u64]) -> bool {
        self.inputs.iter().all(|arc| marking[arc.place] >= arc.count)
            && self.inhibitors.iter().all(|arc| marking[arc.place] < arc.count)
    }

    /// How often the inputs would allow it at once; without inputs there is no bound.
    fn degree(&self, tokens: impl Fn(usize) -> u64) -> u64 {
        if self.inhibitors.iter().any(|arc| tokens(arc.place) >= arc.count) {
            return 0;
        }
        self.inputs.iter().map(|arc| tokens(arc.place) / arc.count).min().unwrap_or(u64::MAX)
    }

    /// Takes and puts its tokens. `None` when a place would hold more than a number can say.
    pub(crate) fn fire(&self, marking: &mut [u64]) -> Option<()> {
        for arc in &self.inputs {
            marking[arc.place] -= arc.count;
        }
        for arc in &self.outputs {
            marking[arc.place] = marking[arc.place].checked_add(arc.count)?;
        }
        Some(())
    }
}

/// An immediate transition.
#[derive(Debug)]
pub(crate) struct Immediate {
    /// Its index in the net.
    pub(crate) transition: usize,
    pub(super) weight: f64,
    pub(crate) priority: u32,
    pub(super) by: Option<usize>,
}

/// A transition with an exponential time.
#[derive(Debug)]
pub(crate) struct Timed {
    /// Its index in the net.
    pub(crate) transition: usize,
    pub(super) rate: Rate,
    pub(super) servers: Servers,
    /// Entries of its table that are 0, in order.
    zeros: Vec<usize>,
}

/// A transition with a clock that goes through phases.
#[derive(Debug)]
pub(crate) struct Clock {
    /// Its index in the net.
    pub(crate) transition: usize,
    /// Probability that the clock starts in each phase.
    pub(crate) start: Vec<f64>,
    /// The rate of each phase and the probability that the next follows; otherwise the transition fires.
    pub(crate) phases: Vec<(f64, f64)>,
    /// Whether the phases stand for a fixed time.
    pub(crate) fixed: bool,
}

/// A net made ready to be fired many times.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) places: usize,
    /// Of the places, then of the transitions.
    pub(crate) names: Vec<String>,
    pub(crate) initial: Vec<Tokens>,
    /// By index in the net.
    pub(crate) fires: Vec<Fire>,
    pub(crate) timed: Vec<Timed>,
    /// The most urgent first, then in the order of the net.
    pub(crate) immediates: Vec<Immediate>,
    pub(crate) clocks: Vec<Clock>,
}

impl Compiled {
    /// `stages` phases stand for a fixed time; with 0 of them its end is an event of rate 1, wherever it runs.
    pub(crate) fn new(net: &Net, stages: u32) -> Self {
        let places = net.places.len();
        let mut compiled = Self {
            places,
            names: net
                .places
                .iter()
                .map(|it| &it.name)
                .chain(net.transitions.iter().map(|it| &it.name))
                .cloned()
                .collect(),
            initial: net.places.iter().map(|place| place.tokens).collect(),
            fires: Vec::new(),
            timed: Vec::new(),
            immediates: Vec::new(),
            clocks: Vec::new(),
        };
        for (transition, it) in net.transitions.iter().enumerate() {
            match &it.kind {
                Kind::Timed { rate, servers } => {
                    let zeros = match rate {
                        Rate::Constant(_) => Vec::new(),
                        Rate::ByTokens { rates, .. } => (0..rates.len()).filter(|entry| rates[*entry] <= 0.0).collect(),
                    };
                    compiled.timed.push(Timed { transition, rate: rate.clone(), servers: *servers, zeros });
                }
                Kind::Immediate { weight, priority, by } => {
                    let (weight, priority, by) = (*weight, *priority, *by);
                    compiled.immediates.push(Immediate { transition, weight, priority, by });
                }
                Kind::Deterministic { delay } => {
                    let rate = if stages == 0 { 1.0 } else { f64::from(stages) / delay };
                    compiled.clock(transition, &Phase::Erlang { stages: stages.max(1), rate }, true);
                }
                Kind::Phase(phase) => compiled.clock(transition, phase, false),
            }
        }
        compiled.immediates.sort_by_key(|immediate| std::cmp::Reverse(immediate.priority));
        let mut near: Vec<Vec<u32>> = vec![Vec::new(); places];
        for (position, immediate) in (0..).zip(&compiled.immediates) {
            let it = &net.transitions[immediate.transition];
            it.inputs.iter().chain(&it.inhibitors).for_each(|arc| near[arc.place].push(position));
        }
        let (mut stopped, mut room) = (vec![false; net.transitions.len()], LISTED);
        for (transition, it) in net.transitions.iter().enumerate() {
            let immediate = matches!(it.kind, Kind::Immediate { .. });
            let places = it.inputs.iter().chain(&it.outputs).map(|arc| arc.place);
            let most = places.map(|place| near[place].len()).sum::<usize>() * (1 + usize::from(immediate));
            let listed = most <= FEW || most <= room;
            let (mut touches, mut free) = (None, false);
            if listed {
                let mut all = compiled.touched(net, &near, &it.inputs, &it.outputs);
                // Where time passes no immediate is enabled, so that a timed transition disables none.
                if immediate {
                    free = all.is_empty();
                    for position in compiled.touched(net, &near, &it.outputs, &it.inputs) {
                        let other = compiled.immediates[position as usize].transition;
                        if other != transition {
                            (free, stopped[other]) = (false, true);
                        }
                        all.push(position);
                    }
                }
                room = room.saturating_sub(all.len());
                touches = Some(all);
            } else if immediate {
                stopped.fill(true);
            }
            let (inputs, outputs, inhibitors) = (it.inputs.clone(), it.outputs.clone(), it.inhibitors.clone());
            compiled.fires.push(Fire { inputs, outputs, inhibitors, touches, free });
        }
        compiled.fires.iter_mut().zip(stopped).for_each(|(fire, stopped)| fire.free &= !stopped);
        compiled
    }

    fn clock(&mut self, transition: usize, phase: &Phase, fixed: bool) {
        let (start, phases) = match phase {
            Phase::Erlang { stages, rate } => {
                let count = *stages as usize;
                let mut phases = vec![(*rate, 1.0); count];
                if let Some(last) = phases.last_mut() {
                    last.1 = 0.0;
                }
                (at_first(count), phases)
            }
            Phase::Hyper(branches) => {
                let sum: f64 = branches.iter().map(|(probability, _)| probability).sum();
                let start = branches.iter().map(|(probability, _)| probability / sum).collect();
                (start, branches.iter().map(|(_, rate)| (*rate, 0.0)).collect())
            }
            Phase::Coxian(phases) => (at_first(phases.len()), phases.clone()),
        };
        self.clocks.push(Clock { transition, start, phases, fixed });
    }

    /// Which immediates may be enabled by a firing that takes tokens from the places of `less` and puts some into those of `more`; the
    /// other way round, which may be disabled. `near` holds for each place the immediates that take from it or look at it.
    fn touched(&self, net: &Net, near: &[Vec<u32>], less: &[Arc], more: &[Arc]) -> Vec<u32> {
        let count = |arcs: &[Arc], place: usize| arcs.iter().find(|arc| arc.place == place).map_or(0, |arc| arc.count);
        let grows = |less: &[Arc], more: &[Arc], place: usize| count(more, place) > count(less, place);
        let touches = |position: &u32| {
            let it = &net.transitions[self.immediates[*position as usize].transition];
            it.inputs.iter().any(|arc| grows(less, more, arc.place))
                || it.inhibitors.iter().any(|arc| grows(more, less, arc.place))
        };
        let places = less.iter().chain(more).map(|arc| arc.place);
        let mut touched: Vec<u32> = places.flat_map(|place| near[place].iter().copied()).collect();
        touched.sort_unstable();
        touched.dedup();
        touched.retain(touches);
        touched
    }

    /// How many small nets this one is as wide as: what takes its time by marking takes so many times as much.
    pub(crate) fn wide(&self) -> usize {
        const SMALL: usize = 64;
        1 + self.places.max(self.immediates.len()) / SMALL
    }

    /// The name of a transition.
    pub(crate) fn transition(&self, transition: usize) -> &str {
        &self.names[self.places + transition]
    }

    /// Whether an immediate is enabled in `marking`.
    pub(crate) fn vanishing(&self, marking: &[u64]) -> bool {
        self.immediates.iter().any(|immediate| self.fires[immediate.transition].enabled(marking))
    }

    /// The immediates that may fire in `marking`, as positions: those enabled of the highest priority that any has.
    pub(crate) fn ready(&self, marking: &[u64], ready: &mut Vec<usize>) {
        ready.clear();
        let mut urgent = None;
        for (position, immediate) in self.immediates.iter().enumerate() {
            if urgent.is_some_and(|priority| priority != immediate.priority) {
                return;
            }
            if self.fires[immediate.transition].enabled(marking) {
                urgent = Some(immediate.priority);
                ready.push(position);
            }
        }
    }

    /// Firings per time unit of a timed transition; 0 where it is not enabled.
    pub(crate) fn rate(&self, timed: &Timed, marking: &[u64]) -> f64 {
        self.rate_by(timed, |place| marking[place])
    }

    /// [`Self::rate`] in a marking with so many `tokens` in each place that it looks at.
    #[expect(clippy::cast_precision_loss, reason = "a degree beyond 2^53 is meant to 53 bits")]
    pub(crate) fn rate_by(&self, timed: &Timed, tokens: impl Fn(usize) -> u64) -> f64 {
        let degree = self.fires[timed.transition].degree(&tokens);
        if degree == 0 {
            return 0.0;
        }
        let rate = match &timed.rate {
            Rate::Constant(rate) => *rate,
            Rate::ByTokens { place, rates } => {
                let last = rates.len() - 1;
                let entry = usize::try_from(tokens(*place)).unwrap_or(last).min(last);
                rates[entry]
            }
        };
        match timed.servers {
            Servers::Finite(servers) => rate * servers.min(degree) as f64,
            Servers::Infinite => rate * degree as f64,
        }
    }
}

fn at_first(count: usize) -> Vec<f64> {
    let mut start = vec![0.0; count];
    if let Some(first) = start.first_mut() {
        *first = 1.0;
    }
    start
}

impl Timed {
    /// Whether more tokens in the places marked `grown` can never make its rate 0 again, from `marking` on.
    pub(crate) fn lasts(&self, marking: &[u64], grown: &[bool]) -> bool {
        match &self.rate {
            Rate::Constant(_) => true,
            Rate::ByTokens { place, .. } if !grown[*place] => true,
            Rate::ByTokens { place, rates } => {
                let last = rates.len() - 1;
                let entry = usize::try_from(marking[*place]).unwrap_or(last).min(last);
                self.is_above_zero(entry..=last)
            }
        }
    }

    /// Whether no entry of its table in `entries` is 0.
    pub(super) fn is_above_zero(&self, entries: RangeInclusive<usize>) -> bool {
        let from = self.zeros.partition_point(|entry| entry < entries.start());
        self.zeros.get(from).is_none_or(|entry| entry > entries.end())
    }
}
