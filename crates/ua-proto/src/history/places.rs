//! Entries that share an instant with others: kept by instant and number, read by page as values are (OPC 10000-11 §6.3,
//! §6.5.2.2, §6.5.3.3).

use std::collections::BTreeMap;
use std::ops::Bound;

use super::raw::Domain;

/// The instant of an entry in ticks, and a number that tells it from others of that instant.
pub(crate) type Place = (i64, u64);

/// Where a read goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Behind this one, in the direction of the read.
    behind: Option<Place>,
    /// So many are wanted still, for the domain has one end only.
    left: Option<u32>,
}

/// What becomes of an entry that a read comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It is part of the page.
    Taken,
    /// It is none of the reader's business.
    Passed,
    /// It has no place in this page.
    Full,
}

/// Offers the entries of a page in their order; gives where the next page begins. `take` is told whether the page takes
/// another one at all: a page that is full ends only in front of what the reader may have, or its end would tell of the
/// rest.
pub(crate) fn page<'a, T>(
    entries: &'a BTreeMap<Place, T>,
    domain: &Domain,
    mark: Mark,
    mut take: impl FnMut(&'a T, bool) -> Fit,
) -> Option<Mark> {
    let left = mark.left.or(domain.wanted());
    let most = left.or(domain.most()).unwrap_or(u32::MAX);
    let (mut taken, mut behind) = (0, mark.behind);
    for (place, entry) in walk(entries, domain, mark.behind) {
        match take(entry, taken < most) {
            Fit::Taken => taken += 1,
            Fit::Passed => {}
            // The number that was wanted is there.
            Fit::Full if taken >= most && left.is_some() => return None,
            Fit::Full => return Some(Mark { behind, left: left.map(|left| left.saturating_sub(taken)) }),
        }
        behind = Some(*place);
    }
    None
}

fn walk<'a, T>(
    entries: &'a BTreeMap<Place, T>,
    domain: &Domain,
    behind: Option<Place>,
) -> impl Iterator<Item = (&'a Place, &'a T)> {
    let domain = *domain;
    let bounds = match (domain.is_reverse(), behind) {
        (false, None) => (Bound::Included((domain.start(), 0)), Bound::Unbounded),
        (false, Some(behind)) => (Bound::Excluded(behind), Bound::Unbounded),
        (true, None) => (Bound::Unbounded, Bound::Included((domain.start(), u64::MAX))),
        (true, Some(behind)) => (Bound::Unbounded, Bound::Excluded(behind)),
    };
    let range = entries.range::<Place, _>(bounds);
    let forward = (!domain.is_reverse()).then(|| range.clone()).into_iter().flatten();
    let backward = domain.is_reverse().then(|| range.rev()).into_iter().flatten();
    forward.chain(backward).take_while(move |((at, _), _)| domain.contains(*at))
}
