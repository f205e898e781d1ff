//! What the arcs of a net say before anything fires: sums of tokens that never change, firings that lead back, and which immediates take
//! tokens from each other. Leaves out rates, and which markings can be reached.

use std::collections::BTreeMap;

use super::semiflows::{self, Row};
use super::{Arc, Kind, Net, Tokens};

/// Steps of each elimination: a net of hundreds of places takes a moment, not seconds.
const WORK: usize = 50_000;

/// Weights by index, each at least 1, sorted by index.
pub type Weights = Vec<(usize, u64)>;

/// Places whose weighted tokens add up to the same number in every marking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sum {
    /// By place.
    pub weights: Weights,
    /// What they add up to.
    pub tokens: Tokens,
}

/// What the arcs of a net say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Structure {
    /// Place invariants (P-semiflows) with as few places as can be.
    pub places: Vec<Sum>,
    /// Whether these are all of them; there may be more than anyone can count.
    pub all_places: bool,
    /// Transition invariants (T-semiflows): how often transitions fire, as few of them as can be, until every place holds what it held
    /// before, if they can fire in some order.
    pub transitions: Vec<Weights>,
    /// Whether these are all of them.
    pub all_transitions: bool,
    /// Immediate transitions of one priority that may take from each other what they need, directly or through others: extended conflict
    /// sets, each of two at least, in the order of the net.
    pub conflicts: Vec<Vec<usize>>,
}

/// Looks at the arcs of `net`, with bounded work.
#[must_use]
pub fn structure(net: &Net) -> Structure {
    let (sums, mut all_places) = semiflows::sums(net, WORK);
    let (sums, fit) = least(sums);
    all_places &= fit;
    let mut places = Vec::new();
    for weights in sums {
        let tokens = weights
            .iter()
            .try_fold(0_u64, |sum, (place, weight)| sum.checked_add(weight.checked_mul(net.places[*place].tokens)?));
        match tokens {
            Some(tokens) => places.push(Sum { weights, tokens }),
            None => all_places = false,
        }
    }
    let (rounds, all) = semiflows::unchanged(transposed(net), net.places.len(), WORK);
    let (transitions, fit) = least(rounds);
    Structure { places, all_places, transitions, all_transitions: all && fit, conflicts: conflicts(net) }
}

/// For each transition what it changes in each place, by place.
fn transposed(net: &Net) -> Vec<Vec<(usize, i128)>> {
    let mut rows = vec![Vec::new(); net.transitions.len()];
    for (place, changes) in super::invariants::changes(net).into_iter().enumerate() {
        changes.into_iter().for_each(|(transition, change)| rows[transition].push((place, change)));
    }
    rows
}

/// Those that no other is a part of, in the order of the net; and whether their numbers can be said.
fn least(rows: Vec<Row>) -> (Vec<Weights>, bool) {
    let alone = |at: usize| {
        let less =
            |(other, row): (usize, &Row)| other != at && row.covers(&rows[at]) && (other < at || !rows[at].covers(row));
        !rows.iter().enumerate().any(less)
    };
    let say = |row: &Row| {
        let weights = row.weights.iter().map(|(index, weight)| Some((*index, u64::try_from(*weight).ok()?)));
        weights.collect::<Option<Weights>>()
    };
    let found: Vec<Option<Weights>> = (0..rows.len()).filter(|at| alone(*at)).map(|at| say(&rows[at])).collect();
    let fit = found.iter().all(Option::is_some);
    let mut found: Vec<Weights> = found.into_iter().flatten().collect();
    found.sort_unstable();
    (found, fit)
}

/// The immediates of one priority that take from a place, put into it, or must not find too much there.
/// The immediates of one priority beside a place.
#[derive(Default)]
struct Near {
    needing: Vec<usize>,
    /// Those that leave fewer tokens there, and those that leave more.
    taking: bool,
    putting: Vec<usize>,
    stopped: Vec<usize>,
}

/// Two immediates are in conflict where one leaves fewer tokens than there were in a place of which both need some, or more in one that
/// must not hold too much for the other.
fn conflicts(net: &Net) -> Vec<Vec<usize>> {
    let mut near: BTreeMap<(u32, usize), Near> = BTreeMap::new();
    for (index, it) in net.transitions.iter().enumerate() {
        let Kind::Immediate { priority, .. } = it.kind else { continue };
        let of = |arcs: &[Arc], place: usize| {
            arcs.iter().filter(|arc| arc.place == place).map(|arc| i128::from(arc.count)).sum::<i128>()
        };
        let change = |place: usize| of(&it.outputs, place) - of(&it.inputs, place);
        for arc in &it.inputs {
            let near = near.entry((priority, arc.place)).or_default();
            near.needing.push(index);
            near.taking |= change(arc.place) < 0;
        }
        for arc in it.outputs.iter().filter(|arc| change(arc.place) > 0) {
            near.entry((priority, arc.place)).or_default().putting.push(index);
        }
        it.inhibitors.iter().for_each(|arc| near.entry((priority, arc.place)).or_default().stopped.push(index));
    }
    let mut of: Vec<usize> = (0..net.transitions.len()).collect();
    for Near { needing, taking, putting, stopped } in near.values() {
        let needing = if *taking { needing.as_slice() } else { &[] };
        let inhibited =
            if putting.is_empty() || stopped.is_empty() { Vec::new() } else { [putting.as_slice(), stopped].concat() };
        for some in [needing, &inhibited] {
            some.windows(2).for_each(|pair| join(&mut of, pair[0], pair[1]));
        }
    }
    let mut sets: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for index in 0..of.len() {
        sets.entry(root(&mut of, index)).or_default().push(index);
    }
    sets.into_values().filter(|set| set.len() > 1).collect()
}

/// The first of the set that `at` is in.
fn root(of: &mut [usize], mut at: usize) -> usize {
    while of[at] != at {
        of[at] = of[of[at]];
        at = of[at];
    }
    at
}

fn join(of: &mut [usize], one: usize, other: usize) {
    let (one, other) = (root(of, one), root(of, other));
    of[one.max(other)] = one.min(other);
}
