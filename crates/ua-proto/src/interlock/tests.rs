//! Tables of what passes and what does not, and the property that no second holds more than the rate.

use access_model::UnixTime;
use opcua_types::Array;
use opcua_types::VariantScalarTypeId as Kind;
use proptest::prelude::*;

use super::*;

fn at(millis: u64) -> Now {
    Now { mono: Mono::ZERO + Duration::from_millis(millis), unix: UnixTime::from_seconds(1_800_000_000) }
}

fn node() -> NodeId {
    NodeId::new(2, "Speed")
}

fn step(step: f64) -> Bounds {
    Bounds { step: Some(step), ..Bounds::default() }
}

fn rate(rate: f64) -> Bounds {
    Bounds { rate: Some(rate), ..Bounds::default() }
}

fn good(value: impl Into<Variant>) -> DataValue {
    DataValue { status: Some(StatusCode::Good), ..DataValue::value_only(value.into()) }
}

fn reason(result: Result<(), Broken>) -> Option<Reason> {
    result.err().map(|broken| broken.reason)
}

fn matrix(values: [f64; 4], rows: u32) -> Variant {
    let values: Vec<Variant> = values.into_iter().map(Variant::from).collect();
    Variant::from(Array::new_multi(Kind::Double, values, vec![rows, 4 / rows]).unwrap())
}

#[test]
fn ranges() {
    let bounds = Bounds { range: Some((-1.0, 9_007_199_254_740_992.0)), ..Bounds::default() };
    for (rule, value, inside) in [
        ("the least", Some(Variant::from(-1.0)), true),
        ("the most", Some(Variant::from(1_u64 << 53)), true),
        ("beyond what a double can tell", Some(Variant::from((1_u64 << 53) + 1)), false),
        ("signed beyond it", Some(Variant::from((1_i64 << 53) + 1)), false),
        ("a byte", Some(Variant::from(200_u8)), true),
        ("below", Some(Variant::from(-2_i8)), false),
        ("not a number", Some(Variant::from(f32::NAN)), false),
        ("infinite", Some(Variant::from(f64::INFINITY)), false),
        ("a text", Some(Variant::from("5")), false),
        ("a truth value", Some(Variant::from(true)), false),
        ("a number in a variant", Some(Variant::Variant(Box::new(5.into()))), false),
        ("nothing", None, false),
        ("a null", Some(Variant::Empty), false),
        ("an array", Some(Variant::from(vec![0.0, 5.0])), true),
        ("an element outside", Some(Variant::from(vec![0.0, -5.0])), false),
        ("an element that is not a number", Some(Variant::from(vec![0.0, f64::NAN])), false),
        ("a matrix", Some(matrix([0.0, 1.0, 2.0, 3.0], 2)), true),
        ("a matrix with an element outside", Some(matrix([0.0, 1.0, 2.0, -3.0], 2)), false),
    ] {
        let expected = (!inside).then_some(Reason::ValueOutOfRange);
        assert_eq!(reason(super::inside(bounds, value.as_ref())), expected, "{rule}");
    }
    assert_eq!(super::inside(Bounds::default(), None), Ok(()), "no bound");
}

