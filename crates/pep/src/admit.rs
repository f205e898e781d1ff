//! Clients that bring no token.

use crate::{ChannelBinding, GrantId, Identity, Refusal};

/// What becomes of an identity without a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It has a local grant.
    Granted(GrantId),
    /// The shell asks the authority for a token and presents it.
    Ask(GrantRequest),
    /// It is turned away.
    Refused(Refusal),
}

/// What the shell asks the authority for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRequest {
    /// Who asks.
    pub identity: Identity,
    /// Over which channel.
    pub binding: ChannelBinding,
    /// For which server.
    pub audience: String,
}
