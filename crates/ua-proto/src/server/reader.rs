//! What stands in front of every request.

pub(crate) use crate::body::{Malformed, Reader, ticks};

/// The parts of a RequestHeader that matter, borrowed from the body.
#[derive(Clone, Copy)]
pub(crate) struct Header<'a> {
    /// The authentication token's bytes.
    pub(crate) token: &'a [u8],
    /// Echoed in the response, and the key for Cancel.
    pub(crate) handle: u32,
    /// Milliseconds the client will wait; 0 for no opinion.
    pub(crate) timeout_hint: u32,
    /// Whether the client wants to be told of each item what is wrong with it (OPC 10000-4 §7.32, OperationLevel
    /// AdditionalInfo).
    pub(crate) explain: bool,
    /// What the client calls the request in its own audit.
    pub(crate) audit_entry: &'a str,
}

impl<'a> Header<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let token = reader.opaque_node_id()?;
        let _timestamp = reader.i64()?;
        let handle = reader.u32()?;
        let diagnostics = reader.u32()?;
        let audit_entry = reader.string()?;
        let timeout_hint = reader.u32()?;
        reader.extension_object()?;
        Ok(Self { token, handle, timeout_hint, explain: diagnostics & 0x80 != 0, audit_entry })
    }
}

/// The numeric id of the request, if the body starts with one of namespace 0.
pub(crate) fn type_id(reader: &mut Reader<'_>) -> Result<Option<u32>, Malformed> {
    reader.standard_id()
}
