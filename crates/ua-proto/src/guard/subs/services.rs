//! The services of subscriptions and monitored items (OPC 10000-4 §5.13 and §5.14) but Publish and Republish. Ids are the
//! guard's own on the client's side and the server's own upstream.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use access_model::{Action, AuditKind};
use opcua_types::{AttributeId, NodeId, ObjectId, StatusCode};

use super::late::Late;
use super::links::{self, Links};
use super::message::{Filter, filter};
use super::standing::{Place, Standing, Wanted};
use super::{DISABLED, Item, ORDER, PUBLISHED, REPORTING, Subscription, Subscriptions, audit, events};
use crate::event::EventFilter;
use crate::guard::batch::items as items_of;
use crate::guard::desk::{Desk, Progress, Way, told};
use crate::guard::read::taken;
use crate::guard::walk::{boolean, end, extension_object, results};
use crate::guard::write::statuses;
use crate::server::front::{
    Malformed, Reader, Service, Stamps, Told, needed, operations, write_header, write_len, write_no_diagnostics,
};

type Ids = (ObjectId, ObjectId);

const CREATE: Ids = (
    ObjectId::CreateSubscriptionRequest_Encoding_DefaultBinary,
    ObjectId::CreateSubscriptionResponse_Encoding_DefaultBinary,
);
const MODIFY: Ids = (
    ObjectId::ModifySubscriptionRequest_Encoding_DefaultBinary,
    ObjectId::ModifySubscriptionResponse_Encoding_DefaultBinary,
);
const DELETE: Ids = (
    ObjectId::DeleteSubscriptionsRequest_Encoding_DefaultBinary,
    ObjectId::DeleteSubscriptionsResponse_Encoding_DefaultBinary,
);
const PUBLISHING: Ids = (
    ObjectId::SetPublishingModeRequest_Encoding_DefaultBinary,
    ObjectId::SetPublishingModeResponse_Encoding_DefaultBinary,
);
const CREATE_ITEMS: Ids = (
    ObjectId::CreateMonitoredItemsRequest_Encoding_DefaultBinary,
    ObjectId::CreateMonitoredItemsResponse_Encoding_DefaultBinary,
);
const MODIFY_ITEMS: Ids = (
    ObjectId::ModifyMonitoredItemsRequest_Encoding_DefaultBinary,
    ObjectId::ModifyMonitoredItemsResponse_Encoding_DefaultBinary,
);
const DELETE_ITEMS: Ids = (
    ObjectId::DeleteMonitoredItemsRequest_Encoding_DefaultBinary,
    ObjectId::DeleteMonitoredItemsResponse_Encoding_DefaultBinary,
);
const MODE: Ids = (
    ObjectId::SetMonitoringModeRequest_Encoding_DefaultBinary,
    ObjectId::SetMonitoringModeResponse_Encoding_DefaultBinary,
);

const TRIGGERING: Ids =
    (ObjectId::SetTriggeringRequest_Encoding_DefaultBinary, ObjectId::SetTriggeringResponse_Encoding_DefaultBinary);

/// A request under way.
pub(in crate::guard) struct Asked {
    ids: Ids,
    what: What,
    plan: Vec<Plan>,
    forwarded: usize,
}

enum What {
    Create {
        order: [u8; ORDER],
    },
    Modify {
        id: u32,
        order: [u8; ORDER],
    },
    Delete,
    Publishing {
        enabled: u8,
    },
    CreateItems {
        id: u32,
    },
    ModifyItems {
        id: u32,
        timestamps: i32,
    },
    DeleteItems {
        id: u32,
    },
    Mode {
        id: u32,
        mode: u32,
    },
    /// The first so many of the items are linked to this one, the others no longer.
    Triggering {
        id: u32,
        item: u32,
        added: usize,
    },
}

/// What answers one item.
enum Plan {
    Refused(StatusCode),
    /// The next result, about this subscription or item.
    Ask(u32),
    /// The next result, of an item that is modified: its new handle at the client.
    Modify {
        item: u32,
        client_handle: u32,
        fields: Option<usize>,
        own_events: Option<Arc<EventFilter>>,
        parameters: Box<[u8]>,
    },
    /// No result: it is so without the server.
    Known(u32),
    /// The next result, of an item that is made.
    Make(Box<Item>),
    /// The next result, about a node that is not there.
    Hidden,
}

