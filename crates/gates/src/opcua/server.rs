//! Moves bytes between sockets and a [`Server`]: one thread, one small runtime, no lock and no copy between a socket and
//! the core.
//!
//! What it leaves out: every decision. It accepts, reads, writes, keeps the timer and carries jobs, method calls,
//! password checks and audit records out and their answers in.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use access_model::{Actor, AuditKind, AuditRecord, Mono, Now, Outcome, Reason, UnixTime};
use pep::Identity;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::LocalSet;
use ua_proto::guard::LinkId;
use ua_proto::server::{AuditId, Audited, Input, LoginId, Output, Server};

use super::client::Way;
use super::connection::Connections;
use super::core::{Core, Outside};
use super::turns::{Turns, look_around};
use super::upstream::Upstreams;
use super::wiring::{Application, AuditRequest, AuditSink, Credentials};
use crate::clock;
use crate::pool::Pool;

/// Looks at or changes the server, between two inputs.
type Errand<C> = Box<dyn FnOnce(&mut C, Now) + Send>;

/// Something to do on the server's thread.
enum Command<C> {
    /// Run this.
    Run(Errand<C>),
    /// Listen, or turn everybody out and do not listen until told otherwise.
    Turn(bool),
    /// Take no more connections, and tell clients that the end comes in so many seconds.
    Drain(u32),
    /// End it. The thread ends although handles are left.
    Stop,
}

/// Commands that may wait at once; a sender waits beyond that.
const COMMANDS: usize = 256;

/// Pause before an address is tried again that somebody else has.
const LISTEN_AGAIN: Duration = Duration::from_millis(200);

/// How long the last records of a server that ends may take to find room on their way to the ledger.
const HANDOVER: Duration = Duration::from_secs(5);

/// How a server shell is set up.
pub struct Shell {
    /// Runs private-key operations.
    pub pool: Pool,
    /// The way to the ledger.
    pub audit: AuditSink,
    /// Makes what stands behind the server; called once, on the server's thread.
    pub application: Box<dyn FnOnce() -> Box<dyn Application> + Send>,
}

/// A running server, or guard. Dropping the last clone of the handle stops it.
pub struct Handle<C> {
    commands: mpsc::Sender<Command<C>>,
    address: SocketAddr,
    /// Closed when the thread has ended.
    running: watch::Receiver<()>,
}

/// A running server.
pub type ServerHandle = Handle<Server>;

impl<C> Clone for Handle<C> {
    fn clone(&self) -> Self {
        Self { commands: self.commands.clone(), address: self.address, running: self.running.clone() }
    }
}

impl<C> std::fmt::Debug for Handle<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The server's thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server has stopped")]
pub struct Stopped;

impl<C: 'static> Handle<C> {
    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Runs `command` on the server and hands its result back.
    ///
    /// # Errors
    /// The server has stopped.
    pub async fn with<T: Send + 'static>(
        &self,
        command: impl FnOnce(&mut C, Now) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (answer, result) = oneshot::channel();
        let command = Box::new(move |server: &mut C, now| drop(answer.send(command(server, now))));
        self.commands.send(Command::Run(command)).await.map_err(|_| Stopped)?;
        result.await.map_err(|_| Stopped)
    }

    /// From now on listens, or turns everybody out and listens no more: another server is in its place. One that drains
    /// does not listen again.
    ///
    /// # Errors
    /// The server has stopped.
    pub async fn turn(&self, serve: bool) -> Result<(), Stopped> {
        self.commands.send(Command::Turn(serve)).await.map_err(|_| Stopped)
    }

    /// Takes no more connections and no more sessions, and tells those that are there that the end comes in so many
    /// seconds. Said again, it tells them the new time. Whoever drains stops it, too.
    ///
    /// # Errors
    /// The server has stopped.
    pub async fn drain(&self, seconds: u32) -> Result<(), Stopped> {
        self.commands.send(Command::Drain(seconds)).await.map_err(|_| Stopped)
    }

    /// Stops the server: sessions end, connections close, the thread ends. When this returns, every record is on its way
    /// to the ledger and the server's sender of the [`AuditSink`] is dropped.
    pub async fn stop(&self) {
        // A server that has stopped already, or is about to, takes no more commands.
        let _asked = self.commands.send(Command::Stop).await;
        self.stopped().await;
    }

    /// Waits until the server has stopped, whoever stops it.
    pub async fn stopped(&self) {
        let mut running = self.running.clone();
        while running.changed().await.is_ok() {}
    }
}

