//! Where the tokens of each place stand in a packed marking.

/// A packed marking. Most are one word: who looks at it then need not ask which.
pub(super) trait Words {
    fn word(&self, at: usize) -> u64;
    /// Adds to a word, without a carry between entries.
    fn add(&mut self, at: usize, delta: u64);
    fn append(&self, to: &mut Vec<u64>);
    /// A copy in `scratch`, which is as long as a marking.
    fn copied<'a>(&self, scratch: &'a mut [u64]) -> &'a mut Self;
    /// The markings of `width` words that stand one behind the other in `words`.
    fn each<'a>(words: &'a [u64], width: usize) -> impl Iterator<Item = &'a Self>
    where
        Self: 'a;
}

impl Words for u64 {
    #[inline(always)]
    fn word(&self, _: usize) -> u64 {
        *self
    }

    #[inline(always)]
    fn add(&mut self, _: usize, delta: u64) {
        *self = self.wrapping_add(delta);
    }

    #[inline(always)]
    fn append(&self, to: &mut Vec<u64>) {
        to.push(*self);
    }

    #[inline(always)]
    fn copied<'a>(&self, scratch: &'a mut [u64]) -> &'a mut Self {
        let word = &mut scratch[0];
        *word = *self;
        word
    }

    #[inline(always)]
    fn each<'a>(words: &'a [u64], _: usize) -> impl Iterator<Item = &'a Self>
    where
        Self: 'a,
    {
        words.iter()
    }
}

impl Words for [u64] {
    #[inline(always)]
    fn word(&self, at: usize) -> u64 {
        self[at]
    }

    #[inline(always)]
    fn add(&mut self, at: usize, delta: u64) {
        self[at] = self[at].wrapping_add(delta);
    }

    #[inline(always)]
    fn append(&self, to: &mut Vec<u64>) {
        to.extend_from_slice(self);
    }

    #[inline(always)]
    fn copied<'a>(&self, scratch: &'a mut [u64]) -> &'a mut Self {
        scratch.copy_from_slice(self);
        scratch
    }

    #[inline(always)]
    fn each<'a>(words: &'a [u64], width: usize) -> impl Iterator<Item = &'a Self>
    where
        Self: 'a,
    {
        words.chunks_exact(width)
    }
}

/// The place of one entry in the packed words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub(super) word: usize,
    pub(super) shift: u32,
    /// The largest entry that fits.
    pub(super) most: u64,
}

impl Field {
    pub(super) fn bits(self) -> u32 {
        self.most.count_ones()
    }

    /// Its bits within its word.
    pub(super) fn mask(self) -> u64 {
        self.most << self.shift
    }

    pub(super) fn get(self, words: &(impl Words + ?Sized)) -> u64 {
        (words.word(self.word) >> self.shift) & self.most
    }
}

/// Bits for each entry, none across two words.
#[derive(Debug)]
pub(super) struct Layout {
    fields: Vec<Field>,
    words: usize,
}

impl Layout {
    /// For entries that are expected to stay at or below these.
    pub(super) fn new(expected: &[u64]) -> Self {
        Self::lay(expected.iter().map(|most| 64 - most.leading_zeros()))
    }

    /// Words of a packed marking, at least one.
    pub(super) fn words(&self) -> usize {
        self.words
    }

    pub(super) fn field(&self, entry: usize) -> Field {
        self.fields[entry]
    }

    /// Packs `marking`; `false` when an entry does not fit.
    pub(super) fn pack(&self, marking: &[u64], packed: &mut [u64]) -> bool {
        packed.fill(0);
        for (tokens, field) in marking.iter().zip(&self.fields) {
            if *tokens > field.most {
                return false;
            }
            packed[field.word] |= tokens << field.shift;
        }
        true
    }

    pub(super) fn unpack(&self, words: &[u64], marking: &mut [u64]) {
        if let [word] = words {
            for (tokens, field) in marking.iter_mut().zip(&self.fields) {
                *tokens = (word >> field.shift) & field.most;
            }
            return;
        }
        for (tokens, field) in marking.iter_mut().zip(&self.fields) {
            *tokens = field.get(words);
        }
    }

    /// One with at least twice the bits for each entry of `marking` that does not fit.
    pub(super) fn wider(&self, marking: &[u64]) -> Self {
        Self::lay(marking.iter().zip(&self.fields).map(|(tokens, field)| {
            if *tokens <= field.most {
                field.bits()
            } else {
                (64 - tokens.leading_zeros()).max(2 * field.bits()).min(64)
            }
        }))
    }

    /// Gives each entry its bits, at least one.
    fn lay(bits: impl Iterator<Item = u32>) -> Self {
        let mut fields = Vec::new();
        let (mut word, mut shift) = (0, 0);
        for bits in bits {
            let bits = bits.max(1);
            if shift + bits > 64 {
                word += 1;
                shift = 0;
            }
            fields.push(Field { word, shift, most: u64::MAX >> (64 - bits) });
            shift += bits;
        }
        Self { fields, words: word + 1 }
    }
}
