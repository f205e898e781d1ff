//! CreateSession (OPC 10000-4 §5.7.2) and the end of sessions.

use std::sync::Arc;
use std::time::Duration;

use access_model::{AuditKind, AuditRecord, Now, Outcome, Reason};
use opcua_types::{
    ByteString, CloseSessionRequest, CloseSessionResponse, CreateSessionRequest, CreateSessionResponse,
    MessageSecurityMode, ResponseHeader, SignatureData, StatusCode, UAString,
};

use super::audit::{detail, event};
use super::codec::{response_header, write_message};
use super::dispatch::Request;
use super::endpoints::descriptions;
use super::ephemeral::{Asked, Given};
use super::occasion::{Creation, Ending, Told};
use super::parked::{Parked, What};
use super::session::{Binding, NONCE, NewSession};
use super::timers::{SessionKey, Timer};
use super::told::{is_ours, told, uncertified};
use super::{ConnId, Server, front};
use crate::Job;
use crate::crypto::SecurityPolicyId;
use crate::pki::{OwnIdentity, check_application_uri};
use crate::subscription::Subscriptions;

/// Longest session name kept.
const MAX_NAME: usize = 128;

/// What the signing job gives: the signature of the session, and the ephemeral key that was asked for.
pub(super) type Signed = Result<(Vec<u8>, Given), crate::crypto::CryptoFailure>;

impl Server {
    pub(super) fn create_session(&mut self, request: &Request<'_>, now: Now) -> Result<(), StatusCode> {
        if self.draining().is_some() {
            return Err(StatusCode::BadShutdown);
        }
        let asked: CreateSessionRequest = self.codec.decode(request.whole)?;
        let (binding, own) = self.channel_binding(request.conn).ok_or(StatusCode::BadSecureChannelClosed)?;
        if let Err((status, reason, text)) = self.check_create(&asked, &binding) {
            let actor = self.channel_actor(request.conn);
            let record = AuditRecord {
                detail: detail(text),
                ..event(now, AuditKind::SessionCreated, &actor, String::new(), Outcome::Denied(reason))
            };
            let told = || {
                Told::Created(Box::new(Creation {
                    channel: self.connections.get(&request.conn).map_or(0, |c| c.channel.channel_id()),
                    certificate: Some(asked.client_certificate.as_ref().to_vec()),
                    status: Some(status),
                    claimed_uri: asked.client_description.application_uri.to_string(),
                    ..Creation::default()
                }))
            };
            let told = if self.audit.heard() { told() } else { Told::Nothing };
            self.count_denial(None, AuditKind::SessionCreated, reason, now, record, || told);
            return Err(status);
        }
        self.make_room(request.conn, now)?;
        let key = self.add_session(request.conn, &asked, binding.clone(), now);
        let url = self.record_created(key, own.as_deref(), &asked, now);
        let parked = Parked {
            conn: request.conn,
            request_id: request.request_id,
            handle: request.header.handle,
            session: key,
            what: What::Create(url),
        };
        let (Some(peer), Some(own)) = (binding.peer, own.filter(|_| binding.policy != SecurityPolicyId::None)) else {
            let given = Asked::read(&asked.request_header.additional_header, binding.policy, &mut *self.entropy);
            self.respond_created(&parked, None, &given.unsigned(), now);
            return Ok(());
        };
        let wanted = Asked::read(&asked.request_header.additional_header, binding.policy, &mut *self.entropy);
        let policy = binding.policy.algorithms();
        let message = [peer.der(), asked.client_nonce.as_ref()].concat();
        let id = self.park(parked, request.header.timeout_hint, now);
        let sign = move || -> Signed { Ok((policy.sign(&own.key, &message)?, wanted.sign(&own)?)) };
        let job = Job::new(self.jobs.id_for(id), sign);
        if self.submit(job).is_err() {
            self.parked.take(id);
            self.end_session(key, StatusCode::BadTcpServerTooBusy, "too many private-key operations are waiting", now);
            return Err(StatusCode::BadTcpServerTooBusy);
        }
        Ok(())
    }

    /// How the channel of a connection is protected, and with which identity of ours.
    pub(super) fn channel_binding(&self, conn: ConnId) -> Option<(Binding, Option<Arc<OwnIdentity>>)> {
        let security = self.connections.get(&conn)?.channel.security()?;
        let binding = Binding { policy: security.policy, mode: security.mode, peer: security.peer.clone() };
        Some((binding, security.own.clone()))
    }

