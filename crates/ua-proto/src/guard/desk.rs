//! Where the guard decides: scopes, rights, denials and their records, for one request of one session.

use std::collections::BTreeMap;
use std::time::Duration;

use access_model::{Action, AuditKind, AuditRecord, Denial, Now, Operation, Outcome, Reason, Rights, ScopeIndex};
use opcua_types::{BinaryEncodable, ContextOwned, Guid, Identifier, NodeId, ObjectId, StatusCode};
use pep::Permit;

use super::config::GuardConfig;
use super::link::Link;
use super::survey::Mapping;
use crate::channel::SendError;
use crate::client::{RawRequest, Request, RequestError};
use crate::server::front::{Counted, Denied, Reader, SessionKey, Sighted, Told, detail, event};
use crate::server::{AuditFailMode, AuditId, Server};

/// How much longer than the client the guard waits to hear what a server has made.
const LATE: Duration = Duration::from_secs(3_600);

/// What a request is decided and forwarded with.
pub(super) struct Desk<'a> {
    pub(super) front: &'a mut Server,
    pub(super) link: &'a mut Link,
    pub(super) mapping: &'a Mapping,
    pub(super) config: &'a GuardConfig,
    /// Records that requests wait for.
    pub(super) records: &'a mut BTreeMap<AuditId, (SessionKey, u64)>,
    pub(super) key: SessionKey,
    /// The request's number in its link.
    pub(super) job: u64,
    /// When the client stops waiting.
    pub(super) deadline: access_model::Mono,
    /// What a look at a value found that enforcement turns away, while the gate observes.
    pub(super) doubt: Option<Denial>,
    pub(super) now: Now,
}

/// What the gate says of one item.
pub(super) enum Decision {
    /// It may pass. No permit only in a build that permits everything.
    Pass(Option<Permit>),
    /// The session may know of the node, but not do this; what it is told.
    Denied(StatusCode),
    /// The node is not there for this session.
    Hidden,
}

/// What becomes of an item that only asks.
pub(super) enum Way {
    /// It goes upstream.
    Real,
    /// It goes upstream about a node that never exists, of which these are the bytes.
    Never(Vec<u8>),
    /// It is answered here.
    Refused(StatusCode),
}

impl Decision {
    /// The status of an item that may not pass.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Hidden => StatusCode::BadNodeIdUnknown,
            Self::Denied(status) => *status,
            Self::Pass(_) => StatusCode::Good,
        }
    }
}

