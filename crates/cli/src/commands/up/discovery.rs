//! Servers and guards say at discovery servers that they are there, as long as they are. Nothing else waits for that.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use gates::opcua::client::{DiscoveryServer, Registration, register};
use tokio::sync::watch;
use tokio::task::JoinSet;
use ua_proto::pki::{OwnIdentity, SharedTrust};
use ua_proto::server::ServerConfig;

use crate::commands::own::Own;
use crate::config::EndpointUrl;

/// How long one step of a registration may take, and the last one of all.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(2));
/// A registration ends ten minutes after it was renewed last.
const RENEW: Duration = Duration::from_secs(480);
/// Pause after a failure; doubles up to the second.
const RETRY: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(300));

/// The registrations of a program.
pub(super) struct Registrations {
    with: Vec<EndpointUrl>,
    stop: watch::Sender<bool>,
    tasks: Mutex<JoinSet<()>>,
}

impl Registrations {
    pub(super) fn new(with: &[EndpointUrl]) -> Self {
        Self { with: with.to_vec(), stop: watch::channel(false).0, tasks: Mutex::default() }
    }

    /// Registers a server everywhere from now on; one of two that take turns while it serves.
    pub(super) fn add(
        &self,
        what: &Registration,
        own: &Own,
        identity: &Arc<ArcSwap<OwnIdentity>>,
        serving: Option<&watch::Receiver<bool>>,
    ) {
        let Ok(mut tasks) = self.tasks.lock() else { return };
        for url in &self.with {
            let keep = Keep {
                url: url.as_str().to_owned(),
                what: what.clone(),
                identity: Arc::clone(identity),
                trust: Arc::clone(&own.trust),
            };
            let always = || watch::channel(true).1;
            tasks.spawn(keep.up(self.stop.subscribe(), serving.cloned().unwrap_or_else(always)));
        }
    }

    /// Begins to take all of them off.
    pub(super) fn leave(&self) {
        self.stop.send_replace(true);
    }

    /// Takes all of them off.
    pub(super) async fn end(self) {
        self.leave();
        let Ok(mut tasks) = self.tasks.into_inner() else { return };
        while tasks.join_next().await.is_some() {}
    }
}

/// What is said of a server.
pub(super) fn registration(server: &ServerConfig, discovery: bool) -> Registration {
    let capabilities: &[&str] = if discovery { &["DA", "LDS"] } else { &["DA"] };
    Registration {
        application_uri: server.application_uri.clone(),
        product_uri: server.product_uri.clone(),
        name: server.application_name.clone(),
        urls: server.endpoint_urls.clone(),
        capabilities: capabilities.iter().map(|one| (*one).to_owned()).collect(),
    }
}

/// One server at one discovery server.
struct Keep {
    url: String,
    what: Registration,
    identity: Arc<ArcSwap<OwnIdentity>>,
    trust: SharedTrust,
}

impl Keep {
    async fn up(self, mut stop: watch::Receiver<bool>, mut serving: watch::Receiver<bool>) {
        let (mut pause, mut registered, mut said) = (RETRY.0, false, None);
        loop {
            if !*serving.borrow() {
                // Whoever serves now has said so under the same name: taking that off would be wrong.
                registered = false;
                tokio::select! {
                    () = becomes(&mut serving, true) => {}
                    _ = stop.wait_for(|stop| *stop) => break,
                }
            }
            let told = tokio::select! {
                told = self.tell(true, PATIENCE.0) => told,
                () = becomes(&mut serving, false) => continue,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            let (server, at) = (&self.what.name, &self.url);
            let rest = match told {
                Ok(()) => {
                    if !registered {
                        tracing::info!(server, at, "registered with the discovery server");
                    }
                    (registered, pause, said) = (true, RETRY.0, None);
                    RENEW
                }
                Err(cause) => {
                    if said.as_ref() != Some(&cause) {
                        tracing::warn!(server, at, cause, "not registered with the discovery server");
                    }
                    said = Some(cause);
                    let rest = pause;
                    pause = (pause * 2).min(RETRY.1);
                    rest
                }
            };
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                () = becomes(&mut serving, false) => {}
                _ = stop.wait_for(|stop| *stop) => break,
            }
        }
        // Who was never there needs not be taken off; who cannot be, is forgotten after ten minutes.
        let serves = *serving.borrow();
        if registered
            && serves
            && let Err(cause) = self.tell(false, PATIENCE.1).await
        {
            tracing::warn!(server = self.what.name, at = self.url, cause, "not taken off the discovery server");
        }
    }

    async fn tell(&self, online: bool, limit: Duration) -> Result<(), String> {
        let at = DiscoveryServer {
            url: self.url.clone(),
            identity: self.identity.load_full(),
            trust: Arc::clone(&self.trust),
        };
        register(&at, &self.what, online, limit).await.map_err(|error| error.to_string())
    }
}

/// Waits until it is so; for ever where nobody says so any more.
async fn becomes(serving: &mut watch::Receiver<bool>, so: bool) {
    if serving.wait_for(|serving| *serving == so).await.is_err() {
        std::future::pending().await
    }
}
