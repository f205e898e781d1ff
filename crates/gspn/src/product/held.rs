//! Servers that are tokens: a customer takes one of them at once when there is one, holds it while being served, and puts it back.
//!
//! Places `queue`, `busy` and `free`; one immediate transition takes a token from each of `queue` and `free` and puts one into `busy`; what takes
//! tokens from `busy` puts one into `free` and one elsewhere; nothing else touches `queue` (but to put tokens there), `busy` or `free`. Then
//! `busy + free` is always the same number k. While time passes the immediate is not enabled, so that with n customers in `queue`
//! and `busy` together, min(n, k) are in `busy`: the marking is known from n, and n falls at the rate of min(n, k) busy servers. That is a
//! place of n tokens with no more than k servers, and the immediate, which nothing else competes with, is a way there at once.
//!
//! Where two queues take the same servers it is not: which of them gets a free one is a matter of weights, whoever came first and
//! however many wait. Only a choice by their numbers has a product form ([`super::shared`]). Others are explored.
//!
//! A place that every transition gives back to what it took from it never changes: it only says how many may fire side by side.

use crate::net::{Arc, Kind, Net, Place, Rate, Servers, Transition, build};

/// What the tokens of a place are, by the number of customers at the station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// Customers that wait.
    Waiting,
    /// Customers that are served, each with a server.
    Served,
    /// Servers that wait.
    Free,
}

/// A place that belongs to such a station.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    sort: Sort,
    /// The place of the station in the net that [`without`] makes, and the servers.
    pub(crate) station: usize,
    servers: u64,
    /// Where several queues have the same servers: where the customers of this one are served, and only these are in the place.
    pub(super) own: Option<usize>,
}

impl Held {
    pub(super) fn new(sort: Sort, station: usize, servers: u64, own: Option<usize>) -> Self {
        Self { sort, station, servers, own }
    }

    /// Tokens in this place with so many customers at the station.
    pub(super) fn tokens(&self, customers: u64) -> u64 {
        match self.sort {
            Sort::Waiting => customers.saturating_sub(self.servers),
            Sort::Served => customers.min(self.servers),
            Sort::Free => self.servers.saturating_sub(customers),
        }
    }
}

impl Held {
    /// The same of customers that are no whole number.
    #[expect(clippy::cast_precision_loss, reason = "servers beyond 2^53 are meant to 53 bits")]
    pub(crate) fn quantity(&self, customers: f64) -> f64 {
        let servers = self.servers as f64;
        match self.sort {
            Sort::Waiting => (customers - servers).max(0.0),
            Sort::Served => customers.min(servers),
            Sort::Free => (servers - customers).max(0.0),
        }
    }
}

/// The net without tokens that are servers, with the same places and transitions, and what became of each place.
pub(crate) fn without(net: &Net) -> Option<(Net, Vec<Option<Held>>)> {
    let mut places: Vec<Place> = net.places().to_vec();
    let mut transitions: Vec<Transition> = net.transitions().to_vec();
    let mut held = vec![None; places.len()];
    let touching = touching(net);
    for (place, it) in net.places().iter().enumerate() {
        lend(place, it.tokens, &touching[place], &mut transitions);
    }
    for free in 0..places.len() {
        let Some(group) = Group::of(free, &touching, &transitions) else { continue };
        let Group { taker, queue, busy } = group;
        if [queue, busy, free].iter().any(|place| held[*place].is_some()) {
            return None;
        }
        let servers = places[free].tokens.checked_add(places[busy].tokens).filter(|servers| *servers > 0)?;
        for index in &touching[busy] {
            let it = &mut transitions[*index];
            if !takes(it, busy) {
                continue;
            }
            it.outputs.retain(|arc| arc.place != free);
            let Kind::Timed { rate, servers: own } = &mut it.kind else { return None };
            *own = Servers::Finite(if let Servers::Finite(own) = own { servers.min(*own) } else { servers });
            if let Rate::ByTokens { rates, .. } = rate {
                rates.truncate(usize::try_from(servers).unwrap_or(usize::MAX).saturating_add(1));
            }
        }
        transitions[taker].inputs.retain(|arc| arc.place == queue);
        places[free].tokens = 0;
        for (place, sort) in [(queue, Sort::Waiting), (busy, Sort::Served), (free, Sort::Free)] {
            held[place] = Some(Held::new(sort, busy, servers, None));
        }
    }
    Some((build(net.name(), places, transitions).ok()?, held))
}

