//! The audit's summaries held against what the clients got: per session, scope, operation and second.

use std::collections::BTreeMap;
use std::time::Duration;

use access_model::{AuditKind, AuditRecord, Mono, Outcome};
use testkit::world::SCOPES;

/// A summary comes this long after the first thing it counts, at the latest.
const SECOND: Duration = Duration::from_secs(1);

/// Session, operation, scope.
type Line = (String, &'static str, String);

#[derive(Debug, Default)]
struct Account {
    /// When each value arrived at the client, in order.
    arrived: Vec<Mono>,
    /// What summaries counted so far.
    recorded: u64,
}

#[derive(Debug, Default)]
pub struct Books {
    accounts: BTreeMap<Line, Account>,
    /// Records looked at.
    seen: usize,
    /// What was counted when it was forwarded may not have come back.
    pub rough: bool,
}

impl Books {
    /// A client got something of a scope.
    pub fn arrived(&mut self, session: &str, kind: AuditKind, scope: u32, at: Mono) {
        let line = (session.to_owned(), kind.name(), SCOPES[scope as usize - 1].to_owned());
        self.accounts.entry(line).or_default().arrived.push(at);
    }

    /// Looks at the records that came at `now`, after everything that arrived until now was entered.
    ///
    /// A summary takes everything before it, and nothing that did not happen. What arrives in the same instant may be in it or in
    /// the next.
    pub fn balance(&mut self, records: &[AuditRecord], now: Mono) {
        let mut summed = Vec::new();
        for record in &records[self.seen..] {
            let counted = matches!(record.kind, AuditKind::Read | AuditKind::Browse | AuditKind::Notify);
            if !counted || record.outcome != Outcome::Allowed || !SCOPES.contains(&record.object.as_str()) {
                continue;
            }
            let session = record.actor.session.clone().expect("a summary names its session");
            let line = (session, record.kind.name(), record.object.clone());
            self.accounts.entry(line.clone()).or_default().recorded += record.count;
            summed.push(line);
        }
        self.seen = records.len();
        for (line, account) in &self.accounts {
            let until = |end: Mono| account.arrived.partition_point(|at| *at < end) as u64;
            let due = account.arrived.partition_point(|at| *at + SECOND <= now) as u64;
            let (recorded, all) = (account.recorded, account.arrived.len() as u64);
            assert!(recorded <= all || self.rough, "{line:?}: {recorded} counted, {all} arrived");
            assert!(recorded >= due, "{line:?}: {recorded} counted, {due} arrived a second ago");
            if summed.contains(line) {
                let before = until(now);
                assert!(recorded >= before, "{line:?}: a summary counts {recorded} so far, {before} arrived before it");
            }
        }
    }

    /// Everything is summed up, and each count is what arrived; how many summaries' lines there were, by operation.
    pub fn close(&self) -> BTreeMap<&'static str, u64> {
        let mut totals = BTreeMap::new();
        for (line, account) in &self.accounts {
            let arrived = account.arrived.len() as u64;
            assert!(account.recorded == arrived || (self.rough && account.recorded > arrived), "{line:?}");
            *totals.entry(line.1).or_default() += account.recorded;
        }
        totals
    }
}
