//! The authority behind an OPC UA endpoint: the methods of AuthorizationServiceType (OPC 10000-12 §9.6). The server
//! machine hands a call out as an [`Invocation`]; this turns it into an [`Answer`].
//!
//! Offered are the *implicit* flow (the session's own user and the application certificate of the channel decide), and the
//! *explicit* one with a user name, a user certificate or a token of an identity provider. Passwords and tokens come in
//! clear inside the encrypted channel, as RsaEncryptedSecret, or in the legacy RSA form, as their policy says. Not offered:
//! secrets for elliptic curves, and user certificates in RequestAccessToken, which has nothing for them to sign.

mod identity;
mod pending;
mod policies;
mod proof;

use std::sync::{MutexGuard, PoisonError};

use access_model::{Reason, Refusal, UnixTime};
use opcua_types::{
    ByteString, DynEncodable, ExtensionObject, Guid, MessageSecurityMode, NodeId, StatusCode, UAString, Variant,
};
use ua_proto::server::{Answer, Caller, Invocation};
use ua_proto::space::{AuthorizationNodes, AuthorizationService, date_time};

use self::identity::{Presented, Sealed, signature};
use self::pending::{Challenge, Started};
use self::policies::{Kind, TokenPolicy};
use crate::core::{Authority, unavailable};
use crate::identify::Client;
use crate::issue::{Flow, Issued, Refreshing, TokenRequest};
use crate::turns::Asker;

pub(crate) use pending::Pending;
pub use policies::{IMPLICIT, ISSUED, USER_NAME};
pub use proof::OpcUaKeys;
pub(crate) use proof::Replays;

/// The most roles a request may name.
const MAX_ROLES: usize = 64;
/// Longest RequestorData.
const MAX_REQUESTOR_DATA: usize = 1_024;

impl Authority {
    /// What the nodes of this service tell, for `ua_proto::space::gds::add`.
    #[must_use]
    pub fn opcua_service<'a>(&'a self, name: &'a str, scope: access_model::ScopeIndex) -> AuthorizationService<'a> {
        AuthorizationService {
            name,
            uri: &self.inner.config.issuer,
            certificate: ByteString::from(self.service_certificate()),
            policies: self.token_policies().into_iter().map(TokenPolicy::described).collect(),
            request_access_token: self.inner.config.request_access_token,
            scope,
        }
    }

    fn token_policies(&self) -> Vec<TokenPolicy> {
        TokenPolicy::all(!self.inner.config.identity_issuers.is_empty(), self.inner.opcua.get().is_some())
    }

    /// Answers one method call.
    pub async fn answer(&self, nodes: &AuthorizationNodes, call: Invocation) -> Answer {
        let method = call.method_node;
        let outputs = if method == nodes.get_service_description {
            Ok(self.description())
        } else if method == nodes.start_request_token {
            self.start(&call).await
        } else if method == nodes.finish_request_token {
            self.finish(&call).await
        } else if method == nodes.refresh_token {
            self.refresh_call(&call).await
        } else if Some(method) == nodes.request_access_token && self.inner.config.request_access_token {
            self.request_access_token(&call).await
        } else {
            Err(StatusCode::BadMethodInvalid)
        };
        match outputs {
            Ok(outputs) => Answer { status: StatusCode::Good, input_results: Vec::new(), outputs },
            Err(status) => Answer { status, input_results: Vec::new(), outputs: Vec::new() },
        }
    }

