//! The sum of a histogram, and whether its buckets can hold it.

use super::Sum;
use crate::twin::exposition::Histogram;

/// Times that a histogram may have in its sum and not in its buckets, or the other way: it is read while it is written to.
const IN_FLIGHT: f64 = 8.0;

/// A sum, and what its buckets say of it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Counted {
    pub(super) sum: Sum,
    /// Seconds, and their squares, if each time was in the middle of its bucket.
    middles: f64,
    squares: f64,
    /// Seconds that the buckets have at least.
    least: f64,
    /// Seconds that those with a bound have at most.
    most: f64,
    /// Times above all bounds.
    above: f64,
    /// The bound of the highest bucket in use.
    top: f64,
}

/// Why two looks at a stage cannot be of one run of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contradiction {
    /// Something counts less.
    Less,
    /// The sum has grown by what the buckets cannot hold.
    Sum,
}

impl Contradiction {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Less => "counts less than before",
            Self::Sum => "has a sum that has grown by what its buckets cannot hold",
        }
    }
}

impl Counted {
    /// Whether the seconds can be those of the times in the buckets. Each time is within two bounds, but for those in flight.
    pub(super) fn adds_up(&self, digits: f64) -> bool {
        let slack = IN_FLIGHT * self.top + digits;
        self.sum.seconds >= self.least - slack && (self.above > 0.0 || self.sum.seconds <= self.most + slack)
    }

    pub(super) fn since(&self, old: &Self) -> Result<Sum, Contradiction> {
        // Sums of doubles that were written as text may differ in their last digits.
        if self.sum.count < old.sum.count || self.sum.seconds < old.sum.seconds * (1.0 - 1e-9) {
            return Err(Contradiction::Less);
        }
        let grown = |new: f64, old: f64| (new - old).max(0.0);
        let (middles, squares) = (grown(self.middles, old.middles), grown(self.squares, old.squares));
        let seconds = grown(self.sum.seconds, old.sum.seconds);
        let more = Self {
            // By how far the middles are off in this span, and in no other.
            sum: Sum {
                count: grown(self.sum.count, old.sum.count),
                seconds,
                squares: scaled(squares, middles, seconds),
            },
            middles,
            squares,
            least: grown(self.least, old.least),
            most: grown(self.most, old.most),
            above: grown(self.above, old.above),
            top: self.top,
        };
        if more.adds_up(digits(self.sum.seconds)) { Ok(more.sum) } else { Err(Contradiction::Sum) }
    }
}

/// What is left of a sum of seconds in its last digits.
pub(super) fn digits(seconds: f64) -> f64 {
    1e-9 * (1.0 + seconds)
}

/// A time within a bucket is taken to be in its middle, on a scale of ratios; above all bounds, at twice the last one. `None` of what
/// has no end.
pub(super) fn counted(histogram: &Histogram) -> Option<Counted> {
    let (mut below, mut before, mut squares, mut middles) = (0.0_f64, 0.0, 0.0, 0.0);
    let mut counted = Counted::default();
    for (bound, count) in &histogram.buckets {
        let here = count - before;
        let middle = match (bound.is_finite(), below > 0.0) {
            (false, _) => 2.0 * below,
            (true, true) => (below * bound).sqrt(),
            (true, false) => bound / 2.0,
        };
        squares += here * middle * middle;
        middles += here * middle;
        counted.least += here * below.max(0.0);
        let highest = if bound.is_finite() { *bound } else { below };
        if bound.is_finite() {
            counted.most += here * bound.max(0.0);
        } else {
            counted.above += here;
        }
        if here > 0.0 || *count <= 0.0 {
            counted.top = highest.max(0.0);
        }
        (below, before) = (highest, *count);
    }
    let seconds = histogram.sum.unwrap_or(middles).max(0.0);
    let count = histogram.count.unwrap_or(before);
    counted.sum = Sum { count, seconds, squares: scaled(squares, middles, seconds) };
    (counted.middles, counted.squares) = (middles, squares);
    let Counted { least, most, above, .. } = counted;
    let squares = counted.sum.squares;
    [count, seconds, squares, least, most, above].iter().all(|value| value.is_finite()).then_some(counted)
}

/// The sum is exact: what the middles are off, their squares are off twice.
fn scaled(squares: f64, middles: f64, seconds: f64) -> f64 {
    let scale = if middles > 0.0 && seconds > 0.0 { (seconds / middles).powi(2) } else { 1.0 };
    squares * scale
}
