//! Markings, each once, packed into words and numbered in the order they came.

use hashbrown::HashTable;

/// Where the tokens of one place stand in a packed marking.
#[derive(Debug, Clone, Copy)]
struct Field {
    word: usize,
    shift: u32,
    mask: u64,
}

impl Field {
    fn bits(self) -> u32 {
        self.mask.count_ones()
    }
}

/// A set of markings. The number of a marking is how many came before it.
#[derive(Debug)]
pub(crate) struct Store {
    fields: Vec<Field>,
    words: usize,
    slab: Vec<u64>,
    index: HashTable<u32>,
    packed: Vec<u64>,
    count: usize,
}

/// More markings than numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

impl Store {
    /// For markings whose entries are expected to stay at or below these. A larger one is taken, too: then all are packed anew.
    pub(crate) fn new(expected: &[u64]) -> Self {
        let (fields, words) = lay(expected.iter().map(|most| 64 - most.leading_zeros()));
        Self { fields, words, slab: Vec::new(), index: HashTable::new(), packed: vec![0; words], count: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.slab.capacity() * 8 + self.index.allocation_size()
    }

    /// The number of `marking`, and whether it is new.
    pub(crate) fn insert(&mut self, marking: &[u64]) -> Result<(u32, bool), Full> {
        while !self.pack(marking) {
            self.widen(marking);
        }
        let Self { slab, index, packed, words, count, .. } = self;
        let words = *words;
        let hash = mix(packed);
        let at = |id: u32| &slab[id as usize * words..(id as usize + 1) * words];
        if let Some(id) = index.find(hash, |id| at(*id) == packed.as_slice()) {
            return Ok((*id, false));
        }
        let id = u32::try_from(*count).ok().filter(|id| *id != u32::MAX).ok_or(Full)?;
        index.insert_unique(hash, id, |id| mix(at(*id)));
        slab.extend_from_slice(packed);
        *count += 1;
        Ok((id, true))
    }

    /// Writes the marking `id` into `marking`, which has a place for each entry.
    pub(crate) fn load(&self, id: u32, marking: &mut [u64]) {
        let words = self.words_of(id);
        for (tokens, field) in marking.iter_mut().zip(&self.fields) {
            *tokens = (words[field.word] >> field.shift) & field.mask;
        }
    }

    /// The first entry of the marking `id`.
    pub(crate) fn first(&self, id: u32) -> u64 {
        let (words, field) = (self.words_of(id), self.fields[0]);
        (words[field.word] >> field.shift) & field.mask
    }

    /// Forgets how to find markings; they can still be loaded.
    pub(crate) fn close(&mut self) {
        self.index = HashTable::new();
        self.slab.shrink_to_fit();
    }

    fn words_of(&self, id: u32) -> &[u64] {
        &self.slab[id as usize * self.words..(id as usize + 1) * self.words]
    }

    /// Whether `marking` fits; if so it stands in `packed`.
    fn pack(&mut self, marking: &[u64]) -> bool {
        self.packed.fill(0);
        for (tokens, field) in marking.iter().zip(&self.fields) {
            if *tokens > field.mask {
                return false;
            }
            self.packed[field.word] |= tokens << field.shift;
        }
        true
    }

    /// Packs everything anew with at least twice the bits for each entry of `marking` that does not fit.
    fn widen(&mut self, marking: &[u64]) {
        let wanted = marking.iter().zip(&self.fields).map(|(tokens, field)| {
            if *tokens <= field.mask {
                field.bits()
            } else {
                (64 - tokens.leading_zeros()).max(2 * field.bits()).min(64)
            }
        });
        let (fields, words) = lay(wanted);
        let mut wide = Self {
            fields,
            words,
            slab: Vec::with_capacity(self.count * words),
            index: HashTable::new(),
            packed: vec![0; words],
            count: 0,
        };
        let mut marking = vec![0; self.fields.len()];
        for id in 0..self.count {
            #[expect(clippy::cast_possible_truncation, reason = "numbers are below `u32::MAX`")]
            self.load(id as u32, &mut marking);
            let _ = wide.insert(&marking);
        }
        *self = wide;
    }
}

/// Gives each entry its bits, at least one, without crossing a word.
fn lay(bits: impl Iterator<Item = u32>) -> (Vec<Field>, usize) {
    let mut fields = Vec::new();
    let (mut word, mut shift) = (0, 0);
    for bits in bits {
        let bits = bits.max(1);
        if shift + bits > 64 {
            word += 1;
            shift = 0;
        }
        fields.push(Field { word, shift, mask: u64::MAX >> (64 - bits) });
        shift += bits;
    }
    (fields, word + 1)
}

fn mix(words: &[u64]) -> u64 {
    let mut hash = 0x9e37_79b9_7f4a_7c15_u64;
    for word in words {
        hash = (hash ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash ^= hash >> 32;
    }
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 29)
}
