//! What happens to items and messages when rights end or come back, and Republish.

use std::collections::{BTreeMap, BTreeSet};

use access_model::{Action, AuditKind, Now, ScopeIndex};
use opcua_types::{NodeId, ObjectId, StatusCode};

use super::super::events::About;
use super::super::message::Told;
use super::super::standing::{Place, Standing};
use super::super::{DISABLED, Item, Subscription};
use super::Own;
use crate::client::{RawRequest, Request};
use crate::guard::Guard;
use crate::guard::desk::{Decision, against, check};
use crate::guard::link::Link;
use crate::guard::walk::end;
use crate::server::front::{Counted, Reader, SessionKey, Sighted, Taken, write_header, write_len};

const MODE: (ObjectId, ObjectId) = (
    ObjectId::SetMonitoringModeRequest_Encoding_DefaultBinary,
    ObjectId::SetMonitoringModeResponse_Encoding_DefaultBinary,
);
const REPUBLISH: ObjectId = ObjectId::RepublishResponse_Encoding_DefaultBinary;

impl Guard {
    /// Asks and counts at the moment of delivery.
    pub(super) fn delivers(&mut self, key: SessionKey, action: Action, node: (&NodeId, ScopeIndex), now: Now) -> bool {
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
    pub(super) fn may_receive(&self, key: SessionKey, item: &Item, about: &About, now: Now) -> bool {
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
    pub(super) fn received(&mut self, key: SessionKey, about: &About, now: Now) {
        let Some(mapping) = self.mapping.clone().filter(|_| self.front.observes(key, now)) else { return };
        let [source, kind] = about.scopes(&mapping.table, self.front.audit_scope());
        for (node, scope) in [(Some(about.source()), source), (about.kind(), kind)] {
            let Some(node) = node.filter(|node| !node.is_null()) else { continue };
            let against = against(self.front.granted_to(key, scope, now), Action::ReceiveEvents);
            let sight = Sighted { kind: AuditKind::Notify, action: Action::ReceiveEvents, scope, against };
            self.front.observe(key, sight, node, now);
        }
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
            let Subscription { items, retained, ready, .. } = &mut **subscription;
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

/// Tells the server to sample items, or not to.
pub(in crate::guard::subs) fn set_mode(link: &mut Link, id: u32, mode: u32, items: Vec<u32>, now: Now) {
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
