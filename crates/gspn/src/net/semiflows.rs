//! Sums with weights not below 0 that nothing changes, and bounds of places that hold in every marking: from sums of tokens that no
//! firing changes, and of places that are emptied at once.

use super::{Arc, Kind, Net, Tokens};

/// Sums that are kept at once; with more, no bounds are given.
const ROWS: usize = 600;
/// Places and transitions up to which sums are looked for.
const LARGEST: usize = 2_000;
/// Steps of the elimination, each over one row.
const WORK: usize = 300_000;

/// A sum with weights not below 0: what each column changes of it, and the weights. Both sorted by index. For a sum of tokens columns are
/// transitions, and weights those of places; the other way round it says how often transitions fire.
pub(super) struct Row {
    changes: Vec<(usize, i128)>,
    pub(super) weights: Vec<(usize, i128)>,
}

/// For each place the most tokens that it can hold, where a sum of tokens that never changes says so (Farkas), or else an immediate
/// transition that waits for nothing but its tokens; where there are too many such sums, one that no firing raises.
pub(crate) fn bounds(net: &Net) -> Vec<Option<Tokens>> {
    let mut most = vec![None; net.places.len()];
    let (sums, all) = sums(net, WORK);
    for row in sums.into_iter().filter(|_| all) {
        let start = row.weights.iter().try_fold(0_i128, |sum, (place, weight)| {
            sum.checked_add(weight.checked_mul(i128::from(net.places[*place].tokens))?)
        });
        let Some(start) = start else { continue };
        for (place, weight) in &row.weights {
            if let Ok(bound) = Tokens::try_from(start / weight) {
                most[*place] = Some(most[*place].map_or(bound, |known: Tokens| known.min(bound)));
            }
        }
    }
    for (most, emptied) in most.iter_mut().zip(emptied(net)) {
        *most = most.or(emptied);
    }
    if !all {
        super::cover::bounds(net, &super::invariants::changes(net), &mut most);
        let never = never_more(net);
        most.iter_mut().filter(|most| most.is_none()).for_each(|most| *most = never);
    }
    most
}

/// All tokens at the beginning, where no firing puts more than it takes: so many may be in one place. This is had of the largest net.
fn never_more(net: &Net) -> Option<Tokens> {
    let sum = |arcs: &[Arc]| arcs.iter().try_fold(0, |sum: Tokens, arc| sum.checked_add(arc.count));
    let grows = |it: &super::Transition| match (sum(&it.inputs), sum(&it.outputs)) {
        (Some(taken), Some(put)) => put > taken,
        _ => true,
    };
    if net.transitions.iter().any(grows) {
        return None;
    }
    net.places.iter().try_fold(0, |sum: Tokens, place| sum.checked_add(place.tokens))
}

/// [`bounds`], and where those leave a place out, by sums of tokens that firings may lower.
pub(crate) fn all_bounds(net: &Net) -> Vec<Option<Tokens>> {
    let mut most = bounds(net);
    if most.iter().any(Option::is_none) {
        super::cover::bounds(net, &super::invariants::changes(net), &mut most);
    }
    most
}

/// For each place the most tokens in it where immediates only take from it, one of them whenever there are enough: time passes only while
/// there are fewer, and one timed firing adds to those.
fn emptied(net: &Net) -> Vec<Option<Tokens>> {
    // What is left of so many, what a timed firing adds at most, and whether an immediate adds.
    let mut places = vec![(None, 0, false); net.places.len()];
    for it in net.transitions() {
        let count = |arcs: &[Arc], place| arcs.iter().find(|arc| arc.place == place).map_or(0, |arc| arc.count);
        for arc in it.inputs.iter().chain(&it.outputs) {
            let (takes, puts) = (count(&it.inputs, arc.place), count(&it.outputs, arc.place));
            let (left, added, grows) = &mut places[arc.place];
            if !matches!(it.kind, Kind::Immediate { .. }) {
                *added = puts.saturating_sub(takes).max(*added);
                continue;
            }
            *grows |= puts > takes;
            if it.inputs.len() == 1 && it.inhibitors.is_empty() && takes > 0 {
                *left = Some(left.map_or(takes - 1, |left: Tokens| left.min(takes - 1)));
            }
        }
    }
    let known = places.into_iter().zip(&net.places);
    known
        .map(|((left, added, grows), place)| {
            let left = left.filter(|_| !grows)?;
            Some(place.tokens.max(left.checked_add(added)?))
        })
        .collect()
}

/// Sums of tokens that no transition changes, and whether they are all.
pub(super) fn sums(net: &Net, work: usize) -> (Vec<Row>, bool) {
    unchanged(super::invariants::changes(net), net.transitions.len(), work)
}

