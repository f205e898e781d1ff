//! `trapkey model`: stochastic Petri nets, solved, simulated, checked, drawn and brought from one format to another.

mod bounds;
mod convert;
mod fluid;
mod simulate;
mod solve;
mod source;
mod structure;

use std::io::Write as _;

use clap::Subcommand;
use cost::quantity;
use gspn::{Progress, Refusal};
use serde_json::json;

use crate::answer::Answer;
use crate::failure::Failure;

/// Work that lasts longer says how far it has come, this often.
const SAY: f64 = 1.0;

/// What to do with nets.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answer the questions of a net exactly
    ///
    /// The answer is one JSON object with `--output json`. Exit codes: 0 answered (single questions may be left open, with
    /// the reason), 3 refused: the class, a sentence, a name and, where there is one, the firings that lead to the bad marking.
    Solve(solve::Solve),
    /// Estimate what is asked by simulation, each with its 95 % interval
    Simulate(simulate::Simulate),
    /// Answer the questions of a net exactly, for points in time
    Transient(solve::Transient),
    /// Read and explore a net: its markings, deadlocks, classes, invariants and conflicts, or why it has no end
    Check(solve::Check),
    /// Bound what is asked of the long run without exploring: for nets of any size, and as a check of other answers
    Bounds(bounds::Bounds),
    /// Estimate means of many tokens as flows, each with the smaller populations that say how far it is off
    Fluid(fluid::Fluid),
    /// Draw a net
    Draw(convert::Draw),
    /// Write a net in another format; what that has no words for is refused by name
    Convert(convert::Convert),
    /// Print the JSON schema of nets and answers
    Schema,
}

pub(crate) fn run(command: Command) -> Result<Answer, Failure> {
    match command {
        Command::Solve(args) => args.answer(),
        Command::Simulate(args) => args.answer(),
        Command::Transient(args) => args.answer(),
        Command::Check(args) => args.answer(),
        Command::Bounds(args) => args.answer(),
        Command::Fluid(args) => args.answer(),
        Command::Draw(args) => args.answer(),
        Command::Convert(args) => args.answer(),
        Command::Schema => {
            let schema = serde_json::from_str(gspn::json::SCHEMA).map_err(|error| Failure::from_error(&error))?;
            Ok(Answer::ok(gspn::json::SCHEMA, schema))
        }
    }
}

/// A limit of time in seconds, as a number alone or with a unit.
pub(crate) fn limit(text: &str) -> Result<f64, String> {
    let seconds = text.trim().parse().ok().or_else(|| with_unit(text));
    seconds.ok_or_else(|| format!("`{text}` is no time such as `30 s`, `2 min` or `30` (seconds)"))
}

/// Seconds of a time with its unit; minutes may be an `m`, as in the configuration.
pub(crate) fn with_unit(text: &str) -> Option<f64> {
    let minutes = || quantity::number(text.trim().strip_suffix('m')?).map(|minutes| minutes * 60.0);
    quantity::long_seconds(text).or_else(minutes)
}

/// Goes on for `time` seconds, and says how far the work has come.
fn progress(time: f64) -> Result<impl FnMut(Progress) -> bool, Failure> {
    if time.is_nan() || time <= 0.0 {
        return Err(Failure::bad_input(format!("`--time {time}`: above 0")));
    }
    let mut tell = telling();
    Ok(move |progress| tell(progress) < time)
}

/// Says now and then how far the work has come, and always how many seconds it has taken.
pub(crate) fn telling() -> impl FnMut(Progress) -> f64 {
    let started = gates::clock::mono();
    let mut said = SAY;
    move |progress| {
        let seconds = gates::clock::mono().since(started).as_secs_f64();
        if seconds > said {
            said = seconds + SAY;
            say(seconds, &words(progress));
        }
        seconds
    }
}

/// How much of `time` seconds from now on is over, from 0 to 1.
fn gone(time: f64) -> impl Fn() -> f64 {
    let started = gates::clock::mono();
    move || (gates::clock::mono().since(started).as_secs_f64() / time).min(1.0)
}

/// A line of progress.
pub(crate) fn say(seconds: f64, text: &str) {
    // Nobody is left to tell when the pipe is closed.
    let _said = writeln!(std::io::stderr().lock(), "{seconds:6.1} s  {text}");
}

fn words(progress: Progress) -> String {
    match progress {
        Progress::Exploring { tangible, done, vanishing, edges } => {
            format!("exploring: {done} of {tangible} tangible markings so far, {vanishing} vanishing, {edges} edges")
        }
        Progress::Simulating { firings } => format!("simulating: {firings} firings so far"),
        Progress::Solving { sweeps, error } => format!("solving: {sweeps} sweeps, last change {error:.1e}"),
        Progress::Answering { done } => format!("answering: {done} questions so far"),
    }
}

fn refused(refusal: &Refusal) -> Answer {
    let mut text = format!("refused: {}: {refusal}\n", refusal.class.word());
    if !refusal.trace.is_empty() {
        text.push_str(&format!("  reached by firing: {}\n", refusal.trace.join(", ")));
    }
    Answer::unavailable(text, json!(refusal))
}

/// Why a question has no answer, beside those that have one.
fn open(refusal: &Refusal) -> String {
    format!("{}: {}", refusal.class.word(), refusal.why)
}
