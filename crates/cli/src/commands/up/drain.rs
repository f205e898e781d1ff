//! The end of a program that clients use: no connection is taken any more, those that are there are told, and who does not
//! leave by itself is closed when the time is over.

use std::time::Duration;

use gates::opcua::Enforcing;
use gates::opcua::server::Handle;

use super::Up;
use super::health::Phase;
use crate::stop::StopSignal;

/// How often it is looked who is left.
const LOOK: Duration = Duration::from_millis(100);

/// Waits until every session is over, for at most `limit`, or until somebody loses patience.
pub(super) async fn wait(up: &Up, limit: Duration, stop: &mut StopSignal) {
    up.board.enter(Phase::Draining);
    // First the turns: a guard that another one replaces is not taken off discovery servers, where both have one name.
    for (_, turn) in &up.turns {
        if turn.hand_over().await {
            tracing::info!("draining: another guard takes over");
        }
    }
    up.registrations.leave();
    let until = gates::clock::now().mono + limit;
    tracing::info!(seconds = limit.as_secs(), "draining: no more connections are taken, and clients are told");
    let mut told = None;
    loop {
        let left = until.since(gates::clock::mono());
        // Rounded up: what is told must not be over before it is.
        let seconds = u32::try_from(left.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX);
        if told != Some(seconds) {
            tell(up, seconds).await;
            told = Some(seconds);
        }
        let sessions = sessions(up).await;
        if sessions == 0 {
            return tracing::info!("every client has left");
        }
        if left.is_zero() {
            return tracing::warn!(sessions, "these sessions are closed: their clients did not leave");
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK.min(left)) => {}
            _ = stop.heard() => return tracing::warn!(sessions, "asked to end at once: these sessions are closed"),
        }
    }
}

async fn tell(up: &Up, seconds: u32) {
    for station in &up.stations {
        let _ended = station.handle.drain(seconds).await;
    }
    for guard in &up.guards {
        let _ended = guard.drain(seconds).await;
    }
    if let Some(authority) = &up.authority {
        let _ended = authority.opcua.handle.drain(seconds).await;
    }
}

async fn sessions(up: &Up) -> usize {
    let mut all = 0;
    for station in &up.stations {
        all += of(&station.handle).await;
    }
    for guard in &up.guards {
        all += of(guard).await;
    }
    if let Some(authority) = &up.authority {
        all += of(&authority.opcua.handle).await;
    }
    all
}

async fn of<C: Enforcing>(handle: &Handle<C>) -> usize {
    handle.with(|core, _| core.front().load().1).await.unwrap_or(0)
}
