//! Decoding of whole requests and writing of responses.

use std::io::{self, Read};

use access_model::Now;
use opcua_types::{
    AnonymousIdentityToken, BinaryDecodable, BinaryEncodable, ByteString, ByteStringBody, Context, DataChangeFilter,
    DateTime, DecodingOptions, DepthGauge, DiagnosticInfo, DynEncodable, EncodingResult, Error, ExtensionObject,
    IssuedIdentityToken, MessageInfo, NamespaceMap, NodeId, ObjectId, ResponseHeader, StatusCode, TypeLoader,
    TypeLoaderCollection, UserNameIdentityToken, X509IdentityToken, binary_decode_to_enc,
};

use super::reader::ticks;

/// The most elements an array of a request may have, below the operation limits of each service.
const MAX_ARRAY: usize = 65_535;

/// The decoder for requests, with the only extension objects it opens.
pub(crate) struct Codec {
    namespaces: NamespaceMap,
    loaders: TypeLoaderCollection,
}

impl Codec {
    pub(crate) fn new() -> Self {
        let mut loaders = TypeLoaderCollection::new_empty();
        loaders.add_type_loader(FewTypes);
        Self { namespaces: NamespaceMap::new(), loaders }
    }

    /// A context whose limits fit a body of `length` bytes.
    pub(crate) fn context(&self, length: usize) -> Context<'_> {
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

    /// Decodes a request that holds no bare Variant, DataValue or DiagnosticInfo. `body` starts at its RequestHeader.
    pub(crate) fn decode<T: BinaryDecodable>(&self, mut body: &[u8]) -> Result<T, StatusCode> {
        let ctx = self.context(body.len());
        T::decode(&mut body, &ctx).map_err(|error| error.status())
    }

    /// Decodes what a [`super::reader::Reader`] has walked.
    pub(crate) fn decode_walked<T: BinaryDecodable>(&self, bytes: &[u8]) -> Result<T, StatusCode> {
        self.decode(bytes)
    }
}

/// Opens identity tokens and data-change filters; every other structure stays the bytes it came in, so that no type
/// with a recursive field is ever decoded from a request, and a written structure is stored as it was sent.
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
        let decode: fn(&mut dyn Read, &Context<'_>) -> EncodingResult<Box<dyn DynEncodable>> = match known(id) {
            Some(ObjectId::AnonymousIdentityToken_Encoding_DefaultBinary) => {
                binary_decode_to_enc::<AnonymousIdentityToken>
            }
            Some(ObjectId::UserNameIdentityToken_Encoding_DefaultBinary) => {
                binary_decode_to_enc::<UserNameIdentityToken>
            }
            Some(ObjectId::X509IdentityToken_Encoding_DefaultBinary) => binary_decode_to_enc::<X509IdentityToken>,
            Some(ObjectId::IssuedIdentityToken_Encoding_DefaultBinary) => binary_decode_to_enc::<IssuedIdentityToken>,
            Some(ObjectId::DataChangeFilter_Encoding_DefaultBinary) => binary_decode_to_enc::<DataChangeFilter>,
            _ => return Some(opaque(id, &mut body, length)),
        };
        let decoded = decode(&mut body, ctx);
        let drained = io::copy(&mut body, &mut io::sink());
        Some(decoded.and_then(|value| drained.map(|_| value).map_err(Error::decoding)))
    }
}

fn known(id: &NodeId) -> Option<ObjectId> {
    id.as_object_id().ok()
}

fn opaque(id: &NodeId, body: &mut impl Read, length: usize) -> EncodingResult<Box<dyn DynEncodable>> {
    let mut raw = Vec::new();
    body.read_to_end(&mut raw).map_err(Error::decoding)?;
    if raw.len() != length {
        return Err(Error::decoding("extension object ends early"));
    }
    Ok(Box::new(ByteStringBody::new(ByteString::from(raw), id.clone())))
}

/// A time as the types crate wants it.
pub(crate) fn date_time(now: Now) -> DateTime {
    DateTime::from(ticks(now.unix))
}

/// The header of a response, for the types of the types crate.
pub(crate) fn response_header(now: Now, handle: u32) -> ResponseHeader {
    ResponseHeader {
        timestamp: date_time(now),
        request_handle: handle,
        service_result: StatusCode::Good,
        service_diagnostics: DiagnosticInfo::default(),
        string_table: None,
        additional_header: ExtensionObject::null(),
    }
}

/// Writes the type id and the header of a response; what follows is the response's own.
pub(crate) fn write_header(out: &mut Vec<u8>, id: ObjectId, now: Now, handle: u32, status: StatusCode) {
    let id = (id as u32).to_le_bytes();
    let [low, high, ..] = id;
    out.extend_from_slice(&[1, 0, low, high]);
    out.extend_from_slice(&ticks(now.unix).to_le_bytes());
    out.extend_from_slice(&handle.to_le_bytes());
    out.extend_from_slice(&status.bits().to_le_bytes());
    // No diagnostics, no string table, no additional header.
    out.extend_from_slice(&[0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0]);
}

/// Writes a whole response of the types crate, its type id first.
pub(crate) fn write_message<T: BinaryEncodable + MessageInfo>(
    out: &mut Vec<u8>,
    message: &T,
    ctx: &Context<'_>,
) -> Result<(), StatusCode> {
    let id: NodeId = message.type_id().into();
    id.encode(out, ctx).and_then(|()| message.encode(out, ctx)).map_err(|error| error.status())
}

/// Writes an array length.
pub(crate) fn write_len(out: &mut Vec<u8>, length: usize) {
    out.extend_from_slice(&i32::try_from(length).unwrap_or(i32::MAX).to_le_bytes());
}

/// Writes the null array that stands for "no diagnostics".
pub(crate) fn write_no_diagnostics(out: &mut Vec<u8>) {
    out.extend_from_slice(&(-1_i32).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use access_model::{Mono, UnixTime};

    #[test]
    fn the_handwritten_header_is_the_one_of_the_types_crate() {
        let now = Now { mono: Mono::ZERO, unix: UnixTime::from_seconds(1_790_000_000) };
        let codec = Codec::new();
        let ctx = codec.context(1000);
        let fault = opcua_types::ServiceFault { response_header: response_header(now, 7) };
        let mut theirs = Vec::new();
        write_message(&mut theirs, &fault, &ctx).unwrap();
        let mut ours = Vec::new();
        write_header(&mut ours, ObjectId::ServiceFault_Encoding_DefaultBinary, now, 7, StatusCode::Good);
        assert_eq!(ours, theirs);
    }

    #[test]
    fn an_unknown_structure_is_kept_as_it_came() {
        let codec = Codec::new();
        let body = ByteStringBody::new(ByteString::from(vec![1_u8, 2, 3]), NodeId::new(2, 77_u32));
        let bytes = ExtensionObject::new(body).encode_to_vec(&codec.context(100));
        let back: ExtensionObject = codec.decode(&bytes).unwrap();
        assert_eq!(back.encode_to_vec(&codec.context(100)), bytes);
    }
}
