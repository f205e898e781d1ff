//! Write (OPC 10000-4 §5.11.4): what writing an attribute takes, and the ranges that hold whoever writes.

use access_model::{Action, AuditKind};
use opcua_types::{AttributeId, ObjectId, StatusCode};

use super::bounds;
use super::change::{Cursor, Form, Item, never_own, status_only};
use super::desk::Desk;
use super::walk::{asked_data_value, parts_of, results};
use crate::interlock::No;
use crate::server::front::{Malformed, Reader, Told, Writing};

pub(super) const FORM: Form = Form {
    ids: (ObjectId::WriteRequest_Encoding_DefaultBinary, ObjectId::WriteResponse_Encoding_DefaultBinary),
    kind: AuditKind::Write,
    least: 11,
    limit: |limits| limits.write,
    read,
    check,
    own: never_own,
    result: status_only,
    bare: &[],
    unknown: StatusCode::BadNodeIdUnknown,
    told: tell,
};

fn read(cursor: &mut Cursor<'_>) -> Result<Item, Malformed> {
    let mut item = Item::default();
    let start = cursor.at();
    let node = cursor.reader.node_id()?;
    let behind = cursor.at();
    let attribute = cursor.reader.u32()?;
    item.touch(node, needed(attribute), start..behind);
    item.bytes(behind..cursor.at());
    let range = cursor.range(|reader| {
        item.part = reader.string()?.to_owned();
        Ok(())
    })?;
    item.only_real(range, &[0xff; 4]);
    let mut structures = false;
    let mut shown_value = String::new();
    let value = cursor.range(|reader| {
        let bytes = super::walk::span(reader, |reader| asked_data_value(reader, &mut structures))?;
        shown_value = shown(bytes);
        Ok(())
    })?;
    // No value: even a node that never exists is not written to.
    item.only_real(value.clone(), &[0]);
    item.text = format!("attribute {attribute} becomes {shown_value}");
    (item.structures, item.value, item.number) = (structures, value, attribute);
    Ok(item)
}

/// What writing an attribute takes (facts section 8).
fn needed(attribute: u32) -> Action {
    match AttributeId::from_u32(attribute) {
        Ok(AttributeId::Value) => Action::Write,
        Ok(AttributeId::RolePermissions) => Action::WriteRolePermissions,
        Ok(AttributeId::Historizing) => Action::WriteHistorizing,
        _ => Action::WriteAttribute,
    }
}

/// Keeps written numbers inside the bounds that were configured for the node or its scope, by whatever name the session calls it, as a
/// whole or in parts. What is no number is outside.
fn check(desk: &mut Desk<'_>, item: &Item, body: &[u8]) -> Result<(), No> {
    if item.number != AttributeId::Value as u32 || bounds::unbounded(desk) {
        return Ok(());
    }
    let bytes = body.get(item.value.clone()).unwrap_or_default();
    let value = bounds::value(bytes).and_then(|value| value.value);
    let held = bounds::written(desk, item, value.as_ref());
    if let Err(broken) = &held
        && desk.doubts(item, broken.reason)
    {
        return Ok(());
    }
    held.map_err(|broken| bounds::broke(desk, item, AuditKind::Write, (&broken, &shown(bytes)), || tell(item, &[])))
}

/// What is told of a write: no value of a node whose present one nobody here knows.
fn tell(item: &Item, _: &[u8]) -> Told {
    let node = item.touched.first().map(|touched| touched.node.clone());
    Told::Written(Box::new(Writing { foreign: node, attribute: item.number, ..Writing::default() }))
}

/// Statuses of an answer, one for each item.
pub(super) fn statuses(body: &[u8], expected: usize) -> Result<Vec<StatusCode>, StatusCode> {
    let spans = results(body, expected, |reader| reader.u32().map(drop))?;
    let status = |span: &&[u8]| Reader::new(span).u32().map(StatusCode::from);
    Ok(spans.iter().map(status).collect::<Result<_, Malformed>>()?)
}

/// A value in a record: numbers and truth values as they are, everything else by its kind, for texts may hold secrets.
pub(super) fn shown(value: &[u8]) -> String {
    let Some((_, inner, _)) = parts_of(value) else { return "nothing".to_owned() };
    match inner {
        [1, yes] => (*yes != 0).to_string(),
        [2, byte] => i8::from_le_bytes([*byte]).to_string(),
        [3, byte] => byte.to_string(),
        [4, a, b] => i16::from_le_bytes([*a, *b]).to_string(),
        [5, a, b] => u16::from_le_bytes([*a, *b]).to_string(),
        [6, a, b, c, d] => i32::from_le_bytes([*a, *b, *c, *d]).to_string(),
        [7, a, b, c, d] => u32::from_le_bytes([*a, *b, *c, *d]).to_string(),
        [10, a, b, c, d] => f32::from_le_bytes([*a, *b, *c, *d]).to_string(),
        [kind @ (8 | 9 | 11), rest @ ..] => match (kind, rest.first_chunk()) {
            (8, Some(bytes)) => i64::from_le_bytes(*bytes).to_string(),
            (9, Some(bytes)) => u64::from_le_bytes(*bytes).to_string(),
            (_, Some(bytes)) => f64::from_le_bytes(*bytes).to_string(),
            (_, None) => "a value".to_owned(),
        },
        [0] => "nothing".to_owned(),
        [kind, ..] if kind & 0x80 != 0 => "an array".to_owned(),
        _ => "a value".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use opcua_types::{DataValue, Variant};

    use super::*;
    use crate::guard::desk::encoded;

    #[test]
    fn texts_stay_out_of_records() {
        for (value, expected) in [
            (Variant::from(2.5_f64), "2.5"),
            (Variant::from(-3_i16), "-3"),
            (Variant::from(7_u64), "7"),
            (Variant::from(true), "true"),
            (Variant::from("secret"), "a value"),
            (Variant::from(vec![1_u8, 2]), "an array"),
            (Variant::Empty, "nothing"),
        ] {
            assert_eq!(shown(&encoded(&DataValue::value_only(value))), expected);
        }
    }
}
