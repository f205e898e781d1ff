//! The client's end of a secure channel.

mod config;
mod input;
mod open;

use std::collections::VecDeque;
use std::sync::Arc;

use access_model::{Mono, Now};
use opcua_types::{
    BinaryEncodable, CloseSecureChannelRequest, ContextOwned, MessageInfo, NodeId, RequestHeader, StatusCode,
};

use super::client_task::Answer;
use super::incoming::Incoming;
use super::outgoing::{Outgoing, PeerLimits};
use super::{ChannelEvent, ChannelSecurity, Encode, EncodeError, SendError};
use crate::crypto::KeyAgreement;
use crate::pki::Rejection;
use crate::wire::{Hello, MIN_BUFFER, Misbehavior, SequenceHeader, ticks};
use crate::{Entropy, JobId, JobOutcome};

pub use config::ClientChannelConfig;

/// An open channel.
struct Open {
    incoming: Incoming,
    outgoing: Outgoing,
    /// Requests that wait for a response.
    waiting: Vec<u32>,
    security: ChannelSecurity,
    /// When to renew; never while a renewal is under way.
    renew_at: Mono,
}

enum Phase {
    /// Hello is out.
    Hello,
    /// Acknowledge came, the first OPN is under way.
    Opening,
    Open(Box<Open>),
    Closed,
}

/// How far an OPN is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A job signs and encrypts it.
    Sealing(JobId),
    /// It is out.
    Waiting,
    /// A job decrypts and verifies the answer.
    Answering(JobId),
}

/// An OPN that is under way.
struct Exchange {
    stage: Stage,
    sequence: SequenceHeader,
    agreement: Option<Box<dyn KeyAgreement>>,
}

/// One connection of a client, from Hello to its end.
pub struct ClientChannel {
    config: Arc<ClientChannelConfig>,
    phase: Phase,
    exchange: Option<Exchange>,
    input: Vec<u8>,
    output: Vec<u8>,
    events: VecDeque<ChannelEvent>,
    receive_chunk: usize,
    peer: PeerLimits,
    requests: u32,
    jobs: u32,
    deadline: Mono,
}

super::both_ends!(ClientChannel);

impl ClientChannel {
    /// A connection that was just made; its Hello is in `outgoing`.
    ///
    /// # Errors
    /// When the server's certificate is not acceptable, or something is missing that the policy needs.
    pub fn new(config: Arc<ClientChannelConfig>, now: Now) -> Result<Self, Rejection> {
        config.check(now)?;
        let limits = config.limits;
        let mut output = Vec::new();
        let hello = Hello {
            protocol_version: 0,
            receive_buffer: limits.receive_buffer.max(MIN_BUFFER),
            send_buffer: limits.send_buffer.max(MIN_BUFFER),
            max_message: limits.max_message,
            max_chunks: limits.max_chunks,
            endpoint_url: config.endpoint_url.clone(),
        };
        hello.put(&mut output);
        Ok(Self {
            deadline: now.mono + config.open_timeout,
            config,
            phase: Phase::Hello,
            exchange: None,
            input: Vec::new(),
            output,
            events: VecDeque::new(),
            receive_chunk: limits.receive_buffer.max(MIN_BUFFER) as usize,
            peer: PeerLimits { chunk: 0, message: 0, chunks: 0 },
            requests: 0,
            jobs: 0,
        })
    }

    /// Takes bytes from the server; with none, goes on with what is buffered.
    pub fn receive(&mut self, bytes: &[u8], now: Now, entropy: &mut dyn Entropy) {
        if self.is_closed() {
            return;
        }
        let mut held = std::mem::take(&mut self.input);
        if held.is_empty() {
            let used = self.consume(bytes, now, entropy);
            held = bytes.get(used..).unwrap_or_default().to_vec();
        } else {
            held.extend_from_slice(bytes);
            let used = self.consume(&held, now, entropy);
            held.drain(..used.min(held.len()));
        }
        if !self.is_closed() {
            if held.len() > self.receive_chunk + self.config.limits.max_outgoing {
                return self.misbehaved(Misbehavior::TooMuch);
            }
            self.input = if held.is_empty() { Vec::new() } else { held };
        }
    }

