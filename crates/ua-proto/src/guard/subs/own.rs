//! Values that are the guard's own, told when they change: the server behind it has nothing to say then, or cannot.

use access_model::Now;
use opcua_types::{AttributeId, Variant};

use super::message::{Entry, Message, Told};
use super::{Item, REPORTING};
use crate::guard::Guard;
use crate::guard::link::Link;
use crate::guard::own::{SERVICE_LEVEL, number_of};
use crate::guard::read::own_data_value;
use crate::guard::walk::parts_of;
use crate::server::front::{SessionKey, Stamps, ticks};

/// Most messages that wait for one client.
const MAX_WAITING: usize = 1_000;

impl Guard {
    /// Tells what of the guard's standing is another since this was last called; whether there was something to tell.
    pub(in crate::guard) fn tell_own(&mut self, key: SessionKey, link: &mut Link, now: Now) -> bool {
        let look = self.face(link).look();
        let before = std::mem::replace(&mut link.subs.look, look);
        if before == look || link.subs.is_empty() {
            return false;
        }
        let (behind, face) = (link.subs.level_behind, self.face(link));
        let value = |number: u32| match number {
            SERVICE_LEVEL => Some(Variant::Byte(behind.map_or(face.level(), |behind| behind.min(face.level())))),
            _ => face.value(number),
        };
        let entry = |(place, item): (&u32, &Item)| {
            let number = item.own_value().filter(|number| look.differs(before, *number))?;
            let stamps = Stamps::from_wire(item.wanted.timestamps).ok()?;
            let value = own_data_value(&value(number)?, stamps, now);
            Some(Entry { item: *place, client_handle: 0, denial: false, value, about: None })
        };
        let mut told = false;
        for subscription in link.subs.subscriptions.values_mut() {
            let entries: Vec<Entry> = subscription.items.iter().filter_map(entry).collect();
            if entries.is_empty() {
                continue;
            }
            while subscription.ready.len() >= MAX_WAITING {
                subscription.ready.pop_front();
                subscription.lose();
            }
            let time = ticks(now.unix);
            subscription.ready.push_back(Message { sequence: 0, time, told: Told::Values(entries) });
            told = true;
        }
        if told {
            self.pump_publish(key, link, now);
        }
        told
    }
}

impl Item {
    /// The node whose value it reports, where that may be the guard's own.
    fn own_value(&self) -> Option<u32> {
        let reports = self.mode == REPORTING && !self.denied && self.attribute == Some(AttributeId::Value);
        number_of(&self.node).filter(|_| reports)
    }

    /// Whether its values say how well the server behind serves.
    pub(super) fn tells_level(&self) -> bool {
        number_of(&self.node) == Some(SERVICE_LEVEL) && self.attribute == Some(AttributeId::Value)
    }
}

/// The level that a value of ServiceLevel tells.
pub(super) fn level_of(value: &[u8]) -> Option<u8> {
    match parts_of(value) {
        Some((_, [3, level], _)) => Some(*level),
        _ => None,
    }
}
