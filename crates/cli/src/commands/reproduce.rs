//! `trapkey reproduce`: what papers print, computed again from what they allow.

use std::path::PathBuf;

use bench::gd;
use bench::gd::launch::Launch;
use clap::{Args, Subcommand};
use serde_json::json;

use super::cost::{Spend, write};
use crate::answer::Answer;
use crate::failure::Failure;
use crate::{files, stop};

/// The papers.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Security and performance of an architecture (Cortellessa and others, 2010): Tables 2 to 4 and Figure 7
    ///
    /// Says which numbers are fitted to printed ones and which are predicted.
    P4(P4),
    /// One process of `p4 --measure`
    #[command(hide = true)]
    Part(Part),
}

/// A part of the scenario and what it is told.
#[derive(Debug, Args)]
pub(crate) struct Part {
    /// Name and JSON
    #[arg(num_args = 2, required = true)]
    words: Vec<String>,
}

/// Where pictures go, and what is done.
#[derive(Debug, Args)]
pub(crate) struct P4 {
    /// Write Figure 7 to this file, as a family over the queue size that the paper does not print
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Write tables and figure as one page to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Run the scenario on this machine instead: predict it from single steps, write that into a ledger, then measure
    ///
    /// Sixty rounds in about half an hour, on a machine that has nothing else to do. A goal that is missed is a row, not a failure.
    #[arg(long)]
    measure: bool,

    /// With `--measure`: ten rounds in at most five minutes
    #[arg(long, requires = "measure")]
    quick: bool,

    /// With `--measure`: ledger, report and pictures go to this folder; what it lists of earlier series stays
    #[arg(long, requires = "measure", default_value = "p4-measured", value_name = "FOLDER")]
    keep: PathBuf,

    /// With `--measure`: the databases are in a folder below this one [default: in memory]
    #[arg(long, requires = "measure", value_name = "FOLDER")]
    medium: Option<PathBuf>,

    /// With `--measure`: share of messages for which no new key is agreed on, 0 to 1
    #[arg(long, requires = "measure", default_value_t = 0.9, value_name = "SHARE")]
    reuse: f64,

    /// With `--measure`: at most so many rounds (1 to 1000); fewer than ten say nothing [default: 60, with `--quick` 10]
    #[arg(long, requires = "measure", value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: Option<u32>,

    /// With `--measure`: numbers of clients (1 to 64 each)
    #[arg(long, requires = "measure", value_delimiter = ',', default_values_t = gd::CLIENTS, value_name = "COUNT",
        value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: Vec<u32>,

    #[command(flatten)]
    spend: Spend,
}

pub(crate) fn run(command: Command) -> Result<Answer, Failure> {
    if let Command::P4(P4 { svg, html, .. }) = &command {
        files::apart(&[("--svg", svg.as_ref()), ("--html", html.as_ref())], None)?;
    }
    let args = match command {
        Command::P4(args) if args.measure => return measure(&args),
        Command::P4(args) => args,
        Command::Part(part) => return self::part(&part),
    };
    let found = args.spend.without_model(cost::reproduce::p4)?;
    if let Some(path) = &args.svg {
        write(path, &found.figure.svg())?;
    }
    if let Some(path) = &args.html {
        write(path, &cost::reproduce::html(&found))?;
    }
    Ok(Answer::ok(cost::reproduce::text(&found), json!(found)))
}

fn part(part: &Part) -> Result<Answer, Failure> {
    let [name, told] = part.words.as_slice() else {
        return Err(Failure::bad_input("a part has a name and is told something"));
    };
    gd::part::run(name, told).map_err(|error| Failure::unavailable(error.to_string()))?;
    Ok(Answer::silent())
}

fn measure(args: &P4) -> Result<Answer, Failure> {
    if !(0.0..=1.0).contains(&args.reuse) {
        return Err(Failure::bad_input(format!("`--reuse {}`: 0 to 1", args.reuse)));
    }
    stop::clears()?;
    let broken = |error: &dyn std::fmt::Display| Failure::unavailable(format!("it cannot be measured: {error}"));
    let program = std::env::current_exe().map_err(|error| broken(&error))?;
    let launch = Launch::new(program, &["reproduce", "part"]);
    let mut plan = gd::run::Plan::new(args.quick);
    plan.reuse = args.reuse;
    plan.rounds = args.rounds.unwrap_or(plan.rounds);
    plan.clients.clone_from(&args.clients);
    if let Some(medium) = &args.medium {
        plan.medium.clone_from(medium);
    }
    let report = gd::report::take(&launch, &plan, &args.keep).map_err(|error| broken(&error))?;
    if let Some(path) = &args.html {
        write(path, &gd::report::html(&report))?;
    }
    if let Some(path) = &args.svg {
        write(path, &gd::report::svg(&report))?;
    }
    Ok(Answer::ok(gd::report::text(&report), json!(report)))
}
