//! The one place of this crate that touches the file system. Everything it makes is private to its owner.
#![expect(clippy::disallowed_methods, reason = "the ledger and the backups own their files")]

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Makes a folder and its parents, readable by nobody else.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

pub(crate) fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Opens for writing at any place, and makes the file if there is none.
pub(crate) fn open_write(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Makes a new file; fails if there is one.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Makes a new file or empties the one there is.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// The content, or `None` when there is no such file.
pub(crate) fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces the file as a whole: readers see the old or the new content, never a part.
pub(crate) fn replace(path: &Path, bytes: &[u8], to_disk: bool) -> io::Result<()> {
    let beside = beside(path, "new");
    let mut file = create(&beside)?;
    file.write_all(bytes)?;
    if to_disk {
        file.sync_all()?;
    }
    rename(&beside, path)?;
    if to_disk { sync_folder_of(path) } else { Ok(()) }
}

/// The path with `.suffix` behind its name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

pub(crate) fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path)
}

pub(crate) fn remove_folder(path: &Path) -> io::Result<()> {
    std::fs::remove_dir_all(path)
}

pub(crate) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

pub(crate) fn length(path: &Path) -> io::Result<u64> {
    Ok(std::fs::metadata(path)?.len())
}

/// Permission bits of the file.
pub(crate) fn mode(path: &Path) -> io::Result<u32> {
    Ok(std::fs::metadata(path)?.mode() & 0o777)
}

/// Makes names that were made, renamed or removed in the path's folder survive a power cut.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

/// File names in a folder, sorted; names that are no UTF-8 are none of ours.
pub(crate) fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

/// Takes the lock file for as long as the returned file lives; `None` when another process has it.
pub(crate) fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = open_write(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
