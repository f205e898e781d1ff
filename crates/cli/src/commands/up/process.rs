//! The process itself: its number, for whoever has to reach it, and how many connections it may have.

use std::path::{Path, PathBuf};

use rustix::process::{Pid, Resource, Rlimit, Signal, getpid, getrlimit, kill_process, setrlimit, test_kill_process};

use crate::files;

/// Beside the ledger, which no two programs share.
fn place(ledger: &Path) -> PathBuf {
    let mut name = ledger.file_name().unwrap_or_default().to_owned();
    name.push(".pid");
    ledger.with_file_name(name)
}

/// Writes the number of this process down; to be called by whoever has the ledger.
pub(super) fn note(ledger: &Path) {
    if let Err(error) = files::note(&place(ledger), getpid().as_raw_nonzero().to_string().as_bytes()) {
        tracing::warn!(%error, "`trapkey drain` will not find this program");
    }
}

/// This process ends.
pub(super) fn forget(ledger: &Path) {
    if let Err(error) = files::remove(&place(ledger)) {
        tracing::warn!(%error, "a file of this program is left behind");
    }
}

/// A running program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running(Pid);

impl Running {
    /// The program with this ledger. Its number counts only while somebody has the ledger: that of a killed program may be
    /// another's by now.
    pub(crate) fn with(ledger: &Path) -> Option<Self> {
        if !store::ledger_in_use(ledger).unwrap_or(false) {
            return None;
        }
        let noted = files::bytes(&place(ledger)).ok()?;
        let number = std::str::from_utf8(&noted).ok()?.trim().parse().ok()?;
        Some(Self(Pid::from_raw(number)?))
    }

    pub(crate) fn number(self) -> i32 {
        self.0.as_raw_nonzero().get()
    }

    /// Whether it has not yet said that it ends, and is still there.
    pub(crate) fn is_noted(self, ledger: &Path) -> bool {
        files::exists(&place(ledger)) && test_kill_process(self.0).is_ok()
    }

    /// Asks it to end.
    pub(crate) fn terminate(self) -> std::io::Result<()> {
        Ok(kill_process(self.0, Signal::TERM)?)
    }
}

/// Each client takes a file descriptor, behind a guard two. Takes as many as the system lets this process have.
pub(super) fn take_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
    {
        tracing::warn!(%error, "no more file descriptors are to be had");
    }
}
