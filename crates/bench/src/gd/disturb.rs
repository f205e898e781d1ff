//! Work that is no step of the scenario. It stands between two timings of a step, so that the step finds caches and branch predictors as it
//! finds them among the other steps, and not as it left them itself.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hint::black_box;

use aws_lc_rs::digest::{SHA512, digest};

use crate::clock::{Stopwatch, Whose, looking};
use crate::random::Random;

/// Larger than the first cache for values of any processor that is around.
const BYTES: usize = 128 << 10;
/// As much as a server has to do with for one message: a part of the first cache.
const SMALL: usize = 4 << 10;
/// Times as long as in the best case that it takes to ask for processor time twice, at most.
const ASKING: f64 = 8.0;
/// Numbers that are sorted.
const NUMBERS: usize = 96;

/// The work, with what it works on.
#[derive(Debug)]
pub struct Disturb {
    bytes: Vec<u8>,
    numbers: Vec<u64>,
    text: String,
    random: Random,
}

impl Disturb {
    /// Gets ready.
    #[must_use]
    pub fn new() -> Self {
        Self::of(BYTES, NUMBERS)
    }

    /// Work that leaves a part of the caches to others.
    #[must_use]
    pub fn small() -> Self {
        Self::of(SMALL, NUMBERS / 8)
    }

    fn of(bytes: usize, numbers: usize) -> Self {
        Self { bytes: vec![1; bytes], numbers: vec![0; numbers], text: String::new(), random: Random::new(99) }
    }

    /// Works for at least so many seconds; gives how many, its looks at the clock with them.
    pub fn run(&mut self, least: f64) -> f64 {
        let watch = Stopwatch::start();
        loop {
            self.once();
            let seconds = watch.seconds();
            if seconds >= least {
                return seconds + looking();
            }
        }
    }

    /// The same; gives seconds on the clock and of processor time, what it takes to ask for that with them: what others take of the processor
    /// meanwhile is on the clock only.
    pub fn work(&mut self, least: f64) -> (f64, f64) {
        let (watch, before) = (Stopwatch::start(), Whose::Thread.cpu());
        let worked = self.run(least);
        let cpu = Whose::Thread.cpu() - before;
        let seconds = watch.seconds();
        // To ask takes longer after work than again and again; one half of it is between the two answers. Who was stopped meanwhile did not ask so long.
        let asking = (seconds - worked).clamp(0.0, ASKING * Whose::Thread.looking());
        (seconds + looking(), cpu + 0.5 * asking + looking())
    }

    /// As much work each time, some microseconds.
    pub fn once(&mut self) {
        for at in self.bytes.iter_mut().step_by(64) {
            *at = at.wrapping_add(1);
        }
        for number in &mut self.numbers {
            *number = self.random.draw();
        }
        self.numbers.sort_unstable();
        let map: BTreeMap<u64, usize> = self.numbers.iter().copied().zip(0..).take(self.numbers.len() / 4).collect();
        self.text.clear();
        for (number, place) in &map {
            let _ = write!(self.text, "{number:x} {place} ");
        }
        black_box(digest(&SHA512, self.text.as_bytes()));
    }
}

impl Default for Disturb {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_no_longer_by_the_processor_than_on_the_clock() {
        let mut disturb = Disturb::new();
        // What it takes to ask is found out when it is asked for.
        disturb.work(1e-3);
        let cpu = Whose::Thread.cpu();
        let (mut clock, mut worked) = (0.0, 0.0);
        for _ in 0..10 {
            let (seconds, spent) = disturb.work(2e-3);
            assert!(seconds >= 2e-3 && spent > 0.0);
            (clock, worked) = (clock + seconds, worked + spent);
        }
        let cpu = Whose::Thread.cpu() - cpu;
        assert!((worked / cpu - 1.0).abs() < 0.02 && worked < 1.02 * clock, "{worked} {cpu} {clock}");
    }
}
