//! Bodies walked strictly, item by item. What is forwarded is forwarded as the bytes it came in, so a body must have one
//! meaning only: unknown mask bits, lengths below -1 and bytes behind the end are refused, for another decoder could read
//! them as something else.

use opcua_types::{NodeId, QualifiedName, StatusCode, UAString};

use crate::server::front::{Malformed, Reader};

/// How deeply variants, data values and diagnostics may nest in one another.
const MAX_DEPTH: u32 = 16;

type Walked = Result<(), Malformed>;

/// The bytes that `walk` steps over.
pub(crate) fn span<'a>(
    reader: &mut Reader<'a>,
    walk: impl FnOnce(&mut Reader<'a>) -> Walked,
) -> Result<&'a [u8], Malformed> {
    let before = reader.rest();
    walk(reader)?;
    before.get(..before.len().saturating_sub(reader.rest().len())).ok_or(Malformed::Truncated)
}

/// The end of a body: nothing may follow.
pub(crate) fn end(reader: &Reader<'_>) -> Result<(), StatusCode> {
    if reader.rest().is_empty() { Ok(()) } else { Err(StatusCode::BadDecodingError) }
}

/// A Boolean: 0 or 1.
pub(crate) fn boolean(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed::Invalid),
    }
}

/// A NodeId of another server or with its namespace as text, as far as it can be told here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expanded<'a> {
    pub(crate) id: NodeId,
    pub(crate) uri: Option<&'a str>,
    pub(crate) server: u32,
    /// The bytes of the plain NodeId in it, but for the flags in their first byte.
    pub(crate) plain: &'a [u8],
}

/// An ExpandedNodeId.
pub(crate) fn expanded<'a>(reader: &mut Reader<'a>) -> Result<Expanded<'a>, Malformed> {
    let before = reader.rest();
    let kind = reader.u8()?;
    let id = reader.node_id_of(kind & 0x3f)?;
    let plain = before.get(..before.len().saturating_sub(reader.rest().len())).ok_or(Malformed::Truncated)?;
    let uri = if kind & 0x80 != 0 { Some(reader.string()?) } else { None };
    let server = if kind & 0x40 != 0 { reader.u32()? } else { 0 };
    Ok(Expanded { id, uri: uri.filter(|uri| !uri.is_empty()), server, plain })
}

/// A QualifiedName.
pub(crate) fn qualified_name(reader: &mut Reader<'_>) -> Result<QualifiedName, Malformed> {
    let namespace_index = reader.u16()?;
    let name = match reader.byte_string()? {
        None => UAString::null(),
        Some(bytes) => std::str::from_utf8(bytes).map_err(|_| Malformed::Invalid)?.into(),
    };
    Ok(QualifiedName { namespace_index, name })
}

/// A LocalizedText.
pub(crate) fn localized_text(reader: &mut Reader<'_>) -> Walked {
    let mask = reader.u8()?;
    if mask & !0x03 != 0 {
        return Err(Malformed::Invalid);
    }
    for bit in [1, 2] {
        if mask & bit != 0 {
            reader.byte_string()?;
        }
    }
    Ok(())
}

/// An ExtensionObject: its type and its body.
pub(crate) fn extension_object<'a>(reader: &mut Reader<'a>) -> Result<(NodeId, Option<&'a [u8]>), Malformed> {
    let id = reader.node_id()?;
    match reader.u8()? {
        0 => Ok((id, None)),
        1 => Ok((id, reader.byte_string()?)),
        // XML: a type by itself that nothing here opens.
        2 => reader.byte_string().map(|_| (NodeId::null(), Some([].as_slice()))),
        _ => Err(Malformed::Invalid),
    }
}

/// An ExtensionObject of a request. A body of no length and one of XML are refused: some decoders go on reading the first
/// into what is behind it (OPC 10000-6 §5.2.2.15 wants a length where there is a body) and do not step over the second.
pub(crate) fn asked_extension_object<'a>(reader: &mut Reader<'a>) -> Result<(NodeId, Option<&'a [u8]>), Malformed> {
    let before = reader.rest();
    let found = extension_object(reader)?;
    if is_plain(before, &found) { Ok(found) } else { Err(Malformed::Invalid) }
}