impl Desk<'_> {
    /// The scope of a node as this session names it.
    pub(super) fn scope(&self, id: &NodeId) -> ScopeIndex {
        match self.link.aliases.get(id) {
            Some(alias) => alias.scope,
            None => self.mapping.table.scope(id),
        }
    }

    /// The rights on a scope at this moment; none when the grant is over.
    pub(super) fn rights(&self, scope: ScopeIndex) -> Rights {
        if cfg!(feature = "danger-permit-always") {
            return Rights::ALL;
        }
        self.front.rights_of(self.key, scope, self.now)
    }

    /// Whether the session may know of what lies in this scope.
    pub(super) fn visible(&self, scope: ScopeIndex) -> bool {
        self.rights(scope).contains(Rights::BROWSE)
    }

    /// The node that an alias of this session stands for, or the node itself.
    pub(super) fn real(&self, id: &NodeId) -> NodeId {
        let alias = self.link.aliases.get(id).and_then(|alias| Reader::new(&alias.real).node_id().ok());
        alias.unwrap_or_else(|| id.clone())
    }

    /// Asks the gate, and whether the channel is good enough; nothing is counted or recorded.
    pub(super) fn ask(
        &self,
        action: Action,
        (id, scope): (&NodeId, ScopeIndex),
        kind: AuditKind,
    ) -> Result<Option<Permit>, Denial> {
        let browsing = kind == AuditKind::Browse;
        let permit = self.front.permit_in(self.key, Operation { action, scope, node: 0 }, browsing, self.now)?;
        let too_weak = if browsing { self.restricted_to_browse(id) } else { self.restricted(id) };
        if too_weak {
            let held = self.rights(scope);
            let denial = Denial { reason: Reason::ChannelTooWeak, action, scope, held };
            return self.front.in_spite_of(permit, denial, self.now);
        }
        Ok(permit)
    }

    /// Records a denial and says what the item is told.
    pub(super) fn turned_away(
        &mut self,
        kind: AuditKind,
        denial: &Denial,
        node: &NodeId,
        told: impl FnOnce() -> Told,
    ) -> StatusCode {
        let text = denial.to_string();
        deny(self.front, self.key, kind, denial.reason, (node, denial.scope), (&text, told), self.now);
        status_of(denial)
    }

    /// Whether what changes the plant waits for its record.
    pub(super) fn waits_for_records(&mut self) -> bool {
        self.front.audit_log().config().acknowledge
    }

    /// The record of a denial, for those that must not wait to be summed up.
    pub(super) fn record_of_denial(&mut self, kind: AuditKind, node: &NodeId, denial: &Denial) -> Option<AuditRecord> {
        let record = self.record_of(kind, node.to_string(), denial.to_string())?;
        Some(AuditRecord { outcome: Outcome::Denied(denial.reason), ..record })
    }

    /// Makes what clients are told only if one listens.
    pub(super) fn told(&mut self, told: impl FnOnce() -> Told) -> Told {
        if self.front.audit_log().heard() { told() } else { Told::Nothing }
    }

    /// What becomes of an item about a node: it is asked as it is, or of a node that never exists, or refused.
    pub(super) fn way(
        &mut self,
        action: Action,
        node: (&NodeId, ScopeIndex),
        kind: AuditKind,
        counted: Option<Counted>,
    ) -> Way {
        match self.pass(action, node, kind, counted) {
            Ok(()) => Way::Real,
            Err(Decision::Hidden) if self.config.hide_timing => Way::Never(self.never(node.0)),
            Err(decision) => Way::Refused(decision.status()),
        }
    }

    /// Asks the gate about one item, counts what passes as `counted`, and records what does not as `kind`.
    pub(super) fn decide(
        &mut self,
        action: Action,
        node: (&NodeId, ScopeIndex),
        kind: AuditKind,
        counted: Option<Counted>,
    ) -> Decision {
        let permit = self.ask(action, node, kind);
        let real = self.observes().then(|| self.real(node.0));
        let id = real.as_ref().unwrap_or(node.0);
        settle(self.front, self.key, (permit, action), (id, node.1), (kind, counted), self.now)
    }

    /// Whether denials are only recorded.
    pub(super) fn observes(&self) -> bool {
        self.front.observes(self.key, self.now)
    }

    /// Records what enforcement would have said of a node that is looked at on the way to another.
    pub(super) fn observe(&mut self, kind: AuditKind, action: Action, (id, scope): (&NodeId, ScopeIndex)) {
        if !self.observes() {
            return;
        }
        let held = self.front.granted_to(self.key, scope, self.now);
        observe(self.front, self.key, (kind, action, against(held, action)), (&self.real(id), scope), self.now);
    }

    /// What a look at an item found, while denials are only recorded: its permit will say so. Otherwise it holds.
    pub(super) fn doubts(&mut self, item: &super::change::Item, reason: Reason) -> bool {
        let Some(touched) = item.touched.first().filter(|_| self.observes()) else { return false };
        let (action, scope) = (touched.action, touched.scope);
        let held = self.front.granted_to(self.key, scope, self.now);
        self.doubt.get_or_insert(Denial { reason, action, scope, held });
        true
    }

    /// What somebody found in a request that enforcement turns away after the gate said yes; whether it passes all the
    /// same.
    pub(super) fn in_spite_of(&mut self, permits: &mut [Option<Permit>], denial: Denial) -> bool {
        let Some(first) = permits.first_mut() else { return false };
        match self.front.in_spite_of(first.take(), denial, self.now) {
            Ok(permit) => {
                *first = permit;
                true
            }
            Err(_) => false,
        }
    }

    /// As [`Desk::decide`] for what is forwarded at once: the permit is spent.
    pub(super) fn pass(
        &mut self,
        action: Action,
        node: (&NodeId, ScopeIndex),
        kind: AuditKind,
        counted: Option<Counted>,
    ) -> Result<(), Decision> {
        match self.decide(action, node, kind, counted) {
            Decision::Pass(permit) => {
                let _accounted = permit.map(Permit::spend);
                Ok(())
            }
            other => Err(other),
        }
    }

    /// Records that something was turned away at a node.
    pub(super) fn deny(&mut self, kind: AuditKind, reason: Reason, node: (&NodeId, ScopeIndex), text: &str) {
        self.deny_and_tell(kind, reason, node, text, || Told::Nothing);
    }

    /// The same for what clients are told of.
    pub(super) fn deny_and_tell(
        &mut self,
        kind: AuditKind,
        reason: Reason,
        node: (&NodeId, ScopeIndex),
        text: &str,
        told: impl FnOnce() -> Told,
    ) {
        deny(self.front, self.key, kind, reason, node, (text, told), self.now);
    }

    /// A record of something that changes the plant and passes: allowed, or only observed.
    pub(super) fn record_of_passing(
        &mut self,
        kind: AuditKind,
        (node, action, scope): (&NodeId, Action, ScopeIndex),
        (text, against): (String, Option<Reason>),
    ) -> Option<AuditRecord> {
        let place = self.front.place(self.key, scope, action);
        let record = self.record_of(kind, node.to_string(), text)?;
        let outcome = against.map_or(Outcome::Allowed, Outcome::Observed);
        Some(AuditRecord { outcome, place: Some(place), ..record })
    }

    /// A record of something that is allowed and changes the plant.
    pub(super) fn record_of(&mut self, kind: AuditKind, object: String, text: String) -> Option<AuditRecord> {
        let now = self.now;
        let session = self.front.parts(self.key)?.session;
        Some(AuditRecord {
            detail: detail(text),
            epoch: session.login.as_ref().and_then(|login| login.epoch),
            ..event(now, kind, &session.actor, object, Outcome::Allowed)
        })
    }

    /// Records that the upstream server did not do what was allowed.
    pub(super) fn record_failed(
        &mut self,
        kind: AuditKind,
        object: String,
        status: StatusCode,
        told: impl FnOnce() -> Told,
    ) {
        if let Some(record) = self.record_of(kind, object, "the upstream server said so".to_owned()) {
            let record = AuditRecord { outcome: Outcome::Failed(status.bits()), ..record };
            self.front.audit_log().tell(record, told);
        }
    }

    /// Queues records; the last one asks for an acknowledgement that this request waits for. `false`: it need not wait.
    pub(super) fn keep(&mut self, records: Vec<(AuditRecord, Told)>) -> bool {
        let audit = self.front.audit_log();
        if !audit.config().acknowledge {
            records.into_iter().for_each(|(record, told)| audit.tell(record, || told));
            return false;
        }
        let Some(id) = audit.tell_acknowledged(records) else { return false };
        self.records.insert(id, (self.key, self.job));
        true
    }

    /// Refuses what changes the plant while the ledger cannot be written; the refusal asks for an acknowledgement, by
    /// which the guard learns that the ledger is back.
    pub(super) fn audit_open(&mut self, kind: AuditKind, object: &NodeId) -> Result<(), StatusCode> {
        let audit = self.front.audit_log();
        if audit.available() || audit.config().unavailable == AuditFailMode::Open {
            return Ok(());
        }
        if let Some(record) = self.record_of(kind, object.to_string(), String::new()) {
            let record = AuditRecord { outcome: Outcome::Denied(Reason::AuditUnavailable), ..record };
            self.front.audit_log().tell_acknowledged(vec![(record, Told::Nothing)]);
        }
        Err(StatusCode::BadResourceUnavailable)
    }

    /// The upstream server broke the protocol: recorded, and told to the client as `status`.
    pub(super) fn misbehaved(&mut self, status: StatusCode, text: &str) -> StatusCode {
        self.deny(AuditKind::Contact, Reason::ProtocolMisbehavior, (&NodeId::null(), ScopeIndex::NOWHERE), text);
        status
    }

    /// Sends a request upstream; its answer comes back to this request as `part`.
    pub(super) fn send(&mut self, ids: (ObjectId, ObjectId), body: Vec<u8>, part: u32) -> Result<(), StatusCode> {
        self.send_for(ids, body, part, Duration::ZERO)
    }

    /// The same for what makes something at the server: the answer is waited for when the client has given up, so that
    /// nothing is left there of which nobody knows.
    pub(super) fn send_making(&mut self, ids: (ObjectId, ObjectId), body: Vec<u8>) -> Result<(), StatusCode> {
        self.send_for(ids, body, 0, LATE)
    }

    /// The same for what changes the plant: until the answer comes nobody knows whether it still will.
    pub(super) fn send_changing(
        &mut self,
        ids: (ObjectId, ObjectId),
        body: Vec<u8>,
        part: u32,
    ) -> Result<(), StatusCode> {
        self.send_for(ids, body, part, self.config.limits.request_timeout)
    }

    fn send_for(
        &mut self,
        ids: (ObjectId, ObjectId),
        body: Vec<u8>,
        part: u32,
        longer: Duration,
    ) -> Result<(), StatusCode> {
        let time = self.deadline.since(self.now.mono).max(Duration::from_millis(1));
        let mut request = RawRequest::new(ids.0, ids.1, body);
        request.hint = Some(time);
        let call = self.link.request(Request::Raw(request), Some(time + longer), self.now).map_err(not_sent)?;
        self.link.in_flight.insert(call, (self.job, part, self.now.mono));
        Ok(())
    }

    /// The bytes of a node that never exists, in the same namespace.
    pub(super) fn never(&self, like: &NodeId) -> Vec<u8> {
        let identifier = Identifier::Guid(Guid::from_bytes(self.mapping.never));
        encoded(&NodeId { namespace: like.namespace, identifier })
    }

    /// The bytes by which every session upstream knows a node.
    pub(super) fn lasting<'b>(&'b self, id: &NodeId, bytes: &'b [u8]) -> &'b [u8] {
        self.link.aliases.get(id).map_or(bytes, |alias| &alias.real)
    }

    /// The bytes by which the upstream server knows a node: those of the request, unless it is an alias that the server
    /// has forgotten.
    pub(super) fn known_as<'b>(&'b self, id: &NodeId, bytes: &'b [u8]) -> &'b [u8] {
        match self.link.aliases.get(id) {
            Some(alias) if alias.session != self.link.session => &alias.real,
            _ => bytes,
        }
    }
}

