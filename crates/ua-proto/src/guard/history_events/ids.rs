//! Deleting events by their ids (OPC 10000-11 §6.9.7) through the guard. An id says nothing of where its event comes from: the
//! server is asked for it first. An id of an event that the session may not receive goes on as one that never exists, so
//! that nobody can tell it from an unknown one, and takes the same way.

use std::collections::{BTreeMap, BTreeSet};

use access_model::{Action, AuditKind, Reason, Rights, ScopeIndex};
use opcua_types::{NodeId, ObjectId, StatusCode};

use super::origins::MOST;
use super::puts::{self, PUTS};
use super::reading::{BEGIN_OF_TIME, END_OF_TIME, events, write_kind};
use crate::guard::change::{Item, Touched, items};
use crate::guard::desk::{Desk, encoded};
use crate::guard::history;
use crate::guard::history_read::{Again, result, write_bytes};
use crate::guard::subs::{About, clause, taken_apart};
use crate::guard::walk::results;
use crate::server::front::{Malformed, Reader, write_len};

/// The most ids that are asked for at once.
const AT_ONCE: usize = 50;
/// The longest id.
const LONGEST: usize = 256;

/// What marks an item that deletes events.
pub(in crate::guard) const DELETES: u32 = 1;

/// A request for events.
pub(in crate::guard) struct Lookup {
    /// As the server names it.
    pub(in crate::guard) notifier: NodeId,
    pub(in crate::guard) body: Vec<u8>,
    /// How points in its answer are given back.
    pub(in crate::guard) again: Again,
}

/// What the server has to be asked before a request can be decided that changes history.
pub(in crate::guard) fn lookups(desk: &mut Desk<'_>, body: &[u8]) -> Vec<Lookup> {
    if desk.observes() {
        return Vec::new();
    }
    let mut wanted: BTreeMap<Vec<u8>, (NodeId, BTreeSet<&[u8]>)> = BTreeMap::new();
    let mut room = MOST;
    for item in items(desk, &history::UPDATE, body).iter().filter(|item| item.number != 0) {
        let Some(touched) = item.touched.first() else { continue };
        let needed = touched.action.needed() | Rights::RECEIVE_EVENTS;
        if !desk.rights(desk.scope(&touched.node)).contains(needed) {
            continue;
        }
        let ids = if item.number == PUTS { puts::ids(item, body) } else { ids(item, body).unwrap_or_default() };
        let notifier = desk.real(&touched.node);
        let (_, of_it) = wanted.entry(encoded(&notifier)).or_insert_with(|| (notifier, BTreeSet::new()));
        for id in ids.into_iter().filter(|id| id.len() <= LONGEST) {
            room = room.saturating_sub(usize::from(room > 0 && of_it.insert(id)));
        }
    }
    let origins = &mut desk.link.facts.events;
    origins.make_room(MOST - room);
    let mut found = Vec::new();
    for (node, (notifier, ids)) in wanted {
        ids.iter().for_each(|id| origins.ask(&notifier, id));
        let ids: Vec<&[u8]> = ids.into_iter().collect();
        let part = |ids: &[&[u8]]| {
            let (body, again) = lookup(&node, ids);
            Lookup { notifier: notifier.clone(), body, again }
        };
        found.extend(ids.chunks(AT_ONCE).map(part));
    }
    found
}

fn lookup(node: &[u8], ids: &[&[u8]]) -> (Vec<u8>, Again) {
    let mut details = 0_u32.to_le_bytes().to_vec();
    details.extend_from_slice(&BEGIN_OF_TIME.to_le_bytes());
    details.extend_from_slice(&END_OF_TIME.to_le_bytes());
    let names = ["EventId", "SourceNode", "EventType"];
    write_len(&mut details, names.len());
    names.into_iter().for_each(|name| clause(&mut details, name));
    // One of them; Equals for one alone, which more servers know than InList.
    write_len(&mut details, 1);
    let operator: u32 = if ids.len() == 1 { 0 } else { 9 };
    details.extend_from_slice(&operator.to_le_bytes());
    write_len(&mut details, ids.len() + 1);
    let mut operand = Vec::new();
    clause(&mut operand, "EventId");
    write_kind(&mut details, ObjectId::SimpleAttributeOperand_Encoding_DefaultBinary);
    write_bytes(&mut details, &operand);
    for id in ids {
        let mut literal = vec![15];
        write_len(&mut literal, id.len());
        literal.extend_from_slice(id);
        write_kind(&mut details, ObjectId::LiteralOperand_Encoding_DefaultBinary);
        write_bytes(&mut details, &literal);
    }
    let mut head = Vec::new();
    write_kind(&mut head, ObjectId::ReadEventDetails_Encoding_DefaultBinary);
    write_bytes(&mut head, &details);
    // Both timestamps; nothing is given back.
    head.extend_from_slice(&[2, 0, 0, 0, 0]);
    let item = [node, &[0xff, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff]].concat();
    let mut body = head.clone();
    write_len(&mut body, 1);
    body.extend_from_slice(&item);
    write_bytes(&mut body, &[]);
    if let Some(release) = head.last_mut() {
        *release = 1;
    }
    (body, Again::new(head, vec![item]))
}

