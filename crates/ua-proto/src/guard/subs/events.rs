//! Events (OPC 10000-4 §7.22.3) through the guard. The filter goes to the server with two more select clauses, for the
//! source and the type of each event; by them each event is decided when it leaves, and without them it leaves.
//!
//! What a filter names must be visible, in select clauses and where clauses alike, or it is none.

use access_model::ScopeIndex;
use opcua_types::{Identifier, NodeId, ObjectId, StatusCode};

use crate::guard::desk::{Desk, text_of};
use crate::guard::scopes::ScopeTable;
use crate::guard::walk::{asked_variant, diagnostics, end, expanded, extension_object, qualified_name, span};
use crate::server::front::{Malformed, Reader, write_len};
use crate::space::ns0;

/// The most select clauses, elements, operands of one element, and steps of a path.
const MOST: usize = 64;
/// The largest filter, in bytes.
const MAX_FILTER: usize = 1 << 16;
/// AuditEventType, BaseModelChangeEventType and SemanticChangeEventType.
const AUDIT: u32 = 2052;
const CHANGES: [u32; 2] = [2132, 2738];

/// Roots of event types that nobody receives through a guard: audit events of the upstream server tell of what other
/// clients did, changes of its model name nodes that may be hidden. Types below them that are not of namespace 0 are
/// found by browsing.
pub(in crate::guard) fn withheld() -> impl Iterator<Item = NodeId> {
    [AUDIT].into_iter().chain(CHANGES).map(|number| NodeId::new(0, number))
}

/// What decides who may hear of an event.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::guard) struct About {
    source: NodeId,
    /// None for an audit event of the guard's own, whose types have a scope that is set aside for them.
    kind: Option<NodeId>,
}

impl About {
    /// The scopes in which it takes the right to receive events (OPC 10000-3 §8.55): of its source, and of its type.
    pub(in crate::guard) fn scopes(&self, table: &ScopeTable, audit: ScopeIndex) -> [ScopeIndex; 2] {
        [table.scope(&self.source), self.kind.as_ref().map_or(audit, |kind| type_scope(kind, table))]
    }

    pub(in crate::guard) fn source(&self) -> &NodeId {
        &self.source
    }

    pub(in crate::guard) fn kind(&self) -> Option<&NodeId> {
        self.kind.as_ref()
    }

    /// Bytes of its names that are text.
    pub(in crate::guard) fn weight(&self) -> usize {
        text_of(&self.source).saturating_add(self.kind.as_ref().map_or(0, text_of))
    }

    /// Of an event that a client tells.
    pub(in crate::guard) fn told(source: NodeId, kind: NodeId) -> Self {
        Self { source, kind: Some(kind) }
    }

    /// Whether it is an audit event of the guard's own.
    pub(super) fn is_own(&self) -> bool {
        self.kind.is_none()
    }

    /// Of an audit event of the guard's own.
    pub(super) fn audit(source: NodeId) -> Self {
        Self { source, kind: None }
    }
}

/// A filter that was read: what the server is asked for in its place.
pub(in crate::guard) struct EventFilter {
    pub(in crate::guard) bytes: Vec<u8>,
    /// How many fields the client selected.
    pub(in crate::guard) fields: usize,
}

impl EventFilter {
    /// The same in an ExtensionObject.
    pub(super) fn wrapped(self) -> Self {
        let [low, high, ..] = (ObjectId::EventFilter_Encoding_DefaultBinary as u32).to_le_bytes();
        let mut bytes = vec![1, 0, low, high, 1];
        write_len(&mut bytes, self.bytes.len());
        bytes.extend_from_slice(&self.bytes);
        Self { bytes, ..self }
    }
}

/// Reads an EventFilter and adds what the guard needs to know.
pub(in crate::guard) fn filter(desk: &Desk<'_>, body: &[u8]) -> Result<EventFilter, StatusCode> {
    let invalid = StatusCode::BadEventFilterInvalid;
    if body.len() > MAX_FILTER {
        return Err(invalid);
    }
    let mut reader = Reader::new(body);
    let fields = reader.array_len(14)?;
    if fields == 0 || fields > MOST {
        return Err(invalid);
    }
    let mut visible = true;
    let clauses = span(&mut reader, |reader| (0..fields).try_for_each(|_| operand(desk, reader, &mut visible)))?;
    let elements = span(&mut reader, |reader| {
        for _ in 0..bounded(reader.array_len(8)?)? {
            reader.u32()?;
            for _ in 0..bounded(reader.array_len(3)?)? {
                where_operand(desk, reader, &mut visible)?;
            }
        }
        Ok(())
    })?;
    end(&reader)?;
    if !visible {
        return Err(invalid);
    }
    let mut inner = Vec::with_capacity(body.len() + 80);
    write_len(&mut inner, fields + 2);
    inner.extend_from_slice(clauses);
    for name in ["SourceNode", "EventType"] {
        clause(&mut inner, name);
    }
    inner.extend_from_slice(elements);
    Ok(EventFilter { bytes: inner, fields })
}

/// The value of a field of BaseEventType.
pub(in crate::guard) fn clause(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(&[1, 0, 0xf9, 0x07]);
    write_len(out, 1);
    out.extend_from_slice(&[0, 0]);
    write_len(out, name.len());
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&13_u32.to_le_bytes());
    out.extend_from_slice(&[0xff; 4]);
}

fn bounded(count: usize) -> Result<usize, Malformed> {
    if count > MOST { Err(Malformed::Limit) } else { Ok(count) }
}

