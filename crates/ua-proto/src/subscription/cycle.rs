//! The publishing cycle of one subscription: the state table of OPC 10000-4 §5.14.1.2 without its side effects.
//!
//! One deviation, as the test tool of the OPC Foundation wants it: the cycle in which a subscription falls into the
//! keep-alive state already counts, so that a keep-alive follows a message after exactly `keep_alive` quiet cycles.

use std::time::Duration;

use access_model::Mono;

/// The states Normal, Late and KeepAlive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Normal,
    /// Something was to be sent and no Publish request was there.
    Late,
    KeepAlive,
}

/// What the end of a publishing interval asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Nothing,
    SendNotifications,
    SendKeepAlive,
    /// The client was not heard of for the whole lifetime.
    Expire,
}

pub(super) struct Cycle {
    interval: Duration,
    lifetime: u32,
    keep_alive: u32,
    next: Mono,
    phase: Phase,
    /// Whether any message was ever sent: the first cycle always sends one.
    sent: bool,
    lifetime_left: u32,
    quiet_left: u32,
}

impl Cycle {
    pub(super) fn start(interval: Duration, lifetime: u32, keep_alive: u32, now: Mono) -> Self {
        Self {
            interval,
            lifetime,
            keep_alive,
            next: now + interval,
            phase: Phase::Normal,
            sent: false,
            lifetime_left: lifetime,
            quiet_left: keep_alive,
        }
    }

