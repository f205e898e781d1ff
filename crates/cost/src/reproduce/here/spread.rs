//! How the times of a step are spread.

use crate::calibration::Sample;

/// Shares of all times at which [`Sample`] says how long they are.
const SHARES: [f64; 4] = [0.0, 0.5, 0.95, 0.99];

/// Straight lines between the measured quantiles, and behind the last of them a tail that ends at the longest time and keeps the measured
/// mean: a step that once in a thousand times takes a hundred times as long is not one that does so a little in each hundred.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spread {
    /// At [`SHARES`].
    at: [f64; 4],
    tail: Tail,
}

/// Beyond the last of the quantiles.
#[derive(Debug, Clone, Copy)]
struct Tail {
    /// The share of it from which on times are longer than that.
    from: f64,
    /// The first of the longer times, and the longest.
    least: f64,
    most: f64,
    /// How late they rise from one to the other: 1 is a straight line.
    bend: f64,
}

impl Tail {
    /// Of a sample whose times up to the last quantile have this part in the mean and in the mean of the squares.
    ///
    /// Many checkpoints that take about as long are a line between two times, so often that mean and variance are as measured. Where those
    /// say that few are as long as the longest, times rise as `u^bend` to that one.
    fn of(sample: &Sample, below: (f64, f64)) -> Self {
        let beyond = 1.0 - SHARES[3];
        let [last, longest] = [sample.p99, (sample.max - sample.p99).max(0.0)];
        // By how much times of the tail are longer than the last quantile: mean, and mean of the squares.
        let mean = (sample.mean - below.0) / beyond - last;
        if mean <= 0.0 || longest <= 0.0 {
            return Self { from: 0.0, least: last, most: last + 2.0 * mean.max(0.0), bend: 1.0 };
        }
        #[expect(clippy::cast_precision_loss, reason = "a number of timings")]
        let variance = sample.sd.powi(2) * (1.0 - 1.0 / sample.n.max(1) as f64);
        let squares = (variance + sample.mean.powi(2) - below.1) / beyond - last * (2.0 * mean + last);
        // From `least` to the longest: 2 (l² + l m + m²) / 3 (l + m) is the one over the other.
        let ratio = (squares / mean).min(longest);
        let room = (3.0 * ratio - 2.0 * longest).powi(2) - 8.0 * longest * (2.0 * longest - 3.0 * ratio);
        let least = (3.0 * ratio - 2.0 * longest + room.max(0.0).sqrt()) / 4.0;
        let share = 2.0 * mean / (least + longest);
        if 3.0 * ratio >= 2.0 * longest && share < 1.0 {
            return Self { from: 1.0 - share, least: last + least, most: last + longest, bend: 1.0 };
        }
        let bend = (longest / mean - 1.0).max(1.0);
        Self { from: 0.0, least: last, most: last + mean * (bend + 1.0), bend }
    }

    fn mean(&self, last: f64) -> f64 {
        self.from * last + (1.0 - self.from) * (self.least + (self.most - self.least) / (self.bend + 1.0))
    }

    fn time(&self, last: f64, share: f64) -> f64 {
        if share < self.from {
            return last;
        }
        self.least + (self.most - self.least) * ((share - self.from) / (1.0 - self.from)).powf(self.bend)
    }
}

/// Parts of all times that are told apart where they are summed up.
const PARTS: u32 = 2_000;

impl Spread {
    /// The times of a sample, made longer or shorter so that they take `mean`.
    pub(super) fn of(sample: &Sample, mean: f64) -> Self {
        let at = quantiles(sample);
        let below = SHARES[3] * body(sample);
        let square = |next: usize| at[next - 1].powi(2) + at[next - 1] * at[next] + at[next].powi(2);
        let squares: f64 = (1..4).map(|next| (SHARES[next] - SHARES[next - 1]) * square(next) / 3.0).sum();
        let tail = Tail::of(sample, (below, squares));
        let all = below + (1.0 - SHARES[3]) * tail.mean(at[3]);
        let factor = if all > 0.0 { mean / all } else { 0.0 };
        Self { at, tail }.each(|time| time * factor)
    }

