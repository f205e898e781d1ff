//! The services of subscriptions and monitored items (OPC 10000-4 §5.13 and §5.14) but Publish and Republish. Ids are the
//! guard's own on the client's side and the server's own upstream.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use access_model::{Action, AuditKind};
use opcua_types::{AttributeId, NodeId, ObjectId, StatusCode};

use super::message::filter;
use super::standing::{Place, Standing, Wanted};
use super::{DISABLED, Item, ORDER, PUBLISHED, REPORTING, Subscription};
use crate::guard::desk::{Decision, Desk, Progress, told};
use crate::guard::read::taken;
use crate::guard::walk::{boolean, end, extension_object, results};
use crate::guard::write::statuses;
use crate::server::front::{
    Malformed, Reader, Service, Stamps, needed, operations, write_header, write_len, write_no_diagnostics,
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

/// A request under way.
pub(in crate::guard) struct Asked {
    ids: Ids,
    what: What,
    plan: Vec<Plan>,
    forwarded: usize,
}

enum What {
    Create { order: [u8; ORDER] },
    Modify { id: u32, order: [u8; ORDER] },
    Delete,
    Publishing { enabled: u8 },
    CreateItems { id: u32 },
    ModifyItems { id: u32, timestamps: i32 },
    DeleteItems { id: u32 },
    Mode { id: u32, mode: u32 },
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
        _ => return Err(StatusCode::BadServiceUnsupported),
    };
    if asked.forwarded == 0 {
        let mut asked = asked;
        let progress = Progress::Done(asked.respond(desk, &[], handle));
        return Ok((asked, progress));
    }
    desk.send(asked.ids, out, 0)?;
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
    Ok((Asked { ids: CREATE, what: What::Create { order }, plan: Vec::new(), forwarded: 1 }, body.to_vec()))
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
    Ok((Asked { ids: MODIFY, what: What::Modify { id, order }, plan: Vec::new(), forwarded: 1 }, body))
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
    let plan = plan.into_iter().collect();
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
    let count = reader.array_len(4)?;
    operations(count, desk.mapping.limits.items)?;
    let (mut plan, mut known) = (Vec::with_capacity(count), Vec::new());
    for _ in 0..count {
        let number = reader.u32()?;
        plan.push(match upstream(number) {
            Ok(upstream) => {
                known.push(upstream);
                Plan::Ask(number)
            }
            Err(StatusCode::Good) => Plan::Known(number),
            Err(status) => Plan::Refused(status),
        });
    }
    end(reader)?;
    Ok((plan, known))
}

struct NewItem<'a> {
    node: NodeId,
    node_bytes: &'a [u8],
    attribute: u32,
    /// The rest of the ReadValueId.
    rest: &'a [u8],
    timestamps: i32,
    mode: u32,
    client_handle: u32,
    /// Sampling interval, filter, queue size, discard policy.
    parameters: &'a [u8],
    filter: bool,
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
        let (client_handle, parameters, filter) = monitoring(reader)?;
        Ok(Self { node, node_bytes, attribute, rest, timestamps, mode, client_handle, parameters, filter })
    }
}

/// MonitoringParameters: the client's handle, the rest, and whether the filter is one that is taken.
fn monitoring<'a>(reader: &mut Reader<'a>) -> Result<(u32, &'a [u8], bool), Malformed> {
    let client_handle = reader.u32()?;
    let before = reader.rest();
    reader.f64()?;
    let filter = filter(reader)?;
    reader.u32()?;
    boolean(reader)?;
    Ok((client_handle, taken(before, reader)?, filter))
}

