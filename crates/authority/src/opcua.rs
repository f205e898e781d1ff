//! The authority behind an OPC UA endpoint: the methods of AuthorizationServiceType (OPC 10000-12 §9.6). The server
//! machine hands a call out as an [`Invocation`]; this turns it into an [`Answer`].
//!
//! Offered are the *implicit* flow (the session's own user and the application certificate of the channel decide) and
//! a user name with its password, in clear inside an encrypted channel. Not offered: user certificates and secrets in
//! EncryptedSecret form.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use access_model::{Reason, Refusal, UnixTime};
use opcua_types::{
    AnonymousIdentityToken, ByteString, DynEncodable, ExtensionObject, Guid, IssuedIdentityToken, MessageSecurityMode,
    NodeId, StatusCode, UAString, UserNameIdentityToken, UserTokenPolicy, UserTokenType, Variant,
};
use token::{Entropy, SystemEntropy};
use ua_proto::server::{Answer, Caller, Invocation};
use ua_proto::space::{AuthorizationNodes, AuthorizationService, date_time};

use crate::core::Authority;
use crate::identify::Client;
use crate::issue::{Flow, Issued, Refreshing, TokenRequest};

/// PolicyId of the implicit flow.
pub const IMPLICIT: &str = "implicit";
/// PolicyId of a user name with its password.
pub const USER_NAME: &str = "username";
/// PolicyId of a token of an identity provider.
pub const ISSUED: &str = "jwt";
const JWT: &str = "http://opcfoundation.org/UA/UserToken#JWT";
const NO_SECURITY_POLICY: &str = "http://opcfoundation.org/UA/SecurityPolicy#None";
/// RequestIds that one session may have open.
const PENDING_PER_SESSION: usize = 8;
/// The most roles a request may name.
const MAX_ROLES: usize = 64;

/// StartRequestTokens that wait for their FinishRequestToken.
#[derive(Debug, Default)]
pub(crate) struct Pending(BTreeMap<[u8; 16], Started>);

#[derive(Clone, Debug)]
struct Started {
    session: NodeId,
    resource: String,
    policy: String,
    expires: UnixTime,
}

impl Pending {
    pub(crate) fn forget(&mut self, now: UnixTime) {
        self.0.retain(|_, started| started.expires > now);
    }

    fn start(&mut self, started: Started, max: usize, now: UnixTime) -> Result<[u8; 16], StatusCode> {
        self.forget(now);
        let own = self.0.values().filter(|other| other.session == started.session).count();
        if self.0.len() >= max || own >= PENDING_PER_SESSION {
            return Err(StatusCode::BadServerTooBusy);
        }
        let mut id = [0_u8; 16];
        SystemEntropy::new().fill(&mut id);
        self.0.insert(id, started);
        Ok(id)
    }

    /// An id works once, in time, and only in the session that got it.
    fn finish(&mut self, id: [u8; 16], session: &NodeId, now: UnixTime) -> Option<Started> {
        self.forget(now);
        if self.0.get(&id)?.session != *session {
            return None;
        }
        self.0.remove(&id)
    }

    fn end_session(&mut self, session: &NodeId) {
        self.0.retain(|_, started| started.session != *session);
    }
}

impl Authority {
    /// What the nodes of this service tell, for `ua_proto::space::gds::add`.
    #[must_use]
    pub fn opcua_service<'a>(&'a self, name: &'a str, scope: access_model::ScopeIndex) -> AuthorizationService<'a> {
        AuthorizationService {
            name,
            uri: &self.inner.config.issuer,
            certificate: ByteString::from(self.service_certificate()),
            policies: self.token_policies(),
            request_access_token: self.inner.config.request_access_token,
            scope,
        }
    }

