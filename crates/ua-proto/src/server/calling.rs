//! Clients that this server connects to (reverse connect, OPC 10000-6 §7.1.3), for those that cannot reach it: one
//! connection to each stands idle until the client says Hello on it, and then the next is made.

use std::time::Duration;

use access_model::Now;
use opcua_types::StatusCode;

use super::timers::Timer;
use super::{ConnId, Output, Server};
use crate::wire::{MAX_REVERSE_STRING, ReverseHello};

/// Most clients that are called.
pub const MAX_CALLED: usize = 16;
/// Pause before a client is called again: after its connection was used, and after it did not want to be called; the second
/// doubles up to the third.
const PAUSES: (Duration, Duration, Duration) =
    (Duration::from_millis(20), Duration::from_millis(500), Duration::from_secs(60));
/// How long it may take to connect.
const CONNECT: Duration = Duration::from_secs(15);
/// How long a connection stands idle before it is made anew: a client that is gone without a word is noticed then.
const IDLE: Duration = Duration::from_secs(600);

/// How far a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Called again at this time.
    Resting,
    /// A connection is being made.
    Dialling,
    /// A connection stands.
    Idle(ConnId),
}

/// A client that is called.
#[derive(Debug)]
pub(super) struct Client {
    url: String,
    stage: Stage,
    pause: Duration,
}

/// The clients that are called.
#[derive(Debug, Default)]
pub(crate) struct Calling {
    clients: Vec<Client>,
}

impl Calling {
    /// Whether a connection stands idle.
    pub(crate) fn is_idle(&self, conn: ConnId) -> bool {
        self.idle_at(conn).is_some()
    }

    fn idle_at(&self, conn: ConnId) -> Option<usize> {
        self.clients.iter().position(|client| client.stage == Stage::Idle(conn))
    }
}

impl Server {
    /// From now on these clients are called, and no others; of too many the first.
    pub(super) fn call_clients(&mut self, urls: Vec<String>, now: Now) {
        for client in self.call_nobody() {
            if let Stage::Idle(conn) = client.stage {
                self.turn_away(conn, StatusCode::BadServerHalted, now);
            }
        }
        let rest = |url| Client { url, stage: Stage::Resting, pause: PAUSES.1 };
        self.calling.clients = urls.into_iter().take(MAX_CALLED).map(rest).collect();
        for place in 0..self.calling.clients.len() {
            self.calling_due(place, now);
        }
    }

    /// Who this server says it is; `None` when that cannot be said.
    fn reverse_hello(&self) -> Option<ReverseHello> {
        let server_uri = self.config.application_uri.clone();
        let endpoint_url = self.config.endpoint_urls.first()?.clone();
        let short = server_uri.len() <= MAX_REVERSE_STRING && endpoint_url.len() <= MAX_REVERSE_STRING;
        short.then_some(ReverseHello { server_uri, endpoint_url })
    }

    /// The alarm of a client: it is called, or its connection was not made in time.
    pub(super) fn calling_due(&mut self, place: usize, now: Now) {
        let Some(client) = self.calling.clients.get_mut(place) else { return };
        match client.stage {
            Stage::Resting => {
                client.stage = Stage::Dialling;
                let url = client.url.clone();
                self.timers.set(Timer::Calling(place), now.mono + CONNECT);
                self.outputs.push_back(Output::CallClient { client: place, url });
            }
            Stage::Dialling => self.unwanted(place, now),
            Stage::Idle(_) => {}
        }
    }

    /// A connection to a client was made.
    pub(super) fn called(&mut self, place: usize, conn: ConnId, peer: String, now: Now) {
        let dialling = self.calling.clients.get(place).is_some_and(|client| client.stage == Stage::Dialling);
        let who = self.reverse_hello().filter(|_| dialling);
        let made = who.is_some_and(|who| self.admit_called(conn, peer, &who, IDLE, now));
        if !made {
            self.outputs.push_back(Output::Close { conn, rest: Vec::new() });
            if dialling {
                self.unwanted(place, now);
            }
            return;
        }
        if let Some(client) = self.calling.clients.get_mut(place) {
            client.stage = Stage::Idle(conn);
        }
        self.timers.clear(Timer::Calling(place));
        self.after(conn, now);
    }

    /// A connection to a client could not be made.
    pub(super) fn not_called(&mut self, place: usize, now: Now) {
        if self.calling.clients.get(place).is_some_and(|client| client.stage == Stage::Dialling) {
            self.unwanted(place, now);
        }
    }

    /// The client cannot be reached, or did not want to be called.
    fn unwanted(&mut self, place: usize, now: Now) {
        let Some(client) = self.calling.clients.get_mut(place) else { return };
        let pause = client.pause;
        client.pause = (pause * 2).min(PAUSES.2);
        self.rest(place, pause, now);
    }

    /// Bytes came on a connection: with a Hello the client takes it, and is then a peer like any other.
    pub(super) fn maybe_greeted(&mut self, conn: ConnId, now: Now) {
        let Some(place) = self.calling.idle_at(conn) else { return };
        let greeted = |channel: &crate::channel::ServerChannel| channel.is_greeted() && !channel.is_closed();
        if !self.connections.get(&conn).is_some_and(|connection| greeted(&connection.channel)) {
            return;
        }
        if let Some(client) = self.calling.clients.get_mut(place) {
            client.pause = PAUSES.1;
        }
        self.rest(place, PAUSES.0, now);
        self.unsettle(conn, now);
    }

    /// A connection is over: if it was an idle one, the client is called again later.
    pub(super) fn calling_over(&mut self, conn: ConnId, now: Now) {
        if let Some(place) = self.calling.idle_at(conn) {
            self.unwanted(place, now);
        }
    }

    /// Nobody is called any more.
    pub(super) fn call_nobody(&mut self) -> Vec<Client> {
        for place in 0..self.calling.clients.len() {
            self.timers.clear(Timer::Calling(place));
        }
        std::mem::take(&mut self.calling.clients)
    }

    /// A little earlier or later, so that many servers do not call as one.
    fn rest(&mut self, place: usize, pause: Duration, now: Now) {
        let Some(client) = self.calling.clients.get_mut(place) else { return };
        client.stage = Stage::Resting;
        let mut byte = [0];
        self.entropy.fill(&mut byte);
        let pause = pause.mul_f64(0.75 + f64::from(u8::from_le_bytes(byte)) / 1024.0);
        self.timers.set(Timer::Calling(place), now.mono + pause);
    }
}
