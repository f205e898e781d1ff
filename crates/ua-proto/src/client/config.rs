//! What a client session is made of.

use std::sync::Arc;
use std::time::Duration;

use opcua_types::EndpointDescription;

use super::endpoints::EndpointChoice;
use crate::channel::{ClientChannelConfig, TransportLimits};
use crate::crypto::KeyLayout;
use crate::pki::{Certificate, OwnIdentity, SharedTrust};

/// The client as an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientApplication {
    /// ApplicationUri; what the client's certificate says, if it has one.
    pub uri: String,
    /// ProductUri.
    pub product_uri: String,
    /// A name for people.
    pub name: String,
}

/// Everything a [`super::ClientSession`] is told at its start.
#[derive(Clone)]
pub struct ClientSessionConfig {
    /// The URL that is dialled.
    pub url: String,
    /// The endpoint.
    pub choice: Arc<EndpointChoice>,
    /// What discovery listed, to be compared with what the session lists; `None` skips the comparison, for an endpoint
    /// that was configured and not discovered.
    pub discovered: Option<Arc<Vec<EndpointDescription>>>,
    /// The client.
    pub application: ClientApplication,
    /// Our certificate and key; needed with every policy but None.
    pub identity: Option<Arc<OwnIdentity>>,
    /// Whom we trust; needed with every policy but None.
    pub trust: Option<SharedTrust>,
    /// The ApplicationUri that the server's certificate must name; `None` takes the one that its endpoint tells, which
    /// holds nobody to anything that was configured.
    pub server_uri: Option<String>,
    /// The host that the server's certificate must name; `None` does not check.
    pub host: Option<String>,
    /// A name for the session.
    pub session_name: String,
    /// How long the server is asked to keep the session without a request.
    pub session_timeout: Duration,
    /// How long a request may take, when it does not say.
    pub request_timeout: Duration,
    /// A request is sent when there was none for this long; never rarer than a third of the session timeout.
    pub keep_alive: Duration,
    /// Lifetime of the channel's security tokens.
    pub channel_lifetime: Duration,
    /// Most requests under way.
    pub max_in_flight: usize,
    /// Bounds of the channel.
    pub limits: TransportLimits,
    /// The layout of key material that the server uses for ECC_curve25519.
    pub key_layout: KeyLayout,
}

impl ClientSessionConfig {
    /// A configuration with the standard times and bounds.
    #[must_use]
    pub fn new(url: impl Into<String>, choice: EndpointChoice, application: ClientApplication) -> Self {
        Self {
            url: url.into(),
            choice: Arc::new(choice),
            discovered: None,
            application,
            identity: None,
            trust: None,
            server_uri: None,
            host: None,
            session_name: "trapkey".to_owned(),
            session_timeout: Duration::from_secs(60),
            request_timeout: Duration::from_secs(10),
            keep_alive: Duration::from_secs(5),
            channel_lifetime: Duration::from_secs(3_600),
            max_in_flight: 256,
            limits: TransportLimits::default(),
            key_layout: KeyLayout::default(),
        }
    }

    /// The server's certificate from the endpoint, if it is one.
    pub(super) fn server_certificate(&self) -> Option<Arc<Certificate>> {
        let bytes = self.choice.endpoint.server_certificate.value.as_deref()?;
        Certificate::from_der(bytes).ok().map(Arc::new)
    }

    pub(super) fn channel(&self) -> ClientChannelConfig {
        let told = self.choice.endpoint.server.application_uri.as_ref();
        ClientChannelConfig {
            endpoint_url: self.url.clone(),
            policy: self.choice.policy,
            mode: self.choice.endpoint.security_mode,
            identity: self.identity.clone(),
            server_certificate: self.server_certificate(),
            trust: self.trust.clone(),
            server_uri: self.server_uri.clone().or_else(|| (!told.is_empty()).then(|| told.to_owned())),
            host: self.host.clone(),
            lifetime: self.channel_lifetime,
            open_timeout: self.request_timeout,
            limits: self.limits,
            key_layout: self.key_layout,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_held_to_the_configured_name_whatever_its_endpoint_says() {
        for (rule, configured, told, expected) in [
            ("nothing is known of it", None, "", None),
            ("what it says itself", None, "urn:told", Some("urn:told")),
            ("it says nothing", Some("urn:meant"), "", Some("urn:meant")),
            ("it says something else", Some("urn:meant"), "urn:told", Some("urn:meant")),
        ] {
            let mut choice = EndpointChoice {
                endpoint: opcua_types::EndpointDescription::default(),
                policy: crate::crypto::SecurityPolicyId::None,
                token: opcua_types::UserTokenPolicy::default(),
                token_security: crate::crypto::SecurityPolicyId::None,
                issuer: None,
            };
            choice.endpoint.server.application_uri = told.into();
            let application = ClientApplication { uri: String::new(), product_uri: String::new(), name: String::new() };
            let mut config = ClientSessionConfig::new("opc.tcp://a", choice, application);
            config.server_uri = configured.map(str::to_owned);
            assert_eq!(config.channel().server_uri.as_deref(), expected, "{rule}");
        }
    }
}
