//! Which scope a node of the upstream server lies in. Rules name namespaces by URI; a table is made of them for one
//! NamespaceArray. What no rule names lies nowhere and stays hidden.

use std::collections::HashMap;

use access_model::ScopeIndex;
use opcua_types::{Identifier, NodeId};

use crate::space::{UA_NAMESPACE, ns0};

/// What a rule puts into a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScopeRule {
    /// One node.
    Node(Identifier),
    /// The nodes whose string identifier begins so. The longest prefix wins.
    Prefix(String),
    /// All nodes of the namespace that no other rule names.
    Namespace,
    /// A node and what lies below it over hierarchical references, found by browsing at start. Of two such trees, a node
    /// belongs to the one whose root is nearer; at equal distance to none.
    Subtree(Identifier),
    /// The same for the node at the end of this browse path from Root: namespace index of the server's NamespaceArray and
    /// name of each step. The entry's `namespace` has no meaning. A path that leads nowhere puts nothing into the scope.
    Path(Vec<(u16, String)>),
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeEntry {
    /// The scope. `PUBLIC` makes nodes browsable and readable for every session, as types usually are.
    pub scope: ScopeIndex,
    /// URI of the namespace that the identifier is of.
    pub namespace: String,
    /// Which nodes.
    pub rule: ScopeRule,
}

/// All rules of one guard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopeRules {
    /// In any order.
    pub entries: Vec<ScopeEntry>,
}

impl ScopeRules {
    /// TypesFolder of namespace 0.
    const TYPES: u32 = 86;

    /// Makes the types of all namespaces public: clients read them to understand values.
    #[must_use]
    pub fn with_public_types(mut self) -> Self {
        self.entries.push(ScopeEntry {
            scope: ScopeIndex::PUBLIC,
            namespace: UA_NAMESPACE.to_owned(),
            rule: ScopeRule::Subtree(Identifier::Numeric(Self::TYPES)),
        });
        self
    }

    /// The roots that have to be browsed under this NamespaceArray.
    pub(super) fn roots(&self, namespaces: &[String]) -> Vec<(NodeId, ScopeIndex)> {
        let root = |entry: &ScopeEntry| match &entry.rule {
            ScopeRule::Subtree(identifier) => {
                let namespace = index_of(namespaces, &entry.namespace)?;
                Some((NodeId { namespace, identifier: identifier.clone() }, entry.scope))
            }
            _ => None,
        };
        self.entries.iter().filter_map(root).collect()
    }

    /// The browse paths whose ends have to be browsed as well.
    pub(super) fn paths(&self) -> Vec<(Vec<(u16, String)>, ScopeIndex)> {
        let path = |entry: &ScopeEntry| match &entry.rule {
            ScopeRule::Path(path) => Some((path.clone(), entry.scope)),
            _ => None,
        };
        self.entries.iter().filter_map(path).collect()
    }

    /// The table for this NamespaceArray. `found` are the nodes below the roots.
    pub(super) fn bind(&self, namespaces: Vec<String>, found: HashMap<NodeId, ScopeIndex>) -> ScopeTable {
        let mut table = ScopeTable { nodes: found, prefixes: Vec::new(), whole: HashMap::new(), namespaces };
        for ScopeEntry { scope, namespace, rule } in &self.entries {
            let Some(namespace) = index_of(&table.namespaces, namespace) else { continue };
            match rule {
                ScopeRule::Node(identifier) => {
                    table.nodes.insert(NodeId { namespace, identifier: identifier.clone() }, *scope);
                }
                ScopeRule::Prefix(prefix) => table.prefixes.push((namespace, prefix.clone(), *scope)),
                // Namespace 0 is the standard's: its nodes are public or hidden, or named one by one.
                ScopeRule::Namespace if namespace != 0 => {
                    table.whole.insert(namespace, *scope);
                }
                ScopeRule::Namespace | ScopeRule::Subtree(_) | ScopeRule::Path(_) => {}
            }
        }
        table.prefixes.sort_by_key(|(_, prefix, _)| std::cmp::Reverse(prefix.len()));
        table
    }
}

/// The first index with this URI: another one with the same name is not meant.
fn index_of(namespaces: &[String], uri: &str) -> Option<u16> {
    let at = namespaces.iter().position(|known| known == uri)?;
    u16::try_from(at).ok()
}

