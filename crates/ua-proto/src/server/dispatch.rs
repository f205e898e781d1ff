//! From a message to its service. Every request type of the standard is in the table; those that are not served answer
//! Bad_ServiceUnsupported.

use access_model::{AuditKind, AuditRecord, Now, Outcome, Reason};
use opcua_types::{NodeId, ObjectId, StatusCode};
use pep::Standing;

use super::audit::event;
use super::codec::write_message;
use super::occasion::{Activating, Ending, Told};
use super::reader::{Header, Reader, type_id};
use super::services::{browse, discovery, history_read, read, register, translate};
use super::timers::SessionKey;
use super::{ConnId, Server};

/// The services, as far as dispatch tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    FindServers,
    FindServersOnNetwork,
    GetEndpoints,
    RegisterServer,
    RegisterServer2,
    CreateSession,
    ActivateSession,
    CloseSession,
    Cancel,
    Browse,
    BrowseNext,
    Translate,
    RegisterNodes,
    UnregisterNodes,
    Read,
    Write,
    Call,
    CreateSubscription,
    ModifySubscription,
    DeleteSubscriptions,
    SetPublishingMode,
    CreateMonitoredItems,
    ModifyMonitoredItems,
    DeleteMonitoredItems,
    SetMonitoringMode,
    Publish,
    Republish,
    SetTriggering,
    TransferSubscriptions,
    AddNodes,
    AddReferences,
    DeleteNodes,
    DeleteReferences,
    HistoryRead,
    HistoryUpdate,
    Unsupported,
}

/// The numbers of every request in the standard that travels as a message of its own.
pub(crate) const SERVICES: [(u32, Service); 38] = [
    (ObjectId::FindServersRequest_Encoding_DefaultBinary as u32, Service::FindServers),
    (ObjectId::FindServersOnNetworkRequest_Encoding_DefaultBinary as u32, Service::FindServersOnNetwork),
    (ObjectId::GetEndpointsRequest_Encoding_DefaultBinary as u32, Service::GetEndpoints),
    (ObjectId::RegisterServerRequest_Encoding_DefaultBinary as u32, Service::RegisterServer),
    (ObjectId::RegisterServer2Request_Encoding_DefaultBinary as u32, Service::RegisterServer2),
    (ObjectId::CreateSessionRequest_Encoding_DefaultBinary as u32, Service::CreateSession),
    (ObjectId::ActivateSessionRequest_Encoding_DefaultBinary as u32, Service::ActivateSession),
    (ObjectId::CloseSessionRequest_Encoding_DefaultBinary as u32, Service::CloseSession),
    (ObjectId::CancelRequest_Encoding_DefaultBinary as u32, Service::Cancel),
    (ObjectId::AddNodesRequest_Encoding_DefaultBinary as u32, Service::AddNodes),
    (ObjectId::AddReferencesRequest_Encoding_DefaultBinary as u32, Service::AddReferences),
    (ObjectId::DeleteNodesRequest_Encoding_DefaultBinary as u32, Service::DeleteNodes),
    (ObjectId::DeleteReferencesRequest_Encoding_DefaultBinary as u32, Service::DeleteReferences),
    (ObjectId::BrowseRequest_Encoding_DefaultBinary as u32, Service::Browse),
    (ObjectId::BrowseNextRequest_Encoding_DefaultBinary as u32, Service::BrowseNext),
    (ObjectId::TranslateBrowsePathsToNodeIdsRequest_Encoding_DefaultBinary as u32, Service::Translate),
    (ObjectId::RegisterNodesRequest_Encoding_DefaultBinary as u32, Service::RegisterNodes),
    (ObjectId::UnregisterNodesRequest_Encoding_DefaultBinary as u32, Service::UnregisterNodes),
    (ObjectId::QueryFirstRequest_Encoding_DefaultBinary as u32, Service::Unsupported),
    (ObjectId::QueryNextRequest_Encoding_DefaultBinary as u32, Service::Unsupported),
    (ObjectId::ReadRequest_Encoding_DefaultBinary as u32, Service::Read),
    (ObjectId::HistoryReadRequest_Encoding_DefaultBinary as u32, Service::HistoryRead),
    (ObjectId::WriteRequest_Encoding_DefaultBinary as u32, Service::Write),
    (ObjectId::HistoryUpdateRequest_Encoding_DefaultBinary as u32, Service::HistoryUpdate),
    (ObjectId::CallRequest_Encoding_DefaultBinary as u32, Service::Call),
    (ObjectId::CreateMonitoredItemsRequest_Encoding_DefaultBinary as u32, Service::CreateMonitoredItems),
    (ObjectId::ModifyMonitoredItemsRequest_Encoding_DefaultBinary as u32, Service::ModifyMonitoredItems),
    (ObjectId::SetMonitoringModeRequest_Encoding_DefaultBinary as u32, Service::SetMonitoringMode),
    (ObjectId::SetTriggeringRequest_Encoding_DefaultBinary as u32, Service::SetTriggering),
    (ObjectId::DeleteMonitoredItemsRequest_Encoding_DefaultBinary as u32, Service::DeleteMonitoredItems),
    (ObjectId::CreateSubscriptionRequest_Encoding_DefaultBinary as u32, Service::CreateSubscription),
    (ObjectId::ModifySubscriptionRequest_Encoding_DefaultBinary as u32, Service::ModifySubscription),
    (ObjectId::SetPublishingModeRequest_Encoding_DefaultBinary as u32, Service::SetPublishingMode),
    (ObjectId::PublishRequest_Encoding_DefaultBinary as u32, Service::Publish),
    (ObjectId::RepublishRequest_Encoding_DefaultBinary as u32, Service::Republish),
    (ObjectId::TransferSubscriptionsRequest_Encoding_DefaultBinary as u32, Service::TransferSubscriptions),
    (ObjectId::DeleteSubscriptionsRequest_Encoding_DefaultBinary as u32, Service::DeleteSubscriptions),
    (ObjectId::SessionlessInvokeRequestType_Encoding_DefaultBinary as u32, Service::Unsupported),
];

