//! How fast the clock of the processors was.
//!
//! Some hosts let it hop between speeds a tenth or a fifth apart every few milliseconds. All work takes as much longer then, whatever it is, so its
//! time is counted in steps of the clock, and told in seconds of the mean clock.

use super::{LATE, Look, PERIOD};

/// Looks whose mean is the usual clock, from then on: two minutes.
const SETTLED: u64 = 120_000;
/// A chain that takes so many times the mean was interrupted again and again, and says nothing.
const FAR: f64 = 1.5;
/// What [`Look::pace`] is at the usual clock.
pub(super) const USUAL: u32 = 1_000_000;

/// The mean of what chains took.
#[derive(Debug, Default)]
pub(super) struct Mean {
    sum: u64,
    count: u64,
}

impl Mean {
    /// The pace of a look whose chain took so many nanoseconds, with it.
    pub(super) fn with(&mut self, chained: u64) -> u32 {
        let mean = |it: &Self| it.sum as f64 / (it.count.max(1) as f64);
        let plausible = self.count == 0 || chained as f64 <= FAR * mean(self);
        if plausible && self.count < SETTLED {
            self.sum += chained;
            self.count += 1;
        }
        let pace = if plausible { mean(self) / chained.max(1) as f64 } else { 1.0 };
        (pace.min(FAR) * f64::from(USUAL)).round() as u32
    }
}

/// A moment at which it is known how fast the clock was.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mark {
    /// Nanoseconds of the monotonic clock.
    at: u64,
    /// Times as fast as usual.
    pace: f64,
    /// Nanoseconds that the usual clock would have needed for as many steps as there were since the first mark.
    steps: f64,
}

/// The clock over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pace {
    marks: Vec<Mark>,
}

impl Pace {
    /// By looks at processors, in the mean of these: they mostly hop together.
    pub(super) fn of(looks: &[Vec<Look>]) -> Self {
        let mut all: Vec<&Look> = looks.iter().flatten().filter(|look| look.at % PERIOD <= LATE).collect();
        all.sort_unstable_by_key(|look| look.at);
        let mut pace = Self::default();
        for looks in all.chunk_by(|one, other| one.tick() == other.tick()) {
            let sum: f64 = looks.iter().map(|look| f64::from(look.pace) / f64::from(USUAL)).sum();
            pace.push(looks[0].at, sum / looks.len() as f64);
        }
        pace
    }

    fn push(&mut self, at: u64, pace: f64) {
        let since = |last: &Mark| last.steps + (at - last.at) as f64 * f64::midpoint(last.pace, pace);
        let steps = self.marks.last().map_or(0.0, since);
        self.marks.push(Mark { at, pace, steps });
    }

    /// Steps until then, as of a mark.
    fn until(&self, at: u64) -> f64 {
        let place = self.marks.partition_point(|mark| mark.at <= at);
        match (place.checked_sub(1).and_then(|before| self.marks.get(before)), self.marks.get(place)) {
            (Some(before), Some(after)) => {
                let part = (at - before.at) as f64 / (after.at - before.at) as f64;
                before.steps + part * (after.steps - before.steps)
            }
            (Some(last), None) => last.steps + (at - last.at) as f64 * last.pace,
            (None, Some(first)) => first.steps - (first.at - at) as f64 * first.pace,
            (None, None) => at as f64,
        }
    }

    /// Times as fast as usual in a span, in the mean; 1 where nobody looked.
    pub(super) fn mean(&self, (from, to): (u64, u64)) -> f64 {
        if self.marks.is_empty() {
            return 1.0;
        }
        let to = to.max(from + 1);
        (self.until(to) - self.until(from)) / (to - from) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::looks;
    use super::*;

    #[test]
    fn the_mean_clock_is_the_usual_one_and_stays() {
        let mut mean = Mean::default();
        assert_eq!(mean.with(300), USUAL);
        let paces: Vec<u32> = (0..1_000).map(|nth| mean.with(if nth % 2 == 0 { 270 } else { 330 })).collect();
        assert!(paces[998].abs_diff(1_111_111) < 1_000 && paces[999].abs_diff(909_091) < 1_000, "{:?}", &paces[998..]);
        assert_eq!(mean.with(5_000), USUAL, "interrupted");
        assert!(mean.with(0) > USUAL, "a clock that stands still");
        (0..2 * SETTLED).for_each(|_| _ = mean.with(300));
        let settled = mean.with(300);
        (0..SETTLED).for_each(|_| _ = mean.with(330));
        assert_eq!(mean.with(300), settled);
    }

    #[test]
    fn a_span_has_the_mean_of_its_clock() {
        let of = |one: &str, other: &str| Pace::of(&[looks(one), looks(other)]);
        let at = |tick: u64| PERIOD * (100 + tick) + 20_000;
        for (rule, one, other, from, to, pace) in [
            ("the usual one", "......", "......", at(1), at(4), 1.0),
            ("a slower one", "------", "------", at(1), at(4), 0.9),
            ("one of two", "------", "......", at(1), at(4), 0.95),
            ("a hop, half way between two looks", "...---", "...---", at(2), at(3), 0.95),
            ("before the hop", "...---", "...---", at(0), at(2), 1.0),
            ("a part of it", "...---", "...---", at(1), at(4), (1.0 + 0.95 + 0.9) / 3.0),
            ("a late look says nothing", "-~~~--", "-~~~--", at(1), at(3), 0.9),
            ("before the first and behind the last", "---...", "---...", at(0) - PERIOD, at(5) + PERIOD, 6.65 / 7.0),
            ("a moment", "------", "------", at(2), at(2), 0.9),
            ("nobody looked", "", "", at(2), at(3), 1.0),
        ] {
            let found = of(one, other).mean((from, to));
            assert!((found - pace).abs() < 1e-9, "{rule}: {found}");
        }
    }
}
