//! What a request asks for, read with the decoder of the types crate: the other opinion on what a guard sends on as bytes.

use access_model::Action;
use opcua_types::{
    AttributeId, BinaryDecodable, BrowseRequest, CallMethodRequest, CallRequest, ContextOwned,
    CreateMonitoredItemsRequest, Identifier, MonitoredItemCreateRequest, MonitoringMode, NodeId, ObjectId, ReadRequest,
    RegisterNodesRequest, WriteRequest,
};

use super::SCOPES;

/// The nodes that a request asks something of, and what; `None` when it goes on behind its end. Empty for services that
/// name no node, and for what the decoder refuses, such as an enumeration's number that there is not.
#[must_use]
pub fn asked_of(body: &[u8]) -> Option<Vec<(NodeId, Action)>> {
    let Some((asked, rest)) = decode(body) else { return Some(Vec::new()) };
    (rest == 0).then_some(asked)
}

/// What is asked of which nodes, and how many bytes are left.
fn decode(body: &[u8]) -> Option<(Vec<(NodeId, Action)>, usize)> {
    let owned = ContextOwned::default();
    let ctx = owned.context();
    let mut stream = body;
    let id = NodeId::decode(&mut stream, &ctx).ok()?;
    let Identifier::Numeric(kind) = id.identifier else { return None };
    let read = |attribute: u32| if attribute == AttributeId::Value as u32 { Action::Read } else { Action::Browse };
    let is = |id: ObjectId| kind == id as u32;
    let asked = if is(ObjectId::ReadRequest_Encoding_DefaultBinary) {
        let items = ReadRequest::decode(&mut stream, &ctx).ok()?.nodes_to_read.unwrap_or_default();
        items.into_iter().map(|item| (item.node_id, read(item.attribute_id))).collect()
    } else if is(ObjectId::WriteRequest_Encoding_DefaultBinary) {
        let items = WriteRequest::decode(&mut stream, &ctx).ok()?.nodes_to_write.unwrap_or_default();
        items.into_iter().map(|item| (item.node_id, Action::Write)).collect()
    } else if is(ObjectId::CallRequest_Encoding_DefaultBinary) {
        let items = CallRequest::decode(&mut stream, &ctx).ok()?.methods_to_call.unwrap_or_default();
        let nodes = |item: CallMethodRequest| [(item.object_id, Action::Browse), (item.method_id, Action::Call)];
        items.into_iter().flat_map(nodes).collect()
    } else if is(ObjectId::BrowseRequest_Encoding_DefaultBinary) {
        let items = BrowseRequest::decode(&mut stream, &ctx).ok()?.nodes_to_browse.unwrap_or_default();
        items.into_iter().map(|item| (item.node_id, Action::Browse)).collect()
    } else if is(ObjectId::RegisterNodesRequest_Encoding_DefaultBinary) {
        let items = RegisterNodesRequest::decode(&mut stream, &ctx).ok()?.nodes_to_register.unwrap_or_default();
        items.into_iter().map(|node| (node, Action::Browse)).collect()
    } else if is(ObjectId::CreateMonitoredItemsRequest_Encoding_DefaultBinary) {
        let items = CreateMonitoredItemsRequest::decode(&mut stream, &ctx).ok()?.items_to_create.unwrap_or_default();
        let action = |item: &MonitoredItemCreateRequest| match item.monitoring_mode {
            MonitoringMode::Disabled => Action::Browse,
            _ => read(item.item_to_monitor.attribute_id),
        };
        items.into_iter().map(|item| (item.item_to_monitor.node_id.clone(), action(&item))).collect()
    } else {
        return None;
    };
    Some((asked, stream.len()))
}

/// The scope of one of the plant's nodes, counted from 1; the guard's own questions and those for nodes that never are
/// have none.
#[must_use]
pub fn scope_of(node: &NodeId) -> Option<u32> {
    match &node.identifier {
        Identifier::Numeric(number) if node.namespace == 1 => Some(number / 1_000),
        Identifier::String(name) if node.namespace == 1 => {
            let place = SCOPES.iter().position(|known| *known == name.as_ref())?;
            u32::try_from(place + 1).ok()
        }
        _ => None,
    }
}
