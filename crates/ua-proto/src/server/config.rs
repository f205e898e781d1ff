//! What a server is made of, and every bound it keeps.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::channel::ChannelConfig;
use crate::crypto::SecurityPolicyId;
use crate::pki::SharedTrust;
use crate::space::{Limits, NodeRef};
use crate::subscription::SubscriptionLimits;
use opcua_types::MessageSecurityMode;

/// One kind of endpoint: how its channel is protected.
pub type EndpointSecurity = (SecurityPolicyId, MessageSecurityMode);

/// Everything a [`super::Server`] is told at its start.
pub struct ServerConfig {
    /// The ApplicationUri; also what its own certificate says.
    pub application_uri: String,
    /// The ProductUri.
    pub product_uri: String,
    /// The name people see.
    pub application_name: String,
    /// The URLs under which clients reach it. A client that dialled the host of one of them is told that one; one that
    /// dialled another host which the certificate names is told the first under this host; every other, the first.
    pub endpoint_urls: Vec<String>,
    /// Channels. `offered` may hold None for discovery alone: sessions need it in `endpoints` too.
    pub channel: Arc<ChannelConfig>,
    /// The endpoints on which sessions may be created, in the order in which they are listed.
    pub endpoints: Vec<EndpointSecurity>,
    /// Who may log in, and how.
    pub identities: Identities,
    /// Bounds.
    pub limits: ServerLimits,
    /// What is recorded and what waits for the record.
    pub audit: AuditConfig,
    /// Closed ranges for written values: a write outside is refused and recorded as `value_out_of_range`.
    pub write_ranges: Vec<(NodeRef, f64, f64)>,
}

/// The one check that a server leaves out. `trapkey demo --danger-without` and tests use it to see that its absence is
/// noticed; no configuration reaches it: `xtask tidy` lists who may name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DangerWithout {
    /// None: everything is checked.
    #[default]
    Nothing,
    /// Activations need not be signed by the client's application.
    ClientSignature,
    /// A secret in the legacy form need not be made for the session's last nonce.
    Nonce,
}

/// The identities a server accepts.
#[derive(Clone)]
pub struct Identities {
    /// Anonymous; off unless somebody wants it.
    pub anonymous: bool,
    /// User name and password.
    pub user_name: bool,
    /// User certificates, checked against this list.
    pub certificate: Option<SharedTrust>,
    /// Issued tokens (JWT).
    pub issued: Option<IssuedTokens>,
    /// Which of them are taken over channels without any security.
    pub on_bare: OnBare,
    /// The most RSA blocks of a secret in the legacy form, checked before the first is decrypted.
    pub max_legacy_blocks: usize,
    /// How far the SigningTime of an EncryptedSecret may lie in the past and in the future.
    pub signing_time: (Duration, Duration),
    /// What is not checked: nothing, but in demonstrations of what a check is for.
    pub danger_without: DangerWithout,
}

/// The identities that are taken over a channel that proves no client certificate. A token never is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBare {
    /// Those that are taken elsewhere.
    Any,
    /// Anonymous alone.
    Anonymous,
    /// Anonymous, and passwords encrypted for the server: nothing protects what is done after the login.
    AnonymousAndUserName,
}

impl Default for Identities {
    fn default() -> Self {
        Self {
            anonymous: false,
            user_name: false,
            certificate: None,
            issued: None,
            on_bare: OnBare::Any,
            max_legacy_blocks: 32,
            signing_time: (Duration::from_secs(3_600), Duration::from_secs(300)),
            danger_without: DangerWithout::Nothing,
        }
    }
}

/// How issued tokens come in.
#[derive(Clone, Debug)]
pub struct IssuedTokens {
    /// Where the token is to be had.
    pub issuer: IssuerEndpoint,
    /// Forms that are taken, the preferred first, each where it fits: [`TokenForm::Clear`] on SignAndEncrypt endpoints
    /// only, [`TokenForm::LegacyRsa`] with RSA only. On endpoints without security a token has no place.
    pub forms: Vec<TokenForm>,
}

/// How a token is protected inside ActivateSession.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenForm {
    /// By the channel alone.
    Clear,
    /// Encrypted once more as EncryptedSecret (OPC 10000-4 §7.40.2.3 and §7.40.2.5), for RSA or with elliptic curves.
    EncryptedSecret,
    /// Encrypted once more for the server's RSA key in the legacy form (OPC 10000-4 §7.40.2.2): one private-key operation
    /// for each block.
    LegacyRsa,
}

