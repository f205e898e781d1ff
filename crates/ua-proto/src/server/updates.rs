//! Changes from outside and timers.

use access_model::{Actor, AuditKind, AuditRecord, Mono, Now, Outcome, ScopeMap, UnixTime};
use opcua_types::{DataValue, ServerState, StatusCode};
use pep::{FailState, InvalidGate};

use super::audit::event;
use super::occasion::Ending;
use super::session::UaSession;
use super::timers::{SessionKey, Timer};
use super::{ConnId, Server};
use crate::pki::{Certificate, Purpose, validate};
use crate::space::{NodeRef, Space};

/// ServiceLevel (OPC 10000-4 §6.6.2.4.2): clients are to leave and not to come; some of what is asked for may be refused;
/// everything is as it should be.
const MAINTENANCE: u8 = 0;
const DEGRADED: u8 = 199;
const HEALTHY: u8 = 255;

impl Server {
    pub(super) fn set_value(&mut self, node: NodeRef, value: DataValue, now: Now) {
        if self.space.set_value(node, value, now.unix).is_bad() {
            tracing::warn!(node = node.0, "the application set a value that does not fit its variable");
        }
        self.values_changed(now);
    }

    /// Tells those who watch what changed.
    pub(super) fn values_changed(&mut self, now: Now) {
        let changes = self.space.take_changes();
        if changes.overflow {
            let all: Vec<SessionKey> = self.sessions.iter().map(|session| session.core.key).collect();
            all.into_iter().for_each(|key| self.recheck_session(key, now));
            return;
        }
        for node in changes.nodes {
            let Some(watching) = self.watchers.get(&node) else { continue };
            let value = self.space.value(node, now.unix);
            for key in watching.clone() {
                if let Some(session) = self.sessions.get_mut(key) {
                    session.subscriptions.on_change(node, &value, now);
                    if let Some(at) = session.subscriptions.poll_timeout() {
                        self.timers.at_latest(Timer::Subscriptions(key), at);
                    }
                }
            }
        }
    }

    /// The trust list was swapped: channels with certificates that are not trusted any more end, and their sessions with
    /// them (OPC 10000-12 §7.8.2.5).
    pub(super) fn trust_changed(&mut self, now: Now) {
        let all: Vec<ConnId> = self.connections.keys().copied().collect();
        for conn in all {
            let Some(connection) = self.connections.get_mut(&conn) else { continue };
            connection.channel.recheck_trust(now);
            if connection.channel.is_closed() {
                let ended: Vec<SessionKey> =
                    self.sessions.iter().filter(|s| s.core.conn == conn).map(|s| s.core.key).collect();
                for key in ended {
                    self.end_session(
                        key,
                        StatusCode::BadSessionClosed,
                        "its client's certificate is not trusted any more",
                        now,
                    );
                }
            }
            self.pump(conn, now);
        }
        self.recheck_users(now);
    }

    /// Users who logged in with a certificate that is not trusted any more lose their sessions.
    fn recheck_users(&mut self, now: Now) {
        let trust = self.config.identities.certificate.as_ref().map(|trust| trust.load_full());
        let distrusted = |certificate: &Certificate| {
            trust.as_ref().is_none_or(|trust| validate(certificate, trust, Purpose::User, now.unix).is_err())
        };
        let certificate = |s: &&UaSession| s.core.login.as_ref().and_then(|login| login.certificate.clone());
        let ended: Vec<SessionKey> = self
            .sessions
            .iter()
            .filter(|session| certificate(session).is_some_and(|certificate| distrusted(&certificate)))
            .map(|session| session.core.key)
            .collect();
        for key in ended {
            self.end_session(key, StatusCode::BadSessionClosed, "its user's certificate is not trusted any more", now);
        }
    }

    /// Lays another set of scopes over the address space, all at once: `arrange` sets the scope of each node and gives the
    /// ranges for writes ([`super::ServerConfig::write_ranges`]). When the map is another too, every grant ends until its
    /// client brings a token that indexes it. Gives whether it is.
    ///
    /// # Errors
    /// As [`pep::Gate::set_map`]; then nothing changes.
    pub fn lay_out(
        &mut self,
        map: ScopeMap,
        arrange: impl FnOnce(&mut Space) -> Vec<(NodeRef, f64, f64)>,
        now: Now,
    ) -> Result<bool, InvalidGate> {
        self.tend_gate(now);
        let sessions: Vec<SessionKey> = self.sessions.iter().map(|session| session.core.key).collect();
        // What was counted until now was counted in the old scopes.
        sessions.iter().for_each(|key| self.account(*key, now));
        let digest = token::map_digest(&map);
        let another = self.gate.set_map(map, now)?;
        self.config.write_ranges = arrange(&mut self.space);
        self.audit.find_scope(&self.gate.config().map);
        let record = AuditRecord {
            detail: format!("scope map {digest:?}, bounds for values in {} scopes", self.interlocks.len()),
            ..event(now, AuditKind::PolicyChanged, &Actor::default(), "scopes".to_owned(), Outcome::Allowed)
        };
        self.audit.record(record);
        self.gate_events(now);
        sessions.into_iter().for_each(|key| self.recheck_session(key, now));
        self.tell_occasions(now);
        self.arm_audit();
        Ok(another)
    }

