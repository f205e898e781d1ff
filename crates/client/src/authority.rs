//! Tokens from an authority that is an OPC UA server (OPC 10000-12 §9.6), over a session that stays open.

use access_model::{Now, UnixTime};
use gates::opcua::client::CallError;
use opcua_types::{
    ByteString, CallMethodRequest, CallMethodResult, CallRequest, CallResponse, DateTime, ExtensionObject, NodeId,
    QualifiedName, ReadRequest, ReadResponse, ReadValueId, SignatureData, StatusCode, TimestampsToReturn, UAString,
    UserTokenPolicy, Variant,
};
use ua_proto::client::{NoEndpoint, Request, TokenIssuer};
use ua_proto::pki::Certificate;
use zeroize::Zeroizing;

use crate::error::{ClientError, TokenError};
use crate::explicit::Explicit;
use crate::nodes::{self, BrowseStep};
use crate::options::{ClientOptions, Login};
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
    methods: Methods,
    who: Who,
}

/// Whose tokens the session can ask for.
enum Who {
    /// Those of the session's own user (implicit flow).
    Session,
    /// Those of a person whose credentials go into the method (explicit flow).
    Explicit(Box<Explicit>),
    /// Nobody's: it can only refresh.
    Nobody,
}

/// What the service object has.
#[derive(Default)]
struct Methods {
    start_finish: Option<(NodeId, NodeId)>,
    refresh: Option<NodeId>,
    request: Option<NodeId>,
    describe: Option<NodeId>,
}

impl OpcUaAuthority {
    /// Opens the session and looks for the service and its methods.
    ///
    /// With `to_prove` only where the authority's certificate is one of those that may be given secrets; the channel then
    /// proves that it holds the key. The person logs in to the session, unless the server says that credentials go into
    /// the method, or the authority's sessions do not take such an identity.
    pub(crate) async fn open(
        issuer: &TokenIssuer,
        options: &ClientOptions,
        to_prove: bool,
    ) -> Result<Self, TokenError> {
        let login = &options.authority.login;
        let has_identity = matches!(login, Login::UserName { .. } | Login::ThisToken(_) | Login::Certificate(_));
        if !(has_identity && issuer.authorization_endpoint.is_some()) {
            match Connected::open(issuer, options, login, to_prove).await {
                Err(TokenError::Unreachable { source, .. })
                    if has_identity && matches!(*source, ClientError::Endpoint(NoEndpoint::NoIdentity { .. })) => {}
                connected => return Self::look(issuer, connected?, None).await,
            }
        }
        let connected = Connected::open(issuer, options, &Login::Anonymous, to_prove).await?;
        Self::look(issuer, connected, Some(options)).await
    }

    /// Opens a session of nobody, to refresh a token over it.
    pub(crate) async fn open_nameless(
        issuer: &TokenIssuer,
        options: &ClientOptions,
        to_prove: bool,
    ) -> Result<Self, TokenError> {
        let connected = Connected::open(issuer, options, &Login::Anonymous, to_prove).await?;
        let explicit = issuer.authorization_endpoint.is_some();
        let mut authority = Self::look(issuer, connected, explicit.then_some(options)).await?;
        if !explicit {
            authority.who = Who::Nobody;
        }
        Ok(authority)
    }

    async fn look(
        issuer: &TokenIssuer,
        connected: Connected,
        explicit: Option<&ClientOptions>,
    ) -> Result<Self, TokenError> {
        let session = connected.session.clone();
        let looked = Self::look_for(issuer, connected, explicit).await;
        if looked.is_err() {
            session.handle.close().await;
        }
        looked
    }

