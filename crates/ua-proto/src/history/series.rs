//! The ring, and how values get into it and out of it (OPC 10000-11 §6.9).

use std::collections::VecDeque;

use opcua_types::{DataValue, HistoryUpdateType, StatusCode};

use super::journal::{Author, Journal};
use super::put::Puts;
use crate::event::size;

/// The most bytes of values one variable keeps, whatever their number.
const MAX_BYTES: usize = 16 << 20;

/// What one value takes beside its content.
pub(super) const OVERHEAD: usize = 64;

/// A value and its source timestamp in ticks, by which the ring is ordered; no two are the same.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) at: i64,
    pub(super) value: DataValue,
}

/// The values of one variable, the oldest first.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(super) entries: VecDeque<Entry>,
    most: usize,
    bytes: usize,
    /// What clients changed.
    journal: Journal<DataValue>,
}

/// How values are written into history: PerformUpdateType.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Perform {
    Insert,
    Replace,
    Update,
}

/// A change of history.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// Values are written.
    Write(Perform, Vec<DataValue>),
    /// Values of `[start, end)` are deleted; of one instant where both are the same.
    DeleteRange { start: i64, end: i64 },
    /// The values of these instants are deleted.
    DeleteAt(Vec<i64>),
    /// The events of these ids are deleted: nothing for a variable.
    DeleteEvents(Vec<Vec<u8>>),
    /// Events are written: nothing for a variable.
    PutEvents(Perform, Puts),
}

pub(super) fn weight(value: &DataValue) -> usize {
    OVERHEAD + value.value.as_ref().map_or(0, size)
}

impl Series {
    /// An empty ring for this many values.
    pub(crate) fn new(most: usize) -> Self {
        Self { entries: VecDeque::new(), most: most.max(1), bytes: 0, journal: Journal::default() }
    }

    /// The variable has a new value. One with the timestamp of another takes its place.
    pub(crate) fn record(&mut self, value: DataValue) {
        if let Some(at) = instant(&value) {
            self.put(at, value);
        }
    }

    /// Where the first value from `at` on stands.
    pub(super) fn lower(&self, at: i64) -> usize {
        match self.entries.back() {
            Some(last) if last.at < at => self.entries.len(),
            _ => self.entries.partition_point(|entry| entry.at < at),
        }
    }

    /// The place of the value of this instant.
    pub(super) fn exact(&self, at: i64) -> Option<usize> {
        let place = self.lower(at);
        self.entries.get(place).filter(|entry| entry.at == at).map(|_| place)
    }

    fn put(&mut self, at: i64, value: DataValue) {
        self.bytes = self.bytes.saturating_add(weight(&value));
        match self.exact(at) {
            Some(place) => {
                if let Some(entry) = self.entries.get_mut(place) {
                    self.bytes = self.bytes.saturating_sub(weight(&entry.value));
                    entry.value = value;
                }
            }
            None => self.entries.insert(self.lower(at), Entry { at, value }),
        }
        while self.entries.len() > self.most || (self.bytes > MAX_BYTES && self.entries.len() > 1) {
            let dropped = self.entries.pop_front();
            self.bytes = self.bytes.saturating_sub(dropped.map_or(0, |entry| weight(&entry.value)));
        }
    }

    /// What clients changed here.
    pub(crate) fn journal(&self) -> &Journal<DataValue> {
        &self.journal
    }

    fn drop_at(&mut self, place: usize, author: Author<'_>) -> bool {
        let Some(dropped) = self.entries.remove(place) else { return false };
        self.dropped(dropped, author);
        true
    }

    fn dropped(&mut self, entry: Entry, author: Author<'_>) {
        let weight = weight(&entry.value);
        self.bytes = self.bytes.saturating_sub(weight);
        self.journal.keep((entry.at, entry.value), weight, HistoryUpdateType::Delete, author);
    }

