//! Every question about markings, classes and passages, by closures and by taking one node after the other out of the dense generator.

use gspn::ask::{Compare, Condition};
use gspn::net::Net;

use super::Naive;

/// The rates between tangible nodes, and where they start.
pub(crate) struct Generator<'a> {
    found: &'a Naive,
    start: Vec<f64>,
    rates: Vec<Vec<f64>>,
}

/// `p0 >= 1` and the like, where the condition is told by hand.
pub(crate) fn holds(condition: &Condition, marking: &[u64]) -> bool {
    condition.terms.iter().all(|(place, compare, count)| {
        let tokens = marking[*place];
        match compare {
            Compare::Equal => tokens == *count,
            Compare::NotEqual => tokens != *count,
            Compare::Less => tokens < *count,
            Compare::LessOrEqual => tokens <= *count,
            Compare::Greater => tokens > *count,
            Compare::GreaterOrEqual => tokens >= *count,
        }
    })
}

impl<'a> Generator<'a> {
    /// Of a net whose vanishing markings are all left, and in which no fixed time runs.
    pub(crate) fn of(net: &Net, found: &'a Naive) -> Self {
        let count = found.markings.len();
        let (settled, _) = found.settle(net.transitions().len());
        let mut rates = vec![vec![0.0; count]; count];
        for from in (0..count).filter(|from| !found.vanishing[*from]) {
            for firing in &found.firings[from] {
                for to in (0..count).filter(|to| *to != from) {
                    rates[from][to] += firing.strength * settled[firing.to][to];
                }
            }
        }
        Self { found, start: found.starts(&settled), rates }
    }

    /// The tangible nodes whose marking says so.
    pub(crate) fn goal(&self, says: impl Fn(&[u64]) -> bool) -> Vec<bool> {
        let all = self.found.markings.iter().zip(&self.found.vanishing);
        all.map(|(marking, vanishing)| !vanishing && says(marking)).collect()
    }

    pub(crate) fn initially(&self, goal: &[bool]) -> f64 {
        self.start.iter().zip(goal).filter(|(_, goal)| **goal).map(|(share, _)| share).sum()
    }

    pub(crate) fn bound(&self, place: usize) -> u64 {
        self.found.markings.iter().map(|marking| marking[place]).max().unwrap_or(0)
    }

    /// Which nodes lead where, in any number of steps; each to itself, too. What `ends` names is not left.
    fn reaches(&self, ends: &[bool]) -> Vec<Vec<bool>> {
        let count = self.start.len();
        let step = |from: usize, to: usize| from == to || !ends[from] && self.rates[from][to] > 0.0;
        let mut reaches: Vec<Vec<bool>> =
            (0..count).map(|from| (0..count).map(|to| step(from, to)).collect()).collect();
        for over in 0..count {
            let onward = reaches[over].clone();
            for row in reaches.iter_mut().filter(|row| row[over]) {
                row.iter_mut().zip(&onward).for_each(|(reaches, onward)| *reaches |= onward);
            }
        }
        reaches
    }

    /// The nodes of closed classes, and how many classes they are.
    pub(crate) fn closed(&self) -> (Vec<bool>, u64) {
        let reaches = self.reaches(&vec![false; self.start.len()]);
        let count = self.start.len();
        let tangible = |node: usize| !self.found.vanishing[node];
        let closed = |node: usize| tangible(node) && (0..count).all(|to| !reaches[node][to] || reaches[to][node]);
        let all: Vec<bool> = (0..count).map(closed).collect();
        let first = |node: &usize| all[*node] && (0..*node).all(|before| !all[before] || !reaches[*node][before]);
        let classes = (0..count).filter(first).count() as u64;
        (all, classes)
    }

    /// Tangible markings that no firing leaves for another one.
    pub(crate) fn deadlocks(&self) -> u64 {
        let markings = &self.found.markings;
        let nodes = (0..markings.len()).filter(|node| !self.found.vanishing[*node]);
        let mut left = std::collections::HashMap::new();
        for node in nodes {
            let leads = |to: usize| self.rates[node][to] > 0.0 && markings[to] != markings[node];
            *left.entry(&markings[node]).or_insert(false) |= (0..markings.len()).any(leads);
        }
        left.values().filter(|left| !**left).count() as u64
    }

    /// The mean time until a node of `goal` is entered; `None` where that is not certain.
    pub(crate) fn time_to(&self, goal: &[bool]) -> Option<f64> {
        let count = self.start.len();
        let reaches = self.reaches(goal);
        let seen = |node: &usize| (0..count).any(|start| self.start[start] > 0.0 && reaches[start][*node]);
        let nodes: Vec<usize> = (0..count).filter(|node| !goal[*node] && seen(node)).collect();
        if nodes.iter().any(|node| !(0..count).any(|to| goal[to] && reaches[*node][to])) {
            return None;
        }
        // One row more, which leads to where it starts; last in each row the goal, and beside it the time spent: 1 in the unit of the
        // rates. A node is taken out by leading to where it leads, and what it stays adds up; nothing is subtracted, so that a mean
        // of 1e20 is as good as one of 1.
        let row = |leads: &[f64], stays: f64| -> Vec<f64> {
            let ends = (0..count).filter(|to| goal[*to]).map(|to| leads[to]).sum();
            nodes.iter().map(|to| leads[*to]).chain([ends, stays]).collect()
        };
        let mut rows: Vec<Vec<f64>> = nodes.iter().map(|from| row(&self.rates[*from], 1.0)).collect();
        rows.push(row(&self.start, 0.0));
        for taken in 0..nodes.len() {
            let own = rows[taken].clone();
            let leaves: f64 = own[taken + 1..=nodes.len()].iter().sum();
            for row in &mut rows[taken + 1..] {
                let factor = row[taken] / leaves;
                row.iter_mut().zip(&own).skip(taken + 1).for_each(|(entry, own)| *entry += factor * own);
            }
        }
        Some(rows[nodes.len()][nodes.len() + 1])
    }

    /// The probability that a node of `goal` was entered by a time: a sum over steps. `None` where those are too many.
    pub(crate) fn by(&self, goal: &[bool], time: f64) -> Option<f64> {
        let count = self.start.len();
        let exits: Vec<f64> = self.rates.iter().map(|row| row.iter().sum()).collect();
        let uniform = exits.iter().copied().fold(1e-9, f64::max) * 1.5;
        let mean = uniform * time;
        if mean > 600.0 {
            return None;
        }
        let (mut now, mut weight, mut sum) = (self.start.clone(), (-mean).exp(), 0.0);
        for step in 1..(3.0 * mean) as usize + 200 {
            sum += weight * now.iter().zip(goal).filter(|(_, goal)| **goal).map(|(share, _)| share).sum::<f64>();
            weight *= mean / step as f64;
            let mut next = now.clone();
            for from in (0..count).filter(|from| !goal[*from]) {
                for (to, rate) in self.rates[from].iter().enumerate() {
                    next[to] += now[from] * rate / uniform;
                    next[from] -= now[from] * rate / uniform;
                }
            }
            now = next;
        }
        Some(sum)
    }
}
