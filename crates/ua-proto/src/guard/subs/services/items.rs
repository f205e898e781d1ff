//! Monitored items as they are asked for: what each needs, and how the server is asked.

use std::sync::Arc;

use access_model::{Action, AuditKind};
use opcua_types::{AttributeId, NodeId, StatusCode};

use super::super::message::{Filter, filter};
use super::super::standing::{Place, Wanted};
use super::super::{DISABLED, Item, REPORTING, audit, events};
use super::{Asked, CREATE_ITEMS, MODIFY_ITEMS, Plan, What};
use crate::event::EventFilter;
use crate::guard::batch::items as items_of;
use crate::guard::desk::{Desk, Way};
use crate::guard::read::{self, taken};
use crate::guard::walk::{boolean, end, extension_object};
use crate::server::front::{Malformed, Reader, Service, Stamps, Told, needed};

struct NewItem<'a> {
    item: read::Item<'a>,
    timestamps: i32,
    mode: u32,
    parameters: Parameters<'a>,
}

impl<'a> NewItem<'a> {
    fn read(reader: &mut Reader<'a>, timestamps: i32) -> Result<Self, Malformed> {
        let item = read::Item::read(reader)?;
        let mode = reader.u32()?;
        Ok(Self { item, timestamps, mode, parameters: Parameters::read(reader)? })
    }
}

/// MonitoringParameters.
struct Parameters<'a> {
    client_handle: u32,
    sampling: &'a [u8],
    filter: Filter<'a>,
    /// Queue size and discard policy.
    queue: &'a [u8],
}

impl<'a> Parameters<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let client_handle = reader.u32()?;
        let sampling = reader.bytes(8)?;
        let filter = filter(reader)?;
        let queue = reader.rest();
        reader.u32()?;
        boolean(reader)?;
        Ok(Self { client_handle, sampling, filter, queue: taken(queue, reader)? })
    }

    /// As the server is asked, behind the handle, and how many fields of events the client selected.
    fn asked(&self, desk: &Desk<'_>, node: &NodeId, reports: bool) -> Result<(Box<[u8]>, Option<usize>), StatusCode> {
        let (filter, fields) = match (self.filter, reports) {
            // What such a band tells and does not tell says where the range is.
            (filter, false) if filter.is_percent() && !desk.reads_range(node) => {
                return Err(StatusCode::BadMonitoredItemFilterUnsupported);
            }
            (Filter::Data(bytes), false) => (bytes.to_vec(), None),
            (Filter::Event(body), true) => {
                let filter = events::filter(desk, body)?.wrapped();
                (filter.bytes, Some(filter.fields))
            }
            (Filter::Data([0, 0, 0]), true) => return Err(StatusCode::BadEventFilterInvalid),
            _ => return Err(StatusCode::BadMonitoredItemFilterUnsupported),
        };
        Ok(([self.sampling, &filter, self.queue].concat().into(), fields))
    }
}

/// The nodes of a CreateMonitoredItemsRequest.
pub(in crate::guard) fn nodes(body: &[u8]) -> Vec<NodeId> {
    new_items(body).into_iter().map(|new| new.item.node).collect()
}

/// The nodes that are to be, or are, monitored with a percent deadband.
pub(in crate::guard) fn percent(desk: &Desk<'_>, service: Service, body: &[u8]) -> Vec<NodeId> {
    if service == Service::CreateMonitoredItems {
        let banded = new_items(body).into_iter().filter(|new| new.parameters.filter.is_percent());
        return banded.map(|new| new.item.node).collect();
    }
    let mut reader = Reader::new(body);
    let Ok(subscription) = reader.u32().map(|id| desk.link.subs.subscriptions.get(&id)) else { return Vec::new() };
    let changes = reader
        .u32()
        .map_err(Malformed::status)
        .and_then(|_| items_of(&mut reader, 24, 0, |reader| Ok((reader.u32()?, Parameters::read(reader)?))));
    let banded = changes.unwrap_or_default().into_iter().filter(|(_, wanted)| wanted.filter.is_percent());
    let item = |number: u32| subscription.and_then(|subscription| subscription.items.get(&number));
    banded.filter_map(|(number, _)| item(number).map(|item| item.node.clone())).collect()
}

