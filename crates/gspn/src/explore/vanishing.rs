//! The vanishing markings that were found, each counted once.
//!
//! There may be many times as many as tangible ones, and hardly anybody asks for one by its number: most are not kept. From a vanishing
//! marking the last of the immediates that may fire leads on, and the last again, until a marking is tangible. That marking and
//! the way there say which one it was, because firings can be taken back. So there is a bit for each way at each tangible marking. Kept are
//! those whose way has no bit, and those behind a firing that was resolved by itself.

use super::batch::STEPS;
use super::compiled::Compiled;
use super::layout::Layout;
use super::packed::Packed;
use super::store::Store;

/// Ways that have a bit: more take more memory than keeping their markings.
pub(super) const MOST: usize = 128;
/// The way from a tangible marking to itself.
const NOWHERE: u8 = 0;
/// A way without a bit.
const NONE: u8 = u8::MAX;

/// Where the way of a vanishing marking ends: the number of a tangible one, and the way.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    tangible: u32,
    way: u8,
}

impl End {
    /// It has not been found.
    pub(super) const NONE: Self = Self { tangible: u32::MAX, way: NOWHERE };

    pub(super) fn at(tangible: u32) -> Self {
        Self { tangible, way: NOWHERE }
    }

    pub(super) fn is_none(self) -> bool {
        self.tangible == u32::MAX
    }
}

/// The set of them.
#[derive(Debug)]
pub(super) struct Vanishing {
    /// Those that are kept.
    pub(super) kept: Store,
    /// Of each way from 1 on the transition that fires first, and the way behind it.
    ways: Vec<(usize, u8)>,
    /// By way and transition the way that begins with the transition and goes on with the other, 0 where it has no number yet.
    longer: Vec<u8>,
    /// Transitions of the net, and ways that may have a bit.
    transitions: usize,
    most: usize,
    /// For each tangible marking `width` bytes: a bit for each way.
    bits: Vec<u8>,
    width: usize,
    /// Bits that are set.
    set: usize,
    /// Of those that are kept, so many at least have a bit, too.
    both: usize,
}

impl Vanishing {
    /// For a net with so many transitions; at most `most` ways, no more than [`MOST`], have a bit.
    pub(super) fn new(words: usize, transitions: usize, most: usize) -> Self {
        Self {
            kept: Store::new(words),
            ways: Vec::new(),
            longer: Vec::new(),
            transitions,
            most: most.min(MOST),
            bits: Vec::new(),
            width: 1,
            set: 0,
            both: 0,
        }
    }

    /// How many there are; until [`Self::compare`] at most so many.
    pub(super) fn len(&self) -> usize {
        self.set + self.kept.len() - self.both
    }

    /// So many there are at least.
    pub(super) fn least(&self) -> usize {
        self.set.max(self.kept.len())
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.kept.bytes() + self.bits.len() + self.longer.len()
    }

    /// Where the way of a marking ends from which `transition` fires first, and then what leads on to `end`.
    #[inline(always)]
    pub(super) fn before(&mut self, end: End, transition: u32) -> End {
        if end.way == NONE {
            return end;
        }
        let at = usize::from(end.way) * self.transitions + transition as usize;
        let way = match self.longer.get(at) {
            Some(way) if *way != 0 => *way,
            _ => self.number(end.way, transition as usize),
        };
        End { way, ..end }
    }

    #[cold]
    fn number(&mut self, behind: u8, transition: usize) -> u8 {
        let row = usize::from(behind) * self.transitions;
        if self.longer.len() < row + self.transitions {
            self.longer.resize(row + self.transitions, 0);
        }
        let mut way = NONE;
        if self.ways.len() < self.most {
            self.ways.push((transition, behind));
            #[expect(clippy::cast_possible_truncation, reason = "at most `MOST`")]
            let number = self.ways.len() as u8;
            way = number;
            self.widen();
        }
        self.longer[row + transition] = way;
        way
    }

    /// Makes room for a bit for each way.
    fn widen(&mut self) {
        let width = self.ways.len().div_ceil(8);
        if width == self.width {
            return;
        }
        let mut wide = vec![0; self.bits.len() / self.width * width];
        for (wide, narrow) in wide.chunks_exact_mut(width).zip(self.bits.chunks_exact(self.width)) {
            wide[..self.width].copy_from_slice(narrow);
        }
        (self.bits, self.width) = (wide, width);
    }

