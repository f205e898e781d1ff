//! Publish and Republish, and what happens to items when rights end or come back.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use access_model::{Action, AuditKind, Mono, Now, Reason, ScopeIndex};
use opcua_types::{NodeId, ObjectId, StatusCode};

use super::events::{About, taken_apart};
use super::late::Late;
use super::message::{Entry, Incoming, Message, Told, overflowed, valueless, write_keep_alive};
use super::restore::Step;
use super::standing::{Place, Standing};
use super::{DISABLED, Item, Subscription, Subscriptions, Waiting};
use crate::client::{RawRequest, Request};
use crate::guard::Guard;
use crate::guard::attributes::adapt;
use crate::guard::desk::{Decision, against, check, deny};
use crate::guard::link::{Link, Stage};
use crate::guard::links::Owner;
use crate::guard::walk::end;
use crate::server::front::{
    Counted, Reader, SessionKey, Sighted, Taken, Told as Nothing, ticks, write_header, write_len, write_no_diagnostics,
};

const PUBLISH: (ObjectId, ObjectId) =
    (ObjectId::PublishRequest_Encoding_DefaultBinary, ObjectId::PublishResponse_Encoding_DefaultBinary);
const MODE: (ObjectId, ObjectId) = (
    ObjectId::SetMonitoringModeRequest_Encoding_DefaultBinary,
    ObjectId::SetMonitoringModeResponse_Encoding_DefaultBinary,
);
const REPUBLISH: ObjectId = ObjectId::RepublishResponse_Encoding_DefaultBinary;
/// Acknowledgements that one Publish request may carry.
const MAX_ACKNOWLEDGEMENTS: usize = 1_000;
/// Messages that wait for a session that does not ask for them.
const MAX_READY: usize = 64;
/// A server answers Publish when it has something to tell, or to keep alive.
const PATIENCE: Duration = Duration::from_secs(24 * 3_600);

