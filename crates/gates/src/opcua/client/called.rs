//! Listening for servers that call back (reverse connect, OPC 10000-6 §7.1.3), and how a connection comes about at all.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use opcua_types::StatusCode;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use ua_proto::channel::{Caller, Expected, Reception, ReceptionLimits, ReceptionOutput};

use super::dial::{DialError, dial};
use super::far;
use crate::clock;

/// Bytes read at once from who has not said who it is.
const BUFFER: usize = 4 * 1024;
/// Orders and events that wait for the task.
const QUEUE: usize = 64;
/// How long a peer may take to hear why its connection ends.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Refusals are logged this often at most.
const LOGGED: Duration = Duration::from_secs(1);

/// How a connection to a server comes about.
#[derive(Clone, Debug, Default)]
pub enum Way {
    /// It is dialled.
    #[default]
    Dial,
    /// The server calls.
    Called(Calls),
}

impl Way {
    /// A connection to the server at `url`.
    pub(in crate::opcua) async fn connect(&self, url: &str, limit: Duration) -> Result<TcpStream, DialError> {
        match self {
            Self::Dial => dial(url, limit).await,
            Self::Called(calls) => calls.next(url, limit).await,
        }
    }
}

/// A listening socket for servers that call back. It is closed when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Callers {
    orders: mpsc::Sender<Order>,
    address: SocketAddr,
}

/// The calls of one of the expected servers.
#[derive(Clone, Debug)]
pub struct Calls {
    callers: Callers,
    server: usize,
}

impl Callers {
    /// Waits for these servers, in a task of the runtime at hand. Who says to be another is refused.
    ///
    /// # Errors
    /// The listener cannot be used.
    pub fn listen(listener: TcpListener, expected: Vec<Expected>) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let (orders, taken) = mpsc::channel(QUEUE);
        let (happened, events) = mpsc::channel(QUEUE);
        let desk = Desk {
            machine: Reception::new(expected, ReceptionLimits::default()),
            wanted: BTreeMap::new(),
            connections: BTreeMap::new(),
            last: 0,
            happened,
            logged: None,
        };
        tokio::spawn(desk.run(listener, taken, events));
        Ok(Self { orders, address })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The calls of the expected server `server`, counted from 0.
    #[must_use]
    pub fn of(&self, server: usize) -> Calls {
        Calls { callers: self.clone(), server }
    }
}

impl Calls {
    /// The next connection that the server makes, or one that waits already.
    async fn next(&self, url: &str, limit: Duration) -> Result<TcpStream, DialError> {
        let until = Instant::now() + limit;
        loop {
            let (to, given) = oneshot::channel();
            let order = Order { server: self.server, to };
            self.callers.orders.send(order).await.map_err(|_| DialError::Fault(StatusCode::BadShutdown))?;
            match timeout_at(until, given).await {
                Ok(Ok(stream)) => {
                    let source = |source| DialError::Connect { address: url.to_owned(), source };
                    let stream = TcpStream::from_std(stream).map_err(source)?;
                    stream.set_nodelay(true).map_err(source)?;
                    return Ok(stream);
                }
                // It was gone already: the next.
                Ok(Err(_)) => sleep(Duration::from_millis(1)).await,
                Err(_) => return Err(DialError::NotCalled { url: url.to_owned() }),
            }
        }
    }
}

/// A stream on its way from the runtime that accepted it to another.
#[expect(clippy::disallowed_types, reason = "it is never read or written as such")]
type Unowned = std::net::TcpStream;

/// Somebody wants to speak to a server.
#[derive(Debug)]
struct Order {
    server: usize,
    to: oneshot::Sender<Unowned>,
}

/// What becomes of a connection.
enum Fate {
    Refused(Vec<u8>),
    Given(oneshot::Sender<Unowned>),
}

/// What a connection's task tells: bytes, or that it is over.
type Event = (Caller, Option<Vec<u8>>);

