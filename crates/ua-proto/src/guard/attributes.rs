//! Values that are not passed on as they are: the guard's own, limits, and attributes that tell what the session may do,
//! which are the upstream server's AND the grant's.

use std::borrow::Cow;

use access_model::{Rights, UnixTime};
use opcua_types::{AttributeId, NodeId, ObjectId, StatusCode, Variant};

use super::desk::encoded;
use super::own::{Face, SERVICE_LEVEL, number_of};
use super::walk::{extension_object, parts_of, span};
use crate::server::Server;
use crate::server::front::{Malformed, Reader, user_access_level, user_write_mask};
use crate::space::{AccessLevel, ns0};

/// OperationLimits, and other limits that are told as a number of which the smaller holds.
const LIMITS: [u32; 15] = [
    11_705, 11_707, 11_709, 11_710, 11_711, 11_712, 11_713, 11_714, 12_165, 12_166, 12_167, 12_168, 24_095, 24_096,
    24_097,
];

/// A value of the upstream server as this session may have it.
pub(super) fn adapt<'a>(
    face: Face<'_>,
    node: &NodeId,
    attribute: Option<AttributeId>,
    rights: Rights,
    value: &'a [u8],
) -> Result<Cow<'a, [u8]>, StatusCode> {
    let Some((mask, inner, rest)) = parts_of(value) else { return Ok(Cow::Borrowed(value)) };
    let unexpected = |_: Malformed| StatusCode::BadUnexpectedError;
    let inner = match (attribute, number_of(node)) {
        (Some(AttributeId::UserAccessLevel), _) => user_level(inner, rights).map_err(unexpected)?,
        (Some(AttributeId::UserWriteMask), _) => write_mask(inner, rights).map_err(unexpected)?,
        (Some(AttributeId::UserExecutable), _) => executable(inner, rights).map_err(unexpected)?,
        (Some(AttributeId::UserRolePermissions), _) => role_permissions(inner, rights).map_err(unexpected)?,
        (Some(AttributeId::Value), Some(number)) if LIMITS.contains(&number) => {
            smaller_limit(face.front, number, inner)
        }
        (Some(AttributeId::Value), Some(number)) => match face.value(number) {
            Some(value) => encoded(&value),
            None if number == SERVICE_LEVEL => face.cut(inner),
            None => return Ok(Cow::Borrowed(value)),
        },
        _ => return Ok(Cow::Borrowed(value)),
    };
    let mut adapted = vec![mask];
    adapted.extend_from_slice(&inner);
    adapted.extend_from_slice(rest);
    Ok(Cow::Owned(adapted))
}

fn user_level(inner: &[u8], rights: Rights) -> Result<Vec<u8>, Malformed> {
    match inner {
        [3, level] => {
            let level = user_access_level(AccessLevel(u32::from(*level)), rights);
            Ok(vec![3, u8::try_from(level.0 & 0xff).unwrap_or(0)])
        }
        _ => Err(Malformed::Invalid),
    }
}

fn write_mask(inner: &[u8], rights: Rights) -> Result<Vec<u8>, Malformed> {
    match inner {
        [7, a, b, c, d] => {
            let mask = user_write_mask(u32::from_le_bytes([*a, *b, *c, *d]), rights);
            Ok([&[7], mask.to_le_bytes().as_slice()].concat())
        }
        _ => Err(Malformed::Invalid),
    }
}

fn executable(inner: &[u8], rights: Rights) -> Result<Vec<u8>, Malformed> {
    match inner {
        [1, yes] => Ok(vec![1, u8::from(*yes != 0 && rights.contains(Rights::CALL))]),
        _ => Err(Malformed::Invalid),
    }
}