fn new_items(body: &[u8]) -> Vec<NewItem<'_>> {
    let mut reader = Reader::new(body);
    let read = reader.bytes(8).map_err(Malformed::status);
    read.and_then(|_| items_of(&mut reader, 35, 0, |reader| NewItem::read(reader, 0))).unwrap_or_default()
}

impl Parameters<'_> {
    /// Which of the guard's own events an item on this node hears of.
    fn own_events(&self, desk: &mut Desk<'_>, node: &NodeId) -> Option<Arc<EventFilter>> {
        let Filter::Event(body) = self.filter else { return None };
        audit::filter(desk, node, body)
    }
}

pub(super) fn create_items(desk: &mut Desk<'_>, reader: &mut Reader<'_>) -> Result<(Asked, Vec<u8>), StatusCode> {
    let id = reader.u32()?;
    let timestamps = reader.i32()?;
    Stamps::from_wire(timestamps)?;
    let new = items_of(reader, 35, desk.mapping.limits.items, |reader| NewItem::read(reader, timestamps))?;
    end(reader)?;
    let subscription = desk.link.subs.subscriptions.get(&id).ok_or(StatusCode::BadSubscriptionIdInvalid)?;
    let head = [subscription.upstream.to_le_bytes(), timestamps.to_le_bytes()].concat();
    let limits = &desk.front.front_config().limits.subscriptions;
    let (most, most_events) = (limits.max_items, limits.max_event_items);
    let (mut plan, mut spans, mut hidden) = (Vec::with_capacity(new.len()), Vec::new(), 0);
    let mut events = desk.link.subs.event_item_count();
    for one in &new {
        let reports = one.item.attribute == AttributeId::EventNotifier as u32;
        let full = desk.link.subs.item_count().saturating_add(hidden) >= most || reports && events >= most_events;
        let made = if full {
            Plan::Refused(StatusCode::BadTooManyMonitoredItems)
        } else {
            make(desk, id, one, &mut spans).unwrap_or_else(Plan::Refused)
        };
        hidden += usize::from(matches!(made, Plan::Hidden));
        events += usize::from(reports && matches!(made, Plan::Make(_)));
        plan.push(made);
    }
    Ok(Asked::several(CREATE_ITEMS, What::CreateItems { id }, plan, head, &spans))
}

