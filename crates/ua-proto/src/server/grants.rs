//! When grants end or change: running items fall silent or speak again at once, sessions end after the grace.

use access_model::{Actor, AuditKind, AuditRecord, Mode, Now, Outcome, Place, Reason};
use opcua_types::StatusCode;
use pep::{Change, FailState, GateEvent, GrantId, LedgerTrouble};

use super::audit::{detail, event};
use super::config::AuditFailMode;
use super::observed::Telling;
use super::occasion::Told;
use super::timers::SessionKey;
use super::{Output, Server, front};

impl Server {
    /// Lets the gate end what is over, before anything else is looked at.
    #[inline]
    pub(super) fn tend_gate(&mut self, now: Now) {
        if self.gate.is_due(now) {
            self.gate.handle_timeout(now);
        }
    }

    /// Carries out what the gate reports.
    #[inline]
    pub(super) fn gate_events(&mut self, now: Now) {
        while let Some(event) = self.gate.poll_event() {
            self.gate_event(event, now);
        }
    }

    fn gate_event(&mut self, event: GateEvent, now: Now) {
        match event {
            GateEvent::Expired(grant) => self.silenced(grant, AuditKind::GrantExpired, Reason::GrantExpired, now),
            GateEvent::Revoked(grant) => self.silenced(grant, AuditKind::GrantRevoked, Reason::GrantRevoked, now),
            GateEvent::Changed(grant, change) => self.changed(grant, change, now),
            GateEvent::Ended(grant) => {
                if let Some(key) = self.sessions.by_grant(grant) {
                    self.end_session(key, StatusCode::BadSessionClosed, "its grant ended and no new token came", now);
                }
            }
            GateEvent::NeedFullList | GateEvent::Question => {}
            GateEvent::FailMode(state) => self.fail_mode("authority", state, Reason::AuthorityLost, now),
            GateEvent::Ledger(state) => self.fail_mode("ledger", state, Reason::AuditUnavailable, now),
            GateEvent::Lease(true) => self.fail_mode("lease", FailState::InStep, Reason::StandingBy, now),
            GateEvent::Lease(false) => self.fail_mode("lease", FailState::Closed, Reason::StandingBy, now),
            GateEvent::Mode(mode) => self.mode_switched(mode, now),
        }
        self.outputs.push_back(Output::Gate(event));
    }

    fn silenced(&mut self, grant: GrantId, kind: AuditKind, reason: Reason, now: Now) {
        let Some(key) = self.sessions.by_grant(grant) else { return };
        self.parked.grant_over(key);
        if let Some(session) = self.sessions.get_mut(key) {
            session.subscriptions.silence();
        }
        self.hand(front::Handed::Over { key });
        self.account(key, now);
        self.record_grant(key, kind, Outcome::Denied(reason), "", now);
        self.pump_subscriptions(key, now);
    }

    fn changed(&mut self, grant: GrantId, change: Change, now: Now) {
        let Some(key) = self.sessions.by_grant(grant) else { return };
        self.refresh_login(key);
        let (kind, text) = match change {
            Change::Narrowed => (AuditKind::GrantNarrowed, ""),
            Change::Widened => (AuditKind::GrantWidened, ""),
            Change::Both => (AuditKind::GrantNarrowed, "and other rights were gained"),
            Change::Renewed => (AuditKind::GrantWidened, "its end was moved or it lives again"),
        };
        self.record_grant(key, kind, Outcome::Allowed, text, now);
        self.recheck_session(key, now);
    }

