//! Random nets that all end: in none does a firing add tokens on the whole.

use gspn::net::{Arc, Kind, Net, Phase, Place, Rate, Servers, Transition, build};
use proptest::prelude::*;

/// What may be in a net besides exponential times with one, two or all servers, immediates with weights and priorities, arcs of more
/// than one token, and inhibitors.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Parts {
    /// Tables of rates by tokens.
    pub(crate) tables: bool,
    /// Times of phase type.
    pub(crate) phases: bool,
    /// Fixed times.
    pub(crate) fixed: bool,
    /// Weights that are multiplied with the tokens of an input place.
    pub(crate) crowds: bool,
    /// Fewer transitions, and a timed one back for each of them, so that many nets never come to an end.
    pub(crate) back: bool,
}

fn arcs(places: usize, most: u64) -> impl Strategy<Value = Vec<(usize, u64)>> {
    prop::collection::vec((0..places, 1..=most), 1..3)
}

fn phase() -> impl Strategy<Value = Phase> {
    let rate = || (1_u32..40).prop_map(|rate| f64::from(rate) / 8.0);
    let part = || (1_u32..8).prop_map(|part| f64::from(part) / 8.0);
    prop_oneof![
        (1_u32..4, rate()).prop_map(|(stages, rate)| Phase::Erlang { stages, rate }),
        (part(), rate(), rate()).prop_map(|(part, one, other)| Phase::Hyper(vec![(part, one), (1.0 - part, other)])),
        (part(), rate(), rate()).prop_map(|(part, one, other)| Phase::Coxian(vec![(one, part), (other, 0.0)])),
    ]
}

fn kind(places: usize, parts: Parts) -> impl Strategy<Value = Kind> {
    let servers = prop_oneof![Just(Servers::Finite(1)), Just(Servers::Finite(2)), Just(Servers::Infinite)];
    let odds = |wanted: bool| if wanted { 2 } else { 0 };
    prop_oneof![
        8 => (1_u32..40, servers)
            .prop_map(|(rate, servers)| Kind::Timed { rate: Rate::Constant(f64::from(rate) / 8.0), servers }),
        odds(parts.tables) => (0..places, prop::collection::vec(0_u32..20, 1..4)).prop_map(|(place, rates)| Kind::Timed {
            rate: Rate::ByTokens { place, rates: rates.into_iter().map(f64::from).collect() },
            servers: Servers::Finite(1),
        }),
        6 => (1_u32..10, 1_u32..4).prop_map(|(weight, priority)| Kind::Immediate { weight: f64::from(weight), priority, by: None }),
        odds(parts.phases) => phase().prop_map(Kind::Phase),
        odds(parts.fixed) => (1_u32..20).prop_map(|delay| Kind::Deterministic { delay: f64::from(delay) / 8.0 }),
    ]
}

/// One arc a place, the first.
fn once(arcs: Vec<(usize, u64)>) -> Vec<Arc> {
    let mut kept: Vec<Arc> = Vec::new();
    for (place, count) in arcs {
        if !kept.iter().any(|arc| arc.place == place) {
            kept.push(Arc { place, count });
        }
    }
    kept
}

type Drawn = (Kind, Vec<(usize, u64)>, Vec<(usize, u64)>, Vec<(usize, u64)>);

fn transition(index: usize, (mut kind, inputs, outputs, inhibitors): Drawn, crowds: bool) -> Transition {
    let (inputs, mut outputs) = (once(inputs), once(outputs));
    if let (Kind::Immediate { by, .. }, [.., last]) = (&mut kind, inputs.as_slice()) {
        *by = (crowds && !index.is_multiple_of(3)).then_some(last.place);
    }
    let taken: u64 = inputs.iter().map(|arc| arc.count).sum();
    while outputs.iter().map(|arc| arc.count).sum::<u64>() > taken {
        match outputs.iter_mut().find(|arc| arc.count > 1) {
            Some(arc) => arc.count -= 1,
            None => drop(outputs.pop()),
        }
    }
    Transition { name: format!("t{index}"), kind, inputs, outputs, inhibitors: once(inhibitors) }
}

/// Undoes a firing that neither adds nor takes tokens on the whole.
fn back(forth: &Transition) -> Option<Transition> {
    let sum = |arcs: &[Arc]| arcs.iter().map(|arc| arc.count).sum::<u64>();
    let kind = Kind::Timed { rate: Rate::Constant(1.5), servers: Servers::Finite(1) };
    let (inputs, outputs) = (forth.outputs.clone(), forth.inputs.clone());
    let name = format!("{}back", forth.name);
    (sum(&inputs) == sum(&outputs)).then_some(Transition { name, kind, inputs, outputs, inhibitors: Vec::new() })
}

/// Nets of two to five places `p0`, `p1`, .. and three to nine transitions `t0`, `t1`, ..
pub(crate) fn nets(parts: Parts) -> impl Strategy<Value = Net> {
    (2_usize..6).prop_flat_map(move |places| {
        let tokens = prop::collection::vec(0_u64..4, places);
        let inhibitors = prop_oneof![3 => Just(Vec::new()), 1 => arcs(places, 3)];
        let drawn = (kind(places, parts), arcs(places, 2), arcs(places, 2), inhibitors);
        let transitions = prop::collection::vec(drawn, if parts.back { 2..5 } else { 3..10 });
        (tokens, transitions).prop_map(move |(tokens, transitions)| {
            let places =
                tokens.iter().enumerate().map(|(index, tokens)| Place { name: format!("p{index}"), tokens: *tokens });
            let transitions =
                transitions.into_iter().enumerate().map(|(index, drawn)| transition(index, drawn, parts.crowds));
            let mut transitions: Vec<_> = transitions.collect();
            if parts.back {
                let back: Vec<_> = transitions.iter().filter_map(back).collect();
                transitions.extend(back);
            }
            build("", places.collect(), transitions).unwrap()
        })
    })
}
