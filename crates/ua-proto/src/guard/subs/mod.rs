//! The subscriptions of one session as the guard keeps them: numbers, messages and acknowledgements towards the client
//! are its own; sampling, queues and cycles are the upstream server's.
//!
//! As many Publish requests wait upstream as the client has waiting here, so that an absent client stops both. Each
//! value that comes is checked against the rights of the moment. An item whose right ends is told once, without a value,
//! and disabled upstream until the right is back.

mod audit;
mod events;
mod late;
mod links;
mod message;
pub(super) mod methods;
mod own;
mod publish;
mod restore;
mod services;
mod standing;
mod transfer;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use access_model::{Action, Mono, ScopeIndex};
use opcua_types::{AttributeId, NodeId, StatusCode};

use crate::event;
use crate::guard::own::Look;
use crate::server::front::Ticket;
use links::Links;
use message::Message;
use standing::{Place, Standing, Wanted};

pub(super) use events::{About, EventFilter, clause, filter, taken_apart, withheld};
pub(super) use late::{Late, Strangers};
pub(super) use publish::Own;
pub(super) use services::{Asked, nodes, percent, start};
pub(super) use transfer::Moving;

/// MonitoringMode as it travels.
pub(super) const DISABLED: u32 = 0;
pub(super) const REPORTING: u32 = 2;
/// Interval, lifetime count, keep-alive count, most notifications, whether published, priority.
pub(super) const ORDER: usize = 22;
/// Where in it.
const PUBLISHED: usize = 20;

/// A Publish request of the client without an answer.
pub(super) struct Waiting {
    ticket: Ticket,
    /// What became of its acknowledgements.
    results: Option<Vec<StatusCode>>,
}

/// One monitored item.
pub(super) struct Item {
    /// What the client calls it in notifications.
    client_handle: u32,
    /// What the guard calls it upstream.
    handle: u32,
    /// Its id at the server.
    upstream: u32,
    node: NodeId,
    scope: ScopeIndex,
    attribute: Option<AttributeId>,
    action: Action,
    /// Of an item that reports events: how many fields the client selected.
    fields: Option<usize>,
    /// Of an item on the Server object: which of the guard's own events it hears of.
    own_events: Option<Arc<event::EventFilter>>,
    /// The mode that the client asked for; upstream it is Disabled while the right is missing.
    mode: u32,
    denied: bool,
    /// The one value-less Bad_UserAccessDenied is still to be told.
    denial_waits: bool,
    /// Enabled again, and the server has not said so yet: what comes now was sampled before.
    muted: bool,
    wanted: Wanted,
    place: Place,
    /// Values may be missing before the next.
    lost: bool,
    /// Why the server did not make it again, still to be told.
    failure: Option<StatusCode>,
}

/// One subscription.
pub(super) struct Subscription {
    /// Its id at the server.
    upstream: u32,
    /// Its place among all that this session made or took over upstream.
    made: u64,
    standing: Standing,
    /// As it was asked for: a CreateSubscriptionRequest's body.
    order: [u8; ORDER],
    /// Number of the next message of the server, once one has come.
    expected: Option<u32>,
    /// Number of the next message that carries notifications.
    sequence: u32,
    last_item: u32,
    items: BTreeMap<u32, Item>,
    /// Which item a handle means upstream; 0 while it is being made.
    handles: HashMap<u32, u32>,
    last_handle: u32,
    /// The handle before the first. It is drawn at random for each session, so that another session's items are not taken
    /// for these, should a server mistake one for the other.
    first_handle: u32,
    /// Which item triggers which.
    links: Links,
    /// Messages sent and not acknowledged.
    retained: VecDeque<Message>,
    /// Messages that found no Publish request.
    ready: VecDeque<Message>,
    /// How long it may be silent.
    silence: Duration,
    /// When the client is to hear of it at the latest.
    quiet_at: Mono,
}

