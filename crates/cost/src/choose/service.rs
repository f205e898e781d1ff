//! The service of one request: a walk through the markings of the net that holds one request.

use gspn::Budget;
use gspn::explore::explore;

use super::invert::Complex;
use crate::model::{Model, Workload};
use crate::net::{self, Laid, Paid, What};
use crate::{Class, Fault, weave};

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
    /// For each phase, the busy cores of each node, and behind them whether each line that takes time is.
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
    let counted: Vec<usize> = [laid.end].into_iter().chain(laid.aborted).collect();
    let space = explore(&laid.net, 1, &counted, &[], budget)?;
    let (chain, mut tokens) = (space.chain(), vec![0; space.places()]);
    let states = chain.len();
    let mut empty = None;
    let mut busy = vec![vec![0.0; model.nodes.len() + laid.lines.len()]; states];
    let (mut what, mut paid, mut watts) = (vec![None; states], vec![None; states], vec![0.0; states]);
    for state in 0..states {
        space.load(space.marking_of(u32::try_from(state).unwrap_or(u32::MAX)), &mut tokens);
        if tokens[laid.source] == 1 {
            empty = Some(state);
        }
        for (node, place) in laid.free.iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "cores")]
            let used = u64::from(model.nodes[node].all_cores()).saturating_sub(tokens[*place]) as f64;
            busy[state][node] = used;
        }
        for (line, place) in laid.lines.iter().enumerate() {
            busy[state][model.nodes.len() + line] = if tokens[*place] == 0 { 1.0 } else { 0.0 };
        }
        if let Some(stage) = laid.stages.iter().find(|stage| tokens[stage.place] > 0) {
            (what[state], paid[state], watts[state]) = (Some(stage.what.clone()), stage.paid, stage.watts);
        }
    }
    let Some(empty) = empty.filter(|_| states > 1) else {
        return Err(Fault::new(Class::Invalid, "sequence", "nothing in it takes time: there is nothing to choose"));
    };
    let order = forward(chain, empty)?;
    let mut index = vec![usize::MAX; states];
    for (position, state) in order.iter().enumerate() {
        index[*state] = position;
    }
    let phases = order.len();
    let mut begin = vec![0.0; phases];
    // One comes a second. Those that are gone in the same moment are no edge.
    for (to, rate) in chain.row(empty) {
        begin[index[to]] += rate;
    }
    let mut service = Service {
        begin,
        exits: order.iter().map(|state| chain.exit(*state)).collect(),
        ways: Vec::with_capacity(phases),
        done: vec![0.0; phases],
        spent: Vec::new(),
        busy: order.iter().map(|state| busy[*state].clone()).collect(),
        what: order.iter().map(|state| what[*state].take()).collect(),
        paid: order.iter().map(|state| paid[*state]).collect(),
        watts: order.iter().map(|state| watts[*state]).collect(),
        prices: laid.prices.clone(),
        finished: 1.0,
    };
    for (position, state) in order.iter().enumerate() {
        let mut ways = Vec::new();
        for (to, rate) in chain.row(*state) {
            if to == empty { service.done[position] += rate } else { ways.push((index[to], rate)) }
        }
        service.ways.push(ways);
    }
    service.spent = service.forward(&service.begin.clone(), 0.0);
    let ended = |transition: usize| -> f64 {
        let rates = space.rates(transition);
        let later: f64 = order.iter().zip(&service.spent).map(|(state, spent)| rates[*state] * spent).sum();
        later + rates[empty]
    };
    let aborted = laid.aborted.map_or(0.0, ended);
    service.finished = 1.0 - aborted.clamp(0.0, 1.0);
    Ok((service, laid))
}

/// The states but `empty` in an order in which every edge leads forward.
fn forward(chain: &gspn::chain::Chain, empty: usize) -> Result<Vec<usize>, Fault> {
    let mut before = vec![0_usize; chain.len()];
    for state in (0..chain.len()).filter(|state| *state != empty) {
        chain.row(state).filter(|(to, _)| *to != empty).for_each(|(to, _)| before[to] += 1);
    }
    let mut ready: Vec<usize> = (0..chain.len()).filter(|state| *state != empty && before[*state] == 0).collect();
    let mut order = Vec::with_capacity(chain.len() - 1);
    while let Some(state) = ready.pop() {
        order.push(state);
        for (to, _) in chain.row(state).filter(|(to, _)| *to != empty) {
            before[to] -= 1;
            if before[to] == 0 {
                ready.push(to);
            }
        }
    }
    if order.len() + 1 == chain.len() {
        return Ok(order);
    }
    Err(Fault::new(Class::Unanswered, "service", "its phases lead back to earlier ones"))
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

    /// Core seconds that a request costs a node; behind the nodes the seconds that it holds a line.
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
        let mut g = vec![Complex::default(); self.exits.len()];
        for phase in (0..g.len()).rev() {
            let mut sum = Complex { re: self.done[phase], im: 0.0 };
            for (to, rate) in &self.ways[phase] {
                sum = sum.plus(g[*to].times(*rate));
            }
            g[phase] = sum.over(s.plus(Complex { re: self.exits[phase], im: 0.0 }));
        }
        g
    }
}
