//! A model whose requests are served one at a time, solved without exploring the markings of its queue.
//!
//! *The reduction.* If at most one request is in service at any time, the service is a walk through the markings of the net that holds one
//! request: phases with rates `T`, begun with the distribution `a`, left with the rates `t`. The markings of the whole net are then pairs
//! of a number of requests and a phase, and the net is a queue with arrivals of the rate `l(n)`. Its stationary distribution keeps, with
//! `p(n)` a row vector over the phases:
//!
//! - the flow up over the cut between n and n+1 is the flow down: `l(n) p(n) 1 = p(n+1) t`;
//! - so the balance of level n, `p(n) (T - l(n) I) + p(n+1) t a + l(n-1) p(n-1) = 0`, becomes `p(n) (l(n) I - l(n) 1 a - T) = l(n-1) p(n-1)`,
//!   with `l = 0` at the last level, and `a` in the place of `p(0)` at the first.
//!
//! `T` leads forward only (a sequence has no way back), so each level is one substitution and a correction of rank one (Sherman and
//! Morrison). The net of one request is the net that [`crate::net::lay`] lays, explored by the solver: nothing is written twice. Tests solve
//! the whole net beside it.

use gspn::Budget;
use gspn::explore::explore;

use super::invert::{Complex, distribution};
use crate::model::{Model, Workload};
use crate::net::{self, Laid, What};
use crate::{Class, Fault, weave};

/// The service of one request.
#[derive(Debug, Clone)]
pub(super) struct Service {
    /// Probability of beginning in each phase; phases are in an order in which every way leads forward.
    begin: Vec<f64>,
    /// Rate of leaving each phase.
    exits: Vec<f64>,
    /// Ways to later phases.
    ways: Vec<Vec<(usize, f64)>>,
    /// Rate of each phase at which the request comes to its end, or is aborted.
    done: Vec<f64>,
    /// Mean time that a request spends in each phase.
    spent: Vec<f64>,
    /// For each phase, the busy cores of each node.
    busy: Vec<Vec<f64>>,
    /// For each phase, what is done in it.
    what: Vec<Option<What>>,
    /// Share of requests that come to their end.
    pub(super) finished: f64,
}

/// Requests that come, and how many may be there.
#[derive(Debug, Clone, Copy)]
struct Arrivals {
    /// Rate while `n` are there.
    rate: f64,
    /// Whether each of those who are not there comes at the rate.
    each: bool,
    /// The most that are there.
    room: usize,
}

impl Arrivals {
    fn at(self, there: usize) -> f64 {
        if there >= self.room {
            return 0.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "clients")]
        let others = (self.room - there) as f64;
        if self.each { self.rate * others } else { self.rate }
    }
}

/// The queue in the long run.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    arrivals: Arrivals,
    /// Probability that nobody is there.
    empty: f64,
    /// For 1, 2, .. requests there: the probability of each phase.
    levels: Vec<Vec<f64>>,
    /// Requests that leave a second, aborted ones included.
    pub(super) rate: f64,
    /// Mean requests there.
    pub(super) inside: f64,
    /// Requests that are turned away a second.
    pub(super) turned_away: f64,
}

/// Whether at most one request can be in service at a time: one thread, or all time on one core of one node.
#[must_use]
pub(super) fn one_at_a_time(model: &Model, laid: &Laid) -> bool {
    if model.workload.threads() == Some(1) || model.workload.jobs() == 1 {
        return true;
    }
    let mut on = laid.stages.iter().filter(|stage| stage.mean > 0.0).map(|stage| stage.on.as_deref());
    let Some(Some(first)) = on.next() else { return false };
    let one = model.nodes.iter().any(|node| node.name == first && node.cores == 1);
    // A core that is waited for in one place only is taken once, and kept to the end.
    let waits = laid.stages.iter().filter(|stage| matches!(stage.what, What::Waiting(_))).count();
    one && waits == 1 && on.all(|other| other == Some(first))
}

