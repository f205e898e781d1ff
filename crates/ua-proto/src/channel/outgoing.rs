//! The sending half of an open channel: splits messages into chunks and seals them in the send buffer.

use access_model::Mono;

use super::{Encode, SendError};
use crate::crypto::{ChunkCipher, SecurityPolicy};
use crate::wire::{CHUNK_HEADERS, ChunkKind, ErrorMessage, MessageHeader, MessageKind, SequenceHeader};
use opcua_types::StatusCode;

/// Capacity above which the buffer for split messages is not kept.
const KEEP: usize = 1_024;
/// Bytes that protection adds to a chunk at most: padding with its size, and a signature.
const SEAL: usize = 64;

/// One direction of a security token on the sending side.
pub(super) struct SendToken {
    pub(super) id: u32,
    /// When it may not be used any more.
    pub(super) until: Mono,
    pub(super) cipher: Box<dyn ChunkCipher>,
}

/// What the peer takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerLimits {
    /// Largest chunk.
    pub(super) chunk: usize,
    /// Largest body; 0 is no limit.
    pub(super) message: usize,
    /// Most chunks; 0 is no limit.
    pub(super) chunks: usize,
}

/// The sending half.
pub(super) struct Outgoing {
    policy: &'static dyn SecurityPolicy,
    channel_id: u32,
    /// Sequence number of the last chunk.
    sequence: u32,
    newest: SendToken,
    /// The token before, while messages still go out under it.
    older: Option<SendToken>,
    limits: PeerLimits,
    scratch: Vec<u8>,
    /// Messages that wait for a renewal whose sequence number is already given away.
    held: Vec<(u32, Vec<u8>)>,
    holding: bool,
}

impl Outgoing {
    pub(super) fn new(
        policy: &'static dyn SecurityPolicy,
        channel_id: u32,
        sequence: u32,
        token: SendToken,
        limits: PeerLimits,
    ) -> Self {
        Self {
            policy,
            channel_id,
            sequence,
            newest: token,
            older: None,
            limits,
            scratch: Vec::new(),
            held: Vec::new(),
            holding: false,
        }
    }

    /// Gives the next sequence number to an OPN that is sealed elsewhere; messages wait until `release`.
    pub(super) fn hold(&mut self) -> u32 {
        self.holding = true;
        self.policy.next_sequence(self.sequence)
    }

