//! The command line. What each command does with its arguments is in `commands`.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::answer::Output;
use crate::commands::{admin, audit, backup, certs, client, configuration, policy, token, user};

/// Trapkey: decides who may do what in a plant, and when; enforces it at OPC UA servers; keeps a record of both.
///
/// Exit codes: 0 done or yes; 1 no, denied or broken; 2 wrong arguments, configuration or files; 3 something needed
/// is out of reach.
#[derive(Debug, Parser)]
#[command(name = "trapkey", version, max_term_width = 100, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    /// How results are printed
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORM")]
    pub(crate) output: Output,

    /// The configuration file
    #[arg(long, global = true, env = "TRAPKEY_CONFIG", default_value = "trapkey.toml", value_name = "FILE")]
    pub(crate) config: PathBuf,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Everything the program does.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
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
    /// A batch line on this computer alone, in which rights come and go with the recipe
    Demo(crate::demo::DemoArgs),
    /// Look for what would keep Trapkey from working: configuration, certificates, ports, reachability, clocks
    Doctor,
    /// Policies: check them, test them, ask them
    #[command(subcommand)]
    Policy(policy::Command),
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
