//! A chain that is being written.

use super::rates::Written;
use super::vanish::too_far_apart;
use crate::chain::Chain;
use crate::{Class, Refusal};

/// Edges that one chain may have.
const EDGES: usize = u32::MAX as usize;

/// A chain that is being written row by row.
#[derive(Debug)]
pub(super) struct Rows {
    /// Where the edges of each state start, and at the end their count.
    starts: Vec<u32>,
    pub(super) columns: Vec<u32>,
    rates: Written,
}

/// Edges that there is room for at first: a small net's rows are never moved, and room that is not used is never touched.
const FIRST: usize = 1 << 13;

impl Default for Rows {
    fn default() -> Self {
        Self { starts: vec![0], columns: Vec::with_capacity(FIRST), rates: Written::with_capacity(FIRST) }
    }
}

impl Rows {
    /// Rows that were ended.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Bytes that its edges take.
    pub(super) fn bytes(&self) -> usize {
        self.columns.len() * 4 + self.rates.bytes()
    }

    /// Ends the row of `state`: an edge for each target in `row`, which is brought in order. What stays in its state is left out.
    pub(super) fn end(&mut self, state: u32, row: &mut [(u32, f64)]) -> Result<(), Refusal> {
        row.sort_unstable_by_key(|(to, _)| *to);
        self.columns.reserve(row.len());
        self.rates.reserve(row.len());
        let (mut all, mut least) = (0.0, f64::INFINITY);
        let mut entries = row.iter();
        while let Some((to, mut rate)) = entries.next().copied() {
            while let [(next, more), ..] = entries.as_slice()
                && *next == to
            {
                rate += more;
                entries.next();
            }
            all += rate;
            least = least.min(rate);
            if to != state {
                self.columns.push(to);
                self.rates.push(rate);
            }
        }
        if !f64::is_finite(all) {
            let why = "the rates of a marking add up to more than a number can say";
            return Err(Refusal::new(Class::TooLarge, "", why));
        }
        // Left out it would not be missed by any check, and with it whatever it leads to.
        if least == 0.0 {
            return Err(too_far_apart(""));
        }
        if self.columns.len() >= EDGES {
            return Err(Refusal::new(Class::TooLarge, "edges", "more edges than this program can number"));
        }
        #[expect(clippy::cast_possible_truncation, reason = "compared with `EDGES` just above")]
        self.starts.push(self.columns.len() as u32);
        Ok(())
    }

    pub(super) fn chain(self) -> Chain {
        Chain::from_rows(self.starts, self.columns, self.rates.done())
    }
}
