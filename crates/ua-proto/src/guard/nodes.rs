//! Node management (OPC 10000-4 §5.8): AddNodes, AddReferences, DeleteNodes, DeleteReferences, each with the rights that
//! OPC 10000-3 §8.55 names. A reference needs its right at both ends, or a hidden node could be hung where it is seen.

use access_model::{Action, AuditKind};
use opcua_types::{NodeId, ObjectId, StatusCode};

use super::change::{Cursor, Form, Item, Outcome, never_own, status_only, unchecked};
use super::walk::{asked_extension_object, boolean, expanded, qualified_name, span};
use crate::server::front::{Malformed, Reader, Told};

pub(super) const ADD_NODES: Form = Form {
    ids: (ObjectId::AddNodesRequest_Encoding_DefaultBinary, ObjectId::AddNodesResponse_Encoding_DefaultBinary),
    least: 21,
    read: new_node,
    result: added,
    bare: &[0, 0],
    unknown: StatusCode::BadParentNodeIdInvalid,
    ..DELETE_NODES
};
pub(super) const ADD_REFERENCES: Form = Form {
    ids: (
        ObjectId::AddReferencesRequest_Encoding_DefaultBinary,
        ObjectId::AddReferencesResponse_Encoding_DefaultBinary,
    ),
    least: 15,
    read: new_reference,
    unknown: StatusCode::BadSourceNodeIdInvalid,
    ..DELETE_NODES
};
pub(super) const DELETE_NODES: Form = Form {
    ids: (ObjectId::DeleteNodesRequest_Encoding_DefaultBinary, ObjectId::DeleteNodesResponse_Encoding_DefaultBinary),
    kind: AuditKind::NodesChanged,
    least: 3,
    limit: |limits| limits.nodes,
    read: old_node,
    check: unchecked,
    own: never_own,
    result: status_only,
    bare: &[],
    unknown: StatusCode::BadNodeIdUnknown,
    told: |_, _| Told::Nothing,
};
pub(super) const DELETE_REFERENCES: Form = Form {
    ids: (
        ObjectId::DeleteReferencesRequest_Encoding_DefaultBinary,
        ObjectId::DeleteReferencesResponse_Encoding_DefaultBinary,
    ),
    least: 8,
    read: old_reference,
    unknown: StatusCode::BadSourceNodeIdInvalid,
    ..DELETE_NODES
};

/// An ExpandedNodeId of this server that says its namespace by its index. Of another one nobody here can say what it
/// means to the server.
fn local(
    item: &mut Item,
    cursor: &mut Cursor<'_>,
    action: Option<Action>,
    refused: StatusCode,
) -> Result<(), Malformed> {
    let start = cursor.at();
    let target = expanded(&mut cursor.reader)?;
    let bytes = start..cursor.at();
    if target.uri.is_some() || target.server != 0 {
        item.refused.get_or_insert(refused);
    }
    match action {
        Some(action) if !target.id.is_null() => item.touch(target.id, action, bytes),
        _ => item.only_real(bytes, &[0, 0]),
    }
    Ok(())
}

/// A NodeId that must be visible, if there is one.
fn seen(item: &mut Item, cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
    let start = cursor.at();
    let node = cursor.reader.node_id()?;
    if node.is_null() {
        item.bytes(start..cursor.at());
    } else {
        item.touch(node, Action::Browse, start..cursor.at());
    }
    Ok(())
}

fn new_node(cursor: &mut Cursor<'_>) -> Result<Item, Malformed> {
    let mut item = Item::default();
    local(&mut item, cursor, Some(Action::AddReference), StatusCode::BadParentNodeIdInvalid)?;
    if item.touched.is_empty() {
        item.refused.get_or_insert(StatusCode::BadParentNodeIdInvalid);
    }
    seen(&mut item, cursor)?;
    // The new node lies in the scope of the id it asks for; one that the server is to choose, in that of its parent.
    let before = item.touched.len();
    local(&mut item, cursor, Some(Action::AddNode), StatusCode::BadNodeIdRejected)?;
    let chosen = item.touched.len() == before;
    let name = cursor.range(|reader| qualified_name(reader).map(drop))?;
    item.bytes(name);
    let class = cursor.range(|reader| reader.bytes(4).map(drop))?;
    item.only_real(class, &[0; 4]);
    let attributes = cursor.range(|reader| asked_extension_object(reader).map(drop))?;
    item.only_real(attributes, &[0; 3]);
    local(&mut item, cursor, Some(Action::Browse), StatusCode::BadTypeDefinitionInvalid)?;
    if chosen {
        item.also(0, Action::AddNode);
    }
    (item.structures, item.text) = (true, "a node is added".to_owned());
    Ok(item)
}

fn new_reference(cursor: &mut Cursor<'_>) -> Result<Item, Malformed> {
    let mut item = Item::default();
    item.node(cursor, Action::AddReference)?;
    seen(&mut item, cursor)?;
    let middle = cursor.at();
    boolean(&mut cursor.reader)?;
    if !cursor.reader.string()?.is_empty() {
        item.refused = Some(StatusCode::BadServerUriInvalid);
    }
    item.bytes(middle..cursor.at());
    local(&mut item, cursor, Some(Action::AddReference), StatusCode::BadTargetNodeIdInvalid)?;
    let class = cursor.range(|reader| reader.bytes(4).map(drop))?;
    item.bytes(class);
    item.text = "a reference is added".to_owned();
    Ok(item)
}

fn old_node(cursor: &mut Cursor<'_>) -> Result<Item, Malformed> {
    let mut item = Item::default();
    item.node(cursor, Action::DeleteNode)?;
    let flag = cursor.range(|reader| boolean(reader).map(drop))?;
    item.bytes(flag);
    item.text = "the node is deleted".to_owned();
    Ok(item)
}

fn old_reference(cursor: &mut Cursor<'_>) -> Result<Item, Malformed> {
    let mut item = Item::default();
    item.node(cursor, Action::RemoveReference)?;
    seen(&mut item, cursor)?;
    let flag = cursor.range(|reader| boolean(reader).map(drop))?;
    item.bytes(flag);
    local(&mut item, cursor, Some(Action::RemoveReference), StatusCode::BadTargetNodeIdInvalid)?;
    let both = cursor.range(|reader| boolean(reader).map(drop))?;
    item.bytes(both);
    item.text = "a reference is deleted".to_owned();
    Ok(item)
}

/// An AddNodesResult.
fn added(reader: &mut Reader<'_>) -> Outcome {
    let mut status = 0;
    let bytes = span(reader, |reader| {
        status = reader.u32()?;
        reader.node_id().map(|_: NodeId| ())
    })?;
    Ok((StatusCode::from(status), bytes.to_vec()))
}
