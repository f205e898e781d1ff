//! The proof that one operation was checked.

use access_model::{Denial, Operation, Reason};

use crate::GrantId;

/// One operation that may be forwarded, once. Only [`Gate::check`](crate::Gate::check) makes one, and forwarding takes
/// it apart ([`Permit::spend`]), so nothing passes unchecked or uncounted.
///
/// It cannot be made by hand:
/// ```compile_fail
/// fn forge(operation: pep::Operation, grant: pep::GrantId) -> pep::Permit {
///     pep::Permit { operation, grant, against: None }
/// }
/// ```
/// ```compile_fail
/// fn forge(operation: pep::Operation, grant: pep::GrantId) -> pep::Permit {
///     pep::Permit::new(operation, grant)
/// }
/// ```
/// It cannot be used twice:
/// ```compile_fail
/// fn twice(permit: pep::Permit) {
///     let _ = permit.spend();
///     let _ = permit.spend();
/// }
/// ```
/// ```compile_fail
/// fn copy(permit: &pep::Permit) -> pep::Permit {
///     permit.clone()
/// }
/// ```
/// It is spent like this:
/// ```
/// fn forward(permit: pep::Permit) -> pep::Operation {
///     let (operation, tally) = permit.spend();
///     assert_eq!(tally.scope, operation.scope);
///     operation
/// }
/// ```
#[must_use = "an operation that was permitted is forwarded by spending its permit"]
#[derive(Debug, PartialEq, Eq)]
pub struct Permit {
    operation: Operation,
    grant: GrantId,
    against: Option<Reason>,
}

impl Permit {
    pub(crate) const fn new(operation: Operation, grant: GrantId) -> Self {
        Self { operation, grant, against: None }
    }

    /// Of a gate that observes. The first reason stays: it is what enforcement would have said.
    pub(crate) fn in_spite_of(mut self, reason: Reason) -> Self {
        self.against.get_or_insert(reason);
        self
    }

    /// What enforcement would have said no for; none of a gate that enforces.
    #[must_use]
    pub const fn against(&self) -> Option<Reason> {
        self.against
    }

    /// What it is about; it stays unspent.
    pub(crate) const fn parts(&self) -> (Operation, Tally) {
        let Operation { action, scope, .. } = self.operation;
        (self.operation, Tally { grant: self.grant, action, scope, against: self.against })
    }

    /// The operation to forward, together with what the audit must count for it.
    pub const fn spend(self) -> (Operation, Tally) {
        self.parts()
    }
}

/// What the audit counts for one forwarded operation (DESIGN D12): a record of its own for an action that changes the
/// plant, one more in the summary of its grant, scope and second for any other.
#[must_use = "every forwarded operation is accounted for"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tally {
    /// Under which grant.
    pub grant: GrantId,
    /// What was done.
    pub action: access_model::Action,
    /// Where.
    pub scope: access_model::ScopeIndex,
    /// What enforcement would have said no for: such an operation is never counted as allowed.
    pub against: Option<Reason>,
}

/// The answer to one check.
#[must_use = "a verdict that is not looked at enforces nothing"]
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may pass.
    Permit(Permit),
    /// It may not.
    Deny(Denial),
}
