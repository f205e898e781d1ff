//! OPC UA values as text and JSON, and back.

use opcua_types::{Array, DataValue, StatusCode, UAString, Variant, VariantScalarTypeId};
use serde_json::{Value, json};

use super::encoded::{time, to_json, to_text};
use crate::failure::Failure;
use crate::nearest::nearest;

/// Types that can be written, by the number of their data type in namespace 0.
const TYPES: [(u32, &str, VariantScalarTypeId); 12] = [
    (1, "Boolean", VariantScalarTypeId::Boolean),
    (2, "SByte", VariantScalarTypeId::SByte),
    (3, "Byte", VariantScalarTypeId::Byte),
    (4, "Int16", VariantScalarTypeId::Int16),
    (5, "UInt16", VariantScalarTypeId::UInt16),
    (6, "Int32", VariantScalarTypeId::Int32),
    (7, "UInt32", VariantScalarTypeId::UInt32),
    (8, "Int64", VariantScalarTypeId::Int64),
    (9, "UInt64", VariantScalarTypeId::UInt64),
    (10, "Float", VariantScalarTypeId::Float),
    (11, "Double", VariantScalarTypeId::Double),
    (12, "String", VariantScalarTypeId::String),
];

/// The name of a data type of namespace 0 that can be written.
pub(crate) fn type_name(id: u32) -> Option<&'static str> {
    TYPES.iter().find(|(known, _, _)| *known == id).map(|(_, name, _)| *name)
}

/// Reads `7.5`, `true`, `some text`, or `[1, 2]` for an array, as this type.
pub(crate) fn parse(text: &str, type_name: &str) -> Result<Variant, Failure> {
    let found = TYPES.iter().find(|(_, name, _)| name.eq_ignore_ascii_case(type_name));
    let Some((_, name, kind)) = found else {
        let failure = Failure::bad_input(format!("there is no type `{type_name}` that can be written from here"));
        return Err(match nearest(type_name, TYPES.map(|(_, name, _)| name)) {
            Some(near) => failure.help(format!("did you mean `{near}`?")),
            None => failure,
        });
    };
    let wrong = || Failure::bad_input(format!("`{text}` is no {name}"));
    if let Ok(Value::Array(items)) = serde_json::from_str::<Value>(text) {
        let item = |item: &Value| scalar(&item.as_str().map_or_else(|| item.to_string(), str::to_owned), *kind);
        let items: Option<Vec<Variant>> = items.iter().map(item).collect();
        let array = Array::new(*kind, items.ok_or_else(wrong)?).map_err(|_| wrong())?;
        return Ok(Variant::Array(Box::new(array)));
    }
    scalar(text, *kind).ok_or_else(wrong)
}

fn scalar(text: &str, kind: VariantScalarTypeId) -> Option<Variant> {
    Some(match kind {
        VariantScalarTypeId::Boolean => Variant::Boolean(text.parse().ok()?),
        VariantScalarTypeId::SByte => Variant::SByte(text.parse().ok()?),
        VariantScalarTypeId::Byte => Variant::Byte(text.parse().ok()?),
        VariantScalarTypeId::Int16 => Variant::Int16(text.parse().ok()?),
        VariantScalarTypeId::UInt16 => Variant::UInt16(text.parse().ok()?),
        VariantScalarTypeId::Int32 => Variant::Int32(text.parse().ok()?),
        VariantScalarTypeId::UInt32 => Variant::UInt32(text.parse().ok()?),
        VariantScalarTypeId::Int64 => Variant::Int64(text.parse().ok()?),
        VariantScalarTypeId::UInt64 => Variant::UInt64(text.parse().ok()?),
        VariantScalarTypeId::Float => Variant::Float(text.parse().ok()?),
        VariantScalarTypeId::Double => Variant::Double(text.parse().ok()?),
        VariantScalarTypeId::String => Variant::String(UAString::from(text)),
        _ => return None,
    })
}

/// What was read: the value, or the status that says why there is none.
pub(crate) fn read_text(read: &DataValue) -> String {
    match &read.value {
        Some(value) if !read.status().is_bad() => to_text(value),
        _ => status_name(read.status()),
    }
}

/// What was read, with status and time.
pub(crate) fn read_json(read: &DataValue) -> Value {
    json!({
        "value": read.value.as_ref().map(to_json),
        "status": status_name(read.status()),
        "source_timestamp": read.source_timestamp.as_ref().map(time),
    })
}

/// `Good`, `BadUserAccessDenied` ...
pub(crate) fn status_name(status: StatusCode) -> String {
    status.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_values_of_the_type_that_is_wanted() {
        for (text, name, json) in [
            ("7", "Double", json!(7.0)),
            ("7", "UInt16", json!(7)),
            ("7", "String", json!("7")),
            ("true", "boolean", json!(true)),
            ("[1, 2.5]", "Double", json!([1.0, 2.5])),
            ("[\"a\", \"b\"]", "String", json!(["a", "b"])),
        ] {
            assert_eq!(to_json(&parse(text, name).unwrap()), json, "{text} as {name}");
        }
        for (text, name) in
            [("7.5", "Int32"), ("256", "Byte"), ("yes", "Boolean"), ("[1, \"a\"]", "Int32"), ("1", "Dubble")]
        {
            assert!(parse(text, name).is_err(), "{text} as {name}");
        }
    }
}
