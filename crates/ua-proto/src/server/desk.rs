//! Where rights are checked: the one place from which services reach the gate.

use access_model::{
    Action, AuditKind, AuditRecord, Denial, Now, Operation, Outcome, Reason, Restrictions, Rights, ScopeIndex,
};
use opcua_types::{MessageSecurityMode, StatusCode};
use pep::{Gate, GrantId, Permit, Verdict};

use super::audit::{AuditLog, Counted, Denied, event};
use super::codec::Codec;
use super::config::ServerConfig;
use super::occasion::Told;
use super::session::SessionCore;
use crate::interlock::Interlocks;
use crate::space::{NodeRef, Space};

/// What a service works with for the length of one request: borrowed parts of the server and one activated session.
pub(crate) struct Desk<'a> {
    pub(crate) config: &'a ServerConfig,
    pub(crate) codec: &'a Codec,
    pub(crate) space: &'a mut Space,
    pub(crate) gate: &'a mut Gate,
    pub(crate) audit: &'a mut AuditLog,
    pub(crate) interlocks: &'a mut Interlocks,
    pub(crate) session: &'a mut SessionCore,
    pub(crate) grant: GrantId,
    pub(crate) now: Now,
}

/// What a session may do on nodes at this moment: the rights of its grant, as far as its channel may carry them.
#[derive(Clone, Copy)]
pub(crate) struct Sight<'a> {
    space: &'a Space,
    gate: &'a Gate,
    grant: GrantId,
    /// The restrictions that its channel does not meet.
    unmet: Restrictions,
    now: Now,
}

impl<'a> Sight<'a> {
    /// The sight of an activated session.
    #[inline]
    pub(crate) fn of(session: &SessionCore, grant: GrantId, (space, gate): (&'a Space, &'a Gate), now: Now) -> Self {
        Self { space, gate, grant, unmet: unmet(session.binding.mode), now }
    }

    /// What the grant holds on a node.
    pub(crate) fn granted(&self, node: NodeRef) -> Rights {
        self.gate.rights(self.grant, self.space.scope(node), self.now)
    }

    /// What of it the channel is good enough for.
    pub(crate) fn rights(&self, node: NodeRef) -> Rights {
        self.rights_in(self.space.scope(node))
    }

    /// The same for every node of a scope.
    pub(crate) fn rights_in(&self, scope: ScopeIndex) -> Rights {
        let granted = self.gate.rights(self.grant, scope, self.now);
        match (self.too_weak(scope, false), self.too_weak(scope, true)) {
            (false, _) => granted,
            (true, false) => granted & Rights::BROWSE,
            (true, true) => Rights::NONE,
        }
    }

    /// Whether the session may know that the node is there.
    pub(crate) fn visible(&self, node: NodeRef) -> bool {
        self.rights(node).contains(Rights::BROWSE)
    }

    /// Whether the channel falls short of what the nodes of a scope ask for (OPC 10000-3 §8.56). Browsing is held to it
    /// only where they say so.
    #[inline]
    pub(crate) fn too_weak(&self, scope: ScopeIndex, browsing: bool) -> bool {
        if !self.space.restricts() || self.unmet.is_empty() {
            return false;
        }
        let asked = self.space.restrictions(scope);
        asked.touches(self.unmet) && (!browsing || asked.touches(Restrictions::BROWSE))
    }
}

/// The restrictions that a channel of this mode does not meet. Whoever stands at a desk has a session, so
/// SessionRequired is always met; services without one are not served at all.
#[inline]
fn unmet(mode: MessageSecurityMode) -> Restrictions {
    match mode {
        MessageSecurityMode::SignAndEncrypt => Restrictions::NONE,
        MessageSecurityMode::Sign => Restrictions::ENCRYPTION,
        _ => Restrictions::SIGNING | Restrictions::ENCRYPTION,
    }
}

