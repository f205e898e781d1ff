//! Index ranges on values (OPC 10000-4 §7.27). Own code: the types crate concatenates multi-dimensional ranges and
//! panics inside a UTF-8 sequence.

use opcua_types::{Array, ByteString, StatusCode, UAString, Variant};

/// At most this many dimensions may be named.
const MAX_DIMENSIONS: usize = 8;

/// One closed range per dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexRange {
    dimensions: Vec<(usize, usize)>,
}

impl IndexRange {
    /// Parses `1`, `1:3`, `0:1,2`; empty text is no range.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, StatusCode> {
        if text.is_empty() {
            return Ok(None);
        }
        let mut dimensions = Vec::new();
        for part in text.split(',') {
            if dimensions.len() == MAX_DIMENSIONS {
                return Err(StatusCode::BadIndexRangeInvalid);
            }
            dimensions.push(parse_part(part).ok_or(StatusCode::BadIndexRangeInvalid)?);
        }
        Ok(Some(Self { dimensions }))
    }

    /// The part of `value` inside this range.
    pub(crate) fn select(&self, value: &Variant) -> Result<Variant, StatusCode> {
        match value {
            Variant::Array(array) => self.select_array(array),
            Variant::String(text) => {
                let bytes = self.select_bytes(text.as_ref().as_bytes())?;
                let text = std::str::from_utf8(bytes).map_err(|_| StatusCode::BadIndexRangeNoData)?;
                Ok(Variant::String(UAString::from(text)))
            }
            Variant::ByteString(bytes) => {
                Ok(Variant::ByteString(ByteString::from(self.select_bytes(bytes.as_ref())?.to_vec())))
            }
            _ => Err(StatusCode::BadIndexRangeDataMismatch),
        }
    }

    fn select_bytes<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], StatusCode> {
        let [(low, high)] = self.dimensions.as_slice() else {
            return Err(StatusCode::BadIndexRangeDataMismatch);
        };
        let high = (*high).min(bytes.len().saturating_sub(1));
        bytes.get(*low..=high).filter(|part| !part.is_empty()).ok_or(StatusCode::BadIndexRangeNoData)
    }

    fn select_array(&self, array: &Array) -> Result<Variant, StatusCode> {
        let shape = match &array.dimensions {
            Some(dimensions) if dimensions.len() > 1 => dimensions.iter().map(|size| *size as usize).collect(),
            _ => vec![array.values.len()],
        };
        if shape.len() != self.dimensions.len() {
            return Err(StatusCode::BadIndexRangeDataMismatch);
        }
        let mut bounds = Vec::with_capacity(shape.len());
        for ((low, high), size) in self.dimensions.iter().zip(&shape) {
            if low >= size {
                return Err(StatusCode::BadIndexRangeNoData);
            }
            bounds.push((*low, (*high).min(size - 1)));
        }
        let mut picked = Vec::new();
        pick(&array.values, &shape, &bounds, 0, &mut picked);
        let built = if bounds.len() > 1 {
            let dimensions: Vec<u32> =
                bounds.iter().map(|(low, high)| u32::try_from(high - low + 1).unwrap_or(u32::MAX)).collect();
            Array::new_multi(array.value_type, picked, dimensions)
        } else {
            Array::new(array.value_type, picked)
        };
        built.map(|array| Variant::Array(Box::new(array))).map_err(|_| StatusCode::BadIndexRangeDataMismatch)
    }
}

/// Copies the cells inside `bounds` out of a row-major array. `at` is the offset of the block that `shape` spans.
fn pick(values: &[Variant], shape: &[usize], bounds: &[(usize, usize)], at: usize, out: &mut Vec<Variant>) {
    let (Some((low, high)), Some((_, inner))) = (bounds.first(), shape.split_first()) else {
        out.extend(values.get(at).cloned());
        return;
    };
    let stride: usize = inner.iter().product();
    for index in *low..=*high {
        pick(values, inner, bounds.get(1..).unwrap_or_default(), at + index * stride, out);
    }
}

fn parse_part(part: &str) -> Option<(usize, usize)> {
    let number = |text: &str| -> Option<usize> {
        let digits = !text.is_empty() && text.len() <= 10 && text.bytes().all(|byte| byte.is_ascii_digit());
        if digits { text.parse::<u32>().ok().map(|number| number as usize) } else { None }
    };
    match part.split_once(':') {
        None => number(part).map(|index| (index, index)),
        Some((low, high)) => number(low).zip(number(high)).filter(|(low, high)| low < high),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> IndexRange {
        IndexRange::parse(text).unwrap().unwrap()
    }

    #[test]
    fn ranges_that_are_none() {
        for text in [" ", "1:", ":1", "1:1", "2:1", "a", "-1", "+1", "1,", "0,0,0,0,0,0,0,0,0", "99999999999"] {
            assert_eq!(IndexRange::parse(text), Err(StatusCode::BadIndexRangeInvalid), "{text}");
        }
        assert_eq!(IndexRange::parse(""), Ok(None));
    }

    #[test]
    fn selection() {
        let five = Variant::from(vec![0_i32, 1, 2, 3, 4]);
        let cases = [
            ("1", Ok(Variant::from(vec![1_i32]))),
            ("1:3", Ok(Variant::from(vec![1_i32, 2, 3]))),
            ("3:99", Ok(Variant::from(vec![3_i32, 4]))),
            ("5", Err(StatusCode::BadIndexRangeNoData)),
            ("0,0", Err(StatusCode::BadIndexRangeDataMismatch)),
        ];
        for (text, expected) in cases {
            assert_eq!(range(text).select(&five), expected, "{text}");
        }
        assert_eq!(range("0").select(&Variant::from(1_i32)), Err(StatusCode::BadIndexRangeDataMismatch));
        assert_eq!(range("1:2").select(&Variant::from("abcd")), Ok(Variant::from("bc")));
        assert_eq!(range("0").select(&Variant::from("ü")), Err(StatusCode::BadIndexRangeNoData));
        assert_eq!(range("0").select(&Variant::from("")), Err(StatusCode::BadIndexRangeNoData));
    }

    #[test]
    fn selection_in_two_dimensions() {
        let values: Vec<Variant> = (0..6_i32).map(Variant::from).collect();
        let kind = opcua_types::VariantScalarTypeId::Int32;
        let matrix = Variant::Array(Box::new(Array::new_multi(kind, values, vec![2_u32, 3]).unwrap()));
        let Variant::Array(part) = range("0:1,1").select(&matrix).unwrap() else { panic!("no array") };
        assert_eq!(part.values, [Variant::from(1_i32), Variant::from(4_i32)]);
        assert_eq!(part.dimensions, Some(vec![2, 1]));
    }
}
