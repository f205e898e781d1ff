//! Messages over TCP on the loopback interface: our server's shell, whose core only sends back what it gets, and sessions of the load
//! generator without their protocol, each end on one thread and, where there are two, on a processor of its own. Between two messages
//! each end does other work, which is not counted, as a server and a client do; so a thread finds its caches used by others, and as many
//! messages wait when it looks again as where work is done. The more connections there are, the more messages that is; and where one end
//! has more to do than the other ([`Slower`]), the other waits for it, looks more often, and has to be woken.
//!
//! Steps that are a part of a message are timed one by one in there ([`among_messages`]): they find caches and branch predictors as the kernel's
//! network, our shell and the messages of other connections leave them.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use access_model::{Mono, Now};
use cost::whatif::{AHEAD, SLOWER};
use gates::clock;
use gates::opcua::client::Way;
use gates::opcua::server::{Handle, Shell, start_core};
use gates::opcua::{Core, Outside};
use gates::pool::Pool;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::task::LocalSet;
use ua_proto::server::{ConnId, Input, Output};

use super::timing::{Computes, OTHER};
use super::{Entry, Timings, used};
use crate::clock::{Stopwatch, Timing, Whose, monotonic};
use crate::gd::disturb::Disturb;
use crate::measures::runtime;
use crate::{Failed, place, serve};

/// Connections at once.
pub(super) const CONNECTIONS: [u32; 3] = [1, 8, 64];
/// Sizes of a message; its answer is as large.
const SIZES: [usize; 2] = [128, 4_096];
/// Of which one end has more other work for each message, where there are several connections.
const SLOWER_SIZE: usize = 128;
/// The timeout of the server's core, which is never reached: a server always waits for something, too.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Messages in a timing.
const BATCH: u64 = 128;
/// Other work that takes so many times as long as usual was stopped; and the part of one that counts for what is usual.
const STOPPED: f64 = 2.0;
const USUAL: f64 = 0.02;
/// Size of the buffer that they are read into, as at our load generator.
const BUFFER: usize = 64 * 1024;

/// Which end has more other work for a message, by [`cost::whatif::AHEAD`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slower {
    Neither,
    Client,
    Server,
}

impl Slower {
    /// Seconds of other work of the server or the client for a message.
    fn other(self, server: bool) -> f64 {
        match self {
            Self::Server if server => OTHER + AHEAD,
            Self::Client if !server => OTHER + AHEAD,
            _ => OTHER,
        }
    }

    /// As names of steps end.
    const fn ending(self) -> &'static str {
        match self {
            Self::Neither => "",
            Self::Client => SLOWER.0,
            Self::Server => SLOWER.1,
        }
    }
}

pub(super) fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    for connections in CONNECTIONS {
        for (size, slower) in SIZES
            .map(|size| (size, Slower::Neither))
            .into_iter()
            .chain([(SLOWER_SIZE, Slower::Client), (SLOWER_SIZE, Slower::Server)])
            .filter(|(_, slower)| connections > 1 || *slower == Slower::Neither)
        {
            for (server, end) in [(true, "server"), (false, "client")] {
                let name = format!("{end}-of-{connections}{}", slower.ending());
                entries.push(Entry::with("exchange", name, size as u64, move |_, time| {
                    exchange(connections, size, slower, server, time)
                }));
            }
        }
    }
    entries
}

/// One end of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Client,
    Server,
}

/// A step that is done once for each message, at one end; it gives its timing.
pub(super) type Part = Box<dyn FnMut() -> Result<Timing, Failed> + Send>;

/// Gets it ready, on the processor where it is done.
pub(super) type Make = Box<dyn FnOnce() -> Result<Part, Failed> + Send>;

/// What one end has counted.
struct Meter {
    disturb: Disturb,
    part: Option<Part>,
    /// Timings of that, or why there are none.
    parts: Timings,
    failed: Option<String>,
    /// Seconds of other work for a message.
    other: f64,
    count: u64,
    cpu: f64,
    watch: Stopwatch,
    /// Seconds of other work since the last timing, and what it takes as a rule.
    worked: f64,
    usual: Option<f64>,
    /// The same of each timing, for each message.
    others: Vec<f64>,
    timings: Timings,
}

