//! OPC UA clients over TCP: a task for each session moves bytes between a stream and the machine, runs its jobs, and
//! connects anew when the connection is lost.

mod called;
mod dial;
mod registration;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use access_model::Now;
use opcua_types::StatusCode;
use token::{Entropy, SystemEntropy};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use ua_proto::channel::ChannelAudit;
use ua_proto::client::{
    Activated, CallId, ClientEvent, ClientSession, ClientSessionConfig, Credential, Request, RequestError, Response,
};
use ua_proto::{Job, JobId, JobOutcome};

use crate::clock;
pub use called::{Callers, Calls, Way};
pub(super) use dial::dial;
pub use dial::{DialError, address, endpoints, endpoints_over, servers};
pub use registration::{DiscoveryServer, Registration, register};

const READ_BUFFER: usize = 64 * 1024;
/// Commands that wait for the task; more make the caller wait.
const COMMANDS: usize = 256;
/// Commands taken at once before bytes move again.
const BATCH: usize = 64;

/// A request was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The service result of the server, or Bad_Timeout, or Bad_ConnectionClosed when the connection broke after the
    /// request was sent: then nobody knows whether it was carried out.
    #[error("the service failed with {0}")]
    Service(StatusCode),
    /// There is no active session at the moment; nothing was sent.
    #[error("there is no active session")]
    NotActive,
    /// The request was not sent.
    #[error("the request was not sent: {0}")]
    NotSent(RequestError),
    /// The session was closed.
    #[error("the session was closed")]
    Closed,
}

impl CallError {
    /// The service result, if there was one.
    #[must_use]
    pub fn status(self) -> Option<StatusCode> {
        match self {
            Self::Service(status) => Some(status),
            _ => None,
        }
    }
}

/// What happens to a session besides answers.
#[derive(Debug)]
pub enum Notice {
    /// It may be used (again).
    Activated(Activated),
    /// The server refused the credential.
    Refused(StatusCode),
    /// The server does not know the session any more; a new one is being made.
    Lost,
    /// The connection is lost or could not be made; the task tries again until the handle is closed.
    Disconnected(DialError),
    /// Something for the audit.
    Audit(ChannelAudit),
}

/// How a session connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconnect {
    /// How long one attempt may take.
    pub connect_timeout: Duration,
    /// Pause before the second attempt; doubles until `longest`.
    pub shortest: Duration,
    /// Longest pause.
    pub longest: Duration,
}

impl Default for Reconnect {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            shortest: Duration::from_millis(200),
            longest: Duration::from_secs(30),
        }
    }
}

fn far() -> Instant {
    clock::instant(clock::now().mono + Duration::from_secs(3_600)).unwrap_or_else(Instant::now)
}

enum Command {
    Request { request: Box<Request>, timeout: Option<Duration>, answer: oneshot::Sender<Result<Response, CallError>> },
    Reactivate(Credential),
    Close,
}

/// A session that somebody else's task drives. Clones name the same session; it ends when it is closed or the last clone
/// is dropped.
#[derive(Clone)]
pub struct SessionHandle {
    commands: mpsc::Sender<Command>,
}

impl SessionHandle {
    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// It was not sent, or not answered well.
    pub async fn request(&self, request: Request, timeout: Option<Duration>) -> Result<Response, CallError> {
        let (answer, answered) = oneshot::channel();
        let command = Command::Request { request: Box::new(request), timeout, answer };
        self.commands.send(command).await.map_err(|_| CallError::Closed)?;
        answered.await.unwrap_or(Err(CallError::Closed))
    }

    /// As [`SessionHandle::request`], with the response of the request's own service.
    ///
    /// # Errors
    /// As [`SessionHandle::request`].
    pub async fn call<R>(&self, request: impl Into<Request>) -> Result<R, CallError>
    where
        R: TryFrom<Response, Error = StatusCode>,
    {
        R::try_from(self.request(request.into(), None).await?).map_err(CallError::Service)
    }

    /// Activates the session with another credential; a [`Notice`] tells how it came out.
    pub async fn reactivate(&self, credential: Credential) {
        // A session that is gone needs no credential.
        let _ = self.commands.send(Command::Reactivate(credential)).await;
    }

    /// Closes the session and waits until it is closed.
    pub async fn close(&self) {
        if self.commands.send(Command::Close).await.is_ok() {
            self.commands.closed().await;
        }
    }
}

