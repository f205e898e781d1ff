//! Timings, each with when it was taken.

use super::Quiet;
use crate::clock;

/// A timing below so many nanoseconds is short: it lies between two looks, or has one in it.
pub(super) const SHORT: u64 = super::PERIOD / 2;
/// Quiet timings that are enough.
const ENOUGH: usize = 16;
/// Long timings that are enough, and the part of them that counts where fewer were quiet from beginning to end.
const FEW: usize = 6;
const OF_LONG: usize = 4;

/// Timings in the order in which they were taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    spans: Vec<(u64, u64)>,
    values: Vec<f64>,
}

impl Samples {
    /// One of so many seconds that has just ended.
    pub fn push(&mut self, seconds: f64) {
        self.until(clock::monotonic(), seconds);
    }

    /// One of so many seconds that ended then, in nanoseconds of the monotonic clock.
    pub fn until(&mut self, end: u64, seconds: f64) {
        // A time on the clock is below the clock's.
        self.add((end.saturating_sub((seconds.max(0.0) * 1e9) as u64), end), seconds);
    }

    /// A value that is of this span, in nanoseconds of the monotonic clock.
    pub fn add(&mut self, span: (u64, u64), value: f64) {
        self.spans.push(span);
        self.values.push(value);
    }

    /// How many.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Without the first ones.
    pub fn skip(&mut self, count: usize) {
        self.spans.drain(..count.min(self.len()));
        self.values.drain(..count.min(self.len()));
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[f64] {
        &self.values
    }

    /// Those that count: see [`counting`].
    #[must_use]
    pub fn counting(&self, quiet: Option<&Quiet>) -> Vec<f64> {
        let Some(quiet) = quiet else { return self.values.clone() };
        counting(&self.spans, quiet).into_iter().map(|place| self.values[place]).collect()
    }
}

/// Places of the timings that count, of which these are the spans: the short ones that were quiet, where there are enough, again and again until they
/// are as many as all short ones, and all long ones, which meet somebody more easily: what takes long would be too rare. Where most are long,
/// those that were quiet from beginning to end, or where these are too few the quietest quarter. All where too few were quiet.
#[must_use]
pub fn counting(spans: &[(u64, u64)], quiet: &Quiet) -> Vec<usize> {
    let (short, mut long): (Vec<usize>, Vec<usize>) =
        (0..spans.len()).partition(|place| spans[*place].1 - spans[*place].0 < SHORT);
    let share = |place: &usize| quiet.share(spans[*place]);
    if short.len() < long.len() {
        long.sort_by(|one, other| share(other).total_cmp(&share(one)));
        let whole = long.iter().take_while(|place| share(place) >= 1.0).count();
        long.truncate(if whole >= FEW { whole } else { long.len().div_ceil(OF_LONG).max(FEW) });
        return long;
    }
    let kept: Vec<usize> = short.iter().copied().filter(|place| share(place) >= 1.0).collect();
    if kept.len() < ENOUGH {
        return (0..spans.len()).collect();
    }
    kept.iter().copied().cycle().take(short.len()).chain(long).collect()
}

#[cfg(test)]
mod tests {
    use super::super::PERIOD;
    use super::super::tests::looks;
    use super::*;

    /// Nanoseconds of the clock at a look.
    fn at(tick: u64) -> u64 {
        PERIOD * (100 + tick) + 20_000
    }

    #[test]
    fn short_ones_count_where_it_was_quiet_and_long_ones_do_not_become_rarer() {
        // Of thirty milliseconds, eleven are quiet.
        let quiet = Quiet::of(&[looks("..............!.!.!.!.!.!.!.!.!.!.!.!")]);
        let mut samples = Samples::default();
        for tick in 0..30 {
            let loud = if tick < 12 { 1.0 } else { 2.0 };
            for part in 1..=4 {
                samples.until(at(tick) + part * PERIOD / 5, 20e-6 * loud);
            }
            if tick % 3 == 2 {
                samples.add((at(tick), at(tick + 1)), 1e-3);
            }
        }
        assert_eq!(samples.len(), 130);
        let counting = samples.counting(Some(&quiet));
        let (short, long): (Vec<f64>, Vec<f64>) = counting.iter().partition(|time| **time < 0.5e-3);
        assert!(short.len() == 120 && short.iter().all(|time| *time == 20e-6), "{short:?}");
        assert_eq!(long.len(), 10);
        assert_eq!(samples.counting(None), samples.all(), "nobody looked");
        assert_eq!(samples.counting(Some(&Quiet::default())), samples.all(), "it was never quiet");
    }

    #[test]
    fn of_long_ones_count_those_that_were_quiet_or_the_quietest() {
        let quiet = Quiet::of(&[looks(&".".repeat(40)), looks(&format!("{}!{}", ".".repeat(30), ".".repeat(9)))]);
        let mut samples = Samples::default();
        for part in 0..32 {
            samples.add((at(part), at(part + 1)), f64::from(u32::try_from(part).unwrap()));
        }
        let of = |range: std::ops::Range<u32>| range.map(f64::from).collect::<Vec<_>>();
        assert_eq!(samples.counting(Some(&quiet)), of(1..28));
        assert_eq!(samples.counting(Some(&Quiet::default())), of(0..8), "a quarter");
        samples.skip(24);
        assert_eq!((samples.len(), samples.is_empty()), (8, false));
        assert_eq!(samples.counting(Some(&quiet)), of(24..30), "the quietest");
        samples.skip(5);
        assert_eq!(samples.counting(Some(&quiet)).len(), 3, "there are no more");
        assert!(Samples::default().counting(Some(&quiet)).is_empty());
    }
}
