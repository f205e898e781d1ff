//! Aggregates (OPC 10000-13 §5.4) and values of given instants (OPC 10000-11 §6.5.5).

use super::*;

const CALCULATED: u32 = 0x401;
const INTERPOLATED: u32 = 0x402;
const PARTIAL: u32 = 0x404;
const DOUBT: u32 = 0x40A4_0000;
const NO_DATA: u32 = 0x809B_0000;

/// Good 100, 200, bad 300, good 400, uncertain 500 at 10 to 50, good 600 at 60.
fn mixed() -> Series {
    let mut series = Series::new(100);
    for (at, status) in [
        (1, StatusCode::Good),
        (2, StatusCode::Good),
        (3, StatusCode::BadSensorFailure),
        (4, StatusCode::Good),
        (5, StatusCode::UncertainLastUsableValue),
        (6, StatusCode::Good),
    ] {
        series.record(with_status(at * 10, at as f64 * 100.0, status));
    }
    series
}

fn asked(aggregate: Aggregate, start: i64, end: i64, interval: i64) -> Processed {
    Processed { start, end, interval, aggregate, shape: Shape::default(), sloped: true }
}

/// Instant, number, status bits of each interval.
fn results(series: &Series, asked: &Processed) -> Vec<(i64, Option<f64>, u32)> {
    let (values, rest) = series.processed(asked, 0, &mut room());
    assert_eq!(rest, None);
    let number = |value: &DataValue| value.value.as_ref().and_then(Variant::as_f64);
    let one = |value: &DataValue| (seen(std::slice::from_ref(value))[0].0, number(value), value.status().bits());
    values.iter().map(one).collect()
}

