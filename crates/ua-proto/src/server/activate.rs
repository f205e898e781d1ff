//! ActivateSession (OPC 10000-4 §5.7.3): first login, refresh, another user, another channel. Slow parts leave as jobs or
//! logins; until the last step nothing of the session changes, so its requests go on under the old grant, and a failed
//! activation leaves the session as it was.

use std::time::Duration;

use access_model::{AuditKind, AuditRecord, Now, Outcome, Place, Reason, Refusal};
use opcua_types::{
    ActivateSessionRequest, ActivateSessionResponse, ByteString, ExtensionObject, MessageSecurityMode, NodeId,
    ResponseHeader, StatusCode,
};
use pep::{Admission, ChannelBinding, GrantId, Identity};

use super::audit::{detail, event};
use super::codec::{response_header, write_message};
use super::config::EndpointSecurity;
use super::create::protected;
use super::dispatch::Request;
use super::ephemeral::{Asked, Given};
use super::identity::{Presented, TurnedAway};
use super::occasion::{Activating, Told, without_secret};
use super::parked::{Parked, What};
use super::proof::{Keys, Proven, Work};
use super::services::attributes::role_node;
use super::session::{Binding, Login, NONCE, Proof};
use super::timers::{SessionKey, Timer};
use super::{AskSecret, ConnId, LoginId, Output, Secret, Server, front};
use crate::Job;

/// An activation under way.
pub(crate) struct Activation {
    conn: ConnId,
    binding: Binding,
    presented: Presented,
    /// The session comes from another channel.
    moved: bool,
    /// What clients that listen are told: the identity without its secret, and what the client calls its request.
    shown: Shown,
    /// The ephemeral key for the next activation.
    given: Given,
    /// How long the authority was asked.
    elsewhere: Duration,
}

/// The identity without its secret and the ClientAuditEntryId; empty while nobody listens.
#[derive(Clone, Default)]
struct Shown {
    token: ExtensionObject,
    entry: String,
}

impl Activation {
    /// What the client presents.
    pub(super) const fn presented(&self) -> &Presented {
        &self.presented
    }

    /// The authority was asked for so long.
    pub(super) fn was_elsewhere(&mut self, time: Duration) {
        self.elsewhere += time;
    }
}

impl Server {
    pub(super) fn activate_session(&mut self, request: &Request<'_>, now: Now) -> Result<(), StatusCode> {
        let asked: ActivateSessionRequest = self.codec.decode(request.whole)?;
        let Some(session) = self.sessions.by_token(request.header.token) else {
            return Err(self.unknown_token(request.conn, AuditKind::SessionActivated, now));
        };
        let key = session.core.key;
        let shown = self.shown(&asked);
        let begun = self.begin_activation(key, request.conn, asked, now);
        let (mut activation, work) = match begun {
            Ok(begun) => begun,
            Err(away) => return Err(self.activation_refused(key, request.conn, &shown, &away, now)),
        };
        activation.shown = shown;
        let parked = Parked {
            conn: request.conn,
            request_id: request.request_id,
            handle: request.header.handle,
            session: key,
            what: What::Activate(Box::new(activation)),
        };
        if let Some(session) = self.sessions.get_mut(key) {
            session.core.activating = true;
            (session.core.last_seen, session.core.asked) = (now.mono, now.mono);
        }
        let id = self.park(parked, request.header.timeout_hint, now);
        if work.is_nothing() {
            self.proven(id, work.run(), now);
            return Ok(());
        }
        let job = Job::new(self.jobs.id_for(id), move || work.run());
        if self.submit(job).is_err() {
            let busy = TurnedAway::new(StatusCode::BadTcpServerTooBusy, Reason::TooBusy, "too many jobs are waiting");
            self.fail_activation(id, &busy, now);
        }
        Ok(())
    }

    fn shown(&self, asked: &ActivateSessionRequest) -> Shown {
        if !self.audit.heard() {
            return Shown::default();
        }
        Shown { token: without_secret(&asked.user_identity_token), entry: self.audit.entry().to_owned() }
    }

