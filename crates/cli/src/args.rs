//! The command line. What each command does with its arguments is in `commands`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::answer::{Exit, Output};
use crate::commands::{
    admin, application, approvals, audit, backup, certs, client, configuration, cost, guard, model, nodeset, policy,
    reproduce, token, user,
};
use crate::failure::Failure;

/// Heading of the options that every command takes.
const EVERYWHERE: &str = "Options of every command";

/// Trapkey: decides who may do what in a plant, and when; enforces it at OPC UA servers; keeps a record of both.
///
/// Exit codes: 0 done or yes; 1 no, denied or broken; 2 wrong arguments, configuration or files; 3 something needed
/// is out of reach.
#[derive(Debug, Parser)]
#[command(name = "trapkey", version, max_term_width = 100, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    /// How results are printed
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORM", help_heading = EVERYWHERE)]
    pub(crate) output: Output,

    /// The configuration file
    #[arg(
        long,
        global = true,
        env = "TRAPKEY_CONFIG",
        hide_env_values = true,
        default_value = "trapkey.toml",
        value_name = "FILE",
        help_heading = EVERYWHERE
    )]
    pub(crate) config: PathBuf,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Prints what is wrong with the command line (or the help that was asked for), in the form that was asked for.
pub(crate) fn refuse(error: &clap::Error, mut given: impl Iterator<Item = OsString>) -> Exit {
    if !error.use_stderr() {
        // Help or version, which is no error; nobody is left to tell when the pipe is closed.
        let _printed = error.print();
        return Exit::Ok;
    }
    let json = loop {
        match given.next() {
            Some(argument) if argument == "--output=json" => break true,
            Some(argument) if argument == "--output" && given.next().is_some_and(|form| form == "json") => break true,
            Some(argument) if argument == "--" => break false,
            Some(_) => {}
            None => break false,
        }
    };
    if !json {
        let _printed = error.print();
        return Exit::BadInput;
    }
    let text = error.to_string();
    let (message, rest) = text.split_once("\n\n").unwrap_or((&text, ""));
    let message = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "a command is missing",
        _ => message.trim().trim_start_matches("error: "),
    };
    let message = message.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let help: Vec<&str> = rest.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Failure::bad_input(message).help(help.join("; ")).print(Output::Json)
}

/// Everything the program does.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Registered applications: their client secrets, and whether they get tokens
    #[command(subcommand)]
    Application(application::Command),
    /// Changes that need two persons: look at those that wait, approve, decline
    #[command(subcommand)]
    Approvals(approvals::Command),
    /// The audit ledger: look at it, verify it, export it
    #[command(subcommand)]
    Audit(audit::Command),
    /// Write database and ledger into one backup file, beside a running program
    Backup(backup::BackupArgs),
    /// Check a backup whole and put it in place of database and ledger
    Restore(backup::RestoreArgs),
    /// Certificates: a certification authority for the plant, and what it signs
    #[command(subcommand)]
    Certs(certs::Command),
    /// Use any OPC UA server: read, write, call, browse, watch
    #[command(subcommand)]
    Client(client::Command),
    /// The configuration file
    #[command(subcommand)]
    Config(configuration::Command),
    /// What a security setting costs: weave mechanisms into a model of an application, and solve it
    #[command(subcommand)]
    Cost(cost::Command),
    /// A batch line on this computer alone, in which rights come and go with the recipe
    Demo(crate::demo::DemoArgs),
    /// Let the program of this configuration end: clients are told and may leave first
    Drain,
    /// Look for what would keep Trapkey from working: configuration, certificates, ports, reachability, clocks
    Doctor,
    /// Stochastic Petri nets: solve and check them
    #[command(subcommand)]
    Model(model::Command),
    /// Information models (NodeSet2): read them, make scopes of the permissions they state
    #[command(subcommand)]
    Nodeset(nodeset::Command),
    /// Guards in front of servers: learn what a plant does, propose policies, observe and enforce
    #[command(subcommand)]
    Guard(guard::Command),
    /// Policies: check them, test them, ask them
    #[command(subcommand)]
    Policy(policy::Command),
    /// Results of papers again, from their own data
    #[command(subcommand)]
    Reproduce(reproduce::Command),
    /// Show where the workflow stands, or fire a transition (as an administrator)
    Step(admin::Step),
    /// Access tokens: list, issue, inspect, verify, revoke
    #[command(subcommand)]
    Token(token::Command),
    /// Run what the configuration says: the authority, resource servers, or both
    Up,
    /// Accounts with passwords
    #[command(subcommand)]
    User(user::Command),
}
