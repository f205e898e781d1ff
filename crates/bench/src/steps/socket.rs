//! Messages over TCP on the loopback interface, between two threads set up as our server and the load generator are: one task a
//! connection, each waiting for its answer. Nothing is done with the bytes. The more connections there are, the more messages
//! are there each time a thread wakes, and the less each of them costs.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use gates::clock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

use super::{Entry, Timings, used};
use crate::Failed;
use crate::clock::{Stopwatch, thread_cpu};
use crate::measures::runtime;

/// Connections at once.
pub(super) const CONNECTIONS: [u32; 3] = [1, 8, 64];
/// Sizes of a message; its answer is as large.
const SIZES: [usize; 2] = [128, 4_096];
/// Messages in a timing.
const BATCH: u64 = 128;
/// Size of the buffer that they are read into, as at our server.
const BUFFER: usize = 64 * 1024;

pub(super) fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    for connections in CONNECTIONS {
        for size in SIZES {
            for (server, end) in [(true, "server"), (false, "client")] {
                let name = format!("{end}-of-{connections}");
                entries.push(Entry::with("exchange", name, size as u64, move |_, time| {
                    exchange(connections, size, server, time)
                }));
            }
        }
    }
    entries
}

/// What one end has counted.
#[derive(Debug)]
struct Meter {
    count: u64,
    cpu: f64,
    watch: Stopwatch,
    timings: Timings,
}

impl Meter {
    fn new() -> Rc<RefCell<Self>> {
        let timings = Timings { batch: BATCH, cpu: Vec::new(), wall: Vec::new() };
        Rc::new(RefCell::new(Self { count: 0, cpu: thread_cpu(), watch: Stopwatch::start(), timings }))
    }

    /// One message more.
    fn count(&mut self) {
        self.count += 1;
        if self.count.is_multiple_of(BATCH) {
            let cpu = thread_cpu();
            self.timings.cpu.push((cpu - self.cpu) / BATCH as f64);
            self.timings.wall.push(self.watch.seconds() / BATCH as f64);
            (self.cpu, self.watch) = (thread_cpu(), Stopwatch::start());
        }
    }

    /// What was counted while all connections were busy and warm.
    fn timings(&self) -> Timings {
        let Timings { batch, cpu, wall } = &self.timings;
        let from = (cpu.len() / 5).max(1);
        let middle = |times: &[f64]| times.get(from..times.len().saturating_sub(1)).unwrap_or_default().to_vec();
        Timings { batch: *batch, cpu: middle(cpu), wall: middle(wall) }
    }
}

fn exchange(connections: u32, size: usize, of_server: bool, time: Duration) -> Result<Timings, Failed> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let server = std::thread::spawn(move || server(listener, connections));
    let at_client = runtime()?.block_on(LocalSet::new().run_until(client(address, connections, size, time)))?;
    let at_server = server.join().map_err(|_| "the server's thread has ended")??;
    let timings = if of_server { at_server } else { at_client };
    if timings.cpu.is_empty() { Err("too few messages".into()) } else { Ok(timings) }
}

/// Sends everything back until all connections are closed.
fn server(listener: std::net::TcpListener, connections: u32) -> Result<Timings, Failed> {
    runtime()?.block_on(LocalSet::new().run_until(async {
        let (listener, meter) = (TcpListener::from_std(listener)?, Meter::new());
        let buffer = Rc::new(RefCell::new(vec![0; BUFFER]));
        let mut tasks = Vec::new();
        for _ in 0..connections {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tasks.push(tokio::task::spawn_local(echo(stream, Rc::clone(&meter), Rc::clone(&buffer))));
        }
        for task in tasks {
            task.await??;
        }
        let timings = meter.borrow().timings();
        Ok(timings)
    }))
}

async fn echo(stream: TcpStream, meter: Rc<RefCell<Meter>>, buffer: Rc<RefCell<Vec<u8>>>) -> Result<(), Failed> {
    let (read, write) = stream.into_split();
    loop {
        read.readable().await?;
        let mut buffer = buffer.borrow_mut();
        let mut rest = match read.try_read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => buffer.get(..count).unwrap_or_default(),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error.into()),
        };
        used(clock::now());
        while !rest.is_empty() {
            match write.try_write(rest) {
                Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
                // There is one message on the way at most, which the peer's window has room for.
                Err(error) => return Err(error.into()),
            }
        }
        meter.borrow_mut().count();
    }
}

async fn client(
    address: std::net::SocketAddr,
    connections: u32,
    size: usize,
    time: Duration,
) -> Result<Timings, Failed> {
    let mut streams = Vec::new();
    for _ in 0..connections {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let (meter, watch) = (Meter::new(), Stopwatch::start());
    let least = 10 * BATCH;
    let mut tasks = Vec::new();
    for mut stream in streams {
        let meter = Rc::clone(&meter);
        tasks.push(tokio::task::spawn_local(async move {
            let (message, mut buffer) = (vec![7; size], vec![0; BUFFER]);
            while watch.seconds() < time.as_secs_f64() || meter.borrow().count < least {
                used(clock::now());
                stream.write_all(&message).await?;
                let mut taken = 0;
                while taken < size {
                    taken += match stream.read(&mut buffer).await? {
                        0 => return Err(Failed::from("the server has gone")),
                        count => count,
                    };
                }
                used(clock::now());
                meter.borrow_mut().count();
            }
            Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    let timings = meter.borrow().timings();
    Ok(timings)
}
