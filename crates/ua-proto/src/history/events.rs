//! The events of one notifier in memory (OPC 10000-11 §5.4): a bounded ring by the time of the event, found by id. Who may
//! see which of them is asked by whoever reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use opcua_types::{HistoryUpdateType, StatusCode};

use super::journal::{Author, Journal};
use super::places::Place;
use crate::event::Event;

/// The most events of one notifier, whatever is asked for.
const MOST: usize = 10_000;

/// The most bytes that the events of one notifier take.
const MAX_BYTES: usize = 4 << 20;

/// The events of one notifier, the oldest first.
#[derive(Debug)]
pub(crate) struct EventLog {
    entries: BTreeMap<Place, Arc<Event>>,
    ids: BTreeMap<[u8; 16], Place>,
    most: usize,
    bytes: usize,
    last: u64,
    writable: bool,
    /// What clients changed.
    journal: Journal<Arc<Event>>,
}

impl EventLog {
    /// An empty ring for this many events; `writable`: clients may change it.
    pub(crate) fn new(most: usize, writable: bool) -> Self {
        let most = most.clamp(1, MOST);
        let (entries, ids, journal) = (BTreeMap::new(), BTreeMap::new(), Journal::default());
        Self { entries, ids, most, bytes: 0, last: 0, writable, journal }
    }

    /// Whether clients with the right may change it.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// The events by their time.
    pub(crate) fn entries(&self) -> &BTreeMap<Place, Arc<Event>> {
        &self.entries
    }

    /// What clients changed.
    pub(crate) fn journal(&self) -> &Journal<Arc<Event>> {
        &self.journal
    }

    /// The event of this id.
    pub(crate) fn find(&self, id: &[u8]) -> Option<&Arc<Event>> {
        let id: &[u8; 16] = id.try_into().ok()?;
        self.ids.get(id).and_then(|place| self.entries.get(place))
    }

    /// Something happened.
    pub(crate) fn record(&mut self, event: Arc<Event>) {
        self.last += 1;
        let place = (event.time(), self.last);
        self.bytes = self.bytes.saturating_add(event.weight());
        self.ids.insert(event.id(), place);
        self.entries.insert(place, event);
        while self.entries.len() > self.most || self.bytes > MAX_BYTES && self.entries.len() > 1 {
            let Some((_, oldest)) = self.entries.pop_first() else { return };
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, event: &Event) {
        self.ids.remove(&event.id());
        self.bytes = self.bytes.saturating_sub(event.weight());
    }

    /// Puts an event here for this author, in place of the one with its id where there is one; `kind` says what it does.
    ///
    /// Bad_ResourceUnavailable when there is no place for more: nothing goes at the word of a client that may not delete it, and
    /// nobody learns of the times of events that one may not see.
    pub(crate) fn put(&mut self, event: Event, kind: HistoryUpdateType, author: Author<'_>) -> StatusCode {
        let place = self.ids.get(&event.id()).copied();
        let before = place.and_then(|place| self.entries.get(&place)).cloned();
        let gone = before.as_ref().map_or(0, |before| before.weight());
        let bytes = self.bytes.saturating_sub(gone).saturating_add(event.weight());
        if before.is_none() && self.entries.len() >= self.most || bytes > MAX_BYTES {
            return StatusCode::BadResourceUnavailable;
        }
        if let (Some(place), Some(before)) = (place, &before) {
            self.entries.remove(&place);
            self.forget(before);
        }
        let event = Arc::new(event);
        let status = if before.is_some() { StatusCode::GoodEntryReplaced } else { StatusCode::GoodEntryInserted };
        let kept = before.unwrap_or_else(|| Arc::clone(&event));
        let weight = kept.weight();
        self.journal.keep((kept.time(), kept), weight, kind, author);
        self.record(event);
        status
    }

    /// Deletes the event of this id, for this author; whether it was there.
    pub(crate) fn delete(&mut self, id: &[u8], author: Author<'_>) -> bool {
        let place = <&[u8; 16]>::try_from(id).ok().and_then(|id| self.ids.get(id)).copied();
        let Some(event) = place.and_then(|place| self.entries.remove(&place)) else { return false };
        self.forget(&event);
        let weight = event.weight();
        self.journal.keep((event.time(), event), weight, HistoryUpdateType::Delete, author);
        true
    }
}
