//! Rates of edges that are being written. Nets have few that differ, and so have their chains: a long list is written as numbers of
//! rates, until there are more of them than two bytes can number.

use crate::chain::Rates;

/// A list of at most so many rates is kept as it is: looking for each of them would cost more than there is to gain.
const SHORT: usize = 1 << 13;
/// In place of a rate in an empty slot: no rate has these bits.
const EMPTY: u64 = u64::MAX;
/// Powers of two: the smallest table.
const FEWEST: u32 = 8;

/// A list that is being written.
#[derive(Debug)]
pub(super) struct Written {
    rates: Rates,
    /// The bits of rates that are known and their numbers, each where its hash says or behind that. Two to `bits` of them, or none.
    slots: Vec<(u64, u16)>,
    bits: u32,
    /// There are too many rates to be numbered.
    many: bool,
}

impl Written {
    pub(super) fn with_capacity(edges: usize) -> Self {
        let rates = Rates::Each(Vec::with_capacity(edges));
        Self { rates, slots: Vec::new(), bits: 0, many: false }
    }

    /// Makes room for so many more.
    #[inline(always)]
    pub(super) fn reserve(&mut self, more: usize) {
        match &mut self.rates {
            Rates::Each(rates) if self.many || rates.len() + more <= SHORT => rates.reserve(more),
            Rates::Each(_) => self.share(more),
            Rates::Shared { of, .. } => of.reserve(more),
        }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, rate: f64) {
        let of = match &mut self.rates {
            Rates::Each(rates) => return rates.push(rate),
            Rates::Shared { of, .. } => of,
        };
        let bits = rate.to_bits();
        let mut at = first(bits, self.bits);
        loop {
            let (held, number) = self.slots[at];
            if held == bits {
                return of.push(number);
            }
            if held == EMPTY {
                return self.add(rate, at);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.rates.bytes() + self.slots.len() * size_of::<(u64, u16)>()
    }

    pub(super) fn done(self) -> Rates {
        self.rates
    }

    /// Numbers the rates from here on, those that are there included.
    #[cold]
    fn share(&mut self, more: usize) {
        let of = Vec::with_capacity(2 * (SHORT + more));
        let before = std::mem::replace(&mut self.rates, Rates::Shared { known: Vec::new(), of });
        (self.slots, self.bits) = (vec![(EMPTY, 0); 1 << FEWEST], FEWEST);
        if let Rates::Each(rates) = before {
            rates.into_iter().for_each(|rate| self.push(rate));
        }
    }

    /// A rate that is not known yet, whose slot is `at`.
    #[cold]
    fn add(&mut self, rate: f64, at: usize) {
        let Rates::Shared { known, of } = &mut self.rates else { return };
        let Ok(number) = u16::try_from(known.len()) else {
            let rates = of.iter().map(|at| known[usize::from(*at)]).chain([rate]).collect();
            *self = Self { rates: Rates::Each(rates), slots: Vec::new(), bits: 0, many: true };
            return;
        };
        known.push(rate);
        of.push(number);
        self.slots[at] = (rate.to_bits(), number);
        if known.len() * 2 > self.slots.len() {
            self.bits += 1;
            let before = std::mem::replace(&mut self.slots, vec![(EMPTY, 0); 1 << self.bits]);
            for (held, number) in before.into_iter().filter(|(held, _)| *held != EMPTY) {
                let mut at = first(held, self.bits);
                while self.slots[at].0 != EMPTY {
                    at = (at + 1) & (self.slots.len() - 1);
                }
                self.slots[at] = (held, number);
            }
        }
    }
}

/// Of two to `bits` slots the one where the bits of a rate are looked for first.
#[expect(clippy::cast_possible_truncation, reason = "a few bits are left")]
#[inline(always)]
fn first(rate: u64, bits: u32) -> usize {
    (rate.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(rates: impl Iterator<Item = f64> + Clone) -> Rates {
        let mut written = Written::with_capacity(0);
        for rate in rates {
            written.reserve(1);
            written.push(rate);
        }
        written.done()
    }

    fn read(rates: &Rates) -> Vec<f64> {
        match rates {
            Rates::Each(rates) => rates.clone(),
            Rates::Shared { known, of } => of.iter().map(|at| known[usize::from(*at)]).collect(),
        }
    }

    #[test]
    fn what_was_written_is_read_however_many_rates_differ() {
        for (differ, shared) in [(1, true), (300, true), (65_536, true), (65_537, false), (100_000, false)] {
            let rates = (0..200_000_u32).map(|edge| f64::from(edge % differ) * 0.1 + 1e-3);
            let written = written(rates.clone());
            assert_eq!(matches!(written, Rates::Shared { .. }), shared, "{differ}");
            assert_eq!(read(&written), rates.collect::<Vec<_>>(), "{differ}");
        }
    }

    #[test]
    fn a_short_list_is_kept_as_it_is() {
        let rates = (0..SHORT).map(|_| 1.5);
        assert!(matches!(written(rates), Rates::Each(_)));
    }
}