#[test]
fn steps() {
    const UNKNOWN: Option<Reason> = Some(Reason::PresentValueUnknown);
    const TOO_LARGE: Option<Reason> = Some(Reason::StepTooLarge);
    let none = NumericRange::None;
    let second = NumericRange::Index(1);
    let big = (1_i64 << 62) + 1;
    let uncertain = DataValue { status: Some(StatusCode::Uncertain), ..good(1.0) };
    let bad = DataValue { status: Some(StatusCode::BadSensorFailure), ..good(1.0) };
    let list = || good(vec![1.0, 2.0, 3.0]);
    for (rule, present, new, range, expected) in [
        ("up", good(1.0), Variant::from(6.0), &none, None),
        ("down", good(6.0), Variant::from(1.0), &none, None),
        ("too far", good(1.0), Variant::from(6.5), &none, TOO_LARGE),
        ("whole numbers", good(big), Variant::from(big + 5), &none, None),
        ("whole numbers too far", good(big), Variant::from(big + 6), &none, TOO_LARGE),
        ("from end to end", good(i64::MIN), Variant::from(i64::MAX), &none, TOO_LARGE),
        ("unsigned", good(u64::MAX), Variant::from(u64::MAX - 5), &none, None),
        ("unsigned too far", good(0_u64), Variant::from(u64::MAX), &none, TOO_LARGE),
        ("not a number now", good(f64::NAN), Variant::from(1.0), &none, UNKNOWN),
        ("not a number then", good(1.0), Variant::from(f64::NAN), &none, UNKNOWN),
        ("infinite", good(1.0), Variant::from(f64::INFINITY), &none, UNKNOWN),
        ("another type", good(1.0), Variant::from(1_i32), &none, UNKNOWN),
        ("a text", good("1"), Variant::from("2"), &none, UNKNOWN),
        ("uncertain", uncertain, Variant::from(1.0), &none, UNKNOWN),
        ("bad", bad, Variant::from(1.0), &none, UNKNOWN),
        ("no value", DataValue::default(), Variant::from(1.0), &none, UNKNOWN),
        ("a null", good(Variant::Empty), Variant::from(1.0), &none, UNKNOWN),
        ("an array", list(), Variant::from(vec![1.0, 7.0, 3.0]), &none, None),
        ("one element too far", list(), Variant::from(vec![1.0, 7.5, 3.0]), &none, TOO_LARGE),
        ("a shorter array", list(), Variant::from(vec![1.0, 2.0]), &none, UNKNOWN),
        ("a scalar for an array", list(), Variant::from(1.0), &none, UNKNOWN),
        ("a part", list(), Variant::from(vec![7.0]), &second, None),
        ("a part too far", list(), Variant::from(vec![7.5]), &second, TOO_LARGE),
        ("a part that is not there", good(vec![1.0]), Variant::from(vec![1.0]), &second, UNKNOWN),
        ("a part of a scalar", good(1.0), Variant::from(vec![1.0]), &second, UNKNOWN),
        ("a matrix", good(matrix([0.0; 4], 2)), matrix([5.0; 4], 2), &none, None),
        ("a matrix of another shape", good(matrix([0.0; 4], 2)), matrix([0.0; 4], 4), &none, UNKNOWN),
    ] {
        let mut book = Interlocks::default();
        let said = book.change((&node(), &present), (step(5.0), &new, range), None, true, at(0));
        assert_eq!(reason(said), expected, "{rule}");
    }
}

#[test]
fn a_second_holds_no_more_than_the_rate_and_the_next_begins_anew() {
    let mut book = Interlocks::default();
    let none = NumericRange::None;
    let mut write = |from: f64, to: f64, millis: u64| {
        reason(book.change((&node(), &good(from)), (rate(10.0), &to.into(), &none), None, true, at(millis)))
    };
    const TOO_FAST: Option<Reason> = Some(Reason::RateTooHigh);
    assert_eq!(write(0.0, 6.0, 0), None);
    assert_eq!(write(6.0, 2.0, 400), None, "back counts as well");
    assert_eq!(write(2.0, 2.5, 999), TOO_FAST);
    assert_eq!(write(2.0, 2.0, 999), None, "what changes nothing");
    assert_eq!(write(2.0, 8.0, 1_000), None, "the first is a second ago");
    assert_eq!(write(8.0, 8.5, 1_300), TOO_FAST);
    assert_eq!(write(8.0, 20.0, 9_000), TOO_FAST, "more at once than in a second");
}

#[test]
fn what_is_only_looked_at_does_not_count() {
    let mut book = Interlocks::default();
    let none = NumericRange::None;
    for count in [false, false, true] {
        let said = book.change((&node(), &good(0.0)), (rate(10.0), &10.0.into(), &none), None, count, at(0));
        assert_eq!(said, Ok(()));
    }
    let said = book.change((&node(), &good(0.0)), (rate(10.0), &1.0.into(), &none), None, false, at(0));
    assert_eq!(reason(said), Some(Reason::RateTooHigh));
}

