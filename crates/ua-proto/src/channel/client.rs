//! The client's end of a secure channel.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use access_model::{Mono, Now, Reason};
use opcua_types::{
    BinaryEncodable, CloseSecureChannelRequest, ContextOwned, MessageInfo, MessageSecurityMode, NodeId, RequestHeader,
    StatusCode,
};

use super::client_task::{Answer, AnswerTask, SealTask};
use super::incoming::{Arrived, Incoming, ReceiveToken};
use super::outgoing::{Outgoing, PeerLimits, SendToken};
use super::{ChannelEvent, ChannelSecurity, Encode, EncodeError, SendError, TransportLimits};
use crate::crypto::{KeyAgreement, SecurityPolicyId};
use crate::pki::{self, Certificate, OwnIdentity, Purpose, Rejection, SharedTrust};
use crate::wire::{
    Acknowledge, ErrorMessage, Hello, MESSAGE_HEADER, MIN_BUFFER, MessageHeader, MessageKind, Misbehavior, OpenHeader,
    OpenRequest, SequenceHeader, ticks,
};
use crate::{Entropy, Job, JobId, JobOutcome};

/// What a client's channel is to be.
pub struct ClientChannelConfig {
    /// The URL for the Hello.
    pub endpoint_url: String,
    /// The policy.
    pub policy: SecurityPolicyId,
    /// The mode.
    pub mode: MessageSecurityMode,
    /// Our certificate and key; needed with every policy but None.
    pub identity: Option<Arc<OwnIdentity>>,
    /// The server's certificate from its endpoint description; needed with every policy but None.
    pub server_certificate: Option<Arc<Certificate>>,
    /// Whom we trust; needed with every policy but None.
    pub trust: Option<SharedTrust>,
    /// The ApplicationUri of the endpoint description that the certificate must name.
    pub server_uri: Option<String>,
    /// The host we dialled, that the certificate must name; `None` does not check.
    pub host: Option<String>,
    /// Lifetime of security tokens to ask for.
    pub lifetime: Duration,
    /// How long it may take until the channel is open.
    pub open_timeout: Duration,
    /// Bounds.
    pub limits: TransportLimits,
}

