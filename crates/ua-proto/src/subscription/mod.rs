//! The subscriptions of one session: monitored items, queues, Publish, Republish (OPC 10000-4 §5.13 and §5.14).
//!
//! A pure machine. The server that owns it finds nodes, reads values and knows rights; it lends all three as an
//! [`ItemSource`] for the length of a call.
//!
//! The calls, in the order in which a session meets them (`s: &mut dyn ItemSource`):
//!
//! ```text
//! Subscriptions::new(limits: Arc<SubscriptionLimits>)
//! create(id: u32, &CreateSubscriptionRequest, now) -> Result<CreateSubscriptionResponse, StatusCode>   // id: unique in the server
//! modify(&ModifySubscriptionRequest, now) -> Result<ModifySubscriptionResponse, StatusCode>
//! delete(&DeleteSubscriptionsRequest) -> Vec<StatusCode>
//! set_publishing_mode(&SetPublishingModeRequest) -> Vec<StatusCode>
//! create_items(&CreateMonitoredItemsRequest, s, now) -> Result<Vec<MonitoredItemCreateResult>, StatusCode>
//! modify_items(&ModifyMonitoredItemsRequest, s, now) -> Result<Vec<MonitoredItemModifyResult>, StatusCode>
//! delete_items(&DeleteMonitoredItemsRequest) -> Result<Vec<StatusCode>, StatusCode>
//! set_monitoring_mode(&SetMonitoringModeRequest, s, now) -> Result<Vec<StatusCode>, StatusCode>
//! set_triggering(&SetTriggeringRequest) -> Result<(Vec<StatusCode>, Vec<StatusCode>), StatusCode>            // added, removed
//! resend(id: u32, s, now) -> Result<(), StatusCode>   // the present values come again: the method ResendData
//! take(id: u32) -> Option<Moving>; give(Moving, initial: bool, s, now) -> Result<u32, ..>; moved(id, u32, now)   // TransferSubscriptions
//! publish(PublishTicket, Option<&[SubscriptionAcknowledgement]>, s, now)          // answered through poll_answer
//! republish(&RepublishRequest, s) -> Result<NotificationMessage, StatusCode>
//! on_change(node, &DataValue, now)       // the Value attribute of a node changed; cheap when nobody here watches it
//! on_event(&Arc<Event>, s, now)          // something happened; `wants_events` says whether anybody here listens
//! silence()                              // the grant ended: drop every value, tell each item once, stay silent
//! recheck(s, now)                        // rights changed or returned: silence what is denied, resume what is not
//! cancel(request_handle) -> u32          // waiting Publish requests answered with Bad_RequestCancelledByClient
//! close(status)                          // the session ends: every waiting Publish request is answered with `status`
//! handle_timeout(s, now); poll_timeout() -> Option<Mono>; poll_answer() -> Option<PublishAnswer>;
//! poll_watch() -> Option<WatchChange>    // which nodes on_change is wanted for, so that a server with many sessions can route
//! ```
//!
//! A `Result::Err` is the service result (a ServiceFault); response headers come back empty, the server fills them.

mod cycle;
mod events;
mod filter;
mod item;
mod items;
mod limits;
mod moving;
mod publish;
mod rights;
mod source;
mod triggering;
mod watch;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use access_model::{Mono, Now};
use opcua_types::{
    CreateSubscriptionRequest, CreateSubscriptionResponse, DateTime, DeleteSubscriptionsRequest,
    ModifySubscriptionRequest, ModifySubscriptionResponse, PublishResponse, SetPublishingModeRequest, StatusCode,
};

pub use crate::space::NodeRef;
use cycle::{Cycle, Phase};
use item::Item;
pub use limits::SubscriptionLimits;
pub use moving::Moving;
use publish::{Farewell, Retained, WaitingPublish};
pub use source::{ItemSource, Sample, Target};
pub use watch::WatchChange;
use watch::{Due, Watchers};

/// How a Publish request is answered: the pair that the server needs to address its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishTicket {
    /// Id of the request on its channel.
    pub request_id: u32,
    /// The RequestHandle of its header.
    pub request_handle: u32,
}

/// The answer to one Publish request.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishAnswer {
    /// Whose answer it is.
    pub ticket: PublishTicket,
    /// The response with an empty header, or the service result of a fault.
    pub outcome: Result<Box<PublishResponse>, StatusCode>,
}

/// The subscriptions of one session.
pub struct Subscriptions {
    limits: Arc<SubscriptionLimits>,
    subscriptions: BTreeMap<u32, Subscription>,
    items: slab::Slab<Item>,
    /// The items that report events.
    event_items: BTreeSet<usize>,
    next_serial: u64,
    /// Links from triggering items to others.
    links: usize,
    /// Counts the events that told of an overflow, for their ids.
    overflows: u64,
    /// Sum of the capacities of all item queues.
    reserved: usize,
    watchers: Watchers,
    due: Due,
    waiting: VecDeque<WaitingPublish>,
    answers: VecDeque<PublishAnswer>,
    farewells: VecDeque<Farewell>,
    /// Counts services rendered, so that among equals the one that waited longest comes first.
    turn: u64,
}