#[test]
fn each_aggregate_over_values_as_such() {
    use Aggregate as A;
    let series = mixed();
    let shape = Shape::default();
    type Row = (&'static str, A, (i64, i64, i64), Vec<(i64, Option<f64>, u32)>);
    let rows: [Row; 19] = [
        ("average", A::Average, (10, 30, 0), vec![(10, Some(150.0), CALCULATED)]),
        (
            "average of two intervals",
            A::Average,
            (10, 30, 10),
            vec![(10, Some(100.0), CALCULATED), (20, Some(200.0), CALCULATED)],
        ),
        ("average with a bad value", A::Average, (20, 45, 0), vec![(20, Some(300.0), DOUBT | CALCULATED)]),
        ("average of nothing but bad", A::Average, (30, 35, 0), vec![(30, None, 0x8000_0000)]),
        ("average of nothing", A::Average, (11, 19, 0), vec![(11, None, NO_DATA)]),
        ("average before the first", A::Average, (1, 9, 0), vec![(1, None, NO_DATA)]),
        ("average behind the last", A::Average, (70, 90, 0), vec![(70, None, NO_DATA)]),
        ("average backward", A::Average, (20, 5, 0), vec![(20, Some(150.0), CALCULATED)]),
        ("minimum on the start", A::Minimum, (10, 30, 0), vec![(10, Some(100.0), 0)]),
        ("maximum elsewhere", A::Maximum, (10, 30, 0), vec![(10, Some(200.0), CALCULATED)]),
        ("minimum with a bad value", A::Minimum, (25, 45, 0), vec![(25, Some(400.0), DOUBT | CALCULATED)]),
        (
            "minimum of a last, shorter interval",
            A::Minimum,
            (10, 25, 10),
            vec![(10, Some(100.0), 0), (20, Some(200.0), PARTIAL)],
        ),
        ("range", A::Range, (10, 30, 0), vec![(10, Some(100.0), CALCULATED)]),
        ("count", A::Count, (10, 30, 0), vec![(10, Some(2.0), CALCULATED)]),
        ("count of nothing within", A::Count, (11, 19, 0), vec![(11, Some(0.0), CALCULATED)]),
        ("count behind the last", A::Count, (70, 90, 0), vec![(70, None, NO_DATA)]),
        ("start", A::Start, (15, 45, 0), vec![(20, Some(200.0), 0)]),
        ("end", A::End, (15, 45, 0), vec![(40, Some(400.0), 0)]),
        ("delta", A::Delta, (10, 45, 0), vec![(10, Some(300.0), DOUBT | CALCULATED)]),
    ];
    for (rule, aggregate, (start, end, interval), expected) in rows {
        assert_eq!(results(&series, &asked(aggregate, start, end, interval)), expected, "{rule}");
    }
    let lenient = Processed { shape: Shape { uncertain_is_bad: false, ..shape }, ..asked(A::Count, 40, 60, 0) };
    assert_eq!(results(&series, &lenient), [(40, Some(2.0), CALCULATED)], "uncertain counts as good");
    let strict = Processed { shape: Shape { percent_bad: 25, ..shape }, ..asked(A::Average, 20, 45, 0) };
    assert_eq!(results(&series, &strict), [(20, None, 0x8000_0000)], "a third of bad values is too much");
    let easy = Processed { shape: Shape { percent_good: 60, ..shape }, ..asked(A::Average, 20, 45, 0) };
    assert_eq!(results(&series, &easy), [(20, Some(300.0), CALCULATED)], "two thirds of good values are enough");
}

/// instant, sloped, simple bounds => value and status
#[test]
fn values_between_values() {
    let series = mixed();
    let rows = [
        ("recorded", 20, true, false, Some(200.0), 0),
        ("on the line", 15, true, false, Some(150.0), INTERPOLATED),
        ("stepped", 15, false, false, Some(100.0), INTERPOLATED),
        ("over a bad value", 35, true, false, Some(350.0), DOUBT | INTERPOLATED),
        ("on a bad value", 30, true, false, Some(300.0), DOUBT | INTERPOLATED),
        ("before the first", 5, true, false, None, NO_DATA),
        ("behind the last", 70, true, false, Some(600.0), DOUBT | INTERPOLATED),
        ("simple, towards a bad value", 25, true, true, Some(200.0), DOUBT | INTERPOLATED),
        ("simple, from a bad value", 35, true, true, None, NO_DATA),
    ];
    for (rule, at, sloped, simple, expected, status) in rows {
        let value = series.interpolated(at, sloped, simple);
        let number = value.value.as_ref().and_then(Variant::as_f64);
        assert_eq!((number, value.status().bits()), (expected, status), "{rule}");
    }
}

#[test]
fn intervals_are_checked_and_come_in_pages() {
    for (start, end, interval) in [(10, 10, 1), (0, 10, 1), (10, 0, 1), (10, 20, -1)] {
        let asked = asked(Aggregate::Count, start, end, interval);
        assert_eq!(asked.check(), Err(StatusCode::BadInvalidArgument), "{start} {end} {interval}");
    }
    let series = five();
    for (start, end) in [(i64::MAX, 1), (1, i64::MAX)] {
        for (_, aggregate) in Aggregate::ALL {
            let (values, _) = series.processed(&asked(aggregate, start, end, 0), 0, &mut room());
            assert_eq!(values.len(), 1, "{aggregate:?} from one end of time to the other");
        }
    }
    for (start, end) in [(10, 55), (55, 10)] {
        let asked = asked(Aggregate::Count, start, end, 10);
        assert_eq!(asked.check(), Ok(()));
        let (whole, _) = series.processed(&asked, 0, &mut room());
        let (mut parts, mut next) = (Vec::new(), Some(0));
        while let Some(first) = next {
            let mut room = Room { values: 2, bytes: 1 << 20 };
            let (page, rest) = series.processed(&asked, first, &mut room);
            assert!(!page.is_empty() && page.len() <= 2);
            parts.extend(page);
            next = rest;
        }
        assert_eq!(parts, whole, "{start} to {end}");
        assert_eq!(whole.len(), 5);
    }
}
