//! The load generator: sessions of our own client machine over TCP, all on one thread, the same for every server.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use gates::clock;
use gates::opcua::client::{address, endpoints};
use opcua_types::{
    AttributeId, MessageSecurityMode, NodeId, ReadRequest, ReadResponse, ReadValueId, TimestampsToReturn,
};
use token::SystemEntropy;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio::time::sleep;
use ua_proto::client::{
    CallId, ClientApplication, ClientEvent, ClientSession, ClientSessionConfig, Credential, EndpointWish, Request,
    Response, choose_endpoint,
};
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::pki::{OwnIdentity, SharedTrust};
use zeroize::Zeroizing;

use crate::Failed;
use crate::fixture::{self, CLIENT_URI, Fixture, PASSWORD, USER};
use crate::random::Random;
use crate::subject::Subject;

/// Time a load runs before it is measured.
const WARM_UP: Duration = Duration::from_secs(1);
/// Cycles of connecting and closing that run at once.
const CONNECTING: usize = 4;

/// How sessions are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// Not at all.
    None,
    /// Basic256Sha256, SignAndEncrypt.
    Encrypt,
}

impl Security {
    /// Its policy and mode.
    #[must_use]
    pub const fn parts(self) -> (SecurityPolicyId, MessageSecurityMode) {
        match self {
            Self::None => (SecurityPolicyId::None, MessageSecurityMode::None),
            Self::Encrypt => (SecurityPolicyId::Basic256Sha256, MessageSecurityMode::SignAndEncrypt),
        }
    }

    /// Its name in the names of measures and on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Encrypt => "encrypt",
        }
    }
}

/// Everything a session needs to be opened.
#[derive(Clone)]
pub struct Way {
    config: Arc<ClientSessionConfig>,
    credential: Credential,
}

impl Way {
    /// Asks the server for its endpoints and chooses.
    ///
    /// # Errors
    /// It has no such endpoint.
    pub async fn find(
        fixture: &Fixture,
        url: &str,
        security: Security,
        credential: Credential,
    ) -> Result<Self, Failed> {
        Self::of(fixture.folder(), url, security, credential).await
    }

    /// The same with the fixture in `folder`.
    ///
    /// # Errors
    /// As [`Way::find`].
    pub async fn of(folder: &Path, url: &str, security: Security, credential: Credential) -> Result<Self, Failed> {
        let own = (fixture::identity(folder, "client")?, fixture::trust(folder, &["server", "guard"])?);
        Self::with(url, security, credential, own).await
    }

    /// The same with this certificate and this trust.
    ///
    /// # Errors
    /// As [`Way::find`].
    pub async fn with(
        url: &str,
        security: Security,
        credential: Credential,
        own: (Arc<OwnIdentity>, SharedTrust),
    ) -> Result<Self, Failed> {
        Self::over(url, security.parts(), credential, own).await
    }

    /// The same with any policy and mode.
    ///
    /// # Errors
    /// As [`Way::find`].
    pub async fn over(
        url: &str,
        (policy, mode): (SecurityPolicyId, MessageSecurityMode),
        credential: Credential,
        (identity, trust): (Arc<OwnIdentity>, SharedTrust),
    ) -> Result<Self, Failed> {
        let wish = EndpointWish {
            policies: vec![policy],
            modes: vec![mode],
            identities: vec![credential.kind()],
            ..EndpointWish::default()
        };
        let choice = choose_endpoint(&endpoints(url, Duration::from_secs(30)).await?, &wish)?;
        let uri = identity.certificate.application_uri().unwrap_or(CLIENT_URI).to_owned();
        let application = ClientApplication { uri, product_uri: "urn:trapkey".into(), name: "bench".into() };
        let mut config = ClientSessionConfig::new(url, choice, application);
        config.identity = Some(identity);
        config.trust = Some(trust);
        config.session_timeout = Duration::from_secs(600);
        Ok(Self { config: Arc::new(config), credential })
    }

    /// The same with keys of the channel that live so long.
    #[must_use]
    pub fn living(mut self, lifetime: Duration) -> Self {
        Arc::make_mut(&mut self.config).channel_lifetime = lifetime;
        self
    }

    /// The same with another credential.
    #[must_use]
    pub fn showing(&self, credential: Credential) -> Self {
        Self { config: Arc::clone(&self.config), credential }
    }
}

