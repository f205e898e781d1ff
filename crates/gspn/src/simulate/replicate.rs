//! What is asked about a time, or about the way to a marking: many runs from the start, each one sample.

use super::figures::{Z, power, student, wilson};
use super::machine::{Machine, Watch};
use super::model::Model;
use super::single::{Single, Truth};
use super::{Estimate, Meter};
use crate::ask::{Ask, Condition};
use crate::{Class, Refusal};

/// Runs before the first look.
const FIRST: u64 = 1_000;
/// Runs after which a value that never differed is not looked at any longer: it is constant, or changes too rarely to be seen.
const CONSTANT: f64 = 100_000.0;
/// Samples of a passage that are kept for a quantile.
const KEPT: usize = 4_000_000;
/// How many runs there must be for each one that the kurtosis is above 1, so that the deviation that they show is known to a quarter of its square:
/// of a few rare runs that carry most of it so many must have come.
const EVEN: f64 = 16.0;

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
    /// The largest distance from the mean so far, as a power of two; 0 as long as there was none: all powers are of distances in this unit.
    unit: f64,
    spread: f64,
    third: f64,
    fourth: f64,
}

impl Sums {
    fn add(&mut self, sample: f64) {
        self.count += 1.0;
        let off = sample - self.mean;
        if off != 0.0 && power(off.abs()) > self.unit {
            self.measure_in(power(off.abs()));
        }
        if self.unit > 0.0 {
            self.higher(off / self.unit);
        }
        self.mean += off / self.count;
        if self.unit > 0.0 {
            self.spread += off / self.unit * ((sample - self.mean) / self.unit);
        }
    }

    /// The sums in a larger unit.
    fn measure_in(&mut self, unit: f64) {
        let part = self.unit / unit;
        self.spread *= part.powi(2);
        self.third *= part.powi(3);
        self.fourth *= part.powi(4);
        self.unit = unit;
    }

    /// Sums of third and fourth powers around the mean, one sample at a time (Terriberry); the second is still that of the samples before.
    fn higher(&mut self, off: f64) {
        let count = self.count;
        let (part, second) = (off / count, self.spread);
        let term = off * part * (count - 1.0);
        self.fourth += term * part * part * (count * count - 3.0 * count + 3.0) + 6.0 * part * part * second
            - 4.0 * part * self.third;
        self.third += term * part * (count - 2.0) - 3.0 * part * second;
    }

    /// Whether there are so many samples that their spread is known.
    fn even(&self) -> bool {
        self.count >= EVEN * (self.count * self.fourth / (self.spread * self.spread) - 1.0)
    }

    /// Whether no run differed from the others, and there were enough.
    fn same(&self) -> bool {
        self.spread == 0.0 && self.count >= CONSTANT
    }

    /// Of a value that never differs without chance, and of which so much is known.
    fn estimate(self, share: bool, relative: f64, chance: bool, truth: Option<&Truth>) -> Estimate {
        let Self { count, mean, unit, spread, .. } = self;
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
        let half = student(count - 1.0) * (spread / (count - 1.0) / count).sqrt() * unit;
        // Those that are there may differ by less than runs do; where none does, nothing is said.
        let deviation = truth.and_then(|truth| truth.deviation).filter(|_| !self.same());
        let half = deviation.map_or(half, |deviation| half.max(Z * deviation / count.sqrt()));
        let sure = if half > 0.0 {
            half <= relative * mean.abs() && (deviation.is_some() || self.even())
        } else {
            self.same() && !chance
        };
        Estimate::around(mean, half, samples, sure)
    }
}

