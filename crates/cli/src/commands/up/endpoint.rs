//! What the keys of an endpoint side mean to the kernel: of a resource server, of a guard, of the authority.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use arc_swap::ArcSwap;
use gates::opcua::Enforcing;
use gates::opcua::server::Handle;
use opcua_types::MessageSecurityMode;
use pep::GateConfig;
use ua_proto::channel::{ChannelConfig, TransportLimits};
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::pki::{OwnIdentity, TrustSettings};
use ua_proto::server::{AuditConfig, EndpointSecurity, Identities, Input, ServerConfig, ServerLimits, TokenForm};
use ua_proto::space::Limits as OperationLimits;
use ua_proto::subscription::SubscriptionLimits;

use crate::commands::own::Own;
use crate::config::{Endpoint, HostName, KeyBits, Limits, MissingCrl, Mode, Policy, TokenSecret};
use crate::failure::Failure;

/// How strictly certificates are looked at.
pub(crate) fn trust_settings(missing_crl: MissingCrl, shortest: KeyBits, longest: KeyBits) -> TrustSettings {
    TrustSettings {
        danger_allow_unknown_revocation: missing_crl == MissingCrl::Accept,
        min_key_bits: shortest.size(),
        max_key_bits: longest.size(),
        ..TrustSettings::default()
    }
}

/// Has it connect to the clients that it is to call.
pub(crate) async fn call_clients<C: Enforcing>(role: &Endpoint, handle: &Handle<C>) {
    let urls: Vec<String> = role.reverse_connect.iter().map(|url| url.as_str().to_owned()).collect();
    if !urls.is_empty() {
        // One that has stopped calls nobody.
        let _stopped = handle.with(move |core, now| core.tell(Input::CallClients(urls), now)).await;
    }
}

/// Its folder of certificates, as strict as it is configured.
pub(crate) fn own(role: &Endpoint) -> Result<Own, Failure> {
    Own::load_as(&role.pki, trust_settings(role.missing_crl, role.min_key_bits, role.max_key_bits))
}

/// What clients see of it, without identities. `name` is what people are shown.
pub(crate) fn server_config(
    role: &Endpoint,
    (uri, name): (&str, &str),
    (own, identity): (&Own, &Arc<ArcSwap<OwnIdentity>>),
    address: SocketAddr,
) -> Result<ServerConfig, Failure> {
    let endpoints = endpoints(role, own)?;
    let mut channel = ChannelConfig::new(Arc::clone(identity), Arc::clone(&own.trust), endpoints.clone());
    bound_channel(&mut channel, &role.limits);
    Ok(ServerConfig {
        application_uri: uri.to_owned(),
        product_uri: "urn:trapkey".into(),
        application_name: name.to_owned(),
        endpoint_urls: urls(role.url.as_ref().map(|url| url.as_str()), &role.names, own, address)?,
        channel: Arc::new(channel),
        endpoints,
        identities: identities(&role.limits),
        limits: server_limits(&role.limits),
        audit: AuditConfig::default(),
        write_ranges: Vec::new(),
    })
}

/// Nobody may log in yet.
pub(crate) fn identities(limits: &Limits) -> Identities {
    Identities {
        max_legacy_blocks: limits.legacy_blocks.size(),
        signing_time: (limits.secret_age.get(), limits.secret_ahead.get()),
        ..Identities::default()
    }
}

/// The bounds of a gate.
pub(crate) fn bound_gate(gate: &mut GateConfig, role: &Endpoint) {
    gate.expiry_grace = role.expiry_grace.get();
    gate.max_grants = role.limits.grants.size();
    gate.max_token_len = role.limits.token_size.size();
    gate.max_remembered = role.limits.remembered.size();
}

/// The forms of tokens, the preferred first.
pub(crate) fn token_forms(role: &Endpoint) -> Vec<TokenForm> {
    let form = |form: &TokenSecret| match form {
        TokenSecret::Clear => TokenForm::Clear,
        TokenSecret::EncryptedSecret => TokenForm::EncryptedSecret,
        TokenSecret::LegacyRsa => TokenForm::LegacyRsa,
    };
    role.token_secrets.iter().map(form).collect()
}

