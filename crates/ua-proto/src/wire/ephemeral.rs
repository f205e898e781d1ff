//! The exchange of ephemeral keys for secrets in user identity tokens (OPC 10000-6 §6.8.2): entries of the additional
//! header of CreateSession and ActivateSession.

use opcua_types::{
    AdditionalParametersType, ByteString, ByteStringBody, EphemeralKeyType, ExtensionObject, KeyValuePair, NodeId,
    ObjectId, QualifiedName, StatusCode, UAString, Variant,
};

use super::Reader;

const POLICY: &str = "ECDHPolicyUri";
const KEY: &str = "ECDHKey";
/// The most entries that are looked at.
const MAX_ENTRIES: u32 = 16;
/// Longest name, URI and key.
const MAX_TEXT: usize = 512;

/// One side's ephemeral key, signed by its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SignedKey {
    pub(crate) public: Vec<u8>,
    pub(crate) signature: Vec<u8>,
}

/// What an additional header says about ephemeral keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyHeader {
    /// The policy for which a key is wanted or given.
    pub(crate) policy_uri: Option<String>,
    /// The key.
    pub(crate) key: Option<SignedKey>,
}

impl KeyHeader {
    /// Reads the additional header of a request or response. What cannot be read says nothing: whoever needed it fails for
    /// want of a key.
    pub(crate) fn read(header: &ExtensionObject) -> Self {
        let Some(body) = header.inner_as::<ByteStringBody>() else { return Self::default() };
        let id: NodeId = ObjectId::AdditionalParametersType_Encoding_DefaultBinary.into();
        if *body.encoding_id() != id {
            return Self::default();
        }
        Self::parse(body.raw_body().as_ref()).unwrap_or_default()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let mut found = Self::default();
        let entries = reader.u32().ok().filter(|entries| *entries <= MAX_ENTRIES)?;
        for _ in 0..entries {
            let namespace = reader.take(2).ok()?;
            let name = reader.string(MAX_TEXT).ok()?;
            let value = Value::read(&mut reader)?;
            match (namespace == [0, 0], name, value) {
                (true, POLICY, Value::Text(uri)) => found.policy_uri = Some(uri),
                (true, KEY, Value::Key(key)) => found.key = Some(key),
                _ => {}
            }
        }
        Some(found)
    }

    /// A request for a key of this policy.
    pub(crate) fn request(policy_uri: &str) -> ExtensionObject {
        parameters(vec![(POLICY, Variant::String(UAString::from(policy_uri)))])
    }

    /// The answer to a request: a key, or that there is none for this policy.
    pub(crate) fn answer(policy_uri: &str, key: Option<&SignedKey>) -> ExtensionObject {
        let value = match key {
            Some(key) => Variant::ExtensionObject(ExtensionObject::from_message(EphemeralKeyType {
                public_key: ByteString::from(key.public.clone()),
                signature: ByteString::from(key.signature.clone()),
            })),
            None => Variant::StatusCode(StatusCode::BadSecurityPolicyRejected),
        };
        parameters(vec![(POLICY, Variant::String(UAString::from(policy_uri))), (KEY, value)])
    }
}

fn parameters(entries: Vec<(&str, Variant)>) -> ExtensionObject {
    let pair = |(name, value): (&str, Variant)| KeyValuePair { key: QualifiedName::new(0, name), value };
    ExtensionObject::from_message(AdditionalParametersType {
        parameters: Some(entries.into_iter().map(pair).collect()),
    })
}

/// The few kinds of value that such headers hold.
enum Value {
    Text(String),
    Key(SignedKey),
    Other,
}

impl Value {
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        Some(match reader.take(1).ok()? {
            [0] => Self::Other,
            [1..=3] => skip(reader, 1)?,
            [4 | 5] => skip(reader, 2)?,
            [6 | 7 | 10 | 19] => skip(reader, 4)?,
            [8 | 9 | 11 | 13] => skip(reader, 8)?,
            [14] => skip(reader, 16)?,
            [12] => Self::Text(reader.string(MAX_TEXT).ok()?.to_owned()),
            [15] => {
                reader.bytes(MAX_TEXT).ok()?;
                Self::Other
            }
            [22] => Self::structure(reader)?,
            _ => return None,
        })
    }

    /// A structure with a numeric type id of namespace 0 of two or four bytes.
    fn structure(reader: &mut Reader<'_>) -> Option<Self> {
        let id = match reader.take(1).ok()? {
            [0] => u16::from(*reader.take(1).ok()?.first()?),
            [1] => match reader.take(3).ok()? {
                [0, low, high] => u16::from_le_bytes([*low, *high]),
                _ => return None,
            },
            _ => return None,
        };
        if reader.take(1).ok()? != [1] {
            return None;
        }
        let body = reader.bytes(2 * MAX_TEXT).ok()??;
        if u32::from(id) != ObjectId::EphemeralKeyType_Encoding_DefaultBinary as u32 {
            return Some(Self::Other);
        }
        let mut reader = Reader::new(body);
        let public = reader.bytes(MAX_TEXT).ok()?.unwrap_or_default().to_vec();
        let signature = reader.bytes(MAX_TEXT).ok()?.unwrap_or_default().to_vec();
        reader.rest().is_empty().then_some(Self::Key(SignedKey { public, signature }))
    }
}

fn skip(reader: &mut Reader<'_>, count: usize) -> Option<Value> {
    reader.take(count).ok().map(|_| Value::Other)
}

#[cfg(test)]
mod tests {
    use opcua_types::{BinaryEncodable, ContextOwned};

    use super::*;

    /// The header as it is after a message was decoded: a body of bytes.
    fn travelled(header: &ExtensionObject) -> ExtensionObject {
        let owned = ContextOwned::default();
        let bytes = header.encode_to_vec(&owned.context());
        // Type id of four bytes, one of encoding, four of length.
        let body = ByteStringBody::new(
            ByteString::from(bytes[9..].to_vec()),
            ObjectId::AdditionalParametersType_Encoding_DefaultBinary.into(),
        );
        ExtensionObject::new(body)
    }

    #[test]
    fn what_is_asked_and_answered_is_read() {
        let asked = KeyHeader::read(&travelled(&KeyHeader::request("urn:policy")));
        assert_eq!(asked, KeyHeader { policy_uri: Some("urn:policy".into()), key: None });
        let key = SignedKey { public: vec![1; 64], signature: vec![2; 64] };
        let given = KeyHeader::read(&travelled(&KeyHeader::answer("urn:policy", Some(&key))));
        assert_eq!(given, KeyHeader { policy_uri: Some("urn:policy".into()), key: Some(key) });
        let refused = KeyHeader::read(&travelled(&KeyHeader::answer("urn:policy", None)));
        assert_eq!(refused, KeyHeader { policy_uri: Some("urn:policy".into()), key: None });
        assert_eq!(KeyHeader::read(&ExtensionObject::null()), KeyHeader::default());
    }

    #[test]
    fn what_cannot_be_read_says_nothing() {
        let whole = travelled(&KeyHeader::request("urn:policy"));
        let bytes = whole.inner_as::<ByteStringBody>().unwrap().raw_body().as_ref().to_vec();
        for end in 0..bytes.len() {
            assert_eq!(KeyHeader::parse(&bytes[..end]), None, "{end}");
        }
        let many = [&u32::MAX.to_le_bytes()[..], &bytes[4..]].concat();
        assert_eq!(KeyHeader::parse(&many), None);
    }
}
