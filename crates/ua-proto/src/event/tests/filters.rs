//! What is read of a filter, what is refused, and what its select clauses tell.

use access_model::Rights;
use opcua_types::{
    ByteString, ByteStringBody, ContentFilterElement, FilterOperator as F, NodeId, ObjectId, StatusCode,
};

use super::*;
use crate::event::parse::{MAX_ELEMENTS, MAX_LITERAL, MAX_OPERANDS, MAX_PATH, MAX_SELECT};

const GOOD: StatusCode = StatusCode::Good;

fn severity() -> SimpleAttributeOperand {
    simple(2041, &["Severity"], 13, "")
}

fn read(eyes: &Eyes, wanted: opcua_types::EventFilter) -> Result<Vec<StatusCode>, StatusCode> {
    match EventFilter::read(&ExtensionObject::from_message(wanted), eyes) {
        Ok(outcome) => Ok(outcome.result.and_then(|result| result.select_clause_results).unwrap_or_default()),
        Err(unusable) => Err(unusable.status),
    }
}

#[test]
fn a_select_clause_at_fault_is_told_and_the_others_work() {
    let eyes = eyes();
    for (row, operand, expected) in [
        ("field", severity(), GOOD),
        ("any field of any type by BaseEventType", simple(2041, &["OldValue"], 13, ""), GOOD),
        (
            "null type is BaseEventType",
            SimpleAttributeOperand { type_definition_id: NodeId::null(), ..severity() },
            GOOD,
        ),
        ("field of a subtype", simple(2100, &["NewValue"], 13, "0:1"), GOOD),
        ("inherited field", simple(2100, &["Severity"], 13, ""), GOOD),
        ("condition id", simple(2782, &[], 1, ""), GOOD),
        ("unknown field", simple(2100, &["Nothing"], 13, ""), StatusCode::BadNodeIdUnknown),
        ("no event type", simple(58, &["Severity"], 13, ""), StatusCode::BadTypeDefinitionInvalid),
        ("no type", simple(999_999, &["Severity"], 13, ""), StatusCode::BadTypeDefinitionInvalid),
        ("value of the event itself", simple(2041, &[], 13, ""), StatusCode::BadAttributeIdInvalid),
        ("another attribute", simple(2041, &["Severity"], 5, ""), StatusCode::BadAttributeIdInvalid),
        ("no attribute", simple(2041, &["Severity"], 99, ""), StatusCode::BadAttributeIdInvalid),
    ] {
        let told = read(&eyes, filter(vec![operand, severity()], Vec::new()));
        let expected = if expected == GOOD { Vec::new() } else { vec![expected, GOOD] };
        assert_eq!(told, Ok(expected), "{row}");
    }
}

#[test]
fn a_hidden_type_is_told_as_one_that_is_not_there() {
    let mut eyes = eyes();
    eyes.shut = ns0::find_numeric(2100);
    let told = read(&eyes, filter(vec![simple(2100, &["NewValue"], 13, "")], Vec::new()));
    assert_eq!(told, Ok(vec![StatusCode::BadTypeDefinitionInvalid]));
    let of_type = element(F::OfType, vec![literal(NodeId::new(0, 2100))]);
    assert_eq!(read(&eyes, filter(vec![severity()], vec![of_type])), Err(StatusCode::BadEventFilterInvalid));
}

#[test]
fn fields_come_in_the_order_of_the_clauses_and_null_where_there_is_none() {
    let eyes = eyes();
    let select = vec![
        simple(2041, &["SourceName"], 13, ""),
        simple(2100, &["NewValue"], 13, "1"),
        simple(2127, &["MethodId"], 13, ""),
        simple(2041, &["Nothing"], 13, ""),
        simple(2782, &[], 1, ""),
        severity(),
        simple(58, &["Severity"], 13, ""),
        simple(2100, &["NewValue"], 13, "7"),
    ];
    let wanted = ExtensionObject::from_message(filter(select, Vec::new()));
    let filter = EventFilter::read(&wanted, &eyes).unwrap().filter;
    let event = event(&eyes, 2100, &[("NewValue", Variant::from(vec![4_i32, 5, 6]))]);
    let none = Variant::Empty;
    let no_data = Variant::StatusCode(StatusCode::BadIndexRangeNoData);
    let expected = [
        Variant::from("Pump"),
        Variant::from(vec![5_i32]),
        none.clone(),
        none.clone(),
        none.clone(),
        300_u16.into(),
        none,
        no_data,
    ];
    assert_eq!(filter.fields(&event, &eyes), expected);
}

