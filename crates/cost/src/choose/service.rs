//! The service of one request: a walk through the net that holds one request.

use gspn::Budget;
use hashbrown::HashMap;

use super::invert::Complex;
use super::walk::{Walk, walk};
use crate::model::{Model, Workload};
use crate::net::{self, Laid, Paid, Stage, What};
use crate::{Fault, weave};

/// The service of one request.
#[derive(Debug, Clone)]
pub(super) struct Service {
    /// Probability of beginning in each phase; phases are in an order in which every way leads forward. What is missing to 1 is the share
    /// of requests that take no time at all.
    pub(super) begin: Vec<f64>,
    /// Rate of leaving each phase.
    exits: Vec<f64>,
    /// Ways to later phases.
    ways: Vec<Vec<(usize, f64)>>,
    /// Rate of each phase at which the request comes to its end, or is aborted.
    pub(super) done: Vec<f64>,
    /// Mean time that a request spends in each phase.
    spent: Vec<f64>,
    /// For each phase, the busy cores of each node, behind them whether each line that takes time is, and behind those the units that are held
    /// of each pool.
    busy: Vec<Vec<f64>>,
    /// For each phase, what is done in it.
    what: Vec<Option<What>>,
    /// For each phase, the price that says how long it lasts, by its index.
    paid: Vec<Option<usize>>,
    /// For each phase, watts besides those of busy cores.
    watts: Vec<f64>,
    /// The prices.
    pub(super) prices: Vec<Paid>,
    /// Share of requests that come to their end.
    pub(super) finished: f64,
}

/// The service of one request of `model`.
pub(super) fn service(model: &Model, budget: &mut Budget<'_>) -> Result<(Service, Laid), Fault> {
    let mut alone = model.clone();
    alone.workload = Workload::Open { rate: 1.0, room: 1, threads: None };
    let laid = net::lay(&weave(&alone))?;
    let walk = walk(&laid, budget)?;
    let (aborts, at_once) = walk.aborted.clone();
    let mut service = of(walk, &laid, model);
    let later: f64 = aborts.iter().zip(&service.spent).map(|(rate, spent)| rate * spent).sum();
    service.finished = 1.0 - (later + at_once).clamp(0.0, 1.0);
    Ok((service, laid))
}

/// A walk, with what is done in each of its phases.
fn of(walk: Walk, laid: &Laid, model: &Model) -> Service {
    let nodes = model.nodes.len();
    let stages: HashMap<usize, &Stage> = laid.stages.iter().rev().map(|stage| (stage.place, stage)).collect();
    let at = |place: &usize| stages.get(place).copied();
    let busy = |place: &usize| {
        let mut busy = vec![0.0; nodes + laid.lines.len() + model.pools.len()];
        let on = at(place).and_then(|stage| stage.on);
        let of_node = laid.free.iter().position(|free| Some(*free) == on);
        let of_line = || laid.lines.iter().position(|line| Some(*line) == on).map(|line| nodes + line);
        if let Some(resource) = of_node.or_else(of_line) {
            busy[resource] = 1.0;
        }
        for (pool, count) in at(place).into_iter().flat_map(|stage| &stage.holds) {
            busy[nodes + laid.lines.len() + pool] = f64::from(*count);
        }
        busy
    };
    let exit = |(ways, done): (&Vec<(usize, f64)>, &f64)| ways.iter().map(|(_, rate)| rate).sum::<f64>() + done;
    let mut service = Service {
        exits: walk.ways.iter().zip(&walk.done).map(exit).collect(),
        busy: walk.places.iter().map(busy).collect(),
        what: walk.places.iter().map(|place| at(place).map(|stage| stage.what.clone())).collect(),
        paid: walk.places.iter().map(|place| at(place).and_then(|stage| stage.paid)).collect(),
        watts: walk.places.iter().map(|place| at(place).map_or(0.0, |stage| stage.watts)).collect(),
        begin: walk.begin,
        ways: walk.ways,
        done: walk.done,
        prices: laid.prices.clone(),
        spent: Vec::new(),
        finished: 1.0,
    };
    service.spent = service.forward(&service.begin, 0.0);
    service
}

