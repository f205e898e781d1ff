//! Reads, browses and delivered values are counted, and the counts become as few records as hold them all.

use access_model::{Action, Actor, AuditKind, AuditRecord, Epoch, Now, Outcome, Place, ScopeIndex};

use super::{AuditLog, MAX_DETAIL, event};

/// The scope of a record that sums up several; its detail lists them.
const SEVERAL: &str = "*";

/// Up to this many scopes of one kind have a record each.
const MAX_SINGLE: usize = 8;

/// Kinds that are counted rather than recorded one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Counted {
    Read,
    Browse,
    Notify,
}

impl Counted {
    fn action(self) -> Action {
        match self {
            Self::Read | Self::Notify => Action::Read,
            Self::Browse => Action::Browse,
        }
    }

    pub(crate) fn kind(self) -> AuditKind {
        match self {
            Self::Read => AuditKind::Read,
            Self::Browse => AuditKind::Browse,
            Self::Notify => AuditKind::Notify,
        }
    }
}

/// The counts of one session since its last summary: a table with open addressing, at most half full. A session that
/// reads all over a plant counts in a thousand scopes a second; a sorted list would move half of itself for each.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    /// A count of 0 is a free slot; the length is a power of two.
    slots: Vec<(Counted, ScopeIndex, u32)>,
    used: usize,
}

impl Tallies {
    const FREE: (Counted, ScopeIndex, u32) = (Counted::Read, ScopeIndex::PUBLIC, 0);
    const LEAST: usize = 16;

    /// Counts one; says whether it is the first since the last summary.
    #[inline]
    pub(crate) fn count(&mut self, kind: Counted, scope: ScopeIndex) -> bool {
        let first = self.used == 0;
        if self.used * 2 >= self.slots.len() {
            self.grow();
        }
        self.add(kind, scope, 1);
        first
    }

    #[inline]
    fn add(&mut self, kind: Counted, scope: ScopeIndex, more: u32) {
        let last = self.slots.len().wrapping_sub(1);
        // Neighbouring scopes land far apart (Knuth's multiplicative hashing).
        let mixed = (scope.0 ^ ((kind as u32) << 30)).wrapping_mul(0x9e37_79b1);
        let mut at = (mixed >> 8) as usize & last;
        while let Some((held, place, count)) = self.slots.get_mut(at) {
            if *count == 0 {
                (*held, *place) = (kind, scope);
                self.used += 1;
            }
            if (*held, *place) == (kind, scope) {
                *count = count.saturating_add(more);
                return;
            }
            at = (at + 1) & last;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let room = (self.slots.len() * 2).max(Self::LEAST);
        self.used = 0;
        for (kind, scope, count) in std::mem::replace(&mut self.slots, vec![Self::FREE; room]) {
            if count > 0 {
                self.add(kind, scope, count);
            }
        }
    }

    /// The counts in order; none are left.
    pub(super) fn take(&mut self) -> Vec<(Counted, ScopeIndex, u32)> {
        let mut counts = std::mem::take(self).slots;
        counts.retain(|(_, _, count)| *count > 0);
        counts.sort_unstable();
        counts
    }
}

impl AuditLog {
    /// Turns a session's counts into records: one for each scope, or, when there are many, as few as hold
    /// `scope=count` for every one of them. A client that reads all over the plant must not flood the ledger.
    pub(crate) fn summarize<'a>(
        &mut self,
        tallies: &mut Tallies,
        actor: &Actor,
        epoch: Option<Epoch>,
        now: Now,
        (server, roles): (&str, &str),
        name: impl Fn(ScopeIndex) -> Option<&'a str>,
    ) {
        let name = |scope: ScopeIndex| name(scope).map_or_else(|| format!("scope {}", scope.0), str::to_owned);
        let counts = tallies.take();
        for same in counts.chunk_by(|one, next| one.0 == next.0) {
            let Some((kind, ..)) = same.first() else { continue };
            let place = |scope: &str| Place {
                server: server.to_owned(),
                scope: scope.to_owned(),
                action: kind.action(),
                steps: String::new(),
                roles: roles.to_owned(),
            };
            let summary = |object: String, count, detail| AuditRecord {
                count,
                detail,
                epoch,
                place: Some(Box::new(place(if same.len() <= MAX_SINGLE { &object } else { SEVERAL }))),
                ..event(now, kind.kind(), actor, object, Outcome::Allowed)
            };
            if same.len() <= MAX_SINGLE {
                for (_, scope, count) in same {
                    self.record(summary(name(*scope), u64::from(*count), String::new()));
                }
                continue;
            }
            let mut packed = Packed::default();
            for (_, scope, count) in same {
                let entry = format!("{}={count}", name(*scope));
                if !packed.fits(&entry) {
                    let full = std::mem::take(&mut packed);
                    self.record(summary(full.object(), full.count, full.text));
                }
                packed.add(&entry, u64::from(*count));
            }
            self.record(summary(packed.object(), packed.count, packed.text));
        }
    }
}

/// Counts of several scopes in the detail of one record.
#[derive(Default)]
struct Packed {
    text: String,
    scopes: usize,
    count: u64,
}

impl Packed {
    fn fits(&self, entry: &str) -> bool {
        self.scopes == 0 || self.text.len() + 1 + entry.len() <= MAX_DETAIL
    }

    fn add(&mut self, entry: &str, count: u64) {
        if self.scopes > 0 {
            self.text.push(' ');
        }
        self.text.push_str(entry);
        self.scopes += 1;
        self.count += count;
    }

    fn object(&self) -> String {
        format!("{} scopes", self.scopes)
    }
}