impl Desk<'_> {
    /// What the session may do.
    #[inline]
    pub(crate) fn sight(&self) -> Sight<'_> {
        Sight::of(self.session, self.grant, (&*self.space, &*self.gate), self.now)
    }

    /// Asks the gate and, for whoever has the right, whether the channel is good enough. In this order: restrictions must
    /// not tell of nodes that are hidden. None only in a build that permits everything.
    fn ask(&self, action: Action, node: NodeRef, browsing: bool) -> Result<Option<Permit>, Denial> {
        if cfg!(feature = "danger-permit-always") {
            return Ok(None);
        }
        let scope = self.space.scope(node);
        match self.gate.check(self.grant, Operation { action, scope, node: u64::from(node.0) }, self.now) {
            Verdict::Permit(permit) if !self.sight().too_weak(scope, browsing) => Ok(Some(permit)),
            Verdict::Permit(_) => Err(self.channel_too_weak(action, scope)),
            Verdict::Deny(denial) => Err(denial),
        }
    }

    #[cold]
    fn channel_too_weak(&self, action: Action, scope: ScopeIndex) -> Denial {
        let held = self.gate.rights(self.grant, scope, self.now);
        Denial { reason: Reason::ChannelTooWeak, action, scope, held }
    }

    /// Asks whether something may be forwarded, which is counted as `kind`.
    fn check(&mut self, action: Action, node: NodeRef, kind: Option<Counted>, browsing: bool) -> Result<(), Denial> {
        if let Some(permit) = self.ask(action, node, browsing)? {
            let (_, _tally) = permit.spend();
        }
        self.count(kind, self.space.scope(node));
        Ok(())
    }

    /// Asks whether a value may be delivered; it is counted.
    pub(crate) fn check_delivery(&mut self, action: Action, node: NodeRef) -> Result<(), Denial> {
        self.check(action, node, Some(Counted::Notify), false)
    }

    /// Asks whether what happened at a node may be told out of history; it is counted.
    pub(crate) fn check_past(&mut self, node: NodeRef) -> Result<(), Denial> {
        self.check(Action::ReadHistory, node, Some(Counted::Read), false)
    }

    /// Asks the gate about an action that changes the plant. The permit is spent when it is carried out, and its record is
    /// written by the service. None only in a build that permits everything.
    pub(crate) fn permit(&self, action: Action, node: NodeRef) -> Result<Option<Permit>, Denial> {
        self.ask(action, node, false)
    }

    /// Checks, records a denial, and says what the item's status is. Everything that is forwarded for a session goes through
    /// here and is counted here, but for deliveries and for the actions that have a record of their own.
    #[inline]
    pub(crate) fn pass(&mut self, action: Action, node: NodeRef, kind: AuditKind) -> Result<(), StatusCode> {
        if cfg!(feature = "danger-permit-always") {
            self.count(counted(action), self.space.scope(node));
            return Ok(());
        }
        let scope = self.space.scope(node);
        if !self.sight().too_weak(scope, kind == AuditKind::Browse)
            && let operation = (Operation { action, scope, node: u64::from(node.0) })
            && let Some(permit) = self.gate.permit_at_once(self.grant, operation, self.now)
        {
            let (_, _tally) = permit.spend();
            self.count(counted(action), scope);
            return Ok(());
        }
        self.pass_at_length(action, node, kind)
    }

    #[cold]
    #[inline(never)]
    fn pass_at_length(&mut self, action: Action, node: NodeRef, kind: AuditKind) -> Result<(), StatusCode> {
        let browsing = kind == AuditKind::Browse;
        self.check(action, node, counted(action), browsing).map_err(|denial| self.denied(&denial, node, kind))
    }

    #[inline(always)]
    fn count(&mut self, kind: Option<Counted>, scope: ScopeIndex) {
        if kind.is_some_and(|kind| self.session.tallies.count(kind, scope)) {
            self.audit.mark(self.session.key, self.now);
        }
    }

    /// Records a denial. Hidden nodes answer as if they were not there.
    #[cold]
    pub(crate) fn denied(&mut self, denial: &Denial, node: NodeRef, kind: AuditKind) -> StatusCode {
        self.denied_and_told(denial, node, kind, || Told::Nothing)
    }

    /// The same for what clients are told of.
    #[cold]
    pub(crate) fn denied_and_told(
        &mut self,
        denial: &Denial,
        node: NodeRef,
        kind: AuditKind,
        told: impl FnOnce() -> Told,
    ) -> StatusCode {
        self.tell_denial(kind, denial.reason, denial.scope, node, &denial.to_string(), told);
        match denial.reason {
            _ if denial.hides() => StatusCode::BadNodeIdUnknown,
            Reason::ChannelTooWeak => StatusCode::BadSecurityModeInsufficient,
            _ => StatusCode::BadUserAccessDenied,
        }
    }

    /// Records that something was turned away at `node`, and says what clients are told of it.
    pub(crate) fn tell_denial(
        &mut self,
        kind: AuditKind,
        reason: Reason,
        scope: ScopeIndex,
        node: NodeRef,
        detail: &str,
        told: impl FnOnce() -> Told,
    ) {
        let denied = Denied { session: Some(self.session.key), kind, scope, reason };
        let (space, session, now) = (&*self.space, &*self.session, self.now);
        let record = || {
            let object = space.id(node).to_string();
            let record = event(now, kind, &session.actor, object, Outcome::Denied(reason));
            AuditRecord {
                detail: detail.to_owned(),
                epoch: session.login.as_ref().and_then(|login| login.epoch),
                ..record
            }
        };
        self.audit.denied(&denied, now, record, told);
    }

    /// Whether the session's channel is too weak for all but browsing this node.
    pub(crate) fn too_weak(&self, node: NodeRef) -> bool {
        self.sight().too_weak(self.space.scope(node), false)
    }

    /// Turns away what is to be monitored over a channel that is too weak for it.
    pub(crate) fn pass_channel(&mut self, node: NodeRef) -> Result<(), StatusCode> {
        if !self.too_weak(node) {
            return Ok(());
        }
        let (scope, held) = (self.space.scope(node), self.sight().granted(node));
        let denial = Denial { reason: Reason::ChannelTooWeak, action: Action::Read, scope, held };
        Err(self.denied(&denial, node, AuditKind::Notify))
    }

    /// The rights the session has on a node now, over this channel.
    pub(crate) fn rights(&self, node: NodeRef) -> Rights {
        self.sight().rights(node)
    }

    /// Whether the session may know that the node is there.
    pub(crate) fn visible(&self, node: NodeRef) -> bool {
        self.sight().visible(node)
    }
}

/// How an action is summed up; `None` for those with a record each.
fn counted(action: Action) -> Option<Counted> {
    match action {
        Action::Browse => Some(Counted::Browse),
        Action::Read | Action::ReadHistory | Action::ReadRolePermissions => Some(Counted::Read),
        _ => None,
    }
}