impl Meter {
    fn new(other: f64) -> Self {
        let timings = Timings::of(BATCH);
        let disturb = Disturb::small();
        let (cpu, watch) = (Whose::Thread.cpu(), Stopwatch::start());
        let (part, parts, failed) = (None, Timings::alone(), None);
        Self {
            disturb,
            part,
            parts,
            failed,
            other,
            count: 0,
            cpu,
            watch,
            worked: 0.0,
            usual: None,
            others: Vec::new(),
            timings,
        }
    }

    /// One message more: the step that is timed here, other work, and a timing if it is full.
    fn count(&mut self) {
        match self.part.as_mut().map(|part| part()) {
            Some(Ok(timing)) => self.parts.push_alone(timing),
            Some(Err(error)) => self.failed = Some(error.to_string()),
            None => {}
        }
        let worked = self.disturb.run(self.other);
        let usual = self.usual.unwrap_or(worked);
        // Who was stopped meanwhile did not work so long.
        if worked < STOPPED * usual {
            self.usual = Some(usual + USUAL * (worked - usual));
        }
        self.worked += if worked < STOPPED * usual { worked } else { usual };
        self.count += 1;
        if self.count.is_multiple_of(BATCH) {
            let each = |seconds: f64| seconds / BATCH as f64;
            let cpu = each(Whose::Thread.cpu() - self.cpu - self.worked).max(0.0);
            self.timings.push(cpu, each(self.watch.seconds()));
            self.others.push(each(self.worked));
            (self.cpu, self.watch, self.worked) = (Whose::Thread.cpu(), Stopwatch::start(), 0.0);
        }
    }

    /// What was counted while all connections were busy and warm, and the mean of the other work meanwhile.
    fn found(&self) -> Result<Counted, Failed> {
        if let Some(why) = &self.failed {
            return Err(why.as_str().into());
        }
        let others = middle(&self.others);
        if others.is_empty() {
            return Err("too few messages".into());
        }
        let other = others.iter().sum::<f64>() / others.len() as f64;
        let messages = Timings { computes: Computes::Either(other), ..warm(&self.timings) };
        Ok(Counted { messages, other, parts: warm(&self.parts) })
    }
}

/// What one end tells.
struct Counted {
    /// Of messages.
    messages: Timings,
    /// Seconds of other work for each.
    other: f64,
    /// Of the step that was timed at this end.
    parts: Timings,
}

fn warm(all: &Timings) -> Timings {
    Timings { cpu: middle(&all.cpu), wall: middle(&all.wall), spans: middle(&all.spans), ..*all }
}

/// All but the first fifth and the last.
fn middle<T: Copy>(all: &[T]) -> Vec<T> {
    all.get((all.len() / 5).max(1)..all.len().saturating_sub(1)).unwrap_or_default().to_vec()
}

fn exchange(connections: u32, size: usize, slower: Slower, of_server: bool, time: Duration) -> Result<Timings, Failed> {
    let (mut at_client, at_server) =
        messages(connections, size, [slower.other(false), slower.other(true)], [None, None], time)?;
    if of_server {
        return Ok(at_server.messages);
    }
    // The clock is for what is beyond other work: one message at a time waits for that of both ends, many for that of the busier one.
    let other = if connections == 1 { at_client.other + at_server.other } else { at_client.other.max(at_server.other) };
    for wall in &mut at_client.messages.wall {
        *wall = (*wall - other).max(0.0);
    }
    Ok(at_client.messages)
}

/// Times a step at one end of so many connections, once for each message; the other end has as much more other work as what is done for the step
/// takes, so that neither waits for the other more than it else does.
pub(super) fn among_messages(
    connections: u32,
    at: End,
    takes: f64,
    time: Duration,
    make: Make,
) -> Result<Timings, Failed> {
    let (other, makes) = match at {
        End::Client => ([OTHER, OTHER + takes], [Some(make), None]),
        End::Server => ([OTHER + takes, OTHER], [None, Some(make)]),
    };
    let (at_client, at_server) = messages(connections, SIZES[0], other, makes, time)?;
    Ok(if at == End::Client { at_client.parts } else { at_server.parts })
}

