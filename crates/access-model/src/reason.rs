//! Why something was refused or denied: one variant per way, with one stable word used in logs, metric labels, audit
//! records and tests alike.

use std::fmt;

use crate::{Action, Rights, ScopeIndex};

macro_rules! reasons {
    ($($(#[$doc:meta])+ $variant:ident = $word:literal,)+) => {
        /// One way in which an operation, a token or a peer can be turned away.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason { $($(#[$doc])+ $variant,)+ }

        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The stable word for this reason.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// The reason with this word.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

reasons! {
    /// The session holds no grant.
    NoGrant = "no_grant",
    /// The grant's time is over.
    GrantExpired = "grant_expired",
    /// The grant was revoked.
    GrantRevoked = "grant_revoked",
    /// The grant holds nothing on this scope; the node is hidden.
    ScopeNotGranted = "scope_not_granted",
    /// The grant holds other rights on this scope, but not this one.
    RightMissing = "right_missing",
    /// The channel is not protected as the node asks for (OPC 10000-3 §8.56).
    ChannelTooWeak = "channel_too_weak",
    /// A policy obligation on the value was not met.
    ValueOutOfRange = "value_out_of_range",
    /// The value differs from the present one by more than is allowed at once.
    StepTooLarge = "step_too_large",
    /// The value was changed by more than is allowed in a second.
    RateTooHigh = "rate_too_high",
    /// A bound is taken against the present value, and that is not known, not good, or being changed.
    PresentValueUnknown = "present_value_unknown",
    /// A second person must approve.
    ApprovalNeeded = "approval_needed",
    /// The authority was out of reach for longer than the zone's fail mode allows.
    AuthorityLost = "authority_lost",
    /// The audit ledger could not be written and the fail mode is closed.
    AuditUnavailable = "audit_unavailable",
    /// Another guard stands in front of the server at the moment.
    StandingBy = "standing_by",
    /// No policy permits.
    PolicyNoPermit = "policy_no_permit",
    /// A policy forbids.
    PolicyForbids = "policy_forbids",
    /// Plant, policies or workflow cannot be read, are broken, or have no place for the present step; the old ones stay
    /// in force.
    PolicyBroken = "policy_broken",
    /// The workflow has no such transition, or none that is enabled where it stands.
    StepNotEnabled = "step_not_enabled",
    /// The token is longer than allowed.
    TokenTooLarge = "token_too_large",
    /// The token cannot be parsed.
    TokenMalformed = "token_malformed",
    /// A claim or header member appears twice.
    TokenDuplicateClaim = "token_duplicate_claim",
    /// The algorithm is `none`, symmetric, or not the key's own.
    TokenAlgorithm = "token_algorithm",
    /// No key of this issuer has this key id.
    TokenUnknownKey = "token_unknown_key",
    /// The signature does not verify.
    TokenSignature = "token_signature",
    /// The issuer is not configured.
    TokenIssuer = "token_issuer",
    /// The token is for another server.
    TokenAudience = "token_audience",
    /// The token is over.
    TokenExpired = "token_expired",
    /// The token is not valid yet.
    TokenNotYetValid = "token_not_yet_valid",
    /// The token was revoked.
    TokenRevoked = "token_revoked",
    /// The token names no client certificate and the issuer must.
    TokenUnbound = "token_unbound",
    /// The token is bound to another client certificate.
    TokenConfirmation = "token_confirmation",
    /// The token indexes another scope map.
    ScopeMapMismatch = "scope_map_mismatch",
    /// The token names scopes beyond the map or rights beyond the standard.
    TokenRights = "token_rights",
    /// The token's subject is not the session's.
    TokenSubject = "token_subject",
    /// The token was encrypted in a form or size that is not allowed.
    TokenSecret = "token_secret",
    /// The server nonce in a secret is not the last one sent.
    NonceMismatch = "nonce_mismatch",
    /// The client's signature over the server nonce does not verify.
    ClientSignature = "client_signature",
    /// The user's signature does not verify.
    UserSignature = "user_signature",
    /// The user is unknown or the password wrong.
    UserCredentials = "user_credentials",
    /// This kind of identity is not accepted at this endpoint.
    IdentityNotAccepted = "identity_not_accepted",
    /// The certificate cannot be parsed.
    CertificateInvalid = "certificate_invalid",
    /// The certificate is not trusted and no trusted issuer leads to it.
    CertificateUntrusted = "certificate_untrusted",
    /// The certificate, or one of its issuers, is outside its validity.
    CertificateTime = "certificate_time",
    /// The certificate, or one of its issuers, is revoked.
    CertificateRevoked = "certificate_revoked",
    /// The revocation state of the certificate or an issuer is unknown.
    CertificateRevocationUnknown = "certificate_revocation_unknown",
    /// The key is too short, too long or of a wrong kind.
    CertificateKey = "certificate_key",
    /// The certificate may not be used for this purpose.
    CertificateUse = "certificate_use",
    /// The certificate names another ApplicationUri.
    CertificateUri = "certificate_uri",
    /// The certificate does not name the host.
    CertificateHost = "certificate_host",
    /// The channel's bytes did not decrypt or verify.
    ChannelSecurity = "channel_security",
    /// The security policy or mode is not offered.
    ChannelPolicy = "channel_policy",
    /// The peer broke the protocol.
    ProtocolMisbehavior = "protocol_misbehavior",
    /// A session was used from a channel that is not its own.
    SessionChannel = "session_channel",
    /// The peer does not take what it is sent.
    PeerNotReading = "peer_not_reading",
    /// Too much at once: connections, sessions, jobs, requests.
    TooBusy = "too_busy",
    /// The asker is not registered at the authority.
    UnknownClient = "unknown_client",
    /// The server that is asked for is not registered at the authority.
    UnknownAudience = "unknown_audience",
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Policy said no to one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Why.
    pub reason: Reason,
    /// What was asked.
    pub action: Action,
    /// Where.
    pub scope: ScopeIndex,
    /// What the grant holds on that scope.
    pub held: Rights,
}

impl Denial {
    /// Whether the answer must not even reveal that the node exists.
    #[must_use]
    pub fn hides(&self) -> bool {
        self.reason == Reason::ScopeNotGranted
            || (self.reason == Reason::RightMissing && !self.held.contains(Rights::BROWSE))
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} on scope {} denied ({}): holds {}, needs {}",
            self.action.name(),
            self.scope.0,
            self.reason,
            self.held,
            self.action.needed()
        )
    }
}

/// An issuer or a gate turned a peer or a token away.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {detail}")]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// A sentence for the audit and the operator; never sent to the peer, never holds a secret.
    pub detail: String,
}

impl Refusal {
    /// A refusal with its detail.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}
