//! Where the configuration is, and its faults as this program shows them. Its form is the crate `config`.
//!
//! Paths in the file are relative to the file. The commented file that `trapkey config init` writes is the reference.

use std::path::{Path, PathBuf};

pub(crate) use ::config::{
    Algorithm, Audit, Authority, Client as ClientSection, Config, Endpoint, EndpointUrl, FailMode, ForeignIssuer,
    Guard, GuardMode, HostName, Identity, KeyBits, Limits, LocalUser, MissingCrl, Mode, OnFailure, Overrides, Pace,
    PlantFiles, Policy, Pool, Server, Simulated, Standby, TEMPLATE, TokenSecret, Upstream, UpstreamSecurity,
    UpstreamUser, Zone,
};
use ::config::{At, read};

use crate::failure::{Failure, SourceFault};
use crate::files;

/// Where the configuration is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    path: PathBuf,
}

impl Place {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads and checks it whole.
    pub(crate) fn load(&self) -> Result<Config, Failure> {
        let path = &self.path;
        if !files::exists(path) {
            return Err(Failure::bad_input(format!("there is no configuration `{}`", path.display()))
                .help("name it with `--config`, or write one with `trapkey config init`"));
        }
        let text = files::text(path)?;
        let mut config = read(&text, &overrides()).map_err(|invalid| match invalid.at.clone() {
            At::Text(place) => {
                let (message, help) = (invalid.message, invalid.help);
                let span = (place.start, place.end);
                let fault = SourceFault { file: path.clone(), text: text.clone(), span, message, help };
                Failure::in_files("the configuration is not used", vec![fault])
            }
            At::Variable(_) => match invalid.help.clone() {
                Some(help) => Failure::bad_input(invalid.to_string()).help(help),
                None => Failure::bad_input(invalid.to_string()),
            },
        })?;
        config.relative_to(path.parent().unwrap_or(Path::new("")));
        Ok(config)
    }
}

/// What the environment overrides.
pub(crate) fn overrides() -> Overrides {
    let all = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    all.map(|(name, value)| (name, value.to_string_lossy().into_owned())).collect()
}

/// When the ledger and the journal count a write as done.
pub(crate) fn durability(sync: ::config::Sync) -> store::Sync {
    match sync {
        ::config::Sync::Os => store::Sync::Os,
        ::config::Sync::Disk => store::Sync::Disk,
    }
}