/// Starts one of these services.
pub(in crate::guard) fn start(
    desk: &mut Desk<'_>,
    service: Service,
    body: &[u8],
    handle: u32,
) -> Result<(Asked, Progress), StatusCode> {
    let mut reader = Reader::new(body);
    let (asked, out) = match service {
        Service::CreateSubscription => create(desk, body, &mut reader)?,
        Service::ModifySubscription => modify(desk, &mut reader)?,
        Service::DeleteSubscriptions => subscriptions(desk, &mut reader, DELETE, What::Delete, Vec::new())?,
        Service::SetPublishingMode => {
            let enabled = u8::from(boolean(&mut reader)?);
            subscriptions(desk, &mut reader, PUBLISHING, What::Publishing { enabled }, vec![enabled])?
        }
        Service::CreateMonitoredItems => create_items(desk, &mut reader)?,
        Service::ModifyMonitoredItems => modify_items(desk, &mut reader)?,
        Service::DeleteMonitoredItems => {
            let id = reader.u32()?;
            items(desk, &mut reader, DELETE_ITEMS, What::DeleteItems { id }, id)?
        }
        Service::SetMonitoringMode => {
            let (id, mode) = (reader.u32()?, reader.u32()?);
            if mode > REPORTING {
                return Err(StatusCode::BadMonitoringModeInvalid);
            }
            items(desk, &mut reader, MODE, What::Mode { id, mode }, id)?
        }
        Service::SetTriggering => triggering(desk, &mut reader)?,
        _ => return Err(StatusCode::BadServiceUnsupported),
    };
    if asked.forwarded == 0 {
        let mut asked = asked;
        let progress = Progress::Done(asked.respond(desk, &[], handle));
        return Ok((asked, progress));
    }
    match asked.what {
        What::Create { .. } | What::CreateItems { .. } => desk.send_making(asked.ids, out)?,
        _ => desk.send(asked.ids, out, 0)?,
    }
    Ok((asked, Progress::Waits))
}

fn create(desk: &Desk<'_>, body: &[u8], reader: &mut Reader<'_>) -> Result<(Asked, Vec<u8>), StatusCode> {
    parameters(reader)?;
    boolean(reader)?;
    reader.u8()?;
    end(reader)?;
    if desk.link.subs.subscriptions.len() >= desk.front.front_config().limits.subscriptions.max_subscriptions {
        return Err(StatusCode::BadTooManySubscriptions);
    }
    let order = body.try_into().map_err(|_| StatusCode::BadDecodingError)?;
    Ok((Asked::one(CREATE, What::Create { order }), body.to_vec()))
}

/// Interval, lifetime count, keep-alive count, most notifications.
fn parameters(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    reader.f64()?;
    reader.bytes(12).map(drop)
}

fn modify(desk: &Desk<'_>, reader: &mut Reader<'_>) -> Result<(Asked, Vec<u8>), StatusCode> {
    let id = reader.u32()?;
    let rest = reader.rest();
    parameters(reader)?;
    reader.u8()?;
    end(reader)?;
    let subscription = desk.link.subs.subscriptions.get(&id).ok_or(StatusCode::BadSubscriptionIdInvalid)?;
    let body = [&subscription.upstream.to_le_bytes(), rest].concat();
    let order = subscription.modified(rest);
    Ok((Asked::one(MODIFY, What::Modify { id, order }), body))
}

fn subscriptions(
    desk: &Desk<'_>,
    reader: &mut Reader<'_>,
    ids: Ids,
    what: What,
    mut out: Vec<u8>,
) -> Result<(Asked, Vec<u8>), StatusCode> {
    let (plan, known) = numbers(desk, reader, |id| {
        let subscription = desk.link.subs.subscriptions.get(&id);
        subscription.map(|subscription| subscription.upstream).ok_or(StatusCode::BadSubscriptionIdInvalid)
    })?;
    let forwarded = known.len();
    write_numbers(&mut out, &known);
    Ok((Asked { ids, what, plan, forwarded }, out))
}

