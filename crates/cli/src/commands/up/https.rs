//! The authority's HTTPS service: where it listens, and the certificate it shows, which is renewed while it runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use authority::{Authority, ShownCertificate};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::commands::own::{LOOK, certificate, private_key};
use crate::config::Authority as AuthorityRole;
use crate::failure::Failure;

/// Serves until the sender says `true` or is gone.
pub(super) async fn serve(
    authority: &Authority,
    role: &AuthorityRole,
) -> Result<(watch::Sender<bool>, JoinHandle<()>), Failure> {
    let (chain, key) = files(&role.pki)?;
    let shown = ShownCertificate::new(chain, key).map_err(|error| Failure::from_error(&error))?;
    let shown = Arc::new(shown);
    let tls = authority::server_config_showing(Arc::clone(&shown)).map_err(|error| Failure::from_error(&error))?;
    let listener = tokio::net::TcpListener::bind(role.https)
        .await
        .map_err(|error| Failure::unavailable(format!("cannot listen at {}", role.https)).because_of(Some(&error)))?;
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(follow(role.pki.clone(), shown, stopped.clone()));
    let serving = tokio::spawn(authority::serve(listener, tls, authority.clone(), stopped));
    Ok((stop, serving))
}

fn files(pki: &Path) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Failure> {
    let chain = vec![CertificateDer::from(certificate(&pki.join("tls/tls.pem"))?)];
    let key = private_key(&pki.join("tls/tls-key.pem"))?;
    Ok((chain, PrivateKeyDer::try_from(key.to_vec()).map_err(Failure::bad_input)?))
}

/// Shows a renewed certificate from the next connection on. What cannot be read changes nothing: the key is written before
/// the certificate, and for a moment they do not fit.
async fn follow(pki: PathBuf, shown: Arc<ShownCertificate>, mut stop: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            _ended = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        let (at, renewing) = (pki.clone(), Arc::clone(&shown));
        let looked = tokio::task::spawn_blocking(move || {
            let (chain, key) = files(&at)?;
            renewing.renew(chain, key).map_err(|error| Failure::from_error(&error))
        });
        match looked.await {
            Ok(Ok(true)) => tracing::info!("the certificate of HTTPS was renewed"),
            Ok(Err(failure)) => tracing::debug!(?failure, "the certificate of HTTPS stays as it was"),
            Ok(Ok(false)) | Err(_) => {}
        }
    }
}
