//! Events that a client writes into the history of a notifier (OPC 10000-11 §6.9.4), one by one: each takes the rights that
//! the notifier takes on its source as well, for what happened there is its history, and those of a living event. One that
//! the session may not receive is not there for it.

use access_model::{Action, AuditKind, Reason, Rights};
use opcua_types::{HistoryUpdateType, NodeClass, QualifiedName, StatusCode, Variant};

use super::history_update::at;
use crate::event::{About, Event, Said};
use crate::history::{Author, Perform, Places, Puts};
use crate::server::desk::Desk;
use crate::space::{NodeRef, date_time, ns0};
use crate::subscription::ItemSource as _;

/// Writes events into the history of a notifier: the status of each.
pub(super) fn put(
    desk: &mut Desk<'_>,
    notifier: NodeRef,
    (perform, action): (Perform, Action),
    puts: Puts,
    ids: &mut dyn Iterator<Item = [u8; 16]>,
) -> Vec<StatusCode> {
    let Puts { names, places, events } = puts;
    let one = |fields| {
        let told = Told { names: &names, places, fields };
        told.put(desk, notifier, (perform, action), ids).unwrap_or_else(|status| status)
    };
    events.into_iter().map(one).collect()
}

/// One event as a client tells it.
struct Told<'a> {
    names: &'a [Option<QualifiedName>],
    places: Places,
    fields: Vec<Variant>,
}

impl Told<'_> {
    fn at(&self, place: Option<usize>) -> &Variant {
        place.and_then(|place| self.fields.get(place)).unwrap_or(&Variant::Empty)
    }

    /// Its id, where it says one.
    fn id(&self) -> Result<Option<Vec<u8>>, StatusCode> {
        match self.at(self.places.id) {
            Variant::Empty => Ok(None),
            Variant::ByteString(id) => Ok((!id.as_ref().is_empty()).then(|| id.as_ref().to_vec())),
            _ => Err(StatusCode::BadInvalidArgument),
        }
    }

    fn said(self) -> Vec<Said> {
        self.names.iter().cloned().zip(self.fields).collect()
    }

    fn put(
        self,
        desk: &mut Desk<'_>,
        notifier: NodeRef,
        (perform, action): (Perform, Action),
        ids: &mut dyn Iterator<Item = [u8; 16]>,
    ) -> Result<StatusCode, StatusCode> {
        if self.fields.len() != self.names.len() {
            return Err(StatusCode::BadInvalidArgument);
        }
        let id = self.id()?;
        let kept = id.as_deref().and_then(|id| desk.space.event_log(notifier).and_then(|log| log.find(id)).cloned());
        let kept = kept.filter(|event| desk.may_receive(notifier, event.about()));
        let (event, ignored, kind) = match (perform, kept) {
            (Perform::Replace, None) => return Err(StatusCode::BadNoEntryExists),
            (Perform::Insert, Some(_)) => return Err(StatusCode::BadEntryExists),
            (Perform::Replace | Perform::Update, Some(event)) => {
                self.keeps(desk, event.about())?;
                allowed(desk, notifier, event.about(), action)?;
                if perform == Perform::Replace {
                    let (event, ignored) = event.corrected(desk.space, self.said(), desk.now)?;
                    (event, ignored, HistoryUpdateType::Replace)
                } else {
                    let (event, ignored) = event.retold(desk.space, self.said(), desk.now)?;
                    (event, ignored, HistoryUpdateType::Update)
                }
            }
            (Perform::Insert | Perform::Update, None) => {
                let about = self.about(desk, notifier)?;
                allowed(desk, notifier, about, action)?;
                let new = ids.next().ok_or(StatusCode::BadInternalError)?;
                let (event, ignored) = Event::told(desk.space, (about, new), self.said(), desk.now)?;
                // Ids are the server's: whether another event has this one is told to nobody who may not receive that.
                (event, ignored || id.is_some(), HistoryUpdateType::Insert)
            }
        };
        let author = Author { name: &desk.session.actor.name, at: date_time(desk.now.unix) };
        let status = desk.space.put_event(notifier, event, kind, author);
        Ok(if ignored && status.is_good() { StatusCode::GoodDataIgnored } else { status })
    }

    /// An event keeps its source and its type: it would pass into other hands.
    fn keeps(&self, desk: &Desk<'_>, about: About) -> Result<(), StatusCode> {
        let same = |place, node| match self.at(place) {
            Variant::Empty => true,
            Variant::NodeId(id) => **id == desk.space.id(node),
            _ => false,
        };
        let keeps = same(self.places.source, about.source) && same(self.places.kind, about.event_type);
        if keeps { Ok(()) } else { Err(StatusCode::BadInvalidArgument) }
    }

    /// Where a new event comes from and of what type it is.
    fn about(&self, desk: &Desk<'_>, notifier: NodeRef) -> Result<About, StatusCode> {
        let node = |place| match self.at(place) {
            Variant::NodeId(id) => desk.space.find(id).filter(|node| desk.visible(*node)),
            _ => None,
        };
        let event_type = node(self.places.kind).ok_or(StatusCode::BadTypeDefinitionInvalid)?;
        let is = |ancestor| desk.space.is_subtype_of(event_type, ancestor);
        // Audit events are not kept: they are in the ledger, and nobody writes them.
        if desk.space.class(event_type) != NodeClass::ObjectType
            || !is(ns0::BASE_EVENT_TYPE)
            || is(ns0::AUDIT_EVENT_TYPE)
        {
            return Err(StatusCode::BadTypeDefinitionInvalid);
        }
        let about = |source| About { event_type, source, audit: false };
        let source = node(self.places.source).filter(|source| Event::would_reach(desk.space, about(*source), notifier));
        source.map(about).ok_or(StatusCode::BadSourceNodeIdInvalid)
    }
}

/// Asks for what changing an event takes, beside what its notifier takes.
fn allowed(desk: &mut Desk<'_>, notifier: NodeRef, about: About, action: Action) -> Result<(), StatusCode> {
    let source = about.source;
    let text = if !desk.may_receive(notifier, about) {
        format!("who writes an event takes {} on its source, its type and the notifier", Rights::RECEIVE_EVENTS)
    } else if !desk.rights(source).contains(action.needed()) {
        "the source of an event takes the right as well".to_owned()
    } else {
        return Ok(());
    };
    let scope = desk.space.scope(source);
    desk.tell_denial(AuditKind::HistoryChanged, Reason::RightMissing, scope, source, &text, || at(source));
    Err(StatusCode::BadUserAccessDenied)
}
