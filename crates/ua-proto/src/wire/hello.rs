//! Hello, Acknowledge and Error.

use opcua_types::StatusCode;

use super::{ChunkKind, MIN_BUFFER, MessageHeader, MessageKind, Misbehavior, Reader, finish, put_bytes};

/// Longest endpoint URL in bytes.
pub const MAX_URL: usize = 4096;
/// Longest reason in an Error in bytes.
pub const MAX_REASON: usize = 4096;

/// HEL: what the client can take, and where it wants to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The client's protocol version.
    pub protocol_version: u32,
    /// Largest chunk the client takes.
    pub receive_buffer: u32,
    /// Largest chunk the client sends.
    pub send_buffer: u32,
    /// Largest response body; 0 is no limit.
    pub max_message: u32,
    /// Most chunks of a response; 0 is no limit.
    pub max_chunks: u32,
    /// The URL that the client dialled.
    pub endpoint_url: String,
}

impl Hello {
    /// Reads what follows the message header.
    ///
    /// # Errors
    /// When it is malformed or a size is below the minimum.
    pub fn parse(body: &[u8]) -> Result<Self, Misbehavior> {
        let mut reader = Reader::new(body);
        let hello = Self {
            protocol_version: reader.u32()?,
            receive_buffer: reader.u32()?,
            send_buffer: reader.u32()?,
            max_message: reader.u32()?,
            max_chunks: reader.u32()?,
            endpoint_url: reader
                .string(MAX_URL)
                .map_err(|fault| if fault == Misbehavior::FieldTooLong { Misbehavior::UrlTooLong } else { fault })?
                .to_owned(),
        };
        if !reader.rest().is_empty() {
            return Err(Misbehavior::Trailing);
        }
        if hello.receive_buffer < MIN_BUFFER || hello.send_buffer < MIN_BUFFER {
            return Err(Misbehavior::BufferSize);
        }
        Ok(hello)
    }

    /// Appends the whole message.
    pub fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        MessageHeader::begin(MessageKind::Hello, ChunkKind::Final, out);
        let numbers = [self.protocol_version, self.receive_buffer, self.send_buffer, self.max_message, self.max_chunks];
        numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        put_bytes(Some(self.endpoint_url.as_bytes()), out);
        finish(out, start);
    }
}

/// ACK: what the server can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledge {
    /// The server's protocol version.
    pub protocol_version: u32,
    /// Largest chunk the server takes.
    pub receive_buffer: u32,
    /// Largest chunk the server sends.
    pub send_buffer: u32,
    /// Largest request body; 0 is no limit.
    pub max_message: u32,
    /// Most chunks of a request; 0 is no limit.
    pub max_chunks: u32,
}

impl Acknowledge {
    /// Reads what follows the message header.
    ///
    /// # Errors
    /// When it is malformed or a size is below the minimum.
    pub fn parse(body: &[u8]) -> Result<Self, Misbehavior> {
        let mut reader = Reader::new(body);
        let acknowledge = Self {
            protocol_version: reader.u32()?,
            receive_buffer: reader.u32()?,
            send_buffer: reader.u32()?,
            max_message: reader.u32()?,
            max_chunks: reader.u32()?,
        };
        if acknowledge.receive_buffer < MIN_BUFFER || acknowledge.send_buffer < MIN_BUFFER {
            return Err(Misbehavior::BufferSize);
        }
        if reader.rest().is_empty() { Ok(acknowledge) } else { Err(Misbehavior::Trailing) }
    }

    /// Appends the whole message.
    pub fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        MessageHeader::begin(MessageKind::Acknowledge, ChunkKind::Final, out);
        let numbers = [self.protocol_version, self.receive_buffer, self.send_buffer, self.max_message, self.max_chunks];
        numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        finish(out, start);
    }
}

/// ERR, and the body of an abort chunk: a status and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMessage {
    /// The status.
    pub status: StatusCode,
    /// The sentence, if it was not too long.
    pub reason: String,
}

impl ErrorMessage {
    /// Reads status and reason. A reason that is too long or no text is ignored (OPC 10000-6 §7.1.2.5).
    ///
    /// # Errors
    /// When there is not even a status.
    pub fn parse(body: &[u8]) -> Result<Self, Misbehavior> {
        let mut reader = Reader::new(body);
        let status = StatusCode::from(reader.u32()?);
        let reason = reader.string(MAX_REASON).unwrap_or_default().to_owned();
        Ok(Self { status, reason })
    }

    /// Appends status and reason.
    pub fn put_body(status: StatusCode, reason: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(&status.bits().to_le_bytes());
        let reason = (!reason.is_empty() && reason.len() <= MAX_REASON).then_some(reason.as_bytes());
        put_bytes(reason, out);
    }

    /// Appends a whole ERR message.
    pub fn put(status: StatusCode, reason: &str, out: &mut Vec<u8>) {
        let start = out.len();
        MessageHeader::begin(MessageKind::Error, ChunkKind::Final, out);
        Self::put_body(status, reason, out);
        finish(out, start);
    }
}