/// Scopes by node, for one NamespaceArray.
#[derive(Debug)]
pub(super) struct ScopeTable {
    nodes: HashMap<NodeId, ScopeIndex>,
    /// The longest first.
    prefixes: Vec<(u16, String, ScopeIndex)>,
    whole: HashMap<u16, ScopeIndex>,
    namespaces: Vec<String>,
}

impl ScopeTable {
    pub(super) fn namespaces(&self) -> &[String] {
        &self.namespaces
    }

    /// The index of a namespace.
    pub(super) fn namespace(&self, uri: &str) -> Option<u16> {
        index_of(&self.namespaces, uri)
    }

    /// The scope of a node, whether the node exists or not.
    pub(super) fn scope(&self, id: &NodeId) -> ScopeIndex {
        if let Some(scope) = self.nodes.get(id) {
            return *scope;
        }
        if id.namespace == 0 {
            return match &id.identifier {
                Identifier::Numeric(number) => standard(*number),
                _ => ScopeIndex::NOWHERE,
            };
        }
        if let Identifier::String(text) = &id.identifier {
            let text = text.as_ref();
            let fits = |(namespace, prefix, _): &&(u16, String, ScopeIndex)| {
                *namespace == id.namespace && text.starts_with(prefix.as_str())
            };
            if let Some((_, _, scope)) = self.prefixes.iter().find(fits) {
                return *scope;
            }
        }
        self.whole.get(&id.namespace).copied().unwrap_or(ScopeIndex::NOWHERE)
    }
}

/// Namespace 0 as in the resource server: public, but for diagnostics, configuration, roles and their like.
fn standard(number: u32) -> ScopeIndex {
    match ns0::find_numeric(number) {
        Some(node) if !ns0::hidden(node) => ScopeIndex::PUBLIC,
        _ => ScopeIndex::NOWHERE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(scope: u32, namespace: &str, rule: ScopeRule) -> ScopeEntry {
        ScopeEntry { scope: ScopeIndex(scope), namespace: namespace.into(), rule }
    }

    #[test]
    fn the_most_exact_rule_wins_and_the_rest_is_nowhere() {
        let rules = ScopeRules {
            entries: vec![
                entry(1, "urn:plant", ScopeRule::Prefix("Line.".into())),
                entry(2, "urn:plant", ScopeRule::Prefix("Line.Secret".into())),
                entry(3, "urn:plant", ScopeRule::Node(Identifier::String("Line.Secret.Open".into()))),
                entry(4, "urn:other", ScopeRule::Namespace),
                entry(5, "urn:absent", ScopeRule::Namespace),
                entry(6, UA_NAMESPACE, ScopeRule::Namespace),
            ],
        };
        let namespaces = [UA_NAMESPACE, "urn:server", "urn:other", "urn:plant", "urn:other"].map(str::to_owned);
        let table = rules.bind(namespaces.to_vec(), HashMap::new());
        let nowhere = ScopeIndex::NOWHERE.0;
        for (id, expected) in [
            (NodeId::new(3, "Line.Speed"), 1),
            (NodeId::new(3, "Line.Secret"), 2),
            (NodeId::new(3, "Line.Secret.Open"), 3),
            (NodeId::new(3, "Lin"), nowhere),
            (NodeId::new(3, 7_u32), nowhere),
            (NodeId::new(2, 7_u32), 4),
            (NodeId::new(4, 7_u32), nowhere),
            (NodeId::new(9, 7_u32), nowhere),
            (NodeId::new(0, 2255_u32), 0),
            (NodeId::new(0, 2275_u32), nowhere),
            (NodeId::new(0, 12_637_u32), nowhere),
            (NodeId::new(0, 4_000_000_u32), nowhere),
            (NodeId::new(0, "Line.Speed"), nowhere),
        ] {
            assert_eq!(table.scope(&id).0, expected, "{id}");
        }
    }

    #[test]
    fn a_table_follows_the_uri_to_another_index() {
        let rules = ScopeRules { entries: vec![entry(1, "urn:plant", ScopeRule::Prefix("Line.".into()))] };
        let table = rules.bind(vec![UA_NAMESPACE.into(), "urn:new".into(), "urn:plant".into()], HashMap::new());
        assert_eq!(table.scope(&NodeId::new(2, "Line.Speed")).0, 1);
        assert_eq!(table.scope(&NodeId::new(1, "Line.Speed")), ScopeIndex::NOWHERE);
    }
}
