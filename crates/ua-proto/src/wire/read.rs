//! Reading and writing the few primitive values that headers are made of.

use super::Misbehavior;

/// Reads values from the front of a slice.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the front of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What was not read yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Misbehavior> {
        let (front, rest) = self.rest.split_at_checked(count).ok_or(Misbehavior::Truncated)?;
        self.rest = rest;
        Ok(front)
    }

    /// A UInt32.
    ///
    /// # Errors
    /// When there are fewer than four bytes.
    pub fn u32(&mut self) -> Result<u32, Misbehavior> {
        let (front, rest) = self.rest.split_first_chunk::<4>().ok_or(Misbehavior::Truncated)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*front))
    }

    /// A ByteString or String of at most `max` bytes; `None` when it is null.
    ///
    /// # Errors
    /// When it is cut off or longer.
    pub fn bytes(&mut self, max: usize) -> Result<Option<&'a [u8]>, Misbehavior> {
        let length = self.u32()?;
        if length == u32::MAX {
            return Ok(None);
        }
        let length = length as usize;
        if length > max {
            return Err(Misbehavior::FieldTooLong);
        }
        self.take(length).map(Some)
    }

    /// A String of at most `max` bytes; empty when it is null.
    ///
    /// # Errors
    /// When it is cut off, longer, or not UTF-8.
    pub fn string(&mut self, max: usize) -> Result<&'a str, Misbehavior> {
        let bytes = self.bytes(max)?.unwrap_or_default();
        std::str::from_utf8(bytes).map_err(|_| Misbehavior::NotUtf8)
    }
}

/// Appends a ByteString or String; `None` is null.
pub fn put_bytes(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    match bytes {
        None => out.extend_from_slice(&u32::MAX.to_le_bytes()),
        Some(bytes) => {
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(bytes);
        }
    }
}
