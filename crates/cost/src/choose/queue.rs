//! A model whose requests are served one at a time, solved without exploring the markings of its queue.
//!
//! *The reduction.* If at most one request is in service at any time, the service is a walk through the net that holds one
//! request: phases with rates `T`, begun with the distribution `a`, left with the rates `t`. The markings of the whole net are then pairs
//! of a number of requests and a phase, and the net is a queue with arrivals of the rate `l(n)`. Its stationary distribution keeps, with
//! `p(n)` a row vector over the phases:
//!
//! - the flow up over the cut between n and n+1 is the flow down: `l(n) p(n) 1 = p(n+1) t`;
//! - so the balance of level n, `p(n) (T - l(n) I) + p(n+1) t a + l(n-1) p(n-1) = 0`, becomes `p(n) (l(n) I - l(n) 1 a - T) = l(n-1) p(n-1)`,
//!   with `l = 0` at the last level, and `a` in the place of `p(0)` at the first.
//!
//! `T` leads forward only (a sequence has no way back), so each level is one substitution and a correction of rank one (Sherman and
//! Morrison). The net of one request is the net that [`crate::net::lay`] lays, followed from place to place. Tests solve the whole net
//! beside it.

use gspn::{Budget, Progress};

use super::invert::Complex;
use super::service::Service;
use crate::model::{Model, Workload};
use crate::net::{Laid, What};
use crate::{Class, Fault};

/// What the phases of one level add up to at most; far above saturation the first levels vanish beside the last.
const LARGEST: f64 = 1e200;
/// Where less than this leaves before the next one comes, fewer are never there.
const NEVER: f64 = 1e-100;
/// Phases between two looks at the clock.
const LOOK: usize = 1 << 18;

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
pub(super) fn one_at_a_time(model: &Model, laid: &Laid) -> bool {
    if model.threads() == Some(1) || model.workload.jobs() == 1 {
        return true;
    }
    let mut on = laid.stages.iter().filter(|stage| stage.mean > 0.0).map(|stage| stage.on);
    let Some(Some(first)) = on.next() else { return false };
    let one = laid.free.iter().zip(&model.nodes).any(|(free, node)| *free == first && node.all_cores() == 1);
    // A core that is waited for in one place only is taken once, and kept to the end.
    let waits = laid.stages.iter().filter(|stage| matches!(stage.what, What::Waiting(_))).count();
    one && waits == 1 && on.all(|other| other == Some(first))
}

