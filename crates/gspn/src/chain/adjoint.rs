//! How a value changes with every rate at once: one system of equations a value, none a rate.
//!
//! What a state is worth to the value is found by going backward through the chain; a rate counts by what its edges carry,
//! times how much more the end of each edge is worth than its start.

use super::long_run::is_bottom;
use super::solve::{Component, sum};
use super::turned::Turned;
use super::{Chain, Incoming, LongRun};
use crate::Budget;
use crate::components::{self, Components};
use crate::{Class, Refusal};

/// How often what is missing of a solution is solved for, and how little that may move in the end.
const REFINED: usize = 6;
const STILL: f64 = 1e-12;
/// What it may be from step to step where it falls no more: rounding.
const ROUNDED: f64 = 1e-9;

/// Bytes a state of the vectors of [`States`] and of components, and of what a component is solved with.
const BESIDE: u64 = 48;

/// How much each edge of a chain counts for a value: with a factor `1 + e` on some rates, the value changes by `e` times
/// [`Worth::along`] the edges of these rates, in the first order, and by what the rewards themselves change.
#[derive(Debug, Clone)]
pub struct Worth(Kind);

#[derive(Debug, Clone)]
enum Kind {
    /// By what the states are worth.
    States(States),
    /// Edge by edge of a chain.
    /// Where there is another solution: that one too, and what rounding may be of each.
    Edges { chain: Chain, changes: Vec<f64>, other: Option<(Vec<f64>, Vec<f64>)> },
}

/// Time spent in each state before a closed class is entered, and what the end is worth from there; share of time in each
/// state in the end, and what being there adds beside the mean.
#[derive(Debug, Clone)]
struct States {
    passing: Vec<f64>,
    gain: Vec<f64>,
    staying: Vec<f64>,
    bias: Vec<f64>,
}

impl Worth {
    /// The change of the value for a factor on the rates of `part`, whose edges are edges of the chain; and how far
    /// off it may be.
    #[must_use]
    pub fn along(&self, part: &Chain) -> (f64, f64) {
        match &self.0 {
            Kind::States(states) => states.along(part),
            Kind::Edges { chain, changes, other } => {
                let (change, rounding) = edges_along(chain, changes, part);
                let Some((other, rounded)) = other else { return (change, rounding) };
                let apart = (change - edges_along(chain, other, part).0).abs();
                (change, rounding.max(apart) + edges_along(chain, rounded, part).0)
            }
        }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.0 {
            Kind::States(States { passing, .. }) => 32 * passing.len() as u64,
            Kind::Edges { chain, changes, other } => {
                let each = if other.is_some() { 24 } else { 8 };
                chain.bytes() + each * changes.len() as u64
            }
        }
    }

    /// `changes` by edge of `chain`, in its order.
    pub(super) fn by_edge(chain: Chain, changes: Vec<f64>) -> Self {
        Self(Kind::Edges { chain, changes, other: None })
    }

    /// The same with another solution, which is less exact: what they are apart is off, and `rounding` besides.
    pub(super) fn by_edge_and_other(chain: Chain, changes: Vec<f64>, other: Vec<f64>, rounding: Vec<f64>) -> Self {
        Self(Kind::Edges { chain, changes, other: Some((other, rounding)) })
    }

    /// The worth to `factor` times the value.
    pub(super) fn times(mut self, factor: f64) -> Self {
        match &mut self.0 {
            Kind::Edges { changes, other, .. } => {
                changes.iter_mut().for_each(|change| *change *= factor);
                if let Some((other, rounding)) = other {
                    other.iter_mut().for_each(|change| *change *= factor);
                    rounding.iter_mut().for_each(|rounding| *rounding *= factor.abs());
                }
            }
            Kind::States(States { gain, bias, .. }) => {
                gain.iter_mut().chain(bias).for_each(|worth| *worth *= factor);
            }
        }
        self
    }

    fn of(found: &LongRun) -> States {
        let none = vec![0.0; found.distribution.len()];
        let (passing, staying) = (found.spent.clone(), found.distribution.clone());
        States { passing, gain: none.clone(), staying, bias: none }
    }
}

impl States {
    fn along(&self, part: &Chain) -> (f64, f64) {
        let mut size = 0.0;
        let terms = [(&self.passing, &self.gain), (&self.staying, &self.bias)].into_iter().flat_map(|(held, worth)| {
            let held = held.iter().enumerate().filter(|(_, held)| **held > 0.0);
            held.flat_map(move |(from, held)| {
                let (held, here) = (*held, worth[from]);
                part.row(from).map(move |(to, rate)| (held * rate * (worth[to] - here), held * rate * here.abs()))
            })
        });
        let change = sum(terms.inspect(|(_, most)| size += most).map(|(term, _)| term));
        (change, size * f64::EPSILON)
    }
}

