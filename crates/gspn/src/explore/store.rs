//! Packed markings, each once, numbered in the order they came.
//!
//! The index is a table of 32-bit slots that are probed one after the other. A slot holds the number of a marking in as many bits
//! as the table has slots in powers of two, and bits of its hash in the others: few markings are compared in vain. When the table
//! grows it is made anew from the markings, so that the old one is gone before the new one is there.

use super::layout::Layout;

/// More markings than numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

const EMPTY: u32 = u32::MAX;
/// Markings that are looked for side by side.
const TOGETHER: usize = 64;
/// Powers of two: the smallest table, and the largest.
const FEWEST: u32 = 11;
const LARGEST: u32 = 31;
/// The smallest that is filled to three quarters, where others are to a half: what is looked for in it is found with fewer steps. Up to
/// there a table that is made anew has four times the slots.
const SPARSE: u32 = 15;

/// A set of markings of the same number of words.
#[derive(Debug)]
pub(super) struct Store {
    words: usize,
    slab: Vec<u64>,
    slots: Vec<u32>,
    /// The table has two to this many slots.
    bits: u32,
    count: usize,
}

impl Store {
    pub(super) fn new(words: usize) -> Self {
        Self { words, slab: Vec::new(), slots: Vec::new(), bits: FEWEST, count: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.slab.len() * 8 + self.slots.len() * 4
    }

    pub(super) fn get(&self, id: u32) -> &[u64] {
        &self.slab[id as usize * self.words..(id as usize + 1) * self.words]
    }

    /// Forgets how to find markings; they can still be had.
    pub(super) fn close(&mut self) {
        self.slots = Vec::new();
        self.slab.shrink_to_fit();
    }

    /// Makes the table, when the first marking comes: where all vanishing markings have a bit, none is kept.
    #[inline(always)]
    fn open(&mut self) {
        if self.slots.is_empty() {
            self.slab.reserve_exact(self.words << (FEWEST - 1));
            self.slots = vec![EMPTY; 1 << FEWEST];
        }
    }

    /// The number of a packed marking, and whether it is new.
    pub(super) fn insert(&mut self, packed: &[u64]) -> Result<(u32, bool), Full> {
        self.open();
        self.seek(self.words, packed, mix(packed))
    }

    /// The number of a packed marking that may be there.
    pub(super) fn find(&self, packed: &[u64]) -> Option<u32> {
        if self.slots.is_empty() { None } else { self.look(self.words, packed, mix(packed)).ok() }
    }

    /// The numbers of packed markings that stand one behind the other in `packed`; `new` is told which of them is new.
    ///
    /// What is looked at for one does not depend on what was found for another, so that the memory is waited for once, not for each.
    #[inline(never)]
    pub(super) fn insert_all(
        &mut self,
        packed: &[u64],
        ids: &mut Vec<u32>,
        new: impl FnMut(usize),
    ) -> Result<(), Full> {
        // Most markings are one word: it costs less when the loops know that.
        if self.words == 1 {
            self.insert_each(1, packed, ids, new)
        } else {
            self.insert_each(self.words, packed, ids, new)
        }
    }

    #[inline(always)]
    fn insert_each(
        &mut self,
        width: usize,
        packed: &[u64],
        ids: &mut Vec<u32>,
        mut new: impl FnMut(usize),
    ) -> Result<(), Full> {
        self.open();
        ids.clear();
        ids.reserve(packed.len() / width);
        let mut hashes = [0_u64; TOGETHER];
        let mut slots = [0_u32; TOGETHER];
        let mut firsts = [0_u64; TOGETHER];
        for chunk in packed.chunks(TOGETHER * width) {
            for (hash, marking) in hashes.iter_mut().zip(chunk.chunks_exact(width)) {
                *hash = mix(marking);
            }
            let count = chunk.len() / width;
            for (slot, hash) in slots[..count].iter_mut().zip(&hashes) {
                *slot = self.slots[(hash >> (64 - self.bits)) as usize];
            }
            let ids_below = (1_u32 << self.bits) - 1;
            for (first, slot) in firsts[..count].iter_mut().zip(&slots) {
                *first = self.slab.get((slot & ids_below) as usize * width).copied().unwrap_or_default();
            }
            let looked = slots[..count].iter_mut().zip(&firsts[..count]).zip(&hashes[..count]);
            for (at, ((slot, first), hash)) in looked.enumerate() {
                let marking = &chunk[at * width..(at + 1) * width];
                let mut id = *slot & ids_below;
                if *slot == EMPTY || *first != marking[0] || (width > 1 && !same(self.get(id), marking)) {
                    let is_new;
                    (id, is_new) = self.seek(width, marking, *hash)?;
                    if is_new {
                        new(ids.len() + at);
                    }
                }
                *slot = id;
            }
            ids.extend_from_slice(&slots[..count]);
        }
        Ok(())
    }

    /// The number of a packed marking of `width` words, and whether it is new.
    #[inline(always)]
    fn seek(&mut self, width: usize, packed: &[u64], hash: u64) -> Result<(u32, bool), Full> {
        let at = match self.look(width, packed, hash) {
            Ok(id) => return Ok((id, false)),
            Err(at) => at,
        };
        let id = u32::try_from(self.count).map_err(|_| Full)?;
        self.slots[at] = tag(hash, (1_u32 << self.bits) - 1) | id;
        append(&mut self.slab, packed);
        self.count += 1;
        // A small table may be half empty.
        let full = if self.bits < SPARSE { 2 } else { 3 };
        if self.count * 4 > self.slots.len() * full {
            self.grow()?;
        }
        Ok((id, true))
    }

    /// The number of a packed marking of `width` words, or the slot where it would stand.
    #[inline(always)]
    fn look(&self, width: usize, packed: &[u64], hash: u64) -> Result<u32, usize> {
        let ids_below = (1_u32 << self.bits) - 1;
        let mask = self.slots.len() - 1;
        let tag = tag(hash, ids_below);
        let mut at = (hash >> (64 - self.bits)) as usize;
        loop {
            let slot = self.slots[at];
            if slot == EMPTY {
                return Err(at);
            }
            let id = slot & ids_below;
            let first = id as usize * width;
            if slot & !ids_below == tag && same(&self.slab[first..first + width], packed) {
                return Ok(id);
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) -> Result<(), Full> {
        if self.bits == LARGEST {
            return Err(Full);
        }
        if self.bits < SPARSE {
            self.bits += 2;
            // Moved once, not each time that it has doubled.
            self.slab.reserve_exact((self.words << (self.bits - 1)) - self.slab.len());
        } else {
            self.bits += 1;
        }
        self.slots = Vec::new();
        self.slots = vec![EMPTY; 1 << self.bits];
        let ids_below = (1_u32 << self.bits) - 1;
        let mask = self.slots.len() - 1;
        for (id, packed) in self.slab.chunks(self.words).enumerate() {
            let hash = mix(packed);
            let mut at = (hash >> (64 - self.bits)) as usize;
            while self.slots[at] != EMPTY {
                at = (at + 1) & mask;
            }
            #[expect(clippy::cast_possible_truncation, reason = "numbers are below two to `LARGEST`")]
            let id = id as u32;
            self.slots[at] = tag(hash, ids_below) | id;
        }
        Ok(())
    }

    /// The same markings in the same order, packed as `to` says.
    pub(super) fn repacked(&self, from: &Layout, to: &Layout, entries: usize) -> Result<Self, Full> {
        let mut wide = Self::new(to.words());
        let mut marking = vec![0; entries];
        let mut packed = vec![0; to.words()];
        for words in self.slab.chunks(self.words) {
            from.unpack(words, &mut marking);
            to.pack(&marking, &mut packed);
            wide.insert(&packed)?;
        }
        Ok(wide)
    }

    /// Every marking, packed.
    pub(super) fn all(&self) -> impl Iterator<Item = &[u64]> {
        self.slab.chunks(self.words)
    }
}

/// What of a hash stands in a slot. A number is below three quarters of the slots, so that a taken slot is never [`EMPTY`].
#[expect(clippy::cast_possible_truncation, reason = "some bits of the hash")]
fn tag(hash: u64, ids_below: u32) -> u32 {
    hash as u32 & !ids_below
}

/// Most markings are one word: copying that is not worth a call.
fn append(to: &mut Vec<u64>, words: &[u64]) {
    if let [word] = words { to.push(*word) } else { to.extend_from_slice(words) }
}

/// Markings are a word or a few: comparing them is not worth a call.
fn same(one: &[u64], other: &[u64]) -> bool {
    one.iter().zip(other).all(|(one, other)| one == other)
}

fn mix(words: &[u64]) -> u64 {
    let mut hash = 0x9e37_79b9_7f4a_7c15_u64;
    for word in words {
        let wide = u128::from(hash ^ word) * 0xff51_afd7_ed55_8ccd_u128;
        #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
        let folded = (wide as u64) ^ (wide >> 64) as u64;
        hash = folded.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^= hash >> 32;
    }
    hash.wrapping_mul(0x9fb2_1c65_1e98_df25)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markings_keep_their_numbers_while_the_table_grows() {
        let mut store = Store::new(2);
        let marking = |index: u64| [index % 7, index * 3];
        for index in 0..5_000 {
            assert_eq!(store.insert(&marking(index)), Ok((index as u32, true)));
        }
        let packed: Vec<u64> = (0..6_000).rev().flat_map(marking).collect();
        let (mut ids, mut new) = (Vec::new(), Vec::new());
        store.insert_all(&packed, &mut ids, |at| new.push(at)).unwrap();
        assert_eq!(new, (0..1_000).collect::<Vec<_>>());
        let wanted: Vec<u32> = (5_000..6_000).chain((0..5_000).rev()).collect();
        assert_eq!(ids, wanted);
        assert_eq!(store.get(ids[0]), marking(5_999));
    }

    #[test]
    fn a_marking_that_comes_twice_in_one_lot_is_new_once() {
        let mut store = Store::new(1);
        let (mut ids, mut new) = (Vec::new(), Vec::new());
        store.insert_all(&[5, 6, 5, 5, 6], &mut ids, |at| new.push(at)).unwrap();
        assert_eq!((ids, new), (vec![0, 1, 0, 0, 1], vec![0, 1]));
    }
}
