//! OPC UA values as JSON, by the conventions of OPC 10000-6 §5.4, and as text for people.
//!
//! Structures are given with the type and the binary encoding of their body, which needs no knowledge of the type.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use opcua_types::type_loader::{ByteStringBody, XmlBody};
use opcua_types::{
    Array, ContextOwned, DataValue, DateTime, DiagnosticInfo, ExpandedNodeId, ExtensionObject, LocalizedText,
    StatusCode, UAString, Variant,
};
use serde_json::{Map, Value, json};

/// The body of a structure is in the binary encoding, or in XML.
const BINARY: u8 = 1;
const XML: u8 = 2;

/// A value as JSON, without its type.
pub(crate) fn to_json(value: &Variant) -> Value {
    match value {
        Variant::Empty => Value::Null,
        Variant::Boolean(value) => json!(value),
        Variant::SByte(value) => json!(value),
        Variant::Byte(value) => json!(value),
        Variant::Int16(value) => json!(value),
        Variant::UInt16(value) => json!(value),
        Variant::Int32(value) => json!(value),
        Variant::UInt32(value) => json!(value),
        // Many readers of JSON have no integers of this size.
        Variant::Int64(value) => json!(value.to_string()),
        Variant::UInt64(value) => json!(value.to_string()),
        // As a number of its own width: 0.1, not 0.10000000149011612.
        Variant::Float(value) => float(f64::from(*value), || json!(value)),
        Variant::Double(value) => float(*value, || json!(value)),
        Variant::String(value) => string(value),
        Variant::DateTime(value) => time(value),
        Variant::Guid(value) => json!(value.to_string().to_uppercase()),
        Variant::StatusCode(value) => status(*value),
        Variant::ByteString(value) => value.value.as_ref().map_or(Value::Null, |bytes| json!(STANDARD.encode(bytes))),
        Variant::XmlElement(value) => json!(value.to_string()),
        Variant::QualifiedName(value) => json!(value.to_string()),
        Variant::LocalizedText(value) => localized(value),
        Variant::NodeId(value) => json!(value.to_string()),
        Variant::ExpandedNodeId(value) => json!(expanded(value)),
        Variant::ExtensionObject(value) => structure(value),
        Variant::Variant(value) => typed(value),
        Variant::DataValue(value) => data_value(value),
        Variant::DiagnosticInfo(value) => diagnostic(value),
        Variant::Array(array) => elements(array),
    }
}

/// A value as people read it.
pub(crate) fn to_text(value: &Variant) -> String {
    match value {
        Variant::LocalizedText(text) => text.text.as_ref().to_owned(),
        Variant::StatusCode(status) => status.to_string(),
        value => match to_json(value) {
            Value::String(text) => text,
            other => other.to_string(),
        },
    }
}

/// JSON has no numbers for these.
fn float(value: f64, finite: impl FnOnce() -> Value) -> Value {
    match value {
        value if value.is_nan() => json!("NaN"),
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        _ => finite(),
    }
}

fn string(value: &UAString) -> Value {
    value.value().as_ref().map_or(Value::Null, |text| json!(text))
}

/// ISO 8601 in UTC.
pub(crate) fn time(value: &DateTime) -> Value {
    use time::format_description::well_known::Rfc3339;
    // Ticks of 100 ns since 1601.
    let nanoseconds = (i128::from(value.ticks()) - 116_444_736_000_000_000) * 100;
    let at = time::OffsetDateTime::from_unix_timestamp_nanos(nanoseconds).ok();
    at.and_then(|at| at.format(&Rfc3339).ok()).map_or_else(|| json!(value.to_string()), Value::String)
}

fn status(value: StatusCode) -> Value {
    json!({"Code": value.bits(), "Symbol": value.to_string()})
}

fn localized(value: &LocalizedText) -> Value {
    let mut shown = Map::new();
    if !value.locale.is_empty() {
        shown.insert("Locale".into(), string(&value.locale));
    }
    shown.insert("Text".into(), string(&value.text));
    shown.into()
}

/// Without the server's index where it is this server.
fn expanded(value: &ExpandedNodeId) -> String {
    if value.server_index == 0 && value.namespace_uri.is_empty() {
        return value.node_id.to_string();
    }
    let text = value.to_string();
    text.strip_prefix("svr=0;").map(str::to_owned).unwrap_or(text)
}

