//! Servers that several queues take in random order: each customer that waits is as likely to be next as any other, in whichever queue.
//!
//! Queues `q1`, `q2`, .., places `b1`, `b2`, .. of those that are served, and `free`; for each an immediate takes a token from its queue and one
//! from `free` and puts one into its place of those served, all with one weight, times the tokens of their queue (`weight_by`), and one
//! priority. A server takes as long, in the mean, for each of them. Then who is served and who waits is a queue of Kelly's (Reversibility and
//! Stochastic Networks, 3.1): the list of all n customers, of whom the first min(n, k) are served, where somebody new is put at any
//! place of those that wait. Its long run is a product, that of one station of k servers: of n customers there each is of a queue with
//! the part that this has in all visits, independently, whether it waits or is served.
//!
//! Whoever comes in has to be put in the list in one way, whatever it is: a customer that comes back without any time between would be among
//! those that its own server is given to next, and others are not. So it has to be that the server is given first, by priority.
//!
//! Only queues of one closed network: where customers never change from one to the other there are several numbers of customers, and
//! sums over all of them are not made here.

use super::held::{Held, Sort, puts, takes, touching};
use crate::net::{Arc, Kind, Net, Rate, Servers, Transition, build};

/// Queues that take the same servers.
#[derive(Debug)]
pub(super) struct Shared {
    /// Where customers are served; the first stands for the station.
    pub(super) busy: Vec<usize>,
    /// Of each server.
    pub(super) rate: f64,
    pub(super) servers: u64,
}

/// How far rates may differ that are sums of the same.
const ROUNDED: f64 = 1e-14;

/// The net with each customer going from its queue at once to where it is served, and who takes the same servers. `held` becomes what is
/// known of the places; nothing changes where a net has no such queues.
pub(super) fn without(net: Net, held: &mut [Option<Held>]) -> Option<(Net, Vec<Shared>)> {
    if !net.transitions().iter().any(|it| matches!(it.kind, Kind::Immediate { by: Some(_), .. })) {
        return Some((net, Vec::new()));
    }
    let touching = touching(&net);
    let (mut places, mut transitions) = (net.places().to_vec(), net.transitions().to_vec());
    let mut all = Vec::new();
    for free in 0..places.len() {
        let Some((takers, shared)) = of(free, &net, &touching) else { continue };
        for taker in takers {
            let it = &mut transitions[taker];
            it.inputs.retain(|arc| arc.place != free);
            let (queue, busy) = (it.inputs.first()?.place, it.outputs.first()?.place);
            for (place, sort) in [(queue, Sort::Waiting), (busy, Sort::Served)] {
                let seen = held[place].replace(Held::new(sort, shared.busy[0], shared.servers, Some(busy)));
                if seen.is_some() {
                    return None;
                }
            }
        }
        held[free] = Some(Held::new(Sort::Free, shared.busy[0], shared.servers, None));
        places[free].tokens = 0;
        for it in transitions.iter_mut().filter(|it| shared.busy.iter().any(|busy| takes(it, *busy))) {
            it.outputs.retain(|arc| arc.place != free);
        }
        all.push(shared);
    }
    Some((if all.is_empty() { net } else { build(net.name(), places, transitions).ok()? }, all))
}

