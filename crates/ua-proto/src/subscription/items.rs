//! The services of monitored items, and how samples get into their queues (OPC 10000-4 §5.13).

use std::sync::Arc;
use std::time::Duration;

use access_model::{Mono, Now};
use opcua_types::{
    CreateMonitoredItemsRequest, DataValue, DeleteMonitoredItemsRequest, EventFilterResult, ExtensionObject,
    ModifyMonitoredItemsRequest, MonitoredItemCreateRequest, MonitoredItemCreateResult, MonitoredItemModifyResult,
    MonitoringMode, MonitoringParameters, SetMonitoringModeRequest, StatusCode, TimestampsToReturn,
};

use super::events::Through;
use super::filter::Filter;
use super::item::{Item, ItemParameters};
use super::{ItemSource, NodeRef, Sample, Subscriptions, Target, duration, milliseconds};
use crate::event::{EventFilter, Unusable};

const VALUE_ATTRIBUTE: u32 = 13;
const EVENT_NOTIFIER: u32 = 12;
/// The queue of an item that reports events, when its client does not say.
const EVENT_QUEUE: u32 = 100;
/// Longest sampling interval.
const DAY: Duration = Duration::from_secs(86_400);

impl Subscriptions {
    /// CreateMonitoredItems: one result for each item, in order.
    ///
    /// # Errors
    /// Bad_SubscriptionIdInvalid, Bad_TimestampsToReturnInvalid, Bad_NothingToDo.
    pub fn create_items(
        &mut self,
        request: &CreateMonitoredItemsRequest,
        source: &mut dyn ItemSource,
        now: Now,
    ) -> Result<Vec<MonitoredItemCreateResult>, StatusCode> {
        self.subscription(request.subscription_id)?;
        let timestamps = timestamps(request.timestamps_to_return)?;
        let items = some(request.items_to_create.as_deref())?;
        let create = |item| match self.create_item(request.subscription_id, item, timestamps, source, now) {
            Ok(result) => result,
            Err(unusable) => MonitoredItemCreateResult {
                status_code: unusable.status,
                monitored_item_id: 0,
                revised_sampling_interval: 0.0,
                revised_queue_size: 0,
                filter_result: shown(unusable.result),
            },
        };
        Ok(items.iter().map(create).collect())
    }

    fn create_item(
        &mut self,
        subscription: u32,
        request: &MonitoredItemCreateRequest,
        timestamps: TimestampsToReturn,
        source: &mut dyn ItemSource,
        now: Now,
    ) -> Result<MonitoredItemCreateResult, Unusable> {
        let target = source.resolve(&request.item_to_monitor)?;
        let events = target.attribute == EVENT_NOTIFIER;
        if self.items.len() >= self.limits.max_items || events && self.event_items.len() >= self.limits.max_event_items
        {
            return Err(StatusCode::BadTooManyMonitoredItems.into());
        }
        let requested = &request.requested_parameters;
        let (parameters, told) = self.parameters(subscription, requested, timestamps, &target, 0, source)?;
        let result = MonitoredItemCreateResult {
            status_code: StatusCode::Good,
            monitored_item_id: self.next_item_id(subscription),
            revised_sampling_interval: milliseconds(parameters.interval),
            revised_queue_size: u32::try_from(parameters.capacity).unwrap_or(u32::MAX),
            filter_result: shown(told),
        };
        let id = result.monitored_item_id;
        self.next_serial += 1;
        self.reserved += parameters.capacity;
        let range = request.item_to_monitor.index_range.clone();
        let key = self.items.insert(Item::new((self.next_serial, subscription), target, range, parameters));
        if let Some(subscription) = self.subscriptions.get_mut(&subscription) {
            subscription.items.insert(id, key);
        }
        if watched(&target) {
            self.watchers.add(target.node, key);
        }
        if events {
            self.event_items.insert(key);
        }
        self.set_mode(key, request.monitoring_mode, source, now);
        Ok(result)
    }

