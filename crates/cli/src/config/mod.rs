//! The configuration: one TOML file with strict keys, then `TRAPKEY__SECTION__KEY` from the environment over it.
//!
//! Paths in the file are relative to the file. The commented file that `trapkey config init` writes is the reference.

mod load;
mod sections;

use std::path::{Path, PathBuf};

pub(crate) use load::{Overrides, load};
pub(crate) use sections::{Algorithm, Authority, Config, FailMode, OnFailure, PlantFiles, Server, Simulated};

use crate::failure::Failure;

/// A commented configuration with every key.
pub(crate) const TEMPLATE: &str = include_str!("trapkey.toml");

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
        load(&self.path, &Overrides::from_environment())
    }
}