    fn token_policies(&self) -> Vec<UserTokenPolicy> {
        let policy = |id: &str, token_type, issued: &str| UserTokenPolicy {
            policy_id: id.into(),
            token_type,
            issued_token_type: if issued.is_empty() { UAString::null() } else { issued.into() },
            issuer_endpoint_url: UAString::null(),
            security_policy_uri: NO_SECURITY_POLICY.into(),
        };
        let mut all =
            vec![policy(IMPLICIT, UserTokenType::Anonymous, ""), policy(USER_NAME, UserTokenType::UserName, "")];
        if !self.inner.config.identity_issuers.is_empty() {
            all.push(policy(ISSUED, UserTokenType::IssuedToken, JWT));
        }
        all
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
                Variant::ExtensionObject(ExtensionObject { body: Some(Box::new(policy) as Box<dyn DynEncodable>) })
            })
            .collect();
        vec![
            Variant::String(self.inner.config.issuer.as_str().into()),
            Variant::ByteString(ByteString::from(self.service_certificate())),
            Variant::from((opcua_types::VariantScalarTypeId::ExtensionObject, policies)),
        ]
    }

    async fn start(&self, call: &Invocation) -> Result<Vec<Variant>, StatusCode> {
        let [resource, policy, _requestor] = arguments(&call.inputs)?;
        encrypted(&call.caller)?;
        self.client(&call.caller).await?;
        let (resource, policy) = (text(resource)?, text(policy)?);
        if !self.snapshot().plant().servers.contains_key(&resource) {
            return Err(StatusCode::BadNotFound);
        }
        let known = policy.is_empty() || self.token_policies().iter().any(|one| one.policy_id.as_ref() == policy);
        if !known {
            return Err(StatusCode::BadIdentityTokenInvalid);
        }
        let now = self.now().unix;
        let expires = now + self.inner.config.pending_lifetime;
        let started = Started { session: call.caller.session.clone(), resource, policy, expires };
        let id = self.pending().start(started, self.inner.config.pending_max, now)?;
        // No policy of ours needs data of the service (OPC 10000-12 §9.6.6, table 149).
        Ok(vec![Variant::ByteString(ByteString::null()), Variant::Guid(Box::new(Guid::from_bytes(id)))])
    }

    async fn finish(&self, call: &Invocation) -> Result<Vec<Variant>, StatusCode> {
        let [id, roles, identity, _signature] = arguments(&call.inputs)?;
        encrypted(&call.caller)?;
        let client = self.client(&call.caller).await?;
        let Variant::Guid(id) = id else { return Err(StatusCode::BadInvalidArgument) };
        let roles = role_names(roles)?;
        let now = self.now().unix;
        let started = self.pending().finish(id.to_bytes(), &call.caller.session, now).ok_or(StatusCode::BadNotFound)?;
        let person = self.person(&call.caller, identity, Some(&started.policy)).await?;
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

    /// Who asks: the user of the session, or the one whose credentials are passed.
    async fn person(
        &self,
        caller: &Caller,
        identity: &Variant,
        policy: Option<&str>,
    ) -> Result<Option<String>, StatusCode> {
        let implicit = || caller.user.clone();
        let body = match identity {
            Variant::Empty => return Ok(implicit()),
            Variant::ExtensionObject(object) if object.is_null() => return Ok(implicit()),
            Variant::ExtensionObject(object) => object,
            _ => return Err(StatusCode::BadIdentityTokenInvalid),
        };
        let fits = |id: &str| policy.is_none_or(|policy| policy.is_empty() || policy == id);
        let (name, proven) = if body.inner_is::<AnonymousIdentityToken>() {
            return if fits(IMPLICIT) { Ok(implicit()) } else { Err(StatusCode::BadIdentityTokenInvalid) };
        } else if let Some(given) = body.inner_as::<UserNameIdentityToken>().filter(|_| fits(USER_NAME)) {
            let name = given.user_name.as_ref().to_owned();
            if !given.encryption_algorithm.as_ref().is_empty() {
                return Err(StatusCode::BadIdentityTokenInvalid);
            }
            let bytes = given.password.value.as_deref().unwrap_or_default();
            let password = std::str::from_utf8(bytes).map_err(|_| StatusCode::BadIdentityTokenInvalid)?;
            let proven = self.person_by_password(&name, password).await;
            (name, proven)
        } else if let Some(given) = body.inner_as::<IssuedIdentityToken>().filter(|_| fits(ISSUED)) {
            let bytes = given.token_data.value.as_deref().unwrap_or_default();
            ("identity provider".to_owned(), self.person_by_token(bytes))
        } else {
            return Err(StatusCode::BadIdentityTokenInvalid);
        };
        match proven {
            Ok(person) => Ok(Some(person)),
            Err(refusal) => {
                let recorded = self.record_refusal(&name, Some(&caller.address), &refusal).await;
                recorded.map_err(|unavailable| status(&unavailable))?;
                Err(if refusal.reason == Reason::TooBusy {
                    StatusCode::BadServerTooBusy
                } else {
                    StatusCode::BadIdentityTokenRejected
                })
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn started(session: u32, expires: i64) -> Started {
        Started {
            session: NodeId::new(0, session),
            resource: "urn:m".into(),
            policy: IMPLICIT.into(),
            expires: UnixTime::from_seconds(expires),
        }
    }

    #[test]
    fn a_request_id_works_once_in_time_and_in_its_session() {
        let mut pending = Pending::default();
        let now = UnixTime::from_seconds(0);
        let id = pending.start(started(1, 60), 10, now).unwrap();
        assert!(pending.finish(id, &NodeId::new(0, 2), now).is_none(), "another session");
        assert!(pending.finish(id, &NodeId::new(0, 1), now).is_some());
        assert!(pending.finish(id, &NodeId::new(0, 1), now).is_none(), "used");
        let id = pending.start(started(1, 60), 10, now).unwrap();
        assert!(pending.finish(id, &NodeId::new(0, 1), UnixTime::from_seconds(60)).is_none(), "too late");
        let id = pending.start(started(1, 60), 10, now).unwrap();
        pending.end_session(&NodeId::new(0, 1));
        assert!(pending.finish(id, &NodeId::new(0, 1), now).is_none(), "session closed");
    }

    #[test]
    fn request_ids_are_bounded_by_session_and_altogether() {
        let mut pending = Pending::default();
        let now = UnixTime::from_seconds(0);
        for _ in 0..PENDING_PER_SESSION {
            pending.start(started(1, 60), 10, now).unwrap();
        }
        assert_eq!(pending.start(started(1, 60), 10, now), Err(StatusCode::BadServerTooBusy));
        pending.start(started(2, 60), 10, now).unwrap();
        pending.start(started(3, 60), 10, now).unwrap();
        assert_eq!(pending.start(started(4, 60), 10, now), Err(StatusCode::BadServerTooBusy));
        assert!(pending.start(started(4, 120), 10, UnixTime::from_seconds(61)).is_ok(), "old ones make room");
    }
}
