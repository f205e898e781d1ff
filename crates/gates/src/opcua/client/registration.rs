//! Registering a server with a discovery server (OPC 10000-4 §5.5.5 and §5.5.6).

use std::sync::Arc;
use std::time::Duration;

use opcua_types::{
    ApplicationType, EndpointDescription, ExtensionObject, LocalizedText, MdnsDiscoveryConfiguration,
    RegisterServer2Request, RegisterServerRequest, RegisteredServer, StatusCode,
};
use ua_proto::channel::ClientChannelConfig;
use ua_proto::client::{Discovery, EndpointWish, Request, Response, choose_channel};
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::pki::{Certificate, OwnIdentity, SharedTrust};

use super::Way;
use super::dial::{DialError, address, answer, endpoints};
use crate::clock;

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Its ApplicationUri, as its certificate has it.
    pub application_uri: String,
    /// Its ProductUri.
    pub product_uri: String,
    /// Its name for people.
    pub name: String,
    /// Where it can be asked for its endpoints.
    pub urls: Vec<String>,
    /// What it can do, in the words of OPC 10000-12 annex D.
    pub capabilities: Vec<String>,
}

/// A discovery server, and who registers there.
#[derive(Clone)]
pub struct DiscoveryServer {
    /// Where it is.
    pub url: String,
    /// The certificate of the server that registers.
    pub identity: Arc<OwnIdentity>,
    /// Whom that server trusts; the discovery server's certificate must be among it.
    pub trust: SharedTrust,
}

/// Registers a server, or takes it off. The channel is always signed and encrypted; a discovery server that does not take
/// RegisterServer2 is told with RegisterServer, and its answer to that counts.
///
/// # Errors
/// The discovery server cannot be reached, is not trusted or refuses.
pub async fn register(
    at: &DiscoveryServer,
    what: &Registration,
    online: bool,
    limit: Duration,
) -> Result<(), DialError> {
    let endpoints = endpoints(&at.url, limit).await?;
    let able = |policy: &SecurityPolicyId| {
        *policy != SecurityPolicyId::None && OwnIdentity::for_policy(&at.identity, *policy).is_some()
    };
    let policies = EndpointWish::default().policies.into_iter().filter(able).collect();
    let wish = EndpointWish { policies, ..EndpointWish::default() };
    let (endpoint, policy) = choose_channel(&endpoints, &wish)?;
    let channel = channel(at, endpoint, policy, limit)?;
    let newer = ask(at, channel.clone(), newer(what, online), limit).await;
    match newer {
        // What a server says to a service that it does not know differs: some that nobody is logged in.
        Err(DialError::Fault(_)) => {
            let older = RegisterServerRequest { request_header: Default::default(), server: registered(what, online) };
            ask(at, channel, older.into(), limit).await.map(drop)
        }
        other => other.map(drop),
    }
}

async fn ask(
    at: &DiscoveryServer,
    channel: ClientChannelConfig,
    request: Request,
    limit: Duration,
) -> Result<Response, DialError> {
    let stream = Way::Dial.connect(&at.url, limit).await?;
    answer(stream, Discovery::over(channel, request, limit, clock::now())?).await
}

fn channel(
    at: &DiscoveryServer,
    endpoint: &EndpointDescription,
    policy: SecurityPolicyId,
    limit: Duration,
) -> Result<ClientChannelConfig, DialError> {
    let certificate = endpoint.server_certificate.value.as_deref().unwrap_or_default();
    let certificate =
        Certificate::from_der(certificate).map_err(|_| DialError::Fault(StatusCode::BadCertificateInvalid))?;
    let uri = endpoint.server.application_uri.as_ref();
    Ok(ClientChannelConfig {
        policy,
        mode: endpoint.security_mode,
        identity: Some(Arc::clone(&at.identity)),
        server_certificate: Some(Arc::new(certificate)),
        trust: Some(Arc::clone(&at.trust)),
        server_uri: (!uri.is_empty()).then(|| uri.to_owned()),
        host: Some(address(&at.url)?.0),
        open_timeout: limit,
        ..ClientChannelConfig::unprotected(&at.url)
    })
}

fn registered(what: &Registration, online: bool) -> RegisteredServer {
    RegisteredServer {
        server_uri: what.application_uri.as_str().into(),
        product_uri: what.product_uri.as_str().into(),
        server_names: Some(vec![LocalizedText::new("en", &what.name)]),
        server_type: ApplicationType::Server,
        gateway_server_uri: Default::default(),
        discovery_urls: Some(what.urls.iter().map(|url| url.as_str().into()).collect()),
        semaphore_file_path: Default::default(),
        is_online: online,
    }
}

fn newer(what: &Registration, online: bool) -> Request {
    // The name for mDNS is shorter than that of a domain label (OPC 10000-12 §4.2.3).
    let label: String = what.name.chars().take_while(|letter| letter.is_ascii()).take(63).collect();
    let said = MdnsDiscoveryConfiguration {
        mdns_server_name: label.as_str().into(),
        server_capabilities: Some(what.capabilities.iter().map(|one| one.as_str().into()).collect()),
    };
    RegisterServer2Request {
        request_header: Default::default(),
        server: registered(what, online),
        discovery_configuration: Some(vec![ExtensionObject::from_message(said)]),
    }
    .into()
}
