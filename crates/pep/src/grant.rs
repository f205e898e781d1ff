//! Grants: what a peer may do now.

use access_model::{Epoch, Mono, Reason, Thumbprint, UnixTime};

/// A grant in its gate. Ids of grants that are gone are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// The channel that a token or an identity came over, as far as it was proven.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelBinding {
    /// The certificate whose private key the peer has shown to hold.
    pub certificate: Option<Thumbprint>,
    /// The ApplicationUri in that certificate.
    pub application: Option<String>,
    /// Whether the channel is encrypted.
    pub encrypted: bool,
    /// The peer's network address.
    pub address: Option<String>,
}

/// Who a peer is without a token. The caller has already proven it (password, signature).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Nobody in particular.
    Anonymous,
    /// A user whose password was right.
    User {
        /// The user name.
        name: String,
    },
    /// A user who signed with a certificate that is trusted for users.
    Certificate {
        /// The subject of the certificate.
        subject: String,
        /// The certificate.
        thumbprint: Thumbprint,
    },
}

impl Identity {
    /// The name in audit records.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Anonymous => "anonymous",
            Self::User { name } => name,
            Self::Certificate { subject, .. } => subject,
        }
    }
}

/// What is known about a grant besides its rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantFacts {
    /// The principal's name.
    pub subject: String,
    /// Who issued the token; `None` for a local grant.
    pub issuer: Option<String>,
    /// The ApplicationUri the token was issued to.
    pub client: Option<String>,
    /// Role names.
    pub roles: Vec<String>,
    /// Group names.
    pub groups: Vec<String>,
    /// The token's id (`jti`).
    pub id: Option<String>,
    /// The end as the token states it.
    pub expires: Option<UnixTime>,
    /// The snapshot it was decided under.
    pub epoch: Option<Epoch>,
    /// The client certificate the token is bound to.
    pub confirmation: Option<Thumbprint>,
}

/// How a grant stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is served.
    Live {
        /// When it ends if the wall clock is left alone.
        until: Mono,
    },
    /// Its time is over; a new token revives it.
    Expired {
        /// Since when.
        since: Mono,
    },
    /// It was revoked; a new token revives it.
    Revoked {
        /// Since when.
        since: Mono,
    },
    /// Something is lost, and the fail mode keeps it from being served.
    Suspended {
        /// What.
        reason: Reason,
    },
    /// There is no such grant, or no longer.
    Gone,
}
