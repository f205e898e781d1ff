//! Publish and Republish: requests wait here for messages, or late subscriptions for requests (OPC 10000-4 §5.14.5, §5.14.6).

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

use access_model::{Mono, Now};
use opcua_types::{
    DataChangeNotification, DataValue, DateTime, DiagnosticInfo, EventFieldList, EventNotificationList,
    ExtensionObject, MonitoredItemNotification, NotificationMessage, PublishResponse, RepublishRequest,
    StatusChangeNotification, StatusCode, SubscriptionAcknowledgement,
};

use super::cycle::Step;
use super::events::{Through, overflow_id};
use super::item::Item;
use super::{ItemSource, NodeRef, Phase, PublishAnswer, PublishTicket, Sample, Subscription, Subscriptions, date_time};
use crate::event::{Event, EventFilter};

/// Acknowledgements that one Publish request may carry.
const MAX_ACKNOWLEDGEMENTS: usize = 1_000;

/// A Publish request without an answer, and what became of its acknowledgements.
pub(super) struct WaitingPublish {
    ticket: PublishTicket,
    results: Option<Vec<StatusCode>>,
}

/// A subscription that ended by itself, as long as its client does not know.
pub(super) struct Farewell {
    pub(super) subscription: u32,
    pub(super) sequence: u32,
    pub(super) status: StatusCode,
}

/// One notification of a message, and where it came from: it may leave again only if the rights still say so.
pub(super) struct Entry {
    pub(super) node: NodeRef,
    pub(super) attribute: u32,
    client_handle: u32,
    pub(super) told: Told,
}

/// What a notification tells.
pub(super) enum Told {
    /// A value.
    Value(DataValue),
    /// The value-less Bad_UserAccessDenied, which needs no right.
    Denial(DataValue),
    /// An event, and the filter that picks its fields.
    Event { event: Arc<Event>, filter: Arc<EventFilter> },
}

impl Entry {
    fn is_event(&self) -> bool {
        matches!(self.told, Told::Event { .. })
    }

    /// Whether it may leave again, without being counted.
    fn is_covered(&self, source: &mut dyn ItemSource) -> bool {
        match &self.told {
            Told::Denial(_) => true,
            Told::Value(_) => !matches!(source.sample(self.node, self.attribute), Sample::Denied),
            Told::Event { event, .. } => source.may_receive(self.node, event.about()),
        }
    }

    /// Whether it may leave, counted.
    fn deliver(&self, source: &mut dyn ItemSource) -> bool {
        match &self.told {
            Told::Denial(_) => true,
            Told::Value(_) => source.deliver(self.node, self.attribute),
            Told::Event { event, .. } => source.deliver_event(self.node, event.about()),
        }
    }
}

/// A sent message that was not acknowledged yet.
pub(super) struct Retained {
    sequence: u32,
    publish_time: DateTime,
    pub(super) entries: Vec<Entry>,
}

impl Retained {
    pub(super) fn sequence(&self) -> u32 {
        self.sequence
    }

    /// The message with values and events in the order in which they came: one part for each run of a kind. Fields of
    /// events are picked now, so what the session may not read (any more) is not among them.
    fn message(&self, source: &dyn ItemSource) -> NotificationMessage {
        let runs = self.entries.chunk_by(|one, next| one.is_event() == next.is_event());
        let part = |run: &[Entry]| match run.first() {
            Some(first) if first.is_event() => ExtensionObject::from_message(event_list(run, source)),
            _ => ExtensionObject::from_message(data_changes(run)),
        };
        NotificationMessage {
            sequence_number: self.sequence,
            publish_time: self.publish_time,
            notification_data: Some(runs.map(part).collect()),
        }
    }
}

fn data_changes(run: &[Entry]) -> DataChangeNotification {
    let notification = |entry: &Entry| match &entry.told {
        Told::Value(value) | Told::Denial(value) => {
            Some(MonitoredItemNotification { client_handle: entry.client_handle, value: value.clone() })
        }
        Told::Event { .. } => None,
    };
    let monitored_items = Some(run.iter().filter_map(notification).collect());
    DataChangeNotification { monitored_items, diagnostic_infos: None }
}

