//! Events that a client writes into history (OPC 10000-11 §6.9.4) through the guard. Each is decided by itself: it takes what
//! its notifier takes on its source as well, and on notifier, source and type the right to receive events. One that may not
//! be written never reaches the server; its status is put among those of the server, in order.
//!
//! Source and type of a new event are the ones that it says; of one that is there already they are the server's word, which
//! is asked for first, and stay. Whether an id is that of an event the session may not receive is told to nobody: such an
//! id is an unknown one.

use access_model::{Action, AuditKind, Reason, Rights, ScopeIndex};
use opcua_types::{NodeId, StatusCode};

use super::ids::{holds, receivable};
use crate::guard::change::{Item, Touched};
use crate::guard::desk::Desk;
use crate::guard::subs::About;
use crate::guard::walk::{asked_data_value, asked_variant, span, variant};
use crate::history::{Content, Deed, Details, Places, Put, Update, Walk};
use crate::server::front::{Malformed, Reader, write_len};

/// What marks an item that writes events.
pub(in crate::guard) const PUTS: u32 = 2;

/// An insertion of nothing with a filter of nothing.
pub(in crate::guard) const NO_EVENTS: [u8; 16] =
    [1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];

/// How DataValues and Variants of an update are stepped over.
pub(in crate::guard) fn walks<'a>() -> (Walk<'a>, Walk<'a>) {
    fn value<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
        span(reader, |reader| asked_data_value(reader, &mut false))
    }
    fn field<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
        span(reader, |reader| asked_variant(reader, &mut false))
    }
    (value, field)
}

/// What an item asks for.
struct Asked<'a> {
    notifier: ScopeIndex,
    /// As the server names it.
    node: NodeId,
    deed: Deed,
    action: Action,
    places: Places,
    put: Put<'a>,
}

fn read<'a>(item: &Item, body: &'a [u8]) -> Option<(Deed, Action, Put<'a>)> {
    let bytes = body.get(item.value.clone())?;
    let update = Update::read(Details::Events, &mut Reader::new(bytes), walks()).ok()?;
    match update.content {
        Content::Put(put) => Some((update.rule.deed, update.rule.action, put)),
        _ => None,
    }
}

/// The ids in an item.
pub(super) fn ids<'a>(item: &Item, body: &'a [u8]) -> Vec<&'a [u8]> {
    let Some((deed, _, put)) = read(item, body) else { return Vec::new() };
    let Ok(Places { id: Some(place), .. }) = put.places(deed == Deed::Replace) else { return Vec::new() };
    put.events.iter().filter_map(|fields| id(fields.get(place)?).ok().flatten()).collect()
}

/// The id in a field, where there is one.
fn id(field: &[u8]) -> Result<Option<&[u8]>, StatusCode> {
    let invalid = StatusCode::BadInvalidArgument;
    let mut reader = Reader::new(field);
    match reader.u8() {
        Ok(0) => Ok(None),
        Ok(15) => Ok(reader.byte_string().map_err(|_| invalid)?.filter(|id| !id.is_empty())),
        _ => Err(invalid),
    }
}

/// The node in a field, where there is one.
fn node(field: Option<&&[u8]>) -> Result<Option<NodeId>, StatusCode> {
    let invalid = StatusCode::BadInvalidArgument;
    let Some(field) = field else { return Ok(None) };
    let mut reader = Reader::new(field);
    match reader.u8() {
        Ok(0) => Ok(None),
        Ok(17) => reader.node_id().map(Some).map_err(|_| invalid),
        _ => Err(invalid),
    }
}

fn holds_structure(field: &[u8]) -> bool {
    let mut structures = false;
    variant(&mut Reader::new(field), &mut structures).is_err() || structures
}

/// Takes out of an item what may not be written, and holds it to the sources of the rest. Where nothing is left, its result.
pub(in crate::guard) fn sift(desk: &mut Desk<'_>, item: &mut Item, body: &[u8]) -> Option<Vec<u8>> {
    let Some((deed, action, put)) = read(item, body) else { return Some(alone(StatusCode::BadDecodingError, &[])) };
    let node = item.touched.first()?.node.clone();
    let (notifier, node) = (desk.scope(&node), desk.real(&node));
    let places = put.places(deed == Deed::Replace);
    if desk.observes() {
        observe(desk, item, action, (&put, places.unwrap_or_default()));
        return None;
    }
    if !desk.rights(notifier).contains(action.needed()) {
        // It is turned away as every other item is; there is nothing in it that could be written.
        item.replaced = Some(NO_EVENTS.to_vec());
        return None;
    }
    let seen = |kind: &NodeId| desk.visible(desk.scope(kind));
    let places = match places {
        Ok(places) if put.clauses.iter().all(|clause| clause.kind.is_null() || seen(&clause.kind)) => places,
        Ok(_) => return Some(alone(StatusCode::BadEventFilterInvalid, &[])),
        Err(status) => return Some(alone(status, &[])),
    };
    let asked = Asked { notifier, node, deed, action, places, put };
    let entries: Vec<_> = asked.put.events.iter().map(|fields| asked.decide(desk, item, fields).err()).collect();
    let denied = entries.iter().flatten().count();
    if denied == 0 {
        return None;
    }
    if denied == entries.len() {
        return Some(alone(StatusCode::Good, &entries));
    }
    let mut out = body.get(item.value.clone()).and_then(|bytes| bytes.get(..4)).unwrap_or_default().to_vec();
    out.extend_from_slice(asked.put.filter);
    write_len(&mut out, entries.len() - denied);
    for (fields, _) in asked.put.events.iter().zip(&entries).filter(|(_, denied)| denied.is_none()) {
        write_len(&mut out, fields.len());
        fields.iter().for_each(|field| out.extend_from_slice(field));
    }
    (item.replaced, item.entries) = (Some(out), entries);
    None
}

