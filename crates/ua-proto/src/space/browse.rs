//! Browse and TranslateBrowsePathsToNodeIds as pure functions of the space and of what the caller may see.

use std::collections::BTreeSet;

use opcua_types::{
    BrowseDescription, BrowseDirection, BrowsePathTarget, ExpandedNodeId, LocalizedText, NodeClass, NodeId,
    QualifiedName, ReferenceDescription, RelativePath, RelativePathElement, StatusCode,
};

use super::references::{Cursor, Walk, goes};
use super::types::same_name;
use super::{BrowsePage, BrowseSpec, NodeRef, Reference, Space, Status, ns0};

/// The most references one browse looks at before it hands out a continuation, so that a huge folder of hidden nodes
/// never holds up everybody else.
const MAX_LOOKED_AT: usize = 1 << 16;
/// The most nodes one browse path may lead to.
const MAX_TARGETS: usize = 1_000;
/// The most elements of one browse path.
const MAX_PATH: usize = 64;

// Bits of a result mask (OPC 10000-4 §5.9.2).
const REFERENCE_TYPE: u32 = 1;
const IS_FORWARD: u32 = 1 << 1;
const NODE_CLASS: u32 = 1 << 2;
const BROWSE_NAME: u32 = 1 << 3;
const DISPLAY_NAME: u32 = 1 << 4;
const TYPE_DEFINITION: u32 = 1 << 5;

impl Space {
    /// A browse request as this space understands it. Whether the start node is visible is the caller's to check.
    ///
    /// # Errors
    /// `Bad_NodeIdUnknown`, `Bad_ReferenceTypeIdInvalid`, `Bad_BrowseDirectionInvalid`.
    pub fn browse_spec(&self, description: &BrowseDescription) -> Result<BrowseSpec, StatusCode> {
        let node = self.find(&description.node_id).ok_or(StatusCode::BadNodeIdUnknown)?;
        if description.browse_direction == BrowseDirection::Invalid {
            return Err(StatusCode::BadBrowseDirectionInvalid);
        }
        Ok(BrowseSpec {
            node,
            direction: description.browse_direction,
            reference_type: self.reference_type(&description.reference_type_id)?,
            include_subtypes: description.include_subtypes,
            node_class_mask: description.node_class_mask,
            result_mask: description.result_mask,
            resume: Cursor::default(),
        })
    }

    /// Up to `max` references (0: as many as there are) whose targets are visible, and how to go on. A page may be
    /// short, even empty, and still have a rest.
    pub fn browse(&self, spec: &BrowseSpec, max: usize, visible: &mut dyn FnMut(NodeRef) -> bool) -> BrowsePage {
        let max = if max == 0 { usize::MAX } else { max };
        let mut page = BrowsePage::default();
        let mut walk = Walk::new(self, spec.node, spec.resume);
        let mut looked_at = 0;
        loop {
            let before = walk.cursor;
            let Some(found) = walk.next() else { return page };
            looked_at += 1;
            if looked_at > MAX_LOOKED_AT {
                page.rest = Some(BrowseSpec { resume: before, ..*spec });
                return page;
            }
            if !self.matches(spec, &found) || !visible(found.target) {
                continue;
            }
            if page.references.len() >= max {
                page.rest = Some(BrowseSpec { resume: before, ..*spec });
                return page;
            }
            page.references.push(self.describe(&found, spec.result_mask, visible));
        }
    }

