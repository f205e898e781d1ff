//! References of a node, in a fixed order that a cursor can go on from.

use opcua_types::{BrowseDirection, NodeClass};

use super::{NodeRef, Reference, Space, ns0};

/// Where a walk over a node's references stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    stage: Stage,
    /// Position in the stage's list; a run of children.
    at: u32,
    /// Position in the run.
    offset: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// References of the table of namespace 0.
    #[default]
    Table,
    /// From an added node to its type.
    Type,
    /// From an added node to its parent.
    Parent,
    /// To the added nodes that hang under the node.
    Children,
    /// Further references.
    Extra,
    End,
}

impl Cursor {
    fn enter(&mut self, stage: Stage, at: u32) {
        *self = Self { stage, at, offset: 0 };
    }
}

/// The references of one node.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    space: &'a Space,
    node: NodeRef,
    pub(super) cursor: Cursor,
}

impl<'a> Walk<'a> {
    pub(super) fn new(space: &'a Space, node: NodeRef, cursor: Cursor) -> Self {
        Self { space, node, cursor }
    }

    fn added_type(&self) -> Option<Reference> {
        let target = self.space.shape(self.node)?.type_definition?;
        Some(Reference { type_: ns0::HAS_TYPE_DEFINITION, forward: true, target })
    }

    fn added_parent(&self) -> Option<Reference> {
        let type_ = self.space.shape(self.node)?.reference;
        let target = self.space.added.parent(Space::added_at(self.node)?)?;
        Some(Reference { type_, forward: false, target })
    }

    fn child(&mut self) -> Option<Reference> {
        loop {
            match self.space.added.child(self.cursor.at, self.cursor.offset) {
                Ok(target) => {
                    self.cursor.offset += 1;
                    let type_ = self.space.shape(target)?.reference;
                    return Some(Reference { type_, forward: true, target });
                }
                Err(0) => return None,
                Err(next) => self.cursor.enter(Stage::Children, next),
            }
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Reference;

    fn next(&mut self) -> Option<Reference> {
        loop {
            let found = match self.cursor.stage {
                Stage::Table if self.node.0 < ns0::COUNT => ns0::reference(self.node, self.cursor.at),
                Stage::Type if self.cursor.at == 0 => self.added_type(),
                Stage::Parent if self.cursor.at == 0 => self.added_parent(),
                Stage::Children => self.child(),
                Stage::Extra => {
                    let list = self.space.added.extra.get(&self.node.0);
                    list.and_then(|list| list.get(self.cursor.at as usize)).copied()
                }
                Stage::End => return None,
                Stage::Table | Stage::Type | Stage::Parent => None,
            };
            match (found, self.cursor.stage) {
                (Some(found), Stage::Children) => return Some(found),
                (Some(found), _) => {
                    self.cursor.at += 1;
                    return Some(found);
                }
                (None, Stage::Table) => self.cursor.enter(Stage::Type, 0),
                (None, Stage::Type) => self.cursor.enter(Stage::Parent, 0),
                (None, Stage::Parent) => self.cursor.enter(Stage::Children, self.space.added.first_run(self.node)),
                (None, Stage::Children) => self.cursor.enter(Stage::Extra, 0),
                (None, Stage::Extra | Stage::End) => self.cursor.enter(Stage::End, 0),
            }
        }
    }
}

/// Whether a reference goes the way that was asked for.
pub(super) fn goes(reference: &Reference, direction: BrowseDirection) -> bool {
    match direction {
        BrowseDirection::Forward => reference.forward,
        BrowseDirection::Inverse => !reference.forward,
        BrowseDirection::Both => true,
        BrowseDirection::Invalid => false,
    }
}

impl Space {
    /// References of a node, filtered. `type_` of `None` gives all.
    pub fn references(
        &self,
        node: NodeRef,
        direction: BrowseDirection,
        type_: Option<NodeRef>,
        include_subtypes: bool,
    ) -> impl Iterator<Item = Reference> + '_ {
        Walk::new(self, node, Cursor::default())
            .filter(move |found| goes(found, direction) && self.of_type(found.type_, type_, include_subtypes))
    }

    pub(super) fn of_type(&self, found: NodeRef, wanted: Option<NodeRef>, subtypes: bool) -> bool {
        wanted.is_none_or(|wanted| found == wanted || subtypes && self.is_subtype_of(found, wanted))
    }

    /// Whether `node` is `ancestor` or lies below it on HasSubtype.
    #[must_use]
    pub fn is_subtype_of(&self, node: NodeRef, ancestor: NodeRef) -> bool {
        let mut at = Some(node);
        while let Some(node) = at {
            if node == ancestor {
                return true;
            }
            at = self.supertype(node);
        }
        false
    }

    /// The type this type is derived from.
    #[must_use]
    pub fn supertype(&self, node: NodeRef) -> Option<NodeRef> {
        match Self::added_at(node) {
            None => ns0::supertype(node),
            Some(at) => self.shape(node).filter(|shape| shape.reference == ns0::HAS_SUBTYPE).and(self.added.parent(at)),
        }
    }

    /// The type an object or variable is an instance of.
    #[must_use]
    pub fn type_definition(&self, node: NodeRef) -> Option<NodeRef> {
        match Self::added_at(node) {
            None => ns0::type_definition(node),
            Some(_) => self.shape(node)?.type_definition,
        }
    }

    /// The node this one hangs under: the source of its first inverse hierarchical reference.
    #[must_use]
    pub fn parent(&self, node: NodeRef) -> Option<NodeRef> {
        match Self::added_at(node) {
            None => self
                .references(node, BrowseDirection::Inverse, Some(ns0::HIERARCHICAL_REFERENCES), true)
                .map(|reference| reference.target)
                .next(),
            Some(at) => self.added.parent(at),
        }
    }

    /// Whether a method may be called on an object: it is a component of the object, of the object's type or of one
    /// of that type's ancestors, or of the object type itself (OPC 10000-4 §5.12.2).
    #[must_use]
    pub fn method_on(&self, object: NodeRef, method: NodeRef) -> bool {
        if self.class(method) != NodeClass::Method {
            return false;
        }
        let mut kind = match self.class(object) {
            NodeClass::Object => self.type_definition(object),
            NodeClass::ObjectType => self.supertype(object),
            _ => return false,
        };
        let mut at = object;
        loop {
            if self.has_component(at, method) {
                return true;
            }
            let Some(next) = kind else { return false };
            (at, kind) = (next, self.supertype(next));
        }
    }

    fn has_component(&self, object: NodeRef, method: NodeRef) -> bool {
        self.references(method, BrowseDirection::Inverse, Some(ns0::HAS_COMPONENT), true)
            .any(|reference| reference.target == object)
    }
}