fn edges_along(chain: &Chain, changes: &[f64], part: &Chain) -> (f64, f64) {
    let mut size = 0.0;
    let terms = (0..part.len()).flat_map(|from| {
        let span = chain.rows[from] as usize..chain.rows[from + 1] as usize;
        let mut own = chain.columns[span.clone()].iter().zip(&changes[span]).peekable();
        // Both rows are sorted, and the part's is the shorter one.
        part.row(from).filter_map(move |(to, rate)| {
            while own.next_if(|(at, _)| (**at as usize) < to).is_some() {}
            own.next_if(|(at, _)| **at as usize == to).map(|(_, change)| rate * change)
        })
    });
    let change = sum(terms.inspect(|term| size += term.abs()));
    (change, size * f64::EPSILON)
}

/// What each state is worth to the long-run mean of `rewards`, one for each state, where `found` is the long run of `chain`.
///
/// # Errors
/// When the equations cannot be solved within the budget.
pub fn worth(
    chain: &Chain,
    initial: &[(u32, f64)],
    found: &LongRun,
    rewards: &[f64],
    budget: &mut Budget<'_>,
) -> Result<Worth, Refusal> {
    let budget = &mut budget.beside(BESIDE * chain.len() as u64);
    budget.bytes(chain.bytes() + chain.bytes_turned())?;
    let solver = Backward::new(chain, initial);
    let mut worth = Worth::of(found);
    for component in 0..solver.components.len() {
        let nodes = solver.components.nodes(component);
        if solver.closed(component) {
            let held = sum(nodes.iter().map(|node| found.distribution[*node as usize]));
            if held == 0.0 {
                continue;
            }
            let shares: Vec<f64> = nodes.iter().map(|node| found.distribution[*node as usize] / held).collect();
            if !(Component { chain, incoming: &solver.incoming, nodes }).decides_without_rare(&shares) {
                let why = "the value hangs on markings whose probability is less than a number can say: its change is not known";
                return Err(Refusal::new(Class::TooLarge, "", why));
            }
            let mean = sum(nodes.iter().zip(&shares).map(|(node, share)| share * rewards[*node as usize]));
            let beside: Vec<f64> = nodes.iter().map(|node| rewards[*node as usize] - mean).collect();
            solver.solve(component, (&shares, None), &beside, &mut worth.bias, budget)?;
            nodes.iter().for_each(|node| worth.gain[*node as usize] = mean);
        } else {
            solver.pass(component, found, 0.0, &mut worth.gain, budget)?;
        }
    }
    Ok(Worth(Kind::States(worth)))
}

/// What each state is worth to the mean time until a closed class is entered, where `found` is the long run of `chain`.
///
/// # Errors
/// When the equations cannot be solved within the budget.
pub fn worth_of_time(
    chain: &Chain,
    initial: &[(u32, f64)],
    found: &LongRun,
    budget: &mut Budget<'_>,
) -> Result<Worth, Refusal> {
    let budget = &mut budget.beside(BESIDE * chain.len() as u64);
    budget.bytes(chain.bytes() + chain.bytes_turned())?;
    let solver = Backward::new(chain, initial);
    let mut worth = Worth::of(found);
    for component in (0..solver.components.len()).filter(|component| !solver.closed(*component)) {
        solver.pass(component, found, 1.0, &mut worth.gain, budget)?;
    }
    // Nobody waits in the end.
    worth.staying.fill(0.0);
    Ok(Worth(Kind::States(worth)))
}

/// What each state is worth to the mean time until a state that `goal` names is entered first.
///
/// # Errors
/// When it is not certain that the states are reached, or the equations cannot be solved within the budget.
pub fn worth_of_passage(
    chain: &Chain,
    initial: &[(u32, f64)],
    goal: &[bool],
    budget: &mut Budget<'_>,
) -> Result<Worth, Refusal> {
    if !super::passage(chain, initial, goal, budget)?.certain {
        return Err(Refusal::new(Class::Unsupported, "", "it is not certain to be reached, so there is no mean time"));
    }
    // Until then the goal is a closed class of its own.
    let budget = &mut super::passage::beside_ending(chain, budget)?;
    let chain = chain.ending(goal);
    let found = super::long_run(&chain, initial, budget)?;
    worth_of_time(&chain, initial, &found, budget)
}

/// Equations of a chain backward, component by component, those that are entered last first.
struct Backward<'a> {
    chain: &'a Chain,
    incoming: Incoming,
    components: Components,
    initial: &'a [(u32, f64)],
}

impl<'a> Backward<'a> {
    fn new(chain: &'a Chain, initial: &'a [(u32, f64)]) -> Self {
        Self { chain, incoming: chain.incoming(), components: components::of(chain), initial }
    }

