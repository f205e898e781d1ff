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
//! Morrison).
//!
//! *Times.* Who comes to n others leaves after the rest of the service that runs, those of n - 1 others and his own: `p(n) g w^n` with `g` the
//! transforms from each phase and `w` that of a whole service. The sum over n, `x` with `x = sum p(n) w^(n-1)`, has as many terms as there is
//! room. Of clients most terms are nothing: those that are nothing are left out, at both ends. Of arrivals whose rate `l` is the same at every
//! level, the balances of levels 1 to K, the last before the room is full, times `w^(n-1)` add up to
//! `x ((1 - w) l I - T - l 1 a) = l (p(0) a - w^K p(K))`: one more system of the same shape, whatever the room.
//!
//! The net of one request is the net that [`crate::net::lay`] lays, followed from place to place. Tests solve the whole net
//! beside it.

use gspn::{Budget, Progress};

use super::complex::Complex;
use super::service::Service;
use crate::model::{Model, Workload};
use crate::net::{Sketch, What};
use crate::{Class, Fault};

/// What the phases of one level add up to at most; far above saturation the first levels vanish beside the last.
const LARGEST: f64 = 1e200;
/// Where less than this leaves before the next one comes, fewer are never there.
const NEVER: f64 = 1e-100;
/// What all levels that are left out add up to, at either end.
const UNSEEN: f64 = 1e-13;
/// Levels that are summed one by one: as long as two systems take.
const FEW: usize = 24;
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
    phases: usize,
    /// For 1, 2, .. requests there: the probability of each phase, one after the other.
    levels: Vec<f64>,
    /// Requests that leave a second, aborted ones included.
    pub(super) rate: f64,
    /// Mean requests there.
    pub(super) inside: f64,
    /// Requests that are turned away a second.
    pub(super) turned_away: f64,
}

/// Whether at most one request can be in service at a time: one thread, or all time on one core of one node.
pub(super) fn one_at_a_time(model: &Model, laid: &Sketch) -> bool {
    if model.threads() == Some(1) || model.workload.jobs() == 1 {
        return true;
    }
    // Who waits for a unit of a pool waits in no order, and so takes the core in none.
    if model.pools.iter().any(|pool| pool.is_short(model.at_once())) {
        return false;
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
                let think = if think > 0.0 { think } else { self.mean() * super::MOMENT };
                Arrivals { rate: 1.0 / think, each: true, room: clients as usize }
            }
        };
        let phases = self.begin.len().max(1);
        budget.bytes((arrivals.room as u64).saturating_mul((phases * size_of::<f64>()) as u64))?;
        let mut levels: Vec<f64> = Vec::with_capacity(arrivals.room.saturating_mul(phases));
        let mut empty = 1.0;
        // Levels up to which all was made smaller, and by how much.
        let mut smaller: Vec<(usize, f64)> = Vec::new();
        let mut work = 0;
        // Where the levels begin that are ever seen.
        let mut seen = 0;
        // What a request in service does until the next arrival, the same at each level with the same rate.
        let (mut until, mut z, mut left) = (self.until(f64::NAN), Vec::new(), 0.0);
        for there in 1..=arrivals.room {
            work += phases;
            if work >= LOOK {
                work = 0;
                budget.look(Progress::Solving { sweeps: there as u64, error: 0.0 })?;
            }
            let (rate, before) = (arrivals.at(there), arrivals.at(there - 1));
            let start = levels.len();
            if start == 0 {
                levels.extend_from_slice(&self.begin);
            } else {
                levels.extend_from_within(start - phases..);
            }
            let before = if start == 0 { before * empty } else { before };
            if until.rate != rate {
                until = self.until(rate);
                z.clear();
                z.extend_from_slice(&self.begin);
                self.forward(&mut z, 1.0, &until);
                left = dot(&z, &self.done);
            }
            let (earlier, level) = levels.split_at_mut(start);
            self.forward(level, before, &until);
            if rate > 0.0 {
                // (M - l 1 a)^-1 by rank one: x = y + (y 1) l z / (1 - l z 1), with z = a M^-1. The denominator is what leaves
                // before the next arrival, summed without subtraction: z t.
                if left < NEVER {
                    empty = 0.0;
                    earlier[seen..].fill(0.0);
                    seen = start;
                    smaller.clear();
                    let all = sum(&z);
                    level.iter_mut().zip(&z).for_each(|(x, z)| *x = z / all);
                } else {
                    let factor = rate * sum(level) / left;
                    level.iter_mut().zip(&z).for_each(|(x, z)| *x += factor * z);
                }
            }
            let top = sum(level);
            if top > LARGEST {
                level.iter_mut().for_each(|share| *share /= top);
                smaller.push((there - 1, top));
            }
        }
        // Each of them is made smaller once, whatever came after it.
        let mut by = 1.0;
        if !smaller.is_empty() {
            for (there, level) in levels.chunks_exact_mut(phases).enumerate().rev() {
                if smaller.last().is_some_and(|(first, _)| there < *first) {
                    by /= smaller.pop().map_or(1.0, |(_, top)| top);
                }
                level.iter_mut().for_each(|share| *share *= by);
            }
        }
        empty *= smaller.iter().fold(by, |by, (_, top)| by / top);
        let all = empty + levels.chunks_exact(phases).map(sum).sum::<f64>();
        empty /= all;
        levels.iter_mut().for_each(|share| *share /= all);
        let (mut rate, mut inside, mut full, mut there) = (0.0, 0.0, 0.0, 0.0);
        for level in levels.chunks_exact(phases) {
            there += 1.0;
            full = sum(level);
            inside += there * full;
            rate += dot(level, &self.done);
        }
        if !rate.is_finite() {
            let why =
                "the probabilities of its queue are farther apart than numbers can be: fewer arrivals, or less room";
            return Err(Fault::new(Class::Unanswered, "queue", why));
        }
        let turned_away = if arrivals.each { 0.0 } else { arrivals.rate * full };
        Ok(Queue { arrivals, empty, phases, levels, rate, inside, turned_away })
    }
}

