//! The file of `--out`: references as the stages are now, written whole.

use std::collections::BTreeMap;
use std::path::Path;

use cost::calibration::{Calibration, SCHEMA};

use super::super::write;
use super::{Program, in_seconds};
use crate::failure::Failure;

/// The file of `--out`.
#[derive(Debug)]
pub(super) struct Kept<'a> {
    path: &'a Path,
    calibration: Calibration,
    /// What it has.
    written: String,
    /// What went wrong at the last attempt: it is said once.
    trouble: Option<String>,
    /// It was said that two programs have a stage of the same name.
    is_shared: bool,
}

impl<'a> Kept<'a> {
    /// With what is known already; else with nothing.
    pub(super) fn new(path: &'a Path, known: Option<Calibration>) -> Self {
        let calibration = known.unwrap_or_else(fresh);
        Self { path, calibration, written: String::new(), trouble: None, is_shared: false }
    }

    /// Writes what is known of the programs, if that is not what the file has. Of programs that have never answered nothing is known, and the
    /// file may have what an earlier watch has learned.
    pub(super) fn keep(&mut self, programs: &[Program]) -> Result<(), Failure> {
        if !programs.iter().any(|program| program.met) {
            return Ok(());
        }
        // Where two have a stage of the same name, that of the first one counts.
        programs.iter().rev().for_each(|program| program.twin.record(&mut self.calibration));
        let text = self.calibration.write().map_err(|fault| Failure::unavailable(fault.to_string()))?;
        if text != self.written {
            write(self.path, &text)?;
            self.written = text;
        }
        Ok(())
    }

    pub(super) fn try_to_keep(&mut self, programs: &[Program]) {
        let trouble = self.keep(programs).err().map(|failure| failure.in_short());
        if let Some(trouble) = trouble.as_ref().filter(|trouble| self.trouble.as_ref() != Some(trouble)) {
            eprintln!("warning: {trouble}; the next look tries again");
        }
        self.trouble = trouble;
        if let Some((stage, first)) = shared(programs).filter(|_| !self.is_shared) {
            self.is_shared = true;
            let path = self.path.display();
            eprintln!(
                "warning: `{stage}` is a stage of several programs, and `{path}` keeps that of {first}; \
                 give each program a watch and a file of its own"
            );
        }
    }
}

/// A stage of a name that two programs have, and the first of them.
fn shared(programs: &[Program]) -> Option<(String, String)> {
    let mut known = BTreeMap::new();
    for program in programs {
        for stage in program.twin.names() {
            if let Some(first) = known.insert(stage.clone(), program) {
                return Some((stage, first.address.to_string()));
            }
        }
    }
    None
}

/// A calibration of this machine with nothing in it.
fn fresh() -> Calibration {
    Calibration {
        schema: SCHEMA,
        taken: in_seconds(gates::clock::now().unix),
        machine: bench::steps::machine(),
        versions: bench::steps::versions(),
        quick: false,
        others: 0.0,
        steps: Vec::new(),
        laws: Vec::new(),
    }
}