    pub(super) fn modify(&mut self, interval: Duration, lifetime: u32, keep_alive: u32, now: Mono) {
        (self.interval, self.lifetime, self.keep_alive) = (interval, lifetime, keep_alive);
        self.next = now + interval;
        self.lifetime_left = lifetime;
        self.quiet_left = self.quiet_left.min(keep_alive);
    }

    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    pub(super) fn next(&self) -> Mono {
        self.next
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// The client showed that it lives.
    pub(super) fn client_seen(&mut self) {
        self.lifetime_left = self.lifetime;
    }

    /// A message with notifications left.
    pub(super) fn notified(&mut self) {
        (self.phase, self.sent, self.lifetime_left) = (Phase::Normal, true, self.lifetime);
    }

    /// A keep-alive left.
    pub(super) fn kept_alive(&mut self) {
        (self.phase, self.sent, self.lifetime_left) = (Phase::KeepAlive, true, self.lifetime);
        self.quiet_left = self.keep_alive;
    }

    /// The publishing timer expired. `available`: publishing is enabled and there are notifications; `requested`: a
    /// Publish request waits.
    pub(super) fn tick(&mut self, now: Mono, available: bool, requested: bool) -> Step {
        self.restart(now);
        if requested {
            self.lifetime_left = self.lifetime;
        } else {
            self.lifetime_left = self.lifetime_left.saturating_sub(1);
            if self.lifetime_left == 0 {
                return Step::Expire;
            }
        }
        if self.phase == Phase::Late {
            return Step::Nothing;
        }
        if available {
            return self.send_or_wait(requested, Step::SendNotifications);
        }
        if !self.sent {
            return self.send_or_wait(requested, Step::SendKeepAlive);
        }
        if self.phase == Phase::Normal {
            (self.phase, self.quiet_left) = (Phase::KeepAlive, self.keep_alive);
        }
        if self.quiet_left <= 1 {
            return self.send_or_wait(requested, Step::SendKeepAlive);
        }
        self.quiet_left -= 1;
        Step::Nothing
    }

    fn send_or_wait(&mut self, requested: bool, step: Step) -> Step {
        if requested {
            return step;
        }
        self.phase = Phase::Late;
        Step::Nothing
    }

    /// The next interval on the grid of the timer; intervals that passed unseen (a stopped process) are not made up for.
    fn restart(&mut self, now: Mono) {
        self.next = self.next + self.interval;
        if self.next <= now {
            self.next = now + self.interval;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn cycle(phase: Phase, sent: bool, quiet_left: u32) -> Cycle {
        let mut cycle = Cycle::start(SECOND, 30, 5, Mono::ZERO);
        (cycle.phase, cycle.sent, cycle.quiet_left) = (phase, sent, quiet_left);
        cycle
    }

    /// The rows of the state table that the publishing timer drives. `available` stands for "publishing enabled and
    /// notifications available"; a disabled subscription is the `false` column.
    #[test]
    fn rows_of_the_publishing_timer() {
        use Phase::{KeepAlive, Late, Normal};
        use Step::{Nothing, SendKeepAlive, SendNotifications};
        // row, phase, sent before, quiet cycles left, available, requested => step, phase after
        let rows = [
            ("6", Normal, true, 5, true, true, SendNotifications, Normal),
            ("6 first", Normal, false, 5, true, true, SendNotifications, Normal),
            ("7", Normal, false, 5, false, true, SendKeepAlive, Normal),
            ("8 first", Normal, false, 5, false, false, Nothing, Late),
            ("8", Normal, true, 5, true, false, Nothing, Late),
            ("9", Normal, true, 1, false, true, Nothing, KeepAlive),
            ("9 no request", Normal, true, 1, false, false, Nothing, KeepAlive),
            ("12", Late, true, 5, true, false, Nothing, Late),
            ("12 quiet", Late, true, 5, false, false, Nothing, Late),
            ("14", KeepAlive, true, 3, true, true, SendNotifications, KeepAlive),
            ("15", KeepAlive, true, 1, false, true, SendKeepAlive, KeepAlive),
            ("16", KeepAlive, true, 3, false, true, Nothing, KeepAlive),
            ("16 no request", KeepAlive, true, 3, false, false, Nothing, KeepAlive),
            ("17 due", KeepAlive, true, 1, false, false, Nothing, Late),
            ("17 available", KeepAlive, true, 3, true, false, Nothing, Late),
        ];
        for (row, phase, sent, quiet, available, requested, step, after) in rows {
            let mut cycle = cycle(phase, sent, quiet);
            assert_eq!(cycle.tick(Mono::ZERO + SECOND, available, requested), step, "row {row}");
            assert_eq!(cycle.phase, after, "row {row}");
        }
    }

    #[test]
    fn row_27_the_lifetime_counts_cycles_without_a_request() {
        let mut cycle = Cycle::start(SECOND, 3, 1, Mono::ZERO);
        let mut now = Mono::ZERO;
        let mut tick = |cycle: &mut Cycle, requested| {
            now = now + SECOND;
            cycle.tick(now, false, requested)
        };
        assert_eq!(tick(&mut cycle, false), Step::Nothing);
        assert_eq!(tick(&mut cycle, false), Step::Nothing);
        cycle.client_seen();
        assert_eq!(tick(&mut cycle, false), Step::Nothing);
        assert_eq!(tick(&mut cycle, false), Step::Nothing);
        assert_eq!(tick(&mut cycle, false), Step::Expire);
    }

    #[test]
    fn a_keep_alive_follows_after_exactly_the_agreed_number_of_quiet_cycles() {
        for keep_alive in [1, 2, 5] {
            let mut cycle = Cycle::start(SECOND, 30, keep_alive, Mono::ZERO);
            cycle.notified();
            for _ in 0..3 {
                for _ in 1..keep_alive {
                    assert_eq!(cycle.tick(Mono::ZERO, false, true), Step::Nothing, "{keep_alive}");
                }
                assert_eq!(cycle.tick(Mono::ZERO, false, true), Step::SendKeepAlive, "{keep_alive}");
                cycle.kept_alive();
            }
        }
    }

    #[test]
    fn the_timer_stays_on_its_grid_and_never_in_the_past() {
        let mut cycle = Cycle::start(SECOND, 30, 5, Mono::ZERO);
        let late = Mono::ZERO + Duration::from_millis(1_300);
        cycle.tick(late, false, true);
        assert_eq!(cycle.next(), Mono::ZERO + SECOND * 2);
        let stopped = Mono::ZERO + SECOND * 60;
        cycle.tick(stopped, false, true);
        assert_eq!(cycle.next(), stopped + SECOND);
    }
}
