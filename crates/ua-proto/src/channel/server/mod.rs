//! The server's end of a secure channel.

mod input;
mod open;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use access_model::{AuditKind, Mono, Now, Reason};
use opcua_types::StatusCode;

use super::incoming::Incoming;
use super::outgoing::{Outgoing, PeerLimits};
use super::task::{Opened, Refused};
use super::{ChannelAsked, ChannelAudit, ChannelConfig, ChannelEvent, ChannelSecurity, Encode, SendError, Share};
use crate::pki::{self, Purpose, TrustList};
use crate::wire::{ErrorMessage, MAX_URL, MESSAGE_HEADER, Misbehavior, ReverseHello};
use crate::{Entropy, JobId, JobOutcome};

/// Input beyond the message at hand that is kept while an OPN is worked on.
const PIPELINE: usize = 8 * 1024;
/// Bytes of a Hello with the longest URL, and a little more, so that a URL that is too long can be told so.
const MAX_HELLO: usize = MESSAGE_HEADER + 24 + 2 * MAX_URL;

/// What a request costs until it is answered, in times its size: as it came, as it was understood, as it is asked further
/// on, and the answer.
const REQUEST_COST: usize = 4;

/// A request that waits for an answer.
struct Pending {
    request_id: u32,
    size: usize,
}

/// An open channel.
struct Open {
    incoming: Incoming,
    outgoing: Outgoing,
    /// Requests that wait for an answer.
    pending: Vec<Pending>,
    /// Their bytes together.
    asked: usize,
    security: ChannelSecurity,
}

impl Open {
    fn place_of(&self, request_id: u32) -> Option<usize> {
        self.pending.iter().position(|pending| pending.request_id == request_id)
    }

    /// Takes the request at `place` from those that wait.
    fn done(&mut self, place: usize) {
        let done = self.pending.swap_remove(place);
        self.asked = self.asked.saturating_sub(done.size);
    }
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
    asked: Option<ChannelAsked>,
    deadline: Mono,
    /// What this peer may make the server hold.
    share: Share,
    /// All that is held for it counts for the share, not only what can be held back without harm.
    whole: bool,
}