    fn closed(&self, component: usize) -> bool {
        is_bottom(self.chain, &self.components, component)
    }

    fn inside(&self, component: usize, state: usize) -> bool {
        self.components.of[state] as usize == component
    }

    /// In a component that is left for good: what the way out collects, `each` a time unit and then what `worth` says.
    fn pass(
        &self,
        component: usize,
        found: &LongRun,
        each: f64,
        worth: &mut [f64],
        budget: &mut Budget<'_>,
    ) -> Result<(), Refusal> {
        let nodes = self.components.nodes(component);
        let held: Vec<f64> = nodes.iter().map(|node| found.spent[*node as usize]).collect();
        if held.iter().all(|held| *held == 0.0) {
            return Ok(());
        }
        let collected = |node: &u32| {
            let onward = self.chain.row(*node as usize).filter(|(to, _)| !self.inside(component, *to));
            each + onward.map(|(to, rate)| rate * worth[to]).sum::<f64>()
        };
        let collected: Vec<f64> = nodes.iter().map(collected).collect();
        // What comes in from before, and at time 0.
        let mut inflow: Vec<f64> = nodes
            .iter()
            .map(|node| {
                let before = self.incoming.column(*node as usize).filter(|(from, _)| !self.inside(component, *from));
                before.map(|(from, rate)| found.spent[from] * rate).sum()
            })
            .collect();
        for (state, probability) in self.initial.iter().filter(|(state, _)| self.inside(component, *state as usize)) {
            if let Ok(local) = nodes.binary_search(state) {
                inflow[local] += probability;
            }
        }
        self.solve(component, (&held, Some(&inflow)), &collected, worth, budget)
    }

    /// Writes the solution of `exit y = right + (rates within) y` for the states of a component into `worth`. `held` is what is
    /// held in each of them, forward, and what comes in there; nothing comes into a closed component, where `held * right` adds up
    /// to 0 and the solution may have any constant besides.
    fn solve(
        &self,
        component: usize,
        (held, inflow): (&[f64], Option<&[f64]>),
        right: &[f64],
        worth: &mut [f64],
        budget: &mut Budget<'_>,
    ) -> Result<(), Refusal> {
        let nodes = self.components.nodes(component);
        if let [node] = nodes {
            let exit = self.chain.exit(*node as usize);
            worth[*node as usize] = if exit > 0.0 { right[0] / exit } else { 0.0 };
            return Ok(());
        }
        let part = Component { chain: self.chain, incoming: &self.incoming, nodes };
        let budget = &mut budget.beside(BESIDE * nodes.len() as u64);
        let solve = Turned::new(&part, held, inflow, budget)?;
        let both = if solve.is_chain() { self.chain.bytes() + self.chain.bytes_turned() } else { 0 };
        let budget = &mut budget.beside(both);
        nodes.iter().for_each(|node| worth[*node as usize] = 0.0);
        let mut missing = right.to_vec();
        let mut last = f64::INFINITY;
        // What is off counts by what flows through the state.
        let flows: Vec<f64> =
            nodes.iter().zip(held).map(|(node, held)| held * self.chain.exit(*node as usize)).collect();
        let all = sum(held.iter().copied());
        for _ in 0..REFINED {
            let mut more = solve.solve(&missing, budget)?;
            if inflow.is_none() {
                let mean = sum(more.iter().zip(held).map(|(more, held)| more * held)) / all;
                more.iter_mut().for_each(|more| *more -= mean);
            }
            nodes.iter().zip(&more).for_each(|(node, more)| worth[*node as usize] += more);
            let moved = sum(more.iter().zip(&flows).map(|(more, flow)| more.abs() * flow));
            let of = sum(nodes.iter().zip(&flows).map(|(node, flow)| worth[*node as usize].abs() * flow));
            if moved <= STILL * of || (moved >= 0.5 * last && moved <= ROUNDED * of) {
                return Ok(());
            }
            last = moved;
            for (missing, (node, right)) in missing.iter_mut().zip(nodes.iter().zip(right)) {
                let here = worth[*node as usize];
                let within = self.chain.row(*node as usize);
                // Differences of neighbours: where all are worth nearly the same, nothing of it is lost.
                *missing = right
                    + within
                        .map(|(to, rate)| rate * (if self.inside(component, to) { worth[to] } else { 0.0 } - here))
                        .sum::<f64>();
            }
            if inflow.is_none() {
                let mean = sum(missing.iter().zip(held).map(|(missing, held)| missing * held)) / all;
                missing.iter_mut().for_each(|missing| *missing -= mean);
            }
        }
        let why = format!("what {} states are worth does not settle", nodes.len());
        Err(Refusal::new(Class::TooLarge, "", why))
    }
}
