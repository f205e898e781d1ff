//! Variables with a history: each value that the application sets or a client writes is kept, up to a bound. Notifiers
//! with a history: each event of theirs is kept, up to a bound, but for audit events, which are in the ledger.

use std::sync::Arc;

use access_model::UnixTime;
use opcua_types::{
    AttributeId, ContentFilter, ContentFilterElement, DataValue, DateTime, ElementOperand, EventFilter,
    ExtensionObject, FilterOperator, HistoryUpdateType, LiteralOperand, NodeClass, NodeId, NumericRange, ObjectTypeId,
    QualifiedName, SimpleAttributeOperand, StatusCode, Variant,
};

use super::{AccessLevel, NewVariable, NodeRef, Space, SpaceError, date_time, ns0};
use crate::event::Event;
use crate::history::{Author, Change, EventLog, Series};

/// The property that tells which events a notifier keeps (OPC 10000-11 §5.4.2).
const FILTER: &str = "HistoricalEventFilter";
/// The fields that every event has.
const FIELDS: [&str; 8] =
    ["EventId", "EventType", "SourceNode", "SourceName", "Time", "ReceiveTime", "Message", "Severity"];

/// Every event but audit events, with the fields of its type.
fn kept_events() -> EventFilter {
    let field = |name: &str| SimpleAttributeOperand {
        type_definition_id: ObjectTypeId::BaseEventType.into(),
        browse_path: Some(vec![QualifiedName::new(0, name)]),
        attribute_id: AttributeId::Value as u32,
        index_range: NumericRange::None,
    };
    let audit: NodeId = ObjectTypeId::AuditEventType.into();
    let element =
        |filter_operator, operand| ContentFilterElement { filter_operator, filter_operands: Some(vec![operand]) };
    let elements = vec![
        element(FilterOperator::Not, ExtensionObject::from_message(ElementOperand { index: 1 })),
        element(FilterOperator::OfType, ExtensionObject::from_message(LiteralOperand { value: audit.into() })),
    ];
    EventFilter {
        select_clauses: Some(FIELDS.into_iter().map(field).collect()),
        where_clause: ContentFilter { elements: Some(elements) },
    }
}

impl Space {
    /// From now on the values of a variable are kept, the last `most` of them; its AccessLevel says that history can be
    /// read, and with `writable` also changed. The present value is the first.
    ///
    /// # Errors
    /// The node is not an added variable, or the space is full.
    pub fn historize(&mut self, node: NodeRef, most: usize, writable: bool) -> Result<(), SpaceError> {
        let none = SpaceError::NoHistory(node);
        let at = Self::added_at(node).filter(|_| self.class(node) == NodeClass::Variable).ok_or(none)?;
        let mut shape = self.added.shape(at).cloned().ok_or(SpaceError::NoHistory(node))?;
        let write = if writable { AccessLevel::HISTORY_WRITE.0 } else { 0 };
        shape.access = AccessLevel(shape.access.0 | AccessLevel::HISTORY_READ.0 | write);
        shape.flags |= ns0::HISTORIZING;
        self.added.set_shape(at, shape)?;
        let mut series = Series::new(most);
        let present = self.added_value(at);
        if present.source_timestamp.is_some() {
            series.record(DataValue { server_timestamp: present.source_timestamp, ..present });
        }
        self.history.insert(node, series);
        Ok(())
    }

    /// Puts values of the past into a variable's history, each with its source timestamp: what an application knows from
    /// before its start. Those that the variable cannot have are left out. How many were taken.
    pub fn fill_history(&mut self, node: NodeRef, values: impl IntoIterator<Item = DataValue>) -> usize {
        let Some(mut series) = self.history.remove(&node) else { return 0 };
        let mut taken = 0;
        for value in values {
            let fits = value.value.as_ref().is_some_and(|content| self.value_fits_node(content, node));
            if fits && value.source_timestamp.is_some() {
                let server_timestamp = value.server_timestamp.or(value.source_timestamp);
                series.record(DataValue { server_timestamp, ..value });
                taken += 1;
            }
        }
        self.history.insert(node, series);
        taken
    }