/// Starts a server on its own thread.
///
/// # Errors
/// The listener cannot be used or the operating system refuses a thread.
pub fn start(listener: TcpListener, server: Server, shell: Shell) -> io::Result<ServerHandle> {
    start_core(listener, server, shell, Way::Dial)
}

/// Starts a core on its own thread.
///
/// # Errors
/// As [`start`].
pub fn start_core<C: Core>(listener: TcpListener, mut core: C, shell: Shell, way: Way) -> io::Result<Handle<C>> {
    listener.set_nonblocking(true)?;
    core.time_checks(clock::mono);
    let address = listener.local_addr()?;
    let (commands, queue) = mpsc::channel(COMMANDS);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let name = format!("opcua-{}", address.port());
    let (alive, running) = watch::channel(());
    thread::Builder::new().name(name).spawn(move || {
        let set = LocalSet::new();
        set.block_on(&runtime, run(listener, core, (shell, way), queue));
        // Tasks hold what the server holds, its way to the ledger too.
        drop((set, runtime));
        drop(alive);
    })?;
    Ok(Handle { commands, address, running })
}

/// The server and everything its tasks share; all of it stays on one thread.
pub(super) struct Running<C> {
    pub(super) core: RefCell<C>,
    pub(super) connections: Connections,
    pub(super) upstreams: Upstreams,
    pub(super) turns: Turns,
    /// How the upstream server is reached.
    pub(super) way: Way,
    application: Box<dyn Application>,
    audit: AuditSink,
    pool: Pool,
    done: mpsc::UnboundedSender<Done>,
    /// Audit records that found no room since the last that did.
    lost: Cell<u64>,
    /// Once the server ends: records wait here for room, for a while.
    last: RefCell<Option<VecDeque<AuditRequest>>>,
    armed: Cell<Mono>,
    rearm: Notify,
    /// Whether connections are taken, and who waits for a change of that.
    door: Cell<Door>,
    turned: Notify,
}

/// Whether connections are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Open,
    /// Not at the moment.
    Away,
    /// Never again.
    Shut,
}

/// A job that is done: whose, and what came of it. Jobs of a connection upstream have ids of their own.
type Done = (Option<LinkId>, ua_proto::JobId, ua_proto::JobOutcome);

async fn run<C: Core>(listener: TcpListener, core: C, (shell, way): (Shell, Way), queue: mpsc::Receiver<Command<C>>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the listener cannot be used"),
    };
    let (done, outcomes) = mpsc::unbounded_channel();
    let running = Rc::new(Running {
        core: RefCell::new(core),
        connections: Connections::default(),
        upstreams: Upstreams::default(),
        turns: Turns::default(),
        way,
        application: (shell.application)(),
        audit: shell.audit,
        pool: shell.pool,
        done,
        lost: Cell::new(0),
        last: RefCell::new(None),
        armed: Cell::new(Mono::NEVER),
        rearm: Notify::new(),
        door: Cell::new(Door::Open),
        turned: Notify::new(),
    });
    running.pump();
    tokio::select! {
        () = accept(&running, listener) => {}
        () = timer(&running) => {}
        () = commands(&running, queue) => {}
        () = jobs(&running, outcomes) => {}
    }
    running.connections.farewell().await;
    running.upstreams.close_all();
    running.hand_over().await;
}

