//! Events (OPC 10000-3 §4.7, OPC 10000-5 §6.4): what happened, and which of it a client wants to hear.
//!
//! Values only: an event is made by the server, a filter chooses and picks fields, the machine in `subscription`
//! queues and delivers. Conditions, their branches and refreshes are not part of it.

mod compare;
mod filter;
mod like;
mod operator;
mod parse;
mod past;
mod steps;
#[cfg(test)]
mod tests;

use access_model::{Now, Rights};
use opcua_types::{ByteString, LocalizedText, QualifiedName, StatusCode, UAString, Variant};

use crate::space::{NodeRef, Space, date_time, ns0};

pub(crate) use filter::{EventFilter, Viewer};
pub(crate) use parse::Unusable;
pub(crate) use past::{NEEDED, Said};
pub(crate) use steps::{Exhausted, Steps};

/// The largest field of an event, in bytes of its encoding; a larger one is a status in its place.
const MAX_FIELD: usize = 1 << 16;

/// The most fields of an event beside those that every event has.
const MAX_FIELDS: usize = 64;

/// The longest message of an event, in bytes.
const MAX_MESSAGE: usize = 1_024;

/// An event that the application raises.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// Its type: BaseEventType or below.
    pub event_type: NodeRef,
    /// The node it comes from; who may not receive events of this node does not hear of it.
    pub source: NodeRef,
    /// 1 (lowest) to 1,000.
    pub severity: u16,
    /// What happened, for people; at most 1,024 bytes.
    pub message: String,
    /// Further fields by browse name; at most 64.
    pub fields: Vec<(QualifiedName, Variant)>,
    /// Further fields that hold the present value of a variable: who may not read that sees a status in its place.
    pub values: Vec<(QualifiedName, NodeRef)>,
}

/// What decides who may hear of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// The node of its type.
    pub event_type: NodeRef,
    /// The node it comes from.
    pub source: NodeRef,
    /// It is an audit event, which takes a right of its own.
    pub audit: bool,
}

/// One field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    name: QualifiedName,
    /// The value, or what stands in its place.
    value: Result<Variant, StatusCode>,
    /// The value was this node's: only who has these rights on it may see the field.
    guard: Option<(NodeRef, Rights)>,
}

/// One event. It never changes; queues share it.
#[derive(Debug)]
pub(crate) struct Event {
    about: About,
    id: [u8; 16],
    /// In ticks.
    time: i64,
    /// The nodes whose notifications it is part of.
    notifiers: Vec<NodeRef>,
    fields: Vec<Field>,
}

/// Why an item lost events since that was told last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gap {
    /// Its queue had no place for them.
    pub(crate) full: bool,
    /// No steps were left for its filter.
    pub(crate) dear: bool,
}

impl Gap {
    /// Whether there is none.
    pub(crate) const fn is_none(self) -> bool {
        !self.full && !self.dear
    }

    const fn message(self) -> &'static str {
        match (self.full, self.dear) {
            (_, false) => "events were lost, for their queue is too short",
            (false, true) => "events were lost, for the filters of this session cost too much",
            (true, true) => {
                "events were lost, for their queue is too short and the filters of this session cost too much"
            }
        }
    }
}

impl Event {
    /// An event with the fields of BaseEventType (OPC 10000-5 §6.4.2).
    pub(crate) fn new(space: &Space, about: About, id: [u8; 16], severity: u16, message: &str, now: Now) -> Self {
        let time = Variant::DateTime(Box::new(date_time(now.unix)));
        let source_name = space.name(about.source).1;
        let fields = vec![
            Field::plain("EventId", Variant::ByteString(ByteString::from(id.to_vec()))),
            Field::plain("EventType", space.id(about.event_type).into()),
            Field::plain("SourceNode", space.id(about.source).into()),
            Field::plain("SourceName", Variant::String(UAString::from(source_name))),
            Field::plain("Time", time.clone()),
            Field::plain("ReceiveTime", time),
            Field::plain("Message", Variant::from(LocalizedText::new("", cut(message)))),
            Field::plain("Severity", Variant::UInt16(severity.clamp(1, 1_000))),
        ];
        let (time, notifiers) = (date_time(now.unix).ticks(), notifiers(space, about));
        Self { about, id, time, notifiers, fields }
    }

    /// Says that an item lost events (OPC 10000-4 §5.13.1.5). Not an event of any source but the server.
    pub(crate) fn overflow(space: &Space, gap: Gap, id: [u8; 16], now: Now) -> Self {
        let about = About { event_type: ns0::EVENT_QUEUE_OVERFLOW_EVENT_TYPE, source: ns0::SERVER, audit: false };
        Self::new(space, about, id, 500, gap.message(), now)
    }

    /// Its EventId.
    pub(crate) fn id(&self) -> [u8; 16] {
        self.id
    }

    /// Whether an event about this would be part of the notifications of this node.
    pub(crate) fn would_reach(space: &Space, about: About, notifier: NodeRef) -> bool {
        notifiers(space, about).contains(&notifier)
    }

