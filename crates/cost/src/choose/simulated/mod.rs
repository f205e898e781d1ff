//! Where the net of a setting has too many markings to be solved, as measured times that hardly vary make it, requests are followed one by
//! one. Each figure has an interval then; the same model has the same figures on every machine.
//!
//! A run is as long as its figures need: it doubles until half of the 95 % interval of the mean and of each percentile that is asked for is
//! at most 1 % of it, and those of neighbouring batches have nothing to do with each other. The first eighth of it is left out.

mod plan;
mod run;
#[cfg(test)]
mod tests;

use gspn::Budget;
use gspn::simulate::{alike, half_width};

use self::plan::Plan;
use self::run::{Counts, MARK, Run};
use super::times::Flow;
use crate::model::Workload;
use crate::net::{Laid, Stage};
use crate::{Class, Fault};

/// Requests of the shortest and of the longest run.
pub(super) const REQUESTS: [usize; 2] = [1 << 15, 1 << 22];
/// By how much times grow where nothing says how far they may, relative: where requests wait in no order, each run has an order of its own,
/// and what that changes must be less than what is looked for.
pub(super) const STEP: f64 = 0.05;
/// The fewest and the most requests from which it is seen what a longer time does to the figures.
const FOR_SLOPES: [usize; 2] = [1 << 16, 1 << 18];
/// Half of an interval, as a part of its figure, at which a run is long enough.
const CLOSE: f64 = 0.01;
/// Of a run, whose means say how far apart they are.
const BATCHES: usize = 32;
/// How alike neighbouring batches may be.
const ALIKE: f64 = 0.3;
/// Of so many that were never seen there may be three a run, in 95 of 100 runs.
const NEVER_SEEN: f64 = 3.0;

/// A figure and half of its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figure {
    pub(super) value: f64,
    pub(super) half: f64,
}

impl Figure {
    /// The square of how far this is from another run's, without what two runs of the same are apart.
    pub(super) fn apart(self, other: Self) -> f64 {
        let chance = (self.half.powi(2) + other.half.powi(2)) / 1.96_f64.powi(2);
        ((self.value - other.value).powi(2) - chance).max(0.0)
    }
}

/// What a run showed.
#[derive(Debug, Clone)]
pub(super) struct Simulated {
    load: Workload,
    /// How long each request was there, in the order of leaving, the start left out.
    times: Vec<f64>,
    /// The same, the shortest first.
    sorted: Vec<f64>,
    /// What was counted whenever [`MARK`] more had left, the start left out.
    marks: Vec<Counts>,
    /// Requests of the whole run, the start too.
    pub(super) requests: usize,
}

/// A run of a net until the mean and the percentiles of these levels are known.
pub(super) fn known(laid: &Laid, load: Workload, levels: &[f64], budget: &mut Budget<'_>) -> Result<Simulated, Fault> {
    let plan = Plan::new(laid, |_| 1.0)?;
    let (mut run, mut left, mut requests) = (Run::new(&plan, load), Vec::new(), REQUESTS[0]);
    loop {
        // As they left, without the start, and in their order.
        budget.bytes((3 * requests * size_of::<f64>()) as u64)?;
        run.until(requests, &mut left, budget)?;
        let seen = Simulated::new(load, &left, &run.marks);
        let settled = seen.is_settled();
        if settled && (requests >= REQUESTS[1] || seen.is_known(levels)) {
            return Ok(seen);
        }
        if requests >= REQUESTS[1] {
            let why = format!("{requests} requests later it is not yet as it will be in the long run");
            return Err(Fault::new(Class::Unanswered, "simulation", why));
        }
        requests *= 2;
    }
}

/// A run about as long as another in which the times of stages are longer by a factor: two of them see the same requests.
pub(super) fn longer(
    laid: &Laid,
    load: Workload,
    requests: usize,
    factor: impl Fn(&Stage) -> f64,
    budget: &mut Budget<'_>,
) -> Result<Simulated, Fault> {
    let plan = Plan::new(laid, factor)?;
    let (mut run, mut left) = (Run::new(&plan, load), Vec::new());
    run.until(requests.clamp(FOR_SLOPES[0], FOR_SLOPES[1]), &mut left, budget)?;
    Ok(Simulated::new(load, &left, &run.marks))
}