fn event_list(run: &[Entry], source: &dyn ItemSource) -> EventNotificationList {
    let viewer = Through(source);
    let fields = |entry: &Entry| match &entry.told {
        Told::Event { event, filter } => Some(EventFieldList {
            client_handle: entry.client_handle,
            event_fields: Some(filter.fields(event, &viewer)),
        }),
        _ => None,
    };
    EventNotificationList { events: Some(run.iter().filter_map(fields).collect()) }
}

impl Subscriptions {
    /// Publish. The answer comes through [`Subscriptions::poll_answer`], now or later.
    pub fn publish(
        &mut self,
        ticket: PublishTicket,
        acknowledgements: Option<&[SubscriptionAcknowledgement]>,
        source: &mut dyn ItemSource,
        now: Now,
    ) {
        if acknowledgements.is_some_and(|all| all.len() > MAX_ACKNOWLEDGEMENTS) {
            self.turn_away(ticket, StatusCode::BadTooManyOperations);
            return;
        }
        let results = acknowledgements.map(|all| all.iter().map(|one| self.acknowledge(one)).collect());
        let request = WaitingPublish { ticket, results };
        if let Some(farewell) = self.farewells.pop_front() {
            self.say_farewell(request, &farewell, now);
        } else if self.subscriptions.is_empty() {
            self.turn_away(ticket, StatusCode::BadNoSubscription);
        } else {
            self.enqueue(request);
            self.serve_late(source, now);
        }
    }

    /// Cancel: every waiting Publish request with this handle is answered with Bad_RequestCancelledByClient. The number
    /// of them is the answer to the Cancel service.
    pub fn cancel(&mut self, request_handle: u32) -> u32 {
        let (cancelled, kept): (VecDeque<WaitingPublish>, VecDeque<WaitingPublish>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|one| one.ticket.request_handle == request_handle);
        self.waiting = kept;
        for request in &cancelled {
            self.turn_away(request.ticket, StatusCode::BadRequestCancelledByClient);
        }
        u32::try_from(cancelled.len()).unwrap_or(u32::MAX)
    }

    /// Republish: a message that was sent and neither acknowledged nor dropped, if its values may still leave.
    ///
    /// # Errors
    /// Bad_SubscriptionIdInvalid, Bad_MessageNotAvailable.
    pub fn republish(
        &mut self,
        request: &RepublishRequest,
        source: &mut dyn ItemSource,
    ) -> Result<NotificationMessage, StatusCode> {
        let subscription = self.subscription(request.subscription_id)?;
        let wanted = request.retransmit_sequence_number;
        let unavailable = StatusCode::BadMessageNotAvailable;
        let message = subscription.retained.iter().find(|message| message.sequence == wanted).ok_or(unavailable)?;
        let covered = message.entries.iter().all(|entry| entry.is_covered(source))
            && message.entries.iter().all(|entry| entry.deliver(source));
        if covered {
            return Ok(message.message(source));
        }
        subscription.forget_retained(|message| message.sequence != wanted);
        Err(unavailable)
    }

    /// Takes due samples, then lets each subscription whose publishing interval ended act, by priority.
    pub fn handle_timeout(&mut self, source: &mut dyn ItemSource, now: Now) {
        self.sample_due(source, now);
        let ended = self.subscriptions.values().filter(|subscription| subscription.cycle.next() <= now.mono);
        let mut ended: Vec<(Reverse<u8>, u64, u32)> =
            ended.map(|subscription| (Reverse(subscription.priority), subscription.served, subscription.id)).collect();
        ended.sort_unstable();
        for (_, _, id) in ended {
            self.tick(id, source, now.mono, now);
        }
    }

