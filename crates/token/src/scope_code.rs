//! Scope sets as short text.
//!
//! A set is written in whichever of three ways is shortest: the gaps between positions, or the gaps between runs and
//! the lengths of runs, both in Rice codes whose parameters are chosen per set; or a bitmap. The bits then become
//! text in an alphabet of 91 characters that JSON does not escape, 13 bits to two characters: within 2 % of what that
//! alphabet can carry, where base64 would need 8 % more, and a token pays for every character with a third more.
//!
//! Reading is bounded by the text: nothing is reserved by a count that the text announces, every run costs at least
//! one bit, and positions beyond `max` end it.

use crate::{InvalidScopeSet, ScopeSet};

/// Every printable ASCII character but space, `"`, `'` and `\`.
const ALPHABET: [u8; 91] = alphabet();
/// Bits that two characters carry; 91² is just above 2¹³.
const PAIR: u32 = 13;
/// Bits that one last character carries.
const SINGLE: u32 = 6;
/// Positions stay below 2²⁴, so a longer remainder never pays.
const MAX_RICE: u32 = 24;

const GAPS: u32 = 0;
const RUNS: u32 = 1;
const BITMAP: u32 = 2;

impl ScopeSet {
    /// The set as text that fits a JSON string as it stands.
    #[must_use]
    pub fn encode(&self) -> String {
        let gaps: Vec<u32> = gaps(self).collect();
        let between: Vec<u32> = run_gaps(self).collect();
        let lengths: Vec<u32> = self.runs().iter().map(|&(first, last)| last - first).collect();
        let (gap_rice, gap_cost) = best_rice(&gaps);
        let (between_rice, between_cost) = best_rice(&between);
        let (length_rice, length_cost) = best_rice(&lengths);
        let (base, end) = (self.runs().first().map_or(0, |run| run.0), self.last().map_or(0, |last| last + 1));
        let bitmap_cost = u64::from(end - base) + 2 * u64::from(u32::BITS - end.leading_zeros());
        let mut out = Writer::default();
        if bitmap_cost < gap_cost.min(between_cost + length_cost) {
            out.put(BITMAP, 2);
            out.put_number(base);
            out.put_number(end - base);
            (base..end).for_each(|scope| out.put(u32::from(self.contains(scope)), 1));
        } else if between_cost + length_cost < gap_cost {
            out.put(RUNS, 2);
            out.put(between_rice, 5);
            out.put(length_rice, 5);
            out.put_number(u32::try_from(lengths.len()).unwrap_or(u32::MAX));
            for (gap, length) in between.iter().zip(&lengths) {
                out.put_rice(*gap, between_rice);
                out.put_rice(*length, length_rice);
            }
        } else {
            out.put(GAPS, 2);
            out.put(gap_rice, 5);
            out.put_number(u32::try_from(gaps.len()).unwrap_or(u32::MAX));
            gaps.iter().for_each(|gap| out.put_rice(*gap, gap_rice));
        }
        out.finish()
    }

    /// The set that `text` encodes; every position is below `max`.
    ///
    /// # Errors
    /// Text that is no encoding, or positions from `max` up.
    pub fn decode(text: &str, max: u32) -> Result<Self, InvalidScopeSet> {
        let mut bits = Reader::new(text.as_bytes())?;
        let mut set = Self::default();
        let mut next = 0_u64;
        match bits.take(2)? {
            GAPS => {
                let rice = bits.take(5)?;
                for _ in 0..bits.take_number()? {
                    let at = next + bits.take_rice(rice)?;
                    push(&mut set, at, at, max)?;
                    next = at + 1;
                }
            }
            RUNS => {
                let (between, lengths) = (bits.take(5)?, bits.take(5)?);
                for _ in 0..bits.take_number()? {
                    let first = next + bits.take_rice(between)?;
                    let last = first + bits.take_rice(lengths)?;
                    push(&mut set, first, last, max)?;
                    next = last + 2;
                }
            }
            BITMAP => {
                let base = bits.take_number()?;
                for offset in 0..bits.take_number()? {
                    if bits.take(1)? == 1 {
                        let at = u64::from(base) + u64::from(offset);
                        push(&mut set, at, at, max)?;
                    }
                }
            }
            _ => return Err(InvalidScopeSet::Length),
        }
        bits.finish()?;
        Ok(set)
    }
}

