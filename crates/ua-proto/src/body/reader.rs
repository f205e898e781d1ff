//! A checked cursor over the body of a message, of either side.
//!
//! The decoder of the types crate recurses without bound on `DataValue` and `DiagnosticInfo` and reserves memory for
//! claimed lengths, so what can nest is walked here first: depth and lengths are known good before it sees them.
//! Nothing in this file allocates but [`Reader::node_id`] for string and opaque identifiers.

use opcua_types::{ByteString, Guid, NodeId, StatusCode, UAString};

/// How deeply variants, data values and diagnostics may nest in one another.
const MAX_DEPTH: u32 = 16;

/// Why a body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// It ends early, or a length points past its end.
    Truncated,
    /// A byte that must be one of a few is none of them.
    Invalid,
    /// Nested or repeated more than allowed.
    Limit,
}

impl Malformed {
    /// The status code that tells the peer.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Truncated | Self::Invalid => StatusCode::BadDecodingError,
            Self::Limit => StatusCode::BadEncodingLimitsExceeded,
        }
    }
}

impl From<Malformed> for StatusCode {
    fn from(malformed: Malformed) -> Self {
        malformed.status()
    }
}

/// What a step over something comes to.
pub(crate) type Skipped = Result<(), Malformed>;

/// The cursor.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What was not read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_le_bytes)
    }

    pub(crate) fn f64(&mut self) -> Result<f64, Malformed> {
        self.array().map(f64::from_le_bytes)
    }

    /// A ByteString or the bytes of a String; `None` for null.
    pub(crate) fn byte_string(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match self.i32()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| Malformed::Invalid)?;
                self.bytes(length).map(Some)
            }
        }
    }

    /// A String; null reads as empty.
    pub(crate) fn string(&mut self) -> Result<&'a str, Malformed> {
        let bytes = self.byte_string()?.unwrap_or_default();
        std::str::from_utf8(bytes).map_err(|_| Malformed::Invalid)
    }

    /// The length of an array whose elements take at least `least` bytes each; null reads as 0.
    pub(crate) fn array_len(&mut self, least: usize) -> Result<usize, Malformed> {
        let claimed = self.i32()?;
        if claimed == -1 {
            return Ok(0);
        }
        let length = usize::try_from(claimed).map_err(|_| Malformed::Invalid)?;
        if length.saturating_mul(least.max(1)) > self.rest.len() {
            return Err(Malformed::Truncated);
        }
        Ok(length)
    }

    /// A NodeId.
    pub(crate) fn node_id(&mut self) -> Result<NodeId, Malformed> {
        let kind = self.u8()?;
        self.node_id_of(kind)
    }

    pub(crate) fn node_id_of(&mut self, kind: u8) -> Result<NodeId, Malformed> {
        Ok(match kind {
            0 => NodeId::new(0, u32::from(self.u8()?)),
            1 => {
                let namespace = u16::from(self.u8()?);
                NodeId::new(namespace, u32::from(self.u16()?))
            }
            2 => {
                let namespace = self.u16()?;
                NodeId::new(namespace, self.u32()?)
            }
            3 => {
                let namespace = self.u16()?;
                NodeId::new(namespace, UAString::from(self.string()?))
            }
            4 => {
                let namespace = self.u16()?;
                NodeId::new(namespace, Guid::from_bytes(self.array()?))
            }
            5 => {
                let namespace = self.u16()?;
                NodeId::new(namespace, ByteString::from(self.byte_string()?.unwrap_or_default().to_vec()))
            }
            _ => return Err(Malformed::Invalid),
        })
    }

    /// The bytes of an opaque NodeId in namespace 0: our authentication tokens. Any other NodeId reads as empty.
    pub(crate) fn opaque_node_id(&mut self) -> Result<&'a [u8], Malformed> {
        if self.rest.first() == Some(&5) {
            self.u8()?;
            let namespace = self.u16()?;
            let bytes = self.byte_string()?.unwrap_or_default();
            return Ok(if namespace == 0 { bytes } else { &[] });
        }
        self.skip_node_id()?;
        Ok(&[])
    }

    /// The numeric identifier of a NodeId in namespace 0; `None` for every other NodeId.
    pub(crate) fn standard_id(&mut self) -> Result<Option<u32>, Malformed> {
        let kind = self.u8()?;
        let (namespace, id) = match kind {
            0 => (0, u32::from(self.u8()?)),
            1 => (u16::from(self.u8()?), u32::from(self.u16()?)),
            2 => (self.u16()?, self.u32()?),
            _ => return self.skip_node_id_of(kind).map(|()| None),
        };
        Ok((namespace == 0).then_some(id))
    }

    fn skip_node_id(&mut self) -> Skipped {
        let kind = self.u8()?;
        self.skip_node_id_of(kind)
    }

    fn skip_node_id_of(&mut self, kind: u8) -> Skipped {
        match kind {
            0 => self.bytes(1).map(drop),
            1 => self.bytes(3).map(drop),
            2 => self.bytes(6).map(drop),
            3 | 5 => {
                self.bytes(2)?;
                self.byte_string().map(drop)
            }
            4 => self.bytes(18).map(drop),
            _ => Err(Malformed::Invalid),
        }
    }

    fn skip_expanded_node_id(&mut self) -> Skipped {
        let kind = self.u8()?;
        self.skip_node_id_of(kind & 0x3f)?;
        if kind & 0x80 != 0 {
            self.byte_string()?;
        }
        if kind & 0x40 != 0 {
            self.u32()?;
        }
        Ok(())
    }

    /// An ExtensionObject: its type, if that is of namespace 0, and its body if that is binary.
    pub(crate) fn extension_object(&mut self) -> Result<(Option<u32>, &'a [u8]), Malformed> {
        let id = self.standard_id()?;
        match self.u8()? {
            0 => Ok((id, &[])),
            1 => Ok((id, self.byte_string()?.unwrap_or_default())),
            2 => self.byte_string().map(|_| (None, [].as_slice())),
            _ => Err(Malformed::Invalid),
        }
    }

    /// The bytes of one Variant, walked to their end.
    pub(crate) fn variant(&mut self) -> Result<&'a [u8], Malformed> {
        self.span(Self::skip_variant)
    }

    /// The bytes of one DataValue, walked to their end.
    pub(crate) fn data_value(&mut self) -> Result<&'a [u8], Malformed> {
        self.span(Self::skip_data_value)
    }

    /// The bytes that `walk` steps over.
    pub(crate) fn span(&mut self, walk: impl FnOnce(&mut Self) -> Skipped) -> Result<&'a [u8], Malformed> {
        let before = self.rest;
        walk(self)?;
        let length = before.len().saturating_sub(self.rest.len());
        before.get(..length).ok_or(Malformed::Truncated)
    }

    /// Steps over an array whose elements take at least `least` bytes each.
    pub(crate) fn each(&mut self, least: usize, mut walk: impl FnMut(&mut Self) -> Skipped) -> Skipped {
        for _ in 0..self.array_len(least)? {
            walk(self)?;
        }
        Ok(())
    }

    pub(crate) fn skip_variant(&mut self) -> Skipped {
        self.skip_variant_at(0)
    }

    pub(crate) fn skip_data_value(&mut self) -> Skipped {
        self.skip_data_value_at(0)
    }

    pub(crate) fn skip_diagnostic_info(&mut self) -> Skipped {
        self.skip_diagnostic_info_at(0)
    }

    fn skip_variant_at(&mut self, depth: u32) -> Skipped {
        if depth >= MAX_DEPTH {
            return Err(Malformed::Limit);
        }
        let mask = self.u8()?;
        let kind = mask & 0x3f;
        if kind > 25 {
            return Err(Malformed::Invalid);
        }
        if mask & 0x80 == 0 {
            return if mask & 0x40 == 0 { self.skip_scalar(kind, depth) } else { Err(Malformed::Invalid) };
        }
        let count = self.array_len(1)?;
        // Null takes no bytes, so the message does not bound how many of them an array claims (and many such arrays in
        // one message would be walked for hours).
        if kind == 0 && count > 0 {
            return Err(Malformed::Invalid);
        }
        for _ in 0..count {
            self.skip_scalar(kind, depth)?;
        }
        if mask & 0x40 != 0 { self.each(4, |reader| reader.bytes(4).map(drop)) } else { Ok(()) }
    }

    fn skip_scalar(&mut self, kind: u8, depth: u32) -> Skipped {
        match kind {
            0 => Ok(()),
            1..=3 => self.bytes(1).map(drop),
            4 | 5 => self.bytes(2).map(drop),
            6 | 7 | 10 | 19 => self.bytes(4).map(drop),
            8 | 9 | 11 | 13 => self.bytes(8).map(drop),
            12 | 15 | 16 => self.byte_string().map(drop),
            14 => self.bytes(16).map(drop),
            17 => self.skip_node_id(),
            18 => self.skip_expanded_node_id(),
            20 => {
                self.u16()?;
                self.byte_string().map(drop)
            }
            21 => self.skip_localized_text(),
            22 => self.extension_object().map(drop),
            23 => self.skip_data_value_at(depth + 1),
            24 => self.skip_variant_at(depth + 1),
            25 => self.skip_diagnostic_info_at(depth + 1),
            _ => Err(Malformed::Invalid),
        }
    }

    fn skip_localized_text(&mut self) -> Skipped {
        let mask = self.u8()?;
        for bit in [1, 2] {
            if mask & bit != 0 {
                self.byte_string()?;
            }
        }
        Ok(())
    }

    fn skip_data_value_at(&mut self, depth: u32) -> Skipped {
        if depth >= MAX_DEPTH {
            return Err(Malformed::Limit);
        }
        let mask = self.u8()?;
        if mask & 0x01 != 0 {
            self.skip_variant_at(depth + 1)?;
        }
        for (bit, length) in [(0x02, 4), (0x04, 8), (0x10, 2), (0x08, 8), (0x20, 2)] {
            if mask & bit != 0 {
                self.bytes(length)?;
            }
        }
        Ok(())
    }

    fn skip_diagnostic_info_at(&mut self, depth: u32) -> Skipped {
        if depth >= MAX_DEPTH {
            return Err(Malformed::Limit);
        }
        let mask = self.u8()?;
        for bit in [0x01, 0x02, 0x08, 0x04] {
            if mask & bit != 0 {
                self.bytes(4)?;
            }
        }
        if mask & 0x10 != 0 {
            self.byte_string()?;
        }
        if mask & 0x20 != 0 {
            self.bytes(4)?;
        }
        if mask & 0x40 != 0 {
            self.skip_diagnostic_info_at(depth + 1)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth_of(kind: &[u8], levels: usize) -> Vec<u8> {
        let mut bytes = kind.repeat(levels);
        bytes.push(0);
        bytes
    }

    #[test]
    fn nesting_bombs_end_at_the_limit_and_not_on_the_stack() {
        for (name, bytes) in [
            ("variant in variant", depth_of(&[24], 1_000_000)),
            ("data value in variant", depth_of(&[23, 1], 1_000_000)),
            ("diagnostic in diagnostic", [vec![25], depth_of(&[0x40], 1_000_000)].concat()),
        ] {
            assert_eq!(Reader::new(&bytes).variant(), Err(Malformed::Limit), "{name}");
        }
    }

    #[test]
    fn claimed_lengths_must_fit_the_message() {
        let mut array = vec![0x80 | 12];
        array.extend_from_slice(&i32::MAX.to_le_bytes());
        assert_eq!(Reader::new(&array).variant(), Err(Malformed::Truncated));
        assert_eq!(Reader::new(&(-2_i32).to_le_bytes()).byte_string(), Err(Malformed::Invalid));
    }

    #[test]
    fn arrays_of_nothing_are_no_arrays() {
        let of_nothing = [&[0x80][..], &100_000_i32.to_le_bytes(), &[0; 200_000]].concat();
        assert_eq!(Reader::new(&of_nothing).variant(), Err(Malformed::Invalid));
        let inner = [&[0x80][..], &100_000_i32.to_le_bytes()].concat().repeat(100_000);
        let outer = [&[0x80 | 24][..], &100_000_i32.to_le_bytes(), &inner].concat();
        assert_eq!(Reader::new(&outer).variant(), Err(Malformed::Invalid), "and many of them do not stop the clock");
        let empty = [&[0x80][..], &0_i32.to_le_bytes()].concat();
        assert!(Reader::new(&empty).variant().is_ok());
    }

    #[test]
    fn a_walked_variant_is_what_the_types_crate_reads() {
        use opcua_types::{BinaryDecodable, BinaryEncodable, ContextOwned, DataValue, Variant};
        let owned = ContextOwned::default();
        let ctx = owned.context();
        for value in [
            Variant::from(3_i32),
            Variant::from("text"),
            Variant::from(vec![1.0_f64, 2.0]),
            Variant::from(NodeId::new(2, "name")),
            Variant::DataValue(Box::new(DataValue::value_only(7_u8))),
            Variant::Empty,
        ] {
            let mut bytes = value.encode_to_vec(&ctx);
            bytes.push(0xaa);
            let mut reader = Reader::new(&bytes);
            let mut span = reader.variant().unwrap();
            assert_eq!(reader.rest(), [0xaa]);
            assert_eq!(Variant::decode(&mut span, &ctx).unwrap(), value);
        }
    }

    #[test]
    fn a_guid_node_id_reads_as_the_types_crate_writes_it() {
        use opcua_types::{BinaryEncodable, ContextOwned};
        let owned = ContextOwned::default();
        let id = NodeId::new(1, Guid::from_bytes(*b"0123456789abcdef"));
        let bytes = id.encode_to_vec(&owned.context());
        assert_eq!(Reader::new(&bytes).node_id().unwrap(), id);
    }
}
