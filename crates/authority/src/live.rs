//! The hot state: tokens that live, and what the gates of each server were told about them. Guarded by one lock that is
//! never held across an await.

use std::collections::BTreeMap;

use access_model::{Epoch, GrantSpec, Mode, Principal, UnixTime};
use bytes::Bytes;
use pdp::LiveGrant;
use token::control::{Approved, Replacement, Revocation, Update, seal};
use token::{MintError, RightsClaim, Signer};
use tokio::sync::broadcast;

/// How far a clock may have run ahead, in microseconds: two hours.
const AHEAD: i64 = 7_200_000_000;
/// Updates that a slow subscriber may lag behind before it gets the full list instead.
const BACKLOG: usize = 256;

/// What lives.
pub(crate) struct Live {
    /// The snapshot under which all of `grants` hold.
    pub epoch: Epoch,
    /// By token id.
    pub grants: BTreeMap<String, LiveToken>,
    /// By server.
    channels: BTreeMap<String, Channel>,
    issuer: String,
}

/// A token that has neither expired nor been revoked.
#[derive(Clone, Debug)]
pub(crate) struct LiveToken {
    pub principal: Principal,
    pub break_glass: Option<String>,
    /// What it grants now.
    pub spec: GrantSpec,
    /// Its `exp`.
    pub expires: UnixTime,
}

impl LiveToken {
    /// What is decided again.
    pub(crate) fn asked(&self) -> LiveGrant<'_> {
        LiveGrant { principal: &self.principal, break_glass: self.break_glass.as_deref(), spec: &self.spec }
    }
}

/// What the gates of one server know.
struct Channel {
    epoch: Epoch,
    revoked: BTreeMap<String, UnixTime>,
    replaced: BTreeMap<String, Replacement>,
    approved: BTreeMap<String, Approved>,
    /// Whether its gates hold their denials, where somebody ordered it.
    mode: Option<Mode>,
    sender: broadcast::Sender<Bytes>,
}

/// What one change means for the gates of one server.
#[derive(Default)]
pub(crate) struct Delta {
    pub revoked: Vec<Revocation>,
    pub replaced: Vec<Replacement>,
    pub approved: Vec<Approved>,
    /// Another order about denials.
    pub mode: Option<Mode>,
}

impl Live {
    pub(crate) fn new(issuer: &str, epoch: Epoch) -> Self {
        Self { epoch, grants: BTreeMap::new(), channels: BTreeMap::new(), issuer: issuer.to_owned() }
    }

    fn channel(&mut self, audience: &str) -> &mut Channel {
        let epoch = self.epoch;
        self.channels.entry(audience.to_owned()).or_insert_with(|| Channel {
            epoch,
            revoked: BTreeMap::new(),
            replaced: BTreeMap::new(),
            approved: BTreeMap::new(),
            mode: None,
            sender: broadcast::channel(BACKLOG).0,
        })
    }

    /// Takes over what the journal holds, before anybody subscribes.
    pub(crate) fn restore(&mut self, audience: &str, delta: Delta) {
        self.channel(audience).keep(&delta);
    }

    /// Tells the gates of a server, and remembers for those that are away.
    pub(crate) fn publish(
        &mut self,
        audience: &str,
        epoch: Epoch,
        delta: Delta,
        signer: &Signer,
        now: UnixTime,
    ) -> Result<(), MintError> {
        for gone in &delta.revoked {
            self.grants.remove(&gone.id);
        }
        let issuer = self.issuer.clone();
        let channel = self.channel(audience);
        channel.keep(&delta);
        let previous = channel.epoch;
        // Set even when signing fails: gates then see a gap and ask for the full list.
        channel.epoch = epoch;
        let update = Update {
            issuer,
            audience: audience.to_owned(),
            epoch,
            previous: Some(previous),
            issued_at: now,
            revoked: delta.revoked,
            replaced: delta.replaced,
            approved: delta.approved,
            mode: delta.mode,
        };
        let frame = seal(&update, signer)?;
        // Nobody listening is no error.
        let _ = channel.sender.send(Bytes::from(frame));
        Ok(())
    }

    /// A subscription that starts now, and the full list as it stands now.
    pub(crate) fn subscribe(
        &mut self,
        audience: &str,
        signer: &Signer,
        now: UnixTime,
    ) -> Result<(Bytes, broadcast::Receiver<Bytes>), MintError> {
        let issuer = self.issuer.clone();
        let channel = self.channel(audience);
        let full = channel.full(&issuer, audience, now);
        Ok((Bytes::from(seal(&full, signer)?), channel.sender.subscribe()))
    }

