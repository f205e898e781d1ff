//! The rates of edges, as a chain keeps them. Most chains have few that differ: a long list is kept in two bytes an edge, which say
//! which of them it is. Who writes such a list is `explore::rates`.

use std::ops::Range;

/// A rate for each edge.
#[derive(Debug, Clone)]
pub(crate) enum Rates {
    /// As it is.
    Each(Vec<f64>),
    /// Those that there are, and for each edge where its own stands among them.
    Shared {
        /// Each once.
        known: Vec<f64>,
        /// For each edge.
        of: Vec<u16>,
    },
}

impl Rates {
    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Each(rates) => rates.len() * 8,
            Self::Shared { known, of } => known.len() * 8 + of.len() * 2,
        }
    }

    /// Those of the edges in `span`.
    #[inline(always)]
    pub(super) fn of(&self, span: Range<usize>) -> Span<'_> {
        match self {
            Self::Each(rates) => Span::Each(&rates[span]),
            Self::Shared { known, of } => Span::Shared(known, &of[span]),
        }
    }
}

impl From<Vec<f64>> for Rates {
    fn from(rates: Vec<f64>) -> Self {
        Self::Each(rates)
    }
}

/// The rates of some edges in a row.
pub(super) enum Span<'a> {
    Each(&'a [f64]),
    Shared(&'a [f64], &'a [u16]),
}

impl Span<'_> {
    pub(super) fn sum(&self) -> f64 {
        match self {
            Self::Each(rates) => rates.iter().sum(),
            Self::Shared(known, of) => of.iter().map(|at| known[usize::from(*at)]).sum(),
        }
    }

    pub(super) fn append(&self, to: &mut Vec<f64>) {
        match self {
            Self::Each(rates) => to.extend_from_slice(rates),
            Self::Shared(known, of) => to.extend(of.iter().map(|at| known[usize::from(*at)])),
        }
    }
}

/// The edges of a state.
pub(super) struct Row<'a> {
    at: usize,
    targets: &'a [u32],
    rates: Span<'a>,
}

impl<'a> Row<'a> {
    #[inline(always)]
    pub(super) fn new(targets: &'a [u32], rates: Span<'a>) -> Self {
        Self { at: 0, targets, rates }
    }
}

impl Iterator for Row<'_> {
    type Item = (usize, f64);

    #[inline(always)]
    fn next(&mut self) -> Option<(usize, f64)> {
        let at = self.at;
        let to = *self.targets.get(at)?;
        self.at += 1;
        let rate = match &self.rates {
            Span::Each(rates) => rates[at],
            Span::Shared(known, of) => known[usize::from(of[at])],
        };
        Some((to as usize, rate))
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.targets.len() - self.at;
        (left, Some(left))
    }

    /// How rates are kept is looked at once, not for each edge.
    #[inline(always)]
    fn fold<B, F: FnMut(B, (usize, f64)) -> B>(self, first: B, mut each: F) -> B {
        let targets = self.targets[self.at..].iter();
        match self.rates {
            Span::Each(rates) => {
                let edges = targets.zip(&rates[self.at..]);
                edges.fold(first, |sum, (to, rate)| each(sum, (*to as usize, *rate)))
            }
            Span::Shared(known, of) => {
                let edges = targets.zip(&of[self.at..]);
                edges.fold(first, |sum, (to, at)| each(sum, (*to as usize, known[usize::from(*at)])))
            }
        }
    }
}
