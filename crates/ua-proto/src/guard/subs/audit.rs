//! The guard's own audit events (OPC 10000-5 §6.4.3) for items on the Server object, beside the events of the server
//! behind it: what clients did through the guard, to those who may receive events of the scope that is set aside for
//! them and of the node it was done to.

use std::sync::Arc;

use access_model::{Now, Rights};
use opcua_types::{NodeId, ObjectId, QualifiedName, Variant};

use super::events::About;
use super::message::{Entry, Message, Told};
use super::{Item, REPORTING};
use crate::event::{Event, EventFilter, Steps, Viewer};
use crate::guard::Guard;
use crate::guard::desk::{Desk, encoded};
use crate::guard::links::Owner;
use crate::server::Server;
use crate::server::front::{SessionKey, ticks, write_len};
use crate::space::{NodeRef, Space};

/// Most messages that wait for one client; beyond them its audit events are dropped.
const MAX_WAITING: usize = 1_000;

/// Looks at an event with the rights of a session on the guard's own nodes.
struct Eyes<'a> {
    front: &'a Server,
    key: SessionKey,
    now: Now,
}

impl Eyes<'_> {
    fn rights(&self, node: NodeRef) -> Rights {
        self.front.granted_to(self.key, self.front.space().scope(node), self.now)
    }
}

impl Viewer for Eyes<'_> {
    fn space(&self) -> &Space {
        self.front.space()
    }

    fn sees(&self, node: NodeRef) -> bool {
        self.rights(node).contains(Rights::BROWSE)
    }

    fn holds(&self, node: NodeRef, rights: Rights) -> bool {
        self.rights(node).contains(rights)
    }
}

/// The filter by which an item on the Server object hears of the guard's own events. One that names types which only the
/// server behind it knows hears of none.
pub(super) fn filter(desk: &mut Desk<'_>, node: &NodeId, body: &[u8]) -> Option<Arc<EventFilter>> {
    if *node != ObjectId::Server {
        return None;
    }
    let eyes = Eyes { front: desk.front, key: desk.key, now: desk.now };
    let outcome = EventFilter::parse(body, &eyes).ok()?;
    desk.front.audit_log().set_heard(true);
    Some(Arc::new(outcome.filter))
}

impl Guard {
    /// The guard has something to tell.
    pub(in crate::guard) fn own_event(&mut self, event: &Event, now: Now) {
        let mut heard = false;
        for owner in self.links.keys().copied().collect::<Vec<_>>() {
            let Owner::Session(key) = owner else { continue };
            let Some(mut link) = self.links.remove(&owner) else { continue };
            let eyes = Eyes { front: &self.front, key, now };
            let mut told = false;
            // An item that none are left for hears nothing of it.
            let mut steps = Steps::new(Steps::LIVE);
            for subscription in link.subs.subscriptions.values_mut() {
                let mut entries = Vec::new();
                for (number, item) in &subscription.items {
                    heard |= item.own_events.is_some();
                    entries.extend(entry(*number, item, (event, &eyes), &mut steps));
                }
                if !entries.is_empty() && subscription.ready.len() < MAX_WAITING {
                    let time = ticks(now.unix);
                    subscription.ready.push_back(Message { sequence: 0, time, told: Told::Values(entries) });
                    told = true;
                }
            }
            if told {
                self.pump_publish(key, &mut link, now);
                self.put_back(owner, link, now);
            } else {
                self.links.insert(owner, link);
            }
        }
        if !heard {
            self.front.audit_log().set_heard(false);
        }
    }
}

fn entry(number: u32, item: &Item, (event, eyes): (&Event, &Eyes<'_>), steps: &mut Steps) -> Option<Entry> {
    let filter = item.own_events.as_ref().filter(|_| item.mode == REPORTING && !item.denied)?;
    let source = match event.field(&QualifiedName::new(0, "SourceNode"), eyes) {
        Ok(Variant::NodeId(source)) => (**source).clone(),
        _ => return None,
    };
    if filter.passes(event, eyes, steps) != Ok(true) {
        return None;
    }
    let fields = filter.fields(event, eyes);
    let mut value = Vec::new();
    write_len(&mut value, fields.len());
    fields.iter().for_each(|field| value.extend_from_slice(&encoded(field)));
    Some(Entry { item: number, client_handle: 0, denial: false, value, about: Some(About::audit(source)) })
}
