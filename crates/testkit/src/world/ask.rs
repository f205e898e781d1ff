//! Single questions over a raw channel.

use opcua_types::{
    BinaryDecodable, BinaryEncodable, ContextOwned, DateTime, DecodingOptions, EndpointDescription,
    GetEndpointsRequest, GetEndpointsResponse, MessageInfo, NodeId, RequestHeader,
};
use ua_proto::server::ConnId;

use super::{Peer, RawPeer, URL, World};

/// TypeId and header of a request to the service with this number.
#[must_use]
pub fn request_head(service: u32, token: &NodeId, handle: u32) -> Vec<u8> {
    let owned = ContextOwned::default();
    let ctx = owned.context();
    let mut body = NodeId::new(0, service).encode_to_vec(&ctx);
    body.extend(RequestHeader::new(token, &DateTime::null(), handle).encode_to_vec(&ctx));
    body
}

impl World {
    /// Sends a request over a raw connection and takes its answer; `None` when there is none of this type.
    pub fn ask<T, R>(&mut self, conn: ConnId, request: &T) -> Option<R>
    where
        T: BinaryEncodable + MessageInfo,
        R: BinaryDecodable,
    {
        let options = DecodingOptions { max_array_length: 100_000, ..DecodingOptions::default() };
        let owned = ContextOwned::new_default(Default::default(), options);
        let ctx = owned.context();
        let id: NodeId = request.type_id().into();
        let mut body = id.encode_to_vec(&ctx);
        body.extend(request.encode_to_vec(&ctx));
        let now = self.now();
        let request = self.raw(conn)?.send(&body, now).ok()?;
        self.run();
        let answer = self.raw(conn)?.answers.remove(&request)?;
        let mut stream = answer.as_slice();
        NodeId::decode(&mut stream, &ctx).ok()?;
        R::decode(&mut stream, &ctx).ok()
    }

    /// The raw peer of this connection.
    pub fn raw(&mut self, conn: ConnId) -> Option<&mut RawPeer> {
        match self.peers.get_mut(&conn) {
            Some(Peer::Raw(peer)) => Some(peer),
            _ => None,
        }
    }

    /// What the server lists as its endpoints, asked over a connection of its own.
    pub fn endpoints(&mut self) -> Vec<EndpointDescription> {
        let now = self.now();
        let conn = self.connect(Peer::Raw(Box::new(RawPeer::unprotected(URL, now))));
        self.run();
        let request = GetEndpointsRequest { endpoint_url: URL.into(), ..GetEndpointsRequest::default() };
        let response: Option<GetEndpointsResponse> = self.ask(conn, &request);
        self.cut(conn);
        response.and_then(|response| response.endpoints).unwrap_or_default()
    }
}
