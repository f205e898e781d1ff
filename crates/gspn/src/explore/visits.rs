//! How often each node of a chain with steps is visited, when it starts once at the first and ends by leaving.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Refusal;
use crate::components::{self, Graph};

/// So many nodes of one component are eliminated as a dense matrix.
const DENSE: usize = 32;
/// More are first eliminated as sparse rows, the least connected first, until no more than so many are left and mostly connected with
/// each other.
const MOSTLY: usize = 512;
/// Entries that are written in that; what is left is swept over.
const WORK: usize = 400_000_000;
const SWEEPS: usize = 100_000;
/// Entries between two looks at the clock.
const LOOKED: usize = 1 << 20;

/// Why there are no numbers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Nothing leaves these nodes.
    Trap(Vec<u32>),
    /// These nodes are left so seldom that the sweeps did not end.
    Slow(Vec<u32>),
    /// Time is over.
    Ended(Refusal),
}

/// A clock that is looked at once for so much work.
struct Clock<'a> {
    look: &'a mut dyn FnMut() -> Result<(), Refusal>,
    done: usize,
}

impl Clock<'_> {
    fn spend(&mut self, entries: usize) -> Result<(), Failure> {
        self.done += entries;
        if self.done < LOOKED {
            return Ok(());
        }
        self.done = 0;
        (self.look)().map_err(Failure::Ended)
    }
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

/// Visits to each node. `rows` holds the probabilities from node to node, `leaves` the probability of leaving for good; `look` is called
/// again and again where it takes long.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn from_first(
    rows: &[Vec<(u32, f64)>],
    leaves: &[f64],
    look: &mut dyn FnMut() -> Result<(), Refusal>,
) -> Result<Vec<f64>, Failure> {
    let mut clock = Clock { look, done: 0 };
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
                Some(eliminate(&within, &outs, start))
            } else {
                Sparse::new(within, outs, start).solve(&mut clock)?
            };
            let visits = visits.ok_or_else(|| Failure::Slow(nodes.to_vec()))?;
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

/// [`eliminate`] with rows of which most entries are 0.
struct Sparse {
    /// By node that is left, its row without itself, in rising order.
    rows: Vec<Vec<(usize, f64)>>,
    /// The nodes in whose rows it stands.
    before: Vec<Vec<usize>>,
    outs: Vec<f64>,
    inflow: Vec<f64>,
    /// Nodes that are left.
    left: Vec<bool>,
}

/// A node that was eliminated: what came to it from those that were left then, and of how much it was the whole.
struct Gone {
    node: usize,
    arrivals: Vec<(usize, f64)>,
    sum: f64,
}

impl Sparse {
    fn new(mut rows: Vec<Vec<(usize, f64)>>, outs: Vec<f64>, inflow: Vec<f64>) -> Self {
        let mut before = vec![Vec::new(); rows.len()];
        for (from, row) in rows.iter_mut().enumerate() {
            // What stays is what returns to the node itself.
            row.retain(|(to, _)| *to != from);
            row.sort_unstable_by_key(|(to, _)| *to);
            row.dedup_by(|later, kept| {
                let same = later.0 == kept.0;
                kept.1 += if same { later.1 } else { 0.0 };
                same
            });
            row.iter().for_each(|(to, _)| before[*to].push(from));
        }
        let left = vec![true; rows.len()];
        Self { rows, before, outs, inflow, left }
    }

    /// Entries that eliminating a node writes.
    fn cost(&self, node: usize) -> usize {
        self.rows[node].len() * self.before[node].len()
    }