super::both_ends!(ServerChannel);

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
            asked: None,
            deadline,
            share: Share::default(),
            whole: false,
        }
    }

    /// From now on it goes by this bound for what its peer may make the server hold, besides those of its configuration. A
    /// peer that holds nothing is always served. `whole`: all of [`ServerChannel::burden`] counts for it, so that also a message
    /// that has begun to come stops; else [`ServerChannel::claim`] does.
    pub fn hold_to(&mut self, share: Share, whole: bool) {
        (self.share, self.whole) = (share, whole);
    }

    /// Bytes that are held for this peer: answers that it has not taken, what it has sent and is not worked on yet, and the
    /// requests that wait for an answer at what they cost.
    #[must_use]
    pub fn burden(&self) -> usize {
        let assembled = match &self.phase {
            Phase::Open(open) => open.incoming.assembled(),
            _ => 0,
        };
        self.input.len().saturating_add(assembled).saturating_add(self.owed())
    }

    /// What counts when more is read from it or not: where not all does, a message that has begun to come goes on.
    #[must_use]
    pub fn claim(&self) -> usize {
        if self.whole { self.burden() } else { self.owed() }
    }

    /// Answers that the peer has not taken, and requests that wait for one.
    fn owed(&self) -> usize {
        let asked = match &self.phase {
            Phase::Open(open) => open.asked.saturating_mul(REQUEST_COST),
            _ => 0,
        };
        asked.saturating_add(self.output.len())
    }

    /// Whether it holds as much as it may: nothing more is read from it.
    #[must_use]
    pub fn holds_its_share(&self) -> bool {
        self.is_share(self.claim())
    }

    fn is_share(&self, bytes: usize) -> bool {
        bytes > 0 && bytes >= self.share.get()
    }

    /// Whether answers pile up.
    fn piles_up(&self) -> bool {
        let output = self.output.len();
        output >= self.config.limits.max_outgoing || (output > 0 && output >= self.share.get())
    }

    /// A connection that the server itself has made to a client: it says who calls, then waits for the Hello as long as
    /// `patience` allows.
    #[must_use]
    pub fn calling(
        channel_id: u32,
        config: Arc<ChannelConfig>,
        who: &ReverseHello,
        patience: Duration,
        now: Now,
    ) -> Self {
        let mut channel = Self::new(channel_id, config, now);
        channel.deadline = now.mono + patience;
        who.put(&mut channel.output);
        channel
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

    /// The next event. Requests wait while answers pile up.
    pub fn poll_event(&mut self) -> Option<ChannelEvent> {
        if self.holds_request() && self.piles_up() {
            return None;
        }
        self.events.pop_front()
    }

    fn holds_request(&self) -> bool {
        matches!(self.phase, Phase::Open(_)) && matches!(self.events.front(), Some(ChannelEvent::Message { .. }))
    }

    /// Answers the request `request_id`: encodes a body, splits, protects and queues it. While a renewal is under way the
    /// message waits for it, in order.
    ///
    /// # Errors
    /// Nothing was queued, and the request still waits for its answer.
    pub fn send(&mut self, request_id: u32, encode: Encode<'_>, now: Now) -> Result<(), SendError> {
        let Phase::Open(open) = &mut self.phase else { return Err(SendError::NotOpen) };
        let place = open.place_of(request_id).ok_or(SendError::UnknownRequest)?;
        open.outgoing.send(request_id, encode, &mut self.output, now.mono)?;
        open.done(place);
        Ok(())
    }

    /// Gives the request `request_id` up in the middle: the peer drops what it got of the answer, and the channel lives.
    ///
    /// # Errors
    /// Nothing was queued.
    pub fn abort(&mut self, request_id: u32, status: StatusCode, now: Now) -> Result<(), SendError> {
        let Phase::Open(open) = &mut self.phase else { return Err(SendError::NotOpen) };
        let place = open.place_of(request_id).ok_or(SendError::UnknownRequest)?;
        open.outgoing.abort(request_id, status, &mut self.output, now.mono)?;
        open.done(place);
        Ok(())
    }

    /// The request `request_id` will get no answer. Every `Message` ends in `send` or `forget`.
    pub fn forget(&mut self, request_id: u32) {
        if let Phase::Open(open) = &mut self.phase
            && let Some(place) = open.place_of(request_id)
        {
            open.done(place);
        }
    }

    /// What the client asked for when it opened or renewed the channel last.
    #[must_use]
    pub fn asked(&self) -> Option<&ChannelAsked> {
        self.asked.as_ref()
    }

    /// The channel's id.
    #[must_use]
    pub fn channel_id(&self) -> u32 {
        self.channel_id
    }

    /// Whether the client has said Hello, or the channel is over.
    #[must_use]
    pub fn is_greeted(&self) -> bool {
        !matches!(self.phase, Phase::Hello)
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
        self.takes_chunks() && !self.holds_its_share()
    }

    /// Whether bytes or requests from the peer wait here that could be taken now.
    #[must_use]
    pub fn holds_input(&self) -> bool {
        (!self.piles_up() && self.holds_request()) || (!self.input.is_empty() && self.takes_chunks())
    }

    /// Nothing is under way that later chunks must wait for, and neither requests nor answers pile up.
    fn takes_chunks(&self) -> bool {
        let limits = &self.config.limits;
        let room = match &self.phase {
            Phase::Closed => false,
            Phase::Open(open) => open.pending.len() < limits.max_pending,
            _ => true,
        };
        room && self.job.is_none() && self.output.len() < limits.max_outgoing && !self.is_share(self.owed())
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

    /// Turns the peer away for a reason that the ledger is told: an ERR with `status`, then closed.
    pub fn refuse(&mut self, status: StatusCode, reason: Reason, detail: &str) {
        if !self.is_closed() {
            self.audit(self.ending(), Some(reason), status, detail.to_owned(), None);
            self.end(status, "");
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

    /// What it is when it ends now: the end of a channel, or one that did not come to be.
    fn ending(&self) -> AuditKind {
        match self.phase {
            Phase::Open(_) => AuditKind::ChannelClosed,
            _ => AuditKind::ChannelOpened,
        }
    }

    fn misbehaved(&mut self, fault: Misbehavior) {
        self.audit(self.ending(), Some(fault.reason()), fault.true_status(), fault.to_string(), None);
        ErrorMessage::put(fault.status(), &fault.told(), &mut self.output);
        self.finish(fault.status());
    }

    /// Ends it, and with it what was asked before and is not begun.
    fn end(&mut self, status: StatusCode, reason: &str) {
        self.events.retain(|event| !matches!(event, ChannelEvent::Message { .. }));
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

fn trusted(security: &ChannelSecurity, trust: &TrustList, now: Now) -> Result<(), pki::Rejection> {
    let Some(peer) = &security.peer else { return Ok(()) };
    pki::validate(peer, trust, Purpose::Client { application_uri: None }, now.unix)
}