/// Transitions that together leave more tokens than they take in some place, and nowhere fewer, if they can all fire; the fewest first.
/// `changes` holds for each transition what it changes, by place.
pub(crate) fn growths(changes: &[Vec<(usize, i128)>], places: usize) -> Vec<Vec<usize>> {
    let grows = |changes: &&Vec<(usize, i128)>| !changes.is_empty() && changes.iter().all(|(_, change)| *change > 0);
    let alone = changes.iter().enumerate().filter(|(_, changes)| grows(changes)).map(|(index, _)| vec![index]);
    // What is too much in a place is taken away from it.
    let rows = changes.iter().cloned().chain((0..places).map(|place| vec![(place, -1)])).collect();
    let (rows, _) = unchanged(rows, places, WORK);
    let taken = |row: &Row| row.weights.iter().any(|(index, _)| *index >= changes.len());
    let firing = |row: Row| row.weights.into_iter().map(|(index, _)| index).filter(|index| *index < changes.len());
    let mut growths: Vec<Vec<usize>> =
        alone.chain(rows.into_iter().filter(taken).map(|row| firing(row).collect())).collect();
    growths.sort_by(|one: &Vec<usize>, other| one.len().cmp(&other.len()).then_with(|| one.cmp(other)));
    growths.dedup();
    growths
}

/// Combinations of `rows` in which each of the columns, of which there are so many, adds up to 0. `false` where there are too many on the
/// way, they take more than so many steps, or numbers grow out of range: then only those that were found.
pub(super) fn unchanged(rows: Vec<Vec<(usize, i128)>>, columns: usize, work: usize) -> (Vec<Row>, bool) {
    if rows.len() > LARGEST || columns > LARGEST {
        return (Vec::new(), false);
    }
    let rows = rows.into_iter().enumerate();
    let mut rows: Vec<Row> = rows.map(|(index, changes)| Row { changes, weights: vec![(index, 1)] }).collect();
    let all = eliminate(&mut rows, columns, work).is_some();
    rows.retain(|row| row.changes.is_empty());
    (rows, all)
}

fn eliminate(rows: &mut Vec<Row>, columns: usize, most: usize) -> Option<()> {
    let mut left: Vec<usize> = (0..columns).collect();
    let mut work = 0;
    while !left.is_empty() {
        // The column that makes the fewest new rows goes first.
        let mut counts = vec![(0_usize, 0_usize); columns];
        for (column, change) in rows.iter().flat_map(|row| &row.changes) {
            let (up, down) = &mut counts[*column];
            *(if *change > 0 { up } else { down }) += 1;
        }
        let position = (0..left.len()).min_by_key(|position| {
            let (up, down) = counts[left[*position]];
            up * down
        })?;
        let column = left.swap_remove(position);
        let touched: Vec<Row> = rows.extract_if(.., |row| row.change(column) != 0).collect();
        let (up, down): (Vec<&Row>, Vec<&Row>) = touched.iter().partition(|row| row.change(column) > 0);
        for one in &up {
            for other in &down {
                work += 1 + rows.len() / 64;
                let row = one.with(other, column)?;
                if !rows.iter().any(|known| known.covers(&row)) {
                    rows.push(row);
                }
                if rows.len() > ROWS || work > most {
                    return None;
                }
            }
        }
    }
    Some(())
}

impl Row {
    fn change(&self, transition: usize) -> i128 {
        self.changes.binary_search_by_key(&transition, |(index, _)| *index).map_or(0, |at| self.changes[at].1)
    }

