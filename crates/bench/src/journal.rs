//! Where records are kept: `bench-runs/<date>-<machine>/measures.jsonl`, with the single runs in `runs.jsonl` and the
//! machine in `machine.json` beside it; `bench-runs/latest` points there.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use crate::record::Record;
use crate::{Failed, clock, files, process};

/// The workspace this program was built from.
#[must_use]
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// The folder of this machine and day.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
}

/// One run of a measure.
#[derive(Debug, Serialize)]
pub struct Run<'a> {
    /// The measure.
    pub measure: &'a str,
    /// Of what, where one run is of several things.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<&'a str>,
    /// Our figure.
    pub here: f64,
    /// The peer's.
    pub peer: Option<f64>,
}

impl Journal {
    /// Opens today's folder.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn open() -> Result<Self, Failed> {
        let runs = workspace().join("bench-runs");
        let name = format!("{}-{}", clock::today(), process::machine());
        let journal = Self { folder: runs.join(&name) };
        files::append_line(&journal.folder.join("machine.jsonl"), &machine())?;
        files::point(&runs.join("latest"), Path::new(&name))?;
        Ok(journal)
    }

    /// Keeps a record.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(&self, record: &Record) -> Result<(), Failed> {
        files::append_line(&self.folder.join("measures.jsonl"), &serde_json::to_string(record)?)?;
        Ok(())
    }

    /// Keeps the runs behind a record.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn runs(&self, measure: &str, runs: &[(f64, Option<f64>)]) -> Result<(), Failed> {
        for (here, peer) in runs {
            self.run(&Run { measure, of: None, here: *here, peer: *peer })?;
        }
        Ok(())
    }

    /// Keeps a single run, or what it is made of.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn run(&self, run: &Run<'_>) -> Result<(), Failed> {
        Ok(files::append_line(&self.folder.join("runs.jsonl"), &serde_json::to_string(run)?)?)
    }
}

/// What the figures depend on besides the code: machine, kernel, compiler, libraries, and the commit itself.
fn machine() -> String {
    let tell = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).current_dir(workspace()).output().ok();
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
    };
    let facts = serde_json::json!({
        "machine": process::machine(),
        "memory_kb": process::memory_kilobytes(),
        "load": process::load(),
        "kernel": tell("uname", &["-sr"]),
        "rustc": tell("rustc", &["--version"]),
        "openssl": tell("openssl", &["version"]),
        "commit": tell("git", &["rev-parse", "HEAD"]),
        "changed": tell("git", &["status", "--porcelain", "--untracked-files=no"]).lines().count(),
    });
    facts.to_string()
}
