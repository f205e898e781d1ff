//! The one place of this crate that reads the clocks.
#![expect(clippy::disallowed_methods, reason = "the authority is a shell: it reads the clocks for its cores")]

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use access_model::{Mono, Now, UnixTime};

/// Tells the time. A test may tell its own.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// The clocks of this machine.
#[must_use]
pub fn system_clock() -> Clock {
    let start = Instant::now();
    Arc::new(move || {
        let mono = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let unix = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        Now { mono: Mono::from_nanos(mono), unix: UnixTime::from_micros(unix) }
    })
}
