//! The step "a message is sent and answered", apart from everything else: two processes on the two processors, each of which does other
//! work ([`super::disturb`]) where the scenario would do its own.
//!
//! What a write costs depends on whether the other side sleeps and must be woken, what a read costs on whether one sleeps oneself. So there
//! are three ways to take turns: both sleep; only the store has its next message waiting; only the organisation has.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};

use cost::reproduce::here::Pause;
use serde::{Deserialize, Serialize};

use super::disturb::Disturb;
use super::store::Ready;
use super::wire::{Line, What};
use crate::Failed;
use crate::clock::{Stopwatch, Timing, Whose, looking, monotonic};
use crate::quiet::Samples;

/// Batches of which processor times are told at least and at most, and exchanges of each.
const BATCHES: (f64, f64) = (5.0, 20.0);
const OF_BATCH: u32 = 10;
/// Seconds of an exchange beside its pauses, about.
const EXCHANGE: f64 = 25e-6;
/// Seconds of a message and its answer, about.
const MESSAGES: f64 = 16e-6;
/// Messages of each line that do not count.
const FIRST: usize = 3;

/// Looks at the clock for an exchange that are none of a tag: between the write of its message and the read of the answer, of the processor of
/// the organisation, and of the store. The organisation of a tag looks twice, too.
const LOOKS: (f64, f64, f64) = (1.0, 3.0, 4.0);

/// How the two take turns; times are seconds of other work.
#[derive(Debug, Clone, Copy, Default)]
struct Way {
    /// Before a message is sent.
    before: f64,
    /// Between sending it and looking for the answer.
    after: f64,
    /// Of the other side, between message and answer.
    between: f64,
    /// Of the other side, between answer and looking for the next message.
    then: f64,
}

const BOTH_SLEEP: Way = Way { before: 150e-6, after: 0.0, between: 80e-6, then: 0.0 };
const STORE_BUSY: Way = Way { before: 20e-6, after: 0.0, between: 30e-6, then: 120e-6 };
const ORGANISATION_BUSY: Way = Way { before: 20e-6, after: 150e-6, between: 30e-6, then: 0.0 };

impl Way {
    /// The same with so much time from one message to the next: where it is less than all parts take, messages included, these are shorter; where it is
    /// more, whoever waits least waits so long.
    fn after(self, pause: Option<Pause>) -> Self {
        let Some(pause) = pause.map(Pause::seconds) else { return self };
        let Self { before, after, between, then } = self;
        let all = before + after + between + then;
        let shorter = ((pause - MESSAGES) / all).max(0.0);
        let longest = before.max(after).max(then);
        let part = |part: f64| {
            if shorter < 1.0 {
                part * shorter
            } else if part == longest {
                pause
            } else {
                part
            }
        };
        Self { before: part(before), after: part(after), between: between * shorter.min(1.0), then: part(then) }
    }
}

/// What the other side tells with each answer, seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Told {
    /// Of other work between message and answer.
    pub(super) between: f64,
    /// The read of this message.
    pub(super) read: Timing,
    /// The write of the answer before.
    pub(super) write: Timing,
}

impl Told {
    /// What stands in an answer.
    pub(super) fn of(answer: &[u8]) -> Result<Self, Failed> {
        let timing =
            |at| Ok::<_, Failed>(Timing { end: number(answer, at)?.to_bits(), seconds: number(answer, at + 1)? });
        Ok(Self { between: number(answer, 0)?, read: timing(1)?, write: timing(3)? })
    }

    /// From the read of the message until the write of its answer.
    const fn between(&self) -> (u64, u64) {
        (self.read.end, self.read.end + (self.between * 1e9) as u64)
    }
}

/// Writes into a message how many seconds of other work the other side shall have before its answer and after it.
pub(super) fn ask(body: &mut Vec<u8>, between: f64, then: f64) {
    body.resize(body.len().max(16), 0);
    if let Some(head) = body.first_chunk_mut::<16>() {
        head[..8].copy_from_slice(&between.to_le_bytes());
        head[8..].copy_from_slice(&then.to_le_bytes());
    }
}

