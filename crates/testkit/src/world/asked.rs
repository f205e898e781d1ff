//! What a request asks for, read with the decoder of the types crate: the other opinion on what a guard sends on as bytes.

use access_model::Action;
use opcua_types::{
    AddNodesRequest, AddReferencesRequest, AttributeId, BinaryDecodable, BinaryEncodable, BrowseRequest, CallRequest,
    Context, ContextOwned, CreateMonitoredItemsRequest, DeleteNodesRequest, DeleteReferencesRequest, EncodingResult,
    ExtensionObject, HistoryReadRequest, HistoryUpdateRequest, Identifier, MonitoringMode, NodeId, ObjectId,
    ReadRequest, RegisterNodesRequest, TranslateBrowsePathsToNodeIdsRequest, UnregisterNodesRequest, Variant,
    WriteRequest,
};

use super::SCOPES;

/// What a request asks of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The node.
    pub node: NodeId,
    /// What is to be done with it. Updates of history are all `UpdateHistory` here.
    pub action: Action,
    /// The numbers that are written or handed to a method, in order and in words; and the part of the value.
    pub values: Vec<String>,
}

/// The nodes that a request asks something of, and what; `None` when it goes on behind its end. Empty for services that
/// name no node, and for what the decoder refuses, such as an enumeration's number that there is not.
#[must_use]
pub fn asked_of(body: &[u8]) -> Option<Vec<(NodeId, Action)>> {
    let Some((asked, rest)) = asked_in(body) else { return Some(Vec::new()) };
    (rest == 0).then(|| asked.into_iter().map(|asked| (asked.node, asked.action)).collect())
}

/// What is asked of which nodes, and how many bytes are left; `None` for services that name no node, and for what the
/// decoder refuses.
#[must_use]
pub fn asked_in(body: &[u8]) -> Option<(Vec<Asked>, usize)> {
    let owned = ContextOwned::default();
    let ctx = owned.context();
    let mut stream = body;
    let id = NodeId::decode(&mut stream, &ctx).ok()?;
    let Identifier::Numeric(kind) = id.identifier else { return None };
    let mut asked = Vec::new();
    let reader = READERS.iter().find(|(id, _)| *id as u32 == kind)?.1;
    reader(&mut stream, &ctx, &mut asked).ok()?;
    asked.retain(|asked| !asked.node.is_null());
    Some((asked, stream.len()))
}