/// Policies as the kernel knows them; each needs a certificate whose key it takes.
pub(crate) fn policies(configured: &[Policy], own: &Own) -> Result<Vec<SecurityPolicyId>, Failure> {
    let known = |policy: &Policy| {
        let id = SecurityPolicyId::from_name(policy.name());
        let id = id.ok_or_else(|| Failure::bad_input(format!("there is no policy `{}`", policy.name())))?;
        if OwnIdentity::for_policy(&own.identity, id).is_some() {
            return Ok(id);
        }
        let folder = own.store.root().display();
        let (kind, curve) = match policy {
            Policy::EccNistP256 => ("own-p256.der", " --curve p256"),
            Policy::EccCurve25519 => ("own-ed25519.der", " --curve ed25519"),
            _ => ("own.der", ""),
        };
        let failure = format!("`{folder}` has no certificate for the policy `{}`: own/certs/{kind}", policy.name());
        Err(Failure::bad_input(failure)
            .help(format!("`trapkey certs renew NAME{curve}` makes one; or take the policy away")))
    };
    configured.iter().map(known).collect()
}

/// Pairs of policy and mode, as they are listed; those that encrypt first.
fn endpoints(role: &Endpoint, own: &Own) -> Result<Vec<EndpointSecurity>, Failure> {
    let policies = policies(&role.policies, own)?;
    let all = [(Mode::SignAndEncrypt, MessageSecurityMode::SignAndEncrypt), (Mode::Sign, MessageSecurityMode::Sign)];
    let modes = all.into_iter().filter(|(mode, _)| role.modes.contains(mode)).map(|(_, mode)| mode);
    let modes: Vec<_> = modes.collect();
    let mut endpoints: Vec<EndpointSecurity> =
        policies.iter().flat_map(|policy| modes.iter().map(move |mode| (*policy, *mode))).collect();
    if role.danger_without_security {
        endpoints.push((SecurityPolicyId::None, MessageSecurityMode::None));
    }
    Ok(endpoints)
}

/// The URLs of a server that listens at `address`: the one that strangers are told, then those of its further names.
pub(crate) fn urls(
    configured: Option<&str>,
    names: &[HostName],
    own: &Own,
    address: SocketAddr,
) -> Result<Vec<String>, Failure> {
    let first = match configured {
        Some(url) => url.to_owned(),
        None if address.ip().is_unspecified() => format!("opc.tcp://{}:{}", a_name(names, own)?, address.port()),
        None => format!("opc.tcp://{address}"),
    };
    let place = first.trim_start_matches("opc.tcp://").split('/').next().unwrap_or_default();
    let port = place.rsplit_once(':').map_or("4840", |(_, port)| port).to_owned();
    let mut urls = vec![first];
    for name in names {
        let url = format!("opc.tcp://{}:{port}", name.as_str());
        if !urls.contains(&url) {
            urls.push(url);
        }
    }
    Ok(urls)
}

/// A name for a server that listens everywhere: configured, or in its certificate, one of this computer alone last.
fn a_name(names: &[HostName], own: &Own) -> Result<String, Failure> {
    let certified = own.identity.certificate.hosts().map(|host| match host.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => format!("[{address}]"),
        _ => host,
    });
    let all: Vec<String> = names.iter().map(|name| name.as_str().to_owned()).chain(certified).collect();
    let local = |host: &str| {
        let bare = host.trim_matches(['[', ']']);
        bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    };
    let chosen = all.iter().find(|host| !local(host)).or_else(|| all.first()).cloned();
    chosen.ok_or_else(|| {
        let folder = own.store.root().display();
        Failure::bad_input(format!("neither `names` nor the certificate in `{folder}` says where this server is"))
            .help("name it with `url = \"opc.tcp://host:port\"`")
    })
}

pub(crate) fn bound_channel(channel: &mut ChannelConfig, limits: &Limits) {
    channel.limits = TransportLimits {
        receive_buffer: limits.chunk_size.short(),
        send_buffer: limits.chunk_size.short(),
        max_message: limits.message_size.short(),
        max_chunks: limits.chunks.short(),
        max_open: limits.open_size.size(),
        max_discovery_message: limits.discovery_message_size.short(),
        max_pending: limits.requests_per_connection.size(),
        max_outgoing: limits.unsent.size(),
    };
    (channel.lifetime_min, channel.lifetime_max) =
        (limits.channel_lifetime_min.get(), limits.channel_lifetime_max.get());
    (channel.hello_timeout, channel.open_timeout) = (limits.hello_timeout.get(), limits.open_timeout.get());
}

