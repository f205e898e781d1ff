//! A chain that is being written.

use crate::chain::Chain;
use crate::{Class, Refusal};

/// Edges that one chain may have.
const EDGES: usize = u32::MAX as usize;

/// A chain that is being written row by row.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) ends: Vec<u32>,
    pub(super) columns: Vec<u32>,
    rates: Vec<f64>,
}

impl Rows {
    /// Ends the row of `state`: `row` has one entry a target. What stays in its state is left out.
    pub(super) fn end(&mut self, state: u32, row: &[(u32, f64)]) -> Result<(), Refusal> {
        for (to, rate) in row {
            if *to != state && *rate > 0.0 {
                self.columns.push(*to);
                self.rates.push(*rate);
            }
        }
        if self.columns.len() >= EDGES {
            return Err(Refusal::new(Class::TooLarge, "edges", "more edges than this program can number"));
        }
        #[expect(clippy::cast_possible_truncation, reason = "compared with `EDGES` just above")]
        self.ends.push(self.columns.len() as u32);
        Ok(())
    }

    pub(super) fn chain(self) -> Chain {
        let mut rows = self.ends;
        rows.insert(0, 0);
        Chain::from_rows(rows, self.columns, self.rates)
    }
}