    /// Everything that can be said before any cryptography.
    fn begin_activation(
        &mut self,
        key: SessionKey,
        conn: ConnId,
        asked: ActivateSessionRequest,
        now: Now,
    ) -> Result<(Activation, Work), TurnedAway> {
        let (binding, own) = self.channel_binding(conn).ok_or_else(|| foreign("the channel is not open"))?;
        let session = self.sessions.get(key).ok_or_else(|| foreign("there is no such session"))?;
        let core = &session.core;
        if core.activating {
            let text = "another activation of this session is under way";
            return Err(TurnedAway::new(StatusCode::BadTooManyOperations, Reason::TooBusy, text));
        }
        let moved = core.conn != conn;
        if moved && core.login.is_none() {
            return Err(foreign("the first activation came over another channel"));
        }
        if moved && !core.binding.same(&binding) {
            return Err(foreign("the new channel has another certificate, policy or mode"));
        }
        let endpoint: EndpointSecurity = (binding.policy, binding.mode);
        let identities = &self.config.identities;
        let (presented, policy) =
            Presented::read(identities, endpoint, asked.user_identity_token, asked.user_token_signature)?;
        // An authentication token can be seen on a channel that is not encrypted; with nothing else to show, whoever saw
        // it could take the session over (OPC 10000-4 §5.7.3.1).
        if moved && matches!(presented, Presented::Anonymous) && binding.mode != MessageSecurityMode::SignAndEncrypt {
            return Err(foreign("an anonymous session cannot move to a channel that is not encrypted"));
        }
        let wanted = Asked::read(&asked.request_header.additional_header, binding.policy, &mut *self.entropy);
        let keys = Keys { own, nonce: core.nonce, ephemeral: core.ephemeral.clone(), wanted };
        let work = Work::new(identities, &binding, keys, asked.client_signature, &presented, policy, now)?;
        let (shown, given, elsewhere) = (Shown::default(), Given::Nothing, Duration::ZERO);
        Ok((Activation { conn, binding, presented, moved, shown, given, elsewhere }, work))
    }

    /// The job is done: signatures are right and the secret is open, or not.
    pub(super) fn proven(&mut self, id: u64, proven: Proven, now: Now) {
        let (secret, given) = match proven {
            Ok(proven) => proven,
            Err(away) => return self.fail_activation(id, &away, now),
        };
        let Some(Parked { what: What::Activate(activation), .. }) = self.parked.get_mut(id) else { return };
        activation.given = given;
        match (&activation.presented, secret) {
            (Presented::Anonymous, _) => self.admit(id, &Identity::Anonymous, Proof::Anonymous, now),
            (Presented::UserName { name, .. }, Some(password)) => {
                let (name, identity) = (name.clone(), Identity::User { name: name.clone() });
                let Some(binding) = self.gate_binding(id) else { return };
                if let Some(request) = self.gate.asks(&identity, &binding) {
                    return self.ask_for(id, request, Some(AskSecret::Password(password)), now);
                }
                let Some(Parked { what: What::Activate(activation), .. }) = self.parked.get_mut(id) else { return };
                let address = self.connections.get(&activation.conn).map(|connection| connection.peer.clone());
                let address = address.unwrap_or_default();
                self.outputs.push_back(Output::Authenticate { id: LoginId(id), name, password, address });
            }
            (Presented::Certificate { certificate, .. }, _) => {
                let identity = Identity::Certificate {
                    subject: certificate.subject().to_owned(),
                    thumbprint: certificate.thumbprint(),
                };
                self.admit(id, &identity, Proof::Certificate, now);
            }
            (Presented::Token(_), Some(token)) => self.present(id, &token, now),
            (Presented::UserName { .. } | Presented::Token(_), None) => {
                let away =
                    TurnedAway::new(StatusCode::BadIdentityTokenInvalid, Reason::TokenSecret, "there is no secret");
                self.fail_activation(id, &away, now);
            }
        }
    }