/// The type of a structure that nobody here knows is that of its encoding.
fn structure(value: &ExtensionObject) -> Value {
    let Some(body) = &value.body else { return Value::Null };
    if let Some(xml) = value.inner_as::<XmlBody>() {
        let id = xml.encoding_id().to_string();
        return json!({"UaTypeId": id, "UaEncoding": XML, "UaBody": STANDARD.encode(xml.raw_body())});
    }
    let known = ContextOwned::default();
    let mut bytes = Vec::new();
    let encoded = match value.inner_as::<ByteStringBody>() {
        Some(raw) => json!(STANDARD.encode(raw.raw_body().as_ref())),
        None => match body.encode_binary(&mut bytes, &known.context()) {
            Ok(()) => json!(STANDARD.encode(&bytes)),
            Err(_) => Value::Null,
        },
    };
    json!({"UaTypeId": expanded(&body.data_type_id()), "UaEncoding": BINARY, "UaBody": encoded})
}

/// A value that may be of any type says of which it is.
fn typed(value: &Variant) -> Value {
    let mut shown = Map::new();
    if let Some(kind) = value.scalar_type_id() {
        shown.insert("UaType".into(), json!(kind as u32));
        shown.insert("Value".into(), to_json(value));
    }
    shown.into()
}

fn data_value(value: &DataValue) -> Value {
    let mut shown = value.value.as_ref().map_or_else(|| json!({}), typed);
    if let Some(code) = value.status.filter(|code| *code != StatusCode::Good) {
        shown["Status"] = status(code);
    }
    for (name, at, picoseconds) in [
        ("Source", value.source_timestamp, value.source_picoseconds),
        ("Server", value.server_timestamp, value.server_picoseconds),
    ] {
        if let Some(at) = at {
            shown[format!("{name}Timestamp")] = time(&at);
            if let Some(picoseconds) = picoseconds.filter(|some| *some > 0) {
                shown[format!("{name}Picoseconds")] = json!(picoseconds);
            }
        }
    }
    shown
}

fn diagnostic(value: &DiagnosticInfo) -> Value {
    let mut shown = Map::new();
    for (name, index) in [
        ("SymbolicId", value.symbolic_id),
        ("NamespaceUri", value.namespace_uri),
        ("Locale", value.locale),
        ("LocalizedText", value.localized_text),
    ] {
        if let Some(index) = index {
            shown.insert(name.into(), json!(index));
        }
    }
    if let Some(text) = &value.additional_info {
        shown.insert("AdditionalInfo".into(), string(text));
    }
    if let Some(code) = value.inner_status_code {
        shown.insert("InnerStatusCode".into(), status(code));
    }
    if let Some(inner) = &value.inner_diagnostic_info {
        shown.insert("InnerDiagnosticInfo".into(), diagnostic(inner));
    }
    shown.into()
}

