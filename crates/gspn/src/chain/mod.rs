//! A continuous-time Markov chain with few edges a state, and what it does in the long run, until something happens, and at a time.

mod adjoint;
mod ahead;
mod band;
mod basins;
mod dissection;
mod elimination;
mod fronts;
mod inverse;
#[cfg(test)]
mod late;
mod level;
mod long_run;
mod multilevel;
mod number;
mod passage;
mod quick;
mod rates;
mod rational;
mod shifted;
mod solve;
#[cfg(test)]
mod stiff;
mod sweep;
mod transient;
mod turned;
mod worth_at;

pub use self::adjoint::{Worth, worth, worth_of_passage, worth_of_time};
pub use self::long_run::{LongRun, bottoms, long_run};
pub(crate) use self::long_run::{apart, classes, closed, common, settled};
pub use self::passage::{Reached, passage, quantile};
pub(crate) use self::passage::{moments, there};
pub(crate) use self::rates::Rates;
use self::rates::Row;
pub(crate) use self::solve::sum;
pub use self::transient::{At, Mean, at};
pub(crate) use self::transient::{poisson, said_as_zero};
pub(crate) use self::worth_at::of_nothing;
pub use self::worth_at::{worth_at, worth_of_quantile};

use std::ops::Range;

use crate::components::Graph;

/// States with numbers from 0, and the rates from each to others. No state leads to itself.
#[derive(Debug, Clone)]
pub struct Chain {
    /// Where the edges of each state start, and at the end their count.
    rows: Vec<u32>,
    columns: Vec<u32>,
    rates: Rates,
    /// The rate at which each state is left.
    exits: Vec<f64>,
}

impl Chain {
    /// From rows in compressed form. Rates are above 0 and finite, no edge stays in its state.
    pub(crate) fn from_rows(rows: Vec<u32>, columns: Vec<u32>, rates: impl Into<Rates>) -> Self {
        let rates = rates.into();
        let exits = rows.windows(2).map(|row| rates.of(row[0] as usize..row[1] as usize).sum()).collect();
        Self { rows, columns, rates, exits }
    }

    /// How many states.
    #[must_use]
    pub fn len(&self) -> usize {
        self.exits.len()
    }

    /// Whether there is no state.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.exits.is_empty()
    }

    /// How many edges.
    #[must_use]
    pub fn edges(&self) -> usize {
        self.columns.len()
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.len() * 12 + self.edges() * 4 + self.rates.bytes()) as u64
    }

    /// Bytes that it takes turned round.
    pub(crate) fn bytes_turned(&self) -> u64 {
        (self.len() * 4 + self.edges() * 12) as u64
    }

    /// The states that `state` leads to, and the rates.
    #[inline(always)]
    pub fn row(&self, state: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let span = self.rows[state] as usize..self.rows[state + 1] as usize;
        Row::new(&self.columns[span.clone()], self.rates.of(span))
    }

    /// The states that `state` leads to.
    pub(crate) fn targets(&self, state: usize) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.columns[self.rows[state] as usize..self.rows[state + 1] as usize].iter().map(|to| *to as usize)
    }

    /// The rate at which `state` is left.
    #[must_use]
    pub fn exit(&self, state: usize) -> f64 {
        self.exits[state]
    }

    /// The same chain, in which the states that `ends` names are never left.
    #[must_use]
    pub(crate) fn ending(&self, ends: &[bool]) -> Self {
        let (mut rows, mut columns, mut rates) = (vec![0], Vec::new(), Vec::new());
        for (state, ends) in ends.iter().enumerate() {
            if !ends {
                let span = self.rows[state] as usize..self.rows[state + 1] as usize;
                columns.extend_from_slice(&self.columns[span.clone()]);
                self.rates.of(span).append(&mut rates);
            }
            #[expect(clippy::cast_possible_truncation, reason = "no more edges than before")]
            rows.push(columns.len() as u32);
        }
        Self::from_rows(rows, columns, rates)
    }

    /// The chain turned round: which states lead to each, and the rates.
    pub(crate) fn incoming(&self) -> Incoming {
        match &self.rates {
            Rates::Each(rates) => self.turned(|span| rates[span].iter().copied()),
            Rates::Shared { known, of } => self.turned(|span| of[span].iter().map(|at| known[usize::from(*at)])),
        }
    }

    fn turned<R: Iterator<Item = f64>>(&self, of: impl Fn(Range<usize>) -> R) -> Incoming {
        let mut starts = vec![0_u32; self.len() + 1];
        for to in &self.columns {
            starts[*to as usize + 1] += 1;
        }
        for state in 0..self.len() {
            starts[state + 1] += starts[state];
        }
        let mut next = starts.clone();
        let mut sources = vec![0_u32; self.columns.len()];
        let mut rates = vec![0.0; self.columns.len()];
        for from in 0..self.len() {
            #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
            let source = from as u32;
            let span = self.rows[from] as usize..self.rows[from + 1] as usize;
            for (to, rate) in self.columns[span.clone()].iter().zip(of(span)) {
                let next = &mut next[*to as usize];
                let at = *next as usize;
                *next += 1;
                sources[at] = source;
                rates[at] = rate;
            }
        }
        Incoming { starts, sources, rates }
    }
}

impl Graph for Chain {
    fn nodes(&self) -> usize {
        self.len()
    }

    fn successor(&self, node: usize, index: usize) -> Option<usize> {
        let at = self.rows[node] as usize + index;
        if at < self.rows[node + 1] as usize { Some(self.columns[at] as usize) } else { None }
    }
}

/// A chain turned round.
#[derive(Debug)]
pub(crate) struct Incoming {
    starts: Vec<u32>,
    sources: Vec<u32>,
    rates: Vec<f64>,
}

impl Incoming {
    /// The states that lead to `state`, and the rates.
    #[inline]
    pub(crate) fn column(&self, state: usize) -> impl ExactSizeIterator<Item = (usize, f64)> + '_ {
        let span = self.starts[state] as usize..self.starts[state + 1] as usize;
        self.sources[span.clone()].iter().map(|from| *from as usize).zip(self.rates[span].iter().copied())
    }
}
