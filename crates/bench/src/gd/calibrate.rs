//! Every step that the predictions of some rows need, timed one by one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cost::calibration::{Calibration, SCHEMA, Step, fit};
use cost::reproduce::here::Pause;

use super::launch::{Launch, Listening};
use super::message::Echo;
use super::steps::{Beside, Spec, What};
use super::{Configuration, Kind, Scenario, tag};
use crate::distance::States;
use crate::known::Known;
use crate::quiet::{Probes, quietest};
use crate::steps::{machine, versions};
use crate::{Failed, clock};

/// An insert is timed so many times as long as other steps: checkpoints come now and then.
const OF_INSERTS: f64 = 3.0;
/// Signatures are most of what a tag takes, so that it counts most how exactly they are known.
const OF_SIGNATURES: f64 = 3.0;
/// A message takes turns in three ways.
const OF_MESSAGES: f64 = 5.0;
/// Those over several lines are timed for less long: there are more of them.
const OF_LINES: f64 = 3.0;
/// What others take they take now and then.
const OF_LOST: f64 = 5.0;
/// Times without a step, after which it is timed once more; those of messages.
const AFTER: [Pause; 2] = [Pause::LONG, Pause::LONGEST];
const ASLEEP: [Pause; 2] = [Pause::REST, Pause::SLEEP];
const ASLEEP_INSERTS: [Pause; 3] = [Pause::REST, Pause::DOZE, Pause::SLEEP];
const AFTER_MESSAGES: [Pause; 2] = [Pause::SHORT, Pause::LONGEST];
/// Those of messages that go over as many lines as there are clients.
const AMONG: [Option<Pause>; 3] = [None, Some(Pause::QUEUED), Some(Pause::LONGEST)];
/// Steps whose times grow with the bytes along a line.
const LINES: [&str; 9] = [
    "write message",
    "write message-awake",
    "read message",
    "write answer",
    "write answer-awake",
    "read answer",
    "exchange message",
    "exchange organisation",
    "exchange store",
];

/// Where steps are timed.
#[derive(Debug)]
pub struct Bench<'a> {
    /// How the processes are started.
    pub launch: &'a Launch,
    /// The organisation's processor and the store's.
    pub processors: (usize, usize),
    /// Where the keys are.
    pub keys: &'a Path,
    /// Where each database is.
    pub databases: &'a [(Kind, PathBuf)],
    /// Seconds for a step.
    pub seconds: f64,
    /// Shorter than it should be.
    pub quick: bool,
    /// Who looks whether somebody else computes on the processors.
    pub probes: Option<&'a Probes>,
    /// How often a step that met others is timed at most.
    pub tries: u32,
}

/// Steps as a calibration.
///
/// # Errors
/// They are none.
pub fn calibration(steps: Vec<Step>, quick: bool) -> Result<Calibration, Failed> {
    let law = |name: &&str| fit(&steps.iter().filter(|step| step.name() == **name).collect::<Vec<_>>());
    let laws = LINES.iter().filter_map(law).collect();
    let calibration = Calibration {
        schema: SCHEMA,
        taken: clock::today(),
        machine: machine(),
        versions: versions(),
        quick,
        others: 0.0,
        steps,
        laws,
    };
    calibration.check()?;
    Ok(calibration)
}

impl Bench<'_> {
    /// Times every step that these rows need, each in a process of its own.
    ///
    /// # Errors
    /// A step cannot be timed.
    pub fn calibrate(&self, rows: &[Scenario], states: &mut States, known: &mut Known) -> Result<(), Failed> {
        let (organisation, store) = self.processors;
        let waker = self.launch.start(organisation, "waker", &())?;
        let keys: BTreeSet<u32> = rows.iter().map(|row| row.key).filter(|key| *key > 0).collect();
        let clients: BTreeSet<u32> = rows.iter().map(|row| row.clients).filter(|clients| *clients > 1).collect();
        let encrypts = rows.iter().any(|row| row.configuration == Configuration::Sc2);
        let tag = tag::bytes() as u64;
        let mut steps = Steps { bench: self, organisation, store, waker, tag, keys, clients, encrypts, states, known };
        steps.lost()?;
        steps.of_tags()?;
        steps.of_exchanges()?;
        steps.of_messages()?;
        steps.of_inserts()?;
        steps.after_pauses()?;
        steps.of_many_clients()
    }

    fn ask(&self, it: &Timed<'_>, waker: &Listening) -> Result<Vec<Step>, Failed> {
        let Timed { what, bytes, after, lines, .. } = *it;
        let (keys, database) = (self.keys.to_owned(), it.database.to_owned());
        let hears = after.is_some_and(Pause::is_asleep) || matches!(what, What::Insert(_));
        let waker = hears.then(|| waker.at());
        let seconds = self.seconds * it.times;
        // What others have to do with is of both processors.
        let looks = self.probes.map(|probes| match what {
            _ if it.is_alone() => probes.looks().only(it.at),
            What::Message(_) => probes.looks().clone(),
            _ => probes.looks().working(it.at),
        });
        let spec = Spec { what, bytes, seconds, after, lines, waker, keys, database, looks };
        self.launch.ask(it.at, "step", &spec)
    }
}

