//! Messages of the server: whose they are, and what of them is kept.

use access_model::Now;
use opcua_types::StatusCode;

use super::super::events::taken_apart;
use super::super::message::{Entry, Incoming, Message, Told, overflowed};
use super::super::own::level_of;
use super::super::{Subscription, Subscriptions};
use crate::guard::Guard;
use crate::guard::link::Link;
use crate::guard::links::Owner;
use crate::server::front::SessionKey;

/// Messages that wait for a session that does not ask for them.
const MAX_READY: usize = 64;

impl Guard {
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

    pub(super) fn message_came(&mut self, key: SessionKey, link: &mut Link, body: &[u8], now: Now) {
        let subs = &mut link.subs;
        let Ok(mut incoming) = Incoming::read(body) else {
            return self.misfit(key, "the answer to Publish cannot be read", now);
        };
        if self.has_moved(subs, &incoming) {
            incoming.status = None;
        }
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

    /// The server tells the session that had a subscription that it is another's now. The guard has moved it or is about
    /// to, as the answer to that says, and tells its client itself; whoever has it keeps it.
    fn has_moved(&self, subs: &Subscriptions, incoming: &Incoming<'_>) -> bool {
        let upstream = incoming.subscription;
        incoming.status == Some(StatusCode::GoodSubscriptionTransferred)
            && (subs.by_upstream(upstream).is_none() || self.links.values().any(|link| link.moves(upstream)))
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
    pub(in crate::guard::subs) fn take_in(
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
        let (mut unknown, mut unnamed, mut level) = (false, false, None);
        for (handle, value) in incoming.values {
            let Some(number) = subscription.handles.get(&handle).copied() else {
                // An item that was deleted while its value was on the way, or one that never was.
                unknown |= !subscription.issued(handle);
                continue;
            };
            let mut value = value.to_vec();
            if let Some(item) = subscription.items.get_mut(&number) {
                if item.tells_level() {
                    level = level_of(&value).or(level);
                }
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
        subs.level_behind = level.or(subs.level_behind);
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
}

impl Subscription {
    /// A message came with this number, or a keep-alive that tells the number of the next.
    pub(super) fn arrived(&mut self, sequence: u32, numbered: bool) {
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
}