/// What a request's number asks for; anything unknown is not supported.
#[inline]
pub(crate) fn service(id: Option<u32>) -> Service {
    const READ: u32 = ObjectId::ReadRequest_Encoding_DefaultBinary as u32;
    match id {
        Some(READ) => Service::Read,
        Some(id) => {
            SERVICES.iter().find(|(known, _)| *known == id).map_or(Service::Unsupported, |(_, service)| *service)
        }
        None => Service::Unsupported,
    }
}

impl Service {
    /// How a request that was turned away as a whole appears in the audit.
    pub(crate) fn kind(self) -> AuditKind {
        match self {
            Self::Write => AuditKind::Write,
            Self::Call => AuditKind::Call,
            Self::AddNodes | Self::AddReferences | Self::DeleteNodes | Self::DeleteReferences => {
                AuditKind::NodesChanged
            }
            Self::HistoryUpdate => AuditKind::HistoryChanged,
            Self::HistoryRead => AuditKind::Read,
            Self::Read => AuditKind::Read,
            Self::Browse | Self::BrowseNext | Self::Translate | Self::RegisterNodes | Self::UnregisterNodes => {
                AuditKind::Browse
            }
            _ => AuditKind::Notify,
        }
    }
}

/// One request on its way through.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) conn: ConnId,
    pub(crate) request_id: u32,
    pub(crate) header: Header<'a>,
    /// From the RequestHeader on.
    pub(crate) whole: &'a [u8],
    /// Behind the RequestHeader.
    pub(crate) rest: Reader<'a>,
}

impl Server {
    /// Serves one message.
    #[inline]
    pub(super) fn message(&mut self, conn: ConnId, request_id: u32, body: &[u8], now: Now) {
        let mut rest = Reader::new(body);
        let id = match type_id(&mut rest) {
            Ok(id) => id,
            Err(malformed) => return self.fault(conn, request_id, 0, malformed.status(), now),
        };
        let whole = rest.rest();
        let header = match Header::read(&mut rest) {
            Ok(header) => header,
            Err(malformed) => return self.fault(conn, request_id, 0, malformed.status(), now),
        };
        let request = Request { conn, request_id, header, whole, rest };
        self.audit.set_entry(header.audit_entry);
        if let Err(status) = self.serve(service(id), &request, now) {
            self.fault(conn, request_id, header.handle, status, now);
        }
        self.audit.set_entry("");
    }

