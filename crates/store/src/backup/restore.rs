//! Putting a backup in place: unpack beside, check everything, then move.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{Context, SHA256};
use serde::Serialize;

use super::{BackupError, DATABASE, Digesting, FORMAT, LEDGER, MANIFEST, Manifest, Member, Staging, blocking};
use crate::{CheckpointPublicKey, Db, DbConfig, Sync, clock, files, ledger};

/// A manifest is a few lines per segment.
const MAX_MANIFEST: u64 = 4 * 1024 * 1024;

/// Where a backup goes.
#[derive(Clone, Debug)]
pub struct RestoreTarget {
    /// The database file.
    pub db: PathBuf,
    /// The ledger folder.
    pub ledger: PathBuf,
    /// The key that the ledger must be signed with.
    pub key: Option<CheckpointPublicKey>,
    /// Whether what is there may be put aside.
    pub replace: bool,
}

/// What was restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RestoreReport {
    /// Audit records in the ledger.
    pub records: u64,
    /// The last record of the ledger.
    pub ledger_sequence: u64,
    /// When the backup was made (RFC 3339).
    pub made: String,
    /// What stood there before, under its new name.
    pub put_aside: Vec<PathBuf>,
}

/// Checks a backup whole and then puts it in place. What was there is put aside, never deleted.
///
/// # Errors
/// The archive is damaged, the ledger in it does not verify, something is in use, or is there and may not be replaced.
/// Then nothing has changed.
pub async fn restore(archive: &Path, target: &RestoreTarget) -> Result<RestoreReport, BackupError> {
    if !target.replace {
        for path in [&target.db, &target.ledger] {
            if files::exists(path) {
                return Err(BackupError::Exists { path: path.clone() });
            }
        }
    }
    let staged = Staged::new(target)?;
    let (from, to) = (archive.to_owned(), staged.paths());
    let manifest = blocking(move || unpack(&from, &to)).await?;
    check_database(&staged.db_file()).await?;
    let target = target.clone();
    blocking(move || {
        let records = check_ledger(&staged.ledger.0, &target, manifest.ledger_sequence)?;
        let put_aside = put_in_place(&staged, &target)?;
        Ok(RestoreReport { records, ledger_sequence: manifest.ledger_sequence, made: manifest.made, put_aside })
    })
    .await
}

/// Both parts wait beside their places, so that moving them is a rename.
struct Staged {
    db: Staging,
    ledger: Staging,
}

impl Staged {
    fn new(target: &RestoreTarget) -> Result<Self, BackupError> {
        for path in [&target.db, &target.ledger] {
            if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                files::make_folder(folder).map_err(BackupError::io(folder))?;
            }
        }
        let db = Staging::beside(&target.db, "restoring")?;
        Ok(Self { db, ledger: Staging::beside(&target.ledger, "restoring")? })
    }

    fn db_file(&self) -> PathBuf {
        self.db.0.join(DATABASE)
    }

    fn paths(&self) -> Places {
        Places { db: self.db_file(), ledger: self.ledger.0.clone() }
    }
}

struct Places {
    db: PathBuf,
    ledger: PathBuf,
}

impl Places {
    /// Where a member goes; a name that is none of ours goes nowhere, least of all out of the folder.
    fn of(&self, name: &str) -> Option<PathBuf> {
        if name == DATABASE {
            return Some(self.db.clone());
        }
        let inner = name.strip_prefix(LEDGER)?.strip_prefix('/')?;
        ledger::is_ledger_file(inner).then(|| self.ledger.join(inner))
    }
}

fn unpack(archive: &Path, places: &Places) -> Result<Manifest, BackupError> {
    let mut tar = tar::Archive::new(files::open(archive).map_err(BackupError::io(archive))?);
    let damaged = |error: io::Error| BackupError::Unusable(error.to_string());
    let mut entries = tar.entries().map_err(damaged)?;
    let first = entries.next().ok_or_else(|| BackupError::Unusable("it is empty".into()))?;
    let manifest = read_manifest(first.map_err(damaged)?)?;
    let mut expected = manifest.files.iter();
    for entry in entries {
        let mut entry = entry.map_err(damaged)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let member = expected.next().filter(|member| member.name == name);
        let member = member.ok_or_else(|| BackupError::Unusable(format!("`{name}` is not in its manifest")))?;
        let path = places.of(&name).ok_or_else(|| BackupError::Unusable(format!("`{name}` does not belong in it")))?;
        unpack_member(&mut entry, member, &path)?;
    }
    match expected.next() {
        Some(missing) => Err(BackupError::Unusable(format!("`{}` is missing", missing.name))),
        None => Ok(manifest),
    }
}

