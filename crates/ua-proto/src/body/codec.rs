//! Between bytes and the types of the types crate.

use std::io::{self, Read};

use access_model::{Now, UnixTime};
use opcua_types::{
    BinaryDecodable, BinaryEncodable, ByteString, ByteStringBody, Context, DateTime, DecodingOptions, DepthGauge,
    DynEncodable, EncodingResult, Error, MessageInfo, NamespaceMap, NodeId, ObjectId, StatusCode, TypeLoader,
    TypeLoaderCollection,
};

use super::Reader;

/// Decodes the body of a structure.
pub(crate) type Open = fn(&mut dyn Read, &Context<'_>) -> EncodingResult<Box<dyn DynEncodable>>;

/// Encoder and decoder for one side.
pub(crate) struct Codec {
    namespaces: NamespaceMap,
    loaders: TypeLoaderCollection,
    max_array: usize,
    max_string: usize,
    max_byte_string: usize,
}

impl Codec {
    /// A codec that opens the structures for which `opened` says how, and leaves all others the bytes they came in, so
    /// that no type with a recursive field is ever decoded. No array has more elements than `max_array`.
    pub(crate) fn new(opened: fn(ObjectId) -> Option<Open>, max_array: usize) -> Self {
        let mut loaders = TypeLoaderCollection::new_empty();
        loaders.add_type_loader(Few(opened));
        let (max_string, max_byte_string) = (usize::MAX, usize::MAX);
        Self { namespaces: NamespaceMap::new(), loaders, max_array, max_string, max_byte_string }
    }

    /// The same with the longest String and the longest ByteString, in bytes.
    pub(crate) fn with_longest(self, max_string: usize, max_byte_string: usize) -> Self {
        Self { max_string, max_byte_string, ..self }
    }

    /// A context whose limits fit a body of `length` bytes.
    pub(crate) fn context(&self, length: usize) -> Context<'_> {
        let options = DecodingOptions {
            client_offset: Default::default(),
            max_message_size: 0,
            max_chunk_count: 0,
            max_string_length: length.min(self.max_string),
            max_byte_string_length: length.min(self.max_byte_string),
            max_array_length: length.min(self.max_array),
            decoding_depth_gauge: DepthGauge::default(),
        };
        Context::new(&self.namespaces, &self.loaders, options)
    }

    /// Decodes what a [`Reader`] has walked, or what holds no bare Variant, DataValue or DiagnosticInfo.
    pub(crate) fn decode<T: BinaryDecodable>(&self, body: &[u8]) -> Result<T, StatusCode> {
        self.field(&mut Reader::new(body))
    }

    /// Decodes the next field, which must not hold a bare Variant, DataValue or DiagnosticInfo.
    pub(crate) fn field<T: BinaryDecodable>(&self, reader: &mut Reader<'_>) -> Result<T, StatusCode> {
        let ctx = self.context(reader.rest.len());
        T::decode(&mut reader.rest, &ctx).map_err(|error| error.status())
    }
}

/// Opens a few structures.
struct Few(fn(ObjectId) -> Option<Open>);

impl TypeLoader for Few {
    fn load_from_binary(
        &self,
        id: &NodeId,
        stream: &mut dyn Read,
        ctx: &Context<'_>,
        length: Option<usize>,
    ) -> Option<EncodingResult<Box<dyn DynEncodable>>> {
        let length = length?;
        if length > ctx.options().max_byte_string_length {
            return Some(Err(Error::decoding("extension object is longer than its message")));
        }
        let mut body = stream.take(length as u64);
        let Some(open) = id.as_object_id().ok().and_then(self.0) else {
            return Some(opaque(id, &mut body, length));
        };
        let decoded = open(&mut body, ctx);
        let drained = io::copy(&mut body, &mut io::sink());
        Some(decoded.and_then(|value| drained.map(|_| value).map_err(Error::decoding)))
    }
}

fn opaque(id: &NodeId, body: &mut impl Read, length: usize) -> EncodingResult<Box<dyn DynEncodable>> {
    let mut raw = Vec::new();
    body.read_to_end(&mut raw).map_err(Error::decoding)?;
    if raw.len() != length {
        return Err(Error::decoding("extension object ends early"));
    }
    Ok(Box::new(ByteStringBody::new(ByteString::from(raw), id.clone())))
}

/// Writes a whole message of the types crate, its type id first.
pub(crate) fn write_message<T: BinaryEncodable + MessageInfo>(
    out: &mut Vec<u8>,
    message: &T,
    ctx: &Context<'_>,
) -> Result<(), StatusCode> {
    let id: NodeId = message.type_id().into();
    id.encode(out, ctx).and_then(|()| message.encode(out, ctx)).map_err(|error| error.status())
}

/// 100-nanosecond intervals since 1601, as OPC UA counts time.
pub(crate) fn ticks(at: UnixTime) -> i64 {
    const EPOCH: i64 = 116_444_736_000_000_000;
    at.as_micros().saturating_mul(10).saturating_add(EPOCH).max(0)
}

/// A time as the types crate wants it.
pub(crate) fn date_time(now: Now) -> DateTime {
    DateTime::from(ticks(now.unix))
}

#[cfg(test)]
mod tests {
    use opcua_types::ExtensionObject;

    use super::*;

    #[test]
    fn an_unknown_structure_is_kept_as_it_came() {
        let codec = Codec::new(|_| None, 1_000);
        let body = ByteStringBody::new(ByteString::from(vec![1_u8, 2, 3]), NodeId::new(2, 77_u32));
        let bytes = ExtensionObject::new(body).encode_to_vec(&codec.context(100));
        let back: ExtensionObject = codec.decode(&bytes).unwrap();
        assert_eq!(back.encode_to_vec(&codec.context(100)), bytes);
    }
}
