//! The files of an authority: plant, policies, workflow, signing keys.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::SystemTime;

use tokio::fs;
use tokio::io::AsyncWriteExt as _;
use zeroize::Zeroizing;

use crate::config::{PolicySource, PolicyTexts};
use crate::error::AuthorityError;

fn failed(path: &Path) -> impl FnOnce(io::Error) -> AuthorityError + use<> {
    let path = path.to_owned();
    move |source| AuthorityError::File { path, source }
}

/// The texts as they are now.
pub(crate) async fn read(source: &PolicySource) -> Result<PolicyTexts, AuthorityError> {
    match source {
        PolicySource::Texts(texts) => Ok(texts.clone()),
        PolicySource::Files { plant, policies, workflow } => Ok(PolicyTexts {
            plant: fs::read_to_string(plant).await.map_err(failed(plant))?,
            policies: fs::read_to_string(policies).await.map_err(failed(policies))?,
            workflow: match workflow {
                Some(path) => Some(fs::read_to_string(path).await.map_err(failed(path))?),
                None => None,
            },
        }),
    }
}

/// When each file last changed, and how long it is; a file that is not there counts as changed then.
pub(crate) async fn stamps(source: &PolicySource) -> Vec<Option<(SystemTime, u64)>> {
    let PolicySource::Files { plant, policies, workflow } = source else { return Vec::new() };
    let mut stamps = Vec::new();
    for path in [Some(plant), Some(policies), workflow.as_ref()].into_iter().flatten() {
        let found = fs::metadata(path).await.ok();
        stamps.push(found.and_then(|found| found.modified().ok().map(|changed| (changed, found.len()))));
    }
    stamps
}

/// A file with secrets in it, or nothing when there is none.
pub(crate) async fn read_secret_if_there(path: &Path) -> Result<Option<Zeroizing<String>>, AuthorityError> {
    let text = match fs::read_to_string(path).await {
        Ok(text) => Zeroizing::new(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path)(error)),
    };
    let mode = fs::metadata(path).await.map_err(failed(path))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(AuthorityError::OpenToOthers(path.to_owned()));
    }
    Ok(Some(text))
}

/// Replaces a file that only we may read, whole or not at all.
pub(crate) async fn write_secret(path: &Path, text: &str) -> Result<(), AuthorityError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).await.map_err(failed(folder))?;
    }
    let fresh = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&fresh).await.map_err(failed(&fresh))?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600)).await.map_err(failed(&fresh))?;
    file.write_all(text.as_bytes()).await.map_err(failed(&fresh))?;
    file.sync_all().await.map_err(failed(&fresh))?;
    fs::rename(&fresh, path).await.map_err(failed(path))
}
