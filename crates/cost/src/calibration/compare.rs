//! Whether a calibration was taken where it is used.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::{Calibration, Machine, Step, Versions};
use crate::twin::OPERATION;

/// A calibration that was taken elsewhere, or of other programs: what it says may not hold here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Foreign {
    /// What differs: `processor`, `cores`, `kernel`, `program`, `library`, `build`.
    pub what: &'static str,
    /// As the calibration has it.
    pub taken_with: String,
    /// As it is here.
    pub here: String,
}

impl Foreign {
    /// Whether it is another machine; otherwise the same with other software.
    #[must_use]
    pub fn is_another_machine(&self) -> bool {
        matches!(self.what, "processor" | "cores")
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, taken_with, here } = self;
        let from =
            if self.is_another_machine() { "the calibration is from another machine" } else { "the calibration" };
        write!(f, "{from}: its {what} is `{taken_with}`, here it is `{here}`")
    }
}

/// Share of all processors above which other programs have disturbed a measurement.
const DISTURBED: f64 = 0.05;
/// Days after which a calibration is old.
const OLD: i64 = 180;

impl Calibration {
    /// What is doubtful about it wherever it is used, a sentence each.
    #[must_use]
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        if self.quick {
            doubts.push("the calibration is a quick one".to_owned());
        }
        if self.others > DISTURBED {
            doubts.push(format!(
                "other programs had {:.0} % of the processors while the calibration was measured, and what it says may be far off: \
                 measure again when this machine has nothing else to do",
                self.others * 100.0
            ));
        }
        // What is left of an exchange beside what is known already may be nothing; of a stage that is watched nobody knows it.
        let differs = |step: &&Step| !["exchange", OPERATION].contains(&step.operation.as_str());
        let none: BTreeSet<String> =
            self.steps.iter().filter(differs).filter(|it| it.cpu.mean == 0.0).map(Step::name).collect();
        if !none.is_empty() {
            let names: Vec<String> = none.iter().map(|name| format!("`{name}`")).collect();
            doubts.push(format!("by the calibration these take no time, and are free: {}", names.join(", ")));
        }
        doubts
    }

    /// What is doubtful about when it was taken, `today` being days since 1970-01-01 in UTC: it is yet to come, or long ago.
    #[must_use]
    pub fn out_of_date(&self, today: i64) -> Option<String> {
        let date = self.taken.parse::<toml::value::Datetime>().ok()?.date?;
        let month = time::Month::try_from(date.month).ok()?;
        let date = time::Date::from_calendar_date(date.year.into(), month, date.day).ok()?;
        let age = today - (date - time::OffsetDateTime::UNIX_EPOCH.date()).whole_days();
        if age < -1 {
            return Some(format!(
                "the calibration is of {}, which is yet to come: see which clock is wrong",
                self.taken
            ));
        }
        let why = "a machine changes with its firmware and its programs: `trapkey cost measure` takes a new one";
        (age > OLD).then(|| format!("the calibration is {age} days old, and {why}"))
    }

    /// What differs between where this was taken and a machine with its programs; empty if nothing does. Each is something to warn of,
    /// the first the one that matters most.
    #[must_use]
    pub fn compare(&self, machine: &Machine, versions: &Versions) -> Vec<Foreign> {
        let (mine, with) = (&self.machine, &self.versions);
        [
            ("processor", mine.cpu.clone(), machine.cpu.clone()),
            ("cores", mine.cores.to_string(), machine.cores.to_string()),
            ("build", with.build.clone(), versions.build.clone()),
            ("library", with.library.clone(), versions.library.clone()),
            ("program", with.program.clone(), versions.program.clone()),
            ("kernel", mine.kernel.clone(), machine.kernel.clone()),
        ]
        .into_iter()
        .filter(|(_, taken_with, here)| taken_with != here)
        .map(|(what, taken_with, here)| Foreign { what, taken_with, here })
        .collect()
    }
}
