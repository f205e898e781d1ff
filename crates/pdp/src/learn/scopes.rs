//! What was recorded where no scope reaches: nodes are put into new scopes, by folder and by what was done to them.

use std::collections::{BTreeMap, BTreeSet};

use access_model::Action;

use super::{Seen, free, server, word};
use crate::plant::Plant;

/// A scope that is proposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewScope {
    /// At which server: its short name.
    pub server: String,
    /// Its name.
    pub name: String,
    /// The nodes that were touched, and no others.
    pub nodes: Vec<String>,
}

/// What can be granted, and what cannot.
pub(super) fn sort_out(plant: &Plant, seen: Vec<Seen>) -> (Vec<Seen>, Vec<(Seen, &'static str)>) {
    let (mut chosen, mut left_out) = (Vec::new(), Vec::new());
    for mut one in seen {
        match why_not(plant, &mut one) {
            None => chosen.push(one),
            Some(why) => left_out.push((one, why)),
        }
    }
    (chosen, left_out)
}

/// Why something cannot be granted; what is to get a new scope loses its old one.
fn why_not(plant: &Plant, one: &mut Seen) -> Option<&'static str> {
    let Some(server) = server(plant, &one.access) else { return Some("the plant file has no such server") };
    if one.access.who.trim().is_empty() && one.access.application.is_none() {
        return Some("the record names nobody");
    }
    let visible = [Action::Browse, Action::Read, Action::ReceiveEvents].contains(&one.access.action);
    if one.access.scope == "public" {
        if visible {
            return None;
        }
        // Public is nobody's to change: the node needs a scope of its own.
        one.access.scope.clear();
    }
    if server.scopes.iter().any(|scope| scope.name == one.access.scope) {
        return None;
    }
    one.access.scope.clear();
    let Some(node) = named(&one.node) else {
        return Some("the record names no node, and no scope holds it");
    };
    one.node = node;
    None
}

/// The node as a plant file names it; none when the record has cut it, or counted many together.
fn named(text: &str) -> Option<String> {
    if text.is_empty() || text.ends_with('…') || text.starts_with("further ") || text.contains("%0A") {
        return None;
    }
    let node = text.replace("%20", " ").replace("%25", "%");
    crate::plant::is_node_id(&node).then_some(node)
}

/// The folder that a node's name tells: up to its last dot or slash.
fn folder(node: &str) -> String {
    let (space, id) = match node.strip_prefix("nsu=").and_then(|rest| rest.split_once(';')) {
        Some((uri, id)) => (uri, id),
        None => ("", node),
    };
    let name = id.strip_prefix("s=");
    match name.and_then(|name| name.rsplit_once(['.', '/'])) {
        Some((folder, _)) => folder.to_owned(),
        None => name.map_or_else(|| space.rsplit([':', '/']).next().unwrap_or("nodes").to_owned(), str::to_owned),
    }
}

/// Who did what in which steps: nodes with which the same was done lie together.
type Signature = BTreeSet<(String, Action, Vec<String>)>;

/// Gives new scopes to what has none; accesses are moved there.
pub(super) fn name(plant: &Plant, chosen: &mut [Seen]) -> Vec<NewScope> {
    let mut signatures: BTreeMap<(String, String), Signature> = BTreeMap::new();
    for one in chosen.iter().filter(|one| one.access.scope.is_empty()) {
        let signature = signatures.entry((one.access.server.clone(), one.node.clone())).or_default();
        signature.insert((one.access.who.clone(), one.access.action, one.access.steps.clone()));
    }
    let mut groups: BTreeMap<(String, String, Signature), Vec<String>> = BTreeMap::new();
    for ((uri, node), signature) in signatures {
        groups.entry((uri, folder(&node), signature)).or_default().push(node);
    }
    let mut scopes: Vec<NewScope> = Vec::new();
    let mut moved: BTreeMap<(String, String), String> = BTreeMap::new();
    for ((uri, folder, signature), nodes) in groups {
        let Some(server) = plant.servers.get(&uri) else { continue };
        let changed = signature.iter().any(|(_, action, _)| action.changes());
        let base = format!("{}-{}", word(&folder), if changed { "changed" } else { "seen" });
        let taken = |name: &str| {
            name == "public"
                || server.scopes.iter().any(|scope| scope.name == name)
                || scopes.iter().any(|scope| scope.server == server.name && scope.name == name)
        };
        let name = free(&base, taken);
        moved.extend(nodes.iter().map(|node| ((uri.clone(), node.clone()), name.clone())));
        scopes.push(NewScope { server: server.name.clone(), name, nodes });
    }
    for one in chosen.iter_mut().filter(|one| one.access.scope.is_empty()) {
        if let Some(name) = moved.get(&(one.access.server.clone(), one.node.clone())) {
            one.access.scope.clone_from(name);
        }
    }
    scopes
}
