//! `[authority]`: the authorization service.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::endpoint::{default_policies, longest_key, shortest_key};
use crate::words::{Number, Period};
use crate::{EndpointUrl, HostName, Identity, KeyBits, Limits, MissingCrl, Policy};

/// Life of a refresh token, or of a line of them.
pub type Refreshing = Period<60_000, 31_622_400_000>;

/// An authority.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Authority {
    /// `iss` of tokens and base of its HTTPS addresses.
    pub issuer: String,
    /// Where HTTPS listens.
    pub https: SocketAddr,
    /// Where its OPC UA side listens.
    pub opcua: SocketAddr,
    /// The URL that OPC UA clients are told which dialled no host of its own.
    #[serde(default)]
    pub url: Option<EndpointUrl>,
    /// Host names and addresses under which OPC UA clients reach it, beside those in its certificate.
    #[serde(default)]
    pub names: Vec<HostName>,
    /// Its folder of certificates.
    pub pki: PathBuf,
    /// What becomes of a certificate whose issuer has no revocation list, or an outdated one.
    #[serde(default)]
    pub missing_crl: MissingCrl,
    /// Bits of the shortest RSA key that is accepted.
    #[serde(default = "shortest_key")]
    pub min_key_bits: KeyBits,
    /// Bits of the longest RSA key that is accepted.
    #[serde(default = "longest_key")]
    pub max_key_bits: KeyBits,
    /// Security policies of its OPC UA side, always signed and encrypted.
    #[serde(default = "default_policies")]
    pub policies: Vec<Policy>,
    /// How the person behind an OPC UA session may be known: `user_name`, `x509`, `anonymous`.
    #[serde(default = "default_identities")]
    pub identities: Vec<Identity>,
    /// Where the keys live that sign tokens.
    #[serde(default = "default_keys")]
    pub keys: PathBuf,
    /// How long a replaced key stays published.
    #[serde(default = "default_overlap")]
    pub key_overlap: Refreshing,
    /// A folder with one folder of certificates for each application: all are registered.
    #[serde(default)]
    pub register: Option<PathBuf>,
    /// How tokens are signed.
    #[serde(default)]
    pub algorithm: Algorithm,
    /// Whether the deprecated RequestAccessToken is answered.
    #[serde(default)]
    pub request_access_token: bool,
    /// Whether a request may ask for a longer token, for experiments.
    #[serde(default)]
    pub allow_padding: bool,
    /// How long a refresh token can be used.
    #[serde(default = "default_refresh")]
    pub refresh_lifetime: Refreshing,
    /// How long a line of them lasts: then the person shows who they are again.
    #[serde(default = "default_line")]
    pub refresh_line: Refreshing,
    /// Roles that may administer.
    #[serde(default = "default_admin_roles")]
    pub admin_roles: Vec<String>,
    /// Roles that may ask for decisions.
    #[serde(default = "default_evaluator_roles")]
    pub evaluator_roles: Vec<String>,
    /// A server hears from it at least this often.
    #[serde(default = "default_heartbeat")]
    pub heartbeat: Period<10, 60_000>,
    /// How long a StartRequestToken waits for its FinishRequestToken.
    #[serde(default = "default_pending_lifetime")]
    pub pending_lifetime: Period<1_000, 3_600_000>,
    /// How many of them wait.
    #[serde(default = "default_pending")]
    pub pending: Number<1, 1_000_000>,
    /// Passwords that are hashed at once.
    #[serde(default = "default_password_jobs")]
    pub password_jobs: Number<1, 64>,
    /// HTTPS connections at once.
    #[serde(default = "default_connections")]
    pub connections: Number<1, 100_000>,
    /// Of these, of one address (one /64 of IPv6).
    #[serde(default = "default_share")]
    pub connections_per_address: Number<1, 100_000>,
    /// How long an HTTPS request may take to arrive and to be answered.
    #[serde(default = "default_patience")]
    pub patience: Period<100, 600_000>,
    /// How often something may happen.
    #[serde(default)]
    pub paces: Paces,
    /// Identity providers whose tokens are exchanged for ours.
    #[serde(default)]
    pub identity_issuer: Vec<IdentityIssuer>,
    /// Bounds of its OPC UA side.
    #[serde(default)]
    pub limits: Limits,
}

/// How tokens are signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum Algorithm {
    /// ECDSA over P-256 with SHA-256.
    #[default]
    #[serde(rename = "ES256")]
    Es256,
    /// RSA PKCS#1 1.5 with SHA-256.
    #[serde(rename = "RS256")]
    Rs256,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

/// How often something may happen: so many at once, then one each while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// At once.
    pub burst: Number<1, 1_000_000>,
    /// Then one each.
    pub every: Period<1, 3_600_000>,
}

impl Pace {
    const fn new(burst: u64, millis: u64) -> Self {
        Self { burst: Number::near(burst), every: Period::near(millis) }
    }
}

/// How often things may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Paces {
    /// New HTTPS connections of one address.
    pub arrivals: Pace,
    /// Wrong passwords of one address.
    pub failures_per_address: Pace,
    /// Wrong passwords for one account.
    pub failures_per_account: Pace,
    /// Wrong passwords for one account from one address.
    pub failures_per_account_and_address: Pace,
}

impl Default for Paces {
    fn default() -> Self {
        Self {
            arrivals: Pace::new(200, 10),
            failures_per_address: Pace::new(30, 200),
            failures_per_account: Pace::new(50, 500),
            failures_per_account_and_address: Pace::new(10, 2_000),
        }
    }
}

/// An identity provider whose tokens are exchanged for ours (RFC 8693).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct IdentityIssuer {
    /// `iss` of its tokens, letter by letter.
    pub name: String,
    /// The file with its keys (JWKS), read at the start.
    pub jwks: PathBuf,
}

fn default_identities() -> Vec<Identity> {
    vec![Identity::UserName, Identity::Anonymous]
}

fn default_keys() -> PathBuf {
    "var/keys".into()
}

fn default_admin_roles() -> Vec<String> {
    vec!["administrator".into()]
}

fn default_evaluator_roles() -> Vec<String> {
    vec!["evaluator".into()]
}

const fn default_overlap() -> Refreshing {
    Period::near(86_400_000)
}

const fn default_refresh() -> Refreshing {
    Period::near(28_800_000)
}

const fn default_line() -> Refreshing {
    Period::near(43_200_000)
}

const fn default_heartbeat() -> Period<10, 60_000> {
    Period::near(1_000)
}

const fn default_pending_lifetime() -> Period<1_000, 3_600_000> {
    Period::near(60_000)
}

const fn default_pending() -> Number<1, 1_000_000> {
    Number::near(1_024)
}

const fn default_password_jobs() -> Number<1, 64> {
    Number::near(2)
}

const fn default_connections() -> Number<1, 100_000> {
    Number::near(512)
}

const fn default_share() -> Number<1, 100_000> {
    Number::near(128)
}

const fn default_patience() -> Period<100, 600_000> {
    Period::near(30_000)
}