impl TokenForm {
    /// Every form, the preferred first.
    pub const ALL: [Self; 3] = [Self::Clear, Self::EncryptedSecret, Self::LegacyRsa];

    /// Whether tokens in this form have a place on such an endpoint.
    #[must_use]
    pub fn fits(self, policy: SecurityPolicyId, mode: MessageSecurityMode) -> bool {
        policy != SecurityPolicyId::None
            && match self {
                Self::Clear => mode == MessageSecurityMode::SignAndEncrypt,
                Self::EncryptedSecret => true,
                Self::LegacyRsa => !policy.is_ecc(),
            }
    }
}

/// The JSON object in IssuerEndpointUrl (OPC 10000-6 §6.5.2.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IssuerEndpoint {
    /// This server's name towards the authority: the token's `aud`.
    #[serde(rename = "ua:resourceId")]
    pub resource_id: String,
    /// Base URL of the authority.
    #[serde(rename = "ua:authorityUrl")]
    pub authority_url: String,
    /// How to talk to it.
    #[serde(rename = "ua:authorityProfileUri")]
    pub profile_uri: String,
    /// Where tokens are requested: a path, or the NodeId of the service object in the OPC UA profile.
    #[serde(rename = "ua:tokenEndpoint", skip_serializing_if = "Option::is_none")]
    pub token_endpoint: Option<String>,
    /// Where a user signs in; null in the implicit flow of the OPC UA profile.
    #[serde(rename = "ua:authorizationEndpoint", skip_serializing_if = "Option::is_none")]
    pub authorization_endpoint: Option<String>,
    /// Kinds of request the authority takes.
    #[serde(rename = "ua:requestTypes", skip_serializing_if = "Vec::is_empty")]
    pub request_types: Vec<String>,
    /// Scopes this server understands.
    #[serde(rename = "ua:scopes", skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}

impl IssuerEndpoint {
    /// Profile: the authority is itself an OPC UA server (OPC 10000-12 §9).
    pub const PROFILE_OPCUA: &'static str = "http://opcfoundation.org/UA/Authorization#OPCUA";
    /// Profile: OAuth2 over HTTPS.
    pub const PROFILE_OAUTH2: &'static str = "http://opcfoundation.org/UA/Authorization#OAuth2";

    /// The text for IssuerEndpointUrl.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Bounds of the server. Everything a peer can make grow is named here or in the limits of its parts.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// Most connections.
    pub max_connections: usize,
    /// Most connections of one address: one address of IPv4, or one /64 of IPv6. One more closes the oldest of them that
    /// has not logged in, or is refused.
    pub max_connections_per_address: usize,
    /// Most connections without an activated session; one more closes the oldest of them.
    pub max_half_open: usize,
    /// How long a connection may stay without an activated session.
    pub half_open_time: Duration,
    /// Most sessions; one more closes the oldest that was never activated, or is refused.
    pub max_sessions: usize,
    /// Most sessions that one connection may create without activating them.
    pub max_unactivated_per_connection: usize,
    /// Most jobs running at once.
    pub max_jobs: usize,
    /// Most jobs waiting for a place; one more closes the connection that asks.
    pub max_waiting_jobs: usize,
    /// Most asks for grants of clients without a token that are out at once.
    pub max_asks: usize,
    /// Most parked requests of one session.
    pub max_parked_per_session: usize,
    /// Bytes waiting for one peer above which no more of its requests are taken and no more values handed out.
    pub max_unsent: usize,
    /// Bytes waiting for one peer above which it is closed: answers to requests taken before may still pile up.
    pub max_backlog: usize,
    /// Bytes held for all peers together: what waits for them, and what they have sent and is not answered yet. Each may hold
    /// a share of it, and those that have not logged in an eighth together; above it, those who hold most are closed.
    pub max_held: usize,
    /// How long a peer may take nothing of what waits for it before it is closed.
    pub deaf_time: Duration,
    /// Shortest session timeout.
    pub min_session_timeout: Duration,
    /// Longest session timeout.
    pub max_session_timeout: Duration,
    /// How long a request may stay parked when its client does not say less.
    pub request_timeout: Duration,
    /// Most browse continuation points of one session.
    pub max_continuation_points: usize,
    /// Most references returned for one node at once.
    pub max_references: usize,
    /// Most values of history in one response.
    pub max_history_values: usize,
    /// Most bytes of values of history in one response.
    pub max_history_bytes: usize,
    /// Largest request, as told in CreateSession.
    pub max_request_size: u32,
    /// Under pressure the newcomer is turned away, not the oldest peer that has not logged in: a storm of idle
    /// connections then shuts everybody out. Only to show that.
    pub danger_turn_newcomers_away: bool,
    /// Operation limits, as published in the address space.
    pub operations: Limits,
    /// Bounds of each session's subscriptions.
    pub subscriptions: Arc<SubscriptionLimits>,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            max_connections: 2_000,
            max_connections_per_address: 2_000,
            max_half_open: 500,
            half_open_time: Duration::from_secs(30),
            max_sessions: 1_000,
            max_unactivated_per_connection: 8,
            max_jobs: 16,
            max_waiting_jobs: 1_024,
            max_asks: 64,
            max_parked_per_session: 64,
            max_unsent: 1 << 20,
            max_backlog: 24 << 20,
            max_held: 24 << 20,
            deaf_time: Duration::from_secs(30),
            min_session_timeout: Duration::from_secs(1),
            max_session_timeout: Duration::from_secs(3_600),
            request_timeout: Duration::from_secs(60),
            max_continuation_points: 16,
            max_references: 1_000,
            max_history_values: 10_000,
            max_history_bytes: 2 << 20,
            max_request_size: 4 << 20,
            danger_turn_newcomers_away: false,
            operations: Limits::default(),
            subscriptions: Arc::default(),
        }
    }
}

