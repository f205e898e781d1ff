//! Tokens from an authority that is an OPC UA server (OPC 10000-12 §9.6), over a session that stays open.

use access_model::UnixTime;
use gates::opcua::client::CallError;
use opcua_types::{
    ByteString, CallMethodRequest, CallMethodResult, CallRequest, CallResponse, DateTime, ExtensionObject, NodeId,
    QualifiedName, ReadRequest, ReadResponse, ReadValueId, SignatureData, StatusCode, TimestampsToReturn, UAString,
    Variant,
};
use ua_proto::client::{Request, TokenIssuer};
use ua_proto::pki::Certificate;
use zeroize::Zeroizing;

use crate::error::{ClientError, TokenError};
use crate::nodes::{self, BrowseStep};
use crate::options::ClientOptions;
use crate::session::{Session, discover};
use crate::tokens::{Fetched, now};

const GDS: &str = "http://opcfoundation.org/UA/GDS/";
/// The folder of authorization services, in the namespace of the GDS.
const SERVICES: u32 = 959;
/// Organizes.
const ORGANIZES: NodeId = NodeId { namespace: 0, identifier: opcua_types::Identifier::Numeric(35) };
const VALUE: u32 = 13;
/// Value of Server.NamespaceArray.
const NAMESPACE_ARRAY: u32 = 2255;

/// An open session to the authority and the methods that it has.
pub(crate) struct OpcUaAuthority {
    url: String,
    session: Session,
    object: NodeId,
    start_finish: Option<(NodeId, NodeId)>,
    request: Option<NodeId>,
}

impl OpcUaAuthority {
    /// Opens the session and looks for the service and its methods.
    ///
    /// With `to_prove` only where the authority's certificate is one of those that may be given secrets; the channel then
    /// proves that it holds the key.
    pub(crate) async fn open(
        issuer: &TokenIssuer,
        options: &ClientOptions,
        to_prove: bool,
    ) -> Result<Self, TokenError> {
        let session = connect(&issuer.authority_url, options, to_prove).await?;
        match Self::look(issuer, session.clone()).await {
            Ok(authority) => Ok(authority),
            Err(error) => {
                session.handle.close().await;
                Err(error)
            }
        }
    }

    async fn look(issuer: &TokenIssuer, session: Session) -> Result<Self, TokenError> {
        let url = issuer.authority_url.clone();
        let unreachable = |source| TokenError::Unreachable { url: url.clone(), source: Box::new(source) };
        let namespaces = namespaces(&session).await.map_err(unreachable)?;
        let unknown = |object: &str| TokenError::NoService { url: url.clone(), object: object.to_owned() };
        let position = namespaces.iter().position(|uri| uri == GDS).and_then(|at| u16::try_from(at).ok());
        let gds = position.ok_or_else(|| unknown(GDS))?;
        let object = match issuer.token_endpoint.as_deref() {
            Some(text) => nodes::expanded(text, &namespaces).ok_or_else(|| unknown(text))?,
            None => {
                let folder = NodeId::new(gds, SERVICES);
                let found = nodes::browse(&session, folder, Some(ORGANIZES)).await.map_err(unreachable)?;
                let first = found.into_iter().next().ok_or_else(|| unknown("AuthorizationServices"))?;
                first.node_id.node_id
            }
        };
        let method =
            |name: &str| vec![BrowseStep { name: QualifiedName::new(gds, name), reference: NodeId::new(0, 47_u32) }];
        let wanted = [method("StartRequestToken"), method("FinishRequestToken"), method("RequestAccessToken")];
        let found = nodes::translate(&session, &object, &wanted).await.map_err(unreachable)?;
        let mut found = found.into_iter();
        let (start, finish, request) = (found.next().flatten(), found.next().flatten(), found.next().flatten());
        Ok(Self { url, session, object, start_finish: start.zip(finish), request })
    }

    /// Fetches a token for the server `resource`, by the newest way that the authority has.
    pub(crate) async fn request(&self, resource: &str, roles: &[String]) -> Result<Fetched, TokenError> {
        match (&self.start_finish, &self.request) {
            (Some((start, finish)), _) => self.start_and_finish(start, finish, resource, roles).await,
            (None, Some(request)) => self.request_access_token(request, resource).await,
            (None, None) => Err(TokenError::NoMethod(self.url.clone())),
        }
    }

    pub(crate) async fn close(self) {
        self.session.handle.close().await;
    }

    /// The implicit flow: the session says who asks, so no identity is passed.
    async fn start_and_finish(
        &self,
        start: &NodeId,
        finish: &NodeId,
        resource: &str,
        roles: &[String],
    ) -> Result<Fetched, TokenError> {
        let inputs = vec![resource.into(), Variant::String(UAString::null()), Variant::ByteString(ByteString::null())];
        let started = self.call(start, inputs, resource).await?;
        let Some(Variant::Guid(request_id)) = started.into_iter().nth(1) else { return Err(TokenError::Malformed) };
        let roles: Vec<UAString> = roles.iter().map(|role| role.as_str().into()).collect();
        let signature = SignatureData { algorithm: UAString::null(), signature: ByteString::null() };
        let inputs = vec![
            Variant::Guid(request_id),
            Variant::from(roles),
            Variant::ExtensionObject(ExtensionObject::null()),
            Variant::ExtensionObject(ExtensionObject::from_message(signature)),
        ];
        let at = now();
        let mut outputs = self.call(finish, inputs, resource).await?.into_iter();
        let token = token_in(outputs.next())?;
        let expires = match outputs.next() {
            Some(Variant::DateTime(expires)) => unix_time(&expires),
            _ => None,
        };
        Ok(Fetched::new(token, expires, at))
    }

