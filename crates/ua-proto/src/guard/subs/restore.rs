//! Subscriptions after the connection or the session upstream was lost. The client keeps its session, its ids and its
//! numbers; upstream each subscription is gone on with, taken over, or made again, one request at a time.
//!
//! - The session is still there (it was moved to a new channel): messages that were sent meanwhile are had again with
//!   Republish, from the first that is missing.
//! - The session is another, the server the same run: TransferSubscriptions, then Republish.
//! - Else: CreateSubscription and CreateMonitoredItems as the client last asked for them. The first value of each item
//!   with a queue then carries the Overflow bit (OPC 10000-4 §7.39.1): values before it may be missing.
//!
//! Rights come first: an item whose right is gone is not made again before it is back, each that is made takes a permit,
//! and messages had again lose the values of items that were or are denied. What the server will not make again is told
//! by its status, a subscription by a StatusChange.

use std::collections::BTreeMap;

use access_model::{AuditKind, Now};
use opcua_types::{ObjectId, StatusCode};

use super::DISABLED;
use super::message::Incoming;
use super::publish::{Own, set_mode};
use super::services::{item_result, write_numbers};
use super::standing::{Place, Standing};
use crate::client::{RawRequest, Request, RequestError};
use crate::guard::Guard;
use crate::guard::desk::{Decision, check, not_sent, told};
use crate::guard::link::{Link, Stage};
use crate::guard::walk::{end, results};
use crate::server::front::{Reader, SessionKey, write_len};

type Ids = (ObjectId, ObjectId);

const TRANSFER: Ids = (
    ObjectId::TransferSubscriptionsRequest_Encoding_DefaultBinary,
    ObjectId::TransferSubscriptionsResponse_Encoding_DefaultBinary,
);
const REPUBLISH: Ids =
    (ObjectId::RepublishRequest_Encoding_DefaultBinary, ObjectId::RepublishResponse_Encoding_DefaultBinary);
const CREATE: Ids = (
    ObjectId::CreateSubscriptionRequest_Encoding_DefaultBinary,
    ObjectId::CreateSubscriptionResponse_Encoding_DefaultBinary,
);
const CREATE_ITEMS: Ids = (
    ObjectId::CreateMonitoredItemsRequest_Encoding_DefaultBinary,
    ObjectId::CreateMonitoredItemsResponse_Encoding_DefaultBinary,
);
const DELETE: Ids = (
    ObjectId::DeleteSubscriptionsRequest_Encoding_DefaultBinary,
    ObjectId::DeleteSubscriptionsResponse_Encoding_DefaultBinary,
);
const DELETE_ITEMS: Ids = (
    ObjectId::DeleteMonitoredItemsRequest_Encoding_DefaultBinary,
    ObjectId::DeleteMonitoredItemsResponse_Encoding_DefaultBinary,
);
/// Items made again with one request, if the server takes as many.
pub(super) const AT_ONCE: usize = 1_000;
/// Messages had again for one subscription; a server that has more to tell than this never ends.
const MAX_MESSAGES: u32 = 10_000;

/// What the guard asked for to restore a subscription.
pub(in crate::guard) enum Step {
    Transfer { ids: Vec<u32> },
    Republish { id: u32, sequence: u32, round: u32 },
    Create { id: u32 },
    Items { id: u32, items: Vec<u32> },
    Links { id: u32, links: Vec<(u32, u32)> },
    Discard,
}

impl Guard {
    /// The session upstream can be used: subscriptions first. `take_over`: it is another session of the same run of the
    /// server, which may have kept them.
    pub(in crate::guard) fn restore(&mut self, key: SessionKey, link: &mut Link, take_over: bool, now: Now) {
        link.stage = Stage::Restoring;
        if !take_over {
            return self.restore_next(key, link, now);
        }
        let (ids, upstream): (Vec<u32>, Vec<u32>) = link.subs.interrupted().unzip();
        if ids.is_empty() {
            return self.restore_next(key, link, now);
        }
        let mut body = Vec::new();
        write_numbers(&mut body, &upstream);
        // The values of now are not wanted: those that are missing are had again.
        body.push(0);
        self.ask_own(link, TRANSFER, body, Step::Transfer { ids }, now);
    }

    /// Goes on with the first subscription that is not as it was.
    fn restore_next(&mut self, key: SessionKey, link: &mut Link, now: Now) {
        loop {
            if !self.is_bound(link) {
                return self.compare(key, link, now);
            }
            let mut all = link.subs.subscriptions.iter();
            let next = all.find(|(_, subscription)| subscription.standing != Standing::Live);
            let next = next.map(|(id, subscription)| (*id, subscription.standing, subscription.order));
            let Some((id, standing, order)) = next else { return self.ready(key, link, now) };
            match standing {
                Standing::Interrupted => return self.ask_again(link, id, 0, now),
                Standing::Gone => return self.ask_own(link, CREATE, order.to_vec(), Step::Create { id }, now),
                Standing::Bare if self.make_items(key, link, id, now) || self.make_links(link, id, now) => return,
                Standing::Bare | Standing::Live => link.subs.settle(id),
            }
        }
    }

