//! The address space of the resource server: namespace 0 from a table built at compile time, and the nodes the
//! application added, as a struct of arrays.
//!
//! Nothing here decides who may see or do something: [`Space::scope`] tells in which scope a node lies, browsing and
//! translating take a visibility predicate, and the server asks its gate. There are no events.

mod added;
mod attributes;
mod browse;
pub mod gds;
mod grow;
mod historizing;
mod ids;
mod nodeset;
pub mod ns0;
mod range;
mod references;
mod restrictions;
mod server_object;
#[cfg(test)]
mod tests;
mod types;
mod typing;
mod values;

use std::collections::BTreeMap;
use std::fmt;

use access_model::ScopeIndex;
use opcua_types::{ContextOwned, DataValue, Identifier, NodeClass, NodeId};

pub use nodeset::{ImportOptions, Imported, NodeSetError, NodeSetFault, NodeSetLimits, StatedPermissions, UnfitValue};
pub use range::{read_range, write_range};
pub use types::*;
pub use values::date_time;

use added::Added;

use crate::history::{EventLog, Series};

/// The namespace of the standard itself.
pub const UA_NAMESPACE: &str = "http://opcfoundation.org/UA/";

/// The most namespaces a space takes.
const MAX_NAMESPACES: usize = 1_024;

/// The address space.
pub struct Space {
    namespaces: Vec<String>,
    added: Added,
    /// Scopes of namespace 0 where they differ from the table.
    scopes: BTreeMap<NodeRef, ScopeIndex>,
    /// Values of namespace 0 where they differ from the table.
    overlay: BTreeMap<NodeRef, DataValue>,
    facts: Option<ServerFacts>,
    /// The DefaultRolePermissions of the added namespaces.
    default_permissions: Vec<NodeRef>,
    /// Their DefaultAccessRestrictions.
    default_restrictions: Vec<NodeRef>,
    restrictions: restrictions::ByScope,
    changes: Changes,
    /// The history of the variables that have one.
    history: BTreeMap<NodeRef, Series>,
    /// The events of the notifiers that keep them.
    event_history: BTreeMap<NodeRef, EventLog>,
    /// How many nodes were given a number of namespace 1.
    numbered: u32,
    context: ContextOwned,
}

/// A space as it was.
struct Snapshot {
    namespaces: Vec<String>,
    added: Added,
    scopes: BTreeMap<NodeRef, ScopeIndex>,
    overlay: BTreeMap<NodeRef, DataValue>,
    default_permissions: Vec<NodeRef>,
    default_restrictions: Vec<NodeRef>,
    changes: Changes,
    numbered: u32,
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space").field("namespaces", &self.namespaces).field("nodes", &self.len()).finish()
    }
}

impl Space {
    /// Namespace 0, and a metadata object for each further namespace.
    ///
    /// # Errors
    /// Too many namespaces, or one is named twice, is empty or longer than 255 bytes.
    pub fn new(config: SpaceConfig) -> Result<Self, SpaceError> {
        let mut space = Self {
            namespaces: vec![UA_NAMESPACE.to_owned()],
            added: Added::default(),
            scopes: BTreeMap::new(),
            overlay: BTreeMap::new(),
            facts: None,
            default_permissions: Vec::new(),
            default_restrictions: Vec::new(),
            restrictions: restrictions::ByScope::default(),
            changes: Changes::default(),
            history: BTreeMap::new(),
            event_history: BTreeMap::new(),
            numbered: 0,
            context: ns0::context(),
        };
        // Namespace 1 has to exist before the metadata objects, which lie in it.
        space.namespaces.push(config.application_uri.clone());
        space.add_metadata(&config.application_uri)?;
        for uri in &config.namespaces {
            space.add_namespace(uri)?;
        }
        Ok(space)
    }

    /// Makes room for nodes to be added.
    pub fn reserve(&mut self, nodes: usize) {
        self.added.reserve(nodes);
    }

    /// How many nodes there are, namespace 0 included.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "namespace 0 is always there")]
    pub fn len(&self) -> usize {
        ns0::COUNT as usize + self.added.len() as usize
    }

    /// Every node.
    pub fn nodes(&self) -> impl Iterator<Item = NodeRef> + use<> {
        (0..ns0::COUNT + self.added.len()).map(NodeRef)
    }

    /// The NamespaceArray.
    #[must_use]
    pub fn namespaces(&self) -> &[String] {
        &self.namespaces
    }