/// DeleteMonitoredItems and SetMonitoringMode.
fn items(
    desk: &Desk<'_>,
    reader: &mut Reader<'_>,
    ids: Ids,
    what: What,
    id: u32,
) -> Result<(Asked, Vec<u8>), StatusCode> {
    let subscription = desk.link.subs.subscriptions.get(&id).ok_or(StatusCode::BadSubscriptionIdInvalid)?;
    let mode = match &what {
        What::Mode { mode, .. } => Some(*mode),
        _ => None,
    };
    let (plan, known) = numbers(desk, reader, |number| match subscription.items.get(&number) {
        // Disabled upstream and to stay so, or not there: it is only remembered.
        Some(item) if (item.denied && mode.is_some()) || item.place != Place::There => Err(StatusCode::Good),
        Some(item) => Ok(item.upstream),
        None => Err(StatusCode::BadMonitoredItemIdInvalid),
    })?;
    let mut out = subscription.upstream.to_le_bytes().to_vec();
    if let Some(mode) = mode {
        out.extend_from_slice(&mode.to_le_bytes());
    }
    let forwarded = known.len();
    write_numbers(&mut out, &known);
    Ok((Asked { ids, what, plan, forwarded }, out))
}

pub(super) fn write_numbers(out: &mut Vec<u8>, numbers: &[u32]) {
    write_len(out, numbers.len());
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

/// Reads an array of ids and finds the server's for each. A `Good` refusal is one that needs no answer of the server.
fn numbers(
    desk: &Desk<'_>,
    reader: &mut Reader<'_>,
    upstream: impl Fn(u32) -> Result<u32, StatusCode>,
) -> Result<(Vec<Plan>, Vec<u32>), StatusCode> {
    let numbers = items_of(reader, 4, desk.mapping.limits.items, |reader| reader.u32())?;
    end(reader)?;
    Ok(known(numbers, upstream))
}

fn known(numbers: Vec<u32>, upstream: impl Fn(u32) -> Result<u32, StatusCode>) -> (Vec<Plan>, Vec<u32>) {
    let (mut plan, mut known) = (Vec::with_capacity(numbers.len()), Vec::new());
    for number in numbers {
        plan.push(match upstream(number) {
            Ok(upstream) => {
                known.push(upstream);
                Plan::Ask(number)
            }
            Err(StatusCode::Good) => Plan::Known(number),
            Err(status) => Plan::Refused(status),
        });
    }
    (plan, known)
}

/// SetTriggering (OPC 10000-4 §5.13.5): links are between the session's own items of one subscription. What a linked
/// item then reports is decided when it leaves, as everything else is.
fn triggering(desk: &Desk<'_>, reader: &mut Reader<'_>) -> Result<(Asked, Vec<u8>), StatusCode> {
    let (id, item) = (reader.u32()?, reader.u32()?);
    let list = |reader: &mut Reader<'_>| -> Result<Vec<u32>, Malformed> {
        let count = reader.array_len(4)?;
        (0..count).map(|_| reader.u32()).collect()
    };
    let (add, remove) = (list(reader)?, list(reader)?);
    end(reader)?;
    operations(add.len().saturating_add(remove.len()), desk.mapping.limits.items)?;
    let subscription = desk.link.subs.subscriptions.get(&id).ok_or(StatusCode::BadSubscriptionIdInvalid)?;
    let upstream = |number: u32| {
        let item = subscription.items.get(&number).filter(|item| item.place == Place::There);
        item.map(|item| item.upstream).ok_or(StatusCode::BadMonitoredItemIdInvalid)
    };
    let mut out = subscription.upstream.to_le_bytes().to_vec();
    out.extend_from_slice(&upstream(item)?.to_le_bytes());
    let added = add.len();
    if subscription.links.len().saturating_add(added) > desk.front.front_config().limits.subscriptions.max_items {
        return Err(StatusCode::BadTooManyOperations);
    }
    let (mut plan, ids) = known(add, upstream);
    write_numbers(&mut out, &ids);
    let (behind, more) = known(remove, upstream);
    write_numbers(&mut out, &more);
    let forwarded = ids.len().saturating_add(more.len());
    plan.extend(behind);
    Ok((Asked { ids: TRIGGERING, what: What::Triggering { id, item, added }, plan, forwarded }, out))
}

struct NewItem<'a> {
    node: NodeId,
    node_bytes: &'a [u8],
    attribute: u32,
    /// The rest of the ReadValueId.
    rest: &'a [u8],
    timestamps: i32,
    mode: u32,
    parameters: Parameters<'a>,
}

