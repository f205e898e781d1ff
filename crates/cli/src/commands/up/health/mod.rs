//! How the program is: for service managers, load balancers and whoever keeps figures. `/livez` says whether its threads
//! answer, `/readyz` names each part, `/metrics` gives figures as OpenMetrics.

mod http;
mod look;
mod metrics;
mod ready;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use ::authority::Authority;
use access_model::UnixTime;
use gates::opcua::guard::GuardHandle;
use gates::opcua::server::ServerHandle;
use store::Ledger;
use tokio::sync::watch;

use super::turn::Turn;
use crate::failure::Failure;
use crate::roles::audit::WayMeters;

/// How far the program has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Starting,
    Running,
    Draining,
}

impl Phase {
    const fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Draining => "draining",
        }
    }
}

/// What listens for clients, and who stands behind it.
#[derive(Clone)]
pub(super) enum Watched {
    /// The OPC UA side of the authority.
    Authority(ServerHandle),
    Server(String, ServerHandle),
    Guard(String, GuardHandle, Reach, Option<Turn>),
}

impl Watched {
    fn name(&self) -> &str {
        match self {
            Self::Authority(_) => AUTHORITY,
            Self::Server(name, _) | Self::Guard(name, ..) => name,
        }
    }
}

const AUTHORITY: &str = "authority";

/// Why the server behind a guard could not be looked at the last time, if so, and since when.
#[derive(Clone, Debug)]
pub(crate) struct Reach(Arc<Mutex<Option<(String, UnixTime)>>>);

impl Reach {
    pub(super) fn unknown() -> Self {
        Self(Arc::new(Mutex::new(Some(("it was not looked for yet".to_owned(), gates::clock::now().unix)))))
    }

    /// What the last look has shown.
    pub(super) fn set(&self, trouble: Option<String>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = known.as_ref().map_or_else(|| gates::clock::now().unix, |(_, since)| *since);
        *known = trouble.map(|trouble| (trouble, since));
    }

    pub(super) fn trouble(&self) -> Option<(String, UnixTime)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What is known of the program; clones are the same.
#[derive(Clone)]
pub(super) struct Board(Arc<Shared>);

struct Shared {
    started: UnixTime,
    phase: watch::Sender<Phase>,
    ledger: Ledger,
    meters: Arc<WayMeters>,
    running: Mutex<Running>,
    /// The names of all that is to listen.
    expected: Vec<String>,
}

#[derive(Clone, Default)]
struct Running {
    authority: Option<Authority>,
    watched: Vec<Watched>,
}

impl Board {
    pub(super) fn new(ledger: Ledger, meters: Arc<WayMeters>, expected: Vec<String>) -> Self {
        let running = Mutex::default();
        let (started, phase) = (gates::clock::now().unix, watch::Sender::new(Phase::Starting));
        Self(Arc::new(Shared { started, phase, ledger, meters, running, expected }))
    }

    /// The names of what a configuration has listening.
    pub(super) fn names(config: &crate::config::Config) -> Vec<String> {
        let authority = config.authority.iter().map(|_| AUTHORITY.to_owned());
        let servers = config.server.iter().map(|role| role.name.clone());
        authority.chain(servers).chain(config.guard.iter().map(|role| role.name.clone())).collect()
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.0.phase.send_replace(phase);
    }

    fn phase(&self) -> Phase {
        *self.0.phase.borrow()
    }

    pub(super) fn authority_is(&self, authority: Authority) {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner).authority = Some(authority);
    }

    /// One more part listens.
    pub(super) fn watch(&self, part: Watched) {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner).watched.push(part);
    }

    fn running(&self) -> Running {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether every thread answers.
    pub(super) async fn is_alive(&self) -> bool {
        look::View::of(self).await.is_alive()
    }

    /// Serves it until the program ends.
    pub(super) async fn serve(&self, address: SocketAddr) -> Result<SocketAddr, Failure> {
        let listener = tokio::net::TcpListener::bind(address).await;
        let listener = listener
            .map_err(|error| Failure::unavailable(format!("cannot listen at {address}")).because_of(Some(&error)))?;
        let address = listener.local_addr()?;
        tokio::spawn(http::serve(listener, self.clone()));
        Ok(address)
    }
}
