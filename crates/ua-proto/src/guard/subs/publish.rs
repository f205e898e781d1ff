//! Publish: requests wait here and upstream, messages are put together when they leave.

mod intake;
mod rights;

use std::borrow::Cow;
use std::time::Duration;

use access_model::{AuditKind, Mono, Now, Reason, ScopeIndex};
use opcua_types::{NodeId, ObjectId, StatusCode};

use super::late::Late;
use super::message::{Entry, Incoming, Message, Told, valueless, write_keep_alive};
use super::restore::Step;
use super::{Item, Subscription, Subscriptions, Waiting};
use crate::client::{RawRequest, Request};
use crate::guard::Guard;
use crate::guard::attributes::adapt;
use crate::guard::change;
use crate::guard::desk::deny;
use crate::guard::link::{Link, Stage};
use crate::guard::walk::end;
use crate::server::front::{
    Reader, SessionKey, Taken, Told as Nothing, ticks, write_header, write_len, write_no_diagnostics,
};

pub(super) use rights::set_mode;

const PUBLISH: (ObjectId, ObjectId) =
    (ObjectId::PublishRequest_Encoding_DefaultBinary, ObjectId::PublishResponse_Encoding_DefaultBinary);
/// Acknowledgements that one Publish request may carry.
const MAX_ACKNOWLEDGEMENTS: usize = 1_000;
/// A server answers Publish when it has something to tell, or to keep alive.
const PATIENCE: Duration = Duration::from_secs(24 * 3_600);

/// Requests upstream that no request of the client waits for.
pub(in crate::guard) enum Own {
    /// With how many subscriptions had been made when it was sent.
    Publish(u64),
    /// Items were enabled again.
    Enabled { subscription: u32, items: Vec<u32> },
    /// Items were disabled.
    Disabled,
    /// Something is restored.
    Restore(Step),
    /// Its client waits no longer.
    Late(Late),
}

impl Guard {
    /// Publish: the request waits here for a message.
    pub(in crate::guard) fn publish(&mut self, key: SessionKey, link: &mut Link, taken: &Taken, now: Now) {
        let ticket = taken.ticket;
        let results = match acknowledge(&mut link.subs, &taken.body) {
            Ok(results) => results,
            Err(status) => return self.front.refuse(ticket, status, now),
        };
        if link.subs.is_empty() && link.subs.farewells.is_empty() {
            return self.front.refuse(ticket, StatusCode::BadNoSubscription, now);
        }
        let most = self.front.front_config().limits.subscriptions.max_publish_requests.max(1);
        if link.subs.waiting.len() >= most
            && let Some(oldest) = link.subs.waiting.pop_front()
        {
            self.front.refuse(oldest.ticket, StatusCode::BadTooManyPublishRequests, now);
        }
        link.subs.waiting.push_back(Waiting { ticket, results });
        link.subs.most_outstanding = None;
        self.pump_publish(key, link, now);
    }

    /// Sends what there is to tell, and keeps as many Publish requests upstream as wait here.
    pub(in crate::guard) fn pump_publish(&mut self, key: SessionKey, link: &mut Link, now: Now) {
        while !link.subs.waiting.is_empty() {
            if !self.tell_one(key, &mut link.subs, now) {
                break;
            }
        }
        if link.stage != Stage::Ready || link.subs.is_empty() {
            return;
        }
        let wanted = link.subs.waiting.len().min(link.subs.most_outstanding.unwrap_or(usize::MAX));
        while link.subs.outstanding < wanted {
            let acknowledged = std::mem::take(&mut link.subs.acknowledgements);
            let mut body = Vec::new();
            write_len(&mut body, acknowledged.len());
            for (subscription, sequence) in &acknowledged {
                body.extend_from_slice(&subscription.to_le_bytes());
                body.extend_from_slice(&sequence.to_le_bytes());
            }
            let request = Request::Raw(RawRequest::new(PUBLISH.0, PUBLISH.1, body));
            let sent = link.request(request, Some(PATIENCE), now).ok();
            let Some(call) = sent else {
                link.subs.acknowledgements = acknowledged;
                return;
            };
            link.own.insert(call, Own::Publish(link.subs.made));
            link.subs.outstanding += 1;
        }
    }

