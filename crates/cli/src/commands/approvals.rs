//! `trapkey approvals`: what waits for a second person, and the answer. Over HTTPS; who answers is a person, by a certificate
//! of its own or by name and password through a registered application.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::admin::{At, percent};
use super::login::PersonArgs;
use super::{Common, block_on};
use crate::answer::Answer;
use crate::failure::Failure;

/// What to do with changes that wait.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The changes that wait for somebody like you
    List(List),
    /// Approve of a change: it may be made, once, by who asked
    Approve(One),
    /// Decline
    Decline(One),
}

/// Who asks for the list.
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    person: PersonArgs,
}

/// Which change.
#[derive(Debug, Args)]
pub(crate) struct One {
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    person: PersonArgs,
    /// The approval's id, as the refusal and the list name it
    id: String,
}

pub(crate) fn run(command: Command, common: &Common) -> Result<Answer, Failure> {
    match command {
        Command::List(args) => list(&args, common),
        Command::Approve(args) => answer(&args, common, "approve", "approved"),
        Command::Decline(args) => answer(&args, common, "decline", "declined"),
    }
}

fn list(args: &List, common: &Common) -> Result<Answer, Failure> {
    let header = args.person.header()?;
    let said = block_on(args.at.ask_at(common, ("GET", "/approvals/v1"), header.as_deref().map(String::as_str), None))?;
    let lines: Vec<String> = said["approvals"].as_array().into_iter().flatten().map(line).collect();
    let text = if lines.is_empty() { "nothing waits".to_owned() } else { lines.join("\n") };
    Ok(Answer::ok(text, said))
}

fn line(one: &Value) -> String {
    let text = |key: &str| one[key].as_str().unwrap_or_default();
    format!("{}  {} at {} for `{}`", text("id"), text("change"), text("server"), text("subject"))
}

fn answer(args: &One, common: &Common, what: &str, done: &str) -> Result<Answer, Failure> {
    let header = args.person.header()?;
    let path = format!("/approvals/v1/{}/{what}", percent(&args.id));
    let said = block_on(args.at.ask_at(common, ("POST", &path), header.as_deref().map(String::as_str), None))?;
    Ok(Answer::ok(format!("{done}: {}", line(&said)), said))
}
