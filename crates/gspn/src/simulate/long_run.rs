//! Long-run means: several runs side by side, each cut into batches of equal time.
//!
//! The start is dropped where MSER says that it is over. What is left of each run becomes a few long batches. They are taken for
//! independent once neighbours are hardly alike; until then the runs go on. Where the runs differ from each other by far more than
//! their batches do, and none of them rises or falls inside, they have ended in different closed classes: then each run is one sample, and
//! more runs are made.

use std::ops::Range;

use super::balance::{Balance, Drift, Moment};
use super::figures::{alike, alike_inside, half_width, mean, settled, spread, wilson};
use super::known::{self, Known, LOOKS};
use super::machine::{Level, Machine, Watch};
use super::model::Model;
use super::passing::{self, LIMITS, Passing, Seen};
use super::walk::{End, Ends};
use super::{Estimate, Meter};
use crate::ask::Ask;
use crate::net::Net;
use crate::{Class, Refusal};

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
/// How alike neighbours may be.
const ALIKE: f64 = 0.1;
/// The same where each row is taken by itself: eight that have nothing to do with each other are alike by -1/8 beside their own mean.
const ALIKE_INSIDE: f64 = 0.0;
/// Runs that ended alike and show that all do.
const SAME: usize = 1_024;
/// The most runs.
const MOST: usize = 4_096;
/// Runs that are needed where they end differently.
const ENDS: usize = 128;
/// How much more the means of runs may scatter than their batches make them: hardly once in a hundred times, when nothing is wrong.
const SCATTER: f64 = 2.2;
/// The same where they have ended differently beyond doubt.
const CLEAR: f64 = 20.0;
/// Where most long batches are the same, so many changes from one to the next must have been seen before they say how often there are any;
/// a run that differs from the start counts as two. Of what comes to its end once and for all more is seen by its drift.
const CHANGES: usize = 50;
/// The part of what is wanted that need not be in balance any better, however narrow an interval is.
const TENTH: f64 = 0.1;
/// How much less than their batches runs may scatter where there is chance.
const SAME_RUN: f64 = 1e-9;
/// How much more batches of one time may scatter than runs in them, where fixed times may keep runs in step.
const STEP: f64 = 1.5;
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

struct Run<'a> {
    machine: Machine<'a>,
    /// By measure.
    batches: Vec<Vec<f64>>,
    /// Firings that are in a batch already, by measure.
    counted: Vec<u64>,
    /// When the latest batches began, the last half of all at most.
    since: Moment,
}

/// Where the simulation of a net stands.
struct Runs<'a> {
    model: &'a Model,
    watch: &'a Watch,
    seed: u64,
    measures: &'a [Measure],
    runs: Vec<Run<'a>>,
    /// Of a batch.
    length: f64,
    /// Batches of each run.
    count: usize,
    /// How places were in balance in the latest batches.
    balance: Balance,
    /// Whether it is known that no two of them can end differently, and how they have.
    one: bool,
    seen: Seen,
}

/// A measure after a look.
struct Look {
    estimate: Estimate,
    mixed: bool,
}

