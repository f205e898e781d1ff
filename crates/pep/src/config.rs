//! How a gate is set up.

use std::time::Duration;

use access_model::{Mode, Rights, ScopeMap, Thumbprint};
use token::{ClaimPath, Issuer};

/// What a gate does when it has lost contact with its authority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailMode {
    /// Serve nothing that the authority granted.
    #[default]
    Closed,
    /// Go on with what was known last for this long, then as `Closed`.
    LastKnownGood(Duration),
    /// Serve only actions that change nothing.
    ReadOnly,
}

/// Scopes of one zone of the plant, and what holds in them while the authority or the ledger is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its name in the plant.
    pub name: String,
    /// What holds there. Of several the strictest at any time: read only and an hour of what was known last are an hour
    /// of reading.
    pub modes: Vec<FailMode>,
    /// Its scopes, by name; such as the map does not have are left out. A scope of several zones is held to all of them.
    pub scopes: Vec<String>,
}

/// The authority whose control stream this gate listens to.
#[derive(Clone, Debug)]
pub struct Contact {
    /// Its issuer name, one of [`GateConfig::issuers`]. Tokens of other issuers are not touched by updates or by the
    /// fail mode.
    pub issuer: String,
    /// Contact is lost when nothing was heard for this long.
    pub timeout: Duration,
    /// What happens then in scopes of no [`Zone`]. A gate that has never been in step since its start is closed whatever this says: it cannot
    /// know what was revoked while it was away.
    pub fail_mode: FailMode,
}

/// Whose identity a local grant is for. All that apply to a peer are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// A session without identity.
    Anonymous,
    /// Any proven user name or user certificate.
    Authenticated,
    /// The user of this name.
    User(String),
    /// The user certificate with this thumbprint.
    Certificate(Thumbprint),
    /// The user certificate with this subject.
    CertificateSubject(String),
    /// A token of this issuer that carries this role and no decision of its own: how a foreign issuer's `roles` become
    /// rights.
    TokenRole {
        /// `iss`.
        issuer: String,
        /// One of `roles`.
        role: String,
    },
    /// The same for `groups`.
    TokenGroup {
        /// `iss`.
        issuer: String,
        /// One of `groups`.
        group: String,
    },
}

/// Where a local grant gives rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalScopes {
    /// Every scope of the map.
    All,
    /// The scopes of these names.
    Named(Vec<String>),
}

/// Rights for clients without a token, from the server's own configuration. It never expires and does not depend on
/// the authority.
#[derive(Clone, Debug)]
pub struct LocalGrant {
    /// For whom.
    pub who: Who,
    /// Whether the channel must be encrypted.
    pub require_encryption: bool,
    /// Role names that a session under this grant shows.
    pub roles: Vec<String>,
    /// What may be done where.
    pub rights: Vec<(Rights, LocalScopes)>,
}

/// An issuer that is not our authority, such as Keycloak or Entra. What it says is who somebody is, never what they may
/// do: its roles and groups become rights by local grants ([`Who::TokenRole`], [`Who::TokenGroup`]).
#[derive(Clone, Debug)]
pub struct ForeignIssuer {
    /// Name, keys, and whether its tokens must name the client's certificate. Not one of [`GateConfig::issuers`].
    pub issuer: Issuer,
    /// The `aud` of its tokens for this server.
    pub audience: String,
    /// The claim of its tokens with the roles.
    pub roles: ClaimPath,
}

/// The one check that a gate leaves out. `trapkey demo --danger-without` and tests use it to see that its absence is
/// noticed; no configuration reaches it: `xtask tidy` lists who may name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DangerWithout {
    /// None: everything is checked.
    #[default]
    Nothing,
    /// A check of the token by itself. Without `Audience` the scope map that the token indexes is not compared either:
    /// both say which server it is for.
    Token(token::DangerWithout),
    /// The channel need not be the one that the token is bound to (`cnf`).
    Confirmation,
    /// Every token gives every right.
    Rights,
    /// Grants outlive the revocation of their token.
    Revocation,
}