/// Where the events in an answer come from, by their ids. A server that cannot say leaves them unknown.
pub(in crate::guard) fn found(body: &[u8]) -> Result<Vec<(Vec<u8>, About)>, StatusCode> {
    let mut data = None;
    results(body, 1, |reader| {
        data = Some(result(reader)?);
        Ok(())
    })?;
    let Some((status, _, data)) = data else { return Ok(Vec::new()) };
    if status.is_bad() {
        return Ok(Vec::new());
    }
    let one = |fields: &[&[u8]]| {
        let (told, about) = taken_apart(fields, 1)?;
        let mut told = Reader::new(&told);
        // One field, which is a ByteString.
        let is_id = told.u32().ok()? == 1 && told.u8().ok()? == 15;
        let id = told.byte_string().ok()?.filter(|id| is_id && id.len() <= LONGEST)?;
        Some((id.to_vec(), about))
    };
    Ok(events(data, false)?.iter().filter_map(|(fields, _)| one(fields)).collect())
}

/// The ids in an item.
fn ids<'a>(item: &Item, body: &'a [u8]) -> Result<Vec<&'a [u8]>, Malformed> {
    let mut reader = Reader::new(body.get(item.value.clone()).unwrap_or_default());
    let id = |reader: &mut Reader<'a>| reader.byte_string().map(Option::unwrap_or_default);
    (0..reader.array_len(4)?).map(|_| id(&mut reader)).collect()
}

/// Puts ids that never exist in place of those that the session may not delete, and holds the item to the sources of the
/// others.
pub(in crate::guard) fn narrow(desk: &mut Desk<'_>, item: &mut Item, body: &[u8]) {
    if desk.observes() {
        return;
    }
    let Some(node) = item.touched.first().map(|touched| touched.node.clone()) else { return };
    let (notifier, node) = (desk.scope(&node), desk.real(&node));
    let ids = ids(item, body).unwrap_or_default();
    let mut out = Vec::new();
    write_len(&mut out, ids.len());
    for id in ids {
        let about = desk.link.facts.events.of(&node, id).cloned();
        let kept = about.is_some_and(|about| deletable(desk, item, notifier, &about));
        let id = if kept { id } else { desk.mapping.never.as_slice() };
        write_len(&mut out, id.len());
        out.extend_from_slice(id);
    }
    item.replaced = Some(out);
}

fn deletable(desk: &mut Desk<'_>, item: &mut Item, notifier: ScopeIndex, about: &About) -> bool {
    receivable(desk, notifier, about) && holds(desk, item, about, Action::DeleteHistory)
}

/// Whether the session may receive such an event, which it takes to know of it.
pub(super) fn receivable(desk: &Desk<'_>, notifier: ScopeIndex, about: &About) -> bool {
    let [source, kind] = about.scopes(&desk.mapping.table, desk.front.audit_scope());
    [notifier, source, kind].into_iter().all(|scope| desk.rights(scope).contains(Rights::RECEIVE_EVENTS))
}

/// Whether the source of an event takes what is to be done with it; it is asked for again when the record is kept.
pub(super) fn holds(desk: &mut Desk<'_>, item: &mut Item, about: &About, action: Action) -> bool {
    let [source, _] = about.scopes(&desk.mapping.table, desk.front.audit_scope());
    if !desk.rights(source).contains(action.needed()) {
        let text = "the source of an event takes the right as well";
        desk.deny(AuditKind::HistoryChanged, Reason::RightMissing, (about.source(), source), text);
        return false;
    }
    item.hold_to(Touched { node: about.source().clone(), action, scope: source });
    true
}
