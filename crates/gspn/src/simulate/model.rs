//! A net made ready to be simulated: what each firing changes, and whose clocks have to be looked at then.

use super::random::named;
use crate::net::{Arc, Kind, Net, Phase, Rate, Servers};

/// Bytes of a transition in a list.
const LISTED: u64 = 4;

/// What a firing does to one place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) place: usize,
    /// Added, modulo 2^64.
    pub(super) by: u64,
    /// Whether tokens are put there, so that the sum may be too large.
    pub(super) grows: bool,
}

/// When a transition fires.
#[derive(Debug, Clone)]
pub(super) enum Time {
    Immediate { weight: f64, priority: u32, by: Option<usize> },
    Exponential { rate: f64, servers: u64 },
    Table { place: usize, rates: Box<[f64]>, servers: u64 },
    Fixed(f64),
    Phase(Phase),
}

/// A transition.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) inputs: Box<[Arc]>,
    pub(super) inhibitors: Box<[Arc]>,
    pub(super) changes: Box<[Change]>,
    /// Slots of the timed transitions whose enabling or rate this one's firing may change.
    pub(super) dependants: Box<[u32]>,
    /// Immediates (indices in the net) that its firing may enable.
    pub(super) wakes: Box<[u32]>,
    pub(super) time: Time,
    /// Its slot, if it is timed.
    pub(super) slot: u32,
}

/// A net made ready to be simulated.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) initial: Vec<u64>,
    /// By index in the net.
    pub(super) parts: Vec<Part>,
    /// The index in the net of each slot.
    pub(super) timed: Vec<u32>,
    /// Names of the places.
    pub(super) places: Vec<String>,
    /// Of the transitions.
    pub(super) names: Vec<String>,
    /// [`named`] of the transition in each slot.
    pub(super) streams: Vec<u64>,
    /// Where two or more have fixed times, so that these may end at the same instant: the least of them.
    pub(super) least: Option<f64>,
    /// The longest fixed time.
    pub(super) longest: Option<f64>,
}

impl Part {
    pub(super) fn enabled(&self, marking: &[u64]) -> bool {
        self.inputs.iter().all(|arc| marking[arc.place] >= arc.count)
            && self.inhibitors.iter().all(|arc| marking[arc.place] < arc.count)
    }

    /// Firings per time unit of an exponential transition in `marking`, 0 where it is not enabled; for others 1 where they are.
    pub(super) fn rate(&self, marking: &[u64]) -> f64 {
        match &self.time {
            Time::Exponential { rate, servers: 1 } => {
                if self.enabled(marking) {
                    *rate
                } else {
                    0.0
                }
            }
            Time::Exponential { rate, servers } => rate * self.busy(*servers, marking),
            Time::Table { place, rates, servers } => {
                let last = rates.len() - 1;
                let entry = usize::try_from(marking[*place]).unwrap_or(last).min(last);
                rates[entry] * self.busy(*servers, marking)
            }
            Time::Immediate { .. } | Time::Fixed(_) | Time::Phase(_) => f64::from(u8::from(self.enabled(marking))),
        }
    }

    /// How many of the servers work.
    #[expect(clippy::cast_precision_loss, reason = "a degree beyond 2^53 is meant to 53 bits")]
    fn busy(&self, servers: u64, marking: &[u64]) -> f64 {
        if self.inhibitors.iter().any(|arc| marking[arc.place] >= arc.count) {
            return 0.0;
        }
        let degree = |arc: &Arc| if arc.count == 1 { marking[arc.place] } else { marking[arc.place] / arc.count };
        self.inputs.iter().map(degree).min().unwrap_or(u64::MAX).min(servers) as f64
    }
}

fn servers(servers: Servers) -> u64 {
    match servers {
        Servers::Finite(servers) => servers,
        Servers::Infinite => u64::MAX,
    }
}

impl Model {
    /// Whether runs may differ: a time is drawn, or one of several immediates.
    pub(super) fn chance(&self) -> bool {
        let mut priorities = Vec::new();
        self.parts.iter().any(|part| match part.time {
            Time::Fixed(_) => false,
            Time::Immediate { priority, .. } => {
                let twice = priorities.contains(&priority);
                priorities.push(priority);
                twice
            }
            _ => true,
        })
    }

    /// Firings per time unit of an exponential transition in `marking`.
    pub(super) fn rate(&self, transition: usize, marking: &[u64]) -> f64 {
        self.parts[transition].rate(marking)
    }