    /// The nodes a path leads to. Nodes that are not visible lead nowhere.
    ///
    /// # Errors
    /// `Bad_NothingToDo` for an empty path, `Bad_BrowseNameInvalid` for a name left out before the end,
    /// `Bad_NoMatch`, `Bad_TooManyMatches`.
    pub fn translate_browse_path(
        &self,
        start: NodeRef,
        path: &RelativePath,
        visible: &mut dyn FnMut(NodeRef) -> bool,
    ) -> Result<Vec<BrowsePathTarget>, StatusCode> {
        let elements = path.elements.as_deref().unwrap_or_default();
        let Some((_, before_last)) = elements.split_last() else { return Err(StatusCode::BadNothingToDo) };
        if before_last.iter().any(|element| element.target_name.is_null()) {
            return Err(StatusCode::BadBrowseNameInvalid);
        }
        if elements.len() > MAX_PATH {
            return Err(StatusCode::BadTooManyOperations);
        }
        let mut reached = vec![start];
        for element in elements {
            reached = self.step(&reached, element, visible)?;
        }
        let target =
            |node| BrowsePathTarget { target_id: ExpandedNodeId::from(self.id(node)), remaining_path_index: u32::MAX };
        Ok(reached.into_iter().map(target).collect())
    }

    /// The first child (over a hierarchical reference) with this browse name.
    #[must_use]
    pub fn child(&self, node: NodeRef, name: &QualifiedName) -> Option<NodeRef> {
        self.references(node, BrowseDirection::Forward, Some(ns0::HIERARCHICAL_REFERENCES), true)
            .map(|reference| reference.target)
            .find(|target| self.is_called(*target, name))
    }

    /// `None` for the null id, which asks for all types.
    fn reference_type(&self, id: &NodeId) -> Status<Option<NodeRef>> {
        if id.is_null() {
            return Ok(None);
        }
        let found = self.find(id).filter(|node| self.class(*node) == NodeClass::ReferenceType);
        found.map(Some).ok_or(StatusCode::BadReferenceTypeIdInvalid)
    }

    fn is_called(&self, node: NodeRef, name: &QualifiedName) -> bool {
        let (namespace, text) = self.name(node);
        same_name(name, namespace, text)
    }

    fn matches(&self, spec: &BrowseSpec, found: &Reference) -> bool {
        goes(found, spec.direction)
            && self.of_type(found.type_, spec.reference_type, spec.include_subtypes)
            && (spec.node_class_mask == 0 || spec.node_class_mask & self.class(found.target) as u32 != 0)
    }

    fn describe(&self, found: &Reference, mask: u32, visible: &mut dyn FnMut(NodeRef) -> bool) -> ReferenceDescription {
        let wants = |bit| mask & bit != 0;
        let target = found.target;
        let type_definition = self.type_definition(target).filter(|_| wants(TYPE_DEFINITION)).filter(|it| visible(*it));
        ReferenceDescription {
            reference_type_id: if wants(REFERENCE_TYPE) { self.id(found.type_) } else { NodeId::null() },
            is_forward: wants(IS_FORWARD) && found.forward,
            node_id: ExpandedNodeId::from(self.id(target)),
            browse_name: if wants(BROWSE_NAME) { self.browse_name(target) } else { QualifiedName::null() },
            display_name: if wants(DISPLAY_NAME) { self.display_name(target) } else { LocalizedText::null() },
            node_class: if wants(NODE_CLASS) { self.class(target) } else { NodeClass::Unspecified },
            type_definition: type_definition.map_or_else(ExpandedNodeId::null, |it| ExpandedNodeId::from(self.id(it))),
        }
    }

    fn step(
        &self,
        from: &[NodeRef],
        element: &RelativePathElement,
        visible: &mut dyn FnMut(NodeRef) -> bool,
    ) -> Status<Vec<NodeRef>> {
        let wanted = self.reference_type(&element.reference_type_id).map_err(|_| StatusCode::BadNoMatch)?;
        let direction = if element.is_inverse { BrowseDirection::Inverse } else { BrowseDirection::Forward };
        let mut reached = Vec::new();
        let mut seen = BTreeSet::new();
        for node in from {
            for found in self.references(*node, direction, wanted, element.include_subtypes) {
                let named = element.target_name.is_null() || self.is_called(found.target, &element.target_name);
                if named && visible(found.target) && seen.insert(found.target) {
                    reached.push(found.target);
                }
            }
            if reached.len() > MAX_TARGETS {
                return Err(StatusCode::BadTooManyMatches);
            }
        }
        if reached.is_empty() { Err(StatusCode::BadNoMatch) } else { Ok(reached) }
    }
}
