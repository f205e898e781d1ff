//! The markings that were found: tangible ones, vanishing ones, and how both are packed.

use super::compiled::Compiled;
use super::layout::Layout;
use super::packed::Packed;
use super::store::{Full, Store};
use super::vanish::full;
use super::vanishing::{MOST, Vanishing};
use crate::lump::Symmetry;
use crate::{Budget, Refusal};

/// Tangible and vanishing markings, packed alike.
#[derive(Debug)]
pub(super) struct Markings {
    layout: Layout,
    /// How often the layout became another.
    version: u32,
    pub(super) tangible: Store,
    pub(super) vanishing: Vanishing,
    packed: Vec<u64>,
    places: usize,
    /// Of markings that can be exchanged into each other, one is kept.
    symmetry: Option<Symmetry>,
}

impl Markings {
    /// For entries that are expected to stay at or below these. A larger one is taken, too: then all are packed anew.
    pub(super) fn new(expected: &[u64], transitions: usize, symmetry: Option<Symmetry>) -> Self {
        let layout = Layout::new(&alike(symmetry.as_ref(), expected));
        let words = layout.words();
        // A tangible marking that stands for others does not say from which vanishing one it was reached.
        let ways = if symmetry.is_some() { 0 } else { MOST };
        Self {
            layout,
            version: 0,
            tangible: Store::new(words),
            vanishing: Vanishing::new(words, transitions, ways),
            packed: vec![0; words],
            places: expected.len(),
            symmetry,
        }
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Another number says that markings are packed in another way.
    pub(super) fn version(&self) -> u32 {
        self.version
    }

    /// Refuses more than the limit. Some may be counted twice until they are compared, which is done only where that matters.
    pub(super) fn within(&mut self, net: &Packed, budget: &Budget<'_>) -> Result<(), Refusal> {
        let count = |it: &Self| (it.tangible.len() + it.vanishing.len()) as u64;
        if budget.markings(count(self)).is_err() {
            self.compare(net);
        }
        budget.markings(count(self))
    }

    /// Counts each vanishing marking once.
    pub(super) fn compare(&mut self, net: &Packed) {
        self.vanishing.compare(net, &self.tangible);
    }

    /// So many there are at least.
    fn least(&self) -> u64 {
        (self.tangible.len() + self.vanishing.least()) as u64
    }

    pub(super) fn bytes(&self) -> usize {
        self.tangible.bytes() + self.vanishing.bytes()
    }

    pub(super) fn add_tangible(&mut self, marking: &[u64], budget: &Budget<'_>) -> Result<u32, Refusal> {
        self.pack_settled(marking)?;
        let words = std::mem::take(&mut self.packed);
        let id = self.insert_tangible(&words, budget);
        self.packed = words;
        id
    }

    pub(super) fn add_vanishing(&mut self, marking: &[u64], budget: &Budget<'_>) -> Result<u32, Refusal> {
        self.pack_settled(marking)?;
        let words = std::mem::take(&mut self.packed);
        let id = self.insert_vanishing(&words, budget);
        self.packed = words;
        id
    }

    /// The number of a tangible marking that is packed and is the one that is kept of those that it can be exchanged into.
    pub(super) fn insert_tangible(&mut self, words: &[u64], budget: &Budget<'_>) -> Result<u32, Refusal> {
        let (id, new) = self.tangible.insert(words).map_err(|_| full())?;
        if new {
            budget.markings(self.least())?;
        }
        Ok(id)
    }

    /// The same of a vanishing one.
    pub(super) fn insert_vanishing(&mut self, words: &[u64], budget: &Budget<'_>) -> Result<u32, Refusal> {
        let (id, new) = self.vanishing.kept.insert(words).map_err(|_| full())?;
        if new {
            budget.markings(self.least())?;
        }
        Ok(id)
    }

    /// Whether of markings that can be exchanged into each other only one is kept.
    pub(super) fn exchanges(&self) -> bool {
        self.symmetry.is_some()
    }

    /// Makes of each packed marking, one behind the other in `words`, the one that is kept.
    pub(super) fn settle(&self, words: &mut [u64]) {
        let Some(symmetry) = &self.symmetry else { return };
        let mut marking = vec![0; self.places];
        for words in words.chunks_mut(self.layout.words()) {
            self.layout.unpack(words, &mut marking);
            symmetry.settle(&mut marking);
            // Places that are exchanged have the same number of bits.
            let fits = self.layout.pack(&marking, words);
            debug_assert!(fits, "an exchange needs no more bits");
        }
    }

    /// How many tangible and how many vanishing markings stand behind those that are kept, the size of each; `None` beyond what a
    /// number can say.
    pub(super) fn stand_for(&self, symmetry: &Symmetry) -> (Option<u64>, Option<u64>) {
        let mut marking = vec![0; self.places];
        let mut count = |store: &Store| {
            store.all().try_fold(0_u64, |sum, words| {
                self.layout.unpack(words, &mut marking);
                sum.checked_add(symmetry.size(&marking)?)
            })
        };
        (count(&self.tangible), count(&self.vanishing.kept))
    }

    /// Writes the tangible marking `id` into `marking`, which has a place for each entry.
    pub(super) fn load_tangible(&self, id: u32, marking: &mut [u64]) {
        self.layout.unpack(self.tangible.get(id), marking);
    }

    /// The tokens of `place` in the tangible marking `id`.
    pub(super) fn tokens(&self, id: u32, place: usize) -> u64 {
        self.layout.field(place).get(self.tangible.get(id))
    }

    /// Writes the vanishing marking `id` into `marking`.
    pub(super) fn load_vanishing(&self, id: u32, marking: &mut [u64]) {
        self.layout.unpack(self.vanishing.kept.get(id), marking);
    }

    /// The most tokens that `place` holds in any marking.
    pub(super) fn most(&self, net: &Compiled, place: usize) -> u64 {
        let field = self.layout.field(place);
        let most = self.tangible.all().map(|words| field.get(words)).max().unwrap_or_default();
        #[expect(clippy::cast_possible_truncation, reason = "markings have numbers of 32 bits")]
        let tokens = |id: usize| self.tokens(id as u32, place);
        self.vanishing.most(net, &self.layout, place, tokens).max(most)
    }

    /// Forgets how to find markings.
    pub(super) fn close(&mut self) {
        self.tangible.close();
        self.vanishing.kept.close();
    }

    /// Makes room for every entry of `marking`.
    pub(super) fn make_room(&mut self, marking: &[u64]) -> Result<(), Refusal> {
        self.pack(marking)
    }

    /// Packs the one that is kept of those that `marking` can be exchanged into.
    fn pack_settled(&mut self, marking: &[u64]) -> Result<(), Refusal> {
        let Some(symmetry) = &self.symmetry else { return self.pack(marking) };
        let mut settled = marking.to_vec();
        symmetry.settle(&mut settled);
        self.pack(&settled)
    }

    fn pack(&mut self, marking: &[u64]) -> Result<(), Refusal> {
        while !self.layout.pack(marking, &mut self.packed) {
            self.widen(marking).map_err(|_| full())?;
        }
        Ok(())
    }

    fn widen(&mut self, marking: &[u64]) -> Result<(), Full> {
        let wider = self.layout.wider(&alike(self.symmetry.as_ref(), marking));
        self.tangible = self.tangible.repacked(&self.layout, &wider, self.places)?;
        self.vanishing.kept = self.vanishing.kept.repacked(&self.layout, &wider, self.places)?;
        self.packed = vec![0; wider.words()];
        self.layout = wider;
        self.version += 1;
        Ok(())
    }
}

/// The most tokens of all places that each can be exchanged with, so that they have room for each other's.
fn alike(symmetry: Option<&Symmetry>, marking: &[u64]) -> Vec<u64> {
    let most = |place: usize| match symmetry {
        None => marking[place],
        Some(symmetry) => symmetry.orbit(place).iter().map(|place| marking[*place]).max().unwrap_or(0),
    };
    (0..marking.len()).map(most).collect()
}
