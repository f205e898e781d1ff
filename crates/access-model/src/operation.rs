//! What a peer wants to do to one item of one request.

use crate::{Rights, ScopeIndex};

/// One kind of operation on one node. Each needs the rights that [`Action::needed`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Action {
    /// See the node in Browse, TranslateBrowsePaths, RegisterNodes, or read one of its plain attributes.
    Browse,
    /// Read the Value attribute, once or as a monitored item.
    Read,
    /// Write the Value attribute.
    Write,
    /// Call the node: as the object or as the method.
    Call,
    /// Read RolePermissions.
    ReadRolePermissions,
    /// Write an attribute other than Value, Historizing, RolePermissions.
    WriteAttribute,
    /// Write RolePermissions.
    WriteRolePermissions,
    /// Write Historizing.
    WriteHistorizing,
    /// Read history.
    ReadHistory,
    /// Insert history.
    InsertHistory,
    /// Replace history.
    ModifyHistory,
    /// Insert or replace history: needs both rights.
    UpdateHistory,
    /// Delete history.
    DeleteHistory,
    /// Receive an event of this type or source.
    ReceiveEvents,
    /// Add a reference.
    AddReference,
    /// Remove a reference.
    RemoveReference,
    /// Delete the node.
    DeleteNode,
    /// Add a node.
    AddNode,
}

impl Action {
    /// Every action, in declaration order.
    pub const ALL: [Self; 18] = [
        Self::Browse,
        Self::Read,
        Self::Write,
        Self::Call,
        Self::ReadRolePermissions,
        Self::WriteAttribute,
        Self::WriteRolePermissions,
        Self::WriteHistorizing,
        Self::ReadHistory,
        Self::InsertHistory,
        Self::ModifyHistory,
        Self::UpdateHistory,
        Self::DeleteHistory,
        Self::ReceiveEvents,
        Self::AddReference,
        Self::RemoveReference,
        Self::DeleteNode,
        Self::AddNode,
    ];

    /// The rights that must all be granted on the node's scope (OPC 10000-3 §8.55).
    #[must_use]
    pub const fn needed(self) -> Rights {
        match self {
            Self::Browse => Rights::BROWSE,
            Self::Read => Rights::READ,
            Self::Write => Rights::WRITE,
            Self::Call => Rights::CALL,
            Self::ReadRolePermissions => Rights::READ_ROLE_PERMISSIONS,
            Self::WriteAttribute => Rights::WRITE_ATTRIBUTE,
            Self::WriteRolePermissions => Rights::WRITE_ROLE_PERMISSIONS,
            Self::WriteHistorizing => Rights::WRITE_HISTORIZING,
            Self::ReadHistory => Rights::READ_HISTORY,
            Self::InsertHistory => Rights::INSERT_HISTORY,
            Self::ModifyHistory => Rights::MODIFY_HISTORY,
            Self::UpdateHistory => {
                match Rights::from_bits(Rights::INSERT_HISTORY.bits() | Rights::MODIFY_HISTORY.bits()) {
                    Some(both) => both,
                    None => Rights::ALL,
                }
            }
            Self::DeleteHistory => Rights::DELETE_HISTORY,
            Self::ReceiveEvents => Rights::RECEIVE_EVENTS,
            Self::AddReference => Rights::ADD_REFERENCE,
            Self::RemoveReference => Rights::REMOVE_REFERENCE,
            Self::DeleteNode => Rights::DELETE_NODE,
            Self::AddNode => Rights::ADD_NODE,
        }
    }

    /// The name in policies, audit records and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Browse => "browse",
            Self::Read => "read",
            Self::Write => "write",
            Self::Call => "call",
            Self::ReadRolePermissions => "read_role_permissions",
            Self::WriteAttribute => "write_attribute",
            Self::WriteRolePermissions => "write_role_permissions",
            Self::WriteHistorizing => "write_historizing",
            Self::ReadHistory => "read_history",
            Self::InsertHistory => "insert_history",
            Self::ModifyHistory => "modify_history",
            Self::UpdateHistory => "update_history",
            Self::DeleteHistory => "delete_history",
            Self::ReceiveEvents => "receive_events",
            Self::AddReference => "add_reference",
            Self::RemoveReference => "remove_reference",
            Self::DeleteNode => "delete_node",
            Self::AddNode => "add_node",
        }
    }

    /// The action with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }

    /// Whether this action changes the plant, so that its record is written before it is answered (DESIGN D12).
    #[must_use]
    pub const fn changes(self) -> bool {
        !matches!(self, Self::Browse | Self::Read | Self::ReadRolePermissions | Self::ReadHistory | Self::ReceiveEvents)
    }
}

/// One action on one node of one server, as a gate checks it. Small and `Copy`: it is built per item on the hot path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    /// What is asked.
    pub action: Action,
    /// The scope that holds the node.
    pub scope: ScopeIndex,
    /// The protocol's own handle of the node; the gate carries it through and never reads it.
    pub node: u64,
}
