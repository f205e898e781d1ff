//! One component of a chain: its stationary distribution, or the time spent in it before it is left.

use super::band::Band;
use super::elimination::{Eliminated, Part};
use super::fronts::Fronts;
use super::level::{Level, NOTHING, together};
use super::number::Number;
use super::sweep::Outcome;
use super::{Chain, Incoming, multilevel, quick, sweep};
use crate::product::wide::Wide;
use crate::{Budget, Progress};
use crate::{Class, Refusal};

/// States of a component that are taken out one by one in any case.
const SMALL: usize = 600;
/// Edge operations that taking out may cost where sweeps did not settle.
const WORK: u64 = 3_000_000_000;
/// The same where it is tried first, and the states up to which it is.
const FIRST: u64 = 20_000_000;
const MEDIUM: usize = 5_000;
/// A component of at least one in so many states finds its states by a table.
const LARGE_PART: usize = 8;
/// How often what is missing of a solution is solved for, and how little that may move in the end.
const REFINED: usize = 6;
const STILL: f64 = 1e-9;

/// A strongly connected component that is being solved.
pub(super) struct Component<'a> {
    pub(super) chain: &'a Chain,
    pub(super) incoming: &'a Incoming,
    pub(super) nodes: &'a [u32],
}

impl<'a> Component<'a> {
    /// Its stationary distribution; nothing leaves it.
    pub(super) fn stationary(&self, budget: &mut Budget<'_>) -> Result<Vec<f64>, Refusal> {
        if self.nodes.len() == 1 {
            return Ok(vec![1.0]);
        }
        if let Some(band) = Band::first(self, budget)
            && let Some(found) = band.stationary(self, budget)?
            && self.decides_without_rare(&found)
        {
            return Ok(found);
        }
        match quick::stationary(self, budget)? {
            Some(weights) => Ok(weights),
            None => Ok(self.slowly_stationary(true, budget)?.0),
        }
    }

    /// The same, where quick sweeps do not settle. Where it need not be `whole`, rare states may be right to as much only as the number
    /// says beside it times what others are right to relatively.
    pub(super) fn slowly_stationary(&self, whole: bool, budget: &mut Budget<'_>) -> Result<(Vec<f64>, f64), Refusal> {
        if let Some(band) = Band::next(self, budget)
            && let Some(found) = band.stationary(self, budget)?
            && self.decides_without_rare(&found)
        {
            return Ok((found, 0.0));
        }
        if let Some(eliminated) = self.eliminate_first(None, budget)? {
            return Ok((self.distribution(&eliminated, budget)?, 0.0));
        }
        if let Some(fronts) = Fronts::next(self, true, budget)?
            && let Some(found) = fronts.stationary(self, budget)?
            && self.decides_without_rare(&found)
        {
            return Ok((found, 0.0));
        }
        let mut apart = sweep::decoupled(self, budget)?;
        if !apart {
            match sweep::stationary(self, budget)? {
                Outcome::Settled(weights) => return Ok((weights, 0.0)),
                Outcome::Slow => {}
                Outcome::Stuck => apart = true,
            }
        }
        let own = if self.nodes.len() == self.chain.len() { 0 } else { 12 * (self.edges() + self.nodes.len()) as u64 };
        budget.bytes(self.bytes() + own)?;
        let budget = &mut budget.beside(own);
        let level = self.level();
        let found = if whole || apart {
            multilevel::stationary(&level, apart, budget)?.map(|weights| (weights, 0.0))
        } else {
            multilevel::commonly_stationary(&level, budget)?
        };
        if let Some(found) = found {
            return Ok(found);
        }
        if let Some(band) = Band::last(self, budget)
            && let Some(found) = band.stationary(self, budget)?
            && self.decides_without_rare(&found)
        {
            return Ok((found, 0.0));
        }
        if let Some(fronts) = Fronts::last(self, budget)?
            && let Some(found) = fronts.stationary(self, budget)?
            && self.decides_without_rare(&found)
        {
            return Ok((found, 0.0));
        }
        let eliminated = self.eliminate_at_any_price(None, budget)?;
        Ok((self.distribution(&eliminated, budget)?, 0.0))
    }

