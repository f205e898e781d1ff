//! Refusals of peers that nobody knows, for the audit: a few a second of each kind as they are, the rest as one count. The
//! ledger must not be filled by whoever can reach the socket.

use std::collections::BTreeMap;

use access_model::AuditRecord;

/// Records of one reason in one second that are kept as they are.
const SINGLE: u32 = 50;

/// What is counted at the moment.
#[derive(Debug, Default)]
pub(crate) struct Flood {
    second: i64,
    /// By reason: how many were kept as they are, and the record that counts the rest.
    kinds: BTreeMap<&'static str, (u32, Option<AuditRecord>)>,
}

/// What becomes of a refusal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is recorded now.
    Record(AuditRecord),
    /// It is counted in a record of its own kind, which is due within a second.
    First,
    /// It is counted as well.
    Counted,
}

impl Flood {
    /// Takes a refusal for this reason in this second. What an earlier second counted comes along, to be recorded.
    pub(crate) fn take(&mut self, reason: &'static str, second: i64, record: AuditRecord) -> (Fate, Vec<AuditRecord>) {
        let due = if second == self.second { Vec::new() } else { self.end() };
        self.second = second;
        let (kept, held) = self.kinds.entry(reason).or_default();
        if *kept < SINGLE {
            *kept += 1;
            return (Fate::Record(record), due);
        }
        match held {
            Some(held) => {
                held.count = held.count.saturating_add(1);
                (Fate::Counted, due)
            }
            None => {
                *held = Some(record);
                (Fate::First, due)
            }
        }
    }

    /// Ends the second: what was counted.
    pub(crate) fn end(&mut self) -> Vec<AuditRecord> {
        std::mem::take(&mut self.kinds).into_values().filter_map(|(_, held)| held).collect()
    }
}

#[cfg(test)]
mod tests {
    use access_model::{Actor, AuditKind, Outcome, Reason, UnixTime};

    use super::*;

    fn record(name: &str) -> AuditRecord {
        AuditRecord {
            at: UnixTime::from_seconds(0),
            kind: AuditKind::TokenIssued,
            actor: Actor { name: name.into(), ..Actor::default() },
            object: String::new(),
            outcome: Outcome::Denied(Reason::UnknownClient),
            detail: String::new(),
            count: 1,
            epoch: None,
            place: None,
        }
    }

    #[test]
    fn refusals_collapse_and_every_one_is_counted() {
        let (mut flood, mut whole) = (Flood::default(), 0);
        let mut records = 0;
        for second in 0..3 {
            for number in 0..10_000 {
                let (fate, due) = flood.take("unknown_client", second, record(&number.to_string()));
                let now = if let Fate::Record(record) = fate { Some(record) } else { None };
                for record in due.into_iter().chain(now) {
                    (whole, records) = (whole + record.count, records + 1);
                }
            }
            let (fate, _) = flood.take("user_credentials", second, record("x"));
            assert_ne!(fate, Fate::Counted, "one kind does not hide another");
        }
        for record in flood.end() {
            (whole, records) = (whole + record.count, records + 1);
        }
        assert_eq!(whole, 30_000);
        assert_eq!(records, 3 * (usize::try_from(SINGLE).unwrap() + 1));
        assert!(flood.end().is_empty());
    }
}
