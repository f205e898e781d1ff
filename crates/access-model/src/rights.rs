//! Rights: the permission bits of OPC 10000-3 §8.55 (`PermissionType`, ns0 i=94), which every gate shares.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Not};

/// A set of rights, one bit each, numbered as in OPC 10000-3 §8.55. A plain union: there is no "deny" bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rights(u32);

/// Bit, name in the OPC UA standard, name in policies and tokens.
const NAMES: [(Rights, &str); 17] = [
    (Rights::BROWSE, "browse"),
    (Rights::READ_ROLE_PERMISSIONS, "read_role_permissions"),
    (Rights::WRITE_ATTRIBUTE, "write_attribute"),
    (Rights::WRITE_ROLE_PERMISSIONS, "write_role_permissions"),
    (Rights::WRITE_HISTORIZING, "write_historizing"),
    (Rights::READ, "read"),
    (Rights::WRITE, "write"),
    (Rights::READ_HISTORY, "read_history"),
    (Rights::INSERT_HISTORY, "insert_history"),
    (Rights::MODIFY_HISTORY, "modify_history"),
    (Rights::DELETE_HISTORY, "delete_history"),
    (Rights::RECEIVE_EVENTS, "receive_events"),
    (Rights::CALL, "call"),
    (Rights::ADD_REFERENCE, "add_reference"),
    (Rights::REMOVE_REFERENCE, "remove_reference"),
    (Rights::DELETE_NODE, "delete_node"),
    (Rights::ADD_NODE, "add_node"),
];

impl Rights {
    /// No right at all.
    pub const NONE: Self = Self(0);
    /// See the node: its existence, its references, its attributes other than Value and RolePermissions.
    pub const BROWSE: Self = Self(1);
    /// Read the RolePermissions attribute.
    pub const READ_ROLE_PERMISSIONS: Self = Self(1 << 1);
    /// Write attributes other than Value, Historizing and RolePermissions.
    pub const WRITE_ATTRIBUTE: Self = Self(1 << 2);
    /// Write the RolePermissions attribute.
    pub const WRITE_ROLE_PERMISSIONS: Self = Self(1 << 3);
    /// Write the Historizing attribute.
    pub const WRITE_HISTORIZING: Self = Self(1 << 4);
    /// Read the Value attribute.
    pub const READ: Self = Self(1 << 5);
    /// Write the Value attribute.
    pub const WRITE: Self = Self(1 << 6);
    /// Read the history of the node.
    pub const READ_HISTORY: Self = Self(1 << 7);
    /// Insert into the history.
    pub const INSERT_HISTORY: Self = Self(1 << 8);
    /// Replace history.
    pub const MODIFY_HISTORY: Self = Self(1 << 9);
    /// Delete history.
    pub const DELETE_HISTORY: Self = Self(1 << 10);
    /// Receive events of this type or from this source.
    pub const RECEIVE_EVENTS: Self = Self(1 << 11);
    /// Call the method, or a method on the object; both nodes are checked.
    pub const CALL: Self = Self(1 << 12);
    /// Add references to the node.
    pub const ADD_REFERENCE: Self = Self(1 << 13);
    /// Remove references from the node.
    pub const REMOVE_REFERENCE: Self = Self(1 << 14);
    /// Delete the node.
    pub const DELETE_NODE: Self = Self(1 << 15);
    /// Add nodes to the namespace.
    pub const ADD_NODE: Self = Self(1 << 16);
    /// Every right.
    pub const ALL: Self = Self((1 << 17) - 1);

    /// The set with these bits; `None` if a bit outside [`Rights::ALL`] is set.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Option<Self> {
        if bits & !Self::ALL.0 == 0 { Some(Self(bits)) } else { None }
    }

    /// The bits, numbered as in OPC 10000-3 §8.55.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether every right of `other` is in this set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The single right with this name (as printed by `Display`), if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, known)| *known == name).map(|(right, _)| *right)
    }

    /// The single rights in this set, with their names, in bit order.
    pub fn iter(self) -> impl Iterator<Item = (Self, &'static str)> {
        NAMES.into_iter().filter(move |(right, _)| self.contains(*right))
    }
}

impl BitOr for Rights {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Rights {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for Rights {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Not for Rights {
    type Output = Self;
    fn not(self) -> Self {
        Self(!self.0 & Self::ALL.0)
    }
}

/// Names joined by `|`, or `none`.
impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (position, (_, name)) in self.iter().enumerate() {
            if position > 0 {
                f.write_str("|")?;
            }
            f.write_str(name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_has_a_name_that_leads_back() {
        let mut all = Rights::NONE;
        for (right, name) in NAMES {
            assert_eq!(Rights::from_name(name), Some(right));
            assert_eq!(right.bits().count_ones(), 1);
            all |= right;
        }
        assert_eq!(all, Rights::ALL);
    }

    #[test]
    fn bits_outside_the_standard_are_refused() {
        assert_eq!(Rights::from_bits(1 << 17), None);
        assert_eq!(Rights::from_bits(Rights::ALL.bits()), Some(Rights::ALL));
    }

    #[test]
    fn display_names_the_rights() {
        assert_eq!((Rights::READ | Rights::BROWSE).to_string(), "browse|read");
        assert_eq!(Rights::NONE.to_string(), "none");
    }
}
