//! What a client's channel is to be, and whether that can be.

use std::sync::Arc;
use std::time::Duration;

use access_model::{Now, Reason};
use opcua_types::{MessageSecurityMode, StatusCode};

use crate::channel::{ChannelSecurity, TransportLimits};
use crate::crypto::{KeyLayout, SecurityPolicyId};
use crate::pki::{self, Certificate, OwnIdentity, Purpose, Rejection, SharedTrust};

/// What a client's channel is to be.
#[derive(Clone)]
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
    /// The layout of key material that the server uses for ECC_curve25519.
    pub key_layout: KeyLayout,
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
            key_layout: KeyLayout::default(),
        }
    }
}

impl ClientChannelConfig {
    /// Whether everything is there that the policy needs, and the server's certificate is good.
    pub(super) fn check(&self, now: Now) -> Result<(), Rejection> {
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
        if self.own().is_none() {
            return Err(missing("an identity of our own with a key for it"));
        }
        if !self.policy.algorithms().accepts_key(server.key()) {
            return Err(missing("another kind of key in the server's certificate"));
        }
        let purpose = Purpose::Server { application_uri: self.server_uri.as_deref(), host: self.host.as_deref() };
        pki::validate(server, &trust, purpose, now.unix)
    }

    pub(super) fn security(&self, channel_id: u32) -> ChannelSecurity {
        let protected = self.policy != SecurityPolicyId::None;
        ChannelSecurity {
            channel_id,
            policy: self.policy,
            mode: self.mode,
            peer: self.server_certificate.clone().filter(|_| protected),
            own: self.own(),
            discovery_only: false,
        }
    }

    /// The identity whose key fits the policy.
    fn own(&self) -> Option<Arc<OwnIdentity>> {
        self.identity.as_ref().and_then(|identity| OwnIdentity::for_policy(identity, self.policy))
    }
}
