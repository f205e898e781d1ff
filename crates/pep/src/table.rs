//! Rights compiled for look-up: one byte per scope, pointing into a palette.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use access_model::{MapDigest, Reason, Refusal, Rights, ScopeIndex};
use token::{RightsClaim, ScopeSet};

use crate::{Change, DangerWithout};

/// What any live grant holds on `public`, whatever its token says.
const PUBLIC: Rights =
    match Rights::from_bits(Rights::BROWSE.bits() | Rights::READ.bits() | Rights::RECEIVE_EVENTS.bits()) {
        Some(rights) => rights,
        None => Rights::NONE,
    };

/// The rights of one grant on every scope of the map. Shared by all grants with equal rights.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// Position in the palette, per scope.
    codes: Box<[u8]>,
    palette: Box<[Rights; 256]>,
}

impl Table {
    /// The rights on a scope; none on a scope beyond the map.
    #[inline]
    pub(crate) fn rights(&self, scope: ScopeIndex) -> Rights {
        let code = usize::try_from(scope.0).ok().and_then(|at| self.codes.get(at));
        code.and_then(|code| self.palette.get(usize::from(*code))).copied().unwrap_or(Rights::NONE)
    }

    /// The table of a map with `scopes` scopes for these entries, which are disjoint.
    fn build(entries: &[(Rights, ScopeSet)], scopes: usize) -> Result<Self, Refusal> {
        let refused = |detail: &str| Refusal::new(Reason::TokenRights, detail);
        let mut codes = vec![0; scopes];
        let mut palette = Box::new([Rights::NONE; 256]);
        // Code 0 stands for nothing, the last for `public`.
        let mut colours = palette.iter_mut().zip(0_u8..u8::MAX).skip(1);
        for (held, set) in entries {
            let (colour, code) = colours.next().ok_or_else(|| refused("more than 254 different sets of rights"))?;
            *colour = *held;
            for &(first, last) in set.runs() {
                let span = usize::try_from(first).ok().zip(usize::try_from(last).ok());
                let span = span.and_then(|(first, last)| codes.get_mut(first..=last));
                span.ok_or_else(|| refused("a scope beyond the map"))?.fill(code);
            }
        }
        drop(colours);
        if let Some(colour) = palette.last_mut() {
            *colour = PUBLIC;
        }
        if let Some(public) = codes.first_mut() {
            *public = u8::MAX;
        }
        Ok(Self { codes: codes.into_boxed_slice(), palette })
    }

    /// What a move from this table to `next` does to the rights.
    pub(crate) fn change_to(&self, next: &Self) -> Change {
        let (mut lost, mut gained) = (false, false);
        for scope in (0..u32::try_from(self.codes.len()).unwrap_or(u32::MAX)).map(ScopeIndex) {
            let (before, after) = (self.rights(scope), next.rights(scope));
            lost |= !after.contains(before);
            gained |= !before.contains(after);
        }
        match (lost, gained) {
            (true, true) => Change::Both,
            (true, false) => Change::Narrowed,
            (false, true) => Change::Widened,
            (false, false) => Change::Renewed,
        }
    }
}

/// Every table in use. Held weakly: a table goes with the last grant that uses it.
#[derive(Debug)]
pub(crate) struct Tables {
    map: MapDigest,
    scopes: usize,
    known: BTreeMap<Vec<(Rights, ScopeSet)>, Weak<Table>>,
    /// Dead entries are swept when there are this many.
    sweep_at: usize,
    without: DangerWithout,
}

impl Tables {
    pub(crate) const fn new(map: MapDigest, scopes: usize, without: DangerWithout) -> Self {
        Self { map, scopes, known: BTreeMap::new(), sweep_at: 16, without }
    }

    /// The table for what a token grants.
    pub(crate) fn for_claim(&mut self, claim: &RightsClaim) -> Result<Arc<Table>, Refusal> {
        if claim.map != self.map && self.without != DangerWithout::Token(token::DangerWithout::Audience) {
            let detail = format!("the token indexes the scope map {:?}, this server's is {:?}", claim.map, self.map);
            return Err(Refusal::new(Reason::ScopeMapMismatch, detail));
        }
        if self.without == DangerWithout::Rights {
            return self.for_local([(Rights::ALL, (0..u32::try_from(self.scopes).unwrap_or(u32::MAX)).collect())]);
        }
        self.intern(&claim.entries)
    }