    async fn look_for(
        issuer: &TokenIssuer,
        connected: Connected,
        explicit: Option<&ClientOptions>,
    ) -> Result<Self, TokenError> {
        let url = issuer.authority_url.clone();
        let (object, methods) = find_service(issuer, &connected.session).await?;
        let mut authority = Self { url, session: connected.session, object, methods, who: Who::Session };
        if let Some(options) = explicit {
            let no_way = || TokenError::NoWay(authority.url.clone());
            let server = connected.server.ok_or_else(no_way)?;
            let offered = authority.policies().await?;
            let login = &options.authority.login;
            let chosen = Explicit::choose(login, &offered, &options.policies, server).ok_or_else(no_way)?;
            authority.who = Who::Explicit(Box::new(chosen));
        }
        Ok(authority)
    }

    /// The UserTokenPolicies of the service.
    async fn policies(&self) -> Result<Vec<UserTokenPolicy>, TokenError> {
        let describe = self.methods.describe.as_ref().ok_or_else(|| TokenError::NoMethod(self.url.clone()))?;
        let outputs = self.call(describe, Vec::new(), &self.url).await?;
        let Some(Variant::Array(array)) = outputs.into_iter().nth(2) else { return Err(TokenError::Malformed) };
        let policy = |value: &Variant| match value {
            Variant::ExtensionObject(object) => object.inner_as::<UserTokenPolicy>().cloned(),
            _ => None,
        };
        Ok(array.values.iter().filter_map(policy).collect())
    }

    /// Whether a token can be asked for without showing a secret again.
    pub(crate) const fn knows_the_person(&self) -> bool {
        matches!(self.who, Who::Session)
    }

    /// Fetches a token for the server `resource`, by the newest way that the authority has.
    pub(crate) async fn request(&self, resource: &str, roles: &[String]) -> Result<Fetched, TokenError> {
        match (&self.methods.start_finish, &self.methods.request, &self.who) {
            (_, _, Who::Nobody) => Err(TokenError::NoWay(self.url.clone())),
            (Some((start, finish)), ..) => self.start_and_finish(start, finish, resource, roles).await,
            (None, Some(request), Who::Session) => self.request_access_token(request, resource).await,
            (None, ..) => Err(TokenError::NoMethod(self.url.clone())),
        }
    }

    /// A new token for a refresh token, which is used up by that.
    pub(crate) async fn refresh(&self, resource: &str, secret: &str) -> Result<Fetched, TokenError> {
        let method = self.methods.refresh.as_ref().ok_or_else(|| TokenError::NoMethod(self.url.clone()))?;
        let at = now();
        let outputs = self.call(method, vec![resource.into(), secret.into()], resource).await?;
        let mut fetched = granted(outputs, at)?;
        // No new one: the old one goes on (OPC 10000-12 §9.6.8).
        if fetched.refresh.is_none() {
            fetched.refresh = Some(Zeroizing::new(secret.to_owned()));
        }
        Ok(fetched)
    }

    pub(crate) async fn close(self) {
        self.session.handle.close().await;
    }

