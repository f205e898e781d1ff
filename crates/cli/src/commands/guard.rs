//! `trapkey guard`: learn what a plant does, propose the policies that permit just that, and switch a guard between
//! observing and enforcing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use pdp::learn::{Proposal, Rule, Seen};
use serde_json::{Value, json};

use super::policy::Which;
use super::recorded::{self, Recorded};
use super::{Common, admin, block_on};
use crate::answer::Answer;
use crate::failure::Failure;
use crate::files;

/// What is done less often than this in all may have been an accident of the recording.
const RARE: u64 = 3;

/// What to do with a guard.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what was ordered of a guard, or let it enforce or observe from now on (as an administrator)
    Mode(Mode),
    /// Turn what was recorded while a guard observed into the least policies that permit it, by role and step
    Propose(Propose),
}

/// Shows or switches the mode of a guard. The authority keeps the order over restarts, and records who gave it.
#[derive(Debug, Args)]
pub(crate) struct Mode {
    #[command(flatten)]
    at: admin::At,
    /// The guard: its short name in the plant file, or its ApplicationUri
    name: String,
    /// What it has to do with denials; without it, what was ordered is shown
    #[arg(value_enum)]
    mode: Option<Word>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Word {
    /// They hold
    Enforce,
    /// They are recorded, and everything passes
    Observe,
}

/// Proposes policies from a recording.
#[derive(Debug, Args)]
pub(crate) struct Propose {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    recorded: recorded::From,
    /// Only what was done so often in all
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    at_least: u64,
    /// Where to write the policies [default: the standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Where to write the plant file with the roles, persons and scopes that are missing in it
    #[arg(long, value_name = "FILE")]
    plant_out: Option<PathBuf>,
    /// Where to write the report as Markdown
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

pub(crate) fn run(command: Command, common: &Common) -> Result<Answer, Failure> {
    match command {
        Command::Mode(args) => mode(&args, common),
        Command::Propose(args) => propose(&args, common),
    }
}

fn mode(args: &Mode, common: &Common) -> Result<Answer, Failure> {
    let path = format!("/guards/{}/mode", admin::percent(&args.name));
    let Some(word) = args.mode else {
        let said = block_on(args.at.ask(common, "GET", &path, None))?;
        let text = match said["mode"].as_str() {
            Some(mode) => format!("{}: {mode}", args.name),
            None => format!("{}: nothing was ordered, its own configuration holds", args.name),
        };
        return Ok(Answer::ok(text, said));
    };
    let word = match word {
        Word::Enforce => access_model::Mode::Enforce,
        Word::Observe => access_model::Mode::Observe,
    };
    let said = block_on(args.at.ask(common, "POST", &path, Some(json!({"mode": word.name()}))))?;
    let text = format!("{}: {} from now on, also after a restart", args.name, word.name());
    Ok(Answer::ok(text, said))
}

fn propose(args: &Propose, common: &Common) -> Result<Answer, Failure> {
    let texts = args.which.texts(common)?;
    let recorded = args.recorded.read(common, &texts.snapshot()?)?;
    let seen = chosen(&recorded, args.at_least);
    if seen.is_empty() {
        return Err(Failure::bad_input("the ledger holds no access that could be proposed")
            .help("let it observe: `mode = \"observe\"` below `[[guard]]`, or `trapkey guard mode NAME observe`"));
    }
    let at = gates::clock::now().unix;
    let proposal = pdp::learn::propose(texts.sources(), seen, &token::map_digest, at);
    let proposal =
        proposal.map_err(|faults| Failure::bad_input(format!("what was proposed cannot be used: {faults}")))?;
    let report = report(&proposal, &recorded);
    for (path, text) in [
        (args.out.as_ref(), Some(&proposal.policies)),
        (args.plant_out.as_ref(), proposal.plant.as_ref()),
        (args.report.as_ref(), Some(&report)),
    ] {
        if let (Some(path), Some(text)) = (path, text) {
            write(path, text)?;
        }
    }
    let covered = proposal.uncovered.is_empty();
    let mut text = if args.out.is_some() { String::new() } else { format!("{}\n", proposal.policies) };
    if proposal.plant.is_some() && args.plant_out.is_none() {
        text += "the plant file lacks roles, persons or scopes of this proposal: write it with `--plant-out`\n\n";
    }
    text += &report;
    Ok(Answer::verdict(covered, text, as_json(&proposal, &recorded)))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::unavailable(format!("cannot write `{}`", path.display())).because_of(Some(&error))
    };
    files::overwrite(path)?.write_all(text.as_bytes()).map_err(failed)
}

/// What is to be permitted: what happened often enough, whatever enforcement would have said.
fn chosen(recorded: &Recorded, at_least: u64) -> Vec<Seen> {
    let often = |one: &&recorded::Row| one.passed && one.count >= at_least;
    let seen = |one: &recorded::Row| Seen {
        access: one.access.clone(),
        node: one.node.clone(),
        count: one.count,
        against: one.denied,
    };
    recorded.rows.iter().filter(often).map(seen).collect()
}

fn actions(rule: &Rule) -> String {
    rule.actions.iter().map(|action| action.name()).collect::<Vec<_>>().join(", ")
}

fn steps(rule: &Rule) -> String {
    let all: Vec<String> = rule.steps.iter().map(|one| one.join(" and ")).collect();
    if all.is_empty() { "every step".to_owned() } else { all.join(", ") }
}

fn names(names: &BTreeSet<String>) -> String {
    if names.is_empty() { "-".to_owned() } else { names.iter().cloned().collect::<Vec<_>>().join(", ") }
}

/// Markdown that reads as text as well.
fn report(proposal: &Proposal, recorded: &Recorded) -> String {
    let left: u64 = proposal.left_out.iter().map(|(one, _)| one.count).sum();
    let missed: u64 = proposal.uncovered.iter().map(|one| one.count).sum();
    let chosen = proposal.recorded.saturating_sub(left);
    let mut text = String::from("# Proposal\n\n");
    let _ =
        writeln!(text, "{} accesses were recorded and chosen; {left} of them cannot be granted.", proposal.recorded);
    let _ = writeln!(
        text,
        "Of the other {chosen}, decided again, the proposal permits {}.\n",
        chosen.saturating_sub(missed)
    );
    text += "## Coverage by role and step\n\n";
    let covered = proposal.coverage.iter().map(|((role, step), one)| {
        let step = if step.is_empty() { "-".to_owned() } else { step.clone() };
        let counts = [one.recorded, one.permitted, one.left_out].map(|count| count.to_string());
        [vec![role.clone(), step], counts.to_vec()].concat()
    });
    text += &markdown(&["role", "step", "recorded", "permitted", "cannot be granted"], &covered.collect::<Vec<_>>());
    text += "\n## Rights\n\n";
    let rows = proposal.rules.iter().map(|rule| {
        let (touched, further) = rule.nodes;
        vec![
            rule.id.clone(),
            rule.whose.name().to_owned(),
            actions(rule),
            format!("{}: {}", rule.server, rule.scopes.join(", ")),
            steps(rule),
            names(&rule.used_by),
            names(&rule.also),
            format!("{touched} used, {further} more known"),
            rule.count.to_string(),
        ]
    });
    let head = ["policy", "for", "may", "where", "when", "used by", "also for", "nodes", "times"];
    text += &markdown(&head, &rows.collect::<Vec<_>>());
    section(&mut text, "Writes and calls, one by one", &["who", "what", "node", "step", "times"], &changes(recorded));
    let rare = listed(recorded, |one| one.count < RARE);
    section(&mut text, "Rare: look whether they belong there", &["who", "what", "node", "step", "times"], &rare);
    let left =
        proposal.left_out.iter().map(|(one, why)| vec![one.access.who.clone(), one.node.clone(), (*why).to_owned()]);
    section(&mut text, "Not granted", &["who", "node", "why"], &left.collect::<Vec<_>>());
    let missed: Vec<Vec<String>> = proposal.uncovered.iter().map(|one| vec![format!("{:?}", one.access)]).collect();
    section(&mut text, "RECORDED AND NOT PERMITTED: do not use this proposal", &["access"], &missed);
    let values = listed(recorded, |one| one.reason.as_deref() == Some("value_out_of_range"));
    section(
        &mut text,
        "Outside a range: enforcement denies these values",
        &["who", "what", "node", "step", "times"],
        &values,
    );
    text
}

fn section(text: &mut String, title: &str, head: &[&str], rows: &[Vec<String>]) {
    if !rows.is_empty() {
        let _ = write!(text, "\n## {title}\n\n{}", markdown(head, rows));
    }
}

fn changes(recorded: &Recorded) -> Vec<Vec<String>> {
    listed(recorded, |one| one.access.action.changes())
}

fn listed(recorded: &Recorded, which: impl Fn(&recorded::Row) -> bool) -> Vec<Vec<String>> {
    let mut all: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    for one in recorded.rows.iter().filter(|one| one.passed && which(one)) {
        let steps = one.access.steps.join(" and ");
        let key = vec![one.access.who.clone(), one.access.action.name().to_owned(), one.node.clone(), steps];
        *all.entry(key).or_default() += one.count;
    }
    all.into_iter()
        .map(|(mut row, count)| {
            row.push(count.to_string());
            row
        })
        .collect()
}

fn markdown(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(head.iter().map(|cell| (*cell).to_owned()).collect());
    text += &line(vec!["---".to_owned(); head.len()]);
    for row in rows {
        text += &line(row.iter().map(|cell| cell.replace('|', "\\|")).collect());
    }
    text
}

fn as_json(proposal: &Proposal, recorded: &Recorded) -> Value {
    let rules: Vec<Value> = proposal
        .rules
        .iter()
        .map(|rule| {
            json!({
                "policy": rule.id,
                "for": rule.whose.name(),
                "actions": rule.actions.iter().map(|action| action.name()).collect::<Vec<_>>(),
                "server": rule.server,
                "scopes": rule.scopes,
                "steps": rule.steps,
                "used_by": rule.used_by,
                "also_for": rule.also,
                "nodes": rule.nodes.0,
                "further_nodes": rule.nodes.1,
                "count": rule.count,
            })
        })
        .collect();
    let scopes: Vec<Value> = proposal
        .scopes
        .iter()
        .map(|scope| json!({"server": scope.server, "name": scope.name, "nodes": scope.nodes}))
        .collect();
    let left: Vec<Value> = proposal
        .left_out
        .iter()
        .map(|(one, why)| json!({"who": one.access.who, "node": one.node, "count": one.count, "why": why}))
        .collect();
    let coverage: Vec<Value> = proposal
        .coverage
        .iter()
        .map(|((role, step), one)| {
            json!({"role": role, "step": step, "recorded": one.recorded, "permitted": one.permitted,
                   "not_granted": one.left_out})
        })
        .collect();
    json!({
        "policies": proposal.policies,
        "plant": proposal.plant,
        "rules": rules,
        "roles": proposal.roles,
        "scopes": scopes,
        "recorded": proposal.recorded,
        "coverage": coverage,
        "not_granted": left,
        "not_permitted": proposal.uncovered.len(),
        "complete": proposal.uncovered.is_empty(),
        "not_read": recorded.unread,
        "writes": changes(recorded),
    })
}