    /// The index of a namespace; it is added, with its metadata object, if it is new.
    ///
    /// # Errors
    /// There are too many, or the URI is empty or longer than 255 bytes.
    pub fn add_namespace(&mut self, uri: &str) -> Result<u16, SpaceError> {
        if let Some(known) = self.namespaces.iter().position(|known| known == uri) {
            return u16::try_from(known).map_err(|_| SpaceError::Full);
        }
        let index = u16::try_from(self.namespaces.len()).map_err(|_| SpaceError::Full)?;
        if usize::from(index) >= MAX_NAMESPACES {
            return Err(SpaceError::Full);
        }
        self.namespaces.push(uri.to_owned());
        match self.add_metadata(uri) {
            Ok(()) => Ok(index),
            Err(error) => {
                self.namespaces.pop();
                Err(error)
            }
        }
    }

    /// The node with this id.
    #[must_use]
    pub fn find(&self, id: &NodeId) -> Option<NodeRef> {
        match (id.namespace, &id.identifier) {
            (0, Identifier::Numeric(number)) => ns0::find_numeric(*number),
            (0, _) => None,
            _ => self.added.ids.find(id).map(|at| NodeRef(ns0::COUNT + at)),
        }
    }

    /// Whether there is such a node.
    #[must_use]
    pub fn contains(&self, node: NodeRef) -> bool {
        node.0 < ns0::COUNT + self.added.len()
    }

    /// The node's id; null if there is no such node.
    #[must_use]
    pub fn id(&self, node: NodeRef) -> NodeId {
        match Self::added_at(node) {
            None => NodeId::new(0, ns0::numeric(node)),
            Some(at) => self.added.ids.id(at),
        }
    }

    /// The node's class; `Unspecified` if there is no such node.
    #[must_use]
    pub fn class(&self, node: NodeRef) -> NodeClass {
        let class = self.shape(node).map_or_else(|| ns0::class(node), |shape| shape.class);
        match class {
            _ if !self.contains(node) => NodeClass::Unspecified,
            1 => NodeClass::Object,
            2 => NodeClass::Variable,
            4 => NodeClass::Method,
            8 => NodeClass::ObjectType,
            16 => NodeClass::VariableType,
            32 => NodeClass::ReferenceType,
            64 => NodeClass::DataType,
            128 => NodeClass::View,
            _ => NodeClass::Unspecified,
        }
    }

    /// The scope the node lies in; nowhere if there is no such node.
    #[must_use]
    pub fn scope(&self, node: NodeRef) -> ScopeIndex {
        match Self::added_at(node) {
            Some(at) => self.added.scope(at),
            None => match self.scopes.get(&node) {
                Some(scope) => *scope,
                None if ns0::hidden(node) => ScopeIndex::NOWHERE,
                None => ScopeIndex::PUBLIC,
            },
        }
    }

    /// Puts a node into a scope.
    pub fn set_scope(&mut self, node: NodeRef, scope: ScopeIndex) {
        match Self::added_at(node) {
            Some(at) => self.added.set_scope(at, scope),
            None => {
                self.scopes.insert(node, scope);
            }
        }
    }

    /// Puts a node and the objects, variables and methods below it into a scope.
    pub fn set_scope_below(&mut self, node: NodeRef, scope: ScopeIndex) {
        let mut open = vec![node];
        let mut seen = std::collections::BTreeSet::new();
        while let Some(node) = open.pop() {
            if !seen.insert(node) {
                continue;
            }
            self.set_scope(node, scope);
            let forward = opcua_types::BrowseDirection::Forward;
            let below = self.references(node, forward, Some(ns0::HIERARCHICAL_REFERENCES), true);
            open.extend(below.map(|reference| reference.target).filter(|target| {
                matches!(self.class(*target), NodeClass::Object | NodeClass::Variable | NodeClass::Method)
            }));
        }
    }

    /// Everything that an import changes, to be restored when it fails.
    fn snapshot(&self) -> Snapshot {
        Snapshot {
            namespaces: self.namespaces.clone(),
            added: self.added.clone(),
            scopes: self.scopes.clone(),
            overlay: self.overlay.clone(),
            default_permissions: self.default_permissions.clone(),
            default_restrictions: self.default_restrictions.clone(),
            changes: self.changes.clone(),
            numbered: self.numbered,
        }
    }

    fn restore(&mut self, before: Snapshot) {
        let Snapshot { namespaces, added, scopes, overlay, .. } = before;
        (self.namespaces, self.added, self.scopes, self.overlay) = (namespaces, added, scopes, overlay);
        (self.default_permissions, self.default_restrictions) =
            (before.default_permissions, before.default_restrictions);
        (self.changes, self.numbered) = (before.changes, before.numbered);
    }

    /// Position among the added nodes; `None` for a node of namespace 0.
    fn added_at(node: NodeRef) -> Option<u32> {
        node.0.checked_sub(ns0::COUNT)
    }
}

/// A result that ends in an OPC UA status.
type Status<T> = Result<T, opcua_types::StatusCode>;
