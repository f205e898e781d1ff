//! A client's session without I/O: create, activate, activate again, keep alive, move to a new connection.
//!
//! One value lives as long as its user wants the session. It drives one connection at a time; when that ends it says so,
//! and [`ClientSession::reconnect`] starts the next, on which the session goes on if the server still has it.

mod activate;
mod create;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use access_model::{Mono, Now};
use opcua_types::{
    AttributeId, CloseSessionRequest, ExtensionObject, NodeId, ReadRequest, ReadValueId, StatusCode,
    TimestampsToReturn, VariableId,
};

use crate::channel::{ChannelAudit, ChannelSecurity, ClientChannel, SendError};
use crate::client::codec::{Codec, responses};
use crate::client::config::ClientSessionConfig;
use crate::client::credential::{Credential, Seed};
use crate::client::link::{CallId, Link, LinkEvent, Purpose};
use crate::client::message::{Request, Response};
use crate::pki::Rejection;
use crate::{Entropy, Job, JobId, JobOutcome};

/// Shortest server nonce that is accepted (OPC 10000-4 §5.7.2.2).
const MIN_NONCE: usize = 32;
/// The channel number under which this machine's own jobs run; a server may use it for a channel too, so it is only a
/// first guess at whose job it is.
const OWN_JOBS: u32 = u32::MAX;

/// How an activation came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activated {
    /// A new session: subscriptions have to be created (again).
    Fresh,
    /// The session of before, on a new connection: its subscriptions may have lived on.
    Moved,
    /// The same session on the same connection, with another credential.
    Renewed,
}

/// What a session reports.
#[derive(Debug)]
pub enum ClientEvent {
    /// Work to do elsewhere; its outcome comes back through `job_done`.
    Job(Job),
    /// The session may be used.
    Activated(Activated),
    /// The server refused the credential. A session that was active stays active with the credential before; one that
    /// was not waits for [`ClientSession::reactivate`].
    Refused(StatusCode),
    /// The server does not know the session any more. A new one is being made; [`Activated::Fresh`] tells when it is there.
    Lost,
    /// A request was answered; `Err` is the service result.
    Answer(CallId, Result<Response, StatusCode>),
    /// Something for the audit: a certificate was rejected.
    Audit(ChannelAudit),
    /// The connection is over. Write out what is left, close it, and reconnect or give up.
    Disconnected(StatusCode),
}

/// A request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The session is not active.
    #[error("the session is not active")]
    NotActive,
    /// As many requests are under way as are allowed.
    #[error("too many requests are under way")]
    TooMany,
    /// The channel did not take it.
    #[error(transparent)]
    Send(#[from] SendError),
}

/// The server's half of a session.
struct Established {
    id: NodeId,
    token: NodeId,
    nonce: Vec<u8>,
    /// The newest key to encrypt a secret for, under a policy of elliptic curves.
    server_key: Option<Vec<u8>>,
    timeout: Duration,
    /// Activated once, so that it can be used and moved.
    used: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The channel is being opened, or nothing was asked of it yet.
    Opening,
    Creating,
    /// The first activation on this connection.
    Activating(Activated),
    /// The server refused that; another credential may be accepted.
    Waiting,
    Active,
    Closing,
    Down,
}

/// An activation whose proof is being made or judged.
struct Attempt {
    job: JobId,
    kind: Activated,
    credential: Credential,
    /// Until when the job has to give the proof.
    deadline: Mono,
}

/// The machine.
pub struct ClientSession {
    config: Arc<ClientSessionConfig>,
    codec: Codec,
    link: Option<Link>,
    /// What the last connection still has to carry: the end of its channel, when that was orderly.
    parting: Vec<u8>,
    stage: Stage,
    session: Option<Established>,
    /// The credential of the last successful activation, or the first to try.
    credential: Credential,
    /// A credential that arrived while another was being tried.
    next_credential: Option<Credential>,
    attempt: Option<Attempt>,
    client_nonce: Vec<u8>,
    /// Randomness for the ephemeral key of the next proof.
    seed: Option<Seed>,
    last_sent: Mono,
    /// When the server last answered anything.
    last_heard: Mono,
    /// A keep-alive waits for its answer.
    kept_alive: bool,
    jobs: u32,
    calls: u64,
    /// The connection is only to close the session.
    last_words: bool,
    incoming: VecDeque<LinkEvent>,
    events: VecDeque<ClientEvent>,
}