fn push(set: &mut ScopeSet, first: u64, last: u64, max: u32) -> Result<(), InvalidScopeSet> {
    let (Ok(first), Ok(last)) = (u32::try_from(first), u32::try_from(last)) else { return Err(InvalidScopeSet::Range) };
    if last >= max {
        return Err(InvalidScopeSet::Range);
    }
    set.push_run(first, last);
    Ok(())
}

/// Distance of each position from the one before, less one.
fn gaps(set: &ScopeSet) -> impl Iterator<Item = u32> + '_ {
    let mut next = 0;
    set.iter().map(move |scope| scope - std::mem::replace(&mut next, scope + 1))
}

/// Distance of each run from the one before, less the one that must be free.
fn run_gaps(set: &ScopeSet) -> impl Iterator<Item = u32> + '_ {
    let mut next = 0;
    set.runs().iter().map(move |&(first, last)| first - std::mem::replace(&mut next, last + 2))
}

/// The parameter that writes `numbers` shortest, and the bits it takes.
fn best_rice(numbers: &[u32]) -> (u32, u64) {
    let cost = |rice: u32| numbers.iter().map(|number| u64::from(number >> rice) + 1 + u64::from(rice)).sum::<u64>();
    (0..=MAX_RICE).map(|rice| (rice, cost(rice))).min_by_key(|(_, cost)| *cost).unwrap_or_default()
}

/// Bits into text.
#[derive(Default)]
struct Writer {
    text: String,
    pending: u64,
    count: u32,
}

impl Writer {
    /// The lowest `bits` (at most 32) of `value`.
    fn put(&mut self, value: u32, bits: u32) {
        self.pending = self.pending << bits | u64::from(value);
        self.count += bits;
        while self.count >= PAIR {
            self.count -= PAIR;
            self.put_pair(self.pending >> self.count);
            self.pending &= (1 << self.count) - 1;
        }
    }

    fn put_pair(&mut self, value: u64) {
        self.put_letter(value / 91);
        self.put_letter(value % 91);
    }

    fn put_letter(&mut self, value: u64) {
        let letter = usize::try_from(value).ok().and_then(|at| ALPHABET.get(at));
        self.text.push(char::from(*letter.unwrap_or(&b'!')));
    }

    /// Quotient in ones, closed by a zero; then the remainder.
    fn put_rice(&mut self, value: u32, rice: u32) {
        for _ in 0..value >> rice {
            self.put(1, 1);
        }
        self.put(0, 1);
        self.put(value & ((1 << rice) - 1), rice);
    }

    /// Elias gamma of `value` + 1; `value` stays below 2³¹.
    fn put_number(&mut self, value: u32) {
        let bits = u32::BITS - (value + 1).leading_zeros();
        self.put(0, bits - 1);
        self.put(value + 1, bits);
    }

    fn finish(mut self) -> String {
        match self.count {
            0 => {}
            1..=SINGLE => self.put_letter(self.pending << (SINGLE - self.count)),
            _ => self.put_pair(self.pending << (PAIR - self.count)),
        }
        self.text
    }
}

/// Text into bits.
struct Reader<'a> {
    letters: std::slice::Iter<'a, u8>,
    pending: u32,
    count: u32,
    /// How many bits the last letters carried.
    last: u32,
}

impl<'a> Reader<'a> {
    fn new(text: &'a [u8]) -> Result<Self, InvalidScopeSet> {
        // Before anything is read, so that the reading itself only ever meets the end of the text.
        if text.iter().any(|letter| value(*letter).is_none()) {
            return Err(InvalidScopeSet::Alphabet);
        }
        Ok(Self { letters: text.iter(), pending: 0, count: 0, last: 0 })
    }