impl Service {
    /// The share of requests that take time.
    pub(super) fn takes_time(&self) -> f64 {
        self.begin.iter().sum::<f64>().min(1.0)
    }

    /// Whether all of them do.
    pub(super) fn always_takes_time(&self) -> bool {
        self.takes_time() > 1.0 - 1e-12
    }

    /// Mean time of one request.
    pub(super) fn mean(&self) -> f64 {
        self.spent.iter().sum()
    }

    /// Core seconds that a request costs a node; behind the nodes the seconds that it holds a line, behind those of units of a pool.
    pub(super) fn cores(&self, node: usize) -> f64 {
        self.spent.iter().zip(&self.busy).map(|(spent, busy)| spent * busy[node]).sum()
    }

    /// Joules of a request, besides those of power.
    pub(super) fn energy(&self) -> f64 {
        self.spent.iter().zip(&self.watts).map(|(spent, watts)| spent * watts).sum()
    }

    /// What takes the most of the core seconds of a node (of the time of a request, if none is named): what, its seconds, and its core
    /// seconds on each node.
    pub(super) fn largest(&self, node: Option<usize>) -> Option<(&What, f64, Vec<f64>)> {
        let size = |seconds: f64, cores: &[f64]| node.map_or(seconds, |node| cores[node]);
        self.sums().max_by(|one, other| size(one.1, &one.2).total_cmp(&size(other.1, &other.2)))
    }

    /// Everything that is done: its seconds, and its core seconds on each node.
    pub(super) fn sums(&self) -> impl Iterator<Item = (&What, f64, Vec<f64>)> {
        let mut sums: std::collections::BTreeMap<&What, (f64, Vec<f64>)> = std::collections::BTreeMap::new();
        for ((what, spent), busy) in self.what.iter().zip(&self.spent).zip(&self.busy) {
            let Some(what) = what else { continue };
            let (seconds, cores) = sums.entry(what).or_insert_with(|| (0.0, vec![0.0; busy.len()]));
            *seconds += spent;
            cores.iter_mut().zip(busy).for_each(|(sum, busy)| *sum += spent * busy);
        }
        sums.into_iter().map(|(what, (seconds, cores))| (what, seconds, cores))
    }

    /// The same with a factor on the times that are paid by one price.
    pub(super) fn scaled(&self, price: usize, factor: f64) -> Self {
        let mut scaled = self.clone();
        for phase in (0..self.exits.len()).filter(|phase| self.paid[*phase] == Some(price)) {
            scaled.exits[phase] /= factor;
            scaled.done[phase] /= factor;
            scaled.spent[phase] *= factor;
            scaled.ways[phase].iter_mut().for_each(|(_, rate)| *rate /= factor);
            // Its energy stays what it is.
            scaled.watts[phase] /= factor;
        }
        scaled
    }

    /// `x` with `x (s I - T) = right`.
    pub(super) fn forward(&self, right: &[f64], s: f64) -> Vec<f64> {
        let mut x = right.to_vec();
        for phase in 0..x.len() {
            x[phase] /= s + self.exits[phase];
            let here = x[phase];
            for (to, rate) in &self.ways[phase] {
                x[*to] += here * rate;
            }
        }
        x
    }

    /// The transform of the time from each phase to the end, at `s`.
    pub(super) fn transform(&self, s: Complex) -> Vec<Complex> {
        self.backward(|phase| Complex { re: self.done[phase], im: 0.0 }, s)
    }

    /// `x` with `(s I - T) x = right`.
    pub(super) fn backward(&self, right: impl Fn(usize) -> Complex, s: Complex) -> Vec<Complex> {
        let mut x = vec![Complex::default(); self.exits.len()];
        for phase in (0..x.len()).rev() {
            let mut sum = right(phase);
            for (to, rate) in &self.ways[phase] {
                sum = sum.plus(x[*to].times(*rate));
            }
            x[phase] = sum.over(s.plus(Complex { re: self.exits[phase], im: 0.0 }));
        }
        x
    }
}