/// Samples of one size of message, seconds.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// Write of a message; the store sleeps.
    pub write: Samples,
    /// Read of a message that is there.
    pub read: Samples,
    /// Write of an answer; the organisation sleeps.
    pub answer_write: Samples,
    /// Read of an answer that is there.
    pub answer_read: Samples,
    /// Write of a message; the store is at work.
    pub write_awake: Samples,
    /// Write of an answer; the organisation is at work.
    pub answer_write_awake: Samples,
    /// From before the write of the message until after the read of the answer, without what the store did between; both slept.
    pub round: Samples,
    /// Seconds that these took with all that was between them, in which one of the two waited for the other.
    pub waited: f64,
    /// Processor seconds of a write and a read of the organisation that slept between them, one value for each batch.
    pub organisation: Samples,
    /// The same of the store.
    pub store: Samples,
}

/// Exchanges messages of so many bytes with [`echo`] over so many lines in turn, for about so many seconds; with longer pauses between two of
/// them, if so.
///
/// # Errors
/// The other side is not there.
pub fn exchange(
    with: SocketAddr,
    lines: u32,
    bytes: usize,
    seconds: f64,
    after: Option<Pause>,
) -> Result<Found, Failed> {
    let [both_sleep, store_busy, organisation_busy] =
        [BOTH_SLEEP, STORE_BUSY, ORGANISATION_BUSY].map(|way| way.after(after));
    let lines = (0..lines).map(|_| Line::connect(with)).collect::<Result<Vec<_>, _>>()?;
    let disturb = disturb(after.is_some_and(Pause::is_brief));
    let mut this = Exchange { lines, next: 0, disturb, worked: 0.0, body: vec![7; bytes] };
    let mut found = Found::default();
    // The first messages are slower than all others, and so are those of each line.
    for _ in 0..FIRST * this.lines.len() {
        this.one(Way::default(), &mut |_, _, _, _| ())?;
    }
    this.each(both_sleep, 0.1 * seconds, |_, _, _, _| ())?;
    let time = 0.6 * seconds;
    let (least, most) = BATCHES;
    let each = f64::from(OF_BATCH) * (EXCHANGE + both_sleep.before + both_sleep.between);
    let batches = (time / each).floor().clamp(least, most);
    for _ in 0..batches as u32 {
        let theirs = this.accounts()?;
        let (own, worked) = (Whose::Process.cpu(), this.worked);
        let (watch, from, mut count) = (Stopwatch::start(), monotonic(), 0_u32);
        this.each(both_sleep, time / batches, |write, _, round, told| {
            count += 1;
            let begun = round.end.saturating_sub((round.seconds * 1e9) as u64);
            found.write.push(write);
            found.answer_write.push(told.write);
            let seconds = round.seconds - told.between - LOOKS.0 * looking();
            found.round.without((begun, round.end), told.between(), seconds);
        })?;
        let spent = Whose::Process.cpu() - own - (this.worked - worked);
        found.waited += watch.seconds();
        let span = (from, monotonic());
        let end = this.accounts()?;
        found.organisation.add(span, (spent / f64::from(count) - LOOKS.1 * looking()).max(0.0));
        // The answer to the question for the accounts is one more.
        found.store.add(span, ((end - theirs) / f64::from(count + 1) - LOOKS.2 * looking()).max(0.0));
    }
    this.each(store_busy, 0.15 * seconds, |write, _, _, told| {
        found.write_awake.push(write);
        found.read.push(told.read);
    })?;
    this.each(organisation_busy, 0.15 * seconds, |_, read, _, told| {
        found.answer_read.push(read);
        found.answer_write_awake.push(told.write);
    })?;
    // The other side tells of a write with its next answer, and the first of a way finds the other side as the way before left it.
    for samples in [&mut found.answer_write, &mut found.read, &mut found.write_awake] {
        samples.skip(1);
    }
    found.answer_write_awake.skip(2);
    Ok(found)
}

/// Other work, that leaves a part of the caches to messages where there is little of it.
fn disturb(brief: bool) -> Disturb {
    if brief { Disturb::small() } else { Disturb::new() }
}

struct Exchange {
    lines: Vec<Line>,
    /// Whose turn it is.
    next: usize,
    disturb: Disturb,
    /// Processor seconds of other work so far.
    worked: f64,
    body: Vec<u8>,
}

