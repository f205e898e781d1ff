//! Clients that bring no token: the shell asks the authority for one on their behalf, and for the next before it ends.
//! What came is presented to the gate as if the client had brought it; asks are bounded, and no session waits for
//! another's.

use std::time::Duration;

use access_model::{AuditKind, AuditRecord, Mono, Now, Outcome, Reason, Refusal, Thumbprint};
use opcua_types::StatusCode;
use pep::{ChannelBinding, GrantRequest};

use super::audit::{detail, event};
use super::identity::TurnedAway;
use super::occasion::Told;
use super::parked::What;
use super::session::Proof;
use super::timers::{SessionKey, Timer};
use super::{AskId, AskSecret, FetchedGrant, Output, Secret, Server};
use crate::server::identity::Presented;

/// Pause before an ask that found nobody, or no room, is made again.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// An ask that is out.
#[derive(Debug)]
pub(crate) struct Asked {
    request: GrantRequest,
    /// The session whose grant is to go on; none when a client is being activated.
    renewing: Option<SessionKey>,
    since: Mono,
}

/// How the grant of a session is made to go on.
#[derive(Clone, Debug)]
pub(crate) struct Renewal {
    secret: Secret,
    request: GrantRequest,
    /// The ask that is out.
    asked: Option<u64>,
}

impl Server {
    /// Asks for a grant of the client that activates its session in the parked request `id`.
    pub(super) fn ask_for(&mut self, id: u64, request: GrantRequest, secret: Option<AskSecret>, now: Now) {
        if self.asking.len() >= self.config.limits.max_asks {
            let text = "too many clients are being asked about at the authority";
            let busy = TurnedAway::new(StatusCode::BadTcpServerTooBusy, Reason::TooBusy, text);
            return self.fail_activation(id, &busy, now);
        }
        self.send_ask(id, Asked { request, renewing: None, since: now.mono }, secret);
    }

    fn send_ask(&mut self, id: u64, asked: Asked, secret: Option<AskSecret>) {
        let request = Box::new(asked.request.clone());
        self.asking.insert(id, asked);
        self.outputs.push_back(Output::AskGrant { id: AskId(id), request, secret });
    }

    /// The shell fetched a token for a client that has none, or could not.
    pub(super) fn fetched(&mut self, id: AskId, result: Result<FetchedGrant, Refusal>, now: Now) {
        let asked = self.asking.remove(&id.0);
        if let Some(asked) = &asked {
            let took = now.mono.since(asked.since);
            self.audit.meters().authority.observe(took);
            if let Some(What::Activate(activation)) = self.parked.get_mut(id.0).map(|parked| &mut parked.what) {
                activation.was_elsewhere(took);
            }
        }
        match asked {
            Some(Asked { request, renewing: None, .. }) => self.first_fetched(id.0, request, result, now),
            Some(Asked { request, renewing: Some(key), .. }) => self.next_fetched(key, id, request, result, now),
            None => {}
        }
    }

    fn first_fetched(&mut self, id: u64, request: GrantRequest, result: Result<FetchedGrant, Refusal>, now: Now) {
        let Some(parked) = self.parked.get_mut(id) else { return };
        let (key, proof) = match &parked.what {
            What::Activate(activation) => match activation.presented() {
                Presented::Anonymous => (parked.session, Proof::Anonymous),
                Presented::UserName { .. } => (parked.session, Proof::Password),
                Presented::Certificate { .. } => (parked.session, Proof::Certificate),
                Presented::Token(_) => return,
            },
            _ => return,
        };
        let presented = result.and_then(|fetched| {
            let grant = self.gate.present(&fetched.token.0, &bound(&request.binding, fetched.own), now)?;
            Ok((grant, fetched.renewal))
        });
        let presented = presented.or_else(|refusal| {
            // Only whom policies grant nothing is observed: an authority that says anything else, or nothing, has not said
            // that this client may sign in here.
            let only_nothing = refusal.reason == Reason::PolicyNoPermit;
            let name = request.identity.name();
            let observed = only_nothing
                .then(|| self.gate.admit_observed(&request.identity, name, &request.binding, now))
                .flatten();
            observed.map(|grant| (grant, None)).ok_or(refusal)
        });
        match presented {
            Ok((grant, renewal)) => {
                self.granted(id, grant, proof, now);
                let login = self.sessions.get(key).and_then(|session| session.core.login.as_ref());
                if login.is_some_and(|login| login.grant == grant) {
                    self.renew_later(key, request, renewal, now);
                }
            }
            // A name that is not known and a wrong password are told apart by nobody.
            Err(refusal) if proof == Proof::Password && refusal.reason == Reason::UserCredentials => {
                let away = TurnedAway { status: StatusCode::BadUserAccessDenied, refusal };
                self.fail_activation(id, &away, now);
            }
            Err(refusal) => self.fail_activation(id, &TurnedAway::by_gate(refusal), now),
        }
    }

