//! Live reload: a changed directory becomes a new trust list; a broken one changes nothing and is reported.

use std::path::PathBuf;
use std::time::Duration;

use ua_proto::pki::TrustList;

use super::{PkiError, PkiStore, files};

/// Looks at the directory every `every` and calls `changed` with the list as it is at the beginning and with each new one, or
/// with what is wrong with it. Files that
/// are still being written are read at the next look, once they have kept their size and time between two looks.
pub async fn watch(store: PkiStore, every: Duration, mut changed: impl FnMut(Result<TrustList, PkiError>) + Send) {
    let folders: Vec<PathBuf> = ["trusted/certs", "trusted/crl", "issuers/certs", "issuers/crl"]
        .iter()
        .map(|folder| store.root().join(folder))
        .collect();
    // Nobody says when the list that is in force was read: the first one is taken as a change.
    let mut applied = None;
    let mut last = files::stamp(&folders);
    loop {
        tokio::time::sleep(every).await;
        let seen = files::stamp(&folders);
        if seen == last && applied.as_ref() != Some(&seen) {
            changed(store.load());
            applied = Some(seen.clone());
        }
        last = seen;
    }
}