/// Simulates until each half-width is at most `relative` of its mean, or the meter says stop. With the net go the questions that `measures`
/// are to answer.
pub(super) fn simulate(
    (net, asks): (&Net, &[Ask]),
    model: &Model,
    watch: &Watch,
    seed: u64,
    measures: &[Measure],
    relative: f64,
    meter: &mut Meter<'_, '_>,
) -> Result<Vec<Result<Estimate, Refusal>>, Refusal> {
    let length = batch(model, watch, seed, meter)?;
    let (mut passing, mut ends, mut end) = (Passing::of(net), None, None::<End>);
    let (balance, one, seen) = (Balance::default(), passing.is_one(), Seen::default());
    let mut all = Runs { model, watch, seed, measures, runs: Vec::new(), length, count: FIRST, balance, one, seen };
    let mut drifts = Vec::new();
    let mut looks: Vec<Look> = Vec::new();
    let (mut round, mut on_the_way, mut looked, mut known) = (0, (0, 0), 0, None);
    all.add(RUNS)?;
    let run_bytes = 272 * (model.parts.len() + model.initial.len()) + 8 * KEPT * measures.len();
    let most = (meter.bytes() / run_bytes.max(1)).clamp(RUNS, MOST);
    loop {
        let done = all.advance(meter)?;
        let first = looks.is_empty();
        if done || first {
            all.balance = all.balance();
            let machines: Vec<&Machine<'_>> = all.runs.iter().map(|run| &run.machine).collect();
            all.seen = passing.ends(machines.iter().copied()).unwrap_or_else(|| {
                let ends = ends.get_or_insert_with(|| Ends::of(net, model));
                ends.seen(&machines)
            });
            looks = (0..measures.len()).map(|measure| all.look(measure, relative)).collect();
            drifts = all.balance.drifts(relative);
            on_the_way = (passing.count(all.runs.iter().map(|run| &run.machine)), all.runs.len());
            looked = all.runs.len();
        }
        let dead = all.dead();
        let running = all.running();
        if done {
            // Once, and not where the limit came before.
            known.get_or_insert_with(|| Known::of(net, asks, LIMITS, LOOKS, meter));
        }
        let against = |measure: usize, look: &Look| known.as_ref()?.against(measure, &look.estimate);
        let hidden = |measure: usize| drifts.iter().find(|drift: &&Drift| drift.hides(all.level(measure)));
        let moves = |measure: usize, look: &Look| {
            all.level(measure).filter(|_| !look.estimate.reached).and_then(|level| all.balance.moves(level))
        };
        // An end that no run has come to: what is known has it in it, for the rest there are to be more runs.
        let has = |measure: usize| known.as_ref().is_some_and(|it| it.has(measure));
        let is_off = |measure: usize| looks.get(measure).is_some_and(|look| against(measure, look).is_some());
        let unseen = all.seen.unseen && !dead && (0..measures.len()).any(|measure| !has(measure) || is_off(measure));
        let few = unseen && all.runs.len() < SAME.min(most);
        let lacking = |measure: usize| unseen && !has(measure) && (few || all.seen.sure);
        let mut reached = on_the_way.0 == 0
            && running.is_none()
            && (0..looks.len()).all(|measure| !lacking(measure))
            && looks
                .iter()
                .enumerate()
                .all(|(at, look)| look.estimate.reached && hidden(at).is_none() && against(at, look).is_none());
        if (reached || !done) && !dead && on_the_way.0 == 0 && passing.is_open() {
            // Before anything is said of a net that is too large to know where it stays. Runs that have begun since are none of what is said.
            let machines: Vec<&Machine<'_>> = all.runs.iter().take(looked).map(|run| &run.machine).collect();
            if passing.further(net, meter.firings) {
                on_the_way = (passing.count(machines.iter().copied()), machines.len());
                end = None;
                // What the next look finds of them, if it is not what this one knew.
                let seen = passing.ends(machines.iter().copied()).unwrap_or_default();
                reached &= !seen.unseen && seen.differently <= all.seen.differently;
            } else {
                let ends = ends.get_or_insert_with(|| Ends::of(net, model));
                end = ends.search(model, seed, &machines, meter.firings);
            }
            reached &= on_the_way.0 == 0 && end.is_none();
        }
        let hopeless = !few && (0..measures.len()).any(lacking);
        if !done || reached || hopeless || (dead && all.runs.len() >= most) {
            let estimate = |(measure, look): (usize, &Look)| match hidden(measure) {
                _ if on_the_way.0 > 0 => Err(passing::refusal(on_the_way)),
                _ if let Some((transition, time)) = running => Err(still(&model.names[transition], time)),
                Some(drift) if done || !first => Err(drift.refusal(model)),
                _ if let Some(end) = end => Err(end.refusal(model)),
                _ if lacking(measure) => Err(passing::unseen(all.runs.len())),
                // A start that is not over drifts, too.
                Some(_) => Ok(Estimate { reached: false, ..look.estimate }),
                None => match against(measure, look) {
                    Some(value) => Err(known::refusal(&look.estimate, value)),
                    None => match moves(measure, look) {
                        Some(drift) if done || !first => Err(drift.refusal(model)),
                        _ => Ok(look.estimate),
                    },
                },
            };
            return Ok(looks.iter().enumerate().map(estimate).collect());
        }
        round += 1;
        all.one = passing.is_one();
        // More runs would begin at the start again, where those that there are have not left it yet.
        let may_add = all.runs.len() < most && on_the_way.0 == 0 && end.is_none();
        if may_add && (dead || few || round % 3 != 0 && looks.iter().any(|look| look.mixed)) {
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
    fn dead(&self) -> bool {
        self.runs.iter().all(|run| run.machine.next() == f64::INFINITY)
    }

    /// A fixed time that has been running for much of the time of a run, and for how long: nobody has seen what is behind it, or hardly.
    fn running(&self) -> Option<(usize, f64)> {
        let of = |run: &Run<'_>| run.machine.longest().filter(|(_, time)| *time > RUNNING * run.machine.now);
        self.runs.iter().find_map(of)
    }

    /// Whether runs may differ.
    fn chance(&self) -> bool {
        self.model.chance() || self.runs.iter().any(|run| run.machine.drawn)
    }

    /// Of the latest batches; nothing is out of balance where nothing happens any more.
    fn balance(&self) -> Balance {
        if self.dead() {
            return Balance::default();
        }
        Balance::of(self.model, self.runs.iter().map(|run| (&run.since, &run.machine)))
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
        self.balance.off(level, scale)
    }

    fn level(&self, measure: usize) -> Option<&Level> {
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

    fn look(&self, measure: usize, relative: f64) -> Look {
        if self.dead() {
            return self.ended(measure, relative);
        }
        let count = self.runs.iter().map(|run| run.batches[measure].len()).min().unwrap_or(0);
        if count < 2 * GROUPS {
            return Look { estimate: Estimate::unknown(), mixed: true };
        }
        let series: Vec<f64> =
            (0..count).map(|batch| self.runs.iter().map(|run| run.batches[measure][batch]).sum::<f64>()).collect();
        let size = (count - settled(&series)) / GROUPS;
        let rows: Vec<Vec<f64>> = self
            .runs
            .iter()
            .map(|run| run.batches[measure][count - size * GROUPS..count].chunks_exact(size).map(mean).collect())
            .collect();
        let means: Vec<f64> = rows.iter().map(|row| mean(row)).collect();
        let middle = mean(&means);
        let columns: Vec<f64> =
            (0..GROUPS).map(|at| mean(&rows.iter().map(|row| row[at]).collect::<Vec<_>>())).collect();
        let inside: f64 = rows.iter().zip(&means).map(|(row, mean)| spread(row, *mean)).sum();
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let (groups, runs) = (GROUPS as f64, rows.len() as f64);
        let within = inside / (runs * (groups - 1.0));
        let in_step = spread(&columns, middle) * runs;
        let between = groups * spread(&means, middle) / (runs - 1.0);
        // Where nothing ever changed, another run may still see it change.
        // Runs that are too short to have come round differ, too: they are to go on, for more of them begin at the start again. Until one
        // that has ended elsewhere is told from one that is slow, it is neither: the longer runs are, the more the former differ.
        let slow = alike_inside(&rows) > ALIKE_INSIDE;
        let changes = changes(&rows);
        let differently = between > CLEAR * within && !slow && !self.one;
        // Without chance every run is the same one, and however many there are, they say no more than one.
        let one = !self.chance() || between > 0.0 && between <= SAME_RUN * within && !self.seen.differently;
        let mixed = !one && (self.seen.differently || differently || between == 0.0 || changes == Some(0));
        let unclear = between > SCATTER * within && !mixed;
        // Runs that rise and fall together show it no better than one does, and what is longer than a batch may hide that.
        let apart = (inside - in_step) / (runs - 1.0);
        let in_step = self.model.longest.is_some_and(|time| time > self.length || in_step > STEP * apart);
        let together = in_step && !one && !mixed;
        let alike =
            alike(&rows, middle) > ALIKE || together && self::alike(std::slice::from_ref(&columns), middle) > ALIKE;
        let (means, middle) = if together {
            let means = self.staggered(measure, count - size * GROUPS..count);
            let middle = mean(&means);
            (means, middle)
        } else {
            (means, middle)
        };
        let half = match rows.first() {
            Some(row) if one => half_width(row),
            _ if together => half_width(&means).max(half_width(&columns)),
            _ if mixed || unclear || alike => half_width(&means),
            _ => half_width(&rows.concat()),
        };
        // What fires so often in each batch may fire once more, or less.
        let last = if one && matches!(self.measures[measure], Measure::Fired(_)) {
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let time = (size * GROUPS) as f64 * self.length;
            1.0 / time
        } else {
            0.0
        };
        let half = half + last;
        let enough = if mixed { means.len() >= ENDS } else { one || !alike && !unclear };
        let enough = enough && (one || changes.is_none_or(|changes| changes >= CHANGES));
        // Before the start is over everywhere, what is seen agrees with itself and is not the long run.
        let off = self.off(measure) * middle.abs();
        let balanced = off <= f64::max(half, TENTH * relative * middle.abs()) / 2.0;
        let half = if balanced { half } else { half + off };
        let sure = half > 0.0 && half <= relative * middle.abs() && enough && balanced;
        let samples = if one {
            GROUPS
        } else if together || mixed || unclear || alike {
            means.len()
        } else {
            rows.len() * GROUPS
        };
        Look { estimate: Estimate::around(middle, half, samples as u64, sure), mixed }
    }
}

/// Why there is no long run where a fixed time has been running for so long.
fn still(transition: &str, time: f64) -> Refusal {
    let why = format!(
        "`{transition}` had been running for {time:.3e} time units when the limit of firings or of time was reached, and what follows on it was \
         hardly seen: allow more, or ask `solve`"
    );
    Refusal::new(Class::TooLarge, "", why)
}

/// How often what most long batches showed became something else, or was it from the start; nothing where no more than half of them are the same.
fn changes(rows: &[Vec<f64>]) -> Option<usize> {
    // A sum of times that is cut into batches is the same but for rounding.
    #[expect(clippy::cast_possible_truncation, reason = "meant")]
    let same = |batch: &f64| (*batch as f32).to_bits();
    let mut all: Vec<u32> = rows.iter().flatten().map(same).collect();
    all.sort_unstable();
    // What more than half of them are stands in the middle.
    let most = *all.get(all.len() / 2)?;
    let many = all.partition_point(|batch| *batch <= most) - all.partition_point(|batch| *batch < most);
    let of_row = |row: &Vec<f64>| {
        let inside = row.windows(2).filter(|pair| same(&pair[0]) != same(&pair[1])).count();
        inside + 2 * usize::from(row.first().is_some_and(|first| same(first) != most))
    };
    (2 * many > all.len()).then(|| rows.iter().map(of_row).sum())
}
