//! Sessions and the table that holds them.

use std::sync::Arc;
use std::time::Duration;

use access_model::{Actor, Epoch, Mono};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use opcua_types::{ByteString, Guid, MessageSecurityMode, NodeId};
use pep::GrantId;
use slab::Slab;

use super::ConnId;
use super::asking::Renewal;
use super::audit::Tallies;
use super::browse_points::BrowsePoints;
use super::history_points::HistoryPoints;
use super::timers::SessionKey;
use crate::crypto::{EphemeralKey, SecurityPolicyId};
use crate::pki::Certificate;
use crate::subscription::Subscriptions;

/// Length of a server nonce.
pub(crate) const NONCE: usize = 32;
/// Length of the secret part of an authentication token.
const SECRET: usize = 32;

/// How the channel is protected that a session was made on. A move to another channel keeps all of it.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) policy: SecurityPolicyId,
    pub(crate) mode: MessageSecurityMode,
    pub(crate) peer: Option<Arc<Certificate>>,
}

impl Binding {
    /// Whether `other` is protected alike and proves the same certificate.
    pub(crate) fn same(&self, other: &Self) -> bool {
        let peer = |binding: &Self| binding.peer.as_ref().map(|certificate| certificate.thumbprint());
        self.policy == other.policy && self.mode == other.mode && peer(self) == peer(other)
    }
}

/// How an identity was proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    Anonymous,
    Password,
    Certificate,
    Token,
}

/// An activated session's identity and what it may do.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    pub(crate) grant: GrantId,
    pub(crate) proof: Proof,
    /// The user's certificate, when that was the proof.
    pub(crate) certificate: Option<Arc<Certificate>>,
    /// ClientUserId (OPC 10000-5 §6.4.3); none when anonymous.
    pub(crate) user: Option<String>,
    /// Who says so; none of a local grant.
    pub(crate) issuer: Option<String>,
    /// Roles of the well-known set, as node numbers of namespace 0.
    pub(crate) roles: Vec<u32>,
    /// The names of all its roles, as records tell them.
    pub(crate) role_names: String,
    /// The epoch of the decision behind the grant.
    pub(crate) epoch: Option<Epoch>,
}

impl Login {
    /// Whether both are of one user. A name is its issuer's to give: another one may give the same to somebody else.
    pub(crate) fn same_user(&self, other: &Self) -> bool {
        self.user == other.user && (self.user.is_none() || self.issuer == other.issuer)
    }
}

/// All of a session but its subscriptions, so that both can be borrowed at once.
pub(crate) struct SessionCore {
    pub(crate) key: SessionKey,
    pub(crate) id: NodeId,
    pub(crate) name: String,
    pub(crate) conn: ConnId,
    pub(crate) binding: Binding,
    pub(crate) last_seen: Mono,
    /// When its client asked to create it, or to activate it last.
    pub(crate) asked: Mono,
    pub(crate) timeout: Duration,
    pub(crate) nonce: [u8; NONCE],
    /// The newest key for a secret in the identity token, under a policy of elliptic curves.
    pub(crate) ephemeral: Option<Arc<EphemeralKey>>,
    /// None until the first activation.
    pub(crate) login: Option<Login>,
    /// How its grant goes on, when it was fetched for a client without a token.
    pub(crate) renewal: Option<Renewal>,
    /// An activation is under way.
    pub(crate) activating: bool,
    /// Requests that wait for something outside.
    pub(crate) parked: usize,
    /// The largest response its client takes; 0 for any.
    pub(crate) max_response: u32,
    pub(crate) browse_points: BrowsePoints,
    pub(crate) history_points: HistoryPoints,
    pub(crate) tallies: Tallies,
    /// Bytes that a guard holds for it, and the connection for which they count.
    pub(super) behind: (usize, ConnId),
    pub(crate) actor: Actor,
    secret: [u8; SECRET],
}

/// One session.
pub(crate) struct UaSession {
    pub(crate) core: SessionCore,
    pub(crate) subscriptions: Subscriptions,
}