/// Starts a session; its task connects at once.
#[must_use]
pub fn open(
    config: Arc<ClientSessionConfig>,
    credential: Credential,
    reconnect: Reconnect,
) -> (SessionHandle, mpsc::UnboundedReceiver<Notice>) {
    open_over(Way::Dial, config, credential, reconnect)
}

/// The same with a server that is reached in this way.
#[must_use]
pub fn open_over(
    way: Way,
    config: Arc<ClientSessionConfig>,
    credential: Credential,
    reconnect: Reconnect,
) -> (SessionHandle, mpsc::UnboundedReceiver<Notice>) {
    let (commands, taken) = mpsc::channel(COMMANDS);
    let (notices, noticed) = mpsc::unbounded_channel();
    let driver = Driver {
        way,
        config,
        reconnect,
        commands: taken,
        notices,
        waiting: HashMap::new(),
        jobs: JoinSet::new(),
        entropy: SystemEntropy::new(),
        closing: false,
    };
    tokio::spawn(driver.run(credential));
    (SessionHandle { commands }, noticed)
}

struct Driver {
    way: Way,
    config: Arc<ClientSessionConfig>,
    reconnect: Reconnect,
    commands: mpsc::Receiver<Command>,
    /// Few: some for each attempt to connect, which the pauses bound.
    notices: mpsc::UnboundedSender<Notice>,
    waiting: HashMap<CallId, oneshot::Sender<Result<Response, CallError>>>,
    /// A session has at most one renewal and one activation under way, so these are few.
    jobs: JoinSet<(JobId, JobOutcome)>,
    entropy: SystemEntropy,
    closing: bool,
}

impl Driver {
    async fn run(mut self, mut credential: Credential) {
        let mut machine: Option<ClientSession> = None;
        let mut pause = Duration::ZERO;
        while !self.closing {
            let connected = self.connect(&mut machine, &mut credential, pause).await;
            if self.closing {
                break;
            }
            match (connected, &mut machine) {
                (Ok(stream), Some(machine)) => {
                    let (activated, status) = self.drive(machine, stream).await;
                    if activated {
                        pause = Duration::ZERO;
                    }
                    self.tell(Notice::Disconnected(DialError::Fault(status)));
                }
                (Ok(_), None) => {}
                (Err(error), _) => self.tell(Notice::Disconnected(error)),
            }
            pause = self.longer(pause);
        }
    }

    /// Twice the pause and a random part of it, so that many clients do not come back as one.
    fn longer(&mut self, pause: Duration) -> Duration {
        let mut byte = [0];
        self.entropy.fill(&mut byte);
        let base = (pause * 2).clamp(self.reconnect.shortest, self.reconnect.longest);
        base.mul_f64(1.0 - f64::from(byte[0]) / 512.0)
    }

    /// Waits out the pause and makes the connection and the machine for it; requests are turned away meanwhile.
    async fn connect(
        &mut self,
        machine: &mut Option<ClientSession>,
        credential: &mut Credential,
        pause: Duration,
    ) -> Result<TcpStream, DialError> {
        let (way, url, limit) = (self.way.clone(), self.config.url.clone(), self.reconnect.connect_timeout);
        let attempt = async {
            sleep(pause).await;
            way.connect(&url, limit).await
        };
        tokio::pin!(attempt);
        let stream = loop {
            tokio::select! {
                stream = &mut attempt => break stream?,
                command = self.commands.recv() => match command {
                    Some(Command::Request { answer, .. }) => drop(answer.send(Err(CallError::NotActive))),
                    Some(Command::Reactivate(newer)) => match machine {
                        Some(machine) => machine.reactivate(newer, clock::now()),
                        None => *credential = newer,
                    },
                    Some(Command::Close) | None => {
                        self.closing = true;
                        return Err(DialError::Fault(StatusCode::BadSessionClosed));
                    }
                },
            }
        };
        match machine {
            Some(machine) => machine.reconnect(clock::now())?,
            None => *machine = Some(ClientSession::new(Arc::clone(&self.config), credential.clone(), clock::now())?),
        }
        Ok(stream)
    }