/// As [`Desk::decide`], where there is no request.
pub(super) fn check(
    front: &mut Server,
    key: SessionKey,
    action: Action,
    (id, scope): (&NodeId, ScopeIndex),
    kind: AuditKind,
    counted: Option<Counted>,
    now: Now,
) -> Decision {
    let permit = front.permit_in(key, Operation { action, scope, node: 0 }, kind == AuditKind::Browse, now);
    settle(front, key, (permit, action), (id, scope), (kind, counted), now)
}

/// Counts what may pass, and records what may not.
fn settle(
    front: &mut Server,
    key: SessionKey,
    (permit, action): (Result<Option<Permit>, Denial>, Action),
    (id, scope): (&NodeId, ScopeIndex),
    (kind, counted): (AuditKind, Option<Counted>),
    now: Now,
) -> Decision {
    let permit = match permit {
        Ok(permit) => permit,
        Err(denial) => {
            let told = || Told::Nothing;
            deny(front, key, kind, denial.reason, (id, denial.scope), (&denial.to_string(), told), now);
            return if denial.hides() { Decision::Hidden } else { Decision::Denied(status_of(&denial)) };
        }
    };
    if front.observes(key, now) {
        let kind = counted.map_or(kind, Counted::kind);
        observe(front, key, (kind, action, permit.as_ref().and_then(Permit::against)), (id, scope), now);
    } else if let Some(counted) = counted
        && let Some(parts) = front.parts(key)
        && parts.session.tallies.count(counted, scope)
    {
        parts.audit.mark(parts.session.key, now);
    }
    Decision::Pass(permit)
}

