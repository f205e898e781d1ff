//! What the bodies of records hold, and how: numbers of fixed width, or as varints, and texts with their length.

use access_model::UnixTime;

use super::frame::{Chain, HASH};
use super::key::{CheckpointPublicKey, KeyKind, SIGNATURE};

/// Names one ledger for good; keeps a checkpoint of one from being used in another.
pub(super) type LedgerId = [u8; 16];

/// The first record of a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) ledger: LedgerId,
    pub(super) key: CheckpointPublicKey,
    pub(super) at: UnixTime,
}

/// A signature over everything up to and including one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// The record before the checkpoint.
    pub(super) covers: Chain,
    pub(super) at: UnixTime,
    pub(super) signature: [u8; SIGNATURE],
}

/// The first record of a later segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Handover {
    pub(super) start: Start,
    /// First record of the segment before.
    pub(super) first: u64,
    /// Last record of the segment before: its seal.
    pub(super) last: Chain,
    /// The seal's signature.
    pub(super) signature: [u8; SIGNATURE],
}

/// What a start found behind the last whole record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recovered {
    pub(super) at: UnixTime,
    /// Bytes behind the last whole record, cut off.
    pub(super) torn: u64,
    /// SHA-256 over these bytes.
    pub(super) digest: [u8; HASH],
    /// Records that a checkpoint had covered and that are no longer there.
    pub(super) lost: u64,
    /// Whether the head file, which names the last checkpoint, was missing or unreadable.
    pub(super) headless: bool,
}

/// A while in which nothing could be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) from: UnixTime,
    pub(super) until: UnixTime,
    /// Records that were turned away.
    pub(super) refused: u64,
    /// What the system said.
    pub(super) cause: String,
}

/// What is signed by a checkpoint.
pub(super) fn signed_message(ledger: &LedgerId, covers: &Chain, at: UnixTime) -> Vec<u8> {
    let mut message = b"trapkey ledger checkpoint 1\0".to_vec();
    message.extend_from_slice(ledger);
    put_chain(&mut message, covers);
    put_time(&mut message, at);
    message
}

impl Start {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.ledger);
        put_key(out, &self.key);
        put_time(out, self.at);
    }

    fn take(body: &mut Body<'_>) -> Option<Self> {
        Some(Self { ledger: body.array()?, key: body.key()?, at: body.time()? })
    }

    pub(super) fn read(body: &[u8]) -> Option<Self> {
        whole(body, Self::take)
    }
}

impl Checkpoint {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_chain(out, &self.covers);
        put_time(out, self.at);
        out.extend_from_slice(&self.signature);
    }

    pub(super) fn read(body: &[u8]) -> Option<Self> {
        whole(body, |body| Some(Self { covers: body.chain()?, at: body.time()?, signature: body.array()? }))
    }
}

impl Handover {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        self.start.put(out);
        out.extend_from_slice(&self.first.to_le_bytes());
        put_chain(out, &self.last);
        out.extend_from_slice(&self.signature);
    }

    pub(super) fn read(body: &[u8]) -> Option<Self> {
        whole(body, |body| {
            let start = Start::take(body)?;
            Some(Self { start, first: body.u64()?, last: body.chain()?, signature: body.array()? })
        })
    }
}

impl Recovered {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_time(out, self.at);
        put_varint(out, self.torn);
        out.extend_from_slice(&self.digest);
        put_varint(out, self.lost);
        out.push(u8::from(self.headless));
    }

    pub(super) fn read(body: &[u8]) -> Option<Self> {
        whole(body, |body| {
            let (at, torn, digest, lost) = (body.time()?, body.varint()?, body.array()?, body.varint()?);
            Some(Self { at, torn, digest, lost, headless: body.byte()? != 0 })
        })
    }
}

impl Gap {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_time(out, self.from);
        put_time(out, self.until);
        put_varint(out, self.refused);
        put_text(out, &self.cause);
    }

    pub(super) fn read(body: &[u8]) -> Option<Self> {
        whole(body, |body| {
            Some(Self { from: body.time()?, until: body.time()?, refused: body.varint()?, cause: body.text()? })
        })
    }
}

pub(super) fn put_time(out: &mut Vec<u8>, at: UnixTime) {
    out.extend_from_slice(&at.as_micros().to_le_bytes());
}

pub(super) fn put_key(out: &mut Vec<u8>, key: &CheckpointPublicKey) {
    out.push(key.kind.code());
    put_bytes(out, &key.bytes);
}

pub(super) fn put_chain(out: &mut Vec<u8>, chain: &Chain) {
    out.extend_from_slice(&chain.sequence.to_le_bytes());
    out.extend_from_slice(&chain.hash);
}

/// LEB128: seven bits a byte, the lowest first.
pub(super) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The longest text that is kept; a peer chooses many of them.
const MAX_TEXT: usize = 1_024;

/// The text, cut at [`MAX_TEXT`] bytes.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    let kept = text.floor_char_boundary(MAX_TEXT);
    put_bytes(out, text.as_bytes().get(..kept).unwrap_or_default());
}

/// A missing text is different from an empty one.
pub(super) fn put_optional(out: &mut Vec<u8>, text: Option<&str>) {
    out.push(u8::from(text.is_some()));
    if let Some(text) = text {
        put_text(out, text);
    }
}

/// Reads a body, all of it.
pub(super) fn whole<T>(body: &[u8], take: impl FnOnce(&mut Body<'_>) -> Option<T>) -> Option<T> {
    let mut body = Body(body);
    let value = take(&mut body)?;
    body.0.is_empty().then_some(value)
}

/// What is left of a body.
pub(super) struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    /// Whether nothing is left.
    pub(super) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn time(&mut self) -> Option<UnixTime> {
        self.array().map(i64::from_le_bytes).map(UnixTime::from_micros)
    }

    pub(super) fn chain(&mut self) -> Option<Chain> {
        Some(Chain { sequence: self.u64()?, hash: self.array()? })
    }

    pub(super) fn key(&mut self) -> Option<CheckpointPublicKey> {
        let kind = KeyKind::from_code(self.byte()?)?;
        Some(CheckpointPublicKey { kind, bytes: self.bytes()?.to_vec() })
    }

    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn text(&mut self) -> Option<String> {
        std::str::from_utf8(self.bytes()?).ok().map(str::to_owned)
    }

    pub(super) fn optional(&mut self) -> Option<Option<String>> {
        match self.byte()? {
            0 => Some(None),
            1 => self.text().map(Some),
            _ => None,
        }
    }
}
