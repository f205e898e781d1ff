//! Place invariants: weights under which no firing changes the sum of tokens.

use super::Net;

/// Weights by place, of either sign.
pub(crate) type Weights = Vec<(usize, i128)>;

/// Places and transitions up to which they are looked for.
const LARGEST: usize = 2_000;

/// A basis of all place invariants, by elimination on whole numbers. Fewer, or none, where the numbers grow out of range.
pub(crate) fn places(net: &Net) -> Vec<Weights> {
    if net.places.len() > LARGEST || net.transitions.len() > LARGEST {
        return Vec::new();
    }
    // One row a place: its changes by transition, then which places went into the row.
    let mut rows: Vec<Row> = (0..net.places.len()).map(|place| Row::of(net, place)).collect();
    let mut basis = Vec::new();
    for transition in 0..net.transitions.len() {
        let Some(pivot) = rows.iter().position(|row| row.change(transition) != 0) else { continue };
        let pivot = rows.swap_remove(pivot);
        rows = rows.into_iter().filter_map(|row| row.without(transition, &pivot)).collect();
    }
    for row in rows {
        if row.changes.is_empty() {
            basis.push(row.weights);
        }
    }
    basis
}

/// Two sparse vectors, sorted by index.
struct Row {
    changes: Vec<(usize, i128)>,
    weights: Weights,
}

impl Row {
    fn of(net: &Net, place: usize) -> Self {
        let mut changes = Vec::new();
        for (index, transition) in net.transitions.iter().enumerate() {
            let count =
                |arcs: &[super::Arc]| arcs.iter().find(|arc| arc.place == place).map_or(0, |arc| i128::from(arc.count));
            let change = count(&transition.outputs) - count(&transition.inputs);
            if change != 0 {
                changes.push((index, change));
            }
        }
        Self { changes, weights: vec![(place, 1)] }
    }

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
        let divisor = changes.iter().chain(&weights).fold(0, |divisor, (_, value)| gcd(divisor, *value)).max(1);
        let reduce = |row: Vec<(usize, i128)>| row.into_iter().map(|(index, value)| (index, value / divisor)).collect();
        Some(Self { changes: reduce(changes), weights: reduce(weights) })
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
            value = part.checked_mul(by)?;
        }
        if let Some((_, part)) = right.next_if(|(at, _)| *at == index) {
            value = value.checked_add(part.checked_mul(and)?)?;
        }
        if value != 0 {
            sum.push((index, value));
        }
    }
}

pub(super) fn gcd(one: i128, other: i128) -> i128 {
    let (mut one, mut other) = (one.unsigned_abs(), other.unsigned_abs());
    while other != 0 {
        (one, other) = (other, one % other);
    }
    i128::try_from(one).unwrap_or(1)
}