    /// ModifyMonitoredItems: one result for each item, in order.
    ///
    /// # Errors
    /// Bad_SubscriptionIdInvalid, Bad_TimestampsToReturnInvalid, Bad_NothingToDo.
    pub fn modify_items(
        &mut self,
        request: &ModifyMonitoredItemsRequest,
        source: &mut dyn ItemSource,
        now: Now,
    ) -> Result<Vec<MonitoredItemModifyResult>, StatusCode> {
        self.subscription(request.subscription_id)?;
        let timestamps = timestamps(request.timestamps_to_return)?;
        let items = some(request.items_to_modify.as_deref())?;
        let mut results = Vec::with_capacity(items.len());
        for item in items {
            let (id, parameters) = (item.monitored_item_id, &item.requested_parameters);
            let modified = self.modify_item(request.subscription_id, id, parameters, timestamps, source, now);
            let (interval, capacity, status_code, told) = match modified {
                Ok((interval, capacity, told)) => (interval, capacity, StatusCode::Good, told),
                Err(unusable) => (Duration::ZERO, 0, unusable.status, unusable.result),
            };
            results.push(MonitoredItemModifyResult {
                status_code,
                revised_sampling_interval: milliseconds(interval),
                revised_queue_size: u32::try_from(capacity).unwrap_or(u32::MAX),
                filter_result: shown(told),
            });
        }
        Ok(results)
    }

    fn modify_item(
        &mut self,
        subscription: u32,
        id: u32,
        requested: &MonitoringParameters,
        timestamps: TimestampsToReturn,
        source: &mut dyn ItemSource,
        now: Now,
    ) -> Result<(Duration, usize, Option<EventFilterResult>), Unusable> {
        let key = self.item_key(subscription, id).ok_or(StatusCode::BadMonitoredItemIdInvalid)?;
        let item = self.items.get(key).ok_or(StatusCode::BadMonitoredItemIdInvalid)?;
        let (target, held) = (item.target, item.capacity);
        let (parameters, told) = self.parameters(subscription, requested, timestamps, &target, held, source)?;
        let revised = (parameters.interval, parameters.capacity, told);
        self.reserved = self.reserved - held + parameters.capacity;
        if let Some(item) = self.items.get_mut(key) {
            item.modify(parameters);
        }
        if target.computed {
            self.plan(key, now.mono);
        }
        Ok(revised)
    }

    /// DeleteMonitoredItems: one status for each id, in order.
    ///
    /// # Errors
    /// Bad_SubscriptionIdInvalid, Bad_NothingToDo.
    pub fn delete_items(&mut self, request: &DeleteMonitoredItemsRequest) -> Result<Vec<StatusCode>, StatusCode> {
        self.subscription(request.subscription_id)?;
        let ids = some(request.monitored_item_ids.as_deref())?;
        let mut results = Vec::with_capacity(ids.len());
        for id in ids {
            let key = self.subscriptions.get_mut(&request.subscription_id).and_then(|owner| owner.items.remove(id));
            results.push(key.map_or(StatusCode::BadMonitoredItemIdInvalid, |key| {
                self.drop_item(key);
                StatusCode::Good
            }));
        }
        self.prune(request.subscription_id);
        Ok(results)
    }

    /// SetMonitoringMode: one status for each id, in order.
    ///
    /// # Errors
    /// Bad_SubscriptionIdInvalid, Bad_NothingToDo.
    pub fn set_monitoring_mode(
        &mut self,
        request: &SetMonitoringModeRequest,
        source: &mut dyn ItemSource,
        now: Now,
    ) -> Result<Vec<StatusCode>, StatusCode> {
        self.subscription(request.subscription_id)?;
        let ids = some(request.monitored_item_ids.as_deref())?;
        let mut results = Vec::with_capacity(ids.len());
        for id in ids {
            let key = self.item_key(request.subscription_id, *id);
            results.push(key.map_or(StatusCode::BadMonitoredItemIdInvalid, |key| {
                self.set_mode(key, request.monitoring_mode, source, now);
                StatusCode::Good
            }));
        }
        self.prune(request.subscription_id);
        Ok(results)
    }