/// A HistoryUpdateResult of the guard's own.
fn alone(status: StatusCode, entries: &[Option<StatusCode>]) -> Vec<u8> {
    let mut out = status.bits().to_le_bytes().to_vec();
    write_len(&mut out, entries.len());
    entries.iter().flatten().for_each(|one| out.extend_from_slice(&one.bits().to_le_bytes()));
    out.extend_from_slice(&[0xff; 4]);
    out
}

/// While the guard observes: whoever is to go on writing such events needs the rights on their sources as well.
fn observe(desk: &Desk<'_>, item: &mut Item, action: Action, (put, places): (&Put<'_>, Places)) {
    for fields in &put.events {
        let source = places.source.and_then(|place| node(fields.get(place)).ok().flatten());
        let Some(source) = source else { continue };
        let scope = desk.scope(&source);
        item.hold_to(Touched { node: source, action, scope });
    }
}

impl Asked<'_> {
    /// Whether one event may be written.
    fn decide(&self, desk: &mut Desk<'_>, item: &mut Item, fields: &[&[u8]]) -> Result<(), StatusCode> {
        // Which field is which must be beyond doubt.
        if fields.len() != self.put.clauses.len() {
            return Err(StatusCode::BadInvalidArgument);
        }
        // A server that does not go by the length of a structure finds other fields behind it, and other events.
        if fields.iter().any(|field| holds_structure(field)) {
            return Err(StatusCode::BadNotSupported);
        }
        let field = |place: Option<usize>| place.and_then(|place| fields.get(place));
        let id = field(self.places.id).map_or(Ok(None), |field| id(field))?;
        let (source, kind) = (node(field(self.places.source))?, node(field(self.places.kind))?);
        let known = id.and_then(|id| desk.link.facts.events.of(&self.node, id)).cloned();
        let known = known.filter(|about| receivable(desk, self.notifier, about));
        let about = match (self.deed, known) {
            (Deed::Replace, None) => return Err(StatusCode::BadNoEntryExists),
            (Deed::Insert, Some(_)) => return Err(StatusCode::BadEntryExists),
            (_, Some(about)) => kept(about, self.places, (source.as_ref(), kind.as_ref()))?,
            (_, None) if id.is_some() => return Err(StatusCode::BadEventIdUnknown),
            (_, None) => new(desk, source, kind)?,
        };
        if !receivable(desk, self.notifier, &about) {
            let [scope, _] = about.scopes(&desk.mapping.table, desk.front.audit_scope());
            let text = format!(
                "who writes an event takes {} on its source, its type and the notifier",
                Rights::RECEIVE_EVENTS
            );
            desk.deny(AuditKind::HistoryChanged, Reason::RightMissing, (about.source(), scope), &text);
            return Err(StatusCode::BadUserAccessDenied);
        }
        if holds(desk, item, &about, self.action) { Ok(()) } else { Err(StatusCode::BadUserAccessDenied) }
    }
}

/// An event keeps its source and its type: it would pass into other hands, or belong to nobody where the filter names them
/// and the event does not say them.
fn kept(about: About, places: Places, (source, kind): (Option<&NodeId>, Option<&NodeId>)) -> Result<About, StatusCode> {
    let same = |place: Option<usize>, told, is| place.is_none() || told == is;
    let keeps = same(places.source, source, Some(about.source())) && same(places.kind, kind, about.kind());
    if keeps { Ok(about) } else { Err(StatusCode::BadInvalidArgument) }
}

/// Where a new event comes from. Hidden nodes are told as ones that are not there; names of the session's own are nothing
/// that the server would know.
fn new(desk: &mut Desk<'_>, source: Option<NodeId>, kind: Option<NodeId>) -> Result<About, StatusCode> {
    let (Some(source), Some(kind)) = (source, kind) else { return Err(StatusCode::BadInvalidArgument) };
    let about = About::told(source, kind);
    let scopes = about.scopes(&desk.mapping.table, desk.front.audit_scope());
    for (scope, status, text) in [
        (scopes[1], StatusCode::BadTypeDefinitionInvalid, "the type of an event is none that is received here"),
        (scopes[0], StatusCode::BadSourceNodeIdInvalid, "the source of an event is not there"),
    ] {
        if !desk.visible(scope) {
            desk.deny(AuditKind::HistoryChanged, Reason::RightMissing, (about.source(), scope), text);
            return Err(status);
        }
    }
    let own = |node: &NodeId| desk.real(node) != *node;
    if about.kind().is_some_and(own) {
        return Err(StatusCode::BadTypeDefinitionInvalid);
    }
    if own(about.source()) {
        return Err(StatusCode::BadSourceNodeIdInvalid);
    }
    Ok(about)
}