    /// The table for rights that this gate was configured with; they may overlap.
    pub(crate) fn for_local(
        &mut self,
        rights: impl IntoIterator<Item = (Rights, Vec<u32>)>,
    ) -> Result<Arc<Table>, Refusal> {
        let claim = RightsClaim::new(self.map, rights);
        self.intern(&claim.entries)
    }

    fn intern(&mut self, entries: &[(Rights, ScopeSet)]) -> Result<Arc<Table>, Refusal> {
        if let Some(table) = self.known.get(entries).and_then(Weak::upgrade) {
            return Ok(table);
        }
        let table = Arc::new(Table::build(entries, self.scopes)?);
        if self.known.len() >= self.sweep_at {
            self.known.retain(|_, table| table.strong_count() > 0);
            self.sweep_at = 16 + 2 * self.known.len();
        }
        self.known.insert(entries.to_vec(), Arc::downgrade(&table));
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Rights = Rights::READ;

    fn tables() -> Tables {
        Tables::new(MapDigest([1; 16]), 10, DangerWithout::Nothing)
    }

    fn table(rights: Rights, scopes: &[u32]) -> Arc<Table> {
        tables().for_local([(rights, scopes.to_vec())]).unwrap()
    }

    #[test]
    fn public_is_browse_read_and_receive_events_whatever_the_token_says() {
        for table in [table(Rights::ALL, &[0, 1]), table(READ, &[])] {
            assert_eq!(table.rights(ScopeIndex::PUBLIC), Rights::BROWSE | READ | Rights::RECEIVE_EVENTS);
        }
    }

    #[test]
    fn beyond_the_map_there_is_nothing() {
        let table = table(Rights::ALL, &[9]);
        assert_eq!(table.rights(ScopeIndex(9)), Rights::ALL);
        assert_eq!(table.rights(ScopeIndex(10)), Rights::NONE);
        assert_eq!(table.rights(ScopeIndex::NOWHERE), Rights::NONE);
        let refusal = tables().for_local([(READ, vec![10])]).unwrap_err();
        assert_eq!(refusal.reason, Reason::TokenRights);
    }

    #[test]
    fn another_map_is_refused() {
        let claim = RightsClaim::new(MapDigest([2; 16]), [(READ, [1])]);
        assert_eq!(tables().for_claim(&claim).unwrap_err().reason, Reason::ScopeMapMismatch);
    }

    #[test]
    fn a_palette_has_254_colours() {
        let distinct = |count: u32| {
            let rights = (1..=count).map(|bits| (Rights::from_bits(bits).unwrap(), vec![bits]));
            Tables::new(MapDigest([1; 16]), 1_000, DangerWithout::Nothing).for_local(rights)
        };
        let full = distinct(254).unwrap();
        assert!((1..=254).all(|bits| full.rights(ScopeIndex(bits)).bits() == bits));
        assert_eq!(distinct(255).unwrap_err().reason, Reason::TokenRights);
    }

    #[test]
    fn equal_rights_share_a_table_while_it_is_used() {
        let mut tables = tables();
        let one = tables.for_local([(READ, vec![1, 2])]).unwrap();
        assert!(Arc::ptr_eq(&one, &tables.for_local([(READ, vec![2]), (READ, vec![1])]).unwrap()));
        for turn in 0..1_000_u32 {
            drop(tables.for_local([(Rights::from_bits(turn + 1).unwrap(), vec![3])]).unwrap());
        }
        assert!(tables.known.len() < 64, "dead tables are swept");
        assert!(Arc::ptr_eq(&one, &tables.for_local([(READ, vec![1, 2])]).unwrap()));
    }

    #[test]
    fn changes_have_a_direction() {
        let (none, one, two) = (table(READ, &[]), table(READ, &[1]), table(READ, &[2]));
        assert_eq!(none.change_to(&one), Change::Widened);
        assert_eq!(one.change_to(&none), Change::Narrowed);
        assert_eq!(one.change_to(&two), Change::Both);
        assert_eq!(one.change_to(&one), Change::Renewed);
    }
}