    /// The shell checked a password.
    pub(super) fn authenticated(&mut self, id: LoginId, result: Result<Identity, Refusal>, now: Now) {
        let Some(Parked { what: What::Activate(activation), .. }) = self.parked.get_mut(id.0) else { return };
        if !matches!(activation.presented, Presented::UserName { .. }) {
            return;
        }
        match result {
            Ok(identity) => self.admit(id.0, &identity, Proof::Password, now),
            // One code for unknown users and wrong passwords; the audit knows more. A password that nobody looked at is
            // neither right nor wrong: its owner may try again.
            Err(refusal) => {
                let status = match refusal.reason {
                    Reason::TooBusy => StatusCode::BadTcpServerTooBusy,
                    _ => StatusCode::BadUserAccessDenied,
                };
                let away = TurnedAway { status, refusal };
                self.fail_activation(id.0, &away, now);
            }
        }
    }

    /// A proven identity without a token asks the gate.
    fn admit(&mut self, id: u64, identity: &Identity, proof: Proof, now: Now) {
        let Some(binding) = self.gate_binding(id) else { return };
        match self.gate.admit(identity, &binding, now) {
            Admission::Granted(grant) => self.granted(id, grant, proof, now),
            Admission::Ask(request) => self.ask_for(id, request, None, now),
            Admission::Refused(refusal) => {
                let away = TurnedAway { status: StatusCode::BadUserAccessDenied, refusal };
                self.fail_activation(id, &away, now);
            }
        }
    }

    /// A token asks the gate: as a refresh of the session's grant when it is the same subject's, else as a new one. A
    /// refused refresh leaves the old grant as it is.
    fn present(&mut self, id: u64, token: &Secret, now: Now) {
        let Some(binding) = self.gate_binding(id) else { return };
        let Some(parked) = self.parked.get_mut(id) else { return };
        let moved = matches!(&parked.what, What::Activate(activation) if activation.moved);
        let login = self.sessions.get(parked.session).and_then(|session| session.core.login.clone());
        let current = login.filter(|login| login.proof == Proof::Token).map(|login| login.grant);
        let presented = match current {
            None => self.gate.present(&token.0, &binding, now),
            Some(grant) => match self.gate.represent(grant, &token.0, &binding, now) {
                Ok(()) => Ok(grant),
                // Another subject may log in on the same channel only.
                Err(refusal) if refusal.reason == Reason::TokenSubject && !moved => {
                    self.gate.present(&token.0, &binding, now)
                }
                Err(refusal) => Err(refusal),
            },
        };
        match presented {
            Ok(grant) => self.granted(id, grant, Proof::Token, now),
            Err(refusal) => self.fail_activation(id, &TurnedAway::by_gate(refusal), now),
        }
    }

    /// What the gate is told about the channel of an activation.
    fn gate_binding(&mut self, id: u64) -> Option<ChannelBinding> {
        let Some(Parked { what: What::Activate(activation), conn, .. }) = self.parked.get_mut(id) else { return None };
        let peer = activation.binding.peer.as_ref();
        Some(ChannelBinding {
            certificate: peer.map(|certificate| certificate.thumbprint()),
            application: peer.and_then(|certificate| certificate.application_uri()).map(str::to_owned),
            encrypted: activation.binding.mode == MessageSecurityMode::SignAndEncrypt
                && protected(activation.binding.mode),
            address: self.connections.get(conn).map(|connection| connection.peer.clone()),
        })
    }