    /// Sends a request of the guard's own. One that cannot be sent ends the connection; the next begins anew.
    pub(super) fn ask_own(&mut self, link: &mut Link, ids: Ids, body: Vec<u8>, step: Step, now: Now) {
        match link.request(Request::Raw(RawRequest::new(ids.0, ids.1, body)), None, now) {
            Ok(call) => {
                link.own.insert(call, Own::Restore(step));
            }
            Err(RequestError::NotActive) => {}
            Err(error) => self.hang_up(link, not_sent(error), now),
        }
    }

    /// Asks for the first message that is missing.
    fn ask_again(&mut self, link: &mut Link, id: u32, round: u32, now: Now) {
        let Some(subscription) = link.subs.subscriptions.get(&id) else { return };
        let sequence = subscription.expected.unwrap_or(1);
        let body = [subscription.upstream.to_le_bytes(), sequence.to_le_bytes()].concat();
        self.ask_own(link, REPUBLISH, body, Step::Republish { id, sequence, round }, now);
    }

    /// A step was answered.
    pub(in crate::guard) fn step_answered(
        &mut self,
        key: SessionKey,
        link: &mut Link,
        step: Step,
        answer: Result<Vec<u8>, StatusCode>,
        now: Now,
    ) {
        if !link.is_active() {
            // The connection went away over it; the next begins anew.
            if let Step::Links { id, links } = step
                && let Some(subscription) = link.subs.subscriptions.get_mut(&id)
            {
                subscription.links.not_made(&links);
            }
            return;
        }
        match step {
            Step::Discard => return,
            Step::Transfer { ids } => link.subs.transferred(&ids, answer.as_deref().ok()),
            Step::Republish { id, sequence, round } => {
                let answer = answer.as_deref().map_err(|status| *status);
                let more = self.had_again(key, link, (id, sequence), answer, now);
                if more && link.subs.subscriptions.contains_key(&id) {
                    if round < MAX_MESSAGES {
                        return self.ask_again(link, id, round + 1, now);
                    }
                    link.subs.settle(id);
                }
                self.modes_again(link, id, now);
            }
            Step::Create { id } => {
                if let Err(status) = answer.and_then(|body| link.subs.made_again(id, &body)) {
                    link.subs.bid_farewell(id, told(status));
                }
            }
            Step::Items { id, items } => self.items_made_again(link, id, &items, answer, now),
            // A server that will not link them again is not asked for ever.
            Step::Links { .. } => {}
        }
        match link.stage {
            Stage::Restoring => self.restore_next(key, link, now),
            _ => self.refill(key, link, now),
        }
    }

    /// Takes a message had again; `false` when there are no more.
    fn had_again(
        &mut self,
        key: SessionKey,
        link: &mut Link,
        (id, sequence): (u32, u32),
        answer: Result<&[u8], StatusCode>,
        now: Now,
    ) -> bool {
        let Some(subscription) = link.subs.subscriptions.get_mut(&id) else { return false };
        let upstream = subscription.upstream;
        let message = answer.and_then(|body| {
            let mut reader = Reader::new(body);
            let message = Incoming::message(&mut reader, upstream)?;
            end(&reader)?;
            let fits = message.numbered && message.sequence == sequence;
            if fits { Ok(message) } else { Err(StatusCode::BadUnknownResponse) }
        });
        match message {
            Ok(message) => {
                link.subs.acknowledge_upstream(&message);
                self.take_in(key, &mut link.subs, id, message, now);
                return true;
            }
            Err(StatusCode::BadMessageNotAvailable) => subscription.standing = Standing::Live,
            Err(StatusCode::BadSubscriptionIdInvalid | StatusCode::BadNoSubscription) => subscription.vanish(),
            Err(_) => {
                // The server does not keep messages: what is missing stays so.
                subscription.standing = Standing::Live;
                subscription.lose();
            }
        }
        false
    }

    /// Items whose right went or came while nothing could be said upstream.
    fn modes_again(&mut self, link: &mut Link, id: u32, now: Now) {
        let Some(subscription) = link.subs.subscriptions.get(&id) else { return };
        if subscription.standing != Standing::Live {
            return;
        }
        let mut modes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (number, item) in subscription.items.iter().filter(|(_, item)| item.place == Place::There) {
            if item.denied {
                modes.entry(DISABLED).or_default().push(*number);
            } else if item.muted {
                modes.entry(item.mode).or_default().push(*number);
            }
        }
        for (mode, items) in modes {
            set_mode(link, id, mode, items, now);
        }
    }

