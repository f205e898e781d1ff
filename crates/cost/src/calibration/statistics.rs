//! What timings say.
#![expect(clippy::cast_precision_loss, reason = "counts of timings, bytes of messages")]

use super::{Law, Sample, Step};

/// Of Student's distribution with 1 to 6 degrees of freedom: 95 % lie between it and its negative.
const FEW: [f64; 6] = [12.706_205, 4.302_653, 3.182_446, 2.776_445, 2.570_582, 2.446_912];

/// Of Student's distribution with so many degrees of freedom, at least 1: 95 % lie between it and its negative. From 7 on by the
/// expansion of Cornish and Fisher, right to 1e-3.
#[must_use]
pub fn student(freedom: u64) -> f64 {
    let few = usize::try_from(freedom.max(1) - 1).ok().and_then(|index| FEW.get(index));
    if let Some(few) = few {
        return *few;
    }
    let (z, freedom) = (1.959_963_984_540_054_f64, freedom as f64);
    let (z3, z5, z7) = (z.powi(3), z.powi(5), z.powi(7));
    z + (z3 + z) / (4.0 * freedom)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * freedom.powi(2))
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * freedom.powi(3))
}

/// What timings say. `None` for none, or one that is no finite number from 0.
#[must_use]
pub fn summary(timings: &[f64]) -> Option<Sample> {
    if timings.is_empty() || timings.iter().any(|timing| !timing.is_finite() || *timing < 0.0) {
        return None;
    }
    let mut sorted = timings.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let mean = sorted.iter().sum::<f64>() / count as f64;
    let squares: f64 = sorted.iter().map(|timing| (timing - mean).powi(2)).sum();
    let sd = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
    // The smallest that so many of a hundred do not exceed.
    let up_to = |percent: usize| (count * percent).div_ceil(100).max(1);
    let quantile = |percent: usize| sorted.get(up_to(percent) - 1).copied();
    let shortest = sorted.get(..up_to(99))?;
    Some(Sample {
        n: count as u64,
        mean,
        sd,
        min: *sorted.first()?,
        p50: quantile(50)?,
        p95: quantile(95)?,
        p99: quantile(99)?,
        max: *sorted.last()?,
        below_p99: Some(shortest.iter().sum::<f64>() / shortest.len() as f64),
    })
}

/// The line through the processor times of one operation at several sizes: least squares of the relative distances, so that small
/// messages count as much as large ones; neither part is below 0. `None` for less than two sizes, or a step without time.
#[must_use]
pub fn fit(steps: &[&Step]) -> Option<Law> {
    let first = steps.first()?;
    let (from, to) = (steps.iter().map(|step| step.bytes).min()?, steps.iter().map(|step| step.bytes).max()?);
    if from == to || steps.iter().any(|step| step.cpu.mean <= 0.0) {
        return None;
    }
    let points: Vec<(f64, f64)> = steps.iter().map(|step| (step.bytes as f64, step.cpu.mean)).collect();
    let (fixed, per_byte) = line(&points);
    let residual = points.iter().map(|(at, mean)| (per_byte.mul_add(*at, fixed) - mean).abs() / mean);
    Some(Law {
        operation: first.operation.clone(),
        algorithm: first.algorithm.clone(),
        fixed,
        per_byte,
        residual: residual.fold(0.0, f64::max),
        from,
        to,
    })
}

/// `fixed` and `per_byte` that minimise the sum of `((fixed + per_byte at - mean) / mean)^2`, neither below 0.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let sum = |of: fn(f64, f64) -> f64| points.iter().map(|(at, mean)| of(*at, *mean)).sum::<f64>();
    let ones = sum(|_, mean| 1.0 / (mean * mean));
    let ats = sum(|at, mean| at / (mean * mean));
    let squares = sum(|at, mean| at * at / (mean * mean));
    let (means, products) = (sum(|_, mean| 1.0 / mean), sum(|at, mean| at / mean));
    let determinant = ones * squares - ats * ats;
    let per_byte = (ones * products - ats * means) / determinant;
    let fixed = (squares * means - ats * products) / determinant;
    if per_byte < 0.0 {
        (means / ones, 0.0)
    } else if fixed < 0.0 {
        (0.0, products / squares)
    } else {
        (fixed, per_byte)
    }
}
