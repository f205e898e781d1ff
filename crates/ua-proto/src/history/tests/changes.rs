//! What goes into history and out of it (OPC 10000-11 §6.9).

use super::*;

fn at(series: &Series) -> Vec<i64> {
    let (values, _) = series.page(&Domain::new(1, 1_000, 0, false).unwrap(), Resume::Start, &mut room());
    seen(&values).into_iter().map(|(at, _)| at).collect()
}

#[test]
fn changes_one_by_one() {
    use StatusCode as S;
    let write = |perform, times: &[i64]| Change::Write(perform, times.iter().map(|at| value(*at, 1.0)).collect());
    type Row = (&'static str, Change, (StatusCode, Vec<StatusCode>), &'static [i64]);
    let rows: [Row; 9] = [
        (
            "insert",
            write(Perform::Insert, &[15, 20]),
            (S::Good, vec![S::GoodEntryInserted, S::BadEntryExists]),
            &[10, 15, 20, 30, 40, 50],
        ),
        (
            "replace",
            write(Perform::Replace, &[15, 20]),
            (S::Good, vec![S::BadNoEntryExists, S::GoodEntryReplaced]),
            &[10, 20, 30, 40, 50],
        ),
        (
            "update",
            write(Perform::Update, &[15, 20]),
            (S::Good, vec![S::GoodEntryInserted, S::GoodEntryReplaced]),
            &[10, 15, 20, 30, 40, 50],
        ),
        ("no timestamp", write(Perform::Insert, &[0]), (S::Good, vec![S::BadInvalidTimestamp]), &[10, 20, 30, 40, 50]),
        ("delete up to the end", Change::DeleteRange { start: 20, end: 40 }, (S::Good, vec![]), &[10, 40, 50]),
        ("delete an instant", Change::DeleteRange { start: 20, end: 20 }, (S::Good, vec![]), &[10, 30, 40, 50]),
        ("nothing there", Change::DeleteRange { start: 21, end: 29 }, (S::BadNoData, vec![]), &[10, 20, 30, 40, 50]),
        (
            "backward",
            Change::DeleteRange { start: 40, end: 20 },
            (S::BadInvalidArgument, vec![]),
            &[10, 20, 30, 40, 50],
        ),
        (
            "delete instants",
            Change::DeleteAt(vec![20, 21, 50]),
            (S::Good, vec![S::Good, S::BadNoEntryExists, S::Good]),
            &[10, 30, 40],
        ),
    ];
    for (rule, change, expected, left) in rows {
        let mut series = five();
        assert_eq!(series.apply(change, by("dora", 1_000), |_| true), expected, "{rule}");
        assert_eq!(at(&series), left, "{rule}");
    }
}

#[test]
fn a_value_that_does_not_fit_is_not_written() {
    let mut series = five();
    let change = Change::Write(Perform::Update, vec![value(15, 1.0)]);
    assert_eq!(
        series.apply(change, by("dora", 1_000), |_| false),
        (StatusCode::Good, vec![StatusCode::BadTypeMismatch])
    );
    assert_eq!(at(&series).len(), 5);
}

#[test]
fn what_a_change_touches() {
    let series = five();
    let write = Change::Write(Perform::Update, vec![value(15, 1.0), value(20, 1.0)]);
    for (change, expected) in [
        (write, vec![(20, true)]),
        (Change::DeleteRange { start: 20, end: 40 }, vec![(20, true), (30, true)]),
        (Change::DeleteRange { start: 40, end: 20 }, vec![]),
        (Change::DeleteAt(vec![11, 50]), vec![(50, true)]),
    ] {
        assert_eq!(seen(&series.touched(&change)), expected, "{change:?}");
    }
}

#[test]
fn the_oldest_go_first() {
    let mut series = Series::new(3);
    (1..=5).for_each(|time| series.record(value(time, 0.0)));
    assert_eq!(at(&series), [3, 4, 5]);
    let change = Change::Write(Perform::Insert, vec![value(1, 0.0), value(9, 0.0)]);
    let expected = vec![StatusCode::BadOutOfRange, StatusCode::GoodEntryInserted];
    assert_eq!(series.apply(change, by("dora", 1_000), |_| true).1, expected);
    assert_eq!(at(&series), [4, 5, 9]);
}

#[test]
fn many_bytes_are_bounded_too() {
    let mut series = Series::new(100);
    for time in 1..=20 {
        series.record(DataValue { value: Some(Variant::from("x".repeat(1 << 20))), ..value(time, 0.0) });
    }
    assert_eq!(at(&series).len(), 15);
    assert_eq!(at(&series).last(), Some(&20));
}
