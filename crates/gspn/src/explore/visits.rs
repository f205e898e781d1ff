//! How often each node of a chain with steps is visited, when it starts once at the first and ends by leaving.

use crate::components::{self, Graph};

/// So many nodes of one component are eliminated as a dense matrix; more are swept over.
const DENSE: usize = 512;
const SWEEPS: usize = 100_000;

/// Why there are no numbers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Nothing leaves these nodes.
    Trap(Vec<u32>),
    /// These nodes are left so seldom that the sweeps did not end.
    Slow(Vec<u32>),
}

struct Rows<'a>(&'a [Vec<(u32, f64)>]);

impl Graph for Rows<'_> {
    fn nodes(&self) -> usize {
        self.0.len()
    }

    fn successor(&self, node: usize, index: usize) -> Option<usize> {
        self.0[node].get(index).map(|(to, _)| *to as usize)
    }
}

/// Visits to each node. `rows` holds the probabilities from node to node, `leaves` the probability of leaving for good.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn from_first(rows: &[Vec<(u32, f64)>], leaves: &[f64]) -> Result<Vec<f64>, Failure> {
    let components = components::of(&Rows(rows));
    let mut inflow = vec![0.0; rows.len()];
    if let Some(first) = inflow.first_mut() {
        *first = 1.0;
    }
    for component in (0..components.len()).rev() {
        let nodes = components.nodes(component);
        let inside = |to: u32| components.of[to as usize] as usize == component;
        let out = |node: u32| {
            let onward: f64 = rows[node as usize].iter().filter(|(to, _)| !inside(*to)).map(|(_, p)| p).sum();
            onward + leaves[node as usize]
        };
        if let [node] = nodes {
            let out = out(*node);
            if out == 0.0 {
                return Err(Failure::Trap(nodes.to_vec()));
            }
            // What stays is what returns to the node itself.
            inflow[*node as usize] /= out;
        } else {
            let outs: Vec<f64> = nodes.iter().map(|node| out(*node)).collect();
            if outs.iter().all(|out| *out == 0.0) {
                return Err(Failure::Trap(nodes.to_vec()));
            }
            let within: Vec<Vec<(usize, f64)>> = nodes
                .iter()
                .map(|node| {
                    let row = rows[*node as usize].iter().filter(|(to, _)| inside(*to));
                    row.filter_map(|(to, p)| nodes.binary_search(to).ok().map(|to| (to, *p))).collect()
                })
                .collect();
            let start: Vec<f64> = nodes.iter().map(|node| inflow[*node as usize]).collect();
            let visits = if nodes.len() <= DENSE {
                eliminate(&within, &outs, start)
            } else {
                sweep(&within, &outs, &start).ok_or_else(|| Failure::Slow(nodes.to_vec()))?
            };
            for (node, visits) in nodes.iter().zip(visits) {
                inflow[*node as usize] = visits;
            }
        }
        for node in nodes {
            let visits = inflow[*node as usize];
            for (to, probability) in rows[*node as usize].iter().filter(|(to, _)| !inside(*to)) {
                inflow[*to as usize] += visits * probability;
            }
        }
    }
    Ok(inflow)
}

/// State reduction: no difference is ever taken, so that each result is right in all its digits.
fn eliminate(rows: &[Vec<(usize, f64)>], outs: &[f64], mut inflow: Vec<f64>) -> Vec<f64> {
    let count = rows.len();
    let mut matrix = vec![0.0; count * count];
    for (from, row) in rows.iter().enumerate() {
        for (to, probability) in row {
            matrix[from * count + to] += probability;
        }
    }
    let mut outs = outs.to_vec();
    let mut sums = vec![0.0; count];
    for last in (0..count).rev() {
        let (above, from_last) = matrix.split_at_mut(last * count);
        let row = &from_last[..last];
        let sum = outs[last] + row.iter().sum::<f64>();
        sums[last] = sum;
        let share = inflow[last] / sum;
        for (inflow, probability) in inflow.iter_mut().zip(row) {
            *inflow += share * probability;
        }
        for from in 0..last {
            let part = above[from * count + last] / sum;
            if part > 0.0 {
                for (entry, probability) in above[from * count..from * count + last].iter_mut().zip(row) {
                    *entry += part * probability;
                }
                outs[from] += part * outs[last];
            }
        }
    }
    for node in 0..count {
        let arriving: f64 = (0..node).map(|from| inflow[from] * matrix[from * count + node]).sum();
        inflow[node] = (inflow[node] + arriving) / sums[node];
    }
    inflow
}

fn sweep(rows: &[Vec<(usize, f64)>], outs: &[f64], inflow: &[f64]) -> Option<Vec<f64>> {
    let mut arrivals: Vec<Vec<(usize, f64)>> = vec![Vec::new(); rows.len()];
    let mut moves = outs.to_vec();
    for (from, row) in rows.iter().enumerate() {
        for (to, probability) in row.iter().filter(|(to, _)| *to != from) {
            moves[from] += probability;
            arrivals[*to].push((from, *probability));
        }
    }
    let mut visits = inflow.to_vec();
    for _ in 0..SWEEPS {
        let mut change = 0.0_f64;
        for node in 0..rows.len() {
            let arriving: f64 = arrivals[node].iter().map(|(from, p)| visits[*from] * p).sum();
            let new = (inflow[node] + arriving) / moves[node];
            if new > 0.0 {
                change = change.max((new - visits[node]).abs() / new);
            }
            visits[node] = new;
        }
        if change < 1e-15 {
            return Some(visits);
        }
    }
    None
}