    /// # Returns
    /// Nothing where sweeps did not end.
    fn solve(mut self, clock: &mut Clock<'_>) -> Result<Option<Vec<f64>>, Failure> {
        let mut order: BinaryHeap<Reverse<(usize, usize)>> =
            (0..self.rows.len()).map(|node| Reverse((self.cost(node), node))).collect();
        let (mut gone, mut left, mut work) = (Vec::new(), self.rows.len(), 0);
        while let Some(Reverse((cost, node))) = order.pop() {
            // Whoever has another cost by now stands there once more.
            if !self.left[node] || cost != self.cost(node) {
                continue;
            }
            if left <= MOSTLY && 4 * cost >= left * left || work > WORK {
                break;
            }
            let entries = 1 + cost + self.rows[node].len() + self.before[node].len();
            work += entries;
            clock.spend(entries)?;
            gone.push(self.remove(node));
            left -= 1;
            let near = self.rows[node].iter().map(|(to, _)| *to).chain(self.before[node].iter().copied());
            order.extend(near.map(|near| Reverse((self.cost(near), near))));
        }
        let Some(mut visits) = self.rest(left, clock)? else { return Ok(None) };
        for Gone { node, arrivals, sum } in gone.iter().rev() {
            let arriving: f64 = arrivals.iter().map(|(from, part)| visits[*from] * part).sum();
            visits[*node] = (self.inflow[*node] + arriving) / sum;
        }
        Ok(Some(visits))
    }

    /// Takes a node out: who led to it leads to where it leads.
    fn remove(&mut self, node: usize) -> Gone {
        self.left[node] = false;
        let row = std::mem::take(&mut self.rows[node]);
        let before = std::mem::take(&mut self.before[node]);
        let sum = self.outs[node] + row.iter().map(|(_, probability)| probability).sum::<f64>();
        let share = self.inflow[node] / sum;
        for (to, probability) in &row {
            self.inflow[*to] += share * probability;
            if let Some(at) = self.before[*to].iter().position(|from| *from == node) {
                self.before[*to].swap_remove(at);
            }
        }
        let mut arrivals = Vec::with_capacity(before.len());
        for from in &before {
            let own = std::mem::take(&mut self.rows[*from]);
            let weight = own.binary_search_by_key(&node, |(to, _)| *to).map_or(0.0, |at| own[at].1);
            arrivals.push((*from, weight));
            let part = weight / sum;
            self.outs[*from] += part * self.outs[node];
            self.rows[*from] = self.joined(*from, node, &own, part, &row);
        }
        (self.rows[node], self.before[node]) = (row, before);
        Gone { node, arrivals, sum }
    }

    /// The row `own` of `from` without `node`, and `part` of the row of that added.
    fn joined(
        &mut self,
        from: usize,
        node: usize,
        own: &[(usize, f64)],
        part: f64,
        row: &[(usize, f64)],
    ) -> Vec<(usize, f64)> {
        let mut sum = Vec::with_capacity(own.len() + row.len());
        let mut own = own.iter().filter(|(to, _)| *to != node).peekable();
        for (to, probability) in row.iter().filter(|(to, _)| *to != from) {
            while let Some(entry) = own.next_if(|(at, _)| at < to) {
                sum.push(*entry);
            }
            let here = own.next_if(|(at, _)| at == to).map(|(_, here)| *here);
            if here.is_none() {
                self.before[*to].push(from);
            }
            sum.push((*to, here.unwrap_or(0.0) + part * probability));
        }
        sum.extend(own);
        sum
    }

    /// Visits to the nodes that are left, `left` of them; 0 for the others.
    fn rest(&self, left: usize, clock: &mut Clock<'_>) -> Result<Option<Vec<f64>>, Failure> {
        let mut visits = vec![0.0; self.rows.len()];
        if left == 0 {
            return Ok(Some(visits));
        }
        let nodes: Vec<usize> = (0..self.rows.len()).filter(|node| self.left[*node]).collect();
        let mut local = vec![0; self.rows.len()];
        nodes.iter().enumerate().for_each(|(at, node)| local[*node] = at);
        let row = |node: &usize| self.rows[*node].iter().map(|(to, probability)| (local[*to], *probability)).collect();
        let rows: Vec<Vec<(usize, f64)>> = nodes.iter().map(row).collect();
        let of = |all: &[f64]| nodes.iter().map(|node| all[*node]).collect::<Vec<f64>>();
        let (outs, inflow) = (of(&self.outs), of(&self.inflow));
        let found =
            if left <= MOSTLY { Some(eliminate(&rows, &outs, inflow)) } else { sweep(&rows, &outs, &inflow, clock)? };
        let Some(found) = found else { return Ok(None) };
        nodes.iter().zip(found).for_each(|(node, found)| visits[*node] = found);
        Ok(Some(visits))
    }
}

