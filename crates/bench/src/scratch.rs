//! Folders for keys and databases that go when they are let go of, and when the program is told to stop: nobody but their owner may look
//! into them.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::files;

/// Those that are there.
static THERE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A folder that goes with this.
#[derive(Debug)]
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    /// One where temporary files are.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new() -> io::Result<Self> {
        Self::below(&std::env::temp_dir())
    }

    /// One in a folder.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn below(folder: &Path) -> io::Result<Self> {
        // From the lock on it is known to whoever clears.
        let mut there = there();
        let mut builder = tempfile::Builder::new();
        let made = builder.prefix("trapkey-").permissions(Permissions::from_mode(0o700)).tempdir_in(folder)?;
        there.insert(made.path().to_owned());
        Ok(Self(made))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        there().remove(self.0.path());
    }
}

fn there() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    THERE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all of them, for a program that ends in the midst of its work. None is made any more: that waits for the end.
pub fn clear() {
    let there = there();
    for folder in there.iter() {
        // Who still writes into it may make a file while its others go; a second look finds that one, too.
        let _ = files::remove_folder(folder).or_else(|_| files::remove_folder(folder));
    }
    std::mem::forget(there);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_its_owners_alone_and_goes_with_what_it_is_held_by() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().to_owned();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(there().contains(&path));
        drop(scratch);
        assert!(!path.exists() && !there().contains(&path));
    }
}