impl<'a> NewItem<'a> {
    fn read(reader: &mut Reader<'a>, timestamps: i32) -> Result<Self, Malformed> {
        let before = reader.rest();
        let node = reader.node_id()?;
        let node_bytes = taken(before, reader)?;
        let before = reader.rest();
        let attribute = reader.u32()?;
        reader.string()?;
        reader.u16()?;
        reader.string()?;
        let rest = taken(before, reader)?;
        let mode = reader.u32()?;
        Ok(Self { node, node_bytes, attribute, rest, timestamps, mode, parameters: Parameters::read(reader)? })
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
                let filter = events::filter(desk, body)?;
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
    new_items(body).into_iter().map(|item| item.node).collect()
}

/// The nodes that are to be, or are, monitored with a percent deadband.
pub(in crate::guard) fn percent(desk: &Desk<'_>, service: Service, body: &[u8]) -> Vec<NodeId> {
    if service == Service::CreateMonitoredItems {
        let banded = new_items(body).into_iter().filter(|item| item.parameters.filter.is_percent());
        return banded.map(|item| item.node).collect();
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

fn create_items(desk: &mut Desk<'_>, reader: &mut Reader<'_>) -> Result<(Asked, Vec<u8>), StatusCode> {
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
    for item in &new {
        let reports = item.attribute == AttributeId::EventNotifier as u32;
        let full = desk.link.subs.item_count().saturating_add(hidden) >= most || reports && events >= most_events;
        let made = if full {
            Plan::Refused(StatusCode::BadTooManyMonitoredItems)
        } else {
            make(desk, id, item, &mut spans).unwrap_or_else(Plan::Refused)
        };
        hidden += usize::from(matches!(made, Plan::Hidden));
        events += usize::from(reports && matches!(made, Plan::Make(_)));
        plan.push(made);
    }
    Ok(Asked::several(CREATE_ITEMS, What::CreateItems { id }, plan, head, &spans))
}

fn make(desk: &mut Desk<'_>, id: u32, new: &NewItem<'_>, spans: &mut Vec<u8>) -> Result<Plan, StatusCode> {
    let scope = desk.scope(&new.node);
    match desk.way(Action::Browse, (&new.node, scope), AuditKind::Browse, None) {
        Way::Real => {}
        Way::Never(node) => {
            spans.extend_from_slice(&node);
            spans.extend_from_slice(new.rest);
            [DISABLED, 0].iter().for_each(|number| spans.extend_from_slice(&number.to_le_bytes()));
            // No sampling interval, no filter, a queue of one.
            spans.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
            return Ok(Plan::Hidden);
        }
        Way::Refused(status) => return Err(status),
    }
    // A session never changes the mode it was made in, so what is too weak now stays so.
    if let Err(denial) = desk.ask(Action::Browse, (&new.node, scope), AuditKind::Notify) {
        return Err(desk.turned_away(AuditKind::Notify, &denial, &new.node, || Told::Nothing));
    }
    if new.mode > REPORTING {
        return Err(StatusCode::BadMonitoringModeInvalid);
    }
    let attribute = AttributeId::from_u32(new.attribute).ok();
    let reports = attribute == Some(AttributeId::EventNotifier);
    let action = if reports { Action::ReceiveEvents } else { attribute.map_or(Action::Browse, needed) };
    let (parameters, fields) = new.parameters.asked(desk, &new.node, reports)?;
    let own_events = new.parameters.own_events(desk, &new.node);
    let denied = !desk.rights(scope).contains(action.needed());
    let subscription = desk.link.subs.subscriptions.get_mut(&id).ok_or(StatusCode::BadSubscriptionIdInvalid)?;
    let handle = subscription.next_handle();
    spans.extend_from_slice(desk.known_as(&new.node, new.node_bytes));
    spans.extend_from_slice(new.rest);
    spans.extend_from_slice(&if denied { DISABLED } else { new.mode }.to_le_bytes());
    spans.extend_from_slice(&handle.to_le_bytes());
    spans.extend_from_slice(&parameters);
    Ok(Plan::Make(Box::new(Item {
        client_handle: new.parameters.client_handle,
        handle,
        upstream: 0,
        node: new.node.clone(),
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
            item: [desk.lasting(&new.node, new.node_bytes), new.rest].concat().into(),
            parameters,
            timestamps: new.timestamps,
        },
        place: Place::There,
        lost: false,
        failure: None,
    })))
}

fn modify_items(desk: &mut Desk<'_>, reader: &mut Reader<'_>) -> Result<(Asked, Vec<u8>), StatusCode> {
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
pub(super) fn item_result(reader: &mut Reader<'_>, id: bool) -> Result<(), Malformed> {
    reader.bytes(if id { 20 } else { 16 })?;
    extension_object(reader).map(drop)
}

impl Subscription {
    /// Its order, with what the body of a ModifySubscriptionRequest behind the id says.
    fn modified(&self, change: &[u8]) -> [u8; ORDER] {
        let mut order = self.order;
        if let (Some((parameters, [_, priority])), Some((asked, [wanted]))) =
            (order.split_at_mut_checked(PUBLISHED), change.split_at_checked(PUBLISHED))
        {
            parameters.copy_from_slice(asked);
            *priority = *wanted;
        }
        order
    }
}

impl Asked {
    fn one(ids: Ids, what: What) -> Self {
        Self { ids, what, plan: Vec::new(), forwarded: 1 }
    }

    /// A request with its items, `spans`, behind its head.
    fn several(ids: Ids, what: What, plan: Vec<Plan>, mut head: Vec<u8>, spans: &[u8]) -> (Self, Vec<u8>) {
        let forwarded = plan.iter().filter(|plan| !matches!(plan, Plan::Refused(_))).count();
        write_len(&mut head, forwarded);
        head.extend_from_slice(spans);
        (Self { ids, what, plan, forwarded }, head)
    }

    /// Whether it makes a subscription.
    pub(in crate::guard) fn makes_subscription(&self) -> bool {
        matches!(self.what, What::Create { .. })
    }

    /// The upstream server answered.
    pub(in crate::guard) fn answered(
        &mut self,
        desk: &mut Desk<'_>,
        answer: Result<Vec<u8>, StatusCode>,
        handle: u32,
    ) -> Progress {
        let body = match answer {
            Ok(body) => body,
            Err(status) => {
                self.forget(&mut desk.link.subs);
                return Progress::Done(Err(told(status)));
            }
        };
        let answered = self.respond(desk, &body, handle);
        Progress::Done(answered.map_err(|status| {
            self.forget(&mut desk.link.subs);
            desk.misbehaved(status, "the answer to a subscription service does not fit the request")
        }))
    }

    /// The client does not wait any longer: what is to be done when the answer comes.
    pub(in crate::guard) fn late(&mut self, subs: &mut Subscriptions) -> Option<Late> {
        let late = match self.what {
            What::Create { .. } => Some(Late::Subscription),
            What::CreateItems { id } => {
                let upstream = subs.subscriptions.get(&id).map(|subscription| subscription.upstream);
                upstream.map(|upstream| Late::Items { upstream, count: self.forwarded })
            }
            _ => None,
        };
        self.forget(subs);
        late
    }

    /// Items that were asked for and do not come.
    fn forget(&mut self, subs: &mut Subscriptions) {
        let What::CreateItems { id } = self.what else { return };
        let Some(subscription) = subs.subscriptions.get_mut(&id) else { return };
        for plan in self.plan.drain(..) {
            if let Plan::Make(item) = plan {
                subscription.handles.remove(&item.handle);
            }
        }
    }

    fn respond(&mut self, desk: &mut Desk<'_>, body: &[u8], handle: u32) -> Result<Vec<u8>, StatusCode> {
        let mut out = Vec::new();
        write_header(&mut out, self.ids.1, desk.now, handle, StatusCode::Good);
        match self.what {
            What::Create { order } => created(desk, order, body, &mut out)?,
            What::Modify { id, order } => modified(desk, (id, order), body, &mut out)?,
            What::CreateItems { id } => self.items_created(desk, id, body, &mut out)?,
            What::ModifyItems { id, timestamps } => self.items_modified(desk, (id, timestamps), body, &mut out)?,
            What::Triggering { id, item, added } => self.triggered(desk, (id, item, added), body, &mut out)?,
            What::Delete | What::Publishing { .. } | What::DeleteItems { .. } | What::Mode { .. } => {
                self.statuses(desk, body, &mut out)?;
            }
        }
        Ok(out)
    }

    fn statuses(&mut self, desk: &mut Desk<'_>, body: &[u8], out: &mut Vec<u8>) -> Result<(), StatusCode> {
        let mut given = if self.forwarded == 0 { Vec::new() } else { statuses(body, self.forwarded)? }.into_iter();
        write_len(out, self.plan.len());
        for plan in &self.plan {
            let status = match plan {
                Plan::Refused(status) => *status,
                Plan::Ask(number) => {
                    let status = given.next().unwrap_or(StatusCode::BadUnknownResponse);
                    if status.is_good() {
                        self.done(desk, *number);
                    }
                    status
                }
                Plan::Known(number) => {
                    self.done(desk, *number);
                    StatusCode::Good
                }
                Plan::Make(_) | Plan::Modify { .. } | Plan::Hidden => StatusCode::BadInternalError,
            };
            out.extend_from_slice(&status.bits().to_le_bytes());
        }
        write_no_diagnostics(out);
        Ok(())
    }

    /// Statuses of the links that were added, then of those that were removed.
    fn triggered(
        &self,
        desk: &mut Desk<'_>,
        (id, item, added): (u32, u32, usize),
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), StatusCode> {
        let given = if self.forwarded == 0 { Vec::new() } else { links::statuses(body, self.forwarded)? };
        let mut given = given.into_iter();
        let (links, others) = self.plan.split_at_checked(added).unwrap_or((&self.plan, &[]));
        for (list, linked) in [(links, true), (others, false)] {
            write_len(out, list.len());
            for plan in list {
                let status = match plan {
                    Plan::Refused(status) => *status,
                    _ => given.next().unwrap_or(StatusCode::BadUnknownResponse),
                };
                if let (Plan::Ask(to), true) = (plan, status.is_good())
                    && let Some(subscription) = desk.link.subs.subscriptions.get_mut(&id)
                {
                    subscription.links.set((item, *to), linked);
                }
                out.extend_from_slice(&status.bits().to_le_bytes());
            }
            write_no_diagnostics(out);
        }
        Ok(())
    }

    /// What was asked about one subscription or item is so.
    fn done(&self, desk: &mut Desk<'_>, number: u32) {
        match self.what {
            What::Delete => desk.link.subs.remove(number),
            What::Publishing { enabled } => {
                if let Some(subscription) = desk.link.subs.subscriptions.get_mut(&number)
                    && let Some(published) = subscription.order.get_mut(PUBLISHED)
                {
                    *published = enabled;
                }
            }
            What::DeleteItems { id } => desk.link.subs.remove_item(id, number),
            What::Mode { id, mode } => {
                let subscription = desk.link.subs.subscriptions.get_mut(&id);
                if let Some(item) = subscription.and_then(|subscription| subscription.items.get_mut(&number)) {
                    item.denial_waits = item.denied
                        && mode == REPORTING
                        && item.fields.is_none()
                        && (item.denial_waits || item.mode != REPORTING);
                    item.mode = mode;
                }
            }
            _ => {}
        }
    }

    fn items_created(
        &mut self,
        desk: &mut Desk<'_>,
        id: u32,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), StatusCode> {
        let given = if self.forwarded == 0 {
            Vec::new()
        } else {
            results(body, self.forwarded, |reader| item_result(reader, true))?
        };
        let mut given = given.into_iter();
        write_len(out, self.plan.len());
        for plan in std::mem::take(&mut self.plan) {
            let bare = |out: &mut Vec<u8>, status: StatusCode| {
                out.extend_from_slice(&status.bits().to_le_bytes());
                out.extend_from_slice(&[0; 19]);
            };
            let mut item = match plan {
                Plan::Make(item) => item,
                Plan::Refused(status) => {
                    bare(out, status);
                    continue;
                }
                Plan::Hidden | Plan::Ask(_) | Plan::Known(_) | Plan::Modify { .. } => {
                    given.next();
                    bare(out, StatusCode::BadNodeIdUnknown);
                    continue;
                }
            };
            let span = given.next().unwrap_or_default();
            let mut reader = Reader::new(span);
            let (status, upstream) = (StatusCode::from(reader.u32()?), reader.u32()?);
            let subscription = desk.link.subs.subscriptions.get_mut(&id);
            let Some(subscription) = subscription else {
                bare(out, StatusCode::BadSubscriptionIdInvalid);
                continue;
            };
            if status.is_bad() {
                subscription.handles.remove(&item.handle);
                bare(out, status);
                continue;
            }
            item.upstream = upstream;
            subscription.last_item += 1;
            let number = subscription.last_item;
            subscription.handles.insert(item.handle, number);
            out.extend_from_slice(&status.bits().to_le_bytes());
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(reader.bytes(12)?);
            write_filter_result(out, reader.rest(), item.fields);
            subscription.items.insert(number, *item);
        }
        write_no_diagnostics(out);
        Ok(())
    }

    fn items_modified(
        &mut self,
        desk: &mut Desk<'_>,
        (id, timestamps): (u32, i32),
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), StatusCode> {
        let given = if self.forwarded == 0 {
            Vec::new()
        } else {
            results(body, self.forwarded, |reader| item_result(reader, false))?
        };
        let mut given = given.into_iter();
        write_len(out, self.plan.len());
        for plan in &self.plan {
            let Plan::Modify { item, client_handle, fields, own_events, parameters } = plan else {
                let status = if let Plan::Refused(status) = plan { *status } else { StatusCode::BadInternalError };
                out.extend_from_slice(&status.bits().to_le_bytes());
                out.extend_from_slice(&[0; 15]);
                continue;
            };
            let mut reader = Reader::new(given.next().unwrap_or_default());
            let revised = reader.bytes(16)?;
            let status = StatusCode::from(Reader::new(revised).u32()?);
            let subscription = desk.link.subs.subscriptions.get_mut(&id);
            if let Some(item) = subscription.and_then(|subscription| subscription.items.get_mut(item))
                && status.is_good()
            {
                item.client_handle = *client_handle;
                item.fields = *fields;
                item.own_events.clone_from(own_events);
                item.wanted.parameters.clone_from(parameters);
                item.wanted.timestamps = timestamps;
            }
            out.extend_from_slice(revised);
            write_filter_result(out, reader.rest(), *fields);
        }
        write_no_diagnostics(out);
        Ok(())
    }
}

/// The result of a filter: of a data change as it came, of an event without the guard's own clauses.
fn write_filter_result(out: &mut Vec<u8>, result: &[u8], fields: Option<usize>) {
    match fields {
        None => out.extend_from_slice(result),
        Some(fields) => out.extend_from_slice(&events::result(result, fields)),
    }
}

/// A subscription was made: its id is exchanged for one of the guard's.
fn created(desk: &mut Desk<'_>, order: [u8; ORDER], body: &[u8], out: &mut Vec<u8>) -> Result<(), StatusCode> {
    let mut reader = Reader::new(body);
    let upstream = reader.u32()?;
    let rest = reader.rest();
    let (first, silence) = revised(&mut reader)?;
    end(&reader)?;
    if desk.link.subs.by_upstream(upstream).is_some() {
        return Err(StatusCode::BadUnknownResponse);
    }
    let id = desk.front.next_subscription();
    let subscription = Subscription {
        upstream,
        standing: Standing::Live,
        order,
        expected: None,
        sequence: 1,
        last_item: 0,
        items: BTreeMap::new(),
        handles: HashMap::new(),
        last_handle: desk.link.subs.first_handle,
        first_handle: desk.link.subs.first_handle,
        links: Links::default(),
        retained: VecDeque::new(),
        ready: VecDeque::new(),
        silence,
        // The client hears of it for the first time when the first interval is over (OPC 10000-4 §5.14.1.1).
        quiet_at: desk.now.mono + first,
    };
    desk.link.subs.subscriptions.insert(id, subscription);
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(rest);
    Ok(())
}

fn modified(
    desk: &mut Desk<'_>,
    (id, order): (u32, [u8; ORDER]),
    body: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), StatusCode> {
    let mut reader = Reader::new(body);
    let (_, silence) = revised(&mut reader)?;
    end(&reader)?;
    if let Some(subscription) = desk.link.subs.subscriptions.get_mut(&id) {
        (subscription.silence, subscription.order) = (silence, order);
        subscription.quiet_at = desk.now.mono + silence;
    }
    out.extend_from_slice(body);
    Ok(())
}

/// Revised interval, lifetime and keep-alive counts: how long the subscription may be silent at first, and later. Half an
/// interval is for the way: what the server has to say comes first.
pub(super) fn revised(reader: &mut Reader<'_>) -> Result<(Duration, Duration), StatusCode> {
    let interval = reader.f64()?;
    reader.u32()?;
    let count = reader.u32()?;
    let time = |count: u32| {
        let time = interval * (f64::from(count.max(1)) + 0.5) / 1_000.0;
        if !time.is_finite() || time <= 0.0 {
            return Err(StatusCode::BadUnknownResponse);
        }
        Ok(Duration::try_from_secs_f64(time.clamp(0.1, 86_400.0)).unwrap_or(Duration::from_secs(86_400)))
    };
    Ok((time(1)?, time(count)?))
}