/// Counts what happens while the gate observes.
fn observe(
    front: &mut Server,
    key: SessionKey,
    (kind, action, against): (AuditKind, Action, Option<Reason>),
    (id, scope): (&NodeId, ScopeIndex),
    now: Now,
) {
    front.observe(key, Sighted { kind, action, scope, against }, id, now);
}

/// What enforcement says of an action to whoever holds this.
pub(super) fn against(held: Rights, action: Action) -> Option<Reason> {
    match held.contains(action.needed()) {
        true => None,
        false if held.is_empty() => Some(Reason::ScopeNotGranted),
        false => Some(Reason::RightMissing),
    }
}

/// As [`Desk::deny`], where there is no request.
pub(super) fn deny(
    front: &mut Server,
    key: SessionKey,
    kind: AuditKind,
    reason: Reason,
    (id, scope): (&NodeId, ScopeIndex),
    (text, told): (&str, impl FnOnce() -> Told),
    now: Now,
) {
    let place = action_of(kind).map(|action| front.place(key, scope, action));
    let Some(parts) = front.parts(key) else { return };
    let session = &*parts.session;
    let denied = Denied { session: Some(key), kind, scope, reason };
    let record = || AuditRecord {
        detail: detail(text),
        place,
        epoch: session.login.as_ref().and_then(|login| login.epoch),
        ..event(now, kind, &session.actor, id.to_string(), Outcome::Denied(reason))
    };
    parts.audit.denied(&denied, now, record, told);
}