/// Requests upstream that no request of the client waits for.
pub(in crate::guard) enum Own {
    Publish,
    /// Items were enabled again.
    Enabled {
        subscription: u32,
        items: Vec<u32>,
    },
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
            link.own.insert(call, Own::Publish);
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
                        let shaped = adapt(&self.front, &item.node, item.attribute, rights, &entry.value);
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
            Own::Publish => self.published(key, link, answer, now),
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
            Own::Late(late) => {
                if let Ok(body) = answer {
                    self.came_late(link, late, &body, now);
                }
            }
        }
        self.pump_publish(key, link, now);
    }

    fn published(&mut self, key: SessionKey, link: &mut Link, answer: Result<Vec<u8>, StatusCode>, now: Now) {
        let subs = &mut link.subs;
        subs.outstanding = subs.outstanding.saturating_sub(1);
        let body = match answer {
            Ok(body) => body,
            Err(StatusCode::BadNoSubscription) if !subs.is_empty() => {
                for id in subs.subscriptions.keys().copied().collect::<Vec<_>>() {
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

    /// A message came that this session did not ask for: another one's request to the session that they share was answered
    /// with it. It waits here, held to the rights of every moment from now on, and not where rights are unknown.
    pub(in crate::guard) fn message_came_unasked(&mut self, key: SessionKey, link: &mut Link, body: &[u8], now: Now) {
        self.message_came(key, link, body, now);
        for subscription in link.subs.subscriptions.values_mut() {
            while subscription.ready.len() > MAX_READY {
                subscription.ready.pop_front();
                subscription.lose();
            }
        }
    }

    fn message_came(&mut self, key: SessionKey, link: &mut Link, body: &[u8], now: Now) {
        let subs = &mut link.subs;
        let Ok(incoming) = Incoming::read(body) else {
            return self.misfit(key, "the answer to Publish cannot be read", now);
        };
        let Some(id) = subs.by_upstream(incoming.subscription) else {
            if self.elsewhere(link, &incoming, now) {
                return;
            }
            // It may be on the way to the client that asked for it.
            let makers = link.makes_subscription(u64::MAX).map(|number| (Owner::Session(key), number));
            let mut strangers = std::mem::take(&mut link.subs.strangers);
            let still = |_, number| link.makes_subscription(number).is_some();
            let unclaimed = strangers.unclaimed(incoming.subscription, makers.into_iter().collect(), still);
            link.subs.strangers = strangers;
            if unclaimed {
                self.discard(link, incoming.subscription, now);
            }
            return;
        };
        if !incoming.numbered {
            let Some(subscription) = subs.subscriptions.get_mut(&id) else { return };
            // When nothing was said is the guard's own to tell: keep-alives of the server would show when something was
            // said that the client may not know.
            return subscription.arrived(incoming.sequence, false);
        }
        subs.acknowledge_upstream(&incoming);
        self.take_in(key, &mut link.subs, id, incoming, now);
    }

    /// A message that was sent before its subscription moved from or to another session.
    fn elsewhere(&mut self, link: &mut Link, incoming: &Incoming<'_>, now: Now) -> bool {
        let mut others = self.links.iter();
        let other = others.find(|(_, link)| link.subs.by_upstream(incoming.subscription).is_some());
        let Some(owner @ Owner::Session(key)) = other.map(|(owner, _)| *owner) else { return false };
        let Some(mut holder) = self.links.remove(&owner) else { return false };
        if incoming.numbered
            && let Some(id) = holder.subs.by_upstream(incoming.subscription)
        {
            link.subs.acknowledge_upstream(incoming);
            self.take_in(key, &mut holder.subs, id, incoming.clone(), now);
        }
        self.pump_publish(key, &mut holder, now);
        self.put_back(owner, holder, now);
        true
    }

    /// Takes a message of a subscription, sent for the first time or once more.
    pub(super) fn take_in(
        &mut self,
        key: SessionKey,
        subs: &mut Subscriptions,
        id: u32,
        incoming: Incoming<'_>,
        now: Now,
    ) {
        let Some(subscription) = subs.subscriptions.get_mut(&id) else { return };
        subscription.arrived(incoming.sequence, true);
        let mut entries = Vec::new();
        let (mut unknown, mut unnamed) = (false, false);
        for (handle, value) in incoming.values {
            let Some(number) = subscription.handles.get(&handle).copied() else {
                // An item that was deleted while its value was on the way, or one that never was.
                unknown |= !subscription.issued(handle);
                continue;
            };
            let mut value = value.to_vec();
            if let Some(item) = subscription.items.get_mut(&number) {
                if item.denied || item.muted {
                    continue;
                }
                if std::mem::take(&mut item.lost) {
                    value = overflowed(&value).unwrap_or(value);
                }
            }
            entries.push(Entry { item: number, client_handle: 0, denial: false, value, about: None });
        }
        for (handle, fields) in incoming.events {
            let Some(number) = subscription.handles.get(&handle).copied() else { continue };
            let Some(item) = subscription.items.get(&number).filter(|item| !item.denied && !item.muted) else {
                continue;
            };
            match item.fields.and_then(|selected| taken_apart(&fields, selected)) {
                Some((value, about)) => {
                    let about = Some(about);
                    entries.push(Entry { item: number, client_handle: 0, denial: false, value, about });
                }
                None => unnamed = true,
            }
        }
        if !entries.is_empty() {
            let told = Told::Values(entries);
            subscription.ready.push_back(Message { sequence: 0, time: incoming.time, told });
        }
        if let Some(status) = incoming.status {
            subs.bid_farewell(id, status);
        }
        if unknown {
            self.misfit(key, "a value came for an item that nobody asked for", now);
        }
        if unnamed {
            self.misfit(key, "an event came without its source or its type", now);
        }
    }

    /// Asks and counts at the moment of delivery.
    fn delivers(&mut self, key: SessionKey, action: Action, node: (&NodeId, ScopeIndex), now: Now) -> bool {
        match check(&mut self.front, key, action, node, AuditKind::Notify, Some(Counted::Notify), now) {
            Decision::Pass(permit) => {
                let _accounted = permit.map(pep::Permit::spend);
                true
            }
            Decision::Denied(_) | Decision::Hidden => false,
        }
    }

    /// ReceiveEvents on the node of the event's type and on its source (OPC 10000-3 §8.55), and on the notifier that was
    /// subscribed to.
    fn may_receive(&self, key: SessionKey, item: &Item, about: &About, now: Now) -> bool {
        if cfg!(feature = "danger-permit-always") {
            return true;
        }
        let Some(mapping) = &self.mapping else { return false };
        let [source, kind] = about.scopes(&mapping.table, self.front.audit_scope());
        let own = about.is_own();
        // What the guard tells of itself is nobody's to learn, also while it observes.
        let held = |scope| match own {
            true => self.front.granted_to(key, scope, now),
            false => self.front.rights_of(key, scope, now),
        };
        [item.scope, source, kind].into_iter().all(|scope| held(scope).contains(Action::ReceiveEvents.needed()))
    }

    /// While the gate observes: whoever is to go on receiving such events needs the right on source and type as well.
    fn received(&mut self, key: SessionKey, about: &About, now: Now) {
        let Some(mapping) = self.mapping.clone().filter(|_| self.front.observes(key, now)) else { return };
        let [source, kind] = about.scopes(&mapping.table, self.front.audit_scope());
        for (node, scope) in [(Some(about.source()), source), (about.kind(), kind)] {
            let Some(node) = node.filter(|node| !node.is_null()) else { continue };
            let against = against(self.front.granted_to(key, scope, now), Action::ReceiveEvents);
            let sight = Sighted { kind: AuditKind::Notify, action: Action::ReceiveEvents, scope, against };
            self.front.observe(key, sight, node, now);
        }
    }

    fn misfit(&mut self, key: SessionKey, text: &str, now: Now) {
        let nowhere = (&NodeId::null(), ScopeIndex::NOWHERE);
        let told = (text, || Nothing::Nothing);
        deny(&mut self.front, key, AuditKind::Contact, Reason::ProtocolMisbehavior, nowhere, told, now);
    }

    /// Compares what a session monitors with what it may; `over` when the grant ended, so that all is silent.
    pub(in crate::guard) fn recheck(&mut self, key: SessionKey, link: &mut Link, over: bool, now: Now) {
        let mut modes: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
        for (id, subscription) in &mut link.subs.subscriptions {
            let mut silent = BTreeSet::new();
            for (number, item) in &mut subscription.items {
                let may = !over
                    && (cfg!(feature = "danger-permit-always")
                        || self.front.rights_of(key, item.scope, now).contains(item.action.needed()));
                match (item.denied, may) {
                    (false, false) => {
                        item.deny();
                        silent.insert(*number);
                        if item.place == Place::There {
                            modes.entry((*id, DISABLED)).or_default().push(*number);
                        }
                    }
                    (true, true) => {
                        (item.denied, item.denial_waits) = (false, false);
                        // What is made anew has no values from before.
                        item.muted = matches!(item.place, Place::There | Place::Asked);
                        if item.place == Place::There {
                            modes.entry((*id, item.mode)).or_default().push(*number);
                        }
                    }
                    _ => {}
                }
            }
            let Subscription { items, retained, ready, .. } = subscription;
            if over {
                ready.clear();
            } else if !silent.is_empty() {
                // They do not leave when the right comes back either.
                for message in ready.iter_mut() {
                    let Told::Values(entries) = &mut message.told else { continue };
                    entries.retain(|entry| !silent.contains(&entry.item));
                }
            }
            retained.retain(|message| match &message.told {
                Told::Values(entries) => entries.iter().all(|entry| {
                    let Some(item) = items.get(&entry.item) else { return entry.denial };
                    let event = entry.about.as_ref();
                    let received = event.is_none_or(|about| self.may_receive(key, item, about, now));
                    entry.denial || !item.denied && !item.muted && received
                }),
                Told::Status(_) => true,
            });
        }
        for ((id, mode), items) in modes {
            set_mode(link, id, mode, items, now);
        }
        self.refill(key, link, now);
        self.pump_publish(key, link, now);
    }

    /// Republish: a message that was sent and neither acknowledged nor dropped, if its values may still leave.
    pub(in crate::guard) fn republish(
        &mut self,
        key: SessionKey,
        link: &mut Link,
        taken: &Taken,
        now: Now,
    ) -> Result<Vec<u8>, StatusCode> {
        let mut reader = Reader::new(&taken.body);
        let (id, wanted) = (reader.u32()?, reader.u32()?);
        end(&reader)?;
        let subscription = link.subs.subscriptions.get_mut(&id).ok_or(StatusCode::BadSubscriptionIdInvalid)?;
        let unavailable = StatusCode::BadMessageNotAvailable;
        let place = subscription.retained.iter().position(|message| message.sequence == wanted).ok_or(unavailable)?;
        let message = subscription.retained.get(place).ok_or(unavailable)?;
        let Told::Values(entries) = &message.told else { return Err(unavailable) };
        for entry in entries.iter().filter(|entry| !entry.denial) {
            let item = subscription.items.get(&entry.item).ok_or(unavailable)?;
            let about = entry.about.as_ref();
            let received = about.is_none_or(|about| self.may_receive(key, item, about, now));
            if !received || !self.delivers(key, item.action, (&item.node, item.scope), now) {
                subscription.retained.remove(place);
                return Err(unavailable);
            }
        }
        let mut out = Vec::new();
        write_header(&mut out, REPUBLISH, now, taken.ticket.handle, StatusCode::Good);
        message.write(&mut out);
        Ok(out)
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

/// Tells the server to sample items, or not to.
pub(super) fn set_mode(link: &mut Link, id: u32, mode: u32, items: Vec<u32>, now: Now) {
    let Some(subscription) = link.subs.subscriptions.get(&id) else { return };
    if !matches!(subscription.standing, Standing::Live | Standing::Bare) {
        // Said when it is there again.
        return;
    }
    let mut body = Vec::new();
    body.extend_from_slice(&subscription.upstream.to_le_bytes());
    body.extend_from_slice(&mode.to_le_bytes());
    write_len(&mut body, items.len());
    let known = items.iter().filter_map(|number| subscription.items.get(number));
    known.for_each(|item| body.extend_from_slice(&item.upstream.to_le_bytes()));
    let request = Request::Raw(RawRequest::new(MODE.0, MODE.1, body));
    if let Ok(call) = link.request(request, None, now) {
        let own = if mode == DISABLED { Own::Disabled } else { Own::Enabled { subscription: id, items } };
        link.own.insert(call, own);
    }
}

impl Subscription {
    fn has_news(&self) -> bool {
        let tells = |item: &Item| item.denial_waits || item.failure.is_some();
        self.publishing() && (!self.ready.is_empty() || self.items.values().any(tells))
    }

    /// A message came with this number, or a keep-alive that tells the number of the next.
    fn arrived(&mut self, sequence: u32, numbered: bool) {
        let ahead = |expected: u32| sequence.wrapping_sub(expected) < u32::MAX / 2;
        let gap = self.expected.is_some_and(|expected| expected != sequence && ahead(expected));
        if gap {
            self.lose();
        }
        if self.expected.is_none_or(ahead) {
            let next = if numbered { sequence.checked_add(1).unwrap_or(1) } else { sequence };
            self.expected = Some(next);
        }
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