/// One subscription: its cycle, its items, what it has to tell and what it told.
struct Subscription {
    id: u32,
    priority: u8,
    enabled: bool,
    /// Most notifications in one message.
    max_notifications: usize,
    cycle: Cycle,
    /// The number of the next message that carries notifications.
    sequence: u32,
    /// The last message did not hold all notifications that waited.
    more: bool,
    /// The items that have something to report, in the order in which they got it.
    ready: VecDeque<usize>,
    items: BTreeMap<u32, usize>,
    last_item_id: u32,
    retained: VecDeque<Retained>,
    retained_values: usize,
    served: u64,
}

impl Subscription {
    fn notifications_available(&self) -> bool {
        self.enabled && !self.ready.is_empty()
    }

    /// Drops from the ready list what has nothing to report any more.
    fn prune(&mut self, items: &mut slab::Slab<Item>) {
        let id = self.id;
        self.ready.retain(|key| match items.get_mut(*key) {
            Some(item) if item.subscription == id => {
                item.listed = item.has_news();
                item.listed
            }
            _ => false,
        });
    }

    fn forget_retained(&mut self, keep: impl FnMut(&Retained) -> bool) {
        self.retained.retain(keep);
        self.retained_values = self.retained.iter().map(|message| message.entries.len()).sum();
    }
}

impl Subscriptions {
    /// No subscriptions yet.
    #[must_use]
    pub fn new(limits: Arc<SubscriptionLimits>) -> Self {
        Self {
            limits,
            subscriptions: BTreeMap::new(),
            items: slab::Slab::new(),
            event_items: BTreeSet::new(),
            next_serial: 0,
            links: 0,
            overflows: 0,
            reserved: 0,
            watchers: Watchers::default(),
            due: Due::default(),
            waiting: VecDeque::new(),
            answers: VecDeque::new(),
            farewells: VecDeque::new(),
            turn: 0,
        }
    }

