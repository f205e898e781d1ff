//! The one place of this crate that touches the file system: what people name on the command line.
#![expect(clippy::disallowed_methods, reason = "the program reads the files its user names")]

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::Utf8Error;
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::failure::{Failure, unreadable};

/// Configuration, plant, policies: no text that people write is longer.
const MAX_TEXT: u64 = 64 * 1024 * 1024;

/// The text of a file.
pub(crate) fn text(path: &Path) -> Result<Arc<str>, Failure> {
    let bytes = bytes(path)?;
    let text = String::from_utf8(bytes);
    text.map(Arc::from).map_err(|error| not_text(path, error.as_bytes(), error.utf8_error()))
}

/// The text of an XML file, which may say itself what its letters are.
pub(crate) fn xml(path: &Path) -> Result<Arc<str>, Failure> {
    let bytes = bytes(path)?;
    let text = gspn::formats::xml_text(&bytes);
    text.map(Arc::from).map_err(|refusal| Failure::bad_input(format!("`{}`: {}", path.display(), refusal.why)))
}

fn not_text(path: &Path, bytes: &[u8], error: Utf8Error) -> Failure {
    let line = bytes.iter().take(error.valid_up_to()).filter(|byte| **byte == b'\n').count() + 1;
    Failure::bad_input(format!("`{}` is not UTF-8 text, first in line {line}", path.display())).help("save it as UTF-8")
}

/// The bytes of a file, or of the standard input for `-`.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    // What a pipe or a device holds is known when it was read.
    let take = |from: &mut dyn Read, expected: u64| -> io::Result<Vec<u8>> {
        // With room for all of it no copy of a secret is left behind.
        let mut bytes = Vec::with_capacity(usize::try_from(expected.min(MAX_TEXT)).unwrap_or(0) + 1);
        from.take(MAX_TEXT + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_TEXT {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 64 MiB"));
        }
        Ok(bytes)
    };
    let read = || {
        if path == Path::new("-") {
            return take(&mut io::stdin().lock(), 0);
        }
        let mut file = fs::File::open(path)?;
        let expected = file.metadata()?.len();
        take(&mut file, expected)
    };
    read().map_err(|error| unreadable(path, &error))
}

/// The same, of what has an end: a pipe that nobody writes to, or a device, would be waited for, and is refused. What a shell has opened
/// for this program (`<(..)`) is no name that anybody else could leave open.
pub(crate) fn finite_bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let opened = ["/dev/fd", "/proc/self/fd", "/dev/stdin"].iter().any(|folder| path.starts_with(folder));
    // A folder is refused as it is read.
    let other = fs::metadata(path).is_ok_and(|it| !it.is_file() && !it.is_dir());
    if other && !opened && path != Path::new("-") {
        return Err(Failure::bad_input(format!("`{}` is no file, but a pipe or a device", path.display()))
            .help("write it to a file, or to the standard input, and name that `-`"));
    }
    bytes(path)
}

pub(crate) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Whether files can be made in a folder, or the folder itself can be made: tries it and leaves nothing.
pub(crate) fn writable(folder: &Path) -> io::Result<()> {
    let there = folder.ancestors().find(|path| path.as_os_str().is_empty() || exists(path));
    let there = there.filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tempfile::Builder::new().prefix(".doctor-").tempfile_in(there).map(drop)
}

pub(crate) fn make_folder(path: &Path) -> Result<(), Failure> {
    let made = fs::DirBuilder::new().recursive(true).create(path);
    made.map_err(|error| {
        Failure::unavailable(format!("cannot make the folder `{}`", path.display())).because_of(Some(&error))
    })
}

/// Makes a file that must not exist yet; `private` ones are readable by their owner only.
pub(crate) fn create(path: &Path, bytes: &[u8], private: bool) -> Result<(), Failure> {
    let mode = if private { 0o600 } else { 0o644 };
    let write = || -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|error| {
        let failure = Failure::unavailable(format!("cannot write `{}`", path.display())).because_of(Some(&error));
        if error.kind() == io::ErrorKind::AlreadyExists { failure.into_bad_input() } else { failure }
    })
}

/// The text of a file with a secret in it, which nobody but its owner may read.
pub(crate) fn private_text(path: &Path) -> Result<Zeroizing<String>, Failure> {
    let bytes = Zeroizing::new(bytes(path)?);
    if mode(path).is_ok_and(|mode| mode & 0o077 != 0) {
        return Err(Failure::bad_input(format!("`{}` can be read by others", path.display()))
            .help(format!("run `chmod 600 {}`", path.display())));
    }
    let text = std::str::from_utf8(&bytes).map(|text| Zeroizing::new(text.to_owned()));
    text.map_err(|error| not_text(path, &bytes, error))
}

/// Puts new content in the place of a file, at once and whole: written beside it as `new`, then moved.
pub(crate) fn replace(path: &Path, new: &Path, bytes: &[u8]) -> Result<(), Failure> {
    put(path, new, bytes, 0o644)
}

