//! `trapkey cost measure`: the calibration of this machine.

use std::collections::BTreeSet;
use std::path::PathBuf;

use bench::steps::{Entry, Plan, Program, Told, all, child, measure};
use clap::Args;
use cost::calibration::Calibration;
use serde_json::json;

use super::{seconds, write};
use crate::answer::{Answer, table};
use crate::failure::Failure;
use crate::{files, stop};

/// Where the calibration goes.
#[derive(Debug, Args)]
pub(crate) struct Measure {
    /// Write the calibration to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Measure fewer times and shorter; the calibration says so
    #[arg(long)]
    quick: bool,

    /// Measure only steps whose name begins like this (`sign rsa`); may be given several times
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    only: Vec<String>,
}

/// What one process measures.
#[derive(Debug, Args)]
pub(crate) struct Step {
    /// Folder, step and microseconds
    #[arg(num_args = 3, required = true)]
    words: Vec<String>,
}

pub(crate) fn run(args: &Measure) -> Result<Answer, Failure> {
    let plan = if args.quick { Plan::QUICK } else { Plan::FULL };
    let entries = wanted(all(), &args.only)?;
    if let Some(path) = &args.out {
        files::exportable(path)?;
    }
    stop::clears()?;
    let mut shown = None;
    let mut progress = |told: Told<'_>| {
        // One line for each twentieth of the way.
        let part = told.done * 20 / told.all.max(1);
        if shown.replace(part) != Some(part) {
            eprintln!("{:3} %  {}", part * 5, told.step);
        }
    };
    let measured = measure(&entries, plan, &Program::own(&["cost", "step"]), &mut progress);
    let calibration = measured.map_err(|error| Failure::unavailable(format!("a step cannot be measured: {error}")))?;
    calibration.doubts().iter().for_each(|doubt| eprintln!("warning: {doubt}"));
    let text = calibration.write().map_err(|fault| Failure::unavailable(fault.to_string()))?;
    if let Some(path) = &args.out {
        // It took two minutes: what has no room on the disk is not lost.
        if let Err(failure) = write(path, &text) {
            eprintln!("error: {}; what was measured is on standard output", failure.why());
            return Ok(Answer::unavailable(table_of(&calibration), json!(calibration)));
        }
    }
    Ok(Answer::ok(table_of(&calibration), json!(calibration)))
}

/// Those whose names begin with one of these words; all where there are none.
fn wanted(mut steps: Vec<Entry>, only: &[String]) -> Result<Vec<Entry>, Failure> {
    let begins = |step: &Entry, word: &str| step.id().starts_with(word);
    if let Some(word) = only.iter().find(|word| !steps.iter().any(|step| begins(step, word))) {
        let operations: BTreeSet<&str> = steps.iter().map(|step| step.operation).collect();
        let operations = operations.into_iter().collect::<Vec<_>>().join("`, `");
        return Err(Failure::bad_input(format!(
            "no step begins with `{word}`: a step has a name like `sign rsa-2048/32`, and begins with one of `{operations}`"
        )));
    }
    steps.retain(|step| only.is_empty() || only.iter().any(|word| begins(step, word)));
    Ok(steps)
}

pub(crate) fn step(args: &Step) -> Result<Answer, Failure> {
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    child(&words).map_err(|error| Failure::unavailable(error.to_string()))?;
    Ok(Answer::silent())
}

fn table_of(calibration: &Calibration) -> String {
    let (machine, versions) = (&calibration.machine, &calibration.versions);
    let mut text = format!(
        "{}, {} cores, {}; trapkey {} ({}), {}; {}{}\n\n",
        machine.cpu,
        machine.cores,
        machine.kernel,
        versions.program,
        versions.build,
        versions.library,
        calibration.taken,
        if calibration.quick { ", quick" } else { "" }
    );
    let rows: Vec<Vec<String>> = calibration
        .steps
        .iter()
        .map(|step| {
            vec![
                step.name(),
                if step.bytes == 0 { String::new() } else { step.bytes.to_string() },
                seconds(step.cpu.mean),
                format!("{:.1} %", step.error() * 100.0),
                seconds(step.cpu.p95),
                seconds(step.wall.p50),
                step.cpu.n.to_string(),
            ]
        })
        .collect();
    text.push_str(&table(&["step", "bytes", "processor", "±", "p95", "on the clock", "timings"], &rows));
    if !calibration.laws.is_empty() {
        text.push('\n');
        let rows: Vec<Vec<String>> = calibration
            .laws
            .iter()
            .map(|law| {
                let off = format!("{:.1} %", law.residual * 100.0);
                vec![law.name(), seconds(law.fixed), seconds(law.per_byte * 1e3), off]
            })
            .collect();
        text.push_str(&table(&["step by bytes", "each", "per kb", "off by at most"], &rows));
    }
    text
}
