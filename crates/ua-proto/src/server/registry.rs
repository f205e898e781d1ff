//! Servers that register here to be found (OPC 10000-4 §5.5.5 and §5.5.6), when this server is a discovery server, and
//! what FindServers and FindServersOnNetwork tell of them.
//!
//! Whoever registers speaks over a protected channel, with a certificate that is trusted and names the ServerUri that is
//! registered: nobody can send clients of another server elsewhere.

use std::collections::BTreeMap;
use std::time::Duration;

use access_model::{AuditKind, AuditRecord, Mono, Now, Outcome, Reason, UnixTime};
use opcua_types::{
    ApplicationDescription, ApplicationType, ExtensionObject, FindServersOnNetworkRequest,
    FindServersOnNetworkResponse, MdnsDiscoveryConfiguration, RegisterServer2Request, RegisterServer2Response,
    RegisterServerRequest, RegisterServerResponse, RegisteredServer, ServerOnNetwork, StatusCode, UAString,
};

use super::audit::{detail, event};
use super::codec::{date_time, response_header, write_message};
use super::config::ServerConfig;
use super::dispatch::Request;
use super::occasion::Told;
use super::timers::Timer;
use super::{ConnId, Server};

/// Most servers that are registered at a time.
pub(crate) const MAX_REGISTERED: usize = 100;
/// Most names, and most discovery URLs, of one.
const MAX_LIST: usize = 16;
/// Most capabilities of one, and the longest in bytes (OPC 10000-12 annex D has none near that).
const CAPABILITIES: (usize, usize) = (32, 32);
/// Longest URI, URL or name in bytes.
const MAX_TEXT: usize = 1_024;
/// How long a registration lasts that is not renewed (OPC 10000-4 §5.5.5).
const LIFE: Duration = Duration::from_secs(600);
/// The record of this server itself.
const OWN_RECORD: u32 = 1;
/// Capability of a server of which none is known (OPC 10000-12 annex D).
const NOT_KNOWN: &str = "NA";

/// A server that has registered.
struct Registered {
    server: RegisteredServer,
    records: Vec<ServerOnNetwork>,
    until: Mono,
}

/// The servers that have registered, by their ApplicationUri.
#[derive(Default)]
pub(crate) struct Registry {
    open: bool,
    since: Option<UnixTime>,
    last_record: u32,
    servers: BTreeMap<String, Registered>,
}

impl Registry {
    /// What FindServers tells of the registered servers; `wanted` are the ServerUris that are asked for, all when empty.
    pub(crate) fn descriptions(&self, wanted: &[UAString]) -> Vec<ApplicationDescription> {
        let asked = |uri: &String| wanted.is_empty() || wanted.iter().any(|one| one.as_ref() == uri);
        let known = self.servers.iter().filter(|(uri, _)| asked(uri));
        known.map(|(_, registered)| description(&registered.server)).collect()
    }

    /// The records that FindServersOnNetwork tells.
    pub(crate) fn find_on_network(
        &self,
        config: &ServerConfig,
        request: &FindServersOnNetworkRequest,
        now: Now,
    ) -> FindServersOnNetworkResponse {
        let own = ServerOnNetwork {
            record_id: OWN_RECORD,
            server_name: config.application_name.as_str().into(),
            discovery_url: config.endpoint_urls.first().map_or("", String::as_str).into(),
            server_capabilities: Some(vec![if self.open { "LDS" } else { "DA" }.into()]),
        };
        let filter = request.server_capability_filter.as_deref().unwrap_or_default();
        let fits = |record: &&ServerOnNetwork| {
            let has = record.server_capabilities.as_deref().unwrap_or_default();
            let one = |wanted: &UAString| has.iter().any(|one| one.as_ref().eq_ignore_ascii_case(wanted.as_ref()));
            record.record_id > request.starting_record_id && filter.iter().all(one)
        };
        let most = match request.max_records_to_return {
            0 => usize::MAX,
            most => usize::try_from(most).unwrap_or(usize::MAX),
        };
        let registered = self.servers.values().flat_map(|registered| &registered.records);
        let mut records: Vec<&ServerOnNetwork> = std::iter::once(&own).chain(registered).filter(fits).collect();
        records.sort_by_key(|record| record.record_id);
        FindServersOnNetworkResponse {
            response_header: response_header(now, request.request_header.request_handle),
            last_counter_reset_time: date_time(Now { unix: self.since.unwrap_or(now.unix), ..now }),
            servers: Some(records.into_iter().take(most).cloned().collect()),
        }
    }