/// Whether every decoder ends this ExtensionObject, which begins the bytes, where it was ended here, as long as its length
/// does not lie.
fn is_plain(bytes: &[u8], (kind, body): &(NodeId, Option<&[u8]>)) -> bool {
    let mut reader = Reader::new(bytes);
    let encoding = reader.node_id().and_then(|_| reader.u8());
    match encoding {
        Ok(0) => true,
        Ok(1) => body.is_some() || *kind == NodeId::null(),
        _ => false,
    }
}

/// Steps over a Variant. `structures` becomes true when it holds an ExtensionObject with a body: the length it tells may
/// not be the one that the server's decoder finds.
pub(crate) fn variant(reader: &mut Reader<'_>, structures: &mut bool) -> Walked {
    let mut noticed = Noticed::default();
    let walked = variant_at(reader, &mut noticed, 0);
    *structures |= noticed.structures;
    walked
}

/// As [`variant`], of a DataValue.
pub(crate) fn data_value(reader: &mut Reader<'_>, structures: &mut bool) -> Walked {
    let mut noticed = Noticed::default();
    let walked = data_value_at(reader, &mut noticed, 0);
    *structures |= noticed.structures;
    walked
}

/// As [`variant`], in a request: refused when not every decoder reads it alike.
pub(crate) fn asked_variant(reader: &mut Reader<'_>, structures: &mut bool) -> Walked {
    let mut noticed = Noticed::default();
    variant_at(reader, &mut noticed, 0)?;
    noticed.told(structures)
}

/// As [`asked_variant`], of a DataValue.
pub(crate) fn asked_data_value(reader: &mut Reader<'_>, structures: &mut bool) -> Walked {
    let mut noticed = Noticed::default();
    data_value_at(reader, &mut noticed, 0)?;
    noticed.told(structures)
}

/// What a walk came across.
#[derive(Default)]
struct Noticed {
    /// An ExtensionObject with a body.
    structures: bool,
    /// One that not every decoder ends at the same place; a matrix that says another size than it has, for some fill it up;
    /// a truth value that is neither 0 nor 1.
    unclear: bool,
}

impl Noticed {
    fn told(self, structures: &mut bool) -> Walked {
        *structures |= self.structures;
        if self.unclear { Err(Malformed::Invalid) } else { Ok(()) }
    }
}

/// The dimensions of a matrix are as many as its elements (OPC 10000-6 §5.2.2.16).
fn dimensions(reader: &mut Reader<'_>, elements: usize, noticed: &mut Noticed) -> Walked {
    let count = reader.array_len(4)?;
    let mut product = Some(1_usize);
    for _ in 0..count {
        let length = usize::try_from(reader.i32()?).ok();
        product = product.zip(length).and_then(|(product, length)| product.checked_mul(length));
    }
    noticed.unclear |= count > 0 && product != Some(elements);
    Ok(())
}

fn variant_at(reader: &mut Reader<'_>, noticed: &mut Noticed, depth: u32) -> Walked {
    if depth >= MAX_DEPTH {
        return Err(Malformed::Limit);
    }
    let mask = reader.u8()?;
    let kind = mask & 0x3f;
    if kind > 25 || mask & 0xc0 == 0x40 {
        return Err(Malformed::Invalid);
    }
    if mask & 0x80 == 0 {
        return scalar(reader, kind, noticed, depth);
    }
    let count = reader.array_len(1)?;
    if kind == 0 && count > 0 {
        return Err(Malformed::Invalid);
    }
    for _ in 0..count {
        scalar(reader, kind, noticed, depth)?;
    }
    if mask & 0x40 != 0 {
        dimensions(reader, count, noticed)?;
    }
    Ok(())
}

