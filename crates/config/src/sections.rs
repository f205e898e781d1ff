//! The sections of the configuration. A key that is not here is an error.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::authority::Authority;
use crate::guard::Guard;
use crate::operation::Operation;
use crate::server::Server;
use crate::words::{EndpointUrl, Number, Period};
use crate::zone::Zone;

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
    /// How the program is watched and ended.
    #[serde(default)]
    pub operation: Operation,
    /// The authority, if this program is to be one.
    #[serde(default)]
    pub authority: Option<Authority>,
    /// The resource servers that this program is to be.
    #[serde(default)]
    pub server: Vec<Server>,
    /// The guards that this program is to be.
    #[serde(default)]
    pub guard: Vec<Guard>,
    /// What holds in zones of the plant while something is lost.
    #[serde(default)]
    pub zone: Vec<Zone>,
    /// Where servers and guards are found.
    #[serde(default)]
    pub discovery: Discovery,
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
    /// Equal denials of one server and second that are recorded one by one; the rest becomes one record with a count.
    pub denials_per_second: Number<1, 100_000>,
    /// Different denials of one server and second that are told apart; further ones share a record.
    pub denial_kinds: Number<16, 1_000_000>,
    /// A checkpoint is signed after this many records at the latest.
    pub checkpoint_records: Number<1, 1_000_000>,
    /// A checkpoint is signed this long after a record at the latest.
    pub checkpoint_interval: Period<10, 3_600_000>,
    /// Records that may wait to be written; with more, it cannot be written.
    pub queue_records: Number<256, 10_000_000>,
}

/// What is logged.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// As of `tracing-subscriber`'s EnvFilter.
    pub filter: String,
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

/// Where the servers and guards of this program are found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Discovery {
    /// Discovery servers that each of them registers with.
    pub register_with: Vec<EndpointUrl>,
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
            denials_per_second: Number::near(5),
            denial_kinds: Number::near(1_024),
            checkpoint_records: Number::near(4_096),
            checkpoint_interval: Period::near(1_000),
            queue_records: Number::near(65_536),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { filter: "info".into() }
    }
}

impl Config {
    /// The authority of a guard, its HTTPS and its OPC UA address: as it says itself, else that of this file, else that of
    /// the first server here.
    #[must_use]
    pub fn authority_of(&self, guard: &Guard) -> Option<(String, String)> {
        let here = self.authority.as_ref().map(|role| {
            let host = role.issuer.strip_prefix("https://").unwrap_or(&role.issuer);
            let host = host.split('/').next().unwrap_or_default();
            let host = match host.rsplit_once(':') {
                Some((host, port)) if port.parse::<u16>().is_ok() => host,
                _ => host,
            };
            (role.issuer.clone(), format!("opc.tcp://{host}:{}", role.opcua.port()))
        });
        let beside = || self.server.first().map(|role| (role.authority.clone(), role.authority_opcua.clone()));
        let (https, opcua) = here.or_else(beside).unzip();
        Some((guard.authority.clone().or(https)?, guard.authority_opcua.clone().or(opcua)?))
    }

    /// Makes each path in it relative to the folder of its file; a folder of certificates that is not named is `pki/NAME`.
    pub fn relative_to(&mut self, folder: &Path) {
        let servers = self.server.iter_mut().map(|role| (&role.name, &mut role.pki));
        for (name, pki) in servers.chain(self.guard.iter_mut().map(|role| (&role.name, &mut role.pki))) {
            if pki.as_os_str().is_empty() {
                *pki = Path::new("pki").join(name);
            }
        }
        self.guard.iter_mut().for_each(|role| role.relative_to(folder));
        let authority = self.authority.iter_mut();
        let authority = authority.flat_map(|role| {
            let issuers = role.identity_issuer.iter_mut().map(|issuer| Some(&mut issuer.jwks));
            issuers.chain([Some(&mut role.pki), Some(&mut role.keys), role.register.as_mut()])
        });
        let servers = self.server.iter_mut().flat_map(|role| {
            let users = role.user.iter_mut().filter_map(|user| user.certificate.as_mut());
            let issuers = role.issuer.iter_mut().flat_map(|issuer| issuer.jwks.iter_mut().chain(issuer.ca.iter_mut()));
            std::iter::once(&mut role.pki).chain(users).chain(issuers).chain(&mut role.node_sets)
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
