//! The events of one notifier as they are read: what is asked of the server, what of it is kept, and pages of it.

use std::collections::VecDeque;
use std::sync::Arc;

use access_model::{Action, AuditKind, Rights, ScopeIndex};
use opcua_types::{NodeId, ObjectId, StatusCode};

use super::Wanted;
use crate::guard::desk::{Desk, text_of};
use crate::guard::history_read::{IDS, Item, write_bytes};
use crate::guard::link::Unwanted;
use crate::guard::subs::{About, taken_apart};
use crate::guard::walk::{end, extension_object, span, variant};
use crate::server::front::{Malformed, Reader, write_len};

/// The most events of one page.
const PAGE: u32 = 1_000;
/// The fewest events that the server is asked for at once.
const LEAST: u32 = 100;
/// The most events that are asked for at once of a server that gives a number of them and not the rest.
const MOST: u32 = 10_000;
/// The most fields of one event.
const FIELDS: usize = 66;
/// The most bytes of events that are kept for the next page; more are read again.
const MOST_HELD: usize = 1 << 18;
/// The latest instant, of 9999, and a day of 1601: some servers take a time close to the beginning for none.
pub(super) const END_OF_TIME: i64 = 2_650_467_743_990_000_000;
pub(super) const BEGIN_OF_TIME: i64 = 864_000_000_000;

/// Where the server goes on.
enum Next {
    /// At the beginning: what stands before this place is known already.
    Start {
        skip: u64,
    },
    Point(Vec<u8>),
    /// It was asked to.
    Asked {
        skip: u64,
        first: bool,
    },
    /// It has no more.
    End,
}

/// An event that has not left yet.
struct Event {
    about: About,
    fields: Vec<u8>,
    /// Who changed it and when.
    info: Vec<u8>,
    /// Its place in the server's order.
    place: u64,
}

impl Event {
    fn weight(&self) -> usize {
        let bytes = self.fields.len().saturating_add(self.info.len()).saturating_add(self.about.weight());
        bytes.saturating_add(32)
    }
}

/// One page.
#[derive(Default)]
pub(super) struct Page {
    pub(super) count: usize,
    /// There is more that may be told.
    pub(super) more: bool,
    modified: bool,
    events: Vec<u8>,
    infos: Vec<u8>,
}

impl Page {
    /// HistoryEvent or HistoryModifiedEvent.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut body = Vec::with_capacity(self.events.len() + self.infos.len() + 8);
        write_len(&mut body, self.count);
        body.extend_from_slice(&self.events);
        let kind = if self.modified {
            write_len(&mut body, self.count);
            body.extend_from_slice(&self.infos);
            ObjectId::HistoryModifiedEvent_Encoding_DefaultBinary
        } else {
            ObjectId::HistoryEvent_Encoding_DefaultBinary
        };
        write_kind(out, kind);
        write_bytes(out, &body);
    }
}

/// The type of an ExtensionObject with a body.
pub(super) fn write_kind(out: &mut Vec<u8>, kind: ObjectId) {
    let [low, high, ..] = (kind as u32).to_le_bytes();
    out.extend_from_slice(&[1, 0, low, high, 1]);
}

/// A read of one notifier.
pub(in crate::guard) struct Reading {
    wanted: Arc<Wanted>,
    pub(in crate::guard) node: NodeId,
    pub(super) scope: ScopeIndex,
    /// The node as the server knows it.
    pub(super) name: Vec<u8>,
    /// Index range and encoding.
    rest: Vec<u8>,
    next: Next,
    /// How many events the server is asked for at once.
    at_once: u32,
    /// How many it has given since it began.
    given: u64,
    /// How many are wanted still, where the span of time has one end only.
    left: Option<u32>,
    held: VecDeque<Event>,
    page: Page,
    /// What the server says of it.
    pub(super) refused: Option<StatusCode>,
}