impl Queue {
    /// Mean time from coming to leaving.
    pub(super) fn response(&self) -> f64 {
        if self.rate > 0.0 { self.inside / self.rate } else { 0.0 }
    }

    /// Where a request comes to that is let in.
    pub(super) fn entered(self) -> Entered {
        let Self { arrivals, empty, phases, mut levels, .. } = self;
        let alone = empty * arrivals.at(0);
        // Nobody comes to a full room.
        let many = arrivals.room.saturating_sub(1);
        levels.truncate(many * phases);
        let sums = levels.chunks_exact(phases).zip(1..).map(|(level, there)| sum(level) * arrivals.at(there));
        let sums: Vec<f64> = sums.collect();
        let all = alone + sums.iter().sum::<f64>();
        let alone = alone / all;
        // What is never seen needs no time.
        let never = |sums: &mut dyn Iterator<Item = &f64>| {
            let mut sum = 0.0;
            let small = |level: &&f64| {
                sum += *level / all;
                sum < UNSEEN
            };
            sums.take_while(small).count()
        };
        let (seen, first) = (many - never(&mut sums.iter().rev()), never(&mut sums.iter()));
        let is_alike = !arrivals.each && seen > FEW;
        let first = if is_alike { many - 1 } else { first.min(seen) };
        levels.truncate(if is_alike { many } else { seen } * phases);
        levels.drain(..first * phases);
        for (level, there) in levels.chunks_exact_mut(phases).zip(first + 1..) {
            let by = arrivals.at(there) / all;
            level.iter_mut().for_each(|share| *share *= by);
        }
        let others = if is_alike {
            Others::Alike { rate: arrivals.rate, many, last: levels }
        } else {
            Others::Levels { first, phases, levels }
        };
        Entered { alone, others }
    }
}

/// The sum; four sums side by side, none of which waits for another.
fn sum(values: &[f64]) -> f64 {
    let (fours, rest) = values.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for four in fours {
        sums.iter_mut().zip(four).for_each(|(sum, value)| *sum += value);
    }
    sums.iter().sum::<f64>() + rest.iter().sum::<f64>()
}

/// The sum of products, in the same way.
fn dot(one: &[f64], other: &[f64]) -> f64 {
    let ((ones, rest), (others, rest_of_other)) = (one.as_chunks::<4>(), other.as_chunks::<4>());
    let mut sums = [0.0; 4];
    for (one, other) in ones.iter().zip(others) {
        sums.iter_mut().zip(one.iter().zip(other)).for_each(|(sum, (one, other))| *sum += one * other);
    }
    sums.iter().sum::<f64>() + rest.iter().zip(rest_of_other).map(|(one, other)| one * other).sum::<f64>()
}

/// Where requests come to that are let in.
#[derive(Debug)]
pub(super) struct Entered {
    /// The probability that nobody is there.
    pub(super) alone: f64,
    pub(super) others: Others,
}