    /// The Value attribute of a node changed. Items that report every change take the value at once; items with a
    /// sampling interval take it if the interval allows, else a sample is planned for the moment at which it does.
    pub fn on_change(&mut self, node: NodeRef, value: &DataValue, now: Now) {
        let mut fired = Vec::new();
        for key in self.watchers.of(node) {
            let Some(item) = self.items.get_mut(*key) else { continue };
            if item.mode == MonitoringMode::Disabled || item.denied {
                continue;
            }
            if now.mono >= item.free_at {
                item.free_at = now.mono + item.interval;
                if item.take(value) && !item.links.is_empty() {
                    fired.push(*key);
                }
                list(&mut self.subscriptions, item, *key);
            } else if item.due.is_none() {
                item.due = Some(item.free_at);
                self.due.plan((item.free_at, *key, item.serial));
            }
        }
        fired.into_iter().for_each(|key| self.fire(key));
    }

    /// Takes the samples that are due.
    pub(super) fn sample_due(&mut self, source: &mut dyn ItemSource, now: Now) {
        while let Some((at, key, serial)) = self.due.pop(now.mono) {
            let live = self.items.get(key).is_some_and(|item| item.serial == serial && item.due == Some(at));
            if live {
                self.sample(key, source, now);
            }
        }
        let items = &self.items;
        self.due.compact(items.len(), |(at, key, serial)| {
            items.get(*key).is_some_and(|item| item.serial == *serial && item.due == Some(*at))
        });
    }

    /// Looks at one item now and plans its next sample.
    pub(super) fn sample(&mut self, key: usize, source: &mut dyn ItemSource, now: Now) {
        let Some(item) = self.items.get_mut(key).filter(|item| item.events.is_none()) else { return };
        let mut fires = false;
        match source.sample(item.target.node, item.target.attribute) {
            Sample::Value(value) => {
                item.denied = false;
                fires = item.take(&value) && !item.links.is_empty();
            }
            Sample::Denied => item.deny(),
        }
        item.free_at = now.mono + item.interval;
        list(&mut self.subscriptions, item, key);
        self.plan(key, now.mono);
        if fires {
            self.fire(key);
        }
    }

    /// Plans the next sample of a computed value; watched values need none, they announce themselves.
    pub(super) fn plan(&mut self, key: usize, now: Mono) {
        let Some(item) = self.items.get_mut(key) else { return };
        item.due = None;
        if item.mode != MonitoringMode::Disabled && item.target.computed {
            let at = now + item.interval.max(self.limits.min_sampling_interval).max(Duration::from_nanos(1));
            item.due = Some(at);
            self.due.plan((at, key, item.serial));
        }
    }

    fn set_mode(&mut self, key: usize, mode: MonitoringMode, source: &mut dyn ItemSource, now: Now) {
        let Some(item) = self.items.get_mut(key) else { return };
        let before = std::mem::replace(&mut item.mode, mode);
        match (before, mode) {
            (_, MonitoringMode::Disabled) => item.forget(),
            (MonitoringMode::Disabled, _) => self.sample(key, source, now),
            (MonitoringMode::Reporting, MonitoringMode::Sampling) => item.released = 0,
            _ => list(&mut self.subscriptions, item, key),
        }
    }

    /// Removes an item from everything but its subscription's own lists.
    pub(super) fn drop_item(&mut self, key: usize) {
        drop(self.take_item(key));
    }

    /// The same; the item goes on elsewhere.
    pub(super) fn take_item(&mut self, key: usize) -> Option<Item> {
        let item = self.items.try_remove(key)?;
        self.reserved = self.reserved.saturating_sub(item.capacity);
        if watched(&item.target) {
            self.watchers.remove(item.target.node, key);
        }
        self.event_items.remove(&key);
        self.links = self.links.saturating_sub(item.links.len());
        Some(item)
    }

    fn prune(&mut self, subscription: u32) {
        if let Some(subscription) = self.subscriptions.get_mut(&subscription) {
            subscription.prune(&mut self.items);
        }
    }

