//! How people and service managers end a program that runs until it is told to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT or SIGTERM, heard from the moment this is made: a program that is stopped while it starts ends in order too.
pub(crate) struct StopSignal(Signal, Signal);

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A person at the keyboard: at once.
    Interrupt,
    /// A service manager, or `trapkey drain`: clients may leave first.
    Terminate,
}

impl StopSignal {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self(signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
    }

    /// Waits for either.
    pub(crate) async fn heard(&mut self) -> Stop {
        tokio::select! {
            _ = self.0.recv() => Stop::Interrupt,
            _ = self.1.recv() => Stop::Terminate,
        }
    }
}
