//! Sets of scopes.

use access_model::ScopeMap;

/// One past the highest position of any map.
const END: u32 = 1 << 24;
const _: () = assert!(END as usize == ScopeMap::MAX, "positions end where maps end");

/// A sorted set of scope positions, kept as disjoint runs: its size in memory follows the size of its encoding,
/// never the number of scopes it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopeSet {
    /// First and last position of each run, ascending, with a gap of at least one between runs.
    runs: Vec<(u32, u32)>,
}

/// Why a text is no scope set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidScopeSet {
    /// The text holds a character outside the alphabet.
    #[error("a scope set holds a character outside its alphabet")]
    Alphabet,
    /// The text ends too early, goes on too long, or is not the shortest way to write its bits.
    #[error("a scope set is cut short or has something after its end")]
    Length,
    /// A position lies beyond the map.
    #[error("a scope set names a position beyond the map")]
    Range,
}

impl ScopeSet {
    /// The set of the positions in `scopes`, in any order. Positions that no map has (from [`ScopeMap::MAX`] up) are
    /// left out.
    pub fn from_positions(scopes: impl IntoIterator<Item = u32>) -> Self {
        let mut all: Vec<u32> = scopes.into_iter().collect();
        all.sort_unstable();
        Self::from_sorted(all)
    }

    /// The set of the positions in `scopes`, which ascend; one that does not ascend, or that no map has, is left out.
    pub fn from_sorted(scopes: impl IntoIterator<Item = u32>) -> Self {
        let mut set = Self::default();
        for scope in scopes {
            set.push_run(scope, scope);
        }
        set
    }

    /// Adds a run that starts behind the last one, and joins it to the last one when they touch. Anything else is
    /// skipped.
    pub(crate) fn push_run(&mut self, first: u32, last: u32) {
        if last >= END {
            return;
        }
        match self.runs.last_mut() {
            Some((_, end)) if first <= *end => {}
            Some((_, end)) if first == *end + 1 => *end = last,
            _ => self.runs.push((first, last)),
        }
    }

    /// The positions, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs.iter().flat_map(|&(first, last)| first..=last)
    }

    /// First and last position of each run, ascending.
    #[must_use]
    pub fn runs(&self) -> &[(u32, u32)] {
        &self.runs
    }

    /// How many positions the set holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.iter().map(|&(first, last)| (last - first) as usize + 1).sum()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether the set holds this position.
    #[must_use]
    pub fn contains(&self, scope: u32) -> bool {
        let after = self.runs.partition_point(|&(first, _)| first <= scope);
        after.checked_sub(1).and_then(|at| self.runs.get(at)).is_some_and(|&(_, last)| scope <= last)
    }

    /// The highest position.
    #[must_use]
    pub fn last(&self) -> Option<u32> {
        self.runs.last().map(|&(_, last)| last)
    }
}