struct Desk {
    machine: Reception,
    wanted: BTreeMap<usize, VecDeque<oneshot::Sender<Unowned>>>,
    connections: BTreeMap<Caller, (SocketAddr, oneshot::Sender<Fate>)>,
    last: u64,
    happened: mpsc::Sender<Event>,
    logged: Option<Instant>,
}

impl Desk {
    async fn run(
        mut self,
        listener: tokio::net::TcpListener,
        mut orders: mpsc::Receiver<Order>,
        mut events: mpsc::Receiver<Event>,
    ) {
        loop {
            let until = self.machine.poll_timeout().and_then(clock::instant).unwrap_or_else(far);
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order { server, to }) => {
                        let queue = self.wanted.entry(server).or_default();
                        queue.retain(|one| !one.is_closed());
                        queue.push_back(to);
                        self.give(server);
                    }
                    None => return,
                },
                Some((caller, said)) = events.recv() => match said {
                    Some(bytes) => self.machine.received(caller, &bytes),
                    None => {
                        self.machine.lost(caller);
                        self.connections.remove(&caller);
                    }
                },
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => self.accepted(stream, peer),
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        sleep(Duration::from_millis(50)).await;
                    }
                },
                () = sleep_until(until) => self.machine.handle_timeout(clock::now()),
            }
            self.carry_out();
        }
    }

    fn accepted(&mut self, stream: TcpStream, peer: SocketAddr) {
        self.last += 1;
        let caller = Caller(self.last);
        let (fate, decided) = oneshot::channel();
        self.connections.insert(caller, (peer, fate));
        self.machine.accepted(caller, peer.ip(), clock::now());
        tokio::spawn(attend(caller, stream, decided, self.happened.clone()));
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                ReceptionOutput::Waiting(server) => self.give(server),
                ReceptionOutput::Close { caller, fault, rest } => {
                    let Some((peer, fate)) = self.connections.remove(&caller) else { continue };
                    if let Some(fault) = fault
                        && self.logged.is_none_or(|at| at.elapsed() >= LOGGED)
                    {
                        tracing::warn!(%peer, %fault, "a server that calls was refused");
                        self.logged = Some(Instant::now());
                    }
                    // Its task may have ended.
                    drop(fate.send(Fate::Refused(rest)));
                }
            }
        }
    }

    /// Brings together who waits for a server and connections that it has made.
    fn give(&mut self, server: usize) {
        let Some(queue) = self.wanted.get_mut(&server) else { return };
        queue.retain(|one| !one.is_closed());
        while let Some(first) = queue.pop_front() {
            let Some(caller) = self.machine.take(server) else { return queue.push_front(first) };
            let Some((_, fate)) = self.connections.remove(&caller) else { return queue.push_front(first) };
            if let Err(Fate::Given(first)) = fate.send(Fate::Given(first)) {
                queue.push_front(first);
            }
        }
    }
}

/// Keeps a connection until its fate is decided.
async fn attend(
    caller: Caller,
    mut stream: TcpStream,
    mut fate: oneshot::Receiver<Fate>,
    happened: mpsc::Sender<Event>,
) {
    let mut buffer = vec![0; BUFFER];
    loop {
        let said = tokio::select! {
            biased;
            decided = &mut fate => return match decided {
                Ok(Fate::Refused(rest)) => {
                    let _deaf = timeout(LAST_WORDS, stream.write_all(&rest)).await;
                }
                Ok(Fate::Given(to)) => {
                    if let Ok(stream) = stream.into_std() {
                        // Whoever wanted it may have given up: then the server calls again.
                        drop(to.send(stream));
                    }
                }
                Err(_) => {}
            },
            ready = stream.readable() => match ready.and_then(|()| stream.try_read(&mut buffer)) {
                Ok(count) if count > 0 => Some(buffer.get(..count).unwrap_or_default().to_vec()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                _ => None,
            },
        };
        let over = said.is_none();
        if happened.send((caller, said)).await.is_err() || over {
            return;
        }
    }
}
