//! The rejected folder: bounded, so that strangers cannot fill the disk.

use ua_proto::pki::Certificate;

use super::{PkiError, PkiStore, files};

/// The most certificates that are kept; the oldest makes room.
pub const MAX_REJECTED: usize = 100;

impl PkiStore {
    /// Keeps a refused certificate, so that an engineer can move it to `trusted/certs`. Equal ones are kept once.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn reject(&self, certificate: &Certificate) -> Result<(), PkiError> {
        let folder = self.root().join("rejected/certs");
        let path = folder.join(format!("{}.der", certificate.thumbprint()));
        let kept = files::age_order(&folder)?;
        if kept.contains(&path) {
            return Ok(());
        }
        files::make_folder(&folder)?;
        let surplus = (kept.len() + 1).saturating_sub(MAX_REJECTED);
        kept.iter().take(surplus).try_for_each(|oldest| files::remove(oldest))?;
        files::write_public(&path, certificate.der())
    }
}