/// An array of RolePermissionType, each with what the grant leaves of its permissions.
fn role_permissions(inner: &[u8], rights: Rights) -> Result<Vec<u8>, Malformed> {
    let mut reader = Reader::new(inner);
    if reader.u8()? != 0x96 {
        return Err(Malformed::Invalid);
    }
    let count = reader.array_len(4)?;
    let mut out = vec![0x96];
    out.extend_from_slice(&i32::try_from(count).unwrap_or(i32::MAX).to_le_bytes());
    for _ in 0..count {
        let before = reader.rest();
        let (kind, body) = extension_object(&mut reader)?;
        let mut kind_bytes = Reader::new(before);
        let kind_bytes = span(&mut kind_bytes, |reader| reader.node_id().map(drop))?;
        if kind != ObjectId::RolePermissionType_Encoding_DefaultBinary {
            return Err(Malformed::Invalid);
        }
        let mut body = Reader::new(body.ok_or(Malformed::Invalid)?);
        let role = span(&mut body, |reader| reader.node_id().map(drop))?;
        let permissions = body.u32()? & rights.bits();
        if !body.rest().is_empty() {
            return Err(Malformed::Invalid);
        }
        out.extend_from_slice(kind_bytes);
        out.push(1);
        out.extend_from_slice(&i32::try_from(role.len() + 4).unwrap_or(i32::MAX).to_le_bytes());
        out.extend_from_slice(role);
        out.extend_from_slice(&permissions.to_le_bytes());
    }
    Ok(out)
}

/// The smaller of two limits, 0 being none.
pub(super) fn smaller(one: u32, other: u32) -> u32 {
    match (one, other) {
        (0, limit) | (limit, 0) => limit,
        (one, other) => one.min(other),
    }
}

fn smaller_limit(front: &Server, number: u32, inner: &[u8]) -> Vec<u8> {
    let [7, a, b, c, d] = inner else { return inner.to_vec() };
    let theirs = u32::from_le_bytes([*a, *b, *c, *d]);
    [&[7], smaller(theirs, own_limit(front, number)).to_le_bytes().as_slice()].concat()
}

/// A limit as the guard's own front keeps it; 0 for none.
pub(super) fn own_limit(front: &Server, number: u32) -> u32 {
    let value = ns0::find_numeric(number).map(|node| front.space().value(node, UnixTime::default()));
    match value.and_then(|value| value.value) {
        Some(Variant::UInt32(limit)) => limit,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcua_types::{
        Array, BinaryEncodable, ContextOwned, ExtensionObject, PermissionType, RolePermissionType, VariantScalarTypeId,
    };

    #[test]
    fn what_a_session_may_do_is_what_both_allow() {
        let call = Rights::CALL | Rights::BROWSE;
        for (rule, given, expected) in [
            ("level", user_level(&[3, 0x03], Rights::READ), Ok(vec![3, 0x01])),
            ("level that is none", user_level(&[7, 0, 0, 0, 0], Rights::READ), Err(Malformed::Invalid)),
            ("executable", executable(&[1, 1], call), Ok(vec![1, 1])),
            ("not by the grant", executable(&[1, 1], Rights::READ), Ok(vec![1, 0])),
            ("not by the server", executable(&[1, 0], call), Ok(vec![1, 0])),
            ("write mask", write_mask(&[7, 0xff, 0, 0, 0], Rights::WRITE), Ok(vec![7, 0, 0, 0, 0])),
        ] {
            assert_eq!(given, expected, "{rule}");
        }
    }

    #[test]
    fn role_permissions_are_cut() {
        let owned = ContextOwned::default();
        let roles = |permissions: i32| {
            let entry = RolePermissionType {
                role_id: NodeId::new(0, 15_644_u32),
                permissions: PermissionType::from_bits_truncate(permissions),
            };
            let entry = Variant::ExtensionObject(ExtensionObject::from_message(entry));
            let array = Array::new(VariantScalarTypeId::ExtensionObject, vec![entry]).unwrap();
            Variant::Array(Box::new(array)).encode_to_vec(&owned.context())
        };
        let read = Rights::BROWSE | Rights::READ;
        assert_eq!(role_permissions(&roles(0x1ffff), read), Ok(roles(0x21)));
        assert!(role_permissions(&[1, 1], read).is_err());
    }

    #[test]
    fn no_limit_is_the_largest() {
        assert_eq!([smaller(0, 5), smaller(5, 0), smaller(3, 5), smaller(0, 0)], [5, 5, 3, 0]);
    }
}
