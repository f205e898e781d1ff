//! The `trapkey` program: reads configuration and arguments, composes the crates, prints what they say.
//!
//! Nothing here decides anything about access. Each command gives an [`answer::Answer`] or a
//! [`failure::Failure`]; both are printed as text for people or as JSON for programs, and both have a stable exit code.

mod answer;
mod args;
mod commands;
mod config;
mod demo;
mod failure;
mod files;
mod roles;
mod screen;
mod stop;

use std::process::ExitCode;

use ::config::nearest;
use clap::Parser;

fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => return ExitCode::from(args::refuse(&error, std::env::args_os()).code()),
    };
    // `up` logs as its configuration says.
    if !matches!(args.command, args::Command::Up) {
        log();
    }
    let output = args.output;
    let exit = match commands::run(args) {
        Ok(answer) => answer.print(output),
        Err(failure) => failure.print(output),
    };
    ExitCode::from(exit.code())
}

/// Diagnostics go to stderr: warnings, or what `TRAPKEY_LOG` asks for (`info`, `gates=debug`).
fn log() {
    let wanted = tracing_subscriber::EnvFilter::try_from_env("TRAPKEY_LOG");
    let filter = wanted.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("error"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .init();
}