/// For each place the transitions that take from it, put into it or look at it, in their order.
pub(super) fn touching(net: &Net) -> Vec<Vec<usize>> {
    let mut touching: Vec<Vec<usize>> = vec![Vec::new(); net.places().len()];
    for (index, it) in net.transitions().iter().enumerate() {
        for arc in it.inputs.iter().chain(&it.outputs).chain(&it.inhibitors) {
            if touching[arc.place].last() != Some(&index) {
                touching[arc.place].push(index);
            }
        }
    }
    touching
}

pub(super) fn takes(it: &Transition, place: usize) -> bool {
    it.inputs.iter().any(|arc| arc.place == place)
}

pub(super) fn puts(it: &Transition, place: usize) -> bool {
    it.outputs.iter().any(|arc| arc.place == place)
}

/// Takes `place` out of transitions that give back what they took, where all that touch it do so beside another place and one can fire.
fn lend(place: usize, tokens: u64, touching: &[usize], transitions: &mut [Transition]) {
    let count = |arcs: &[Arc]| arcs.iter().find(|arc| arc.place == place).map_or(0, |arc| arc.count);
    let own = || touching.iter().map(|index| &transitions[*index]);
    let lent = |it: &Transition| {
        let needed = count(&it.inputs);
        let of_tokens = matches!(&it.kind, Kind::Timed { rate: Rate::ByTokens { place: of, .. }, .. } if *of == place);
        needed == count(&it.outputs) && needed <= tokens && it.inputs.len() > 1 && !of_tokens
    };
    let looked_at = own().any(|it| it.inhibitors.iter().any(|arc| arc.place == place));
    if looked_at || !own().filter(|it| takes(it, place) || puts(it, place)).all(lent) {
        return;
    }
    for index in touching {
        let it = &mut transitions[*index];
        if !takes(it, place) {
            continue;
        }
        let most = tokens / count(&it.inputs).max(1);
        it.inputs.retain(|arc| arc.place != place);
        it.outputs.retain(|arc| arc.place != place);
        if let Kind::Timed { servers, .. } = &mut it.kind {
            *servers = Servers::Finite(if let Servers::Finite(own) = servers { most.min(*own) } else { most });
        }
    }
}

/// The immediate that takes servers from a place, and the other places of the station.
struct Group {
    taker: usize,
    queue: usize,
    busy: usize,
}

impl Group {
    fn of(free: usize, touching: &[Vec<usize>], transitions: &[Transition]) -> Option<Self> {
        let only = |place: usize| {
            let mut takers = touching[place].iter().copied().filter(|index| takes(&transitions[*index], place));
            takers.next().filter(|_| takers.next().is_none())
        };
        let taker = only(free)?;
        let it = &transitions[taker];
        let ones = |arcs: &[Arc]| arcs.iter().all(|arc| arc.count == 1);
        let ([one, other], [to]) = (it.inputs.as_slice(), it.outputs.as_slice()) else { return None };
        let queue = if one.place == free { other.place } else { one.place };
        let busy = to.place;
        let own = matches!(it.kind, Kind::Immediate { .. }) && it.inhibitors.is_empty();
        if !own || !ones(&it.inputs) || !ones(&it.outputs) || only(queue)? != taker || busy == queue || busy == free {
            return None;
        }
        let near =
            || [queue, busy, free].into_iter().flat_map(|place| &touching[place]).filter(|index| **index != taker);
        let sound = near().map(|index| &transitions[*index]).all(|it| {
            let serves = takes(it, busy);
            let looks = it.inhibitors.iter().any(|arc| [queue, busy, free].contains(&arc.place));
            // Who is served gives the server back and goes elsewhere; nobody else brings servers, or is served.
            let returns = it.outputs.iter().any(|arc| arc.place == free && arc.count == 1) && it.outputs.len() == 2;
            let timed = matches!(it.kind, Kind::Timed { .. }) && it.inputs.len() == 1 && ones(&it.inputs);
            !looks && !puts(it, busy) && if serves { timed && returns && ones(&it.outputs) } else { !puts(it, free) }
        });
        let served = near().any(|index| takes(&transitions[*index], busy));
        (sound && served).then_some(Self { taker, queue, busy })
    }
}
