//! Checks of a token that can be taken away, to see that their absence is noticed.
//!
//! `trapkey demo --danger-without` and tests use this. No configuration reaches it: `xtask tidy` lists who may name it.

/// The one check that [`crate::danger_verify_without`] leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DangerWithout {
    /// None: everything is checked.
    #[default]
    Nothing,
    /// Every signature verifies.
    Signature,
    /// A header may name any algorithm; what names an unknown one (`none`) needs no signature.
    Algorithm,
    /// Tokens for other servers are taken.
    Audience,
    /// Tokens never end.
    Expiry,
}
