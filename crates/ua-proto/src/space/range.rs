//! Index ranges (OPC 10000-4 §7.27): a part of an array, of a matrix, of a string, or of strings in an array.

use opcua_types::{Array, ByteString, NumericRange, StatusCode, UAString, Variant, VariantScalarTypeId};

use super::Status;
use super::typing::shape_of;

/// First and last index of one dimension.
type Span = (usize, usize);

/// The part of a value that a range names. A range that begins inside and ends outside is cut at the end.
///
/// # Errors
/// `Bad_IndexRangeInvalid` for a range whose bounds are not ascending, `Bad_IndexRangeNoData` when nothing lies in
/// it.
pub fn read_range(value: &Variant, range: &NumericRange) -> Result<Variant, StatusCode> {
    if range.is_none() {
        return Ok(value.clone());
    }
    let spans = spans(range)?;
    match (value, spans.as_slice()) {
        (Variant::Array(array), _) => read_array(array, &spans),
        (other, [span]) => cut(other, *span),
        _ => Err(StatusCode::BadIndexRangeNoData),
    }
}

/// The value with a part replaced by `new`, which must have exactly the size of the range.
///
/// # Errors
/// As [`read_range`]; a range that ends outside is `Bad_IndexRangeNoData`, a `new` of another size or type
/// `Bad_IndexRangeDataMismatch`.
pub fn write_range(value: &Variant, range: &NumericRange, new: &Variant) -> Result<Variant, StatusCode> {
    let spans = spans(range)?;
    match (value, new, spans.as_slice()) {
        (Variant::Array(array), Variant::Array(new), _) => write_array(array, &spans, new),
        (Variant::String(old), Variant::String(new), [span]) => {
            let (old, new): (Vec<char>, Vec<char>) = (old.as_ref().chars().collect(), new.as_ref().chars().collect());
            splice(&old, *span, &new).map(|text| Variant::String(UAString::from(text.into_iter().collect::<String>())))
        }
        (Variant::ByteString(old), Variant::ByteString(new), [span]) => {
            splice(old.as_ref(), *span, new.as_ref()).map(|bytes| Variant::ByteString(ByteString::from(bytes)))
        }
        (Variant::Array(_) | Variant::String(_) | Variant::ByteString(_), ..) => {
            Err(StatusCode::BadIndexRangeDataMismatch)
        }
        _ => Err(StatusCode::BadIndexRangeNoData),
    }
}

fn spans(range: &NumericRange) -> Status<Vec<Span>> {
    match range {
        NumericRange::MultipleRanges(parts) if !parts.is_empty() => parts.iter().map(span).collect(),
        one => Ok(vec![span(one)?]),
    }
}

fn span(range: &NumericRange) -> Status<Span> {
    match range {
        NumericRange::Index(at) => Ok((*at as usize, *at as usize)),
        NumericRange::Range(from, to) if from < to => Ok((*from as usize, *to as usize)),
        _ => Err(StatusCode::BadIndexRangeInvalid),
    }
}

/// Cut at the end; `None` when it begins outside.
fn clamp((from, to): Span, len: usize) -> Option<Span> {
    (from < len).then(|| (from, to.min(len - 1)))
}

fn read_array(array: &Array, spans: &[Span]) -> Status<Variant> {
    let shape = shape_of(array);
    let texts = matches!(array.value_type, VariantScalarTypeId::String | VariantScalarTypeId::ByteString);
    let (outer, inner) = match spans.split_last() {
        Some((last, outer)) if texts && outer.len() == shape.len() => (outer, Some(*last)),
        _ => (spans, None),
    };
    if outer.len() != shape.len() {
        return Err(StatusCode::BadIndexRangeNoData);
    }
    let cut_spans: Option<Vec<Span>> =
        outer.iter().zip(&shape).map(|(span, len)| clamp(*span, *len as usize)).collect();
    let cut_spans = cut_spans.ok_or(StatusCode::BadIndexRangeNoData)?;
    let values = places(&shape, &cut_spans).into_iter().filter_map(|at| array.values.get(at));
    let values = match inner {
        None => values.cloned().collect(),
        Some(span) => values.map(|value| cut(value, span)).collect::<Status<Vec<Variant>>>()?,
    };
    let dimensions = array.dimensions.is_some().then(|| lengths(&cut_spans));
    Ok(Variant::Array(Box::new(Array { value_type: array.value_type, values, dimensions })))
}

fn write_array(array: &Array, spans: &[Span], new: &Array) -> Status<Variant> {
    let shape = shape_of(array);
    if spans.len() != shape.len() || spans.iter().zip(&shape).any(|((_, to), len)| *to >= *len as usize) {
        return Err(StatusCode::BadIndexRangeNoData);
    }
    let places = places(&shape, spans);
    let same_shape = new.dimensions.as_ref().is_none_or(|dimensions| *dimensions == lengths(spans));
    if new.value_type != array.value_type || new.values.len() != places.len() || !same_shape {
        return Err(StatusCode::BadIndexRangeDataMismatch);
    }
    let mut whole = array.clone();
    for (at, value) in places.into_iter().zip(&new.values) {
        if let Some(place) = whole.values.get_mut(at) {
            *place = value.clone();
        }
    }
    Ok(Variant::Array(Box::new(whole)))
}

fn lengths(spans: &[Span]) -> Vec<u32> {
    spans.iter().map(|(from, to)| u32::try_from(to - from + 1).unwrap_or(u32::MAX)).collect()
}

/// Positions of the elements inside all spans; the last dimension runs fastest.
fn places(shape: &[u32], spans: &[Span]) -> Vec<usize> {
    let mut places = vec![0_usize];
    for (len, (from, to)) in shape.iter().zip(spans) {
        places = places
            .into_iter()
            .flat_map(|start| (*from..=*to).map(move |at| start.saturating_mul(*len as usize).saturating_add(at)))
            .collect();
    }
    places
}

fn cut(value: &Variant, span: Span) -> Status<Variant> {
    let none = StatusCode::BadIndexRangeNoData;
    match value {
        Variant::String(text) => {
            let (from, to) = clamp(span, text.as_ref().chars().count()).ok_or(none)?;
            let part: String = text.as_ref().chars().skip(from).take(to - from + 1).collect();
            Ok(Variant::String(UAString::from(part)))
        }
        Variant::ByteString(bytes) => {
            let bytes: &[u8] = bytes.as_ref();
            let (from, to) = clamp(span, bytes.len()).ok_or(none)?;
            Ok(Variant::ByteString(ByteString::from(bytes.get(from..=to).unwrap_or_default().to_vec())))
        }
        _ => Err(none),
    }
}

fn splice<T: Clone>(old: &[T], (from, to): Span, new: &[T]) -> Status<Vec<T>> {
    if to >= old.len() {
        return Err(StatusCode::BadIndexRangeNoData);
    }
    if new.len() != to - from + 1 {
        return Err(StatusCode::BadIndexRangeDataMismatch);
    }
    let mut whole = old.to_vec();
    whole.splice(from..=to, new.iter().cloned());
    Ok(whole)
}
