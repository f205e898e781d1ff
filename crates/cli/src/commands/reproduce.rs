//! `trapkey reproduce`: what papers print, computed again from what they allow.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::cost::{Spend, write};
use crate::answer::Answer;
use crate::failure::Failure;

/// The papers.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Security and performance of an architecture (Cortellessa and others, 2010): Tables 2 to 4 and Figure 7
    ///
    /// Says which numbers are fitted to printed ones and which are predicted.
    P4(P4),
}

/// Where pictures go.
#[derive(Debug, Args)]
pub(crate) struct P4 {
    /// Write Figure 7 to this file, as a family over the queue size that the paper does not print
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Write tables and figure as one page to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    spend: Spend,
}

pub(crate) fn run(command: Command) -> Result<Answer, Failure> {
    let Command::P4(args) = command;
    let found = args.spend.within(cost::reproduce::p4)?;
    if let Some(path) = &args.svg {
        write(path, &found.figure.svg())?;
    }
    if let Some(path) = &args.html {
        write(path, &cost::reproduce::html(&found))?;
    }
    Ok(Answer::ok(cost::reproduce::text(&found), json!(found)))
}
