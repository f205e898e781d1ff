//! How an authority is set up.

use std::path::PathBuf;
use std::time::Duration;

use token::{Algorithm, Issuer};

/// How an authority is set up. Times have no meaning before `UnixTime` zero; bounds of zero switch a thing off.
#[derive(Clone, Debug)]
pub struct AuthorityConfig {
    /// `iss` of every token, ServiceUri of the OPC UA service, and base of the HTTPS addresses: a URL without slash at
    /// its end.
    pub issuer: String,
    /// How tokens are signed.
    pub algorithm: Algorithm,
    /// Where signing keys live; `None`: in memory, gone with the process.
    pub key_folder: Option<PathBuf>,
    /// How long a replaced signing key stays published. Not shorter than the longest token lives.
    pub key_overlap: Duration,
    /// How long a refresh token can be used.
    pub refresh_lifetime: Duration,
    /// How long a line of refresh tokens lasts, however often it is refreshed: then the person shows who they are again.
    pub refresh_line: Duration,
    /// Whether the deprecated RequestAccessToken is answered.
    pub request_access_token: bool,
    /// Whether a request may ask for a longer token, for experiments.
    pub allow_padding: bool,
    /// Identity providers whose tokens are exchanged for ours (RFC 8693).
    pub identity_issuers: Vec<Issuer>,
    /// Roles that may administer.
    pub admin_roles: Vec<String>,
    /// Roles that may ask for decisions (AuthZEN); administrators may as well.
    pub evaluator_roles: Vec<String>,
    /// A gate hears from us at least this often.
    pub heartbeat: Duration,
    /// How long a StartRequestToken waits for its FinishRequestToken.
    pub pending_lifetime: Duration,
    /// How many wait at most, over all sessions.
    pub pending_max: usize,
    /// How many passwords are hashed at once; more are turned away.
    pub password_jobs: usize,
    /// How many HTTPS connections are open at once; more wait in the socket's queue.
    pub connections: usize,
    /// How many of them one address may have: one IPv4 address, or one /64 of IPv6.
    pub connections_per_address: usize,
    /// How often something may happen.
    pub paces: Paces,
    /// How long a request may take to arrive and to be answered, and how long an answer may wait for its reader.
    pub patience: Duration,
    /// Whether a token is refused when its record cannot be written.
    pub audit_required: bool,
    /// The name under which the workflow's marking is kept.
    pub workflow_name: String,
}

impl AuthorityConfig {
    /// The usual set-up under this URL.
    #[must_use]
    pub fn new(issuer: impl Into<String>) -> Self {
        Self {
            issuer: issuer.into(),
            algorithm: Algorithm::Es256,
            key_folder: None,
            key_overlap: Duration::from_secs(24 * 3_600),
            refresh_lifetime: Duration::from_secs(8 * 3_600),
            refresh_line: Duration::from_secs(12 * 3_600),
            request_access_token: false,
            allow_padding: false,
            identity_issuers: Vec::new(),
            admin_roles: vec!["administrator".into()],
            evaluator_roles: vec!["evaluator".into()],
            heartbeat: Duration::from_secs(1),
            pending_lifetime: Duration::from_secs(60),
            pending_max: 1_024,
            password_jobs: 2,
            connections: 512,
            connections_per_address: 128,
            paces: Paces::default(),
            patience: Duration::from_secs(30),
            audit_required: true,
            workflow_name: "plant".into(),
        }
    }
}

/// How often something may happen: so many at once, then one each while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paces {
    /// New HTTPS connections of one address: a handshake costs a signature.
    pub arrivals: (u32, Duration),
    /// Wrong passwords of one address.
    pub failures_per_address: (u32, Duration),
    /// Wrong passwords for one account.
    pub failures_per_account: (u32, Duration),
    /// Wrong passwords for one account from one address.
    pub failures_per_pair: (u32, Duration),
}

impl Default for Paces {
    fn default() -> Self {
        Self {
            arrivals: (200, Duration::from_millis(10)),
            failures_per_address: (30, Duration::from_millis(200)),
            failures_per_account: (50, Duration::from_millis(500)),
            failures_per_pair: (10, Duration::from_secs(2)),
        }
    }
}

/// Where plant, policies and workflow come from.
#[derive(Clone, Debug)]
pub enum PolicySource {
    /// Files, read again on [`crate::Authority::reload`].
    Files {
        /// The plant file.
        plant: PathBuf,
        /// The policies.
        policies: PathBuf,
        /// The workflow, if there is one.
        workflow: Option<PathBuf>,
    },
    /// Texts.
    Texts(PolicyTexts),
}

/// The texts of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyTexts {
    /// The plant file.
    pub plant: String,
    /// The policies.
    pub policies: String,
    /// The workflow, if there is one.
    pub workflow: Option<String>,
}
