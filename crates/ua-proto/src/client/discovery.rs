//! One question to a server without a session: GetEndpoints or FindServers over an unprotected channel, a registration over
//! a protected one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use access_model::{Mono, Now};
use opcua_types::{ExtensionObject, FindServersRequest, GetEndpointsRequest, NodeId, StatusCode};

use super::codec::{Codec, responses};
use super::link::{CallId, Link, LinkEvent, Purpose};
use super::message::{Request, Response};
use crate::channel::{ClientChannel, ClientChannelConfig};
use crate::pki::Rejection;
use crate::{Entropy, Job, JobId, JobOutcome};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The endpoints of the server.
    Endpoints,
    /// The servers that it knows.
    Servers,
}

/// The machine: asks once, then closes.
pub struct Discovery {
    codec: Codec,
    link: Link,
    request: Option<Request>,
    timeout: Duration,
    incoming: VecDeque<LinkEvent>,
    jobs: VecDeque<Job>,
    result: Option<Result<Response, StatusCode>>,
    answered: bool,
}

impl Discovery {
    /// A question on a connection that was just made to `url`.
    ///
    /// # Errors
    /// Never in practice: the channel is unprotected.
    pub fn new(url: &str, question: Question, timeout: Duration, now: Now) -> Result<Self, Rejection> {
        let mut config = ClientChannelConfig::unprotected(url);
        config.open_timeout = timeout;
        let request = match question {
            Question::Endpoints => Request::GetEndpoints(GetEndpointsRequest {
                request_header: Default::default(),
                endpoint_url: url.into(),
                locale_ids: None,
                profile_uris: None,
            }),
            Question::Servers => Request::FindServers(FindServersRequest {
                request_header: Default::default(),
                endpoint_url: url.into(),
                locale_ids: None,
                server_uris: None,
            }),
        };
        Self::over(config, request, timeout, now)
    }

    /// A request without a session on a connection that was just made, over a channel like this.
    ///
    /// # Errors
    /// The server's certificate is not acceptable.
    pub fn over(
        channel: ClientChannelConfig,
        request: Request,
        timeout: Duration,
        now: Now,
    ) -> Result<Self, Rejection> {
        Ok(Self {
            codec: responses(),
            link: Link::new(ClientChannel::new(Arc::new(channel), now)?),
            request: Some(request),
            timeout,
            incoming: VecDeque::new(),
            jobs: VecDeque::new(),
            result: None,
            answered: false,
        })
    }

    /// Takes bytes from the server.
    pub fn receive(&mut self, bytes: &[u8], now: Now, entropy: &mut dyn Entropy) {
        self.link.channel.receive(bytes, now, entropy);
        self.process(now);
    }

    /// Takes the outcome of a job.
    pub fn job_done(&mut self, id: JobId, outcome: JobOutcome, now: Now, entropy: &mut dyn Entropy) {
        self.link.channel.job_done(id, outcome, now, entropy);
        self.process(now);
    }

    /// Serves what is due.
    pub fn handle_timeout(&mut self, now: Now, entropy: &mut dyn Entropy) {
        self.link.channel.handle_timeout(now, entropy);
        self.link.expire(now, &mut self.incoming);
        self.process(now);
    }

    /// When `handle_timeout` must be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        self.link.poll_timeout()
    }

    /// The next job to run.
    pub fn poll_job(&mut self) -> Option<Job> {
        self.jobs.pop_front()
    }

    /// Bytes for the server; take them from the front.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        self.link.channel.outgoing()
    }

    /// The answer, once; the connection can be closed when `outgoing` is written out.
    pub fn take_result(&mut self) -> Option<Result<Response, StatusCode>> {
        self.result.take()
    }

    /// The connection was lost.
    pub fn connection_lost(&mut self) {
        self.finish(Err(StatusCode::BadConnectionClosed));
    }

    fn process(&mut self, now: Now) {
        self.link.drain(&self.codec, &mut self.incoming);
        while let Some(event) = self.incoming.pop_front() {
            match event {
                LinkEvent::Job(job) => self.jobs.push_back(job),
                LinkEvent::Audit(_) => {}
                LinkEvent::Opened => self.ask(now),
                LinkEvent::Answer(_, answer) => {
                    self.finish(answer);
                    self.link.channel.close(now);
                }
                LinkEvent::Closed(status) => self.finish(Err(status)),
            }
            self.link.drain(&self.codec, &mut self.incoming);
        }
    }

    fn ask(&mut self, now: Now) {
        let Some(request) = self.request.take() else { return };
        let purpose = (Purpose::Caller(CallId(0)), &NodeId::null());
        if self.link.send(&self.codec, (request, ExtensionObject::null()), purpose, self.timeout, now).is_err() {
            self.finish(Err(StatusCode::BadSecureChannelClosed));
        }
    }

    /// The first result counts: closing our own channel afterwards is no answer.
    fn finish(&mut self, result: Result<Response, StatusCode>) {
        if !std::mem::replace(&mut self.answered, true) {
            self.result = Some(result);
        }
    }
}
