//! The audit side of the server (DESIGN D12): which events become records, and how many.
//!
//! Writes, calls, logins and the like have a record each. Reads, browses and delivered values are counted per session,
//! scope, kind and second. Equal denials beyond a rate become one record with a count. No secret, token or value of a
//! denied write enters a record.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use access_model::{
    Action, Actor, AuditKind, AuditRecord, Epoch, Mono, Now, Outcome, Place, Reason, ScopeIndex, ScopeMap,
};

use super::config::AuditConfig;
use super::meters::ServerMeters;
use super::observed::{Observed, Sight, Telling};
use super::occasion::{Occasion, Told};
use super::timers::SessionKey;

/// The window over which counts are taken.
const WINDOW: Duration = Duration::from_secs(1);

/// The longest detail of a record, in bytes.
const MAX_DETAIL: usize = 1_024;

/// The longest ClientAuditEntryId that is told, in bytes.
const MAX_ENTRY: usize = 256;

/// Most records that wait for their acknowledgement to be told.
const MAX_UNKEPT: usize = 10_000;

/// The scope of a record that sums up several; its detail lists them.
const SEVERAL: &str = "*";

/// Up to this many scopes of one kind have a record each.
const MAX_SINGLE: usize = 8;

/// Names a record whose acknowledgement is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditId(pub u64);

/// What happened to a record that asked for an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audited {
    /// It is kept.
    Kept,
    /// It could not be written.
    Unavailable,
}

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
    fn take(&mut self) -> Vec<(Counted, ScopeIndex, u32)> {
        let mut counts = std::mem::take(self).slots;
        counts.retain(|(_, _, count)| *count > 0);
        counts.sort_unstable();
        counts
    }
}

/// One denial, ready to be recorded or counted.
#[derive(Debug)]
pub(crate) struct Denied {
    pub(crate) session: Option<SessionKey>,
    pub(crate) kind: AuditKind,
    pub(crate) scope: ScopeIndex,
    pub(crate) reason: Reason,
}