fn make(desk: &mut Desk<'_>, id: u32, new: &NewItem<'_>, spans: &mut Vec<u8>) -> Result<Plan, StatusCode> {
    let asked = &new.item;
    let scope = desk.scope(&asked.node);
    match desk.way(Action::Browse, (&asked.node, scope), AuditKind::Browse, None) {
        Way::Real => {}
        Way::Never(node) => {
            spans.extend_from_slice(&node);
            spans.extend_from_slice(asked.rest);
            [DISABLED, 0].iter().for_each(|number| spans.extend_from_slice(&number.to_le_bytes()));
            // No sampling interval, no filter, a queue of one.
            spans.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
            return Ok(Plan::Hidden);
        }
        Way::Refused(status) => return Err(status),
    }
    // A session never changes the mode it was made in, so what is too weak now stays so.
    if let Err(denial) = desk.ask(Action::Browse, (&asked.node, scope), AuditKind::Notify) {
        return Err(desk.turned_away(AuditKind::Notify, &denial, &asked.node, || Told::Nothing));
    }
    if new.mode > REPORTING {
        return Err(StatusCode::BadMonitoringModeInvalid);
    }
    let attribute = AttributeId::from_u32(asked.attribute).ok();
    let reports = attribute == Some(AttributeId::EventNotifier);
    let action = if reports { Action::ReceiveEvents } else { attribute.map_or(Action::Browse, needed) };
    let (parameters, fields) = new.parameters.asked(desk, &asked.node, reports)?;
    let own_events = new.parameters.own_events(desk, &asked.node);
    let denied = !desk.rights(scope).contains(action.needed());
    let subscription = desk.link.subs.subscriptions.get_mut(&id).ok_or(StatusCode::BadSubscriptionIdInvalid)?;
    let handle = subscription.next_handle();
    spans.extend_from_slice(desk.known_as(&asked.node, asked.node_bytes));
    spans.extend_from_slice(asked.rest);
    spans.extend_from_slice(&if denied { DISABLED } else { new.mode }.to_le_bytes());
    spans.extend_from_slice(&handle.to_le_bytes());
    spans.extend_from_slice(&parameters);
    Ok(Plan::Make(Box::new(Item {
        client_handle: new.parameters.client_handle,
        handle,
        upstream: 0,
        node: asked.node.clone(),
        scope,
        attribute,
        action,
        fields,
        own_events,
        mode: new.mode,
        denied,
        denial_waits: denied && new.mode == REPORTING && !reports,
        muted: false,
        wanted: Wanted {
            item: [desk.lasting(&asked.node, asked.node_bytes), asked.rest].concat().into(),
            parameters,
            timestamps: new.timestamps,
        },
        place: Place::There,
        lost: false,
        failure: None,
    })))
}

pub(super) fn modify_items(desk: &mut Desk<'_>, reader: &mut Reader<'_>) -> Result<(Asked, Vec<u8>), StatusCode> {
    let id = reader.u32()?;
    let timestamps = reader.i32()?;
    Stamps::from_wire(timestamps)?;
    let changes =
        items_of(reader, 24, desk.mapping.limits.items, |reader| Ok((reader.u32()?, Parameters::read(reader)?)))?;
    end(reader)?;
    let (mut plan, mut spans) = (Vec::with_capacity(changes.len()), Vec::new());
    for (number, wanted) in &changes {
        let subscription = desk.link.subs.subscriptions.get(&id).ok_or(StatusCode::BadSubscriptionIdInvalid)?;
        let node = subscription.items.get(number).map(|item| item.node.clone()).unwrap_or_default();
        let own_events = wanted.own_events(desk, &node);
        let subscription = desk.link.subs.subscriptions.get(&id).ok_or(StatusCode::BadSubscriptionIdInvalid)?;
        plan.push(match subscription.items.get(number) {
            None => Plan::Refused(StatusCode::BadMonitoredItemIdInvalid),
            Some(item) if item.place != Place::There => Plan::Refused(StatusCode::BadUserAccessDenied),
            Some(item) => match wanted.asked(desk, &item.node, item.fields.is_some()) {
                Err(status) => Plan::Refused(status),
                Ok((parameters, fields)) => {
                    spans.extend_from_slice(&item.upstream.to_le_bytes());
                    spans.extend_from_slice(&item.handle.to_le_bytes());
                    spans.extend_from_slice(&parameters);
                    let client_handle = wanted.client_handle;
                    Plan::Modify { item: *number, client_handle, fields, own_events, parameters }
                }
            },
        });
    }
    let subscription = desk.link.subs.subscriptions.get(&id).ok_or(StatusCode::BadSubscriptionIdInvalid)?;
    let head = [subscription.upstream.to_le_bytes(), timestamps.to_le_bytes()].concat();
    Ok(Asked::several(MODIFY_ITEMS, What::ModifyItems { id, timestamps }, plan, head, &spans))
}

/// A MonitoredItemCreateResult; that of a modification lacks the id.
pub(in crate::guard::subs) fn item_result(reader: &mut Reader<'_>, id: bool) -> Result<(), Malformed> {
    reader.bytes(if id { 20 } else { 16 })?;
    extension_object(reader).map(drop)
}
