//! The files this crate writes and reads besides the kernel's: a fixture's keys and the records.
#![expect(clippy::disallowed_methods, reason = "the one file of this crate that owns files")]

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;

/// A folder in memory where there is one.
#[must_use]
pub fn memory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// Reads a file.
///
/// # Errors
/// It cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// Writes a file.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    fs::write(path, content)
}

/// Appends a line to a file and makes the folders above it. Where the last line broke off, it begins on a line of its own.
///
/// # Errors
/// It cannot be written.
pub fn append_line(path: &Path, line: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = fs::OpenOptions::new().create(true).append(true).read(true).open(path)?;
    let mut last = [b'\n'];
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    let broken = if last == *b"\n" { "" } else { "\n" };
    file.write_all(format!("{broken}{line}\n").as_bytes())
}

/// An empty file to which everything is written at its end, wherever that is by then.
///
/// # Errors
/// It cannot be made.
pub fn appended(path: &Path) -> io::Result<File> {
    let file = fs::OpenOptions::new().create(true).append(true).open(path)?;
    file.set_len(0)?;
    Ok(file)
}

/// Lets `link` point at `target`, wherever it pointed before.
///
/// # Errors
/// It cannot be made.
pub fn point(link: &Path, target: &Path) -> io::Result<()> {
    match fs::remove_file(link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::os::unix::fs::symlink(target, link)
}

/// Copies a program.
///
/// # Errors
/// It cannot be copied.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to).map(drop)
}

/// Removes the files of a folder whose names begin like this.
///
/// # Errors
/// One cannot be removed.
pub fn remove_all(folder: &Path, begin: &str) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(begin) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Removes a folder with all that is in it; one that is not there is gone already.
///
/// # Errors
/// It cannot be removed.
pub fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes a folder and those above it, where they are not there.
///
/// # Errors
/// It cannot be made.
pub fn folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// The folders in a folder whose names begin like this.
///
/// # Errors
/// It cannot be read.
pub fn folders(folder: &Path, begin: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(begin) && entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Makes a file that is held as long as what comes back lives: however a program ends, it holds it no more.
///
/// # Errors
/// It cannot be made, or nothing can be held in this folder.
pub fn hold(path: &Path) -> io::Result<File> {
    // Nobody sees it before it is held.
    let new = path.with_extension("new");
    let file = File::create_new(&new)?;
    file.try_lock()?;
    fs::rename(&new, path)?;
    Ok(file)
}

/// Holds a file of this user's that nobody holds any more; none where there is no such file.
#[must_use]
pub fn left(path: &Path) -> Option<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    let about = file.metadata().ok()?;
    (about.is_file() && about.uid() == geteuid().as_raw() && file.try_lock().is_ok()).then_some(file)
}
