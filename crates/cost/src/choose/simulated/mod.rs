//! Where the net of a setting has too many markings to be solved, as measured times that hardly vary make it, requests are followed one by
//! one. Each figure has an interval then; the same model has the same figures on every machine.
//!
//! There are several runs, which have nothing to do with each other, each in several batches. They are as long as their figures need: all double
//! until half of the 95 % interval of the mean and of each percentile that is asked for is at most 1 % of it, and until neighbouring batches
//! hardly know of each other. The first eighth of each run is left out, and as many requests as there are clients, of whom each begins
//! once, unless that is more than half.
//!
//! *Intervals* are Student's, of the means of all batches; of a percentile those of the shares that are done by then (Asmussen and Glynn 2007,
//! chapter III and IV). A slow queue makes neighbours alike, and intervals of few batches too narrow before that could be seen in them; so it is looked
//! for in batches that are an eighth as long: of what those have in common an eighth is left. Where that is much after the longest runs, intervals
//! are as much wider as neighbours are alike, as of a series in which each is a part of the one before (AR(1)).

mod chance;
#[cfg(test)]
mod coverage;
#[cfg(test)]
mod felt;
mod plan;
mod run;
#[cfg(test)]
mod tests;

use gspn::Budget;
use gspn::simulate::{alike, half_width};

use self::chance::Chance;
pub use self::chance::SEED;
use self::plan::Plan;
use self::run::{Counts, MARK, Run};
use super::times::Flow;
use crate::model::Workload;
use crate::net::{Laid, Stage};
use crate::{Class, Fault};

/// Requests of all runs, when they are shortest and when they are longest.
pub(super) const REQUESTS: [usize; 2] = [1 << 15, 1 << 22];
/// By how much times grow where nothing says how far they may, relative: where requests wait in no order, each run has an order of its own,
/// and what that changes must be less than what is looked for.
pub(super) const STEP: f64 = 0.05;
/// By how much what a request takes at least grows then, relative, if that is more; a time by itself at most by so much.
const GROWS: f64 = 0.02;
const MOST: f64 = 0.5;
/// The fewest and the most requests from which it is seen what a longer time does to the figures, and with how many that of what counts most is begun.
pub(super) const FOR_SLOPES: [usize; 2] = [1 << 13, 1 << 18];
pub(super) const FOR_MOST: usize = 1 << 16;
/// Half of an interval, as a part of its figure, at which a run is long enough; and the same of what is carried.
const CLOSE: f64 = 0.01;
const CLOSE_CARRIED: f64 = 0.005;
/// Runs that have nothing to do with each other.
const RUNS: usize = 4;
/// So many requests of a run there are at least for each that may be there at once: else there is one run, as its start takes long.
const FOR_EACH: usize = 64;
/// Of all runs, whose means say how far apart they are.
const BATCHES: usize = 32;
/// Half of a 95 % interval of so many, over their standard deviation (Student).
const STUDENT: f64 = 2.04;
/// The same in which is looked how alike neighbours are, and how alike these may be.
const SHORT: usize = 8 * BATCHES;
const ALIKE: f64 = 0.2;
/// How alike batches must be, and can be said to be, for intervals that are wider.
const NEARLY: [f64; 2] = [0.15, 0.98];
/// Of so many that were never seen there may be three a run, in 95 of 100 runs.
const NEVER_SEEN: f64 = 3.0;

/// By how much the times of stages grow, relative, to see what follows: what is little of all that a request takes grows by more than `least`, or
/// nothing would be seen of it beside what chance does. Who does it at all may do it seldom, so that is of a request that does it once in each stage.
pub(super) fn step(laid: &Laid, of: impl Fn(&Stage) -> bool, mean: f64, least: f64) -> f64 {
    let takes: f64 = laid.stages.iter().filter(|it| of(it)).map(|it| it.mean).sum();
    (GROWS * mean / takes).min(MOST).max(least)
}

