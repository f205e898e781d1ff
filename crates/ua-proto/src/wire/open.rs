//! OPN: its clear header and its bodies.

use std::io::Read;

use access_model::UnixTime;
use opcua_types::{
    BinaryDecodable, BinaryEncodable, ByteString, ByteStringBody, ChannelSecurityToken, Context, ContextOwned,
    DateTime, DecodingOptions, DynEncodable, EncodingResult, Error, MessageInfo, MessageSecurityMode, NamespaceMap,
    NodeId, OpenSecureChannelRequest, OpenSecureChannelResponse, RequestHeader, ResponseHeader,
    SecurityTokenRequestType, StatusCode, TypeLoader, TypeLoaderCollection,
};
use zeroize::Zeroizing;

use super::{Misbehavior, Reader, put_bytes};
use crate::pki::MAX_CHAIN_BYTES;

/// Longest policy URI in bytes.
const MAX_URI: usize = 255;
/// Bytes of a SHA-1 thumbprint.
const THUMBPRINT: usize = 20;
/// 100-nanosecond ticks from 1601 to 1970.
const TICKS_TO_1970: i64 = 116_444_736_000_000_000;

/// A wall-clock time as OPC UA writes it.
#[must_use]
pub fn ticks(at: UnixTime) -> DateTime {
    DateTime::from(at.as_micros().saturating_mul(10).saturating_add(TICKS_TO_1970))
}

/// The clear part of an OPN behind the message header: channel id and asymmetric security header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenHeader<'a> {
    /// The channel; 0 when it is to be issued.
    pub channel_id: u32,
    /// The policy's URI.
    pub policy_uri: &'a str,
    /// The sender's certificate chain.
    pub sender: Option<&'a [u8]>,
    /// SHA-1 thumbprint of the receiver's certificate.
    pub receiver: Option<&'a [u8]>,
    /// Where the sequence header begins, from the start of the chunk.
    pub end: usize,
}

impl<'a> OpenHeader<'a> {
    /// Reads the header of a whole chunk.
    ///
    /// # Errors
    /// When a field is cut off or too long.
    pub fn parse(chunk: &'a [u8]) -> Result<Self, Misbehavior> {
        let mut reader = Reader::new(chunk);
        reader.take(super::MESSAGE_HEADER)?;
        let channel_id = reader.u32()?;
        let policy_uri = reader.string(MAX_URI)?;
        let sender = reader.bytes(MAX_CHAIN_BYTES)?.filter(|bytes| !bytes.is_empty());
        let receiver = reader.bytes(THUMBPRINT)?.filter(|bytes| !bytes.is_empty());
        let end = chunk.len() - reader.rest().len();
        Ok(Self { channel_id, policy_uri, sender, receiver, end })
    }

    /// Appends the header behind a message header.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.channel_id.to_le_bytes());
        put_bytes(Some(self.policy_uri.as_bytes()), out);
        put_bytes(self.sender, out);
        put_bytes(self.receiver, out);
    }
}

/// What a channel needs of an OpenSecureChannelRequest. It cannot be printed: the nonce makes the keys.
#[derive(Clone, PartialEq, Eq)]
pub struct OpenRequest {
    /// Joins request and response for the client.
    pub request_handle: u32,
    /// Issue, or else renew.
    pub issue: bool,
    /// The mode.
    pub mode: MessageSecurityMode,
    /// The client's nonce.
    pub nonce: Zeroizing<Vec<u8>>,
    /// Lifetime in milliseconds.
    pub lifetime_ms: u32,
}

impl OpenRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// When it is no OpenSecureChannelRequest.
    pub fn parse(body: &[u8]) -> Result<Self, Misbehavior> {
        let request: OpenSecureChannelRequest = decode(body)?;
        Ok(Self {
            request_handle: request.request_header.request_handle,
            issue: request.request_type == SecurityTokenRequestType::Issue,
            mode: request.security_mode,
            nonce: Zeroizing::new(request.client_nonce.value.unwrap_or_default()),
            lifetime_ms: request.requested_lifetime,
        })
    }

    /// Appends the body.
    ///
    /// # Errors
    /// Never with sane lengths.
    pub fn put(&self, at: UnixTime, out: &mut Vec<u8>) -> Result<(), Misbehavior> {
        let header = RequestHeader::new(&NodeId::null(), &ticks(at), self.request_handle);
        let request = OpenSecureChannelRequest {
            request_header: header,
            client_protocol_version: 0,
            request_type: if self.issue { SecurityTokenRequestType::Issue } else { SecurityTokenRequestType::Renew },
            security_mode: self.mode,
            client_nonce: nonce(&self.nonce),
            requested_lifetime: self.lifetime_ms,
        };
        encode(&request, out)
    }
}

/// What a channel needs of an OpenSecureChannelResponse. It cannot be printed: the nonce makes the keys.
#[derive(Clone, PartialEq, Eq)]
pub struct OpenResponse {
    /// From the request.
    pub request_handle: u32,
    /// How it went.
    pub status: StatusCode,
    /// The channel.
    pub channel_id: u32,
    /// The security token.
    pub token_id: u32,
    /// Its lifetime in milliseconds.
    pub lifetime_ms: u32,
    /// The server's nonce.
    pub nonce: Zeroizing<Vec<u8>>,
}

