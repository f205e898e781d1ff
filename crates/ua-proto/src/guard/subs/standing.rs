//! What the guard keeps of subscriptions and items so that they can be made again upstream, and how they stand there.

use access_model::ScopeIndex;
use opcua_types::{NodeId, StatusCode};

use super::services::revised;
use super::{Subscription, Subscriptions};
use crate::guard::walk::{end, results};
use crate::server::front::Reader;

/// Where a subscription stands upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is there, and nothing of it is missing.
    Live,
    /// The connection was lost: it may be there, and messages of it may be missing.
    Interrupted,
    /// It is to be made again.
    Gone,
    /// It was made again; some of its items were not.
    Bare,
}

/// Where an item stands upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is there.
    There,
    /// It is to be made again as soon as its right allows.
    Missing,
    /// It is being made again.
    Asked,
    /// The server would not make it again.
    Refused,
}

/// How an item was asked for.
pub(super) struct Wanted {
    /// The ReadValueId, with the NodeId that every session knows.
    pub(super) item: Box<[u8]>,
    /// Sampling interval, filter, queue size, discard policy.
    pub(super) parameters: Box<[u8]>,
    pub(super) timestamps: i32,
}

impl Wanted {
    /// Whether values wait in a queue, whose overflow is told.
    pub(super) fn queued(&self) -> bool {
        let size = self.parameters.last_chunk::<5>().map(|[a, b, c, d, _]| u32::from_le_bytes([*a, *b, *c, *d]));
        size.is_some_and(|size| size > 1)
    }
}

impl Subscriptions {
    /// The connection or the session upstream is lost.
    pub(in crate::guard) fn interrupt(&mut self) {
        for subscription in self.subscriptions.values_mut() {
            match subscription.standing {
                Standing::Live => subscription.standing = Standing::Interrupted,
                // Half made: what there is of it is made once more.
                Standing::Bare => subscription.vanish(),
                Standing::Interrupted | Standing::Gone => {}
            }
            for item in subscription.items.values_mut().filter(|item| item.place == Place::Asked) {
                item.place = Place::Missing;
            }
        }
    }

    /// The session upstream is another one.
    pub(in crate::guard) fn forget_session(&mut self) {
        self.outstanding = 0;
        self.most_outstanding = None;
        self.acknowledgements.clear();
        self.strangers.forget();
        self.interrupt();
    }

    /// Nothing has outlived its session.
    pub(in crate::guard) fn vanish(&mut self) {
        for subscription in self.subscriptions.values_mut() {
            if subscription.standing == Standing::Interrupted {
                subscription.vanish();
            }
        }
    }

    /// What the ids mean upstream is not known any more: the client is told that each subscription has ended.
    pub(in crate::guard) fn end_all(&mut self, status: StatusCode) {
        for id in self.subscriptions.keys().copied().collect::<Vec<_>>() {
            self.bid_farewell(id, status);
        }
    }

    /// Whether a subscription here has one of these ids upstream.
    pub(in crate::guard) fn hold_any(&self, upstream: &[u32]) -> bool {
        upstream.iter().any(|id| self.by_upstream(*id).is_some())
    }

    /// The ids upstream of all that are known to be there.
    pub(in crate::guard) fn all_upstream(&self) -> Vec<u32> {
        let all = self.subscriptions.values();
        let there = all.filter(|subscription| matches!(subscription.standing, Standing::Live | Standing::Bare));
        there.map(|subscription| subscription.upstream).collect()
    }

    /// The ids upstream of what may have outlived its session.
    pub(in crate::guard) fn survivors(&self) -> Vec<u32> {
        self.interrupted().map(|(_, upstream)| upstream).collect()
    }

    pub(super) fn interrupted(&self) -> impl Iterator<Item = (u32, u32)> {
        let all = self.subscriptions.iter();
        let interrupted = all.filter(|(_, subscription)| subscription.standing == Standing::Interrupted);
        interrupted.map(|(id, subscription)| (*id, subscription.upstream))
    }

    /// Scopes by another table of the same namespaces. Each item lies where the node does that the server samples for it,
    /// whatever the name means by now that the client gave.
    pub(in crate::guard) fn rescope(&mut self, scope: impl Fn(&NodeId) -> ScopeIndex) {
        for subscription in self.subscriptions.values_mut() {
            for item in subscription.items.values_mut() {
                let node = Reader::new(&item.wanted.item).node_id();
                item.scope = node.map_or(ScopeIndex::NOWHERE, |node| scope(&node));
            }
        }
    }

    /// The server does not have it where it should be; says whether it was thought there.
    pub(super) fn strayed(&mut self, id: u32, upstream: u32) -> bool {
        let subscription = self.subscriptions.get_mut(&id).filter(|known| known.upstream == upstream);
        subscription.map(|known| known.vanish()).is_some()
    }

    pub(super) fn settle(&mut self, id: u32) {
        if let Some(subscription) = self.subscriptions.get_mut(&id) {
            subscription.standing = Standing::Live;
        }
    }

    /// The answer to TransferSubscriptions.
    pub(super) fn transferred(&mut self, ids: &[u32], body: Option<&[u8]>) {
        let result = |reader: &mut Reader<'_>| {
            reader.u32()?;
            let available = reader.array_len(4)?;
            reader.bytes(available.saturating_mul(4)).map(drop)
        };
        let results = body.and_then(|body| results(body, ids.len(), result).ok()).unwrap_or_default();
        for (place, id) in ids.iter().enumerate() {
            let status = results.get(place).and_then(|span| Reader::new(span).u32().ok()).map(StatusCode::from);
            let Some(subscription) = self.subscriptions.get_mut(id) else { continue };
            if status.is_some_and(|status| status.is_good()) {
                self.made += 1;
                subscription.made = self.made;
            } else {
                subscription.vanish();
            }
        }
    }

    /// The answer to CreateSubscription.
    pub(super) fn made_again(&mut self, id: u32, body: &[u8]) -> Result<(), StatusCode> {
        let mut reader = Reader::new(body);
        let upstream = reader.u32()?;
        let (_, silence) = revised(&mut reader)?;
        end(&reader)?;
        if self.by_upstream(upstream).is_some() {
            return Err(StatusCode::BadUnknownResponse);
        }
        if let Some(subscription) = self.subscriptions.get_mut(&id) {
            self.made += 1;
            (subscription.upstream, subscription.made, subscription.silence) = (upstream, self.made, silence);
            (subscription.standing, subscription.expected) = (Standing::Bare, None);
        }
        Ok(())
    }
}

impl Subscription {
    /// The server does not have it.
    pub(super) fn vanish(&mut self) {
        self.standing = Standing::Gone;
        self.expected = None;
        self.links.vanish();
        for item in self.items.values_mut() {
            (item.place, item.muted) = (Place::Missing, false);
        }
    }

    /// Messages of the server are missing for good.
    pub(super) fn lose(&mut self) {
        for item in self.items.values_mut() {
            item.lost = item.wanted.queued();
        }
    }
}