impl ClientSession {
    /// A session on a connection that was just made.
    ///
    /// # Errors
    /// When the server's certificate is not acceptable, or something is missing that the policy needs.
    pub fn new(config: Arc<ClientSessionConfig>, credential: Credential, now: Now) -> Result<Self, Rejection> {
        let channel = ClientChannel::new(Arc::new(config.channel()), now)?;
        Ok(Self {
            config,
            codec: responses(),
            link: Some(Link::new(channel)),
            parting: Vec::new(),
            stage: Stage::Opening,
            session: None,
            credential,
            next_credential: None,
            attempt: None,
            client_nonce: Vec::new(),
            seed: None,
            last_sent: now.mono,
            last_heard: now.mono,
            kept_alive: false,
            jobs: 0,
            calls: 0,
            last_words: false,
            incoming: VecDeque::with_capacity(1),
            events: VecDeque::with_capacity(1),
        })
    }

    /// Starts over on a new connection, after [`ClientEvent::Disconnected`].
    ///
    /// # Errors
    /// As in [`ClientSession::new`].
    pub fn reconnect(&mut self, now: Now) -> Result<(), Rejection> {
        self.go_down(StatusCode::BadConnectionClosed);
        let channel = ClientChannel::new(Arc::new(self.config.channel()), now)?;
        self.link = Some(Link::new(channel));
        self.parting = Vec::new();
        (self.last_heard, self.kept_alive) = (now.mono, false);
        self.stage = Stage::Opening;
        self.events.retain(|event| !matches!(event, ClientEvent::Disconnected(_)));
        Ok(())
    }

    /// As [`ClientSession::reconnect`], of a session that nobody needs any more: it is closed if the server still has it,
    /// and no other is made. After [`ClientEvent::Activated`] call [`ClientSession::close`].
    ///
    /// # Errors
    /// As in [`ClientSession::new`].
    pub fn reconnect_to_close(&mut self, now: Now) -> Result<(), Rejection> {
        self.last_words = true;
        self.reconnect(now)
    }

