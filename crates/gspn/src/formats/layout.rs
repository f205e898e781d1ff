//! Where places and transitions stand in a drawing: in columns by their distance from the tokens, with few crossings.

use std::collections::VecDeque;

use crate::Net;

/// Between columns.
const COLUMN: f64 = 110.0;
/// Between rows.
const ROW: f64 = 80.0;
/// Around everything.
const EDGE: f64 = 60.0;
/// How often rows are put in order.
const SWEEPS: usize = 12;

/// The middle of each node.
#[derive(Debug)]
pub(super) struct Layout {
    places: usize,
    at: Vec<(f64, f64)>,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Layout {
    pub(super) fn of(net: &Net) -> Self {
        let places = net.places().len();
        let count = places + net.transitions().len();
        let (mut next, mut near) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        for (index, transition) in net.transitions().iter().enumerate() {
            let node = places + index;
            transition.inputs.iter().for_each(|arc| next[arc.place].push(node));
            transition.outputs.iter().for_each(|arc| next[node].push(arc.place));
            for arc in transition.inputs.iter().chain(&transition.outputs).chain(&transition.inhibitors) {
                near[arc.place].push(node);
                near[node].push(arc.place);
            }
        }
        let first = net.places().iter().enumerate().filter(|(_, place)| place.tokens > 0).map(|(index, _)| index);
        let columns = columns(&next, first);
        let mut rows: Vec<Vec<usize>> = vec![Vec::new(); columns.iter().max().map_or(0, |last| last + 1)];
        columns.iter().enumerate().for_each(|(node, column)| rows[*column].push(node));
        let height = rows.iter().map(Vec::len).max().unwrap_or(0);
        let y = order(&mut rows, &near, height);
        #[expect(clippy::cast_precision_loss, reason = "columns and rows of a drawing")]
        Self {
            places,
            at: (0..count).map(|node| (EDGE + COLUMN * columns[node] as f64, EDGE + ROW * y[node])).collect(),
            width: 2.0 * EDGE + COLUMN * rows.len().saturating_sub(1) as f64,
            height: 2.0 * EDGE + ROW * height.saturating_sub(1) as f64,
        }
    }

    pub(super) fn place(&self, index: usize) -> (f64, f64) {
        self.at[index]
    }

    pub(super) fn transition(&self, index: usize) -> (f64, f64) {
        self.at[self.places + index]
    }
}

/// The column of each node: how many arcs away from the places with tokens it is.
fn columns(next: &[Vec<usize>], first: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut columns = vec![usize::MAX; next.len()];
    let mut waiting: VecDeque<usize> = VecDeque::new();
    let starts: Vec<usize> = first.collect();
    // The first place with tokens decides; others that it leads to stand where it leads to them.
    for start in starts.into_iter().chain(0..next.len()) {
        if columns[start] != usize::MAX {
            continue;
        }
        columns[start] = 0;
        waiting.push_back(start);
        while let Some(node) = waiting.pop_front() {
            for other in &next[node] {
                if columns[*other] == usize::MAX {
                    columns[*other] = columns[node] + 1;
                    waiting.push_back(*other);
                }
            }
        }
    }
    columns
}

/// Puts each column in the order of the rows of its neighbours, and says where each node stands, in rows from the top.
#[expect(clippy::cast_precision_loss, reason = "rows of a drawing")]
fn order(rows: &mut [Vec<usize>], near: &[Vec<usize>], height: usize) -> Vec<f64> {
    let mut y = vec![0.0; near.len()];
    let place = |column: &[usize], y: &mut [f64]| {
        let top = (height - column.len()) as f64 / 2.0;
        column.iter().enumerate().for_each(|(row, node)| y[*node] = top + row as f64);
    };
    rows.iter().for_each(|column| place(column, &mut y));
    for sweep in 0..SWEEPS {
        for step in 0..rows.len() {
            let column = if sweep % 2 == 0 { step } else { rows.len() - 1 - step };
            let wish = |node: &usize| {
                let near = &near[*node];
                if near.is_empty() { y[*node] } else { near.iter().map(|it| y[*it]).sum::<f64>() / near.len() as f64 }
            };
            let mut wishes: Vec<(f64, usize)> = rows[column].iter().map(|node| (wish(node), *node)).collect();
            wishes.sort_by(|one, other| one.0.total_cmp(&other.0));
            rows[column] = wishes.into_iter().map(|(_, node)| node).collect();
            place(&rows[column], &mut y);
        }
    }
    y
}