impl Simulated {
    fn new(load: Workload, left: &[f64], marks: &[Counts]) -> Self {
        let times = left[left.len() / 8..].to_vec();
        let marks = marks[left.len() / 8 / MARK..].to_vec();
        let mut sorted = times.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        Self { load, times, sorted, marks, requests: left.len() }
    }

    fn is_known(&self, levels: &[f64]) -> bool {
        let percentiles = levels.iter().map(|level| self.quantile(*level));
        let close = |it: Figure| it.half <= CLOSE * it.value;
        let mean = self.mean();
        std::iter::once(mean).chain(percentiles).all(close) && alike(&[self.batches(|time| time)], mean.value) <= ALIKE
    }

    /// Whether times are as long in the first half of the run as in the second: with a million clients who all think at first they are not for
    /// long, and of what only grows batches say little.
    fn is_settled(&self) -> bool {
        const APART: f64 = 3.0;
        let means = self.batches(|time| time);
        let (first, second) = means.split_at(means.len() / 2);
        #[expect(clippy::cast_precision_loss, reason = "a few batches")]
        let mean = |half: &[f64]| half.iter().sum::<f64>() / half.len().max(1) as f64;
        (mean(second) - mean(first)).abs() <= APART * half_width(first).hypot(half_width(second))
    }

    /// The means of the batches of what is made of each time.
    #[expect(clippy::cast_precision_loss, reason = "requests")]
    fn batches(&self, of: impl Fn(f64) -> f64) -> Vec<f64> {
        let batches = self.times.chunks_exact((self.times.len() / BATCHES).max(1));
        batches.map(|batch| batch.iter().map(|time| of(*time)).sum::<f64>() / batch.len() as f64).collect()
    }

    /// How long requests are there.
    pub(super) fn mean(&self) -> Figure {
        let means = self.batches(|time| time);
        #[expect(clippy::cast_precision_loss, reason = "requests")]
        let value = self.times.iter().sum::<f64>() / self.times.len() as f64;
        Figure { value, half: half_width(&means) }
    }

    /// The share that is there no longer than a time.
    #[expect(clippy::cast_precision_loss, reason = "requests")]
    pub(super) fn within(&self, time: f64) -> f64 {
        self.sorted.partition_point(|it| *it <= time) as f64 / self.sorted.len() as f64
    }

    /// The time in which a share is done. How far its share may be off is what the batches say.
    pub(super) fn quantile(&self, level: f64) -> Figure {
        let value = self.at(level);
        let half = half_width(&self.batches(|time| f64::from(u8::from(time <= value))));
        Figure { value, half: (self.at(level + half) - value).max(value - self.at(level - half)) }
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
        let mean = self.mean();
        let (rate, turned_away) = match self.load {
            Workload::Open { rate, .. } => {
                let lost = self.lost();
                let turned_away = Figure { value: rate * lost.value, half: rate * lost.half };
                // That none was seen to be turned away says nothing of the others.
                let half = if lost.value > 0.0 { turned_away.half } else { 0.0 };
                (Figure { value: rate - turned_away.value, half }, turned_away)
            }
            Workload::Closed { clients, think, .. } => {
                let value = f64::from(clients) / (think.max(0.0) + mean.value);
                let nobody = Figure { value: 0.0, half: 0.0 };
                (Figure { value, half: value * mean.half / (think.max(0.0) + mean.value) }, nobody)
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

    /// The share of those that come who are turned away.
    #[expect(clippy::cast_precision_loss, reason = "requests")]
    fn lost(&self) -> Figure {
        let marks: Vec<&Counts> = self.marks.iter().step_by((self.marks.len() / BATCHES).max(1)).collect();
        let batches = marks
            .windows(2)
            .map(|pair| ((pair[1].turned_away - pair[0].turned_away) as f64, (pair[1].came - pair[0].came) as f64));
        let batches: Vec<(f64, f64)> = batches.collect();
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
        let [first, .., last] = self.marks.as_slice() else { return 0.0 };
        (last.queued - first.queued) / ((self.marks.len() - 1) * MARK) as f64
    }
}
