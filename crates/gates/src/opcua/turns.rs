//! Whoever is in goes before those who come: connections without a session take turns.
//!
//! All of a server happens on one thread. When hundreds connect at once, each of them brings work to it, and a Read of
//! somebody who is connected would wait for all of it. So those who come do one step each, one after the other, and
//! between two steps the thread looks at its sockets again.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::Semaphore;

/// The turns of one server, those of both its sides.
pub(super) struct Turns(Semaphore);

impl Default for Turns {
    fn default() -> Self {
        Self(Semaphore::const_new(1))
    }
}

impl Turns {
    /// Reads with `receive` when there is something to be read and it is its turn. Nothing is waited for during a turn.
    pub(super) async fn take(
        &self,
        half: &mut OwnedReadHalf,
        mut receive: impl FnMut(&mut OwnedReadHalf, &mut Context<'_>) -> Poll<io::Result<bool>>,
    ) -> io::Result<bool> {
        loop {
            half.readable().await?;
            // Never closed: an error would only mean that nobody waits for anybody.
            let _turn = self.0.acquire().await;
            let received = poll_fn(|context| Poll::Ready(receive(half, context))).await;
            if let Poll::Ready(received) = received {
                look_around().await;
                return received;
            }
        }
    }
}

/// Goes on when the sockets were looked at and everybody who is ready had a chance.
pub(super) async fn look_around() {
    tokio::task::yield_now().await;
}
