//! From timings of steps to a calibration, and from that to predictions.

use std::collections::BTreeSet;
use std::path::Path;

use cost::calibration::{Calibration, Machine, SCHEMA, Step, Versions, fit};
use cost::reproduce::here::{Pause, Prediction, Setting, predict};
use gspn::{Budget, Limits};

use super::launch::Launch;
use super::message::Echo;
use super::steps::{Spec, What};
use super::{Configuration, Kind, Scenario, period, tag};
use crate::clock::Stopwatch;
use crate::{Failed, clock, process};

/// A prediction may take so long, seconds.
const PATIENCE: f64 = 30.0;
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
    pub databases: &'a [(Kind, std::path::PathBuf)],
    /// Seconds for a step.
    pub seconds: f64,
    /// Shorter than it should be.
    pub quick: bool,
}

impl Bench<'_> {
    /// Times every step that these rows need, each in a process of its own.
    ///
    /// # Errors
    /// A step cannot be timed.
    pub fn calibrate(&self, rows: &[Scenario]) -> Result<Calibration, Failed> {
        let tag = tag::bytes() as u64;
        let mut sizes: Vec<u32> = rows.iter().map(|row| row.key).filter(|key| *key > 0).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let any = |configuration| rows.iter().any(|row| row.configuration == configuration);
        let (organisation, store) = self.processors;
        let mut steps = Vec::new();
        let waker = self.launch.start(organisation, "waker", &())?;
        let mut take_over = |lines, after: Option<Pause>, processor, what, bytes, times: f64, database: &Path| {
            let (keys, database) = (self.keys.to_owned(), database.to_owned());
            let waker = after.filter(|after| after.is_asleep()).map(|_| waker.at());
            let spec = Spec { what, bytes, seconds: self.seconds * times, after, lines, waker, keys, database };
            let found: Vec<Step> = self.launch.ask(processor, "step", &spec)?;
            steps.extend(found);
            Ok::<(), Failed>(())
        };
        let mut take_after = |after, processor, what, bytes, times, database: &Path| {
            take_over(1, after, processor, what, bytes, times, database)
        };
        let mut take =
            |processor, what, bytes, times, database: &Path| take_after(None, processor, what, bytes, times, database);
        let nowhere = Path::new("");
        take(organisation, What::Lost, 0, OF_LOST, nowhere)?;
        take(organisation, What::Neighbour(store, sizes.first().copied()), tag, OF_MESSAGES, nowhere)?;
        take(organisation, What::Generate, tag, 1.0, nowhere)?;
        if !sizes.is_empty() {
            take(organisation, What::Hash, tag, 1.0, nowhere)?;
        }
        for bits in &sizes {
            take(organisation, What::Sign(*bits), tag, OF_SIGNATURES, nowhere)?;
        }
        if any(Configuration::Sc2) {
            take(organisation, What::GenerateKey, 0, 1.0, nowhere)?;
            take(organisation, What::CombineKeys, 0, 1.0, nowhere)?;
            for bits in &sizes {
                let clear = tag + u64::from(bits / 8);
                take(organisation, What::Encrypt, clear, 1.0, nowhere)?;
                take(store, What::Decrypt, clear, 1.0, nowhere)?;
                take(organisation, What::Wrap(*bits), 64, 1.0, nowhere)?;
                take(organisation, What::Unwrap(*bits), 64, 1.0, nowhere)?;
            }
        }
        let longest = tag + sizes.iter().max().map_or(256, |bits| u64::from(bits / 8) + 32);
        for bytes in [tag, longest] {
            let echo = self.launch.start(store, "echo", &Echo { lines: 1, queued: false })?;
            take(organisation, What::Message(echo.at()), bytes, OF_MESSAGES, nowhere)?;
            echo.end()?;
        }
        for (kind, folder) in self.databases {
            for bytes in [0].iter().chain(&sizes).map(|bits| tag + u64::from(bits / 8)) {
                take(store, What::Insert(*kind), bytes, OF_INSERTS, folder)?;
            }
        }
        // What is short and done once for each tag takes longer the longer ago it was done.
        let signed = tag + sizes.first().map_or(0, |bits| u64::from(bits / 8));
        take_after(Some(Pause::SOON), organisation, What::Generate, tag, 1.0, nowhere)?;
        for (kind, folder) in self.databases {
            for after in [Pause::SOON, Pause::NAP].map(Some) {
                take_after(after, store, What::Insert(*kind), tag, OF_INSERTS, folder)?;
            }
        }
        for after in AFTER.map(Some) {
            take_after(after, organisation, What::Generate, tag, 1.0, nowhere)?;
            if !sizes.is_empty() {
                take_after(after, organisation, What::Hash, tag, 1.0, nowhere)?;
            }
            if any(Configuration::Sc2) {
                take_after(after, organisation, What::Encrypt, signed, 1.0, nowhere)?;
            }
        }
        for after in ASLEEP.map(Some) {
            if any(Configuration::Sc2) {
                take_after(after, store, What::Decrypt, signed, 1.0, nowhere)?;
            }
            for (kind, folder) in self.databases {
                take_after(after, store, What::Insert(*kind), signed, OF_INSERTS, folder)?;
            }
        }
        // Keys are agreed on once in several tags.
        if any(Configuration::Sc2) {
            for bits in &sizes {
                for what in [What::Wrap(*bits), What::Unwrap(*bits)] {
                    take_after(Some(Pause::LONGEST), organisation, what, 64, 1.0, nowhere)?;
                }
            }
        }
        for after in AFTER_MESSAGES.map(Some) {
            let echo = self.launch.start(store, "echo", &Echo { lines: 1, queued: false })?;
            take_after(after, organisation, What::Message(echo.at()), tag, OF_MESSAGES, nowhere)?;
            echo.end()?;
        }
        let among: BTreeSet<u32> = rows.iter().map(|row| row.clients).filter(|clients| *clients > 1).collect();
        for (lines, after) in among.into_iter().flat_map(|lines| AMONG.map(|after| (lines, after))) {
            let told = Echo { lines, queued: after == Some(Pause::QUEUED) };
            let echo = self.launch.start(store, "echo", &told)?;
            take_over(lines, after, organisation, What::Message(echo.at()), tag, OF_LINES, nowhere)?;
            echo.end()?;
        }
        let law = |name: &&str| fit(&steps.iter().filter(|step| step.name() == **name).collect::<Vec<_>>());
        let laws = LINES.iter().filter_map(law).collect();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let calibration = Calibration {
            schema: SCHEMA,
            taken: clock::today(),
            machine: Machine { cpu: process::machine(), cores: u32::try_from(cores)?, kernel: kernel() },
            versions: Versions {
                program: env!("CARGO_PKG_VERSION").into(),
                library: "aws-lc-rs".into(),
                build: if cfg!(debug_assertions) { "debug" } else { "release" }.into(),
            },
            quick: self.quick,
            others: 0.0,
            steps,
            laws,
        };
        calibration.check()?;
        Ok(calibration)
    }
}

fn kernel() -> String {
    let told = std::process::Command::new("uname").arg("-sr").output().ok();
    let told = told.map(|told| String::from_utf8_lossy(&told.stdout).trim().to_owned());
    told.filter(|told| !told.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

/// What a calibration says of a row.
///
/// # Errors
/// A step is missing, or the solver has no answer.
pub fn of(calibration: &Calibration, row: &Scenario, reuse: f64) -> Result<Prediction, Failed> {
    let setting = Setting {
        configuration: match row.configuration {
            Configuration::Sc0 => "SC0",
            Configuration::Sc1 => "SC1",
            Configuration::Sc2 => "SC2",
        }
        .to_owned(),
        key: row.key,
        database: row.database.word().to_owned(),
        clients: row.clients,
        period: period(reuse),
        tag: tag::bytes() as u64,
    };
    let watch = Stopwatch::start();
    let mut go_on = |_| watch.seconds() < PATIENCE;
    Ok(predict(calibration, &setting, &mut Budget::new(Limits::default(), &mut go_on))?)
}
