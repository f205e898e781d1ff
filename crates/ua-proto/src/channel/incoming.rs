//! The receiving half of an open channel: opens chunks, checks their order, and puts messages together.

use access_model::Mono;
use opcua_types::StatusCode;

use crate::crypto::{ChunkCipher, SecurityPolicy};
use crate::wire::{
    CHUNK_HEADERS, CLEAR_HEADER, ChunkKind, ErrorMessage, Misbehavior, Reader, SEQUENCE_HEADER, SequenceHeader,
};

/// Capacity above which a body buffer is not kept for the next message: there are as many as there are channels, and most
/// wait for something small.
const KEEP: usize = 1_024;

/// One direction of a security token on the receiving side.
pub(super) struct ReceiveToken {
    pub(super) id: u32,
    /// When it stops being accepted.
    pub(super) until: Mono,
    pub(super) cipher: Box<dyn ChunkCipher>,
}

/// What a chunk completed.
pub(super) enum Arrived {
    Nothing,
    Message { request_id: u32, body: Vec<u8> },
    Aborted { request_id: u32, status: StatusCode },
}

/// A message of which chunks are missing.
struct Assembly {
    request_id: u32,
    body: Vec<u8>,
    chunks: u32,
}

/// The receiving half.
pub(super) struct Incoming {
    policy: &'static dyn SecurityPolicy,
    channel_id: u32,
    /// Sequence number of the last chunk.
    sequence: u32,
    newest: ReceiveToken,
    /// The token before, while it may still be used.
    older: Option<ReceiveToken>,
    assembly: Option<Assembly>,
    spare: Vec<u8>,
    max_message: usize,
    max_chunks: u32,
}

impl Incoming {
    pub(super) fn new(
        policy: &'static dyn SecurityPolicy,
        channel_id: u32,
        sequence: u32,
        token: ReceiveToken,
        max_message: u32,
        max_chunks: u32,
    ) -> Self {
        Self {
            policy,
            channel_id,
            sequence,
            newest: token,
            older: None,
            assembly: None,
            spare: Vec::new(),
            max_message: max_message as usize,
            max_chunks,
        }
    }

    /// The sequence number of the last chunk.
    pub(super) fn sequence(&self) -> u32 {
        self.sequence
    }

    /// A renewal is done: `sequence` was the OPN's, `token` is new; the one before stays until its own end.
    pub(super) fn renew(&mut self, sequence: u32, token: ReceiveToken) {
        self.sequence = sequence;
        self.older = Some(std::mem::replace(&mut self.newest, token));
    }

    /// Forgets the older token when it is over at `now`.
    pub(super) fn expire(&mut self, now: Mono) {
        self.older.take_if(|older| now >= older.until);
    }

    /// When the newest token stops being accepted.
    pub(super) fn until(&self) -> Mono {
        self.newest.until
    }

    #[cfg(test)]
    pub(super) fn set_sequence(&mut self, sequence: u32) {
        self.sequence = sequence;
    }

    /// Bytes of a message of which chunks are missing.
    pub(super) fn assembled(&self) -> usize {
        self.assembly.as_ref().map_or(0, |assembly| assembly.body.len())
    }

    /// Whether a message is incomplete.
    pub(super) fn is_assembling(&self) -> bool {
        self.assembly.is_some()
    }

    /// Takes a body buffer back.
    pub(super) fn recycle(&mut self, mut body: Vec<u8>) {
        if body.capacity() <= KEEP && body.capacity() > self.spare.capacity() {
            body.clear();
            self.spare = body;
        }
    }

    /// Opens a MSG chunk. Returns what it completed, and whether it came under the newest token.
    pub(super) fn message(&mut self, kind: ChunkKind, chunk: &[u8], now: Mono) -> Result<(Arrived, bool), Misbehavior> {
        let mut assembly = self.assembly.take().unwrap_or_else(|| Assembly {
            request_id: 0,
            body: std::mem::take(&mut self.spare),
            chunks: 0,
        });
        let at = assembly.body.len();
        let (sequence, newest) = self.open(chunk, &mut assembly.body, now)?;
        if assembly.chunks == 0 {
            assembly.request_id = sequence.request_id;
        } else if assembly.request_id != sequence.request_id {
            return Err(Misbehavior::Interleaved);
        }
        assembly.chunks += 1;
        let arrived = match kind {
            ChunkKind::Abort => self.aborted(assembly, at)?,
            _ if assembly.chunks > self.max_chunks || assembly.body.len() > self.max_message => {
                return Err(Misbehavior::MessageTooLarge);
            }
            ChunkKind::Intermediate => {
                self.assembly = Some(assembly);
                Arrived::Nothing
            }
            ChunkKind::Final => Arrived::Message { request_id: assembly.request_id, body: assembly.body },
        };
        Ok((arrived, newest))
    }

    fn aborted(&mut self, assembly: Assembly, at: usize) -> Result<Arrived, Misbehavior> {
        let error = ErrorMessage::parse(assembly.body.get(at..).unwrap_or_default())?;
        self.recycle(assembly.body);
        Ok(Arrived::Aborted { request_id: assembly.request_id, status: error.status })
    }

    /// Opens a CLO chunk.
    pub(super) fn close(&mut self, chunk: &[u8], now: Mono) -> Result<(), Misbehavior> {
        let mut body = std::mem::take(&mut self.spare);
        self.open(chunk, &mut body, now).map(drop)
    }

    /// Opens a chunk and appends its body to `body`: one copy, then everything in place.
    fn open(&mut self, chunk: &[u8], body: &mut Vec<u8>, now: Mono) -> Result<(SequenceHeader, bool), Misbehavior> {
        if chunk.len() < CHUNK_HEADERS {
            return Err(Misbehavior::Truncated);
        }
        let (clear, sealed) = chunk.split_at_checked(CLEAR_HEADER).ok_or(Misbehavior::Truncated)?;
        let mut reader = Reader::new(clear);
        reader.take(crate::wire::MESSAGE_HEADER)?;
        if reader.u32()? != self.channel_id {
            return Err(Misbehavior::OtherChannel);
        }
        let (token, newest) = self.token(reader.u32()?, now)?;
        let at = body.len();
        body.extend_from_slice(sealed);
        let fresh = body.get_mut(at..).ok_or(Misbehavior::Truncated)?;
        let end = token.cipher.open(clear, fresh, self.sequence).map_err(|_| Misbehavior::NotAuthentic)?;
        let sequence = SequenceHeader::parse(fresh)?;
        if !self.policy.sequence_follows(self.sequence, sequence.number) {
            return Err(Misbehavior::Sequence);
        }
        self.sequence = sequence.number;
        // The cipher says where the body ends, and that the sequence header is inside.
        fresh.copy_within(SEQUENCE_HEADER..end, 0);
        body.truncate(at + end - SEQUENCE_HEADER);
        Ok((sequence, newest))
    }

    fn token(&self, id: u32, now: Mono) -> Result<(&ReceiveToken, bool), Misbehavior> {
        let (token, newest) = if self.newest.id == id {
            (&self.newest, true)
        } else {
            (self.older.as_ref().filter(|older| older.id == id).ok_or(Misbehavior::TokenUnknown)?, false)
        };
        // A token that is over opens nothing, however good the signature: a stolen key ends with its token.
        if now < token.until { Ok((token, newest)) } else { Err(Misbehavior::TokenUnknown) }
    }
}
