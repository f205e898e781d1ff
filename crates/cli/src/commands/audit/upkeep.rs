//! What keeps a ledger healthy over years: another signing key, and old segments that go.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;
use store::{CheckpointKey, KeyKind, LedgerError, RetainError, Retention, retain, rotate_key};

use super::{Which, time};
use crate::answer::Answer;
use crate::commands::Common;
use crate::config::durability;
use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct RotateKey {
    #[command(flatten)]
    key: Key,
    /// The kind of the next key
    #[arg(long, value_enum, default_value = "ed25519")]
    kind: Kind,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// Ed25519
    Ed25519,
    /// ECDSA over P-256 with SHA-256
    Es256,
}

#[derive(Debug, Args)]
pub(crate) struct Archive {
    #[command(flatten)]
    key: Key,
    #[command(flatten)]
    old: Old,
    /// The folder that gets the copies; goes on where an earlier archive in it ends
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Retain {
    #[command(flatten)]
    key: Key,
    #[command(flatten)]
    old: Old,
}

/// Which ledger, and the key that signs it.
#[derive(Debug, Args)]
struct Key {
    #[command(flatten)]
    which: Which,
    /// The file of the key that signs the ledger, instead of the one in the configuration
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

/// Which segments go. Both at once: only those for which both hold.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Old {
    /// Segments that were closed longer ago than this: 90d, 12h; or before a time in RFC 3339
    #[arg(long, value_name = "AGE")]
    older_than: Option<String>,
    /// All but this many of the newest segments
    #[arg(long, value_name = "COUNT")]
    keep: Option<usize>,
}

impl Key {
    fn file(&self, common: &Common) -> Result<PathBuf, Failure> {
        match &self.key_file {
            Some(file) => Ok(file.clone()),
            None => Ok(common.config.load()?.audit.key),
        }
    }

    fn load(&self, common: &Common) -> Result<CheckpointKey, Failure> {
        CheckpointKey::load(&self.file(common)?).map_err(|error| Failure::from_error(&error))
    }
}

pub(super) fn rotate(args: &RotateKey, common: &Common) -> Result<Answer, Failure> {
    let folder = args.key.which.folder(common)?;
    let file = args.key.file(common)?;
    let kind = match args.kind {
        Kind::Ed25519 => KeyKind::Ed25519,
        Kind::Es256 => KeyKind::Es256,
    };
    let sync = durability(config::Sync::Disk);
    let rotation = rotate_key(&folder, sync, &file, kind).map_err(|error| {
        let failure = Failure::from_error(&error);
        match error {
            LedgerError::InUse { .. } => failure.help("stop the program that writes it, and start it again afterwards"),
            _ => failure,
        }
    })?;
    let (from, to, file) = (rotation.from.to_string(), rotation.to.to_string(), file.display().to_string());
    let text = format!("the ledger is signed with {to} from now on\n  before      {from}\n  key file    {file}\n");
    Ok(Answer::ok(text, json!({"from": from, "to": to, "key_file": file})))
}

pub(super) fn archive(args: &Archive, common: &Common) -> Result<Answer, Failure> {
    shorten(&args.key, &args.old, Some(args.to.clone()), common)
}

pub(super) fn remove(args: &Retain, common: &Common) -> Result<Answer, Failure> {
    shorten(&args.key, &args.old, None, common)
}

fn shorten(key: &Key, old: &Old, archive: Option<PathBuf>, common: &Common) -> Result<Answer, Failure> {
    let folder = key.which.folder(common)?;
    let retention = Retention {
        sealed_before: old.older_than.as_deref().map(time).transpose()?,
        keep_segments: old.keep.unwrap_or(0),
        archive,
    };
    let gone = retain(&folder, &key.load(common)?, &retention).map_err(|error| {
        let failure = Failure::from_error(&error);
        match error {
            RetainError::Broken(_) | RetainError::OtherKey { .. } | RetainError::Archive { .. } => {
                failure.into_bad_input()
            }
            _ => failure,
        }
    })?;
    let word = if retention.archive.is_some() { "archived and removed" } else { "removed" };
    let mut text = format!("{word}: {} segments, {} records\n", gone.segments.len(), gone.records);
    for name in &gone.segments {
        text += &format!("  {name}\n");
    }
    text += &format!("  left         {}, from record {} on\n", gone.left, gone.through + 1);
    let archive = retention.archive.map(|folder| folder.display().to_string());
    let (segments, records, through, left) = (gone.segments, gone.records, gone.through, gone.left);
    Ok(Answer::ok(
        text,
        json!({"removed": segments, "records": records, "through": through, "left": left, "archive": archive}),
    ))
}
