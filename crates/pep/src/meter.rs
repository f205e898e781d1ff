//! What a gate counts.

use access_model::meter::{Counter, Histogram, LONG, SHORT};

/// Of so many checks, the time of one is taken: reading a clock twice costs more than a check.
const SAMPLE: u64 = 64;

/// What a gate counts; written by the thread that drives it.
#[derive(Debug)]
pub struct GateMeter {
    /// Checks.
    pub checks: Counter,
    /// Of these, those that denied, or would have if the gate enforced: neither is a permit.
    denials: Counter,
    /// How long checks took, those that were looked at.
    pub decisions: Histogram,
    /// How long tokens took to be verified and their rights to be compiled, those that were refused too.
    pub tokens: Histogram,
    /// How old news of the authority were that revoke or replace something when they were applied, by the wall clocks of
    /// both.
    pub lag: Histogram,
}

impl Default for GateMeter {
    fn default() -> Self {
        Self {
            checks: Counter::default(),
            denials: Counter::default(),
            decisions: Histogram::new(SHORT),
            tokens: Histogram::new(LONG),
            lag: Histogram::new(LONG),
        }
    }
}

impl GateMeter {
    /// How many checks have permitted something.
    #[must_use]
    pub fn permits(&self) -> u64 {
        // Read in this order, what is counted meanwhile cannot make it negative.
        let denials = self.denials.get();
        self.checks.get().saturating_sub(denials)
    }

    pub(crate) fn denied(&self) {
        self.denials.add(1);
    }

    /// Counts a check, and says whether its time is to be taken.
    #[inline]
    pub(crate) fn is_sample(&self) -> bool {
        self.checks.add(1).is_multiple_of(SAMPLE)
    }

    /// Whether the time of the next check is to be taken.
    #[inline]
    pub(crate) fn next_is_sample(&self) -> bool {
        self.checks.get().is_multiple_of(SAMPLE)
    }
}
