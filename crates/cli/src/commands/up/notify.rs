//! What a service manager wants to hear (sd_notify(3)): that everything listens, that the threads answer, that the end
//! has begun. Says nothing where nobody asks.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use super::health::Board;

/// The ear of the service manager.
pub(super) struct Notify {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// How often it wants to hear that all is well.
    watchdog: Option<Duration>,
}

impl Notify {
    pub(super) fn from_environment() -> Self {
        let socket = std::env::var("NOTIFY_SOCKET").ok().and_then(|name| open(&name));
        let micros = std::env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse().ok());
        let ours = std::env::var("WATCHDOG_PID").map_or(true, |pid| pid == std::process::id().to_string());
        let watchdog = micros.filter(|micros| *micros > 0 && ours && socket.is_some()).map(Duration::from_micros);
        Self { socket, watchdog }
    }

    pub(super) fn say(&self, state: &str) {
        if let Some((socket, to)) = &self.socket
            && let Err(error) = socket.send_to_addr(state.as_bytes(), to)
        {
            tracing::warn!(%error, state, "the service manager was not told");
        }
    }
}

impl Notify {
    /// Says as often as it is wanted that all is well, for as long as the threads answer. A program that drains is well.
    pub(super) async fn watch(self: Arc<Self>, board: Board) {
        let Some(pause) = self.watchdog else { return };
        loop {
            if board.is_alive().await {
                self.say("WATCHDOG=1");
            }
            tokio::time::sleep(pause / 3).await;
        }
    }
}

fn open(name: &str) -> Option<(UnixDatagram, SocketAddr)> {
    let to = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(name),
    };
    let socket = UnixDatagram::unbound();
    match (socket, to) {
        (Ok(socket), Ok(to)) => Some((socket, to)),
        (Err(error), _) | (_, Err(error)) => {
            tracing::warn!(%error, "the service manager cannot be told anything");
            None
        }
    }
}