/// From how many requests it is first seen what a price does that does so much of what the one does that does most: they are as
/// few as leave as much to chance.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "requests")]
pub(super) fn enough(most: usize, weight: f64) -> usize {
    ((most as f64 * weight * weight) as usize).next_power_of_two().clamp(FOR_SLOPES[0], most)
}

/// A figure and half of its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figure {
    pub(super) value: f64,
    pub(super) half: f64,
}

/// By how much a figure is more in one run than in another of the same requests, and the square of how far chance may put that off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Change {
    pub(super) by: f64,
    pub(super) chance: f64,
}

impl Change {
    /// From values, and from what the batches of both are apart.
    fn new(by: f64, batches: &[Vec<f64>; 2]) -> Self {
        let [one, other] = batches;
        let apart: Vec<f64> = one.iter().zip(other).map(|(one, other)| other - one).collect();
        Self { by, chance: (half_width(&apart) / STUDENT).powi(2) }
    }

    /// So many times as much.
    pub(super) fn times(self, factor: f64) -> Self {
        Self { by: self.by * factor, chance: self.chance * factor * factor }
    }

    /// The part of it that is not chance.
    pub(super) fn surely(self) -> f64 {
        (self.by.powi(2) - self.chance).max(0.0).sqrt().copysign(self.by)
    }
}

/// What runs showed.
#[derive(Debug, Clone)]
pub(super) struct Simulated {
    load: Workload,
    runs: Vec<Seen>,
    /// How long each request of any of them was there, the shortest first.
    sorted: Vec<f64>,
    /// Requests of all of them, the start too.
    pub(super) requests: usize,
}

/// What one run showed, the start left out.
#[derive(Debug, Clone)]
struct Seen {
    /// How long each request was there, in the order of leaving.
    times: Vec<f64>,
    /// What was counted whenever [`MARK`] more had left.
    marks: Vec<Counts>,
}

impl Seen {
    /// Without the start.
    fn new(left: &[f64], marks: &[Counts], load: Workload) -> Self {
        let first = if let Workload::Closed { clients, .. } = load { clients as usize } else { 0 };
        let start = (left.len() / 8).max(first.min(left.len() / 2));
        Self { times: left[start..].to_vec(), marks: marks[start / MARK..].to_vec() }
    }
}

/// Runs of a net until the mean and the percentiles of these levels are known.
pub(super) fn known(laid: &Laid, load: Workload, levels: &[f64], budget: &mut Budget<'_>) -> Result<Simulated, Fault> {
    drawn(laid, load, levels, SEED, budget)
}

/// The same with other random numbers.
pub(super) fn drawn(
    laid: &Laid,
    load: Workload,
    levels: &[f64],
    seed: u64,
    budget: &mut Budget<'_>,
) -> Result<Simulated, Fault> {
    until(laid, load, seed, |seen| seen.is_known(levels), budget)
}

/// Runs of a net in which all are at work who can be, until it is known how many leave.
pub(super) fn crowded(laid: &Laid, load: Workload, budget: &mut Budget<'_>) -> Result<Simulated, Fault> {
    let is_known = |seen: &Simulated| {
        let carried = seen.leave();
        carried.half <= CLOSE_CARRIED * carried.value
    };
    until(laid, load, SEED, is_known, budget)
}