fn create_items(desk: &mut Desk<'_>, reader: &mut Reader<'_>) -> Result<(Asked, Vec<u8>), StatusCode> {
    let id = reader.u32()?;
    let timestamps = reader.i32()?;
    Stamps::from_wire(timestamps)?;
    let count = reader.array_len(35)?;
    operations(count, desk.mapping.limits.items)?;
    let mut new = Vec::with_capacity(count);
    for _ in 0..count {
        new.push(NewItem::read(reader, timestamps)?);
    }
    end(reader)?;
    let subscription = desk.link.subs.subscriptions.get(&id).ok_or(StatusCode::BadSubscriptionIdInvalid)?;
    let mut out = subscription.upstream.to_le_bytes().to_vec();
    out.extend_from_slice(&timestamps.to_le_bytes());
    let (mut plan, mut spans, mut forwarded) = (Vec::with_capacity(count), Vec::new(), 0);
    let most = desk.front.front_config().limits.subscriptions.max_items;
    for item in &new {
        let room = desk.link.subs.item_count().saturating_add(forwarded) < most;
        let made =
            if room { make(desk, item, &mut spans) } else { Plan::Refused(StatusCode::BadTooManyMonitoredItems) };
        forwarded += usize::from(!matches!(made, Plan::Refused(_)));
        if let Plan::Make(item) = &made {
            // A value may come before the answer that tells the item's id.
            desk.link.subs.handles.insert(item.handle, (id, 0));
        }
        plan.push(made);
    }
    write_len(&mut out, forwarded);
    out.extend_from_slice(&spans);
    Ok((Asked { ids: CREATE_ITEMS, what: What::CreateItems { id }, plan, forwarded }, out))
}

fn make(desk: &mut Desk<'_>, new: &NewItem<'_>, spans: &mut Vec<u8>) -> Plan {
    let scope = desk.scope(&new.node);
    let write = |spans: &mut Vec<u8>, node: &[u8], mode: u32, handle: u32| {
        spans.extend_from_slice(node);
        spans.extend_from_slice(new.rest);
        spans.extend_from_slice(&mode.to_le_bytes());
        spans.extend_from_slice(&handle.to_le_bytes());
        spans.extend_from_slice(new.parameters);
    };
    match desk.pass(Action::Browse, (&new.node, scope), AuditKind::Browse, None) {
        Ok(()) => {}
        Err(Decision::Hidden) if desk.config.hide_timing => {
            let never = desk.never(&new.node);
            write(spans, &never, DISABLED, 0);
            return Plan::Hidden;
        }
        Err(decision) => return Plan::Refused(decision.status()),
    }
    // Events have sources of their own, which nobody here looks at yet.
    if new.attribute == AttributeId::EventNotifier as u32 || !new.filter {
        return Plan::Refused(StatusCode::BadMonitoredItemFilterUnsupported);
    }
    if new.mode > REPORTING {
        return Plan::Refused(StatusCode::BadMonitoringModeInvalid);
    }
    let action = AttributeId::from_u32(new.attribute).map_or(Action::Browse, needed);
    let denied = !desk.rights(scope).contains(action.needed());
    let handle = desk.link.subs.next_handle();
    let node = desk.known_as(&new.node, new.node_bytes).to_vec();
    write(spans, &node, if denied { DISABLED } else { new.mode }, handle);
    Plan::Make(Box::new(Item {
        client_handle: new.client_handle,
        handle,
        upstream: 0,
        node: new.node.clone(),
        scope,
        action,
        mode: new.mode,
        denied,
        denial_waits: denied && new.mode == REPORTING,
        muted: false,
        wanted: Wanted {
            item: [desk.lasting(&new.node, new.node_bytes), new.rest].concat().into(),
            parameters: new.parameters.into(),
            timestamps: new.timestamps,
        },
        place: Place::There,
        lost: false,
        failure: None,
    }))
}

