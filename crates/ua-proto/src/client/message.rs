//! The services a client calls: requests, their responses, and how a response is read.

use std::time::Duration;

use access_model::Now;
use opcua_types::{
    ActivateSessionRequest, ActivateSessionResponse, BinaryEncodable, BrowseNextRequest, BrowseNextResponse,
    BrowsePathResult, BrowseRequest, BrowseResponse, BrowseResult, ByteString, ByteStringBody, CallMethodResult,
    CallRequest, CallResponse, CancelRequest, CancelResponse, CloseSessionRequest, CloseSessionResponse, Context,
    CreateMonitoredItemsRequest, CreateMonitoredItemsResponse, CreateSessionRequest, CreateSessionResponse,
    CreateSubscriptionRequest, CreateSubscriptionResponse, DataChangeNotification, DataValue, DateTime,
    DeleteMonitoredItemsRequest, DeleteMonitoredItemsResponse, DeleteSubscriptionsRequest, DeleteSubscriptionsResponse,
    DiagnosticBits, DiagnosticInfo, EventNotificationList, ExtensionObject, FindServersOnNetworkRequest,
    FindServersOnNetworkResponse, FindServersRequest, FindServersResponse, GetEndpointsRequest, GetEndpointsResponse,
    HistoryData, HistoryEvent, HistoryModifiedData, HistoryModifiedEvent, HistoryReadRequest, HistoryReadResponse,
    HistoryReadResult, HistoryUpdateRequest, HistoryUpdateResponse, HistoryUpdateResult, ModifyMonitoredItemsRequest,
    ModifyMonitoredItemsResponse, ModifySubscriptionRequest, ModifySubscriptionResponse, MonitoredItemNotification,
    NodeId, NotificationMessage, ObjectId, PublishRequest, PublishResponse, ReadRequest, ReadResponse,
    RegisterNodesRequest, RegisterNodesResponse, RegisterServer2Request, RegisterServer2Response,
    RegisterServerRequest, RegisterServerResponse, RepublishRequest, RepublishResponse, RequestHeader, ResponseHeader,
    SetMonitoringModeRequest, SetMonitoringModeResponse, SetPublishingModeRequest, SetPublishingModeResponse,
    SetTriggeringRequest, SetTriggeringResponse, StatusChangeNotification, StatusCode, TransferSubscriptionsRequest,
    TransferSubscriptionsResponse, TranslateBrowsePathsToNodeIdsRequest, TranslateBrowsePathsToNodeIdsResponse,
    UnregisterNodesRequest, UnregisterNodesResponse, Variant, WriteRequest, WriteResponse,
};

use super::codec::{Codec, date_time, head};
use crate::body::{Reader, ticks, write_message};
use crate::channel::EncodeError;

/// A request whose body is sent as it is: what a guard forwards.
#[derive(Clone, Debug)]
pub struct RawRequest {
    /// Number of the request's binary encoding in namespace 0.
    pub request: u32,
    /// Number of the binary encoding of the response that belongs to it.
    pub response: u32,
    /// Everything behind the RequestHeader.
    pub body: Vec<u8>,
    /// What the server is told of how long its client waits; `None` tells the time that the answer is waited for.
    pub hint: Option<Duration>,
}

impl RawRequest {
    /// A request of this type, with this body.
    #[must_use]
    pub fn new(request: ObjectId, response: ObjectId, body: Vec<u8>) -> Self {
        Self { request: request as u32, response: response as u32, body, hint: None }
    }

    /// Writes it behind a header that says who asks, when, under which handle and how long is waited, and nothing else.
    fn put(&self, asker: &Asker<'_>, ctx: &Context<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let request = u16::try_from(self.request).map_err(|_| EncodeError(StatusCode::BadEncodingError))?;
        out.extend_from_slice(&[1, 0]);
        out.extend_from_slice(&request.to_le_bytes());
        asker.session.encode(out, ctx)?;
        out.extend_from_slice(&ticks(asker.now.unix).to_le_bytes());
        out.extend_from_slice(&asker.handle.to_le_bytes());
        // No diagnostics are asked for, no entry of an audit is named.
        out.extend_from_slice(&[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        out.extend_from_slice(&asker.hint().to_le_bytes());
        out.extend_from_slice(&[0, 0, 0]);
        out.extend_from_slice(&self.body);
        Ok(())
    }
}

/// What the header of a request says.
pub(super) struct Asker<'a> {
    pub(super) session: &'a NodeId,
    pub(super) handle: u32,
    /// How long the answer is waited for.
    pub(super) timeout: Duration,
    pub(super) now: Now,
}

impl Asker<'_> {
    fn hint(&self) -> u32 {
        u32::try_from(self.timeout.as_millis()).unwrap_or(u32::MAX)
    }
}

