//! The measures, each a function that gives records.

pub mod bytes;
pub mod choices;
pub mod crowd;
pub mod guarded;
pub mod instructions;
pub mod lag;
pub mod nets;
pub mod oracle;
pub mod pdp;
pub mod services;
pub mod storm;

use std::time::Duration;

use crate::journal::{Journal, Run};
use crate::record::{Peer, Record};
use crate::{Failed, subject};

/// How thoroughly measures are taken, and where they are kept.
#[derive(Debug)]
pub struct Bench {
    /// Counted runs.
    pub runs: usize,
    /// Length of one run.
    pub time: Duration,
    /// Fewer and shorter runs than the conditions ask for; the records say so in their command.
    pub quick: bool,
    journal: Journal,
    records: Vec<Record>,
}

impl Bench {
    /// Opens today's folder.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn open(quick: bool) -> Result<Self, Failed> {
        let (runs, seconds) = if quick { (3, 3) } else { (7, 10) };
        let time = Duration::from_secs(seconds);
        Ok(Self { runs, time, quick, journal: Journal::open()?, records: Vec::new() })
    }

    /// The command that repeats the measures of a group.
    #[must_use]
    pub fn command(&self, group: &str) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        format!("cargo run --release -p bench -- {group}{quick}")
    }

    /// Keeps a measure that was taken in pairs.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn paired(
        &mut self,
        measure: &str,
        unit: &str,
        runs: &[(f64, f64)],
        peer: &Peer,
        goal: f64,
        group: &str,
    ) -> Result<(), Failed> {
        let record = Record::paired(measure, unit, runs, peer, goal, &self.command(group));
        let runs: Vec<_> = runs.iter().map(|(here, peer)| (*here, Some(*peer))).collect();
        self.keep(record, &runs)
    }

    /// Keeps a measure without a peer.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn alone(&mut self, measure: &str, unit: &str, runs: &[f64], goal: f64, group: &str) -> Result<(), Failed> {
        let record = Record::alone(measure, unit, runs, goal, &self.command(group));
        let runs: Vec<_> = runs.iter().map(|here| (*here, None)).collect();
        self.keep(record, &runs)
    }

    /// Prints a row of one run, that of one net or the like, and keeps it beside the runs.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn row(&mut self, run: &Run<'_>, words: &str) -> Result<(), Failed> {
        let of = run.of.unwrap_or_default();
        let peer = run.peer.map_or_else(String::new, |peer| format!("{peer:>14.4} {:>9.5}", run.here / peer));
        println!("{:<24} {of:<30} {:>12.4} {peer:<24} {words}", run.measure, run.here);
        self.journal.run(run)
    }

    /// Keeps a record made elsewhere, with the runs behind it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(&mut self, record: Option<Record>, runs: &[(f64, Option<f64>)]) -> Result<(), Failed> {
        let record = record.ok_or("a measure gave no figure")?;
        self.journal.runs(&record.measure, runs)?;
        self.journal.keep(&record)?;
        self.records.push(record);
        Ok(())
    }

    /// Everything kept so far.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The peer.
    ///
    /// # Errors
    /// It is not installed.
    pub fn peer(&self) -> Result<Peer, Failed> {
        subject::open62541()
    }
}

/// One thread for a load, as the generator is made.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failed> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