fn modify_items(desk: &Desk<'_>, reader: &mut Reader<'_>) -> Result<(Asked, Vec<u8>), StatusCode> {
    let id = reader.u32()?;
    let timestamps = reader.i32()?;
    Stamps::from_wire(timestamps)?;
    let count = reader.array_len(24)?;
    operations(count, desk.mapping.limits.items)?;
    let mut changes = Vec::with_capacity(count);
    for _ in 0..count {
        changes.push((reader.u32()?, monitoring(reader)?));
    }
    end(reader)?;
    let subscription = desk.link.subs.subscriptions.get(&id).ok_or(StatusCode::BadSubscriptionIdInvalid)?;
    let (mut plan, mut spans, mut forwarded) = (Vec::with_capacity(count), Vec::new(), 0);
    for (number, (client_handle, parameters, filter)) in changes {
        plan.push(match subscription.items.get(&number) {
            None => Plan::Refused(StatusCode::BadMonitoredItemIdInvalid),
            Some(_) if !filter => Plan::Refused(StatusCode::BadMonitoredItemFilterUnsupported),
            Some(item) if item.place != Place::There => Plan::Refused(StatusCode::BadUserAccessDenied),
            Some(item) => {
                forwarded += 1;
                spans.extend_from_slice(&item.upstream.to_le_bytes());
                spans.extend_from_slice(&item.handle.to_le_bytes());
                spans.extend_from_slice(parameters);
                Plan::Modify { item: number, client_handle, parameters: parameters.into() }
            }
        });
    }
    let mut out = subscription.upstream.to_le_bytes().to_vec();
    out.extend_from_slice(&timestamps.to_le_bytes());
    write_len(&mut out, forwarded);
    out.extend_from_slice(&spans);
    Ok((Asked { ids: MODIFY_ITEMS, what: What::ModifyItems { id, timestamps }, plan, forwarded }, out))
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
                self.forget(desk);
                return Progress::Done(Err(told(status)));
            }
        };
        let answered = self.respond(desk, &body, handle);
        Progress::Done(answered.map_err(|status| {
            self.forget(desk);
            desk.misbehaved(status, "the answer to a subscription service does not fit the request")
        }))
    }

    /// Items that were asked for and do not come.
    pub(in crate::guard) fn forget(&mut self, desk: &mut Desk<'_>) {
        for plan in self.plan.drain(..) {
            if let Plan::Make(item) = plan {
                desk.link.subs.handles.remove(&item.handle);
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
                    item.denial_waits =
                        item.denied && mode == REPORTING && (item.denial_waits || item.mode == DISABLED);
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
            let Some(subscription) = subscription.filter(|_| status.is_good()) else {
                desk.link.subs.handles.remove(&item.handle);
                bare(out, if status.is_good() { StatusCode::BadSubscriptionIdInvalid } else { status });
                continue;
            };
            item.upstream = upstream;
            subscription.last_item += 1;
            let number = subscription.last_item;
            desk.link.subs.handles.insert(item.handle, (id, number));
            subscription.items.insert(number, *item);
            out.extend_from_slice(&status.bits().to_le_bytes());
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(reader.rest());
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
            let Plan::Modify { item, client_handle, parameters } = plan else {
                let status = if let Plan::Refused(status) = plan { *status } else { StatusCode::BadInternalError };
                out.extend_from_slice(&status.bits().to_le_bytes());
                out.extend_from_slice(&[0; 15]);
                continue;
            };
            let span = given.next().unwrap_or_default();
            let status = StatusCode::from(Reader::new(span).u32()?);
            let subscription = desk.link.subs.subscriptions.get_mut(&id);
            if let Some(item) = subscription.and_then(|subscription| subscription.items.get_mut(item))
                && status.is_good()
            {
                item.client_handle = *client_handle;
                item.wanted.parameters.clone_from(parameters);
                item.wanted.timestamps = timestamps;
            }
            out.extend_from_slice(span);
        }
        write_no_diagnostics(out);
        Ok(())
    }
}

/// A subscription was made: its id is exchanged for one of the guard's.
fn created(desk: &mut Desk<'_>, order: [u8; ORDER], body: &[u8], out: &mut Vec<u8>) -> Result<(), StatusCode> {
    let mut reader = Reader::new(body);
    let upstream = reader.u32()?;
    let rest = reader.rest();
    let silence = revised(&mut reader)?;
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
        retained: VecDeque::new(),
        ready: VecDeque::new(),
        silence,
        quiet_at: desk.now.mono + silence,
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
    let silence = revised(&mut reader)?;
    end(&reader)?;
    if let Some(subscription) = desk.link.subs.subscriptions.get_mut(&id) {
        (subscription.silence, subscription.order) = (silence, order);
        subscription.quiet_at = desk.now.mono + silence;
    }
    out.extend_from_slice(body);
    Ok(())
}

/// Revised interval, lifetime and keep-alive counts: how long the subscription may be silent, with some time for the way.
pub(super) fn revised(reader: &mut Reader<'_>) -> Result<Duration, StatusCode> {
    let interval = reader.f64()?;
    reader.u32()?;
    let count = reader.u32()?;
    let time = interval * f64::from(count.max(1)) * 1.25 / 1_000.0;
    if !time.is_finite() || time <= 0.0 {
        return Err(StatusCode::BadUnknownResponse);
    }
    Ok(Duration::try_from_secs_f64(time.clamp(0.1, 86_400.0)).unwrap_or(Duration::from_secs(86_400)))
}
