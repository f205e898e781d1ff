//! What may be written, and what a value is afterwards.

use access_model::ScopeIndex;
use opcua_types::{
    Argument, Array, ByteString, DataValue, DateTime, EUInformation, ExtensionObject, NumericRange, Range, StatusCode,
    UAString, Variant, VariantScalarTypeId,
};

use super::{NOW, bare, i, id, space, variable};
use crate::space::{AccessLevel, Changes, NewVariable, NodeRef, Space, ns0, read_range, write_range};

fn array(values: Vec<Variant>) -> Variant {
    let Some(value_type) = values.first().and_then(Variant::scalar_type_id) else { panic!("give a value") };
    Variant::Array(Box::new(Array { value_type, values, dimensions: None }))
}

fn ints(values: &[i32]) -> Variant {
    array(values.iter().copied().map(Variant::Int32).collect())
}

fn matrix(dimensions: &[u32], values: &[i32]) -> Variant {
    let values = values.iter().copied().map(Variant::Int32).collect();
    Variant::Array(Box::new(Array {
        value_type: VariantScalarTypeId::Int32,
        values,
        dimensions: Some(dimensions.to_vec()),
    }))
}

fn text(text: &str) -> Variant {
    Variant::String(UAString::from(text))
}

fn range(text: &str) -> NumericRange {
    text.parse().unwrap()
}

/// Data type, rank, value, whether it fits.
#[test]
fn values_fit_their_data_type_and_rank() {
    let space = space();
    let eu = || Variant::ExtensionObject(ExtensionObject::from_message(EUInformation::default()));
    let nested = |inner: Variant| Variant::Variant(Box::new(inner));
    let cases: Vec<(u32, i32, Variant, bool)> = vec![
        (6, -1, Variant::Int32(1), true),
        (6, -1, Variant::UInt32(1), false),
        (6, -1, Variant::Int64(1), false),
        (6, -1, Variant::Empty, false),
        (6, -1, ints(&[1]), false),
        (6, 1, ints(&[1]), true),
        (6, 1, Variant::Int32(1), false),
        (6, 1, matrix(&[1, 2], &[1, 2]), false),
        (6, 2, matrix(&[1, 2], &[1, 2]), true),
        (6, 2, ints(&[1]), false),
        (6, 0, ints(&[1]), true),
        (6, 0, Variant::Int32(1), false),
        (6, -3, ints(&[1]), true),
        (6, -3, Variant::Int32(1), true),
        (6, -3, matrix(&[1, 1], &[1]), false),
        (6, -2, matrix(&[1, 1], &[1]), true),
        (6, 2, matrix(&[2, 2], &[1, 2, 3]), false),
        (6, 2, matrix(&[u32::MAX, u32::MAX], &[]), false),
        (6, 1, array(vec![Variant::Int32(1), Variant::UInt32(1)]), false),
        (6, 1, array(vec![Variant::UInt32(1)]), false),
        (26, -1, Variant::Double(1.0), true),
        (26, -1, text("1"), false),
        (27, -1, Variant::Int16(1), true),
        (27, -1, Variant::Double(1.0), false),
        (28, -1, Variant::Byte(1), true),
        (28, -1, Variant::Int16(1), false),
        (290, -1, Variant::Double(1.0), true),
        (290, -1, Variant::Float(1.0), false),
        (294, -1, Variant::DateTime(Box::default()), true),
        (295, -1, text("en"), true),
        (852, -1, Variant::Int32(0), true),
        (852, -1, Variant::UInt32(0), false),
        (24, -1, text("any"), true),
        (24, 1, array(vec![nested(Variant::Int32(1)), nested(text("2"))]), true),
        (6, 1, array(vec![nested(Variant::Int32(1))]), true),
        (6, 1, array(vec![nested(Variant::Int32(1)), nested(text("2"))]), false),
        (887, -1, eu(), true),
        (884, -1, eu(), false),
        (22, -1, eu(), true),
        (24, -1, eu(), true),
        (887, -1, Variant::Int32(1), false),
        (887, -1, Variant::ExtensionObject(ExtensionObject::null()), false),
        (887, 1, array(vec![eu()]), true),
        (887, 1, array(vec![Variant::ExtensionObject(ExtensionObject::from_message(Argument::default()))]), false),
        (3, -1, Variant::ByteString(ByteString::from(vec![1])), false),
    ];
    for (data_type, rank, value, fits) in cases {
        assert_eq!(space.value_fits(&value, i(data_type), rank), fits, "i={data_type} rank {rank} {value:?}");
    }
}

