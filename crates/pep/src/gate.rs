//! The gate itself.

use access_model::{Mono, Now, Operation, Reason, Refusal, Rights, ScopeIndex};
use token::Verified;
use token::control::Update;

use crate::{Admission, ChannelBinding, FailState, GateConfig, GateEvent, GrantFacts, GrantId, Identity, InvalidGate, Standing, Verdict};

/// Grants, and the question whether an operation may pass under one.
///
/// Call [`Gate::handle_timeout`] before checks of a new input, so that what is over is over for good.
#[derive(Debug)]
pub struct Gate {
    config: GateConfig,
}

fn unfinished() -> Refusal {
    Refusal::new(Reason::NoGrant, "not built yet")
}

#[allow(missing_docs, unused_variables, clippy::unused_self, reason = "the shape only; bodies follow")]
impl Gate {
    pub fn new(config: GateConfig, now: Now) -> Result<Self, InvalidGate> {
        Ok(Self { config })
    }
    pub fn present(&mut self, token: &[u8], binding: &ChannelBinding, now: Now) -> Result<GrantId, Refusal> {
        Err(unfinished())
    }
    pub fn represent(&mut self, grant: GrantId, token: &[u8], binding: &ChannelBinding, now: Now) -> Result<(), Refusal> {
        Err(unfinished())
    }
    pub fn admit(&mut self, identity: &Identity, binding: &ChannelBinding, now: Now) -> Admission {
        Admission::Refused(unfinished())
    }
    pub fn check(&self, grant: GrantId, operation: Operation, now: Now) -> Verdict {
        Verdict::Deny(crate::Denial { reason: Reason::NoGrant, action: operation.action, scope: operation.scope, held: Rights::NONE })
    }
    pub fn rights(&self, grant: GrantId, scope: ScopeIndex, now: Now) -> Rights {
        Rights::NONE
    }
    /// Role names of the grant, each with the rights the session really has on the scope: for UserRolePermissions.
    pub fn role_permissions(&self, grant: GrantId, scope: ScopeIndex, now: Now) -> Vec<(&str, Rights)> {
        Vec::new()
    }
    pub fn standing(&self, grant: GrantId, now: Now) -> Standing {
        Standing::Gone
    }
    pub fn claims(&self, grant: GrantId) -> Option<&GrantFacts> {
        None
    }
    pub fn release(&mut self, grant: GrantId) {}
    /// Opens and applies a signed update.
    pub fn on_update(&mut self, update: &[u8], now: Now) -> Result<(), Refusal> {
        Err(unfinished())
    }
    pub fn apply_update(&mut self, update: Verified<Update>, now: Now) -> Result<(), Refusal> {
        Err(unfinished())
    }
    pub fn on_contact(&mut self, now: Now) {}
    pub fn on_contact_lost(&mut self, now: Now) {}
    pub fn fail_state(&self, now: Now) -> FailState {
        FailState::InStep
    }
    /// How many grants there are.
    pub fn len(&self) -> usize {
        0
    }
    pub fn is_empty(&self) -> bool {
        true
    }
    pub fn config(&self) -> &GateConfig {
        &self.config
    }
    pub fn set_issuers(&mut self, issuers: Vec<token::Issuer>) {
        self.config.issuers = issuers;
    }
    pub fn handle_timeout(&mut self, now: Now) {}
    pub fn poll_timeout(&self) -> Option<Mono> {
        None
    }
    pub fn poll_event(&mut self) -> Option<GateEvent> {
        None
    }
}
