//! Lays the scopes of a plant file over an address space: every node gets the scope that names it most closely.

use std::collections::BTreeMap;

use access_model::{ScopeIndex, ScopeMap};
use opcua_types::{BrowseDirection, NodeId, QualifiedName};
use pdp::plant::{Covered, Server};
use ua_proto::space::{NodeRef, Space, ns0};

/// A plant file that does not fit the server's address space.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A scope covers a node that the server does not have.
    #[error("scope `{scope}` covers `{node}`, which this server does not have")]
    NoNode {
        /// The scope.
        scope: String,
        /// What it covers, as written.
        node: String,
    },
    /// The names make no map.
    #[error("the scopes make no map: {0}")]
    Map(#[from] access_model::InvalidScopeMap),
}

/// How closely a scope names a node: by NodeId first, then by the depth of the subtree's root, then by file order.
type Closeness = (bool, usize, ScopeIndex);

/// Sets the scope of every node that `server` covers; nodes that no scope covers keep theirs. Sets what channels the
/// scopes ask for, too. Gives the map that tokens for this server index.
///
/// # Errors
/// A scope covers a node that is not there: nothing is guessed, since a typing error would leave a node unguarded.
pub fn apply(space: &mut Space, server: &Server) -> Result<ScopeMap, Unfit> {
    let map = server.scope_map()?;
    for (node, (_, _, scope)) in closest(space, server)? {
        space.set_scope(node, scope);
    }
    let own = server.numbered().filter_map(|(index, scope)| Some((index, scope.restrictions?)));
    space.set_restrictions(server.restrictions, own);
    Ok(map)
}

/// The scopes that nodes have when no plant file covers them; what a changed plant file does not cover any more goes
/// back to it.
#[derive(Clone, Debug, Default)]
pub struct Uncovered(BTreeMap<NodeRef, ScopeIndex>);

impl Uncovered {
    /// Remembers what `server` covers, to be called before [`apply`]. Gives the map that [`apply`] will give.
    ///
    /// # Errors
    /// As [`apply`]; then nothing changes.
    pub fn note(&mut self, space: &Space, server: &Server) -> Result<ScopeMap, Unfit> {
        let map = server.scope_map()?;
        for node in closest(space, server)?.into_keys() {
            self.0.entry(node).or_insert_with(|| space.scope(node));
        }
        Ok(map)
    }

    /// Takes every plant file off the address space.
    pub fn restore(&self, space: &mut Space) {
        self.0.iter().for_each(|(node, scope)| space.set_scope(*node, *scope));
    }
}

fn closest(space: &Space, server: &Server) -> Result<BTreeMap<NodeRef, Closeness>, Unfit> {
    let mut best: BTreeMap<NodeRef, Closeness> = BTreeMap::new();
    for (index, scope) in server.numbered() {
        for covered in &scope.covers {
            let missing = || Unfit::NoNode { scope: scope.name.clone(), node: words(covered) };
            let root = find(space, covered).ok_or_else(missing)?;
            let (exact, nodes) = match covered {
                Covered::Node(_) => (true, vec![root]),
                Covered::SubtreeOf(_) | Covered::SubtreeAt(_) => (false, below(space, root)),
            };
            let closeness = (exact, depth(space, root), index);
            for node in nodes {
                let held = best.entry(node).or_insert(closeness);
                *held = (*held).max(closeness);
            }
        }
    }
    Ok(best)
}

fn words(covered: &Covered) -> String {
    match covered {
        Covered::Node(id) | Covered::SubtreeOf(id) => id.clone(),
        Covered::SubtreeAt(path) => path.iter().map(|(namespace, name)| format!("/{namespace}:{name}")).collect(),
    }
}

fn find(space: &Space, covered: &Covered) -> Option<NodeRef> {
    match covered {
        Covered::Node(text) | Covered::SubtreeOf(text) => space.find(&node_id(space, text)?),
        Covered::SubtreeAt(path) => path.iter().try_fold(ns0::find_numeric(84)?, |at, (namespace, name)| {
            space.child(at, &QualifiedName::new(*namespace, name.as_str()))
        }),
    }
}

