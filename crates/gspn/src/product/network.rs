//! Whether a net is closed networks of queues side by side: which customers, which stations, and how often they are visited.

use super::shared::Shared;
use super::station::{Service, Station};
use crate::chain::{Chain, long_run};
use crate::components;
use crate::net::{Kind, Net, Rate, Servers};
use crate::{Budget, Limits};

/// A closed network: customers that go between stations for ever.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) customers: u64,
    /// Where customers spend time in the end.
    pub(super) stations: Vec<Station>,
    /// Whether customers can come back to every place that they can reach.
    pub(super) whole: bool,
}

/// What becomes of a token in a place.
struct Way {
    /// The transitions that take it there, each with its part.
    parts: Vec<(usize, f64)>,
    /// How it is served; `None` where no time passes, or where it stays for ever.
    served: Option<(Rate, Servers)>,
    /// Whether no time passes.
    at_once: bool,
}

/// All networks of a net.
#[derive(Debug)]
pub(super) struct Networks {
    pub(super) networks: Vec<Network>,
    /// For each place its network.
    pub(super) of_place: Vec<usize>,
    /// For each transition its part in the departures of its place, where it ever fires.
    pub(super) parts: Vec<Option<(usize, f64)>>,
    /// Departures of each place, relative to others of its network.
    pub(super) visits: Vec<f64>,
    /// How far the equations of the visits are off, relatively.
    pub(super) residual: f64,
}

/// The networks of a net in which each transition moves one token and looks at no other; `None` of other nets, and where tokens of
/// one network may end in different places for good. Places whose customers take the same servers become one station.
pub(super) fn find(net: &Net, shared: &[Shared]) -> Option<Networks> {
    if !net.transitions().iter().all(moves_one) {
        return None;
    }
    let mut takers: Vec<Vec<usize>> = vec![Vec::new(); net.places().len()];
    for (index, it) in net.transitions().iter().enumerate() {
        takers[it.inputs.first()?.place].push(index);
    }
    let ways: Vec<Way> = takers.iter().map(|takers| way(net, takers)).collect::<Option<_>>()?;
    let target = |transition: usize| Some(net.transitions()[transition].outputs.first()?.place);
    let of_place = sides(net, &ways);
    let together = |it: &Shared| it.busy.iter().all(|place| of_place[*place] == of_place[it.busy[0]]);
    if !shared.iter().all(together) {
        return None;
    }
    let count = of_place.iter().max()? + 1;
    let mut tokens = vec![0_u64; count];
    for (place, side) in of_place.iter().enumerate() {
        tokens[*side] = tokens[*side].checked_add(net.places()[place].tokens)?;
    }
    // Where a table stands still with some tokens, these may stay on their way to where the others end.
    for (way, side) in ways.iter().zip(&of_place) {
        if let Some((rate, servers)) = &way.served {
            Service::of(rate, *servers, tokens[*side])?;
        }
    }
    let (mut rows, mut columns, mut rates) = (vec![0], Vec::new(), Vec::new());
    for (place, way) in ways.iter().enumerate() {
        let mut row: Vec<(usize, f64)> = Vec::new();
        for (transition, part) in &way.parts {
            let to = target(*transition)?;
            match row.iter_mut().find(|(other, _)| *other == to) {
                _ if to == place => {}
                Some((_, sum)) => *sum += part,
                None => row.push((to, *part)),
            }
        }
        for (to, part) in row {
            // Less than a number can say.
            if part == 0.0 {
                return None;
            }
            columns.push(u32::try_from(to).ok()?);
            rates.push(part);
        }
        rows.push(u32::try_from(columns.len()).ok()?);
    }
    let chain = Chain::from_rows(rows, columns, rates);
    let bottoms = bottoms(&chain, &of_place, count)?;
    // One token of each network goes its way; what share of steps it makes from each place is the place's visits.
    #[expect(clippy::cast_precision_loss, reason = "a start needs no precision")]
    let start: Vec<(u32, f64)> = bottoms.iter().map(|places| (places[0], 1.0 / count as f64)).collect();
    let limits = Limits::default();
    let found = long_run(&chain, &start, &mut Budget::new(limits, &mut |_| true)).ok()?;
    let mut networks = Vec::new();
    for (side, places) in bottoms.iter().enumerate() {
        let mut stations = Vec::new();
        for place in places {
            let place = *place as usize;
            let way = &ways[place];
            if way.at_once {
                continue;
            }
            if let Some(Shared { busy, rate, servers }) = shared.iter().find(|it| it.busy.contains(&place)) {
                if !stations.iter().any(|station: &Station| station.place == busy[0]) {
                    let visits = busy.iter().map(|place| found.distribution[*place]).sum();
                    let service = Service::of(&Rate::Constant(*rate), Servers::Finite(*servers), tokens[side])?;
                    stations.push(Station { place: busy[0], visits, service });
                }
                continue;
            }
            let service = match &way.served {
                Some((rate, servers)) => Service::of(rate, *servers, tokens[side])?,
                // Nobody leaves: with one such place all weights are the same.
                None => Service::of(&Rate::Constant(1.0), Servers::Finite(1), tokens[side])?,
            };
            stations.push(Station { place, visits: found.distribution[place], service });
        }
        if stations.is_empty() && tokens[side] > 0 {
            return None;
        }
        let own = of_place.iter().filter(|other| **other == side).count();
        networks.push(Network { customers: tokens[side], stations, whole: own == places.len() });
    }
    let parts = parts(net, &ways);
    Some(Networks { networks, of_place, parts, visits: found.distribution, residual: found.residual })
}