impl Service {
    /// The queue of requests with this service.
    ///
    /// # Errors
    /// [`crate::Class::Unanswered`] where so many may be there that it takes more memory or time than the budget.
    pub(super) fn queue(&self, workload: Workload, budget: &mut Budget<'_>) -> Result<Queue, Fault> {
        let arrivals = match workload {
            Workload::Open { rate, room, .. } => Arrivals { rate, each: false, room: room as usize },
            Workload::Closed { clients, think, .. } => {
                // Without thinking everybody is there at all times: so short that nothing changes.
                let think = if think > 0.0 { think } else { self.mean() * 1e-9 };
                Arrivals { rate: 1.0 / think, each: true, room: clients as usize }
            }
        };
        let phases = self.begin.len();
        budget
            .bytes((arrivals.room as u64).saturating_mul((phases * size_of::<f64>() + size_of::<Vec<f64>>()) as u64))?;
        let mut levels: Vec<Vec<f64>> = Vec::new();
        let mut empty = 1.0;
        // Levels up to which all was made smaller, and by how much.
        let mut smaller: Vec<(usize, f64)> = Vec::new();
        let mut work = 0;
        // Levels that are never seen.
        let mut gone = 0;
        for there in 1..=arrivals.room {
            work += phases;
            if work >= LOOK {
                work = 0;
                budget.look(Progress::Solving { sweeps: there as u64, error: 0.0 })?;
            }
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
                if left < NEVER {
                    empty = 0.0;
                    levels[gone..].iter_mut().flatten().for_each(|share| *share = 0.0);
                    gone = levels.len();
                    smaller.clear();
                    let all: f64 = z.iter().sum();
                    level = z.into_iter().map(|z| z / all).collect();
                } else {
                    let factor = rate * level.iter().sum::<f64>() / left;
                    level.iter_mut().zip(&z).for_each(|(x, z)| *x += factor * z);
                }
            }
            levels.push(level);
            let Some(level) = levels.last_mut() else { continue };
            let top = level.iter().sum::<f64>();
            if top > LARGEST {
                level.iter_mut().for_each(|share| *share /= top);
                smaller.push((there - 1, top));
            }
        }
        // Each of them is made smaller once, whatever came after it.
        let mut by = 1.0;
        for (there, level) in levels.iter_mut().enumerate().rev() {
            if smaller.last().is_some_and(|(first, _)| there < *first) {
                by /= smaller.pop().map_or(1.0, |(_, top)| top);
            }
            level.iter_mut().for_each(|share| *share *= by);
        }
        empty *= smaller.iter().fold(by, |by, (_, top)| by / top);
        let sum = empty + levels.iter().flatten().sum::<f64>();
        empty /= sum;
        levels.iter_mut().flatten().for_each(|share| *share /= sum);
        let left = |level: &Vec<f64>| level.iter().zip(&self.done).map(|(share, done)| share * done).sum::<f64>();
        let rate: f64 = levels.iter().map(left).sum();
        if !rate.is_finite() {
            let why =
                "the probabilities of its queue are farther apart than numbers can be: fewer arrivals, or less room";
            return Err(Fault::new(Class::Unanswered, "queue", why));
        }
        #[expect(clippy::cast_precision_loss, reason = "requests there")]
        let inside = levels.iter().enumerate().map(|(n, level)| (n + 1) as f64 * level.iter().sum::<f64>()).sum();
        let full = levels.last().map_or(0.0, |level| level.iter().sum::<f64>());
        let turned_away = if arrivals.each { 0.0 } else { arrivals.rate * full };
        Ok(Queue { arrivals, empty, levels, rate, inside, turned_away })
    }
}

impl Queue {
    /// Mean time from coming to leaving.
    pub(super) fn response(&self) -> f64 {
        if self.rate > 0.0 { self.inside / self.rate } else { 0.0 }
    }

    /// Where a request comes to that is let in: how many are there before, and the phase of the one in service.
    pub(super) fn entered(&self) -> Vec<Vec<f64>> {
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
}

/// The sum of `values`, each with its share; four sums side by side, none of which waits for another.
fn weighted(shares: &[f64], values: &[Complex]) -> Complex {
    const SUMS: usize = 4;
    let mut sums = [Complex::default(); SUMS];
    let (shares, values) = (shares.chunks(SUMS), values.chunks(SUMS));
    for (shares, values) in shares.zip(values) {
        for ((sum, share), value) in sums.iter_mut().zip(shares).zip(values) {
            *sum = sum.plus(value.times(*share));
        }
    }
    sums.into_iter().fold(Complex::default(), Complex::plus)
}

/// The transform of the response time at `s`: the rest of the service that runs, the services of those who wait, one's own.
pub(super) fn transform(service: &Service, entered: &[Vec<f64>], s: Complex) -> Complex {
    let g = service.transform(s);
    let own = weighted(&service.begin, &g);
    let mut sum = Complex::default();
    // Horner's rule over the number of requests before.
    for level in entered.iter().skip(1).rev() {
        sum = sum.by(own).plus(weighted(level, &g));
    }
    let alone = entered.first().and_then(|level| level.first()).copied().unwrap_or(0.0);
    // `sum` lacks one's own service, as `alone` does.
    sum.plus(Complex { re: alone, im: 0.0 }).by(own)
}