macro_rules! services {
    ($($service:ident: $request:ident => $response:ident, $id:ident, $read:ident;)*) => {
        /// A request of one of the services a client may call. The header is filled in when it is sent.
        #[derive(Clone, Debug)]
        #[expect(missing_docs, reason = "each variant is the service of its name")]
        pub enum Request {
            $($service($request),)*
            /// A request that somebody else has encoded.
            Raw(RawRequest),
        }

        /// The response to a [`Request`]; its header is left empty but for ephemeral keys, the service result is in the `Result` around it.
        /// Small: it is moved many times on its way.
        #[derive(Clone, Debug)]
        #[expect(missing_docs, reason = "each variant is the service of its name")]
        pub enum Response {
            $($service(Box<$response>),)*
            /// The response to [`Request::Raw`]: the bytes behind its header, as they came.
            Raw(Vec<u8>),
        }

        /// Which service.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Service {
            $($service,)*
            /// The number of the response that is expected.
            Raw(u32),
        }

        $(impl From<$request> for Request {
            fn from(request: $request) -> Self {
                Self::$service(request)
            }
        })*

        $(impl TryFrom<Response> for $response {
            type Error = StatusCode;
            fn try_from(response: Response) -> Result<Self, StatusCode> {
                match response {
                    Response::$service(response) => Ok(*response),
                    _ => Err(StatusCode::BadUnknownResponse),
                }
            }
        })*

        impl Request {
            pub(super) fn service(&self) -> Service {
                match self {
                    $(Self::$service(_) => Service::$service,)*
                    Self::Raw(request) => Service::Raw(request.response),
                }
            }

            /// Fills the header in. That of a raw request is made when it is encoded.
            pub(super) fn set_header(&mut self, asker: &Asker<'_>, additional_header: ExtensionObject) {
                let service = self.service();
                let header = || RequestHeader {
                    authentication_token: asker.session.clone(),
                    timestamp: date_time(asker.now),
                    request_handle: asker.handle,
                    timeout_hint: asker.hint(),
                    // Who changes something wants to hear why not.
                    return_diagnostics: match service {
                        Service::Write | Service::Call => DiagnosticBits::OPERATIONAL_LEVEL_ADDITIONAL_INFO,
                        _ => DiagnosticBits::empty(),
                    },
                    additional_header,
                    ..RequestHeader::default()
                };
                match self {
                    Self::Raw(_) => {}
                    $(Self::$service(request) => request.request_header = header(),)*
                }
            }

            pub(super) fn encode(&self, asker: &Asker<'_>, codec: &Codec, out: &mut Vec<u8>) -> Result<(), EncodeError> {
                let ctx = codec.context(usize::MAX);
                match self {
                    $(Self::$service(request) => write_message(out, request, &ctx).map_err(EncodeError),)*
                    Self::Raw(request) => request.put(asker, &ctx, out),
                }
            }
        }

        impl Service {
            fn response_id(self) -> u32 {
                match self {
                    $(Self::$service => ObjectId::$id as u32,)*
                    Self::Raw(response) => response,
                }
            }

            fn read_fields(self, codec: &Codec, reader: &mut Reader<'_>) -> Result<Response, StatusCode> {
                match self {
                    $(Self::$service => $read(codec, reader).map(|response| Response::$service(Box::new(response))),)*
                    Self::Raw(_) => Ok(Response::Raw(reader.rest().to_vec())),
                }
            }
        }
    };
}