/// Each rule of Write (OPC 10000-4 §5.11.4) that is not a right.
#[test]
fn writes_are_checked_before_they_are_kept() {
    let mut space = space();
    let open = variable(&mut space, 1, 1_i32);
    let plain = AccessLevel(AccessLevel::CURRENT_READ.0 | AccessLevel::CURRENT_WRITE.0);
    let new = |id_, access| {
        NewVariable::new(ns0::OBJECTS, Some(id(id_)), "v", Variant::Int32(1), ScopeIndex(1)).access(access)
    };
    let value_only = space.add_variable(new(2, plain)).unwrap();
    let read_only = space.add_variable(new(3, AccessLevel::READ)).unwrap();
    let timed = DataValue { source_timestamp: Some(DateTime::from(1_000)), ..bare(2_i32) };
    let doubtful = DataValue { status: Some(StatusCode::Uncertain), ..bare(2_i32) };
    let good = DataValue { status: Some(StatusCode::Good), ..bare(2_i32) };
    let server_timed = DataValue { server_timestamp: Some(DateTime::from(1_000)), ..bare(2_i32) };
    let cases: Vec<(&str, NodeRef, DataValue, StatusCode)> = vec![
        ("unknown node", NodeRef(u32::MAX), bare(1_i32), StatusCode::BadNodeIdUnknown),
        ("not a variable", ns0::OBJECTS, bare(1_i32), StatusCode::BadAttributeIdInvalid),
        ("not writable", read_only, bare(1_i32), StatusCode::BadNotWritable),
        ("namespace 0", ns0::SERVICE_LEVEL, bare(1_u8), StatusCode::BadNotWritable),
        ("other type", open, bare(1_u32), StatusCode::BadTypeMismatch),
        ("null", open, bare(Variant::Empty), StatusCode::BadTypeMismatch),
        ("no value", open, DataValue::null(), StatusCode::BadWriteNotSupported),
        ("status not writable", value_only, doubtful.clone(), StatusCode::BadWriteNotSupported),
        ("time not writable", value_only, timed.clone(), StatusCode::BadWriteNotSupported),
        ("server time not writable", value_only, server_timed, StatusCode::BadWriteNotSupported),
        ("Good is no status", value_only, good, StatusCode::Good),
        ("status", open, doubtful, StatusCode::Good),
        ("time", open, timed, StatusCode::Good),
    ];
    let before = space.value(open, NOW);
    for (rule, node, value, expected) in cases {
        let unchanged = space.value(open, NOW);
        assert_eq!(space.write_value(node, &NumericRange::None, value, NOW), expected, "{rule}");
        assert!(expected == StatusCode::Good || space.value(open, NOW) == unchanged, "{rule}");
    }
    let after = space.value(open, NOW);
    assert_ne!(before, after);
    assert_eq!((after.value, after.source_timestamp), (Some(Variant::Int32(2)), Some(DateTime::from(1_000))));
    assert_eq!(after.status, None, "a value without a status is Good");
    let changed = Changes { nodes: vec![value_only, open], overflow: false };
    assert_eq!(space.take_changes(), changed);
    assert_eq!(space.take_changes(), Changes::default());
}

#[test]
fn array_dimensions_bound_the_length() {
    let mut space = space();
    let new =
        NewVariable::new(ns0::OBJECTS, Some(id(1)), "v", ints(&[1]), ScopeIndex(1)).access(AccessLevel::READ_WRITE);
    let node = space.add_variable(NewVariable { array_dimensions: vec![2], ..new }).unwrap();
    let mut write = |value| space.write_value(node, &NumericRange::None, bare(value), NOW);
    assert_eq!(write(ints(&[1, 2])), StatusCode::Good);
    assert_eq!(write(ints(&[1, 2, 3])), StatusCode::BadTypeMismatch);
}

#[test]
fn a_byte_string_becomes_a_byte_array() {
    let mut space = space();
    let node = variable(&mut space, 1, array(vec![Variant::Byte(0)]));
    let written = bare(Variant::ByteString(ByteString::from(vec![7, 8])));
    assert_eq!(space.write_value(node, &NumericRange::None, written, NOW), StatusCode::Good);
    assert_eq!(space.value(node, NOW).value, Some(array(vec![Variant::Byte(7), Variant::Byte(8)])));
}

