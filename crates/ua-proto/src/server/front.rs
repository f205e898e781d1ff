//! What a guard in front of another server uses of this one: connections, channels, sessions, identities, grants and
//! the audit stay here; requests that need a node are handed on after they were authorized.

use std::collections::VecDeque;

use access_model::{Action, Denial, Now, Operation, Place, Reason, Rights, ScopeIndex, TwoPersons};
use opcua_types::{NodeId, StatusCode};
use pep::{Permit, Verdict};

pub(crate) use super::audit::{AuditLog, Counted, Denied, detail, event};
pub(crate) use super::codec::{write_diagnostics, write_header, write_len, write_no_diagnostics};
use super::desk::Sight;
use super::dispatch::Request;
pub(crate) use super::dispatch::Service;
use super::observed;
pub(crate) use super::observed::Sight as Sighted;
pub(crate) use super::occasion::{Calling, Told, Writing};
pub(crate) use super::services::attributes::{needed, user_access_level, user_write_mask};
pub(crate) use super::services::operations;
pub(crate) use super::services::read::Stamps;
pub(crate) use super::session::SessionCore;
pub(crate) use super::timers::SessionKey;
use super::{ConnId, Identities, Server, ServerConfig};
pub(crate) use crate::body::{Malformed, Reader, ticks};
use crate::event::Event;
use crate::interlock::{Change, Interlocks, Unapproved, consent};

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) conn: ConnId,
    pub(crate) request_id: u32,
    /// The RequestHandle of its header.
    pub(crate) handle: u32,
}

/// An authorized request.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) service: Service,
    pub(crate) ticket: Ticket,
    /// Milliseconds the client will wait; 0 for no opinion.
    pub(crate) timeout_hint: u32,
    /// Whether the client wants to be told of each item what is wrong with it.
    pub(crate) explain: bool,
    /// ClientAuditEntryId, while somebody listens to audit events.
    pub(crate) entry: String,
    /// Everything behind the RequestHeader.
    pub(crate) body: Vec<u8>,
}

/// What the front tells its guard, in the order in which it happened.
#[derive(Debug)]
pub(crate) enum Handed {
    /// A request of an activated session whose grant stands.
    Request { key: SessionKey, taken: Taken },
    /// The session belongs to another user from now on.
    OtherUser { key: SessionKey },
    /// The session's grant expired or was revoked.
    Over { key: SessionKey },
    /// The rights of the session may be others now; also said after each activation.
    Changed { key: SessionKey },
    /// The session's connection is gone, or is another: what waits there waits for nothing.
    Left { key: SessionKey },
    /// Something happened that clients may be told of.
    Event(Box<Event>),
    /// The session is over.
    Ended { key: SessionKey, status: StatusCode },
}

/// The parts of a server that a record takes.
pub(crate) struct Parts<'a> {
    pub(crate) audit: &'a mut AuditLog,
    pub(crate) session: &'a mut SessionCore,
}

impl Server {
    /// From now on requests that touch nodes are handed on.
    pub(crate) fn guarding(mut self) -> Self {
        self.handed = Some(VecDeque::new());
        self
    }

    /// As [`Server::guarding`], for some services only.
    #[cfg(test)]
    pub(crate) fn handing_on(mut self, which: fn(Service) -> bool) -> Self {
        self.hands_on = which;
        self.guarding()
    }

    /// Whether all that touches nodes is handed on.
    pub(super) fn is_guarding(&self) -> bool {
        self.handed.is_some() && (self.hands_on)(Service::Read)
    }

    /// Takes the next thing that was handed on.
    pub(crate) fn poll_handed(&mut self) -> Option<Handed> {
        self.handed.as_mut().and_then(VecDeque::pop_front)
    }

    /// Whether there is something that was handed on.
    pub(crate) fn has_handed(&self) -> bool {
        self.handed.as_ref().is_some_and(|queue| !queue.is_empty())
    }

    /// Tells the guard, if there is one.
    pub(super) fn hand(&mut self, handed: Handed) {
        if let Some(queue) = &mut self.handed {
            queue.push_back(handed);
        }
    }

    /// Hands a request on; `false` in a resource server, which serves it itself.
    #[inline]
    pub(super) fn hand_on(&mut self, service: Service, key: SessionKey, request: &Request<'_>) -> bool {
        let Some(queue) = self.handed.as_mut().filter(|_| (self.hands_on)(service)) else { return false };
        let ticket = Ticket { conn: request.conn, request_id: request.request_id, handle: request.header.handle };
        let body = request.rest.rest().to_vec();
        let entry = self.audit.entry().to_owned();
        let (timeout_hint, explain) = (request.header.timeout_hint, request.header.explain);
        let taken = Taken { service, ticket, timeout_hint, explain, entry, body };
        queue.push_back(Handed::Request { key, taken });
        true
    }