    /// Whether what it sums up is among what `other` does, which then says nothing more.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let mut there = other.weights.iter();
        self.weights.iter().all(|(place, _)| there.any(|(other, _)| other == place))
    }

    /// The sum of both in which `column`, which raises this one and lowers `other`, changes nothing.
    fn with(&self, other: &Self, column: usize) -> Option<Self> {
        let (by, and) = (-other.change(column), self.change(column));
        let changes = super::invariants::combine(&self.changes, by, &other.changes, and)?;
        let weights = super::invariants::combine(&self.weights, by, &other.weights, and)?;
        let (changes, weights) = super::invariants::reduced(changes, weights);
        Some(Self { changes, weights })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Arc, Kind, Place, Rate, Servers, Transition, build};

    type Arcs<'a> = &'a [(usize, u64)];

    fn net(tokens: &[u64], transitions: &[(Arcs<'_>, Arcs<'_>)]) -> Net {
        let places =
            tokens.iter().enumerate().map(|(index, tokens)| Place { name: format!("p{index}"), tokens: *tokens });
        let arcs =
            |arcs: &[(usize, u64)]| arcs.iter().map(|(place, count)| Arc { place: *place, count: *count }).collect();
        let transitions = transitions.iter().enumerate().map(|(index, (inputs, outputs))| Transition {
            name: format!("t{index}"),
            kind: Kind::Timed { rate: Rate::Constant(1.0), servers: Servers::Finite(1) },
            inputs: arcs(inputs),
            outputs: arcs(outputs),
            inhibitors: Vec::new(),
        });
        build("", places.collect(), transitions.collect()).unwrap()
    }

    #[test]
    fn a_sum_that_never_changes_bounds_its_places() {
        // 2 p0 + p1 = 7, and p2 grows.
        let net = net(&[2, 3, 0], &[(&[(0, 1)], &[(1, 2), (2, 1)]), (&[(1, 2)], &[(0, 1)])]);
        assert_eq!(bounds(&net), [Some(3), Some(7), None]);
    }

    #[test]
    fn two_sums_give_the_smaller_bound() {
        // p0 + p1 = 5 and p1 + p2 = 1.
        let net = net(&[5, 0, 1], &[(&[(0, 1), (2, 1)], &[(1, 1)]), (&[(1, 1)], &[(0, 1), (2, 1)])]);
        assert_eq!(bounds(&net), [Some(5), Some(1), Some(1)]);
    }

    #[test]
    fn where_sums_are_too_many_a_program_finds_those_that_bound() {
        // Each of ten takes any of ten slots, does two things at once there, and comes back.
        const SLOTS: usize = 10;
        let mut transitions: Vec<[Vec<(usize, u64)>; 2]> = Vec::new();
        for slot in 0..SLOTS {
            let first = 1 + 5 * slot;
            let [free, left, right, one, other] = [first, first + 1, first + 2, first + 3, first + 4];
            transitions.push([vec![(0, 1), (free, 1)], vec![(left, 1), (right, 1)]]);
            transitions.push([vec![(left, 1)], vec![(one, 1)]]);
            transitions.push([vec![(right, 1)], vec![(other, 1)]]);
            transitions.push([vec![(one, 1), (other, 1)], vec![(0, 1), (free, 1)]]);
        }
        let tokens = |place: usize| if place == 0 { SLOTS as u64 } else { u64::from(place % 5 == 1) };
        let tokens: Vec<u64> = (0..=5 * SLOTS).map(tokens).collect();
        let transitions: Vec<(Arcs<'_>, Arcs<'_>)> =
            transitions.iter().map(|[inputs, outputs]| (&inputs[..], &outputs[..])).collect();
        let mut net = net(&tokens, &transitions);
        assert!(!sums(&net, WORK).1, "they are not too many");
        let most = |place: usize| Some(if place == 0 { SLOTS as u64 } else { 1 });
        assert_eq!(bounds(&net), (0..=5 * SLOTS).map(most).collect::<Vec<_>>());
        // One more each time, and neither the place where all come from nor what may be taken from it has a bound.
        net.transitions[3].outputs[0].count = 2;
        assert_eq!(bounds(&net)[0], None);
    }

    #[test]
    fn of_thousands_of_places_all_tokens_bound_each_where_no_firing_brings_more() {
        const PLACES: usize = LARGEST + 1;
        let arcs: Vec<[(usize, u64); 2]> = (0..PLACES).map(|place| [(place, 1), ((place + 1) % PLACES, 1)]).collect();
        let transitions: Vec<(Arcs<'_>, Arcs<'_>)> = arcs.iter().map(|arcs| (&arcs[..1], &arcs[1..])).collect();
        let mut tokens = vec![0; PLACES];
        (tokens[0], tokens[7]) = (1, 2);
        let mut net = net(&tokens, &transitions);
        assert_eq!(bounds(&net), vec![Some(3); PLACES]);
        net.transitions[9].outputs[0].count = 2;
        assert_eq!(bounds(&net), vec![None; PLACES]);
    }

    #[test]
    fn a_place_that_an_immediate_empties_at_once_holds_what_one_firing_brings() {
        // p0 and p1 change places, and each firing puts three into p2, of which two at a time leave at once.
        let timed: [(Arcs<'_>, Arcs<'_>); 2] = [(&[(0, 1)], &[(1, 1), (2, 3)]), (&[(1, 1)], &[(0, 1)])];
        let with = |inputs: Arcs<'_>, outputs: Arcs<'_>, tokens: u64| {
            let mut net = net(&[1, 0, tokens], &[timed[0], timed[1], (inputs, outputs)]);
            net.transitions[2].kind = Kind::Immediate { weight: 1.0, priority: 1, by: None };
            bounds(&net)[2]
        };
        assert_eq!(with(&[(2, 2)], &[], 0), Some(4));
        assert_eq!(with(&[(2, 2)], &[], 9), Some(9), "it may begin with more");
        assert_eq!(with(&[(0, 1), (2, 2)], &[(0, 1)], 0), None, "it waits for another place");
        assert_eq!(with(&[(2, 2)], &[(2, 2)], 0), Some(4), "a trap is no way to gather more");
        assert_eq!(with(&[(2, 2)], &[(2, 3)], 0), None, "it brings more than it takes");
    }
}