/// The fixture's user.
#[must_use]
pub fn user() -> Credential {
    Credential::UserName { name: USER.into(), password: Zeroizing::new(PASSWORD.into()) }
}

/// One session on its connection.
pub struct Link {
    stream: TcpStream,
    session: ClientSession,
    entropy: SystemEntropy,
    buffer: Vec<u8>,
}

impl Link {
    /// Connects, creates a session and activates it.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn open(way: &Way) -> Result<Self, Failed> {
        let (host, port) = address(&way.config.url)?;
        let stream = TcpStream::connect((host.as_str(), port)).await?;
        stream.set_nodelay(true)?;
        let session = ClientSession::new(Arc::clone(&way.config), way.credential.clone(), clock::now())?;
        let mut link = Self { stream, session, entropy: SystemEntropy::new(), buffer: vec![0; 64 * 1024] };
        match link.next().await? {
            ClientEvent::Activated(_) => Ok(link),
            other => Err(format!("not activated: {other:?}").into()),
        }
    }

    /// Sends a request; its answer comes as an event.
    ///
    /// # Errors
    /// The session is not active.
    pub fn send(&mut self, request: impl Into<Request>) -> Result<CallId, Failed> {
        Ok(self.session.request(request.into(), None, clock::now())?)
    }

    /// Activates the session with another credential; an event tells how it came out.
    pub fn reactivate(&mut self, credential: Credential) {
        self.session.reactivate(credential, clock::now());
    }

    /// Activates the session with another credential, and waits until the server has taken it.
    ///
    /// # Errors
    /// It refuses, or the connection ends.
    pub async fn refresh(&mut self, credential: Credential) -> Result<(), Failed> {
        self.reactivate(credential);
        loop {
            match self.next().await? {
                ClientEvent::Activated(_) => return Ok(()),
                ClientEvent::Refused(status) => return Err(format!("refused: {status}").into()),
                ClientEvent::Disconnected(status) => return Err(format!("disconnected: {status}").into()),
                _ => {}
            }
        }
    }

    /// Begins what is due by the clock: keys of the channel are renewed with the next request.
    pub fn keep_time(&mut self) {
        let now = clock::now();
        if self.session.poll_timeout().is_some_and(|due| due <= now.mono) {
            self.session.handle_timeout(now, &mut self.entropy);
        }
    }

    /// How often keys of the channel were renewed.
    #[must_use]
    pub fn renewals(&self) -> u32 {
        self.session.renewals()
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// The service result is bad or the connection ends.
    pub async fn call<R>(&mut self, request: impl Into<Request>) -> Result<R, Failed>
    where
        R: TryFrom<Response>,
    {
        let call = self.send(request)?;
        loop {
            match self.next().await? {
                ClientEvent::Answer(id, answer) if id == call => {
                    let answer = answer.map_err(|status| format!("the service failed with {status}"))?;
                    return R::try_from(answer).map_err(|_| "an answer of another service".into());
                }
                ClientEvent::Disconnected(status) => return Err(format!("disconnected: {status}").into()),
                _ => {}
            }
        }
    }

    /// Reads one value and makes sure that there is one.
    ///
    /// # Errors
    /// There is none.
    pub async fn read(&mut self, number: u32) -> Result<(), Failed> {
        let answer = self.call(value_of(number)).await?;
        has_value(&answer).map_err(|error| format!("node {number}: {error}").into())
    }

    /// Closes the session, then the connection.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn close(mut self) -> Result<(), Failed> {
        self.session.close(clock::now(), &mut self.entropy);
        while !matches!(self.next().await?, ClientEvent::Disconnected(_)) {}
        Ok(())
    }

    /// Sends what the peer takes at once, without reading; returns the number of bytes.
    ///
    /// # Errors
    /// The connection breaks.
    pub fn push(&mut self) -> Result<usize, Failed> {
        let Some(bytes) = self.session.outgoing() else { return Ok(0) };
        match self.stream.try_write(bytes) {
            Ok(sent) => {
                bytes.drain(..sent);
                Ok(sent)
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// The next event; jobs are done on the way.
    ///
    /// # Errors
    /// The connection breaks.
    pub async fn next(&mut self) -> Result<ClientEvent, Failed> {
        loop {
            while let Some(event) = self.session.poll_event() {
                match event {
                    ClientEvent::Job(job) => {
                        let (id, outcome) = job.run();
                        self.session.job_done(id, outcome, clock::now(), &mut self.entropy);
                    }
                    ClientEvent::Audit(_) => {}
                    other => return Ok(other),
                }
            }
            if let Some(bytes) = self.session.outgoing().filter(|bytes| !bytes.is_empty()) {
                self.stream.write_all(bytes).await?;
                bytes.clear();
            }
            let count = self.stream.read(&mut self.buffer).await?;
            match self.buffer.get(..count).filter(|bytes| !bytes.is_empty()) {
                Some(bytes) => self.session.receive(bytes, clock::now(), &mut self.entropy),
                None => self.session.connection_lost(),
            }
        }
    }
}

/// That an answer has the value that was asked for.
///
/// # Errors
/// It has not.
pub fn has_value(answer: &ReadResponse) -> Result<(), Failed> {
    match answer.results.as_deref().and_then(<[_]>::first) {
        Some(value) if value.value.is_some() && value.status.is_none_or(|status| status.is_good()) => Ok(()),
        other => Err(format!("no value: {other:?}").into()),
    }
}

/// The request for the value of one variable.
#[must_use]
pub fn value_of(number: u32) -> ReadRequest {
    let item = ReadValueId {
        node_id: NodeId::new(2, number),
        attribute_id: AttributeId::Value as u32,
        ..ReadValueId::default()
    };
    ReadRequest {
        request_header: Default::default(),
        max_age: 0.0,
        timestamps_to_return: TimestampsToReturn::Both,
        nodes_to_read: Some(vec![item]),
    }
}

/// What a load cost a server.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Processor time of the server for one operation, in microseconds.
    pub micros: f64,
    /// Operations a second.
    pub rate: f64,
    /// All operations, those before and after the measured time too.
    pub all: u64,
}

/// `connections` sessions read one random value after the other, each in a closed loop.
///
/// # Errors
/// A read fails.
pub async fn reads(
    subject: &Subject,
    way: &Way,
    connections: usize,
    nodes: u32,
    time: Duration,
) -> Result<Cost, Failed> {
    let mut links = Vec::new();
    for _ in 0..connections {
        links.push(Link::open(way).await?);
    }
    let tally = Tally::default();
    let set = LocalSet::new();
    let mut tasks = Vec::new();
    for (seed, mut link) in (1..).zip(links) {
        let tally = tally.clone();
        tasks.push(set.spawn_local(async move {
            let mut random = Random::new(seed);
            while !tally.ended() {
                link.read(fixture::number(random.below(nodes))).await?;
                tally.count();
            }
            link.close().await
        }));
    }
    set.run_until(tally.measure(subject, time, tasks)).await
}

/// Connects, activates and closes, again and again, each on a new TCP connection.
///
/// # Errors
/// A cycle fails.
pub async fn connects(subject: &Subject, way: &Way, time: Duration) -> Result<Cost, Failed> {
    let tally = Tally::default();
    let set = LocalSet::new();
    let mut tasks = Vec::new();
    for _ in 0..CONNECTING {
        let (tally, way) = (tally.clone(), way.clone());
        tasks.push(set.spawn_local(async move {
            while !tally.ended() {
                Link::open(&way).await?.close().await?;
                tally.count();
            }
            Ok(())
        }));
    }
    set.run_until(tally.measure(subject, time, tasks)).await
}

/// What the tasks of one load share.
#[derive(Clone, Debug, Default)]
struct Tally {
    done: Rc<Cell<u64>>,
    ended: Rc<Cell<bool>>,
}

impl Tally {
    fn count(&self) {
        self.done.set(self.done.get() + 1);
    }

    fn ended(&self) -> bool {
        self.ended.get()
    }

    async fn measure(
        &self,
        subject: &Subject,
        time: Duration,
        tasks: Vec<tokio::task::JoinHandle<Result<(), Failed>>>,
    ) -> Result<Cost, Failed> {
        sleep(WARM_UP).await;
        let stopwatch = crate::clock::Stopwatch::start();
        let (cpu, done) = (subject.cpu()?, self.done.get());
        sleep(time).await;
        let (cpu, done) = (subject.cpu()? - cpu, self.done.get() - done);
        let seconds = stopwatch.seconds();
        self.ended.set(true);
        for task in tasks {
            task.await??;
        }
        if done == 0 {
            return Err("nothing was done in the time".into());
        }
        Ok(Cost { micros: cpu * 1e6 / done as f64, rate: done as f64 / seconds, all: self.done.get() })
    }
}
