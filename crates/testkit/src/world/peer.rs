//! The clients' ends of the connections.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use access_model::{Mono, Now};
use opcua_types::StatusCode;
use token::Entropy;
use ua_proto::channel::{ChannelEvent, ClientChannel, ClientChannelConfig, EncodeError, SendError};
use ua_proto::client::{ClientEvent, ClientSession};

/// A client.
pub enum Peer {
    /// Our client machine.
    Session(Box<SessionPeer>),
    /// A channel without any sense of what it sends.
    Raw(Box<RawPeer>),
}

/// Our client machine, and what it reported.
pub struct SessionPeer {
    /// The machine.
    pub session: ClientSession,
    /// What it reported, jobs aside.
    pub events: VecDeque<ClientEvent>,
    /// Set when the session has told that its connection is over.
    pub down: Option<StatusCode>,
}

/// A channel that sends whatever body it is given.
pub struct RawPeer {
    /// The channel.
    pub channel: ClientChannel,
    /// Bodies of answers, by request.
    pub answers: BTreeMap<u32, Vec<u8>>,
    /// Why it is over.
    pub closed: Option<StatusCode>,
}

impl SessionPeer {
    /// A client with this machine.
    #[must_use]
    pub const fn new(session: ClientSession) -> Self {
        Self { session, events: VecDeque::new(), down: None }
    }
}

impl RawPeer {
    /// A client without any protection.
    ///
    /// # Panics
    /// Never: nothing can be wrong with such a channel.
    #[must_use]
    pub fn unprotected(url: &str, now: Now) -> Self {
        let config = Arc::new(ClientChannelConfig::unprotected(url));
        let channel = ClientChannel::new(config, now).expect("there is no certificate to be refused");
        Self { channel, answers: BTreeMap::new(), closed: None }
    }

    /// Sends a body.
    ///
    /// # Errors
    /// The channel does not take it.
    pub fn send(&mut self, body: &[u8], now: Now) -> Result<u32, SendError> {
        let mut encode = |out: &mut Vec<u8>| {
            out.extend_from_slice(body);
            Ok::<(), EncodeError>(())
        };
        self.channel.send(&mut encode, now)
    }
}

impl Peer {
    pub(super) fn receive(&mut self, bytes: &[u8], now: Now, entropy: &mut dyn Entropy) {
        match self {
            Self::Session(peer) => peer.session.receive(bytes, now, entropy),
            Self::Raw(peer) => peer.channel.receive(bytes, now, entropy),
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Now, entropy: &mut dyn Entropy) {
        match self {
            Self::Session(peer) => peer.session.handle_timeout(now, entropy),
            Self::Raw(peer) => peer.channel.handle_timeout(now, entropy),
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        match self {
            Self::Session(peer) => peer.session.poll_timeout(),
            Self::Raw(peer) => peer.channel.poll_timeout(),
        }
    }

    pub(super) fn take_outgoing(&mut self) -> Vec<u8> {
        match self {
            Self::Session(peer) => peer.session.outgoing().map(std::mem::take).unwrap_or_default(),
            Self::Raw(peer) => std::mem::take(peer.channel.outgoing()),
        }
    }

    /// The connection was cut.
    pub(super) fn lost(&mut self) {
        match self {
            Self::Session(peer) => {
                peer.session.connection_lost();
                peer.down.get_or_insert(StatusCode::BadConnectionClosed);
            }
            Self::Raw(peer) => {
                peer.closed.get_or_insert(StatusCode::BadConnectionClosed);
            }
        }
    }

    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Session(_) => false,
            Self::Raw(peer) => peer.closed.is_some(),
        }
    }

    /// Runs jobs and keeps what is reported; gives whether anything happened.
    pub(super) fn work(&mut self, now: Now, entropy: &mut dyn Entropy) -> bool {
        match self {
            Self::Session(peer) => peer.work(now, entropy),
            Self::Raw(peer) => peer.work(now, entropy),
        }
    }
}

impl SessionPeer {
    fn work(&mut self, now: Now, entropy: &mut dyn Entropy) -> bool {
        let mut moved = false;
        while let Some(event) = self.session.poll_event() {
            moved = true;
            match event {
                ClientEvent::Job(job) => {
                    let (id, outcome) = job.run();
                    self.session.job_done(id, outcome, now, entropy);
                }
                ClientEvent::Disconnected(status) => {
                    self.down = Some(status);
                    self.events.push_back(ClientEvent::Disconnected(status));
                }
                event => self.events.push_back(event),
            }
        }
        moved
    }
}

impl RawPeer {
    fn work(&mut self, now: Now, entropy: &mut dyn Entropy) -> bool {
        let mut moved = false;
        while let Some(event) = self.channel.poll_event() {
            moved = true;
            match event {
                ChannelEvent::Job(job) => {
                    let (id, outcome) = job.run();
                    self.channel.job_done(id, outcome, now, entropy);
                }
                ChannelEvent::Message { request_id, body } => {
                    self.answers.insert(request_id, body);
                }
                ChannelEvent::Closed { status } => {
                    self.closed.get_or_insert(status);
                }
                _ => {}
            }
        }
        moved
    }
}