type Reading = fn(&mut &[u8], &Context<'_>, &mut Vec<Asked>) -> EncodingResult<()>;

/// Where the nodes of each service stand.
const READERS: [(ObjectId, Reading); 14] = [
    (ObjectId::ReadRequest_Encoding_DefaultBinary, |stream, ctx, asked| {
        for item in ReadRequest::decode(stream, ctx)?.nodes_to_read.into_iter().flatten() {
            asked.push(Asked::of(item.node_id, read(item.attribute_id)).with(item.index_range.to_string()));
        }
        Ok(())
    }),
    (ObjectId::WriteRequest_Encoding_DefaultBinary, |stream, ctx, asked| {
        for item in WriteRequest::decode(stream, ctx)?.nodes_to_write.into_iter().flatten() {
            let mut write = Asked::of(item.node_id, Action::Write).with(item.index_range.to_string());
            write.values.push(item.attribute_id.to_string());
            write.values.extend(item.value.value.as_ref().and_then(number));
            asked.push(write);
        }
        Ok(())
    }),
    (ObjectId::CallRequest_Encoding_DefaultBinary, |stream, ctx, asked| {
        for item in CallRequest::decode(stream, ctx)?.methods_to_call.into_iter().flatten() {
            let numbers = item.input_arguments.iter().flatten().filter_map(number).collect();
            asked.push(Asked::of(item.object_id, Action::Browse));
            asked.push(Asked { values: numbers, ..Asked::of(item.method_id, Action::Call) });
        }
        Ok(())
    }),
    (ObjectId::BrowseRequest_Encoding_DefaultBinary, |stream, ctx, asked| {
        let request = BrowseRequest::decode(stream, ctx)?;
        asked.push(Asked::of(request.view.view_id, Action::Browse));
        for item in request.nodes_to_browse.into_iter().flatten() {
            asked.push(Asked::of(item.node_id, Action::Browse));
            asked.push(Asked::of(item.reference_type_id, Action::Browse));
        }
        Ok(())
    }),
    (ObjectId::TranslateBrowsePathsToNodeIdsRequest_Encoding_DefaultBinary, |stream, ctx, asked| {
        let request = TranslateBrowsePathsToNodeIdsRequest::decode(stream, ctx)?;
        let paths = request.browse_paths.into_iter().flatten();
        asked.extend(paths.map(|path| Asked::of(path.starting_node, Action::Browse)));
        Ok(())
    }),
    (ObjectId::RegisterNodesRequest_Encoding_DefaultBinary, |stream, ctx, asked| {
        let nodes = RegisterNodesRequest::decode(stream, ctx)?.nodes_to_register.into_iter().flatten();
        asked.extend(nodes.map(|node| Asked::of(node, Action::Browse)));
        Ok(())
    }),
    (ObjectId::UnregisterNodesRequest_Encoding_DefaultBinary, |stream, ctx, asked| {
        let nodes = UnregisterNodesRequest::decode(stream, ctx)?.nodes_to_unregister.into_iter().flatten();
        asked.extend(nodes.map(|node| Asked::of(node, Action::Browse)));
        Ok(())
    }),
    (ObjectId::CreateMonitoredItemsRequest_Encoding_DefaultBinary, |stream, ctx, asked| {
        for item in CreateMonitoredItemsRequest::decode(stream, ctx)?.items_to_create.into_iter().flatten() {
            let wanted = item.item_to_monitor;
            let action = match item.monitoring_mode {
                MonitoringMode::Disabled => Action::Browse,
                _ => read(wanted.attribute_id),
            };
            asked.push(Asked::of(wanted.node_id, action).with(wanted.index_range.to_string()));
        }
        Ok(())
    }),
    (ObjectId::HistoryReadRequest_Encoding_DefaultBinary, |stream, ctx, asked| {
        let nodes = HistoryReadRequest::decode(stream, ctx)?.nodes_to_read.into_iter().flatten();
        asked.extend(nodes.map(|item| Asked::of(item.node_id, Action::ReadHistory)));
        Ok(())
    }),
    (ObjectId::HistoryUpdateRequest_Encoding_DefaultBinary, |stream, ctx, asked| {
        let details = HistoryUpdateRequest::decode(stream, ctx)?.history_update_details.into_iter().flatten();
        asked.extend(
            details.filter_map(|details| first_node(&details, ctx)).map(|node| Asked::of(node, Action::UpdateHistory)),
        );
        Ok(())
    }),
    (ObjectId::AddNodesRequest_Encoding_DefaultBinary, |stream, ctx, asked| {
        for item in AddNodesRequest::decode(stream, ctx)?.nodes_to_add.into_iter().flatten() {
            asked.push(Asked::of(item.parent_node_id.node_id, Action::AddReference));
            asked.push(Asked::of(item.reference_type_id, Action::Browse));
            asked.push(Asked::of(item.requested_new_node_id.node_id, Action::AddNode));
            asked.push(Asked::of(item.type_definition.node_id, Action::Browse));
        }
        Ok(())
    }),
    (ObjectId::AddReferencesRequest_Encoding_DefaultBinary, |stream, ctx, asked| {
        for item in AddReferencesRequest::decode(stream, ctx)?.references_to_add.into_iter().flatten() {
            asked.push(Asked::of(item.source_node_id, Action::AddReference));
            asked.push(Asked::of(item.reference_type_id, Action::Browse));
            asked.push(Asked::of(item.target_node_id.node_id, Action::AddReference));
        }
        Ok(())
    }),
    (ObjectId::DeleteNodesRequest_Encoding_DefaultBinary, |stream, ctx, asked| {
        let nodes = DeleteNodesRequest::decode(stream, ctx)?.nodes_to_delete.into_iter().flatten();
        asked.extend(nodes.map(|item| Asked::of(item.node_id, Action::DeleteNode)));
        Ok(())
    }),
    (ObjectId::DeleteReferencesRequest_Encoding_DefaultBinary, |stream, ctx, asked| {
        for item in DeleteReferencesRequest::decode(stream, ctx)?.references_to_delete.into_iter().flatten() {
            asked.push(Asked::of(item.source_node_id, Action::RemoveReference));
            asked.push(Asked::of(item.reference_type_id, Action::Browse));
            asked.push(Asked::of(item.target_node_id.node_id, Action::RemoveReference));
        }
        Ok(())
    }),
];

impl Asked {
    fn of(node: NodeId, action: Action) -> Self {
        Self { node, action, values: Vec::new() }
    }

    fn with(mut self, part: String) -> Self {
        self.values.push(part);
        self
    }
}

const fn read(attribute: u32) -> Action {
    if attribute == AttributeId::Value as u32 { Action::Read } else { Action::Browse }
}

/// The node that the details of an update of history begin with.
fn first_node(details: &ExtensionObject, ctx: &Context<'_>) -> Option<NodeId> {
    let bytes = details.encode_to_vec(ctx);
    let mut stream = bytes.as_slice();
    NodeId::decode(&mut stream, ctx).ok()?;
    let mut body = stream.get(5..)?;
    NodeId::decode(&mut body, ctx).ok()
}

/// A number in words; nothing of what is none, for what decoders make of a time or a structure is their own affair.
fn number(value: &Variant) -> Option<String> {
    Some(match value {
        Variant::Boolean(value) => value.to_string(),
        Variant::SByte(value) => value.to_string(),
        Variant::Byte(value) => value.to_string(),
        Variant::Int16(value) => value.to_string(),
        Variant::UInt16(value) => value.to_string(),
        Variant::Int32(value) => value.to_string(),
        Variant::UInt32(value) => value.to_string(),
        Variant::Int64(value) => value.to_string(),
        Variant::UInt64(value) => value.to_string(),
        Variant::Float(value) => value.to_string(),
        Variant::Double(value) => value.to_string(),
        Variant::Array(array) => array.values.iter().filter_map(number).collect::<Vec<_>>().join(","),
        Variant::Variant(value) => number(value)?,
        _ => return None,
    })
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