    #[inline]
    fn serve(&mut self, service: Service, request: &Request<'_>, now: Now) -> Result<(), StatusCode> {
        let Some(connection) = self.connections.get(&request.conn) else { return Ok(()) };
        let discovery_only = connection.channel.security().is_none_or(|security| security.discovery_only);
        match service {
            Service::GetEndpoints | Service::FindServers | Service::FindServersOnNetwork => {
                return self.discover(service, request, now);
            }
            Service::RegisterServer => return self.register_server(request, now),
            Service::RegisterServer2 => return self.register_server_2(request, now),
            Service::Unsupported => return Err(StatusCode::BadServiceUnsupported),
            // Served by guards only, if their server knows them.
            Service::AddNodes | Service::AddReferences | Service::DeleteNodes | Service::DeleteReferences
                if self.handed.is_none() || !(self.hands_on)(service) =>
            {
                return Err(StatusCode::BadServiceUnsupported);
            }
            // The channel was let in to ask for endpoints, and for nothing else.
            _ if discovery_only => return Err(StatusCode::BadSecurityPolicyRejected),
            Service::CreateSession => return self.create_session(request, now),
            Service::ActivateSession => return self.activate_session(request, now),
            Service::CloseSession => return self.close_session(request, now),
            _ => {}
        }
        let key = self.authorize(service, request, now)?;
        if self.hand_on(service, key, request) {
            return Ok(());
        }
        match service {
            Service::Read => {
                self.reply(key, request, now, |desk, _, out| read::read(desk, &request.header, request.rest, out))
            }
            Service::Browse => {
                let asked = self.codec.decode(request.whole)?;
                self.reply(key, request, now, |desk, _, out| browse::browse(desk, &asked, out))
            }
            Service::BrowseNext => {
                let asked = self.codec.decode(request.whole)?;
                self.reply(key, request, now, |desk, _, out| browse::browse_next(desk, &asked, out))
            }
            Service::Translate => {
                let asked = self.codec.decode(request.whole)?;
                self.reply(key, request, now, |desk, _, out| translate::translate(desk, &asked, out))
            }
            Service::RegisterNodes => {
                let asked: opcua_types::RegisterNodesRequest = self.codec.decode(request.whole)?;
                self.reply(key, request, now, |desk, _, out| register::register(desk, &asked, out))
            }
            Service::UnregisterNodes => {
                let asked = self.codec.decode(request.whole)?;
                self.reply(key, request, now, |desk, _, out| register::unregister(desk, &asked, out))
            }
            Service::HistoryRead => self.reply(key, request, now, |desk, _, out| {
                history_read::history_read(desk, request.header.handle, request.rest, out)
            }),
            Service::Write => self.write(key, request, now),
            Service::HistoryUpdate => self.history_update(key, request, now),
            Service::Call => self.call(key, request, now),
            Service::Cancel => self.cancel(key, request, now),
            Service::Publish => self.publish(key, request, now),
            Service::TransferSubscriptions => self.transfer_subscriptions(key, request, now),
            other => self.subscription_service(other, key, request, now),
        }
    }

    fn discover(&mut self, service: Service, request: &Request<'_>, now: Now) -> Result<(), StatusCode> {
        let Self { config, codec, connections, registry, .. } = self;
        let Some(connection) = connections.get_mut(&request.conn) else { return Ok(()) };
        let mut body = Vec::new();
        let own = connection.channel.security().and_then(|security| security.own.clone());
        let own = own.unwrap_or_else(|| config.channel.identity.load_full().for_bare_channels());
        if service == Service::FindServers {
            let asked = codec.decode(request.whole)?;
            discovery::find_servers((config, registry), codec, &own, &asked, now, &mut body)?;
        } else if service == Service::FindServersOnNetwork {
            let asked = codec.decode(request.whole)?;
            write_message(&mut body, &registry.find_on_network(config, &asked, now), &codec.context(0))?;
        } else {
            let asked = codec.decode(request.whole)?;
            discovery::get_endpoints(config, codec, &own, &asked, now, &mut body)?;
        }
        self.respond(request.conn, request.request_id, request.header.handle, now, |_, out| {
            *out = body;
            Ok(())
        });
        Ok(())
    }

