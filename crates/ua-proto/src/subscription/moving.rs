//! A subscription on its way from one session to another (TransferSubscriptions, OPC 10000-4 §5.14.7), and its present
//! values sent again (ResendData, OPC 10000-5 §9.2).
//!
//! Who may have it is the server's to decide. It moves with its items, their queues, its numbers and the messages that
//! were sent and not acknowledged; what of that its new session may not see stays behind.

use access_model::Now;
use opcua_types::{MonitoringMode, StatusCode};

use super::item::Item;
use super::items::watched;
use super::publish::Farewell;
use super::{ItemSource, Subscription, Subscriptions};

/// A subscription that belongs to no session for the moment.
pub struct Moving {
    subscription: Subscription,
    items: Vec<(u32, Item)>,
}

impl Moving {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.subscription.id
    }
}

impl Subscriptions {
    /// Whether there is a subscription with this id.
    #[must_use]
    pub fn has(&self, id: u32) -> bool {
        self.subscriptions.contains_key(&id)
    }

    /// The numbers of the messages of a subscription that can be asked for again.
    #[must_use]
    pub fn available(&self, id: u32) -> Vec<u32> {
        self.subscriptions.get(&id).map(Subscription::available).unwrap_or_default()
    }

    /// Gives a subscription away. The session's next Publish request is told Good_SubscriptionTransferred once
    /// [`Subscriptions::moved`] is called.
    pub fn take(&mut self, id: u32) -> Option<Moving> {
        let mut subscription = self.subscriptions.remove(&id)?;
        subscription.ready.clear();
        let places = std::mem::take(&mut subscription.items);
        let items = places.into_iter().filter_map(|(id, key)| Some((id, self.take_item(key)?))).collect();
        Some(Moving { subscription, items })
    }

    /// The subscription went to another session: who had it is told so.
    pub fn moved(&mut self, id: u32, sequence: u32, now: Now) {
        let status = StatusCode::GoodSubscriptionTransferred;
        self.bid_farewell(Farewell { subscription: id, sequence, status });
        self.say_farewells(now);
        if self.subscriptions.is_empty() && self.farewells.is_empty() {
            self.turn_away_all(StatusCode::BadNoSubscription);
        }
    }

    /// Takes a subscription that another session had. What the rights of this one do not cover is dropped, as when rights
    /// end. With `initial` the present values come first. Gives the number of its next message.
    ///
    /// # Errors
    /// Bad_TooManySubscriptions, Bad_TooManyMonitoredItems; the subscription comes back as it was.
    pub fn give(
        &mut self,
        moving: Moving,
        initial: bool,
        source: &mut dyn ItemSource,
        now: Now,
    ) -> Result<u32, (StatusCode, Box<Moving>)> {
        if let Err(status) = self.room_for(&moving) {
            return Err((status, Box::new(moving)));
        }
        let Moving { mut subscription, items } = moving;
        let (id, sequence) = (subscription.id, subscription.sequence);
        self.farewells.retain(|known| known.subscription != id);
        subscription.cycle.client_seen();
        subscription.served = self.turn;
        self.subscriptions.insert(id, subscription);
        for (number, item) in items {
            self.adopt(id, number, item, now);
        }
        self.recheck(source, now);
        if initial {
            self.renew(id, source, now);
        }
        Ok(sequence)
    }

    fn room_for(&self, moving: &Moving) -> Result<(), StatusCode> {
        if self.subscriptions.len() >= self.limits.max_subscriptions || self.has(moving.id()) {
            return Err(StatusCode::BadTooManySubscriptions);
        }
        let sum = |of: fn(&Item) -> usize| moving.items.iter().map(|(_, item)| of(item)).sum::<usize>();
        let events = sum(|item| usize::from(item.events.is_some()));
        if self.items.len() + moving.items.len() > self.limits.max_items
            || self.event_items.len() + events > self.limits.max_event_items
            || self.links + sum(|item| item.links.len()) > self.limits.max_links
            || self.reserved + sum(|item| item.capacity) > self.limits.max_queued_values.max(self.limits.max_items)
        {
            return Err(StatusCode::BadTooManyMonitoredItems);
        }
        Ok(())
    }

    fn adopt(&mut self, subscription: u32, number: u32, mut item: Item, now: Now) {
        self.next_serial += 1;
        item.serial = self.next_serial;
        (item.listed, item.due) = (false, None);
        self.reserved += item.capacity;
        self.links += item.links.len();
        let (target, events) = (item.target, item.events.is_some());
        let key = self.items.insert(item);
        if let Some(subscription) = self.subscriptions.get_mut(&subscription) {
            subscription.items.insert(number, key);
        }
        if watched(&target) {
            self.watchers.add(target.node, key);
        }
        if events {
            self.event_items.insert(key);
        }
        self.plan(key, now.mono);
        if let Some(item) = self.items.get_mut(key) {
            super::items::list(&mut self.subscriptions, item, key);
        }
    }

    /// ResendData: the items that report send their present values with the next message.
    ///
    /// # Errors
    /// Bad_SubscriptionIdInvalid.
    pub fn resend(&mut self, id: u32, source: &mut dyn ItemSource, now: Now) -> Result<(), StatusCode> {
        self.subscription(id)?;
        self.renew(id, source, now);
        Ok(())
    }

    fn renew(&mut self, id: u32, source: &mut dyn ItemSource, now: Now) {
        let Some(subscription) = self.subscriptions.get(&id) else { return };
        let keys: Vec<usize> = subscription.items.values().copied().collect();
        for key in keys {
            let Some(item) = self.items.get_mut(key) else { continue };
            // What waits in the queue ends with the present value already.
            if item.mode == MonitoringMode::Reporting && !item.denied && item.queue.is_empty() {
                item.renew();
                self.sample(key, source, now);
            }
        }
    }
}

impl Subscription {
    /// The numbers of the messages that can be asked for again.
    pub(super) fn available(&self) -> Vec<u32> {
        self.retained.iter().map(super::publish::Retained::sequence).collect()
    }
}