    fn check_create(
        &self,
        asked: &CreateSessionRequest,
        binding: &Binding,
    ) -> Result<(), (StatusCode, Reason, String)> {
        if !self.config.endpoints.contains(&(binding.policy, binding.mode)) {
            let text = "no endpoint offers sessions with this policy and mode".to_owned();
            return Err((StatusCode::BadSecurityPolicyRejected, Reason::ChannelPolicy, text));
        }
        let Some(peer) = &binding.peer else { return Ok(()) };
        // The channel proved a certificate; a session for another one would be somebody else's.
        let claimed = asked.client_certificate.as_ref();
        if !claimed.starts_with(peer.der()) {
            let text = "the certificate in CreateSession is not the channel's".to_owned();
            return Err((StatusCode::BadCertificateInvalid, Reason::CertificateInvalid, text));
        }
        if !(32..=128).contains(&asked.client_nonce.len()) {
            let text = format!("the client nonce has {} bytes", asked.client_nonce.as_ref().len());
            return Err((StatusCode::BadNonceInvalid, Reason::ProtocolMisbehavior, text));
        }
        check_application_uri(peer, asked.client_description.application_uri.as_ref())
            .map_err(|rejection| (rejection.status, rejection.reason, rejection.detail))
    }

    /// Room for one more session: the oldest that was never activated goes first (OPC 10000-4 §5.7.2.1).
    fn make_room(&mut self, conn: ConnId, now: Now) -> Result<(), StatusCode> {
        let limits = &self.config.limits;
        if self.connections.get(&conn).is_none_or(|c| c.unactivated >= limits.max_unactivated_per_connection) {
            return Err(StatusCode::BadTooManySessions);
        }
        if self.sessions.len() < limits.max_sessions {
            return Ok(());
        }
        let oldest = self.sessions.oldest_idle().ok_or(StatusCode::BadTooManySessions)?;
        self.end_session(oldest, StatusCode::BadSessionClosed, "it was not activated and its place was needed", now);
        Ok(())
    }

