//! One monitored item: its filter, its queue and whether the session may see its values.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use access_model::Mono;
use opcua_types::{DataValue, MonitoringMode, NumericRange, StatusCode, TimestampsToReturn};

use super::Target;
use super::events::EventQueue;
use super::filter::Filter;
use crate::event::EventFilter;
use crate::space::read_range;

/// InfoType DataValue (bit 10) and Overflow (bit 7) of a status code (OPC 10000-4 §7.39).
const OVERFLOW: u32 = 0x480;

pub(super) struct Item {
    /// Tells this item from an earlier one in the same slot.
    pub(super) serial: u64,
    pub(super) subscription: u32,
    pub(super) client_handle: u32,
    pub(super) target: Target,
    pub(super) index_range: NumericRange,
    pub(super) timestamps: TimestampsToReturn,
    pub(super) mode: MonitoringMode,
    pub(super) filter: Filter,
    /// Zero: every change counts.
    pub(super) interval: Duration,
    pub(super) capacity: usize,
    pub(super) discard_oldest: bool,
    pub(super) queue: VecDeque<DataValue>,
    /// The items, by id, that report when this one has something new.
    pub(super) links: Vec<u32>,
    /// In mode Sampling: how many entries of the queue a triggering item has set free.
    pub(super) released: usize,
    /// The events of an item that reports events and not values.
    pub(super) events: Option<Box<EventQueue>>,
    /// What the filter compares with: the last value that went into the queue.
    last: Option<DataValue>,
    /// The session may not see the values; nothing enters the queue until it may again.
    pub(super) denied: bool,
    /// The one value-less Bad_UserAccessDenied still has to be reported.
    pub(super) denial_waits: bool,
    /// When the next sample is to be taken, if one is planned.
    pub(super) due: Option<Mono>,
    /// The sampling interval allows no sample before this instant.
    pub(super) free_at: Mono,
    /// Listed among those that have something to report.
    pub(super) listed: bool,
}

/// What a client may change about an item later.
pub(super) struct ItemParameters {
    pub(super) client_handle: u32,
    pub(super) timestamps: TimestampsToReturn,
    pub(super) filter: Filter,
    /// For an item that reports events, in place of `filter`.
    pub(super) events: Option<Arc<EventFilter>>,
    pub(super) interval: Duration,
    pub(super) capacity: usize,
    pub(super) discard_oldest: bool,
}

impl Item {
    pub(super) fn new(
        (serial, subscription): (u64, u32),
        target: Target,
        index_range: NumericRange,
        parameters: ItemParameters,
    ) -> Self {
        Self {
            serial,
            subscription,
            client_handle: parameters.client_handle,
            target,
            index_range,
            timestamps: parameters.timestamps,
            mode: MonitoringMode::Disabled,
            filter: parameters.filter,
            interval: parameters.interval,
            capacity: parameters.capacity,
            discard_oldest: parameters.discard_oldest,
            queue: VecDeque::new(),
            links: Vec::new(),
            released: 0,
            events: parameters.events.map(|filter| Box::new(EventQueue::new(filter))),
            last: None,
            denied: false,
            denial_waits: false,
            due: None,
            free_at: Mono::ZERO,
            listed: false,
        }
    }

    pub(super) fn modify(&mut self, parameters: ItemParameters) {
        self.client_handle = parameters.client_handle;
        self.timestamps = parameters.timestamps;
        self.filter = parameters.filter;
        self.interval = parameters.interval;
        self.discard_oldest = parameters.discard_oldest;
        self.capacity = parameters.capacity;
        while self.queue.len() > self.capacity {
            self.shed();
        }
        if let (Some(events), Some(filter)) = (&mut self.events, parameters.events) {
            events.filter = filter;
            let lost = events.fit(self.capacity, self.discard_oldest);
            self.released = self.released.saturating_sub(lost);
        }
    }

    /// Whether there is something to report and the mode lets it be reported.
    pub(super) fn has_news(&self) -> bool {
        match self.mode {
            MonitoringMode::Reporting => self.holds_something(),
            MonitoringMode::Sampling => self.released > 0 && self.holds_something(),
            MonitoringMode::Disabled => false,
        }
    }

    fn holds_something(&self) -> bool {
        self.denial_waits || !self.queue.is_empty() || self.events.as_ref().is_some_and(|events| !events.is_empty())
    }

    /// A triggering item has something new: what an item in mode Sampling holds now is reported, what comes later is not
    /// (OPC 10000-4 §5.13.1.6). A refusal that waits counts as one entry.
    pub(super) fn release(&mut self) {
        if self.mode == MonitoringMode::Sampling && self.holds_something() {
            let held = self.events.as_ref().map_or(self.queue.len(), |events| events.len());
            self.released = held.max(1);
        }
    }

    /// One entry was taken out of the queue to be reported, or was lost.
    pub(super) fn reported(&mut self) {
        self.released = self.released.saturating_sub(1);
    }

    /// A sampled value: queued if the filter lets it pass. Whether it does.
    pub(super) fn take(&mut self, value: &DataValue) -> bool {
        let value = self.cut(value);
        if self.last.as_ref().is_some_and(|last| !self.filter.passes(last, &value)) {
            return false;
        }
        self.last = Some(value.clone());
        self.queue.push_back(value);
        if self.queue.len() > self.capacity {
            self.shed();
        }
        true
    }

