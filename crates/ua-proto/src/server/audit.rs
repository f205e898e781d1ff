//! The audit side of the server (DESIGN D12): which events become records, and how many.
//!
//! Writes, calls, logins and the like have a record each. Reads, browses and delivered values are counted per session,
//! scope, kind and second. Equal denials beyond a rate become one record with a count. No secret, token or value of a
//! denied write enters a record.

mod tally;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use access_model::{Actor, AuditKind, AuditRecord, Mono, Now, Outcome, Reason, ScopeIndex, ScopeMap};

use super::config::AuditConfig;
use super::meters::ServerMeters;
use super::observed::{Observed, Sight, Telling};
use super::occasion::{Occasion, Told};
use super::timers::SessionKey;
pub(crate) use tally::{Counted, Tallies};

/// The window over which counts are taken.
const WINDOW: Duration = Duration::from_secs(1);

/// The longest detail of a record, in bytes.
const MAX_DETAIL: usize = 1_024;

/// The longest ClientAuditEntryId that is told, in bytes.
const MAX_ENTRY: usize = 256;

/// Most records that wait for their acknowledgement to be told.
const MAX_UNKEPT: usize = 10_000;

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
mod tests;
