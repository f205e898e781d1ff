//! What clients changed in one history: what was there before, or what was put there, by whom and when (OPC 10000-11
//! §4.4, §6.5.3.3). Bounded in number and bytes; the oldest change goes first. No client deletes from it.

use std::collections::{BTreeMap, VecDeque};

use opcua_types::{DateTime, HistoryUpdateType, ModificationInfo};

use super::places::Place;

/// The most changes that are kept of one history.
const MOST: usize = 1_000;

/// The most bytes they may take together.
const MAX_BYTES: usize = 1 << 20;

/// The longest name of whoever made a change, in bytes.
const MAX_NAME: usize = 256;

/// Who changes history, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Author<'a> {
    /// The principal's name.
    pub(crate) name: &'a str,
    pub(crate) at: DateTime,
}

/// One change.
#[derive(Clone, Debug)]
pub(crate) struct Modification<T> {
    /// What was put there by an insertion; by any other change, what was there before.
    pub(crate) entry: T,
    kind: HistoryUpdateType,
    at: DateTime,
    name: Box<str>,
    weight: usize,
}

impl<T> Modification<T> {
    /// As it is told.
    pub(crate) fn info(&self) -> ModificationInfo {
        ModificationInfo { modification_time: self.at, update_type: self.kind, user_name: (&*self.name).into() }
    }

    /// About how many bytes it takes.
    pub(crate) fn weight(&self) -> usize {
        self.weight
    }
}

/// The changes of one history.
#[derive(Clone, Debug)]
pub(crate) struct Journal<T> {
    entries: BTreeMap<Place, Modification<T>>,
    /// In the order in which they were made.
    order: VecDeque<Place>,
    last: u64,
    bytes: usize,
}

impl<T> Default for Journal<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), order: VecDeque::new(), last: 0, bytes: 0 }
    }
}

impl<T> Journal<T> {
    /// The changes by the instant of what was changed.
    pub(crate) fn entries(&self) -> &BTreeMap<Place, Modification<T>> {
        &self.entries
    }

    /// Keeps a change of what stands at this instant, of about so many bytes.
    pub(crate) fn keep(
        &mut self,
        (instant, entry): (i64, T),
        weight: usize,
        kind: HistoryUpdateType,
        author: Author<'_>,
    ) {
        let mut end = author.name.len().min(MAX_NAME);
        while !author.name.is_char_boundary(end) {
            end -= 1;
        }
        let name: Box<str> = author.name.get(..end).unwrap_or_default().into();
        let weight = weight.saturating_add(name.len());
        self.last += 1;
        let place = (instant, self.last);
        self.entries.insert(place, Modification { entry, kind, at: author.at, name, weight });
        self.order.push_back(place);
        self.bytes = self.bytes.saturating_add(weight);
        while self.order.len() > MOST || self.bytes > MAX_BYTES && self.order.len() > 1 {
            let Some(oldest) = self.order.pop_front() else { return };
            let gone = self.entries.remove(&oldest).map_or(0, |gone| gone.weight);
            self.bytes = self.bytes.saturating_sub(gone);
        }
    }
}