services! {
    GetEndpoints: GetEndpointsRequest => GetEndpointsResponse, GetEndpointsResponse_Encoding_DefaultBinary, get_endpoints;
    FindServersOnNetwork: FindServersOnNetworkRequest => FindServersOnNetworkResponse, FindServersOnNetworkResponse_Encoding_DefaultBinary, find_servers_on_network;
    RegisterServer: RegisterServerRequest => RegisterServerResponse, RegisterServerResponse_Encoding_DefaultBinary, register_server;
    RegisterServer2: RegisterServer2Request => RegisterServer2Response, RegisterServer2Response_Encoding_DefaultBinary, register_server_2;
    FindServers: FindServersRequest => FindServersResponse, FindServersResponse_Encoding_DefaultBinary, find_servers;
    CreateSession: CreateSessionRequest => CreateSessionResponse, CreateSessionResponse_Encoding_DefaultBinary, create_session;
    ActivateSession: ActivateSessionRequest => ActivateSessionResponse, ActivateSessionResponse_Encoding_DefaultBinary, activate_session;
    CloseSession: CloseSessionRequest => CloseSessionResponse, CloseSessionResponse_Encoding_DefaultBinary, close_session;
    Cancel: CancelRequest => CancelResponse, CancelResponse_Encoding_DefaultBinary, cancel;
    Read: ReadRequest => ReadResponse, ReadResponse_Encoding_DefaultBinary, read;
    Write: WriteRequest => WriteResponse, WriteResponse_Encoding_DefaultBinary, write;
    Browse: BrowseRequest => BrowseResponse, BrowseResponse_Encoding_DefaultBinary, browse;
    BrowseNext: BrowseNextRequest => BrowseNextResponse, BrowseNextResponse_Encoding_DefaultBinary, browse_next;
    TranslateBrowsePaths: TranslateBrowsePathsToNodeIdsRequest => TranslateBrowsePathsToNodeIdsResponse, TranslateBrowsePathsToNodeIdsResponse_Encoding_DefaultBinary, translate;
    RegisterNodes: RegisterNodesRequest => RegisterNodesResponse, RegisterNodesResponse_Encoding_DefaultBinary, register_nodes;
    UnregisterNodes: UnregisterNodesRequest => UnregisterNodesResponse, UnregisterNodesResponse_Encoding_DefaultBinary, unregister_nodes;
    Call: CallRequest => CallResponse, CallResponse_Encoding_DefaultBinary, call;
    CreateSubscription: CreateSubscriptionRequest => CreateSubscriptionResponse, CreateSubscriptionResponse_Encoding_DefaultBinary, create_subscription;
    ModifySubscription: ModifySubscriptionRequest => ModifySubscriptionResponse, ModifySubscriptionResponse_Encoding_DefaultBinary, modify_subscription;
    DeleteSubscriptions: DeleteSubscriptionsRequest => DeleteSubscriptionsResponse, DeleteSubscriptionsResponse_Encoding_DefaultBinary, delete_subscriptions;
    SetPublishingMode: SetPublishingModeRequest => SetPublishingModeResponse, SetPublishingModeResponse_Encoding_DefaultBinary, set_publishing_mode;
    CreateMonitoredItems: CreateMonitoredItemsRequest => CreateMonitoredItemsResponse, CreateMonitoredItemsResponse_Encoding_DefaultBinary, create_monitored_items;
    ModifyMonitoredItems: ModifyMonitoredItemsRequest => ModifyMonitoredItemsResponse, ModifyMonitoredItemsResponse_Encoding_DefaultBinary, modify_monitored_items;
    DeleteMonitoredItems: DeleteMonitoredItemsRequest => DeleteMonitoredItemsResponse, DeleteMonitoredItemsResponse_Encoding_DefaultBinary, delete_monitored_items;
    SetMonitoringMode: SetMonitoringModeRequest => SetMonitoringModeResponse, SetMonitoringModeResponse_Encoding_DefaultBinary, set_monitoring_mode;
    Publish: PublishRequest => PublishResponse, PublishResponse_Encoding_DefaultBinary, publish;
    Republish: RepublishRequest => RepublishResponse, RepublishResponse_Encoding_DefaultBinary, republish;
    SetTriggering: SetTriggeringRequest => SetTriggeringResponse, SetTriggeringResponse_Encoding_DefaultBinary, set_triggering;
    TransferSubscriptions: TransferSubscriptionsRequest => TransferSubscriptionsResponse, TransferSubscriptionsResponse_Encoding_DefaultBinary, transfer_subscriptions;
    HistoryRead: HistoryReadRequest => HistoryReadResponse, HistoryReadResponse_Encoding_DefaultBinary, history_read;
    HistoryUpdate: HistoryUpdateRequest => HistoryUpdateResponse, HistoryUpdateResponse_Encoding_DefaultBinary, history_update;
}