    /// Answers one Publish request, if a subscription has something for it.
    fn tell_one(&mut self, key: SessionKey, subs: &mut Subscriptions, now: Now) -> bool {
        if let Some((id, mut message)) = subs.farewells.pop_front() {
            let Some(waiting) = subs.waiting.pop_front() else { return false };
            message.time = ticks(now.unix);
            self.send_message(key, &waiting, (id, Vec::new(), false), |out| message.write(out), now);
            return true;
        }
        let found = subs.subscriptions.iter().find(|(_, subscription)| subscription.has_news());
        let Some(id) = found.map(|(id, _)| *id) else { return false };
        let Some(subscription) = subs.subscriptions.get_mut(&id) else { return false };
        let Some(message) = self.compose(key, subscription, now) else { return true };
        let Some(waiting) = subs.waiting.pop_front() else { return false };
        subscription.heard(now.mono);
        let most = self.front.front_config().limits.subscriptions.max_retained_messages.max(1);
        let more = subscription.has_news();
        subscription.retained.push_back(message);
        while subscription.retained.len() > most {
            subscription.retained.pop_front();
        }
        let available = subscription.retained.iter().map(|message| message.sequence).collect();
        let Some(message) = subscription.retained.back() else { return false };
        self.send_message(key, &waiting, (id, available, more), |out| message.write(out), now);
        true
    }

    /// The next message of a subscription: what the rights of this moment leave of the next one that waits, and what
    /// items have to say about their right being gone. `None` when nothing is left.
    fn compose(&mut self, key: SessionKey, subscription: &mut Subscription, now: Now) -> Option<Message> {
        let mut entries = Vec::new();
        let mut time = ticks(now.unix);
        if let Some(message) = subscription.ready.pop_front() {
            time = message.time;
            let Told::Values(values) = message.told else { return None };
            for entry in values {
                let Some(item) = subscription.items.get_mut(&entry.item) else { continue };
                if item.denied || item.muted {
                    continue;
                }
                let client_handle = item.client_handle;
                match &entry.about {
                    // Without a word: a record would be made for each event that others may see.
                    Some(about) if !self.may_receive(key, item, about, now) => {}
                    Some(about) => {
                        if self.delivers(key, item.action, (&item.node, item.scope), now) {
                            self.received(key, about, now);
                            entries.push(Entry { client_handle, ..entry });
                        }
                    }
                    None if self.delivers(key, item.action, (&item.node, item.scope), now) => {
                        let rights = self.front.rights_of(key, item.scope, now);
                        let shaped = adapt(self.fair_face(), &item.node, item.attribute, rights, &entry.value);
                        let value = shaped.map_or_else(|status| valueless(status, now), Cow::into_owned);
                        entries.push(Entry { client_handle, value, ..entry });
                    }
                    None => item.deny(),
                }
            }
        }
        for (number, item) in &mut subscription.items {
            let denial = std::mem::take(&mut item.denial_waits).then_some(StatusCode::BadUserAccessDenied);
            let failure = item.failure.take().filter(|_| !item.denied);
            if let Some(status) = denial.or(failure) {
                let (client_handle, value) = (item.client_handle, valueless(status, now));
                entries.push(Entry { item: *number, client_handle, denial: true, value, about: None });
            }
        }
        if entries.is_empty() {
            return None;
        }
        let sequence = subscription.sequence;
        subscription.sequence = sequence.checked_add(1).unwrap_or(1);
        Some(Message { sequence, time, told: Told::Values(entries) })
    }

    fn send_message(
        &mut self,
        key: SessionKey,
        waiting: &Waiting,
        (id, available, more): (u32, Vec<u32>, bool),
        message: impl FnOnce(&mut Vec<u8>),
        now: Now,
    ) {
        let mut out = Vec::new();
        write_header(&mut out, PUBLISH.1, now, waiting.ticket.handle, StatusCode::Good);
        out.extend_from_slice(&id.to_le_bytes());
        write_len(&mut out, available.len());
        available.iter().for_each(|sequence| out.extend_from_slice(&sequence.to_le_bytes()));
        out.push(u8::from(more));
        message(&mut out);
        match &waiting.results {
            Some(results) => {
                write_len(&mut out, results.len());
                results.iter().for_each(|status| out.extend_from_slice(&status.bits().to_le_bytes()));
            }
            None => out.extend_from_slice(&[0xff; 4]),
        }
        write_no_diagnostics(&mut out);
        self.answer(key, waiting.ticket, Ok(out), now);
    }

    /// Answers one Publish request with a message that says nothing.
    fn keep_alive(&mut self, key: SessionKey, subs: &mut Subscriptions, id: u32, now: Now) {
        let Some(subscription) = subs.subscriptions.get_mut(&id) else { return };
        let Some(waiting) = subs.waiting.pop_front() else { return };
        subscription.heard(now.mono);
        let available = subscription.retained.iter().map(|message| message.sequence).collect();
        let sequence = subscription.sequence;
        self.send_message(key, &waiting, (id, available, false), |out| write_keep_alive(sequence, now, out), now);
    }