/// The service of one request of `model`.
pub(super) fn service(model: &Model, budget: &mut Budget<'_>) -> Result<Service, Fault> {
    let mut alone = model.clone();
    alone.workload = Workload::Open { rate: 1.0, room: 1, threads: None };
    let laid = net::lay(&weave(&alone))?;
    let counted: Vec<usize> = [laid.end].into_iter().chain(laid.aborted).collect();
    let space = explore(&laid.net, 1, &counted, &[], budget)?;
    let (chain, mut tokens) = (space.chain(), vec![0; space.places()]);
    let states = chain.len();
    let mut empty = None;
    let mut busy = vec![vec![0.0; model.nodes.len()]; states];
    let mut what = vec![None; states];
    for state in 0..states {
        space.load(space.marking_of(u32::try_from(state).unwrap_or(u32::MAX)), &mut tokens);
        if tokens[laid.source] == 1 {
            empty = Some(state);
        }
        for (node, place) in laid.free.iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "cores")]
            let used = u64::from(model.nodes[node].cores).saturating_sub(tokens[*place]) as f64;
            busy[state][node] = used;
        }
        what[state] = laid.stages.iter().find(|stage| tokens[stage.place] > 0).map(|stage| stage.what.clone());
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
    let sum = chain.exit(empty);
    for (to, rate) in chain.row(empty) {
        begin[index[to]] += rate / sum;
    }
    let mut service = Service {
        begin,
        exits: order.iter().map(|state| chain.exit(*state)).collect(),
        ways: Vec::with_capacity(phases),
        done: vec![0.0; phases],
        spent: Vec::new(),
        busy: order.iter().map(|state| busy[*state].clone()).collect(),
        what: order.iter().map(|state| what[*state].clone()).collect(),
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
        order.iter().zip(&service.spent).map(|(state, spent)| rates[*state] * spent).sum()
    };
    let aborted = laid.aborted.map_or(0.0, ended);
    service.finished = 1.0 - aborted.clamp(0.0, 1.0);
    Ok(service)
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
    /// Mean time of one request.
    pub(super) fn mean(&self) -> f64 {
        self.spent.iter().sum()
    }

    /// Core seconds that a request costs each node.
    pub(super) fn cores(&self, node: usize) -> f64 {
        self.spent.iter().zip(&self.busy).map(|(spent, busy)| spent * busy[node]).sum()
    }

    /// What takes the most time, and how much of it, in seconds.
    pub(super) fn largest(&self) -> Option<(What, f64)> {
        let mut sums: std::collections::BTreeMap<&What, f64> = std::collections::BTreeMap::new();
        for (what, spent) in self.what.iter().zip(&self.spent) {
            if let Some(what) = what {
                *sums.entry(what).or_default() += spent;
            }
        }
        let most = sums.into_iter().max_by(|one, other| one.1.total_cmp(&other.1));
        most.map(|(what, seconds)| (what.clone(), seconds))
    }

    /// `x` with `x (s I - T) = right`.
    fn forward(&self, right: &[f64], s: f64) -> Vec<f64> {
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

    /// The queue of requests with this service.
    pub(super) fn queue(&self, workload: Workload) -> Queue {
        let arrivals = match workload {
            Workload::Open { rate, room, .. } => Arrivals { rate, each: false, room: room as usize },
            Workload::Closed { clients, think, .. } => {
                // Without thinking everybody is there at all times: so short that nothing changes.
                let think = if think > 0.0 { think } else { self.mean() * 1e-9 };
                Arrivals { rate: 1.0 / think, each: true, room: clients as usize }
            }
        };
        let mut levels: Vec<Vec<f64>> = Vec::with_capacity(arrivals.room);
        let mut empty = 1.0;
        for there in 1..=arrivals.room {
            let (rate, before) = (arrivals.at(there), arrivals.at(there - 1));
            let right: Vec<f64> = match levels.last() {
                None => self.begin.iter().map(|share| share * before * empty).collect(),
                Some(last) => last.iter().map(|share| share * before).collect(),
            };
            let mut level = self.forward(&right, rate);
            if rate > 0.0 {
                // (M - l 1 a)^-1 by rank one: x = y + (y 1) l z / (1 - l z 1), with z = a M^-1. The denominator is what leaves
                // before the next arrival, summed without subtraction: z t.
                let z = self.forward(&self.begin, rate);
                let left: f64 = z.iter().zip(&self.done).map(|(z, done)| z * done).sum();
                let factor = rate * level.iter().sum::<f64>() / left;
                level.iter_mut().zip(&z).for_each(|(x, z)| *x += factor * z);
            }
            levels.push(level);
            // Far above saturation the first levels vanish beside the last.
            let top = levels.last().map_or(0.0, |level| level.iter().sum::<f64>());
            if top > 1e200 {
                empty /= top;
                levels.iter_mut().flatten().for_each(|share| *share /= top);
            }
        }
        let sum = empty + levels.iter().flatten().sum::<f64>();
        empty /= sum;
        levels.iter_mut().flatten().for_each(|share| *share /= sum);
        let rate = levels.iter().flat_map(|level| level.iter().zip(&self.done)).map(|(share, done)| share * done).sum();
        #[expect(clippy::cast_precision_loss, reason = "requests there")]
        let inside = levels.iter().enumerate().map(|(n, level)| (n + 1) as f64 * level.iter().sum::<f64>()).sum();
        let full = levels.last().map_or(0.0, |level| level.iter().sum::<f64>());
        let turned_away = if arrivals.each { 0.0 } else { arrivals.rate * full };
        Queue { arrivals, empty, levels, rate, inside, turned_away }
    }

    /// The transform of the time from each phase to the end, at `s`.
    fn transform(&self, s: Complex) -> Vec<Complex> {
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

impl Queue {
    /// Mean time from coming to leaving.
    pub(super) fn response(&self) -> f64 {
        if self.rate > 0.0 { self.inside / self.rate } else { 0.0 }
    }

    /// The time by which a request that was let in has left, with probability `level`: first come, first served.
    pub(super) fn quantile(&self, service: &Service, level: f64) -> f64 {
        let entered = self.entered();
        // How far the tail is from the one that is wanted, in logarithms: tails are nearly straight there.
        let off = |time: f64| {
            let tail = 1.0 - distribution(time, |s| self.transform(service, &entered, s));
            (tail.max(1e-300) / (1.0 - level)).ln()
        };
        let (mut low, mut above) = (0.0, -(1.0 - level).ln());
        let mut high = self.response().max(service.mean()) * 2.0;
        let mut below = off(high);
        while below > 0.0 && high < 1e12 {
            (low, above) = (high, below);
            high *= 2.0;
            below = off(high);
        }
        // Regula falsi with the Illinois correction.
        let mut side = 0;
        for _ in 0..60 {
            if high - low <= 1e-6 * high {
                break;
            }
            let middle = low + (high - low) * (above / (above - below)).clamp(0.01, 0.99);
            let value = off(middle);
            if value.abs() < 1e-7 {
                return middle;
            }
            if value > 0.0 {
                (low, above) = (middle, value);
                below *= if side > 0 { 0.5 } else { 1.0 };
                side = 1;
            } else {
                (high, below) = (middle, value);
                above *= if side < 0 { 0.5 } else { 1.0 };
                side = -1;
            }
        }
        0.5 * (low + high)
    }

    /// Where a request comes to that is let in: how many are there before, and the phase of the one in service.
    fn entered(&self) -> Vec<Vec<f64>> {
        let mut entered: Vec<Vec<f64>> = vec![vec![self.empty * self.arrivals.at(0)]];
        for (n, level) in self.levels.iter().enumerate() {
            let rate = self.arrivals.at(n + 1);
            if rate > 0.0 {
                entered.push(level.iter().map(|share| share * rate).collect());
            }
        }
        let sum: f64 = entered.iter().flatten().sum();
        entered.iter_mut().flatten().for_each(|share| *share /= sum);
        // What is never seen needs no time.
        while entered.len() > 1 && entered.last().is_some_and(|level| level.iter().sum::<f64>() < 1e-13) {
            entered.pop();
        }
        entered
    }

    /// The transform of the response time at `s`: the rest of the service that runs, the services of those who wait, one's own.
    fn transform(&self, service: &Service, entered: &[Vec<f64>], s: Complex) -> Complex {
        let g = service.transform(s);
        let mut own = Complex::default();
        for (begin, g) in service.begin.iter().zip(&g) {
            own = own.plus(g.times(*begin));
        }
        let mut sum = Complex::default();
        // Horner's rule over the number of requests before.
        for level in entered.iter().skip(1).rev() {
            let mut rest = Complex::default();
            for (share, g) in level.iter().zip(&g) {
                rest = rest.plus(g.times(*share));
            }
            sum = sum.by(own).plus(rest);
        }
        let alone = entered.first().and_then(|level| level.first()).copied().unwrap_or(0.0);
        // `sum` lacks one's own service, as `alone` does.
        sum.plus(Complex { re: alone, im: 0.0 }).by(own)
    }
}