    /// The same with so many seconds more each time; none takes less than no time.
    pub(super) fn longer(&self, seconds: f64) -> Self {
        self.each(|time| (time + seconds).max(0.0))
    }

    fn each(&self, change: impl Fn(f64) -> f64) -> Self {
        let tail = Tail { least: change(self.tail.least), most: change(self.tail.most), ..self.tail };
        Self { at: self.at.map(change), tail }
    }

    /// Seconds that a share of all, 0 to 1, does not exceed.
    pub(super) fn time(&self, share: f64) -> f64 {
        let Some(next) = (1..4).find(|next| share < SHARES[*next]) else {
            return self.tail.time(self.at[3], (share - SHARES[3]) / (1.0 - SHARES[3]));
        };
        let (from, low, to, high) = (SHARES[next - 1], self.at[next - 1], SHARES[next], self.at[next]);
        low + (high - low) * (share - from) / (to - from)
    }

    /// The part of all seconds that times have which are at most so long.
    pub(super) fn part_up_to(&self, longest: f64) -> f64 {
        let (mut all, mut part) = (0.0, 0.0);
        for nth in 0..PARTS {
            let time = self.time((f64::from(nth) + 0.5) / f64::from(PARTS));
            all += time;
            part += if time <= longest { time } else { 0.0 };
        }
        if all > 0.0 { part / all } else { 0.0 }
    }
}

/// The mean of a sample without its longest times: of those that 99 of 100 do not exceed.
pub(super) fn body(sample: &Sample) -> f64 {
    sample.below_p99.unwrap_or_else(|| mean_up_to(measured(sample)))
}

const fn measured(sample: &Sample) -> [f64; 4] {
    [sample.min, sample.p50, sample.p95, sample.p99]
}

/// The mean of the lines between times at [`SHARES`].
fn mean_up_to(at: [f64; 4]) -> f64 {
    let part = |next: usize| (SHARES[next] - SHARES[next - 1]) * f64::midpoint(at[next], at[next - 1]);
    (1..4).map(part).sum::<f64>() / SHARES[3]
}