fn moves_one(transition: &crate::net::Transition) -> bool {
    let one = |arcs: &[crate::net::Arc]| matches!(arcs, [arc] if arc.count == 1);
    let alone = match &transition.kind {
        Kind::Timed { rate: Rate::ByTokens { place, .. }, .. } => {
            transition.inputs.first().is_some_and(|arc| arc.place == *place)
        }
        // A weight times the tokens of a place is one times those of an input, and there is one: see `way`.
        Kind::Timed { .. } | Kind::Immediate { .. } => true,
        Kind::Deterministic { .. } | Kind::Phase(_) => false,
    };
    alone && one(&transition.inputs) && one(&transition.outputs) && transition.inhibitors.is_empty()
}

/// What becomes of a token in the place that `takers` take from: the most urgent immediates take it by weight, else the timed
/// transitions, which must share it in the same way whatever the number of tokens.
fn way(net: &Net, takers: &[usize]) -> Option<Way> {
    let own = || takers.iter().map(|index| (*index, &net.transitions()[*index]));
    let urgent = own().filter_map(|(_, it)| match it.kind {
        Kind::Immediate { priority, .. } => Some(priority),
        _ => None,
    });
    if let Some(urgent) = urgent.max() {
        // Each token of the place counts as much as any other, however many there are, where that is so of all that take it.
        let mut by = own().filter_map(|(_, it)| match it.kind {
            Kind::Immediate { priority, by, .. } if priority == urgent => Some(by),
            _ => None,
        });
        let first = by.next();
        if by.any(|by| Some(by) != first) {
            return None;
        }
        let parts = own().filter_map(|(index, it)| match it.kind {
            Kind::Immediate { weight, priority, .. } if priority == urgent => Some((index, weight)),
            _ => None,
        });
        return Some(Way { parts: shared(parts.collect()), served: None, at_once: true });
    }
    let (mut parts, mut served) = (Vec::new(), None);
    for (index, it) in own() {
        let Kind::Timed { rate, servers } = &it.kind else { return None };
        let whole = match (&mut served, rate) {
            (None, rate) => {
                served = Some((rate.clone(), *servers));
                if let Rate::Constant(rate) = rate { *rate } else { 1.0 }
            }
            (Some((Rate::Constant(sum), same)), Rate::Constant(rate)) if same == servers => {
                *sum += rate;
                *rate
            }
            _ => return None,
        };
        parts.push((index, whole));
    }
    Some(Way { parts: shared(parts), served, at_once: false })
}

fn shared(parts: Vec<(usize, f64)>) -> Vec<(usize, f64)> {
    let sum: f64 = parts.iter().map(|(_, part)| part).sum();
    parts.into_iter().map(|(index, part)| (index, part / sum)).collect()
}

/// For each place the number of its network: places between which tokens go, in whichever direction.
fn sides(net: &Net, ways: &[Way]) -> Vec<usize> {
    let mut root: Vec<usize> = (0..ways.len()).collect();
    let find = |root: &[usize], mut place: usize| {
        while root[place] != place {
            place = root[place];
        }
        place
    };
    for (place, way) in ways.iter().enumerate() {
        for (transition, _) in &way.parts {
            if let Some(arc) = net.transitions()[*transition].outputs.first() {
                let (one, other) = (find(&root, place), find(&root, arc.place));
                root[one.max(other)] = one.min(other);
            }
        }
    }
    let mut numbers: Vec<Option<usize>> = vec![None; ways.len()];
    let mut next = 0;
    (0..ways.len())
        .map(|place| {
            *numbers[find(&root, place)].get_or_insert_with(|| {
                next += 1;
                next - 1
            })
        })
        .collect()
}

/// Of each network the places that tokens never leave together; `None` where there are two such sets.
fn bottoms(chain: &Chain, of_place: &[usize], count: usize) -> Option<Vec<Vec<u32>>> {
    let components = components::of(chain);
    let mut bottoms: Vec<Vec<u32>> = vec![Vec::new(); count];
    for component in 0..components.len() {
        let places = components.nodes(component);
        let leaves = places
            .iter()
            .any(|place| chain.row(*place as usize).any(|(to, _)| components.of[to] as usize != component));
        if leaves {
            continue;
        }
        let bottom = &mut bottoms[of_place[*places.first()? as usize]];
        if !bottom.is_empty() {
            return None;
        }
        *bottom = places.to_vec();
    }
    Some(bottoms)
}

fn parts(net: &Net, ways: &[Way]) -> Vec<Option<(usize, f64)>> {
    let mut parts = vec![None; net.transitions().len()];
    for (place, way) in ways.iter().enumerate() {
        for (transition, part) in &way.parts {
            parts[*transition] = Some((place, *part));
        }
    }
    parts
}
