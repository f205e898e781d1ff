//! Folders for keys and databases that go when they are let go of, and when the program is told to stop: nobody but their owner may look
//! into them. Those of a program that was killed go when the next one makes one beside them.

use std::collections::BTreeSet;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{files, process};

/// Those that are there.
static THERE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
/// Programs that were started and not yet waited for.
static STARTED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// How their names begin, and the file in each that its program holds.
const PREFIX: &str = "trapkey-";
const HELD: &str = ".held";

/// A folder that goes with this.
#[derive(Debug)]
pub struct Scratch {
    folder: tempfile::TempDir,
    /// Let go of after the folder has gone.
    _held: Option<File>,
}

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
        remove_left(folder);
        // From the lock on it is known to whoever clears.
        let mut there = there();
        let mut builder = tempfile::Builder::new();
        let made = builder.prefix(PREFIX).permissions(Permissions::from_mode(0o700)).tempdir_in(folder)?;
        there.insert(made.path().to_owned());
        // Where nothing can be held, nobody removes what is not held.
        let held = files::hold(&made.path().join(HELD)).ok();
        Ok(Self { folder: made, _held: held })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes what programs of this user left that were killed.
fn remove_left(folder: &Path) {
    for left in files::folders(folder, PREFIX).unwrap_or_default() {
        if let Some(_held) = files::left(&left.join(HELD)) {
            let _ = files::remove_folder(&left);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        there().remove(self.folder.path());
    }
}

fn started() -> MutexGuard<'static, BTreeSet<u32>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn there() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    THERE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the programs that this one has started, and removes all of them, for a program that ends in the midst of its work. None is made any more,
/// and none let go of: that waits for the end.
pub fn clear() {
    let there = there();
    // Whoever loses its files meanwhile complains, or leaves what it has elsewhere: PostgreSQL has shared memory.
    let started = started();
    process::end_all(&started);
    for folder in there.iter() {
        // Who still writes into it may make a file while its others go; a second look finds that one, too.
        let _ = files::remove_folder(folder).or_else(|_| files::remove_folder(folder));
    }
    std::mem::forget((there, started));
}

/// A program that this one has started; it is let go of when that has ended and was waited for.
#[derive(Debug)]
pub struct Started(u32);

impl Drop for Started {
    fn drop(&mut self) {
        started().remove(&self.0);
    }
}

/// Starts a program that ends before folders are removed, where this one is told to stop. None is started any more from then on: that waits for
/// the end.
///
/// # Errors
/// It cannot be started.
pub fn start(command: &mut Command) -> io::Result<(Child, Started)> {
    let mut started = started();
    let child = command.spawn()?;
    let id = child.id();
    started.insert(id);
    Ok((child, Started(id)))
}

/// Starts such a program and waits for its end and what it says.
///
/// # Errors
/// As [`start`].
pub fn output(command: &mut Command) -> io::Result<Output> {
    let (child, _started) = start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    child.wait_with_output()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_end_and_one_that_has_ended_is_nobody_any_more() {
        let start = |words: &str| start(Command::new("sh").args(["-c", words]).stdout(Stdio::piped())).unwrap();
        // A shell has heard of it when it says so; one ends by it, one takes its time.
        let all =
            ["echo; exec sleep 60", "trap 'sleep 0.2; exit 7' INT; echo; while :; do sleep 0.05; done"].map(start);
        let mut all = all.map(|(mut child, guard)| {
            let mut line = [0];
            std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
            (child, guard)
        });
        let known: BTreeSet<u32> = all.iter().map(|(child, _)| child.id()).collect();
        assert!(known.is_subset(&started()));
        process::end_all(&known);
        assert!(known.iter().all(|id| !process::is_there(*id)));
        let codes = all.each_mut().map(|(child, _)| child.wait().unwrap().code());
        assert_eq!(codes, [None, Some(7)], "each by itself");
        drop(all);
        assert!(known.is_disjoint(&started()));
        let said = output(Command::new("sh").args(["-c", "echo a; echo b >&2; exit 3"])).unwrap();
        assert_eq!((said.status.code(), said.stdout, said.stderr), (Some(3), b"a\n".to_vec(), b"b\n".to_vec()));
    }

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

    #[test]
    fn what_nobody_holds_any_more_goes_and_nothing_else() {
        let beside = tempfile::tempdir().unwrap();
        let at = |name: &str| beside.path().join(name);
        let held = Scratch::below(beside.path()).unwrap();
        for (name, file) in [("trapkey-left", HELD), ("trapkey-demo", "site.toml"), ("other", HELD)] {
            files::folder(&at(name)).unwrap();
            files::write(&at(name).join(file), "").unwrap();
        }
        files::write(&at("trapkey-left").join("key.pem"), "secret").unwrap();
        files::folder(&at("trapkey-elsewhere")).unwrap();
        files::point(&at("trapkey-elsewhere").join(HELD), &at("other").join(HELD)).unwrap();
        files::point(&at("trapkey-link"), &at("other")).unwrap();
        let next = Scratch::below(beside.path()).unwrap();
        assert!(!at("trapkey-left").exists(), "its program was killed");
        for (name, why) in [
            ("trapkey-demo", "not one of these"),
            ("other", "named otherwise"),
            ("trapkey-elsewhere", "what it says to be held is another's"),
            ("trapkey-link", "no folder"),
        ] {
            assert!(at(name).exists(), "{why}");
        }
        assert!(held.path().join(HELD).exists() && next.path().join(HELD).exists(), "these are held");
    }
}
