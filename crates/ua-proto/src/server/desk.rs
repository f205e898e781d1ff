//! Where rights are checked: the one place from which services reach the gate.

use access_model::{Action, AuditKind, AuditRecord, Denial, Now, Operation, Outcome, Reason, Rights, ScopeIndex};
use opcua_types::StatusCode;
use pep::{Gate, GrantId, Permit, Verdict};

use super::audit::{AuditLog, Counted, Denied, event};
use super::codec::Codec;
use super::config::ServerConfig;
use super::session::SessionCore;
use crate::space::{NodeRef, Space};

/// What a service works with for the length of one request: borrowed parts of the server and one activated session.
pub(crate) struct Desk<'a> {
    pub(crate) config: &'a ServerConfig,
    pub(crate) codec: &'a Codec,
    pub(crate) space: &'a mut Space,
    pub(crate) gate: &'a Gate,
    pub(crate) audit: &'a mut AuditLog,
    pub(crate) session: &'a mut SessionCore,
    pub(crate) grant: GrantId,
    pub(crate) now: Now,
}

impl Desk<'_> {
    /// Asks the gate. Everything that is forwarded for a session goes through here and is counted here, but for the
    /// actions that have a record of their own, which their services write.
    #[inline]
    pub(crate) fn check(&mut self, action: Action, node: NodeRef) -> Result<(), Denial> {
        self.check_as(action, node, counted(action))
    }

    /// As [`Desk::check`], counted as `kind`.
    #[inline]
    pub(crate) fn check_as(&mut self, action: Action, node: NodeRef, kind: Option<Counted>) -> Result<(), Denial> {
        let scope = self.space.scope(node);
        if !cfg!(feature = "danger-permit-always") {
            match self.gate.check(self.grant, Operation { action, scope, node: u64::from(node.0) }, self.now) {
                Verdict::Permit(permit) => {
                    let (_, _tally) = permit.spend();
                }
                Verdict::Deny(denial) => return Err(denial),
            }
        }
        if let Some(kind) = kind
            && self.session.tallies.count(kind, scope)
        {
            self.audit.mark(self.session.key, self.now);
        }
        Ok(())
    }

    /// Asks the gate about an action that changes the plant. The permit is spent when it is carried out, and its record is
    /// written by the service. None only in a build that permits everything.
    pub(crate) fn permit(&self, action: Action, node: NodeRef) -> Result<Option<Permit>, Denial> {
        if cfg!(feature = "danger-permit-always") {
            return Ok(None);
        }
        let operation = Operation { action, scope: self.space.scope(node), node: u64::from(node.0) };
        match self.gate.check(self.grant, operation, self.now) {
            Verdict::Permit(permit) => Ok(Some(permit)),
            Verdict::Deny(denial) => Err(denial),
        }
    }

    /// Checks, records a denial, and says what the item's status is.
    #[inline]
    pub(crate) fn pass(&mut self, action: Action, node: NodeRef, kind: AuditKind) -> Result<(), StatusCode> {
        self.check(action, node).map_err(|denial| self.denied(&denial, node, kind))
    }

    /// Records a denial. Hidden nodes answer as if they were not there.
    #[cold]
    pub(crate) fn denied(&mut self, denial: &Denial, node: NodeRef, kind: AuditKind) -> StatusCode {
        self.record_denial(kind, denial.reason, denial.scope, node, &denial.to_string());
        if denial.hides() { StatusCode::BadNodeIdUnknown } else { StatusCode::BadUserAccessDenied }
    }

    /// Records that something was turned away at `node`.
    pub(crate) fn record_denial(
        &mut self,
        kind: AuditKind,
        reason: Reason,
        scope: ScopeIndex,
        node: NodeRef,
        detail: &str,
    ) {
        let denied = Denied { session: Some(self.session.key), kind, scope, reason };
        let (space, session, now) = (&*self.space, &*self.session, self.now);
        self.audit.denied(&denied, now, || {
            let object = space.id(node).to_string();
            let record = event(now, kind, &session.actor, object, Outcome::Denied(reason));
            AuditRecord {
                detail: detail.to_owned(),
                epoch: session.login.as_ref().and_then(|login| login.epoch),
                ..record
            }
        });
    }

    /// The rights the session has on a node now.
    pub(crate) fn rights(&self, node: NodeRef) -> Rights {
        self.gate.rights(self.grant, self.space.scope(node), self.now)
    }

    /// Whether the session may know that the node is there.
    pub(crate) fn visible(&self, node: NodeRef) -> bool {
        self.rights(node).contains(Rights::BROWSE)
    }
}

/// How an action is summed up; `None` for those with a record each.
fn counted(action: Action) -> Option<Counted> {
    match action {
        Action::Browse => Some(Counted::Browse),
        Action::Read | Action::ReadRolePermissions => Some(Counted::Read),
        _ => None,
    }
}