fn scalar(reader: &mut Reader<'_>, kind: u8, noticed: &mut Noticed, depth: u32) -> Walked {
    match kind {
        0 => Ok(()),
        // True is what is not 0 (OPC 10000-6 §5.2.2.1), or 1 alone: decoders differ.
        1 => {
            noticed.unclear |= reader.u8()? > 1;
            Ok(())
        }
        2 | 3 => reader.bytes(1).map(drop),
        4 | 5 => reader.bytes(2).map(drop),
        6 | 7 | 10 | 19 => reader.bytes(4).map(drop),
        8 | 9 | 11 | 13 => reader.bytes(8).map(drop),
        12 | 15 | 16 => reader.byte_string().map(drop),
        14 => reader.bytes(16).map(drop),
        17 => reader.node_id().map(drop),
        18 => expanded(reader).map(drop),
        20 => {
            reader.u16()?;
            reader.byte_string().map(drop)
        }
        21 => localized_text(reader),
        22 => {
            let before = reader.rest();
            let found = extension_object(reader)?;
            noticed.unclear |= !is_plain(before, &found);
            noticed.structures |= found.1.is_some();
            Ok(())
        }
        23 => data_value_at(reader, noticed, depth + 1),
        24 => variant_at(reader, noticed, depth + 1),
        25 => diagnostic(reader, depth + 1),
        _ => Err(Malformed::Invalid),
    }
}

fn data_value_at(reader: &mut Reader<'_>, noticed: &mut Noticed, depth: u32) -> Walked {
    if depth >= MAX_DEPTH {
        return Err(Malformed::Limit);
    }
    let mask = reader.u8()?;
    if mask & 0xc0 != 0 {
        return Err(Malformed::Invalid);
    }
    if mask & 0x01 != 0 {
        variant_at(reader, noticed, depth + 1)?;
    }
    for (bit, length) in [(0x02, 4), (0x04, 8), (0x10, 2), (0x08, 8), (0x20, 2)] {
        if mask & bit != 0 {
            reader.bytes(length)?;
        }
    }
    Ok(())
}

fn diagnostic(reader: &mut Reader<'_>, depth: u32) -> Walked {
    if depth >= MAX_DEPTH {
        return Err(Malformed::Limit);
    }
    let mask = reader.u8()?;
    if mask & 0x80 != 0 {
        return Err(Malformed::Invalid);
    }
    for bit in [0x01, 0x02, 0x08, 0x04] {
        if mask & bit != 0 {
            reader.bytes(4)?;
        }
    }
    if mask & 0x10 != 0 {
        reader.byte_string()?;
    }
    if mask & 0x20 != 0 {
        reader.bytes(4)?;
    }
    if mask & 0x40 != 0 { diagnostic(reader, depth + 1) } else { Ok(()) }
}

/// Steps over an array of DiagnosticInfo; nothing of it goes on.
pub(crate) fn diagnostics(reader: &mut Reader<'_>) -> Walked {
    for _ in 0..reader.array_len(1)? {
        diagnostic(reader, 0)?;
    }
    Ok(())
}

/// The status in a DataValue that was walked; Good when there is none.
pub(crate) fn status_of(value: &[u8]) -> StatusCode {
    let mut reader = Reader::new(value);
    let status = |reader: &mut Reader<'_>| -> Result<u32, Malformed> {
        let mask = reader.u8()?;
        if mask & 0x01 != 0 {
            variant(reader, &mut false)?;
        }
        if mask & 0x02 != 0 { reader.u32() } else { Ok(0) }
    };
    status(&mut reader).map_or(StatusCode::BadDecodingError, StatusCode::from)
}

/// The bytes before, of and behind the Variant in a DataValue that was walked; `None` when it has no value.
pub(crate) fn parts_of(value: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let mut reader = Reader::new(value);
    let mask = reader.u8().ok().filter(|mask| mask & 0x01 != 0)?;
    let inner = span(&mut reader, |reader| variant(reader, &mut false)).ok()?;
    Some((mask, inner, reader.rest()))
}