pub(crate) fn server_limits(limits: &Limits) -> ServerLimits {
    ServerLimits {
        max_connections: limits.connections.size(),
        max_connections_per_address: limits.connections_per_address.size(),
        max_half_open: limits.half_open.size(),
        half_open_time: limits.half_open_time.get(),
        max_sessions: limits.sessions.size(),
        max_unactivated_per_connection: limits.unused_sessions_per_connection.size(),
        max_jobs: limits.jobs.size(),
        max_waiting_jobs: limits.waiting_jobs.size(),
        max_parked_per_session: limits.parked_per_session.size(),
        max_unsent: limits.unsent.size(),
        max_backlog: limits.backlog.size(),
        max_held: limits.held.size(),
        deaf_time: limits.deaf_time.get(),
        min_session_timeout: limits.session_timeout_min.get(),
        max_session_timeout: limits.session_timeout_max.get(),
        request_timeout: limits.request_timeout.get(),
        max_continuation_points: limits.continuation_points.size(),
        max_references: limits.references.size(),
        max_request_size: limits.message_size.short(),
        operations: OperationLimits {
            max_nodes_per_read: limits.nodes_per_read.short(),
            max_nodes_per_write: limits.nodes_per_write.short(),
            max_nodes_per_method_call: limits.methods_per_call.short(),
            max_nodes_per_browse: limits.nodes_per_browse.short(),
            max_nodes_per_register_nodes: limits.nodes_per_register.short(),
            max_nodes_per_translate: limits.paths_per_translate.short(),
            max_monitored_items_per_call: limits.items_per_request.short(),
            max_array_length: limits.array_length.short(),
            max_string_length: limits.string_length.short(),
            max_byte_string_length: limits.byte_string_length.short(),
            ..OperationLimits::default()
        },
        subscriptions: Arc::new(subscription_limits(limits)),
        ..ServerLimits::default()
    }
}

