//! Long-run means: several runs side by side, each cut into batches of equal time.
//!
//! The start is dropped where MSER says that it is over. What is left of each run becomes a few long batches. They are taken for
//! independent once neighbours are hardly alike; until then the runs go on. Where the runs differ from each other by far more than
//! their batches do, and none of them rises or falls inside, they have ended in different closed classes: then each run is one sample, and
//! more runs are made.

use std::ops::Range;

use super::balance::{Balance, Moment};
use super::figures::{half_width, mean, settled, wilson};
use super::machine::{Level, Machine, Watch};
use super::model::Model;
use super::passing::Seen;
use super::scatter::{Facts, Samples, Scatter};
use super::sight::{Look, SAME, Sight};
use super::{Estimate, Meter};
use crate::Refusal;
use crate::ask::Ask;
use crate::net::Net;

/// Runs side by side at first.
const RUNS: usize = 16;
/// Batches that are kept of each run; then pairs of them become one.
const KEPT: usize = 128;
/// Batches at the first look.
const FIRST: usize = 64;
/// Firings in a batch at first, about.
const FIRINGS: f64 = 64.0;
/// Firings from which the length of a batch is guessed.
const PILOT: u32 = 2_048;
/// Long batches of each run.
const GROUPS: usize = 8;
/// The most runs.
const MOST: usize = 4_096;
/// Runs that are needed where they end differently.
const ENDS: usize = 128;
/// The part of what is wanted that need not be in balance any better, however narrow an interval is.
const TENTH: f64 = 0.1;
/// The part of the batches by which the last of such runs begins later than the first, one of so many.
const LATER: usize = 4;
/// The part of all time that a fixed time may have been running for: what follows on it has been seen so often, about.
const RUNNING: f64 = 0.125;

/// What is measured in the long run.
#[derive(Debug, Clone, Copy)]
pub(super) enum Measure {
    /// The mean of a level.
    Level(usize),
    /// Firings per time unit of a transition.
    Fired(usize),
}

/// One of several runs.
#[derive(Debug)]
pub(super) struct Run<'a> {
    machine: Machine<'a>,
    /// By measure.
    batches: Vec<Vec<f64>>,
    /// Firings that are in a batch already, by measure.
    counted: Vec<u64>,
    /// When the latest batches began, the last half of all at most.
    since: Moment,
}

/// Where the simulation of a net stands.
#[derive(Debug)]
pub(super) struct Runs<'a> {
    model: &'a Model,
    watch: &'a Watch,
    pub(super) seed: u64,
    pub(super) measures: &'a [Measure],
    pub(super) runs: Vec<Run<'a>>,
    /// Of a batch.
    length: f64,
    /// Batches of each run.
    count: usize,
    /// How places were in balance in the latest batches.
    pub(super) balance: Balance,
    /// Whether it is known that no two of them can end differently, and how they have.
    one: bool,
    pub(super) seen: Seen,
}

/// Simulates until each half-width is at most `relative` of its mean, or the meter says stop. With the net go the questions that `measures`
/// are to answer.
pub(super) fn simulate(
    of: (&Net, &[Ask]),
    model: &Model,
    watch: &Watch,
    seed: u64,
    measures: &[Measure],
    relative: f64,
    meter: &mut Meter<'_, '_>,
) -> Result<Vec<Result<Estimate, Refusal>>, Refusal> {
    let length = batch(model, watch, seed, meter)?;
    let run_bytes = 272 * (model.parts.len() + model.initial.len()) + 8 * KEPT * measures.len();
    let most = (meter.bytes() / run_bytes.max(1)).clamp(RUNS, MOST);
    let mut sight = Sight::of(of, model, relative, most);
    let (balance, one, seen) = (Balance::default(), sight.is_one(), Seen::default());
    let mut all = Runs { model, watch, seed, measures, runs: Vec::new(), length, count: FIRST, balance, one, seen };
    all.add(RUNS)?;
    let mut round = 0;
    loop {
        let done = all.advance(meter)?;
        sight.look(&mut all, done, meter);
        let mut enough = sight.is_enough(&all);
        if enough || !done {
            enough &= sight.stands(&all, meter);
        }
        if !done || enough || sight.is_hopeless(&all) {
            return Ok(sight.answers(&all, done));
        }
        round += 1;
        all.one = sight.is_one();
        if sight.wants_runs(&all, round) {
            all.add(all.runs.len().min(most - all.runs.len()))?;
        } else {
            all.count = even(all.count + all.count / 2);
        }
    }
}

/// So many batches, or one more: what is in the last of an odd number would be lost when two become one.
const fn even(count: usize) -> usize {
    count.next_multiple_of(2)
}

