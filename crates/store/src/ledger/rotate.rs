//! Changing the key that signs, for good: the next key is made, the ledger handed over to it, and the old one overwritten.
//!
//! Killed between any two steps, the next call finishes: the next key waits in `<key>.next` until the ledger is its own.

use std::path::Path;

use super::{CheckpointKey, CheckpointPublicKey, KeyError, KeyKind, LedgerConfig, LedgerError, open};
use crate::{Sync, files};

/// A key that took over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRotation {
    /// The key that signed until now.
    pub from: CheckpointPublicKey,
    /// The key that signs from now on.
    pub to: CheckpointPublicKey,
}

/// Hands the ledger in `folder` from the key in the file `key` to a new one of this kind, which replaces it in that file, as does
/// its public half in `<key>.pub`. No program may have the ledger open.
///
/// # Errors
/// The ledger is in use, cannot be opened with that key, or a file cannot be written.
pub fn rotate_key(folder: &Path, sync: Sync, key: &Path, kind: KeyKind) -> Result<KeyRotation, LedgerError> {
    let old = CheckpointKey::load(key)?;
    let next = files::beside(key, "next");
    let new = CheckpointKey::load_or_create(&next, kind)?;
    let (from, to) = (old.public(), new.public());
    match open::open(folder, LedgerConfig { sync, ..LedgerConfig::default() }, old) {
        Ok(mut writer) => {
            let io = |source| LedgerError::Io { path: folder.to_owned(), source };
            writer.rekey(new).map_err(io)?;
        }
        // An earlier call was killed behind this point.
        Err(LedgerError::OtherKey { theirs, .. }) if theirs == to => {}
        Err(error) => return Err(error),
    }
    adopt(&next, key, &to).map_err(|source| KeyError::File { path: key.to_owned(), source })?;
    Ok(KeyRotation { from, to })
}

fn adopt(next: &Path, key: &Path, public: &CheckpointPublicKey) -> std::io::Result<()> {
    files::replace(&files::beside(key, "pub"), format!("{public}\n").as_bytes(), true)?;
    files::rename(next, key)?;
    files::sync_folder_of(key)?;
    let public = files::beside(next, "pub");
    if files::exists(&public) { files::remove(&public) } else { Ok(()) }
}