#[test]
fn a_field_that_holds_a_value_of_a_node_needs_the_right_to_read_it() {
    let mut eyes = eyes();
    let pump = source(&eyes);
    let mut event = event(&eyes, 2100, &[]);
    event.set_guarded("NewValue", Variant::from(42_i32), (pump, Rights::READ));
    let select = vec![simple(2100, &["NewValue"], 13, "")];
    let tells = vec![element(F::Equals, vec![field("NewValue"), literal(42_i32)])];
    let knows = vec![element(F::IsNull, vec![field("NewValue")])];
    let told = |eyes: &Eyes, elements: &[ContentFilterElement]| {
        let wanted = ExtensionObject::from_message(filter(select.clone(), elements.to_vec()));
        let filter = EventFilter::read(&wanted, eyes).unwrap().filter;
        (filter.passes(&event, eyes, &mut plenty()).unwrap(), filter.fields(&event, eyes))
    };
    assert_eq!(told(&eyes, &tells), (true, vec![Variant::from(42_i32)]));
    eyes.shut = Some(pump);
    let denied = vec![Variant::StatusCode(StatusCode::BadUserAccessDenied)];
    assert_eq!(told(&eyes, &tells), (false, denied.clone()), "the where clause does not tell it either");
    assert_eq!(told(&eyes, &knows), (true, denied));
}

#[test]
fn a_where_clause_at_fault_says_where() {
    let eyes = eyes();
    let invalid = StatusCode::BadFilterOperandInvalid;
    let number = || literal(1_i32);
    let attribute = || ExtensionObject::from_message(opcua_types::AttributeOperand::default());
    for (row, elements, status, operands) in [
        (
            "too few operands",
            vec![element(F::Equals, vec![number()])],
            StatusCode::BadFilterOperandCountMismatch,
            vec![GOOD],
        ),
        ("InView", vec![element(F::InView, vec![number()])], StatusCode::BadFilterOperatorUnsupported, vec![GOOD]),
        ("RelatedTo", vec![element(F::RelatedTo, vec![])], StatusCode::BadFilterOperatorUnsupported, vec![]),
        ("AttributeOperand", vec![element(F::IsNull, vec![attribute()])], invalid, vec![invalid]),
        ("no operand", vec![element(F::IsNull, vec![ExtensionObject::null()])], invalid, vec![invalid]),
        ("itself", vec![element(F::Not, vec![later(0)])], invalid, vec![invalid]),
        ("beyond the end", vec![element(F::Not, vec![later(9)])], invalid, vec![invalid]),
        (
            "unknown field",
            vec![element(F::IsNull, vec![ExtensionObject::from_message(simple(2100, &["Nothing"], 13, ""))])],
            invalid,
            vec![StatusCode::BadNodeIdUnknown],
        ),
        (
            "pattern that is not complete",
            vec![element(F::Like, vec![field("Message"), literal("[a")])],
            invalid,
            vec![GOOD, StatusCode::BadFilterLiteralInvalid],
        ),
        (
            "literal that is too large",
            vec![element(F::Equals, vec![field("Message"), literal("x".repeat(MAX_LITERAL).as_str())])],
            invalid,
            vec![GOOD, StatusCode::BadFilterLiteralInvalid],
        ),
        ("cast to no type", vec![element(F::Cast, vec![number(), number()])], invalid, vec![GOOD, invalid]),
        (
            "of no event type",
            vec![element(F::OfType, vec![literal(NodeId::new(0, 58))])],
            invalid,
            vec![StatusCode::BadNodeIdUnknown],
        ),
    ] {
        let wanted = ExtensionObject::from_message(filter(vec![severity()], elements));
        let Err(unusable) = EventFilter::read(&wanted, &eyes) else { panic!("{row}: taken") };
        assert_eq!(unusable.status, StatusCode::BadEventFilterInvalid, "{row}");
        let result = unusable.result.expect("says where").where_clause_result.element_results.unwrap().remove(0);
        assert_eq!(result.status_code, status, "{row}");
        assert_eq!(result.operand_status_codes.unwrap_or_default(), operands, "{row}");
    }
}