/// How long a batch is at first.
fn batch(model: &Model, watch: &Watch, seed: u64, meter: &mut Meter<'_, '_>) -> Result<f64, Refusal> {
    let mut pilot = Machine::new(model, watch, seed, u64::MAX)?;
    let mut seen = 0_u64;
    while pilot.next() < f64::INFINITY && seen < u64::from(PILOT) {
        pilot.step()?;
        seen += 1;
        if pilot.is_due(meter.slice()) && !meter.look(&mut pilot) {
            break;
        }
    }
    meter.look(&mut pilot);
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let length = pilot.now / seen.max(1) as f64 * FIRINGS;
    Ok(if length > 0.0 && length.is_finite() { length } else { 1.0 })
}

impl Runs<'_> {
    fn add(&mut self, count: usize) -> Result<(), Refusal> {
        for _ in 0..count {
            let machine = Machine::new(self.model, self.watch, self.seed, self.runs.len() as u64)?;
            let (batches, counted) = (vec![Vec::new(); self.measures.len()], vec![0; self.measures.len()]);
            let since = Moment::of(&machine);
            self.runs.push(Run { machine, batches, counted, since });
        }
        Ok(())
    }

    /// Brings each run to the number of batches that is wanted. Whether there was enough of everything for it.
    fn advance(&mut self, meter: &mut Meter<'_, '_>) -> Result<bool, Refusal> {
        while self.count > KEPT {
            self.merge();
        }
        let wanted = self.count;
        for run in &mut self.runs {
            let first = run.batches.first().map_or(wanted, Vec::len);
            for batch in first..wanted {
                if batch == first.max(wanted / 2) {
                    run.since = Moment::of(&run.machine);
                }
                #[expect(clippy::cast_precision_loss, reason = "a small number")]
                let until = self.length * (batch + 1) as f64;
                while !run.machine.run(until, meter.slice())? {
                    if !meter.look(&mut run.machine) {
                        return Ok(false);
                    }
                }
                let each = self.measures.iter().zip(run.batches.iter_mut().zip(&mut run.counted));
                for (measure, (batches, counted)) in each {
                    let sum = match measure {
                        Measure::Level(level) => run.machine.take_level(*level),
                        Measure::Fired(transition) => {
                            let all = run.machine.fired()[*transition];
                            #[expect(clippy::cast_precision_loss, reason = "firings of one batch")]
                            let new = (all - std::mem::replace(counted, all)) as f64;
                            new
                        }
                    };
                    batches.push(sum / self.length);
                }
            }
            if !meter.look(&mut run.machine) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Two batches become one; there is an even number of them.
    fn merge(&mut self) {
        for run in &mut self.runs {
            for batches in &mut run.batches {
                *batches = batches.chunks_exact(2).map(mean).collect();
            }
        }
        self.length *= 2.0;
        self.count = even(self.count / 2);
    }

    /// Whether every run has come to its end.
    pub(super) fn dead(&self) -> bool {
        self.runs.iter().all(|run| run.machine.next() == f64::INFINITY)
    }

    /// A fixed time that has been running for much of the time of a run, and for how long: nobody has seen what is behind it, or hardly.
    pub(super) fn running(&self) -> Option<(usize, f64)> {
        let of = |run: &Run<'_>| run.machine.longest().filter(|(_, time)| *time > RUNNING * run.machine.now);
        self.runs.iter().find_map(of)
    }

    /// Whether runs may differ.
    fn chance(&self) -> bool {
        self.model.chance() || self.runs.iter().any(|run| run.machine.drawn)
    }

    /// Takes the balance of the latest batches; nothing is out of it where nothing happens any more.
    pub(super) fn weigh(&mut self) {
        self.balance = if self.dead() {
            Balance::default()
        } else {
            Balance::of(self.model, self.runs.iter().map(|run| (&run.since, &run.machine)))
        };
    }

    /// Those of the first runs, at most so many.
    pub(super) fn machines(&self, most: usize) -> Vec<&Machine<'_>> {
        self.runs.iter().take(most).map(|run| &run.machine).collect()
    }

    /// By what part a measure may be off because places are still out of balance.
    #[expect(clippy::cast_precision_loss, reason = "firings of a run")]
    fn off(&self, measure: usize) -> f64 {
        let level = self.level(measure);
        let scale = match self.measures[measure] {
            Measure::Fired(transition) => {
                let fired = self.runs.iter().map(|run| run.since.fired(&run.machine, transition));
                fired.sum::<u64>() as f64 / self.runs.len() as f64
            }
            Measure::Level(_) => {
                let places = level.map(Level::places).unwrap_or_default();
                places.into_iter().map(|place| self.balance.flow(place)).fold(0.0, f64::max)
            }
        };
        self.balance.off(level, scale, self.model.longest.is_some() || !self.chance())
    }

    pub(super) fn level(&self, measure: usize) -> Option<&Level> {
        match self.measures[measure] {
            Measure::Level(level) => Some(self.watch.level(level)),
            Measure::Fired(_) => None,
        }
    }

    /// The means of runs that are in step, each over as many of `batches`, which begin later from run to run: where the first is at the beginning
    /// of a way round, the others are further on it.
    fn staggered(&self, measure: usize, batches: Range<usize>) -> Vec<f64> {
        let later = batches.len() / LATER;
        let of = |(at, run): (usize, &Run<'_>)| {
            let from = batches.start + at * later / (self.runs.len() - 1).max(1);
            mean(&run.batches[measure][from..from + batches.len() - later])
        };
        self.runs.iter().enumerate().map(of).collect()
    }

    /// What runs that have all come to their ends say.
    fn ended(&self, measure: usize, relative: f64) -> Look {
        let last = |run: &Run<'_>| match self.measures[measure] {
            Measure::Level(level) => run.machine.level(level),
            Measure::Fired(_) => 0.0,
        };
        let ends: Vec<f64> = self.runs.iter().map(last).collect();
        let (middle, mut half) = (mean(&ends), half_width(&ends));
        // Nothing fires any more, whichever end it is.
        let fired = matches!(self.measures[measure], Measure::Fired(_));
        // What all runs ended with, one of as many again may not.
        if half == 0.0 && !fired && self.chance() {
            #[expect(clippy::cast_precision_loss, reason = "a few thousand runs")]
            let unseen = wilson(0.0, ends.len() as f64).1;
            half = unseen * middle.abs().max(1.0);
        }
        let small = half <= relative * middle.abs() && ends.len() >= if half > 0.0 { ENDS } else { SAME };
        let sure = fired || small;
        Look { estimate: Estimate::around(middle, half, ends.len() as u64, sure), mixed: true }
    }

    /// The latest batches of a measure, without the start, as a few long ones of each run, and which they are.
    fn rows(&self, measure: usize) -> Option<(Vec<Vec<f64>>, Range<usize>)> {
        let count = self.runs.iter().map(|run| run.batches[measure].len()).min().unwrap_or(0);
        if count < 2 * GROUPS {
            return None;
        }
        let of_all = |batch: usize| self.runs.iter().map(|run| run.batches[measure][batch]).sum::<f64>();
        let series: Vec<f64> = (0..count).map(of_all).collect();
        let size = (count - settled(&series)) / GROUPS;
        let latest = count - size * GROUPS..count;
        let of_run = |run: &Run<'_>| run.batches[measure][latest.clone()].chunks_exact(size).map(mean).collect();
        Some((self.runs.iter().map(of_run).collect(), latest))
    }

    /// What the batches of a measure say of its long run.
    pub(super) fn look(&self, measure: usize, relative: f64) -> Look {
        if self.dead() {
            return self.ended(measure, relative);
        }
        let Some((rows, latest)) = self.rows(measure) else {
            return Look { estimate: Estimate::unknown(), mixed: true };
        };
        let facts = Facts {
            chance: self.chance(),
            one_end: self.one,
            differently: self.seen.differently,
            fixed: self.model.longest.map(|time| time > self.length),
        };
        let scatter = Scatter::of(rows, facts);
        let staggered = (scatter.samples == Samples::InStep).then(|| self.staggered(measure, latest.clone()));
        let means = staggered.as_deref().unwrap_or(&scatter.means);
        let middle = mean(means);
        let (half, samples) = scatter.half_width(means);
        // What fires so often in each batch may fire once more, or less.
        let fires = scatter.is_one() && matches!(self.measures[measure], Measure::Fired(_));
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let last = if fires { 1.0 / (latest.len() as f64 * self.length) } else { 0.0 };
        let half = half + last;
        // Before the start is over everywhere, what is seen agrees with itself and is not the long run.
        let off = self.off(measure) * middle.abs();
        let balanced = off <= f64::max(half, TENTH * relative * middle.abs()) / 2.0;
        // What never changed is left as it is: no interval says how seldom it does.
        let half = if balanced || half == 0.0 { half } else { half + off };
        let sure = half > 0.0 && half <= relative * middle.abs() && scatter.is_enough(ENDS) && balanced;
        Look { estimate: Estimate::around(middle, half, samples as u64, sure), mixed: scatter.is_mixed() }
    }
}