    /// Bytes that it takes at most, but for what is as large as the net: each transition lists those that it has a say in.
    pub(super) fn bytes(net: &Net) -> u64 {
        let mut readers = vec![0_u64; net.places.len()];
        let arcs = net.transitions.iter().flat_map(|it| it.inputs.iter().chain(&it.inhibitors));
        arcs.for_each(|arc| readers[arc.place] += 1);
        let changed = net.transitions.iter().flat_map(|it| changes(&it.inputs, &it.outputs));
        LISTED * changed.map(|change| readers[change.place]).sum::<u64>()
    }

    pub(super) fn new(net: &Net) -> Self {
        let immediate = |index: usize| matches!(net.transitions[index].kind, Kind::Immediate { .. });
        let all = 0..net.transitions.len();
        let timed: Vec<usize> = all.clone().filter(|index| !immediate(*index)).collect();
        let mut slots = vec![u32::MAX; net.transitions.len()];
        for (slot, index) in timed.iter().enumerate() {
            slots[*index] = number(slot);
        }
        // Which transitions each place has a say in.
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); net.places.len()];
        for index in all.clone() {
            let it = &net.transitions[index];
            let table = match &it.kind {
                Kind::Timed { rate: Rate::ByTokens { place, .. }, .. } => Some(*place),
                _ => None,
            };
            for place in it.inputs.iter().chain(&it.inhibitors).map(|arc| arc.place).chain(table) {
                if readers[place].last() != Some(&index) {
                    readers[place].push(index);
                }
            }
        }
        let parts = all.map(|index| part(net, index, &slots, &readers)).collect();
        let fixed = net.transitions.iter().filter_map(|it| match it.kind {
            Kind::Deterministic { delay } => Some(delay),
            _ => None,
        });
        let (longest, several) = (fixed.clone().reduce(f64::max), fixed.clone().nth(1).is_some());
        Self {
            initial: net.places.iter().map(|place| place.tokens).collect(),
            parts,
            places: net.places.iter().map(|it| it.name.clone()).collect(),
            streams: timed.iter().map(|index| named(&net.transitions[*index].name)).collect(),
            timed: timed.into_iter().map(number).collect(),
            names: net.transitions.iter().map(|it| it.name.clone()).collect(),
            least: fixed.reduce(f64::min).filter(|_| several),
            longest,
        }
    }
}

fn part(net: &Net, index: usize, slots: &[u32], readers: &[Vec<usize>]) -> Part {
    let it = &net.transitions[index];
    let changes = changes(&it.inputs, &it.outputs);
    let mut affected: Vec<usize> = changes.iter().flat_map(|change| &readers[change.place]).copied().collect();
    affected.push(index);
    affected.sort_unstable();
    affected.dedup();
    let timed = |index: &usize| slots[*index] != u32::MAX;
    Part {
        inputs: it.inputs.clone().into(),
        inhibitors: it.inhibitors.clone().into(),
        dependants: affected.iter().filter(|it| timed(it)).map(|it| slots[*it]).collect(),
        wakes: affected.iter().filter(|it| !timed(it)).map(|it| number(*it)).collect(),
        changes,
        slot: slots[index],
        time: match &it.kind {
            Kind::Immediate { weight, priority, by } => {
                Time::Immediate { weight: *weight, priority: *priority, by: *by }
            }
            Kind::Timed { rate: Rate::Constant(rate), servers: count } => {
                Time::Exponential { rate: *rate, servers: servers(*count) }
            }
            Kind::Timed { rate: Rate::ByTokens { place, rates }, servers: count } => {
                Time::Table { place: *place, rates: rates.clone().into(), servers: servers(*count) }
            }
            Kind::Deterministic { delay } => Time::Fixed(*delay),
            Kind::Phase(phase) => Time::Phase(phase.clone()),
        },
    }
}

fn changes(inputs: &[Arc], outputs: &[Arc]) -> Box<[Change]> {
    let mut changes: Vec<Change> = Vec::new();
    for arc in inputs {
        let back = outputs.iter().find(|other| other.place == arc.place).map_or(0, |other| other.count);
        if back != arc.count {
            changes.push(Change { place: arc.place, by: back.wrapping_sub(arc.count), grows: back > arc.count });
        }
    }
    for arc in outputs.iter().filter(|arc| inputs.iter().all(|other| other.place != arc.place)) {
        changes.push(Change { place: arc.place, by: arc.count, grows: true });
    }
    changes.into()
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