/// The same for a file that only its owner may read.
pub(crate) fn replace_private(path: &Path, new: &Path, bytes: &[u8]) -> Result<(), Failure> {
    put(path, new, bytes, 0o600)
}

fn put(path: &Path, new: &Path, bytes: &[u8], mode: u32) -> Result<(), Failure> {
    let write = || -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(new, path)
    };
    write().map_err(|error| Failure::unavailable(format!("cannot write `{}`", path.display())).because_of(Some(&error)))
}

/// Refuses what [`export`] cannot write, before long work whose result it is.
pub(crate) fn exportable(path: &Path) -> Result<(), Failure> {
    let there = meant(path);
    let tried = match fs::metadata(&there) {
        Ok(known) if known.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(known) if !known.is_file() => Ok(()),
        // By its folder first: an error of the file that is tried would name what nobody knows.
        _ => fs::metadata(beside(&there))
            .and_then(|_| tempfile::Builder::new().prefix(".trapkey-").tempfile_in(beside(&there)).map(drop)),
    };
    tried.map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::unavailable(format!("cannot write `{}`", path.display())).because_of(Some(error))
}

/// The folder that a file is in.
fn beside(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The file that a name means: where a link leads, also if nothing is there yet.
fn meant(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| match fs::read_link(path) {
        Ok(to) => beside(path).join(to),
        Err(_) => path.to_owned(),
    })
}

/// Writes an export, whole or not at all: it is made beside the file and then moved there, so whoever reads it has all of one of them,
/// and what is killed on the way leaves what was there. A link stays one; what is no file, such as a pipe, is written to as it is. Who may
/// read a new file says the umask.
pub(crate) fn export(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let there = meant(path);
    let known = fs::metadata(&there).ok();
    if known.as_ref().is_some_and(|known| !known.is_file()) {
        let mut file = io::BufWriter::new(overwrite(path)?);
        return write(&mut file).and_then(|()| file.flush()).map_err(|error| unwritable(path, &error));
    }
    let done = || -> io::Result<()> {
        fs::metadata(beside(&there))?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".trapkey-").suffix(".new").permissions(fs::Permissions::from_mode(0o666));
        let new = builder.tempfile_in(beside(&there))?;
        // By its file: an error by its name would name what nobody knows.
        let mut file = io::BufWriter::new(new.as_file());
        write(&mut file)?;
        file.flush()?;
        drop(file);
        if let Some(known) = known {
            new.as_file().set_permissions(known.permissions())?;
        }
        new.as_file().sync_all()?;
        new.persist(&there).map_err(|error| error.error)?;
        Ok(())
    };
    done().map_err(|error| unwritable(path, &error))
}

/// Refuses to write what is asked for by options into a file that is read in the same call, or two of it into one file.
pub(crate) fn apart<'a>(
    written: &[(&str, Option<&'a PathBuf>)],
    read: impl IntoIterator<Item = &'a Path>,
) -> Result<(), Failure> {
    // A device takes what comes, and `-` is no file.
    let file = |path: &Path| {
        let there = meant(path);
        let there = fs::canonicalize(beside(&there)).map(|folder| folder.join(there.file_name().unwrap_or_default()));
        there.ok().filter(|there| fs::metadata(there).is_ok_and(|it| it.is_file()) || !exists(there))
    };
    let mut taken: Vec<(PathBuf, Option<&str>)> =
        read.into_iter().filter_map(|path| Some((file(path)?, None))).collect();
    for (option, path) in written {
        if path.is_some_and(|path| path == Path::new("-")) {
            let message = format!("`{option} -` names no file");
            return Err(Failure::bad_input(message).help("name one, or `/dev/stdout`"));
        }
        let Some((path, there)) = path.and_then(|path| Some((path.display(), file(path)?))) else { continue };
        match taken.iter().find(|(other, _)| *other == there) {
            Some((_, None)) => {
                let message = format!("`{option} {path}` would replace a file that is read here");
                return Err(Failure::bad_input(message).help("name another file"));
            }
            Some((_, Some(other))) => {
                let message = format!("`{other}` and `{option}` are both `{path}`: give each a file");
                return Err(Failure::bad_input(message));
            }
            None => taken.push((there, Some(option))),
        }
    }
    Ok(())
}

/// Puts new content in the place of a file, whole, and does not wait for the disk: for what is soon written again.
pub(crate) fn note(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, bytes)?;
    fs::rename(&new, path)
}

/// Takes a file away; one that is not there is gone already.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A file to write an export to; replaced if it is there.
pub(crate) fn overwrite(path: &Path) -> Result<fs::File, Failure> {
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| Failure::unavailable(format!("cannot write `{}`", path.display())).because_of(Some(&error)))
}

/// Permission bits.
pub(crate) fn mode(path: &Path) -> io::Result<u32> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o777)
}

/// The folders in a folder, sorted.
pub(crate) fn folders(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let read = || -> io::Result<Vec<std::path::PathBuf>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                found.push(entry.path());
            }
        }
        found.sort();
        Ok(found)
    };
    read().map_err(|error| unreadable(path, &error))
}
