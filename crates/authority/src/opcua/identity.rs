//! The identity in FinishRequestToken and RequestAccessToken, as it came: nothing of it is believed yet.

use opcua_types::{
    AnonymousIdentityToken, ByteString, ByteStringBody, IssuedIdentityToken, ObjectId, SignatureData, StatusCode,
    UAString, UserNameIdentityToken, Variant, X509IdentityToken,
};
use zeroize::Zeroizing;

use super::policies::Kind;

/// Longest user name, in bytes.
const MAX_NAME: usize = 256;
/// Longest signature: RSA-4096, and room.
const MAX_SIGNATURE: usize = 1_024;

/// A secret, and how it says that it is protected.
pub(super) struct Sealed {
    pub(super) bytes: Zeroizing<Vec<u8>>,
    pub(super) algorithm: String,
}

/// An identity as it came.
pub(super) enum Presented {
    /// The session's own.
    Implicit,
    /// Name and password.
    UserName(String, Sealed),
    /// A certificate, DER.
    Certificate(Vec<u8>),
    /// A token of an identity provider.
    Issued(Sealed),
}

impl Presented {
    /// Takes the argument apart; also the PolicyId that it names. No identity is the session's own (OPC 10000-12 §9.6.5).
    pub(super) fn read(argument: &Variant) -> Result<(Self, String), StatusCode> {
        let object = match argument {
            Variant::Empty => return Ok((Self::Implicit, String::new())),
            Variant::ExtensionObject(object) if object.is_null() => return Ok((Self::Implicit, String::new())),
            Variant::ExtensionObject(object) => object,
            _ => return Err(StatusCode::BadIdentityTokenInvalid),
        };
        if let Some(token) = object.inner_as::<AnonymousIdentityToken>() {
            return Ok((Self::Implicit, text(&token.policy_id)));
        }
        if let Some(token) = object.inner_as::<UserNameIdentityToken>() {
            let name = token.user_name.as_ref();
            if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
                return Err(StatusCode::BadIdentityTokenInvalid);
            }
            let secret = sealed(&token.password, &token.encryption_algorithm);
            return Ok((Self::UserName(name.to_owned(), secret), text(&token.policy_id)));
        }
        if let Some(token) = object.inner_as::<X509IdentityToken>() {
            return Ok((Self::Certificate(token.certificate_data.as_ref().to_vec()), text(&token.policy_id)));
        }
        if let Some(token) = object.inner_as::<IssuedIdentityToken>() {
            let secret = sealed(&token.token_data, &token.encryption_algorithm);
            return Ok((Self::Issued(secret), text(&token.policy_id)));
        }
        Err(StatusCode::BadIdentityTokenInvalid)
    }

    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::Implicit => Kind::Implicit,
            Self::UserName(..) => Kind::UserName,
            Self::Certificate(_) => Kind::Certificate,
            Self::Issued(_) => Kind::Issued,
        }
    }
}

fn text(value: &UAString) -> String {
    value.as_ref().to_owned()
}

fn sealed(bytes: &ByteString, algorithm: &UAString) -> Sealed {
    Sealed { bytes: Zeroizing::new(bytes.as_ref().to_vec()), algorithm: text(algorithm) }
}

/// The algorithm and the bytes of the argument UserTokenSignature. The server machine leaves structures that it has no use
/// for as the bytes they came in.
pub(super) fn signature(argument: &Variant) -> Result<(String, Vec<u8>), StatusCode> {
    let invalid = StatusCode::BadIdentityTokenInvalid;
    let Variant::ExtensionObject(object) = argument else { return Err(invalid) };
    if let Some(signature) = object.inner_as::<SignatureData>() {
        return Ok((text(&signature.algorithm), signature.signature.as_ref().to_vec()));
    }
    let raw = object.inner_as::<ByteStringBody>().ok_or(invalid)?;
    if raw.encoding_id().as_object_id().ok() != Some(ObjectId::SignatureData_Encoding_DefaultBinary) {
        return Err(invalid);
    }
    let mut rest = raw.raw_body().as_ref();
    let algorithm = String::from_utf8(bytes(&mut rest).ok_or(invalid)?).map_err(|_| invalid)?;
    let signature = bytes(&mut rest).ok_or(invalid)?;
    if rest.is_empty() { Ok((algorithm, signature)) } else { Err(invalid) }
}

/// A ByteString or String off the front; null counts as empty.
fn bytes(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let (length, body) = rest.split_first_chunk::<4>()?;
    let length = i32::from_le_bytes(*length).max(0);
    let length = usize::try_from(length).ok().filter(|length| *length <= MAX_SIGNATURE)?;
    let (taken, behind) = body.split_at_checked(length)?;
    *rest = behind;
    Some(taken.to_vec())
}
