//! The service of one request: a walk through the net that holds one request. Where that does several things at once, they are done one after
//! the other here: sums of work are the same, and times are not (`alone`).

use std::rc::Rc;

use gspn::Budget;
use hashbrown::HashMap;

use super::complex::Complex;
use super::walk::{Walk, walk};
use crate::model::{Model, Workload};
use crate::net::{self, Form, Paid, Sketch, Stage, What};
use crate::{Fault, weave};

/// The service of one request. What other prices do not change is shared with the same at other prices.
#[derive(Debug, Clone)]
pub(super) struct Service {
    /// Probability of beginning in each phase; phases are in an order in which every way leads forward. What is missing to 1 is the share
    /// of requests that take no time at all.
    pub(super) begin: Rc<[f64]>,
    /// Rate of leaving each phase.
    exits: Vec<f64>,
    /// Rate of each phase to the one behind it.
    next: Vec<f64>,
    /// Ways to later ones, those of the first phase first; and where those of each begin, and end.
    ways: Vec<(usize, f64)>,
    starts: Rc<[usize]>,
    /// Rate of each phase at which the request comes to its end, or is aborted.
    pub(super) done: Vec<f64>,
    /// Mean time that a request spends in each phase.
    spent: Vec<f64>,
    /// For each phase, the busy cores of each node, behind them whether each line that takes time is, and behind those the units that are held
    /// of each pool: so many numbers.
    busy: Rc<[f64]>,
    resources: usize,
    /// For each phase, what is done in it.
    what: Rc<[Option<What>]>,
    /// For each phase, the price that says how long it lasts, by its index.
    paid: Rc<[Option<usize>]>,
    /// For each phase, watts besides those of busy cores.
    watts: Vec<f64>,
    /// The prices.
    pub(super) prices: Rc<[Paid]>,
    /// Share of requests that come to their end, and of those that are aborted: each by itself, for one of them may be next to nothing.
    pub(super) finished: f64,
    pub(super) aborted: f64,
}

/// What a request does until something else happens.
#[derive(Debug)]
pub(super) struct Until {
    /// The rate at which it happens.
    pub(super) rate: f64,
    /// Mean time in each phase until then, or until it leaves that phase.
    stays: Vec<f64>,
    /// For each phase, the mean time in the one behind it of who leaves this one a second.
    goes_on: Vec<f64>,
}

/// The service of one request of `model`, which takes time.
///
/// # Errors
/// Where none of its steps does; as [`any`].
pub(super) fn service(model: &Model, budget: &mut Budget<'_>) -> Result<(Service, Sketch), Fault> {
    any(model, budget).and_then(|it| if it.0.begin.is_empty() { Err(net::timeless()) } else { Ok(it) })
}

/// The service of one request of `model`, of which it may be that no step takes time.
///
/// # Errors
/// As [`net::lay`], and for what takes more memory or time than the budget.
pub(super) fn any(model: &Model, budget: &mut Budget<'_>) -> Result<(Service, Sketch), Fault> {
    let alone = weave(model).of(Workload::Open { rate: 1.0, room: 1, threads: None });
    let laid = net::unnamed(&alone, Form::InOrder)?;
    let walk = walk(&laid, budget)?;
    let (finished, aborted) = (walk.finished.clone(), walk.aborted.clone());
    let mut service = of(walk, &laid, model);
    let share = |(rates, at_once): (Vec<f64>, f64)| {
        rates.iter().zip(&service.spent).map(|(rate, spent)| rate * spent).sum::<f64>() + at_once
    };
    let (finished, aborted) = (share(finished), share(aborted));
    // Together they are one, but for rounding.
    (service.finished, service.aborted) = (finished / (finished + aborted), aborted / (finished + aborted));
    Ok((service, laid))
}

