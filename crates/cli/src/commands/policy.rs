//! `trapkey policy`: the decision point over files, without a running authority.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use access_model::{AccessRequest, Action, Effect, Epoch};
use clap::{Args, Subcommand};
use pdp::{Cases, Faults, Finding, Origin, Snapshot, Sources};
use serde_json::{Value, json};

use super::Common;
use crate::answer::Answer;
use crate::config::PlantFiles;
use crate::failure::{Failure, SourceFault};
use crate::files;
use crate::nearest::nearest;

/// What to do with the policies.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Load plant, policies and workflow whole and look for what is odd: rules that can never apply, one policy per
    /// node, dead steps
    Check(Check),
    /// Run the cases of a file: questions with the answers they must get
    Test(Test),
    /// Answer one question and say why: which rule, which condition is missing, the smallest change that would allow
    /// it; exit code 1 when the answer is no
    Explain(Explain),
    /// Decide what a ledger recorded again under these policies, and list what would change; exit code 1 when something
    /// would
    WhatIf(super::whatif::WhatIf),
    /// Let a running authority read its files again now; broken ones change nothing (as an administrator)
    Reload(super::admin::Order),
}

/// Which files.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// A folder with plant.toml, policies.cedar and, if there are any, workflow.toml and cases.toml, instead of the
    /// files in the configuration
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    which: Which,
    /// Exit with 1 when something is odd, not only when something is wrong
    #[arg(long)]
    strict: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Test {
    #[command(flatten)]
    which: Which,
    /// The case file [default: cases.toml beside the policies]
    #[arg(long, value_name = "FILE")]
    cases: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    which: Which,
    /// Who asks
    #[arg(long, value_name = "NAME")]
    person: Option<String>,
    /// Through which application, or which application asks for itself
    #[arg(long, value_name = "URI")]
    application: Option<String>,
    /// What for: `read`, `write`, `call` ...
    #[arg(long)]
    action: String,
    /// At which server: its short name or ApplicationUri
    #[arg(long)]
    server: String,
    /// On which scope of the server
    #[arg(long)]
    scope: String,
    /// Where the workflow stands [default: its start]
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    steps: Vec<String>,
    /// Break the glass, for this reason
    #[arg(long, value_name = "REASON")]
    break_glass: Option<String>,
}

/// The texts of a plant, with the names of their files for messages.
#[derive(PartialEq)]
pub(crate) struct Texts {
    files: PlantFiles,
    plant: Arc<str>,
    policies: Arc<str>,
    workflow: Option<Arc<str>>,
}

impl Texts {
    pub(crate) fn read(files: PlantFiles) -> Result<Self, Failure> {
        let plant = files::text(&files.file)?;
        let policies = files::text(&files.policies)?;
        let workflow = files.workflow.as_deref().map(files::text).transpose()?;
        Ok(Self { files, plant, policies, workflow })
    }

    pub(crate) fn sources(&self) -> Sources<'_> {
        Sources { plant: &self.plant, policies: &self.policies, workflow: self.workflow.as_deref() }
    }

    pub(crate) fn snapshot(&self) -> Result<Snapshot, Failure> {
        Snapshot::load(self.sources(), &token::map_digest, Epoch(0)).map_err(|faults| self.failure(&faults, None))
    }

    /// The plant file alone: all that enforces needs of it. Policies and workflow are the authority's.
    pub(crate) fn plant(&self) -> Result<pdp::Plant, Failure> {
        pdp::Plant::parse(&self.plant).map_err(|faults| self.failure(&faults, None))
    }

    /// Faults with the text they are in.
    pub(crate) fn failure(&self, faults: &Faults, cases: Option<(&PathBuf, &Arc<str>)>) -> Failure {
        let place = |origin| match (origin, cases) {
            (Origin::Plant, _) => (self.files.file.clone(), self.plant.clone()),
            (Origin::Workflow, _) => {
                (self.files.workflow.clone().unwrap_or_default(), self.workflow.clone().unwrap_or_default())
            }
            (Origin::Cases, Some((file, text))) => (file.clone(), text.clone()),
            (Origin::Policies | Origin::Cases, _) => (self.files.policies.clone(), self.policies.clone()),
        };
        let faults: Vec<SourceFault> = faults
            .0
            .iter()
            .map(|fault| {
                let (file, text) = place(fault.origin);
                SourceFault { file, text, span: fault.span, message: fault.message.clone(), help: fault.hint.clone() }
            })
            .collect();
        let message = match faults.len() {
            1 => "1 fault; nothing of these files is used".to_owned(),
            count => format!("{count} faults; nothing of these files is used"),
        };
        Failure::in_files(message, faults)
    }
}

impl Which {
    pub(crate) fn texts(&self, common: &Common) -> Result<Texts, Failure> {
        Texts::read(match &self.folder {
            Some(folder) => {
                let workflow = Some(folder.join("workflow.toml")).filter(|path| files::exists(path));
                PlantFiles { file: folder.join("plant.toml"), policies: folder.join("policies.cedar"), workflow }
            }
            None => common.config.load()?.plant,
        })
    }
}

pub(crate) fn run(command: Command, common: &Common) -> Result<Answer, Failure> {
    match command {
        Command::Check(args) => check(&args, common),
        Command::Test(args) => test(&args, common),
        Command::Explain(args) => explain(&args, common),
        Command::WhatIf(args) => super::whatif::run(&args, common),
        Command::Reload(args) => super::admin::reload(&args, common),
    }
}

