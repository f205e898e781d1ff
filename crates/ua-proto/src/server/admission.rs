//! Who gets in when there are too many: bounds on connections and sessions under a connect storm.

use std::collections::{BTreeMap, BTreeSet};

use access_model::{Actor, AuditKind, AuditRecord, Mono, Now, Outcome, Reason};
use opcua_types::StatusCode;

use super::audit::event;
use super::connection::Connection;
use super::occasion::Told;
use super::timers::Timer;
use super::{ConnId, Server};
use crate::channel::ServerChannel;
use crate::wire::ErrorMessage;

/// Connections without an activated session, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    half_open: BTreeSet<(Mono, ConnId)>,
    since: BTreeMap<ConnId, Mono>,
}

impl Admission {
    pub(crate) fn enter(&mut self, conn: ConnId, now: Mono) {
        self.leave(conn);
        self.half_open.insert((now, conn));
        self.since.insert(conn, now);
    }

    pub(crate) fn leave(&mut self, conn: ConnId) {
        if let Some(since) = self.since.remove(&conn) {
            self.half_open.remove(&(since, conn));
        }
    }

    fn oldest(&self) -> Option<ConnId> {
        self.half_open.first().map(|(_, conn)| *conn)
    }

    fn len(&self) -> usize {
        self.half_open.len()
    }
}

impl Server {
    /// A peer connected. Under pressure the oldest peer that has not logged in makes room: whoever completes a login
    /// within the time that a storm needs to fill the whole line gets through.
    pub(super) fn accepted(&mut self, conn: ConnId, peer: String, now: Now) {
        let limits = &self.config.limits;
        let full = self.connections.len() >= limits.max_connections || self.admission.len() >= limits.max_half_open;
        let shut = full && limits.danger_turn_newcomers_away;
        if full
            && !shut
            && let Some(oldest) = self.admission.oldest()
        {
            self.give_way(oldest, now);
        }
        let Some(channel_id) = self.free_channel_id().filter(|_| {
            !shut
                && self.connections.len() < self.config.limits.max_connections
                && !self.connections.contains_key(&conn)
        }) else {
            return self.shut_out(conn, peer, now);
        };
        let channel = ServerChannel::new(channel_id, self.config.channel.clone(), now);
        self.channels.insert(channel_id, conn);
        self.connections.insert(conn, Connection::new(channel, peer));
        self.admission.enter(conn, now.mono);
        self.timers.set(Timer::HalfOpen(conn), now.mono + self.config.limits.half_open_time);
        self.after(conn, now);
    }

    /// Channel ids are never 0 and never shared by two living channels.
    fn free_channel_id(&mut self) -> Option<u32> {
        for _ in 0..=self.channels.len() {
            self.last_channel = self.last_channel.checked_add(1).unwrap_or(1);
            if !self.channels.contains_key(&self.last_channel) {
                return Some(self.last_channel);
            }
        }
        None
    }

    /// Ends a connection that has not logged in for one that may.
    fn give_way(&mut self, conn: ConnId, now: Now) {
        if let Some(connection) = self.connections.get_mut(&conn) {
            let detail = "the oldest that had not logged in made room";
            connection.channel.refuse(StatusCode::BadTcpServerTooBusy, Reason::TooBusy, detail);
            self.pump(conn, now);
        }
    }

    /// There is no room for a newcomer.
    fn shut_out(&mut self, conn: ConnId, peer: String, now: Now) {
        let (kind, reason) = (AuditKind::ChannelOpened, Reason::TooBusy);
        let actor = Actor { address: Some(peer), ..Actor::default() };
        let detail = "there was no room for one more connection".to_owned();
        let record = AuditRecord { detail, ..event(now, kind, &actor, String::new(), Outcome::Denied(reason)) };
        self.count_denial(None, kind, reason, now, record, || Told::Nothing);
        let mut rest = Vec::new();
        ErrorMessage::put(StatusCode::BadTcpServerTooBusy, "", &mut rest);
        self.outputs.push_back(super::Output::Close { conn, rest });
    }

    /// Ends a connection with an error.
    pub(super) fn turn_away(&mut self, conn: ConnId, status: StatusCode, now: Now) {
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.channel.fail(status, "");
            self.pump(conn, now);
        }
    }

    /// The connection has an activated session from now on.
    pub(super) fn settle(&mut self, conn: ConnId) {
        self.admission.leave(conn);
        self.timers.clear(Timer::HalfOpen(conn));
    }

    /// The connection has no activated session any more.
    pub(super) fn unsettle(&mut self, conn: ConnId, now: Now) {
        if self.connections.contains_key(&conn) {
            self.admission.enter(conn, now.mono);
            self.timers.set(Timer::HalfOpen(conn), now.mono + self.config.limits.half_open_time);
        }
    }
}
