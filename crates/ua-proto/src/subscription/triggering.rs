//! SetTriggering (OPC 10000-4 §5.13.1.6 and §5.13.5): when an item has something new, the items linked to it report what
//! they hold. A link gives no right: what is reported passes [`super::ItemSource::deliver`] as everything else does, and an
//! item whose own values the session may not see has nothing new, so it triggers nothing.

use opcua_types::{SetTriggeringRequest, StatusCode};

use super::Subscriptions;
use super::items::list;

impl Subscriptions {
    /// SetTriggering: one status for each link to add and one for each to remove. Links are removed first.
    ///
    /// # Errors
    /// Bad_SubscriptionIdInvalid, Bad_NothingToDo; Bad_MonitoredItemIdInvalid if there is no such triggering item.
    pub fn set_triggering(
        &mut self,
        request: &SetTriggeringRequest,
    ) -> Result<(Vec<StatusCode>, Vec<StatusCode>), StatusCode> {
        let subscription = request.subscription_id;
        self.subscription(subscription)?;
        let key = self.item_key(subscription, request.triggering_item_id);
        let add = request.links_to_add.as_deref().unwrap_or_default();
        let remove = request.links_to_remove.as_deref().unwrap_or_default();
        if add.is_empty() && remove.is_empty() {
            return Err(StatusCode::BadNothingToDo);
        }
        let key = key.ok_or(StatusCode::BadMonitoredItemIdInvalid)?;
        let mut links = self.items.get_mut(key).map(|item| std::mem::take(&mut item.links)).unwrap_or_default();
        let elsewhere = self.links.saturating_sub(links.len());
        let mut unlink = |id: &u32| match links.iter().position(|known| known == id) {
            Some(at) => {
                links.swap_remove(at);
                StatusCode::Good
            }
            None => StatusCode::BadMonitoredItemIdInvalid,
        };
        let removed = remove.iter().map(&mut unlink).collect();
        // An item that is gone leaves its links behind until its place is needed.
        links.retain(|id| self.item_key(subscription, *id).is_some());
        let mut known: std::collections::BTreeSet<u32> = links.iter().copied().collect();
        let mut link = |id: &u32| match self.item_key(subscription, *id) {
            None => StatusCode::BadMonitoredItemIdInvalid,
            Some(_) if known.contains(id) => StatusCode::Good,
            Some(_) if elsewhere.saturating_add(links.len()) >= self.limits.max_links => {
                StatusCode::BadTooManyMonitoredItems
            }
            Some(_) => {
                known.insert(*id);
                links.push(*id);
                StatusCode::Good
            }
        };
        let added = add.iter().map(&mut link).collect();
        self.links = elsewhere.saturating_add(links.len());
        if let Some(item) = self.items.get_mut(key) {
            item.links = links;
        }
        Ok((added, removed))
    }

    /// An item has something new: those that are linked to it report what they hold at this moment.
    pub(super) fn fire(&mut self, key: usize) {
        let Some(item) = self.items.get(key) else { return };
        let (subscription, links) = (item.subscription, item.links.clone());
        for id in links {
            let Some(linked) = self.item_key(subscription, id) else { continue };
            if let Some(item) = self.items.get_mut(linked) {
                item.release();
                list(&mut self.subscriptions, item, linked);
            }
        }
    }
}
