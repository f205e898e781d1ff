//! Place invariants: weights under which no firing changes the sum of tokens.

use super::Net;
use crate::{Budget, Progress, Refusal};

/// Weights by place, of either sign.
pub(crate) type Weights = Vec<(usize, i128)>;

/// Places and transitions up to which they are looked for.
const LARGEST: usize = 2_000;

/// A basis of all place invariants, by elimination on whole numbers. Fewer, or none, where the numbers grow out of range.
///
/// # Errors
/// When the time of the budget is over.
pub(crate) fn places(net: &Net, budget: &mut Budget<'_>) -> Result<Vec<Weights>, Refusal> {
    if net.places.len() > LARGEST || net.transitions.len() > LARGEST {
        return Ok(Vec::new());
    }
    // One row a place: its changes by transition, then which places went into the row.
    let rows = changes(net).into_iter().enumerate();
    let mut rows: Vec<Row> = rows.map(|(place, changes)| Row { changes, weights: vec![(place, 1)] }).collect();
    let mut basis = Vec::new();
    for transition in 0..net.transitions.len() {
        let Some(pivot) = rows.iter().position(|row| row.change(transition) != 0) else { continue };
        let pivot = rows.swap_remove(pivot);
        let mut left = Vec::with_capacity(rows.len());
        for (index, row) in rows.into_iter().enumerate() {
            // Rows may become as long as the net is large.
            if index % 256 == 0 {
                budget.look(Progress::Solving { sweeps: transition as u64, error: 0.0 })?;
            }
            left.extend(row.without(transition, &pivot));
        }
        rows = left;
    }
    for row in rows {
        if row.changes.is_empty() {
            basis.push(row.weights);
        }
    }
    Ok(basis)
}

/// For each place what each transition changes there, where that is not 0, by transition.
pub(super) fn changes(net: &Net) -> Vec<Vec<(usize, i128)>> {
    let mut rows: Vec<Vec<(usize, i128)>> = vec![Vec::new(); net.places.len()];
    for (index, transition) in net.transitions.iter().enumerate() {
        for arc in &transition.outputs {
            rows[arc.place].push((index, i128::from(arc.count)));
        }
        for arc in &transition.inputs {
            let row = &mut rows[arc.place];
            let put = row.pop_if(|(last, _)| *last == index).map_or(0, |(_, put)| put);
            let change = put - i128::from(arc.count);
            if change != 0 {
                row.push((index, change));
            }
        }
    }
    rows
}

/// Two sparse vectors, sorted by index.
struct Row {
    changes: Vec<(usize, i128)>,
    weights: Weights,
}

impl Row {
    fn change(&self, transition: usize) -> i128 {
        self.changes.binary_search_by_key(&transition, |(index, _)| *index).map_or(0, |at| self.changes[at].1)
    }

    /// This row, with as much of `pivot` as takes `transition` out of it; `None` when a number grows out of range.
    fn without(self, transition: usize, pivot: &Self) -> Option<Self> {
        let own = self.change(transition);
        if own == 0 {
            return Some(self);
        }
        let other = pivot.change(transition);
        let changes = combine(&self.changes, other, &pivot.changes, -own)?;
        let weights = combine(&self.weights, other, &pivot.weights, -own)?;
        let (changes, weights) = reduced(changes, weights);
        Some(Self { changes, weights })
    }
}

pub(super) fn combine(
    left: &[(usize, i128)],
    by: i128,
    right: &[(usize, i128)],
    and: i128,
) -> Option<Vec<(usize, i128)>> {
    let mut sum = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    loop {
        let index = match (left.peek(), right.peek()) {
            (None, None) => return Some(sum),
            (Some((index, _)), None) | (None, Some((index, _))) => *index,
            (Some((one, _)), Some((other, _))) => (*one).min(*other),
        };
        let mut value = 0_i128;
        if let Some((_, part)) = left.next_if(|(at, _)| *at == index) {
            value = times(*part, by)?;
        }
        if let Some((_, part)) = right.next_if(|(at, _)| *at == index) {
            value = value.checked_add(times(*part, and)?)?;
        }
        if value != 0 {
            sum.push((index, value));
        }
    }
}

/// Most factors are 1 or -1, and a product of 128 bits is a call.
fn times(part: i128, by: i128) -> Option<i128> {
    match by {
        1 => Some(part),
        -1 => part.checked_neg(),
        _ => part.checked_mul(by),
    }
}

/// Both rows divided by what divides all of their values.
pub(super) fn reduced(mut changes: Weights, mut weights: Weights) -> (Weights, Weights) {
    let mut divisor = 0;
    for (_, value) in changes.iter().chain(&weights) {
        divisor = gcd(divisor, *value);
        if divisor == 1 {
            return (changes, weights);
        }
    }
    let divisor = divisor.max(1);
    changes.iter_mut().chain(&mut weights).for_each(|(_, value)| *value /= divisor);
    (changes, weights)
}

fn gcd(one: i128, other: i128) -> i128 {
    let (mut one, mut other) = (one.unsigned_abs(), other.unsigned_abs());
    if one == 0 {
        (one, other) = (other, 0);
    }
    while other != 0 {
        (one, other) = (other, one % other);
        if other == 1 {
            return 1;
        }
    }
    i128::try_from(one).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Arc, Kind, Place, Rate, Servers, Transition, build};
    use crate::{Class, Limits};

    #[test]
    fn the_limit_of_time_ends_the_search() {
        let place = |index: usize| Place { name: format!("p{index}"), tokens: 0 };
        let arc = |place| vec![Arc { place, count: 1 }];
        let move_on = |index: usize| Transition {
            name: format!("t{index}"),
            kind: Kind::Timed { rate: Rate::Constant(1.0), servers: Servers::Finite(1) },
            inputs: arc(index),
            outputs: arc((index + 1) % 50),
            inhibitors: Vec::new(),
        };
        let net = build("", (0..50).map(place).collect(), (0..50).map(move_on).collect()).unwrap();
        let mut left = 60;
        let mut go_on = |_| {
            left -= 1;
            left > 0
        };
        let mut budget = Budget::new(Limits::default(), &mut go_on);
        let found = places(&net, &mut budget).unwrap();
        let [weights] = found.as_slice() else { panic!("{found:?}") };
        assert!(weights.len() == 50 && weights.iter().all(|(_, weight)| *weight == weights[0].1), "{weights:?}");
        let refusal = places(&net, &mut budget).unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::TooLarge, "time"));
    }
}