    /// The gate said yes: the session takes the grant, the channel and a new nonce, in one step.
    pub(super) fn granted(&mut self, id: u64, grant: GrantId, proof: Proof, now: Now) {
        let Some(parked) = self.unpark(id) else { return };
        let What::Activate(activation) = &parked.what else { return };
        let facts = self.gate.claims(grant);
        let user = facts.filter(|_| proof != Proof::Anonymous).map(|facts| facts.subject.clone());
        let login = Login {
            grant,
            proof,
            certificate: match &activation.presented {
                Presented::Certificate { certificate, .. } => Some(certificate.clone()),
                _ => None,
            },
            user,
            issuer: facts.and_then(|facts| facts.issuer.clone()),
            roles: facts
                .map(|facts| facts.roles.iter().filter_map(|role| role_node(role)).collect())
                .unwrap_or_default(),
            role_names: facts.map(|facts| Place::roles_of(&facts.roles)).unwrap_or_default(),
            epoch: facts.and_then(|facts| facts.epoch),
        };
        let token_id = facts.and_then(|facts| facts.id.clone());
        if let Err(away) = self.check_same_user(parked.session, activation.moved, &login) {
            self.release_unless_held(parked.session, grant);
            let status = self.activation_refused(parked.session, parked.conn, &activation.shown, &away, now);
            return self.fault(parked.conn, parked.request_id, parked.handle, status, now);
        }
        let first = self.take_login(&parked, activation, login, now);
        self.record_activated(parked.session, first, proof, (token_id.as_deref(), &activation.shown), now);
        self.respond_activated(&parked, &activation.given, now);
        self.recheck_session(parked.session, now);
        self.after(parked.conn, now);
    }

    /// A session that comes from another channel must come with the same ClientUserId.
    fn check_same_user(&self, key: SessionKey, moved: bool, new: &Login) -> Result<(), TurnedAway> {
        let old = self.sessions.get(key).and_then(|session| session.core.login.as_ref());
        if moved && old.is_none_or(|old| !old.same_user(new)) {
            let text = "the session came from another channel with another user";
            return Err(TurnedAway::new(StatusCode::BadUserAccessDenied, Reason::SessionChannel, text));
        }
        Ok(())
    }

    /// Gives a grant back that was made for an activation that failed after all.
    fn release_unless_held(&mut self, key: SessionKey, grant: GrantId) {
        let held = self.sessions.get(key).and_then(|session| session.core.login.as_ref()).map(|login| login.grant);
        if held != Some(grant) {
            self.gate.release(grant);
        }
    }

    /// Says whether it was the first activation.
    fn take_login(&mut self, parked: &Parked, activation: &Activation, login: Login, now: Now) -> bool {
        let mut nonce = [0; NONCE];
        self.entropy.fill(&mut nonce);
        let key = parked.session;
        let before = self.sessions.get(key).and_then(|session| session.core.login.as_ref());
        if before.is_some_and(|before| !before.same_user(&login)) {
            self.hand(front::Handed::OtherUser { key });
            self.parked.grant_over(key);
            self.give_up_parked(key, now);
        }
        self.account(key, now);
        if activation.moved {
            self.leave_channel(key, now);
        }
        self.forget_renewal(key);
        let Some(session) = self.sessions.get_mut(key) else { return false };
        let core = &mut session.core;
        let old = core.login.replace(login);
        let grant = core.login.as_ref().map(|login| login.grant);
        core.actor.name =
            core.login.as_ref().and_then(|login| login.user.clone()).unwrap_or_else(|| "anonymous".to_owned());
        core.nonce = nonce;
        core.ephemeral = activation.given.key();
        core.conn = activation.conn;
        core.binding = activation.binding.clone();
        core.last_seen = now.mono;
        self.timers.at_latest(Timer::Session(key), core.deadline());
        if let Some(connection) = self.connections.get_mut(&activation.conn) {
            core.actor.address = Some(connection.peer.clone());
            if old.is_none() {
                connection.unactivated = connection.unactivated.saturating_sub(1);
            }
            if old.is_none() || activation.moved {
                connection.active += 1;
            }
        }
        self.settle(activation.conn);
        let released = old.as_ref().map(|old| old.grant).filter(|old| Some(*old) != grant);
        if let Some(old) = released {
            self.gate.release(old);
        }
        old.is_none()
    }

