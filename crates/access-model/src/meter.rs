//! What hot paths leave behind to be looked at: counters and histograms that take no lock and no allocation.
//!
//! A meter has one writer, the thread that drives the core it belongs to; anybody may read it at any time. What is read is
//! never torn, and a histogram that is read while it is written to may lack the newest value.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts up.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts `more`; of one writer. Gives the count before.
    #[inline]
    pub fn add(&self, more: u64) -> u64 {
        // With one writer, a load and a store are enough: a locked instruction would cost more than what is counted.
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before.wrapping_add(more), Ordering::Relaxed);
        before
    }

    /// Counts `more`; of any number of writers.
    pub fn add_shared(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// The count.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Upper bounds for what takes nanoseconds, in nanoseconds.
pub const SHORT: &[u64] = &[50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 1_000_000];

/// Upper bounds for what takes milliseconds, in nanoseconds: 0.1 ms to 10 s.
pub const LONG: &[u64] = &[
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// Counts durations by size, within fixed bounds.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One for each bound, and one for what is above all of them.
    counts: Box<[Counter]>,
    nanos: Counter,
}

impl Histogram {
    /// An empty one. `bounds` are the largest durations of each bucket in nanoseconds, in rising order.
    #[must_use]
    pub fn new(bounds: &'static [u64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| Counter::default()).collect();
        Self { bounds, counts, nanos: Counter::default() }
    }

    /// Counts a duration; of one writer.
    #[inline]
    pub fn observe(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let at = self.bounds.partition_point(|bound| *bound < nanos);
        if let Some(count) = self.counts.get(at) {
            count.add(1);
        }
        self.nanos.add(nanos);
    }

    /// Counts a duration; of any number of writers.
    pub fn observe_shared(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let at = self.bounds.partition_point(|bound| *bound < nanos);
        if let Some(count) = self.counts.get(at) {
            count.add_shared(1);
        }
        self.nanos.add_shared(nanos);
    }

    /// For each bound in nanoseconds, and for none, how many durations are within it and above the one before.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        let bounds = self.bounds.iter().map(|bound| Some(*bound)).chain([None]);
        bounds.zip(self.counts.iter().map(Counter::get))
    }

    /// The sum of all durations; it wraps after 584 years.
    #[must_use]
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.nanos.get())
    }

    /// How many durations were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().map(Counter::get).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_in_the_first_bucket_that_holds_it() {
        let histogram = Histogram::new(&[10, 100]);
        for nanos in [0, 10, 11, 100, 101, 1_000] {
            histogram.observe(Duration::from_nanos(nanos));
        }
        let buckets: Vec<_> = histogram.buckets().collect();
        assert_eq!(buckets, [(Some(10), 2), (Some(100), 2), (None, 2)]);
        assert_eq!((histogram.count(), histogram.sum()), (6, Duration::from_nanos(1_222)));
    }

    #[test]
    fn bounds_rise() {
        assert!(SHORT.is_sorted() && LONG.is_sorted());
    }

    #[test]
    fn whoever_reads_sees_what_was_written() {
        let (one, many, times) = (Counter::default(), Counter::default(), Histogram::new(&[10, 100]));
        std::thread::scope(|scope| {
            scope.spawn(|| (0..1_000).for_each(|_| _ = one.add(2)));
            for _ in 0..4 {
                scope.spawn(|| (0..1_000).for_each(|_| many.add_shared(1)));
                scope.spawn(|| (0..1_000).for_each(|_| times.observe_shared(Duration::from_nanos(20))));
            }
        });
        assert_eq!((times.count(), times.sum()), (4_000, Duration::from_nanos(80_000)));
        assert_eq!((one.get(), many.get()), (2_000, 4_000));
    }
}