    /// Clients that look at ServerStatus see the end come and can leave (OPC 10000-5 §12.6); none is called any more.
    pub(super) fn drain(&mut self, seconds: u32, now: Now) {
        self.call_clients(Vec::new(), now);
        let Some(facts) = self.space.server_facts_mut() else { return };
        (facts.state, facts.service_level) = (ServerState::Shutdown, MAINTENANCE);
        facts.shutdown = Some((seconds, "the server ends for maintenance".to_owned()));
        self.draining = Some(now.unix);
    }

    /// How well it serves: worse while it has lost its authority or its ledger, whatever that leaves.
    pub(super) fn set_level(&mut self, now: Now) {
        let states = [self.gate.fail_state(now), self.gate.ledger_state(now)];
        let whole = states == [FailState::InStep; 2];
        if let Some(facts) = self.space.server_facts_mut().filter(|facts| facts.service_level != MAINTENANCE) {
            facts.service_level = if whole { HEALTHY } else { DEGRADED };
        }
    }

    /// Whether it is about to end: when that was said last.
    #[must_use]
    pub const fn draining(&self) -> Option<UnixTime> {
        self.draining
    }

    /// Whoever is here goes, and finds the server that serves from now on.
    pub(super) fn turn_out(&mut self, now: Now) {
        let sessions: Vec<SessionKey> = self.sessions.iter().map(|session| session.core.key).collect();
        for key in sessions {
            self.end_session(key, StatusCode::BadShutdown, "the server ends", now);
        }
        let connections: Vec<ConnId> = self.connections.keys().copied().collect();
        for conn in connections {
            self.turn_away(conn, StatusCode::BadServerHalted, now);
        }
    }

    pub(super) fn shutdown(&mut self, now: Now) {
        drop(self.call_nobody());
        self.turn_out(now);
        for denied in self.audit.end_window() {
            self.summarize(denied, now);
        }
    }

    pub(super) fn timed_out(&mut self, timer: Timer, now: Now) {
        match timer {
            Timer::Channel(conn) => {
                if let Some(connection) = self.connections.get_mut(&conn) {
                    connection.armed = Mono::NEVER;
                    connection.channel.handle_timeout(now);
                    self.pump(conn, now);
                }
            }
            Timer::Deaf(conn) => self.deaf(conn, now),
            Timer::HalfOpen(conn) => self.turn_away(conn, StatusCode::BadTimeout, now),
            Timer::Session(key) => self.session_timed_out(key, now),
            Timer::Subscriptions(key) => self.subscriptions_due(key, now),
            Timer::Renewal(key) => self.renewal_due(key, now),
            Timer::Parked(id) => self.parked_too_long(id, now),
            Timer::Registrations => self.registrations_due(now),
            Timer::Calling(client) => self.calling_due(client, now),
            Timer::Audit => {
                self.audit_armed = None;
                for key in self.audit.end_window() {
                    self.summarize(key, now);
                }
                for key in self.audit.observed_due(now) {
                    self.tell_observed(key, false, now);
                }
            }
        }
    }

    fn session_timed_out(&mut self, key: SessionKey, now: Now) {
        let Some(session) = self.sessions.get(key) else { return };
        let deadline = session.core.deadline();
        if deadline > now.mono {
            self.timers.set(Timer::Session(key), deadline);
            return;
        }
        let conn = session.core.conn;
        let why = "nothing was heard of its client for too long";
        self.end_session_as(Ending::TimedOut, key, StatusCode::BadSessionClosed, why, now);
        self.after(conn, now);
    }

    /// Keeps the timer of the audit's window.
    #[inline]
    pub(super) fn arm_audit(&mut self) {
        let deadline = self.audit.deadline();
        if deadline != self.audit_armed {
            self.audit_armed = deadline;
            if let Some(at) = deadline {
                self.timers.set(Timer::Audit, at);
            }
        }
    }
}