/// Those who come to others.
#[derive(Debug)]
pub(super) enum Others {
    /// For each number of others, from one more than `first` on, the probability of each phase of the one in service.
    Levels { first: usize, phases: usize, levels: Vec<f64> },
    /// At each of `many` levels they come at the same rate; the probabilities of the last.
    Alike { rate: f64, many: usize, last: Vec<f64> },
}

impl Others {
    /// The probabilities that are kept of levels.
    pub(super) fn levels(&self) -> &[f64] {
        match self {
            Self::Levels { levels, .. } | Self::Alike { last: levels, .. } => levels,
        }
    }

    /// Whether others are summed in the same way; there may be more levels, of which nothing is ever seen.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Levels { first, .. }, Self::Levels { first: same, .. }) => first == same,
            (Self::Alike { many, .. }, Self::Alike { many: same, .. }) => many == same,
            _ => false,
        }
    }
}

/// The sum of `values`, each with its share.
pub(super) fn weighted<'c>(shares: &[f64], values: impl IntoIterator<Item = &'c Complex>) -> Complex {
    let some = shares.iter().zip(values).filter(|(share, _)| share.abs() > 0.0);
    some.fold(Complex::default(), |sum, (share, value)| sum.plus(value.times(*share)))
}

/// The same of pairs.
pub(super) fn weighted_both(shares: &[f64], values: &[(Complex, Complex)]) -> (Complex, Complex) {
    let some = shares.iter().zip(values).filter(|(share, _)| share.abs() > 0.0);
    some.fold(Default::default(), |sum: (Complex, Complex), (share, value)| {
        (sum.0.plus(value.0.times(*share)), sum.1.plus(value.1.times(*share)))
    })
}

/// Where transforms of one distribution are worked out, one after the other.
#[derive(Debug, Default)]
pub(super) struct Desk {
    g: Vec<Complex>,
    both: Vec<(Complex, Complex)>,
}

/// The transform of the response time at `s`: the rest of the service that runs, the services of those who wait, one's own.
pub(super) fn transform(service: &Service, entered: &Entered, s: Complex, desk: &mut Desk) -> Complex {
    let Desk { g, both } = desk;
    service.transform(s, g);
    let own = weighted(&service.begin, &*g);
    let others = match &entered.others {
        Others::Levels { first, phases, levels } => {
            // Horner's rule over the number of requests before.
            let sum = levels
                .chunks_exact(*phases)
                .rev()
                .fold(Complex::default(), |sum, level| sum.by(own).plus(weighted(level, &*g)));
            sum.by(power(own, *first))
        }
        Others::Alike { rate, many, last } => {
            let one = Complex::real(1.0);
            service.backward(g, one.plus(own.times(-1.0)).times(*rate), both);
            let (begun, beyond) = (weighted_both(&service.begin, both), weighted_both(last, both));
            let power = power(own, *many).times(-1.0);
            let from = |begun: Complex, beyond: Complex| begun.times(entered.alone).plus(power.by(beyond)).times(*rate);
            // As above, by rank one.
            let again = begun.0.times(*rate).over(one.plus(begun.1.times(-rate)));
            from(begun.0, beyond.0).plus(from(begun.1, beyond.1).by(again))
        }
    };
    // Both lack one's own service.
    others.plus(Complex::real(entered.alone)).by(own)
}