    /// Number of subscriptions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.subscriptions.len()
    }

    /// Whether there is no subscription.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.subscriptions.is_empty()
    }

    /// Number of monitored items over all subscriptions.
    #[must_use]
    pub fn item_count(&self) -> usize {
        self.items.len()
    }

    /// Item id and client handle of each item of a subscription, by item id: what the method GetMonitoredItems answers.
    #[must_use]
    pub fn handles(&self, subscription: u32) -> Option<Vec<(u32, u32)>> {
        let subscription = self.subscriptions.get(&subscription)?;
        let handle = |(id, key): (&u32, &usize)| Some((*id, self.items.get(*key)?.client_handle));
        Some(subscription.items.iter().filter_map(handle).collect())
    }

    /// CreateSubscription. `id` is chosen by the server, unique among all its sessions and not zero.
    ///
    /// # Errors
    /// Bad_TooManySubscriptions.
    pub fn create(
        &mut self,
        id: u32,
        request: &CreateSubscriptionRequest,
        now: Now,
    ) -> Result<CreateSubscriptionResponse, StatusCode> {
        if self.subscriptions.len() >= self.limits.max_subscriptions || self.subscriptions.contains_key(&id) {
            return Err(StatusCode::BadTooManySubscriptions);
        }
        let (interval, lifetime, keep_alive) = self.revise(
            request.requested_publishing_interval,
            request.requested_lifetime_count,
            request.requested_max_keep_alive_count,
        );
        let subscription = Subscription {
            id,
            priority: request.priority,
            enabled: request.publishing_enabled,
            max_notifications: self.notification_limit(request.max_notifications_per_publish),
            cycle: Cycle::start(interval, lifetime, keep_alive, now.mono),
            sequence: 1,
            more: false,
            ready: VecDeque::new(),
            items: BTreeMap::new(),
            last_item_id: 0,
            retained: VecDeque::new(),
            retained_values: 0,
            served: 0,
        };
        self.subscriptions.insert(id, subscription);
        Ok(CreateSubscriptionResponse {
            response_header: Default::default(),
            subscription_id: id,
            revised_publishing_interval: milliseconds(interval),
            revised_lifetime_count: lifetime,
            revised_max_keep_alive_count: keep_alive,
        })
    }

    /// ModifySubscription. The publishing timer starts anew.
    ///
    /// # Errors
    /// Bad_SubscriptionIdInvalid.
    pub fn modify(
        &mut self,
        request: &ModifySubscriptionRequest,
        now: Now,
    ) -> Result<ModifySubscriptionResponse, StatusCode> {
        let (interval, lifetime, keep_alive) = self.revise(
            request.requested_publishing_interval,
            request.requested_lifetime_count,
            request.requested_max_keep_alive_count,
        );
        let max_notifications = self.notification_limit(request.max_notifications_per_publish);
        let subscription = self.subscription(request.subscription_id)?;
        subscription.priority = request.priority;
        subscription.max_notifications = max_notifications;
        subscription.cycle.modify(interval, lifetime, keep_alive, now.mono);
        Ok(ModifySubscriptionResponse {
            response_header: Default::default(),
            revised_publishing_interval: milliseconds(interval),
            revised_lifetime_count: lifetime,
            revised_max_keep_alive_count: keep_alive,
        })
    }

    /// DeleteSubscriptions: one status for each id. When none is left, the waiting Publish requests are answered with
    /// Bad_NoSubscription.
    pub fn delete(&mut self, request: &DeleteSubscriptionsRequest) -> Vec<StatusCode> {
        let ids = request.subscription_ids.as_deref().unwrap_or_default();
        let results = ids.iter().map(|id| {
            if self.drop_subscription(*id) { StatusCode::Good } else { StatusCode::BadSubscriptionIdInvalid }
        });
        let results = results.collect();
        if self.subscriptions.is_empty() {
            self.turn_away_all(StatusCode::BadNoSubscription);
        }
        results
    }

    /// SetPublishingMode: one status for each id.
    pub fn set_publishing_mode(&mut self, request: &SetPublishingModeRequest) -> Vec<StatusCode> {
        let ids = request.subscription_ids.as_deref().unwrap_or_default();
        let set = |id: &u32| match self.subscription(*id) {
            Ok(subscription) => {
                subscription.enabled = request.publishing_enabled;
                subscription.more = false;
                StatusCode::Good
            }
            Err(status) => status,
        };
        ids.iter().map(set).collect()
    }

    /// The next instant at which [`Subscriptions::handle_timeout`] has something to do.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        let cycles = self.subscriptions.values().map(|subscription| subscription.cycle.next());
        cycles.chain(self.due.next()).min()
    }

    /// The next finished answer to a Publish request.
    pub fn poll_answer(&mut self) -> Option<PublishAnswer> {
        self.answers.pop_front()
    }

    /// The next change of the set of nodes that [`Subscriptions::on_change`] is wanted for.
    pub fn poll_watch(&mut self) -> Option<WatchChange> {
        self.watchers.poll_change()
    }

    /// The session ends: every waiting Publish request is answered with `status`, everything else is dropped.
    pub fn close(&mut self, status: StatusCode) {
        while let Some((id, _)) = self.subscriptions.first_key_value() {
            let id = *id;
            self.drop_subscription(id);
        }
        self.farewells.clear();
        self.turn_away_all(status);
    }

    /// The subscription with this id, its lifetime counter reset: any request that names it shows that its client lives.
    fn subscription(&mut self, id: u32) -> Result<&mut Subscription, StatusCode> {
        let subscription = self.subscriptions.get_mut(&id).ok_or(StatusCode::BadSubscriptionIdInvalid)?;
        subscription.cycle.client_seen();
        Ok(subscription)
    }

    fn drop_subscription(&mut self, id: u32) -> bool {
        let Some(subscription) = self.subscriptions.remove(&id) else { return false };
        for key in subscription.items.into_values() {
            self.drop_item(key);
        }
        true
    }

    fn notification_limit(&self, requested: u32) -> usize {
        let limit = self.limits.max_notifications.max(1);
        (if requested == 0 { limit } else { requested.min(limit) }) as usize
    }

    /// Publishing interval, lifetime count and keep-alive count within the limits; the lifetime is at least three
    /// keep-alives (OPC 10000-4 §5.14.2.2).
    fn revise(&self, interval: f64, lifetime: u32, keep_alive: u32) -> (Duration, u32, u32) {
        let limits = &self.limits;
        let interval = duration(interval).unwrap_or(Duration::ZERO);
        let interval = interval.min(limits.max_publishing_interval).max(limits.min_publishing_interval).max(SHORTEST);
        let most = limits.max_lifetime_count.max(3);
        let keep_alive = keep_alive.clamp(1, limits.max_keep_alive_count.max(1)).min(most / 3);
        (interval, lifetime.max(keep_alive * 3).min(most), keep_alive)
    }
}

/// No configuration makes the machine publish faster.
const SHORTEST: Duration = Duration::from_millis(1);

/// A Duration of the wire (milliseconds) if it is positive and finite.
fn duration(milliseconds: f64) -> Option<Duration> {
    (milliseconds > 0.0).then(|| Duration::try_from_secs_f64(milliseconds / 1_000.0).unwrap_or(Duration::MAX))
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

/// Wall-clock time in the ticks of OPC UA: 100 ns since 1601.
fn date_time(now: Now) -> DateTime {
    const FROM_1601_TO_1970: i64 = 11_644_473_600_000_000;
    DateTime::from(now.unix.as_micros().saturating_add(FROM_1601_TO_1970).saturating_mul(10))
}

#[cfg(test)]
mod tests;
