//! Items that report events (OPC 10000-4 §5.13.1.5, §7.22.3): their queues, and how an event gets there.
//!
//! An event goes into a queue only if the session may receive it at that moment, and out of it only if it still may. An
//! event that may not go out is dropped without a word (OPC 10000-3 §8.55): there is no value in whose place a status
//! could stand, and a message about it would tell that something happened.

use std::collections::VecDeque;
use std::sync::Arc;

use access_model::{Now, Rights};
use opcua_types::MonitoringMode;

use super::items::list;
use super::{ItemSource, NodeRef, Subscriptions, date_time};
use crate::event::{Event, EventFilter, Exhausted, Gap, Steps, Viewer};
use crate::space::Space;

/// What an item that reports events has.
pub(super) struct EventQueue {
    pub(super) filter: Arc<EventFilter>,
    queue: VecDeque<Arc<Event>>,
    /// What was dropped since the client heard of it last.
    gap: Gap,
}

impl EventQueue {
    pub(super) fn new(filter: Arc<EventFilter>) -> Self {
        Self { filter, queue: VecDeque::new(), gap: Gap::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.gap.is_none()
    }

    /// What there is to report: the events, and that some are missing.
    pub(super) fn len(&self) -> usize {
        self.queue.len() + usize::from(!self.gap.is_none())
    }

    pub(super) fn clear(&mut self) {
        self.queue.clear();
        self.gap = Gap::default();
    }

    /// Keeps what may still be received.
    pub(super) fn retain(&mut self, keep: impl FnMut(&Arc<Event>) -> bool) {
        self.queue.retain(keep);
    }

    /// How many were lost at the front of the queue.
    fn push(&mut self, event: Arc<Event>, capacity: usize, discard_oldest: bool) -> usize {
        self.queue.push_back(event);
        self.fit(capacity, discard_oldest)
    }

    /// An event is lost that the filter would have cost too much for.
    fn miss(&mut self) {
        self.gap.dear = true;
    }

    /// Drops what is too much: the oldest, or the newest but the last. How many of the oldest went.
    pub(super) fn fit(&mut self, capacity: usize, discard_oldest: bool) -> usize {
        let mut lost = 0;
        while self.queue.len() > capacity {
            self.gap.full = true;
            if discard_oldest || capacity <= 1 {
                self.queue.pop_front();
                lost += 1;
            } else {
                let newest = self.queue.pop_back();
                self.queue.pop_back();
                self.queue.extend(newest);
            }
        }
        lost
    }

    /// The next event: the one that tells of an overflow stands where events are missing, in front of a queue that drops
    /// the oldest and behind one that drops the newest. It takes no place of its own in the queue.
    pub(super) fn pop(&mut self, discard_oldest: bool, overflow: impl FnOnce(Gap) -> Event) -> Option<Arc<Event>> {
        let told_first = discard_oldest || self.queue.is_empty();
        if !self.gap.is_none() && told_first {
            return Some(Arc::new(overflow(std::mem::take(&mut self.gap))));
        }
        self.queue.pop_front()
    }
}

impl Subscriptions {
    /// Whether an item here reports events.
    #[must_use]
    pub fn wants_events(&self) -> bool {
        !self.event_items.is_empty()
    }

    /// Something happened: items at a node that it reaches take it, if their filter lets it pass and the session may
    /// receive it. All the filters of a session together get so many steps: items that none are left for lose the event, and
    /// tell so.
    pub(crate) fn on_event(&mut self, event: &Arc<Event>, source: &mut dyn ItemSource) {
        let about = event.about();
        let mut steps = Steps::new(Steps::LIVE);
        let mut fired = Vec::new();
        for key in &self.event_items {
            let Some(item) = self.items.get_mut(*key) else { continue };
            let notifier = item.target.node;
            let (capacity, discard_oldest) = (item.capacity, item.discard_oldest);
            let Some(events) = &mut item.events else { continue };
            if item.mode == MonitoringMode::Disabled || !event.reaches(notifier) {
                continue;
            }
            if !source.may_receive(notifier, about) {
                continue;
            }
            match events.filter.passes(event, &Through(source), &mut steps) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(Exhausted) => {
                    events.miss();
                    list(&mut self.subscriptions, item, *key);
                    continue;
                }
            }
            let lost = events.push(Arc::clone(event), capacity, discard_oldest);
            item.released = item.released.saturating_sub(lost);
            list(&mut self.subscriptions, item, *key);
            if !item.links.is_empty() {
                fired.push(*key);
            }
        }
        fired.into_iter().for_each(|key| self.fire(key));
    }
}

/// Lets a filter look through the eyes of a session.
pub(super) struct Through<'a>(pub(super) &'a dyn ItemSource);

impl Viewer for Through<'_> {
    fn space(&self) -> &Space {
        self.0.space()
    }

    fn sees(&self, node: NodeRef) -> bool {
        self.0.sees(node)
    }

    fn holds(&self, node: NodeRef, rights: Rights) -> bool {
        self.0.holds(node, rights)
    }
}

/// The id of an event that tells of an overflow: time, subscription and a count make it unlike any other of this server.
pub(super) fn overflow_id(subscription: u32, count: u64, now: Now) -> [u8; 16] {
    let [s0, s1, s2, s3] = subscription.to_be_bytes();
    let [t0, t1, t2, t3, t4, t5, t6, t7] = date_time(now).ticks().to_be_bytes();
    let [.., c0, c1, c2, c3] = count.to_be_bytes();
    [t0, t1, t2, t3, t4, t5, t6, t7, s0, s1, s2, s3, c0, c1, c2, c3]
}
