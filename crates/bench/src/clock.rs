//! The one place where this crate reads a clock.

use std::sync::OnceLock;
use std::time::SystemTime;

/// Elapsed time.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(u64);

impl Stopwatch {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Self(monotonic())
    }

    /// Seconds since the start.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        (monotonic() - self.0) as f64 * 1e-9
    }

    /// Seconds from the start to another moment of the monotonic clock.
    #[must_use]
    pub const fn until(&self, moment: u64) -> f64 {
        moment.saturating_sub(self.0) as f64 * 1e-9
    }

    /// Seconds since the start without what two looks at the clock take.
    #[must_use]
    pub fn net(&self) -> f64 {
        self.timing().seconds
    }

    /// The same, with when it was.
    #[must_use]
    pub fn timing(&self) -> Timing {
        let end = monotonic();
        Timing { end, seconds: ((end - self.0) as f64 * 1e-9 - looking()).max(0.0) }
    }
}

/// How long something took, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timing {
    /// When it ended, nanoseconds of the monotonic clock.
    pub end: u64,
    /// How many it took.
    pub seconds: f64,
}

/// Seconds between two looks at the clock, which every timing has too many.
pub fn looking() -> f64 {
    static ONCE: OnceLock<f64> = OnceLock::new();
    *ONCE.get_or_init(|| least(|| Stopwatch::start().seconds()))
}

fn least(once: impl Fn() -> f64) -> f64 {
    (0..1_000).map(|_| once()).fold(f64::INFINITY, f64::min)
}

/// Nanoseconds of the clock that all programs of this machine have in common; it is never set.
#[must_use]
pub fn monotonic() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Whose processor time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Of the thread that is asked.
    Thread,
    /// Of all threads of the process.
    Process,
}

impl Whose {
    /// Processor time used so far, user and system, in seconds.
    #[must_use]
    pub fn cpu(self) -> f64 {
        let clock = match self {
            Self::Thread => rustix::time::ClockId::ThreadCPUTime,
            Self::Process => rustix::time::ClockId::ProcessCPUTime,
        };
        let time = rustix::time::clock_gettime(clock);
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    }

    /// Seconds between two looks at it, for which the kernel is asked.
    pub(crate) fn looking(self) -> f64 {
        static THREAD: OnceLock<f64> = OnceLock::new();
        static PROCESS: OnceLock<f64> = OnceLock::new();
        let once = match self {
            Self::Thread => &THREAD,
            Self::Process => &PROCESS,
        };
        *once.get_or_init(|| {
            least(|| {
                let from = self.cpu();
                self.cpu() - from
            })
        })
    }
}

/// Today's date in UTC, as `2026-11-21`.
#[must_use]
pub fn today() -> String {
    #[expect(clippy::disallowed_methods, reason = "records carry the date on which they were taken")]
    let now = SystemTime::now();
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    date(i64::try_from(seconds / 86_400).unwrap_or(0))
}

/// The date `days` days after 1970-01-01, in the Gregorian calendar. Years begin in March here, so that a leap day is
/// the last day of its year; 400 years have 146,097 days.
fn date(days: i64) -> String {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::{Whose, date};

    #[test]
    fn dates_follow_the_calendar() {
        let cases = [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (19_782, "2024-02-29"),
            (20_453, "2025-12-31"),
            (47_541, "2100-03-01"),
        ];
        for (days, expected) in cases {
            assert_eq!(date(days), expected);
        }
    }

    #[test]
    fn the_processor_time_of_a_thread_is_part_of_that_of_its_process() {
        let (thread, process) = (Whose::Thread.cpu(), Whose::Process.cpu());
        let mut sum = 0_u64;
        while Whose::Thread.cpu() < thread + 0.01 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(1));
        }
        assert!(Whose::Process.cpu() >= process + 0.009);
    }
}
