//! The services of subscriptions and monitored items (OPC 10000-4 §5.13 and §5.14) but Publish and Republish. Ids are the
//! guard's own on the client's side and the server's own upstream.

mod answers;
mod items;

use std::sync::Arc;

use opcua_types::{ObjectId, StatusCode};

use super::late::Late;
use super::standing::Place;
use super::{Item, ORDER, PUBLISHED, REPORTING, Subscription, Subscriptions};
use crate::event::EventFilter;
use crate::guard::batch::items as items_of;
use crate::guard::desk::{Desk, Progress};
use crate::guard::walk::{boolean, end};
use crate::server::front::{Malformed, Reader, Service, operations, write_len};

pub(super) use answers::revised;
pub(super) use items::item_result;
use items::{create_items, modify_items};
pub(in crate::guard) use items::{nodes, percent};

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