/// The times at [`SHARES`], the lower two made shorter so that the lines between them have the mean that was measured: where one
/// insert in two is long, they lie above all short ones, and what they have too much the tail would lack. Where they have too little, the least is
/// longer, for hardly one took as little as that; or both are. Where all that is too much, all four are longer or shorter.
fn quantiles(sample: &Sample) -> [f64; 4] {
    let at = measured(sample);
    let [least, middle, high, last] = at;
    let (mean, low, upper) = (body(sample), mean_up_to([least, middle, 0.0, 0.0]), mean_up_to([0.0, 0.0, high, last]));
    let factor = (mean - upper) / low;
    let longer = least + 2.0 * SHARES[3] * (mean - low - upper) / SHARES[1];
    if factor > 1.0 && longer <= middle {
        return [longer, middle, high, last];
    }
    if factor >= 0.0 && factor * middle <= high {
        return [factor * least, factor * middle, high, last];
    }
    let factor = mean / (low + upper);
    if factor.is_finite() { at.map(|time| factor * time) } else { at }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::summary;

    fn mean(spread: &Spread) -> f64 {
        (0..2_000_000).map(|nth| spread.time((f64::from(nth) + 0.5) / 2e6)).sum::<f64>() / 2e6
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

    /// Checkpoints: one insert in two hundred takes about 900.
    #[test]
    fn long_times_that_are_alike_are_a_plateau_as_wide_as_they_are_many() {
        let long = |nth: u32| 800.0 + f64::from(nth % 1_000) / 5.0;
        let times: Vec<f64> =
            (0..20_000).map(|nth| if nth % 200 == 0 { long(nth) } else { 14.0 + f64::from(nth % 20) / 10.0 }).collect();
        let sample = summary(&times).unwrap();
        let spread = Spread::of(&sample, sample.mean);
        assert!((mean(&spread) / sample.mean - 1.0).abs() < 2e-3, "{} {}", mean(&spread), sample.mean);
        let shares: Vec<f64> = (0..100_000).map(|nth| spread.time((f64::from(nth) + 0.5) / 1e5)).collect();
        let square = shares.iter().map(|time| (time - sample.mean).powi(2)).sum::<f64>() / 1e5;
        assert!((square.sqrt() / sample.sd - 1.0).abs() < 0.01, "{} {}", square.sqrt(), sample.sd);
        let longer = shares.iter().filter(|time| **time > 500.0).count();
        assert!(longer.abs_diff(500) < 25, "{longer}");
        assert!(spread.time(0.9945) < 20.0 && spread.time(0.9955) > 700.0, "{spread:?}");
    }

    #[test]
    fn the_part_of_short_times_is_that_of_their_seconds() {
        let short = |nth: u32| 10.0 + f64::from(nth % 1_000) / 52.6;
        let times: Vec<f64> = (0..20_000).map(|nth| if nth % 200 == 7 { 800.0 } else { short(nth) }).collect();
        let sample = summary(&times).unwrap();
        let spread = Spread::of(&sample, sample.mean);
        let short = times.iter().filter(|time| **time < 100.0).sum::<f64>() / times.iter().sum::<f64>();
        assert!((spread.part_up_to(100.0) / short - 1.0).abs() < 0.02, "{} {short}", spread.part_up_to(100.0));
        assert!(spread.part_up_to(5.0) < 1e-9 && (spread.part_up_to(f64::INFINITY) - 1.0).abs() < 1e-9);
        let none = summary(&[0.0]).unwrap();
        assert!(Spread::of(&none, 0.0).part_up_to(1.0).abs() < 1e-9, "nothing interrupts");
    }

    /// More than one insert in two begins a page, and one in 490 meets a checkpoint.
    #[test]
    fn times_of_two_sizes_take_nothing_from_the_longest() {
        let usual = |nth: i32| if nth % 20 < 9 { 6.6 } else { 10.2 + f64::from(nth % 7) / 10.0 };
        let times: Vec<f64> = (0..9_800).map(|nth| if nth % 490 == 9 { 730.0 } else { usual(nth) }).collect();
        let sample = summary(&times).unwrap();
        let spread = Spread::of(&sample, sample.mean);
        let long = 20.0 * 730.0 / times.iter().sum::<f64>();
        let told = 1.0 - spread.part_up_to(100.0);
        assert!((told / long - 1.0).abs() < 0.02 && (mean(&spread) / sample.mean - 1.0).abs() < 1e-4, "{told} {long}");
        let lines = Spread::of(&crate::calibration::Sample { below_p99: None, ..sample }, sample.mean);
        assert!(lines.part_up_to(100.0) > spread.part_up_to(100.0), "as far as lines can tell");
    }

    /// One of a thousand took half as long as all others, so that the line from it to the middle lies far below them.
    #[test]
    fn a_rare_short_time_takes_nothing_from_the_others() {
        for longest in [15.0, 40.0] {
            let usual = |nth: u32| if nth % 500 == 3 { longest } else { 14.0 + f64::from(nth % 10) / 20.0 };
            let times: Vec<f64> = (0..2_000).map(|nth| if nth == 77 { 7.0 } else { usual(nth) }).collect();
            let sample = summary(&times).unwrap();
            let spread = Spread::of(&sample, sample.mean);
            assert!((mean(&spread) / sample.mean - 1.0).abs() < 1e-4, "{} {}", mean(&spread), sample.mean);
            assert!((spread.time(0.5) / sample.p50 - 1.0).abs() < 0.01 && spread.time(0.1) > 13.0, "{spread:?}");
        }
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
