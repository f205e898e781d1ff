//! Who gets in when there are too many: bounds on connections and sessions under a connect storm.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use access_model::{Actor, AuditKind, AuditRecord, Mono, Now, Outcome, Reason};
use opcua_types::StatusCode;

use super::audit::event;
use super::connection::Connection;
use super::occasion::Told;
use super::timers::Timer;
use super::{ConnId, Server};
use crate::channel::ServerChannel;
use crate::wire::{ErrorMessage, ReverseHello};

/// Connections without an activated session, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    half_open: BTreeSet<(Mono, ConnId)>,
    since: BTreeMap<ConnId, Mono>,
    addresses: BTreeMap<ConnId, Address>,
    of_address: BTreeMap<Address, usize>,
}

/// Where a connection comes from, as far as bounds tell addresses apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Address {
    V4([u8; 4]),
    /// Whoever has one address of a /64 has them all.
    V6([u8; 8]),
    /// No internet.
    Other(String),
}

impl Address {
    fn of(peer: &str) -> Self {
        let ip = peer.parse::<SocketAddr>().map(|address| address.ip()).or_else(|_| peer.parse::<IpAddr>());
        match ip.map(|ip| ip.to_canonical()) {
            Ok(IpAddr::V4(address)) => Self::V4(address.octets()),
            Ok(IpAddr::V6(address)) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
            Err(_) => Self::Other(peer.to_owned()),
        }
    }
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

    /// The oldest that has not logged in of those that come from there.
    fn oldest_from(&self, address: &Address) -> Option<ConnId> {
        let mut conns = self.half_open.iter().map(|(_, conn)| *conn);
        conns.find(|conn| self.addresses.get(conn) == Some(address))
    }

    fn count_from(&self, address: &Address) -> usize {
        self.of_address.get(address).copied().unwrap_or(0)
    }

    fn came(&mut self, conn: ConnId, address: Address) {
        *self.of_address.entry(address.clone()).or_default() += 1;
        self.addresses.insert(conn, address);
    }

    /// The connection is over.
    pub(crate) fn gone(&mut self, conn: ConnId) {
        self.leave(conn);
        let Some(address) = self.addresses.remove(&conn) else { return };
        if let Some(count) = self.of_address.get_mut(&address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.of_address.remove(&address);
            }
        }
    }

    /// Those that have not logged in, the oldest first.
    pub(super) fn strangers(&self) -> impl Iterator<Item = ConnId> {
        self.half_open.iter().map(|(_, conn)| *conn)
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
        let address = Address::of(&peer);
        let most = self.config.limits.max_connections_per_address;
        if self.admission.count_from(&address) >= most
            && let Some(oldest) = self.admission.oldest_from(&address)
        {
            self.give_way(oldest, now);
        }
        let crowd = self.admission.count_from(&address) >= most;
        let Some(channel_id) = self.free_channel_id().filter(|_| {
            !shut
                && !crowd
                && self.connections.len() < self.config.limits.max_connections
                && !self.connections.contains_key(&conn)
        }) else {
            return self.shut_out(conn, peer, now);
        };
        let mut channel = ServerChannel::new(channel_id, self.config.channel.clone(), now);
        self.pressure.bind(&mut channel, true);
        self.channels.insert(channel_id, conn);
        self.connections.insert(conn, Connection::new(channel, peer, now.mono));
        self.admission.came(conn, address);
        self.admission.enter(conn, now.mono);
        self.timers.set(Timer::HalfOpen(conn), now.mono + self.config.limits.half_open_time);
        self.after(conn, now);
    }

    /// A connection that this server has made to a client. It makes nobody give way, and is no stranger's until the client
    /// has said Hello.
    pub(super) fn admit_called(
        &mut self,
        conn: ConnId,
        peer: String,
        who: &ReverseHello,
        patience: Duration,
        now: Now,
    ) -> bool {
        let address = Address::of(&peer);
        let limits = &self.config.limits;
        let room = self.connections.len() < limits.max_connections
            && self.admission.count_from(&address) < limits.max_connections_per_address
            && !self.connections.contains_key(&conn);
        let Some(channel_id) = self.free_channel_id().filter(|_| room) else { return false };
        let mut channel = ServerChannel::calling(channel_id, self.config.channel.clone(), who, patience, now);
        self.pressure.bind(&mut channel, true);
        self.channels.insert(channel_id, conn);
        self.connections.insert(conn, Connection::new(channel, peer, now.mono));
        self.admission.came(conn, address);
        true
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
        self.bind_share(conn, false);
        self.timers.clear(Timer::HalfOpen(conn));
    }

    /// The connection has no activated session any more.
    pub(super) fn unsettle(&mut self, conn: ConnId, now: Now) {
        if self.connections.contains_key(&conn) {
            self.admission.enter(conn, now.mono);
            self.bind_share(conn, true);
            self.timers.set(Timer::HalfOpen(conn), now.mono + self.config.limits.half_open_time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart_as_far_as_they_cost_something() {
        for (one, other, same) in [
            ("10.0.0.7:50000", "10.0.0.7:50001", true),
            ("10.0.0.7:50000", "10.0.0.8:50000", false),
            ("[::ffff:10.0.0.7]:1", "10.0.0.7:50000", true),
            ("[2001:db8::1]:1", "[2001:db8::ffff:1]:2", true),
            ("[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false),
            ("attacker", "attacker", true),
            ("attacker", "10.0.0.7", false),
        ] {
            assert_eq!(Address::of(one) == Address::of(other), same, "{one} {other}");
        }
    }
}