    fn tick(&mut self, id: u32, source: &mut dyn ItemSource, mono: Mono, now: Now) {
        let requested = !self.waiting.is_empty();
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return };
        let available = subscription.notifications_available();
        match subscription.cycle.tick(mono, available, requested) {
            Step::Nothing => {}
            Step::SendNotifications => self.send_notifications(id, source, now),
            Step::SendKeepAlive => self.send_keep_alive(id, now),
            Step::Expire => self.expire(id),
        }
    }

    /// The client forgot its subscription: everything goes, and the next Publish request hears of it.
    fn expire(&mut self, id: u32) {
        let Some(subscription) = self.subscriptions.get(&id) else { return };
        let farewell = Farewell { subscription: id, sequence: subscription.sequence, status: StatusCode::BadTimeout };
        self.drop_subscription(id);
        self.bid_farewell(farewell);
    }

    /// Keeps a farewell for the next Publish request; of a session that never asks, no more than it may have subscriptions.
    pub(super) fn bid_farewell(&mut self, farewell: Farewell) {
        self.farewells.retain(|known| known.subscription != farewell.subscription);
        while self.farewells.len() >= self.limits.max_subscriptions.max(1) {
            self.farewells.pop_front();
        }
        self.farewells.push_back(farewell);
    }

    /// Answers waiting requests with the farewells that are there.
    pub(super) fn say_farewells(&mut self, now: Now) {
        while !self.farewells.is_empty()
            && let Some(request) = self.waiting.pop_front()
        {
            if let Some(farewell) = self.farewells.pop_front() {
                self.say_farewell(request, &farewell, now);
            }
        }
    }

    fn say_farewell(&mut self, request: WaitingPublish, farewell: &Farewell, now: Now) {
        let change = StatusChangeNotification { status: farewell.status, diagnostic_info: DiagnosticInfo::null() };
        let message = NotificationMessage {
            sequence_number: farewell.sequence,
            publish_time: date_time(now),
            notification_data: Some(vec![ExtensionObject::from_message(change)]),
        };
        self.answer(request, farewell.subscription, Vec::new(), false, message);
    }

    /// Queues a request; when the queue is full, the oldest makes room.
    fn enqueue(&mut self, request: WaitingPublish) {
        if self.waiting.len() >= self.limits.max_publish_requests.max(1)
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.turn_away(oldest.ticket, StatusCode::BadTooManyPublishRequests);
        }
        self.waiting.push_back(request);
    }

    /// Lets subscriptions that wait for a Publish request have one: the most important first, then the one served longest
    /// ago (rows 5, 10 and 11 of the state table).
    fn serve_late(&mut self, source: &mut dyn ItemSource, now: Now) {
        while !self.waiting.is_empty() {
            let late = self.subscriptions.values().filter(|subscription| {
                subscription.cycle.phase() == Phase::Late
                    || (subscription.more && subscription.notifications_available())
            });
            let Some(next) = late.min_by_key(|subscription| (Reverse(subscription.priority), subscription.served))
            else {
                return;
            };
            let (id, available) = (next.id, next.notifications_available());
            if available {
                self.send_notifications(id, source, now);
            } else {
                self.send_keep_alive(id, now);
            }
        }
    }

    /// Sends messages until nothing is left to report or no request waits.
    fn send_notifications(&mut self, id: u32, source: &mut dyn ItemSource, now: Now) {
        loop {
            let Some(subscription) = self.subscriptions.get_mut(&id) else { return };
            if !subscription.notifications_available() {
                return;
            }
            if self.waiting.is_empty() {
                return;
            }
            let entries = subscription.compose(&mut self.items, &mut self.overflows, source, now);
            if entries.is_empty() {
                return;
            }
            let Some(request) = self.waiting.pop_front() else { return };
            self.turn += 1;
            subscription.served = self.turn;
            subscription.more = subscription.notifications_available();
            subscription.cycle.notified();
            let more = subscription.more;
            let (message, available) = subscription.seal(entries, source, now, &self.limits);
            self.answer(request, id, available, more, message);
            if !more {
                return;
            }
        }
    }

    fn send_keep_alive(&mut self, id: u32, now: Now) {
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return };
        let Some(request) = self.waiting.pop_front() else { return };
        self.turn += 1;
        subscription.served = self.turn;
        subscription.more = false;
        subscription.cycle.kept_alive();
        let message = NotificationMessage {
            sequence_number: subscription.sequence,
            publish_time: date_time(now),
            notification_data: None,
        };
        let available = subscription.available();
        self.answer(request, id, available, false, message);
    }

    fn acknowledge(&mut self, acknowledgement: &SubscriptionAcknowledgement) -> StatusCode {
        let subscription = match self.subscription(acknowledgement.subscription_id) {
            Ok(subscription) => subscription,
            Err(status) => return status,
        };
        let before = subscription.retained.len();
        subscription.forget_retained(|message| message.sequence != acknowledgement.sequence_number);
        if subscription.retained.len() < before { StatusCode::Good } else { StatusCode::BadSequenceNumberUnknown }
    }

    fn answer(
        &mut self,
        request: WaitingPublish,
        subscription_id: u32,
        available: Vec<u32>,
        more_notifications: bool,
        notification_message: NotificationMessage,
    ) {
        let response = PublishResponse {
            response_header: Default::default(),
            subscription_id,
            available_sequence_numbers: Some(available),
            more_notifications,
            notification_message,
            results: request.results,
            diagnostic_infos: None,
        };
        self.answers.push_back(PublishAnswer { ticket: request.ticket, outcome: Ok(Box::new(response)) });
    }

    fn turn_away(&mut self, ticket: PublishTicket, status: StatusCode) {
        self.answers.push_back(PublishAnswer { ticket, outcome: Err(status) });
    }

    /// Answers every waiting Publish request with this service result.
    pub fn turn_away_all(&mut self, status: StatusCode) {
        while let Some(request) = self.waiting.pop_front() {
            self.turn_away(request.ticket, status);
        }
    }
}