impl ServerLimits {
    /// The limits as the address space publishes them: what is told is what is kept.
    #[must_use]
    pub fn published(&self) -> Limits {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let subscriptions = &self.subscriptions;
        Limits {
            max_browse_continuation_points: u16::try_from(self.max_continuation_points).unwrap_or(u16::MAX),
            max_sessions: number(self.max_sessions),
            max_subscriptions: number(self.max_sessions.saturating_mul(subscriptions.max_subscriptions)),
            max_subscriptions_per_session: number(subscriptions.max_subscriptions),
            max_monitored_items: number(self.max_sessions.saturating_mul(subscriptions.max_items)),
            max_monitored_items_per_subscription: number(subscriptions.max_items),
            max_monitored_items_queue_size: subscriptions.max_queue_size,
            max_return_data_values: number(self.max_history_values),
            min_sample_rate: subscriptions.min_sampling_interval.as_secs_f64() * 1_000.0,
            ..self.operations
        }
    }
}

/// What the server does about its audit records.
#[derive(Clone, Debug)]
pub struct AuditConfig {
    /// Whether a write or call waits for its record to be acknowledged.
    pub acknowledge: bool,
    /// What happens to writes and calls while records cannot be written.
    pub unavailable: AuditFailMode,
    /// Equal denials recorded one by one within a second; the rest of that second becomes one record with a count.
    pub denials_per_second: u32,
    /// Most different denials told apart within a second; further ones share a record.
    pub max_denial_kinds: usize,
    /// Who holds ReceiveEvents on the scope of this name may receive audit events, of nodes whose events it may receive.
    /// While the map has no such scope, or none is named, nobody may.
    pub events: Option<String>,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self {
            acknowledge: true,
            unavailable: AuditFailMode::Closed,
            denials_per_second: 5,
            max_denial_kinds: 1_024,
            events: None,
        }
    }
}

/// What happens to writes and calls whose record cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditFailMode {
    /// They are refused.
    Closed,
    /// They go on unrecorded; the gap is visible in the ledger.
    Open,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_issuer_endpoint_uses_the_names_of_the_standard() {
        let issuer = IssuerEndpoint {
            resource_id: "urn:plant:mixer".into(),
            authority_url: "opc.tcp://authority:4840".into(),
            profile_uri: IssuerEndpoint::PROFILE_OPCUA.into(),
            token_endpoint: Some("nsu=http://opcfoundation.org/UA/GDS/;i=1".into()),
            authorization_endpoint: None,
            request_types: Vec::new(),
            scopes: Vec::new(),
        };
        assert_eq!(
            issuer.to_json(),
            "{\"ua:resourceId\":\"urn:plant:mixer\",\"ua:authorityUrl\":\"opc.tcp://authority:4840\",\
             \"ua:authorityProfileUri\":\"http://opcfoundation.org/UA/Authorization#OPCUA\",\
             \"ua:tokenEndpoint\":\"nsu=http://opcfoundation.org/UA/GDS/;i=1\"}"
        );
    }
}
