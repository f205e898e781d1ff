//! How one step is timed.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Failed;
use crate::clock::{self, Stopwatch, Timing, Whose};
use crate::gd::disturb::Disturb;
use crate::quiet::{self, Quiet};

/// Seconds that one timing should take at least: a thousand times what reading the clocks takes.
const LONG: f64 = 0.5e-3;
/// The most uses in one timing.
const MOST: f64 = 1e6;
/// Share of the time that goes by before the first timing counts.
const WARM_UP: f64 = 0.2;
/// Timings are taken until there are so many, whatever time it takes.
const LEAST: usize = 3;

/// Times of single uses of a step, each the mean of a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timings {
    /// Uses in a batch.
    pub batch: u64,
    /// Seconds of processor time, user and system.
    pub cpu: Vec<f64>,
    /// Seconds on the clock.
    pub wall: Vec<f64>,
    /// When each batch began and ended, nanoseconds of the monotonic clock.
    pub spans: Vec<(u64, u64)>,
    /// Who computes meanwhile.
    pub computes: Computes,
}

/// Who computes while something is timed: looks at the processors ([`crate::quiet`]) stop nobody else.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Computes {
    /// Whoever is timed, as long as processor time says.
    Accounted,
    /// Whoever is timed, all the time: processor time is what the clock said.
    Always,
    /// One end or the other at any time, and whoever is timed so many seconds more for each use, which are not in its times.
    Either(f64),
}

impl Timings {
    /// Of batches of so many uses; none was taken yet.
    #[must_use]
    pub const fn of(batch: u64) -> Self {
        Self { batch, cpu: Vec::new(), wall: Vec::new(), spans: Vec::new(), computes: Computes::Accounted }
    }

    /// Of single uses of which each was timed by the clock; none was taken yet.
    #[must_use]
    pub fn alone() -> Self {
        Self { computes: Computes::Always, ..Self::of(1) }
    }

    /// A single use, timed by the clock.
    pub fn push_alone(&mut self, Timing { end, seconds }: Timing) {
        self.cpu.push(seconds);
        self.wall.push(seconds);
        self.spans.push((end.saturating_sub((seconds * 1e9) as u64), end));
    }

    /// A batch that has just ended, in seconds of a use.
    pub fn push(&mut self, cpu: f64, wall: f64) {
        let now = clock::monotonic();
        self.cpu.push(cpu);
        self.wall.push(wall);
        self.spans.push((now.saturating_sub((wall * self.batch as f64 * 1e9) as u64), now));
    }

    /// Those that count (see [`quiet::choose`]), without the looks in them, by the usual clock.
    #[must_use]
    pub fn counting(&self, quiet: &Quiet) -> Self {
        let places = quiet::choose(&self.spans, quiet).once();
        let of = |all: &[f64]| places.iter().map(|place| all[*place]).collect::<Vec<f64>>();
        let (cpu, wall) = (of(&self.cpu), of(&self.wall));
        let spans: Vec<(u64, u64)> = places.iter().map(|place| self.spans[*place]).collect();
        let stopped = |(span, (cpu, wall)): (&(u64, u64), (&f64, &f64))| {
            let looking = quiet.looking(*span) / self.batch as f64;
            if self.computes == Computes::Accounted { looking * (cpu / wall.max(1e-12)).min(1.0) } else { looking }
        };
        let looking: Vec<f64> = spans.iter().zip(cpu.iter().zip(&wall)).map(stopped).collect();
        let mut cpu = match self.computes {
            Computes::Always => quiet::without(&cpu, &looking),
            Computes::Either(besides) => cpu.iter().map(|cpu| (quiet.own(cpu + besides) - besides).max(0.0)).collect(),
            Computes::Accounted => cpu.iter().map(|cpu| quiet.own(*cpu)).collect(),
        };
        let mut wall = quiet::without(&wall, &looking);
        for ((span, cpu), wall) in spans.iter().zip(&mut cpu).zip(&mut wall) {
            let pace = quiet.pace(*span);
            (*cpu, *wall) = (*cpu * pace, *wall * pace);
        }
        Self { cpu, wall, spans, ..*self }
    }
}

/// Seconds of other work between two steps of a message.
pub(super) const OTHER: f64 = 1.5e-6;
/// Seconds of other work between two uses that are timed one by one: about as many as a message takes, so long is it since the last one
/// was protected.
pub(super) const APART: f64 = 25e-6;

/// The same, where each use is timed alone and finds caches and branch predictors as other work has left them; for what takes microseconds.
///
/// # Errors
/// What it says.
pub fn timed_among_others(time: Duration, mut once: super::Once) -> Result<Timings, Failed> {
    let (watch, time, mut disturb) = (Stopwatch::start(), time.as_secs_f64(), Disturb::new());
    while watch.seconds() < WARM_UP * time {
        disturb.run(APART);
        once()?;
    }
    let mut timings = Timings::alone();
    while timings.cpu.len() < LEAST || watch.seconds() < time {
        disturb.run(APART);
        let wall = Stopwatch::start();
        once()?;
        timings.push_alone(wall.timing());
    }
    Ok(timings)
}

