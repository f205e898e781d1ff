//! What a server's channel does with bytes: frames them, and takes each chunk by its type.

use access_model::Now;

use super::{MAX_HELLO, PIPELINE, Pending, Phase, ServerChannel};
use crate::Entropy;
use crate::channel::ChannelEvent;
use crate::channel::incoming::Arrived;
use crate::channel::outgoing::PeerLimits;
use crate::wire::{Acknowledge, Hello, MESSAGE_HEADER, MessageHeader, MessageKind, Misbehavior};

impl ServerChannel {
    /// Buffers what could not be used yet, within the bound of the channel's state.
    pub(super) fn keep(&mut self, mut held: Vec<u8>, more: &[u8]) {
        if self.is_closed() {
            return;
        }
        let bound = match self.phase {
            Phase::Open(_) => self.receive_chunk + self.config.limits.max_outgoing,
            _ => self.config.limits.max_open.max(MAX_HELLO) + PIPELINE,
        };
        if held.len() + more.len() > bound {
            return self.misbehaved(Misbehavior::TooMuch);
        }
        if held.is_empty() {
            // An idle connection holds no buffer.
            held = Vec::with_capacity(more.len());
        }
        held.extend_from_slice(more);
        self.input = held;
    }

    /// Works through whole chunks at the front of `bytes`; returns how many bytes that were.
    pub(super) fn consume(&mut self, bytes: &[u8], now: Now, entropy: &mut dyn Entropy) -> usize {
        let mut used = 0;
        while self.takes_chunks() {
            let rest = bytes.get(used..).unwrap_or_default();
            match self.next_chunk(rest) {
                Ok(Some((header, chunk))) => {
                    used += chunk.len();
                    if let Err(fault) = self.chunk(header, chunk, now, entropy) {
                        self.misbehaved(fault);
                    }
                }
                Ok(None) => break,
                Err(fault) => self.misbehaved(fault),
            }
        }
        used
    }

    /// The chunk at the front of `bytes`, when it is complete.
    fn next_chunk<'a>(&self, bytes: &'a [u8]) -> Result<Option<(MessageHeader, &'a [u8])>, Misbehavior> {
        let Some(header) = MessageHeader::parse(bytes)? else { return Ok(None) };
        // A type that cannot come now is refused before its body is waited for.
        let limit = match (&self.phase, header.kind) {
            (Phase::Hello, MessageKind::Hello) => MAX_HELLO,
            (Phase::Acknowledged | Phase::Open(_), MessageKind::Open) => {
                self.config.limits.max_open.min(self.receive_chunk)
            }
            (Phase::Open(_), MessageKind::Message | MessageKind::Close) => self.receive_chunk,
            _ => return Err(Misbehavior::OutOfOrder),
        };
        if header.size > limit {
            return Err(Misbehavior::ChunkTooLarge);
        }
        Ok(bytes.get(..header.size).map(|chunk| (header, chunk)))
    }

    fn chunk(
        &mut self,
        header: MessageHeader,
        chunk: &[u8],
        now: Now,
        entropy: &mut dyn Entropy,
    ) -> Result<(), Misbehavior> {
        match header.kind {
            MessageKind::Hello => self.hello(chunk, now),
            MessageKind::Open => self.open(chunk, now, entropy),
            MessageKind::Message => self.message(header, chunk, now),
            MessageKind::Close => self.closed_by_peer(chunk, now),
            MessageKind::Acknowledge | MessageKind::Error | MessageKind::ReverseHello => Err(Misbehavior::OutOfOrder),
        }
    }

    fn hello(&mut self, chunk: &[u8], now: Now) -> Result<(), Misbehavior> {
        let hello = Hello::parse(chunk.get(MESSAGE_HEADER..).unwrap_or_default())?;
        let limits = &self.config.limits;
        let acknowledge = Acknowledge {
            protocol_version: 0,
            receive_buffer: limits.receive_buffer.min(hello.send_buffer),
            send_buffer: limits.send_buffer.min(hello.receive_buffer),
            max_message: limits.max_message,
            max_chunks: limits.max_chunks,
        };
        self.receive_chunk = acknowledge.receive_buffer as usize;
        self.peer = PeerLimits {
            chunk: acknowledge.send_buffer as usize,
            message: hello.max_message as usize,
            chunks: hello.max_chunks as usize,
        };
        acknowledge.put(&mut self.output);
        self.endpoint_url = hello.endpoint_url;
        self.deadline = now.mono + self.config.open_timeout;
        self.phase = Phase::Acknowledged;
        Ok(())
    }

    fn message(&mut self, header: MessageHeader, chunk: &[u8], now: Now) -> Result<(), Misbehavior> {
        let Phase::Open(open) = &mut self.phase else { return Err(Misbehavior::OutOfOrder) };
        let (arrived, newest) = open.incoming.message(header.chunk, chunk, now.mono)?;
        if newest {
            open.outgoing.use_newest();
        }
        if let Arrived::Message { request_id, body } = arrived {
            if open.place_of(request_id).is_some() {
                return Err(Misbehavior::RequestIdInUse);
            }
            open.pending.push(Pending { request_id, size: body.len() });
            open.asked = open.asked.saturating_add(body.len());
            self.events.push_back(ChannelEvent::Message { request_id, body });
        }
        Ok(())
    }

    fn closed_by_peer(&mut self, chunk: &[u8], now: Now) -> Result<(), Misbehavior> {
        let Phase::Open(open) = &mut self.phase else { return Err(Misbehavior::OutOfOrder) };
        open.incoming.close(chunk, now.mono)?;
        self.close();
        Ok(())
    }
}
