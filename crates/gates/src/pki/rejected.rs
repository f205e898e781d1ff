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

    /// The same with what a peer sent. What is no certificate is not kept; what cannot be written is logged, since
    /// nobody who waits could do anything about it.
    pub fn reject_der(&self, der: &[u8]) {
        let Ok(certificate) = Certificate::from_der(der) else { return };
        if let Err(error) = self.reject(&certificate) {
            tracing::warn!(%error, "a rejected certificate could not be kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use access_model::UnixTime;
    use ua_proto::pki::TrustSettings;

    use super::*;
    use crate::pki::make;

    #[test]
    fn strangers_fill_the_folder_of_rejected_certificates_to_its_bound_and_no_further() {
        let folder = tempfile::tempdir().unwrap();
        let store = PkiStore::new(folder.path(), TrustSettings::default());
        let kept = || files::age_order(&folder.path().join("rejected/certs")).unwrap();
        store.reject_der(b"no certificate");
        assert!(kept().is_empty());
        let strangers: Vec<Certificate> = (0..MAX_REJECTED + 20)
            .map(|number| {
                let stranger = make::Application::local(&format!("stranger {number}"), "urn:stranger");
                let made = make::self_signed_on(make::Curve::P256, &stranger, UnixTime::from_seconds(1_790_000_000));
                Certificate::from_der(&made.unwrap().der).unwrap()
            })
            .collect();
        for (before, stranger) in strangers.iter().enumerate() {
            store.reject_der(stranger.der());
            store.reject_der(stranger.der());
            assert_eq!(kept().len(), (before + 1).min(MAX_REJECTED));
            let path = folder.path().join(format!("rejected/certs/{}.der", stranger.thumbprint()));
            assert_eq!(files::read(&path).unwrap(), stranger.der(), "the newest is kept");
            if before == 50 {
                let file = std::fs::File::options().write(true).open(path).unwrap();
                file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
            }
            let oldest = folder.path().join(format!("rejected/certs/{}.der", strangers[50.min(before)].thumbprint()));
            assert_eq!(kept().contains(&oldest), before < MAX_REJECTED, "the oldest makes room first");
        }
    }
}
