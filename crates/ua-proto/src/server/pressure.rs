//! What all connections hold together, and who gives way when it is too much.
//!
//! Each connection may hold a share: half of what is free, so that many get little and few get much, and never less than
//! what a peer needs that asks and listens. Who holds its share is not read from. What has begun to come, and answers that
//! turn out large, go beyond that: at the bound for all, those who hold most are closed.
//!
//! Strangers, on whose connection no session is active, share a small part among themselves, and all that is held for
//! them counts for it, also what has begun to come. Beyond the part the oldest of them that hold something are closed: who
//! logs in within the time that others need to fill the part gets through. So it is never for what strangers hold that a
//! peer is closed that has logged in and keeps to its share.

use std::collections::BTreeSet;

use access_model::{Now, Reason};

use super::connection::Connection;
use super::timers::SessionKey;
use super::{ConnId, Output, Server};
use crate::channel::{ServerChannel, Share};

/// What is less is not counted: requests that are answered at once come and go.
const GRAIN: usize = 1_024;
/// What each may hold, whatever others hold.
const LEAST: usize = 16 * 1024;
/// The part of the bound that shares are taken of. The rest is for what was not foreseen.
const SHARED: usize = 3;
/// The part of the bound that strangers have together, and the least that it is, as far as the bound allows.
const STRANGE: usize = 8;
const LEAST_STRANGE: usize = 4 * LEAST;

/// What is held.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    total: usize,
    /// Held beside it for nobody in particular: nobody is closed for that.
    common: usize,
    /// The part of it that is held for strangers.
    strange: usize,
    /// Who holds something, by how much.
    by_size: BTreeSet<(usize, ConnId)>,
    /// Who may hold more or less than it is known to.
    touched: Vec<ConnId>,
    /// Who is not read from because it holds its share, by what it claims of it.
    waiting: BTreeSet<(usize, ConnId)>,
    strangers_waiting: BTreeSet<(usize, ConnId)>,
    share: Share,
    strangers_share: Share,
}

/// What is known of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    bytes: usize,
    touched: bool,
    /// As it was counted.
    stranger: bool,
    /// As it stands in the list of those who wait: of strangers or not, and by how much.
    waiting: Option<(bool, usize)>,
}

/// What strangers may hold together.
fn strangers_part(most: usize) -> usize {
    (most / STRANGE).max(LEAST_STRANGE).min(most)
}

impl Pressure {
    pub(super) fn new(most: usize) -> Self {
        let pressure = Self::default();
        pressure.share_out(most);
        pressure
    }

    /// Has a channel go by what its peer may hold.
    pub(super) fn bind(&self, channel: &mut ServerChannel, stranger: bool) {
        let share = if stranger { &self.strangers_share } else { &self.share };
        channel.hold_to(share.clone(), stranger);
    }

    /// Bytes held for all.
    pub(super) const fn total(&self) -> usize {
        self.total.saturating_add(self.common)
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
        if held.stranger {
            self.strange = self.strange.saturating_sub(held.bytes);
        }
        self.list(conn, held.waiting, None);
    }

    fn line(&mut self, strangers: bool) -> &mut BTreeSet<(usize, ConnId)> {
        if strangers { &mut self.strangers_waiting } else { &mut self.waiting }
    }

    /// Keeps the lists of those who wait.
    fn list(&mut self, conn: ConnId, before: Option<(bool, usize)>, waits: Option<(bool, usize)>) {
        if before != waits {
            before.map(|(stranger, bytes)| self.line(stranger).remove(&(bytes, conn)));
            waits.map(|(stranger, bytes)| self.line(stranger).insert((bytes, conn)));
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
        self.share.set(((most / SHARED).saturating_sub(self.total()) / 2).max(LEAST));
        self.strangers_share.set((strangers_part(most).saturating_sub(self.strange) / 2).max(LEAST));
    }

    fn look(&mut self, conn: ConnId, connection: &mut Connection) {
        let bytes = connection.burden() / GRAIN * GRAIN;
        let channel = &connection.channel;
        let stranger = connection.active == 0;
        let waits = channel.holds_its_share().then(|| (stranger, channel.claim()));
        let before = std::mem::replace(&mut connection.held, Held { bytes, touched: false, stranger, waiting: waits });
        self.weigh(conn, before.bytes, bytes);
        let strange = |bytes, stranger| if stranger { bytes } else { 0 };
        self.strange = self.strange.saturating_sub(strange(before.bytes, before.stranger));
        self.strange = self.strange.saturating_add(strange(bytes, stranger));
        self.list(conn, before.waiting, waits);
    }
}

impl Server {
    /// Bytes that are held for all peers together.
    #[must_use]
    pub fn held(&self) -> usize {
        self.pressure.total()
    }

    /// Bytes that are held for all connections together on which no session is active.
    #[must_use]
    pub fn held_for_strangers(&self) -> usize {
        self.pressure.strange
    }

