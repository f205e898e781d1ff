//! What stands for segments that were removed from the beginning of a ledger.
//!
//! The stub names the end of what is gone, so that the chain goes on from there, and holds every hand-over of the key that was in
//! it, so that a reader who pins a retired key still gets from that key to the one that signs today. It is signed: who can only
//! remove files cannot make one.

use std::io;
use std::path::Path;

use access_model::UnixTime;
use serde::{Deserialize, Serialize};

use super::body::{LedgerId, put_bytes, put_chain, put_key, put_time, put_varint};
use super::frame::Chain;
use super::key::{CheckpointKey, CheckpointPublicKey, KeyError, SIGNATURE};
use super::rekey::{KeySince, Rekey};
use super::report::Removed;
use crate::{files, hex};

/// Name of the file.
pub(super) const STUB: &str = "stub.json";

/// Vouches for the segments that were removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stub {
    pub(super) ledger: LedgerId,
    /// The last record removed: the seal of the last segment removed.
    pub(super) through: Chain,
    /// The signature of that seal, which the next segment names.
    pub(super) seal: [u8; SIGNATURE],
    pub(super) segments: u64,
    pub(super) records: u64,
    /// When.
    pub(super) at: UnixTime,
    /// The first key of the ledger, and since when it signed.
    pub(super) first_key: CheckpointPublicKey,
    pub(super) first_at: UnixTime,
    /// Each hand-over of the key, in order: those among what was removed, and those after it up to the key that signs.
    pub(super) rekeys: Vec<Rekey>,
    /// The key that signs the stub.
    pub(super) signer: CheckpointPublicKey,
    pub(super) signature: [u8; SIGNATURE],
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    ledger: String,
    sequence: u64,
    hash: String,
    seal: String,
    segments: u64,
    records: u64,
    at: i64,
    first_key: String,
    first_at: i64,
    rekeys: Vec<String>,
    signer: String,
    signature: String,
}

impl Stub {
    /// Signs a stub whose signature is still blank.
    pub(super) fn signed(mut self, key: &CheckpointKey) -> Result<Self, KeyError> {
        self.signer = key.public();
        self.signature = key.sign(&self.message())?;
        Ok(self)
    }

    /// The ledger's keys at the end of what was removed, the oldest first. `None` when the stub is not signed by one of the keys
    /// to which its hand-overs lead.
    pub(super) fn verified(&self) -> Option<Vec<KeySince>> {
        let mut line = self.line()?;
        let ours = line.iter().any(|since| since.key == self.signer);
        if !ours || !self.signer.verifies(&self.message(), &self.signature) {
            return None;
        }
        line.retain(|since| since.sequence <= self.through.sequence);
        Some(line)
    }

    fn message(&self) -> Vec<u8> {
        let mut message = b"trapkey ledger stub 1\0".to_vec();
        message.extend_from_slice(&self.ledger);
        put_chain(&mut message, &self.through);
        message.extend_from_slice(&self.seal);
        put_varint(&mut message, self.segments);
        put_varint(&mut message, self.records);
        put_time(&mut message, self.at);
        put_key(&mut message, &self.first_key);
        put_time(&mut message, self.first_at);
        put_varint(&mut message, self.rekeys.len() as u64);
        for rekey in &self.rekeys {
            put_bytes(&mut message, &body_of(rekey));
        }
        put_key(&mut message, &self.signer);
        message
    }

    /// `None` when one of the hand-overs does not verify.
    fn line(&self) -> Option<Vec<KeySince>> {
        let mut line = vec![KeySince { sequence: 1, at: self.first_at, key: self.first_key.clone() }];
        for rekey in &self.rekeys {
            let last = line.last()?;
            let sequence = rekey.covers.sequence.checked_add(1)?;
            if sequence <= last.sequence || !rekey.is_signed_by(&self.ledger, &last.key) {
                return None;
            }
            line.push(KeySince { sequence, at: rekey.at, key: rekey.key.clone() });
        }
        Some(line)
    }

    pub(super) fn removed(&self) -> Removed {
        let Self { segments, records, at, .. } = *self;
        Removed { segments, records, sequence: self.through.sequence, at }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let written = Written {
            ledger: hex::hex(&self.ledger),
            sequence: self.through.sequence,
            hash: hex::hex(&self.through.hash),
            seal: hex::hex(&self.seal),
            segments: self.segments,
            records: self.records,
            at: self.at.as_micros(),
            first_key: self.first_key.to_string(),
            first_at: self.first_at.as_micros(),
            rekeys: self.rekeys.iter().map(|rekey| hex::hex(&body_of(rekey))).collect(),
            signer: self.signer.to_string(),
            signature: hex::hex(&self.signature),
        };
        let mut text = serde_json::to_vec(&written).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// Only the exact bytes that [`Stub::to_bytes`] writes, so that no changed byte goes unseen.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let written: Written = serde_json::from_slice(bytes).ok()?;
        let rekeys = written.rekeys.iter().map(|text| Rekey::read(&hex::bytes(text)?)).collect::<Option<_>>()?;
        let stub = Self {
            ledger: hex::unhex(&written.ledger)?,
            through: Chain { sequence: written.sequence, hash: hex::unhex(&written.hash)? },
            seal: hex::unhex(&written.seal)?,
            segments: written.segments,
            records: written.records,
            at: UnixTime::from_micros(written.at),
            first_key: written.first_key.parse().ok()?,
            first_at: UnixTime::from_micros(written.first_at),
            rekeys,
            signer: written.signer.parse().ok()?,
            signature: hex::unhex(&written.signature)?,
        };
        (stub.to_bytes() == bytes).then_some(stub)
    }
}

fn body_of(rekey: &Rekey) -> Vec<u8> {
    let mut body = Vec::new();
    rekey.put(&mut body);
    body
}

/// What the stub file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StubFile {
    There(Box<Stub>),
    Missing,
    Unreadable,
}

pub(super) fn read(folder: &Path) -> io::Result<StubFile> {
    Ok(match files::read_if_there(&folder.join(STUB))? {
        None => StubFile::Missing,
        Some(bytes) => Stub::from_bytes(&bytes).map_or(StubFile::Unreadable, |stub| StubFile::There(Box::new(stub))),
    })
}