    /// Looks up again what a login remembers of its grant.
    pub(super) fn refresh_login(&mut self, key: SessionKey) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        if let Some(login) = &mut session.core.login
            && let Some(facts) = self.gate.claims(login.grant)
        {
            login.epoch = facts.epoch;
            login.role_names = Place::roles_of(&facts.roles);
        }
    }

    fn record_grant(&mut self, key: SessionKey, kind: AuditKind, outcome: Outcome, text: &str, now: Now) {
        let Some(core) = self.sessions.get(key).map(|session| &session.core) else { return };
        let facts = core.login.as_ref().and_then(|login| self.gate.claims(login.grant));
        let object = facts.and_then(|facts| facts.id.clone()).unwrap_or_default();
        let record = AuditRecord {
            detail: text.to_owned(),
            epoch: facts.and_then(|facts| facts.epoch),
            ..event(now, kind, &core.actor, object, outcome)
        };
        self.audit.record(record);
    }

    /// The ledger takes no records, or takes them again. Where gaps are accepted, no room for them is not more of a trouble.
    pub(super) fn ledger(&mut self, trouble: Option<LedgerTrouble>, now: Now) {
        let open = self.config.audit.unavailable == AuditFailMode::Open;
        let trouble = trouble.map(|trouble| if open { LedgerTrouble::Failing } else { trouble });
        self.gate.on_ledger(trouble, now);
    }

    fn fail_mode(&mut self, of: &str, state: FailState, reason: Reason, now: Now) {
        let outcome = match state {
            FailState::InStep => Outcome::Allowed,
            FailState::LastKnown | FailState::ReadOnly | FailState::Closed => Outcome::Denied(reason),
        };
        let record = AuditRecord {
            detail: format!("{state:?}"),
            ..event(now, AuditKind::FailMode, &Actor::default(), of.to_owned(), outcome)
        };
        self.audit.record(record);
        self.set_level(now);
        let all: Vec<SessionKey> = self.sessions.iter().map(|session| session.core.key).collect();
        for key in all {
            self.recheck_session(key, now);
        }
    }

    /// Compares what a session monitors with what it may.
    pub(super) fn recheck_session(&mut self, key: SessionKey, now: Now) {
        self.hand(front::Handed::Changed { key });
        self.at_desk(key, now, |desk, subscriptions| {
            if !subscriptions.is_empty() {
                subscriptions.recheck(desk, now);
            }
        });
        self.pump_subscriptions(key, now);
    }

    /// Turns a session's counts into records.
    pub(super) fn summarize(&mut self, key: SessionKey, now: Now) {
        let Self { sessions, audit, gate, .. } = self;
        let Some(core) = sessions.get_mut(key).map(|session| &mut session.core) else { return };
        let epoch = core.login.as_ref().and_then(|login| login.epoch);
        let roles = core.login.as_ref().map_or("", |login| &login.role_names);
        let map = &gate.config().map;
        let at = (gate.config().audience.as_str(), roles);
        audit.summarize(&mut core.tallies, &core.actor, epoch, now, at, |scope| map.name(scope));
    }

    /// The same, and what was observed: at the end of a session, or of what it is counted under.
    pub(super) fn account(&mut self, key: SessionKey, now: Now) {
        self.summarize(key, now);
        self.tell_observed(key, true, now);
    }

    /// Turns what a session was seen doing into records.
    pub(super) fn tell_observed(&mut self, key: SessionKey, over: bool, now: Now) {
        let Self { sessions, audit, gate, steps, .. } = self;
        let Some(core) = sessions.get_mut(key).map(|session| &session.core) else { return };
        let map = &gate.config().map;
        let telling = Telling {
            actor: &core.actor,
            epoch: core.login.as_ref().and_then(|login| login.epoch),
            server: &gate.config().audience,
            steps,
            roles: core.login.as_ref().map_or("", |login| &login.role_names),
            scope: &|scope| map.name(scope).unwrap_or_default().to_owned(),
        };
        audit.tell_observed(key, &telling, over, now);
    }

    /// Everybody's counts, before they mean something else.
    pub(super) fn account_all(&mut self, now: Now) {
        let all: Vec<SessionKey> = self.sessions.iter().map(|session| session.core.key).collect();
        all.into_iter().for_each(|key| self.account(key, now));
    }

    /// The gate enforces from now on, or observes. Who ordered it is in the ledger of the authority.
    fn mode_switched(&mut self, mode: Mode, now: Now) {
        self.account_all(now);
        let record = AuditRecord {
            detail: match mode {
                Mode::Enforce => "denials hold from now on".to_owned(),
                Mode::Observe => "nothing is denied from now on, only recorded".to_owned(),
            },
            ..event(now, AuditKind::ConfigurationChanged, &Actor::default(), "mode".to_owned(), Outcome::Allowed)
        };
        self.audit.record(AuditRecord { object: format!("mode {}", mode.name()), ..record });
        let all: Vec<SessionKey> = self.sessions.iter().map(|session| session.core.key).collect();
        all.into_iter().for_each(|key| self.recheck_session(key, now));
    }

    /// A signed update from the authority.
    pub(super) fn control_update(&mut self, update: &[u8], now: Now) {
        if let Err(refusal) = self.gate.on_update(update, now) {
            let record = AuditRecord {
                detail: detail(refusal.detail),
                ..event(
                    now,
                    AuditKind::Contact,
                    &Actor::default(),
                    "authority".to_owned(),
                    Outcome::Denied(refusal.reason),
                )
            };
            self.count_denial(None, AuditKind::Contact, refusal.reason, now, record, || Told::Nothing);
        }
    }
}