    /// What was ordered about denials at the gates of a server.
    pub(crate) fn mode(&self, audience: &str) -> Option<Mode> {
        self.channels.get(audience)?.mode
    }

    /// The epoch of the last update for the gates of a server.
    pub(crate) fn told(&self, audience: &str) -> Epoch {
        self.channels.get(audience).map_or(self.epoch, |channel| channel.epoch)
    }

    /// "Nothing new since": proves that we live.
    pub(crate) fn heartbeat(&mut self, audience: &str, signer: &Signer, now: UnixTime) -> Result<Bytes, MintError> {
        let issuer = self.issuer.clone();
        let epoch = self.channel(audience).epoch;
        let update = Update {
            issuer,
            audience: audience.to_owned(),
            epoch,
            previous: Some(epoch),
            issued_at: now,
            revoked: Vec::new(),
            replaced: Vec::new(),
            approved: Vec::new(),
            mode: None,
        };
        seal(&update, signer).map(Bytes::from)
    }

    /// Forgets what has ended by itself. Revocations are remembered for longer: a clock that ran ahead and was set back
    /// must not give a revoked token its life back.
    pub(crate) fn forget(&mut self, now: UnixTime) {
        let before = UnixTime::from_micros(now.as_micros().saturating_sub(AHEAD));
        self.grants.retain(|_, token| token.expires > now);
        for channel in self.channels.values_mut() {
            channel.revoked.retain(|_, expires| *expires > before);
            channel.replaced.retain(|_, replacement| replacement.expires > now);
            channel.approved.retain(|_, approved| approved.expires > now);
        }
    }
}

impl Channel {
    fn keep(&mut self, delta: &Delta) {
        self.mode = delta.mode.or(self.mode);
        for gone in &delta.revoked {
            self.replaced.remove(&gone.id);
            self.revoked.insert(gone.id.clone(), gone.expires);
        }
        for changed in &delta.replaced {
            self.replaced.insert(changed.id.clone(), changed.clone());
        }
        for approved in &delta.approved {
            self.approved.insert(approved.id.clone(), approved.clone());
        }
    }

    fn full(&self, issuer: &str, audience: &str, now: UnixTime) -> Update {
        let revoked = self.revoked.iter().filter(|(_, expires)| **expires > now);
        Update {
            issuer: issuer.to_owned(),
            audience: audience.to_owned(),
            epoch: self.epoch,
            previous: None,
            issued_at: now,
            revoked: revoked.map(|(id, expires)| Revocation { id: id.clone(), expires: *expires }).collect(),
            replaced: self.replaced.values().filter(|one| one.expires > now).cloned().collect(),
            approved: self.approved.values().filter(|one| one.expires > now).cloned().collect(),
            mode: self.mode,
        }
    }
}

impl LiveToken {
    /// What a gate is told when the token grants something else than it says.
    pub(crate) fn replacement(&self, id: &str) -> Replacement {
        Replacement {
            id: id.to_owned(),
            rights: RightsClaim::from(&self.spec),
            not_after: self.spec.not_after,
            expires: self.expires,
        }
    }
}

#[cfg(test)]
mod tests {
    use token::Algorithm;

    use super::*;

    #[test]
    fn a_clock_that_ran_ahead_does_not_bring_a_revoked_token_back() {
        let at = |seconds: i64| UnixTime::from_seconds(1_800_000_000 + seconds);
        let signer = Signer::generate(Algorithm::Es256).unwrap();
        let mut live = Live::new("authority", Epoch(1));
        let delta = Delta { revoked: vec![Revocation { id: "t".into(), expires: at(600) }], ..Delta::default() };
        live.publish("urn:server", Epoch(2), delta, &signer, at(0)).unwrap();
        live.forget(at(3_600));
        let full = live.channel("urn:server").full("authority", "urn:server", at(1));
        assert_eq!(full.revoked.len(), 1, "the clock was an hour ahead");
        live.forget(at(600 + 7_200));
        let full = live.channel("urn:server").full("authority", "urn:server", at(2));
        assert_eq!(full.revoked.len(), 0, "what is over is forgotten in the end");
    }
}
