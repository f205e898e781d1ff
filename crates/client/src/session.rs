//! A session with what its notices said last, so that anybody can wait for it to become usable.

use std::sync::Arc;
use std::time::Duration;

use gates::opcua::client::{self as tcp, CallError, DialError, Notice, SessionHandle};
use opcua_types::{EndpointDescription, StatusCode};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use ua_proto::client::{
    Activated, ClientSessionConfig, Credential, EndpointChoice, Request, Response, choose_endpoint,
};

use crate::error::ClientError;
use crate::options::ClientOptions;

/// Until the notice that a session ended has come through.
const PAUSE: Duration = Duration::from_millis(5);

/// What is known about a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) active: bool,
    /// Successful activations so far.
    pub(crate) activations: u64,
    /// Sessions so far: each had to be filled anew.
    pub(crate) sessions: u64,
    /// Refused credentials so far, and the last status.
    pub(crate) refusals: u64,
    pub(crate) refused: Option<StatusCode>,
    /// Attempts that ended without a session.
    pub(crate) failures: u64,
}

/// The session of one server.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) handle: SessionHandle,
    pub(crate) state: watch::Receiver<State>,
    patience: Duration,
}

/// What discovery gave and what was chosen of it.
pub(crate) struct Found {
    pub(crate) endpoints: Vec<EndpointDescription>,
    pub(crate) choice: EndpointChoice,
}

/// Asks the server for its endpoints and chooses one.
pub(crate) async fn discover(options: &ClientOptions) -> Result<Found, ClientError> {
    let endpoints = tcp::endpoints_over(&options.way, &options.url, options.request_timeout).await?;
    let choice = choose_endpoint(&endpoints, &options.wish())?;
    Ok(Found { endpoints, choice })
}

impl Session {
    /// Opens a session and waits until it is active.
    pub(crate) async fn open(
        options: &ClientOptions,
        found: &Found,
        credential: Credential,
    ) -> Result<Self, ClientError> {
        let mut config = ClientSessionConfig::new(&options.url, found.choice.clone(), options.application.clone());
        config.discovered = Some(Arc::new(found.endpoints.clone()));
        config.identity = options.identity.clone();
        config.trust = options.trust.clone();
        config.host = if options.check_host { Some(tcp::address(&options.url)?.0) } else { None };
        config.session_name = options.application.name.clone();
        config.session_timeout = options.session_timeout;
        config.request_timeout = options.request_timeout;
        config.keep_alive = options.keep_alive;
        config.key_layout = options.key_layout;
        let way = options.way.clone();
        let (handle, mut notices) = tcp::open_over(way, Arc::new(config), credential, options.reconnect);
        let first = first_activation(&mut notices, options.request_timeout * 2).await;
        if let Err(error) = first {
            handle.close().await;
            return Err(error);
        }
        let state = State { active: true, activations: 1, sessions: 1, ..State::default() };
        let (told, state) = watch::channel(state);
        tokio::spawn(listen(notices, told));
        Ok(Self { handle, state, patience: options.request_timeout })
    }

    /// Waits until the session is active.
    pub(crate) async fn ready(&self) -> Result<(), ClientError> {
        let mut state = self.state.clone();
        match timeout(self.patience, state.wait_for(|state| state.active)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(CallError::Closed.into()),
            Err(_) => match self.state.borrow().refused {
                Some(status) => Err(ClientError::Refused(status)),
                None => Err(ClientError::NoSession(self.patience.as_secs())),
            },
        }
    }

    /// Sends a request as soon as there is a session. It is not sent twice.
    pub(crate) async fn request(&self, request: Request, limit: Option<Duration>) -> Result<Response, ClientError> {
        loop {
            self.ready().await?;
            match self.handle.request(request.clone(), limit).await {
                // The session ended between the two lines; nothing was sent.
                Err(CallError::NotActive) => sleep(PAUSE).await,
                answer => return Ok(answer?),
            }
        }
    }

    /// Activates the session with another credential and waits for the outcome.
    pub(crate) async fn activate(&self, credential: Credential) -> Result<(), ClientError> {
        let mut state = self.state.clone();
        let before = state.borrow_and_update().clone();
        self.handle.reactivate(credential).await;
        let decided = state.wait_for(|now| now.activations > before.activations || now.refusals > before.refusals);
        match timeout(self.patience * 2, decided).await {
            Ok(Ok(now)) if now.refusals > before.refusals => {
                Err(ClientError::Refused(now.refused.unwrap_or(StatusCode::BadIdentityTokenRejected)))
            }
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(CallError::Closed.into()),
            Err(_) => Err(ClientError::NoSession(self.patience.as_secs())),
        }
    }
}

async fn first_activation(notices: &mut mpsc::UnboundedReceiver<Notice>, limit: Duration) -> Result<(), ClientError> {
    let first = async {
        loop {
            match notices.recv().await {
                Some(Notice::Activated(_)) => return Ok(()),
                Some(Notice::Refused(status)) => return Err(ClientError::Refused(status)),
                Some(Notice::Disconnected(error)) => return Err(error.into()),
                Some(Notice::Audit(audit)) => tracing::debug!(detail = audit.detail, "the channel reports"),
                Some(Notice::Lost) => {}
                None => return Err(CallError::Closed.into()),
            }
        }
    };
    match timeout(limit, first).await {
        Ok(outcome) => outcome,
        Err(_) => Err(DialError::Fault(StatusCode::BadTimeout).into()),
    }
}

/// Keeps the state up to date for as long as the session lives.
async fn listen(mut notices: mpsc::UnboundedReceiver<Notice>, told: watch::Sender<State>) {
    while let Some(notice) = notices.recv().await {
        match notice {
            Notice::Audit(audit) => tracing::debug!(detail = audit.detail, "the channel reports"),
            Notice::Activated(kind) => told.send_modify(|state| {
                state.active = true;
                state.activations += 1;
                state.sessions += u64::from(kind == Activated::Fresh);
            }),
            Notice::Refused(status) => told.send_modify(|state| {
                state.refusals += 1;
                state.refused = Some(status);
            }),
            Notice::Lost => told.send_modify(|state| state.active = false),
            Notice::Disconnected(error) => {
                tracing::debug!(%error, "the connection is lost");
                told.send_modify(|state| {
                    state.active = false;
                    state.failures += 1;
                });
            }
        }
    }
}
