//! What happens to running items when rights end, shrink or return (DESIGN invariant 2).

use std::collections::BTreeMap;

use access_model::Now;
use opcua_types::MonitoringMode;

use super::items::list;
use super::publish::{Entry, Told};
use super::{ItemSource, NodeRef, Sample, Subscriptions};

impl Subscriptions {
    /// The session's grant ended. Every queued value and every sent message kept for Republish is dropped at once; each
    /// running item reports one value-less Bad_UserAccessDenied with the next message and then nothing, until
    /// [`Subscriptions::recheck`] finds rights again.
    pub fn silence(&mut self) {
        for (key, item) in &mut self.items {
            if item.mode != MonitoringMode::Disabled {
                item.deny();
                list(&mut self.subscriptions, item, key);
            }
        }
        for subscription in self.subscriptions.values_mut() {
            subscription.forget_retained(|_| false);
        }
    }

    /// The session's rights changed or returned. Items that they no longer cover fall silent as in
    /// [`Subscriptions::silence`]; items that they cover again resume with the present value; the others notice nothing. Queued events that may not be
    /// received any more are dropped.
    pub fn recheck(&mut self, source: &mut dyn ItemSource, now: Now) {
        for key in &self.event_items {
            let Some(item) = self.items.get_mut(*key) else { continue };
            let notifier = item.target.node;
            if let Some(events) = &mut item.events {
                events.retain(|event| source.may_receive(notifier, event.about()));
                item.released = item.released.min(events.len());
            }
        }
        let values = |item: &super::item::Item| item.mode != MonitoringMode::Disabled && item.events.is_none();
        let running = self.items.iter().filter(|(_, item)| values(item));
        let keys: Vec<usize> = running.map(|(key, _)| key).collect();
        for key in keys {
            let Some(item) = self.items.get_mut(key) else { continue };
            match source.sample(item.target.node, item.target.attribute) {
                Sample::Denied => item.deny(),
                Sample::Value(value) if item.denied => {
                    item.denied = false;
                    item.free_at = now.mono + item.interval;
                    let _triggers_nothing = item.take(&value);
                }
                Sample::Value(_) => {}
            }
            list(&mut self.subscriptions, item, key);
        }
        let mut known: BTreeMap<(NodeRef, u32), bool> = BTreeMap::new();
        let mut allowed = |entry: &Entry| match &entry.told {
            Told::Denial(_) => true,
            Told::Event { event, .. } => source.may_receive(entry.node, event.about()),
            Told::Value(_) => *known
                .entry((entry.node, entry.attribute))
                .or_insert_with(|| !matches!(source.sample(entry.node, entry.attribute), Sample::Denied)),
        };
        for subscription in self.subscriptions.values_mut() {
            subscription.forget_retained(|message| message.entries.iter().all(&mut allowed));
        }
    }
}