    /// Makes items again whose right allows it; `false` when there is none.
    fn make_items(&mut self, key: SessionKey, link: &mut Link, id: u32, now: Now) -> bool {
        let most = match self.mapping.as_ref().map_or(0, |mapping| mapping.limits.items) {
            0 => AT_ONCE,
            most => AT_ONCE.min(most as usize),
        };
        let Some(subscription) = link.subs.subscriptions.get_mut(&id) else { return false };
        let (mut timestamps, mut items, mut spans) = (None, Vec::new(), Vec::new());
        for (number, item) in &mut subscription.items {
            let wanted = *timestamps.get_or_insert(item.wanted.timestamps);
            if items.len() >= most || item.place != Place::Missing || item.denied || item.wanted.timestamps != wanted {
                continue;
            }
            let node = (&item.node, item.scope);
            match check(&mut self.front, key, item.action, node, AuditKind::Notify, None, now) {
                Decision::Pass(permit) => drop(permit.map(pep::Permit::spend)),
                Decision::Denied(_) | Decision::Hidden => {
                    item.deny();
                    continue;
                }
            }
            item.place = Place::Asked;
            items.push(*number);
            spans.extend_from_slice(&item.wanted.item);
            spans.extend_from_slice(&item.mode.to_le_bytes());
            spans.extend_from_slice(&item.handle.to_le_bytes());
            spans.extend_from_slice(&item.wanted.parameters);
        }
        if items.is_empty() {
            return false;
        }
        let mut body = subscription.upstream.to_le_bytes().to_vec();
        body.extend_from_slice(&timestamps.unwrap_or_default().to_le_bytes());
        write_len(&mut body, items.len());
        body.extend_from_slice(&spans);
        self.ask_own(link, CREATE_ITEMS, body, Step::Items { id, items }, now);
        true
    }

    fn items_made_again(
        &mut self,
        link: &mut Link,
        id: u32,
        items: &[u32],
        answer: Result<Vec<u8>, StatusCode>,
        now: Now,
    ) {
        let body = answer.as_deref().map_err(|status| *status);
        let made = body.and_then(|body| results(body, items.len(), |reader| item_result(reader, true)));
        let Some(subscription) = link.subs.subscriptions.get_mut(&id) else { return };
        let (mut unwanted, mut modes): (_, BTreeMap<u32, Vec<u32>>) = (Vec::new(), BTreeMap::new());
        for (place, number) in items.iter().enumerate() {
            let result = made.as_ref().map_err(|status| *status).and_then(|spans| {
                let mut reader = Reader::new(spans.get(place).copied().unwrap_or_default());
                let (status, upstream) = (StatusCode::from(reader.u32()?), reader.u32()?);
                if status.is_bad() { Err(status) } else { Ok(upstream) }
            });
            match (subscription.items.get_mut(number), result) {
                (Some(item), Ok(upstream)) => {
                    (item.place, item.upstream, item.lost) = (Place::There, upstream, item.wanted.queued());
                    subscription.links.made_again(*number);
                    if item.denied {
                        modes.entry(DISABLED).or_default().push(*number);
                    } else if item.muted {
                        modes.entry(item.mode).or_default().push(*number);
                    }
                }
                (Some(item), Err(status)) => {
                    item.place = Place::Refused;
                    item.failure = Some(told(status));
                }
                (None, Ok(upstream)) => unwanted.push(upstream),
                (None, Err(_)) => {}
            }
        }
        let upstream = subscription.upstream;
        for (mode, items) in modes {
            set_mode(link, id, mode, items, now);
        }
        if !unwanted.is_empty() {
            let mut body = upstream.to_le_bytes().to_vec();
            write_numbers(&mut body, &unwanted);
            self.ask_own(link, DELETE_ITEMS, body, Step::Discard, now);
        }
    }

    /// Items that were not made again because their right was gone, and it came back.
    pub(in crate::guard) fn refill(&mut self, key: SessionKey, link: &mut Link, now: Now) {
        if link.stage != Stage::Ready {
            return;
        }
        let wanting = link.subs.subscriptions.iter().filter(|(_, subscription)| {
            subscription.items.values().any(|item| item.place == Place::Missing && !item.denied)
        });
        for id in wanting.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.make_items(key, link, id, now);
        }
        for id in link.subs.linkable() {
            self.make_links(link, id, now);
        }
    }

    /// A message came of a subscription that no client has, left over from a request whose answer was lost.
    pub(super) fn discard(&mut self, link: &mut Link, upstream: u32, now: Now) {
        let mut body = Vec::new();
        write_numbers(&mut body, &[upstream]);
        self.ask_own(link, DELETE, body, Step::Discard, now);
    }
}