fn subscription_limits(limits: &Limits) -> SubscriptionLimits {
    SubscriptionLimits {
        max_subscriptions: limits.subscriptions_per_session.size(),
        max_items: limits.items_per_session.size(),
        max_event_items: limits.event_items_per_session.size(),
        max_queue_size: limits.queue_size.short(),
        max_queued_values: limits.queued_values.size(),
        max_publish_requests: limits.publish_requests.size(),
        max_retained_messages: limits.retained_messages.size(),
        max_retained_values: limits.retained_values.size(),
        max_notifications: limits.notifications.short(),
        min_publishing_interval: limits.publishing_interval_min.get(),
        max_publishing_interval: limits.publishing_interval_max.get(),
        max_keep_alive_count: limits.keep_alive_count.short(),
        max_lifetime_count: limits.lifetime_count.short(),
        min_sampling_interval: limits.sampling_interval_min.get(),
        ..SubscriptionLimits::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is not configured is what the kernel's own defaults are.
    #[test]
    fn no_key_is_the_kernels_own_bound() {
        let limits = Limits::default();
        let shown = |limits: &ServerLimits| format!("{limits:?}");
        assert_eq!(shown(&server_limits(&limits)), shown(&ServerLimits::default()));
        let ours = identities(&limits);
        let theirs = Identities::default();
        assert_eq!((ours.max_legacy_blocks, ours.signing_time), (theirs.max_legacy_blocks, theirs.signing_time));
        let config = ::config::read(crate::config::TEMPLATE, &::config::Overrides::default()).unwrap();
        let role = config.server[0].endpoint();
        let trust = trust_settings(role.missing_crl, role.min_key_bits, role.max_key_bits);
        assert_eq!(trust, TrustSettings::default());
        assert_eq!(role.limits, limits);
        let mut gate = GateConfig::new("urn:a", access_model::ScopeMap::new(["a"]).unwrap());
        let before = format!("{gate:?}");
        bound_gate(&mut gate, &role);
        assert_eq!(format!("{gate:?}"), before);
    }
    /// Every key, a number of its own that is in its range, and the bounds of the kernel that must be it.
    const KEYS: [(&str, &str, &[&str]); 58] = [
        ("connections", "2001", &["max_connections: 2001,"]),
        ("connections_per_address", "2002", &["max_connections_per_address: 2002,"]),
        ("half_open", "503", &["max_half_open: 503,"]),
        ("half_open_time", "\"31s\"", &["half_open_time: 31s,"]),
        ("hello_timeout", "\"11s\"", &["hello_timeout: 11s,"]),
        ("open_timeout", "\"12s\"", &["open_timeout: 12s,"]),
        ("channel_lifetime_min", "\"61s\"", &["lifetime_min: 61s,"]),
        ("channel_lifetime_max", "\"3601s\"", &["lifetime_max: 3601s,"]),
        ("message_size", "4194305", &["max_message: 4194305,", "max_request_size: 4194305,"]),
        ("chunk_size", "65537", &["receive_buffer: 65537,", "send_buffer: 65537,"]),
        ("chunks", "513", &["max_chunks: 513,"]),
        ("open_size", "16385", &["max_open: 16385,"]),
        ("discovery_message_size", "65539", &["max_discovery_message: 65539,"]),
        ("requests_per_connection", "515", &["max_pending: 515,"]),
        ("unsent", "1048577", &["max_outgoing: 1048577,", "max_unsent: 1048577,"]),
        ("backlog", "25165825", &["max_backlog: 25165825,"]),
        ("held", "25165826", &["max_held: 25165826,"]),
        ("deaf_time", "\"32s\"", &["deaf_time: 32s,"]),
        ("sessions", "1001", &["max_sessions: 1001,"]),
        ("unused_sessions_per_connection", "9", &["max_unactivated_per_connection: 9,"]),
        ("session_timeout_min", "\"2s\"", &["min_session_timeout: 2s,"]),
        ("session_timeout_max", "\"3602s\"", &["max_session_timeout: 3602s,"]),
        ("request_timeout", "\"62s\"", &["request_timeout: 62s,"]),
        ("parked_per_session", "67", &["max_parked_per_session: 67,"]),
        ("jobs", "17", &["max_jobs: 17,"]),
        ("waiting_jobs", "1025", &["max_waiting_jobs: 1025,"]),
        ("grants", "1003", &["max_grants: 1003,"]),
        ("token_size", "262001", &["max_token_len: 262001,"]),
        ("legacy_blocks", "33", &["max_legacy_blocks: 33,"]),
        ("secret_age", "\"3603s\"", &["signing_time: (3603s, 301s),"]),
        ("secret_ahead", "\"301s\"", &["signing_time: (3603s, 301s),"]),
        ("remembered", "100001", &["max_remembered: 100001,"]),
        ("continuation_points", "18", &["max_continuation_points: 18,"]),
        ("references", "1004", &["max_references: 1004,"]),
        ("nodes_per_read", "1005", &["max_nodes_per_read: 1005,"]),
        ("nodes_per_write", "1006", &["max_nodes_per_write: 1006,"]),
        ("methods_per_call", "101", &["max_nodes_per_method_call: 101,"]),
        ("nodes_per_browse", "1007", &["max_nodes_per_browse: 1007,"]),
        ("nodes_per_register", "1008", &["max_nodes_per_register_nodes: 1008,"]),
        ("paths_per_translate", "1009", &["max_nodes_per_translate: 1009,"]),
        ("items_per_request", "1010", &["max_monitored_items_per_call: 1010,"]),
        ("array_length", "65536", &["max_array_length: 65536,"]),
        ("string_length", "1048578", &["max_string_length: 1048578,"]),
        ("byte_string_length", "1048579", &["max_byte_string_length: 1048579,"]),
        ("subscriptions_per_session", "34", &["max_subscriptions: 34,"]),
        ("items_per_session", "10001", &["max_items: 10001,"]),
        ("event_items_per_session", "102", &["max_event_items: 102,"]),
        ("queue_size", "1011", &["max_queue_size: 1011,"]),
        ("queued_values", "50001", &["max_queued_values: 50001,"]),
        ("publish_requests", "35", &["max_publish_requests: 35,"]),
        ("retained_messages", "66", &["max_retained_messages: 66,"]),
        ("retained_values", "20001", &["max_retained_values: 20001,"]),
        ("notifications", "5001", &["max_notifications: 5001,"]),
        ("publishing_interval_min", "\"6ms\"", &["min_publishing_interval: 6ms,"]),
        ("publishing_interval_max", "\"3604s\"", &["max_publishing_interval: 3604s,"]),
        ("keep_alive_count", "10002", &["max_keep_alive_count: 10002,"]),
        ("lifetime_count", "30001", &["max_lifetime_count: 30001,"]),
        ("sampling_interval_min", "\"7ms\"", &["min_sampling_interval: 7ms,"]),
    ];

    /// All bounds that the keys become, as text.
    fn bounds(role: &Endpoint) -> String {
        let limits = &role.limits;
        let made = gates::pki::make::self_signed_on(
            gates::pki::make::Curve::P256,
            &gates::pki::make::Application::local("a", "urn:a"),
            gates::clock::now().unix,
        );
        let made = made.unwrap();
        let certificate = ua_proto::pki::Certificate::from_der(&made.der).unwrap();
        let key = ua_proto::crypto::PrivateKey::from_der(&made.key_der).unwrap();
        let identity = Arc::new(ArcSwap::from_pointee(OwnIdentity::new(certificate, key).unwrap()));
        let mut channel = ChannelConfig::new(identity, Arc::default(), Vec::new());
        bound_channel(&mut channel, limits);
        let mut gate = GateConfig::new("urn:a", access_model::ScopeMap::new(["a"]).unwrap());
        bound_gate(&mut gate, role);
        let server = server_limits(limits);
        let ids = identities(limits);
        format!(
            "{:?} {:?} {:?} {gate:?}, lifetime_min: {:?}, lifetime_max: {:?}, hello_timeout: {:?}, open_timeout: {:?}, \
             max_legacy_blocks: {:?}, signing_time: {:?},",
            server,
            server.subscriptions,
            channel.limits,
            channel.lifetime_min,
            channel.lifetime_max,
            channel.hello_timeout,
            channel.open_timeout,
            ids.max_legacy_blocks,
            ids.signing_time
        )
        .replace(" }", ", }")
    }

    #[test]
    fn certificates_are_looked_at_as_strictly_as_is_configured() {
        let settings = |keys: [(&str, &str); 3]| {
            let mut text = crate::config::TEMPLATE.to_owned();
            for (from, to) in keys {
                assert_eq!(text.matches(&format!("\n{from}\n")).count(), 2, "the authority's and a server's");
                text = text.replace(from, to);
            }
            let config = ::config::read(&text, &::config::Overrides::default()).unwrap();
            let (server, authority) = (config.server[0].endpoint(), config.authority.unwrap());
            let of = |settings: TrustSettings| {
                (settings.danger_allow_unknown_revocation, settings.min_key_bits, settings.max_key_bits)
            };
            let one = of(trust_settings(server.missing_crl, server.min_key_bits, server.max_key_bits));
            let other = of(trust_settings(authority.missing_crl, authority.min_key_bits, authority.max_key_bits));
            assert_eq!(one, other, "the authority looks at them as servers do");
            one
        };
        let missing = "missing_crl = \"refuse\"";
        let (least, most) = ("min_key_bits = 2048", "max_key_bits = 4096");
        assert_eq!(settings([missing, least, most].map(|key| (key, key))), (false, 2048, 4096));
        let others =
            [(missing, "missing_crl = \"accept\""), (least, "min_key_bits = 3072"), (most, "max_key_bits = 3073")];
        assert_eq!(settings(others), (true, 3072, 3073));
    }

    #[test]
    fn every_key_is_the_bound_that_it_names() {
        let known: Vec<_> = Limits::keys().iter().map(|key| key.name).collect();
        assert_eq!(KEYS.map(|(key, ..)| key).to_vec(), known, "every key has a row");
        let mut numbers: Vec<_> = KEYS.iter().map(|(_, number, _)| number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), KEYS.len(), "no two keys have one number");
        let written: String = KEYS.iter().map(|(key, number, _)| format!("{key} = {number}\n")).collect();
        let text = crate::config::TEMPLATE.replacen("# [server.limits]", &format!("[server.limits]\n{written}"), 1);
        let config = ::config::read(&text, &::config::Overrides::default()).unwrap();
        let bounds = bounds(&config.server[0].endpoint());
        for (key, _, expected) in KEYS {
            for bound in expected {
                assert!(bounds.contains(&format!(" {bound}")), "`{key}` is not `{bound}`: {bounds}");
            }
        }
    }
}