/// Value, range, what is read.
#[test]
fn ranges_are_read() {
    let none = Err(StatusCode::BadIndexRangeNoData);
    let invalid = Err(StatusCode::BadIndexRangeInvalid);
    let square = || matrix(&[2, 3], &[1, 2, 3, 4, 5, 6]);
    let texts = || array(vec![text("abc"), text("defg")]);
    let bytes = |bytes: &[u8]| Variant::ByteString(ByteString::from(bytes.to_vec()));
    let cases: Vec<(Variant, NumericRange, Result<Variant, StatusCode>)> = vec![
        (ints(&[1, 2, 3]), range("1"), Ok(ints(&[2]))),
        (ints(&[1, 2, 3]), range("0:1"), Ok(ints(&[1, 2]))),
        (ints(&[1, 2, 3]), range("1:9"), Ok(ints(&[2, 3]))),
        (ints(&[1, 2, 3]), range("3:9"), none.clone()),
        (ints(&[1, 2, 3]), range("0,1"), none.clone()),
        (ints(&[1, 2, 3]), NumericRange::Range(2, 2), invalid.clone()),
        (ints(&[1, 2, 3]), NumericRange::Range(2, 1), invalid.clone()),
        (ints(&[1, 2, 3]), NumericRange::MultipleRanges(vec![]), invalid.clone()),
        (ints(&[1, 2, 3]), NumericRange::MultipleRanges(vec![NumericRange::None]), invalid),
        (square(), range("1,0:1"), Ok(matrix(&[1, 2], &[4, 5]))),
        (square(), range("0:1,2"), Ok(matrix(&[2, 1], &[3, 6]))),
        (square(), range("0:9,1:9"), Ok(matrix(&[2, 2], &[2, 3, 5, 6]))),
        (square(), range("2,0"), none.clone()),
        (square(), range("1"), none.clone()),
        (text("hällo"), range("1:2"), Ok(text("äl"))),
        (text("abc"), range("3"), none.clone()),
        (bytes(&[1, 2, 3]), range("1:8"), Ok(bytes(&[2, 3]))),
        (texts(), range("1,1:2"), Ok(array(vec![text("ef")]))),
        (texts(), range("0:1,0"), Ok(array(vec![text("a"), text("d")]))),
        (texts(), range("0:1,3"), none.clone()),
        (Variant::Int32(1), range("0"), none.clone()),
        (Variant::Empty, range("0"), none),
        (Variant::Int32(1), NumericRange::None, Ok(Variant::Int32(1))),
    ];
    for (value, range, expected) in cases {
        assert_eq!(read_range(&value, &range), expected, "{range:?} of {value:?}");
    }
}

/// Old value, range, new part, what the whole is then.
#[test]
fn ranges_are_written() {
    let none = Err(StatusCode::BadIndexRangeNoData);
    let mismatch = Err(StatusCode::BadIndexRangeDataMismatch);
    let square = || matrix(&[2, 3], &[1, 2, 3, 4, 5, 6]);
    let cases: Vec<(Variant, NumericRange, Variant, Result<Variant, StatusCode>)> = vec![
        (ints(&[1, 2, 3]), range("1"), ints(&[9]), Ok(ints(&[1, 9, 3]))),
        (ints(&[1, 2, 3]), range("1:2"), ints(&[8, 9]), Ok(ints(&[1, 8, 9]))),
        (ints(&[1, 2, 3]), range("1:3"), ints(&[7, 8, 9]), none.clone()),
        (ints(&[1, 2, 3]), range("0:1"), ints(&[9]), mismatch.clone()),
        (ints(&[1, 2, 3]), range("0"), array(vec![Variant::UInt32(9)]), mismatch.clone()),
        (ints(&[1, 2, 3]), range("0"), Variant::Int32(9), mismatch.clone()),
        (square(), range("1,0:1"), matrix(&[1, 2], &[8, 9]), Ok(matrix(&[2, 3], &[1, 2, 3, 8, 9, 6]))),
        (square(), range("1,0:1"), matrix(&[2, 1], &[8, 9]), mismatch.clone()),
        (square(), range("1"), ints(&[9]), none.clone()),
        (text("hällo"), range("1:2"), text("ab"), Ok(text("hablo"))),
        (text("hällo"), range("1:2"), text("abc"), mismatch.clone()),
        (text("ab"), range("1:2"), text("xy"), none.clone()),
        (Variant::Int32(1), range("0"), Variant::Int32(2), none),
        (text("ab"), range("0"), Variant::Int32(2), mismatch),
    ];
    for (old, range, new, expected) in cases {
        assert_eq!(write_range(&old, &range, &new), expected, "{range:?} of {old:?} to {new:?}");
    }
}