fn read_manifest(entry: tar::Entry<'_, std::fs::File>) -> Result<Manifest, BackupError> {
    if &*entry.path_bytes() != MANIFEST.as_bytes() {
        return Err(BackupError::Unusable("it does not begin with a manifest".into()));
    }
    let manifest: Manifest = serde_json::from_reader(entry.take(MAX_MANIFEST))
        .map_err(|error| BackupError::Unusable(format!("the manifest is unreadable: {error}")))?;
    if manifest.format != FORMAT {
        return Err(BackupError::Unusable(format!("its format is {}, known is {FORMAT}", manifest.format)));
    }
    Ok(manifest)
}

fn unpack_member(entry: &mut impl Read, member: &Member, path: &Path) -> Result<(), BackupError> {
    let mut into =
        Digesting { context: Context::new(&SHA256), into: files::create_new(path).map_err(BackupError::io(path))? };
    let bytes = io::copy(&mut entry.take(member.bytes.saturating_add(1)), &mut into).map_err(BackupError::io(path))?;
    into.flush().and_then(|()| into.into.sync_all()).map_err(BackupError::io(path))?;
    if bytes == member.bytes && into.finish() == member.sha256 {
        Ok(())
    } else {
        Err(BackupError::Unusable(format!("`{}` is not what its manifest says", member.name)))
    }
}

async fn check_database(path: &Path) -> Result<(), BackupError> {
    if !files::exists(path) {
        return Err(BackupError::Unusable("it holds no database".into()));
    }
    let db = Db::open(&DbConfig { path: path.to_owned(), sync: Sync::Disk }).await?;
    let damage = db.damage().await;
    db.close().await;
    match damage? {
        Some(damage) => Err(BackupError::Unusable(format!("the database is damaged: {damage}"))),
        None => Ok(()),
    }
}

fn check_ledger(folder: &Path, target: &RestoreTarget, sequence: u64) -> Result<u64, BackupError> {
    let report = ledger::verify(folder, target.key.as_ref()).map_err(BackupError::io(folder))?;
    if let Some(place) = &report.first_break {
        return Err(BackupError::Unusable(format!("the ledger does not verify: {place}")));
    }
    if !report.is_intact() || report.sequence != sequence {
        return Err(BackupError::Unusable("the ledger is not whole".into()));
    }
    Ok(report.records)
}

/// SQLite's files beside the database belong to it.
const BESIDE_DATABASE: [&str; 3] = ["", "-wal", "-shm"];

fn put_in_place(staged: &Staged, target: &RestoreTarget) -> Result<Vec<PathBuf>, BackupError> {
    let _lock = lock_existing(&target.ledger)?;
    let suffix = format!("before-restore-{}", clock::unix().as_seconds());
    let mut moves: Vec<(PathBuf, PathBuf)> = Vec::new();
    let with = |path: &Path, end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    for end in BESIDE_DATABASE {
        let there = with(&target.db, end);
        moves.push((there, with(&files::beside(&target.db, &suffix), end)));
    }
    moves.push((target.ledger.clone(), files::beside(&target.ledger, &suffix)));
    moves.retain(|(there, _)| files::exists(there));
    let put_aside = moves.iter().map(|(_, aside)| aside.clone()).collect();
    moves.push((staged.db_file(), target.db.clone()));
    moves.push((staged.ledger.0.clone(), target.ledger.clone()));
    move_all(&moves)?;
    Ok(put_aside)
}

/// All renames or none.
fn move_all(moves: &[(PathBuf, PathBuf)]) -> Result<(), BackupError> {
    for (done, (from, to)) in moves.iter().enumerate() {
        let moved = if files::exists(to) {
            Err(BackupError::Exists { path: to.clone() })
        } else {
            files::rename(from, to).and_then(|()| files::sync_folder_of(to)).map_err(BackupError::io(to))
        };
        if let Err(error) = moved {
            for (from, to) in moves.iter().take(done + 1).rev() {
                if !files::exists(from) {
                    let _ = files::rename(to, from);
                }
            }
            return Err(error);
        }
    }
    Ok(())
}

/// Keeps a running program from writing into what is moved away.
fn lock_existing(folder: &Path) -> Result<Option<std::fs::File>, BackupError> {
    if !files::exists(folder) {
        return Ok(None);
    }
    let lock = files::lock(&folder.join(ledger::LOCK)).map_err(BackupError::io(folder))?;
    lock.map(Some).ok_or_else(|| BackupError::InUse { path: folder.to_owned() })
}
