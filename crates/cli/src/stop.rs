//! How people and service managers end a program that runs until it is told to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// SIGINT or SIGTERM, heard from the moment this is made: a program that is stopped while it starts ends in order too.
pub(crate) struct StopSignal(Signal, Signal);

/// Ends the program when it is told to, after what measurements keep for themselves is gone: keys, databases.
pub(crate) fn clears() -> Result<(), Failure> {
    let failed = |error: &std::io::Error| Failure::unavailable("signals cannot be heard").because_of(Some(error));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| failed(&error))?;
    let mut signal = {
        let _inside = runtime.enter();
        StopSignal::new().map_err(|error| failed(&error))?
    };
    std::thread::spawn(move || {
        let stop = runtime.block_on(signal.heard());
        bench::scratch::clear();
        // As a shell says it of a program that a signal has ended.
        std::process::exit(if stop == Stop::Interrupt { 130 } else { 143 });
    });
    Ok(())
}

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