    /// When it happened, in ticks.
    pub(crate) fn time(&self) -> i64 {
        self.time
    }

    /// About how many bytes it takes.
    pub(crate) fn weight(&self) -> usize {
        let field = |field: &Field| 64 + field.name.name.as_ref().len() + field.value.as_ref().map_or(0, size);
        self.fields.iter().map(field).sum::<usize>().saturating_add(128)
    }

    /// The nodes whose notifications it is part of.
    pub(crate) fn notifiers(&self) -> &[NodeRef] {
        &self.notifiers
    }

    /// What decides who may hear of it.
    pub(crate) fn about(&self) -> About {
        self.about
    }

    /// Whether it is part of the notifications of this node.
    pub(crate) fn reaches(&self, notifier: NodeRef) -> bool {
        self.notifiers.contains(&notifier)
    }

    /// Sets a field of namespace 0, in place of one of that name.
    pub(crate) fn set(&mut self, name: &str, value: Variant) {
        self.set_field(QualifiedName::new(0, name), value, None);
    }

    /// Sets a field of namespace 0 that holds what takes these rights on a node.
    pub(crate) fn set_guarded(&mut self, name: &str, value: Variant, guard: (NodeRef, Rights)) {
        self.set_field(QualifiedName::new(0, name), value, Some(guard));
    }

    /// Sets a field, in place of one of that name.
    pub(crate) fn set_field(&mut self, name: QualifiedName, value: Variant, guard: Option<(NodeRef, Rights)>) {
        let field = Field { name, value: bounded(value), guard };
        if let Some(held) = self.fields.iter_mut().find(|held| held.name == field.name) {
            *held = field;
        } else if self.fields.len() < MAX_FIELDS + 8 {
            self.fields.push(field);
        }
    }

    /// A field by its browse name, for this viewer: `Empty` if there is none.
    ///
    /// # Errors
    /// What stands in place of a field that is too large, or that this viewer may not read.
    pub(crate) fn field(&self, name: &QualifiedName, viewer: &dyn Viewer) -> Result<&Variant, StatusCode> {
        match self.fields.iter().find(|field| field.name == *name) {
            None => Ok(&Variant::Empty),
            Some(Field { guard: Some((node, rights)), .. }) if !viewer.holds(*node, *rights) => {
                Err(StatusCode::BadUserAccessDenied)
            }
            Some(field) => field.value.as_ref().map_err(|status| *status),
        }
    }
}

impl Field {
    fn plain(name: &str, value: Variant) -> Self {
        Self { name: QualifiedName::new(0, name), value: Ok(value), guard: None }
    }
}

/// The Server object hears of everything. Other objects hear of what they are the source or, over HasEventSource and its
/// subtypes, a notifier of (OPC 10000-3 §7.14, §7.15); audit events are the Server object's alone.
fn notifiers(space: &Space, about: About) -> Vec<NodeRef> {
    const MOST: usize = 64;
    let mut found = vec![ns0::SERVER];
    if about.audit {
        return found;
    }
    let mut open = vec![about.source];
    while let Some(node) = open.pop() {
        if found.contains(&node) && node != ns0::SERVER || found.len() >= MOST {
            continue;
        }
        if !found.contains(&node) {
            found.push(node);
        }
        let up = opcua_types::BrowseDirection::Inverse;
        let above = space.references(node, up, Some(ns0::HAS_EVENT_SOURCE), true).map(|reference| reference.target);
        open.extend(above.filter(|target| !found.contains(target)));
    }
    found
}

/// A value that is too large for an event becomes a status.
fn bounded(value: Variant) -> Result<Variant, StatusCode> {
    if size(&value) > MAX_FIELD { Err(StatusCode::BadEncodingLimitsExceeded) } else { Ok(value) }
}

/// About how many bytes a value holds.
pub(crate) fn size(value: &Variant) -> usize {
    match value {
        Variant::String(text) => text.as_ref().len(),
        Variant::XmlElement(text) => text.to_string().len(),
        Variant::ByteString(bytes) => bytes.as_ref().len(),
        Variant::LocalizedText(text) => text.text.as_ref().len().saturating_add(text.locale.as_ref().len()),
        Variant::QualifiedName(name) => name.name.as_ref().len(),
        Variant::Array(array) => array.values.iter().map(|value| size(value).saturating_add(16)).sum(),
        Variant::Variant(inner) => size(inner).saturating_add(16),
        Variant::DataValue(inner) => inner.value.as_ref().map_or(0, size).saturating_add(32),
        Variant::ExtensionObject(object) => {
            object.inner_as::<opcua_types::ByteStringBody>().map_or(512, |body| body.raw_body().as_ref().len())
        }
        _ => 16,
    }
}

fn cut(message: &str) -> &str {
    let mut end = message.len().min(MAX_MESSAGE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message.get(..end).unwrap_or_default()
}
