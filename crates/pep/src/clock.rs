//! The wall clock as the gate trusts it: it may run ahead, it never goes back.

use std::time::Duration;

use access_model::Now;

/// The wall clock is noted again when it has run ahead of the estimate by this much. Less is the distance between two
/// readings of two clocks.
const STEP: Duration = Duration::from_secs(1);

/// The latest time that the wall clock has shown. The monotonic clock carries it on, so whoever sets the wall clock back
/// does not make a token valid again whose end has been seen (`docs/decisions/0005-time-does-not-go-back.md`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latest {
    seen: Now,
}

impl Latest {
    pub(crate) const fn new(now: Now) -> Self {
        Self { seen: now }
    }

    /// The present, with a wall clock that was not set back.
    pub(crate) fn at(&self, now: Now) -> Now {
        let carried_on = self.seen.unix + now.mono.since(self.seen.mono);
        Now { unix: now.unix.max(carried_on), ..now }
    }

    /// The same, after a look at the wall clock.
    pub(crate) fn look(&mut self, now: Now) -> Now {
        let present = self.at(now);
        // Only ahead: a new start at each look would add up what rounding loses.
        if present.unix == now.unix {
            self.seen = now;
        }
        present
    }

    /// Whether the wall clock was set forward since the last look.
    #[inline]
    pub(crate) fn is_ahead(&self, now: Now) -> bool {
        now.unix.since(self.seen.unix) >= now.mono.since(self.seen.mono) + STEP
    }

    /// How far the wall clock is behind.
    pub(crate) fn behind(&self, now: Now) -> Duration {
        self.at(now).unix.since(now.unix)
    }
}

#[cfg(test)]
mod tests {
    use access_model::{Mono, UnixTime};

    use super::*;

    fn at(mono: u64, unix: i64) -> Now {
        Now { mono: Mono::from_nanos(mono * 1_000_000_000), unix: UnixTime::from_seconds(unix) }
    }

    #[test]
    fn the_latest_time_is_carried_on() {
        let mut latest = Latest::new(at(10, 1_000));
        for (now, expected) in [
            (at(11, 1_001), 1_001),
            (at(12, 500), 1_002),
            (at(13, 2_000), 2_000),
            (at(14, 1_004), 2_001),
            (at(9, 1_004), 2_000),
        ] {
            assert_eq!(latest.look(now).unix.as_seconds(), expected, "{now:?}");
        }
        assert_eq!(latest.behind(at(14, 1_001)), Duration::from_secs(1_000));
    }

    #[test]
    fn looking_often_loses_nothing() {
        let start = at(10, 1_000);
        let mut latest = Latest::new(start);
        for nanos in 0..10_000_u64 {
            // Each look is 999 ns after the one before, with the wall clock set back.
            let now = Now { mono: Mono::from_nanos(start.mono.as_nanos() + nanos * 999), unix: UnixTime::default() };
            latest.look(now);
        }
        assert_eq!(latest.at(at(11, 0)).unix, UnixTime::from_seconds(1_001));
    }

    #[test]
    fn a_step_of_a_second_is_noticed() {
        let latest = Latest::new(at(10, 1_000));
        for (now, expected) in [(at(20, 1_010), false), (at(20, 1_011), true), (at(20, 900), false)] {
            assert_eq!(latest.is_ahead(now), expected, "{now:?}");
        }
    }
}
