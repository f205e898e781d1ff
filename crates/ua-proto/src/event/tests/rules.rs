//! Each operator by its rule (OPC 10000-4 §7.7.3).

use opcua_types::{DateTime, FilterOperator as F, Guid, LocalizedText, StatusCode};

use super::*;

/// What an element with these operands gives.
fn result(operator: F, operands: Vec<Variant>) -> Option<bool> {
    let eyes = eyes();
    let names: Vec<String> = (0..operands.len()).map(|at| format!("F{at}")).collect();
    let fields: Vec<(&str, Variant)> = names.iter().map(String::as_str).zip(operands).collect();
    let event = event(&eyes, 2041, &fields);
    let operands: Vec<_> = names.iter().map(|name| field(name)).collect();
    let holds = |element: Vec<_>| clause(&eyes, element).passes(&event, &eyes, &mut plenty()).unwrap();
    let one = element(operator, operands);
    if holds(vec![one.clone()]) {
        return Some(true);
    }
    // Not true: false when its negation is true, else null.
    holds(vec![element(F::Not, vec![later(1)]), one]).then_some(false)
}

#[test]
fn comparisons() {
    let null = || Variant::Empty;
    let time = |ticks: i64| Variant::from(DateTime::from(ticks));
    let guid = "72962b91-fa75-4ae6-8d28-b404dc7daf63";
    let (yes, no) = (Some(true), Some(false));
    for (row, operator, one, other, expected) in [
        ("equal", F::Equals, 5_i32.into(), 5_i32.into(), yes),
        ("equal across types", F::Equals, 5_i32.into(), 5.0_f64.into(), yes),
        ("unsigned and signed", F::Equals, u64::MAX.into(), (-1_i64).into(), no),
        ("whole numbers beyond Double stay apart", F::Equals, (i64::MAX - 1).into(), i64::MAX.into(), no),
        ("text as number", F::Equals, "5".into(), 5_i32.into(), yes),
        ("text that is no number", F::Equals, "five".into(), 5_i32.into(), no),
        ("no conversion", F::Equals, time(5), 5_i32.into(), no),
        ("texts by case", F::Equals, "a".into(), "A".into(), no),
        ("localized text", F::Equals, LocalizedText::new("en", "a").into(), "a".into(), yes),
        ("truth and text", F::Equals, true.into(), "TRUE".into(), yes),
        ("guid and text", F::Equals, guid.parse::<Guid>().unwrap().into(), guid.into(), yes),
        ("node id and text", F::Equals, "i=85".into(), NodeId::new(0, 85).into(), yes),
        ("not a number", F::Equals, f64::NAN.into(), f64::NAN.into(), no),
        ("arrays", F::Equals, vec![1_i32, 2].into(), vec![1_i32, 2].into(), yes),
        ("null", F::Equals, null(), 5_i32.into(), None),
        ("null and null", F::Equals, null(), null(), None),
        ("greater", F::GreaterThan, 6_i32.into(), 5.5_f64.into(), yes),
        ("not greater", F::GreaterThan, 5_i32.into(), 5_i32.into(), no),
        ("greater or equal", F::GreaterThanOrEqual, 5_i32.into(), 5_i32.into(), yes),
        ("less", F::LessThan, "a".into(), "b".into(), yes),
        ("less or equal", F::LessThanOrEqual, time(5), time(6), yes),
        ("text and number in order", F::LessThan, "4".into(), 5_u8.into(), yes),
        ("no order", F::LessThan, NodeId::new(0, 1).into(), NodeId::new(0, 2).into(), no),
        ("null in order", F::LessThan, 5_i32.into(), null(), None),
        ("like", F::Like, "too hot".into(), "%hot".into(), yes),
        ("like in capitals", F::Like, "too hot".into(), "%HOT".into(), no),
        ("like on a number", F::Like, 5_i32.into(), "5".into(), None),
        ("status", F::Equals, StatusCode::BadTimeout.into(), 0x800A_0000_u32.into(), yes),
    ] {
        assert_eq!(result(operator, vec![one, other]), expected, "{row}");
    }
}

