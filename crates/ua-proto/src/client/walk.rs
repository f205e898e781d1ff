//! A checked cursor over the body of a response.
//!
//! The decoder of the types crate follows `DataValue` and `DiagnosticInfo` as deeply as they nest. A server is trusted with
//! values, not with our stack, so whatever can nest is walked here to its end before that decoder sees it; diagnostics,
//! which we never ask for, are walked and dropped.

use opcua_types::StatusCode;

/// How deeply variants, data values and diagnostics may nest in one another.
const MAX_DEPTH: u32 = 16;

/// What a walk ends with when the body is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl From<Malformed> for StatusCode {
    fn from(_: Malformed) -> Self {
        Self::BadDecodingError
    }
}

type Walked = Result<(), Malformed>;

/// The cursor.
#[derive(Clone, Copy)]
pub(super) struct Walk<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Walk<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    fn skip(&mut self, count: usize) -> Walked {
        self.bytes(count).map(drop)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_le_bytes)
    }

    /// A length that announces `least` bytes or more for each element; null counts as none.
    pub(super) fn length(&mut self, least: usize) -> Result<usize, Malformed> {
        let length = self.array().map(i32::from_le_bytes)?;
        if length == -1 {
            return Ok(0);
        }
        let length = usize::try_from(length).map_err(|_| Malformed)?;
        if length.saturating_mul(least.max(1)) > self.rest.len() { Err(Malformed) } else { Ok(length) }
    }

    /// The bytes of a ByteString or String.
    pub(super) fn byte_string(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.length(1)?;
        self.bytes(length)
    }

    /// The numeric identifier of a NodeId in namespace 0; `None` for every other NodeId.
    pub(super) fn standard_id(&mut self) -> Result<Option<u32>, Malformed> {
        let kind = self.u8()?;
        match kind {
            0 => self.u8().map(|id| Some(u32::from(id))),
            1 => {
                let [namespace, low, high] = self.array()?;
                Ok((namespace == 0).then(|| u32::from(u16::from_le_bytes([low, high]))))
            }
            2 => {
                let namespace = u16::from_le_bytes(self.array()?);
                let id = self.u32()?;
                Ok((namespace == 0).then_some(id))
            }
            _ => self.node_id_of(kind).map(|()| None),
        }
    }

    fn node_id(&mut self) -> Walked {
        let kind = self.u8()?;
        self.node_id_of(kind)
    }

    fn node_id_of(&mut self, kind: u8) -> Walked {
        match kind {
            0 => self.skip(1),
            1 => self.skip(3),
            2 => self.skip(6),
            3 | 5 => {
                self.skip(2)?;
                self.byte_string().map(drop)
            }
            4 => self.skip(18),
            _ => Err(Malformed),
        }
    }

    fn expanded_node_id(&mut self) -> Walked {
        let kind = self.u8()?;
        self.node_id_of(kind & 0x3f)?;
        if kind & 0x80 != 0 {
            self.byte_string()?;
        }
        if kind & 0x40 != 0 { self.skip(4) } else { Ok(()) }
    }

    /// An ExtensionObject: its type, if that is of namespace 0, and its body.
    pub(super) fn extension_object(&mut self) -> Result<(Option<u32>, &'a [u8]), Malformed> {
        let id = self.standard_id()?;
        match self.u8()? {
            0 => Ok((id, &[])),
            1 => Ok((id, self.byte_string()?)),
            2 => self.byte_string().map(|_| (None, [].as_slice())),
            _ => Err(Malformed),
        }
    }

    /// The bytes that `walk` steps over.
    pub(super) fn span(&mut self, walk: impl FnOnce(&mut Self) -> Walked) -> Result<&'a [u8], Malformed> {
        let before = self.rest;
        walk(self)?;
        before.get(..before.len().saturating_sub(self.rest.len())).ok_or(Malformed)
    }

    /// An array, element by element.
    pub(super) fn each(&mut self, least: usize, mut walk: impl FnMut(&mut Self) -> Walked) -> Walked {
        for _ in 0..self.length(least)? {
            walk(self)?;
        }
        Ok(())
    }

    pub(super) fn diagnostics(&mut self) -> Walked {
        self.each(1, |walk| walk.diagnostic(0))
    }

    pub(super) fn variant(&mut self) -> Walked {
        self.variant_at(0)
    }

    pub(super) fn data_value(&mut self) -> Walked {
        self.data_value_at(0)
    }

    fn variant_at(&mut self, depth: u32) -> Walked {
        let mask = self.u8()?;
        let kind = mask & 0x3f;
        if depth >= MAX_DEPTH || kind > 25 {
            return Err(Malformed);
        }
        if mask & 0x80 == 0 {
            return self.scalar(kind, depth);
        }
        self.each(usize::from(kind != 0), |walk| walk.scalar(kind, depth))?;
        if mask & 0x40 != 0 {
            self.each(4, |walk| walk.skip(4))?;
        }
        Ok(())
    }

    fn scalar(&mut self, kind: u8, depth: u32) -> Walked {
        match kind {
            0 => Ok(()),
            1..=3 => self.skip(1),
            4 | 5 => self.skip(2),
            6 | 7 | 10 | 19 => self.skip(4),
            8 | 9 | 11 | 13 => self.skip(8),
            12 | 15 | 16 => self.byte_string().map(drop),
            14 => self.skip(16),
            17 => self.node_id(),
            18 => self.expanded_node_id(),
            20 => {
                self.skip(2)?;
                self.byte_string().map(drop)
            }
            21 => self.localized_text(),
            22 => self.extension_object().map(drop),
            23 => self.data_value_at(depth + 1),
            24 => self.variant_at(depth + 1),
            25 => self.diagnostic(depth + 1),
            _ => Err(Malformed),
        }
    }

    fn localized_text(&mut self) -> Walked {
        let mask = self.u8()?;
        for bit in [1, 2] {
            if mask & bit != 0 {
                self.byte_string()?;
            }
        }
        Ok(())
    }

    fn data_value_at(&mut self, depth: u32) -> Walked {
        let mask = self.u8()?;
        if depth >= MAX_DEPTH {
            return Err(Malformed);
        }
        if mask & 0x01 != 0 {
            self.variant_at(depth + 1)?;
        }
        for (bit, length) in [(0x02, 4), (0x04, 8), (0x10, 2), (0x08, 8), (0x20, 2)] {
            if mask & bit != 0 {
                self.skip(length)?;
            }
        }
        Ok(())
    }

    pub(super) fn diagnostic(&mut self, depth: u32) -> Walked {
        if depth >= MAX_DEPTH {
            return Err(Malformed);
        }
        let mask = self.u8()?;
        for bit in [0x01, 0x02, 0x08, 0x04] {
            if mask & bit != 0 {
                self.skip(4)?;
            }
        }
        if mask & 0x10 != 0 {
            self.byte_string()?;
        }
        if mask & 0x20 != 0 {
            self.skip(4)?;
        }
        if mask & 0x40 != 0 { self.diagnostic(depth + 1) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcua_types::{BinaryEncodable, ContextOwned, DataValue, NodeId, Variant};

    #[test]
    fn nesting_bombs_end_at_the_limit() {
        for bomb in [vec![24_u8; 100_000], [23_u8, 1].repeat(100_000), [vec![25_u8], vec![0x40; 100_000]].concat()] {
            assert_eq!(Walk::new(&bomb).variant(), Err(Malformed));
        }
    }

    #[test]
    fn a_claimed_length_must_fit() {
        let mut bytes = vec![0x80 | 12];
        bytes.extend_from_slice(&i32::MAX.to_le_bytes());
        assert_eq!(Walk::new(&bytes).variant(), Err(Malformed));
        // Elements without any bytes cannot be claimed by the billion either.
        bytes[0] = 0x80;
        assert_eq!(Walk::new(&bytes).variant(), Err(Malformed));
    }

    #[test]
    fn a_walk_ends_where_the_value_ends() {
        let owned = ContextOwned::default();
        for value in [
            Variant::from(3_i32),
            Variant::from("text"),
            Variant::from(vec![1.0_f64, 2.0]),
            Variant::from(NodeId::new(2, "name")),
            Variant::DataValue(Box::new(DataValue::value_only(7_u8))),
            Variant::Empty,
        ] {
            let mut bytes = value.encode_to_vec(&owned.context());
            bytes.push(0xaa);
            let mut walk = Walk::new(&bytes);
            walk.variant().unwrap();
            assert_eq!(walk.rest, [0xaa], "{value:?}");
        }
    }
}