/// How a step is timed.
#[derive(Debug, Clone, Copy)]
struct Timed<'a> {
    /// On this processor.
    at: usize,
    what: What,
    bytes: u64,
    /// So many times as long as steps are.
    times: f64,
    after: Option<Pause>,
    lines: u32,
    database: &'a Path,
}

impl Timed<'_> {
    /// Whether nothing happens on the other processor.
    fn is_alone(&self) -> bool {
        let others = matches!(self.what, What::Message(_) | What::Neighbour(..) | What::Insert(_));
        !others && !self.after.is_some_and(Pause::is_asleep)
    }
}

/// As most steps are: for as long as usual, with nothing between two of it but other work.
fn timed(at: usize, what: What, bytes: u64) -> Timed<'static> {
    Timed { at, what, bytes, times: 1.0, after: None, lines: 1, database: Path::new("") }
}

/// The steps of these rows, as far as they were timed.
struct Steps<'a> {
    bench: &'a Bench<'a>,
    organisation: usize,
    store: usize,
    /// Ends the sleep of steps that are timed after one, and has messages for inserts.
    waker: Listening,
    /// Bytes of a tag.
    tag: u64,
    /// Sizes of keys, bits.
    keys: BTreeSet<u32>,
    /// Numbers of clients above one.
    clients: BTreeSet<u32>,
    encrypts: bool,
    states: &'a mut States,
    known: &'a mut Known,
}

