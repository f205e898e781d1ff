//! Read (OPC 10000-4 §5.11.2): the hot path. Items are read from the body and written into the connection's buffer
//! one by one; nothing is collected.

use access_model::{Action, AuditKind, Now};
use opcua_types::{AttributeId, BinaryEncodable, Context, DataValue, NodeClass, NodeId, ObjectId, StatusCode, Variant};

use super::attributes::{needed, read_attribute};
use super::operations;
use crate::server::codec::{write_header, write_len, write_no_diagnostics};
use crate::server::desk::Desk;
use crate::server::reader::{Header, Malformed, Reader, ticks};
use crate::server::values::IndexRange;
use crate::space::{AccessLevel, NodeRef};

const SOURCE: u8 = 0x04;
const SERVER: u8 = 0x08;

/// Which timestamps an answer carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamps {
    pub(crate) source: bool,
    pub(crate) server: bool,
}

impl Stamps {
    pub(crate) fn from_wire(value: i32) -> Result<Self, StatusCode> {
        let (source, server) = match value {
            0 => (true, false),
            1 => (false, true),
            2 => (true, true),
            3 => (false, false),
            _ => return Err(StatusCode::BadTimestampsToReturnInvalid),
        };
        Ok(Self { source, server })
    }
}

/// One ReadValueId.
struct Item<'a> {
    node: NodeId,
    attribute: u32,
    range: &'a str,
    encoding: (u16, &'a str),
}

impl<'a> Item<'a> {
    /// Two bytes of NodeId, four of attribute, two empty strings, two of namespace.
    const LEAST: usize = 16;

    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let node = reader.node_id()?;
        let attribute = reader.u32()?;
        let range = reader.string()?;
        let encoding = (reader.u16()?, reader.string()?);
        Ok(Self { node, attribute, range, encoding })
    }
}

pub(crate) fn read(
    desk: &mut Desk<'_>,
    header: &Header<'_>,
    mut reader: Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), StatusCode> {
    let max_age = reader.f64()?;
    if max_age.is_nan() || max_age < 0.0 {
        return Err(StatusCode::BadMaxAgeInvalid);
    }
    let stamps = Stamps::from_wire(reader.i32()?)?;
    let count = reader.array_len(Item::LEAST)?;
    operations(count, desk.config.limits.operations.max_nodes_per_read)?;
    write_header(out, ObjectId::ReadResponse_Encoding_DefaultBinary, desk.now, header.handle, StatusCode::Good);
    write_len(out, count);
    let codec = desk.codec;
    let ctx = codec.context(0);
    for _ in 0..count {
        let item = Item::read(&mut reader)?;
        match read_item(desk, &item) {
            Ok(plain) => write_value(out, &plain, stamps, desk.now, &ctx)?,
            Err(status) => write_status(out, status, stamps, desk.now),
        }
    }
    write_no_diagnostics(out);
    Ok(())
}

/// What goes out for one item.
struct Plain {
    value: Option<Variant>,
    status: StatusCode,
    /// In 100-nanosecond intervals since 1601. Only values have one.
    source: Option<i64>,
}

impl Plain {
    fn attribute(value: Variant) -> Self {
        Self { value: Some(value), status: StatusCode::Good, source: None }
    }
}

impl From<DataValue> for Plain {
    fn from(value: DataValue) -> Self {
        let source = value.source_timestamp.map(|time| time.ticks());
        Self { status: value.status(), value: value.value, source }
    }
}

#[inline]
fn read_item(desk: &mut Desk<'_>, item: &Item<'_>) -> Result<Plain, StatusCode> {
    let node = desk.space.find(&item.node).ok_or(StatusCode::BadNodeIdUnknown)?;
    let attribute = AttributeId::from_u32(item.attribute).map_err(|_| StatusCode::BadAttributeIdInvalid);
    desk.pass(attribute.as_ref().map_or(Action::Browse, |known| needed(*known)), node, AuditKind::Read)?;
    let attribute = attribute?;
    check_encoding(item.encoding, attribute)?;
    let range = if item.range.is_empty() { None } else { IndexRange::parse(item.range)? };
    let mut plain = if attribute == AttributeId::Value {
        read_value(desk, node)?
    } else {
        Plain::attribute(read_attribute(desk, node, attribute)?)
    };
    if let (Some(range), Some(whole)) = (range, &plain.value) {
        plain.value = Some(range.select(whole)?);
    }
    Ok(plain)
}

#[inline]
fn read_value(desk: &Desk<'_>, node: NodeRef) -> Result<Plain, StatusCode> {
    if !desk.space.access_level(node).contains(AccessLevel::CURRENT_READ) {
        return Err(no_value(desk, node));
    }
    let Some((value, status, source)) = desk.space.plain_value(node) else {
        return Ok(desk.space.value(node, desk.now.unix).into());
    };
    let nothing = status.is_bad() && value == Variant::Empty;
    Ok(Plain { value: (!nothing).then_some(value), status, source })
}