/// Runs of a net, all of which double until enough is known.
fn until(
    laid: &Laid,
    load: Workload,
    seed: u64,
    is_known: impl Fn(&Simulated) -> bool,
    budget: &mut Budget<'_>,
) -> Result<Simulated, Fault> {
    let plan = Plan::new(laid, |_| 1.0)?;
    let many = if load.jobs() as usize * FOR_EACH * RUNS > REQUESTS[1] { 1 } else { RUNS };
    let runs = (0..many as u64).map(|run| (Run::new(&plan, load, Chance { seed, run }), Vec::new()));
    let (mut runs, mut requests) = (runs.collect::<Vec<_>>(), REQUESTS[0]);
    loop {
        // As they left, without the start, and in their order.
        budget.bytes((3 * requests * size_of::<f64>()) as u64)?;
        for (run, left) in &mut runs {
            run.until(requests / many, left, budget)?;
        }
        let seen = runs.iter().map(|(run, left)| Seen::new(left, &run.marks, load)).collect();
        let seen = Simulated::new(load, requests, seen);
        let settled = seen.is_settled();
        if settled && (requests >= REQUESTS[1] || is_known(&seen)) {
            return Ok(seen);
        }
        if requests >= REQUESTS[1] {
            let why = format!("{requests} requests later it is not yet as it will be in the long run");
            return Err(Fault::new(Class::Unanswered, "simulation", why));
        }
        requests *= 2;
    }
}

/// A run of so many requests in which the times of stages are longer by a factor: two of them see the same requests.
pub(super) fn longer(
    laid: &Laid,
    load: Workload,
    requests: usize,
    factor: impl Fn(&Stage) -> f64,
    budget: &mut Budget<'_>,
) -> Result<Simulated, Fault> {
    let plan = Plan::new(laid, factor)?;
    let (mut run, mut left) = (Run::new(&plan, load, Chance { seed: SEED, run: 0 }), Vec::new());
    run.until(requests, &mut left, budget)?;
    Ok(Simulated::new(load, left.len(), vec![Seen::new(&left, &run.marks, load)]))
}

impl Simulated {
    fn new(load: Workload, requests: usize, runs: Vec<Seen>) -> Self {
        let mut sorted = runs.iter().flat_map(|run| &run.times).copied().collect::<Vec<f64>>();
        sorted.sort_unstable_by(f64::total_cmp);
        Self { load, runs, sorted, requests }
    }