    /// The stationary distribution from its states taken out: once more, with numbers of any size, where some may have been lost.
    fn distribution(&self, eliminated: &Eliminated<f64>, budget: &mut Budget<'_>) -> Result<Vec<f64>, Refusal> {
        let found = eliminated.stationary();
        if !eliminated.doubtful() && found.iter().all(|weight| *weight >= NOTHING) {
            return Ok(found);
        }
        let work = if self.nodes.len() <= SMALL { u64::MAX } else { FIRST };
        match self.eliminate::<Wide>(work, None, budget)? {
            Some(eliminated) => Ok(eliminated.stationary()),
            None if !eliminated.doubtful() && self.decides_without_rare(&found) => Ok(found),
            None => Err(self.stiff()),
        }
    }

    /// Whether states that have more than nothing of `weights` are reached from each other without those that have less.
    pub(super) fn decides_without_rare(&self, weights: &[f64]) -> bool {
        weights.iter().all(|weight| *weight > NOTHING) || {
            let level = self.level();
            together(&level.starts, &level.sources, weights, [NOTHING; 2])
        }
    }

    /// Time spent in each state before the component is left.
    pub(super) fn occupancy(&self, inflow: Vec<f64>, budget: &mut Budget<'_>) -> Result<Vec<f64>, Refusal> {
        if let ([node], [inflow]) = (self.nodes, inflow.as_slice()) {
            let exit = self.chain.exit(*node as usize);
            return Ok(vec![if exit > 0.0 { inflow / exit } else { 0.0 }]);
        }
        if let Some(band) = Band::first(self, budget)
            && let Some(found) = band.occupancy(self, &inflow, None, budget)?
        {
            return Ok(found);
        }
        if let Some(time) = quick::occupancy(self, &inflow, budget)? {
            return Ok(time);
        }
        if let Some(band) = Band::next(self, budget)
            && let Some(found) = band.occupancy(self, &inflow, None, budget)?
        {
            return Ok(found);
        }
        if let Some(eliminated) = self.eliminate_first(None, budget)? {
            return Ok(eliminated.occupancy(inflow));
        }
        if let Some(fronts) = Fronts::next(self, false, budget)?
            && let Some(found) = fronts.reduced(self, None, budget)?
        {
            return Ok(found.occupancy(inflow));
        }
        let apart = sweep::decoupled(self, budget)?;
        let spent = |inflow: &[f64], budget: &mut Budget<'_>| {
            if !apart && let Some(time) = sweep::occupancy(self, inflow, budget)? {
                return Ok(Some(time));
            }
            multilevel::occupancy(self, inflow, None, apart, budget)
        };
        let found = if inflow.iter().all(|inflow| *inflow >= 0.0) {
            spent(&inflow, budget)?
        } else {
            self.refined(&inflow, &vec![0.0; inflow.len()], spent, budget)?
        };
        if let Some(time) = found {
            return Ok(time);
        }
        if let Some(band) = Band::last(self, budget)
            && let Some(found) = band.occupancy(self, &inflow, None, budget)?
        {
            return Ok(found);
        }
        Ok(self.eliminate_at_any_price(None, budget)?.occupancy(inflow))
    }

    /// Its edges, where nothing leaves it.
    pub(super) fn level(&self) -> Level<'a> {
        let Incoming { starts, sources, rates } = self.incoming;
        if self.nodes.len() == self.chain.len() {
            let (starts, sources, rates) = (starts.as_slice(), sources.as_slice(), rates.as_slice());
            let exits = self.chain.exits.as_slice();
            return Level { starts: starts.into(), sources: sources.into(), rates: rates.into(), exits: exits.into() };
        }
        let edges = self.edges();
        let (mut starts, mut sources, mut rates) = (vec![0_u32], Vec::with_capacity(edges), Vec::with_capacity(edges));
        let mut add = |inside: &dyn Fn(usize) -> Option<u32>| {
            for node in self.nodes {
                for (from, rate) in self.incoming.column(*node as usize) {
                    if let Some(from) = inside(from) {
                        sources.push(from);
                        rates.push(rate);
                    }
                }
                #[expect(clippy::cast_possible_truncation, reason = "edges were counted before")]
                starts.push(sources.len() as u32);
            }
        };
        if self.nodes.len() * LARGE_PART >= self.chain.len() {
            let mut at = vec![u32::MAX; self.chain.len()];
            self.nodes.iter().zip(0..).for_each(|(node, local)| at[*node as usize] = local);
            add(&|from| Some(at[from]).filter(|at| *at != u32::MAX));
        } else {
            #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
            add(&|from| self.local(from).map(|from| from as u32));
        }
        let exits: Vec<f64> = self.nodes.iter().map(|node| self.chain.exit(*node as usize)).collect();
        Level { starts: starts.into(), sources: sources.into(), rates: rates.into(), exits: exits.into() }
    }

    /// Where nothing leaves it: some solution of the equations of [`Self::occupancy`], for an `inflow` that adds up to 0. `share` is
    /// its stationary distribution.
    pub(super) fn shift(&self, inflow: Vec<f64>, share: &[f64], budget: &mut Budget<'_>) -> Result<Vec<f64>, Refusal> {
        if self.nodes.len() == 1 {
            return Ok(vec![0.0]);
        }
        // It ends in the state where it mostly is.
        let end = likeliest(share);
        if let Some(band) = Band::first(self, budget)
            && let Some(found) = band.occupancy(self, &inflow, end, budget)?
        {
            return Ok(found);
        }
        if let Some(eliminated) = self.eliminate_first(end, budget)? {
            return Ok(eliminated.occupancy(inflow));
        }
        if let Some(fronts) = Fronts::next(self, false, budget)?
            && let Some(found) = fronts.reduced(self, end, budget)?
        {
            return Ok(found.occupancy(inflow));
        }
        // What comes in everywhere in both parts reaches all states, and cancels.
        let apart = sweep::decoupled(self, budget)?;
        let spent = |inflow: &[f64], budget: &mut Budget<'_>| {
            let everywhere = sum(inflow.iter().copied());
            let inflow: Vec<f64> =
                inflow.iter().zip(share).map(|(inflow, share)| inflow + everywhere * share).collect();
            multilevel::occupancy(self, &inflow, end, apart, budget)
        };
        if let Some(time) = self.refined(&inflow, share, spent, budget)? {
            return Ok(time);
        }
        if let Some(band) = Band::last(self, budget)
            && let Some(found) = band.occupancy(self, &inflow, end, budget)?
        {
            return Ok(found);
        }
        Ok(self.eliminate_at_any_price(end, budget)?.occupancy(inflow))
    }

    /// Solves for an `inflow` of both signs, and again for what is missing until that moves nothing: what comes in above and below 0
    /// may take long and nearly cancel. `share` (all 0 where something leaves) is what a solution may have more or less of.
    fn refined(
        &self,
        inflow: &[f64],
        share: &[f64],
        mut spent: impl FnMut(&[f64], &mut Budget<'_>) -> Result<Option<Vec<f64>>, Refusal>,
        budget: &mut Budget<'_>,
    ) -> Result<Option<Vec<f64>>, Refusal> {
        let mut time = vec![0.0; inflow.len()];
        let mut missing = inflow.to_vec();
        for _ in 0..REFINED {
            let Some(mut more) = difference(&missing, &mut spent, budget)? else { return Ok(None) };
            let all = sum(more.iter().copied());
            more.iter_mut().zip(share).for_each(|(more, share)| *more -= all * share);
            time.iter_mut().zip(&more).for_each(|(time, more)| *time += more);
            let size = |vector: &[f64]| sum(vector.iter().map(|entry| entry.abs()));
            let (moved, of) = (size(&more), size(&time));
            if moved <= STILL * of {
                return Ok(Some(time));
            }
            for (local, node) in self.nodes.iter().enumerate() {
                let inside = self.incoming.column(*node as usize);
                let arriving = inside.filter_map(|(from, rate)| Some(time[self.local(from)?] * rate));
                let leaving = -time[local] * self.chain.exit(*node as usize);
                missing[local] = sum(arriving.chain([inflow[local], leaving]));
            }
            let all = sum(missing.iter().copied());
            missing.iter_mut().zip(share).for_each(|(missing, share)| *missing -= all * share);
        }
        Ok(None)
    }

    /// Takes out all states where that is not beyond all measure.
    pub(super) fn eliminate_at_any_price(
        &self,
        end: Option<usize>,
        budget: &mut Budget<'_>,
    ) -> Result<Eliminated<f64>, Refusal> {
        self.eliminate(WORK, end, budget)?.ok_or_else(|| self.stiff())
    }

    /// Takes out all states where they are few; `None`, too, where there is no memory for it, and others may do with less.
    pub(super) fn eliminate_first(
        &self,
        end: Option<usize>,
        budget: &mut Budget<'_>,
    ) -> Result<Option<Eliminated<f64>>, Refusal> {
        let work = match self.nodes.len() {
            count if count <= SMALL => u64::MAX,
            count if count <= MEDIUM => FIRST,
            _ => return Ok(None),
        };
        match self.eliminate(work, end, budget) {
            Err(refusal) if refusal.name == "memory" => Ok(None),
            found => found,
        }
    }

    /// The edges into its states.
    pub(super) fn edges(&self) -> usize {
        self.nodes.iter().map(|node| self.incoming.column(*node as usize).len()).sum()
    }

    /// What the chain takes, there and back, and some vectors.
    pub(super) fn bytes(&self) -> u64 {
        self.chain.bytes() + self.chain.bytes_turned() + 40 * self.chain.len() as u64
    }

    fn stiff(&self) -> Refusal {
        let why = format!(
            "the equations of {} states with rates this far apart settle too slowly, and are too many to be solved directly",
            self.nodes.len()
        );
        Refusal::new(Class::TooLarge, "", why)
    }

    pub(super) fn local(&self, state: usize) -> Option<usize> {
        #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
        let state = state as u32;
        if self.nodes.len() == self.chain.len() { Some(state as usize) } else { self.nodes.binary_search(&state).ok() }
    }

    /// Takes out all states, with at most `work` edge operations; what enters `end` leaves.
    fn eliminate<T: Number + From<f64>>(
        &self,
        work: u64,
        end: Option<usize>,
        budget: &mut Budget<'_>,
    ) -> Result<Option<Eliminated<T>>, Refusal> {
        let edges: usize = self.nodes.iter().map(|node| self.chain.row(*node as usize).count()).sum();
        if (edges as u64) > work {
            return Ok(None);
        }
        let besides = self.bytes();
        budget.bytes(besides + Eliminated::<T>::bytes(self.nodes.len(), edges))?;
        let mut part = Part::default();
        for (local, node) in self.nodes.iter().enumerate() {
            let mut leaves = 0.0;
            let mut row = Vec::new();
            for (to, rate) in self.chain.row(*node as usize).filter(|_| end != Some(local)) {
                #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
                match self.local(to).filter(|to| end != Some(*to)) {
                    Some(to) => row.push((to as u32, rate.into())),
                    None => leaves += rate,
                }
            }
            part.rows.push(row);
            part.leaves.push(leaves.into());
        }
        Eliminated::watched(part, work, |bytes| {
            budget.bytes(besides + bytes)?;
            budget.look(Progress::Solving { sweeps: 0, error: 1.0 })
        })
    }
}

