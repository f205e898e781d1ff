//! Bytes of UACP and UASC (OPC 10000-6 §6.7.2 and §7.1.2): headers, Hello, ReverseHello, Acknowledge, Error, OPN bodies. Only shapes and
//! sizes; what may follow what is the channel's business. A layer that wants to misbehave (`assess`) starts here.

mod ephemeral;
mod hello;
mod misbehavior;
mod open;
mod read;
mod reverse;

pub(crate) use ephemeral::{KeyHeader, SignedKey};
pub use hello::{Acknowledge, ErrorMessage, Hello, MAX_REASON, MAX_URL};
pub use misbehavior::Misbehavior;
pub use open::{OpenHeader, OpenRequest, OpenResponse, ticks};
pub use read::{Reader, put_bytes};
pub use reverse::{MAX_REVERSE_HELLO, MAX_REVERSE_STRING, ReverseHello};

/// Bytes of a message header: type, chunk kind, size.
pub const MESSAGE_HEADER: usize = 8;
/// Bytes in front of the protected part of a symmetric chunk: message header, channel id, token id.
pub const CLEAR_HEADER: usize = 16;
/// Bytes of a sequence header: sequence number, request id.
pub const SEQUENCE_HEADER: usize = 8;
/// All headers of a symmetric chunk.
pub const CHUNK_HEADERS: usize = CLEAR_HEADER + SEQUENCE_HEADER;
/// The smallest buffer size a peer may announce with the policies spoken here.
pub const MIN_BUFFER: u32 = 8192;

/// The type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// HEL.
    Hello,
    /// ACK.
    Acknowledge,
    /// RHE.
    ReverseHello,
    /// ERR.
    Error,
    /// OPN.
    Open,
    /// MSG.
    Message,
    /// CLO.
    Close,
}

impl MessageKind {
    const fn code(self) -> &'static [u8; 3] {
        match self {
            Self::Hello => b"HEL",
            Self::Acknowledge => b"ACK",
            Self::ReverseHello => b"RHE",
            Self::Error => b"ERR",
            Self::Open => b"OPN",
            Self::Message => b"MSG",
            Self::Close => b"CLO",
        }
    }

    fn from_code(code: &[u8]) -> Option<Self> {
        [Self::Message, Self::Open, Self::Close, Self::Hello, Self::Acknowledge, Self::Error, Self::ReverseHello]
            .into_iter()
            .find(|kind| kind.code().as_slice() == code)
    }
}

/// Which part of a message a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkKind {
    /// The last or only one.
    Final,
    /// More follow.
    Intermediate,
    /// The sender gives the message up.
    Abort,
}

impl ChunkKind {
    const fn code(self) -> u8 {
        match self {
            Self::Final => b'F',
            Self::Intermediate => b'C',
            Self::Abort => b'A',
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            b'F' => Some(Self::Final),
            b'C' => Some(Self::Intermediate),
            b'A' => Some(Self::Abort),
            _ => None,
        }
    }
}

/// The first eight bytes of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    /// The message's type.
    pub kind: MessageKind,
    /// Which part of it.
    pub chunk: ChunkKind,
    /// Size of this chunk with its header.
    pub size: usize,
}

impl MessageHeader {
    /// Reads the header at the front of `bytes`; `None` when it is not complete.
    ///
    /// # Errors
    /// When the type or kind is unknown, or the size is smaller than the header.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, Misbehavior> {
        // An unknown type is refused on its first three bytes: a peer that speaks another protocol sends no eight.
        let Some((code, rest)) = bytes.split_at_checked(3) else { return Ok(None) };
        let kind = MessageKind::from_code(code).ok_or(Misbehavior::UnknownMessage)?;
        let Some((chunk, rest)) = rest.split_first() else { return Ok(None) };
        let chunk = ChunkKind::from_code(*chunk).ok_or(Misbehavior::UnknownChunk)?;
        if kind != MessageKind::Message && chunk != ChunkKind::Final {
            return Err(Misbehavior::UnknownChunk);
        }
        let Some(size) = rest.first_chunk::<4>() else { return Ok(None) };
        let size = u32::from_le_bytes(*size) as usize;
        if size < MESSAGE_HEADER {
            return Err(Misbehavior::SizeTooSmall);
        }
        Ok(Some(Self { kind, chunk, size }))
    }

    /// Appends a header whose size is written later.
    #[inline]
    pub fn begin(kind: MessageKind, chunk: ChunkKind, out: &mut Vec<u8>) {
        out.extend_from_slice(kind.code());
        out.push(chunk.code());
        out.extend_from_slice(&[0; 4]);
    }
}

/// The sequence header: sequence number and request id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceHeader {
    /// One more than in the chunk before.
    pub number: u32,
    /// Joins the chunks of a message, and request and response.
    pub request_id: u32,
}

impl SequenceHeader {
    /// Reads the header at the front of `bytes`.
    ///
    /// # Errors
    /// When there are fewer than eight bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, Misbehavior> {
        let mut reader = Reader::new(bytes);
        Ok(Self { number: reader.u32()?, request_id: reader.u32()? })
    }

    /// Appends the header.
    pub fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.request_id.to_le_bytes());
    }
}

/// Writes the size of the message that starts at `start` and reaches to the end of `out` into its header.
pub fn finish(out: &mut [u8], start: usize) {
    let size = u32::try_from(out.len().saturating_sub(start)).unwrap_or(u32::MAX);
    if let Some(field) = out.get_mut(start.saturating_add(4)..start.saturating_add(8)) {
        field.copy_from_slice(&size.to_le_bytes());
    }
}
