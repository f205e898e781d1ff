//! Time that passes when a test says so.

use std::time::Duration;

use access_model::{Mono, Now, UnixTime};

/// Both clocks. They move together, except when the wall clock is set.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    now: Now,
    /// How far the wall clock is behind the latest time it would show had it not been set back.
    behind: Duration,
}

impl Default for Clock {
    /// A morning in March 2030, when all certificates of the testkit are valid.
    fn default() -> Self {
        let now = Now { mono: Mono::from_nanos(1_000_000_000), unix: UnixTime::from_seconds(1_900_000_000) };
        Self { now, behind: Duration::ZERO }
    }
}

impl Clock {
    /// The present.
    #[must_use]
    pub const fn now(&self) -> Now {
        self.now
    }

    /// The present with a wall clock that was never set back: what gates hold tokens against.
    #[must_use]
    pub fn latest(&self) -> Now {
        Now { unix: self.now.unix + self.behind, ..self.now }
    }

    /// Lets time pass on both clocks.
    pub fn pass(&mut self, by: Duration) {
        self.now = self.now.after(by);
    }

    /// Sets the wall clock forward or back by so many seconds; the monotonic one does not notice.
    pub fn set_wall(&mut self, by_seconds: i64) {
        let by = Duration::from_secs(by_seconds.unsigned_abs());
        self.behind = if by_seconds < 0 { self.behind + by } else { self.behind.saturating_sub(by) };
        let micros = by_seconds.saturating_mul(1_000_000);
        self.now.unix = UnixTime::from_micros(self.now.unix.as_micros().saturating_add(micros));
    }
}