    /// How many runs there were.
    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }

    fn is_known(&self, levels: &[f64]) -> bool {
        let mean = self.mean();
        let close = |it: Figure| it.half <= CLOSE * it.value;
        let unlike = |of: &dyn Fn(f64) -> f64, mean: f64| alike(&self.rows(SHORT, of), mean) <= ALIKE;
        close(mean)
            && unlike(&|time| time, mean.value)
            && levels.iter().all(|level| {
                let figure = self.quantile(*level);
                close(figure) && unlike(&|time| share(time <= figure.value), *level)
            })
    }

    /// Whether times are as long in the first half of each run as in the second: with a million clients who all think at first they are not for
    /// long, and of what only grows batches say little.
    fn is_settled(&self) -> bool {
        const APART: f64 = 3.0;
        let rows = self.rows(BATCHES, |time| time);
        let halves = rows.iter().map(|row| row.split_at(row.len() / 2));
        let (first, second): (Vec<&[f64]>, Vec<&[f64]>) = halves.unzip();
        let (first, second) = (first.concat(), second.concat());
        #[expect(clippy::cast_precision_loss, reason = "a few batches")]
        let mean = |half: &[f64]| half.iter().sum::<f64>() / half.len().max(1) as f64;
        (mean(&second) - mean(&first)).abs() <= APART * half_width(&first).hypot(half_width(&second))
    }

    /// The means of so many batches of all runs, those of each in a row, of what is made of each time.
    #[expect(clippy::cast_precision_loss, reason = "requests")]
    fn rows(&self, batches: usize, of: impl Fn(f64) -> f64) -> Vec<Vec<f64>> {
        let each = batches / self.runs.len();
        let row = |run: &Seen| {
            let batches = run.times.chunks_exact((run.times.len() / each).max(1));
            batches.map(|batch| batch.iter().map(|time| of(*time)).sum::<f64>() / batch.len() as f64).collect()
        };
        self.runs.iter().map(row).collect()
    }

    fn batches(&self, of: impl Fn(f64) -> f64) -> Vec<f64> {
        self.rows(BATCHES, of).concat()
    }

    /// How long requests are there.
    pub(super) fn mean(&self) -> Figure {
        #[expect(clippy::cast_precision_loss, reason = "requests")]
        let value = self.runs.iter().flat_map(|run| &run.times).sum::<f64>() / self.sorted.len() as f64;
        Figure { value, half: self.half(|time| time, value) }
    }

    /// Half of the interval of the mean of what is made of each time.
    fn half(&self, of: impl Fn(f64) -> f64, mean: f64) -> f64 {
        let [least, most] = NEARLY;
        let rows = self.rows(BATCHES, &of);
        let near = alike(&rows, mean).min(most);
        let is_slow = near > least && alike(&self.rows(SHORT, &of), mean) > ALIKE;
        let wider = if is_slow { ((1.0 + near) / (1.0 - near)).sqrt() } else { 1.0 };
        half_width(&rows.concat()) * wider
    }

    /// The share that is there no longer than a time.
    #[expect(clippy::cast_precision_loss, reason = "requests")]
    pub(super) fn within(&self, time: f64) -> f64 {
        self.sorted.partition_point(|it| *it <= time) as f64 / self.sorted.len() as f64
    }

    /// The time in which a share is done. How far its share may be off is what the batches say.
    pub(super) fn quantile(&self, level: f64) -> Figure {
        let value = self.at(level);
        let half = self.half(|time| share(time <= value), level);
        Figure { value, half: (self.at(level + half) - value).max(value - self.at(level - half)) }
    }

    /// How much longer requests are there in another run.
    pub(super) fn mean_to(&self, other: &Self) -> Change {
        Change::new(other.mean().value - self.mean().value, &[self, other].map(|run| run.batches(|time| time)))
    }

    /// By how much a share is done later in another run. What its batches have more than that share by then, over the density there, is how far
    /// off they have it (Bahadur 1966).
    pub(super) fn quantile_to(&self, other: &Self, level: f64) -> Change {
        let off = |run: &Self| {
            let value = run.at(level);
            let shares = run.batches(|time| share(time <= value));
            let near = half_width(&shares).min(1.0 - level);
            let slope = if near > 0.0 { (run.at(level + near) - run.at(level - near)) / (2.0 * near) } else { 0.0 };
            shares.into_iter().map(|share| (level - share) * slope).collect()
        };
        Change::new(other.at(level) - self.at(level), &[off(self), off(other)])
    }

    /// How many more leave a second in another run: the logarithm of its rate over the one of this.
    pub(super) fn leave_to(&self, other: &Self) -> Change {
        let [one, then] = [self, other].map(|run| run.leave().value);
        let slower = |run: &Self, rate: f64| run.counted(|first, last| (first.now - last.now) * rate);
        let batches = [slower(self, one), slower(other, then)];
        #[expect(clippy::cast_precision_loss, reason = "requests")]
        let each = (self.mark() * MARK) as f64;
        let chance = Change::new(0.0, &batches).times(1.0 / each).chance;
        Change { by: (then / one).ln(), chance }
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "requests"
    )]
    fn at(&self, level: f64) -> f64 {
        let last = self.sorted.len().saturating_sub(1);
        let rank = (level.clamp(0.0, 1.0) * self.sorted.len() as f64).ceil() as usize;
        self.sorted.get(rank.saturating_sub(1).min(last)).copied().unwrap_or(0.0)
    }

    /// Requests in the long run, and half of the interval of each of their numbers.
    pub(super) fn flow(&self) -> (Flow, Flow) {
        self.flow_as(self.is_counted())
    }

    /// Whether it is surer how often somebody leaves than how long those are away who think: where they wait longer than they think.
    pub(super) fn is_counted(&self) -> bool {
        let Workload::Closed { think, .. } = self.load else { return false };
        let (mean, leave) = (self.mean(), self.leave());
        leave.half * (think.max(0.0) + mean.value) < leave.value * mean.half
    }

    /// The same with the rate of clients as it is counted, or as their times say.
    pub(super) fn flow_as(&self, is_counted: bool) -> (Flow, Flow) {
        let mean = self.mean();
        let (rate, turned_away) = match self.load {
            Workload::Open { rate, .. } => {
                let lost = self.lost();
                let turned_away = Figure { value: rate * lost.value, half: rate * lost.half };
                let leave = self.leave();
                // Where more come than can be served it is surer how many leave, and who fills the room meanwhile is not among them.
                let turned_away = if lost.value > 0.0 && leave.half < turned_away.half {
                    Figure { value: (rate - leave.value).max(0.0), half: leave.half }
                } else {
                    turned_away
                };
                // That none was seen to be turned away says nothing of the others.
                let half = if lost.value > 0.0 { turned_away.half } else { 0.0 };
                (Figure { value: rate - turned_away.value, half }, turned_away)
            }
            Workload::Closed { clients, think, .. } => {
                let value = f64::from(clients) / (think.max(0.0) + mean.value);
                let by_times = Figure { value, half: value * mean.half / (think.max(0.0) + mean.value) };
                let rate = if is_counted { self.leave() } else { by_times };
                (rate, Figure { value: 0.0, half: 0.0 })
            }
        };
        let flow = |of: fn(Figure) -> f64, queued: f64| Flow {
            rate: of(rate),
            mean: of(mean),
            served: (of(mean) - queued).max(0.0),
            turned_away: of(turned_away),
        };
        (flow(|it| it.value, self.queued()), flow(|it| it.half, 0.0))
    }

    /// Marks in a batch.
    fn mark(&self) -> usize {
        self.runs.first().map_or(1, |run| (run.marks.len() / (BATCHES / self.runs.len())).max(1))
    }

    /// What is made of what was counted in each batch.
    fn counted<T>(&self, of: impl Fn(&Counts, &Counts) -> T) -> Vec<T> {
        let of_run = |run: &Seen| {
            let marks: Vec<&Counts> = run.marks.iter().step_by(self.mark()).collect();
            marks.windows(2).map(|pair| of(pair[0], pair[1])).collect::<Vec<_>>()
        };
        self.runs.iter().flat_map(of_run).collect()
    }

    /// How many leave a second. Times of those who were there for long at the end of a run, and not at its start, are not in their mean, so that of
    /// many who wait it says too much.
    #[expect(clippy::cast_precision_loss, reason = "requests")]
    pub(super) fn leave(&self) -> Figure {
        let took = self.counted(|first, last| last.now - first.now);
        let each = (took.iter().sum::<f64>() / took.len() as f64).max(f64::MIN_POSITIVE);
        let value = (self.mark() * MARK) as f64 / each;
        Figure { value, half: value * half_width(&took) / each }
    }

    /// The share of those that come who are turned away.
    #[expect(clippy::cast_precision_loss, reason = "requests")]
    fn lost(&self) -> Figure {
        let batches = self
            .counted(|first, last| ((last.turned_away - first.turned_away) as f64, (last.came - first.came) as f64));
        let (lost, came) = batches.iter().fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        let share = lost / came;
        // As many come in one batch as in another, nearly.
        let each = came / batches.len() as f64;
        let off: Vec<f64> = batches.iter().map(|(lost, came)| (lost - share * came) / each).collect();
        Figure { value: share, half: half_width(&off).max(NEVER_SEEN / came) }
    }

    /// The mean time that requests wait for a thread.
    #[expect(clippy::cast_precision_loss, reason = "requests")]
    fn queued(&self) -> f64 {
        let of_run = |run: &Seen| {
            let [first, .., last] = run.marks.as_slice() else { return (0.0, 0.0) };
            (last.queued - first.queued, ((run.marks.len() - 1) * MARK) as f64)
        };
        let (queued, left) = self.runs.iter().map(of_run).fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        if left > 0.0 { queued / left } else { 0.0 }
    }
}

/// 1 or 0.
fn share(is: bool) -> f64 {
    f64::from(u8::from(is))
}