    /// In the implicit flow the session says who asks, so no identity is passed.
    async fn start_and_finish(
        &self,
        start: &NodeId,
        finish: &NodeId,
        resource: &str,
        roles: &[String],
    ) -> Result<Fetched, TokenError> {
        let explicit = if let Who::Explicit(explicit) = &self.who { Some(explicit) } else { None };
        let policy = explicit.map_or_else(UAString::null, |explicit| explicit.policy_id());
        let requestor = explicit.map_or_else(ByteString::null, |explicit| explicit.requestor_data());
        let inputs = vec![resource.into(), Variant::String(policy), Variant::ByteString(requestor)];
        let mut started = self.call(start, inputs, resource).await?.into_iter();
        let data = match started.next() {
            Some(Variant::ByteString(data)) => data,
            _ => ByteString::null(),
        };
        let Some(Variant::Guid(request_id)) = started.next() else { return Err(TokenError::Malformed) };
        let at = now();
        let (identity, signature) = match explicit {
            Some(explicit) => explicit.identity(data.as_ref(), at.unix)?,
            None => {
                let none = SignatureData { algorithm: UAString::null(), signature: ByteString::null() };
                (Variant::ExtensionObject(ExtensionObject::null()), none)
            }
        };
        let roles: Vec<UAString> = roles.iter().map(|role| role.as_str().into()).collect();
        let inputs = vec![
            Variant::Guid(request_id),
            Variant::from(roles),
            identity,
            Variant::ExtensionObject(ExtensionObject::from_message(signature)),
        ];
        granted(self.call(finish, inputs, resource).await?, at)
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

/// The service object and its methods.
async fn find_service(issuer: &TokenIssuer, session: &Session) -> Result<(NodeId, Methods), TokenError> {
    let url = issuer.authority_url.clone();
    let unreachable = |source| TokenError::Unreachable { url: url.clone(), source: Box::new(source) };
    let namespaces = namespaces(session).await.map_err(unreachable)?;
    let unknown = |object: &str| TokenError::NoService { url: url.clone(), object: object.to_owned() };
    let position = namespaces.iter().position(|uri| uri == GDS).and_then(|at| u16::try_from(at).ok());
    let gds = position.ok_or_else(|| unknown(GDS))?;
    let object = match issuer.token_endpoint.as_deref() {
        Some(text) => nodes::expanded(text, &namespaces).ok_or_else(|| unknown(text))?,
        None => {
            let folder = NodeId::new(gds, SERVICES);
            let found = nodes::browse(session, folder, Some(ORGANIZES)).await.map_err(unreachable)?;
            let first = found.into_iter().next().ok_or_else(|| unknown("AuthorizationServices"))?;
            first.node_id.node_id
        }
    };
    let method =
        |name: &str| vec![BrowseStep { name: QualifiedName::new(gds, name), reference: NodeId::new(0, 47_u32) }];
    let wanted =
        ["StartRequestToken", "FinishRequestToken", "RefreshToken", "RequestAccessToken", "GetServiceDescription"];
    let found = nodes::translate(session, &object, &wanted.map(method)).await.map_err(unreachable)?;
    let mut found = found.into_iter();
    let mut next = || found.next().flatten();
    let (start, finish) = (next(), next());
    let methods = Methods { start_finish: start.zip(finish), refresh: next(), request: next(), describe: next() };
    Ok((object, methods))
}

/// Token, its end, refresh token and its end, as FinishRequestToken and RefreshToken give them.
fn granted(outputs: Vec<Variant>, at: Now) -> Result<Fetched, TokenError> {
    let mut outputs = outputs.into_iter();
    let token = token_in(outputs.next())?;
    let expires = match outputs.next() {
        Some(Variant::DateTime(expires)) => unix_time(&expires),
        _ => None,
    };
    let refresh = match outputs.next() {
        Some(Variant::String(secret)) if !secret.is_empty() => Some(Zeroizing::new(secret.to_string())),
        _ => None,
    };
    Ok(Fetched { refresh, ..Fetched::new(token, expires, at) })
}

/// A session to the authority, and the certificate that it uses there.
struct Connected {
    session: Session,
    server: Option<Certificate>,
}

impl Connected {
    async fn open(
        issuer: &TokenIssuer,
        options: &ClientOptions,
        login: &Login,
        to_prove: bool,
    ) -> Result<Self, TokenError> {
        let url = &issuer.authority_url;
        let unreachable = |source| TokenError::Unreachable { url: url.clone(), source: Box::new(source) };
        let options = ClientOptions { url: url.clone(), login: login.clone(), ..options.clone() };
        let found = discover(&options).await.map_err(unreachable)?;
        let server = Certificate::from_der(found.choice.endpoint.server_certificate.as_ref()).ok();
        let known = |shown: &Certificate| options.authority.known.iter().any(|known| known.shows(shown));
        if to_prove && !server.as_ref().is_some_and(known) {
            return Err(TokenError::UnknownAuthority(url.clone()));
        }
        let credential = login.credential().unwrap_or(ua_proto::client::Credential::Anonymous);
        let session = Session::open(&options, &found, credential).await.map_err(unreachable)?;
        Ok(Self { session, server })
    }
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