/// Exchanges messages; for the client and the server, seconds of other work and a step. What each of them counted.
fn messages(
    connections: u32,
    size: usize,
    other: [f64; 2],
    [of_client, of_server]: [Option<Make>; 2],
    time: Duration,
) -> Result<(Counted, Counted), Failed> {
    let processors = place::pair();
    let (handle, records) = std::thread::spawn(move || server(processors.map(|it| it.1), other[1], of_server))
        .join()
        .map_err(|_| "the server's thread has ended")??;
    let address = handle.address();
    let client = std::thread::spawn(move || -> Result<_, String> {
        let run = || -> Result<_, Failed> {
            processors.map_or(Ok(()), |it| place::keep_to(it.0))?;
            let mut meter = Meter::new(other[0]);
            meter.part = of_client.map(|make| make()).transpose()?;
            runtime()?.block_on(LocalSet::new().run_until(client(address, connections, size, meter, time)))
        };
        run().map_err(|error| error.to_string())
    });
    runtime()?.block_on(async {
        let client = tokio::task::spawn_blocking(move || client.join()).await?;
        let client = client.map_err(|_| "the client's thread has ended")??;
        let server = handle.with(|core: &mut Echo, _| core.meter.found().map_err(|error| error.to_string())).await?;
        handle.stop().await;
        drop(records);
        Ok((client, server?))
    })
}

/// Our shell with a core that sends everything back.
fn server(
    processor: Option<usize>,
    other: f64,
    make: Option<Make>,
) -> Result<(Handle<Echo>, mpsc::Receiver<gates::opcua::wiring::AuditRequest>), String> {
    let start = || -> Result<_, Failed> {
        // The thread of the shell stays where it is started.
        processor.map_or(Ok(()), place::keep_to)?;
        let (audit, records) = mpsc::channel(16);
        let pool = Pool::new(1, 16)?;
        let application = serve::NoMethods::new(&Arc::new(Notify::new()));
        let shell = Shell { pool, audit, application: Box::new(|| Box::new(application)) };
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        let mut echo = Echo::new(other);
        echo.meter.part = make.map(|make| make()).transpose()?;
        Ok((start_core(listener, echo, shell, Way::Dial)?, records))
    };
    start().map_err(|error| error.to_string())
}

/// A core without a protocol, which does as little itself as can be: it is part of what is timed.
struct Echo {
    meter: Meter,
    /// Of each connection by its id: the shell counts them.
    answers: Vec<Vec<u8>>,
    next: Option<ConnId>,
    timeout: Option<Mono>,
}

impl Echo {
    fn new(other: f64) -> Self {
        Self { meter: Meter::new(other), answers: Vec::new(), next: None, timeout: None }
    }
}

/// Where the answers of a connection are.
fn index(conn: ConnId) -> usize {
    usize::try_from(conn.0).unwrap_or(usize::MAX)
}

impl Core for Echo {
    fn handle_input(&mut self, input: Input<'_>, now: Now) {
        self.timeout.get_or_insert(now.mono + TIMEOUT);
        match input {
            Input::Bytes { conn, bytes } => {
                if let Some(answer) = self.outgoing(conn) {
                    answer.extend_from_slice(bytes);
                }
                self.meter.count();
                self.next = Some(conn);
            }
            Input::Accepted { conn, .. } => {
                let at = index(conn);
                self.answers.resize_with(self.answers.len().max(at.saturating_add(1)), Vec::new);
            }
            _ => {}
        }
    }

    fn handle_timeout(&mut self, now: Now) {
        self.timeout = Some(now.mono + TIMEOUT);
    }

    fn time_checks(&mut self, _stopwatch: fn() -> Mono) {}

    fn poll_timeout(&self) -> Option<Mono> {
        self.timeout
    }

    fn poll_output(&mut self) -> Option<Outside> {
        self.next.take().map(|conn| Outside::Down(Output::Send { conn }))
    }

    fn outgoing(&mut self, conn: ConnId) -> Option<&mut Vec<u8>> {
        self.answers.get_mut(index(conn))
    }

    fn wants_input(&self, _conn: ConnId) -> bool {
        true
    }

    fn holds_input(&self, _conn: ConnId) -> bool {
        false
    }

    fn is_logged_in(&self, _conn: ConnId) -> bool {
        true
    }
}

async fn client(
    address: std::net::SocketAddr,
    connections: u32,
    size: usize,
    meter: Meter,
    time: Duration,
) -> Result<Counted, Failed> {
    let mut streams = Vec::new();
    for _ in 0..connections {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let (meter, watch) = (Rc::new(RefCell::new(meter)), Stopwatch::start());
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
                used(monotonic());
                meter.borrow_mut().count();
            }
            Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    meter.borrow().found()
}