    /// Finds the session of a request and makes sure that the request may be served at all: the right channel, an
    /// activated session, a grant that stands. Checked for every request (P0 section 3).
    #[inline]
    fn authorize(&mut self, service: Service, request: &Request<'_>, now: Now) -> Result<SessionKey, StatusCode> {
        let Some(session) = self.sessions.by_token(request.header.token) else {
            return Err(self.unknown_token(request.conn, service.kind(), now));
        };
        let core = &mut session.core;
        let key = core.key;
        if core.conn != request.conn {
            return Err(self.foreign_channel(key, request.conn, service.kind(), now));
        }
        let Some(login) = &core.login else {
            self.end_session(key, StatusCode::BadSessionNotActivated, "it was used before it was activated", now);
            return Err(StatusCode::BadSessionNotActivated);
        };
        core.last_seen = now.mono;
        let reason = match self.gate.standing(login.grant, now) {
            Standing::Live { .. } => return Ok(key),
            Standing::Expired { .. } => Reason::GrantExpired,
            Standing::Revoked { .. } => Reason::GrantRevoked,
            Standing::Suspended { reason } => reason,
            Standing::Gone => Reason::NoGrant,
        };
        let record = event(now, service.kind(), &core.actor, String::new(), Outcome::Denied(reason));
        self.count_denial(Some(key), service.kind(), reason, now, record, || Told::of_request(service.kind()));
        Err(StatusCode::BadUserAccessDenied)
    }

    /// A token that opens no session: stale, or guessed.
    #[cold]
    pub(super) fn unknown_token(&mut self, conn: ConnId, kind: AuditKind, now: Now) -> StatusCode {
        let actor = self.channel_actor(conn);
        let record = AuditRecord {
            detail: "no session has this authentication token".to_owned(),
            ..event(now, kind, &actor, String::new(), Outcome::Denied(Reason::NoGrant))
        };
        self.count_denial(None, kind, Reason::NoGrant, now, record, || told_of_service(kind, None));
        StatusCode::BadSessionIdInvalid
    }

    /// Somebody uses a session from a channel that is not its own. The session itself is not touched: its owner must not
    /// suffer from it.
    #[cold]
    pub(super) fn foreign_channel(&mut self, key: SessionKey, conn: ConnId, kind: AuditKind, now: Now) -> StatusCode {
        let mut actor = self.channel_actor(conn);
        let object = self.sessions.get(key).map(|session| session.core.id.to_string()).unwrap_or_default();
        actor.session = Some(object.clone());
        let record = AuditRecord {
            detail: "the session belongs to another channel".to_owned(),
            ..event(now, kind, &actor, object, Outcome::Denied(Reason::SessionChannel))
        };
        let session = self.sessions.get(key).map(|session| session.core.id.clone());
        self.count_denial(Some(key), kind, Reason::SessionChannel, now, record, || told_of_service(kind, session));
        StatusCode::BadSecureChannelIdInvalid
    }
}

/// What is told of a request that was not let in.
fn told_of_service(kind: AuditKind, session: Option<NodeId>) -> Told {
    match kind {
        AuditKind::SessionActivated => Told::Activated(Box::new(Activating { session, ..Activating::default() })),
        AuditKind::SessionClosed => Told::Ended { session: session.unwrap_or_else(NodeId::null), how: Ending::Closed },
        other => Told::of_request(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_type_of_the_standard_is_in_the_table() {
        let not_messages = ["OpenSecureChannelRequest", "CloseSecureChannelRequest", "CallMethodRequest"];
        let items = ["MonitoredItemCreateRequest", "MonitoredItemModifyRequest"];
        let mut missing = Vec::new();
        for number in 0..30_000 {
            let Ok(id) = ObjectId::try_from(number) else { continue };
            let name = format!("{id:?}");
            let Some(request) = name.strip_suffix("_Encoding_DefaultBinary") else { continue };
            if !request.ends_with("Request") || not_messages.contains(&request) || items.contains(&request) {
                continue;
            }
            if !SERVICES.iter().any(|(known, _)| *known == number) {
                missing.push(name);
            }
        }
        assert_eq!(missing, Vec::<String>::new());
    }

    #[test]
    fn unknown_numbers_are_not_supported() {
        for id in [None, Some(0), Some(446), Some(452), Some(706), Some(u32::MAX)] {
            assert_eq!(service(id), Service::Unsupported, "{id:?}");
        }
    }
}