/// How a gate is set up.
#[derive(Clone, Debug)]
pub struct GateConfig {
    /// This server's own name: the `aud` of tokens for it.
    pub audience: String,
    /// Whose tokens are accepted.
    pub issuers: Vec<Issuer>,
    /// Whose tokens are accepted besides, without a decision in them. They are not touched by [`crate::Gate::set_issuers`].
    pub foreign: Vec<ForeignIssuer>,
    /// The scopes of this server.
    pub map: ScopeMap,
    /// The most grants alive at a time.
    pub max_grants: usize,
    /// The longest token accepted, in bytes.
    pub max_token_len: usize,
    /// The most revocations and replacements remembered for tokens that were not presented yet. Beyond it, every
    /// token issued until then is refused until its bearer fetches a new one.
    pub max_remembered: usize,
    /// How long an expired or revoked grant waits for a new token before it is gone.
    pub expiry_grace: Duration,
    /// Rights for clients without a token.
    pub local: Vec<LocalGrant>,
    /// Whether an identity without a local grant is asked about at the authority ([`crate::Admission::Ask`]) rather
    /// than refused.
    pub ask: bool,
    /// The authority whose control stream this gate listens to; `None` for a gate that validates tokens alone.
    pub contact: Option<Contact>,
    /// What holds in some scopes while the authority or the ledger is lost.
    pub zones: Vec<Zone>,
    /// Whether it serves only while somebody else has it do so: [`crate::Gate::lease_until`].
    pub leased: bool,
    /// What it does with denials until the authority says otherwise.
    pub mode: Mode,
    /// Whether the authority may say otherwise. Only a guard learns; a server that validates tokens itself never does.
    pub switchable: bool,
    /// What is not checked: nothing, but in demonstrations of what a check is for.
    pub danger_without: DangerWithout,
}

impl GateConfig {
    /// The usual limits: 1,000 grants, tokens up to 256 kB, 100,000 remembered, 60 s grace; nobody accepted yet.
    #[must_use]
    pub fn new(audience: impl Into<String>, map: ScopeMap) -> Self {
        Self {
            audience: audience.into(),
            issuers: Vec::new(),
            foreign: Vec::new(),
            map,
            max_grants: 1_000,
            max_token_len: token::MAX_TOKEN_LEN,
            max_remembered: 100_000,
            expiry_grace: Duration::from_secs(60),
            local: Vec::new(),
            ask: false,
            contact: None,
            zones: Vec::new(),
            leased: false,
            mode: Mode::Enforce,
            switchable: false,
            danger_without: DangerWithout::Nothing,
        }
    }
}

impl GateConfig {
    /// Whether somebody of this name is an issuer here.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.issuers.iter().any(|issuer| issuer.name == name) || self.foreign(name).is_some()
    }

    /// The foreign issuer of this name.
    pub(crate) fn foreign(&self, name: &str) -> Option<&ForeignIssuer> {
        self.foreign.iter().find(|foreign| foreign.issuer.name == name)
    }

    pub(crate) fn check(&self) -> Result<(), InvalidGate> {
        if self.audience.is_empty() {
            return Err(InvalidGate::NoAudience);
        }
        if u32::try_from(self.max_grants).is_err() {
            return Err(InvalidGate::TooManyGrants(self.max_grants));
        }
        if self.foreign.iter().any(|foreign| foreign.audience.is_empty()) {
            return Err(InvalidGate::NoAudience);
        }
        let all = self.issuers.iter().chain(self.foreign.iter().map(|foreign| &foreign.issuer));
        let mut names: Vec<&str> = all.map(|issuer| issuer.name.as_str()).collect();
        names.sort_unstable();
        if let Some((twice, _)) = names.iter().zip(names.iter().skip(1)).find(|(one, next)| one == next) {
            return Err(InvalidGate::DuplicateIssuer((*twice).to_owned()));
        }
        match &self.contact {
            Some(contact) if self.issuers.iter().all(|issuer| issuer.name != contact.issuer) => {
                Err(InvalidGate::UnknownIssuer(contact.issuer.clone()))
            }
            _ => Ok(()),
        }
    }
}

/// Why a gate cannot be set up so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidGate {
    /// A local grant names a scope that the map has not.
    #[error("a local grant names the scope `{0}`, which the scope map does not have")]
    UnknownScope(String),
    /// The authority is not among the issuers.
    #[error("contact is expected with `{0}`, which is not among the issuers")]
    UnknownIssuer(String),
    /// Two issuers share a name.
    #[error("the issuer `{0}` is configured twice")]
    DuplicateIssuer(String),
    /// The audience is empty.
    #[error("the audience is empty")]
    NoAudience,
    /// More grants than an id can number.
    #[error("{0} grants are too many")]
    TooManyGrants(usize),
}