    pub(super) fn item_key(&self, subscription: u32, id: u32) -> Option<usize> {
        self.subscriptions.get(&subscription)?.items.get(&id).copied()
    }

    fn next_item_id(&mut self, subscription: u32) -> u32 {
        let Some(subscription) = self.subscriptions.get_mut(&subscription) else { return 0 };
        loop {
            subscription.last_item_id = subscription.last_item_id.wrapping_add(1).max(1);
            if !subscription.items.contains_key(&subscription.last_item_id) {
                return subscription.last_item_id;
            }
        }
    }

    /// What the client asked for, within the limits. `held` is the queue the item has already.
    fn parameters(
        &self,
        subscription: u32,
        requested: &MonitoringParameters,
        timestamps: TimestampsToReturn,
        target: &Target,
        held: usize,
        source: &mut dyn ItemSource,
    ) -> Result<(ItemParameters, Option<EventFilterResult>), Unusable> {
        let (filter, events, told) = if target.attribute == EVENT_NOTIFIER {
            let outcome = EventFilter::read(&requested.filter, &Through(source))?;
            (Filter::default(), Some(Arc::new(outcome.filter)), outcome.result)
        } else {
            (Filter::read(&requested.filter, target)?, None, None)
        };
        // No queue size of its own asks for what the server thinks fit (OPC 10000-4 §7.21).
        let size = if events.is_some() && requested.queue_size == 0 { EVENT_QUEUE } else { requested.queue_size };
        let free = self.limits.max_queued_values.saturating_sub(self.reserved.saturating_sub(held));
        let capacity = size.min(self.limits.max_queue_size) as usize;
        let interval = match events {
            Some(_) => Duration::ZERO,
            None => self.sampling_interval(subscription, requested.sampling_interval, target),
        };
        let parameters = ItemParameters {
            client_handle: requested.client_handle,
            timestamps,
            filter,
            events,
            interval,
            capacity: capacity.min(free).max(1),
            discard_oldest: requested.discard_oldest,
        };
        Ok((parameters, told))
    }

    /// Zero asks for every change, which a computed value cannot give; negative asks for the publishing interval.
    fn sampling_interval(&self, subscription: u32, requested: f64, target: &Target) -> Duration {
        let fastest = self.limits.min_sampling_interval;
        match duration(requested) {
            Some(interval) => interval.max(fastest).min(DAY),
            None if requested == 0.0 && !target.computed => Duration::ZERO,
            None if requested == 0.0 => fastest,
            None => {
                let interval = self.subscriptions.get(&subscription).map(|subscription| subscription.cycle.interval());
                interval.unwrap_or(fastest).max(fastest)
            }
        }
    }
}

/// Puts an item that has something to report on its subscription's list, once.
pub(super) fn list(
    subscriptions: &mut std::collections::BTreeMap<u32, super::Subscription>,
    item: &mut Item,
    key: usize,
) {
    if !item.listed
        && item.has_news()
        && let Some(subscription) = subscriptions.get_mut(&item.subscription)
    {
        item.listed = true;
        subscription.ready.push_back(key);
    }
}

/// Whether changes of this target arrive through `on_change`.
pub(super) fn watched(target: &Target) -> bool {
    target.attribute == VALUE_ATTRIBUTE && !target.computed
}

fn timestamps(requested: TimestampsToReturn) -> Result<TimestampsToReturn, StatusCode> {
    if requested == TimestampsToReturn::Invalid {
        return Err(StatusCode::BadTimestampsToReturnInvalid);
    }
    Ok(requested)
}

/// The filter's part of a result.
fn shown(told: Option<EventFilterResult>) -> ExtensionObject {
    told.map_or_else(ExtensionObject::null, ExtensionObject::from_message)
}

/// The elements of a request's array, of which there must be one.
fn some<T>(elements: Option<&[T]>) -> Result<&[T], StatusCode> {
    match elements {
        Some(elements) if !elements.is_empty() => Ok(elements),
        _ => Err(StatusCode::BadNothingToDo),
    }
}
