//! Deadlines, at most one for each timer. A timer may fire early (its owner moved the deadline on without telling) and
//! is then armed again; it never fires late.

use std::collections::{BTreeMap, BTreeSet};

use access_model::Mono;

use super::ConnId;

/// What a deadline is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The secure channel of a connection.
    Channel(ConnId),
    /// A connection whose peer must have taken bytes by then.
    Deaf(ConnId),
    /// A connection that must have an activated session by then.
    HalfOpen(ConnId),
    /// A session that was not heard of.
    Session(SessionKey),
    /// The subscriptions of a session.
    Subscriptions(SessionKey),
    /// The grant of a session that brings no token.
    Renewal(SessionKey),
    /// A parked request.
    Parked(u64),
    /// A client that is to be called.
    Calling(usize),
    /// A registration of another server that was not renewed.
    Registrations,
    /// The end of the second over which reads and denials are summed up.
    Audit,
}

/// Names a session for as long as the server lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionKey {
    /// Its place in the table.
    pub(crate) slot: usize,
    /// Tells it from earlier sessions in the same place.
    pub(crate) serial: u64,
}

/// The deadlines.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    queue: BTreeSet<(Mono, Timer)>,
    armed: BTreeMap<Timer, Mono>,
}

impl Timers {
    /// Sets the deadline of `timer` to `at`, wherever it was.
    pub(crate) fn set(&mut self, timer: Timer, at: Mono) {
        if let Some(before) = self.armed.insert(timer, at) {
            self.queue.remove(&(before, timer));
        }
        self.queue.insert((at, timer));
    }

    /// Makes sure that `timer` fires no later than `at`.
    pub(crate) fn at_latest(&mut self, timer: Timer, at: Mono) {
        if self.armed.get(&timer).is_none_or(|armed| *armed > at) {
            self.set(timer, at);
        }
    }

    pub(crate) fn clear(&mut self, timer: Timer) {
        if let Some(before) = self.armed.remove(&timer) {
            self.queue.remove(&(before, timer));
        }
    }

    /// The next deadline.
    pub(crate) fn first(&self) -> Option<Mono> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// Takes out one timer that is due.
    pub(crate) fn pop(&mut self, now: Mono) -> Option<Timer> {
        let (at, timer) = self.queue.first().copied()?;
        if at > now {
            return None;
        }
        self.queue.pop_first();
        self.armed.remove(&timer);
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_deadline_a_timer() {
        let mut timers = Timers::default();
        let at = Mono::from_nanos;
        timers.at_latest(Timer::Audit, at(9));
        timers.at_latest(Timer::Audit, at(12));
        assert_eq!(timers.first(), Some(at(9)));
        timers.at_latest(Timer::Audit, at(5));
        timers.set(Timer::Parked(1), at(7));
        assert_eq!(timers.pop(at(4)), None);
        assert_eq!(timers.pop(at(9)), Some(Timer::Audit));
        assert_eq!(timers.pop(at(9)), Some(Timer::Parked(1)));
        assert_eq!(timers.pop(at(99)), None);
        timers.set(Timer::Audit, at(3));
        timers.clear(Timer::Audit);
        assert_eq!(timers.first(), None);
    }
}