/// A NodeId from its text, with `nsu=` resolved through the server's namespaces.
fn node_id(space: &Space, text: &str) -> Option<NodeId> {
    let Some(rest) = text.strip_prefix("nsu=") else { return text.parse().ok() };
    // In the text of a NodeId a URI has its `;` and `%` escaped (OPC 10000-6 §5.1.12), a name has not.
    let (uri, identifier) = rest.split_once(';')?;
    let uri = uri.replace("%3B", ";").replace("%3b", ";").replace("%25", "%");
    let index = space.namespaces().iter().position(|known| *known == uri)?;
    format!("ns={index};{identifier}").parse().ok()
}

/// A node and everything below it by hierarchical references, each once.
fn below(space: &Space, root: NodeRef) -> Vec<NodeRef> {
    let hierarchical = ns0::find_numeric(33);
    let mut seen = vec![root];
    let mut known: std::collections::BTreeSet<NodeRef> = [root].into();
    let mut at = 0;
    while let Some(node) = seen.get(at).copied() {
        for reference in space.references(node, BrowseDirection::Forward, hierarchical, true) {
            // Types stay what everybody may see, also where an object points to them.
            if space.id(reference.target).namespace != 0 && known.insert(reference.target) {
                seen.push(reference.target);
            }
        }
        at += 1;
    }
    seen
}

fn depth(space: &Space, mut node: NodeRef) -> usize {
    let mut depth = 0;
    while let Some(parent) = space.parent(node) {
        depth += 1;
        node = parent;
        if depth > 100 {
            break;
        }
    }
    depth
}

#[cfg(test)]
mod tests {
    use access_model::Restrictions;
    use opcua_types::{AttributeId, Variant};
    use ua_proto::space::SpaceConfig;

    use super::*;

    #[test]
    fn what_channels_the_file_asks_for_is_on_its_nodes_and_goes_with_the_next_file() {
        let text = |line: &str| {
            format!(
                "[plant]\nname = \"p\"\n[[site]]\nname = \"s\"\n[[zone]]\nname = \"z\"\nsite = \"s\"\n\
                 [[equipment]]\nname = \"e\"\nzone = \"z\"\n\
                 [[server]]\nname = \"m\"\nuri = \"urn:m\"\nequipment = \"e\"\nrestrictions = [\"signing\"]\n\
                 [[server.scope]]\nname = \"open\"\nnodes = [\"ns=1;s=Open\"]\nrestrictions = []\n\
                 [[server.scope]]\nname = \"plain\"\nnodes = [\"ns=1;s=Plain\"]\n\
                 [[server.scope]]\nname = \"secret\"\nnodes = [\"ns=1;s=Secret\"]\n{line}\n"
            )
        };
        let config = SpaceConfig { application_uri: "urn:m".into(), namespaces: Vec::new() };
        let mut space = Space::new(config).unwrap();
        let nodes = ["Open", "Plain", "Secret"]
            .map(|name| space.add_folder(ns0::OBJECTS, Some(NodeId::new(1, name)), name, ScopeIndex::NOWHERE).unwrap());
        let signing = Restrictions::SIGNING.bits();
        let both = (Restrictions::ENCRYPTION | Restrictions::BROWSE).bits();
        for (line, secret) in [("restrictions = [\"encryption\", \"browse\"]", both), ("", signing)] {
            let plant = pdp::plant::Plant::parse(&text(line)).unwrap();
            apply(&mut space, plant.server("m").unwrap().1).unwrap();
            let told = nodes.map(|node| space.attribute(node, AttributeId::AccessRestrictions).unwrap());
            assert_eq!(told, [0, signing, secret].map(Variant::UInt16), "{line}");
        }
    }
}