    /// Takes a registration; tells whether it says something new.
    fn register(
        &mut self,
        server: RegisteredServer,
        configuration: Option<MdnsDiscoveryConfiguration>,
        now: Now,
    ) -> Result<bool, StatusCode> {
        let uri = server.server_uri.as_ref().to_owned();
        if !server.is_online {
            return Ok(self.servers.remove(&uri).is_some());
        }
        check(&server, configuration.as_ref())?;
        if !self.servers.contains_key(&uri) && self.servers.len() >= MAX_REGISTERED {
            return Err(StatusCode::BadResourceUnavailable);
        }
        let until = now.mono + LIFE;
        let mut records = records(&server, configuration);
        if let Some(known) = self.servers.get_mut(&uri) {
            known.until = until;
            let said = |records: &[ServerOnNetwork]| -> Vec<ServerOnNetwork> {
                records.iter().map(|one| ServerOnNetwork { record_id: 0, ..one.clone() }).collect()
            };
            if known.server == server && said(&known.records) == said(&records) {
                return Ok(false);
            }
        }
        self.last_record = self.last_record.max(OWN_RECORD);
        for record in &mut records {
            self.last_record = self.last_record.saturating_add(1);
            record.record_id = self.last_record;
        }
        self.servers.insert(uri, Registered { server, records, until });
        Ok(true)
    }

    /// Forgets who has not renewed, and tells when the next is forgotten.
    fn expire(&mut self, now: Mono) -> Option<Mono> {
        self.servers.retain(|_, registered| registered.until > now);
        self.servers.values().map(|registered| registered.until).min()
    }
}

fn description(server: &RegisteredServer) -> ApplicationDescription {
    ApplicationDescription {
        application_uri: server.server_uri.clone(),
        product_uri: server.product_uri.clone(),
        application_name: server.server_names.iter().flatten().next().cloned().unwrap_or_default(),
        application_type: server.server_type,
        gateway_server_uri: server.gateway_server_uri.clone(),
        discovery_profile_uri: UAString::null(),
        discovery_urls: server.discovery_urls.clone(),
    }
}

/// One record for each discovery URL.
fn records(server: &RegisteredServer, configuration: Option<MdnsDiscoveryConfiguration>) -> Vec<ServerOnNetwork> {
    let said = configuration.unwrap_or_default();
    let first = server.server_names.iter().flatten().next().map(|name| name.text.clone()).unwrap_or_default();
    let name = if said.mdns_server_name.is_empty() { first } else { said.mdns_server_name };
    let capabilities = said.server_capabilities.filter(|all| !all.is_empty());
    let capabilities = capabilities.unwrap_or_else(|| vec![NOT_KNOWN.into()]);
    let record = |url: &UAString| ServerOnNetwork {
        record_id: 0,
        server_name: name.clone(),
        discovery_url: url.clone(),
        server_capabilities: Some(capabilities.clone()),
    };
    server.discovery_urls.iter().flatten().map(record).collect()
}

/// What OPC 10000-4 §5.5.5.3 asks of a registration, and our bounds.
fn check(server: &RegisteredServer, configuration: Option<&MdnsDiscoveryConfiguration>) -> Result<(), StatusCode> {
    let semaphore_file_missing = StatusCode::from(0x8052_0000);
    let names = server.server_names.as_deref().unwrap_or_default();
    let urls = server.discovery_urls.as_deref().unwrap_or_default();
    let capabilities = configuration.and_then(|said| said.server_capabilities.as_deref()).unwrap_or_default();
    if server.server_type == ApplicationType::Client {
        return Err(StatusCode::BadInvalidArgument);
    }
    if names.iter().all(|name| name.text.is_empty()) {
        return Err(StatusCode::BadServerNameMissing);
    }
    if urls.iter().all(UAString::is_empty) {
        return Err(StatusCode::BadDiscoveryUrlMissing);
    }
    // A file of another computer says nothing, and one of this computer is nobody's business.
    if !server.semaphore_file_path.is_empty() {
        return Err(semaphore_file_missing);
    }
    let texts = [&server.server_uri, &server.product_uri, &server.gateway_server_uri].into_iter();
    let named = names.iter().flat_map(|name| [&name.locale, &name.text]);
    let mdns = configuration.iter().map(|said| &said.mdns_server_name);
    let long = |text: &UAString| text.as_ref().len() > MAX_TEXT;
    let too_long = texts.chain(named).chain(urls).chain(mdns).any(long)
        || capabilities.iter().any(|one| one.as_ref().len() > CAPABILITIES.1);
    if too_long || names.len() > MAX_LIST || urls.len() > MAX_LIST || capabilities.len() > CAPABILITIES.0 {
        return Err(StatusCode::BadInvalidArgument);
    }
    Ok(())
}

