//! `trapkey config`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::Common;
use super::policy::Texts;
use crate::answer::Answer;
use crate::config::{Config, Place, TEMPLATE, Zone, overrides};
use crate::failure::{Failure, SourceFault};
use crate::files;
use crate::nearest::nearest;

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Read the configuration and every file it names, and say what is wrong
    Check,
    /// Print the configuration as it is used, with defaults and overrides
    Show,
    /// Write a commented configuration with every key
    Init(Init),
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The file to write; must not exist
    #[arg(default_value = "trapkey.toml")]
    file: PathBuf,
}

pub(crate) fn run(command: Command, common: &Common) -> Result<Answer, Failure> {
    match command {
        Command::Check => check(common),
        Command::Show => show(common),
        Command::Init(args) => init(&args),
    }
}

fn check(common: &Common) -> Result<Answer, Failure> {
    let config = common.config.load()?;
    let snapshot = Texts::read(config.plant.clone())?.snapshot()?;
    problems(&config)?;
    known_servers(&config, snapshot.plant())?;
    known_zones(&config, snapshot.plant(), &common.config)?;
    let overrides = overrides();
    let names: Vec<&str> = overrides.names().collect();
    let mut text = format!("{} is sound: ", common.config.path().display());
    text += &format!("{} policies, {} servers", snapshot.policies(), snapshot.plant().servers.len());
    if !names.is_empty() {
        text += &format!("; overridden by {}", names.join(", "));
    }
    Ok(Answer::ok(text, json!({"ok": true, "overrides": names})))
}

/// What can be read but not used.
pub(crate) fn problems(config: &Config) -> Result<(), Failure> {
    if config.audit.rotate_mib == 0 {
        return Err(Failure::bad_input("`rotate_mib` in `[audit]` must be at least 1"));
    }
    super::login::known(&config.client).map(drop)
}

/// Every server of the configuration is one of the plant file.
pub(crate) fn known_servers(config: &Config, plant: &pdp::Plant) -> Result<(), Failure> {
    for server in &config.server {
        let known = known_server(&server.name, plant)?;
        super::up::local::Local::of(server, plant, known)?;
        super::up::foreign::grants(&server.issuer, known)?;
    }
    for guard in &config.guard {
        let known = known_server(&guard.name, plant)?;
        super::up::layout::of(known)?;
        super::up::guard_bond(guard, config)?;
        super::up::foreign::grants(&guard.issuer, known)?;
        for one in &guard.upstream.role {
            if !plant.roles.contains_key(&one.role) {
                return Err(unknown("role", &one.role, plant.roles.keys().map(String::as_str)));
            }
        }
    }
    Ok(())
}

/// Every zone of the configuration is one of the plant file.
pub(crate) fn known_zones(config: &Config, plant: &pdp::Plant, place: &Place) -> Result<(), Failure> {
    let missing = config.zone.iter().enumerate().find(|(_, zone)| !plant.zones.contains_key(&zone.name));
    let Some((at, Zone { name, .. })) = missing else { return Ok(()) };
    let failure = || unknown("zone", name, plant.zones.keys().map(String::as_str));
    let text = files::text(place.path())?;
    let span = ::config::entry(&text, "zone", at, "name");
    if text.get(span.clone()).is_none_or(|written| !written.contains(name.as_str())) {
        // A variable says so.
        return Err(failure());
    }
    let help = nearest(name, plant.zones.keys().map(String::as_str)).map(|near| format!("did you mean `{near}`?"));
    let message = format!("the plant file has no zone `{name}`");
    let (file, span) = (place.path().to_owned(), (span.start, span.end));
    Err(Failure::in_files("the configuration is not used", vec![SourceFault { file, text, span, message, help }]))
}

fn known_server<'a>(name: &str, plant: &'a pdp::Plant) -> Result<&'a pdp::plant::Server, Failure> {
    let names = plant.servers.values().map(|known| known.name.as_str());
    plant.server(name).map(|(_, server)| server).ok_or_else(|| unknown("server", name, names))
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Failure {
    let failure = Failure::bad_input(format!("the plant file has no {what} `{name}`"));
    match nearest(name, known) {
        Some(near) => failure.help(format!("did you mean `{near}`?")),
        None => failure,
    }
}

fn show(common: &Common) -> Result<Answer, Failure> {
    let config = common.config.load()?;
    let text = config.to_text().map_err(|error| Failure::from_error(&error))?;
    Ok(Answer::ok(text, serde_json::to_value(&config).unwrap_or_default()))
}

fn init(args: &Init) -> Result<Answer, Failure> {
    files::create(&args.file, TEMPLATE.as_bytes(), false)?;
    let file = args.file.display().to_string();
    Ok(Answer::ok(format!("wrote {file}"), json!({"file": file})))
}
