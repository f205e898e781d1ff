//! RegisterNodes and UnregisterNodes (OPC 10000-4 §5.9.5 and §5.9.6). A node is its own alias, so that an alias can
//! never outlive a right.

use access_model::{Action, AuditKind};
use opcua_types::{
    RegisterNodesRequest, RegisterNodesResponse, StatusCode, UnregisterNodesRequest, UnregisterNodesResponse,
};

use super::operations;
use crate::server::codec::{response_header, write_message};
use crate::server::desk::Desk;

pub(crate) fn register(
    desk: &mut Desk<'_>,
    request: &RegisterNodesRequest,
    out: &mut Vec<u8>,
) -> Result<(), StatusCode> {
    let nodes = request.nodes_to_register.as_deref().unwrap_or_default();
    operations(nodes.len(), desk.config.limits.operations.max_nodes_per_register_nodes)?;
    for id in nodes {
        // The service has no result per node: one that is hidden or missing fails the call, both alike.
        let node = desk.space.find(id).ok_or(StatusCode::BadNodeIdUnknown)?;
        desk.pass(Action::Browse, node, AuditKind::Browse)?;
    }
    let response = RegisterNodesResponse {
        response_header: response_header(desk.now, request.request_header.request_handle),
        registered_node_ids: Some(nodes.to_vec()),
    };
    write_message(out, &response, &desk.codec.context(0))
}

pub(crate) fn unregister(
    desk: &mut Desk<'_>,
    request: &UnregisterNodesRequest,
    out: &mut Vec<u8>,
) -> Result<(), StatusCode> {
    let count = request.nodes_to_unregister.as_ref().map_or(0, Vec::len);
    operations(count, desk.config.limits.operations.max_nodes_per_register_nodes)?;
    let response =
        UnregisterNodesResponse { response_header: response_header(desk.now, request.request_header.request_handle) };
    write_message(out, &response, &desk.codec.context(0))
}
