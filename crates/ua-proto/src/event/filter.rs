//! The event filter (OPC 10000-4 §7.22.3): which events pass, and which of their fields are told.
//!
//! Elements of the where clause refer to later elements only, so they are evaluated once each from the last to the
//! first: however they refer to one another, the work grows with their number. What it is for one event is counted, for
//! patterns and large values make a small filter dear.

use access_model::Rights;
use opcua_types::{EventFilterResult, NumericRange, QualifiedName, StatusCode, Variant};

use super::Event;
use super::operator::Element;
use super::steps::{Exhausted, Steps};
use crate::space::{NodeRef, Space, read_range};

/// Who looks at an event: the address space, and the rights of one session at this moment.
pub(crate) trait Viewer {
    /// The address space.
    fn space(&self) -> &Space;

    /// Whether the viewer may know that the node is there.
    fn sees(&self, node: NodeRef) -> bool;

    /// Whether the viewer has all these rights on the node.
    fn holds(&self, node: NodeRef, rights: Rights) -> bool;
}

/// A filter that was read, and what of it could not be used.
pub(crate) struct FilterOutcome {
    pub(crate) filter: EventFilter,
    /// Present when a select clause was at fault.
    pub(crate) result: Option<EventFilterResult>,
}

/// A checked filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EventFilter {
    pub(super) select: Vec<Option<Selected>>,
    pub(super) clause: Vec<Element>,
}

/// What a SimpleAttributeOperand names.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Selected {
    /// Only of events of this type.
    pub(super) of: NodeRef,
    /// A property of the event; none for what events do not have, as the NodeId of a condition.
    pub(super) field: Option<QualifiedName>,
    pub(super) range: NumericRange,
}

impl EventFilter {
    /// Whether the event passes. What the viewer may not read is null here too, or a clause would tell it bit by bit: also
    /// the steps that it takes tell nothing of it.
    ///
    /// # Errors
    /// It takes more steps than are left.
    pub(crate) fn passes(&self, event: &Event, viewer: &dyn Viewer, steps: &mut Steps) -> Result<bool, Exhausted> {
        if self.clause.is_empty() {
            return Ok(true);
        }
        let mut results = vec![Variant::Empty; self.clause.len()];
        for (at, element) in self.clause.iter().enumerate().rev() {
            let result = element.evaluate(event, viewer, &results, steps)?;
            if let Some(place) = results.get_mut(at) {
                *place = result;
            }
        }
        Ok(results.first().is_none_or(|root| super::compare::truth(root) == Some(true)))
    }

    /// The fields that the select clauses name, in their order.
    pub(crate) fn fields(&self, event: &Event, viewer: &dyn Viewer) -> Vec<Variant> {
        let told = |selected: &Option<Selected>| match selected {
            None => Variant::Empty,
            Some(selected) => selected.value(event, viewer).unwrap_or_else(Variant::StatusCode),
        };
        self.select.iter().map(told).collect()
    }
}

impl Selected {
    pub(super) fn value(&self, event: &Event, viewer: &dyn Viewer) -> Result<Variant, StatusCode> {
        let Some(name) = &self.field else { return Ok(Variant::Empty) };
        if !viewer.space().is_subtype_of(event.about().event_type, self.of) {
            return Ok(Variant::Empty);
        }
        let value = event.field(name, viewer)?;
        if self.range.is_none() || *value == Variant::Empty {
            Ok(value.clone())
        } else {
            read_range(value, &self.range)
        }
    }
}