/// The entry that is the largest.
pub(super) fn likeliest(share: &[f64]) -> Option<usize> {
    (0..share.len()).max_by(|one, other| share[*one].total_cmp(&share[*other]))
}

/// What `spent` says of the part of `inflow` above 0, less what it says of the part below.
fn difference(
    inflow: &[f64],
    mut spent: impl FnMut(&[f64], &mut Budget<'_>) -> Result<Option<Vec<f64>>, Refusal>,
    budget: &mut Budget<'_>,
) -> Result<Option<Vec<f64>>, Refusal> {
    let above: Vec<f64> = inflow.iter().map(|inflow| inflow.max(0.0)).collect();
    let below: Vec<f64> = inflow.iter().map(|inflow| (-inflow).max(0.0)).collect();
    let Some(mut time) = spent(&above, budget)? else { return Ok(None) };
    let Some(less) = spent(&below, budget)? else { return Ok(None) };
    time.iter_mut().zip(less).for_each(|(time, less)| *time -= less);
    Ok(Some(time))
}

/// Divides by the sum.
pub(super) fn normalize(weights: &mut [f64]) {
    let sum = sum(weights.iter().copied());
    if sum > 0.0 {
        weights.iter_mut().for_each(|weight| *weight /= sum);
    }
}

/// The sum, with what rounding lost (Neumaier).
pub(crate) fn sum(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0_f64, 0.0_f64);
    for value in values {
        let next = sum + value;
        lost += if sum.abs() >= value.abs() { (sum - next) + value } else { (value - next) + sum };
        sum = next;
    }
    sum + lost
}
