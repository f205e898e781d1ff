//! Requests into bytes, bytes into responses.

use std::io::{self, Read};

use access_model::Now;
use opcua_types::{
    Argument, BinaryDecodable, BinaryEncodable, BuildInfo, ByteString, ByteStringBody, Context, DateTime,
    DecodingOptions, DepthGauge, DynEncodable, EUInformation, EncodingResult, EndpointDescription, Error, MessageInfo,
    NamespaceMap, NodeId, ObjectId, Range, ServerStatusDataType, StatusCode, TypeLoader, TypeLoaderCollection,
    UAString, UserTokenPolicy, binary_decode_to_enc,
};

use super::walk::{Malformed, Walk};
use crate::channel::EncodeError;

/// The most elements an array of a response may have.
const MAX_ARRAY: usize = 1 << 20;
/// The most dimensions an argument may have.
const MAX_RANK: i32 = 64;

/// Encoder and decoder; opens only structures without recursive fields, all others stay bytes.
pub(super) struct Codec {
    namespaces: NamespaceMap,
    loaders: TypeLoaderCollection,
}

impl Codec {
    pub(super) fn new() -> Self {
        let mut loaders = TypeLoaderCollection::new_empty();
        loaders.add_type_loader(FewTypes);
        Self { namespaces: NamespaceMap::new(), loaders }
    }

    fn context(&self, length: usize) -> Context<'_> {
        let options = DecodingOptions {
            client_offset: Default::default(),
            max_message_size: 0,
            max_chunk_count: 0,
            max_string_length: length,
            max_byte_string_length: length,
            max_array_length: length.min(MAX_ARRAY),
            decoding_depth_gauge: DepthGauge::default(),
        };
        Context::new(&self.namespaces, &self.loaders, options)
    }

    /// Decodes the next field of a response, which must not hold a bare Variant, DataValue or DiagnosticInfo.
    pub(super) fn field<T: BinaryDecodable>(&self, walk: &mut Walk<'_>) -> Result<T, StatusCode> {
        let ctx = self.context(walk.rest.len());
        T::decode(&mut walk.rest, &ctx).map_err(|error| error.status())
    }

    /// Decodes bytes that were walked before.
    pub(super) fn walked<T: BinaryDecodable>(&self, mut bytes: &[u8]) -> Result<T, StatusCode> {
        let ctx = self.context(bytes.len());
        T::decode(&mut bytes, &ctx).map_err(|error| error.status())
    }

    /// Appends a request, its type id first.
    pub(super) fn encode<T: BinaryEncodable + MessageInfo>(
        &self,
        message: &T,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let ctx = self.context(usize::MAX);
        let id: NodeId = message.type_id().into();
        id.encode(out, &ctx)?;
        message.encode(out, &ctx)?;
        Ok(())
    }
}

/// What stands in front of every response.
pub(super) struct Head {
    /// Numeric id of the response's type.
    pub(super) type_id: Option<u32>,
    pub(super) status: StatusCode,
}

/// Steps over type id and header.
pub(super) fn head(walk: &mut Walk<'_>) -> Result<Head, Malformed> {
    let type_id = walk.standard_id()?;
    walk.i64()?;
    walk.u32()?;
    let status = StatusCode::from(walk.u32()?);
    walk.diagnostic(0)?;
    walk.each(4, |walk| walk.byte_string().map(drop))?;
    walk.extension_object()?;
    Ok(Head { type_id, status })
}

/// A time as the types crate wants it.
pub(super) fn date_time(now: Now) -> DateTime {
    const FROM_1601_TO_1970: i64 = 11_644_473_600_000_000;
    DateTime::from(now.unix.as_micros().saturating_add(FROM_1601_TO_1970).saturating_mul(10))
}

struct FewTypes;

impl TypeLoader for FewTypes {
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
        let decode: fn(&mut dyn Read, &Context<'_>) -> EncodingResult<Box<dyn DynEncodable>> = match id
            .as_object_id()
            .ok()
        {
            Some(ObjectId::Argument_Encoding_DefaultBinary) => argument,
            Some(ObjectId::Range_Encoding_DefaultBinary) => binary_decode_to_enc::<Range>,
            Some(ObjectId::EUInformation_Encoding_DefaultBinary) => binary_decode_to_enc::<EUInformation>,
            Some(ObjectId::BuildInfo_Encoding_DefaultBinary) => binary_decode_to_enc::<BuildInfo>,
            Some(ObjectId::ServerStatusDataType_Encoding_DefaultBinary) => binary_decode_to_enc::<ServerStatusDataType>,
            Some(ObjectId::UserTokenPolicy_Encoding_DefaultBinary) => binary_decode_to_enc::<UserTokenPolicy>,
            Some(ObjectId::EndpointDescription_Encoding_DefaultBinary) => binary_decode_to_enc::<EndpointDescription>,
            _ => return Some(opaque(id, &mut body, length)),
        };
        let decoded = decode(&mut body, ctx);
        let drained = io::copy(&mut body, &mut io::sink());
        Some(decoded.and_then(|value| drained.map(|_| value).map_err(Error::decoding)))
    }
}

/// An Argument, its ValueRank looked at first: the types crate fills up missing dimensions to any rank, so that 40 bytes
/// of a server could take all memory.
fn argument(stream: &mut dyn Read, ctx: &Context<'_>) -> EncodingResult<Box<dyn DynEncodable>> {
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw).map_err(Error::decoding)?;
    let mut head = raw.as_slice();
    UAString::decode(&mut head, ctx)?;
    NodeId::decode(&mut head, ctx)?;
    if i32::decode(&mut head, ctx)? > MAX_RANK {
        return Err(Error::decoding("an argument has more dimensions than any array"));
    }
    binary_decode_to_enc::<Argument>(&mut raw.as_slice(), ctx)
}

fn opaque(id: &NodeId, body: &mut impl Read, length: usize) -> EncodingResult<Box<dyn DynEncodable>> {
    let mut raw = Vec::new();
    body.read_to_end(&mut raw).map_err(Error::decoding)?;
    if raw.len() != length {
        return Err(Error::decoding("extension object ends early"));
    }
    Ok(Box::new(ByteStringBody::new(ByteString::from(raw), id.clone())))
}

#[cfg(test)]
mod tests {
    use opcua_types::{ContextOwned, ExtensionObject};

    use super::*;

    #[test]
    fn an_argument_of_impossible_rank_is_refused() {
        let owned = ContextOwned::default();
        let rank = |rank: i32| {
            let argument = Argument { array_dimensions: Some(vec![0; 2]), value_rank: 2, ..Argument::default() };
            let mut bytes = ExtensionObject::from_message(argument).encode_to_vec(&owned.context());
            // Type id of four bytes, encoding, length, an empty name, and the null data type.
            bytes[4 + 1 + 4 + 4 + 2..][..4].copy_from_slice(&rank.to_le_bytes());
            Codec::new().walked::<ExtensionObject>(&bytes)
        };
        assert!(
            rank(2).is_ok_and(|object| object.inner_as::<Argument>().is_some_and(|argument| argument.value_rank == 2))
        );
        assert!(rank(i32::MAX).is_err());
    }
}
