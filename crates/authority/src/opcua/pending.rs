//! StartRequestTokens that wait for their FinishRequestToken (OPC 10000-12 §9.6.6): bounded in number and time, each for
//! the session that began it and for one use.

use std::collections::BTreeMap;
use std::sync::Arc;

use access_model::UnixTime;
use opcua_types::{NodeId, StatusCode};
use token::{Entropy, SystemEntropy};
use ua_proto::pki::OwnIdentity;

/// RequestIds that one session may have open.
const PER_SESSION: usize = 8;
/// Bytes of a challenge, as many as a server nonce has.
pub(super) const CHALLENGE: usize = 32;

/// StartRequestTokens that wait for their FinishRequestToken.
#[derive(Debug, Default)]
pub(crate) struct Pending(BTreeMap<[u8; 16], Started>);

/// What StartRequestToken settled.
#[derive(Clone, Debug)]
pub(super) struct Started {
    pub(super) session: NodeId,
    pub(super) resource: String,
    /// The PolicyId; empty: whatever the identity says.
    pub(super) policy: String,
    /// What a user certificate has to sign.
    pub(super) challenge: Option<Challenge>,
    pub(super) expires: UnixTime,
}

/// What a user certificate has to sign: the authority's certificate and a value that was never there before.
#[derive(Clone, Debug)]
pub(super) struct Challenge {
    pub(super) own: Arc<OwnIdentity>,
    pub(super) value: [u8; CHALLENGE],
}

impl Challenge {
    pub(super) fn new(own: Arc<OwnIdentity>) -> Self {
        let mut value = [0; CHALLENGE];
        SystemEntropy::new().fill(&mut value);
        Self { own, value }
    }
}

impl Pending {
    pub(crate) fn forget(&mut self, now: UnixTime) {
        self.0.retain(|_, started| started.expires > now);
    }

    pub(super) fn start(&mut self, started: Started, max: usize, now: UnixTime) -> Result<[u8; 16], StatusCode> {
        self.forget(now);
        let own = self.0.values().filter(|other| other.session == started.session).count();
        if self.0.len() >= max || own >= PER_SESSION {
            return Err(StatusCode::BadServerTooBusy);
        }
        let mut id = [0_u8; 16];
        SystemEntropy::new().fill(&mut id);
        self.0.insert(id, started);
        Ok(id)
    }

    /// An id works once, in time, and only in the session that got it.
    pub(super) fn finish(&mut self, id: [u8; 16], session: &NodeId, now: UnixTime) -> Option<Started> {
        self.forget(now);
        if self.0.get(&id)?.session != *session {
            return None;
        }
        self.0.remove(&id)
    }

    pub(super) fn end_session(&mut self, session: &NodeId) {
        self.0.retain(|_, started| started.session != *session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(session: u32, expires: i64) -> Started {
        Started {
            session: NodeId::new(0, session),
            resource: "urn:m".into(),
            policy: "implicit".into(),
            challenge: None,
            expires: UnixTime::from_seconds(expires),
        }
    }

    #[test]
    fn a_request_id_works_once_in_time_and_in_its_session() {
        let mut pending = Pending::default();
        let now = UnixTime::from_seconds(0);
        let id = pending.start(started(1, 60), 10, now).unwrap();
        assert!(pending.finish(id, &NodeId::new(0, 2), now).is_none(), "another session");
        assert!(pending.finish(id, &NodeId::new(0, 1), now).is_some());
        assert!(pending.finish(id, &NodeId::new(0, 1), now).is_none(), "used");
        let id = pending.start(started(1, 60), 10, now).unwrap();
        assert!(pending.finish(id, &NodeId::new(0, 1), UnixTime::from_seconds(60)).is_none(), "too late");
        let id = pending.start(started(1, 60), 10, now).unwrap();
        pending.end_session(&NodeId::new(0, 1));
        assert!(pending.finish(id, &NodeId::new(0, 1), now).is_none(), "session closed");
    }

    #[test]
    fn request_ids_are_bounded_by_session_and_altogether() {
        let mut pending = Pending::default();
        let now = UnixTime::from_seconds(0);
        for _ in 0..PER_SESSION {
            pending.start(started(1, 60), 10, now).unwrap();
        }
        assert_eq!(pending.start(started(1, 60), 10, now), Err(StatusCode::BadServerTooBusy));
        pending.start(started(2, 60), 10, now).unwrap();
        pending.start(started(3, 60), 10, now).unwrap();
        assert_eq!(pending.start(started(4, 60), 10, now), Err(StatusCode::BadServerTooBusy));
        assert!(pending.start(started(4, 120), 10, UnixTime::from_seconds(61)).is_ok(), "old ones make room");
    }
}
