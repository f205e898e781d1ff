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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::pin::Pin;
    use std::rc::Rc;
    use std::task::ready;

    use tokio::io::{AsyncRead, AsyncWriteExt as _, ReadBuf};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::LocalSet;

    use super::*;

    /// What happened on the thread: a step of somebody who comes, or anything of somebody who is in.
    type Log = Rc<RefCell<Vec<&'static str>>>;

    fn step(log: &Log, half: &mut OwnedReadHalf, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut bytes = [0; 8];
        ready!(Pin::new(half).poll_read(context, &mut ReadBuf::new(&mut bytes)))?;
        log.borrow_mut().push("comes");
        Poll::Ready(Ok(true))
    }

    #[tokio::test(flavor = "current_thread")]
    async fn between_two_who_come_whoever_is_in_has_a_chance() {
        const COMING: usize = 20;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (log, turns) = (Log::default(), Rc::new(Turns::default()));
        let mut coming = Vec::new();
        for _ in 0..COMING {
            let (dialled, accepted) =
                tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
            let mut peer = dialled.unwrap();
            peer.write_all(b"hello").await.unwrap();
            coming.push((peer, accepted.unwrap().0.into_split()));
        }
        for (_, (half, _)) in &coming {
            half.readable().await.unwrap();
        }
        let set = LocalSet::new();
        let inside = Rc::clone(&log);
        set.spawn_local(async move {
            loop {
                inside.borrow_mut().push("is in");
                look_around().await;
            }
        });
        let mut tasks = Vec::new();
        for (peer, (mut half, other)) in coming {
            let (log, turns) = (Rc::clone(&log), Rc::clone(&turns));
            tasks.push(set.spawn_local(async move {
                turns.take(&mut half, |half, context| step(&log, half, context)).await.unwrap();
                drop((peer, other));
            }));
        }
        set.run_until(async {
            for task in tasks {
                task.await.unwrap();
            }
        })
        .await;
        let log = log.borrow();
        assert_eq!(log.iter().filter(|what| **what == "comes").count(), COMING);
        assert!(log.windows(2).all(|pair| pair != ["comes", "comes"]), "{log:?}");
    }
}
