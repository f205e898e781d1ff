//! What clients changed: kept with who, when and what, bounded, and read by page.

use std::collections::BTreeMap;

use opcua_types::HistoryUpdateType as H;
use proptest::prelude::*;

use super::*;
use crate::history::places::Place;

fn kept(series: &Series) -> Vec<(i64, H, Option<f64>, String, i64)> {
    let told = |((at, _), change): (&Place, &crate::history::journal::Modification<DataValue>)| {
        let info = change.info();
        let number = change.entry.value.as_ref().and_then(Variant::as_f64);
        (*at, info.update_type, number, info.user_name.to_string(), info.modification_time.ticks())
    };
    series.journal().entries().iter().map(told).collect()
}

#[test]
fn each_change_is_kept_with_who_when_and_what() {
    let mut series = five();
    let write = |perform, entries: &[(i64, f64)]| {
        Change::Write(perform, entries.iter().map(|(at, number)| value(*at, *number)).collect())
    };
    let all = |_: &DataValue| true;
    series.apply(write(Perform::Insert, &[(15, 1.0), (20, 9.0)]), by("ann", 1_000), all);
    series.apply(write(Perform::Replace, &[(20, 2.0), (21, 9.0)]), by("ben", 1_001), all);
    series.apply(write(Perform::Update, &[(20, 3.0), (25, 4.0)]), by("cal", 1_002), all);
    series.apply(Change::DeleteRange { start: 20, end: 25 }, by("dan", 1_003), all);
    series.apply(Change::DeleteAt(vec![50, 51]), by("eve", 1_004), all);
    series.record(value(60, 6.0));
    let row = |at, kind, number, name: &str, when| (at, kind, Some(number), name.to_owned(), when);
    let expected = [
        row(15, H::Insert, 1.0, "ann", 1_000),
        row(20, H::Replace, 200.0, "ben", 1_001),
        row(20, H::Update, 2.0, "cal", 1_002),
        row(20, H::Delete, 3.0, "dan", 1_003),
        row(25, H::Insert, 4.0, "cal", 1_002),
        row(50, H::Delete, 500.0, "eve", 1_004),
    ];
    assert_eq!(kept(&series), expected, "what was refused, and what the process does, is no change");
}

#[test]
fn changes_are_bounded_in_number_and_bytes() {
    let mut series = Series::new(10_000);
    let insert = |at, content: Variant| {
        Change::Write(Perform::Insert, vec![DataValue { value: Some(content), ..value(at, 0.0) }])
    };
    for at in (1..=1_500).rev() {
        series.apply(insert(at, 1.0.into()), by("ann", at), |_| true);
    }
    let instants: Vec<i64> = kept(&series).iter().map(|change| change.0).collect();
    assert_eq!(instants, (1..=1_000).collect::<Vec<_>>(), "those that were made first are gone");
    for at in 2_000..2_020 {
        series.apply(insert(at, "x".repeat(100_000).into()), by(&"long".repeat(1_000), at), |_| true);
    }
    let kept = kept(&series);
    let bytes: usize = series.journal().entries().values().map(|change| change.weight()).sum();
    assert!(bytes <= 1 << 20 && kept.len() < 12, "{bytes} in {}", kept.len());
    assert!(kept.iter().all(|change| change.3.len() <= 256));
}

/// Reads page by page to the end.
fn pages(entries: &BTreeMap<Place, i64>, domain: &Domain, per_page: usize, hidden: i64) -> Vec<i64> {
    let (mut all, mut mark) = (Vec::new(), Mark::default());
    for _ in 0..1_000 {
        let mut here = Vec::new();
        let rest = page(entries, domain, mark, |entry, has_place| {
            if entry % hidden == 0 {
                return Fit::Passed;
            }
            if !has_place || here.len() >= per_page {
                return Fit::Full;
            }
            here.push(*entry);
            Fit::Taken
        });
        assert!(rest.is_none() || !here.is_empty(), "a page that goes on holds something");
        all.extend(here);
        match rest {
            Some(next) => mark = next,
            None => return all,
        }
    }
    panic!("no end");
}

proptest! {
    #[test]
    fn pages_together_are_the_whole_without_what_is_hidden(
        instants in prop::collection::vec(1_i64..20, 0..60),
        start in 0_i64..22,
        end in 0_i64..22,
        most in 0_u32..9,
        per_page in 1_usize..9,
        hidden in 2_i64..5,
    ) {
        let Ok(domain) = Domain::new(start, end, most, false) else { return Ok(()) };
        let numbered = instants.iter().zip(1_u64..).map(|(at, number)| ((*at, number), number as i64));
        let entries: BTreeMap<Place, i64> = numbered.collect();
        let (reverse, one) = (start == 0 || (end > 0 && end < start), start == 0 || end == 0);
        let inside = |at: i64| match (start, end) {
            (0, end) => at <= end,
            (start, 0) => at >= start,
            (start, end) if start == end => at == start,
            (start, end) if end < start => at <= start && at > end,
            (start, end) => at >= start && at < end,
        };
        let mut expected: Vec<i64> =
            entries.iter().filter(|((at, _), entry)| inside(*at) && *entry % hidden != 0).map(|(_, entry)| *entry).collect();
        if reverse {
            expected.reverse();
        }
        if one {
            expected.truncate(most as usize);
        }
        prop_assert_eq!(pages(&entries, &domain, per_page, hidden), expected);
    }
}
