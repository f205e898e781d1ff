//! How one record lies in a segment file, and how each is chained to the one before.
//!
//! ```text
//! length u32 | kind u8 | sequence u64 | body (length bytes) | hash [32]        numbers are little-endian
//! hash = SHA-256(hash of the record before, then this record up to its hash)
//! ```

use aws_lc_rs::digest::{Context, SHA256};

/// First bytes of each segment file.
pub(super) const MAGIC: &[u8] = b"trapkey ledger 1\n";
/// Bytes before the body.
pub(super) const HEADER: usize = 13;
/// Bytes of a hash.
pub(super) const HASH: usize = 32;
/// No body is longer; a length beyond it is damage, never a reason to allocate.
pub(super) const MAX_BODY: usize = 16 * 1024;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum FrameKind {
    /// The very first record: names the ledger and its key.
    Start = 1,
    /// An audit record.
    Audit = 2,
    /// A signature over the record before.
    Checkpoint = 3,
    /// The last record of a segment that was rotated: a checkpoint too.
    Seal = 4,
    /// The first record of the segment after it.
    Handover = 5,
    /// What a start found behind the last whole record.
    Recovered = 6,
    /// For a while nothing could be written.
    Gap = 7,
    /// From here on another key signs.
    Rekey = 8,
}

impl FrameKind {
    const ALL: [Self; 8] = [
        Self::Start,
        Self::Audit,
        Self::Checkpoint,
        Self::Seal,
        Self::Handover,
        Self::Recovered,
        Self::Gap,
        Self::Rekey,
    ];

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code)
    }
}

/// Where a chain stands: the last record's number and hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) sequence: u64,
    pub(super) hash: [u8; HASH],
}

impl Chain {
    /// Before the first record.
    pub(super) const GENESIS: Self = Self { sequence: 0, hash: [0; HASH] };

    /// Numbers and hashes a frame made by [`push`], and moves on to it.
    pub(super) fn link(&mut self, frame: &mut [u8]) {
        self.sequence += 1;
        let Some((content, hash)) = frame.split_last_chunk_mut::<HASH>() else { return };
        if let Some(place) = content.get_mut(5..HEADER) {
            place.copy_from_slice(&self.sequence.to_le_bytes());
        }
        self.hash = digest(&self.hash, content);
        *hash = self.hash;
    }

    /// Where the chain stands after this frame, if the frame is the next one.
    pub(super) fn follow(&self, frame: &Frame<'_>) -> Result<Self, Unchained> {
        let expected = self.sequence + 1;
        if frame.sequence != expected {
            return Err(Unchained::Sequence { expected, found: frame.sequence });
        }
        let hash = digest(&self.hash, frame.content);
        if hash == frame.hash { Ok(Self { sequence: expected, hash }) } else { Err(Unchained::Hash) }
    }
}

/// Why a frame is not the next of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unchained {
    Sequence { expected: u64, found: u64 },
    Hash,
}

fn digest(before: &[u8; HASH], content: &[u8]) -> [u8; HASH] {
    let mut context = Context::new(&SHA256);
    context.update(before);
    context.update(content);
    let mut hash = [0; HASH];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

/// One whole frame, looked at in a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub(super) kind: FrameKind,
    pub(super) sequence: u64,
    pub(super) body: &'a [u8],
    pub(super) hash: [u8; HASH],
    /// Everything the hash is taken over.
    content: &'a [u8],
}

/// Appends a frame whose number and hash are still blank; `write` fills the body.
pub(super) fn push(buffer: &mut Vec<u8>, kind: FrameKind, write: impl FnOnce(&mut Vec<u8>)) {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; HEADER]);
    write(buffer);
    let length = buffer.len() - start - HEADER;
    debug_assert!(length <= MAX_BODY, "a body of {length} bytes");
    let [a, b, c, d] = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    if let Some(place) = buffer.get_mut(start..start + 5) {
        place.copy_from_slice(&[a, b, c, d, kind as u8]);
    }
    buffer.extend_from_slice(&[0; HASH]);
}

/// What stands at the beginning of some bytes.
pub(super) enum Look<'a> {
    /// A frame and its length.
    Whole(Frame<'a>, usize),
    /// So far nothing is wrong, but at least this many bytes are needed in all.
    Needs(usize),
    /// Not a frame.
    Not(&'static str),
}

/// Looks at the frame at the beginning of `bytes`.
pub(super) fn look(bytes: &[u8]) -> Look<'_> {
    let Some((&[a, b, c, d, code, ref number @ ..], _)) = bytes.split_first_chunk::<HEADER>() else {
        return Look::Needs(HEADER);
    };
    let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if length > MAX_BODY {
        return Look::Not("its length is impossible");
    }
    let Some(kind) = FrameKind::from_code(code) else { return Look::Not("its kind is unknown") };
    let whole = HEADER + length + HASH;
    let (Some(content), Some(body)) = (bytes.get(..HEADER + length), bytes.get(HEADER..HEADER + length)) else {
        return Look::Needs(whole);
    };
    let Some(hash) = bytes.get(HEADER + length..).and_then(|rest| rest.first_chunk()) else {
        return Look::Needs(whole);
    };
    let sequence = u64::from_le_bytes(*number);
    Look::Whole(Frame { kind, sequence, body, hash: *hash, content }, whole)
}

/// The frames in a buffer that [`push`] filled.
pub(super) fn split_mut(mut buffer: &mut [u8], mut each: impl FnMut(&mut [u8])) {
    while let Look::Whole(_, length) = look(buffer) {
        let (frame, rest) = buffer.split_at_mut(length);
        each(frame);
        buffer = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(bodies: &[&[u8]]) -> Vec<u8> {
        let mut buffer = Vec::new();
        for body in bodies {
            push(&mut buffer, FrameKind::Audit, |out| out.extend_from_slice(body));
        }
        buffer
    }

    #[test]
    fn linked_frames_follow_each_other_and_no_other_order() {
        let mut buffer = frames(&[b"one", b"", b"three"]);
        let mut chain = Chain::GENESIS;
        split_mut(&mut buffer, |frame| chain.link(frame));
        assert_eq!(chain.sequence, 3);
        let Look::Whole(first, length) = look(&buffer) else { panic!("no frame") };
        let Look::Whole(second, _) = look(&buffer[length..]) else { panic!("no frame") };
        assert_eq!(first.body, b"one");
        let after = Chain::GENESIS.follow(&first).unwrap();
        assert_eq!(Chain::GENESIS.follow(&second), Err(Unchained::Sequence { expected: 1, found: 2 }));
        assert_eq!(after.follow(&second).unwrap().sequence, 2);
        assert_eq!(Chain { hash: [1; 32], ..after }.follow(&second), Err(Unchained::Hash));
    }

    #[test]
    fn a_part_of_a_frame_asks_for_the_rest_and_nonsense_is_refused() {
        let buffer = frames(&[b"body"]);
        for cut in 0..buffer.len() {
            assert!(matches!(look(&buffer[..cut]), Look::Needs(_)), "cut at {cut}");
        }
        assert!(matches!(look(&[0xff; 64]), Look::Not("its length is impossible")));
        assert!(matches!(look(&[0; 64]), Look::Not("its kind is unknown")));
    }
}