impl ClientChannelConfig {
    /// An unprotected channel, for discovery.
    #[must_use]
    pub fn unprotected(endpoint_url: impl Into<String>) -> Self {
        Self {
            endpoint_url: endpoint_url.into(),
            policy: SecurityPolicyId::None,
            mode: MessageSecurityMode::None,
            identity: None,
            server_certificate: None,
            trust: None,
            server_uri: None,
            host: None,
            lifetime: Duration::from_secs(3600),
            open_timeout: Duration::from_secs(10),
            limits: TransportLimits::default(),
        }
    }
}

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
            self.input = held;
        }
    }

    fn consume(&mut self, bytes: &[u8], now: Now, entropy: &mut dyn Entropy) -> usize {
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

    /// Starts an OPN: issue or renew.
    fn ask(&mut self, now: Now, entropy: &mut dyn Entropy) {
        let policy = self.config.policy.algorithms();
        let request_id = self.next_request();
        let (security, number) = match &mut self.phase {
            Phase::Open(open) => {
                open.renew_at = Mono::NEVER;
                (open.security.clone(), open.outgoing.hold())
            }
            _ => (self.config.security(0), 1),
        };
        let agreement = policy.agree(entropy);
        let request = OpenRequest {
            request_handle: request_id,
            issue: security.channel_id == 0,
            mode: self.config.mode,
            nonce: agreement.nonce().to_vec(),
            lifetime_ms: u32::try_from(self.config.lifetime.as_millis()).unwrap_or(u32::MAX),
        };
        let sequence = SequenceHeader { number, request_id };
        let task = SealTask { policy, security, sequence, request, at: now.unix };
        let id = self.next_job();
        self.exchange = Some(Exchange { stage: Stage::Sealing(id), sequence, agreement: Some(agreement) });
        if self.config.policy == SecurityPolicyId::None {
            let sealed = task.run();
            self.sealed(sealed, now);
        } else {
            self.events.push_back(ChannelEvent::Job(Job::new(id, move || task.run())));
        }
    }

    fn sealed(&mut self, sealed: Result<Vec<u8>, Misbehavior>, now: Now) {
        let (Ok(chunk), Some(exchange)) = (sealed, &mut self.exchange) else {
            return self.fail(StatusCode::BadSecurityChecksFailed);
        };
        exchange.stage = Stage::Waiting;
        let number = exchange.sequence.number;
        self.output.extend_from_slice(&chunk);
        if let Phase::Open(open) = &mut self.phase
            && open.outgoing.release(number, &mut self.output, now.mono).is_err()
        {
            self.fail(StatusCode::BadSecureChannelTokenUnknown);
        }
    }

    /// The server's answer to an OPN.
    fn answer(&mut self, chunk: &[u8], now: Now) -> Result<(), Misbehavior> {
        let Some(exchange) = self.exchange.as_mut().filter(|exchange| exchange.stage == Stage::Waiting) else {
            return Err(Misbehavior::OutOfOrder);
        };
        let header = OpenHeader::parse(chunk)?;
        let (channel_id, last) = match &self.phase {
            Phase::Open(open) if open.incoming.is_assembling() => return Err(Misbehavior::Interleaved),
            Phase::Open(open) => (open.security.channel_id, Some(open.incoming.sequence())),
            _ => (0, None),
        };
        if header.channel_id == 0 || (channel_id != 0 && header.channel_id != channel_id) {
            return Err(Misbehavior::OtherChannel);
        }
        let security = self.config.security(header.channel_id);
        check_header(&header, &security)?;
        let task = AnswerTask {
            security,
            chunk: chunk.to_vec(),
            protected_from: header.end,
            last,
            request_id: exchange.sequence.request_id,
            agreement: exchange.agreement.take().ok_or(Misbehavior::OutOfOrder)?,
        };
        if self.config.policy == SecurityPolicyId::None {
            let answer = task.run()?;
            self.answered(answer, now);
            return Ok(());
        }
        self.jobs = self.jobs.wrapping_add(1);
        let id = JobId(u64::from(self.jobs));
        exchange.stage = Stage::Answering(id);
        self.events.push_back(ChannelEvent::Job(Job::new(id, move || task.run())));
        Ok(())
    }

    fn answered(&mut self, answer: Answer, now: Now) {
        self.exchange = None;
        let lifetime = Duration::from_millis(answer.lifetime_ms.into());
        let until = now.mono + lifetime;
        let send = SendToken { id: answer.token_id, until, cipher: answer.keys.send };
        // What the server sent before it saw the new token may arrive late (OPC 10000-4 §5.6.2.1).
        let receive =
            ReceiveToken { id: answer.token_id, until: until + lifetime / 4, cipher: answer.keys.receive };
        let renew_at = now.mono + lifetime * 3 / 4;
        if let Phase::Open(open) = &mut self.phase {
            open.incoming.renew(answer.sequence, receive);
            open.outgoing.renew(send, false);
            open.renew_at = renew_at;
            return self.events.push_back(ChannelEvent::Renewed);
        }
        let policy = self.config.policy.algorithms();
        let (id, limits) = (answer.security.channel_id, &self.config.limits);
        let incoming = Incoming::new(policy, id, answer.sequence, receive, limits.max_message, limits.max_chunks);
        // The OPN carried number 1.
        let outgoing = Outgoing::new(policy, id, 1, send, self.peer);
        let security = answer.security;
        let open = Open { incoming, outgoing, waiting: Vec::new(), security, renew_at };
        self.phase = Phase::Open(Box::new(open));
        self.events.push_back(ChannelEvent::Opened);
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

    /// Gives a body buffer back for the next message.
    pub fn recycle(&mut self, body: Vec<u8>) {
        if let Phase::Open(open) = &mut self.phase {
            open.incoming.recycle(body);
        }
    }

    /// Bytes for the server; take them from the front.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// What was agreed; `None` before the channel is open.
    #[must_use]
    pub fn security(&self) -> Option<&ChannelSecurity> {
        match &self.phase {
            Phase::Open(open) => Some(&open.security),
            _ => None,
        }
    }

    /// Whether more bytes from the server are welcome.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        let answering = self.exchange.as_ref().is_some_and(|exchange| matches!(exchange.stage, Stage::Answering(_)));
        !answering && !self.is_closed()
    }

    /// Whether the channel is over.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
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

    #[cfg(test)]
    pub(super) fn set_sequence(&mut self, send: u32, receive: u32) {
        if let Phase::Open(open) = &mut self.phase {
            open.outgoing.set_sequence(send);
            open.incoming.set_sequence(receive);
        }
    }

    fn misbehaved(&mut self, fault: Misbehavior) {
        let status = if fault == Misbehavior::MessageTooLarge {
            StatusCode::BadResponseTooLarge
        } else {
            fault.true_status()
        };
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

impl ClientChannelConfig {
    /// Whether everything is there that the policy needs, and the server's certificate is good.
    fn check(&self, now: Now) -> Result<(), Rejection> {
        let missing = |what: &str| {
            let detail = format!("the policy {} needs {what}", self.policy);
            Rejection::new(Reason::ChannelPolicy, StatusCode::BadConfigurationError, detail)
        };
        let protected = self.policy != SecurityPolicyId::None;
        let fits = match self.mode {
            MessageSecurityMode::None => !protected,
            MessageSecurityMode::Sign | MessageSecurityMode::SignAndEncrypt => protected,
            MessageSecurityMode::Invalid => false,
        };
        if !fits {
            return Err(missing("another mode"));
        }
        if !protected {
            return Ok(());
        }
        let server = self.server_certificate.as_ref().ok_or_else(|| missing("the server's certificate"))?;
        let trust = self.trust.as_ref().ok_or_else(|| missing("a trust list"))?.load();
        if self.identity.is_none() {
            return Err(missing("an identity of our own"));
        }
        let purpose =
            Purpose::Server { application_uri: self.server_uri.as_deref(), host: self.host.as_deref() };
        pki::validate(server, &trust, purpose, now.unix)
    }

    fn security(&self, channel_id: u32) -> ChannelSecurity {
        let protected = self.policy != SecurityPolicyId::None;
        ChannelSecurity {
            channel_id,
            policy: self.policy,
            mode: self.mode,
            peer: self.server_certificate.clone().filter(|_| protected),
            own: self.identity.clone(),
            discovery_only: false,
        }
    }
}

/// The answer comes from the server we asked, for us, under the policy we asked for.
fn check_header(header: &OpenHeader<'_>, security: &ChannelSecurity) -> Result<(), Misbehavior> {
    if header.policy_uri != security.policy.uri() {
        return Err(Misbehavior::Policy);
    }
    let Some((peer, own)) = security.peer.as_ref().zip(security.own.as_ref()) else { return Ok(()) };
    let sender = header.sender.unwrap_or_default();
    if !sender.starts_with(peer.der()) {
        return Err(Misbehavior::RenewalChanged);
    }
    if header.receiver != Some(own.certificate.thumbprint_sha1().as_slice()) {
        return Err(Misbehavior::OtherReceiver);
    }
    Ok(())
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