/// All subscriptions of a session.
#[derive(Default)]
pub(super) struct Subscriptions {
    /// In boxes, because a map keeps room for eleven and most sessions have one.
    subscriptions: BTreeMap<u32, Box<Subscription>>,
    /// How many this session has made or taken over upstream.
    made: u64,
    waiting: VecDeque<Waiting>,
    /// Last words of subscriptions that the server has ended.
    farewells: VecDeque<(u32, Message)>,
    /// Publish requests at the server.
    outstanding: usize,
    /// The server took no more than this many.
    most_outstanding: Option<usize>,
    /// To be acknowledged with the next Publish: id at the server and number.
    acknowledgements: Vec<(u32, u32)>,
    /// The handle before the first of each new subscription.
    first_handle: u32,
    /// Subscriptions that messages came of and nobody has.
    strangers: Strangers,
    /// How the guard stands, as it was told last.
    look: Look,
    /// The ServiceLevel that the server behind told last.
    level_behind: Option<u8>,
}

impl Subscriptions {
    /// As the default, with handles behind this one.
    pub(super) fn with_handles(first_handle: u32) -> Self {
        Self { first_handle, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.subscriptions.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.subscriptions.is_empty()
    }

    /// When a subscription has been silent for too long, if a Publish request waits.
    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        let quiet = self.subscriptions.values().map(|subscription| subscription.quiet_at).min();
        quiet.filter(|_| !self.waiting.is_empty())
    }

    fn by_upstream(&self, upstream: u32) -> Option<u32> {
        let mut known = self.subscriptions.iter();
        known
            .find(|(_, subscription)| subscription.upstream == upstream && subscription.standing != Standing::Gone)
            .map(|(id, _)| *id)
    }

    /// A subscription that this session has upstream from now on.
    fn hold(&mut self, id: u32, mut subscription: Box<Subscription>) {
        self.made += 1;
        subscription.made = self.made;
        self.subscriptions.insert(id, subscription);
    }

    fn remove(&mut self, id: u32) {
        self.subscriptions.remove(&id);
    }

    fn remove_item(&mut self, id: u32, number: u32) {
        if let Some(subscription) = self.subscriptions.get_mut(&id)
            && let Some(item) = subscription.items.remove(&number)
        {
            subscription.handles.remove(&item.handle);
            subscription.links.forget(number);
        }
    }

    /// How many items there are and are being made.
    fn item_count(&self) -> usize {
        self.subscriptions.values().map(|subscription| subscription.handles.len()).sum()
    }

    fn event_item_count(&self) -> usize {
        let items = self.subscriptions.values().flat_map(|subscription| subscription.items.values());
        items.filter(|item| item.fields.is_some()).count()
    }

    /// Takes the waiting Publish requests with this handle.
    pub(super) fn cancel(&mut self, handle: u32) -> Vec<Ticket> {
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let (cancelled, rest): (Vec<Waiting>, Vec<Waiting>) =
            waiting.partition(|waiting| waiting.ticket.handle == handle);
        self.waiting = rest.into();
        cancelled.into_iter().map(|waiting| waiting.ticket).collect()
    }

    /// The server can be asked again, as often as clients ask.
    pub(super) fn reconnected(&mut self) {
        self.most_outstanding = None;
    }

    /// Every waiting Publish request, to be turned away.
    pub(super) fn take_waiting(&mut self) -> Vec<Ticket> {
        self.waiting.drain(..).map(|waiting| waiting.ticket).collect()
    }
}

impl Subscription {
    /// Whether the client wants notifications.
    fn publishing(&self) -> bool {
        self.order.get(PUBLISHED).is_some_and(|published| *published != 0)
    }

    /// A handle for a new item: a value may come before the answer that tells the item's id.
    fn next_handle(&mut self) -> u32 {
        loop {
            self.last_handle = self.last_handle.wrapping_add(1).max(1);
            if !self.handles.contains_key(&self.last_handle) {
                self.handles.insert(self.last_handle, 0);
                return self.last_handle;
            }
        }
    }

    /// Whether a handle was ever given.
    fn issued(&self, handle: u32) -> bool {
        handle.wrapping_sub(self.first_handle) <= self.last_handle.wrapping_sub(self.first_handle)
    }
}

impl Item {
    /// The right is gone: it is told once and then silent.
    fn deny(&mut self) {
        if !self.denied {
            self.denied = true;
            // An event that may not go out is dropped without a word (OPC 10000-3 §8.55).
            self.denial_waits = self.mode == REPORTING && self.fields.is_none();
        }
        self.muted = false;
    }
}
