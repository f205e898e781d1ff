//! The files this crate writes and reads besides the kernel's: a fixture's keys and the records.
#![expect(clippy::disallowed_methods, reason = "the one file of this crate that owns files")]

use std::fs;
use std::io::{self, Write};
use std::path::Path;

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

/// Appends a line to a file and makes the folders above it.
///
/// # Errors
/// It cannot be written.
pub fn append_line(path: &Path, line: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = fs::OpenOptions::new().create(true).append(true).open(path)?;
    writeln!(file, "{line}")
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