impl OpenResponse {
    /// Reads a body.
    ///
    /// # Errors
    /// When it is no OpenSecureChannelResponse.
    pub fn parse(body: &[u8]) -> Result<Self, Misbehavior> {
        let response: OpenSecureChannelResponse = decode(body)?;
        Ok(Self {
            request_handle: response.response_header.request_handle,
            status: response.response_header.service_result,
            channel_id: response.security_token.channel_id,
            token_id: response.security_token.token_id,
            lifetime_ms: response.security_token.revised_lifetime,
            nonce: Zeroizing::new(response.server_nonce.value.unwrap_or_default()),
        })
    }

    /// Appends the body.
    ///
    /// # Errors
    /// Never with sane lengths.
    pub fn put(&self, at: UnixTime, out: &mut Vec<u8>) -> Result<(), Misbehavior> {
        let response = OpenSecureChannelResponse {
            response_header: ResponseHeader::new_timestamped_service_result(
                ticks(at),
                self.request_handle,
                self.status,
            ),
            server_protocol_version: 0,
            security_token: ChannelSecurityToken {
                channel_id: self.channel_id,
                token_id: self.token_id,
                created_at: ticks(at),
                revised_lifetime: self.lifetime_ms,
            },
            server_nonce: nonce(&self.nonce),
        };
        encode(&response, out)
    }
}

fn nonce(bytes: &[u8]) -> ByteString {
    if bytes.is_empty() { ByteString::null() } else { ByteString::from(bytes) }
}

/// Leaves every structure in a header the bytes it came in. A peer that nobody knows yet chooses their type, and some
/// types take far more memory than bytes: an Argument of 40 bytes with a ValueRank of two thousand millions, for one.
struct Unopened;

impl TypeLoader for Unopened {
    fn load_from_binary(
        &self,
        id: &NodeId,
        stream: &mut dyn Read,
        _: &Context<'_>,
        length: Option<usize>,
    ) -> Option<EncodingResult<Box<dyn DynEncodable>>> {
        let mut raw = Vec::new();
        let read = stream.take(length? as u64).read_to_end(&mut raw).map_err(Error::decoding);
        let body = ByteStringBody::new(ByteString::from(raw), id.clone());
        Some(read.map(|_| Box::new(body) as Box<dyn DynEncodable>))
    }
}

fn decode<T: BinaryDecodable + MessageInfo + Default>(body: &[u8]) -> Result<T, Misbehavior> {
    let mut loaders = TypeLoaderCollection::new_empty();
    loaders.add_type_loader(Unopened);
    let namespaces = NamespaceMap::new();
    let options = DecodingOptions {
        max_string_length: body.len(),
        max_byte_string_length: body.len(),
        max_array_length: body.len(),
        ..DecodingOptions::default()
    };
    let context = Context::new(&namespaces, &loaders, options);
    let mut rest = body;
    let id = NodeId::decode(&mut rest, &context).map_err(|_| Misbehavior::Body)?;
    if id != T::default().type_id() {
        return Err(Misbehavior::Body);
    }
    let value = T::decode(&mut rest, &context).map_err(|_| Misbehavior::Body)?;
    if rest.is_empty() { Ok(value) } else { Err(Misbehavior::Trailing) }
}

fn encode<T: BinaryEncodable + MessageInfo>(value: &T, out: &mut Vec<u8>) -> Result<(), Misbehavior> {
    let owned = ContextOwned::default();
    let context = owned.context();
    let id: NodeId = value.type_id().into();
    id.encode(out, &context).map_err(|_| Misbehavior::Body)?;
    value.encode(out, &context).map_err(|_| Misbehavior::Body)
}

#[cfg(test)]
mod tests {
    use opcua_types::ObjectId;

    use super::*;

    /// A request whose additional header says that it is an Argument and is rubbish: were it opened, it would be refused.
    #[test]
    fn structures_in_an_open_request_stay_closed() {
        let request = OpenRequest {
            request_handle: 7,
            issue: true,
            mode: MessageSecurityMode::None,
            nonce: Zeroizing::new(Vec::new()),
            lifetime_ms: 60_000,
        };
        let mut body = Vec::new();
        request.put(UnixTime::default(), &mut body).unwrap();
        let type_id = NodeId::from(ObjectId::Argument_Encoding_DefaultBinary);
        let owned = ContextOwned::default();
        let mut structure = type_id.encode_to_vec(&owned.context());
        structure.extend([1, 3, 0, 0, 0, 0xFF, 0xFF, 0xFF]);
        // A null extension object, two bytes of id and one of encoding, stands before the 20 bytes of the request.
        let at = body.len() - 23;
        assert_eq!(body[at..at + 3], [0, 0, 0]);
        let with = [&body[..at], &structure, &body[at + 3..]].concat();
        assert!(OpenRequest::parse(&with).is_ok_and(|parsed| parsed == request));
    }
}
