//! What is asked about a time, or about the way to a marking: many runs from the start, each one sample.

use super::figures::{Z, student, wilson};
use super::machine::{Machine, Watch};
use super::model::Model;
use super::{Estimate, Meter};
use crate::{Class, Refusal};

/// Runs before the first look.
const FIRST: u64 = 1_000;
/// Runs after which a value that never differed is not looked at any longer: it is constant, or changes too rarely to be seen.
const CONSTANT: f64 = 100_000.0;
/// Samples of a passage that are kept.
const KEPT: usize = 4_000_000;

/// What is measured at a time.
#[derive(Debug, Clone, Copy)]
pub(super) enum Measure {
    /// A level; those of a condition are 0 or 1.
    Level { index: usize, share: bool },
    /// Firings per time unit of an exponential transition.
    Rate(usize),
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    count: f64,
    mean: f64,
    spread: f64,
}

impl Sums {
    fn add(&mut self, sample: f64) {
        self.count += 1.0;
        let off = sample - self.mean;
        self.mean += off / self.count;
        self.spread += off * (sample - self.mean);
    }

    /// Whether no run differed from the others, and there were enough.
    fn same(&self) -> bool {
        self.spread == 0.0 && self.count >= CONSTANT
    }

    /// Of a value that never differs without chance.
    fn estimate(self, share: bool, relative: f64, chance: bool) -> Estimate {
        let Self { count, mean, spread } = self;
        if count < 8.0 {
            return Estimate::unknown();
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let samples = count as u64;
        if share {
            let (low, high) = wilson(mean * count, count);
            let half_width = (high - low) / 2.0;
            let sure = half_width <= relative * mean || (self.same() && !chance);
            return Estimate { mean, half_width, low, high, samples, reached: sure };
        }
        let half = student(count - 1.0) * (spread / (count - 1.0) / count).sqrt();
        let sure = if spread > 0.0 { half <= relative * mean.abs() } else { self.same() && !chance };
        Estimate::around(mean, half, samples, sure)
    }
}

/// Measures at `times`, which do not fall; one estimate each.
pub(super) fn at(
    model: &Model,
    watch: &Watch,
    seed: u64,
    asked: &[(f64, Measure)],
    relative: f64,
    meter: &mut Meter<'_, '_>,
) -> Result<Vec<Estimate>, Refusal> {
    let chance = model.chance();
    let mut sums = vec![Sums::default(); asked.len()];
    let mut machine = Machine::new(model, watch, seed, 0)?;
    let (mut run, mut wanted) = (0, FIRST);
    loop {
        let mut samples = Vec::with_capacity(asked.len());
        for (time, measure) in asked {
            while !machine.run(*time, meter.slice())? {
                if !meter.look(&mut machine) {
                    let estimates = sums.iter().zip(asked).map(|(sums, asked)| estimate(*sums, asked.1, 0.0, chance));
                    return Ok(estimates.collect());
                }
            }
            samples.push(match measure {
                Measure::Level { index, .. } => machine.level(*index),
                Measure::Rate(transition) => machine.rate(*transition),
            });
        }
        sums.iter_mut().zip(samples).for_each(|(sums, sample)| sums.add(sample));
        run += 1;
        let goes_on = meter.look(&mut machine);
        if run >= wanted || !goes_on {
            let estimates: Vec<Estimate> =
                sums.iter().zip(asked).map(|(sums, asked)| estimate(*sums, asked.1, relative, chance)).collect();
            if !goes_on || estimates.iter().zip(&sums).all(|(estimate, sums)| estimate.reached || sums.same()) {
                return Ok(estimates);
            }
            wanted += wanted / 2;
        }
        machine.restart(seed, run)?;
    }
}

fn estimate(sums: Sums, measure: Measure, relative: f64, chance: bool) -> Estimate {
    sums.estimate(matches!(measure, Measure::Level { share: true, .. }), relative, chance)
}

/// The time until level `goal`, a condition, holds: the mean, or the time by which it has with probability `quantile`.
#[expect(clippy::cast_precision_loss, reason = "a count of runs")]
pub(super) fn passage(
    model: &Model,
    watch: &Watch,
    seed: u64,
    goal: usize,
    quantile: Option<f64>,
    relative: f64,
    meter: &mut Meter<'_, '_>,
) -> Result<Estimate, Refusal> {
    let mut samples: Vec<f64> = Vec::new();
    let mut machine = Machine::new(model, watch, seed, 0)?;
    let (mut run, mut wanted) = (0, FIRST);
    loop {
        let mut goes_on = true;
        while machine.level(goal) == 0.0 && machine.next() < f64::INFINITY && goes_on {
            machine.step()?;
            goes_on = !machine.is_due(meter.slice()) || meter.look(&mut machine);
        }
        let cut = (!goes_on && machine.level(goal) == 0.0).then_some(machine.now);
        match (cut, quantile) {
            (None, _) => samples.push(if machine.level(goal) == 0.0 { f64::INFINITY } else { machine.now }),
            // It comes later than all that came.
            (Some(_), Some(_)) => samples.push(f64::INFINITY),
            (Some(_), None) => {}
        }
        run += 1;
        goes_on = goes_on && meter.look(&mut machine) && samples.len() < KEPT;
        if run >= wanted || !goes_on {
            let found = match quantile {
                None => middle(&samples, relative)?,
                Some(quantile) => level(&mut samples.clone(), quantile, relative)
                    .map_err(|refusal| if cut.is_some() { unended() } else { refusal })?,
            };
            // The run that the limit met is a long one: without it, the mean is that of the short ones.
            if let (Some(so_far), None) = (cut, quantile)
                && found.mean + (so_far - found.mean) / (found.samples + 1) as f64 > found.high
            {
                return Err(unended());
            }
            if !goes_on || found.reached {
                return Ok(found);
            }
            wanted += wanted / 2;
        }
        machine.restart(seed, run)?;
    }
}

fn unended() -> Refusal {
    let why = "a run had not come there when the limit of firings or of time was reached, and those that had are the short ones: allow more";
    Refusal::new(Class::TooLarge, "", why)
}

fn uncertain(samples: &[f64]) -> Refusal {
    let reached = samples.iter().filter(|sample| sample.is_finite()).count();
    let why = format!("it was reached in {reached} of {} runs only; the others ended in a deadlock", samples.len());
    Refusal::new(Class::Unsupported, "", why)
}

fn middle(samples: &[f64], relative: f64) -> Result<Estimate, Refusal> {
    let mut sums = Sums::default();
    for sample in samples {
        if !sample.is_finite() {
            return Err(uncertain(samples));
        }
        sums.add(*sample);
    }
    // A way that always takes as long is one of fixed times.
    Ok(sums.estimate(false, relative, false))
}

/// The order statistics around `quantile`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "positions in a list of a few million"
)]
fn level(samples: &mut [f64], quantile: f64, relative: f64) -> Result<Estimate, Refusal> {
    let count = samples.len() as f64;
    let half = Z * (count * quantile * (1.0 - quantile)).sqrt();
    let (first, last) = (count * quantile - half, count * quantile + half);
    if first < 1.0 || last + 1.0 > count {
        return Ok(Estimate::unknown());
    }
    samples.sort_unstable_by(f64::total_cmp);
    let at = |position: f64| samples[position as usize];
    let (low, mean, high) = (at(first.floor() - 1.0), at((count * quantile).floor()), at(last.floor()));
    if !high.is_finite() {
        return Err(uncertain(samples));
    }
    let half_width = (high - low) / 2.0;
    let reached = if high > low { half_width <= relative * mean } else { count >= CONSTANT };
    Ok(Estimate { mean, half_width, low, high, samples: samples.len() as u64, reached })
}
