//! The sections of the configuration. A key that is not here is an error.

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
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    /// As of `tracing-subscriber`'s EnvFilter.
    pub(crate) filter: String,
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
        Self { ledger: "var/ledger".into(), key: "var/audit.pem".into(), sync: Sync::Os, rotate_mib: 64 }
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
        let optional = self.plant.workflow.iter_mut();
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
