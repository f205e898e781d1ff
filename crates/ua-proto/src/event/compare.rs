//! How operands are compared and converted (OPC 10000-4 §7.7.3, the tables of implicit conversions and precedence).

use std::cmp::Ordering;

use opcua_types::{ExpandedNodeId, Guid, NodeId, Variant};

/// A number as it is compared: whole ones exactly, mixed ones as Double.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Whole(i128),
    Real(f64),
}

impl Number {
    fn real(self) -> f64 {
        match self {
            Self::Whole(whole) => whole as f64,
            Self::Real(real) => real,
        }
    }

    fn order(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Whole(one), Self::Whole(other)) => Some(one.cmp(&other)),
            (one, other) => one.real().partial_cmp(&other.real()),
        }
    }
}

/// Whether an operand is null.
pub(super) fn is_null(value: &Variant) -> bool {
    match value {
        Variant::Empty => true,
        Variant::String(text) => text.is_null(),
        Variant::ByteString(bytes) => bytes.is_null(),
        _ => false,
    }
}

/// The order of two values that are not null; none where they cannot be compared.
pub(super) fn order(one: &Variant, other: &Variant) -> Option<Ordering> {
    match (number(one), number(other)) {
        (Some(one), Some(other)) => return one.order(other),
        (Some(number), None) => return parsed(one, text(other)?)?.order(number).map(Ordering::reverse),
        (None, Some(number)) => return parsed(other, text(one)?)?.order(number),
        (None, None) => {}
    }
    if let (Some(one), Some(other)) = (text(one), text(other)) {
        return Some(one.cmp(other));
    }
    match (one, other) {
        (Variant::DateTime(one), Variant::DateTime(other)) => Some(one.ticks().cmp(&other.ticks())),
        (Variant::ByteString(one), Variant::ByteString(other)) => Some(one.as_ref().cmp(other.as_ref())),
        _ => None,
    }
}

/// Whether two values that are not null are equal, after an implicit conversion where they differ in type.
pub(super) fn equal(one: &Variant, other: &Variant) -> bool {
    match order(one, other) {
        Some(order) => order == Ordering::Equal,
        None if unordered(one) || unordered(other) => false,
        None => alike(one, other) || alike(other, one) || one == other,
    }
}

/// Not a number: equal to nothing.
fn unordered(value: &Variant) -> bool {
    matches!(number(value), Some(Number::Real(real)) if real.is_nan())
}

/// Conversions between types that have no order.
fn alike(one: &Variant, other: &Variant) -> bool {
    match (one, other) {
        (Variant::Guid(one), other) => {
            text(other).and_then(|text| text.parse::<Guid>().ok()).is_some_and(|other| **one == other)
        }
        (Variant::NodeId(one), Variant::ExpandedNodeId(other)) => **one == other.node_id && is_local(other),
        (Variant::NodeId(one), other) => {
            text(other).and_then(|text| text.parse::<NodeId>().ok()).is_some_and(|other| **one == other)
        }
        _ => false,
    }
}

fn is_local(id: &ExpandedNodeId) -> bool {
    id.server_index == 0 && id.namespace_uri.is_null()
}

/// The truth of an operand; none for null and for what is no truth value.
pub(super) fn truth(value: &Variant) -> Option<bool> {
    match value {
        Variant::Boolean(truth) => Some(*truth),
        other => truth_of(text(other)?),
    }
}

fn truth_of(text: &str) -> Option<bool> {
    match text {
        "1" => Some(true),
        "0" => Some(false),
        text if text.eq_ignore_ascii_case("true") => Some(true),
        text if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// The characters of a text, whatever kind of text it is.
pub(super) fn text(value: &Variant) -> Option<&str> {
    match value {
        Variant::String(text) => Some(text.as_ref()),
        Variant::LocalizedText(text) => Some(text.text.as_ref()),
        Variant::QualifiedName(name) => Some(name.name.as_ref()),
        _ => None,
    }
}

fn number(value: &Variant) -> Option<Number> {
    match value {
        Variant::Float(real) => Some(Number::Real(f64::from(*real))),
        Variant::Double(real) => Some(Number::Real(*real)),
        other => whole(other).map(Number::Whole),
    }
}

/// A whole number; true is 1.
pub(super) fn whole(value: &Variant) -> Option<i128> {
    Some(match value {
        Variant::Boolean(value) => i128::from(*value),
        Variant::SByte(value) => i128::from(*value),
        Variant::Byte(value) => i128::from(*value),
        Variant::Int16(value) => i128::from(*value),
        Variant::UInt16(value) => i128::from(*value),
        Variant::Int32(value) => i128::from(*value),
        Variant::UInt32(value) => i128::from(*value),
        Variant::Int64(value) => i128::from(*value),
        Variant::UInt64(value) => i128::from(*value),
        Variant::StatusCode(value) => i128::from(value.bits()),
        _ => return None,
    })
}

/// A text as a number of the other operand's kind.
fn parsed(like: &Variant, text: &str) -> Option<Number> {
    match like {
        Variant::Boolean(_) => truth_of(text).map(|truth| Number::Whole(i128::from(truth))),
        Variant::Float(_) | Variant::Double(_) => text.parse().ok().map(Number::Real),
        _ => text.parse().ok().map(Number::Whole),
    }
}

/// A bitwise operation on whole numbers: the result has the type of the larger operand (§7.7.3).
pub(super) fn bitwise(one: &Variant, other: &Variant, apply: fn(i128, i128) -> i128) -> Variant {
    let (Some(left), Some(right)) = (bits(one), bits(other)) else { return Variant::Empty };
    let like = if width(one) >= width(other) { one } else { other };
    rebuilt(like, apply(left, right)).unwrap_or(Variant::Empty)
}

fn bits(value: &Variant) -> Option<i128> {
    if matches!(value, Variant::Boolean(_) | Variant::StatusCode(_)) { None } else { whole(value) }
}

fn width(value: &Variant) -> u32 {
    match value {
        Variant::SByte(_) | Variant::Byte(_) => 8,
        Variant::Int16(_) | Variant::UInt16(_) => 16,
        Variant::Int32(_) | Variant::UInt32(_) => 32,
        _ => 64,
    }
}

fn rebuilt(like: &Variant, value: i128) -> Option<Variant> {
    // The low bits are what a bitwise operation is about; a sign that came from the other operand is cut off.
    let [b0, b1, b2, b3, b4, b5, b6, b7, ..] = value.to_le_bytes();
    Some(match like {
        Variant::SByte(_) => Variant::SByte(i8::from_le_bytes([b0])),
        Variant::Byte(_) => Variant::Byte(b0),
        Variant::Int16(_) => Variant::Int16(i16::from_le_bytes([b0, b1])),
        Variant::UInt16(_) => Variant::UInt16(u16::from_le_bytes([b0, b1])),
        Variant::Int32(_) => Variant::Int32(i32::from_le_bytes([b0, b1, b2, b3])),
        Variant::UInt32(_) => Variant::UInt32(u32::from_le_bytes([b0, b1, b2, b3])),
        Variant::Int64(_) => Variant::Int64(i64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7])),
        Variant::UInt64(_) => Variant::UInt64(u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7])),
        _ => return None,
    })
}
