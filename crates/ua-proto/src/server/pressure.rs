//! What all connections hold together, and who gives way when it is too much.
//!
//! Each connection may hold a share: half of what is free, so that many get little and few get much, and never less than
//! what a peer needs that asks and listens. Who holds its share is not read from. What has begun to come, and answers that
//! turn out large, go beyond that: at the bound for all, those who hold most are closed.

use std::collections::BTreeSet;

use access_model::{Now, Reason};

use super::connection::Connection;
use super::{ConnId, Output, Server};
use crate::channel::Share;

/// What is less is not counted: requests that are answered at once come and go.
const GRAIN: usize = 1_024;
/// What each may hold, whatever others hold.
const LEAST: usize = 16 * 1024;
/// The part of the bound that shares are taken of. The rest is for what was not foreseen.
const SHARED: usize = 3;

/// What is held.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    total: usize,
    /// Who holds something, by how much.
    by_size: BTreeSet<(usize, ConnId)>,
    /// Who may hold more or less than it is known to.
    touched: Vec<ConnId>,
    /// Who is not read from because it holds its share, by what it claims of it.
    waiting: BTreeSet<(usize, ConnId)>,
    share: Share,
}

/// What is known of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    bytes: usize,
    touched: bool,
    /// As it stands in the list of those who wait.
    waiting: Option<usize>,
}

impl Pressure {
    pub(super) fn new(most: usize) -> Self {
        let pressure = Self::default();
        pressure.share_out(most);
        pressure
    }

    /// What each may hold, for its channel.
    pub(super) fn share(&self) -> Share {
        self.share.clone()
    }

    /// Bytes held for all.
    pub(super) const fn total(&self) -> usize {
        self.total
    }

    /// A connection may hold more or less by now.
    #[inline]
    pub(super) fn touch(&mut self, conn: ConnId, held: &mut Held) {
        if !held.touched {
            held.touched = true;
            self.touched.push(conn);
        }
    }

    /// A connection is gone.
    pub(super) fn gone(&mut self, conn: ConnId, held: Held) {
        self.weigh(conn, held.bytes, 0);
        if let Some(bytes) = held.waiting {
            self.waiting.remove(&(bytes, conn));
        }
    }

    fn weigh(&mut self, conn: ConnId, before: usize, bytes: usize) {
        if before == bytes {
            return;
        }
        self.by_size.remove(&(before, conn));
        if bytes > 0 {
            self.by_size.insert((bytes, conn));
        }
        self.total = self.total.saturating_sub(before).saturating_add(bytes);
    }

    fn share_out(&self, most: usize) {
        self.share.set(((most / SHARED).saturating_sub(self.total) / 2).max(LEAST));
    }

    fn look(&mut self, conn: ConnId, connection: &mut Connection) {
        let bytes = connection.burden() / GRAIN * GRAIN;
        let channel = &connection.channel;
        let waits = channel.holds_its_share().then(|| channel.claim());
        let held = &mut connection.held;
        held.touched = false;
        self.weigh(conn, std::mem::replace(&mut held.bytes, bytes), bytes);
        let before = std::mem::replace(&mut held.waiting, waits);
        if before != waits {
            before.map(|bytes| self.waiting.remove(&(bytes, conn)));
            waits.map(|bytes| self.waiting.insert((bytes, conn)));
        }
    }
}

impl Server {
    /// Bytes that are held for all peers together.
    #[must_use]
    pub fn held(&self) -> usize {
        self.pressure.total()
    }

    /// Takes account of what was sent and taken since, and closes who holds most while all hold too much. To be called
    /// before an input, when what was to be sent was offered to the peers.
    pub(crate) fn relieve(&mut self, now: Now) {
        self.weigh_touched();
        while self.pressure.total > self.config.limits.max_held {
            // Whoever was not offered its bytes yet may listen.
            let offered = |conn: &ConnId| self.connections.get(conn).is_some_and(|connection| !connection.send_queued);
            let most = self.pressure.by_size.iter().rev().find(|(_, conn)| offered(conn)).copied();
            let Some((bytes, conn)) = most else { break };
            let total = self.pressure.total;
            let unsent = self.connections.get_mut(&conn).map_or(0, Connection::backlog);
            let reason = if unsent >= bytes / 2 { Reason::PeerNotReading } else { Reason::TooBusy };
            let why = format!("{bytes} bytes are held for it, the most of {total} for all");
            self.cut_off(conn, reason, why, now);
        }
        self.pressure.share_out(self.config.limits.max_held);
        self.resume();
    }

    fn weigh_touched(&mut self) {
        while let Some(conn) = self.pressure.touched.pop() {
            if let Some(connection) = self.connections.get_mut(&conn) {
                self.pressure.look(conn, connection);
            }
        }
    }

    /// Who was not read from and may hold more by now is read from again, the ones with the least first.
    fn resume(&mut self) {
        while let Some((bytes, conn)) = self.pressure.waiting.first().copied() {
            let Some(connection) = self.connections.get_mut(&conn) else {
                self.pressure.waiting.remove(&(bytes, conn));
                continue;
            };
            if connection.channel.holds_its_share() {
                return;
            }
            self.pressure.waiting.remove(&(bytes, conn));
            connection.held.waiting = None;
            // The shell looks at it and finds that it may be read from, and that it holds input.
            if !connection.send_queued {
                connection.send_queued = true;
                self.outputs.push_back(Output::Send { conn });
            }
        }
    }

    /// After an input: what was held back may go on when others need less.
    pub(crate) fn ease(&mut self) {
        if !self.pressure.waiting.is_empty() {
            self.weigh_touched();
            self.pressure.share_out(self.config.limits.max_held);
            self.resume();
        }
    }
}
