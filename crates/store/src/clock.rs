//! The one place of this crate that reads the clocks: checkpoints, notes and deadlines of the writer thread.
#![expect(clippy::disallowed_methods, reason = "the ledger's own shell: its writer thread lives in real time")]

use std::time::{Instant, SystemTime};

use access_model::UnixTime;

pub(crate) fn unix() -> UnixTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    UnixTime::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

pub(crate) fn instant() -> Instant {
    Instant::now()
}