#[test]
fn a_range_of_a_variable_is_written() {
    let mut space = space();
    let node = variable(&mut space, 1, ints(&[1, 2, 3]));
    assert_eq!(space.write_value(node, &range("1:2"), bare(ints(&[5, 6])), NOW), StatusCode::Good);
    assert_eq!(space.value(node, NOW).value, Some(ints(&[1, 5, 6])));
    assert_eq!(space.write_value(node, &range("5"), bare(ints(&[5])), NOW), StatusCode::BadIndexRangeNoData);
}

#[test]
fn the_application_sets_what_clients_may_not_write() {
    let mut space = space();
    let new = NewVariable::new(ns0::OBJECTS, Some(id(1)), "v", Variant::Int32(1), ScopeIndex(1));
    let node = space.add_variable(new).unwrap();
    assert_eq!(space.set_value(node, bare(2_i32), NOW), StatusCode::Good);
    assert_eq!(space.set_value(node, bare(2_u32), NOW), StatusCode::BadTypeMismatch);
    let lost = DataValue { status: Some(StatusCode::BadNoCommunication), ..DataValue::null() };
    assert_eq!(space.set_value(node, lost, NOW), StatusCode::Good);
    let value = space.value(node, NOW);
    assert_eq!((value.value, value.status), (None, Some(StatusCode::BadNoCommunication)));
    assert_eq!(space.set_value(node, DataValue::null(), NOW), StatusCode::BadTypeMismatch);
    assert_eq!(space.set_value(ns0::OBJECTS, bare(2_i32), NOW), StatusCode::BadAttributeIdInvalid);
    assert_eq!(space.set_value(ns0::SERVICE_LEVEL, bare(7_u8), NOW), StatusCode::Good);
    assert_eq!(space.value(ns0::SERVICE_LEVEL, NOW).value, Some(Variant::Byte(7)));
}

/// Every kind of value comes back as it went in, also when it replaces another kind.
#[test]
fn values_survive_their_storage() {
    let mut space = space();
    let new = NewVariable::new(ns0::OBJECTS, Some(id(1)), "v", Variant::Empty, ScopeIndex(1));
    let any = NewVariable { data_type: Some(ns0::BASE_DATA_TYPE), value_rank: Some(-2), ..new };
    let node = space.add_variable(any).unwrap();
    let pressure = Range { low: 0.0, high: 6.0 };
    let values = [
        Variant::Boolean(true),
        Variant::SByte(-1),
        Variant::Byte(255),
        Variant::Int16(i16::MIN),
        Variant::UInt16(u16::MAX),
        Variant::Int32(i32::MIN),
        Variant::UInt32(u32::MAX),
        Variant::Int64(i64::MIN),
        Variant::UInt64(u64::MAX),
        Variant::Float(-1.5),
        Variant::Double(f64::MAX),
        Variant::DateTime(Box::new(DateTime::from(132_000_000_000_000_000))),
        Variant::StatusCode(StatusCode::BadTimeout),
    ];
    for value in values {
        for value in [value, text("between"), ints(&[1, 2])] {
            assert_eq!(space.set_value(node, bare(value.clone()), NOW), StatusCode::Good, "{value:?}");
            assert_eq!(space.value(node, NOW).value, Some(value));
        }
    }
    let structure = Variant::ExtensionObject(ExtensionObject::from_message(pressure));
    assert_eq!(space.set_value(node, bare(structure.clone()), NOW), StatusCode::Good);
    assert_eq!(space.value(node, NOW).value, Some(structure));
}

#[test]
fn many_changes_overflow_instead_of_growing() {
    let mut space = space();
    let nodes = [variable(&mut space, 1, 1_i32), variable(&mut space, 2, 1_i32)];
    let write = |space: &mut Space, count: usize| {
        for nth in 0..count {
            assert_eq!(space.set_value(nodes[nth % 2], bare(1_i32), NOW), StatusCode::Good);
        }
        space.take_changes()
    };
    assert!(write(&mut space, 70_000).overflow);
    assert!(!write(&mut space, 3).overflow);
}