async fn accept<C: Core>(running: &Rc<Running<C>>, listener: tokio::net::TcpListener) {
    let Ok(address) = listener.local_addr() else { return tracing::error!("the listener has no address") };
    let mut listener = Some(listener);
    loop {
        // Whoever dials a server that does not listen is refused at once, and finds the one that does.
        let listening = match (running.door.get(), &listener) {
            (Door::Shut, _) => {
                listener.take();
                return std::future::pending().await;
            }
            (Door::Away, _) => {
                listener.take();
                running.turned.notified().await;
                continue;
            }
            (Door::Open, None) => {
                match tokio::net::TcpListener::bind(address).await {
                    Ok(bound) => listener = Some(bound),
                    Err(error) => {
                        tracing::warn!(%error, %address, "cannot listen again yet");
                        let _turned = tokio::time::timeout(LISTEN_AGAIN, running.turned.notified()).await;
                    }
                }
                continue;
            }
            (Door::Open, Some(listening)) => listening,
        };
        let accepted = tokio::select! {
            accepted = listening.accept() => accepted,
            () = running.turned.notified() => continue,
        };
        match accepted {
            Ok((stream, peer)) => {
                super::connection::spawn(running, stream, peer);
                look_around().await;
            }
            Err(error) => {
                // Out of descriptors: wait for connections to end instead of spinning.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
}

async fn timer<C: Core>(running: &Rc<Running<C>>) {
    loop {
        match clock::instant(running.armed.get()) {
            None => running.rearm.notified().await,
            Some(at) => tokio::select! {
                () = running.rearm.notified() => {}
                () = tokio::time::sleep_until(at) => {
                    // The runtime's timer may fire a tick early; the core decides by the clock it is given.
                    running.core.borrow_mut().handle_timeout(clock::now());
                    running.armed.set(Mono::NEVER);
                    running.pump();
                }
            },
        }
    }
}

async fn commands<C: Core>(running: &Rc<Running<C>>, mut queue: mpsc::Receiver<Command<C>>) {
    while let Some(command) = queue.recv().await {
        match command {
            Command::Run(command) => {
                command(&mut running.core.borrow_mut(), clock::now());
                running.pump();
            }
            Command::Turn(serve) => {
                if running.door.get() != Door::Shut {
                    running.door.set(if serve { Door::Open } else { Door::Away });
                    running.turned.notify_one();
                }
                if !serve {
                    running.input(Input::Lease(None));
                    running.input(Input::TurnOut);
                }
            }
            Command::Drain(seconds) => {
                running.door.set(Door::Shut);
                running.turned.notify_one();
                running.input(Input::Drain { seconds });
            }
            Command::Stop => break,
        }
    }
    *running.last.borrow_mut() = Some(VecDeque::new());
    running.input(Input::Shutdown);
}

async fn jobs<C: Core>(running: &Rc<Running<C>>, mut outcomes: mpsc::UnboundedReceiver<Done>) {
    while let Some((link, id, outcome)) = outcomes.recv().await {
        match link {
            None => running.input(Input::JobDone { id, outcome }),
            Some(link) => {
                running.upstream(link, ua_proto::guard::Upstream::JobDone { id, outcome });
                running.upstreams.wake(link);
            }
        }
        look_around().await;
    }
}

impl<C: Core> Running<C> {
    /// Gives one input to the core and carries out what it asks for.
    pub(super) fn input(self: &Rc<Self>, input: Input<'_>) {
        self.core.borrow_mut().handle_input(input, clock::now());
        self.pump();
    }

    /// Tells the core what happened on a connection to its upstream server.
    pub(super) fn upstream(self: &Rc<Self>, link: LinkId, event: ua_proto::guard::Upstream<'_>) {
        self.core.borrow_mut().upstream(link, event, clock::now());
        self.pump();
    }

    /// Carries out everything the core asks for, then sets the timer.
    pub(super) fn pump(self: &Rc<Self>) {
        loop {
            let output = self.core.borrow_mut().poll_output();
            match output {
                Some(Outside::Down(output)) => self.carry_out(output),
                Some(Outside::Dial { link, url }) => super::upstream::dial(self, link, url),
                Some(Outside::UpstreamSend { link }) => self.upstreams.flush(link, &mut *self.core.borrow_mut()),
                Some(Outside::UpstreamClose { link }) => self.upstreams.close(link),
                Some(Outside::UpstreamJob { link, job }) => self.run_job(Some(link), job),
                None => break,
            }
        }
        let next = self.core.borrow().poll_timeout().unwrap_or(Mono::NEVER);
        if next != self.armed.get() {
            let earlier = next < self.armed.get();
            self.armed.set(next);
            if earlier {
                self.rearm.notify_one();
            }
        }
    }

    fn carry_out(self: &Rc<Self>, output: Output) {
        match output {
            Output::Send { conn } => {
                let core = &mut *self.core.borrow_mut();
                if self.connections.flush(conn, core) {
                    core.handle_input(Input::Drained { conn, unsent: 0 }, clock::now());
                }
            }
            Output::Close { conn, rest } => self.connections.close(conn, rest),
            Output::CallClient { client, url } => super::connection::call(self, client, url),
            Output::Job(job) => self.run_job(None, job),
            Output::Audit { id, record } => self.record(id, record),
            Output::Invoke { id, invocation } => {
                let answer = self.application.invoke(*invocation);
                self.spawn(async move { Input::Answer { id, answer: answer.await } });
            }
            Output::Authenticate { id, name, password, address } => {
                self.authenticate(id, Credentials { name, password: password.0, address });
            }
            Output::AskGrant { id, request, secret } => {
                let token = self.application.fetch_grant(*request, secret);
                self.spawn(async move { Input::Fetched { id, result: token.await } });
            }
            Output::Written { node, value } => self.application.written(node, &value),
            Output::Gate(event) => self.application.gate_event(event),
            Output::Rejected { certificate } => self.application.rejected(&certificate),
        }
    }

    fn authenticate(self: &Rc<Self>, id: LoginId, credentials: Credentials) {
        let name = credentials.name.clone();
        let known = self.application.authenticate(credentials);
        self.spawn(async move {
            let result = known.await.map(|()| Identity::User { name });
            Input::Authenticated { id, result }
        });
    }

    fn spawn(self: &Rc<Self>, input: impl Future<Output = Input<'static>> + 'static) {
        let running = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let input = input.await;
            running.input(input);
        });
    }

    fn run_job(&self, link: Option<LinkId>, job: ua_proto::Job) {
        if self.pool.run(reported(link, job, self.done.clone())).is_err() {
            tracing::warn!("the pool for private-key operations is full");
        }
    }

    /// Records that found no room leave a gap; the first that finds room again is preceded by their number.
    fn own_up(&self, at: UnixTime) {
        let lost = self.lost.get();
        if lost > 0 && self.send(AuditRequest { record: gap(lost, at), ack: None }) {
            self.lost.set(0);
        }
    }

    /// Whether there was room. A server that ends has no next record: its last ones wait for room.
    fn send(&self, request: AuditRequest) -> bool {
        if let Some(last) = &mut *self.last.borrow_mut() {
            last.push_back(request);
            return true;
        }
        self.audit.try_send(request).is_ok()
    }

    /// Hands the last records over, for as long as a server may take to end.
    async fn hand_over(&self) {
        let mut last = self.last.take().unwrap_or_default();
        let all = async {
            while let Some(request) = last.pop_front() {
                if self.audit.send(request).await.is_err() {
                    self.lost.set(self.lost.get().saturating_add(1));
                }
            }
        };
        // A record that is cut off while it waits is gone from the queue, hence the one more.
        let cut_off = u64::from(tokio::time::timeout(HANDOVER, all).await.is_err());
        let lost = self.lost.get() + cut_off + last.len() as u64;
        if lost > 0 {
            tracing::error!(lost, "audit records were lost: the server has ended and the way to the ledger is full");
        }
    }

    fn record(self: &Rc<Self>, id: Option<AuditId>, record: AuditRecord) {
        self.own_up(record.at);
        let Some(id) = id else {
            if !self.send(AuditRequest { record, ack: None }) {
                tracing::error!("an audit record was lost: the way to the ledger is full");
                self.lost.set(self.lost.get().saturating_add(1));
            }
            return;
        };
        let (ack, kept) = oneshot::channel();
        let sent = self.send(AuditRequest { record, ack: Some(ack) });
        self.spawn(async move {
            let kept = sent && kept.await.is_ok_and(|result| result.is_ok());
            Input::Audited { id, result: if kept { Audited::Kept } else { Audited::Unavailable } }
        });
    }
}

/// The record of a gap in the records.
fn gap(lost: u64, at: UnixTime) -> AuditRecord {
    AuditRecord {
        at,
        kind: AuditKind::FailMode,
        actor: Actor::default(),
        object: "audit".into(),
        outcome: Outcome::Denied(Reason::AuditUnavailable),
        detail: format!("{lost} records found no room on the way to the ledger and are lost"),
        count: lost,
        epoch: None,
        place: None,
    }
}

/// What has become of a job, for its core: it counts the jobs that are out, so it must hear of each, also of one that
/// found no room in the pool or did not get to its end. Such a one gives an outcome that no core takes for an answer.
struct Report {
    done: mpsc::UnboundedSender<Done>,
    link: Option<LinkId>,
    id: ua_proto::JobId,
    outcome: Option<ua_proto::JobOutcome>,
}

impl Drop for Report {
    fn drop(&mut self) {
        let outcome = self.outcome.take().unwrap_or_else(|| Box::new(()));
        drop(self.done.send((self.link, self.id, outcome)));
    }
}

/// The work of a job, reported whatever becomes of it.
fn reported(
    link: Option<LinkId>,
    job: ua_proto::Job,
    done: mpsc::UnboundedSender<Done>,
) -> impl FnOnce() + Send + 'static {
    let report = Report { done, link, id: job.id, outcome: None };
    move || {
        let mut report = report;
        report.outcome = Some(job.run().1);
        drop(report);
    }
}

