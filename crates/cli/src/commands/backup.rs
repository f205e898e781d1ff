//! `trapkey backup` and `trapkey restore`.

use std::path::PathBuf;

use clap::Args;
use store::{BackupError, Db, DbConfig, RestoreTarget};

use super::audit::{configured_key, public_key};
use super::{Common, block_on};
use crate::answer::Answer;
use crate::failure::Failure;
use crate::files;

/// Writes a backup.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The backup file to make; must not exist
    archive: PathBuf,
}

/// Puts a backup in place.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The backup file
    archive: PathBuf,
    /// Put aside the database and the ledger that are there (they are renamed, not deleted)
    #[arg(long)]
    replace: bool,
    /// The key the ledger must be signed with [default: as for `audit verify`]
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

fn failed(error: &BackupError) -> Failure {
    let failure = Failure::from_error(error);
    match error {
        BackupError::Exists { .. } => failure.into_bad_input(),
        BackupError::Unusable(_) => failure.into_bad_input().help("nothing was changed"),
        BackupError::InUse { .. } => failure.help("stop the program that uses it first"),
        _ => failure,
    }
}

pub(crate) fn backup(args: &BackupArgs, common: &Common) -> Result<Answer, Failure> {
    let config = common.config.load()?;
    if !files::exists(&config.store.database) {
        return Err(Failure::bad_input(format!("there is no database `{}`", config.store.database.display())));
    }
    let report = block_on(async {
        let place =
            DbConfig { path: config.store.database.clone(), sync: crate::config::durability(config.store.sync) };
        let db = Db::open(&place).await.map_err(|error| Failure::from_error(&error))?;
        let report = store::backup(&db, &config.audit.ledger, &args.archive).await.map_err(|error| failed(&error));
        db.close().await;
        report
    })?;
    let text = format!(
        "{}: {} files, {} bytes, ledger up to record {}",
        args.archive.display(),
        report.files,
        report.bytes,
        report.ledger_sequence
    );
    Ok(Answer::ok(text, serde_json::to_value(&report).unwrap_or_default()))
}

pub(crate) fn restore(args: &RestoreArgs, common: &Common) -> Result<Answer, Failure> {
    let config = common.config.load()?;
    let key = match &args.key {
        Some(key) => Some(public_key(key)?),
        None => configured_key(common)?,
    };
    let target = RestoreTarget { db: config.store.database, ledger: config.audit.ledger, key, replace: args.replace };
    let report = block_on(async { store::restore(&args.archive, &target).await.map_err(|error| failed(&error)) });
    let report = report.map_err(|failure| match args.replace {
        false if files::exists(&target.ledger) => failure.help("`--replace` puts aside what is there"),
        _ => failure,
    })?;
    let mut text = format!(
        "restored the backup of {}: {} audit records, up to record {}\n",
        report.made, report.records, report.ledger_sequence
    );
    for path in &report.put_aside {
        text += &format!("  put aside: {}\n", path.display());
    }
    Ok(Answer::ok(text, serde_json::to_value(&report).unwrap_or_default()))
}
