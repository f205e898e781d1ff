//! Attributes that depend on who asks (OPC 10000-3 §5.2 and §8.55): they tell the truth for the session.

use access_model::{Action, Rights};
use opcua_types::{
    AttributeId, ExtensionObject, NodeId, PermissionType, RolePermissionType, StatusCode, Variant, VariantScalarTypeId,
};

use crate::server::desk::Desk;
use crate::space::{AccessLevel, NodeRef};

/// The roles of the standard (facts section 7.1), by name.
const WELL_KNOWN: [(&str, u32); 10] = [
    ("Anonymous", ANONYMOUS),
    ("AuthenticatedUser", AUTHENTICATED),
    ("TrustedApplication", 18_625),
    ("Observer", 15_668),
    ("Operator", 15_680),
    ("Engineer", 16_036),
    ("Supervisor", 15_692),
    ("SecurityAdmin", 15_704),
    ("ConfigureAdmin", 15_716),
    ("SecurityKeyServerAdmin", 25_565),
];

/// Role Anonymous: every session has it.
pub(crate) const ANONYMOUS: u32 = 15_644;
/// Role AuthenticatedUser: every session but anonymous ones has it.
pub(crate) const AUTHENTICATED: u32 = 15_656;

/// Bits of WriteMask that need a right of their own (facts section 7.3).
const MASK_HISTORIZING: u32 = 1 << 9;
const MASK_ROLE_PERMISSIONS: u32 = 1 << 23;

/// The node number of a well-known role.
pub(crate) fn role_node(name: &str) -> Option<u32> {
    let same = |known: &str| known.eq_ignore_ascii_case(name);
    WELL_KNOWN.iter().find(|(known, _)| same(known)).map(|(_, node)| *node)
}

/// What reading an attribute takes (facts section 8).
#[inline]
pub(crate) fn needed(attribute: AttributeId) -> Action {
    match attribute {
        AttributeId::Value => Action::Read,
        AttributeId::RolePermissions => Action::ReadRolePermissions,
        _ => Action::Browse,
    }
}

/// Any attribute but Value, for this session. The right to read it was checked.
pub(crate) fn read_attribute(desk: &Desk<'_>, node: NodeRef, attribute: AttributeId) -> Result<Variant, StatusCode> {
    let space = &*desk.space;
    match attribute {
        AttributeId::UserAccessLevel => {
            // Asked first: it says whether the node has such an attribute at all.
            space.attribute(node, AttributeId::AccessLevel)?;
            let level = user_access_level(space.access_level(node), desk.rights(node));
            Ok(Variant::Byte(u8::try_from(level.0 & 0xff).unwrap_or(0)))
        }
        AttributeId::UserExecutable => match space.attribute(node, AttributeId::Executable)? {
            Variant::Boolean(executable) => {
                Ok(Variant::Boolean(executable && desk.rights(node).contains(Rights::CALL)))
            }
            _ => Err(StatusCode::BadAttributeIdInvalid),
        },
        AttributeId::UserWriteMask => match space.attribute(node, AttributeId::WriteMask)? {
            Variant::UInt32(mask) => Ok(Variant::UInt32(user_write_mask(mask, desk.rights(node)))),
            _ => Err(StatusCode::BadAttributeIdInvalid),
        },
        AttributeId::UserRolePermissions => Ok(user_role_permissions(desk, node)),
        other => space.attribute(node, other),
    }
}

/// AccessLevel cut down to what the rights allow.
pub(crate) fn user_access_level(level: AccessLevel, rights: Rights) -> AccessLevel {
    let modify_history = Rights::INSERT_HISTORY | Rights::MODIFY_HISTORY | Rights::DELETE_HISTORY;
    let writes = AccessLevel::CURRENT_WRITE.0 | AccessLevel::STATUS_WRITE.0 | AccessLevel::TIMESTAMP_WRITE.0;
    let mut denied = 0;
    if !rights.contains(Rights::READ) {
        denied |= AccessLevel::CURRENT_READ.0;
    }
    if !rights.contains(Rights::WRITE) {
        denied |= writes;
    }
    if !rights.contains(Rights::READ_HISTORY) {
        denied |= AccessLevel::HISTORY_READ.0;
    }
    if (rights & modify_history).is_empty() {
        denied |= AccessLevel::HISTORY_WRITE.0;
    }
    AccessLevel(level.0 & !denied)
}

pub(crate) fn user_write_mask(mask: u32, rights: Rights) -> u32 {
    let mut allowed = 0;
    if rights.contains(Rights::WRITE_HISTORIZING) {
        allowed |= MASK_HISTORIZING;
    }
    if rights.contains(Rights::WRITE_ROLE_PERMISSIONS) {
        allowed |= MASK_ROLE_PERMISSIONS;
    }
    if rights.contains(Rights::WRITE_ATTRIBUTE) {
        allowed |= !(MASK_HISTORIZING | MASK_ROLE_PERMISSIONS);
    }
    mask & allowed
}

/// The session's roles on this node. Rights are decided for a session as a whole, so each of its roles shows them all:
/// the union, which is what a client computes, is exact.
fn user_role_permissions(desk: &Desk<'_>, node: NodeRef) -> Variant {
    let rights = desk.sight().granted(node);
    let mut roles = vec![ANONYMOUS];
    if let Some(login) = &desk.session.login {
        if login.user.is_some() {
            roles.push(AUTHENTICATED);
        }
        roles.extend(login.roles.iter().filter(|role| ![ANONYMOUS, AUTHENTICATED].contains(role)));
    }
    let permissions = PermissionType::from_bits_truncate(i32::try_from(rights.bits()).unwrap_or(0));
    let entry = |role: u32| {
        Variant::ExtensionObject(ExtensionObject::new(RolePermissionType {
            role_id: NodeId::new(0, role),
            permissions,
        }))
    };
    let entries: Vec<Variant> = roles.into_iter().map(entry).collect();
    Variant::from((VariantScalarTypeId::ExtensionObject, entries))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_access_level_is_access_level_and_rights() {
        let all = AccessLevel(0x7f);
        for (rights, expected) in [
            (Rights::NONE, 0x10),
            (Rights::READ, 0x11),
            (Rights::WRITE, 0x72),
            (Rights::READ_HISTORY, 0x14),
            (Rights::DELETE_HISTORY, 0x18),
            (Rights::ALL, 0x7f),
        ] {
            assert_eq!(user_access_level(all, rights), AccessLevel(expected), "{rights}");
        }
        assert_eq!(user_access_level(AccessLevel::READ, Rights::ALL), AccessLevel::READ, "nothing is added");
    }

    #[test]
    fn user_write_mask_follows_the_three_rights() {
        let mask = MASK_HISTORIZING | MASK_ROLE_PERMISSIONS | 1 << 5;
        for (rights, expected) in [
            (Rights::NONE, 0),
            (Rights::WRITE, 0),
            (Rights::WRITE_ATTRIBUTE, 1 << 5),
            (Rights::WRITE_HISTORIZING, MASK_HISTORIZING),
            (Rights::WRITE_ROLE_PERMISSIONS, MASK_ROLE_PERMISSIONS),
        ] {
            assert_eq!(user_write_mask(mask, rights), expected, "{rights}");
        }
    }
}
