//! The server's end of a secure channel.

use std::collections::VecDeque;
use std::sync::Arc;

use access_model::{AuditKind, Mono, Now, Reason};
use opcua_types::{MessageSecurityMode, StatusCode};

use super::incoming::{Arrived, Incoming, ReceiveToken};
use super::outgoing::{Outgoing, PeerLimits, SendToken};
use super::task::{OpenTask, Opened, Refused};
use super::{ChannelAudit, ChannelConfig, ChannelEvent, ChannelSecurity, Encode, SendError};
use crate::crypto::SecurityPolicyId;
use crate::pki::{self, Purpose, TrustList};
use crate::wire::{
    Acknowledge, ErrorMessage, Hello, MAX_URL, MESSAGE_HEADER, MessageHeader, MessageKind, Misbehavior, OpenHeader,
};
use crate::{Entropy, Job, JobId, JobOutcome};

/// Input beyond the message at hand that is kept while an OPN is worked on.
const PIPELINE: usize = 8 * 1024;
/// Bytes of a Hello with the longest URL, and a little more, so that a URL that is too long can be told so.
const MAX_HELLO: usize = MESSAGE_HEADER + 24 + 2 * MAX_URL;

/// An open channel.
struct Open {
    incoming: Incoming,
    outgoing: Outgoing,
    /// Requests that wait for an answer.
    pending: Vec<u32>,
    security: ChannelSecurity,
}

enum Phase {
    /// Nothing came yet.
    Hello,
    /// Hello was answered.
    Acknowledged,
    Open(Box<Open>),
    Closed,
}

/// One connection at a server, from Hello to its end.
pub struct ServerChannel {
    channel_id: u32,
    config: Arc<ChannelConfig>,
    phase: Phase,
    endpoint_url: String,
    /// Bytes that are no whole chunk yet, or wait.
    input: Vec<u8>,
    output: Vec<u8>,
    events: VecDeque<ChannelEvent>,
    /// Largest chunk from the peer, and what the peer takes.
    receive_chunk: usize,
    peer: PeerLimits,
    /// The OPN that is being worked on.
    job: Option<JobId>,
    jobs: u32,
    tokens: u32,
    deadline: Mono,
}

impl ServerChannel {
    /// A connection that was just accepted. `channel_id` is never 0 and never used twice while channels with it may live.
    #[must_use]
    pub fn new(channel_id: u32, config: Arc<ChannelConfig>, now: Now) -> Self {
        let deadline = now.mono + config.hello_timeout;
        Self {
            channel_id,
            config,
            phase: Phase::Hello,
            endpoint_url: String::new(),
            input: Vec::new(),
            output: Vec::new(),
            events: VecDeque::new(),
            receive_chunk: 0,
            peer: PeerLimits { chunk: 0, message: 0, chunks: 0 },
            job: None,
            jobs: 0,
            tokens: 0,
            deadline,
        }
    }

    /// Takes bytes from the peer; with none, goes on with what is buffered.
    pub fn receive(&mut self, bytes: &[u8], now: Now, entropy: &mut dyn Entropy) {
        if self.is_closed() {
            return;
        }
        let mut held = std::mem::take(&mut self.input);
        if held.is_empty() {
            let used = self.consume(bytes, now, entropy);
            self.keep(held, bytes.get(used..).unwrap_or_default());
        } else {
            held.extend_from_slice(bytes);
            let used = self.consume(&held, now, entropy);
            held.drain(..used.min(held.len()));
            self.keep(held, &[]);
        }
    }