    /// The OPN with `sequence` is in `out`: sends what waited for it.
    pub(super) fn release(&mut self, sequence: u32, out: &mut Vec<u8>, now: Mono) -> Result<(), SendError> {
        self.sequence = sequence;
        self.holding = false;
        for (request_id, body) in std::mem::take(&mut self.held) {
            let mut copy = |out: &mut Vec<u8>| {
                out.extend_from_slice(&body);
                Ok(())
            };
            self.send(request_id, &mut copy, out, now)?;
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn set_sequence(&mut self, sequence: u32) {
        self.sequence = sequence;
    }

    /// A new token. With `keep_older` messages go out under the one before until `use_newest`.
    pub(super) fn renew(&mut self, token: SendToken, keep_older: bool) {
        let older = std::mem::replace(&mut self.newest, token);
        self.older = keep_older.then_some(older);
    }

    /// The peer has used the newest token: so do we from now on.
    pub(super) fn use_newest(&mut self) {
        self.older = None;
    }

    /// Forgets the older token when it is over at `now`.
    pub(super) fn expire(&mut self, now: Mono) {
        self.older.take_if(|older| now >= older.until);
    }

    /// Encodes a body behind what is in `out`, and turns it into sealed chunks.
    pub(super) fn send(
        &mut self,
        request_id: u32,
        encode: Encode<'_>,
        out: &mut Vec<u8>,
        now: Mono,
    ) -> Result<(), SendError> {
        self.expire(now);
        if now >= self.token().until {
            return Err(SendError::NotOpen);
        }
        let start = out.len();
        let result =
            if self.holding { self.hold_back(request_id, encode) } else { self.put(request_id, encode, out, start) };
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    fn hold_back(&mut self, request_id: u32, encode: Encode<'_>) -> Result<(), SendError> {
        let mut body = Vec::new();
        encode(&mut body)?;
        self.check_size(body.len(), self.capacity())?;
        self.held.push((request_id, body));
        Ok(())
    }

    fn put(&mut self, request_id: u32, encode: Encode<'_>, out: &mut Vec<u8>, start: usize) -> Result<(), SendError> {
        let last = self.sequence;
        let capacity = self.capacity();
        self.begin(MessageKind::Message, ChunkKind::Final, request_id, out);
        let sent = match encode(out) {
            Ok(()) => self.finish(request_id, out, start, capacity),
            Err(error) => Err(error.into()),
        };
        if sent.is_err() {
            self.sequence = last;
        }
        sent
    }

    /// Seals what was encoded behind the headers at `start`.
    fn finish(&mut self, request_id: u32, out: &mut Vec<u8>, start: usize, capacity: usize) -> Result<(), SendError> {
        let body = out.len().checked_sub(start + CHUNK_HEADERS).ok_or(SendError::Crypto)?;
        self.check_size(body, capacity)?;
        if body <= capacity { self.seal(out, start) } else { self.split(request_id, out, start, capacity) }
    }

    /// Cuts the one oversized chunk at `start` into as many as it takes.
    fn split(&mut self, request_id: u32, out: &mut Vec<u8>, start: usize, capacity: usize) -> Result<(), SendError> {
        let first = start + CHUNK_HEADERS + capacity;
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        scratch.extend_from_slice(out.get(first..).ok_or(SendError::Crypto)?);
        out.truncate(first);
        if let Some(kind) = out.get_mut(start + 3) {
            *kind = b'C';
        }
        self.seal(out, start)?;
        let mut rest = scratch.as_slice();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at_checked(capacity).unwrap_or((rest, &[]));
            let kind = if after.is_empty() { ChunkKind::Final } else { ChunkKind::Intermediate };
            let at = out.len();
            make_room(out, CHUNK_HEADERS + piece.len() + SEAL);
            self.begin(MessageKind::Message, kind, request_id, out);
            out.extend_from_slice(piece);
            self.seal(out, at)?;
            rest = after;
        }
        if scratch.capacity() <= KEEP {
            self.scratch = scratch;
        }
        Ok(())
    }

    /// Appends a CLO with `body`; not while an OPN has the next sequence number.
    pub(super) fn close(&mut self, request_id: u32, body: &[u8], out: &mut Vec<u8>) -> Result<(), SendError> {
        if self.holding {
            return Err(SendError::NotOpen);
        }
        let start = out.len();
        self.begin(MessageKind::Close, ChunkKind::Final, request_id, out);
        out.extend_from_slice(body);
        self.seal(out, start)
    }

    /// Appends an abort chunk: the peer drops the message `request_id` of which it may have got a part.
    pub(super) fn abort(
        &mut self,
        request_id: u32,
        status: StatusCode,
        out: &mut Vec<u8>,
        now: Mono,
    ) -> Result<(), SendError> {
        self.expire(now);
        if self.holding || now >= self.token().until {
            return Err(SendError::NotOpen);
        }
        let start = out.len();
        self.begin(MessageKind::Message, ChunkKind::Abort, request_id, out);
        ErrorMessage::put_body(status, "", out);
        self.seal(out, start)
    }

    #[inline]
    fn begin(&mut self, kind: MessageKind, chunk: ChunkKind, request_id: u32, out: &mut Vec<u8>) {
        self.sequence = self.policy.next_sequence(self.sequence);
        MessageHeader::begin(kind, chunk, out);
        out.extend_from_slice(&self.channel_id.to_le_bytes());
        out.extend_from_slice(&self.token().id.to_le_bytes());
        SequenceHeader { number: self.sequence, request_id }.put(out);
    }

    fn seal(&self, out: &mut Vec<u8>, start: usize) -> Result<(), SendError> {
        make_room(out, SEAL);
        self.token().cipher.seal(out, start).map_err(|_| SendError::Crypto)
    }

    fn token(&self) -> &SendToken {
        self.older.as_ref().unwrap_or(&self.newest)
    }

    fn capacity(&self) -> usize {
        self.token().cipher.body_capacity(self.limits.chunk)
    }

    fn check_size(&self, body: usize, capacity: usize) -> Result<(), SendError> {
        let too_long = self.limits.message != 0 && body > self.limits.message;
        let too_many = self.limits.chunks != 0 && body.div_ceil(capacity.max(1)) > self.limits.chunks;
        if too_long || too_many || capacity == 0 { Err(SendError::TooLarge) } else { Ok(()) }
    }
}

/// Room for so many bytes more. What waits for a peer that does not read may be much: it grows by a quarter, not to twice
/// its size.
pub(super) fn make_room(out: &mut Vec<u8>, bytes: usize) {
    if out.capacity() - out.len() < bytes {
        out.reserve_exact(bytes.max(out.len() / 4));
    }
}