fn check(args: &Check, common: &Common) -> Result<Answer, Failure> {
    let texts = args.which.texts(common)?;
    let snapshot = texts.snapshot()?;
    let findings = pdp::check(&snapshot).map_err(|faults| texts.failure(&faults, None))?;
    let plant = snapshot.plant();
    let counts = [
        ("policies", snapshot.policies()),
        ("servers", plant.servers.len()),
        ("persons", plant.persons.len()),
        ("applications", plant.applications.len()),
        ("steps", snapshot.workflow().steps().len()),
    ];
    let counted: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let mut text = String::new();
    for finding in &findings {
        text += &finding_text(finding, &texts);
    }
    let odd = match findings.len() {
        0 => "nothing is odd".to_owned(),
        1 => "1 finding".to_owned(),
        count => format!("{count} findings"),
    };
    let _ = writeln!(text, "{}: {odd}", counted.join(", "));
    let listed: Vec<Value> = findings
        .iter()
        .map(|finding| {
            json!({"line": finding.line, "kind": finding.kind.word(), "policy": finding.policy,
               "message": finding.message, "help": finding.hint})
        })
        .collect();
    let counts: serde_json::Map<String, Value> =
        counts.into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect();
    let yes = findings.is_empty() || !args.strict;
    Ok(Answer::verdict(yes, text, json!({"ok": yes, "findings": listed, "counts": counts})))
}

fn finding_text(finding: &Finding, texts: &Texts) -> String {
    let file = texts.files.policies.display();
    let place = if finding.line == 0 { String::new() } else { format!("{file}:{}: ", finding.line) };
    let help = finding.hint.as_ref().map(|hint| format!("  help: {hint}\n")).unwrap_or_default();
    format!("{place}{}: {}\n{help}", finding.kind.word(), finding.message)
}

fn test(args: &Test, common: &Common) -> Result<Answer, Failure> {
    let texts = args.which.texts(common)?;
    let snapshot = texts.snapshot()?;
    let path = args.cases.clone().unwrap_or_else(|| texts.files.policies.with_file_name("cases.toml"));
    let text = files::text(&path)?;
    let cases = Cases::parse(&text, &snapshot).map_err(|faults| texts.failure(&faults, Some((&path, &text))))?;
    let results = cases.run(&snapshot);
    let failed: Vec<_> = results.iter().filter(|result| !result.differs.is_empty()).collect();
    let mut said = String::new();
    for result in &failed {
        let _ = writeln!(said, "FAILED {}:{}: {}", path.display(), result.line, result.name);
        for differs in &result.differs {
            let _ = writeln!(said, "  {differs}");
        }
    }
    let _ = writeln!(said, "{} cases, {} failed", results.len(), failed.len());
    let listed: Vec<Value> = results.iter().map(|result| {
        json!({"name": result.name, "line": result.line, "ok": result.differs.is_empty(), "differs": result.differs})
    }).collect();
    let json = json!({"ok": failed.is_empty(), "cases": listed});
    Ok(Answer::verdict(failed.is_empty(), said, json))
}

fn explain(args: &Explain, common: &Common) -> Result<Answer, Failure> {
    let snapshot = args.which.texts(common)?.snapshot()?;
    let snapshot = if args.steps.is_empty() {
        snapshot
    } else {
        let steps = args.steps.iter().map(String::as_str);
        snapshot.in_steps(steps).map_err(|error| Failure::from_error(&error).into_bad_input())?
    };
    let request = request(args, &snapshot)?;
    let explanation = pdp::explain(&snapshot, &request);
    let rules: Vec<Value> = explanation
        .rules
        .iter()
        .map(|rule| {
            let clauses: Vec<Value> =
                rule.clauses.iter().map(|clause| json!({"text": clause.text, "holds": clause.holds})).collect();
            json!({"policy": rule.policy, "line": rule.line, "effect": effect(rule.effect), "applies": rule.applies(),
               "description": rule.description, "clauses": clauses})
        })
        .collect();
    let changes: Vec<Vec<String>> =
        explanation.changes.iter().map(|set| set.iter().map(ToString::to_string).collect()).collect();
    let decision = &explanation.decision;
    let json = json!({
        "question": explanation.question,
        "effect": effect(decision.effect),
        "reasons": decision.reasons.iter().map(|reason| &reason.policy).collect::<Vec<_>>(),
        "unasked": explanation.unasked.as_ref().map(ToString::to_string),
        "rules": rules,
        "allowed_if": changes,
    });
    Ok(Answer::verdict(decision.effect == Effect::Permit, explanation.to_string(), json))
}

const fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Permit => "permit",
        Effect::Forbid => "forbid",
    }
}

fn request(args: &Explain, snapshot: &Snapshot) -> Result<AccessRequest, Failure> {
    let unknown = |what: &str, word: &str, near: Option<&str>| {
        let failure = Failure::bad_input(format!("no {what} is called `{word}`"));
        match near {
            Some(near) => failure.help(format!("did you mean `{near}`?")),
            None => failure,
        }
    };
    let action = Action::ALL.into_iter().find(|action| action.name() == args.action);
    let action =
        action.ok_or_else(|| unknown("action", &args.action, nearest(&args.action, Action::ALL.map(Action::name))))?;
    let plant = snapshot.plant();
    let (server, found) = plant.server(&args.server).ok_or_else(|| {
        let names = plant.servers.values().map(|server| server.name.as_str());
        unknown("server", &args.server, nearest(&args.server, names))
    })?;
    if args.scope != "public" && !found.scopes.iter().any(|scope| scope.name == args.scope) {
        let names = found.scopes.iter().map(|scope| scope.name.as_str());
        return Err(unknown("scope", &args.scope, nearest(&args.scope, names)));
    }
    let (person, application) = (args.person.as_deref(), args.application.as_deref());
    Ok(AccessRequest {
        principal: snapshot.principal(person, application, args.break_glass.is_some()),
        action,
        server: server.to_owned(),
        scope: args.scope.clone(),
        at: gates::clock::now().unix,
        break_glass: args.break_glass.clone(),
    })
}