impl Response {
    /// Keeps the additional header where somebody reads it: ephemeral keys come with these two.
    fn set_parameters(&mut self, parameters: Vec<u8>) {
        let header = match self {
            Self::CreateSession(response) => &mut response.response_header,
            Self::ActivateSession(response) => &mut response.response_header,
            _ => return,
        };
        let id = ObjectId::AdditionalParametersType_Encoding_DefaultBinary.into();
        header.additional_header = ExtensionObject::new(ByteStringBody::new(parameters.into(), id));
    }
}

impl Service {
    /// Reads the response to the request with `handle`. `Err` is the service result, also when the answer was a
    /// ServiceFault.
    ///
    /// # Errors
    /// The service result; Bad_UnknownResponse for the response of another service or to another request (a fault may
    /// come without a handle, from a server that could not read it); Bad_DecodingError.
    pub(super) fn read(self, codec: &Codec, handle: u32, body: &[u8]) -> Result<Response, StatusCode> {
        let mut reader = Reader::new(body);
        let head = head(&mut reader)?;
        if head.handle != handle && !(head.handle == 0 && head.status.is_bad()) {
            return Err(StatusCode::BadUnknownResponse);
        }
        if head.status.is_bad() {
            return Err(head.status);
        }
        if head.type_id != Some(self.response_id()) {
            return Err(StatusCode::BadUnknownResponse);
        }
        let mut response = self.read_fields(codec, &mut reader)?;
        if let Some(parameters) = head.parameters {
            response.set_parameters(parameters);
        }
        Ok(response)
    }
}

type Read<T> = Result<T, StatusCode>;

fn empty() -> ResponseHeader {
    ResponseHeader::default()
}

fn get_endpoints(codec: &Codec, reader: &mut Reader<'_>) -> Read<GetEndpointsResponse> {
    Ok(GetEndpointsResponse { response_header: empty(), endpoints: codec.field(reader)? })
}

fn find_servers_on_network(codec: &Codec, reader: &mut Reader<'_>) -> Read<FindServersOnNetworkResponse> {
    Ok(FindServersOnNetworkResponse {
        response_header: empty(),
        last_counter_reset_time: codec.field(reader)?,
        servers: codec.field(reader)?,
    })
}

fn register_server(_: &Codec, _: &mut Reader<'_>) -> Read<RegisterServerResponse> {
    Ok(RegisterServerResponse { response_header: empty() })
}

fn register_server_2(codec: &Codec, reader: &mut Reader<'_>) -> Read<RegisterServer2Response> {
    // Diagnostics were never asked for.
    Ok(RegisterServer2Response {
        response_header: empty(),
        configuration_results: codec.field(reader)?,
        diagnostic_infos: None,
    })
}

fn find_servers(codec: &Codec, reader: &mut Reader<'_>) -> Read<FindServersResponse> {
    Ok(FindServersResponse { response_header: empty(), servers: codec.field(reader)? })
}

fn create_session(codec: &Codec, reader: &mut Reader<'_>) -> Read<CreateSessionResponse> {
    Ok(CreateSessionResponse {
        response_header: empty(),
        session_id: codec.field(reader)?,
        authentication_token: codec.field(reader)?,
        revised_session_timeout: codec.field(reader)?,
        server_nonce: codec.field(reader)?,
        server_certificate: codec.field(reader)?,
        server_endpoints: codec.field(reader)?,
        server_software_certificates: codec.field(reader)?,
        server_signature: codec.field(reader)?,
        max_request_message_size: codec.field(reader)?,
    })
}

fn activate_session(codec: &Codec, reader: &mut Reader<'_>) -> Read<ActivateSessionResponse> {
    let server_nonce: ByteString = codec.field(reader)?;
    Ok(ActivateSessionResponse { response_header: empty(), server_nonce, results: None, diagnostic_infos: None })
}

fn close_session(_: &Codec, _: &mut Reader<'_>) -> Read<CloseSessionResponse> {
    Ok(CloseSessionResponse { response_header: empty() })
}

