//! Events on their way to the sessions that listen, and into history. While nobody wants them, nothing is made of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use access_model::{Now, Rights};
use opcua_types::NodeClass;

use super::Server;
use super::front::Handed;
use super::occasion;
use super::timers::{SessionKey, Timer};
use crate::Entropy;
use crate::event::{About, Event, NewEvent};
use crate::space::ns0;

/// Who listens, and the ids of events.
pub(crate) struct EventDesk {
    listeners: BTreeSet<SessionKey>,
    /// Tells the events of this run of the server from those of another.
    run: [u8; 8],
    last: u64,
}

impl EventDesk {
    pub(crate) fn new(entropy: &mut dyn Entropy) -> Self {
        let mut run = [0; 8];
        entropy.fill(&mut run);
        Self { listeners: BTreeSet::new(), run, last: 0 }
    }

    /// Whether a session has items that report events.
    pub(crate) fn listens(&mut self, session: SessionKey, listens: bool) {
        if listens {
            self.listeners.insert(session);
        } else if !self.listeners.is_empty() {
            self.listeners.remove(&session);
        }
    }

    /// Whether anybody listens.
    pub(crate) fn heard(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// The id of the next event.
    pub(crate) fn next_id(&mut self) -> [u8; 16] {
        self.last += 1;
        let mut id = [0; 16];
        let parts = self.run.into_iter().chain(self.last.to_be_bytes());
        id.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        id
    }

    /// The ids of this many events.
    pub(crate) fn next_ids(&mut self, count: usize) -> Vec<[u8; 16]> {
        (0..count).map(|_| self.next_id()).collect()
    }
}

impl Server {
    /// The application raises an event.
    pub(super) fn application_event(&mut self, new: NewEvent, now: Now) {
        let NewEvent { event_type, source, severity, message, fields, values } = new;
        let is_type = self.space.class(event_type) == NodeClass::ObjectType
            && self.space.is_subtype_of(event_type, ns0::BASE_EVENT_TYPE);
        if !is_type || !self.space.contains(source) {
            tracing::warn!(event_type = event_type.0, source = source.0, "the application raised what is no event");
            return;
        }
        if !self.events.heard() && !self.space.keeps_events() {
            return;
        }
        let about = About { event_type, source, audit: false };
        let mut event = Event::new(&self.space, about, self.events.next_id(), severity, &message, now);
        for (name, value) in fields {
            event.set_field(name, value, None);
        }
        for (name, node) in values.into_iter().filter(|(_, node)| self.space.class(*node) == NodeClass::Variable) {
            let value = self.space.value(node, now.unix).value.unwrap_or_default();
            event.set_field(name, value, Some((node, Rights::READ)));
        }
        if self.is_guarding() {
            return self.raise(event, now);
        }
        let event = Arc::new(event);
        self.space.remember_event(&event);
        self.tell(&event, now);
    }

    /// Tells those who listen what was recorded.
    #[inline]
    pub(super) fn tell_occasions(&mut self, now: Now) {
        while let Some(occasion) = self.audit.poll_occasion() {
            let made = occasion::events(&occasion, &self.config, &self.space, &mut self.events, now);
            made.into_iter().for_each(|event| self.raise(event, now));
        }
    }

    /// Hands an event to every session that listens.
    pub(super) fn raise(&mut self, event: Event, now: Now) {
        if self.is_guarding() {
            return self.hand(Handed::Event(Box::new(event)));
        }
        self.tell(&Arc::new(event), now);
    }

    fn tell(&mut self, event: &Arc<Event>, now: Now) {
        for key in self.events.listeners.clone() {
            self.at_desk(key, now, |desk, subscriptions| subscriptions.on_event(event, desk));
            let at = self.sessions.get(key).and_then(|session| session.subscriptions.poll_timeout());
            if let Some(at) = at {
                self.timers.at_latest(Timer::Subscriptions(key), at);
            }
        }
    }
}
