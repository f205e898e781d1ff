//! The one place where the shells read the clocks.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use access_model::{Mono, Now, UnixTime};

fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "the shells' only reading of the monotonic clock, with `now`")]
    *START.get_or_init(Instant::now)
}

/// Both clocks, read together. `mono` counts from the first call in this process.
#[must_use]
pub fn now() -> Now {
    let start = start();
    #[expect(clippy::disallowed_methods, reason = "the shells' only reading of both clocks")]
    // The monotonic clock last: a thread that is held up in between then sees a wall clock that is late, not one that was
    // ahead for a moment and that gates would hold tokens against from then on.
    let (wall, mono) = (SystemTime::now(), Instant::now());
    let unix = match wall.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros),
    };
    // One second in hand, so that no instant of a process is the zero of the clock.
    let nanos = u64::try_from(mono.saturating_duration_since(start).as_nanos()).unwrap_or(u64::MAX);
    Now { mono: Mono::from_nanos(nanos.saturating_add(1_000_000_000)), unix: UnixTime::from_micros(unix) }
}

/// The monotonic clock alone, as in [`now`].
#[must_use]
pub fn mono() -> Mono {
    let start = start();
    #[expect(
        clippy::disallowed_methods,
        reason = "the shells' reading of the monotonic clock where no other is needed"
    )]
    let nanos = u64::try_from(Instant::now().saturating_duration_since(start).as_nanos()).unwrap_or(u64::MAX);
    Mono::from_nanos(nanos.saturating_add(1_000_000_000))
}

/// The runtime's instant for a deadline of a core; `None` for one that never comes.
#[must_use]
pub fn instant(deadline: Mono) -> Option<tokio::time::Instant> {
    let nanos = deadline.as_nanos();
    if nanos == u64::MAX {
        return None;
    }
    let since = Duration::from_nanos(nanos.saturating_sub(1_000_000_000));
    start().checked_add(since).map(tokio::time::Instant::from_std)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_leads_back_to_the_instant_it_was_made_from() {
        let now = now();
        let at = instant(now.mono + Duration::from_secs(5)).unwrap();
        let left = at.into_std().saturating_duration_since(start());
        assert_eq!(left.as_nanos() as u64, now.mono.as_nanos() + 4_000_000_000);
        assert_eq!(instant(Mono::NEVER), None);
    }
}
