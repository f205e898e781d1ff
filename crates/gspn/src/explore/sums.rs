//! Sums over many markings of the tokens of each place.

use super::layout::{Field, Layout};

/// Bits up to which a field is added up bit by bit: most places are empty most of the time, and what is not set costs nothing.
const NARROW: u32 = 3;

/// For each place sums of its tokens, each marking with `N` weights.
pub(super) struct Sums<const N: usize> {
    /// Of each word the bits of narrow fields.
    narrow: Vec<u64>,
    /// Of each bit of each word the weights of the markings in which it is set.
    bits: Vec<[[f64; N]; 64]>,
    /// The other fields, each with the place that it holds.
    wide: Vec<(Field, usize)>,
    /// What came together in these.
    sums: Vec<[f64; N]>,
}

impl<const N: usize> Sums<N> {
    pub(super) fn new(layout: &Layout, places: usize) -> Self {
        let (mut narrow, mut wide) = (vec![0; layout.words()], Vec::new());
        for (field, place) in (0..places).map(|place| (layout.field(place), place)) {
            if field.bits() <= NARROW {
                narrow[field.word] |= field.mask();
            } else {
                wide.push((field, place));
            }
        }
        Self { bits: vec![[[0.0; N]; 64]; narrow.len()], narrow, wide, sums: vec![[0.0; N]; places] }
    }

    /// Adds a marking with these weights.
    #[expect(clippy::cast_precision_loss, reason = "tokens beyond 2^53 are meant to 53 bits")]
    #[inline(always)]
    pub(super) fn add(&mut self, marking: &[u64], weights: [f64; N]) {
        let each = |sums: &mut [f64; N], times: f64| {
            sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += times * weight);
        };
        for ((word, narrow), bits) in marking.iter().zip(&self.narrow).zip(&mut self.bits) {
            let mut left = word & narrow;
            while left != 0 {
                each(&mut bits[left.trailing_zeros() as usize], 1.0);
                left &= left - 1;
            }
        }
        for (field, place) in &self.wide {
            each(&mut self.sums[*place], field.get(marking) as f64);
        }
    }

    /// What came together, place by place.
    pub(super) fn done(mut self, layout: &Layout) -> Vec<[f64; N]> {
        for (place, sums) in self.sums.iter_mut().enumerate() {
            let field = layout.field(place);
            if field.bits() > NARROW {
                continue;
            }
            let bits = &self.bits[field.word][field.shift as usize..][..field.bits() as usize];
            for (times, bit) in [1.0, 2.0, 4.0].into_iter().zip(bits) {
                sums.iter_mut().zip(bit).for_each(|(sum, bit)| *sum += times * bit);
            }
        }
        self.sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_added_up_by_bits_and_by_numbers() {
        let layout = Layout::new(&[1, 3, 7, 100, u64::MAX, 2]);
        let mut sums = Sums::<2>::new(&layout, 6);
        let mut packed = vec![0; layout.words()];
        let mut wanted = vec![[0.0; 2]; 6];
        for (nth, marking) in [[1, 3, 7, 100, 1 << 60, 2], [0, 2, 5, 64, 3, 1], [1, 1, 4, 0, 0, 0]].iter().enumerate() {
            let weights = [1.0 + nth as f64, 0.25];
            assert!(layout.pack(marking, &mut packed));
            sums.add(&packed, weights);
            for (wanted, tokens) in wanted.iter_mut().zip(marking) {
                wanted.iter_mut().zip(weights).for_each(|(wanted, weight)| *wanted += *tokens as f64 * weight);
            }
        }
        assert_eq!(sums.done(&layout), wanted);
    }
}