    fn refill(&mut self) -> Result<(), InvalidScopeSet> {
        let mut letter = || self.letters.next().and_then(|letter| value(*letter));
        let (bits, width) = match (letter(), letter()) {
            (Some(high), Some(low)) => (high * 91 + low, PAIR),
            (Some(only), None) => (only, SINGLE),
            (None, _) => return Err(InvalidScopeSet::Length),
        };
        if bits >> width != 0 {
            return Err(InvalidScopeSet::Alphabet);
        }
        (self.pending, self.count, self.last) = (bits, width, width);
        Ok(())
    }

    fn bit(&mut self) -> Result<u32, InvalidScopeSet> {
        if self.count == 0 {
            self.refill()?;
        }
        self.count -= 1;
        Ok(self.pending >> self.count & 1)
    }

    fn take(&mut self, bits: u32) -> Result<u32, InvalidScopeSet> {
        (0..bits).try_fold(0, |value, _| Ok(value << 1 | self.bit()?))
    }

    fn take_rice(&mut self, rice: u32) -> Result<u64, InvalidScopeSet> {
        let mut quotient = 0_u64;
        while self.bit()? == 1 {
            quotient += 1;
        }
        Ok(quotient << rice | u64::from(self.take(rice)?))
    }

    fn take_number(&mut self) -> Result<u32, InvalidScopeSet> {
        let mut zeros = 0;
        while self.bit()? == 0 {
            zeros += 1;
            if zeros > 31 {
                return Err(InvalidScopeSet::Range);
            }
        }
        Ok((1 << zeros | self.take(zeros)?) - 1)
    }

    /// Nothing but the zeros that fill the last letters may be left.
    fn finish(&self) -> Result<(), InvalidScopeSet> {
        let spare = if self.last == SINGLE { SINGLE } else { PAIR - SINGLE };
        let zero = self.pending & ((1 << self.count) - 1) == 0;
        if self.letters.len() == 0 && self.count < spare && zero { Ok(()) } else { Err(InvalidScopeSet::Length) }
    }
}

/// The value of a letter.
fn value(letter: u8) -> Option<u32> {
    const VALUES: [u8; 256] = values();
    let value = *VALUES.get(usize::from(letter))?;
    (value < 91).then_some(u32::from(value))
}

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which stops at a wrong index")]
const fn alphabet() -> [u8; 91] {
    let mut letters = [0; 91];
    let (mut letter, mut at) = (b'!', 0);
    while letter <= b'~' {
        if !matches!(letter, b'"' | b'\'' | b'\\') {
            letters[at] = letter;
            at += 1;
        }
        letter += 1;
    }
    letters
}

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which stops at a wrong index")]
const fn values() -> [u8; 256] {
    let mut values = [u8::MAX; 256];
    let mut at = 0;
    while at < 91 {
        values[ALPHABET[at as usize] as usize] = at;
        at += 1;
    }
    values
}

#[cfg(test)]
mod tests {
    use access_model::ScopeMap;
    use proptest::prelude::*;

    use super::*;

    const MAX: u32 = ScopeMap::MAX as u32;

    fn bits(text: &str) -> f64 {
        text.len() as f64 * 6.5
    }

    #[test]
    fn the_alphabet_stands_in_json_as_it_is() {
        let all = String::from_utf8(ALPHABET.to_vec()).unwrap();
        assert_eq!(serde_json::to_string(&all).unwrap(), format!("\"{all}\""));
    }

