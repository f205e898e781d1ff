//! A folder made by `trapkey certs`, as clients and roles use it: own certificate and key, whom it trusts, HTTPS.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gates::https::{HttpsClient, client_config};
use gates::opcua::Enforcing;
use gates::opcua::server::Handle;
use gates::pki::PkiStore;
use tokio::sync::mpsc;
use ua_proto::pki::{OwnIdentity, SharedTrust, TrustSettings};
use ua_proto::server::Input;
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::files;

/// How long an authority may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often the folder is looked at.
pub(crate) const LOOK: Duration = Duration::from_secs(2);

/// One application's certificates.
pub(crate) struct Own {
    /// The folder.
    pub(crate) store: PkiStore,
    /// Certificate and key.
    pub(crate) identity: Arc<OwnIdentity>,
    /// Whom it trusts.
    pub(crate) trust: SharedTrust,
}

impl Own {
    /// As strict as can be.
    pub(crate) fn load(folder: &Path) -> Result<Self, Failure> {
        Self::load_as(folder, TrustSettings::default())
    }

    /// With another strictness.
    pub(crate) fn load_as(folder: &Path, settings: TrustSettings) -> Result<Self, Failure> {
        let store = PkiStore::new(folder, settings);
        let unusable = |error: gates::pki::PkiError| {
            Failure::from_error(&error).into_bad_input().help("`trapkey certs init` makes such folders")
        };
        let identity = store.identity().map_err(unusable)?;
        let identity = Arc::new(identity.without_ended(gates::clock::now().unix).unwrap_or(identity));
        let trust = Arc::new(ArcSwap::from_pointee(store.load().map_err(unusable)?));
        Ok(Self { store, identity, trust })
    }

    /// The ApplicationUri in the certificate.
    pub(crate) fn uri(&self) -> Result<String, Failure> {
        let uri = self.identity.certificate.application_uri().map(str::to_owned);
        uri.ok_or_else(|| {
            Failure::bad_input(format!("the certificate in `{}` names no ApplicationUri", self.store.root().display()))
        })
    }

    /// Whether its certificate is that of the plant file's server.
    pub(crate) fn is_for(&self, name: &str, uri: &str) -> Result<(), Failure> {
        let ours = self.uri()?;
        if ours == uri {
            return Ok(());
        }
        Err(Failure::bad_input(format!("the certificate of `{name}` is for `{ours}`, not for `{uri}`")))
    }

    /// Keeps a running server in step with the folder: certificates and lists that are added or taken away hold for
    /// its channels at once, and a renewed certificate of its own is shown from then on. What cannot be read changes
    /// nothing.
    pub(crate) fn keep_in_step<C: Enforcing>(&self, identity: Arc<ArcSwap<OwnIdentity>>, server: &Handle<C>) {
        let (changed, mut changes) = mpsc::unbounded_channel();
        let (trust, root) = (Arc::clone(&self.trust), self.store.root().to_owned());
        tokio::spawn(gates::pki::watch(self.store.clone(), LOOK, move |list| match list {
            Ok(list) => {
                trust.store(Arc::new(list));
                let _server_is_gone = changed.send(());
            }
            Err(error) => tracing::error!(folder = %root.display(), %error, "the trust list stays as it was"),
        }));
        let on_trust = server.clone();
        tokio::spawn(async move {
            while changes.recv().await.is_some() {
                let told = on_trust.with(|server, now| server.tell(Input::TrustChanged, now)).await;
                if told.is_err() {
                    return;
                }
            }
        });
        tokio::spawn(follow_identity(self.store.clone(), identity, server.clone()));
    }

    /// HTTPS that trusts what this folder trusts, and proves who it is with the application certificate.
    pub(crate) fn https(&self) -> Result<HttpsClient, Failure> {
        let trust = self.trust.load();
        let roots = trust.trusted.iter().map(|certificate| certificate.der().to_vec());
        let key = private_key(&self.store.root().join("own/private/own.pem"))?;
        let chain = vec![self.identity.certificate.der().to_vec()];
        let tls = client_config(roots, Some((chain, key.to_vec()))).map_err(|error| Failure::from_error(&error))?;
        Ok(HttpsClient::new(tls, PATIENCE))
    }
}

impl Own {
    /// What it takes to talk with another program that has the same certificate.
    pub(crate) fn pair(&self) -> Result<gates::peer::Pair, Failure> {
        let key = private_key(&self.store.root().join("own/private/own.pem"))?;
        gates::peer::Pair::new(self.identity.certificate.der().to_vec(), key.to_vec())
            .map_err(|error| Failure::from_error(&error))
    }
}

/// Shows a renewed certificate from the next channel on; peers that still hold the one before get in until it ends.
async fn follow_identity<C: Enforcing>(store: PkiStore, identity: Arc<ArcSwap<OwnIdentity>>, server: Handle<C>) {
    loop {
        tokio::select! {
            () = server.stopped() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        let (at, shown) = (store.clone(), identity.load_full());
        let read = tokio::task::spawn_blocking(move || at.identity()).await;
        let next = match read {
            // The key is written after the certificate, or before it: for a moment they do not fit.
            Ok(Err(error)) => {
                tracing::debug!(%error, "the own certificate stays as it was");
                None
            }
            Ok(Ok(new)) if !certificates(&new).eq(certificates(&shown)) => {
                tracing::info!(until = %::store::rfc3339(new.certificate.not_after()), "the own certificate was renewed");
                Some(new.succeeding(&shown))
            }
            _ => shown.without_ended(gates::clock::now().unix),
        };
        if let Some(next) = next {
            identity.store(Arc::new(next));
            let told = server.with(|server, now| server.tell(Input::IdentityChanged, now)).await;
            if told.is_err() {
                return;
            }
        }
    }
}

/// What peers may see of an identity: its certificate, and those beside it.
fn certificates(own: &OwnIdentity) -> impl Iterator<Item = &[u8]> {
    let beside = own.others.iter().map(|other| other.certificate.der());
    std::iter::once(own.certificate.der()).chain(beside)
}

/// The DER inside a PEM file with a PKCS#8 key.
pub(crate) fn private_key(path: &Path) -> Result<Zeroizing<Vec<u8>>, Failure> {
    block(path, &files::private_text(path)?, "PRIVATE KEY").map(Zeroizing::new)
}

/// The DER inside a PEM file with a certificate.
pub(crate) fn certificate(path: &Path) -> Result<Vec<u8>, Failure> {
    block(path, &files::text(path)?, "CERTIFICATE")
}

fn block(path: &Path, text: &str, label: &str) -> Result<Vec<u8>, Failure> {
    let body = text
        .split_once(&format!("-----BEGIN {label}-----"))
        .and_then(|(_, rest)| rest.split_once("-----END"))
        .map(|(body, _)| Zeroizing::new(body.split_whitespace().collect::<String>()));
    let der = body.and_then(|body| STANDARD.decode(body.as_bytes()).ok());
    der.ok_or_else(|| Failure::bad_input(format!("`{}` holds no PEM block `{label}`", path.display())))
}
