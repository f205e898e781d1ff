//! The address space of the resource server: namespace 0 from a table built at compile time, and the nodes the
//! application added, as a struct of arrays.
//!
//! Nothing here decides who may see or do something: [`Space::scope`] tells in which scope a node lies, browsing and
//! translating take a visibility predicate, and the server asks its gate.

mod types;
mod references;

use access_model::{ScopeIndex, UnixTime};
use opcua_types::{
    Argument, AttributeId, BrowseDescription, BrowseDirection, BrowsePathTarget, DataValue, LocalizedText, NodeClass,
    NodeId, NumericRange, QualifiedName, RelativePath, StatusCode, Variant,
};

pub use types::*;

/// The address space.
#[derive(Debug, Default)]
pub struct Space {}

#[allow(unused_variables, missing_docs)]
impl Space {
    pub fn new(config: SpaceConfig) -> Result<Self, SpaceError> { Ok(Self {}) }
    pub fn reserve(&mut self, nodes: usize) {}
    pub fn len(&self) -> usize { 0 }
    pub fn nodes(&self) -> impl Iterator<Item = NodeRef> { std::iter::empty() }
    pub fn namespaces(&self) -> &[String] { &[] }
    pub fn add_namespace(&mut self, uri: &str) -> Result<u16, SpaceError> { Ok(0) }
    pub fn set_server_facts(&mut self, facts: ServerFacts) {}
    pub fn server_facts(&self) -> Option<&ServerFacts> { None }
    pub fn server_facts_mut(&mut self) -> Option<&mut ServerFacts> { None }

    pub fn find(&self, id: &NodeId) -> Option<NodeRef> { None }
    pub fn contains(&self, node: NodeRef) -> bool { false }
    pub fn id(&self, node: NodeRef) -> NodeId { NodeId::null() }
    pub fn class(&self, node: NodeRef) -> NodeClass { NodeClass::Unspecified }
    pub fn browse_name(&self, node: NodeRef) -> QualifiedName { QualifiedName::null() }
    pub fn display_name(&self, node: NodeRef) -> LocalizedText { LocalizedText::null() }
    pub fn scope(&self, node: NodeRef) -> ScopeIndex { ScopeIndex::NOWHERE }
    pub fn set_scope(&mut self, node: NodeRef, scope: ScopeIndex) {}
    pub fn set_scope_below(&mut self, node: NodeRef, scope: ScopeIndex) {}

    pub fn attribute(&self, node: NodeRef, attribute: AttributeId) -> Result<Variant, StatusCode> { Err(StatusCode::BadAttributeIdInvalid) }
    pub fn access_level(&self, node: NodeRef) -> AccessLevel { AccessLevel::NONE }
    pub fn executable(&self, node: NodeRef) -> bool { false }
    pub fn data_type(&self, node: NodeRef) -> Option<NodeRef> { None }
    pub fn value_rank(&self, node: NodeRef) -> i32 { -2 }
    pub fn value(&self, node: NodeRef, now: UnixTime) -> DataValue { DataValue::null() }
    pub fn write_value(&mut self, node: NodeRef, range: &NumericRange, value: DataValue, now: UnixTime) -> StatusCode { StatusCode::Good }
    pub fn set_value(&mut self, node: NodeRef, value: DataValue, now: UnixTime) -> StatusCode { StatusCode::Good }
    pub fn set_overlay(&mut self, node: NodeRef, value: DataValue) {}
    pub fn take_changes(&mut self) -> Changes { Changes::default() }

    pub fn references(&self, node: NodeRef, direction: BrowseDirection, type_: Option<NodeRef>, include_subtypes: bool) -> impl Iterator<Item = Reference> + '_ { std::iter::empty() }
    pub fn is_subtype_of(&self, node: NodeRef, ancestor: NodeRef) -> bool { false }
    pub fn type_definition(&self, node: NodeRef) -> Option<NodeRef> { None }
    pub fn parent(&self, node: NodeRef) -> Option<NodeRef> { None }
    pub fn child(&self, node: NodeRef, name: &QualifiedName) -> Option<NodeRef> { None }
    pub fn browse_spec(&self, description: &BrowseDescription) -> Result<BrowseSpec, StatusCode> { Err(StatusCode::BadNodeIdUnknown) }
    pub fn browse(&self, spec: &BrowseSpec, max: usize, visible: &mut dyn FnMut(NodeRef) -> bool) -> BrowsePage { BrowsePage::default() }
    pub fn translate_browse_path(&self, start: NodeRef, path: &RelativePath, visible: &mut dyn FnMut(NodeRef) -> bool) -> Result<Vec<BrowsePathTarget>, StatusCode> { Err(StatusCode::BadNoMatch) }
    pub fn method_on(&self, object: NodeRef, method: NodeRef) -> bool { false }
    pub fn method_arguments(&self, method: NodeRef) -> (Vec<Argument>, Vec<Argument>) { (Vec::new(), Vec::new()) }
    pub fn value_fits(&self, value: &Variant, data_type: NodeRef, rank: i32) -> bool { true }

    pub fn add_folder(&mut self, parent: NodeRef, id: Option<NodeId>, name: &str, scope: ScopeIndex) -> Result<NodeRef, SpaceError> { Err(SpaceError::Full) }
    pub fn add_object(&mut self, parent: NodeRef, id: Option<NodeId>, name: &str, type_definition: NodeRef, scope: ScopeIndex) -> Result<NodeRef, SpaceError> { Err(SpaceError::Full) }
    pub fn add_variable(&mut self, variable: NewVariable<'_>) -> Result<NodeRef, SpaceError> { Err(SpaceError::Full) }
    pub fn add_method(&mut self, method: NewMethod<'_>) -> Result<NodeRef, SpaceError> { Err(SpaceError::Full) }
    pub fn add_node(&mut self, node: NewNode<'_>) -> Result<NodeRef, SpaceError> { Err(SpaceError::Full) }
    pub fn add_reference(&mut self, source: NodeRef, type_: NodeRef, target: NodeRef) -> Result<(), SpaceError> { Ok(()) }
}

/// Well-known nodes.
pub mod ns0 {
    use super::NodeRef;
    /// The node `i=<id>` of namespace 0.
    #[must_use]
    pub fn find_numeric(_id: u32) -> Option<NodeRef> { None }
}

/// The nodes of an authorization service.
pub mod gds {
    use super::{AuthorizationNodes, AuthorizationService, Space, SpaceError};
    /// Adds the GDS namespace and its AuthorizationServices with one service.
    ///
    /// # Errors
    /// A node cannot be added.
    pub fn add(_space: &mut Space, _service: &AuthorizationService<'_>) -> Result<AuthorizationNodes, SpaceError> { Err(SpaceError::Full) }
}
