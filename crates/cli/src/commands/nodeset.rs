//! `trapkey nodeset`: NodeSet2 files (OPC 10000-6 Annex F), before anything runs with them.

mod scopes;

use std::path::PathBuf;
use std::sync::Arc;

use access_model::ScopeIndex;
use clap::{Args, Subcommand};
use serde_json::json;
use ua_proto::space::{ImportOptions, Imported, NodeSetError, Space, SpaceConfig, UnfitValue};

use crate::answer::Answer;
use crate::failure::{Failure, SourceFault};
use crate::files;

/// What to do with node sets.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Read node sets whole, as a simulated server would, and say what is in them
    Check(Sets),
    /// Make scopes and policies that give each role what RolePermissions and AccessRestrictions of the node sets say
    Scopes(scopes::Scopes),
}

/// Which files.
#[derive(Debug, Args)]
pub(crate) struct Sets {
    /// NodeSet2 files, each behind those it builds on
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Node sets in one address space.
pub(crate) struct Loaded {
    space: Space,
    sets: Vec<Imported>,
}

pub(crate) fn run(command: Command) -> Result<Answer, Failure> {
    match command {
        Command::Check(sets) => check(&sets),
        Command::Scopes(args) => scopes::run(&args),
    }
}

impl Sets {
    fn load(&self) -> Result<Loaded, Failure> {
        let config = SpaceConfig { application_uri: "urn:trapkey:nodeset".into(), namespaces: Vec::new() };
        let mut space = Space::new(config).map_err(|error| Failure::from_error(&error))?;
        let mut sets = Vec::new();
        for file in &self.files {
            let text = files::text(file)?;
            sets.push(space.import(&text, &options()).map_err(|error| fault(file.clone(), text, &error))?);
        }
        Ok(Loaded { space, sets })
    }
}

/// How node sets are taken in: nobody sees their nodes until a scope names them, and a structure that nobody here knows
/// leaves its variable without a value.
pub(crate) fn options() -> ImportOptions {
    ImportOptions { scope: ScopeIndex::NOWHERE, unfit_values: UnfitValue::LeaveEmpty, ..ImportOptions::default() }
}

/// A fault of a node set in its line.
pub(crate) fn fault(file: PathBuf, text: Arc<str>, error: &NodeSetError) -> Failure {
    let line = usize::try_from(error.line.saturating_sub(1)).unwrap_or(0);
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let rest = text.get(start..).unwrap_or("");
    let blank = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    let end = rest.find(['\r', '\n']).unwrap_or(rest.len()).max(blank);
    let message = error.fault.to_string();
    let help = error.fault.hint().map(str::to_owned);
    let place = SourceFault { file, text, span: (start + blank, start + end), message, help };
    Failure::in_files("nothing of this node set is used", vec![place])
}

fn check(args: &Sets) -> Result<Answer, Failure> {
    let loaded = args.load()?;
    let mut text = String::new();
    let mut listed = Vec::new();
    for (file, set) in args.files.iter().zip(&loaded.sets) {
        let file = file.display().to_string();
        let stated = set.permissions.len();
        let models: Vec<&str> = set.models.iter().map(|(uri, ..)| uri.as_str()).collect();
        text += &format!("{file}: {} nodes of {}", set.nodes.len(), models.join(", "));
        text += &format!(", {stated} with RolePermissions, {} with AccessRestrictions", set.restrictions.len());
        match set.without_value.len() {
            0 => text.push('\n'),
            count => text += &format!("; {count} values are of structures that are not known here and are left out\n"),
        }
        let model = |(uri, version, date): &(String, String, String)| json!({"uri": uri, "version": version, "published": date});
        listed.push(json!({
            "file": file, "models": set.models.iter().map(model).collect::<Vec<_>>(), "nodes": set.nodes.len(),
            "with_permissions": stated, "with_restrictions": set.restrictions.len(),
            "without_value": set.without_value.iter().map(|node| loaded.space.id(*node).to_string()).collect::<Vec<_>>(),
        }));
    }
    Ok(Answer::ok(text, json!({"ok": true, "node_sets": listed})))
}
