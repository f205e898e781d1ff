//! What a stage takes now: an average that forgets, with an interval.

use serde::Serialize;

use super::reading::Sum;
use crate::calibration::student;

/// Some uses of a stage, one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Batch {
    /// When the first look at it was.
    pub(super) from: f64,
    /// When the last was.
    pub(super) to: f64,
    pub(super) sum: Sum,
}

impl Batch {
    /// The logarithm of its mean time. A clock that has not moved on gives no time below a picosecond.
    pub(super) fn logarithm(&self) -> f64 {
        (self.sum.seconds / self.sum.count).max(1e-12).ln()
    }
}

/// A mean time with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// Seconds, mean over uses.
    pub mean: f64,
    /// The interval, where there is enough to say one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    /// The squared coefficient of variation of single times, as far as buckets tell.
    pub variation: f64,
    /// Uses that it is made of, those that are half forgotten as halves.
    pub uses: f64,
    /// Batches that it is made of, in the same way.
    pub batches: f64,
}

/// An average over batches, of which those of a half-life ago count half.
#[derive(Debug, Clone, Default)]
pub(super) struct Moving {
    at: f64,
    sum: Sum,
    weight: f64,
    /// The sum of squared weights.
    weights: f64,
    /// Weighed sums of logarithms, their squares, and products of neighbours.
    x: f64,
    xx: f64,
    xy: f64,
    last: Option<f64>,
}

impl Moving {
    /// One more batch; without a half-life nothing is forgotten.
    pub(super) fn take(&mut self, batch: &Batch, half_life: f64) {
        let fade = (-(batch.to - self.at).max(0.0) / half_life).exp2();
        let fade = if self.weight > 0.0 { fade } else { 0.0 };
        self.sum.fade(fade);
        self.weight *= fade;
        self.weights *= fade * fade;
        self.x *= fade;
        self.xx *= fade;
        self.xy *= fade;
        let x = batch.logarithm();
        self.at = batch.to;
        self.sum.add(batch.sum);
        self.weight += 1.0;
        self.weights += 1.0;
        self.x += x;
        self.xx += x * x;
        self.xy += x * self.last.unwrap_or(x);
        self.last = Some(x);
    }

    pub(super) fn estimate(&self) -> Option<Estimate> {
        if self.sum.count <= 0.0 {
            return None;
        }
        let mean = self.sum.seconds / self.sum.count;
        let batches = self.weight * self.weight / self.weights;
        let centre = self.x / self.weight;
        let variance = (self.xx / self.weight - centre * centre).max(0.0);
        let interval = (batches >= 3.0).then(|| {
            // Batches that follow each other have something in common: as if there were fewer of them.
            let common = if variance > 0.0 { (self.xy / self.weight - centre * centre) / variance } else { 0.0 };
            // Of few batches nothing is known about that.
            let common = (common + 1.0 / batches).clamp(0.0, 0.8 * (batches / 30.0).min(1.0));
            let fewer = batches * (1.0 - common) / (1.0 + common);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 1, and small")]
            let freedom = (fewer - 1.0).clamp(1.0, 1e6) as u64;
            let half = student(freedom) * (variance * batches / (batches - 1.0) / fewer.max(1.0)).sqrt();
            (mean * (-half).exp(), mean * half.exp())
        });
        Some(Estimate { mean, interval, variation: self.sum.variation(), uses: self.sum.count, batches })
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    fn batch(at: f64, mean: f64) -> Batch {
        let sum = Sum { count: 10.0, seconds: 10.0 * mean, squares: 20.0 * mean * mean };
        Batch { from: at, to: at + 1.0, sum }
    }

    /// How often the interval holds the truth, of runs whose batches keep `common` of the one before.
    fn coverage(common: f64, half_life: f64) -> f64 {
        let held = (1..=400).filter(|seed| {
            let mut random = Random::new(*seed);
            let (mut moving, mut state) = (Moving::default(), 0.0);
            for at in 0..120 {
                // Twelve evenly spread numbers are nearly normal.
                let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
                state = common * state + (1.0_f64 - common * common).sqrt() * normal;
                // Small, so that the mean of logarithms is the logarithm of the mean.
                moving.take(&batch(f64::from(at), (0.05 * state).exp()), half_life);
            }
            let (low, high) = moving.estimate().unwrap().interval.unwrap();
            let truth = (0.05_f64 * 0.05 / 2.0).exp();
            low <= truth && truth <= high
        });
        #[expect(clippy::cast_precision_loss, reason = "runs")]
        let share = held.count() as f64 / 400.0;
        share
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_truth_also_when_batches_are_alike() {
        for (common, half_life) in [(0.0, f64::INFINITY), (0.5, f64::INFINITY), (0.0, 20.0), (0.5, 30.0)] {
            let share = coverage(common, half_life);
            assert!((0.90..=0.995).contains(&share), "{common} {half_life}: {share}");
        }
    }

    #[test]
    fn what_is_long_ago_is_forgotten_and_few_batches_have_no_interval() {
        let mut moving = Moving::default();
        assert_eq!(moving.estimate(), None);
        moving.take(&batch(0.0, 1.0), 10.0);
        let first = moving.estimate().unwrap();
        assert_eq!((first.mean, first.interval, first.uses), (1.0, None, 10.0));
        assert!((first.variation - 1.0).abs() < 1e-12);
        for at in 0..100 {
            moving.take(&batch(f64::from(at), 3.0), 10.0);
        }
        let last = moving.estimate().unwrap();
        assert!((last.mean - 3.0).abs() < 0.01, "{last:?}");
        assert!((10.0..40.0).contains(&last.batches), "{last:?}");
    }
}
