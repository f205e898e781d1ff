//! Raw values: the time domain, bounds, pages (OPC 10000-11 §4.4, §6.5.3.2).

use proptest::prelude::*;

use super::*;

/// start, end, number, bounds => instants; a negative one is a bound that was not found.
#[test]
fn the_time_domain_and_its_bounds() {
    type Row = (&'static str, i64, i64, u32, bool, &'static [i64]);
    let rows: [Row; 17] = [
        ("the end is not part of it", 20, 40, 0, false, &[20, 30]),
        ("between values", 21, 29, 0, false, &[]),
        ("backward: neither is the earlier end", 40, 20, 0, false, &[40, 30]),
        ("from a start on", 20, 0, 2, false, &[20, 30]),
        ("back from an end", 0, 40, 2, false, &[40, 30]),
        ("an instant", 30, 30, 0, false, &[30]),
        ("an instant between values", 31, 31, 0, false, &[]),
        ("bounds on values", 20, 40, 0, true, &[20, 30, 40]),
        ("bounds between values", 25, 35, 0, true, &[20, 30, 40]),
        ("bounds around nothing", 21, 29, 0, true, &[20, 30]),
        ("bounds outside", 5, 55, 0, true, &[-5, 10, 20, 30, 40, 50, -55]),
        ("backward bounds", 35, 15, 0, true, &[40, 30, 20, 10]),
        ("backward bounds outside", 60, 5, 0, true, &[-60, 50, 40, 30, 20, 10, -5]),
        ("an instant with bounds", 30, 30, 0, true, &[30]),
        ("an instant between values with bounds", 31, 31, 0, true, &[30, 40]),
        ("a start with its bound", 15, 0, 2, true, &[10, 20]),
        ("behind everything", 60, 70, 0, false, &[]),
    ];
    for (rule, start, end, most, bounds, expected) in rows {
        let domain = Domain::new(start, end, most, bounds).unwrap();
        let (values, rest) = five().page(&domain, Resume::Start, &mut room());
        let found: Vec<i64> = seen(&values).into_iter().map(|(at, there)| if there { at } else { -at }).collect();
        assert_eq!((found.as_slice(), rest), (expected, None), "{rule}");
    }
}

#[test]
fn two_of_three_are_needed() {
    for (start, end, most) in [(0, 0, 0), (0, 0, 5), (5, 0, 0), (0, 5, 0)] {
        let domain = Domain::new(start, end, most, false);
        assert_eq!(domain, Err(StatusCode::BadHistoryOperationInvalid), "{start} {end} {most}");
    }
}

#[test]
fn a_bound_that_is_not_there_says_so() {
    let domain = Domain::new(5, 15, 0, true).unwrap();
    let (values, _) = five().page(&domain, Resume::Start, &mut room());
    assert_eq!(values.first().unwrap().status(), StatusCode::BadBoundNotFound);
}

proptest! {
    /// Pages of any size put together are the whole, in either direction, with and without bounds.
    #[test]
    fn pages_put_together_are_the_whole(
        times in proptest::collection::btree_set(1_i64..60, 0..20),
        start in 0_i64..60, end in 0_i64..60, most in 0_u32..9, bounds: bool, per_page in 1_usize..5,
    ) {
        let mut series = Series::new(100);
        times.iter().for_each(|at| series.record(value(*at, *at as f64)));
        let Ok(domain) = Domain::new(start, end, most, bounds) else { return Ok(()) };
        let one_end = start == 0 || end == 0;
        let mut found = Vec::new();
        let mut resume = Some(Resume::Start);
        let mut pages = 0;
        while let Some(from) = resume {
            pages += 1;
            prop_assert!(pages < 100, "it goes on for ever");
            let mut room = Room { values: per_page, bytes: 1 << 20 };
            let (values, rest) = series.page(&domain, from, &mut room);
            prop_assert!(rest.is_none() || !values.is_empty(), "a page without values");
            prop_assert!(most == 0 || values.len() <= most as usize);
            found.extend(values);
            resume = rest;
        }
        let all = Domain::new(start, end, if one_end { most } else { 0 }, bounds).unwrap();
        let (whole, rest) = series.page(&all, Resume::Start, &mut room());
        prop_assert_eq!(rest, None);
        prop_assert_eq!(found, whole);
    }
}

#[test]
fn a_page_is_bounded_by_bytes_as_well() {
    let mut series = Series::new(10);
    for at in 1..=3 {
        let text = Variant::from("x".repeat(1_000));
        series.record(DataValue { value: Some(text), ..value(at, 0.0) });
    }
    let domain = Domain::new(1, 9, 0, false).unwrap();
    let (values, rest) = series.page(&domain, Resume::Start, &mut Room { values: 10, bytes: 1_500 });
    assert_eq!((values.len(), rest), (1, Some(Resume::Behind(1))));
    let (values, _) = series.page(&domain, Resume::Behind(1), &mut Room { values: 10, bytes: 1 });
    assert_eq!(values.len(), 1, "a first value is never too much");
}
