//! Connections of a guard to its upstream server: dialled when the core asks, bytes moved both ways.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use ua_proto::guard::{LinkId, Upstream};

use super::connection::{Wake, write};
use super::core::Core;
use super::server::Running;

const READ_BUFFER: usize = 64 * 1024;
/// The core has its own, shorter limit; this one frees the task.
const CONNECT: Duration = Duration::from_secs(60);

struct Connection {
    /// `None` until it is made.
    write: RefCell<Option<Rc<OwnedWriteHalf>>>,
    unsent: Cell<bool>,
    /// The core does not want to be read to.
    held: Cell<bool>,
    closed: Cell<bool>,
    /// Requests of a session go over it, or did.
    known: Cell<bool>,
    wake: Wake,
}

/// The open connections, by the id the core knows them under.
pub(super) struct Upstreams {
    open: RefCell<BTreeMap<LinkId, Rc<Connection>>>,
    /// All of them are read into it, one after the other.
    buffer: RefCell<Box<[u8]>>,
}

impl Default for Upstreams {
    fn default() -> Self {
        Self { open: RefCell::default(), buffer: RefCell::new(vec![0; READ_BUFFER].into_boxed_slice()) }
    }
}

impl Upstreams {
    /// Writes as much as the server takes at once; the connection's task sees to the rest.
    pub(super) fn flush(&self, link: LinkId, core: &mut impl Core) {
        let Some(connection) = self.open.borrow().get(&link).cloned() else { return };
        let half = connection.write.borrow();
        let (Some(half), Some(bytes)) = (half.as_ref(), core.upstream_outgoing(link)) else { return };
        write(half, bytes);
        if connection.unsent.replace(!bytes.is_empty()) == bytes.is_empty() {
            connection.wake.notify_one();
        }
    }

    /// What held the core back is done: it may want to be read to again.
    pub(super) fn wake(&self, link: LinkId) {
        if let Some(connection) = self.open.borrow().get(&link).filter(|connection| connection.held.get()) {
            connection.wake.notify_one();
        }
    }

    /// The core is done with a connection.
    pub(super) fn close(&self, link: LinkId) {
        if let Some(connection) = self.open.borrow_mut().remove(&link) {
            connection.closed.set(true);
            connection.wake.notify_one();
        }
    }

    pub(super) fn close_all(&self) {
        let all = std::mem::take(&mut *self.open.borrow_mut());
        for connection in all.into_values() {
            connection.closed.set(true);
            connection.wake.notify_one();
        }
    }
}

/// Makes a connection that the core asked for, and serves it to its end.
pub(super) fn dial<C: Core>(running: &Rc<Running<C>>, link: LinkId, url: String) {
    let connection = Rc::new(Connection {
        write: RefCell::new(None),
        unsent: Cell::new(false),
        held: Cell::new(false),
        closed: Cell::new(false),
        known: Cell::new(false),
        wake: Wake::default(),
    });
    running.upstreams.open.borrow_mut().insert(link, Rc::clone(&connection));
    let running = Rc::clone(running);
    tokio::task::spawn_local(async move {
        let stream = tokio::select! {
            stream = running.way.connect(&url, CONNECT) => stream,
            () = closed(&connection) => return,
        };
        match stream {
            Ok(stream) => {
                let (read, write) = stream.into_split();
                connection.write.replace(Some(Rc::new(write)));
                running.upstream(link, Upstream::Connected);
                serve(&running, link, &connection, read).await;
            }
            Err(error) => tracing::warn!(%error, "the upstream server cannot be reached"),
        }
        running.upstreams.close(link);
        running.upstream(link, Upstream::Lost);
    });
}

async fn closed(connection: &Connection) {
    while !connection.closed.get() {
        connection.wake.notified().await;
    }
}

async fn serve<C: Core>(running: &Rc<Running<C>>, link: LinkId, connection: &Connection, mut read: OwnedReadHalf) {
    while !connection.closed.get() {
        let reading = running.core.borrow().wants_upstream(link);
        let unsent = connection.unsent.get();
        connection.held.set(!reading);
        tokio::select! {
            biased;
            () = connection.wake.notified() => {}
            () = room(connection), if unsent => {
                running.upstreams.flush(link, &mut *running.core.borrow_mut());
            }
            taken = receive(running, link, connection, &mut read), if reading => {
                if !matches!(taken, Ok(true)) {
                    return;
                }
            }
        }
        if !reading {
            // What held the core back may be gone.
            running.upstream(link, Upstream::Bytes(&[]));
        }
    }
}

/// Reads once and hands the bytes to the core; `false` at the end of the stream. What opens a session waits for its turn.
async fn receive<C: Core>(
    running: &Rc<Running<C>>,
    link: LinkId,
    connection: &Connection,
    read: &mut OwnedReadHalf,
) -> io::Result<bool> {
    if !connection.known.get() {
        connection.known.set(running.core.borrow().serves(link));
    }
    if connection.known.get() {
        return poll_fn(|context| poll_receive(running, link, read, context)).await;
    }
    running.turns.take(read, |read, context| poll_receive(running, link, read, context)).await
}

fn poll_receive<C: Core>(
    running: &Rc<Running<C>>,
    link: LinkId,
    read: &mut OwnedReadHalf,
    context: &mut Context<'_>,
) -> Poll<io::Result<bool>> {
    let mut buffer = running.upstreams.buffer.borrow_mut();
    let mut filled = ReadBuf::new(&mut buffer);
    ready!(Pin::new(read).poll_read(context, &mut filled))?;
    let bytes = filled.filled();
    if bytes.is_empty() {
        return Poll::Ready(Ok(false));
    }
    running.upstream(link, Upstream::Bytes(bytes));
    Poll::Ready(Ok(true))
}

/// Waits until the server takes more bytes.
async fn room(connection: &Connection) {
    let half = connection.write.borrow().clone();
    if let Some(half) = half {
        // An error shows at the reading side as well.
        let _told_there = half.writable().await;
    }
}
