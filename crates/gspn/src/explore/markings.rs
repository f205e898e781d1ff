//! The markings that were found: tangible ones, vanishing ones, and how both are packed.

use super::layout::Layout;
use super::store::{Full, Store};
use super::vanish::full;
use crate::{Budget, Refusal};

/// Tangible and vanishing markings, packed alike.
#[derive(Debug)]
pub(super) struct Markings {
    layout: Layout,
    /// How often the layout became another.
    version: u32,
    pub(super) tangible: Store,
    pub(super) vanishing: Store,
    packed: Vec<u64>,
    places: usize,
}

impl Markings {
    /// For entries that are expected to stay at or below these. A larger one is taken, too: then all are packed anew.
    pub(super) fn new(expected: &[u64]) -> Self {
        let layout = Layout::new(expected);
        let words = layout.words();
        Self {
            layout,
            version: 0,
            tangible: Store::new(words),
            vanishing: Store::new(words),
            packed: vec![0; words],
            places: expected.len(),
        }
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Another number says that markings are packed in another way.
    pub(super) fn version(&self) -> u32 {
        self.version
    }

    pub(super) fn count(&self) -> u64 {
        (self.tangible.len() + self.vanishing.len()) as u64
    }

    pub(super) fn bytes(&self) -> usize {
        self.tangible.bytes() + self.vanishing.bytes()
    }

    pub(super) fn add_tangible(&mut self, marking: &[u64], budget: &Budget<'_>) -> Result<u32, Refusal> {
        self.pack(marking)?;
        let (id, new) = self.tangible.insert(&self.packed).map_err(|_| full())?;
        if new {
            budget.markings(self.count())?;
        }
        Ok(id)
    }

    pub(super) fn add_vanishing(&mut self, marking: &[u64], budget: &Budget<'_>) -> Result<u32, Refusal> {
        self.pack(marking)?;
        let (id, new) = self.vanishing.insert(&self.packed).map_err(|_| full())?;
        if new {
            budget.markings(self.count())?;
        }
        Ok(id)
    }

    /// Writes the tangible marking `id` into `marking`, which has a place for each entry.
    pub(super) fn load_tangible(&self, id: u32, marking: &mut [u64]) {
        self.layout.unpack(self.tangible.get(id), marking);
    }

    /// Writes the vanishing marking `id` into `marking`.
    pub(super) fn load_vanishing(&self, id: u32, marking: &mut [u64]) {
        self.layout.unpack(self.vanishing.get(id), marking);
    }

    /// The most tokens that `place` holds in any marking.
    pub(super) fn most(&self, place: usize) -> u64 {
        let field = self.layout.field(place);
        let all = self.tangible.all().chain(self.vanishing.all());
        all.map(|words| field.get(words)).max().unwrap_or_default()
    }

    /// Forgets how to find markings.
    pub(super) fn close(&mut self) {
        self.tangible.close();
        self.vanishing.close();
    }

    /// Makes room for every entry of `marking`.
    pub(super) fn make_room(&mut self, marking: &[u64]) -> Result<(), Refusal> {
        self.pack(marking)
    }

    fn pack(&mut self, marking: &[u64]) -> Result<(), Refusal> {
        while !self.layout.pack(marking, &mut self.packed) {
            self.widen(marking).map_err(|_| full())?;
        }
        Ok(())
    }

    fn widen(&mut self, marking: &[u64]) -> Result<(), Full> {
        let wider = self.layout.wider(marking);
        self.tangible = self.tangible.repacked(&self.layout, &wider, self.places)?;
        self.vanishing = self.vanishing.repacked(&self.layout, &wider, self.places)?;
        self.packed = vec![0; wider.words()];
        self.layout = wider;
        self.version += 1;
        Ok(())
    }
}