#[cfg(test)]
mod tests {
    use ua_proto::{Job, JobId};

    use super::*;

    #[test]
    fn a_core_hears_of_every_job_also_of_those_that_were_never_done() {
        let pool = Pool::alone(1, 1).unwrap();
        let (done, mut heard) = mpsc::unbounded_channel();
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let (started, running) = std::sync::mpsc::channel::<()>();
        let first = Job::new(JobId(1), move || {
            started.send(()).unwrap();
            wait.recv().unwrap();
            7_u8
        });
        pool.run(reported(None, first, done.clone())).unwrap();
        running.recv().unwrap();
        pool.run(reported(None, Job::new(JobId(2), || -> u8 { panic!("a job that panics") }), done.clone())).unwrap();
        assert!(pool.run(reported(None, Job::new(JobId(3), || 7_u8), done.clone())).is_err(), "no room");
        let mut next = || {
            let (_, id, outcome) = heard.blocking_recv().unwrap();
            (id, outcome.downcast::<u8>().ok())
        };
        assert_eq!(next(), (JobId(3), None));
        release.send(()).unwrap();
        assert_eq!(next(), (JobId(1), Some(Box::new(7))));
        assert_eq!(next(), (JobId(2), None));
        pool.run(reported(None, Job::new(JobId(4), || 7_u8), done)).unwrap();
        assert_eq!(next(), (JobId(4), Some(Box::new(7))), "the pool survives a job that panics");
    }
}