    /// Lends what a record about a session takes, if somebody is logged in.
    pub(crate) fn parts(&mut self, key: SessionKey) -> Option<Parts<'_>> {
        let Self { audit, sessions, .. } = self;
        let session = &mut sessions.get_mut(key)?.core;
        session.login.as_ref()?;
        Some(Parts { audit, session })
    }

    /// What a session may do in a scope at this moment.
    pub(crate) fn rights_of(&self, key: SessionKey, scope: ScopeIndex, now: Now) -> Rights {
        self.sight(key, now).map_or(Rights::NONE, |sight| sight.rights_in(scope))
    }

    fn sight(&self, key: SessionKey, now: Now) -> Option<Sight<'_>> {
        let core = &self.sessions.get(key)?.core;
        let login = core.login.as_ref()?;
        Some(Sight::of(core, login.grant, (&self.space, &self.gate), now))
    }

    /// Asks the gate and, for whoever has the right, whether the channel is good enough. In this order: restrictions must
    /// not tell of nodes that are hidden. None only in a build that permits everything.
    pub(crate) fn permit_in(
        &self,
        key: SessionKey,
        operation: Operation,
        browsing: bool,
        now: Now,
    ) -> Result<Option<Permit>, Denial> {
        if cfg!(feature = "danger-permit-always") {
            return Ok(None);
        }
        let Operation { action, scope, .. } = operation;
        let denial = |reason, held| Denial { reason, action, scope, held };
        let login = self.sessions.get(key).and_then(|session| session.core.login.as_ref());
        let (Some(login), Some(sight)) = (login, self.sight(key, now)) else {
            return Err(denial(Reason::NoGrant, Rights::NONE));
        };
        match self.gate.check(login.grant, operation, now) {
            Verdict::Permit(permit) if sight.too_weak(scope, browsing) => {
                let denial = denial(Reason::ChannelTooWeak, self.gate.granted(login.grant, scope, now));
                self.gate.in_spite_of(permit, denial, now).map(Some)
            }
            Verdict::Permit(permit) => Ok(Some(permit)),
            Verdict::Deny(denial) => Err(denial),
        }
    }

    /// What is to be said of a permit that the gate gave, by a guard that found out more.
    pub(crate) fn in_spite_of(
        &self,
        permit: Option<Permit>,
        denial: Denial,
        now: Now,
    ) -> Result<Option<Permit>, Denial> {
        match permit {
            Some(permit) => self.gate.in_spite_of(permit, denial, now).map(Some),
            None => Err(denial),
        }
    }

    /// Whether the gate only observes this session.
    pub(crate) fn observes(&self, key: SessionKey, now: Now) -> bool {
        let login = self.sessions.get(key).and_then(|session| session.core.login.as_ref());
        login.is_some_and(|login| self.gate.observes(login.grant, now))
    }

    /// What a session is granted in a scope, whether that is enforced or not.
    pub(crate) fn granted_to(&self, key: SessionKey, scope: ScopeIndex, now: Now) -> Rights {
        let login = self.sessions.get(key).and_then(|session| session.core.login.as_ref());
        login.map_or(Rights::NONE, |login| self.gate.granted(login.grant, scope, now))
    }

    /// Counts what a session does while the gate observes.
    pub(crate) fn observe(&mut self, key: SessionKey, sight: Sighted, node: &NodeId, now: Now) {
        let name = observed::name(node, &self.namespaces_behind);
        self.audit.observe(key, sight, name, now);
    }

    /// How the server behind numbers its namespaces: nodes are recorded by their URIs.
    pub(crate) fn set_namespaces_behind(&mut self, namespaces: &[String]) {
        self.namespaces_behind = namespaces.to_vec();
    }

    /// Where the workflow stands. What was observed before belongs to where it stood then.
    pub(crate) fn set_steps(&mut self, steps: String, now: Now) {
        if self.steps != steps {
            self.account_all(now);
            self.steps = steps;
            self.arm_audit();
        }
    }

    /// What a record is about, in the words that a policy is asked with.
    pub(crate) fn place(&self, key: SessionKey, scope: ScopeIndex, action: Action) -> Box<Place> {
        let config = self.gate.config();
        let login = self.sessions.get(key).and_then(|session| session.core.login.as_ref());
        Box::new(Place {
            server: config.audience.clone(),
            scope: config.map.name(scope).unwrap_or_default().to_owned(),
            action,
            steps: self.steps.clone(),
            roles: login.map(|login| login.role_names.clone()).unwrap_or_default(),
        })
    }

    /// Whether one session may take over what the other one has (OPC 10000-4 §5.14.7.1): the same user with the same
    /// application. Who is anonymous must have proven the application.
    pub(crate) fn same_owner(&self, one: SessionKey, other: SessionKey) -> bool {
        let core = |key| self.sessions.get(key).map(|session| &session.core);
        let (Some(one), Some(other)) = (core(one), core(other)) else { return false };
        let (Some(login), Some(before)) = (&one.login, &other.login) else { return false };
        let uri = |core: &SessionCore| {
            let peer = core.binding.peer.as_ref();
            peer.and_then(|certificate| certificate.application_uri()).map(str::to_owned)
        };
        let application = uri(one);
        login.proof == before.proof
            && login.same_user(before)
            && application == uri(other)
            && (login.user.is_some() || application.is_some())
    }

    /// From now on clients may log in like this; who is logged in stays. How tokens come in does not change.
    pub(crate) fn offer(&mut self, identities: Identities) {
        let issued = self.config.identities.issued.take();
        self.config.identities = Identities { issued, ..identities };
    }

    /// The sessions.
    pub(crate) fn session_keys(&self) -> Vec<SessionKey> {
        self.sessions.iter().map(|session| session.core.key).collect()
    }

    /// The names of the roles of a session's grant.
    pub(crate) fn roles_of(&self, key: SessionKey) -> Vec<String> {
        let login = self.sessions.get(key).and_then(|session| session.core.login.as_ref());
        let facts = login.and_then(|login| self.gate.claims(login.grant));
        facts.map(|facts| facts.roles.clone()).unwrap_or_default()
    }

    pub(crate) fn front_config(&self) -> &ServerConfig {
        &self.config
    }

    /// Who may receive events of this scope may receive audit events.
    pub(crate) fn audit_scope(&self) -> ScopeIndex {
        self.audit.scope()
    }

    /// Asks whether a second person approved of what a session changes; gives what its record says of it.
    pub(crate) fn consent(
        &mut self,
        key: SessionKey,
        change: (Change, &str),
        terms: &[TwoPersons],
        now: Now,
    ) -> Result<String, Unapproved> {
        let login = self.sessions.get(key).and_then(|session| session.core.login.as_ref());
        let grant = login.map(|login| login.grant).ok_or_else(Unapproved::nobody)?;
        consent(&mut self.gate, grant, change, terms, now)
    }

    /// What holds for values, and who changes them.
    pub(crate) fn interlocks(&mut self) -> &mut Interlocks {
        &mut self.interlocks
    }

    pub(crate) fn audit_log(&mut self) -> &mut AuditLog {
        &mut self.audit
    }

    pub(crate) fn session(&self, key: SessionKey) -> Option<&SessionCore> {
        self.sessions.get(key).map(|session| &session.core)
    }

    /// Answers a handed-on request with bytes, from the type id on.
    pub(crate) fn answer(&mut self, ticket: Ticket, most: u32, body: Result<Vec<u8>, StatusCode>, now: Now) {
        let Ticket { conn, request_id, handle } = ticket;
        self.respond(conn, request_id, handle, now, |_, out| {
            let body = body?;
            if most != 0 && body.len() > most as usize {
                return Err(StatusCode::BadResponseTooLarge);
            }
            *out = body;
            Ok(())
        });
    }

    /// Answers a handed-on request with a fault.
    pub(crate) fn refuse(&mut self, ticket: Ticket, status: StatusCode, now: Now) {
        self.fault(ticket.conn, ticket.request_id, ticket.handle, status, now);
    }

    /// Ends a session from behind.
    pub(crate) fn give_up(&mut self, key: SessionKey, status: StatusCode, why: &str, now: Now) {
        self.end_session(key, status, why, now);
    }

    /// Records that a client took requests back.
    pub(crate) fn cancelled(&mut self, key: SessionKey, handle: u32, count: u32, now: Now) {
        self.record_cancel(key, handle, count, now);
    }

    /// The number of a new subscription, unique among all sessions.
    pub(crate) fn next_subscription(&mut self) -> u32 {
        self.last_subscription = self.last_subscription.checked_add(1).unwrap_or(1);
        self.last_subscription
    }

    /// To be called after a guard has counted or recorded something.
    pub(crate) fn recorded_behind(&mut self, now: Now) {
        self.gate_events(now);
        self.arm_audit();
        self.tell_occasions(now);
    }
}