impl Reading {
    pub(super) fn new(wanted: &Arc<Wanted>, (item, scope): (&Item<'_>, ScopeIndex), name: Vec<u8>) -> Self {
        let one_ended = wanted.start <= 0 || wanted.end <= 0;
        let most = if wanted.most == 0 { PAGE } else { wanted.most };
        Self {
            wanted: Arc::clone(wanted),
            node: item.node.clone(),
            scope,
            name,
            rest: item.rest.to_vec(),
            next: Next::Start { skip: 0 },
            at_once: most.clamp(LEAST, PAGE) + 1,
            given: 0,
            left: one_ended.then_some(wanted.most),
            held: VecDeque::new(),
            page: Page::default(),
            refused: None,
        }
    }

    /// Whether it was begun with the same details.
    pub(super) fn is_of(&self, wanted: &Wanted) -> bool {
        *self.wanted == *wanted
    }

    /// About how many bytes it keeps.
    pub(in crate::guard) fn weight(&self) -> usize {
        let page = self.page.events.len().saturating_add(self.page.infos.len());
        let held: usize = self.held.iter().map(Event::weight).sum();
        let item = self.name.len().saturating_add(self.rest.len()).saturating_add(text_of(&self.node));
        held.saturating_add(page).saturating_add(self.wanted.filter.len()).saturating_add(item)
    }

    /// The details and what follows them. Where the span has one end only the server is given the other one, for the number
    /// is of events that may be told.
    pub(super) fn head(&self, release: bool) -> Vec<u8> {
        let Wanted { start, end, modified, stamps, ref filter, .. } = *self.wanted;
        let (start, end) = match (start > 0, end > 0) {
            (true, false) => (start, END_OF_TIME),
            (false, true) => (end, BEGIN_OF_TIME),
            _ => (start, end),
        };
        let mut details = self.at_once.to_le_bytes().to_vec();
        details.extend_from_slice(&start.to_le_bytes());
        details.extend_from_slice(&end.to_le_bytes());
        details.extend_from_slice(filter);
        let kind = if modified {
            details.push(1);
            ObjectId::ReadEventDetails2_Encoding_DefaultBinary
        } else {
            ObjectId::ReadEventDetails_Encoding_DefaultBinary
        };
        let mut out = Vec::with_capacity(details.len() + 16);
        write_kind(&mut out, kind);
        write_bytes(&mut out, &details);
        out.extend_from_slice(&stamps.to_le_bytes());
        out.push(u8::from(release));
        out
    }

    /// The node, its index range and encoding.
    pub(super) fn item(&self) -> Vec<u8> {
        [self.name.as_slice(), &self.rest].concat()
    }

    /// What the server is asked next.
    pub(super) fn request(&mut self) -> Vec<u8> {
        let next = std::mem::replace(&mut self.next, Next::End);
        let (skip, point) = match next {
            Next::Start { skip } => {
                self.given = 0;
                (skip, None)
            }
            Next::Point(point) => (self.given, Some(point)),
            Next::Asked { .. } | Next::End => (self.given, None),
        };
        self.next = Next::Asked { skip, first: point.is_none() };
        self.body(false, point.as_deref().unwrap_or_default())
    }

    fn body(&self, release: bool, point: &[u8]) -> Vec<u8> {
        let mut body = self.head(release);
        write_len(&mut body, 1);
        body.extend_from_slice(&self.item());
        write_bytes(&mut body, point);
        body
    }

    /// Gives this point of the server back.
    pub(super) fn release_of(&self, point: &[u8]) -> Option<Unwanted> {
        (!point.is_empty()).then(|| (IDS, self.body(true, point)))
    }

    /// Gives back what the server keeps for it.
    pub(in crate::guard) fn release(&mut self) -> Option<Unwanted> {
        match std::mem::replace(&mut self.next, Next::End) {
            Next::Point(point) => self.release_of(&point),
            _ => None,
        }
    }

    /// Keeps no more than it may until the next page; what does not fit is read again.
    pub(super) fn shrink(&mut self) -> Option<Unwanted> {
        let first = self.held.front().filter(|_| self.weight() > MOST_HELD)?.place;
        let unwanted = self.release();
        self.held.clear();
        self.next = Next::Start { skip: first };
        unwanted
    }

    pub(super) fn take_page(&mut self) -> Page {
        Page { modified: self.wanted.modified, ..std::mem::take(&mut self.page) }
    }

    /// Takes in what the server found.
    ///
    /// # Errors
    /// It does not fit what was asked.
    pub(super) fn take_in(
        &mut self,
        desk: &mut Desk<'_>,
        (status, point, data): (StatusCode, &[u8], &[u8]),
    ) -> Result<(), StatusCode> {
        let Next::Asked { skip, first } = std::mem::replace(&mut self.next, Next::End) else { return Ok(()) };
        if status.is_bad() {
            self.refused = Some(status);
            return Ok(());
        }
        let found = events(data, self.wanted.modified)?;
        let count = u32::try_from(found.len()).unwrap_or(u32::MAX);
        let mut unnamed = false;
        for (place, (fields, info)) in (self.given..).zip(found) {
            let Some((fields, about)) = taken_apart(&fields, self.wanted.fields) else {
                unnamed = true;
                continue;
            };
            if place >= skip && may(desk, &about) {
                self.held.push_back(Event { about, fields, info: info.to_vec(), place });
            }
        }
        self.given = self.given.saturating_add(u64::from(count));
        if unnamed {
            desk.misbehaved(StatusCode::Bad, "an event came without its source or its type");
        }
        if !point.is_empty() {
            // One that gives points and no events would be asked for ever.
            let stuck = count == 0 && !first;
            self.next = if stuck { Next::End } else { Next::Point(point.to_vec()) };
            if stuck {
                desk.link.loose.extend(self.release_of(point));
            }
        } else if first && count >= self.at_once && self.at_once < MOST {
            // As many as were asked for and no point: some servers know of none and keep quiet about the rest.
            self.next = Next::Start { skip: self.given.max(skip) };
            self.at_once = self.at_once.saturating_mul(4).min(MOST);
        }
        Ok(())
    }

    /// Fills the page with what may be told; `false`: the server has to be asked for more.
    pub(super) fn fill(&mut self, desk: &mut Desk<'_>, room: &mut usize) -> bool {
        if self.refused.is_some() || !desk.rights(self.scope).contains(needed(self.scope)) {
            return true;
        }
        let most = if self.wanted.most == 0 { PAGE } else { self.wanted.most.min(PAGE) } as usize;
        while self.left != Some(0) {
            let Some(event) = self.held.front() else { return matches!(self.next, Next::End) };
            if !may(desk, &event.about) {
                self.held.pop_front();
                continue;
            }
            let weight = event.weight();
            if self.page.count >= most || self.page.count > 0 && *room < weight {
                self.page.more = true;
                return true;
            }
            *room = room.saturating_sub(weight);
            let Some(event) = self.held.pop_front() else { return true };
            observe(desk, &event.about);
            self.left = self.left.map(|left| left.saturating_sub(1));
            self.page.count += 1;
            self.page.events.extend_from_slice(&event.fields);
            self.page.infos.extend_from_slice(&event.info);
        }
        // All that was wanted is there.
        self.held.clear();
        desk.link.loose.extend(self.release());
        true
    }
}

/// What asking a notifier for its past takes. Nobody can be granted anything on what is public: the Server object has no
/// history of its own.
pub(super) fn needed(scope: ScopeIndex) -> Rights {
    let past = if scope == ScopeIndex::PUBLIC { Rights::BROWSE } else { Rights::READ_HISTORY };
    past | Rights::RECEIVE_EVENTS
}

/// What a living event takes on its source and on its type, and the right to read the history of its source.
fn may(desk: &Desk<'_>, about: &About) -> bool {
    let [source, kind] = about.scopes(&desk.mapping.table, desk.front.audit_scope());
    let taken = Rights::RECEIVE_EVENTS | Rights::READ_HISTORY;
    desk.rights(source).contains(taken) && desk.rights(kind).contains(Rights::RECEIVE_EVENTS)
}

/// While the gate observes: whoever is to go on reading such events needs the rights on source and type as well.
fn observe(desk: &mut Desk<'_>, about: &About) {
    if !desk.observes() {
        return;
    }
    let [source, kind] = about.scopes(&desk.mapping.table, desk.front.audit_scope());
    for action in [Action::ReceiveEvents, Action::ReadHistory] {
        desk.observe(AuditKind::Read, action, (about.source(), source));
    }
    if let Some(node) = about.kind() {
        desk.observe(AuditKind::Read, Action::ReceiveEvents, (node, kind));
    }
}

/// The fields of an event as they came, and who changed it.
pub(super) type Found<'a> = (Vec<&'a [u8]>, &'a [u8]);

/// The events in a HistoryEvent or a HistoryModifiedEvent; nothing at all stands for none.
pub(super) fn events(data: &[u8], modified: bool) -> Result<Vec<Found<'_>>, StatusCode> {
    let mut reader = Reader::new(data);
    let (kind, body) = extension_object(&mut reader)?;
    let expected = match modified {
        true => ObjectId::HistoryModifiedEvent_Encoding_DefaultBinary,
        false => ObjectId::HistoryEvent_Encoding_DefaultBinary,
    };
    let body = match body {
        None if kind.is_null() => return Ok(Vec::new()),
        Some(body) if kind == expected => body,
        _ => return Err(StatusCode::BadUnknownResponse),
    };
    let mut reader = Reader::new(body);
    let mut found: Vec<Found<'_>> = Vec::new();
    for _ in 0..reader.array_len(4)? {
        found.push((fields(&mut reader)?, &[]));
    }
    if modified {
        if reader.array_len(16)? != found.len() {
            return Err(StatusCode::BadUnknownResponse);
        }
        for (_, info) in &mut found {
            *info = span(&mut reader, |reader| {
                reader.bytes(12)?;
                reader.byte_string().map(drop)
            })?;
        }
    }
    end(&reader)?;
    Ok(found)
}

fn fields<'a>(reader: &mut Reader<'a>) -> Result<Vec<&'a [u8]>, Malformed> {
    let count = reader.array_len(1)?;
    if count > FIELDS {
        return Err(Malformed::Limit);
    }
    (0..count).map(|_| span(reader, |reader| variant(reader, &mut false))).collect()
}
