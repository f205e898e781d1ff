//! The server's end of a secure channel.

use std::collections::VecDeque;
use std::sync::Arc;

use access_model::{Mono, Now};
use opcua_types::StatusCode;

use super::{ChannelConfig, ChannelEvent, ChannelSecurity, Encode, SendError};
use crate::{Entropy, JobId, JobOutcome};

/// One connection at a server, from Hello to its end.
pub struct ServerChannel {
    channel_id: u32,
    config: Arc<ChannelConfig>,
    endpoint_url: String,
    security: Option<ChannelSecurity>,
    outgoing: Vec<u8>,
    events: VecDeque<ChannelEvent>,
    closed: bool,
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
            endpoint_url: String::new(),
            security: None,
            outgoing: Vec::new(),
            events: VecDeque::new(),
            closed: false,
            deadline,
        }
    }

    /// Takes bytes from the peer; with none, goes on with what is buffered.
    pub fn receive(&mut self, bytes: &[u8], now: Now, entropy: &mut dyn Entropy) {
        let _ = (bytes, now, entropy);
        self.fail(StatusCode::BadNotImplemented, "");
    }

    /// Takes the outcome of a job of this channel.
    pub fn job_done(&mut self, id: JobId, outcome: JobOutcome, now: Now, entropy: &mut dyn Entropy) {
        let _ = (id, outcome, now, entropy);
    }

    /// Ends what is over at `now`.
    pub fn handle_timeout(&mut self, now: Now) {
        if now.mono >= self.deadline {
            self.fail(StatusCode::BadTimeout, "");
        }
    }

    /// When `handle_timeout` must be called; `None` when the channel is closed.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        (!self.closed).then_some(self.deadline)
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
        let _ = (request_id, encode, now);
        Err(SendError::NotOpen)
    }

    /// The request `request_id` will get no answer. Every `Message` ends in `send` or `forget`.
    pub fn forget(&mut self, request_id: u32) {
        let _ = request_id;
    }

    /// Gives a body buffer back for the next message.
    pub fn recycle(&mut self, body: Vec<u8>) {
        let _ = body;
    }

    /// Bytes for the peer; take them from the front.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    /// What was agreed; `None` before the channel is open.
    #[must_use]
    pub fn security(&self) -> Option<&ChannelSecurity> {
        self.security.as_ref()
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
        self.config.limits.max_message
    }

    /// Whether more bytes from the peer are welcome.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        !self.closed
    }

    /// Whether the channel is over.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Validates the peer's certificate again, after the trust list changed; closes the channel when it fails.
    pub fn recheck_trust(&mut self, now: Now) {
        let _ = now;
    }

    /// Ends the channel: an ERR with `status` and `reason` (empty for security failures), then closed.
    pub fn fail(&mut self, status: StatusCode, reason: &str) {
        let _ = reason;
        self.closed = true;
        self.events.push_back(ChannelEvent::Closed { status });
    }

    /// Ends the channel without a word, after an orderly end of the layer above.
    pub fn close(&mut self) {
        self.fail(StatusCode::Good, "");
    }
}