fn cancel(codec: &Codec, reader: &mut Reader<'_>) -> Read<CancelResponse> {
    Ok(CancelResponse { response_header: empty(), cancel_count: codec.field(reader)? })
}

fn read(codec: &Codec, reader: &mut Reader<'_>) -> Read<ReadResponse> {
    let results = reader.span(|reader| reader.each(1, Reader::skip_data_value))?;
    let results: Option<Vec<DataValue>> = codec.decode(results)?;
    Ok(ReadResponse { response_header: empty(), results, diagnostic_infos: None })
}

fn write(codec: &Codec, reader: &mut Reader<'_>) -> Read<WriteResponse> {
    let results = codec.field(reader)?;
    Ok(WriteResponse { response_header: empty(), results, diagnostic_infos: diagnostics(codec, reader)? })
}

/// What the server says about each item, if it says anything.
fn diagnostics(codec: &Codec, reader: &mut Reader<'_>) -> Read<Option<Vec<DiagnosticInfo>>> {
    if reader.rest().is_empty() {
        return Ok(None);
    }
    let infos = reader.span(|reader| reader.each(1, Reader::skip_diagnostic_info))?;
    codec.decode(infos)
}

fn browse(codec: &Codec, reader: &mut Reader<'_>) -> Read<BrowseResponse> {
    let results: Option<Vec<BrowseResult>> = codec.field(reader)?;
    Ok(BrowseResponse { response_header: empty(), results, diagnostic_infos: None })
}

fn browse_next(codec: &Codec, reader: &mut Reader<'_>) -> Read<BrowseNextResponse> {
    let results: Option<Vec<BrowseResult>> = codec.field(reader)?;
    Ok(BrowseNextResponse { response_header: empty(), results, diagnostic_infos: None })
}

fn translate(codec: &Codec, reader: &mut Reader<'_>) -> Read<TranslateBrowsePathsToNodeIdsResponse> {
    let results: Option<Vec<BrowsePathResult>> = codec.field(reader)?;
    Ok(TranslateBrowsePathsToNodeIdsResponse { response_header: empty(), results, diagnostic_infos: None })
}

fn register_nodes(codec: &Codec, reader: &mut Reader<'_>) -> Read<RegisterNodesResponse> {
    Ok(RegisterNodesResponse { response_header: empty(), registered_node_ids: codec.field(reader)? })
}

fn unregister_nodes(_: &Codec, _: &mut Reader<'_>) -> Read<UnregisterNodesResponse> {
    Ok(UnregisterNodesResponse { response_header: empty() })
}

fn call(codec: &Codec, reader: &mut Reader<'_>) -> Read<CallResponse> {
    let mut results = Vec::new();
    for _ in 0..reader.array_len(16)? {
        results.push(call_result(codec, reader)?);
    }
    let diagnostic_infos = diagnostics(codec, reader)?;
    Ok(CallResponse { response_header: empty(), results: Some(results), diagnostic_infos })
}

fn call_result(codec: &Codec, reader: &mut Reader<'_>) -> Read<CallMethodResult> {
    let status_code = codec.field(reader)?;
    let input_argument_results = codec.field(reader)?;
    reader.each(1, Reader::skip_diagnostic_info)?;
    let outputs = reader.span(|reader| reader.each(1, Reader::skip_variant))?;
    let output_arguments: Option<Vec<Variant>> = codec.decode(outputs)?;
    Ok(CallMethodResult {
        status_code,
        input_argument_results,
        input_argument_diagnostic_infos: None,
        output_arguments,
    })
}

fn create_subscription(codec: &Codec, reader: &mut Reader<'_>) -> Read<CreateSubscriptionResponse> {
    Ok(CreateSubscriptionResponse {
        response_header: empty(),
        subscription_id: codec.field(reader)?,
        revised_publishing_interval: codec.field(reader)?,
        revised_lifetime_count: codec.field(reader)?,
        revised_max_keep_alive_count: codec.field(reader)?,
    })
}

fn modify_subscription(codec: &Codec, reader: &mut Reader<'_>) -> Read<ModifySubscriptionResponse> {
    Ok(ModifySubscriptionResponse {
        response_header: empty(),
        revised_publishing_interval: codec.field(reader)?,
        revised_lifetime_count: codec.field(reader)?,
        revised_max_keep_alive_count: codec.field(reader)?,
    })
}