/// The immediates that take servers from `free`, and the station.
fn of(free: usize, net: &Net, touching: &[Vec<usize>]) -> Option<(Vec<usize>, Shared)> {
    let transitions = net.transitions();
    let takers: Vec<usize> = touching[free].iter().copied().filter(|it| takes(&transitions[*it], free)).collect();
    let first = &transitions[*takers.first()?].kind;
    let Kind::Immediate { weight, priority, .. } = *first else { return None };
    let one = |arcs: &[Arc]| arcs.iter().all(|arc| arc.count == 1);
    let mut near: Vec<usize> = vec![free];
    let (mut busy, mut rate) = (Vec::new(), None);
    let mut servers = net.places()[free].tokens;
    for taker in &takers {
        let it = &transitions[*taker];
        let ([a, b], [to]) = (it.inputs.as_slice(), it.outputs.as_slice()) else { return None };
        let queue = if a.place == free { b.place } else { a.place };
        let alike = matches!(it.kind, Kind::Immediate { weight: other, priority: of, by: Some(by) }
            if other == weight && of == priority && by == queue);
        let alone = touching[queue].iter().all(|other| other == taker || !takes(&transitions[*other], queue));
        if !alike || !alone || !one(&it.inputs) || !one(&it.outputs) || !it.inhibitors.is_empty() {
            return None;
        }
        near.extend([queue, to.place]);
        busy.push(to.place);
        servers = servers.checked_add(net.places()[to.place].tokens)?;
    }
    let mut apart = near.clone();
    apart.sort_unstable();
    apart.dedup();
    if apart.len() != near.len() || servers == 0 || takers.len() < 2 {
        return None;
    }
    for place in &busy {
        let mut sum = 0.0;
        for it in touching[*place].iter().map(|it| &transitions[*it]).filter(|it| takes(it, *place)) {
            sum += served(it, free, servers)?;
        }
        let same = rate.is_none_or(|rate: f64| (rate - sum).abs() <= ROUNDED * rate);
        if sum == 0.0 || !same {
            return None;
        }
        rate = rate.or(Some(sum));
    }
    // Nobody else brings servers, is served, or looks at who is there.
    let others = near.iter().flat_map(|place| &touching[*place]).filter(|it| !takers.contains(it));
    let sound = others.map(|it| &transitions[*it]).all(|it| {
        let serves = busy.iter().any(|place| takes(it, *place));
        let looks = it.inhibitors.iter().any(|arc| near.contains(&arc.place));
        !looks && !busy.iter().any(|place| puts(it, *place)) && (serves || !puts(it, free) && !takes(it, free))
    });
    let queue = |place: usize| takers.iter().any(|taker| takes(&transitions[*taker], place)) && place != free;
    let serving = busy.iter().flat_map(|place| &touching[*place]).filter(|it| !takers.contains(it));
    let mut to = serving.flat_map(|it| &transitions[*it].outputs).map(|arc| arc.place).filter(|place| *place != free);
    let first = to.all(|place| !back_at_once(place, priority, &queue, net, touching));
    (sound && first).then_some((takers, Shared { busy, rate: rate?, servers }))
}

/// Whether a customer in `place` may be in a `queue` before immediates of `priority` fire.
fn back_at_once(
    place: usize,
    priority: u32,
    queue: &impl Fn(usize) -> bool,
    net: &Net,
    touching: &[Vec<usize>],
) -> bool {
    if queue(place) {
        return true;
    }
    let ways = |place: usize| {
        let own = touching[place].iter().map(|it| &net.transitions()[*it]).filter(move |it| takes(it, place));
        own.filter_map(|it| if let Kind::Immediate { priority, .. } = it.kind { Some((it, priority)) } else { None })
    };
    if ways(place).all(|(_, own)| own < priority) {
        return false;
    }
    let (mut seen, mut open) = (vec![place], vec![place]);
    while let Some(place) = open.pop() {
        for arc in ways(place).flat_map(|(it, _)| &it.outputs) {
            if queue(arc.place) {
                return true;
            }
            if !seen.contains(&arc.place) {
                seen.push(arc.place);
                open.push(arc.place);
            }
        }
    }
    false
}

/// The rate at which one customer is served, gives its server back to `free`, and goes elsewhere.
fn served(it: &Transition, free: usize, servers: u64) -> Option<f64> {
    let Kind::Timed { rate: Rate::Constant(rate), servers: own } = &it.kind else { return None };
    let enough = match own {
        Servers::Finite(own) => *own >= servers,
        Servers::Infinite => true,
    };
    let ones = it.inputs.iter().chain(&it.outputs).all(|arc| arc.count == 1);
    let returns = it.outputs.len() == 2 && puts(it, free) && it.inputs.len() == 1;
    (enough && ones && returns && it.inhibitors.is_empty()).then_some(*rate)
}