#[test]
fn null_between_lists_and_logic() {
    let (yes, no) = (Some(true), Some(false));
    let (t, f, n) = (|| Variant::from(true), || Variant::from(false), || Variant::Empty);
    for (row, operator, operands, expected) in [
        ("is null", F::IsNull, vec![n()], yes),
        ("is not null", F::IsNull, vec![0_i32.into()], no),
        ("null text", F::IsNull, vec![opcua_types::UAString::null().into()], yes),
        ("between, ends included", F::Between, vec![5_i32.into(), 5_i32.into(), 6_i32.into()], yes),
        ("not between", F::Between, vec![7_i32.into(), 5_i32.into(), 6_i32.into()], no),
        ("between null and less", F::Between, vec![7_i32.into(), n(), 6_i32.into()], no),
        ("between null and more", F::Between, vec![5_i32.into(), n(), 6_i32.into()], None),
        ("in list", F::InList, vec![5_i32.into(), 1_i32.into(), "5".into()], yes),
        ("not in list", F::InList, vec![5_i32.into(), 1_i32.into(), 2_i32.into()], no),
        ("in a list with null", F::InList, vec![5_i32.into(), n(), 5_i32.into()], yes),
        ("not in a list with null", F::InList, vec![5_i32.into(), n(), 2_i32.into()], None),
        ("and", F::And, vec![t(), t()], yes),
        ("and false", F::And, vec![n(), f()], no),
        ("and null", F::And, vec![t(), n()], None),
        ("or", F::Or, vec![n(), t()], yes),
        ("or null", F::Or, vec![f(), n()], None),
        ("or false", F::Or, vec![f(), f()], no),
        ("not", F::Not, vec![f()], yes),
        ("not null", F::Not, vec![n()], None),
        ("not of text", F::Not, vec!["false".into()], yes),
        ("not of a number", F::Not, vec![1_i32.into()], None),
    ] {
        assert_eq!(result(operator, operands), expected, "{row}");
    }
}

#[test]
fn types_casts_and_bits() {
    let eyes = eyes();
    let write = event(&eyes, 2100, &[("N", Variant::from(6_u16)), ("T", Variant::from("12"))]);
    let passes = |elements| clause(&eyes, elements).passes(&write, &eyes, &mut plenty()).unwrap();
    let of = |kind: u32| vec![element(F::OfType, vec![literal(NodeId::new(0, kind))])];
    for (kind, expected) in [(2100, true), (2052, true), (2041, true), (2127, false), (2060, false)] {
        assert_eq!(passes(of(kind)), expected, "type {kind}");
    }
    let equals = |inner, value: Variant| vec![element(F::Equals, vec![later(1), literal(value)]), inner];
    let to = |name: &str, kind: u32| element(F::Cast, vec![field(name), literal(NodeId::new(0, kind))]);
    assert!(passes(equals(to("T", 6), 12_i32.into())), "text to Int32");
    assert!(passes(equals(to("N", 290), 6.0_f64.into())), "to Duration, a Double");
    assert!(passes(vec![element(F::IsNull, vec![later(1)]), to("SourceName", 6)]), "a name is no number");
    let bits = |operator, other: Variant| element(operator, vec![field("N"), literal(other)]);
    assert!(passes(equals(bits(F::BitwiseAnd, 3_u32.into()), 2_u32.into())));
    assert!(passes(equals(bits(F::BitwiseOr, 1_u8.into()), 7_u16.into())));
    assert!(passes(vec![element(F::IsNull, vec![later(1)]), bits(F::BitwiseOr, "1".into())]));
}

#[test]
fn a_filter_without_where_clause_lets_everything_pass() {
    let eyes = eyes();
    assert!(clause(&eyes, Vec::new()).passes(&event(&eyes, 2041, &[]), &eyes, &mut plenty()).unwrap());
}

#[test]
fn fields_of_another_type_are_null() {
    let eyes = eyes();
    let typed = ExtensionObject::from_message(simple(2100, &["NewValue"], 13, ""));
    let filter = clause(&eyes, vec![element(F::IsNull, vec![typed])]);
    let fields = [("NewValue", Variant::from(1_i32))];
    assert!(!filter.passes(&event(&eyes, 2100, &fields), &eyes, &mut plenty()).unwrap());
    assert!(
        filter.passes(&event(&eyes, 2127, &fields), &eyes, &mut plenty()).unwrap(),
        "of a type that is not derived from it"
    );
}
