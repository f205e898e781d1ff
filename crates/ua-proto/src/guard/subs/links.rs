//! Which item triggers which (SetTriggering, OPC 10000-4 §5.13.5), and links that are to be made again with their items.

use std::collections::BTreeSet;

use access_model::Now;
use opcua_types::{ObjectId, StatusCode};

use super::restore::{AT_ONCE, Step};
use super::services::write_numbers;
use super::standing::Place;
use super::{Subscription, Subscriptions};
use crate::guard::Guard;
use crate::guard::link::Link;
use crate::guard::walk::{diagnostics, end};
use crate::server::front::Reader;

const TRIGGERING: (ObjectId, ObjectId) =
    (ObjectId::SetTriggeringRequest_Encoding_DefaultBinary, ObjectId::SetTriggeringResponse_Encoding_DefaultBinary);

/// The links of a subscription, each from an item to one that reports with it.
#[derive(Default)]
pub(super) struct Links {
    all: BTreeSet<(u32, u32)>,
    /// Those that the server does not have.
    missing: BTreeSet<(u32, u32)>,
}

impl Links {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The server has made a link, or taken it away.
    pub(super) fn set(&mut self, link: (u32, u32), linked: bool) {
        self.missing.remove(&link);
        if linked {
            self.all.insert(link);
        } else {
            self.all.remove(&link);
        }
    }

    /// The item is no more.
    pub(super) fn forget(&mut self, item: u32) {
        for links in [&mut self.all, &mut self.missing] {
            links.retain(|(from, to)| *from != item && *to != item);
        }
    }

    /// The server has none of them.
    pub(super) fn vanish(&mut self) {
        self.missing.clone_from(&self.all);
    }

    /// The server has this item anew.
    pub(super) fn made_again(&mut self, item: u32) {
        let of = self.all.iter().filter(|(from, to)| *from == item || *to == item);
        self.missing.extend(of);
    }

    /// These were asked for, and it will not be heard whether they were made.
    pub(super) fn not_made(&mut self, links: &[(u32, u32)]) {
        self.missing.extend(links.iter().filter(|link| self.all.contains(link)));
    }
}

impl Subscription {
    /// Links of one item that can be made again now, as many as fit a request.
    fn linkable(&self, most: usize) -> Vec<(u32, u32)> {
        let there = |item: &u32| self.items.get(item).is_some_and(|item| item.place == Place::There);
        let mut ready = self.links.missing.iter().filter(|(from, to)| there(from) && there(to)).copied().peekable();
        let Some((first, _)) = ready.peek().copied() else { return Vec::new() };
        ready.take_while(|(from, _)| *from == first).take(most).collect()
    }
}

impl Subscriptions {
    /// Subscriptions with links that can be made again now.
    pub(super) fn linkable(&self) -> Vec<u32> {
        let linkable = |subscription: &Subscription| !subscription.linkable(1).is_empty();
        self.subscriptions.iter().filter(|(_, subscription)| linkable(subscription)).map(|(id, _)| *id).collect()
    }
}

impl Guard {
    /// Makes links again whose items are both there; `false` when there is none.
    pub(super) fn make_links(&mut self, link: &mut Link, id: u32, now: Now) -> bool {
        let most = match self.mapping.as_ref().map_or(0, |mapping| mapping.limits.items) {
            0 => AT_ONCE,
            most => AT_ONCE.min(most as usize),
        };
        let Some(subscription) = link.subs.subscriptions.get_mut(&id) else { return false };
        let links = subscription.linkable(most);
        let upstream = |item: u32| subscription.items.get(&item).map(|item| item.upstream);
        let Some(first) = links.first().and_then(|(from, _)| upstream(*from)) else { return false };
        let others: Vec<u32> = links.iter().filter_map(|(_, to)| upstream(*to)).collect();
        let mut body = [subscription.upstream.to_le_bytes(), first.to_le_bytes()].concat();
        write_numbers(&mut body, &others);
        write_numbers(&mut body, &[]);
        for one in &links {
            subscription.links.missing.remove(one);
        }
        self.ask_own(link, TRIGGERING, body, Step::Links { id, links }, now);
        true
    }
}

/// The answer to SetTriggering: statuses of the links that were added, then of those that were removed.
pub(super) fn statuses(body: &[u8], expected: usize) -> Result<Vec<StatusCode>, StatusCode> {
    let mut given = Vec::new();
    let mut reader = Reader::new(body);
    for _ in 0..2 {
        for _ in 0..reader.array_len(4)? {
            given.push(StatusCode::from(reader.u32()?));
        }
        diagnostics(&mut reader)?;
    }
    end(&reader)?;
    if given.len() == expected { Ok(given) } else { Err(StatusCode::BadUnknownResponse) }
}
