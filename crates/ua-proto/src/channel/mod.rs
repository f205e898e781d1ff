//! Secure channels without I/O (OPC 10000-6 §6.7 and §7.1): HEL/ACK/ERR, OPN, MSG, CLO, for both ends.
//!
//! A channel takes bytes, job outcomes and the time, and gives events and bytes. It knows nothing of sessions. Drive it so:
//! hand received bytes to `receive`; run each [`ChannelEvent::Job`] on a pool and return it through `job_done`; write out
//! what `outgoing` holds; call `handle_timeout` when `poll_timeout` says so; drain `poll_event` after each call. While
//! `wants_input` is false, read nothing more from the peer; call `receive` with no bytes after the cause is gone.

mod client;
mod client_task;
mod ends;
mod incoming;
mod outgoing;
mod reception;
mod server;
mod share;
mod task;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use access_model::{AuditKind, Reason};
use arc_swap::ArcSwap;
use opcua_types::{MessageSecurityMode, StatusCode};

use crate::Job;
use crate::crypto::SecurityPolicyId;
use crate::pki::{Certificate, OwnIdentity, SharedTrust};

use ends::both_ends;

pub use client::{ClientChannel, ClientChannelConfig};
pub use reception::{Caller, Expected, Reception, ReceptionLimits, ReceptionOutput};
pub use server::ServerChannel;
pub use share::Share;

/// The bounds of one connection. Every buffer that a peer can fill has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportLimits {
    /// Largest chunk we accept, in bytes, 8,192 at least.
    pub receive_buffer: u32,
    /// Largest chunk we send, in bytes, 8,192 at least.
    pub send_buffer: u32,
    /// Largest message body we accept, in bytes.
    pub max_message: u32,
    /// Most chunks in a message we accept.
    pub max_chunks: u32,
    /// Largest OPN chunk we accept: all that a peer can make us hold before it is known.
    pub max_open: usize,
    /// Largest message body on a channel that is only for discovery.
    pub max_discovery_message: u32,
    /// Most requests that wait for an answer; input is not read beyond.
    pub max_pending: usize,
    /// Unsent bytes beyond which no further input is taken.
    pub max_outgoing: usize,
}

impl Default for TransportLimits {
    fn default() -> Self {
        Self {
            receive_buffer: 65_536,
            send_buffer: 65_536,
            max_message: 4 * 1024 * 1024,
            max_chunks: 512,
            max_open: 16 * 1024,
            max_discovery_message: 64 * 1024,
            max_pending: 512,
            max_outgoing: 1024 * 1024,
        }
    }
}

/// What a server's channels have in common.
pub struct ChannelConfig {
    /// Bounds.
    pub limits: TransportLimits,
    /// The pairs of policy and mode that endpoints offer for sessions.
    pub offered: Vec<(SecurityPolicyId, MessageSecurityMode)>,
    /// Accept unprotected channels for discovery although `offered` has none. The layer above serves GetEndpoints and
    /// FindServers there and nothing else: see [`ChannelSecurity::discovery_only`].
    pub discovery: bool,
    /// Our certificate and key; swapped for renewal.
    pub identity: Arc<ArcSwap<OwnIdentity>>,
    /// Whom we trust; swapped when files change.
    pub trust: SharedTrust,
    /// Shortest lifetime of a security token that is granted.
    pub lifetime_min: Duration,
    /// Longest lifetime of a security token that is granted.
    pub lifetime_max: Duration,
    /// How long a connection may take from accept to Hello.
    pub hello_timeout: Duration,
    /// How long a connection may take from Hello to an open channel.
    pub open_timeout: Duration,
}

impl ChannelConfig {
    /// A configuration with the standard bounds and times.
    #[must_use]
    pub fn new(
        identity: Arc<ArcSwap<OwnIdentity>>,
        trust: SharedTrust,
        offered: Vec<(SecurityPolicyId, MessageSecurityMode)>,
    ) -> Self {
        Self {
            limits: TransportLimits::default(),
            offered,
            discovery: true,
            identity,
            trust,
            lifetime_min: Duration::from_secs(60),
            lifetime_max: Duration::from_secs(3600),
            hello_timeout: Duration::from_secs(10),
            open_timeout: Duration::from_secs(10),
        }
    }
}

