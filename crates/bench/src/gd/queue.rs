//! The step "a message is written" and "is read" where messages come one right after the other and wait for whoever is slower: over several
//! lines in turn, as the programs take their clients, with other work where theirs would be. Who is a little slower finds nobody asleep; who
//! is much slower has to wake the other each time.

use std::net::SocketAddr;

use super::disturb::Disturb;
use super::message::{Told, ask};
use super::wire::{Line, What};
use crate::Failed;
use crate::clock::{Stopwatch, Timing};
use crate::quiet::Samples;

/// How many times the other work of the faster side the slower one has: little more, so that both are at work nearly all the time, as
/// where tags without security come one after the other. Who sleeps meanwhile leaves lines of the caches to the other.
const FASTER: f64 = 1.2;
/// The same where whoever is faster sleeps meanwhile.
const MUCH_FASTER: f64 = 8.0;
/// Turns of all lines until whoever is slower has all messages before it.
const FILLS: u32 = 2;
/// Times that the sides take turns in being slower.
const TIMES: u32 = 5;

/// Samples of one size of message, seconds.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// Write of a message; the store is at work, or sleeps.
    pub write: [Samples; 2],
    /// Read of a message that is there.
    pub read: Samples,
    /// Write of an answer; the organisation is at work, or sleeps.
    pub answer_write: [Samples; 2],
    /// Read of an answer that is there.
    pub answer_read: Samples,
}

struct Queue {
    lines: Vec<Line>,
    disturb: Disturb,
    body: Vec<u8>,
}

/// Exchanges messages of so many bytes with [`super::message::echo`] over so many lines for about so many seconds; whoever is slower has so many
/// seconds of other work (`work`) for each.
///
/// # Errors
/// The other side is not there.
pub fn exchange(with: SocketAddr, lines: u32, bytes: usize, seconds: f64, work: f64) -> Result<Found, Failed> {
    let lines = (0..lines).map(|_| Line::connect(with)).collect::<Result<Vec<_>, _>>()?;
    let mut this = Queue { lines, disturb: Disturb::small(), body: vec![7; bytes] };
    let mut found = Found::default();
    let part = 0.25 * seconds / f64::from(TIMES);
    for _ in 0..TIMES {
        this.each((work / FASTER, work), part, |write, _, told| {
            found.write[0].push(write);
            found.read.push(told.read);
        })?;
        this.each((work, work / FASTER), part, |_, read, told| {
            found.answer_read.push(read);
            found.answer_write[0].push(told.write);
        })?;
        this.each((work, work / MUCH_FASTER), part, |write, _, _| found.write[1].push(write))?;
        this.each((work / MUCH_FASTER, work), part, |_, _, told| found.answer_write[1].push(told.write))?;
    }
    Ok(found)
}

impl Queue {
    /// Exchanges messages with so much other work of this side and of the other for each, until no answer is left; tells for each the
    /// write, the read of the answer before, and what the other side told with that.
    fn each(
        &mut self,
        (own, theirs): (f64, f64),
        seconds: f64,
        mut seen: impl FnMut(Timing, Timing, Told),
    ) -> Result<(), Failed> {
        ask(&mut self.body, theirs, 0.0);
        for line in &mut self.lines {
            line.send(What::Tag, &[&self.body])?;
        }
        let (all, mut turns) = (Stopwatch::start(), 0);
        loop {
            let goes_on = turns <= FILLS || all.seconds() < seconds;
            for line in &mut self.lines {
                let watch = Stopwatch::start();
                let answer = line.expect(What::Stored)?;
                let read = watch.timing();
                let told = Told::of(answer)?;
                if !goes_on {
                    continue;
                }
                self.disturb.run(own);
                let watch = Stopwatch::start();
                line.send(What::Tag, &[&self.body])?;
                if turns >= FILLS {
                    seen(watch.timing(), read, told);
                }
            }
            if !goes_on {
                return Ok(());
            }
            turns += 1;
        }
    }
}
