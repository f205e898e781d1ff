//! ActivateSession: the first, those with another credential, and those on another connection.

use std::sync::Arc;

use access_model::{Mono, Now};
use opcua_types::{ActivateSessionRequest, ActivateSessionResponse, StatusCode};

use super::{Activated, Attempt, ClientEvent, ClientSession, OWN_JOBS, Stage, session_is_gone, status_of};
use crate::client::credential::{Credential, Proof};
use crate::client::link::Purpose;
use crate::client::message::Request;
use crate::crypto::CryptoFailure;
use crate::{Entropy, Job, JobId, JobOutcome};

impl ClientSession {
    /// Activates the session with another credential, on the live channel: requests go on meanwhile. While an activation
    /// is under way the newest credential waits for its turn.
    pub fn reactivate(&mut self, credential: Credential, now: Now) {
        match self.stage {
            Stage::Active | Stage::Waiting if self.attempt.is_none() => {
                let kind = match (self.stage, self.session.as_ref().is_some_and(|session| session.used)) {
                    (Stage::Active, _) => Activated::Renewed,
                    (_, true) => Activated::Moved,
                    (_, false) => Activated::Fresh,
                };
                if self.stage == Stage::Waiting {
                    self.stage = Stage::Activating(kind);
                }
                self.begin_activation(kind, credential, now);
            }
            Stage::Active | Stage::Activating(_) => self.next_credential = Some(credential),
            // Not activated on this connection yet: the next activation uses it.
            _ => self.credential = credential,
        }
    }

    /// Has the proof of `credential` made; [`Self::proof_made`] goes on.
    pub(super) fn begin_activation(&mut self, kind: Activated, credential: Credential, now: Now) {
        let Some(session) = &self.session else { return };
        let security = self.security();
        let own = security.and_then(|security| security.own.clone());
        let server = security.and_then(|security| security.peer.clone()).or_else(|| self.config.server_certificate());
        let proof = Proof {
            credential: credential.clone(),
            choice: Arc::clone(&self.config.choice),
            own,
            server,
            nonce: session.nonce.clone(),
            server_key: session.server_key.clone(),
            seed: self.seed.take(),
            at: now.unix,
        };
        self.jobs = self.jobs.wrapping_add(1);
        let job = JobId::of_channel(OWN_JOBS, self.jobs);
        let deadline = now.mono + self.config.request_timeout;
        self.attempt = Some(Attempt { job, kind, credential, deadline });
        self.events.push_back(ClientEvent::Job(Job::new(job, move || proof.make())));
    }

    pub(super) fn proof_made(&mut self, outcome: JobOutcome, now: Now) {
        let made = outcome.downcast::<Result<ActivateSessionRequest, CryptoFailure>>();
        let Ok(Ok(request)) = made.map(|made| *made) else {
            self.activation_refused(StatusCode::BadSecurityChecksFailed, now);
            return;
        };
        if let Some(attempt) = &mut self.attempt {
            // The request has its own time.
            attempt.deadline = Mono::NEVER;
        }
        let request = Request::ActivateSession(request);
        if let Err(error) = self.send(request, Purpose::Activate, self.config.request_timeout, now) {
            self.fail(status_of(error));
        }
    }

    pub(super) fn activated(&mut self, response: ActivateSessionResponse, now: Now) {
        let server_key = match self.server_key(&response.response_header.additional_header) {
            Ok(key) => key,
            Err(status) => return self.fail(status),
        };
        let Some(attempt) = self.attempt.take() else { return };
        if let Some(session) = &mut self.session {
            session.nonce = response.server_nonce.value.unwrap_or_default();
            (session.server_key, session.used) = (server_key, true);
        }
        self.credential = attempt.credential;
        if self.stage != Stage::Closing {
            self.stage = Stage::Active;
        }
        self.events.push_back(ClientEvent::Activated(attempt.kind));
        self.try_next(now);
    }

    pub(super) fn activation_failed(&mut self, status: StatusCode, now: Now, entropy: &mut dyn Entropy) {
        let moving = self.attempt.as_ref().is_some_and(|attempt| attempt.kind == Activated::Moved);
        if moving || session_is_gone(status) {
            // The server does not know the session any more, or does not let it move: a new one takes its place, with the
            // credential that was just tried, which may be newer than that of the last success.
            if let Some(attempt) = self.attempt.take() {
                self.credential = attempt.credential;
            }
            if self.last_words {
                return self.close_channel(now);
            }
            self.create(now, entropy);
        } else {
            self.activation_refused(status, now);
        }
    }

    fn activation_refused(&mut self, status: StatusCode, now: Now) {
        self.attempt = None;
        if let Stage::Activating(_) = self.stage {
            self.stage = Stage::Waiting;
        }
        self.events.push_back(ClientEvent::Refused(status));
        self.try_next(now);
    }

    fn try_next(&mut self, now: Now) {
        if let Some(credential) = self.next_credential.take() {
            self.reactivate(credential, now);
        }
    }
}