/// Results of an upstream answer: as many as were asked for, each stepped over by `walk`, then diagnostics, which are
/// dropped, and nothing more.
pub(crate) fn results<'a>(
    body: &'a [u8],
    expected: usize,
    mut walk: impl FnMut(&mut Reader<'a>) -> Walked,
) -> Result<Vec<&'a [u8]>, StatusCode> {
    let mut reader = Reader::new(body);
    let count = reader.array_len(1)?;
    if count != expected {
        return Err(StatusCode::BadUnknownResponse);
    }
    let mut spans = Vec::with_capacity(count);
    for _ in 0..count {
        spans.push(span(&mut reader, &mut walk)?);
    }
    diagnostics(&mut reader)?;
    end(&reader)?;
    Ok(spans)
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcua_types::{BinaryEncodable, ContextOwned, DataValue, ExpandedNodeId, Variant};

    #[test]
    fn what_has_two_meanings_is_refused() {
        let walk = |bytes: &[u8]| variant(&mut Reader::new(bytes), &mut false);
        for (rule, bytes) in [
            ("dimensions without an array", vec![0x46, 1, 0, 0, 0]),
            ("a reserved kind", vec![26, 0]),
            ("an unknown bit of a localized text", vec![21, 4]),
            ("an unknown bit of a data value", vec![23, 0x40]),
            ("an unknown bit of a diagnostic", vec![25, 0x80]),
            ("a length of -2", vec![12, 0xfe, 0xff, 0xff, 0xff]),
            ("an encoding of 3", vec![22, 0, 0, 3]),
        ] {
            assert_eq!(walk(&bytes), Err(Malformed::Invalid), "{rule}");
        }
        assert_eq!(walk(&[24; 100]), Err(Malformed::Limit));
    }

    #[test]
    fn what_decoders_read_otherwise_is_refused_in_requests_only() {
        for (rule, bytes) in [
            ("a body of no length", vec![22, 1, 0, 0x76, 3, 1, 0xff, 0xff, 0xff, 0xff]),
            ("a body of XML", vec![22, 1, 0, 0x76, 3, 2, 1, 0, 0, 0, b'<']),
            ("fewer elements than dimensions say", vec![0xc3, 1, 0, 0, 0, 7, 1, 0, 0, 0, 2, 0, 0, 0]),
            ("a dimension of less than nothing", vec![0xc3, 1, 0, 0, 0, 7, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]),
            ("a truth value of 2", vec![1, 2]),
            ("one of them deep inside", vec![24, 23, 1, 24, 22, 1, 0, 0x76, 3, 1, 0xff, 0xff, 0xff, 0xff]),
        ] {
            assert_eq!(asked_variant(&mut Reader::new(&bytes), &mut false), Err(Malformed::Invalid), "{rule}");
            assert_eq!(variant(&mut Reader::new(&bytes), &mut false), Ok(()), "{rule}, in an answer");
        }
        for (rule, bytes) in [
            ("no type and no length", vec![22, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]),
            ("no body", vec![22, 1, 0, 0x76, 3, 0]),
            ("an empty body", vec![22, 1, 0, 0x76, 3, 1, 0, 0, 0, 0]),
            ("a matrix", vec![0xc3, 2, 0, 0, 0, 7, 7, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]),
        ] {
            assert_eq!(asked_variant(&mut Reader::new(&bytes), &mut false), Ok(()), "{rule}");
        }
    }

    #[test]
    fn structures_are_noticed_at_any_depth() {
        let mut structures = false;
        let bytes = [24, 22, 0, 5, 1, 2, 0, 0, 0, 9, 9];
        variant(&mut Reader::new(&bytes), &mut structures).unwrap();
        assert!(structures);
    }

    #[test]
    fn an_expanded_id_is_read_as_the_types_crate_writes_it() {
        let owned = ContextOwned::default();
        let id = ExpandedNodeId { node_id: NodeId::new(2, "x"), namespace_uri: "urn:a".into(), server_index: 3 };
        let bytes = id.encode_to_vec(&owned.context());
        let mut reader = Reader::new(&bytes);
        let read = expanded(&mut reader).unwrap();
        assert_eq!((read.id, read.uri, read.server), (NodeId::new(2, "x"), Some("urn:a"), 3));
        assert!(reader.rest().is_empty());
    }

    #[test]
    fn the_parts_of_a_data_value() {
        let owned = ContextOwned::default();
        let value = DataValue {
            value: Some(Variant::from(7_u8)),
            status: Some(StatusCode::UncertainInitialValue),
            ..DataValue::null()
        };
        let bytes = value.encode_to_vec(&owned.context());
        assert_eq!(status_of(&bytes), StatusCode::UncertainInitialValue);
        let (mask, inner, rest) = parts_of(&bytes).unwrap();
        assert_eq!((mask, inner, rest.len()), (0x03, [3, 7].as_slice(), 4));
    }
}
