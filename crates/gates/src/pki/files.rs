//! File access for certificate directories: the only place in this crate that touches the file system.
#![expect(clippy::disallowed_methods, reason = "the one file of this crate that reads and writes certificate files")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::PkiError;

/// A file larger than this is no certificate, key or revocation list of ours.
const MAX_FILE: u64 = 16 * 1024 * 1024;

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> PkiError {
    let path = path.to_owned();
    move |source| PkiError::File { path, source }
}

pub(super) fn make_folder(path: &Path) -> Result<(), PkiError> {
    fs::create_dir_all(path).map_err(failed(path))
}

/// The files of a folder by name; a folder that is missing has none. Hidden files are passed over.
pub(super) fn sorted(folder: &Path) -> Result<Vec<PathBuf>, PkiError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(folder)(error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed(folder))?;
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !hidden && entry.file_type().map_err(failed(folder))?.is_file() {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, PkiError> {
    let size = fs::metadata(path).map_err(failed(path))?.len();
    if size > MAX_FILE {
        return Err(failed(path)(std::io::Error::new(std::io::ErrorKind::InvalidData, "larger than 16 MiB")));
    }
    fs::read(path).map_err(failed(path))
}

/// The DER bytes of a file that is DER or PEM with this label.
pub(super) fn der(path: &Path, label: &str) -> Result<Vec<u8>, PkiError> {
    let bytes = read(path)?;
    if !bytes.starts_with(b"-----") {
        return Ok(bytes);
    }
    let text = String::from_utf8_lossy(&bytes);
    let body = text
        .split_once(&format!("-----BEGIN {label}-----"))
        .and_then(|(_, rest)| rest.split_once("-----END"))
        .map(|(body, _)| body.split_whitespace().collect::<String>());
    let decoded = body.and_then(|body| STANDARD.decode(body).ok());
    decoded.ok_or_else(|| {
        failed(path)(std::io::Error::new(std::io::ErrorKind::InvalidData, format!("no PEM block `{label}`")))
    })
}

pub(super) fn refuse_exposed(path: &Path) -> Result<(), PkiError> {
    let mode = fs::metadata(path).map_err(failed(path))?.permissions().mode();
    if mode & 0o077 == 0 { Ok(()) } else { Err(PkiError::KeyExposed { path: path.to_owned() }) }
}

/// Writes a file that only its owner may read, whole or not at all.
///
/// # Errors
/// The file cannot be written.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), PkiError> {
    write(path, bytes, 0o600)
}

pub(super) fn write_public(path: &Path, bytes: &[u8]) -> Result<(), PkiError> {
    write(path, bytes, 0o644)
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), PkiError> {
    let part = path.with_extension("tmp");
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&part).map_err(failed(&part))?;
    file.write_all(bytes).map_err(failed(&part))?;
    file.sync_all().map_err(failed(&part))?;
    fs::rename(&part, path).map_err(failed(path))
}

pub(super) fn remove(path: &Path) -> Result<(), PkiError> {
    fs::remove_file(path).map_err(failed(path))
}

/// What tells a changed file from an unchanged one: name, size and time of change.
pub(super) type Stamp = Vec<(PathBuf, u64, Option<std::time::SystemTime>)>;

pub(super) fn stamp(folders: &[PathBuf]) -> Stamp {
    let mut stamp = Stamp::new();
    for path in folders.iter().flat_map(|folder| sorted(folder).unwrap_or_default()) {
        if let Ok(about) = fs::metadata(&path) {
            stamp.push((path, about.len(), about.modified().ok()));
        }
    }
    stamp
}

pub(super) fn age_order(folder: &Path) -> Result<Vec<PathBuf>, PkiError> {
    let mut dated: Vec<_> = stamp(&[folder.to_owned()]).into_iter().map(|(path, _, at)| (at, path)).collect();
    dated.sort();
    Ok(dated.into_iter().map(|(_, path)| path).collect())
}
