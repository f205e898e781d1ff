//! The record that hands the ledger from one signing key to the next, and the line of keys that such records make.
//!
//! Both keys sign it: the old one says who follows, the new one that it is there and means this ledger. Without the second
//! signature anybody could put a foreign key at the end of a line of his own, and a reader who pins that key would be fooled.

use access_model::UnixTime;

use super::body::{LedgerId, put_chain, put_key, put_time, whole};
use super::frame::Chain;
use super::key::{CheckpointKey, CheckpointPublicKey, KeyError, SIGNATURE};

/// From here on another key signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rekey {
    /// The record before it.
    pub(super) covers: Chain,
    pub(super) at: UnixTime,
    /// The key that signs from here on.
    pub(super) key: CheckpointPublicKey,
    by_old: [u8; SIGNATURE],
    by_new: [u8; SIGNATURE],
}

fn message(ledger: &LedgerId, covers: &Chain, at: UnixTime, key: &CheckpointPublicKey) -> Vec<u8> {
    let mut message = b"trapkey ledger key 1\0".to_vec();
    message.extend_from_slice(ledger);
    put_chain(&mut message, covers);
    put_time(&mut message, at);
    put_key(&mut message, key);
    message
}

impl Rekey {
    pub(super) fn sign(
        ledger: &LedgerId,
        covers: Chain,
        at: UnixTime,
        old: &CheckpointKey,
        new: &CheckpointKey,
    ) -> Result<Self, KeyError> {
        let key = new.public();
        let message = message(ledger, &covers, at, &key);
        Ok(Self { covers, at, by_old: old.sign(&message)?, by_new: new.sign(&message)?, key })
    }

    /// Whether `old` hands over here, and the new key takes over.
    pub(super) fn is_signed_by(&self, ledger: &LedgerId, old: &CheckpointPublicKey) -> bool {
        let message = message(ledger, &self.covers, self.at, &self.key);
        old.verifies(&message, &self.by_old) && self.key.verifies(&message, &self.by_new)
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_chain(out, &self.covers);
        put_time(out, self.at);
        put_key(out, &self.key);
        out.extend_from_slice(&self.by_old);
        out.extend_from_slice(&self.by_new);
    }

    pub(super) fn read(body: &[u8]) -> Option<Self> {
        whole(body, |body| {
            let (covers, at, key) = (body.chain()?, body.time()?, body.key()?);
            Some(Self { covers, at, key, by_old: body.array()?, by_new: body.array()? })
        })
    }
}

/// A key of the ledger, and since when it signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySince {
    /// Number of the record from which on it signs; 1 for the first key.
    pub sequence: u64,
    /// When it took over.
    pub at: UnixTime,
    /// The key.
    pub key: CheckpointPublicKey,
}

/// The key in force at a record, of keys in the order in which they took over.
pub(super) fn in_force(line: &[KeySince], sequence: u64) -> Option<&CheckpointPublicKey> {
    let since = line.partition_point(|since| since.sequence <= sequence);
    line.get(since.saturating_sub(1)).map(|since| &since.key)
}
