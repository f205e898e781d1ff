//! What the twin knows as a calibration, and back: each stage is a step `stage PLACE`, a timing is the mean of a batch.

use std::ops::RangeInclusive;

use super::Twin;
use super::detect::Reference;
use super::moving::Estimate;
use super::reading::{Place, What};
use super::stage::{Known, Stage};
use crate::calibration::{Calibration, MAX_STEPS, MAX_WORD, Sample, Step, Unit};
use crate::{Class, Fault};

/// Means that a stage may have, seconds: from less than a processor's clock to more than a week.
const PLAUSIBLE: RangeInclusive<f64> = 1e-12..=1e6;

/// A deviation is that of a spread unless it is as much as lies between the least and the most, up to rounding.
const AS_WIDE: f64 = 1.0 - 1e-9;

/// What steps of the twin are called.
pub const OPERATION: &str = "stage";

/// Whether every step of the twin in a calibration is the reference of a stage.
///
/// # Errors
/// The first one that is not: [`Class::NoSuchName`], [`Class::Invalid`].
pub fn check(calibration: &Calibration) -> Result<(), Fault> {
    for (index, step) in calibration.steps.iter().enumerate().filter(|(_, step)| step.operation == OPERATION) {
        let fault =
            |class, why: String| Fault::new(class, format!("steps[{index}]"), format!("`{}` {why}", step.name()));
        let place = Place::of(&step.algorithm).filter(|place| place.to_string() == step.algorithm);
        if place.is_none() {
            let words = What::ALL.map(What::word).join(", ");
            let why =
                format!("is no stage: a name is a listener and one of {words}; ledger_write and issue are of none");
            return Err(fault(Class::NoSuchName, why));
        }
        if step.bytes != 0 || step.bits.is_some() {
            return Err(fault(
                Class::Invalid,
                "has a size, and a stage has none: `bytes` is 0, and no `bits`".to_owned(),
            ));
        }
        if known(step).is_none_or(|(_, known)| !PLAUSIBLE.contains(&known.estimate.mean)) {
            let Sample { n, mean, .. } = step.wall;
            let why = format!(
                "has {n} batches with a mean of {mean:e} s: a reference has three at least, and a mean from {:e} to {:e} s",
                PLAUSIBLE.start(),
                PLAUSIBLE.end()
            );
            return Err(fault(Class::Invalid, why));
        }
    }
    Ok(())
}

/// The reference that a step says, if it is one of a stage.
pub(super) fn known(step: &Step) -> Option<(Place, Known)> {
    if step.operation != OPERATION {
        return None;
    }
    let place = Place::of(&step.algorithm)?;
    let Sample { n, mean, sd, min, p50, max, .. } = step.wall;
    #[expect(clippy::cast_precision_loss, reason = "counts")]
    let (batches, uses) = (n as f64, step.batch as f64);
    let mut reference = Reference::recorded(mean, sd, usize::try_from(n).ok()?, uses)?;
    if sd >= (max - min) * AS_WIDE {
        reference = reference.between(p50, min, max);
    }
    let half = (step.wall.half_width() / mean).min(2.0);
    let estimate = Estimate {
        mean,
        interval: Some((mean * (-half).exp(), mean * half.exp())),
        // Of single times more is not known than that their means spread so.
        variation: ((sd / mean).powi(2) * uses).clamp(0.01, 100.0),
        uses: batches * uses,
        batches,
    };
    Some((place, Known { reference, estimate, range: (min, max), single: false }))
}

fn step(place: &Place, stage: &Stage) -> Option<Step> {
    let Known { reference, estimate, range, .. } = stage.worth_keeping()?;
    let centre = reference.centre.exp();
    // Of a logarithm that is normal; of two values far from each other that is more than lies between them.
    let sd = estimate.mean * (reference.spread.powi(2).exp() - 1.0).sqrt();
    let sd = sd.min(range.1 - range.0);
    let mean = estimate.mean.clamp(range.0, range.1);
    let centre = centre.clamp(range.0, range.1);
    let at = |z: f64| (centre * (z * reference.spread).exp()).clamp(centre, range.1);
    let wall = Sample {
        n: reference.batches as u64,
        mean,
        sd,
        min: range.0,
        p50: centre,
        p95: at(1.645),
        p99: at(2.326),
        max: range.1,
        below_p99: None,
    };
    let nothing =
        Sample { n: wall.n, mean: 0.0, sd: 0.0, min: 0.0, p50: 0.0, p95: 0.0, p99: 0.0, max: 0.0, below_p99: None };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 1")]
    let batch = reference.uses.round().max(1.0) as u64;
    Some(Step {
        operation: OPERATION.to_owned(),
        algorithm: place.to_string(),
        bits: None,
        bytes: 0,
        unit: Unit::Seconds,
        batch,
        left_out: 0,
        // Latencies of a program that runs: what its processors did meanwhile, they do not say.
        cpu: nothing,
        moments: Vec::new(),
        wall,
    })
}

impl Twin {
    /// The names of the stages that [`Self::record`] puts into a calibration.
    pub fn recorded(&self) -> impl Iterator<Item = String> {
        self.stages().filter_map(|(place, stage)| Some(step(place, stage)?.algorithm))
    }

    /// Puts the references into a calibration, each in the place of the one that was there. Names that are too long for one are left
    /// out; so is what does not fit.
    pub fn record(&self, into: &mut Calibration) {
        for (place, stage) in self.stages() {
            let Some(step) = step(place, stage).filter(|step| step.algorithm.len() <= MAX_WORD) else { continue };
            let there = into.steps.iter().position(|known| known.name() == step.name() && known.bytes == 0);
            match there {
                Some(index) => into.steps[index] = step,
                None if into.steps.len() < MAX_STEPS => into.steps.push(step),
                None => {}
            }
        }
    }
}
