//! Browse and BrowseNext (OPC 10000-4 §5.9.2 and §5.9.3). The start node needs the right to browse; targets without it
//! are left out, at each page anew.

use access_model::{Action, AuditKind};
use opcua_types::{
    BrowseDescription, BrowseDirection, BrowseNextRequest, BrowseNextResponse, BrowseRequest, BrowseResponse,
    BrowseResult, ByteString, StatusCode,
};

use super::operations;
use crate::server::browse_points::BrowsePoint;
use crate::server::codec::{response_header, write_message};
use crate::server::desk::Desk;
use crate::space::BrowseSpec;

pub(crate) fn browse(desk: &mut Desk<'_>, request: &BrowseRequest, out: &mut Vec<u8>) -> Result<(), StatusCode> {
    if !request.view.view_id.is_null() {
        return Err(StatusCode::BadViewIdUnknown);
    }
    let nodes = request.nodes_to_browse.as_deref().unwrap_or_default();
    operations(nodes.len(), desk.config.limits.operations.max_nodes_per_browse)?;
    let most = desk.config.limits.max_references;
    let max = match request.requested_max_references_per_node as usize {
        0 => most,
        asked => asked.min(most),
    };
    let results = nodes.iter().map(|node| browse_one(desk, node, max).unwrap_or_else(refused)).collect();
    let response = BrowseResponse {
        response_header: response_header(desk.now, request.request_header.request_handle),
        results: Some(results),
        diagnostic_infos: None,
    };
    write_message(out, &response, &desk.codec.context(0))
}

pub(crate) fn browse_next(
    desk: &mut Desk<'_>,
    request: &BrowseNextRequest,
    out: &mut Vec<u8>,
) -> Result<(), StatusCode> {
    let points = request.continuation_points.as_deref().unwrap_or_default();
    operations(points.len(), desk.config.limits.operations.max_nodes_per_browse)?;
    let release = request.release_continuation_points;
    let results = points.iter().map(|point| next_one(desk, point, release).unwrap_or_else(refused)).collect();
    let response = BrowseNextResponse {
        response_header: response_header(desk.now, request.request_header.request_handle),
        results: Some(results),
        diagnostic_infos: None,
    };
    write_message(out, &response, &desk.codec.context(0))
}

fn refused(status_code: StatusCode) -> BrowseResult {
    BrowseResult { status_code, continuation_point: ByteString::null(), references: None }
}

fn browse_one(desk: &mut Desk<'_>, description: &BrowseDescription, max: usize) -> Result<BrowseResult, StatusCode> {
    let node = desk.space.find(&description.node_id).ok_or(StatusCode::BadNodeIdUnknown)?;
    desk.pass(Action::Browse, node, AuditKind::Browse)?;
    if description.browse_direction == BrowseDirection::Invalid {
        return Err(StatusCode::BadBrowseDirectionInvalid);
    }
    let spec = desk.space.browse_spec(description)?;
    page(desk, &spec, max)
}

fn next_one(desk: &mut Desk<'_>, id: &ByteString, release: bool) -> Result<BrowseResult, StatusCode> {
    let point = desk.session.browse_points.take(id).ok_or(StatusCode::BadContinuationPointInvalid)?;
    if release {
        return Ok(refused(StatusCode::Good));
    }
    desk.pass(Action::Browse, point.spec.node, AuditKind::Browse)?;
    page(desk, &point.spec, point.max)
}

fn page(desk: &mut Desk<'_>, spec: &BrowseSpec, max: usize) -> Result<BrowseResult, StatusCode> {
    let sight = desk.sight();
    let mut visible = |node| sight.visible(node);
    let page = desk.space.browse(spec, max, &mut visible);
    let continuation_point = match page.rest {
        Some(spec) => desk.session.browse_points.add(BrowsePoint { spec, max })?,
        None => ByteString::null(),
    };
    Ok(BrowseResult { status_code: StatusCode::Good, continuation_point, references: Some(page.references) })
}
