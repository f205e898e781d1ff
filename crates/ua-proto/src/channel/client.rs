//! The client's end of a secure channel.

use std::sync::Arc;
use std::time::Duration;

use access_model::{Mono, Now};
use opcua_types::{MessageSecurityMode, StatusCode};

use super::{ChannelEvent, ChannelSecurity, Encode, SendError, TransportLimits};
use crate::crypto::SecurityPolicyId;
use crate::pki::{Certificate, OwnIdentity, Rejection, SharedTrust};
use crate::{Entropy, JobId, JobOutcome};

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

/// One connection of a client, from Hello to its end.
pub struct ClientChannel {
    outgoing: Vec<u8>,
}

impl ClientChannel {
    /// A connection that was just made; its Hello is in `outgoing`.
    ///
    /// # Errors
    /// When the server's certificate is not acceptable, or something is missing that the policy needs.
    pub fn new(config: Arc<ClientChannelConfig>, now: Now) -> Result<Self, Rejection> {
        let _ = (config, now);
        Ok(Self { outgoing: Vec::new() })
    }

    /// Takes bytes from the server; with none, goes on with what is buffered.
    pub fn receive(&mut self, bytes: &[u8], now: Now, entropy: &mut dyn Entropy) {
        let _ = (bytes, now, entropy);
    }

    /// Takes the outcome of a job of this channel.
    pub fn job_done(&mut self, id: JobId, outcome: JobOutcome, now: Now, entropy: &mut dyn Entropy) {
        let _ = (id, outcome, now, entropy);
    }

    /// Renews at 75 % of the lifetime and ends what is over.
    pub fn handle_timeout(&mut self, now: Now, entropy: &mut dyn Entropy) {
        let _ = (now, entropy);
    }

    /// When `handle_timeout` must be called; `None` when the channel is closed.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        None
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ChannelEvent> {
        None
    }

    /// Sends a request and returns its id, which the response will carry. Works in an open channel only; while a renewal
    /// is under way the message waits for it, in order.
    ///
    /// # Errors
    /// Nothing was queued.
    pub fn send(&mut self, encode: Encode<'_>, now: Now) -> Result<u32, SendError> {
        let _ = (encode, now);
        Err(SendError::NotOpen)
    }

    /// Gives a body buffer back for the next message.
    pub fn recycle(&mut self, body: Vec<u8>) {
        let _ = body;
    }

    /// Bytes for the server; take them from the front.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    /// What was agreed; `None` before the channel is open.
    #[must_use]
    pub fn security(&self) -> Option<&ChannelSecurity> {
        None
    }

    /// Whether more bytes from the server are welcome.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        false
    }

    /// Whether the channel is over.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        true
    }

    /// Ends the channel in order: CloseSecureChannel, then closed.
    pub fn close(&mut self, now: Now) {
        let _ = now;
    }

    /// Ends the channel without a word to the server.
    pub fn fail(&mut self, status: StatusCode) {
        let _ = status;
    }
}
