//! A proposal as text: Cedar, and the additions to the plant file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::{NewScope, Rule, Whose};
use crate::plant::{Plant, ScopeKind};

/// The policies.
pub(super) fn policies(rules: &[Rule], plant: &Plant) -> String {
    let mut text = String::from(
        "// Proposed from a recording by `trapkey guard propose`: what was seen, by role and step, and nothing else.\n\
         // Read it, give scopes labels where several stand together, then let it enforce.\n",
    );
    for rule in rules {
        let _ = write!(text, "\n@id({:?})\n", rule.id);
        let actions = list("Action", rule.actions.iter().map(|action| action.name().to_owned()));
        let whose = match &rule.whose {
            Whose::Role(name) => format!("in Role::{}", quoted(name)),
            Whose::Person(name) => format!("== Person::{}", quoted(name)),
            Whose::Application(name) => format!("== Application::{}", quoted(name)),
        };
        let uid = |scope: &String| {
            let kind = if is_method(plant, &rule.server, scope) { "Method" } else { "Scope" };
            format!("{kind}::{}", quoted(&format!("{}/{scope}", rule.server)))
        };
        let _ = match rule.scopes.as_slice() {
            [one] => write!(text, "permit (principal {whose}, action in {actions}, resource == {})", uid(one)),
            many => {
                let many: Vec<String> = many.iter().map(uid).collect();
                let many = many.join(", ");
                write!(
                    text,
                    "permit (principal {whose}, action in {actions}, resource)\nwhen {{ resource in [{many}] }}"
                )
            }
        };
        if let Some(when) = when(&rule.steps) {
            let _ = write!(text, "\nwhen {{ {when} }}");
        }
        text.push_str(";\n");
    }
    text
}

fn when(steps: &[Vec<String>]) -> Option<String> {
    let single: Vec<String> = steps.iter().filter(|one| one.len() == 1).flatten().cloned().collect();
    let joint = steps.iter().filter(|one| one.len() > 1);
    let mut ways: Vec<String> = Vec::new();
    if !single.is_empty() {
        ways.push(format!("context.steps.containsAny({})", list("Step", single.into_iter())));
    }
    ways.extend(joint.map(|one| format!("context.steps.containsAll({})", list("Step", one.iter().cloned()))));
    (!ways.is_empty()).then(|| ways.join(" || "))
}

fn list(kind: &str, names: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = names.map(|name| format!("{kind}::{}", quoted(&name))).collect();
    format!("[{}]", all.join(", "))
}

/// A string of Cedar, and of TOML: both escape alike what names here can hold.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter.is_control() => out.push('?'),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// The plant file with new roles, persons and scopes.
pub(super) fn plant(
    text: &str,
    plant: &Plant,
    scopes: &[NewScope],
    roles: &BTreeMap<String, BTreeSet<String>>,
) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for server in plant.servers.values() {
        let mut added = String::new();
        for scope in scopes.iter().filter(|scope| scope.server == server.name) {
            let nodes: Vec<String> = scope.nodes.iter().map(|node| format!("  {},\n", quoted(node))).collect();
            let _ = write!(added, "[[server.scope]]\nname = {}\nnodes = [\n{}]\n", quoted(&scope.name), nodes.concat());
        }
        if !added.is_empty() {
            let at = end_of(&lines, &server.name);
            lines.insert(at, added);
        }
    }
    let mut out = lines.join("\n");
    out.push('\n');
    for (role, people) in roles {
        let _ = write!(out, "\n[[role]]\nname = {}\n", quoted(role));
        for name in people {
            if !plant.persons.contains_key(name) && !plant.applications.contains_key(name) {
                let _ = write!(out, "[[person]]\nname = {}\nroles = [{}]\n", quoted(name), quoted(role));
            }
        }
    }
    out
}

/// Behind the last line of a server of the plant file.
fn end_of(lines: &[String], name: &str) -> usize {
    let header = |line: &str| line.trim_start().starts_with('[');
    let mut inside = false;
    for (at, line) in lines.iter().enumerate() {
        let line = line.trim();
        if line.starts_with("[[server]]") {
            if inside {
                return at;
            }
            let rest = lines.get(at + 1..).unwrap_or_default();
            let own = rest.iter().take_while(|line| !header(line));
            inside = own.into_iter().any(|line| {
                let (key, value) = line.split_once('=').unwrap_or_default();
                key.trim() == "name" && value.trim().trim_matches(['"', '\'']) == name
            });
        } else if inside && header(line) && !line.starts_with("[[server.") {
            return at;
        }
    }
    lines.len()
}

/// Whether a scope is a method, or has methods that are part of it.
pub(super) fn stands_alone(plant: &Plant, server: &str, scope: &str) -> bool {
    let part = |one: &crate::plant::Scope| match &one.kind {
        ScopeKind::Method { part_of } => one.name == scope || part_of.as_deref() == Some(scope),
        ScopeKind::Nodes => false,
    };
    plant.server(server).is_some_and(|(_, server)| server.scopes.iter().any(part))
}

/// Whether a scope is a method of the plant file.
fn is_method(plant: &Plant, server: &str, scope: &str) -> bool {
    let found = plant.server(server).and_then(|(_, server)| server.scopes.iter().find(|one| one.name == scope));
    found.is_some_and(|scope| matches!(scope.kind, ScopeKind::Method { .. }))
}
