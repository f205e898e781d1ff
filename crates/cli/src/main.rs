//! The `trapkey` program: reads configuration and arguments, composes the crates, prints what they say.
//!
//! Nothing here decides anything about access. Each command gives an [`answer::Answer`] or a [`failure::Failure`]; both are printed as
//! text for people or as JSON for programs, and both have a stable exit code.

mod answer;
mod args;
mod commands;
mod config;
mod demo;
mod failure;
mod files;
mod nearest;
mod roles;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let output = args.output;
    let exit = match commands::run(args) {
        Ok(answer) => answer.print(output),
        Err(failure) => failure.print(output),
    };
    ExitCode::from(exit.code())
}