/// A walk, with what is done in each of its phases.
fn of(walk: Walk, laid: &Sketch, model: &Model) -> Service {
    let nodes = model.nodes.len();
    let stages: HashMap<usize, &Stage> = laid.stages.iter().rev().map(|stage| (stage.place, stage)).collect();
    let at = |place: &usize| stages.get(place).copied();
    let resources = nodes + laid.lines.len() + model.pools.len();
    let mut all_busy = vec![0.0; walk.places.len() * resources];
    for (place, busy) in walk.places.iter().zip(all_busy.chunks_exact_mut(resources.max(1))) {
        let on = at(place).and_then(|stage| stage.on);
        let of_node = laid.free.iter().position(|free| Some(*free) == on);
        let of_line = || laid.lines.iter().position(|line| Some(*line) == on).map(|line| nodes + line);
        if let Some(resource) = of_node.or_else(of_line) {
            busy[resource] = 1.0;
        }
        for (pool, count) in at(place).into_iter().flat_map(|stage| &stage.holds) {
            busy[nodes + laid.lines.len() + pool] = f64::from(*count);
        }
    }
    let phases = walk.places.len();
    let (mut exits, mut next) = (Vec::with_capacity(phases), Vec::with_capacity(phases));
    let (mut ways, mut starts) = (Vec::new(), Vec::with_capacity(phases + 1));
    starts.push(0);
    for (phase, done) in walk.done.iter().enumerate() {
        let own = &walk.ways[walk.starts[phase]..walk.starts[phase + 1]];
        exits.push(own.iter().map(|(_, rate)| rate).sum::<f64>() + done);
        let (behind, later) = (|way: &&(usize, f64)| way.0 == phase + 1, |way: &&(usize, f64)| way.0 != phase + 1);
        next.push(own.iter().filter(behind).map(|(_, rate)| rate).sum());
        ways.extend(own.iter().filter(later));
        starts.push(ways.len());
    }
    let mut service = Service {
        exits,
        busy: all_busy.into(),
        resources,
        what: walk.places.iter().map(|place| at(place).map(|stage| stage.what.clone())).collect(),
        paid: walk.places.iter().map(|place| at(place).and_then(|stage| stage.paid)).collect(),
        watts: walk.places.iter().map(|place| at(place).map_or(0.0, |stage| stage.watts)).collect(),
        begin: walk.begin.into(),
        next,
        ways,
        starts: starts.into(),
        done: walk.done,
        prices: laid.prices.clone().into(),
        spent: Vec::new(),
        finished: 1.0,
        aborted: 0.0,
    };
    let mut spent = service.begin.to_vec();
    service.forward(&mut spent, 1.0, &service.until(0.0));
    service.spent = spent;
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

    /// The time that a request spends in what one price pays for.
    pub(super) fn paid_by(&self, price: usize) -> f64 {
        self.spent.iter().zip(&*self.paid).filter(|(_, paid)| **paid == Some(price)).map(|(spent, _)| spent).sum()
    }

    /// What each phase takes of everything that is used up.
    fn busy(&self) -> impl Iterator<Item = &[f64]> {
        self.busy.chunks_exact(self.resources.max(1))
    }

    /// Core seconds that a request costs a node; behind the nodes the seconds that it holds a line, behind those of units of a pool.
    pub(super) fn cores(&self, node: usize) -> f64 {
        self.spent.iter().zip(self.busy()).map(|(spent, busy)| spent * busy[node]).sum()
    }

    /// How many times as long as visits of a resource are in the mean the longest is that may be ahead of somebody there: 1 where all are
    /// alike, whatever their number. A core is kept over several steps on end, a line for one message.
    pub(super) fn unlike(&self, resource: usize, is_line: bool) -> f64 {
        let on: Vec<bool> = self.busy().map(|busy| busy[resource] > 0.0).collect();
        let is_on = |phase: usize| on.get(phase).is_some_and(|on| *on);
        let mut ahead = vec![0.0_f64; on.len()];
        let mut visits: f64 = self.begin.iter().zip(&on).filter(|(_, on)| **on).map(|(share, _)| share).sum();
        for phase in (0..on.len()).rev() {
            let behind = std::iter::once((phase + 1, self.next[phase])).chain(self.leads(phase).iter().copied());
            let there = behind.filter(|(to, _)| is_on(*to));
            if is_on(phase) && !is_line {
                let later: f64 = there.map(|(to, rate)| rate * ahead[to]).sum();
                ahead[phase] = (1.0 + later) / self.exits[phase];
            } else {
                visits += self.spent[phase] * there.map(|(_, rate)| rate).sum::<f64>();
                ahead[phase] = if is_on(phase) { 1.0 / self.exits[phase] } else { 0.0 };
            }
        }
        let longest = ahead.into_iter().fold(0.0, f64::max);
        if visits > 0.0 { (longest * visits / self.cores(resource)).max(1.0) } else { 1.0 }
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
        for ((what, spent), busy) in self.what.iter().zip(&self.spent).zip(self.busy()) {
            let Some(what) = what else { continue };
            let (seconds, cores) = sums.entry(what).or_insert_with(|| (0.0, vec![0.0; busy.len()]));
            *seconds += spent;
            cores.iter_mut().zip(busy).for_each(|(sum, busy)| *sum += spent * busy);
        }
        sums.into_iter().map(|(what, (seconds, cores))| (what, seconds, cores))
    }

    /// The same with a factor on the times that are paid by one price.
    pub(super) fn scaled(&self, price: usize, factor: f64) -> Self {
        self.scaled_in(|phase| self.paid[phase] == Some(price), factor)
    }

    /// The same with as good as no time for `what`.
    pub(super) fn without(&self, what: &What) -> Self {
        const NEXT_TO_NOTHING: f64 = 1e-9;
        self.scaled_in(|phase| self.what[phase].as_ref() == Some(what), NEXT_TO_NOTHING)
    }

    fn scaled_in(&self, is_meant: impl Fn(usize) -> bool, factor: f64) -> Self {
        let mut scaled = self.clone();
        for phase in (0..self.exits.len()).filter(|phase| is_meant(*phase)) {
            scaled.exits[phase] /= factor;
            scaled.done[phase] /= factor;
            scaled.spent[phase] *= factor;
            scaled.next[phase] /= factor;
            let ways = self.starts[phase]..self.starts[phase + 1];
            scaled.ways[ways].iter_mut().for_each(|(_, rate)| *rate /= factor);
            // Its energy stays what it is.
            scaled.watts[phase] /= factor;
        }
        scaled
    }

    fn leads(&self, phase: usize) -> &[(usize, f64)] {
        &self.ways[self.starts[phase]..self.starts[phase + 1]]
    }

    /// For [`Self::forward`], with so high a rate.
    pub(super) fn until(&self, rate: f64) -> Until {
        let stays: Vec<f64> = self.exits.iter().map(|exit| 1.0 / (rate + exit)).collect();
        let behind = stays.iter().skip(1).chain([&0.0]);
        Until { rate, goes_on: self.next.iter().zip(behind).map(|(rate, stays)| rate * stays).collect(), stays }
    }

    /// `x` with `x (s I - T) = right`, in the place of `right`, of which each is `by` times what stands there; `s` is the rate of `until`.
    pub(super) fn forward(&self, x: &mut [f64], by: f64, until: &Until) {
        x.iter_mut().zip(&until.stays).for_each(|(x, stays)| *x = *x * by * stays);
        let mut before = 0.0;
        for phase in 0..x.len() {
            let here = x[phase] + before;
            x[phase] = here;
            before = here * until.goes_on[phase];
            for (to, rate) in self.leads(phase) {
                x[*to] += here * rate * until.stays[*to];
            }
        }
    }

    /// The transform of the time from each phase to the end, at `s`.
    pub(super) fn transform(&self, s: Complex, x: &mut Vec<Complex>) {
        x.resize(self.exits.len(), Complex::default());
        let mut inverse = Inverse::new(s);
        for phase in (0..x.len()).rev() {
            let behind = x.get(phase + 1).copied().unwrap_or_default();
            let mut sum = Complex::real(self.done[phase]).plus(behind.times(self.next[phase]));
            for (to, rate) in self.leads(phase) {
                sum = sum.plus(x[*to].times(*rate));
            }
            x[phase] = sum.by(inverse.at(self.exits[phase]));
        }
    }

    /// `x` with `x (s I - T) = right`, in the place of `right`.
    pub(super) fn ahead(&self, x: &mut [Complex], s: Complex) {
        let mut inverse = Inverse::new(s);
        let mut before = Complex::default();
        for phase in 0..x.len() {
            let here = x[phase].plus(before).by(inverse.at(self.exits[phase]));
            x[phase] = here;
            before = here.times(self.next[phase]);
            for (to, rate) in self.leads(phase) {
                x[*to] = x[*to].plus(here.times(*rate));
            }
        }
    }

    /// Whether the time of a phase is paid by a price.
    pub(super) fn is_paid(&self, phase: usize, price: usize) -> bool {
        self.paid[phase] == Some(price)
    }

    /// `x` and `u` with `(s I - T) x = right` and `(s I - T) u = 1`.
    pub(super) fn backward(&self, right: &[Complex], s: Complex, both: &mut Vec<(Complex, Complex)>) {
        both.resize(self.exits.len(), Default::default());
        let mut inverse = Inverse::new(s);
        for phase in (0..both.len()).rev() {
            let behind = both.get(phase + 1).copied().unwrap_or_default();
            let next = self.next[phase];
            let (mut x, mut u) =
                (right[phase].plus(behind.0.times(next)), Complex::real(1.0).plus(behind.1.times(next)));
            for (to, rate) in self.leads(phase) {
                x = x.plus(both[*to].0.times(*rate));
                u = u.plus(both[*to].1.times(*rate));
            }
            let by = inverse.at(self.exits[phase]);
            both[phase] = (x.by(by), u.by(by));
        }
    }
}

/// One over `s` and a rate. Stages in a row have one rate, and so need one division.
struct Inverse {
    s: Complex,
    rate: f64,
    inverse: Complex,
}

impl Inverse {
    fn new(s: Complex) -> Self {
        Self { s, rate: f64::NAN, inverse: s }
    }

    fn at(&mut self, rate: f64) -> Complex {
        if self.rate.to_bits() != rate.to_bits() {
            (self.rate, self.inverse) = (rate, self.s.plus(Complex::real(rate)).inverse());
        }
        self.inverse
    }
}