fn delete_subscriptions(codec: &Codec, reader: &mut Reader<'_>) -> Read<DeleteSubscriptionsResponse> {
    Ok(DeleteSubscriptionsResponse { response_header: empty(), results: codec.field(reader)?, diagnostic_infos: None })
}

fn set_publishing_mode(codec: &Codec, reader: &mut Reader<'_>) -> Read<SetPublishingModeResponse> {
    Ok(SetPublishingModeResponse { response_header: empty(), results: codec.field(reader)?, diagnostic_infos: None })
}

fn create_monitored_items(codec: &Codec, reader: &mut Reader<'_>) -> Read<CreateMonitoredItemsResponse> {
    Ok(CreateMonitoredItemsResponse { response_header: empty(), results: codec.field(reader)?, diagnostic_infos: None })
}

fn modify_monitored_items(codec: &Codec, reader: &mut Reader<'_>) -> Read<ModifyMonitoredItemsResponse> {
    Ok(ModifyMonitoredItemsResponse { response_header: empty(), results: codec.field(reader)?, diagnostic_infos: None })
}

fn delete_monitored_items(codec: &Codec, reader: &mut Reader<'_>) -> Read<DeleteMonitoredItemsResponse> {
    Ok(DeleteMonitoredItemsResponse { response_header: empty(), results: codec.field(reader)?, diagnostic_infos: None })
}

fn set_monitoring_mode(codec: &Codec, reader: &mut Reader<'_>) -> Read<SetMonitoringModeResponse> {
    Ok(SetMonitoringModeResponse { response_header: empty(), results: codec.field(reader)?, diagnostic_infos: None })
}

fn publish(codec: &Codec, reader: &mut Reader<'_>) -> Read<PublishResponse> {
    Ok(PublishResponse {
        response_header: empty(),
        subscription_id: codec.field(reader)?,
        available_sequence_numbers: codec.field(reader)?,
        more_notifications: codec.field(reader)?,
        notification_message: notification_message(codec, reader)?,
        results: codec.field(reader)?,
        diagnostic_infos: None,
    })
}

fn republish(codec: &Codec, reader: &mut Reader<'_>) -> Read<RepublishResponse> {
    Ok(RepublishResponse { response_header: empty(), notification_message: notification_message(codec, reader)? })
}

fn set_triggering(codec: &Codec, reader: &mut Reader<'_>) -> Read<SetTriggeringResponse> {
    let add_results = codec.field(reader)?;
    reader.each(1, Reader::skip_diagnostic_info)?;
    Ok(SetTriggeringResponse {
        response_header: empty(),
        add_results,
        add_diagnostic_infos: None,
        remove_results: codec.field(reader)?,
        remove_diagnostic_infos: None,
    })
}

fn transfer_subscriptions(codec: &Codec, reader: &mut Reader<'_>) -> Read<TransferSubscriptionsResponse> {
    let results = codec.field(reader)?;
    Ok(TransferSubscriptionsResponse { response_header: empty(), results, diagnostic_infos: None })
}

/// Values and events are opened, and who changed them; history of another kind is left out.
fn history_read(codec: &Codec, reader: &mut Reader<'_>) -> Read<HistoryReadResponse> {
    let mut results = Vec::new();
    for _ in 0..reader.array_len(11)? {
        let status_code = StatusCode::from(reader.u32()?);
        let continuation_point = codec.field(reader)?;
        let (id, body) = reader.extension_object()?;
        let history_data = history(codec, id, &mut Reader::new(body))?;
        results.push(HistoryReadResult { status_code, continuation_point, history_data });
    }
    Ok(HistoryReadResponse { response_header: empty(), results: Some(results), diagnostic_infos: None })
}

