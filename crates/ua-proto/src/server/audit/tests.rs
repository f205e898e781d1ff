//! What becomes a record, and how many.

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
    let mut log = AuditLog::new(AuditConfig { denials_per_second: 1, max_denial_kinds: 4, ..AuditConfig::default() });
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
    log.summarize(&mut tallies, &Actor::default(), None, at(0), ("urn:s", ""), |_| Some("mixer"));
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
    log.summarize(&mut tallies, &Actor::default(), None, at(0), ("urn:s", ""), |_| None);
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