    /// Whether the server may have a session of this machine.
    #[must_use]
    pub fn may_live_on(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.used)
    }

    /// Takes bytes from the server.
    pub fn receive(&mut self, bytes: &[u8], now: Now, entropy: &mut dyn Entropy) {
        if let Some(link) = &mut self.link {
            link.channel.receive(bytes, now, entropy);
        }
        self.process(now, entropy);
    }

    /// Takes the outcome of a job.
    pub fn job_done(&mut self, id: JobId, outcome: JobOutcome, now: Now, entropy: &mut dyn Entropy) {
        let own = self.attempt.as_ref().is_some_and(|attempt| attempt.job == id);
        match (own, &mut self.link) {
            (true, _) => self.proof_made(outcome, now),
            (false, Some(link)) if id.channel() != OWN_JOBS => link.channel.job_done(id, outcome, now, entropy),
            _ => {}
        }
        self.process(now, entropy);
    }

    /// Serves what is due.
    pub fn handle_timeout(&mut self, now: Now, entropy: &mut dyn Entropy) {
        if let Some(link) = &mut self.link {
            link.channel.handle_timeout(now, entropy);
            link.expire(now, &mut self.incoming);
        }
        self.process(now, entropy);
        if self.proof_due().is_some_and(|at| at <= now.mono) {
            self.fail(StatusCode::BadTimeout);
        }
        if self.keep_alive_at().is_some_and(|at| at <= now.mono) {
            self.send_keep_alive(now);
            self.process(now, entropy);
        }
    }

    /// When `handle_timeout` must be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        let link = self.link.as_ref().and_then(Link::poll_timeout);
        link.into_iter().chain(self.keep_alive_at()).chain(self.proof_due()).min()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        next(&mut self.events)
    }

    /// Bytes for the server; take them from the front. After an orderly end there are some without a connection in use:
    /// send them before the connection is closed.
    pub fn outgoing(&mut self) -> Option<&mut Vec<u8>> {
        match &mut self.link {
            Some(link) => Some(link.channel.outgoing()),
            None => (!self.parting.is_empty()).then_some(&mut self.parting),
        }
    }

    /// Whether more bytes from the server are welcome.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.channel.wants_input())
    }

    /// Bytes that are held: what the server has not taken, and of what it has sent that which is no whole message yet.
    #[must_use]
    pub fn burden(&self) -> usize {
        let channel = self.link.as_ref().map_or(0, |link| link.channel.burden());
        self.parting.len().saturating_add(channel)
    }

    /// What was agreed for the channel, once it is open.
    #[must_use]
    pub fn security(&self) -> Option<&ChannelSecurity> {
        self.link.as_ref().and_then(|link| link.channel.security())
    }

    /// How often keys of the channel were renewed on this connection.
    #[must_use]
    pub fn renewals(&self) -> u32 {
        self.link.as_ref().map_or(0, |link| link.renewals)
    }

    /// The id of the session, once there is one.
    #[must_use]
    pub fn session_id(&self) -> Option<&NodeId> {
        self.session.as_ref().map(|session| &session.id)
    }

    /// Whether requests are taken.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.stage == Stage::Active
    }

    /// Sends a request. Its answer comes as [`ClientEvent::Answer`], after `timeout` at the latest.
    ///
    /// # Errors
    /// Nothing was sent.
    pub fn request(&mut self, request: Request, timeout: Option<Duration>, now: Now) -> Result<CallId, RequestError> {
        if self.stage != Stage::Active {
            return Err(RequestError::NotActive);
        }
        if self.link.as_ref().is_none_or(|link| link.in_flight() >= self.config.max_in_flight) {
            return Err(RequestError::TooMany);
        }
        self.calls += 1;
        let id = CallId(self.calls);
        self.send(request, Purpose::Caller(id), timeout.unwrap_or(self.config.request_timeout), now)?;
        Ok(id)
    }

    /// Closes session and channel; [`ClientEvent::Disconnected`] follows. A session that is being made is closed when the
    /// server has named it, or it would stay there until its timeout.
    pub fn close(&mut self, now: Now, entropy: &mut dyn Entropy) {
        if self.stage == Stage::Creating {
            self.last_words = true;
            return;
        }
        if self.session.is_some() && matches!(self.stage, Stage::Active | Stage::Waiting | Stage::Activating(_)) {
            let request = CloseSessionRequest { request_header: Default::default(), delete_subscriptions: true };
            self.stage = Stage::Closing;
            if self.send(Request::CloseSession(request), Purpose::Close, self.config.request_timeout, now).is_ok() {
                return;
            }
        }
        self.close_channel(now);
        self.process(now, entropy);
    }

    /// The shell lost the connection.
    pub fn connection_lost(&mut self) {
        self.go_down(StatusCode::BadConnectionClosed);
    }

    fn send(&mut self, request: Request, purpose: Purpose, timeout: Duration, now: Now) -> Result<(), SendError> {
        let link = self.link.as_mut().ok_or(SendError::NotOpen)?;
        let session = self.session.as_ref().map_or(const { &NULL }, |session| &session.token);
        let header = match purpose {
            Purpose::Create | Purpose::Activate => self.config.choice.key_header(),
            _ => ExtensionObject::null(),
        };
        link.send(&self.codec, (request, header), (purpose, session), timeout, now)?;
        self.last_sent = now.mono;
        Ok(())
    }

    fn process(&mut self, now: Now, entropy: &mut dyn Entropy) {
        self.seed.get_or_insert_with(|| Seed::draw(entropy));
        loop {
            if let Some(link) = &mut self.link {
                link.drain(&self.codec, &mut self.incoming);
            }
            let Some(event) = next(&mut self.incoming) else { return };
            match event {
                LinkEvent::Job(job) => self.events.push_back(ClientEvent::Job(job)),
                LinkEvent::Audit(audit) => self.events.push_back(ClientEvent::Audit(audit)),
                LinkEvent::Opened => self.opened(now, entropy),
                LinkEvent::Answer(purpose, answer) => self.answered(purpose, answer, now, entropy),
                LinkEvent::Closed(status) => self.go_down(status),
            }
        }
    }

    fn opened(&mut self, now: Now, entropy: &mut dyn Entropy) {
        if self.stage != Stage::Opening {
            return;
        }
        if self.session.as_ref().is_some_and(|session| session.used) {
            self.stage = Stage::Activating(Activated::Moved);
            self.begin_activation(Activated::Moved, self.credential.clone(), now);
        } else if self.last_words {
            self.close_channel(now);
        } else {
            self.create(now, entropy);
        }
    }

    fn answered(
        &mut self,
        purpose: Purpose,
        answer: Result<Response, StatusCode>,
        now: Now,
        entropy: &mut dyn Entropy,
    ) {
        if !matches!(answer, Err(StatusCode::BadTimeout)) {
            self.last_heard = now.mono;
        }
        self.kept_alive &= !matches!(purpose, Purpose::KeepAlive);
        match (purpose, answer) {
            (Purpose::Caller(id), answer) => {
                let lost = matches!(&answer, Err(status) if session_is_gone(*status));
                self.events.push_back(ClientEvent::Answer(id, answer));
                if lost && self.stage == Stage::Active {
                    self.create(now, entropy);
                }
            }
            (Purpose::Create, Ok(Response::CreateSession(response))) => {
                self.created(*response, now);
                if self.last_words {
                    self.close(now, entropy);
                }
            }
            (Purpose::Create, answer) => self.fail(answer.err().unwrap_or(StatusCode::BadUnknownResponse)),
            (Purpose::Activate, Ok(Response::ActivateSession(response))) => {
                self.activated(*response, now);
            }
            (Purpose::Activate, Err(status)) => self.activation_failed(status, now, entropy),
            (Purpose::Activate, Ok(_)) => self.fail(StatusCode::BadUnknownResponse),
            (Purpose::KeepAlive, Err(StatusCode::BadTimeout)) => self.fail(StatusCode::BadTimeout),
            (Purpose::KeepAlive, Err(status)) if session_is_gone(status) && self.stage == Stage::Active => {
                self.create(now, entropy);
            }
            // Any other answer shows that the server is there.
            (Purpose::KeepAlive, _) => {}
            (Purpose::Close, _) => self.close_channel(now),
        }
    }

    fn proof_due(&self) -> Option<Mono> {
        self.attempt.as_ref().map(|attempt| attempt.deadline).filter(|deadline| *deadline != Mono::NEVER)
    }

    fn keep_alive_at(&self) -> Option<Mono> {
        let session = self.session.as_ref().filter(|_| self.stage == Stage::Active && !self.kept_alive)?;
        // A server that is asked and does not answer is asked as well whether it is there.
        Some(
            self.last_sent.min(self.last_heard)
                + self.config.keep_alive.min(session.timeout / 3).max(Duration::from_millis(100)),
        )
    }

    fn send_keep_alive(&mut self, now: Now) {
        let state = ReadValueId {
            node_id: VariableId::Server_ServerStatus_State.into(),
            attribute_id: AttributeId::Value as u32,
            ..ReadValueId::default()
        };
        let request = ReadRequest {
            request_header: Default::default(),
            max_age: 0.0,
            timestamps_to_return: TimestampsToReturn::Neither,
            nodes_to_read: Some(vec![state]),
        };
        (self.last_sent, self.kept_alive) = (now.mono, true);
        if let Err(error) = self.send(Request::Read(request), Purpose::KeepAlive, self.config.request_timeout, now) {
            self.fail(status_of(error));
        }
    }

    /// Something went wrong that a new connection may repair.
    fn fail(&mut self, status: StatusCode) {
        if let Some(link) = &mut self.link {
            link.channel.fail(status);
        }
        self.go_down(status);
    }

    fn close_channel(&mut self, now: Now) {
        self.session = None;
        if let Some(link) = &mut self.link {
            link.channel.close(now);
        }
    }

    /// The connection is over: whoever waits is told, and the session waits for the next connection.
    fn go_down(&mut self, status: StatusCode) {
        if self.stage == Stage::Down {
            return;
        }
        self.stage = Stage::Down;
        self.attempt = None;
        self.next_credential.take().into_iter().for_each(|credential| self.credential = credential);
        let orderly = status.is_good();
        let status = if orderly { StatusCode::BadConnectionClosed } else { status };
        if let Some(mut link) = self.link.take() {
            if orderly {
                self.parting = std::mem::take(link.channel.outgoing());
            }
            link.drain(&self.codec, &mut self.incoming);
            for event in std::mem::take(&mut self.incoming) {
                match event {
                    LinkEvent::Audit(audit) => self.events.push_back(ClientEvent::Audit(audit)),
                    LinkEvent::Answer(Purpose::Caller(id), answer) => {
                        self.events.push_back(ClientEvent::Answer(id, answer));
                    }
                    _ => {}
                }
            }
            for purpose in link.abandon() {
                if let Purpose::Caller(id) = purpose {
                    self.events.push_back(ClientEvent::Answer(id, Err(StatusCode::BadConnectionClosed)));
                }
            }
        }
        self.events.push_back(ClientEvent::Disconnected(status));
    }
}

static NULL: NodeId = NodeId { namespace: 0, identifier: opcua_types::Identifier::Numeric(0) };

/// Whether a service result says that the session does not exist (any more).
fn session_is_gone(status: StatusCode) -> bool {
    [StatusCode::BadSessionIdInvalid, StatusCode::BadSessionClosed, StatusCode::BadSessionNotActivated]
        .contains(&status)
}

fn status_of(error: SendError) -> StatusCode {
    match error {
        SendError::TooLarge => StatusCode::BadRequestTooLarge,
        SendError::Encode(error) => error.0,
        SendError::Crypto => StatusCode::BadSecurityChecksFailed,
        SendError::NotOpen | SendError::UnknownRequest => StatusCode::BadSecureChannelClosed,
    }
}

/// Takes the next event. An event is large, most come alone, and a guard has many sessions: room is kept for one.
fn next<T>(events: &mut VecDeque<T>) -> Option<T> {
    let event = events.pop_front();
    if events.is_empty() && events.capacity() > 1 {
        events.shrink_to(1);
    }
    event
}
