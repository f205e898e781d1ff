//! The sections of the configuration. A key that is not here is an error.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What stands where, and who may do what.
    pub plant: PlantFiles,
    /// The journal of the authority.
    #[serde(default)]
    pub store: Store,
    /// The ledger.
    #[serde(default)]
    pub audit: Audit,
    /// What is logged.
    #[serde(default)]
    pub log: Log,
    /// The authority, if this program is to be one.
    #[serde(default)]
    pub authority: Option<Authority>,
    /// The resource servers that this program is to be.
    #[serde(default)]
    pub server: Vec<Server>,
    /// What `trapkey client` and the administration commands use.
    #[serde(default)]
    pub client: Client,
}

/// The files that policies are decided by.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlantFiles {
    /// Plant file.
    pub file: PathBuf,
    /// Cedar policies.
    pub policies: PathBuf,
    /// Workflow, if the plant has one.
    #[serde(default)]
    pub workflow: Option<PathBuf>,
}

/// The journal of the authority.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Store {
    /// File of the database.
    pub database: PathBuf,
    /// When a commit counts as done.
    pub sync: Sync,
}

/// The ledger.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Audit {
    /// Folder of the ledger.
    pub ledger: PathBuf,
    /// Key that signs checkpoints; made if there is none.
    pub key: PathBuf,
    /// When a record counts as written.
    pub sync: Sync,
    /// Size of a segment in MiB; 0 cannot be used.
    pub rotate_mib: u32,
    /// What happens to tokens, writes and calls while it cannot be written.
    pub on_failure: OnFailure,
}

/// What is logged.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// As of `tracing-subscriber`'s EnvFilter.
    pub filter: String,
}

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
    /// Its folder of certificates.
    pub pki: PathBuf,
    /// Where the keys live that sign tokens.
    #[serde(default = "default_keys")]
    pub keys: PathBuf,
    /// A folder with one folder of certificates for each application: all are registered.
    #[serde(default)]
    pub register: Option<PathBuf>,
    /// How tokens are signed.
    #[serde(default)]
    pub algorithm: Algorithm,
    /// Whether the deprecated RequestAccessToken is answered.
    #[serde(default)]
    pub request_access_token: bool,
    /// Roles that may administer.
    #[serde(default = "default_admin_roles")]
    pub admin_roles: Vec<String>,
}

/// A resource server with simulated equipment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Short name in the plant file.
    pub name: String,
    /// Which equipment is simulated.
    pub simulate: Simulated,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Its folder of certificates.
    pub pki: PathBuf,
    /// Issuer of its authority: its HTTPS base address.
    pub authority: String,
    /// The authority's OPC UA address, where clients get their tokens.
    pub authority_opcua: String,
    /// What it does when it has lost its authority.
    #[serde(default)]
    pub fail_mode: FailMode,
    /// How long `last_known_good` lasts.
    #[serde(default = "default_grace")]
    pub last_known_good_for: String,
    /// It has lost its authority when it heard nothing for this long.
    #[serde(default = "default_contact")]
    pub contact_timeout: String,
    /// The message security modes of its endpoints.
    #[serde(default = "default_modes")]
    pub modes: Vec<Mode>,
    /// Persons of the plant file who may log in without a token.
    #[serde(default)]
    pub user: Vec<LocalUser>,
    /// What the roles of these persons may do here, whatever the authority says.
    #[serde(default)]
    pub local: Vec<LocalRights>,
}

/// How messages are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Signed, readable by whoever listens.
    Sign,
    /// Signed and encrypted.
    SignAndEncrypt,
}

/// Somebody who may log in at a server without a token.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LocalUser {
    /// A person of the plant file, whose roles they have.
    pub name: String,
    /// Hash of the password (argon2, PHC string).
    #[serde(default)]
    pub password: Option<String>,
    /// The person's certificate.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
}

/// Rights of a role at one server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LocalRights {
    /// The role.
    pub role: String,
    /// The rights, in the words of policies: `browse`, `read`, `write`, `call` ...
    pub rights: Vec<String>,
    /// The scopes; all of the server when there are none.
    #[serde(default)]
    pub scopes: Vec<String>,
}

/// What `trapkey client` and the administration commands use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Client {
    /// Folder of certificates.
    pub pki: Option<PathBuf>,
    /// The authority's HTTPS base address.
    pub authority: Option<String>,
    /// Further authorities that may be given a password: URLs, ApplicationUris or SHA-256 of certificates.
    pub authorities: Vec<String>,
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

/// The equipment that is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Simulated {
    /// A mixer.
    Mixer,
    /// A reactor.
    Reactor,
    /// A filler.
    Filler,
}

/// What a server does when it has lost its authority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailMode {
    /// Nothing is allowed.
    #[default]
    Closed,
    /// What a grant allows to see stays allowed.
    ReadOnly,
    /// Grants stay as they were, for a while.
    LastKnownGood,
}

fn default_keys() -> PathBuf {
    "var/keys".into()
}

fn default_admin_roles() -> Vec<String> {
    vec!["administrator".into()]
}

fn default_modes() -> Vec<Mode> {
    vec![Mode::SignAndEncrypt]
}

fn default_grace() -> String {
    "15m".into()
}

fn default_contact() -> String {
    "3s".into()
}

/// What happens to tokens, writes and calls while the ledger cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// They are refused.
    #[default]
    Closed,
    /// They go on, and the ledger has a gap.
    Open,
}

/// When a write counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sync {
    /// When the operating system has it: survives a killed program.
    #[default]
    Os,
    /// When the disk has it: survives a power cut.
    Disk,
}

impl Default for Store {
    fn default() -> Self {
        Self { database: "var/trapkey.db".into(), sync: Sync::Os }
    }
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            ledger: "var/ledger".into(),
            key: "var/audit.pem".into(),
            sync: Sync::Os,
            rotate_mib: 64,
            on_failure: OnFailure::Closed,
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { filter: "info".into() }
    }
}

impl Config {
    /// Makes each path in it relative to the folder of its file.
    pub fn relative_to(&mut self, folder: &Path) {
        let authority = self.authority.iter_mut();
        let authority = authority.flat_map(|role| [Some(&mut role.pki), Some(&mut role.keys), role.register.as_mut()]);
        let servers = self.server.iter_mut().flat_map(|role| {
            let users = role.user.iter_mut().filter_map(|user| user.certificate.as_mut());
            std::iter::once(&mut role.pki).chain(users)
        });
        let optional = self.plant.workflow.iter_mut().chain(self.client.pki.iter_mut());
        let optional = optional.chain(authority.flatten()).chain(servers);
        let paths = [
            &mut self.plant.file,
            &mut self.plant.policies,
            &mut self.store.database,
            &mut self.audit.ledger,
            &mut self.audit.key,
        ];
        for path in paths.into_iter().chain(optional) {
            *path = folder.join(&path);
        }
    }
}