/// Does something again and again for about so long. What comes first is not counted.
///
/// # Errors
/// What it says.
pub fn timed(time: Duration, whose: Whose, mut once: super::Once) -> Result<Timings, Failed> {
    let (watch, time) = (Stopwatch::start(), time.as_secs_f64());
    let mut uses = 0.0;
    while uses == 0.0 || (watch.seconds() < WARM_UP * time && uses < MOST) {
        once()?;
        uses += 1.0;
    }
    let batch = (LONG / (watch.seconds() / uses)).clamp(1.0, MOST).ceil() as u64;
    let mut timings = Timings::of(batch);
    while timings.cpu.len() < LEAST || watch.seconds() < time {
        let (wall, cpu) = (Stopwatch::start(), whose.cpu());
        for _ in 0..batch {
            once()?;
        }
        let cpu = whose.cpu() - cpu;
        timings.push(cpu / batch as f64, wall.seconds() / batch as f64);
    }
    Ok(timings)
}

/// Does something so often, each time by itself, and the first counts: for what takes so long that nothing need be warm for it.
///
/// # Errors
/// What it says.
pub fn timed_so_often(count: usize, mut once: super::Once) -> Result<Timings, Failed> {
    let mut timings = Timings::of(1);
    for _ in 0..count {
        let (wall, cpu) = (Stopwatch::start(), Whose::Thread.cpu());
        once()?;
        timings.push(Whose::Thread.cpu() - cpu, wall.seconds());
    }
    Ok(timings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quiet::tests::looks;
    use crate::quiet::{Around, PERIOD};

    #[test]
    fn what_takes_long_is_timed_as_often_as_asked_and_no_more() {
        let count = std::rc::Rc::new(std::cell::Cell::new(0));
        let done = std::rc::Rc::clone(&count);
        let once = Box::new(move || {
            done.set(done.get() + 1);
            Ok(())
        });
        let timings = timed_so_often(3, once).unwrap();
        assert_eq!((count.get(), timings.batch, timings.cpu.len(), timings.wall.len()), (3, 1, 3, 3));
    }

    /// Looks of 20 us, half of which is accounted to who is stopped, in timings of 2 ms.
    #[test]
    fn looks_are_left_out_of_who_was_stopped_by_them() {
        let mut looks = looks(&".".repeat(400));
        looks.iter_mut().for_each(|look| look.lasted = 12_000);
        let quiet = Quiet::of(&[looks], Around { before: 5_000, after: 3_000, accounted: 10_000 });
        for (rule, computes, batch, cpu, wall, wanted) in [
            ("timed by the clock", Computes::Always, 1, 2e-3, 2e-3, (1.96e-3, 1.96e-3)),
            ("who computes", Computes::Accounted, 1, 1.98e-3, 2e-3, (1.98e-3 * 0.99, 2e-3 - 0.99 * 40e-6)),
            ("who waits for the disk", Computes::Accounted, 1, 40e-6, 2e-3, (40e-6 * 0.99, 2e-3 - 0.02 * 40e-6)),
            ("many uses", Computes::Accounted, 100, 20e-6, 20e-6, (19.8e-6, 19.6e-6)),
            ("one of two ends", Computes::Either(5e-6), 100, 10e-6, 20e-6, (9.85e-6, 19.6e-6)),
        ] {
            let mut timings = Timings { computes, ..Timings::of(batch) };
            for tick in (110..480).step_by(7) {
                let from = tick * PERIOD + 500_000;
                timings.spans.push((from, from + 2 * PERIOD));
                timings.cpu.push(cpu);
                timings.wall.push(wall);
            }
            let found = timings.counting(&quiet);
            let close = |times: &[f64], wanted: f64| times.iter().all(|time| (time - wanted).abs() < 1e-9 * 0.1);
            assert!(
                found.cpu.len() > 10 && close(&found.cpu, wanted.0) && close(&found.wall, wanted.1),
                "{rule}: {found:?}"
            );
        }
    }

    #[test]
    fn what_fails_is_not_timed() {
        let mut left = 10;
        let once = Box::new(move || {
            left -= 1;
            if left > 0 { Ok(()) } else { Err("over".into()) }
        });
        assert!(timed(Duration::from_secs(1), Whose::Thread, once).is_err());
    }

    #[test]
    fn a_step_that_waits_uses_no_processor() {
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let once = Box::new(move || {
            let _waited = receive.recv_timeout(Duration::from_millis(5));
            let _kept = &send;
            Ok(())
        });
        let timings = timed(Duration::from_millis(1), Whose::Thread, once).unwrap();
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
        assert!(mean(&timings.wall) >= 0.004 && mean(&timings.cpu) < mean(&timings.wall));
    }
}