/// The action that records of this kind are about, where it is always the same.
const fn action_of(kind: AuditKind) -> Option<Action> {
    match kind {
        AuditKind::Write => Some(Action::Write),
        AuditKind::Call => Some(Action::Call),
        AuditKind::Read | AuditKind::Notify => Some(Action::Read),
        AuditKind::Browse => Some(Action::Browse),
        _ => None,
    }
}

/// What an item is told that was turned away.
fn status_of(denial: &Denial) -> StatusCode {
    match denial.reason {
        _ if denial.hides() => StatusCode::BadNodeIdUnknown,
        Reason::ChannelTooWeak => StatusCode::BadSecurityModeInsufficient,
        _ => StatusCode::BadUserAccessDenied,
    }
}

/// Why a request did not go out.
pub(super) fn not_sent(error: RequestError) -> StatusCode {
    match error {
        RequestError::TooMany => StatusCode::BadTooManyOperations,
        RequestError::Send(SendError::TooLarge) => StatusCode::BadRequestTooLarge,
        RequestError::NotActive | RequestError::Send(_) => StatusCode::BadServerNotConnected,
    }
}

/// A service result of the upstream server as its guard's client may hear it. What concerns the upstream session or
/// channel is none of the client's: it would take its own session for lost.
pub(super) fn told(status: StatusCode) -> StatusCode {
    const OURS: [StatusCode; 14] = [
        StatusCode::BadSessionIdInvalid,
        StatusCode::BadSessionClosed,
        StatusCode::BadSessionNotActivated,
        StatusCode::BadSecureChannelIdInvalid,
        StatusCode::BadSecureChannelClosed,
        StatusCode::BadSecureChannelTokenUnknown,
        StatusCode::BadSecurityChecksFailed,
        StatusCode::BadSecurityPolicyRejected,
        StatusCode::BadConnectionClosed,
        StatusCode::BadConnectionRejected,
        StatusCode::BadIdentityTokenInvalid,
        StatusCode::BadIdentityTokenRejected,
        StatusCode::BadApplicationSignatureInvalid,
        StatusCode::BadNonceInvalid,
    ];
    if OURS.contains(&status) || !status.is_bad() { StatusCode::BadCommunicationError } else { status }
}

/// A value in binary.
pub(super) fn encoded<T: BinaryEncodable>(value: &T) -> Vec<u8> {
    value.encode_to_vec(&ContextOwned::default().context())
}

/// Bytes that a NodeId holds beside itself.
pub(super) fn text_of(node: &NodeId) -> usize {
    match &node.identifier {
        Identifier::String(name) => name.as_ref().len(),
        Identifier::ByteString(bytes) => bytes.value.as_ref().map_or(0, Vec::len),
        Identifier::Numeric(_) | Identifier::Guid(_) => 0,
    }
}

/// What becomes of a request.
pub(super) enum Progress {
    /// It waits for the upstream server or for a record.
    Waits,
    /// It is answered: the response from its type id on, or a fault.
    Done(Result<Vec<u8>, StatusCode>),
}

impl From<Result<Vec<u8>, StatusCode>> for Progress {
    fn from(result: Result<Vec<u8>, StatusCode>) -> Self {
        Self::Done(result)
    }
}
