//! Filters on events: what is read, what is refused and how it is told, and what passes.

mod filters;
mod reference;
mod rules;

use access_model::{Now, Rights, ScopeIndex};
use opcua_types::{
    ContentFilter, ContentFilterElement, ElementOperand, ExtensionObject, FilterOperator, LiteralOperand, NodeId,
    NumericRange, QualifiedName, SimpleAttributeOperand, Variant,
};

use super::{About, Event, EventFilter, Steps, Viewer};
use crate::space::{NewVariable, NodeRef, Space, SpaceConfig, ns0};

/// Sees all, and reads all but one node.
pub(super) struct Eyes {
    pub(super) space: Space,
    pub(super) shut: Option<NodeRef>,
}

impl Viewer for Eyes {
    fn space(&self) -> &Space {
        &self.space
    }

    fn sees(&self, node: NodeRef) -> bool {
        Some(node) != self.shut
    }

    fn holds(&self, node: NodeRef, _rights: Rights) -> bool {
        Some(node) != self.shut
    }
}

pub(super) fn eyes() -> Eyes {
    let config = SpaceConfig { application_uri: "urn:test".into(), namespaces: Vec::new() };
    let mut space = Space::new(config).unwrap();
    let source = Some(NodeId::new(1, "source"));
    let public = ScopeIndex::PUBLIC;
    space.add_variable(NewVariable::new(ns0::OBJECTS, source, "Pump", Variant::from(1_i32), public)).unwrap();
    Eyes { space, shut: None }
}

/// Steps without an end.
pub(super) fn plenty() -> Steps {
    Steps::new(usize::MAX)
}

pub(super) fn source(eyes: &Eyes) -> NodeRef {
    eyes.space.find(&NodeId::new(1, "source")).unwrap()
}

/// An event of type `i=<kind>` with these fields.
pub(super) fn event(eyes: &Eyes, kind: u32, fields: &[(&str, Variant)]) -> Event {
    let about = About { event_type: ns0::find_numeric(kind).unwrap(), source: source(eyes), audit: false };
    let mut event = Event::new(&eyes.space, about, [7; 16], 300, "too hot", Now::default());
    for (name, value) in fields {
        event.set(name, value.clone());
    }
    event
}

pub(super) fn simple(kind: u32, path: &[&str], attribute_id: u32, range: &str) -> SimpleAttributeOperand {
    SimpleAttributeOperand {
        type_definition_id: NodeId::new(0, kind),
        browse_path: Some(path.iter().map(|name| QualifiedName::new(0, *name)).collect()),
        attribute_id,
        index_range: range.parse::<NumericRange>().unwrap_or_default(),
    }
}

pub(super) fn field(name: &str) -> ExtensionObject {
    ExtensionObject::from_message(simple(2041, &[name], 13, ""))
}

pub(super) fn literal(value: impl Into<Variant>) -> ExtensionObject {
    ExtensionObject::from_message(LiteralOperand { value: value.into() })
}

pub(super) fn later(index: u32) -> ExtensionObject {
    ExtensionObject::from_message(ElementOperand { index })
}

pub(super) fn element(filter_operator: FilterOperator, operands: Vec<ExtensionObject>) -> ContentFilterElement {
    ContentFilterElement { filter_operator, filter_operands: Some(operands) }
}

pub(super) fn filter(
    select: Vec<SimpleAttributeOperand>,
    elements: Vec<ContentFilterElement>,
) -> opcua_types::EventFilter {
    let elements = (!elements.is_empty()).then_some(elements);
    opcua_types::EventFilter { select_clauses: Some(select), where_clause: ContentFilter { elements } }
}

/// A filter that picks the severity of what passes these elements.
pub(super) fn clause(eyes: &Eyes, elements: Vec<ContentFilterElement>) -> EventFilter {
    let wanted = filter(vec![simple(2041, &["Severity"], 13, "")], elements);
    EventFilter::read(&ExtensionObject::from_message(wanted), eyes).unwrap().filter
}