impl Subscription {
    /// Takes notifications from the items in the order in which they got them, up to the limit of one message. Each value
    /// is checked against the rights of this moment; the first refusal silences its item.
    fn compose(
        &mut self,
        items: &mut slab::Slab<Item>,
        overflows: &mut u64,
        source: &mut dyn ItemSource,
        now: Now,
    ) -> Vec<Entry> {
        let mut entries = Vec::new();
        while entries.len() < self.max_notifications
            && let Some(key) = self.ready.front().copied()
        {
            let item = items.get_mut(key);
            let mut rest = false;
            if let Some(item) = item {
                entries.extend(next_entry(item, overflows, source, now));
                rest = item.has_news();
                item.listed = rest;
            }
            if !rest {
                self.ready.pop_front();
            }
        }
        entries
    }

    /// Numbers the message, keeps it for Republish within the limits, and tells which messages are available.
    fn seal(
        &mut self,
        entries: Vec<Entry>,
        source: &dyn ItemSource,
        now: Now,
        limits: &super::SubscriptionLimits,
    ) -> (NotificationMessage, Vec<u32>) {
        let message = Retained { sequence: self.sequence, publish_time: date_time(now), entries };
        self.sequence = self.sequence.checked_add(1).unwrap_or(1);
        let sent = message.message(source);
        self.retained_values += message.entries.len();
        self.retained.push_back(message);
        while self.retained.len() > limits.max_retained_messages.max(1)
            || (self.retained.len() > 1 && self.retained_values > limits.max_retained_values)
        {
            let dropped = self.retained.pop_front();
            self.retained_values -= dropped.map_or(0, |message| message.entries.len());
        }
        (sent, self.available())
    }
}

/// The next thing an item has to report, if the rights let it.
fn next_entry(item: &mut Item, count: &mut u64, source: &mut dyn ItemSource, now: Now) -> Option<Entry> {
    let (node, attribute) = (item.target.node, item.target.attribute);
    let entry = |told, item: &Item| Entry { node, attribute, client_handle: item.client_handle, told };
    if item.events.is_some() {
        let told = next_event(item, count, source, now);
        item.reported();
        let told = told?;
        return Some(entry(told, item));
    }
    if !item.denial_waits {
        let value = item.queue.pop_front()?;
        item.reported();
        if source.deliver(node, attribute) {
            let value = item.dress(value);
            return Some(entry(Told::Value(value), item));
        }
        item.deny();
    }
    if !std::mem::take(&mut item.denial_waits) {
        return None;
    }
    item.reported();
    let denial = DataValue {
        status: Some(StatusCode::BadUserAccessDenied),
        server_timestamp: Some(date_time(now)),
        ..DataValue::null()
    };
    let denial = item.dress(denial);
    Some(entry(Told::Denial(denial), item))
}

/// The next event that may still be received; those that may not are dropped.
fn next_event(item: &mut Item, count: &mut u64, source: &mut dyn ItemSource, now: Now) -> Option<Told> {
    let (notifier, subscription, discard_oldest) = (item.target.node, item.subscription, item.discard_oldest);
    let events = item.events.as_mut()?;
    loop {
        let mut overflow = |gap| {
            *count += 1;
            Event::overflow(source.space(), gap, overflow_id(subscription, *count, now), now)
        };
        let event = events.pop(discard_oldest, &mut overflow)?;
        if source.deliver_event(notifier, event.about()) {
            return Some(Told::Event { event, filter: Arc::clone(&events.filter) });
        }
    }
}