/// Measures at the times of `asks`, which do not fall; one estimate each.
pub(super) fn at(
    (single, asks): (&mut Single<'_>, &[Ask]),
    model: &Model,
    watch: &Watch,
    seed: u64,
    asked: &[(f64, Measure)],
    relative: f64,
    meter: &mut Meter<'_, '_>,
) -> Result<Vec<Result<Estimate, Refusal>>, Refusal> {
    let mut sums = vec![Sums::default(); asked.len()];
    let mut known: Vec<Option<Truth>> = Vec::new();
    let mut machine = Machine::new(model, watch, seed, 0)?;
    let (mut run, mut wanted) = (0, FIRST);
    loop {
        let mut samples = Vec::with_capacity(asked.len());
        for (time, measure) in asked {
            while !machine.run(*time, meter.slice())? {
                if !meter.look(&mut machine) {
                    return Ok(said(&estimates(&sums, asked, 0.0, model.chance() || machine.drawn, &known), &known));
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
            if known.is_empty() && goes_on {
                let times: Vec<f64> = asked.iter().map(|(time, _)| *time).collect();
                let measure = |question: usize, marking: &[u64]| match asked[question].1 {
                    Measure::Level { index, .. } => watch.level(index).now(marking),
                    Measure::Rate(transition) => model.rate(transition, marking),
                };
                known = single.at(asks, &times, measure, meter);
            }
            let estimates = estimates(&sums, asked, relative, model.chance() || machine.drawn, &known);
            let enough = |(index, sums): (usize, &Sums)| {
                let truth = known.get(index).and_then(Option::as_ref);
                let estimate = &estimates[index];
                let right = estimate.reached && truth.is_none_or(|truth| truth.against(estimate).is_none());
                // Runs that have all been the same are waited for only where it is known that they will not be.
                let hopeful = truth.is_some_and(|truth| truth.differs_within(meter.most, relative));
                right || sums.same() && (share(asked[index].1) || !hopeful)
            };
            if !goes_on || sums.iter().enumerate().all(enough) {
                return Ok(said(&estimates, &known));
            }
            wanted += wanted / 2;
        }
        machine.restart(seed, run)?;
    }
}

fn share(measure: Measure) -> bool {
    matches!(measure, Measure::Level { share: true, .. })
}

fn estimates(
    sums: &[Sums],
    asked: &[(f64, Measure)],
    relative: f64,
    chance: bool,
    known: &[Option<Truth>],
) -> Vec<Estimate> {
    let estimate = |(index, sums): (usize, &Sums)| {
        let share = share(asked[index].1);
        sums.estimate(share, relative, chance, known.get(index).and_then(Option::as_ref))
    };
    sums.iter().enumerate().map(estimate).collect()
}

/// Each estimate, or why what is known is against it.
fn said(estimates: &[Estimate], known: &[Option<Truth>]) -> Vec<Result<Estimate, Refusal>> {
    let each = estimates.iter().enumerate();
    each.map(|(index, estimate)| {
        let truth = known.get(index).and_then(Option::as_ref);
        // Where all runs are the same that is said.
        let truth = truth.filter(|_| estimate.reached || estimate.half_width > 0.0);
        truth.and_then(|truth| truth.against(estimate)).map_or(Ok(*estimate), Err)
    })
    .collect()
}

/// The time until level `goal`, a condition, holds: the mean, or the time by which it has with probability `quantile`.
#[expect(clippy::cast_precision_loss, reason = "a count of runs")]
pub(super) fn passage(
    (single, ask, condition): (&mut Single<'_>, &Ask, &Condition),
    model: &Model,
    watch: &Watch,
    seed: u64,
    (goal, quantile): (usize, Option<f64>),
    relative: f64,
    meter: &mut Meter<'_, '_>,
) -> Result<Estimate, Refusal> {
    let mut samples: Vec<f64> = Vec::new();
    let (mut sums, mut lost, mut known) = (Sums::default(), 0, None::<Option<Truth>>);
    let mut machine = Machine::new(model, watch, seed, 0)?;
    let (mut run, mut wanted) = (0, FIRST);
    loop {
        let mut goes_on = true;
        while machine.level(goal) == 0.0 && machine.next() < f64::INFINITY && goes_on {
            machine.step()?;
            goes_on = !machine.is_due(meter.slice()) || meter.look(&mut machine);
        }
        let there = machine.level(goal) != 0.0;
        let cut = (!goes_on && !there).then_some(machine.now);
        match (cut, quantile) {
            (None, None) if there => sums.add(machine.now),
            (None, None) => lost += 1,
            // It comes later than all that came.
            (_, Some(_)) => samples.push(if there { machine.now } else { f64::INFINITY }),
            (Some(_), None) => {}
        }
        run += 1;
        goes_on = goes_on && meter.look(&mut machine) && samples.len() < KEPT;
        if run >= wanted || !goes_on {
            if quantile.is_none() && lost > 0 {
                return Err(uncertain(run - lost - u64::from(cut.is_some()), run - u64::from(cut.is_some())));
            }
            if known.is_none() && goes_on {
                known = Some(match quantile {
                    None => single.passage(ask, condition, meter)?,
                    Some(_) => single.value(ask, meter),
                });
            }
            let truth = known.flatten();
            let found = match quantile {
                // A way that always takes as long is one of fixed times.
                None => sums.estimate(false, relative, false, truth.as_ref()),
                Some(quantile) => level(&mut samples.clone(), quantile, relative)
                    .map_err(|refusal| if cut.is_some() { unended() } else { refusal })?,
            };
            // The run that the limit met is a long one: without it, the mean is that of the short ones.
            if let (Some(so_far), None) = (cut, quantile)
                && found.mean + (so_far - found.mean) / (found.samples + 1) as f64 > found.high
            {
                return Err(unended());
            }
            let against = truth.and_then(|truth| truth.against(&found));
            if !goes_on || found.reached && against.is_none() {
                return against.map_or(Ok(found), Err);
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

fn uncertain(reached: u64, runs: u64) -> Refusal {
    let why = format!("it was reached in {reached} of {runs} runs only; the others ended in a deadlock");
    Refusal::new(Class::Unsupported, "", why)
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
        let reached = samples.iter().filter(|sample| sample.is_finite()).count();
        return Err(uncertain(reached as u64, samples.len() as u64));
    }
    let half_width = (high - low) / 2.0;
    let reached = if high > low { half_width <= relative * mean } else { count >= CONSTANT };
    Ok(Estimate { mean, half_width, low, high, samples: samples.len() as u64, reached })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::random::Stream;

    /// Squares of the samples would be less, or more, than a number can say.
    #[test]
    fn sums_of_very_small_and_very_large_samples_are_as_those_of_others() {
        let of = |scale: f64| {
            let (mut stream, mut sums) = (Stream::new(1, 1, 1), Sums::default());
            (0..2_000).for_each(|_| sums.add(stream.exponential() * scale));
            (sums.estimate(false, 0.1, true, None), sums.even(), sums.same())
        };
        let (wanted, even, same) = of(1.0);
        assert!(wanted.reached && even && !same && wanted.half_width > 0.0);
        for scale in [2.0_f64.powi(-600), 2.0_f64.powi(600)] {
            let (found, even, same) = of(scale);
            assert_eq!((found.mean / scale, found.half_width / scale), (wanted.mean, wanted.half_width), "{scale}");
            assert!(found.reached && even && !same, "{scale}");
        }
        // What is much larger than all before it does not lose them.
        let mut sums = Sums::default();
        [1e-200, 2e-200, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1e-200].into_iter().for_each(|sample| sums.add(sample));
        let found = sums.estimate(false, 0.1, true, None);
        assert!((found.mean - 21.0 / 9.0).abs() < 1e-12 && (found.half_width - 1.761).abs() < 0.002, "{found:?}");
    }
}