impl Exchange {
    /// Exchanges messages for so long, at least ten; for each the write, the read, both with all between, and what the other side told.
    fn each(
        &mut self,
        way: Way,
        seconds: f64,
        mut seen: impl FnMut(Timing, Timing, Timing, Told),
    ) -> Result<(), Failed> {
        let (all, mut count) = (Stopwatch::start(), 0);
        while count < OF_BATCH || all.seconds() < seconds {
            count += 1;
            self.one(way, &mut seen)?;
        }
        Ok(())
    }

    fn one(&mut self, way: Way, seen: &mut dyn FnMut(Timing, Timing, Timing, Told)) -> Result<(), Failed> {
        ask(&mut self.body, way.between, way.then);
        if way.before > 0.0 {
            self.worked += self.disturb.work(way.before).1;
        }
        let next = self.turn();
        let line = &mut self.lines[next];
        let watch = Stopwatch::start();
        line.send(What::Tag, &[&self.body])?;
        let written = watch.timing();
        if way.after > 0.0 {
            self.worked += self.disturb.work(way.after).1;
        }
        let reads = Stopwatch::start();
        let answer = line.expect(What::Stored)?;
        let read = reads.timing();
        let round = Timing { end: read.end, seconds: watch.until(read.end) };
        seen(written, read, round, Told::of(answer)?);
        Ok(())
    }

    /// The next line.
    fn turn(&mut self) -> usize {
        let this = self.next;
        self.next = (this + 1) % self.lines.len();
        this
    }

    /// Processor seconds of the other side without its other work.
    fn accounts(&mut self) -> Result<f64, Failed> {
        let next = self.turn();
        let line = &mut self.lines[next];
        line.send(What::Accounts, &[])?;
        number(line.expect(What::Accounts)?, 0)
    }
}

fn number(bytes: &[u8], index: usize) -> Result<f64, Failed> {
    let eight = bytes.get(8 * index..8 * index + 8).ok_or("a message that is too short")?;
    Ok(f64::from_le_bytes(eight.try_into()?))
}

/// What the other side is told.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Echo {
    /// So many lines, each of which is answered in turn.
    pub lines: u32,
    /// Whether it has little to do between two messages.
    pub brief: bool,
}

/// The other side: answers until whoever asks has gone.
///
/// # Errors
/// Anything that is not as it should be.
pub fn echo(told: Echo) -> Result<(), Failed> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", serde_json::to_string(&Ready { port: listener.local_addr()?.port(), backend: None })?);
    std::io::stdout().flush()?;
    let mut disturb = disturb(told.brief);
    let mut lines = (0..told.lines).map(|_| Line::accept(&listener)).collect::<Result<Vec<_>, _>>()?;
    let (mut worked, mut write) = (0.0, Timing::default());
    loop {
        for line in &mut lines {
            let watch = Stopwatch::start();
            let Some((what, body)) = line.receive()? else { return Ok(()) };
            let read = watch.timing();
            if what == What::Accounts {
                let spent = Whose::Process.cpu() - worked;
                line.send(What::Accounts, &[&spent.to_le_bytes()])?;
                continue;
            }
            let (between, then) = (number(body, 0)?, number(body, 1)?);
            let (between, spent) = if between > 0.0 { disturb.work(between) } else { (0.0, 0.0) };
            let watch = Stopwatch::start();
            let of = |it: Timing| [it.end.to_le_bytes(), it.seconds.to_le_bytes()];
            line.send(What::Stored, &[&between.to_le_bytes(), of(read).as_flattened(), of(write).as_flattened()])?;
            write = watch.timing();
            worked += spent;
            if then > 0.0 {
                worked += disturb.work(then).1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_and_the_messages_find_room_in_a_short_pause_and_whoever_waits_least_waits_for_a_long_one() {
        let parts = |Way { before, after, between, then }: Way| [before, after, between, then];
        for way in [BOTH_SLEEP, STORE_BUSY, ORGANISATION_BUSY] {
            let short = parts(way.after(Some(Pause::SHORT)));
            assert!((short.iter().sum::<f64>() + MESSAGES - 50e-6).abs() < 1e-12, "{short:?}");
            let long = parts(way.after(Some(Pause::LONGEST)));
            let unlike = long.iter().zip(parts(way)).filter(|(long, part)| **long != *part);
            assert_eq!(unlike.map(|(long, _)| *long).collect::<Vec<_>>(), [1.5e-3], "{long:?}");
            assert_eq!(parts(way.after(None)), parts(way));
        }
    }
}
