//! The audit side of the server (DESIGN D12): which events become records, and how many.
//!
//! Writes, calls, logins and the like have a record each. Reads, browses and delivered values are counted per session,
//! scope, kind and second. Equal denials beyond a rate become one record with a count. No secret, token or value of a
//! denied write enters a record.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use access_model::{Actor, AuditKind, AuditRecord, Epoch, Mono, Now, Outcome, Reason, ScopeIndex};

use super::config::AuditConfig;
use super::timers::SessionKey;

/// The window over which counts are taken.
const WINDOW: Duration = Duration::from_secs(1);

/// The longest detail of a record, in bytes.
const MAX_DETAIL: usize = 1_024;

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
    fn kind(self) -> AuditKind {
        match self {
            Self::Read => AuditKind::Read,
            Self::Browse => AuditKind::Browse,
            Self::Notify => AuditKind::Notify,
        }
    }
}

/// The counts of one session since its last summary.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    counts: Vec<(Counted, ScopeIndex, u64)>,
}

impl Tallies {
    /// Counts one; says whether it is the first since the last summary.
    #[inline]
    pub(crate) fn count(&mut self, kind: Counted, scope: ScopeIndex) -> bool {
        let first = self.counts.is_empty();
        match self.counts.binary_search_by_key(&(kind, scope), |(kind, scope, _)| (*kind, *scope)) {
            Ok(at) => {
                if let Some((_, _, count)) = self.counts.get_mut(at) {
                    *count += 1;
                }
            }
            Err(at) => self.counts.insert(at, (kind, scope, 1)),
        }
        first
    }

    fn take(&mut self) -> Vec<(Counted, ScopeIndex, u64)> {
        std::mem::take(&mut self.counts)
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
    held: Option<AuditRecord>,
}

/// Collects records until the shell takes them.
#[derive(Debug)]
pub(crate) struct AuditLog {
    config: AuditConfig,
    next: u64,
    queue: VecDeque<(Option<AuditId>, AuditRecord)>,
    dirty: BTreeSet<SessionKey>,
    denials: BTreeMap<DenialKey, DenialCount>,
    window_end: Option<Mono>,
    available: bool,
}

impl AuditLog {
    pub(crate) fn new(config: AuditConfig) -> Self {
        Self {
            config,
            next: 0,
            queue: VecDeque::new(),
            dirty: BTreeSet::new(),
            denials: BTreeMap::new(),
            window_end: None,
            available: true,
        }
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

    pub(crate) fn record(&mut self, record: AuditRecord) {
        self.queue.push_back((None, record));
    }

    /// Records with an acknowledgement.
    pub(crate) fn record_acknowledged(&mut self, record: AuditRecord) -> AuditId {
        self.next += 1;
        let id = AuditId(self.next);
        self.queue.push_back((Some(id), record));
        id
    }

    /// When the running window ends, if there is anything to sum up.
    pub(crate) fn deadline(&self) -> Option<Mono> {
        self.window_end
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
    pub(crate) fn denied(&mut self, denied: &Denied, now: Now, record: impl FnOnce() -> AuditRecord) {
        self.open_window(now);
        let mut key = (denied.session, denied.kind.name(), denied.scope, denied.reason);
        if !self.denials.contains_key(&key) && self.denials.len() >= self.config.max_denial_kinds {
            key = (None, denied.kind.name(), ScopeIndex::NOWHERE, denied.reason);
        }
        let count = self.denials.entry(key).or_default();
        if count.recorded < self.config.denials_per_second {
            count.recorded += 1;
            self.queue.push_back((None, record()));
            return;
        }
        match &mut count.held {
            Some(held) => held.count += 1,
            None => count.held = Some(record()),
        }
    }

    /// Ends the window: held denials become records. Returns the sessions whose counts are due.
    pub(crate) fn end_window(&mut self) -> BTreeSet<SessionKey> {
        self.window_end = None;
        for (_, count) in std::mem::take(&mut self.denials) {
            self.queue.extend(count.held.map(|held| (None, held)));
        }
        std::mem::take(&mut self.dirty)
    }

    /// Turns a session's counts into records.
    pub(crate) fn summarize<'a>(
        &mut self,
        tallies: &mut Tallies,
        actor: &Actor,
        epoch: Option<Epoch>,
        now: Now,
        name: impl Fn(ScopeIndex) -> Option<&'a str>,
    ) {
        for (kind, scope, count) in tallies.take() {
            let object = name(scope).map_or_else(|| format!("scope {}", scope.0), str::to_owned);
            self.record(AuditRecord {
                at: now.unix,
                kind: kind.kind(),
                actor: actor.clone(),
                object,
                outcome: Outcome::Allowed,
                detail: String::new(),
                count,
                epoch,
            });
        }
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
        log.denied(&denied, at(0), || {
            event(at(0), AuditKind::Write, &Actor::default(), format!("{scope}"), Outcome::Denied(Reason::RightMissing))
        });
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
        log.summarize(&mut tallies, &Actor::default(), None, at(0), |_| Some("mixer"));
        let sums: Vec<_> = std::iter::from_fn(|| log.poll()).map(|(_, record)| (record.kind, record.count)).collect();
        assert_eq!(sums, [(AuditKind::Read, 1), (AuditKind::Read, 2), (AuditKind::Browse, 1)]);
        assert!(tallies.count(Counted::Read, ScopeIndex(3)), "a new window");
    }

    #[test]
    fn details_are_cut_at_a_character() {
        let cut = detail("ü".repeat(1_000));
        assert_eq!(cut.len(), 1_024);
    }
}