#[test]
fn a_node_is_held_by_one_request_at_a_time() {
    let mut book = Interlocks::default();
    let (node, until) = (node(), at(30_000).mono);
    assert!(book.hold(&node, (1, 1), until, at(0)));
    assert!(!book.hold(&node, (2, 1), until, at(1)), "another one");
    book.know(&node, (2, 1), good(7.0));
    assert_eq!(book.known(&node, (1, 1)), None, "told by one who does not hold it");
    book.know(&node, (1, 1), good(7.0));
    assert_eq!(book.known(&node, (1, 1)), Some(&good(7.0)));
    assert_eq!(book.known(&node, (2, 1)), None);
    let none = NumericRange::None;
    let mut write = |by| book.change((&node, &good(7.0)), (step(5.0), &8.0.into(), &none), by, true, at(2));
    assert_eq!(write(Some((1, 1))), Ok(()));
    assert_eq!(reason(write(Some((2, 1)))), Some(Reason::PresentValueUnknown));
    assert_eq!(reason(write(None)), Some(Reason::PresentValueUnknown));
    book.release((2, 1), at(3));
    assert!(!book.hold(&node, (2, 1), until, at(3)), "released by one who does not hold it");
    book.release((1, 1), at(4));
    assert!(book.hold(&node, (2, 1), until, at(4)));
    assert!(book.hold(&node, (3, 1), at(60_000).mono, at(30_000)), "a request that was never heard of again");
    book.release((2, 1), at(30_001));
    assert!(!book.hold(&node, (1, 1), at(60_000).mono, at(30_001)), "it is the third's by now");
}

#[test]
fn there_is_an_end_to_what_is_remembered_and_nothing_that_counts_is_forgotten() {
    let mut book = Interlocks::default();
    let named = |number: u32| NodeId::new(2, number);
    let none = NumericRange::None;
    let mut write = |number, millis| {
        let said = book.change((&named(number), &good(0.0)), (rate(1.0), &1.0.into(), &none), None, true, at(millis));
        reason(said)
    };
    let most = u32::try_from(MOST_NODES).unwrap();
    for number in 0..most {
        assert_eq!(write(number, 0), None);
    }
    assert_eq!(write(most, 500), Some(Reason::PresentValueUnknown), "there is no room");
    assert_eq!(write(0, 999), Some(Reason::RateTooHigh), "nothing was forgotten for it");
    assert_eq!(write(most, 1_000), None, "what is over made room");
}

proptest! {
    /// Whatever is written, and however fast: no second, wherever it begins, holds more than the bound, and no step is
    /// longer.
    #[test]
    fn no_second_holds_more_than_the_rate(writes in prop::collection::vec((0_u64..400, -30_i32..30), 1..120)) {
        const RATE: f64 = 20.0;
        let mut book = Interlocks::default();
        let bounds = Bounds { range: None, step: Some(8.0), rate: Some(RATE) };
        let (mut value, mut now) = (0.0, 0);
        let mut passed: Vec<(u64, f64)> = Vec::new();
        for (pause, to) in writes {
            now += pause;
            let to = f64::from(to) / 3.0;
            let said = book.change((&node(), &good(value)), (bounds, &to.into(), &NumericRange::None), None, true, at(now));
            if said.is_ok() {
                prop_assert!((to - value).abs() <= 8.0);
                passed.push((now, (to - value).abs()));
                value = to;
            }
        }
        for (from, _) in &passed {
            let window = passed.iter().filter(|(at, _)| (*from..from + 1_000).contains(at));
            let sum: f64 = window.map(|(_, change)| change).sum();
            prop_assert!(sum <= RATE + 1e-9, "{sum} from {from} on");
        }
    }
}

/// A server that is slow makes the change it was asked for at any moment before it answers.
#[test]
fn a_change_that_is_answered_late_counts_from_its_answer() {
    let (mut book, node) = (Interlocks::default(), NodeId::new(2, 1));
    let (none, bounds) = (NumericRange::None, rate(5.0));
    for (at_once, answered, tried, expected) in [
        ("answered at once", 0, 1_000, None),
        ("within the second of its answer", 3_000, 3_999, Some(Reason::RateTooHigh)),
        ("a second after its answer", 13_000, 14_000, None),
    ] {
        let sent = answered / 10_000 * 10_000;
        let by = (1, answered);
        assert!(book.hold(&node, by, at(sent + 9_999).mono, at(sent)));
        let mut change = |by, now| book.change((&node, &good(0.0)), (bounds, &5.0.into(), &none), by, true, at(now));
        assert_eq!(change(Some(by), sent), Ok(()), "{at_once}");
        book.release(by, at(answered));
        let mut change = |by, now| book.change((&node, &good(0.0)), (bounds, &5.0.into(), &none), by, false, at(now));
        assert_eq!(reason(change(None, tried)), expected, "{at_once}");
        let _later = book.change((&node, &good(0.0)), (bounds, &0.0.into(), &none), None, false, at(answered + 5_000));
    }
}
