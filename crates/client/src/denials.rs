//! When a denial of what is watched is worth a fresh token (P0 section 3), and how often at most.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use opcua_types::StatusCode;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use crate::connection::Core;
use crate::error::{ClientError, TokenError};

/// Time between two fresh tokens for what is watched. Each that changed nothing doubles it, up to the second.
const PAUSE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));
/// A token was fetched just before the denial: until it is old enough to be replaced.
const AGAIN: Duration = Duration::from_millis(250);

/// Which items of one watch are denied.
///
/// An item counts when it becomes denied, not again while it stays so: what a fresh token does not change, policy has
/// decided, and asking on would change nothing but the load of the authority. When it is reported once more under a newer
/// token, that one permitted it for a moment too short to be reported: it counts again.
#[derive(Debug, Default)]
pub(crate) struct Denied(BTreeMap<usize, u64>);

/// What became of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is denied, and was not.
    Denied,
    /// It can be read again.
    Permitted,
}

impl Denied {
    /// Notes the status of an item under the token of a generation. Other bad statuses say nothing about rights.
    pub(crate) fn note(&mut self, item: usize, status: StatusCode, generation: u64) -> Option<Turn> {
        if status == StatusCode::BadUserAccessDenied {
            let before = self.0.insert(item, generation);
            before.is_none_or(|before| before < generation).then_some(Turn::Denied)
        } else {
            (!status.is_bad() && self.0.remove(&item).is_some()).then_some(Turn::Permitted)
        }
    }

    /// How many items are denied.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// What the publisher tells the task that fetches tokens.
#[derive(Debug, Default)]
pub(crate) struct Denials {
    wake: Notify,
    /// The newest token that a denial was seen with.
    seen: AtomicU64,
    helped: AtomicBool,
    /// How much of what is watched is denied now.
    standing: AtomicUsize,
}

impl Denials {
    /// Something was denied with the token of this generation.
    pub(crate) fn denied(&self, generation: u64) {
        self.seen.fetch_max(generation, Ordering::AcqRel);
        self.wake.notify_one();
    }

    /// How much is denied now.
    pub(crate) fn stand(&self, number: usize) {
        self.standing.store(number, Ordering::Release);
    }

    /// Something is permitted again.
    pub(crate) fn permitted(&self) {
        self.helped.store(true, Ordering::Release);
    }
}

/// When the next token may be fetched.
struct Pace {
    last: Option<Instant>,
    /// Since the last one.
    pause: Duration,
}

impl Pace {
    const fn new() -> Self {
        Self { last: None, pause: PAUSE.0 }
    }

    /// The time of the next one, given whether the last one helped.
    fn take(&mut self, helped: bool, now: Instant) -> Instant {
        if helped {
            self.pause = PAUSE.0;
        }
        let at = self.last.map_or(now, |last| now.max(last + self.pause));
        if self.last.is_some() {
            self.pause = (self.pause * 2).min(PAUSE.1);
        }
        self.last = Some(at);
        at
    }
}

/// Fetches a fresh token when something that is watched has become denied, and activates the session with it.
pub(crate) async fn freshen(core: Arc<Core>) {
    let mut pace = Pace::new();
    loop {
        core.denials.wake.notified().await;
        let seen = core.denials.seen.load(Ordering::Acquire);
        if seen < core.generation() {
            continue;
        }
        loop {
            sleep_until(pace.take(core.denials.helped.swap(false, Ordering::AcqRel), Instant::now())).await;
            match refresh(&core, seen).await {
                Err(error) if passes(&error) => tracing::debug!(%error, "a denial is not answered yet"),
                Err(error) => {
                    tracing::warn!(%error, "no fresh token after a denial");
                    break;
                }
                Ok(()) => break,
            }
        }
    }
}

async fn refresh(core: &Core, seen: u64) -> Result<(), ClientError> {
    loop {
        match core.refresh(seen).await {
            Err(ClientError::Token(TokenError::AlreadyFresh)) => {
                sleep(AGAIN).await;
                // The token that is so fresh has brought everything back.
                if core.denials.standing.load(Ordering::Acquire) == 0 {
                    return Ok(());
                }
            }
            outcome => return outcome,
        }
    }
}

/// Whether the authority may just be out of reach.
fn passes(error: &ClientError) -> bool {
    matches!(error, ClientError::Token(TokenError::Unreachable { .. } | TokenError::Https(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_counts_when_it_becomes_denied_and_not_while_it_stays_so() {
        let mut denied = Denied::default();
        let no = StatusCode::BadUserAccessDenied;
        for (step, item, status, generation, turn) in [
            (1, 0, StatusCode::Good, 1, None),
            (2, 0, no, 1, Some(Turn::Denied)),
            (3, 0, no, 1, None),
            (4, 0, StatusCode::BadNoCommunication, 1, None),
            (5, 0, no, 1, None),
            (6, 1, no, 1, Some(Turn::Denied)),
            (7, 0, StatusCode::UncertainLastUsableValue, 1, Some(Turn::Permitted)),
            (8, 0, StatusCode::Good, 1, None),
            (9, 0, no, 1, Some(Turn::Denied)),
            (10, 0, no, 2, Some(Turn::Denied)),
            (11, 0, no, 2, None),
        ] {
            assert_eq!(denied.note(item, status, generation), turn, "step {step}");
        }
        assert_eq!(denied.len(), 2);
    }

    #[test]
    fn tokens_that_do_not_help_are_fetched_ever_more_seldom() {
        let start = Instant::now();
        let mut pace = Pace::new();
        let mut at = |helped| (pace.take(helped, start) - start).as_secs();
        assert_eq!([at(false), at(false), at(false), at(false)], [0, 2, 6, 14]);
        assert_eq!((0..8).map(|_| at(false)).last(), Some(14 + 16 + 32 + 60 * 6));
        let before = at(false);
        let (after, next) = (at(true), at(false));
        assert_eq!((after - before, next - after), (2, 4), "one that helped lifts the pause");
        let later = start + Duration::from_secs(3_600);
        assert_eq!(pace.take(false, later), later, "after a quiet time at once");
    }
}