impl Steps<'_> {
    /// Times something, and keeps what was found as of the state in which it was; where the machine changed that meanwhile, it is timed again.
    fn take(&mut self, it: Timed<'_>) -> Result<(), Failed> {
        let Self { bench, states, known, waker, .. } = self;
        let (state, (quiet, found)) =
            states.within(|| quietest(bench.probes, bench.tries, || bench.ask(&it, waker)))?;
        known.keep(state, quiet, found);
        Ok(())
    }

    /// Messages of so many bytes.
    fn messages(&mut self, bytes: u64, lines: u32, after: Option<Pause>, times: f64) -> Result<(), Failed> {
        let told = Echo { lines, brief: after.is_some_and(Pause::is_brief) };
        let Self { bench, states, known, waker, organisation, store, .. } = self;
        let mut exchange = || {
            let echo = bench.launch.start(*store, "echo", &told)?;
            let message = timed(*organisation, What::Message(echo.at()), bytes);
            let found = bench.ask(&Timed { lines, after, times, ..message }, waker)?;
            echo.end()?;
            Ok(found)
        };
        let (state, (quiet, found)) = states.within(|| quietest(bench.probes, bench.tries, &mut exchange))?;
        known.keep(state, quiet, found);
        Ok(())
    }

    /// Inserts of so many bytes into each database.
    fn inserts(&mut self, bytes: u64, after: Option<Pause>) -> Result<(), Failed> {
        for (kind, database) in self.bench.databases {
            let insert = timed(self.store, What::Insert(*kind), bytes);
            self.take(Timed { after, database, times: OF_INSERTS, ..insert })?;
        }
        Ok(())
    }

    /// Bytes of a tag with the signature by keys of so many bits.
    fn signed(&self, bits: u32) -> u64 {
        self.tag + u64::from(bits / 8)
    }

    /// The same with the smallest keys, if there are any.
    fn shortest(&self) -> u64 {
        self.signed(self.keys.first().copied().unwrap_or(0))
    }

    /// What others take of the processors, and these of each other.
    fn lost(&mut self) -> Result<(), Failed> {
        self.take(Timed { times: OF_LOST, ..timed(self.organisation, What::Lost, 0) })?;
        let beside = What::Neighbour(self.store, self.keys.first().map_or(Beside::Other, |bits| Beside::Sign(*bits)));
        self.take(Timed { times: OF_MESSAGES, ..timed(self.organisation, beside, self.tag) })?;
        for (kind, database) in self.bench.databases {
            let beside = What::Neighbour(self.organisation, Beside::Insert(*kind));
            self.take(Timed { times: OF_INSERTS, database, ..timed(self.store, beside, self.tag) })?;
        }
        Ok(())
    }

    fn of_tags(&mut self) -> Result<(), Failed> {
        self.take(timed(self.organisation, What::Generate, self.tag))?;
        if !self.keys.is_empty() {
            self.take(timed(self.organisation, What::Hash, self.tag))?;
        }
        for bits in self.keys.clone() {
            self.take(Timed { times: OF_SIGNATURES, ..timed(self.organisation, What::Sign(bits), self.tag) })?;
        }
        if self.encrypts {
            for bits in self.keys.clone() {
                let clear = self.signed(bits);
                self.take(timed(self.organisation, What::Encrypt, clear))?;
                self.take(timed(self.store, What::Decrypt, clear))?;
            }
        }
        Ok(())
    }

    /// Of keys: once in several tags.
    fn of_exchanges(&mut self) -> Result<(), Failed> {
        if !self.encrypts {
            return Ok(());
        }
        self.take(timed(self.organisation, What::GenerateKey, 0))?;
        self.take(timed(self.organisation, What::CombineKeys, 0))?;
        for bits in self.keys.clone() {
            for what in [What::Wrap(bits), What::Unwrap(bits)] {
                let once = timed(self.organisation, what, 64);
                self.take(once)?;
                self.take(Timed { after: Some(Pause::LONGEST), ..once })?;
            }
        }
        Ok(())
    }

    fn of_messages(&mut self) -> Result<(), Failed> {
        let longest = self.tag + self.keys.last().map_or(256, |bits| u64::from(bits / 8) + 32);
        for bytes in [self.tag, longest] {
            self.messages(bytes, 1, None, OF_MESSAGES)?;
        }
        AFTER_MESSAGES.into_iter().try_for_each(|after| self.messages(self.tag, 1, Some(after), OF_MESSAGES))
    }

    fn of_inserts(&mut self) -> Result<(), Failed> {
        self.inserts(self.tag, None)?;
        for bits in self.keys.clone() {
            self.inserts(self.signed(bits), None)?;
        }
        [Pause::SOON, Pause::NAP].into_iter().try_for_each(|after| self.inserts(self.tag, Some(after)))?;
        ASLEEP_INSERTS.into_iter().try_for_each(|after| self.inserts(self.shortest(), Some(after)))
    }

    /// What is short and done once for each tag takes longer the longer ago it was done.
    fn after_pauses(&mut self) -> Result<(), Failed> {
        let generate = timed(self.organisation, What::Generate, self.tag);
        self.take(Timed { after: Some(Pause::SOON), ..generate })?;
        for after in AFTER.map(Some) {
            self.take(Timed { after, ..generate })?;
            if !self.keys.is_empty() {
                self.take(Timed { after, ..timed(self.organisation, What::Hash, self.tag) })?;
            }
            if self.encrypts {
                self.take(Timed { after, ..timed(self.organisation, What::Encrypt, self.shortest()) })?;
            }
        }
        let asleep = if self.encrypts { &ASLEEP[..] } else { &[] };
        for after in asleep.iter().copied().map(Some) {
            self.take(Timed { after, ..timed(self.store, What::Decrypt, self.shortest()) })?;
        }
        Ok(())
    }

    /// Messages over as many lines as there are clients.
    fn of_many_clients(&mut self) -> Result<(), Failed> {
        for lines in self.clients.clone() {
            AMONG.into_iter().try_for_each(|after| self.messages(self.tag, lines, after, OF_LINES))?;
        }
        Ok(())
    }
}