    #[test]
    fn each_way_of_writing_is_chosen_where_it_is_shortest() {
        let sparse = ScopeSet::from_sorted((0..1_000).map(|at| at * 97 + at % 7));
        let cases = [
            ("nothing", ScopeSet::default(), 8.0 * 6.5),
            ("one", ScopeSet::from_sorted([70_000]), 52.0),
            ("sparse", sparse, 1_000.0 * 8.5),
            ("a whole map", ScopeSet::from_sorted(0..100_000), 65.0),
            ("twenty runs", ScopeSet::from_sorted((0..100_000).filter(|at| at % 5_000 < 50)), 20.0 * 25.0),
            ("all but a few", ScopeSet::from_sorted((0..100_000).filter(|at| at % 997 != 0)), 101.0 * 14.0),
            (
                "noise",
                ScopeSet::from_sorted((0..10_000_u32).filter(|at| at.wrapping_mul(2_654_435_761) >> 31 == 0)),
                10_100.0,
            ),
        ];
        for (name, set, limit) in cases {
            let text = set.encode();
            assert!(bits(&text) <= limit, "{name}: {} bits", bits(&text));
            assert_eq!(ScopeSet::decode(&text, MAX), Ok(set), "{name}");
        }
    }

    #[test]
    fn hostile_texts_end_early_and_cost_little() {
        let million = ScopeSet::from_sorted(0..1_000_000).encode();
        let longest = "~".repeat(256 * 1024);
        let zeros = "!".repeat(256 * 1024);
        // Announces 2^30 gaps of one bit each, and ends.
        let mut announced = Writer::default();
        announced.put(GAPS, 2);
        announced.put(0, 5);
        announced.put_number((1 << 30) - 1);
        let cases = [
            ("empty", "", InvalidScopeSet::Length),
            ("space", "! !", InvalidScopeSet::Alphabet),
            ("quote", "\"", InvalidScopeSet::Alphabet),
            ("not ASCII", "é", InvalidScopeSet::Alphabet),
            ("a pair above 13 bits", "~~~~", InvalidScopeSet::Alphabet),
            ("only ones", &longest, InvalidScopeSet::Alphabet),
            ("only zeros", &zeros, InvalidScopeSet::Range),
            ("announced, not there", &announced.finish(), InvalidScopeSet::Length),
            ("beyond the map", &million, InvalidScopeSet::Range),
        ];
        for (name, text, error) in cases {
            assert_eq!(ScopeSet::decode(text, 100_000), Err(error), "{name}");
        }
        assert_eq!(ScopeSet::decode(&million, 1_000_000).map(|set| set.runs().len()), Ok(1));
    }

    #[test]
    fn something_after_the_end_is_refused() {
        let text = ScopeSet::from_sorted([5, 9, 1_000]).encode();
        for more in ["!", "!!", "~"] {
            assert!(ScopeSet::decode(&format!("{text}{more}"), MAX).is_err(), "{more}");
        }
        assert!(ScopeSet::decode(&text[..text.len() - 1], MAX).is_err());
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes(scopes in proptest::collection::btree_set(0..MAX, 0..400)) {
            let set = ScopeSet::from_sorted(scopes);
            prop_assert_eq!(ScopeSet::decode(&set.encode(), MAX), Ok(set));
        }

        #[test]
        fn runs_encode_too(runs in proptest::collection::vec((0..5_000_u32, 1..300_u32), 0..40)) {
            let set = ScopeSet::from_positions(runs.iter().flat_map(|&(first, length)| first..first + length));
            prop_assert_eq!(set.len(), set.iter().count());
            let members: std::collections::BTreeSet<u32> = set.iter().collect();
            prop_assert!((0..5_400).all(|scope| set.contains(scope) == members.contains(&scope)));
            prop_assert_eq!(ScopeSet::decode(&set.encode(), 5_300), Ok(set));
        }

        #[test]
        fn no_text_panics_or_leaves_the_map(text in "[!-~]{0,200}") {
            if let Ok(set) = ScopeSet::decode(&text, 1_000) {
                prop_assert!(set.last().is_none_or(|last| last < 1_000));
                prop_assert!(set.runs().len() <= text.len() * 7);
            }
        }
    }
}