/// A SimpleAttributeOperand.
fn operand(desk: &Desk<'_>, reader: &mut Reader<'_>, visible: &mut bool) -> Result<(), Malformed> {
    let kind = reader.node_id()?;
    *visible &= kind.is_null() || desk.visible(desk.scope(&kind));
    for _ in 0..bounded(reader.array_len(6)?)? {
        qualified_name(reader)?;
    }
    reader.u32()?;
    reader.string().map(drop)
}

fn where_operand(desk: &Desk<'_>, reader: &mut Reader<'_>, visible: &mut bool) -> Result<(), Malformed> {
    let (kind, body) = extension_object(reader)?;
    let mut body = Reader::new(body.ok_or(Malformed::Invalid)?);
    match kind.as_object_id() {
        Ok(ObjectId::ElementOperand_Encoding_DefaultBinary) => body.u32().map(drop)?,
        Ok(ObjectId::SimpleAttributeOperand_Encoding_DefaultBinary) => operand(desk, &mut body, visible)?,
        Ok(ObjectId::LiteralOperand_Encoding_DefaultBinary) => {
            let mut structures = false;
            let literal = span(&mut body, |reader| asked_variant(reader, &mut structures))?;
            *visible &= !structures && literal_visible(desk, literal);
        }
        // An AttributeOperand walks over nodes, which has no place in an event filter.
        _ => return Err(Malformed::Invalid),
    }
    if body.rest().is_empty() { Ok(()) } else { Err(Malformed::Invalid) }
}

/// Only a single NodeId or none at all: arrays of them are asked for by nobody.
fn literal_visible(desk: &Desk<'_>, literal: &[u8]) -> bool {
    let mut reader = Reader::new(literal);
    let seen = |id: &NodeId| id.is_null() || desk.visible(desk.scope(id));
    match reader.u8() {
        Ok(17) => reader.node_id().is_ok_and(|id| seen(&id)),
        Ok(18) => expanded(&mut reader).is_ok_and(|id| id.uri.is_none() && id.server == 0 && seen(&id.id)),
        Ok(kind) => !matches!(kind & 0x3f, 17 | 18 | 23 | 24),
        Err(_) => false,
    }
}

/// The result of a filter without what the guard has added; null when there is nothing to tell.
pub(super) fn result(body: &[u8], fields: usize) -> Vec<u8> {
    stripped(body, fields).unwrap_or_else(|_| vec![0, 0, 0])
}

fn stripped(bytes: &[u8], fields: usize) -> Result<Vec<u8>, Malformed> {
    let mut reader = Reader::new(bytes);
    let (kind, body) = extension_object(&mut reader)?;
    if kind != ObjectId::EventFilterResult_Encoding_DefaultBinary {
        return Err(Malformed::Invalid);
    }
    let mut body = Reader::new(body.ok_or(Malformed::Invalid)?);
    let count = body.array_len(4)?;
    let statuses = body.bytes(count.saturating_mul(4))?;
    diagnostics(&mut body)?;
    let elements = body.array_len(12)?;
    let mut where_results = Vec::new();
    write_len(&mut where_results, elements);
    for _ in 0..elements {
        where_results.extend_from_slice(body.bytes(4)?);
        let operands = span(&mut body, |reader| {
            let count = reader.array_len(4)?;
            reader.bytes(count.saturating_mul(4)).map(drop)
        })?;
        where_results.extend_from_slice(operands);
        where_results.extend_from_slice(&[0xff; 4]);
        diagnostics(&mut body)?;
    }
    diagnostics(&mut body)?;
    let mut inner = Vec::new();
    let kept = statuses.get(..fields.saturating_mul(4)).unwrap_or(statuses);
    write_len(&mut inner, kept.len() / 4);
    inner.extend_from_slice(kept);
    inner.extend_from_slice(&[0xff; 4]);
    inner.extend_from_slice(&where_results);
    inner.extend_from_slice(&[0xff; 4]);
    let [low, high, ..] = (ObjectId::EventFilterResult_Encoding_DefaultBinary as u32).to_le_bytes();
    let mut out = vec![1, 0, low, high, 1];
    write_len(&mut out, inner.len());
    out.extend_from_slice(&inner);
    Ok(out)
}

/// The fields of one event as the client selected them, and what decides who may have them. `None`: the server has not
/// said where it comes from, so nobody may.
pub(in crate::guard) fn taken_apart(fields: &[&[u8]], selected: usize) -> Option<(Vec<u8>, About)> {
    let (told, [source, kind]) = fields.split_at_checked(selected)? else { return None };
    let (source, kind) = (node_of(source)?, node_of(kind)?);
    let mut out = Vec::new();
    write_len(&mut out, told.len());
    told.iter().for_each(|field| out.extend_from_slice(field));
    Some((out, About { source, kind: Some(kind) }))
}

/// The NodeId in a Variant.
fn node_of(field: &[u8]) -> Option<NodeId> {
    let mut reader = Reader::new(field);
    let id = if reader.u8().ok()? == 17 { reader.node_id().ok()? } else { return None };
    (!id.is_null()).then_some(id)
}

fn type_scope(kind: &NodeId, table: &ScopeTable) -> ScopeIndex {
    let standard = match &kind.identifier {
        Identifier::Numeric(number) if kind.namespace == 0 => ns0::find_numeric(*number),
        _ => None,
    };
    let below = |root: NodeId| {
        let root = root.as_u32().and_then(ns0::find_numeric);
        standard.zip(root).is_some_and(|(kind, root)| descends(kind, root))
    };
    if withheld().any(below) { ScopeIndex::NOWHERE } else { table.scope(kind) }
}

fn descends(kind: crate::space::NodeRef, root: crate::space::NodeRef) -> bool {
    let mut at = Some(kind);
    while let Some(node) = at {
        if node == root {
            return true;
        }
        at = ns0::supertype(node);
    }
    false
}
