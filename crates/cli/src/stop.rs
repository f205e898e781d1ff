//! How people and service managers end a program that runs until it is told to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT or SIGTERM, heard from the moment this is made: a program that is stopped while it starts ends in order too.
pub(crate) struct StopSignal(Signal, Signal);

impl StopSignal {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self(signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
    }

    /// Waits for either.
    pub(crate) async fn heard(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}