    /// The history of a variable that has one.
    pub(crate) fn history(&self, node: NodeRef) -> Option<&Series> {
        self.history.get(&node)
    }

    /// Changes a variable's history: the status of the whole, and of each value or instant.
    pub(crate) fn change_history(
        &mut self,
        node: NodeRef,
        change: Change,
        author: Author<'_>,
    ) -> (StatusCode, Vec<StatusCode>) {
        let Some(mut series) = self.history.remove(&node) else {
            return (StatusCode::BadHistoryOperationUnsupported, Vec::new());
        };
        let outcome = series.apply(change, author, |value| match &value.value {
            Some(content) => self.value_fits_node(content, node),
            None => value.status().is_bad(),
        });
        self.history.insert(node, series);
        outcome
    }

    /// Whether any variable has a history.
    #[must_use]
    pub fn has_history(&self) -> bool {
        !self.history.is_empty()
    }

    /// From now on the events of a notifier, which is the Server object or an added one, are kept, the last `most` of them
    /// and never more than 10,000 or 4 MiB; with `writable` clients that have the right may delete some and write others.
    ///
    /// # Errors
    /// The node is not an object, or the space is full.
    pub fn historize_events(&mut self, node: NodeRef, most: usize, writable: bool) -> Result<(), SpaceError> {
        if self.event_notifier(node).is_none() {
            return Err(SpaceError::NoHistory(node));
        }
        if self.child(node, &QualifiedName::new(0, FILTER)).is_none() {
            let filter = Variant::ExtensionObject(ExtensionObject::from_message(kept_events()));
            let new = NewVariable::property(node, None, FILTER, filter, self.scope(node));
            let data_type = Some(ns0::EVENT_FILTER);
            self.add_variable(NewVariable { name_namespace: Some(0), data_type, ..new })?;
        }
        self.event_history.insert(node, EventLog::new(most, writable));
        Ok(())
    }

    /// Whether any notifier keeps its events.
    #[must_use]
    pub fn keeps_events(&self) -> bool {
        !self.event_history.is_empty()
    }

    /// The events that a notifier keeps.
    pub(crate) fn event_log(&self, node: NodeRef) -> Option<&EventLog> {
        self.event_history.get(&node)
    }

    /// Deletes an event that a notifier keeps; whether it was there.
    pub(crate) fn delete_event(&mut self, node: NodeRef, id: &[u8], author: Author<'_>) -> bool {
        self.event_history.get_mut(&node).is_some_and(|log| log.delete(id, author))
    }

    /// Puts an event into what a notifier keeps, in place of the one with its id where there is one.
    pub(crate) fn put_event(
        &mut self,
        node: NodeRef,
        event: Event,
        kind: HistoryUpdateType,
        author: Author<'_>,
    ) -> StatusCode {
        let log = self.event_history.get_mut(&node);
        log.map_or(StatusCode::BadHistoryOperationUnsupported, |log| log.put(event, kind, author))
    }

    /// Keeps an event for each notifier that it is part of and that keeps its own.
    pub(crate) fn remember_event(&mut self, event: &Arc<Event>) {
        for notifier in event.notifiers() {
            if let Some(log) = self.event_history.get_mut(notifier) {
                log.record(Arc::clone(event));
            }
        }
    }

    pub(super) fn remember(&mut self, node: NodeRef, value: &DataValue, time: DateTime, now: UnixTime) {
        if self.history.is_empty() {
            return;
        }
        if let Some(series) = self.history.get_mut(&node) {
            let server_timestamp = Some(date_time(now));
            series.record(DataValue { source_timestamp: Some(time), server_timestamp, ..value.clone() });
        }
    }
}