    /// The session leaves its channel: what waits there is answered there, for nothing of it can follow.
    fn leave_channel(&mut self, key: SessionKey, now: Now) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let old = session.core.conn;
        session.subscriptions.turn_away_all(StatusCode::BadSecureChannelClosed);
        self.hand(front::Handed::Left { key });
        self.pump_subscriptions(key, now);
        self.leave_connection(old, true, now);
        self.after(old, now);
    }

    fn record_activated(
        &mut self,
        key: SessionKey,
        first: bool,
        proof: Proof,
        (token, shown): (Option<&str>, &Shown),
        now: Now,
    ) {
        let Some(core) = self.sessions.get(key).map(|session| &session.core) else { return };
        let kind = if first || proof != Proof::Token { AuditKind::SessionActivated } else { AuditKind::TokenRefreshed };
        let how = match proof {
            Proof::Anonymous => "anonymous",
            Proof::Password => "by password",
            Proof::Certificate => "by certificate",
            Proof::Token => "by token",
        };
        let text = token.map_or_else(|| how.to_owned(), |token| format!("{how} {token}"));
        let record = AuditRecord {
            detail: detail(text),
            epoch: core.login.as_ref().and_then(|login| login.epoch),
            ..event(now, kind, &core.actor, core.id.to_string(), Outcome::Allowed)
        };
        let roles = || core.login.iter().flat_map(|login| &login.roles).map(|role| NodeId::new(0, *role)).collect();
        let told = || Activating {
            session: Some(core.id.clone()),
            channel: self.connections.get(&core.conn).map_or(0, |c| c.channel.channel_id()),
            token: shown.token.clone(),
            roles: roles(),
            status: None,
            entry: shown.entry.clone(),
        };
        self.audit.tell(record, || Told::Activated(Box::new(told())));
    }

    fn respond_activated(&mut self, parked: &Parked, given: &Given, now: Now) {
        if let Some(session) = self.sessions.get(parked.session) {
            let took = now.mono.since(session.core.asked);
            self.audit.meters().activate.observe(took);
            if let What::Activate(activation) = &parked.what {
                self.audit.meters().activate_here.observe(took.saturating_sub(activation.elsewhere));
            }
        }
        self.respond(parked.conn, parked.request_id, parked.handle, now, |server, out| {
            let session = server.sessions.get(parked.session).ok_or(StatusCode::BadSessionClosed)?;
            let response = ActivateSessionResponse {
                response_header: ResponseHeader {
                    additional_header: given.header(),
                    ..response_header(now, parked.handle)
                },
                server_nonce: ByteString::from(session.core.nonce.to_vec()),
                results: None,
                diagnostic_infos: None,
            };
            write_message(out, &response, &server.codec.context(0))
        });
    }

    /// An activation that was under way fails.
    pub(super) fn fail_activation(&mut self, id: u64, away: &TurnedAway, now: Now) {
        let Some(parked) = self.unpark(id) else { return };
        let shown = match parked.what {
            What::Activate(activation) => activation.shown,
            _ => Shown::default(),
        };
        let status = self.activation_refused(parked.session, parked.conn, &shown, away, now);
        self.fault(parked.conn, parked.request_id, parked.handle, status, now);
        self.after(parked.conn, now);
    }

    /// Records a refused activation and says what the peer hears.
    fn activation_refused(
        &mut self,
        key: SessionKey,
        conn: ConnId,
        shown: &Shown,
        away: &TurnedAway,
        now: Now,
    ) -> StatusCode {
        let mut actor = self.channel_actor(conn);
        let object = self.sessions.get(key).map(|session| session.core.id.to_string()).unwrap_or_default();
        actor.session = Some(object.clone());
        let reason = away.refusal.reason;
        let record = AuditRecord {
            detail: detail(away.refusal.detail.as_str()),
            ..event(now, AuditKind::SessionActivated, &actor, object, Outcome::Denied(reason))
        };
        let told = Activating {
            session: self.sessions.get(key).map(|session| session.core.id.clone()),
            channel: self.connections.get(&conn).map_or(0, |c| c.channel.channel_id()),
            token: shown.token.clone(),
            roles: Vec::new(),
            status: Some(away.status),
            entry: shown.entry.clone(),
        };
        let told = || Told::Activated(Box::new(told));
        self.count_denial(Some(key), AuditKind::SessionActivated, reason, now, record, told);
        away.status
    }
}

fn foreign(detail: &str) -> TurnedAway {
    TurnedAway::new(StatusCode::BadSecureChannelIdInvalid, Reason::SessionChannel, detail)
}
