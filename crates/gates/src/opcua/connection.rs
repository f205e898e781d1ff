//! One TCP connection of a server: reads into the thread's buffer, writes what the core left to be sent.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use ua_proto::server::{ConnId, Input};

use super::core::Core;
use super::server::Running;

/// Size of the read buffer that all connections of a server share.
const READ_BUFFER: usize = 64 * 1024;
/// An emptied send buffer larger than this is given back: there are as many as connections, and most stay empty for long.
const KEEP: usize = 1_024;
/// How long a client that is called may take to answer; the core waits a little longer.
const CALL: Duration = Duration::from_secs(10);
/// How long a peer may take to hear why its connection ends.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Wakes a connection's task. All of it stays on one thread, so it takes no lock, and a task that waits for bytes over
/// and over registers once.
#[derive(Default)]
pub(super) struct Wake {
    set: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Wake {
    pub(super) fn notify_one(&self) {
        self.set.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        if self.set.take() {
            return Poll::Ready(());
        }
        let mut waker = self.waker.borrow_mut();
        if waker.as_ref().is_none_or(|known| !known.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
        Poll::Pending
    }

    pub(super) async fn notified(&self) {
        poll_fn(|context| self.poll(context)).await;
    }
}

struct Connection {
    write: OwnedWriteHalf,
    unsent: Cell<usize>,
    /// The core does not want to be read to.
    held: Cell<bool>,
    /// Somebody has logged in on it.
    known: Cell<bool>,
    /// The last bytes, once the core has closed the connection.
    rest: RefCell<Option<Vec<u8>>>,
    wake: Wake,
}

impl Connection {
    fn write(&self, bytes: &mut Vec<u8>) {
        write(&self.write, bytes);
    }
}

/// Writes what the peer takes at once and keeps the rest in `bytes`.
pub(super) fn write(half: &OwnedWriteHalf, bytes: &mut Vec<u8>) {
    {
        let mut sent = 0;
        while let Some(left) = bytes.get(sent..).filter(|left| !left.is_empty()) {
            match half.try_write(left) {
                Ok(0) => break,
                Ok(more) => sent += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The reading side sees the end of the connection too and tells the core.
                Err(_) => sent = bytes.len(),
            }
        }
        if sent == bytes.len() && bytes.capacity() > KEEP {
            *bytes = Vec::new();
        } else if sent == bytes.len() {
            bytes.clear();
        } else {
            bytes.drain(..sent);
            if bytes.capacity() / 2 > bytes.len().max(KEEP) {
                bytes.shrink_to_fit();
            }
        }
    }
}

/// The open connections of one server, by the id the core knows them under.
pub(super) struct Connections {
    open: RefCell<BTreeMap<ConnId, Rc<Connection>>>,
    next: Cell<u64>,
    buffer: RefCell<Box<[u8]>>,
    /// A connection has gone.
    ended: Wake,
}

impl Default for Connections {
    fn default() -> Self {
        let buffer = RefCell::new(vec![0; READ_BUFFER].into_boxed_slice());
        Self { open: RefCell::default(), next: Cell::new(1), buffer, ended: Wake::default() }
    }
}

impl Connections {
    /// Writes as much as the peer takes at once; its task sees to the rest. True when everything is gone and the core has
    /// put input off that nothing else would remind it of.
    #[must_use]
    pub(super) fn flush(&self, conn: ConnId, core: &mut impl Core) -> bool {
        let Some(connection) = self.open.borrow().get(&conn).cloned() else { return false };
        let Some(bytes) = core.outgoing(conn) else { return false };
        connection.write(bytes);
        let unsent = bytes.len();
        let before = connection.unsent.replace(unsent);
        // Its task is told of what it waits for: room in the peer's window, or leave to read again.
        if (before == 0) != (unsent == 0) || connection.held.get() {
            connection.wake.notify_one();
        }
        unsent == 0 && core.holds_input(conn)
    }

    /// Takes the core's last bytes for a connection and closes it once the peer has had a chance to read them.
    pub(super) fn close(&self, conn: ConnId, rest: Vec<u8>) {
        if let Some(connection) = self.open.borrow().get(&conn) {
            *connection.rest.borrow_mut() = Some(rest);
            connection.wake.notify_one();
        }
    }

    /// Gives peers that were told of the end a moment to hear it, then closes what is left.
    pub(super) async fn farewell(&self) {
        let none_left = async {
            while !self.open.borrow().is_empty() {
                self.ended.notified().await;
            }
        };
        let _deaf = tokio::time::timeout(LAST_WORDS, none_left).await;
        self.open.borrow_mut().clear();
    }
}

/// Takes a new connection into service.
pub(super) fn spawn<C: Core>(running: &Rc<Running<C>>, stream: TcpStream, peer: SocketAddr) {
    begin(running, stream, |conn| Input::Accepted { conn, peer: peer.to_string() });
}

/// Connects to a client that is to be called.
pub(super) fn call<C: Core>(running: &Rc<Running<C>>, client: usize, url: String) {
    let running = Rc::clone(running);
    tokio::task::spawn_local(async move {
        let stream = super::client::dial(&url, CALL).await;
        let reached = stream.and_then(|stream| match stream.peer_addr() {
            Ok(peer) => Ok((stream, peer)),
            Err(source) => Err(super::client::DialError::Connect { address: url, source }),
        });
        match reached {
            Ok((stream, peer)) => {
                begin(&running, stream, |conn| Input::Called { client, conn, peer: peer.to_string() });
            }
            Err(error) => {
                tracing::warn!(%error, "a client cannot be called");
                running.input(Input::NotCalled { client });
            }
        }
    });
}

fn begin<C: Core>(running: &Rc<Running<C>>, stream: TcpStream, said: impl FnOnce(ConnId) -> Input<'static>) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let (read, write) = stream.into_split();
    let conn = ConnId(running.connections.next.get());
    running.connections.next.set(conn.0 + 1);
    let connection = Rc::new(Connection {
        write,
        unsent: Cell::new(0),
        held: Cell::new(false),
        known: Cell::new(false),
        rest: RefCell::new(None),
        wake: Wake::default(),
    });
    running.connections.open.borrow_mut().insert(conn, Rc::clone(&connection));
    running.input(said(conn));
    let running = Rc::clone(running);
    tokio::task::spawn_local(async move {
        serve(&running, conn, &connection, read).await;
        running.connections.open.borrow_mut().remove(&conn);
        running.connections.ended.notify_one();
        running.input(Input::Disconnected { conn });
    });
}

/// Serves until the peer or the core ends it.
async fn serve<C: Core>(running: &Rc<Running<C>>, conn: ConnId, connection: &Connection, mut read: OwnedReadHalf) {
    loop {
        if let Some(rest) = connection.rest.take() {
            return drain(connection, rest).await;
        }
        let unsent = connection.unsent.get();
        let reading = running.core.borrow().wants_input(conn);
        connection.held.set(!reading);
        tokio::select! {
            biased;
            () = connection.wake.notified() => {}
            ready = connection.write.writable(), if unsent > 0 => {
                if ready.is_err() {
                    return;
                }
                flush(running, conn);
            }
            taken = receive(running, conn, connection, &mut read), if reading => {
                if !matches!(taken, Ok(true)) {
                    return;
                }
            }
        }
    }
}

fn flush<C: Core>(running: &Rc<Running<C>>, conn: ConnId) {
    let _told_below = running.connections.flush(conn, &mut *running.core.borrow_mut());
    // Nothing is taken out of the core's buffer before the peer takes it.
    running.input(Input::Drained { conn, unsent: 0 });
}

/// Gives the peer a moment to take the last words, such as an ERR message.
async fn drain(connection: &Connection, mut rest: Vec<u8>) {
    let last = async {
        loop {
            connection.write(&mut rest);
            if rest.is_empty() || connection.write.writable().await.is_err() {
                return;
            }
        }
    };
    let _late = tokio::time::timeout(LAST_WORDS, last).await;
}

/// Reads once and hands the bytes to the core; `false` at the end of the stream. Who has no session yet waits for its turn.
async fn receive<C: Core>(
    running: &Rc<Running<C>>,
    conn: ConnId,
    connection: &Connection,
    read: &mut OwnedReadHalf,
) -> io::Result<bool> {
    if !connection.known.get() {
        connection.known.set(running.core.borrow().is_logged_in(conn));
    }
    if connection.known.get() {
        return poll_fn(|context| poll_receive(running, conn, read, context)).await;
    }
    running.turns.take(read, |read, context| poll_receive(running, conn, read, context)).await
}

fn poll_receive<C: Core>(
    running: &Rc<Running<C>>,
    conn: ConnId,
    read: &mut OwnedReadHalf,
    context: &mut Context<'_>,
) -> Poll<io::Result<bool>> {
    let mut buffer = running.connections.buffer.borrow_mut();
    let mut filled = ReadBuf::new(&mut buffer);
    ready!(Pin::new(read).poll_read(context, &mut filled))?;
    let bytes = filled.filled();
    if bytes.is_empty() {
        return Poll::Ready(Ok(false));
    }
    running.input(Input::Bytes { conn, bytes });
    Poll::Ready(Ok(true))
}