    fn add_session(&mut self, conn: ConnId, asked: &CreateSessionRequest, binding: Binding, now: Now) -> SessionKey {
        let limits = &self.config.limits;
        let mut random = [0; 16 + 32 + NONCE];
        self.entropy.fill(&mut random);
        let mut name = asked.session_name.as_ref().to_owned();
        let mut end = name.len().min(MAX_NAME);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
        let new = NewSession {
            name,
            conn,
            binding,
            now: now.mono,
            timeout: timeout(asked.requested_session_timeout, limits.min_session_timeout, limits.max_session_timeout),
            max_response: asked.max_response_message_size,
            max_browse_points: limits.max_continuation_points,
            actor: self.channel_actor(conn),
            subscriptions: Subscriptions::new(limits.subscriptions.clone()),
        };
        let key = self.sessions.add(new, &random);
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.unactivated += 1;
        }
        if let Some(session) = self.sessions.get(key) {
            self.timers.set(Timer::Session(key), session.core.deadline());
        }
        key
    }

    /// Records it, and gives the URL that the client is told.
    fn record_created(
        &mut self,
        key: SessionKey,
        own: Option<&OwnIdentity>,
        asked: &CreateSessionRequest,
        now: Now,
    ) -> String {
        let url = asked.endpoint_url.as_ref();
        let bare = self.config.channel.identity.load_full().for_bare_channels();
        let own = own.unwrap_or(&bare);
        let (told, known) = (told(&self.config, own, url).into_owned(), is_ours(&self.config, own, url));
        let uncertified = uncertified(own, url).filter(|_| !known);
        let uncertified = uncertified.map(|host| (host.to_owned(), own.certificate.der().to_vec()));
        let Some(session) = self.sessions.get(key) else { return told };
        let core = &session.core;
        let object = core.id.to_string();
        let mismatch = if known { String::new() } else { format!(", dialled as `{url}`") };
        let text =
            format!("session `{}` over {} in mode {:?}{mismatch}", core.name, core.binding.policy, core.binding.mode);
        let record = AuditRecord {
            detail: detail(text),
            ..event(now, AuditKind::SessionCreated, &core.actor, object, Outcome::Allowed)
        };
        let creation = || Creation {
            session: Some(core.id.clone()),
            channel: self.connections.get(&core.conn).map_or(0, |c| c.channel.channel_id()),
            certificate: core.binding.peer.as_ref().map(|peer| peer.der().to_vec()),
            timeout_ms: core.timeout.as_secs_f64() * 1_000.0,
            foreign_url: (!known).then(|| url.to_owned()),
            uncertified: uncertified.clone(),
            ..Creation::default()
        };
        self.audit.tell(record, || Told::Created(Box::new(creation())));
        told
    }

    /// The signature is made, or none is needed.
    pub(super) fn respond_created(&mut self, parked: &Parked, signature: Option<Vec<u8>>, given: &Given, now: Now) {
        let key = parked.session;
        if let Some(session) = self.sessions.get_mut(key) {
            session.core.ephemeral = given.key();
            self.audit.meters().create.observe(now.mono.since(session.core.asked));
        }
        self.respond(parked.conn, parked.request_id, parked.handle, now, |server, out| {
            let session = server.sessions.get(key).ok_or(StatusCode::BadSessionClosed)?;
            let core = &session.core;
            let (_, own) = server.channel_binding(parked.conn).ok_or(StatusCode::BadSecureChannelClosed)?;
            let own = own.unwrap_or_else(|| server.config.channel.identity.load_full().for_bare_channels());
            let url = if let What::Create(url) = &parked.what { url.as_str() } else { "" };
            let server_signature = match signature {
                Some(signature) => SignatureData {
                    algorithm: UAString::from(core.binding.policy.algorithms().signature_uri()),
                    signature: ByteString::from(signature),
                },
                None => SignatureData::default(),
            };
            let response = CreateSessionResponse {
                response_header: ResponseHeader {
                    additional_header: given.header(),
                    ..response_header(now, parked.handle)
                },
                session_id: core.id.clone(),
                authentication_token: core.token(),
                revised_session_timeout: core.timeout.as_secs_f64() * 1_000.0,
                server_nonce: ByteString::from(core.nonce.to_vec()),
                server_certificate: ByteString::from(own.certificate.der().to_vec()),
                server_endpoints: Some(descriptions(&server.config, &own, url)),
                server_software_certificates: None,
                server_signature,
                max_request_message_size: server.config.limits.max_request_size,
            };
            write_message(out, &response, &server.codec.context(0))
        });
    }

    pub(super) fn close_session(&mut self, request: &Request<'_>, now: Now) -> Result<(), StatusCode> {
        let asked: CloseSessionRequest = self.codec.decode(request.whole)?;
        let Some(session) = self.sessions.by_token(request.header.token) else {
            return Err(self.unknown_token(request.conn, AuditKind::SessionClosed, now));
        };
        let key = session.core.key;
        if session.core.conn != request.conn {
            return Err(self.foreign_channel(key, request.conn, AuditKind::SessionClosed, now));
        }
        // What was sampled under a grant ends with it: subscriptions end with their session whatever the flag says. They
        // can be transferred before.
        let _ = asked.delete_subscriptions;
        self.end_session_as(Ending::Closed, key, StatusCode::BadSessionClosed, "its client closed it", now);
        self.respond(request.conn, request.request_id, request.header.handle, now, |server, out| {
            let response =
                CloseSessionResponse { response_header: response_header(now, asked.request_header.request_handle) };
            write_message(out, &response, &server.codec.context(0))
        });
        Ok(())
    }

    /// Ends a session: its parked requests and waiting Publish requests are answered with `status`, its subscriptions
    /// are deleted, its grant is released.
    pub(super) fn end_session(&mut self, key: SessionKey, status: StatusCode, why: &str, now: Now) {
        self.end_session_as(Ending::Terminated, key, status, why, now);
    }

    /// The same, told as what it was.
    pub(super) fn end_session_as(&mut self, how: Ending, key: SessionKey, status: StatusCode, why: &str, now: Now) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        session.subscriptions.close(status);
        self.pump_subscriptions(key, now);
        for id in self.parked.of_session(key, |_| true) {
            if let Some(parked) = self.unpark(id) {
                self.fault(parked.conn, parked.request_id, parked.handle, status, now);
            }
        }
        self.hand(front::Handed::Ended { key, status });
        self.account(key, now);
        self.hold_behind(key, 0);
        let Some(session) = self.sessions.remove(key) else { return };
        self.timers.clear(Timer::Session(key));
        self.timers.clear(Timer::Subscriptions(key));
        self.timers.clear(Timer::Renewal(key));
        let core = session.core;
        if let Some(login) = &core.login {
            self.gate.release(login.grant);
        }
        let record = AuditRecord {
            detail: why.to_owned(),
            ..event(now, AuditKind::SessionClosed, &core.actor, core.id.to_string(), Outcome::Allowed)
        };
        self.audit.tell(record, || Told::Ended { session: core.id.clone(), how });
        self.leave_connection(core.conn, core.login.is_some(), now);
        self.after(core.conn, now);
    }

    /// A session does not belong to this connection any more.
    pub(super) fn leave_connection(&mut self, conn: ConnId, was_active: bool, now: Now) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        if !was_active {
            connection.unactivated = connection.unactivated.saturating_sub(1);
            return;
        }
        connection.active = connection.active.saturating_sub(1);
        if connection.active == 0 {
            self.unsettle(conn, now);
        }
    }
}

fn timeout(asked: f64, least: Duration, most: Duration) -> Duration {
    let asked = if asked.is_finite() && asked > 0.0 { asked.min(1e12) } else { most.as_secs_f64() * 1_000.0 };
    Duration::try_from_secs_f64(asked / 1_000.0).unwrap_or(most).clamp(least, most.max(least))
}

/// Whether a mode is protected at all.
pub(super) fn protected(mode: MessageSecurityMode) -> bool {
    matches!(mode, MessageSecurityMode::Sign | MessageSecurityMode::SignAndEncrypt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_bounded() {
        let (least, most) = (Duration::from_secs(1), Duration::from_secs(100));
        for (asked, expected) in [
            (0.0, 100.0),
            (-1.0, 100.0),
            (f64::NAN, 100.0),
            (1.0, 1.0),
            (5_000.0, 5.0),
            (1e300, 100.0),
            (f64::INFINITY, 100.0),
        ] {
            assert_eq!(timeout(asked, least, most), Duration::from_secs_f64(expected), "{asked}");
        }
    }
}
