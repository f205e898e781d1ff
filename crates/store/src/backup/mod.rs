//! Backups: one tar file with a snapshot of the database, the ledger up to its last checkpoint, and a manifest.
//!
//! The snapshot of the database is taken before the ledger is copied, so the ledger in a backup always explains the
//! database in it. A restore checks every byte, the database and the whole ledger before it moves anything.

mod restore;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use crate::{Db, DbError, clock, files, hex, ledger};

pub use restore::{RestoreReport, RestoreTarget, restore};

const FORMAT: u32 = 1;
const MANIFEST: &str = "manifest.json";
const DATABASE: &str = "trapkey.db";
const LEDGER: &str = "ledger";

/// Why a backup or a restore failed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file system refused.
    #[error("cannot use `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        #[source]
        source: io::Error,
    },
    /// The database refused.
    #[error(transparent)]
    Db(#[from] DbError),
    /// Something is there that would be overwritten.
    #[error("`{}` exists already", path.display())]
    Exists {
        /// The file or folder.
        path: PathBuf,
    },
    /// A program is using what would be replaced.
    #[error("the ledger `{}` is in use by another program", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The archive is not one of ours, or damaged.
    #[error("the backup is unusable: {0}")]
    Unusable(String),
}

impl BackupError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BackupReport {
    /// The last record of the ledger in it.
    pub ledger_sequence: u64,
    /// Files in it.
    pub files: usize,
    /// Bytes of these files.
    pub bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    format: u32,
    /// Version of the program that made it.
    version: String,
    /// RFC 3339.
    made: String,
    ledger_sequence: u64,
    files: Vec<Member>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Member {
    name: String,
    bytes: u64,
    sha256: String,
}

/// Writes a backup to `archive`, which must not exist. Works beside a running program; a ledger that is open in this
/// program should be asked for a checkpoint first, or its last second is not in the backup.
///
/// # Errors
/// Something cannot be read or written; then no archive is left.
pub async fn backup(db: &Db, ledger: &Path, archive: &Path) -> Result<BackupReport, BackupError> {
    if files::exists(archive) {
        return Err(BackupError::Exists { path: archive.to_owned() });
    }
    let staging = Staging::beside(archive, "staging")?;
    let copy = staging.0.join(DATABASE);
    // SQLite makes the copy with the mode of an empty file that is there.
    files::create_new(&copy).map_err(BackupError::io(&copy))?;
    let name = copy.to_str().ok_or_else(|| BackupError::Unusable(format!("`{}` is not UTF-8", copy.display())))?;
    db.copy_to(name).await?;
    let (ledger, archive) = (ledger.to_owned(), archive.to_owned());
    blocking(move || {
        let sequence = ledger::copy_prefix(&ledger, &staging.0.join(LEDGER)).map_err(BackupError::io(&ledger))?;
        pack(&staging.0, sequence, &archive)
    })
    .await
}

fn pack(staging: &Path, ledger_sequence: u64, archive: &Path) -> Result<BackupReport, BackupError> {
    let folder = staging.join(LEDGER);
    let segments = files::names(&folder).map_err(BackupError::io(&folder))?;
    let names = std::iter::once(DATABASE.to_owned()).chain(segments.iter().map(|name| format!("{LEDGER}/{name}")));
    let members: Vec<Member> = names.map(|name| member(staging, name)).collect::<Result<_, _>>()?;
    let report =
        BackupReport { ledger_sequence, files: members.len(), bytes: members.iter().map(|member| member.bytes).sum() };
    let manifest = Manifest {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").into(),
        made: ledger::rfc3339::format(clock::unix()),
        ledger_sequence,
        files: members,
    };
    let unfinished = files::beside(archive, "new");
    let written = write_archive(staging, &manifest, &unfinished).and_then(|()| files::rename(&unfinished, archive));
    if written.is_err() {
        let _ = files::remove(&unfinished);
    }
    written.and_then(|()| files::sync_folder_of(archive)).map_err(BackupError::io(archive))?;
    Ok(report)
}

fn member(staging: &Path, name: String) -> Result<Member, BackupError> {
    let path = staging.join(&name);
    let (bytes, sha256) = files::open(&path).and_then(digest_of).map_err(BackupError::io(&path))?;
    Ok(Member { name, bytes, sha256 })
}

fn write_archive(staging: &Path, manifest: &Manifest, path: &Path) -> io::Result<()> {
    let mut archive = tar::Builder::new(files::create(path)?);
    let text = serde_json::to_vec_pretty(manifest).map_err(io::Error::other)?;
    archive.append_data(&mut header(text.len() as u64), MANIFEST, text.as_slice())?;
    for member in &manifest.files {
        let content = files::open(&staging.join(&member.name))?;
        archive.append_data(&mut header(member.bytes), &member.name, content.take(member.bytes))?;
    }
    let mut file = archive.into_inner()?;
    file.flush()?;
    file.sync_all()
}

fn header(bytes: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_size(bytes);
    header.set_mode(0o600);
    header.set_entry_type(tar::EntryType::Regular);
    header
}

/// Length and SHA-256 of everything that can be read.
fn digest_of(content: File) -> io::Result<(u64, String)> {
    let mut sink = Digesting { context: Context::new(&SHA256), into: io::sink() };
    let bytes = io::copy(&mut io::BufReader::new(content), &mut sink)?;
    Ok((bytes, sink.finish()))
}

/// Writes on and digests what it writes.
struct Digesting<W> {
    context: Context,
    into: W,
}

impl<W> Digesting<W> {
    fn finish(self) -> String {
        hex::hex(self.context.finish().as_ref())
    }
}

impl<W: Write> Write for Digesting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.into.write(bytes)?;
        self.context.update(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.into.flush()
    }
}

/// A folder that is gone with its value.
struct Staging(PathBuf);

impl Staging {
    fn beside(path: &Path, suffix: &str) -> Result<Self, BackupError> {
        let folder = files::beside(path, suffix);
        if files::exists(&folder) {
            return Err(BackupError::Exists { path: folder });
        }
        files::make_folder(&folder).map_err(BackupError::io(&folder))?;
        Ok(Self(folder))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = files::remove_folder(&self.0);
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BackupError> + Send + 'static,
) -> Result<T, BackupError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(BackupError::Unusable(error.to_string())),
    }
}