    /// A guard holds so many bytes for a session: they count for the connection that it is on.
    pub(crate) fn hold_behind(&mut self, key: SessionKey, bytes: usize) {
        let Some(core) = self.sessions.get_mut(key).map(|session| &mut session.core) else { return };
        let now = (bytes, core.conn);
        if core.behind == now {
            return;
        }
        let (before, at) = std::mem::replace(&mut core.behind, now);
        for (conn, less, more) in [(at, before, 0), (now.1, 0, bytes)] {
            if let Some(connection) = self.connections.get_mut(&conn) {
                connection.behind = connection.behind.saturating_sub(less).saturating_add(more);
                self.pressure.touch(conn, &mut connection.held);
            }
        }
    }

    /// A guard holds so many bytes for nobody in particular.
    pub(crate) fn hold_for_all(&mut self, bytes: usize) {
        self.pressure.common = bytes;
    }

    /// Whether the part of the bound is gone that shares are taken of: what can be found out again is better forgotten.
    pub(crate) fn is_tight(&self) -> bool {
        self.pressure.total() >= self.config.limits.max_held / SHARED
    }

    /// Whether the connection of a session is gone.
    pub(crate) fn is_alone(&self, key: SessionKey) -> bool {
        self.sessions.get(key).is_none_or(|session| !self.connections.contains_key(&session.core.conn))
    }

    /// Takes account of what was sent and taken since, and closes who holds too much: strangers while all of them hold more
    /// than their part, and those who hold most while all do. To be called before an input, when what was to be sent was
    /// offered to the peers.
    pub(crate) fn relieve(&mut self, now: Now) {
        self.weigh_touched();
        let most = self.config.limits.max_held;
        while self.pressure.strange > strangers_part(most) {
            let Some((bytes, conn)) = self.stranger_to_go() else { break };
            let strange = self.pressure.strange;
            let why = format!("{bytes} bytes are held for it, of {strange} for all that have not logged in");
            self.too_much(conn, bytes, why, now);
        }
        while self.pressure.total > most {
            let Some((bytes, conn)) =
                self.largest(|held| held.stranger && held.bytes > LEAST).or_else(|| self.largest(|_| true))
            else {
                break;
            };
            let total = self.pressure.total;
            let why = format!("{bytes} bytes are held for it, the most of {total} for all");
            self.too_much(conn, bytes, why, now);
        }
        self.pressure.share_out(most);
        self.resume();
    }

    fn too_much(&mut self, conn: ConnId, bytes: usize, why: String, now: Now) {
        let unsent = self.connections.get_mut(&conn).map_or(0, Connection::backlog);
        let reason = if unsent >= bytes / 2 { Reason::PeerNotReading } else { Reason::TooBusy };
        self.cut_off(conn, reason, why, now);
    }

    /// What a connection holds that may be closed: whoever was not offered its bytes yet may listen.
    fn offered(&self, conn: ConnId) -> Option<Held> {
        let connection = self.connections.get(&conn)?;
        (!connection.send_queued).then_some(connection.held)
    }

    /// Who holds most of those that fit.
    fn largest(&self, fits: impl Fn(&Held) -> bool) -> Option<(usize, ConnId)> {
        let by_size = self.pressure.by_size.iter().rev();
        by_size.copied().find(|(_, conn)| self.offered(*conn).is_some_and(|held| fits(&held)))
    }

    /// The oldest stranger that holds something.
    fn stranger_to_go(&self) -> Option<(usize, ConnId)> {
        let strangers = self.admission.strangers();
        let held = |conn| self.offered(conn).filter(|held| held.stranger && held.bytes > 0);
        let oldest = strangers.filter_map(|conn| held(conn).map(|held| (held.bytes, conn))).next();
        // A client that was called stands in no line before it has said Hello.
        oldest.or_else(|| self.largest(|held| held.stranger))
    }

    /// A connection is a stranger's from now on, or no more.
    pub(super) fn bind_share(&mut self, conn: ConnId, stranger: bool) {
        if let Some(connection) = self.connections.get_mut(&conn) {
            self.pressure.bind(&mut connection.channel, stranger);
            self.pressure.touch(conn, &mut connection.held);
        }
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
        self.resume_line(false);
        self.resume_line(true);
    }

    fn resume_line(&mut self, strangers: bool) {
        while let Some((bytes, conn)) = self.pressure.line(strangers).first().copied() {
            let Some(connection) = self.connections.get_mut(&conn) else {
                self.pressure.line(strangers).remove(&(bytes, conn));
                continue;
            };
            if connection.channel.holds_its_share() {
                return;
            }
            self.pressure.line(strangers).remove(&(bytes, conn));
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
        if !self.pressure.waiting.is_empty() || !self.pressure.strangers_waiting.is_empty() {
            self.weigh_touched();
            self.pressure.share_out(self.config.limits.max_held);
            self.resume();
        }
    }
}