/// The configuration for mDNS among those of a request, and the result of each.
fn configurations(all: &[ExtensionObject]) -> (Option<MdnsDiscoveryConfiguration>, Vec<StatusCode>) {
    let mut found = None;
    let mut results = Vec::new();
    for one in all {
        match one.inner_as::<MdnsDiscoveryConfiguration>() {
            Some(said) if found.is_none() => {
                found = Some(said.clone());
                results.push(StatusCode::Good);
            }
            _ => results.push(StatusCode::BadNotSupported),
        }
    }
    (found, results)
}

impl Server {
    /// From now on other servers may register here.
    pub fn serve_discovery(&mut self) {
        self.registry.open = true;
    }

    /// When the records of FindServersOnNetwork began to be counted.
    pub(super) fn begin_records(&mut self, now: Now) {
        self.registry.since.get_or_insert(now.unix);
    }

    pub(super) fn register_server(&mut self, request: &Request<'_>, now: Now) -> Result<(), StatusCode> {
        self.applicant(request.conn)?;
        let asked: RegisterServerRequest = self.codec.decode(request.whole)?;
        self.take_registration(request.conn, asked.server, None, now)?;
        let response = RegisterServerResponse { response_header: response_header(now, request.header.handle) };
        self.respond(request.conn, request.request_id, request.header.handle, now, |server, out| {
            write_message(out, &response, &server.codec.context(0))
        });
        Ok(())
    }

    pub(super) fn register_server_2(&mut self, request: &Request<'_>, now: Now) -> Result<(), StatusCode> {
        self.applicant(request.conn)?;
        let asked: RegisterServer2Request = self.codec.decode(request.whole)?;
        let (configuration, results) = configurations(asked.discovery_configuration.as_deref().unwrap_or_default());
        self.take_registration(request.conn, asked.server, configuration, now)?;
        let response = RegisterServer2Response {
            response_header: response_header(now, request.header.handle),
            configuration_results: Some(results),
            diagnostic_infos: None,
        };
        self.respond(request.conn, request.request_id, request.header.handle, now, |server, out| {
            write_message(out, &response, &server.codec.context(0))
        });
        Ok(())
    }

    /// Forgets registrations that were not renewed.
    pub(super) fn registrations_due(&mut self, now: Now) {
        if let Some(next) = self.registry.expire(now.mono) {
            self.timers.set(Timer::Registrations, next);
        }
    }

    /// The ApplicationUri that the certificate of a channel proves.
    fn applicant(&self, conn: ConnId) -> Result<String, StatusCode> {
        if !self.registry.open {
            return Err(StatusCode::BadServiceUnsupported);
        }
        let security = self.connections.get(&conn).and_then(|connection| connection.channel.security());
        let proven = security.filter(|security| security.is_signed() && !security.discovery_only);
        let peer = proven.and_then(|security| security.peer.as_ref()).ok_or(StatusCode::BadSecurityModeInsufficient)?;
        peer.application_uri().map(str::to_owned).ok_or(StatusCode::BadServerUriInvalid)
    }

    fn take_registration(
        &mut self,
        conn: ConnId,
        server: RegisteredServer,
        configuration: Option<MdnsDiscoveryConfiguration>,
        now: Now,
    ) -> Result<(), StatusCode> {
        let uri = server.server_uri.as_ref().to_owned();
        let own = uri == self.config.application_uri;
        let online = server.is_online;
        let proven = self.applicant(conn)? == uri && !own;
        let taken = if proven {
            self.registry.register(server, configuration, now)
        } else {
            Err(StatusCode::BadServerUriInvalid)
        };
        let kind = AuditKind::ConfigurationChanged;
        let actor = self.channel_actor(conn);
        match taken {
            Ok(false) => {}
            Ok(true) => {
                let text = if online { "a server has registered here" } else { "a server has taken itself off" };
                let record = event(now, kind, &actor, detail(uri), Outcome::Allowed);
                self.audit.tell(AuditRecord { detail: text.into(), ..record }, || Told::Nothing);
            }
            Err(status) => {
                let reason = if proven { Reason::ProtocolMisbehavior } else { Reason::CertificateUri };
                let record = event(now, kind, &actor, detail(uri), Outcome::Denied(reason));
                let record = AuditRecord { detail: format!("the registration was refused ({status})"), ..record };
                self.count_denial(None, kind, reason, now, record, || Told::Nothing);
            }
        }
        self.registrations_due(now);
        taken.map(drop)
    }
}
