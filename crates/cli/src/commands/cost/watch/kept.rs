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
    /// Of each stage that several programs have, whose the file keeps, as it was said last.
    shared: BTreeMap<String, String>,
}

impl<'a> Kept<'a> {
    /// With what is known already; else with nothing.
    pub(super) fn new(path: &'a Path, known: Option<Calibration>) -> Self {
        let calibration = known.unwrap_or_else(fresh);
        Self { path, calibration, written: String::new(), trouble: None, shared: BTreeMap::new() }
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
        let shared = shared(programs);
        if let Some(why) = changed(&self.shared, &shared, &self.path.display().to_string()) {
            eprintln!("warning: {why}");
        }
        self.shared = shared;
    }
}

/// Stages of a name that several programs have, each with the program whose the file keeps: the first of which it is known.
fn shared(programs: &[Program]) -> BTreeMap<String, String> {
    let (mut known, mut owners) = (BTreeMap::new(), BTreeMap::new());
    for program in programs {
        program.twin.names().for_each(|stage| *known.entry(stage).or_insert(0_usize) += 1);
        for stage in program.twin.recorded() {
            owners.entry(stage).or_insert_with(|| program.address.to_string());
        }
    }
    owners.retain(|stage, _| known.get(stage).is_some_and(|count| *count > 1));
    owners
}

/// What is said where the file keeps other stages, or those of other programs, than was said before; the first of them.
fn changed(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>, path: &str) -> Option<String> {
    let own = "give each program a watch and a file of its own";
    if before.is_empty() {
        let (stage, owner) = now.first_key_value()?;
        return Some(format!("`{stage}` is a stage of several programs, and `{path}` keeps that of {owner}; {own}"));
    }
    let other = |(stage, owner): &(&String, &String)| before.get(*stage).is_some_and(|before| before != *owner);
    let (stage, owner) = now.iter().find(other)?;
    Some(format!("`{path}` keeps `{stage}` of {owner} now, and had that of {}; {own}", before[stage]))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_whose_stages_a_file_keeps_and_whenever_that_changes() {
        let of = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let (none, second, first): (BTreeMap<_, _>, _, _) =
            (of(&[]), of(&[("a", "two"), ("b", "two")]), of(&[("a", "one"), ("b", "two")]));
        assert_eq!(changed(&none, &none, "f"), None);
        assert!(changed(&none, &second, "f").unwrap().contains("`f` keeps that of two"));
        assert_eq!(changed(&second, &second, "f"), None);
        let said = changed(&second, &first, "f").unwrap();
        assert!(said.contains("keeps `a` of one now, and had that of two"), "{said}");
    }
}
