//! A component with its time turned round: what is asked backward of the one is asked forward of the other.
//!
//! The rate from `i` to `j` becomes one from `j` to `i`, times what is held in `i` over what is held in `j`. Then each state is
//! left at the rate at which it was, and what came in from outside leaves.

use super::elimination::Eliminated;
use super::fronts::{Fronts, Reduced};
use super::solve::{Component, likeliest};
use super::{Chain, Incoming};
use crate::Budget;
use crate::Refusal;

/// What may be held in a state for its time to be turned round: less is near where numbers end.
const LEAST: f64 = 1e-250;

/// Solves `exit y = right + (rates within) y` for the states of a component.
pub(super) enum Turned {
    /// Its states were taken out.
    Direct(Eliminated<f64>),
    /// The same, piece by piece.
    Fronts(Box<Reduced>),
    /// The component turned round; with `shares`, nothing leaves it.
    Round { chain: Chain, incoming: Incoming, nodes: Vec<u32>, held: Vec<f64>, closed: bool },
}

impl Turned {
    /// `held` is what is held in each state, forward, and `inflow` what comes in there; without it nothing comes in or leaves.
    ///
    /// # Errors
    /// When the component can neither be turned round nor its states be taken out, or the budget is spent.
    pub(super) fn new(
        part: &Component<'_>,
        held: &[f64],
        inflow: Option<&[f64]>,
        budget: &mut Budget<'_>,
    ) -> Result<Self, Refusal> {
        // Where nothing leaves, it ends in the state where it mostly is: rounding that does not add up to 0 may not go to a
        // state that is hardly ever entered.
        let end = if inflow.is_none() { likeliest(held) } else { None };
        if let Some(eliminated) = part.eliminate_first(end, budget)? {
            return Ok(Self::Direct(eliminated));
        }
        if let Some(fronts) = Fronts::next(part, false, budget)?
            && let Some(reduced) = fronts.reduced_to_collect(part, end, budget)?
        {
            return Ok(Self::Fronts(Box::new(reduced)));
        }
        if held.iter().any(|held| *held < LEAST) {
            return Ok(Self::Direct(part.eliminate_at_any_price(end, budget)?));
        }
        let outside = part.nodes.len();
        let most = part.edges() + if inflow.is_some() { outside } else { 0 };
        budget.bytes(part.bytes() + (24 * most + 28 * outside) as u64)?;
        let (mut rows, mut columns, mut rates) = (vec![0_u32], Vec::with_capacity(most), Vec::with_capacity(most));
        #[expect(
            clippy::cast_possible_truncation,
            reason = "states have numbers of 32 bits, and edges were counted before"
        )]
        for (local, node) in part.nodes.iter().enumerate() {
            for (from, rate) in part.incoming.column(*node as usize) {
                let Some(from) = part.local(from) else { continue };
                let rate = rate * (held[from] / held[local]);
                if rate > 0.0 {
                    columns.push(from as u32);
                    rates.push(rate);
                }
            }
            if let Some(inflow) = inflow
                && inflow[local] > 0.0
            {
                columns.push(outside as u32);
                rates.push(inflow[local] / held[local]);
            }
            rows.push(columns.len() as u32);
        }
        if inflow.is_some() {
            rows.extend(rows.last().copied());
        }
        let chain = Chain::from_rows(rows, columns, rates);
        let incoming = chain.incoming();
        #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
        let nodes = (0..outside as u32).collect();
        Ok(Self::Round { chain, incoming, nodes, held: held.to_vec(), closed: inflow.is_none() })
    }

    /// Whether it has a chain of its own.
    pub(super) fn is_chain(&self) -> bool {
        matches!(self, Self::Round { .. })
    }

    /// The solution for `right`; where nothing leaves, one of them, if `right` times what is held adds up to 0.
    ///
    /// # Errors
    /// When the equations cannot be solved within the budget.
    pub(super) fn solve(&self, right: &[f64], budget: &mut Budget<'_>) -> Result<Vec<f64>, Refusal> {
        match self {
            Self::Direct(eliminated) => Ok(eliminated.backward(right.to_vec())),
            Self::Fronts(reduced) => Ok(reduced.collected(right.to_vec())),
            Self::Round { chain, incoming, nodes, held, closed } => {
                let part = Component { chain, incoming, nodes };
                let inflow = right.iter().zip(held).map(|(right, held)| right * held).collect();
                let mut found =
                    if *closed { part.shift(inflow, held, budget)? } else { part.occupancy(inflow, budget)? };
                found.iter_mut().zip(held).for_each(|(found, held)| *found /= held);
                Ok(found)
            }
        }
    }
}