    /// Serves one connection to its end. Tells whether the session was active on it, and why it ended.
    async fn drive(&mut self, machine: &mut ClientSession, stream: TcpStream) -> (bool, StatusCode) {
        let (mut read, write) = stream.into_split();
        let mut buffer = vec![0; READ_BUFFER];
        let mut activated = false;
        loop {
            let end = self.report(machine, &mut activated);
            let unsent = flush(machine, &write);
            if let Some(status) = end {
                // Outcomes of this connection mean nothing to the next.
                self.jobs = JoinSet::new();
                return (activated, status);
            }
            let until = machine.poll_timeout().and_then(clock::instant).unwrap_or_else(far);
            tokio::select! {
                count = receive(&mut read, &mut buffer), if machine.wants_input() => match count {
                    Some(count) => machine.receive(&buffer[..count], clock::now(), &mut self.entropy),
                    None => machine.connection_lost(),
                },
                command = self.commands.recv(), if !self.closing => self.command(command, machine),
                Some(done) = self.jobs.join_next() => match done {
                    Ok((id, outcome)) => machine.job_done(id, outcome, clock::now(), &mut self.entropy),
                    Err(_) => machine.connection_lost(),
                },
                ready = write.writable(), if unsent => if ready.is_err() {
                    machine.connection_lost();
                },
                () = sleep_until(until) => machine.handle_timeout(clock::now(), &mut self.entropy),
            }
        }
    }

    /// Takes one command and what else has piled up.
    fn command(&mut self, first: Option<Command>, machine: &mut ClientSession) {
        let now = clock::now();
        self.carry_out(first.unwrap_or(Command::Close), machine, now);
        for _ in 1..BATCH {
            match self.commands.try_recv() {
                Ok(command) => self.carry_out(command, machine, now),
                Err(_) => return,
            }
        }
    }

    fn carry_out(&mut self, command: Command, machine: &mut ClientSession, now: Now) {
        match command {
            Command::Request { request, timeout, answer } => match machine.request(*request, timeout, now) {
                Ok(id) => drop(self.waiting.insert(id, answer)),
                Err(RequestError::NotActive) => drop(answer.send(Err(CallError::NotActive))),
                Err(error) => drop(answer.send(Err(CallError::NotSent(error)))),
            },
            Command::Reactivate(credential) => machine.reactivate(credential, now),
            Command::Close => {
                self.closing = true;
                machine.close(now, &mut self.entropy);
            }
        }
    }

    /// Passes on what the machine reports; `Some` when the connection is over.
    fn report(&mut self, machine: &mut ClientSession, activated: &mut bool) -> Option<StatusCode> {
        let mut end = None;
        while let Some(event) = machine.poll_event() {
            match event {
                ClientEvent::Job(job) => self.start(job),
                ClientEvent::Activated(kind) => {
                    *activated = true;
                    self.tell(Notice::Activated(kind));
                }
                ClientEvent::Refused(status) => self.tell(Notice::Refused(status)),
                ClientEvent::Lost => self.tell(Notice::Lost),
                ClientEvent::Answer(id, answer) => {
                    if let Some(waiting) = self.waiting.remove(&id) {
                        // Whoever asked may have given up.
                        drop(waiting.send(answer.map_err(CallError::Service)));
                    }
                }
                ClientEvent::Audit(audit) => self.tell(Notice::Audit(audit)),
                ClientEvent::Disconnected(status) => end = Some(status),
            }
        }
        end
    }

    fn start(&mut self, job: Job) {
        self.jobs.spawn_blocking(move || job.run());
    }

    fn tell(&self, notice: Notice) {
        // Nobody has to listen.
        drop(self.notices.send(notice));
    }
}

async fn receive(read: &mut OwnedReadHalf, buffer: &mut [u8]) -> Option<usize> {
    read.read(buffer).await.ok().filter(|count| *count > 0)
}

/// Writes what the kernel takes at once; tells whether something is left.
fn flush(machine: &mut ClientSession, write: &OwnedWriteHalf) -> bool {
    let Some(outgoing) = machine.outgoing() else { return false };
    let mut sent = 0;
    let mut broken = false;
    while sent < outgoing.len() {
        match write.try_write(&outgoing[sent..]) {
            Ok(count) if count > 0 => sent += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            _ => {
                broken = true;
                break;
            }
        }
    }
    outgoing.drain(..sent);
    let unsent = !outgoing.is_empty();
    if broken {
        machine.connection_lost();
    }
    unsent
}
