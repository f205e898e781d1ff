//! One file per command.

pub(crate) mod accounts;
pub(crate) mod admin;
pub(crate) mod application;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod certs;
pub(crate) mod client;
pub(crate) mod configuration;
pub(crate) mod cost;
pub(crate) mod doctor;
pub(crate) mod drain;
mod encoded;
pub(crate) mod guard;
mod login;
pub(crate) mod model;
pub(crate) mod nodeset;
pub(crate) mod own;
pub(crate) mod policy;
mod recorded;
pub(crate) mod reproduce;
pub(crate) mod token;
pub(crate) mod up;
pub(crate) mod user;
pub(crate) mod values;
mod whatif;

use std::future::Future;

use crate::answer::{Answer, Output};
use crate::args::{Args, Command};
use crate::config::Place;
use crate::failure::Failure;

/// What every command may need besides its own arguments.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    /// How results are printed.
    pub(crate) output: Output,
    /// Where the configuration is.
    pub(crate) config: Place,
}

pub(crate) fn run(args: Args) -> Result<Answer, Failure> {
    let common = Common { output: args.output, config: Place::new(args.config) };
    match args.command {
        Command::Application(command) => application::run(command, &common),
        Command::Approvals(command) => approvals::run(command, &common),
        Command::Audit(command) => audit::run(command, &common),
        Command::Backup(args) => backup::backup(&args, &common),
        Command::Restore(args) => backup::restore(&args, &common),
        Command::Certs(command) => certs::run(command, &common),
        Command::Client(command) => client::run(command, &common),
        Command::Config(command) => configuration::run(command, &common),
        Command::Cost(command) => cost::run(command, &common),
        Command::Demo(args) => crate::demo::run(&args, common.output),
        Command::Drain => drain::run(&common),
        Command::Doctor => doctor::run(&common),
        Command::Model(command) => model::run(command),
        Command::Nodeset(command) => nodeset::run(command),
        Command::Guard(command) => guard::run(command, &common),
        Command::Policy(command) => policy::run(command, &common),
        Command::Reproduce(command) => reproduce::run(command),
        Command::Step(args) => admin::step(&args, &common),
        Command::Token(command) => token::run(command, &common),
        Command::Up => up::run(&common),
        Command::User(command) => user::run(command, &common),
    }
}

/// Runs a future on a small runtime of its own.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}