fn history(codec: &Codec, id: Option<u32>, body: &mut Reader<'_>) -> Read<ExtensionObject> {
    const VALUES: u32 = ObjectId::HistoryData_Encoding_DefaultBinary as u32;
    const MODIFIED_VALUES: u32 = ObjectId::HistoryModifiedData_Encoding_DefaultBinary as u32;
    const EVENTS: u32 = ObjectId::HistoryEvent_Encoding_DefaultBinary as u32;
    const MODIFIED_EVENTS: u32 = ObjectId::HistoryModifiedEvent_Encoding_DefaultBinary as u32;
    let values = |body: &mut Reader<'_>| codec.decode(body.span(|reader| reader.each(1, Reader::skip_data_value))?);
    let events = |body: &mut Reader<'_>| {
        codec.decode(body.span(|reader| reader.each(4, |reader| reader.each(1, Reader::skip_variant)))?)
    };
    let infos =
        |body: &mut Reader<'_>| {
            codec.decode(body.span(|reader| {
                reader.each(16, |reader| reader.bytes(12).and_then(|_| reader.byte_string().map(drop)))
            })?)
        };
    Ok(match id {
        Some(VALUES) => ExtensionObject::from_message(HistoryData { data_values: values(body)? }),
        Some(MODIFIED_VALUES) => {
            let (data_values, modification_infos) = (values(body)?, infos(body)?);
            ExtensionObject::from_message(HistoryModifiedData { data_values, modification_infos })
        }
        Some(EVENTS) => ExtensionObject::from_message(HistoryEvent { events: events(body)? }),
        Some(MODIFIED_EVENTS) => {
            let (events, modification_infos) = (events(body)?, infos(body)?);
            ExtensionObject::from_message(HistoryModifiedEvent { events, modification_infos })
        }
        _ => ExtensionObject::null(),
    })
}

fn history_update(codec: &Codec, reader: &mut Reader<'_>) -> Read<HistoryUpdateResponse> {
    let mut results = Vec::new();
    for _ in 0..reader.array_len(12)? {
        let status_code = StatusCode::from(reader.u32()?);
        let operation_results = codec.field(reader)?;
        reader.each(1, Reader::skip_diagnostic_info)?;
        results.push(HistoryUpdateResult { status_code, operation_results, diagnostic_infos: None });
    }
    Ok(HistoryUpdateResponse { response_header: empty(), results: Some(results), diagnostic_infos: None })
}

/// Data changes, events and status changes are opened; what else there may be is left out.
fn notification_message(codec: &Codec, reader: &mut Reader<'_>) -> Read<NotificationMessage> {
    const DATA_CHANGE: u32 = ObjectId::DataChangeNotification_Encoding_DefaultBinary as u32;
    const EVENTS: u32 = ObjectId::EventNotificationList_Encoding_DefaultBinary as u32;
    const STATUS_CHANGE: u32 = ObjectId::StatusChangeNotification_Encoding_DefaultBinary as u32;
    let sequence_number = codec.field(reader)?;
    let publish_time = DateTime::from(reader.i64()?.max(0));
    let mut parts = Vec::new();
    for _ in 0..reader.array_len(3)? {
        let (id, body) = reader.extension_object()?;
        let mut body = Reader::new(body);
        match id {
            Some(DATA_CHANGE) => parts.push(ExtensionObject::from_message(data_changes(codec, &mut body)?)),
            Some(EVENTS) => parts.push(ExtensionObject::from_message(events(codec, &mut body)?)),
            Some(STATUS_CHANGE) => {
                let status = StatusCode::from(body.u32()?);
                let diagnostic_info = DiagnosticInfo::default();
                parts.push(ExtensionObject::from_message(StatusChangeNotification { status, diagnostic_info }));
            }
            _ => {}
        }
    }
    let notification_data = (!parts.is_empty()).then_some(parts);
    Ok(NotificationMessage { sequence_number, publish_time, notification_data })
}

fn events(codec: &Codec, reader: &mut Reader<'_>) -> Read<EventNotificationList> {
    let events = reader.span(|reader| {
        reader.each(8, |reader| {
            reader.u32()?;
            reader.each(1, Reader::skip_variant)
        })
    })?;
    Ok(EventNotificationList { events: codec.decode(events)? })
}

fn data_changes(codec: &Codec, reader: &mut Reader<'_>) -> Read<DataChangeNotification> {
    let items = reader.span(|reader| {
        reader.each(5, |reader| {
            reader.u32()?;
            reader.skip_data_value()
        })
    })?;
    let monitored_items: Option<Vec<MonitoredItemNotification>> = codec.decode(items)?;
    Ok(DataChangeNotification { monitored_items, diagnostic_infos: None })
}