/// What a new session is made from.
pub(crate) struct NewSession {
    pub(crate) name: String,
    pub(crate) conn: ConnId,
    pub(crate) binding: Binding,
    pub(crate) now: Mono,
    pub(crate) timeout: Duration,
    pub(crate) max_response: u32,
    pub(crate) max_browse_points: usize,
    pub(crate) actor: Actor,
    pub(crate) subscriptions: Subscriptions,
}

/// The sessions of a server.
#[derive(Default)]
pub(crate) struct Sessions {
    slab: Slab<UaSession>,
    serial: u64,
}

impl Sessions {
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Adds a session. `random` makes its id, its secret and its first nonce.
    pub(crate) fn add(&mut self, new: NewSession, random: &[u8; 16 + SECRET + NONCE]) -> SessionKey {
        self.serial += 1;
        let entry = self.slab.vacant_entry();
        let key = SessionKey { slot: entry.key(), serial: self.serial };
        let (id, secret, nonce) = split(random);
        let id = NodeId::new(1, Guid::from_bytes(id));
        let mut actor = new.actor;
        actor.session = Some(id.to_string());
        entry.insert(UaSession {
            core: SessionCore {
                key,
                id,
                name: new.name,
                conn: new.conn,
                binding: new.binding,
                last_seen: new.now,
                asked: new.now,
                timeout: new.timeout,
                nonce,
                ephemeral: None,
                login: None,
                renewal: None,
                activating: false,
                parked: 0,
                max_response: new.max_response,
                browse_points: BrowsePoints::new(new.max_browse_points),
                history_points: HistoryPoints::default(),
                tallies: Tallies::default(),
                behind: (0, new.conn),
                actor,
                secret,
            },
            subscriptions: new.subscriptions,
        });
        key
    }

    /// The session that an authentication token opens. The secret is compared in constant time.
    #[inline]
    pub(crate) fn by_token(&mut self, token: &[u8]) -> Option<&mut UaSession> {
        let (slot, secret) = token.split_first_chunk::<4>()?;
        let slot = usize::try_from(u32::from_le_bytes(*slot)).ok()?;
        let session = self.slab.get_mut(slot)?;
        verify_slices_are_equal(&session.core.secret, secret).ok()?;
        Some(session)
    }

    pub(crate) fn get(&self, key: SessionKey) -> Option<&UaSession> {
        self.slab.get(key.slot).filter(|session| session.core.key == key)
    }

    pub(crate) fn get_mut(&mut self, key: SessionKey) -> Option<&mut UaSession> {
        self.slab.get_mut(key.slot).filter(|session| session.core.key == key)
    }

    pub(crate) fn remove(&mut self, key: SessionKey) -> Option<UaSession> {
        self.get(key)?;
        Some(self.slab.remove(key.slot))
    }

    /// In the order of their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &UaSession> {
        self.slab.iter().map(|(_, session)| session)
    }

    /// The session under this grant.
    pub(crate) fn by_grant(&self, grant: GrantId) -> Option<SessionKey> {
        let under = |session: &&UaSession| session.core.login.as_ref().is_some_and(|login| login.grant == grant);
        self.iter().find(under).map(|session| session.core.key)
    }

    /// The oldest session that was never activated and is not about to be.
    pub(crate) fn oldest_idle(&self) -> Option<SessionKey> {
        let idle = |session: &&UaSession| session.core.login.is_none() && !session.core.activating;
        self.iter().filter(idle).min_by_key(|session| session.core.key.serial).map(|session| session.core.key)
    }
}

impl SessionCore {
    /// What the client shows with each request.
    pub(crate) fn token(&self) -> NodeId {
        let slot = u32::try_from(self.key.slot).unwrap_or(u32::MAX);
        let mut bytes = slot.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.secret);
        NodeId::new(0, ByteString::from(bytes))
    }

    /// When the session ends unless it is heard of.
    pub(crate) fn deadline(&self) -> Mono {
        self.last_seen + self.timeout
    }
}

fn split(random: &[u8; 16 + SECRET + NONCE]) -> ([u8; 16], [u8; SECRET], [u8; NONCE]) {
    let mut id = [0; 16];
    let mut secret = [0; SECRET];
    let mut nonce = [0; NONCE];
    let parts = id.iter_mut().chain(secret.iter_mut()).chain(nonce.iter_mut());
    parts.zip(random).for_each(|(to, from)| *to = *from);
    (id, secret, nonce)
}