    /// A session ended: what it began can no longer be finished.
    pub fn session_closed(&self, session: &NodeId) {
        self.pending().end_session(session);
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.inner.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn description(&self) -> Vec<Variant> {
        let policies: Vec<Variant> = self
            .token_policies()
            .into_iter()
            .map(|policy| {
                let body: Box<dyn DynEncodable> = Box::new(policy.described());
                Variant::ExtensionObject(ExtensionObject { body: Some(body) })
            })
            .collect();
        vec![
            Variant::String(self.inner.config.issuer.as_str().into()),
            Variant::ByteString(ByteString::from(self.service_certificate())),
            Variant::from((opcua_types::VariantScalarTypeId::ExtensionObject, policies)),
        ]
    }

    async fn start(&self, call: &Invocation) -> Result<Vec<Variant>, StatusCode> {
        let [resource, policy, requestor] = arguments(&call.inputs)?;
        encrypted(&call.caller)?;
        self.client(&call.caller).await?;
        let (resource, id) = (text(resource)?, text(policy)?);
        if !self.snapshot().plant().servers.contains_key(&resource) {
            return Err(StatusCode::BadNotFound);
        }
        if matches!(requestor, Variant::ByteString(random) if random.as_ref().len() > MAX_REQUESTOR_DATA) {
            return Err(StatusCode::BadInvalidArgument);
        }
        let named = self.token_policies().into_iter().find(|one| one.id() == id);
        if named.is_none() && !id.is_empty() {
            return Err(StatusCode::BadIdentityTokenInvalid);
        }
        let (challenge, data) = self.service_data(named);
        let now = self.now().unix;
        let expires = now + self.inner.config.pending_lifetime;
        let started = Started { session: call.caller.session.clone(), resource, policy: id, challenge, expires };
        let id = self.pending().start(started, self.inner.config.pending_max, now)?;
        Ok(vec![Variant::ByteString(data), Variant::Guid(Box::new(Guid::from_bytes(id)))])
    }

    /// ServiceData (OPC 10000-12 §9.6.6, table 149): the certificate that secrets are encrypted for, or what a user
    /// certificate has to sign.
    fn service_data(&self, policy: Option<TokenPolicy>) -> (Option<Challenge>, ByteString) {
        let own = self.inner.opcua.get().map(|keys| keys.identity.load_full());
        match (policy, own) {
            (Some(TokenPolicy { kind: Kind::Certificate, .. }), Some(own)) => {
                let challenge = Challenge::new(own);
                let data = ByteString::from(challenge.value.to_vec());
                (Some(challenge), data)
            }
            (Some(policy), Some(own)) if !policy.is_clear() => (None, ByteString::from(own.certificate.der().to_vec())),
            _ => (None, ByteString::null()),
        }
    }

    async fn finish(&self, call: &Invocation) -> Result<Vec<Variant>, StatusCode> {
        let [id, roles, identity, signature] = arguments(&call.inputs)?;
        encrypted(&call.caller)?;
        let client = self.client(&call.caller).await?;
        let Variant::Guid(id) = id else { return Err(StatusCode::BadInvalidArgument) };
        let roles = role_names(roles)?;
        let now = self.now().unix;
        let started = self.pending().finish(id.to_bytes(), &call.caller.session, now).ok_or(StatusCode::BadNotFound)?;
        let person = self.person(&call.caller, identity, Some((&started, signature))).await?;
        let request = TokenRequest {
            flow: Flow::RequestToken,
            person,
            application: client.uri,
            confirmation: client.certificate,
            audience: started.resource,
            roles: Some(roles).filter(|roles| !roles.is_empty()),
            break_glass: None,
            padding: 0,
            refresh: Refreshing::New,
            address: Some(call.caller.address.clone()),
        };
        let issued = self.issue(&request).await.map_err(|refusal| status(&refusal))?;
        Ok(token_outputs(&issued))
    }

    async fn refresh_call(&self, call: &Invocation) -> Result<Vec<Variant>, StatusCode> {
        let [resource, secret] = arguments(&call.inputs)?;
        encrypted(&call.caller)?;
        let client = self.client(&call.caller).await?;
        let (resource, secret) = (text(resource)?, text(secret)?);
        let address = Some(call.caller.address.clone());
        let issued = self.refresh(&secret, client.certificate, Some(&resource), address).await;
        issued.map(|issued| token_outputs(&issued)).map_err(|refusal| status(&refusal))
    }

    async fn request_access_token(&self, call: &Invocation) -> Result<Vec<Variant>, StatusCode> {
        let [identity, resource] = arguments(&call.inputs)?;
        encrypted(&call.caller)?;
        let client = self.client(&call.caller).await?;
        let person = self.person(&call.caller, identity, None).await?;
        let request = TokenRequest {
            flow: Flow::RequestAccessToken,
            person,
            application: client.uri,
            confirmation: client.certificate,
            audience: text(resource)?,
            roles: None,
            break_glass: None,
            padding: 0,
            refresh: Refreshing::No,
            address: Some(call.caller.address.clone()),
        };
        let issued = self.issue(&request).await.map_err(|refusal| status(&refusal))?;
        Ok(vec![Variant::String(issued.token.as_str().into())])
    }

    /// The privilege AccessTokenRequestor: the application certificate of the channel is registered.
    async fn client(&self, caller: &Caller) -> Result<Client, StatusCode> {
        let (Some(uri), Some(certificate)) = (&caller.application, caller.certificate) else {
            return Err(StatusCode::BadUserAccessDenied);
        };
        match self.client_by_uri(uri, certificate).await {
            Ok(client) => Ok(client),
            Err(refusal) => {
                let recorded = self.record_refusal(uri, Some(&caller.address), &refusal).await;
                Err(status(&recorded.err().unwrap_or(refusal)))
            }
        }
    }

    /// Who asks: the user of the session, or the one whose credentials are passed. `started` comes with the signature.
    async fn person(
        &self,
        caller: &Caller,
        identity: &Variant,
        started: Option<(&Started, &Variant)>,
    ) -> Result<Option<String>, StatusCode> {
        let (presented, id) = Presented::read(identity)?;
        let settled = started.map_or("", |(started, _)| started.policy.as_str());
        let policy = self.policy(presented.kind(), &id, settled).ok_or(StatusCode::BadIdentityTokenInvalid)?;
        let asker = Asker::new(&caller.address, caller.application.as_deref().unwrap_or_default());
        let (name, proven) = match presented {
            Presented::Implicit => return self.person_of_session(caller).await,
            Presented::UserName(name, sealed) => {
                let proven = self.person_by_sealed_password(&name, sealed, policy, caller, &asker).await?;
                (name, proven)
            }
            Presented::Issued(sealed) => {
                let opened = self.open_secret(sealed, policy, &asker).await?;
                ("identity provider".to_owned(), opened.and_then(|opened| self.person_by_opened_token(opened)))
            }
            Presented::Certificate(der) => {
                let (started, signed) = started.ok_or(StatusCode::BadIdentityTokenInvalid)?;
                let challenge = started.challenge.clone().ok_or(StatusCode::BadIdentityTokenInvalid)?;
                let signed = signature(signed)?;
                let proven = self.person_by_certificate(&der, signed, policy.security, challenge, &asker).await?;
                ("user certificate".to_owned(), proven)
            }
        };
        match proven {
            Ok(person) => Ok(Some(person)),
            Err(refusal) => Err(self.rejected(&name, caller, &refusal).await),
        }
    }

    /// The user of the session, unless the account was closed since the session was opened.
    async fn person_of_session(&self, caller: &Caller) -> Result<Option<String>, StatusCode> {
        if let Some(certificate) = caller.user_certificate {
            return match self.owner_of(certificate).await {
                Ok(person) => Ok(Some(person)),
                Err(refusal) => Err(self.rejected("user certificate", caller, &refusal).await),
            };
        }
        let Some(name) = &caller.user else { return Ok(None) };
        let row = self.inner.db.user(name).await.map_err(|error| status(&unavailable(error)))?;
        if row.is_some_and(|row| row.enabled) {
            return Ok(Some(name.clone()));
        }
        let closed = Refusal::new(Reason::UserCredentials, "the account was closed after the session was opened");
        Err(self.rejected(name, caller, &closed).await)
    }

    /// The policy that fits: the one StartRequestToken settled, else the one the identity names, else the clear one.
    fn policy(&self, kind: Kind, id: &str, settled: &str) -> Option<TokenPolicy> {
        if !id.is_empty() && !settled.is_empty() && id != settled {
            return None;
        }
        let id = if id.is_empty() { settled } else { id };
        let mut fitting = self.token_policies().into_iter().filter(|policy| policy.kind == kind);
        fitting.find(|policy| if id.is_empty() { policy.is_clear() } else { policy.id() == id })
    }

    /// A secret that does not open costs as much as a wrong password, and is told alike.
    async fn person_by_sealed_password(
        &self,
        name: &str,
        sealed: Sealed,
        policy: TokenPolicy,
        caller: &Caller,
        asker: &Asker,
    ) -> Result<Result<String, Refusal>, StatusCode> {
        let opened = match self.open_secret(sealed, policy, asker).await? {
            Ok(opened) => opened,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let (password, trouble) = match &opened {
            Ok(bytes) => match std::str::from_utf8(bytes) {
                Ok(password) => (password, None),
                Err(_) => ("", Some("the password is not UTF-8".to_owned())),
            },
            Err(detail) => ("", Some(detail.clone())),
        };
        let proven = self.person_by_password(name, password, &caller.address).await;
        Ok(match (trouble, proven) {
            (Some(_), Err(refusal)) if refusal.reason != Reason::UserCredentials => Err(refusal),
            // The work was done for its own sake.
            (Some(detail), _) => Err(Refusal::new(Reason::UserCredentials, detail)),
            (None, proven) => proven,
        })
    }

    fn person_by_opened_token(&self, opened: Result<zeroize::Zeroizing<Vec<u8>>, String>) -> Result<String, Refusal> {
        let token = opened.map_err(|detail| Refusal::new(Reason::TokenSecret, detail))?;
        self.person_by_token(&token)
    }

    /// Records why somebody was not believed; what they are told is one code.
    async fn rejected(&self, name: &str, caller: &Caller, refusal: &Refusal) -> StatusCode {
        match self.record_refusal(name, Some(&caller.address), refusal).await {
            Err(unavailable) => status(&unavailable),
            Ok(()) if refusal.reason == Reason::TooBusy => StatusCode::BadServerTooBusy,
            Ok(()) => StatusCode::BadIdentityTokenRejected,
        }
    }
}

fn arguments<const N: usize>(inputs: &[Variant]) -> Result<&[Variant; N], StatusCode> {
    inputs.try_into().map_err(|_| StatusCode::BadArgumentsMissing)
}

fn text(value: &Variant) -> Result<String, StatusCode> {
    match value {
        Variant::String(text) => Ok(text.as_ref().to_owned()),
        Variant::Empty => Ok(String::new()),
        _ => Err(StatusCode::BadInvalidArgument),
    }
}

fn role_names(value: &Variant) -> Result<Vec<String>, StatusCode> {
    match value {
        Variant::Empty => Ok(Vec::new()),
        Variant::Array(array) if array.values.len() <= MAX_ROLES => array.values.iter().map(text).collect(),
        _ => Err(StatusCode::BadInvalidArgument),
    }
}

fn encrypted(caller: &Caller) -> Result<(), StatusCode> {
    if caller.mode == MessageSecurityMode::SignAndEncrypt {
        Ok(())
    } else {
        Err(StatusCode::BadSecurityModeInsufficient)
    }
}

fn token_outputs(issued: &Issued) -> Vec<Variant> {
    let time = |at: UnixTime| Variant::DateTime(Box::new(date_time(at)));
    // Expiry times are never null (OPC 10000-12 §9.6.7); without a refresh token it ends with the access token.
    let (refresh, until) = match &issued.refresh {
        Some((secret, until)) => (UAString::from(secret.as_str()), *until),
        None => (UAString::null(), issued.expires),
    };
    vec![Variant::String(issued.token.as_str().into()), time(issued.expires), Variant::String(refresh), time(until)]
}

/// What a caller is told: no more than the group of the reason.
fn status(refusal: &Refusal) -> StatusCode {
    match refusal.reason {
        Reason::UnknownAudience => StatusCode::BadNotFound,
        Reason::UserCredentials | Reason::TokenConfirmation => StatusCode::BadIdentityTokenRejected,
        Reason::TooBusy => StatusCode::BadServerTooBusy,
        Reason::AuditUnavailable => StatusCode::BadResourceUnavailable,
        _ => StatusCode::BadUserAccessDenied,
    }
}
