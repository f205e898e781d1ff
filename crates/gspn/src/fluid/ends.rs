//! Whether a net gathers tokens without end: of such a net no population tells where its flows tend to.
//!
//! What is a flow has no inhibitors, and no immediate takes a token that something else waits for. So two proofs are enough: weights above 0
//! of all places whose sum no firing raises, and firings that can be gone again and again with ever more tokens.

use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};

use super::flow::float;
use crate::bounds::endless;
use crate::net::{Net, semiflows};
use crate::{Budget, Class, Refusal};

/// What rounding may raise a sum by, relatively, and the multiplicities up to which that is nothing.
const ROUNDED: f64 = 1e-9;
const LARGEST: u64 = 10_000;

/// # Errors
/// [`Class::Unbounded`] with the place and the firings where the first markings show that it gathers tokens, [`Class::Unsupported`] where
/// neither that nor the contrary is proven.
pub(super) fn check(net: &Net, budget: &mut Budget<'_>) -> Result<(), Refusal> {
    let open = semiflows::bounds(net).iter().position(Option::is_none);
    let Some(place) = open.filter(|_| !falls(net)) else { return Ok(()) };
    let why =
        "nothing in the net bounds its tokens, and flows of a net that gathers tokens without end tend to nothing";
    let name = &net.places()[place].name;
    Err(endless(net, budget).unwrap_or_else(|| Refusal::new(Class::Unsupported, name, why)))
}

/// Whether there are weights, of each place at least 1, whose sum over the tokens no firing raises.
fn falls(net: &Net) -> bool {
    let changes: Vec<Vec<(usize, f64)>> = net
        .transitions()
        .iter()
        .map(|it| {
            let change = |place: usize| {
                let count = |arcs: &[crate::net::Arc]| {
                    arcs.iter().filter(|arc| arc.place == place).map(|arc| float(arc.count)).sum::<f64>()
                };
                (place, count(&it.outputs) - count(&it.inputs))
            };
            let mut places: Vec<usize> = it.inputs.iter().chain(&it.outputs).map(|arc| arc.place).collect();
            places.sort_unstable();
            places.dedup();
            places.into_iter().map(change).filter(|(_, by)| *by != 0.0).collect()
        })
        .collect();
    let arcs = net.transitions().iter().flat_map(|it| it.inputs.iter().chain(&it.outputs));
    if arcs.map(|arc| arc.count).max().unwrap_or(0) > LARGEST {
        return false;
    }
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let weights: Vec<Variable> = net.places().iter().map(|_| problem.add_var(1.0, (1.0, f64::INFINITY))).collect();
    for change in changes.iter().filter(|change| !change.is_empty()) {
        let sum: Vec<(Variable, f64)> = change.iter().map(|(place, by)| (weights[*place], *by)).collect();
        problem.add_constraint(sum, ComparisonOp::Le, 0.0);
    }
    let Ok(outcome) = problem.solve() else { return false };
    let Some(solution) = outcome.solution().filter(|_| outcome.is_optimal()) else { return false };
    // The program is believed only when its weights say so themselves.
    let weight = |place: usize| solution.var_value(weights[place]);
    (0..weights.len()).all(|place| weight(place) >= 0.5)
        && changes.iter().all(|change| {
            let up: f64 = change.iter().map(|(place, by)| by * weight(*place)).sum();
            let size: f64 = change.iter().map(|(place, by)| by.abs() * weight(*place)).sum();
            up <= ROUNDED * size
        })
}
