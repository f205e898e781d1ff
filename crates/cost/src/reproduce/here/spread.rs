//! How the times of a step are spread.

use crate::calibration::Sample;

/// Shares of all times at which [`Sample`] says how long they are.
const SHARES: [f64; 4] = [0.0, 0.5, 0.95, 0.99];

/// Straight lines between the measured quantiles, and behind the last of them a tail that ends at the longest time and keeps the measured
/// mean, `a + (b - a) u^k` for `u` from 0 to 1: a step that once in a thousand times takes a hundred times as long is not one that does so
/// a little in each hundred.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spread {
    /// At [`SHARES`].
    at: [f64; 4],
    /// The longest.
    most: f64,
    /// How late the tail rises: 1 is a straight line.
    bend: f64,
}

impl Spread {
    /// The times of a sample, made longer or shorter so that they take `mean`.
    pub(super) fn of(sample: &Sample, mean: f64) -> Self {
        let at = [sample.min, sample.p50, sample.p95, sample.p99];
        let below = SHARES[3] * body(sample);
        let beyond = 1.0 - SHARES[3];
        // What the tail adds to the last quantile, in the mean and at most; a line where it would have to rise early.
        let (above, longest) = ((sample.mean - below) / beyond - at[3], sample.max - at[3]);
        let bend = if above > 0.0 { (longest / above - 1.0).max(1.0) } else { 1.0 };
        let most = at[3] + (above * (bend + 1.0)).max(0.0);
        let all = below + beyond * (at[3] + (most - at[3]) / (bend + 1.0));
        let factor = if all > 0.0 { mean / all } else { 0.0 };
        Self { at: at.map(|time| time * factor), most: most * factor, bend }
    }

    /// The same with so many seconds more each time; none takes less than no time.
    pub(super) fn longer(&self, seconds: f64) -> Self {
        let more = |time: f64| (time + seconds).max(0.0);
        Self { at: self.at.map(more), most: more(self.most), bend: self.bend }
    }

    /// Seconds that a share of all, 0 to 1, does not exceed.
    pub(super) fn time(&self, share: f64) -> f64 {
        let next = (1..4).find(|next| share < SHARES[*next]);
        let (from, low, to, high, bend) = match next {
            Some(next) => (SHARES[next - 1], self.at[next - 1], SHARES[next], self.at[next], 1.0),
            None => (SHARES[3], self.at[3], 1.0, self.most, self.bend),
        };
        low + (high - low) * ((share - from) / (to - from)).powf(bend)
    }
}

/// The mean of a sample without its longest times: of those that 99 of 100 do not exceed.
pub(super) fn body(sample: &Sample) -> f64 {
    let at = [sample.min, sample.p50, sample.p95, sample.p99];
    let part = |next: usize| (SHARES[next] - SHARES[next - 1]) * f64::midpoint(at[next], at[next - 1]);
    (1..4).map(part).sum::<f64>() / SHARES[3]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::summary;

    fn mean(spread: &Spread) -> f64 {
        (0..100_000).map(|nth| spread.time((f64::from(nth) + 0.5) / 1e5)).sum::<f64>() / 1e5
    }

    #[test]
    fn the_mean_is_kept_and_so_is_the_middle_whatever_the_tail() {
        let mut times = vec![10.0; 990];
        times.extend([12.0, 11.0, 13.0, 11.0, 12.0, 10.0, 14.0, 900.0, 700.0, 1_500.0]);
        let sample = summary(&times).unwrap();
        let spread = Spread::of(&sample, sample.mean);
        assert!((mean(&spread) / sample.mean - 1.0).abs() < 1e-4, "{} {}", mean(&spread), sample.mean);
        assert!((spread.time(0.5) - 10.0).abs() < 1e-9 && spread.time(1.0) > 100.0, "{spread:?}");
        let twice = Spread::of(&sample, 2.0 * sample.mean);
        assert!((mean(&twice) / sample.mean - 2.0).abs() < 1e-4);
    }

    #[test]
    fn a_rare_long_time_stays_rare_and_long() {
        // One in a thousand takes 4,000, the others about 15: in a hundred times of eight each, five see none of them.
        let times: Vec<f64> =
            (0..10_000).map(|nth| if nth % 1_000 == 0 { 4_000.0 } else { 14.0 + f64::from(nth % 20) / 10.0 }).collect();
        let sample = summary(&times).unwrap();
        let spread = Spread::of(&sample, sample.mean);
        assert!((mean(&spread) / sample.mean - 1.0).abs() < 1e-3, "{} {}", mean(&spread), sample.mean);
        assert!((spread.time(1.0) - 4_000.0).abs() < 1.0 && spread.time(0.995) < 60.0, "{spread:?}");
    }

    #[test]
    fn few_timings_without_a_tail_have_their_mean_too() {
        for times in [vec![5.0], vec![5.0, 5.0], vec![1.0, 9.0], vec![0.0, 0.0]] {
            let sample = summary(&times).unwrap();
            let spread = Spread::of(&sample, sample.mean);
            assert!((mean(&spread) - sample.mean).abs() < 1e-4 * (1.0 + sample.mean), "{times:?}: {spread:?}");
        }
    }
}
