//! ReverseHello: what a server says that has connected to its client (OPC 10000-6 §7.1.2.6).

use super::{ChunkKind, MESSAGE_HEADER, MessageHeader, MessageKind, Misbehavior, Reader, finish, put_bytes};

/// Longest ServerUri or EndpointUrl in bytes.
pub const MAX_REVERSE_STRING: usize = 4096;
/// Bytes of the longest ReverseHello.
pub const MAX_REVERSE_HELLO: usize = MESSAGE_HEADER + 2 * (4 + MAX_REVERSE_STRING);

/// RHE: who calls, and the URL that the client's Hello is to name. Nothing of it is proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReverseHello {
    /// ApplicationUri of the server.
    pub server_uri: String,
    /// Its endpoint.
    pub endpoint_url: String,
}

impl ReverseHello {
    /// Reads what follows the message header.
    ///
    /// # Errors
    /// When it is malformed or a string is too long.
    pub fn parse(body: &[u8]) -> Result<Self, Misbehavior> {
        let mut reader = Reader::new(body);
        let mut text = || match reader.string(MAX_REVERSE_STRING) {
            Err(Misbehavior::FieldTooLong) => Err(Misbehavior::UrlTooLong),
            other => other.map(str::to_owned),
        };
        let hello = Self { server_uri: text()?, endpoint_url: text()? };
        if reader.rest().is_empty() { Ok(hello) } else { Err(Misbehavior::Trailing) }
    }

    /// Appends the whole message.
    pub fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        MessageHeader::begin(MessageKind::ReverseHello, ChunkKind::Final, out);
        put_bytes(Some(self.server_uri.as_bytes()), out);
        put_bytes(Some(self.endpoint_url.as_bytes()), out);
        finish(out, start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(uri: &str, url: &str) -> Vec<u8> {
        let mut out = Vec::new();
        ReverseHello { server_uri: uri.to_owned(), endpoint_url: url.to_owned() }.put(&mut out);
        out
    }

    #[test]
    fn what_was_put_is_read() {
        let whole = of("urn:s", "opc.tcp://s");
        let header = MessageHeader::parse(&whole).unwrap().unwrap();
        assert_eq!(
            (header.kind, header.chunk, header.size),
            (MessageKind::ReverseHello, ChunkKind::Final, whole.len())
        );
        let hello = ReverseHello::parse(&whole[MESSAGE_HEADER..]).unwrap();
        assert_eq!((hello.server_uri.as_str(), hello.endpoint_url.as_str()), ("urn:s", "opc.tcp://s"));
        for cut in MESSAGE_HEADER..whole.len() {
            assert_eq!(ReverseHello::parse(&whole[MESSAGE_HEADER..cut]), Err(Misbehavior::Truncated), "{cut}");
        }
        assert_eq!(ReverseHello::parse(&[&whole[MESSAGE_HEADER..], b"x"].concat()), Err(Misbehavior::Trailing));
    }

    #[test]
    fn strings_are_bounded() {
        let (longest, longer) = ("u".repeat(MAX_REVERSE_STRING), "u".repeat(MAX_REVERSE_STRING + 1));
        let largest = of(&longest, &longest);
        assert_eq!(largest.len(), MAX_REVERSE_HELLO);
        assert!(ReverseHello::parse(&largest[MESSAGE_HEADER..]).is_ok());
        for (uri, url) in [(&longer, &longest), (&longest, &longer)] {
            assert_eq!(ReverseHello::parse(&of(uri, url)[MESSAGE_HEADER..]), Err(Misbehavior::UrlTooLong));
        }
        let nulls = [0xff; 8];
        assert_eq!(ReverseHello::parse(&nulls).map(|hello| hello.server_uri), Ok(String::new()));
    }
}
