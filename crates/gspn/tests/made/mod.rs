//! Random nets.

use gspn::net::{Arc, Kind, Net, Place, Rate, Servers, Transition, build};
use proptest::prelude::*;

fn arcs(places: usize, most: u64) -> impl Strategy<Value = Vec<(usize, u64)>> {
    prop::collection::vec((0..places, 1..=most), 1..3)
}

/// Nets in which no firing adds tokens on the whole, so that all of them end.
pub(crate) fn nets() -> impl Strategy<Value = Net> {
    (2_usize..6).prop_flat_map(|places| {
        let tokens = prop::collection::vec(0_u64..4, places);
        let kind = prop_oneof![
            4 => (1_u32..40, prop_oneof![Just(Servers::Finite(1)), Just(Servers::Finite(2)), Just(Servers::Infinite)])
                .prop_map(|(rate, servers)| Kind::Timed { rate: Rate::Constant(f64::from(rate) / 8.0), servers }),
            1 => (0..places, prop::collection::vec(0_u32..20, 1..4)).prop_map(|(place, rates)| Kind::Timed {
                rate: Rate::ByTokens { place, rates: rates.into_iter().map(f64::from).collect() },
                servers: Servers::Finite(1),
            }),
            3 => (1_u32..10, 1_u32..4).prop_map(|(weight, priority)| Kind::Immediate { weight: f64::from(weight), priority }),
        ];
        let inhibitors = prop_oneof![3 => Just(Vec::new()), 1 => arcs(places, 3)];
        let transition = (kind, arcs(places, 2), arcs(places, 2), inhibitors);
        let transitions = prop::collection::vec(transition, 3..10);
        (tokens, transitions).prop_map(|(tokens, transitions)| {
            let places = tokens.iter().enumerate().map(|(index, tokens)| Place { name: format!("p{index}"), tokens: *tokens });
            let once = |arcs: Vec<(usize, u64)>| {
                let mut kept: Vec<Arc> = Vec::new();
                for (place, count) in arcs {
                    if !kept.iter().any(|arc| arc.place == place) {
                        kept.push(Arc { place, count });
                    }
                }
                kept
            };
            let transitions = transitions.into_iter().enumerate().map(|(index, (kind, inputs, outputs, inhibitors))| {
                let (inputs, mut outputs) = (once(inputs), once(outputs));
                let taken: u64 = inputs.iter().map(|arc| arc.count).sum();
                while outputs.iter().map(|arc| arc.count).sum::<u64>() > taken {
                    match outputs.iter_mut().find(|arc| arc.count > 1) {
                        Some(arc) => arc.count -= 1,
                        None => drop(outputs.pop()),
                    }
                }
                Transition { name: format!("t{index}"), kind, inputs, outputs, inhibitors: once(inhibitors) }
            });
            build("", places.collect(), transitions.collect()).unwrap()
        })
    })
}