fn sweep(
    rows: &[Vec<(usize, f64)>],
    outs: &[f64],
    inflow: &[f64],
    clock: &mut Clock<'_>,
) -> Result<Option<Vec<f64>>, Failure> {
    let mut arrivals: Vec<Vec<(usize, f64)>> = vec![Vec::new(); rows.len()];
    let mut moves = outs.to_vec();
    for (from, row) in rows.iter().enumerate() {
        for (to, probability) in row.iter().filter(|(to, _)| *to != from) {
            moves[from] += probability;
            arrivals[*to].push((from, *probability));
        }
    }
    let entries = rows.len() + arrivals.iter().map(Vec::len).sum::<usize>();
    let mut visits = inflow.to_vec();
    for _ in 0..SWEEPS {
        clock.spend(entries)?;
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
            return Ok(Some(visits));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never() -> Result<(), Refusal> {
        Ok(())
    }

    /// A walk on a line with so many nodes, left at both ends, from its middle; the first node is the middle one.
    fn line(count: usize) -> (Vec<Vec<(u32, f64)>>, Vec<f64>) {
        let half = count / 2;
        let node = |at: usize| ((at + count - half) % count) as u32;
        let at = |node: usize| (node + half) % count;
        let row = |node_at: usize| {
            let at = at(node_at);
            let near = [at.checked_sub(1), Some(at + 1).filter(|at| *at < count)];
            near.into_iter().flatten().map(|at| (node(at), 0.5)).collect()
        };
        let leaves = |node: usize| if [0, count - 1].contains(&at(node)) { 0.5 } else { 0.0 };
        ((0..count).map(row).collect(), (0..count).map(leaves).collect())
    }

    #[test]
    fn a_long_line_is_left_as_often_at_each_end_as_is_known() {
        let (rows, leaves) = line(9_999);
        let visits = from_first(&rows, &leaves, &mut never).unwrap();
        // From the middle, place 5,000 of 10,000: so many times in the middle, and half as often in the middle of a half.
        for (node, wanted) in [(0, 5_000.0), (2_500, 2_500.0), (4_999, 1.0), (5_000, 1.0)] {
            assert!((visits[node] / wanted - 1.0).abs() < 1e-12, "{node}: {} {wanted}", visits[node]);
        }
    }

    #[test]
    fn sparse_rows_come_to_what_dense_ones_do() {
        let count = 300;
        let to = |from: usize, by: usize| ((from * by + 1) % count, 0.3 / by as f64);
        let rows: Vec<Vec<(usize, f64)>> =
            (0..count).map(|from| [1, 3, 17, 29].iter().map(|by| to(from, *by)).collect()).collect();
        let outs: Vec<f64> = (0..count).map(|node| if node % 10 == 0 { 1e-9 } else { 0.0 }).collect();
        let mut start = vec![0.0; count];
        start[3] = 1.0;
        let dense = eliminate(&rows, &outs, start.clone());
        let sparse = Sparse::new(rows, outs, start).solve(&mut Clock { look: &mut never, done: 0 }).unwrap().unwrap();
        for (dense, sparse) in dense.iter().zip(&sparse) {
            assert!((dense - sparse).abs() <= 1e-12 * dense, "{dense} {sparse}");
        }
    }

    #[test]
    fn the_clock_is_looked_at() {
        // Each of 700 leads to each other: 10^8 entries.
        let count = 700;
        let each = 1.0 / f64::from(count);
        let rows: Vec<Vec<(u32, f64)>> = (0..count).map(|_| (0..count).map(|to| (to, each)).collect()).collect();
        let mut looks = 0;
        let mut look = || {
            looks += 1;
            if looks < 9 { Ok(()) } else { Err(Refusal::invalid("", "it is over")) }
        };
        let found = from_first(&rows, &vec![1e-6; 700], &mut look);
        assert_eq!((found, looks), (Err(Failure::Ended(Refusal::invalid("", "it is over"))), 9));
    }
}