type DenialKey = (Option<SessionKey>, &'static str, ScopeIndex, Reason);

#[derive(Debug, Default)]
struct DenialCount {
    recorded: u32,
    held: Option<(AuditRecord, Told)>,
}

/// Collects records until the shell takes them.
#[derive(Debug)]
pub(crate) struct AuditLog {
    config: AuditConfig,
    next: u64,
    queue: VecDeque<(Option<AuditId>, AuditRecord)>,
    dirty: BTreeSet<SessionKey>,
    /// What sessions were seen doing, while the gate observes.
    observed: BTreeMap<SessionKey, Observed>,
    denials: BTreeMap<DenialKey, DenialCount>,
    window_end: Option<Mono>,
    available: bool,
    /// Who may receive events of this scope may receive audit events.
    scope: ScopeIndex,
    /// Somebody listens to audit events.
    heard: bool,
    /// ClientAuditEntryId of the request that is being served.
    entry: String,
    /// Records to be told of.
    occasions: VecDeque<Occasion>,
    /// Those whose record is not acknowledged yet: what a ledger did not keep is not told as done.
    unkept: VecDeque<(AuditId, Occasion)>,
    meters: Arc<ServerMeters>,
}

impl AuditLog {
    pub(crate) fn new(config: AuditConfig) -> Self {
        Self {
            config,
            next: 0,
            queue: VecDeque::new(),
            dirty: BTreeSet::new(),
            observed: BTreeMap::new(),
            denials: BTreeMap::new(),
            window_end: None,
            available: true,
            scope: ScopeIndex::NOWHERE,
            heard: false,
            entry: String::new(),
            occasions: VecDeque::new(),
            unkept: VecDeque::new(),
            meters: Arc::default(),
        }
    }

    /// What is counted.
    pub(crate) const fn meters(&self) -> &Arc<ServerMeters> {
        &self.meters
    }

    /// Looks the scope of audit events up in a map of scopes. The scope `public` is nobody's to set aside.
    pub(crate) fn find_scope(&mut self, map: &ScopeMap) {
        let found = self.config.events.as_deref().and_then(|name| map.position(name));
        self.scope = found.filter(|scope| *scope != ScopeIndex::PUBLIC).unwrap_or(ScopeIndex::NOWHERE);
    }

    /// The scope of audit events.
    pub(crate) fn scope(&self) -> ScopeIndex {
        self.scope
    }

    /// Whether somebody listens to audit events. While nobody does, nothing is made for them.
    pub(crate) fn set_heard(&mut self, heard: bool) {
        self.heard = heard;
        if !heard {
            self.unkept.clear();
            self.occasions.clear();
            self.entry.clear();
        }
    }

    pub(crate) fn heard(&self) -> bool {
        self.heard
    }

    /// What the client calls the request that is served now; empty when it is done.
    #[inline]
    pub(crate) fn set_entry(&mut self, entry: &str) {
        if self.heard {
            self.entry.clear();
            let mut end = entry.len().min(MAX_ENTRY);
            while !entry.is_char_boundary(end) {
                end -= 1;
            }
            self.entry.push_str(entry.get(..end).unwrap_or_default());
        }
    }

    pub(crate) fn entry(&self) -> &str {
        &self.entry
    }

    /// The next record to be told of.
    pub(crate) fn poll_occasion(&mut self) -> Option<Occasion> {
        self.occasions.pop_front()
    }

    /// The records up to this one are kept, or are not.
    pub(crate) fn settle(&mut self, id: AuditId, told: bool) {
        while self.unkept.front().is_some_and(|(waiting, _)| *waiting <= id) {
            let occasion = self.unkept.pop_front().map(|(_, occasion)| occasion);
            self.occasions.extend(occasion.filter(|_| told));
        }
    }

    /// The one place where records go in, and what is told of them.
    fn push(&mut self, id: Option<AuditId>, record: AuditRecord, told: Told) {
        self.meters.recorded(&record.outcome, record.count);
        if self.heard && !matches!(told, Told::Nothing) {
            let occasion = Occasion { record: record.clone(), told, entry: self.entry.clone() };
            match id {
                None => self.occasions.push_back(occasion),
                Some(id) => {
                    if self.unkept.len() >= MAX_UNKEPT {
                        self.unkept.pop_front();
                    }
                    self.unkept.push_back((id, occasion));
                }
            }
        }
        self.queue.push_back((id, record));
    }

    /// Evaluates what would be told only if somebody listens.
    fn lazily(&self, told: impl FnOnce() -> Told) -> Told {
        if self.heard { told() } else { Told::Nothing }
    }

    pub(crate) fn config(&self) -> &AuditConfig {
        &self.config
    }

    /// Whether the last acknowledgement was good.
    pub(crate) fn available(&self) -> bool {
        self.available
    }

    /// Notes what an acknowledgement said; true if that is news.
    pub(crate) fn set_available(&mut self, available: bool) -> bool {
        std::mem::replace(&mut self.available, available) != available
    }

    pub(crate) fn poll(&mut self) -> Option<(Option<AuditId>, AuditRecord)> {
        self.queue.pop_front()
    }

    /// A record that no audit event belongs to.
    pub(crate) fn record(&mut self, record: AuditRecord) {
        self.push(None, record, Told::Nothing);
    }

    /// A record that clients are told of.
    pub(crate) fn tell(&mut self, record: AuditRecord, told: impl FnOnce() -> Told) {
        let told = self.lazily(told);
        self.push(None, record, told);
    }

    /// Records of one request, of which the last asks for an acknowledgement, for the ledger keeps them in order. They are
    /// told when it came.
    pub(crate) fn tell_acknowledged(&mut self, records: Vec<(AuditRecord, Told)>) -> Option<AuditId> {
        let last = records.len().checked_sub(1)?;
        self.next += 1;
        let id = AuditId(self.next);
        for (at, (record, told)) in records.into_iter().enumerate() {
            self.push(Some(id), record, told);
            if at < last
                && let Some((waits, _)) = self.queue.back_mut()
            {
                *waits = None;
            }
        }
        Some(id)
    }

    /// When the running window ends, if there is anything to sum up.
    pub(crate) fn deadline(&self) -> Option<Mono> {
        let observed = self.observed.values().filter_map(Observed::due).min();
        self.window_end.into_iter().chain(observed).min()
    }

    /// Counts what a session does while the gate observes.
    pub(crate) fn observe(&mut self, session: SessionKey, sight: Sight, node: String, now: Now) {
        self.observed.entry(session).or_default().count(sight, node, now);
    }

    /// The sessions of which something observed is to be told by now.
    pub(crate) fn observed_due(&self, now: Now) -> Vec<SessionKey> {
        let due = |observed: &Observed| observed.due().is_some_and(|due| due <= now.mono);
        self.observed.iter().filter(|(_, observed)| due(observed)).map(|(key, _)| *key).collect()
    }

    /// Tells what a session was seen doing. `over`: from now on everything is new.
    pub(crate) fn tell_observed(&mut self, session: SessionKey, telling: &Telling<'_>, over: bool, now: Now) {
        let Some(observed) = self.observed.get_mut(&session) else { return };
        let records = observed.tell(telling, now);
        if over {
            observed.forget();
            self.observed.remove(&session);
        }
        records.into_iter().for_each(|record| self.record(record));
    }

    /// A session counted its first event of this window.
    pub(crate) fn mark(&mut self, session: SessionKey, now: Now) {
        self.dirty.insert(session);
        self.open_window(now);
    }

    fn open_window(&mut self, now: Now) {
        self.window_end.get_or_insert(now.mono + WINDOW);
    }

    /// Records a denial, or counts it when there were many like it in this second. `record` is made only when needed.
    pub(crate) fn denied(
        &mut self,
        denied: &Denied,
        now: Now,
        record: impl FnOnce() -> AuditRecord,
        told: impl FnOnce() -> Told,
    ) {
        self.open_window(now);
        let mut key = (denied.session, denied.kind.name(), denied.scope, denied.reason);
        if !self.denials.contains_key(&key) && self.denials.len() >= self.config.max_denial_kinds {
            key = (None, denied.kind.name(), ScopeIndex::NOWHERE, denied.reason);
        }
        let count = self.denials.entry(key).or_default();
        if count.recorded < self.config.denials_per_second {
            count.recorded += 1;
            return self.tell(record(), told);
        }
        match &mut count.held {
            Some((held, _)) => held.count += 1,
            None => count.held = Some((record(), if self.heard { told() } else { Told::Nothing })),
        }
    }

    /// Ends the window: held denials become records. Returns the sessions whose counts are due.
    pub(crate) fn end_window(&mut self) -> BTreeSet<SessionKey> {
        self.window_end = None;
        for (_, count) in std::mem::take(&mut self.denials) {
            if let Some((held, told)) = count.held {
                self.push(None, held, told);
            }
        }
        std::mem::take(&mut self.dirty)
    }

    /// Turns a session's counts into records: one for each scope, or, when there are many, as few as hold
    /// `scope=count` for every one of them. A client that reads all over the plant must not flood the ledger.
    pub(crate) fn summarize<'a>(
        &mut self,
        tallies: &mut Tallies,
        actor: &Actor,
        epoch: Option<Epoch>,
        now: Now,
        server: &str,
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

/// A record of one event.
pub(crate) fn event(now: Now, kind: AuditKind, actor: &Actor, object: String, outcome: Outcome) -> AuditRecord {
    AuditRecord {
        at: now.unix,
        kind,
        actor: actor.clone(),
        object,
        outcome,
        detail: String::new(),
        count: 1,
        epoch: None,
        place: None,
    }
}

/// Cuts a detail to the length a record may have, at a character.
pub(crate) fn detail(text: impl Into<String>) -> String {
    let mut text: String = text.into();
    if text.len() > MAX_DETAIL {
        let mut end = MAX_DETAIL;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use access_model::UnixTime;

    fn at(nanos: u64) -> Now {
        Now { mono: Mono::from_nanos(nanos), unix: UnixTime::from_seconds(1_000) }
    }

    fn deny(log: &mut AuditLog, scope: u32) {
        let denied =
            Denied { session: None, kind: AuditKind::Write, scope: ScopeIndex(scope), reason: Reason::RightMissing };
        let outcome = Outcome::Denied(Reason::RightMissing);
        let record = || event(at(0), AuditKind::Write, &Actor::default(), format!("{scope}"), outcome);
        log.denied(&denied, at(0), record, || Told::of_request(AuditKind::Write));
    }

    fn drain(log: &mut AuditLog) -> Vec<(String, u64)> {
        std::iter::from_fn(|| log.poll()).map(|(_, record)| (record.object, record.count)).collect()
    }

    #[test]
    fn equal_denials_beyond_the_rate_collapse_into_a_count() {
        let mut log = AuditLog::new(AuditConfig { denials_per_second: 2, ..AuditConfig::default() });
        for _ in 0..1_000 {
            deny(&mut log, 1);
        }
        deny(&mut log, 2);
        assert_eq!(drain(&mut log), [("1".into(), 1), ("1".into(), 1), ("2".into(), 1)]);
        log.end_window();
        assert_eq!(drain(&mut log), [("1".into(), 998)]);
    }

    #[test]
    fn kinds_of_denial_are_bounded_and_none_is_lost() {
        let mut log =
            AuditLog::new(AuditConfig { denials_per_second: 1, max_denial_kinds: 4, ..AuditConfig::default() });
        for scope in 0..10_000 {
            deny(&mut log, scope);
        }
        assert!(log.denials.len() <= 5);
        log.end_window();
        assert_eq!(drain(&mut log).iter().map(|(_, count)| count).sum::<u64>(), 10_000);
    }

    #[test]
    fn reads_are_summed_up_exactly() {
        let mut log = AuditLog::new(AuditConfig::default());
        let mut tallies = Tallies::default();
        assert!(tallies.count(Counted::Read, ScopeIndex(3)));
        assert!(!tallies.count(Counted::Read, ScopeIndex(3)));
        assert!(!tallies.count(Counted::Browse, ScopeIndex(3)));
        assert!(!tallies.count(Counted::Read, ScopeIndex(1)));
        log.summarize(&mut tallies, &Actor::default(), None, at(0), "urn:s", |_| Some("mixer"));
        let sums: Vec<_> = std::iter::from_fn(|| log.poll()).map(|(_, record)| (record.kind, record.count)).collect();
        assert_eq!(sums, [(AuditKind::Read, 1), (AuditKind::Read, 2), (AuditKind::Browse, 1)]);
        assert!(tallies.count(Counted::Read, ScopeIndex(3)), "a new window");
    }

    #[test]
    fn thousands_of_scopes_are_counted_apart() {
        let mut tallies = Tallies::default();
        for round in 0..3 {
            for scope in 0..5_000 {
                let first = tallies.count(Counted::Read, ScopeIndex(scope));
                assert_eq!(first, (round, scope) == (0, 0));
                if scope % 2 == 0 {
                    tallies.count(Counted::Notify, ScopeIndex(scope));
                }
            }
        }
        let counts = tallies.take();
        assert_eq!(counts.len(), 7_500);
        assert!(counts.is_sorted() && counts.iter().all(|(_, _, count)| *count == 3));
        assert!(tallies.take().is_empty());
    }

    #[test]
    fn many_scopes_share_records_and_every_count_stays_exact() {
        let mut log = AuditLog::new(AuditConfig::default());
        let mut tallies = Tallies::default();
        for scope in 0..1_000 {
            for _ in 0..=scope % 3 {
                tallies.count(Counted::Read, ScopeIndex(scope));
            }
        }
        log.summarize(&mut tallies, &Actor::default(), None, at(0), "urn:s", |_| None);
        let records: Vec<_> = std::iter::from_fn(|| log.poll()).map(|(_, record)| record).collect();
        assert!(records.len() < 25, "{}", records.len());
        assert!(records.iter().all(|record| record.detail.len() <= MAX_DETAIL));
        let details: Vec<_> = records.iter().map(|record| record.detail.as_str()).collect();
        let told = details.join(" ");
        for scope in [0, 1, 2, 500, 999] {
            assert!(told.contains(&format!("scope {scope}={}", scope % 3 + 1)), "{scope}");
        }
        let expected: u64 = (0..1_000).map(|scope| scope % 3 + 1).sum();
        assert_eq!(records.iter().map(|record| record.count).sum::<u64>(), expected);
    }

    #[test]
    fn details_are_cut_at_a_character() {
        let cut = detail("ü".repeat(1_000));
        assert_eq!(cut.len(), 1_024);
    }
}
