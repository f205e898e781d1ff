//! One connection: its channel, what waits for it, and how bytes get in and out.

use access_model::{Actor, AuditKind, AuditRecord, Mono, Now, Outcome, Reason};
use opcua_types::{ObjectId, StatusCode};

use super::audit::{Denied, detail, event};
use super::codec::write_header;
use super::occasion::{Opening, Told};
use super::pressure::Held;
use super::timers::{SessionKey, Timer};
use super::{ConnId, Output, Server};
use crate::channel::{ChannelAudit, ChannelEvent, EncodeError, SendError, ServerChannel};
use crate::{JobId, JobOutcome};

/// A connection.
pub(crate) struct Connection {
    pub(crate) channel: ServerChannel,
    pub(crate) peer: String,
    /// Bytes that the shell took and could not send.
    pub(crate) unsent: usize,
    /// When the channel's timer fires at the latest.
    pub(crate) armed: Mono,
    /// An `Output::Send` is on its way.
    pub(crate) send_queued: bool,
    /// Activated sessions on it.
    pub(crate) active: usize,
    /// Sessions created on it that were not activated yet.
    pub(crate) unactivated: usize,
    /// Sessions whose notifications wait until the peer reads.
    pub(crate) stalled: Vec<SessionKey>,
    /// Bytes that a guard holds for its sessions.
    pub(super) behind: usize,
    /// What is known to be held for it.
    pub(super) held: Held,
    listening: Listening,
    /// When it was accepted, and when it said Hello.
    accepted: Mono,
    greeted: Option<Mono>,
}

/// Whether the peer takes what waits for it.
#[derive(Debug)]
struct Listening {
    /// The backlog when it was last looked at.
    seen: usize,
    /// When the peer last took something, or nothing waited for it.
    taken: Mono,
    /// The timer runs.
    watched: bool,
}

impl Connection {
    pub(crate) fn new(channel: ServerChannel, peer: String, now: Mono) -> Self {
        Self {
            channel,
            peer,
            armed: Mono::NEVER,
            unsent: 0,
            send_queued: false,
            active: 0,
            unactivated: 0,
            stalled: Vec::new(),
            behind: 0,
            held: Held::default(),
            listening: Listening { seen: 0, taken: Mono::ZERO, watched: false },
            accepted: now,
            greeted: None,
        }
    }

    /// Looks whether the peer has taken bytes. Nothing may have been added since the last look.
    fn look(&mut self, now: Now) {
        let backlog = self.backlog();
        if backlog == 0 || backlog < self.listening.seen {
            self.listening.taken = now.mono;
        }
        self.listening.seen = backlog;
    }

    pub(crate) fn wants_input(&self, max_unsent: usize) -> bool {
        self.unsent <= max_unsent && self.channel.wants_input()
    }

    /// Bytes that are held for it.
    pub(super) fn burden(&self) -> usize {
        self.unsent.saturating_add(self.behind).saturating_add(self.channel.burden())
    }

    /// Bytes that the peer has not taken.
    pub(crate) fn backlog(&mut self) -> usize {
        self.unsent.saturating_add(self.channel.outgoing().len())
    }
}

