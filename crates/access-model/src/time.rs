//! Time as an argument: a monotonic instant and the wall clock, always read together by a shell.

use std::ops::Add;
use std::time::Duration;

/// A monotonic instant: nanoseconds since an arbitrary start, never going back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(u64);

impl Mono {
    /// The start of the monotonic clock.
    pub const ZERO: Self = Self(0);
    /// A deadline that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// An instant `nanos` nanoseconds after the start.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time from `earlier` to `self`; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Mono {
    type Output = Self;

    /// Saturates at [`Mono::NEVER`].
    fn add(self, by: Duration) -> Self {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

/// Wall-clock time: microseconds since 1970-01-01T00:00:00Z, without leap seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixTime(i64);

impl UnixTime {
    /// The time `micros` microseconds after the epoch.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// The time `seconds` whole seconds after the epoch (JWT `NumericDate`, RFC 7519 section 2).
    #[must_use]
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded down.
    #[must_use]
    pub const fn as_seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Time from `earlier` to `self`; zero when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Add<Duration> for UnixTime {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
    }
}

/// The present: both clocks, read together.
///
/// A deadline that must not be stretched by setting the wall clock back is fixed on `mono` when it is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock.
    pub mono: Mono,
    /// The wall clock.
    pub unix: UnixTime,
}

impl Now {
    /// The monotonic instant at which the wall-clock time `at` is reached if the wall clock is not touched again.
    /// A time that already passed gives the present.
    #[must_use]
    pub fn deadline(self, at: UnixTime) -> Mono {
        self.mono + at.since(self.unix)
    }

    /// Both clocks moved forward by `by`.
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        Self { mono: self.mono + by, unix: self.unix + by }
    }
}