    /// The next ask is due when four fifths of the grant's life are over.
    fn renew_later(&mut self, key: SessionKey, request: GrantRequest, secret: Option<Secret>, now: Now) {
        let left = self.life_left(key, now);
        let Some(session) = self.sessions.get_mut(key) else { return };
        session.core.renewal = secret.map(|secret| Renewal { secret, request, asked: None });
        match left.filter(|_| session.core.renewal.is_some()) {
            Some(left) => self.timers.set(Timer::Renewal(key), now.mono + left * 4 / 5),
            None => self.timers.clear(Timer::Renewal(key)),
        }
    }

    /// How long the token of a session still has to live.
    fn life_left(&self, key: SessionKey, now: Now) -> Option<Duration> {
        let login = self.sessions.get(key)?.core.login.as_ref()?;
        Some(self.gate.claims(login.grant)?.expires?.since(now.unix))
    }

    pub(super) fn renewal_due(&mut self, key: SessionKey, now: Now) {
        let full = self.asking.len() >= self.config.limits.max_asks;
        let Some(session) = self.sessions.get_mut(key) else { return };
        let Some(renewal) = session.core.renewal.as_mut().filter(|renewal| renewal.asked.is_none()) else { return };
        if full {
            return self.timers.set(Timer::Renewal(key), now.mono + AGAIN.0);
        }
        let id = self.parked.reserve();
        renewal.asked = Some(id);
        let (request, secret) = (renewal.request.clone(), renewal.secret.clone());
        self.send_ask(id, Asked { request, renewing: Some(key), since: now.mono }, Some(AskSecret::Renewal(secret)));
    }

    fn next_fetched(
        &mut self,
        key: SessionKey,
        id: AskId,
        request: GrantRequest,
        result: Result<FetchedGrant, Refusal>,
        now: Now,
    ) {
        let Some(core) = self.sessions.get_mut(key).map(|session| &mut session.core) else { return };
        // Somebody may have logged in anew meanwhile.
        let current = core.renewal.as_mut().filter(|renewal| renewal.asked == Some(id.0));
        let (Some(renewal), Some(grant)) = (current, core.login.as_ref().map(|login| login.grant)) else { return };
        renewal.asked = None;
        let presented = result.and_then(|fetched| {
            self.gate.represent(grant, &fetched.token.0, &bound(&request.binding, fetched.own), now)?;
            Ok(fetched.renewal)
        });
        let (outcome, text) = match presented {
            Ok(secret) => {
                let facts = self.gate.claims(grant);
                let token = facts.and_then(|facts| facts.id.clone());
                self.refresh_login(key);
                self.renew_later(key, request, secret, now);
                (Outcome::Allowed, format!("on its client's behalf, token {}", token.unwrap_or_default()))
            }
            Err(refusal) => {
                self.not_renewed(key, refusal.reason, now);
                (Outcome::Denied(refusal.reason), refusal.detail)
            }
        };
        if let Some(core) = self.sessions.get(key).map(|session| &session.core) {
            let record = event(now, AuditKind::TokenRefreshed, &core.actor, core.id.to_string(), outcome);
            let epoch = core.login.as_ref().and_then(|login| login.epoch);
            self.audit.tell(AuditRecord { detail: detail(text), epoch, ..record }, || Told::Nothing);
        }
        self.recheck_session(key, now);
    }

    /// An authority that is out of reach is asked again for as long as the grant lives; what it refuses it refuses.
    fn not_renewed(&mut self, key: SessionKey, reason: Reason, now: Now) {
        let lasting = !matches!(reason, Reason::AuthorityLost | Reason::TooBusy | Reason::AuditUnavailable);
        let left = self.life_left(key, now).filter(|left| !left.is_zero() && !lasting);
        match left {
            Some(left) => self.timers.set(Timer::Renewal(key), now.mono + (left / 5).clamp(AGAIN.0, AGAIN.1)),
            None => self.forget_renewal(key),
        }
    }

    /// The grant is another's from now on, or nobody's: its secret is wiped.
    pub(super) fn forget_renewal(&mut self, key: SessionKey) {
        self.timers.clear(Timer::Renewal(key));
        if let Some(session) = self.sessions.get_mut(key) {
            session.core.renewal = None;
        }
    }
}

/// What a fetched token is held against: the client's certificate, or where its channel proves none, the one of our own
/// that it was fetched with. Such a token is of no use to anybody else: it does not leave this server.
fn bound(binding: &ChannelBinding, own: Option<Thumbprint>) -> ChannelBinding {
    ChannelBinding { certificate: binding.certificate.or(own), ..binding.clone() }
}