/// A power, by squares.
pub(super) fn power(mut base: Complex, mut exponent: usize) -> Complex {
    let mut all = Complex::real(1.0);
    while exponent > 0 {
        if exponent % 2 == 1 {
            all = all.by(base);
        }
        base = base.by(base);
        exponent /= 2;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choose::complex::SIDE;
    use crate::choose::service::service;
    use crate::read::{Language, read};
    use gspn::Limits;

    /// 5 ms, and not evenly.
    const STEPS: &str = "[[sequence.main]]\ndo = \"a\"\nby = \"c\"\ntime = \"3 ms\"\nvariation = 0.3\n\
         [[sequence.main]]\nchoose = [ { weight = 0.2, ref = \"more\" }, { weight = 0.8 } ]\n\
         [[sequence.more]]\ndo = \"b\"\nby = \"c\"\ntime = \"10 ms\"\nvariation = 3\n";

    fn queue(workload: &str, steps: &str) -> (Service, Queue) {
        let text = format!("[workload]\n{workload}\nthreads = 1\n[node.n]\n[component.c]\nnode = \"n\"\n{steps}");
        let model = read(&text, Language::Toml).unwrap_or_else(|fault| panic!("{fault}"));
        let mut go_on = |_| true;
        let mut budget = Budget::new(Limits::default(), &mut go_on);
        let service = service(&model, &mut budget).unwrap().0;
        let queue = service.queue(model.workload, &mut budget).unwrap();
        (service, queue)
    }

    /// Level by level and none left out: what both short cuts leave out.
    fn plainly(service: &Service, queue: &Queue, s: Complex) -> Complex {
        let mut g = Vec::new();
        service.transform(s, &mut g);
        let mut all = queue.empty * queue.arrivals.at(0);
        let own = weighted(&service.begin, &g);
        let (mut sum, mut services) = (Complex::real(all), Complex::real(1.0));
        for (n, level) in queue.levels.chunks_exact(queue.phases).enumerate() {
            let rate = queue.arrivals.at(n + 1);
            all += rate * level.iter().sum::<f64>();
            sum = sum.plus(weighted(level, &g).by(services).times(rate));
            services = services.by(own);
        }
        sum.by(own).times(1.0 / all)
    }

    /// Much room and little, hardly anybody and nearly as many as can be carried (200 a second), clients that think long and hardly.
    #[test]
    fn what_is_left_out_of_the_sum_is_nothing() {
        let open = |rate: &str, room: u32| format!("arrivals = \"{rate}/s\"\nroom = {room}");
        let closed = |clients: u32, think: &str| format!("clients = {clients}\nthink = \"{think}\"");
        let loads = [
            (open("2", 40), 1e-12),
            (open("120", 40), 1e-12),
            (open("199.9", 40), 1e-12),
            (open("199.999", 5000), 1e-9),
            (open("200", 5000), 1e-9),
            (open("150", 5000), 1e-12),
            (open("150", 2), 1e-12),
            (open("150", 1), 1e-12),
            (closed(30, "100 ms"), 1e-12),
            (closed(3000, "1 s"), 1e-9),
            (closed(3000, "15 s"), 1e-9),
            (closed(3000, "40 s"), 1e-9),
            (closed(40, "0 ms"), 1e-12),
        ];
        for (load, near) in loads {
            let (service, queue) = queue(&load, STEPS);
            let mean = queue.response();
            let along = [0.0, 1.0, 20.0, 300.0].map(|im| im / mean);
            let points = [0.1, 1.0, 5.0].map(|re| Complex { re: [re / mean; SIDE], im: along });
            let wanted: Vec<Complex> = points.iter().map(|s| plainly(&service, &queue, *s)).collect();
            let entered = queue.entered();
            for (s, wanted) in points.into_iter().zip(wanted) {
                let found = transform(&service, &entered, s, &mut Desk::default());
                let off = found.change(wanted);
                assert!(off < near, "{load} at {s:?}: {found:?} {wanted:?}, {off:e}");
            }
        }
    }

    /// Of very many clients only those levels are left that are ever seen.
    #[test]
    fn levels_that_are_never_seen_are_left_out() {
        let (_, queue) = queue("clients = 20000\nthink = \"20 s\"", STEPS);
        let Others::Levels { first, phases, levels } = queue.entered().others else { panic!("clients are alike") };
        let levels = levels.len() / phases;
        // 16,000 of them wait, give or take 60.
        assert!(first > 15_000 && levels < 1500, "{first} {levels}");
    }

    /// A hundred thousand clients: those who think are as good as Poisson, and everybody else is served before, each for an exponential time.
    #[test]
    fn times_of_a_hundred_thousand_clients_are_normal() {
        let steps = "[[sequence.main]]\ndo = \"a\"\nby = \"c\"\ntime = \"2 ms\"\n";
        let (service, queue) = queue("clients = 100000\nthink = \"100 s\"", steps);
        let entered = queue.entered();
        let (thinking, time) = (100.0 / 0.002, 0.002);
        let (mean, sd) = ((100_000.0 - thinking) * time, 100_000.0_f64.sqrt() * time);
        for (z, level) in [(-1.0, 0.158_66), (0.0, 0.5), (2.326_35, 0.99)] {
            let found =
                super::super::invert::likely(mean + z * sd, |s| transform(&service, &entered, s, &mut Desk::default()))
                    .unwrap()
                    .within;
            assert!((found - level).abs() < 2e-3, "{z}: {found} {level}");
        }
    }
}