    /// Subscriptions whose messages were all held back, or whose server is away, still say that they are there.
    pub(in crate::guard) fn break_silence(&mut self, key: SessionKey, link: &mut Link, now: Now) {
        let quiet = link.subs.subscriptions.iter().filter(|(_, subscription)| subscription.quiet_at <= now.mono);
        for id in quiet.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.keep_alive(key, &mut link.subs, id, now);
        }
    }

    /// A request of the guard's own was answered.
    pub(in crate::guard) fn own_answered(
        &mut self,
        key: SessionKey,
        link: &mut Link,
        own: Own,
        answer: Result<Vec<u8>, StatusCode>,
        now: Now,
    ) {
        match own {
            Own::Publish(made) => self.published(key, link, answer, made, now),
            Own::Restore(step) => self.step_answered(key, link, step, answer, now),
            // The connection is gone: it is said again on the next.
            Own::Enabled { .. } if !link.is_active() => {}
            Own::Enabled { subscription, items } => {
                if let Some(subscription) = link.subs.subscriptions.get_mut(&subscription) {
                    for number in items {
                        if let Some(item) = subscription.items.get_mut(&number) {
                            item.muted = false;
                        }
                    }
                }
            }
            Own::Disabled => {}
            Own::Late(Late::Change(number)) => {
                let heard = answer.map_or_else(change::proves_nothing_done, |_| true);
                self.changed_late(key, link, (number, heard), now);
            }
            Own::Late(late) => {
                if let Ok(body) = answer {
                    self.came_late(link, late, &body, now);
                }
            }
        }
        self.pump_publish(key, link, now);
    }

    fn published(
        &mut self,
        key: SessionKey,
        link: &mut Link,
        answer: Result<Vec<u8>, StatusCode>,
        made: u64,
        now: Now,
    ) {
        let subs = &mut link.subs;
        subs.outstanding = subs.outstanding.saturating_sub(1);
        let body = match answer {
            Ok(body) => body,
            Err(StatusCode::BadNoSubscription) if !subs.is_empty() => {
                // What is on its way to another session is not there any more either, and not gone. Nor does the answer say
                // anything about what was made after the request was sent: servers answer in any order.
                let stays = |upstream| !self.links.values().any(|link| link.moves(upstream));
                let gone = |one: &Subscription| one.made <= made && stays(one.upstream);
                let all = subs.subscriptions.iter().filter(|(_, subscription)| gone(subscription));
                for id in all.map(|(id, _)| *id).collect::<Vec<_>>() {
                    subs.bid_farewell(id, StatusCode::BadTimeout);
                }
                return;
            }
            Err(StatusCode::BadTimeout) => return,
            Err(_) => {
                // As many as it takes, until the client asks again.
                subs.most_outstanding = Some(subs.outstanding);
                return;
            }
        };
        self.message_came(key, link, &body, now);
    }

    fn misfit(&mut self, key: SessionKey, text: &str, now: Now) {
        let nowhere = (&NodeId::null(), ScopeIndex::NOWHERE);
        let told = (text, || Nothing::Nothing);
        deny(&mut self.front, key, AuditKind::Contact, Reason::ProtocolMisbehavior, nowhere, told, now);
    }
}

fn acknowledge(subs: &mut Subscriptions, body: &[u8]) -> Result<Option<Vec<StatusCode>>, StatusCode> {
    let mut reader = Reader::new(body);
    let null = body.starts_with(&[0xff; 4]);
    let count = reader.array_len(8)?;
    if count > MAX_ACKNOWLEDGEMENTS {
        return Err(StatusCode::BadTooManyOperations);
    }
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        all.push((reader.u32()?, reader.u32()?));
    }
    end(&reader)?;
    let one = |(id, sequence): (u32, u32)| {
        let Some(subscription) = subs.subscriptions.get_mut(&id) else { return StatusCode::BadSubscriptionIdInvalid };
        let before = subscription.retained.len();
        subscription.retained.retain(|message| message.sequence != sequence);
        if subscription.retained.len() < before { StatusCode::Good } else { StatusCode::BadSequenceNumberUnknown }
    };
    let results = all.into_iter().map(one).collect();
    Ok((!null).then_some(results))
}

impl Subscription {
    fn has_news(&self) -> bool {
        let tells = |item: &Item| item.denial_waits || item.failure.is_some();
        self.publishing() && (!self.ready.is_empty() || self.items.values().any(tells))
    }

    /// The client hears of it now.
    fn heard(&mut self, now: Mono) {
        self.quiet_at = now + self.silence;
    }
}

impl Subscriptions {
    /// The next Publish tells the server that this message came.
    pub(super) fn acknowledge_upstream(&mut self, message: &Incoming<'_>) {
        self.acknowledgements.push((message.subscription, message.sequence));
    }

    /// The server has ended a subscription: the client hears of it once.
    pub(super) fn bid_farewell(&mut self, id: u32, status: StatusCode) {
        if let Some(subscription) = self.subscriptions.get(&id) {
            let message = Message { sequence: subscription.sequence, time: 0, told: Told::Status(status) };
            self.farewells.push_back((id, message));
            self.remove(id);
        }
    }
}
