//! The sections of the configuration. A key that is not here is an error.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Everything.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// What stands where, and who may do what.
    pub(crate) plant: PlantFiles,
    /// The journal of the authority.
    #[serde(default)]
    pub(crate) store: Store,
    /// The ledger.
    #[serde(default)]
    pub(crate) audit: Audit,
    /// What is logged.
    #[serde(default)]
    pub(crate) log: Log,
    /// The authority, if this program is to be one.
    #[serde(default)]
    pub(crate) authority: Option<Authority>,
    /// The resource servers that this program is to be.
    #[serde(default)]
    pub(crate) server: Vec<Server>,
    /// What `trapkey client` and the administration commands use.
    #[serde(default)]
    pub(crate) client: Client,
}

/// The files that policies are decided by.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlantFiles {
    /// Plant file.
    pub(crate) file: PathBuf,
    /// Cedar policies.
    pub(crate) policies: PathBuf,
    /// Workflow, if the plant has one.
    #[serde(default)]
    pub(crate) workflow: Option<PathBuf>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Store {
    pub(crate) database: PathBuf,
    pub(crate) sync: Sync,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Audit {
    /// Folder of the ledger.
    pub(crate) ledger: PathBuf,
    /// Key that signs checkpoints; made if there is none.
    pub(crate) key: PathBuf,
    pub(crate) sync: Sync,
    pub(crate) rotate_mib: u32,
    /// What happens to tokens, writes and calls while it cannot be written.
    pub(crate) on_failure: OnFailure,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    /// As of `tracing-subscriber`'s EnvFilter.
    pub(crate) filter: String,
}

/// An authority.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Authority {
    /// `iss` of tokens and base of its HTTPS addresses.
    pub(crate) issuer: String,
    /// Where HTTPS listens.
    pub(crate) https: SocketAddr,
    /// Where its OPC UA side listens.
    pub(crate) opcua: SocketAddr,
    /// Its folder of certificates.
    pub(crate) pki: PathBuf,
    /// Where the keys live that sign tokens.
    #[serde(default = "default_keys")]
    pub(crate) keys: PathBuf,
    /// A folder with one folder of certificates for each application: all are registered.
    #[serde(default)]
    pub(crate) register: Option<PathBuf>,
    /// How tokens are signed.
    #[serde(default)]
    pub(crate) algorithm: Algorithm,
    /// Whether the deprecated RequestAccessToken is answered.
    #[serde(default)]
    pub(crate) request_access_token: bool,
    /// Roles that may administer.
    #[serde(default = "default_admin_roles")]
    pub(crate) admin_roles: Vec<String>,
}

/// A resource server with simulated equipment.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Server {
    /// Short name in the plant file.
    pub(crate) name: String,
    /// Which equipment is simulated.
    pub(crate) simulate: Simulated,
    /// Where it listens.
    pub(crate) listen: SocketAddr,
    /// Its folder of certificates.
    pub(crate) pki: PathBuf,
    /// Issuer of its authority: its HTTPS base address.
    pub(crate) authority: String,
    /// The authority's OPC UA address, where clients get their tokens.
    pub(crate) authority_opcua: String,
    /// What it does when it has lost its authority.
    #[serde(default)]
    pub(crate) fail_mode: FailMode,
    /// How long `last_known_good` lasts.
    #[serde(default = "default_grace")]
    pub(crate) last_known_good_for: String,
    /// It has lost its authority when it heard nothing for this long.
    #[serde(default = "default_contact")]
    pub(crate) contact_timeout: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Client {
    /// Folder of certificates.
    pub(crate) pki: Option<PathBuf>,
    /// The authority's HTTPS base address.
    pub(crate) authority: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) enum Algorithm {
    #[default]
    #[serde(rename = "ES256")]
    Es256,
    #[serde(rename = "RS256")]
    Rs256,
    #[serde(rename = "EdDSA")]
    EdDsa,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Simulated {
    Mixer,
    Reactor,
    Filler,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FailMode {
    #[default]
    Closed,
    ReadOnly,
    LastKnownGood,
}

fn default_keys() -> PathBuf {
    "var/keys".into()
}

fn default_admin_roles() -> Vec<String> {
    vec!["administrator".into()]
}

fn default_grace() -> String {
    "15m".into()
}

fn default_contact() -> String {
    "3s".into()
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnFailure {
    #[default]
    Closed,
    Open,
}

/// When a write counts as done.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Sync {
    #[default]
    Os,
    Disk,
}

impl From<Sync> for store::Sync {
    fn from(sync: Sync) -> Self {
        match sync {
            Sync::Os => Self::Os,
            Sync::Disk => Self::Disk,
        }
    }
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
    pub(super) fn relative_to(&mut self, folder: &Path) {
        let authority = self.authority.iter_mut();
        let authority = authority.flat_map(|role| [Some(&mut role.pki), Some(&mut role.keys), role.register.as_mut()]);
        let servers = self.server.iter_mut().map(|role| &mut role.pki);
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