    /// The next sample is new, whatever the filter compares it with.
    pub(super) fn renew(&mut self) {
        self.last = None;
    }

    /// The session may not see the values (any more): what was queued is dropped, one denial is reported.
    /// An item that reports events just loses them: it has no value in whose place a status could stand.
    pub(super) fn deny(&mut self) {
        if let Some(events) = &mut self.events {
            self.released = 0;
            return events.clear();
        }
        self.queue.clear();
        self.released = self.released.min(1);
        self.last = None;
        if !self.denied {
            self.denied = true;
            self.denial_waits = true;
        }
    }

    /// Forgets everything that was sampled, as in mode Disabled.
    pub(super) fn forget(&mut self) {
        if let Some(events) = &mut self.events {
            events.clear();
        }
        self.queue.clear();
        self.last = None;
        self.denied = false;
        self.denial_waits = false;
        self.released = 0;
        self.due = None;
    }

    /// Drops one value of an overfull queue and marks its neighbour, unless the queue holds a single value.
    fn shed(&mut self) {
        let marked = if self.discard_oldest || self.capacity <= 1 {
            self.queue.pop_front();
            self.reported();
            self.queue.front_mut()
        } else {
            let newest = self.queue.pop_back();
            self.queue.pop_back();
            self.queue.extend(newest);
            self.queue.back_mut()
        };
        if let Some(value) = marked
            && self.capacity > 1
        {
            value.status = Some(StatusCode::from(value.status().bits() | OVERFLOW));
        }
    }

    /// Applies the index range; a range that fits no data is a value with a bad status, not an error.
    fn cut(&self, value: &DataValue) -> DataValue {
        let mut value = value.clone();
        if let (true, Some(whole)) = (self.index_range.has_range(), &value.value) {
            match read_range(whole, &self.index_range) {
                Ok(part) => value.value = Some(part),
                Err(status) => (value.value, value.status) = (None, Some(status)),
            }
        }
        value
    }

    /// Removes the timestamps that the client did not ask for.
    pub(super) fn dress(&self, mut value: DataValue) -> DataValue {
        use TimestampsToReturn as T;
        if !matches!(self.timestamps, T::Source | T::Both) {
            (value.source_timestamp, value.source_picoseconds) = (None, None);
        }
        if !matches!(self.timestamps, T::Server | T::Both) {
            (value.server_timestamp, value.server_picoseconds) = (None, None);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscription::NodeRef;
    use opcua_types::Variant;

    fn item(capacity: usize, discard_oldest: bool) -> Item {
        let target = Target { node: NodeRef(1), attribute: 13, computed: false, numeric: true, range: None };
        let parameters = ItemParameters {
            client_handle: 1,
            timestamps: TimestampsToReturn::Both,
            filter: Filter::default(),
            events: None,
            interval: Duration::ZERO,
            capacity,
            discard_oldest,
        };
        Item::new((1, 1), target, NumericRange::None, parameters)
    }

    fn value(number: i32) -> DataValue {
        DataValue { value: Some(Variant::Int32(number)), ..DataValue::null() }
    }

    fn contents(item: &Item) -> Vec<(i32, bool)> {
        let number = |value: &DataValue| match value.value {
            Some(Variant::Int32(number)) => number,
            _ => i32::MIN,
        };
        item.queue.iter().map(|value| (number(value), value.status().bits() & OVERFLOW == OVERFLOW)).collect()
    }

    /// OPC 10000-4 §5.13.1.5: which value goes and which one carries the overflow bit.
    #[test]
    fn a_full_queue_drops_by_policy_and_marks_the_gap() {
        let cases = [
            (3, true, vec![(3, true), (4, false), (5, false)]),
            (3, false, vec![(1, false), (2, false), (5, true)]),
            (1, true, vec![(5, false)]),
            (1, false, vec![(5, false)]),
        ];
        for (capacity, discard_oldest, expected) in cases {
            let mut item = item(capacity, discard_oldest);
            (1..=5).for_each(|number| assert!(item.take(&value(number))));
            assert_eq!(contents(&item), expected, "capacity {capacity}, oldest {discard_oldest}");
        }
    }

    #[test]
    fn a_smaller_queue_sheds_by_policy() {
        let mut item = item(4, true);
        (1..=4).for_each(|number| assert!(item.take(&value(number))));
        let smaller = ItemParameters {
            client_handle: 1,
            timestamps: TimestampsToReturn::Both,
            filter: Filter::default(),
            events: None,
            interval: Duration::ZERO,
            capacity: 2,
            discard_oldest: true,
        };
        item.modify(smaller);
        assert_eq!(contents(&item), [(3, true), (4, false)]);
    }

    #[test]
    fn a_denial_is_reported_once_and_takes_the_queue_with_it() {
        let mut item = item(4, true);
        item.take(&value(1));
        item.deny();
        assert!(item.queue.is_empty() && item.denial_waits);
        item.denial_waits = false;
        item.deny();
        assert!(!item.denial_waits, "only one");
    }
}