impl Server {
    pub(super) fn received(&mut self, conn: ConnId, bytes: &[u8], now: Now) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        connection.look(now);
        connection.channel.receive(bytes, now, &mut *self.entropy);
        if connection.greeted.is_none() && connection.channel.is_greeted() {
            connection.greeted = Some(now.mono);
            // A client that was called has no hurry with its Hello.
            if !self.calling.is_idle(conn) {
                self.audit.meters().hello.observe(now.mono.since(connection.accepted));
            }
        }
        self.maybe_greeted(conn, now);
        self.pump(conn, now);
    }

    pub(super) fn drained(&mut self, conn: ConnId, unsent: usize, now: Now) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        connection.unsent = unsent;
        connection.look(now);
        self.pressure.touch(conn, &mut connection.held);
        let stalled = std::mem::take(&mut connection.stalled);
        // What has come already is worked on also when nothing more is read.
        if unsent <= self.config.limits.max_unsent && connection.channel.holds_input() {
            connection.channel.receive(&[], now, &mut *self.entropy);
        }
        for key in stalled {
            self.subscriptions_due(key, now);
        }
        self.pump(conn, now);
    }

    /// Takes what the channel has to report until it has nothing more.
    pub(super) fn pump(&mut self, conn: ConnId, now: Now) {
        while let Some(event) = self.connections.get_mut(&conn).and_then(|connection| connection.channel.poll_event()) {
            match event {
                ChannelEvent::Message { request_id, body } => {
                    self.message(conn, request_id, &body, now);
                    if let Some(connection) = self.connections.get_mut(&conn) {
                        connection.channel.recycle(body);
                    }
                }
                ChannelEvent::Job(job) => match self.jobs.submit(job) {
                    Ok(job) => self.outputs.extend(job.map(Output::Job)),
                    Err(_) => {
                        if let Some(connection) = self.connections.get_mut(&conn) {
                            let detail = "too many private-key operations wait";
                            connection.channel.refuse(StatusCode::BadTcpServerTooBusy, Reason::TooBusy, detail);
                        }
                    }
                },
                ChannelEvent::Audit(audit) => self.channel_audit(conn, audit, now),
                ChannelEvent::Closed { .. } => return self.over(conn, now),
                ChannelEvent::Opened => {
                    let greeted = self.connections.get(&conn).and_then(|connection| connection.greeted);
                    self.audit.meters().open.observe(now.mono.since(greeted.unwrap_or(now.mono)));
                }
                ChannelEvent::Renewed | ChannelEvent::Aborted { .. } => {}
            }
        }
        self.after(conn, now);
    }

    /// Announces bytes, ends peers that do not read, and keeps the channel's deadline.
    pub(super) fn after(&mut self, conn: ConnId, now: Now) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        self.pressure.touch(conn, &mut connection.held);
        if !connection.channel.outgoing().is_empty() && !connection.send_queued {
            connection.send_queued = true;
            self.outputs.push_back(Output::Send { conn });
        }
        if let Some(at) = connection.channel.poll_timeout().filter(|at| *at < connection.armed) {
            connection.armed = at;
            self.timers.set(Timer::Channel(conn), at);
        }
        let backlog = connection.backlog();
        connection.listening.seen = backlog;
        if backlog > 0 && !connection.listening.watched {
            connection.listening = Listening { seen: backlog, taken: now.mono, watched: true };
            self.timers.set(Timer::Deaf(conn), now.mono + self.config.limits.deaf_time);
        }
        if backlog > self.config.limits.max_backlog {
            let why = format!("{backlog} bytes wait for a peer that does not read");
            self.cut_off(conn, Reason::PeerNotReading, why, now);
        }
    }

    /// The timer of a peer's listening: it is set once and looks again as long as something waits.
    pub(super) fn deaf(&mut self, conn: ConnId, now: Now) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        connection.look(now);
        let Listening { seen, taken, .. } = connection.listening;
        let deadline = taken + self.config.limits.deaf_time;
        if seen == 0 {
            connection.listening.watched = false;
        } else if now.mono < deadline {
            self.timers.set(Timer::Deaf(conn), deadline);
        } else {
            let seconds = now.mono.since(taken).as_secs();
            let why = format!("the peer took nothing of {seen} bytes for {seconds} s");
            self.cut_off(conn, Reason::PeerNotReading, why, now);
        }
    }

    /// Ends the connection of a peer that costs too much, so that it costs no more.
    pub(super) fn cut_off(&mut self, conn: ConnId, reason: Reason, why: String, now: Now) {
        let session = self.sessions.iter().find(|session| session.core.conn == conn);
        let key = session.map(|session| session.core.key);
        let actor = session.map_or_else(|| self.channel_actor(conn), |session| session.core.actor.clone());
        let kind = AuditKind::ChannelClosed;
        let record = AuditRecord { detail: why, ..event(now, kind, &actor, String::new(), Outcome::Denied(reason)) };
        let channel = self.connections.get(&conn).map_or(0, |connection| connection.channel.channel_id());
        self.count_denial(key, kind, reason, now, record, || Told::ChannelClosed { channel, certificate: None });
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.channel.outgoing().clear();
            connection.channel.fail(StatusCode::BadTcpNotEnoughResources, "");
        }
        self.over(conn, now);
    }

    /// The peer is gone without a word.
    pub(super) fn disconnected(&mut self, conn: ConnId, now: Now) {
        let channel = self.connections.get(&conn).map(|connection| &connection.channel);
        if let Some(channel) = channel.filter(|channel| channel.security().is_some()) {
            let closed = Told::ChannelClosed { channel: channel.channel_id(), certificate: None };
            let actor = self.channel_actor(conn);
            let record = AuditRecord {
                detail: "the connection ended without a word".into(),
                ..event(now, AuditKind::ChannelClosed, &actor, String::new(), Outcome::Allowed)
            };
            self.audit.tell(record, || closed);
        }
        self.forget_connection(conn, now);
    }

    /// The channel is over: its last bytes go out, then the connection ends.
    fn over(&mut self, conn: ConnId, now: Now) {
        let rest = self.outgoing(conn).map(std::mem::take).unwrap_or_default();
        if self.forget_connection(conn, now) {
            self.outputs.push_back(Output::Close { conn, rest });
        }
    }

    /// Drops a connection. Its activated sessions stay until they time out, for their client may come back on another
    /// channel; the others end with it.
    fn forget_connection(&mut self, conn: ConnId, now: Now) -> bool {
        let Some(connection) = self.connections.remove(&conn) else { return false };
        self.calling_over(conn, now);
        self.channels.remove(&connection.channel.channel_id());
        self.admission.gone(conn);
        self.pressure.gone(conn, connection.held);
        self.timers.clear(Timer::Channel(conn));
        self.timers.clear(Timer::HalfOpen(conn));
        self.timers.clear(Timer::Deaf(conn));
        let ended: Vec<SessionKey> = self
            .sessions
            .iter()
            .filter(|session| session.core.conn == conn && session.core.login.is_none())
            .map(|session| session.core.key)
            .collect();
        for key in ended {
            self.end_session(
                key,
                StatusCode::BadSecureChannelClosed,
                "the connection ended before it was activated",
                now,
            );
        }
        // Publish requests of this connection must not eat notifications that nobody would get.
        let orphans = self.sessions.iter().filter(|session| session.core.conn == conn).map(|session| session.core.key);
        for key in orphans.collect::<Vec<_>>() {
            if let Some(session) = self.sessions.get_mut(key) {
                session.subscriptions.turn_away_all(StatusCode::BadSecureChannelClosed);
            }
            self.hand(super::front::Handed::Left { key });
            self.pump_subscriptions(key, now);
        }
        true
    }

    pub(super) fn job_done(&mut self, id: JobId, outcome: JobOutcome, now: Now) {
        let (owner, next) = self.jobs.done(id);
        self.outputs.extend(next.map(Output::Job));
        if id.channel() == 0 {
            if let Some(owner) = owner {
                self.work_done(owner, outcome, now);
            }
            return;
        }
        let Some(conn) = self.channels.get(&id.channel()).copied() else { return };
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.channel.job_done(id, outcome, now, &mut *self.entropy);
            self.pump(conn, now);
        }
    }

    /// Answers a request with a fault.
    pub(super) fn fault(&mut self, conn: ConnId, request_id: u32, handle: u32, status: StatusCode, now: Now) {
        let write = &mut |out: &mut Vec<u8>| {
            write_header(out, ObjectId::ServiceFault_Encoding_DefaultBinary, now, handle, status);
            Ok(())
        };
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        if connection.channel.send(request_id, write, now).is_err() {
            connection.channel.forget(request_id);
        }
        self.after(conn, now);
    }

    /// Answers a request; a response that cannot be sent becomes a fault.
    pub(super) fn respond(
        &mut self,
        conn: ConnId,
        request_id: u32,
        handle: u32,
        now: Now,
        write: impl FnOnce(&Self, &mut Vec<u8>) -> Result<(), StatusCode>,
    ) {
        let mut body = Vec::new();
        let written = write(self, &mut body);
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        let sent = match written {
            Ok(()) => connection.channel.send(
                request_id,
                &mut |out| {
                    out.extend_from_slice(&body);
                    Ok(())
                },
                now,
            ),
            Err(status) => Err(SendError::Encode(EncodeError(status))),
        };
        if let Err(error) = sent {
            self.unsendable(conn, request_id, handle, error, now);
        }
        self.after(conn, now);
    }

    /// A response did not go out: the peer hears why, if it can hear.
    pub(super) fn unsendable(&mut self, conn: ConnId, request_id: u32, handle: u32, error: SendError, now: Now) {
        let status = match error {
            SendError::Encode(EncodeError(status)) => status,
            SendError::TooLarge => StatusCode::BadResponseTooLarge,
            SendError::Crypto => StatusCode::BadInternalError,
            SendError::NotOpen | SendError::UnknownRequest => {
                if let Some(connection) = self.connections.get_mut(&conn) {
                    connection.channel.forget(request_id);
                }
                return;
            }
        };
        self.fault(conn, request_id, handle, status, now);
    }

    fn channel_audit(&mut self, conn: ConnId, audit: ChannelAudit, now: Now) {
        let actor = self.channel_actor(conn);
        let told = if self.audit.heard() { self.channel_told(conn, &audit) } else { Told::Nothing };
        let rejected = audit.rejected.map(|certificate| Output::Rejected { certificate });
        self.outputs.extend(rejected);
        let outcome = audit.reason.map_or(Outcome::Allowed, Outcome::Denied);
        let record = AuditRecord {
            detail: detail(format!("{} ({})", audit.detail, audit.status)),
            ..event(now, audit.kind, &actor, String::new(), outcome)
        };
        match audit.reason {
            Some(reason) => self.count_denial(None, audit.kind, reason, now, record, || told),
            None => self.audit.tell(record, || told),
        }
    }

    fn channel_told(&self, conn: ConnId, audit: &ChannelAudit) -> Told {
        let Some(channel) = self.connections.get(&conn).map(|connection| &connection.channel) else {
            return Told::Nothing;
        };
        let peer = channel.security().and_then(|security| security.peer.as_ref());
        let certificate = audit.rejected.clone().or_else(|| peer.map(|peer| peer.der().to_vec()));
        if audit.kind != AuditKind::ChannelOpened {
            return Told::ChannelClosed { channel: channel.channel_id(), certificate };
        }
        let asked = channel.asked();
        Told::Opened(Box::new(Opening {
            channel: channel.channel_id(),
            certificate,
            renewal: asked.is_some_and(|asked| asked.renewal),
            policy: asked.map(|asked| asked.policy.uri().to_owned()).unwrap_or_default(),
            mode: asked.and_then(|asked| asked.mode),
            lifetime_ms: asked.map_or(0, |asked| asked.lifetime_ms),
            status: Some(audit.status),
        }))
    }

    /// Who is at the other end, as far as the channel proves it.
    pub(super) fn channel_actor(&self, conn: ConnId) -> Actor {
        let Some(connection) = self.connections.get(&conn) else { return Actor::default() };
        let peer = connection.channel.security().and_then(|security| security.peer.as_ref());
        Actor {
            name: String::new(),
            application: peer.and_then(|certificate| certificate.application_uri()).map(str::to_owned),
            address: Some(connection.peer.clone()),
            session: None,
        }
    }

    /// Records a refusal that is no node's, or counts it when there are many like it.
    pub(super) fn count_denial(
        &mut self,
        session: Option<SessionKey>,
        kind: AuditKind,
        reason: Reason,
        now: Now,
        record: AuditRecord,
        told: impl FnOnce() -> Told,
    ) {
        let denied = Denied { session, kind, scope: access_model::ScopeIndex::NOWHERE, reason };
        self.audit.denied(&denied, now, || record, told);
    }
}