/// Several dimensions are arrays of arrays. Dimensions that do not fit the number of values are left out.
fn elements(array: &Array) -> Value {
    let flat: Vec<Value> = array.values.iter().map(to_json).collect();
    let sizes: Vec<usize> = array.dimensions.iter().flatten().filter_map(|size| usize::try_from(*size).ok()).collect();
    let fits = sizes.iter().try_fold(1_usize, |product, size| product.checked_mul(*size)) == Some(flat.len());
    if sizes.len() < 2 || flat.is_empty() || !fits {
        return flat.into();
    }
    sizes
        .iter()
        .skip(1)
        .rev()
        .fold(flat, |values, size| values.chunks(*size).map(|row| row.to_vec().into()).collect())
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcua_types::{ByteString, Guid, NodeId, QualifiedName, Range, VariantScalarTypeId};

    #[test]
    fn every_type_is_json_by_the_conventions_of_part_6() {
        let time = DateTime::ymd_hms(2026, 11, 21, 17, 0, 5);
        let node = || NodeId::new(2, "Mixer.Speed");
        let nothing = StatusCode::BadUserAccessDenied;
        let denied = DataValue { value: None, status: Some(nothing), ..DataValue::null() };
        let timed = DataValue { value: Some(7_i64.into()), source_timestamp: Some(time), ..DataValue::null() };
        for (rule, value, json) in [
            ("5.4.2.2 Boolean", true.into(), json!(true)),
            ("5.4.2.3 Int32", 7_i32.into(), json!(7)),
            ("5.4.2.3 UInt64 as a string", u64::MAX.into(), json!("18446744073709551615")),
            ("5.4.2.3 Int64 as a string", (-7_i64).into(), json!("-7")),
            ("5.4.2.4 NaN", f64::NAN.into(), json!("NaN")),
            ("5.4.2.4 -Infinity", f32::NEG_INFINITY.into(), json!("-Infinity")),
            ("5.4.2.4 Double", 7.5.into(), json!(7.5)),
            ("5.4.2.5 String", "text".into(), json!("text")),
            ("5.4.2.5 no String", Variant::String(UAString::null()), json!(null)),
            ("5.4.2.6 DateTime", time.into(), json!("2026-11-21T17:00:05Z")),
            ("5.4.2.7 Guid", Guid::from_bytes([0xab; 16]).into(), json!("ABABABAB-ABAB-ABAB-ABAB-ABABABABABAB")),
            ("5.4.2.8 ByteString", ByteString::from(vec![1, 2, 255]).into(), json!("AQL/")),
            ("5.4.2.8 no ByteString", ByteString::null().into(), json!(null)),
            ("5.4.2.10 NodeId", node().into(), json!("ns=2;s=Mixer.Speed")),
            ("5.4.2.11 ExpandedNodeId", ExpandedNodeId::new(node()).into(), json!("ns=2;s=Mixer.Speed")),
            ("5.4.2.11 by name", ExpandedNodeId::new_with_namespace("urn:a", 7_u32).into(), json!("nsu=urn:a;i=7")),
            ("5.4.2.12 StatusCode", nothing.into(), json!({"Code": 0x801F_0000_u32, "Symbol": "BadUserAccessDenied"})),
            ("5.4.2.14 QualifiedName", QualifiedName::new(2, "Speed").into(), json!("2:Speed")),
            ("5.4.2.15 LocalizedText", LocalizedText::new("en", "go").into(), json!({"Locale": "en", "Text": "go"})),
            ("5.4.2.16 no ExtensionObject", ExtensionObject::null().into(), json!(null)),
            (
                "5.4.2.16 known structure",
                ExtensionObject::from_message(Range { low: 0.0, high: 2.0 }).into(),
                json!({"UaTypeId": "i=884", "UaEncoding": 1, "UaBody": "AAAAAAAAAAAAAAAAAAAAQA=="}),
            ),
            (
                "5.4.2.16 unknown structure",
                ExtensionObject::new(ByteStringBody::new(ByteString::from(vec![1, 2, 255]), node())).into(),
                json!({"UaTypeId": "ns=2;s=Mixer.Speed", "UaEncoding": 1, "UaBody": "AQL/"}),
            ),
            ("5.4.2.17 Variant", Variant::Variant(Box::new(7_u8.into())), json!({"UaType": 3, "Value": 7})),
            (
                "5.4.2.18 DataValue",
                Variant::DataValue(Box::new(timed)),
                json!({"UaType": 8, "Value": "7", "SourceTimestamp": "2026-11-21T17:00:05Z"}),
            ),
            (
                "5.4.2.18 without a value",
                Variant::DataValue(Box::new(denied)),
                json!({"Status": {"Code": 0x801F_0000_u32, "Symbol": "BadUserAccessDenied"}}),
            ),
            (
                "5.4.2.13 DiagnosticInfo",
                Variant::DiagnosticInfo(Box::new(DiagnosticInfo { symbolic_id: Some(3), ..DiagnosticInfo::null() })),
                json!({"SymbolicId": 3}),
            ),
        ] {
            assert_eq!(to_json(&value), json, "{rule}");
        }
    }

    #[test]
    fn matrices_are_arrays_of_arrays() {
        let of = |sizes: Vec<u32>| {
            let values: Vec<Variant> = (0..6_i32).map(Variant::from).collect();
            let array = Array { value_type: VariantScalarTypeId::Int32, values, dimensions: Some(sizes) };
            to_json(&Variant::Array(Box::new(array)))
        };
        assert_eq!(of(vec![2, 3]), json!([[0, 1, 2], [3, 4, 5]]));
        assert_eq!(of(vec![3, 1, 2]), json!([[[0, 1]], [[2, 3]], [[4, 5]]]));
        for wrong in [vec![], vec![6], vec![4, 4], vec![0, 6], vec![u32::MAX, u32::MAX, u32::MAX]] {
            assert_eq!(of(wrong), json!([0, 1, 2, 3, 4, 5]));
        }
    }

    #[test]
    fn people_read_no_rust() {
        for (value, text) in [
            (Variant::from(LocalizedText::new("en", "go")), "go"),
            (StatusCode::BadNodeIdUnknown.into(), "BadNodeIdUnknown"),
            (ByteString::from(vec![1, 2, 255]).into(), "AQL/"),
            (vec![1_i32, 2].into(), "[1,2]"),
            (7_i64.into(), "7"),
        ] {
            assert_eq!(to_text(&value), text);
        }
    }
}
