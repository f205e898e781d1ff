//! What a run gave: answers, and what of them counts.

use super::Renewed;
use crate::quiet::{LEAST, Quiet};

/// Answers of one sitting beyond this are not kept one by one.
const MOST: usize = 1_000_000;

/// What a run gave.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// While it counted.
    pub(super) all: Sums,
    /// In the part of that in which nobody else computed on the processors, where somebody looked.
    pub(super) quiet: Sums,
    /// Seconds until all were connected.
    pub(super) storm: f64,
    pub(super) renewed: Renewed,
}

/// What is counted.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// Requests that were answered; a part of one, of which a part was done in these seconds.
    pub(super) answered: f64,
    pub(super) seconds: f64,
    /// Seconds of processor time of the server meanwhile.
    pub(super) cpu: f64,
    /// Seconds from a request to its answer.
    pub(super) waits: Vec<f64>,
}

impl Sums {
    pub(super) fn add(&mut self, more: Self) {
        self.answered += more.answered;
        self.seconds += more.seconds;
        self.cpu += more.cpu;
        self.waits.extend(more.waits);
    }
}

impl Found {
    /// One of so many sittings.
    pub(super) fn add(&mut self, sitting: Self, of: u32) {
        self.all.add(sitting.all);
        self.quiet.add(sitting.quiet);
        self.storm += sitting.storm / f64::from(of);
        self.renewed.keys += sitting.renewed.keys;
        self.renewed.tokens += sitting.renewed.tokens;
    }

    /// What counts of it.
    pub(super) fn counting(self) -> Sums {
        if self.is_quiet() { self.quiet } else { self.all }
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.quiet.seconds >= LEAST * self.all.seconds
    }
}

/// Answers of a sitting.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) count: u64,
    /// When each of the first ones came, nanoseconds of the monotonic clock.
    ends: Vec<u64>,
    /// Seconds from its request to each of the same.
    pub(super) waits: Vec<f64>,
}

impl Answers {
    /// One that came then, to a request that was sent `since`.
    pub(super) fn push(&mut self, since: u64, end: u64) {
        self.count += 1;
        if self.ends.len() < MOST {
            self.ends.push(end);
            self.waits.push(end.saturating_sub(since) as f64 * 1e-9);
        }
    }

    /// Of all but looks in so many seconds from then on.
    pub(super) fn but_looks(&self, (begun, seconds): (u64, f64), cpu: f64, quiet: &Quiet) -> Sums {
        let waits = self.ends.iter().zip(&self.waits).map(|(end, wait)| quiet.but_looks(*end, *wait)).collect();
        let seconds = quiet.but_looks(begun + (seconds * 1e9) as u64, seconds);
        Sums { answered: self.count as f64, seconds, cpu: quiet.own(cpu), waits }
    }

    /// Of what came while it was quiet, since then; nothing where not each answer is known.
    pub(super) fn quiet(&self, begun: u64, quiet: &Quiet) -> Sums {
        let came = quiet.came(begun, &self.ends).filter(|_| self.count == self.ends.len() as u64);
        let Some(came) = came else { return Sums::default() };
        let waits = came.times(self.ends.iter().copied().zip(self.waits.iter().copied()));
        Sums { answered: came.count, seconds: came.without_looks(), cpu: came.part.used[1], waits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quiet::tests::looks;
    use crate::quiet::{Around, PERIOD};

    #[test]
    fn all_of_a_run_is_told_without_looks() {
        let mut looks = looks(&".".repeat(60));
        looks.iter_mut().for_each(|look| look.lasted = 10_000);
        let quiet = Quiet::of(&[looks], Around { before: 0, after: 0, accounted: 4_000 });
        let (begun, mut answers) = (102 * PERIOD, Answers::default());
        // One in a millisecond, from before the look to behind it, and one that meets none.
        for tick in 102..122 {
            answers.push(tick * PERIOD, tick * PERIOD + 100_000);
            answers.push(tick * PERIOD + 200_000, tick * PERIOD + 300_000);
        }
        let all = answers.but_looks((begun, 20e-3), 10e-3, &quiet);
        assert!(all.waits.iter().step_by(2).all(|wait| (wait - 90e-6).abs() < 1e-9), "{all:?}");
        assert!(all.waits.iter().skip(1).step_by(2).all(|wait| (wait - 100e-6).abs() < 1e-9), "{all:?}");
        assert!(all.answered == 40.0 && (all.seconds - (20e-3 - 20.0 * 10e-6)).abs() < 1e-9, "{all:?}");
        assert!((all.cpu - 10e-3 * 0.996).abs() < 1e-9, "{all:?}");
    }
}