    /// Makes room for so many tangible markings.
    pub(super) fn cover(&mut self, tangible: usize) {
        self.bits.resize(self.bits.len().max(tangible * self.width), 0);
    }

    /// Takes note of a marking whose way ends there, for which there is room; `false` when it must be kept.
    #[inline(always)]
    pub(super) fn note(&mut self, end: End) -> bool {
        let Some((byte, bit)) = self.place(end) else { return false };
        let before = self.bits[byte];
        self.bits[byte] = before | bit;
        self.set += usize::from(before & bit == 0);
        true
    }

    /// The bit of a marking whose way ends there: the byte that it is in, and the bit in it.
    #[inline(always)]
    fn place(&self, end: End) -> Option<(usize, u8)> {
        let nth = usize::from(end.way.wrapping_sub(1));
        (nth < MOST).then(|| (end.tangible as usize * self.width + nth / 8, 1 << (nth % 8)))
    }

    /// Counts those that are kept and have a bit, too.
    pub(super) fn compare(&mut self, net: &Packed, tangible: &Store) {
        if self.set == 0 {
            return;
        }
        let (mut ready, mut fired, mut words) = (Vec::new(), Vec::new(), Vec::new());
        let both = self.kept.all().filter(|marking| {
            words.clear();
            words.extend_from_slice(marking);
            fired.clear();
            let mut enabled = net.enabled(words.as_slice());
            while enabled != 0 && fired.len() <= STEPS {
                net.ready(words.as_slice(), enabled, &mut ready);
                let Some((transition, _)) = ready.last() else { return false };
                fired.push(*transition);
                let Ok(next) = net.fire(*transition, words.as_mut_slice(), enabled) else { return false };
                enabled = next;
            }
            let end = if enabled == 0 { tangible.find(&words) } else { None };
            end.is_some_and(|tangible| self.has(tangible, &fired))
        });
        self.both = both.count();
    }

    /// Whether there is a bit for the marking from which `fired` lead to a tangible one.
    fn has(&self, tangible: u32, fired: &[usize]) -> bool {
        let longer = |way: u8, transition: &usize| {
            let way = self.longer.get(usize::from(way) * self.transitions + transition);
            way.copied().filter(|way| *way != 0 && *way != NONE)
        };
        let way = fired.iter().rev().try_fold(NOWHERE, longer);
        let place = way.and_then(|way| self.place(End { tangible, way }));
        place.is_some_and(|(byte, bit)| self.bits.get(byte).is_some_and(|byte| byte & bit != 0))
    }

    /// The most tokens that `place` holds in one of them, or less where none holds more than the tangible marking in which its way
    /// ends. `tokens` says what the place holds there.
    pub(super) fn most(&self, net: &Compiled, layout: &Layout, place: usize, tokens: impl Fn(usize) -> u64) -> u64 {
        let field = layout.field(place);
        let most = self.kept.all().map(|words| field.get(words)).max().unwrap_or_default();
        let mut taken: Vec<i128> = vec![0];
        for (transition, behind) in &self.ways {
            let fire = &net.fires[*transition];
            let sum = |arcs: &[crate::net::Arc]| {
                arcs.iter().filter(|arc| arc.place == place).map(|arc| i128::from(arc.count)).sum::<i128>()
            };
            taken.push(taken[usize::from(*behind)] + sum(&fire.inputs) - sum(&fire.outputs));
        }
        let more = taken.iter().enumerate().filter(|(_, taken)| **taken > 0);
        let of_way = more.map(|(way, taken)| {
            let states = self.bits.chunks_exact(self.width).enumerate();
            let has = states.filter(|(_, bits)| bits[(way - 1) / 8] & (1 << ((way - 1) % 8)) != 0);
            has.map(|(state, _)| i128::from(tokens(state)) + taken).max().unwrap_or_default()
        });
        of_way.max().and_then(|most| u64::try_from(most).ok()).unwrap_or_default().max(most)
    }
}