/// What was agreed when the channel was issued. It never changes while the channel lives.
#[derive(Clone, Debug)]
pub struct ChannelSecurity {
    /// The channel's id.
    pub channel_id: u32,
    /// The policy.
    pub policy: SecurityPolicyId,
    /// The mode.
    pub mode: MessageSecurityMode,
    /// The peer's certificate, validated; `None` without protection.
    pub peer: Option<Arc<Certificate>>,
    /// Our identity as the peer knows it on this channel; `None` for a client without one.
    pub own: Option<Arc<OwnIdentity>>,
    /// The channel was accepted for discovery only.
    pub discovery_only: bool,
}

impl ChannelSecurity {
    /// Whether messages are encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.policy != SecurityPolicyId::None && self.mode == MessageSecurityMode::SignAndEncrypt
    }

    /// Whether messages are signed.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        self.policy != SecurityPolicyId::None && self.mode != MessageSecurityMode::None
    }
}

/// What a client asked for when it opened or renewed its channel last, for the audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelAsked {
    /// A renewal, not an issue.
    pub renewal: bool,
    /// The policy.
    pub policy: SecurityPolicyId,
    /// The mode, once the request could be read.
    pub mode: Option<MessageSecurityMode>,
    /// The lifetime in milliseconds, once the request could be read.
    pub lifetime_ms: u32,
}

/// Something for the audit.
#[derive(Clone, Debug)]
pub struct ChannelAudit {
    /// Opened, closed, or a certificate event.
    pub kind: AuditKind,
    /// Why it was refused; `None` when it was not.
    pub reason: Option<Reason>,
    /// The true status. It goes to the audit; the peer may have been told less.
    pub status: StatusCode,
    /// One sentence.
    pub detail: String,
    /// The peer's certificate as it sent it, when it was this that was rejected: for the store of rejected certificates.
    pub rejected: Option<Vec<u8>>,
}

/// What a channel reports.
#[derive(Debug)]
pub enum ChannelEvent {
    /// Work to do elsewhere; its outcome comes back through `job_done`.
    Job(Job),
    /// The channel is open.
    Opened,
    /// The channel has a new security token.
    Renewed,
    /// A message arrived: a request at the server, a response at the client.
    Message {
        /// Joins request and response.
        request_id: u32,
        /// From the TypeId's NodeId on.
        body: Vec<u8>,
    },
    /// At a client: the server gave up a response half-way.
    Aborted {
        /// The request.
        request_id: u32,
        /// What the server said.
        status: StatusCode,
    },
    /// Something for the audit.
    Audit(ChannelAudit),
    /// The channel is over. Write out what `outgoing` holds, then close the connection.
    Closed {
        /// Why: `Good` after an orderly end.
        status: StatusCode,
    },
}

/// A body could not be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message could not be encoded ({0})")]
pub struct EncodeError(pub StatusCode);

impl From<opcua_types::Error> for EncodeError {
    fn from(error: opcua_types::Error) -> Self {
        Self(error.status())
    }
}

/// Appends a message body, from the TypeId's NodeId on, to the buffer. It must leave what is already there alone.
pub type Encode<'a> = &'a mut dyn FnMut(&mut Vec<u8>) -> Result<(), EncodeError>;

/// A message was not sent. Nothing of it is in `outgoing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The channel is not open (any more), or its security token is over.
    #[error("the channel is not open")]
    NotOpen,
    /// The peer does not take messages of this size. At a server: answer with Bad_ResponseTooLarge.
    #[error("the message is larger than the peer accepts")]
    TooLarge,
    /// No request with this id waits for a response.
    #[error("no request with this id waits for a response")]
    UnknownRequest,
    /// Encoding failed.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// Sealing failed.
    #[error("the message could not be protected")]
    Crypto,
}
