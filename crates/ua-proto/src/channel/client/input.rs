//! What a client's channel does with bytes: frames them, and takes each chunk by its type.

use access_model::Now;
use opcua_types::StatusCode;

use super::{ClientChannel, Phase};
use crate::Entropy;
use crate::channel::ChannelEvent;
use crate::channel::incoming::Arrived;
use crate::channel::outgoing::PeerLimits;
use crate::wire::{Acknowledge, ErrorMessage, MESSAGE_HEADER, MIN_BUFFER, MessageHeader, MessageKind, Misbehavior};

impl ClientChannel {
    pub(super) fn consume(&mut self, bytes: &[u8], now: Now, entropy: &mut dyn Entropy) -> usize {
        let mut used = 0;
        while self.wants_input() {
            let rest = bytes.get(used..).unwrap_or_default();
            let step = match self.next_chunk(rest) {
                Ok(Some((header, chunk))) => {
                    used += chunk.len();
                    self.chunk(header, chunk, now, entropy)
                }
                Ok(None) => break,
                Err(fault) => Err(fault),
            };
            if let Err(fault) = step {
                self.misbehaved(fault);
            }
        }
        used
    }

    fn next_chunk<'a>(&self, bytes: &'a [u8]) -> Result<Option<(MessageHeader, &'a [u8])>, Misbehavior> {
        let Some(header) = MessageHeader::parse(bytes)? else { return Ok(None) };
        if header.size > self.receive_chunk {
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
        let body = chunk.get(MESSAGE_HEADER..).unwrap_or_default();
        match (header.kind, &mut self.phase) {
            (MessageKind::Error, _) => {
                let error = ErrorMessage::parse(body)?;
                self.fail(error.status);
                Ok(())
            }
            (MessageKind::Acknowledge, Phase::Hello) => self.acknowledged(body, now, entropy),
            (MessageKind::Open, _) => self.answer(chunk, now),
            (MessageKind::Message, Phase::Open(open)) => {
                let (arrived, _) = open.incoming.message(header.chunk, chunk, now.mono)?;
                self.arrived(arrived)
            }
            (MessageKind::Close, Phase::Open(open)) => {
                open.incoming.close(chunk, now.mono)?;
                self.fail(StatusCode::BadSecureChannelClosed);
                Ok(())
            }
            _ => Err(Misbehavior::OutOfOrder),
        }
    }

    fn acknowledged(&mut self, body: &[u8], now: Now, entropy: &mut dyn Entropy) -> Result<(), Misbehavior> {
        let acknowledge = Acknowledge::parse(body)?;
        let limits = &self.config.limits;
        let (receive, send) = (limits.receive_buffer.max(MIN_BUFFER), limits.send_buffer.max(MIN_BUFFER));
        if acknowledge.send_buffer > receive || acknowledge.receive_buffer > send {
            return Err(Misbehavior::BufferSize);
        }
        self.receive_chunk = acknowledge.send_buffer as usize;
        self.peer = PeerLimits {
            chunk: acknowledge.receive_buffer as usize,
            message: acknowledge.max_message as usize,
            chunks: acknowledge.max_chunks as usize,
        };
        self.phase = Phase::Opening;
        self.ask(now, entropy);
        Ok(())
    }

    fn arrived(&mut self, arrived: Arrived) -> Result<(), Misbehavior> {
        let Phase::Open(open) = &mut self.phase else { return Err(Misbehavior::OutOfOrder) };
        let (request_id, event) = match arrived {
            Arrived::Nothing => return Ok(()),
            Arrived::Message { request_id, body } => (request_id, ChannelEvent::Message { request_id, body }),
            Arrived::Aborted { request_id, status } => (request_id, ChannelEvent::Aborted { request_id, status }),
        };
        let place = open.waiting.iter().position(|id| *id == request_id).ok_or(Misbehavior::UnknownRequest)?;
        open.waiting.swap_remove(place);
        self.events.push_back(event);
        Ok(())
    }
}