/// Why a Value cannot be read by anybody: there is none, or the node does not let it out.
pub(crate) fn no_value(desk: &Desk<'_>, node: NodeRef) -> StatusCode {
    match desk.space.class(node) {
        NodeClass::Variable => StatusCode::BadNotReadable,
        _ => StatusCode::BadAttributeIdInvalid,
    }
}

/// Only the binary encoding, and only where an encoding makes sense.
pub(crate) fn check_encoding((namespace, name): (u16, &str), attribute: AttributeId) -> Result<(), StatusCode> {
    match name {
        "" => Ok(()),
        _ if attribute != AttributeId::Value => Err(StatusCode::BadDataEncodingInvalid),
        "Default Binary" if namespace == 0 => Ok(()),
        "Default XML" | "Default JSON" if namespace == 0 => Err(StatusCode::BadDataEncodingUnsupported),
        _ => Err(StatusCode::BadDataEncodingInvalid),
    }
}

fn write_status(out: &mut Vec<u8>, status: StatusCode, stamps: Stamps, now: Now) {
    let mask = 0x02 | if stamps.server { SERVER } else { 0 };
    out.push(mask);
    out.extend_from_slice(&status.bits().to_le_bytes());
    if stamps.server {
        out.extend_from_slice(&ticks(now.unix).to_le_bytes());
    }
}

/// Writes a DataValue. The server timestamp is the present: the value was looked at just now.
fn write_value(
    out: &mut Vec<u8>,
    plain: &Plain,
    stamps: Stamps,
    now: Now,
    ctx: &Context<'_>,
) -> Result<(), StatusCode> {
    let status = (plain.status.bits() != 0).then_some(plain.status);
    let source = plain.source.filter(|_| stamps.source);
    let mask = u8::from(plain.value.is_some())
        | if status.is_some() { 0x02 } else { 0 }
        | if source.is_some() { SOURCE } else { 0 }
        | if stamps.server { SERVER } else { 0 };
    out.push(mask);
    if let Some(value) = &plain.value {
        write_variant(out, value, ctx)?;
    }
    if let Some(status) = status {
        out.extend_from_slice(&status.bits().to_le_bytes());
    }
    if let Some(source) = source {
        out.extend_from_slice(&source.max(0).to_le_bytes());
    }
    if stamps.server {
        out.extend_from_slice(&ticks(now.unix).to_le_bytes());
    }
    Ok(())
}

/// Writes a Variant, the usual scalars without a detour.
fn write_variant(out: &mut Vec<u8>, value: &Variant, ctx: &Context<'_>) -> Result<(), StatusCode> {
    match value {
        Variant::Boolean(value) => out.extend_from_slice(&[1, u8::from(*value)]),
        Variant::Int32(value) => put(out, 6, value.to_le_bytes()),
        Variant::UInt32(value) => put(out, 7, value.to_le_bytes()),
        Variant::Float(value) => put(out, 10, value.to_le_bytes()),
        Variant::Double(value) => put(out, 11, value.to_le_bytes()),
        other => other.encode(out, ctx).map_err(|error| error.status())?,
    }
    Ok(())
}

fn put<const N: usize>(out: &mut Vec<u8>, kind: u8, bytes: [u8; N]) {
    out.push(kind);
    out.extend_from_slice(&bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::codec::requests;
    use access_model::{Mono, UnixTime};
    use opcua_types::DateTime;

    #[test]
    fn the_handwritten_data_value_is_the_one_of_the_types_crate() {
        let now = Now { mono: Mono::ZERO, unix: UnixTime::from_seconds(1_790_000_000) };
        let codec = requests();
        let ctx = codec.context(1000);
        let variants = [
            Variant::from(true),
            Variant::from(-3_i32),
            Variant::from(3_u32),
            Variant::from(1.5_f32),
            Variant::from(-1.5_f64),
            Variant::from("text"),
            Variant::Empty,
        ];
        for value in variants {
            let whole = DataValue {
                value: Some(value),
                status: Some(StatusCode::UncertainLastUsableValue),
                source_timestamp: Some(DateTime::from(ticks(UnixTime::from_seconds(5)))),
                source_picoseconds: None,
                server_timestamp: Some(DateTime::from(ticks(now.unix))),
                server_picoseconds: None,
            };
            let mut ours = Vec::new();
            let both = Stamps { source: true, server: true };
            write_value(&mut ours, &whole.clone().into(), both, now, &ctx).unwrap();
            assert_eq!(ours, whole.encode_to_vec(&ctx), "{whole:?}");
        }
    }

    #[test]
    fn encodings() {
        let value = AttributeId::Value;
        for (encoding, attribute, expected) in [
            ((0, ""), AttributeId::BrowseName, Ok(())),
            ((0, "Default Binary"), value, Ok(())),
            ((0, "Default Binary"), AttributeId::BrowseName, Err(StatusCode::BadDataEncodingInvalid)),
            ((0, "Default XML"), value, Err(StatusCode::BadDataEncodingUnsupported)),
            ((3, "x"), value, Err(StatusCode::BadDataEncodingInvalid)),
        ] {
            assert_eq!(check_encoding(encoding, attribute), expected, "{encoding:?}");
        }
    }
}