    /// The values that a change would touch, as they are now.
    pub(crate) fn touched(&self, change: &Change) -> Vec<DataValue> {
        let at = |at: i64| self.exact(at).and_then(|place| self.entries.get(place)).map(|entry| entry.value.clone());
        match change {
            Change::Write(_, values) => values.iter().filter_map(|value| at(instant(value)?)).collect(),
            Change::DeleteAt(times) => times.iter().filter_map(|time| at(*time)).collect(),
            Change::DeleteRange { start, end } => {
                let places = self.places(*start, *end);
                self.entries.range(places).map(|entry| entry.value.clone()).collect()
            }
            Change::DeleteEvents(_) | Change::PutEvents(..) => Vec::new(),
        }
    }

    fn places(&self, start: i64, end: i64) -> std::ops::Range<usize> {
        let behind = if start == end { self.lower(end.saturating_add(1)) } else { self.lower(end) };
        let first = self.lower(start).min(behind);
        first..behind
    }

    /// Carries a change out: the status of the whole, and of each value or instant. `fits` says which values the
    /// variable can have. What changes is kept with its author.
    pub(crate) fn apply(
        &mut self,
        change: Change,
        author: Author<'_>,
        fits: impl Fn(&DataValue) -> bool,
    ) -> (StatusCode, Vec<StatusCode>) {
        match change {
            Change::DeleteEvents(_) | Change::PutEvents(..) => (StatusCode::BadHistoryOperationUnsupported, Vec::new()),
            Change::Write(perform, values) => {
                let results = values.into_iter().map(|value| self.write((perform, value), author, &fits)).collect();
                (StatusCode::Good, results)
            }
            Change::DeleteRange { start, end } if start > end => (StatusCode::BadInvalidArgument, Vec::new()),
            Change::DeleteRange { start, end } => {
                let places = self.places(start, end);
                if places.is_empty() {
                    return (StatusCode::BadNoData, Vec::new());
                }
                let dropped: Vec<Entry> = self.entries.drain(places).collect();
                dropped.into_iter().for_each(|entry| self.dropped(entry, author));
                (StatusCode::Good, Vec::new())
            }
            Change::DeleteAt(times) => {
                let delete = |time: i64| match self.exact(time) {
                    Some(place) if self.drop_at(place, author) => StatusCode::Good,
                    _ => StatusCode::BadNoEntryExists,
                };
                (StatusCode::Good, times.into_iter().map(delete).collect())
            }
        }
    }

    fn write(
        &mut self,
        (perform, value): (Perform, DataValue),
        author: Author<'_>,
        fits: &impl Fn(&DataValue) -> bool,
    ) -> StatusCode {
        let Some(at) = instant(&value) else { return StatusCode::BadInvalidTimestamp };
        if !fits(&value) {
            return StatusCode::BadTypeMismatch;
        }
        let status = match (perform, self.exact(at).is_some()) {
            (Perform::Insert, true) => return StatusCode::BadEntryExists,
            (Perform::Replace, false) => return StatusCode::BadNoEntryExists,
            (_, true) => StatusCode::GoodEntryReplaced,
            (_, false) => StatusCode::GoodEntryInserted,
        };
        // What is older than everything in a full ring would be the first to go.
        if status == StatusCode::GoodEntryInserted && self.entries.len() >= self.most && self.lower(at) == 0 {
            return StatusCode::BadOutOfRange;
        }
        let before = self.exact(at).and_then(|place| self.entries.get(place)).map(|entry| entry.value.clone());
        let (kind, kept) = match (before, perform) {
            (None, _) => (HistoryUpdateType::Insert, value.clone()),
            (Some(before), Perform::Update) => (HistoryUpdateType::Update, before),
            (Some(before), _) => (HistoryUpdateType::Replace, before),
        };
        let weight = weight(&kept);
        self.journal.keep((at, kept), weight, kind, author);
        self.put(at, value);
        status
    }
}

/// The source timestamp of a value, if it has one that means something.
fn instant(value: &DataValue) -> Option<i64> {
    value.source_timestamp.map(|time| time.ticks()).filter(|ticks| *ticks > 0)
}
