//! States of nets with clocks: the number of a marking and phases, each once.

use super::layout::Layout;
use super::store::{Full, Store};

/// A set of tuples of whole numbers. The number of a tuple is how many came before it.
#[derive(Debug)]
pub(super) struct Tuples {
    layout: Layout,
    store: Store,
    packed: Vec<u64>,
    entries: usize,
}

impl Tuples {
    /// For entries that are expected to stay at or below these. A larger one is taken, too: then all are packed anew.
    pub(super) fn new(expected: &[u64]) -> Self {
        let layout = Layout::new(expected);
        let (store, packed) = (Store::new(layout.words()), vec![0; layout.words()]);
        Self { layout, store, packed, entries: expected.len() }
    }

    pub(super) fn len(&self) -> usize {
        self.store.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.store.bytes()
    }

    /// The number of `tuple`, and whether it is new.
    pub(super) fn insert(&mut self, tuple: &[u64]) -> Result<(u32, bool), Full> {
        while !self.layout.pack(tuple, &mut self.packed) {
            let wider = self.layout.wider(tuple);
            self.store = self.store.repacked(&self.layout, &wider, self.entries)?;
            self.packed = vec![0; wider.words()];
            self.layout = wider;
        }
        self.store.insert(&self.packed)
    }

    /// Writes the tuple `id` into `tuple`, which has a place for each entry.
    pub(super) fn load(&self, id: u32, tuple: &mut [u64]) {
        self.layout.unpack(self.store.get(id), tuple);
    }

    /// The first entry of the tuple `id`.
    pub(super) fn first(&self, id: u32) -> u64 {
        self.layout.field(0).get(self.store.get(id))
    }

    /// Forgets how to find tuples; they can still be loaded.
    pub(super) fn close(&mut self) {
        self.store.close();
    }
}