    /// Takes the outcome of a job of this channel.
    pub fn job_done(&mut self, id: JobId, outcome: JobOutcome, now: Now, entropy: &mut dyn Entropy) {
        match self.exchange.as_ref().map(|exchange| exchange.stage) {
            Some(Stage::Sealing(job)) if job == id => match outcome.downcast::<Result<Vec<u8>, Misbehavior>>() {
                Ok(sealed) => self.sealed(*sealed, now),
                Err(_) => self.fail(StatusCode::BadInternalError),
            },
            Some(Stage::Answering(job)) if job == id => match outcome.downcast::<Result<Answer, Misbehavior>>() {
                Ok(answer) => match *answer {
                    Ok(answer) => self.answered(answer, now),
                    Err(fault) => self.misbehaved(fault),
                },
                Err(_) => self.fail(StatusCode::BadInternalError),
            },
            _ => return,
        }
        self.receive(&[], now, entropy);
    }

    /// Renews at 75 % of the lifetime and ends what is over.
    pub fn handle_timeout(&mut self, now: Now, entropy: &mut dyn Entropy) {
        let over = self.poll_timeout().is_some_and(|at| now.mono >= at);
        if !over {
            return;
        }
        let Phase::Open(open) = &mut self.phase else { return self.fail(StatusCode::BadTimeout) };
        open.incoming.expire(now.mono);
        if now.mono >= open.incoming.until() {
            return self.fail(StatusCode::BadSecureChannelTokenUnknown);
        }
        match self.config.check(now) {
            Ok(()) => self.ask(now, entropy),
            Err(rejection) => self.fail(rejection.status),
        }
    }

    /// When `handle_timeout` must be called; `None` when the channel is closed.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        match &self.phase {
            Phase::Closed => None,
            Phase::Open(open) => Some(open.renew_at.min(open.incoming.until())),
            _ => Some(self.deadline),
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ChannelEvent> {
        self.events.pop_front()
    }

    /// Sends a request and returns its id, which the response will carry. Works in an open channel only; while a renewal
    /// is under way the message waits for it, in order.
    ///
    /// # Errors
    /// Nothing was queued.
    pub fn send(&mut self, encode: Encode<'_>, now: Now) -> Result<u32, SendError> {
        let request_id = self.next_request();
        let Phase::Open(open) = &mut self.phase else { return Err(SendError::NotOpen) };
        open.outgoing.send(request_id, encode, &mut self.output, now.mono)?;
        open.waiting.push(request_id);
        Ok(request_id)
    }

    /// Bytes that are held: what the server has not taken, and of what it has sent that which is no whole message yet.
    #[must_use]
    pub fn burden(&self) -> usize {
        let assembled = match &self.phase {
            Phase::Open(open) => open.incoming.assembled(),
            _ => 0,
        };
        self.input.len().saturating_add(assembled).saturating_add(self.output.len())
    }

    /// Whether more bytes from the server are welcome.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        let answering = self.exchange.as_ref().is_some_and(|exchange| matches!(exchange.stage, Stage::Answering(_)));
        !answering && !self.is_closed()
    }

    /// Ends the channel in order: CloseSecureChannel, then closed.
    pub fn close(&mut self, now: Now) {
        let request_id = self.next_request();
        if let Phase::Open(open) = &mut self.phase {
            // Without a body or a sequence number to give it, the connection's end says the same.
            if let Ok(body) = close_body(now, request_id) {
                let _sent = open.outgoing.close(request_id, &body, &mut self.output);
            }
        }
        self.fail(StatusCode::Good);
    }

    /// Ends the channel without a word to the server.
    pub fn fail(&mut self, status: StatusCode) {
        if !self.is_closed() {
            self.phase = Phase::Closed;
            self.exchange = None;
            self.input = Vec::new();
            self.events.push_back(ChannelEvent::Closed { status });
        }
    }

    fn misbehaved(&mut self, fault: Misbehavior) {
        let status =
            if fault == Misbehavior::MessageTooLarge { StatusCode::BadResponseTooLarge } else { fault.true_status() };
        self.fail(status);
    }

    fn next_request(&mut self) -> u32 {
        self.requests = self.requests.wrapping_add(1).max(1);
        self.requests
    }

    fn next_job(&mut self) -> JobId {
        self.jobs = self.jobs.wrapping_add(1);
        JobId(u64::from(self.jobs))
    }
}

fn close_body(now: Now, request_id: u32) -> Result<Vec<u8>, EncodeError> {
    let request =
        CloseSecureChannelRequest { request_header: RequestHeader::new(&NodeId::null(), &ticks(now.unix), request_id) };
    let owned = ContextOwned::default();
    let mut body = Vec::new();
    let id: NodeId = request.type_id().into();
    id.encode(&mut body, &owned.context())?;
    request.encode(&mut body, &owned.context())?;
    Ok(body)
}