    /// The deprecated way of P0. The null identity asks for the one of the session (OPC 10000-12 v1.05 §9.6.5).
    async fn request_access_token(&self, method: &NodeId, resource: &str) -> Result<Fetched, TokenError> {
        let inputs = vec![Variant::ExtensionObject(ExtensionObject::null()), resource.into()];
        let at = now();
        let outputs = self.call(method, inputs, resource).await?;
        Ok(Fetched::new(token_in(outputs.into_iter().next())?, None, at))
    }

    async fn call(&self, method: &NodeId, inputs: Vec<Variant>, resource: &str) -> Result<Vec<Variant>, TokenError> {
        let refused =
            |status: StatusCode| TokenError::Refused { resource: resource.to_owned(), reason: status.to_string() };
        match call_method(&self.session, &self.object, method, inputs).await {
            Ok(result) if result.status_code.is_good() => Ok(result.output_arguments.unwrap_or_default()),
            Ok(result) => {
                tracing::debug!(%method, status = %result.status_code, inputs = ?result.input_argument_results, "a method failed");
                Err(refused(result.status_code))
            }
            Err(ClientError::Call(CallError::Service(status))) if is_answer(status) => Err(refused(status)),
            Err(source) => Err(TokenError::Unreachable { url: self.url.clone(), source: Box::new(source) }),
        }
    }
}

/// Whether a service result came from the authority, so that asking again over a new session is pointless.
fn is_answer(status: StatusCode) -> bool {
    let broken = [
        StatusCode::BadConnectionClosed,
        StatusCode::BadTimeout,
        StatusCode::BadSessionClosed,
        StatusCode::BadSessionIdInvalid,
        StatusCode::BadSessionNotActivated,
        StatusCode::BadSecureChannelClosed,
    ];
    !broken.contains(&status)
}

async fn connect(url: &str, options: &ClientOptions, to_prove: bool) -> Result<Session, TokenError> {
    let unreachable = |source| TokenError::Unreachable { url: url.to_owned(), source: Box::new(source) };
    let mut options = options.clone();
    options.url = url.to_owned();
    options.login = options.authority.login.clone();
    let found = discover(&options).await.map_err(unreachable)?;
    if to_prove {
        let shown = Certificate::from_der(found.choice.endpoint.server_certificate.as_ref()).ok();
        let known = |shown: &Certificate| options.authority.known.iter().any(|known| known.shows(shown));
        if !shown.is_some_and(|shown| known(&shown)) {
            return Err(TokenError::UnknownAuthority(url.to_owned()));
        }
    }
    let credential = options.login.credential().unwrap_or(ua_proto::client::Credential::Anonymous);
    Session::open(&options, &found, credential).await.map_err(unreachable)
}

pub(crate) async fn namespaces(session: &Session) -> Result<Vec<String>, ClientError> {
    let request = ReadRequest {
        request_header: Default::default(),
        max_age: 0.0,
        timestamps_to_return: TimestampsToReturn::Neither,
        nodes_to_read: Some(vec![ReadValueId {
            node_id: NodeId::new(0, NAMESPACE_ARRAY),
            attribute_id: VALUE,
            ..ReadValueId::default()
        }]),
    };
    let response = session.request(Request::Read(request), None).await?;
    let response = ReadResponse::try_from(response).map_err(CallError::Service)?;
    let value = response.results.into_iter().flatten().next().and_then(|result| result.value);
    let Some(Variant::Array(array)) = value else { return Ok(Vec::new()) };
    Ok(array
        .values
        .iter()
        .map(|uri| if let Variant::String(uri) = uri { uri.to_string() } else { String::new() })
        .collect())
}

/// Calls one method.
pub(crate) async fn call_method(
    session: &Session,
    object: &NodeId,
    method: &NodeId,
    inputs: Vec<Variant>,
) -> Result<CallMethodResult, ClientError> {
    let request = CallRequest {
        request_header: Default::default(),
        methods_to_call: Some(vec![CallMethodRequest {
            object_id: object.clone(),
            method_id: method.clone(),
            input_arguments: Some(inputs),
        }]),
    };
    let response = session.request(Request::Call(request), None).await?;
    let response = CallResponse::try_from(response).map_err(CallError::Service)?;
    response.results.into_iter().flatten().next().ok_or(ClientError::WrongCount { got: 0, asked: 1 })
}

fn token_in(output: Option<Variant>) -> Result<Zeroizing<Vec<u8>>, TokenError> {
    match output {
        Some(Variant::String(token)) if !token.is_empty() => Ok(Zeroizing::new(token.as_ref().as_bytes().to_vec())),
        _ => Err(TokenError::Malformed),
    }
}

fn unix_time(at: &DateTime) -> Option<UnixTime> {
    const FROM_1601_TO_1970: i64 = 11_644_473_600_000_000;
    (!at.is_null()).then(|| UnixTime::from_micros(at.ticks() / 10 - FROM_1601_TO_1970))
}
