//! Index ranges on values (OPC 10000-4 §7.27), without the panics of a careless slice: the range comes from a peer.

use opcua_types::{Array, ByteString, NumericRange, StatusCode, UAString, Variant, VariantScalarTypeId};

/// The part of `value` that `range` names: elements of an array, bytes of a ByteString, characters of a String, one range
/// for each dimension of a matrix.
///
/// # Errors
/// Bad_IndexRangeNoData when nothing lies in the range, Bad_IndexRangeDataMismatch when the value cannot be indexed
/// this way.
pub fn select(value: &Variant, range: &NumericRange) -> Result<Variant, StatusCode> {
    match range {
        NumericRange::None => Ok(value.clone()),
        NumericRange::Index(at) => select_span(value, (*at, *at)),
        NumericRange::Range(low, high) => select_span(value, (*low, *high)),
        NumericRange::MultipleRanges(ranges) => select_block(value, ranges),
    }
}

fn select_span(value: &Variant, span: (u32, u32)) -> Result<Variant, StatusCode> {
    match value {
        Variant::String(text) => {
            let text = text.value().as_deref().unwrap_or_default();
            let (low, count) = bounds(span, text.chars().count())?;
            let part: String = text.chars().skip(low).take(count).collect();
            Ok(Variant::String(UAString::from(part)))
        }
        Variant::ByteString(bytes) => {
            let bytes = bytes.value.as_deref().unwrap_or_default();
            let (low, count) = bounds(span, bytes.len())?;
            Ok(Variant::ByteString(ByteString::from(bytes.iter().skip(low).take(count).copied().collect::<Vec<u8>>())))
        }
        Variant::Array(array) if array.dimensions.as_ref().is_none_or(|dimensions| dimensions.len() <= 1) => {
            let (low, count) = bounds(span, array.values.len())?;
            array_of(array.value_type, array.values.iter().skip(low).take(count).cloned().collect(), None)
        }
        Variant::Array(_) => Err(StatusCode::BadIndexRangeNoData),
        _ => Err(StatusCode::BadIndexRangeDataMismatch),
    }
}

/// First position and number of positions of `span` in something of `length`.
fn bounds((low, high): (u32, u32), length: usize) -> Result<(usize, usize), StatusCode> {
    let (low, high) = (low as usize, high as usize);
    if low >= length || high < low {
        return Err(StatusCode::BadIndexRangeNoData);
    }
    Ok((low, high.min(length - 1) - low + 1))
}

fn select_block(value: &Variant, ranges: &[NumericRange]) -> Result<Variant, StatusCode> {
    let Variant::Array(array) = value else { return Err(StatusCode::BadIndexRangeDataMismatch) };
    let dimensions = array.dimensions.as_deref().unwrap_or_default();
    if dimensions.len() != ranges.len() {
        return Err(StatusCode::BadIndexRangeNoData);
    }
    let mut spans = Vec::with_capacity(ranges.len());
    for (range, dimension) in ranges.iter().zip(dimensions) {
        let span = match range {
            NumericRange::Index(at) => (*at, *at),
            NumericRange::Range(low, high) => (*low, *high),
            NumericRange::None | NumericRange::MultipleRanges(_) => return Err(StatusCode::BadIndexRangeNoData),
        };
        spans.push(bounds(span, *dimension as usize)?);
    }
    let chosen = array.values.iter().enumerate().filter(|(at, _)| inside(*at, dimensions, &spans));
    let values: Vec<Variant> = chosen.map(|(_, value)| value.clone()).collect();
    let sizes = spans.iter().map(|(_, count)| u32::try_from(*count).unwrap_or(u32::MAX)).collect();
    array_of(array.value_type, values, Some(sizes))
}

/// Whether the element at position `at` of a row-major matrix lies in the block.
fn inside(mut at: usize, dimensions: &[u32], spans: &[(usize, usize)]) -> bool {
    for (dimension, (low, count)) in dimensions.iter().zip(spans).rev() {
        let size = (*dimension as usize).max(1);
        let index = at % size;
        at /= size;
        if index < *low || index - low >= *count {
            return false;
        }
    }
    true
}

fn array_of(kind: VariantScalarTypeId, values: Vec<Variant>, sizes: Option<Vec<u32>>) -> Result<Variant, StatusCode> {
    let array = match sizes {
        Some(sizes) => Array::new_multi(kind, values, sizes),
        None => Array::new(kind, values),
    };
    array.map(|array| Variant::Array(Box::new(array))).map_err(|_| StatusCode::BadIndexRangeNoData)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: impl Into<Variant>, range: &str, expected: Result<Variant, StatusCode>) {
        let range: NumericRange = range.parse().unwrap();
        assert_eq!(select(&value.into(), &range), expected, "{range}");
    }

    #[test]
    fn spans_of_arrays_strings_and_bytes() {
        check(vec![1_i32, 2, 3], "1", Ok(vec![2_i32].into()));
        check(vec![1_i32, 2, 3], "1:9", Ok(vec![2_i32, 3].into()));
        check(vec![1_i32, 2, 3], "3:4", Err(StatusCode::BadIndexRangeNoData));
        check("trapkey", "4:6", Ok("key".into()));
        check(ByteString::from(vec![1, 2, 3]), "0:1", Ok(ByteString::from(vec![1, 2]).into()));
        check(7_i32, "0", Err(StatusCode::BadIndexRangeDataMismatch));
    }

    #[test]
    fn a_range_that_splits_a_character_cuts_at_characters() {
        check("äöü", "1", Ok("ö".into()));
        check("äöü", "1:2", Ok("öü".into()));
    }

    #[test]
    fn blocks_of_a_matrix_keep_their_shape() {
        let values: Vec<Variant> = (0_i32..6).map(Variant::from).collect();
        let matrix = Array::new_multi(VariantScalarTypeId::Int32, values, vec![2, 3]).unwrap();
        let block = |values: &[i32], sizes: Vec<u32>| {
            let values: Vec<Variant> = values.iter().copied().map(Variant::from).collect();
            Ok(Variant::Array(Box::new(Array::new_multi(VariantScalarTypeId::Int32, values, sizes).unwrap())))
        };
        let matrix = Variant::Array(Box::new(matrix));
        check(matrix.clone(), "1,0:1", block(&[3, 4], vec![1, 2]));
        check(matrix.clone(), "0:1,2", block(&[2, 5], vec![2, 1]));
        check(matrix.clone(), "2,0", Err(StatusCode::BadIndexRangeNoData));
        check(matrix, "1", Err(StatusCode::BadIndexRangeNoData));
    }
}