#[test]
fn what_is_no_filter_is_refused() {
    let eyes = eyes();
    let other = ExtensionObject::from_message(opcua_types::DataChangeFilter::default());
    let unsupported = StatusCode::BadMonitoredItemFilterUnsupported;
    let closed = |kind: ObjectId, bytes: Vec<u8>| {
        ExtensionObject::new(ByteStringBody::new(ByteString::from(bytes), NodeId::new(0, kind as u32)))
    };
    let event_filter = ObjectId::EventFilter_Encoding_DefaultBinary;
    for (row, wanted, status) in [
        ("none", ExtensionObject::null(), StatusCode::BadEventFilterInvalid),
        ("another kind", other, unsupported),
        ("another kind, closed", closed(ObjectId::Range_Encoding_DefaultBinary, vec![0; 16]), unsupported),
        ("cut off", closed(event_filter, vec![1, 0]), StatusCode::BadDecodingError),
        ("more than the filter", closed(event_filter, trailing()), StatusCode::BadDecodingError),
        (
            "no select clause",
            ExtensionObject::from_message(filter(Vec::new(), Vec::new())),
            StatusCode::BadEventFilterInvalid,
        ),
    ] {
        assert_eq!(EventFilter::read(&wanted, &eyes).err().map(|unusable| unusable.status), Some(status), "{row}");
    }
}

fn trailing() -> Vec<u8> {
    use opcua_types::{BinaryEncodable, ContextOwned};
    let mut bytes = filter(vec![severity()], Vec::new()).encode_to_vec(&ContextOwned::default().context());
    bytes.push(0);
    bytes
}

#[test]
fn every_count_has_a_bound() {
    let eyes = eyes();
    let invalid = Err(StatusCode::BadEventFilterInvalid);
    let one = || element(F::IsNull, vec![field("Message")]);
    let in_list = |count| element(F::InList, vec![literal(1_i32); count]);
    let path = |steps| simple(2041, &vec!["Severity"; steps], 13, "");
    for (row, wanted, expected) in [
        ("clauses", filter(vec![severity(); MAX_SELECT], Vec::new()), Ok(Vec::new())),
        ("too many clauses", filter(vec![severity(); MAX_SELECT + 1], Vec::new()), invalid.clone()),
        ("elements", filter(vec![severity()], vec![one(); MAX_ELEMENTS]), Ok(Vec::new())),
        ("too many elements", filter(vec![severity()], vec![one(); MAX_ELEMENTS + 1]), invalid.clone()),
        ("operands", filter(vec![severity()], vec![in_list(MAX_OPERANDS)]), Ok(Vec::new())),
        ("too many operands", filter(vec![severity()], vec![in_list(MAX_OPERANDS + 1)]), invalid.clone()),
        ("path", filter(vec![path(MAX_PATH)], Vec::new()), Ok(Vec::new())),
        (
            "path that is too long",
            filter(vec![path(MAX_PATH + 1)], Vec::new()),
            Err(StatusCode::BadEncodingLimitsExceeded),
        ),
    ] {
        assert_eq!(read(&eyes, wanted), expected, "{row}");
    }
}

#[test]
fn elements_that_share_one_another_are_evaluated_once_each() {
    let eyes = eyes();
    let mut elements: Vec<_> =
        (1..MAX_ELEMENTS as u32).map(|next| element(F::And, vec![later(next), later(next)])).collect();
    elements.push(element(F::Equals, vec![field("Severity"), literal(300_u16)]));
    // Without sharing, this would be two to the power of 63 comparisons.
    assert!(clause(&eyes, elements).passes(&event(&eyes, 2041, &[]), &eyes, &mut plenty()).unwrap());
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_the_filter_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let eyes = eyes();
        let kind = NodeId::new(0, ObjectId::EventFilter_Encoding_DefaultBinary as u32);
        let wanted = ExtensionObject::new(ByteStringBody::new(ByteString::from(bytes), kind));
        let _ = EventFilter::read(&wanted, &eyes);
    }

    #[test]
    fn no_change_of_a_good_filter_makes_it_panic(at in 0_usize..400, by in proptest::num::u8::ANY) {
        use opcua_types::{BinaryEncodable, ContextOwned};
        let eyes = eyes();
        let elements = vec![
            element(F::And, vec![later(1), later(2)]),
            element(F::Like, vec![field("Message"), literal("%hot[a-f]_")]),
            element(F::Between, vec![field("Severity"), literal(1_i32), literal("500")]),
        ];
        let mut bytes =
            filter(vec![severity(), simple(2100, &["NewValue"], 13, "0:3")], elements).encode_to_vec(&ContextOwned::default().context());
        let place = at % bytes.len();
        bytes[place] = by;
        let kind = NodeId::new(0, ObjectId::EventFilter_Encoding_DefaultBinary as u32);
        let wanted = ExtensionObject::new(ByteStringBody::new(ByteString::from(bytes), kind));
        if let Ok(outcome) = EventFilter::read(&wanted, &eyes) {
            let event = event(&eyes, 2100, &[("NewValue", Variant::from(vec![1_i32]))]);
            outcome.filter.passes(&event, &eyes, &mut plenty()).unwrap();
            outcome.filter.fields(&event, &eyes);
        }
    }
}