    /// Buffers what could not be used yet, within the bound of the channel's state.
    fn keep(&mut self, mut held: Vec<u8>, more: &[u8]) {
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
            held = Vec::with_capacity(more.len());
        }
        held.extend_from_slice(more);
        self.input = held;
    }

    /// Works through whole chunks at the front of `bytes`; returns how many bytes that were.
    fn consume(&mut self, bytes: &[u8], now: Now, entropy: &mut dyn Entropy) -> usize {
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
            MessageKind::Acknowledge | MessageKind::Error => Err(Misbehavior::OutOfOrder),
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

    /// Checks what can be seen of an OPN without a key, and hands the rest to a job.
    fn open(&mut self, chunk: &[u8], now: Now, entropy: &mut dyn Entropy) -> Result<(), Misbehavior> {
        let header = OpenHeader::parse(chunk)?;
        let task = self.task(&header, chunk, now, entropy)?;
        if task.policy.id() == SecurityPolicyId::None {
            let outcome = task.run();
            self.open_done(outcome, now);
            return Ok(());
        }
        self.jobs = self.jobs.wrapping_add(1);
        let id = JobId::of_channel(self.channel_id, self.jobs);
        self.job = Some(id);
        self.events.push_back(ChannelEvent::Job(Job::new(id, move || task.run())));
        Ok(())
    }

    fn task(
        &mut self,
        header: &OpenHeader<'_>,
        chunk: &[u8],
        now: Now,
        entropy: &mut dyn Entropy,
    ) -> Result<OpenTask, Misbehavior> {
        let policy = SecurityPolicyId::from_uri(header.policy_uri).ok_or(Misbehavior::Policy)?;
        let config = self.config.clone();
        let modes = modes_of(&config, policy);
        let discovery = policy == SecurityPolicyId::None && modes.is_empty() && config.discovery;
        if modes.is_empty() && !discovery {
            return Err(Misbehavior::Policy);
        }
        let (own, current, reply_sequence) = self.standing(header, policy)?;
        let algorithms = policy.algorithms();
        self.tokens = self.tokens.wrapping_add(1).max(1);
        Ok(OpenTask {
            policy: algorithms,
            chunk: chunk.to_vec(),
            protected_from: header.end,
            sender: header.sender.filter(|_| policy != SecurityPolicyId::None).unwrap_or_default().to_vec(),
            own,
            trust: config.trust.load_full(),
            now: now.unix,
            agreement: algorithms.agree(entropy),
            channel_id: self.channel_id,
            token_id: self.tokens,
            reply_sequence,
            modes: if discovery { vec![MessageSecurityMode::None] } else { modes },
            discovery,
            lifetime: (config.lifetime_min, config.lifetime_max),
            current,
        })
    }

    /// The identity that the OPN is for, the channel as it stands, and the sequence number of the answer.
    #[expect(clippy::type_complexity, reason = "three facts that are needed once, in one place")]
    fn standing(
        &mut self,
        header: &OpenHeader<'_>,
        policy: SecurityPolicyId,
    ) -> Result<(Arc<pki::OwnIdentity>, Option<(ChannelSecurity, u32)>, u32), Misbehavior> {
        let protected = policy != SecurityPolicyId::None;
        if protected && header.sender.is_none() {
            return Err(Misbehavior::NotAuthentic);
        }
        let receiver = header.receiver.unwrap_or_default();
        match &mut self.phase {
            Phase::Open(open) => {
                if header.channel_id != self.channel_id {
                    return Err(Misbehavior::OtherChannel);
                }
                if open.incoming.is_assembling() {
                    return Err(Misbehavior::Interleaved);
                }
                if open.security.policy != policy {
                    return Err(Misbehavior::RenewalChanged);
                }
                let own = open.security.own.clone().ok_or(Misbehavior::OtherReceiver)?;
                if protected && own.certificate.thumbprint_sha1() != receiver {
                    return Err(Misbehavior::OtherReceiver);
                }
                let current = (open.security.clone(), open.incoming.sequence());
                Ok((own, Some(current), open.outgoing.hold()))
            }
            _ => {
                if header.channel_id != 0 {
                    return Err(Misbehavior::OtherChannel);
                }
                let current = self.config.identity.load_full();
                let own = if protected {
                    // During an overlap a client may still hold the certificate before this one.
                    Arc::new(current.by_thumbprint(receiver).ok_or(Misbehavior::OtherReceiver)?)
                } else {
                    current
                };
                Ok((own, None, 1))
            }
        }
    }

    /// Takes the outcome of a job of this channel.
    pub fn job_done(&mut self, id: JobId, outcome: JobOutcome, now: Now, entropy: &mut dyn Entropy) {
        if self.job != Some(id) || self.is_closed() {
            return;
        }
        self.job = None;
        match outcome.downcast::<Result<Opened, Refused>>() {
            Ok(outcome) => self.open_done(*outcome, now),
            Err(_) => self.fail(StatusCode::BadInternalError, ""),
        }
        self.receive(&[], now, entropy);
    }

    fn open_done(&mut self, outcome: Result<Opened, Refused>, now: Now) {
        match outcome {
            Ok(opened) => self.opened(opened, now),
            Err(refused) => {
                self.audit(
                    AuditKind::ChannelOpened,
                    Some(refused.reason),
                    refused.status,
                    refused.detail,
                    refused.rejected,
                );
                self.end(refused.told, &refused.told_reason);
            }
        }
    }

    fn opened(&mut self, opened: Opened, now: Now) {
        // The trust list may have changed while the job ran.
        if !Arc::ptr_eq(&opened.trust, &self.config.trust.load_full())
            && let Err(rejection) = trusted(&opened.security, &self.config.trust.load_full(), now)
        {
            self.audit(AuditKind::ChannelOpened, Some(rejection.reason), rejection.status, rejection.detail, None);
            return self.end(StatusCode::BadSecurityChecksFailed, "");
        }
        let until = now.mono + opened.lifetime;
        let receive = ReceiveToken { id: opened.token_id, until, cipher: opened.keys.receive };
        let send = SendToken { id: opened.token_id, until, cipher: opened.keys.send };
        self.output.extend_from_slice(&opened.reply);
        if let Phase::Open(open) = &mut self.phase {
            open.incoming.renew(opened.sequence, receive);
            open.outgoing.renew(send, true);
            let released = open.outgoing.release(opened.reply_sequence, &mut self.output, now.mono);
            self.deadline = until;
            self.events.push_back(ChannelEvent::Renewed);
            if released.is_err() {
                self.end(StatusCode::BadSecureChannelTokenUnknown, "");
            }
            return;
        }
        self.start(opened.security, opened.sequence, opened.reply_sequence, receive, send);
        self.deadline = until;
    }

    fn start(
        &mut self,
        security: ChannelSecurity,
        sequence: u32,
        reply_sequence: u32,
        receive: ReceiveToken,
        send: SendToken,
    ) {
        let limits = &self.config.limits;
        let policy = security.policy.algorithms();
        let max_message =
            if security.discovery_only { limits.max_discovery_message.min(limits.max_message) } else { limits.max_message };
        let incoming =
            Incoming::new(policy, self.channel_id, sequence, receive, max_message, limits.max_chunks);
        let outgoing = Outgoing::new(policy, self.channel_id, reply_sequence, send, self.peer);
        let peer = security.peer.as_ref().map_or("without protection", |peer| peer.subject());
        let detail = format!("{} {:?}: {peer}", security.policy, security.mode);
        self.phase = Phase::Open(Box::new(Open { incoming, outgoing, pending: Vec::new(), security }));
        self.events.push_back(ChannelEvent::Opened);
        self.audit(AuditKind::ChannelOpened, None, StatusCode::Good, detail, None);
    }

    fn message(&mut self, header: MessageHeader, chunk: &[u8], now: Now) -> Result<(), Misbehavior> {
        let Phase::Open(open) = &mut self.phase else { return Err(Misbehavior::OutOfOrder) };
        let (arrived, newest) = open.incoming.message(header.chunk, chunk, now.mono)?;
        if newest {
            open.outgoing.use_newest();
        }
        if let Arrived::Message { request_id, body } = arrived {
            if open.pending.contains(&request_id) {
                return Err(Misbehavior::RequestIdInUse);
            }
            open.pending.push(request_id);
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

    /// Ends what is over at `now`.
    pub fn handle_timeout(&mut self, now: Now) {
        if let Phase::Open(open) = &mut self.phase {
            open.incoming.expire(now.mono);
            open.outgoing.expire(now.mono);
        }
        if now.mono < self.deadline || self.is_closed() {
            return;
        }
        if matches!(self.phase, Phase::Open(_)) {
            self.audit(
                AuditKind::ChannelClosed,
                Some(Reason::ChannelSecurity),
                StatusCode::BadSecureChannelTokenUnknown,
                "the security token ended and was not renewed".into(),
                None,
            );
            self.end(StatusCode::BadSecureChannelTokenUnknown, "");
        } else {
            self.end(StatusCode::BadTimeout, "the channel was not opened in time");
        }
    }

    /// When `handle_timeout` must be called; `None` when the channel is closed.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        (!self.is_closed()).then_some(self.deadline)
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ChannelEvent> {
        self.events.pop_front()
    }

    /// Answers the request `request_id`: encodes a body, splits, protects and queues it. While a renewal is under way the
    /// message waits for it, in order.
    ///
    /// # Errors
    /// Nothing was queued, and the request still waits for its answer.
    pub fn send(&mut self, request_id: u32, encode: Encode<'_>, now: Now) -> Result<(), SendError> {
        let Phase::Open(open) = &mut self.phase else { return Err(SendError::NotOpen) };
        let place = open.pending.iter().position(|id| *id == request_id).ok_or(SendError::UnknownRequest)?;
        open.outgoing.send(request_id, encode, &mut self.output, now.mono)?;
        open.pending.swap_remove(place);
        Ok(())
    }

    /// Gives the request `request_id` up in the middle: the peer drops what it got of the answer, and the channel lives.
    ///
    /// # Errors
    /// Nothing was queued.
    pub fn abort(&mut self, request_id: u32, status: StatusCode, now: Now) -> Result<(), SendError> {
        let Phase::Open(open) = &mut self.phase else { return Err(SendError::NotOpen) };
        let place = open.pending.iter().position(|id| *id == request_id).ok_or(SendError::UnknownRequest)?;
        open.outgoing.abort(request_id, status, &mut self.output, now.mono)?;
        open.pending.swap_remove(place);
        Ok(())
    }

    /// The request `request_id` will get no answer. Every `Message` ends in `send` or `forget`.
    pub fn forget(&mut self, request_id: u32) {
        if let Phase::Open(open) = &mut self.phase {
            open.pending.retain(|id| *id != request_id);
        }
    }

    /// Gives a body buffer back for the next message.
    pub fn recycle(&mut self, body: Vec<u8>) {
        if let Phase::Open(open) = &mut self.phase {
            open.incoming.recycle(body);
        }
    }

    /// Bytes for the peer; take them from the front.
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

    /// The channel's id.
    #[must_use]
    pub fn channel_id(&self) -> u32 {
        self.channel_id
    }

    /// The URL the client dialled, as its Hello says; empty before.
    #[must_use]
    pub fn endpoint_url(&self) -> &str {
        &self.endpoint_url
    }

    /// Largest response body the client accepts, in bytes; 0 is no limit.
    #[must_use]
    pub fn peer_max_message(&self) -> u32 {
        u32::try_from(self.peer.message).unwrap_or(u32::MAX)
    }

    /// Whether more bytes from the peer are welcome.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.takes_chunks()
    }

    /// Nothing is under way that later chunks must wait for, and neither requests nor answers pile up.
    fn takes_chunks(&self) -> bool {
        let limits = &self.config.limits;
        let room = match &self.phase {
            Phase::Closed => false,
            Phase::Open(open) => open.pending.len() < limits.max_pending,
            _ => true,
        };
        room && self.job.is_none() && self.output.len() < limits.max_outgoing
    }

    /// Whether the channel is over.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Validates the peer's certificate again, after the trust list changed; closes the channel when it fails.
    pub fn recheck_trust(&mut self, now: Now) {
        let Phase::Open(open) = &self.phase else { return };
        let trust = self.config.trust.load_full();
        if let Err(rejection) = trusted(&open.security, &trust, now) {
            self.audit(AuditKind::ChannelClosed, Some(rejection.reason), rejection.status, rejection.detail, None);
            self.end(StatusCode::BadSecurityChecksFailed, "");
        }
    }

    /// Ends the channel: an ERR with `status` and `reason` (empty for security failures), then closed.
    pub fn fail(&mut self, status: StatusCode, reason: &str) {
        if !self.is_closed() {
            self.audit(AuditKind::ChannelClosed, None, status, reason.to_owned(), None);
            self.end(status, reason);
        }
    }

    /// Ends the channel without a word, after an orderly end of the layer above or by the peer.
    pub fn close(&mut self) {
        if !self.is_closed() {
            self.audit(AuditKind::ChannelClosed, None, StatusCode::Good, "closed in order".into(), None);
            self.finish(StatusCode::Good);
        }
    }

    /// Bytes held for input.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.input.capacity()
    }

    #[cfg(test)]
    pub(super) fn set_sequence(&mut self, send: u32, receive: u32) {
        if let Phase::Open(open) = &mut self.phase {
            open.outgoing.set_sequence(send);
            open.incoming.set_sequence(receive);
        }
    }

    fn misbehaved(&mut self, fault: Misbehavior) {
        let kind = match self.phase {
            Phase::Open(_) => AuditKind::ChannelClosed,
            _ => AuditKind::ChannelOpened,
        };
        self.audit(kind, Some(fault.reason()), fault.true_status(), fault.to_string(), None);
        self.end(fault.status(), &fault.told());
    }

    fn end(&mut self, status: StatusCode, reason: &str) {
        ErrorMessage::put(status, reason, &mut self.output);
        self.finish(status);
    }

    fn finish(&mut self, status: StatusCode) {
        self.phase = Phase::Closed;
        self.job = None;
        self.input = Vec::new();
        self.events.push_back(ChannelEvent::Closed { status });
    }

    fn audit(
        &mut self,
        kind: AuditKind,
        reason: Option<Reason>,
        status: StatusCode,
        detail: String,
        rejected: Option<Vec<u8>>,
    ) {
        self.events.push_back(ChannelEvent::Audit(ChannelAudit { kind, reason, status, detail, rejected }));
    }
}

/// The modes that endpoints offer with `policy`.
fn modes_of(config: &ChannelConfig, policy: SecurityPolicyId) -> Vec<MessageSecurityMode> {
    config.offered.iter().filter(|(offered, _)| *offered == policy).map(|(_, mode)| *mode).collect()
}

fn trusted(security: &ChannelSecurity, trust: &TrustList, now: Now) -> Result<(), pki::Rejection> {
    let Some(peer) = &security.peer else { return Ok(()) };
    pki::validate(peer, trust, Purpose::Client { application_uri: None }, now.unix)
}
